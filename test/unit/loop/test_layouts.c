// SPDX-License-Identifier: Apache-2.0
// Buffers with an order, a block and a halo: their text, what the verifier and the interpreter
// refuse, where elements lie, and copies.
#include "test/support/check.h"
#include "test/support/graph_fixture.h"
#include "test/unit/loop/hand.h"

#include <stdio.h>
#include <string.h>

// x with a halo of one, lying as [s0, s2 + 1 + 1, s1 / 2] of 2; then sums of neighbours, as [s2,
// s0, s1].
#define TEMP                                                                                       \
  "b2 = temp f32[s0, s1, s2] order [0, 2, 1] block 2 of 1 halo [0, 0, 1] [0, 0, 1] fill 0"
#define PROGRAM(temp, store, fill)                                                                 \
  "program {\n"                                                                                    \
  "symbol s0: [1, 99]\n"                                                                           \
  "symbol s1: [1, 99]\n"                                                                           \
  "symbol s2: [1, 99]\n"                                                                           \
  "buffer b1 = input 0 f32[s0, s1, s2] strides [s1*s2, s2, 1]\n"                                   \
  "buffer " temp "\n"                                                                              \
  "buffer b3 = output 0 f32[s0, s1, s2] order [2, 0, 1]\n"                                         \
  "kernel \"pad\" outer i3 < s0, i4 < s1, i5 < s2 + 2 {\n"                                         \
  "  stage {\n"                                                                                    \
  "    v0 = const f32 " fill "\n"                                                                  \
  "    v1 = index bool 1 <= i5 and i5 <= s2\n"                                                     \
  "    v2 = load f32 b1[i3, i4, i5 - 1] mask v1 else v0\n"                                         \
  "    store b2[i3, i4, " store "] = v2\n"                                                         \
  "  }\n"                                                                                          \
  "}\n"                                                                                            \
  "kernel \"sum\" outer i6 < s0, i7 < s1, i8 < s2 {\n"                                             \
  "  stage {\n"                                                                                    \
  "    v0 = load f32 b2[i6, i7, i8 - 1]\n"                                                         \
  "    v1 = load f32 b2[i6, i7, i8 + 1]\n"                                                         \
  "    v2 = add f32 v0, v1\n"                                                                      \
  "    store b3[i6, i7, i8] = v2\n"                                                                \
  "  }\n"                                                                                          \
  "}\n"                                                                                            \
  "outputs b3\n"                                                                                   \
  "}\n"

static void printed(const dt_program_t *program, dt_text_t *text) {
  dt__text_init(text);
  dt__program_print(program, text);
}

static void texts_and_copies_keep_layouts(void **state) {
  (void)state;
  hand_t h, again;
  dt_text_t first, second, third;
  dt_arena_t arena;
  dt_program_t *copy = NULL;
  hand_parse(&h, PROGRAM(TEMP, "i5 - 1", "0"));
  printed(h.program, &first);
  assert_non_null(strstr(dt__text_str(&first), TEMP));
  assert_non_null(strstr(dt__text_str(&first), "b3 = output 0 f32[s0, s1, s2] order [2, 0, 1]\n"));
  hand_parse(&again, dt__text_str(&first));
  printed(again.program, &second);
  expect_same_text("printed again", dt__text_str(&second), dt__text_str(&first));
  dt__arena_init(&arena, 0);
  expect_ok(dt__program_copy(&arena, h.program, &copy));
  assert_ptr_not_equal(copy->buffers.items[1].layout, h.program->buffers.items[1].layout);
  printed(copy, &third);
  expect_same_text("copied", dt__text_str(&third), dt__text_str(&first));
  dt__arena_fini(&arena);
  dt__text_fini(&first);
  dt__text_fini(&second);
  dt__text_fini(&third);
  hand_fini(&again);
  hand_fini(&h);
}

static void worker_text_keeps_layouts(void **state) {
  (void)state;
  hand_t h;
  dt_text_t text, again;
  dt_arena_t arena;
  dt_scan_t scan;
  dt_symenv_t *env = NULL;
  dt_program_t *program = NULL;
  hand_parse(&h, PROGRAM(TEMP, "i5 - 1", "0"));
  dt__text_init(&text);
  dt__text_init(&again);
  dt__arena_init(&arena, 0);
  expect_ok(dt__program_write(h.program, &text));
  dt__scan_init(&scan, dt__text_str(&text), text.len, "worker");
  expect_ok(dt__program_read(&arena, &scan, &env, &program));
  expect_ok(dt__program_write(program, &again));
  expect_same_text("written again", dt__text_str(&again), dt__text_str(&text));
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  dt__text_fini(&text);
  dt__text_fini(&again);
  hand_fini(&h);
}

static void elements_lie_where_the_layout_says(void **state) {
  (void)state;
  hand_t h;
  const dt_buffer_id_t temp = {2}, out = {3};
  hand_parse(&h, PROGRAM(TEMP, "i5 - 1", "0"));
  const dt_inst_t *load = &h.program->kernels.items[1].stages.items[0].insts.items[0];
  int64_t values[9] = {2, 3, 4, 0, 0, 0, 1, 2, 3}, count = 0, at = 0;
  assert_true(dt__sym_eval(h.env, dt__buffer_count(h.program, temp), values, &count));
  assert_int_equal(count, 2 * 6 * 2 * 2);
  assert_true(dt__sym_eval(h.env, dt__buffer_offset(h.program, temp, load->index), values, &at));
  assert_int_equal(at, 1 * (6 * 2 * 2) + (2 + 1) * (2 * 2) + 1 * 2 + 0); // block 1, element 0
  assert_true(dt__sym_eval(h.env, dt__buffer_offset(h.program, out, load->index), values, &at));
  assert_int_equal(at, 2 * (2 * 3) + 1 * 3 + 2);
  hand_fini(&h);
}

