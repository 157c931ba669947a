// SPDX-License-Identifier: Apache-2.0
// Chains: one launch for a product and the kernels that make its rows. A grid item is a tile of
// rows and every so many tiles of columns, `groups` apart:
//
//   for each maker:  its rows of the tile, into slabs
//                      a product: tiles of its columns, one after another
//                      rows: warp w takes rows w, w + 8, ...
//                    wait for all threads
//   for each tile of columns of this group:  the head's product, its left operand from a slab
//
// Slabs are scratch, in shared memory or, where that is too small, in global memory. Rows are so
// far apart that neighbouring ones are in different banks; zeros follow them up to a whole tile's
// depth, which products read. chain_rows.c makes code for rows, chain_product.c for products of
// halves. The matrix template takes all other products, and every product where slabs are in global
// memory or operands unaligned.
#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

#define ITEM DT_CHAIN_ITEM
#define PART DT_CHAIN_PART
#define ROUND DT_CHAIN_ROUND

static const dt_kernel_t *member(const dt_program_t *program, const dt_cuda_chain_t *chain,
                                 uint32_t k) {
  return &program->kernels.items[chain->kernels.first + k];
}

static uint32_t count_of(const dt_cuda_chain_t *chain) {
  return chain->kernels.end - chain->kernels.first;
}

// ---- Before any code ------------------------------------------------------------------------------
// The template's schedule for a product: tiles for groups of warps are chain_product.c's alone.
static dt_schedule_t template_schedule(const dt_schedule_t *schedule) {
  dt_schedule_t own = *schedule;
  dt_team_matmul_t *tile = &own.team_matmul;
  if (schedule->kind != DT_SCHEDULE_TEAM_MATMUL || !dt__matmul_for_groups(tile))
    return own;
  tile->tile_cols = 64;
  tile->group_rows = 32;
  tile->group_cols = tile->tile_rows == 64 ? 16 : 32;
  tile->ring = 3;
  return own;
}

static dt_status_t add_member(dt_program_t *program, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule, bool strict, dt_cuda_chain_t *out) {
  if (schedule->kind == DT_SCHEDULE_INNER_LANES)
    return NULL;
  dt_matmul_plan_t plan, plain;
  dt_schedule_t other = template_schedule(schedule);
  if (schedule->kind != DT_SCHEDULE_TEAM_MATMUL || schedule->team != DT_CHAIN_WARPS * DT_WARP)
    return DT_FAIL(DT_E_INTERNAL, "chain: kernel %s is no product of a block", kernel->name);
  DT_TRY(dt__matmul_plan(program, kernel, schedule, strict, &plan));
  DT_TRY(dt__matmul_plan(program, kernel, &other, strict, &plain));
  uint32_t own = dt__chain_product_bytes(program, kernel, &plan);
  if (own > plain.shared_bytes)
    plain.shared_bytes = (own + 63) & ~63U;
  if (plain.shared_bytes > out->shared_bytes)
    out->shared_bytes = plain.shared_bytes;
  if (!out->blocks || plan.blocks < out->blocks)
    out->blocks = plan.blocks;
  return NULL;
}

dt_status_t dt__cuda_chain(dt_program_t *program, uint32_t head, uint32_t s, bool strict,
                           dt_cuda_chain_t *out) {
  *out = (dt_cuda_chain_t){.kernels = dt__kernel_chain(program, head), .schedule = s};
  if (head + 1 != out->kernels.end)
    return DT_FAIL(DT_E_INTERNAL, "chain: kernel %u is not the last one", head);
  const dt_kernel_t *last = &program->kernels.items[head];
  if (s < last->schedules.len && last->schedules.items[s].kind == DT_SCHEDULE_TEAM_MATMUL &&
      last->schedules.items[s].team_matmul.keys)
    return dt__matmul_shares(&last->schedules.items[s].team_matmul)
               ? dt__chain_shares_plan(program, strict, out)
               : dt__chain_keys_plan(program, strict, out);
  for (uint32_t k = 0; k < count_of(out); k++) {
    const dt_kernel_t *kernel = member(program, out, k);
    if (s >= kernel->schedules.len)
      return DT_FAIL(DT_E_INTERNAL, "chain: kernel %s has no schedule %u", kernel->name, s);
    DT_TRY(add_member(program, kernel, &kernel->schedules.items[s], strict, out));
  }
  uint32_t own = dt__chain_scores_bytes(program, strict, out);
  if (own > out->shared_bytes)
    out->shared_bytes = (own + 63) & ~63U;
  return NULL;
}

