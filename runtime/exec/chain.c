// SPDX-License-Identifier: Apache-2.0
// Chains (ductile/chain.h): functions and host functions, called one after another on values that
// pass by reference. Values are numbered: the chain's inputs, then the outputs of each link.
#include "ductile/chain.h"

#include "runtime/base/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"

#include <stdatomic.h>
#include <string.h>

#define MOST_LINKS 4096u
#define MOST_VALUES 65536u
#define FEW_VALUES 32 // for these a call takes no memory from the heap
#define ALWAYS UINT32_MAX

typedef struct link_t {
  const char *name; // of a host function NULL if it has none
  dt_function_t *function;
  dt_chain_fn_t fn;
  void *closure;
  void (*closure_free)(void *closure);
  uint32_t n_inputs, n_outputs, first_output, flags;
  const uint32_t *inputs; // values
} link_t;

struct dt_chain {
  _Atomic uint32_t refs;
  dt_runtime_t *runtime; // a reference
  dt_arena_t arena;      // of all below
  const char *name;
  uint32_t n_inputs, n_links, n_results, n_values, most_inputs;
  link_t *links;
  uint32_t *results; // values
  uint32_t *last; // by value: 1 + the last link that reads it, 0: none does, ALWAYS: a result is it
};

// ---- Making ---------------------------------------------------------------------------------------
static dt_status_t annotate(dt_status_t status, const dt_chain_t *chain, uint32_t k) {
  const char *name = chain->links[k].name;
  if (!status)
    return NULL;
  return name ? dt__status_annotate(status, "chain %s: link %u (%s)", chain->name, k + 1, name)
              : dt__status_annotate(status, "chain %s: link %u", chain->name, k + 1);
}

// The number of the value that `source` names, as what comes before link `k` (from 0) knows it.
static dt_status_t find_value(const dt_chain_t *chain, uint32_t k, dt_chain_source_t source,
                              uint32_t *out) {
  if (source.link > k)
    return DT_FAIL(DT_E_ARGUMENT, "link %u is not before it", source.link);
  uint32_t n = source.link ? chain->links[source.link - 1].n_outputs : chain->n_inputs;
  if (source.index >= n)
    return DT_FAIL(DT_E_ARGUMENT,
                   source.link ? "link %u has no output %u, but %u"
                               : "the chain (link %u) has no input %u, but %u",
                   source.link, source.index, n);
  *out = source.link ? chain->links[source.link - 1].first_output + source.index : source.index;
  return NULL;
}

static dt_status_t find_values(dt_chain_t *chain, uint32_t k, const char *what, uint32_t n,
                               const dt_chain_source_t *sources, uint32_t **out) {
  uint32_t *values = *out = DT_ARENA_ARRAY(&chain->arena, uint32_t, (size_t)n + 1);
  if (!values)
    return DT_NO_MEMORY();
  if (n && !sources)
    return DT_FAIL(DT_E_ARGUMENT, "%ss: NULL", what);
  for (uint32_t i = 0; i < n; i++)
    DT_TRY(dt__status_annotate(find_value(chain, k, sources[i], &values[i]), "%s %u", what, i));
  return NULL;
}

static dt_status_t check_link(const dt_chain_t *chain, const dt_chain_link_t *given) {
  if (!given->function == !given->fn)
    return DT_FAIL(DT_E_ARGUMENT, "%s",
                   given->fn ? "both a function and a host function"
                             : "neither a function nor a host function");
  if (given->flags & ~(uint32_t)DT_CHAIN_QUEUED)
    return DT_FAIL(DT_E_UNSUPPORTED, "the flags 0x%x are none of dt_chain_flag_t", given->flags);
  if (given->n_inputs > MOST_VALUES || given->n_outputs > MOST_VALUES)
    return DT_FAIL(DT_E_LIMIT, "more than %u values", MOST_VALUES);
  const dt_function_t *function = given->function;
  if (!function)
    return NULL;
  if (function->runtime != chain->runtime)
    return DT_FAIL(DT_E_ARGUMENT, "the function belongs to another runtime");
  if (given->flags || given->closure_free)
    return DT_FAIL(DT_E_ARGUMENT, "%s is for host functions",
                   given->flags ? "DT_CHAIN_QUEUED" : "closure_free");
  if (given->n_inputs != function->n_given ||
      (given->n_outputs && given->n_outputs != function->n_outputs))
    return DT_FAIL(DT_E_ARGUMENT, "got %u inputs and %u outputs; the function has %u and %u",
                   given->n_inputs, given->n_outputs, function->n_given, function->n_outputs);
  return NULL;
}

