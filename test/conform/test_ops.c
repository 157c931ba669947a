// SPDX-License-Identifier: Apache-2.0
// Conformance on the CPU, or on a GPU (test/device/on_device.h): every case of cases*.c, compiled
// once per dtype and run at many sizes, contiguous and strided, against the evaluator under the
// numerical policy. Only answers of compiled code count: a case whose calls were not all answered
// by it fails. usage: test_ops GROUP|all [OP] [--few [N] | --tiny | --halves | --guarded [N]]
#include "test/conform/cases.h"

#include "backend_llvm/host/target.h"
#include "ductile/experimental.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/trace/trace.h"
#include "test/conform/guarded/guarded_function.h"
#include "test/device/on_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shapes[][2] = {{1, 1},  {0, 3},  {3, 0},   {2, 3},   {7, 16},  {16, 7},
                                    {1, 33}, {33, 1}, {17, 65}, {130, 5}, {3, 300}, {64, 48}};
// Between guards also: every second of them fills whole vectors, and there is none behind the last.
static const int64_t whole_vectors[2] = {3, 127};
static const struct {
  dt_dtype_t dtype;
  uint32_t bit;
} dtypes[] = {{DT_F16, T_F16},  {DT_BF16, T_BF16}, {DT_F32, T_F32}, {DT_F64, T_F64},
              {DT_I8, T_INT},   {DT_I16, T_INT},   {DT_I32, T_INT}, {DT_I64, T_INT},
              {DT_U8, T_INT},   {DT_U16, T_INT},   {DT_U32, T_INT}, {DT_U64, T_INT},
              {DT_BOOL, T_BOOL}};

// With --few: some shapes, layouts and dtypes of each kind, for where calls are slow; of those
// functions every N-th.
static bool few;
// With --halves: nothing but all halves there are, through ops of one input.
static bool halves;
// With --guarded: kernels run between guards (guarded/guarded.h), without a runtime; every N-th.
static bool guarded;
static uint64_t launches;
// With --tiny: one shape of one element, in all layouts and dtypes, where code is what is wanted.
static bool tiny;
static bool is_tried(int layout, size_t shape) {
  return halves ? false : tiny ? shape == 0 : !few || (layout != 1 && shape % 4 == 0);
}
// Another dtype of its kind is tried. Programs of the group `data` are the largest.
static bool has_sibling(const char *group, dt_dtype_t dtype) {
  if (strcmp(group, "data") == 0)
    return dtype != DT_F32 && dtype != DT_F16 && dtype != DT_I64 && dtype != DT_BOOL;
  return dtype == DT_I8 || dtype == DT_U16 || dtype == DT_U32 || dtype == DT_U64;
}

static int failures;
static int64_t checked, uncertain;
static uint64_t graph_calls;

static bool failed(const char *what, dt_status_t status) {
  if (!status)
    return false;
  printf("FAIL %s: %s: %s\n", what, dt_code_name(dt_status_code(status)),
         dt_status_message(status));
  dt_status_free(status);
  failures++;
  return true;
}

// ---- Programs and arguments -----------------------------------------------------------------------

typedef struct run_t {
  const case_t *c;
  dt_dtype_t dtype;
  char name[96];
  dt_input_decl_t decls[CASE_INPUTS];
  dt_dim_decl_t dims[CASE_INPUTS][CASE_RANK];
} run_t;

static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const run_t *run = closure;
  out[0] = run->c->make(trace, in, run->dtype);
  return NULL;
}

static dt_dtype_t input_dtype(const run_t *run, uint32_t k) {
  return run->c->in[k].dtype ? run->c->in[k].dtype : run->dtype;
}

static void declare(run_t *run) {
  for (uint32_t k = 0; k < run->c->n_inputs; k++) {
    const input_t *in = &run->c->in[k];
    for (uint32_t d = 0; d < in->rank; d++) {
      dt_dim_decl_t *dim = &run->dims[k][d];
      if (in->dims[d] < 0)
        dim->name = in->dims[d] == DIM_M ? "m" : "n";
      else
        *dim = (dt_dim_decl_t){.value = in->dims[d], .is_static = true};
    }
    run->decls[k] =
        (dt_input_decl_t){.dtype = input_dtype(run, k), .rank = in->rank, .dims = run->dims[k]};
  }
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525U + 1013904223U;
  return *state >> 8;
}

