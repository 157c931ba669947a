// SPDX-License-Identifier: Apache-2.0
// One program under proof: its givens, what is counted of it, and how it is made from a request.
#include "test/proofs/kernels.h"

#include "backend_cuda/emit/target.h"
#include "backend_llvm/emit/compile.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The matrix template's sizes of a machine with 512-bit vectors, so that every machine proves the
// same.
static const dt_target_t target = {.vector_bytes = 64,
                                   .vector_registers = 32,
                                   .masked_memory = true,
                                   .fma = true,
                                   .fast_conv = true,
                                   .dot_products = 1,
                                   .threads = 2,
                                   .l1_bytes = 32768,
                                   .l2_bytes = 1 << 20,
                                   .matmul_rows = {6, 6},
                                   .matmul_width = {32, 16}};

void kp_add(kp_counts_t *sum, const kp_counts_t *counts) {
  sum->programs += counts->programs;
  sum->kernels += counts->kernels;
  sum->accesses += counts->accesses;
  sum->obligations += counts->obligations;
  sum->by_ranges += counts->by_ranges;
  sum->by_z3 += counts->by_z3;
  sum->checked += counts->checked;
  sum->open += counts->open;
  sum->refuted += counts->refuted;
  sum->repeated += counts->repeated;
  sum->unsure += counts->unsure;
  sum->contradicted += counts->contradicted;
  sum->seconds += counts->seconds;
}

void kp_judge(kp_t *kp, verdict_t verdict, bool checked, const char *text, char *model) {
  kp->counts.obligations++;
  if (verdict == PROVED) {
    *(checked ? &kp->counts.checked : &kp->counts.by_z3) += 1;
    return;
  }
  kp->counts.open++;
  kp->counts.refuted += verdict == REFUTED;
  if (!kp->options->quiet)
    printf("%s: not proved (%s): %s\n%s\n", kp->name, verdict == REFUTED ? "refuted" : "no answer",
           text, model ? model : "");
}

// What was declared of the inputs' sizes: checked at each call.
static void give_declared(kp_t *kp, const kp_made_t *made) {
  const dt_trace_request_t *request = made->request;
  for (uint32_t k = 0; k < request->n_inputs; k++)
    for (uint32_t d = 0; request->inputs[k].dims && d < request->inputs[k].rank; d++) {
      const dt_dim_decl_t *dim = &request->inputs[k].dims[d];
      dt_range_t range = {dim->min, dim->max ? dim->max : DT_SIZE_LIMIT - 1};
      if (dim->is_static)
        range = (dt_range_t){dim->value, dim->value};
      kz_always_in(kp->kz, made->traced->graph->inputs.items[k].sizes[d], range);
    }
}

// What every call that reaches the kernels has passed: declared sizes, assumptions (guards), and
// the graph's run-time checks.
static void give(kp_t *kp, const kp_made_t *made) {
  give_declared(kp, made);
  for (uint32_t k = 0; k < made->traced->conds.len; k++)
    if (k != made->drop)
      kz_always(kp->kz, made->traced->conds.items[k].cond);
  for (uint32_t k = 0; k < made->traced->graph->asserts.len; k++)
    kz_always(kp->kz, made->traced->graph->asserts.items[k].cond);
  for (uint32_t k = 0; k < made->program->readbacks.len; k++) { // checked on the device
    const dt_readback_t *readback = &made->program->readbacks.items[k];
    if (readback->most.id) // as a difference: what is known to be true says nothing
      kz_always_in(
          kp->kz,
          dt__sym_sub(made->env, readback->most, dt__symbol_sym(made->env, readback->symbol)),
          (dt_range_t){0, INT64_MAX});
  }
}

void kp_prove_made(const char *name, const kp_made_t *made, const kp_options_t *options,
                   kp_counts_t *counts) {
  kp_t kp = {.name = name, .program = made->program, .options = options};
  kp.kz = kz_create(made->env, options->limit_ms);
  give(&kp, made);
  kp.counts.programs = 1;
  for (uint32_t k = 0; k < made->program->kernels.len; k++)
    kp_prove_kernel(&kp, k);
  kp_prove_slices(&kp);
  if (made->program->block_bytes.id) // there is a plan
    kp_prove_plan(&kp);
  kp.counts.seconds = kz_seconds(kp.kz);
  kz_destroy(kp.kz);
  kp_add(counts, &kp.counts);
}

// ---- Making programs --------------------------------------------------------------------------------
static bool failed(const char *name, const char *what, dt_status_t status) {
  if (!status)
    return false;
  printf("%s: %s: %s\n", name, what, dt_status_message(status));
  dt_status_free(status);
  return true;
}

