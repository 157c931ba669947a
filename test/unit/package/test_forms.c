// SPDX-License-Identifier: Apache-2.0
// Weights in packages: what is computed from them lies in the file and is used there; they stay in
// a model's own file where that is asked for; each is checked before it is read.
#include "ductile/package.h"

#include "runtime/base/file.h"
#include "runtime/base/file_tensor.h"
#include "runtime/package/package.h"
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 96, WIDTH = 640, NARROW = 128, ROWS = 5 };
#define W_BYTES ((size_t)DEPTH * WIDTH * sizeof(float))
#define V_BYTES ((size_t)WIDTH * NARROW * sizeof(float))
#define W_AT ((size_t)64)
#define FILE_BYTES (W_AT + W_BYTES)

static char folder[FOLDER_BYTES];
static fixture_t f;
static float *weights;
static dt_tensor_t *narrow; // WIDTH × NARROW

static const char *path_of(const char *name) {
  static char path[16][FOLDER_BYTES + 64];
  static uint32_t turn;
  char *own = path[turn++ % 16];
  (void)snprintf(own, sizeof(path[0]), "%s/%s", folder, name);
  return own;
}

// ---- A function with a weight that is packed ------------------------------------------------------
// Both are packed by one code, for numbers that differ.
static dt_status_t wide_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_value_t wide = dt_matmul(t, in[0], dt_constant(t, "w", closure));
  out[0] = dt_matmul(t, wide, dt_constant(t, "v", narrow));
  return NULL;
}

static dt_function_t *wide_function(dt_tensor_t *w, const char *name) {
  static const dt_input_decl_t matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
  dt_function_options_t options = options_of(1, matrix);
  options.name = name;
  return function_of(&f, wide_program, w, &options);
}

static dt_tensor_t *answer(dt_function_t *function, int64_t rows) {
  rng_t rng = {17};
  dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(rows, DEPTH)), *y = NULL;
  expect_ok(dt_call(f.session, function, &x, 1, &y, 1, NULL));
  RELEASE(x);
  return y;
}

static void expect_same(dt_function_t *function, const dt_tensor_t *want) {
  dt_tensor_t *y = answer(function, ROWS);
  assert_int_equal(dt_tensor_bytes(y), dt_tensor_bytes(want));
  assert_memory_equal(dt_tensor_data(y), dt_tensor_data((dt_tensor_t *)(uintptr_t)want),
                      dt_tensor_bytes(y));
  RELEASE(y);
}

static dt_package_write_options_t levels_of(const char *levels) {
  return (dt_package_write_options_t){.struct_size = sizeof(dt_package_write_options_t),
                                      .levels = levels};
}

static dt_function_t *open_in(dt_runtime_t *runtime, const char *path, const char *name) {
  dt_package_t *package = NULL;
  dt_function_t *function = NULL;
  expect_ok(dt_package_open(runtime, path, NULL, &package));
  expect_ok(dt_package_function(package, name, NULL, &function));
  dt_package_release(package);
  return function;
}

static dt_runtime_stats_t held(void) {
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_runtime_stats(f.runtime, &stats));
  return stats;
}

static size_t bytes_of(const char *path) {
  size_t bytes = 0;
  free(file_read(path, &bytes));
  return bytes;
}

static dt_tensor_t *weight(void) {
  return tensor_over(DT_F32, 2, SIZES(DEPTH, WIDTH), NULL, weights);
}

// ---- Forms ----------------------------------------------------------------------------------------
static void write_two(void) {
  dt_tensor_t *w = weight();
  dt_function_t *functions[] = {wide_function(w, "a"), wide_function(w, "b")};
  dt_package_write_options_t options = levels_of("v2,v3,v4");
  expect_ok(dt_package_write(path_of("forms.dtp"), functions, 2, &options));
  options.no_forms = true;
  expect_ok(dt_package_write(path_of("bare.dtp"), functions, 2, &options));
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
  RELEASE(w);
}

