// SPDX-License-Identifier: Apache-2.0
// Bindings: the data of a variant's constants, and the values computed from them once. An update
// makes new bindings for every variant, then exchanges them one by one; calls under way keep the
// old ones until they leave their epoch.
#include "runtime/exec/variant.h"

#include "runtime/base/status.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/function.h"
#include "runtime/exec/once.h"
#include "runtime/exec/runtime.h"

#include <stdio.h>
#include <string.h>

// ---- One variant's bindings -----------------------------------------------------------------------

static void destroy_retired(dt_retired_t *retired) {
  dt__bindings_destroy((dt_bindings_t *)retired);
}

void dt__bindings_destroy(dt_bindings_t *bindings) {
  if (!bindings)
    return;
  dt__host_once_fini(bindings); // uses name tensors
  for (uint32_t i = 0; bindings->tensors && i < bindings->n; i++)
    dt_tensor_release(bindings->tensors[i]);
  for (uint32_t i = 0; bindings->copies && i < bindings->n; i++)
    dt__storage_release(bindings->copies[i]);
  for (uint32_t i = 0; bindings->aligned && i < bindings->n; i++)
    dt__storage_release(bindings->aligned[i]);
  dt__free(bindings->aligned);
  dt__free(bindings->copies);
  dt__free(bindings->tensors);
  dt__free(bindings->addresses);
  dt__storage_release(bindings->once_storage);
  dt__free(bindings->once);
  dt__free(bindings);
}

static void extend(dt_bytes_t *all, dt_bytes_t own) {
  if (own.begin == own.end)
    return;
  bool first = all->begin == all->end;
  all->begin = first || own.begin < all->begin ? own.begin : all->begin;
  all->end = first || own.end > all->end ? own.end : all->end;
}

static dt_storage_t *find_in(const dt_bindings_t *bindings, const dt_tensor_t *tensor,
                             dt_device_t place) {
  for (uint32_t i = 0; bindings && bindings->copies && i < bindings->n; i++) {
    dt_storage_t *copy = bindings->copies[i];
    if (bindings->tensors[i] == tensor && copy && copy->place == place)
      return copy;
  }
  return NULL;
}

// A copy of `tensor` at `place` that other bindings have; or NULL.
static dt_storage_t *find_copy(const dt_bindings_peers_t *peers, const dt_bindings_t *own,
                               const dt_tensor_t *tensor, dt_device_t place) {
  dt_storage_t *copy = find_in(own, tensor, place);
  for (uint32_t k = 0; !copy && peers->fresh && k < peers->n_fresh; k++)
    copy = find_in(peers->fresh[k], tensor, place);
  for (uint32_t k = 0; !copy && peers->list && k < peers->list->n; k++)
    copy = find_in(atomic_load_explicit(&peers->list->items[k]->bindings, memory_order_acquire),
                   tensor, place);
  return copy;
}

// What was made is the bindings' also on failure.
static dt_status_t queue_copies(const dt_variant_t *variant, const dt_bindings_peers_t *peers,
                                dt_pool_t *pool, dt_bindings_t *bindings, bool *out_queued) {
  for (uint32_t i = 0; i < bindings->n; i++) {
    const dt_tensor_t *tensor = bindings->tensors[i];
    dt_storage_t *copy = find_copy(peers, bindings, tensor, variant->place);
    if (copy) {
      dt__storage_retain(copy);
    } else {
      *out_queued = true;
      DT_TRY(dt__status_annotate(variant->home->kind->upload(variant, pool, tensor, &copy),
                                 "constant '%s'", variant->traced->graph->constants.items[i].name));
    }
    bindings->copies[i] = copy;
    bindings->addresses[i] = copy->data;
  }
  return NULL;
}

