// SPDX-License-Identifier: Apache-2.0
// The table of reductions as data, and the initial value of each.
#include "lower/loop/loop.h"
#include "runtime/base/dtype.h"

typedef dt_scalar_t (*start_fn_t)(dt_dtype_t dtype);

// ---- The start column ---------------------------------------------------------------------------
static dt_scalar_t start_zero(dt_dtype_t dtype) {
  return dt__dtype_is_float(dtype) ? (dt_scalar_t){.f = 0} : (dt_scalar_t){.i = 0};
}

static dt_scalar_t start_one(dt_dtype_t dtype) {
  return dt__dtype_is_float(dtype) ? (dt_scalar_t){.f = 1} : (dt_scalar_t){.i = 1};
}

static dt_scalar_t start_lowest(dt_dtype_t dtype) { return dt__scalar_lowest(dtype); }

static dt_scalar_t start_highest(dt_dtype_t dtype) { return dt__scalar_highest(dtype); }

// ---- The other columns --------------------------------------------------------------------------
enum { TAKES_number = 1, TAKES_logic = 2, TAKES_any = TAKES_number | TAKES_logic };
enum { GIVES_value = 0, GIVES_place = 1 };
enum { ORDER_free = 0, ORDER_ordered = 1 };

// Whoever finds the best of two knows larger and smaller.
#define REDUCTION(id, name, op, joins, start, takes, gives, order, doc)                            \
  _Static_assert(GIVES_##gives == GIVES_value || DT_SCALAR_##joins == DT_SCALAR_gt ||              \
                     DT_SCALAR_##joins == DT_SCALAR_lt,                                            \
                 #id " gives a place, so it is found by gt or lt");
#include "lower/loop/reductions.def"

static const struct {
  dt_reduction_info_t info;
  start_fn_t start;
} reductions[DT_REDUCE_COUNT] = {
#define REDUCTION(id, text, op, joins, first, takes, gives, order, doc)                            \
  [DT_REDUCE_##id] = {.info = {.name = #text,                                                      \
                               .combine = DT_SCALAR_##joins,                                       \
                               .numbers = (TAKES_##takes & TAKES_number) != 0,                     \
                               .logic = (TAKES_##takes & TAKES_logic) != 0,                        \
                               .place = GIVES_##gives != 0,                                        \
                               .ordered = ORDER_##order != 0},                                     \
                      .start = start_##first},
#include "lower/loop/reductions.def"
};

const dt_reduction_info_t *dt__reduction_info(dt_reduction_kind_t kind) {
  return (unsigned)kind < DT_REDUCE_COUNT ? &reductions[kind].info : NULL;
}

dt_scalar_t dt__reduction_identity(dt_reduction_kind_t kind, dt_dtype_t dtype) {
  return reductions[kind].start(dtype);
}
