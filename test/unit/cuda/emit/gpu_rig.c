// SPDX-License-Identifier: Apache-2.0
// See gpu_rig.h.
#include "test/unit/cuda/emit/gpu_rig.h"

#include "lower/graph/eval.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "test/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes) {
  void *block = calloc(1, bytes + 1);
  assert_non_null(block);
  return block;
}

// ---- Compiling ----------------------------------------------------------------------------------
static void compile(gpu_rig_t *r) {
  expect_ok(dt__llvm_split(r->program, &r->target, 2, DT_UNIT_WORK_ANY, &r->map));
  dt_compile_options_t options = {.verify = true};
  size_t bytes = 0;
  expect_ok(dt__cuda_compile_unit(r->program, &r->map, 0, &r->target, &options, &r->ptx, &bytes));
}

void gpu_rig_make(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict) {
  memset(r, 0, sizeof(*r));
  dt__arena_init(&r->arena, 0);
  expect_ok(dt__symenv_create(&r->env));
  dt_scan_t scan;
  dt__scan_init(&scan, graph, strlen(graph), "graph");
  expect_ok(dt__graph_parse(&r->arena, r->env, &scan, &r->graph));
  dt__symenv_freeze(r->env);
  expect_ok(dt__cuda_target(model, NULL, &r->target));
  r->target.strict_fp = strict;
  expect_ok(dt__pipeline_run(&r->arena, r->env, r->graph,
                             &(dt_pipeline_request_t){.target = &r->target, .verify = true},
                             &r->program));
}

void gpu_rig_open(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict) {
  gpu_rig_make(r, graph, model, strict);
  compile(r);
}

// The first whose condition holds.
static uint32_t schedule_for(const gpu_rig_t *r, const dt_kernel_t *kernel,
                             const int64_t *symbols) {
  uint32_t s = 0;
  while (kernel->schedules.items[s].predicate.id &&
         !gpu_rig_value(r, symbols, kernel->schedules.items[s].predicate))
    s++;
  return s;
}

void gpu_rig_open_for(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict,
                      const int64_t (*sizes)[4], uint32_t n) {
  gpu_rig_make(r, graph, model, strict);
  dt_kernel_t *kernel = &r->program->kernels.items[0];
  uint32_t kept = 0, all = kernel->schedules.len;
  bool taken[64] = {false};
  assert_true(all > 0 && all <= 64);
  taken[all - 1] = true;
  for (uint32_t i = 0; i < n; i++) {
    int64_t *symbols = gpu_rig_symbols(r, sizes[i], 4);
    taken[schedule_for(r, kernel, symbols)] = true;
    free(symbols);
  }
  for (uint32_t s = 0; s < all && r->program->kernels.len == 1; s++)
    if (taken[s])
      kernel->schedules.items[kept++] = kernel->schedules.items[s];
  if (kept)
    kernel->schedules.len = kept;
  compile(r);
}

void gpu_rig_open_loops(gpu_rig_t *r, const char *program, const dt_cuda_model_t *model) {
  memset(r, 0, sizeof(*r));
  dt__arena_init(&r->arena, 0);
  expect_ok(dt__symenv_create(&r->env));
  dt_scan_t scan;
  dt__scan_init(&scan, program, strlen(program), "program");
  expect_ok(dt__program_parse(&r->arena, r->env, &scan, &r->program));
  expect_ok(dt__program_verify(r->program));
  expect_ok(dt__cuda_target(model, NULL, &r->target));
  compile(r);
}

void gpu_rig_close(gpu_rig_t *r) {
  if (r->cuda)
    assert_int_equal(r->cuda->module_unload(r->module), DT_CU_SUCCESS);
  dt__free(r->ptx);
  dt__symenv_destroy(r->env);
  dt__arena_fini(&r->arena);
}

// ---- Sizes --------------------------------------------------------------------------------------
int64_t *gpu_rig_symbols(const gpu_rig_t *r, const int64_t *sizes, uint32_t n) {
  int64_t *symbols = take((dt__symenv_symbol_count(r->env) + 1) * sizeof(int64_t));
  memcpy(symbols, sizes, n * sizeof(*sizes));
  return symbols;
}

int64_t gpu_rig_value(const gpu_rig_t *r, const int64_t *symbols, dt_sym_t e) {
  int64_t value = 0;
  assert_true(dt__sym_eval(r->env, e, symbols, &value));
  return value;
}

