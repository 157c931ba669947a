// SPDX-License-Identifier: Apache-2.0
// Units of a program compiled side by side, loaded, and their entry points found.
#include "runtime/compile/codegen.h"

#include "backend_cuda/emit/emit.h"
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/load/code.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/codegen_cuda.h"
#include "runtime/compile/load.h"
#include "runtime/compile/worker_text.h"

dt_status_t dt__codegen_available(void) { return NULL; }

dt_status_t dt__codegen_allowed(void) { return dt__code_probe(); }

dt_status_t dt__codegen_isolate(const dt_workers_options_t *options, dt_workers_t **out) {
  return dt__workers_create(options, out);
}

void dt__codegen_stop(dt_workers_t *workers) { dt__workers_stop(workers); }

void dt__codegen_end(dt_workers_t *workers) { dt__workers_destroy(workers); }

dt_status_t dt__codegen_target(dt_workers_t *workers, const char *cpu, uint32_t pool_width,
                               dt_target_t *out) {
  return workers ? dt__workers_target(workers, cpu, pool_width, out)
                 : dt__llvm_host_target(cpu, pool_width, out);
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
  dt_text_t text; // the program, where workers read it
} split_t;

static dt_compile_options_t options_of(const dt_codegen_request_t *request) {
  return (dt_compile_options_t){
      .verify = request->verify, .dump_name = request->name, .dump_variant = request->variant};
}

static dt_status_t run_split(void *opaque) {
  split_t *split = opaque;
  const dt_codegen_request_t *request = split->request;
  dt__watch_enter(request->program->arena->watch);
  // Each unit of a device is a module, and loading one holds up what runs there.
  uint64_t work = request->cuda ? DT_UNIT_WORK_ANY : DT_UNIT_WORK;
  DT_TRY(dt__llvm_split(request->program, request->target, split->max_units, work, &split->map));
  if (!request->workers)
    return NULL;
  dt_compile_options_t options = options_of(request);
  return dt__worker_program_write(request->program, &split->map, request->target, &options,
                                  &split->text);
}

typedef struct unit_t {
  const dt_codegen_request_t *request;
  const dt_unit_map_t *map;
  const dt_worker_source_t *source;
  uint32_t index;
  void *object; // owned
  size_t bytes;
} unit_t;

static dt_status_t compile_unit(unit_t *unit) {
  const dt_codegen_request_t *request = unit->request;
  dt_compile_options_t options = options_of(request);
  bool host = unit->index + 1 == unit->map->n_units;
  if (request->workers)
    return dt__workers_unit(request->workers, unit->source, unit->index,
                            request->program->arena->watch, &unit->object, &unit->bytes);
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

static void tell_unit(const unit_t *unit, int64_t ns) {
  bool host = unit->index + 1 == unit->map->n_units;
  DT_LOG(DT_LOG_COMPILE, 2, "%s.%u unit %u of %u%s: %zu bytes, %.3f ms", unit->request->name,
         unit->request->variant, unit->index, unit->map->n_units, host ? ", the host program" : "",
         unit->bytes, (double)ns * 1e-6);
}

// The unit's kernels by the first of them.
static const char *unit_kernel(const unit_t *unit) {
  const dt_program_t *program = unit->request->program;
  for (uint32_t i = 0; i < unit->map->n_codes; i++)
    if (unit->map->unit_of_code[i] == unit->index)
      return program->kernels.items[unit->map->origin_of_code[i].kernel].name;
  return "the host program";
}

// What LLVM takes is counted by estimate while the unit is under way.
static dt_status_t watch_unit(unit_t *unit, dt_watch_t *watch) {
  uint64_t bytes = dt__llvm_unit_bytes(unit->request->program, unit->map, unit->index);
  DT_TRY(dt__watch_check(watch));
  if (!dt__watch_take(watch, bytes))
    return dt__watch_explain(watch, DT_NO_MEMORY());
  int64_t begin = dt__now_ns();
  dt_status_t status = dt__watch_explain(watch, compile_unit(unit));
  dt__watch_give(watch, bytes);
  if (!status)
    tell_unit(unit, dt__now_ns() - begin);
  return status ? status : dt__watch_check(watch);
}

static dt_status_t run_unit(void *opaque) {
  unit_t *unit = opaque;
  dt_watch_t *watch = unit->request->program->arena->watch;
  dt__watch_enter(watch);
  dt_status_t status = watch_unit(unit, watch);
  if (dt_status_code(status) == DT_E_LIMIT)
    return dt__status_annotate(status, "unit %u of %u (%s)", unit->index + 1, unit->map->n_units,
                               unit_kernel(unit));
  return status;
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

static dt_status_t compile_units(dt_jobs_t *jobs, const split_t *split, unit_t *units,
                                 dt_compiled_t *out) {
  const dt_codegen_request_t *request = split->request;
  const dt_unit_map_t *map = &split->map;
  dt_worker_source_t source = {.number =
                                   request->workers ? dt__workers_number(request->workers) : 0,
                               .name = request->name,
                               .text = dt__text_str(&split->text),
                               .bytes = split->text.len};
  dt_job_t *items = DT_ARENA_ARRAY(request->program->arena, dt_job_t, map->n_units);
  if (!items)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < map->n_units; i++) {
    units[i] = (unit_t){.request = request, .map = map, .source = &source, .index = i};
    items[i] = (dt_job_t){.run = run_unit, .arg = &units[i]};
  }
  DT_TRY(dt__jobs_run(jobs, items, map->n_units, request->threads));
  DT_TRY(request->cuda ? load_cuda(jobs, request, map, units, out)
                       : load_cpu(request, map, units, out));
  return find_host(request->program, out);
}

static dt_status_t run_all(dt_jobs_t *jobs, split_t *split, dt_compiled_t *out) {
  dt_job_t job = {.run = run_split, .arg = split};
  DT_TRY(dt__jobs_run(jobs, &job, 1, 0));
  unit_t *units = DT_ARENA_ARRAY(split->request->program->arena, unit_t, split->map.n_units);
  if (!units)
    return DT_NO_MEMORY();
  dt_status_t status = compile_units(jobs, split, units, out);
  for (uint32_t i = 0; i < split->map.n_units; i++)
    dt__free(units[i].object);
  return status;
}

dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) {
  split_t split = {.request = request, .max_units = request->threads + 1};
  dt__text_init(&split.text);
  dt_status_t status = run_all(jobs, &split, out);
  dt__text_fini(&split.text);
  return status;
}
