// SPDX-License-Identifier: Apache-2.0
// Slices. Kernels that hand each other large temporaries, all of them over common outer loops (the
// batch and head loops around an attention's scores), run a slice of those loops at a time: scores,
// softmax and product of some heads, then of the next. What lies between them then takes a slice's
// room instead of the whole's, and stays in the cache. How many iterations a slice has is computed
// from the sizes of the call; where everything is small there is one.
//
// A temporary is carried by loops when its one writer and all its readers have each of them as an
// outer loop of their own that is exactly the index of one dim. Kernels of one group share a tuple
// of such loops, become neighbours, and get one loop in the tuple's place:
//
//   writer    outer b < B, h < H, m, n: store T[b, h, m, n]       outer f < count, m, n: store T[f,
//   m, n] reader    outer b < B, h < H, m:    load  T[b, h, m, k]   ->  outer f < count, m:    load
//   T[f, m, k]
//
// with b = (begin + f) // H and h = (begin + f) % H in all other indices.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/order.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_TUPLE 4

// The loops of one kernel that its group runs in slices, outermost first.
typedef struct member_t {
  bool in;
  dt_sym_t vars[MAX_TUPLE];
} member_t;

typedef struct group_t {
  uint32_t n; // loops of the tuple
  dt_sym_t extents[MAX_TUPLE];
  member_t *members; // by kernel
  bool *carried;     // by buffer - 1: private to the group
  uint32_t n_members;
} group_t;

typedef struct slices_t {
  dt_program_t *program;
  dt_access_t access;
  uint32_t *segments; // by kernel
  int64_t budget;     // bytes of a slice's temporaries
} slices_t;

// ---- Loops and dims -------------------------------------------------------------------------------

// How many of the kernel's last loops must stay as they are: they are tiled, or lanes run over
// them.
static uint32_t fixed_loops(const dt_kernel_t *kernel) {
  uint32_t fixed = 0;
  for (uint32_t s = 0; s < kernel->schedules.len; s++) {
    dt_schedule_kind_t kind = kernel->schedules.items[s].kind;
    uint32_t own = kind == DT_SCHEDULE_MATMUL ? 2 : kind == DT_SCHEDULE_OUTER_LANES ? 1 : 0;
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

// A temporary of one writer that only kernels use.
static bool may_be_carried(const slices_t *s, uint32_t id) {
  const dt_buffer_t *buffer = &s->program->buffers.items[id - 1];
  return buffer->kind == DT_BUFFER_TEMP && buffer->rank >= 2 && s->access.n_writers[id - 1] == 1 &&
         !dt__buffer_is_item(s->program, id);
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
static uint32_t dim_of(const slices_t *s, const group_t *group, uint32_t id, uint32_t k,
                       uint32_t q) {
  const dt_program_t *program = s->program;
  uint32_t rank = program->buffers.items[id - 1].rank;
  for (uint32_t d = 0; d < rank; d++) {
    bool touches = false;
    if (carrying_loop(&program->kernels.items[k], id, d, &touches).id ==
        group->members[k].vars[q].id)
      return d;
  }
  return rank;
}

// Brings all users of the buffer into the group, with the loops by which it is carried; `dims` are
// those of the group's tuple. False: they do not fit, and the group is as it was.
static bool join_users(slices_t *s, group_t *group, uint32_t id, const uint32_t *dims) {
  const dt_program_t *program = s->program;
  uint32_t n = program->kernels.len;
  member_t *fresh = DT_ARENA_ARRAY(program->arena, member_t, n + 1);
  if (!fresh)
    return false;
  uint32_t added = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool touches = false;
    for (uint32_t q = 0; q < group->n; q++) {
      dt_sym_t var = carrying_loop(kernel, id, dims[q], &touches);
      if (!touches)
        break;
      if (!var.id || !may_be_member(s, k) || loop_extent(kernel, var).id != group->extents[q].id ||
          (group->members[k].in && group->members[k].vars[q].id != var.id))
        return false;
      for (uint32_t before = 0; before < q; before++)
        if (fresh[k].vars[before].id == var.id)
          return false;
      fresh[k].vars[q] = var;
    }
    fresh[k].in = touches;
    added += touches && !group->members[k].in;
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (fresh[k].in)
      group->members[k] = fresh[k];
  group->carried[id - 1] = true;
  group->n_members += added;
  return true;
}

// Buffers that a member uses and the group's loops carry.
static void grow(slices_t *s, group_t *group) {
  const dt_program_t *program = s->program;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t id = 1; id <= program->buffers.len; id++) {
      if (group->carried[id - 1] || !may_be_carried(s, id))
        continue;
      for (uint32_t k = 0; k < program->kernels.len; k++) {
        uint32_t dims[MAX_TUPLE], q = 0, rank = program->buffers.items[id - 1].rank;
        if (!group->members[k].in)
          continue;
        while (q < group->n && (dims[q] = dim_of(s, group, id, k, q)) < rank)
          q++;
        if (q == group->n && q < rank && join_users(s, group, id, dims)) {
          more = true;
          break;
        }
      }
    }
  }
}

static bool seed(slices_t *s, group_t *group, uint32_t id) {
  const dt_program_t *program = s->program;
  const dt_buffer_t *buffer = &program->buffers.items[id - 1];
  uint32_t dims[MAX_TUPLE], open = 0;
  if (!may_be_carried(s, id))
    return false;
  group->n = 0;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    bool all = group->n < MAX_TUPLE, touches = false;
    dt_sym_t extent = DT_SYM_NONE_ID;
    for (uint32_t k = 0; k < program->kernels.len && all; k++) {
      dt_sym_t var = carrying_loop(&program->kernels.items[k], id, d, &touches);
      if (!touches)
        continue;
      dt_sym_t own = var.id ? loop_extent(&program->kernels.items[k], var) : DT_SYM_NONE_ID;
      all = own.id && (!extent.id || extent.id == own.id);
      extent = own;
    }
    if (all && extent.id) {
      dims[group->n] = d;
      group->extents[group->n++] = extent;
    } else if (!dt__sym_is_const(program->env, buffer->sizes[d], NULL)) {
      open++;
    }
  }
  // Worth it where what one iteration holds grows with the square of a size.
  return group->n > 0 && open >= 2 && join_users(s, group, id, dims);
}

