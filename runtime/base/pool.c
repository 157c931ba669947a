// SPDX-License-Identifier: Apache-2.0
// The kernel thread pool. Starting a range is on the path of every kernel launch, so it takes no
// lock, allocates nothing, and makes no system call while a worker is awake.
//
// A caller claims one of a few job slots, fills it in, raises its bit in `work` of the job's level,
// which is all that idle workers look at, and opens the slot's gate. Everything a worker must
// decide is in the gate, one 32-bit word:
//
//     31 … 16 tickets | 15 … 2 joined | 1 waiting | 0 open
//
// A worker joins by one compare-and-swap that takes a ticket and counts it in; that succeeds only
// while the gate is open, so the job's plain fields are valid from then until the worker counts
// itself out. Tickets bound the helpers of a small job; whoever takes the last one, or finds the
// chunks used up, lowers the bit in `work`, still counted in, so that it cannot be a later job's
// bit. The caller runs chunks too, then shuts the gate and waits for `joined` to become 0: after
// that nobody looks at the slot's fields and it may be filled in anew.
//
// Sleep and wake: a worker counts itself in `sleepers`, then looks at `work` once more; a caller
// raises its bit, then looks at `sleepers`. Both are sequentially consistent, so one of them sees
// the other.
//
// Beside other programs: a helper that is stopped within a chunk is one that the caller waits for,
// a whole slice of the scheduler's. So a worker offers its core after a while, between two chunks
// and not counted in, and gives its ticket back for when it returns. And a worker on its caller's
// own core can only take turns with it, which the scheduler does not mend while all cores have
// work: it moves to another one.
#include "runtime/base/pool.h"

#include "runtime/base/fp.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE 64
#define SLOT_COUNT 16
#define MOST_THREADS 4096
#define CHUNKS_A_THREAD 4
#define WAKES_BY_CALLER 8
#define WAKES_BY_WORKER 2
#define SPIN_NS 40000
#define SPINS_BEFORE_YIELD 2000
#define YIELDS_BEFORE_WAIT 20
#define OFFER_NS 1000000 // below the slice of any of Linux's schedulers
#define MOVE_NS 10000000 // a worker moves no more often

#define GATE_OPEN 1u
#define GATE_WAITING 2u
#define GATE_JOINED_ONE 4u
#define GATE_JOINED_MASK 0xFFFCu
#define GATE_TICKET_ONE 0x10000u
#define GATE_TICKET_MASK 0xFFFF0000u
_Static_assert(MOST_THREADS <= (GATE_JOINED_MASK / GATE_JOINED_ONE),
               "joined workers can be counted");

// How a range is cut: `count` items in `chunks` chunks whose sizes differ by one at most.
typedef struct cut_t {
  int64_t base;   // items of the smaller chunks
  int64_t larger; // how many chunks, the first ones, have one more
  uint32_t chunks;
} cut_t;

typedef struct slot_t {
  _Alignas(LINE) _Atomic uint32_t gate;
  _Atomic bool claimed;
  // Written by the caller while the gate is shut and nobody is joined.
  cut_t cut;
  dt_range_fn_t fn;
  void *arg;
  dt_pool_level_t level;
  int cpu; // that the caller was on; -1: the system does not say
  // On a line of its own: every participant adds to it.
  _Alignas(LINE) _Atomic uint32_t next_chunk;
} slot_t;

typedef struct worker_t {
  dt_pool_t *pool;
  pthread_t thread;
  uint32_t id; // 1 to width - 1
  // The thread's own: when it last moved, and since when it has not offered its core.
  int64_t moved, busy_since;
} worker_t;

struct dt_pool {
  // By level: a bit for each slot that wants helpers.
  _Alignas(LINE) _Atomic uint32_t work[DT_POOL_LEVELS];
  _Alignas(LINE) _Atomic uint32_t sleepers;
  _Atomic uint32_t wakes; // futex that sleepers wait on; grows with each wake
  _Atomic bool stopping;
  uint32_t width;
  dt_executor_t executor; // zeroed: there is none
  uint32_t n_workers;     // width - 1, or 0 with an executor
  worker_t *workers;
  slot_t slots[SLOT_COUNT];
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
  (void)syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t count) {
  (void)syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, (int)count, NULL, NULL, 0);
}