size_t gpu_rig_bytes(const gpu_rig_t *r, const int64_t *symbols, const dt_buffer_t *buffer) {
  int64_t last = 0;
  if (buffer->layout) {
    const dt_buffer_id_t id = {(uint32_t)(buffer - r->program->buffers.items) + 1};
    return (size_t)gpu_rig_value(r, symbols, dt__buffer_count(r->program, id)) *
           dt_dtype_size(buffer->dtype);
  }
  for (uint32_t d = 0; d < buffer->rank; d++) {
    int64_t size = gpu_rig_value(r, symbols, buffer->sizes[d]);
    if (size == 0)
      return 0;
    last += (size - 1) * gpu_rig_value(r, symbols, buffer->strides[d]);
  }
  return (size_t)(last + 1) * dt_dtype_size(buffer->dtype);
}

static int64_t items_of(gpu_rig_t *r, const gpu_launch_t *l, const int64_t *symbols) {
  const dt_kernel_t *kernel = l->kernel;
  const dt_schedule_t *schedule = l->schedule;
  uint32_t n = kernel->n_loops;
  int64_t count = 1;
  for (uint32_t v = 0; v < n; v++) {
    int64_t extent = gpu_rig_value(r, symbols, kernel->extents[v]), unit = 1;
    if (schedule->kind == DT_SCHEDULE_OUTER_LANES && v + 1 == n)
      unit = schedule->outer.block;
    if (dt__schedule_is_product(schedule) && v + 2 >= n)
      unit = v + 1 == n ? schedule->product.tile_cols : schedule->product.tile_rows;
    count *= (extent + unit - 1) / unit;
  }
  if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    count *= dt__matmul_cluster(&schedule->team_matmul);
  return count;
}

void gpu_rig_launch(gpu_rig_t *r, uint32_t index, const int64_t *symbols, gpu_launch_t *out) {
  const dt_kernel_t *kernel = &r->program->kernels.items[index];
  *out = (gpu_launch_t){.kernel = kernel};
  uint32_t s = schedule_for(r, kernel, symbols);
  out->schedule = &kernel->schedules.items[s];
  out->code = r->map.code_of_kernel[r->map.first_code[index] + s];
  expect_ok(dt__cuda_kernel_info(r->program, &r->map, out->code, &r->target, &out->info));
  dt_text_t text;
  dt__text_init(&text);
  expect_ok(dt__kernel_print(r->program, kernel, &out->params, &text));
  dt__text_fini(&text);
  out->count = items_of(r, out, symbols);
}

// ---- Data ---------------------------------------------------------------------------------------
void gpu_rig_fill(dt_dtype_t dtype, void *data, size_t bytes, uint32_t seed) {
  size_t element = dt_dtype_size(dtype);
  uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (size_t i = 0; i + element <= bytes; i += element) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    int64_t number = (int64_t)(state >> 40) % 2001 - 1000;
    dt_scalar_t value = {.i = number % 8};
    if (dtype == DT_I64)
      value.i = (number % 8 + 8) % 8;
    if (dt__dtype_is_float(dtype))
      value = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = (double)number / 1024});
    dt__scalar_store(dtype, (char *)data + i, value);
  }
}

static void compare_one(const dt_eval_value_t *value, int64_t at, const void *data,
                        const char *what) {
  dt_scalar_t got = dt__scalar_load(value->dtype, data);
  if (!dt__dtype_is_float(value->dtype)) {
    if (got.i != value->data[at].i)
      fail_msg("%s: element %lld: %lld, expected %lld", what, (long long)at, (long long)got.i,
               (long long)value->data[at].i);
    return;
  }
  double wanted = value->data[at].f, error = fabs(got.f - wanted);
  if (!(error <= value->bound[at]))
    fail_msg("%s: element %lld: %.9g, expected %.9g within %.3g", what, (long long)at, got.f,
             wanted, value->bound[at]);
}

static void compare_exactly(gpu_rig_t *r, const int64_t *symbols, void *const *inputs,
                            void *const *outputs, const char *what) {
  void *wanted[16] = {0};
  for (uint32_t o = 0; o < r->program->outputs.len; o++)
    wanted[o] = take(
        gpu_rig_bytes(r, symbols, dt__program_buffer(r->program, r->program->outputs.items[o])));
  expect_ok(dt__program_interpret(r->program, symbols, inputs, wanted));
  for (uint32_t o = 0; o < r->program->outputs.len; o++) {
    const dt_buffer_t *buffer = dt__program_buffer(r->program, r->program->outputs.items[o]);
    if (memcmp(wanted[o], outputs[o], gpu_rig_bytes(r, symbols, buffer)) != 0)
      fail_msg("%s: result %u differs from the interpreter's", what, o);
    free(wanted[o]);
  }
}

