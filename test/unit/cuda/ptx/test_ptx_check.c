// SPDX-License-Identifier: Apache-2.0
// What the PTX simulator must catch: each wrong kernel beside the right one that differs in the
// one thing that is wrong.
#include "test/unit/cuda/ptx/ptx_fixture.h"

#define SHARED ".shared .align 16 .b8 sm[1024];"
#define AT "mul.wide.u32 %d3, %r1, 4;\nadd.s64 %d4, %d0, %d3;\n"
#define SM "mov.u32 %r2, sm;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r2, %r2, %r3;\n"

typedef struct case_t {
  const char *declarations, *body;
  launch_t how;
  const char *violation; // NULL: none
} case_t;

static void try_case(const case_t *c) {
  (void)leave(NULL);
  assert_int_equal(enter(NULL), 0);
  dt_cu_function_t k =
      load_entry(c->declarations, c->how.directives ? c->how.directives : "", c->body);
  dt_cu_ptr_t a = allocate(4096), b = allocate(4096);
  OK(cuda->fill_bytes(a, 1, 4096, NULL));
  OK(cuda->fill_bytes(b, 2, 4096, NULL));
  if (c->how.programmatic)
    launch(load_body("", "griddepcontrol.wait;"), (launch_t){0}, a, b, a, 7);
  launch(k, c->how, a, b, a, 7);
  finish();
  const char *first = "";
  uint32_t n = fake_cuda_violations(&first);
  if (c->violation && (n == 0 || !strstr(first, c->violation)))
    fail_msg("violation \"%s\"; expected one with \"%s\" of\n%s", first, c->violation, c->body);
  if (!c->violation && n)
    fail_msg("violation \"%s\" of\n%s", first, c->body);
}

static void try_cases(const case_t *cases, size_t n) {
  for (size_t k = 0; k < n; k++)
    try_case(&cases[k]);
}
#define TRY(cases) try_cases(cases, sizeof(cases) / sizeof(cases[0]))

static void accesses_outside_of_memory(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"", AT "st.global.u32 [%d4], %r1;", {.grid = 1, .block = 1024}, NULL},
      {"", AT "st.global.u32 [%d4+4], %r1;", {.block = 1024}, "write of 4 bytes outside"},
      {"", AT "ld.global.u32 %r2, [%d4+-4];", {0}, "outside of live memory"},
      {"", AT "ld.global.u32 %r2, [%d3];", {0}, "outside of live memory"},
      {"", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d0+4080];", {0}, NULL},
      {"", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d0+4084];", {0}, "not aligned"},
      {"", "ld.global.v2.u32 {%r2, %r3}, [%d0+4];", {0}, "read of 8 bytes not aligned"},
      {"", "ld.global.u16 %h2, [%d0+1];", {0}, "not aligned"},
      {SHARED, SM "st.shared.u32 [%r2], %r1;", {.block = 256}, NULL},
      {SHARED, SM "st.shared.u32 [%r2+4], %r1;", {.block = 256}, "outside of shared memory"},
      {".extern .shared .align 16 .b8 sm[];",
       SM "st.shared.u32 [%r2], %r1;",
       {.block = 64, .shared = 256},
       NULL},
      {".extern .shared .align 16 .b8 sm[];",
       SM "st.shared.u32 [%r2], %r1;",
       {.block = 65, .shared = 256},
       "outside of shared memory"},
      {"",
       ".local .align 4 .b8 depot[64];\nmov.u64 %d3, depot;\nst.local.u32 [%d3+60], %r1;",
       {0},
       NULL},
      {"",
       ".local .align 4 .b8 depot[64];\nmov.u64 %d3, depot;\nst.local.u32 [%d3+64], %r1;",
       {0},
       "outside of local memory"},
      {".const .align 4 .b32 t[2] = {1, 2};",
       "mov.u64 %d3, t;\nst.global.u32 [%d3], %r1;",
       {.block = 1},
       "in constant memory"},
  };
  TRY(cases);
}

