// SPDX-License-Identifier: Apache-2.0
// The memory plan on hand-written programs: who may take whose place while it is read, what
// readbacks keep alive; and that dead running reductions go.
#include "fuse/fuse.h"
#include "test/support/graph_fixture.h"
#include "test/unit/fuse/planned.h"
#include "test/unit/loop/hand.h"

#include <stdio.h>

// ---- In place -------------------------------------------------------------------------------------
// b2 is written from b1; the middle kernel reads it and writes b3, from which the result is made.
static void check_in_place(const char *middle, const char *last, bool shared) {
  char text[2048];
  (void)snprintf(text, sizeof(text),
                 "program {\nsymbol s0: [0, 99]\nsymbol s1: [0, 99]\n"
                 "buffer b1 = input 0 f32[s0, s1] strides [s1, 1]\n"
                 "buffer b2 = temp f32[s0, s1]\n"
                 "buffer b3 = temp f32[s0, s1]\n"
                 "buffer b4 = output 0 f32[s0, s1]\n"
                 "kernel \"first\" outer i2 < s0, i3 < s1 {\n stage { v0 = load f32 b1[i2, i3] "
                 "store b2[i2, i3] = v0 }\n}\n"
                 "kernel \"middle\" %s\n"
                 "kernel \"last\" outer i2 < s0, i3 < s1 {\n stage { v0 = load f32 b3[i2, i3] "
                 "%s }\n}\noutputs b4\n}\n",
                 middle, last);
  hand_t h;
  hand_parse(&h, text);
  float x[12], expected[12], got[12];
  for (int k = 0; k < 12; k++)
    x[k] = (float)(k * k - 20);
  void *in[1] = {x}, *out[1] = {expected};
  int64_t symbols[2] = {3, 4};
  expect_ok(dt__program_interpret(h.program, symbols, in, out));
  static const dt_target_t target = {.vector_bytes = 32};
  expect_ok(dt__fuse_plan(h.program, &target));
  expect_ok(dt__program_verify(h.program));
  bool same = h.program->offsets.items[1].id == h.program->offsets.items[2].id;
  if (same != shared)
    print_error("%s: %s a place\n", middle, same ? "share" : "do not share");
  assert_int_equal(same, shared);
  out[0] = got;
  expect_ok(run_planned(h.program, symbols, in, out));
  assert_memory_equal(got, expected, sizeof(got));
  hand_fini(&h);
}

static void test_in_place(void **state) {
  (void)state;
  const char *const store = "store b4[i2, i3] = v0";
  check_in_place("outer i4 < s0, i5 < s1 {\n stage { v0 = load f32 b2[i4, i5] v1 = neg f32 v0 "
                 "store b3[i4, i5] = v1 }\n}",
                 store, true);
  check_in_place("outer i4 < s0 {\n stage inner i5 < s1 { v0 = load f32 b2[i4, i5] "
                 "reduce max f32 r0 = v0 }\n stage inner i6 < s1 { v0 = load f32 b2[i4, i6] "
                 "v1 = row f32 r0 v2 = sub f32 v0, v1 store b3[i4, i6] = v2 }\n}",
                 store, true);
  // Backwards within a row, before the row is stored; then in the stage that stores it.
  check_in_place("outer i4 < s0 {\n stage inner i5 < s1 { v0 = load f32 b2[i4, s1 - 1 - i5] "
                 "reduce max f32 r0 = v0 }\n stage inner i6 < s1 { v0 = row f32 r0 "
                 "store b3[i4, i6] = v0 }\n}",
                 store, true);
  check_in_place("outer i4 < s0, i5 < s1 {\n stage { v0 = load f32 b2[i4, s1 - 1 - i5] "
                 "store b3[i4, i5] = v0 }\n}",
                 store, false);
  // Another row.
  check_in_place("outer i4 < s0 {\n stage inner i5 < s1 { v0 = load f32 b2[s0 - 1 - i4, i5] "
                 "reduce max f32 r0 = v0 }\n stage inner i6 < s1 { v0 = load f32 b2[i4, i6] "
                 "v1 = row f32 r0 v2 = sub f32 v0, v1 store b3[i4, i6] = v2 }\n}",
                 store, false);
  // Read again in a later stage.
  check_in_place("outer i4 < s0 {\n stage inner i5 < s1 { v0 = load f32 b2[i4, i5] "
                 "store b3[i4, i5] = v0 reduce sum f32 r0 = v0 }\n stage inner i6 < s1 { "
                 "v0 = load f32 b2[i4, i6] reduce sum f32 r1 = v0 }\n}",
                 store, false);
  // Also the element before, where there is one.
  check_in_place("outer i4 < s0, i5 < s1 {\n stage { v0 = load f32 b2[i4, i5] "
                 "v1 = index bool 1 <= i5 v2 = load f32 b2[i4, i5 - 1] mask v1 "
                 "v3 = add f32 v0, v2 store b3[i4, i5] = v3 }\n}",
                 store, false);
  // Stored in two parts.
  check_in_place("outer i4 < s0, i5 < s1 {\n stage { v0 = load f32 b2[i4, i5] "
                 "v1 = index bool i5 <= 1 v2 = logical_not bool v1 store b3[i4, i5] = v0 mask v1 "
                 "store b3[i4, i5] = v0 mask v2 }\n}",
                 store, false);
  // Read by a later kernel too.
  check_in_place("outer i4 < s0, i5 < s1 {\n stage { v0 = load f32 b2[i4, i5] "
                 "store b3[i4, i5] = v0 }\n}",
                 "v1 = load f32 b2[i2, i3] v2 = add f32 v0, v1 store b4[i2, i3] = v2", false);
}

