// SPDX-License-Identifier: Apache-2.0
// Bundles: small maps that have nothing to do with each other become one launch, on devices where a
// launch costs more than they do. Each keeps its loops, its body and its memory; what is shared is
// the launch, whose blocks are dealt out to them (kernel.h, chains). So nothing is lost where a
// size turns out to be large.
//
// The pass looks at kernels from the first to the last. Behind each map that may be a member it
// takes others that wait for none of the members, until the launch is full. What waits for a member
// moves behind the bundle (flow.h).
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "fuse/merge.h"
#include "fuse/order.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#define WINDOW 256      // how many kernels behind its first one a bundle may reach
#define FEW_ELEMENTS 64 // of a loop whose length nothing tells
// Of a member, for each processor: about what memory moves while a kernel is launched.
#define PROCESSOR_ELEMENTS 8192
#define MOST_MEMBERS 24 // each block looks for the member that it is of, one after another

// A kernel that may be a member.
typedef struct member_t {
  bool may;
  bool updates;
  uint32_t words; // parameters
  dt_kernel_size_t size;
} member_t;

typedef struct bundles_t {
  dt_program_t *program;
  const dt_target_t *target;
  dt_flow_t flow;
  uint32_t *segments; // by kernel
  bool *constant;     // by kernel: reads constants only
  bool *in_place; // by buffer, [id - 1]: may yet be made where an argument, a state or what it is a
                  // copy of lies, or is one of these
  uint32_t *waits; // by buffer, [id - 1]: the search in which it was made of a member
  uint32_t search;
  member_t *members; // by kernel
  uint32_t n;        // the last chain's number
} bundles_t;

// What is under way.
typedef struct bundle_t {
  uint32_t kernels[MOST_MEMBERS];
  uint32_t n;
  member_t all; // its sums
} bundle_t;

// ---- Members --------------------------------------------------------------------------------------
static bool plain_body(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_kind_t kind = stage->insts.items[i].kind;
    if (kind != DT_INST_CONST && kind != DT_INST_INDEX && kind != DT_INST_LOAD &&
        kind != DT_INST_SCALAR && kind != DT_INST_CAST && kind != DT_INST_BITS)
      return false;
  }
  return true;
}

// Stores to memory of its own, or that its updates have, of all elements of its iterations.
static bool plain_stores(const bundles_t *b, const dt_stage_t *stage) {
  const dt_program_t *program = b->program;
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    dt_buffer_kind_t kind = dt__program_buffer(program, store->buffer)->kind;
    if (store->revises || store->whole || dt__store_scatters(program, store) ||
        (kind != DT_BUFFER_TEMP && kind != DT_BUFFER_OUTPUT && kind != DT_BUFFER_INPUT) ||
        dt__buffer_is_readback(program, store->buffer.id))
      return false;
  }
  return stage->stores.len != 0;
}

// A call that has the result already does without a copy of an argument (results.c).
static bool copies_result(const bundles_t *b, const dt_stage_t *stage) {
  dt_buffer_id_t to = stage->stores.items[0].buffer;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind != DT_INST_LOAD && stage->insts.items[i].kind != DT_INST_BITS)
      return false;
  return stage->stores.len == 1 && dt__program_buffer(b->program, to)->kind == DT_BUFFER_OUTPUT &&
         b->flow.stores[to.id - 1] == 1 && !b->flow.loads[to.id - 1];
}

// What the plan may leave out, or have made where something else lies, stays a kernel by itself. So
// does what reads there.
static bool is_planned(const bundles_t *b, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (b->in_place[stage->stores.items[i].buffer.id - 1])
      return true;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_LOAD &&
        b->in_place[stage->insts.items[i].buffer.id - 1])
      return true;
  return copies_result(b, stage);
}

// Each thread takes vectors by itself; squares need the team.
static bool has_own_lanes(const dt_kernel_t *kernel) {
  uint32_t n = kernel->schedules.len;
  for (uint32_t s = 0; s < n; s++)
    if (kernel->schedules.items[s].kind == DT_SCHEDULE_TILES)
      return false;
  return n && (kernel->schedules.items[n - 1].kind == DT_SCHEDULE_OUTER_LANES ||
               kernel->schedules.items[n - 1].kind == DT_SCHEDULE_SERIAL);
}

