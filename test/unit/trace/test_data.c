// SPDX-License-Identifier: Apache-2.0
// Builders of what data decides: what they trace, what calls get by the evaluator against plain C,
// what they refuse, and what a call is refused for.
#include "lower/graph/eval.h"
#include "lower/passes/passes.h"
#include "test/unit/trace/trace_test.h"

#include <string.h>

typedef dt_value_t (*make_t)(dt_trace_t *t, const dt_value_t *in);

static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const make_t *make = closure;
  out[0] = (*make)(trace, in);
  return NULL;
}

// ---- One call by the evaluator ------------------------------------------------------------------
typedef struct argument_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[3];
  const void *data;
} argument_t;

typedef struct run_t {
  dt_arena_t arena;
  dt_traced_t *traced;
  dt_eval_value_t out;
} run_t;

static dt_traced_t *trace_with(make_t *make, uint32_t n, const argument_t *args,
                               dt_tensor_t **tensors) {
  dt_input_decl_t decls[MAX_ARGUMENTS] = {{0}};
  for (uint32_t k = 0; k < n; k++) {
    const argument_t *arg = &args[k];
    decls[k] = (dt_input_decl_t){.dtype = arg->dtype, .rank = arg->rank};
    tensors[k] = tensor_of(arg->dtype, arg->rank, arg->sizes, NULL);
  }
  dt_trace_request_t request = {.name = "f",
                                .program = program,
                                .closure = make,
                                .n_inputs = n,
                                .n_outputs = 1,
                                .inputs = decls,
                                .example = tensors};
  return trace_ok(&request);
}

static dt_status_t call(run_t *run, make_t make, uint32_t n, const argument_t *args) {
  dt_tensor_t *tensors[MAX_ARGUMENTS] = {NULL};
  dt__arena_init(&run->arena, 0);
  run->traced = trace_with(&make, n, args, tensors);
  dt_guards_t *guards = NULL;
  expect_ok(dt__guards_create(run->traced->graph, run->traced->conds.items, run->traced->conds.len,
                              NULL, &guards));
  int64_t symbols[64] = {0}, strides[MAX_ARGUMENTS][3];
  assert_true(dt__symenv_symbol_count(run->traced->env) <= 64);
  assert_true(dt__guards_run(guards, &(dt_guard_args_t){.inputs = tensors}, symbols));
  dt__guards_destroy(guards);
  dt_eval_arg_t eval_args[MAX_ARGUMENTS];
  for (uint32_t k = 0; k < n; k++) {
    int64_t stride = 1;
    for (uint32_t d = args[k].rank; d-- > 0; stride *= args[k].sizes[d])
      strides[k][d] = stride;
    eval_args[k] = (dt_eval_arg_t){args[k].data, args[k].sizes, strides[k]};
    dt_tensor_release(tensors[k]);
  }
  return dt__graph_eval(run->traced->graph, symbols, eval_args, NULL, &run->arena, &run->out);
}

static void run_fini(run_t *run) {
  dt__traced_destroy(run->traced);
  dt__arena_fini(&run->arena);
}

// The result is `want`, integers, of these sizes.
static void check(make_t make, uint32_t n, const argument_t *args, uint32_t rank,
                  const int64_t *sizes, const int64_t *want, const char *file, int line) {
  run_t run;
  dt_status_t status = call(&run, make, n, args);
  if (status) {
    print_error("%s:%d: %s\n", file, line, dt_status_message(status));
    fail();
  }
  bool right = run.out.rank == rank;
  for (uint32_t k = 0; right && k < rank; k++)
    right = run.out.sizes[k] == sizes[k];
  for (int64_t k = 0; right && k < run.out.count; k++)
    right = run.out.data[k].i == want[k];
  if (!right) {
    print_error("%s:%d: got rank %u, %lld elements:", file, line, run.out.rank,
                (long long)run.out.count);
    for (int64_t k = 0; k < run.out.count && k < 20; k++)
      print_error(" %lld", (long long)run.out.data[k].i);
    print_error("\n%s\n", text_of(run.traced));
    fail();
  }
  run_fini(&run);
}
#define I(...) ((const int64_t[]){__VA_ARGS__})
#define ARGS(...)                                                                                  \
  (sizeof((const argument_t[]){__VA_ARGS__}) / sizeof(argument_t)), (const argument_t[]) {         \
    __VA_ARGS__                                                                                    \
  }
