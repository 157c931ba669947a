// SPDX-License-Identifier: Apache-2.0
// Each op that fold rules know, of every dtype, compiled twice: with hostile literals, which fold,
// and with the same numbers as an argument, which nothing can fold. Results have equal bits, and
// those of the definition. NaN is as good as NaN; powers, which code computes its own way, lie
// within a few units of the last place. usage: test_folds [--few]. --few: one dtype of each kind,
// and only what code computes.
#include "ductile/ductile.h"
#include "lower/graph/graph.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "test/device/on_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

static int failures;

static void must(const char *what, dt_status_t status) {
  if (!status)
    return;
  printf("FAIL %s: %s: %s\n", what, dt_code_name(dt_status_code(status)),
         dt_status_message(status));
  dt_status_free(status);
  failures++;
}

// ---- Numbers --------------------------------------------------------------------------------------
static uint32_t hostile_values(dt_dtype_t dtype, dt_scalar_t *out) {
  static const double reals[] = {0.0, -0.0, 1.0, -1.0,     2.0,       0.25,     -0.5,
                                 1.5, 3.0,  NAN, INFINITY, -INFINITY, -65504.0, 0x1p-14};
  static const int64_t wholes[] = {0, 1, -1, 2, 3, 7, 64, -128, INT64_MIN, INT64_MAX};
  unsigned unused = 64u - 8u * (unsigned)dt_dtype_size(dtype);
  uint32_t n = 0;
  if (dtype == DT_BOOL) {
    out[n++] = (dt_scalar_t){.i = 0};
    out[n++] = (dt_scalar_t){.i = 1};
    return n;
  }
  for (size_t k = 0; dt__dtype_is_float(dtype) && k < sizeof(reals) / sizeof(reals[0]); k++)
    out[n++] = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = reals[k]});
  if (n)
    return n;
  for (size_t k = 0; k < sizeof(wholes) / sizeof(wholes[0]); k++)
    out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = wholes[k]});
  out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = INT64_MAX >> unused});
  out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = INT64_MIN >> unused});
  return n;
}

// A literal of any bits; doubles do not tell all of 64, but both halves.
static dt_value_t number(dt_trace_t *t, dt_dtype_t dtype, dt_scalar_t value) {
  if (dt__dtype_is_float(dtype))
    return dt_scalar(t, dtype, value.f);
  if (dt_dtype_size(dtype) < 8)
    return dt_scalar(t, dtype, (double)value.i);
  double high = dtype == DT_U64 ? (double)((uint64_t)value.i >> 32) : (double)(value.i >> 32);
  dt_value_t upper = dt_shift_left(t, dt_scalar(t, dtype, high), dt_scalar(t, dtype, 32));
  return dt_bit_or(t, upper, dt_scalar(t, dtype, (double)(value.i & UINT32_MAX)));
}

// ---- Programs -------------------------------------------------------------------------------------
typedef dt_value_t (*binary_fn_t)(dt_trace_t *, dt_value_t, dt_value_t);
static const struct {
  const char *name;
  binary_fn_t fn;
  dt_scalar_op_t op;
  char domain; // N numbers, I integers, B bool, A any
} ops[] = {
#define BINARY(name, domain) {#name, (dt_##name), DT_SCALAR_##name, domain}
    BINARY(add, 'N'),        BINARY(sub, 'N'),         BINARY(mul, 'N'),
    BINARY(div, 'N'),        BINARY(mod, 'I'),         BINARY(pow, 'N'),
    BINARY(maximum, 'N'),    BINARY(minimum, 'N'),     BINARY(eq, 'A'),
    BINARY(lt, 'N'),         BINARY(logical_and, 'B'), BINARY(logical_or, 'B'),
    BINARY(shift_left, 'I'), BINARY(shift_right, 'I'),
#undef BINARY
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

static bool takes(char domain, dt_dtype_t dtype) {
  return domain == 'A' || (domain == 'B') == (dtype == DT_BOOL);
}
static bool is_tried(size_t op, dt_dtype_t dtype) {
  return takes(ops[op].domain, dtype) && !(ops[op].domain == 'I' && dt__dtype_is_float(dtype));
}

typedef struct run_t {
  size_t op;
  dt_dtype_t dtype;
  bool folded;
  uint32_t n;
  dt_scalar_t values[MOST];
} run_t;

// Three results a number: x op number, number op x, and number op its neighbour.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const run_t *run = closure;
  dt_value_t numbers[MOST];
  for (uint32_t k = 0; k < run->n; k++)
    numbers[k] = run->folded ? number(t, run->dtype, run->values[k])
                             : dt_slice(t, in[1], 0, dt_sym_const(t, k), dt_sym_const(t, 1), 1);
  for (uint32_t k = 0; k < run->n; k++) {
    out[3 * k] = ops[run->op].fn(t, in[0], numbers[k]);
    out[3 * k + 1] = ops[run->op].fn(t, numbers[k], in[0]);
    dt_sym_t n = dt_dim(t, in[0], 0);
    dt_value_t both = ops[run->op].fn(t, numbers[k], numbers[(k + 1) % run->n]);
    out[3 * k + 2] = dt_expand(t, both, 1, &n);
  }
  return NULL;
}

