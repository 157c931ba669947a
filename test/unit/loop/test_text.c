// SPDX-License-Identifier: Apache-2.0
// Programs as text: what lowering writes (golden), what the verifier refuses, what the parser
// refuses, and that no damaged text does worse than be refused.
#include "test/unit/loop/rig.h"

#include <stdio.h>
#include <string.h>

// ---- Golden -----------------------------------------------------------------------------------------------
typedef struct golden_t {
  const char *graph, *program;
} golden_t;

static void check_golden(const golden_t *golden) {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_program_t *program;
  dt_scan_t scan;
  dt_text_t text;
  dt__arena_init(&arena, 0);
  dt__text_init(&text);
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, golden->graph, strlen(golden->graph), "graph");
  expect_ok(dt__graph_parse(&arena, env, &scan, &graph));
  expect_ok(dt__lower_graph(&arena, env, graph, &program));
  expect_ok(dt__program_verify(program));
  dt__program_print(program, &text);
  check_text(golden->program, dt__text_str(&text));
  dt__text_fini(&text);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

// A view of a view is read through its index map; a reduction is a reduction and a store.
static void test_reduction(void **state) {
  (void)state;
  const golden_t golden = {
      "graph (s0: [0, 99], s1: [0, 99]) {\n"
      "  %1 = input \"x\" f32[s0, s1] strides [s1, 1] contiguous\n"
      "  %2 = permute %1 {axes = [1, 0]} : f32[s1, s0]\n"
      "  %3 = slice %2 {syms = [s1 - 1, s1, 0, s0], steps = [-1, 1]} : f32[s1, s0]\n"
      "  %4 = exp %3 : f32[s1, s0]\n"
      "  %5 = sum %4 {axes = [1], keepdims = 1} : f32[s1, 1]\n"
      "  return %5\n}\n",
      "program {\n"
      "symbol s0: [0, 99]\n"
      "symbol s1: [0, 99]\n"
      "buffer b1 = input 0 f32[s0, s1] strides [s1, 1]\n"
      "buffer b2 = temp f32[s1, s0]\n"
      "buffer b3 = output 0 f32[s1, 1]\n"
      "kernel \"exp\" outer i2 < s1, i3 < s0 {\n"
      "  stage {\n"
      "    v0 = load f32 b1[i3, s1 - i2 - 1]\n"
      "    v1 = exp f32 v0\n"
      "    store b2[i2, i3] = v1\n"
      "  }\n"
      "}\n"
      "kernel \"sum\" outer i4 < s1 {\n"
      "  stage inner i5 < s0 {\n"
      "    v0 = load f32 b2[i4, i5]\n"
      "    reduce sum f32 r0 = v0\n"
      "  }\n"
      "  stage {\n"
      "    v0 = row f32 r0\n"
      "    store b3[i4, 0] = v0\n"
      "  }\n"
      "}\n"
      "outputs b3\n"
      "}\n"};
  check_golden(&golden);
}

// Checked indices, padding under a mask, parts side by side, a copy for a result that is a view.
static void test_maps(void **state) {
  (void)state;
  const golden_t golden = {"graph (s0: [1, 99], s1: [0, 99]) {\n"
                           "  %1 = input \"x\" f32[s0, 4] strides [4, 1] contiguous\n"
                           "  %2 = input \"ids\" i64[s1] strides [1] contiguous\n"
                           "  %3 = gather %1, %2 {axes = [0]} : f32[s1, 4]\n"
                           "  %4 = pad %3 {syms = [0, 1, 0, 0], value = 2.5} : f32[s1 + 1, 4]\n"
                           "  %5 = concat %3, %4 {axes = [0]} : f32[s1*2 + 1, 4]\n"
                           "  %6 = reshape %1 {syms = [s0*4]} : f32[s0*4]\n"
                           "  return %5, %6\n}\n",
                           "program {\n"
                           "symbol s0: [1, 99]\n"
                           "symbol s1: [0, 99]\n"
                           "buffer b1 = input 0 f32[s0, 4] strides [4, 1]\n"
                           "buffer b2 = input 1 i64[s1] strides [1]\n"
                           "buffer b3 = temp f32[s1, 4]\n"
                           "buffer b4 = temp f32[s1 + 1, 4]\n"
                           "buffer b5 = output 0 f32[s1*2 + 1, 4]\n"
                           "buffer b6 = output 1 f32[s0*4]\n"
                           "check 0 \"gather: index of ids\" op \"gather\"\n"
                           "kernel \"gather\" outer i2 < s1, i3 < 4 {\n"
                           "  stage {\n"
                           "    v0 = load i64 b2[i2]\n"
                           "    v1 = bind d4: [0, 98] < s0 of v0 check 0\n"
                           "    v2 = load f32 b1[d4, i3] mask v1\n"
                           "    store b3[i2, i3] = v2\n"
                           "  }\n"
                           "}\n"
                           "kernel \"pad\" outer i5 < s1 + 1, i6 < 4 {\n"
                           "  stage {\n"
                           "    v0 = const f32 2.5\n"
                           "    v1 = index bool i5 < s1\n"
                           "    v2 = load f32 b3[i5, i6] mask v1 else v0\n"
                           "    store b4[i5, i6] = v2\n"
                           "  }\n"
                           "}\n"
                           "kernel \"concat\" outer i7 < s1, i8 < 4 {\n"
                           "  stage {\n"
                           "    v0 = load f32 b3[i7, i8]\n"
                           "    store b5[i7, i8] = v0\n"
                           "  }\n"
                           "}\n"
                           "kernel \"concat\" outer i9 < s1 + 1, i10 < 4 {\n"
                           "  stage {\n"
                           "    v0 = load f32 b4[i9, i10]\n"
                           "    store b5[s1 + i9, i10] = v0\n"
                           "  }\n"
                           "}\n"
                           "kernel \"copy\" outer i11 < s0*4 {\n"
                           "  stage {\n"
                           "    v0 = load f32 b1[i11//4, i11%4]\n"
                           "    store b6[i11] = v0\n"
                           "  }\n"
                           "}\n"
                           "outputs b5, b6\n"
                           "}\n"};
  check_golden(&golden);
}

