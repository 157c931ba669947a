// SPDX-License-Identifier: Apache-2.0
// Weights are held once: read where a mapped file has them, at any address; packed once for all
// variants and functions with equal weights; let go where only packing has read them; and an update
// makes its function leave what it shared. Files that are replaced or written to meanwhile.
#include "test/unit/frontends/onnx_rig.h"

#include "ductile/op.h"
#include "ductile/pass.h"
#include "test/support/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, WIDTH = 4096, WORDS = 400, ROWS = 3 };
#define W_BYTES ((size_t)DEPTH * WIDTH * sizeof(float))
#define E_BYTES ((size_t)WORDS * DEPTH * sizeof(float))
// Floats begin at no multiple of 4.
#define W_AT ((size_t)1)
#define E_AT (W_AT + W_BYTES + 2)
#define FILE_BYTES (E_AT + E_BYTES)

static char folder[FOLDER_BYTES];
static int before = -1;

static int setup(void **state) {
  folder_make(folder);
  before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return before < 0 || chdir(folder) != 0 || fixture_open(state, 2, 7);
}

static int teardown(void **state) {
  int failed = fixture_close(state) | fchdir(before);
  close(before);
  return failed || folder_drop(folder);
}

// ---- The model: y = x w, packed; g = e[i], read in calls ------------------------------------------

static float weight(int seed, size_t k) {
  return (float)((int)((k * 37 + (size_t)seed * 11) % 97) - 48);
}

static void write_weights(const char *path, int seed, const char *mode) {
  char *bytes = calloc(1, FILE_BYTES);
  assert_non_null(bytes);
  for (size_t k = 0; k < W_BYTES / sizeof(float); k++) {
    float value = weight(seed, k);
    memcpy(bytes + W_AT + k * sizeof(float), &value, sizeof(value));
  }
  for (size_t k = 0; k < E_BYTES / sizeof(float); k++) {
    float value = weight(seed + 1, k);
    memcpy(bytes + E_AT + k * sizeof(float), &value, sizeof(value));
  }
  FILE *file = fopen(path, mode);
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, FILE_BYTES, file), FILE_BYTES);
  assert_int_equal(fclose(file), 0);
  free(bytes);
}

#define PLACE(name, sizes, offset)                                                                 \
  "initializer { name '" name "' data_type 1 " sizes " data_location 1 external_data { key "       \
  "'location' value '%s' } external_data { key 'offset' value '" offset "' } } "

static void write_model(const char *path, const char *weights) {
  char text[2048], shape[2][64];
  (void)snprintf(shape[0], sizeof shape[0], "dims %d dims %d", DEPTH, WIDTH);
  (void)snprintf(shape[1], sizeof shape[1], "dims %d dims %d", WORDS, DEPTH);
  int length = snprintf(
      text, sizeof text,
      "ir_version 8 opset_import { version 17 } graph { name 'g' " PLACE("w", "%s", "%zu")
          PLACE("e", "%s", "%zu") INPUT("x", "1", OPEN("n") SIZE(64)) INPUT("i", "7", OPEN("m"))
              OUTPUT("y") OUTPUT("g") "node { op_type 'MatMul' input 'x' input 'w' output 'y' } "
                                      "node { op_type 'Gather' input 'e' input 'i' output 'g' } }",
      shape[0], weights, W_AT, shape[1], weights, E_AT);
  assert_true(length > 0 && length < (int)sizeof text);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  file_write(path, bytes.data, bytes.len);
  onnx_free(&bytes);
}

static dt_function_t *open_model(const fixture_t *fixture, const char *path,
                                 dt_onnx_access_t access) {
  dt_onnx_options_t options = {.struct_size = sizeof(options), .access = access};
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open(path, &options, &file));
  dt_function_t *function = rig_function(fixture, file, compiled_answer());
  dt_onnx_close(file);
  return function;
}