static void call(dt_runtime_t *runtime, const run_t *run, dt_tensor_t *const *args,
                 dt_tensor_t **out) {
  dt_dim_decl_t dims[2] = {{.name = "n"}, {.name = "k"}};
  dt_input_decl_t decls[2] = {{.dtype = run->dtype, .rank = 1, .dims = &dims[0]},
                              {.dtype = run->dtype, .rank = 1, .dims = &dims[1]}};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = ops[run->op].name,
                                   .n_inputs = 2,
                                   .n_outputs = 3 * run->n,
                                   .inputs = decls};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  must("function", dt_function_create(runtime, program, (void *)run, &options, &function));
  must("session", on_device_session(runtime, &session));
  if (function && session)
    must(ops[run->op].name, on_device_call(session, function, decls, args, 2, out, 3 * run->n));
  dt_session_destroy(session);
  dt_function_release(function);
}

// ---- Comparing ------------------------------------------------------------------------------------
static bool close(dt_dtype_t dtype, dt_scalar_op_t op, dt_scalar_t a, dt_scalar_t b) {
  if (!dt__dtype_is_float(dtype))
    return a.i == b.i;
  if (isnan(a.f) || isnan(b.f))
    return isnan(a.f) && isnan(b.f);
  if (a.f == b.f)
    return !signbit(a.f) == !signbit(b.f);
  double unit = dtype == DT_F64 ? 0x1p-52 : dtype == DT_F32 ? 0x1p-23 : 0x1p-8;
  return op == DT_SCALAR_pow && fabs(a.f - b.f) <= 4 * unit * fabs(b.f);
}

// The operands of element `i` of result `k`.
static void operands(const run_t *run, uint32_t k, uint32_t i, dt_scalar_t *out) {
  out[0] = run->values[k % 3 == 0 ? i : k / 3];
  out[1] = run->values[k % 3 == 0 ? k / 3 : k % 3 == 1 ? i : (k / 3 + 1) % run->n];
}

static void compare(const run_t *run, dt_tensor_t *const *folded, dt_tensor_t *const *computed) {
  dt_scalar_op_t op = ops[run->op].op;
  for (uint32_t k = 0; k < 3 * run->n; k++) {
    if (!folded[k] || !computed[k])
      continue;
    dt_dtype_t dtype = dt_tensor_dtype(folded[k]);
    size_t size = dt_dtype_size(dtype);
    for (uint32_t i = 0; i < run->n; i++) {
      dt_scalar_t a = dt__scalar_load(dtype, (char *)dt_tensor_data(folded[k]) + i * size);
      dt_scalar_t b = dt__scalar_load(dtype, (char *)dt_tensor_data(computed[k]) + i * size);
      dt_scalar_t args[2];
      operands(run, k, i, args);
      dt_scalar_t want = dt__scalar_eval(op, run->dtype, args);
      if (dt__dtype_is_float(dtype))
        want = dt__scalar_cast(DT_F64, dtype, want);
      if (close(dtype, op, a, b) && close(dtype, op, a, want))
        continue;
      printf("FAIL %s of %s: %.17g (%lld) and %.17g (%lld): folded %.17g (%lld), computed %.17g "
             "(%lld), expected %.17g (%lld)\n",
             ops[run->op].name, dt_dtype_name(run->dtype), args[0].f, (long long)args[0].i,
             args[1].f, (long long)args[1].i, a.f, (long long)a.i, b.f, (long long)b.i, want.f,
             (long long)want.i);
      failures++;
    }
  }
}

