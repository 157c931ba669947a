// SPDX-License-Identifier: Apache-2.0
// Launches that come early: the checker of the fake driver proves what is ordered, and finds each
// way in which order can be lost.
#include "test/unit/cuda/ptx/ptx_fixture.h"

#define WAIT "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"
// p1[i] = p0[i] + p3, for 32 threads.
#define STEP                                                                                       \
  "mul.wide.u32 %d5, %r1, 4;\nadd.u64 %d3, %d0, %d5;\nadd.u64 %d4, %d1, %d5;\n"                    \
  "ld.global.u32 %r2, [%d3];\nadd.u32 %r2, %r2, %r0;\nst.global.u32 [%d4], %r2;\n"

enum { BYTES = 128 };
static const launch_t plain = {0}, early = {.programmatic = true};

static uint32_t read_first(dt_cu_ptr_t from) {
  uint32_t value = 0;
  OK(cuda->copy_to_host(&value, from, sizeof(value), NULL));
  finish();
  return value;
}

static void a_chain_is_proved(void **state) {
  (void)state;
  dt_cu_function_t k = load_body("", WAIT STEP);
  dt_cu_ptr_t a = allocate(BYTES), b = allocate(BYTES), c = allocate(BYTES);
  dt_cu_ptr_t d = allocate(BYTES);
  OK(cuda->fill_bytes(a, 0, BYTES, NULL));
  launch(k, plain, a, b, 0, 1); // what is before it has ended
  launch(k, early, b, c, 0, 2); // reads what the first wrote
  launch(k, early, c, a, 0, 4); // and writes what the first read
  launch(k, early, a, b, 0, 8); // writes what the first wrote and the second read
  assert_int_equal(read_first(b), 15);
  expect_none();
  assert_int_equal(fake_cuda_early(), 3);
  assert_int_equal(fake_cuda_ordered(), 6);
  // All of it has ended when something begins that is not early.
  launch(k, plain, b, c, 0, 1);
  launch(k, early, a, d, 0, 1);
  OK(cuda->mem_free_async(a, NULL));
  expect_none();
  assert_int_equal(fake_cuda_ordered(), 6);
  OK(cuda->mem_free(b));
  OK(cuda->mem_free(c));
  OK(cuda->mem_free(d));
}

// A kernel whose wait was taken out of its text.
static void a_lost_wait_is_found(void **state) {
  static const struct {
    const char *body, *violation;
  } cases[] = {
      {STEP, "of global memory before griddepcontrol.wait"},
      {STEP WAIT, "of global memory before griddepcontrol.wait"},
      {"", "ends without griddepcontrol.wait"},
      {"setp.ge.u32 %p1, %r1, 16;\n@%p1 bra L;\n" WAIT STEP "L:", "thread (16, 0, 0)"},
      {"mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra L;\n" WAIT "L:",
       "block (0, 0, 0), thread (0, 0, 0): the thread of a launch that came early ends without"},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_function_t good = load_body("", WAIT STEP), bad = load_body("", cases[k].body);
    dt_cu_ptr_t a = allocate(BYTES), b = allocate(BYTES), c = allocate(BYTES);
    OK(cuda->fill_bytes(a, 0, BYTES, NULL));
    launch(good, plain, a, b, 0, 1);
    launch(bad, plain, a, c, 0, 1); // where nothing comes early it does no harm
    finish();
    expect_none();
    launch(good, plain, a, b, 0, 1);
    launch(bad, early, a, c, 0, 1);
    finish();
    expect_violation(cases[k].violation);
  }
}