static void races_on_shared_memory(void **state) {
  (void)state;
  static const case_t cases[] = {
      // Neighbours' values, with a barrier and without.
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r4, %r2, 4;\n"
          "ld.shared.u32 %r5, [%r4];",
       {.block = 64},
       NULL},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nxor.b32 %r4, %r2, 4;\nld.shared.u32 %r5, [%r4];",
       {.block = 64},
       "race: reads shared address"},
      // A barrier of the warp orders its lanes, and not those of other warps.
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.warp.sync -1;\nxor.b32 %r4, %r2, 4;\n"
          "ld.shared.u32 %r5, [%r4];",
       {.block = 64},
       NULL},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.warp.sync -1;\nxor.b32 %r4, %r2, 128;\n"
          "ld.shared.u32 %r5, [%r4];",
       {.block = 64},
       "race: "},
      // Written again before all have read.
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r4, %r2, 128;\n"
          "ld.shared.u32 %r5, [%r4];\nbar.sync 0;\nst.shared.u32 [%r2], %r5;",
       {.block = 64},
       NULL},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r4, %r2, 128;\n"
          "ld.shared.u32 %r5, [%r4];\nst.shared.u32 [%r2], %r5;",
       {.block = 64},
       "race: "},
      // All write one place; all add to one place.
      {SHARED, "st.shared.u32 [sm], %r1;", {0}, "race: writes"},
      {SHARED, "mov.u32 %r2, 1;\nred.shared.add.u32 [sm], %r2;", {0}, NULL},
      {SHARED,
       "mov.u32 %r2, 1;\nred.shared.add.u32 [sm], %r2;\nld.shared.u32 %r3, [sm];",
       {0},
       "race: reads"},
      // Bytes of one word are different places.
      {SHARED, "mov.u32 %r2, sm;\nadd.u32 %r2, %r2, %r1;\nst.shared.u8 [%r2], %r1;", {0}, NULL},
      // Shared memory is new for each block.
      {SHARED, "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [sm], %r1;", {.grid = 4}, NULL},
  };
  TRY(cases);
}

static void races_on_global_memory(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"",
       "mov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 32, %r1;\n" AT "st.global.u32 [%d4], %r1;",
       {.grid = 8},
       NULL},
      {"", AT "st.global.u32 [%d4], %r1;", {.grid = 2}, "race: writes address"},
      {"",
       "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%d0], %r1;\nbar.sync 0;\n"
       "ld.global.u32 %r2, [%d0];",
       {.block = 64},
       NULL},
      {"",
       "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%d0], %r1;\n"
       "ld.global.u32 %r2, [%d0];",
       {.block = 64},
       "race: "},
      {"", "atom.global.add.u32 %r2, [%d0], %r1;", {.grid = 4, .block = 64}, NULL},
      {"",
       AT "add.s64 %d4, %d0, %d3;\nmul.wide.u32 %d3, %r1, 2;\nadd.s64 %d4, %d0, %d3;\n"
          "cvt.u16.u32 %h1, %r1;\nst.global.u16 [%d4], %h1;",
       {0},
       NULL},
      {"", "ld.global.u32 %r2, [%d0];", {.grid = 3, .block = 64}, NULL},
  };
  TRY(cases);
}

static void asynchronous_copies(void **state) {
  (void)state;
#define COPY SM AT "cp.async.ca.shared.global [%r2], [%d4], 4;\ncp.async.commit_group;\n"
  static const case_t cases[] = {
      {SHARED,
       COPY "cp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r4, %r2, 4;\n"
            "ld.shared.u32 %r5, [%r4];",
       {.block = 64},
       NULL},
      {SHARED,
       COPY "bar.sync 0;\nxor.b32 %r4, %r2, 4;\nld.shared.u32 %r5, [%r4];\n"
            "cp.async.wait_all;",
       {.block = 64},
       "race: "},
      {SHARED,
       COPY "cp.async.wait_all;\nxor.b32 %r4, %r2, 4;\nld.shared.u32 %r5, [%r4];",
       {.block = 64},
       "race: "},
      {SHARED, SM AT "cp.async.cg.shared.global [%r2], [%d4], 16;", {0}, "not aligned"},
      {SHARED,
       SM AT "mov.u32 %r9, 5;\ncp.async.ca.shared.global [%r2], [%d4], 4, %r9;",
       {0},
       "a copy of 4 bytes from 5"},
  };
  TRY(cases);
}

