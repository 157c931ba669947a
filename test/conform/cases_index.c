// SPDX-License-Identifier: Apache-2.0
// Cases of elements and slices by index, and of order; see cases.h.
#include "test/conform/cases_rows.h"

// ---- Programs -------------------------------------------------------------------------------------
MAKE(elements_rows, dt_gather_elements(t, x[0], x[1], 0))
MAKE(elements_columns, dt_gather_elements(t, dt_transpose(t, x[0], 0, 1), x[1], 1))
MAKE(elements_fused, dt_neg(t, dt_gather_elements(t, dt_add(t, x[0], x[0]), x[1], 0)))
MAKE(nd_rows, dt_gather_nd(t, x[0], x[1], 0))
MAKE(nd_elements, dt_gather_nd(t, dt_matmul(t, x[0], dt_transpose(t, x[0], 0, 1)), x[1], 0))
MAKE(nd_batches, dt_gather_nd(t, dt_transpose(t, x[0], 0, 1), x[1], 1))
MAKE(scatter_rows, dt_scatter_elements(t, x[0], x[1], x[2], 0, DT_SCATTER_REPLACE))
MAKE(scatter_add, dt_scatter_elements(t, x[0], x[1], x[2], 0, DT_SCATTER_ADD))
MAKE(scatter_mul, dt_scatter_elements(t, x[0], x[1], x[2], 0, DT_SCATTER_MUL))
MAKE(scatter_max, dt_scatter_elements(t, x[0], x[1], x[2], 0, DT_SCATTER_MAX))
MAKE(scatter_min, dt_scatter_elements(t, x[0], x[1], x[2], 0, DT_SCATTER_MIN))
MAKE(scatter_columns, dt_transpose(t,
                                   dt_scatter_elements(t, dt_neg(t, dt_transpose(t, x[0], 0, 1)),
                                                       x[1], x[2], 1, DT_SCATTER_ADD),
                                   0, 1))
// What is scattered is read before and after, and another scatter starts from it.
static v_t make_scatter_fused(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  v_t y = dt_add(t, x[0], x[0]);
  v_t once = dt_scatter_elements(t, y, x[1], dt_mul(t, x[2], x[2]), 0, DT_SCATTER_ADD);
  v_t twice = dt_scatter_elements(t, once, x[1], x[2], 0, DT_SCATTER_REPLACE);
  return dt_add(t, dt_sub(t, twice, y), once);
}
// The first column takes the place of another, by row.
MAKE(update_columns,
     dt_update_slice(t, x[0], dt_slice_range(t, x[0], 1, dt_sym_const(t, 0), dt_sym_const(t, 1), 1),
                     x[1], 1, DT_UPDATE_CLAMPED))
MAKE(scatter_nd_rows, dt_scatter_nd(t, x[0], x[1], x[2], DT_SCATTER_REPLACE))
MAKE(scatter_nd_add, dt_scatter_nd(t, x[0], x[1], x[2], DT_SCATTER_ADD))
MAKE(scatter_nd_max, dt_scatter_nd(t, x[0], x[1], x[2], DT_SCATTER_MAX))

// ---- Order ----------------------------------------------------------------------------------------
// Which elements, and where they were: of equal ones, the first.
#define ORDERED(id, which, ...)                                                                    \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    v_t y[2] = {{0}};                                                                              \
    (void)dtype;                                                                                   \
    __VA_ARGS__;                                                                                   \
    return y[which];                                                                               \
  }
#define HALF(t, x, d) dt_sym_floordiv(t, dt_dim(t, x, d), dt_sym_const(t, 2))
ORDERED(sort_up, 0, dt_sort(t, x[0], 1, false, &y[0], &y[1]))
ORDERED(sort_up_places, 1, dt_sort(t, x[0], 1, false, &y[0], &y[1]))
ORDERED(sort_down, 0, dt_sort(t, x[0], 0, true, &y[0], &y[1]))
ORDERED(sort_down_places, 1, dt_sort(t, x[0], 0, true, &y[0], &y[1]))
ORDERED(topk_columns, 0, dt_topk(t, x[0], HALF(t, x[0], 1), 1, true, &y[0], &y[1]))
ORDERED(topk_rows, 1, dt_topk(t, dt_add(t, x[0], x[0]), HALF(t, x[0], 0), 0, false, &y[0], &y[1]))

