// SPDX-License-Identifier: Apache-2.0
// CUDA's row among the code generators, and what of it needs no LLVM.
#include "backend_cuda/codegen/codegen.h"

#include "backend_cuda/emit/arch.h"
#include "backend_cuda/exec/session.h"
#include "ductile/op.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <string.h>

// ---- Kernels --------------------------------------------------------------------------------------

// A frame's table holds functions; the launch callback takes its entries for what they are.
typedef union kernel_entry_t {
  const dt_cuda_kernel_t *kernel;
  dt_kernel_fn_t fn;
} kernel_entry_t;

dt_status_t dt__cuda_codegen_take(dt_cuda_code_t *code, uint32_t n, dt_compiled_t *out) {
  out->codegen = &dt__cuda_codegen;
  out->device_code = code;
  out->device_code_bytes = code ? dt__cuda_code_bytes(code) : 0;
  out->code_bytes += out->device_code_bytes;
  out->kernels = dt__calloc(n, sizeof(*out->kernels));
  if (!out->kernels)
    return DT_NO_MEMORY();
  out->n_kernels = n;
  for (uint32_t i = 0; i < n; i++) {
    kernel_entry_t entry = {.kernel = dt__cuda_code_kernel(code, i)};
    out->kernels[i] = entry.fn;
  }
  return NULL;
}

static void unload(void *device_code) { dt__cuda_code_unload(device_code); }

static bool same(const dt_compiled_t *old, const dt_compiled_t *fresh) {
  bool all = true;
  for (uint32_t k = 0; all && k < old->n_kernels; k++)
    all = dt__cuda_kernel_of(old->kernels[k])->info.n_words ==
          dt__cuda_kernel_of(fresh->kernels[k])->info.n_words;
  return all;
}

// ---- Kernels of users -----------------------------------------------------------------------------

static dt_status_t make_unit(dt_cuda_device_t *device, const dt_op_device_kernel_t *kernel,
                             dt_cuda_unit_t *out) {
  if (kernel->text)
    return dt__cuda_unit_make(device, &(dt_cuda_image_t){kernel->text, strlen(kernel->text)}, out);
  out->cubin = dt__alloc((size_t)kernel->image_bytes);
  if (!out->cubin)
    return DT_NO_MEMORY();
  out->bytes = (size_t)kernel->image_bytes;
  memcpy(out->cubin, kernel->image, out->bytes);
  return dt__cuda_unit_load(device, out);
}

static dt_status_t external(void *device, const dt_op_device_kernel_t *kernel, uint32_t n_words,
                            void **out_code, dt_kernel_fn_t *out) {
  dt_cuda_kernel_info_t info = {.threads = kernel->threads,
                                .teams = kernel->items,
                                .n_words = n_words,
                                .shared_bytes = kernel->shared_bytes};
  dt_cuda_unit_t unit = {0};
  dt_cuda_code_t *code = NULL;
  dt_status_t status = make_unit(device, kernel, &unit);
  if (!status)
    status = dt__cuda_code_load_entry(device, &unit, &info, kernel->entry, &code);
  dt__cuda_unit_fini(device, &unit);
  if (status)
    return status;
  kernel_entry_t entry = {.kernel = dt__cuda_code_kernel(code, 0)};
  *out_code = code;
  *out = entry.fn;
  return NULL;
}

// ---- Whole compiles -------------------------------------------------------------------------------

static dt_disk_cache_t *cache(const void *device) {
  return ((const dt_cuda_device_t *)device)->cache;
}

static void name(const void *device, dt_text_t *out) {
  const dt_cuda_device_t *own = device;
  dt__text_printf(out, "%s sm_%d%d", own->name, own->major, own->minor);
}

static void key(const void *device, dt_text_t *out) {
  const dt_cuda_device_t *own = device;
  name(device, out);
  dt__text_printf(out, " driver %d shared %d", own->cuda->version, own->shared_per_block);
}

static bool lost(const void *device) { return dt__cuda_is_lost(device); }

static dt_status_t load_units(dt_cuda_device_t *device, dt_artifact_t *a, dt_cuda_unit_t *units,
                              const dt_cuda_kernel_info_t *kernels, dt_cuda_code_t **out) {
  for (uint32_t k = 0; k < a->n_objects; k++) {
    units[k] = (dt_cuda_unit_t){.cubin = a->objects[k].data, .bytes = a->objects[k].bytes};
    a->objects[k].data = NULL;
    DT_TRY(dt__cuda_unit_load(device, &units[k]));
  }
  return dt__cuda_code_load(device, units, a->n_objects, kernels, a->n_kernels, out);
}

static dt_status_t reload_into(dt_cuda_device_t *device, dt_artifact_t *a, dt_cuda_unit_t *units,
                               dt_cuda_kernel_info_t *kernels, dt_compiled_t *out) {
  dt_cuda_code_t *code = NULL;
  for (uint32_t k = 0; k < a->n_kernels; k++)
    dt__cuda_info_read(a->infos + k * DT_CUDA_INFO_WORDS, &kernels[k]);
  int64_t begin = dt__now_ns();
  dt_status_t status = load_units(device, a, units, kernels, &code);
  out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
  for (uint32_t k = 0; k < a->n_objects; k++)
    dt__cuda_unit_fini(device, &units[k]);
  return status ? status : dt__cuda_codegen_take(code, a->n_kernels, out);
}

static dt_status_t reload(void *device, dt_artifact_t *artifact, dt_compiled_t *out) {
  dt_cuda_unit_t *units = dt__calloc(artifact->n_objects, sizeof(*units));
  dt_cuda_kernel_info_t *kernels = dt__calloc(artifact->n_kernels, sizeof(*kernels));
  dt_status_t status =
      units && kernels ? reload_into(device, artifact, units, kernels, out) : DT_NO_MEMORY();
  dt__free(units);
  dt__free(kernels);
  return status;
}

const dt_codegen_t dt__cuda_codegen = {
    .target = dt__cuda_codegen_target,
    .emit = dt__cuda_codegen_emit,
    .describe = dt__cuda_codegen_describe,
    .load = dt__cuda_codegen_load,
    .unit_work = UINT64_MAX, // each unit is a module, and loading one holds up what runs there
    .reload = reload,
    .load_carried = dt__cuda_codegen_load_carried,
    .unload = unload,
    .external = external,
    .same = same,
    .cache = cache,
    .key = key,
    .info_words = DT_CUDA_INFO_WORDS,
    .lost = lost,
    .levels = dt__cuda_arch_names,
    .level_target = dt__cuda_codegen_level_target,
    .suits = dt__cuda_codegen_suits,
    .name = name};
