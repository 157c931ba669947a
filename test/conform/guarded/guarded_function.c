// SPDX-License-Identifier: Apache-2.0
// See guarded_function.h.
#include "test/conform/guarded/guarded_function.h"

#include "runtime/base/status.h"
#include "runtime/compile/compile.h"

#include <string.h>

void guarded_function_init(guarded_function_t *f, const dt_target_t *target,
                           const dt_compile_options_t *options) {
  memset(f, 0, sizeof(*f));
  f->target = *target;
  f->options = *options;
  dt__arena_init(&f->arena, 0);
}

void guarded_function_fini(guarded_function_t *f) {
  for (uint32_t k = 0; k < f->n; k++) {
    guarded_destroy(f->variants[k].code);
    dt__guards_destroy(f->variants[k].guards);
    dt__symenv_destroy(f->variants[k].env);
    dt__traced_destroy(f->variants[k].traced);
  }
  dt__arena_fini(&f->arena);
}

static dt_status_t make(guarded_function_t *f, const dt_trace_request_t *request,
                        guarded_variant_t *v) {
  DT_TRY(dt__trace_run(request, &v->traced));
  dt_guard_context_t context = {.shared = v->traced->shared};
  DT_TRY(dt__guards_create(v->traced->graph, v->traced->conds.items, v->traced->conds.len, &context,
                           &v->guards));
  DT_TRY(dt__symenv_clone(v->traced->env, &v->env));
  DT_TRY(dt__pipeline_run(&f->arena, v->env, v->traced->graph,
                          &(dt_pipeline_request_t){.target = &f->target}, &v->program));
  if (dt__symenv_symbol_count(v->env) > GUARDED_SYMBOLS)
    return DT_FAIL(DT_E_INTERNAL, "%u symbols", dt__symenv_symbol_count(v->env));
  return guarded_create(v->program, &f->target, &f->options, &v->code);
}

dt_status_t guarded_function_find(guarded_function_t *f, const dt_trace_request_t *request,
                                  guarded_variant_t **out) {
  dt_guard_args_t args = {.inputs = request->example};
  for (uint32_t k = 0; k < f->n; k++) {
    *out = &f->variants[k];
    if (dt__guards_run((*out)->guards, &args, f->symbols))
      return NULL;
  }
  if (f->n == GUARDED_VARIANTS)
    return DT_FAIL(DT_E_INTERNAL, "more than %u variants", f->n);
  *out = &f->variants[f->n++];
  DT_TRY(make(f, request, *out));
  if (!dt__guards_run((*out)->guards, &args, f->symbols))
    return DT_FAIL(DT_E_INTERNAL, "the guards of a trace refuse its own example");
  return NULL;
}
