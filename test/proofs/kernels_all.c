// SPDX-License-Identifier: Apache-2.0
// The programs whose kernels are proved, one row of the table each:
//   - those of test/unit/exec and of test/unit/cuda whose sizes come from data, MiniLM and the
//     program of the README, as they are: their sources are compiled with dt_function_create
//     renamed, so that what they make is proved when they make it;
//   - every conformance case, the rows of one op together;
//   - random programs of test/conform/graphs.
#include "test/proofs/kernels.h"

#include "ductile/ductile.h"
#include "examples/minilm/model.h"
#include "lower/graph/graph.h"
#include "test/conform/cases.h"
#include "test/conform/graphs/random_graph.h"
#include "test/unit/cuda/exec/size_programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int readme_main(void); // main() of the README's program

typedef struct all_t {
  const kp_options_t *options;
  const char *only;
  kp_counts_t sum, row; // row: of the program or op at work
} all_t;

static all_t *at_work;

static void print_head(void) {
  printf("%-34s %5s %5s %6s %6s %6s %5s %5s %5s %6s %7s\n", "program", "made", "kern", "claims",
         "ranges", "Z3", "check", "open", "again", "unsure", "seconds");
}

static void print_row(const char *name, const kp_counts_t *c) {
  printf("%-34s %5u %5u %6u %6u %6u %5u %5u %5u %6u %7.2f\n", name, c->programs, c->kernels,
         c->obligations, c->by_ranges, c->by_z3, c->checked, c->open, c->repeated, c->unsure,
         c->seconds);
}

static void end_row(all_t *all, const char *name) {
  if (all->row.programs || all->row.open)
    print_row(name, &all->row);
  kp_add(&all->sum, &all->row);
  all->row = (kp_counts_t){0};
}

static bool wanted(const all_t *all, const char *name) {
  return !all->only || strstr(name, all->only);
}

// ---- Programs that make functions -------------------------------------------------------------------
// Called by the renamed sources in place of dt_function_create.
dt_status_t kp_function_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                               const dt_function_options_t *options, dt_function_t **out);

dt_status_t kp_function_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                               const dt_function_options_t *options, dt_function_t **out) {
  dt_trace_request_t request = {.name = options->name,
                                .program = program,
                                .closure = closure,
                                .n_inputs = options->n_inputs,
                                .n_outputs = options->n_outputs,
                                .inputs = options->inputs};
  kp_prove_request(&request, at_work->options, &at_work->row);
  return dt_function_create(runtime, program, closure, options, out);
}

static void prove_subjects(all_t *all, dt_runtime_t *runtime) {
  const subject_t *const subjects[] = {
      &add_subject,       &mlp_subject,     &layer_norm_subject, &softmax_subject, &columns_subject,
      &transpose_subject, &gather_subject,  &scale_subject,      &sizes_nonzero,   &sizes_softmax,
      &sizes_repeat,      &sizes_chain,     &sizes_pair,         &sizes_cut,       &sizes_product,
      &sizes_update,      &sizes_cut_chain, &sizes_norm,         &sizes_attention};
  rng_t rng = {7};
  mlp_t mlp;
  mlp_init(&mlp, &rng);
  dt_tensor_t *w = tensor_f32(&rng, 1, (const int64_t[]){4});
  dt_tensor_t *matrix = tensor_f32(&rng, 2, (const int64_t[]){24, 20});
  for (size_t k = 0; k < sizeof(subjects) / sizeof(subjects[0]); k++) {
    const subject_t *subject = subjects[k];
    if (!wanted(all, subject->name))
      continue;
    void *closure = subject == &mlp_subject                               ? (void *)&mlp
                    : subject == &scale_subject                           ? w
                    : subject == &sizes_product || subject == &sizes_norm ? matrix
                                                                          : NULL;
    dt_function_release(subject_function(runtime, subject, closure, DT_ANSWER_EVALUATOR));
    end_row(all, subject->name);
  }
  dt_tensor_release(w);
  dt_tensor_release(matrix);
  mlp_fini(&mlp);
}

static void prove_minilm(all_t *all, dt_runtime_t *runtime) {
  char error[256];
  if (!wanted(all, "minilm"))
    return;
  minilm_weights_t *weights = minilm_weights_seeded(NULL, error, sizeof error);
  dt_function_t *function = NULL;
  dt_status_t status = minilm_create(runtime, weights, DT_ANSWER_EVALUATOR, &function);
  all->row.open += status != NULL || !weights;
  dt_status_free(status);
  dt_function_release(function);
  minilm_weights_free(weights);
  end_row(all, "minilm");
}

// ---- Conformance cases ------------------------------------------------------------------------------
typedef struct one_case_t {
  const case_t *c;
  dt_dtype_t dtype;
} one_case_t;

static dt_status_t case_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const one_case_t *one = closure;
  out[0] = one->c->make(trace, in, one->dtype);
  return NULL;
}

// The widest dtype that the case is for: offsets in bytes are largest.
static dt_dtype_t case_dtype(const case_t *c) {
  if (c->dtypes & T_F64)
    return DT_F64;
  if (c->dtypes & T_INT)
    return DT_I64;
  return c->dtypes & T_F32 ? DT_F32 : DT_BOOL;
}

