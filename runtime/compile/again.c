// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/again.h"

#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/level.h"

typedef struct attempt_t {
  const dt_compiler_t *compiler;
  const dt_compile_request_t *request;
  const dt_compiled_t *compiled;
  dt_stage_observer_t observe;
  void *user;
  uint32_t level; // of dt__levels; DT_LEVELS: this machine
  bool same;      // the program is that of `compiled`
  dt_again_t *out;
} attempt_t;

static dt_status_t describe(const attempt_t *attempt, dt_target_t *out) {
  const dt_target_t *own = dt__compiler_target(attempt->compiler);
  const dt_codegen_t *codegen = attempt->request->codegen;
  *out = *own;
  if (codegen)
    DT_TRY(codegen->target(attempt->request->device, own, out));
  else if (attempt->level < DT_LEVELS)
    DT_TRY(dt__compiler_level(attempt->compiler, dt__levels[attempt->level].cpu, out));
  out->left_out = own->left_out;
  out->fast_conv = own->fast_conv;
  out->strict_fp = attempt->request->strict_fp;
  return codegen ? NULL
                 : dt__choices_apply(dt__choices_within(attempt->compiled->choices, out), out);
}

static uint32_t count_launches(const dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t k = program->n_once; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    n++;
  return n;
}

static dt_status_t run(void *opaque) {
  attempt_t *attempt = opaque;
  dt_again_t *out = attempt->out;
  const dt_traced_t *traced = attempt->request->traced;
  DT_TRY(describe(attempt, &out->target));
  DT_TRY(dt__symenv_clone(traced->env, &out->env));
  DT_TRY(dt__pipeline_run(&out->arena, out->env, traced->graph,
                          &(dt_pipeline_request_t){.hooks = traced->hooks,
                                                   .target = &out->target,
                                                   .observe = attempt->observe,
                                                   .user = attempt->user},
                          &out->program));
  DT_TRY(dt__llvm_split(out->program, &out->target, 2, DT_UNIT_WORK_ANY, &out->map));
  attempt->same = out->map.n_codes == attempt->compiled->n_kernels &&
                  count_launches(out->program) == attempt->compiled->n_launches;
  return NULL;
}

static dt_status_t try(attempt_t *attempt) {
  dt__again_fini(attempt->out);
  dt__arena_init(&attempt->out->arena, 0);
  dt_job_t job = {.run = run, .arg = attempt, .what = "the program once more"};
  return dt__jobs_run(dt__compiler_jobs((dt_compiler_t *)(uintptr_t)attempt->compiler), &job, 1, 1);
}

dt_status_t dt__compile_again(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              const dt_compiled_t *compiled, dt_stage_observer_t observe,
                              void *user, dt_again_t *out) {
  attempt_t attempt = {.compiler = compiler,
                       .request = request,
                       .compiled = compiled,
                       .observe = observe,
                       .user = user,
                       .level = DT_LEVELS,
                       .out = out};
  *out = (dt_again_t){0};
  DT_TRY(try(&attempt));
  for (uint32_t k = DT_LEVELS; !attempt.same && !request->codegen && k-- > 0;) {
    attempt.level = k;
    if (dt__level_runs(k))
      DT_TRY(try(&attempt));
  }
  return attempt.same ? NULL
                      : DT_FAIL(DT_E_UNSUPPORTED, "the code was compiled for another machine");
}

void dt__again_fini(dt_again_t *again) {
  dt__symenv_destroy(again->env);
  dt__arena_fini(&again->arena);
  *again = (dt_again_t){0};
}
