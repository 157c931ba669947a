// SPDX-License-Identifier: Apache-2.0
// Units of a program compiled side by side, loaded, and their entry points found.
#include "runtime/compile/codegen.h"

#include "backend_llvm/host/target.h"
#include "backend_llvm/jit/jit.h"
#include "backend_llvm/load/code.h"
#include "fuse/donate.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/load.h"
#include "runtime/compile/maker.h"
#include "runtime/compile/worker_text.h"

#include <stdio.h>
#include <string.h>

dt_status_t dt__codegen_allowed(void) { return dt__code_probe(); }

dt_status_t dt__codegen_isolate(const dt_workers_options_t *options, dt_workers_t **out) {
  return dt__workers_create(options, out);
}

void dt__codegen_stop(dt_workers_t *workers) { dt__workers_stop(workers); }

void dt__codegen_end(dt_workers_t *workers) { dt__workers_destroy(workers); }

dt_status_t dt__codegen_target(dt_workers_t *workers, const char *cpu, uint32_t pool_width,
                               dt_target_t *out) {
  DT_TRY(workers ? dt__workers_target(workers, cpu, pool_width, out)
                 : dt__host_target(cpu, pool_width, out));
  (void)snprintf(out->generator, sizeof(out->generator), "%s", dt__jit_identity());
  return NULL;
}

dt_status_t dt__codegen_open(const dt_workers_t *workers, const char *path) {
  const dt_jit_t *jit = NULL;
  return workers ? NULL : dt__jit_open(path, &jit);
}

bool dt__codegen_is_open(const dt_workers_t *workers) { return workers || dt__jit(); }

dt_status_t dt__codegen_maker(dt_workers_t *workers, const char *path, dt_maker_t *out) {
  const dt_jit_t *jit = NULL;
  if (workers)
    return dt__workers_maker(workers, out);
  DT_TRY(dt__jit_open(path, &jit));
  dt__text_put(&out->jit, dt__jit_file());
  DT_TRY(dt__text_status(&out->jit));
  return jit->maker(&out->llvm, &out->build);
}

// ---- Compiling units ------------------------------------------------------------------------------

// Kernels of less work for each compile thread, in about as many instructions of LLVM's, get their
// best form at once.
#define QUICK_WORK 5000

typedef struct split_t {
  const dt_codegen_request_t *request;
  uint32_t max_units;
  bool quick; // kernels are made in their quick form
  dt_unit_map_t map;
  dt_text_t text; // the program, where workers read it
} split_t;

static dt_compile_options_t options_of(const dt_codegen_request_t *request, bool quick) {
  return (dt_compile_options_t){.verify = request->verify,
                                .quick_kernels = quick,
                                .dump_name = request->name,
                                .dump_variant = request->variant};
}

static bool is_quick(const split_t *split) {
  const dt_codegen_request_t *request = split->request;
  uint64_t work = 0,
           least = request->haste == DT_HASTE_SOME ? QUICK_WORK * (uint64_t)request->threads : 0;
  for (uint32_t i = 0; i < split->map.n_codes; i++)
    work += split->map.work_of_code[i];
  return request->haste && !request->codegen && work >= least;
}

static dt_status_t run_split(void *opaque) {
  split_t *split = opaque;
  const dt_codegen_request_t *request = split->request;
  dt__watch_enter(request->program->arena->watch);
  uint64_t work = request->codegen ? request->codegen->unit_work : DT_UNIT_WORK;
  DT_TRY(dt__llvm_split(request->program, request->target, split->max_units, work, &split->map));
  split->quick = is_quick(split);
  if (split->quick && request->on_quick)
    request->on_quick(request->user);
  if (!request->workers)
    return NULL;
  dt_compile_options_t options = options_of(request, split->quick);
  return dt__worker_program_write(request->program, &split->map, request->target, &options,
                                  &split->text);
}

typedef struct unit_t {
  const dt_codegen_request_t *request;
  const dt_unit_map_t *map;
  const dt_worker_source_t *source;
  uint32_t index;
  bool quick;
  void *object; // owned
  size_t bytes;
} unit_t;