#define I64_1(n, ...) {DT_I64, 1, {n}, I(__VA_ARGS__)}
#define I64_0(value) {DT_I64, 0, {0}, I(value)}
#define CHECK(make, args, rank, sizes, want)                                                       \
  check((make), args, (rank), (sizes), (want), __FILE__, __LINE__)

static void check_call_refused(make_t make, uint32_t n, const argument_t *args, dt_code_t code,
                               const char *part) {
  run_t run;
  expect_parts(call(&run, make, n, args), code, EACH_OF(part));
  run_fini(&run);
}

// ---- Items --------------------------------------------------------------------------------------
static dt_value_t make_iota_item(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t n = dt_item(t, in[0]);
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static void test_item_is_a_size(void **state) {
  (void)state;
  CHECK(make_iota_item, ARGS(I64_0(4)), 1, I(4), I(0, 1, 2, 3));
  CHECK(make_iota_item, ARGS(I64_0(0)), 1, I(0), I(0));
  CHECK(make_iota_item, ARGS({DT_U8, 1, {1}, "\3"}), 1, I(3), I(0, 1, 2));
  check_call_refused(make_iota_item, ARGS(I64_0(-4)), DT_E_SHAPE, "iota needs 0 <= u0");
  check_call_refused(make_iota_item, ARGS(I64_0(DT_SIZE_LIMIT)), DT_E_SHAPE, "iota needs u0 <= ");
}

static bool same_symbol;
static dt_value_t make_twice(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t one = dt_sym_const(t, 1);
  dt_sym_t a = dt_item(t, in[0]);
  dt_sym_t b = dt_item(t, dt_unsqueeze(t, dt_reshape(t, in[0], 1, &one), 0));
  same_symbol = a.id == b.id && a.id != 0;
  return dt_size_value(t, dt_sym_sub(t, a, b));
}

static dt_value_t make_known(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_sym_t size = dt_item(t, dt_size_value(t, n));
  dt_sym_t literal = dt_item(t, dt_scalar(t, DT_I16, -7));
  same_symbol = size.id == n.id && literal.id == dt_sym_const(t, -7).id;
  return dt_size_value(t, dt_sym_add(t, size, literal));
}

static void test_item_twice_is_one_symbol(void **state) {
  (void)state;
  CHECK(make_twice, ARGS(I64_0(5)), 0, I(0), I(0));
  assert_true(same_symbol);
  CHECK(make_known, ARGS(I64_1(3, 1, 2, 3)), 0, I(0), I(-4));
  assert_true(same_symbol);
}

// Elements of n, 7, [0, 1, 2, 3] and the data's, joined and seen in several ways, are what they
// are.
static dt_value_t joined(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t one = dt_sym_const(t, 1), four = dt_sym_const(t, 4), n = dt_dim(t, in[0], 0);
  dt_sym_t two = dt_sym_const(t, 2), sizes[2] = {four, two};
  dt_value_t parts[4] = {dt_reshape(t, dt_size_value(t, n), 1, &one),
                         dt_cast(t, dt_expand(t, dt_scalar(t, DT_I16, 7), 1, &one), DT_I64),
                         dt_iota(t, DT_I64, 1, &four, 0), dt_slice(t, in[0], 0, one, two, 1)};
  return dt_permute(t, dt_reshape(t, dt_concat(t, 4, parts, 0), 2, sizes), (int32_t[]){1, 0});
}

static dt_sym_t element(dt_trace_t *t, dt_value_t x, int64_t row, int64_t column) {
  dt_sym_t one = dt_sym_const(t, 1);
  dt_value_t of_row = dt_slice(t, x, 0, dt_sym_const(t, row), one, 1);
  return dt_item(t, dt_slice(t, of_row, 1, dt_sym_const(t, column), one, -1));
}

static dt_value_t make_elements(dt_trace_t *t, const dt_value_t *in) {
  dt_value_t x = joined(t, in);
  dt_sym_t n = dt_dim(t, in[0], 0), one = dt_sym_const(t, 1);
  same_symbol = element(t, x, 0, 0).id == n.id;
  const int64_t literals[] = {7, 0, 1, 2, 3};
  for (int64_t k = 1; k < 6; k++) {
    int64_t value = -1;
    dt_sym_t got = element(t, x, k % 2, k / 2);
    same_symbol = same_symbol && dt_sym_constant(t, got, &value) && value == literals[k - 1];
  }
  // Data are read once, by whatever views.
  dt_sym_t first = element(t, x, 0, 3), second = element(t, x, 1, 3);
  dt_sym_t again = dt_item(t, dt_slice(t, in[0], 0, dt_sym_const(t, 2), one, 1));
  same_symbol = same_symbol && again.id == second.id && first.id != second.id;
  return dt_size_value(t, dt_sym_add(t, dt_sym_mul(t, first, dt_sym_const(t, 100)), second));
}

static void test_item_of_views(void **state) {
  (void)state;
  CHECK(make_elements, ARGS(I64_1(3, 1, 22, 33)), 0, I(0), I(2233));
  assert_true(same_symbol);
}

// What is read after an update is the new value, what was read before the old one.
static dt_value_t make_updated(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t before = dt_item(t, in[0]);
  dt_update(t, in[0], dt_mul(t, in[0], dt_scalar(t, DT_I64, 3)));
  dt_sym_t after = dt_item(t, in[0]);
  return dt_size_value(t, dt_sym_sub(t, after, before));
}

static void test_item_of_an_update(void **state) {
  (void)state;
  CHECK(make_updated, ARGS(I64_0(5)), 0, I(0), I(10));
}

// A bool is 0 or 1, an i8 at most 127: no check is needed for what that proves.
static dt_value_t make_ranges(dt_trace_t *t, const dt_value_t *in) {
  dt_check(t, dt_sym_le(t, dt_item(t, in[0]), dt_sym_const(t, 1)), "a bool");
  dt_check(t, dt_sym_le(t, dt_sym_const(t, -128), dt_item(t, in[1])), "an i8");
  return in[2];
}

static void test_item_ranges(void **state) {
  (void)state;
  run_t run;
  dt_status_t status =
      call(&run, make_ranges, ARGS({DT_BOOL, 0, {0}, "\1"}, {DT_I8, 0, {0}, "\1"}, I64_0(1)));
  assert_null(status);
  assert_int_equal(run.traced->graph->asserts.len, 0);
  run_fini(&run);
}

// ---- Selections ---------------------------------------------------------------------------------
static dt_value_t make_nonzero(dt_trace_t *t, const dt_value_t *in) { return dt_nonzero(t, in[0]); }

static dt_value_t make_masked(dt_trace_t *t, const dt_value_t *in) {
  return dt_masked_select(t, in[0], in[1]);
}

static void test_selections(void **state) {
  (void)state;
  CHECK(make_nonzero, ARGS({DT_I64, 2, {2, 3}, I(0, 5, 0, -1, 0, 9)}), 2, I(3, 2),
        I(0, 1, 1, 0, 1, 2));
  CHECK(make_nonzero, ARGS(I64_1(3, 0, 0, 0)), 2, I(0, 1), I(0));
  CHECK(make_nonzero, ARGS({DT_I64, 2, {0, 3}, I(0)}), 2, I(0, 2), I(0));
  CHECK(make_masked, ARGS(I64_1(4, 1, 2, 3, 4), {DT_BOOL, 1, {4}, "\1\0\0\1"}), 1, I(2), I(1, 4));
  // The mask is of rows, the values of one row.
  CHECK(make_masked, ARGS({DT_I64, 2, {2, 2}, I(1, 2, 3, 4)}, {DT_BOOL, 1, {2}, "\0\1"}), 1, I(2),
        I(2, 4));
}

static dt_value_t make_repeat(dt_trace_t *t, const dt_value_t *in) {
  return dt_repeat_interleave(t, in[0], in[1], -1);
}

static void test_repeat_interleave(void **state) {
  (void)state;
  CHECK(make_repeat, ARGS(I64_1(4, 7, 8, 9, 6), I64_1(4, 2, 0, 1, 3)), 1, I(6),
        I(7, 7, 9, 6, 6, 6));
  CHECK(make_repeat, ARGS(I64_1(2, 7, 8), I64_1(2, 0, 0)), 1, I(0), I(0));
  CHECK(make_repeat, ARGS(I64_1(2, 7, 8), I64_0(3)), 1, I(6), I(7, 7, 7, 8, 8, 8));
  CHECK(make_repeat, ARGS({DT_I64, 2, {2, 2}, I(1, 2, 3, 4)}, {DT_I32, 1, {2}, (int32_t[]){1, 2}}),
        2, I(2, 3), I(1, 2, 2, 3, 4, 4));
  check_call_refused(make_repeat, ARGS(I64_1(3, 7, 8, 9), I64_1(3, 2, -1, 1)), DT_E_RANGE,
                     "repeats must not be negative");
  check_call_refused(make_repeat, ARGS(I64_1(1, 7), I64_1(1, -1)), DT_E_RANGE, "negative");
}

// ---- Running sums, searches ---------------------------------------------------------------------
static dt_cumsum_mode_t scan_mode;
static dt_value_t make_cumsum(dt_trace_t *t, const dt_value_t *in) {
  return dt_cumsum(t, in[0], 0, scan_mode);
}

static dt_value_t make_search(dt_trace_t *t, const dt_value_t *in) {
  return dt_searchsorted(t, in[0], in[1], scan_mode == DT_CUMSUM_EXCLUSIVE);
}

static void test_scan_and_search(void **state) {
  (void)state;
  static const int64_t sums[4][3] = {{1, 3, 6}, {0, 1, 3}, {6, 5, 3}, {5, 3, 0}};
  for (int mode = 0; mode < 4; mode++) {
    scan_mode = (dt_cumsum_mode_t)mode;
    CHECK(make_cumsum, ARGS(I64_1(3, 1, 2, 3)), 1, I(3), sums[mode]);
  }
  scan_mode = DT_CUMSUM_INCLUSIVE;
  CHECK(make_search, ARGS(I64_1(3, 1, 3, 3), I64_1(4, 0, 1, 3, 4)), 1, I(4), I(0, 0, 1, 3));
  scan_mode = DT_CUMSUM_EXCLUSIVE;
  CHECK(make_search, ARGS(I64_1(3, 1, 3, 3), I64_1(4, 0, 1, 3, 4)), 1, I(4), I(0, 1, 3, 3));
}

// ---- Ranges, slices, splits ---------------------------------------------------------------------
static bool by_items; // else by literals
static int64_t bounds[3];

static dt_sym_t bound(dt_trace_t *t, const dt_value_t *in, uint32_t k) {
  return by_items ? dt_item(t, in[k]) : dt_sym_const(t, bounds[k]);
}

static dt_value_t make_range(dt_trace_t *t, const dt_value_t *in) {
  return dt_range(t, DT_I64, bound(t, in, 0), bound(t, in, 1), bound(t, in, 2));
}

static void test_range(void **state) {
  (void)state;
  for (int64_t start = -3; start <= 3; start++)
    for (int64_t limit = -4; limit <= 4; limit++)
      for (int64_t step = -3; step <= 3; step++) {
        int64_t want[16], n = 0;
        for (int64_t at = start; step && (step > 0 ? at < limit : at > limit); at += step)
          want[n++] = at;
        bounds[0] = start;
        bounds[1] = limit;
        bounds[2] = step;
        by_items = true;
        if (step == 0) {
          check_call_refused(make_range, ARGS(I64_0(start), I64_0(limit), I64_0(step)), DT_E_SHAPE,
                             "range needs");
          continue;
        }
        CHECK(make_range, ARGS(I64_0(start), I64_0(limit), I64_0(step)), 1, &n, want);
        by_items = false;
        CHECK(make_range, ARGS(I64_0(0)), 1, &n, want);
      }
}

static int64_t slice_step;
static dt_value_t make_slice(dt_trace_t *t, const dt_value_t *in) {
  return dt_slice_range(t, in[2], 0, bound(t, in, 0), bound(t, in, 1), slice_step);
}

// Index `k` of a Python range of one bound, as its documentation gives it.
static int64_t python_bound(int64_t bound, int64_t n, int64_t step) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  if (bound < 0)
    return bound + n < low ? low : bound + n;
  return bound > high ? high : bound;
}

