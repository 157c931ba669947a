// SPDX-License-Identifier: Apache-2.0
// The PTX simulator's state while a launch runs, and the functions that instructions name.
#ifndef DT_TESTS_FAKE_CUDA_PTX_RUN_H
#define DT_TESTS_FAKE_CUDA_PTX_RUN_H

#include "test/fake_cuda/fake_private.h"
#include "test/fake_cuda/ptx.h"

#define PTX_CARRY ((int32_t)PTX_SPECIAL_COUNT)
#define PTX_SINK ((int32_t)PTX_SPECIAL_COUNT + 1)
#define PTX_WARPS 64 // of a block, and of all blocks of a cluster
#define PTX_BARRIERS 16
#define PTX_BLOCKS 8 // of a cluster
// What block r of a cluster has at a place of its shared memory is at PTX_BESIDE(r) + place.
#define PTX_BESIDE(rank) ((uint64_t)((rank) + 1) << 24)
#define PTX_PAGE 4096
#define PTX_ALL UINT32_MAX

// ---- Shadow of memory (ptx_shadow.c) ----------------------------------------------------------------
// Who wrote a unit of memory last, and who read it since. Threads are numbered over the grid from
// 1; times are their warps'.
typedef struct ptx_cell_t {
  uint32_t writer, write_time; // the time's lowest bit: an atomic access
  uint32_t reader[2], read_time[2];
} ptx_cell_t;
typedef struct ptx_page_t {
  uint64_t number; // address / PTX_PAGE
  uint32_t unit;   // bytes a cell: 4 until a smaller access, then 1
  ptx_cell_t *cells;
  uint64_t read[PTX_PAGE / 64], written[PTX_PAGE / 64]; // a bit a byte
  uint64_t early[PTX_PAGE / 64]; // of those read: before the thread waited for earlier work
} ptx_page_t;
typedef struct ptx_shadow_t {
  ptx_page_t **table; // by a hash of the number
  uint32_t size, n;
  ptx_page_t *last;
} ptx_shadow_t;
typedef enum ptx_touch_t { PTX_READ = 0, PTX_WRITE = 1, PTX_STRONG = 2 } ptx_touch_t; // bits

// ---- Warps ------------------------------------------------------------------------------------------
typedef struct ptx_async_t { // a copy under way
  uint64_t to;
  const unsigned char *from;
  uint8_t bytes, valid; // the rest is filled with zeros
  uint32_t group;
  const ptx_insn_t *in;
} ptx_async_t;
typedef struct ptx_asyncs_t { // of a thread
  ptx_async_t *list;
  uint32_t n, group; // that is being filled
} ptx_asyncs_t;

// A product of a group of warps under way.
typedef struct ptx_product_t {
  const ptx_insn_t *in;
  uint64_t a, b; // descriptors
  bool adds;
  uint32_t group;
} ptx_product_t;
typedef struct ptx_products_t { // of a warp
  ptx_product_t *list;
  uint32_t n, group; // that is being filled
  bool fenced;       // since it last waited
} ptx_products_t;

struct ptx_warp_t {
  ptx_run_t *run;
  uint64_t *regs;         // slot * PTX_LANES + lane
  uint32_t index;         // in the cluster
  uint32_t rank;          // of its block there
  uint32_t first_thread;  // in the block
  uint32_t exists, alive; // lanes
  uint32_t waiting;       // at a meeting of lanes
  uint32_t barred;        // at a barrier of the block
  uint32_t waited;        // for the kernels before (griddepcontrol.wait)
  uint32_t pc[PTX_LANES];
  uint32_t need[PTX_LANES];       // members of the meeting where the lane waits
  uint8_t barrier[PTX_LANES];     // PTX_BARRIERS: the cluster's
  uint32_t arrived;               // lanes that have to wait for the cluster's barrier yet
  uint32_t arrived_at[PTX_LANES]; // how often it had opened then
  uint32_t bias;                  // lanes from here on go first, for the sake of fairness
  uint32_t jumped;                // lanes whose pc the instruction has set
  uint32_t time;
  uint32_t all_met;                   // when all lanes last met
  uint32_t met[PTX_LANES][PTX_LANES]; // when two lanes last did
  uint32_t known[PTX_WARPS];          // up to when other warps' work is before ours
  ptx_asyncs_t asyncs[PTX_LANES];
  ptx_products_t products;
  uint32_t fenced[PTX_LANES]; // time of the last fence.proxy.async
};

typedef struct ptx_barrier_t {
  uint32_t arrived, expected; // threads; expected 0: all
  bool used, counted;
  uint32_t line;
  uint32_t known[PTX_WARPS];
  uint32_t true_count; // of a reduction
} ptx_barrier_t;

