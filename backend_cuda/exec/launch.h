// SPDX-License-Identifier: Apache-2.0
// How kernels made by backend_cuda/emit are launched: the interface between generated PTX and
// backend_cuda/exec. No LLVM here.
//
// The host program of a variant is the same as on the CPU (backend_llvm/load/native.h): it plans
// sizes and calls `launch` for every kernel. On a GPU a frame's `kernels` point to dt_cuda_kernel_t
// instead of code, and `grain` says the bytes of scratch that one team needs in this call.
//
// A team is the group of threads that shares a grid item: one thread, one warp or one block. A
// block holds `teams` of them. Grid item i is taken by team i of the grid, which goes on in steps
// of all teams in the grid, so that any grid from one block on computes everything.
//
// A kernel whose info says `waits` has griddepcontrol.wait in all of its threads, on every path
// before it touches memory but parameters and constants, and before it ends (emit/early.h). It may
// then be launched with the attribute for it right after another such kernel of the same frame.
//
// An entry dt_k<code> is that code, or several that have the same words and threads, of which that
// is the first: the tail's `member` says which is to run. It has one parameter: `n_words` 64-bit
// words as in a CPU kernel (device addresses, then symbols), then a dt_cuda_tail_t. In programs of
// device sizes (lower/loop/loop.h) items are among the addresses instead of their symbols, and so
// is the kernel's gate: the entry loads them, ends where the gate is 0, and, where its grid depends
// on items, goes over as many grid items as these say; `count` is then only what the grid is for.
#ifndef DT_BACKEND_CUDA_EXEC_LAUNCH_H
#define DT_BACKEND_CUDA_EXEC_LAUNCH_H

#include "backend_cuda/driver/driver.h"

// What follows a kernel's words in its parameter block.
typedef struct dt_cuda_tail_t {
  int64_t count;    // grid items, or a bound of them
  uint64_t scratch; // global memory for LOCALs and SLABs, 64-byte aligned; 0: dynamic shared memory
  int64_t scratch_stride; // bytes from one team's scratch to the next: team t of the grid (global)
                          // or of the block (shared) has [t * stride, …)
  uint64_t record;        // dt_cuda_record_t in memory that the host sees; never 0
  uint64_t member;        // which of the entry's codes
} dt_cuda_tail_t;
#define DT_CUDA_TAIL_COUNT 0 // the words of the tail that `count` and `scratch` are
#define DT_CUDA_TAIL_SCRATCH 1
#define DT_CUDA_TAIL_WORDS ((uint32_t)(sizeof(dt_cuda_tail_t) / 8))
// The most bytes of parameters that a launch may have (compute capability 7.0 and up take more from
// CUDA 12.1 on).
#define DT_CUDA_PARAM_BYTES 4096

// Blocks of the largest cluster (dt_team_matmul_t), a multiple of any other's. Grids of more than
// one block are whole ones: those of kernels with clusters have to be, and a graph's node that has
// had such a kernel is launched in clusters also with another (seen with driver 580).
#define DT_CUDA_CLUSTER 8u

// The first failure of a data check in one call. Whoever claims it (0 → 1, atomic over the device)
// writes value and extent, makes them visible to the host, then writes check.
typedef struct dt_cuda_record_t {
  int64_t check;         // 0: none; else index into the program's checks, plus 1
  int64_t value, extent; // the offending index as loaded, and the size it must be below
  int64_t claim;
} dt_cuda_record_t;

