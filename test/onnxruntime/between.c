// SPDX-License-Identifier: Apache-2.0
// A provider's library that stands between onnxruntime and Ductile's, for tests: functions of
// onnxruntime fail when they are told to, and constants lie elsewhere than they did. The library
// behind it is named by BETWEEN_PROVIDER.
#include "onnxruntime/ort.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

typedef ort_status_t *(*create_fn_t)(const char *, const ort_base_t *, const ort_logger_t *,
                                     ort_ep_factory_t **, size_t, size_t *);
typedef ort_status_t *(*release_fn_t)(ort_ep_factory_t *);

enum { SLOTS = 415, SLOTS_23 = 390, LEAST_MOVED = 1024, MOST_MOVED = 64 };

static ort_api_t real;
static ort_fn_t slots[SLOTS];
static const ort_base_t *real_base;
static release_fn_t release;
static atomic_long left;  // calls until one fails; below 1: none does
static atomic_long calls; // of functions that may fail
static atomic_bool moves;
static struct {
  const void *from;
  void *to;
} moved[MOST_MOVED];
static int n_moved;

// The n-th call from now on fails; 0: none.
SHOWN void between_fail(long n);
// Constants are copied from now on.
SHOWN void between_move(void);
SHOWN long between_calls(void);
SHOWN ort_status_t *CreateEpFactories(const char *name, const ort_base_t *base,
                                      const ort_logger_t *logger, ort_ep_factory_t **out,
                                      size_t most, size_t *out_n);
SHOWN ort_status_t *ReleaseEpFactory(ort_ep_factory_t *factory);

void between_fail(long n) {
  atomic_store(&left, n);
  atomic_store(&calls, 0);
}
void between_move(void) { atomic_store(&moves, true); }
long between_calls(void) { return atomic_load(&calls); }

static bool fails(void) {
  atomic_fetch_add(&calls, 1);
  return atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1;
}

#define WRAP(name, parameters, arguments)                                                          \
  static ort_status_t *wrap_##name parameters {                                                    \
    return fails() ? real.CreateStatus(ORT_FAIL, "asked to fail: " #name) : real.name arguments;   \
  }
WRAP(KernelContext_GetInput, (const ort_call_t *call, size_t index, const ort_value_t **out),
     (call, index, out))
WRAP(KernelContext_GetOutput,
     (ort_call_t * call, size_t index, const int64_t *dims, size_t rank, ort_value_t **out),
     (call, index, dims, rank, out))
WRAP(GetTensorMutableData, (ort_value_t * value, void **out), (value, out))
WRAP(GetValueInfoName, (const ort_value_info_t *info, const char **out), (info, out))
WRAP(GetValueInfoTypeInfo, (const ort_value_info_t *info, const ort_type_t **out), (info, out))
WRAP(ValueInfo_GetInitializerValue, (const ort_value_info_t *info, const ort_value_t **out),
     (info, out))
WRAP(Graph_GetNodes, (const ort_graph_t *graph, const ort_node_t **out, size_t n), (graph, out, n))
WRAP(Node_GetName, (const ort_node_t *node, const char **out), (node, out))
WRAP(Node_GetInputs, (const ort_node_t *node, const ort_value_info_t **out, size_t n),
     (node, out, n))
WRAP(Node_GetAttributes, (const ort_node_t *node, const ort_attr_t **out, size_t n), (node, out, n))
WRAP(GetTensorTypeAndShape, (const ort_value_t *value, ort_shape_t **out), (value, out))
WRAP(GetSessionOptionsConfigEntries, (const ort_options_t *options, ort_pairs_t **out),
     (options, out))

// The same address each time.
static const void *moved_to(const void *data, size_t bytes) {
  for (int k = 0; k < n_moved; k++)
    if (moved[k].from == data || moved[k].to == data)
      return moved[k].to;
  if (n_moved == MOST_MOVED)
    return data;
  void *to = malloc(bytes);
  if (!to)
    return data;
  memcpy(to, data, bytes);
  moved[n_moved].from = data;
  moved[n_moved++].to = to;
  return to;
}

static ort_status_t *wrap_GetTensorData(const ort_value_t *value, const void **out) {
  size_t bytes = 0;
  if (fails())
    return real.CreateStatus(ORT_FAIL, "asked to fail: GetTensorData");
  ort_status_t *status = real.GetTensorData(value, out);
  if (!status && atomic_load(&moves)) {
    status = real.GetTensorSizeInBytes(value, &bytes);
    if (!status && bytes >= LEAST_MOVED)
      *out = moved_to(*out, bytes);
  }
  return status;
}

static const ort_fn_t *get_api(uint32_t version) {
  return version == ORT_VERSION ? slots : real_base->GetApi(version);
}

static const char *get_version(void) { return real_base->GetVersionString(); }

#define ORT(index, version, name, result, parameters) enum { AT_##name = (index) };
#include "onnxruntime/ort_api.def"
#define PUT(name) slots[AT_##name] = (ort_fn_t)wrap_##name

ort_status_t *CreateEpFactories(const char *name, const ort_base_t *base,
                                const ort_logger_t *logger, ort_ep_factory_t **out, size_t most,
                                size_t *out_n) {
  static const ort_base_t between = {get_api, get_version};
  real_base = base;
  if (!ort_take(base, &real))
    return NULL;
  memcpy(slots, base->GetApi(ORT_VERSION),
         (real.version < 24 ? SLOTS_23 : SLOTS) * sizeof(slots[0]));
  PUT(KernelContext_GetInput);
  PUT(KernelContext_GetOutput);
  PUT(GetTensorMutableData);
  PUT(GetTensorData);
  PUT(GetTensorTypeAndShape);
  PUT(GetValueInfoName);
  PUT(GetValueInfoTypeInfo);
  PUT(GetSessionOptionsConfigEntries);
  PUT(ValueInfo_GetInitializerValue);
  PUT(Graph_GetNodes);
  PUT(Node_GetName);
  PUT(Node_GetInputs);
  PUT(Node_GetAttributes);
  void *library = dlopen(getenv("BETWEEN_PROVIDER"), RTLD_NOW | RTLD_LOCAL);
  create_fn_t create = library ? (create_fn_t)dlsym(library, "CreateEpFactories") : NULL;
  release = library ? (release_fn_t)dlsym(library, "ReleaseEpFactory") : NULL;
  return create ? create(name, &between, logger, out, most, out_n)
                : real.CreateStatus(ORT_FAIL, "BETWEEN_PROVIDER is no provider's library");
}

ort_status_t *ReleaseEpFactory(ort_ep_factory_t *factory) { return release(factory); }