static void threads_that_do_not_come(void **state) {
  (void)state;
  static const case_t cases[] = {
      // Half of a warp at a barrier, and the other half at another or at none.
      {"",
       "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nbar.sync 0;\nbra M;\nL:\nbar.sync 1;\nM:",
       {0},
       "deadlock: the lanes 0000ffff wait for lanes ffff0000"},
      {"",
       "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 0;\nbra M;\nL:\nbar.sync 1;\nM:",
       {.block = 64},
       "deadlock: barrier 1 has 32 of 64 threads"},
      // Threads that have ended are not waited for, but for a barrier that counts.
      {"", "setp.lt.u32 %p1, %r1, 40;\n@%p1 ret;\nbar.sync 0;", {.block = 64}, NULL},
      {"",
       "setp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0, 64;",
       {.block = 64},
       "deadlock: barrier 0 has 32 of 64"},
      {"", "setp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 3, 64;", {.block = 96}, NULL},
      // A barrier in divergent code that all come to in the end is none that is not aligned.
      {"",
       "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nbarrier.sync 0;\nbra M;\nL:\nbarrier.sync 0;\nM:",
       {0},
       NULL},
      {"", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", {0}, NULL},
      {"",
       "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nbra M;\n"
       "L:\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nM:",
       {0},
       "deadlock: the lanes"},
      {"",
       "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;",
       {0},
       NULL},
      {"", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;", {0}, "not in its own mask"},
      {"", "shfl.sync.down.b32 %r2, %r1, 16, 31, -1;", {.block = 16}, "reads lane 16"},
      {"", "trap;", {0}, "the thread traps"},
      {"", "mov.u32 %r2, 20;\nbar.sync %r2;", {0}, "no barrier 20"},
      {"", "bar.sync 0, 33;", {0}, "no barrier 0 for 33"},
  };
  TRY(cases);
}

#define PAIR ".explicitcluster\n.reqnctapercluster 2"
#define MEET "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
#define RANK "mov.u32 %r6, %cluster_ctarank;\nxor.b32 %r6, %r6, 1;\n"
// What the other block of a pair has at this thread's place.
#define OTHER                                                                                      \
  RANK "cvt.u64.u32 %d5, %r2;\nmapa.shared::cluster.u64 %d6, %d5, %r6;\n"                          \
       "ld.shared::cluster.u32 %r7, [%d6];\n"

static void clusters(void **state) {
  (void)state;
  static const case_t cases[] = {
      // The other block's values, after and before all have met; and no longer once it may be gone.
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\n" MEET OTHER MEET,
       {.grid = 6, .block = 64, .directives = PAIR},
       NULL},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\nbar.sync 0;\n" OTHER MEET,
       {.grid = 2, .directives = PAIR},
       "race: "},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\n" MEET OTHER "st.shared.u32 [%r2], %r7;\n" MEET,
       {.grid = 2, .block = 64, .directives = PAIR},
       "race: "},
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\n" MEET
          "mov.u32 %r8, %cluster_ctarank;\nsetp.eq.u32 %p1, %r8, 1;\n@%p1 ret;\n"
          "mov.u32 %r9, 0;\nL:\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 9000;\n@%p2 bra "
          "L;\n" OTHER,
       {.grid = 2, .directives = PAIR},
       "of a block that has ended"},
      // Both halves of the barrier, by all.
      {"",
       "barrier.cluster.arrive.aligned;\nadd.u32 %r2, %r1, 1;\nbarrier.cluster.wait.aligned;",
       {.grid = 4, .directives = PAIR},
       NULL},
      {"",
       "barrier.cluster.wait.aligned;",
       {.grid = 2, .directives = PAIR},
       "at which it has not arrived"},
      {"",
       "barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;",
       {.grid = 2, .directives = PAIR},
       "twice without waiting"},
      {"",
       "mov.u32 %r8, %cluster_ctarank;\nsetp.eq.u32 %p1, %r8, 1;\n@%p1 bra L;\nbar.sync 0;\n" MEET
       "L:\nbarrier.sync 1, 64;",
       {.grid = 2, .directives = PAIR},
       "deadlock: "},
      // A block without the directive is a cluster of its own.
      {SHARED,
       SM "st.shared.u32 [%r2], %r1;\n" MEET
          "mov.u32 %r3, %cluster_nctarank;\nmul.wide.u32 %d3, %r3, 4;\nadd.s64 %d4, %d0, "
          "%d3;\nld.global.u32 %r4, [%d4];",
       {.grid = 3},
       NULL},
      {SHARED,
       SM RANK "cvt.u64.u32 %d5, %r2;\nmapa.shared::cluster.u64 %d6, %d5, %r6;",
       {.grid = 2},
       "block 1 of a cluster of 1"},
  };
  TRY(cases);
  // A grid that is no whole clusters.
  void *params[4] = {0};
  uint64_t word = 0;
  for (int i = 0; i < 4; i++)
    params[i] = &word;
  assert_int_not_equal(launch_params(load_entry("", PAIR, ""), (launch_t){.grid = 3}, params),
                       DT_CU_SUCCESS);
}

