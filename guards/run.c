// SPDX-License-Identifier: Apache-2.0
// Runs guard programs: one pass over the records, no allocation. The kinds are rows of
// guard_kinds.def. Expressions run on a small stack machine that agrees with dt__sym_eval, with one
// exception: a sum or product with parts beyond 127 bits has no value here, and so is a miss.
#include "guards/record.h"

#include "runtime/base/dtype.h"
#include "symshape/apply.h"

#include <stdlib.h>
#include <string.h>

// ---- Expressions --------------------------------------------------------------------------------
typedef __int128 wide_t;

typedef struct stack_t {
  wide_t value[DT_GUARD_MAX_STACK];
  bool valid[DT_GUARD_MAX_STACK]; // false: no value (overflow, division by 0)
  uint32_t n;
} stack_t;

static bool fits(wide_t x) { return x == (wide_t)(int64_t)x; }

// Operations on two values; false: the result has none.
static bool apply(dt_sym_op_t op, wide_t x, wide_t y, wide_t *out) {
  if (op == DT_SYM_ADD)
    return !__builtin_add_overflow(x, y, out);
  if (op == DT_SYM_MUL)
    return !__builtin_mul_overflow(x, y, out);
  // Only sums and products take wider operands.
  dt_sym_number_t number = dt__sym_apply(op, (int64_t)x, (int64_t)y);
  *out = number.value;
  return number.known;
}

// `and` is false as soon as one side is, whether the other has a value or not; `or` the same way.
static void apply_junction(stack_t *stack, bool deciding) {
  uint32_t k = stack->n - 2;
  bool decided = (stack->valid[k] && (stack->value[k] != 0) == deciding) ||
                 (stack->valid[k + 1] && (stack->value[k + 1] != 0) == deciding);
  stack->valid[k] = decided || (stack->valid[k] && stack->valid[k + 1]);
  stack->value[k] = decided ? deciding : !deciding;
  stack->n--;
}

// Only the side that is chosen needs a value.
static void apply_select(stack_t *stack) {
  uint32_t k = stack->n - 3;
  uint32_t chosen = stack->value[k] != 0 ? k + 1 : k + 2;
  stack->valid[k] = stack->valid[k] && stack->valid[chosen];
  stack->value[k] = stack->value[chosen];
  stack->n -= 2;
}

static void push(stack_t *stack, int64_t value) {
  stack->value[stack->n] = value;
  stack->valid[stack->n++] = true;
}

static void run_step(const dt_guard_step_t *step, const int64_t *symbols, stack_t *stack) {
  switch (step->op) {
  case DT_SYM_CONST:
    push(stack, step->value);
    return;
  case DT_SYM_SYMBOL:
    push(stack, symbols[step->symbol]);
    return;
  case DT_GUARD_OP_NARROW:
    stack->valid[stack->n - 1] = stack->valid[stack->n - 1] && fits(stack->value[stack->n - 1]);
    return;
  case DT_SYM_NOT:
    stack->value[stack->n - 1] = stack->value[stack->n - 1] == 0;
    return;
  case DT_SYM_AND:
  case DT_SYM_OR:
    apply_junction(stack, step->op == DT_SYM_OR);
    return;
  case DT_SYM_SELECT:
    apply_select(stack);
    return;
  default: {
    uint32_t k = stack->n - 2;
    stack->valid[k] =
        stack->valid[k] && stack->valid[k + 1] &&
        apply((dt_sym_op_t)step->op, stack->value[k], stack->value[k + 1], &stack->value[k]);
    stack->n--;
    return;
  }
  }
}

bool dt__guard_eval(const dt_guard_step_t *steps, uint32_t n, const int64_t *symbols,
                    int64_t *out) {
  stack_t stack;
  stack.n = 0;
  for (uint32_t k = 0; k < n; k++)
    run_step(&steps[k], symbols, &stack);
  *out = (int64_t)stack.value[0];
  return stack.valid[0];
}

// ---- Kinds --------------------------------------------------------------------------------------
typedef struct run_t {
  const dt_guards_t *guards;
  const dt_guard_args_t *args;
  int64_t *sym;
} run_t;

static inline const dt_tensor_t *tensor_of(const run_t *run, const dt_guard_t *g) {
  return run->args->inputs[g->input];
}

// Nobody steps along a dim of one element, or anywhere in a tensor without elements.
static inline bool no_step(const dt_tensor_t *t, uint32_t dim) {
  return t->sizes[dim] <= 1 || t->count == 0;
}

static inline bool check_modes(const run_t *run, const dt_guard_t *g) {
  return (run->args->modes & (uint64_t)g->b) == (uint64_t)g->a;
}

