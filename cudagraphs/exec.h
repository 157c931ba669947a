// SPDX-License-Identifier: Apache-2.0
// Executable graphs: one for each place that a variant's program has in a session's tree. A graph
// is assembled node by node from the launches that the host program passes to frame->launch, never
// captured. For later calls with other sizes and addresses the same host program runs: each kernel
// is compared with the node's shadow copy, and a node is set only if something changed.
//
// A grid need not fit its work: blocks without work return, and blocks go on to further items.
// Setting a grid costs the launch more than a few idle blocks do (docs/graphs.md has the figures).
// So a call of new sizes leaves grids as they are, and later calls of the same sizes set them
// (form.c).
//
// Setting a function costs as much. If a call of new sizes needs many other functions than the
// nodes have, plain launches in the place and memory of its graph are faster. The next call of the
// same sizes sets the nodes.
#ifndef DT_CUDAGRAPHS_EXEC_H
#define DT_CUDAGRAPHS_EXEC_H

#include "backend_cuda/exec/session.h"
#include "fuse/edges.h"

// What an executable is estimated to take for each kernel, of the device's memory and of the
// host's: nodes and shadows are less than half of that, and the driver does not say what it takes.
// bench/bench_graphs.c, case memory, has what a device's used memory grows by beside it:
// `scripts/test-gpu run bench-graphs`.
#define DT_GRAPH_NODE_BYTES ((size_t)5 << 10)
#define DT_GRAPH_NODE_HOST_BYTES ((size_t)1 << 10)

typedef struct dt_graph_node_t dt_graph_node_t;
struct dt_graph_store_t;

typedef struct dt_graph_exec_t {
  _Atomic uint32_t refs; // the store's, and its holder's
  // 0: idle; 1: its holder's thread is inside; 2: gone, whoever holds it lets go of it.
  _Atomic uint32_t state;
  // Guarded by the store's mutex.
  struct dt_graph_exec_t *next, **link; // in the store
  bool held;                            // by a session
  // Of the thread inside, or of whoever made it gone.
  dt_cuda_gpu_t *gpu; // a reference
  uint64_t variant;   // whose program it runs
  dt_cu_graph_t graph;
  dt_cu_graph_exec_t exec; // NULL: not assembled
  dt_graph_node_t *nodes;
  uint32_t n, cap;
  uint32_t n_built; // of the nodes: the executable's; the others came since
  uint64_t *key;    // what the nodes were last set for; n_key 0: not known
  uint32_t n_key, key_cap;
  uint64_t direct; // the sizes, as a hash, of a call whose kernels were launched one by one; or 0
  bool deferred;   // not all forms are what is best for it
  _Atomic int64_t used;  // when its holder last left it, ns
  _Atomic uint64_t tick; // of its last use, as whoever uses it counts time
  size_t bytes;          // of the device, as estimated; the store's budget has them
} dt_graph_exec_t;

// What happened in one session, or in one call.
typedef struct dt_graph_counts_t {
  uint64_t builds, build_ns; // executables assembled
  uint64_t replays;          // launches of one
  uint64_t unchanged;        // of these, with nothing to compare
  uint64_t direct;           // calls whose kernels were launched one by one
  uint64_t nodes_set, grids_set, shared_set, functions_set;
} dt_graph_counts_t;

// A frame whose kernels go to a graph's nodes.
typedef struct dt_graph_frame_t {
  dt_cuda_launch_frame_t launch; // first
  dt_graph_exec_t *exec;
  uint32_t at;            // the node that the next kernel goes to
  uint32_t others;        // of the kernels compared: whose node has another function
  uint32_t forms_left;    // that may still be set without need
  bool equal;             // the call before was of the same key
  bool deferred;          // forms were left as they were: an equal call sets them
  bool set_early;         // edges are programmatic where kernels wait by themselves
  const dt_edge_t *edges; // between nodes, sorted by `to`; none: each is behind the one before it
  uint32_t n_edges;
  dt_graph_counts_t *counts;
} dt_graph_frame_t;

// frame->launch of a dt_graph_frame_t: compares with the node, sets it, or notes a new node. The
// device's context is current.
void dt__graph_take(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                    int64_t grain);

// frame->region of a dt_graph_frame_t.
void dt__graph_region(dt_frame_t *frame, int64_t mark, const void *predicate);

// frame->launch and frame->region that set nothing: how many kernels are others than their nodes'
// (frame->others; UINT32_MAX: not to be compared). An executable that is whole.
void dt__graph_compare(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                       int64_t grain);
void dt__graph_compare_region(dt_frame_t *frame, int64_t mark, const void *predicate);

// Whether the nodes were last set for exactly this key: the host program need not run.
bool dt__graph_is_set_for(const dt_graph_exec_t *exec, const uint64_t *key, uint32_t n);
// Before the host program is run with dt__graph_take, for this key.
void dt__graph_begin(dt_graph_frame_t *frame, const uint64_t *key, uint32_t n);
// The host program has run: whether the executable has a node for each of its kernels. Where it has
// not, dt__graph_settle assembles another, or dt__graph_cut leaves it as it is.
bool dt__graph_is_whole(const dt_graph_exec_t *exec);
// Forgets kernels that the executable has no nodes for.
void dt__graph_cut(dt_graph_exec_t *exec);
// Context current for what follows. The host program has run: gives nodes that it did not come to
// empty work, assembles the graph where it is not whole, and notes the key. DT_E_NO_MEMORY and
// others; the executable stays consistent.
dt_status_t dt__graph_settle(dt_graph_frame_t *frame, const uint64_t *key, uint32_t n) DT_MUST_USE;
dt_status_t dt__graph_launch(dt_graph_frame_t *frame) DT_MUST_USE;
// Whether there is an executable, if perhaps of fewer nodes.
bool dt__graph_is_built(const dt_graph_exec_t *exec);
// Lets the driver's objects and the nodes go; the executable can be built anew. Makes the context
// current itself.
void dt__graph_unbuild(dt_graph_exec_t *exec);

#endif // DT_CUDAGRAPHS_EXEC_H
