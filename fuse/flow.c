// SPDX-License-Identifier: Apache-2.0
// See flow.h. The order is a list with growing labels. If labels leave no room for a new one, the
// labels behind it are spread until they do, each over as much as it takes: about log n steps an
// insertion (Dietz and Sleator).
#include "fuse/flow.h"

#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define STEP (UINT64_C(1) << 32) // between labels in the beginning
#define MOST_SEEN 4096           // kernels that one question may look at

// ---- Who touches what -----------------------------------------------------------------------------

typedef struct touched_t {
  dt_flow_t *flow;
  uint32_t *out; // NULL: count only
  uint32_t n;
} touched_t;

static void touch(touched_t *t, uint32_t buffer) {
  if (t->flow->buffers[buffer].mark == t->flow->mark)
    return;
  t->flow->buffers[buffer].mark = t->flow->mark;
  if (t->out)
    t->out[t->n] = buffer;
  t->n++;
}

static uint32_t find_reads(dt_flow_t *flow, const dt_kernel_t *kernel, uint32_t *out) {
  const dt_program_t *program = flow->program;
  touched_t t = {.flow = flow, .out = out};
  uint32_t readbacks = dt__kernel_readbacks(program, kernel);
  flow->mark++;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id)
        touch(&t, stage->insts.items[i].buffer.id - 1);
    for (uint32_t i = 0; i < stage->stores.len; i++)
      if (stage->stores.items[i].revises)
        touch(&t, stage->stores.items[i].buffer.id - 1);
  }
  for (uint32_t i = 0; i < readbacks; i++)
    touch(&t, program->readbacks.items[i].buffer.id - 1);
  return t.n;
}

static uint32_t find_writes(dt_flow_t *flow, const dt_kernel_t *kernel, uint32_t *out) {
  touched_t t = {.flow = flow, .out = out};
  flow->mark++;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      uint32_t buffer = kernel->stages.items[s].stores.items[i].buffer.id - 1;
      if (flow->program->buffers.items[buffer].kind != DT_BUFFER_INPUT)
        touch(&t, buffer); // who reads an argument reads what the caller wrote
    }
  return t.n;
}

static dt_status_t find_touched(dt_flow_t *flow, uint32_t k) {
  dt_arena_t *arena = flow->program->arena;
  const dt_kernel_t *kernel = &flow->program->kernels.items[k];
  dt_flow_kernel_t *own = &flow->kernels[k];
  own->n_reads = find_reads(flow, kernel, NULL);
  own->n_writes = find_writes(flow, kernel, NULL);
  own->reads = DT_ARENA_ARRAY(arena, uint32_t, own->n_reads + 1);
  own->writes = DT_ARENA_ARRAY(arena, uint32_t, own->n_writes + 1);
  if (!own->reads || !own->writes)
    return DT_NO_MEMORY();
  (void)find_reads(flow, kernel, own->reads);
  (void)find_writes(flow, kernel, own->writes);
  return NULL;
}

static void count_accesses(dt_flow_t *flow, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id)
        flow->loads[stage->insts.items[i].buffer.id - 1]++;
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      uint32_t buffer = stage->stores.items[i].buffer.id - 1;
      if (flow->program->buffers.items[buffer].kind != DT_BUFFER_INPUT)
        flow->stores[buffer]++;
    }
  }
}

