// SPDX-License-Identifier: Apache-2.0
// Building programs by hand: sharing of instructions, inlining with checked indices, canonical
// texts of kernels, and what the interpreter makes of hand-written programs, failures included.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/loop/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct hand_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
} hand_t;

static void hand_parse(hand_t *h, const char *text) {
  dt_scan_t scan;
  dt__arena_init(&h->arena, 0);
  OK(dt__symenv_create(&h->env));
  dt__scan_init(&scan, text, strlen(text), "program");
  OK(dt__program_parse(&h->arena, h->env, &scan, &h->program));
  OK(dt__program_verify(h->program));
}

static void hand_fini(hand_t *h) {
  dt__symenv_destroy(h->env);
  dt__arena_fini(&h->arena);
}

// ---- Building -----------------------------------------------------------------------------------------
static const char *const two_buffers = "program {\n"
                                       "symbol s0: [0, 99]\n"
                                       "buffer b1 = input 0 f32[s0, 4] strides [4, 1]\n"
                                       "buffer b2 = input 1 i64[s0] strides [1]\n"
                                       "check 0 \"an index\" op \"gather\"\n"
                                       "}\n";

static uint32_t add_load(hand_t *h, dt_stage_t *stage, uint32_t buffer, const dt_sym_t *index,
                         uint32_t mask) {
  dt_buffer_id_t id = {buffer};
  dt_inst_t inst = {.kind = DT_INST_LOAD,
                    .dtype = dt__program_buffer(h->program, id)->dtype,
                    .args = {DT_NO_INST, 7, 9},
                    .mask = mask,
                    .buffer = id,
                    .index = index};
  uint32_t out;
  OK(dt__stage_add(h->program, stage, &inst, &out));
  return out;
}

static void test_sharing(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, two_buffers);
  dt_stage_t stage = {0};
  dt_sym_t i = dt__sym_new_loop(h.env, dt__symbol_sym(h.env, 0));
  dt_sym_t at[2] = {i, dt__sym_const(h.env, 1)}, other[2] = {i, dt__sym_const(h.env, 2)};
  uint32_t a = add_load(&h, &stage, 1, at, DT_NO_INST);
  assert_int_equal(add_load(&h, &stage, 1, at, DT_NO_INST), a);
  assert_int_not_equal(add_load(&h, &stage, 1, other, DT_NO_INST), a);
  at[1] = other[1]; // the index was copied
  assert_int_equal(stage.insts.items[a].index[1].id, dt__sym_const(h.env, 1).id);
  // Zeros of both signs are different constants; unused fields make no difference.
  dt_inst_t zero = {.kind = DT_INST_CONST, .dtype = DT_F32, .args = {1, 2, 3}};
  dt_inst_t minus = {.kind = DT_INST_CONST, .dtype = DT_F32, .value.f = -0.0};
  dt_inst_t again = {.kind = DT_INST_CONST, .dtype = DT_F32, .row = 5};
  uint32_t z, m, n;
  OK(dt__stage_add(h.program, &stage, &zero, &z));
  OK(dt__stage_add(h.program, &stage, &minus, &m));
  OK(dt__stage_add(h.program, &stage, &again, &n));
  assert_int_not_equal(z, m);
  assert_int_equal(z, n);
  // Offsets and counts.
  dt_text_t text;
  dt__text_init(&text);
  dt_buffer_id_t b1 = {1};
  dt__sym_print(h.env, dt__buffer_offset(h.program, b1, other), &text);
  dt__text_put(&text, ", ");
  dt__sym_print(h.env, dt__buffer_count(h.program, b1), &text);
  check_text("i1*4 + 2, s0*4", dt__text_str(&text));
  dt__text_fini(&text);
  hand_fini(&h);
}

