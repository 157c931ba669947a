// SPDX-License-Identifier: Apache-2.0
// See hot_sizes.h. A source is a size that calls may change, of which other dims follow.
#include "runtime/exec/hot_sizes.h"

#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/trace/declare.h"

#include <string.h>

// Divisors that are tried, the best first: of vectors, and of register tiles.
static const int64_t divisors[] = {64, 32, 16};
#define N_DIVISORS (sizeof(divisors) / sizeof(divisors[0]))

// ---- The histogram --------------------------------------------------------------------------------
typedef struct rows_t {
  dt_hot_row_t *items; // most calls first
  uint32_t n, width;
  uint64_t calls; // of all
} rows_t;

static bool copy_rows(dt_function_t *function, dt_arena_t *arena, rows_t *out) {
  dt_histogram_t *histogram = &function->policy.histogram;
  uint32_t width = out->width = histogram->width;
  int64_t *values = DT_ARENA_ARRAY(arena, int64_t, (size_t)histogram->cap *width + 1);
  out->items = DT_ARENA_ARRAY(arena, dt_hot_row_t, (size_t)histogram->cap + 1);
  if (!values || !out->items)
    return false;
  dt__histogram_lock(histogram);
  for (uint32_t k = 0; k < histogram->n; k++) {
    if (width)
      memcpy(values + (size_t)k * width, histogram->values + (size_t)k * width,
             width * sizeof(*values));
    out->items[out->n++] = (dt_hot_row_t){values + (size_t)k * width, histogram->rows[k].calls};
    out->calls += histogram->rows[k].calls;
  }
  dt__histogram_unlock(histogram);
  for (uint32_t k = 1; k < out->n; k++) // few of them
    for (uint32_t i = k; i > 0 && out->items[i].calls > out->items[i - 1].calls; i--) {
      dt_hot_row_t row = out->items[i];
      out->items[i] = out->items[i - 1];
      out->items[i - 1] = row;
    }
  return true;
}

// ---- Offers ---------------------------------------------------------------------------------------
static bool is_share(const rows_t *rows, uint64_t calls, uint32_t percent) {
  return calls > 0 && calls * 100 >= rows->calls * percent;
}

static bool takes(const dt_hot_offer_t *offer, const int64_t *values) {
  for (uint32_t s = 0; s < offer->n; s++)
    if (values[s] < offer->low[s] || values[s] > offer->high[s] || values[s] % offer->divisor[s])
      return false;
  return true;
}

static uint64_t count_calls(const rows_t *rows, const dt_hot_offer_t *offer) {
  uint64_t calls = 0;
  for (uint32_t k = 0; k < rows->n; k++)
    calls += takes(offer, rows->items[k].values) ? rows->items[k].calls : 0;
  return calls;
}

static bool make_offer(dt_arena_t *arena, uint32_t n, dt_hot_offer_t *out) {
  *out = (dt_hot_offer_t){.n = n};
  out->low = DT_ARENA_ARRAY(arena, int64_t, (size_t)n + 1);
  out->high = DT_ARENA_ARRAY(arena, int64_t, (size_t)n + 1);
  out->divisor = DT_ARENA_ARRAY(arena, int64_t, (size_t)n + 1);
  if (!out->low || !out->high || !out->divisor)
    return false;
  for (uint32_t s = 0; s < n; s++) {
    out->high[s] = INT64_MAX;
    out->divisor[s] = 1;
  }
  return true;
}

// Its calls, and what it is known by.
static void finish(const rows_t *rows, dt_hot_offer_t *offer) {
  for (uint32_t k = 0; k < rows->n && offer->n_calls < DT_MOST_HOT_CALLS; k++)
    if (takes(offer, rows->items[k].values))
      offer->calls[offer->n_calls++] = rows->items[k];
  size_t bytes = offer->n * sizeof(int64_t);
  offer->hash = dt__hash_mix(dt__hash(offer->low, bytes, 0), dt__hash(offer->high, bytes, 1));
  offer->hash = dt__hash_mix(offer->hash, dt__hash(offer->divisor, bytes, 2));
}

