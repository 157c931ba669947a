// SPDX-License-Identifier: Apache-2.0
// Kernels for the interpreter: their code is the planned program as text, which is read back into
// memory of its own. Fusion takes the device for the plainest one: no teams, no templates.
#include "test/place/device.h"

#include "lower/loop/interpret_private.h"
#include "runtime/base/status.h"
#include "runtime/compile/worker_text.h"

static dt_status_t describe(const void *opaque, const dt_target_t *host, dt_target_t *out) {
  (void)opaque;
  *out = *host;
  out->device = INTERPRETER;
  out->queued = out->own_memory = true;
  out->host = host;
  return NULL;
}

// Each unit has the whole program: the first is read.
static dt_status_t emit(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit,
                        const dt_target_t *target, const dt_compile_options_t *options, void **out,
                        size_t *out_bytes) {
  (void)unit;
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__worker_program_write(program, map, target, options, &text);
  if (status) {
    dt__text_fini(&text);
    return status;
  }
  *out = text.data; // the writer's memory is the heap's
  *out_bytes = text.len;
  return NULL;
}

// ---- Loading --------------------------------------------------------------------------------------

typedef struct kernel_t {
  const dt_program_t *program;
  const dt_kernel_t *kernel;
  dt_kernel_params_t params;
} kernel_t;

typedef struct code_t {
  dt_worker_job_t job;
  kernel_t *kernels; // by code
} code_t;

// A frame's table holds functions; here its entries are kernels.
typedef union entry_t {
  const kernel_t *kernel;
  dt_kernel_fn_t fn;
} entry_t;

static void unload(void *opaque) {
  code_t *code = opaque;
  dt__free(code->kernels);
  dt__worker_job_fini(&code->job);
  dt__free(code);
}

// With the order in which host programs hand over its words.
static dt_status_t make_kernel(const code_t *code, uint32_t index, kernel_t *out) {
  dt_program_t *program = code->job.program;
  dt_text_t text;
  out->program = program;
  out->kernel = &program->kernels.items[code->job.map.origin_of_code[index].kernel];
  dt__text_init(&text);
  dt_status_t status = dt__kernel_print(program, out->kernel, &out->params, &text);
  dt__text_fini(&text);
  return status;
}

static dt_status_t read_code(code_t *code, const dt_object_t *unit, dt_compiled_t *out) {
  dt_scan_t scan;
  dt__scan_init(&scan, unit->data, unit->bytes, "kernels");
  DT_TRY(dt__worker_job_read(&scan, &code->job));
  uint32_t n = code->job.map.n_codes;
  code->kernels = dt__calloc(n, sizeof(*code->kernels));
  out->kernels = dt__calloc(n, sizeof(*out->kernels));
  if (!code->kernels || !out->kernels)
    return DT_NO_MEMORY();
  for (; out->n_kernels < n; out->n_kernels++) {
    DT_TRY(make_kernel(code, out->n_kernels, &code->kernels[out->n_kernels]));
    out->kernels[out->n_kernels] = ((entry_t){.kernel = &code->kernels[out->n_kernels]}).fn;
  }
  return NULL;
}

static dt_status_t load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                        const dt_unit_map_t *map, const dt_object_t *units, uint32_t n,
                        dt_compiled_t *out) {
  (void)jobs, (void)request, (void)map;
  if (n == 0)
    return NULL;
  code_t *code = dt__calloc(1, sizeof(*code));
  if (!code)
    return DT_NO_MEMORY();
  out->device_code = code; // also where it fails
  out->device_code_bytes = units[0].bytes;
  out->code_bytes += units[0].bytes;
  return read_code(code, &units[0], out);
}

const dt_codegen_t interpreter_codegen = {
    .unit_work = UINT64_MAX, .target = describe, .emit = emit, .load = load, .unload = unload};

// ---- Running --------------------------------------------------------------------------------------

uint32_t kernel_words(dt_kernel_fn_t fn) {
  const dt_kernel_params_t *params = &((entry_t){.fn = fn}).kernel->params;
  return params->n_buffers + params->n_symbols;
}

static const int64_t *number_at(const dt_interp_t *in, dt_buffer_id_t id) {
  return (const int64_t *)(const void *)in->buffers[id.id - 1].base;
}

// Addresses of the device's memory alone: what is elsewhere is none. False: its gate is shut.
static bool begin(dt_interp_t *in, const kernel_t *own, const uint64_t *words) {
  const dt_kernel_params_t *params = &own->params;
  for (uint32_t k = 0; k < params->n_buffers; k++)
    in->buffers[params->buffers[k].id - 1].base = device_reach((void *)(uintptr_t)words[k]);
  for (uint32_t k = 0; k < params->n_symbols; k++)
    in->values[params->symbols[k]] = (int64_t)words[params->n_buffers + k];
  for (uint32_t k = 0; k < params->n_readbacks; k++) {
    const dt_readback_t *readback = &own->program->readbacks.items[params->readbacks[k]];
    in->values[readback->symbol] = *number_at(in, readback->buffer);
  }
  return !params->gate.id || *number_at(in, params->gate);
}

dt_status_t kernel_run(dt_kernel_fn_t fn, const uint64_t *words, dt_launch_record_t *record) {
  const kernel_t *own = ((entry_t){.fn = fn}).kernel;
  dt_interp_t in;
  int64_t *none = dt__calloc(dt__symenv_symbol_count(own->program->env) + 1, sizeof(*none));
  dt_status_t status = none ? dt__interp_init(&in, own->program, none) : DT_NO_MEMORY();
  dt__free(none);
  DT_TRY(status);
  if (begin(&in, own, words))
    status = dt__interp_run(&in, own->kernel);
  if (in.failed_check) { // is what the status says
    dt_status_free(status);
    status = NULL;
    record->value = in.failed_value;
    record->extent = in.failed_extent;
    atomic_store(&record->check, in.failed_check);
  }
  dt__interp_fini(&in);
  return status;
}
