// SPDX-License-Identifier: Apache-2.0
// Inputs that lie on the host, in calls of a session on a device: where they go in the session's
// memory is settled before guards look at them, so that guards, variants, graphs and messages see
// tensors of the device. They are copied once the variant is known, by way of pinned memory and in
// the order of the session's stream: all of them at once where they are small.
#ifndef DT_BACKEND_CUDA_PLACE_STAGED_H
#define DT_BACKEND_CUDA_PLACE_STAGED_H

#include "backend_cuda/exec/gpu.h"
#include "runtime/tensor/tensor.h"

struct dt_call_t;
struct dt_variant_t;

// Valid when zeroed. The session's.
typedef struct dt_staged_t {
  dt_cuda_region_t region;   // one behind the other; the next call's take their place
  struct dt_tensor *tensors; // by input; those that are staged stand for the caller's
  dt_tensor_t **inputs;      // what a call is made with instead of what it was given
  uint32_t cap;
  uint32_t n;                     // staged inputs of the call that is being made
  size_t bytes;                   // where the last of them ends in the region
  dt_tensor_t *const *given;      // the caller's
  uint64_t all_inputs, all_bytes; // copied so far
} dt_staged_t;

// Replaces call->inputs where some are on the host that should be on the device. DT_E_UNSUPPORTED
// under a capture, DT_E_NO_MEMORY. Context current.
dt_status_t dt__stage_place(struct dt_call_t *call) DT_MUST_USE;
// Queues the copies; the host's memory has been read when this returns. DT_E_ARGUMENT where the
// variant writes to one of the inputs. Context current.
dt_status_t dt__stage_copy(const struct dt_call_t *call,
                           const struct dt_variant_t *variant) DT_MUST_USE;
void dt__staged_fini(dt_staged_t *staged, dt_cuda_gpu_t *gpu); // nothing may use it

#endif // DT_BACKEND_CUDA_PLACE_STAGED_H