// One kernel as its maker describes it.
typedef struct dt_cuda_kernel_info_t {
  uint32_t threads;      // of a block
  uint32_t teams;        // of a block; divides threads
  uint32_t n_words;      // before the tail
  uint32_t most_blocks;  // useful ones a multiprocessor, 0: as many as there are items
  uint32_t shared_bytes; // of dynamic shared memory that the kernel keeps for itself, in front of
                         // scratch; a multiple of 64
  uint32_t unit;         // in whose code it is
  uint32_t behind;       // codes from the first one that its entry has to it; 0: it is that one
  uint32_t member;       // which of the entry's it is
  bool waits;  // each thread waits for the work before it by itself, so that the kernel may be set
               // up early: while kernels run that let it (griddepcontrol, from sm_90 on)
  bool checks; // it uses the record; others are given one that nobody looks at
} dt_cuda_kernel_info_t;
// The same as numbers, in order.
#define DT_CUDA_INFO_WORDS 10u
void dt__cuda_info_write(const dt_cuda_kernel_info_t *info, uint32_t *out);
void dt__cuda_info_read(const uint32_t *words, dt_cuda_kernel_info_t *out);

// One kernel as it is launched.
typedef struct dt_cuda_kernel_t {
  dt_cuda_kernel_info_t info;
  dt_cu_function_t function;
  uint32_t static_shared; // bytes, of the kernel's own
  uint32_t registers;     // a thread
  uint32_t local_bytes;   // a thread: spills and stack
  uint32_t fit;           // blocks that a multiprocessor holds at once, without scratch
} dt_cuda_kernel_t;
// Blocks with `shared_bytes` of dynamic shared memory that a multiprocessor holds at once, at
// least 1.
uint32_t dt__cuda_resident(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                           uint32_t shared_bytes);

// ---- Code (code.c) ------------------------------------------------------------------------------
// PTX text of one unit, zero-terminated, and which kernels (code indices) it defines.
typedef struct dt_cuda_image_t {
  const char *text;
  size_t bytes; // without the zero
} dt_cuda_image_t;

// Loaded code of one variant on one device.
typedef struct dt_cuda_code_t dt_cuda_code_t;

// One unit's machine code. Both are owned.
typedef struct dt_cuda_unit_t {
  void *cubin;
  size_t bytes;
  dt_cu_module_t module; // loaded; NULL: not, or it belongs to a dt_cuda_code_t by now
} dt_cuda_unit_t;

// Makes a cubin of the image by the driver's linker (on the calling thread, which should be a
// compile thread: no launch waits for it), or finds it on disk, and loads it. DT_E_COMPILE with the
// linker's log; what the driver says. The caller ends *out also on failure.
dt_status_t dt__cuda_unit_make(dt_cuda_device_t *device, const dt_cuda_image_t *image,
                               dt_cuda_unit_t *out) DT_MUST_USE;
// Loads a unit that has a cubin.
dt_status_t dt__cuda_unit_load(dt_cuda_device_t *device, dt_cuda_unit_t *unit) DT_MUST_USE;
void dt__cuda_unit_fini(dt_cuda_device_t *device, dt_cuda_unit_t *unit);
// Takes the units' modules, cubins stay, and finds the entries of codes 0 … n-1 in them. On failure
// *out is NULL, and modules that were taken are gone.
dt_status_t dt__cuda_code_load(dt_cuda_device_t *device, dt_cuda_unit_t *units, uint32_t n_units,
                               const dt_cuda_kernel_info_t *kernels, uint32_t n_kernels,
                               dt_cuda_code_t **out) DT_MUST_USE;
// The same of one unit with one kernel, which has another name.
dt_status_t dt__cuda_code_load_entry(dt_cuda_device_t *device, dt_cuda_unit_t *unit,
                                     const dt_cuda_kernel_info_t *info, const char *entry,
                                     dt_cuda_code_t **out) DT_MUST_USE;
// Unloads. NULL allowed. No launch of it may be running.
void dt__cuda_code_unload(dt_cuda_code_t *code);
const dt_cuda_kernel_t *dt__cuda_code_kernel(const dt_cuda_code_t *code, uint32_t index);
size_t dt__cuda_code_bytes(const dt_cuda_code_t *code); // of the cubins

#endif // DT_BACKEND_CUDA_EXEC_LAUNCH_H
