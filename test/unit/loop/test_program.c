// SPDX-License-Identifier: Apache-2.0
// Building programs by hand: sharing of instructions, canonical texts of kernels, and
// what the interpreter makes of hand-written programs, failures included.
#include "test/unit/loop/hand.h"

#include "test/unit/loop/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Building -----------------------------------------------------------------------------------------
static const char *const two_buffers = "program {\n"
                                       "symbol s0: [0, 99]\n"
                                       "buffer b1 = input 0 f32[s0, 4] strides [4, 1]\n"
                                       "buffer b2 = input 1 i64[s0] strides [1]\n"
                                       "check 0 \"an index\" op \"gather\"\n"
                                       "}\n";

static void test_sharing(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h, two_buffers);
  dt_stage_t stage = {0};
  dt_sym_t i = dt__sym_new_loop(h.env, dt__symbol_sym(h.env, 0));
  dt_sym_t at[2] = {i, dt__sym_const(h.env, 1)}, other[2] = {i, dt__sym_const(h.env, 2)};
  uint32_t a = hand_load(&h, &stage, 1, at, DT_NO_INST);
  assert_int_equal(hand_load(&h, &stage, 1, at, DT_NO_INST), a);
  assert_int_not_equal(hand_load(&h, &stage, 1, other, DT_NO_INST), a);
  at[1] = other[1]; // the index was copied
  assert_int_equal(stage.insts.items[a].index[1].id, dt__sym_const(h.env, 1).id);
  // Zeros of both signs are different constants; unused fields make no difference.
  dt_inst_t zero = {.kind = DT_INST_CONST, .dtype = DT_F32, .args = {1, 2, 3}};
  dt_inst_t minus = {.kind = DT_INST_CONST, .dtype = DT_F32, .value.f = -0.0};
  dt_inst_t again = {.kind = DT_INST_CONST, .dtype = DT_F32, .row = 5};
  uint32_t z, m, n;
  expect_ok(dt__stage_add(h.program, &stage, &zero, &z));
  expect_ok(dt__stage_add(h.program, &stage, &minus, &m));
  expect_ok(dt__stage_add(h.program, &stage, &again, &n));
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