static bool make(const dt_trace_request_t *request, const char *stage, const dt_target_t *on,
                 kp_made_t *out) {
  *out = (kp_made_t){.request = request, .drop = UINT32_MAX};
  dt__arena_init(&out->arena, 0);
  return !failed(request->name, "trace", dt__trace_run(request, &out->traced)) &&
         !failed(request->name, "environment", dt__symenv_clone(out->traced->env, &out->env)) &&
         !failed(request->name, stage,
                 dt__pipeline_run(
                     &out->arena, out->env, out->traced->graph,
                     &(dt_pipeline_request_t){.target = on, .until = stage, .verify = true},
                     &out->program));
}

bool kp_make(const dt_trace_request_t *request, const char *stage, kp_made_t *out) {
  return make(request, stage, &target, out);
}

bool kp_make_on_gpu(const dt_trace_request_t *request, kp_made_t *out) {
  static const dt_cuda_model_t model = {
      .major = 9, .processors = 132, .shared_per_block = 227 << 10, .l2_bytes = 50 << 20};
  dt_target_t gpu;
  *out = (kp_made_t){0};
  return !failed(request->name, "target", dt__cuda_target(&model, &target, &gpu)) &&
         make(request, "plan", &gpu, out);
}

void kp_unmake(kp_made_t *made) {
  dt__symenv_destroy(made->env);
  dt__arena_fini(&made->arena);
  dt__traced_destroy(made->traced);
}

// Programs whose sizes come from data once more as a GPU has them, if the host reads none.
static void prove_device_sizes(const dt_trace_request_t *request, const kp_options_t *options,
                               kp_counts_t *counts) {
  kp_made_t made;
  char name[160];
  snprintf(name, sizeof name, "%s on a GPU%s", request->name, request->example ? ", strided" : "");
  if (!kp_make_on_gpu(request, &made))
    counts->open++;
  else if (made.program->device_sized)
    kp_prove_made(name, &made, options, counts);
  kp_unmake(&made);
}

static void prove_stages(const dt_trace_request_t *request, const kp_options_t *options,
                         kp_counts_t *counts) {
  static const char *const stages[] = {"lower", "plan"};
  for (size_t k = 0; k < 2; k++) {
    kp_made_t made;
    char name[160];
    snprintf(name, sizeof name, "%s after %s%s", request->name, stages[k],
             request->example ? ", strided" : "");
    if (kp_make(request, stages[k], &made))
      kp_prove_made(name, &made, options, counts);
    else
      counts->open++;
    kp_unmake(&made);
  }
  prove_device_sizes(request, options, counts);
}

// ---- Strided arguments ------------------------------------------------------------------------------
// Sizes by name, so that dims of one name agree; all different from 0 and 1.
static int64_t example_size(const dt_dim_decl_t *dim) {
  int64_t size = 12;
  if (dim && dim->is_static)
    return dim->value;
  if (dim && dim->name && strcmp(dim->name, "m") == 0)
    size = 7;
  if (dim && dim->name && strcmp(dim->name, "n") == 0)
    size = 16;
  if (dim && size < dim->min)
    size = dim->min;
  return dim && dim->max && size > dim->max ? dim->max : size;
}

// Every other element along each dim, the last one backwards.
static dt_tensor_t *strided(const char *name, const dt_input_decl_t *decl, void **memory) {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK], span = 1;
  for (uint32_t d = decl->rank; d-- > 0;) {
    sizes[d] = example_size(decl->dims ? &decl->dims[d] : NULL);
    strides[d] = span * 2;
    span = strides[d] * (sizes[d] ? sizes[d] : 1);
  }
  size_t size = dt_dtype_size(decl->dtype), first = 0;
  *memory = calloc((size_t)span + 1, size);
  if (decl->rank && sizes[decl->rank - 1] > 0) {
    first = (size_t)(strides[decl->rank - 1] * (sizes[decl->rank - 1] - 1));
    strides[decl->rank - 1] = -strides[decl->rank - 1];
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = decl->dtype,
                           .rank = decl->rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = (char *)*memory + first * size};
  dt_tensor_t *tensor = NULL;
  (void)failed(name, "argument", dt_tensor_create(&desc, &tensor));
  return tensor;
}

void kp_prove_request(const dt_trace_request_t *request, const kp_options_t *options,
                      kp_counts_t *counts) {
  dt_trace_request_t made = *request;
  if (request->example) {
    prove_stages(request, options, counts);
    return;
  }
  prove_stages(request, options, counts);
  if (request->n_inputs == 0)
    return;
  dt_tensor_t **example = calloc(request->n_inputs, sizeof(dt_tensor_t *));
  void **memory = calloc(request->n_inputs, sizeof(void *));
  bool good = example && memory;
  for (uint32_t k = 0; good && k < request->n_inputs; k++)
    good = (example[k] = strided(request->name, &request->inputs[k], &memory[k])) != NULL;
  made.example = example;
  if (good)
    prove_stages(&made, options, counts);
  else
    counts->open++;
  for (uint32_t k = 0; example && memory && k < request->n_inputs; k++) {
    dt_tensor_release(example[k]);
    free(memory[k]);
  }
  free(example);
  free(memory);
}
