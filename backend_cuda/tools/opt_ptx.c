// SPDX-License-Identifier: Apache-2.0
// See opt_ptx.h.
#include "tools/opt_ptx.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#include "backend_cuda/emit/target.h"
#ifdef DT_HAVE_LLVM
#include "backend_cuda/emit/emit.h"
#endif

typedef struct gpu_t {
  const char *name;
  dt_cuda_model_t model;
} gpu_t;

// An A100, an L40 and an H200.
static const gpu_t gpus[] = {{"sm_80", {8, 0, 108, 163 << 10, 40 << 20}},
                             {"sm_89", {8, 9, 142, 99 << 10, 96 << 20}},
                             {"sm_90", {9, 0, 132, 227 << 10, 50 << 20}}};

static const gpu_t *find(const char *name) {
  for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
    if (strcmp(gpus[i].name, name) == 0)
      return &gpus[i];
  return NULL;
}

bool opt_ptx_known(const char *name) { return find(name) != NULL; }

dt_status_t opt_ptx_target(const char *name, dt_target_t *out) {
  const gpu_t *gpu = find(name);
  if (!gpu)
    return DT_FAIL(DT_E_ARGUMENT, "GPU '%s' is not known", name);
  return dt__cuda_target(&gpu->model, NULL, out);
}

#ifdef DT_HAVE_LLVM
dt_status_t opt_ptx_print(dt_program_t *program, const dt_target_t *target, dt_text_t *out) {
  dt_unit_map_t map;
  DT_TRY(dt__llvm_split(program, target, 2, DT_UNIT_WORK_ANY, &map));
  dt_compile_options_t options = {.verify = true};
  for (uint32_t i = 0; i + 1 < map.n_units; i++) {
    char *text = NULL;
    size_t bytes = 0;
    DT_TRY(dt__cuda_compile_unit(program, &map, i, target, &options, &text, &bytes));
    dt__text_put(out, text);
    dt__free(text);
  }
  return dt__text_status(out);
}
#else
dt_status_t opt_ptx_print(dt_program_t *program, const dt_target_t *target, dt_text_t *out) {
  (void)program;
  (void)target;
  (void)out;
  return DT_FAIL(DT_E_UNSUPPORTED, "--ptx: this build has no code generator");
}
#endif
