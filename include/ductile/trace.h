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

#include "ductile/base.h"
#include "ductile/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_trace dt_trace_t;

// A tensor of the trace. Copy freely.
typedef struct dt_value_t {
  uint32_t id;
} dt_value_t;

// A program: reads in[0 … n_inputs-1], sets out[0 … n_outputs-1]. A failure it returns ends the
// trace with that failure. `closure` is what dt_function_create was given.
typedef dt_status_t (*dt_program_fn_t)(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                       void *closure);

// The first failure so far, borrowed from the trace; NULL if none. A program need not return it:
// the trace remembers.
DT_API dt_status_t dt_trace_status(const dt_trace_t *trace);
// Remembers the source line of the next builder; the macros below do it for C and C++ callers.
DT_API dt_trace_t *dt_trace_at(dt_trace_t *trace, const char *file, int line);
// Fails the trace with a message of the program's own (sticky like every failure).
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
DT_API dt_sym_t dt_sym_floordiv(dt_trace_t *trace, dt_sym_t a, dt_sym_t b); // to minus infinity
DT_API dt_sym_t dt_sym_mod(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);      // sign of b
DT_API dt_sym_t dt_sym_min(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_max(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// Conditions: 0 or 1.
DT_API dt_sym_t dt_sym_eq(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_lt(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
DT_API dt_sym_t dt_sym_le(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// A C branch on a condition: known, or by the sizes of the call being traced under a guard (other
// sizes then get a variant of their own). Without such sizes (dt_function_prepare) it fails with
// DT_E_STATE unless the answer is known. After a failure: false.
DT_API bool dt_sym_true(dt_trace_t *trace, dt_sym_t cond);
// The integer itself, under a guard: specialises the variant to it.
DT_API int64_t dt_sym_int(dt_trace_t *trace, dt_sym_t a);
// States that the program needs `cond`: false sizes get DT_E_SHAPE with `what`, checked at each
// call where it cannot be proved. `what` is copied.
DT_API void dt_check(dt_trace_t *trace, dt_sym_t cond, const char *what);

// ---- Leaves -------------------------------------------------------------------------------------
// A constant of the function: `tensor` is retained for the function's life, its contents must not
// change but through dt_constant_update. `name` is copied and unique in the function. Contiguous.
DT_API dt_value_t dt_constant(dt_trace_t *trace, const char *name, dt_tensor_t *tensor);
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
// zero.
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
DT_API dt_value_t dt_concat(dt_trace_t *trace, uint32_t n, const dt_value_t *values, int32_t axis);
// low[k] and high[k] elements of `value` around dim k.
DT_API dt_value_t dt_pad(dt_trace_t *trace, dt_value_t x, const dt_sym_t *low, const dt_sym_t *high,
                         double value);
// Dim `axis` of x is replaced by the dims of `indices` (i32 or i64, -size <= index < size; an index
// outside gives DT_E_RANGE at the call). Embedding lookup is dt_gather(table, ids, 0).
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

// ---- Composites -----------------------------------------------------------------------------------
DT_API dt_value_t dt_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
DT_API dt_value_t dt_log_softmax(dt_trace_t *trace, dt_value_t x, int32_t axis);
// Over the last dims, as many as `scale` has.
DT_API dt_value_t dt_layer_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, dt_value_t bias,
                                double epsilon);
DT_API dt_value_t dt_rms_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, double epsilon);
// [..., M, K] x [..., K, N]; leading dims broadcast; a rank-1 operand is a vector as in NumPy.
DT_API dt_value_t dt_matmul(dt_trace_t *trace, dt_value_t a, dt_value_t b);

// ---- Source lines ---------------------------------------------------------------------------------
// Each builder's macro records the caller's file and line; (dt_add)(…) in parentheses does not.
#ifndef DT_NO_SOURCE_LINES
#define DT_AT(trace) dt_trace_at((trace), __FILE__, __LINE__)
#define dt_neg(trace, ...) (dt_neg)(DT_AT(trace), __VA_ARGS__)
#define dt_abs(trace, ...) (dt_abs)(DT_AT(trace), __VA_ARGS__)
#define dt_sign(trace, ...) (dt_sign)(DT_AT(trace), __VA_ARGS__)
#define dt_exp(trace, ...) (dt_exp)(DT_AT(trace), __VA_ARGS__)
#define dt_expm1(trace, ...) (dt_expm1)(DT_AT(trace), __VA_ARGS__)
#define dt_log(trace, ...) (dt_log)(DT_AT(trace), __VA_ARGS__)
#define dt_log1p(trace, ...) (dt_log1p)(DT_AT(trace), __VA_ARGS__)
#define dt_log2(trace, ...) (dt_log2)(DT_AT(trace), __VA_ARGS__)
#define dt_sqrt(trace, ...) (dt_sqrt)(DT_AT(trace), __VA_ARGS__)
#define dt_rsqrt(trace, ...) (dt_rsqrt)(DT_AT(trace), __VA_ARGS__)
#define dt_reciprocal(trace, ...) (dt_reciprocal)(DT_AT(trace), __VA_ARGS__)
#define dt_sin(trace, ...) (dt_sin)(DT_AT(trace), __VA_ARGS__)
#define dt_cos(trace, ...) (dt_cos)(DT_AT(trace), __VA_ARGS__)
#define dt_tan(trace, ...) (dt_tan)(DT_AT(trace), __VA_ARGS__)
#define dt_asin(trace, ...) (dt_asin)(DT_AT(trace), __VA_ARGS__)
#define dt_acos(trace, ...) (dt_acos)(DT_AT(trace), __VA_ARGS__)
#define dt_atan(trace, ...) (dt_atan)(DT_AT(trace), __VA_ARGS__)
#define dt_sinh(trace, ...) (dt_sinh)(DT_AT(trace), __VA_ARGS__)
#define dt_cosh(trace, ...) (dt_cosh)(DT_AT(trace), __VA_ARGS__)
#define dt_tanh(trace, ...) (dt_tanh)(DT_AT(trace), __VA_ARGS__)
#define dt_erf(trace, ...) (dt_erf)(DT_AT(trace), __VA_ARGS__)
#define dt_sigmoid(trace, ...) (dt_sigmoid)(DT_AT(trace), __VA_ARGS__)
#define dt_floor(trace, ...) (dt_floor)(DT_AT(trace), __VA_ARGS__)
#define dt_ceil(trace, ...) (dt_ceil)(DT_AT(trace), __VA_ARGS__)
#define dt_trunc(trace, ...) (dt_trunc)(DT_AT(trace), __VA_ARGS__)
#define dt_round(trace, ...) (dt_round)(DT_AT(trace), __VA_ARGS__)
#define dt_isnan(trace, ...) (dt_isnan)(DT_AT(trace), __VA_ARGS__)
#define dt_isinf(trace, ...) (dt_isinf)(DT_AT(trace), __VA_ARGS__)
#define dt_logical_not(trace, ...) (dt_logical_not)(DT_AT(trace), __VA_ARGS__)
#define dt_relu(trace, ...) (dt_relu)(DT_AT(trace), __VA_ARGS__)
#define dt_silu(trace, ...) (dt_silu)(DT_AT(trace), __VA_ARGS__)
#define dt_gelu(trace, ...) (dt_gelu)(DT_AT(trace), __VA_ARGS__)
#define dt_gelu_tanh(trace, ...) (dt_gelu_tanh)(DT_AT(trace), __VA_ARGS__)
#define dt_add(trace, ...) (dt_add)(DT_AT(trace), __VA_ARGS__)
#define dt_sub(trace, ...) (dt_sub)(DT_AT(trace), __VA_ARGS__)
#define dt_mul(trace, ...) (dt_mul)(DT_AT(trace), __VA_ARGS__)
#define dt_div(trace, ...) (dt_div)(DT_AT(trace), __VA_ARGS__)
#define dt_mod(trace, ...) (dt_mod)(DT_AT(trace), __VA_ARGS__)
#define dt_fmod(trace, ...) (dt_fmod)(DT_AT(trace), __VA_ARGS__)
#define dt_pow(trace, ...) (dt_pow)(DT_AT(trace), __VA_ARGS__)
#define dt_maximum(trace, ...) (dt_maximum)(DT_AT(trace), __VA_ARGS__)
#define dt_minimum(trace, ...) (dt_minimum)(DT_AT(trace), __VA_ARGS__)
#define dt_eq(trace, ...) (dt_eq)(DT_AT(trace), __VA_ARGS__)
#define dt_ne(trace, ...) (dt_ne)(DT_AT(trace), __VA_ARGS__)
#define dt_lt(trace, ...) (dt_lt)(DT_AT(trace), __VA_ARGS__)
#define dt_le(trace, ...) (dt_le)(DT_AT(trace), __VA_ARGS__)
#define dt_gt(trace, ...) (dt_gt)(DT_AT(trace), __VA_ARGS__)
#define dt_ge(trace, ...) (dt_ge)(DT_AT(trace), __VA_ARGS__)
#define dt_logical_and(trace, ...) (dt_logical_and)(DT_AT(trace), __VA_ARGS__)
#define dt_logical_or(trace, ...) (dt_logical_or)(DT_AT(trace), __VA_ARGS__)
#define dt_logical_xor(trace, ...) (dt_logical_xor)(DT_AT(trace), __VA_ARGS__)
#define dt_where(trace, ...) (dt_where)(DT_AT(trace), __VA_ARGS__)
#define dt_cast(trace, ...) (dt_cast)(DT_AT(trace), __VA_ARGS__)
#define dt_reshape(trace, ...) (dt_reshape)(DT_AT(trace), __VA_ARGS__)
#define dt_permute(trace, ...) (dt_permute)(DT_AT(trace), __VA_ARGS__)
#define dt_transpose(trace, ...) (dt_transpose)(DT_AT(trace), __VA_ARGS__)
#define dt_unsqueeze(trace, ...) (dt_unsqueeze)(DT_AT(trace), __VA_ARGS__)
#define dt_squeeze(trace, ...) (dt_squeeze)(DT_AT(trace), __VA_ARGS__)
#define dt_expand(trace, ...) (dt_expand)(DT_AT(trace), __VA_ARGS__)
#define dt_slice(trace, ...) (dt_slice)(DT_AT(trace), __VA_ARGS__)
#define dt_concat(trace, ...) (dt_concat)(DT_AT(trace), __VA_ARGS__)
#define dt_pad(trace, ...) (dt_pad)(DT_AT(trace), __VA_ARGS__)
#define dt_gather(trace, ...) (dt_gather)(DT_AT(trace), __VA_ARGS__)
#define dt_sum(trace, ...) (dt_sum)(DT_AT(trace), __VA_ARGS__)
#define dt_prod(trace, ...) (dt_prod)(DT_AT(trace), __VA_ARGS__)
#define dt_amax(trace, ...) (dt_amax)(DT_AT(trace), __VA_ARGS__)
#define dt_amin(trace, ...) (dt_amin)(DT_AT(trace), __VA_ARGS__)
#define dt_any(trace, ...) (dt_any)(DT_AT(trace), __VA_ARGS__)
#define dt_all(trace, ...) (dt_all)(DT_AT(trace), __VA_ARGS__)
#define dt_mean(trace, ...) (dt_mean)(DT_AT(trace), __VA_ARGS__)
#define dt_var(trace, ...) (dt_var)(DT_AT(trace), __VA_ARGS__)
#define dt_argmax(trace, ...) (dt_argmax)(DT_AT(trace), __VA_ARGS__)
#define dt_argmin(trace, ...) (dt_argmin)(DT_AT(trace), __VA_ARGS__)
#define dt_softmax(trace, ...) (dt_softmax)(DT_AT(trace), __VA_ARGS__)
#define dt_log_softmax(trace, ...) (dt_log_softmax)(DT_AT(trace), __VA_ARGS__)
#define dt_layer_norm(trace, ...) (dt_layer_norm)(DT_AT(trace), __VA_ARGS__)
#define dt_rms_norm(trace, ...) (dt_rms_norm)(DT_AT(trace), __VA_ARGS__)
#define dt_matmul(trace, ...) (dt_matmul)(DT_AT(trace), __VA_ARGS__)
#define dt_constant(trace, ...) (dt_constant)(DT_AT(trace), __VA_ARGS__)
#define dt_scalar(trace, ...) (dt_scalar)(DT_AT(trace), __VA_ARGS__)
#define dt_size_value(trace, ...) (dt_size_value)(DT_AT(trace), __VA_ARGS__)
#define dt_iota(trace, ...) (dt_iota)(DT_AT(trace), __VA_ARGS__)
#define dt_dim(trace, ...) (dt_dim)(DT_AT(trace), __VA_ARGS__)
#define dt_sym_true(trace, ...) (dt_sym_true)(DT_AT(trace), __VA_ARGS__)
#define dt_sym_int(trace, ...) (dt_sym_int)(DT_AT(trace), __VA_ARGS__)
#define dt_check(trace, ...) (dt_check)(DT_AT(trace), __VA_ARGS__)
#endif // DT_NO_SOURCE_LINES

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_TRACE_H
