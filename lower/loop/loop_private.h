// SPDX-License-Identifier: Apache-2.0
// Functions shared by the files of lower/loop, and by no other file.
#ifndef DT_LOWER_LOOP_LOOP_PRIVATE_H
#define DT_LOWER_LOOP_LOOP_PRIVATE_H

#include "lower/loop/loop.h"

// Appends a buffer as it is.
dt_status_t dt__program_put_buffer(dt_program_t *program, const dt_buffer_t *buffer) DT_MUST_USE;
// `n` expressions in the arena; NULL without memory.
dt_sym_t *dt__exprs_copy(dt_arena_t *arena, const dt_sym_t *exprs, uint32_t n);
// The buffer's layout is one of its rank: an order, a block of one of its dims, a halo in reason.
bool dt__layout_check(const dt_buffer_t *buffer);
// How many of args are operands (a LOAD's one may be none).
uint32_t dt__inst_arity(const dt_inst_t *inst);

// Names of the enums as text has them; NULL past the end.
const char *dt__buffer_kind_name(dt_buffer_kind_t kind);
const char *dt__region_kind_name(dt_region_kind_t kind);
const char *dt__reduction_kind_name(dt_reduction_kind_t kind);
const char *dt__schedule_kind_name(dt_schedule_kind_t kind);

// ---- Expressions in another environment -------------------------------------------------------------
// Text is written in an environment of its own, in which symbols are numbered densely in order of
// first use. What parsing builds is the same, so printing again gives the same text; and two
// kernels that differ in their symbols only meet in the same expressions, order of terms included.
typedef struct dt_renamed_t {
  uint32_t symbol; // of `from`
  dt_sym_t made;
} dt_renamed_t;
typedef struct dt_rename_t {
  const dt_symenv_t *from;
  dt_symenv_t *to;
  dt_renamed_t *made; // in the order in which `to` numbers them
  uint32_t n_made, cap_made;
  uint32_t *slots; // a hash table of 1 + positions in `made`; a power of two
  uint32_t n_slots;
  bool failed;    // an expression is missing: no memory, or it was none
  bool no_memory; // here; else an environment knows
} dt_rename_t;

dt_status_t dt__rename_init(dt_rename_t *rename, const dt_symenv_t *from) DT_MUST_USE;
void dt__rename_fini(dt_rename_t *rename);
// The symbol's counterpart, or none.
dt_sym_t dt__rename_find(const dt_rename_t *rename, uint32_t symbol);
// Gives the symbol a counterpart of the same kind and range, if it has none.
void dt__rename_symbol(dt_rename_t *rename, uint32_t symbol);
// The same expression in `to`; symbols without a counterpart get one, in order of use.
dt_sym_t dt__rename_expr(dt_rename_t *rename, dt_sym_t e);

// ---- Printing (print.c, for print_kernel.c and store.c too) ------------------------------------------
typedef struct dt_loop_printer_t {
  const dt_program_t *program;
  dt_rename_t *rename; // NULL: exactly, with expressions by their ids, which store.c writes before
  dt_text_t *out;
  // Writes how a buffer is called here.
  void (*buffer_name)(struct dt_loop_printer_t *printer, dt_buffer_id_t buffer);
  void *user;
  bool code;                 // what code depends on: how many items a thread takes is the host's
  const dt_kernel_t *kernel; // being printed
} dt_loop_printer_t;

static inline bool dt__prints_exactly(const dt_loop_printer_t *printer) { return !printer->rename; }
void dt__print_program(dt_loop_printer_t *printer);
void dt__print_buffer_name(dt_loop_printer_t *printer, dt_buffer_id_t buffer);
void dt__print_expr(dt_loop_printer_t *printer, dt_sym_t e);
void dt__print_exprs(dt_loop_printer_t *printer, const dt_sym_t *exprs, uint32_t n);
// " order …", or nothing where the buffer has no layout.
void dt__print_layout(dt_loop_printer_t *printer, const dt_buffer_t *buffer);
// Everything after the kernel's name.
void dt__print_kernel_body(dt_loop_printer_t *printer, const dt_kernel_t *kernel);

#endif // DT_LOWER_LOOP_LOOP_PRIVATE_H
