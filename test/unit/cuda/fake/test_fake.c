// SPDX-License-Identifier: Apache-2.0
// The fake driver itself: it must catch what it is there to catch.
#include "test/support/check.h"

#include "test/fake_cuda/fake_cuda.h"

#include <string.h>

static const char *library;
static const dt_cuda_t *cuda;
static dt_cuda_device_t *device;

static int enter(void **state) {
  (void)state;
  fake_cuda_reset(7);
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

#define OK(expr) assert_int_equal((expr), DT_CU_SUCCESS)

static void expect_violation(const char *text) {
  const char *first = "";
  assert_true(fake_cuda_violations(&first) > 0);
  if (!strstr(first, text))
    fail_msg("violation \"%s\"; expected one with \"%s\"", first, text);
}

static dt_cu_ptr_t allocate(size_t bytes) {
  dt_cu_ptr_t ptr = 0;
  OK(cuda->mem_alloc(&ptr, bytes));
  return ptr;
}

static dt_cu_stream_t new_stream(void) {
  dt_cu_stream_t stream = NULL;
  OK(cuda->stream_create(&stream, DT_CU_STREAM_NON_BLOCKING));
  return stream;
}

// ---- Kernels of the tests -------------------------------------------------------------------------

typedef struct args_t {
  dt_cu_ptr_t from, to;
  uint64_t n;
} args_t;

static uint32_t add_accesses(const fake_launch_t *launch, fake_access_t *out, uint32_t cap,
                             void *user) {
  (void)user;
  const args_t *args = (const args_t *)(const void *)launch->param;
  if (cap >= 2) {
    out[0] = (fake_access_t){.begin = args->from, .bytes = args->n * 4};
    out[1] = (fake_access_t){.begin = args->to, .bytes = args->n * 4, .write = true};
  }
  return 2;
}

static void add_run(const fake_launch_t *launch, void *user) {
  (void)user;
  const args_t *args = (const args_t *)(const void *)launch->param;
  const int32_t *from = fake_cuda_host(args->from);
  int32_t *to = fake_cuda_host(args->to);
  for (uint64_t k = 0; k < args->n; k++)
    to[k] = from[k] + 1;
}

static const char ptx[] = ".version 8.3\n.target sm_90a\n.address_size 64\n"
                          ".visible .entry add_one(\n"
                          "  .param .align 8 .b8 add_one_param_0[24]\n)\n{\n  ret;\n}\n";

static dt_cu_function_t load_add(dt_cu_module_t *module) {
  static const fake_kernel_t add = {.accesses = add_accesses, .run = add_run};
  fake_cuda_kernel("add_one", &add);
  dt_cu_link_t link = NULL;
  void *cubin = NULL;
  size_t bytes = 0;
  OK(cuda->link_create(0, NULL, NULL, &link));
  char text[sizeof(ptx)];
  memcpy(text, ptx, sizeof(ptx));
  OK(cuda->link_add(link, DT_CU_JIT_PTX, text, sizeof(text), "test", 0, NULL, NULL));
  OK(cuda->link_complete(link, &cubin, &bytes));
  OK(cuda->module_load(module, cubin));
  OK(cuda->link_destroy(link));
  dt_cu_function_t function = NULL;
  OK(cuda->module_function(&function, *module, "add_one"));
  return function;
}

static void launch_add(dt_cu_function_t function, dt_cu_stream_t stream, dt_cu_ptr_t from,
                       dt_cu_ptr_t to, uint64_t n) {
  args_t args = {.from = from, .to = to, .n = n};
  void *params[] = {&args};
  dt_cu_launch_config_t config = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};
  OK(cuda->launch(&config, function, params, NULL));
}

// ---- Right use ------------------------------------------------------------------------------------

// Two streams with an event between them, pinned memory at both ends.
static void ordered_work_gives_its_result(void **state) {
  (void)state;
  dt_cu_module_t module = NULL;
  dt_cu_function_t add = load_add(&module);
  dt_cu_stream_t first = new_stream(), second = new_stream();
  dt_cu_event_t event = NULL;
  OK(cuda->event_create(&event, DT_CU_EVENT_NO_TIMING));
  void *pinned = NULL;
  OK(cuda->host_alloc(&pinned, 64, 0));
  int32_t *numbers = pinned;
  for (int k = 0; k < 16; k++)
    numbers[k] = k;
  dt_cu_ptr_t a = allocate(64), b = allocate(64);
  OK(cuda->copy_to_device(a, pinned, 64, first));
  launch_add(add, first, a, b, 16);
  OK(cuda->event_record(event, first));
  OK(cuda->stream_wait(second, event, 0));
  launch_add(add, second, b, a, 16);
  OK(cuda->copy_to_host(pinned, a, 64, second));
  assert_int_equal(numbers[3], 3); // nothing has been waited for
  OK(cuda->stream_synchronize(second));
  for (int k = 0; k < 16; k++)
    assert_int_equal(numbers[k], k + 2);
  OK(cuda->mem_free(a));
  OK(cuda->mem_free(b));
  OK(cuda->host_free(pinned));
  OK(cuda->event_destroy(event));
  OK(cuda->stream_destroy(first));
  OK(cuda->stream_destroy(second));
  OK(cuda->module_unload(module));
  const char *text = "";
  if (fake_cuda_violations(&text))
    fail_msg("%s", text);
  assert_int_equal(fake_cuda_held(), 1); // the context
}