static dt_status_t take_link(dt_chain_t *chain, uint32_t k, const dt_chain_link_t *given) {
  uint32_t *inputs = NULL;
  link_t *link = &chain->links[k];
  DT_TRY(check_link(chain, given));
  const char *name = given->name ? given->name : given->function ? given->function->name : NULL;
  *link = (link_t){.name = name ? dt__arena_strdup(&chain->arena, name) : NULL,
                   .function = given->function,
                   .fn = given->fn,
                   .closure = given->closure,
                   .closure_free = given->closure_free,
                   .n_inputs = given->n_inputs,
                   .n_outputs = given->function ? given->function->n_outputs : given->n_outputs,
                   .first_output = chain->n_values,
                   .flags = given->flags};
  if (name && !link->name)
    return DT_NO_MEMORY();
  DT_TRY(find_values(chain, k, "input", given->n_inputs, given->inputs, &inputs));
  link->inputs = inputs;
  chain->n_values += link->n_outputs;
  if (chain->n_values > MOST_VALUES)
    return DT_FAIL(DT_E_LIMIT, "the chain has more than %u values", MOST_VALUES);
  chain->most_inputs = link->n_inputs > chain->most_inputs ? link->n_inputs : chain->most_inputs;
  return NULL;
}

static dt_status_t find_last(dt_chain_t *chain) {
  chain->last = DT_ARENA_ARRAY(&chain->arena, uint32_t, (size_t)chain->n_values + 1);
  if (!chain->last)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < chain->n_links; k++)
    for (uint32_t i = 0; i < chain->links[k].n_inputs; i++)
      chain->last[chain->links[k].inputs[i]] = k + 1;
  for (uint32_t r = 0; r < chain->n_results; r++)
    chain->last[chain->results[r]] = ALWAYS;
  return NULL;
}

static dt_status_t take_links(dt_chain_t *chain, const dt_chain_options_t *options) {
  chain->name = dt__arena_strdup(&chain->arena, options->name ? options->name : "chain");
  chain->links = DT_ARENA_ARRAY(&chain->arena, link_t, (size_t)options->n_links + 1);
  if (!chain->name || !chain->links)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < options->n_links; k++) {
    dt_chain_link_t given;
    dt_status_t status =
        DT_ELEMENT_TAKE(dt_chain_link_t, &given, options->links, options->link_size, k);
    DT_TRY(annotate(status ? status : take_link(chain, k, &given), chain, k));
  }
  DT_TRY(dt__status_annotate(find_values(chain, chain->n_links, "result", options->n_results,
                                         options->results, &chain->results),
                             "chain %s", chain->name));
  return find_last(chain);
}

// References, once nothing can fail.
static void take_references(dt_chain_t *chain) {
  dt_runtime_retain(chain->runtime);
  for (uint32_t k = 0; k < chain->n_links; k++)
    dt_function_retain(chain->links[k].function);
}