// A body with a bind is taken into another stage twice, at two indices: two symbols; and once more
// at the first index: shared.
static void test_inline(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, two_buffers);
  dt_sym_t s0 = dt__symbol_sym(h.env, 0), i = dt__sym_new_loop(h.env, s0);
  dt_sym_t j = dt__sym_new_loop(h.env, s0);
  dt_stage_t from = {0}, into = {0};
  uint32_t id = add_load(&h, &from, 2, &i, DT_NO_INST), found;
  dt_inst_t bind = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .args = {id},
                    .extent = s0,
                    .sym = dt__program_new_data(h.program, s0)};
  OK(dt__stage_add(h.program, &from, &bind, &found));
  dt_sym_t at[2] = {bind.sym, dt__sym_const(h.env, 3)};
  uint32_t value = add_load(&h, &from, 1, at, found);
  dt_inst_t row = {.kind = DT_INST_ROW, .dtype = DT_F32, .row = 2};
  uint32_t row_at;
  OK(dt__stage_add(h.program, &from, &row, &row_at));

  uint32_t first[8], second[8], third[8];
  dt_sym_t back = dt__sym_sub(h.env, dt__sym_sub(h.env, s0, dt__sym_const(h.env, 1)), j);
  OK(dt__stage_inline(h.program, &into, &from, &i, &j, 1, 10, first));
  OK(dt__stage_inline(h.program, &into, &from, &i, &back, 1, 10, second));
  OK(dt__stage_inline(h.program, &into, &from, &i, &j, 1, 10, third));
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

// ---- Canonical texts ------------------------------------------------------------------------------------
static void canonical(hand_t *h, uint32_t kernel, dt_kernel_params_t *params, dt_text_t *text) {
  dt__text_init(text);
  OK(dt__kernel_print(h->program, &h->program->kernels.items[kernel], params, text));
}

// Kernels 0 and 1 are one code; 2 has another stride, 3 another range, 4 other code.
static void test_canonical(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, "program {\n"
                 "symbol s0: [0, 99]\n"
                 "symbol s1: [0, 99]\n"
                 "symbol s2: [1, 99]\n"
                 "buffer b1 = input 0 f32[s0, s1] strides [s1, 1]\n"
                 "buffer b2 = input 1 f32[s1, s0] strides [s0, 1]\n"
                 "buffer b3 = input 2 f32[s0, s1] strides [1, s0]\n"
                 "buffer b4 = input 3 f32[s2, s1] strides [s1, 1]\n"
                 "buffer b5 = temp f32[s0, s1]\n"
                 "buffer b6 = output 0 f32[s1, s0]\n"
                 "buffer b7 = temp f32[s0, s1]\n"
                 "buffer b8 = temp f32[s2, s1]\n"
                 "buffer b9 = temp f32[s0, s1]\n"
                 "kernel \"first\" outer i3 < s0, i4 < s1 {\n"
                 "  stage {\n v0 = load f32 b1[i3, i4]\n store b5[i3, i4] = v0\n }\n}\n"
                 "kernel \"second\" outer i5 < s1, i6 < s0 {\n"
                 "  stage {\n v0 = load f32 b2[i5, i6]\n store b6[i5, i6] = v0\n }\n}\n"
                 "kernel \"third\" outer i7 < s0, i8 < s1 {\n"
                 "  stage {\n v0 = load f32 b3[i7, i8]\n store b7[i7, i8] = v0\n }\n}\n"
                 "kernel \"fourth\" outer i9 < s2, i10 < s1 {\n"
                 "  stage {\n v0 = load f32 b4[i9, i10]\n store b8[i9, i10] = v0\n }\n}\n"
                 "kernel \"fifth\" outer i11 < s0, i12 < s1 {\n"
                 "  stage {\n v0 = load f32 b1[i11, i12]\n v1 = neg f32 v0\n"
                 "  store b9[i11, i12] = v1\n }\n}\n"
                 "outputs b6\n"
                 "}\n");
  dt_kernel_params_t params[5];
  dt_text_t texts[5];
  for (uint32_t k = 0; k < 5; k++)
    canonical(&h, k, &params[k], &texts[k]);
  check_text(dt__text_str(&texts[0]), dt__text_str(&texts[1]));
  for (uint32_t k = 2; k < 5; k++)
    if (strcmp(dt__text_str(&texts[0]), dt__text_str(&texts[k])) == 0) {
      print_error("kernel %u has the text of kernel 0:\n%s\n", k, dt__text_str(&texts[k]));
      fail();
    }
  check_text("kernel outer i1 < s0, i3 < s2 {\n"
             "  stage {\n"
             "    v0 = load f32 p0[i1, i3]\n"
             "    store p1[i1, i3] = v0\n"
             "  }\n"
             "}\n"
             "p0 f32[s0, s2] [s2, 1]\n"
             "p1 f32[s0, s2] [s2, 1]\n"
             "s0 [0, 99]\n"
             "i1 [0, 98]\n"
             "s2 [0, 99]\n"
             "i3 [0, 98]\n",
             dt__text_str(&texts[0]));
  assert_int_equal(params[0].n_buffers, 2);
  assert_int_equal(params[0].buffers[0].id, 1);
  assert_int_equal(params[0].buffers[1].id, 5);
  assert_int_equal(params[1].buffers[1].id, 6);
  assert_int_equal(params[0].n_symbols, 2);
  assert_int_equal(params[0].symbols[0], 0);
  assert_int_equal(params[0].symbols[1], 1);
  assert_int_equal(params[1].symbols[0], 1);
  assert_int_equal(params[1].symbols[1], 0);
  for (uint32_t k = 0; k < 5; k++)
    dt__text_fini(&texts[k]);
  hand_fini(&h);
}

