// SPDX-License-Identifier: Apache-2.0
// Packages with code for CUDA devices, written where there is none: on the fake driver they answer
// with the bits, and by the launches, that a compile for the device gives, and compile nothing.
#include "test/unit/package/lives.h"

#include "ductile/experimental.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/function.h"
#include "runtime/exec/session.h"
#include "runtime/package/package.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/support/folder.h"
#include "test/unit/cuda/exec/twice_op.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char folder[FOLDER_BYTES];

static const char *path_of(const char *name) {
  static char path[FOLDER_BYTES + 64];
  (void)snprintf(path, sizeof(path), "%s/%s.dtp", folder, name);
  return path;
}

static dt_function_t *function_at(dt_runtime_t *runtime, const char *path) {
  dt_package_t *package = opened(runtime, path);
  dt_function_t *function = function_in(package, NULL);
  dt_package_release(package);
  return function;
}

// Devices are those of an architecture, with as many processors as its common card has.
static void be(const char *arch, int processors) {
  variable_set("FAKE_CUDA_ARCH", arch);
  fake_cuda_reset(3);
  fake_cuda_processors(processors);
}

static void end_of(const fixture_t *f) {
  const char *first = "";
  fixture_end(f);
  if (fake_cuda_violations(&first))
    fail_msg("violation: %s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

// What the log said last of a package's level.
static char said[256];
static void listen(void *user, const char *line, size_t len) {
  static const char mark[] = "of a package, for ";
  const char *at = memmem(line, len, mark, sizeof(mark) - 1);
  (void)user;
  if (at)
    (void)snprintf(said, sizeof(said), "%.*s", (int)strcspn(at + sizeof(mark) - 1, "\n"),
                   at + sizeof(mark) - 1);
}

static void expect_level(const char *level) {
  if (strcmp(said, level) != 0)
    fail_msg("the level was '%s'; expected '%s'", said, level);
}

// ---- Answers --------------------------------------------------------------------------------------
static const struct {
  const char *arch;
  int processors;
  const char *level;
} cards[] = {{"80", 108, "sm_80"}, {"89", 58, "sm_89"}, {"90", 132, "sm_90a"}};
#define N_CARDS (sizeof(cards) / sizeof(cards[0]))

static void compare(const fixture_t *f, dt_package_t *package, const life_t *life,
                    const char *what) {
  dt_function_t *own = life_function(f->runtime, life);
  dt_function_t *taken = function_in(package, life->subject->name);
  uint64_t before = fake_cuda_calls(DT_CUDA_SYM_launch);
  uint64_t hash = life_hash(f->session, own, life);
  uint64_t launches = fake_cuda_calls(DT_CUDA_SYM_launch) - before;
  before += launches;
  if (life_hash(f->session, taken, life) != hash)
    fail_msg("%s, %s: other bits", life->subject->name, what);
  if (fake_cuda_calls(DT_CUDA_SYM_launch) - before != launches)
    fail_msg("%s, %s: other launches", life->subject->name, what);
  dt_function_counters_t stats = stats_of(taken);
  assert_int_equal(stats.compiles, 0);
  assert_int_equal(stats.misses, 0);
  assert_int_equal(stats.variants, variants_of(own));
  dt_function_release(own);
  dt_function_release(taken);
}

static void compare_all(const char *what) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_package_t *package = opened(f.runtime, path_of("all"));
  for (uint32_t k = 0; k < N_LIVES; k++)
    compare(&f, package, &lives[k], what);
  dt_package_release(package);
  end_of(&f);
}

// Each way calls are launched, on each device.
static void test_bits_and_launches_are_those_of_the_device(void **state) {
  (void)state;
  lives_write(path_of("all"), lives, N_LIVES, 2, "v2,sm_80,sm_89,sm_90a");
  for (uint32_t k = 0; k < N_CARDS; k++) {
    be(cards[k].arch, cards[k].processors);
    compare_all(cards[k].level);
    expect_level(cards[k].level);
  }
  variable_set("DUCTILE_REDUCE_OVERHEAD", "1");
  compare_all("as graphs");
  variable_set("DUCTILE_REDUCE_OVERHEAD", NULL);
}

// Code without instructions of one architecture alone runs on newer devices.
static void test_the_best_level_of_a_device(void **state) {
  (void)state;
  static const struct {
    const char *levels, *arch, *expected;
  } rows[] = {{"sm_80,sm_90,sm_90a", "90", "sm_90a"}, {"sm_80,sm_90,sm_100a", "90", "sm_90"},
              {"sm_80,sm_86,sm_90a", "89", "sm_86"},  {"sm_80,sm_86", "90", "sm_86"},
              {"sm_80,sm_86,sm_89", "80", "sm_80"},   {"v2,sm_80", "80", "sm_80"}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    be(rows[k].arch, 0);
    lives_write(path_of("best"), &lives[1], 1, 1, rows[k].levels); // mlp
    fixture_t f = fixture_on(DT_CUDA, 1);
    dt_function_t *own = life_function(f.runtime, &lives[1]);
    dt_function_t *taken = function_at(f.runtime, path_of("best"));
    said[0] = 0;
    expect_ok(dt_function_prepare(
        taken,
        &(dt_prepare_options_t){.struct_size = sizeof(dt_prepare_options_t), .device = DT_CUDA}));
    expect_level(rows[k].expected);
    (void)life_hash(f.session, taken, &lives[1]);
    assert_int_equal(stats_of(taken).compiles, 0);
    dt_function_release(own);
    dt_function_release(taken);
    end_of(&f);
  }
}

static void test_older_devices_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *levels, *arch, *told[2];
  } rows[] = {{"v2,sm_90", "89", {"code for v2, sm_90, and the device is Fake GPU 0 sm_89"}},
              {"sm_86", "80", {"code for sm_86, and the device is Fake GPU 0 sm_80"}},
              {"sm_100a,sm_80,sm_90a", "89", {NULL}},
              {"sm_100a,sm_90a", "80", {"sm_90a, sm_100a, and the device is Fake GPU 0 sm_80"}}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    be(rows[k].arch, 0);
    lives_write(path_of("old"), &lives[3], 1, 1, rows[k].levels);
    fixture_t f = fixture_on(DT_CUDA, 1);
    dt_function_t *function = function_at(f.runtime, path_of("old"));
    dt_tensor_t *x = tensor_full(1, 2, SIZES(3, 7)), *y = NULL;
    dt_status_t status = dt_call(f.session, function, &x, 1, &y, 1, NULL);
    if (rows[k].told[0])
      expect_told(status, DT_E_UNSUPPORTED, rows[k].told[0]);
    else
      expect_ok(status);
    RELEASE(x, y);
    dt_function_release(function);
    end_of(&f);
  }
}