static void kernels_that_may_begin_early(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"",
       "griddepcontrol.wait;\nld.global.u32 %r2, [%d0];\ngriddepcontrol.launch_dependents;",
       {.programmatic = true},
       NULL},
      // Reading is a matter of what is written meanwhile (fake_order.c).
      {"", "ld.global.u32 %r2, [%d0];\ngriddepcontrol.wait;", {.programmatic = true}, NULL},
      {"",
       "st.global.u32 [%d0], 0;\ngriddepcontrol.wait;",
       {.programmatic = true},
       "write of 4 bytes of global memory before griddepcontrol.wait"},
      {"",
       "atom.global.add.u32 %r2, [%d0], 1;\ngriddepcontrol.wait;",
       {.programmatic = true},
       "before griddepcontrol.wait"},
      {"", "ld.global.u32 %r2, [%d0];\nst.global.u32 [%d0], %r2;", {.block = 1}, NULL},
      {"",
       "setp.eq.u32 %p1, %r1, 0;\n@%p1 griddepcontrol.wait;\nst.global.u32 [%d0], 0;",
       {.programmatic = true},
       "thread (1, 0, 0)"},
      {".const .align 4 .b32 t[2] = {1, 2};",
       "mov.u64 %d3, t;\nld.const.u32 %r2, [%d3];\nld.const.u32 %r3, [t+4];\ngriddepcontrol.wait;",
       {.programmatic = true},
       NULL},
      {"", "griddepcontrol.launch_dependents;", {.programmatic = true}, "ends without"},
      {"",
       "setp.eq.u32 %p1, %r1, 0;\n@%p1 ret;\ngriddepcontrol.wait;",
       {.programmatic = true},
       "thread (0, 0, 0): the thread of a launch that came early ends without"},
  };
  TRY(cases);
}

static void a_violation_says_where(void **state) {
  (void)state;
  dt_cu_function_t k = load_body("", "mov.u32 %r2, %ctaid.x;\nsetp.eq.u32 %p1, %r2, 3;\n"
                                     "setp.eq.and.u32 %p1, %r1, 9, %p1;\n"
                                     "@%p1 ld.global.u32 %r2, [%d0+64]; // beyond\n");
  dt_cu_ptr_t a = allocate(64);
  launch(k, (launch_t){.grid = 5}, a, a, a, 0);
  finish();
  const char *first = "";
  assert_int_equal(fake_cuda_violations(&first), 1);
  char address[40];
  (void)snprintf(address, sizeof(address), "%llx, out, at 64 of the 64 bytes",
                 (unsigned long long)(a + 64));
  const char *parts[] = {"kernel k", "line 21 \"@%p1 ld.global.u32 %r2, [%d0+64]; // beyond\"",
                         "block (3, 0, 0)", "thread (9, 0, 0)", address};
  for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
    if (!strstr(first, parts[p]))
      fail_msg("violation \"%s\"; expected \"%s\" in it", first, parts[p]);
}

// Local memory of another entry of the module is not this one's.
static void entries_have_local_memory_of_their_own(void **state) {
  (void)state;
  dt_cu_function_t f =
      load_text(PTX_HEADER ".visible .entry first() { .local .align 8 .b8 d[16]; .reg .b64 a;\n"
                           "mov.u64 a, d; st.local.u64 [a+8], a; st.local.u64 [a+16], a; ret; }\n"
                           ".visible .entry second() { .local .align 8 .b8 d[64]; ret; }\n",
                "first");
  OK(launch_params(f, (launch_t){0}, NULL));
  finish();
  expect_violation("write of 8 bytes outside of local memory: local address 16");
}

static void the_race_check_can_be_off(void **state) {
  (void)state;
  dt_cu_function_t k = load_body(SHARED, "st.shared.u32 [sm], %r1;\nst.global.u32 [%d0], %r1;");
  dt_cu_ptr_t a = allocate(64);
  fake_cuda_racecheck(false);
  launch(k, (launch_t){.block = 64}, a, a, a, 0);
  finish();
  expect_none();
  fake_cuda_racecheck(true);
  launch(k, (launch_t){.block = 64}, a, a, a, 0);
  finish();
  expect_violation("race");
}