static uint64_t compiles;
static void check(dt_runtime_t *runtime, size_t op, dt_dtype_t dtype, bool few) {
  run_t run = {.op = op, .dtype = dtype};
  run.n = hostile_values(dtype, run.values);
  int64_t sizes[1] = {run.n};
  dt_tensor_t *x = NULL, *out[2][3 * MOST] = {{NULL}};
  must("tensor", dt_tensor_create_empty(dtype, 1, sizes, &x));
  for (uint32_t k = 0; x && k < run.n; k++)
    dt__scalar_store(dtype, (char *)dt_tensor_data(x) + k * dt_dtype_size(dtype), run.values[k]);
  dt_tensor_t *args[2] = {x, x};
  for (int folded = 0; x && folded < (few ? 1 : 2); folded++) {
    run.folded = folded != 0;
    call(runtime, &run, args, out[folded]);
    compiles++;
  }
  compare(&run, few ? out[0] : out[1], out[0]);
  for (uint32_t k = 0; k < 3 * MOST; k++) {
    dt_tensor_release(out[0][k]);
    dt_tensor_release(out[1][k]);
  }
  dt_tensor_release(x);
}

// ---- A divisor of many ----------------------------------------------------------------------------
// Code inverts a divisor that stands outside of a loop once; quotients must not show it.
enum { ROWS = 5, COLUMNS = 300 }; // long enough to pay for it

static dt_status_t divide_rows(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_div(t, in[0], dt_amax(t, in[0], 1, (int32_t[]){1}, true));
  return NULL;
}

static double element(uint32_t row, uint32_t column) {
  static const double values[] = {-0.0, 0.0, -1.0, -3.0, -0x1p-14};
  static const double most[ROWS] = {1.0, 3.0, 0x1p-14, 0x1p15, INFINITY};
  return column == COLUMNS / 2 ? most[row] : values[column % 5];
}

static void compare_rows(dt_dtype_t dtype, const char *got_at) {
  for (uint32_t k = 0; k < ROWS * COLUMNS; k++) {
    double x = element(k / COLUMNS, k % COLUMNS), by = element(k / COLUMNS, COLUMNS / 2);
    dt_scalar_t got = dt__scalar_load(dtype, got_at + k * dt_dtype_size(dtype));
    dt_scalar_t want = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = x / by});
    if (close(dtype, DT_SCALAR_div, got, want))
      continue;
    printf("FAIL %s: %.17g / %.17g of a row: got %.17g, expected %.17g\n", dt_dtype_name(dtype), x,
           by, got.f, want.f);
    failures++;
  }
}

static void check_rows(dt_runtime_t *runtime, dt_dtype_t dtype) {
  int64_t sizes[2] = {ROWS, COLUMNS};
  dt_dim_decl_t dims[2] = {{.name = "m"}, {.name = "n"}};
  dt_input_decl_t decl = {.dtype = dtype, .rank = 2, .dims = dims};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "rows",
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .inputs = &decl};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL, *out = NULL;
  must("tensor", dt_tensor_create_empty(dtype, 2, sizes, &x));
  must("function", dt_function_create(runtime, divide_rows, NULL, &options, &function));
  must("session", on_device_session(runtime, &session));
  for (uint32_t k = 0; x && k < ROWS * COLUMNS; k++)
    dt__scalar_store(dtype, (char *)dt_tensor_data(x) + k * dt_dtype_size(dtype),
                     (dt_scalar_t){.f = element(k / COLUMNS, k % COLUMNS)});
  if (x && function && session)
    must("rows", on_device_call(session, function, &decl, &x, 1, &out, 1));
  if (out)
    compare_rows(dtype, dt_tensor_data(out));
  dt_tensor_release(out);
  dt_tensor_release(x);
  dt_session_destroy(session);
  dt_function_release(function);
}

static bool is_sibling(dt_dtype_t dtype) {
  return dtype != DT_F32 && dtype != DT_F16 && dtype != DT_I32 && dtype != DT_U64 &&
         dtype != DT_BOOL;
}

int main(int argc, char **argv) {
  bool few = argc > 1 && strcmp(argv[1], "--few") == 0;
  static const dt_dtype_t dtypes[] = {
#define DTYPE(id, value, name, bytes, kind, c_type) DT_##id,
#include "runtime/base/dtypes.def"
  };
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1};
  dt_runtime_t *runtime = NULL;
  must("runtime", dt_runtime_create(&options, &runtime));
  for (size_t op = 0; runtime && op < N_OPS; op++)
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
      if (is_tried(op, dtypes[d]) && !(few && is_sibling(dtypes[d])))
        check(runtime, op, dtypes[d], few);
  for (size_t d = 0; runtime && d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
    if (dt__dtype_is_float(dtypes[d]))
      check_rows(runtime, dtypes[d]);
  dt_runtime_release(runtime);
  printf("%llu functions, %d failures\n", (unsigned long long)compiles, failures);
  return failures != 0 || compiles == 0;
}
