// SPDX-License-Identifier: Apache-2.0
// Code: PTX to a cubin by the driver's linker, which disturbs no launch, or from the disk; the
// cubin into the device; and what each kernel takes of it.
#include "backend_cuda/exec/gpu.h"
#include "backend_cuda/exec/launch.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#define LOG_BYTES 8192
#define MOST_THREADS 1024
#define KEY_FORMAT 2 // raised when what is done with PTX changes

struct dt_cuda_code_t {
  dt_cuda_device_t *device; // borrowed
  dt_cu_module_t *modules;  // one a unit
  uint32_t n_modules;
  size_t bytes; // of the cubins
  uint32_t n;
  dt_cuda_kernel_t kernels[];
};

// ---- Linking --------------------------------------------------------------------------------------

typedef struct linking_t {
  dt_cuda_device_t *device;
  const dt_cuda_image_t *image;
  dt_cu_link_t link;
  char log[LOG_BYTES];
} linking_t;

// Nothing that other code would be spared.
static bool is_of_machine(const dt_cuda_device_t *device, dt_status_t status) {
  return dt_status_code(status) == DT_E_NO_MEMORY || dt__cuda_is_lost(device);
}

// What the linker says of the program is a failure to compile; what it says of the machine is not.
static dt_status_t link_status(linking_t *linking, dt_cu_result_t result, const char *what) {
  dt_status_t status = dt__cuda_check(linking->device, result, what);
  if (!status || is_of_machine(linking->device, status))
    return status;
  linking->log[LOG_BYTES - 1] = 0;
  dt_status_t told = DT_FAIL(DT_E_COMPILE, "%s%s%s", dt_status_message(status),
                             linking->log[0] ? "\n" : "", linking->log);
  dt_status_free(status);
  return told;
}

static dt_status_t link_image(linking_t *linking, void **out, size_t *out_bytes) {
  const dt_cuda_t *cuda = linking->device->cuda;
  const dt_cuda_image_t *image = linking->image;
  // The driver only reads the text, zero included.
  dt_cu_result_t result =
      cuda->link_add(linking->link, DT_CU_JIT_PTX, (void *)(uintptr_t)image->text, image->bytes + 1,
                     "unit.ptx", 0, NULL, NULL);
  DT_TRY(link_status(linking, result, dt__cuda_symbol(DT_CUDA_SYM_link_add)));
  void *cubin = NULL;
  size_t bytes = 0;
  DT_TRY(link_status(linking, cuda->link_complete(linking->link, &cubin, &bytes),
                     dt__cuda_symbol(DT_CUDA_SYM_link_complete)));
  *out = dt__alloc(bytes); // the linker's own goes with it
  if (!*out)
    return DT_NO_MEMORY();
  memcpy(*out, cubin, bytes);
  *out_bytes = bytes;
  return NULL;
}

static dt_status_t link_cubin(linking_t *linking, void **out, size_t *out_bytes) {
  const dt_cuda_t *cuda = linking->device->cuda;
  int options[] = {DT_CU_JIT_ERROR_LOG, DT_CU_JIT_ERROR_LOG_BYTES};
  void *values[] = {linking->log, (void *)(uintptr_t)LOG_BYTES};
  DT_TRY(link_status(linking, cuda->link_create(2, options, values, &linking->link),
                     dt__cuda_symbol(DT_CUDA_SYM_link_create)));
  dt_status_t status = link_image(linking, out, out_bytes);
  (void)cuda->link_destroy(linking->link);
  return status;
}

// ---- Cubins ---------------------------------------------------------------------------------------

static void make_key(const dt_cuda_device_t *device, const dt_cuda_image_t *image, dt_text_t *out) {
  dt__text_init(out);
  dt__text_printf(out, "ductile %d.%d.%d, format %d, driver %d, sm_%d%d\n", DT_VERSION_MAJOR,
                  DT_VERSION_MINOR, DT_VERSION_PATCH, KEY_FORMAT, device->cuda->version,
                  device->major, device->minor);
  dt__text_write(out, image->text, image->bytes);
}

static dt_status_t link_and_keep(dt_cuda_device_t *device, const dt_cuda_image_t *image,
                                 const dt_text_t *key, dt_cuda_unit_t *out) {
  linking_t *linking = dt__calloc(1, sizeof(*linking));
  if (!linking)
    return DT_NO_MEMORY();
  linking->device = device;
  linking->image = image;
  dt_status_t status = link_cubin(linking, &out->cubin, &out->bytes);
  dt__free(linking);
  if (!status)
    dt__disk_cache_keep(device->cache, "cubin", key, out->cubin, out->bytes);
  return status;
}

static dt_status_t load_module(dt_cuda_device_t *device, dt_cuda_unit_t *unit) {
  DT_CUDA_TRY(device, module_load, &unit->module, unit->cubin);
  return NULL;
}

