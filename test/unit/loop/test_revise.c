// SPDX-License-Identifier: Apache-2.0
// Kernels that revise what earlier ones stored: what they compute, and each rule of the verifier
// about them broken once.
#include "test/unit/loop/rig.h"

#include <stdio.h>
#include <string.h>

// b1 with 10 added at each of four places, one after the other.
static const char scatter[] = "program {\n"
                              "symbol s0: [1, 99]\n"
                              "buffer b1 = input 0 f32[s0] strides [1]\n"
                              "buffer b2 = input 1 i64[4] strides [1]\n"
                              "buffer b3 = output 0 f32[s0]\n"
                              "buffer b4 = temp f32[s0]\n"
                              "buffer b5 = temp f32[4]\n"
                              "check 0 \"an index\" op \"scatter\"\n"
                              "kernel \"copy\" outer i1 < s0 {\n"
                              "  stage {\n"
                              "    v0 = load f32 b1[i1]\n"
                              "    store b3[i1] = v0\n"
                              "  }\n"
                              "}\n"
                              "kernel \"add\" {\n"
                              "  stage inner i2 < 4 {\n"
                              "    v0 = load i64 b2[i2]\n"
                              "    v1 = bind d3: [0, 98] < s0 of v0 check 0\n"
                              "    v2 = const f32 10\n"
                              "    v3 = load f32 b3[d3] mask v1 else v2\n"
                              "    v4 = add f32 v3, v2\n"
                              "    revise b3[d3] = v4 mask v1\n"
                              "  }\n"
                              "  schedule serial lanes 1 unroll 1 block 1 grain 1\n"
                              "}\n"
                              "outputs b3\n"
                              "}\n";

typedef struct parsed_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
} parsed_t;

static void parsed_init(parsed_t *p, const char *text) {
  dt_scan_t scan;
  dt__arena_init(&p->arena, 0);
  expect_ok(dt__symenv_create(&p->env));
  dt__scan_init(&scan, text, strlen(text), "program");
  expect_ok(dt__program_parse(&p->arena, p->env, &scan, &p->program));
}

static void parsed_fini(parsed_t *p) {
  dt__symenv_destroy(p->env);
  dt__arena_fini(&p->arena);
}

// ---- What is computed -------------------------------------------------------------------------------
static dt_status_t interpret(const char *text, const int64_t *places, float *y) {
  parsed_t p;
  parsed_init(&p, text);
  expect_ok(dt__program_verify(p.program));
  float x[5] = {1, 2, 3, 4, 5};
  int64_t at[4], symbols[1] = {5};
  memcpy(at, places, sizeof at);
  void *in[2] = {x, at}, *out[1] = {y};
  dt_status_t status = dt__program_interpret(p.program, symbols, in, out);
  parsed_fini(&p);
  return status;
}

static void test_in_order(void **state) {
  (void)state;
  static const int64_t places[] = {2, 0, 2, 4}, out_of_range[] = {2, 0, 5, 4};
  static const float want[] = {11, 2, 23, 4, 15};
  float y[5] = {0};
  expect_ok(interpret(scatter, places, y));
  for (int k = 0; k < 5; k++)
    if (y[k] != want[k])
      fail_msg("element %d: got %g, expected %g", k, (double)y[k], (double)want[k]);
  expect_told(interpret(scatter, out_of_range, y), DT_E_RANGE, "an index");
}

// ---- Rules ------------------------------------------------------------------------------------------
// The text with the first `from` after `after` replaced by `to`.
typedef struct edit_t {
  const char *after, *from, *to, *message;
} edit_t;

static void edited(char *text, size_t room, const edit_t *edit) {
  const char *start = strstr(scatter, edit->after), *at = start ? strstr(start, edit->from) : NULL;
  if (!at)
    fail_msg("no \"%s\" after \"%s\"", edit->from, edit->after);
  int len = snprintf(text, room, "%.*s%s%s", (int)(at - scatter), scatter, edit->to,
                     at + strlen(edit->from));
  assert_true(len > 0 && (size_t)len < room);
}

static void test_rules(void **state) {
  (void)state;
  static const edit_t edits[] = {
      // Of what is revised.
      {"copy", "store b3[i1]", "store b4[i1]", "buffer 3 is read before a kernel wrote it"},
      {"add", "revise b3[d3]", "revise b4[d3]", "buffer 4 is revised before a kernel wrote it"},
      {"buffer b3", "output 0 f32[s0]", "constant 0 f32[s0]",
       "a store to buffer 3, which is constant"},
      {"buffer b3", "f32[s0]", "f64[s0]", "buffer 3"},
      // Of what else the kernel does.
      {"revise", "mask v1\n", "mask v1\n    store b5[i2] = v2\n",
       "it revises buffer 3, and does more than that"},
      {"v4 = add f32 v3, v2\n", "    revise", "    store b5[i2] = v2\n    revise",
       "it revises buffer 3, and does more than that"},
      {"revise", "mask v1\n", "mask v1\n    revise b3[d3] = v2 mask v1\n",
       "it revises buffer 3, and does more than that"},
      {"revise", "mask v1\n", "mask v1\n    reduce sum f32 r0 = v4\n",
       "it revises buffer 3, and does more than that"},
      {"revise", "  }\n", "  }\n  stage {\n    v0 = const f32 1\n    store b4[0] = v0\n  }\n",
       "it revises buffer 3, and does more than that"},
      // Of what it reads.
      {"add", "load f32 b3[d3] mask v1", "load f32 b3[i2] mask v1",
       "it reads other elements of buffer 3 than it revises"},
      {"add", "v2 = const f32 10\n", "v2 = load f32 b3[0]\n",
       "it reads other elements of buffer 3 than it revises"},
      {"add", "v4 = add f32 v3, v2\n", "v4 = add f32 v3, v2\n    v5 = search i64 b3 of v4\n",
       "it reads other elements of buffer 3 than it revises"},
      // Of its mask, and of what its index is bound by.
      {"revise", "mask v1", "mask v2", "its mask is no bool"},
      {"revise", " mask v1", "", "a store at d3 without the mask of its bind"},
      {"revise", "v4", "v0", "i64"},
      // Of how it runs.
      {"schedule", "serial lanes 1", "inner_lanes lanes 8",
       "schedule 0 takes loops apart that run in order"},
  };
  for (size_t k = 0; k < sizeof edits / sizeof edits[0]; k++) {
    char text[2048];
    parsed_t p;
    edited(text, sizeof text, &edits[k]);
    parsed_init(&p, text);
    expect_told_of(edits[k].to, dt__program_verify(p.program), DT_E_INTERNAL, edits[k].message);
    parsed_fini(&p);
  }
}

