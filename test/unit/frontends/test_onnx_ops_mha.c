// SPDX-License-Identifier: Apache-2.0
// MultiHeadAttention of com.microsoft in all its layouts, over open batches and lengths: compiled
// and evaluated, against the formula in double. Where onnxruntime 1.32.0 has the layout on the CPU
// (not packed ones), its answers for the same forms are those of the formula.
#include "test/unit/frontends/attention_reference.h"

#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>

enum { HEADS = 2, HEAD = 4, HIDDEN = HEADS * HEAD, MOST = 2048 };

typedef enum layout_t {
  APART,      // three of [batch, length, heads * head]
  ALL_PACKED, // [batch, length, heads, 3, head]
  KV_PACKED,  // queries as apart, and [batch, keys, heads, 2, head]
  TURNED,     // queries as apart, keys and values [batch, heads, keys, head]
} layout_t;

typedef enum mask_t { NONE, LENGTHS, KEYS, ROWS } mask_t; // [b]; [b, total]; [b, length, total]
typedef enum added_t { NOTHING, FULL, ONE_FOR_ALL } added_t;

typedef struct form_t {
  const char *name;
  layout_t layout;
  bool bias, causal, past;
  mask_t mask;
  added_t added;
} form_t;

static const form_t forms[] = {
    {.name = "apart", .layout = APART},
    {.name = "apart, bias", .layout = APART, .bias = true, .mask = KEYS},
    {.name = "apart, past", .layout = APART, .past = true, .causal = true},
    {.name = "apart, past and all",
     .layout = APART,
     .bias = true,
     .past = true,
     .mask = ROWS,
     .added = FULL},
    {.name = "apart, past, lengths", .layout = APART, .past = true, .mask = LENGTHS},
    {.name = "packed", .layout = ALL_PACKED},
    {.name = "packed, bias", .layout = ALL_PACKED, .bias = true},
    {.name = "packed, bias, causal", .layout = ALL_PACKED, .bias = true, .causal = true},
    {.name = "packed, mask", .layout = ALL_PACKED, .mask = KEYS, .added = ONE_FOR_ALL},
    {.name = "packed, all", .layout = ALL_PACKED, .bias = true, .mask = ROWS, .added = FULL},
    {.name = "packed, lengths", .layout = ALL_PACKED, .mask = LENGTHS},
    {.name = "keys and values packed", .layout = KV_PACKED},
    {.name = "keys and values packed, mask", .layout = KV_PACKED, .mask = KEYS, .added = FULL},
    {.name = "keys and values packed, rows",
     .layout = KV_PACKED,
     .mask = ROWS,
     .added = ONE_FOR_ALL},
    {.name = "turned", .layout = TURNED},
    {.name = "turned, bias", .layout = TURNED, .bias = true, .mask = KEYS},
};

// ---- Models -----------------------------------------------------------------------------------------
#define KEPT "dim { dim_value 2 } " // heads
#define WIDE "dim { dim_value 8 } " // heads * head

static bool same_lengths(const form_t *f) { return f->layout == APART || f->layout == ALL_PACKED; }

static rig_model_t open_form(const fixture_t *fixture, const form_t *f) {
  static const char *const masks[] = {"", INPUT("m", "6", OPEN("b")),
                                      INPUT("m", "6", OPEN("b") OPEN("total")),
                                      INPUT("m", "6", OPEN("b") OPEN("s") OPEN("total"))};
  static const char *const added[] = {"", INPUT("a", "1", OPEN("b") KEPT OPEN("s") OPEN("total")),
                                      INPUT("a", "1", SIZE(1) SIZE(1) OPEN("s") OPEN("total"))};
  static const char *const operands[] = {
      INPUT("q", "1", OPEN("b") OPEN("s") WIDE) INPUT("k", "1", OPEN("b") OPEN("s") WIDE)
          INPUT("v", "1", OPEN("b") OPEN("s") WIDE),
      INPUT("q", "1", OPEN("b") OPEN("s") KEPT SIZE(3) SIZE(4)),
      INPUT("q", "1", OPEN("b") OPEN("s") WIDE)
          INPUT("k", "1", OPEN("b") OPEN("t") KEPT KEPT SIZE(4)),
      INPUT("q", "1", OPEN("b") OPEN("s") WIDE) INPUT("k", "1", OPEN("b") KEPT OPEN("t") SIZE(4))
          INPUT("v", "1", OPEN("b") KEPT OPEN("t") SIZE(4))};
  bool keys = f->layout != ALL_PACKED, values = f->layout == APART || f->layout == TURNED;
  char graph[4096];
  (void)snprintf(
      graph, sizeof graph,
      "%s%s%s%s%s node { op_type 'MultiHeadAttention' " MS INT("num_heads", "2")
          INT("unidirectional", "%d") "input 'q' input '%s' input '%s' input '%s' input '%s' "
                                      "input '%s' %s output 'y' %s } %s",
      operands[f->layout], f->bias ? INPUT("c", "1", SIZE(24)) : "", masks[f->mask],
      added[f->added],
      f->past ? INPUT("pk", "1", OPEN("b") KEPT OPEN("p") SIZE(4))
                    INPUT("pv", "1", OPEN("b") KEPT OPEN("p") SIZE(4))
              : "",
      f->causal, keys ? "k" : "", values ? "v" : "", f->bias ? "c" : "", f->mask ? "m" : "",
      f->added ? "a" : "", f->past ? "input 'pk' input 'pv' " : "",
      f->past ? "output 'nk' output 'nv'" : "",
      f->past ? OUTPUT("y") OUTPUT("nk") OUTPUT("nv") : OUTPUT("y"));
  return rig_open(fixture, graph);
}