static dt_scalar_t random_value(dt_dtype_t dtype, fill_t fill, int64_t m, uint32_t *state) {
  static const double specials[] = {NAN,   INFINITY, -INFINITY, 0.0,  -0.0,
                                    1e-40, 6e-8,     1e38,      -1.0, 1.0};
  uint32_t bits = next_random(state);
  bool is_float = dt__dtype_is_float(dtype);
  if (dtype == DT_BOOL)
    return (dt_scalar_t){.i = bits & 1};
  if (fill == FILL_INDEX_M)
    return (dt_scalar_t){.i = m ? (int64_t)(bits % (uint32_t)(2 * m)) - m : 0};
  if (fill == FILL_COUNT)
    return (dt_scalar_t){.i = bits % 4};
  if (fill == FILL_SMALL) {
    int64_t small = (int64_t)(bits % 5) - (dt__dtype_kind(dtype) == DT_KIND_UINT ? 0 : 2);
    return is_float ? (dt_scalar_t){.f = (double)small} : (dt_scalar_t){.i = small};
  }
  if (is_float) {
    if (fill == FILL_ANY && bits % 16 == 0)
      return (dt_scalar_t){.f = specials[(bits >> 8) % (sizeof(specials) / sizeof(double))]};
    return (dt_scalar_t){.f = ((double)bits / (1 << 23) - 1.0) * 4};
  }
  uint64_t wide = ((uint64_t)bits << 40) ^ ((uint64_t)next_random(state) << 16) ^ bits;
  dt_scalar_t value = {.i = bits % 4 ? (int64_t)(bits % 200) - 100 : (int64_t)wide};
  return dt__scalar_cast(DT_I64, dtype, value);
}

// Memory of an argument; layout 0: contiguous, 1: every dim with a gap, 2: reversed dims, backwards
// along the last, EVERY: contiguous, of halves all there are.
enum { EVERY = 3 };
static const int64_t every_half[2] = {256, 256};
typedef struct argument_t {
  void *memory;
  dt_tensor_t *tensor;
} argument_t;

static bool make_argument(const run_t *run, uint32_t k, const int64_t *shape, int layout,
                          argument_t *out) {
  const input_t *in = &run->c->in[k];
  dt_dtype_t dtype = input_dtype(run, k);
  size_t size = dt_dtype_size(dtype);
  int64_t sizes[CASE_RANK], strides[CASE_RANK], span = 1;
  for (uint32_t d = 0; d < in->rank; d++)
    sizes[d] = in->dims[d] >= 0 ? in->dims[d] : in->dims[d] == DIM_M ? shape[0] : shape[1];
  for (uint32_t d = 0; d < in->rank; d++) {
    uint32_t at = layout == 2 ? d : in->rank - 1 - d;
    strides[at] = span * (layout == 1 ? 2 : 1);
    span = strides[at] * (sizes[at] > 0 ? sizes[at] : 1);
  }
  int64_t first = 0;
  if (layout == 2 && in->rank) {
    first = strides[in->rank - 1] * (sizes[in->rank - 1] > 0 ? sizes[in->rank - 1] - 1 : 0);
    strides[in->rank - 1] = -strides[in->rank - 1];
  }
  out->memory = malloc((size_t)(span + 1) * size);
  uint32_t state = 12345U + 77U * k + (uint32_t)shape[0] * 31U + (uint32_t)shape[1];
  for (int64_t i = 0; out->memory && i <= span; i++) {
    char *at = (char *)out->memory + (size_t)i * size;
    uint16_t bits = (uint16_t)i;
    if (layout == EVERY && dt__dtype_is_half(dtype))
      memcpy(at, &bits, sizeof(bits));
    else
      dt__scalar_store(dtype, at, random_value(dtype, in->fill, shape[0], &state));
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dtype,
                           .rank = in->rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = (char *)out->memory + (size_t)first * size};
  return out->memory && !failed(run->name, dt_tensor_create(&desc, &out->tensor));
}

// ---- One call against the evaluator ------------------------------------------------------------------

