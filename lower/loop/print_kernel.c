// SPDX-License-Identifier: Apache-2.0
// The canonical text of one kernel: two kernels with equal texts may share code, called with other
// buffers and symbols. Sizes, strides and ranges of what is used come first, then the body.
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct canonical_t {
  dt_program_t *program;
  dt_kernel_params_t *params;
  uint32_t *numbers; // by buffer, [id - 1]: 1 + its number among parameters or among locals
  DT_VEC(dt_buffer_id_t) params_used;
  DT_VEC(dt_buffer_id_t) locals_used;
  dt_rename_t rename;
} canonical_t;

// ---- Order of first use -------------------------------------------------------------------------------
static dt_status_t use_buffer(canonical_t *c, dt_buffer_id_t id) {
  uint32_t *number = &c->numbers[id.id - 1];
  if (*number)
    return NULL;
  bool local = dt__program_buffer(c->program, id)->kind == DT_BUFFER_LOCAL;
  bool ok = local ? DT_VEC_PUSH(c->program->arena, &c->locals_used, id)
                  : DT_VEC_PUSH(c->program->arena, &c->params_used, id);
  if (!ok)
    return DT_NO_MEMORY();
  *number = local ? c->locals_used.len : c->params_used.len;
  return NULL;
}

static dt_status_t use_buffers(canonical_t *c, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id)
        DT_TRY(use_buffer(c, stage->insts.items[i].buffer));
    for (uint32_t k = 0; k < stage->stores.len; k++)
      DT_TRY(use_buffer(c, stage->stores.items[k].buffer));
  }
  return NULL;
}

// ---- Text -----------------------------------------------------------------------------------------------
static void put_buffer_name(dt_loop_printer_t *printer, dt_buffer_id_t buffer) {
  const canonical_t *c = printer->user;
  bool local = dt__program_buffer(c->program, buffer)->kind == DT_BUFFER_LOCAL;
  dt__text_printf(printer->out, "%c%u", local ? 'l' : 'p', c->numbers[buffer.id - 1] - 1);
}

static void print_buffers(dt_loop_printer_t *printer, const dt_buffer_id_t *ids, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    const dt_buffer_t *buffer = dt__program_buffer(printer->program, ids[k]);
    put_buffer_name(printer, ids[k]);
    dt__text_printf(printer->out, " %s", dt_dtype_name(buffer->dtype));
    dt__print_exprs(printer, buffer->sizes, buffer->rank);
    dt__text_put(printer->out, " ");
    dt__print_exprs(printer, buffer->strides, buffer->rank);
    dt__text_put(printer->out, "\n");
  }
}

// Ranges come last: by then every symbol that is used has its number.
static void print_ranges(dt_loop_printer_t *printer) {
  const dt_symenv_t *env = printer->rename->to;
  for (uint32_t k = 0; k < dt__symenv_symbol_count(env); k++) {
    dt_symbol_info_t info = dt__symbol_info(env, k);
    dt__sym_print(env, dt__symbol_sym(env, k), printer->out);
    dt__text_printf(printer->out, " [%lld, %lld]\n", (long long)info.range.lo,
                    (long long)info.range.hi);
  }
}

// ---- Parameters -------------------------------------------------------------------------------------------
static bool is_free(const dt_symenv_t *env, uint32_t symbol) {
  dt_symbol_kind_t kind = dt__symbol_info(env, symbol).kind;
  return kind != DT_SYMBOL_LOOP && kind != DT_SYMBOL_DATA;
}

// The free symbols, in the order of their numbers in the text.
static dt_status_t list_symbols(canonical_t *c) {
  const dt_symenv_t *to = c->rename.to;
  uint32_t n = dt__symenv_symbol_count(to), at = 0;
  uint32_t *old = DT_ARENA_ARRAY(c->program->arena, uint32_t, n + 1);
  uint32_t *list = DT_ARENA_ARRAY(c->program->arena, uint32_t, n + 1);
  if (!old || !list)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < c->rename.n_map; k++) {
    uint32_t symbol = 0;
    if (c->rename.map[k].id && dt__sym_is_symbol(to, c->rename.map[k], &symbol))
      old[symbol] = k;
  }
  for (uint32_t k = 0; k < n; k++)
    if (is_free(to, k))
      list[at++] = old[k];
  c->params->n_symbols = at;
  c->params->symbols = list;
  return NULL;
}

dt_status_t dt__kernel_print(dt_program_t *program, const dt_kernel_t *kernel,
                             dt_kernel_params_t *params, dt_text_t *out) {
  memset(params, 0, sizeof(*params));
  canonical_t c = {.program = program, .params = params};
  c.numbers = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!c.numbers)
    return DT_NO_MEMORY();
  DT_TRY(use_buffers(&c, kernel));
  DT_TRY(dt__rename_init(&c.rename, program->env));
  dt_loop_printer_t printer = {.program = program,
                               .rename = &c.rename,
                               .out = out,
                               .buffer_name = put_buffer_name,
                               .user = &c};
  dt__text_put(out, "kernel");
  dt__print_kernel_body(&printer, kernel);
  print_buffers(&printer, c.params_used.items, c.params_used.len);
  print_buffers(&printer, c.locals_used.items, c.locals_used.len);
  print_ranges(&printer);
  dt_status_t status = list_symbols(&c);
  if (!status && c.rename.failed)
    status = dt__status_join(dt__symenv_status(c.rename.to), dt__symenv_status(program->env));
  if (!status && c.rename.failed)
    status = DT_FAIL(DT_E_INTERNAL, "a kernel's expression is missing");
  if (!status)
    status = dt__text_status(out);
  dt__rename_fini(&c.rename);
  params->n_buffers = c.params_used.len;
  params->buffers = c.params_used.items;
  return status;
}
