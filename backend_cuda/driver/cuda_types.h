// SPDX-License-Identifier: Apache-2.0
// The driver API's types as its binary interface fixes them (CUDA 12.4 to 13.x, x86-64), so that
// nothing of CUDA is needed to build. Names say what the driver calls them; layouts are asserted
// where a struct crosses the boundary. Source: the driver API reference of CUDA 13.
#ifndef DT_BACKEND_CUDA_DRIVER_CUDA_TYPES_H
#define DT_BACKEND_CUDA_DRIVER_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int dt_cu_result_t;   // CUresult; 0 is success
typedef int dt_cu_device_t;   // CUdevice: an ordinal
typedef uint64_t dt_cu_ptr_t; // CUdeviceptr
typedef struct CUctx_st *dt_cu_context_t;
typedef struct CUstream_st *dt_cu_stream_t;
typedef struct CUevent_st *dt_cu_event_t;
typedef struct CUmod_st *dt_cu_module_t;
typedef struct CUfunc_st *dt_cu_function_t;
typedef struct CUlinkState_st *dt_cu_link_t;
typedef struct CUmemPoolHandle_st *dt_cu_pool_t;
typedef uint64_t dt_cu_mem_t; // CUmemGenericAllocationHandle
typedef struct CUgraph_st *dt_cu_graph_t;
typedef struct CUgraphNode_st *dt_cu_node_t;
typedef struct CUgraphExec_st *dt_cu_graph_exec_t;
typedef uint64_t dt_cu_condition_t; // CUgraphConditionalHandle

// Results that are told apart (CUresult).
enum {
  DT_CU_SUCCESS = 0,
  DT_CU_INVALID_VALUE = 1,
  DT_CU_OUT_OF_MEMORY = 2,
  DT_CU_NOT_INITIALIZED = 3,
  DT_CU_DEINITIALIZED = 4,
  DT_CU_STUB_LIBRARY = 34,
  DT_CU_NO_DEVICE = 100,
  DT_CU_INVALID_DEVICE = 101,
  DT_CU_INVALID_CONTEXT = 201,
  DT_CU_INVALID_PTX = 218,
  DT_CU_NOT_FOUND = 500,
  DT_CU_NOT_READY = 600,
  DT_CU_ILLEGAL_ADDRESS = 700,
  DT_CU_LAUNCH_OUT_OF_RESOURCES = 701,
  DT_CU_LAUNCH_FAILED = 719,
  DT_CU_NOT_SUPPORTED = 801,
  DT_CU_INVALID_CLUSTER_SIZE = 912,
  DT_CU_UNKNOWN = 999,
};

// CUdevice_attribute.
enum {
  DT_CU_ATTR_THREADS_PER_BLOCK = 1,
  DT_CU_ATTR_WARP_SIZE = 10,
  DT_CU_ATTR_REGISTERS_PER_BLOCK = 12,
  DT_CU_ATTR_PROCESSORS = 16,
  DT_CU_ATTR_L2_BYTES = 38,
  DT_CU_ATTR_CAPABILITY_MAJOR = 75,
  DT_CU_ATTR_CAPABILITY_MINOR = 76,
  DT_CU_ATTR_MEMORY_KHZ = 36,
  DT_CU_ATTR_MEMORY_BITS = 37,
  DT_CU_ATTR_THREADS_PER_PROCESSOR = 39,
  DT_CU_ATTR_SHARED_PER_PROCESSOR = 81,
  DT_CU_ATTR_SHARED_PER_BLOCK = 97, // with the function attribute that asks for it
  DT_CU_ATTR_VIRTUAL_MEMORY = 102,
  DT_CU_ATTR_MEMORY_POOLS = 115,
};

// CUfunction_attribute.
enum {
  DT_CU_FUNC_SHARED_BYTES = 1,
  DT_CU_FUNC_LOCAL_BYTES = 3,
  DT_CU_FUNC_REGISTERS = 4,
  DT_CU_FUNC_MAX_DYNAMIC_SHARED = 8,
};

// CUstream_flags, CUevent_flags, CUmemHostAlloc flags.
enum { DT_CU_STREAM_NON_BLOCKING = 1 };
enum { DT_CU_EVENT_BLOCKING = 1, DT_CU_EVENT_NO_TIMING = 2 };
enum { DT_CU_HOST_PORTABLE = 1, DT_CU_HOST_MAPPED = 2 };

// CUjit_option and CUjitInputType.
enum {
  DT_CU_JIT_INFO_LOG = 3,
  DT_CU_JIT_INFO_LOG_BYTES = 4,
  DT_CU_JIT_ERROR_LOG = 5,
  DT_CU_JIT_ERROR_LOG_BYTES = 6,
  DT_CU_JIT_OPTIMIZATION_LEVEL = 7,
};
enum { DT_CU_JIT_CUBIN = 0, DT_CU_JIT_PTX = 1 };

// CUpointer_attribute.
enum {
  DT_CU_POINTER_CONTEXT = 1,
  DT_CU_POINTER_MEMORY_TYPE = 2, // uint32_t: 1 host, 2 device
  DT_CU_POINTER_DEVICE = 9,      // int32_t: ordinal
  DT_CU_POINTER_RANGE_START = 11,
  DT_CU_POINTER_RANGE_SIZE = 12,
};

