// SPDX-License-Identifier: Apache-2.0
// Spellings of exporters that the library's own patterns are for, from the file to the answer: how
// often each is replaced, and compiled code against the evaluator.
#include "ductile/pattern.h"
#include "test/unit/frontends/onnx_rig.h"

static int setup(void **state) { return fixture_open(state, 2, 41); }

#define ROW(name, dims, values)                                                                    \
  "initializer { name '" name "' data_type 1 " dims " float_data [ " values " ] } "
#define CONV                                                                                       \
  ROW("w", "dims 4 dims 3 dims 1 dims 1", "1 -2 3 0.5 0.25 -1 2 2 -0.5 1 -1 0.125")                \
  ROW("b", "dims 4", "1 2 -3 0.5")                                                                 \
  INPUT("x", "1", OPEN("n") SIZE(3) OPEN("h") OPEN("v"))                                           \
  OUTPUT("y") "node { op_type 'Conv' input 'x' input 'w' input 'b' output 'c' } "
#define FOUR(name, values) ROW(name, "dims 4", values)
#define CHANNELS(name, values) ROW(name, "dims 4 dims 1 dims 1", values)

typedef struct case_t {
  const char *what, *pattern, *graph;
  uint32_t rank;
  int64_t sizes[4];
} case_t;

static const case_t cases[] = {
    {"a batch norm",
     "ductile.conv_affine",
     CONV FOUR("scale", "1 0.5 -2 3") FOUR("shift", "0 1 2 3") FOUR("mean", "1 1 -1 0")
         FOUR("var", "1 4 0.25 9") "node { op_type 'BatchNormalization' input 'c' input 'scale' "
                                   "input 'shift' input 'mean' input 'var' output 'n' } "
                                   "node { op_type 'Relu' input 'n' output 'y' } ",
     4,
     {2, 3, 5, 4}},
    {"scales and shifts",
     "ductile.conv_affine",
     CONV CHANNELS("s", "1 0.5 -2 3") CHANNELS("t", "0 1 2 3")
         ROW("d", "", "2") "node { op_type 'Mul' input 's' input 'c' output 'm' } "
                           "node { op_type 'Div' input 'm' input 'd' output 'o' } "
                           "node { op_type 'Add' input 'o' input 't' output 'y' } ",
     4,
     {1, 3, 1, 7}},
    {"a padded product",
     "ductile.padded_product",
     "initializer { name 'p' data_type 7 dims 4 int64_data [ 0 0 3 0 ] } "
     "initializer { name 'zero' data_type 7 dims 1 int64_data [ 0 ] } "
     "initializer { name 'end' data_type 7 dims 1 int64_data [ -3 ] } " ROW(
         "w", "dims 3 dims 2", "1 -2 3 0.5 0.25 -1") INPUT("x", "1", OPEN("n") SIZE(3))
         OUTPUT("y") "node { op_type 'Pad' input 'x' input 'p' output 'q' } "
                     "node { op_type 'MatMul' input 'q' input 'w' output 'm' } "
                     "node { op_type 'Slice' input 'm' input 'zero' input 'end' input 'zero' "
                     "output 'y' } ",
     2,
     {5, 3}},
};

static void test_spellings(void **state) {
  fixture_t *f = *state;
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    rig_model_t model = rig_open(f, cases[k].graph);
    dt_pattern_t *pattern = NULL;
    expect_ok(dt_runtime_find_pattern(f->runtime, cases[k].pattern, &pattern));
    uint64_t before = dt_pattern_count(pattern);
    for (int64_t n = 0; n < 3; n++) {
      int64_t sizes[4] = {cases[k].sizes[0] * n, cases[k].sizes[1], cases[k].sizes[2],
                          cases[k].sizes[3]};
      dt_tensor_t *x = rig_floats(f, cases[k].rank, sizes), *got = NULL, *want = NULL;
      expect_ok(dt_call(f->session, model.compiled, &x, 1, &got, 1, NULL));
      expect_ok(dt_call(f->session, model.evaluated, &x, 1, &want, 1, NULL));
      expect_close(got, want, 1e-5, 1e-5, cases[k].what);
      RELEASE(x, got, want);
    }
    if (compiled_answer() == DT_ANSWER_COMPILED && dt_pattern_count(pattern) - before != 1)
      fail_msg("%s: %llu places replaced, expected 1", cases[k].what,
               (unsigned long long)(dt_pattern_count(pattern) - before));
    dt_pattern_release(pattern);
    rig_close(&model, 1);
  }
}

RUN_TESTS(TEST_WITH(test_spellings, setup, fixture_close))
