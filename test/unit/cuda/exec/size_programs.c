// SPDX-License-Identifier: Apache-2.0
// Programs whose sizes come from data; see size_programs.h.
#include "test/unit/cuda/exec/size_programs.h"

static const dt_dim_decl_t one_dim[] = {{.name = "n"}};
static const dt_input_decl_t two_vectors[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = one_dim},
    {.name = "t", .dtype = DT_F32, .rank = 1, .dims = one_dim}};

static dt_value_t sum_all(dt_trace_t *t, dt_value_t x) { return dt_sum(t, x, 0, NULL, false); }

static dt_value_t above_zero(dt_trace_t *t, dt_value_t x) {
  return dt_gt(t, x, dt_scalar(t, DT_F32, 0));
}

// Elements of t where x is not 0, added up.
static dt_status_t nonzero_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  dt_value_t at = dt_squeeze(t, dt_nonzero(t, in[0]), 1);
  out[0] = sum_all(t, dt_gather(t, in[1], at, 0));
  return NULL;
}
const subject_t sizes_nonzero = {"nonzero", nonzero_program, 2, 1, two_vectors};

// The elements above 0 weighted by their softmax: rows of a length that data says.
static dt_status_t softmax_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  dt_value_t some = dt_masked_select(t, in[0], above_zero(t, in[1]));
  out[0] = sum_all(t, dt_mul(t, dt_softmax(t, some, 0), some));
  return NULL;
}
const subject_t sizes_softmax = {"softmax", softmax_program, 2, 1, two_vectors};

// x[n, width], its rows repeated, at most four times each on average, normalised and added up.
static dt_status_t repeat_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  static const int32_t rows[] = {0};
  dt_value_t many = dt_repeat_interleave(t, in[0], in[1], 0);
  dt_sym_t most = dt_sym_mul(t, dt_sym_const(t, 4), dt_dim(t, in[0], 0));
  dt_check(t, dt_sym_le(t, dt_dim(t, many, 0), most), "at most four times as many rows");
  out[0] = dt_sum(t, dt_softmax(t, many, 1), 1, rows, false);
  out[1] = sum_all(t, dt_exp(t, many));
  return NULL;
}
static const dt_dim_decl_t n_width[] = {{.name = "n"}, {.name = "width"}};
static const dt_input_decl_t repeat_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = n_width},
    {.name = "repeats", .dtype = DT_I64, .rank = 1, .dims = n_width}};
const subject_t sizes_repeat = {"repeat", repeat_program, 2, 2, repeat_inputs};

// A selection of a selection; how many there are goes into the result, too.
static dt_status_t chain_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  dt_value_t some = dt_masked_select(t, in[0], above_zero(t, in[1]));
  dt_value_t fewer = dt_masked_select(t, dt_exp(t, some), above_zero(t, some));
  dt_value_t count = dt_size_value(t, dt_dim(t, fewer, 0));
  out[0] = dt_mul(t, in[0], dt_add(t, sum_all(t, fewer), dt_cast(t, count, DT_F32)));
  return NULL;
}
const subject_t sizes_chain = {"chain", chain_program, 2, 1, two_vectors};

// Two selections that must be of one size, side by side.
static dt_status_t pair_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t a = dt_masked_select(t, in[0], above_zero(t, in[0]));
  dt_value_t b = dt_masked_select(t, in[1], above_zero(t, in[1]));
  out[0] = sum_all(t, dt_mul(t, a, b));
  return NULL;
}
const subject_t sizes_pair = {"pair", pair_program, 2, 1, two_vectors};

// The first k elements against the others, and what is left of x: k is an argument's number.
static dt_status_t cut_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[1]), n = dt_dim(t, in[0], 0);
  dt_value_t first = dt_slice(t, in[0], 0, dt_sym_const(t, 0), k, 1);
  dt_value_t others = dt_slice(t, in[0], 0, k, dt_sym_sub(t, n, k), 1);
  out[0] = dt_sub(t, sum_all(t, first), sum_all(t, dt_exp(t, others)));
  return NULL;
}
static const dt_input_decl_t vector_and_number[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = one_dim},
    {.name = "k", .dtype = DT_I64, .rank = 0}};
