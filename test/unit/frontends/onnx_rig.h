// SPDX-License-Identifier: Apache-2.0
// What tests of operators share: pieces of a model's text, the model as a compiled and as an
// evaluated function, and comparing both with numbers in double.
#ifndef DT_TESTS_UNIT_FRONTENDS_ONNX_RIG_H
#define DT_TESTS_UNIT_FRONTENDS_ONNX_RIG_H

#include "ductile/onnx.h"
#include "test/support/fixture.h"
#include "test/unit/frontends/onnx_text.h"

#define OPEN(name) "dim { dim_param '" name "' } "
#define SIZE(value) "dim { dim_value " #value " } "
#define INPUT(name, dtype, dims)                                                                   \
  "input { name '" name "' type { tensor_type { elem_type " dtype " shape { " dims " } } } } "
#define OUTPUT(name) "output { name '" name "' } "
#define INT(name, value) "attribute { name '" name "' type 2 i " value " } "
#define REAL(name, value) "attribute { name '" name "' type 1 f " value " } "
#define REALS(name, values) "attribute { name '" name "' type 6 floats [ " values " ] } "
#define TEXT(name, value) "attribute { name '" name "' type 3 s '" value "' } "
#define MS "domain 'com.microsoft' "
#define ML "domain 'ai.onnx.ml' "

enum { RIG_MOST_OUT = 40 };

typedef struct rig_model_t {
  dt_function_t *compiled, *evaluated;
  uint32_t n_out;
  onnx_bytes_t bytes; // which the functions read as long as they are
} rig_model_t;

// A function of the file that answers so.
dt_function_t *rig_function(const fixture_t *fixture, dt_onnx_t *file, dt_answer_t answer);
// A model of operator set 21, com.microsoft 1 and ai.onnx.ml 3 with this graph.
rig_model_t rig_open(const fixture_t *fixture, const char *graph);
// The same of another operator set.
rig_model_t rig_open_at(const fixture_t *fixture, int opset, const char *graph);
// Fails where compiled code has more than `variants` variants.
void rig_close(rig_model_t *model, uint32_t variants);

// A tensor of random elements: floats in [-1, 1), integers in [low, high].
dt_tensor_t *rig_floats(fixture_t *fixture, uint32_t rank, const int64_t *sizes);
dt_tensor_t *rig_integers(fixture_t *fixture, dt_dtype_t dtype, int64_t low, int64_t high,
                          uint32_t rank, const int64_t *sizes);
double rig_get(const dt_tensor_t *tensor, int64_t k);
void rig_put(dt_tensor_t *tensor, int64_t k, double value);

typedef struct rig_want_t {
  const char *what;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  const double *values;
  double rtol; // of floats, and absolutely, too; integers are exact
} rig_want_t;

// Both functions on the same inputs, against want[0 … n_out - 1]. Releases the inputs; those that
// are NULL are not there.
void rig_run(const fixture_t *fixture, const rig_model_t *model, dt_tensor_t **in, uint32_t n_in,
             const rig_want_t *want);

#endif // DT_TESTS_UNIT_FRONTENDS_ONNX_RIG_H
