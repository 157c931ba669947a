// SPDX-License-Identifier: Apache-2.0
// Structs of options: NULL, zeroed, with their size, with every field said, and with a field said
// that only newer headers have.
#include "test/abi/every_struct.h"

// What is handed over, and what is done with it. Options lie in memory of exactly their size, which
// is gone when the call has returned.
typedef struct row_t {
  const char *name, *how;
  size_t size;
  bool optional;                              // NULL is as good as zeroed
  void (*require)(void *given);               // what must be said; NULL: nothing
  void (*fill)(void *given);                  // the rest
  void (*use)(const void *given, bool later); // later: print its code alone
} row_t;

static bool later_told(const char *what, dt_status_t status, bool later) {
  return later ? told_code(what, status) : told(what, status);
}

// ---- Tensors --------------------------------------------------------------------------------------

static float elements[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const int64_t two_three[] = {2, 3}, backwards[] = {6, -1};
static int released;

static void release(void *user) { released += *(int *)user; }

static void require_desc(void *given) {
  dt_tensor_desc_t *desc = given;
  desc->dtype = DT_F32;
  desc->data = elements;
}

static void fill_desc(void *given) {
  static int one = 1;
  dt_tensor_desc_t *desc = given;
  desc->rank = 2;
  desc->sizes = two_three;
  desc->strides = backwards;
  desc->data = elements + 2;
  desc->release = release;
  desc->user = &one;
}

static void use_desc(const void *given, bool later) {
  const dt_tensor_desc_t *desc = given;
  dt_tensor_t *tensor = NULL, *y = NULL;
  released = 0;
  if (!later_told("dt_tensor_create", dt_tensor_create(desc, &tensor), later))
    return;
  (void)later_told("dt_tensor_rebind", dt_tensor_rebind(tensor, desc), later);
  printf("  released %d, rank %u, %lld elements, ordinal %d\n", released, dt_tensor_rank(tensor),
         (long long)dt_tensor_count(tensor), dt_tensor_ordinal(tensor));
  if (dt_tensor_rank(tensor) == 2) {
    dt_function_t *function = NULL;
    const dt_function_options_t options = one_matrix();
    must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
    must(dt_call(place.session, function, &tensor, 1, &y, 1, NULL));
    show_tensor("doubled", y);
    dt_function_release(function);
  }
  dt_tensor_release(tensor);
  printf("  released %d\n", released);
}

// ---- Runtimes -------------------------------------------------------------------------------------

static void fill_runtime(void *given) {
  dt_runtime_options_t *options = given;
  options->threads = 3;
  options->compile_threads = 2;
  options->max_nodes = 1000;
  options->max_compile_ns = UINT64_C(500000000000);
  options->max_compile_bytes = UINT64_C(1) << 31;
  options->max_bytes = UINT64_C(1) << 30;
  options->isolation = DT_ISOLATION_WORKER;
  options->worker_path = place.worker;
  options->max_device_bytes = UINT64_C(1) << 29;
}

static void starve_runtime(void *given) {
  dt_runtime_options_t *options = given;
  fill_runtime(given);
  options->isolation = DT_ISOLATION_IN_PROCESS;
  options->worker_path = NULL;
  options->max_nodes = 1;
}

static dt_status_t tripled(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], dt_add(trace, in[0], dt_mul(trace, in[0], in[0])));
  return NULL;
}

static void use_runtime(const void *given, bool later) {
  const dt_runtime_options_t *options = given;
  dt_runtime_t *own = NULL;
  if (!later_told("dt_runtime_create", dt_runtime_create(options, &own), later))
    return;
  dt_runtime_stats_t stats = {.struct_size = sizeof stats};
  dt_device_info_t info = {.struct_size = sizeof info};
  must(dt_runtime_stats(own, &stats));
  must(dt_device_info(own, DT_CPU, 0, &info));
  printf("  limits %llu, %llu\n", (unsigned long long)stats.max_bytes,
         (unsigned long long)stats.max_device_bytes);
  if (options && options->threads)
    printf("  threads %d\n", info.processors);
  dt_function_t *function = NULL;
  dt_function_options_t about = one_matrix();
  must(dt_function_create(own, tripled, NULL, &about, &function));
  (void)told("dt_function_prepare", dt_function_prepare(function, NULL));
  dt_function_release(function);
  dt_runtime_release(own);
}

