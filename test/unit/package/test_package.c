// SPDX-License-Identifier: Apache-2.0
// Packages: what is opened answers with the bits that its level gives in a process that compiles,
// compiles nothing, and says what it cannot do.
#include "test/unit/package/lives.h"

#include "runtime/base/log.h"
#include "runtime/base/system.h"
#include "runtime/compile/level.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/function.h"
#include "test/support/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char folder[FOLDER_BYTES];

static const char *path_of(const char *name) {
  static char path[FOLDER_BYTES + 64];
  (void)snprintf(path, sizeof(path), "%s/%s.dtp", folder, name);
  return path;
}

// ---- Answers --------------------------------------------------------------------------------------
// At each level that runs here: compiled in a runtime for it, and opened in one.
static void test_bits_are_those_of_the_level(void **state) {
  (void)state;
  assert_true(dt__level_runs(0));
  lives_write(path_of("all"), lives, N_LIVES, 2, "v2,v3,v4,v3+vnni,v4+vnni");
  for (uint32_t level = 0; level < DT_LEVELS; level++) {
    if (!dt__level_runs(level))
      continue;
    variable_set("DUCTILE_CPU", dt__levels[level].cpu);
    fixture_t f = fixture_on(DT_CPU, 2);
    dt_package_t *package = opened(f.runtime, path_of("all"));
    assert_int_equal(dt_package_n_functions(package), N_LIVES);
    for (uint32_t k = 0; k < N_LIVES; k++) {
      dt_function_t *own = life_function(f.runtime, &lives[k]);
      dt_function_t *taken = function_in(package, lives[k].subject->name);
      if (life_hash(f.session, own, &lives[k]) != life_hash(f.session, taken, &lives[k]))
        fail_msg("%s at %s: other bits", lives[k].subject->name, dt__levels[level].name);
      dt_function_counters_t stats = stats_of(taken);
      assert_int_equal(stats.compiles, 0);
      assert_int_equal(stats.misses, 0);
      assert_int_equal(stats.evaluator_calls, 0);
      assert_int_equal(stats.variants, variants_of(own));
      dt_function_release(own);
      dt_function_release(taken);
    }
    dt_package_release(package);
    fixture_end(&f);
  }
  variable_set("DUCTILE_CPU", NULL);
}

// What is told of results before a call is what the function that was packed tells.
static void test_outputs_are_told(void **state) {
  (void)state;
  lives_write(path_of("told"), lives, N_LIVES, 2, "v2");
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_package_t *package = opened(f.runtime, path_of("told"));
  for (uint32_t k = 0; k < N_LIVES; k++) {
    dt_function_t *own = life_function(f.runtime, &lives[k]);
    dt_function_t *taken = function_in(package, lives[k].subject->name);
    dt_specs_t *a = NULL, *b = NULL;
    expect_ok(dt_function_outputs(own, &a));
    expect_ok(dt_function_freeze(taken, true));
    expect_ok(dt_function_outputs(taken, &b));
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
      const dt_spec_t *x = a->items[i], *y = b->items[i];
      assert_string_equal(x->name, y->name);
      assert_int_equal(x->dtype, y->dtype);
      assert_int_equal(x->rank, y->rank);
      for (uint32_t d = 0; d < x->rank; d++) {
        assert_int_equal(x->sizes[d], y->sizes[d]);
        assert_string_equal(x->dims[d], y->dims[d]);
      }
    }
    assert_int_equal(stats_of(taken).compiles, 0);
    dt_specs_free(a);
    dt_specs_free(b);
    dt_function_release(own);
    dt_function_release(taken);
  }
  dt_package_release(package);
  fixture_end(&f);
}

