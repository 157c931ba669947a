// SPDX-License-Identifier: Apache-2.0
// Schedules of chains. A team makes the rows of its tile once and uses them for all the columns
// that it takes. The choice is how many rows a tile has. With few tiles in all, tiles have few
// rows: then all processors work, and none works long. With many tiles they have many rows: then
// less is read and computed again. Tiles are as wide as the head's columns if these are few, as in
// attention.
#include "fuse/attention.h"
#include "fuse/body.h"
#include "fuse/operands.h"
#include "fuse/teams.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#define MAX_VECTORS 8  // of a row that a thread keeps in registers,
#define MAX_VALUES 48  // and their elements
#define OPEN_VALUES 16 // of these of a row of unknown length, for which teams may grow, too
#define HALF 2         // bytes
#define LARGEST 0xffffU
#define USUAL 128 // scores of a row: the most that tiles of many rows have in registers
#define MOST_BYTES (110 << 10) // of shared memory, of which there is room for two

typedef struct tile_t {
  uint32_t most_cols; // of the product
  uint32_t tile_rows, tile_cols;
  uint32_t depth;      // bytes
  uint32_t rows, cols; // of a group
  uint32_t ring;
} tile_t;

// In the order of rows and columns; of groups that multiply together, where there are any, the
// rest.
typedef enum tile_kind_t {
  TILE_LEAST,
  TILE_FEW,
  TILE_SOME,
  TILE_MANY,
  TILE_MOST, // of scores' chains alone
  TILE_KEYS, // of attention's alone, whose scores are made a block of keys at a time
  TILE_KINDS,
  TILE_GROUPS = TILE_KINDS,
  TILE_SHARES // of attention's alone: few rows, whose keys are shared out
} tile_kind_t;
#define WIDTHS 3

// All tiles below were measured once on one H200, an entry's launches replayed in a graph
// (docs/performance.md, "MiniLM on a GPU"); `scripts/test-gpu run bench-models` shows their effect.

// Of halves, the head's: narrowest product first.
static const tile_t heads[TILE_KINDS][WIDTHS] = {
    {{LARGEST, 16, 32, 256, 16, 16, 4}},
    {{32, 0, 0, 0, 0, 0, 0}, {LARGEST, 16, 64, 256, 16, 16, 3}},
    {{32, 32, 32, 128, 16, 16, 4}, {LARGEST, 32, 64, 128, 16, 32, 4}},
    {{32, 64, 32, 128, 16, 16, 4},
     {64, 64, 64, 128, 32, 16, 4},
     {LARGEST, 64, 128, 128, 32, 32, 3}},
    {{32, 128, 32, 128, 32, 16, 4}, {LARGEST, 0, 0, 0, 0, 0, 0}},
    {{LARGEST, 128, 128, 128, 64, 32, 2}},
};
// Attention by blocks of keys where groups of warps multiply together.
static const tile_t keys_by_groups = {LARGEST, 128, 128, 128, 16, 128, 2};
// Products that make rows for another.
static const tile_t makers[TILE_KINDS] = {
    {LARGEST, 16, 128, 128, 16, 16, 3}, {LARGEST, 16, 128, 128, 16, 16, 3},
    {LARGEST, 32, 128, 128, 16, 32, 3}, {LARGEST, 64, 128, 128, 32, 32, 3},
    {LARGEST, 128, 64, 64, 32, 32, 2},  {LARGEST, 128, 64, 64, 32, 32, 2},
};
// Of wider elements (4, 8), heads and makers.
static const tile_t wider[2][TILE_KINDS] = {
    {{LARGEST, 16, 64, 256, 16, 32, 4},
     {0, 0, 0, 0, 0, 0, 0},
     {0, 0, 0, 0, 0, 0, 0},
     {LARGEST, 64, 64, 128, 32, 32, 4}},
    {{LARGEST, 16, 64, 256, 16, 32, 4}, {0}, {0}, {LARGEST, 32, 32, 128, 16, 32, 4}},
};

