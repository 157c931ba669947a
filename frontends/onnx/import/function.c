// SPDX-License-Identifier: Apache-2.0
// Functions made of models.
#include "frontends/onnx/declare.h"
#include "frontends/onnx/import/walk.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Options ----------------------------------------------------------------------------------------
static dt_status_t read_options(const dt_onnx_function_options_t *options,
                                dt_onnx_function_options_t *out) {
  DT_TRY(DT_OPTIONS_TAKE(dt_onnx_function_options_t, out, options));
  dt_function_options_t function;
  DT_TRY(DT_OPTIONS_TAKE(dt_function_options_t, &function, out->function));
  if (function.n_inputs || function.inputs || function.n_outputs || function.closure_free)
    return DT_FAIL(DT_E_ARGUMENT, "onnx function options: n_inputs, inputs, n_outputs and "
                                  "closure_free are the model's to say; expected 0 and NULL");
  if (out->weights != DT_DTYPE_NONE && out->weights != DT_BF16)
    return DT_FAIL(DT_E_ARGUMENT, "onnx function options: weights is %s; expected bf16 or 0",
                   dt_dtype_name(out->weights));
  if (out->seed_input && out->seed)
    return DT_FAIL(DT_E_ARGUMENT,
                   "onnx function options: seed is %llu, and calls give it "
                   "(seed_input); expected 0",
                   (unsigned long long)out->seed);
  if (out->n_dims > 0 && !out->dims)
    return DT_FAIL(DT_E_ARGUMENT, "onnx function options: dims is NULL");
  return NULL;
}

// What the caller says of dims by name, in place of what the model says.
static dt_status_t apply_dim(const dt_dim_decl_t *said, const dt_onnx_decls_t *decls,
                             const char *what) {
  bool found = false;
  for (uint32_t k = 0; said->name && k < decls->len; k++) {
    dt_dim_decl_t *dims = (dt_dim_decl_t *)decls->items[k].dims; // our own copies
    for (uint32_t i = 0; i < decls->items[k].rank; i++) {
      if (!dims[i].name || strcmp(dims[i].name, said->name) != 0)
        continue;
      found = true;
      dims[i] = *said;
    }
  }
  return found ? NULL
               : DT_FAIL(DT_E_ARGUMENT, "%s: no dim of an input is named \"%s\"", what,
                         said->name ? said->name : "");
}

// Dims keep what is said of them, but nothing makes those of one name equal.
static void drop_names(const dt_onnx_decls_t *decls) {
  for (uint32_t k = 0; k < decls->len; k++) {
    dt_dim_decl_t *dims = (dt_dim_decl_t *)decls->items[k].dims;
    for (uint32_t i = 0; i < decls->items[k].rank; i++) {
      dims[i].name = dims[i].of = NULL;
      dims[i].scale = dims[i].offset = 0;
    }
  }
}

static void set_integers(const dt_imp_model_t *model, const dt_onnx_decls_t *decls) {
  for (uint32_t k = 0; k < decls->len; k++)
    if (model->integers[k])
      decls->items[k].kind = DT_INPUT_INTEGERS;
}

// ---- Making -----------------------------------------------------------------------------------------
static void free_model(void *closure) {
  dt_imp_model_t *model = closure;
  if (!model)
    return;
  dt__imp_drop_constants(model);
  dt__onnx_release(model->file);
  dt__arena_fini(&model->arena);
  dt__free(model);
}

static dt_status_t prepare(dt_imp_model_t *model, const dt_onnx_function_options_t *options,
                           dt_onnx_decls_t *decls) {
  if (model->file->model.graph->output.len == 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the model has no outputs: there is nothing to compute",
                   model->file->what);
  DT_TRY(dt__imp_sort_rows(model));
  DT_TRY(dt__imp_check_support(model));
  DT_TRY(dt__onnx_declare(model->file, &model->arena, decls));
  for (uint32_t k = 0; k < options->n_dims; k++) {
    dt_dim_decl_t said;
    DT_TRY(DT_ELEMENT_TAKE(dt_dim_decl_t, &said, options->dims, options->dim_size, k));
    DT_TRY(apply_dim(&said, decls, model->file->what));
  }
  if (options->names_are_hints)
    drop_names(decls);
  DT_TRY(dt__imp_find_integers(model));
  set_integers(model, decls);
  return dt__imp_read_constants(model);
}