// Readers and writers of each buffer, from what each kernel reads and writes.
static dt_status_t find_users(dt_flow_t *flow) {
  dt_arena_t *arena = flow->program->arena;
  for (uint32_t k = 0; k < flow->n_kernels; k++) {
    const dt_flow_kernel_t *kernel = &flow->kernels[k];
    for (uint32_t i = 0; i < kernel->n_reads; i++)
      flow->buffers[kernel->reads[i]].n_readers++;
    for (uint32_t i = 0; i < kernel->n_writes; i++)
      flow->buffers[kernel->writes[i]].n_writers++;
  }
  for (uint32_t b = 0; b < flow->n_buffers; b++) {
    dt_flow_buffer_t *buffer = &flow->buffers[b];
    buffer->readers = DT_ARENA_ARRAY(arena, uint32_t, buffer->n_readers + 1);
    buffer->writers = DT_ARENA_ARRAY(arena, uint32_t, buffer->n_writers + 1);
    if (!buffer->readers || !buffer->writers)
      return DT_NO_MEMORY();
    buffer->n_readers = buffer->n_writers = 0;
  }
  for (uint32_t k = 0; k < flow->n_kernels; k++) {
    const dt_flow_kernel_t *kernel = &flow->kernels[k];
    for (uint32_t i = 0; i < kernel->n_reads; i++) {
      dt_flow_buffer_t *buffer = &flow->buffers[kernel->reads[i]];
      buffer->readers[buffer->n_readers++] = k;
    }
    for (uint32_t i = 0; i < kernel->n_writes; i++) {
      dt_flow_buffer_t *buffer = &flow->buffers[kernel->writes[i]];
      buffer->writers[buffer->n_writers++] = k;
    }
  }
  return NULL;
}

dt_status_t dt__flow_init(dt_program_t *program, dt_flow_t *out) {
  dt_arena_t *arena = program->arena;
  uint32_t n = program->kernels.len, m = program->buffers.len;
  *out = (dt_flow_t){.program = program, .n_kernels = n, .n_buffers = m};
  out->kernels = DT_ARENA_ARRAY(arena, dt_flow_kernel_t, n + 1);
  out->buffers = DT_ARENA_ARRAY(arena, dt_flow_buffer_t, m + 1);
  out->stores = DT_ARENA_ARRAY(arena, uint32_t, m + 1);
  out->loads = DT_ARENA_ARRAY(arena, uint32_t, m + 1);
  if (!out->kernels || !out->buffers || !out->stores || !out->loads)
    return DT_NO_MEMORY();
  out->first = n ? 0 : DT_FLOW_NONE;
  for (uint32_t k = 0; k < n; k++) {
    dt_flow_kernel_t *kernel = &out->kernels[k];
    kernel->prev = k ? k - 1 : DT_FLOW_NONE;
    kernel->next = k + 1 < n ? k + 1 : DT_FLOW_NONE;
    kernel->into = k;
    kernel->label = (k + 1) * STEP;
    count_accesses(out, &program->kernels.items[k]);
    DT_TRY(find_touched(out, k));
  }
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    out->loads[program->readbacks.items[i].buffer.id - 1]++;
  return find_users(out);
}

uint32_t dt__flow_find(const dt_flow_t *flow, uint32_t kernel) {
  uint32_t root = kernel;
  while (flow->kernels[root].into != root)
    root = flow->kernels[root].into;
  while (flow->kernels[kernel].into != root) {
    uint32_t next = flow->kernels[kernel].into;
    flow->kernels[kernel].into = root;
    kernel = next;
  }
  return root;
}

bool dt__flow_reads(const dt_flow_t *flow, uint32_t kernel, uint32_t buffer) {
  const dt_flow_kernel_t *own = &flow->kernels[kernel];
  for (uint32_t i = 0; i < own->n_reads; i++)
    if (own->reads[i] == buffer)
      return true;
  return false;
}

dt_status_t dt__flow_users(dt_flow_t *flow, uint32_t buffer) {
  const dt_flow_buffer_t *own = &flow->buffers[buffer];
  flow->users.len = 0;
  for (uint32_t r = 0, w = 0; r < own->n_readers || w < own->n_writers;) {
    uint32_t reader = r < own->n_readers ? own->readers[r] : DT_FLOW_NONE;
    uint32_t writer = w < own->n_writers ? own->writers[w] : DT_FLOW_NONE;
    if (!DT_VEC_PUSH(flow->program->arena, &flow->users, reader < writer ? reader : writer))
      return DT_NO_MEMORY();
    r += reader <= writer;
    w += writer <= reader;
  }
  return NULL;
}

uint32_t dt__flow_writer(const dt_flow_t *flow, uint32_t buffer) {
  const dt_flow_buffer_t *own = &flow->buffers[buffer];
  return flow->stores[buffer] == 1 && own->n_writers == 1 ? dt__flow_find(flow, own->writers[0])
                                                          : DT_FLOW_NONE;
}

