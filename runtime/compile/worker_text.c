// SPDX-License-Identifier: Apache-2.0
// See worker_text.h. A job is
//
//   job VERIFY QUICK VARIANT "NAME"
//   target DEVICE … "CPU" "FEATURES"          and `host` with the same, where host programs run
//                                             on another machine
//   units KERNELS SCHEDULES CODES UNITS, then six lists: how the program is cut
//   environment … program { … }               lower/loop/store.c
//   tree …                                    or that: guards/tree_store.c
#include "runtime/compile/worker_text.h"

#include "runtime/base/status.h"

#include <string.h>

#define MOST_CODES (1u << 24)
#define LONGEST_NAME (sizeof(((dt_worker_job_t *)0)->name) - 1)

_Static_assert(sizeof(dt_compile_options_t) == 24 && sizeof(dt_unit_map_t) == 80,
               "every field is written and read here");

static void put_number(dt_text_t *out, int64_t value) {
  dt__text_put(out, " ");
  dt__text_i64(out, value);
}

// ---- Units ----------------------------------------------------------------------------------------
static void write_list(const uint32_t *items, uint32_t n, dt_text_t *out) {
  for (uint32_t k = 0; k < n; k++)
    put_number(out, items[k]);
  dt__text_put(out, "\n");
}

static uint32_t schedule_count(const dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    n += program->kernels.items[k].schedules.len;
  return n;
}

static void write_map(const dt_program_t *program, const dt_unit_map_t *map, dt_text_t *out) {
  dt__text_put(out, "units");
  put_number(out, map->n_kernels);
  put_number(out, schedule_count(program));
  put_number(out, map->n_codes);
  put_number(out, map->n_units);
  dt__text_put(out, "\n");
  write_list(map->first_code, map->n_kernels, out);
  write_list(map->code_of_kernel, schedule_count(program), out);
  write_list(map->unit_of_code, map->n_codes, out);
  write_list(map->entry_of_code, map->n_codes, out);
  write_list(map->member_of_code, map->n_codes, out);
  for (uint32_t k = 0; k < map->n_codes; k++) {
    put_number(out, map->origin_of_code[k].kernel);
    put_number(out, map->origin_of_code[k].schedule);
    put_number(out, (int64_t)map->work_of_code[k]);
  }
  dt__text_put(out, "\n");
}

static dt_status_t read_u32(dt_scan_t *scan, uint32_t most, uint32_t *out) {
  int64_t value = 0;
  DT_TRY(dt__scan_i64(scan, &value));
  if (value < 0 || value > most)
    return dt__scan_fail(scan, "%lld, expected at most %u", (long long)value, most);
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t read_list(dt_scan_t *scan, dt_arena_t *arena, uint32_t n, uint32_t most,
                             uint32_t **out) {
  *out = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    DT_TRY(read_u32(scan, most, &(*out)[k]));
  return NULL;
}

// Which kernel and schedule became each code, and how much work it is.
static dt_status_t read_origins(dt_scan_t *scan, dt_arena_t *arena, dt_unit_map_t *map) {
  map->origin_of_code = DT_ARENA_ARRAY(arena, dt_code_origin_t, map->n_codes + 1);
  map->work_of_code = DT_ARENA_ARRAY(arena, uint64_t, map->n_codes + 1);
  if (!map->origin_of_code || !map->work_of_code)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < map->n_codes; k++) {
    int64_t work = 0;
    DT_TRY(read_u32(scan, MOST_CODES, &map->origin_of_code[k].kernel));
    DT_TRY(read_u32(scan, MOST_CODES, &map->origin_of_code[k].schedule));
    DT_TRY(dt__scan_i64(scan, &work));
    map->work_of_code[k] = (uint64_t)work;
  }
  return NULL;
}

// A code's number, or none: a maker of a chain.
static dt_status_t check_codes(dt_scan_t *scan, const dt_unit_map_t *map, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (map->code_of_kernel[k] >= map->n_codes && map->code_of_kernel[k] != DT_NO_CODE)
      return dt__scan_fail(scan, "code %u of %u", map->code_of_kernel[k], map->n_codes);
  return NULL;
}

static dt_status_t read_map(dt_scan_t *scan, dt_arena_t *arena, dt_unit_map_t *map,
                            uint32_t *out_schedules) {
  DT_TRY(dt__scan_expect(scan, "units"));
  DT_TRY(read_u32(scan, MOST_CODES, &map->n_kernels));
  DT_TRY(read_u32(scan, MOST_CODES, out_schedules));
  DT_TRY(read_u32(scan, MOST_CODES, &map->n_codes));
  DT_TRY(read_u32(scan, MOST_CODES, &map->n_units));
  uint32_t codes = map->n_codes, last = codes ? codes - 1 : 0;
  if (map->n_units == 0 ||
      (size_t)map->n_kernels + *out_schedules + codes > (size_t)(scan->end - scan->at))
    return dt__scan_fail(scan, "%u units of %u codes", map->n_units, codes);
  DT_TRY(read_list(scan, arena, map->n_kernels, *out_schedules, &map->first_code));
  DT_TRY(read_list(scan, arena, *out_schedules, UINT32_MAX, &map->code_of_kernel));
  DT_TRY(read_list(scan, arena, codes, map->n_units - 1, &map->unit_of_code));
  DT_TRY(read_list(scan, arena, codes, last, &map->entry_of_code));
  DT_TRY(read_list(scan, arena, codes, last, &map->member_of_code));
  DT_TRY(read_origins(scan, arena, map));
  return check_codes(scan, map, *out_schedules);
}

