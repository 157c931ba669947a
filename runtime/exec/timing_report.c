// SPDX-License-Identifier: Apache-2.0
// From sums to a report. Sites stand in the order in which the host program launches them, and say
// which of the program's kernels they are.
#include "runtime/exec/timing_report.h"

#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/place.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/timing_kernels.h"
#include "runtime/exec/timing_queue.h"

#include <stdlib.h>
#include <string.h>

// ---- What is made once ------------------------------------------------------------------------------
// The list grows at its end only, and its items stay.
static dt_timed_t *first_of(dt_profile_t *profile) {
  dt__mutex_lock(&profile->mutex);
  dt_timed_t *first = profile->first;
  dt__mutex_unlock(&profile->mutex);
  return first;
}
static dt_timed_t *next_of(dt_profile_t *profile, const dt_timed_t *timed) {
  dt__mutex_lock(&profile->mutex);
  dt_timed_t *next = timed->next;
  dt__mutex_unlock(&profile->mutex);
  return next;
}

static dt_status_t make_kernels(dt_profile_t *profile) {
  for (dt_timed_t *timed = first_of(profile); timed; timed = next_of(profile, timed)) {
    if (timed->kernels || !timed->variant || !timed->variant->compiled)
      continue;
    timed->kernels = dt__timed_kernels_make(timed, profile->runtime->compiler);
    if (!timed->kernels)
      return DT_NO_MEMORY();
    if (dt_status_code(timed->kernels->failed) == DT_E_NO_MEMORY) {
      dt__timed_kernels_free(timed->kernels);
      timed->kernels = NULL;
      return DT_NO_MEMORY();
    }
  }
  return NULL;
}

// ---- A variant --------------------------------------------------------------------------------------
typedef struct making_t {
  dt_timed_report_t *report;
  const dt_timed_t *timed;
  dt_timed_meter_t *meter; // NULL: nothing is known of the kernels
  uint32_t *launches;      // by row: 1 + the launch of the program; 0: unknown
  uint32_t *sites;         // by row
  int64_t near_bytes;      // that the cores' caches hold
  double near_bytes_per_s, bytes_per_s, flops_per_s; // 0: not known
} making_t;

static uint64_t ns_of(const dt_timed_report_t *report, uint64_t ticks) {
  return (uint64_t)((double)ticks * report->tick_ns);
}

// Of a site.
static uint64_t site_ns(const making_t *m, uint64_t time) {
  return m->timed->queued ? time : ns_of(m->report, time);
}

// The launch that the kernel is of, with this code; kernels->n: none.
static uint32_t launch_of(const dt_timed_kernels_t *kernels, uint32_t kernel, uint32_t code) {
  uint32_t k = 0;
  while (k < kernels->n && kernels->launches[k].end <= kernel)
    k++;
  return k < kernels->n && kernels->launches[k].first <= kernel &&
                 dt__timed_launch_has(kernels, k, code)
             ? k
             : kernels->n;
}

static void match(making_t *m, uint32_t n_rows) {
  const dt_timed_kernels_t *kernels = m->timed->kernels;
  for (uint32_t row = 0; m->meter && row < n_rows; row++) {
    const dt_timed_site_t *site = &m->timed->sites[m->sites[row]];
    uint32_t found = site->kernel ? launch_of(kernels, site->kernel - 1, site->code) : kernels->n;
    m->launches[row] = found < kernels->n ? found + 1 : 0;
  }
}

static double floor_of(const making_t *m, const dt_timed_work_t *work) {
  bool near = work->bytes <= (double)m->near_bytes;
  double rate = near ? m->near_bytes_per_s : m->bytes_per_s;
  double bytes = rate > 0 ? work->bytes / rate : 0;
  double flops = m->flops_per_s > 0 ? work->flops / m->flops_per_s : 0;
  return 1e9 * (bytes > flops ? bytes : flops);
}

// At sizes `shape`, of the launches [first, end) of the program: all slices of them, or one.
static bool sum_work(making_t *m, const dt_timed_shape_t *shape, uint32_t first, uint32_t end,
                     bool all, dt_timed_work_t *out) {
  *out = (dt_timed_work_t){0, 0, 1};
  for (uint32_t k = first; k < end; k++) {
    dt_timed_work_t work;
    if (!dt__timed_work(m->meter, k, shape->values, m->timed->variant->compiled->n_symbols, &work))
      return false;
    out->bytes += work.bytes * (all ? work.slices : 1);
    out->flops += work.flops * (all ? work.slices : 1);
  }
  return true;
}

