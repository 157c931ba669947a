// SPDX-License-Identifier: Apache-2.0
// The canonical text of one kernel, or of one chain. Two with equal texts may share code, called
// with other buffers and symbols. The bodies come first, then the sizes, strides and ranges that
// they use.
#include "lower/loop/loop_private.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

// What a buffer is to the code; each has numbers of its own.
typedef enum role_t { ROLE_PARAMETER, ROLE_LOCAL, ROLE_SLAB, N_ROLES } role_t;

// A buffer, and 1 + its number among those of its role; 0: none.
typedef struct numbered_t {
  uint32_t id, number;
} numbered_t;

typedef struct canonical_t {
  dt_program_t *program;
  const dt_kernel_t *kernels;
  uint32_t n_kernels;
  dt_kernel_params_t *params;
  // A hash table of the buffers that are used; a power of two of slots, at most half of them taken.
  numbered_t *numbers;
  uint32_t n_slots;
  struct {
    DT_VEC(dt_buffer_id_t) used; // in order
  } roles[N_ROLES];
  dt_rename_t rename;
} canonical_t;

static role_t role_of(const dt_program_t *program, dt_buffer_id_t id) {
  dt_buffer_kind_t kind = dt__program_buffer(program, id)->kind;
  return kind == DT_BUFFER_LOCAL ? ROLE_LOCAL : kind == DT_BUFFER_SLAB ? ROLE_SLAB : ROLE_PARAMETER;
}

static numbered_t *numbered(const canonical_t *c, dt_buffer_id_t id) {
  uint32_t at = (uint32_t)dt__hash_mix(id.id, 0) & (c->n_slots - 1);
  while (c->numbers[at].id && c->numbers[at].id != id.id)
    at = (at + 1) & (c->n_slots - 1);
  return &c->numbers[at];
}

// Room for every buffer that the kernels may use.
static dt_status_t make_numbers(canonical_t *c) {
  uint32_t most = c->program->readbacks.len + 1; // and the gate
  for (uint32_t k = 0; k < c->n_kernels; k++)
    for (uint32_t s = 0; s < c->kernels[k].stages.len; s++)
      most += c->kernels[k].stages.items[s].insts.len + c->kernels[k].stages.items[s].stores.len;
  for (c->n_slots = 16; c->n_slots < 2 * most;)
    c->n_slots *= 2;
  c->numbers = dt__calloc(c->n_slots, sizeof(*c->numbers));
  return c->numbers ? NULL : DT_NO_MEMORY();
}

// ---- Order of first use -------------------------------------------------------------------------------
static dt_status_t use_buffer(canonical_t *c, dt_buffer_id_t id) {
  numbered_t *own = numbered(c, id);
  if (own->number)
    return NULL;
  role_t role = role_of(c->program, id);
  if (!DT_VEC_PUSH(c->program->arena, &c->roles[role].used, id))
    return DT_NO_MEMORY();
  *own = (numbered_t){.id = id.id, .number = c->roles[role].used.len};
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
                  numbered(c, buffer)->number - 1);
}

