// SPDX-License-Identifier: Apache-2.0
// Checks of readbacks as a kernel of one iteration; in programs of segments the host makes them.
// Conditions become instructions on the numbers as they were read, since nothing may be assumed of
// a readback before it is checked. They are exact if the readbacks are in their ranges, which are
// checked, too.
#include "fuse/sized.h"

#include "runtime/base/status.h"

#define MAX_ARGS 64 // of one operation

// An instruction, and what its value may be.
typedef struct number_t {
  uint32_t inst;
  bool is_bool;
  int64_t lo, hi;
} number_t;

typedef struct checks_t {
  dt_program_t *program;
  dt_stage_t stage;
  uint32_t good; // BOOL: all checks so far hold; DT_NO_INST: none was made
  bool unknown;  // a condition is not made of what is known here, or may overflow
} checks_t;

static dt_status_t add(checks_t *c, dt_inst_t inst, uint32_t *out) {
  return dt__stage_add(c->program, &c->stage, &inst, out);
}

static dt_status_t scalar(checks_t *c, dt_scalar_op_t op, dt_dtype_t dtype, uint32_t a, uint32_t b,
                          uint32_t *out) {
  dt_inst_t inst = {.kind = DT_INST_SCALAR, .dtype = dtype, .op = op, .args = {a, b, DT_NO_INST}};
  return add(c, inst, out);
}

static dt_status_t literal(checks_t *c, int64_t value, uint32_t *out) {
  dt_inst_t inst = {.kind = DT_INST_CONST, .dtype = DT_I64, .value.i = value};
  return add(c, inst, out);
}

// ---- Numbers and conditions -----------------------------------------------------------------------

static dt_status_t as_bool(checks_t *c, number_t *n) {
  uint32_t zero = 0;
  if (n->is_bool)
    return NULL;
  DT_TRY(literal(c, 0, &zero));
  DT_TRY(scalar(c, DT_SCALAR_ne, DT_BOOL, n->inst, zero, &n->inst));
  *n = (number_t){.inst = n->inst, .is_bool = true, .hi = 1};
  return NULL;
}