// The same bits, and no memory for it: two functions read one form, in the file.
static void test_forms_are_used_from_the_file(void **state) {
  (void)state;
  write_two();
  assert_true(bytes_of(path_of("forms.dtp")) >= bytes_of(path_of("bare.dtp")) + W_BYTES + V_BYTES);
  dt_function_t *bare = open_in(f.runtime, path_of("bare.dtp"), "a");
  assert_int_equal(held().packed_bytes, W_BYTES + V_BYTES);
  dt_tensor_t *want = answer(bare, ROWS);
  dt_function_release(bare);
  dt_runtime_stats_t before = held();
  assert_int_equal(before.packed_bytes, 0);
  dt_function_t *a = open_in(f.runtime, path_of("forms.dtp"), "a");
  dt_function_t *b = open_in(f.runtime, path_of("forms.dtp"), "b");
  expect_same(a, want);
  expect_same(b, want);
  dt_runtime_stats_t after = held();
  assert_int_equal(after.packed_bytes, 0);
  assert_int_equal(after.shared_bytes, 0);
  // The weights twice, by two mappings, and their forms once.
  assert_int_equal(after.mapped_bytes, 3 * (W_BYTES + V_BYTES));
  // Another weight is packed in memory, by the function that has it; the old one's form is found.
  dt_tensor_t *zero = tensor_full(0, 2, SIZES(DEPTH, WIDTH)), *w = weight();
  expect_ok(dt_constant_update(a, "w", zero));
  assert_true(held().packed_bytes >= W_BYTES);
  expect_same(b, want);
  expect_ok(dt_constant_update(a, "w", w));
  expect_same(a, want);
  assert_int_equal(held().packed_bytes, 0);
  RELEASE(want, zero, w);
  dt_function_release(a);
  dt_function_release(b);
  assert_int_equal(held().mapped_bytes, 0);
}

// At each level that runs here: no bytes are computed.
static void test_each_level_has_its_forms(void **state) {
  (void)state;
  static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  write_two();
  for (uint32_t k = 0; k < 3; k++) {
    dt_runtime_t *runtime = NULL;
    variable_set("DUCTILE_CPU", levels[k]);
    dt_status_t status = dt_runtime_create(NULL, &runtime);
    if (!status) {
      dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
      dt_function_t *function = open_in(runtime, path_of("forms.dtp"), "a");
      expect_ok(dt_runtime_stats(runtime, &stats));
      assert_int_equal(stats.packed_bytes, 0);
      dt_function_release(function);
      dt_runtime_release(runtime);
    }
    dt_status_free(status);
  }
  variable_set("DUCTILE_CPU", NULL);
}

// Whatever CPU writes: the same bytes, forms of levels that it does not run included.
static void test_any_machine_writes_the_same(void **state) {
  (void)state;
  size_t bytes[2];
  char *data[2];
  for (int k = 0; k < 2; k++) {
    variable_set("DUCTILE_CPU", k ? "x86-64-v2" : NULL);
    fixture_t own = fixture_on(DT_CPU, 1), whole = f;
    f = own;
    dt_tensor_t *w = weight();
    dt_function_t *function = wide_function(w, "a");
    const dt_package_write_options_t options = levels_of("v2,v3,v4,v3+vnni");
    expect_ok(dt_package_write(path_of("any.dtp"), &function, 1, &options));
    data[k] = file_read(path_of("any.dtp"), &bytes[k]);
    dt_function_release(function);
    RELEASE(w);
    f = whole;
    fixture_end(&own);
  }
  variable_set("DUCTILE_CPU", NULL);
  assert_int_equal(bytes[0], bytes[1]);
  assert_memory_equal(data[0], data[1], bytes[0]);
  free(data[0]);
  free(data[1]);
}

// ---- Damage ---------------------------------------------------------------------------------------
// The part that holds the weight as it was written.
static size_t find_weight(const char *data, size_t bytes) {
  for (size_t at = 0; at + W_BYTES <= bytes; at += DT_PACK_ALIGN)
    if (memcmp(data + at, weights, W_BYTES) == 0)
      return at;
  fail_msg("the weight is not in the package");
  return 0;
}

static void change_byte(const char *path, size_t at) {
  size_t bytes = 0;
  char *data = file_read(path, &bytes);
  data[at] ^= 1;
  file_write(path, data, bytes);
  free(data);
}

