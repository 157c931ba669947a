// SPDX-License-Identifier: Apache-2.0
// The execution provider: what its files share. onnxruntime opens the library and asks its factory
// for a provider for each session (factory.c). The provider says which parts of a graph Ductile
// takes (capability.c): parts are models of their own (model.c), and Ductile says which nodes keep
// one from being compiled. Each part becomes a function (compute.c), which is called with
// onnxruntime's memory (call.c).
//
// A failure is onnxruntime's status, as in its interface: NULL is success, others are owned by
// whoever received them.
#ifndef DT_ONNXRUNTIME_PROVIDER_H
#define DT_ONNXRUNTIME_PROVIDER_H

#include "ductile/ductile.h"
#include "onnxruntime/graph.h"

#include <pthread.h>
#include <stdatomic.h>

#define EP_NAME "DuctileExecutionProvider"

// ---- The provider -----------------------------------------------------------------------------------
typedef struct ep_options_t {
  uint32_t threads;   // of Ductile's own; 0: the session's
  uint32_t min_nodes; // of a part
  bool strict;        // every node is taken, or there is no session
  bool names_are_hints;
  bool strict_fp;
  dt_dtype_t weights;
  uint32_t prepare; // enum ep_prepare_t
  char dims[512];   // "batch=1:64,seq=1:512"
} ep_options_t;
typedef enum ep_prepare_t { EP_PREPARE_BEST, EP_PREPARE_FIRST, EP_PREPARE_NONE } ep_prepare_t;

// Reads the options of a session, which begin "ep.ductileexecutionprovider.".
ort_status_t *ep_options_read(const ort_api_t *api, const ort_options_t *from, ep_options_t *out);

// A runtime with so many threads, for all sessions that want these.
typedef struct ep_runtime_t {
  struct ep_runtime_t *next;
  uint32_t threads, users;
  dt_runtime_t *runtime;
  const ort_api_t *api;
} ep_runtime_t;

typedef struct ep_factory_t {
  ort_ep_factory_t head; // first: what onnxruntime knows
  ort_api_t api;
  ort_ep_api_t ep_api;
  atomic_uint shares;   // the registration's, and one of each provider
  pthread_mutex_t lock; // of `runtimes`
  ep_runtime_t *runtimes;
} ep_factory_t;

typedef struct ep_t {
  ort_ep_t head; // first
  ep_factory_t *factory;
  const ort_api_t *api;
  const ort_logger_t *logger;
  ep_runtime_t *runtime;
  ep_options_t options;
  ep_bytes_t refusal; // why there will be no session: compiling says it
  ort_code_t refusal_code;
} ep_t;

// There will be no session, for this reason; takes `status`, NULL for none. onnxruntime goes on
// without a provider whose making, or whose question, fails; not so where compiling does.
ort_status_t *ep_keep_refusal(ep_t *ep, ort_status_t *status);
ort_status_t *ep_capability(ort_ep_t *self, const ort_graph_t *graph, ort_support_t *support);
ort_status_t *ep_compile(ort_ep_t *self, const ort_graph_t **graphs, const ort_node_t **nodes,
                         size_t n, ort_compute_t **out, ort_node_t **out_context_nodes);
void ep_release_computes(ort_ep_t *self, ort_compute_t **computes, size_t n);
// What the options say of functions of a model, all in here.
enum { EP_MOST_DIMS = 32 };
typedef struct ep_function_t {
  char text[sizeof(((ep_options_t *)0)->dims)];
  dt_dim_decl_t dims[EP_MOST_DIMS];
  dt_function_options_t function;
  dt_onnx_function_options_t all;
} ep_function_t;
// Reads `from` into `text`, where names of `out` lie; false: it is wrong.
bool ep_dims_read(const char *from, char *text, dt_dim_decl_t *out, uint32_t *out_n);
ort_status_t *ep_function_options(const ep_t *ep, const dt_onnx_t *model, ep_function_t *out);

// ---- Functions and their calls ----------------------------------------------------------------------
// What one call works with; others take theirs meanwhile.
typedef struct ep_seat_t {
  struct ep_seat_t *next;
  dt_session_t *session;
  dt_tensor_t **tensors;     // n_inputs, then n_outputs: views of onnxruntime's memory
  dt_output_shape_t *shapes; // n_outputs, of inputs of the sizes that the tensors have
  bool knows_shapes;
  unsigned char *numbers; // of the last call, EP_NUMBER_BYTES for each input; NULL: none are read
} ep_seat_t;
enum { EP_NUMBER_BYTES = 64 * sizeof(int64_t) };

typedef struct ep_compute_t {
  ort_compute_t head; // first
  ep_t *ep;
  const ort_api_t *api;
  ep_arena_t arena; // names, arrays
  ep_model_t model; // which the function borrows
  uint32_t *lent;   // of model.lent: which of the node's inputs they are
  dt_function_t *function;
  char *name;
  uint32_t n_inputs, n_outputs;
  uint32_t *inputs; // which of the node's inputs they are
  dt_dtype_t *dtypes;
  bool *numbers;        // inputs from whose elements sizes of results may follow
  bool reads_numbers;   // there are such
  atomic_bool looked;   // whether what was lent is still where it was
  pthread_mutex_t lock; // of `seats`, and of all else until `looked`
  ep_seat_t *seats;     // that nobody sits in
} ep_compute_t;

// Makes the function of the model.
ort_status_t *ep_make_function(ep_compute_t *compute);
ort_status_t *ep_call(ort_compute_t *self, void *state, ort_call_t *call);
void ep_seats_drop(ep_compute_t *compute);
// The executor of runtimes that run on the session's threads; `user` is its ort_api_t.
void ep_run_parts(void *user, uint32_t n, dt_part_fn_t fn, void *arg);

#endif // DT_ONNXRUNTIME_PROVIDER_H
