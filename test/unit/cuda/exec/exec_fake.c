// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of calls on a device; see exec_fake.h.
#include "test/unit/cuda/exec/exec_fake.h"

#include "backend_cuda/codegen/codegen.h"
#include "backend_cuda/place/place.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"

#include <stdio.h>
#include <string.h>

// ---- Kernels --------------------------------------------------------------------------------------

static const uint32_t n_words[FAKE_KERNELS] = {4, 3, 5, 3, 3, 2, 4};

static const uint64_t *words_of(const fake_launch_t *launch) {
  return (const uint64_t *)(const void *)launch->param;
}

static dt_cuda_tail_t tail_of(const fake_launch_t *launch, uint32_t index) {
  dt_cuda_tail_t tail;
  memcpy(&tail, launch->param + n_words[index] * sizeof(uint64_t), sizeof(tail));
  return tail;
}

typedef struct kernel_t {
  uint32_t index;
  // Of each word before the last: bytes an item of the last word, or fixed; 'r', 'w' or '-'.
  const char *use;
  uint32_t bytes[4], fixed[4];
} kernel_t;
static const kernel_t kernels[FAKE_KERNELS] = {
    {FAKE_ADD, "rrw", {4, 4, 4}, {0}},      {FAKE_COPY, "rw", {4, 4}, {0}},
    {FAKE_GATHER, "rrw-", {0, 8, 4}, {4}},  {FAKE_COUNT, "rw", {4, 0}, {0, 8}},
    {FAKE_SELECT, "rw", {4, 0}, {0, 0}},    {FAKE_SQUARE, "r", {0}, {16}},
    {FAKE_SCALE, "rrw", {4, 0, 4}, {0, 4}},
};

static uint32_t accesses(const fake_launch_t *launch, fake_access_t *out, uint32_t cap,
                         void *user) {
  const kernel_t *kernel = user;
  const uint64_t *words = words_of(launch);
  uint64_t n = words[n_words[kernel->index] - 1];
  uint32_t count = 0;
  if (tail_of(launch, kernel->index).count <= 0)
    return 0;
  for (uint32_t k = 0; kernel->use[k] && count + 2 < cap; k++) {
    if (kernel->use[k] != '-')
      out[count++] = (fake_access_t){.begin = words[k],
                                     .bytes = kernel->bytes[k] * n + kernel->fixed[k],
                                     .write = kernel->use[k] == 'w'};
  }
  if (kernel->index == FAKE_SQUARE)
    out[count++] = (fake_access_t){.begin = words[1], .bytes = 4, .write = true};
  dt_cuda_tail_t tail = tail_of(launch, kernel->index);
  if (tail.scratch)
    out[count++] =
        (fake_access_t){.begin = tail.scratch,
                        .bytes = (size_t)(launch->grid[0] * 2) * (size_t)tail.scratch_stride,
                        .write = true};
  return count;
}

static void run_add(const uint64_t *w) {
  const float *a = fake_cuda_host(w[0]), *b = fake_cuda_host(w[1]);
  float *to = fake_cuda_host(w[2]);
  for (uint64_t k = 0; k < w[3]; k++)
    to[k] = a[k] + b[k];
}

static void run_gather(const uint64_t *w, const dt_cuda_tail_t *tail) {
  const float *table = fake_cuda_host(w[0]);
  const int64_t *ids = fake_cuda_host(w[1]);
  float *to = fake_cuda_host(w[2]);
  dt_cuda_record_t *record = fake_cuda_host(tail->record);
  for (uint64_t k = 0; k < w[4]; k++) {
    bool good = ids[k] >= 0 && ids[k] < (int64_t)w[3];
    to[k] = good ? table[ids[k]] : 0;
    if (good || record->claim)
      continue;
    record->claim = 1;
    record->value = ids[k];
    record->extent = (int64_t)w[3];
    __atomic_store_n(&record->check, 1, __ATOMIC_RELEASE);
  }
}

