// SPDX-License-Identifier: Apache-2.0
// Interpolation along one dim. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_RESIZE_H
#define DT_FRONTENDS_ONNX_IMPORT_RESIZE_H

#include "frontends/onnx/import/nn.h"

#define DT_IMP_REAL DT_F32

typedef enum dt_imp_resize_mode_t {
  DT_IMP_NEAREST = 0,
  DT_IMP_LINEAR = 1,
  DT_IMP_CUBIC = 2,
} dt_imp_resize_mode_t;

typedef enum dt_imp_rounding_t {
  DT_IMP_ROUND_DOWN = 0, // to nearest, halves down
  DT_IMP_ROUND_UP = 1,
  DT_IMP_FLOOR = 2,
  DT_IMP_CEIL = 3,
} dt_imp_rounding_t;

// Where a result's element lies in x.
typedef enum dt_imp_way_t {
  DT_IMP_HALF_PIXEL = 0,
  DT_IMP_HALF_PIXEL_SYMMETRIC = 1,
  DT_IMP_PYTORCH_HALF_PIXEL = 2,
  DT_IMP_TF_HALF_PIXEL = 3,
  DT_IMP_ALIGN_CORNERS = 4,
  DT_IMP_ASYMMETRIC = 5,
  DT_IMP_CROP = 6,
  DT_IMP_WAYS = 7,
} dt_imp_way_t;

typedef struct dt_imp_resize_t {
  dt_imp_resize_mode_t mode;
  dt_imp_rounding_t rounding;
  dt_imp_way_t way;
  bool antialias, exclude_outside;
  double cubic, outside;
} dt_imp_resize_t;

typedef struct dt_imp_resized_t {
  uint32_t dim;
  dt_sym_t in, out;
  double literal;        // the scale where it is a literal, else 0
  dt_sym_t to, from;     // the scale is their ratio; none: it is no ratio of sizes
  dt_value_t scale;      // f64, rank 0
  dt_value_t begin, end; // likewise, of the part of x that DT_IMP_CROP takes
} dt_imp_resized_t;

dt_value_t dt__imp_real(dt_imp_node_t *n, double value); // f64, rank 0
dt_value_t dt__imp_real_size(dt_imp_node_t *n, dt_sym_t size);
// x of any dtype for DT_IMP_NEAREST, else f32 or f64.
dt_value_t dt__imp_resize_dim(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                              const dt_imp_resized_t *axis);
// Weights of Keys' kernel at a distance of at most 1, and from 1 to 2. `d` is not negative.
dt_value_t dt__imp_cubic_near(dt_imp_node_t *n, dt_value_t d, double a);
dt_value_t dt__imp_cubic_far(dt_imp_node_t *n, dt_value_t d, double a);

#endif // DT_FRONTENDS_ONNX_IMPORT_RESIZE_H
