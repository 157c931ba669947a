// SPDX-License-Identifier: Apache-2.0
// Public structs of callers that are older or newer than the library: every row of structs.def is
// handed over at its least size with garbage right behind it, below that, and longer than the
// library knows. Results are never written beyond the caller's size.
#include "test/support/check.h"

#include "ductile/accessor.h"
#include "ductile/chain.h"
#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "ductile/onnx.h"
#include "ductile/package.h"
#include "ductile/pass.h"
#include "ductile/pattern.h"
#include "ductile/safetensors.h"
#include "test/unit/frontends/onnx_text.h"

#include <stdio.h>
#include <string.h>

enum { GUARD = 0xA5, ROOM = 8192 };

static dt_runtime_t *runtime;
static dt_session_t *session;
static dt_function_t *function;

// ---- One call for each struct -------------------------------------------------------------------

static dt_status_t negate(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(trace, in[0]);
  return NULL;
}

static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};

static dt_status_t use_dt_tensor_desc_t(void *given) {
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create(given, &tensor);
  dt_tensor_release(tensor);
  return status;
}

static dt_status_t use_options(const dt_runtime_options_t *options) {
  dt_runtime_t *own = NULL;
  dt_status_t status = dt_runtime_create(options, &own);
  dt_runtime_release(own);
  return status;
}

static dt_status_t use_dt_runtime_options_t(void *given) { return use_options(given); }

static void *no_memory(void *user, size_t bytes, size_t alignment) {
  (void)user, (void)bytes, (void)alignment;
  return NULL;
}

static void give_nothing(void *user, void *memory, size_t bytes) {
  (void)user, (void)memory, (void)bytes;
}

static void run_nothing(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user, (void)n, (void)fn, (void)arg;
}

static dt_status_t use_dt_allocator_t(void *given) {
  return use_options(
      &(dt_runtime_options_t){.struct_size = sizeof(dt_runtime_options_t), .allocator = given});
}

static dt_status_t use_dt_executor_t(void *given) {
  return use_options(
      &(dt_runtime_options_t){.struct_size = sizeof(dt_runtime_options_t), .executor = given});
}

static dt_status_t use_dt_function_options_t(void *given) {
  dt_function_t *own = NULL;
  dt_status_t status = dt_function_create(runtime, negate, NULL, given, &own);
  dt_function_release(own);
  return status;
}

static dt_status_t use_dt_prepare_options_t(void *given) {
  return dt_function_prepare(function, given);
}

static dt_status_t use_dt_session_options_t(void *given) {
  dt_session_t *own = NULL;
  dt_status_t status = dt_session_create(runtime, given, &own);
  dt_session_destroy(own);
  return status;
}

static dt_status_t use_dt_call_options_t(void *given) {
  float data[3] = {1, 2, 3};
  const dt_tensor_desc_t desc = {
      .dtype = DT_F32, .rank = 1, .sizes = (const int64_t[]){3}, .data = data};
  dt_tensor_t *x = NULL, *y = NULL;
  assert_null(dt_tensor_create(&desc, &x));
  dt_status_t status = dt_call(session, function, &x, 1, &y, 1, given);
  if (!status)
    assert_true(((const float *)dt_tensor_data(y))[2] == -3);
  dt_tensor_release(x);
  dt_tensor_release(y);
  return status;
}

static const char relu[] =
    "ir_version 8 opset_import { version 17 } graph { name 'g' "
    "node { op_type 'Relu' input 'x' output 'y' } "
    "input { name 'x' type { tensor_type { elem_type 1 shape { dim { dim_param 'n' } } } } } "
    "output { name 'y' type { tensor_type { elem_type 1 shape { dim { dim_param 'n' } } } } } }";

static onnx_bytes_t model;

static dt_status_t open_model(const void *options, dt_onnx_t **out) {
  return dt_onnx_open_memory(model.data, model.len, options, out);
}

static dt_status_t use_dt_onnx_options_t(void *given) {
  dt_onnx_t *file = NULL;
  dt_status_t status = open_model(given, &file);
  dt_onnx_close(file);
  return status;
}

static dt_status_t use_dt_onnx_function_options_t(void *given) {
  dt_onnx_t *file = NULL;
  dt_function_t *own = NULL;
  assert_null(open_model(NULL, &file));
  dt_status_t status = dt_onnx_function_create(runtime, file, given, &own);
  dt_function_release(own);
  dt_onnx_close(file);
  return status;
}

