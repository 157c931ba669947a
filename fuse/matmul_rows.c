// SPDX-License-Identifier: Apache-2.0
// See matmul_rows.h.
#include "fuse/matmul_rows.h"

// The tile column.
enum { TILE_4 = 0, TILE_8 = 1 };

// The needs column.
static bool needs_none(const dt_target_t *target) {
  (void)target;
  return true;
}

static bool needs_dot_products(const dt_target_t *target) { return target->dot_products != 0; }

static const struct {
  dt_matmul_row_t row;
  bool (*has)(const dt_target_t *target);
} rows[] = {
#define MATMUL(id, left, right, sums, bytes, step, needs, how)                                     \
  {{.name = #id,                                                                                   \
    .a = DT_##left,                                                                                \
    .b = DT_##right,                                                                               \
    .sum = DT_##sums,                                                                              \
    .tile = TILE_##bytes,                                                                          \
    .k_step = step,                                                                                \
    .body = DT_MATMUL_BODY_##how},                                                                 \
   needs_##needs},
#include "fuse/matmul_rows.def"
};

#define MATMUL(name, a, b, sum, tile, k_step, needs, body)                                         \
  _Static_assert((k_step) >= 1, #name " steps over k");
#include "fuse/matmul_rows.def"

const dt_matmul_row_t *dt__matmul_row(const dt_target_t *target, dt_dtype_t a, dt_dtype_t b,
                                      dt_dtype_t sum, const char **out_why) {
  *out_why = "there is none for these dtypes";
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    const dt_matmul_row_t *row = &rows[k].row;
    if (row->a != a || row->b != b || row->sum != sum)
      continue;
    if (!rows[k].has(target))
      *out_why = "the target lacks what it needs";
    else if (target->matmul_width[row->tile] == 0)
      *out_why = "the target has no register tile for this element size";
    else
      return row;
  }
  return NULL;
}
