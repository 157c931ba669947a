// SPDX-License-Identifier: Apache-2.0
// Generated kernels wait for the work before them, first of all and in every thread; the check of
// their text and the fake driver both find a wait that is missing or comes too late.
#include "tests/unit/cuda/gemm_graph.h"
#include "tests/unit/cuda/gpu_rig.h"
#include "tests/unit/cuda/ptx_fixture.h"

#include "backend_cuda/emit/early.h"
#include "runtime/base/status.h"

#define WAIT "griddepcontrol.wait;"
#define AFTER "griddepcontrol.launch_dependents;"

// A product, softmax over its rows, and a fold over what that gives: kernels of several kinds.
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
    assert_int_equal(count(r.ptx, WAIT), waits);
    assert_int_equal(count(r.ptx, AFTER), waits);
    dt_status_t status = dt__cuda_check_waits(r.ptx);
    assert_int_equal(dt_status_code(status), waits ? DT_OK : DT_E_INTERNAL);
    dt_status_free(status);
    dt_cuda_kernel_info_t info;
    assert_null(dt__cuda_kernel_info(r.program, &r.map, 0, &r.target, false, &info));
    assert_int_equal(info.waits, waits > 0);
    gpu_rig_close(&r);
  }
}

// ---- Mutations ------------------------------------------------------------------------------------

// The n-th wait of the text put out of the way, with `instead` in its place, which is no longer.
static char *mutate(const char *ptx, uint32_t n, const char *instead) {
  size_t bytes = strlen(ptx);
  char *text = malloc(bytes + 1);
  assert_non_null(text);
  memcpy(text, ptx, bytes + 1);
  char *at = strstr(text, WAIT);
  for (uint32_t k = 0; k < n; k++)
    at = strstr(at + 1, WAIT);
  memset(at, ' ', strlen(WAIT));
  memcpy(at, instead, strlen(instead));
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
  assert_null(dt__cuda_kernel_info(r->program, &r->map, code, &r->target, false, &info));
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
    launch_early(&r, r.ptx, code);
    expect_none();
    char *text = mutate(r.ptx, entries++, "");
    refused(text, code, AFTER);
    launch_early(&r, text, code);
    expect_violation("griddepcontrol.wait");
    free(text);
  }
  assert_int_equal(entries, count(r.ptx, ".entry "));
  gpu_rig_close(&r);
}

static void a_late_wait_is_found(void **state) {
  (void)state;
  static const char *const before[] = {"ld.global.nc.b32 %r1, [%rd1];",
                                       "st.global.b32 [%rd1], %r1;",
                                       "@%p1 bra L;",
                                       "bra L;",
                                       "cp.async.wait_all;",
                                       "prefetch.global.L2 [%rd1];",
                                       "L:",
                                       "ret;"};
  static const char begin[] = ".visible .entry dt_k0(\n\t.param .b8 p[8]\n)\n.reqntid 128\n{\n";
  for (size_t k = 0; k < sizeof(before) / sizeof(before[0]); k++) {
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "%s\tld.param.b64 %%rd1, [p];\n\t%s\n\t" WAIT "\n\tret;\n}\n", begin, before[k]);
    refused(text, 0, before[k]);
  }
  // The wait of the entry behind it is not its own.
  char two[512];
  (void)snprintf(two, sizeof(two), "%s}\n%s" WAIT "\nret;\n}\n", begin, begin);
  refused(two, 0, "begins with \"}\"");
  (void)snprintf(two, sizeof(two), "%s// .entry of a remark\n\tmov.b32 %%r1, 0;\n\t" WAIT, begin);
  assert_null(dt__cuda_check_waits(two));
}

int main(int argc, char **argv) {
  assert_int_equal(argc, 2);
  library = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_entry_waits_where_there_is_the_instruction),
      TEST(a_missing_wait_is_found),
      cmocka_unit_test(a_late_wait_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