static dt_status_t as_int(checks_t *c, number_t *n) {
  if (!n->is_bool)
    return NULL;
  dt_inst_t cast = {.kind = DT_INST_CAST, .dtype = DT_I64, .args = {n->inst}};
  DT_TRY(add(c, cast, &n->inst));
  n->is_bool = false;
  return NULL;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static void range_of_sum(checks_t *c, number_t *to, const number_t *b) {
  c->unknown |= __builtin_add_overflow(to->lo, b->lo, &to->lo) ||
                __builtin_add_overflow(to->hi, b->hi, &to->hi);
}

static void range_of_product(checks_t *c, number_t *to, const number_t *b) {
  int64_t ends[4];
  c->unknown |= __builtin_mul_overflow(to->lo, b->lo, &ends[0]) ||
                __builtin_mul_overflow(to->lo, b->hi, &ends[1]) ||
                __builtin_mul_overflow(to->hi, b->lo, &ends[2]) ||
                __builtin_mul_overflow(to->hi, b->hi, &ends[3]);
  if (c->unknown)
    return;
  to->lo = least(least(ends[0], ends[1]), least(ends[2], ends[3]));
  to->hi = largest(largest(ends[0], ends[1]), largest(ends[2], ends[3]));
}

static void range_of_least(checks_t *c, number_t *to, const number_t *b) {
  (void)c;
  to->lo = least(to->lo, b->lo);
  to->hi = least(to->hi, b->hi);
}

static void range_of_largest(checks_t *c, number_t *to, const number_t *b) {
  (void)c;
  to->lo = largest(to->lo, b->lo);
  to->hi = largest(to->hi, b->hi);
}

static void range_of_bool(checks_t *c, number_t *to, const number_t *b) {
  (void)c;
  (void)b;
  to->lo = 0;
  to->hi = 1;
}

// Operations that take their arguments two by two.
typedef struct pairwise_t {
  dt_sym_op_t from;
  dt_scalar_op_t to;
  bool takes_bools, gives_bool;
  void (*range)(checks_t *c, number_t *to, const number_t *b);
} pairwise_t;
static const pairwise_t pairwise[] = {
    {DT_SYM_ADD, DT_SCALAR_add, false, false, range_of_sum},
    {DT_SYM_MUL, DT_SCALAR_mul, false, false, range_of_product},
    {DT_SYM_MIN, DT_SCALAR_minimum, false, false, range_of_least},
    {DT_SYM_MAX, DT_SCALAR_maximum, false, false, range_of_largest},
    {DT_SYM_EQ, DT_SCALAR_eq, false, true, range_of_bool},
    {DT_SYM_NE, DT_SCALAR_ne, false, true, range_of_bool},
    {DT_SYM_LT, DT_SCALAR_lt, false, true, range_of_bool},
    {DT_SYM_LE, DT_SCALAR_le, false, true, range_of_bool},
    {DT_SYM_AND, DT_SCALAR_logical_and, true, true, range_of_bool},
    {DT_SYM_OR, DT_SCALAR_logical_or, true, true, range_of_bool},
};

static dt_status_t number(checks_t *c, dt_sym_t e, number_t *out);

static dt_status_t operand(checks_t *c, dt_sym_t e, bool is_bool, number_t *out) {
  DT_TRY(number(c, e, out));
  return is_bool ? as_bool(c, out) : as_int(c, out);
}

static dt_status_t joined(checks_t *c, const pairwise_t *op, const dt_sym_t *args, uint32_t n,
                          number_t *out) {
  DT_TRY(operand(c, args[0], op->takes_bools, out));
  for (uint32_t k = 1; k < n; k++) {
    number_t next = {0};
    DT_TRY(operand(c, args[k], op->takes_bools, &next));
    op->range(c, out, &next);
    DT_TRY(scalar(c, op->to, op->gives_bool ? DT_BOOL : DT_I64, out->inst, next.inst, &out->inst));
  }
  out->is_bool = op->gives_bool;
  return NULL;
}

// Rounded to minus infinity: what is left without the remainder is divided without one. Divisors
// are at least 1.
static dt_status_t division(checks_t *c, dt_sym_op_t op, const dt_sym_t *args, number_t *out) {
  number_t a = {0}, b = {0};
  int64_t lowest = 0;
  DT_TRY(operand(c, args[0], false, &a));
  DT_TRY(operand(c, args[1], false, &b));
  c->unknown |= b.lo < 1 || __builtin_sub_overflow(a.lo, b.hi, &lowest);
  *out = (number_t){.hi = b.hi - 1};
  DT_TRY(scalar(c, DT_SCALAR_mod, DT_I64, a.inst, b.inst, &out->inst));
  if (op == DT_SYM_MOD)
    return NULL;
  *out = (number_t){.inst = out->inst, .lo = least(a.lo, 0), .hi = largest(a.hi, 0)};
  DT_TRY(scalar(c, DT_SCALAR_sub, DT_I64, a.inst, out->inst, &out->inst));
  return scalar(c, DT_SCALAR_div, DT_I64, out->inst, b.inst, &out->inst);
}

static dt_status_t selection(checks_t *c, const dt_sym_t *args, number_t *out) {
  number_t cond = {0}, no = {0};
  DT_TRY(operand(c, args[0], true, &cond));
  DT_TRY(operand(c, args[1], false, out));
  DT_TRY(operand(c, args[2], false, &no));
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = DT_I64,
                     .op = DT_SCALAR_where,
                     .args = {cond.inst, out->inst, no.inst}};
  DT_TRY(add(c, where, &out->inst));
  out->lo = least(out->lo, no.lo);
  out->hi = largest(out->hi, no.hi);
  return NULL;
}

static dt_status_t readback_value(checks_t *c, uint32_t index, number_t *out) {
  const dt_readback_t *readback = &c->program->readbacks.items[index];
  dt_range_t range = dt__symbol_info(c->program->env, readback->symbol).range;
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = DT_I64,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = readback->buffer};
  *out = (number_t){.lo = range.lo, .hi = range.hi};
  return add(c, load, &out->inst);
}

