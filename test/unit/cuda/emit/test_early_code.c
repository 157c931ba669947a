// SPDX-License-Identifier: Apache-2.0
// Generated kernels wait for the work before them, in every thread, before they touch what may be
// written meanwhile; the check of their text and the fake driver both find a wait that is missing
// or comes too late. Constants alone are read before.
#include "test/unit/cuda/emit/gemm_graph.h"

#include "backend_cuda/emit/early.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "test/unit/cuda/emit/gpu_rig.h"
#include "test/unit/cuda/ptx/ptx_fixture.h"

#define WAIT "griddepcontrol.wait;"
#define MARK "// early: settled"
#define AFTER "griddepcontrol.launch_dependents;"

// A product, softmax over its rows, and a reduction over what that gives: kernels of several kinds.
static const char graph[] =
    "graph (s0: [0, 140737488355327], s1: [0, 140737488355327], s2: [0, 140737488355327]) {\n"
    "  %1 = input \"a\" f16[s0, s2] strides [s2, 1]\n"
    "  %2 = input \"b\" f16[s2, s1] strides [s1, 1]\n"
    "  %3 = matmul %1, %2 : f16[s0, s1]\n"
    "  %4 = softmax %3 {axes = [1]} : f16[s0, s1]\n"
    "  %5 = sum %4 {axes = [0]} : f16[s1]\n"
    "  return %4, %5\n}\n";

static const dt_cuda_model_t h100 = {9, 0, 132, 227 << 10, 50 << 20};

static uint32_t count(const char *text, const char *part) {
  uint32_t n = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
    n++;
  return n;
}

static void every_entry_waits_where_there_is_the_instruction(void **state) {
  (void)state;
  static const dt_cuda_model_t models[] = {{8, 0, 108, 163 << 10, 40 << 20},
                                           {8, 9, 128, 99 << 10, 72 << 20},
                                           {9, 0, 132, 227 << 10, 50 << 20},
                                           {10, 0, 148, 227 << 10, 126 << 20}};
  for (uint32_t k = 0; k < 4; k++) {
    gpu_rig_t r;
    gpu_rig_open(&r, graph, &models[k], false);
    uint32_t entries = count(r.ptx, ".entry "), waits = models[k].major >= 9 ? entries : 0;
    assert_true(entries >= 3);
    assert_true(waits ? count(r.ptx, WAIT) >= waits : !count(r.ptx, WAIT));
    assert_int_equal(count(r.ptx, AFTER), count(r.ptx, WAIT));
    dt_status_t status = dt__cuda_check_waits(r.ptx);
    assert_int_equal(dt_status_code(status), waits ? DT_OK : DT_E_INTERNAL);
    dt_status_free(status);
    dt_cuda_kernel_info_t info;
    assert_null(dt__cuda_kernel_info(r.program, &r.map, 0, &r.target, &info));
    assert_int_equal(info.waits, waits > 0);
    gpu_rig_close(&r);
  }
}

// ---- Constants ------------------------------------------------------------------------------------

// Rows of so many elements that `rows` is made of, times an operand that the text names.
static uint32_t marks_of(int columns, const char *rows, const char *operand,
                         const dt_cuda_model_t *model) {
  char text[1024];
  (void)snprintf(text, sizeof(text),
                 "graph (s0: [0, 140737488355327]) {\n"
                 "  %%1 = input \"x\" f16[s0, %d] strides [%d, 1] contiguous\n"
                 "  %%2 = %s\n  %%3 = %s : f16[s0, %d]\n"
                 "  %%4 = matmul %%3, %%2 : f16[s0, 192]\n  return %%4\n}\n",
                 columns, columns, operand, rows, columns);
  gpu_rig_t r;
  gpu_rig_open(&r, text, model, false);
  uint32_t marks = count(r.ptx, MARK);
  assert_true(count(r.ptx, "cp.async.cg.shared.global") > marks);
  gpu_rig_close(&r);
  return marks;
}

static void constants_alone_are_copied_early(void **state) {
  (void)state;
  static const char constant[] = "constant \"w\" f16[384, 192] key 1";
  static const char narrow[] = "constant \"w\" f16[64, 192] key 1";
  static const char input[] = "input \"w\" f16[384, 192] strides [192, 1] contiguous";
  static const char *const rows[] = {"relu %1", "softmax %1 {axes = [1]}"};
  static const dt_cuda_model_t a100 = {8, 0, 108, 163 << 10, 40 << 20};
  for (uint32_t k = 0; k < 2; k++) {
    assert_true(marks_of(384, rows[k], constant, &h100) > 0);
    assert_true(marks_of(64, rows[k], narrow, &h100) > 0); // of which a warp makes several at once
    assert_int_equal(marks_of(384, rows[k], input, &h100), 0);
  }
  assert_int_equal(marks_of(384, rows[0], constant, &a100), 0);
}

// ---- Mutations ------------------------------------------------------------------------------------

