// SPDX-License-Identifier: Apache-2.0
// GroupQueryAttention of com.microsoft: operands packed and apart, rotation, windows, caps, caches
// of all kinds, over open batches and lengths: compiled and evaluated, against the formula in
// double. onnxruntime 1.32.0 on the CPU answers alike where it takes the form: it refuses several
// rows behind a past in more than one batch, clears what a cache has behind the present keys, and
// computes rows of padding otherwise.
#include "test/unit/frontends/attention_reference.h"

#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>

enum { HEADS = 4, SHARED = 2, HEAD = 8, MOST = 4096, POSITIONS = 32 };

typedef enum rotation_t { STILL, HALVES, PAIRS } rotation_t;

typedef struct form_t {
  const char *name;
  bool packed, smooth;
  rotation_t rotation;
  int64_t half;   // columns of the tables of angles: HEAD / 2, or less
  int64_t window; // 0: none
  double softcap;
  bool added, placed; // scores have a bias; positions are given
} form_t;

static const form_t forms[] = {
    {.name = "plain"},
    {.name = "packed", .packed = true},
    {.name = "packed, rotated", .packed = true, .rotation = HALVES, .half = 4},
    {.name = "rotated pairs", .rotation = PAIRS, .half = 4},
    {.name = "packed, half of a head rotated", .packed = true, .rotation = HALVES, .half = 2},
    {.name = "half of a head rotated in pairs", .rotation = PAIRS, .half = 2},
    {.name = "positions", .rotation = HALVES, .half = 4, .placed = true},
    {.name = "window of 1", .window = 1},
    {.name = "packed, window of 3", .packed = true, .window = 3},
    {.name = "softcap", .softcap = 0.25},
    {.name = "smooth", .smooth = true},
    {.name = "bias", .added = true},
    {.name = "all",
     .packed = true,
     .smooth = true,
     .rotation = HALVES,
     .half = 4,
     .window = 2,
     .softcap = 0.5,
     .added = true,
     .placed = true},
};

// What a call gets: queries a batch, places of the cache, and the keys that each batch has with
// those that come, of which the greatest is the `total`.
typedef struct sizes_t {
  const char *what;
  int64_t b, s, p, total, keys[3];
} sizes_t;

static const sizes_t calls[] = {
    {"a prompt", 2, 5, 0, 5, {5, 5}},
    // Rows behind a batch's keys are padding, which is computed as the others are.
    {"prompts of several lengths", 3, 5, 0, 5, {5, 2, 4}},
    {"a prompt in a long cache", 1, 4, 9, 4, {4}},
    {"one more", 3, 1, 6, 7, {7, 7, 7}},
    {"one more, batches of several lengths", 3, 1, 6, 7, {7, 4, 2}},
    {"one more in a long cache", 2, 1, 8, 6, {6, 3}},
    {"several more", 2, 3, 4, 7, {7, 7}},
    {"several more in a long cache", 1, 3, 12, 7, {7}},
    {"no batch", 0, 2, 3, 5, {0}},
};

enum { Q, K, V, PAST_K, PAST_V, LAST, TOTAL, COS, SIN, PLACES, ADDED, N_IN };