static dt_status_t upload(const dt_variant_t *variant, const dt_bindings_peers_t *peers,
                          dt_pool_t *pool, dt_bindings_t *bindings) {
  bool queued = false;
  bindings->copies = dt__calloc(bindings->n, sizeof(dt_storage_t *));
  if (!bindings->copies)
    return DT_NO_MEMORY();
  dt_status_t status = queue_copies(variant, peers, pool, bindings, &queued);
  if (queued)
    status = dt__status_join(
        status, dt__status_annotate(variant->home->kind->uploaded(variant), "copies of constants"));
  return status;
}

static dt_status_t run_once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  dt_task_board_t *board = dt__jobs_board(dt__compiler_jobs(variant->runtime->compiler));
  const dt_function_t *function = bindings->function;
  int64_t begin = dt__task_begin(board);
  dt_status_t status = variant->home->kind->once(variant, bindings);
  dt__task_end(board, begin, 0, "pack constants", function->name);
  return status;
}

static dt_status_t compute_once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  const dt_place_t *home = variant->home;
  const dt_once_plan_t *plan = &variant->compiled->once_plan;
  size_t bytes = (size_t)variant->compiled->once_bytes;
  if (plan->n_buffers == 0)
    return NULL; // else code asks for addresses, also of what has no bytes
  bindings->once = dt__calloc(plan->n_buffers, sizeof(*bindings->once));
  if (!bindings->once)
    return DT_NO_MEMORY();
  if (!home->kind->allocate)
    return run_once(variant, bindings);
  if (bytes == 0)
    return NULL;
  DT_TRY(home->kind->allocate(home, NULL, bytes, &bindings->once_storage));
  for (uint32_t b = 0; b < plan->n_buffers; b++)
    bindings->once[b] = (char *)bindings->once_storage->data + plan->buffers[b].offset;
  return run_once(variant, bindings);
}

typedef struct checked_t {
  const dt_bindings_t *bindings;
  const dt_once_plan_t *plan; // NULL: all constants are looked at
  _Atomic(dt_status_t) failed;
} checked_t;

static void check_some(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  checked_t *checked = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    if (checked->plan && !checked->plan->uses[i])
      continue;
    dt_status_t none = NULL, status = dt__tensor_check_bytes(checked->bindings->tensors[i]);
    if (status && !atomic_compare_exchange_strong(&checked->failed, &none, status))
      dt_status_free(status);
  }
}

// Those that calls read, or all, side by side: each byte is read. What is computed once looks at
// those that it reads (once.c).
static dt_status_t check_bytes(const dt_variant_t *variant, dt_pool_t *pool,
                               const dt_bindings_t *bindings) {
  const dt_once_plan_t *plan = variant->compiled ? &variant->compiled->once_plan : NULL;
  bool all = !plan || plan->n_constants != bindings->n || variant->home->kind->upload;
  checked_t checked = {.bindings = bindings, .plan = all ? NULL : plan};
  atomic_init(&checked.failed, NULL);
  dt__pool_run(pool, bindings->n, 1, check_some, &checked);
  return atomic_load(&checked.failed);
}

// Kernels of users may rely on an alignment that files do not keep.
static dt_status_t align(const dt_variant_t *variant, dt_bindings_t *bindings) {
  const dt_once_plan_t *plan = &variant->compiled->once_plan;
  for (uint32_t i = 0; i < plan->n_constants; i++) {
    const dt_tensor_t *tensor = bindings->tensors[i];
    if (!(plan->uses[i] & DT_CONSTANT_BY_OPS) ||
        (uintptr_t)tensor->data % dt_dtype_size(tensor->dtype) == 0)
      continue;
    if (!bindings->aligned)
      bindings->aligned = dt__calloc(bindings->n, sizeof(*bindings->aligned));
    if (!bindings->aligned)
      return DT_NO_MEMORY();
    size_t bytes = dt__tensor_bytes(tensor);
    DT_TRY(dt__storage_create_from(dt__runtime_memory(variant->runtime), bytes,
                                   &bindings->aligned[i]));
    memcpy(bindings->aligned[i]->data, tensor->data, bytes);
    bindings->addresses[i] = bindings->aligned[i]->data;
  }
  return NULL;
}