// ---- A text with everything ---------------------------------------------------------------------------
static const char *const whole =
    "program {\n"
    "symbol s0: [0, 99] hint 5 \"x.size(0)\"\n"
    "symbol n1: [-9, 9]\n"
    "buffer b1 = input 0 f32[s0, s0] strides [n1, -1]\n"
    "buffer b2 = constant 0 f32[4]\n"
    "buffer b3 = once f32[4]\n"
    "buffer b4 = local f32[s0]\n"
    "buffer b5 = output 0 f32[s0, s0]\n"
    "buffer b6 = temp i64[s0]\n"
    "check 0 \"an index\" op \"gather\"\n"
    "kernel \"once\" outer i2 < 4 {\n"
    "  stage {\n"
    "    v0 = load f32 b2[i2]\n"
    "    v1 = neg f32 v0\n"
    "    store b3[i2] = v1\n"
    "  }\n"
    "}\n"
    "kernel \"arg\" outer i3 < s0 {\n"
    "  stage inner i4 < s0 {\n"
    "    v0 = load f32 b1[i3, i4]\n"
    "    v1 = index i64 i4\n"
    "    reduce argmax i64 r0 = v0 at v1\n"
    "  }\n"
    "  stage {\n"
    "    v0 = row i64 r0\n"
    "    store b6[i3] = v0\n"
    "  }\n"
    "}\n"
    "kernel \"row\" outer i5 < s0 {\n"
    "  stage inner i6 < s0 {\n"
    "    v0 = load f32 b1[i5, i6]\n"
    "    v1 = load i64 b6[i6]\n"
    "    v2 = bind d7: [0, 3] < 4 of v1 check 0\n"
    "    v3 = const f32 -1.25\n"
    "    v4 = load f32 b3[d7] mask v2 else v3\n"
    "    v5 = add f32 v0, v4\n"
    "    v6 = where f32 v2, v5, v3\n"
    "    store b4[i6] = v6\n"
    "    reduce max f32 r0 = v5\n"
    "    reduce sum f32 r1 = v6\n"
    "  }\n"
    "  stage inner i8 < s0 {\n"
    "    v0 = load f32 b4[i8]\n"
    "    v1 = row f32 r1\n"
    "    v2 = div f32 v0, v1\n"
    "    v3 = index bool i8 <= 1\n"
    "    v4 = cast f32 v3\n"
    "    v5 = mul f32 v2, v4\n"
    "    store b5[i5, i8] = v5\n"
    "  }\n"
    "  schedule inner_lanes lanes 16 unroll 4 block 1 grain 8 if s0 <= 3\n"
    "  schedule serial lanes 1 unroll 1 block 1 grain 1\n"
    "}\n"
    "outputs b5\n"
    "once 1\n"
    "offset b3 = 0\n"
    "offset b6 = 0\n"
    "block s0*8\n"
    "kept 64\n"
    "}\n";