// ---- Operands ---------------------------------------------------------------------------------------
typedef struct sizes_t {
  int64_t b, s, t, p; // batch, queries, keys that come now, keys of the past
} sizes_t;

enum { Q, K, V, BIAS, MASK, ADDED, PAST_K, PAST_V, N_IN };

// Element [b, row, h, i] of operand `which` in its layout, bias included.
static double operand(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                      const int64_t at[4]) {
  int64_t b = at[0], row = at[1], h = at[2], i = at[3], length = which == Q ? z->s : z->t;
  bool biased = f->bias && (which == Q || f->layout != TURNED);
  double bias = biased ? rig_get(in[BIAS], which * HIDDEN + h * HEAD + i) : 0;
  if (f->layout == ALL_PACKED)
    return bias + rig_get(in[Q], (((b * length + row) * HEADS + h) * 3 + which) * HEAD + i);
  if (f->layout == KV_PACKED && which != Q)
    return rig_get(in[K], (((b * length + row) * HEADS + h) * 2 + which - 1) * HEAD + i);
  if (f->layout == TURNED && which != Q)
    return rig_get(in[which], ((b * HEADS + h) * length + row) * HEAD + i);
  return bias + rig_get(in[which], ((b * length + row) * HEADS + h) * HEAD + i);
}

// [batch, heads, past + length, head]
static void gather(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                   double *out) {
  int64_t past = which == Q || !f->past ? 0 : z->p, total = past + (which == Q ? z->s : z->t);
  for (int64_t k = 0; k < z->b * HEADS * total * HEAD; k++) {
    int64_t i = k % HEAD, row = k / HEAD % total, h = k / HEAD / total % HEADS;
    int64_t b = k / HEAD / total / HEADS;
    if (row < past)
      out[k] = rig_get(in[which == K ? PAST_K : PAST_V], ((b * HEADS + h) * past + row) * HEAD + i);
    else
      out[k] = operand(f, in, z, which, (const int64_t[]){b, row - past, h, i});
  }
}

static double masked(const form_t *f, const dt_tensor_t *mask, const sizes_t *z, int64_t total,
                     const int64_t at[3]) {
  int64_t b = at[0], row = at[1], t = at[2];
  bool seen = f->mask == NONE      ? true
              : f->mask == LENGTHS ? t < (int64_t)rig_get(mask, b)
              : f->mask == KEYS    ? rig_get(mask, b * total + t) != 0
                                   : rig_get(mask, (b * z->s + row) * total + t) != 0;
  return f->causal && t > row + total - z->s ? -INFINITY : seen ? 0 : -10000;
}

static void gather_more(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int64_t total,
                        double *out) {
  for (int64_t k = 0; k < z->b * HEADS * z->s * total; k++) {
    int64_t t = k % total, row = k / total % z->s, b = k / total / z->s / HEADS;
    out[k] = masked(f, in[MASK], z, total, (const int64_t[]){b, row, t});
    if (f->added == FULL)
      out[k] += rig_get(in[ADDED], k);
    if (f->added == ONE_FOR_ALL)
      out[k] += rig_get(in[ADDED], row * total + t);
  }
}

// Zeros and ones; the first key is always seen, as a row that sees none is about rounding.
static dt_tensor_t *mask_of(fixture_t *fixture, const form_t *f, const sizes_t *z, int64_t total) {
  const int64_t keys[] = {z->b, total}, rows[] = {z->b, z->s, total};
  if (f->mask == NONE)
    return NULL;
  if (f->mask == LENGTHS)
    return rig_integers(fixture, DT_I32, 1, total, 1, &z->b);
  dt_tensor_t *made = f->mask == KEYS ? rig_integers(fixture, DT_I32, 0, 1, 2, keys)
                                      : rig_integers(fixture, DT_I32, 0, 1, 3, rows);
  for (int64_t k = 0; k < dt_tensor_count(made); k += total)
    rig_put(made, k, 1);
  return made;
}

