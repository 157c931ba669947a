// SPDX-License-Identifier: Apache-2.0
// Where calls take memory when the host brings its own: each allocation and mapping of the library
// comes by here (the linker's --wrap), and none of 4 KiB or more may be made by a thread that is in
// a call or runs a part of a kernel, but by the host's allocator. Programs of every kind, with the
// host's threads and memory together, and the bits that a runtime without either gives.
#include "test/unit/exec/host_kit.h"
#include "test/unit/exec/host_programs.h"

#include "ductile/chain.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LEAST = 4096 }; // bytes of a block that counts

// ---- The watch ------------------------------------------------------------------------------------

static _Thread_local bool in_call; // of this thread
static _Thread_local bool inside;  // of a wrapped function: what it is made of is its own matter
static _Atomic size_t outside;     // blocks that were not the host's
static _Atomic size_t largest;     // of them
static const char *_Atomic taker;  // of the last of them
static _Atomic size_t parts;       // that others than the caller ran

// Whether the caller is the outermost of wrapped functions; it then calls leave().
static bool enter(const char *name, size_t bytes) {
  if (!in_call || inside || host_is_asked)
    return false;
  inside = true;
  if (bytes >= LEAST) {
    atomic_fetch_add(&outside, 1);
    atomic_store(&taker, name);
    for (size_t most = atomic_load(&largest); bytes > most;)
      if (atomic_compare_exchange_weak(&largest, &most, bytes))
        break;
  }
  return true;
}

static void leave(bool entered) {
  if (entered)
    inside = false;
}

#define WRAP(result, name, bytes, parameters, arguments)                                           \
  result __real_##name parameters;                                                                 \
  result __wrap_##name parameters;                                                                 \
  result __wrap_##name parameters {                                                                \
    bool entered = enter(#name, bytes);                                                            \
    result made = __real_##name arguments;                                                         \
    leave(entered);                                                                                \
    return made;                                                                                   \
  }
WRAP(void *, dt__alloc, bytes, (size_t bytes), (bytes))
WRAP(void *, dt__calloc, count *bytes, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, dt__alloc_aligned, bytes, (size_t bytes, size_t alignment), (bytes, alignment))
WRAP(void *, dt__realloc, bytes, (void *old, size_t bytes), (old, bytes))
WRAP(void *, dt__sys_map, bytes, (size_t bytes, int protection, int flags, int fd, off_t offset),
     (bytes, protection, flags, fd, offset))
WRAP(void *, malloc, bytes, (size_t bytes), (bytes))
WRAP(void *, calloc, count *bytes, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, bytes, (void *old, size_t bytes), (old, bytes))
WRAP(void *, aligned_alloc, bytes, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(int, posix_memalign, bytes, (void **out, size_t alignment, size_t bytes),
     (out, alignment, bytes))
WRAP(void *, mmap, bytes, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at, bytes, protection, flags, fd, offset))

static void expect_none(const char *what) {
  if (compiled_answer() == DT_ANSWER_COMPILED && atomic_load(&outside) > 0)
    fail_msg("%s: %zu blocks that are not the host's, the largest of %zu bytes, the last by %s",
             what, atomic_load(&outside), atomic_load(&largest), atomic_load(&taker));
}

static void forget(void) {
  atomic_store(&outside, 0);
  atomic_store(&largest, 0);
}

// ---- Runtimes -------------------------------------------------------------------------------------

static host_heap_t heap = {.mutex = PTHREAD_MUTEX_INITIALIZER};

typedef struct watched_part_t {
  dt_part_fn_t fn;
  void *arg;
} watched_part_t;

static void run_watched(void *opaque, uint32_t part) {
  const watched_part_t *own = opaque;
  bool before = in_call;
  in_call = true;
  atomic_fetch_add(&parts, part > 0);
  own->fn(own->arg, part);
  in_call = before;
}

// Parts are watched wherever they run; how the host starts its threads is not.
static void run_parts(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  watched_part_t part = {fn, arg};
  bool before = in_call;
  in_call = false;
  host_apart(user, n, run_watched, &part);
  in_call = before;
}

static dt_runtime_t *make_runtime(bool hosted) {
  const dt_executor_t executor = {sizeof(executor), run_parts, NULL};
  const dt_allocator_t allocator = {sizeof(allocator), host_take, host_give, &heap};
  const dt_runtime_options_t options = {.struct_size = sizeof(options),
                                        .threads = HOST_WIDTH,
                                        .compile_threads = 2,
                                        .allocator = hosted ? &allocator : NULL,
                                        .executor = hosted ? &executor : NULL};
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(&options, &runtime));
  host_ops_register(runtime);
  return runtime;
}

// ---- Calls ----------------------------------------------------------------------------------------

// Arguments of all programs: few rows and many, also with gaps and turned; two numbers.
enum { SHAPES = 5, NUMBERS = 2, CASES = SHAPES * NUMBERS };
static const struct {
  int64_t rows, strides[2]; // of x
} shapes[SHAPES] = {{1, {HOST_COLUMNS, 1}},
                    {37, {HOST_COLUMNS, 1}},
                    {500, {HOST_COLUMNS, 1}},
                    {300, {HOST_COLUMNS + 16, 1}},
                    {300, {1, 300}}};