// ---- Both kinds in one package --------------------------------------------------------------------
// Neither is loaded before a call needs it; either may be the first.
static void test_sessions_take_their_own(void **state) {
  (void)state;
  const life_t *life = &lives[7]; // scale
  be("90", 0);
  lives_write(path_of("both"), life, 1, 1, "v2,sm_90a");
  for (int first = 0; first < 2; first++) {
    fixture_t f = fixture_on(DT_CUDA, 1);
    dt_session_t *host = session_of(f.runtime);
    dt_function_t *function = function_at(f.runtime, path_of("both"));
    assert_int_equal(variants_of(function), 0);
    uint64_t a = life_hash(first ? host : f.session, function, life);
    assert_int_equal(variants_of(function), 1);
    uint64_t b = life_hash(first ? f.session : host, function, life);
    assert_int_equal(variants_of(function), 2);
    assert_true(a == b); // sums of four squares, in one order
    assert_true(life_hash(f.session, function, life) == a);
    dt_function_counters_t stats = stats_of(function);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.misses, 0);
    // Updated, for both.
    dt_tensor_t *ones = tensor_full(1, 1, SIZES(4));
    expect_ok(dt_constant_update(function, "w", ones));
    uint64_t c = life_hash(f.session, function, life);
    assert_true(c != a && c == life_hash(host, function, life));
    RELEASE(ones);
    dt_function_release(function);
    dt_session_destroy(host);
    end_of(&f);
  }
}