static dt_status_t compile_unit(unit_t *unit) {
  const dt_codegen_request_t *request = unit->request;
  dt_compile_options_t options = options_of(request, unit->quick);
  bool host = unit->index + 1 == unit->map->n_units;
  if (request->workers)
    return dt__workers_unit(request->workers, unit->source, unit->index,
                            request->program->arena->watch, &unit->object, &unit->bytes);
  if (request->codegen && !host)
    return request->codegen->emit(request->program, unit->map, unit->index, request->target,
                                  &options, &unit->object, &unit->bytes);
  return dt__jit()->compile_unit(request->program, unit->map, unit->index, request->target,
                                 &options, &unit->object, &unit->bytes);
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

// How a device's codes are launched is known where they are made.
typedef struct infos_t {
  const dt_codegen_request_t *request;
  const dt_unit_map_t *map;
  const dt_worker_source_t *source;
  uint32_t *words;
} infos_t;

static dt_status_t run_describe(void *opaque) {
  infos_t *infos = opaque;
  const dt_codegen_request_t *request = infos->request;
  if (request->workers)
    return dt__workers_infos(request->workers, infos->source, infos->words,
                             infos->map->n_codes * request->codegen->info_words);
  return request->codegen->describe(request->program, infos->map, request->target, infos->words);
}

// ---- Loading --------------------------------------------------------------------------------------

static dt_status_t load_cpu(const dt_unit_map_t *map, const dt_object_t *objects,
                            dt_compiled_t *out) {
  DT_TRY(dt__load_objects(objects, map->n_units, out));
  return dt__load_kernels(map->unit_of_code, map->n_codes, out);
}

// Units change hands.
static dt_status_t keep_cpu(const dt_unit_map_t *map, dt_object_t *objects, dt_artifact_t *keep) {
  uint32_t n = map->n_units - 1;
  keep->infos = dt__calloc(map->n_codes, sizeof(*keep->infos));
  keep->objects = dt__calloc(n, sizeof(*keep->objects));
  if (!keep->infos || !keep->objects)
    return DT_NO_MEMORY();
  keep->n_kernels = map->n_codes;
  for (uint32_t i = 0; i < map->n_codes; i++)
    keep->infos[i] = map->unit_of_code[i];
  for (uint32_t i = 0; i <= n; i++) {
    *(i < n ? &keep->objects[i] : &keep->host) = objects[i];
    objects[i].data = NULL;
  }
  keep->n_objects = n;
  return NULL;
}

// Kernels by the device's own, and the host program, whose unit is the last.
static dt_status_t load_device(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                               const dt_unit_map_t *map, dt_object_t *objects, dt_compiled_t *out) {
  uint32_t n = map->n_units - 1;
  out->codegen = request->codegen;
  DT_TRY(request->codegen->load(jobs, request, map, objects, n, out));
  DT_TRY(dt__load_objects(&objects[n], 1, out));
  if (request->keep) { // it changes hands
    request->keep->host = objects[n];
    objects[n].data = NULL;
  }
  return NULL;
}

// For devices elsewhere: the host program alone is loaded, and everything changes hands.
static dt_status_t load_carried(const dt_codegen_request_t *request, const dt_unit_map_t *map,
                                dt_object_t *objects, dt_compiled_t *out) {
  dt_artifact_t *keep = request->keep;
  uint32_t n = map->n_units - 1;
  size_t words = (size_t)map->n_codes * request->codegen->info_words;
  out->codegen = request->codegen;
  DT_TRY(dt__load_objects(&objects[n], 1, out));
  keep->infos = dt__calloc(words, sizeof(*keep->infos));
  keep->objects = dt__calloc(n, sizeof(*keep->objects));
  if (!keep->infos || !keep->objects)
    return DT_NO_MEMORY();
  keep->n_kernels = map->n_codes;
  if (words)
    memcpy(keep->infos, request->infos, words * sizeof(*keep->infos));
  keep->n_objects = n;
  for (uint32_t i = 0; i <= n; i++) {
    *(i < n ? &keep->objects[i] : &keep->host) = objects[i];
    objects[i].data = NULL;
  }
  return NULL;
}

static dt_status_t load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                        const dt_unit_map_t *map, unit_t *units, dt_compiled_t *out) {
  dt_object_t *objects = DT_ARENA_ARRAY(request->program->arena, dt_object_t, map->n_units);
  if (!objects)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < map->n_units; i++)
    objects[i] = (dt_object_t){units[i].object, units[i].bytes};
  dt_status_t status = request->carried   ? load_carried(request, map, objects, out)
                       : request->codegen ? load_device(jobs, request, map, objects, out)
                                          : load_cpu(map, objects, out);
  if (!status && request->keep && !request->codegen)
    status = keep_cpu(map, objects, request->keep);
  for (uint32_t i = 0; i < map->n_units; i++)
    units[i].object = objects[i].data;
  return status;
}

