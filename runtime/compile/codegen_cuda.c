// SPDX-License-Identifier: Apache-2.0
// See codegen_cuda.h.
#include "runtime/compile/codegen_cuda.h"

#include "backend_cuda/emit/emit.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/compile/load.h"

#include <string.h>

dt_status_t dt__codegen_cuda_target(const dt_cuda_device_t *device, const dt_target_t *host,
                                    dt_target_t *out) {
  dt_cuda_model_t model = {.major = device->major,
                           .minor = device->minor,
                           .processors = device->processors,
                           .shared_per_block = device->shared_per_block,
                           .l2_bytes = device->l2_bytes};
  return dt__cuda_target(&model, host, out);
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
    makes[i] = (make_t){request->cuda, &images[i], &units[i]};
    items[i] = (dt_job_t){.run = run_make, .arg = &makes[i]};
  }
  return dt__jobs_run(jobs, items, n, request->threads);
}

// ---- Code -----------------------------------------------------------------------------------------

static dt_status_t describe_kernels(const dt_codegen_request_t *request, const dt_unit_map_t *map,
                                    dt_cuda_kernel_info_t *out) {
  for (uint32_t i = 0; i < map->n_codes; i++)
    DT_TRY(dt__cuda_kernel_info(request->program, map, i, request->target, &out[i]));
  return NULL;
}

// Cubins change hands.
static dt_status_t keep(dt_artifact_t *artifact, const dt_cuda_kernel_info_t *kernels,
                        uint32_t n_kernels, dt_cuda_unit_t *units, uint32_t n) {
  artifact->kernels = dt__calloc(n_kernels, sizeof(*kernels));
  artifact->cubins = dt__calloc(n, sizeof(*artifact->cubins));
  if (!artifact->kernels || !artifact->cubins)
    return DT_NO_MEMORY();
  if (n_kernels)
    memcpy(artifact->kernels, kernels, n_kernels * sizeof(*kernels));
  artifact->n_codes = n_kernels;
  for (; artifact->n_cubins < n; artifact->n_cubins++) {
    dt_cuda_unit_t *unit = &units[artifact->n_cubins];
    artifact->cubins[artifact->n_cubins] = (dt_object_t){unit->cubin, unit->bytes};
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
  DT_TRY(describe_kernels(request, map, kernels));
  int64_t begin = dt__now_ns();
  if (n)
    DT_TRY(make_units(jobs, request, images, units, n));
  DT_TRY(dt__cuda_code_load(request->cuda, units, n, kernels, map->n_codes, &code));
  out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
  DT_TRY(dt__load_device_kernels(code, map->n_codes, out));
  return request->keep ? keep(request->keep, kernels, map->n_codes, units, n) : NULL;
}

dt_status_t dt__codegen_cuda_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_cuda_image_t *images,
                                  uint32_t n_images, dt_compiled_t *out) {
  dt_cuda_unit_t *units = dt__calloc(n_images, sizeof(*units));
  if (!units)
    return DT_NO_MEMORY();
  dt_status_t status = load(jobs, request, map, images, units, n_images, out);
  for (uint32_t i = 0; i < n_images; i++)
    dt__cuda_unit_fini(request->cuda, &units[i]);
  dt__free(units);
  return status;
}