static bool oracle(const run_t *run, dt_tensor_t *const *inputs, dt_arena_t *arena,
                   dt_traced_t **traced, dt_eval_value_t *out) {
  dt_trace_request_t request = {.name = run->name,
                                .program = program,
                                .closure = (void *)(uintptr_t)run,
                                .n_inputs = run->c->n_inputs,
                                .n_outputs = 1,
                                .inputs = run->decls,
                                .example = inputs};
  if (failed(run->name, dt__trace_run(&request, traced)))
    return false;
  dt_guards_t *guards = NULL;
  if (failed(run->name, dt__guards_create((*traced)->graph, (*traced)->conds.items,
                                          (*traced)->conds.len, NULL, &guards)))
    return false;
  int64_t *symbols = calloc(dt__guards_symbol_count(guards) + 1, sizeof(*symbols));
  dt_eval_arg_t args[CASE_INPUTS];
  for (uint32_t k = 0; k < run->c->n_inputs; k++)
    args[k] = (dt_eval_arg_t){.data = dt_tensor_data(inputs[k]),
                              .sizes = dt_tensor_sizes(inputs[k]),
                              .strides = dt_tensor_strides(inputs[k])};
  bool right = false;
  dt_eval_options_t options = {.error_bounds = true};
  if (!symbols || !dt__guards_run(guards, &(dt_guard_args_t){.inputs = inputs}, symbols)) {
    printf("FAIL %s: the guards of a trace refuse its own example\n", run->name);
    failures++;
  } else {
    right =
        !failed(run->name, dt__graph_eval((*traced)->graph, symbols, args, &options, arena, out));
  }
  free(symbols);
  dt__guards_destroy(guards);
  return right;
}

// An element in halves whose bound is 0 is certain after its rounding, so that even the last place
// must be right; the place of the first that is not, or -1.
static int64_t first_inexact(const dt_eval_value_t *expected, const void *got) {
  for (int64_t k = 0; dt__dtype_is_half(expected->dtype) && k < expected->count; k++) {
    const char *at = (const char *)got + 2 * (size_t)k;
    double want = expected->data[k].f;
    if (expected->bound[k] == 0.0 && !isnan(want) && dt__scalar_load(expected->dtype, at).f != want)
      return k;
  }
  return -1;
}

static void compare_data(const run_t *run, const int64_t *shape, int layout,
                         const dt_eval_value_t *expected, const void *got) {
  dt_eval_report_t report = {0};
  if (!dt__eval_compare(expected, got, NULL, &report)) {
    dt_text_t text;
    dt__text_init(&text);
    dt__eval_report_print(expected, &report, &text);
    printf("FAIL %s [%d, %d] layout %d: %s\n", run->name, (int)shape[0], (int)shape[1], layout,
           dt__text_str(&text));
    dt__text_fini(&text);
    failures++;
  } else if (first_inexact(expected, got) >= 0) {
    int64_t k = first_inexact(expected, got);
    printf("FAIL %s [%d, %d] layout %d: element %d is not %.9g, which is certain\n", run->name,
           (int)shape[0], (int)shape[1], layout, (int)k, expected->data[k].f);
    failures++;
  }
  checked += report.compared;
  uncertain += report.uncertain;
}

static void compare(const run_t *run, const int64_t *shape, int layout, dt_tensor_t *const *inputs,
                    const dt_tensor_t *got) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_traced_t *traced = NULL;
  dt_eval_value_t expected;
  if (oracle(run, inputs, &arena, &traced, &expected)) {
    bool same_shape =
        expected.rank == dt_tensor_rank(got) && expected.dtype == dt_tensor_dtype(got);
    for (uint32_t d = 0; same_shape && d < expected.rank; d++)
      same_shape = expected.sizes[d] == dt_tensor_sizes(got)[d];
    if (!same_shape) {
      printf("FAIL %s [%d, %d]: rank, dtype or sizes differ\n", run->name, (int)shape[0],
             (int)shape[1]);
      failures++;
    } else {
      compare_data(run, shape, layout, &expected, dt_tensor_data(got));
    }
  }
  dt__traced_destroy(traced);
  dt__arena_fini(&arena);
}

static void call_once(const run_t *run, dt_session_t *session, dt_function_t *function,
                      const int64_t *shape, int layout) {
  argument_t args[CASE_INPUTS] = {{0}};
  dt_tensor_t *inputs[CASE_INPUTS], *there[CASE_INPUTS] = {0}, *output = NULL, *brought = NULL;
  bool right = true;
  for (uint32_t k = 0; right && k < run->c->n_inputs; k++) {
    right = make_argument(run, k, shape, layout, &args[k]) &&
            !failed(run->name, on_device_take(session, args[k].tensor, &there[k]));
    inputs[k] = args[k].tensor;
  }
  if (right &&
      !failed(run->name, dt_call(session, function, there, run->c->n_inputs, &output, 1, NULL)) &&
      !failed(run->name, on_device_bring(session, output, &brought)))
    compare(run, shape, layout, inputs, brought);
  dt_tensor_release(brought);
  dt_tensor_release(output);
  for (uint32_t k = 0; k < run->c->n_inputs; k++) {
    dt_tensor_release(there[k]);
    dt_tensor_release(args[k].tensor);
    free(args[k].memory);
  }
}