// For groups that multiply together, behind rows: the longest ring that there is room for. Time, in
// tenths of a microsecond on an H200, is `begin` for an item's rows, and `each` for a tile of its
// columns.
typedef struct group_tile_t {
  uint32_t rows, cols, width, ring;
  int64_t begin, each;
} group_tile_t;
static const group_tile_t group_tiles[] = {
    {64, 128, 64, 8, 43, 30}, {64, 192, 96, 5, 42, 40}, {128, 192, 192, 4, 58, 62}};
#define GROUP_TILES (sizeof(group_tiles) / sizeof(group_tiles[0]))
// Attention of few rows: in clusters where there are keys for some of their blocks, and tiles for
// less than most processors, else a block alone. Clusters are of one size, as the driver may not
// change that of a graph's node. Rings are as long as leaves room for two blocks on a processor, if
// that is long enough, else for one.
#define SHARE_CLUSTER 8
#define SHARE_KEYS 512
#define SHARE_RING 3
#define SHARE_SCHEDULES 2
static const tile_t share_tile = {LARGEST, DT_ATTENTION_FEW, DT_ATTENTION_MOST, 128, 16,
                                  16,      SHARE_RING};
#define MOST_SCHEDULES (TILE_KINDS + GROUP_TILES + SHARE_SCHEDULES)
#define GROUP_DEPTH 128        // bytes
#define LEAST_RING 3           // tiles
#define OTHER_SHARED (4 << 10) // bytes that a block may have besides
#define PANEL 64               // columns
#define SHORT 256 // scores of a row, up to which other tiles keep all of them in registers

// What lies in shared memory: halves where both factors are, else what is summed.
static size_t factor_bytes(const dt_contraction_t *c) {
  dt_dtype_t a = c->stage->insts.items[c->a].dtype, b = c->stage->insts.items[c->b].dtype;
  return a == b && dt__dtype_is_half(a) ? HALF : dt_dtype_size(c->stage->reductions.items[0].dtype);
}

static dt_status_t roles_of(dt_program_t *program, dt_kernel_t *kernel, dt_contraction_t *out) {
  return dt__contraction_roles(program, kernel, out, NULL)
             ? NULL
             : DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
}

static const tile_t *tile_of(dt_program_t *program, const dt_contraction_t *c, tile_kind_t kind,
                             bool head) {
  size_t bytes = factor_bytes(c);
  if (bytes != HALF)
    return &wider[bytes == 4 ? 0 : 1][kind];
  if (!head)
    return &makers[kind];
  int64_t cols = LARGEST;
  const tile_t *tile = heads[kind];
  if (!dt__sym_is_const(program->env, c->extent_n, &cols))
    cols = LARGEST;
  while (tile->most_cols != LARGEST && cols > (int64_t)tile->most_cols)
    tile++;
  return tile;
}

static bool is_by_keys(const tile_t *tile) {
  return tile == &heads[TILE_KEYS][0] || tile == &makers[TILE_KEYS] || tile == &keys_by_groups;
}

static dt_schedule_t schedule_of(const dt_contraction_t *c, const tile_t *tile,
                                 const dt_schedule_t *first) {
  dt_schedule_t out = *first;
  out.predicate = DT_SYM_NONE_ID;
  out.team_matmul = (dt_team_matmul_t){.a = c->a,
                                       .b = c->b,
                                       .tile_rows = tile->tile_rows,
                                       .tile_cols = tile->tile_cols,
                                       .groups = first->team_matmul.groups,
                                       .group_rows = tile->rows,
                                       .group_cols = tile->cols,
                                       .depth = tile->depth / (uint32_t)factor_bytes(c),
                                       .ring = tile->ring,
                                       .keys = is_by_keys(tile) ? DT_ATTENTION_KEYS : 0};
  return out;
}

// ---- Heads ----------------------------------------------------------------------------------------

