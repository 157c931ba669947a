// SPDX-License-Identifier: Apache-2.0
// The canonical text of one kernel, or of one chain: two with equal texts may share code, called
// with other buffers and symbols. The bodies come first, then sizes, strides and ranges of what
// they use.
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

#include <string.h>

// What a buffer is to the code; each has numbers of its own.
typedef enum role_t { ROLE_PARAMETER, ROLE_LOCAL, ROLE_SLAB, N_ROLES } role_t;

typedef struct canonical_t {
  dt_program_t *program;
  const dt_kernel_t *kernels;
  uint32_t n_kernels;
  dt_kernel_params_t *params;
  uint32_t *numbers; // by buffer, [id - 1]: 1 + its number among those of its role
  struct {
    DT_VEC(dt_buffer_id_t) used; // in order
  } roles[N_ROLES];
  dt_rename_t rename;
} canonical_t;

static role_t role_of(const dt_program_t *program, dt_buffer_id_t id) {
  dt_buffer_kind_t kind = dt__program_buffer(program, id)->kind;
  return kind == DT_BUFFER_LOCAL ? ROLE_LOCAL : kind == DT_BUFFER_SLAB ? ROLE_SLAB : ROLE_PARAMETER;
}

// ---- Order of first use -------------------------------------------------------------------------------
static dt_status_t use_buffer(canonical_t *c, dt_buffer_id_t id) {
  uint32_t *number = &c->numbers[id.id - 1];
  if (*number)
    return NULL;
  role_t role = role_of(c->program, id);
  if (!DT_VEC_PUSH(c->program->arena, &c->roles[role].used, id))
    return DT_NO_MEMORY();
  *number = c->roles[role].used.len;
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
  dt__text_printf(printer->out, "%c%u", "pls"[role_of(c->program, buffer)],
                  c->numbers[buffer.id - 1] - 1);
}

// Strides of slabs are chosen where code is made.
static void print_buffers(dt_loop_printer_t *printer, const canonical_t *c, role_t role) {
  for (uint32_t k = 0; k < c->roles[role].used.len; k++) {
    dt_buffer_id_t id = c->roles[role].used.items[k];
    const dt_buffer_t *buffer = dt__program_buffer(printer->program, id);
    put_buffer_name(printer, id);
    dt__text_printf(printer->out, " %s", dt_dtype_name(buffer->dtype));
    dt__print_exprs(printer, buffer->sizes, buffer->rank);
    dt__text_put(printer->out, " ");
    if (role != ROLE_SLAB)
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

// The item whose symbol this is, where kernels read it from the item's buffer; or NULL.
static const dt_program_item_t *loaded_item(const dt_program_t *program, uint32_t symbol) {
  for (uint32_t k = 0; program->device_sized && k < program->items.len; k++)
    if (program->items.items[k].symbol == symbol)
      return &program->items.items[k];
  return NULL;
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
    if (is_free(to, k) && !loaded_item(c->program, old[k]))
      list[at++] = old[k];
  c->params->n_symbols = at;
  c->params->symbols = list;
  return NULL;
}

// ---- Programs of device sizes -----------------------------------------------------------------------------
// "u0 = p3": where symbols of items come from.
static dt_status_t use_items(canonical_t *c, dt_loop_printer_t *printer) {
  const dt_program_t *program = c->program;
  dt_kernel_params_t *params = c->params;
  const dt_symenv_t *to = c->rename.to;
  params->items = DT_ARENA_ARRAY(program->arena, uint32_t, program->items.len + 1);
  if (!params->items)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < c->rename.n_map; k++) {
    const dt_program_item_t *item = loaded_item(program, k);
    if (!item || !c->rename.map[k].id)
      continue;
    params->items[params->n_items++] = (uint32_t)(item - program->items.items);
    DT_TRY(use_buffer(c, item->buffer));
    dt__sym_print(to, c->rename.map[k], printer->out);
    dt__text_put(printer->out, " = ");
    put_buffer_name(printer, item->buffer);
    dt__text_put(printer->out, "\n");
  }
  if (!params->gate.id)
    return NULL;
  DT_TRY(use_buffer(c, params->gate));
  dt__text_put(printer->out, "gate ");
  put_buffer_name(printer, params->gate);
  dt__text_put(printer->out, "\n");
  return NULL;
}

static dt_status_t print(canonical_t *c, dt_text_t *out) {
  dt_program_t *program = c->program;
  memset(c->params, 0, sizeof(*c->params));
  c->numbers = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!c->numbers)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < c->n_kernels; k++)
    DT_TRY(use_buffers(c, &c->kernels[k]));
  DT_TRY(dt__rename_init(&c->rename, program->env));
  dt_loop_printer_t printer = {.program = program,
                               .rename = &c->rename,
                               .out = out,
                               .buffer_name = put_buffer_name,
                               .user = c};
  for (uint32_t k = 0; k < c->n_kernels; k++) {
    dt__text_put(out, "kernel");
    dt__print_kernel_body(&printer, &c->kernels[k]);
  }
  for (role_t role = ROLE_PARAMETER; role < N_ROLES; role++)
    print_buffers(&printer, c, role);
  print_ranges(&printer);
  c->params->gate = c->kernels[c->n_kernels - 1].gate;
  dt_status_t status = list_symbols(c);
  if (!status && program->device_sized)
    status = use_items(c, &printer);
  if (!status && c->rename.failed)
    status = dt__status_join(dt__symenv_status(c->rename.to), dt__symenv_status(program->env));
  if (!status && c->rename.failed)
    status = DT_FAIL(DT_E_INTERNAL, "a kernel's expression is missing");
  if (!status)
    status = dt__text_status(out);
  dt__rename_fini(&c->rename);
  c->params->n_buffers = c->roles[ROLE_PARAMETER].used.len;
  c->params->buffers = c->roles[ROLE_PARAMETER].used.items;
  return status;
}

dt_status_t dt__kernel_print(dt_program_t *program, const dt_kernel_t *kernel,
                             dt_kernel_params_t *params, dt_text_t *out) {
  canonical_t c = {.program = program, .kernels = kernel, .n_kernels = 1, .params = params};
  return print(&c, out);
}

dt_status_t dt__chain_print(dt_program_t *program, dt_chain_t chain, dt_kernel_params_t *params,
                            dt_text_t *out) {
  canonical_t c = {.program = program,
                   .kernels = &program->kernels.items[chain.first],
                   .n_kernels = chain.end - chain.first,
                   .params = params};
  return print(&c, out);
}