static void run_select(const uint64_t *w, bool count) {
  const float *x = fake_cuda_host(w[0]);
  float *to = count ? NULL : fake_cuda_host(w[1]);
  int64_t found = 0;
  for (uint64_t k = 0; k < w[2]; k++) {
    if (x[k] <= 0)
      continue;
    if (to)
      to[found] = x[k];
    found++;
  }
  if (count)
    *(int64_t *)fake_cuda_host(w[1]) = found;
}

static void run_scale(const uint64_t *w) {
  const float *x = fake_cuda_host(w[0]), *factor = fake_cuda_host(w[1]);
  float *to = fake_cuda_host(w[2]);
  for (uint64_t k = 0; k < w[3]; k++)
    to[k] = x[k] * factor[0];
}

static void run(const fake_launch_t *launch, void *user) {
  uint32_t index = ((const kernel_t *)user)->index;
  const uint64_t *w = words_of(launch);
  dt_cuda_tail_t tail = tail_of(launch, index);
  if (tail.count <= 0)
    return;
  if (index == FAKE_ADD)
    run_add(w);
  else if (index == FAKE_COPY)
    memcpy(fake_cuda_host(w[1]), fake_cuda_host(w[0]), w[2] * sizeof(float));
  else if (index == FAKE_GATHER)
    run_gather(w, &tail);
  else if (index == FAKE_COUNT || index == FAKE_SELECT)
    run_select(w, index == FAKE_COUNT);
  else if (index == FAKE_SCALE)
    run_scale(w);
  if (index != FAKE_SQUARE)
    return;
  const float *from = fake_cuda_host(w[0]);
  float *to = fake_cuda_host(w[1]);
  *to = from[0] * from[0] + from[1] * from[1] + from[2] * from[2] + from[3] * from[3];
}

void fake_begin(uint64_t seed) {
  fake_cuda_reset(seed);
  for (uint32_t k = 0; k < FAKE_KERNELS; k++) {
    char name[16];
    (void)snprintf(name, sizeof(name), "dt_k%u", k);
    fake_kernel_t kernel = {
        .accesses = accesses, .run = run, .user = (void *)(uintptr_t)&kernels[k]};
    fake_cuda_kernel(name, &kernel);
  }
}