static dt_sym_t items_of(dt_program_t *program, const dt_kernel_t *kernel,
                         const dt_matmul_common_t *tile) {
  dt_symenv_t *env = program->env;
  uint32_t n = kernel->n_loops;
  dt_sym_t rows = dt__sym_const(env, tile->tile_rows), cols = dt__sym_const(env, tile->tile_cols);
  dt_sym_t count = dt__sym_mul(env, dt__sym_ceildiv(env, kernel->extents[n - 2], rows),
                               dt__sym_ceildiv(env, kernel->extents[n - 1], cols));
  for (uint32_t v = 0; v + 2 < n; v++)
    count = dt__sym_mul(env, count, kernel->extents[v]);
  return count;
}

// Every processor has two items at least, and their rows stay in registers.
static dt_sym_t most_condition(dt_symenv_t *env, dt_sym_t items, dt_sym_t rows,
                               const dt_matmul_common_t *tile, dt_sym_t length,
                               int64_t processors) {
  dt_sym_t enough = dt__sym_le(env, dt__sym_const(env, 2 * processors), items);
  enough = dt__sym_and(env, enough, dt__sym_le(env, length, dt__sym_const(env, USUAL)));
  return dt__sym_and(env, enough, dt__sym_lt(env, dt__sym_const(env, tile->tile_rows / 2), rows));
}

// Rows fill more than half of a tile, and are longer than others keep in registers; or they are
// longer than one block of keys, and most processors have a tile.
static dt_sym_t keys_condition(dt_symenv_t *env, dt_sym_t items, dt_sym_t rows,
                               const dt_matmul_common_t *tile, dt_sym_t length,
                               int64_t processors) {
  dt_sym_t enough = dt__sym_le(env, dt__sym_const(env, processors * 3 / 4), items);
  enough = dt__sym_and(env, enough, dt__sym_lt(env, dt__sym_const(env, DT_ATTENTION_KEYS), length));
  dt_sym_t longer = dt__sym_lt(env, dt__sym_const(env, SHORT), length);
  return dt__sym_and(env, dt__sym_or(env, enough, longer),
                     dt__sym_lt(env, dt__sym_const(env, tile->tile_rows / 2), rows));
}

// The condition under which tiles of this kind are taken. It is asked only where none of those
// offered before holds. `items` is the number of tiles, over the batch too; `all` is the number of
// processors:
//
//   factors  kind   condition
//   halves   LEAST  rows <= tile_rows or items <= all
//            KEYS   tile_rows / 2 < rows, and SHORT < length, or a block of keys < length and
//                   3/4 all <= items
//            FEW    items <= all
//            MOST   2 all <= items, length <= USUAL, tile_rows / 2 < rows
//            MANY   3/4 all <= items, tile_rows / 2 < rows;
//                   length <= USUAL, where there are scores;
//                   items <= all or 2 all <= items, unless one tile is known to have all columns:
//                   every tile of columns has the rows made again, so no processor should have two
//                   while others have one
//            SOME   always
//   others   LEAST  rows <= tile_rows
//            MANY   always; no other kind ever
static dt_sym_t condition_of(dt_program_t *program, const dt_kernel_t *kernel,
                             const dt_matmul_common_t *tile, tile_kind_t kind, bool halves,
                             dt_sym_t length, const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  int64_t processors = dt__target_threads(target), cols = 0;
  dt_sym_t rows = kernel->extents[kernel->n_loops - 2];
  dt_sym_t few = dt__sym_le(env, rows, dt__sym_const(env, tile->tile_rows));
  if (!halves)
    return kind == TILE_LEAST ? few : dt__sym_const(env, kind == TILE_MANY);
  dt_sym_t items = items_of(program, kernel, tile), all = dt__sym_const(env, processors);
  dt_sym_t fits = dt__sym_le(env, items, all);
  if (kind == TILE_KEYS)
    return keys_condition(env, items, rows, tile, length, processors);
  if (kind == TILE_LEAST)
    return dt__sym_or(env, few, fits);
  if (kind == TILE_FEW)
    return fits;
  if (kind == TILE_SOME)
    return dt__sym_const(env, 1);
  if (kind == TILE_MOST)
    return most_condition(env, items, rows, tile, length, processors);
  dt_sym_t enough = dt__sym_le(env, dt__sym_const(env, processors * 3 / 4), items);
  if (!dt__sym_is_const(env, kernel->extents[kernel->n_loops - 1], &cols) ||
      cols > (int64_t)tile->tile_cols)
    enough = dt__sym_and(
        env, enough,
        dt__sym_or(env, fits, dt__sym_le(env, dt__sym_const(env, 2 * processors), items)));
  if (length.id) // fewer rows leave room for longer ones in registers
    enough = dt__sym_and(env, enough, dt__sym_le(env, length, dt__sym_const(env, USUAL)));
  return dt__sym_and(env, enough, dt__sym_lt(env, dt__sym_const(env, tile->tile_rows / 2), rows));
}