// ---- Functions ------------------------------------------------------------------------------------

static int closures_freed;

static void closure_free(void *closure) { closures_freed += closure == NULL; }

static void require_function(void *given) {
  dt_function_options_t *options = given;
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  options->name = "required";
  options->n_inputs = options->n_outputs = 1;
  options->inputs = &input;
}

static void fill_function(void *given) {
  dt_function_options_t *options = given;
  const dt_function_options_t matrix = one_matrix();
  options->name = "filled";
  options->inputs = matrix.inputs;
  options->input_size = matrix.input_size;
  options->dim_size = matrix.dim_size;
  options->answer = DT_ANSWER_EVALUATOR;
  options->strict_fp = true;
  options->closure_free = closure_free;
  options->dynamic = DT_DYNAMIC_AUTOMATIC;
  options->variant_limit = 7;
  options->limit_action = DT_LIMIT_EVALUATOR;
  options->compile_limit = 9;
  options->call_mode = DT_CALL_PLAIN;
  options->max_call_bytes = 1 << 20;
  static const uint32_t order[2] = {0, 1};
  static const dt_output_decl_t output = {.name = "y", .order = order, .rank = 2};
  options->outputs = &output;
  options->output_size = sizeof output;
}

static void limit_variants(void *given) {
  dt_function_options_t *options = given;
  fill_function(given);
  options->answer = DT_ANSWER_COMPILED;
  options->dynamic = DT_DYNAMIC_STATIC;
  options->variant_limit = 1;
  options->limit_action = DT_LIMIT_ERROR;
}

static void limit_bytes(void *given) {
  dt_function_options_t *options = given;
  fill_function(given);
  options->answer = DT_ANSWER_COMPILED;
  options->max_call_bytes = 40;
}

static void use_function(const void *given, bool later) {
  dt_function_t *function = NULL;
  closures_freed = 0;
  if (!later_told("dt_function_create",
                  dt_function_create(place.runtime, doubled, NULL, given, &function), later))
    return;
  call_rows(function, 2, NULL);
  call_rows(function, 4, NULL);
  dt_function_release(function);
  printf("  closures freed %d\n", closures_freed);
}

static void require_from_ir(void *given) { ((dt_function_options_t *)given)->name = "from_ir"; }

static void fill_from_ir(void *given) {
  dt_function_options_t *options = given;
  options->variant_limit = 2;
  options->answer = DT_ANSWER_EVALUATOR;
  options->strict_fp = true;
}

// A function of two matrices, whatever they are called.
static void show_and_call(dt_function_t *function) {
  dt_tensor_t *in[2] = {counting(2, (const int64_t[]){2, 3}), NULL}, *y = NULL;
  in[1] = in[0];
  show_declared(function);
  if (told("call", dt_call(place.session, function, in, 2, &y, 1, NULL)))
    show_tensor("y", y);
  dt_tensor_release(in[0]);
}