// ---- Canonical texts ------------------------------------------------------------------------------------
static void canonical(hand_t *h, uint32_t kernel, dt_kernel_params_t *params, dt_text_t *text) {
  dt__text_init(text);
  expect_ok(dt__kernel_print(h->program, &h->program->kernels.items[kernel], params, text));
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

// Two chains are one code: with one list of parameters, which their slabs are not in.
static void test_canonical_chains(void **state) {
  (void)state;
  static const char *const head = "lanes 4 unroll 1 block 1 grain 1 team 256 a v0 b v1 tile 16 64 "
                                  "groups 8 of 16 32 depth 64 ring 4";
  dt_text_t program, texts[2];
  dt__text_init(&program);
  dt__text_put(&program, "program {\nsymbol s0: [0, 99]\nsymbol s1: [0, 99]\n"
                         "buffer b1 = input 0 f32[s0, 8] strides [8, 1]\n"
                         "buffer b2 = input 1 f32[8, 4] strides [4, 1]\n"
                         "buffer b3 = input 2 f32[s1, 8] strides [8, 1]\n"
                         "buffer b4 = output 0 f32[s0, 4]\nbuffer b5 = output 1 f32[s1, 4]\n"
                         "buffer b6 = slab f32[s0, 8]\nbuffer b7 = slab f32[s1, 8]\n");
  for (int k = 0; k < 2; k++) {
    int x = k ? 3 : 1, y = 4 + k, slab = 6 + k, i = 2 + 4 * k;
    dt__text_printf(&program,
                    "kernel \"rows\" chain %d outer i%d < s%d {\n  stage inner i%d < 8 {\n"
                    "    v0 = load f32 b%d[i%d, i%d]\n    v1 = exp f32 v0\n"
                    "    store b%d[i%d, i%d] = v1\n  }\n"
                    "  schedule inner_lanes lanes 4 unroll 1 block 1 grain 1 team 32\n}\n",
                    k + 1, i, k, i + 1, x, i, i + 1, slab, i, i + 1);
    dt__text_printf(&program,
                    "kernel \"head\" chain %d outer i%d < s%d, i%d < 4 {\n  stage inner i%d < 8 {\n"
                    "    v0 = load f32 b%d[i%d, i%d]\n    v1 = load f32 b2[i%d, i%d]\n"
                    "    v2 = mul f32 v0, v1\n    reduce sum f32 r0 = v2\n  }\n"
                    "  stage {\n    v0 = row f32 r0\n    store b%d[i%d, i%d] = v0\n  }\n"
                    "  schedule team_matmul %s\n}\n",
                    k + 1, i, k, i + 2, i + 3, slab, i, i + 3, i + 3, i + 2, y, i, i + 2, head);
  }
  dt__text_put(&program, "outputs b4, b5\n}\n");
  hand_t h;
  hand_parse(&h, dt__text_str(&program));
  for (uint32_t k = 0; k < 2; k++) {
    dt_kernel_params_t params;
    dt_kernel_chain_t chain = dt__kernel_chain(h.program, 2 * k);
    assert_int_equal(chain.first, 2 * k);
    assert_int_equal(chain.end, 2 * k + 2);
    dt__text_init(&texts[k]);
    expect_ok(dt__chain_print(h.program, chain, &params, &texts[k]));
    assert_int_equal(params.n_buffers, 3);
    assert_int_equal(params.buffers[0].id, k ? 3 : 1);
    assert_int_equal(params.buffers[1].id, 2);
    assert_int_equal(params.buffers[2].id, 4 + k);
    assert_int_equal(params.n_symbols, 1);
    assert_int_equal(params.symbols[0], k);
  }
  check_text(dt__text_str(&texts[0]), dt__text_str(&texts[1]));
  for (uint32_t k = 0; k < 2; k++)
    dt__text_fini(&texts[k]);
  dt__text_fini(&program);
  hand_fini(&h);
}

// What a kernel searches in, how, and under which masks it binds and stores are parts of its text.
static void test_canonical_data(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "v2 = search i64 b2 of v0 v3 = bind d4: [0, 98] < s0 of v2 check 0 store b3[d4] = v0 mask v3",
      "v2 = search i64 b2 of v0 inclusive v3 = bind d4: [0, 98] < s0 of v2 check 0 "
      "store b3[d4] = v0 mask v3",
      "v2 = search i64 b2 of v0 v3 = bind d4: [0, 98] < s0 of v2 check 0 mask v1 "
      "store b3[d4] = v0 mask v3",
      "v2 = search i64 b2 of v0 v3 = bind d4: [0, 98] < s0 of v2 check 0 "
      "v4 = logical_and bool v1, v3 store b3[d4] = v0 mask v4",
      "v2 = search i64 b2 of v0 v3 = bind d4: [0, 98] < s0 of v2 store b3[d4] = v0 mask v3",
      "v2 = search i64 b1 of v0 v3 = bind d4: [0, 98] < s0 of v2 check 0 "
      "store b3[d4] = v0 mask v3",
      "v2 = index i64 i2 v3 = running i64 r0 store b3[i2] = v3 reduce sum i64 r0 = v0",
      "v2 = index i64 i2 v3 = running i64 r0 store b3[i2] = v3 reduce max i64 r0 = v0"};
  enum { N_BODIES = sizeof(bodies) / sizeof(bodies[0]) };
  dt_text_t texts[N_BODIES];
  for (int k = 0; k < N_BODIES; k++) {
    char source[1024];
    hand_t h;
    dt_kernel_params_t params;
    (void)snprintf(source, sizeof(source),
                   "program {\nsymbol s0: [0, 99]\nsymbol u1: [0, 99]\n"
                   "buffer b1 = input 0 i64[s0] strides [1]\n"
                   "buffer b2 = input 1 i64[u1] strides [1]\n"
                   "buffer b3 = output 0 i64[s0]\n"
                   "check 0 \"place\" op \"\"\n"
                   "kernel \"k\" {\n stage inner i2 < s0 { v0 = load i64 b1[i2] "
                   "v1 = index bool i2 <= u1 %s }\n}\noutputs b3\n}\n",
                   bodies[k]);
    // The loop is symbol 2 and the bound one symbol 3 in all of them.
    for (char *at = strstr(source, "d4"); at; at = strstr(at, "d4"))
      at[1] = '3';
    hand_parse(&h, source);
    canonical(&h, 0, &params, &texts[k]);
    bool searches = strstr(bodies[k], "search i64 b2") != NULL;
    assert_int_equal(params.n_buffers, searches ? 3 : 2);
    assert_int_equal(params.n_symbols, 2);
    for (int other = 0; other < k; other++)
      assert_string_not_equal(dt__text_str(&texts[k]), dt__text_str(&texts[other]));
    hand_fini(&h);
  }
  for (int k = 0; k < N_BODIES; k++)
    dt__text_fini(&texts[k]);
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
                 "    reduce max f32 r0 = v0\n  }\n"
                 "  stage inner i4 < s1 {\n"
                 "    v0 = load f32 b1[i2, i4]\n    v1 = row f32 r0\n"
                 "    v2 = sub f32 v0, v1\n    v3 = exp f32 v2\n"
                 "    store b3[i4] = v3\n    reduce sum f32 r1 = v3\n  }\n"
                 "  stage inner i5 < s1 {\n"
                 "    v0 = load f32 b3[i5]\n    v1 = row f32 r1\n    v2 = div f32 v0, v1\n"
                 "    store b2[i2, i5] = v2\n  }\n}\n"
                 "outputs b2\n}\n");
  float x[6] = {1, 2, 3, 100, -INFINITY, 100}, y[6] = {0};
  void *in[1] = {x}, *out[1] = {y};
  int64_t symbols[2] = {2, 3};
  expect_ok(dt__program_interpret(h.program, symbols, in, out));
  const float want[6] = {0.09003057f, 0.24472847f, 0.66524096f, 0.5f, 0, 0.5f};
  for (int k = 0; k < 6; k++)
    if (fabsf(y[k] - want[k]) > 1e-6f) {
      print_error("element %d: expected %g, got %g\n", k, (double)want[k], (double)y[k]);
      fail();
    }
  // No columns: reductions over nothing, nothing stored.
  symbols[1] = 0;
  expect_ok(dt__program_interpret(h.program, symbols, in, out));
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