static const int64_t numbers[NUMBERS] = {2, 5};

enum { MOST_FLOATS = 500 * HOST_COLUMNS };
static float elements[MOST_FLOATS];

typedef struct answer_t {
  dt_tensor_t *in[2], *out[HOST_RESULTS];
  float *memory; // of in[0]
} answer_t;

static answer_t make_arguments(int which) {
  const int64_t *strides = shapes[which / NUMBERS].strides;
  int64_t rows = shapes[which / NUMBERS].rows;
  answer_t own = {.memory = malloc(sizeof(elements))};
  assert_non_null(own.memory);
  memcpy(own.memory, elements, sizeof(elements));
  own.in[0] = tensor_over(DT_F32, 2, SIZES(rows, HOST_COLUMNS), strides, own.memory);
  own.in[1] = tensor_i64(0, NULL, &numbers[which % NUMBERS]);
  return own;
}

static void drop_answer(answer_t *answer) {
  release_tensors(answer->in, 2);
  release_tensors(answer->out, HOST_RESULTS);
  free(answer->memory);
}

// The watched part of the test. Every other call has a deadline, and pieces of kernels with it.
static bool call(dt_session_t *session, dt_function_t *function, uint32_t n_results, bool late,
                 answer_t *answer) {
  const dt_call_options_t options = {.struct_size = sizeof(options),
                                     .deadline_ns = late ? dt__now_ns() + (int64_t)500e9 : 0};
  in_call = true;
  dt_status_t status = dt_call(session, function, answer->in, 2, answer->out, n_results, &options);
  in_call = false;
  bool good = !status;
  if (!good)
    (void)fprintf(stderr, "%s\n", dt_status_message(status));
  dt_status_free(status);
  return good;
}

static bool is_same(const answer_t *got, const answer_t *want, uint32_t n_results) {
  bool same = memcmp(got->memory, want->memory, sizeof(elements)) == 0;
  for (uint32_t k = 0; same && k < n_results; k++)
    same = dt_tensor_bytes(got->out[k]) == dt_tensor_bytes(want->out[k]) &&
           memcmp(dt_tensor_data(got->out[k]), dt_tensor_data(want->out[k]),
                  dt_tensor_bytes(want->out[k])) == 0;
  return same;
}

static bool is_hosts(const answer_t *answer, uint32_t n_results) {
  bool has = true;
  for (uint32_t k = 0; has && k < n_results; k++)
    has = host_has(&heap, dt_tensor_data(answer->out[k]));
  return has;
}

// ---- Functions ------------------------------------------------------------------------------------

typedef struct side_t {
  dt_runtime_t *runtime;
  dt_function_t *functions[HOST_PROGRAMS];
} side_t;

static side_t side_of(bool hosted, host_weights_t *weights) {
  side_t side = {make_runtime(hosted), {NULL}};
  for (int k = 0; k < HOST_PROGRAMS; k++)
    side.functions[k] =
        subject_function(side.runtime, &host_programs[k], weights, compiled_answer());
  return side;
}

static void end_side(const side_t *side) {
  for (int k = 0; k < HOST_PROGRAMS; k++)
    dt_function_release(side->functions[k]);
  dt_runtime_release(side->runtime);
}

typedef struct fixed_t {
  host_weights_t weights;
  side_t own, hosted;  // a runtime as it is; one with the host's threads and memory
  dt_session_t *first; // of `hosted`: what it has no other session is given
  answer_t want[HOST_PROGRAMS][CASES];
} fixed_t;

// One call of each kind on both sides: all that is made once is there then.
static int open_all(void **state) {
  static fixed_t fixed;
  rng_t rng = {20261129};
  for (int k = 0; k < MOST_FLOATS; k++)
    elements[k] = rng_float(&rng);
  host_weights_init(&fixed.weights, &rng);
  fixed.own = side_of(false, &fixed.weights);
  fixed.hosted = side_of(true, &fixed.weights);
  dt_session_t *own = session_of(fixed.own.runtime), *hosted = session_of(fixed.hosted.runtime);
  for (int k = 0; k < HOST_PROGRAMS; k++)
    for (int which = 0; which < CASES; which++) {
      uint32_t n = host_programs[k].n_outputs;
      answer_t *want = &fixed.want[k][which], got = make_arguments(which);
      *want = make_arguments(which);
      if (!call(own, fixed.own.functions[k], n, false, want) ||
          !call(hosted, fixed.hosted.functions[k], n, false, &got))
        fail_msg("%s, case %d: failed", host_programs[k].name, which);
      if (!is_same(&got, want, n))
        fail_msg("%s, case %d: other bits", host_programs[k].name, which);
      drop_answer(&got);
    }
  dt_session_destroy(own);
  fixed.first = hosted;
  *state = &fixed;
  return 0;
}

