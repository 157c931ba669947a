// SPDX-License-Identifier: Apache-2.0
// A report of a profile as the writers of its forms get it.
#ifndef DT_RUNTIME_EXEC_TIMING_REPORT_H
#define DT_RUNTIME_EXEC_TIMING_REPORT_H

#include "runtime/base/text.h"
#include "runtime/exec/timing.h"

#include <stdio.h>

// A line of the timeline for the work of a device's queue.
typedef struct dt_timed_line_t {
  uint64_t thread; // of its events
  dt_device_t place;
  uint32_t number;
} dt_timed_line_t;

typedef struct dt_timed_report_t {
  dt_profile_report_t head; // first: what programs get
  dt_arena_t arena;         // of everything in it
  double tick_ns;
  uint64_t begin_tick; // the profile's beginning
  // A timeline, where it is asked for.
  uint32_t n_events;
  dt_timed_event_t *events; // by their beginnings
  uint32_t n_queues;
  dt_timed_line_t *queues;
  uint32_t n_tasks;
  dt_task_t *tasks;
  int64_t begin_ns; // the profile's beginning by the clock of tasks
  // By variant: the profile's, for events; and by site, the kernel's row.
  uint32_t n_timed;
  const dt_timed_t **timed;
  const uint32_t **rows;
  const dt_timed_t **sums; // copies
} dt_timed_report_t;

dt_status_t dt__timed_report(dt_profile_t *profile, bool events,
                             dt_timed_report_t **out) DT_MUST_USE;

// The forms. A failure stays in `out`.
void dt__timed_text(const dt_timed_report_t *report, dt_text_t *out);
void dt__timed_json(const dt_timed_report_t *report, dt_text_t *out);
void dt__timed_trace(const dt_timed_report_t *report, dt_text_t *out);
void dt__timed_html(const dt_timed_report_t *report, dt_text_t *out);

// "GPU 0: f.2": where and what, as all forms call a variant; "" in front on the CPU.
void dt__timed_put_variant(const dt_profile_variant_t *variant, dt_text_t *out);
// What a device says of its work, in lines; nothing where there is no device.
void dt__timed_put_device(const dt_profile_variant_t *variant, dt_text_t *out);
// Kernels by their time, the dearest first: `order` has room for variant->n_kernels.
void dt__timed_order(const dt_profile_variant_t *variant, uint32_t *order);

// ---- Pages (timing_html.c, timing_svg.c) ------------------------------------------------------------
void dt__html_put(dt_text_t *out, const char *text); // escaped
void dt__html_colour(double share, char *out, size_t bytes);
void dt__timed_svg(const dt_profile_variant_t *variant, dt_text_t *out);

#endif // DT_RUNTIME_EXEC_TIMING_REPORT_H