// A function keeps what it needs of a package that was released, however it was opened.
static void test_ways_to_open(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  lives_write(path_of("mlp"), &lives[1], 1, 1, "v2");
  size_t bytes = 0;
  char *read = file_read(path_of("mlp"), &bytes), *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  assert_non_null(data);
  memcpy(data, read, bytes);
  uint64_t hash = 0;
  for (int way = 0; way < 6; way++) {
    const dt_package_options_t options = {.struct_size = sizeof(options), .copy = way % 2 == 1};
    dt_package_t *package = NULL;
    int fd = open(path_of("mlp"), O_RDONLY | O_CLOEXEC);
    if (way < 2)
      expect_ok(dt_package_open(f.runtime, path_of("mlp"), &options, &package));
    else if (way < 4)
      expect_ok(dt_package_open_descriptor(f.runtime, fd, &options, &package));
    else
      expect_ok(dt_package_open_memory(f.runtime, data, bytes, &options, &package));
    (void)close(fd);
    dt_function_t *function = function_in(package, NULL);
    dt_package_release(package);
    uint64_t own = life_hash(f.session, function, &lives[1]);
    hash = way ? hash : own;
    assert_true(hash == own);
    dt_function_release(function);
  }
  // A copy may lie anywhere, borrowed bytes may not.
  char *odd = malloc(bytes + 64);
  assert_non_null(odd);
  char *at = (uintptr_t)odd % 64 ? odd : odd + 1;
  memcpy(at, data, bytes);
  dt_package_t *package = NULL;
  expect_told(dt_package_open_memory(f.runtime, at, bytes, NULL, &package), DT_E_ARGUMENT,
              "expected an address that 64 divides");
  const dt_package_options_t copied = {.struct_size = sizeof(copied), .copy = true};
  expect_ok(dt_package_open_memory(f.runtime, at, bytes, &copied, &package));
  dt_package_release(package);
  free(odd);
  free(data);
  free(read);
  fixture_end(&f);
}

// Code is mapped from the file, unless it is asked for in memory, or comes from there; where the
// system does not let code run from a file it is copied.
static bool is_mapped(dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load(&function->list);
  return dt__native_is_mapped(list->items[0]->compiled->units[0]);
}

static void test_code_is_mapped(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  lives_write(path_of("code"), &lives[1], 1, 1, "v2"); // large enough
  uint64_t hash = 0;
  for (int way = 0; way < 5; way++) {
    const dt_package_options_t options = {.struct_size = sizeof(options), .copy = way == 1};
    dt_package_t *package = NULL;
    int fd = open(path_of("code"), O_RDONLY | O_CLOEXEC);
    if (way == 2)
      expect_ok(dt_package_open_descriptor(f.runtime, fd, &options, &package));
    else
      expect_ok(dt_package_open(f.runtime, path_of("code"), &options, &package));
    (void)close(fd);
    if (way >= 3) // of its code, and of copies of it
      (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 1, way == 3 ? EPERM : ENOMEM, false);
    dt_function_t *function = NULL;
    dt_status_t status = dt_package_function(package, NULL, NULL, &function);
    (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 0, 0, false);
    if (way == 4) {
      expect_told(status, DT_E_NO_MEMORY, "mmap of a file with PROT_EXEC");
    } else {
      expect_ok(status);
      assert_int_equal(is_mapped(function), way == 0 || way == 2);
      uint64_t own = life_hash(f.session, function, &lives[1]);
      hash = way ? hash : own;
      assert_true(hash == own);
    }
    dt_package_release(package);
    dt_function_release(function);
  }
  fixture_end(&f);
}

// ---- Writing --------------------------------------------------------------------------------------
static void test_equal_input_gives_equal_bytes(void **state) {
  (void)state;
  size_t bytes[3];
  char *data[3];
  for (uint32_t k = 0; k < 3; k++) {
    lives_write(path_of("same"), &lives[1], 2, k + 1, "v3,v2");
    data[k] = file_read(path_of("same"), &bytes[k]);
  }
  for (uint32_t k = 1; k < 3; k++) {
    assert_int_equal(bytes[k], bytes[0]);
    assert_memory_equal(data[k], data[0], bytes[0]);
  }
  for (uint32_t k = 0; k < 3; k++)
    free(data[k]);
}