static dt_status_t create(dt_runtime_t *runtime, const dt_chain_options_t *options,
                          dt_chain_t **out) {
  dt_chain_options_t own;
  if (!runtime || !options)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "options" : "runtime");
  DT_TRY(DT_OPTIONS_TAKE(dt_chain_options_t, &own, options));
  if (!own.n_links || !own.links)
    return DT_FAIL(DT_E_ARGUMENT,
                   own.n_links ? "links: NULL" : "n_links: 0; expected one at least");
  if (own.n_links > MOST_LINKS || own.n_inputs > MOST_VALUES || own.n_results > MOST_VALUES)
    return DT_FAIL(DT_E_LIMIT, "%u links, %u inputs, %u results; expected at most %u, %u and %u",
                   own.n_links, own.n_inputs, own.n_results, MOST_LINKS, MOST_VALUES, MOST_VALUES);
  dt_chain_t *chain = dt__calloc(1, sizeof(*chain));
  if (!chain)
    return DT_NO_MEMORY();
  atomic_init(&chain->refs, 1);
  chain->runtime = runtime;
  chain->n_inputs = chain->n_values = own.n_inputs;
  chain->n_links = own.n_links;
  chain->n_results = own.n_results;
  dt__arena_init(&chain->arena, 1024);
  dt_status_t status = take_links(chain, &own);
  if (status) {
    dt__arena_fini(&chain->arena);
    dt__free(chain);
    return status;
  }
  take_references(chain);
  *out = chain;
  return NULL;
}

dt_status_t dt_chain_create(dt_runtime_t *runtime, const dt_chain_options_t *options,
                            dt_chain_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_chain_create: out: NULL; expected where to put the chain");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_chain_create in a child after fork");
  return dt__status_annotate(create(runtime, options, out), "dt_chain_create");
}

void dt_chain_retain(dt_chain_t *chain) {
  if (chain)
    (void)atomic_fetch_add_explicit(&chain->refs, 1, memory_order_relaxed);
}