static dt_status_t use_dt_safetensors_options_t(void *given) {
  static const unsigned char empty[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  dt_safetensors_t *file = NULL;
  dt_status_t status = dt_safetensors_open_memory(empty, sizeof(empty), given, &file);
  dt_safetensors_close(file);
  return status;
}

static dt_status_t use_dt_safetensors_info_t(void *given) {
  static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}  ";
  unsigned char bytes[8 + sizeof(header)] = {sizeof(header) - 1};
  memcpy(bytes + 8, header, sizeof(header)); // whose end is the tensor's byte
  dt_safetensors_t *file = NULL;
  assert_null(dt_safetensors_open_memory(bytes, sizeof(bytes), NULL, &file));
  dt_status_t status = dt_safetensors_find(file, "t", given);
  dt_safetensors_close(file);
  return status;
}

static dt_status_t use_dt_function_stats_t(void *given) {
  return dt_function_stats(function, given);
}

static dt_status_t use_dt_function_counters_t(void *given) {
  return dt_function_counters(function, given);
}

static dt_status_t use_dt_session_counters_t(void *given) {
  return dt_session_counters(session, given);
}

static dt_status_t use_dt_session_stats_t(void *given) { return dt_session_stats(session, given); }

static dt_status_t use_dt_runtime_stats_t(void *given) { return dt_runtime_stats(runtime, given); }

static dt_status_t use_dt_device_info_t(void *given) {
  return dt_device_info(runtime, DT_CPU, 0, given);
}

static dt_status_t look(dt_rewriter_t *rewriter, void *closure) {
  return dt_rewriter_node(rewriter, dt_rewriter_next(rewriter, (dt_value_t){0}), closure);
}

static dt_status_t use_dt_pass_options_t(void *given) {
  dt_status_t status = dt_runtime_add_pass(runtime, DT_POINT_TRACED, look, NULL, given);
  if (!status)
    expect_ok(dt_runtime_remove_pass(runtime, "look"));
  return status;
}

static dt_status_t use_dt_node_info_t(void *given) {
  dt_function_t *own = NULL;
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "look"};
  const dt_function_options_t options = {
      .name = "f", .n_inputs = 1, .n_outputs = 1, .inputs = &input, .answer = DT_ANSWER_EVALUATOR};
  expect_ok(dt_runtime_add_pass(runtime, DT_POINT_TRACED, look, given, &pass));
  expect_ok(dt_function_create(runtime, negate, NULL, &options, &own));
  dt_status_t status = dt_function_prepare(own, NULL);
  dt_function_release(own);
  expect_ok(dt_runtime_remove_pass(runtime, "look"));
  return status;
}

static dt_status_t no_infer(dt_op_call_t *call, void *closure) {
  (void)call, (void)closure;
  return NULL;
}

static dt_status_t no_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  (void)args, (void)begin, (void)end;
  return NULL;
}

static dt_status_t use_dt_op_options_t(void *given) {
  dt_status_t status = dt_op_register(runtime, given);
  if (!status)
    expect_ok(dt_op_remove(runtime, "growth.op"));
  return status;
}

static dt_status_t use_dt_op_device_kernel_t(void *given) {
  const dt_op_options_t op = {
      .struct_size = sizeof(op), .name = "growth.op", .infer = no_infer, .device_kernel = given};
  return use_dt_op_options_t((void *)(uintptr_t)&op);
}

static dt_status_t keep(dt_match_t *match, dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                        void *closure) {
  (void)match;
  return negate(trace, in, out, closure);
}

static const dt_wildcard_t wildcard = {.name = "x"};

static dt_status_t use_dt_pattern_options_t(void *given) {
  dt_pattern_t *pattern = NULL;
  dt_status_t status = dt_pattern_create(negate, keep, NULL, NULL, given, &pattern);
  dt_pattern_release(pattern);
  return status;
}

static dt_status_t link(dt_session_t *own, dt_tensor_t *const *inputs, uint32_t n_inputs,
                        dt_tensor_t **outputs, uint32_t n_outputs, void *closure) {
  (void)own, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs, (void)closure;
  return NULL;
}
static const dt_chain_link_t one_link = {.fn = link};

static dt_status_t use_dt_chain_options_t(void *given) {
  dt_chain_t *chain = NULL;
  dt_status_t status = dt_chain_create(runtime, given, &chain);
  dt_chain_release(chain);
  return status;
}

// There is no such file, and no function; options are taken before.
static dt_status_t use_dt_package_write_options_t(void *given) {
  dt_function_t *none = NULL;
  dt_status_t status = dt_package_write("/nowhere/none.dtp", &none, 1, given);
  if (dt_status_code(status) != DT_E_ARGUMENT || !strstr(dt_status_message(status), "functions[0]"))
    return status;
  dt_status_free(status);
  return NULL;
}

