// SPDX-License-Identifier: Apache-2.0
// The log channel exec: calls, and the kernels that they launch.
#include "runtime/exec/call.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"
#include "runtime/exec/launch.h"

static void put_sizes(const dt_call_t *call, dt_text_t *out) {
  for (uint32_t i = 0; i < call->function->n_inputs; i++) {
    const dt_tensor_t *input = call->inputs[i];
    dt__text_printf(out, "%s%s[", i ? ", " : "", dt_dtype_name(input->dtype));
    for (uint32_t d = 0; d < input->rank; d++)
      dt__text_printf(out, "%s%lld", d ? "x" : "", (long long)input->sizes[d]);
    dt__text_printf(out, "]");
  }
}

void dt__call_tell(const dt_call_t *call, const dt_variant_t *variant, dt_status_t status,
                   int64_t began_ns) {
  double ms = (double)(dt__now_ns() - began_ns) * 1e-6;
  char place[32];
  dt_text_t sizes;
  dt__text_init(&sizes);
  put_sizes(call, &sizes);
  dt__log_write(
      DT_LOG_EXEC, "%s.%u(%s) on %s: %s %.3f ms: %s%s%s", call->function->name, variant->number,
      dt__text_str(&sizes), dt__place_name(call->session->place, place, sizeof(place)),
      !variant->compiled                  ? "evaluated in"
      : call->session->home->kind->queues ? "queued in"
                                          : "done in",
      ms, dt_code_name(dt_status_code(status)), status ? ": " : "", dt_status_message(status));
  dt__text_fini(&sizes);
}

void dt__launch_told(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain) {
  const dt_variant_t *variant = ((const dt_launch_frame_t *)frame)->told;
  const dt_compiled_t *compiled = variant->compiled;
  uint32_t code = 0;
  while (code < compiled->n_kernels &&
         __atomic_load_n(&compiled->kernels[code], __ATOMIC_RELAXED) != fn)
    code++;
  dt__log_write(DT_LOG_EXEC, "variant %u: kernel code %u, %lld items, %lld at a time",
                variant->number, code, (long long)count, (long long)grain);
  (frame->control ? dt__launch_controlled : dt__launch)(frame, fn, words, count, grain);
}
