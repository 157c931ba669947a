// SPDX-License-Identifier: Apache-2.0
// Slices. Kernels that pass each other large temporaries, all of them over common outer loops (the
// batch and head loops around an attention's scores), run a slice of those loops at a time: scores,
// softmax and product of some heads, then of the next. The temporaries between them then take the
// memory of one slice, and stay in the cache. The number of iterations in a slice is computed from
// the sizes of the call; if everything is small there is one slice.
//
// Loops carry a temporary if its one writer and all its readers have each of these loops as an
// outer loop that is exactly the index of one dim. Kernels of one group share a tuple of such
// loops, become neighbours, and get one loop in the tuple's place:
//
//  writer  outer b < B, h < H, m, n: store T[b, h, m, n]    outer f < count, m, n: store T[f, m, n]
//  reader  outer b < B, h < H, m:    load  T[b, h, m, k] -> outer f < count, m:    load  T[f, m, k]
//
// with b = (begin + f) // H and h = (begin + f) % H in all other indices.
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "fuse/order.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TUPLE 4
// How often all temporaries are looked at while groups are still found: what one group takes away
// may leave a smaller one for another.
#define MOST_ROUNDS 4

// The loops of one kernel that its group runs in slices, outermost first.
typedef struct member_t {
  bool in;
  dt_sym_t vars[MAX_TUPLE];
} member_t;

// A buffer that a kernel touches which has come into the group; those of a lower round come first.
typedef struct touched_t {
  uint32_t round, buffer; // [id - 1]
  uint32_t kernel;
} touched_t;

typedef DT_VEC(uint32_t) numbers_t;

typedef struct group_t {
  uint32_t n; // loops of the tuple
  dt_sym_t extents[MAX_TUPLE];
  numbers_t kernels, buffers; // members; what is private to the group, by [id - 1]
} group_t;

typedef struct slices_t {
  dt_program_t *program;
  dt_flow_t flow;
  uint32_t *segments; // by kernel
  int64_t budget;     // bytes of a slice's temporaries
  // Of the one group in the making; cleared when it is done with.
  group_t group;
  member_t *members;           // by kernel
  bool *carried;               // by buffer
  uint32_t (*dims)[MAX_TUPLE]; // by buffer: of the tuple, where it is carried
  DT_VEC(touched_t) heap;
  DT_VEC(member_t) fresh; // of the flow's users
  // By buffer: dims, a bit each, by which a group was grown from it or over it in this round, but
  // could not be run in slices. To grow it again from there is of no use.
  uint32_t *failed;
} slices_t;

// ---- Loops and dims -------------------------------------------------------------------------------

// How many of the kernel's last loops must stay as they are: they are tiled, or lanes run over
// them.
static uint32_t fixed_loops(const dt_kernel_t *kernel) {
  uint32_t fixed = 0;
  for (uint32_t s = 0; s < kernel->schedules.len; s++) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    bool lanes = schedule->kind == DT_SCHEDULE_OUTER_LANES;
    uint32_t own = dt__schedule_is_product(schedule) ? 2 : lanes ? 1 : 0;
    fixed = own > fixed ? own : fixed;
  }
  return fixed;
}

// The extent of the kernel's outer loop over `var`; none when it has no such loop that may be cut.
static dt_sym_t loop_extent(const dt_kernel_t *kernel, dt_sym_t var) {
  uint32_t fixed = fixed_loops(kernel);
  for (uint32_t v = 0; v + fixed < kernel->n_loops; v++)
    if (kernel->vars[v].id == var.id)
      return kernel->extents[v];
  return DT_SYM_NONE_ID;
}

// Every access to the buffer by the kernel indexes `dim` with one loop that may be cut: which, or
// none. *touches: whether it has accesses at all.
static dt_sym_t carrying_loop(const dt_kernel_t *kernel, uint32_t id, uint32_t dim, bool *touches) {
  dt_sym_t var = DT_SYM_NONE_ID;
  bool same = true;
  *touches = false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len + stage->stores.len; i++) {
      bool load = i < stage->insts.len;
      const dt_inst_t *inst = load ? &stage->insts.items[i] : NULL;
      const dt_store_t *store = load ? NULL : &stage->stores.items[i - stage->insts.len];
      if ((load ? dt__inst_reads(inst).id : store->buffer.id) != id)
        continue;
      if (load && inst->kind != DT_INST_LOAD)
        same = false; // a search reads all of it
      dt_sym_t at = same ? (load ? inst->index[dim] : store->index[dim]) : DT_SYM_NONE_ID;
      same = same && (!*touches || at.id == var.id);
      var = at;
      *touches = true;
    }
  }
  return same && var.id && loop_extent(kernel, var).id ? var : DT_SYM_NONE_ID;
}