static dt_status_t use_dt_package_options_t(void *given) {
  static const _Alignas(64) char bytes[64];
  dt_package_t *package = NULL;
  dt_status_t status = dt_package_open_memory(runtime, bytes, 1, given, &package);
  if (dt_status_code(status) != DT_E_FORMAT)
    return status;
  dt_status_free(status);
  return NULL;
}

static dt_status_t use_dt_dlpack_options_t(void *given) {
  dt_dlpack_managed_t *managed = NULL;
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create_empty(DT_F32, 0, NULL, &tensor);
  if (!status)
    status = dt_tensor_to_dlpack(tensor, given, &managed);
  if (managed)
    managed->deleter(managed);
  dt_tensor_release(tensor);
  return status;
}

// The evaluator's answers are not tuned, which is told behind the options.
static dt_status_t use_dt_tune_options_t(void *given) {
  dt_status_t status = dt_function_tune(session, function, given, NULL);
  if (!strstr(dt_status_message(status), "the reference evaluator answers"))
    return status;
  dt_status_free(status);
  return NULL;
}

static dt_status_t use_dt_profile_options_t(void *given) {
  dt_profile_t *profile = NULL;
  dt_status_t status = dt_profile_start(runtime, given, &profile);
  dt_profile_free(profile);
  return status;
}

// ---- The rows -----------------------------------------------------------------------------------

typedef struct row_t {
  const char *name;
  size_t least, known;
  dt_status_t (*use)(void *given);
} row_t;

static const row_t rows[] = {
#define GROWS(type, least) {#type, least, sizeof(type), use_##type},
#include "runtime/base/structs.def"
};

static bool is_result(const row_t *row) {
  return strstr(row->name, "_stats_t") || strstr(row->name, "_counters_t") ||
         strstr(row->name, "_info_t");
}

// What must be said for the call to succeed.
static void fill(const row_t *row, void *given) {
  if (row->use == use_dt_tensor_desc_t) {
    dt_tensor_desc_t *desc = given;
    desc->dtype = DT_F32;
    desc->data = &runtime; // aligned, never read
  }
  if (row->use == use_dt_allocator_t) {
    dt_allocator_t *allocator = given;
    allocator->take = no_memory;
    allocator->give = give_nothing;
  }
  if (row->use == use_dt_executor_t)
    ((dt_executor_t *)given)->run = run_nothing;
  if (row->use == use_dt_function_options_t) {
    dt_function_options_t *options = given;
    options->name = "f";
    options->n_inputs = options->n_outputs = 1;
    options->inputs = &input;
    options->answer = DT_ANSWER_EVALUATOR;
  }
  if (row->use == use_dt_pass_options_t)
    ((dt_pass_options_t *)given)->name = "look";
  if (row->use == use_dt_op_options_t) {
    dt_op_options_t *options = given;
    options->name = "growth.op";
    options->infer = no_infer;
    options->kernel = no_kernel;
  }
  if (row->use == use_dt_op_device_kernel_t) {
    dt_op_device_kernel_t *kernel = given;
    kernel->device = DT_CUDA;
    kernel->entry = "entry";
    kernel->text = "text";
    kernel->threads = 32;
  }
  if (row->use == use_dt_chain_options_t) {
    dt_chain_options_t *options = given;
    options->n_links = 1;
    options->links = &one_link;
  }
  if (row->use == use_dt_pattern_options_t) {
    dt_pattern_options_t *options = given;
    options->name = "look";
    options->n_wildcards = options->n_outputs = 1;
    options->wildcards = &wildcard;
  }
  if (row->use == use_dt_runtime_options_t)
    ((dt_runtime_options_t *)given)->threads = 1;
}

// A struct of `size` bytes, of which the library knows `known`, with garbage behind all of it.
static uint32_t *lay_out(const row_t *row, size_t size) {
  static _Alignas(16) unsigned char room[ROOM];
  memset(room, GUARD, sizeof(room));
  memset(room, 0, is_result(row) ? 0 : size);
  fill(row, room);
  uint32_t said = (uint32_t)size;
  memcpy(room, &said, sizeof(said));
  return (uint32_t *)(void *)room;
}

static void expect(const row_t *row, size_t size, void *given, dt_code_t code) {
  char what[96];
  (void)snprintf(what, sizeof(what), "%s of %zu bytes", row->name, size);
  expect_told_of(what, row->use(given), code, "");
}