// ---- Order ----------------------------------------------------------------------------------------

// Inside of a slice everything that one member makes and another reads must be of the slice.
static bool is_closed(const slices_t *s, const group_t *group) {
  const dt_program_t *program = s->program;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    if (!group->members[k].in)
      continue;
    for (uint32_t g = 0; g < kernel->stages.len; g++)
      for (uint32_t i = 0; i < kernel->stages.items[g].insts.len; i++) {
        uint32_t id = dt__inst_reads(&kernel->stages.items[g].insts.items[i]).id;
        if (!id || group->carried[id - 1] || program->buffers.items[id - 1].kind == DT_BUFFER_LOCAL)
          continue;
        uint32_t writer = s->access.writer[id - 1];
        if (s->access.n_writers[id - 1] &&
            (group->members[writer].in || s->access.n_writers[id - 1] > 1))
          return false;
      }
  }
  return true;
}

// Members side by side. *out_first: the first of them, or UINT32_MAX where that cannot be.
static dt_status_t gather(slices_t *s, group_t *group, uint32_t *out_first) {
  dt_program_t *program = s->program;
  uint32_t n = program->kernels.len;
  bool *in = DT_ARENA_ARRAY(program->arena, bool, n + 1);
  uint32_t *order = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  member_t *members = DT_ARENA_ARRAY(program->arena, member_t, n + 1);
  if (!in || !order || !members)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    in[k] = group->members[k].in;
  DT_TRY(dt__gather_kernels(program, &s->access, s->segments, in, order, out_first));
  if (*out_first == UINT32_MAX)
    return NULL;
  for (uint32_t k = 0; k < n; k++)
    members[k] = group->members[order[k]];
  group->members = members;
  return NULL;
}

