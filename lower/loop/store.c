// SPDX-License-Identifier: Apache-2.0
// A planned program as text for code generation in another process: its environment (symshape's
// store.c), then the program as print.c writes it, with expressions by their ids, symbols by their
// own numbers, literals as bits and the strides of every buffer. The text has everything that code
// generation reads of a program. Whoever adds such a field adds it to the text, too.
#include "lower/loop/parse_private.h"
#include "runtime/base/status.h"

_Static_assert(sizeof(dt_inst_t) == 72 && sizeof(dt_store_t) == 32 && sizeof(dt_reduction_t) == 20,
               "print.c and parse_body.c know every field");
_Static_assert(sizeof(dt_schedule_t) == 88 && sizeof(dt_outer_lanes_t) == 16 &&
                   sizeof(dt_inner_lanes_t) == 1 && sizeof(dt_tiles_t) == 8 &&
                   sizeof(dt_matmul_t) == 40 && sizeof(dt_team_matmul_t) == 44,
               "print.c and parse_body.c know every field");
_Static_assert(sizeof(dt_readback_t) == 48 && sizeof(dt_program_segment_t) == 12 &&
                   sizeof(dt_program_slices_t) == 24 && sizeof(dt_program_region_t) == 40,
               "print.c and parse_plan.c know every field");

dt_status_t dt__program_write(const dt_program_t *program, dt_text_t *out) {
  DT_TRY(dt__symenv_write(program->env, out));
  dt_loop_printer_t printer = {
      .program = program, .out = out, .buffer_name = dt__print_buffer_name};
  dt__print_program(&printer);
  return dt__text_status(out);
}

static dt_status_t read_program(dt_arena_t *arena, dt_scan_t *scan, dt_symenv_t *env,
                                dt_program_t **out) {
  dt_loop_parser_t p = {.arena = arena, .env = env, .scan = scan, .exact = true};
  p.graph = dt__graph_create(arena, env);
  p.program = p.graph ? dt__program_create(arena, env, p.graph) : NULL;
  if (!p.program)
    return DT_NO_MEMORY();
  DT_TRY(dt__loop_parse_program(&p));
  *out = p.program;
  return NULL;
}

dt_status_t dt__program_read(dt_arena_t *arena, dt_scan_t *scan, dt_symenv_t **out_env,
                             dt_program_t **out) {
  *out = NULL;
  DT_TRY(dt__symenv_read(scan, out_env));
  dt_status_t status = read_program(arena, scan, *out_env, out);
  if (status) {
    dt__symenv_destroy(*out_env);
    *out_env = NULL;
  }
  return status;
}
