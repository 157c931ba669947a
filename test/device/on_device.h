// SPDX-License-Identifier: Apache-2.0
// The same test on the CPU and on a device: DUCTILE_TEST_DEVICE in its environment, as
// dt_device_parse takes it, makes sessions there, and tensors travel there and back. Without it
// everything here is the CPU's and nothing is copied.
#ifndef DT_TESTS_DEVICE_ON_DEVICE_H
#define DT_TESTS_DEVICE_ON_DEVICE_H

#include "ductile/ductile.h"
#include "ductile/experimental.h"

bool on_device(void); // the tests run on a device
// Calls run there as CUDA graphs: DUCTILE_REDUCE_OVERHEAD=1 as well.
bool on_device_graphs(void);
// Whether all calls of the function were graphs, but for those that read numbers back, and those of
// programs without kernels. Fills *out_graphs; where it is false, *out_why says why.
bool on_device_were_graphs(const dt_function_counters_t *stats, uint64_t *out_graphs,
                           const char **out_why);

// A session where the tests run.
dt_status_t on_device_session(dt_runtime_t *runtime, dt_session_t **out) DT_MUST_USE;
// A tensor with the elements and strides of `host` where the tests run: the caller's, and on the
// CPU a reference to `host` itself.
dt_status_t on_device_take(dt_session_t *session, dt_tensor_t *host, dt_tensor_t **out) DT_MUST_USE;
// The other way: a host tensor of the caller's with the elements of a contiguous one; waits for the
// session.
dt_status_t on_device_bring(dt_session_t *session, dt_tensor_t *tensor,
                            dt_tensor_t **out) DT_MUST_USE;

// dt_call on host tensors, wherever the tests run: arguments go there (numbers, by `decls`, stay),
// results come back, tensors given as outputs are filled. Waits, so that failed checks are told.
dt_status_t on_device_call(dt_session_t *session, dt_function_t *function,
                           const dt_input_decl_t *decls, dt_tensor_t *const *inputs,
                           uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs) DT_MUST_USE;
// dt_function_prepare for where the tests run.
dt_status_t on_device_prepare(dt_function_t *function) DT_MUST_USE;

#endif // DT_TESTS_DEVICE_ON_DEVICE_H
