// SPDX-License-Identifier: Apache-2.0
// See rig.h.
#include "test/unit/worker/rig.h"

#include "runtime/base/hash.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now_seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void sleep_ms(long ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  (void)nanosleep(&time, NULL);
}

void worker_link(const char *program, const char *name, char path[256]) {
  char folder[] = "/tmp/ductile-worker-XXXXXX", whole[PATH_MAX];
  assert_non_null(mkdtemp(folder));
  assert_non_null(realpath(program, whole));
  (void)snprintf(path, 256, "%s/%s", folder, name);
  assert_int_equal(symlink(whole, path), 0);
}

void worker_unlink(const char *path) {
  char folder[256];
  (void)unlink(path);
  (void)snprintf(folder, sizeof(folder), "%s", path);
  *strrchr(folder, '/') = '\0';
  (void)rmdir(folder);
}

uint32_t worker_pids(const char *path, pid_t *out, uint32_t cap) {
  uint32_t n = 0;
  DIR *processes = opendir("/proc");
  assert_non_null(processes);
  for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
    char file[300], command[256] = "";
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
      continue;
    (void)snprintf(file, sizeof(file), "/proc/%s/cmdline", entry->d_name);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, command, sizeof(command) - 1); // ended ones have none
    if (fd >= 0)
      (void)close(fd);
    if (got <= 0 || strcmp(command, path) != 0)
      continue;
    if (n < cap)
      out[n] = (pid_t)strtol(entry->d_name, NULL, 10);
    n++;
  }
  (void)closedir(processes);
  return n;
}

bool worker_none(const char *path, double seconds) {
  double end = now_seconds() + seconds;
  while (worker_pids(path, NULL, 0)) {
    if (now_seconds() > end)
      return false;
    sleep_ms(5);
  }
  return true;
}

void worker_variable(const char *name, long value) {
  char text[32];
  (void)snprintf(text, sizeof(text), "%ld", value);
  assert_int_equal(setenv(name, text, 1), 0);
}

dt_status_t runtime_open(const char *path, uint32_t compile_threads, dt_runtime_t **out) {
  dt_runtime_options_t options = {.struct_size = sizeof(options),
                                  .threads = 1,
                                  .compile_threads = compile_threads,
                                  .isolation = path ? DT_ISOLATION_WORKER : DT_ISOLATION_IN_PROCESS,
                                  .worker_path = path};
  return dt_runtime_create(&options, out);
}

// A product, then unary ops in an order that the number says, each result kept by a sum.
dt_status_t function_make(dt_runtime_t *runtime, uint64_t seed, uint32_t size,
                          dt_function_t **out) {
  static const char *const ops[] = {"tanh", "sin", "exp", "neg", "abs", "cos", "sigmoid", "sqrt"};
  char *text = malloc((size_t)size * 160 + 1024);
  assert_non_null(text);
  int at = sprintf(text, "graph (s0: [0, 1000000]) {\n"
                         "  %%1 = input \"a\" f32[s0, 24] strides [24, 1] contiguous\n"
                         "  %%2 = input \"b\" f32[24, 32] strides [32, 1] contiguous\n"
                         "  %%3 = matmul %%1, %%2 : f32[s0, 32]\n");
  uint32_t last = 3;
  for (uint32_t k = 0; k < size; k++) {
    uint64_t bits = dt__hash_mix(seed, k);
    at += sprintf(text + at, "  %%%u = %s %%%u : f32[s0, 32]\n", last + 1, ops[bits % 8], last);
    at += sprintf(text + at, "  %%%u = %s %%%u {axes = [1]} : f32[s0, 32]\n", last + 2, "softmax",
                  last + 1);
    at += sprintf(text + at, "  %%%u = add %%%u, %%%u : f32[s0, 32]\n", last + 3, last + 2, 3);
    last += 3;
  }
  at += sprintf(text + at, "  return %%%u\n}\n", last);
  char name[32];
  (void)snprintf(name, sizeof(name), "f%llu", (unsigned long long)seed);
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = name, .answer = DT_ANSWER_COMPILED};
  dt_status_t status =
      dt_function_create_from_ir(runtime, text, (size_t)at, "rig.dtt", &options, out);
  free(text);
  return status;
}

static dt_tensor_t *ramp(int64_t rows, int64_t cols) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, 2, SIZES(rows, cols));
  float *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < rows * cols; k++)
    data[k] = (float)(k % 17) / 16.0f - 0.4f;
  return tensor;
}

static dt_status_t call_once(dt_runtime_t *runtime, dt_function_t *function, uint64_t *out_sum) {
  dt_session_t *session = NULL;
  dt_tensor_t *inputs[2] = {ramp(5, 24), ramp(24, 32)}, *result = NULL;
  dt_status_t status = dt_session_create(runtime, NULL, &session);
  if (!status)
    status = dt_call(session, function, inputs, 2, &result, 1, NULL);
  if (!status)
    *out_sum = dt__hash(dt_tensor_data(result), 5 * 32 * sizeof(float), 0);
  RELEASE(result, inputs[0], inputs[1]);
  dt_session_destroy(session);
  return status;
}

dt_status_t function_run(dt_runtime_t *runtime, uint64_t seed, uint32_t size, uint64_t *out_sum) {
  dt_function_t *function = NULL;
  *out_sum = 0;
  dt_status_t status = function_make(runtime, seed, size, &function);
  if (!status)
    status = call_once(runtime, function, out_sum);
  dt_function_release(function);
  return status;
}
