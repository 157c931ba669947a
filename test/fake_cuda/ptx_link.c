// SPDX-License-Identifier: Apache-2.0
// The last step of reading a module: functions in order of calls, callees first; branches and calls
// to positions; variables to addresses.
#include "test/fake_cuda/ptx_read.h"
#include "test/fake_cuda/ptx_run.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STATIC 49152 // bytes of static shared memory; more must be dynamic

// ---- Functions --------------------------------------------------------------------------------------

typedef struct order_t {
  ptx_reader_t *r;
  uint8_t *state; // 0 not seen, 1 being visited, 2 done
} order_t;

static void place_targets(ptx_targets_t *targets, uint32_t begin) {
  for (uint32_t k = 0; k < targets->n && !targets->placed; k++)
    targets->at[k] += begin;
  targets->placed = true; // another branch may have the same list
}

// A call of a function of the driver's becomes what that does.
static void place_call(const ptx_reader_t *r, ptx_insn_t *in) {
  const ptx_function_t *callee = &r->module->functions[r->module->calls[in->extra].function];
  in->target = callee->begin;
  if (callee->defined)
    return;
  in->exec = ptx_builtin(callee);
  in->flow = PTX_NEXT;
}

// Copies the function's code behind its callees', with a return at the end.
static bool place(order_t *o, uint32_t index) {
  ptx_module_t *m = o->r->module;
  ptx_function_t *f = &m->functions[index];
  if (o->state[index] == 2)
    return true;
  if (o->state[index] == 1)
    return ptx_fail(o->r, 0, "\"%s\" calls itself: recursion is not simulated", f->name);
  if (!f->defined && ptx_builtin(f))
    return true;
  if (!f->defined)
    return ptx_fail(o->r, 0, "\"%s\" is called, and not defined", f->name);
  o->state[index] = 1;
  for (uint32_t k = 0; k < f->n_callees; k++)
    if (!place(o, f->callees[k]))
      return false;
  o->state[index] = 2;
  f->begin = m->n_code;
  for (uint32_t k = 0; k < f->n_code; k++) {
    ptx_insn_t *in = PTX_GROW(m->code, m->n_code);
    *in = f->code[k];
    if (in->exec == ptx_exec_branch)
      in->target += f->begin;
    if (in->exec == ptx_exec_branch_index)
      place_targets(&m->targets[in->extra], f->begin);
    if (in->exec == ptx_exec_call)
      place_call(o->r, in);
  }
  ptx_insn_t *end = PTX_GROW(m->code, m->n_code);
  *end = (ptx_insn_t){.exec = f->entry ? ptx_exec_exit : ptx_exec_return,
                      .flow = PTX_JUMP,
                      .guard = -1,
                      .extra = (uint32_t)f->return_slot,
                      .line = f->n_code ? f->code[f->n_code - 1].line : 1};
  f->end = m->n_code;
  return true;
}

static bool place_all(ptx_reader_t *r) {
  ptx_module_t *m = r->module;
  order_t o = {r, calloc(m->n_functions + 1, 1)};
  if (!o.state)
    abort();
  bool fine = true;
  for (uint32_t k = 0; k < m->n_functions && fine; k++)
    if (m->functions[k].defined)
      fine = place(&o, k);
  free(o.state);
  return fine;
}

// ---- Variables --------------------------------------------------------------------------------------

static uint32_t round_up(uint64_t n, uint32_t align) {
  return (uint32_t)((n + align - 1) / align * align);
}

// Variables that several functions may see come first, in every entry; each entry's own follow, one
// entry's over another's; the dynamic ones begin where the largest entry ends.
static void place_shared(ptx_module_t *m) {
  uint32_t common = 0, end = 0, align = 16;
  for (uint32_t k = 0; k < m->n_variables; k++) {
    ptx_variable_t *v = &m->variables[k];
    if (v->space == PTX_SHARED && v->dynamic && v->align > align)
      align = v->align;
    if (v->space != PTX_SHARED || v->dynamic || v->owner != PTX_NONE)
      continue;
    v->address = round_up(common, v->align);
    common = (uint32_t)v->address + v->bytes;
  }
  for (uint32_t f = 0; f < m->n_functions; f++) {
    uint32_t at = common;
    for (uint32_t k = 0; k < m->n_variables; k++) {
      ptx_variable_t *v = &m->variables[k];
      if (v->space != PTX_SHARED || v->dynamic || v->owner != f)
        continue;
      v->address = round_up(at, v->align);
      at = (uint32_t)v->address + v->bytes;
    }
    m->functions[f].shared_end = at;
    end = at > end ? at : end;
  }
  m->dynamic_begin = round_up(end, align);
  for (uint32_t k = 0; k < m->n_variables; k++)
    if (m->variables[k].space == PTX_SHARED && m->variables[k].dynamic)
      m->variables[k].address = m->dynamic_begin;
}

// What the entry's attribute says: its own variables, and of the common ones those that it or a
// function that is no entry names.
static void count_shared(ptx_module_t *m, uint32_t f) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < m->n_variables; k++) {
    const ptx_variable_t *v = &m->variables[k];
    if (v->space != PTX_SHARED || v->dynamic)
      continue;
    bool used = v->owner == f;
    for (uint32_t p = 0; v->owner == PTX_NONE && p < m->n_patches && !used; p++)
      used = m->patches[p].variable == k &&
             (m->patches[p].function == f || !m->functions[m->patches[p].function].entry);
    if (used)
      bytes = round_up(bytes, v->align) + v->bytes;
  }
  m->functions[f].shared_bytes = (uint32_t)bytes;
}

// A value for each lane, so that constants are read as registers are.
static void spread_constants(ptx_module_t *m) {
  uint64_t *spread = malloc(sizeof(*spread) * PTX_LANES * ((size_t)m->n_constants + 1));
  if (!spread)
    abort();
  for (size_t k = 0; k < (size_t)m->n_constants * PTX_LANES; k++)
    spread[k] = m->constants[k / PTX_LANES];
  free(m->constants);
  m->constants = spread;
}

bool ptx_link(ptx_reader_t *r) {
  ptx_module_t *m = r->module;
  if (!place_all(r))
    return false;
  place_shared(m);
  for (uint32_t k = 0; k < m->n_functions; k++) {
    if (!m->functions[k].entry)
      continue;
    count_shared(m, k);
    if (m->functions[k].shared_bytes > MOST_STATIC)
      return ptx_fail(r, 0, "\"%s\" declares %u bytes of shared memory; %d is the most",
                      m->functions[k].name, m->functions[k].shared_bytes, MOST_STATIC);
  }
  for (uint32_t k = 0; k < m->n_patches; k++)
    m->constants[m->patches[k].constant] += m->variables[m->patches[k].variable].address;
  spread_constants(m);
  return true;
}
