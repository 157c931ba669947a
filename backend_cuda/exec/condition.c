// SPDX-License-Identifier: Apache-2.0
// The kernel in front of a conditional node. cudaGraphSetConditional is the driver's own: its
// linker knows the name (CUDA programming guide, "Conditional Graph Nodes").
#include "backend_cuda/exec/gpu.h"
#include "backend_cuda/exec/launch.h"
#include "runtime/base/status.h"

#define WORDS 3
_Static_assert(offsetof(dt_cuda_tail_t, record) == 24 && sizeof(dt_cuda_tail_t) == 40 &&
                   offsetof(dt_cuda_record_t, claim) == 24,
               "the text below");

static const char text[] =
    ".version 8.4\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);\n"
    ".visible .entry dt_k0(.param .align 8 .b8 words[64])\n"
    "{\n"
    "  .reg .pred %p<2>;\n"
    "  .reg .b32 %r<4>;\n"
    "  .reg .b64 %rd<6>;\n"
    "  ld.param.b64 %rd1, [words];\n"
    "  ld.param.b64 %rd2, [words+8];\n"
    "  ld.param.b64 %rd5, [words+16];\n"
    "  ld.param.b64 %rd3, [words+48];\n"
    "  ld.global.u8 %r1, [%rd2];\n"
    "  ld.global.b64 %rd4, [%rd3+24];\n"
    "  cvt.u32.u64 %r3, %rd5;\n"
    "  min.u32 %r3, %r1, %r3;\n"
    "  setp.eq.b64 %p1, %rd4, 0;\n"
    "  selp.b32 %r2, %r3, 0, %p1;\n"
    "  {\n"
    "    .param .b64 condition;\n"
    "    .param .b32 value;\n"
    "    st.param.b64 [condition], %rd1;\n"
    "    st.param.b32 [value], %r2;\n"
    "    call.uni cudaGraphSetConditional, (condition, value);\n"
    "  }\n"
    "  ret;\n"
    "}\n";

static dt_status_t make(dt_cuda_device_t *device, dt_cuda_code_t **out) {
  static const dt_cuda_kernel_info_t info = {
      .threads = 1, .teams = 1, .n_words = WORDS, .most_blocks = 1, .checks = true};
  const dt_cuda_image_t image = {.text = text, .bytes = sizeof(text) - 1};
  dt_cuda_unit_t unit = {0};
  dt_status_t status = dt__cuda_unit_make(device, &image, &unit);
  if (!status)
    status = dt__cuda_code_load(device, &unit, 1, &info, 1, out);
  dt__cuda_unit_fini(device, &unit);
  return dt__status_annotate(status, "the kernel that sets conditions of graphs");
}

dt_status_t dt__cuda_gpu_setter(dt_cuda_gpu_t *gpu, dt_kernel_fn_t *out) {
  union {
    const dt_cuda_kernel_t *kernel;
    dt_kernel_fn_t fn;
  } entry;
  dt_cuda_code_t *code = atomic_load_explicit(&gpu->setter, memory_order_acquire);
  *out = NULL;
  if (!code) {
    dt_status_t status = NULL;
    dt__mutex_lock(&gpu->upload_mutex);
    code = atomic_load_explicit(&gpu->setter, memory_order_relaxed);
    if (!code)
      status = make(gpu->device, &code);
    if (!status)
      atomic_store_explicit(&gpu->setter, code, memory_order_release);
    dt__mutex_unlock(&gpu->upload_mutex);
    DT_TRY(status);
  }
  entry.kernel = dt__cuda_code_kernel(code, 0);
  *out = entry.fn;
  return NULL;
}