// ---- Sizes from data --------------------------------------------------------------------------------------
// Positions of the elements of b1 (f32[s0]) above zero, in b4 (output 0, i64[u1]); `edit` replaces
// one part of the program, where it is not NULL.
static void select_positive(const char *from, const char *to, const run_case_t *c, int64_t *out) {
  static const char *const source =
      "program {\nsymbol s0: [0, 99]\nsymbol u1: [0, 99]\n"
      "buffer b1 = input 0 f32[s0] strides [1]\n"
      "buffer b2 = temp i64[s0]\n"
      "buffer b3 = temp i64[]\n"
      "buffer b4 = output 0 i64[u1]\n"
      "check 0 \"a place\" op \"\"\n"
      "kernel \"scan\" {\n"
      "  stage inner i2 < s0 { v0 = load f32 b1[i2] v1 = const f32 0 v2 = gt bool v0, v1 "
      "v3 = cast i64 v2 v4 = running i64 r0 store b2[i2] = v4 reduce sum i64 r0 = v3 }\n"
      "  stage { v0 = row i64 r0 store b3[] = v0 }\n}\n"
      "kernel \"select\" outer i3 < s0 {\n"
      "  stage { v0 = load f32 b1[i3] v1 = const f32 0 v2 = gt bool v0, v1 v3 = load i64 b2[i3] "
      "v4 = const i64 1 v5 = sub i64 v3, v4 v6 = bind d4: [0, 98] < u1 of v5 check 0 mask v2 "
      "v7 = index i64 i3 store b4[d4] = v7 mask v6 }\n}\n"
      "outputs b4\nreadback b3 binds u1 \"count\" op \"\"\n}\n";
  char text[2048];
  const char *at = from ? strstr(source, from) : source;
  assert_non_null(at);
  (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - source), source, to,
                 at + (from ? strlen(from) : 0));
  hand_t h;
  hand_parse(&h, text);
  float x[5] = {1, -2, 3, 0, 5};
  void *in[1] = {x}, *outs[1] = {out};
  int64_t symbols[2] = {5, 77}; // the readback's is not read
  expect_told_of(to, dt__program_interpret(h.program, symbols, in, outs), c->code,
                 c->message ? c->message : "");
  hand_fini(&h);
}