// A kind that the package has nothing for is compiled.
static void test_other_kinds_are_compiled(void **state) {
  (void)state;
  be("90", 0);
  for (int cpu = 0; cpu < 2; cpu++) {
    lives_write(path_of("one"), &lives[3], 1, 1, cpu ? "v2" : "sm_80");
    fixture_t f = fixture_on(DT_CUDA, 1);
    dt_session_t *host = session_of(f.runtime);
    dt_function_t *function = function_at(f.runtime, path_of("one"));
    (void)life_hash(cpu ? host : f.session, function, &lives[3]);
    assert_int_equal(stats_of(function).compiles, 0);
    (void)life_hash(cpu ? f.session : host, function, &lives[3]);
    assert_int_equal(stats_of(function).compiles, 1);
    dt_function_release(function);
    dt_session_destroy(host);
    end_of(&f);
  }
}

// ---- Deciders and misses --------------------------------------------------------------------------
static void call_vector(dt_session_t *session, dt_function_t *function, int64_t n, float want) {
  dt_tensor_t *x = tensor_full(3, 1, &n), *y = NULL;
  expect_ok(dt_call(session, function, &x, 1, &y, 1, NULL));
  dt_tensor_t *host = tensor_download(session, y);
  expect_ok(dt_session_wait(session));
  assert_true(((const float *)dt_tensor_data(host))[n - 1] == want);
  RELEASE(x, y, host);
}

static const dt_decider_t *decider_of(dt_function_t *function) {
  const struct timespec pause = {.tv_nsec = 1000000};
  const dt_decider_t *decider = NULL;
  for (int k = 0; !decider && k < 5000; k++) {
    decider = atomic_load(&function->list)->decider;
    (void)nanosleep(&pause, NULL);
  }
  return decider;
}

// A decision is brought along for each kind; it is over the variants of the kind that came first.
static void test_deciders_are_brought_along(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  be("90", 0);
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_session_t *host = session_of(f.runtime);
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, branch_program, NULL, &options);
  call_vector(host, function, 5, -3);
  call_vector(host, function, 9, 6);
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = "v2,sm_90a"};
  expect_ok(dt_package_write(path_of("branch"), &function, 1, &how));
  dt_function_release(function);
  for (int first = 0; first < 2; first++) {
    function = function_at(f.runtime, path_of("branch"));
    call_vector(first ? host : f.session, function, 7, -3);
    const dt_decider_t *decider = decider_of(function);
    assert_non_null(decider);
    assert_int_equal(decider->n, 2);
    assert_true(decider->kept);
    call_vector(first ? host : f.session, function, 12, 6);
    call_vector(first ? f.session : host, function, 12, 6);
    call_vector(first ? f.session : host, function, 7, -3);
    assert_int_equal(variants_of(function), 4);
    assert_int_equal(stats_of(function).misses, 0);
    dt_function_release(function);
  }
  dt_session_destroy(host);
  end_of(&f);
}

// A call that no variant of the package covers is a miss, also where it is the first: it compiles
// if the first trace stands for it.
static void test_a_miss_on_a_device(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  be("90", 0);
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, branch_program, NULL, &options);
  call_vector(f.session, function, 5, -3); // its only variant is a device's
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = "v2,sm_90a"};
  expect_ok(dt_package_write(path_of("few"), &function, 1, &how));
  dt_function_release(function);
  function = function_at(f.runtime, path_of("few"));
  dt_tensor_t *x = tensor_full(3, 1, SIZES(9)), *y = NULL;
  expect_told(dt_call(f.session, function, &x, 1, &y, 1, NULL), DT_E_SHAPE, "first trace");
  RELEASE(x);
  assert_int_equal(stats_of(function).misses, 1);
  assert_int_equal(variants_of(function), 1);
  float data[14] = {1, 0, 2, 0, 3};
  x = tensor_over(DT_F32, 1, SIZES(7), (const int64_t[]){2}, data);
  expect_ok(dt_call(f.session, function, &x, 1, &y, 1, NULL));
  RELEASE(x, y);
  assert_int_equal(stats_of(function).misses, 2);
  assert_int_equal(stats_of(function).compiles, 1);
  call_vector(f.session, function, 6, -3);
  assert_int_equal(stats_of(function).misses, 2);
  dt_function_release(function);
  function = function_at(f.runtime, path_of("few"));
  expect_ok(dt_function_freeze(function, true));
  x = tensor_full(3, 1, SIZES(9));
  y = NULL;
  expect_told(dt_call(f.session, function, &x, 1, &y, 1, NULL), DT_E_STATE, "s0 <= 7");
  RELEASE(x);
  call_vector(f.session, function, 6, -3);
  dt_function_release(function);
  end_of(&f);
}