// A cubin from the disk that the driver does not take is made anew.
static dt_status_t make_unit(dt_cuda_device_t *device, const dt_cuda_image_t *image,
                             const dt_text_t *key, dt_cuda_unit_t *out) {
  if (dt__disk_cache_find(device->cache, "cubin", key, &out->cubin, &out->bytes)) {
    DT_LOG(DT_LOG_CACHE, 2, "a cubin of %zu bytes", out->bytes);
    dt_status_t status = load_module(device, out);
    if (!status || is_of_machine(device, status))
      return status;
    dt_status_free(status);
    dt__free(out->cubin);
    *out = (dt_cuda_unit_t){0};
  }
  DT_TRY(link_and_keep(device, image, key, out));
  return load_module(device, out);
}

dt_status_t dt__cuda_unit_make(dt_cuda_device_t *device, const dt_cuda_image_t *image,
                               dt_cuda_unit_t *out) {
  dt_text_t key;
  *out = (dt_cuda_unit_t){0};
  make_key(device, image, &key);
  dt_status_t status = dt__cuda_enter(device);
  if (!status) {
    status = make_unit(device, image, &key, out);
    dt__cuda_leave(device);
  }
  dt__text_fini(&key);
  return status;
}

dt_status_t dt__cuda_unit_load(dt_cuda_device_t *device, dt_cuda_unit_t *unit) {
  DT_TRY(dt__cuda_enter(device));
  dt_status_t status = load_module(device, unit);
  dt__cuda_leave(device);
  return status;
}

static void unload(dt_cuda_device_t *device, const dt_cu_module_t *modules, uint32_t n) {
  dt_status_t status = n ? dt__cuda_enter(device) : NULL;
  if (!status && n) {
    for (uint32_t k = 0; k < n; k++)
      if (modules[k])
        (void)device->cuda->module_unload(modules[k]);
    dt__cuda_leave(device);
  }
  dt_status_free(status); // a lost context has nothing to give back
}

void dt__cuda_unit_fini(dt_cuda_device_t *device, dt_cuda_unit_t *unit) {
  unload(device, &unit->module, unit->module ? 1 : 0);
  dt__free(unit->cubin);
  *unit = (dt_cuda_unit_t){0};
}

// ---- Kernels --------------------------------------------------------------------------------------

static dt_status_t find_entry(dt_cuda_code_t *code, dt_cuda_kernel_t *kernel,
                              const dt_cuda_kernel_info_t *info, const char *name) {
  dt_cuda_device_t *device = code->device;
  int shared = 0, registers = 0, local = 0;
  kernel->info = *info;
  if (info->unit >= code->n_modules)
    return DT_FAIL(DT_E_COMPILE, "%s: there is no unit %u", name, info->unit);
  dt_cu_result_t result =
      device->cuda->module_function(&kernel->function, code->modules[info->unit], name);
  if (result == DT_CU_NOT_FOUND)
    return DT_FAIL(DT_E_COMPILE, "device code has no kernel %.128s", name);
  DT_TRY(dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_module_function)));
  DT_CUDA_TRY(device, function_attribute, &shared, DT_CU_FUNC_SHARED_BYTES, kernel->function);
  DT_CUDA_TRY(device, function_attribute, &registers, DT_CU_FUNC_REGISTERS, kernel->function);
  DT_CUDA_TRY(device, function_attribute, &local, DT_CU_FUNC_LOCAL_BYTES, kernel->function);
  kernel->static_shared = (uint32_t)shared;
  int64_t least_shared = (int64_t)shared + info->shared_bytes;
  kernel->registers = (uint32_t)registers;
  kernel->local_bytes = (uint32_t)local;
  kernel->fit = dt__cuda_resident(device, kernel, info->shared_bytes);
  DT_LOG(DT_LOG_COMPILE, 2, "%s: %d registers, %d bytes of local and %d of shared memory", name,
         registers, local, shared);
  if ((int64_t)registers * info->threads > device->registers_per_block ||
      least_shared > device->shared_per_block)
    return DT_FAIL(DT_E_COMPILE,
                   "%s: %u threads of %d registers with %lld bytes of shared memory; %s has %d "
                   "registers and %d bytes for a block",
                   name, info->threads, registers, (long long)least_shared, device->name,
                   device->registers_per_block, device->shared_per_block);
  if (device->shared_per_block > shared)
    DT_CUDA_TRY(device, function_set, kernel->function, DT_CU_FUNC_MAX_DYNAMIC_SHARED,
                device->shared_per_block - shared);
  return NULL;
}

static dt_status_t find_kernel(dt_cuda_code_t *code, uint32_t index,
                               const dt_cuda_kernel_info_t *info) {
  char name[24];
  (void)snprintf(name, sizeof(name), "dt_k%u", index - info->behind);
  return find_entry(code, &code->kernels[index], info, name);
}

void dt__cuda_info_write(const dt_cuda_kernel_info_t *info, uint32_t *out) {
  const uint32_t words[DT_CUDA_INFO_WORDS] = {
      info->threads, info->teams,  info->n_words, info->most_blocks, info->shared_bytes,
      info->unit,    info->behind, info->member,  info->waits,       info->checks};
  memcpy(out, words, sizeof(words));
}