// A number that a program only computes with is no size.
static bool is_size(const dt_function_t *function, uint32_t source) {
  return dt__is_tensor_kind(function->inputs[function->policy.sources[source].input].kind);
}

static void offer_size(const dt_function_t *function, const rows_t *rows, dt_hot_offer_t *offer) {
  for (uint32_t s = 0; s < offer->n; s++)
    if (is_size(function, s))
      offer->low[s] = offer->high[s] = rows->items[0].values[s];
  finish(rows, offer);
}

// The largest divisor that so many calls have in a source.
static int64_t divisor_of(const rows_t *rows, uint32_t source, uint32_t percent) {
  for (uint32_t d = 0; d < N_DIVISORS; d++) {
    uint64_t calls = 0;
    for (uint32_t k = 0; k < rows->n; k++)
      calls += rows->items[k].values[source] % divisors[d] ? 0 : rows->items[k].calls;
    if (is_share(rows, calls, percent))
      return divisors[d];
  }
  return 1;
}

// Whether it says anything that no declaration does.
static bool offer_shape(const dt_function_t *function, const rows_t *rows, uint32_t percent,
                        dt_hot_offer_t *offer) {
  bool some = false;
  for (uint32_t s = 0; s < offer->n; s++) {
    if (is_size(function, s))
      offer->divisor[s] = divisor_of(rows, s, percent);
    some = some || offer->divisor[s] > 1;
  }
  if (!some || !is_share(rows, count_calls(rows, offer), percent))
    return false;
  for (uint32_t s = 0; s < offer->n; s++) {
    int64_t low = INT64_MAX, high = 0;
    for (uint32_t k = 0; k < rows->n && is_size(function, s); k++)
      if (takes(offer, rows->items[k].values)) {
        int64_t value = rows->items[k].values[s];
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
    offer->low[s] = low <= high ? low : 0;
    offer->high[s] = low <= high ? high : INT64_MAX;
  }
  finish(rows, offer);
  return true;
}

bool dt__hot_offers(dt_function_t *function, dt_arena_t *arena, uint32_t percent,
                    dt_hot_offer_t out[2], uint32_t *out_n) {
  rows_t rows = {0};
  *out_n = 0;
  if (!copy_rows(function, arena, &rows))
    return false;
  if (!rows.n || rows.width < function->policy.n_sources || !rows.width)
    return true; // sizes that no row has would be anybody's
  for (uint32_t k = 0; k < 2; k++)
    if (!make_offer(arena, rows.width, &out[k]))
      return false;
  if (is_share(&rows, rows.items[0].calls, percent))
    offer_size(function, &rows, &out[(*out_n)++]);
  if (offer_shape(function, &rows, percent, &out[*out_n]) && out[*out_n].n_calls > 1)
    (*out_n)++;
  return true;
}

// ---- Declarations ---------------------------------------------------------------------------------
static dt_trace_request_t declared(const dt_function_t *function) {
  return (dt_trace_request_t){
      .n_inputs = function->n_inputs, .inputs = function->inputs, .spread = function->spread};
}

static void narrow(const dt_hot_offer_t *offer, uint32_t source, dt_dim_decl_t *dim) {
  int64_t low = offer->low[source], high = offer->high[source], divisor = offer->divisor[source];
  if (low == high) {
    dim->is_static = true;
    dim->value = low;
    dim->mark = DT_MARK_NONE;
    dim->min = dim->max = dim->multiple_of = 0;
    return;
  }
  dim->min = low > dim->min ? low : dim->min;
  if (high != INT64_MAX && (!dim->max || high < dim->max))
    dim->max = high;
  if (divisor > 1 && (!dim->multiple_of || divisor % dim->multiple_of == 0))
    dim->multiple_of = divisor;
}

dt_input_decl_t *dt__hot_declare(const dt_function_t *function, dt_arena_t *arena,
                                 const dt_hot_offer_t *offer) {
  dt_trace_request_t request = declared(function);
  const dt_policy_t *policy = &function->policy;
  dt_input_decl_t *inputs =
      dt__arena_copy(arena, function->inputs, function->n_inputs * sizeof(*inputs));
  for (uint32_t k = 0; inputs && k < function->n_inputs; k++) {
    uint32_t rank = inputs[k].rank;
    dt_dim_decl_t *dims = DT_ARENA_ARRAY(arena, dt_dim_decl_t, (size_t)rank + 1);
    if (!dims)
      return NULL;
    if (inputs[k].dims)
      memcpy(dims, inputs[k].dims, rank * sizeof(*dims));
    for (uint32_t d = 0; dt__is_tensor_kind(inputs[k].kind) && d < rank; d++) {
      dt_dim_at_t leader = dt__dim_leader(&request, k, d);
      uint32_t source = policy->by_dim[policy->first[leader.input] + leader.dim];
      if (source < offer->n)
        narrow(offer, source, &dims[d]);
    }
    if (dt__is_tensor_kind(inputs[k].kind))
      inputs[k].dims = dims;
  }
  return inputs;
}

// ---- Arguments ------------------------------------------------------------------------------------
static bool size_of(const dt_function_t *function, const dt_hot_row_t *row, dt_dim_at_t at,
                    int64_t *out) {
  dt_trace_request_t request = declared(function);
  const dt_policy_t *policy = &function->policy;
  dt_dim_at_t leader = dt__dim_leader(&request, at.input, at.dim);
  dt_dim_facts_t facts = dt__dim_facts(&request, leader.input, leader.dim);
  uint32_t source = policy->by_dim[policy->first[leader.input] + leader.dim];
  if (facts.is_static) {
    *out = facts.range.lo;
    return true;
  }
  if (facts.derived) {
    int64_t of = 0;
    return size_of(function, row, facts.of, &of) && dt__mul_i64(of, facts.scale, out) &&
           dt__add_i64(*out, facts.offset, out) && *out >= 0;
  }
  if (source == UINT32_MAX)
    return false;
  *out = row->values[source];
  return *out >= 0;
}

static void fill(dt_tensor_t *tensor, uint64_t *seed) {
  char *data = dt_tensor_data(tensor);
  size_t size = dt_dtype_size(tensor->dtype);
  memset(data, 0, dt_tensor_bytes(tensor));
  if (!dt__dtype_is_float(tensor->dtype) || dt__dtype_per_byte(tensor->dtype) != 1)
    return;
  for (int64_t k = 0; k < tensor->count; k++) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double value = (double)(*seed >> 40) / (double)(1 << 23) - 1;
    dt__scalar_store(tensor->dtype, data + (size_t)k * size, (dt_scalar_t){.f = value});
  }
}