// ---- Readbacks ----------------------------------------------------------------------------------
// The number is read between segments: its memory is nobody else's before that.
static void test_readbacks_live(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, "program {\nsymbol s0: [0, 99]\nsymbol u1: [0, 99]\n"
                 "buffer b1 = input 0 i64[s0] strides [1]\n"
                 "buffer b2 = temp i64[]\n"
                 "buffer b3 = temp i64[]\n"
                 "buffer b4 = temp i64[u1]\n"
                 "buffer b5 = output 0 i64[u1]\n"
                 "buffer b6 = output 1 i64[]\n"
                 "kernel \"readback\" {\n stage inner i2 < s0 { v0 = load i64 b1[i2] "
                 "reduce max i64 r0 = v0 }\n stage { v0 = row i64 r0 store b2[] = v0 }\n}\n"
                 "kernel \"other\" {\n stage { v0 = const i64 77 v1 = index i64 s0 "
                 "v2 = add i64 v0, v1 store b3[] = v2 }\n}\n"
                 "kernel \"copy\" {\n stage { v0 = load i64 b3[] store b6[] = v0 }\n}\n"
                 "kernel \"ramp\" outer i3 < u1 {\n stage { v0 = index i64 i3 "
                 "store b4[i3] = v0 }\n}\n"
                 "kernel \"last\" outer i4 < u1 {\n stage { v0 = load i64 b4[i4] "
                 "store b5[i4] = v0 }\n}\n"
                 "outputs b5, b6\nreadback b2 binds u1 \"max\" op \"\"\n}\n");
  static const dt_target_t target = {.vector_bytes = 32};
  expect_ok(dt__fuse_plan(h.program, &target));
  expect_ok(dt__program_verify(h.program));
  assert_int_equal(h.program->segments.len, 2);
  assert_int_equal(h.program->segments.items[0].kernel_end, 3);
  assert_int_not_equal(h.program->offsets.items[1].id, h.program->offsets.items[2].id);
  int64_t x[3] = {2, 5, 1}, y[5] = {0}, other = 0, symbols[2] = {3};
  void *in[1] = {x}, *out[2] = {y, &other};
  expect_ok(run_planned(h.program, symbols, in, out));
  assert_true(y[4] == 4 && other == 80);
  hand_fini(&h);
}

// ---- Dead code --------------------------------------------------------------------------------------
static void test_prune_running(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, "program {\nsymbol s0: [0, 99]\n"
                 "buffer b1 = input 0 f32[s0] strides [1]\n"
                 "buffer b2 = temp f32[s0]\n"
                 "buffer b3 = output 0 f32[s0]\n"
                 "kernel \"two\" {\n stage inner i1 < s0 { v0 = load f32 b1[i1] v1 = neg f32 v0 "
                 "v2 = running f32 r0 v3 = running f32 r1 store b2[i1] = v3 store b3[i1] = v2 "
                 "reduce sum f32 r0 = v0 reduce max f32 r1 = v1 }\n}\n"
                 "outputs b3\n}\n");
  expect_ok(dt__fuse_prune(h.program, NULL));
  expect_ok(dt__program_verify(h.program));
  const dt_stage_t *stage = &h.program->kernels.items[0].stages.items[0];
  assert_int_equal(stage->insts.len, 2);
  assert_int_equal(stage->reductions.len, 1);
  assert_int_equal(stage->reductions.items[0].row, 0);
  assert_int_equal(stage->stores.len, 1);
  hand_fini(&h);
}

RUN_TESTS(TEST(test_in_place), TEST(test_readbacks_live), TEST(test_prune_running))
