// SPDX-License-Identifier: Apache-2.0
// Memory: what the results of a call will take, and what a runtime holds. Limits on it are options:
// max_call_bytes of a function, max_bytes and max_device_bytes of a runtime (function.h);
// dt_session_trim (graphs.h) gives back what a session holds.
#ifndef DUCTILE_MEMORY_H
#define DUCTILE_MEMORY_H

#include "ductile/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a result will be.
typedef struct dt_output_shape_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK]; // -1: the call's data decides
} dt_output_shape_t;

// The results' dtypes and sizes from those of the inputs alone: nothing is computed, and no data
// read but integer arguments. Compiles where dt_call would, and is refused as dt_call would be, but
// for what only data tells. shapes: `n_outputs` entries of `shape_bytes` each, which is
// sizeof(dt_output_shape_t). Nothing is written on failure. [external by session]
DT_API dt_status_t dt_function_output_sizes(dt_session_t *session, dt_function_t *function,
                                            dt_tensor_t *const *inputs, uint32_t n_inputs,
                                            dt_output_shape_t *shapes, size_t shape_bytes,
                                            uint32_t n_outputs) DT_MUST_USE;

// What a runtime holds that its limits are about. Set struct_size before asking; fields beyond it
// are left.
typedef struct dt_runtime_stats_t {
  uint32_t struct_size;
  uint64_t max_bytes; // the limit; 0: none
  // Held of the host's memory: graphs, code, packed constants, sessions, warm memory, and the
  // host's part of CUDA graphs, by estimate. What went and waits for work on a device is not in it.
  uint64_t bytes;
  uint64_t evicted_variants;     // that went for either limit's sake
  uint64_t evicted_bytes;        // of those, on the host
  uint64_t trims;                // times that an idle session's memory went
  uint64_t max_device_bytes;     // the limit; 0: none
  uint64_t device_bytes;         // the same of devices: code, constants, sessions, CUDA graphs
  uint64_t evicted_device_bytes; // of evicted variants, on devices
  uint64_t evicted_graphs;       // CUDA graphs that went, for DUCTILE_GRAPH_MIB's sake, too
} dt_runtime_stats_t;
DT_API dt_status_t dt_runtime_stats(dt_runtime_t *runtime,
                                    dt_runtime_stats_t *stats) DT_MUST_USE; // [any]

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_MEMORY_H
