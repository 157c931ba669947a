// SPDX-License-Identifier: Apache-2.0
// Calls of a random program as code made in several ways: as ever, with each stage of the pipeline
// left out that may be, with all of them left out, and by LLVM at each of its own levels. Each
// way's answers are compared with the evaluator's, and bit for bit with those of the code made as
// ever. With RG_TWINS_TOO the other ways are programs of the same meaning (random_twin.h), which
// the evaluator must find to be the same.
#include "backend_llvm/host/target.h"
#include "lower/graph/eval_compare.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "test/conform/graphs/random_twin.h"
#include "test/conform/graphs/run_graph.h"
#include "test/conform/guarded/guarded_function.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Ways -----------------------------------------------------------------------------------------
typedef struct way_t {
  const char *name;
  uint64_t left_out;
  dt_choices_t choices; // of tuning
  bool sizes;           // a variant for each size, as hot ones get
  uint32_t llvm_level;
  bool quick, quick_kernels;
  const char *cpu;     // NULL: this one
  uint32_t threads;    // 0: the program's
  bool own_bits;       // floats may have other bits than the code made as ever
  const rg_run_t *run; // the program
} way_t;

enum { TWINS = 4 };

// The first is the code made as ever. The stages are those of the pipeline's own table.
static uint32_t list_ways(way_t *out) {
  static const char *const levels[DT_LLVM_LEVELS] = {"-O0", "-O1", "-O2", "-O3"};
  uint32_t n = 0, bit = 0;
  uint64_t optional = dt__pipeline_optional();
  out[n++] = (way_t){.name = "as ever"};
  out[n++] = (way_t){.name = "all stages", .left_out = optional, .own_bits = true};
  out[n++] = (way_t){.name = "quick", .quick = true};
  out[n++] = (way_t){.name = "quick kernels", .quick_kernels = true};
  out[n++] = (way_t){.name = "1 thread", .threads = 1};
  out[n++] = (way_t){.name = "16 threads", .threads = 16};
  if (__builtin_cpu_supports("sse4.2"))
    out[n++] = (way_t){.name = "x86-64-v2", .cpu = "x86-64-v2", .own_bits = true};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out[n++] = (way_t){.name = "x86-64-v3", .cpu = "x86-64-v3", .own_bits = true};
  for (uint32_t level = 0; level < DT_LLVM_LEVELS; level++)
    out[n++] = (way_t){.name = levels[level], .llvm_level = level + 1};
  for (const char *const *name = dt__pipeline_stages(); *name; name++, bit++)
    if (optional >> bit & 1 && n < RG_WAYS)
      out[n++] = (way_t){.name = *name, .left_out = (uint64_t)1 << bit, .own_bits = true};
  for (uint32_t k = 0; k < DT_CHOICES && n < RG_WAYS; k++)
    out[n++] = (way_t){.name = dt__choice((dt_choice_t)k)->name,
                       .choices = (dt_choices_t)1 << k,
                       .own_bits = !dt__choice((dt_choice_t)k)->keeps_bits};
  if (n < RG_WAYS)
    out[n++] = (way_t){.name = "sizes", .sizes = true, .own_bits = true};
  return n;
}

uint32_t rg_way_names(const char **out) {
  way_t ways[RG_WAYS];
  uint32_t n = list_ways(ways);
  for (uint32_t w = 0; w < n; w++)
    out[w] = ways[w].name;
  return n;
}

// ---- Twins ----------------------------------------------------------------------------------------
typedef struct twins_t {
  rg_program_t programs[TWINS];
  rg_run_t runs[TWINS];
} twins_t;

static bool make_twin(const rg_run_t *run, uint32_t number, rg_program_t *program, rg_run_t *out) {
  uint32_t map[RG_NODES] = {0};
  if (!rg_make_twin(run->p, run->p->seed * TWINS + number, program, map, run->out->twin_uses))
    return false;
  *out = *run;
  out->p = program;
  out->replay = (rg_replay_t){.program = program, .constants = out->constants};
  for (uint32_t i = 0; i < run->p->n_nodes; i++)
    if (run->constants[i])
      out->constants[map[i]] = run->constants[i];
  return true;
}

static uint32_t list_twins(const rg_run_t *run, twins_t *twins, way_t *out) {
  static const char *const names[TWINS] = {"twin 0", "twin 1", "twin 2", "twin 3"};
  uint32_t n = 0;
  out[n++] = (way_t){.name = "as ever", .run = run};
  for (uint32_t k = 0; k < TWINS; k++)
    if (make_twin(run, k, &twins->programs[k], &twins->runs[k]))
      out[n++] = (way_t){.name = names[k], .run = &twins->runs[k], .own_bits = true};
  return n;
}

// ---- Answers --------------------------------------------------------------------------------------
typedef struct answers_t {
  void *outputs[RG_OUTPUTS];
} answers_t;