// ---- Interpreting -----------------------------------------------------------------------------------------
// Softmax in one kernel, with a scratch row.
static void test_softmax(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, "program {\n"
                 "symbol s0: [0, 99]\n"
                 "symbol s1: [0, 99]\n"
                 "buffer b1 = input 0 f32[s0, s1] strides [s1, 1]\n"
                 "buffer b2 = output 0 f32[s0, s1]\n"
                 "buffer b3 = local f32[s1]\n"
                 "kernel \"softmax\" outer i2 < s0 {\n"
                 "  stage inner i3 < s1 {\n"
                 "    v0 = load f32 b1[i2, i3]\n"
                 "    fold max f32 r0 = v0\n  }\n"
                 "  stage inner i4 < s1 {\n"
                 "    v0 = load f32 b1[i2, i4]\n    v1 = row f32 r0\n"
                 "    v2 = sub f32 v0, v1\n    v3 = exp f32 v2\n"
                 "    store b3[i4] = v3\n    fold sum f32 r1 = v3\n  }\n"
                 "  stage inner i5 < s1 {\n"
                 "    v0 = load f32 b3[i5]\n    v1 = row f32 r1\n    v2 = div f32 v0, v1\n"
                 "    store b2[i2, i5] = v2\n  }\n}\n"
                 "outputs b2\n}\n");
  float x[6] = {1, 2, 3, 100, -INFINITY, 100}, y[6] = {0};
  void *in[1] = {x}, *out[1] = {y};
  int64_t symbols[2] = {2, 3};
  OK(dt__program_interpret(h.program, symbols, in, out));
  const float want[6] = {0.09003057f, 0.24472847f, 0.66524096f, 0.5f, 0, 0.5f};
  for (int k = 0; k < 6; k++)
    if (fabsf(y[k] - want[k]) > 1e-6f) {
      print_error("element %d: expected %g, got %g\n", k, (double)want[k], (double)y[k]);
      fail();
    }
  // No columns: folds over nothing, nothing stored.
  symbols[1] = 0;
  OK(dt__program_interpret(h.program, symbols, in, out));
  hand_fini(&h);
}

// One kernel over b1 (input 0, f32[s0]), b2 (output 0, f32[s0]) and b3 (local f32[s0]); s0 = 4.
typedef struct run_case_t {
  const char *stages, *message; // NULL: it succeeds
  dt_code_t code;
} run_case_t;

static void run_case(const run_case_t *c) {
  char text[1024];
  (void)snprintf(text, sizeof(text),
                 "program {\nsymbol s0: [0, 99]\n"
                 "buffer b1 = input 0 f32[s0] strides [1]\n"
                 "buffer b2 = output 0 f32[s0]\n"
                 "buffer b3 = local f32[s0]\n"
                 "check 0 \"index of x\" op \"\"\n"
                 "kernel \"k\" outer i1 < s0 {\n%s}\noutputs b2\n}\n",
                 c->stages);
  hand_t h;
  hand_parse(&h, text);
  float x[4] = {1, 2, 3, 4}, y[4];
  void *in[1] = {x}, *out[1] = {y};
  int64_t symbols[1] = {4};
  dt_status_t status = dt__program_interpret(h.program, symbols, in, out);
  const char *message = dt_status_message(status);
  if (dt_status_code(status) != c->code || (c->message && !strstr(message, c->message))) {
    print_error("%s: expected %s %s, got %s %s\n", c->stages, dt_code_name(c->code),
                c->message ? c->message : "", dt_code_name(dt_status_code(status)), message);
    fail();
  }
  dt_status_free(status);
  hand_fini(&h);
}