static void ranges_grow_in_place(void **state) {
  (void)state;
  size_t granule = (size_t)device->granularity;
  dt_cu_mem_prop_t prop = {.type = 1, .location = {.type = 1}};
  dt_cu_access_t access = {.location = {.type = 1}, .flags = 3};
  dt_cu_ptr_t range = 0;
  dt_cu_mem_t pages[2];
  OK(cuda->range_reserve(&range, 8 * granule, 0, 0, 0));
  for (size_t k = 0; k < 2; k++) {
    OK(cuda->pages_create(&pages[k], granule, &prop, 0));
    OK(cuda->pages_map(range + k * granule, granule, 0, pages[k], 0));
    OK(cuda->pages_access(range + k * granule, granule, &access, 1));
    OK(cuda->pages_release(pages[k]));
  }
  OK(cuda->fill_bytes(range, 9, 2 * granule, NULL));
  OK(cuda->stream_synchronize(NULL));
  assert_int_equal(fake_cuda_violations(NULL), 0);
  assert_int_not_equal(cuda->fill_bytes(range, 9, 2 * granule + 1, NULL), DT_CU_SUCCESS);
  expect_violation("not mapped");
  OK(cuda->pages_unmap(range, 2 * granule));
  OK(cuda->range_release(range, 8 * granule));
  assert_int_equal(fake_cuda_held(), 1);
}

// ---- Wrong use --------------------------------------------------------------------------------------

static void a_missing_wait_is_caught(void **state) {
  (void)state;
  dt_cu_module_t module = NULL;
  dt_cu_function_t add = load_add(&module);
  dt_cu_ptr_t a = allocate(64), b = allocate(64), c = allocate(64);
  dt_cu_stream_t first = new_stream(), second = new_stream();
  launch_add(add, first, a, b, 16);
  assert_int_equal(fake_cuda_violations(NULL), 0);
  launch_add(add, second, a, c, 16); // reads what the first reads: no conflict
  assert_int_equal(fake_cuda_violations(NULL), 0);
  launch_add(add, second, b, c, 16);
  expect_violation("not ordered after a write");
}

static void an_overwritten_input_is_caught(void **state) {
  (void)state;
  dt_cu_module_t module = NULL;
  dt_cu_function_t add = load_add(&module);
  dt_cu_ptr_t a = allocate(64), b = allocate(64);
  launch_add(add, new_stream(), a, b, 16);
  OK(cuda->fill_bytes(a + 60, 0, 4, new_stream()));
  expect_violation("not ordered after a read");
}

static void use_after_free_is_caught(void **state) {
  (void)state;
  dt_cu_ptr_t a = allocate(64);
  OK(cuda->mem_free(a));
  assert_int_not_equal(cuda->fill_bytes(a, 0, 64, NULL), DT_CU_SUCCESS);
  expect_violation("memory that was freed");
}

static void a_double_free_is_caught(void **state) {
  (void)state;
  dt_cu_ptr_t a = allocate(64);
  OK(cuda->mem_free(a));
  assert_int_not_equal(cuda->mem_free(a), DT_CU_SUCCESS);
  expect_violation("freed already");
}

static void an_access_beyond_the_block_is_caught(void **state) {
  (void)state;
  dt_cu_ptr_t a = allocate(64);
  assert_int_not_equal(cuda->fill_bytes(a + 32, 0, 33, NULL), DT_CU_SUCCESS);
  expect_violation("beyond its block");
}

static void pinned_memory_in_flight_is_caught(void **state) {
  (void)state;
  void *pinned = NULL;
  OK(cuda->host_alloc(&pinned, 64, 0));
  dt_cu_ptr_t a = allocate(64);
  OK(cuda->copy_to_host(pinned, a, 64, new_stream()));
  OK(cuda->host_free(pinned));
  expect_violation("work in flight");
}

static void a_launch_that_no_device_takes_is_caught(void **state) {
  (void)state;
  dt_cu_module_t module = NULL;
  dt_cu_function_t add = load_add(&module);
  args_t args = {0};
  void *params[] = {&args};
  dt_cu_launch_config_t config = {.grid = {1, 1, 1}, .block = {2048, 1, 1}};
  assert_int_not_equal(cuda->launch(&config, add, params, NULL), DT_CU_SUCCESS);
  expect_violation("no device takes");
}

static void a_call_without_a_context_is_caught(void **state) {
  (void)state;
  dt__cuda_leave(device);
  dt_cu_ptr_t ptr = 0;
  assert_int_equal(cuda->mem_alloc(&ptr, 64), DT_CU_INVALID_CONTEXT);
  expect_violation("without a current context");
  assert_null(dt__cuda_enter(device));
}

static void broken_ptx_is_refused(void **state) {
  (void)state;
  dt_cu_link_t link = NULL;
  OK(cuda->link_create(0, NULL, NULL, &link));
  char text[] = "no code";
  assert_int_equal(cuda->link_add(link, DT_CU_JIT_PTX, text, sizeof(text), "x", 0, NULL, NULL),
                   DT_CU_INVALID_PTX);
  OK(cuda->link_destroy(link));
}

#define ON_DEVICE(name) TEST_WITH(name, enter, leave)
int main(int argc, char **argv) {
  assert_int_equal(argc, 2);
  library = argv[1];
  const struct CMUnitTest tests[] = {
      ON_DEVICE(ordered_work_gives_its_result),
      ON_DEVICE(ranges_grow_in_place),
      ON_DEVICE(a_missing_wait_is_caught),
      ON_DEVICE(an_overwritten_input_is_caught),
      ON_DEVICE(use_after_free_is_caught),
      ON_DEVICE(a_double_free_is_caught),
      ON_DEVICE(an_access_beyond_the_block_is_caught),
      ON_DEVICE(pinned_memory_in_flight_is_caught),
      ON_DEVICE(a_launch_that_no_device_takes_is_caught),
      ON_DEVICE(a_call_without_a_context_is_caught),
      ON_DEVICE(broken_ptx_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