// And one with what sizes from data need: two segments, a running reduction, a search, a scatter,
// a readback, an update.
static const char *const segmented = "program {\n"
                                     "symbol s0: [0, 99]\n"
                                     "symbol u1: [0, 99] \"data\"\n"
                                     "buffer b1 = input 0 f32[s0] strides [1]\n"
                                     "buffer b2 = input 1 i64[s0] strides [1]\n"
                                     "buffer b3 = temp i64[s0]\n"
                                     "buffer b4 = temp i64[]\n"
                                     "buffer b5 = temp i64[u1]\n"
                                     "buffer b6 = output 0 i64[u1]\n"
                                     "check 0 \"compress: place\" op \"compress\"\n"
                                     "kernel \"scan\" {\n"
                                     "  stage inner i2 < s0 {\n"
                                     "    v0 = load f32 b1[i2]\n"
                                     "    v1 = cast i64 v0\n"
                                     "    v2 = running i64 r0\n"
                                     "    store b3[i2] = v2\n"
                                     "    reduce sum i64 r0 = v1\n"
                                     "  }\n"
                                     "  schedule serial lanes 1 unroll 1 block 1 grain 1\n"
                                     "}\n"
                                     "kernel \"item\" {\n"
                                     "  stage {\n"
                                     "    v0 = const i64 3\n"
                                     "    store b4[] = v0\n"
                                     "  }\n"
                                     "}\n"
                                     "kernel \"compress\" outer i3 < s0 {\n"
                                     "  stage {\n"
                                     "    v0 = load i64 b3[i3]\n"
                                     "    v1 = index bool i3 <= 2\n"
                                     "    v2 = bind d4: [0, 98] < u1 of v0 check 0 mask v1\n"
                                     "    v3 = index i64 i3\n"
                                     "    store b5[d4] = v3 mask v2\n"
                                     "  }\n"
                                     "}\n"
                                     "kernel \"search\" outer i5 < u1 {\n"
                                     "  stage {\n"
                                     "    v0 = load i64 b5[i5]\n"
                                     "    v1 = search i64 b3 of v0 inclusive\n"
                                     "    v2 = search i64 b3 of v0\n"
                                     "    v3 = sub i64 v1, v2\n"
                                     "    store b6[i5] = v3\n"
                                     "  }\n"
                                     "}\n"
                                     "kernel \"update\" outer i6 < s0 {\n"
                                     "  stage {\n"
                                     "    v0 = load i64 b3[i6]\n"
                                     "    store b2[i6] = v0\n"
                                     "  }\n"
                                     "}\n"
                                     "outputs b6\n"
                                     "readback b4 binds u1 \"nonzero\" op \"item\"\n"
                                     "host_reads \"its result has the size\"\n"
                                     "offset b3 = 0\n"
                                     "offset b4 = s0*8\n"
                                     "offset b5 = s0*8 + 64\n"
                                     "block s0*8 + u1*8 + 64\n"
                                     "segment readbacks 0 kernels 2 block s0*8 + 64\n"
                                     "segment readbacks 1 kernels 5 block s0*8 + u1*8 + 64\n"
                                     "}\n";

// The same as a device has it: checks, and a gate for what uses the readback.
static const char *const device_sized = "program {\n"
                                        "symbol s0: [0, 99]\n"
                                        "symbol u1: [0, 99] \"data\"\n"
                                        "buffer b1 = input 0 f32[s0] strides [1]\n"
                                        "buffer b2 = temp i64[]\n"
                                        "buffer b3 = temp i64[]\n"
                                        "buffer b4 = temp f32[u1]\n"
                                        "buffer b5 = output 0 f32[]\n"
                                        "check 0 \"at most s0\" op \"check\" code 2 readback 0\n"
                                        "check 1 \"data\" op \"item\" readback 0\n"
                                        "kernel \"item\" {\n"
                                        "  stage {\n"
                                        "    v0 = const i64 3\n"
                                        "    store b2[] = v0\n"
                                        "  }\n"
                                        "}\n"
                                        "kernel \"checks\" {\n"
                                        "  stage {\n"
                                        "    v0 = load i64 b2[]\n"
                                        "    v1 = index i64 s0\n"
                                        "    v2 = le bool v0, v1\n"
                                        "    v3 = logical_not bool v2\n"
                                        "    v4 = bind d2: [0, 0] < 0 of v0 check 0 mask v3\n"
                                        "    v5 = cast i64 v2\n"
                                        "    store b3[] = v5\n"
                                        "  }\n"
                                        "}\n"
                                        "kernel \"copy\" gate b3 outer i3 < u1 {\n"
                                        "  stage {\n"
                                        "    v0 = load f32 b1[i3]\n"
                                        "    store b4[i3] = v0\n"
                                        "  }\n"
                                        "}\n"
                                        "kernel \"sum\" gate b3 {\n"
                                        "  stage inner i4 < u1 {\n"
                                        "    v0 = load f32 b4[i4]\n"
                                        "    reduce sum f32 r0 = v0\n"
                                        "  }\n"
                                        "  stage {\n"
                                        "    v0 = row f32 r0\n"
                                        "    store b5[] = v0\n"
                                        "  }\n"
                                        "}\n"
                                        "outputs b5\n"
                                        "readback b2 binds u1 \"nonzero\" op \"item\" most s0\n"
                                        "device_sized\n"
                                        "offset b2 = 0\n"
                                        "offset b3 = 64\n"
                                        "offset b4 = 128\n"
                                        "block ((s0 + 15)//16)*64 + 128\n"
                                        "}\n";