// ---- Rewriting ------------------------------------------------------------------------------------

// Sizes of carried buffers without the dims of the tuple, and the bytes that all of them take for
// one iteration.
static dt_sym_t bytes_of_one(const slices_t *s, const group_t *group, const uint32_t *const *dims) {
  dt_program_t *program = s->program;
  dt_symenv_t *env = program->env;
  dt_sym_t sum = dt__sym_const(env, 0);
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_buffer_t *buffer = &program->buffers.items[b];
    if (!group->carried[b])
      continue;
    dt_sym_t bytes = dt__sym_const(env, (int64_t)dt_dtype_size(buffer->dtype));
    for (uint32_t d = 0; d < buffer->rank; d++) {
      bool gone = false;
      for (uint32_t q = 0; q < group->n; q++)
        gone |= dims[b][q] == d;
      if (!gone)
        bytes = dt__sym_mul(env, bytes, buffer->sizes[d]);
    }
    sum = dt__sym_add(env, sum, bytes);
  }
  return sum;
}

static dt_status_t find_dims(const slices_t *s, const group_t *group, uint32_t first,
                             uint32_t ***out) {
  dt_program_t *program = s->program;
  *out = DT_ARENA_ARRAY(program->arena, uint32_t *, program->buffers.len + 1);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    if (!group->carried[b])
      continue;
    (*out)[b] = DT_ARENA_ARRAY(program->arena, uint32_t, MAX_TUPLE);
    if (!(*out)[b])
      return DT_NO_MEMORY();
    uint32_t user = first;
    for (bool touches = false; user < program->kernels.len; user++) {
      (void)carrying_loop(&program->kernels.items[user], b + 1, 0, &touches);
      if (touches)
        break;
    }
    for (uint32_t q = 0; q < group->n; q++)
      (*out)[b][q] = dim_of(s, group, b + 1, user, q);
  }
  return NULL;
}

// The index of a carried buffer's slice: the slice's loop, then the dims that are left.
static uint32_t slice_index(const uint32_t *gone, uint32_t n, uint32_t rank, dt_sym_t front,
                            const dt_sym_t *from, dt_sym_t *out) {
  uint32_t at = 0;
  out[at++] = front;
  for (uint32_t d = 0; d < rank; d++) {
    bool drop = false;
    for (uint32_t q = 0; q < n; q++)
      drop |= gone[q] == d;
    if (!drop)
      out[at++] = from[d];
  }
  return at;
}

typedef struct rewrite_t {
  slices_t *s;
  const group_t *group;
  uint32_t *const *dims;
  const uint32_t *ranks; // of carried buffers before
  dt_sym_t front;        // the kernel's new loop
  dt_sym_t from[MAX_TUPLE], to[MAX_TUPLE];
} rewrite_t;

static dt_sym_t renamed(const rewrite_t *r, dt_sym_t e) {
  return e.id ? dt__sym_subst(r->s->program->env, e, r->from, r->to, r->group->n) : e;
}