// ---- Cases ----------------------------------------------------------------------------------------
#define AT(dtype, rank, ...) INPUT(dtype, FILL_INDEX_M, rank, __VA_ARGS__)
#define ROW(op, form, dtypes, needs_rows, make, ...)                                               \
  {"index",                                                                                        \
   op,                                                                                             \
   form,                                                                                           \
   dtypes,                                                                                         \
   sizeof((input_t[]){__VA_ARGS__}) / sizeof(input_t),                                             \
   {__VA_ARGS__},                                                                                  \
   needs_rows,                                                                                     \
   make_##make}
#define CASE(op, form, dtypes, make, ...) ROW(op, form, dtypes, true, make, __VA_ARGS__)
#define CASE_0(op, form, dtypes, make, ...) ROW(op, form, dtypes, false, make, __VA_ARGS__)

const case_t index_cases[] = {
    CASE("gather_elements", "rows", T_ALL, elements_rows, ANY(2, MN), AT(DT_I64, 2, 5, DIM_N)),
    CASE("gather_elements", "columns", T_F32, elements_columns, ANY(2, MN),
         AT(DT_I32, 2, DIM_N, 3)),
    CASE("gather_elements", "fused", T_F32 | T_F16, elements_fused, ANY(2, MN),
         AT(DT_I64, 2, DIM_M, DIM_N)),
    CASE("gather_nd", "rows", T_F32 | T_BOOL, nd_rows, ANY(2, MN), AT(DT_I64, 3, DIM_N, 2, 1)),
    CASE("gather_nd", "elements", T_F32, nd_elements, SMALL(2, MN), AT(DT_I32, 2, DIM_N, 2)),
    CASE("gather_nd", "batches", T_F32 | T_BOOL, nd_batches, ANY(2, MN),
         AT(DT_I64, 3, DIM_N, 3, 1)),
    CASE("scatter_elements", "rows", T_ALL, scatter_rows, ANY(2, MN), AT(DT_I64, 2, 5, DIM_N),
         ANY(2, 5, DIM_N)),
    CASE("scatter_elements", "add", T_NUMBER, scatter_add, ANY(2, MN), AT(DT_I32, 2, 5, DIM_N),
         ANY(2, 5, DIM_N)),
    CASE("scatter_elements", "mul", T_F64 | T_INT, scatter_mul, ANY(2, MN), AT(DT_I64, 2, 5, DIM_N),
         ANY(2, 5, DIM_N)),
    CASE("scatter_elements", "max", T_BF16 | T_F32, scatter_max, ANY(2, MN),
         AT(DT_I64, 2, 5, DIM_N), ANY(2, 5, DIM_N)),
    CASE("scatter_elements", "min", T_F32 | T_INT, scatter_min, ANY(2, MN), AT(DT_I64, 2, 5, DIM_N),
         ANY(2, 5, DIM_N)),
    CASE("scatter_elements", "columns", T_F32, scatter_columns, ANY(2, MN), AT(DT_I64, 2, DIM_N, 6),
         ANY(2, DIM_N, 6)),
    CASE("scatter_elements", "fused", T_F16 | T_F32, scatter_fused, FINITE(2, MN),
         AT(DT_I64, 2, DIM_M, DIM_N), FINITE(2, MN)),
    CASE_0("scatter_elements", "slices", T_F32 | T_F16 | T_BOOL, update_columns, ANY(2, MN),
           COUNTS(1, DIM_M)),
    CASE("scatter_nd", "rows", T_F16 | T_BOOL, scatter_nd_rows, ANY(2, MN), AT(DT_I64, 3, 4, 2, 1),
         ANY(3, 4, 2, DIM_N)),
    CASE("scatter_nd", "add", T_BF16 | T_INT, scatter_nd_add, ANY(2, MN), AT(DT_I32, 2, DIM_N, 1),
         ANY(2, DIM_N, DIM_N)),
    CASE("scatter_nd", "max", T_F32 | T_INT, scatter_nd_max, ANY(1, DIM_M), AT(DT_I64, 2, DIM_N, 1),
         ANY(1, DIM_N)),
    CASE_0("sort", "ascending", T_NUMBER, sort_up, ANY(2, MN)),
    CASE_0("sort", "ascending, places", T_F32 | T_F16 | T_INT, sort_up_places, ANY(2, MN)),
    CASE_0("sort", "ascending, places of equal ones", T_F32 | T_INT, sort_up_places, SMALL(2, MN)),
    CASE_0("sort", "descending", T_NUMBER, sort_down, ANY(2, MN)),
    CASE_0("sort", "descending, places", T_F32 | T_BF16, sort_down_places, ANY(2, MN)),
    CASE_0("sort", "descending, places of equal ones", T_F32 | T_INT, sort_down_places,
           SMALL(2, MN)),
    CASE_0("topk", "largest", T_F32 | T_INT, topk_columns, ANY(2, MN)),
    CASE_0("topk", "smallest, places", T_F32 | T_INT, topk_rows, SMALL(2, MN)),
};
const uint32_t n_index_cases = sizeof(index_cases) / sizeof(index_cases[0]);