static void add_work(making_t *m, uint32_t row, uint32_t first, uint32_t end,
                     dt_profile_kernel_t *out) {
  const dt_timed_t *timed = m->timed;
  bool graph = timed->sites[m->sites[row]].graph;
  for (uint32_t k = 0; k < timed->n_shapes; k++) {
    const dt_timed_shape_t *shape = &timed->shapes[k];
    uint64_t n = m->sites[row] < shape->n_launches ? shape->launches[m->sites[row]] : 0;
    dt_timed_work_t work;
    if (!n || !sum_work(m, shape, first, end, graph, &work))
      continue;
    out->sized_launches += n;
    out->bytes += (double)n * work.bytes;
    out->flops += (double)n * work.flops;
    out->floor_ns += (double)n * floor_of(m, &work);
  }
}

// Rows that make what the row's launch reads.
static bool find_reads(making_t *m, uint32_t n_rows, uint32_t row, dt_profile_kernel_t *out) {
  const dt_timed_kernels_t *kernels = m->timed->kernels;
  const dt_timed_launch_t *launch = &kernels->launches[m->launches[row] - 1];
  uint32_t *reads = DT_ARENA_ARRAY(&m->report->arena, uint32_t, n_rows);
  bool *read = DT_ARENA_ARRAY(&m->report->arena, bool, kernels->n + 1);
  if (!reads || !read)
    return false;
  for (uint32_t k = launch->first; k < launch->end; k++) {
    const dt_kernel_t *kernel = &kernels->again.program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
        dt_buffer_id_t id = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
        if (id.id)
          read[kernels->writers[id.id - 1]] = true;
      }
  }
  for (uint32_t other = 0; other < n_rows; other++)
    if (other != row && m->launches[other] && read[m->launches[other]])
      reads[out->n_reads++] = other;
  out->reads = reads;
  return true;
}

static const char *name_site(making_t *m, const dt_timed_site_t *site) {
  dt_arena_t *arena = &m->report->arena;
  if (site->graph)
    return dt__arena_strdup(arena, "graph");
  return site->code == UINT32_MAX ? dt__arena_strdup(arena, "user's kernel")
                                  : dt__arena_printf(arena, "kernel %u", site->code);
}

static void fill_row(const making_t *m, const dt_timed_site_t *site, dt_profile_kernel_t *out) {
  const dt_timed_t *timed = m->timed;
  double calls = timed->queued ? (double)timed->device.total_ns
                               : (double)(timed->ticks - timed->parts[DT_PROFILE_COMPILE]);
  out->code = site->code;
  out->launches = site->launches;
  out->total_ns = site_ns(m, site->ticks);
  out->min_ns = site->launches ? site_ns(m, site->least) : 0;
  out->max_ns = site_ns(m, site->most);
  out->busy_ns = ns_of(m->report, site->busy);
  out->wait_ns = ns_of(m->report, site->wait);
  out->share = calls > 0 ? (double)site->ticks / calls : 0;
}

static bool has_source(const dt_profile_source_t *const *list, uint32_t n,
                       const dt_profile_source_t *source) {
  for (uint32_t k = 0; k < n; k++)
    if (list[k]->line == source->line && strcmp(list[k]->op, source->op) == 0 &&
        strcmp(list[k]->file, source->file) == 0)
      return true;
  return false;
}

// Of the launches [first, end), each once.
static bool copy_sources(making_t *m, uint32_t first, uint32_t end, dt_profile_kernel_t *out) {
  const dt_timed_launch_t *launches = m->timed->kernels->launches;
  dt_arena_t *arena = &m->report->arena;
  uint32_t most = 0;
  for (uint32_t k = first; k < end; k++)
    most += launches[k].n_sources;
  const dt_profile_source_t **sources = DT_ARENA_ARRAY(arena, const dt_profile_source_t *, most);
  if (!sources)
    return false;
  out->sources = sources;
  for (uint32_t k = first; k < end; k++)
    for (uint32_t i = 0; i < launches[k].n_sources; i++) {
      const dt_profile_source_t *from = launches[k].sources[i];
      if (has_source(sources, out->n_sources, from))
        continue;
      dt_profile_source_t *own = DT_ARENA_NEW(arena, dt_profile_source_t);
      if (!own)
        return false;
      own->op = dt__arena_strdup(arena, from->op);
      own->file = dt__arena_strdup(arena, from->file);
      own->line = from->line;
      if (!own->op || !own->file)
        return false;
      sources[out->n_sources++] = own;
    }
  return true;
}