static void test_slice_range(void **state) {
  (void)state;
  static const int64_t steps[] = {1, 2, 3, -1, -2};
  static const int64_t data[5] = {10, 11, 12, 13, 14};
  for (int64_t n = 0; n <= 5; n += n == 1 ? 4 : 1)
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++)
      for (int64_t begin = -7; begin <= 7; begin += 2)
        for (int64_t end = -7; end <= 7; end++) {
          slice_step = steps[s];
          int64_t want[8], count = 0, past = python_bound(end, n, slice_step);
          for (int64_t at = python_bound(begin, n, slice_step);
               slice_step > 0 ? at < past : at > past; at += slice_step)
            want[count++] = data[at];
          by_items = true;
          const argument_t x = {DT_I64, 1, {n}, data};
          CHECK(make_slice, ARGS(I64_0(begin), I64_0(end), x), 1, &count, want);
          by_items = false;
          bounds[0] = begin;
          bounds[1] = end;
          CHECK(make_slice, ARGS(I64_0(0), I64_0(0), x), 1, &count, want);
        }
}

static dt_value_t make_open_slice(dt_trace_t *t, const dt_value_t *in) {
  return dt_slice_range(t, in[0], 0, dt_sym_const(t, slice_step > 0 ? INT64_MIN : INT64_MAX),
                        dt_sym_const(t, slice_step > 0 ? INT64_MAX : INT64_MIN), slice_step);
}