// Strides of slabs are chosen where code is made.
static void print_buffers(dt_loop_printer_t *printer, const canonical_t *c, role_t role) {
  for (uint32_t k = 0; k < c->roles[role].used.len; k++) {
    dt_buffer_id_t id = c->roles[role].used.items[k];
    const dt_buffer_t *buffer = dt__program_buffer(printer->program, id);
    put_buffer_name(printer, id);
    dt__text_printf(printer->out, " %s", dt_dtype_name(buffer->dtype));
    if (role == ROLE_PARAMETER && printer->kernel->by_offset) { // by its address alone
      dt__text_put(printer->out, "\n");
      continue;
    }
    dt__print_exprs(printer, buffer->sizes, buffer->rank);
    dt__text_put(printer->out, " ");
    if (role != ROLE_SLAB)
      dt__print_exprs(printer, buffer->strides, buffer->rank);
    if (!dt__layout_is_order(buffer->layout, buffer->rank)) // an order is its strides
      dt__print_layout(printer, buffer);
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

// The readback whose symbol this is, where kernels read it from the readback's buffer; or NULL.
static const dt_readback_t *loaded_readback(const dt_program_t *program, uint32_t symbol) {
  for (uint32_t k = 0; program->device_sized && k < program->readbacks.len; k++)
    if (program->readbacks.items[k].symbol == symbol)
      return &program->readbacks.items[k];
  return NULL;
}

// The free symbols, in the order of their numbers in the text.
static dt_status_t list_symbols(canonical_t *c) {
  const dt_rename_t *rename = &c->rename;
  uint32_t at = 0;
  uint32_t *list = DT_ARENA_ARRAY(c->program->arena, uint32_t, rename->n_made + 1);
  if (!list)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < rename->n_made; k++)
    if (is_free(rename->to, k) && !loaded_readback(c->program, rename->made[k].symbol))
      list[at++] = rename->made[k].symbol;
  c->params->n_symbols = at;
  c->params->symbols = list;
  return NULL;
}

// ---- Programs of device sizes -----------------------------------------------------------------------------
static int compare_symbols(const void *a, const void *b) {
  const dt_renamed_t *x = a, *y = b;
  return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

// "u0 = p3": where symbols of readbacks come from, in the program's order. Last of all: nothing is
// found in the table of what was renamed after it.
static dt_status_t use_readbacks(canonical_t *c, dt_loop_printer_t *printer) {
  const dt_program_t *program = c->program;
  dt_kernel_params_t *params = c->params;
  const dt_symenv_t *to = c->rename.to;
  params->readbacks = DT_ARENA_ARRAY(program->arena, uint32_t, program->readbacks.len + 1);
  if (!params->readbacks)
    return DT_NO_MEMORY();
  if (c->rename.n_made > 1)
    qsort(c->rename.made, c->rename.n_made, sizeof(*c->rename.made), compare_symbols);
  for (uint32_t k = 0; k < c->rename.n_made; k++) {
    const dt_readback_t *readback = loaded_readback(program, c->rename.made[k].symbol);
    if (!readback)
      continue;
    params->readbacks[params->n_readbacks++] = (uint32_t)(readback - program->readbacks.items);
    DT_TRY(use_buffer(c, readback->buffer));
    dt__sym_print(to, c->rename.made[k].made, printer->out);
    dt__text_put(printer->out, " = ");
    put_buffer_name(printer, readback->buffer);
    dt__text_put(printer->out, "\n");
  }
  return NULL;
}

static dt_status_t use_gate(canonical_t *c, dt_loop_printer_t *printer) {
  const dt_kernel_params_t *params = c->params;
  if (!params->gate.id)
    return NULL;
  DT_TRY(use_buffer(c, params->gate));
  dt__text_put(printer->out, "gate ");
  put_buffer_name(printer, params->gate);
  dt__text_put(printer->out, "\n");
  return NULL;
}

static dt_status_t print_all(canonical_t *c, dt_text_t *out) {
  dt_program_t *program = c->program;
  for (uint32_t k = 0; k < c->n_kernels; k++)
    DT_TRY(use_buffers(c, &c->kernels[k]));
  dt_loop_printer_t printer = {.program = program,
                               .rename = &c->rename,
                               .out = out,
                               .buffer_name = put_buffer_name,
                               .user = c,
                               .code = true};
  for (uint32_t k = 0; k < c->n_kernels; k++) {
    dt__text_put(out, "kernel");
    dt__print_kernel_body(&printer, &c->kernels[k]);
  }
  for (role_t role = ROLE_PARAMETER; role < N_ROLES; role++)
    print_buffers(&printer, c, role);
  print_ranges(&printer);
  c->params->gate = c->kernels[c->n_kernels - 1].gate;
  DT_TRY(list_symbols(c));
  if (program->device_sized)
    DT_TRY(use_readbacks(c, &printer));
  DT_TRY(use_gate(c, &printer));
  if (!c->rename.failed)
    return dt__text_status(out);
  if (c->rename.no_memory)
    return DT_NO_MEMORY();
  DT_TRY(dt__status_join(dt__symenv_status(c->rename.to), dt__symenv_status(program->env)));
  return DT_FAIL(DT_E_INTERNAL, "a kernel's expression is missing");
}

static dt_status_t print(canonical_t *c, dt_text_t *out) {
  memset(c->params, 0, sizeof(*c->params));
  DT_TRY(make_numbers(c));
  dt_status_t status = dt__rename_init(&c->rename, c->program->env);
  if (!status) {
    status = print_all(c, out);
    dt__rename_fini(&c->rename);
  }
  dt__free(c->numbers);
  c->params->n_buffers = c->roles[ROLE_PARAMETER].used.len;
  c->params->buffers = c->roles[ROLE_PARAMETER].used.items;
  return status;
}

dt_status_t dt__kernel_print(dt_program_t *program, const dt_kernel_t *kernel,
                             dt_kernel_params_t *params, dt_text_t *out) {
  canonical_t c = {.program = program, .kernels = kernel, .n_kernels = 1, .params = params};
  return print(&c, out);
}

dt_status_t dt__chain_print(dt_program_t *program, dt_kernel_chain_t chain,
                            dt_kernel_params_t *params, dt_text_t *out) {
  canonical_t c = {.program = program,
                   .kernels = &program->kernels.items[chain.first],
                   .n_kernels = chain.end - chain.first,
                   .params = params};
  return print(&c, out);
}