void gpu_rig_compare(gpu_rig_t *r, const int64_t *symbols, void *const *inputs,
                     void *const *outputs, const char *what) {
  if (!r->graph) {
    compare_exactly(r, symbols, inputs, outputs, what);
    return;
  }
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  uint32_t n_inputs = r->graph->inputs.len, n_outputs = r->graph->outputs.len;
  dt_eval_arg_t *args = DT_ARENA_ARRAY(&arena, dt_eval_arg_t, n_inputs + 1);
  dt_eval_value_t *values = DT_ARENA_ARRAY(&arena, dt_eval_value_t, n_outputs + 1);
  assert_true(args && values);
  for (uint32_t b = 0; b < r->program->buffers.len; b++) {
    const dt_buffer_t *buffer = &r->program->buffers.items[b];
    int64_t *numbers = DT_ARENA_ARRAY(&arena, int64_t, 2 * DT_MAX_RANK);
    if (buffer->kind != DT_BUFFER_INPUT)
      continue;
    for (uint32_t d = 0; d < buffer->rank; d++) {
      numbers[d] = gpu_rig_value(r, symbols, buffer->sizes[d]);
      numbers[DT_MAX_RANK + d] = gpu_rig_value(r, symbols, buffer->strides[d]);
    }
    args[buffer->index] = (dt_eval_arg_t){inputs[buffer->index], numbers, numbers + DT_MAX_RANK};
  }
  dt_eval_options_t options = {.error_bounds = true};
  expect_ok(dt__graph_eval(r->graph, symbols, args, &options, &arena, values));
  for (uint32_t o = 0; o < n_outputs; o++)
    for (int64_t i = 0; i < values[o].count; i++)
      compare_one(&values[o], i,
                  (const char *)outputs[o] + (size_t)i * dt_dtype_size(values[o].dtype), what);
  dt__arena_fini(&arena);
}

// ---- Running ------------------------------------------------------------------------------------
#define OK(expr) assert_int_equal((expr), DT_CU_SUCCESS)
#define SCRATCH_STRIDE (1 << 16)

typedef struct gpu_memory_t {
  dt_cu_ptr_t *base; // by buffer
  dt_cu_ptr_t record, scratch;
  void **host; // by buffer: inputs and outputs
} gpu_memory_t;

static dt_cu_ptr_t allocate(const dt_cuda_t *cuda, size_t bytes) {
  dt_cu_ptr_t ptr = 0;
  OK(cuda->mem_alloc(&ptr, bytes ? bytes : 16));
  return ptr;
}

// Of a block, in any kernel at these sizes.
static uint32_t most_teams(gpu_rig_t *r, const int64_t *symbols) {
  uint32_t most = 1;
  for (uint32_t k = 0; k < r->program->kernels.len; k++) {
    gpu_launch_t l;
    gpu_rig_launch(r, k, symbols, &l);
    most = l.info.teams > most ? l.info.teams : most;
  }
  return most;
}

static void place(gpu_rig_t *r, const dt_cuda_t *cuda, const int64_t *symbols, uint32_t blocks,
                  gpu_memory_t *m) {
  uint32_t n = r->program->buffers.len;
  m->base = take((n + 1) * sizeof(*m->base));
  m->host = take((n + 1) * sizeof(*m->host));
  for (uint32_t b = 0; b < n; b++) {
    const dt_buffer_t *buffer = &r->program->buffers.items[b];
    if (buffer->kind == DT_BUFFER_LOCAL)
      continue;
    size_t bytes = gpu_rig_bytes(r, symbols, buffer);
    m->base[b] = allocate(cuda, bytes);
    m->host[b] = take(bytes);
    if (buffer->kind == DT_BUFFER_INPUT && bytes) {
      gpu_rig_fill(buffer->dtype, m->host[b], bytes, 17 + b);
      OK(cuda->copy_to_device(m->base[b], m->host[b], bytes, NULL));
    }
  }
  m->record = allocate(cuda, sizeof(dt_cuda_record_t));
  m->scratch =
      allocate(cuda, (size_t)SCRATCH_STRIDE * most_teams(r, symbols) * blocks * 4); // clusters
  dt_cuda_record_t record = {0};
  OK(cuda->copy_to_device(m->record, &record, sizeof(record), NULL));
}