// A device's program that checks and updates: a gate for what updates.
static const char *const gated = "program {\n"
                                 "symbol s0: [0, 99]\n"
                                 "buffer b1 = input 0 i64[s0] strides [1]\n"
                                 "buffer b2 = temp i64[s0]\n"
                                 "buffer b3 = temp i64[]\n"
                                 "buffer b4 = output 0 i64[]\n"
                                 "check 0 \"index\" op \"gather\"\n"
                                 "kernel \"gather\" outer i1 < s0 {\n"
                                 "  stage {\n"
                                 "    v0 = load i64 b1[i1]\n"
                                 "    v1 = bind d2: [0, 98] < s0 of v0 check 0\n"
                                 "    v2 = load i64 b1[d2] mask v1\n"
                                 "    store b2[i1] = v2\n"
                                 "  }\n"
                                 "}\n"
                                 "kernel \"count\" {\n"
                                 "  stage {\n"
                                 "    v0 = index i64 s0\n"
                                 "    store b4[] = v0\n"
                                 "  }\n"
                                 "}\n"
                                 "kernel \"commit\" {\n"
                                 "  stage {\n"
                                 "    v0 = sound bool\n"
                                 "    v1 = cast i64 v0\n"
                                 "    store b3[] = v1\n"
                                 "  }\n"
                                 "}\n"
                                 "kernel \"update\" gate b3 outer i3 < s0 {\n"
                                 "  stage {\n"
                                 "    v0 = load i64 b2[i3]\n"
                                 "    store b1[i3] = v0\n"
                                 "  }\n"
                                 "}\n"
                                 "outputs b4\n"
                                 "offset b2 = 0\n"
                                 "offset b3 = s0*8\n"
                                 "block s0*8 + 64\n"
                                 "}\n";

static dt_status_t parse(dt_arena_t *arena, dt_symenv_t *env, const char *text, size_t len,
                         dt_program_t **out) {
  dt_scan_t scan;
  dt__scan_init(&scan, text, len, "program");
  return dt__program_parse(arena, env, &scan, out);
}

static void check_round_trip(const char *expected) {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
  dt_text_t text;
  dt__arena_init(&arena, 0);
  dt__text_init(&text);
  expect_ok(dt__symenv_create(&env));
  expect_ok(parse(&arena, env, expected, strlen(expected), &program));
  expect_ok(dt__program_verify(program));
  dt__program_print(program, &text);
  check_text(expected, dt__text_str(&text));
  dt__text_fini(&text);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

static void test_round_trip(void **state) {
  (void)state;
  check_round_trip(whole);
  check_round_trip(segmented);
  check_round_trip(device_sized);
  check_round_trip(gated);
}

// ---- Refusals -----------------------------------------------------------------------------------------------
// A text with the first `from` after `after` replaced by `to`.
typedef struct edit_t {
  const char *after, *from, *to;
  const char *message; // part of the failure's
} edit_t;

static void check_edit(const char *source, const edit_t *edit, dt_code_t code) {
  char text[4096];
  const char *start = strstr(source, edit->after);
  assert_non_null(start);
  const char *at = strstr(start, edit->from);
  if (!at)
    print_error("no \"%s\" after \"%s\"\n", edit->from, edit->after);
  assert_non_null(at);
  int len = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - source), source, edit->to,
                     at + strlen(edit->from));
  assert_true(len > 0 && (size_t)len < sizeof(text));
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  dt_status_t status = parse(&arena, env, text, strlen(text), &program);
  if (!status)
    status = dt__program_verify(program);
  char what[256];
  (void)snprintf(what, sizeof(what), "after \"%s\", \"%s\" as \"%s\"", edit->after, edit->from,
                 edit->to);
  expect_told_of(what, status, code, edit->message);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

// 16-bit floats are loaded, cast, chosen and stored; nothing computes in them.
static const char halves[] = "program {\n"
                             "symbol s0: [0, 99]\n"
                             "buffer b1 = input 0 f16[s0] strides [1]\n"
                             "buffer b2 = output 0 f16[s0]\n"
                             "buffer b3 = output 1 bf16[1]\n"
                             "kernel \"map\" outer i1 < s0 {\n"
                             "  stage {\n"
                             "    v0 = load f16 b1[i1]\n"
                             "    v1 = cast f32 v0\n"
                             "    v2 = const f16 0.0999756\n"
                             "    v3 = index bool i1 <= 2\n"
                             "    v4 = where f16 v3, v0, v2\n"
                             "    v5 = add f32 v1, v1\n"
                             "    store b2[i1] = v4\n"
                             "  }\n"
                             "}\n"
                             "kernel \"sum\" outer i2 < 1 {\n"
                             "  stage inner i3 < s0 {\n"
                             "    v0 = load f16 b1[i3]\n"
                             "    v1 = cast f32 v0\n"
                             "    reduce sum f32 r0 = v1\n"
                             "  }\n"
                             "  stage {\n"
                             "    v0 = row f32 r0\n"
                             "    v1 = cast bf16 v0\n"
                             "    store b3[i2] = v1\n"
                             "  }\n"
                             "}\n"
                             "outputs b2, b3\n"
                             "}\n";