dt_status_t dt__bindings_create(const dt_function_t *function, const dt_variant_t *variant,
                                dt_tensor_t *const *tensors, const dt_bindings_peers_t *peers,
                                dt_bindings_t **out) {
  *out = NULL;
  const dt_traced_t *traced = variant->traced;
  dt_pool_t *pool = function->runtime->pool;
  uint32_t n = traced->constants.len;
  dt_bindings_t *bindings = dt__calloc(1, sizeof(*bindings));
  if (!bindings)
    return DT_NO_MEMORY();
  bindings->retired.destroy = destroy_retired;
  bindings->id = dt__runtime_id(function->runtime);
  bindings->function = function;
  bindings->n = n;
  bindings->tensors = dt__calloc(n, sizeof(*bindings->tensors));
  bindings->addresses = dt__calloc(n, sizeof(*bindings->addresses));
  dt_status_t status = NULL;
  if (!bindings->tensors || !bindings->addresses)
    status = DT_NO_MEMORY();
  for (uint32_t i = 0; !status && i < n; i++) {
    bindings->tensors[i] = tensors[i] ? tensors[i] : traced->constants.items[i];
    dt_tensor_retain(bindings->tensors[i]);
    bindings->addresses[i] = bindings->tensors[i]->data;
    extend(&bindings->reach, dt__tensor_reach(bindings->tensors[i]));
  }
  if (!status)
    status = check_bytes(variant, pool, bindings);
  if (!status && variant->home->kind->upload)
    status = upload(variant, peers, pool, bindings);
  else if (!status && variant->compiled)
    status = align(variant, bindings);
  if (!status && variant->compiled)
    status = compute_once(variant, bindings);
  if (status) {
    dt__bindings_destroy(bindings);
    return status;
  }
  *out = bindings;
  return NULL;
}

// ---- Copies and forms that are in use -------------------------------------------------------------

dt_bindings_bytes_t dt__bindings_come(const dt_bindings_t *bindings) {
  dt_bindings_bytes_t bytes = {0};
  for (uint32_t i = 0; bindings->copies && i < bindings->n; i++)
    bytes.copies += bindings->copies[i]->in_use++ == 0 ? bindings->copies[i]->bytes : 0;
  if (bindings->n_uses)
    bytes.forms =
        dt__forms_come(bindings->forms, bindings->uses, bindings->n_uses, &bytes.own_forms);
  return bytes;
}

dt_bindings_bytes_t dt__bindings_go(const dt_bindings_t *bindings) {
  dt_bindings_bytes_t bytes = {0};
  for (uint32_t i = 0; bindings->copies && i < bindings->n; i++)
    bytes.copies += --bindings->copies[i]->in_use == 0 ? bindings->copies[i]->bytes : 0;
  if (bindings->n_uses)
    bytes.forms = dt__forms_go(bindings->forms, bindings->uses, bindings->n_uses, &bytes.own_forms);
  return bytes;
}

// ---- Constants as they were last updated ------------------------------------------------------------

static dt_override_t *find_override(const dt_function_t *function, const char *name) {
  dt_override_t *own = function->overrides;
  while (own && strcmp(own->name, name) != 0)
    own = own->next;
  return own;
}

static void print_sizes(char *buf, size_t bytes, dt_dtype_t dtype, uint32_t rank,
                        const int64_t *sizes) {
  int at = snprintf(buf, bytes, "%s[", dt_dtype_name(dtype));
  for (uint32_t k = 0; k < rank && at > 0 && (size_t)at < bytes; k++)
    at += snprintf(buf + at, bytes - (size_t)at, "%s%lld", k ? ", " : "", (long long)sizes[k]);
  if (at > 0 && (size_t)at < bytes)
    (void)snprintf(buf + at, bytes - (size_t)at, "]");
}