// The cluster's barrier: at which all its threads arrive, and which they wait for later.
typedef struct ptx_meeting_t {
  uint32_t arrived, opened;                   // threads; times
  uint32_t known[PTX_WARPS], open[PTX_WARPS]; // by those that have arrived; when it opened last
} ptx_meeting_t;

// Memory that the device may use, as it is when the launch runs.
typedef struct ptx_range_t {
  dt_cu_ptr_t begin, end;
  unsigned char *host;
  bool constant;
} ptx_range_t;

struct ptx_run_t {
  const ptx_module_t *module;
  const ptx_function_t *entry;
  const fake_launch_t *launch;
  ptx_range_t *ranges;
  uint32_t n_ranges;
  uint32_t *hints; // an instruction's last range
  ptx_shadow_t global, shared;
  uint64_t *constants; // a value a lane
  uint64_t *regs;
  unsigned char *shared_memory, *local_memory;
  uint32_t shared_bytes, shared_used; // of a block; up to where one has written
  ptx_warp_t *warps;
  uint32_t cluster;            // blocks that run together, of whole warps where they are several
  uint32_t n_warps, n_threads; // of all of them; of a block
  uint32_t alive, block_alive[PTX_BLOCKS]; // threads
  uint32_t block[PTX_BLOCKS][3];
  uint64_t block_number, n_blocks; // of the cluster's first block; that have begun
  uint32_t first_number;           // of the cluster's threads, from 1
  ptx_barrier_t barriers[PTX_BLOCKS][PTX_BARRIERS];
  ptx_meeting_t meeting;
  bool racecheck, stopped;
  bool hasty; // a thread has ended that did not wait for the work before the launch
  uint32_t races;
  uint64_t instructions, steps;
};

static inline uint64_t *ptx_out(ptx_warp_t *warp, int32_t slot) {
  return warp->regs + (size_t)slot * PTX_LANES;
}
static inline const uint64_t *ptx_in(const ptx_warp_t *warp, int32_t slot) {
  return slot >= 0 ? warp->regs + (size_t)slot * PTX_LANES
                   : warp->run->constants + (size_t)~slot * PTX_LANES;
}
#define PTX_EACH(lane, mask)                                                                       \
  for (uint32_t lanes_ = (mask), lane; lanes_ && ((lane = (uint32_t)__builtin_ctz(lanes_)), 1);    \
       lanes_ &= lanes_ - 1)

// ---- Running (ptx_run.c, ptx_launch.c) ----------------------------------------------------------------
void ptx_run_block(ptx_run_t *run);
// Opens the barriers at which all have arrived.
void ptx_try_barriers(ptx_run_t *run);
// A violation at an instruction of a thread; the launch stops.
void ptx_violation(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Whether a launch may come to a function: its entry, and all that are none.
bool ptx_takes_part(const ptx_run_t *run, const ptx_function_t *f);
void ptx_name_address(const ptx_run_t *run, uint64_t address, char *out, size_t bytes);

// ---- Memory (ptx_memory.c, ptx_shadow.c) -------------------------------------------------------------
// The host address of `bytes` at a device address, checked and noted; NULL: a violation.
unsigned char *ptx_at(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, ptx_space_t space,
                      uint64_t address, uint32_t bytes, uint32_t touch);
ptx_page_t *ptx_page(ptx_shadow_t *shadow, uint64_t address, bool cells);
void ptx_touch(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, bool shared, uint64_t address,
               uint32_t bytes, uint32_t touch);
// That what was read just now was read before the thread waited for the work before the launch.
void ptx_note_early(ptx_run_t *run, uint64_t address, uint32_t bytes);
void ptx_shadow_destroy(ptx_shadow_t *shadow);
// The lanes of `mask` have met: what they did before is before what they do next.
void ptx_order_lanes(ptx_warp_t *warp, uint32_t mask);

// ---- What instructions do -------------------------------------------------------------------------
#define PTX_EXEC(name) void ptx_exec_##name(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask);
#include "test/fake_cuda/ptx_execs.def"
#define PTX_MEMBERS(name)                                                                          \
  uint32_t ptx_members_##name(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane);
#include "test/fake_cuda/ptx_execs.def"

// ---- Numbers (ptx_number.c) -----------------------------------------------------------------------
double ptx_round_to(double x, ptx_type_t type, ptx_round_t round); // to the nearest of the type
uint64_t ptx_encode(double x, ptx_type_t type, ptx_round_t round); // as the type's bits
double ptx_decode_float(uint64_t bits, ptx_type_t type);
float ptx_float(uint64_t bits);
uint64_t ptx_float_bits(float x);                   // NaN: the device's
uint64_t ptx_flush(uint64_t bits, ptx_type_t type); // denormals to zero

#endif // DT_TESTS_FAKE_CUDA_PTX_RUN_H
