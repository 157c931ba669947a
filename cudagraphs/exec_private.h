// SPDX-License-Identifier: Apache-2.0
// Shared by exec.c, which sets nodes, and build.c, which assembles them.
#ifndef DT_CUDAGRAPHS_EXEC_PRIVATE_H
#define DT_CUDAGRAPHS_EXEC_PRIVATE_H

#include "cudagraphs/exec.h"

// A node is a kernel, or a mark of a region as the host program tells it (dt_region_mark_t). Marks
// where data decides have a kernel, too: it sets the condition to what the predicate is.
typedef enum dt_graph_kind_t {
  DT_GRAPH_IF = DT_MARK_IF,
  DT_GRAPH_ELSE = DT_MARK_ELSE,
  DT_GRAPH_ENDIF = DT_MARK_ENDIF,
  DT_GRAPH_WHILE = DT_MARK_WHILE,
  DT_GRAPH_AGAIN = DT_MARK_AGAIN,
  DT_GRAPH_SWITCH = DT_MARK_SWITCH,
  DT_GRAPH_CASE = DT_MARK_CASE,
  DT_GRAPH_ENDSWITCH = DT_MARK_ENDSWITCH,
  DT_GRAPH_KERNEL
} dt_graph_kind_t;

#define DT_GRAPH_MOST_CASES 64u // of a SWITCH

struct dt_graph_node_t {
  dt_graph_kind_t kind;
  dt_cu_node_t node;              // of the kernel; NULL: not in the graph yet
  dt_cu_condition_t condition;    // IF, WHILE, AGAIN, SWITCH: the graph's
  uint32_t n_cases;               // SWITCH
  const dt_cuda_kernel_t *kernel; // NULL: ELSE, ENDIF, CASE, ENDSWITCH
  uint32_t blocks, shared_bytes;
  uint32_t fit; // of such blocks, on a multiprocessor at once
  bool empty;   // its work is
  uint32_t n_params, cap;
  uint64_t *params; // as set
};

// form.c. Settles grid and shared memory for the node (NULL: there is none yet), where `ready` says
// what is of use; how many such blocks a multiprocessor holds at once. A form that would be better
// but is not needed is left as it is, and noted in frame->deferred, until an equal call.
uint32_t dt__graph_form(dt_graph_frame_t *frame, const dt_graph_node_t *node,
                        dt_cuda_ready_t *ready);
// build.c. Makes graph and executable of the nodes. Context current.
dt_status_t dt__graph_build(dt_graph_frame_t *frame) DT_MUST_USE;
// exec.c. Lets the driver's objects go; the nodes stay. Context current.
void dt__graph_drop(dt_graph_exec_t *exec);

#endif // DT_CUDAGRAPHS_EXEC_PRIVATE_H