// Both results, of weights `w` and `e`; small integers, so that every order of sums is exact.
// `wide`: another variant, x with strides.
static void expect_answer(const fixture_t *fixture, dt_function_t *function, int w, int e,
                          bool wide) {
  float *x = calloc((size_t)ROWS * DEPTH * 2, sizeof(*x));
  assert_non_null(x);
  int64_t step = wide ? 2 : 1, strides[] = {DEPTH * step, step};
  for (int64_t k = 0; k < ROWS * DEPTH; k++)
    x[k * step] = (float)(k % 7 - 3);
  dt_tensor_t *in[] = {tensor_over(DT_F32, 2, (int64_t[]){ROWS, DEPTH}, strides, x),
                       tensor_i64(1, (int64_t[]){2}, (int64_t[]){1, WORDS - 1})};
  dt_tensor_t *out[2] = {NULL, NULL};
  expect_ok(dt_call(fixture->session, function, in, 2, out, 2, NULL));
  const float *y = dt_tensor_data(out[0]), *g = dt_tensor_data(out[1]);
  for (size_t r = 0; r < ROWS; r++)
    for (size_t c = 0; c < WIDTH; c += 513) {
      float want = 0;
      for (size_t k = 0; k < DEPTH; k++)
        want += (float)((int)((r * DEPTH + k) % 7) - 3) * weight(w, k * WIDTH + c);
      if (y[r * WIDTH + c] != want)
        fail_msg("row %zu, column %zu: %g, not %g", r, c, (double)y[r * WIDTH + c], (double)want);
    }
  for (size_t k = 0; k < DEPTH; k++)
    assert_true(g[k] == weight(e, DEPTH + k) &&
                g[DEPTH + k] == weight(e, (size_t)(WORDS - 1) * DEPTH + k));
  release_tensors(in, 2);
  release_tensors(out, 2);
  free(x);
}

static dt_runtime_stats_t held(const fixture_t *fixture) {
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_runtime_stats(fixture->runtime, &stats));
  return stats;
}

static bool compiles(void) { return compiled_answer() == DT_ANSWER_COMPILED; }

// ---- Where they are -------------------------------------------------------------------------------

// Bytes of a file that mappings of this process have; -1: the system does not tell.
static long long resident(const char *name) {
  FILE *file = fopen("/proc/self/smaps", "r");
  char line[512];
  bool inside = false;
  long long kib = 0, one = 0;
  while (file && fgets(line, sizeof line, file)) {
    if (strchr(line, '-') && strchr(line, ' ') && strchr(line, '-') < strchr(line, ' ')) {
      line[strcspn(line, "\n")] = 0;
      size_t length = strlen(line), end = strlen(name);
      inside = length > end && strcmp(line + length - end, name) == 0;
    }
    if (inside && sscanf(line, "Rss: %lld kB", &one) == 1)
      kib += one;
  }
  if (!file)
    return -1;
  (void)fclose(file);
  return kib << 10;
}

static void test_mapped(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *function = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, function, 1, 2, false);
  dt_runtime_stats_t stats = held(fixture);
  assert_int_equal(stats.mapped_bytes, W_BYTES + E_BYTES);
  assert_int_equal(stats.constant_bytes, 0);
  if (compiles()) {
    assert_int_equal(stats.packed_bytes, W_BYTES);
    assert_int_equal(stats.shared_bytes, 0);
    assert_true(stats.program_bytes >= stats.code_bytes && stats.code_bytes > 0);
    assert_true(stats.bytes >= stats.packed_bytes + stats.program_bytes + stats.session_bytes);
    // w's pages are gone, those of e that the call has read and around it may be there.
    long long bytes = resident("/w.bin");
    if (bytes > (long long)(E_BYTES + W_BYTES / 4))
      fail_msg("%lld bytes of the file are resident", bytes);
  }
  dt_function_release(function);
  stats = held(fixture);
  assert_int_equal(stats.mapped_bytes + stats.packed_bytes + stats.program_bytes, 0);
}

