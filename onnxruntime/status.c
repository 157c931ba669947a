// SPDX-License-Identifier: Apache-2.0
// Failures as onnxruntime's statuses, and its log.
#include "onnxruntime/provider.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 4096 };

ort_status_t *ep_fail(const ort_api_t *api, ort_code_t code, const char *format, ...) {
  char text[TEXT_BYTES];
  va_list values;
  va_start(values, format);
  (void)vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  return api->CreateStatus(code, text);
}

ort_status_t *ep_no_memory(const ort_api_t *api) {
  return api->CreateStatus(ORT_FAIL, "Ductile: out of memory");
}

static ort_code_t code_of(dt_code_t code) {
  switch (code) {
  case DT_E_ARGUMENT:
  case DT_E_SHAPE:
  case DT_E_DTYPE:
  case DT_E_RANGE:
    return ORT_INVALID_ARGUMENT;
  case DT_E_UNSUPPORTED:
    return ORT_NOT_IMPLEMENTED;
  case DT_E_FORMAT:
    return ORT_INVALID_GRAPH;
  default:
    return ORT_EP_FAIL;
  }
}

ort_status_t *ep_status(const ort_api_t *api, dt_status_t status, const char *what) {
  if (!status)
    return NULL;
  dt_code_t code = dt_status_code(status);
  ort_status_t *told = ep_fail(api, code_of(code), "Ductile: %s%s%s: %s", what ? what : "",
                               what ? ": " : "", dt_code_name(code), dt_status_message(status));
  dt_status_free(status);
  return told;
}

ort_status_t *ep_keep_refusal(ep_t *ep, ort_status_t *status) {
  if (!status)
    return NULL;
  if (ep->refusal.len == 0) {
    ep_printf(&ep->refusal, "%s", ep->api->GetErrorMessage(status));
    ep->refusal_code = ep->api->GetErrorCode(status);
  }
  ep->api->ReleaseStatus(status);
  return ep->refusal.failed ? ep_no_memory(ep->api) : NULL;
}

void ep_log(const ort_api_t *api, const ort_logger_t *logger, ort_level_t level, const char *format,
            ...) {
  char text[TEXT_BYTES];
  ort_level_t least = ORT_WARNING;
  if (!logger)
    return;
  api->ReleaseStatus(api->Logger_GetLoggingSeverityLevel(logger, &least));
  if (level < least)
    return;
  va_list values;
  va_start(values, format);
  (void)vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  api->ReleaseStatus(api->Logger_LogMessage(logger, level, text, "ductile", 0, "onnxruntime"));
}