static void free_answers(answers_t *a) {
  for (uint32_t k = 0; k < RG_OUTPUTS; k++)
    free(a->outputs[k]);
  *a = (answers_t){{NULL}};
}

// NaNs are all one.
static bool same_bits(const dt_eval_value_t *like, const void *a, const void *b) {
  size_t size = dt_dtype_size(like->dtype);
  for (int64_t i = 0; i < like->count; i++) {
    const char *x = (const char *)a + (size_t)i * size, *y = (const char *)b + (size_t)i * size;
    if (memcmp(x, y, size) == 0)
      continue;
    if (!dt__dtype_is_float(like->dtype) || !isnan(dt__scalar_load(like->dtype, x).f) ||
        !isnan(dt__scalar_load(like->dtype, y).f))
      return false;
  }
  return true;
}

static bool wrong(rg_run_t *run, const way_t *way, uint32_t call, const char *what) {
  run->out->kind = RG_WRONG;
  run->out->call = call;
  (void)snprintf(run->out->stage, sizeof(run->out->stage), "%s", way->name);
  (void)snprintf(run->out->text, sizeof(run->out->text), "call %u, way '%s': %s", call, way->name,
                 what);
  return false;
}

static bool right_outputs(rg_run_t *run, const way_t *way, uint32_t call,
                          const dt_eval_value_t *expected, const answers_t *got) {
  dt_text_t text;
  dt__text_init(&text);
  bool right = rg_same_outputs(run, expected, got->outputs, &text) ||
               wrong(run, way, call, dt__text_str(&text));
  dt__text_fini(&text);
  return right;
}

// The same number, or within what both are known to.
static bool same_value(const dt_eval_value_t *a, const dt_eval_value_t *b, int64_t i) {
  double room = a->bound[i] + b->bound[i];
  if (!dt__dtype_is_float(a->dtype))
    return a->data[i].i == b->data[i].i || room > 0;
  double x = a->data[i].f, y = b->data[i].f;
  return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= room || isinf(room);
}

// A twin's values are the program's own, as the evaluator has them.
static bool same_values(rg_run_t *run, const way_t *way, uint32_t call,
                        const dt_eval_value_t *expected, const dt_eval_value_t *got) {
  for (uint32_t k = 0; k < run->p->n_outputs; k++) {
    bool same = expected[k].count == got[k].count && expected[k].dtype == got[k].dtype;
    for (int64_t i = 0; same && i < got[k].count; i++)
      same = same_value(&expected[k], &got[k], i);
    if (!same)
      return wrong(run, way, call, "the evaluator finds another value");
  }
  return true;
}

// What LLVM makes of one module computes the same at every level, in both tiers, and for any number
// of threads. Stages and CPUs decide which products and sums of floats are contracted, and how a
// fold is cut, so that of floats' bits they promise none.
static bool right_bits(rg_run_t *run, const way_t *way, uint32_t w, uint32_t call,
                       const dt_eval_value_t *expected, const answers_t *usual,
                       const answers_t *got) {
  run->out->way_calls[w]++;
  for (uint32_t k = 0; k < run->p->n_outputs; k++) {
    if (same_bits(&expected[k], usual->outputs[k], got->outputs[k]))
      continue;
    if (!way->own_bits || !dt__dtype_is_float(run->p->nodes[run->p->outputs[k]].dtype))
      return wrong(run, way, call, "other bits than the code made as ever");
    run->out->way_bits[w]++;
    run->out->strict_bits += run->p->strict;
    return true;
  }
  return true;
}

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct ways_t {
  rg_run_t *run;
  uint32_t n;
  way_t ways[RG_WAYS];
  guarded_function_t functions[RG_WAYS];
} ways_t;

static bool evaluate(rg_run_t *run, uint32_t call, const guarded_function_t *f,
                     const guarded_variant_t *v, dt_arena_t *arena, rg_args_t *fresh,
                     dt_eval_value_t *out) {
  dt_eval_arg_t args[RG_NODES];
  if (!rg_make_args(run, call, fresh))
    return false;
  for (uint32_t k = 0; k < run->n_inputs; k++)
    args[k] = (dt_eval_arg_t){.data = dt_tensor_data(fresh->tensors[k]),
                              .sizes = dt_tensor_sizes(fresh->tensors[k]),
                              .strides = dt_tensor_strides(fresh->tensors[k])};
  dt_eval_options_t options = {.error_bounds = true};
  return !rg_failed(run, RG_REFUSED, "evaluator",
                    dt__graph_eval(rg_with_updates(arena, v->traced->graph), f->symbols, args,
                                   &options, arena, out));
}

static bool is_literal(void *user, uint32_t input, uint32_t dim, int64_t value) {
  (void)user, (void)input, (void)dim, (void)value;
  return true;
}

static dt_status_t no_capture(void *user, const char *name, const int64_t *address, int64_t value,
                              uint32_t *out_index, bool *out_literal) {
  (void)user, (void)name, (void)address, (void)value, (void)out_index, (void)out_literal;
  return DT_FAIL(DT_E_INTERNAL, "random programs have no captures");
}