static void test_halves(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"kernel \"map\"", "v5 = add f32 v1, v1", "v5 = add f16 v0, v0", "add of f16, which is only"},
      {"kernel \"map\"", "v5 = add f32 v1, v1", "v5 = eq bool v0, v2", "eq of f16, which is only"},
      {"kernel \"sum\"", "reduce sum f32 r0 = v1", "reduce sum f16 r0 = v0",
       "reduction sum of f16, which is only stored"},
      {"kernel \"map\"", "where f16 v3, v0, v2", "where f16 v3, v0, v1", "where of f16 and f32"},
  };
  check_round_trip(halves);
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(halves, &edits[k], DT_E_INTERNAL);
}

static void test_verifier(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"buffer b5", "output 0", "output 1", "number 1 of 1"},
      {"outputs", "b5", "b6", "which is temp"},
      {"kernel \"once\"", "v1 = neg f32 v0", "v1 = neg f64 v0", "gives f64"},
      {"kernel \"once\"", "v1 = neg f32 v0", "v1 = neg f32 v1", "not an earlier instruction"},
      {"kernel \"once\"", "v1 = neg f32 v0", "v1 = logical_not f32 v0", "logical_not of f32"},
      {"kernel \"once\"", "store b3", "store b2", "a store to buffer 2, which is constant"},
      {"kernel \"once\"", "v0 = load f32 b2[i2]", "v0 = load f32 b1[i2, i2]", "runs once reads"},
      {"kernel \"once\"", "store b3[i2] = v1", "store b3[i2] = v9", "does not exist"},
      {"kernel \"arg\"", "row i64 r0", "row f32 r0", "is i64, not f32"},
      {"kernel \"arg\"", "row i64 r0", "row i64 r1", "no earlier stage"},
      {"kernel \"arg\"", "reduce argmax i64 r0 = v0 at v1", "reduce argmax i64 r0 = v0 at v0",
       "its index is wrong"},
      {"kernel \"arg\"", "reduce argmax i64 r0 = v0 at v1", "reduce max i64 r0 = v0", "gives i64"},
      {"kernel \"arg\"", "reduce argmax i64 r0 = v0 at v1", "reduce any bool r0 = v0",
       "reduction any of f32"},
      {"kernel \"arg\"", "load f32 b1[i3, i4]", "load f32 b1[i3, i2]", "not visible"},
      {"kernel \"arg\"", "load f32 b1[i3, i4]", "load f64 b1[i3, i4]", "but buffer 1 has f32"},
      {"kernel \"arg\"", "store b6[i3]", "store b6[i4]", "not visible"},
      {"kernel \"arg\"", "outer i3 < s0", "outer i3 < s0, i3 < s0", "used twice"},
      {"kernel \"row\"", "outer i5 < s0", "outer i5 < s0, i2 < s0", "another extent"},
      {"kernel \"row\"", "load f32 b3[d7] mask v2 else v3", "load f32 b3[d7]",
       "without the mask of its bind"},
      {"kernel \"row\"", "load f32 b3[d7] mask v2 else v3", "load f32 b3[d7] mask v3 else v3",
       "its mask is no bool"},
      {"kernel \"row\"", "load f32 b3[d7] mask v2 else v3", "load f32 b3[d7] mask v2 else v1",
       "its fill is i64"},
      {"kernel \"row\"", "load i64 b6[i6]", "load i64 b6[d7]", "unknown symbol"},
      {"kernel \"row\"", "of v1 check 0", "of v0 check 0", "binds f32"},
      {"kernel \"row\"", "of v1 check 0", "of v1 check 1", "check 1 of 1"},
      {"kernel \"row\"", "v6 = where f32 v2, v5, v3", "v6 = where f32 v5, v5, v3",
       "its condition is no bool"},
      {"kernel \"row\"", "add f32 v0, v4", "add f32 v0, v1", "add of f32 and i64"},
      {"kernel \"row\"", "reduce sum f32 r1", "reduce sum f32 r0", "again or out of range"},
      {"kernel \"row\"", "v1 = row f32 r1", "v1 = row f32 r2", "no earlier stage"},
      {"kernel \"row\"", "store b4[i6] = v6", "store b5[i5, i6] = v6", "before a stage wrote it"},
      {"kernel \"row\"", "store b5[i5, i8] = v5", "store b4[i8] = v5", "written by no kernel"},
      {"kernel \"row\"", "lanes 16 unroll 4", "lanes 16 unroll 9", "unroll 9"},
      {"kernel \"row\"", " if s0 <= 3", "", "a predicate is missing"},
      {"kernel \"row\"", "if s0 <= 3", "if i5 <= 3", "not visible"},
      {"kernel \"row\"", "schedule serial lanes 1 unroll 1 block 1 grain 1",
       "schedule matmul lanes 1 unroll 1 block 1 grain 1 a v0 b v1 width 1 rows 1 tile 1 1",
       "loops of another form"},
      {"kernel \"row\"", "schedule serial lanes 1 unroll 1 block 1 grain 1",
       "schedule matmul lanes 1 unroll 1 block 1 grain 1 team 32 a v0 b v1 width 1 rows 1 tile 1 1",
       "of panels with a team of 32"},
      {"kernel \"row\"", "serial lanes 1 unroll 1 block 1", "tiles lanes 1 unroll 1 block 4",
       "squares of 4 for a team of 0"},
      {"kernel \"row\"", "serial lanes 1", "serial lanes 2", "scalar code with 2 lanes"},
      {"kernel \"row\"", "schedule serial lanes 1 unroll 1 block 1",
       "schedule outer_lanes lanes 1 unroll 1 block 0", "blocks of 0 iterations"},
      {"buffer b6", "temp", "once", "by a kernel that runs at each call"},
      {"once 1\n", "offset b6", "offset b5", "has an offset, but is output"},
      {"once 1\n", "offset b6 = 0", "offset b6 = i5", "not visible"},
      {"outputs", "once 1", "once 4", "4 kernels run once"},
      {"buffer b4", "local f32[s0]", "local f32[i2]", "unknown symbol"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(whole, &edits[k],
               strcmp(edits[k].message, "unknown symbol") == 0 ? DT_E_FORMAT : DT_E_INTERNAL);
}