// Slices of an innermost dim would lie apart, and lanes would lose it.
static bool is_innermost(const slices_t *s, uint32_t id, uint32_t dim) {
  const dt_buffer_t *buffer = &s->program->buffers.items[id - 1];
  return buffer->layout && buffer->layout->order[buffer->rank - 1] == dim;
}

// A temporary of one writer that only kernels use.
static bool may_be_carried(const slices_t *s, uint32_t id) {
  const dt_buffer_t *buffer = &s->program->buffers.items[id - 1];
  return buffer->kind == DT_BUFFER_TEMP && buffer->rank >= 2 && s->flow.stores[id - 1] == 1 &&
         dt__layout_is_order(buffer->layout, buffer->rank) &&
         !dt__buffer_is_readback(s->program, id);
}

// Kernels of a group: not of another one, run at each call, and storing what their loops say.
static bool may_be_member(const slices_t *s, uint32_t k) {
  const dt_program_t *program = s->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  bool fixed = true; // such kernels may read constants only, and then run once
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    fixed &= dt__sym_is_const(program->env, kernel->extents[v], NULL);
  for (uint32_t g = 0; g < kernel->stages.len; g++)
    for (uint32_t i = 0; i < kernel->stages.items[g].stores.len; i++)
      if (dt__store_scatters(program, &kernel->stages.items[g].stores.items[i]))
        return false;
  return !fixed && !kernel->slices && !kernel->chain && !dt__kernel_updates(program, kernel);
}

// ---- Joining --------------------------------------------------------------------------------------

// The dim of buffer `id` that member kernel k indexes with its loop q, or rank.
static uint32_t dim_of(const slices_t *s, uint32_t id, uint32_t k, uint32_t q) {
  const dt_program_t *program = s->program;
  uint32_t rank = program->buffers.items[id - 1].rank;
  for (uint32_t d = 0; d < rank; d++) {
    bool touches = false;
    if (carrying_loop(&program->kernels.items[k], id, d, &touches).id == s->members[k].vars[q].id)
      return d;
  }
  return rank;
}

// User k of the buffer as a member, with the loops by which the buffer is carried; false: it cannot
// be one. A user that touches it no more is left out.
static bool fits(const slices_t *s, uint32_t id, uint32_t k, const uint32_t *dims, member_t *out) {
  const dt_kernel_t *kernel = &s->program->kernels.items[k];
  const group_t *group = &s->group;
  bool touches = false;
  *out = (member_t){0};
  for (uint32_t q = 0; q < group->n; q++) {
    dt_sym_t var = carrying_loop(kernel, id, dims[q], &touches);
    if (!touches)
      return true;
    if (!var.id || is_innermost(s, id, dims[q]) || !may_be_member(s, k) ||
        loop_extent(kernel, var).id != group->extents[q].id ||
        (s->members[k].in && s->members[k].vars[q].id != var.id))
      return false;
    for (uint32_t before = 0; before < q; before++)
      if (out->vars[before].id == var.id)
        return false;
    out->vars[q] = var;
  }
  out->in = true;
  return true;
}

static bool comes_first(const touched_t *a, const touched_t *b) {
  if (a->round != b->round)
    return a->round < b->round;
  return a->buffer != b->buffer ? a->buffer < b->buffer : a->kernel < b->kernel;
}

static dt_status_t push_touched(slices_t *s, touched_t touched) {
  if (!DT_VEC_PUSH(s->program->arena, &s->heap, touched))
    return DT_NO_MEMORY();
  touched_t *items = s->heap.items;
  for (uint32_t at = s->heap.len - 1; at && comes_first(&items[at], &items[(at - 1) / 2]);
       at = (at - 1) / 2) {
    touched_t kept = items[at];
    items[at] = items[(at - 1) / 2];
    items[(at - 1) / 2] = kept;
  }
  return NULL;
}

static touched_t pop_touched(slices_t *s) {
  touched_t *items = s->heap.items, top = items[0];
  items[0] = items[--s->heap.len];
  for (uint32_t at = 0, least = 0;; at = least) {
    for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < s->heap.len; child++)
      if (comes_first(&items[child], &items[least]))
        least = child;
    if (least == at)
      return top;
    touched_t kept = items[at];
    items[at] = items[least];
    items[least] = kept;
  }
}