// Of a size with a number in it, to which an open end must not be added.
static dt_value_t make_open_slice_of_more(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t zero = dt_sym_const(t, 0), two = dt_sym_const(t, 2);
  dt_value_t more = dt_pad(t, in[0], &zero, &two, 7);
  return make_open_slice(t, &more);
}

static void test_open_slices(void **state) {
  (void)state;
  slice_step = 1;
  CHECK(make_open_slice_of_more, ARGS(I64_1(2, 1, 2)), 1, I(4), I(1, 2, 7, 7));
  slice_step = -1;
  CHECK(make_open_slice_of_more, ARGS(I64_1(2, 1, 2)), 1, I(4), I(7, 7, 2, 1));
  slice_step = 2;
  CHECK(make_open_slice, ARGS(I64_1(4, 1, 2, 3, 4)), 1, I(2), I(1, 3));
  slice_step = -1;
  CHECK(make_open_slice, ARGS(I64_1(4, 1, 2, 3, 4)), 1, I(4), I(4, 3, 2, 1));
  CHECK(make_open_slice, ARGS(I64_1(0, 1)), 1, I(0), I(0));
}

// No bound from data makes a guard or a check where clamping makes it right for all.
static void test_slices_ask_nothing(void **state) {
  (void)state;
  run_t run;
  slice_step = 1;
  by_items = true;
  assert_null(call(&run, make_slice, ARGS(I64_0(1), I64_0(3), I64_1(4, 1, 2, 3, 4))));
  assert_int_equal(run.traced->conds.len, 0);
  assert_int_equal(run.traced->graph->asserts.len, 0);
  run_fini(&run);
}