// All waits of entry `code` put out of the way.
static char *without_waits(const char *ptx, uint32_t code) {
  size_t bytes = strlen(ptx);
  char *text = malloc(bytes + 1), name[32];
  assert_non_null(text);
  memcpy(text, ptx, bytes + 1);
  (void)snprintf(name, sizeof(name), ".entry dt_k%u(", code);
  char *at = strstr(text, name), *end = strstr(at + 1, ".entry ");
  while ((at = strstr(at + 1, WAIT)) && (!end || at < end))
    memset(at, ' ', strlen(WAIT));
  return text;
}

// What the fake driver says of entry `code`, launched early with no grid items.
static void launch_early(const gpu_rig_t *r, const char *ptx, uint32_t code) {
  (void)leave(NULL);
  assert_int_equal(enter(NULL), 0);
  uint64_t words[DT_CUDA_PARAM_BYTES / 8] = {0};
  char name[32];
  (void)snprintf(name, sizeof(name), "dt_k%u", code);
  dt_cuda_kernel_info_t info;
  assert_null(dt__cuda_kernel_info(r->program, &r->map, code, &r->target, &info));
  dt_cu_function_t function = load_text(ptx, name);
  OK(cuda->function_set(function, DT_CU_FUNC_MAX_DYNAMIC_SHARED, (int)info.shared_bytes));
  void *params[] = {words};
  launch(load_body("", WAIT), (launch_t){0}, 0, 0, 0, 0);
  OK(launch_params(
      function,
      (launch_t){
          .grid = 2, .block = info.threads, .shared = info.shared_bytes, .programmatic = true},
      params));
  finish();
}

static void refused(const char *ptx, uint32_t code, const char *line) {
  char name[32];
  (void)snprintf(name, sizeof(name), "dt_k%u does not wait", code);
  dt_status_t status = dt__cuda_check_waits(ptx);
  assert_int_equal(dt_status_code(status), DT_E_INTERNAL);
  if (!strstr(dt_status_message(status), name) || !strstr(dt_status_message(status), line))
    fail_msg("%s; expected %s, %s", dt_status_message(status), name, line);
  dt_status_free(status);
}

static void a_missing_wait_is_found(void **state) {
  (void)state;
  gpu_rig_t r;
  gpu_rig_open(&r, graph, &h100, false);
  uint32_t entries = 0;
  for (uint32_t code = 0; code < r.map.n_codes; code++) {
    if (r.map.entry_of_code[code] != code)
      continue;
    entries++;
    launch_early(&r, r.ptx, code);
    expect_none();
    char *text = without_waits(r.ptx, code);
    refused(text, code, "");
    launch_early(&r, text, code);
    expect_violation("griddepcontrol.wait");
    free(text);
  }
  assert_int_equal(entries, count(r.ptx, ".entry "));
  gpu_rig_close(&r);
}

static const char begin[] = ".visible .entry dt_k0(\n\t.param .b8 p[8]\n)\n.reqntid 128\n{\n";

// What stands before the wait, in the middle of paths that meet, part and go around.
static void a_late_wait_is_found(void **state) {
  (void)state;
  static const char *const before[] = {"ld.global.nc.b32 %r1, [%rd1];",
                                       "ld.b32 %r1, [%rd1];",
                                       "st.global.b32 [%rd1], %r1;",
                                       "st.b32 [%rd1], %r1;",
                                       "atom.global.add.u32 %r1, [%rd1], 1;",
                                       "cp.async.cg.shared.global [%rd1], [%rd2], 16;",
                                       "call.uni f, ();",
                                       "@%p1 bra $nowhere;",
                                       "mov.b32 %r1, 0; ld.global.b32 %r1, [%rd1];",
                                       "prefetch.global.L2 [%rd1];",
                                       "@%p1 ret;",
                                       "ret;",
                                       "trap;"};
  static const char *const forms[] = {
      "\t%s\n\t" WAIT "\n\tret;\n}\n",
      "\t@%%p2 bra \t$L1;\n\t" WAIT "\n$L1:     // met\n\t%s\n\tret;\n}\n",
      "\tbra.uni \t$L2;\n$L1:\n\t%s\n$L2:\n\t@%%p2 bra \t$L1;\n\t" WAIT "\n\tret;\n}\n",
      "\t@%%p2 " WAIT "\n\t%s\n\t" WAIT "\n\tret;\n}\n"};
  for (size_t k = 0; k < sizeof(before) / sizeof(before[0]); k++) {
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
      char body[512], text[1024];
      (void)snprintf(body, sizeof(body), forms[f], before[k]);
      (void)snprintf(text, sizeof(text), "%s%s", begin, body);
      refused(text, 0, before[k]);
    }
  }
  // The wait of the entry behind it is not its own.
  char two[512];
  (void)snprintf(two, sizeof(two), "%s}\n%s" WAIT "\nret;\n}\n", begin, begin);
  refused(two, 0, "the way to \"}\"");
}

