// SPDX-License-Identifier: Apache-2.0
// Functions that the files of the program parser share.
#ifndef DT_LOWER_LOOP_PARSE_PRIVATE_H
#define DT_LOWER_LOOP_PARSE_PRIVATE_H

#include "lower/loop/loop_private.h"

typedef struct dt_loop_parser_t {
  dt_arena_t *arena;
  dt_symenv_t *env;
  dt_scan_t *scan;
  dt_program_t *program;
  bool exact;        // as store.c writes it: symbols and expressions are there already
  bool by_offset;    // of the kernel that is read
  dt_graph_t *graph; // of exact text: holds the asserts
} dt_loop_parser_t;

// The whole of `program { … }`.
dt_status_t dt__loop_parse_program(dt_loop_parser_t *p) DT_MUST_USE;

dt_status_t dt__loop_parse_u32(dt_loop_parser_t *p, uint32_t *out) DT_MUST_USE;
// `letter` and a number without a space between them: b1, v0, r2.
dt_status_t dt__loop_parse_id(dt_loop_parser_t *p, char letter, uint32_t *out) DT_MUST_USE;
dt_status_t dt__loop_parse_buffer(dt_loop_parser_t *p, dt_buffer_id_t *out) DT_MUST_USE;
dt_status_t dt__loop_parse_dtype(dt_loop_parser_t *p, dt_dtype_t *out) DT_MUST_USE;
// `[e, …]`, at most `cap` of them.
dt_status_t dt__loop_parse_exprs(dt_loop_parser_t *p, dt_sym_t *exprs, uint32_t cap,
                                 uint32_t *out_n) DT_MUST_USE;
dt_status_t dt__loop_parse_range(dt_loop_parser_t *p, dt_range_t *out) DT_MUST_USE;
// A literal of `dtype`; of exact text `bits` and a number.
dt_status_t dt__loop_parse_value(dt_loop_parser_t *p, dt_dtype_t dtype,
                                 dt_scalar_t *out) DT_MUST_USE;
dt_status_t dt__loop_parse_string(dt_loop_parser_t *p, const char **out) DT_MUST_USE;
// A word among names[0 … n).
dt_status_t dt__loop_parse_name(dt_loop_parser_t *p, const char *(*name)(uint32_t), uint32_t n,
                                const char *what, uint32_t *out) DT_MUST_USE;
// After the word `kernel`.
dt_status_t dt__loop_parse_kernel(dt_loop_parser_t *p) DT_MUST_USE;
// After the word that begins each line: parse_plan.c.
dt_status_t dt__loop_parse_outputs(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_readback(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_device_sized(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_host_reads(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_once(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_offset(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_block(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_kept(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_segment(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_slices(dt_loop_parser_t *p) DT_MUST_USE;
dt_status_t dt__loop_parse_region(dt_loop_parser_t *p) DT_MUST_USE;
// There are sections up to it.
dt_status_t dt__loop_parse_section(dt_loop_parser_t *p, uint32_t *out) DT_MUST_USE;

#endif // DT_LOWER_LOOP_PARSE_PRIVATE_H