// The scores of a row, of the product that makes them; none: the chain has no such.
static dt_sym_t length_of(const dt_program_t *program, dt_kernel_chain_t chain) {
  const dt_kernel_t *first = &program->kernels.items[chain.first];
  bool scores = chain.end - chain.first > 2 && first->schedules.len &&
                dt__schedule_is_product(&first->schedules.items[0]);
  return scores ? first->extents[first->n_loops - 1] : DT_SYM_NONE_ID;
}

typedef struct offers_t {
  dt_program_t *program;
  dt_kernel_t *head;
  const dt_target_t *target;
  const dt_contraction_t *c;
  dt_schedule_t first;
  dt_sym_t length; // of scores; none: there are no such
  bool attention;
  dt_attention_t found; // where it is one
  tile_kind_t *kinds;
  bool done; // one is offered that is always right
} offers_t;

static dt_status_t offer(offers_t *o, const tile_t *tile, tile_kind_t kind, dt_sym_t condition) {
  uint32_t at = o->head->schedules.len;
  dt_schedule_t own = schedule_of(o->c, tile, &o->first);
  DT_TRY(dt__schedule_offer(o->program, o->head, own, condition, &o->done));
  if (o->head->schedules.len > at)
    o->kinds[at] = kind;
  return NULL;
}

// The tile, its ring as long as the slab of A's rows leaves room; false: it is not for this head.
static bool group_tile(const offers_t *o, const group_tile_t *from, tile_t *out) {
  const dt_stage_t *stage = o->c->stage;
  const dt_inst_t *b = &stage->insts.items[o->c->b];
  uint32_t rank = dt__program_buffer(o->program, b->buffer)->rank;
  int64_t deep = 0;
  if (!dt__sym_is_const(o->program->env, o->c->extent_k, &deep))
    return false;
  if (from->width % PANEL && (!rank || b->index[rank - 1].id != stage->vars[0].id))
    return false;
  int64_t unit = o->target->slab_unit;
  int64_t row = (deep * HALF + unit - 1) / unit * unit + o->target->slab_pad;
  int64_t left = o->target->l1_bytes - OTHER_SHARED - row * from->rows;
  int64_t ring = left / ((int64_t)from->cols * GROUP_DEPTH);
  if (ring < LEAST_RING)
    return false;
  *out = (tile_t){LARGEST,
                  from->rows,
                  from->cols,
                  GROUP_DEPTH,
                  16,
                  from->width,
                  from->ring < ring ? from->ring : (uint32_t)ring};
  return true;
}

// The time of a launch: its items in rounds, each of which makes its rows and then its tiles of
// columns.
static dt_sym_t time_of(const offers_t *o, const group_tile_t *tile) {
  dt_symenv_t *env = o->program->env;
  const dt_kernel_t *head = o->head;
  uint32_t n = head->n_loops;
  int64_t processors = dt__target_threads(o->target);
  dt_sym_t rows = dt__sym_ceildiv(env, head->extents[n - 2], dt__sym_const(env, tile->rows));
  dt_sym_t cols = dt__sym_ceildiv(env, head->extents[n - 1], dt__sym_const(env, tile->cols));
  for (uint32_t v = 0; v + 2 < n; v++)
    rows = dt__sym_mul(env, rows, head->extents[v]);
  dt_sym_t groups = dt__chain_groups(env, processors, rows, cols);
  dt_sym_t rounds =
      dt__sym_ceildiv(env, dt__sym_mul(env, rows, groups), dt__sym_const(env, processors));
  dt_sym_t each =
      dt__sym_mul(env, dt__sym_ceildiv(env, cols, groups), dt__sym_const(env, tile->each));
  return dt__sym_mul(env, rounds, dt__sym_add(env, each, dt__sym_const(env, tile->begin)));
}