// Weights that functions share are there once.
static void test_weights_are_there_once(void **state) {
  (void)state;
  static const dt_input_decl_t cube[] = {{.name = "x", .dtype = DT_F32, .rank = 3}};
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_function_t *functions[2];
  size_t bytes[2];
  mlp_t mlp;
  rng_t rng = {3};
  mlp_init(&mlp, &rng);
  for (uint32_t k = 0; k < 2; k++) {
    dt_function_options_t options = options_of(1, cube);
    options.name = k ? "second" : "first";
    functions[k] = function_of(&f, mlp_subject.program, &mlp, &options);
  }
  for (uint32_t k = 0; k < 2; k++) {
    const dt_package_write_options_t options = {.struct_size = sizeof(options), .levels = "v2"};
    expect_ok(dt_package_write(path_of("shared"), functions, k + 1, &options));
    free(file_read(path_of("shared"), &bytes[k]));
  }
  size_t weights = dt_tensor_bytes(mlp.w1) + dt_tensor_bytes(mlp.w2);
  dt_package_t *package = opened(f.runtime, path_of("shared"));
  char *text = NULL;
  expect_ok(dt_package_report_json(package, &text));
  char expected[128];
  (void)snprintf(expected, sizeof(expected), "{\"event\":\"constants\",\"n\":4,\"bytes\":%zu}",
                 weights + dt_tensor_bytes(mlp.b1) + dt_tensor_bytes(mlp.b2));
  assert_non_null(strstr(text, expected));
  dt_text_free(text);
  dt_package_release(package);
  for (uint32_t k = 0; k < 2; k++)
    dt_function_release(functions[k]);
  mlp_fini(&mlp);
  fixture_end(&f);
}

// What was updated is what is written, and what is opened can be updated.
static void test_constants_are_as_updated(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  const life_t *life = &lives[7]; // scale
  uint64_t hashes[2];
  dt_function_t *function = life_function(f.runtime, life);
  hashes[0] = life_hash(f.session, function, life);
  dt_tensor_t *ones = tensor_full(1, 1, SIZES(4)), *first = life->closure;
  expect_ok(dt_constant_update(function, "w", ones));
  hashes[1] = life_hash(f.session, function, life);
  assert_true(hashes[0] != hashes[1]);
  const dt_package_write_options_t options = {.struct_size = sizeof(options), .levels = "v2"};
  expect_ok(dt_package_write(path_of("updated"), &function, 1, &options));
  dt_function_release(function);
  dt_package_t *package = opened(f.runtime, path_of("updated"));
  dt_function_t *a = function_in(package, NULL), *b = function_in(package, life->subject->name);
  assert_true(life_hash(f.session, a, life) == hashes[1]);
  expect_ok(dt_constant_update(a, "w", first));
  assert_true(life_hash(f.session, a, life) == hashes[0]);
  assert_true(life_hash(f.session, b, life) == hashes[1]);
  RELEASE(ones);
  dt_function_release(a);
  dt_function_release(b);
  dt_package_release(package);
  fixture_end(&f);
}

// ---- Misses ---------------------------------------------------------------------------------------
static dt_status_t call_vector(const fixture_t *f, dt_function_t *function, int64_t n, float *out) {
  dt_tensor_t *x = tensor_full(3, 1, &n), *y = NULL;
  dt_status_t status = dt_call(f->session, function, &x, 1, &y, 1, NULL);
  *out = status || !n ? 0 : ((const float *)dt_tensor_data(y))[n - 1];
  RELEASE(x, y);
  return status;
}

// A program that branches on a size has a variant a branch; a package has those that were called.
static void test_a_miss_compiles_or_is_refused(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, branch_program, NULL, &options);
  float y = 0;
  expect_ok(call_vector(&f, function, 5, &y));
  expect_ok(dt_package_write(path_of("branch"), &function, 1, NULL));
  dt_function_release(function);
  dt_package_t *package = opened(f.runtime, path_of("branch"));
  function = function_in(package, NULL);
  dt_package_release(package);
  expect_ok(call_vector(&f, function, 7, &y));
  assert_true(y == -3);
  expect_ok(dt_function_freeze(function, true));
  expect_told(call_vector(&f, function, 9, &y), DT_E_STATE, "s0 <= 7");
  expect_ok(dt_function_freeze(function, false));
  // The graph has the branch that was taken, and is no program for what would take the other.
  expect_told(call_vector(&f, function, 9, &y), DT_E_SHAPE, "what the first trace was made for");
  assert_int_equal(variants_of(function), 1);
  // Where its conditions hold it is: for another layout, here.
  float data[14];
  for (uint32_t k = 0; k < 14; k++)
    data[k] = (float)k;
  dt_tensor_t *x = tensor_over(DT_F32, 1, SIZES(7), (const int64_t[]){2}, data), *out = NULL;
  expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[6] == -12);
  RELEASE(x, out);
  assert_int_equal(variants_of(function), 2);
  x = tensor_over(DT_F32, 1, SIZES(14), NULL, data);
  expect_told(dt_call(f.session, function, &x, 1, &out, 1, NULL), DT_E_SHAPE, "first trace");
  RELEASE(x);
  dt_function_release(function);
  fixture_end(&f);
}