static void check_graphs(const run_t *run, const dt_function_counters_t *stats) {
  const char *why = NULL;
  uint64_t graphs = 0;
  if (!on_device_graphs() || on_device_were_graphs(stats, &graphs, &why)) {
    graph_calls += graphs;
    return;
  }
  printf("FAIL %s: %d of %d calls were graphs: %s\n", run->name, (int)graphs, (int)stats->calls,
         why);
  failures++;
}

static void check_case(dt_runtime_t *runtime, const case_t *c, dt_dtype_t dtype) {
  run_t run = {.c = c, .dtype = dtype};
  snprintf(run.name, sizeof(run.name), "%s%s%s %s", c->op, c->form[0] ? " " : "", c->form,
           dt_dtype_name(dtype));
  declare(&run);
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = run.name,
                                   .n_inputs = c->n_inputs,
                                   .n_outputs = 1,
                                   .inputs = run.decls};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  if (failed(run.name, dt_function_create(runtime, program, &run, &options, &function)) ||
      failed(run.name, on_device_session(runtime, &session)))
    goto out;
  uint64_t calls = 0;
  // Graphs are set from each size to the next, and back.
  size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]),
         n = on_device_graphs() ? 2 * n_shapes : n_shapes;
  for (int layout = 0; layout < 3; layout++)
    for (size_t i = 0; i < n; i++) {
      size_t s = i < n_shapes ? i : n - 1 - i;
      if ((c->needs_rows && shapes[s][0] == 0) || !is_tried(layout, s))
        continue;
      call_once(&run, session, function, shapes[s], layout);
      calls++;
    }
  if (!few && !tiny && dt__dtype_is_half(dtype) && strcmp(c->group, "unary") == 0) {
    call_once(&run, session, function, every_half, EVERY);
    calls++;
  }
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  if (!failed(run.name, dt_function_counters(function, &stats)) &&
      (stats.calls != calls || stats.evaluator_calls != 0)) {
    printf("FAIL %s: %d of %d calls answered, %d by the evaluator\n", run.name, (int)stats.calls,
           (int)calls, (int)stats.evaluator_calls);
    failures++;
  }
  check_graphs(&run, &stats);
out:
  dt_session_destroy(session);
  dt_function_release(function);
}

// ---- Between guards -------------------------------------------------------------------------------
static void call_guarded(const run_t *run, guarded_function_t *function, const int64_t *shape,
                         int layout, uint32_t number) {
  argument_t args[CASE_INPUTS] = {{0}};
  dt_tensor_t *inputs[CASE_INPUTS];
  void *memory[CASE_INPUTS], *output = NULL;
  char note[GUARDED_NOTE] = "";
  dt_arena_t arena;
  dt_traced_t *traced = NULL;
  guarded_variant_t *variant = NULL;
  dt_eval_value_t expected;
  bool right = true;
  dt__arena_init(&arena, 0);
  for (uint32_t k = 0; right && k < run->c->n_inputs; k++) {
    right = make_argument(run, k, shape, layout, &args[k]);
    inputs[k] = args[k].tensor;
    memory[k] = right ? dt_tensor_data(inputs[k]) : NULL;
  }
  dt_trace_request_t request = {.name = run->name,
                                .program = program,
                                .closure = (void *)(uintptr_t)run,
                                .n_inputs = run->c->n_inputs,
                                .n_outputs = 1,
                                .inputs = run->decls,
                                .example = inputs};
  right = right && oracle(run, inputs, &arena, &traced, &expected) &&
          (output = calloc((size_t)expected.count + 1, 8)) != NULL &&
          !failed(run->name, guarded_function_find(function, &request, &variant)) &&
          !failed(run->name,
                  guarded_call(variant->code, function->symbols, memory, &output, number, note));
  if (right)
    compare_data(run, shape, layout, &expected, output);
  free(output);
  dt__traced_destroy(traced);
  dt__arena_fini(&arena);
  for (uint32_t k = 0; k < run->c->n_inputs; k++) {
    dt_tensor_release(args[k].tensor);
    free(args[k].memory);
  }
}