static dt_value_t make_static_slice(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t eight = dt_sym_const(t, 8);
  dt_value_t x = dt_reshape(t, in[0], 1, &eight);
  return dt_slice_range(t, x, 0, dt_sym_const(t, -6), dt_sym_const(t, 100), 2);
}

static void test_static_slice_is_a_slice(void **state) {
  (void)state;
  dt_tensor_t *tensor = NULL;
  make_t make = make_static_slice;
  dt_traced_t *traced = trace_with(&make, ARGS({DT_I64, 2, {2, 4}, NULL}), &tensor);
  assert_non_null(strstr(text_of(traced), "slice %2 {syms = [2, 3], steps = [2]} : i64[3]"));
  dt__traced_destroy(traced);
  dt_tensor_release(tensor);
}

static dt_value_t make_split(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t sizes[3] = {dt_item(t, in[0]), dt_item(t, in[1]), dt_item(t, in[2])};
  dt_value_t parts[3];
  dt_split(t, in[3], 0, 3, sizes, parts);
  return dt_concat(t, 3, (dt_value_t[]){parts[2], parts[0], parts[1]}, 0);
}

static void test_split(void **state) {
  (void)state;
#define SIX I64_1(6, 1, 2, 3, 4, 5, 6)
  CHECK(make_split, ARGS(I64_0(1), I64_0(3), I64_0(2), SIX), 1, I(6), I(5, 6, 1, 2, 3, 4));
  CHECK(make_split, ARGS(I64_0(0), I64_0(6), I64_0(0), SIX), 1, I(6), I(1, 2, 3, 4, 5, 6));
  check_call_refused(make_split, ARGS(I64_0(1), I64_0(3), I64_0(1), SIX), DT_E_SHAPE,
                     "split needs");
  check_call_refused(make_split, ARGS(I64_0(-1), I64_0(5), I64_0(2), SIX), DT_E_SHAPE,
                     "split needs 0 <= u");
}