static void test_a_damaged_weight_is_told_before_it_is_read(void **state) {
  (void)state;
  static const char *const names[] = {"forms.dtp", "bare.dtp"};
  write_two();
  dt_function_t *sound = open_in(f.runtime, path_of("bare.dtp"), "a");
  dt_tensor_t *want = answer(sound, ROWS);
  dt_function_release(sound);
  for (uint32_t k = 0; k < 2; k++) {
    size_t bytes = 0;
    char *data = file_read(path_of(names[k]), &bytes);
    change_byte(path_of(names[k]), find_weight(data, bytes) + W_BYTES / 2);
    free(data);
    dt_package_t *package = NULL;
    dt_function_t *function = NULL;
    expect_ok(dt_package_open(f.runtime, path_of(names[k]), NULL, &package));
    if (k == 1) {
      expect_told(dt_package_function(package, "a", NULL, &function), DT_E_FORMAT,
                  "constant 'w' is another");
    } else {
      // Its form is sound, and all that calls read.
      expect_ok(dt_package_function(package, "a", NULL, &function));
      expect_same(function, want);
      dt_tensor_t *x = NULL, *y = NULL;
      float *data_x = calloc((size_t)2 * DEPTH, sizeof(*data_x));
      assert_non_null(data_x);
      x = tensor_over(DT_F32, 2, SIZES(1, DEPTH), (const int64_t[]){2 * DEPTH, 2}, data_x);
      expect_told(dt_call(f.session, function, &x, 1, &y, 1, NULL), DT_E_FORMAT,
                  "constant 'w' is another");
      RELEASE(x);
      free(data_x);
      dt_function_release(function);
    }
    dt_package_release(package);
  }
  RELEASE(want);
}

// ---- Weights that stay in a file ------------------------------------------------------------------
typedef struct mapped_t {
  void *data;
  dt_file_stamp_t stamp;
} mapped_t;

static void unmap(void *opaque) {
  mapped_t *own = opaque;
  assert_int_equal(munmap(own->data, FILE_BYTES), 0);
  free(own);
}

static dt_tensor_t *map_weight(const char *path) {
  mapped_t *own = calloc(1, sizeof(*own));
  struct stat found;
  int fd = -1;
  dt_tensor_t *w = NULL;
  assert_non_null(own);
  expect_ok(dt__file_open(AT_FDCWD, path, &fd, &found));
  own->data = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
  assert_true(own->data != MAP_FAILED);
  (void)close(fd);
  own->stamp = dt__file_stamp(&found);
  expect_ok(dt__file_tensor((char *)own->data + W_AT, W_BYTES, DT_F32, 2, SIZES(DEPTH, WIDTH),
                            (dt_file_place_t){.stamp = &own->stamp, .offset = W_AT}, unmap, own,
                            &w));
  return w;
}

static void write_file(const char *path) {
  char *bytes = calloc(1, FILE_BYTES);
  assert_non_null(bytes);
  memcpy(bytes + W_AT, weights, W_BYTES);
  file_write(path, bytes, FILE_BYTES);
  free(bytes);
}

static void write_referring(const char *path, const char *file, bool no_forms) {
  dt_tensor_t *w = map_weight(file);
  dt_function_t *function = wide_function(w, "a");
  dt_package_write_options_t options = levels_of("v2,v3");
  options.files = &file;
  options.n_files = 1;
  options.no_forms = no_forms;
  expect_ok(dt_package_write(path, &function, 1, &options));
  dt_function_release(function);
  RELEASE(w);
}

static dt_status_t try(const char *path, const dt_package_options_t *options, dt_function_t **out) {
  dt_package_t *package = NULL;
  dt_status_t status = dt_package_open(f.runtime, path, options, &package);
  if (!status)
    status = dt_package_function(package, NULL, NULL, out);
  dt_package_release(package);
  return status;
}

