// SPDX-License-Identifier: Apache-2.0
// The devices of a runtime: opened at first use, kept until it ends. dt__place_kinds lists the
// kinds.
#include "runtime/exec/place.h"

#include "runtime/base/options.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"
#include "runtime/exec/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Places ---------------------------------------------------------------------------------------

static dt_status_t find_kind(dt_device_t device, const dt_place_kind_t **out) {
  *out = (unsigned)device < DT_DEVICES ? dt__place_kinds[device] : NULL;
  return *out ? NULL : DT_FAIL(DT_E_ARGUMENT, "device: %d is no device", (int)device);
}

static dt_status_t open_plain(const dt_place_kind_t *kind, dt_device_t device, int32_t ordinal,
                              dt_place_t **out) {
  if (ordinal != 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "ordinal: %d; there is one device", (int)ordinal);
  dt_place_t *place = dt__calloc(1, sizeof(*place));
  if (!place)
    return DT_NO_MEMORY();
  *place =
      (dt_place_t){.kind = kind, .number = dt__place(device, 0), .codegen = dt__codegens[device]};
  *out = place;
  return NULL;
}

dt_status_t dt__runtime_place(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                              dt_place_t **out) {
  const dt_place_kind_t *kind = NULL;
  *out = NULL;
  DT_TRY(find_kind(device, &kind));
  if (device == DT_CPU && ordinal != 0)
    return DT_FAIL(DT_E_ARGUMENT, "ordinal: %d; expected 0 for the CPU", (int)ordinal);
  if (ordinal < 0 || ordinal >= DT_MOST_ORDINALS)
    return DT_FAIL(DT_E_ARGUMENT, "ordinal: %d; expected 0 to %d", (int)ordinal,
                   DT_MOST_ORDINALS - 1);
  dt_status_t status = NULL;
  dt__mutex_lock(&runtime->places_mutex);
  dt_place_t **place = &runtime->places[dt__place(device, ordinal)];
  if (!*place)
    status =
        kind->open ? kind->open(runtime, ordinal, place) : open_plain(kind, device, ordinal, place);
  *out = *place;
  dt__mutex_unlock(&runtime->places_mutex);
  return status;
}

dt_status_t dt__places_begin(dt_runtime_t *runtime) {
  dt_place_t *cpu = NULL;
  DT_TRY(dt__mutex_init(&runtime->places_mutex, DT_RANK_DEVICES));
  runtime->has_places_mutex = true;
  for (uint32_t k = 0; k < DT_DEVICES; k++) {
    const dt_place_kind_t *kind = dt__place_kinds[k];
    if (kind && k != DT_CPU)
      dt__device_name_set((dt_device_t)k, kind->name);
    if (kind && kind->begin)
      DT_TRY(kind->begin(runtime));
  }
  return dt__runtime_place(runtime, DT_CPU, 0, &cpu);
}

static void close_place(dt_place_t *place) {
  if (place->kind->close)
    place->kind->close(place);
  else
    dt__free(place);
}

// A child after fork has no device of its parent's.
void dt__places_end(dt_runtime_t *runtime) {
  if (!runtime->has_places_mutex)
    return;
  for (uint32_t k = 0; k < DT_DEVICES; k++)
    if (dt__place_kinds[k] && dt__place_kinds[k]->end)
      dt__place_kinds[k]->end(runtime);
  for (uint32_t k = 0; k < DT_PLACES; k++) {
    dt_place_t *place = runtime->places[k];
    if (place && (place->number == DT_CPU || !dt__forked()))
      close_place(place);
  }
  dt__mutex_fini(&runtime->places_mutex);
}

void dt__places_count(dt_runtime_t *runtime, dt_runtime_stats_t *all) {
  for (uint32_t k = 0; k < DT_DEVICES; k++)
    if (dt__place_kinds[k] && dt__place_kinds[k]->count_runtime)
      dt__place_kinds[k]->count_runtime(runtime, all);
}

// ---- API ------------------------------------------------------------------------------------------

static dt_status_t check(const dt_runtime_t *runtime, const void *out) {
  if (!runtime || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "out" : "runtime");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  return NULL;
}

dt_status_t dt_device_count(dt_runtime_t *runtime, dt_device_t device, int32_t *out_count) {
  const dt_place_kind_t *kind = NULL;
  if (out_count)
    *out_count = 0;
  dt_status_t status = check(runtime, out_count);
  if (!status)
    status = find_kind(device, &kind);
  if (!status && kind->count)
    status = kind->count(runtime, out_count);
  else if (!status)
    *out_count = 1;
  return dt__status_annotate(status, "dt_device_count");
}

static dt_status_t describe(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                            dt_device_info_t *out) {
  dt_place_t *place = NULL;
  DT_TRY(dt__runtime_place(runtime, device, ordinal, &place));
  (void)snprintf(out->name, sizeof(out->name), "%s", place->kind->name);
  if (place->kind->describe)
    place->kind->describe(place, runtime, out);
  return NULL;
}

dt_status_t dt_device_info(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                           dt_device_info_t *info) {
  dt_status_t status = check(runtime, info);
  if (status)
    return dt__status_annotate(status, "dt_device_info");
  dt_device_info_t all = {0};
  status = DT_RESULT_CHECK(dt_device_info_t, info);
  if (!status)
    status = describe(runtime, device, ordinal, &all);
  if (!status)
    DT_RESULT_GIVE(dt_device_info_t, info, &all);
  return dt__status_annotate(status, "dt_device_info");
}

// ---- Names ----------------------------------------------------------------------------------------

// "" or ":ORDINAL".
static bool read_ordinal(const char *text, int32_t *out) {
  char *end = NULL;
  *out = 0;
  if (!*text)
    return true;
  long ordinal = strtol(text + 1, &end, 10);
  *out = (int32_t)ordinal;
  return text[1] >= '0' && text[1] <= '9' && !*end && ordinal < DT_MOST_ORDINALS;
}

static dt_status_t parse(const char *text, dt_device_t *out_device, int32_t *out_ordinal) {
  size_t n = strcspn(text, ":");
  for (uint32_t k = 0; k < DT_DEVICES; k++) {
    const char *name = dt_device_name((dt_device_t)k);
    int32_t ordinal = 0;
    if (!name || strlen(name) != n || memcmp(name, text, n) != 0)
      continue;
    if (!read_ordinal(text + n, &ordinal) || (k == DT_CPU && ordinal))
      return DT_FAIL(DT_E_ARGUMENT, "'%.64s': expected %s, or %s:0 to %s:%d", text, name, name,
                     name, k == DT_CPU ? 0 : DT_MOST_ORDINALS - 1);
    *out_device = (dt_device_t)k;
    *out_ordinal = ordinal;
    return NULL;
  }
  return DT_FAIL(DT_E_ARGUMENT, "'%.64s' names no kind of device of this build", text);
}

dt_status_t dt_device_parse(const char *text, dt_device_t *out_device, int32_t *out_ordinal) {
  if (!text || !out_device || !out_ordinal)
    return DT_FAIL(DT_E_ARGUMENT, "dt_device_parse: %s: NULL",
                   !text         ? "text"
                   : !out_device ? "out_device"
                                 : "out_ordinal");
  *out_device = DT_CPU;
  *out_ordinal = 0;
  return dt__status_annotate(parse(text, out_device, out_ordinal), "dt_device_parse");
}

const char *dt_device_name(dt_device_t device) {
  const dt_place_kind_t *kind = (unsigned)device < DT_DEVICES ? dt__place_kinds[device] : NULL;
  return kind ? kind->option : NULL;
}