// x[n] padded by the two numbers of an argument, joined with a constant without elements and one
// whose elements share bytes.
static dt_status_t odd_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_tensor_t *const *constants = closure;
  uint32_t n = 0;
  const dt_sym_t *ends = dt_int_elements(t, in[1], &n);
  if (n != 2)
    return NULL;
  dt_value_t nibbles = dt_cast(t, dt_constant(t, "nibbles", constants[1]), DT_F32);
  dt_value_t parts[] = {dt_pad(t, in[0], &ends[0], &ends[1], 0),
                        dt_constant(t, "none", constants[0]), nibbles};
  out[0] = dt_concat(t, 3, parts, 0);
  return NULL;
}

static void test_odd_constants_and_integers(void **state) {
  (void)state;
  static const dt_dim_decl_t two = {.is_static = true, .value = 2};
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "ends", .dtype = DT_I64, .rank = 1, .dims = &two, .kind = DT_INPUT_INTEGERS}};
  static const uint8_t packed[] = {0x21, 0x07};
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_tensor_t *constants[] = {tensor_empty(DT_F32, 1, SIZES(0)), NULL};
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_U4,
                                 .rank = 1,
                                 .sizes = SIZES(3),
                                 .data = (void *)(uintptr_t)packed};
  expect_ok(dt_tensor_create(&desc, &constants[1]));
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(&f, odd_program, constants, &options);
  expect_ok(dt_package_write(path_of("odd"), &function, 1, NULL));
  dt_function_release(function);
  dt_package_t *package = opened(f.runtime, path_of("odd"));
  function = function_in(package, NULL);
  dt_package_release(package);
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t stride = 1; stride < 3; stride++) { // the second one is compiled
    dt_tensor_t *in[] = {tensor_over(DT_F32, 1, SIZES(3), &stride, data),
                         tensor_i64(1, SIZES(2), VALUES(1, 2))};
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(f.session, function, in, 2, &out, 1, NULL));
    const float want[] = {0, 1, (float)(1 + stride), (float)(1 + 2 * stride), 0, 0, 1, 2, 7};
    expect_sizes(out, 1, SIZES(9));
    assert_memory_equal(dt_tensor_data(out), want, sizeof(want));
    RELEASE(in[0], in[1], out);
    assert_int_equal(variants_of(function), stride);
  }
  RELEASE(constants[0], constants[1]);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- Deciders -------------------------------------------------------------------------------------
static const dt_decider_t *decider_of(dt_function_t *function) {
  const struct timespec pause = {.tv_nsec = 1000000};
  const dt_decider_t *decider = NULL;
  for (int k = 0; !decider && k < 5000; k++) {
    const dt_variant_list_t *list = atomic_load(&function->list);
    decider = list->decider;
    (void)nanosleep(&pause, NULL);
  }
  return decider;
}

// The decision over a package's variants is the package's, and a variant that comes later is found.
static void test_deciders_are_brought_along(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, branch_program, NULL, &options);
  float y = 0;
  expect_ok(call_vector(&f, function, 5, &y));
  expect_ok(call_vector(&f, function, 9, &y));
  expect_ok(dt_package_write(path_of("decided"), &function, 1, NULL));
  dt_function_release(function);
  dt_package_t *package = opened(f.runtime, path_of("decided"));
  function = function_in(package, NULL);
  dt_package_release(package);
  const dt_decider_t *decider = decider_of(function);
  assert_non_null(decider);
  assert_int_equal(decider->n, 2);
  assert_true(decider->kept);
  expect_ok(call_vector(&f, function, 7, &y));
  assert_true(y == -3);
  expect_ok(call_vector(&f, function, 12, &y));
  assert_true(y == 6);
  float data[14] = {1, 0, 2, 0, 3};
  dt_tensor_t *x = tensor_over(DT_F32, 1, SIZES(7), (const int64_t[]){2}, data), *out = NULL;
  expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[2] == -3);
  RELEASE(x, out);
  assert_int_equal(variants_of(function), 3);
  assert_int_equal(stats_of(function).misses, 1);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- What cannot be written -------------------------------------------------------------------------
static dt_status_t capture_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  out[0] = dt_pad(t, in[0], (dt_sym_t[]){dt_capture(t, "steps", closure)},
                  (dt_sym_t[]){dt_sym_const(t, 0)}, 0);
  return NULL;
}

