// SPDX-License-Identifier: Apache-2.0
// Calls at the very edge of what is checked: one element too many, the first byte of an overlap,
// the smallest size that is refused, checks that must not be made where nothing is read.
#include "test/support/subjects.h"

static int setup(void **state) { return fixture_open(state, 1, 1); }

static dt_function_t *make(fixture_t *fixture, dt_program_fn_t program, uint32_t n_inputs,
                           const dt_input_decl_t *inputs) {
  const subject_t subject = {"edges", program, n_inputs, 1, inputs};
  return subject_function(fixture->runtime, &subject, NULL, compiled_answer());
}

// ---- Given outputs ----------------------------------------------------------------------------------
static void an_output_one_element_longer_is_refused(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *add = subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  dt_tensor_t *inputs[2] = {tensor_full(1, 1, SIZES(6)), tensor_full(2, 1, SIZES(6))};
  const int64_t wrong[] = {5, 7};
  for (int k = 0; k < 2; k++) {
    dt_tensor_t *given = tensor_full(0, 1, &wrong[k]);
    expect_told(dt_call(fixture->session, add, inputs, 2, &given, 1, NULL), DT_E_SHAPE,
                "expected 6");
    dt_tensor_release(given);
  }
  RELEASE(inputs[0], inputs[1]);
  dt_function_release(add);
}

// An output that begins with the last element of input `k`.
static void expect_overlap(fixture_t *fixture, dt_function_t *add, uint32_t k) {
  float memory[16] = {0}, other[6] = {0};
  const int64_t size = 6;
  dt_tensor_t *inputs[2], *output = NULL;
  dt_tensor_desc_t desc = {
      .struct_size = sizeof(desc), .dtype = DT_F32, .rank = 1, .sizes = &size, .data = memory};
  expect_ok(dt_tensor_create(&desc, &inputs[k]));
  desc.data = other;
  expect_ok(dt_tensor_create(&desc, &inputs[1 - k]));
  desc.data = memory + 5;
  expect_ok(dt_tensor_create(&desc, &output));
  dt_tensor_t *given = output;
  expect_told(dt_call(fixture->session, add, inputs, 2, &given, 1, NULL), DT_E_ARGUMENT,
              k ? "overlaps argument 'b'" : "overlaps argument 'a'");
  dt_tensor_release(output);
  desc.data = memory + 6;
  expect_ok(dt_tensor_create(&desc, &output));
  given = output;
  expect_ok(dt_call(fixture->session, add, inputs, 2, &given, 1, NULL));
  RELEASE(output, inputs[0], inputs[1]);
}

static void an_output_that_shares_one_element_is_refused(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *add = subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  expect_overlap(fixture, add, 0);
  expect_overlap(fixture, add, 1);
  dt_function_release(add);
}

// ---- Sizes ------------------------------------------------------------------------------------------
static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t one_matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
static const dt_input_decl_t table_and_ids[] = {{.name = "table", .dtype = DT_F32, .rank = 2},
                                                {.name = "ids", .dtype = DT_I64, .rank = 1}};

// [n] as [n, 2^45], 4 bytes an element.
static dt_status_t make_wide(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const dt_sym_t sizes[2] = {dt_dim(t, in[0], 0), dt_sym_const(t, DT_SIZE_LIMIT / 4)};
  out[0] = dt_neg(t, dt_expand(t, dt_unsqueeze(t, in[0], 1), 2, sizes));
  return NULL;
}

static void a_result_of_exactly_the_limit_is_refused(void **state) {
  fixture_t *fixture = *state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_function_t *wide = make(fixture, make_wide, 1, one_vector);
  const int64_t one = 1;
  dt_tensor_t *x = tensor_full(1, 1, &one), *y = NULL;
  expect_code(dt_call(fixture->session, wide, &x, 1, &y, 1, NULL), DT_E_LIMIT);
  dt_tensor_release(x);
  dt_function_release(wide);
}

