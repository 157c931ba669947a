// SPDX-License-Identifier: Apache-2.0
// Profiles as a table for people, and as a JSON object for programs.
#include "runtime/exec/timing_report.h"

#include "ductile/device.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 20u // of a table, for each variant

// ---- What all forms share ---------------------------------------------------------------------------
void dt__timed_put_variant(const dt_profile_variant_t *variant, dt_text_t *out) {
  char place[32];
  if (variant->device != DT_CPU)
    dt__text_printf(
        out,
        "%s: ", dt__place_name(dt__place(variant->device, variant->ordinal), place, sizeof(place)));
  dt__text_printf(out, "%s.%u", variant->function, variant->number);
}

// A heap with the least on top.
static void sink(const dt_profile_variant_t *variant, uint32_t *order, uint32_t from, uint32_t n) {
  for (uint32_t child; (child = 2 * from + 1) < n; from = child) {
    const dt_profile_kernel_t *const *kernels = variant->kernels;
    if (child + 1 < n && kernels[order[child + 1]]->total_ns < kernels[order[child]]->total_ns)
      child++;
    if (kernels[order[from]]->total_ns <= kernels[order[child]]->total_ns)
      return;
    uint32_t moved = order[from];
    order[from] = order[child];
    order[child] = moved;
  }
}

void dt__timed_order(const dt_profile_variant_t *variant, uint32_t *order) {
  uint32_t n = variant->n_kernels;
  for (uint32_t k = 0; k < n; k++)
    order[k] = k;
  for (uint32_t k = n / 2; k-- > 0;)
    sink(variant, order, k, n);
  while (n > 1) { // the least of what is left goes to the end
    uint32_t moved = order[0];
    order[0] = order[--n];
    order[n] = moved;
    sink(variant, order, 0, n);
  }
}

// ---- The table --------------------------------------------------------------------------------------
static double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

static void put_sources(const dt_profile_kernel_t *kernel, uint32_t most, dt_text_t *out) {
  for (uint32_t k = 0; k < kernel->n_sources && k < most; k++) {
    const dt_profile_source_t *source = kernel->sources[k];
    dt__text_printf(out, "%s%s", k ? ", " : "", source->op);
    if (source->file[0])
      dt__text_printf(out, " %s:%d", source->file, source->line);
  }
  if (kernel->n_sources > most)
    dt__text_printf(out, ", and %u more", kernel->n_sources - most);
}

static void put_row(const dt_profile_kernel_t *kernel, uint64_t calls, dt_text_t *out) {
  double n = kernel->launches ? (double)kernel->launches : 1;
  dt__text_printf(out, "  %5.1f%% %10.2f %8.2f", 100 * kernel->share,
                  (double)kernel->total_ns * 1e-3 / n, calls ? n / (double)calls : 0);
  if (kernel->sized_launches)
    dt__text_printf(out, " %9.3f %9.3f", kernel->bytes * 1e-6 / (double)kernel->sized_launches,
                    kernel->flops * 1e-6 / (double)kernel->sized_launches);
  else
    dt__text_printf(out, " %9s %9s", "-", "-");
  if (kernel->floor_ns > 0)
    dt__text_printf(
        out, " %8.1f%%",
        percent(kernel->floor_ns / (double)kernel->sized_launches, (double)kernel->total_ns / n));
  else
    dt__text_printf(out, " %9s", "-");
  dt__text_printf(out, " %6.1f%%  %s", percent((double)kernel->wait_ns, (double)kernel->total_ns),
                  kernel->name);
  if (kernel->n_sources) {
    dt__text_put(out, " (");
    put_sources(kernel, 2, out);
    dt__text_put(out, ")");
  }
  dt__text_put(out, "\n");
}