static void what_may_stand_before_a_wait(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "\tld.param.b64 %%rd1, [p];\n\tst.shared.b32 [%%r2], %%r1;\n\trcp.rn.f32 \t%%r2, "
      "%%r1;\n\t" WAIT "\n",
      "\t{\n.reg .pred all;\n}\n\t// .entry of a remark\n\tmov.b32 \t{%%rs1, %%rs2}, %%r1;\n\t" WAIT
      "\n",
      "\t" MARK "\n\tcp.async.cg.shared.global [%%rd1], [%%rd2], 16, %%r3;\n\t" WAIT "\n",
      "$L1:\n\t@%%p1 bra \t$L1;\n\t" WAIT "\n\tst.global.b32 [%%rd1], %%r1;\n",
      "\t@!%%p1 bra \t$L1;\n\t" WAIT "\n\tbra.uni \t$L2;\n$L1:\n\t" WAIT
      "\n$L2:\n\tst.b32 [%%rd1], %%r1;\n",
  };
  for (size_t k = 0; k < sizeof(bodies) / sizeof(bodies[0]); k++) {
    char body[512], text[1024];
    (void)snprintf(body, sizeof(body), bodies[k], 0);
    (void)snprintf(text, sizeof(text), "%s%s\tret;\n}\n", begin, body);
    assert_null(dt__cuda_check_waits(text));
  }
  // The mark is the copy's that follows it, and no other instruction's.
  char text[1024];
  (void)snprintf(text, sizeof(text),
                 "%s\t" MARK "\n\tld.global.b32 %%r1, [%%rd1];\n\t" WAIT "\n}\n", begin);
  refused(text, 0, "ld.global");
  (void)snprintf(text, sizeof(text),
                 "%s\t" MARK "\n\tmov.b32 %%r1, 0;\n\tcp.async.cg.shared.global [%%rd1], [%%rd2], "
                 "16, %%r3;\n\t" WAIT "\n}\n",
                 begin);
  refused(text, 0, "cp.async");
}

// Rows at places that are computed, with numbers that are the same for all blocks: what a failed
// check of them tells stays in registers, so that none of it stands before the wait in memory.
static void places_stay_in_registers(void **state) {
  (void)state;
  static const char places[] = "graph () {\n"
                               "  %1 = input \"x\" f32[6] strides [1] contiguous\n"
                               "  %2 = iota {dtype = i64, axes = [0], syms = [6]} : i64[6]\n"
                               "  %3 = scalar {dtype = i64, value = 1} : i64[]\n"
                               "  %4 = reshape %3 {syms = [1]} : i64[1]\n"
                               "  %5 = expand %4 {syms = [6]} : i64[6]\n"
                               "  %6 = sub %2, %5 : i64[6]\n"
                               "  %7 = gather %1, %6 {axes = [0]} : f32[6]\n"
                               "  %8 = ne %1, %7 : bool[6]\n"
                               "  %9 = cast %8 {dtype = i64} : i64[6]\n"
                               "  %10 = sum %9 {axes = [0]} : i64[]\n"
                               "  return %10\n}\n";
  gpu_rig_t r;
  gpu_rig_open(&r, places, &h100, false);
  assert_int_equal(count(r.ptx, "%SP"), 0);
  assert_null(dt__cuda_check_waits(r.ptx));
  gpu_rig_close(&r);
}

// Where the check refuses an entry, that entry alone waits at its beginning, and is right.
static void a_late_wait_is_put_first(void **state) {
  (void)state;
  static const char late[] = "\t.reg .b64 %rd<4>;\n\tld.b32 %r1, [%rd1];\n\t" WAIT "\n\tret;\n}\n";
  static const char early[] = "\t" WAIT "\n\tld.b32 %r1, [%rd1];\n\tret;\n}\n";
  enum { ROOM = 1024 };
  char *text = dt__alloc(ROOM);
  int written = snprintf(text, ROOM, "%s%s// .entry of a remark\n%s%s%s%s", begin, late, begin,
                         early, begin, late);
  assert_true(written > 0 && written < ROOM);
  size_t bytes = (size_t)written;
  assert_null(dt__cuda_settle_waits(&text, &bytes));
  assert_int_equal(bytes, strlen(text));
  assert_int_equal(count(text, WAIT), 5);
  assert_non_null(strstr(text, "{\n\t" WAIT "\n\t.reg"));
  assert_null(dt__cuda_check_waits(text));
  size_t before = bytes;
  assert_null(dt__cuda_settle_waits(&text, &bytes));
  assert_int_equal(bytes, before);
  dt__free(text);
}

RUN_WITH_LIBRARY(TEST(every_entry_waits_where_there_is_the_instruction),
                 TEST(constants_alone_are_copied_early), ON_DEVICE(a_missing_wait_is_found),
                 TEST(a_late_wait_is_found), TEST(what_may_stand_before_a_wait),
                 TEST(places_stay_in_registers), TEST(a_late_wait_is_put_first))