dt_status_t dt__cuda_slabs_stride(dt_emit_t *m) {
  uint32_t n = m->program.buffers.len;
  dt_buffer_t *own = DT_ARENA_ARRAY(&m->arena, dt_buffer_t, n + 1);
  if (!own)
    return DT_NO_MEMORY();
  memcpy(own, m->program.buffers.items, n * sizeof(*own));
  for (uint32_t b = 0; b < n; b++) {
    if (own[b].kind != DT_BUFFER_SLAB)
      continue;
    for (uint32_t d = 0; d + 2 < own[b].rank; d++)
      own[b].strides[d] = dt__sym_const(m->env, 0);
    own[b].strides[own[b].rank - 2] = dt__slab_pitch(m, &own[b]);
  }
  m->program.buffers.items = own;
  return NULL;
}

// ---- Places ---------------------------------------------------------------------------------------
void dt__chain_wait(const dt_chain_item_t *t) {
  if (t->waits)
    dt__cuda_wait_for_work(t->k->m);
}

LLVMValueRef dt__chain_thread(dt_emit_t *m) {
  return LLVMBuildZExt(m->b, dt__ptx_thread(m), m->t_i64, "");
}

void dt__cuda_chain_place(dt_body_t *k, dt_cuda_chain_t *chain) {
  dt_emit_t *m = k->m;
  uint32_t n = m->program.buffers.len;
  dt_sym_t *offsets = DT_ARENA_ARRAY(&m->arena, dt_sym_t, n + 1);
  if (!offsets) {
    dt__emit_fail(m, DT_NO_MEMORY());
    return;
  }
  (void)dt__chain_scratch(m, chain->kernels.end - 1, chain->schedule, offsets);
  chain->offsets = offsets;
  for (uint32_t i = 0; i < n; i++) {
    if (!offsets[i].id)
      continue;
    LLVMValueRef offset = dt__index_scalar(k, offsets[i]);
    dt__body_at(k, 0);
    dt__body_place(k, i, dt__emit_offset(m, k->scratch, offset));
  }
}

// Where the slab's row `first_row` stands in shared memory is fixed but for its offset.
static LLVMValueRef shared_slab(dt_chain_item_t *t, uint32_t b) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_buffer_t *slab = &m->program.buffers.items[b];
  LLVMValueRef offset = dt__index_scalar(k, t->offsets[b]);
  LLVMValueRef pitch = dt__index_scalar(k, slab->strides[slab->rank - 2]);
  dt__body_at(k, PART);
  LLVMValueRef element = dt__emit_i64(m, (int64_t)dt_dtype_size(slab->dtype));
  LLVMValueRef above = LLVMBuildMul(m->b, LLVMBuildMul(m->b, t->first_row, pitch, ""), element, "");
  LLVMValueRef at = LLVMBuildAdd(m->b, offset, dt__emit_i64(m, t->chain->shared_bytes), "");
  at = LLVMBuildSub(m->b, at, above, "");
  LLVMValueRef base = LLVMBuildGEP2(m->b, m->t_i8, dt__cuda_shared_base(m), &at, 1, "");
  return LLVMBuildAddrSpaceCast(m->b, base, m->t_ptr, "");
}

LLVMValueRef *dt__chain_shared_bases(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  uint32_t n = k->m->program.buffers.len;
  LLVMValueRef *bases = DT_ARENA_ARRAY(&k->m->arena, LLVMValueRef, n + 1);
  if (!bases) {
    dt__emit_fail(k->m, DT_NO_MEMORY());
    return NULL;
  }
  memcpy(bases, k->bases, n * sizeof(*bases));
  for (uint32_t b = 0; b < n; b++)
    if (k->m->program.buffers.items[b].kind == DT_BUFFER_SLAB && t->offsets[b].id)
      bases[b] = shared_slab(t, b);
  return bases;
}

// The product among the members whose operand A is the slab, or NULL.
static const dt_schedule_t *reader_of(const dt_chain_item_t *t, uint32_t slab) {
  const dt_program_t *program = &t->k->m->program;
  for (uint32_t i = 0; i < count_of(t->chain); i++) {
    const dt_kernel_t *kernel = member(program, t->chain, i);
    const dt_schedule_t *schedule = &kernel->schedules.items[t->chain->schedule];
    if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL &&
        kernel->stages.items[0].insts.items[schedule->team_matmul.a].buffer.id == slab + 1)
      return schedule;
  }
  return NULL;
}