static dt_status_t interpret(const char *text, float *out) {
  hand_t h;
  float x[24];
  int64_t symbols[16] = {2, 3, 4};
  void *in[1] = {x}, *results[1] = {out};
  for (int k = 0; k < 24; k++)
    x[k] = (float)(k + 1);
  hand_parse(&h, text);
  dt_status_t status = dt__program_interpret(h.program, symbols, in, results);
  hand_fini(&h);
  return status;
}

static void the_interpreter_knows_them(void **state) {
  (void)state;
  float out[24];
  expect_ok(interpret(PROGRAM(TEMP, "i5 - 1", "0"), out));
  for (int n = 0; n < 2; n++)
    for (int c = 0; c < 3; c++)
      for (int w = 0; w < 4; w++) {
        int own = n * 12 + c * 4 + w + 1;
        float want = (float)((w > 0 ? own - 1 : 0) + (w < 3 ? own + 1 : 0));
        assert_true(out[w * 6 + n * 3 + c] == want);
      }
  expect_told(interpret(PROGRAM(TEMP, "i5 - 1", "3"), out), DT_E_INTERNAL,
              "filled with another value");
  expect_told(
      interpret(PROGRAM("b2 = temp f32[s0, s1, s2] order [0, 2, 1] halo [0, 0, 1] [0, 0, 0]",
                        "i5 - 1", "0"),
                out),
      DT_E_INTERNAL, "at 4 in dim 2 of size 4");
}

// ---- Refusals -------------------------------------------------------------------------------------

static dt_status_t parse(const char *text) {
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_program_t *program = NULL;
  dt_scan_t scan;
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, text, strlen(text), "text");
  dt_status_t status = dt__program_parse(&arena, env, &scan, &program);
  if (!status)
    status = dt__program_verify(program);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

static void wrong_layouts_are_refused(void **state) {
  (void)state;
#define WITH(temp) PROGRAM("b2 = temp f32[s0, s1, s2] " temp, "i5 - 1", "0")
  static const char *const refused[] = {
      WITH("order [0, 1]"),
      WITH("order [0, 1, 1]"),
      WITH("order [0, 1, 3]"),
      WITH("order [0, 1, 300]"),
      WITH("order [0, 1, 2] block 1 of 1"),
      WITH("order [0, 1, 2] block 4 of 3"),
      WITH("order [0, 1, 2] halo [0, 0, 1]"),
      WITH("order [0, 1, 2] halo [0, 0, -1] [0, 0, 0]"),
      PROGRAM("b2 = local f32[s0, s1, s2] order [0, 2, 1]", "i5 - 1", "0"),
      PROGRAM("b2 = state 0 f32[s0, s1, s2] order [0, 2, 1]", "i5 - 1", "0"),
      // Indices that are known to leave the halo.
      PROGRAM(TEMP, "i5 - i5 - 2", "0"),
      PROGRAM(TEMP, "s2 + 1", "0"),
  };
  for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++) {
    dt_status_t status = parse(refused[k]);
    if (!status)
      fail_msg("layout %zu was taken", k);
    dt_status_free(status);
  }
  expect_told(parse(PROGRAM(TEMP, "s2 + 1", "0")), DT_E_INTERNAL, "outside of its halo");
}

static void strides_must_be_the_layouts(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, PROGRAM(TEMP, "i5 - 1", "0"));
  dt_buffer_t *buffer = dt__program_buffer(h.program, (dt_buffer_id_t){3});
  buffer->strides[2] = dt__sym_const(h.env, 1);
  expect_told(dt__program_verify(h.program), DT_E_INTERNAL, "the stride is not the layout's");
  dt__buffer_set_strides(h.env, buffer);
  expect_ok(dt__program_verify(h.program));
  hand_fini(&h);
}

// Kernels that differ in a halo are different code; an order shows in the strides.
static void code_is_shared_by_layout(void **state) {
  (void)state;
  static const char *const temps[] = {
      PROGRAM(TEMP, "i5 - 1", "0"),
      PROGRAM("b2 = temp f32[s0, s1, s2] order [0, 2, 1] block 2 of 1 halo [0, 0, 2] [0, 0, 1] "
              "fill 0",
              "i5 - 1", "0"),
      PROGRAM("b2 = temp f32[s0, s1, s2] order [0, 2, 1] block 4 of 1 halo [0, 0, 1] [0, 0, 1] "
              "fill 0",
              "i5 - 1", "0"),
  };
  dt_text_t texts[3];
  for (int k = 0; k < 3; k++) {
    hand_t h;
    dt_kernel_params_t params;
    hand_parse(&h, temps[k]);
    dt__text_init(&texts[k]);
    expect_ok(dt__kernel_print(h.program, &h.program->kernels.items[0], &params, &texts[k]));
    for (int other = 0; other < k; other++)
      assert_string_not_equal(dt__text_str(&texts[k]), dt__text_str(&texts[other]));
    hand_fini(&h);
  }
  for (int k = 0; k < 3; k++)
    dt__text_fini(&texts[k]);
}

RUN_TESTS(TEST(texts_and_copies_keep_layouts), TEST(worker_text_keeps_layouts),
          TEST(elements_lie_where_the_layout_says), TEST(the_interpreter_knows_them),
          TEST(wrong_layouts_are_refused), TEST(strides_must_be_the_layouts),
          TEST(code_is_shared_by_layout))