// Functions take turns in what they are compiled for.
static void check_guarded(const case_t *c, dt_dtype_t dtype, int number) {
  static guarded_function_t function;
  run_t run = {.c = c, .dtype = dtype};
  snprintf(run.name, sizeof(run.name), "%s%s%s %s", c->op, c->form[0] ? " " : "", c->form,
           dt_dtype_name(dtype));
  declare(&run);
  const char *cpu = number % 3 == 1 && __builtin_cpu_supports("sse4.2") ? "x86-64-v2"
                    : number % 3 == 2 && __builtin_cpu_supports("avx2") ? "x86-64-v3"
                                                                        : "";
  dt_target_t target;
  if (failed(run.name, dt__host_target(cpu, 2, &target)))
    return;
  dt_compile_options_t options = {.quick = number % 2 == 1};
  guarded_function_init(&function, &target, &options);
  uint32_t calls = 0;
  for (int layout = 0; layout < 3; layout++)
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
      if (!(c->needs_rows && shapes[s][0] == 0))
        call_guarded(&run, &function, shapes[s], layout, calls++);
  for (uint32_t end = 0; end < 2; end++)
    call_guarded(&run, &function, whole_vectors, 0, calls++);
  for (uint32_t k = 0; k < function.n; k++)
    launches += function.variants[k].code ? guarded_launches(function.variants[k].code) : 0;
  guarded_function_fini(&function);
}

// All of them, by number; NULL after the last.
static const case_t *case_at(uint32_t k) {
  const struct {
    const case_t *items;
    uint32_t n;
  } lists[] = {{cases, n_cases},
               {data_cases, n_data_cases},
               {index_cases, n_index_cases},
               {window_cases, n_window_cases},
               {scan_cases, n_scan_cases}};
  for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); k -= lists[i++].n)
    if (k < lists[i].n)
      return &lists[i].items[k];
  return NULL;
}

// Every op of the table is in some case, but for calls of users' ops (unit.exec.ops).
static void check_coverage(void) {
  for (int op = 1; op < DT_OP_COUNT; op++) {
    bool covered = op == DT_OP_external;
    const case_t *c = NULL;
    for (uint32_t k = 0; !covered && (c = case_at(k)); k++)
      covered = strcmp(c->op, dt__op_info((dt_op_t)op)->name) == 0;
    if (!covered) {
      printf("FAIL no case for op %s\n", dt__op_info((dt_op_t)op)->name);
      failures++;
    }
  }
}

int main(int argc, char **argv) {
  dt_runtime_t *runtime = NULL;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (failed("runtime", dt_runtime_create(NULL, &runtime)))
    return 1;
  long every = 1;
  for (int i = 2; i < argc; i++) {
    few = strcmp(argv[i], "--few") == 0;
    tiny = strcmp(argv[i], "--tiny") == 0;
    halves = strcmp(argv[i], "--halves") == 0;
    guarded = strcmp(argv[i], "--guarded") == 0;
    if (few || tiny || halves || guarded) {
      every = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : 1;
      argc = i;
    }
  }
  check_coverage();
  int ran = 0, seen = 0;
  const case_t *c = NULL;
  for (uint32_t k = 0; (c = case_at(k)); k++) {
    if ((argc > 1 && strcmp(c->group, argv[1]) != 0 && strcmp("all", argv[1]) != 0) ||
        (argc > 2 && strcmp(c->op, argv[2]) != 0))
      continue;
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
      if ((c->dtypes & dtypes[d].bit) && !(halves && !dt__dtype_is_half(dtypes[d].dtype)) &&
          !(few && has_sibling(c->group, dtypes[d].dtype)) &&
          seen++ % (every > 1 ? every : 1) == 0) {
        if (guarded)
          check_guarded(c, dtypes[d].dtype, ran);
        else
          check_case(runtime, c, dtypes[d].dtype);
        ran++;
      }
  }
  dt_runtime_release(runtime);
  printf("%d functions, %lld elements compared, %lld uncertain, %d failures\n", ran,
         (long long)checked, (long long)uncertain, failures);
  if (on_device_graphs())
    printf("%llu calls were graphs\n", (unsigned long long)graph_calls);
  if (guarded)
    printf("%llu launches between guards\n", (unsigned long long)launches);
  return failures || ran == 0 || (guarded && !launches) || uncertain * 2 > checked ||
         (on_device_graphs() && !graph_calls);
}
