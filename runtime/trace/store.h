// SPDX-License-Identifier: Apache-2.0
// What was traced, in a file, and read back: for packages (runtime/exec/package.h).
#ifndef DT_RUNTIME_TRACE_STORE_H
#define DT_RUNTIME_TRACE_STORE_H

#include "runtime/trace/trace.h"

// Without data of constants. DT_E_UNSUPPORTED: the program read captured integers.
dt_status_t dt__traced_write(const dt_traced_t *traced, dt_text_t *out) DT_MUST_USE;

// What a file does not hold.
typedef struct dt_traced_source_t {
  dt_tensor_t *const *constants; // by the graph's: contiguous, on the host; they get a share each
  uint32_t n_constants;
  struct dt_hooks_t *hooks; // of the function: users' ops are found in its list
  bool verify;              // the graph, as of a file that nobody vouches for
} dt_traced_source_t;
// Reads what dt__traced_write wrote, and destroys as that of a trace. DT_E_FORMAT: it is none;
// DT_E_STATE: an op is not registered, or it is another one.
dt_status_t dt__traced_read(const void *data, size_t bytes, const dt_traced_source_t *source,
                            dt_traced_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_TRACE_STORE_H