static void test_failures(void **state) {
  (void)state;
  static const run_case_t runs[] = {
      {"stage { v0 = load f32 b1[i1] store b2[i1] = v0 }", NULL, DT_OK},
      {"stage { v0 = load f32 b1[i1 + 1] store b2[i1] = v0 }",
       "a load from buffer 1 at 4 in dim 0 of size 4", DT_E_INTERNAL},
      {"stage { v0 = load f32 b1[i1] store b2[i1 - 1] = v0 }",
       "a store to buffer 2 at -1 in dim 0 of size 4", DT_E_INTERNAL},
      {"stage { v0 = load f32 b1[i1] store b2[i1//2] = v0 }",
       "element 0 of buffer 2 is written twice", DT_E_INTERNAL},
      {"stage inner i2 < 2 { v0 = load f32 b1[i1] store b2[i1] = v0 }",
       "element 0 of buffer 2 is written twice", DT_E_INTERNAL},
      {"stage { v0 = const f32 1 store b3[i1] = v0 } stage { v0 = load f32 b3[i1] "
       "store b2[i1] = v0 }",
       NULL, DT_OK},
      {"stage { v0 = const f32 1 store b3[0] = v0 } stage { v0 = load f32 b3[i1] "
       "store b2[i1] = v0 }",
       "element 1 of buffer 3 is read before it is written", DT_E_INTERNAL},
      {"stage { v0 = load f32 b1[1//i1] store b2[i1] = v0 }", "has no value", DT_E_INTERNAL},
      // An index that nothing needs may be without a value; a masked load is not made.
      {"stage { v0 = index i64 1//i1 v1 = index bool i1 <= s0 - 101 "
       "v2 = load f32 b1[1//i1] mask v1 store b2[i1] = v2 }",
       NULL, DT_OK},
      {"stage { v0 = index i64 i1 v1 = bind d2: [0, 2] < 3 of v0 check 0 "
       "v2 = load f32 b1[d2] mask v1 store b2[i1] = v2 }",
       "index of x", DT_E_RANGE},
      {"stage { v0 = index i64 i1 - 3 v1 = bind d2: [0, 2] < 3 of v0 check 0 "
       "v2 = load f32 b1[d2] mask v1 store b2[i1] = v2 }",
       NULL, DT_OK},
  };
  for (size_t k = 0; k < sizeof(runs) / sizeof(runs[0]); k++)
    run_case(&runs[k]);
  static const run_case_t incomplete = {
      "stage inner i2 < 0 { v0 = load f32 b1[i1] store b2[i1] = v0 }",
      "element 0 of result 0 is never written", DT_E_INTERNAL};
  run_case(&incomplete);
}

// One kernel on memory of the caller's.
static void test_one_kernel(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, "program {\nsymbol s0: [0, 99]\n"
                 "buffer b1 = input 0 i32[s0] strides [-1]\n"
                 "buffer b2 = output 0 i64[]\n"
                 "kernel \"last\" {\n"
                 "  stage inner i1 < s0 { v0 = load i32 b1[i1] v1 = index i64 i1 "
                 "fold argmin i64 r0 = v0 at v1 }\n"
                 "  stage { v0 = row i64 r0 store b2[] = v0 }\n}\n"
                 "outputs b2\n}\n");
  int32_t x[4] = {5, -3, 7, -3};
  int64_t y = -1, symbols[1] = {4};
  void *base[2] = {x + 3, &y};
  OK(dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base));
  assert_int_equal(y, 0); // read backwards: -3 first
  symbols[0] = 0;
  OK(dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base));
  assert_int_equal(y, 0);
  base[0] = NULL;
  symbols[0] = 4;
  dt_status_t status = dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base);
  assert_int_equal(dt_status_code(status), DT_E_INTERNAL);
  dt_status_free(status);
  hand_fini(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sharing),   cmocka_unit_test(test_inline),
      cmocka_unit_test(test_canonical), cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_failures),  cmocka_unit_test(test_one_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