// ---- Launches and streams -----------------------------------------------------------------------

static void launches_must_fit_their_declaration(void **state) {
  (void)state;
  dt_cu_function_t f = load_text(PTX_HEADER ".visible .entry most() .maxntid 64, 2 { ret; }\n"
                                            ".visible .entry just() .reqntid 32 { ret; }\n",
                                 "most");
  OK(launch_params(f, (launch_t){.block = 128}, NULL));
  assert_int_not_equal(launch_params(f, (launch_t){.block = 129}, NULL), DT_CU_SUCCESS);
  expect_violation("most: a launch that no device takes");
}

static void streams_order_what_kernels_touch(void **state) {
  (void)state;
  dt_cu_function_t k = load_body("", AT "st.global.u32 [%d4], %r1;");
  dt_cu_stream_t first = NULL, second = NULL;
  dt_cu_event_t event = NULL;
  OK(cuda->stream_create(&first, DT_CU_STREAM_NON_BLOCKING));
  OK(cuda->stream_create(&second, DT_CU_STREAM_NON_BLOCKING));
  OK(cuda->event_create(&event, DT_CU_EVENT_NO_TIMING));
  dt_cu_ptr_t a = allocate(256);
  // Ordered by an event; then what lies beside the kernel's bytes, in no order.
  launch(k, (launch_t){.stream = first}, a, a, a, 0);
  OK(cuda->event_record(event, first));
  OK(cuda->stream_wait(second, event, 0));
  OK(cuda->fill_bytes(a, 0, 128, second));
  OK(cuda->stream_synchronize(second));
  launch(k, (launch_t){.stream = first}, a, a, a, 0);
  OK(cuda->fill_bytes(a + 128, 0, 128, second));
  OK(cuda->stream_synchronize(first));
  OK(cuda->stream_synchronize(second));
  expect_none();
  // Queued after the kernel, waited for before it, and on its bytes.
  launch(k, (launch_t){.stream = first}, a, a, a, 0);
  OK(cuda->fill_bytes(a + 124, 0, 8, second));
  OK(cuda->stream_synchronize(second));
  OK(cuda->stream_synchronize(first));
  expect_violation("not ordered with a write on stream 2");
}

static void kernels_on_two_streams_must_not_meet(void **state) {
  (void)state;
  dt_cu_function_t k = load_body("", AT "ld.global.u32 %r2, [%d4];\nmul.wide.u32 %d3, %r1, 4;\n"
                                        "add.s64 %d5, %d1, %d3;\nst.global.u32 [%d5], %r2;");
  dt_cu_stream_t first = NULL, second = NULL;
  OK(cuda->stream_create(&first, DT_CU_STREAM_NON_BLOCKING));
  OK(cuda->stream_create(&second, DT_CU_STREAM_NON_BLOCKING));
  dt_cu_ptr_t a = allocate(256), b = allocate(256), c = allocate(256);
  launch(k, (launch_t){.stream = first}, a, b, a, 0);
  launch(k, (launch_t){.stream = second}, a, c, a, 0);
  OK(cuda->stream_synchronize(first));
  OK(cuda->stream_synchronize(second));
  expect_none();
  launch(k, (launch_t){.stream = first}, a, b, a, 0);
  launch(k, (launch_t){.stream = second}, b, c, a, 0);
  OK(cuda->stream_synchronize(first));
  OK(cuda->stream_synchronize(second));
  expect_violation("is not ordered with a");
}

RUN_WITH_LIBRARY(ON_DEVICE(accesses_outside_of_memory), ON_DEVICE(races_on_shared_memory),
                 ON_DEVICE(races_on_global_memory), ON_DEVICE(asynchronous_copies),
                 ON_DEVICE(threads_that_do_not_come), ON_DEVICE(clusters),
                 ON_DEVICE(kernels_that_may_begin_early), ON_DEVICE(a_violation_says_where),
                 ON_DEVICE(entries_have_local_memory_of_their_own),
                 ON_DEVICE(the_race_check_can_be_off),
                 ON_DEVICE(launches_must_fit_their_declaration),
                 ON_DEVICE(streams_order_what_kernels_touch),
                 ON_DEVICE(kernels_on_two_streams_must_not_meet))