static void test_what_cannot_be_written(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  fixture_t f = fixture_on(DT_CPU, 1);
  int64_t steps = 3;
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *captures = function_of(&f, capture_program, &steps, &options);
  expect_told(dt_package_write(path_of("none"), &captures, 1, NULL), DT_E_UNSUPPORTED,
              "the captured integer 'steps'");
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *slow = function_of(&f, negate_program, NULL, &options);
  expect_told(dt_package_write(path_of("none"), &slow, 1, NULL), DT_E_UNSUPPORTED,
              "the reference evaluator");
  options.answer = DT_ANSWER_COMPILED;
  dt_function_t *good[] = {function_of(&f, negate_program, NULL, &options),
                           function_of(&f, double_program, NULL, &options)};
  expect_told(dt_package_write(path_of("none"), good, 2, NULL), DT_E_ARGUMENT,
              "functions[0] and functions[1] are both named 'f'");
  expect_told(dt_package_write("/nowhere/at/all.dtp", good, 1, NULL), DT_E_IO, "/nowhere/at/all");
  static const char *const levels[] = {"v1", "", "v3,", "v3;v4", "x86-64-v5"};
  for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++) {
    const dt_package_write_options_t with = {.struct_size = sizeof(with), .levels = levels[k]};
    expect_told(dt_package_write(path_of("none"), good, 1, &with), DT_E_ARGUMENT,
                "expected some of v2, v3, v3+vnni, v4, v4+vnni");
  }
  expect_told(dt_package_write(NULL, good, 1, NULL), DT_E_ARGUMENT, "path: NULL");
  expect_told(dt_package_write(path_of("none"), good, 0, NULL), DT_E_ARGUMENT, "n: 0");
  assert_int_not_equal(access(path_of("none"), F_OK), 0);
  dt_function_release(captures);
  dt_function_release(slow);
  dt_function_release(good[0]);
  dt_function_release(good[1]);
  fixture_end(&f);
}

// ---- What cannot be opened --------------------------------------------------------------------------
static void test_levels_that_do_not_run_are_refused(void **state) {
  (void)state;
  lives_write(path_of("high"), &lives[0], 1, 1, "v3,v4");
  variable_set("DUCTILE_CPU", "x86-64-v2");
  fixture_t f = fixture_on(DT_CPU, 1);
  dt_package_t *package = opened(f.runtime, path_of("high"));
  dt_function_t *function = NULL;
  expect_told(dt_package_function(package, NULL, NULL, &function), DT_E_UNSUPPORTED,
              "code for v3, v4, and this machine runs v2");
  assert_null(function);
  dt_package_release(package);
  fixture_end(&f);
  variable_set("DUCTILE_CPU", NULL);
}

static void test_names_and_options(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  lives_write(path_of("two"), lives, 2, 1, "v2");
  dt_package_t *package = opened(f.runtime, path_of("two"));
  dt_function_t *function = NULL;
  assert_string_equal(dt_package_function_name(package, 0), lives[0].subject->name);
  assert_null(dt_package_function_name(package, 2));
  expect_told(dt_package_function(package, NULL, NULL, &function), DT_E_ARGUMENT, "name: NULL");
  expect_told(dt_package_function(package, "other", NULL, &function), DT_E_ARGUMENT,
              "name: 'other'; the package has '");
  dt_function_options_t options = {.struct_size = sizeof(options), .n_outputs = 1};
  expect_told(dt_package_function(package, lives[0].subject->name, &options, &function),
              DT_E_ARGUMENT, "leave them 0");
  options = (dt_function_options_t){.struct_size = sizeof(options), .name = "renamed"};
  expect_ok(dt_package_function(package, lives[0].subject->name, &options, &function));
  expect_told(dt_call(f.session, function, NULL, 1, NULL, 1, NULL), DT_E_ARGUMENT, "renamed");
  dt_function_release(function);
  dt_package_release(package);
  fixture_end(&f);
}

static dt_status_t refuse(void *user, const void *data, size_t bytes) {
  size_t *seen = user;
  *seen = data ? bytes : 0;
  return dt_status_make(DT_E_STATE, "the signature is another");
}