// ---- Entry points ---------------------------------------------------------------------------------

static dt_status_t find_host(const dt_program_t *program, dt_compiled_t *out) {
  DT_TRY(dt__load_host(dt__llvm_segment_count(program), out));
  DT_TRY(dt__load_numbers(out));
  uint32_t n = program->outputs.len;
  out->output_segments = dt__calloc(n, sizeof(*out->output_segments));
  out->donations = dt__calloc(n, sizeof(*out->donations));
  out->copies = dt__calloc(n, sizeof(*out->copies));
  if (!out->output_segments || !out->donations || !out->copies)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    out->output_segments[k] = dt__llvm_sizes_segment(program, program->outputs.items[k]);
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    dt_buffer_id_t from, to;
    if (dt__kernel_copies_result(program, &program->kernels.items[k], &from, &to))
      out->copies[dt__program_buffer(program, to)->index] = 1;
  }
  return dt__find_donations(program, out->donations);
}

// ---- All of it ------------------------------------------------------------------------------------

static dt_status_t compile_units(dt_jobs_t *jobs, const split_t *split, unit_t *units,
                                 dt_compiled_t *out) {
  dt_codegen_request_t own = *split->request, *request = &own;
  const dt_unit_map_t *map = &split->map;
  dt_worker_source_t source = {.number =
                                   request->workers ? dt__workers_number(request->workers) : 0,
                               .name = request->name,
                               .text = dt__text_str(&split->text),
                               .bytes = split->text.len};
  dt_arena_t *arena = request->program->arena;
  dt_job_t *items = DT_ARENA_ARRAY(arena, dt_job_t, map->n_units);
  if (!items)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < map->n_units; i++) {
    units[i] = (unit_t){
        .request = request, .map = map, .source = &source, .index = i, .quick = split->quick};
    items[i] = (dt_job_t){.run = run_unit,
                          .arg = &units[i],
                          .what = split->quick ? "code, quick form" : "code",
                          .of = request->name,
                          .variant = request->variant,
                          .part = i + 1};
  }
  DT_TRY(dt__jobs_run(jobs, items, map->n_units, request->threads));
  if (request->codegen && request->codegen->describe) {
    infos_t infos = {
        request, map, &source,
        DT_ARENA_ARRAY(arena, uint32_t, map->n_codes * request->codegen->info_words + 1)};
    dt_job_t job = {.run = run_describe,
                    .arg = &infos,
                    .what = "launches",
                    .of = request->name,
                    .variant = request->variant};
    request->infos = infos.words;
    DT_TRY(infos.words ? dt__jobs_run(jobs, &job, 1, 0) : DT_NO_MEMORY());
  }
  int64_t begin = dt__task_begin(dt__jobs_board(jobs));
  dt_status_t status = load(jobs, request, map, units, out);
  dt__task_end(dt__jobs_board(jobs), begin, 0, "load", request->name);
  DT_TRY(status);
  return find_host(request->program, out);
}

static dt_status_t run_all(dt_jobs_t *jobs, split_t *split, dt_compiled_t *out) {
  dt_job_t job = {.run = run_split,
                  .arg = split,
                  .what = "units",
                  .of = split->request->name,
                  .variant = split->request->variant};
  DT_TRY(dt__jobs_run(jobs, &job, 1, 0));
  unit_t *units = DT_ARENA_ARRAY(split->request->program->arena, unit_t, split->map.n_units);
  if (!units)
    return DT_NO_MEMORY();
  out->quick = split->quick;
  dt_status_t status = compile_units(jobs, split, units, out);
  for (uint32_t i = 0; i < split->map.n_units; i++)
    dt__free(units[i].object);
  return status;
}

dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) {
  split_t split = {.request = request,
                   .max_units = (request->units ? request->units : request->threads) + 1};
  dt__text_init(&split.text);
  dt_status_t status = run_all(jobs, &split, out);
  dt__text_fini(&split.text);
  return status;
}
