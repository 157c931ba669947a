// SPDX-License-Identifier: Apache-2.0
// Joining kernels. Two kernels become one if, in each iteration of common outer loops, the second
// reads of the first's results only what the first wrote in the same iteration. Loops that are not
// common become inner loops of their stages, which only maps allow. Legality is a comparison of
// index expressions; the kernels' reads keep the order (flow.h).
//
// Producers come first. The pass visits kernels once, from the first to the last, each with the
// kernels that it reads from. A join changes only the kernel that it makes and kernels behind it,
// so a refused join before it need not be tried again. Then come neighbours that read the same
// buffers. A join of two of them can allow other joins only near the places where it removed or
// made a kernel, and joins with producers only at the kernel that it made.
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/merge.h"
#include "fuse/order.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 64 // how far apart unrelated kernels may stand to be joined side by side

// What is asked of a kernel again and again.
typedef struct traits_t {
  bool alone; // what other code would only make slower, or must not see
  bool only_maps;
  bool waiting; // its neighbours are yet to be looked at
  dt_kernel_size_t size;
  uint64_t loaded; // a bit for each buffer that it loads; several buffers share one
} traits_t;

// A kernel, and where it stands.
typedef struct place_t {
  uint64_t label;
  uint32_t kernel;
} place_t;

typedef struct join_t {
  dt_program_t *program;
  dt_flow_t flow;
  traits_t *traits;  // per kernel
  bool *constant;    // per kernel: reads constants only
  uint32_t *segment; // per kernel
  bool *revised;     // by buffer, [id - 1]: a kernel revises it
  // The pair under examination.
  uint32_t ai, bi;
  const dt_kernel_t *a, *b;
  // b's outer loop that walks together with a's outer loop j; UINT32_MAX: none.
  uint32_t partner[DT_MAX_LOOPS];
  DT_VEC(place_t) found;
  DT_VEC(uint32_t) woken; // began to wait since the first of them was looked for
} join_t;

static bool is_template(const dt_kernel_t *kernel) { return kernel->schedules.len != 0; }

// All stages map and have no loops of their own: any outer loop may become an inner one.
static bool only_maps(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops || kernel->stages.items[s].reductions.len)
      return false;
  return true;
}

// ---- Matching loops -------------------------------------------------------------------------------

static uint32_t loop_index(const dt_sym_t *vars, uint32_t n, dt_sym_t var) {
  for (uint32_t k = 0; k < n; k++)
    if (vars[k].id == var.id)
      return k;
  return UINT32_MAX;
}

// A store at `at` read at `index`: every outer loop of a that stands in the store's index must
// stand alone there and meet an outer loop of b (its partner) in the load, always the same one.
// With `may_skip` (a can give up loops) a loop that meets no loop of b is left without a partner.
static bool match_access(join_t *join, const dt_sym_t *at, const dt_sym_t *index, uint32_t rank,
                         bool may_skip) {
  const dt_kernel_t *a = join->a, *b = join->b;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t j = loop_index(a->vars, a->n_loops, at[d]);
    if (j == UINT32_MAX) {
      for (uint32_t v = 0; v < a->n_loops; v++)
        if (dt__sym_depends(join->program->env, at[d], a->vars[v]))
          return false;
      continue;
    }
    uint32_t v = loop_index(b->vars, b->n_loops, index[d]);
    bool meets =
        v != UINT32_MAX && dt__sym_known_eq(join->program->env, a->extents[j], b->extents[v]);
    if (!meets) {
      if (!may_skip || (join->partner[j] != UINT32_MAX && join->partner[j] != DT_MAX_LOOPS))
        return false;
      join->partner[j] = DT_MAX_LOOPS; // met something that is no loop: never a partner
      continue;
    }
    if (join->partner[j] == UINT32_MAX)
      join->partner[j] = v;
    else if (join->partner[j] != v)
      return false;
  }
  return true;
}

