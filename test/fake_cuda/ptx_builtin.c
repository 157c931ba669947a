// SPDX-License-Identifier: Apache-2.0
// Device functions that the driver itself defines: modules declare them .extern, and a call of one
// is an instruction. The arguments are taken from the call's copies.
#include "test/fake_cuda/ptx_read.h"
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

// One row a function: bytes of its parameters, and what it does. Those that change nodes of a graph
// would stand here, too.
static const struct {
  const char *name;
  uint32_t n, bytes[4];
  ptx_exec_t exec;
} builtins[] = {
    {"cudaGraphSetConditional", 2, {8, 4}, ptx_exec_set_condition},
};

ptx_exec_t ptx_builtin(const ptx_function_t *f) {
  for (size_t k = 0; k < sizeof(builtins) / sizeof(builtins[0]); k++) {
    bool same =
        strcmp(builtins[k].name, f->name) == 0 && f->n_params == builtins[k].n && f->n_results == 0;
    for (uint32_t p = 0; p < f->n_params && same; p++)
      same = f->params[p].bytes == builtins[k].bytes[p];
    if (same)
      return builtins[k].exec;
  }
  return NULL;
}

static uint64_t argument(const ptx_warp_t *warp, const ptx_insn_t *in, uint32_t k, uint32_t lane) {
  return ptx_in(warp, warp->run->module->calls[in->extra].in[k].from)[lane];
}

// cudaGraphSetConditional(handle, value)
void ptx_exec_set_condition(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const ptx_run_t *run = warp->run;
  uint32_t hasty = run->launch->programmatic ? mask & ~warp->waited : 0;
  if (hasty) {
    ptx_violation(warp, in, (uint32_t)__builtin_ctz(hasty),
                  "a condition is set before griddepcontrol.wait");
    return;
  }
  PTX_EACH(lane, mask) {
    uint64_t thread = (uint64_t)run->first_number + warp->index * PTX_LANES + lane;
    const char *wrong = fake_condition_set(argument(warp, in, 0, lane),
                                           (uint32_t)argument(warp, in, 1, lane), thread);
    if (wrong) {
      ptx_violation(warp, in, lane, "%s", wrong);
      return;
    }
  }
}