static inline bool check_header(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *t = tensor_of(run, g);
  return (dt__guard_key_of(t) & g->b) == g->a;
}

static inline bool check_size_const(const run_t *run, const dt_guard_t *g) {
  return tensor_of(run, g)->sizes[g->dim] == g->a;
}

static inline bool check_stride_const(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *t = tensor_of(run, g);
  return t->strides[g->dim] == g->a || no_step(t, g->dim);
}

static inline bool check_bind_size(const run_t *run, const dt_guard_t *g) {
  run->sym[g->at] = tensor_of(run, g)->sizes[g->dim];
  return true;
}

static inline bool check_bind_stride(const run_t *run, const dt_guard_t *g) {
  run->sym[g->at] = tensor_of(run, g)->strides[g->dim];
  return true;
}

// ---- Integers from memory
bool dt__guard_value(const dt_tensor_t *tensor, dt_dtype_t dtype, int64_t *out) {
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
  } memory = {0};
  memcpy(&memory, tensor->data, dt_dtype_size(dtype));
  bool is_signed = dt__dtype_is_signed(dtype);
  switch (dt_dtype_size(dtype)) {
  case 1:
    *out = dtype == DT_BOOL ? memory.u8 != 0 : is_signed ? memory.i8 : memory.u8;
    return true;
  case 2:
    *out = is_signed ? memory.i16 : memory.u16;
    return true;
  case 4:
    *out = is_signed ? memory.i32 : (int64_t)memory.u32;
    return true;
  default:
    *out = memory.i64;
    return is_signed || memory.i64 >= 0;
  }
}

static inline bool input_value(const run_t *run, const dt_guard_t *g, int64_t *out) {
  return dt__guard_value(tensor_of(run, g), (dt_dtype_t)g->dim, out);
}

static inline int64_t capture_value(const run_t *run, const dt_guard_t *g) {
  return run->args->captures[g->input];
}

static bool check_bind_value(const run_t *run, const dt_guard_t *g) {
  return input_value(run, g, &run->sym[g->at]);
}

static inline bool check_bind_capture(const run_t *run, const dt_guard_t *g) {
  run->sym[g->at] = capture_value(run, g);
  return true;
}

static bool check_value_const(const run_t *run, const dt_guard_t *g) {
  int64_t value;
  return input_value(run, g, &value) && value == g->a;
}

static inline bool check_capture_const(const run_t *run, const dt_guard_t *g) {
  return capture_value(run, g) == g->a;
}

static bool check_value_symbol(const run_t *run, const dt_guard_t *g) {
  int64_t value;
  return input_value(run, g, &value) && value == run->sym[g->at];
}

static inline bool check_capture_symbol(const run_t *run, const dt_guard_t *g) {
  return capture_value(run, g) == run->sym[g->at];
}

// ---- Sizes, strides, symbols
static inline bool check_size_symbol(const run_t *run, const dt_guard_t *g) {
  return tensor_of(run, g)->sizes[g->dim] == run->sym[g->at];
}

static inline bool check_stride_symbol(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *t = tensor_of(run, g);
  return t->strides[g->dim] == run->sym[g->at] || no_step(t, g->dim);
}

static inline bool check_symbol_range(const run_t *run, const dt_guard_t *g) {
  return g->a <= run->sym[g->at] && run->sym[g->at] <= g->b;
}

static inline bool check_symbol_not(const run_t *run, const dt_guard_t *g) {
  return run->sym[g->at] != g->a;
}

static inline bool check_symbol_mod(const run_t *run, const dt_guard_t *g) {
  int64_t rest = run->sym[g->at] % g->a; // a > 0
  return (rest < 0 ? rest + g->a : rest) == g->b;
}

static inline bool check_symbol_not_mod(const run_t *run, const dt_guard_t *g) {
  return !check_symbol_mod(run, g);
}

static inline bool check_symbols_eq(const run_t *run, const dt_guard_t *g) {
  return run->sym[g->at] == run->sym[g->other];
}

static inline bool check_symbols_ne(const run_t *run, const dt_guard_t *g) {
  return run->sym[g->at] != run->sym[g->other];
}

static inline bool check_symbols_lt(const run_t *run, const dt_guard_t *g) {
  return run->sym[g->at] < run->sym[g->other];
}

static inline bool check_symbols_le(const run_t *run, const dt_guard_t *g) {
  return run->sym[g->at] <= run->sym[g->other];
}