static const dt_store_t *find_store(const dt_kernel_t *kernel, dt_buffer_id_t buffer) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++)
      if (kernel->stages.items[s].stores.items[k].buffer.id == buffer.id)
        return &kernel->stages.items[s].stores.items[k];
  return NULL;
}

// Partners by what b reads of a. *found: b reads something of a. What a scatters, and what b
// searches, is read only when a is done.
static bool match_vertical(join_t *join, bool may_skip, bool *found) {
  *found = false;
  for (uint32_t s = 0; s < join->b->stages.len; s++)
    for (uint32_t k = 0; k < join->b->stages.items[s].insts.len; k++) {
      const dt_inst_t *load = &join->b->stages.items[s].insts.items[k];
      if (!dt__inst_reads(load).id)
        continue;
      const dt_store_t *store = find_store(join->a, load->buffer);
      if (!store)
        continue;
      *found = true;
      if (join->flow.stores[load->buffer.id - 1] != 1 || load->kind != DT_INST_LOAD ||
          dt__store_scatters(join->program, store) ||
          !match_access(join, store->index, load->index,
                        dt__program_buffer(join->program, load->buffer)->rank, may_skip))
        return false;
    }
  return true;
}

static bool share_a_buffer(const join_t *join) {
  for (uint32_t s = 0; s < join->a->stages.len; s++)
    for (uint32_t k = 0; k < join->a->stages.items[s].insts.len; k++) {
      const dt_inst_t *x = &join->a->stages.items[s].insts.items[k];
      if (x->kind != DT_INST_LOAD)
        continue;
      for (uint32_t t = 0; t < join->b->stages.len; t++)
        for (uint32_t i = 0; i < join->b->stages.items[t].insts.len; i++) {
          const dt_inst_t *y = &join->b->stages.items[t].insts.items[i];
          if (y->kind == DT_INST_LOAD && y->buffer.id == x->buffer.id)
            return true;
        }
    }
  return false;
}

// Side by side: equal loops in equal order.
static bool match_horizontal(join_t *join) {
  const traits_t *a = &join->traits[join->ai], *b = &join->traits[join->bi];
  if (!(a->loaded & b->loaded) || join->a->n_loops != join->b->n_loops || is_template(join->a) ||
      a->only_maps != b->only_maps || !share_a_buffer(join))
    return false;
  for (uint32_t j = 0; j < join->a->n_loops; j++) {
    if (!dt__sym_known_eq(join->program->env, join->a->extents[j], join->b->extents[j]))
      return false;
    join->partner[j] = j;
  }
  return true;
}

// How the partners' count must be for each kernel's kind; NULL when the pair may be joined.
static const char *loops_refusal(join_t *join) {
  uint32_t pairs = 0;
  uint64_t taken = 0;
  for (uint32_t j = 0; j < join->a->n_loops; j++) {
    if (join->partner[j] >= DT_MAX_LOOPS) {
      join->partner[j] = UINT32_MAX;
      continue;
    }
    if ((taken >> join->partner[j]) & 1)
      return "two loops of the producer meet one of the consumer";
    taken |= UINT64_C(1) << join->partner[j];
    pairs++;
  }
  bool a_all = pairs == join->a->n_loops, b_all = pairs == join->b->n_loops;
  bool a_free = join->traits[join->ai].only_maps, b_free = join->traits[join->bi].only_maps;
  if (is_template(join->a) && !(a_all && b_all && b_free))
    return "a matrix template takes only maps over all its loops";
  if (a_free && b_free && !(a_all && b_all))
    return "two maps over different loops";
  if (!a_all && !a_free)
    return "the producer's reductions need all its outer loops";
  if (!b_all && !b_free)
    return "the consumer's reductions need all its outer loops";
  if (!a_all && !b_all)
    return "neither kernel's loops contain the other's";
  return NULL;
}

// A plain copy that another kernel revises: by itself it can be left out (carry.c).
static bool is_revised_copy(const join_t *join, const dt_kernel_t *kernel) {
  if (!dt__kernel_is_map(join->program, kernel))
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_store_t *store = &stage->stores.items[0];
  return stage->insts.items[store->value].kind == DT_INST_LOAD &&
         join->revised[store->buffer.id - 1];
}