static bool is_small(const bundles_t *b, const dt_kernel_t *kernel) {
  dt_symenv_t *env = b->program->env;
  int64_t most = PROCESSOR_ELEMENTS * (int64_t)dt__target_threads(b->target), elements = 1;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    int64_t length = FEW_ELEMENTS;
    if (!dt__sym_is_const(env, kernel->extents[v], &length))
      (void)dt__sym_hint(env, kernel->extents[v], &length);
    if (length > 0 && (length > most || elements * length > most))
      return false;
    elements *= length > 0 ? length : 1;
  }
  return true;
}

static bool may_be_member(const bundles_t *b, uint32_t k) {
  const dt_kernel_t *kernel = &b->program->kernels.items[k];
  if (b->constant[k] || kernel->chain || kernel->slices || kernel->external ||
      kernel->stages.len != 1)
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  return !stage->n_loops && !stage->reductions.len && plain_body(stage) && plain_stores(b, stage) &&
         has_own_lanes(kernel) && !dt__kernel_readbacks(b->program, kernel) &&
         !is_planned(b, stage);
}

static dt_status_t find_member(bundles_t *b, uint32_t k) {
  dt_program_t *program = b->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  member_t *own = &b->members[k];
  dt_kernel_params_t params;
  dt_text_t text;
  if (!may_be_member(b, k))
    return NULL;
  if (!is_small(b, kernel)) {
    DT_LOG(DT_LOG_FUSION, 2, "%s is worth a launch of its own", kernel->name);
    return NULL;
  }
  dt__text_init(&text);
  dt_status_t status = dt__kernel_print(program, kernel, &params, &text);
  dt__text_fini(&text);
  DT_TRY(status);
  *own = (member_t){.may = true,
                    .updates = dt__kernel_updates(program, kernel),
                    .words = params.n_buffers + params.n_symbols,
                    .size = dt__kernel_size(kernel)};
  return NULL;
}

// ---- Search ---------------------------------------------------------------------------------------
static bool waits(const bundles_t *b, uint32_t k) {
  const dt_flow_kernel_t *own = &b->flow.kernels[k];
  for (uint32_t i = 0; i < own->n_reads; i++)
    if (b->waits[own->reads[i]] == b->search)
      return true;
  return false;
}

static void mark_writes(bundles_t *b, uint32_t k) {
  const dt_flow_kernel_t *own = &b->flow.kernels[k];
  for (uint32_t i = 0; i < own->n_writes; i++)
    b->waits[own->writes[i]] = b->search;
}

static bool fits(const bundles_t *b, const bundle_t *bundle, uint32_t k) {
  const member_t *own = &b->members[k], *all = &bundle->all;
  return own->may && own->updates == all->updates && bundle->n < MOST_MEMBERS &&
         b->segments[k] == b->segments[bundle->kernels[0]] &&
         all->words + own->words <= b->target->bundle_words &&
         all->size.insts + own->size.insts <= DT_MOST_INSTS &&
         all->size.stores + own->size.stores <= DT_MOST_STORES;
}

static void add(bundles_t *b, bundle_t *bundle, uint32_t k) {
  const member_t *own = &b->members[k];
  bundle->kernels[bundle->n++] = k;
  bundle->all.words += own->words;
  bundle->all.size.insts += own->size.insts;
  bundle->all.size.stores += own->size.stores;
  mark_writes(b, k);
}

// Kernels that must stay side by side, and those that revise arguments in their order.
static bool stands_in_the_way(const dt_program_t *program, const dt_kernel_t *kernel) {
  return kernel->chain || kernel->slices ||
         (dt__kernel_revises(kernel) && dt__kernel_updates(program, kernel));
}

