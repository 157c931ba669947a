// SPDX-License-Identifier: Apache-2.0
// Profiles as a timeline: JSON in the trace event format that ui.perfetto.dev and chrome://tracing
// read. Complete events ("X") nest by their times: a call holds its parts, that of its kernels
// holds launches, and a launch holds its caller's share; the shares of other threads stand on
// theirs. Tasks of compile threads nest alike; asynchronous events ("b", "e") are what stands in
// their queue.
#include "runtime/exec/timing_report.h"

#include <string.h>

// ---- Threads ----------------------------------------------------------------------------------------
#define MOST_THREADS 4096u

typedef struct threads_t {
  uint32_t n;
  uint64_t ids[MOST_THREADS];
  bool calls[MOST_THREADS];
  const char *names[MOST_THREADS]; // of those that tasks ran on; else NULL
} threads_t;

// Its number, from 1 on; those beyond the most share one.
static uint32_t thread_of(threads_t *threads, uint64_t id) {
  uint32_t k = 0;
  while (k < threads->n && threads->ids[k] != id)
    k++;
  if (k == threads->n && k < MOST_THREADS - 1)
    threads->ids[threads->n++] = id;
  return k + 1;
}

// ---- Events -----------------------------------------------------------------------------------------
typedef struct trace_t {
  const dt_timed_report_t *report;
  threads_t *threads;
  uint64_t origin; // the profile's beginning
  dt_text_t *out;
  bool any;
} trace_t;

static const char *comma(trace_t *trace) {
  const char *out = trace->any ? ",\n" : "\n";
  trace->any = true;
  return out;
}

static void put_name(trace_t *trace, const char *name) {
  dt__text_put(trace->out, "{\"name\":\"");
  dt__text_json(trace->out, name, strlen(name));
}

static uint32_t variant_of(const dt_timed_report_t *report, const dt_timed_t *timed) {
  uint32_t k = 0;
  while (k < report->n_timed && report->timed[k] != timed)
    k++;
  return k;
}

static void put_times(trace_t *trace, const char *kind, const dt_timed_event_t *event) {
  double ns = trace->report->tick_ns;
  uint32_t thread = thread_of(trace->threads, event->thread);
  double from = event->begin > trace->origin ? (double)(event->begin - trace->origin) * ns : 0;
  dt__text_printf(trace->out,
                  "\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f",
                  kind, thread, from * 1e-3, (double)(event->end - event->begin) * ns * 1e-3);
  if (event->kind == DT_STAMP_CALL)
    trace->threads->calls[thread - 1] = true;
}

static void put_kernel_args(trace_t *trace, const dt_profile_kernel_t *kernel) {
  double n = (double)(kernel->sized_launches ? kernel->sized_launches : 1);
  dt__text_printf(trace->out, ",\"args\":{\"code\":%lld,\"bytes\":%.0f,\"flops\":%.0f,\"from\":\"",
                  kernel->code == UINT32_MAX ? -1LL : (long long)kernel->code, kernel->bytes / n,
                  kernel->flops / n);
  for (uint32_t k = 0; k < kernel->n_sources && k < 8; k++) {
    const dt_profile_source_t *source = kernel->sources[k];
    dt__text_put(trace->out, k ? ", " : "");
    dt__text_json(trace->out, source->op, strlen(source->op));
    if (!source->file[0])
      continue;
    dt__text_put(trace->out, " ");
    dt__text_json(trace->out, source->file, strlen(source->file));
    dt__text_printf(trace->out, ":%d", source->line);
  }
  dt__text_put(trace->out, "\"}");
}

// What the event is called, and the kind that it is of. `kernel`: whose; NULL: a copy, or none's.
static void put_head(trace_t *trace, const dt_timed_event_t *event,
                     const dt_profile_variant_t *variant, const dt_profile_kernel_t *kernel) {
  switch ((dt_stamp_kind_t)event->kind) {
  case DT_STAMP_CALL:
    put_name(trace, variant->function);
    put_times(trace, "call", event);
    return;
  case DT_STAMP_PART:
    put_name(trace, dt_profile_part_name((dt_profile_part_t)event->index));
    put_times(trace, "part", event);
    return;
  case DT_STAMP_TO_DEVICE:
    put_name(trace, "copy to the device");
    put_times(trace, "copy", event);
    return;
  case DT_STAMP_FROM_DEVICE:
    put_name(trace, "copy from the device");
    put_times(trace, "copy", event);
    return;
  case DT_STAMP_QUEUED:
    put_name(trace, kernel ? kernel->name : "copy");
    put_times(trace, "queue", event);
    return;
  case DT_STAMP_LAUNCH:
  case DT_STAMP_GRAPH:
  case DT_STAMP_SHARE:
    put_name(trace, kernel ? kernel->name : "kernel");
    put_times(trace, event->kind == DT_STAMP_SHARE ? "thread" : "kernel", event);
    return;
  }
}