static void test_data_verifier(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"kernel \"scan\"", "v2 = running i64 r0", "v2 = running i64 r1",
       "is no reduction of this stage"},
      {"kernel \"scan\"", "v2 = running i64 r0", "v2 = running f32 r0", "is i64, not f32"},
      {"kernel \"scan\"", "reduce sum i64 r0 = v1", "reduce sum i64 r0 = v2",
       "what comes after it"},
      {"kernel \"scan\"", "schedule serial", "schedule inner_lanes", "run in order"},
      {"kernel \"compress\"", "mask v1\n    v3", "mask v0\n    v3", "v2: its mask is no bool"},
      {"kernel \"compress\"", "= v3 mask v2", "= v3 mask v1", "without the mask of its bind"},
      {"kernel \"compress\"", "= v3 mask v2", "= v3", "without the mask of its bind"},
      {"kernel \"compress\"", "= v3 mask v2", "= v3 mask v0", "its mask is no bool"},
      {"kernel \"compress\"", "= v3 mask v2", "= v3 mask v9", "its mask is no bool"},
      {"kernel \"search\"", "search i64 b3 of v0 inclusive", "search i32 b3 of v0 inclusive",
       "searches i64 and gives i32"},
      {"kernel \"search\"", "search i64 b3 of v0 inclusive", "search i64 b4 of v0 inclusive",
       "of rank 0"},
      {"kernel \"search\"", "search i64 b3 of v0 inclusive", "search i64 b1 of v0 inclusive",
       "and f32 for i64"},
      {"kernel \"search\"", "search i64 b3 of v0 inclusive", "search i64 b6 of v0 inclusive",
       "buffer 6 is read before a kernel wrote it"},
      {"kernel \"update\"", "load i64 b3[i6]", "load i64 b2[i6]", "and reads buffer 2"},
      {"kernel \"item\"", "store b4[]", "store b2[0]", "comes after a kernel that updates"},
      {"kernel \"scan\"", "store b3[i2] = v2", "store b3[i2] = v2\n store b2[i2] = v2",
       "and reads buffer 1"},
      {"kernel \"update\"", "store b2[i6] = v0\n", "store b2[i6] = v0\n store b5[i6] = v0\n",
       "and writes buffer 5"},
      {"kernel \"item\"", "store b4[]", "store b5[0]", "buffer 4 is written by no kernel"},
      {"outputs", "readback b4", "readback b3", "holds no single i64"},
      {"kernel \"scan\"", "i2 < s0", "i2 < u1", "uses readback 0 before it is written"},
      {"outputs", "segment readbacks 0 kernels 2", "segment readbacks 1 kernels 2",
       "not written when"},
      {"outputs", "segment readbacks 0 kernels 2", "segment readbacks 0 kernels 3",
       "uses readbacks that are not bound"},
      {"outputs", "segment readbacks 0 kernels 2 block s0*8 + 64",
       "segment readbacks 0 kernels 2 block s0*8 + u1", "its block's size is not known"},
      {"outputs", "offset b4 = s0*8", "offset b4 = u1*8", "the offset of buffer 4 is not known"},
      {"outputs", "segment readbacks 1 kernels 5", "segment readbacks 1 kernels 4",
       "4 kernels and 1 readbacks"},
      {"outputs", "segment readbacks 1 kernels 5", "segment readbacks 1 kernels 1",
       "kernels up to 1"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(segmented, &edits[k], DT_E_INTERNAL);
  static const edit_t texts[] = {
      {"outputs", "binds u1", "binds u0", "there is no symbol u0"},
      {"outputs", "readback b4", "readback b9", "there is no buffer b9"},
      {"outputs", "segment readbacks", "segment readback", "expected 'readbacks'"},
      {"kernel \"search\"", "b3 of v0", "b3 to v0", "expected 'of'"},
  };
  for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
    check_edit(segmented, &texts[k], DT_E_FORMAT);
}