static void find_bundle(bundles_t *b, uint32_t first, bundle_t *bundle) {
  uint32_t seen = 0;
  b->search++;
  *bundle = (bundle_t){.all = {.updates = b->members[first].updates}};
  add(b, bundle, first);
  for (uint32_t k = b->flow.kernels[first].next; k != DT_FLOW_NONE && seen++ < WINDOW;
       k = b->flow.kernels[k].next) {
    if (stands_in_the_way(b->program, &b->program->kernels.items[k]))
      return;
    if (waits(b, k))
      mark_writes(b, k);
    else if (fits(b, bundle, k))
      add(b, bundle, k);
  }
}

// Of its schedules each keeps the one for all sizes.
static void join(bundles_t *b, const bundle_t *bundle) {
  b->n++;
  for (uint32_t i = 0; i < bundle->n; i++) {
    dt_kernel_t *kernel = &b->program->kernels.items[bundle->kernels[i]];
    kernel->chain = b->n;
    kernel->schedules.items += kernel->schedules.len - 1;
    kernel->schedules.len = kernel->schedules.cap = 1;
    b->members[bundle->kernels[i]].may = false;
  }
}

static dt_status_t try_first(bundles_t *b, uint32_t k) {
  bundle_t bundle;
  uint32_t first = DT_FLOW_NONE;
  find_bundle(b, k, &bundle);
  b->members[k].may = false;
  if (bundle.n < 2)
    return NULL;
  DT_TRY(dt__flow_gather(&b->flow, b->segments, bundle.kernels, bundle.n, &first));
  if (first == DT_FLOW_NONE) {
    DT_LOG(DT_LOG_FUSION, 2, "%s and the maps behind it do not stand side by side",
           b->program->kernels.items[k].name);
    return NULL;
  }
  DT_LOG(DT_LOG_FUSION, 1, "%s and what has nothing to do with it: one launch of %u maps",
         b->program->kernels.items[k].name, bundle.n);
  join(b, &bundle);
  return NULL;
}

// ---- The program ----------------------------------------------------------------------------------
// A section's program has no results of its own, and may carry states as it updates arguments.
static void find_in_place(bundles_t *b) {
  const dt_program_t *program = b->program;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool taken = false;
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
        dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
        const dt_buffer_t *buffer = dt__program_buffer(program, id);
        b->in_place[id.id - 1] |= kernel->stages.items[s].stores.items[i].revises;
        bool own = buffer->kind == DT_BUFFER_STATE ||
                   (buffer->kind == DT_BUFFER_INPUT && (buffer->donated || !program->outputs.len));
        b->in_place[id.id - 1] |= own;
        taken |= own;
      }
    for (uint32_t i = 0; taken && i < b->flow.kernels[k].n_reads; i++)
      b->in_place[b->flow.kernels[k].reads[i]] = true;
  }
}

static dt_status_t start(bundles_t *b) {
  dt_program_t *program = b->program;
  uint32_t n = program->kernels.len, n_buffers = program->buffers.len;
  DT_TRY(dt__flow_init(program, &b->flow));
  DT_TRY(dt__find_segments(program, &b->segments, NULL));
  DT_TRY(dt__find_constant(program, &b->constant));
  b->in_place = DT_ARENA_ARRAY(program->arena, bool, n_buffers + 1);
  b->waits = DT_ARENA_ARRAY(program->arena, uint32_t, n_buffers + 1);
  b->members = DT_ARENA_ARRAY(program->arena, member_t, n + 1);
  if (!b->in_place || !b->waits || !b->members)
    return DT_NO_MEMORY();
  find_in_place(b);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t chain = program->kernels.items[k].chain;
    b->n = chain > b->n ? chain : b->n;
    DT_TRY(find_member(b, k));
  }
  return NULL;
}

dt_status_t dt__fuse_foreach(dt_program_t *program, const dt_target_t *target) {
  bundles_t b = {.program = program, .target = target};
  if (!target->bundle_words || program->kernels.len < 2)
    return NULL;
  DT_TRY(start(&b));
  for (uint32_t k = b.flow.first; k != DT_FLOW_NONE; k = b.flow.kernels[k].next)
    if (b.members[k].may)
      DT_TRY(try_first(&b, k));
  DT_TRY(dt__flow_settle(&b.flow));
  DT_TRY(dt__program_settle_slices(program));
  return dt__symenv_status(program->env);
}