// A copy, which the file may leave; nothing but the file's bytes and what is packed is held.
static void test_read(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *function = open_model(fixture, "m.onnx", DT_ONNX_READ);
  assert_int_equal(truncate("w.bin", 0), 0);
  expect_answer(fixture, function, 1, 2, false);
  expect_answer(fixture, function, 1, 2, true);
  dt_runtime_stats_t stats = held(fixture);
  assert_int_equal(stats.mapped_bytes, 0);
  assert_int_equal(stats.constant_bytes, W_BYTES + E_BYTES);
  dt_function_release(function);
}

// ---- Shared ---------------------------------------------------------------------------------------

static void test_variants_share(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *function = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, function, 1, 2, false);
  expect_answer(fixture, function, 1, 2, true);
  assert_int_equal(variants_of(function), 2);
  if (compiles()) {
    dt_runtime_stats_t stats = held(fixture);
    assert_int_equal(stats.packed_bytes, W_BYTES);
    assert_int_equal(stats.shared_bytes, W_BYTES);
    assert_int_equal(stats_of(function).constant_bytes, W_BYTES);
    assert_true(resident("/w.bin") <= (long long)(E_BYTES + W_BYTES / 4));
  }
  dt_function_release(function);
}

static dt_tensor_t *weights_of(int seed) {
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, 2, (int64_t[]){DEPTH, WIDTH}, &tensor));
  for (size_t k = 0; k < W_BYTES / sizeof(float); k++)
    ((float *)dt_tensor_data(tensor))[k] = weight(seed, k);
  return tensor;
}

static void expect_packed(const fixture_t *fixture, uint64_t copies, uint64_t shared) {
  if (!compiles())
    return;
  dt_runtime_stats_t stats = held(fixture);
  assert_int_equal(stats.packed_bytes, copies * W_BYTES);
  assert_int_equal(stats.shared_bytes, shared * W_BYTES);
}

// Functions of one file opened twice, of a copy of it, and of one that was read.
static void test_functions_share(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    const char *path;
    dt_onnx_access_t access;
  } ways[] = {{"m.onnx", DT_ONNX_MAP},
              {"m.onnx", DT_ONNX_MAP},
              {"other.onnx", DT_ONNX_MAP},
              {"m.onnx", DT_ONNX_READ}};
  enum { N = sizeof(ways) / sizeof(ways[0]) };
  dt_function_t *functions[N];
  write_weights("w.bin", 1, "w");
  write_weights("v.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  write_model("other.onnx", "v.bin");
  for (size_t k = 0; k < N; k++) {
    functions[k] = open_model(fixture, ways[k].path, ways[k].access);
    expect_answer(fixture, functions[k], 1, 2, false);
    expect_packed(fixture, 1, k);
  }
  // One leaves, and the others stay as they are.
  dt_tensor_t *next = weights_of(5);
  expect_ok(dt_constant_update(functions[1], "w", next));
  expect_packed(fixture, 2, N - 2);
  for (size_t k = 0; k < N; k++) {
    expect_answer(fixture, functions[k], k == 1 ? 5 : 1, 2, false);
    expect_answer(fixture, functions[k], k == 1 ? 5 : 1, 2, true);
  }
  // Who made the form may go before those who found it.
  dt_function_release(functions[0]);
  expect_answer(fixture, functions[2], 1, 2, false);
  expect_packed(fixture, 2, 2 * (N - 1) - 2);
  // Updated to what the others have, it is one of them again.
  dt_tensor_t *back = weights_of(1);
  expect_ok(dt_constant_update(functions[1], "w", back));
  expect_packed(fixture, 1, 2 * (N - 1) - 1);
  expect_answer(fixture, functions[1], 1, 2, true);
  for (size_t k = 1; k < N; k++)
    dt_function_release(functions[k]);
  expect_packed(fixture, 0, 0);
  dt_tensor_release(next);
  dt_tensor_release(back);
}