static int close_all(void **state) {
  fixed_t *fixed = *state;
  dt_session_destroy(fixed->first);
  end_side(&fixed->own);
  end_side(&fixed->hosted);
  assert_int_equal(heap.n, 0);
  for (int k = 0; k < HOST_PROGRAMS; k++)
    for (int which = 0; which < CASES; which++)
      drop_answer(&fixed->want[k][which]);
  host_weights_fini(&fixed->weights);
  return 0;
}

// ---- Tests ----------------------------------------------------------------------------------------

// A runtime without hooks takes blocks, and each of them is seen.
static void test_the_watch_sees(void **state) {
  fixed_t *fixed = *state;
  for (int k = 0; k < HOST_PROGRAMS; k++) {
    dt_session_t *session = session_of(fixed->own.runtime);
    answer_t got = make_arguments(CASES - 1);
    forget();
    assert_true(call(session, fixed->own.functions[k], host_programs[k].n_outputs, false, &got));
    if (atomic_load(&outside) == 0)
      fail_msg("%s: no block was seen", host_programs[k].name);
    assert_true(atomic_load(&largest) >= LEAST);
    drop_answer(&got);
    dt_session_destroy(session);
  }
}

// The first call of a session takes its block and its scratch, later ones grow them.
static void test_blocks(void **state) {
  fixed_t *fixed = *state;
  for (int k = 0; k < HOST_PROGRAMS; k++) {
    uint32_t n = host_programs[k].n_outputs;
    dt_session_t *session = session_of(fixed->hosted.runtime);
    for (int which = 0; which < 2 * CASES; which++) {
      answer_t got = make_arguments(which % CASES);
      forget();
      assert_true(call(session, fixed->hosted.functions[k], n, which >= CASES, &got));
      expect_none(host_programs[k].name);
      if (!is_same(&got, &fixed->want[k][which % CASES], n) || !is_hosts(&got, n))
        fail_msg("%s, case %d: other bits, or a result elsewhere", host_programs[k].name, which);
      drop_answer(&got);
    }
    dt_session_destroy(session);
  }
  assert_true(atomic_load(&parts) > 0 || compiled_answer() != DT_ANSWER_COMPILED);
}

enum { CALLERS = 32, ROUNDS = 8 };

typedef struct caller_t {
  pthread_t thread;
  fixed_t *fixed;
  int first;
  int wrong; // read when the thread has ended
} caller_t;

// A status counts as wrong, since cmocka's checks belong to the main thread.
static void *call_some(void *opaque) {
  caller_t *own = opaque;
  dt_session_t *session = NULL;
  dt_status_free(dt_session_create(own->fixed->hosted.runtime, NULL, &session));
  own->wrong += session == NULL;
  for (int i = 0; session && i < ROUNDS; i++) {
    int k = (own->first + i) % HOST_PROGRAMS, which = (own->first + 3 * i) % CASES;
    uint32_t n = host_programs[k].n_outputs;
    answer_t got = make_arguments(which);
    own->wrong += !call(session, own->fixed->hosted.functions[k], n, i % 2, &got) ||
                  !is_same(&got, &own->fixed->want[k][which], n) || !is_hosts(&got, n);
    drop_answer(&got);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_callers(void **state) {
  static caller_t callers[CALLERS];
  int wrong = 0;
  forget();
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller_t){.fixed = *state, .first = i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_some, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    (void)pthread_join(callers[i].thread, NULL);
    wrong += callers[i].wrong;
  }
  assert_int_equal(wrong, 0);
  expect_none("32 callers");
}

// What links of a chain hand to each other are results.
static void test_chain(void **state) {
  fixed_t *fixed = *state;
  enum { PRODUCT = 2 };
  assert_string_equal(host_programs[PRODUCT].name, "subgraph");
  static const dt_chain_source_t first[] = {{0, 0}, {0, 1}}, second[] = {{1, 0}, {0, 1}},
                                 last = {2, 0};
  dt_function_t *function = fixed->hosted.functions[PRODUCT];
  const dt_chain_link_t links[] = {{.function = function, .inputs = first, .n_inputs = 2},
                                   {.function = function, .inputs = second, .n_inputs = 2}};
  const dt_chain_options_t options = {.struct_size = sizeof(options),
                                      .n_inputs = 2,
                                      .n_links = 2,
                                      .n_results = 1,
                                      .link_size = sizeof(links[0]),
                                      .links = links,
                                      .results = &last};
  dt_chain_t *chain = NULL;
  expect_ok(dt_chain_create(fixed->hosted.runtime, &options, &chain));
  dt_session_t *session = session_of(fixed->hosted.runtime);
  for (int which = 0; which < CASES; which++) {
    answer_t got = make_arguments(which);
    forget();
    in_call = true;
    dt_status_t status = dt_chain_call(session, chain, got.in, 2, got.out, 1, NULL);
    in_call = false;
    expect_ok(status);
    expect_none("a chain");
    assert_true(is_hosts(&got, 1));
    drop_answer(&got);
  }
  dt_session_destroy(session);
  dt_chain_release(chain);
}

RUN_TESTS_WITH(open_all, close_all, TEST(test_the_watch_sees), TEST(test_blocks),
               TEST(test_callers), TEST(test_chain))