// The declarations, and one of the seed where calls give it.
static dt_status_t add_seed(dt_imp_model_t *model, dt_onnx_decls_t *decls) {
  if (!model->seed_input)
    return NULL;
  dt_input_decl_t *items = DT_ARENA_ARRAY(&model->arena, dt_input_decl_t, decls->len + 1);
  if (!items)
    return DT_NO_MEMORY();
  if (decls->len)
    memcpy(items, decls->items, decls->len * sizeof(*items));
  items[decls->len++] = (dt_input_decl_t){.name = "seed", .dtype = DT_I64};
  decls->items = items;
  return NULL;
}

// What nobody asks anything of has its name at least.
static dt_status_t name_outputs(dt_imp_model_t *model, dt_function_options_t *about) {
  if (about->outputs)
    return NULL;
  dt_output_decl_t *outputs = DT_ARENA_ARRAY(&model->arena, dt_output_decl_t, about->n_outputs);
  if (!outputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < about->n_outputs; k++)
    outputs[k].name = dt_onnx_output_name(model->file, k);
  about->outputs = outputs;
  about->output_size = sizeof(dt_output_decl_t);
  return NULL;
}

static dt_status_t make(dt_runtime_t *runtime, dt_imp_model_t *model,
                        const dt_onnx_function_options_t *options, dt_function_t **out) {
  dt_onnx_decls_t decls = {0};
  DT_TRY(prepare(model, options, &decls));
  DT_TRY(add_seed(model, &decls));
  dt_function_options_t about;
  DT_TRY(DT_OPTIONS_TAKE(dt_function_options_t, &about, options->function));
  const dt_onnx_str_t *name = &model->file->model.graph->name;
  if (!about.name)
    about.name = dt__arena_printf(&model->arena, "%.*s", name->len ? (int)name->len : 5,
                                  name->len ? name->at : "model");
  if (!about.name)
    return DT_NO_MEMORY();
  about.inputs = decls.items;
  about.n_inputs = decls.len;
  about.input_size = sizeof(dt_input_decl_t); // ours, whatever the caller's are
  about.dim_size = sizeof(dt_dim_decl_t);
  about.n_outputs = model->file->model.graph->output.len;
  DT_TRY(name_outputs(model, &about));
  about.closure_free = free_model;
  return dt_function_create(runtime, dt__imp_program, model, &about, out);
}

dt_status_t dt__imp_function(dt_runtime_t *runtime, dt_onnx_t *model,
                             const dt_onnx_function_options_t *options, uint32_t *failed,
                             dt_function_t **out) {
  dt_onnx_function_options_t all;
  DT_TRY(read_options(options, &all));
  dt_imp_model_t *made = dt__calloc(1, sizeof(*made));
  if (!made)
    return DT_NO_MEMORY();
  dt__arena_init(&made->arena, 0);
  dt__onnx_retain(model);
  made->file = model;
  made->runtime = runtime;
  made->seed = all.seed;
  made->seed_input = all.seed_input;
  made->weights = all.weights;
  made->failed = failed;
  dt_control_t control;
  dt_onnx_pace_t pace = {0};
  if (dt__control_is_wanted(all.deadline_ns, all.cancel)) {
    dt__control_init(&control, all.deadline_ns, all.cancel);
    pace.control = &control;
  }
  made->pace = &pace;
  dt_status_t status = dt__onnx_go_on(&pace, DT_ONNX_WORK_A_LOOK);
  if (!status)
    status = make(runtime, made, &all, out);
  made->pace = NULL;
  if (!status)
    return NULL;
  dt_code_t code = dt_status_code(status);
  if (code == DT_E_DEADLINE || code == DT_E_CANCELLED)
    status = dt__status_annotate(status, "%s", model->what);
  free_model(made);
  return status;
}

dt_status_t dt_onnx_function_create(dt_runtime_t *runtime, dt_onnx_t *model,
                                    const dt_onnx_function_options_t *options,
                                    dt_function_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_function_create: out is NULL");
  *out = NULL;
  if (!runtime || !model)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_function_create: %s is NULL",
                   runtime ? "model" : "runtime");
  return dt__imp_function(runtime, model, options, NULL, out);
}