// Kernel k comes into the group while buffer `at` is looked at: what it touches behind that is
// looked at in this round, the rest in the next one.
static dt_status_t add_member(slices_t *s, uint32_t k, const member_t *member, uint32_t at,
                              uint32_t round) {
  const dt_flow_kernel_t *kernel = &s->flow.kernels[k];
  bool was_in = s->members[k].in;
  s->members[k] = *member;
  if (was_in)
    return NULL;
  if (!DT_VEC_PUSH(s->program->arena, &s->group.kernels, k))
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < kernel->n_reads + kernel->n_writes; i++) {
    uint32_t b = i < kernel->n_reads ? kernel->reads[i] : kernel->writes[i - kernel->n_reads];
    touched_t touched = {.round = b > at ? round : round + 1, .buffer = b, .kernel = k};
    if (!s->carried[b] && may_be_carried(s, b + 1))
      DT_TRY(push_touched(s, touched));
  }
  return NULL;
}

// Brings all users of the buffer into the group; `dims` are those of the group's tuple. False: they
// do not fit, and the group is as it was.
static dt_status_t join_users(slices_t *s, uint32_t id, const uint32_t *dims, uint32_t at,
                              uint32_t round, bool *out_joined) {
  dt_arena_t *arena = s->program->arena;
  *out_joined = false;
  s->fresh.len = 0;
  DT_TRY(dt__flow_users(&s->flow, id - 1));
  for (uint32_t i = 0; i < s->flow.users.len; i++) {
    member_t member;
    if (!fits(s, id, s->flow.users.items[i], dims, &member))
      return NULL;
    if (!DT_VEC_PUSH(arena, &s->fresh, member))
      return DT_NO_MEMORY();
  }
  s->carried[id - 1] = true;
  memcpy(s->dims[id - 1], dims, s->group.n * sizeof(*dims));
  if (!DT_VEC_PUSH(arena, &s->group.buffers, id - 1))
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < s->flow.users.len; i++)
    if (s->fresh.items[i].in)
      DT_TRY(add_member(s, s->flow.users.items[i], &s->fresh.items[i], at, round));
  *out_joined = true;
  return NULL;
}

// Buffers that a member uses and the group's loops carry.
static dt_status_t grow(slices_t *s) {
  uint32_t refused = UINT32_MAX, refused_dims[MAX_TUPLE] = {0};
  while (s->heap.len) {
    touched_t at = pop_touched(s);
    uint32_t dims[MAX_TUPLE] = {0}, q = 0, id = at.buffer + 1;
    uint32_t rank = s->program->buffers.items[at.buffer].rank;
    bool joined = false;
    if (s->carried[at.buffer])
      continue;
    while (q < s->group.n && (dims[q] = dim_of(s, id, at.kernel, q)) < rank)
      q++;
    if (q != s->group.n || q >= rank ||
        (refused == id && memcmp(dims, refused_dims, sizeof(dims)) == 0))
      continue;
    DT_TRY(join_users(s, id, dims, at.buffer, at.round, &joined));
    if (joined)
      continue;
    refused = id;
    memcpy(refused_dims, dims, sizeof(dims));
  }
  return NULL;
}

// The dim's one extent of all loops that walk it; none: they differ, or it is no loop's alone.
static dt_sym_t common_extent(const slices_t *s, uint32_t id, uint32_t d) {
  dt_sym_t extent = DT_SYM_NONE_ID;
  for (uint32_t i = 0; i < s->flow.users.len && !is_innermost(s, id, d); i++) {
    const dt_kernel_t *kernel = &s->program->kernels.items[s->flow.users.items[i]];
    bool touches = false;
    dt_sym_t var = carrying_loop(kernel, id, d, &touches);
    if (!touches)
      continue;
    dt_sym_t own = var.id ? loop_extent(kernel, var) : DT_SYM_NONE_ID;
    if (!own.id || (extent.id && extent.id != own.id))
      return DT_SYM_NONE_ID;
    extent = own;
  }
  return extent;
}