static const dt_sym_t *renamed_index(const rewrite_t *r, uint32_t id, const dt_sym_t *index) {
  dt_program_t *program = r->s->program;
  bool carried = r->group->carried[id - 1];
  uint32_t rank = carried ? r->ranks[id - 1] : program->buffers.items[id - 1].rank;
  dt_sym_t made[DT_MAX_RANK + 1];
  if (carried)
    rank = slice_index(r->dims[id - 1], r->group->n, rank, r->front, index, made);
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
  const member_t *member = &r->group->members[k];
  uint32_t n = r->group->n, left = 1;
  r->front = dt__sym_new_loop(env, count);
  dt_sym_t rest = dt__sym_add(env, begin, r->front);
  for (uint32_t q = n; q-- > 0;) {
    r->from[q] = member->vars[q];
    r->to[q] = q ? dt__sym_mod(env, rest, r->group->extents[q]) : rest;
    rest = q ? dt__sym_floordiv(env, rest, r->group->extents[q]) : rest;
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

static void shrink_buffer(slices_t *s, const group_t *group, uint32_t b, const uint32_t *gone,
                          dt_sym_t step) {
  dt_symenv_t *env = s->program->env;
  dt_buffer_t *buffer = &s->program->buffers.items[b];
  dt_sym_t sizes[DT_MAX_RANK + 1];
  uint32_t rank = slice_index(gone, group->n, buffer->rank, step, buffer->sizes, sizes);
  buffer->rank = rank;
  dt_sym_t stride = dt__sym_const(env, 1);
  for (uint32_t d = rank; d-- > 0;) {
    buffer->sizes[d] = sizes[d];
    buffer->strides[d] = stride;
    stride = dt__sym_mul(env, stride, sizes[d]);
  }
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

static dt_status_t cut(slices_t *s, const group_t *group, uint32_t first) {
  dt_program_t *program = s->program;
  dt_symenv_t *env = program->env;
  uint32_t **dims = NULL;
  DT_TRY(find_dims(s, group, first, &dims));
  dt_program_slices_t slices = {.first = first, .end = first + group->n_members};
  slices.extent = dt__sym_const(env, 1);
  for (uint32_t q = 0; q < group->n; q++)
    slices.extent = dt__sym_mul(env, slices.extent, group->extents[q]);
  dt_sym_t bytes = bytes_of_one(s, group, (const uint32_t *const *)dims);
  slices.step = slice_step(s, slices.extent, bytes);
  dt_range_t any = {0, DT_SIZE_LIMIT - 1}, some = {1, DT_SIZE_LIMIT - 1};
  dt_sym_t begin = dt__sym_new(env, DT_SYMBOL_SLICE, any, NULL, "slice begin");
  dt_sym_t count = dt__sym_new(env, DT_SYMBOL_SLICE, some, NULL, "slice count");
  DT_TRY(dt__symenv_status(env));
  (void)dt__sym_is_symbol(env, begin, &slices.begin);
  (void)dt__sym_is_symbol(env, count, &slices.count);
  uint32_t *ranks = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!ranks)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++)
    ranks[b] = program->buffers.items[b].rank;
  rewrite_t r = {.s = s, .group = group, .dims = dims, .ranks = ranks};
  for (uint32_t k = slices.first; k < slices.end; k++)
    DT_TRY(rewrite_kernel(&r, k, begin, count));
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (group->carried[b])
      shrink_buffer(s, group, b, dims[b], slices.step);
  return DT_VEC_PUSH(program->arena, &program->slices, slices) ? NULL : DT_NO_MEMORY();
}

// ---- The pass -------------------------------------------------------------------------------------

static dt_status_t group_from(slices_t *s, uint32_t id, bool *out_cut) {
  dt_program_t *program = s->program;
  group_t group = {.members = DT_ARENA_ARRAY(program->arena, member_t, program->kernels.len + 1),
                   .carried = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1)};
  *out_cut = false;
  if (!group.members || !group.carried)
    return DT_NO_MEMORY();
  if (!seed(s, &group, id))
    return NULL;
  grow(s, &group);
  if (!is_closed(s, &group))
    return NULL;
  uint32_t first = UINT32_MAX;
  DT_TRY(gather(s, &group, &first));
  *out_cut = first != UINT32_MAX;
  return *out_cut ? cut(s, &group, first) : NULL;
}

dt_status_t dt__fuse_slices(dt_program_t *program, const dt_target_t *target) {
  int64_t threads = dt__target_threads(target);
  slices_t s = {.program = program, .budget = target->l2_bytes * threads};
  bool again = true;
  while (again) {
    again = false;
    DT_TRY(dt__access_build(program, &s.access));
    DT_TRY(dt__find_segments(program, &s.segments, NULL));
    for (uint32_t id = 1; id <= program->buffers.len && !again; id++)
      if (s.access.writer[id - 1] != UINT32_MAX &&
          !program->kernels.items[s.access.writer[id - 1]].slices)
        DT_TRY(group_from(&s, id, &again));
  }
  DT_TRY(dt__program_settle_slices(program));
  return dt__symenv_status(program->env);
}