static void expect_guarded(const row_t *row, const void *given, size_t size) {
  const unsigned char *bytes = given;
  uint32_t said = 0;
  memcpy(&said, given, sizeof(said));
  assert_int_equal(said, size);
  for (size_t i = size < sizeof(said) ? sizeof(said) : size; i < size + 256; i++) {
    if (bytes[i] != GUARD)
      print_error("%s of %zu bytes: byte %zu was written\n", row->name, size, i);
    assert_int_equal(bytes[i], GUARD);
  }
}

#define EACH_ROW(row)                                                                              \
  for (const row_t *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++)

static void older_structs_are_taken(void **state) {
  (void)state;
  EACH_ROW(row) {
    void *given = lay_out(row, row->least);
    expect(row, row->least, given, DT_OK);
    expect_guarded(row, given, row->least);
  }
}

static void shorter_options_are_refused(void **state) {
  (void)state;
  EACH_ROW(row) {
    size_t size = is_result(row) ? 3 : row->least - 1;
    void *given = lay_out(row, size);
    expect(row, size, given, DT_E_ARGUMENT);
    expect_guarded(row, given, size);
    expect(row, ROOM, lay_out(row, ROOM / 2 + 1), DT_E_ARGUMENT);
  }
}

static void newer_structs_are_taken_while_zero(void **state) {
  (void)state;
  EACH_ROW(row) {
    size_t size = row->known + 24;
    unsigned char *given = (unsigned char *)lay_out(row, size);
    expect(row, size, given, DT_OK);
    expect_guarded(row, given, size);
    for (size_t i = row->known; i < size; i++)
      assert_int_equal(given[i], 0);
    if (is_result(row))
      continue;
    given[size - 1] = 1;
    expect(row, size, given, DT_E_UNSUPPORTED);
  }
}

static void results_end_where_the_caller_says(void **state) {
  (void)state;
  EACH_ROW(row) {
    if (!is_result(row))
      continue;
    void *given = lay_out(row, 8);
    expect(row, 8, given, DT_OK);
    expect_guarded(row, given, 8);
  }
}

// ---- Elements of arrays -------------------------------------------------------------------------

// Declarations of a program that is newer than the library: each has more behind it.
typedef struct later_dim_t {
  dt_dim_decl_t known;
  uint64_t later[8];
} later_dim_t;
typedef struct later_input_t {
  dt_input_decl_t known;
  uint64_t later[8];
} later_input_t;
typedef struct later_output_t {
  dt_output_decl_t known;
  uint64_t later[8];
} later_output_t;
typedef struct later_wildcard_t {
  dt_wildcard_t known;
  uint64_t later[8];
} later_wildcard_t;

typedef struct later_link_t {
  dt_chain_link_t known;
  uint64_t later[8];
} later_link_t;

static void links_are_as_large_as_said(void **state) {
  (void)state;
  later_link_t links[2] = {{.known = {.fn = link, .n_outputs = 1}}, {.known = {.fn = link}}};
  dt_chain_source_t result = {1, 0};
  dt_chain_options_t options = {.struct_size = sizeof(options),
                                .n_links = 2,
                                .n_results = 1,
                                .link_size = sizeof(links[0]),
                                .links = &links[0].known,
                                .results = &result};
  dt_chain_t *chain = NULL;
  assert_null(dt_chain_create(runtime, &options, &chain));
  dt_chain_release(chain);
  links[1].later[3] = 1;
  expect_told(dt_chain_create(runtime, &options, &chain), DT_E_UNSUPPORTED, "dt_chain_link_t");
}

static dt_status_t add(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], in[1]);
  return NULL;
}

// A function of x [n, 3] and y [n, 3], made of `inputs` as they lie.
static dt_status_t make_sum(const void *inputs, uint32_t input_size, uint32_t dim_size,
                            dt_function_t **out) {
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "sum",
                                         .n_inputs = 2,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = input_size,
                                         .dim_size = dim_size,
                                         .answer = DT_ANSWER_EVALUATOR};
  return dt_function_create(runtime, add, NULL, &options, out);
}

static dt_status_t keep_sum(dt_match_t *match, dt_trace_t *trace, const dt_value_t *in,
                            dt_value_t *out, void *closure) {
  (void)match;
  return add(trace, in, out, closure);
}