// Begins a group with the buffer.
static dt_status_t seed(slices_t *s, uint32_t id, bool *out_begun) {
  const dt_program_t *program = s->program;
  const dt_buffer_t *buffer = &program->buffers.items[id - 1];
  uint32_t dims[MAX_TUPLE] = {0}, open = 0, mask = 0;
  *out_begun = false;
  s->group.n = 0;
  if (!may_be_carried(s, id))
    return NULL;
  DT_TRY(dt__flow_users(&s->flow, id - 1));
  for (uint32_t d = 0; d < buffer->rank; d++) {
    dt_sym_t extent = s->group.n < MAX_TUPLE ? common_extent(s, id, d) : DT_SYM_NONE_ID;
    if (extent.id) {
      dims[s->group.n] = d;
      mask |= 1U << d;
      s->group.extents[s->group.n++] = extent;
    } else if (!dt__sym_is_const(program->env, buffer->sizes[d], NULL)) {
      open++;
    }
  }
  // Worth it where what one iteration holds grows with the square of a size.
  if (s->group.n == 0 || open < 2 || s->failed[id - 1] == mask)
    return NULL;
  return join_users(s, id, dims, UINT32_MAX, 0, out_begun);
}

// ---- Order ----------------------------------------------------------------------------------------

// Inside of a slice everything that one member makes and another reads must be of the slice.
static bool is_closed(const slices_t *s) {
  const dt_program_t *program = s->program;
  for (uint32_t i = 0; i < s->group.kernels.len; i++) {
    const dt_flow_kernel_t *kernel = &s->flow.kernels[s->group.kernels.items[i]];
    for (uint32_t r = 0; r < kernel->n_reads; r++) {
      uint32_t b = kernel->reads[r];
      if (s->carried[b] || program->buffers.items[b].kind == DT_BUFFER_LOCAL || !s->flow.stores[b])
        continue;
      const dt_flow_buffer_t *buffer = &s->flow.buffers[b];
      if (buffer->n_writers > 1 || s->members[buffer->writers[0]].in)
        return false;
    }
  }
  return true;
}

// ---- Rewriting ------------------------------------------------------------------------------------

static bool is_dim_of_tuple(const slices_t *s, uint32_t b, uint32_t d) {
  for (uint32_t q = 0; q < s->group.n; q++)
    if (s->dims[b][q] == d)
      return true;
  return false;
}

// The bytes that all carried buffers take for one iteration, without the dims of the tuple.
static dt_sym_t bytes_of_one(const slices_t *s) {
  dt_program_t *program = s->program;
  dt_symenv_t *env = program->env;
  dt_sym_t sum = dt__sym_const(env, 0);
  for (uint32_t i = 0; i < s->group.buffers.len; i++) {
    uint32_t b = s->group.buffers.items[i];
    const dt_buffer_t *buffer = &program->buffers.items[b];
    dt_sym_t bytes = dt__sym_const(env, (int64_t)dt_dtype_size(buffer->dtype));
    for (uint32_t d = 0; d < buffer->rank; d++)
      if (!is_dim_of_tuple(s, b, d))
        bytes = dt__sym_mul(env, bytes, buffer->sizes[d]);
    sum = dt__sym_add(env, sum, bytes);
  }
  return sum;
}

// The index of a carried buffer's slice: the slice's loop, then the dims that are left.
static uint32_t slice_index(const slices_t *s, uint32_t b, dt_sym_t front, const dt_sym_t *from,
                            dt_sym_t *out) {
  uint32_t at = 0;
  out[at++] = front;
  for (uint32_t d = 0; d < s->program->buffers.items[b].rank; d++)
    if (!is_dim_of_tuple(s, b, d))
      out[at++] = from[d];
  return at;
}

typedef struct rewrite_t {
  slices_t *s;
  dt_sym_t front; // the kernel's new loop
  dt_sym_t from[MAX_TUPLE], to[MAX_TUPLE];
} rewrite_t;

static dt_sym_t renamed(const rewrite_t *r, dt_sym_t e) {
  return e.id ? dt__sym_subst(r->s->program->env, e, r->from, r->to, r->s->group.n) : e;
}

static const dt_sym_t *renamed_index(const rewrite_t *r, uint32_t id, const dt_sym_t *index) {
  dt_program_t *program = r->s->program;
  bool carried = r->s->carried[id - 1];
  uint32_t rank = program->buffers.items[id - 1].rank;
  dt_sym_t made[DT_MAX_RANK + 1];
  if (carried)
    rank = slice_index(r->s, id - 1, r->front, index, made);
  dt_sym_t *copy = DT_ARENA_ARRAY(program->arena, dt_sym_t, rank + 1);
  for (uint32_t d = 0; copy && d < rank; d++)
    copy[d] = renamed(r, carried ? made[d] : index[d]);
  return copy;
}