// Pads by what data says: negative amounts take away.
static dt_value_t make_pad(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t low = bound(t, in, 0), high = bound(t, in, 1);
  return dt_pad(t, in[2], &low, &high, -9);
}

static void test_pad(void **state) {
  (void)state;
  for (int64_t low = -3; low <= 2; low++)
    for (int64_t high = -3; high <= 2; high++) {
      int64_t want[8], n = 3 + low + high;
      bounds[0] = low;
      bounds[1] = high;
      const argument_t x = I64_1(3, 1, 2, 3);
      for (int64_t k = 0; k < n; k++)
        want[k] = k - low >= 0 && k - low < 3 ? k - low + 1 : -9;
      by_items = true;
      if (low + high < -3 || (low < 0 ? -low : 0) + (high < 0 ? -high : 0) > 3) {
        check_call_refused(make_pad, ARGS(I64_0(low), I64_0(high), x), DT_E_SHAPE, "pad needs");
        continue;
      }
      CHECK(make_pad, ARGS(I64_0(low), I64_0(high), x), 1, &n, want);
      by_items = false;
      CHECK(make_pad, ARGS(I64_0(0), I64_0(0), x), 1, &n, want);
    }
}

static dt_value_t make_full(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t sizes[2] = {dt_item(t, in[0]), dt_sym_const(t, 2)};
  return dt_full(t, DT_I64, -7, 2, sizes);
}

// Sizes from data in shape rules: equal, or one of them 1, is for each call to say.
static dt_value_t make_broadcast(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t a = dt_item(t, in[0]), b = dt_item(t, in[1]);
  return dt_add(t, dt_iota(t, DT_I64, 1, &a, 0), dt_full(t, DT_I64, 10, 1, &b));
}

static void test_sizes_in_shapes(void **state) {
  (void)state;
  CHECK(make_full, ARGS(I64_0(2)), 2, I(2, 2), I(-7, -7, -7, -7));
  CHECK(make_full, ARGS(I64_0(0)), 2, I(0, 2), I(0));
  CHECK(make_broadcast, ARGS(I64_0(3), I64_0(3)), 1, I(3), I(10, 11, 12));
  CHECK(make_broadcast, ARGS(I64_0(1), I64_0(3)), 1, I(3), I(10, 10, 10));
  CHECK(make_broadcast, ARGS(I64_0(3), I64_0(1)), 1, I(3), I(10, 11, 12));
  CHECK(make_broadcast, ARGS(I64_0(1), I64_0(0)), 1, I(0), I(0));
  check_call_refused(make_broadcast, ARGS(I64_0(2), I64_0(3)), DT_E_SHAPE, "add needs");
}

// A fact about two numbers must not carry the later one into a size that was made before it.
static dt_value_t make_two_items(dt_trace_t *t, const dt_value_t *in) {
  dt_sym_t a = dt_item(t, in[0]);
  dt_value_t x = dt_relu(t, dt_iota(t, DT_I64, 1, &a, 0)); // so that passes make nodes anew
  dt_sym_t b = dt_item(t, in[1]);
  dt_check(t, dt_sym_eq(t, a, dt_sym_add(t, b, dt_sym_const(t, 1))), "one more");
  return dt_add(t, x, dt_size_value(t, b));
}