void fake_end(void) {
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("violation: %s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

// ---- Host programs --------------------------------------------------------------------------------

static int64_t scratch_bytes;
void set_scratch(int64_t bytes) { scratch_bytes = bytes; }
static int64_t grid_items;
void set_items(int64_t items) { grid_items = items; }

// In place, as generated code does: a profile knows launches by where they return to.
static inline __attribute__((always_inline)) void
launch(dt_frame_t *frame, uint32_t index, const uint64_t *words, int64_t count, int64_t grain) {
  frame->launch(frame, frame->kernels[index], words, count, grain);
}

#define ADDRESS(ptr) ((uint64_t)(uintptr_t)(ptr))

// The sum goes by way of the block.
static int64_t add_plan(dt_frame_t *frame) {
  frame->block_bytes = frame->symbols[0] * 4;
  frame->output_sizes[0] = frame->symbols[0];
  return 0;
}
static void add_run(dt_frame_t *frame) {
  int64_t n = frame->symbols[0];
  const uint64_t add[] = {ADDRESS(frame->inputs[0]), ADDRESS(frame->inputs[1]),
                          ADDRESS(frame->block), (uint64_t)n};
  const uint64_t copy[] = {ADDRESS(frame->block), ADDRESS(frame->outputs[0]), (uint64_t)n};
  launch(frame, FAKE_ADD, add, n, scratch_bytes);
  launch(frame, FAKE_COPY, copy, n, 0);
}

static int64_t gather_plan(dt_frame_t *frame) {
  frame->output_sizes[0] = frame->symbols[1];
  return 0;
}
static void gather_run(dt_frame_t *frame) {
  int64_t n = frame->symbols[1];
  const uint64_t words[] = {ADDRESS(frame->inputs[0]), ADDRESS(frame->inputs[1]),
                            ADDRESS(frame->outputs[0]), (uint64_t)frame->symbols[0], (uint64_t)n};
  launch(frame, FAKE_GATHER, words, n, 0);
}

// Counted at the block's beginning, which the host reads before the second segment.
static int64_t count_plan(dt_frame_t *frame) {
  frame->block_bytes = 64;
  return 0;
}
static void count_run(dt_frame_t *frame) {
  const uint64_t words[] = {ADDRESS(frame->inputs[0]), ADDRESS(frame->block),
                            (uint64_t)frame->symbols[0]};
  launch(frame, FAKE_COUNT, words, 1, 0);
}
static void select_items(dt_frame_t *frame) {
  frame->readback_addresses[0] = ADDRESS(frame->block);
}
static int64_t select_plan(dt_frame_t *frame) {
  if (frame->readback_values[0] < 0 || frame->readback_values[0] > frame->symbols[0])
    return -2;
  frame->symbols[1] = frame->output_sizes[0] = frame->readback_values[0];
  frame->block_bytes = 4 << 20; // it grows, and keeps what is there
  return 0;
}
static void select_run(dt_frame_t *frame) {
  const uint64_t words[] = {ADDRESS(frame->inputs[0]), ADDRESS(frame->outputs[0]),
                            (uint64_t)frame->symbols[0]};
  launch(frame, FAKE_SELECT, words, frame->readback_values[0], 0);
}

static void scale_once(dt_frame_t *frame) {
  const uint64_t words[] = {ADDRESS(frame->constants[0]), ADDRESS(frame->once[0])};
  launch(frame, FAKE_SQUARE, words, 1, 0);
}
static int64_t scale_plan(dt_frame_t *frame) {
  frame->output_sizes[0] = frame->symbols[0];
  return 0;
}
static void scale_run(dt_frame_t *frame) {
  const uint64_t words[] = {ADDRESS(frame->inputs[0]), ADDRESS(frame->once[0]),
                            ADDRESS(frame->outputs[0]), (uint64_t)frame->symbols[0]};
  launch(frame, FAKE_SCALE, words, frame->symbols[0], 0);
}

static void pieces_run(dt_frame_t *frame) {
  int64_t n = frame->symbols[0];
  for (int64_t at = 0; at < n; at += FAKE_PIECE) {
    int64_t count = n - at < FAKE_PIECE ? n - at : FAKE_PIECE;
    uint64_t from = ADDRESS(frame->inputs[0]) + (uint64_t)at * 4;
    const uint64_t words[] = {from, from, ADDRESS(frame->outputs[0]) + (uint64_t)at * 4,
                              (uint64_t)count};
    launch(frame, FAKE_ADD, words, grid_items ? grid_items : count, scratch_bytes);
  }
}

// ---- Compiling ------------------------------------------------------------------------------------

static const struct {
  const char *name;
  uint32_t n_segments;
  dt_compiled_segment_t segments[2];
  dt_host_run_fn_t once;
  const char *check;
  uint32_t n_launches;
} programs[] = {
    {"add", 1, {{add_plan, add_run, NULL}}, NULL, NULL, 2},
    {"gather", 1, {{gather_plan, gather_run, NULL}}, NULL, "gather: index of ids", 1},
    {"select",
     2,
     {{count_plan, count_run, NULL}, {select_plan, select_run, select_items}},
     NULL,
     NULL,
     2},
    {"scale", 1, {{scale_plan, scale_run, NULL}}, scale_once, NULL, 1},
    {"pieces", 1, {{scale_plan, pieces_run, NULL}}, NULL, NULL, 1},
};

static dt_status_t load_kernels(const dt_compile_request_t *request, dt_compiled_t *out) {
  char ptx[4096];
  int at = snprintf(ptx, sizeof(ptx), ".version 8.3\n.target sm_90a\n.address_size 64\n// %s\n",
                    request->name);
  dt_cuda_kernel_info_t infos[FAKE_KERNELS];
  for (uint32_t k = 0; k < FAKE_KERNELS; k++) {
    at += snprintf(ptx + at, sizeof(ptx) - (size_t)at,
                   ".visible .entry dt_k%u(\n  .param .align 8 .b8 dt_k%u_param_0[%zu]\n)\n{\n"
                   "  griddepcontrol.wait;\n  ret;\n}\n",
                   k, k, n_words[k] * 8 + sizeof(dt_cuda_tail_t));
    infos[k] = (dt_cuda_kernel_info_t){.threads = 64,
                                       .teams = 2,
                                       .n_words = n_words[k],
                                       .waits = true,
                                       .checks = k == FAKE_GATHER};
  }
  dt_cuda_image_t image = {.text = ptx, .bytes = (size_t)at};
  dt_cuda_unit_t unit = {0};
  dt_cuda_code_t *code = NULL;
  dt_status_t status = dt__cuda_unit_make(request->device, &image, &unit);
  if (!status)
    status = dt__cuda_code_load(request->device, &unit, 1, infos, FAKE_KERNELS, &code);
  dt__cuda_unit_fini(request->device, &unit);
  DT_TRY(status);
  out->device_load_ns = 1;
  return dt__cuda_codegen_take(code, FAKE_KERNELS, out);
}

static dt_status_t fill(const dt_compile_request_t *request, dt_compiled_t *out) {
  uint32_t p = 0;
  while (strcmp(programs[p].name, request->name) != 0)
    p++;
  out->segments = dt__calloc(2, sizeof(*out->segments));
  out->output_segments = dt__calloc(1, sizeof(*out->output_segments));
  out->readbacks = dt__calloc(1, sizeof(*out->readbacks));
  out->checks = dt__calloc(1, sizeof(*out->checks));
  if (!out->segments || !out->output_segments || !out->readbacks || !out->checks)
    return DT_NO_MEMORY();
  memcpy(out->segments, programs[p].segments, sizeof(programs[p].segments));
  out->n_segments = programs[p].n_segments;
  out->output_segments[0] = out->n_segments - 1;
  out->once = programs[p].once;
  out->once_bytes = out->once ? 64 : 0;
  out->once_plan.n_buffers = 1;
  out->once_plan.buffers = dt__calloc(1, sizeof(*out->once_plan.buffers));
  if (!out->once_plan.buffers)
    return DT_NO_MEMORY();
  out->n_output_sizes = 1;
  out->n_launches = programs[p].n_launches;
  out->n_symbols = dt__symenv_symbol_count(request->traced->env);
  if (out->n_segments > 1) {
    out->readbacks[0] =
        (dt_compiled_readback_t){.text = dt__strdup("item"), .symbol = 1, .range = {0, 1 << 20}};
    out->n_readbacks = 1;
    out->segments_reason = dt__strdup("its result has the size");
    if (!out->segments_reason) // nobody would make room for what is read
      return DT_NO_MEMORY();
  }
  if (programs[p].check) {
    out->checks[0].text = dt__strdup(programs[p].check);
    out->n_checks = 1;
  }
  return load_kernels(request, out);
}

dt_status_t __real_dt__compile(dt_compiler_t *compiler, const dt_compile_request_t *request,
                               dt_compiled_t **out);
dt_status_t __wrap_dt__compile(dt_compiler_t *compiler, const dt_compile_request_t *request,
                               dt_compiled_t **out);
dt_status_t __wrap_dt__compile(dt_compiler_t *compiler, const dt_compile_request_t *request,
                               dt_compiled_t **out) {
  if (!request->codegen)
    return __real_dt__compile(compiler, request, out);
  *out = NULL;
  dt_compiled_t *compiled = dt__calloc(1, sizeof(*compiled));
  if (!compiled)
    return DT_NO_MEMORY();
  dt_status_t status = fill(request, compiled);
  if (status) {
    dt__compiled_unload(compiled);
    dt__compiled_destroy(compiled);
    return status;
  }
  *out = compiled;
  return NULL;
}

// ---- Programs -------------------------------------------------------------------------------------

dt_status_t add_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

dt_status_t gather_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_gather(t, in[0], in[1], 0);
  return NULL;
}

dt_status_t select_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[0], dt_gt(t, in[0], dt_scalar(t, DT_F32, 0)));
  return NULL;
}