// The graph of a function, as text, and from it a function again; and one value of it.
static void use_from_ir(const void *given, bool later) {
  dt_function_t *function = NULL, *again = NULL, *cut = NULL;
  const dt_function_options_t matrix = one_matrix();
  const dt_input_decl_t inputs[2] = {matrix.inputs[0], matrix.inputs[0]};
  dt_function_options_t options = matrix;
  dt_tensor_t *in[2] = {counting(2, (const int64_t[]){2, 3}), NULL}, *y = NULL;
  char *text = NULL, *what = NULL;
  in[1] = in[0];
  options.inputs = inputs;
  options.n_inputs = 2;
  must(dt_function_create(place.runtime, tripled, NULL, &options, &function));
  must(dt_call(place.session, function, in, 2, &y, 1, NULL));
  dt_tensor_release(y);
  must(dt_function_graph(function, in, 2, &text));
  if (later_told(
          "dt_function_create_from_ir",
          dt_function_create_from_ir(place.runtime, text, strlen(text), "kept.dtt", given, &again),
          later))
    show_and_call(again);
  if (later_told("dt_function_create_cut",
                 dt_function_create_cut(function, in, 2, 2, given, &what, &cut), later)) {
    printf("  of a node: %s\n", what ? "told" : "not told");
    show_and_call(cut);
  }
  dt_text_free(what);
  dt_text_free(text);
  dt_tensor_release(in[0]);
  dt_function_release(cut);
  dt_function_release(again);
  dt_function_release(function);
}

// ---- Waiting --------------------------------------------------------------------------------------

static dt_cancel_t never, asked;
#define FAR INT64_C(4000000000000000000)

static void fill_prepare(void *given) {
  dt_prepare_options_t *options = given;
  options->device = place.devices ? DT_CUDA : DT_CPU;
  options->deadline_ns = FAR;
  options->cancel = &never;
}

static void cancel_prepare(void *given) {
  dt_prepare_options_t *options = given;
  options->deadline_ns = FAR;
  options->cancel = &asked;
}

static void miss_prepare(void *given) { ((dt_prepare_options_t *)given)->ordinal = 77; }

static void use_prepare(const void *given, bool later) {
  dt_function_t *function = NULL;
  const dt_function_options_t options = one_matrix();
  must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
  (void)later_told("dt_function_prepare", dt_function_prepare(function, given), later);
  dt_function_release(function);
}

static void fill_session(void *given) {
  dt_session_options_t *options = given;
  options->device = place.devices ? DT_CUDA : DT_CPU;
}

static void miss_session(void *given) { ((dt_session_options_t *)given)->ordinal = 5; }

static void use_session(const void *given, bool later) {
  dt_session_t *own = NULL;
  if (!later_told("dt_session_create", dt_session_create(place.runtime, given, &own), later))
    return;
  dt_function_t *function = NULL;
  const dt_function_options_t options = one_matrix();
  dt_tensor_t *x = counting(2, (const int64_t[]){1, 3}), *y = NULL;
  float numbers[3] = {0};
  must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
  must(dt_call(own, function, &x, 1, &y, 1, NULL));
  must(dt_tensor_read(own, y, numbers, sizeof numbers));
  printf("  %g %g %g\n", (double)numbers[0], (double)numbers[1], (double)numbers[2]);
  dt_tensor_release(x);
  dt_tensor_release(y);
  dt_function_release(function);
  dt_session_destroy(own);
}

static void fill_call(void *given) {
  dt_call_options_t *options = given;
  options->mode = DT_CALL_REDUCE_OVERHEAD;
  options->deadline_ns = FAR;
  options->cancel = &never;
}

static void late_call(void *given) { ((dt_call_options_t *)given)->deadline_ns = 1; }

static void cancel_call(void *given) { ((dt_call_options_t *)given)->cancel = &asked; }

static void use_call(const void *given, bool later) {
  dt_function_t *function = NULL;
  const dt_function_options_t options = one_matrix();
  dt_tensor_t *x = counting(2, (const int64_t[]){2, 3}), *y = NULL;
  must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
  if (later_told("dt_call", dt_call(place.session, function, &x, 1, &y, 1, given), later))
    show_tensor("y", y);
  dt_tensor_release(x);
  dt_function_release(function);
}

// ---- Passes ---------------------------------------------------------------------------------------

static dt_status_t count_nodes(dt_rewriter_t *rewriter, void *closure) {
  (void)closure;
  printf("  pass at %s: %u nodes\n", dt_point_name(dt_rewriter_point(rewriter)),
         (unsigned)dt_rewriter_length(rewriter));
  return NULL;
}