// What has no readback in it is computed as other indices are.
static dt_status_t known_number(checks_t *c, dt_sym_t e, number_t *out) {
  dt_range_t range = dt__sym_range(c->program->env, e);
  dt_inst_t index = {.kind = DT_INST_INDEX, .dtype = DT_I64, .sym = e};
  *out = (number_t){.lo = range.lo, .hi = range.hi};
  return add(c, index, &out->inst);
}

static dt_status_t symbol_value(checks_t *c, uint32_t symbol, number_t *out) {
  uint32_t k = 0;
  while (c->program->readbacks.items[k].symbol != symbol)
    k++;
  return readback_value(c, k, out);
}

static dt_status_t operation(checks_t *c, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                             number_t *out) {
  if (op == DT_SYM_FLOORDIV || op == DT_SYM_MOD)
    return division(c, op, args, out);
  if (op == DT_SYM_SELECT)
    return selection(c, args, out);
  if (op == DT_SYM_NOT) {
    DT_TRY(operand(c, args[0], true, out));
    return scalar(c, DT_SCALAR_logical_not, DT_BOOL, out->inst, DT_NO_INST, &out->inst);
  }
  for (size_t k = 0; k < sizeof(pairwise) / sizeof(pairwise[0]); k++)
    if (pairwise[k].from == op)
      return joined(c, &pairwise[k], args, n, out);
  c->unknown = true;
  return literal(c, 0, &out->inst);
}

static dt_status_t number(checks_t *c, dt_sym_t e, number_t *out) {
  dt_sym_t args[MAX_ARGS];
  if (!dt__expr_readbacks(c->program, e))
    return known_number(c, e, out);
  dt_sym_view_t view = dt__sym_view(c->program->env, e);
  if (view.op == DT_SYM_SYMBOL)
    return symbol_value(c, view.symbol, out);
  if (view.n_args > MAX_ARGS) {
    c->unknown = true;
    return literal(c, 0, &out->inst);
  }
  for (uint32_t k = 0; k < view.n_args; k++)
    args[k] = view.args[k];
  return operation(c, view.op, args, view.n_args, out);
}

// ---- Checks ---------------------------------------------------------------------------------------

// Where `holds` is false, and all before it was true, the failure is recorded with the readback's
// value: by a bind that no value suits.
static dt_status_t check(checks_t *c, uint32_t holds, const dt_check_t *what) {
  dt_program_t *program = c->program;
  dt_inst_t bind = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .check = program->checks.len,
                    .extent = dt__sym_const(program->env, 0)};
  number_t value = {0};
  uint32_t result = 0;
  bind.sym = dt__program_new_data(program, bind.extent);
  DT_TRY(readback_value(c, what->readback - 1, &value));
  bind.args[0] = value.inst;
  DT_TRY(scalar(c, DT_SCALAR_logical_not, DT_BOOL, holds, DT_NO_INST, &bind.mask));
  if (c->good != DT_NO_INST)
    DT_TRY(scalar(c, DT_SCALAR_logical_and, DT_BOOL, c->good, bind.mask, &bind.mask));
  DT_TRY(add(c, bind, &result));
  if (c->good != DT_NO_INST)
    DT_TRY(scalar(c, DT_SCALAR_logical_and, DT_BOOL, c->good, holds, &holds));
  c->good = holds;
  return DT_VEC_PUSH(program->arena, &program->checks, *what) ? NULL : DT_NO_MEMORY();
}

// The asserts that readbacks up to [first, end) decide, and fewer do not. They come before ranges:
// they say more.
static dt_status_t check_asserts(checks_t *c, uint32_t first, uint32_t end) {
  const dt_graph_t *graph = c->program->graph;
  for (uint32_t k = 0; graph && k < graph->asserts.len; k++) {
    const dt_graph_assert_t *own = &graph->asserts.items[k];
    uint32_t readbacks = dt__expr_readbacks(c->program, own->cond);
    if (readbacks <= first || readbacks > end)
      continue;
    dt_check_t what = {.what = own->what,
                       .origin = own->origin,
                       .readback = readbacks,
                       .code = own->code ? own->code : DT_E_SHAPE};
    number_t holds = {0};
    DT_TRY(operand(c, own->cond, true, &holds));
    DT_TRY(check(c, holds.inst, &what));
  }
  return NULL;
}