static dt_status_t rewrite_stage(const rewrite_t *r, dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_t *inst = &stage->insts.items[i];
    inst->sym = renamed(r, inst->sym);
    inst->extent = renamed(r, inst->extent);
    if (inst->kind != DT_INST_LOAD)
      continue;
    inst->index = renamed_index(r, inst->buffer.id, inst->index);
    if (!inst->index)
      return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    dt_store_t *store = &stage->stores.items[i];
    store->index = renamed_index(r, store->buffer.id, store->index);
    if (!store->index)
      return DT_NO_MEMORY();
  }
  return NULL;
}

// One loop over the slice in front, in place of the tuple's.
static dt_status_t rewrite_kernel(rewrite_t *r, uint32_t k, dt_sym_t begin, dt_sym_t count) {
  dt_symenv_t *env = r->s->program->env;
  dt_kernel_t *kernel = &r->s->program->kernels.items[k];
  const member_t *member = &r->s->members[k];
  uint32_t n = r->s->group.n, left = 1;
  r->front = dt__sym_new_loop(env, count);
  dt_sym_t rest = dt__sym_add(env, begin, r->front);
  for (uint32_t q = n; q-- > 0;) {
    r->from[q] = member->vars[q];
    r->to[q] = q ? dt__sym_mod(env, rest, r->s->group.extents[q]) : rest;
    rest = q ? dt__sym_floordiv(env, rest, r->s->group.extents[q]) : rest;
  }
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    DT_TRY(rewrite_stage(r, &kernel->stages.items[s]));
  dt_sym_t vars[DT_MAX_LOOPS], extents[DT_MAX_LOOPS];
  vars[0] = r->front;
  extents[0] = count;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    bool gone = false;
    for (uint32_t q = 0; q < n; q++)
      gone |= member->vars[q].id == kernel->vars[v].id;
    if (gone)
      continue;
    vars[left] = kernel->vars[v];
    extents[left++] = kernel->extents[v];
  }
  memcpy(kernel->vars, vars, left * sizeof(*vars));
  memcpy(kernel->extents, extents, left * sizeof(*extents));
  kernel->n_loops = left;
  kernel->slices = r->s->program->slices.len + 1;
  return NULL;
}

// The order of the dims that are left, behind the one that is new.
static dt_status_t shrink_order(const slices_t *s, uint32_t b, const dt_buffer_layout_t **layout) {
  uint8_t order[DT_MAX_RANK + 1] = {0}, number[DT_MAX_RANK];
  uint32_t rank = s->program->buffers.items[b].rank, n = 1, at = 1;
  if (!*layout)
    return NULL;
  for (uint32_t d = 0; d < rank; d++)
    number[d] = (uint8_t)(is_dim_of_tuple(s, b, d) ? 0 : n++);
  for (uint32_t k = 0; k < rank; k++)
    if (number[(*layout)->order[k]])
      order[at++] = number[(*layout)->order[k]];
  return dt__layout_of_order(s->program->arena, order, n, layout);
}

static dt_status_t shrink_buffer(slices_t *s, uint32_t b, dt_sym_t step) {
  dt_symenv_t *env = s->program->env;
  dt_buffer_t *buffer = &s->program->buffers.items[b];
  dt_sym_t sizes[DT_MAX_RANK + 1];
  DT_TRY(shrink_order(s, b, &buffer->layout));
  uint32_t rank = slice_index(s, b, step, buffer->sizes, sizes);
  buffer->rank = rank;
  memcpy(buffer->sizes, sizes, rank * sizeof(*sizes));
  dt__buffer_set_strides(env, buffer);
  return NULL;
}

// Iterations of a slice: as many as the budget holds, at least one, no more than there are; all of
// them where they hold nothing.
static dt_sym_t slice_step(slices_t *s, dt_sym_t extent, dt_sym_t bytes) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t one = dt__sym_const(env, 1), none = dt__sym_eq(env, bytes, dt__sym_const(env, 0));
  dt_sym_t fit = dt__sym_floordiv(env, dt__sym_const(env, s->budget), dt__sym_max(env, bytes, one));
  dt_sym_t step = dt__sym_select(env, none, extent, dt__sym_min(env, fit, extent));
  return dt__sym_max(env, step, one);
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