// CUlaunchAttribute: the value is a union of 64 bytes, of which these members are used.
enum { DT_CU_LAUNCH_PROGRAMMATIC = 6 };
typedef struct dt_cu_launch_attr_t {
  int32_t id;
  char pad[4];
  union {
    char bytes[64];
    int32_t programmatic; // programmaticStreamSerializationAllowed
  } value;
} dt_cu_launch_attr_t;
_Static_assert(sizeof(dt_cu_launch_attr_t) == 72, "CUlaunchAttribute");

typedef struct dt_cu_launch_config_t { // CUlaunchConfig
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  dt_cu_stream_t stream;
  dt_cu_launch_attr_t *attrs;
  uint32_t n_attrs;
} dt_cu_launch_config_t;
_Static_assert(offsetof(dt_cu_launch_config_t, stream) == 32 && sizeof(dt_cu_launch_config_t) == 56,
               "CUlaunchConfig");

// Virtual memory: CUmemLocation, CUmemAllocationProp, CUmemAccessDesc.
typedef struct dt_cu_location_t {
  int32_t type; // 1: device
  int32_t id;
} dt_cu_location_t;
typedef struct dt_cu_mem_prop_t {
  int32_t type; // 1: pinned
  int32_t handle_types;
  dt_cu_location_t location;
  void *win32;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
} dt_cu_mem_prop_t;
_Static_assert(sizeof(dt_cu_mem_prop_t) == 32, "CUmemAllocationProp");
typedef struct dt_cu_pool_prop_t { // CUmemPoolProps
  int32_t type;                    // 1: pinned
  int32_t handle_types;
  dt_cu_location_t location;
  void *win32;
  size_t most_bytes; // 0: as many as there are
  unsigned short usage;
  unsigned char reserved[54];
} dt_cu_pool_prop_t;
_Static_assert(sizeof(dt_cu_pool_prop_t) == 88, "CUmemPoolProps");
enum { DT_CU_POOL_RELEASE_THRESHOLD = 4 }; // CUmemPool_attribute: uint64_t, bytes
typedef struct dt_cu_access_t {
  dt_cu_location_t location;
  int32_t flags; // 3: read and write
} dt_cu_access_t;
_Static_assert(sizeof(dt_cu_access_t) == 12, "CUmemAccessDesc");

// ---- Graphs -------------------------------------------------------------------------------------
typedef struct dt_cu_kernel_node_t { // CUDA_KERNEL_NODE_PARAMS_v2
  dt_cu_function_t function;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  void **params; // copied where a node is made or set
  void **extra;
  void *kernel; // instead of `function`
  dt_cu_context_t context;
} dt_cu_kernel_node_t;
_Static_assert(offsetof(dt_cu_kernel_node_t, params) == 40 && sizeof(dt_cu_kernel_node_t) == 72,
               "CUDA_KERNEL_NODE_PARAMS_v2");

// A dependency (CUgraphEdgeData). Programmatic, from that port: what comes after may begin when all
// blocks of what is before have let it (griddepcontrol.launch_dependents), and waits by itself.
enum { DT_CU_EDGE_FULL = 0, DT_CU_EDGE_PROGRAMMATIC = 1 };
enum { DT_CU_PORT_DEFAULT = 0, DT_CU_PORT_PROGRAMMATIC = 1 };
typedef struct dt_cu_edge_t {
  uint8_t from_port, to_port, type;
  uint8_t reserved[5];
} dt_cu_edge_t;
_Static_assert(sizeof(dt_cu_edge_t) == 8, "CUgraphEdgeData");

// CUgraphNodeType and CUgraphConditionalNodeType: those in use.
enum { DT_CU_NODE_KERNEL = 0, DT_CU_NODE_CONDITIONAL = 13 };
enum { DT_CU_CONDITION_IF = 0, DT_CU_CONDITION_WHILE = 1, DT_CU_CONDITION_SWITCH = 2 };
enum { DT_CU_CONDITION_ASSIGN_DEFAULT = 1 }; // a flag: set to the default at each launch
typedef struct dt_cu_condition_node_t {      // CUDA_CONDITIONAL_NODE_PARAMS
  dt_cu_condition_t condition;
  int32_t type;
  uint32_t n;            // of bodies: 1; IF with 2 has an else; SWITCH as many as there are
  dt_cu_graph_t *bodies; // out: n graphs, the driver's
  dt_cu_context_t context;
} dt_cu_condition_node_t;
_Static_assert(sizeof(dt_cu_condition_node_t) == 32, "CUDA_CONDITIONAL_NODE_PARAMS");
typedef struct dt_cu_node_params_t { // CUgraphNodeParams
  int32_t type;
  int32_t reserved[3];
  union {
    int64_t words[29];
    dt_cu_condition_node_t condition;
  } of;
  int64_t reserved_too;
} dt_cu_node_params_t;
_Static_assert(sizeof(dt_cu_node_params_t) == 256, "CUgraphNodeParams");

#endif // DT_BACKEND_CUDA_DRIVER_CUDA_TYPES_H