static dt_status_t make_number(const dt_function_t *function, const dt_hot_row_t *row, uint32_t k,
                               dt_tensor_t **out) {
  const dt_policy_t *policy = &function->policy;
  uint32_t source = policy->by_dim[policy->first[k]];
  DT_TRY(dt_tensor_create_empty(function->inputs[k].dtype, 0, NULL, out));
  int64_t value = source < policy->histogram.width ? row->values[source] : 0;
  memset((*out)->data, 0, dt_tensor_bytes(*out));
  dt__scalar_store(function->inputs[k].dtype, (*out)->data, (dt_scalar_t){.i = value});
  return NULL;
}

static dt_status_t make_tensor(const dt_function_t *function, const dt_hot_row_t *row, uint32_t k,
                               uint64_t *seed, dt_tensor_t **out) {
  const dt_input_decl_t *input = &function->inputs[k];
  int64_t sizes[DT_MAX_RANK];
  for (uint32_t d = 0; d < input->rank; d++)
    if (!size_of(function, row, (dt_dim_at_t){k, d}, &sizes[d]))
      return DT_FAIL(DT_E_UNSUPPORTED, "the size of a dim cannot be told");
  DT_TRY(dt_tensor_create_empty(input->dtype, input->rank, sizes, out));
  fill(*out, seed);
  return NULL;
}

dt_status_t dt__hot_arguments(const dt_function_t *function, const dt_hot_row_t *row,
                              dt_tensor_t **out) {
  uint64_t seed = 7;
  for (uint32_t k = 0; k < function->n_inputs; k++)
    DT_TRY(dt__is_tensor_kind(function->inputs[k].kind)
               ? make_tensor(function, row, k, &seed, &out[k])
               : make_number(function, row, k, &out[k]));
  return NULL;
}