void dt__cuda_info_read(const uint32_t *words, dt_cuda_kernel_info_t *out) {
  *out = (dt_cuda_kernel_info_t){.threads = words[0],
                                 .teams = words[1],
                                 .n_words = words[2],
                                 .most_blocks = words[3],
                                 .shared_bytes = words[4],
                                 .unit = words[5],
                                 .behind = words[6],
                                 .member = words[7],
                                 .waits = words[8] != 0,
                                 .checks = words[9] != 0};
}
_Static_assert(sizeof(dt_cuda_kernel_info_t) == 9 * sizeof(uint32_t), "both name all of it");

static dt_status_t check_kernels(const dt_cuda_kernel_info_t *kernels, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    const dt_cuda_kernel_info_t *info = &kernels[k];
    if (info->threads == 0 || info->threads > MOST_THREADS || info->teams == 0 ||
        info->threads % info->teams)
      return DT_FAIL(DT_E_INTERNAL, "dt_k%u: %u teams in %u threads", k, info->teams,
                     info->threads);
    if (info->behind > k || kernels[k - info->behind].behind ||
        kernels[k - info->behind].n_words != info->n_words ||
        kernels[k - info->behind].threads != info->threads)
      return DT_FAIL(DT_E_INTERNAL, "dt_k%u: it has no entry of its form", k);
    if (info->n_words > DT_CUDA_PARAM_BYTES / 8 - DT_CUDA_TAIL_WORDS)
      return DT_FAIL(DT_E_COMPILE, "dt_k%u: %u words of parameters; a launch takes at most %u", k,
                     info->n_words, DT_CUDA_PARAM_BYTES / 8 - DT_CUDA_TAIL_WORDS);
  }
  return NULL;
}

static dt_status_t find_kernels(dt_cuda_code_t *code, const dt_cuda_kernel_info_t *kernels) {
  DT_TRY(dt__cuda_enter(code->device));
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < code->n && !status; k++)
    status = find_kernel(code, k, &kernels[k]);
  dt__cuda_leave(code->device);
  return status;
}

// Code of `n_kernels` kernels, which are yet to be found, in the units' modules, which it takes.
static dt_status_t take_units(dt_cuda_device_t *device, dt_cuda_unit_t *units, uint32_t n_units,
                              uint32_t n_kernels, dt_cuda_code_t **out) {
  dt_cuda_code_t *code = dt__calloc(1, sizeof(*code) + n_kernels * sizeof(code->kernels[0]));
  *out = code;
  if (!code)
    return DT_NO_MEMORY();
  code->device = device;
  code->n = n_kernels;
  code->modules = dt__calloc(n_units, sizeof(*code->modules));
  if (!code->modules)
    return DT_NO_MEMORY();
  for (; code->n_modules < n_units; code->n_modules++) {
    code->modules[code->n_modules] = units[code->n_modules].module;
    code->bytes += units[code->n_modules].bytes;
    units[code->n_modules].module = NULL;
  }
  return NULL;
}

dt_status_t dt__cuda_code_load(dt_cuda_device_t *device, dt_cuda_unit_t *units, uint32_t n_units,
                               const dt_cuda_kernel_info_t *kernels, uint32_t n_kernels,
                               dt_cuda_code_t **out) {
  dt_cuda_code_t *code = NULL;
  *out = NULL;
  DT_TRY(check_kernels(kernels, n_kernels));
  dt_status_t status = take_units(device, units, n_units, n_kernels, &code);
  if (!status && n_kernels)
    status = find_kernels(code, kernels);
  if (status) {
    dt__cuda_code_unload(code);
    return status;
  }
  *out = code;
  return NULL;
}

dt_status_t dt__cuda_code_load_entry(dt_cuda_device_t *device, dt_cuda_unit_t *unit,
                                     const dt_cuda_kernel_info_t *info, const char *entry,
                                     dt_cuda_code_t **out) {
  dt_cuda_code_t *code = NULL;
  *out = NULL;
  DT_TRY(check_kernels(info, 1));
  dt_status_t status = take_units(device, unit, 1, 1, &code);
  if (!status)
    status = dt__cuda_enter(device);
  if (!status) {
    status = find_entry(code, &code->kernels[0], info, entry);
    dt__cuda_leave(device);
  }
  if (status) {
    dt__cuda_code_unload(code);
    return status;
  }
  *out = code;
  return NULL;
}

void dt__cuda_code_unload(dt_cuda_code_t *code) {
  if (!code)
    return;
  unload(code->device, code->modules, code->n_modules);
  dt__free(code->modules);
  dt__free(code);
}

const dt_cuda_kernel_t *dt__cuda_code_kernel(const dt_cuda_code_t *code, uint32_t index) {
  return index < code->n ? &code->kernels[index] : NULL;
}

size_t dt__cuda_code_bytes(const dt_cuda_code_t *code) { return code->bytes; }