// On another device of the kind the same code is loaded there, too.
static void test_each_device_has_its_own(void **state) {
  (void)state;
  be("90", 0);
  lives_write(path_of("devices"), &lives[3], 1, 1, "sm_90a");
  fixture_t f = fixture_on(DT_CUDA, 1);
  const dt_session_options_t second = {
      .struct_size = sizeof(second), .device = DT_CUDA, .ordinal = 1};
  dt_session_t *other = NULL;
  expect_ok(dt_session_create(f.runtime, &second, &other));
  dt_function_t *function = function_at(f.runtime, path_of("devices"));
  uint64_t a = life_hash(other, function, &lives[3]);
  assert_int_equal(variants_of(function), 1);
  assert_true(life_hash(f.session, function, &lives[3]) == a);
  assert_int_equal(variants_of(function), 2);
  assert_int_equal(stats_of(function).compiles, 0);
  dt_function_release(function);
  dt_session_destroy(other);
  end_of(&f);
}

// First calls of many sessions at a time: each place's variant is loaded once.
enum { CALLERS = 6 };
typedef struct caller_t {
  pthread_t thread;
  dt_session_t *session;
  dt_function_t *function;
  uint64_t hash;
} caller_t;

static void *run_caller(void *opaque) {
  caller_t *caller = opaque;
  caller->hash = life_hash(caller->session, caller->function, &lives[7]);
  return NULL;
}

static void test_many_first_calls(void **state) {
  (void)state;
  be("90", 0);
  lives_write(path_of("many"), &lives[7], 1, 1, "v2,sm_90a");
  for (int round = 0; round < 8; round++) {
    fixture_t f = fixture_on(DT_CUDA, 1);
    const dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
    dt_function_t *function = function_at(f.runtime, path_of("many"));
    caller_t callers[CALLERS] = {0};
    for (int k = 0; k < CALLERS; k++) {
      callers[k].function = function;
      expect_ok(dt_session_create(f.runtime, k % 2 ? &on : NULL, &callers[k].session));
    }
    for (int k = 0; k < CALLERS; k++)
      assert_int_equal(pthread_create(&callers[k].thread, NULL, run_caller, &callers[k]), 0);
    for (int k = 0; k < CALLERS; k++) {
      assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
      dt_session_destroy(callers[k].session);
      assert_true(callers[k].hash == callers[0].hash);
    }
    assert_int_equal(variants_of(function), 2);
    assert_int_equal(stats_of(function).compiles, 0);
    dt_function_release(function);
    end_of(&f);
  }
}

// ---- Writing --------------------------------------------------------------------------------------
// Whatever device is there, none included, and however many threads.
static void test_equal_input_gives_equal_bytes(void **state) {
  (void)state;
  static const char *const archs[] = {"80", "90", "90"};
  size_t bytes[3];
  char *data[3];
  for (uint32_t k = 0; k < 3; k++) {
    be(archs[k], k == 2 ? 7 : 0);
    lives_write(path_of("same"), &lives[1], 2, k + 1, k ? "sm_90a,sm_80,v2" : "v2,sm_80,sm_90a");
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_device_get), 0); // no device was opened
    data[k] = file_read(path_of("same"), &bytes[k]);
  }
  for (uint32_t k = 1; k < 3; k++) {
    assert_int_equal(bytes[k], bytes[0]);
    assert_memory_equal(data[k], data[0], bytes[0]);
  }
  for (uint32_t k = 0; k < 3; k++)
    free(data[k]);
}