// Of tiles for groups that multiply together the one that takes the least time; none: there is no
// room for any.
static dt_status_t offer_groups(offers_t *o) {
  dt_symenv_t *env = o->program->env;
  tile_t tiles[GROUP_TILES];
  dt_sym_t times[GROUP_TILES];
  uint32_t n = 0;
  for (uint32_t i = 0; i < GROUP_TILES; i++)
    if (group_tile(o, &group_tiles[i], &tiles[n]))
      times[n++] = time_of(o, &group_tiles[i]);
  for (uint32_t i = 0; i < n; i++) {
    dt_sym_t best = dt__sym_const(env, 1);
    for (uint32_t other = i + 1; other < n; other++)
      best = dt__sym_and(env, best, dt__sym_le(env, times[i], times[other]));
    DT_TRY(offer(o, &tiles[i], TILE_GROUPS, best));
  }
  return NULL;
}

// Attention of few rows.
static uint32_t share_ring(const offers_t *o) {
  int64_t all = dt__attention_room(o->target);
  uint32_t ring = dt__attention_ring(o->found.depth, o->found.cols, all / 2);
  return ring < SHARE_RING ? dt__attention_ring(o->found.depth, o->found.cols, all) : ring;
}

static void share_keys(dt_team_matmul_t *tile, uint32_t ring, uint32_t cluster) {
  tile->ring = ring;
  tile->cluster = cluster;
  tile->keys = DT_MATMUL_SHARE_KEYS;
}

// Of more than one row: they are few, and of more keys than others keep scores of in registers.
static dt_sym_t share_condition(const offers_t *o, const dt_schedule_t *own) {
  dt_symenv_t *env = o->program->env;
  dt_sym_t rows = o->head->extents[o->head->n_loops - 2], all = dt__sym_const(env, 1);
  dt_sym_t items = items_of(o->program, o->head, &own->product);
  if (own->team_matmul.cluster) {
    dt_sym_t most = dt__sym_const(env, (int64_t)dt__target_threads(o->target) * 3 / 4);
    dt_sym_t least = dt__sym_const(env, SHARE_KEYS);
    all = dt__sym_and(env, dt__sym_lt(env, items, most), dt__sym_le(env, least, o->length));
  }
  if (rows.id == dt__sym_const(env, 1).id)
    return all;
  dt_sym_t few = dt__sym_le(env, rows, dt__sym_const(env, DT_ATTENTION_FEW));
  dt_sym_t many = dt__sym_lt(env, dt__sym_const(env, SHORT), o->length);
  return dt__sym_and(env, all, dt__sym_and(env, few, many));
}

// Where rows are as many as keys they are never few while these are many.
static dt_status_t offer_shares(offers_t *o) {
  dt_sym_t rows = o->head->extents[o->head->n_loops - 2];
  int64_t n = 0;
  bool known = dt__sym_is_const(o->program->env, rows, &n);
  uint32_t ring = o->attention ? share_ring(o) : 0;
  if (!ring || rows.id == o->length.id || (known && n > DT_ATTENTION_FEW))
    return NULL;
  for (uint32_t alone = !o->target->matrix_groups; alone < SHARE_SCHEDULES && !o->done; alone++) {
    uint32_t at = o->head->schedules.len;
    dt_schedule_t own = schedule_of(o->c, &share_tile, &o->first);
    share_keys(&own.team_matmul, ring, alone ? 0 : SHARE_CLUSTER);
    DT_TRY(dt__schedule_offer(o->program, o->head, own, share_condition(o, &own), &o->done));
    if (o->head->schedules.len > at)
      o->kinds[at] = TILE_SHARES;
  }
  return NULL;
}

