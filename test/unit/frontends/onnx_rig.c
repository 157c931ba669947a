// SPDX-License-Identifier: Apache-2.0
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Models -----------------------------------------------------------------------------------------
dt_function_t *rig_function(const fixture_t *fixture, dt_onnx_t *file, dt_answer_t answer) {
  dt_function_options_t about = {.struct_size = sizeof about, .answer = answer};
  dt_onnx_function_options_t options = {.struct_size = sizeof options, .function = &about};
  dt_function_t *made = NULL;
  expect_ok(dt_onnx_function_create(fixture->runtime, file, &options, &made));
  return made;
}

rig_model_t rig_open(const fixture_t *fixture, const char *graph) {
  return rig_open_at(fixture, 21, graph);
}

rig_model_t rig_open_at(const fixture_t *fixture, int opset, const char *graph) {
  size_t room = strlen(graph) + 256;
  char *text = malloc(room);
  assert_non_null(text);
  int length = snprintf(text, room,
                        "ir_version 10 opset_import { version %d } opset_import { domain "
                        "'ai.onnx.ml' version 3 } opset_import { domain 'com.microsoft' version 1 "
                        "} graph { name 'g' %s }",
                        opset, graph);
  assert_true(length > 0 && (size_t)length < room);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  free(text);
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  rig_model_t made = {rig_function(fixture, file, compiled_answer()),
                      rig_function(fixture, file, DT_ANSWER_EVALUATOR), dt_onnx_n_outputs(file),
                      bytes};
  assert_true(made.n_out <= RIG_MOST_OUT);
  dt_onnx_close(file);
  return made;
}

void rig_close(rig_model_t *model, uint32_t variants) {
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_in_range(variants_of(model->compiled), 1, variants);
  dt_function_release(model->compiled);
  dt_function_release(model->evaluated);
  onnx_free(&model->bytes);
}

// ---- Tensors ----------------------------------------------------------------------------------------
dt_tensor_t *rig_floats(fixture_t *fixture, uint32_t rank, const int64_t *sizes) {
  return tensor_f32(&fixture->rng, rank, sizes);
}

dt_tensor_t *rig_integers(fixture_t *fixture, dt_dtype_t dtype, int64_t low, int64_t high,
                          uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *made = tensor_empty(dtype, rank, sizes);
  for (int64_t k = 0; k < dt_tensor_count(made); k++)
    rig_put(made, k, (double)rng_between(&fixture->rng, low, high));
  return made;
}

double rig_get(const dt_tensor_t *tensor, int64_t k) {
  const void *data = dt_tensor_data(tensor);
  switch (dt_tensor_dtype(tensor)) {
  case DT_F32:
    return (double)((const float *)data)[k];
  case DT_F64:
    return ((const double *)data)[k];
  case DT_I64:
    return (double)((const int64_t *)data)[k];
  case DT_I32:
    return ((const int32_t *)data)[k];
  case DT_I8:
    return ((const int8_t *)data)[k];
  case DT_BOOL:
  case DT_U8:
    return ((const uint8_t *)data)[k];
  default:
    fail_msg("a tensor of %s", dt_dtype_name(dt_tensor_dtype(tensor)));
    return 0;
  }
}

void rig_put(dt_tensor_t *tensor, int64_t k, double value) {
  void *data = dt_tensor_data(tensor);
  switch (dt_tensor_dtype(tensor)) {
  case DT_F32:
    ((float *)data)[k] = (float)value;
    return;
  case DT_F64:
    ((double *)data)[k] = value;
    return;
  case DT_I64:
    ((int64_t *)data)[k] = (int64_t)value;
    return;
  case DT_I32:
    ((int32_t *)data)[k] = (int32_t)value;
    return;
  case DT_I8:
    ((int8_t *)data)[k] = (int8_t)value;
    return;
  case DT_U8:
    ((uint8_t *)data)[k] = (uint8_t)value;
    return;
  default:
    fail_msg("a tensor of %s", dt_dtype_name(dt_tensor_dtype(tensor)));
  }
}

// ---- Calls ------------------------------------------------------------------------------------------
static void expect_values(const dt_tensor_t *got, const rig_want_t *want, const char *who) {
  if (dt_tensor_rank(got) != want->rank)
    fail_msg("%s, %s: rank %u, expected %u", want->what, who, dt_tensor_rank(got), want->rank);
  for (uint32_t d = 0; d < want->rank; d++)
    if (dt_tensor_sizes(got)[d] != want->sizes[d])
      fail_msg("%s, %s: dim %u is %lld, expected %lld", want->what, who, d,
               (long long)dt_tensor_sizes(got)[d], (long long)want->sizes[d]);
  dt_dtype_t dtype = dt_tensor_dtype(got);
  bool floats = dtype == DT_F32 || dtype == DT_F64;
  for (int64_t k = 0; k < dt_tensor_count(got); k++) {
    double a = rig_get(got, k), b = want->values[k];
    double allowed = floats ? want->rtol * (1 + fabs(b)) : 0;
    if (a != b && !(fabs(a - b) <= allowed) && !(floats && isnan(a) && isnan(b)))
      fail_msg("%s, %s, element %lld: got %.9g, expected %.9g", want->what, who, (long long)k, a,
               b);
  }
}

void rig_run(const fixture_t *fixture, const rig_model_t *model, dt_tensor_t **in, uint32_t n_in,
             const rig_want_t *want) {
  dt_function_t *const functions[] = {model->compiled, model->evaluated};
  static const char *const who[] = {"compiled", "evaluated"};
  uint32_t n = 0;
  for (uint32_t k = 0; k < n_in; k++)
    if (in[k])
      in[n++] = in[k];
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *out[RIG_MOST_OUT] = {0};
    expect_ok(dt_call(fixture->session, functions[which], in, n, out, model->n_out, NULL));
    for (uint32_t k = 0; k < model->n_out; k++) {
      expect_values(out[k], &want[k], who[which]);
      dt_tensor_release(out[k]);
    }
  }
  release_tensors(in, n);
}