// ---- Models -----------------------------------------------------------------------------------------
static rig_model_t open_form(const fixture_t *fixture, const form_t *f) {
  static const char packed[] = INPUT("q", "1", OPEN("b") OPEN("s") SIZE(64));
  static const char apart[] = INPUT("q", "1", OPEN("b") OPEN("s") SIZE(32))
      INPUT("k", "1", OPEN("b") OPEN("s") SIZE(16)) INPUT("v", "1", OPEN("b") OPEN("s") SIZE(16));
  char graph[4096], tables[512] = "";
  if (f->rotation)
    (void)snprintf(tables, sizeof tables,
                   INPUT("cos", "1", SIZE(32) "dim { dim_value %d } ")
                       INPUT("sin", "1", SIZE(32) "dim { dim_value %d } "),
                   (int)f->half, (int)f->half);
  (void)snprintf(
      graph, sizeof graph,
      "%s" INPUT("pk", "1", OPEN("b") SIZE(2) OPEN("p") SIZE(8)) INPUT(
          "pv", "1", OPEN("b") SIZE(2) OPEN("p") SIZE(8)) INPUT("last", "6", OPEN("b"))
          INPUT("total", "6", "") "%s%s%s node { op_type 'GroupQueryAttention' " MS INT(
              "num_heads", "4") INT("kv_num_heads", "2") INT("do_rotary",
                                                             "%d") INT("rotary_interleaved", "%d")
              INT("local_window_size", "%d") INT("smooth_softmax", "%d") REAL(
                  "softcap",
                  "%g") "input 'q' %s input 'pk' input 'pv' input 'last' input 'total' input '%s' "
                        "input '%s' "
                        "input '%s' input '%s' output 'y' output 'nk' output 'nv' } " OUTPUT("y")
                            OUTPUT("nk") OUTPUT("nv"),
      f->packed ? packed : apart, tables,
      f->placed ? INPUT("places", "7", OPEN("b") OPEN("s")) : "",
      f->added ? INPUT("added", "1", OPEN("b") SIZE(4) OPEN("s") OPEN("all")) : "",
      f->rotation != STILL, f->rotation == PAIRS, f->window ? (int)f->window : -1, f->smooth,
      f->softcap, f->packed ? "input '' input ''" : "input 'k' input 'v'", f->rotation ? "cos" : "",
      f->rotation ? "sin" : "", f->placed ? "places" : "", f->added ? "added" : "");
  return rig_open(fixture, graph);
}

// ---- Operands ---------------------------------------------------------------------------------------
// What a batch had before this call.
static int64_t before(const sizes_t *z, int64_t b) {
  return z->total == z->s ? 0 : z->keys[b] - z->s;
}

static double given(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                    const int64_t at[4]) {
  int64_t heads = which == Q ? HEADS : SHARED,
          first = which == Q ? 0 : HEADS + (which - K) * SHARED;
  int64_t row = at[0] * z->s + at[1];
  return f->packed ? rig_get(in[Q], (row * (HEADS + 2 * SHARED) + first + at[2]) * HEAD + at[3])
                   : rig_get(in[which], (row * heads + at[2]) * HEAD + at[3]);
}

// Element i of a head and its partner, turned by the angle of their pair.
static double turned(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                     const int64_t at[4]) {
  int64_t i = at[3], half = f->half;
  if (f->rotation == STILL || which == V || i >= 2 * half)
    return given(f, in, z, which, at);
  int64_t pair = f->rotation == PAIRS ? i / 2 : i % half;
  bool second = f->rotation == PAIRS ? i % 2 != 0 : i >= half;
  int64_t left = f->rotation == PAIRS ? 2 * pair : pair;
  int64_t right = f->rotation == PAIRS ? left + 1 : pair + half;
  int64_t place =
      f->placed ? (int64_t)rig_get(in[PLACES], at[0] * z->s + at[1]) : before(z, at[0]) + at[1];
  double a = given(f, in, z, which, (const int64_t[]){at[0], at[1], at[2], left});
  double b = given(f, in, z, which, (const int64_t[]){at[0], at[1], at[2], right});
  double c = rig_get(in[COS], place * half + pair), s = rig_get(in[SIN], place * half + pair);
  return second ? s * a + c * b : c * a - s * b;
}

static int64_t places_of(const sizes_t *z) { return z->p > z->total ? z->p : z->total; }

// The cache with what comes: [b, SHARED, places, HEAD]. Behind the keys it is as it was, or 0.
static void fill(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                 double *out) {
  int64_t all = places_of(z);
  for (int64_t k = 0; k < z->b * SHARED * all * HEAD; k++) {
    int64_t i = k % HEAD, place = k / HEAD % all, h = k / HEAD / all % SHARED;
    int64_t b = k / HEAD / all / SHARED, row = place - before(z, b);
    const dt_tensor_t *past = in[which == K ? PAST_K : PAST_V];
    if (row >= 0 && row < z->s)
      out[k] = turned(f, in, z, which, (const int64_t[]){b, row, h, i});
    else
      out[k] = place < z->p ? rig_get(past, ((b * SHARED + h) * z->p + place) * HEAD + i) : 0;
  }
}

