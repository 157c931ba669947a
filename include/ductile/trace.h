// SPDX-License-Identifier: Apache-2.0
// Tracing: a program is a C function that runs once on symbolic tensors and records what it does.
//
// Every builder takes the trace first and returns a value. Errors are sticky: after the first
// failure builders return the none value (id 0) and do nothing, so a program needs no check after
// each line; dt_trace_status tells, and the call that started the trace returns the failure, which
// names the op, the sizes and the user's source line. C control flow runs as C.
//
// A trace, its values and its symbols belong to the thread that runs the program and end with it.
// All functions here are [external].
#ifndef DUCTILE_TRACE_H
#define DUCTILE_TRACE_H

#include "ductile/tensor.h"
#include "ductile/trace_index.h"
#include "ductile/trace_windows.h"

#ifdef __cplusplus
extern "C" {
#endif

// A program: reads in[0 … n_inputs-1], sets out[0 … n_outputs-1]. A failure it returns ends the
// trace with that failure. `closure` is what dt_function_create was given.
typedef dt_status_t (*dt_program_fn_t)(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                       void *closure);

// The first failure so far, borrowed from the trace; NULL if none. A program need not return it:
// the trace remembers.
DT_API dt_status_t dt_trace_status(const dt_trace_t *trace);
// Remembers the source line of the next builder; the macros below do it for C and C++ callers.
DT_API dt_trace_t *dt_trace_at(dt_trace_t *trace, const char *file, int line);
// Whether the program is to go on: false once the trace has failed, which it does here where the
// call's deadline has passed, its flag is set or a budget is used up. Builders look for themselves;
// a program that works long between them asks.
DT_API bool dt_trace_goes_on(dt_trace_t *trace);
// Fails the trace with a message of the program's own (sticky like every failure). A code that is
// none, or DT_OK, is told as DT_E_ARGUMENT.
DT_API void dt_trace_fail(dt_trace_t *trace, dt_code_t code, const char *message);

// ---- Sizes --------------------------------------------------------------------------------------
// Symbolic integers: 64-bit; overflow fails the trace.
DT_API uint32_t dt_value_rank(dt_trace_t *trace, dt_value_t x);
DT_API dt_dtype_t dt_value_dtype(dt_trace_t *trace, dt_value_t x);
// Size of dim `axis`; negative axes count from the last, here and everywhere below.
DT_API dt_sym_t dt_dim(dt_trace_t *trace, dt_value_t x, int32_t axis);
DT_API dt_sym_t dt_sym_const(dt_trace_t *trace, int64_t value);
DT_API dt_sym_t dt_sym_add(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_sub(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_mul(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_neg(dt_trace_t *trace, dt_sym_t a);
DT_API dt_sym_t dt_sym_abs(dt_trace_t *trace, dt_sym_t a);
DT_API dt_sym_t dt_sym_min(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_max(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// Quotients and remainders. A divisor that is 0 for the sizes at hand fails the trace; other sizes
// for which it is 0 are kept out by a guard, or by a check at the call where it depends on data.
DT_API dt_sym_t dt_sym_floordiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // to minus infinity
DT_API dt_sym_t dt_sym_mod(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);      // sign of b
DT_API dt_sym_t dt_sym_ceildiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);  // to infinity
DT_API dt_sym_t dt_sym_truncdiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // to 0, as in C
DT_API dt_sym_t dt_sym_truncmod(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // sign of a, as in C
// a / b where b divides a; that it does is needed in the same way as that b is not 0.
DT_API dt_sym_t dt_sym_exactdiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// a * 2^b, and a / 2^b rounded to minus infinity; b in [0, 62] and [0, 63] is needed likewise.
DT_API dt_sym_t dt_sym_shl(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_shr(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// Conditions: 0 or 1; as an argument, a size that is not 0 counts as 1.
DT_API dt_sym_t dt_sym_eq(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_ne(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_lt(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_le(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_and(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_or(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_not(dt_trace_t *trace, dt_sym_t a);
// cond ? a : b, without a guard: both stay possible.
DT_API dt_sym_t dt_sym_select(dt_trace_t *trace, dt_sym_t cond, dt_sym_t a, dt_sym_t b);
// Asks without a guard: true when `cond` is decided for all sizes this variant admits, and then how
// in *out_value (NULL allowed).
DT_API bool dt_sym_known(dt_trace_t *trace, dt_sym_t cond, bool *out_value);
// Whether `a` is the same number for all sizes, and then which: a literal, or what comes to one.
DT_API bool dt_sym_constant(dt_trace_t *trace, dt_sym_t a, int64_t *out_value);
// Asks without failing: what is known, or true of the sizes of the call being traced, under a
// guard; `otherwise`, without one, where neither answers (data, dt_function_prepare).
DT_API bool dt_sym_guard_or(dt_trace_t *trace, dt_sym_t cond, bool otherwise);
// A C branch on a condition: known, or by the sizes of the call being traced under a guard (other
// sizes then get a variant of their own). Without such sizes (dt_function_prepare) it fails with
// DT_E_STATE unless the answer is known, and so does a branch on data, naming the checks (dt_check)
// that would decide it. After a failure: false.
DT_API bool dt_sym_true(dt_trace_t *trace, dt_sym_t cond);
// The integer itself, under a guard: specialises the variant to it.
DT_API int64_t dt_sym_int(dt_trace_t *trace, dt_sym_t a);
// States that the program needs `cond`: false sizes get DT_E_SHAPE with `what`, checked at each
// call where it cannot be proved. `what` is copied.
DT_API void dt_check(dt_trace_t *trace, dt_sym_t cond, const char *what);

// ---- Integers -----------------------------------------------------------------------------------
// The symbol behind an integer or boolean argument (0 or 1), or behind dt_size_value.
DT_API dt_sym_t dt_int_value(dt_trace_t *trace, dt_value_t x);
// The symbols behind the elements of an input of kind DT_INPUT_INTEGERS: *out_n of them, 1 for rank
// 0; borrowed from the trace. NULL after a failure, and where x is no such input.
DT_API const dt_sym_t *dt_int_elements(dt_trace_t *trace, dt_value_t x, uint32_t *out_n);
// An integer outside of the arguments (what a closure holds): a symbol that each call binds by a
// relaxed atomic load of *address, which must stay readable for the function's life. A name stands
// for one address in all traces of a function; reading it again gives the same symbol. `name` is
// copied.
DT_API dt_sym_t dt_capture(dt_trace_t *trace, const char *name, const int64_t *address);

// ---- Control that data decides --------------------------------------------------------------------
// A body: reads in[], sets out[]; what dt_program_fn_t says of failures holds here. It is traced
// once, whatever way calls will go. It may also read values made outside of it, which then become
// operands; its own values end with it. It may branch and loop in turn, but not read numbers from
// data (dt_item, dt_nonzero, dt_masked_select, dt_repeat_interleave) nor dt_update: DT_E_STATE. A
// dt_check in it must hold at each call, whatever way that goes; checks on elements (dt_gather) are
// made where the body runs.
typedef dt_status_t (*dt_branch_fn_t)(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                      void *closure);
// out[0 … n_out-1] of `then_fn` where `pred` (one bool of rank 0) is true, else of `else_fn`; only
// that body runs. Both get in[0 … n_in-1]. Their outputs agree in dtype and rank (DT_E_DTYPE,
// DT_E_SHAPE), and in sizes where a guard can ensure it; else their sizes depend on `pred`, as if
// made by dt_item, and in a body that is DT_E_SHAPE. Of a literal `pred` only the body taken is
// traced, with a line in the log.
DT_API void dt_cond(dt_trace_t *trace, dt_value_t pred, dt_branch_fn_t then_fn,
                    dt_branch_fn_t else_fn, void *closure, uint32_t n_in, const dt_value_t *in,
                    uint32_t n_out, dt_value_t *out);
// The same of `n_cases` bodies, 1 to 64: only cases[index] runs, for one integer or bool of rank 0;
// an index below 0 is taken as 0, and one beyond as the last. All cases are traced.
DT_API void dt_switch(dt_trace_t *trace, dt_value_t index, uint32_t n_cases,
                      const dt_branch_fn_t *cases, void *closure, uint32_t n_in,
                      const dt_value_t *in, uint32_t n_out, dt_value_t *out);
// The state begins as `init`. While cond_fn's out[0] (one bool of rank 0) is true, body_fn gives
// the next state: out[0 … n_state-1], each of its init's dtype and sizes. Both read in[0 …
// n_state-1], the state, and then captured[0 … n_captured-1]. out[0 … n_state-1]: the state in the
// end. A loop whose condition stays true keeps its call (and its session) from ending, no other.
DT_API void dt_while(dt_trace_t *trace, dt_branch_fn_t cond_fn, dt_branch_fn_t body_fn,
                     void *closure, uint32_t n_state, const dt_value_t *init, uint32_t n_captured,
                     const dt_value_t *captured, dt_value_t *out);

// ---- Updates ------------------------------------------------------------------------------------
// The call writes `value` (of the input's dtype and sizes) into the memory of tensor input `input`,
// a value of in[], after everything has read it. From here on `input`, and every input that is the
// same memory in the call being traced, reads as `value`; values made from it before keep theirs.
// Once an input. Its memory must have no two indices for one element, and must not overlap another
// input's but as the same elements: DT_E_ARGUMENT.
DT_API void dt_update(dt_trace_t *trace, dt_value_t input, dt_value_t value);

// ---- Leaves -------------------------------------------------------------------------------------
// A constant of the function: `tensor` is retained for the function's life, its contents must not
// change but through dt_constant_update. `name` is copied and unique in the function. Contiguous.
DT_API dt_value_t dt_constant(dt_trace_t *trace, const char *name, dt_tensor_t *tensor);
// Says that the program read elements of constant `name` itself, as numbers (sizes, axes, choices),
// so that they are part of what it records: dt_constant_update refuses that name from now on. The
// name is copied; the trace need not use the constant otherwise.
DT_API void dt_constant_taken(dt_trace_t *trace, const char *name);
// A rank-0 literal; integers are converted exactly or fail.
DT_API dt_value_t dt_scalar(dt_trace_t *trace, dt_dtype_t dtype, double value);
// A symbolic integer as a rank-0 i64 tensor.
DT_API dt_value_t dt_size_value(dt_trace_t *trace, dt_sym_t a);
// Each element is its index along `axis`.
DT_API dt_value_t dt_iota(dt_trace_t *trace, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                          int32_t axis);

// ---- Element-wise -------------------------------------------------------------------------------
// Operands have one dtype (dt_cast converts; nothing is converted silently) and broadcast: aligned
// at the last dim, sizes equal or 1. docs/ops.md says what each op does with NaN, overflow and
// zero. On f16 and bf16 an op, of any kind, computes in f32, and its result is rounded once.
DT_API dt_value_t dt_neg(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_abs(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_sign(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_exp(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_expm1(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_log(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_log1p(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_log2(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_sqrt(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_rsqrt(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_reciprocal(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_sin(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_cos(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_tan(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_asin(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_acos(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_atan(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_sinh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_cosh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_tanh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_asinh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_acosh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_atanh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_erf(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_sigmoid(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_floor(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_ceil(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_trunc(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_round(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_isnan(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_isinf(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_logical_not(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_relu(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_silu(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_gelu(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_gelu_tanh(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_add(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_sub(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_mul(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_div(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_mod(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_fmod(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_pow(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_maximum(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_minimum(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_eq(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_ne(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_lt(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_le(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_gt(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_ge(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_logical_and(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_logical_or(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_logical_xor(dt_trace_t *trace, dt_value_t a, dt_value_t b);
// Bits of integers. Shift amounts are of the operand's dtype; one that is negative or no less than
// the width shifts all bits out. Right shifts of signed integers keep the sign.
DT_API dt_value_t dt_bit_not(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_bit_and(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_bit_or(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_bit_xor(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_shift_left(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_shift_right(dt_trace_t *trace, dt_value_t a, dt_value_t b);
// cond (bool) ? a : b
DT_API dt_value_t dt_where(dt_trace_t *trace, dt_value_t cond, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype);

// ---- Views (never a kernel of their own) ----------------------------------------------------------
// Same elements in row-major order; one size may be the literal -1.
DT_API dt_value_t dt_reshape(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes);
// Result dim k is input dim axes[k]; `axes` has as many entries as x has dims.
DT_API dt_value_t dt_permute(dt_trace_t *trace, dt_value_t x, const int32_t *axes);
DT_API dt_value_t dt_transpose(dt_trace_t *trace, dt_value_t x, int32_t axis_a, int32_t axis_b);
DT_API dt_value_t dt_unsqueeze(dt_trace_t *trace, dt_value_t x,
                               int32_t axis);                                // inserts a size of 1
DT_API dt_value_t dt_squeeze(dt_trace_t *trace, dt_value_t x, int32_t axis); // drops a size of 1
// Repeats dims of size 1, and adds leading dims.
DT_API dt_value_t dt_expand(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes);
// `size` elements along `axis` from `start` in steps of `step` (not 0, may be negative).
DT_API dt_value_t dt_slice(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t start,
                           dt_sym_t size, int64_t step);

// ---- Joining, padding, indexing -------------------------------------------------------------------
// The `n` values, of one dtype and of equal sizes but along `axis`, one behind the other.
DT_API dt_value_t dt_concat(dt_trace_t *trace, uint32_t n, const dt_value_t *values, int32_t axis);
// low[k] and high[k] elements of `value` around dim k; negative amounts take elements away, at most
// all there are.
DT_API dt_value_t dt_pad(dt_trace_t *trace, dt_value_t x, const dt_sym_t *low, const dt_sym_t *high,
                         double value);
// Dim `axis` of x is replaced by the dims of `indices` (i32 or i64, -size <= index < size; an index
// outside gives DT_E_RANGE at the call). Embedding lookup is dt_gather(table, ids, 0); with indices
// of rank 1 it selects rows, columns and so on.
DT_API dt_value_t dt_gather(dt_trace_t *trace, dt_value_t x, dt_value_t indices, int32_t axis);

// ---- Reductions -----------------------------------------------------------------------------------
// Over `n_axes` axes (0: all); keepdims keeps them as size 1.
DT_API dt_value_t dt_sum(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                         bool keepdims);
DT_API dt_value_t dt_prod(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                          bool keepdims);
DT_API dt_value_t dt_amax(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                          bool keepdims);
DT_API dt_value_t dt_amin(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                          bool keepdims);
DT_API dt_value_t dt_any(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                         bool keepdims);
DT_API dt_value_t dt_all(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                         bool keepdims);
DT_API dt_value_t dt_mean(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                          bool keepdims);
DT_API dt_value_t dt_var(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                         bool keepdims);
DT_API dt_value_t dt_argmax(dt_trace_t *trace, dt_value_t x, int32_t axis, bool keepdims);
DT_API dt_value_t dt_argmin(dt_trace_t *trace, dt_value_t x, int32_t axis, bool keepdims);

// ---- Sizes from data ------------------------------------------------------------------------------
// Numbers that only a call's data tell can be used wherever a size can. No C branch can depend on
// them (dt_sym_true, dt_sym_int: DT_E_STATE): state what must hold with dt_check, select with
// dt_where. What shapes need of such a number (a size in [0, 2^47), equal sizes, a slice inside) is
// checked at each call as soon as the number is read; a call that fails a check gets DT_E_SHAPE
// naming the op and its source line, and touches no memory outside of its tensors. On a device a
// call whose results' sizes are free of such numbers waits for none of them if each has a bound in
// other sizes (dt_check(k <= n) gives one): the status then comes later, as of other data checks.
// Where two sizes of which one is such a number meet in broadcasting, each call decides which of
// them is 1.
//
// The one element of x (integer or bool; u64 wraps) as a number. Of an integer argument, a size or
// a literal it is that; else it is a new symbol in the dtype's range, the same for each reading of
// one value. DT_E_DTYPE for floats: compare tensors, or use dt_cast. DT_E_SHAPE unless x has
// one element.
DT_API dt_sym_t dt_item(dt_trace_t *trace, dt_value_t x);
// Indices of the elements that are not 0 (NaN is not), in row-major order: i64 [u, rank of x] for a
// new symbol u, their number. Any dtype.
DT_API dt_value_t dt_nonzero(dt_trace_t *trace, dt_value_t x);
// The elements of x where `mask` (bool) is true, in row-major order: [u] of x's dtype for a new
// symbol u, their number. x and mask broadcast.
DT_API dt_value_t dt_masked_select(dt_trace_t *trace, dt_value_t x, dt_value_t mask);
// Row k of x along `axis`, repeats[k] times, one after another: size u along the axis for a new
// symbol u, the sum of the repeats. `repeats` is of integers, rank 1 with a size equal to x's along
// the axis or 1, or rank 0. A call with a negative one gets DT_E_RANGE.
DT_API dt_value_t dt_repeat_interleave(dt_trace_t *trace, dt_value_t x, dt_value_t repeats,
                                       int32_t axis);
// Sums of the elements up to each one along `axis`; same dtype (not bool; integers wrap) and sizes.
typedef enum dt_cumsum_mode_t {
  DT_CUMSUM_INCLUSIVE = 0,
  DT_CUMSUM_EXCLUSIVE = 1, // without the element itself: the first is 0
  DT_CUMSUM_REVERSE = 2,   // from the end
  DT_CUMSUM_EXCLUSIVE_REVERSE = 3,
} dt_cumsum_mode_t;
DT_API dt_value_t dt_cumsum(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode);
// How many elements of `sorted` (rank 1, ascending, without NaN; else unspecified, in [0, size])
// are less than each of `values`, or less or equal where `inclusive`: i64 of the values' sizes.
// Both of one dtype, not bool. A value that is NaN gets 0.
DT_API dt_value_t dt_searchsorted(dt_trace_t *trace, dt_value_t sorted, dt_value_t values,
                                  bool inclusive);
// `value` everywhere; integers are converted exactly or fail.
DT_API dt_value_t dt_full(dt_trace_t *trace, dt_dtype_t dtype, double value, uint32_t rank,
                          const dt_sym_t *sizes);
// start, start + step, … up to but without `limit`: [max(0, ceil((limit - start) / step))] of
// `dtype` (not bool), computed in i64 and then converted. A step of 0 is refused.
DT_API dt_value_t dt_range(dt_trace_t *trace, dt_dtype_t dtype, dt_sym_t start, dt_sym_t limit,
                           dt_sym_t step);
// x[begin:end:step] along `axis` as Python has it: negative bounds count from the end, bounds
// outside are clamped, so INT64_MAX and INT64_MIN are open ends. The step is not 0.
DT_API dt_value_t dt_slice_range(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t begin,
                                 dt_sym_t end, int64_t step);
// Cuts x along `axis` into `n` parts of the given sizes, which add up to x's: out[0 … n-1], views.
DT_API void dt_split(dt_trace_t *trace, dt_value_t x, int32_t axis, uint32_t n,
                     const dt_sym_t *sizes, dt_value_t *out);

// ---- Composites -----------------------------------------------------------------------------------
// exp(x - max) over its sum along `axis`, and the logarithm of that; floats.
DT_API dt_value_t dt_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
DT_API dt_value_t dt_log_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
// Over the last dims, as many as `scale` has.
DT_API dt_value_t dt_layer_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, dt_value_t bias,
                                double epsilon);
DT_API dt_value_t dt_rms_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, double epsilon);
// [..., M, K] x [..., K, N]; leading dims broadcast; a rank-1 operand is a vector as in NumPy.
DT_API dt_value_t dt_matmul(dt_trace_t *trace, dt_value_t a, dt_value_t b);

#ifdef __cplusplus
}
#endif

// Builders as macros that record the caller's line; DT_NO_SOURCE_LINES leaves them out.
#include "ductile/trace_lines.h"

#endif // DUCTILE_TRACE_H