// A graph has all launches of its segment; where data decides which run, their work is not known.
static bool describe_graph(making_t *m, uint32_t row, dt_profile_kernel_t *out) {
  const dt_timed_kernels_t *kernels = m->timed->kernels;
  const dt_program_t *program = kernels->again.program;
  const dt_compiled_segment_t *at = m->timed->sites[m->sites[row]].site;
  uint32_t segment = (uint32_t)(at - m->timed->variant->compiled->segments);
  uint32_t from = 0, to = UINT32_MAX, first = 0;
  if (segment < program->segments.len) {
    from = segment ? program->segments.items[segment - 1].kernel_end : 0;
    to = program->segments.items[segment].kernel_end;
  }
  while (first < kernels->n && kernels->launches[first].first < from)
    first++;
  uint32_t end = first;
  while (end < kernels->n && kernels->launches[end].first < to)
    end++;
  out->name = dt__arena_printf(&m->report->arena, "graph of %u kernels", end - first);
  if (!out->name || !copy_sources(m, first, end, out))
    return false;
  if (!program->regions.len)
    add_work(m, row, first, end, out);
  return true;
}

static bool make_row(making_t *m, uint32_t n_rows, uint32_t row, dt_profile_kernel_t *out) {
  const dt_timed_site_t *site = &m->timed->sites[m->sites[row]];
  fill_row(m, site, out);
  out->name = name_site(m, site);
  if (!out->name)
    return false;
  if (site->graph)
    return !m->meter || describe_graph(m, row, out);
  if (!m->launches[row])
    return true;
  uint32_t number = m->launches[row] - 1;
  const dt_timed_launch_t *launch = &m->timed->kernels->launches[number];
  out->name = dt__arena_strdup(&m->report->arena, launch->name);
  out->packs = launch->packs;
  if (!out->name || !copy_sources(m, number, number + 1, out))
    return false;
  add_work(m, row, number, number + 1, out);
  return find_reads(m, n_rows, row, out);
}

static bool make_rows(making_t *m, dt_profile_variant_t *out) {
  dt_arena_t *arena = &m->report->arena;
  uint32_t n = m->timed->n_sites, row = 0;
  m->launches = DT_ARENA_ARRAY(arena, uint32_t, n);
  m->sites = DT_ARENA_ARRAY(arena, uint32_t, n);
  uint32_t *rows = DT_ARENA_ARRAY(arena, uint32_t, n);
  const dt_profile_kernel_t **kernels = DT_ARENA_ARRAY(arena, const dt_profile_kernel_t *, n);
  if (!m->launches || !m->sites || !rows || !kernels)
    return false;
  for (uint32_t at = m->timed->first; at; at = m->timed->sites[at - 1].next) {
    rows[at - 1] = row;
    m->sites[row++] = at - 1;
  }
  match(m, n);
  for (row = 0; row < n; row++) {
    dt_profile_kernel_t *kernel = DT_ARENA_NEW(arena, dt_profile_kernel_t);
    if (!kernel || !make_row(m, n, row, kernel))
      return false;
    kernels[row] = kernel;
  }
  out->n_kernels = n;
  out->kernels = kernels;
  m->report->rows[m->report->head.n_variants] = rows;
  return true;
}

static const char *unknown_of(const dt_timed_t *timed) {
  if (!timed->variant)
    return "calls that got a variant for themselves";
  if (!timed->variant->compiled)
    return "answered by the reference evaluator";
  return timed->kernels && !timed->kernels->failed ? ""
         : timed->kernels ? dt_status_message(timed->kernels->failed)
                          : "its first call came after the report had begun";
}

static void fill_device(making_t *m, dt_profile_variant_t *out) {
  const dt_timed_device_t *device = &m->timed->device;
  out->device_calls = device->calls;
  out->device_ns = device->total_ns;
  out->kernels_ns = device->kernels_ns;
  out->idle_ns = device->idle_ns;
  out->behind_ns = device->behind_ns;
  out->to_device = device->to_device;
  out->from_device = device->from_device;
  out->split_graphs = device->split_graphs;
  out->untimed = device->untimed;
  out->memory_bytes_per_s = m->timed->queued ? m->bytes_per_s : 0;
}

// What the variant's place can do.
static void fill_rates(making_t *m) {
  const dt_profile_report_t *head = &m->report->head;
  const dt_timed_kernels_t *kernels = m->timed->kernels;
  const dt_place_t *home = m->timed->variant ? m->timed->variant->home : NULL;
  if (home && home->kind->rates) {
    home->kind->rates(home, &m->bytes_per_s, &m->near_bytes);
    return;
  }
  m->near_bytes_per_s = head->cache_bytes_per_s;
  m->bytes_per_s = head->memory_bytes_per_s;
  m->flops_per_s = head->flops_per_s;
  if (kernels)
    m->near_bytes = kernels->again.target.l2_bytes * dt__target_threads(&kernels->again.target);
}