static void test_weights_stay_in_their_file(void **state) {
  (void)state;
  dt_function_t *function = NULL, *whole = NULL;
  assert_int_equal(mkdir(path_of("sub"), 0700), 0);
  assert_int_equal(mkdir(path_of("sub/deep"), 0700), 0);
  write_two();
  write_file(path_of("weights.bin"));
  whole = open_in(f.runtime, path_of("bare.dtp"), "a");
  dt_tensor_t *want = answer(whole, ROWS);
  dt_function_release(whole);
  for (int way = 0; way < 4; way++) { // beside and above the package; with forms and without
    const char *path = way % 2 ? path_of("sub/deep/ref.dtp") : path_of("ref.dtp");
    write_referring(path, path_of("weights.bin"), way >= 2);
    assert_true(way < 2 || bytes_of(path) < W_BYTES + V_BYTES);
    const dt_package_options_t copied = {.struct_size = sizeof(copied), .copy = true};
    for (int copy = 0; copy < 2; copy++) {
      expect_ok(try(path, copy ? &copied : NULL, &function));
      expect_same(function, want);
      dt_function_release(function);
    }
  }
  // Moved together, and opened by a relative path.
  write_referring(path_of("ref.dtp"), path_of("weights.bin"), true);
  assert_int_equal(rename(path_of("ref.dtp"), path_of("sub/ref.dtp")), 0);
  expect_told(try(path_of("sub/ref.dtp"), NULL, &function), DT_E_IO, "sub/weights.bin");
  const dt_package_options_t above = {.struct_size = sizeof(above), .folder = folder};
  expect_ok(try(path_of("sub/ref.dtp"), &above, &function));
  expect_same(function, want);
  dt_function_release(function);
  assert_int_equal(rename(path_of("weights.bin"), path_of("sub/weights.bin")), 0);
  int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(chdir(path_of("sub")), 0);
  expect_ok(try("ref.dtp", NULL, &function));
  assert_int_equal(fchdir(here), 0);
  (void)close(here);
  expect_same(function, want);
  dt_function_release(function);
  RELEASE(want);
}

static void test_another_file_is_refused(void **state) {
  (void)state;
  dt_function_t *function = NULL;
  dt_package_t *package = NULL;
  write_file(path_of("other.bin"));
  write_referring(path_of("ref.dtp"), path_of("other.bin"), true);
  change_byte(path_of("other.bin"), W_AT + W_BYTES / 3);
  expect_told(try(path_of("ref.dtp"), NULL, &function), DT_E_FORMAT, "other.bin has another sum");
  file_write(path_of("other.bin"), weights, W_BYTES);
  expect_told(try(path_of("ref.dtp"), NULL, &function), DT_E_FORMAT, "other.bin has ");
  assert_int_equal(unlink(path_of("other.bin")), 0);
  expect_told(try(path_of("ref.dtp"), NULL, &function), DT_E_IO, "other.bin");
  // Bytes in memory have no folder.
  size_t bytes = 0;
  char *data = file_read(path_of("ref.dtp"), &bytes);
  const dt_package_options_t copied = {.struct_size = sizeof(copied), .copy = true};
  expect_ok(dt_package_open_memory(f.runtime, data, bytes, &copied, &package));
  expect_told(dt_package_function(package, NULL, NULL, &function), DT_E_ARGUMENT,
              "options->folder says where");
  dt_package_release(package);
  free(data);
  // With forms, what calls do not read may be another, until it is read.
  write_file(path_of("other.bin"));
  write_referring(path_of("ref.dtp"), path_of("other.bin"), false);
  change_byte(path_of("other.bin"), W_AT + W_BYTES / 3);
  expect_ok(try(path_of("ref.dtp"), NULL, &function));
  RELEASE(answer(function, ROWS));
  dt_function_release(function);
}

static void test_what_files_cannot_be(void **state) {
  (void)state;
  write_file(path_of("w.bin"));
  const char *paths[] = {path_of("w.bin"), path_of("none.bin")};
  dt_tensor_t *w = map_weight(paths[0]);
  dt_function_t *function = wide_function(w, "a");
  dt_package_write_options_t options = levels_of("v2");
  options.files = paths;
  options.n_files = 2;
  expect_told(dt_package_write(path_of("x.dtp"), &function, 1, &options), DT_E_IO, "none.bin");
  options.files = NULL;
  expect_told(dt_package_write(path_of("x.dtp"), &function, 1, &options), DT_E_ARGUMENT, "files");
  options.files = paths;
  options.n_files = 1;
  change_byte(paths[0], 0); // written to since it was mapped
  expect_told(dt_package_write(path_of("x.dtp"), &function, 1, &options), DT_E_IO,
              "w.bin was written to");
  dt_function_release(function);
  RELEASE(w);
}

// ---- Without a package ----------------------------------------------------------------------------
// In a runtime of its own: what it holds in memory of forms, and in files.
typedef struct own_t {
  uint64_t packed, mapped;
} own_t;