// All architectures that are known.
static void test_each_level_is_written(void **state) {
  (void)state;
  static const char all[] = "sm_80,sm_86,sm_87,sm_89,sm_90,sm_90a,sm_100,sm_100a,sm_103,sm_103a,"
                            "sm_110,sm_110a,sm_120,sm_120a,sm_121,sm_121a";
  be("90", 0);
  lives_write(path_of("each"), &lives[1], 1, 2, all);
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_package_t *package = opened(f.runtime, path_of("each"));
  char *text = NULL, *json = NULL;
  expect_ok(dt_package_report_text(package, &text));
  expect_ok(dt_package_report_json(package, &json));
  assert_non_null(strstr(text, "levels sm_80, sm_86, "));
  assert_non_null(strstr(text, ", sm_121, sm_121a\n"));
  assert_non_null(strstr(json, "\"levels\":[\"sm_80\",\"sm_86\","));
  assert_non_null(strstr(json, "\"sm_121a\":"));
  expect_ok(dt__package_load_all(package, NULL));
  dt_text_free(text);
  dt_text_free(json);
  dt_package_release(package);
  dt_function_t *function = NULL;
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = "sm_90,sm_70"};
  function = life_function(f.runtime, &lives[3]);
  expect_told(dt_package_write(path_of("none"), &function, 1, &how), DT_E_ARGUMENT,
              "'sm_70' in \"sm_90,sm_70\" is none; expected some of v2, v3, v3+vnni, v4, v4+vnni, "
              "sm_80, ");
  dt_function_release(function);
  end_of(&f);
}

// ---- Ops of users ---------------------------------------------------------------------------------
static dt_status_t write_twice(const dt_op_options_t *op) {
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  fixture_t f = fixture_on(DT_CPU, 1);
  expect_ok(dt_op_register(f.runtime, op));
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, twice_program, NULL, &options);
  const dt_package_write_options_t how = {.struct_size = sizeof(how), .levels = "v2,sm_90a"};
  dt_status_t status = dt_package_write(path_of("twice"), &function, 1, &how);
  dt_function_release(function);
  fixture_end(&f);
  return status;
}

static void test_ops_of_users(void **state) {
  (void)state;
  be("90", 0);
  dt_op_options_t op = twice_op();
  expect_ok(write_twice(&op));
  fixture_t f = fixture_on(DT_CUDA, 1);
  expect_ok(dt_op_register(f.runtime, &op));
  dt_function_t *function = function_at(f.runtime, path_of("twice"));
  call_vector(f.session, function, 70, 0); // relu(-(2 * 4 + 3))
  assert_int_equal(stats_of(function).compiles, 0);
  dt_function_release(function);
  end_of(&f);
  f = fixture_on(DT_CUDA, 1);
  function = function_at(f.runtime, path_of("twice"));
  dt_tensor_t *x = tensor_full(3, 1, SIZES(5)), *y = NULL;
  expect_told(dt_call(f.session, function, &x, 1, &y, 1, NULL), DT_E_STATE,
              "'test.twice' is not registered");
  RELEASE(x);
  dt_function_release(function);
  end_of(&f);
  op.device_kernel = NULL;
  expect_told(write_twice(&op), DT_E_UNSUPPORTED, "the op test.twice has no kernel for the device");
}

// ---- Damage ---------------------------------------------------------------------------------------
static dt_status_t answer(const fixture_t *f, const char *data, size_t bytes, uint64_t want) {
  dt_package_t *package = NULL;
  dt_function_t *function = NULL;
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  dt_status_t status = dt_package_open_memory(f->runtime, data, bytes, &options, &package);
  if (!status)
    status = dt_package_function(package, NULL, NULL, &function);
  dt_package_release(package);
  const dt_prepare_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  if (!status)
    status = dt_function_prepare(function, &on);
  if (!status && life_hash(f->session, function, &lives[7]) != want)
    fail_msg("a damaged package gives another answer");
  dt_function_release(function);
  return status;
}