// What only the interpreter sees: an element that no kernel wrote.
static void test_elements(void **state) {
  (void)state;
  static const int64_t places[] = {0, 1, 4, 0};
  static const edit_t edits[] = {
      {"add", "load f32 b3[d3] mask v1 else v2", "const f32 1",
       "element 4 of buffer 3 is revised before it is written"},
      {"add", "v2 = const f32 10", "v2 = const f32 11",
       "element 4 of buffer 3 is read before it is written"},
  };
  for (size_t k = 0; k < sizeof edits / sizeof edits[0]; k++) {
    char text[2048];
    float y[5];
    edited(text, sizeof text, &edits[k]);
    char *copied = strstr(text, "i1 < s0");
    memcpy(copied, "i1 < 3 ", 7);
    expect_told_of(edits[k].to, interpret(text, places, y), DT_E_INTERNAL, edits[k].message);
  }
}

// Programs that no text gives.
static void test_no_such_buffer(void **state) {
  (void)state;
  static const uint32_t wrong[] = {0, 6, 1U << 30};
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
    parsed_t p;
    parsed_init(&p, scatter);
    p.program->kernels.items[1].stages.items[0].stores.items[0].buffer.id = wrong[k];
    expect_told(dt__program_verify(p.program), DT_E_INTERNAL, "of 5");
    parsed_fini(&p);
  }
}

// ---- Arguments --------------------------------------------------------------------------------------
// Places are checked and kept before the argument is revised at them.
static const char update[] = "program {\n"
                             "symbol s0: [1, 99]\n"
                             "buffer b1 = input 0 f32[s0] strides [1]\n"
                             "buffer b2 = input 1 i64[4] strides [1]\n"
                             "buffer b3 = temp i64[4]\n"
                             "buffer b4 = output 0 i64[4]\n"
                             "check 0 \"an index\" op \"scatter\"\n"
                             "kernel \"places\" outer i1 < 4 {\n"
                             "  stage {\n"
                             "    v0 = load i64 b2[i1]\n"
                             "    v1 = bind d2: [0, 98] < s0 of v0 check 0\n"
                             "    v2 = index i64 d2\n"
                             "    store b3[i1] = v2\n"
                             "    store b4[i1] = v0\n"
                             "  }\n"
                             "}\n"
                             "kernel \"update\" {\n"
                             "  stage inner i3 < 4 {\n"
                             "    v0 = load i64 b3[i3]\n"
                             "    v1 = bind d4: [0, 98] < s0 of v0\n"
                             "    v2 = index f32 i3\n"
                             "    revise b1[d4] = v2 mask v1\n"
                             "  }\n"
                             "}\n"
                             "outputs b4\n"
                             "}\n";

static void test_argument(void **state) {
  (void)state;
  static const float want[] = {3, 2, 2, 4, 1};
  parsed_t p;
  dt_text_t text;
  float x[5] = {1, 2, 3, 4, 5};
  int64_t at[4] = {0, -1, 2, 0}, told[4], symbols[1] = {5};
  void *in[2] = {x, at}, *out[1] = {told};
  parsed_init(&p, update);
  dt__text_init(&text);
  expect_ok(dt__program_verify(p.program));
  dt__program_print(p.program, &text);
  check_text(update, dt__text_str(&text));
  expect_ok(dt__program_interpret(p.program, symbols, in, out));
  assert_memory_equal(x, want, sizeof(x));
  at[3] = 5; // nothing is written
  x[0] = 9;
  expect_told(dt__program_interpret(p.program, symbols, in, out), DT_E_RANGE, "an index");
  assert_true(x[0] == 9);
  dt__text_fini(&text);
  parsed_fini(&p);
}

static void test_argument_checked(void **state) {
  (void)state;
  char text[sizeof(update) + 16];
  const char *at = strstr(update, " of v0\n");
  parsed_t p;
  assert_non_null(at);
  snprintf(text, sizeof(text), "%.*s of v0 check 0%s", (int)(at - update), update, at + 6);
  parsed_init(&p, text);
  expect_told(dt__program_verify(p.program), DT_E_INTERNAL,
              "it updates an argument and makes check 0");
  parsed_fini(&p);
}

RUN_TESTS(TEST(test_argument), TEST(test_argument_checked), TEST(test_in_order), TEST(test_rules),
          TEST(test_elements), TEST(test_no_such_buffer))
