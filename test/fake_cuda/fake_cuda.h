// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that needs no GPU: a shared library with the functions of driver_syms.def, and this
// interface to direct it and to ask what went wrong. It models what the driver promises about
// contexts, memory, streams, events and code:
//
//  - device addresses are no host addresses, so that touching device memory from the host faults;
//  - work is queued and done as late as possible, in an order of the seed's choice among those that
//    waits allow, so that a missing wait gives wrong data;
//  - every access is kept with a vector clock: two that conflict and are unordered are a violation,
//    as are uses of freed or unmapped memory, frees under work in flight, unloads of queued
//    code, calls without a current context, and launches that the device would refuse;
//  - any call can be made to fail, at its n-th time, once or for ever after.
//
// In the environment, for programs that do not know this driver for what it is: FAKE_CUDA_STRICT=1
// (below), FAKE_CUDA_ARCH=80, 89 or 90 (the devices' compute capability; 90), FAKE_CUDA_KEEP=FOLDER
// (each PTX text that is taken is written there), FAKE_CUDA_PROCESSORS=N (fewer multiprocessors, so
// that grids are small).
//
// Code is PTX text. What a kernel does is a host function that a test registers for its name; a
// kernel with none is interpreted (ptx_*.c), and every access of its threads is checked: bounds,
// alignment, races, threads that wait for what cannot come. Safe to use from several threads.
#ifndef DT_TESTS_FAKE_CUDA_FAKE_CUDA_H
#define DT_TESTS_FAKE_CUDA_FAKE_CUDA_H

#include "backend_cuda/driver/driver.h"

#include <stdbool.h>

#define FAKE_API __attribute__((visibility("default")))

// Forgets everything: memory (freed or not), streams, modules, failures, violations. The seed
// decides orders of work. Call it only while nothing of the fake is in use.
FAKE_API void fake_cuda_reset(uint64_t seed);

// Multiprocessors that devices say they have from now on; 0: as after a reset.
FAKE_API void fake_cuda_processors(int n);

// ---- Failures -----------------------------------------------------------------------------------
// The n-th call of `sym` from now (0: the next) gives `result` instead of doing anything; with
// `sticky` so does every later call of every function but error_name and error_string, as after an
// error that the context does not survive.
FAKE_API void fake_cuda_fail(dt_cuda_sym_t sym, uint64_t n, dt_cu_result_t result, bool sticky);
// Calls of `sym` since the reset.
FAKE_API uint64_t fake_cuda_calls(dt_cuda_sym_t sym);

// ---- Kernels ------------------------------------------------------------------------------------
// A range of device memory that a kernel reads or writes, as device addresses.
typedef struct fake_access_t {
  dt_cu_ptr_t begin;
  size_t bytes;
  bool write;
} fake_access_t;

// What is launched. `param` holds the bytes of the parameters, each aligned as its declaration
// says, with device addresses.
typedef struct fake_launch_t {
  const char *name;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  bool programmatic; // launched with the programmatic attribute
  const unsigned char *param;
  size_t param_bytes;
} fake_launch_t;

typedef struct fake_kernel_t {
  // Writes at most `cap` accesses and returns how many there are. NULL: touches nothing.
  uint32_t (*accesses)(const fake_launch_t *launch, fake_access_t *out, uint32_t cap, void *user);
  // Does the work, at some time after the launch. NULL: does nothing.
  void (*run)(const fake_launch_t *launch, void *user);
  void *user;
} fake_kernel_t;

// For kernels of this name in any module; NULL for the name: those with none of their own, which
// are interpreted otherwise.
FAKE_API void fake_cuda_kernel(const char *name, const fake_kernel_t *kernel);
// The host address behind a device address inside live memory; NULL for any other.
FAKE_API void *fake_cuda_host(dt_cu_ptr_t ptr);

