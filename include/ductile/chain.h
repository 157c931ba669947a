// SPDX-License-Identifier: Apache-2.0
// Chains: functions with host code in between, called as one. For programs that need a graph break:
// a library, a C branch or a loop must see numbers that the program computed, and then it goes on.
#ifndef DUCTILE_CHAIN_H
#define DUCTILE_CHAIN_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// Links in order, each a function or a host function, and which earlier values each takes. A chain
// never changes. Thread-safe: any number of sessions may call it at once.
typedef struct dt_chain dt_chain_t;

// A host function. `inputs` are borrowed. It sets outputs[0 … n_outputs-1], which are NULL when it
// is called, to tensors of which the chain takes one reference each: new ones, or inputs that it
// has retained. Dtypes and sizes may be any. It may use the session, but must not begin a step
// (dt_step_begin): the results before it would end. If it fails, the call ends with its status, and
// the chain releases what it has set.
//
// On a device the inputs are where the links before left them. Their work is done, unless the link
// has DT_CHAIN_QUEUED. Outputs may be on the host: a function copies them as it does any input.
typedef dt_status_t (*dt_chain_fn_t)(dt_session_t *session, dt_tensor_t *const *inputs,
                                     uint32_t n_inputs, dt_tensor_t **outputs, uint32_t n_outputs,
                                     void *closure);

// Of a host function.
typedef enum dt_chain_flag_t {
  DT_CHAIN_QUEUED = 1, // it is called while the work before it may be queued: it only queues more
} dt_chain_flag_t;

// A value of a chain: input `index` of the chain (link 0), or output `index` of an earlier link,
// counted from 1.
typedef struct dt_chain_source_t {
  uint32_t link, index;
} dt_chain_source_t;

// A link: either `function` or `fn`. A field that is 0 declares nothing.
typedef struct dt_chain_link_t {
  const char *name;        // for messages; NULL: the function's
  dt_function_t *function; // of the chain's runtime; the chain keeps a reference
  dt_chain_fn_t fn;
  void *closure;                       // of fn
  void (*closure_free)(void *closure); // called once when the chain is destroyed; NULL: nothing
  const dt_chain_source_t *inputs;     // n_inputs entries
  uint32_t n_inputs;
  uint32_t n_outputs; // of fn; of a function those it has, or 0
  uint32_t flags;     // DT_CHAIN_* joined by or
} dt_chain_link_t;

// `n_links` and `links` are required; the rest is valid when zeroed. Everything is copied.
typedef struct dt_chain_options_t {
  uint32_t struct_size; // sizeof(dt_chain_options_t); 0 is taken as the size of version 0.1
  uint32_t n_inputs, n_links, n_results;
  uint32_t link_size; // bytes from one entry of `links` to the next: sizeof(dt_chain_link_t); 0 is
                      // taken as the size of version 0.1
  const char *name;   // for messages; NULL: "chain"
  const dt_chain_link_t *links;
  const dt_chain_source_t *results; // n_results entries
} dt_chain_options_t;

// Makes a chain; calls nothing. On failure *out is NULL and no closure_free is called.
// DT_E_ARGUMENT, naming the link and its input; DT_E_UNSUPPORTED (flags), DT_E_LIMIT (4,096 links,
// 65,536 values), DT_E_NO_MEMORY, DT_E_FORKED. [any]
DT_API dt_status_t dt_chain_create(dt_runtime_t *runtime, const dt_chain_options_t *options,
                                   dt_chain_t **out) DT_MUST_USE;
DT_API void dt_chain_retain(dt_chain_t *chain); // [any]
// NULL allowed. A call of the chain keeps it. [any]
DT_API void dt_chain_release(dt_chain_t *chain);

// dt_function_prepare for each function of the chain, in order. [any]
DT_API dt_status_t dt_chain_prepare(dt_chain_t *chain,
                                    const dt_prepare_options_t *options) DT_MUST_USE;

// Calls the links in order. Links get tensors by reference, without copies. A value that neither a
// later link nor a result needs is released at once. `inputs` are n_inputs borrowed tensors.
// results[0 … n_results-1] are places: one that is NULL receives a reference, owned by the caller,
// to the tensor that the link gave, or to the chain's input. A tensor given in a place is written,
// as dt_call does; the result must then be a function's.
//
// Every function is called as dt_call would, with `options`: a deadline and a flag hold for the
// whole of the chain, and are looked at before each host function, too. In reduce-overhead mode the
// calls are on one path, each a graph: the chain begins no step. A generation whose results are all
// released before its end ends there, as everywhere (graphs.h).
//
// On failure no new tensor is returned, and the message names the link. Updates that functions have
// made stay. Errors of dt_call and of the host functions; DT_E_STATE if a host function destroyed
// the session. `options` may be NULL. [external by session]
DT_API dt_status_t dt_chain_call(dt_session_t *session, dt_chain_t *chain,
                                 dt_tensor_t *const *inputs, uint32_t n_inputs,
                                 dt_tensor_t **results, uint32_t n_results,
                                 const dt_call_options_t *options) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_CHAIN_H