void dt_chain_release(dt_chain_t *chain) {
  if (!chain || atomic_fetch_sub_explicit(&chain->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt_runtime_t *runtime = chain->runtime;
  for (uint32_t k = 0; k < chain->n_links; k++) {
    const link_t *link = &chain->links[k];
    dt_function_release(link->function);
    if (link->closure_free)
      link->closure_free(link->closure);
  }
  dt__arena_fini(&chain->arena);
  dt__free(chain);
  dt_runtime_release(runtime);
}

dt_status_t dt_chain_prepare(dt_chain_t *chain, const dt_prepare_options_t *options) {
  if (!chain)
    return DT_FAIL(DT_E_ARGUMENT, "dt_chain_prepare: chain: NULL");
  for (uint32_t k = 0; k < chain->n_links; k++)
    if (chain->links[k].function)
      DT_TRY(annotate(dt_function_prepare(chain->links[k].function, options), chain, k));
  return NULL;
}

// ---- Calling --------------------------------------------------------------------------------------
typedef struct run_t {
  dt_session_t *session;
  dt_chain_t *chain;
  const dt_call_options_t *options;
  dt_control_t *control; // NULL: nothing to look at
  dt_tensor_t **values;  // by value
  bool *owned;           // by value: the chain holds a reference
  dt_tensor_t **args;    // of a link
} run_t;

static void let_go(run_t *run, uint32_t value) {
  if (run->owned[value]) {
    dt_tensor_release(run->values[value]);
    run->values[value] = NULL;
    run->owned[value] = false;
  }
}

static dt_status_t check_outputs(run_t *run, const link_t *link) {
  for (uint32_t k = 0; k < link->n_outputs; k++)
    if (!run->values[link->first_output + k])
      return DT_FAIL(DT_E_ARGUMENT, "output %u of %u was not set", k, link->n_outputs);
  return NULL;
}

static dt_status_t run_host(run_t *run, const link_t *link) {
  dt_tensor_t **outputs = run->values + link->first_output;
  for (uint32_t k = 0; k < link->n_inputs; k++)
    DT_TRY(dt__status_annotate(dt__tensor_check_live(run->args[k]), "input %u", k));
  DT_TRY(dt__control_check(run->control));
  if (!(link->flags & DT_CHAIN_QUEUED)) {
    DT_TRY(dt__status_annotate(dt_session_wait(run->session), "the links before it"));
    DT_TRY(dt__control_check(run->control));
  }
  dt_status_t status =
      link->fn(run->session, run->args, link->n_inputs, outputs, link->n_outputs, link->closure);
  for (uint32_t k = 0; k < link->n_outputs; k++)
    run->owned[link->first_output + k] = outputs[k] != NULL;
  DT_TRY(status);
  if (atomic_load_explicit(&run->session->doomed, memory_order_relaxed))
    return DT_FAIL(DT_E_STATE, "the host function destroyed the session");
  return check_outputs(run, link);
}

static dt_status_t run_function(run_t *run, const link_t *link) {
  dt_tensor_t **outputs = run->values + link->first_output;
  for (uint32_t k = 0; k < link->n_outputs; k++)
    run->owned[link->first_output + k] = outputs[k] == NULL; // not what was given
  return dt_call(run->session, link->function, run->args, link->n_inputs, outputs, link->n_outputs,
                 run->options);
}

static dt_status_t run_links(run_t *run) {
  const dt_chain_t *chain = run->chain;
  for (uint32_t k = 0; k < chain->n_links; k++) {
    const link_t *link = &chain->links[k];
    for (uint32_t i = 0; i < link->n_inputs; i++)
      run->args[i] = run->values[link->inputs[i]];
    DT_TRY(annotate(link->fn ? run_host(run, link) : run_function(run, link), chain, k));
    for (uint32_t i = 0; i < link->n_inputs; i++)
      if (chain->last[link->inputs[i]] == k + 1)
        let_go(run, link->inputs[i]);
    for (uint32_t i = 0; i < link->n_outputs; i++)
      if (!chain->last[link->first_output + i])
        let_go(run, link->first_output + i);
  }
  return NULL;
}

static bool meet(const dt_tensor_t *a, const dt_tensor_t *b) {
  return dt__bytes_meet(dt__tensor_reach(a), dt__tensor_reach(b));
}

// Result r, which link k makes, is written over nothing that is read or given back later. What the
// link itself reads dt_call checks.
static dt_status_t check_place(const run_t *run, dt_tensor_t *const *results, uint32_t r,
                               uint32_t k) {
  const dt_chain_t *chain = run->chain;
  for (uint32_t i = 0; i < chain->n_inputs; i++)
    if (chain->last[i] > k + 1 && meet(results[r], run->values[i]))
      return DT_FAIL(DT_E_ARGUMENT, "result %u overlaps input %u, which is read behind link %u", r,
                     i, k + 1);
  for (uint32_t other = 0; other < r; other++)
    if (results[other] && chain->results[other] != chain->results[r] &&
        meet(results[r], results[other]))
      return DT_FAIL(DT_E_ARGUMENT, "result %u overlaps result %u", r, other);
  return NULL;
}

// What is given is where its function puts it.
static dt_status_t place_results(run_t *run, dt_tensor_t *const *results) {
  const dt_chain_t *chain = run->chain;
  for (uint32_t r = 0; r < chain->n_results; r++) {
    uint32_t value = chain->results[r], k = 0;
    if (!results[r])
      continue;
    if (value < chain->n_inputs)
      return DT_FAIL(DT_E_ARGUMENT,
                     "result %u is input %u, which is given back as it is: expected "
                     "no tensor",
                     r, value);
    while (chain->links[k].first_output + chain->links[k].n_outputs <= value)
      k++;
    if (chain->links[k].fn)
      return DT_FAIL(DT_E_ARGUMENT,
                     "result %u is made by the host function of link %u: expected "
                     "no tensor",
                     r, k + 1);
    if (run->values[value] && run->values[value] != results[r])
      return DT_FAIL(DT_E_ARGUMENT, "result %u is one that another tensor was given for", r);
    DT_TRY(check_place(run, results, r, k));
    run->values[value] = results[r];
  }
  return NULL;
}

static dt_status_t run_chain(run_t *run, dt_tensor_t *const *inputs, dt_tensor_t **results) {
  const dt_chain_t *chain = run->chain;
  if (chain->n_inputs)
    memcpy(run->values, inputs, chain->n_inputs * sizeof(*inputs));
  dt_status_t status = place_results(run, results);
  if (!status)
    status = dt__control_check(run->control);
  if (status)
    return dt__status_annotate(status, "chain %s", chain->name);
  status = run_links(run);
  for (uint32_t r = 0; !status && r < chain->n_results; r++)
    if (!results[r]) {
      results[r] = run->values[chain->results[r]];
      dt_tensor_retain(results[r]);
    }
  for (uint32_t value = 0; value < chain->n_values; value++)
    let_go(run, value);
  return status;
}

static dt_status_t check_call(const dt_session_t *session, const dt_chain_t *chain,
                              dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **results,
                              uint32_t n_results) {
  if (session->runtime != chain->runtime)
    return DT_FAIL(DT_E_ARGUMENT, "session and chain belong to different runtimes");
  if (n_inputs != chain->n_inputs || n_results != chain->n_results)
    return DT_FAIL(DT_E_ARGUMENT, "got %u inputs and %u results; expected %u and %u", n_inputs,
                   n_results, chain->n_inputs, chain->n_results);
  if ((n_inputs && !inputs) || (n_results && !results))
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", n_inputs && !inputs ? "inputs" : "results");
  for (uint32_t i = 0; i < n_inputs; i++)
    if (!inputs[i])
      return DT_FAIL(DT_E_ARGUMENT, "input %u: NULL; expected a tensor", i);
  return NULL;
}

// The session and the chain stay until the call ends, whatever host functions do.
static dt_status_t call(dt_session_t *session, dt_chain_t *chain, dt_tensor_t *const *inputs,
                        dt_tensor_t **results, const dt_call_options_t *options) {
  dt_tensor_t *few[FEW_VALUES] = {NULL};
  bool few_owned[FEW_VALUES] = {false};
  dt_control_t control;
  uint32_t n = chain->n_values + chain->most_inputs;
  run_t run = {.session = session,
               .chain = chain,
               .options = options,
               .values = n <= FEW_VALUES ? few : dt__calloc(n, sizeof(dt_tensor_t *)),
               .owned = n <= FEW_VALUES ? few_owned : dt__calloc(n, sizeof(bool))};
  if (options && dt__control_is_wanted(options->deadline_ns, options->cancel)) {
    dt__control_init(&control, options->deadline_ns, options->cancel);
    run.control = &control;
  }
  dt_status_t status = run.values && run.owned ? NULL : DT_NO_MEMORY();
  if (!status) {
    run.args = run.values + chain->n_values;
    dt_chain_retain(chain);
    dt__session_pin(session);
    status = run_chain(&run, inputs, results);
    dt__session_unpin(session);
    dt_chain_release(chain);
  }
  if (run.values != few)
    dt__free(run.values);
  if (run.owned != few_owned)
    dt__free(run.owned);
  return status;
}

dt_status_t dt_chain_call(dt_session_t *session, dt_chain_t *chain, dt_tensor_t *const *inputs,
                          uint32_t n_inputs, dt_tensor_t **results, uint32_t n_results,
                          const dt_call_options_t *options) {
  dt_call_options_t own;
  if (!session || !chain)
    return DT_FAIL(DT_E_ARGUMENT, "dt_chain_call: %s: NULL", session ? "chain" : "session");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_chain_call in a child after fork");
  dt_status_t status = check_call(session, chain, inputs, n_inputs, results, n_results);
  if (!status && options)
    status = DT_OPTIONS_TAKE(dt_call_options_t, &own, options);
  if (status)
    return dt__status_annotate(status, "chain %s", chain->name);
  return call(session, chain, inputs, results, options ? &own : NULL);
}
