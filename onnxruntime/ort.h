// SPDX-License-Identifier: Apache-2.0
// onnxruntime's C interface, as far as this project calls it: types, numbers, and two tables of
// functions by the places that they have in onnxruntime's own (ort_api.def, ort_ep.def). Nothing of
// onnxruntime is needed to build against it.
//
// A program opens the library, libonnxruntime.so.1, with dlopen, finds the function OrtGetApiBase
// (ort_get_base_fn_t) with dlsym, and gives what that returns to ort_take. A provider's library is
// given the same by onnxruntime, as CreateEpFactories' second argument. Tables of functions only
// grow at their ends, so whoever has version ORT_VERSION has all rows of that version at their
// places.
//
//   ort_api_t ort;
//   if (!ort_take(base, &ort)) …        // older than 1.23
//   ort_status_t *status = ort.CreateEnv(ORT_WARNING, "host", &env);
#ifndef DT_ONNXRUNTIME_ORT_H
#define DT_ONNXRUNTIME_ORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Of onnxruntime 1.23, the first with providers in libraries that compile parts of graphs.
#define ORT_VERSION 23u

// ---- Objects of onnxruntime's --------------------------------------------------------------------
typedef struct ort_status_t ort_status_t;
typedef struct ort_env_t ort_env_t;
typedef struct ort_session_t ort_session_t;
typedef struct ort_options_t ort_options_t; // of a session
typedef struct ort_run_options_t ort_run_options_t;
typedef struct ort_binding_t ort_binding_t;
typedef struct ort_value_t ort_value_t;
typedef struct ort_type_t ort_type_t;   // of a value
typedef struct ort_shape_t ort_shape_t; // a tensor's element type and dims
typedef struct ort_memory_t ort_memory_t;
typedef struct ort_allocator_t ort_allocator_t;
typedef struct ort_logger_t ort_logger_t;
typedef struct ort_pairs_t ort_pairs_t; // texts by keys
typedef struct ort_graph_t ort_graph_t;
typedef struct ort_node_t ort_node_t;
typedef struct ort_value_info_t ort_value_info_t; // a value's name and type in a graph
typedef struct ort_attr_t ort_attr_t;
typedef struct ort_device_t ort_device_t;                   // hardware
typedef struct ort_ep_device_t ort_ep_device_t;             // hardware for a provider
typedef struct ort_support_t ort_support_t;                 // what a provider takes of a graph
typedef struct ort_compute_context_t ort_compute_context_t; // while a node's state is made
typedef struct ort_call_t ort_call_t;                       // one call of a kernel

// ---- Numbers -------------------------------------------------------------------------------------
typedef enum ort_code_t {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_FILE = 3,
  ORT_ENGINE_ERROR = 5,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11,
} ort_code_t;

typedef enum ort_level_t {
  ORT_VERBOSE = 0,
  ORT_INFO = 1,
  ORT_WARNING = 2,
  ORT_ERROR = 3,
  ORT_FATAL = 4,
} ort_level_t;

typedef enum ort_kind_t { // of a value
  ORT_UNKNOWN = 0,
  ORT_TENSOR = 1,
  ORT_SEQUENCE = 2,
  ORT_MAP = 3,
  ORT_OPAQUE = 4,
  ORT_SPARSE = 5,
  ORT_OPTIONAL = 6,
} ort_kind_t;

typedef enum ort_element_t { // of a tensor; not ONNX's numbers from ORT_U2 on
  ORT_NONE = 0,
  ORT_F32 = 1,
  ORT_U8 = 2,
  ORT_I8 = 3,
  ORT_U16 = 4,
  ORT_I16 = 5,
  ORT_I32 = 6,
  ORT_I64 = 7,
  ORT_STRING = 8,
  ORT_BOOL = 9,
  ORT_F16 = 10,
  ORT_F64 = 11,
  ORT_U32 = 12,
  ORT_U64 = 13,
  ORT_C64 = 14,
  ORT_C128 = 15,
  ORT_BF16 = 16,
  ORT_F8E4M3FN = 17,
  ORT_F8E4M3FNUZ = 18,
  ORT_F8E5M2 = 19,
  ORT_F8E5M2FNUZ = 20,
  ORT_U4 = 21,
  ORT_I4 = 22,
  ORT_F4E2M1 = 23,
  ORT_U2 = 24,
  ORT_I2 = 25,
  ORT_F8E8M0 = 26,
} ort_element_t;

typedef enum ort_attr_type_t {
  ORT_ATTR_UNDEFINED = 0, // a type that is not handed out
  ORT_ATTR_INT = 1,
  ORT_ATTR_INTS = 2,
  ORT_ATTR_FLOAT = 3,
  ORT_ATTR_FLOATS = 4,
  ORT_ATTR_STRING = 5,
  ORT_ATTR_STRINGS = 6,
  ORT_ATTR_GRAPH = 7,
  ORT_ATTR_TENSOR = 8,
} ort_attr_type_t;

typedef enum ort_device_type_t { ORT_CPU = 0, ORT_GPU = 1, ORT_NPU = 2 } ort_device_type_t;
typedef enum ort_arena_t { ORT_DEVICE_ALLOCATOR = 0, ORT_ARENA_ALLOCATOR = 1 } ort_arena_t;
typedef enum ort_memory_kind_t { ORT_MEMORY_CPU = -1, ORT_MEMORY_DEFAULT = 0 } ort_memory_kind_t;
typedef enum ort_mode_t { ORT_SEQUENTIAL = 0, ORT_PARALLEL = 1 } ort_mode_t;
typedef enum ort_optimize_t {
  ORT_OPTIMIZE_NONE = 0,
  ORT_OPTIMIZE_BASIC = 1,
  ORT_OPTIMIZE_EXTENDED = 2,
  ORT_OPTIMIZE_LAYOUT = 3,
  ORT_OPTIMIZE_ALL = 99,
} ort_optimize_t;