dt_status_t scale_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t w = dt_constant(t, "w", closure);
  out[0] = dt_mul(t, in[0], dt_sum(t, dt_mul(t, w, w), 0, NULL, false));
  return NULL;
}

dt_status_t pieces_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

dt_function_t *function_named(dt_runtime_t *runtime, const char *name, void *closure) {
  static const dt_dim_decl_t n_only[] = {{.name = "n"}}, rows[] = {{.name = "rows"}};
  static const dt_input_decl_t two[] = {{.name = "a", .dtype = DT_F32, .rank = 1, .dims = n_only},
                                        {.name = "b", .dtype = DT_F32, .rank = 1, .dims = n_only}};
  static const dt_input_decl_t lookup[] = {
      {.name = "table", .dtype = DT_F32, .rank = 1, .dims = rows},
      {.name = "ids", .dtype = DT_I64, .rank = 1, .dims = n_only}};
  static const struct {
    const char *name;
    dt_program_fn_t program;
    uint32_t n;
    const dt_input_decl_t *inputs;
  } rows_of[] = {{"add", add_program, 2, two},
                 {"gather", gather_program, 2, lookup},
                 {"select", select_program, 1, two},
                 {"scale", scale_program, 1, two},
                 {"pieces", pieces_program, 1, two}};
  uint32_t k = 0;
  while (strcmp(rows_of[k].name, name) != 0)
    k++;
  dt_function_options_t options = {
      .name = name, .n_inputs = rows_of[k].n, .n_outputs = 1, .inputs = rows_of[k].inputs};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, rows_of[k].program, closure, &options, &function));
  return function;
}