static void make_operands(fixture_t *fixture, const form_t *f, const sizes_t *z, dt_tensor_t **in) {
  const int64_t q[] = {z->b, z->s, HIDDEN}, k[] = {z->b, z->t, HIDDEN};
  const int64_t packed[] = {z->b, z->s, HEADS, 3, HEAD}, pair[] = {z->b, z->t, HEADS, 2, HEAD};
  const int64_t turned[] = {z->b, HEADS, z->t, HEAD};
  in[Q] = f->layout == ALL_PACKED ? rig_floats(fixture, 5, packed) : rig_floats(fixture, 3, q);
  in[K] = f->layout == APART       ? rig_floats(fixture, 3, k)
          : f->layout == KV_PACKED ? rig_floats(fixture, 5, pair)
          : f->layout == TURNED    ? rig_floats(fixture, 4, turned)
                                   : NULL;
  in[V] = f->layout == APART    ? rig_floats(fixture, 3, k)
          : f->layout == TURNED ? rig_floats(fixture, 4, turned)
                                : NULL;
}

// ---- Forms ------------------------------------------------------------------------------------------
static void check(fixture_t *fixture, const form_t *f, const rig_model_t *model, sizes_t z) {
  static double q[MOST], k[MOST], v[MOST], more[MOST], out[MOST];
  z.t = same_lengths(f) ? z.s : z.t;
  int64_t total = z.t + (f->past ? z.p : 0), columns = 3 * HIDDEN;
  const int64_t full[] = {z.b, HEADS, z.s, total}, one[] = {1, 1, z.s, total};
  const int64_t past[] = {z.b, HEADS, z.p, HEAD};
  dt_tensor_t *in[N_IN] = {0};
  make_operands(fixture, f, &z, in);
  in[BIAS] = f->bias ? rig_floats(fixture, 1, &columns) : NULL;
  in[MASK] = mask_of(fixture, f, &z, total);
  if (f->added)
    in[ADDED] = rig_floats(fixture, 4, f->added == FULL ? full : one);
  in[PAST_K] = f->past ? rig_floats(fixture, 4, past) : NULL;
  in[PAST_V] = f->past ? rig_floats(fixture, 4, past) : NULL;
  gather(f, in, &z, Q, q);
  gather(f, in, &z, K, k);
  gather(f, in, &z, V, v);
  gather_more(f, in, &z, total, more);
  const attention_reference_t a = {.batch = z.b,
                                   .heads = HEADS,
                                   .shared = HEADS,
                                   .length = z.s,
                                   .total = total,
                                   .head = HEAD,
                                   .value_head = HEAD,
                                   .q = q,
                                   .k = k,
                                   .v = v,
                                   .more = more};
  attention_reference(&a, out);
  const rig_want_t want[] = {{f->name, 3, {z.b, z.s, HIDDEN}, out, 1e-5},
                             {f->name, 4, {z.b, HEADS, total, HEAD}, k, 1e-6},
                             {f->name, 4, {z.b, HEADS, total, HEAD}, v, 1e-6}};
  rig_run(fixture, model, in, N_IN, want);
}

static void test_forms(void **state) {
  static const sizes_t sizes[] = {
      {2, 5, 3, 4}, {1, 1, 7, 2}, {3, 4, 4, 0}, {2, 1, 1, 9}, {0, 3, 2, 1}};
  for (size_t at = 0; at < sizeof forms / sizeof forms[0]; at++) {
    rig_model_t model = open_form(*state, &forms[at]);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
      check(*state, &forms[at], &model, sizes[k]);
    rig_close(&model, 1);
  }
}

// Keys and values in one tensor have no columns of a bias.
static void test_refused(void **state) {
  const fixture_t *fixture = *state;
  static const char text[] =
      "ir_version 10 opset_import { version 21 } opset_import { domain 'com.microsoft' version 1 } "
      "graph { name 'g' " INPUT("q", "1", OPEN("b") OPEN("s") WIDE)
          INPUT("k", "1", OPEN("b") OPEN("t") KEPT KEPT SIZE(4))
              INPUT("c", "1", SIZE(24)) "node { op_type 'MultiHeadAttention' " MS INT(
                  "num_heads",
                  "2") "input 'q' input 'k' input '' input 'c' output 'y' } " OUTPUT("y") "}";
  const dt_onnx_function_options_t options = {.struct_size = sizeof options};
  const int64_t q[] = {1, 2, HIDDEN}, k[] = {1, 2, HEADS, 2, HEAD}, c = 24;
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  expect_ok(dt_onnx_function_create(fixture->runtime, file, &options, &function));
  dt_tensor_t *in[] = {tensor_full(1, 3, q), tensor_full(1, 5, k), tensor_full(1, 1, &c)};
  dt_tensor_t *out = NULL;
  expect_told(dt_call(fixture->session, function, in, 3, &out, 1, NULL), DT_E_UNSUPPORTED,
              "a bias with packed keys and values");
  release_tensors(in, 3);
  dt_function_release(function);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_forms), TEST(test_refused))
