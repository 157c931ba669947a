// SPDX-License-Identifier: Apache-2.0
// The state of "automatic dynamic", and the captures of a function.
#include "runtime/exec/policy.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/function.h"
#include "runtime/trace/declare.h"

#include <string.h>

// ---- Sources ------------------------------------------------------------------------------------
// Whether calls may change the number: followers, static and derived dims say nothing of their own.
static bool is_source(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  dt_dim_at_t leader = dt__dim_leader(request, k, d);
  dt_dim_facts_t facts = dt__dim_facts(request, k, d);
  return leader.input == k && leader.dim == d && !facts.is_static && !facts.derived;
}

static dt_status_t add_source(dt_function_t *function, const dt_trace_request_t *request,
                              uint32_t k, uint32_t d) {
  dt_policy_t *policy = &function->policy;
  bool scalar = !dt__is_tensor_kind(request->inputs[k].kind);
  dt_label_t label = scalar ? dt__input_label(request, k) : dt__part_label(request, k, "size", d);
  const char *given = request->inputs[k].name;
  const char *name = scalar && given && given[0] ? given : label.text;
  dt_source_t *source = &policy->sources[policy->n_sources];
  *source = (dt_source_t){.name = dt__arena_strdup(&function->arena, name), .input = k, .dim = d};
  if (!source->name)
    return DT_NO_MEMORY();
  policy->by_dim[policy->first[k] + d] = policy->n_sources++;
  return NULL;
}

// Places of an input in `by_dim`: its dims, or one for an integer.
static uint32_t places_of(const dt_input_decl_t *input) {
  return dt__is_tensor_kind(input->kind) ? input->rank : 1;
}

dt_status_t dt__policy_init(dt_function_t *function) {
  dt_policy_t *policy = &function->policy;
  dt_trace_request_t request = {
      .n_inputs = function->n_inputs, .inputs = function->inputs, .spread = function->spread};
  uint32_t n = 0;
  policy->first = DT_ARENA_ARRAY(&function->arena, uint32_t, function->n_inputs);
  if (!policy->first)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    policy->first[k] = n;
    n += places_of(&function->inputs[k]);
  }
  policy->by_dim = DT_ARENA_ARRAY(&function->arena, uint32_t, n);
  policy->sources = DT_ARENA_ARRAY(&function->arena, dt_source_t, n);
  if (!policy->by_dim || !policy->sources)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    bool scalar = !dt__is_tensor_kind(function->inputs[k].kind);
    for (uint32_t d = 0; d < places_of(&function->inputs[k]); d++) {
      policy->by_dim[policy->first[k] + d] = UINT32_MAX;
      if (scalar || is_source(&request, k, d))
        DT_TRY(add_source(function, &request, k, d));
    }
  }
  return dt__histogram_init(&policy->histogram, &function->arena, policy->n_sources);
}

// ---- The lattice --------------------------------------------------------------------------------
bool dt__learned_join(dt_learned_t *learned, dt_learned_t other) {
  if (other.state == DT_LEARNED_UNSET || learned->state == DT_LEARNED_DYNAMIC)
    return false;
  if (learned->state == DT_LEARNED_UNSET) {
    *learned = other;
    return false;
  }
  if (other.state == DT_LEARNED_VALUE && other.value == learned->value)
    return false;
  learned->state = DT_LEARNED_DYNAMIC;
  return true;
}

// Mutex held. Joins the number of a call; whether it becomes a literal.
static bool take(dt_policy_build_t *build, const char *name, dt_learned_t *learned, int64_t value) {
  dt_function_t *function = build->function;
  int64_t before = learned->value;
  dt_learned_state_t state = learned->state;
  bool promoted = dt__learned_join(learned, (dt_learned_t){DT_LEARNED_VALUE, value});
  if (learned->state != state) {
    function->policy.version++;
    build->changes++;
  }
  if (promoted && function->dynamic == DT_DYNAMIC_AUTOMATIC) {
    (void)atomic_fetch_add_explicit(&function->promotions, 1, memory_order_relaxed);
    DT_LOG(DT_LOG_DYNAMIC, 1, "%s: %s was %lld and is %lld: dynamic from now on", function->name,
           name, (long long)before, (long long)value);
  }
  if (build->generic || function->dynamic == DT_DYNAMIC_SYMBOLIC)
    return false;
  return function->dynamic == DT_DYNAMIC_STATIC || learned->state == DT_LEARNED_VALUE;
}