static void put_parts(const dt_profile_variant_t *variant, dt_text_t *out) {
  double packs = 0, waits = 0;
  for (uint32_t k = 0; k < variant->n_kernels; k++) {
    packs += variant->kernels[k]->packs ? (double)variant->kernels[k]->total_ns : 0;
    waits += (double)variant->kernels[k]->wait_ns;
  }
  dt__text_put(out, "  of a call:");
  for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++) {
    if (!variant->parts_ns[k])
      continue;
    dt__text_printf(out, " %s %.1f%%", dt_profile_part_name((dt_profile_part_t)k),
                    percent((double)variant->parts_ns[k], (double)variant->total_ns));
    if (k == DT_PROFILE_KERNELS)
      dt__text_printf(out, " (packing %.1f%%, waiting for other threads %.1f%%)",
                      percent(packs, (double)variant->total_ns),
                      percent(waits, (double)variant->total_ns));
    dt__text_put(out, ",");
  }
  if (out->len && !out->failed)
    out->data[--out->len] = 0; // the last comma
  dt__text_put(out, "\n");
}

static void put_copies(const char *what, const dt_profile_copies_t *copies, double calls,
                       dt_text_t *out) {
  if (copies->copies)
    dt__text_printf(out, ", %s %.1f us (%.3f MB)", what, (double)copies->total_ns * 1e-3 / calls,
                    (double)copies->bytes * 1e-6 / calls);
}

void dt__timed_put_device(const dt_profile_variant_t *variant, dt_text_t *out) {
  double calls = (double)variant->device_calls;
  if (variant->device_calls) {
    dt__text_printf(out, "  on the device: %.1f us a call: kernels %.1f us",
                    (double)variant->device_ns * 1e-3 / calls,
                    (double)variant->kernels_ns * 1e-3 / calls);
    put_copies("copies to it", &variant->to_device, calls, out);
    put_copies("copies from it", &variant->from_device, calls, out);
    dt__text_printf(out, ", nothing to do %.1f us; begun %.1f us after it was queued\n",
                    (double)variant->idle_ns * 1e-3 / calls,
                    (double)variant->behind_ns * 1e-3 / calls);
  }
  if (variant->split_graphs)
    dt__text_printf(out, "  %llu graphs were launched kernel by kernel, to time each\n",
                    (unsigned long long)variant->split_graphs);
  if (variant->untimed)
    dt__text_printf(out, "  %llu launches or copies could not be timed\n",
                    (unsigned long long)variant->untimed);
}

static void put_variant(const dt_profile_variant_t *variant, const uint32_t *order,
                        dt_text_t *out) {
  dt__timed_put_variant(variant, out);
  dt__text_printf(out, ": %llu calls of %llu sizes, %.1f us each (%.1f to %.1f)\n",
                  (unsigned long long)variant->calls, (unsigned long long)variant->shapes,
                  variant->calls ? (double)variant->total_ns * 1e-3 / (double)variant->calls : 0,
                  (double)variant->min_ns * 1e-3, (double)variant->max_ns * 1e-3);
  put_parts(variant, out);
  dt__timed_put_device(variant, out);
  if (variant->unknown[0])
    dt__text_printf(out, "  of its kernels nothing more is known: %s\n", variant->unknown);
  if (variant->n_kernels)
    dt__text_put(out, "   share  us each   a call        MB     MFLOP   floor    waits  kernel\n");
  for (uint32_t k = 0; k < variant->n_kernels && k < ROWS; k++)
    put_row(variant->kernels[order[k]],
            variant->device_calls ? variant->device_calls : variant->calls, out);
  if (variant->n_kernels > ROWS)
    dt__text_printf(out, "  and %u more kernels\n", variant->n_kernels - ROWS);
}

void dt__timed_text(const dt_timed_report_t *report, dt_text_t *out) {
  const dt_profile_report_t *head = &report->head;
  uint32_t most = 0;
  for (uint32_t k = 0; k < head->n_variants; k++)
    most = head->variants[k]->n_kernels > most ? head->variants[k]->n_kernels : most;
  uint32_t *order = dt__alloc(((size_t)most + 1) * sizeof(*order));
  if (!order) {
    out->failed = true;
    return;
  }
  dt__text_printf(out, "profile: %llu calls, %.1f ms in them, %.1f%% of it named; %u threads",
                  (unsigned long long)head->calls, (double)head->total_ns * 1e-6, 100 * head->named,
                  head->threads);
  dt__text_printf(out, "; at most %.0f GFLOP/s, %.0f GB/s in caches, %.0f GB/s in memory\n",
                  head->flops_per_s * 1e-9, head->cache_bytes_per_s * 1e-9,
                  head->memory_bytes_per_s * 1e-9);
  if (head->lost)
    dt__text_printf(out, "%llu calls or launches were lost for lack of memory\n",
                    (unsigned long long)head->lost);
  for (uint32_t k = 0; k < head->n_variants; k++) {
    dt__timed_order(head->variants[k], order);
    put_variant(head->variants[k], order, out);
  }
  dt__free(order);
}