static void prove_case(all_t *all, const case_t *c) {
  dt_input_decl_t decls[CASE_INPUTS];
  dt_dim_decl_t dims[CASE_INPUTS][CASE_RANK];
  char name[96];
  one_case_t one = {c, case_dtype(c)};
  snprintf(name, sizeof name, "%s %s", c->op, c->form);
  memset(dims, 0, sizeof dims);
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    const input_t *in = &c->in[k];
    for (uint32_t d = 0; d < in->rank; d++) {
      if (in->dims[d] < 0)
        dims[k][d].name = in->dims[d] == DIM_M ? "m" : "n";
      else
        dims[k][d] = (dt_dim_decl_t){.value = in->dims[d], .is_static = true};
    }
    decls[k] = (dt_input_decl_t){
        .dtype = in->dtype ? in->dtype : one.dtype, .rank = in->rank, .dims = dims[k]};
  }
  dt_trace_request_t request = {.name = name,
                                .program = case_program,
                                .closure = &one,
                                .n_inputs = c->n_inputs,
                                .n_outputs = 1,
                                .inputs = decls};
  kp_prove_request(&request, all->options, &all->row);
}

static void prove_cases(all_t *all) {
  for (int op = 1; op < DT_OP_COUNT; op++) {
    const char *name = dt__op_info((dt_op_t)op)->name;
    char title[64];
    snprintf(title, sizeof title, "op %s", name);
    for (uint32_t k = 0; wanted(all, title) && k < n_cases; k++)
      if (strcmp(cases[k].op, name) == 0)
        prove_case(all, &cases[k]);
    for (uint32_t k = 0; wanted(all, title) && k < n_data_cases; k++)
      if (strcmp(data_cases[k].op, name) == 0)
        prove_case(all, &data_cases[k]);
    end_row(all, title);
  }
}

// ---- Random programs --------------------------------------------------------------------------------
typedef struct random_t {
  rg_program_t program;
  rg_replay_t replay;
  dt_tensor_t *constants[RG_NODES], *example[RG_NODES];
  dt_input_decl_t decls[RG_NODES];
  dt_dim_decl_t dims[RG_NODES][RG_RANK];
  uint32_t n_inputs;
} random_t;

static dt_tensor_t *leaf(const rg_node_t *node, const int64_t *symbols) {
  int64_t sizes[RG_RANK];
  for (uint32_t d = 0; d < node->rank; d++)
    sizes[d] = node->numbers[d] >= 0 ? node->numbers[d] : symbols[-1 - node->numbers[d]];
  dt_tensor_t *tensor = NULL;
  dt_status_free(dt_tensor_create_empty(node->dtype, node->rank, sizes, &tensor));
  if (tensor)
    memset(dt_tensor_data(tensor), 0, (size_t)dt_tensor_count(tensor) * dt_dtype_size(node->dtype));
  return tensor;
}

static void declare(random_t *r) {
  static const char *const names[RG_SYMBOLS] = {"m", "n", "k"};
  const rg_program_t *p = &r->program;
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    const rg_node_t *node = &p->nodes[i];
    if (node->op == RG_constant)
      r->constants[i] = leaf(node, p->calls[0].sizes);
    if (node->op != RG_input)
      continue;
    uint32_t k = r->n_inputs++;
    for (uint32_t d = 0; d < node->rank; d++) {
      if (node->numbers[d] < 0)
        r->dims[k][d].name = names[-1 - node->numbers[d]];
      else
        r->dims[k][d] = (dt_dim_decl_t){.value = node->numbers[d], .is_static = true};
    }
    r->decls[k] = (dt_input_decl_t){.dtype = node->dtype, .rank = node->rank, .dims = r->dims[k]};
    r->example[k] = leaf(node, p->calls[0].sizes);
  }
  r->replay = (rg_replay_t){.program = p, .constants = r->constants};
}

// A program that asks questions about its sizes needs those of its first call to answer them.
static void prove_random(all_t *all, uint64_t seed) {
  random_t *r = calloc(1, sizeof(*r));
  char name[32];
  snprintf(name, sizeof name, "random %llu", (unsigned long long)seed);
  rg_generate(seed, RG_USUAL_SHAPES, &r->program);
  declare(r);
  dt_trace_request_t request = {.name = name,
                                .program = rg_replay,
                                .closure = &r->replay,
                                .n_inputs = r->n_inputs,
                                .n_outputs = r->program.n_outputs,
                                .inputs = r->decls,
                                .example = r->program.asks ? r->example : NULL};
  kp_prove_request(&request, all->options, &all->row);
  for (uint32_t k = 0; k < RG_NODES; k++) {
    dt_tensor_release(r->constants[k]);
    dt_tensor_release(r->example[k]);
  }
  free(r);
}

kp_counts_t kp_prove_all(const kp_options_t *options, const char *only, uint32_t n_random) {
  all_t all = {.options = options, .only = only};
  dt_runtime_t *runtime = NULL;
  at_work = &all;
  expect_ok(dt_runtime_create(NULL, &runtime));
  print_head();
  prove_subjects(&all, runtime);
  if (wanted(&all, "README")) {
    all.row.open += readme_main() != 0;
    end_row(&all, "README");
  }
  prove_minilm(&all, runtime);
  prove_cases(&all);
  for (uint64_t seed = 1; seed <= n_random && wanted(&all, "random"); seed++)
    prove_random(&all, seed);
  char title[48];
  snprintf(title, sizeof title, "random programs 1 to %u", n_random);
  end_row(&all, title);
  print_row("all", &all.sum);
  dt_runtime_release(runtime);
  return all.sum;
}
