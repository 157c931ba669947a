// SPDX-License-Identifier: Apache-2.0
// What the files of the fake driver share. Everything is guarded by one recursive mutex, which
// every entry point holds.
#ifndef DT_TESTS_FAKE_CUDA_FAKE_PRIVATE_H
#define DT_TESTS_FAKE_CUDA_FAKE_PRIVATE_H

#include "test/fake_cuda/fake_cuda.h"
#include "test/fake_cuda/ptx.h"

#define FAKE_STREAMS 64    // clocks are vectors of this length; 0 is the default stream
#define FAKE_MEMORY 262144 // live and remembered blocks
#define FAKE_RECORDS 65536 // accesses that the host has not waited for
#define FAKE_DEVICES 2
#define FAKE_OFFSET ((uint64_t)1 << 46) // between host and device addresses
#define FAKE_GRANULE ((size_t)2 << 20)

// ---- Entry and violations (fake_cuda.c) ---------------------------------------------------------
enum { FAKE_ANYWHERE = 0, FAKE_IN_CONTEXT = 1 };
// Locks, counts the call and says what it must return at once (0: go on). Pair with fake_leave.
dt_cu_result_t fake_enter(dt_cuda_sym_t sym, int where);
dt_cu_result_t fake_leave(dt_cu_result_t result);
#define FAKE_ENTER(name, where)                                                                    \
  do {                                                                                             \
    dt_cu_result_t failed_ = fake_enter(DT_CUDA_SYM_##name, (where));                              \
    if (failed_)                                                                                   \
      return fake_leave(failed_);                                                                  \
  } while (0)
void fake_violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t fake_random(void);
int fake_device(void);             // of the current context
int fake_attribute(int attribute); // of every device; -1: there is none

// ---- Memory (fake_memory.c) ---------------------------------------------------------------------
typedef enum fake_kind_t {
  FAKE_NONE,
  FAKE_ALLOCATED, // mem_alloc
  FAKE_ASYNC,     // mem_alloc_async
  FAKE_PINNED,    // host_alloc: host memory that the device sees at an address of its own
  FAKE_RANGE,     // reserved; pages come and go
} fake_kind_t;
typedef struct fake_block_t {
  fake_kind_t kind;
  bool live;
  unsigned char *host;
  size_t bytes;
  void *base; // what was mapped for it
  size_t room;
  unsigned char *mapped; // FAKE_RANGE: a byte a granule: 0 none, 1 mapped, 2 with access
} fake_block_t;
void fake_memory_reset(void);
uint32_t fake_memory_held(void);
// The host address of [ptr, ptr + bytes) if all of it may be used by the device now; else NULL, and
// a violation naming `what`.
unsigned char *fake_use(dt_cu_ptr_t ptr, size_t bytes, const char *what);
// Calls `each` for each range of memory that the device may use now.
void fake_each_range(void (*each)(void *user, dt_cu_ptr_t begin, size_t bytes, unsigned char *host),
                     void *user);

// ---- Streams (fake_stream.c) --------------------------------------------------------------------
// The order of a piece of work, shared by its records.
typedef struct fake_order_t fake_order_t;
// Bytes that work has touched, as ranges in order.
typedef struct fake_bytes_t {
  dt_cu_ptr_t begin, end;
} fake_bytes_t;
typedef struct fake_touched_t {
  fake_bytes_t *at;
  uint32_t n;
} fake_touched_t;
typedef struct fake_work_t {
  struct fake_work_t *next;
  char what[64];
  fake_touched_t touched[2]; // read, written; of deferred work once it is done
  fake_touched_t early;      // of what is read: by a launch before it has waited
  bool waits;                // a launch, each thread of which waits for the work before it
  bool deferred;             // what it touches is known only when it has run
  fake_order_t *order;
  void (*run)(struct fake_work_t *work);
  uint32_t waits_stream; // with waits_for > 0: that stream must have done so many first
  uint64_t waits_for;
  dt_cu_event_t event; // that is recorded, for the n-th time
  uint64_t event_use;
  void *to;
  const void *from;
  size_t bytes;
  int value;
  const fake_kernel_t *kernel;
  const ptx_module_t *module; // of an interpreted launch
  const ptx_function_t *entry;
  struct fake_replay_t *replay; // of a graph launch; given back with the work (fake_graph_exec.c)
  fake_launch_t launch;
  unsigned char param[]; // of the launch
} fake_work_t;
void fake_stream_reset(void);
uint32_t fake_stream_held(void);
// Queues work (malloc'ed here with `extra` bytes of parameter) after checking its accesses against
// all unordered ones. NULL for a stream that does not exist.
fake_work_t *fake_queue(dt_cu_stream_t stream, const fake_access_t *accesses, uint32_t n,
                        size_t extra, const char *what);
bool fake_is_stream(dt_cu_stream_t stream);
// Says of work that its accesses are known only when it runs: until then no record is forgotten
// that it may conflict with.
void fake_defer(fake_work_t *work, void (*run)(fake_work_t *work));
// One violation, naming `what`, for each record that the list conflicts with.
void fake_check_touched(const fake_work_t *work, const char *what, const fake_touched_t *list,
                        bool write);
// Records what deferred work has touched; takes the list.
void fake_touched(fake_work_t *work, fake_touched_t list, bool write);
// Adds a range to a list of few, which stays in order and without overlap. False: no memory.
bool fake_add_bytes(fake_touched_t *list, dt_cu_ptr_t begin, dt_cu_ptr_t end);
// What is queued on the stream from now on comes after that order; `work` also waits for it.
void fake_come_after(dt_cu_stream_t stream, const fake_order_t *order);
void fake_wait_for(fake_work_t *work, const fake_order_t *order);
fake_order_t *fake_retain_order(fake_order_t *order);
void fake_release_order(fake_order_t *order);       // may be NULL
bool fake_is_waited_for(const fake_order_t *order); // by the host
// Whether the host has waited for every access to the range.
bool fake_range_idle(dt_cu_ptr_t begin, size_t bytes);
// Whether a launch of the module, by itself or in a graph, is queued and not done.
bool fake_is_queued(const ptx_module_t *ptx, uint64_t module);
void fake_drain(void); // does all work of all streams and lets the host know

// Whether a launch on the stream may come early by our rule: what this thread queued there last is
// a kernel that waits; where not, a violation. What other threads queue in between nobody can know:
// the driver then takes no launch early.
void fake_may_be_early(dt_cu_stream_t stream, const char *name);
// Says of the launch that was queued last whether it waits.
void fake_last_waits(dt_cu_stream_t stream, fake_work_t *work, bool waits);

// ---- Order within a stream (fake_order.c) -------------------------------------------------------
void fake_order_reset(void);
// An address that both pieces touch, one of them writing it; 0: none. Each has what it reads, then
// what it writes.
dt_cu_ptr_t fake_conflict(const fake_touched_t a[2], const fake_touched_t b[2]);
// The first address that both lists have; 0: none.
dt_cu_ptr_t fake_common(const fake_touched_t *a, const fake_touched_t *b);
// A stream's next piece has been done: all that it touches must be ordered with it. Takes the
// lists.
void fake_order_done(uint32_t stream, fake_work_t *work);

// ---- PTX (ptx_launch.c) -------------------------------------------------------------------------
// Runs an interpreted launch to its end, or to its first violation.
void fake_ptx_run(fake_work_t *work);
// The same, and hands out what was read and written instead of recording it; work->early is to be
// freed.
void fake_ptx_do(fake_work_t *work, fake_touched_t out[2]);
void fake_ptx_reset(void);

// ---- PTX for the assembler (fake_keep.c) --------------------------------------------------------
void fake_keep(const char *text);

// ---- Code (fake_code.c) -------------------------------------------------------------------------
void fake_code_reset(void);
uint32_t fake_code_held(void);
// A launch as its function and parameters say it. The launch's parameters are malloc'ed.
typedef struct fake_code_t {
  const ptx_module_t *ptx;
  const ptx_function_t *entry;
  uint64_t module; // a number that no other module gets
  bool waits;      // its threads do, on all their ways to the end
  fake_launch_t launch;
} fake_code_t;
// Checks a launch as the device would, with a violation where it takes none such.
dt_cu_result_t fake_code_read(const dt_cu_launch_config_t *config, dt_cu_function_t function,
                              void **params, fake_code_t *out);
bool fake_code_lives(uint64_t module);
// The host function for kernels of this name; NULL: they are interpreted.
const fake_kernel_t *fake_find_kernel(const char *name);

// ---- Graphs (fake_graph.c, fake_graph_exec.c, fake_graph_run.c) ---------------------------------
void fake_graph_reset(void);
uint32_t fake_graph_held(void);
void fake_replay_destroy(struct fake_replay_t *replay); // may be NULL
// Whether a graph launch that the host has not waited for uses the module's code.
bool fake_graph_flies(uint64_t module);
bool fake_replay_uses(const struct fake_replay_t *replay, uint64_t module);
// A kernel that is running sets a condition. NULL: done; else what is wrong. `thread` is a number
// of the thread within the grid.
const char *fake_condition_set(uint64_t handle, uint32_t value, uint64_t thread);

#endif // DT_TESTS_FAKE_CUDA_FAKE_PRIVATE_H
