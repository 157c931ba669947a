// SPDX-License-Identifier: Apache-2.0
// What was traced, in a file: the environment, names of its symbols, the graph, what was assumed.
// Data of constants and users' ops are given to whoever reads it.
#include "runtime/trace/store.h"

#include "lower/graph/external.h"
#include "runtime/base/status.h"
#include "runtime/base/stream.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <string.h>

// ---- Both ways ------------------------------------------------------------------------------------
static void store_env(dt_stream_t *s, dt_text_t *text, dt_traced_t *traced) {
  void *data = text->data;
  size_t bytes = text->len;
  dt__stream_bytes(s, &data, &bytes);
  if (s->to || s->failed)
    return;
  dt_scan_t scan;
  dt__scan_init(&scan, data, bytes, "environment");
  dt_status_t status = dt__symenv_read(&scan, &traced->env);
  s->failed = status != NULL || !dt__scan_end(&scan);
  dt_status_free(status);
}

static void store_names(dt_stream_t *s, dt_traced_t *traced) {
  uint32_t n = dt__symenv_symbol_count(traced->env), told = n;
  dt__stream_number(s, &told);
  s->failed |= told != n;
  for (uint32_t k = 0; k < n && !s->failed; k++) {
    const char *name = dt__symbol_info(traced->env, k).name;
    dt__stream_name(s, &name);
    if (!s->to && !s->failed)
      s->failed = !name || !dt__symbol_call(traced->env, k, name);
  }
}

static void store_conds(dt_stream_t *s, dt_traced_t *traced) {
  uint32_t n = traced->conds.len;
  dt_guard_cond_t *items = dt__stream_list(s, &n, traced->conds.items, sizeof(*items));
  if (!s->to) {
    traced->conds.items = items;
    traced->conds.len = traced->conds.cap = n;
  }
  for (uint32_t k = 0; k < n && !s->failed; k++) {
    dt__sym_store(s, traced->env, &items[k].cond);
    dt__origin_store(s, &items[k].origin);
    s->failed |= items[k].cond.id == 0;
  }
}

static void store_taken(dt_stream_t *s, dt_traced_t *traced) {
  uint32_t n = traced->taken.len;
  const char **items = dt__stream_list(s, &n, traced->taken.items, sizeof(*items));
  if (!s->to) {
    traced->taken.items = items;
    traced->taken.len = traced->taken.cap = n;
  }
  for (uint32_t k = 0; k < n && !s->failed; k++) {
    dt__stream_name(s, &items[k]);
    s->failed |= !items[k];
  }
}

static void store_shared(dt_stream_t *s, dt_traced_t *traced) {
  uint32_t n = traced->shared ? traced->graph->inputs.len : 0;
  uint32_t *shared = dt__stream_list(s, &n, traced->shared, sizeof(*shared));
  for (uint32_t k = 0; k < n && !s->failed; k++)
    shared[k] = dt__stream_below(s, shared[k], (uint64_t)k + 1);
  if (!s->to) {
    traced->shared = n ? shared : NULL;
    s->failed |= n != 0 && n != traced->graph->inputs.len;
  }
}

// Captures are the addresses of a process: there are none.
static void store(dt_stream_t *s, dt_text_t *env, dt_traced_t *traced) {
  store_env(s, env, traced);
  if (s->failed)
    return;
  store_names(s, traced);
  if (!s->to)
    traced->graph = dt__graph_create(&traced->arena, traced->env);
  s->failed |= !traced->graph;
  if (s->failed)
    return;
  dt__graph_store(s, traced->graph);
  store_conds(s, traced);
  store_taken(s, traced);
  store_shared(s, traced);
  s->failed |= traced->graph->captures.len != 0;
}

// ---- Writing --------------------------------------------------------------------------------------
static dt_status_t write_copy(const dt_traced_t *traced, dt_arena_t *arena, dt_text_t *env,
                              dt_text_t *out) {
  dt_graph_t *graph = NULL; // what is written passes through the addresses of its values
  DT_TRY(dt__graph_copy(arena, traced->graph, &graph));
  dt_traced_t copy = {.env = traced->env, .graph = graph, .shared = traced->shared};
  copy.conds.len = traced->conds.len;
  copy.conds.items =
      dt__arena_copy(arena, traced->conds.items, traced->conds.len * sizeof(copy.conds.items[0]));
  copy.taken.len = traced->taken.len;
  copy.taken.items =
      dt__arena_copy(arena, traced->taken.items, traced->taken.len * sizeof(copy.taken.items[0]));
  copy.shared = traced->shared ? dt__arena_copy(arena, traced->shared,
                                                graph->inputs.len * sizeof(copy.shared[0]))
                               : NULL;
  if (!copy.conds.items || !copy.taken.items || (traced->shared && !copy.shared))
    return DT_NO_MEMORY();
  dt_stream_names_t names = {.arena = arena};
  dt_stream_t s = {.to = out, .names = &names};
  DT_TRY(dt__symenv_write(traced->env, env));
  store(&s, env, &copy);
  return s.failed ? DT_NO_MEMORY() : dt__text_status(out);
}