static void test_verify_sees_all_bytes_first(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  static const char rubbish[] = "this is no package, and nobody looks at it";
  size_t seen = 0;
  const dt_package_options_t options = {
      .struct_size = sizeof(options), .copy = true, .verify = refuse, .user = &seen};
  dt_package_t *package = NULL;
  expect_told(dt_package_open_memory(f.runtime, rubbish, sizeof(rubbish), &options, &package),
              DT_E_STATE, "the signature is another");
  assert_int_equal(seen, sizeof(rubbish));
  fixture_end(&f);
}

// Levels are sets: what a runtime may use decides, and of that the best.
static char line_told[512];
static void keep_line(void *user, const char *line, size_t len) {
  (void)user;
  (void)snprintf(line_told, sizeof(line_told), "%.*s", (int)len, line);
}

static void expect_level(const char *cpu, const char *levels, const char *taken) {
  char want[64];
  lives_write(path_of("best"), &lives[0], 1, 1, levels);
  variable_set("DUCTILE_CPU", cpu);
  fixture_t f = fixture_on(DT_CPU, 1);
  (void)snprintf(want, sizeof(want), "of a package, for %s\n", taken);
  expect_ok(dt_log_configure("cache"));
  dt_log_sink_set(keep_line, NULL);
  dt_package_t *package = opened(f.runtime, path_of("best"));
  dt_function_t *function = function_in(package, NULL);
  dt_log_sink_set(NULL, NULL);
  expect_ok(dt_log_configure(""));
  if (!strstr(line_told, want))
    fail_msg("%s of %s: %s; expected %s", cpu, levels, line_told, taken);
  dt_function_release(function);
  dt_package_release(package);
  fixture_end(&f);
  variable_set("DUCTILE_CPU", NULL);
}

static void test_the_best_level_within_the_runtimes_own(void **state) {
  (void)state;
  static const char *const rows[][3] = {{"x86-64-v3", "v2,v3,v4+vnni", "x86-64-v3"},
                                        {"x86-64-v4", "v2,v3+vnni,v4+vnni", "x86-64-v2"},
                                        {"x86-64-v4", "v4,v4+vnni", "x86-64-v4"},
                                        {"x86-64-v4+vnni", "v4,v4+vnni", "x86-64-v4+vnni"},
                                        {"x86-64-v4+vnni", "v3,v3+vnni", "x86-64-v3"}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
    if (dt__level_runs(dt__level_find(rows[k][0], strlen(rows[k][0]))))
      expect_level(rows[k][0], rows[k][1], rows[k][2]);
}

// ---- Reports ----------------------------------------------------------------------------------------
static void test_reports(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  lives_write(path_of("told"), &lives[2], 1, 1, "v2,v4"); // layer_norm
  dt_package_t *package = opened(f.runtime, path_of("told"));
  char *text = NULL, *json = NULL;
  expect_ok(dt_package_report_text(package, &text));
  expect_ok(dt_package_report_json(package, &json));
  const char *const told[] = {"levels v2, v4", "3 inputs, 1 outputs, 1 variants", "rows, width",
                              "code v2 "};
  for (size_t k = 0; k < sizeof(told) / sizeof(told[0]); k++)
    if (!strstr(text, told[k]))
      fail_msg("\"%s\" is not in:\n%s", told[k], text);
  assert_non_null(strstr(json, "\"levels\":[\"v2\",\"v4\"]"));
  assert_non_null(strstr(json, "{\"event\":\"variant\",\"function\":"));
  dt_text_free(text);
  dt_text_free(json);
  dt_package_release(package);
  fixture_end(&f);
}

static int begin(void **state) {
  (void)state;
  folder_make(folder);
  lives_begin();
  return 0;
}

static int end(void **state) {
  (void)state;
  lives_end();
  return folder_drop(folder);
}

RUN_TESTS_WITH(begin, end, TEST(test_bits_are_those_of_the_level), TEST(test_outputs_are_told),
               TEST(test_ways_to_open), TEST(test_code_is_mapped),
               TEST(test_equal_input_gives_equal_bytes), TEST(test_weights_are_there_once),
               TEST(test_constants_are_as_updated), TEST(test_a_miss_compiles_or_is_refused),
               TEST(test_odd_constants_and_integers), TEST(test_deciders_are_brought_along),
               TEST(test_what_cannot_be_written), TEST(test_levels_that_do_not_run_are_refused),
               TEST(test_the_best_level_within_the_runtimes_own), TEST(test_names_and_options),
               TEST(test_verify_sees_all_bytes_first), TEST(test_reports))