// Whether what is in front of the head are rows, and nothing else.
static bool follows_rows(dt_program_t *program, dt_kernel_chain_t chain) {
  const dt_kernel_t *maker = &program->kernels.items[chain.first];
  return chain.end - chain.first == 2 && !dt__schedule_is_product(&maker->schedules.items[0]) &&
         !dt__kernel_has_locals(program, maker);
}

static bool has_room(const offers_t *o) {
  const dt_attention_t *a = &o->found;
  return dt__attention_bytes(a->depth, a->cols, o->target->matrix_groups) + OTHER_SHARED <=
         o->target->l1_bytes;
}

static dt_status_t offer_kind(offers_t *o, tile_kind_t kind, bool by_groups) {
  const tile_t *tile = tile_of(o->program, o->c, kind, true);
  bool most = kind == TILE_MOST;
  if (kind == TILE_KEYS && (!o->attention || !has_room(o)))
    return NULL;
  if (kind == TILE_KEYS && o->target->matrix_groups)
    tile = &keys_by_groups;
  if (!tile->ring || (most && (!o->length.id || o->target->l1_bytes / 2 < MOST_BYTES)))
    return NULL;
  dt_schedule_t own = schedule_of(o->c, tile, &o->first);
  bool halves = factor_bytes(o->c) == HALF;
  dt_sym_t condition =
      condition_of(o->program, o->head, &own.product, kind, halves, o->length, o->target);
  if (by_groups && kind == TILE_SOME) // before the groups
    condition = dt__sym_le(o->program->env, items_of(o->program, o->head, &own.product),
                           dt__sym_const(o->program->env, dt__target_threads(o->target)));
  return offer(o, tile, kind, condition);
}

static dt_status_t head_schedules(dt_program_t *program, dt_kernel_chain_t chain,
                                  const dt_target_t *target, tile_kind_t *out_kinds) {
  static const tile_kind_t order[] = {TILE_KEYS, TILE_LEAST, TILE_FEW,
                                      TILE_MOST, TILE_MANY,  TILE_SOME};
  dt_kernel_t *head = &program->kernels.items[chain.end - 1];
  dt_contraction_t c;
  DT_TRY(roles_of(program, head, &c));
  offers_t o = {.program = program,
                .head = head,
                .target = target,
                .c = &c,
                .first = head->schedules.items[0],
                .length = length_of(program, chain),
                .kinds = out_kinds};
  o.attention = !target->strict_fp && dt__chain_attention(program, chain, &o.found);
  bool by_groups =
      target->matrix_groups && factor_bytes(&c) == HALF && follows_rows(program, chain);
  tile_t tile;
  by_groups = by_groups && group_tile(&o, &group_tiles[0], &tile);
  head->schedules.len = 0;
  DT_TRY(offer_shares(&o));
  for (uint32_t i = 0; i < TILE_KINDS && !o.done; i++)
    if (!by_groups || order[i] != TILE_MANY)
      DT_TRY(offer_kind(&o, order[i], by_groups));
  if (by_groups)
    DT_TRY(offer_groups(&o));
  return dt__symenv_status(program->env);
}

// ---- Makers ---------------------------------------------------------------------------------------

// Everything that is read along the row, and everything that is written, is halves; the kernel's
// own copies (LOCAL) do not count.
static bool walks_halves(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len && stage->n_loops; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (inst->kind != DT_INST_LOAD)
        continue;
      const dt_buffer_t *from = dt__program_buffer(program, inst->buffer);
      if (from->kind != DT_BUFFER_LOCAL && dt_dtype_size(from->dtype) != HALF && from->rank &&
          dt__expr_uses_any(program, inst->index[from->rank - 1], stage->vars, stage->n_loops))
        return false;
    }
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      const dt_buffer_t *to = dt__program_buffer(program, stage->stores.items[i].buffer);
      if (to->kind != DT_BUFFER_LOCAL && dt_dtype_size(to->dtype) != HALF)
        return false;
    }
  }
  return true;
}

