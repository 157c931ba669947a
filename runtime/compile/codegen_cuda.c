// SPDX-License-Identifier: Apache-2.0
// See codegen_cuda.h.
#include "runtime/compile/codegen_cuda.h"

#include "backend_cuda/emit/emit.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

dt_status_t dt__codegen_cuda_target(const dt_cuda_device_t *device, const dt_target_t *host,
                                    dt_target_t *out) {
  dt_cuda_model_t model = {.major = device->major,
                           .minor = device->minor,
                           .processors = device->processors,
                           .shared_per_block = device->shared_per_block,
                           .l2_bytes = device->l2_bytes};
  return dt__cuda_target(&model, host, out);
}

typedef struct load_t {
  dt_cuda_device_t *device;
  const dt_cuda_image_t *images;
  const dt_cuda_kernel_info_t *kernels;
  uint32_t n_images, n_kernels;
  dt_cuda_code_t *code;
} load_t;

static dt_status_t run_load(void *opaque) {
  load_t *load = opaque;
  return dt__cuda_code_load(load->device, load->images, load->n_images, load->kernels,
                            load->n_kernels, &load->code);
}

// A frame's table holds functions; a device's launch callback takes its entries for what they are.
typedef union kernel_entry_t {
  const dt_cuda_kernel_t *kernel;
  dt_kernel_fn_t fn;
} kernel_entry_t;

static dt_status_t fill_table(const dt_cuda_code_t *code, uint32_t n, dt_compiled_t *out) {
  out->kernels = dt__calloc(n, sizeof(*out->kernels));
  if (!out->kernels)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    kernel_entry_t entry = {.kernel = dt__cuda_code_kernel(code, i)};
    out->kernels[i] = entry.fn;
  }
  return NULL;
}

dt_status_t dt__codegen_cuda_load(dt_jobs_t *jobs, dt_cuda_device_t *device, dt_program_t *program,
                                  const dt_unit_map_t *map, const dt_target_t *target,
                                  const dt_cuda_image_t *images, uint32_t n_images,
                                  dt_compiled_t *out) {
  out->device = DT_CUDA;
  uint32_t n = map->n_codes;
  if (n) {
    dt_cuda_kernel_info_t *kernels = DT_ARENA_ARRAY(program->arena, dt_cuda_kernel_info_t, n);
    if (!kernels)
      return DT_NO_MEMORY();
    for (uint32_t i = 0; i < n; i++)
      DT_TRY(dt__cuda_kernel_info(program, map, i, target, &kernels[i]));
    load_t load = {.device = device,
                   .images = images,
                   .kernels = kernels,
                   .n_images = n_images,
                   .n_kernels = n};
    dt_job_t job = {.run = run_load, .arg = &load};
    int64_t begin = dt__now_ns();
    DT_TRY(dt__jobs_run(jobs, &job, 1));
    out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
    out->cuda = load.code;
    out->code_bytes += dt__cuda_code_bytes(load.code);
  }
  return fill_table(out->cuda, n, out);
}