static dt_status_t fail_pass(dt_rewriter_t *rewriter, void *closure) {
  dt_trace_fail(dt_rewriter_trace(rewriter), DT_E_RANGE, "the pass gave up");
  return count_nodes(rewriter, closure);
}

static void require_pass(void *given) { ((dt_pass_options_t *)given)->name = "pass"; }

static void fill_pass(void *given) {
  dt_pass_options_t *options = given;
  options->priority = -3;
  options->identity = "counts";
  options->on_demand = true;
  options->optional = true;
  options->closure_free = closure_free;
}

static void unname_pass(void *given) { ((dt_pass_options_t *)given)->name = "a b"; }

// With a pass that looks, then with one that fails: functions that name it, and that do not.
static void use_pass(const void *given, bool later) {
  static const dt_pass_fn_t passes[] = {count_nodes, fail_pass};
  closures_freed = 0;
  for (int k = 0; k < 2; k++) {
    if (!later_told("dt_runtime_add_pass",
                    dt_runtime_add_pass(place.runtime, DT_POINT_TRACED, passes[k], NULL, given),
                    later))
      return;
    for (int named = 0; named < 2; named++) {
      dt_function_t *function = NULL;
      dt_function_options_t options = one_matrix();
      options.passes = named ? "pass" : NULL;
      must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
      call_rows(function, 2, NULL);
      dt_function_release(function);
    }
    must(dt_runtime_remove_pass(place.runtime, "pass"));
  }
  printf("  closures freed %d\n", closures_freed);
}

// ---- Patterns -------------------------------------------------------------------------------------

static dt_status_t sum_of_one(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], in[0]);
  return NULL;
}

static dt_status_t thrice(dt_match_t *match, dt_trace_t *trace, const dt_value_t *in,
                          dt_value_t *out, void *closure) {
  (void)closure;
  printf("  x is %s\n", dt_match_node(match, "x").id ? "there" : "missing");
  out[0] = dt_mul(trace, in[0], dt_scalar(trace, DT_F32, 3));
  return NULL;
}

static void require_pattern(void *given) {
  static const dt_wildcard_t wildcards[1] = {{.name = "x"}};
  dt_pattern_options_t *options = given;
  options->name = "pattern";
  options->n_wildcards = options->n_outputs = 1;
  options->wildcards = wildcards;
}

static void fill_pattern(void *given) {
  static const dt_dim_decl_t dims[2] = {{.name = "rows"}, {.is_static = true, .value = 3}};
  static const dt_wildcard_t wildcards[1] = {
      {.name = "x", .dtype = DT_F32, .ranked = true, .rank = 2, .dims = dims}};
  dt_pattern_options_t *options = given;
  options->priority = -3;
  options->identity = "thrice";
  options->point = DT_POINT_TRACED;
  options->wildcards = wildcards;
  options->wildcard_size = sizeof wildcards[0];
  options->dim_size = sizeof dims[0];
  options->on_demand = true;
  options->shared = true;
  options->closure_free = closure_free;
}

static void fuse_pattern(void *given) { ((dt_pattern_options_t *)given)->point = DT_POINT_FUSED; }

// Functions that name it, and that do not.
static void use_pattern(const void *given, bool later) {
  dt_pattern_t *pattern = NULL;
  closures_freed = 0;
  if (!later_told("dt_pattern_create",
                  dt_pattern_create(sum_of_one, thrice, NULL, NULL, given, &pattern), later))
    return;
  must(dt_runtime_add_pattern(place.runtime, pattern));
  for (int named = 0; named < 2; named++) {
    dt_function_t *function = NULL;
    dt_function_options_t options = one_matrix();
    options.passes = named ? "pattern" : NULL;
    must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
    call_rows(function, 2, NULL);
    dt_function_release(function);
  }
  must(dt_runtime_remove_pass(place.runtime, "pattern"));
  printf("  replaced %d\n", (int)dt_pattern_count(pattern));
  dt_pattern_release(pattern);
  printf("  closures freed %d\n", closures_freed);
}