static void put_event(trace_t *trace, const dt_timed_event_t *event) {
  const dt_timed_report_t *report = trace->report;
  uint32_t v = variant_of(report, event->of);
  if (v == report->n_timed)
    return;
  const dt_profile_variant_t *variant = report->head.variants[v];
  bool runs = event->kind == DT_STAMP_LAUNCH || event->kind == DT_STAMP_GRAPH;
  bool sited = runs || event->kind == DT_STAMP_SHARE ||
               (event->kind == DT_STAMP_QUEUED && event->index != UINT32_MAX);
  if (sited && event->index >= variant->n_kernels)
    return;
  const dt_profile_kernel_t *kernel =
      sited ? variant->kernels[report->rows[v][event->index]] : NULL;
  dt__text_put(trace->out, comma(trace));
  put_head(trace, event, variant, kernel);
  if (runs)
    put_kernel_args(trace, kernel);
  if (event->kind == DT_STAMP_CALL)
    dt__text_printf(trace->out, ",\"args\":{\"variant\":%u}", variant->number);
  dt__text_put(trace->out, "}");
}

static const dt_timed_line_t *line_of(const dt_timed_report_t *report, uint64_t thread) {
  for (uint32_t k = 0; k < report->n_queues; k++)
    if (report->queues[k].thread == thread)
      return &report->queues[k];
  return NULL;
}

// ---- Tasks ------------------------------------------------------------------------------------------
// What a thread did; before that, what stood in the queue, as a line of its own.
static void put_task(trace_t *trace, const dt_task_t *task, uint32_t number) {
  int64_t begin = trace->report->begin_ns;
  double from = task->begin_ns > begin ? (double)(task->begin_ns - begin) * 1e-3 : 0;
  double to = task->end_ns > begin ? (double)(task->end_ns - begin) * 1e-3 : 0;
  double queued = task->queued_ns > begin ? (double)(task->queued_ns - begin) * 1e-3 : 0;
  uint32_t thread = thread_of(trace->threads, task->thread);
  trace->threads->names[thread - 1] = task->thread_name;
  dt__text_put(trace->out, comma(trace));
  put_name(trace, task->name);
  dt__text_printf(trace->out,
                  "\",\"cat\":\"task\",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,"
                  "\"dur\":%.3f,\"args\":{\"of\":\"",
                  thread, from, to - from);
  dt__text_json(trace->out, task->of, strlen(task->of));
  dt__text_printf(trace->out, "\",\"queued_us\":%.3f}}", task->queued_ns ? from - queued : 0);
  if (!task->queued_ns)
    return;
  for (uint32_t k = 0; k < 2; k++) {
    dt__text_put(trace->out, comma(trace));
    put_name(trace, "waits for a compile thread");
    dt__text_printf(trace->out,
                    "\",\"cat\":\"compile queue\",\"ph\":\"%s\",\"id\":%u,\"pid\":1,"
                    "\"tid\":%u,\"ts\":%.3f}",
                    k ? "e" : "b", number, thread, k ? from : queued);
  }
}

// ---- Lines ------------------------------------------------------------------------------------------
// Callers stand above workers, and these above devices.
static void put_thread(trace_t *trace, uint32_t thread) {
  const dt_timed_line_t *line = line_of(trace->report, trace->threads->ids[thread]);
  bool calls = trace->threads->calls[thread];
  const char *name = calls ? NULL : trace->threads->names[thread];
  char place[32];
  dt__text_printf(trace->out,
                  "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%u,"
                  "\"args\":{\"name\":\"",
                  comma(trace), thread + 1);
  if (line)
    dt__text_printf(trace->out, "%s, queue %u", dt__place_name(line->place, place, sizeof(place)),
                    line->number);
  else if (name && name[0])
    dt__text_json(trace->out, name, strlen(name));
  else
    dt__text_printf(trace->out, "%s %u", calls ? "caller" : "worker", thread + 1);
  dt__text_printf(trace->out,
                  "\"}}%s{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,"
                  "\"tid\":%u,\"args\":{\"sort_index\":%u}}",
                  comma(trace), thread + 1,
                  line    ? 2 * MOST_THREADS + line->number
                  : calls ? thread
                          : MOST_THREADS + thread);
}

void dt__timed_trace(const dt_timed_report_t *report, dt_text_t *out) {
  threads_t *threads = dt__calloc(1, sizeof(*threads));
  if (!threads) {
    out->failed = true;
    return;
  }
  trace_t trace = {.report = report, .threads = threads, .origin = report->begin_tick, .out = out};
  dt__text_printf(out,
                  "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"events\":%llu,"
                  "\"dropped_events\":%llu},\"traceEvents\":[",
                  (unsigned long long)report->head.events,
                  (unsigned long long)report->head.dropped_events);
  dt__text_printf(out,
                  "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":"
                  "\"Ductile\"}}",
                  comma(&trace));
  for (uint32_t k = 0; k < report->n_events; k++)
    put_event(&trace, &report->events[k]);
  for (uint32_t k = 0; k < report->n_tasks; k++)
    put_task(&trace, &report->tasks[k], k + 1);
  for (uint32_t k = 0; k < threads->n; k++)
    put_thread(&trace, k);
  dt__text_put(out, "\n]}\n");
  dt__free(threads);
}