// ---- Cutting ranges -------------------------------------------------------------------------------

static cut_t cut_range(int64_t count, int64_t grain, uint32_t width) {
  int64_t most = width > 1 ? (int64_t)width * CHUNKS_A_THREAD : 1;
  int64_t chunks = count / grain;
  chunks = chunks < 1 ? 1 : chunks > most ? most : chunks;
  return (cut_t){.base = count / chunks, .larger = count % chunks, .chunks = (uint32_t)chunks};
}

static void run_chunk(const cut_t *cut, uint32_t chunk, dt_range_fn_t fn, void *arg,
                      uint32_t worker) {
  int64_t i = chunk;
  int64_t begin = i * cut->base + (i < cut->larger ? i : cut->larger);
  int64_t end = begin + cut->base + (i < cut->larger ? 1 : 0);
  fn(arg, begin, end, worker);
}

static void run_inline(const cut_t *cut, dt_range_fn_t fn, void *arg) {
  for (uint32_t chunk = 0; chunk < cut->chunks; chunk++)
    run_chunk(cut, chunk, fn, arg, 0);
}

// Runs the next chunk of a job that cannot end meanwhile. False: none is left.
static bool take_chunk(slot_t *slot, uint32_t worker) {
  uint32_t chunk = atomic_fetch_add_explicit(&slot->next_chunk, 1, memory_order_relaxed);
  if (chunk >= slot->cut.chunks)
    return false;
  run_chunk(&slot->cut, chunk, slot->fn, slot->arg, worker);
  return true;
}

static void take_chunks(slot_t *slot, uint32_t worker) {
  while (take_chunk(slot, worker)) {
  }
}

// Work of a level that goes before `level`, or of any with DT_POOL_LEVELS.
static bool is_work_before(dt_pool_t *pool, dt_pool_level_t level, memory_order order) {
  uint32_t work = 0;
  for (uint32_t k = 0; k < (uint32_t)level; k++)
    work |= atomic_load_explicit(&pool->work[k], order);
  return work != 0;
}

// ---- Workers --------------------------------------------------------------------------------------

static void lower_bit(dt_pool_t *pool, uint32_t index) {
  uint32_t bit = 1u << index;
  _Atomic uint32_t *work = &pool->work[pool->slots[index].level];
  if (atomic_load_explicit(work, memory_order_relaxed) & bit)
    (void)atomic_fetch_and_explicit(work, ~bit, memory_order_relaxed);
}

static void wake_workers(dt_pool_t *pool, uint32_t most) {
  uint32_t asleep = atomic_load_explicit(&pool->sleepers, memory_order_seq_cst);
  if (asleep == 0)
    return;
  (void)atomic_fetch_add_explicit(&pool->wakes, 1, memory_order_seq_cst);
  futex_wake(&pool->wakes, asleep < most ? asleep : most);
}

// To another core than `cpu`, and from there on wherever it may run.
static void move_off(worker_t *self, int cpu) {
  cpu_set_t all, others;
  int64_t now = dt__now_ns();
  if (now - self->moved < MOVE_NS || sched_getaffinity(0, sizeof(all), &all) != 0)
    return;
  self->moved = now;
  others = all;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
    (void)sched_setaffinity(0, sizeof(all), &all);
}

// Of a worker that is counted in: somebody else, or itself later, may join for it. Where the caller
// has shut the gate meanwhile nobody can; then it lowers the bit once more.
static void give_back(dt_pool_t *pool, uint32_t index) {
  slot_t *slot = &pool->slots[index];
  uint32_t gate = atomic_load_explicit(&slot->gate, memory_order_relaxed);
  do {
    if (!(gate & GATE_OPEN))
      return;
  } while (!atomic_compare_exchange_weak_explicit(&slot->gate, &gate, gate + GATE_TICKET_ONE,
                                                  memory_order_relaxed, memory_order_relaxed));
  (void)atomic_fetch_or_explicit(&pool->work[slot->level], 1u << index, memory_order_relaxed);
}