static bool make_variant(making_t *m, dt_profile_variant_t *out) {
  const dt_timed_t *timed = m->timed;
  dt_timed_report_t *report = m->report;
  *out = (dt_profile_variant_t){.number = timed->number,
                                .device = dt__place_device(timed->place),
                                .ordinal = dt__place_ordinal(timed->place),
                                .calls = timed->calls,
                                .total_ns = ns_of(report, timed->ticks),
                                .min_ns = timed->calls ? ns_of(report, timed->least) : 0,
                                .max_ns = ns_of(report, timed->most),
                                .shapes = timed->n_shapes};
  out->function = dt__arena_strdup(&report->arena, timed->function->name);
  out->unknown = dt__arena_strdup(&report->arena, unknown_of(timed));
  for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++)
    out->parts_ns[k] = ns_of(report, timed->parts[k]);
  fill_rates(m);
  fill_device(m, out);
  m->meter = NULL;
  if (timed->kernels && !timed->kernels->failed) {
    m->meter = dt__timed_meter_make(timed->kernels);
    if (!m->meter)
      return false;
  }
  bool good = out->function && out->unknown && make_rows(m, out);
  dt__timed_meter_free(m->meter);
  return good;
}

// ---- All --------------------------------------------------------------------------------------------
static int by_begin(const void *a, const void *b) {
  const dt_timed_event_t *x = a, *y = b;
  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return x->end != y->end ? (x->end > y->end ? -1 : 1) : 0; // what is around others, first
}

static bool take_events(dt_timed_report_t *report, const dt_profile_t *profile) {
  uint64_t n = profile->n_events < profile->most_events ? profile->n_events : profile->most_events;
  uint32_t compiles = profile->n_compiles;
  report->events = DT_ARENA_ARRAY(&report->arena, dt_timed_event_t, n + compiles);
  if (!report->events)
    return false;
  memcpy(report->events, profile->compiles, compiles * sizeof(*report->events));
  if (n)
    memcpy(report->events + compiles, profile->events, n * sizeof(*report->events));
  report->n_events = (uint32_t)n + compiles;
  return true;
}

static double named_of(const dt_timed_t *timed) {
  uint64_t named = 0;
  for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++)
    named += timed->parts[k];
  return (double)named;
}

// A copy of a variant's sums; the mutex is held, and calls that end meanwhile wait.
static const dt_timed_t *copy_timed(dt_arena_t *arena, const dt_timed_t *timed) {
  dt_timed_t *own = dt__arena_copy(arena, timed, sizeof(*timed));
  if (!own)
    return NULL;
  own->sites = dt__arena_copy(arena, timed->sites, timed->n_sites * sizeof(*timed->sites));
  own->shapes = dt__arena_copy(arena, timed->shapes, timed->n_shapes * sizeof(*timed->shapes));
  for (uint32_t k = 0; own->shapes && k < own->n_shapes; k++) {
    dt_timed_shape_t *shape = &own->shapes[k];
    shape->launches =
        dt__arena_copy(arena, shape->launches, shape->n_launches * sizeof(*shape->launches));
    if (!shape->launches)
      return NULL;
  }
  return own->sites && own->shapes ? own : NULL;
}

static bool copy_queues(dt_timed_report_t *report, const dt_profile_t *profile) {
  report->queues = DT_ARENA_ARRAY(&report->arena, dt_timed_line_t, profile->n_queues);
  if (!report->queues)
    return false;
  for (const dt_timed_queue_t *queue = profile->queues; queue; queue = queue->next)
    report->queues[report->n_queues++] =
        (dt_timed_line_t){(uint64_t)(uintptr_t)queue, queue->place, queue->number};
  return true;
}

static bool copy_tasks(dt_timed_report_t *report, dt_tasks_t *tasks) {
  dt__mutex_lock(&tasks->mutex);
  report->tasks = dt__arena_copy(&report->arena, tasks->items, tasks->n * sizeof(*tasks->items));
  report->n_tasks = report->tasks ? tasks->n : 0;
  report->head.dropped_events += tasks->lost;
  dt__mutex_unlock(&tasks->mutex);
  return report->tasks != NULL;
}