static void release(gpu_rig_t *r, const dt_cuda_t *cuda, gpu_memory_t *m) {
  for (uint32_t b = 0; b < r->program->buffers.len; b++) {
    if (m->base[b])
      OK(cuda->mem_free(m->base[b]));
    free(m->host[b]);
  }
  OK(cuda->mem_free(m->record));
  OK(cuda->mem_free(m->scratch));
  free(m->base);
  free(m->host);
}

static void launch(gpu_rig_t *r, const dt_cuda_t *cuda, dt_cu_module_t module,
                   const gpu_memory_t *m, const int64_t *symbols, uint32_t blocks,
                   const gpu_launch_t *l) {
  uint64_t words[64] = {0};
  uint32_t n = l->info.n_words;
  assert_true(n + DT_CUDA_TAIL_WORDS <= 64);
  for (uint32_t i = 0; i < l->params.n_buffers; i++)
    words[i] = m->base[l->params.buffers[i].id - 1];
  for (uint32_t i = 0; i < l->params.n_symbols; i++)
    words[l->params.n_buffers + i] = (uint64_t)symbols[l->params.symbols[i]];
  dt_cuda_tail_t tail = {.count = l->count,
                         .scratch = m->scratch,
                         .scratch_stride = SCRATCH_STRIDE,
                         .record = m->record,
                         .member = l->info.member};
  memcpy(&words[n], &tail, sizeof(tail));
  char name[32];
  (void)snprintf(name, sizeof(name), "dt_k%u", l->code - l->info.behind);
  dt_cu_function_t function = NULL;
  OK(cuda->module_function(&function, module, name));
  OK(cuda->function_set(function, DT_CU_FUNC_MAX_DYNAMIC_SHARED, (int)l->info.shared_bytes));
  uint64_t grid = ((uint64_t)l->count + l->info.teams - 1) / l->info.teams;
  if (l->schedule->kind == DT_SCHEDULE_TEAM_MATMUL) // whole clusters
    blocks *= dt__matmul_cluster(&l->schedule->team_matmul);
  dt_cu_launch_config_t config = {.grid = {(uint32_t)(grid < blocks ? grid : blocks), 1, 1},
                                  .block = {l->info.threads, 1, 1},
                                  .shared_bytes = l->info.shared_bytes};
  void *params[1] = {words};
  OK(cuda->launch(&config, function, params, NULL));
  OK(cuda->stream_synchronize(NULL));
  (void)r;
}

// Once for all runs: the simulator reads some ten thousand lines for it.
static void load(gpu_rig_t *r, const dt_cuda_t *cuda) {
  if (r->cuda)
    return;
  OK(cuda->module_load(&r->module, r->ptx));
  r->cuda = cuda;
}

void gpu_rig_run(gpu_rig_t *r, const dt_cuda_t *cuda, const int64_t *sizes, uint32_t n_sizes,
                 uint32_t blocks, const char *what) {
  int64_t *symbols = gpu_rig_symbols(r, sizes, n_sizes);
  void *inputs[16] = {0}, *outputs[16] = {0};
  gpu_memory_t m;
  place(r, cuda, symbols, blocks, &m);
  load(r, cuda);
  for (uint32_t k = 0; k < r->program->kernels.len; k++) {
    gpu_launch_t l;
    gpu_rig_launch(r, k, symbols, &l);
    if (l.count > 0)
      launch(r, cuda, r->module, &m, symbols, blocks, &l);
  }
  for (uint32_t b = 0; b < r->program->buffers.len; b++) {
    const dt_buffer_t *buffer = &r->program->buffers.items[b];
    size_t bytes = buffer->kind == DT_BUFFER_OUTPUT ? gpu_rig_bytes(r, symbols, buffer) : 0;
    if (bytes)
      OK(cuda->copy_to_host(m.host[b], m.base[b], bytes, NULL));
    if (buffer->kind == DT_BUFFER_OUTPUT)
      outputs[buffer->index] = m.host[b];
    if (buffer->kind == DT_BUFFER_INPUT)
      inputs[buffer->index] = m.host[b];
  }
  OK(cuda->stream_synchronize(NULL));
  gpu_rig_compare(r, symbols, inputs, outputs, what);
  release(r, cuda, &m);
  free(symbols);
}