static void fill_more(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, double *out) {
  int64_t all = places_of(z);
  for (int64_t k = 0; k < z->b * HEADS * z->s * all; k++) {
    int64_t place = k % all, b = k / all / z->s / HEADS, row = before(z, b) + k / all % z->s;
    bool seen = place <= row && (f->window == 0 || place > row - f->window);
    out[k] = !seen ? -INFINITY : f->added ? rig_get(in[ADDED], k / all * z->total + place) : 0;
  }
}

static void make_operands(fixture_t *fixture, const form_t *f, const sizes_t *z, dt_tensor_t **in) {
  const int64_t q[] = {z->b, z->s, (f->packed ? HEADS + 2 * SHARED : HEADS) * HEAD};
  const int64_t k[] = {z->b, z->s, SHARED * HEAD}, past[] = {z->b, SHARED, z->p, HEAD};
  const int64_t table[] = {POSITIONS, f->half}, rows[] = {z->b, z->s};
  const int64_t scores[] = {z->b, HEADS, z->s, z->total};
  in[Q] = rig_floats(fixture, 3, q);
  in[K] = f->packed ? NULL : rig_floats(fixture, 3, k);
  in[V] = f->packed ? NULL : rig_floats(fixture, 3, k);
  in[PAST_K] = rig_floats(fixture, 4, past);
  in[PAST_V] = rig_floats(fixture, 4, past);
  in[LAST] = rig_integers(fixture, DT_I32, 0, 0, 1, &z->b);
  for (int64_t b = 0; b < z->b; b++)
    rig_put(in[LAST], b, (double)(z->keys[b] - 1));
  in[TOTAL] = rig_integers(fixture, DT_I32, z->total, z->total, 0, NULL);
  in[COS] = f->rotation ? rig_floats(fixture, 2, table) : NULL;
  in[SIN] = f->rotation ? rig_floats(fixture, 2, table) : NULL;
  in[PLACES] = f->placed ? rig_integers(fixture, DT_I64, 0, POSITIONS - 1, 2, rows) : NULL;
  in[ADDED] = f->added ? rig_floats(fixture, 4, scores) : NULL;
}

// ---- Forms ------------------------------------------------------------------------------------------
static void check(fixture_t *fixture, const form_t *f, const rig_model_t *model, const sizes_t *z) {
  static double q[MOST], k[MOST], v[MOST], more[MOST], out[MOST];
  dt_tensor_t *in[N_IN] = {0};
  char what[128];
  (void)snprintf(what, sizeof what, "%s, %s", f->name, z->what);
  make_operands(fixture, f, z, in);
  for (int64_t at = 0; at < z->b * HEADS * z->s * HEAD; at++) {
    const int64_t place[] = {at / HEAD / z->s / HEADS, at / HEAD % z->s, at / HEAD / z->s % HEADS,
                             at % HEAD};
    q[at] = turned(f, in, z, Q, place);
  }
  fill(f, in, z, K, k);
  fill(f, in, z, V, v);
  fill_more(f, in, z, more);
  int64_t all = places_of(z);
  const attention_reference_t a = {.batch = z->b,
                                   .heads = HEADS,
                                   .shared = SHARED,
                                   .length = z->s,
                                   .total = all,
                                   .head = HEAD,
                                   .value_head = HEAD,
                                   .q = q,
                                   .k = k,
                                   .v = v,
                                   .more = more,
                                   .softcap = f->softcap,
                                   .smooth = f->smooth};
  attention_reference(&a, out);
  const rig_want_t want[] = {{what, 3, {z->b, z->s, HEADS * HEAD}, out, 1e-5},
                             {what, 4, {z->b, SHARED, all, HEAD}, k, 1e-6},
                             {what, 4, {z->b, SHARED, all, HEAD}, v, 1e-6}};
  rig_run(fixture, model, in, N_IN, want);
}

static void test_forms(void **state) {
  for (size_t at = 0; at < sizeof forms / sizeof forms[0]; at++) {
    rig_model_t model = open_form(*state, &forms[at]);
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++)
      check(*state, &forms[at], &model, &calls[k]);
    rig_close(&model, 1);
  }
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_forms))