// As many threads a row as let the team's rows be made side by side, more where they are long.
static void row_schedule(dt_program_t *program, dt_kernel_t *maker, uint32_t tile_rows,
                         const dt_target_t *target, dt_schedule_t *out) {
  dt_sym_t extent = dt__row_extent(program, maker);
  int64_t length = 0;
  uint32_t group = dt__target_warp(target);
  if (walks_halves(program, maker))
    out->lanes = target->vector_bytes / HALF;
  out->team = tile_rows <= 16 ? 16 : 8;
  out->inner.resident = false;
  if (extent.id && !dt__sym_is_const(program->env, extent, &length)) {
    uint32_t vectors = OPEN_VALUES / out->lanes;
    out->unroll = vectors < 1 ? 1 : vectors > MAX_VECTORS ? MAX_VECTORS : vectors;
    out->inner.resident = true;
    return;
  }
  for (; extent.id && length >= 1 && out->team <= group; out->team *= 2) {
    int64_t wide = (int64_t)out->team * out->lanes, vectors = (length + wide - 1) / wide;
    if (vectors > MAX_VECTORS || vectors * (int64_t)out->lanes > MAX_VALUES)
      continue;
    out->unroll = (uint32_t)vectors;
    out->inner.resident = true;
    return;
  }
  out->team = group;
}

// The maker's schedule where the head has `head`.
static dt_status_t maker_schedule(dt_program_t *program, dt_kernel_t *maker,
                                  const dt_schedule_t *head, tile_kind_t kind,
                                  const dt_target_t *target, dt_schedule_t *out) {
  *out = maker->schedules.items[0];
  if (dt__schedule_is_product(out)) {
    dt_contraction_t c;
    bool shares = kind == TILE_SHARES;
    DT_TRY(roles_of(program, maker, &c));
    const tile_t *tile = shares ? &share_tile : tile_of(program, &c, kind, false);
    *out = schedule_of(&c, tile, &maker->schedules.items[0]);
    int64_t deep = 0;
    bool known = !shares && dt__sym_is_const(program->env, c.extent_k, &deep);
    if (shares)
      share_keys(&out->team_matmul, head->team_matmul.ring, head->team_matmul.cluster);
    else if (known && factor_bytes(&c) == HALF && deep <= (int64_t)out->team_matmul.depth / 2) {
      out->team_matmul.depth /= 2;
    } else if (kind == TILE_MANY && factor_bytes(&c) == HALF) { // registers for longer rows of A
      out->team_matmul.tile_cols /= 2;
      out->team_matmul.group_cols /= 2;
    }
    if (known && factor_bytes(&c) != HALF && deep <= (int64_t)out->team_matmul.depth)
      out->team_matmul.ring = 2; // one tile is all there is
  } else {
    row_schedule(program, maker, head->product.tile_rows, target, out);
  }
  out->predicate = head->predicate;
  return NULL;
}

dt_status_t dt__chain_teams(dt_program_t *program, dt_kernel_chain_t chain,
                            const dt_target_t *target) {
  dt_kernel_t *head = &program->kernels.items[chain.end - 1];
  tile_kind_t kinds[MOST_SCHEDULES];
  DT_TRY(head_schedules(program, chain, target, kinds));
  for (uint32_t k = chain.first; k + 1 < chain.end; k++) {
    dt_kernel_t *maker = &program->kernels.items[k];
    uint32_t n = head->schedules.len;
    dt_schedule_t *made = DT_ARENA_ARRAY(program->arena, dt_schedule_t, n + 1);
    if (!made)
      return DT_NO_MEMORY();
    for (uint32_t i = 0; i < n; i++)
      DT_TRY(maker_schedule(program, maker, &head->schedules.items[i], kinds[i], target, &made[i]));
    maker->schedules.items = made;
    maker->schedules.len = maker->schedules.cap = n;
  }
  return dt__symenv_status(program->env);
}