static dt_status_t compare(checks_t *c, uint32_t a, uint32_t b, uint32_t *all) {
  uint32_t holds = 0;
  DT_TRY(scalar(c, DT_SCALAR_le, DT_BOOL, a, b, &holds));
  if (*all != DT_NO_INST)
    DT_TRY(scalar(c, DT_SCALAR_logical_and, DT_BOOL, *all, holds, &holds));
  *all = holds;
  return NULL;
}

static dt_status_t check_range(checks_t *c, uint32_t index) {
  const dt_readback_t readback = c->program->readbacks.items[index];
  number_t value = {0}, most = {0};
  uint32_t all = DT_NO_INST, end = 0;
  DT_TRY(readback_value(c, index, &value));
  if (value.lo > INT64_MIN) {
    DT_TRY(literal(c, value.lo, &end));
    DT_TRY(compare(c, end, value.inst, &all));
  }
  if (value.hi < INT64_MAX) {
    DT_TRY(literal(c, value.hi, &end));
    DT_TRY(compare(c, value.inst, end, &all));
  }
  if (readback.most.id) {
    DT_TRY(known_number(c, readback.most, &most));
    DT_TRY(compare(c, value.inst, most.inst, &all));
  }
  dt_check_t what = {.what = readback.what, .origin = readback.origin, .readback = index + 1};
  return all == DT_NO_INST ? NULL : check(c, all, &what);
}

// ---- The kernel -----------------------------------------------------------------------------------

static dt_status_t read_gate(checks_t *c, dt_buffer_id_t gate) {
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = DT_I64,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = gate};
  number_t before = {0};
  if (!gate.id)
    return NULL;
  DT_TRY(add(c, load, &before.inst));
  DT_TRY(as_bool(c, &before));
  c->good = before.inst;
  return NULL;
}

static dt_status_t store_gate(checks_t *c, dt_buffer_id_t *out) {
  dt_buffer_t gate = {.kind = DT_BUFFER_TEMP, .dtype = DT_I64};
  number_t good = {.inst = c->good, .is_bool = true};
  dt_store_t store = {.mask = DT_NO_INST};
  DT_TRY(dt__program_add_buffer(c->program, &gate, out));
  DT_TRY(as_int(c, &good));
  store.buffer = *out;
  store.value = good.inst;
  store.index = DT_ARENA_ARRAY(c->program->arena, dt_sym_t, 1);
  return store.index && DT_VEC_PUSH(c->program->arena, &c->stage.stores, store) ? NULL
                                                                                : DT_NO_MEMORY();
}

dt_status_t dt__readback_checks(dt_program_t *program, uint32_t first, uint32_t end,
                                dt_buffer_id_t *gate, dt_kernel_t *out, const char **out_reason) {
  checks_t c = {.program = program, .good = DT_NO_INST};
  uint32_t before = program->checks.len;
  dt_schedule_t serial = {
      .kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1, .grain = 1, .team = 1};
  *out = (dt_kernel_t){.name = "checks"};
  *out_reason = NULL;
  DT_TRY(read_gate(&c, *gate));
  DT_TRY(check_asserts(&c, first, end));
  for (uint32_t k = first; k < end; k++)
    DT_TRY(check_range(&c, k));
  if (c.unknown)
    *out_reason = "a check of what is read from data may overflow";
  if (c.unknown || program->checks.len == before)
    return NULL;
  DT_TRY(store_gate(&c, gate));
  return DT_VEC_PUSH(program->arena, &out->stages, c.stage) &&
                 DT_VEC_PUSH(program->arena, &out->schedules, serial)
             ? NULL
             : DT_NO_MEMORY();
}