static bool answer(ways_t *s, uint32_t w, uint32_t call, dt_arena_t *arena,
                   dt_eval_value_t *expected, answers_t *out) {
  rg_run_t *run = s->run;
  rg_args_t args = {0}, fresh = {0};
  guarded_function_t *f = &s->functions[w];
  guarded_variant_t *v = NULL;
  void *inputs[RG_NODES];
  const char *what = NULL;
  dt_trace_request_t request = rg_request(run, "ways", args.tensors);
  request.closure = (void *)(uintptr_t)&s->ways[w].run->replay;
  static const dt_trace_policy_t literal = {.literal = is_literal, .capture = no_capture};
  if (s->ways[w].sizes)
    request.policy = &literal;
  (void)snprintf(run->out->stage, sizeof(run->out->stage), "%s", s->ways[w].name);
  bool good =
      rg_make_args(run, call, &args) &&
      !rg_failed(run, RG_REFUSED, s->ways[w].name, guarded_function_find(f, &request, &v)) &&
      evaluate(run, call, f, v, arena, &fresh, expected);
  for (uint32_t k = 0; good && k < run->n_inputs; k++)
    inputs[k] = dt_tensor_data(args.tensors[k]);
  for (uint32_t k = 0; good && k < run->p->n_outputs; k++)
    good = (out->outputs[k] = calloc((size_t)expected[k].count + 1, 8)) != NULL;
  good = good &&
         !rg_failed(run, RG_WRONG, s->ways[w].name,
                    guarded_call(v->code, f->symbols, inputs, out->outputs, call, run->out->note));
  if (good &&
      !rg_same_memory(run, v->traced->graph, &args, &fresh, expected + run->p->n_outputs, &what))
    good = wrong(run, &s->ways[w], call, what);
  rg_free_args(&fresh);
  rg_free_args(&args);
  return good;
}

static bool run_call(ways_t *s, uint32_t call) {
  dt_arena_t arena;
  answers_t usual = {{NULL}};
  dt_eval_value_t expected[RG_OUTPUTS + RG_UPDATES], other[RG_OUTPUTS + RG_UPDATES];
  dt__arena_init(&arena, 0);
  bool good = answer(s, 0, call, &arena, expected, &usual) &&
              right_outputs(s->run, &s->ways[0], call, expected, &usual);
  for (uint32_t w = 1; good && w < s->n; w++) {
    answers_t got = {{NULL}};
    good = answer(s, w, call, &arena, other, &got) &&
           same_values(s->run, &s->ways[w], call, expected, other) &&
           right_outputs(s->run, &s->ways[w], call, expected, &got) &&
           right_bits(s->run, &s->ways[w], w, call, expected, &usual, &got);
    free_answers(&got);
  }
  free_answers(&usual);
  dt__arena_fini(&arena);
  return good;
}

// As far as this CPU has something for them.
static dt_target_t chosen(const dt_target_t *target, dt_choices_t choices) {
  dt_target_t out = *target;
  dt_status_free(dt__choices_apply(dt__choices_within(choices, target), &out));
  return out;
}

void rg_run_ways(rg_run_t *run) {
  ways_t *s = calloc(1, sizeof(*s));
  twins_t *twins = calloc(1, sizeof(*twins));
  dt_target_t target;
  if (!s || !twins) {
    free(s);
    free(twins);
    return;
  }
  s->run = run;
  s->n = run->flags & RG_TWINS_TOO ? list_twins(run, twins, s->ways) : list_ways(s->ways);
  for (uint32_t w = 0; w < s->n; w++) {
    dt_compile_options_t options = {.quick = s->ways[w].quick,
                                    .quick_kernels = s->ways[w].quick_kernels,
                                    .llvm_level = s->ways[w].llvm_level};
    uint32_t threads = s->ways[w].threads ? s->ways[w].threads : run->p->threads;
    if (rg_failed(run, RG_HARNESS, "target",
                  dt__host_target(s->ways[w].cpu ? s->ways[w].cpu : "", threads, &target)))
      break;
    target.left_out = s->ways[w].left_out;
    target.strict_fp = run->p->strict;
    target = chosen(&target, s->ways[w].choices);
    if (!s->ways[w].run)
      s->ways[w].run = run;
    guarded_function_init(&s->functions[w], &target, &options);
  }
  for (uint32_t call = 0; run->out->kind == RG_RIGHT && call < run->p->n_calls && run_call(s, call);
       call++)
    run->out->call = call;
  if (run->out->kind == RG_RIGHT)
    run->out->stage[0] = '\0';
  for (uint32_t w = 0; w < s->n; w++) {
    run->out->variants += s->functions[w].n;
    guarded_function_fini(&s->functions[w]);
  }
  free(twins);
  free(s);
}
