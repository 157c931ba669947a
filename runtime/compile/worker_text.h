// SPDX-License-Identifier: Apache-2.0
// Everything that code generation reads, as text between a process and its workers. One side writes
// what the other reads; both are here.
#ifndef DT_RUNTIME_COMPILE_WORKER_TEXT_H
#define DT_RUNTIME_COMPILE_WORKER_TEXT_H

#include "backend_llvm/units/units.h"
#include "guards/tree.h"

// A program to be compiled unit by unit, or a decision.
typedef struct dt_worker_job_t {
  dt_target_t target, host; // target.host is NULL or &host
  dt_compile_options_t options;
  char name[256]; // what options.dump_name points to, "" for none
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program; // or
  dt_tree_t *tree;
  dt_unit_map_t map; // of the program
} dt_worker_job_t;

dt_status_t dt__worker_program_write(const dt_program_t *program, const dt_unit_map_t *map,
                                     const dt_target_t *target, const dt_compile_options_t *options,
                                     dt_text_t *out) DT_MUST_USE;
dt_status_t dt__worker_tree_write(const dt_tree_t *tree, const dt_target_t *target,
                                  const dt_compile_options_t *options, dt_text_t *out) DT_MUST_USE;
// Either of them. *job must stay where it is; dt__worker_job_fini, also after a failure.
dt_status_t dt__worker_job_read(dt_scan_t *scan, dt_worker_job_t *job) DT_MUST_USE;
void dt__worker_job_fini(dt_worker_job_t *job);

#endif // DT_RUNTIME_COMPILE_WORKER_TEXT_H