// ---- Files ----------------------------------------------------------------------------------------

static void fill_onnx(void *given) {
  dt_onnx_options_t *options = given;
  options->access = DT_ONNX_MAP;
  options->max_file_bytes = 1 << 20;
  options->max_structure_bytes = 1 << 20;
  options->max_nodes = options->max_tensors = 100;
  options->max_depth = 3;
  options->data_folder = place.models;
  options->max_external_bytes = 1 << 20;
  options->deadline_ns = FAR;
  options->cancel = &never;
}

static void starve_onnx(void *given) {
  fill_onnx(given);
  ((dt_onnx_options_t *)given)->max_nodes = 1;
}

static void cancel_onnx(void *given) { ((dt_onnx_options_t *)given)->cancel = &asked; }

static dt_status_t open_model(const char *name, const dt_onnx_options_t *options, dt_onnx_t **out) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", place.models, name);
  return dt_onnx_open(path, options, out);
}

// One model of several nodes, and one whose data lie in another file.
static void use_onnx(const void *given, bool later) {
  static const char *const names[] = {"small.onnx", "outside.onnx"};
  for (int k = 0; k < 2; k++) {
    dt_onnx_t *model = NULL;
    if (later_told(names[k], open_model(names[k], given, &model), later))
      printf("  %s to %s\n", dt_onnx_input_name(model, 0), dt_onnx_output_name(model, 0));
    dt_onnx_close(model);
  }
}

static void fill_onnx_function(void *given) {
  static const dt_dim_decl_t dims[] = {{.name = "seq", .is_static = true, .value = 2},
                                       {.name = "batch", .max = 3}};
  static dt_function_options_t function;
  function = (dt_function_options_t){
      .struct_size = sizeof function, .answer = DT_ANSWER_EVALUATOR, .variant_limit = 3};
  dt_onnx_function_options_t *options = given;
  options->dims = dims;
  options->n_dims = 2;
  options->dim_size = sizeof dims[0];
  options->names_are_hints = true;
  options->seed = 7;
  options->function = &function;
  options->deadline_ns = FAR;
  options->cancel = &never;
}

static void cancel_onnx_function(void *given) {
  ((dt_onnx_function_options_t *)given)->cancel = &asked;
}

static void use_onnx_function(const void *given, bool later) {
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  must(open_model("small.onnx", NULL, &model));
  dt_status_t status = dt_onnx_function_create(place.runtime, model, given, &function);
  dt_onnx_close(model);
  if (!later_told("dt_onnx_function_create", status, later))
    return;
  for (int64_t batch = 2; batch < 5; batch += 2) {
    dt_tensor_t *x = counting(3, (const int64_t[]){batch, 2, 3}), *y = NULL;
    if (told("call", dt_call(place.session, function, &x, 1, &y, 1, NULL)))
      show_tensor("y", y);
    dt_tensor_release(x);
  }
  dt_function_release(function);
}

static void fill_safetensors(void *given) {
  dt_safetensors_options_t *options = given;
  options->access = DT_SAFETENSORS_MAP;
  options->max_file_bytes = 1 << 20;
  options->max_header_bytes = 1 << 16;
  options->max_tensors = 4;
}

static void starve_safetensors(void *given) {
  ((dt_safetensors_options_t *)given)->max_header_bytes = 1;
}

