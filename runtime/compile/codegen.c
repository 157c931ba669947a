// SPDX-License-Identifier: Apache-2.0
// Units of a program compiled side by side, loaded, and their entry points found.
#include "runtime/compile/codegen.h"

#include "backend_cuda/emit/emit.h"
#include "backend_llvm/emit/compile.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/codegen_cuda.h"
#include "runtime/compile/load.h"

dt_status_t dt__codegen_available(void) { return NULL; }

dt_status_t dt__codegen_target(const char *cpu, uint32_t pool_width, dt_target_t *out) {
  return dt__llvm_host_target(cpu, pool_width, out);
}

dt_status_t dt__codegen_device(const dt_cuda_device_t *device, const dt_target_t *host,
                               dt_target_t *out) {
  return dt__codegen_cuda_target(device, host, out);
}

// ---- Compiling units ------------------------------------------------------------------------------

typedef struct split_t {
  const dt_codegen_request_t *request;
  uint32_t max_units;
  dt_unit_map_t map;
} split_t;

static dt_status_t run_split(void *opaque) {
  split_t *split = opaque;
  return dt__llvm_split(split->request->program, split->request->target, split->max_units,
                        &split->map);
}

typedef struct unit_t {
  const dt_codegen_request_t *request;
  const dt_unit_map_t *map;
  uint32_t index;
  void *object; // owned
  size_t bytes;
} unit_t;

static dt_status_t run_unit(void *opaque) {
  unit_t *unit = opaque;
  const dt_codegen_request_t *request = unit->request;
  dt_compile_options_t options = {.strict_fp = request->strict_fp,
                                  .verify = request->verify,
                                  .dump_name = request->name,
                                  .dump_variant = request->variant};
  bool host = unit->index + 1 == unit->map->n_units;
  if (request->cuda && !host) {
    char *text = NULL;
    DT_TRY(dt__cuda_compile_unit(request->program, unit->map, unit->index, request->target,
                                 &options, &text, &unit->bytes));
    unit->object = text;
    return NULL;
  }
  return dt__llvm_compile_unit(request->program, unit->map, unit->index, request->target, &options,
                               &unit->object, &unit->bytes);
}

// ---- Devices --------------------------------------------------------------------------------------

// Objects of units from `first` on, the host's among them.
static dt_status_t load_units(const dt_codegen_request_t *request, const unit_t *units,
                              uint32_t first, uint32_t n_units, dt_compiled_t *out) {
  dt_object_t *objects = DT_ARENA_ARRAY(request->program->arena, dt_object_t, n_units + 1);
  if (!objects)
    return DT_NO_MEMORY();
  for (uint32_t i = first; i < n_units; i++)
    objects[i - first] = (dt_object_t){units[i].object, units[i].bytes};
  return dt__load_objects(objects, n_units - first, out);
}

static dt_status_t load_cpu(const dt_codegen_request_t *request, const dt_unit_map_t *map,
                            const unit_t *units, dt_compiled_t *out) {
  DT_TRY(load_units(request, units, 0, map->n_units, out));
  return dt__load_kernels(map->unit_of_code, map->n_codes, out);
}

static dt_status_t load_cuda(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                             const dt_unit_map_t *map, unit_t *units, dt_compiled_t *out) {
  uint32_t n = map->n_units - 1;
  dt_cuda_image_t *images = DT_ARENA_ARRAY(request->program->arena, dt_cuda_image_t, n + 1);
  if (!images)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++)
    images[i] = (dt_cuda_image_t){.text = units[i].object, .bytes = units[i].bytes};
  DT_TRY(dt__codegen_cuda_load(jobs, request, map, images, n, out));
  DT_TRY(load_units(request, units, n, map->n_units, out));
  if (request->keep) { // the host's object changes hands
    request->keep->host = (dt_object_t){units[n].object, units[n].bytes};
    units[n].object = NULL;
  }
  return NULL;
}

// ---- Entry points ---------------------------------------------------------------------------------

static dt_status_t find_host(const dt_program_t *program, dt_compiled_t *out) {
  DT_TRY(dt__load_host(dt__llvm_segment_count(program), out));
  out->output_segments = dt__calloc(program->outputs.len, sizeof(*out->output_segments));
  if (!out->output_segments)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->outputs.len; k++)
    out->output_segments[k] = dt__llvm_sizes_segment(program, program->outputs.items[k]);
  return NULL;
}

// ---- All of it ------------------------------------------------------------------------------------

static dt_status_t compile_units(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                 const dt_unit_map_t *map, unit_t *units, dt_compiled_t *out) {
  dt_job_t *items = DT_ARENA_ARRAY(request->program->arena, dt_job_t, map->n_units);
  if (!items)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < map->n_units; i++) {
    units[i] = (unit_t){.request = request, .map = map, .index = i};
    items[i] = (dt_job_t){.run = run_unit, .arg = &units[i]};
  }
  DT_TRY(dt__jobs_run(jobs, items, map->n_units));
  DT_TRY(request->cuda ? load_cuda(jobs, request, map, units, out)
                       : load_cpu(request, map, units, out));
  return find_host(request->program, out);
}

dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) {
  split_t split = {.request = request, .max_units = request->threads + 1};
  dt_job_t job = {.run = run_split, .arg = &split};
  DT_TRY(dt__jobs_run(jobs, &job, 1));
  unit_t *units = DT_ARENA_ARRAY(request->program->arena, unit_t, split.map.n_units);
  if (!units)
    return DT_NO_MEMORY();
  dt_status_t status = compile_units(jobs, request, &split.map, units, out);
  for (uint32_t i = 0; i < split.map.n_units; i++)
    dt__free(units[i].object);
  return status;
}
