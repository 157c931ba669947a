// SPDX-License-Identifier: Apache-2.0
// The layout of a guard program, shared by the files that make it, run it and explain it.
//
//   one block: dt_guards_t | records | code | symbols | reasons | text
//
// Records hold indices, never pointers. Text is a run of NUL-terminated strings named by offset;
// offset 0 is the empty string.
#ifndef DT_GUARDS_RECORD_H
#define DT_GUARDS_RECORD_H

#include "guards/guards.h"

typedef enum dt_guard_kind_t {
#define GUARD_KIND(id, can_fail, reads, remedy, if_number, doc) DT_GUARD_##id,
#include "guards/guard_kinds.def"
  DT_GUARD_KIND_COUNT
} dt_guard_kind_t;

typedef struct dt_guard_t {
  uint8_t kind;   // dt_guard_kind_t
  uint8_t dim;    // or the dtype of a value
  uint16_t input; // or a capture
  uint32_t at;    // a symbol, or the first step of an expression
  int64_t a, b;
  uint32_t other;  // a second symbol or input, or the number of an expression's steps
  uint32_t reason; // which of `reasons` says what is tested and who asked
} dt_guard_t;
_Static_assert(sizeof(dt_guard_t) == 32, "two records a cache line");

// What an expression computes with: its operations, and `narrow`, which gives a sum or product that
// has grown beyond 64 bits no value.
#define DT_GUARD_OP_NARROW DT_SYM_OP_COUNT

// One step of an expression in postfix order. Sums and products are folded two at a time.
typedef struct dt_guard_step_t {
  uint32_t op;     // dt_sym_op_t or DT_GUARD_OP_NARROW
  uint32_t symbol; // SYMBOL
  int64_t value;   // CONST
} dt_guard_step_t;

#define DT_GUARD_MAX_STACK 260u    // the deepest expression of an environment, and a few
#define DT_GUARD_MAX_STEPS 65536u  // of one guard
#define DT_GUARD_MAX_INPUTS 65535u // what a record can name

typedef struct dt_guard_symbol_t {
  uint32_t text; // "s0"
  uint32_t name; // "ids.size(1)"; may be empty
} dt_guard_symbol_t;

typedef struct dt_guard_reason_t {
  uint32_t text; // the guard: "s0 <= 512"
  uint32_t op, file;
  int32_t line;
} dt_guard_reason_t;

struct dt_guards {
  uint32_t n_records, n_symbols, n_can_fail;
  bool clear; // some symbols are bound by no input and must read as 0
  const dt_guard_t *records;
  const dt_guard_step_t *steps;
  const dt_guard_symbol_t *symbols;
  const dt_guard_reason_t *reasons;
  const char *text;
};

// What a header record compares, of a tensor as it is: one byte each of dtype, device and rank, and
// a bit for contiguous; and the order of its dims, where a result takes it.
#define DT_GUARD_KEY_HEADER ((int64_t)0xffffff)
#define DT_GUARD_KEY_CONTIGUOUS ((int64_t)1 << 24)
#define DT_GUARD_KEY_ORDER (-((int64_t)1 << DT_GUARD_KEY_ORDER_AT))
#define DT_GUARD_KEY_ORDER_AT 32
static inline int64_t dt__guard_key(dt_dtype_t dtype, dt_device_t device, uint32_t rank,
                                    bool contiguous) {
  return (int64_t)((uint64_t)dtype | (uint64_t)device << 8 | (uint64_t)rank << 16 |
                   (uint64_t)contiguous << 24);
}

static inline int64_t dt__guard_key_order(uint32_t order) {
  return (int64_t)((uint64_t)order << DT_GUARD_KEY_ORDER_AT);
}
static inline int64_t dt__guard_key_of(const dt_tensor_t *t) {
  return dt__guard_key(t->dtype, t->device, t->rank, t->contiguous) | dt__guard_key_order(t->order);
}
// ", dims in memory as 0, 2, 3, 1", or ", dims in no order".
void dt__guard_put_order(uint32_t order, uint32_t rank, dt_text_t *out);

// The integer in a tensor of rank 0, read as one of `dtype` (integer or bool). False: it does not
// fit.
bool dt__guard_value(const dt_tensor_t *tensor, dt_dtype_t dtype, int64_t *out);

// One record against the arguments; binds what it binds.
bool dt__guard_check(const dt_guards_t *guards, const dt_guard_t *guard,
                     const dt_guard_args_t *args, int64_t *symbols);
// An expression of `n` steps; false: it has no value (overflow, division by 0).
bool dt__guard_eval(const dt_guard_step_t *steps, uint32_t n, const int64_t *symbols, int64_t *out);

// remedy.c. What a caller may declare or change so that this guard need not fail.
void dt__guard_remedy(const dt_guards_t *guards, const dt_guard_t *guard, dt_text_t *out);
// Whether step `k` of an expression of `steps` reads a symbol that no earlier step reads.
bool dt__guard_step_is_new(const dt_guard_step_t *steps, uint32_t k);

// "strict_fp is off": the modes in `mask`, in words (collect_context.c).
void dt__guard_put_modes(uint64_t modes, uint64_t mask, dt_text_t *out);

#endif // DT_GUARDS_RECORD_H