// A size (i64) or address, from here on worked with as if it were new: what is computed from it
// stands in no register while other members run.
static LLVMValueRef size_anew(dt_emit_t *m, LLVMValueRef size) {
  return LLVMIsAConstant(size) ? size : dt__ptx_anew(m, size);
}

LLVMValueRef dt__chain_address_anew(dt_emit_t *m, LLVMValueRef address) {
  LLVMValueRef word = LLVMBuildPtrToInt(m->b, address, m->t_i64, "");
  return LLVMBuildIntToPtr(m->b, dt__ptx_anew(m, word), m->t_ptr, "");
}

static LLVMValueRef round_up(dt_emit_t *m, LLVMValueRef n, int64_t unit) {
  LLVMValueRef up = LLVMBuildNSWAdd(m->b, n, dt__emit_i64(m, unit - 1), "");
  return LLVMBuildAnd(m->b, up, dt__emit_i64(m, -unit), "");
}

// Zeros after the elements of the slab's rows, up to a whole number of the tiles that a product
// takes of them. What is left of a unit of 16 bytes goes by elements, one thread a row; then units,
// threads side by side.
static void pad_rows(dt_chain_item_t *t, const dt_buffer_t *slab, uint32_t depth, LLVMValueRef base,
                     LLVMValueRef pitch) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  int64_t element = (int64_t)dt_dtype_size(slab->dtype), unit = 16 / element;
  LLVMValueRef extent = dt__index_scalar(k, slab->sizes[slab->rank - 1]), tid = dt__chain_thread(m);
  dt__body_at(k, ITEM);
  extent = size_anew(m, extent);
  LLVMValueRef whole = round_up(m, extent, unit), end = round_up(m, extent, depth);
  LLVMValueRef rows = dt__emit_i64(m, t->tile_rows), size = dt__emit_i64(m, element);
  dt__scope_open(k, PART, LLVMBuildICmp(m->b, LLVMIntULT, tid, rows, ""));
  LLVMValueRef row = dt__emit_offset(m, base, LLVMBuildMul(m->b, tid, pitch, ""));
  LLVMValueRef at = LLVMBuildMul(m->b, dt__loop_open(k, ROUND, extent, whole, 1), size, "");
  dt__emit_store(m, slab->dtype, LLVMConstNull(dt__emit_type(m, slab->dtype)),
                 dt__emit_offset(m, row, at), NULL);
  dt__loop_close(k, ROUND);
  dt__scope_close(k, PART);
  LLVMValueRef wide = dt__emit_i64(m, (int64_t)depth / unit);
  LLVMValueRef own =
      LLVMBuildMul(m->b, LLVMBuildURem(m->b, tid, wide, ""), dt__emit_i64(m, unit), "");
  LLVMValueRef first = LLVMBuildAdd(m->b, whole, own, "");
  dt__scope_open(k, PART, LLVMBuildICmp(m->b, LLVMIntSLT, first, end, ""));
  int64_t down = (int64_t)k->schedule->team / ((int64_t)depth / unit);
  LLVMValueRef start = LLVMBuildUDiv(m->b, tid, wide, "");
  LLVMValueRef number = dt__loop_open(k, ROUND, start, rows, down);
  LLVMValueRef to = dt__emit_offset(m, base, LLVMBuildMul(m->b, number, pitch, ""));
  to = dt__emit_offset(m, to, LLVMBuildMul(m->b, first, size, ""));
  dt__emit_store_at(m, DT_I32, LLVMConstNull(LLVMVectorType(m->t_i32, 4)), to, 16);
  dt__loop_close(k, ROUND);
  dt__scope_close(k, PART);
}

static bool is_whole(const dt_emit_t *m, const dt_buffer_t *slab, uint32_t depth) {
  int64_t extent = 0;
  return dt__sym_is_const(m->env, slab->sizes[slab->rank - 1], &extent) && extent % depth == 0;
}

// From here on a slab's base is where row 0 of the matrix would be.
static void place_slabs(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    const dt_buffer_t *slab = &m->program.buffers.items[i];
    if (slab->kind != DT_BUFFER_SLAB || !k->bases[i])
      continue;
    LLVMValueRef base = k->bases[i], pitch = dt__index_scalar(k, slab->strides[slab->rank - 2]);
    dt__body_at(k, ITEM);
    base = dt__chain_address_anew(m, base);
    pitch = size_anew(m, pitch);
    pitch = LLVMBuildMul(m->b, pitch, dt__emit_i64(m, (int64_t)dt_dtype_size(slab->dtype)), "");
    const dt_schedule_t *reader = reader_of(t, i);
    dt__body_at(k, ITEM);
    if (reader && !is_whole(m, slab, reader->team_matmul.depth)) {
      dt__chain_wait(t);
      pad_rows(t, slab, reader->team_matmul.depth, base, pitch);
    }
    LLVMValueRef above = LLVMBuildMul(m->b, t->first_row, pitch, "");
    k->bases[i] = dt__emit_offset(m, base, LLVMBuildNeg(m->b, above, ""));
  }
}

