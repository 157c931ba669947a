// SPDX-License-Identifier: Apache-2.0
// Tracing: a program is a C function that runs once on symbolic tensors and records what it does.
//
// Every builder takes the trace first and returns a value. Errors are sticky: after the first
// failure builders do nothing and return the none value (id 0). So a program need not check each
// line. dt_trace_status gives the failure, and the call that started the trace returns it. Its
// message names the op, the sizes and the user's source line. C control flow runs as C.
//
// A trace, its values and its symbols belong to the thread that runs the program, and end with the
// program. All functions here are [external].
#ifndef DUCTILE_TRACE_H
#define DUCTILE_TRACE_H

#include "ductile/random.h"
#include "ductile/tensor.h"
#include "ductile/trace_index.h"
#include "ductile/trace_mutate.h"
#include "ductile/trace_scan.h"
#include "ductile/trace_windows.h"

#ifdef __cplusplus
extern "C" {
#endif

// A program: reads in[0 … n_inputs-1] and sets out[0 … n_outputs-1]. If it returns a failure, the
// trace ends with that failure. `closure` is what dt_function_create was given.
typedef dt_status_t (*dt_program_fn_t)(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                       void *closure);

// The first failure so far, borrowed from the trace; NULL if none. A program need not return it:
// the trace keeps it.
DT_API dt_status_t dt_trace_status(const dt_trace_t *trace);
// Remembers the source line of the next builder; the macros below do it for C and C++ callers.
DT_API dt_trace_t *dt_trace_at(dt_trace_t *trace, const char *file, int line);
// Whether the program should go on: false once the trace has failed. Fails the trace if the call's
// deadline has passed, its flag is set or a budget is used up. Builders check this themselves; only
// a program that works long between builders needs to ask.
DT_API bool dt_trace_goes_on(dt_trace_t *trace);
// Fails the trace with the program's own message (sticky like every failure). DT_OK and unknown
// codes are reported as DT_E_ARGUMENT.
DT_API void dt_trace_fail(dt_trace_t *trace, dt_code_t code, const char *message);

// ---- Sizes --------------------------------------------------------------------------------------
// Symbolic integers have 64 bits. Overflow fails the trace.
DT_API uint32_t dt_value_rank(dt_trace_t *trace, dt_value_t x);
DT_API dt_dtype_t dt_value_dtype(dt_trace_t *trace, dt_value_t x);
// Size of dim `axis`. Negative axes count from the last dim, here and in all builders.
DT_API dt_sym_t dt_dim(dt_trace_t *trace, dt_value_t x, int32_t axis);
DT_API dt_sym_t dt_sym_const(dt_trace_t *trace, int64_t value);
DT_API dt_sym_t dt_sym_add(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_sub(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_mul(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_neg(dt_trace_t *trace, dt_sym_t a);
DT_API dt_sym_t dt_sym_abs(dt_trace_t *trace, dt_sym_t a);
DT_API dt_sym_t dt_sym_min(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_max(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// Quotients and remainders. If the divisor is 0 for the sizes of this call, the trace fails. A
// guard keeps out other sizes for which it is 0. If the divisor depends on data, each call checks
// it.
DT_API dt_sym_t dt_sym_floordiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // to minus infinity
DT_API dt_sym_t dt_sym_mod(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);      // sign of b
DT_API dt_sym_t dt_sym_ceildiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);  // to infinity
DT_API dt_sym_t dt_sym_truncdiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // to 0, as in C
DT_API dt_sym_t dt_sym_truncmod(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // sign of a, as in C
// a / b where b divides a. A remainder is treated like a divisor of 0.
DT_API dt_sym_t dt_sym_exactdiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// a * 2^b, and a / 2^b rounded to minus infinity. b must be in [0, 62] for shl and in [0, 63] for
// shr; other b are treated like a divisor of 0.
DT_API dt_sym_t dt_sym_shl(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_shr(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// Conditions are 0 or 1. As an argument, any size other than 0 counts as 1.
DT_API dt_sym_t dt_sym_eq(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_ne(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_lt(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_le(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_and(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_or(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_not(dt_trace_t *trace, dt_sym_t a);
// cond ? a : b, without a guard: both cases stay possible.
DT_API dt_sym_t dt_sym_select(dt_trace_t *trace, dt_sym_t cond, dt_sym_t a, dt_sym_t b);
// Asks without a guard. True if `cond` has one answer for all sizes that this variant admits;
// *out_value is then the answer (NULL allowed).
DT_API bool dt_sym_known(dt_trace_t *trace, dt_sym_t cond, bool *out_value);
// Whether `a` is the same number for all sizes: a literal, or an expression that simplifies to one.
// *out_value is then the number.
DT_API bool dt_sym_constant(dt_trace_t *trace, dt_sym_t a, int64_t *out_value);
// Asks without failing. The answer is the first of these:
// - what is known for all sizes;
// - what holds for the sizes of the call being traced, under a guard;
// - `otherwise`, without a guard, if there are no such sizes (data, dt_function_prepare).
DT_API bool dt_sym_guard_or(dt_trace_t *trace, dt_sym_t cond, bool otherwise);
// A C branch on a condition. The answer is what is known for all sizes; else what holds for the
// sizes of the call being traced, under a guard. Other sizes then get a variant of their own. If
// the answer is not known, it fails with DT_E_STATE in two cases: there are no sizes to ask
// (dt_function_prepare), or the condition depends on data. The message then names the checks
// (dt_check) that would decide it. After a failure: false.
DT_API bool dt_sym_true(dt_trace_t *trace, dt_sym_t cond);
// The integer itself, under a guard: specialises the variant to this value.
DT_API int64_t dt_sym_int(dt_trace_t *trace, dt_sym_t a);
// States that the program needs `cond`. Each call checks it where it cannot be proved. If it is
// false, the call gets DT_E_SHAPE with `what`. `what` is copied.
DT_API void dt_check(dt_trace_t *trace, dt_sym_t cond, const char *what);

// ---- Integers -----------------------------------------------------------------------------------
// The symbol behind an integer or boolean argument (0 or 1), or behind the result of dt_size_value.
DT_API dt_sym_t dt_int_value(dt_trace_t *trace, dt_value_t x);
// The symbols behind the elements of an input of kind DT_INPUT_INTEGERS. *out_n is their number, 1
// for rank 0. Borrowed from the trace. NULL after a failure, and if x is no such input.
DT_API const dt_sym_t *dt_int_elements(dt_trace_t *trace, dt_value_t x, uint32_t *out_n);
// A symbol for an integer outside of the arguments, such as one in the closure. Each call reads it
// by a relaxed atomic load of *address, which must stay readable for the function's life. One name
// stands for one address in all traces of a function; asking again gives the same symbol. `name` is
// copied.
DT_API dt_sym_t dt_capture(dt_trace_t *trace, const char *name, const int64_t *address);

// ---- Control that data decides --------------------------------------------------------------------
// out[0 … n_out-1] of `then_fn` if `pred` (one bool of rank 0) is true, else of `else_fn`. Only
// that body runs. Both get in[0 … n_in-1]. Their outputs must agree in dtype and rank (DT_E_DTYPE,
// DT_E_SHAPE). If a guard can make their sizes equal, it does. Else the sizes depend on `pred`, as
// if dt_item had made them; inside a body that is DT_E_SHAPE. If `pred` is a literal, only the body
// taken is traced, and the log says so.
DT_API void dt_cond(dt_trace_t *trace, dt_value_t pred, dt_branch_fn_t then_fn,
                    dt_branch_fn_t else_fn, void *closure, uint32_t n_in, const dt_value_t *in,
                    uint32_t n_out, dt_value_t *out);
// As dt_cond with `n_cases` bodies, 1 to 64. `index` is one integer or bool of rank 0. Only
// cases[index] runs. An index below 0 is taken as 0, one beyond the last as the last. All cases are
// traced.
DT_API void dt_switch(dt_trace_t *trace, dt_value_t index, uint32_t n_cases,
                      const dt_branch_fn_t *cases, void *closure, uint32_t n_in,
                      const dt_value_t *in, uint32_t n_out, dt_value_t *out);
// A loop over a state, which begins as `init`. While cond_fn's out[0] (one bool of rank 0) is true,
// body_fn gives the next state in out[0 … n_state-1], each of its init's dtype and sizes. Both
// functions read the state in in[0 … n_state-1], followed by captured[0 … n_captured-1]. out[0 …
// n_state-1] receives the last state. A loop whose condition stays true never ends its call; other
// sessions are not affected.
DT_API void dt_while(dt_trace_t *trace, dt_branch_fn_t cond_fn, dt_branch_fn_t body_fn,
                     void *closure, uint32_t n_state, const dt_value_t *init, uint32_t n_captured,
                     const dt_value_t *captured, dt_value_t *out);
// out[0 … n_out-1] of `fn`, which gets in[0 … n_in-1], at least one: a part of a program that is
// called many times, such as a layer with other weights. `fn` is traced at the first call, and
// again only for another `closure`, n_out, or operands of other dtypes, ranks or sizes that are not
// known to be equal, or where a captured value has ended or a captured argument was updated since.
// All other calls share what was traced: within one graph (a program, or a body) it is compiled
// once, and its code is there once. So what `fn` does may depend on `closure` only where that is
// the same for all of them, and operands have no known values in it. Captured weights are the same
// in every call: give weights that differ as operands. Nothing is fused over the border of a call.
// `flags`: 0 (others: DT_E_UNSUPPORTED). A subgraph that calls itself, deeper than 32: DT_E_LIMIT.
DT_API void dt_subgraph(dt_trace_t *trace, dt_branch_fn_t fn, void *closure, uint32_t n_in,
                        const dt_value_t *in, uint32_t n_out, uint32_t flags, dt_value_t *out);

// ---- Updates ------------------------------------------------------------------------------------
// Each call writes `value` into the memory of tensor input `input`, a value of in[], once every
// read of that memory is done. `value` has the input's dtype and sizes. After dt_update, `input`
// reads as `value`, and so does every input that is the same memory in the call being traced.
// Values made from `input` before keep their contents. Updated again, it reads as the newest value,
// which alone is written. A value that is `input` with some elements replaced (dt_update_slice,
// dt_scatter_nd, dt_update_view, …) writes these elements alone. In the memory of `input` no two
// indices may be one element, and no other input may overlap it, except as the same elements:
// DT_E_ARGUMENT.
DT_API void dt_update(dt_trace_t *trace, dt_value_t input, dt_value_t value);

// ---- Leaves -------------------------------------------------------------------------------------
// A constant of the function. `tensor` is contiguous and is retained for the function's life; its
// contents may change only by dt_constant_update. `name` is copied and is unique in the function.
DT_API dt_value_t dt_constant(dt_trace_t *trace, const char *name, dt_tensor_t *tensor);
// Says that the program itself read elements of constant `name` as numbers (sizes, axes, choices),
// so that they are part of what it records. From now on dt_constant_update refuses that name. The
// name is copied. The trace need not use the constant otherwise.
DT_API void dt_constant_taken(dt_trace_t *trace, const char *name);
// A rank-0 literal; integers are converted exactly or fail.
DT_API dt_value_t dt_scalar(dt_trace_t *trace, dt_dtype_t dtype, double value);
// A symbolic integer as a rank-0 i64 tensor.
DT_API dt_value_t dt_size_value(dt_trace_t *trace, dt_sym_t a);
// Each element is its index along `axis`.
DT_API dt_value_t dt_iota(dt_trace_t *trace, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                          int32_t axis);

// ---- Element-wise -------------------------------------------------------------------------------
// Operands have one dtype (dt_cast converts; nothing is converted silently). They broadcast:
// aligned at the last dim, sizes equal or 1. docs/ops.md says what each op does with NaN, overflow
// and zero. On f16 and bf16 every op computes in f32 and rounds its result once.
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
// Bits of integers. Shift amounts have the operand's dtype. An amount that is negative, or not less
// than the width, shifts all bits out. Right shifts of signed integers keep the sign.
DT_API dt_value_t dt_bit_not(dt_trace_t *trace, dt_value_t x);
DT_API dt_value_t dt_bit_and(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_bit_or(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_bit_xor(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_shift_left(dt_trace_t *trace, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_shift_right(dt_trace_t *trace, dt_value_t a, dt_value_t b);
// cond (bool) ? a : b
DT_API dt_value_t dt_where(dt_trace_t *trace, dt_value_t cond, dt_value_t a, dt_value_t b);
DT_API dt_value_t dt_cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype);
// dt_cast to a low-bit float (docs/lowbit.md) with another rounding; `how`: DT_CAST_* joined, read
// only where the dtype has such a choice.
DT_API dt_value_t dt_cast_as(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype, uint32_t how);
// The bits of each element as another dtype of the same width, neither of them bool. Elements of 4
// and 2 bits are taken as u8, with zeros above them, and made from u8, whose upper bits are cut
// off. A NaN may come out as another NaN's bits.
DT_API dt_value_t dt_bitcast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype);

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
// The `n` values one after another along `axis`. They have one dtype, and equal sizes along all
// other axes.
DT_API dt_value_t dt_concat(dt_trace_t *trace, uint32_t n, const dt_value_t *values, int32_t axis);
// Adds low[k] and high[k] elements of `value` before and after dim k. Negative amounts take
// elements away, at most all there are.
DT_API dt_value_t dt_pad(dt_trace_t *trace, dt_value_t x, const dt_sym_t *low, const dt_sym_t *high,
                         double value);
// Dim `axis` of x is replaced by the dims of `indices` (i32 or i64). An index must be in [-size,
// size); one outside gives DT_E_RANGE at the call. dt_gather(table, ids, 0) is an embedding lookup.
// Indices of rank 1 select rows, columns and so on.
DT_API dt_value_t dt_gather(dt_trace_t *trace, dt_value_t x, dt_value_t indices, int32_t axis);

// ---- Reductions -----------------------------------------------------------------------------------
// Over `n_axes` axes (0: all). `keepdims` keeps them as size 1.
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
// Numbers that are known only from a call's data can be used wherever a size can. No C branch can
// depend on them (dt_sym_true, dt_sym_int: DT_E_STATE). Use dt_check to state what must hold, and
// dt_where to select.
//
// Shapes need such a number to fulfil conditions: to be a size in [0, 2^47), to equal another size,
// to keep a slice inside. Each call checks them as soon as it has read the number. If a check
// fails, the call gets DT_E_SHAPE naming the op and its source line, and touches no memory outside
// of its tensors.
//
// A call on a device need not wait for these numbers if no size of its results depends on them and
// each has a bound in other sizes (dt_check(k <= n) gives one). The status of a failed check then
// comes later, as for other data checks. If broadcasting meets two sizes of which one is such a
// number, each call decides which of them is 1.
//
// The one element of x (integer or bool; u64 wraps) as a number. For an integer argument, a size or
// a literal it is that number. Else it is a new symbol in the dtype's range; reading one value
// again gives the same symbol. DT_E_DTYPE for floats: compare tensors, or use dt_cast. DT_E_SHAPE
// unless x has one element.
DT_API dt_sym_t dt_item(dt_trace_t *trace, dt_value_t x);
// Indices of the elements that are not 0 (NaN is not 0), in row-major order: i64 [u, rank of x],
// where u, their number, is a new symbol. Any dtype.
DT_API dt_value_t dt_nonzero(dt_trace_t *trace, dt_value_t x);
// The elements of x where `mask` (bool) is true, in row-major order: x's dtype, [u], where u, their
// number, is a new symbol. x and mask broadcast.
DT_API dt_value_t dt_masked_select(dt_trace_t *trace, dt_value_t x, dt_value_t mask);
// Row k of x along `axis`, repeats[k] times, one after another. The size along the axis is a new
// symbol, the sum of the repeats. `repeats` has an integer dtype. Its rank is 0, or 1 with x's size
// along the axis or size 1. A call with a negative repeat gets DT_E_RANGE.
DT_API dt_value_t dt_repeat_interleave(dt_trace_t *trace, dt_value_t x, dt_value_t repeats,
                                       int32_t axis);
// Sums of the elements up to each one along `axis`: same dtype (not bool; integers wrap) and sizes.
DT_API dt_value_t dt_cumsum(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode);
// For each of `values`: how many elements of `sorted` are less than it, or with `inclusive` less or
// equal. i64 of the values' sizes. Both operands have one dtype, not bool. `sorted` has rank 1, is
// ascending and has no NaN; else the results are unspecified numbers in [0, size]. A value that is
// NaN gets 0.
DT_API dt_value_t dt_searchsorted(dt_trace_t *trace, dt_value_t sorted, dt_value_t values,
                                  bool inclusive);
// `value` everywhere; integers are converted exactly or fail.
DT_API dt_value_t dt_full(dt_trace_t *trace, dt_dtype_t dtype, double value, uint32_t rank,
                          const dt_sym_t *sizes);
// start, start + step, … up to but without `limit`: [max(0, ceil((limit - start) / step))] elements
// of `dtype` (not bool), computed in i64 and then converted. A step of 0 is refused.
DT_API dt_value_t dt_range(dt_trace_t *trace, dt_dtype_t dtype, dt_sym_t start, dt_sym_t limit,
                           dt_sym_t step);
// x[begin:end:step] along `axis` as in Python. Negative bounds count from the end. Bounds outside
// are clamped, so INT64_MAX and INT64_MIN are open ends. The step is not 0.
DT_API dt_value_t dt_slice_range(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t begin,
                                 dt_sym_t end, int64_t step);
// Cuts x along `axis` into `n` parts of the given sizes, which add up to x's size. out[0 … n-1] are
// views.
DT_API void dt_split(dt_trace_t *trace, dt_value_t x, int32_t axis, uint32_t n,
                     const dt_sym_t *sizes, dt_value_t *out);

// ---- Composites -----------------------------------------------------------------------------------
// softmax: exp(x - max) divided by its sum along `axis`. log_softmax: the logarithm of that.
// Floats.
DT_API dt_value_t dt_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
DT_API dt_value_t dt_log_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
// Normalises over the last dims, as many as `scale` has.
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
