// SPDX-License-Identifier: Apache-2.0
// Loading code and launching it: the disk cache with every kind of damage, refusals, and what a
// launch hands to the driver.
#include "test/support/check.h"

#include "backend_cuda/exec/session.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/support/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *library;
static dt_cuda_gpu_t *gpu;
static char folder[FOLDER_BYTES], kept_in[72];

static int setup(void **state) {
  const dt_cuda_t *cuda = NULL;
  (void)state;
  fake_cuda_reset(1);
  folder_make(folder);
  if (dt__cuda_open(library, &cuda) || dt__cuda_gpu_create(cuda, 0, 0, &gpu))
    return -1;
  (void)snprintf(kept_in, sizeof(kept_in), "%s/a/b", folder);
  gpu->device->cache = dt__disk_cache_open(kept_in, (uint64_t)1 << 30);
  return 0;
}

// The path of the only entry; how many there are.
static int find_entry(char *out, size_t bytes) {
  int n = 0;
  DIR *dir = opendir(kept_in);
  for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(out, bytes, "%s/%s", kept_in, entry->d_name);
    n++;
  }
  if (dir)
    (void)closedir(dir);
  return n;
}

static int teardown(void **state) {
  (void)state;
  assert_int_equal(folder_drop(folder), 0);
  dt__cuda_gpu_release(gpu);
  const char *first = "";
  bool good = fake_cuda_held() == 0 && fake_cuda_violations(&first) == 0;
  if (!good)
    print_error("%u held, violation: %s\n", fake_cuda_held(), first);
  return good ? 0 : -1;
}

#define PTX(body)                                                                                  \
  ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry dt_k0(\n"                       \
  "  .param .align 8 .b8 dt_k0_param_0[56]\n)\n{\n  ret;\n}\n" body

static dt_status_t load_all(const char *text, const dt_cuda_kernel_info_t *infos, uint32_t n,
                            dt_cuda_code_t **out) {
  dt_cuda_image_t image = {.text = text, .bytes = strlen(text)};
  dt_cuda_unit_t unit = {0};
  dt_status_t status = dt__cuda_unit_make(gpu->device, &image, &unit);
  *out = NULL;
  if (!status)
    status = dt__cuda_code_load(gpu->device, &unit, 1, infos, n, out);
  dt__cuda_unit_fini(gpu->device, &unit);
  return status;
}

static dt_status_t load(const char *text, uint32_t n_words, dt_cuda_code_t **out) {
  dt_cuda_kernel_info_t info = {.threads = 128, .teams = 4, .n_words = n_words};
  return load_all(text, &info, 1, out);
}

// Loads once; whether the linker was asked.
static bool links(const char *text) {
  uint64_t before = fake_cuda_calls(DT_CUDA_SYM_link_complete);
  dt_cuda_code_t *code = NULL;
  assert_null(load(text, 2, &code));
  assert_true(dt__cuda_code_kernel(code, 0)->registers > 0);
  assert_null(dt__cuda_code_kernel(code, 1));
  assert_true(dt__cuda_code_bytes(code) > 0);
  dt__cuda_code_unload(code);
  return fake_cuda_calls(DT_CUDA_SYM_link_complete) != before;
}

// ---- The cache ------------------------------------------------------------------------------------