// x + rows // columns.
static dt_status_t make_quotient(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  dt_sym_t q = dt_sym_floordiv(t, dt_dim(t, in[0], 0), dt_dim(t, in[0], 1));
  out[0] = dt_add(t, in[0], dt_cast(t, dt_size_value(t, q), DT_F32));
  return NULL;
}

static void sizes_that_divide_by_zero_are_refused_in_every_order(void **state) {
  fixture_t *fixture = *state;
  const int64_t zero[2] = {4, 0}, two[2] = {4, 2};
  for (int first_good = 0; first_good < 2; first_good++) {
    dt_function_t *quotient = make(fixture, make_quotient, 1, one_matrix);
    for (int k = 0; k < 2; k++) {
      bool is_good = (k == 0) == (first_good == 1);
      dt_tensor_t *x = tensor_full(1, 2, is_good ? two : zero), *y = NULL;
      dt_status_t status = dt_call(fixture->session, quotient, &x, 1, &y, 1, NULL);
      if (is_good) {
        expect_ok(status);
        assert_true(((const float *)dt_tensor_data(y))[0] == 3.0F);
      } else {
        expect_code(status, DT_E_SHAPE);
      }
      RELEASE(x, y);
    }
    assert_int_equal(variants_of(quotient), 1);
    dt_function_release(quotient);
  }
}

// ---- Checks on data ---------------------------------------------------------------------------------
static dt_status_t make_padded_gather(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                      void *closure) {
  (void)closure;
  const dt_sym_t one[2] = {dt_sym_const(t, 1), dt_sym_const(t, 1)};
  out[0] = dt_pad(t, dt_gather(t, in[0], in[1], 0), one, one, 5.0);
  return NULL;
}

// No row is asked for, so that there is none is no fault.
static void padding_around_nothing_gathered_checks_nothing(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = make(fixture, make_padded_gather, 2, table_and_ids);
  const int64_t none = 0, sizes[2] = {0, 3}, wanted[2] = {2, 5};
  dt_tensor_t *inputs[2] = {tensor_full(0, 2, sizes), tensor_i64(1, &none, &none)}, *y = NULL;
  expect_ok(dt_call(fixture->session, function, inputs, 2, &y, 1, NULL));
  dt_tensor_t *fives = tensor_full(5, 2, wanted);
  expect_close(y, fives, 0, 0, "padding alone");
  RELEASE(fives, y, inputs[0], inputs[1]);
  dt_function_release(function);
}

// ---- Chains in slices --------------------------------------------------------------------------------
static dt_status_t make_attention(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[0], 2, 3));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 3), in[0]);
  return NULL;
}

// 2^40 heads of no positions are no work, not even in the loop over their slices.
static void many_heads_without_positions_take_no_time(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t heads[] = {{.name = "x", .dtype = DT_F32, .rank = 4}};
  dt_function_t *function = make(fixture, make_attention, 1, heads);
  static const int64_t sizes[][4] = {{2, 3, 5, 4}, {1 << 20, 1 << 20, 0, 2}, {0, 7, 3, 2}};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    if (compiled_answer() != DT_ANSWER_COMPILED && k)
      break; // the evaluator does go through them
    dt_tensor_t *x = NULL, *y = NULL;
    if (k == 0) {
      x = tensor_full(1, 4, sizes[k]);
    } else {
      dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 4, .sizes = sizes[k]};
      expect_ok(dt_tensor_create(&desc, &x));
    }
    expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
    assert_int_equal(dt_tensor_count(y), k == 0 ? 120 : 0);
    RELEASE(x, y);
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(an_output_one_element_longer_is_refused),
               TEST(an_output_that_shares_one_element_is_refused),
               TEST(a_result_of_exactly_the_limit_is_refused),
               TEST(sizes_that_divide_by_zero_are_refused_in_every_order),
               TEST(padding_around_nothing_gathered_checks_nothing),
               TEST(many_heads_without_positions_take_no_time))