static void test_device_sizes(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"kernel \"copy\"", "gate b3", "gate b4", "its gate, buffer 4, is not written before"},
      {"kernel \"copy\"", "gate b3", "gate b1", "its gate, buffer 1, is not written before"},
      {"kernel \"checks\"", "checks\" {", "checks\" gate b3 {", "buffer 3, is not written before"},
      {"kernel \"checks\"", "index i64 s0", "index i64 u1", "uses readback 0 before it is checked"},
      {"outputs", "most s0", "most u1", "in which the host needs readbacks"},
      {"outputs", "offset b4 = 128", "offset b4 = u1", "in which the host needs readbacks"},
      {"outputs", "(s0 + 15)", "(u1 + 15)", "in which the host needs readbacks"},
      {"outputs", "device_sized\n", "", "no gate is buffer 3"},
      {"outputs", "128\n}",
       "128\nsegment readbacks 0 kernels 1 block 64\nsegment readbacks 1 kernels 4 block 128\n}",
       "in 2 segments"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(device_sized, &edits[k], DT_E_INTERNAL);
  static const edit_t texts[] = {
      {"kernel \"copy\"", "gate b3", "gate b9", "there is no buffer b9"},
      {"check 1", "readback 0\n", "readback x\n", "expected"},
  };
  for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
    check_edit(device_sized, &texts[k], DT_E_FORMAT);
}

// What updates an argument comes last, behind the gate, and cannot fail.
static void test_commit(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"kernel \"update\"", " gate b3", "", "behind gate 0; expected 3"},
      {"kernel \"update\"", "gate b3", "gate b2", "behind gate 2; expected 3"},
      {"kernel \"count\"", "store b4[] = v0", "store b1[0] = v0",
       "comes after a kernel that updates"},
      {"kernel \"count\"", "    store b4[] = v0\n  }\n",
       "    store b4[] = v0\n  }\n  stage {\n    v0 = index i64 s0\n    store b1[0] = v0\n  }\n",
       "it updates an argument and writes buffer 4"},
      {"kernel \"update\"", "    store b1[i3] = v0\n",
       "    v1 = bind d4: [0, 98] < s0 of v0 check 0\n    store b1[i3] = v0 mask v1\n",
       "makes check 0"},
      {"kernel \"update\"", "load i64 b2[i3]", "load i64 b1[i3]", "and reads buffer 1"},
      {"kernel \"count\"", "v0 = index i64 s0", "v1 = sound bool\n    v0 = index i64 s0",
       "the next instruction is v0"},
      {"kernel \"count\"", "    v0 = index i64 s0\n    store b4[] = v0\n",
       "    v0 = sound bool\n    v1 = cast i64 v0\n    store b4[] = v1\n",
       "comes after the gate of updates and checks something"},
      {"kernel \"commit\"", "sound bool", "sound i64", "says i64 whether checks failed"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(gated, &edits[k],
               strstr(edits[k].message, "next instruction") ? DT_E_FORMAT : DT_E_INTERNAL);
}

static void test_parser(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"", "program {", "graph {", "expected 'program'"},
      {"symbol s0", "s0", "s1", "the next symbol has number 0"},
      {"symbol s0", "s0", "i0", "expected a symbol"},
      {"buffer b2", "b2", "b3", "the next buffer is b2"},
      {"buffer b2", "constant", "const", "unknown buffer kind 'const'"},
      {"buffer b2", "f32", "f31", "unknown dtype 'f31'"},
      {"buffer b1", "strides [n1, -1]", "strides [n1]", "1 strides for rank 2"},
      {"check 0", "0", "1", "the next check has number 0"},
      {"kernel \"once\"", "neg f32", "neck f32", "unknown instruction 'neck'"},
      {"kernel \"once\"", "v1 = neg", "v2 = neg", "the next instruction is v1"},
      {"kernel \"once\"", "b2[i2]", "b9[i2]", "there is no buffer b9"},
      {"kernel \"once\"", "b2[i2]", "b2[i2, i2]", "2 indices for b2 of rank 1"},
      {"kernel \"arg\"", "reduce argmax", "reduce argmix", "unknown reduction 'argmix'"},
      {"kernel \"arg\"", "r0 = v0 at", "r99999999 = v0 at", "row value r99999999"},
      {"kernel \"arg\"", "  stage", "  page", "expected stage or schedule"},
      {"kernel \"row\"", "schedule serial", "schedule cereal", "unknown schedule 'cereal'"},
      {"kernel \"row\"", "lanes 1 unroll 1 block 1", "lanes 1 unroll 1 block 2",
       "a schedule of kind serial has no block"},
      {"kernel \"row\"", "d7: [0, 3]", "d9: [0, 3]", "the next symbol has number 7"},
      {"outputs", "outputs", "output", "expected symbol, buffer"},
      {"kept 64", "64\n}", "64\n", "expected symbol, buffer"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(whole, &edits[k], DT_E_FORMAT);
}

