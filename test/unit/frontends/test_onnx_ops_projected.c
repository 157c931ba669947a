// SPDX-License-Identifier: Apache-2.0
// Attention of com.microsoft, which projects its operands itself, over open batches and lengths:
// compiled and evaluated, against the formula in double that onnxruntime 1.32.0 agrees with.
#include "test/unit/frontends/attention_reference.h"

#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>

enum { HEADS = 2, HEAD = 4, WIDTH = 6, MOST = 2048 }; // of x

typedef enum mask_t { NONE, LENGTHS, KEYS, ROWS } mask_t; // [b]; [b, total]; [b, length, total]

typedef struct form_t {
  const char *name;
  int64_t value_head; // HEAD, or sizes are given
  bool causal, past, added, bias;
  mask_t mask;
} form_t;

static const form_t forms[] = {
    {.name = "plain", .value_head = HEAD},
    {.name = "bias, lengths", .value_head = HEAD, .bias = true, .mask = LENGTHS},
    {.name = "causal", .value_head = HEAD, .bias = true, .causal = true},
    {.name = "past", .value_head = HEAD, .past = true},
    {.name = "past, causal, keys", .value_head = HEAD, .past = true, .causal = true, .mask = KEYS},
    {.name = "past, rows, bias of scores",
     .value_head = HEAD,
     .bias = true,
     .past = true,
     .mask = ROWS,
     .added = true},
    {.name = "wider values", .value_head = 6, .bias = true, .mask = KEYS, .added = true},
};

enum { X, WEIGHTS, BIAS, MASK, PAST, ADDED, N_IN };

static rig_model_t open_form(const fixture_t *fixture, const form_t *f) {
  static const char *const masks[] = {"", INPUT("m", "6", OPEN("b")),
                                      INPUT("m", "6", OPEN("b") OPEN("total")),
                                      INPUT("m", "6", OPEN("b") OPEN("s") OPEN("total"))};
  int columns = (int)(HEADS * (2 * HEAD + f->value_head));
  char graph[4096];
  (void)snprintf(
      graph, sizeof graph,
      INPUT("x", "1", OPEN("b") OPEN("s") SIZE(6)) INPUT("w", "1", SIZE(6) "dim { dim_value %d } ")
          INPUT("c", "1", "dim { dim_value %d } ") "%s%s%s node { op_type 'Attention' " MS INT(
              "num_heads", "2")
              INT("unidirectional", "%d") "%s input 'x' input 'w' input '%s' input '%s' input '%s' "
                                          "input '%s' output 'y' output '%s' } %s",
      columns, columns, masks[f->mask],
      f->past ? INPUT("p", "1", SIZE(2) OPEN("b") SIZE(2) OPEN("p") SIZE(4)) : "",
      f->added ? INPUT("a", "1", OPEN("b") SIZE(2) OPEN("s") OPEN("total")) : "", f->causal,
      f->value_head == HEAD ? "" : "attribute { name 'qkv_hidden_sizes' type 7 ints [ 8 8 12 ] } ",
      f->bias ? "c" : "", f->mask ? "m" : "", f->past ? "p" : "", f->added ? "a" : "",
      f->past ? "n" : "", f->past ? OUTPUT("y") OUTPUT("n") : OUTPUT("y"));
  return rig_open(fixture, graph);
}

typedef struct sizes_t {
  int64_t b, s, p, total;
} sizes_t;

// Element i of head h of row `row` of operand `which`: 0 queries, 1 keys, 2 values.
static double projected(const form_t *f, dt_tensor_t *const *in, int64_t row, int which, int64_t h,
                        int64_t i) {
  int64_t head = which == 2 ? f->value_head : HEAD, all = HEADS * (2 * HEAD + f->value_head);
  int64_t column = which * HEADS * HEAD + h * head + i;
  double sum = f->bias ? rig_get(in[BIAS], column) : 0;
  for (int64_t k = 0; k < WIDTH; k++)
    sum += rig_get(in[X], row * WIDTH + k) * rig_get(in[WEIGHTS], k * all + column);
  return sum;
}

