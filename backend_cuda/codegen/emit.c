// SPDX-License-Identifier: Apache-2.0
// What of CUDA's code generation needs the code generator: see codegen.h.
#include "backend_cuda/codegen/codegen.h"

#include "backend_cuda/emit/target.h"
#include "backend_llvm/jit/jit.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <string.h>

dt_status_t dt__cuda_codegen_target(const void *device, const dt_target_t *host, dt_target_t *out) {
  const dt_cuda_device_t *from = device;
  dt_cuda_model_t model = {.major = from->major,
                           .minor = from->minor,
                           .processors = from->processors,
                           .shared_per_block = from->shared_per_block,
                           .l2_bytes = from->l2_bytes};
  return dt__cuda_target(&model, host, out);
}

dt_status_t dt__cuda_codegen_emit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, void **out,
                                  size_t *out_bytes) {
  char *text = NULL;
  DT_TRY(dt__jit()->devices[DT_CUDA]->compile_unit(program, map, unit, target, options, &text,
                                                   out_bytes));
  *out = text;
  return NULL;
}

// ---- Units ----------------------------------------------------------------------------------------

typedef struct make_t {
  dt_cuda_device_t *device;
  const dt_cuda_image_t *image;
  dt_cuda_unit_t *unit;
} make_t;

static dt_status_t run_make(void *opaque) {
  make_t *make = opaque;
  return dt__cuda_unit_make(make->device, make->image, make->unit);
}

// All units side by side: linking takes most of a compile.
static dt_status_t make_units(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                              const dt_cuda_image_t *images, dt_cuda_unit_t *units, uint32_t n) {
  dt_arena_t *arena = request->program->arena;
  make_t *makes = DT_ARENA_ARRAY(arena, make_t, n + 1);
  dt_job_t *items = DT_ARENA_ARRAY(arena, dt_job_t, n + 1);
  if (!makes || !items)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    makes[i] = (make_t){request->device, &images[i], &units[i]};
    items[i] = (dt_job_t){.run = run_make, .arg = &makes[i]};
  }
  return dt__jobs_run(jobs, items, n, request->threads);
}

// ---- Code -----------------------------------------------------------------------------------------

dt_status_t dt__cuda_codegen_describe(dt_program_t *program, const dt_unit_map_t *map,
                                      const dt_target_t *target, uint32_t *out_infos) {
  for (uint32_t i = 0; i < map->n_codes; i++) {
    dt_cuda_kernel_info_t info = {0};
    DT_TRY(dt__jit()->devices[DT_CUDA]->describe(program, map, i, target, &info));
    dt__cuda_info_write(&info, out_infos + i * DT_CUDA_INFO_WORDS);
  }
  return NULL;
}

// Cubins change hands.
static dt_status_t keep(dt_artifact_t *artifact, const dt_cuda_kernel_info_t *kernels,
                        uint32_t n_kernels, dt_cuda_unit_t *units, uint32_t n) {
  artifact->infos = dt__calloc(n_kernels, DT_CUDA_INFO_WORDS * sizeof(*artifact->infos));
  artifact->objects = dt__calloc(n, sizeof(*artifact->objects));
  if (!artifact->infos || !artifact->objects)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n_kernels; k++)
    dt__cuda_info_write(&kernels[k], artifact->infos + k * DT_CUDA_INFO_WORDS);
  artifact->n_kernels = n_kernels;
  for (; artifact->n_objects < n; artifact->n_objects++) {
    dt_cuda_unit_t *unit = &units[artifact->n_objects];
    artifact->objects[artifact->n_objects] = (dt_object_t){unit->cubin, unit->bytes};
    unit->cubin = NULL;
  }
  return NULL;
}

static dt_status_t load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                        const dt_unit_map_t *map, const dt_cuda_image_t *images,
                        dt_cuda_unit_t *units, uint32_t n, dt_compiled_t *out) {
  dt_cuda_code_t *code = NULL;
  dt_cuda_kernel_info_t *kernels =
      DT_ARENA_ARRAY(request->program->arena, dt_cuda_kernel_info_t, map->n_codes + 1);
  if (!kernels)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < map->n_codes; i++)
    dt__cuda_info_read(request->infos + i * DT_CUDA_INFO_WORDS, &kernels[i]);
  int64_t begin = dt__now_ns();
  if (n)
    DT_TRY(make_units(jobs, request, images, units, n));
  DT_TRY(dt__cuda_code_load(request->device, units, n, kernels, map->n_codes, &code));
  out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
  DT_TRY(dt__cuda_codegen_take(code, map->n_codes, out));
  return request->keep ? keep(request->keep, kernels, map->n_codes, units, n) : NULL;
}

dt_status_t dt__cuda_codegen_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_object_t *objects, uint32_t n,
                                  dt_compiled_t *out) {
  dt_cuda_image_t *images = DT_ARENA_ARRAY(request->program->arena, dt_cuda_image_t, n + 1);
  dt_cuda_unit_t *units = dt__calloc(n, sizeof(*units));
  if (!images || !units) {
    dt__free(units);
    return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < n; i++)
    images[i] = (dt_cuda_image_t){.text = objects[i].data, .bytes = objects[i].bytes};
  dt_status_t status = load(jobs, request, map, images, units, n, out);
  for (uint32_t i = 0; i < n; i++)
    dt__cuda_unit_fini(request->device, &units[i]);
  dt__free(units);
  return status;
}