dt_status_t dt__traced_write(const dt_traced_t *traced, dt_text_t *out) {
  if (traced->captures.len)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "the program reads the captured integer '%s', which is an address of this "
                   "process: make it an input of kind DT_INPUT_INTEGER",
                   traced->graph->captures.items[0].name);
  dt_arena_t arena;
  dt_text_t env;
  dt__arena_init(&arena, 0);
  dt__text_init(&env);
  dt_status_t status = write_copy(traced, &arena, &env, out);
  dt__text_fini(&env);
  dt__arena_fini(&arena);
  return status;
}

// ---- Reading --------------------------------------------------------------------------------------
static dt_status_t give_constants(dt_traced_t *traced, const dt_traced_source_t *source) {
  dt_graph_t *graph = traced->graph;
  if (graph->constants.len != source->n_constants)
    return DT_FAIL(DT_E_FORMAT, "%u constants of %u", graph->constants.len, source->n_constants);
  for (uint32_t k = 0; k < graph->constants.len; k++) {
    dt_graph_constant_t *constant = &graph->constants.items[k];
    dt_tensor_t *tensor = source->constants[k];
    if (tensor->dtype != constant->dtype || tensor->rank != constant->rank ||
        memcmp(tensor->sizes, constant->sizes, tensor->rank * sizeof(tensor->sizes[0])) != 0)
      return DT_FAIL(DT_E_FORMAT, "constant %u is not of its dtype and sizes", k);
    constant->data = tensor->data;
    if (!DT_VEC_PUSH(&traced->arena, &traced->constants, tensor))
      return DT_NO_MEMORY();
    dt_tensor_retain(tensor);
  }
  return NULL;
}

// The runtime's ops, by name, and with the identity that they had.
static dt_status_t give_ops(dt_traced_t *traced, const dt_hooks_t *hooks) {
  dt_graph_t *graph = traced->graph;
  for (uint32_t k = 0; k < graph->externals.len; k++) {
    dt_graph_external_t *call = (dt_graph_external_t *)(uintptr_t)graph->externals.items[k];
    call->def = dt__op_list_find(hooks ? hooks->ops : NULL, call->name);
    if (!call->def)
      return DT_FAIL(DT_E_STATE, "the op '%s' is not registered with the runtime", call->name);
    if (strcmp(call->def->options.identity, call->identity) != 0)
      return DT_FAIL(DT_E_STATE, "the op '%s' has the identity '%s'; expected '%s'", call->name,
                     call->def->options.identity, call->identity);
  }
  return NULL;
}

static dt_status_t read_into(dt_traced_t *traced, const void *data, size_t bytes,
                             const dt_traced_source_t *source) {
  dt_stream_names_t names = {.arena = &traced->arena};
  dt_stream_t s = {.from = data, .left = bytes, .arena = &traced->arena, .names = &names};
  store(&s, &(dt_text_t){0}, traced);
  if (!dt__stream_is_done(&s))
    return DT_FAIL(DT_E_FORMAT, "it is not a trace of this format");
  if (source->hooks)
    traced->hooks = dt__hooks_retain(source->hooks);
  DT_TRY(give_constants(traced, source));
  DT_TRY(give_ops(traced, source->hooks));
  dt__symenv_freeze(traced->env);
  return source->verify ? dt__graph_verify(traced->graph) : NULL;
}

dt_status_t dt__traced_read(const void *data, size_t bytes, const dt_traced_source_t *source,
                            dt_traced_t **out) {
  *out = NULL;
  dt_traced_t *traced = dt__calloc(1, sizeof(*traced));
  if (!traced)
    return DT_NO_MEMORY();
  dt__arena_init(&traced->arena, 0);
  dt_status_t status = read_into(traced, data, bytes, source);
  if (status) {
    dt__traced_destroy(traced);
    return status;
  }
  *out = traced;
  return NULL;
}