// ---- Interpreted kernels ------------------------------------------------------------------------
// The first violation of a launch names the kernel, the line with its text, the block, the thread
// and the address, and ends the launch. Blocks of a launch are unordered, fences or not: what one
// writes without an atomic operation no other may touch. A read of memory or of a register that
// was never written gives 0xcb in every byte.
// Whether conflicting accesses of unordered threads are violations. On after a reset.
FAKE_API void fake_cuda_racecheck(bool on);
// Instructions that threads have executed since the reset.
FAKE_API uint64_t fake_cuda_instructions(void);
// Why the last PTX was refused: the line and its text; "" when it was not.
FAKE_API const char *fake_ptx_error(void);

// ---- Launches that come early -------------------------------------------------------------------
// A launch with the programmatic attribute may begin as soon as the kernel before it has begun.
// Violations are: one that does not come right after a kernel that waits (griddepcontrol.wait); a
// thread of such a launch that touches global memory, or ends, before it has waited; and two pieces
// of a stream's work that conflict, of which the first need not have ended (fake_order.c).
// Pairs of conflicting pieces, of those between which launches came early, that were proved to be
// ordered or are not, and the launches that came early: since the reset, of work that was done.
// With FAKE_CUDA_TELL=1 in the environment they are printed when the process ends.
FAKE_API uint64_t fake_cuda_ordered(void);
FAKE_API uint64_t fake_cuda_unordered(void);
FAKE_API uint64_t fake_cuda_early(void);

// ---- Graphs -------------------------------------------------------------------------------------
// A launch of a graph is one piece of its stream's work, which does the nodes in an order of the
// seed's choice among those that the edges allow. Two nodes that touch a byte in common, one of
// them writing it, must be ordered by edges (fake_graph_order.c); setting a condition is a write,
// and a conditional node reads it. Violations are, besides that: handles of graphs that were
// destroyed; launches of executables with code that was unloaded, of nodes that are disabled, too,
// and unloading it before the host has waited for a launch; a condition that is used and neither
// has a default nor was set in that launch; different values for one condition from threads of one
// kernel.
typedef struct fake_graph_counts_t {
  uint64_t graphs;         // made
  uint64_t instantiations; // that worked
  // Kernels that were set: only arguments are new, or the grid, the block or shared bytes, too, or
  // the function.
  uint64_t set_arguments, set_grids, set_functions;
  uint64_t set_enabled, uploads, launches;
  uint64_t nodes_run;          // kernels, each time in a loop
  uint64_t programmatic;       // edges between kernels that ran
  uint64_t ordered, unordered; // pairs of nodes that conflict
  uint64_t live;               // executables
  uint64_t bytes;              // device memory of those, and of destroyed ones in flight
} fake_graph_counts_t;
// Since the reset. With FAKE_CUDA_TELL=1 in the environment some are printed when the process ends.
FAKE_API void fake_cuda_graphs(fake_graph_counts_t *out);
// Device memory that an executable takes, and each of its nodes, bodies' nodes included: of those
// that are made from now on (64 KiB and 1 KiB after a reset). More than `most` bytes together (0:
// no limit) are out of memory. They are not part of fake_cuda_bytes.
FAKE_API void fake_cuda_graph_memory(uint64_t an_exec, uint64_t a_node, uint64_t most);

// ---- Time ---------------------------------------------------------------------------------------
// What a device needs for its work, by the clock that events read: for a kernel, also as a node of
// a graph, for an event, and for each byte of a copy or fill a nanosecond. An event has the time at
// which its turn came.
#define FAKE_KERNEL_NS 2000u
#define FAKE_EVENT_NS 10u

// ---- What went wrong ----------------------------------------------------------------------------
// With FAKE_CUDA_STRICT=1 in the environment the first one is printed and ends the process.
// Violations since the reset, and the first one's text ("" when none).
FAKE_API uint32_t fake_cuda_violations(const char **out_first);
// What is still held: allocations, pools, ranges, mappings, streams, events, modules, links,
// contexts, graphs but for bodies, executables.
FAKE_API uint32_t fake_cuda_held(void);
FAKE_API uint64_t fake_cuda_bytes(void);     // device memory held now
FAKE_API uint64_t fake_cuda_pool_keep(void); // the release threshold of a pool, as last set

#endif // DT_TESTS_FAKE_CUDA_FAKE_CUDA_H