// Whether `tensor` may stand for `constant`.
static dt_status_t check_data(const dt_graph_constant_t *constant, const dt_tensor_t *tensor) {
  char expected[256], actual[256];
  print_sizes(expected, sizeof(expected), constant->dtype, constant->rank, constant->sizes);
  print_sizes(actual, sizeof(actual), tensor->dtype, tensor->rank, tensor->sizes);
  if (tensor->dtype != constant->dtype)
    return DT_FAIL(DT_E_DTYPE, "constant '%s': got %s; expected %s", constant->name, actual,
                   expected);
  bool same = tensor->rank == constant->rank &&
              memcmp(tensor->sizes, constant->sizes, tensor->rank * sizeof(int64_t)) == 0;
  if (!same)
    return DT_FAIL(DT_E_SHAPE, "constant '%s': got %s; expected %s", constant->name, actual,
                   expected);
  if (!tensor->contiguous)
    return DT_FAIL(DT_E_SHAPE, "constant '%s': got a tensor with strides; expected contiguous",
                   constant->name);
  if (tensor->device != DT_CPU)
    return DT_FAIL(DT_E_ARGUMENT,
                   "constant '%s': on %s; expected a host tensor, of which each device gets a copy",
                   constant->name, dt__place_name(tensor->device, actual, sizeof(actual)));
  return NULL;
}

static bool took(const dt_traced_t *traced, const char *name) {
  for (uint32_t i = 0; i < traced->taken.len; i++)
    if (strcmp(traced->taken.items[i], name) == 0)
      return true;
  return false;
}

#define TOOK                                                                                       \
  "elements of it were taken as numbers (sizes, axes, choices) when the program was traced, "

// A trace read numbers of a constant that was updated before: it could only read the old ones.
static dt_status_t check_taken(const dt_function_t *function, const dt_traced_t *traced) {
  for (uint32_t i = 0; i < traced->taken.len; i++)
    if (find_override(function, traced->taken.items[i]))
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "constant '%s' was updated, but " TOOK "from its first data: make a function "
                     "with the new data",
                     traced->taken.items[i]);
  return NULL;
}

dt_status_t dt__variant_bind(dt_function_t *function, dt_variant_t *variant) {
  DT_TRY(check_taken(function, variant->traced));
  const dt_graph_t *graph = variant->traced->graph;
  uint32_t n = variant->traced->constants.len;
  dt_tensor_t **tensors = dt__calloc(n, sizeof(*tensors));
  if (!tensors)
    return DT_NO_MEMORY();
  dt_status_t status = NULL;
  for (uint32_t i = 0; !status && i < n; i++) {
    dt_override_t *own = find_override(function, graph->constants.items[i].name);
    if (!own)
      continue;
    tensors[i] = own->tensor;
    status = dt__status_annotate(check_data(&graph->constants.items[i], own->tensor),
                                 "updated before this variant was traced");
  }
  dt_bindings_t *bindings = NULL;
  if (!status)
    status = dt__bindings_create(
        function, variant, tensors,
        &(dt_bindings_peers_t){.list = atomic_load_explicit(&function->list, memory_order_relaxed)},
        &bindings);
  dt__free(tensors);
  if (!status)
    atomic_store_explicit(&variant->bindings, bindings, memory_order_release);
  return status;
}

// ---- dt_constant_update ---------------------------------------------------------------------------

// Bindings of `variant` with the constants named `name` replaced, or NULL where it has none of
// them.
static dt_status_t rebind(const dt_function_t *function, const dt_variant_t *variant,
                          const char *name, dt_tensor_t *tensor, const dt_bindings_peers_t *peers,
                          dt_bindings_t **out) {
  *out = NULL;
  const dt_graph_t *graph = variant->traced->graph;
  const dt_bindings_t *old = atomic_load_explicit(&variant->bindings, memory_order_relaxed);
  dt_tensor_t **tensors = dt__calloc(old->n, sizeof(*tensors));
  if (!tensors)
    return DT_NO_MEMORY();
  bool found = false;
  dt_status_t status = NULL;
  for (uint32_t i = 0; !status && i < old->n; i++) {
    bool named = strcmp(graph->constants.items[i].name, name) == 0;
    tensors[i] = named ? tensor : old->tensors[i];
    if (named)
      status = check_data(&graph->constants.items[i], tensor);
    found = found || named;
  }
  if (!status && found)
    status = dt__bindings_create(function, variant, tensors, peers, out);
  dt__free(tensors);
  return status;
}