// A product as a team of threads has it.
static const char product[] = "program {\n"
                              "symbol s0: [0, 1000]\n"
                              "buffer b1 = input 0 f32[s0, 8] strides [8, 1]\n"
                              "buffer b2 = input 1 f32[8, 4] strides [4, 1]\n"
                              "buffer b3 = output 0 f32[s0, 4]\n"
                              "kernel \"matmul\" outer i1 < s0, i2 < 4 {\n"
                              "  stage inner i3 < 8 {\n"
                              "    v0 = load f32 b1[i1, i3]\n"
                              "    v1 = load f32 b2[i3, i2]\n"
                              "    v2 = mul f32 v0, v1\n"
                              "    reduce sum f32 r0 = v2\n"
                              "  }\n"
                              "  stage {\n"
                              "    v0 = row f32 r0\n"
                              "    store b3[i1, i2] = v0\n"
                              "  }\n"
                              "  schedule team_matmul lanes 4 unroll 1 block 1 grain 1 team 256 "
                              "a v0 b v1 tile 16 64 groups 8 of 16 32 depth 64 ring 4\n"
                              "}\n"
                              "outputs b3\n"
                              "}\n";

static void test_products(void **state) {
  (void)state;
  static const edit_t edits[] = {
      {"schedule", "team 256 ", "", "with a team of 0 in 8 groups"},
      {"schedule", "groups 8", "groups 7", "with a team of 256 in 7 groups"},
      {"schedule", "groups 8", "groups 1", "in 1 groups of 16 x 32"},
      {"schedule", "depth 64", "depth 0", "tiles of 16 x 64 x 0"},
      {"schedule", "ring 4", "ring 1", "in 8 groups of 16 x 32"},
      {"schedule", "depth 64", "depth 66", "tiles of 16 x 64 x 66"},
      {"schedule", "tile 16 64", "tile 16 96", "tiles of 16 x 96"},
      {"schedule", "tile 16 64", "tile 160 64", "tiles of 160 x 64"},
      {"schedule", "a v0 b v1", "a v0 b v2", "whose operands are not loads"},
      {"schedule", "of 16 32", "of 5 32", "parts of 5 x 32"},
  };
  for (size_t k = 0; k < sizeof(edits) / sizeof(edits[0]); k++)
    check_edit(product, &edits[k], DT_E_INTERNAL);
  check_round_trip(product);
}

// Characters are lost, doubled, or replaced by others of the text: whatever comes, it is a status.
static void damage(const char *source) {
  uint64_t random = 88172645463325252u;
  size_t len = strlen(source);
  uint32_t accepted = 0;
  for (int round = 0; round < 4000; round++) {
    char text[4096];
    memcpy(text, source, len + 1);
    size_t n = len;
    for (int k = 0; k < 1 + round % 3; k++) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      size_t at = (size_t)(random % n), from = (size_t)((random >> 20) % n);
      if (random >> 60 & 1) {
        memmove(text + at, text + at + 1, n - at);
        n--;
      } else {
        text[at] = text[from];
      }
    }
    dt_arena_t arena;
    dt_symenv_t *env;
    dt_program_t *program;
    dt__arena_init(&arena, 0);
    expect_ok(dt__symenv_create(&env));
    dt_status_t status = parse(&arena, env, text, n, &program);
    if (!status)
      status = dt__program_verify(program);
    if (!status) {
      dt_text_t out;
      dt__text_init(&out);
      dt__program_print(program, &out);
      dt__text_fini(&out);
      accepted++;
    }
    dt_status_free(status);
    dt__symenv_destroy(env);
    dt__arena_fini(&arena);
  }
  assert_true(accepted > 100 && accepted < 3900);
}

static void test_damage(void **state) {
  (void)state;
  damage(whole);
  damage(segmented);
  damage(device_sized);
  damage(product);
}

RUN_TESTS(TEST(test_reduction), TEST(test_maps), TEST(test_round_trip), TEST(test_verifier),
          TEST(test_parser), TEST(test_damage), TEST(test_data_verifier), TEST(test_halves),
          TEST(test_products), TEST(test_device_sizes), TEST(test_commit))
