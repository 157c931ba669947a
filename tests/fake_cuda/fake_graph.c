// SPDX-License-Identifier: Apache-2.0
// Graphs of the fake driver.
#include "tests/fake_cuda/fake_private.h"

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define STUB(name, symbol, params)                                                                 \
  dt_cu_result_t symbol params {                                                                   \
    FAKE_ENTER(name, FAKE_IN_CONTEXT);                                                             \
    return fake_leave(DT_CU_NOT_SUPPORTED);                                                        \
  }
#pragma GCC diagnostic ignored "-Wunused-parameter"
STUB(graph_create, cuGraphCreate, (dt_cu_graph_t * out, uint32_t flags))
STUB(graph_destroy, cuGraphDestroy, (dt_cu_graph_t graph))
STUB(graph_add_kernel, cuGraphAddKernelNode_v2,
     (dt_cu_node_t * out, dt_cu_graph_t graph, const dt_cu_node_t *after, size_t n_after,
      const dt_cu_kernel_node_t *params))
STUB(graph_add_node, cuGraphAddNode_v2,
     (dt_cu_node_t * out, dt_cu_graph_t graph, const dt_cu_node_t *after, const dt_cu_edge_t *edges,
      size_t n_after, dt_cu_node_params_t *params))
STUB(graph_add_edges, cuGraphAddDependencies_v2,
     (dt_cu_graph_t graph, const dt_cu_node_t *from, const dt_cu_node_t *to,
      const dt_cu_edge_t *edges, size_t n))
STUB(graph_condition, cuGraphConditionalHandleCreate,
     (dt_cu_condition_t * out, dt_cu_graph_t graph, dt_cu_context_t context, uint32_t value,
      uint32_t flags))
STUB(graph_instantiate, cuGraphInstantiateWithFlags,
     (dt_cu_graph_exec_t * out, dt_cu_graph_t graph, uint64_t flags))
STUB(graph_exec_destroy, cuGraphExecDestroy, (dt_cu_graph_exec_t exec))
STUB(graph_set_kernel, cuGraphExecKernelNodeSetParams_v2,
     (dt_cu_graph_exec_t exec, dt_cu_node_t node, const dt_cu_kernel_node_t *params))
STUB(graph_set_enabled, cuGraphNodeSetEnabled,
     (dt_cu_graph_exec_t exec, dt_cu_node_t node, uint32_t enabled))
STUB(graph_upload, cuGraphUpload, (dt_cu_graph_exec_t exec, dt_cu_stream_t stream))
STUB(graph_launch, cuGraphLaunch, (dt_cu_graph_exec_t exec, dt_cu_stream_t stream))