static void test_readbacks(void **state) {
  (void)state;
  int64_t out[8] = {-1, -1, -1, -1};
  select_positive(NULL, "", &(run_case_t){NULL, NULL, DT_OK}, out);
  const int64_t want[4] = {0, 2, 4, -1};
  assert_memory_equal(out, want, sizeof(want));
  // Others of the five elements are no failure, though their places are outside of the result.
  static const struct {
    const char *from, *to;
    run_case_t c;
  } cases[] = {
      {"v5 = sub i64 v3, v4", "v5 = add i64 v3, v4", {NULL, "a place", DT_E_RANGE}},
      {"v5 = sub i64 v3, v4",
       "v5 = sub i64 v4, v4",
       {NULL, "element 0 of buffer 4 is written twice", DT_E_INTERNAL}},
      {"store b3[] = v0",
       "v1 = const i64 -3 store b3[] = v1",
       {NULL, "the data says -3; expected 0 to 99", DT_E_RANGE}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    select_positive(cases[k].from, cases[k].to, &cases[k].c, out);
  select_positive("v7 = index i64 i3 store b4[d4] = v7 mask v6",
                  "v7 = index i64 i3 v8 = index bool i3 <= 2 v9 = logical_and bool v6, v8 "
                  "store b4[d4] = v7 mask v9",
                  &(run_case_t){NULL, "element 2 of result 0 is never written", DT_E_INTERNAL},
                  out);
}

// Searching by halving, what ascends and what does not; running extremes and arguments.
static void test_search_and_running(void **state) {
  (void)state;
  hand_t h;
  hand_parse(&h,
             "program {\nsymbol s0: [0, 99]\nsymbol n1: [-9, 9]\n"
             "buffer b1 = input 0 f32[s0] strides [n1]\n"
             "buffer b2 = input 1 f32[6] strides [1]\n"
             "buffer b3 = output 0 i64[6]\n"
             "buffer b4 = output 1 i64[6]\n"
             "buffer b5 = output 2 f32[6]\n"
             "buffer b6 = output 3 i64[6]\n"
             "kernel \"search\" outer i2 < 6 {\n"
             "  stage { v0 = load f32 b2[i2] v1 = search i64 b1 of v0 "
             "v2 = search i64 b1 of v0 inclusive store b3[i2] = v1 store b4[i2] = v2 }\n}\n"
             "kernel \"running\" {\n"
             "  stage inner i3 < 2, i4 < 3 { v0 = load f32 b2[i3*3 + i4] v1 = running f32 r0 "
             "v2 = index i64 i3*3 + i4 v3 = running i64 r1 store b5[i3*3 + i4] = v1 "
             "store b6[i3*3 + i4] = v3 reduce max f32 r0 = v0 reduce argmin i64 r1 = v0 at v2 }\n"
             "}\noutputs b3, b4, b5, b6\n}\n");
  float sorted[5] = {7, 2, 2, 2, -1}, values[6] = {2, -5, 9, NAN, -6, 7}, max[6];
  int64_t below[6], upto[6], argmin[6], symbols[2] = {5, -1};
  void *in[2] = {sorted + 4, values}, *out[4] = {below, upto, max, argmin};
  expect_ok(dt__program_interpret(h.program, symbols, in, out));
  const int64_t want_below[6] = {1, 0, 5, 0, 0, 4}, want_upto[6] = {4, 0, 5, 0, 0, 5};
  const int64_t want_argmin[6] = {0, 1, 1, 3, 3, 3};
  assert_memory_equal(below, want_below, sizeof(below));
  assert_memory_equal(upto, want_upto, sizeof(upto));
  assert_memory_equal(argmin, want_argmin, sizeof(argmin));
  const float want_max[3] = {2, 2, 9};
  assert_memory_equal(max, want_max, sizeof(want_max));
  assert_true(isnan(max[3]) && isnan(max[5]));
  symbols[0] = 0; // nothing to search in
  expect_ok(dt__program_interpret(h.program, symbols, in, out));
  for (int k = 0; k < 6; k++)
    assert_true(below[k] == 0 && upto[k] == 0);
  hand_fini(&h);
}

// A result that views an argument has what it held; the argument then holds the new value.
static void test_update(void **state) {
  (void)state;
  rig_t rig;
  rig_init(&rig, 1);
  dt_sym_t s0 = size_symbol(&rig.f, NO_HINT);
  dt_node_id_t x = rig_input(&rig, DT_F32, 1, &s0, true, FILL_FINITE);
  dt_sym_t one = literal(&rig.f, 1);
  dt_attrs_t backwards = {.n_syms = 2, .syms = {dt__sym_sub(rig.f.env, s0, one), s0}, .ints = {-1}};
  dt_node_id_t y = add(&rig.f, DT_OP_slice, 1, &x, &backwards);
  dt_attrs_t row = {.n_syms = 2, .syms = {one, s0}};
  rig_output(&rig, add(&rig.f, DT_OP_reshape, 1, &x, &row));
  dt_graph_update_t update = {.input = 0, .value = y};
  assert_true(DT_VEC_PUSH(&rig.f.arena, &rig.f.graph->updates, update));
  dt_symenv_t *env;
  dt_program_t *program = rig_lower(&rig, &env);
  float memory[6] = {1, 9, 2, 9, 3, 9}, result[3];
  void *in[1] = {memory}, *out[1] = {result};
  uint32_t stride;
  assert_true(dt__sym_is_symbol(env, rig.f.graph->inputs.items[0].strides[0], &stride));
  int64_t symbols[8] = {0};
  symbols[0] = 3;
  symbols[stride] = 2;
  expect_ok(dt__program_interpret(program, symbols, in, out));
  const float want[6] = {3, 9, 2, 9, 1, 9}, before[3] = {1, 2, 3};
  assert_memory_equal(memory, want, sizeof(want));
  assert_memory_equal(result, before, sizeof(before));
  dt__symenv_destroy(env);
  rig_fini(&rig);
}

// An integer argument is its symbol: its memory is not read.
static void test_integer(void **state) {
  (void)state;
  rig_t rig;
  rig_init(&rig, 1);
  dt_graph_input_t made = {.name = "n", .dtype = DT_I64, .contiguous = true, .is_int = true};
  made.value = dt__sym_new(rig.f.env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, "n");
  dt_node_id_t n;
  expect_ok(dt__graph_add_input(rig.f.graph, &made, &n));
  rig_output(&rig, add(&rig.f, DT_OP_neg, 1, &n, NULL));
  dt_symenv_t *env;
  dt_program_t *program = rig_lower(&rig, &env);
  int64_t symbols[4] = {-17}, result = 0;
  void *in[1] = {NULL}, *out[1] = {&result};
  expect_ok(dt__program_interpret(program, symbols, in, out));
  assert_int_equal(result, 17);
  dt__symenv_destroy(env);
  rig_fini(&rig);
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
                 "reduce argmin i64 r0 = v0 at v1 }\n"
                 "  stage { v0 = row i64 r0 store b2[] = v0 }\n}\n"
                 "outputs b2\n}\n");
  int32_t x[4] = {5, -3, 7, -3};
  int64_t y = -1, symbols[1] = {4};
  void *base[2] = {x + 3, &y};
  expect_ok(dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base));
  assert_int_equal(y, 0); // read backwards: -3 first
  symbols[0] = 0;
  expect_ok(dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base));
  assert_int_equal(y, 0);
  base[0] = NULL;
  symbols[0] = 4;
  expect_code(dt__kernel_interpret(h.program, &h.program->kernels.items[0], symbols, base),
              DT_E_INTERNAL);
  hand_fini(&h);
}