static void wildcards_are_as_large_as_said(void **state) {
  (void)state;
  later_dim_t dims[2] = {{.known = {.name = "n"}}, {.known = {.is_static = true, .value = 3}}};
  later_wildcard_t wildcards[2] = {
      {.known = {.name = "x", .ranked = true, .rank = 2, .dims = &dims[0].known}},
      {.known = {.name = "y", .same_dtype = "x"}}};
  dt_pattern_options_t options = {.struct_size = sizeof(options),
                                  .name = "sum",
                                  .n_wildcards = 2,
                                  .n_outputs = 1,
                                  .wildcard_size = sizeof(wildcards[0]),
                                  .dim_size = sizeof(dims[0]),
                                  .wildcards = &wildcards[0].known};
  dt_pattern_t *pattern = NULL;
  assert_null(dt_pattern_create(add, keep_sum, NULL, NULL, &options, &pattern));
  dt_pattern_release(pattern);
  dims[1].later[7] = 1;
  expect_told(dt_pattern_create(add, keep_sum, NULL, NULL, &options, &pattern), DT_E_UNSUPPORTED,
              "dt_dim_decl_t");
  dims[1].later[7] = 0;
  wildcards[1].later[0] = 1;
  expect_told(dt_pattern_create(add, keep_sum, NULL, NULL, &options, &pattern), DT_E_UNSUPPORTED,
              "dt_wildcard_t");
}

static void elements_are_as_large_as_said(void **state) {
  (void)state;
  later_dim_t dims[2] = {{.known = {.name = "n", .max = 9}},
                         {.known = {.is_static = true, .value = 3}}};
  later_input_t inputs[2] = {
      {.known = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = &dims[0].known}},
      {.known = {.name = "y", .dtype = DT_F32, .rank = 2, .dims = &dims[0].known}}};
  dt_function_t *sum = NULL;
  assert_null(make_sum(inputs, sizeof(inputs[0]), sizeof(dims[0]), &sum));
  assert_string_equal(dt_function_input(sum, 1)->name, "y");
  assert_int_equal(dt_function_input_dim(sum, 1, 0)->max, 9);
  assert_int_equal(dt_function_input_dim(sum, 1, 1)->value, 3);
  dt_function_release(sum);
  dt_input_decl_t plain[2] = {inputs[0].known, inputs[1].known};
  plain[0].dims = plain[1].dims = NULL;
  assert_null(make_sum(plain, 0, 0, &sum)); // the size of version 0.1
  assert_string_equal(dt_function_input(sum, 1)->name, "y");
  dt_function_release(sum);
  dims[1].later[7] = 1;
  expect_code(make_sum(inputs, sizeof(inputs[0]), sizeof(dims[0]), &sum), DT_E_UNSUPPORTED);
  expect_code(make_sum(inputs, sizeof(inputs[0].known) - 1, sizeof(dims[0]), &sum), DT_E_ARGUMENT);
}

static void outputs_are_as_large_as_said(void **state) {
  (void)state;
  const uint32_t order[1] = {0};
  later_output_t outputs[2] = {{.known = {.name = "y", .order = order, .rank = 1}},
                               {.known = {.name = "z", .may_alias_input = true}}};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "two",
                                   .n_inputs = 1,
                                   .n_outputs = 2,
                                   .inputs = &input,
                                   .answer = DT_ANSWER_EVALUATOR,
                                   .outputs = &outputs[0].known,
                                   .output_size = sizeof(outputs[0])};
  dt_function_t *two = NULL;
  expect_ok(dt_function_create(runtime, negate, NULL, &options, &two));
  dt_function_release(two);
  outputs[1].later[7] = 1;
  expect_told(dt_function_create(runtime, negate, NULL, &options, &two), DT_E_UNSUPPORTED,
              "dt_output_decl_t");
  options.output_size = sizeof(dt_output_decl_t) - 1;
  expect_code(dt_function_create(runtime, negate, NULL, &options, &two), DT_E_ARGUMENT);
  const dt_output_decl_t plain[2] = {outputs[0].known, outputs[1].known};
  options.outputs = plain;
  options.output_size = 0; // the size of the first version
  expect_ok(dt_function_create(runtime, negate, NULL, &options, &two));
  dt_function_release(two);
}

static int setup(void **state) {
  (void)state;
  const dt_function_options_t options = {.name = "negate",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .answer = DT_ANSWER_EVALUATOR};
  model = onnx_make(&dt__onnx_model_message, relu);
  assert_null(dt_runtime_create(NULL, &runtime));
  assert_null(dt_session_create(runtime, NULL, &session));
  assert_null(dt_function_create(runtime, negate, NULL, &options, &function));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  onnx_free(&model);
  return 0;
}

RUN_TESTS_WITH(setup, teardown, TEST(older_structs_are_taken), TEST(shorter_options_are_refused),
               TEST(newer_structs_are_taken_while_zero), TEST(results_end_where_the_caller_says),
               TEST(elements_are_as_large_as_said), TEST(outputs_are_as_large_as_said),
               TEST(wildcards_are_as_large_as_said), TEST(links_are_as_large_as_said))