// What is read before the wait must have been written by what had ended when the launch began.
static void early_reads_are_proved(void **state) {
#define READ "ld.global.u32 %r3, [%d2];\n"
  static const struct {
    uint32_t writes, more; // at launch 0: a; so many launches later: READ of it
    bool found;
  } cases[] = {{1, 0, true}, {1, 1, true}, {1, 3, true}, {0, 0, false}, {0, 2, false}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_function_t step = load_body("", WAIT STEP), soon = load_body("", READ WAIT STEP);
    dt_cu_ptr_t a = allocate(BYTES), b = allocate(BYTES), c = allocate(BYTES);
    OK(cuda->fill_bytes(a, 0, BYTES, NULL));
    OK(cuda->fill_bytes(c, 0, BYTES, NULL));
    launch(step, plain, b, cases[k].writes ? a : b, 0, 1);
    for (uint32_t i = 0; i < cases[k].more; i++)
      launch(step, early, b, b, 0, 1);
    launch(soon, early, b, c, a, 1);
    finish();
    if (cases[k].found)
      expect_violation("before griddepcontrol.wait, which is written by");
    else
      expect_none();
    // What follows may write what was read early, once it has waited.
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    step = load_body("", WAIT STEP), soon = load_body("", READ WAIT STEP);
    a = allocate(BYTES), b = allocate(BYTES), c = allocate(BYTES);
    OK(cuda->fill_bytes(a, 0, BYTES, NULL));
    launch(step, plain, a, a, 0, 1);
    launch(soon, plain, a, c, a, 1);     // nothing comes early
    launch(soon, early, a, b, c + 4, 1); // of what the one before it is writing
    finish();
    expect_violation("before griddepcontrol.wait");
  }
#undef READ
}

// What must not stand right before a launch that comes early.
typedef enum before_t {
  COPY_IN,
  COPY_OUT,
  COPY_ACROSS,
  FILL,
  RECORD,
  WAIT_EVENT,
  FOREIGN, // a kernel that does not wait
  NOTHING,
} before_t;

static void queue(before_t what, dt_cu_stream_t stream, dt_cu_ptr_t at, dt_cu_event_t event) {
  static uint32_t host[BYTES / 4];
  if (what == COPY_IN)
    OK(cuda->copy_to_device(at, host, BYTES, stream));
  else if (what == COPY_OUT)
    OK(cuda->copy_to_host(host, at, BYTES, stream));
  else if (what == COPY_ACROSS)
    OK(cuda->copy_on_device(at, at + BYTES, BYTES, stream));
  else if (what == FILL)
    OK(cuda->fill_bytes(at, 0, BYTES, stream));
  else if (what == RECORD)
    OK(cuda->event_record(event, stream));
  else if (what == WAIT_EVENT)
    OK(cuda->stream_wait(stream, event, 0));
  else if (what == FOREIGN)
    launch(load_body("", "mov.u32 %r2, 1;"), (launch_t){.stream = stream}, at, at, 0, 1);
}

static void only_kernels_may_stand_before(void **state) {
  static const char *const told[] = {
      "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync",         "cuMemsetD8Async",
      "cuEventRecord",     "cuStreamWaitEvent", "k: launched early after k", "after nothing"};
  for (int what = COPY_IN; what <= NOTHING; what++) {
    (void)leave(state);
    assert_int_equal(enter(state), 0);
    dt_cu_function_t k = load_body("", WAIT STEP);
    dt_cu_ptr_t a = allocate(4 * BYTES);
    dt_cu_stream_t stream = NULL;
    dt_cu_event_t event = NULL;
    OK(cuda->stream_create(&stream, 0));
    OK(cuda->event_create(&event, 0));
    OK(cuda->event_record(event, NULL));
    OK(cuda->fill_bytes(a, 0, 4 * BYTES, NULL));
    finish();
    if (what != NOTHING)
      launch(k, (launch_t){.stream = stream}, a, a + 2 * BYTES, 0, 1);
    queue((before_t)what, stream, a, event);
    expect_none();
    launch(k, (launch_t){.stream = stream, .programmatic = true}, a, a + 3 * BYTES, 0, 1);
    expect_violation(told[what]);
  }
}

// ---- Pairs --------------------------------------------------------------------------------------
// Kernels of host functions, whose text alone says whether they wait: nothing stops them where they
// do not, so that the pairs must tell.
static uint32_t touch(const fake_launch_t *l, fake_access_t *out, uint32_t cap, void *user) {
  uint64_t p[2];
  (void)cap, (void)user;
  memcpy(p, l->param, sizeof(p));
  out[0] = (fake_access_t){.begin = p[0], .bytes = BYTES};
  out[1] = (fake_access_t){.begin = p[1], .bytes = BYTES, .write = true};
  return 2;
}