static traits_t find_traits(const join_t *join, const dt_kernel_t *kernel) {
  traits_t traits = {.only_maps = only_maps(kernel), .size = dt__kernel_size(kernel)};
  dt_buffer_id_t from, to;
  traits.alone = is_revised_copy(join, kernel) || dt__kernel_in_order(kernel) ||
                 dt__kernel_updates(join->program, kernel) || dt__kernel_revises(kernel) ||
                 dt__kernel_copies_result(join->program, kernel, &from, &to);
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (stage->insts.items[i].kind == DT_INST_LOAD)
        traits.loaded |= UINT64_C(1) << stage->insts.items[i].buffer.id % 64;
  }
  return traits;
}

static void look_at(join_t *join, uint32_t ai, uint32_t bi) {
  join->ai = ai;
  join->bi = bi;
  join->a = &join->program->kernels.items[ai];
  join->b = &join->program->kernels.items[bi];
  for (uint32_t j = 0; j < DT_MAX_LOOPS; j++)
    join->partner[j] = UINT32_MAX;
}

// What keeps any two kernels apart; NULL: nothing that is seen from their kinds.
static const char *kinds_refusal(const join_t *join) {
  const traits_t *a = &join->traits[join->ai], *b = &join->traits[join->bi];
  if (is_template(join->b))
    return "operands of a matrix template are memory";
  if (join->segment[join->ai] != join->segment[join->bi])
    return "they run in different segments";
  if (a->alone || b->alone)
    return "one runs in order, or updates an argument";
  if (join->constant[join->ai] != join->constant[join->bi])
    return "one reads constants only";
  if (!dt__sizes_fit(&a->size, &b->size))
    return "the kernel would grow too large";
  return NULL;
}

static dt_status_t third_refusal(join_t *join, const char **out_why) {
  bool between = false;
  DT_TRY(dt__flow_between(&join->flow, join->ai, join->bi, &between));
  *out_why = between ? "a third kernel stands between them" : NULL;
  return NULL;
}

// Of a kernel and one that reads of it.
static dt_status_t refusal(join_t *join, const char **out_why) {
  bool reads = false;
  *out_why = kinds_refusal(join);
  if (!*out_why && (!match_vertical(join, join->traits[join->ai].only_maps, &reads) || !reads))
    *out_why = "the consumer reads other elements than the producer's same iteration wrote";
  if (!*out_why)
    *out_why = loops_refusal(join);
  return *out_why ? NULL : third_refusal(join, out_why);
}

// Of two neighbours, of which none reads of the other.
static dt_status_t neighbours_refusal(join_t *join, const char **out_why) {
  *out_why = kinds_refusal(join);
  if (!*out_why && !match_horizontal(join))
    *out_why = "they share neither loops nor data";
  if (!*out_why)
    *out_why = loops_refusal(join);
  return *out_why ? NULL : third_refusal(join, out_why);
}

// ---- Joining --------------------------------------------------------------------------------------

// Appends `kernel`'s stages to `out`; its outer loops that have no place among out's outer loops
// become each stage's first inner loops. `names[j]` is what outer loop j is called in `out`, or
// none.
static dt_status_t append_stages(dt_program_t *program, dt_kernel_t *out, const dt_kernel_t *kernel,
                                 const dt_sym_t *names) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *from = &kernel->stages.items[s];
    dt_stage_t stage = {0};
    dt_body_copy_t copy = {.program = program,
                           .into = &stage,
                           .from = from,
                           .mask = DT_NO_INST,
                           .row_base = out->n_rows};
    for (uint32_t j = 0; j < kernel->n_loops; j++) {
      if (names[j].id == 0) {
        // A variable of its own in every stage, so that no two stages share one.
        dt_sym_t var = dt__sym_new_loop(program->env, kernel->extents[j]);
        stage.vars[stage.n_loops] = var;
        stage.extents[stage.n_loops++] = kernel->extents[j];
        DT_TRY(dt__body_rename(&copy, kernel->vars[j], var));
      } else if (names[j].id != kernel->vars[j].id) {
        DT_TRY(dt__body_rename(&copy, kernel->vars[j], names[j]));
      }
    }
    if (stage.n_loops + from->n_loops > DT_MAX_LOOPS)
      return DT_FAIL(DT_E_LIMIT, "fuse: more than %d loops in a stage of %s", DT_MAX_LOOPS,
                     kernel->name);
    for (uint32_t v = 0; v < from->n_loops; v++) {
      stage.vars[stage.n_loops] = from->vars[v];
      stage.extents[stage.n_loops++] = from->extents[v];
    }
    DT_TRY(dt__body_copy(&copy));
    DT_TRY(dt__body_copy_results(&copy));
    if (!DT_VEC_PUSH(program->arena, &out->stages, stage))
      return DT_NO_MEMORY();
  }
  out->n_rows += kernel->n_rows;
  return NULL;
}