// ---- Products -------------------------------------------------------------------------------------
static void emit_tiles(dt_chain_item_t *t, LLVMValueRef wanted, bool aligned, LLVMValueRef from,
                       LLVMValueRef step) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef wide = dt__emit_i64(m, k->schedule->team_matmul.tile_cols);
  LLVMValueRef extent = dt__index_scalar(k, k->kernel->extents[k->kernel->n_loops - 1]);
  dt__body_at(k, 0);
  LLVMValueRef last = LLVMBuildNSWAdd(
      m->b, extent, dt__emit_i64(m, (int64_t)k->schedule->team_matmul.tile_cols - 1), "");
  LLVMValueRef tiles = LLVMBuildUDiv(m->b, last, wide, "");
  dt__scope_open(k, PART, wanted);
  k->aligned = aligned;
  LLVMValueRef tile = dt__loop_open_by(k, ROUND, from, tiles, step);
  dt__cuda_matmul_tile(k, ROUND, t->first_row, LLVMBuildMul(m->b, tile, wide, ""), NULL);
  dt__body_at(k, ROUND);
  dt__cuda_block_sync(m);
  dt__loop_close(k, ROUND);
  dt__scope_close(k, PART);
}

static void by_threads(dt_body_t *k) {
  k->team = k->schedule->team;
  k->rank = NULL; // threads have parts of the tile, not of vectors
  k->lanes = 1;
}

static LLVMValueRef fits_product(dt_chain_item_t *t) {
  return t->chain->bare ? NULL : dt__chain_product_fits(t);
}

static void begin_product(dt_chain_item_t *t, LLVMValueRef from, LLVMValueRef step) {
  by_threads(t->k);
  LLVMValueRef fits = fits_product(t);
  if (fits)
    dt__chain_product_begin(t, fits, from, step);
}

// Tiles of columns from number `from` on.
static void emit_product(dt_chain_item_t *t, LLVMValueRef from, LLVMValueRef step) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  by_threads(k);
  LLVMValueRef fits = fits_product(t);
  if (fits) {
    dt__chain_product(t, fits, from, step);
    by_threads(k);
  }
  const dt_schedule_t *schedule = k->schedule;
  dt_schedule_t plain = template_schedule(schedule);
  k->schedule = &plain;
  LLVMValueRef aligned = t->chain->bare ? NULL : dt__cuda_matmul_aligned(k);
  if (aligned) {
    dt__body_at(k, ITEM);
    LLVMValueRef left =
        fits ? LLVMBuildAnd(m->b, aligned, LLVMBuildNot(m->b, fits, ""), "") : aligned;
    emit_tiles(t, left, true, from, step);
    dt__body_at(k, ITEM);
    aligned = LLVMBuildNot(m->b, aligned, "");
  }
  emit_tiles(t, aligned, false, from, step);
  k->schedule = schedule;
}

// ---- Items ----------------------------------------------------------------------------------------
static bool is_product(const dt_chain_item_t *t, const dt_kernel_t *kernel) {
  return kernel == t->head || kernel->n_loops == t->head->n_loops;
}

static void emit_part(dt_chain_item_t *t,
                      void (*product)(dt_chain_item_t *, LLVMValueRef, LLVMValueRef)) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  bool head = k->kernel == t->head;
  dt__body_at(k, ITEM);
  k->chain.owner = head ? NULL : LLVMBuildICmp(m->b, LLVMIntEQ, t->group, dt__emit_i64(m, 0), "");
  if (!is_product(t, k->kernel))
    dt__chain_rows(t);
  else
    product(t, head ? t->group : dt__emit_i64(m, 0), head ? t->groups : dt__emit_i64(m, 1));
}

// A product's copies, before what is made meanwhile.
static void begin_work(dt_chain_item_t *t) { emit_part(t, begin_product); }

static void emit_work(dt_chain_item_t *t) { emit_part(t, emit_product); }

