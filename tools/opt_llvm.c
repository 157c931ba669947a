// SPDX-License-Identifier: Apache-2.0
// LLVM IR leaves the backend by its dumps only, so this dumps into a folder of its own and reads
// that.
#include "tools/opt_llvm.h"

#include "runtime/base/status.h"

#ifdef DT_HAVE_LLVM
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "tools/opt_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Each unit is dumped as emitted, under an even number, and after LLVM's passes, under the next
// one.
#define DUMPS_A_UNIT 2

static dt_status_t compile_units(dt_program_t *program, uint32_t *out_n_units) {
  *out_n_units = 0;
  dt_target_t target;
  DT_TRY(dt__host_target("x86-64-v3", 4, &target));
  dt_unit_map_t map;
  DT_TRY(dt__llvm_split(program, &target, 2, DT_UNIT_WORK_ANY, &map));
  *out_n_units = map.n_units;
  dt_compile_options_t options = {.verify = true, .dump_name = "kernels"};
  for (uint32_t i = 0; i < map.n_units; i++) {
    void *object = NULL;
    size_t bytes = 0;
    DT_TRY(dt__llvm_compile_unit(program, &map, i, &target, &options, &object, &bytes));
    dt__free(object);
  }
  return NULL;
}

// Moves the emitted texts into `out` and removes all files.
static dt_status_t collect(const char *folder, uint32_t n_units, dt_text_t *out) {
  dt_status_t status = NULL;
  for (uint32_t i = 0; i < DUMPS_A_UNIT * n_units; i++) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/kernels.0.%02u-llvm.dtt", folder, i);
    opt_file_t file = {0};
    if (!status && i % DUMPS_A_UNIT == 0)
      status = opt_file_read(path, &file);
    dt__text_put(out, file.in ? file.in : "");
    opt_file_fini(&file);
    (void)unlink(path);
  }
  return status ? status : dt__text_status(out);
}

dt_status_t opt_llvm_print(dt_program_t *program, dt_text_t *out) {
  char folder[] = "/tmp/ductile-opt-XXXXXX";
  if (!mkdtemp(folder))
    return DT_FAIL(DT_E_IO, "%s: %s", folder, strerror(errno));
  uint32_t n_units = 0;
  dt_status_t status = dt__dump_configure("llvm", folder);
  if (!status)
    status = compile_units(program, &n_units);
  status = dt__status_join(status, dt__dump_configure("", ""));
  status = dt__status_join(status, collect(folder, n_units, out));
  (void)rmdir(folder);
  return status;
}
#else
dt_status_t opt_llvm_print(dt_program_t *program, dt_text_t *out) {
  (void)program;
  (void)out;
  return DT_FAIL(DT_E_UNSUPPORTED, "--llvm: this build has no code generator");
}
#endif