// With sums that are right it is loaded, and not run: what the text says then is anybody's, and the
// driver may refuse it.
static void load_forged(const fixture_t *f, const char *data, size_t bytes) {
  char *copy = malloc(bytes);
  dt_package_t *package = NULL;
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  assert_non_null(copy);
  memcpy(copy, data, bytes);
  assert_true(dt__pack_forge(copy, bytes));
  dt_status_t status = dt_package_open_memory(f->runtime, copy, bytes, &options, &package);
  if (!status)
    status = dt__package_load_all(package, f->session->home);
  if (dt_status_code(status) == DT_E_INTERNAL)
    fail_msg("%s", dt_status_message(status));
  dt_status_free(status);
  dt_package_release(package);
  free(copy);
}

// Each bit of a part is in some sum.
static void test_damage(void **state) {
  (void)state;
  be("90", 0);
  rng_t rng = {31};
  size_t bytes = 0;
  lives_write(path_of("sound"), &lives[7], 1, 1, "sm_90a");
  char *data = file_read(path_of("sound"), &bytes);
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_function_t *function = function_at(f.runtime, path_of("sound"));
  uint64_t want = life_hash(f.session, function, &lives[7]);
  dt_function_release(function);
  expect_ok(answer(&f, data, bytes, want));
  dt_pack_part_t *parts = NULL;
  uint32_t n_parts = 0;
  expect_ok(dt__pack_open(data, bytes, &parts, &n_parts));
  for (uint32_t k = 0; k < 600; k++) {
    const dt_pack_part_t *part = &parts[rng_below(&rng, n_parts)];
    char *at = data + part->offset + rng_next(&rng) % part->bytes, old = *at;
    *at ^= (char)(1 << rng_below(&rng, 8));
    expect_code(answer(&f, data, bytes, want), DT_E_FORMAT);
    load_forged(&f, data, bytes);
    *at = old;
  }
  dt__free(parts);
  free(data);
  end_of(&f);
}

// Each call of the driver fails in turn: the status says so, nothing stays, and the next try works.
static void test_failures_while_loading(void **state) {
  (void)state;
  static const dt_cuda_sym_t syms[] = {DT_CUDA_SYM_link_create,     DT_CUDA_SYM_link_add,
                                       DT_CUDA_SYM_link_complete,   DT_CUDA_SYM_module_load,
                                       DT_CUDA_SYM_module_function, DT_CUDA_SYM_mem_alloc_async};
  be("90", 0);
  lives_write(path_of("failing"), &lives[7], 1, 1, "v2,sm_90a");
  for (size_t k = 0; k < sizeof(syms) / sizeof(syms[0]); k++) {
    fixture_t f = fixture_on(DT_CUDA, 1);
    const dt_prepare_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
    dt_function_t *function = function_at(f.runtime, path_of("failing"));
    fake_cuda_fail(syms[k], 0, DT_CU_OUT_OF_MEMORY, false);
    expect_code(dt_function_prepare(function, &on), DT_E_NO_MEMORY);
    assert_int_equal(variants_of(function), 0);
    expect_ok(dt_function_prepare(function, &on));
    assert_int_equal(variants_of(function), 1);
    (void)life_hash(f.session, function, &lives[7]);
    assert_int_equal(stats_of(function).compiles, 0);
    dt_function_release(function);
    end_of(&f);
  }
}

static int begin(void **state) {
  (void)state;
  folder_make(folder);
  variable_set("DUCTILE_LOG", "cache");
  dt_log_sink_set(listen, NULL);
  lives_begin();
  return 0;
}

static int end(void **state) {
  (void)state;
  lives_end();
  dt_log_sink_set(NULL, NULL);
  return folder_drop(folder);
}

RUN_TESTS_WITH(begin, end, TEST(test_bits_and_launches_are_those_of_the_device),
               TEST(test_the_best_level_of_a_device), TEST(test_older_devices_are_refused),
               TEST(test_sessions_take_their_own), TEST(test_other_kinds_are_compiled),
               TEST(test_deciders_are_brought_along), TEST(test_a_miss_on_a_device),
               TEST(test_each_device_has_its_own), TEST(test_many_first_calls),
               TEST(test_equal_input_gives_equal_bytes), TEST(test_each_level_is_written),
               TEST(test_ops_of_users), TEST(test_damage), TEST(test_failures_while_loading))
