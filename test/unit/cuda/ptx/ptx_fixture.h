// SPDX-License-Identifier: Apache-2.0
// What the tests of the PTX simulator share: a device of the fake driver, modules from text, device
// memory with a copy on the host, launches, and what is expected to go wrong.
#ifndef DT_TESTS_UNIT_CUDA_PTX_PTX_FIXTURE_H
#define DT_TESTS_UNIT_CUDA_PTX_PTX_FIXTURE_H

#include "test/support/check.h"

#include "test/fake_cuda/fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library;
static const dt_cuda_t *cuda;
static dt_cuda_device_t *device;

#define OK(expr) assert_int_equal((expr), DT_CU_SUCCESS)
#define PTX_HEADER ".version 8.3\n.target sm_90a\n.address_size 64\n"

static int enter(void **state) {
  (void)state;
  fake_cuda_reset(11);
  if (dt__cuda_open(library, &cuda) || dt__cuda_device_create(cuda, 0, &device) ||
      dt__cuda_enter(device))
    return -1;
  return 0;
}

static int leave(void **state) {
  (void)state;
  dt__cuda_leave(device);
  dt__cuda_device_destroy(device);
  return 0;
}

static inline void expect_none(void) {
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
}

static inline void expect_violation(const char *text) {
  const char *first = "";
  if (fake_cuda_violations(&first) == 0)
    fail_msg("no violation; expected one with \"%s\"", text);
  if (!strstr(first, text))
    fail_msg("violation \"%s\"; expected one with \"%s\"", first, text);
}

static inline dt_cu_function_t load_text(const char *text, const char *name) {
  dt_cu_module_t module = NULL;
  dt_cu_function_t function = NULL;
  dt_cu_result_t result = cuda->module_load(&module, text);
  if (result)
    fail_msg("result %d: %s", result, fake_ptx_error());
  OK(cuda->module_function(&function, module, name));
  return function;
}

// An entry "k" of the text's body, with pointer parameters p0, p1, p2 and a 32-bit p3; `directives`
// stand in front of the body.
static inline dt_cu_function_t load_entry(const char *declarations, const char *directives,
                                          const char *body) {
  size_t bytes = strlen(declarations) + strlen(body) + 1024;
  char *text = malloc(bytes);
  assert_non_null(text);
  (void)snprintf(text, bytes,
                 PTX_HEADER "%s\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, "
                            ".param .u32 p3)\n%s{\n"
                            ".reg .pred %%p<20>;\n.reg .b16 %%h<40>;\n.reg .b32 %%r<80>;\n"
                            ".reg .b64 %%d<40>;\n.reg .f32 %%f<40>;\n.reg .f64 %%e<20>;\n"
                            "ld.param.u64 %%d0, [p0];\nld.param.u64 %%d1, [p1];\n"
                            "ld.param.u64 %%d2, [p2];\nld.param.u32 %%r0, [p3];\n"
                            "mov.u32 %%r1, %%tid.x;\n%s\nret;\n}\n",
                 declarations, directives, body);
  dt_cu_function_t function = load_text(text, "k");
  free(text);
  return function;
}
static inline dt_cu_function_t load_body(const char *declarations, const char *body) {
  return load_entry(declarations, "", body);
}

static inline dt_cu_ptr_t allocate(size_t bytes) {
  dt_cu_ptr_t ptr = 0;
  OK(cuda->mem_alloc(&ptr, bytes));
  return ptr;
}

typedef struct launch_t {
  uint32_t grid, block, shared;
  dt_cu_stream_t stream;
  bool programmatic;
  const char *directives; // of the entry; NULL: none
} launch_t;

static inline dt_cu_result_t launch_params(dt_cu_function_t function, launch_t how, void **params) {
  dt_cu_launch_attr_t attr = {.id = DT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1};
  dt_cu_launch_config_t config = {.grid = {how.grid ? how.grid : 1, 1, 1},
                                  .block = {how.block ? how.block : 32, 1, 1},
                                  .shared_bytes = how.shared,
                                  .stream = how.stream,
                                  .attrs = &attr,
                                  .n_attrs = how.programmatic};
  return cuda->launch(&config, function, params, NULL);
}

static inline void launch(dt_cu_function_t function, launch_t how, dt_cu_ptr_t p0, dt_cu_ptr_t p1,
                          dt_cu_ptr_t p2, uint32_t p3) {
  void *params[] = {&p0, &p1, &p2, &p3};
  OK(launch_params(function, how, params));
}

static inline void finish(void) { OK(cuda->stream_synchronize(NULL)); }

#define ON_DEVICE(name) TEST_WITH(name, enter, leave)
// main() of such tests, whose argument is the driver.
#define RUN_WITH_LIBRARY(...)                                                                      \
  int main(int argc, char **argv) {                                                                \
    const struct CMUnitTest tests[] = {__VA_ARGS__};                                               \
    library = argv[1];                                                                             \
    return argc == 2 ? cmocka_run_group_tests(tests, NULL, NULL) : 2;                              \
  }

#endif // DT_TESTS_UNIT_CUDA_PTX_PTX_FIXTURE_H