static void test_facts_keep_order(void **state) {
  (void)state;
  run_t run;
  const dt_graph_t *passed;
  CHECK(make_two_items, ARGS(I64_0(3), I64_0(2)), 1, I(3), I(2, 3, 4));
  check_call_refused(make_two_items, ARGS(I64_0(3), I64_0(3)), DT_E_SHAPE, "one more");
  assert_null(call(&run, make_two_items, ARGS(I64_0(3), I64_0(2))));
  assert_null(dt__pass_decompose(&run.arena, run.traced->graph, &passed));
  assert_null(dt__pass_fold(&run.arena, passed, &passed));
  assert_null(dt__pass_cse(&run.arena, passed, &passed));
  assert_null(dt__pass_dce(&run.arena, passed, &passed));
  expect_ok(dt__graph_verify(passed));
  run_fini(&run);
}

// Every allocation of a trace fails once: always a clean status.
static void test_no_memory(void **state) {
  (void)state;
  const struct {
    make_t make;
    uint32_t n;
    argument_t args[4];
  } cases[] = {{make_repeat, 2, {I64_1(2, 7, 8), I64_1(2, 0, 0)}},
               {make_masked, 2, {I64_1(2, 7, 8), {DT_BOOL, 1, {2}, "\1\0"}}},
               {make_slice, 3, {I64_0(1), I64_0(2), I64_1(2, 7, 8)}},
               {make_split, 4, {I64_0(1), I64_0(1), I64_0(0), I64_1(2, 7, 8)}},
               {make_pad, 3, {I64_0(1), I64_0(-1), I64_1(2, 7, 8)}}};
  by_items = true;
  slice_step = 2;
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    dt_input_decl_t decls[MAX_ARGUMENTS] = {{0}};
    for (uint32_t k = 0; k < cases[c].n; k++)
      decls[k] = (dt_input_decl_t){.dtype = cases[c].args[k].dtype, .rank = cases[c].args[k].rank};
    make_t make = cases[c].make;
    dt_trace_request_t request = {.name = "f",
                                  .program = program,
                                  .closure = &make,
                                  .n_inputs = cases[c].n,
                                  .n_outputs = 1,
                                  .inputs = decls};
    dt_traced_t *traced = NULL;
    (void)dt__heap_fail_at(UINT64_MAX, false);
    assert_null(dt__trace_run(&request, &traced));
    uint64_t allocations = dt__heap_fail_at(0, false);
    dt__traced_destroy(traced);
    for (uint64_t n = 1; n <= allocations; n++) {
      (void)dt__heap_fail_at(n, false);
      dt_status_t status = dt__trace_run(&request, &traced);
      (void)dt__heap_fail_at(0, false);
      if (status && dt_status_code(status) != DT_E_NO_MEMORY)
        fail_msg("allocation %d: %s", (int)n, dt_status_message(status));
      dt_status_free(status);
      dt__traced_destroy(traced);
    }
  }
}

// ---- Refusals while tracing -----------------------------------------------------------------------
static const dt_input_decl_t declared[2] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                            {.name = "ids", .dtype = DT_I64, .rank = 1}};