// Slices are numbered in the order of their kernels, whichever pass found them first.
static void test_slices_in_order(void **state) {
  (void)state;
  static dt_kernel_t kernels[5];
  const uint32_t found[5] = {3, 0, 1, 1, 2}, sorted[5] = {1, 0, 2, 2, 3};
  const uint32_t begins[3] = {0, 2, 4}, ends[3] = {1, 4, 5};
  dt_program_slices_t slices[3] = {{.begin = 7}, {.begin = 8}, {.begin = 9}};
  const uint32_t symbols[3] = {9, 7, 8};
  dt_program_t program = {0};
  program.kernels.items = kernels;
  program.kernels.len = 5;
  program.slices.items = slices;
  program.slices.len = 3;
  for (int k = 0; k < 5; k++)
    kernels[k].slices = found[k];
  assert_null(dt__program_settle_slices(&program));
  for (int k = 0; k < 5; k++)
    assert_int_equal(kernels[k].slices, sorted[k]);
  for (int k = 0; k < 3; k++) {
    assert_int_equal(slices[k].first, begins[k]);
    assert_int_equal(slices[k].end, ends[k]);
    assert_int_equal(slices[k].begin, symbols[k]);
  }
}

RUN_TESTS(TEST(test_slices_in_order), TEST(test_sharing), TEST(test_canonical), TEST(test_softmax),
          TEST(test_failures), TEST(test_one_kernel), TEST(test_readbacks),
          TEST(test_search_and_running), TEST(test_update), TEST(test_canonical_data),
          TEST(test_integer), TEST(test_canonical_chains))