// ---- What a provider is --------------------------------------------------------------------------
// onnxruntime calls these, and none that came after the version that each begins with. All are its
// own layouts: a struct of a provider's has one of them first. Functions that are not named are
// optional and NULL.
typedef struct ort_ep_t ort_ep_t;
typedef struct ort_ep_factory_t ort_ep_factory_t;
typedef struct ort_compute_t ort_compute_t;
typedef void (*ort_fn_t)(void); // any function

typedef struct ort_fusion_t {
  uint32_t version;
  // true: constants are not given to calls, and onnxruntime frees those that nobody else reads.
  bool drop_constants;
} ort_fusion_t;

struct ort_compute_t { // one node that was made of many
  uint32_t version;
  ort_status_t *(*CreateState)(ort_compute_t *self, ort_compute_context_t *context, void **out);
  ort_status_t *(*Compute)(ort_compute_t *self, void *state, ort_call_t *call); // by any thread
  void (*ReleaseState)(ort_compute_t *self, void *state);
};

struct ort_ep_t { // a provider of one session
  uint32_t version;
  const char *(*GetName)(const ort_ep_t *self);
  // The model's graph, and each graph within a node of it apart, the inner ones first.
  ort_status_t *(*GetCapability)(ort_ep_t *self, const ort_graph_t *graph, ort_support_t *support);
  // Graphs, nodes and their names are valid until it returns.
  ort_status_t *(*Compile)(ort_ep_t *self, const ort_graph_t **graphs, const ort_node_t **nodes,
                           size_t n, ort_compute_t **out, ort_node_t **out_context_nodes);
  void (*ReleaseNodeComputeInfos)(ort_ep_t *self, ort_compute_t **computes, size_t n);
  ort_fn_t unused[8];
};

struct ort_ep_factory_t {
  uint32_t version;
  const char *(*GetName)(const ort_ep_factory_t *self);
  const char *(*GetVendor)(const ort_ep_factory_t *self);
  ort_status_t *(*GetSupportedDevices)(ort_ep_factory_t *self, const ort_device_t *const *devices,
                                       size_t n, ort_ep_device_t **out, size_t most, size_t *out_n);
  // `options` are valid until it returns.
  ort_status_t *(*CreateEp)(ort_ep_factory_t *self, const ort_device_t *const *devices,
                            const ort_pairs_t *const *metadata, size_t n,
                            const ort_options_t *options, const ort_logger_t *logger,
                            ort_ep_t **out);
  void (*ReleaseEp)(ort_ep_factory_t *self, ort_ep_t *ep);
  uint32_t (*GetVendorId)(const ort_ep_factory_t *self);
  const char *(*GetVersion)(const ort_ep_factory_t *self);
  ort_fn_t unused_compatibility;
  ort_status_t *(*CreateAllocator)(ort_ep_factory_t *self, const ort_memory_t *memory,
                                   const ort_pairs_t *options, ort_allocator_t **out);
  void (*ReleaseAllocator)(ort_ep_factory_t *self, ort_allocator_t *allocator);
  ort_status_t *(*CreateDataTransfer)(ort_ep_factory_t *self, void **out);
  bool (*IsStreamAware)(const ort_ep_factory_t *self);
  ort_fn_t unused_stream;
};

// ---- Tables --------------------------------------------------------------------------------------
typedef struct ort_base_t {
  const ort_fn_t *(*GetApi)(uint32_t version); // the table; NULL and a line on stderr: it is older
  const char *(*GetVersionString)(void);       // "1.<version>.<patch>"
} ort_base_t;
typedef const ort_base_t *(*ort_get_base_fn_t)(void); // OrtGetApiBase

typedef struct ort_api_t {
  uint32_t version; // that it has
#define ORT(index, version, name, result, parameters) result(*name) parameters;
#include "onnxruntime/ort_api.def"
} ort_api_t;

typedef struct ort_ep_api_t {
#define ORT(index, version, name, result, parameters) result(*name) parameters;
#include "onnxruntime/ort_ep.def"
} ort_ep_api_t;

// The version of the interface that it has; 0: none that is read.
static inline uint32_t ort_version(const ort_base_t *base) {
  const char *text = base->GetVersionString();
  uint32_t version = 0;
  if (text[0] != '1' || text[1] != '.')
    return 0;
  for (text += 2; *text >= '0' && *text <= '9' && version < 10000; text++)
    version = 10 * version + (uint32_t)(*text - '0');
  return version;
}

// False: it has no version ORT_VERSION. Functions of versions that it does not have are NULL.
static inline bool ort_take(const ort_base_t *base, ort_api_t *out) {
  uint32_t has = ort_version(base);
  const ort_fn_t *table = has < ORT_VERSION ? NULL : base->GetApi(ORT_VERSION);
  memset(out, 0, sizeof(*out));
  out->version = has;
  if (!table)
    return false;
#define ORT(index, version, name, result, parameters)                                              \
  if (version <= has)                                                                              \
    out->name = (result(*) parameters)table[index];
#include "onnxruntime/ort_api.def"
  return true;
}

static inline void ort_take_ep(const ort_api_t *api, ort_ep_api_t *out) {
  const ort_fn_t *table = api->GetEpApi();
#define ORT(index, version, name, result, parameters)                                              \
  out->name = (result(*) parameters)table[index];
#include "onnxruntime/ort_ep.def"
}

#endif // DT_ONNXRUNTIME_ORT_H