// ---- Order ----------------------------------------------------------------------------------------

static void take_out(dt_flow_t *flow, uint32_t k) {
  const dt_flow_kernel_t *own = &flow->kernels[k];
  if (own->prev == DT_FLOW_NONE)
    flow->first = own->next;
  else
    flow->kernels[own->prev].next = own->next;
  if (own->next != DT_FLOW_NONE)
    flow->kernels[own->next].prev = own->prev;
}

// Afterwards there is a label between that of `k` and of the one behind it.
static void make_room(dt_flow_t *flow, uint32_t k) {
  uint64_t base = flow->kernels[k].label, span = 0, n = 1;
  uint32_t end = flow->kernels[k].next;
  for (; end != DT_FLOW_NONE; end = flow->kernels[end].next, n++) {
    span = flow->kernels[end].label - base;
    if (span > n * n)
      break;
  }
  if (end == DT_FLOW_NONE)
    span = n * STEP;
  uint32_t at = flow->kernels[k].next;
  for (uint64_t i = 1; i < n; i++, at = flow->kernels[at].next)
    flow->kernels[at].label = base + span / n * i;
}

static void put_behind(dt_flow_t *flow, uint32_t k, uint32_t before) {
  uint32_t next = flow->kernels[before].next;
  if (next != DT_FLOW_NONE && flow->kernels[next].label - flow->kernels[before].label < 2)
    make_room(flow, before);
  uint64_t base = flow->kernels[before].label;
  uint64_t end = next == DT_FLOW_NONE ? base + 2 * STEP : flow->kernels[next].label;
  dt_flow_kernel_t *own = &flow->kernels[k];
  own->label = base + (end - base) / 2;
  own->prev = before;
  own->next = next;
  flow->kernels[before].next = k;
  if (next != DT_FLOW_NONE)
    flow->kernels[next].prev = k;
}

// ---- Paths ----------------------------------------------------------------------------------------

typedef struct search_t {
  dt_flow_t *flow;
  uint32_t from; // whose results are looked for
  uint64_t low;  // its label: what stands before it needs none of them
  uint32_t seen;
  bool found;
} search_t;

static dt_status_t see(search_t *s, uint32_t k, bool direct_counts) {
  dt_flow_kernel_t *own = &s->flow->kernels[k];
  if (k == s->from) {
    s->found = s->found || direct_counts;
    return NULL;
  }
  if (own->label <= s->low || own->mark == s->flow->mark)
    return NULL;
  own->mark = s->flow->mark;
  s->found = s->found || ++s->seen > MOST_SEEN;
  return DT_VEC_PUSH(s->flow->program->arena, &s->flow->stack, k) ? NULL : DT_NO_MEMORY();
}

// What kernel k reads of others; of `end`, where the search begins, not what it reads directly.
static dt_status_t see_sources(search_t *s, uint32_t k, uint32_t end) {
  const dt_flow_kernel_t *own = &s->flow->kernels[k];
  for (uint32_t i = 0; i < own->n_reads; i++) {
    dt_flow_buffer_t *buffer = &s->flow->buffers[own->reads[i]];
    if (k != end && buffer->mark == s->flow->mark)
      continue;
    if (k != end)
      buffer->mark = s->flow->mark;
    for (uint32_t w = 0; w < buffer->n_writers && !s->found; w++)
      DT_TRY(see(s, dt__flow_find(s->flow, buffer->writers[w]), k != end));
  }
  return NULL;
}

// A reader of a's results other than b, and before it.
static bool has_other_reader(dt_flow_t *flow, uint32_t a, uint32_t b) {
  const dt_flow_kernel_t *own = &flow->kernels[a];
  for (uint32_t i = 0; i < own->n_writes; i++) {
    const dt_flow_buffer_t *buffer = &flow->buffers[own->writes[i]];
    for (uint32_t r = 0; r < buffer->n_readers; r++) {
      uint32_t reader = dt__flow_find(flow, buffer->readers[r]);
      if (reader != a && reader != b && dt__flow_before(flow, reader, b))
        return true;
    }
  }
  return false;
}

