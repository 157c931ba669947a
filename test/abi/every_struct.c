// SPDX-License-Identifier: Apache-2.0
// usage: every_struct MODELS WORKER. Uses every option, result and array-element struct of the
// public headers in every way that they may be handed over. scripts/abi-growth builds it against
// headers of one age and runs it on libraries of another.
#include "test/abi/every_struct.h"

#include <time.h>

place_t place;

// ---- What is printed ------------------------------------------------------------------------------

void title(const char *name, const char *how) {
  printf("%s, %s\n", name, how);
  (void)fflush(stdout); // what a sanitizer says stands behind the line that it is about
}

bool told_code(const char *what, dt_status_t status) {
  printf("  %s: %s\n", what, dt_code_name(dt_status_code(status)));
  bool done = !status;
  dt_status_free(status);
  return done;
}

bool told(const char *what, dt_status_t status) {
  if (dt_status_code(status) == DT_E_DEADLINE)
    return told_code(what, status);
  printf("  %s: %s%s%s\n", what, dt_code_name(dt_status_code(status)), status ? ": " : "",
         dt_status_message(status));
  bool done = !status;
  dt_status_free(status);
  return done;
}

void must(dt_status_t status) {
  if (!status)
    return;
  printf("FAILED: %s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  exit(1);
}

void *exactly(size_t bytes) {
  void *memory = malloc(bytes);
  if (!memory)
    exit(1);
  memset(memory, 0, bytes);
  return memory;
}

// ---- Tensors and calls ----------------------------------------------------------------------------

dt_tensor_t *counting(uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  must(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
    ((float *)dt_tensor_data(tensor))[k] = (float)(k + 1);
  return tensor;
}

void show_tensor(const char *name, dt_tensor_t *tensor) {
  printf("  %s: %s [", name, dt_dtype_name(dt_tensor_dtype(tensor)));
  for (uint32_t d = 0; d < dt_tensor_rank(tensor); d++)
    printf("%s%lld", d ? ", " : "", (long long)dt_tensor_sizes(tensor)[d]);
  printf("]");
  if (dt_tensor_device(tensor) == DT_CPU && dt_tensor_dtype(tensor) == DT_F32)
    for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
      printf(" %g", (double)((const float *)dt_tensor_data(tensor))[k]);
  printf("\n");
  dt_tensor_release(tensor);
}

void show_declared(const dt_function_t *function) {
  for (uint32_t i = 0; i < dt_function_n_inputs(function); i++) {
    const dt_input_decl_t *input = dt_function_input(function, i);
    printf("  %s: %s, rank %u, kind %d, aligned to %u:", input->name, dt_dtype_name(input->dtype),
           input->rank, (int)input->kind, input->alignment);
    for (uint32_t d = 0; d < input->rank; d++) {
      const dt_dim_decl_t *dim = dt_function_input_dim(function, i, d);
      if (dim)
        printf(" [%s %lld-%lld %d %lld mark %d, multiple of %lld, %lld * %s + %lld]",
               dim->name ? dim->name : "?", (long long)dim->min, (long long)dim->max,
               (int)dim->is_static, (long long)dim->value, (int)dim->mark,
               (long long)dim->multiple_of, (long long)dim->scale, dim->of ? dim->of : "?",
               (long long)dim->offset);
    }
    printf("\n");
  }
}

dt_status_t doubled(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(trace, in[0], closure ? in[1] : in[0]);
  return NULL;
}

dt_function_options_t one_matrix(void) {
  static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.is_static = true, .value = 3}};
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  return (dt_function_options_t){.struct_size = sizeof(dt_function_options_t),
                                 .name = "doubled",
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .inputs = &input,
                                 .input_size = sizeof(input),
                                 .dim_size = sizeof(dims[0])};
}

void call_rows(dt_function_t *function, int64_t rows, const dt_call_options_t *options) {
  dt_tensor_t *x = counting(2, (const int64_t[]){rows, 3}), *y = NULL;
  if (told("call", dt_call(place.session, function, &x, 1, &y, 1, options)))
    show_tensor("y", y);
  dt_tensor_release(x);
}

// ---- The program ----------------------------------------------------------------------------------

int main(int argc, char **argv) {
  if (argc != 3) {
    (void)fprintf(stderr, "usage: every_struct MODELS WORKER\n");
    return 2;
  }
  place.models = argv[1];
  place.worker = argv[2];
  const dt_runtime_options_t options = {
      .struct_size = sizeof options, .threads = 2, .compile_threads = 1};
  must(dt_runtime_create(&options, &place.runtime));
  must(dt_session_create(place.runtime, NULL, &place.session));
  dt_status_t none = dt_device_count(place.runtime, DT_CUDA, &place.devices);
  dt_status_free(none); // no driver is no failure here
  every_option();
  every_element();
  every_result();
  dt_session_destroy(place.session);
  dt_runtime_release(place.runtime);
  return 0;
}