// Chunks until none is left, work of a level before this one's is there, or the core is to be
// offered.
static void take_some(worker_t *self, uint32_t index) {
  dt_pool_t *pool = self->pool;
  slot_t *slot = &pool->slots[index];
  while (!is_work_before(pool, slot->level, memory_order_relaxed)) {
    if (!take_chunk(slot, self->id)) {
      lower_bit(pool, index);
      return;
    }
    if (dt__now_ns() - self->busy_since >= OFFER_NS)
      break;
  }
  give_back(pool, index);
}

// Joins the job in slot `index` if it takes helpers, and works on it. False: it took none.
static bool help(worker_t *self, uint32_t index, bool was_asleep) {
  dt_pool_t *pool = self->pool;
  slot_t *slot = &pool->slots[index];
  uint32_t gate = atomic_load_explicit(&slot->gate, memory_order_relaxed);
  uint32_t joined;
  do {
    if (!(gate & GATE_OPEN) || !(gate & GATE_TICKET_MASK))
      return false;
    joined = gate + GATE_JOINED_ONE - GATE_TICKET_ONE;
  } while (!atomic_compare_exchange_weak_explicit(&slot->gate, &gate, joined, memory_order_acquire,
                                                  memory_order_relaxed));
  if (!(joined & GATE_TICKET_MASK))
    lower_bit(pool, index);
  else if (was_asleep)
    wake_workers(pool, WAKES_BY_WORKER); // the caller wakes a few, who wake the others
  if (slot->cpu >= 0 && sched_getcpu() == slot->cpu)
    move_off(self, slot->cpu);
  take_some(self, index);
  uint32_t before = atomic_fetch_sub_explicit(&slot->gate, GATE_JOINED_ONE, memory_order_release);
  // The slot may be another job's by now; a wake without a waiter does nothing.
  if ((before & GATE_WAITING) && (before & GATE_JOINED_MASK) == GATE_JOINED_ONE)
    futex_wake(&slot->gate, 1);
  return true;
}

// Helps one job, beginning the search at a slot of the worker's own so that several jobs are spread
// over the workers. False: there was none.
static bool help_any(worker_t *self, bool was_asleep) {
  for (uint32_t level = 0; level < DT_POOL_LEVELS; level++) {
    uint32_t work = atomic_load_explicit(&self->pool->work[level], memory_order_relaxed);
    for (uint32_t i = 0; work && i < SLOT_COUNT; i++) {
      uint32_t index = (self->id + i) % SLOT_COUNT;
      if ((work >> index & 1u) && help(self, index, was_asleep))
        return true;
    }
  }
  return false;
}

// Sleeps until work may be there. Spurious returns are harmless.
static void sleep_for_work(dt_pool_t *pool) {
  uint32_t wakes = atomic_load_explicit(&pool->wakes, memory_order_seq_cst);
  (void)atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_seq_cst);
  if (!is_work_before(pool, DT_POOL_LEVELS, memory_order_seq_cst) &&
      !atomic_load_explicit(&pool->stopping, memory_order_seq_cst))
    futex_wait(&pool->wakes, wakes);
  (void)atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_seq_cst);
}

static void *worker_main(void *opaque) {
  worker_t *self = opaque;
  dt_pool_t *pool = self->pool;
  int64_t idle_since = self->busy_since = dt__now_ns();
  bool was_asleep = false;
  for (uint32_t turn = 1; !atomic_load_explicit(&pool->stopping, memory_order_acquire); turn++) {
    if (help_any(self, was_asleep)) {
      idle_since = dt__now_ns();
      was_asleep = false;
      if (idle_since - self->busy_since >= OFFER_NS) {
        (void)sched_yield();
        self->busy_since = idle_since = dt__now_ns();
      }
      continue;
    }
    pause_cpu();
    if (turn % 32 != 0 || dt__now_ns() - idle_since < SPIN_NS)
      continue;
    if (is_work_before(pool, DT_POOL_LEVELS, memory_order_relaxed)) {
      (void)sched_yield(); // a caller is between raising its bit and opening the gate
      continue;
    }
    sleep_for_work(pool);
    idle_since = self->busy_since = dt__now_ns();
    was_asleep = true;
  }
  return NULL;
}