// ---- JSON -------------------------------------------------------------------------------------------
static void put_string(dt_text_t *out, const char *name, const char *text) {
  dt__text_printf(out, "\"%s\":\"", name);
  dt__text_json(out, text, strlen(text));
  dt__text_put(out, "\"");
}

static void put_count(dt_text_t *out, const char *name, uint64_t value) {
  dt__text_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void json_kernel(const dt_profile_kernel_t *kernel, dt_text_t *out) {
  dt__text_put(out, "{");
  put_string(out, "name", kernel->name);
  if (kernel->code != UINT32_MAX)
    put_count(out, "code", kernel->code);
  dt__text_printf(out, ",\"packs\":%s", kernel->packs ? "true" : "false");
  put_count(out, "launches", kernel->launches);
  put_count(out, "total_ns", kernel->total_ns);
  put_count(out, "min_ns", kernel->min_ns);
  put_count(out, "max_ns", kernel->max_ns);
  put_count(out, "busy_ns", kernel->busy_ns);
  put_count(out, "wait_ns", kernel->wait_ns);
  dt__text_printf(out, ",\"share\":%.6f", kernel->share);
  put_count(out, "sized_launches", kernel->sized_launches);
  dt__text_printf(out, ",\"bytes\":%.0f,\"flops\":%.0f,\"floor_ns\":%.1f,\"sources\":[",
                  kernel->bytes, kernel->flops, kernel->floor_ns);
  for (uint32_t k = 0; k < kernel->n_sources; k++) {
    dt__text_put(out, k ? ",{" : "{");
    put_string(out, "op", kernel->sources[k]->op);
    dt__text_put(out, ",");
    put_string(out, "file", kernel->sources[k]->file);
    dt__text_printf(out, ",\"line\":%d}", kernel->sources[k]->line);
  }
  dt__text_put(out, "],\"reads\":[");
  for (uint32_t k = 0; k < kernel->n_reads; k++)
    dt__text_printf(out, "%s%u", k ? "," : "", kernel->reads[k]);
  dt__text_put(out, "]}");
}

static void json_copies(const char *name, const dt_profile_copies_t *copies, dt_text_t *out) {
  dt__text_printf(out, ",\"%s\":{\"copies\":%llu", name, (unsigned long long)copies->copies);
  put_count(out, "bytes", copies->bytes);
  put_count(out, "total_ns", copies->total_ns);
  dt__text_put(out, "}");
}

static void json_device(const dt_profile_variant_t *variant, dt_text_t *out) {
  put_count(out, "device_calls", variant->device_calls);
  put_count(out, "device_ns", variant->device_ns);
  put_count(out, "kernels_ns", variant->kernels_ns);
  put_count(out, "idle_ns", variant->idle_ns);
  put_count(out, "behind_ns", variant->behind_ns);
  json_copies("to_device", &variant->to_device, out);
  json_copies("from_device", &variant->from_device, out);
  put_count(out, "split_graphs", variant->split_graphs);
  put_count(out, "untimed", variant->untimed);
  dt__text_printf(out, ",\"memory_bytes_per_s\":%.0f", variant->memory_bytes_per_s);
}

static void json_variant(const dt_profile_variant_t *variant, dt_text_t *out) {
  char place[32];
  dt__text_put(out, "{");
  put_string(out, "function", variant->function);
  put_count(out, "variant", variant->number);
  dt__text_put(out, ",");
  put_string(out, "device",
             dt__place_name(dt__place(variant->device, variant->ordinal), place, sizeof(place)));
  put_count(out, "calls", variant->calls);
  put_count(out, "total_ns", variant->total_ns);
  put_count(out, "min_ns", variant->min_ns);
  put_count(out, "max_ns", variant->max_ns);
  put_count(out, "shapes", variant->shapes);
  dt__text_put(out, ",\"parts_ns\":{");
  for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++)
    dt__text_printf(out, "%s\"%s\":%llu", k ? "," : "", dt_profile_part_name((dt_profile_part_t)k),
                    (unsigned long long)variant->parts_ns[k]);
  dt__text_put(out, "}");
  json_device(variant, out);
  dt__text_put(out, ",");
  put_string(out, "unknown", variant->unknown);
  dt__text_put(out, ",\"kernels\":[");
  for (uint32_t k = 0; k < variant->n_kernels; k++) {
    dt__text_put(out, k ? "," : "");
    json_kernel(variant->kernels[k], out);
  }
  dt__text_put(out, "]}");
}