// What only sizes decide is worked out where the member begins: while it stood in front of the loop
// over items it would take registers from the other members. So the item's code is level 0 here.
static void emit_member(dt_chain_item_t *t, const dt_kernel_t *kernel,
                        void (*work)(dt_chain_item_t *)) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  dt_scope_t outer = k->scopes[0], item = k->scopes[ITEM];
  dt_binding_t *bindings = DT_ARENA_ARRAY(&m->arena, dt_binding_t, k->n_bindings + 1);
  dt_status_t status = dt__body_take(k, kernel, &kernel->schedules.items[t->chain->schedule]);
  if (status || !bindings) {
    dt__emit_fail(m, status ? status : DT_NO_MEMORY());
    return;
  }
  memcpy(bindings, k->bindings, k->n_bindings * sizeof(*bindings));
  k->scopes[0].block = item.block;
  dt__body_at(k, 0);
  for (uint32_t i = 0; i < k->n_bindings; i++)
    if (bindings[i].bound && bindings[i].level == 0)
      k->bindings[i].value.v[0] = dt__ptx_anew(m, bindings[i].value.v[0]);
  dt__scope_open(k, ITEM, NULL);
  work(t);
  dt__scope_close(k, ITEM);
  item.block = k->scopes[0].block;
  k->scopes[0] = outer;
  k->scopes[ITEM] = item;
  k->scopes[0].memo.len = k->scopes[ITEM].memo.len = 0;
  memcpy(k->bindings, bindings, k->n_bindings * sizeof(*bindings));
}

// A product's first copies are on their way while the rows in front of it are made; those of
// constants before earlier work has ended.
static void emit_members(dt_chain_item_t *t) {
  const dt_program_t *program = &t->k->m->program;
  uint32_t n = count_of(t->chain);
  for (uint32_t i = 0; i < n && !t->k->m->failure; i++) {
    const dt_kernel_t *own = member(program, t->chain, i);
    bool product = is_product(t, own);
    if (product && (i == 0 || is_product(t, member(program, t->chain, i - 1))))
      emit_member(t, own, begin_work);
    if (!product && i + 1 < n)
      emit_member(t, member(program, t->chain, i + 1), begin_work);
    if (product)
      dt__chain_wait(t);
    emit_member(t, own, emit_work);
    dt__chain_wait(t);
    t->waits = false;
  }
}

// What any member writes is written for all of them.
static void note_written(dt_body_t *k, const dt_cuda_chain_t *chain) {
  for (uint32_t i = 0; i < count_of(chain); i++) {
    const dt_kernel_t *kernel = member(&k->m->program, chain, i);
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t j = 0; j < kernel->stages.items[s].stores.len; j++)
        dt__body_writes(k, kernel->stages.items[s].stores.items[j].buffer);
  }
}

void dt__cuda_chain_item(dt_body_t *k, const dt_cuda_chain_t *chain, LLVMValueRef *digits,
                         uint32_t n) {
  dt_emit_t *m = k->m;
  LLVMValueRef axes[DT_MAX_LOOPS];
  dt_chain_item_t t = {
      .k = k, .chain = chain, .head = k->kernel, .group = digits[n - 1], .offsets = chain->offsets};
  t.tile_rows = k->schedule->team_matmul.tile_rows;
  t.waits = k->least_level > 0;
  (void)dt__grid_extents(k, axes);
  t.groups = axes[n - 1];
  for (uint32_t i = 0; i + 2 < n; i++)
    dt__bind_symbol(k, k->kernel->vars[i], ITEM, digits[i]);
  note_written(k, chain);
  dt__body_at(k, ITEM);
  const dt_team_matmul_t *tile = &k->schedule->team_matmul;
  LLVMValueRef number = digits[n - 2];
  if (dt__matmul_cluster(tile) > 1) {
    LLVMValueRef each = dt__emit_i64(m, tile->cluster);
    t.rank = LLVMBuildTrunc(m->b, LLVMBuildURem(m->b, number, each, ""), m->t_i32, "");
    number = LLVMBuildUDiv(m->b, number, each, "");
  }
  t.first_row = LLVMBuildMul(m->b, number, dt__emit_i64(m, t.tile_rows), "");
  if (chain->in_registers || tile->keys) {
    emit_member(&t, t.head,
                dt__matmul_shares(tile) ? dt__chain_shares
                : tile->keys            ? dt__chain_keys
                                        : dt__chain_scores);
    dt__body_at(k, ITEM);
    return;
  }
  place_slabs(&t);
  k->base_level = ITEM;
  emit_members(&t);
  dt__body_at(k, ITEM);
}