bool dt__policy_literal(void *opaque, uint32_t input, uint32_t dim, int64_t value) {
  dt_policy_build_t *build = opaque;
  dt_function_t *function = build->function;
  dt_policy_t *policy = &function->policy;
  if (function->inputs[input].kind == DT_INPUT_BOOLEAN)
    return !build->generic && function->dynamic != DT_DYNAMIC_SYMBOLIC;
  uint32_t index = policy->by_dim[policy->first[input] + dim];
  if (index == UINT32_MAX)
    return false;
  dt_source_t *source = &policy->sources[index];
  dt__mutex_lock(&function->mutex);
  bool literal = take(build, source->name, &source->learned, value);
  dt__mutex_unlock(&function->mutex);
  return literal;
}

// ---- Captures -----------------------------------------------------------------------------------
dt_captured_t *dt__policy_find_capture(dt_policy_t *policy, const char *name) {
  for (uint32_t k = 0; k < policy->captures.len; k++) {
    if (strcmp(policy->captures.items[k].name, name) == 0)
      return &policy->captures.items[k];
  }
  return NULL;
}

dt_captured_t *dt__policy_add_capture(dt_function_t *function, const char *name) {
  dt_policy_t *policy = &function->policy;
  dt_captured_t fresh = {.name = dt__arena_strdup(&function->arena, name)};
  if (!fresh.name || !DT_VEC_PUSH(&function->arena, &policy->captures, fresh))
    return NULL;
  return &policy->captures.items[policy->captures.len - 1];
}

static dt_status_t capture_locked(dt_function_t *function, const char *name, const int64_t *address,
                                  dt_captured_t **out) {
  dt_captured_t *captured = dt__policy_find_capture(&function->policy, name);
  if (!captured && function->policy.captures.len == DT_MOST_CAPTURES)
    return DT_FAIL(DT_E_LIMIT, "\"%s\" is one capture too many: a function has at most %d", name,
                   DT_MOST_CAPTURES);
  if (!captured)
    captured = dt__policy_add_capture(function, name);
  if (!captured)
    return DT_NO_MEMORY();
  if (captured->used && captured->address != address)
    return DT_FAIL(DT_E_ARGUMENT,
                   "\"%s\" stood for another address in an earlier trace; a name of a capture "
                   "stands for one in the function's life",
                   name);
  captured->address = address;
  *out = captured;
  return NULL;
}

dt_status_t dt__policy_capture(void *opaque, const char *name, const int64_t *address,
                               int64_t value, uint32_t *out_index, bool *out_literal) {
  dt_policy_build_t *build = opaque;
  dt_function_t *function = build->function;
  dt_captured_t *captured = NULL;
  dt__mutex_lock(&function->mutex);
  dt_status_t status = capture_locked(function, name, address, &captured);
  if (!status) {
    *out_index = (uint32_t)(captured - function->policy.captures.items);
    *out_literal = take(build, name, &captured->learned, value);
    build->reads[build->n_reads++] = (dt_policy_read_t){*out_index, value};
  }
  dt__mutex_unlock(&function->mutex);
  return status;
}

dt_status_t dt__policy_publish(dt_function_t *function, const dt_traced_t *traced,
                               const int64_t *const **out) {
  static const int64_t nothing = 0; // read for captures that no variant uses
  dt_policy_t *policy = &function->policy;
  uint32_t n = policy->captures.len;
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  bool same = n == list->n_captures;
  *out = list->captures;
  for (uint32_t k = 0; k < n; k++) {
    dt_captured_t *captured = &policy->captures.items[k];
    captured->used |= k < traced->captures.len && traced->captures.items[k].address;
    same = same && list->captures[k] == (captured->used ? captured->address : &nothing);
  }
  if (same) // the function's arena would grow with each variant
    return NULL;
  const int64_t **addresses = DT_ARENA_ARRAY(&function->arena, const int64_t *, n);
  if (!addresses)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    addresses[k] = policy->captures.items[k].used ? policy->captures.items[k].address : &nothing;
  *out = addresses;
  return NULL;
}
