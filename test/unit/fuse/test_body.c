// SPDX-License-Identifier: Apache-2.0
// Copies of bodies: symbols that are replaced, binds that are shared or made anew.
#include "fuse/body.h"
#include "test/support/graph_fixture.h"
#include "test/unit/loop/hand.h"

static const char *const two_buffers = "program {\n"
                                       "symbol s0: [0, 99]\n"
                                       "buffer b1 = input 0 f32[s0, 4] strides [4, 1]\n"
                                       "buffer b2 = input 1 i64[s0] strides [1]\n"
                                       "check 0 \"an index\" op \"gather\"\n"
                                       "}\n";

// The copy's map of instructions.
static const uint32_t *copy(hand_t *h, dt_stage_t *into, const dt_stage_t *from, dt_sym_t var,
                            dt_sym_t to) {
  dt_body_copy_t copy = {
      .program = h->program, .into = into, .from = from, .mask = DT_NO_INST, .row_base = 10};
  expect_ok(dt__body_rename(&copy, var, to));
  expect_ok(dt__body_copy(&copy));
  return copy.map;
}

// A body with a bind is taken into another stage twice, at two indices: two symbols; and once more
// at the first index: shared.
static void test_copies(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, two_buffers);
  dt_sym_t s0 = dt__symbol_sym(h.env, 0), i = dt__sym_new_loop(h.env, s0);
  dt_sym_t j = dt__sym_new_loop(h.env, s0);
  dt_stage_t from = {0}, into = {0};
  uint32_t id = hand_load(&h, &from, 2, &i, DT_NO_INST), found;
  dt_inst_t bind = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .args = {id},
                    .mask = DT_NO_INST,
                    .extent = s0,
                    .sym = dt__program_new_data(h.program, s0)};
  expect_ok(dt__stage_add(h.program, &from, &bind, &found));
  dt_sym_t at[2] = {bind.sym, dt__sym_const(h.env, 3)};
  uint32_t value = hand_load(&h, &from, 1, at, found);
  dt_inst_t row = {.kind = DT_INST_ROW, .dtype = DT_F32, .row = 2};
  uint32_t row_at;
  expect_ok(dt__stage_add(h.program, &from, &row, &row_at));

  dt_sym_t back = dt__sym_sub(h.env, dt__sym_sub(h.env, s0, dt__sym_const(h.env, 1)), j);
  const uint32_t *first = copy(&h, &into, &from, i, j), *second = copy(&h, &into, &from, i, back);
  const uint32_t *third = copy(&h, &into, &from, i, j);
  const dt_inst_t *items = into.insts.items;
  assert_int_equal(first[value], third[value]);
  assert_int_not_equal(first[value], second[value]);
  assert_int_equal(items[first[row_at]].row, 12);
  assert_int_equal(into.insts.len, 7);
  // Each load uses the symbol that its own mask binds, and none the one of `from`.
  uint32_t loads[2] = {first[value], second[value]};
  for (int k = 0; k < 2; k++) {
    const dt_inst_t *load = &items[loads[k]];
    assert_int_equal(load->index[0].id, items[load->mask].sym.id);
    assert_int_not_equal(load->index[0].id, bind.sym.id);
    assert_int_equal(items[items[load->mask].args[0]].index[0].id, k ? back.id : j.id);
  }
  hand_fini(&h);
}

// Two halves of a buffer, one of an argument and one of a constant, then readers of each buffer.
static const char *const halves = "program {\n"
                                  "symbol s0: [0, 99]\n"
                                  "buffer b1 = input 0 f32[s0] strides [1]\n"
                                  "buffer b2 = constant 0 f32[s0]\n"
                                  "buffer b3 = temp f32[s0 + s0]\n"
                                  "buffer b4 = temp f32[s0 + s0]\n"
                                  "buffer b5 = temp f32[s0]\n"
                                  "buffer b6 = output 0 f32[s0]\n"
                                  "kernel \"own\" outer i1 < s0 {\n"
                                  "  stage {\n    v0 = load f32 b1[i1]\n"
                                  "    store b3[i1] = v0\n  }\n}\n"
                                  "kernel \"fixed\" outer i2 < s0 {\n"
                                  "  stage {\n    v0 = load f32 b2[i2]\n"
                                  "    store b3[s0 + i2] = v0\n  }\n}\n"
                                  "kernel \"both\" outer i3 < s0 + s0 {\n"
                                  "  stage {\n    v0 = load f32 b3[i3]\n"
                                  "    store b4[i3] = v0\n  }\n}\n"
                                  "kernel \"more\" outer i4 < s0 {\n"
                                  "  stage {\n    v0 = load f32 b2[i4]\n"
                                  "    store b5[i4] = v0\n  }\n}\n"
                                  "kernel \"last\" outer i5 < s0 {\n"
                                  "  stage {\n    v0 = load f32 b5[i5]\n"
                                  "    store b6[i5] = v0\n  }\n}\n"
                                  "outputs b6\n"
                                  "}\n";

// What the last writer of a buffer reads does not make it one of constants.
static void test_constants(void **state) {
  static const bool expected[] = {false, true, false, true, true};
  (void)state;
  hand_t h;
  bool *constant = NULL;
  dt_fixed_t fixed;
  hand_parse(&h, halves);
  expect_ok(dt__find_constant(h.program, &constant));
  for (uint32_t k = 0; k < 5; k++)
    assert_int_equal(constant[k], expected[k]);
  expect_ok(dt__find_fixed(h.program, &fixed));
  for (uint32_t b = 1; b <= 6; b++)
    assert_int_equal(dt__is_fixed(h.program, &fixed, (dt_buffer_id_t){b}),
                     b == 2 || b == 5 || b == 6);
  hand_fini(&h);
}

RUN_TESTS(TEST(test_copies), TEST(test_constants))