// The group's kernels stand side by side from kernel `first` on.
static dt_status_t cut(slices_t *s, uint32_t first) {
  dt_program_t *program = s->program;
  dt_symenv_t *env = program->env;
  group_t *group = &s->group;
  qsort(group->buffers.items, group->buffers.len, sizeof(*group->buffers.items), compare_numbers);
  dt_program_slices_t slices = {.extent = dt__sym_const(env, 1)};
  for (uint32_t q = 0; q < group->n; q++)
    slices.extent = dt__sym_mul(env, slices.extent, group->extents[q]);
  slices.step = slice_step(s, slices.extent, bytes_of_one(s));
  dt_range_t any = {0, DT_SIZE_LIMIT - 1}, some = {1, DT_SIZE_LIMIT - 1};
  dt_sym_t begin = dt__sym_new(env, DT_SYMBOL_SLICE, any, NULL, "slice begin");
  dt_sym_t count = dt__sym_new(env, DT_SYMBOL_SLICE, some, NULL, "slice count");
  DT_TRY(dt__symenv_status(env));
  (void)dt__sym_is_symbol(env, begin, &slices.begin);
  (void)dt__sym_is_symbol(env, count, &slices.count);
  rewrite_t r = {.s = s};
  for (uint32_t i = 0, k = first; i < group->kernels.len; i++, k = s->flow.kernels[k].next)
    DT_TRY(rewrite_kernel(&r, k, begin, count));
  for (uint32_t i = 0; i < group->buffers.len; i++)
    DT_TRY(shrink_buffer(s, group->buffers.items[i], slices.step));
  return DT_VEC_PUSH(program->arena, &program->slices, slices) ? NULL : DT_NO_MEMORY();
}

// ---- The pass -------------------------------------------------------------------------------------

static void remember_failure(slices_t *s) {
  for (uint32_t i = 0; i < s->group.buffers.len; i++) {
    uint32_t b = s->group.buffers.items[i], mask = 0;
    for (uint32_t q = 0; q < s->group.n; q++)
      mask |= 1U << s->dims[b][q];
    s->failed[b] = mask;
  }
}

static void clear_group(slices_t *s) {
  for (uint32_t i = 0; i < s->group.kernels.len; i++)
    s->members[s->group.kernels.items[i]].in = false;
  for (uint32_t i = 0; i < s->group.buffers.len; i++)
    s->carried[s->group.buffers.items[i]] = false;
  s->group.kernels.len = s->group.buffers.len = s->heap.len = 0;
}

static dt_status_t group_from(slices_t *s, uint32_t id, bool *out_cut) {
  bool begun = false;
  uint32_t first = DT_FLOW_NONE;
  DT_TRY(seed(s, id, &begun));
  if (!begun)
    return NULL;
  DT_TRY(grow(s));
  if (is_closed(s))
    DT_TRY(dt__flow_gather(&s->flow, s->segments, s->group.kernels.items, s->group.kernels.len,
                           &first));
  if (first == DT_FLOW_NONE)
    remember_failure(s);
  else
    DT_TRY(cut(s, first));
  *out_cut = *out_cut || first != DT_FLOW_NONE;
  clear_group(s);
  return NULL;
}

static dt_status_t start(slices_t *s) {
  dt_program_t *program = s->program;
  dt_arena_t *arena = program->arena;
  uint32_t n = program->kernels.len, m = program->buffers.len;
  DT_TRY(dt__flow_init(program, &s->flow));
  DT_TRY(dt__find_segments(program, &s->segments, NULL));
  s->members = DT_ARENA_ARRAY(arena, member_t, n + 1);
  s->carried = DT_ARENA_ARRAY(arena, bool, m + 1);
  s->dims = dt__arena_alloc(arena, (size_t)(m + 1) * sizeof(*s->dims));
  s->failed = DT_ARENA_ARRAY(arena, uint32_t, m + 1);
  return s->members && s->carried && s->dims && s->failed ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__fuse_slices(dt_program_t *program, const dt_target_t *target) {
  int64_t threads = dt__target_threads(target);
  slices_t s = {.program = program, .budget = target->l2_bytes * threads};
  bool again = true;
  DT_TRY(start(&s));
  for (uint32_t round = 0; again && round < MOST_ROUNDS; round++) {
    again = false;
    memset(s.failed, 0, s.flow.n_buffers * sizeof(*s.failed));
    for (uint32_t b = 0; b < s.flow.n_buffers; b++) {
      const dt_flow_buffer_t *buffer = &s.flow.buffers[b];
      if (buffer->n_writers &&
          !program->kernels.items[buffer->writers[buffer->n_writers - 1]].slices)
        DT_TRY(group_from(&s, b + 1, &again));
    }
  }
  DT_TRY(dt__flow_settle(&s.flow));
  DT_TRY(dt__program_settle_slices(program));
  return dt__symenv_status(program->env);
}