typedef struct step_t {
  bool early, waits;
  uint32_t from, to; // places of BYTES
} step_t;

static void try_steps(const step_t *steps, uint32_t n, uint64_t unordered, uint64_t ordered) {
  (void)leave(NULL);
  assert_int_equal(enter(NULL), 0);
  fake_kernel_t kernel = {.accesses = touch};
  fake_cuda_kernel("k", &kernel);
  dt_cu_function_t texts[2] = {load_body("", ""), load_body("", WAIT)};
  dt_cu_ptr_t a = allocate(16 * BYTES);
  for (uint32_t k = 0; k < n; k++)
    launch(texts[steps[k].waits], steps[k].early ? early : plain, a + steps[k].from * BYTES,
           a + steps[k].to * BYTES, 0, 0);
  finish();
  uint32_t hasty = 0; // those that come early after one that does not wait
  for (uint32_t k = 1; k < n; k++)
    hasty += steps[k].early && !steps[k - 1].waits;
  assert_int_equal(fake_cuda_unordered(), unordered);
  assert_int_equal(fake_cuda_violations(NULL), unordered + hasty);
  if (unordered && !hasty)
    expect_violation("which may not have ended");
  assert_int_equal(fake_cuda_ordered(), ordered);
}
#define TRY(unordered, ordered, ...)                                                               \
  try_steps((const step_t[]){__VA_ARGS__}, sizeof((const step_t[]){__VA_ARGS__}) / sizeof(step_t), \
            unordered, ordered)

static void pairs_tell_what_is_lost(void **state) {
  (void)state;
  // All wait: one after the other, reuse of place 0 included.
  TRY(0, 3, {false, true, 0, 1}, {true, true, 1, 2}, {true, true, 2, 0});
  // Data that is read, written twice, or written while it may still be read.
  TRY(1, 0, {false, true, 0, 1}, {true, false, 1, 2});
  TRY(1, 0, {false, true, 0, 1}, {true, false, 2, 1});
  TRY(1, 0, {false, true, 0, 1}, {true, false, 2, 0});
  // Reads alone are no conflict.
  TRY(0, 0, {false, true, 0, 1}, {true, false, 0, 2});
  // One in the middle that does not wait ends too soon: what follows knows nothing of the first.
  TRY(1, 0, {false, true, 0, 1}, {true, false, 4, 5}, {true, true, 1, 2});
  TRY(1, 1, {false, true, 0, 1}, {true, false, 4, 5}, {true, true, 5, 0});
  // What begins when all has ended finds the first ended, and so does whatever comes then.
  TRY(0, 1, {false, true, 0, 1}, {true, true, 4, 5}, {false, true, 1, 2}, {true, true, 2, 6});
  // A launch that is not early waits for the one before it, which knows of no other.
  TRY(1, 0, {false, true, 0, 1}, {true, false, 4, 5}, {false, true, 1, 2});
}

static void long_chains_are_proved(void **state) {
  (void)state;
  enum { LONG = 200 };
  step_t steps[LONG];
  uint64_t pairs = 0;
  for (uint32_t k = 0; k < LONG; k++)
    steps[k] = (step_t){.early = k > 0, .waits = true, .from = k % 5, .to = (k + 1) % 5};
  for (uint32_t j = 0; j < LONG; j++)
    for (uint32_t i = 0; i < j; i++)
      pairs += steps[i].to == steps[j].to || steps[i].to == steps[j].from ||
               steps[i].from == steps[j].to;
  try_steps(steps, LONG, 0, pairs);
}

RUN_WITH_LIBRARY(ON_DEVICE(a_chain_is_proved), ON_DEVICE(a_lost_wait_is_found),
                 ON_DEVICE(early_reads_are_proved), ON_DEVICE(only_kernels_may_stand_before),
                 ON_DEVICE(pairs_tell_what_is_lost), ON_DEVICE(long_chains_are_proved))