static void cubins_are_kept(void **state) {
  char path[512];
  struct stat info;
  (void)state;
  assert_true(links(PTX("")));
  assert_false(links(PTX("")));
  assert_int_equal(find_entry(path, sizeof(path)), 1);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  assert_int_equal(stat(kept_in, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_true(links(PTX("// other\n")));
  assert_int_equal(find_entry(path, sizeof(path)), 2);
  gpu->device->minor = 1; // of another device
  assert_true(links(PTX("")));
  gpu->device->minor = 0;
  assert_false(links(PTX("")));
}

static void without_a_folder_nothing_is_kept(void **state) {
  char path[512];
  (void)state;
  dt__disk_cache_close(gpu->device->cache);
  gpu->device->cache = dt__disk_cache_open("", 1);
  assert_null(gpu->device->cache);
  assert_true(links(PTX("")));
  assert_true(links(PTX("")));
  gpu->device->cache = dt__disk_cache_open("/proc/nowhere", 1); // cannot be made
  assert_null(gpu->device->cache);
  assert_true(links(PTX("")));
  assert_int_equal(find_entry(path, sizeof(path)), 0);
}

static void damage_is_a_miss_and_replaced(void **state) {
  char path[512];
  (void)state;
  assert_true(links(PTX("")));
  assert_int_equal(find_entry(path, sizeof(path)), 1);
  size_t bytes = 0;
  char *all = file_read(path, &bytes);
  assert_true(bytes <= 4096);
  // Each byte changed in turn, and each length that is too short.
  for (size_t k = 0; k < 2 * bytes; k += k % bytes < 40 ? 1 : 7) {
    size_t at = k % bytes;
    bool cut = k >= bytes;
    char damaged[4096];
    memcpy(damaged, all, bytes);
    damaged[at] = (char)(damaged[at] ^ 0x20);
    file_write(path, cut ? all : damaged, cut ? at : bytes);
    if (!links(PTX("")))
      fail_msg("byte %zu %s, and the entry was taken", at, cut ? "was the end" : "was changed");
    assert_false(links(PTX("")));
  }
  free(all);
  assert_int_equal(chmod(path, 0666), 0); // anybody may have written it
  assert_true(links(PTX("")));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink("/etc/hostname", path), 0);
  assert_true(links(PTX("")));
  assert_false(links(PTX("")));
}

static void a_cubin_that_the_driver_refuses_is_made_again(void **state) {
  (void)state;
  assert_true(links(PTX("")));
  const dt_cu_result_t results[] = {200, 12345}; // CUDA_ERROR_INVALID_IMAGE, and what has no name
  for (size_t k = 0; k < 2; k++) {
    fake_cuda_fail(DT_CUDA_SYM_module_load, 0, results[k], false);
    assert_true(links(PTX("")));
  }
}

// What the linker answers is about the code; what has been lost is about the device.
static void the_linker_refuses(void **state) {
  (void)state;
  const struct {
    dt_cu_result_t result;
    dt_code_t code;
  } cases[] = {{12345, DT_E_COMPILE},
               {DT_CU_INVALID_PTX, DT_E_COMPILE},
               {DT_CU_OUT_OF_MEMORY, DT_E_NO_MEMORY},
               {DT_CU_ILLEGAL_ADDRESS, DT_E_DEVICE}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_cuda_code_t *code = NULL;
    fake_cuda_fail(DT_CUDA_SYM_link_add, 0, cases[k].result, false);
    dt_status_t status = load(PTX(""), 2, &code);
    assert_int_equal(dt_status_code(status), cases[k].code);
    assert_null(code);
    dt_status_free(status);
    atomic_store(&gpu->device->lost, 0); // the fake goes on, and the next case with it
  }
}

// ---- Refusals -------------------------------------------------------------------------------------

static void what_cannot_be_launched_is_refused(void **state) {
  (void)state;
  dt_cuda_code_t *code = (dt_cuda_code_t *)(uintptr_t)1;
  dt_status_t status = load("no code", 2, &code);
  assert_int_equal(dt_status_code(status), DT_E_COMPILE);
  assert_null(code);
  dt_status_free(status);
  status = load(PTX(""), 508, &code);
  assert_int_equal(dt_status_code(status), DT_E_COMPILE);
  assert_non_null(strstr(dt_status_message(status), "at most 507"));
  dt_status_free(status);
  dt_cuda_kernel_info_t infos[2] = {{.threads = 32, .teams = 1}, {.threads = 32, .teams = 1}};
  status = load_all(PTX(""), infos, 2, &code);
  assert_int_equal(dt_status_code(status), DT_E_COMPILE);
  assert_non_null(strstr(dt_status_message(status), "no kernel dt_k1"));
  dt_status_free(status);
  infos[0].threads = 1000; // of 32 registers fit; of teams they do not
  infos[0].teams = 3;
  status = load_all(PTX(""), infos, 1, &code);
  assert_int_equal(dt_status_code(status), DT_E_INTERNAL);
  dt_status_free(status);
}

// ---- Launches -------------------------------------------------------------------------------------

static fake_launch_t seen;
static unsigned char seen_param[4096];

static uint32_t look(const fake_launch_t *launch, fake_access_t *out, uint32_t cap, void *user) {
  (void)out, (void)cap, (void)user;
  seen = *launch;
  memcpy(seen_param, launch->param, launch->param_bytes);
  return 0;
}

typedef struct launched_t {
  uint64_t words[2];
  dt_cuda_tail_t tail;
} launched_t;

static launched_t launch(const dt_cuda_kernel_t *kernel, dt_cuda_launch_frame_t *frame,
                         int64_t count, int64_t bytes) {
  union {
    const dt_cuda_kernel_t *kernel;
    dt_kernel_fn_t fn;
  } entry = {.kernel = kernel};
  const uint64_t words[] = {11, 22};
  dt__cuda_launch(&frame->frame, entry.fn, words, count, bytes);
  launched_t out;
  memcpy(&out, seen_param, sizeof(out));
  return out;
}

static void launches_follow_the_interface(void **state) {
  (void)state;
  fake_kernel_t kernel = {.accesses = look};
  fake_cuda_kernel("dt_k0", &kernel);
  dt_cuda_code_t *code = NULL;
  assert_null(load(PTX(""), 2, &code));
  dt_cuda_kernel_t own = *dt__cuda_code_kernel(code, 0);
  dt_cuda_region_t scratch = {0};
  dt_cuda_launch_frame_t frame = {
      .gpu = gpu, .stream = gpu->own, .scratch = &scratch, .record = 4096, .no_record = 8192};
  assert_null(dt__cuda_enter(gpu->device));
  launched_t got = launch(&own, &frame, 9, 0);
  assert_int_equal(got.words[0], 11);
  assert_int_equal(got.words[1], 22);
  assert_int_equal(got.tail.count, 9);
  assert_int_equal(got.tail.scratch, 0);
  assert_int_equal(got.tail.scratch_stride, 0);
  assert_int_equal(got.tail.record, 8192); // it checks nothing
  assert_int_equal(seen.grid[0], 3);       // 4 teams a block
  assert_int_equal(seen.block[0], 128);
  assert_int_equal(seen.shared_bytes, 0);
  got = launch(&own, &frame, INT64_C(1) << 40, 100);
  assert_int_equal(seen.grid[0], INT32_MAX);
  assert_int_equal(seen.shared_bytes, 4 * 128);
  assert_int_equal(got.tail.scratch_stride, 128);
  own.info.most_blocks = 2;
  own.info.checks = true;
  got = launch(&own, &frame, INT64_C(1) << 40, 0);
  assert_int_equal(seen.grid[0], 2 * 132);
  assert_int_equal(got.tail.record, 4096);
  own.info.most_blocks = 0;
  got = launch(&own, &frame, 1 << 20, 232448 / 4 + 1);
  assert_int_equal(seen.grid[0], 4 * 132);
  assert_int_equal(seen.shared_bytes, 0);
  assert_int_equal(got.tail.scratch, scratch.base);
  assert_int_equal(got.tail.scratch % 64, 0);
  assert_true(scratch.bytes >= (size_t)got.tail.scratch_stride * 4 * 4 * 132);
  assert_int_equal(frame.launches, 4);
  // A failure ends the frame.
  assert_null(frame.status);
  fake_cuda_fail(DT_CUDA_SYM_launch, 0, DT_CU_LAUNCH_OUT_OF_RESOURCES, false);
  (void)launch(&own, &frame, 1, 0);
  (void)launch(&own, &frame, 1, 0);
  assert_int_equal(frame.launches, 4);
  assert_int_equal(dt_status_code(frame.status), DT_E_DEVICE);
  dt_status_free(frame.status);
  assert_null(dt__cuda_gpu_wait(gpu));
  dt__cuda_leave(gpu->device);
  dt__cuda_region_free(&scratch, gpu);
  dt__cuda_code_unload(code);
}

#define ON_DEVICE(name) TEST_WITH(name, setup, teardown)
int main(int argc, char **argv) {
  assert_int_equal(argc, 2);
  library = argv[1];
  const struct CMUnitTest tests[] = {
      ON_DEVICE(cubins_are_kept),
      ON_DEVICE(without_a_folder_nothing_is_kept),
      ON_DEVICE(damage_is_a_miss_and_replaced),
      ON_DEVICE(a_cubin_that_the_driver_refuses_is_made_again),
      ON_DEVICE(the_linker_refuses),
      ON_DEVICE(what_cannot_be_launched_is_refused),
      ON_DEVICE(launches_follow_the_interface),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