void dt__timed_json(const dt_timed_report_t *report, dt_text_t *out) {
  const dt_profile_report_t *head = &report->head;
  dt__text_printf(out, "{\"wall_ns\":%llu", (unsigned long long)head->wall_ns);
  put_count(out, "calls", head->calls);
  put_count(out, "total_ns", head->total_ns);
  dt__text_printf(out, ",\"named\":%.6f", head->named);
  put_count(out, "threads", head->threads);
  dt__text_printf(out,
                  ",\"flops_per_s\":%.0f,\"cache_bytes_per_s\":%.0f,\"memory_bytes_per_s\":%.0f",
                  head->flops_per_s, head->cache_bytes_per_s, head->memory_bytes_per_s);
  put_count(out, "events", head->events);
  put_count(out, "dropped_events", head->dropped_events);
  put_count(out, "lost", head->lost);
  dt__text_put(out, ",\"variants\":[");
  for (uint32_t k = 0; k < head->n_variants; k++) {
    dt__text_put(out, k ? "," : "");
    json_variant(head->variants[k], out);
  }
  dt__text_put(out, "]}\n");
}

// ---- API --------------------------------------------------------------------------------------------
typedef struct form_t {
  void (*put)(const dt_timed_report_t *report, dt_text_t *out);
  bool events;
  const char *end; // of a file's name
} form_t;

// ORDER(dt_profile_format_t)
static const form_t forms[] = {{dt__timed_text, false, ""},
                               {dt__timed_json, false, ".json"},
                               {dt__timed_trace, true, ".trace.json"},
                               {dt__timed_html, false, ".html"}};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

// The longest end that fits.
dt_profile_format_t dt_profile_format_of(const char *path) {
  size_t best = DT_PROFILE_TEXT, len = path ? strlen(path) : 0;
  for (size_t k = 0; k < N_FORMS; k++) {
    size_t end = strlen(forms[k].end);
    if (end > strlen(forms[best].end) && end <= len && strcmp(path + len - end, forms[k].end) == 0)
      best = k;
  }
  return (dt_profile_format_t)best;
}

static dt_status_t put_profile(dt_profile_t *profile, dt_profile_format_t format, dt_text_t *out) {
  dt_timed_report_t *report = NULL;
  if (!profile)
    return DT_FAIL(DT_E_ARGUMENT, "profile: NULL");
  if ((unsigned)format >= N_FORMS)
    return DT_FAIL(DT_E_ARGUMENT, "format: %d is no dt_profile_format_t", (int)format);
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  DT_TRY(dt__timed_report(profile, forms[format].events, &report));
  forms[format].put(report, out);
  dt_profile_report_free(&report->head);
  return dt__text_status(out);
}

dt_status_t dt_profile_text(dt_profile_t *profile, dt_profile_format_t format, char **out) {
  dt_text_t text;
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_profile_text: out: NULL");
  *out = NULL;
  dt__text_init(&text);
  dt_status_t status = put_profile(profile, format, &text);
  if (status)
    dt__text_fini(&text);
  else
    *out = text.data; // the writer's memory is the heap's, as dt_text_free expects
  return dt__status_annotate(status, "dt_profile_text");
}

dt_status_t dt_profile_write(dt_profile_t *profile, dt_profile_format_t format, const char *path) {
  dt_text_t text;
  if (!path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_profile_write: path: NULL");
  dt__text_init(&text);
  dt_status_t status = put_profile(profile, format, &text);
  const dt_file_part_t part = {text.data, text.len};
  if (!status)
    status = dt__file_replace(AT_FDCWD, path, 0666, &part, 1);
  dt__text_fini(&text);
  return dt__status_annotate(status, "dt_profile_write");
}