// ---- Fixture --------------------------------------------------------------------------------------

dt_status_t open_session(dt_runtime_t *runtime, int32_t ordinal, void *stream, dt_session_t **out) {
  dt_session_options_t options = {
      .struct_size = sizeof(options), .device = DT_CUDA, .ordinal = ordinal, .stream = stream};
  return dt_session_create(runtime, &options, out);
}

fake_fixture_t fake_fixture_open(void) {
  fake_fixture_t fixture = {0};
  dt_runtime_options_t options = {.threads = 2, .compile_threads = 1};
  expect_ok(dt_runtime_create(&options, &fixture.runtime));
  expect_ok(open_session(fixture.runtime, 0, NULL, &fixture.session));
  return fixture;
}

void fake_fixture_close(fake_fixture_t *fixture) {
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
}

static dt_cu_result_t capturing(dt_cu_stream_t stream, int *out) {
  (void)stream;
  *out = 1;
  return DT_CU_SUCCESS;
}

void set_capturing(dt_session_t *session, bool on) {
  static dt_cuda_t table; // the driver's but for one function
  static const dt_cuda_t *plain;
  dt_cuda_device_t *device = dt__cuda_session(session)->gpu->device;
  if (on) {
    plain = device->cuda;
    table = *plain;
    table.stream_capturing = capturing;
  }
  device->cuda = on ? &table : plain;
}

dt_tensor_t *host_f32(int64_t n, float first, float step) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, 1, &n);
  float *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < n; k++)
    data[k] = first + step * (float)k;
  return tensor;
}

dt_tensor_t *host_i64(int64_t n, const int64_t *values) { return tensor_i64(1, &n, values); }

bool releases_something(dt_cuda_sym_t sym) {
  static const dt_cuda_sym_t releases[] = {
      DT_CUDA_SYM_stream_destroy, DT_CUDA_SYM_event_destroy, DT_CUDA_SYM_mem_free_async,
      DT_CUDA_SYM_host_free,      DT_CUDA_SYM_range_release, DT_CUDA_SYM_pages_release,
      DT_CUDA_SYM_pages_unmap,    DT_CUDA_SYM_link_destroy,  DT_CUDA_SYM_module_unload,
      DT_CUDA_SYM_pool_destroy,   DT_CUDA_SYM_graph_destroy, DT_CUDA_SYM_graph_exec_destroy,
  };
  for (size_t k = 0; k < sizeof(releases) / sizeof(releases[0]); k++)
    if (releases[k] == sym)
      return true;
  return false;
}