static dt_status_t build(join_t *join, dt_kernel_t *out) {
  const dt_kernel_t *a = join->a, *b = join->b;
  dt_program_t *program = join->program;
  memset(out, 0, sizeof(*out));
  bool a_all = true;
  for (uint32_t j = 0; j < a->n_loops; j++)
    a_all = a_all && join->partner[j] != UINT32_MAX;
  const dt_kernel_t *base = a_all ? a : b;
  out->n_loops = base->n_loops;
  memcpy(out->vars, base->vars, sizeof(out->vars));
  memcpy(out->extents, base->extents, sizeof(out->extents));
  dt_sym_t a_names[DT_MAX_LOOPS] = {{0}}, b_names[DT_MAX_LOOPS] = {{0}};
  for (uint32_t j = 0; j < a->n_loops; j++) {
    uint32_t v = join->partner[j];
    if (v == UINT32_MAX)
      continue;
    a_names[j] = base == a ? a->vars[j] : b->vars[v];
    b_names[v] = a_names[j];
  }
  DT_TRY(append_stages(program, out, a, a_names));
  DT_TRY(append_stages(program, out, b, b_names));
  out->schedules.items = a->schedules.items; // a template keeps its schedule
  out->schedules.len = a->schedules.len;
  out->schedules.cap = a->schedules.cap;
  out->name = strstr(a->name, b->name) || strlen(a->name) + strlen(b->name) > 96
                  ? a->name
                  : dt__arena_printf(program->arena, "%s_%s", a->name, b->name);
  return out->name ? dt__symenv_status(program->env) : DT_NO_MEMORY();
}

static void count_loads(join_t *join, const dt_kernel_t *kernel, uint32_t by) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
      if (dt__inst_reads(inst).id)
        join->flow.loads[inst->buffer.id - 1] += by;
    }
}

static void count_stores(join_t *join, const dt_kernel_t *kernel, uint32_t by) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      join->flow.stores[kernel->stages.items[s].stores.items[i].buffer.id - 1] += by;
}

// The `n` kernels from k on have other neighbours now.
static dt_status_t wake(join_t *join, uint32_t k, uint32_t n) {
  for (uint32_t i = 0; i < n && k != DT_FLOW_NONE; i++, k = join->flow.kernels[k].next) {
    if (!join->traits[k].waiting && !DT_VEC_PUSH(join->program->arena, &join->woken, k))
      return DT_NO_MEMORY();
    join->traits[k].waiting = true;
  }
  return NULL;
}