#define REFUSALS                                                                                   \
  R(item_float, (void)dt_item(t, dt_sum(t, x, 0, NULL, false)), DT_E_DTYPE, "integer or bool")     \
  R(item_several,                                                                                  \
    (void)dt_item(                                                                                 \
        t, dt_range(t, DT_I64, dt_sym_const(t, 0), dt_sym_const(t, 3), dt_sym_const(t, 1))),       \
    DT_E_SHAPE, "number of elements")                                                              \
  R(item_none, (void)dt_item(t, (dt_value_t){0}), DT_E_ARGUMENT, "none value")                     \
  R(branch, (void)dt_sym_true(t, dt_sym_eq(t, n, one)), DT_E_STATE, "sym_true")                    \
  R(mask, (void)dt_masked_select(t, x, ids), DT_E_DTYPE, "the mask must be bool, got i64")         \
  R(repeats_rank, (void)dt_repeat_interleave(t, x, x, 0), DT_E_ARGUMENT, "rank 2 f32")             \
  R(repeats_negative, (void)dt_repeat_interleave(t, x, minus, 0), DT_E_RANGE, "negative")          \
  R(repeats_axis, (void)dt_repeat_interleave(t, x, ids, 2), DT_E_ARGUMENT, "axis 2")               \
  R(scan_mode, (void)dt_cumsum(t, x, 0, (dt_cumsum_mode_t)4), DT_E_ARGUMENT, "the mode 4")         \
  R(scan_bool, (void)dt_cumsum(t, dt_eq(t, x, x), 0, 0), DT_E_DTYPE, "a number")                   \
  R(search_rank, (void)dt_searchsorted(t, x, x, false), DT_E_SHAPE, "must have rank 1")            \
  R(search_dtype, (void)dt_searchsorted(t, ids, x, false), DT_E_DTYPE, "use cast")                 \
  R(full_value, (void)dt_full(t, DT_I8, 300, 1, &n), DT_E_ARGUMENT, "outside of i8")               \
  R(full_size, (void)dt_full(t, DT_I8, 3, 1, &minus_one), DT_E_SHAPE, "must not be negative")      \
  R(range_step, (void)dt_range(t, DT_I64, one, n, zero), DT_E_SHAPE, "step is not 0")              \
  R(range_bool, (void)dt_range(t, DT_BOOL, one, n, one), DT_E_DTYPE, "not of bool")                \
  R(slice_step, (void)dt_slice_range(t, x, 0, one, n, 0), DT_E_ARGUMENT, "the step is 0")          \
  R(slice_low, (void)dt_slice_range(t, x, 0, one, n, INT64_MIN), DT_E_ARGUMENT, "too large")       \
  R(split_none, dt_split(t, x, 0, 0, NULL, NULL), DT_E_ARGUMENT, "no sizes")                       \
  R(split_null, dt_split(t, x, 0, 1, NULL, &out), DT_E_ARGUMENT, "NULL")                           \
  R(split_sum, dt_split(t, three, 0, 2, ((dt_sym_t[]){one, one}), parts), DT_E_SHAPE, "split")

enum {
#define R(name, call, code, part) R_##name,
  REFUSALS
#undef R
};

static dt_status_t refused_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out_values,
                                   void *closure) {
  dt_value_t x = in[0], ids = in[1], out, parts[2];
  dt_sym_t one = dt_sym_const(t, 1), zero = dt_sym_const(t, 0), minus_one = dt_sym_const(t, -1);
  dt_sym_t n = dt_item(t, dt_amax(t, ids, 0, NULL, false)), whole = dt_sym_const(t, 3);
  dt_value_t minus = dt_scalar(t, DT_I64, -1), three = dt_iota(t, DT_I64, 1, &whole, 0);
  switch (*(const int *)closure) {
#define R(name, call, code, part)                                                                  \
  case R_##name:                                                                                   \
    call;                                                                                          \
    break;
    REFUSALS
#undef R
  }
  out_values[0] = x;
  return NULL;
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *name, *part;
    dt_code_t code;
  } rows[] = {
#define R(name, call, code, part) {#name, part, code},
      REFUSALS
#undef R
  };
  for (int k = 0; k < (int)(sizeof(rows) / sizeof(rows[0])); k++) {
    dt_trace_request_t request = {.name = "model",
                                  .program = refused_program,
                                  .closure = &k,
                                  .n_inputs = 2,
                                  .n_outputs = 1,
                                  .inputs = declared};
    print_message("%s\n", rows[k].name);
    trace_fails(&request, rows[k].code, EACH_OF(rows[k].part));
  }
}

RUN_TESTS(TEST(test_item_is_a_size), TEST(test_item_twice_is_one_symbol), TEST(test_item_of_views),
          TEST(test_item_of_an_update), TEST(test_item_ranges), TEST(test_selections),
          TEST(test_repeat_interleave), TEST(test_scan_and_search), TEST(test_range),
          TEST(test_slice_range), TEST(test_open_slices), TEST(test_slices_ask_nothing),
          TEST(test_static_slice_is_a_slice), TEST(test_split), TEST(test_pad),
          TEST(test_sizes_in_shapes), TEST(test_facts_keep_order), TEST(test_no_memory),
          TEST(test_refusals))