static void use_safetensors(const void *given, bool later) {
  static const unsigned char empty[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  dt_safetensors_t *file = NULL;
  if (later_told("dt_safetensors_open_memory",
                 dt_safetensors_open_memory(empty, sizeof empty, given, &file), later))
    printf("  %u tensors\n", dt_safetensors_count(file));
  dt_safetensors_close(file);
}

// ---- The rows -------------------------------------------------------------------------------------

#define ROW(type, how, optional, require, fill, use)                                               \
  {#type, how, sizeof(type), optional, require, fill, use}
static const row_t rows[] = {
    ROW(dt_tensor_desc_t, "filled", false, require_desc, fill_desc, use_desc),
    ROW(dt_runtime_options_t, "filled", true, NULL, fill_runtime, use_runtime),
    ROW(dt_runtime_options_t, "of one node", true, NULL, starve_runtime, use_runtime),
    ROW(dt_function_options_t, "filled", false, require_function, fill_function, use_function),
    ROW(dt_function_options_t, "one variant", false, require_function, limit_variants,
        use_function),
    ROW(dt_function_options_t, "few bytes", false, require_function, limit_bytes, use_function),
    ROW(dt_function_options_t, "of text", false, require_from_ir, fill_from_ir, use_from_ir),
    ROW(dt_prepare_options_t, "filled", true, NULL, fill_prepare, use_prepare),
    ROW(dt_prepare_options_t, "cancelled", true, NULL, cancel_prepare, use_prepare),
    ROW(dt_prepare_options_t, "nowhere", true, NULL, miss_prepare, use_prepare),
    ROW(dt_session_options_t, "filled", true, NULL, fill_session, use_session),
    ROW(dt_session_options_t, "nowhere", true, NULL, miss_session, use_session),
    ROW(dt_call_options_t, "filled", true, NULL, fill_call, use_call),
    ROW(dt_call_options_t, "late", true, NULL, late_call, use_call),
    ROW(dt_call_options_t, "cancelled", true, NULL, cancel_call, use_call),
    ROW(dt_pass_options_t, "filled", false, require_pass, fill_pass, use_pass),
    ROW(dt_pass_options_t, "misnamed", false, require_pass, unname_pass, use_pass),
    ROW(dt_pattern_options_t, "filled", false, require_pattern, fill_pattern, use_pattern),
    ROW(dt_pattern_options_t, "of kernels", false, require_pattern, fuse_pattern, use_pattern),
    ROW(dt_onnx_options_t, "filled", true, NULL, fill_onnx, use_onnx),
    ROW(dt_onnx_options_t, "of one node", true, NULL, starve_onnx, use_onnx),
    ROW(dt_onnx_options_t, "cancelled", true, NULL, cancel_onnx, use_onnx),
    ROW(dt_onnx_function_options_t, "filled", true, NULL, fill_onnx_function, use_onnx_function),
    ROW(dt_onnx_function_options_t, "cancelled", true, NULL, cancel_onnx_function,
        use_onnx_function),
    ROW(dt_safetensors_options_t, "filled", true, NULL, fill_safetensors, use_safetensors),
    ROW(dt_safetensors_options_t, "of 1 byte", true, NULL, starve_safetensors, use_safetensors),
};

// `size` is what struct_size says: 0 is the first header's.
static void use_row(const row_t *row, const char *how, uint32_t size, bool filled, bool later) {
  unsigned char *given = exactly(row->size);
  memcpy(given, &size, sizeof size);
  if (row->require)
    row->require(given);
  if (filled)
    row->fill(given);
  if (later)
    memset(given + row->size - sizeof(uint64_t), 1, sizeof(uint64_t));
  title(row->name, how);
  row->use(given, later);
  free(given);
}

void every_option(void) {
  dt_cancel_request(&asked);
  const char *before = "";
  for (const row_t *row = rows; row < rows + sizeof rows / sizeof rows[0]; row++) {
    uint32_t size = (uint32_t)row->size;
    if (strcmp(row->name, before) != 0 && row->optional) {
      title(row->name, "NULL");
      row->use(NULL, false);
    }
    if (strcmp(row->name, before) != 0) {
      use_row(row, "zeroed", 0, false, false);
      use_row(row, "sized", size, false, false);
    }
    before = row->name;
    use_row(row, row->how, size, true, false);
#ifdef EVERY_STRUCT_LATER // headers that say more than the library may know
    use_row(row, "with a later field", size, true, true);
#endif
  }
  dt_cancel_reset(&asked);
}