// The pair that was found good: b becomes both.
static dt_status_t join_pair(join_t *join) {
  dt_program_t *program = join->program;
  uint32_t a = join->ai, b = join->bi, n_fixed = is_template(join->a) ? 1 : 0, n_moved = 0;
  dt_kernel_t joined;
  DT_LOG(DT_LOG_FUSION, 1, "%s and %s become one kernel", join->a->name, join->b->name);
  DT_TRY(build(join, &joined));
  count_loads(join, join->a, UINT32_MAX);
  count_loads(join, join->b, UINT32_MAX);
  count_loads(join, &joined, 1);
  count_stores(join, &joined, UINT32_MAX);
  DT_TRY(dt__merge_stages(program, &joined, n_fixed, join->flow.loads));
  count_stores(join, &joined, 1);
  program->kernels.items[b] = joined;
  join->traits[b] = find_traits(join, &joined);
  uint32_t before = join->flow.kernels[a].prev;
  DT_TRY(dt__flow_join(&join->flow, a, b, &n_moved));
  uint32_t behind = before == DT_FLOW_NONE ? join->flow.first : join->flow.kernels[before].next;
  DT_TRY(wake(join, behind, WINDOW));
  return wake(join, b, WINDOW + n_moved + 1);
}

// ---- Producers --------------------------------------------------------------------------------------

static int compare_places(const void *a, const void *b) {
  const place_t *x = a, *y = b;
  return (x->label > y->label) - (x->label < y->label);
}

static void sort_found(join_t *join) {
  if (join->found.len > 1)
    qsort(join->found.items, join->found.len, sizeof(*join->found.items), compare_places);
}

static dt_status_t find_one(join_t *join, uint32_t k) {
  dt_flow_kernel_t *kernel = &join->flow.kernels[k];
  if (kernel->mark == join->flow.mark)
    return NULL;
  kernel->mark = join->flow.mark;
  place_t place = {.label = kernel->label, .kernel = k};
  return DT_VEC_PUSH(join->program->arena, &join->found, place) ? NULL : DT_NO_MEMORY();
}

// Kernels that by themselves make something that b reads, in order.
static dt_status_t find_sources(join_t *join, uint32_t b) {
  const dt_flow_kernel_t *own = &join->flow.kernels[b];
  join->found.len = 0;
  join->flow.mark++;
  for (uint32_t i = 0; i < own->n_reads; i++) {
    uint32_t writer = dt__flow_writer(&join->flow, own->reads[i]);
    if (writer != DT_FLOW_NONE && writer != b)
      DT_TRY(find_one(join, writer));
  }
  sort_found(join);
  return NULL;
}

// Kernels that read results of a, in order.
static dt_status_t find_readers(join_t *join, uint32_t a) {
  const dt_flow_kernel_t *own = &join->flow.kernels[a];
  join->found.len = 0;
  join->flow.mark++;
  for (uint32_t i = 0; i < own->n_writes; i++) {
    const dt_flow_buffer_t *buffer = &join->flow.buffers[own->writes[i]];
    for (uint32_t r = 0; r < buffer->n_readers; r++) {
      uint32_t reader = dt__flow_find(&join->flow, buffer->readers[r]);
      if (reader != a && dt__flow_reads(&join->flow, reader, own->writes[i]))
        DT_TRY(find_one(join, reader));
    }
  }
  sort_found(join);
  return NULL;
}

// The pair may be joined, and is.
static dt_status_t try_pair(join_t *join, uint32_t a, uint32_t b, bool *out_joined) {
  const char *why = NULL;
  look_at(join, a, b);
  DT_TRY(refusal(join, &why));
  *out_joined = !why;
  if (!why)
    return join_pair(join);
  DT_LOG(DT_LOG_FUSION, 2, "%s | %s: %s", join->a->name, join->b->name, why);
  return NULL;
}

// Takes the kernels whose results b reads into it, the nearest first.
static dt_status_t join_sources(join_t *join, uint32_t b) {
  for (bool joined = true; joined;) {
    joined = false;
    DT_TRY(find_sources(join, b));
    for (uint32_t i = join->found.len; i-- > 0 && !joined;)
      DT_TRY(try_pair(join, join->found.items[i].kernel, b, &joined));
  }
  return NULL;
}

// All that a new kernel lets be joined with it: what it reads of, then who reads of it.
static dt_status_t join_around(join_t *join, uint32_t k) {
  for (bool joined = true; joined;) {
    joined = false;
    DT_TRY(join_sources(join, k));
    DT_TRY(find_readers(join, k));
    for (uint32_t i = 0; i < join->found.len && !joined; i++) {
      uint32_t reader = join->found.items[i].kernel;
      DT_TRY(try_pair(join, k, reader, &joined));
      k = joined ? reader : k;
    }
  }
  return NULL;
}