// Each kernel's schedules have their codes side by side.
static dt_status_t check_map(dt_scan_t *scan, const dt_worker_job_t *job, uint32_t schedules) {
  const dt_program_t *program = job->program;
  bool ok = job->map.n_kernels == program->kernels.len && schedule_count(program) == schedules;
  for (uint32_t k = 0; ok && k < program->kernels.len; k++)
    ok = job->map.first_code[k] + program->kernels.items[k].schedules.len <= schedules;
  for (uint32_t k = 0; ok && k < job->map.n_codes; k++) {
    dt_code_origin_t origin = job->map.origin_of_code[k];
    ok = origin.kernel < program->kernels.len &&
         origin.schedule < program->kernels.items[origin.kernel].schedules.len;
  }
  return ok ? NULL : dt__scan_fail(scan, "the units are those of another program");
}

// ---- Jobs -----------------------------------------------------------------------------------------
static void write_head(const dt_target_t *target, const dt_compile_options_t *options,
                       dt_text_t *out) {
  dt__text_put(out, "job");
  put_number(out, options->verify);
  put_number(out, options->quick);
  put_number(out, options->quick_kernels);
  put_number(out, options->llvm_level);
  put_number(out, options->dump_variant);
  dt__text_put(out, " ");
  dt__text_quote(out, options->dump_name ? options->dump_name : "", LONGEST_NAME);
  dt__text_put(out, "\ntarget");
  dt__target_write(target, out);
  if (target->host) {
    dt__text_put(out, "host");
    dt__target_write(target->host, out);
  }
}

dt_status_t dt__worker_program_write(const dt_program_t *program, const dt_unit_map_t *map,
                                     const dt_target_t *target, const dt_compile_options_t *options,
                                     dt_text_t *out) {
  write_head(target, options, out);
  write_map(program, map, out);
  return dt__program_write(program, out);
}

dt_status_t dt__worker_tree_write(const dt_tree_t *tree, const dt_target_t *target,
                                  const dt_compile_options_t *options, dt_text_t *out) {
  write_head(target, options, out);
  return dt__tree_write(tree, out);
}

static dt_status_t read_flag(dt_scan_t *scan, bool *out) {
  uint32_t value = 0;
  DT_TRY(read_u32(scan, 1, &value));
  *out = value != 0;
  return NULL;
}

static dt_status_t read_head(dt_scan_t *scan, dt_worker_job_t *job) {
  size_t len = 0;
  DT_TRY(dt__scan_expect(scan, "job"));
  DT_TRY(read_flag(scan, &job->options.verify));
  DT_TRY(read_flag(scan, &job->options.quick));
  DT_TRY(read_flag(scan, &job->options.quick_kernels));
  DT_TRY(read_u32(scan, DT_LLVM_LEVELS, &job->options.llvm_level));
  DT_TRY(read_u32(scan, UINT32_MAX, &job->options.dump_variant));
  DT_TRY(dt__scan_string(scan, job->name, sizeof(job->name), &len));
  job->options.dump_name = len ? job->name : NULL;
  DT_TRY(dt__scan_expect(scan, "target"));
  DT_TRY(dt__target_read(scan, &job->target));
  if (!dt__scan_accept_word(scan, "host"))
    return NULL;
  job->target.host = &job->host;
  return dt__target_read(scan, &job->host);
}

dt_status_t dt__worker_job_read(dt_scan_t *scan, dt_worker_job_t *job) {
  uint32_t schedules = 0;
  memset(job, 0, sizeof(*job));
  dt__arena_init(&job->arena, 0);
  DT_TRY(read_head(scan, job));
  if (dt__scan_peek(scan, "tree")) {
    DT_TRY(dt__tree_read(scan, &job->tree));
  } else {
    DT_TRY(read_map(scan, &job->arena, &job->map, &schedules));
    DT_TRY(dt__program_read(&job->arena, scan, &job->env, &job->program));
    DT_TRY(check_map(scan, job, schedules));
  }
  return dt__scan_end(scan) ? NULL : dt__scan_fail(scan, "text behind the end");
}

void dt__worker_job_fini(dt_worker_job_t *job) {
  dt__symenv_destroy(job->env);
  dt__tree_destroy(job->tree);
  dt__arena_fini(&job->arena);
  memset(job, 0, sizeof(*job));
}