static own_t run_once(const char *file, const dt_tensor_t *want) {
  fixture_t whole = f;
  f = fixture_on(DT_CPU, 1);
  dt_tensor_t *w = map_weight(file);
  dt_function_t *function = wide_function(w, "a");
  dt_tensor_t *y = answer(function, ROWS);
  if (want)
    assert_memory_equal(dt_tensor_data(y), dt_tensor_data((dt_tensor_t *)(uintptr_t)want),
                        dt_tensor_bytes(y));
  const own_t own = {held().packed_bytes, held().mapped_bytes};
  RELEASE(y, w);
  dt_function_release(function);
  fixture_end(&f);
  f = whole;
  return own;
}

static void expect_kept(own_t own, bool kept) {
  assert_int_equal(own.packed, kept ? V_BYTES : V_BYTES + W_BYTES);
  assert_int_equal(own.mapped, kept ? 2 * W_BYTES : W_BYTES); // the weight itself, and its form
}

static const char *only_form(const char *cache) {
  static char path[512];
  char pattern[FOLDER_BYTES + 96];
  glob_t found;
  (void)snprintf(pattern, sizeof(pattern), "%s/*.form", cache);
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  (void)snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
  globfree(&found);
  return path;
}

// Forms of weights in mapped files are kept on disk, and used from there by all processes.
static void test_forms_of_files_are_kept(void **state) {
  (void)state;
  const char *file = path_of("kept.bin"), *cache = path_of("cache");
  const struct timespec settled = {.tv_sec = 3, .tv_nsec = 100000000};
  dt_tensor_t *w = weight();
  dt_function_t *function = wide_function(w, "a");
  dt_tensor_t *want = answer(function, ROWS);
  dt_function_release(function);
  variable_set("DUCTILE_CACHE_DIR", cache);
  write_file(file);
  expect_kept(run_once(file, want), false); // it was written just now
  assert_int_equal(folder_count(cache, ".form"), 0);
  (void)nanosleep(&settled, NULL);
  if (run_once(file, want).packed != V_BYTES) { // a build without identity keeps nothing
    variable_set("DUCTILE_CACHE_DIR", "");
    RELEASE(want, w);
    skip();
  }
  assert_int_equal(folder_count(cache, ".form"), 1);
  expect_kept(run_once(file, want), true);
  // Damaged, cut off, or of others: it is made anew.
  size_t bytes = 0;
  char *sound = file_read(only_form(cache), &bytes);
  assert_int_equal(bytes, 4096 + W_BYTES);
  const size_t places[] = {0, 30, 60, 4000, 4096, bytes - 1};
  for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
    change_byte(only_form(cache), places[k]);
    expect_kept(run_once(file, want), true);
    char *again = file_read(only_form(cache), &bytes);
    assert_memory_equal(again, sound, bytes);
    free(again);
  }
  file_write(only_form(cache), sound, bytes / 2);
  expect_kept(run_once(file, want), true);
  assert_int_equal(chmod(only_form(cache), 0666), 0);
  expect_kept(run_once(file, want), true);
  free(sound);
  // Another file of that name is another weight.
  change_byte(file, W_AT + 1);
  (void)nanosleep(&settled, NULL);
  expect_kept(run_once(file, NULL), true);
  assert_int_equal(folder_count(cache, ".form"), 2);
  variable_set("DUCTILE_CACHE_DIR", "");
  RELEASE(want, w);
}

static int begin(void **state) {
  (void)state;
  rng_t rng = {5};
  folder_make(folder);
  f = fixture_on(DT_CPU, 1);
  weights = malloc(W_BYTES);
  for (size_t k = 0; weights && k < (size_t)DEPTH * WIDTH; k++)
    weights[k] = (float)rng_below(&rng, 1000) / 256 - 2;
  narrow = tensor_f32(&rng, 2, SIZES(WIDTH, NARROW));
  return weights == NULL;
}

static int end(void **state) {
  (void)state;
  fixture_end(&f);
  free(weights);
  RELEASE(narrow);
  return folder_drop(folder);
}

RUN_TESTS_WITH(begin, end, TEST(test_forms_are_used_from_the_file),
               TEST(test_each_level_has_its_forms), TEST(test_any_machine_writes_the_same),
               TEST(test_a_damaged_weight_is_told_before_it_is_read),
               TEST(test_weights_stay_in_their_file), TEST(test_another_file_is_refused),
               TEST(test_what_files_cannot_be), TEST(test_forms_of_files_are_kept))