// [b, heads, past + s, head]; queries have no past.
static void fill(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, int which,
                 double *out) {
  int64_t past = which == 0 ? 0 : z->total - z->s, total = past + z->s;
  int64_t head = which == 2 ? f->value_head : HEAD;
  for (int64_t k = 0; k < z->b * HEADS * total * head; k++) {
    int64_t i = k % head, row = k / head % total, h = k / head / total % HEADS;
    int64_t b = k / head / total / HEADS;
    if (row >= past)
      out[k] = projected(f, in, b * z->s + row - past, which, h, i);
    else
      out[k] = rig_get(in[PAST], ((((which - 1) * z->b + b) * HEADS + h) * past + row) * HEAD + i);
  }
}

static void fill_more(const form_t *f, dt_tensor_t *const *in, const sizes_t *z, double *out) {
  for (int64_t k = 0; k < z->b * HEADS * z->s * z->total; k++) {
    int64_t t = k % z->total, row = k / z->total % z->s, b = k / z->total / z->s / HEADS;
    bool seen = f->mask == NONE      ? true
                : f->mask == LENGTHS ? t < (int64_t)rig_get(in[MASK], b)
                : f->mask == KEYS    ? rig_get(in[MASK], b * z->total + t) != 0
                                     : rig_get(in[MASK], (b * z->s + row) * z->total + t) != 0;
    out[k] = (seen ? 0 : -10000) + (f->added ? rig_get(in[ADDED], k) : 0);
    out[k] = f->causal && t > row + z->total - z->s ? -INFINITY : out[k];
  }
}

// Zeros and ones; the first key is always seen, as a row that sees none is about rounding.
static dt_tensor_t *mask_of(fixture_t *fixture, const form_t *f, const sizes_t *z) {
  const int64_t sizes[] = {z->b, f->mask == ROWS ? z->s : z->total, z->total};
  if (f->mask == NONE)
    return NULL;
  if (f->mask == LENGTHS)
    return rig_integers(fixture, DT_I32, 1, z->total, 1, &z->b);
  dt_tensor_t *made = rig_integers(fixture, DT_I32, 0, 1, f->mask == ROWS ? 3 : 2, sizes);
  for (int64_t k = 0; k < dt_tensor_count(made); k += z->total)
    rig_put(made, k, 1);
  return made;
}

static void check(fixture_t *fixture, const form_t *f, const rig_model_t *model, sizes_t z) {
  static double q[MOST], both[2 * MOST], more[MOST], out[MOST];
  int64_t columns = HEADS * (2 * HEAD + f->value_head);
  z.total = z.s + (f->past ? z.p : 0);
  const int64_t x[] = {z.b, z.s, WIDTH}, w[] = {WIDTH, columns};
  const int64_t past[] = {2, z.b, HEADS, z.p, HEAD}, scores[] = {z.b, HEADS, z.s, z.total};
  dt_tensor_t *in[N_IN] = {rig_floats(fixture, 3, x),
                           rig_floats(fixture, 2, w),
                           rig_floats(fixture, 1, &columns),
                           mask_of(fixture, f, &z),
                           f->past ? rig_floats(fixture, 5, past) : NULL,
                           f->added ? rig_floats(fixture, 4, scores) : NULL};
  double *k = both, *v = both + z.b * HEADS * z.total * HEAD;
  fill(f, in, &z, 0, q);
  fill(f, in, &z, 1, k);
  fill(f, in, &z, 2, v);
  fill_more(f, in, &z, more);
  const attention_reference_t a = {.batch = z.b,
                                   .heads = HEADS,
                                   .shared = HEADS,
                                   .length = z.s,
                                   .total = z.total,
                                   .head = HEAD,
                                   .value_head = f->value_head,
                                   .q = q,
                                   .k = k,
                                   .v = v,
                                   .more = more};
  attention_reference(&a, out);
  const rig_want_t want[] = {{f->name, 3, {z.b, z.s, HEADS * f->value_head}, out, 1e-5},
                             {f->name, 5, {2, z.b, HEADS, z.total, HEAD}, both, 2e-6}};
  rig_run(fixture, model, in, N_IN, want);
}

static void test_forms(void **state) {
  static const sizes_t sizes[] = {{2, 5, 3, 0}, {1, 1, 2, 0}, {3, 4, 0, 0}, {2, 1, 9, 0}};
  for (size_t at = 0; at < sizeof forms / sizeof forms[0]; at++) {
    rig_model_t model = open_form(*state, &forms[at]);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
      check(*state, &forms[at], &model, sizes[k]);
    rig_close(&model, 1);
  }
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_forms))
