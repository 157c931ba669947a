// SPDX-License-Identifier: Apache-2.0
// Stands in for codegen.c in builds without LLVM: refuses, and names what still works.
#include "runtime/compile/codegen.h"

#include "ductile/function.h"

#include "runtime/base/status.h"

#include <stdio.h>

dt_status_t dt__codegen_available(void) {
  return DT_FAIL(DT_E_UNSUPPORTED,
                 "this build has no code generator; build with DUCTILE_LLVM=ON, or "
                 "ask for DT_ANSWER_EVALUATOR");
}

dt_status_t dt__codegen_allowed(void) { return NULL; }

dt_status_t dt__codegen_isolate(const dt_workers_options_t *options, dt_workers_t **out) {
  (void)options;
  *out = NULL; // nothing is compiled, so there is nothing to keep apart
  return NULL;
}

void dt__codegen_stop(dt_workers_t *workers) { (void)workers; }

void dt__codegen_end(dt_workers_t *workers) { (void)workers; }

int dt_worker_main(int argc, char **argv) {
  (void)argc;
  (void)fprintf(stderr, "%s: this build has no code generator\n", argv[0]);
  return 2;
}

dt_status_t dt__codegen_target(dt_workers_t *workers, const char *cpu, uint32_t pool_width,
                               dt_target_t *out) {
  (void)workers;
  (void)cpu;
  *out = (dt_target_t){.device = DT_CPU,
                       .vector_bytes = 16,
                       .vector_registers = 16,
                       .threads = pool_width,
                       .l1_bytes = 32 << 10,
                       .l2_bytes = 1 << 20};
  return NULL;
}

dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) {
  (void)jobs;
  (void)request;
  (void)out;
  return dt__codegen_available();
}