// Weights that begin alike, and differ in one number far behind.
static void test_like_beginnings(void **state) {
  fixture_t *fixture = *state;
  float other = 1000;
  write_weights("w.bin", 1, "w");
  write_weights("v.bin", 1, "w");
  FILE *file = fopen("v.bin", "r+");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)(W_AT + W_BYTES - sizeof(other)), SEEK_SET), 0);
  assert_int_equal(fwrite(&other, sizeof(other), 1, file), 1);
  assert_int_equal(fclose(file), 0);
  write_model("m.onnx", "w.bin");
  write_model("other.onnx", "v.bin");
  dt_function_t *one = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  dt_function_t *two = open_model(fixture, "other.onnx", DT_ONNX_MAP);
  expect_answer(fixture, one, 1, 2, false);
  expect_answer(fixture, two, 1, 2, false); // in other columns
  expect_packed(fixture, 2, 0);
  dt_function_release(one);
  dt_function_release(two);
}

// The same tensor again, which was written to before: not what it was packed to then.
static void test_written_tensor(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *function = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  dt_tensor_t *own = weights_of(3);
  expect_answer(fixture, function, 1, 2, false);
  for (int seed = 3; seed < 6; seed++) {
    for (size_t k = 0; k < W_BYTES / sizeof(float); k++)
      ((float *)dt_tensor_data(own))[k] = weight(seed, k);
    expect_ok(dt_constant_update(function, "w", own));
    expect_answer(fixture, function, seed, 2, false);
    if (seed == 4)
      expect_answer(fixture, function, seed, 2, true); // a variant that comes later
  }
  expect_answer(fixture, function, 5, 2, true);
  dt_tensor_release(own);
  dt_function_release(function);
}

// ---- Files that change ----------------------------------------------------------------------------

// Replaced by renaming, the old file stays what is mapped: also for a variant that comes later,
// which reads again what was let go.
static void test_replaced(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *old = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, old, 1, 2, false);
  write_weights("next.bin", 8, "w");
  assert_int_equal(rename("next.bin", "w.bin"), 0);
  dt_function_t *fresh = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, fresh, 8, 9, false);
  expect_packed(fixture, 2, 0);
  expect_answer(fixture, old, 1, 2, true);
  expect_answer(fixture, old, 1, 2, false);
  dt_function_release(old);
  expect_answer(fixture, fresh, 8, 9, true);
  dt_function_release(fresh);
}

// Written to in place, which nobody should do, the old mapping shows the new bytes; what was packed
// from the old ones is no form of the new.
static void test_written_in_place(void **state) {
  fixture_t *fixture = *state;
  write_weights("w.bin", 1, "w");
  write_model("m.onnx", "w.bin");
  dt_function_t *old = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, old, 1, 2, false);
  struct timespec while_clocks_tick = {.tv_nsec = 20000000};
  (void)nanosleep(&while_clocks_tick, NULL);
  write_weights("w.bin", 8, "r+");
  dt_function_t *fresh = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  expect_answer(fixture, fresh, 8, 9, false);
  expect_packed(fixture, 2, 0);
  dt_function_release(old);
  dt_function_release(fresh);
}

// ---- What goes, and comes again ---------------------------------------------------------------------

static void test_evicted(void **state) {
  (void)state;
  write_weights("w.bin", 1, "w");
  write_weights("v.bin", 6, "w");
  write_model("m.onnx", "w.bin");
  write_model("other.onnx", "v.bin");
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 2, .max_bytes = W_BYTES + W_BYTES / 2};
  fixture_t own = {0};
  expect_ok(dt_runtime_create(&options, &own.runtime));
  own.session = session_of(own.runtime);
  dt_function_t *one = open_model(&own, "m.onnx", DT_ONNX_MAP);
  dt_function_t *two = open_model(&own, "other.onnx", DT_ONNX_MAP);
  dt_runtime_stats_t stats = {0};
  // A variant stays while the decision of its function is made; a session that grows asks again.
  for (int round = 0; round < 3 || (compiles() && stats.evicted_variants < 2); round++) {
    expect_answer(&own, one, 1, 2, false);
    expect_answer(&own, two, 6, 7, false);
    expect_ok(dt_session_trim(own.session));
    stats = held(&own);
    assert_true(round < 200);
  }
  if (compiles()) {
    assert_true(stats.evicted_bytes >= stats.evicted_variants * W_BYTES);
    assert_true(stats.packed_bytes == W_BYTES || stats.packed_bytes == 2 * W_BYTES);
    assert_int_equal(stats.shared_bytes, 0);
  }
  dt_function_release(one);
  dt_function_release(two);
  fixture_end(&own);
}