dt_status_t dt__flow_between(dt_flow_t *flow, uint32_t a, uint32_t b, bool *out) {
  search_t s = {.flow = flow, .from = a, .low = flow->kernels[a].label};
  *out = false;
  if (!has_other_reader(flow, a, b))
    return NULL;
  flow->mark++;
  flow->stack.len = 0;
  flow->kernels[b].mark = flow->mark;
  DT_TRY(see_sources(&s, b, b));
  while (flow->stack.len && !s.found)
    DT_TRY(see_sources(&s, flow->stack.items[--flow->stack.len], b));
  *out = s.found;
  return NULL;
}

// ---- Joining --------------------------------------------------------------------------------------

// Pushes the kernels before label `high` that read results of k and have no mark.
static dt_status_t see_readers(dt_flow_t *flow, uint32_t k, uint64_t high) {
  const dt_flow_kernel_t *own = &flow->kernels[k];
  for (uint32_t i = 0; i < own->n_writes; i++) {
    const dt_flow_buffer_t *buffer = &flow->buffers[own->writes[i]];
    for (uint32_t r = 0; r < buffer->n_readers; r++) {
      uint32_t reader = dt__flow_find(flow, buffer->readers[r]);
      if (flow->kernels[reader].label >= high || flow->kernels[reader].mark == flow->mark ||
          !dt__flow_reads(flow, reader, own->writes[i]))
        continue;
      flow->kernels[reader].mark = flow->mark;
      if (!DT_VEC_PUSH(flow->program->arena, &flow->stack, reader))
        return DT_NO_MEMORY();
    }
  }
  return NULL;
}

// What stands before b and needs results of a moves behind b. It is found from a on, and moved from
// the last to the first, so that it keeps its order.
static dt_status_t move_readers(dt_flow_t *flow, uint32_t a, uint32_t b) {
  uint64_t high = flow->kernels[b].label;
  flow->mark++;
  flow->stack.len = 0;
  flow->kernels[a].mark = flow->kernels[b].mark = flow->mark;
  DT_TRY(see_readers(flow, a, high));
  for (uint32_t i = 0; i < flow->stack.len; i++)
    DT_TRY(see_readers(flow, flow->stack.items[i], high));
  if (flow->stack.len == 0)
    return NULL;
  for (uint32_t k = flow->kernels[b].prev, left = flow->stack.len; left; left--) {
    while (flow->kernels[k].mark != flow->mark || k == a)
      k = flow->kernels[k].prev;
    uint32_t before = flow->kernels[k].prev;
    take_out(flow, k);
    put_behind(flow, k, b);
    k = before;
  }
  return NULL;
}

dt_status_t dt__flow_join(dt_flow_t *flow, uint32_t a, uint32_t b, uint32_t *out_moved) {
  DT_TRY(move_readers(flow, a, b));
  *out_moved = flow->stack.len;
  take_out(flow, a);
  flow->kernels[a].into = b;
  return find_touched(flow, b);
}

// ---- Gathering ------------------------------------------------------------------------------------

static void find_ends(const dt_flow_t *flow, const uint32_t *kernels, uint32_t n,
                      uint32_t *out_first, uint32_t *out_last) {
  *out_first = *out_last = kernels[0];
  for (uint32_t i = 1; i < n; i++) {
    if (dt__flow_before(flow, kernels[i], *out_first))
      *out_first = kernels[i];
    if (dt__flow_before(flow, *out_last, kernels[i]))
      *out_last = kernels[i];
  }
}

typedef struct gather_t {
  dt_flow_t *flow;
  // Marks of members; of buffers that members write; of kernels and buffers that wait for members.
  uint32_t in, made, behind;
} gather_t;

// Whether kernel k reads what members made (BEHIND too: what was made of it).
static void look_at_reads(const gather_t *g, uint32_t k, bool *out_made, bool *out_behind) {
  const dt_flow_kernel_t *own = &g->flow->kernels[k];
  *out_made = *out_behind = false;
  for (uint32_t i = 0; i < own->n_reads; i++) {
    uint32_t mark = g->flow->buffers[own->reads[i]].mark;
    *out_made = *out_made || mark == g->made || mark == g->behind;
    *out_behind = *out_behind || mark == g->behind;
  }
}