static bool value_of(const run_t *run, const dt_guard_t *g, int64_t *out) {
  return dt__guard_eval(run->guards->steps + g->at, g->other, run->sym, out);
}

static bool check_size_expr(const run_t *run, const dt_guard_t *g) {
  int64_t value;
  return value_of(run, g, &value) && tensor_of(run, g)->sizes[g->dim] == value;
}

static bool check_stride_expr(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *t = tensor_of(run, g);
  int64_t value;
  return no_step(t, g->dim) || (value_of(run, g, &value) && t->strides[g->dim] == value);
}

static bool check_value_expr(const run_t *run, const dt_guard_t *g) {
  int64_t value, own;
  return input_value(run, g, &own) && value_of(run, g, &value) && own == value;
}

static bool check_capture_expr(const run_t *run, const dt_guard_t *g) {
  int64_t value;
  return value_of(run, g, &value) && capture_value(run, g) == value;
}

static bool check_expr(const run_t *run, const dt_guard_t *g) {
  int64_t value;
  return value_of(run, g, &value) && value != 0;
}

// ---- Memory
static inline bool check_aligned(const run_t *run, const dt_guard_t *g) {
  return ((uintptr_t)tensor_of(run, g)->data & ((uintptr_t)g->a - 1)) == 0;
}

static bool check_same_memory(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *x = tensor_of(run, g), *y = run->args->inputs[g->other];
  if (x->data != y->data || x->dtype != y->dtype || x->rank != y->rank)
    return false;
  return memcmp(x->sizes, y->sizes, x->rank * sizeof(x->sizes[0])) == 0 &&
         memcmp(x->strides, y->strides, x->rank * sizeof(x->strides[0])) == 0;
}

// Addresses of the first byte and one past the last, of a tensor with elements.
static void bytes_of(const dt_tensor_t *t, int64_t *low, int64_t *high) {
  int64_t item = (int64_t)dt_dtype_size(t->dtype);
  *low = (int64_t)(uintptr_t)t->data;
  if (dt__dtype_is_packed(t->dtype)) { // contiguous
    *high = *low + (int64_t)dt__tensor_bytes(t);
    return;
  }
  *high = *low + item;
  for (uint32_t k = 0; k < t->rank; k++) {
    int64_t reach = (t->sizes[k] - 1) * t->strides[k] * item;
    if (reach < 0)
      *low += reach;
    else
      *high += reach;
  }
}

static bool check_disjoint(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *x = tensor_of(run, g), *y = run->args->inputs[g->other];
  if (x->count == 0 || y->count == 0)
    return true;
  int64_t x_low, x_high, y_low, y_high;
  bytes_of(x, &x_low, &x_high);
  bytes_of(y, &y_low, &y_high);
  return x_high <= y_low || y_high <= x_low;
}

// Every stride steps over all that the smaller ones reach. There are injective layouts without
// that; they miss.
static bool check_no_overlap(const run_t *run, const dt_guard_t *g) {
  const dt_tensor_t *t = tensor_of(run, g);
  if (t->contiguous || t->count == 0)
    return true;
  for (uint32_t k = 0; k < t->rank; k++) {
    if (t->sizes[k] <= 1)
      continue;
    int64_t step = llabs(t->strides[k]), reach = 1;
    for (uint32_t j = 0; j < t->rank; j++) {
      int64_t other = llabs(t->strides[j]);
      if (j != k && (other < step || (other == step && j < k)))
        reach += (t->sizes[j] - 1) * other;
    }
    if (step < reach)
      return false;
  }
  return true;
}

static inline bool check(const run_t *run, const dt_guard_t *g) {
  switch ((dt_guard_kind_t)g->kind) {
#define GUARD_KIND(id, can_fail, reads, remedy, if_number, doc)                                    \
  case DT_GUARD_##id:                                                                              \
    return check_##id(run, g);
#include "guards/guard_kinds.def"
  case DT_GUARD_KIND_COUNT:
    break;
  }
  return false;
}

bool dt__guard_check(const dt_guards_t *guards, const dt_guard_t *guard,
                     const dt_guard_args_t *args, int64_t *symbols) {
  run_t run = {guards, args, symbols};
  return check(&run, guard);
}

bool dt__guards_run(const dt_guards_t *guards, const dt_guard_args_t *args, int64_t *symbols) {
  run_t run = {guards, args, symbols};
  if (guards->clear)
    memset(symbols, 0, guards->n_symbols * sizeof(*symbols));
  const dt_guard_t *end = guards->records + guards->n_records;
  for (const dt_guard_t *g = guards->records; g != end; g++) {
    if (!check(&run, g))
      return false;
  }
  return true;
}