// ---- Neighbours -------------------------------------------------------------------------------------

static bool reads_of(const dt_flow_t *flow, uint32_t b, uint32_t a) {
  const dt_flow_kernel_t *own = &flow->kernels[a];
  for (uint32_t i = 0; i < own->n_writes; i++)
    if (dt__flow_reads(flow, b, own->writes[i]))
      return true;
  return false;
}

// Joins b with one of the kernels before it, the nearest that may be, if any.
static dt_status_t join_neighbour(join_t *join, uint32_t b, bool *out_joined) {
  uint32_t a = join->flow.kernels[b].prev;
  *out_joined = false;
  for (uint32_t i = 0; i < WINDOW && a != DT_FLOW_NONE; i++, a = join->flow.kernels[a].prev) {
    const char *why = NULL;
    if (!(join->traits[a].loaded & join->traits[b].loaded) || reads_of(&join->flow, b, a))
      continue;
    look_at(join, a, b);
    DT_TRY(neighbours_refusal(join, &why));
    if (why)
      continue;
    *out_joined = true;
    return join_pair(join);
  }
  return NULL;
}

// The first kernel whose neighbours are others since it was looked at.
static uint32_t first_woken(join_t *join) {
  uint32_t first = DT_FLOW_NONE;
  for (uint32_t i = 0; i < join->woken.len; i++) {
    uint32_t k = join->woken.items[i];
    if (dt__flow_find(&join->flow, k) == k &&
        (first == DT_FLOW_NONE || dt__flow_before(&join->flow, k, first)))
      first = k;
  }
  join->woken.len = 0;
  return first;
}

static dt_status_t join_neighbours(join_t *join) {
  for (uint32_t b = join->flow.first; b != DT_FLOW_NONE;) {
    bool joined = false;
    if (join->traits[b].waiting) {
      join->traits[b].waiting = false;
      DT_TRY(join_neighbour(join, b, &joined));
    }
    if (joined)
      DT_TRY(join_around(join, b));
    b = joined ? first_woken(join) : join->flow.kernels[b].next;
  }
  return NULL;
}

// ---- The pass -------------------------------------------------------------------------------------

static dt_status_t start(join_t *join) {
  dt_program_t *program = join->program;
  dt_arena_t *arena = program->arena;
  uint32_t n = program->kernels.len;
  DT_TRY(dt__flow_init(program, &join->flow));
  DT_TRY(dt__find_constant(program, &join->constant));
  DT_TRY(dt__find_segments(program, &join->segment, NULL));
  join->traits = DT_ARENA_ARRAY(arena, traits_t, n + 1);
  join->revised = DT_ARENA_ARRAY(arena, bool, program->buffers.len + 1);
  if (!join->traits || !join->revised)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t i = 0; dt__kernel_revises(kernel) && i < join->flow.kernels[k].n_writes; i++)
      join->revised[join->flow.kernels[k].writes[i]] = true;
  }
  for (uint32_t k = 0; k < n; k++) {
    join->traits[k] = find_traits(join, &program->kernels.items[k]);
    join->traits[k].waiting = true;
  }
  return NULL;
}

dt_status_t dt__fuse_stages(dt_program_t *program, const dt_target_t *target) {
  join_t join = {.program = program};
  DT_TRY(dt__fuse_prune(program, target));
  DT_TRY(dt__merge_columns(program));
  DT_TRY(start(&join));
  for (uint32_t b = join.flow.first; b != DT_FLOW_NONE; b = join.flow.kernels[b].next)
    DT_TRY(join_sources(&join, b));
  DT_TRY(join_neighbours(&join));
  DT_TRY(dt__flow_settle(&join.flow));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(dt__merge_localise(program, &program->kernels.items[k], join.flow.loads));
  return dt__symenv_status(program->env);
}