// Marks what waits for members, of which there are n. False: a member waits for such a kernel, a
// segment ends, or they stand too far apart.
static bool can_gather(const gather_t *g, const uint32_t *segments, uint32_t first, uint32_t last,
                       uint32_t n) {
  dt_flow_t *flow = g->flow;
  uint32_t seen = 0;
  for (uint32_t k = first;; k = flow->kernels[k].next) {
    dt_flow_kernel_t *own = &flow->kernels[k];
    bool made = false, behind = false, in = own->mark == g->in;
    if (segments[k] != segments[first] || ++seen > MOST_SEEN + n)
      return false;
    look_at_reads(g, k, &made, &behind);
    if (in && behind)
      return false;
    if (!in && made)
      own->mark = g->behind;
    for (uint32_t i = 0; (in || made) && i < own->n_writes; i++)
      if (flow->buffers[own->writes[i]].mark != g->behind)
        flow->buffers[own->writes[i]].mark = in ? g->made : g->behind;
    if (k == last)
      return true;
  }
}

// Kernels from `first` on in three turns: neither, members, those that wait for members; they share
// the labels that they had.
static dt_status_t put_in_turns(const gather_t *g, uint32_t first, uint32_t last,
                                uint32_t *out_first) {
  dt_flow_t *flow = g->flow;
  dt_arena_t *arena = flow->program->arena;
  uint32_t before = flow->kernels[first].prev, after = flow->kernels[last].next, n = 0;
  flow->stack.len = flow->labels.len = 0;
  for (uint32_t turn = 0; turn < 3; turn++)
    for (uint32_t k = first; k != after; k = flow->kernels[k].next) {
      uint32_t mark = flow->kernels[k].mark;
      uint32_t own = mark == g->in ? 1 : mark == g->behind ? 2 : 0;
      if (turn == 0 && !DT_VEC_PUSH(arena, &flow->labels, flow->kernels[k].label))
        return DT_NO_MEMORY();
      if (own == turn && !DT_VEC_PUSH(arena, &flow->stack, k))
        return DT_NO_MEMORY();
      n += own == turn && turn == 0;
    }
  *out_first = flow->stack.items[n];
  for (uint32_t i = 0; i < flow->stack.len; i++) {
    uint32_t k = flow->stack.items[i];
    flow->kernels[k].label = flow->labels.items[i];
    flow->kernels[k].prev = before;
    if (before == DT_FLOW_NONE)
      flow->first = k;
    else
      flow->kernels[before].next = k;
    before = k;
  }
  flow->kernels[before].next = after;
  if (after != DT_FLOW_NONE)
    flow->kernels[after].prev = before;
  return NULL;
}

dt_status_t dt__flow_gather(dt_flow_t *flow, const uint32_t *segments, const uint32_t *kernels,
                            uint32_t n, uint32_t *out_first) {
  gather_t g = {
      .flow = flow, .in = flow->mark + 1, .made = flow->mark + 2, .behind = flow->mark + 3};
  uint32_t first = 0, last = 0;
  flow->mark += 3;
  *out_first = DT_FLOW_NONE;
  for (uint32_t i = 0; i < n; i++)
    flow->kernels[kernels[i]].mark = g.in;
  find_ends(flow, kernels, n, &first, &last);
  if (!can_gather(&g, segments, first, last, n))
    return NULL;
  return put_in_turns(&g, first, last, out_first);
}

dt_status_t dt__flow_settle(dt_flow_t *flow) {
  dt_program_t *program = flow->program;
  uint32_t n = 0;
  dt_kernel_t *sorted = DT_ARENA_ARRAY(program->arena, dt_kernel_t, program->kernels.len + 1);
  if (!sorted)
    return DT_NO_MEMORY();
  for (uint32_t k = flow->first; k != DT_FLOW_NONE; k = flow->kernels[k].next)
    sorted[n++] = program->kernels.items[k];
  program->kernels.items = sorted;
  program->kernels.cap = program->kernels.len + 1;
  program->kernels.len = n;
  return NULL;
}