static dt_override_t *override_new(const char *name, dt_tensor_t *tensor) {
  size_t bytes = strlen(name) + 1;
  dt_override_t *own = dt__alloc(sizeof(*own) + bytes);
  if (!own)
    return NULL;
  own->next = NULL;
  own->tensor = tensor;
  dt_tensor_retain(tensor);
  memcpy(own->name, name, bytes);
  return own;
}

// Makes everything that can fail: new[i] for each variant, and an override unless there is one.
static dt_status_t prepare_update(dt_function_t *function, const dt_variant_list_t *list,
                                  const char *name, dt_tensor_t *tensor, dt_bindings_t **fresh,
                                  dt_override_t **out_own) {
  bool found = false;
  for (uint32_t i = 0; i < list->n; i++)
    if (took(list->items[i]->traced, name))
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "constant '%s': " TOOK "so that they are part of the code: make a function "
                     "with the new data",
                     name);
  for (uint32_t i = 0; i < list->n; i++) {
    dt_bindings_peers_t peers = {.list = list, .fresh = fresh, .n_fresh = i};
    DT_TRY(rebind(function, list->items[i], name, tensor, &peers, &fresh[i]));
    found = found || fresh[i];
  }
  if (!found)
    return DT_FAIL(DT_E_ARGUMENT, "no constant is named '%s'%s", name,
                   list->n ? "" : ": nothing was traced yet; call dt_function_prepare first");
  if (find_override(function, name))
    return NULL;
  *out_own = override_new(name, tensor);
  return *out_own ? NULL : DT_NO_MEMORY();
}

static void remember(dt_function_t *function, const char *name, dt_tensor_t *tensor,
                     dt_override_t *own) {
  if (own) {
    own->next = function->overrides;
    function->overrides = own;
    return;
  }
  own = find_override(function, name);
  dt_tensor_t *old = own->tensor;
  own->tensor = tensor;
  dt_tensor_retain(tensor);
  dt_tensor_release(old); // variants that use it hold shares of their own
}

static dt_status_t update_locked(dt_function_t *function, const char *name, dt_tensor_t *tensor) {
  dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_bindings_t **fresh = dt__calloc(list->n, sizeof(*fresh));
  if (!fresh)
    return DT_NO_MEMORY();
  dt_override_t *own = NULL;
  dt__forms_close(&function->runtime->forms, tensor); // whoever wrote to it says so like this
  dt_status_t status = prepare_update(function, list, name, tensor, fresh, &own);
  if (!status) {
    remember(function, name, tensor, own);
    function->policy.version++; // programs may look at the tensors that they hand over
  }
  for (uint32_t i = 0; i < list->n; i++) {
    if (status) {
      dt__bindings_destroy(fresh[i]);
    } else if (fresh[i]) {
      dt_bindings_t *old =
          atomic_exchange_explicit(&list->items[i]->bindings, fresh[i], memory_order_acq_rel);
      dt__variant_rehold(function, old, fresh[i]);
      dt__reclaim_retire(function->runtime->reclaim, &old->retired);
    }
  }
  dt__free(fresh);
  return status;
}

dt_status_t dt_constant_update(dt_function_t *function, const char *name, dt_tensor_t *tensor) {
  if (!function || !name || !tensor)
    return DT_FAIL(DT_E_ARGUMENT, "dt_constant_update: %s: NULL",
                   !function ? "function"
                   : !name   ? "name"
                             : "tensor");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_constant_update in a child after fork");
  dt__mutex_lock(&function->mutex);
  dt_status_t status = update_locked(function, name, tensor);
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&function->runtime->budget);
  dt__runtime_collect(function->runtime);
  return dt__status_annotate(status, "function %s: constant update", function->name);
}
