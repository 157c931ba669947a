// SPDX-License-Identifier: Apache-2.0
// See load.h.
#include "runtime/compile/load.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdio.h>

dt_status_t dt__load_objects(const dt_object_t *objects, uint32_t n, dt_compiled_t *out) {
  out->units = dt__calloc(n, sizeof(*out->units));
  if (!out->units)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    DT_TRY(dt__native_load(objects[i].data, objects[i].bytes, &out->units[out->n_units]));
    out->code_bytes += dt__native_bytes(out->units[out->n_units++]);
  }
  return NULL;
}

void dt__image_store(dt_stream_t *s, dt_image_t *image) {
  dt__stream_number(s, &image->code_bytes);
  dt__stream_number(s, &image->data_bytes);
  image->slots = dt__stream_list(s, &image->n_slots, image->slots, sizeof(*image->slots));
  for (uint32_t k = 0; k < image->n_slots && !s->failed; k++) {
    dt__stream_number(s, &image->slots[k].at);
    dt__stream_number(s, &image->slots[k].outside);
    dt__stream_signed(s, &image->slots[k].plus);
  }
  image->functions =
      dt__stream_list(s, &image->n_functions, image->functions, sizeof(*image->functions));
  for (uint32_t k = 0; k < image->n_functions && !s->failed; k++) {
    dt__stream_text(s, &image->functions[k].name);
    dt__stream_number(s, &image->functions[k].at);
  }
}

dt_status_t dt__load_native(const dt_image_t *image, const dt_code_bytes_t *code,
                            dt_native_t **out) {
  dt_image_t own = *image;
  const dt_native_file_t file = {code ? code->fd : -1, code ? code->offset : 0};
  if (!code || !dt__image_fits(&own) || dt__image_bytes(&own) != code->bytes)
    return DT_FAIL(DT_E_FORMAT, "its code is not where it says");
  own.bytes = (void *)(uintptr_t)code->data; // only read
  return dt__native_load_image(&own, code->fd >= 0 ? &file : NULL, out);
}

dt_status_t dt__load_image(const dt_image_t *image, const dt_code_bytes_t *code,
                           dt_compiled_t *out) {
  out->units = dt__calloc(1, sizeof(*out->units));
  if (!out->units)
    return DT_NO_MEMORY();
  DT_TRY(dt__load_native(image, code, &out->units[0]));
  out->n_units = 1;
  out->code_bytes += dt__native_bytes(out->units[0]);
  return NULL;
}

// Data and function pointers are of one size wherever the loader runs; ISO C has no cast for it.
typedef union code_address_t {
  void *data;
  dt_kernel_fn_t kernel;
  dt_host_plan_fn_t plan;
  dt_host_run_fn_t run;
  int64_t (*bytes)(void);
} code_address_t;

static dt_status_t find_symbol(const dt_native_t *unit, const char *name, code_address_t *out) {
  out->data = dt__native_symbol(unit, name);
  if (!out->data)
    return DT_FAIL(DT_E_COMPILE, "compiled code has no function %s", name);
  return NULL;
}

dt_status_t dt__load_kernels(const uint32_t *unit_of_code, uint32_t n, dt_compiled_t *out) {
  out->kernels = dt__calloc(n, sizeof(*out->kernels));
  if (!out->kernels)
    return DT_NO_MEMORY();
  out->n_kernels = n;
  for (uint32_t i = 0; i < n; i++) {
    char name[24];
    (void)snprintf(name, sizeof(name), "dt_k%u", i);
    code_address_t found;
    DT_TRY(find_symbol(out->units[unit_of_code[i]], name, &found));
    out->kernels[i] = found.kernel;
  }
  return NULL;
}

static dt_status_t find_segments(const dt_native_t *host, uint32_t n, dt_compiled_t *out) {
  out->segments = dt__calloc(n, sizeof(*out->segments));
  if (!out->segments)
    return DT_NO_MEMORY();
  out->n_segments = n;
  for (uint32_t i = 0; i < n; i++) {
    char name[32];
    code_address_t found;
    (void)snprintf(name, sizeof(name), "dt_plan_%u", i);
    DT_TRY(find_symbol(host, name, &found));
    out->segments[i].plan = found.plan;
    (void)snprintf(name, sizeof(name), "dt_run_%u", i);
    DT_TRY(find_symbol(host, name, &found));
    out->segments[i].run = found.run;
    (void)snprintf(name, sizeof(name), "dt_readbacks_%u", i);
    found.data = dt__native_symbol(host, name); // of devices, where the segment reads numbers
    out->segments[i].readbacks = found.data ? found.run : NULL;
  }
  return NULL;
}

dt_status_t dt__load_numbers(dt_compiled_t *out) {
  const dt_native_t *host = out->units[out->n_units - 1];
  code_address_t found;
  DT_TRY(find_symbol(host, "dt_frame_version", &found));
  int64_t version = found.bytes();
  if (version != DT_FRAME_VERSION)
    return DT_FAIL(DT_E_COMPILE, "code for frames of version %lld; expected %u", (long long)version,
                   DT_FRAME_VERSION);
  DT_TRY(find_symbol(host, "dt_once_scratch", &found));
  out->once_scratch_bytes = found.bytes();
  return NULL;
}

dt_status_t dt__load_host(uint32_t n_segments, dt_compiled_t *out) {
  const dt_native_t *host = out->units[out->n_units - 1];
  code_address_t found;
  DT_TRY(find_segments(host, n_segments, out));
  DT_TRY(find_symbol(host, "dt_once", &found));
  out->once = found.run;
  found.data = dt__native_symbol(host, "dt_commit"); // of programs that update arguments
  out->commit = found.data ? found.run : NULL;
  return NULL;
}