// ---- Creation -------------------------------------------------------------------------------------

void dt__pool_stop(dt_pool_t *pool) {
  atomic_store_explicit(&pool->stopping, true, memory_order_seq_cst);
  (void)atomic_fetch_add_explicit(&pool->wakes, 1, memory_order_seq_cst);
  futex_wake(&pool->wakes, INT_MAX);
}

// Stops and joins the first `started` workers.
static void stop_workers(dt_pool_t *pool, uint32_t started) {
  if (dt__forked())
    return; // the workers live in the parent only
  dt__pool_stop(pool);
  for (uint32_t i = 0; i < started; i++)
    (void)pthread_join(pool->workers[i].thread, NULL);
}

static void pool_free(dt_pool_t *pool) {
  dt__free(pool->workers);
  dt__free(pool);
}

dt_status_t dt__pool_create(uint32_t threads, const dt_executor_t *executor, dt_pool_t **out) {
  *out = NULL;
  if (threads < 1 || threads > MOST_THREADS)
    return DT_FAIL(DT_E_ARGUMENT, "a pool of %u threads; expected 1 to %d", threads, MOST_THREADS);
  dt_pool_t *pool = dt__alloc_aligned(sizeof(*pool), LINE);
  if (!pool)
    return DT_NO_MEMORY();
  *pool = (dt_pool_t){.width = threads, .n_workers = executor ? 0 : threads - 1};
  if (executor)
    pool->executor = *executor;
  pool->workers = dt__calloc(threads, sizeof(*pool->workers));
  if (!pool->workers) {
    pool_free(pool);
    return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < pool->n_workers; i++) {
    worker_t *worker = &pool->workers[i];
    *worker = (worker_t){.pool = pool, .id = i + 1};
    char name[16];
    (void)snprintf(name, sizeof(name), "dt-pool-%u", worker->id % 10000);
    dt_status_t status = dt__thread_start(&worker->thread, name, false, worker_main, worker);
    if (status) {
      stop_workers(pool, i);
      pool_free(pool);
      return status;
    }
  }
  *out = pool;
  return NULL;
}

void dt__pool_destroy(dt_pool_t *pool) {
  if (!pool)
    return;
  stop_workers(pool, pool->n_workers);
  pool_free(pool);
}

uint32_t dt__pool_width(const dt_pool_t *pool) { return pool->width; }

// ---- Running a range ------------------------------------------------------------------------------

// A free slot, now the caller's, or SLOT_COUNT. The search begins at a place of the thread's own,
// so that a caller finds the slot whose lines it used last.
static uint32_t claim_slot(dt_pool_t *pool) {
  uint64_t self = (uint64_t)pthread_self();
  uint32_t first = (uint32_t)(self * 0x9E3779B97F4A7C15u >> 60);
  for (uint32_t i = 0; i < SLOT_COUNT; i++) {
    uint32_t index = (first + i) % SLOT_COUNT;
    slot_t *slot = &pool->slots[index];
    if (atomic_load_explicit(&slot->claimed, memory_order_relaxed))
      continue;
    if (!atomic_exchange_explicit(&slot->claimed, true, memory_order_acquire))
      return index;
  }
  return SLOT_COUNT;
}

