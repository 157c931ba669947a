// SPDX-License-Identifier: Apache-2.0
// Every result of the driver becomes a status here, and nowhere else.
#include "backend_cuda/driver/driver.h"

#include "runtime/base/status.h"

// Results with a meaning of their own to callers. What the driver says besides is the device's
// failure, too: neither it nor its answers are ours.
typedef struct meaning_t {
  dt_cu_result_t result;
  dt_code_t code;
  const char *advice;
} meaning_t;

static const char lost[] = "the device's context is lost: only a new process can use it again; "
                           "functions on other devices go on";

static const char code[] = "the driver does not take this code for the device";

static const meaning_t meanings[] = {
    {DT_CU_OUT_OF_MEMORY, DT_E_NO_MEMORY, "free device memory, or use smaller sizes"},
    {DT_CU_DEINITIALIZED, DT_E_DEVICE, "the process is ending"},
    {DT_CU_STUB_LIBRARY, DT_E_UNSUPPORTED, "install the driver of the machine's GPU"},
    {DT_CU_NO_DEVICE, DT_E_UNSUPPORTED, "no GPU is visible to this process"},
    {DT_CU_INVALID_DEVICE, DT_E_ARGUMENT, "no GPU of that number is visible to this process"},
    {DT_CU_NOT_SUPPORTED, DT_E_UNSUPPORTED, "the device or its driver cannot do it"},
    {46, DT_E_DEVICE, "another process uses the device alone"},
    {200, DT_E_COMPILE, code}, // INVALID_IMAGE
    {209, DT_E_COMPILE, code}, // NO_BINARY_FOR_GPU
    {214, DT_E_DEVICE, lost},  // ECC_UNCORRECTABLE
    {DT_CU_INVALID_PTX, DT_E_COMPILE, code},
    {220, DT_E_DEVICE, lost}, // NVLINK_UNCORRECTABLE
    {221, DT_E_UNSUPPORTED, "the driver has no compiler for PTX; install all of it"},
    {222, DT_E_UNSUPPORTED, "update the driver"}, // UNSUPPORTED_PTX_VERSION
    {223, DT_E_UNSUPPORTED, "compiling PTX is switched off (CUDA_DISABLE_PTX_JIT)"},
    {226, DT_E_DEVICE, lost}, // CONTAINED
    {DT_CU_NOT_FOUND, DT_E_COMPILE, "the code lacks what was asked for"},
    {DT_CU_ILLEGAL_ADDRESS, DT_E_DEVICE, lost},
    {702, DT_E_DEVICE, lost}, // LAUNCH_TIMEOUT
    {709, DT_E_DEVICE, lost}, // CONTEXT_IS_DESTROYED
    {710, DT_E_DEVICE, lost}, // ASSERT
    {714, DT_E_DEVICE, lost}, // HARDWARE_STACK_ERROR
    {715, DT_E_DEVICE, lost}, // ILLEGAL_INSTRUCTION
    {716, DT_E_DEVICE, lost}, // MISALIGNED_ADDRESS
    {717, DT_E_DEVICE, lost}, // INVALID_ADDRESS_SPACE
    {718, DT_E_DEVICE, lost}, // INVALID_PC
    {DT_CU_LAUNCH_FAILED, DT_E_DEVICE, lost},
    {721, DT_E_DEVICE, lost}, // TENSOR_MEMORY_LEAK
    {802, DT_E_UNSUPPORTED,
     "the machine's GPUs are not set up yet; are the driver's services there?"},
    {803, DT_E_UNSUPPORTED,
     "the driver and its library are of different versions; restart the machine"},
    {900, DT_E_STATE, "the caller's stream is being captured"}, // STREAM_CAPTURE_UNSUPPORTED
    {911, DT_E_DEVICE, lost},                                   // EXTERNAL_DEVICE
    {DT_CU_UNKNOWN, DT_E_DEVICE, lost},
};

static const char refused[] = "the driver refused; the device goes on";

static const meaning_t *meaning_of(dt_cu_result_t result) {
  for (size_t k = 0; k < sizeof(meanings) / sizeof(meanings[0]); k++)
    if (meanings[k].result == result)
      return &meanings[k];
  return NULL;
}

bool dt__cuda_is_fatal(dt_cu_result_t result) {
  const meaning_t *meaning = meaning_of(result);
  return meaning && meaning->advice == lost;
}

dt_status_t dt__cuda_status(const dt_cuda_t *cuda, dt_cu_result_t result, const char *what) {
  if (result == DT_CU_SUCCESS)
    return NULL;
  const char *name = NULL;
  (void)cuda->error_name(result, &name);
  const meaning_t *meaning = meaning_of(result);
  return DT_FAIL(meaning ? meaning->code : DT_E_DEVICE, "%s: %s (%d): %s", what,
                 name ? name : "a result that the driver has no name for", result,
                 meaning ? meaning->advice : refused);
}