const subject_t sizes_cut = {"cut", cut_program, 2, 1, vector_and_number};

// What is above 0 of the first k elements: a number from what another one sized.
static dt_status_t cut_chain_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                     void *closure) {
  (void)closure;
  dt_value_t first = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_item(t, in[1]), 1);
  dt_value_t some = dt_masked_select(t, first, above_zero(t, first));
  out[0] = sum_all(t, dt_exp(t, some));
  return NULL;
}
const subject_t sizes_cut_chain = {"cut chain", cut_chain_program, 2, 1, vector_and_number};

// Rows above the first number of each, times a matrix: a product with as many rows as data says.
static dt_status_t product_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  static const int32_t rows[] = {0};
  dt_value_t at = dt_squeeze(t, dt_nonzero(t, above_zero(t, in[1])), 1);
  dt_value_t some = dt_gather(t, in[0], at, 0);
  out[0] = dt_sum(t, dt_matmul(t, some, dt_constant(t, "w", closure)), 1, rows, false);
  return NULL;
}
static const dt_dim_decl_t n_24[] = {{.name = "n"}, {.value = 24, .is_static = true}};
static const dt_input_decl_t rows_and_marks[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = n_24},
    {.name = "marks", .dtype = DT_F32, .rank = 1, .dims = n_24}};
const subject_t sizes_product = {"product", product_program, 2, 1, rows_and_marks};

// Attention of x[n, 24] to those of its rows that have a mark: as many keys as data says, between
// two products.
static dt_status_t attention_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                     void *closure) {
  (void)closure;
  static const int32_t turned[] = {1, 0};
  dt_value_t at = dt_squeeze(t, dt_nonzero(t, above_zero(t, in[1])), 1);
  dt_value_t keys = dt_gather(t, in[0], at, 0);
  dt_value_t scores = dt_matmul(t, in[0], dt_permute(t, keys, turned));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 1), keys);
  return NULL;
}
const subject_t sizes_attention = {"attention", attention_program, 2, 1, rows_and_marks};

// Rows with a mark, normalised, times a matrix: as many rows as data says.
static dt_status_t norm_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  static const int32_t rows[] = {0};
  dt_value_t at = dt_squeeze(t, dt_nonzero(t, above_zero(t, in[1])), 1);
  dt_value_t some = dt_softmax(t, dt_gather(t, in[0], at, 0), 1);
  dt_value_t y = dt_matmul(t, some, dt_constant(t, "w", closure));
  out[0] = dt_amax(t, dt_add(t, y, dt_scalar(t, DT_F32, 1)), 1, rows, false);
  return NULL;
}
const subject_t sizes_norm = {"rows", norm_program, 2, 1, rows_and_marks};

// x takes the number of its elements above 0.
static dt_status_t update_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t some = dt_masked_select(t, in[0], above_zero(t, in[0]));
  dt_sym_t n = dt_dim(t, some, 0);
  dt_check(t, dt_sym_le(t, n, dt_sym_const(t, 3)), "three at most");
  dt_update(t, in[0], dt_add(t, in[0], sum_all(t, some)));
  out[0] = sum_all(t, dt_sqrt(t, some));
  return NULL;
}
const subject_t sizes_update = {"update", update_program, 1, 1, two_vectors};

// What is selected is the result, so the host must know how much it is.
static dt_status_t select_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[0], above_zero(t, in[1]));
  return NULL;
}
const subject_t sizes_selection = {"selection", select_program, 2, 1, two_vectors};

// Nothing says how much k may be.
static dt_status_t free_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_sym_t k = dt_item(t, in[1]);
  dt_value_t many = dt_cumsum(t, dt_iota(t, DT_F32, 1, &k, 0), 0, DT_CUMSUM_INCLUSIVE);
  out[0] = dt_add(t, in[0], sum_all(t, dt_softmax(t, many, 0)));
  return NULL;
}
const subject_t sizes_unbounded = {"unbounded", free_program, 2, 1, vector_and_number};