// Waits until no worker is joined. A worker's chunk is short as a rule, so the caller spins, then
// lends its core, then sleeps.
static void wait_for_helpers(slot_t *slot) {
  for (uint32_t turn = 0;; turn++) {
    uint32_t gate = atomic_load_explicit(&slot->gate, memory_order_acquire);
    if (!(gate & GATE_JOINED_MASK))
      return;
    if (turn < SPINS_BEFORE_YIELD) {
      pause_cpu();
    } else if (turn < SPINS_BEFORE_YIELD + YIELDS_BEFORE_WAIT) {
      (void)sched_yield();
    } else {
      gate =
          atomic_fetch_or_explicit(&slot->gate, GATE_WAITING, memory_order_acquire) | GATE_WAITING;
      if (!(gate & GATE_JOINED_MASK))
        return;
      futex_wait(&slot->gate, gate);
    }
  }
}

static void run_shared(dt_pool_t *pool, uint32_t index, dt_pool_level_t level, const cut_t *cut,
                       dt_range_fn_t fn, void *arg) {
  slot_t *slot = &pool->slots[index];
  slot->level = level;
  slot->cpu = sched_getcpu();
  slot->cut = *cut;
  slot->fn = fn;
  slot->arg = arg;
  atomic_store_explicit(&slot->next_chunk, 0, memory_order_relaxed);
  uint32_t helpers = cut->chunks < pool->width ? cut->chunks - 1 : pool->width - 1;
  // The bit is raised first: whoever joins may lower it, and then it stays down.
  (void)atomic_fetch_or_explicit(&pool->work[level], 1u << index, memory_order_seq_cst);
  atomic_store_explicit(&slot->gate, GATE_OPEN | helpers * GATE_TICKET_ONE, memory_order_release);
  wake_workers(pool, helpers < WAKES_BY_CALLER ? helpers : WAKES_BY_CALLER);

  take_chunks(slot, 0);

  lower_bit(pool, index);
  (void)atomic_fetch_and_explicit(&slot->gate, GATE_JOINED_MASK, memory_order_relaxed);
  wait_for_helpers(slot);
  lower_bit(pool, index); // whoever gave a ticket back was counted in until now
  atomic_store_explicit(&slot->claimed, false, memory_order_release);
}

// A range on threads of the host's, in its caller's memory.
typedef struct hosted_t {
  slot_t slot;
  uint32_t parts;
} hosted_t;

static void run_part(void *opaque, uint32_t part) {
  hosted_t *hosted = opaque;
  if (part >= hosted->parts)
    return; // it has no scratch
  uint32_t before = dt__fp_enter();
  take_chunks(&hosted->slot, part);
  dt__fp_leave(before);
}

static void run_hosted(const dt_pool_t *pool, const cut_t *cut, dt_range_fn_t fn, void *arg) {
  hosted_t hosted = {.slot = {.cut = *cut, .fn = fn, .arg = arg},
                     .parts = cut->chunks < pool->width ? cut->chunks : pool->width};
  pool->executor.run(pool->executor.user, hosted.parts, run_part, &hosted);
  take_chunks(&hosted.slot, 0); // what is left
}

void dt__pool_run(dt_pool_t *pool, int64_t count, int64_t grain, dt_range_fn_t fn, void *arg) {
  dt__pool_run_at(pool, DT_POOL_NORMAL, count, grain, fn, arg);
}

void dt__pool_run_at(dt_pool_t *pool, dt_pool_level_t level, int64_t count, int64_t grain,
                     dt_range_fn_t fn, void *arg) {
  if (count <= 0)
    return;
  if (grain < 1)
    grain = 1;
  if (count <= grain) {
    fn(arg, 0, count, 0);
    return;
  }
  cut_t cut = cut_range(count, grain, pool->width);
  if (cut.chunks == 1 || dt__forked()) {
    run_inline(&cut, fn, arg);
    return;
  }
  if (pool->executor.run) {
    run_hosted(pool, &cut, fn, arg);
    return;
  }
  uint32_t index = claim_slot(pool);
  if (index == SLOT_COUNT)
    run_inline(&cut, fn, arg); // as many callers as slots: the cores are busy anyway
  else
    run_shared(pool, index, level, &cut, fn, arg);
}