static bool copy_all(dt_timed_report_t *report, const dt_profile_t *profile, bool events) {
  dt_profile_report_t *head = &report->head;
  uint32_t n = 0;
  for (const dt_timed_t *timed = profile->first; timed; timed = timed->next)
    n++;
  report->timed = DT_ARENA_ARRAY(&report->arena, const dt_timed_t *, n);
  report->sums = DT_ARENA_ARRAY(&report->arena, const dt_timed_t *, n);
  report->rows = DT_ARENA_ARRAY(&report->arena, const uint32_t *, n);
  if (!report->timed || !report->sums || !report->rows || (events && !take_events(report, profile)))
    return false;
  for (const dt_timed_t *timed = profile->first; timed; timed = timed->next) {
    report->timed[report->n_timed] = timed;
    report->sums[report->n_timed] = copy_timed(&report->arena, timed);
    if (!report->sums[report->n_timed++])
      return false;
  }
  if (events && !copy_queues(report, profile))
    return false;
  head->lost = profile->lost;
  head->events =
      profile->n_events < profile->most_events ? profile->n_events : profile->most_events;
  head->dropped_events = profile->n_events - head->events;
  if (events && !copy_tasks(report, profile->tasks))
    return false;
  int64_t end = profile->stopped_ns ? profile->stopped_ns : dt__now_ns();
  head->wall_ns = (uint64_t)(end - profile->begin.ns);
  return true;
}

static bool add_up(dt_timed_report_t *report) {
  dt_profile_report_t *head = &report->head;
  double named = 0, all = 0;
  const dt_profile_variant_t **variants =
      DT_ARENA_ARRAY(&report->arena, const dt_profile_variant_t *, report->n_timed);
  if (!variants)
    return false;
  for (uint32_t k = 0; k < report->n_timed; k++) {
    making_t making = {.report = report, .timed = report->sums[k]};
    dt_profile_variant_t *variant = DT_ARENA_NEW(&report->arena, dt_profile_variant_t);
    if (!variant || !make_variant(&making, variant))
      return false;
    head->calls += variant->calls;
    named += named_of(making.timed);
    all += (double)making.timed->ticks;
    variants[head->n_variants++] = variant;
  }
  head->variants = variants;
  head->total_ns = (uint64_t)(all * report->tick_ns);
  head->named = all > 0 ? named / all : 0;
  return true;
}

static dt_status_t make(dt_profile_t *profile, bool events, dt_timed_report_t *report) {
  dt_rates_t *rates = &profile->runtime->rates;
  dt__timed_queues_take(profile);
  DT_TRY(make_kernels(profile));
  if (rates->memory_bytes_per_s == 0)
    DT_TRY(dt__rates_measure(profile->runtime->pool, rates));
  report->tick_ns = dt__ticks_ns(&profile->begin);
  report->begin_tick = profile->begin.tick;
  report->begin_ns = profile->begin.ns;
  report->head.threads = dt__pool_width(profile->runtime->pool);
  report->head.flops_per_s = rates->flops_per_s;
  report->head.cache_bytes_per_s = rates->cache_bytes_per_s;
  report->head.memory_bytes_per_s = rates->memory_bytes_per_s;
  dt__mutex_lock(&profile->mutex);
  bool good = copy_all(report, profile, events);
  dt__mutex_unlock(&profile->mutex);
  good = good && add_up(report);
  if (good && report->n_events)
    qsort(report->events, report->n_events, sizeof(*report->events), by_begin);
  return good ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__timed_report(dt_profile_t *profile, bool events, dt_timed_report_t **out) {
  *out = NULL;
  dt_timed_report_t *report = dt__calloc(1, sizeof(*report));
  if (!report)
    return DT_NO_MEMORY();
  dt__arena_init(&report->arena, 0);
  dt__mutex_lock(&profile->runtime->report_mutex);
  dt_status_t status = make(profile, events, report);
  dt__mutex_unlock(&profile->runtime->report_mutex);
  if (status) {
    dt_profile_report_free(&report->head);
    return status;
  }
  *out = report;
  return NULL;
}

dt_status_t dt_profile_report(dt_profile_t *profile, dt_profile_report_t **out) {
  dt_timed_report_t *report = NULL;
  if (out)
    *out = NULL;
  if (!profile || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_profile_report: %s: NULL", profile ? "out" : "profile");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_profile_report in a child after fork");
  DT_TRY(dt__status_annotate(dt__timed_report(profile, false, &report), "dt_profile_report"));
  *out = &report->head;
  return NULL;
}

void dt_profile_report_free(dt_profile_report_t *head) {
  if (!head)
    return;
  dt_timed_report_t *report = (dt_timed_report_t *)(void *)head;
  dt__arena_fini(&report->arena);
  dt__free(report);
}
