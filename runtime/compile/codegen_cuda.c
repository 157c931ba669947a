// SPDX-License-Identifier: Apache-2.0
// See codegen_cuda.h.
#include "runtime/compile/codegen_cuda.h"

#include "backend_cuda/emit/emit.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/compile/load.h"

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
  void *cubin; // owned
} load_t;

static dt_status_t run_load(void *opaque) {
  load_t *load = opaque;
  return dt__cuda_code_load(load->device, load->images, load->n_images, load->kernels,
                            load->n_kernels, &load->code, &load->cubin);
}

dt_status_t dt__codegen_cuda_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_cuda_image_t *images,
                                  uint32_t n_images, dt_compiled_t *out) {
  uint32_t n = map->n_codes;
  dt_cuda_kernel_info_t *kernels = dt__calloc(n, sizeof(*kernels));
  if (!kernels)
    return DT_NO_MEMORY();
  load_t load = {.device = request->cuda,
                 .images = images,
                 .kernels = kernels,
                 .n_images = n_images,
                 .n_kernels = n};
  dt_status_t status = NULL;
  for (uint32_t i = 0; i < n && !status; i++)
    status = dt__cuda_kernel_info(request->program, map, i, request->target, request->strict_fp,
                                  &kernels[i]);
  dt_job_t job = {.run = run_load, .arg = &load};
  int64_t begin = dt__now_ns();
  if (!status && n)
    status = dt__jobs_run(jobs, &job, 1);
  out->device_load_ns = (uint64_t)(dt__now_ns() - begin);
  if (!status)
    status = dt__load_device_kernels(load.code, n, out);
  if (status || !request->keep) {
    dt__free(kernels);
    dt__free(load.cubin);
    return status;
  }
  request->keep->n_codes = n;
  request->keep->kernels = kernels;
  request->keep->cubin.data = load.cubin;
  request->keep->cubin.bytes = load.cubin ? dt__cuda_code_bytes(load.code) : 0;
  return NULL;
}
