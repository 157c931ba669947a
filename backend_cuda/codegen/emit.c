// SPDX-License-Identifier: Apache-2.0
// What code for CUDA is made for, how the code generator makes it, and how the driver makes it a
// device's: see codegen.h.
#include "backend_cuda/codegen/codegen.h"

#include "backend_cuda/emit/arch.h"
#include "backend_llvm/jit/jit.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <string.h>

static dt_cuda_model_t model_of(const dt_cuda_device_t *device) {
  return (dt_cuda_model_t){.major = device->major,
                           .minor = device->minor,
                           .processors = device->processors,
                           .shared_per_block = device->shared_per_block,
                           .l2_bytes = device->l2_bytes};
}

dt_status_t dt__cuda_codegen_target(const void *device, const dt_target_t *host, dt_target_t *out) {
  dt_cuda_model_t model = model_of(device);
  return dt__cuda_target(&model, host, out);
}

dt_status_t dt__cuda_codegen_level_target(uint32_t level, const dt_target_t *host,
                                          dt_target_t *out) {
  return dt__cuda_arch_target(&dt__cuda_archs[level], host, out);
}

uint32_t dt__cuda_codegen_suits(const void *device, uint32_t level) {
  dt_cuda_model_t model = model_of(device);
  return dt__cuda_arch_suits(&dt__cuda_archs[level], &model);
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
  dt_cuda_image_t image;
  dt_cuda_unit_t *unit;
} make_t;

static dt_status_t run_make(void *opaque) {
  make_t *make = opaque;
  return dt__cuda_unit_make(make->device, &make->image, make->unit);
}

// All units side by side: linking takes most of a compile.
static dt_status_t make_units(dt_jobs_t *jobs, uint32_t threads, dt_cuda_device_t *device,
                              const dt_object_t *texts, dt_cuda_unit_t *units, uint32_t n) {
  make_t *makes = dt__calloc(n, sizeof(*makes));
  dt_job_t *items = dt__calloc(n, sizeof(*items));
  dt_status_t status = makes && items ? NULL : DT_NO_MEMORY();
  for (uint32_t i = 0; i < n && !status; i++) {
    makes[i] = (make_t){device, {texts[i].data, texts[i].bytes}, &units[i]};
    items[i] = (dt_job_t){.run = run_make, .arg = &makes[i], .what = "link", .part = i + 1};
  }
  if (!status && n)
    status = dt__jobs_run(jobs, items, n, threads);
  dt__free(makes);
  dt__free(items);
  return status;
}

// ---- Code -----------------------------------------------------------------------------------------
// PTX of units, and how each code in it is launched.
typedef struct texts_t {
  const dt_object_t *units;
  uint32_t n_units;
  const uint32_t *infos;
  uint32_t n_codes;
} texts_t;

// Has room for each unit and code.
static dt_status_t make_code(dt_jobs_t *jobs, uint32_t threads, dt_cuda_device_t *device,
                             const texts_t *texts, dt_cuda_unit_t *units,
                             dt_cuda_kernel_info_t *kernels, dt_compiled_t *out) {
  dt_cuda_code_t *code = NULL;
  for (uint32_t i = 0; i < texts->n_codes; i++)
    dt__cuda_info_read(texts->infos + (size_t)i * DT_CUDA_INFO_WORDS, &kernels[i]);
  int64_t begin = dt__now_ns();
  DT_TRY(make_units(jobs, threads, device, texts->units, units, texts->n_units));
  DT_TRY(dt__cuda_code_load(device, units, texts->n_units, kernels, texts->n_codes, &code));
  out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
  return dt__cuda_codegen_take(code, texts->n_codes, out);
}

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
                        const dt_unit_map_t *map, const dt_object_t *objects, dt_cuda_unit_t *units,
                        uint32_t n, dt_compiled_t *out) {
  dt_cuda_kernel_info_t *kernels =
      DT_ARENA_ARRAY(request->program->arena, dt_cuda_kernel_info_t, map->n_codes + 1);
  if (!kernels)
    return DT_NO_MEMORY();
  DT_TRY(make_code(jobs, request->threads, request->device,
                   &(texts_t){objects, n, request->infos, map->n_codes}, units, kernels, out));
  return request->keep ? keep(request->keep, kernels, map->n_codes, units, n) : NULL;
}

static void units_free(dt_cuda_device_t *device, dt_cuda_unit_t *units, uint32_t n) {
  for (uint32_t i = 0; units && i < n; i++)
    dt__cuda_unit_fini(device, &units[i]);
  dt__free(units);
}

dt_status_t dt__cuda_codegen_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_object_t *objects, uint32_t n,
                                  dt_compiled_t *out) {
  dt_cuda_unit_t *units = dt__calloc(n, sizeof(*units));
  dt_status_t status = units ? load(jobs, request, map, objects, units, n, out) : DT_NO_MEMORY();
  units_free(request->device, units, n);
  return status;
}

dt_status_t dt__cuda_codegen_load_carried(dt_jobs_t *jobs, void *device,
                                          const dt_artifact_t *artifact, dt_compiled_t *out) {
  uint32_t n = artifact->n_objects;
  const texts_t texts = {artifact->objects, n, artifact->infos, artifact->n_kernels};
  dt_cuda_unit_t *units = dt__calloc(n, sizeof(*units));
  dt_cuda_kernel_info_t *kernels = dt__calloc(artifact->n_kernels, sizeof(*kernels));
  dt_status_t status =
      units && kernels ? make_code(jobs, 0, device, &texts, units, kernels, out) : DT_NO_MEMORY();
  units_free(device, units, n);
  dt__free(kernels);
  return status;
}