// ---- Who reads them besides kernels -----------------------------------------------------------------

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_F32);
  return NULL;
}

// By pointers to floats, as kernels of users do.
static dt_status_t twice(const dt_op_args_t *args, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  if ((uintptr_t)args->inputs[0]->data % sizeof(float) != 0)
    return dt_status_make(DT_E_ARGUMENT, "an operand at no multiple of 4");
  const float *from = args->inputs[0]->data;
  float *to = args->results[0]->data;
  for (int64_t k = 0; k < args->inputs[0]->sizes[0] * args->inputs[0]->sizes[1]; k++)
    to[k] = 2 * from[k];
  return NULL;
}

static dt_status_t read_constant(dt_rewriter_t *r, void *user) {
  bool *seen = user;
  for (dt_value_t node = dt_rewriter_next(r, (dt_value_t){0}); node.id;
       node = dt_rewriter_next(r, node)) {
    const void *data = NULL;
    uint64_t bytes = 0;
    dt_status_t status = dt_rewriter_constant(r, node, &data, &bytes);
    if (status) {
      dt_status_free(status);
      continue;
    }
    *seen = true;
    if ((uintptr_t)data % sizeof(float) != 0 || ((const float *)data)[1] != weight(1, 1))
      return dt_status_make(DT_E_ARGUMENT, "a constant at no multiple of 4");
  }
  return NULL;
}

static void test_users_code(void **state) {
  fixture_t *fixture = *state;
  char text[1024];
  bool seen = false;
  static const dt_op_options_t op = {
      .struct_size = sizeof op, .name = "com.acme.Twice", .infer = infer, .kernel = twice};
  dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "reads"};
  write_weights("w.bin", 1, "w");
  (void)snprintf(text, sizeof text,
                 "ir_version 8 opset_import { version 17 } opset_import { domain 'com.acme' "
                 "version 1 } graph { name 'g' initializer { name 'w' data_type 1 dims %d dims %d "
                 "data_location 1 external_data { key 'location' value 'w.bin' } external_data { "
                 "key 'offset' value '1' } } " OUTPUT("y") "node { op_type 'Twice' domain "
                                                           "'com.acme' input 'w' output 'y' } }",
                 DEPTH, WIDTH);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  file_write("m.onnx", bytes.data, bytes.len);
  onnx_free(&bytes);
  expect_ok(dt_op_register(fixture->runtime, &op));
  expect_ok(dt_runtime_add_pass(fixture->runtime, DT_POINT_TRACED, read_constant, &seen, &pass));
  dt_function_t *function = open_model(fixture, "m.onnx", DT_ONNX_MAP);
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(fixture->session, function, NULL, 0, &out, 1, NULL));
  for (size_t k = 0; k < W_BYTES / sizeof(float); k += 1001)
    assert_true(((float *)dt_tensor_data(out))[k] == 2 * weight(1, k));
  assert_true(seen);
  dt_tensor_release(out);
  dt_function_release(function);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(test_mapped),         EACH(test_read),
                                     EACH(test_variants_share), EACH(test_functions_share),
                                     EACH(test_written_tensor), EACH(test_like_beginnings),
                                     EACH(test_replaced),       EACH(test_written_in_place),
                                     EACH(test_evicted),        EACH(test_users_code)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
