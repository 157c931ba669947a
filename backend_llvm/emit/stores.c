// SPDX-License-Identifier: Apache-2.0
// Stores of a stage, in its innermost loop: neighbours, scattered, or one element for all lanes,
// under the store's own mask and that of the vector loop's tail.
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/insts.h"
#include "backend_llvm/emit/resident.h"

#include <string.h>

// Where a scalar store goes whose mask is off: the stack. It costs less than a branch that data
// decides.
static LLVMValueRef nowhere(dt_body_t *k) {
  if (!k->nowhere)
    k->nowhere = dt__body_slot(k, k->m->t_i64, 1);
  return k->nowhere;
}

// On a device stray stores would all meet in memory, so there it is a branch.
static void store_where(dt_body_t *k, uint32_t level, dt_dtype_t dtype, LLVMValueRef value,
                        LLVMValueRef address, uint32_t alignment, LLVMValueRef on) {
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "store"),
                    next = dt__emit_block(m, k->fn, "next");
  LLVMBuildCondBr(m->b, on, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  dt__emit_store_at(m, dtype, value, address,
                    alignment ? alignment : (uint32_t)dt_dtype_size(dtype));
  LLVMBuildBr(m->b, next);
  k->scopes[level].block = next;
  dt__body_at(k, level);
}

static void store_one(dt_body_t *k, uint32_t level, dt_dtype_t dtype, LLVMValueRef value,
                      LLVMValueRef address, LLVMValueRef on) {
  if (on && k->m->device) {
    store_where(k, level, dtype, value, address, 0, on);
    return;
  }
  if (on)
    address = LLVMBuildSelect(k->m->b, on, address, nowhere(k), "");
  dt__emit_store(k->m, dtype, value, address, NULL);
}

// One element whose mask differs between lanes: it is on in at most one of them.
static void store_from_lane(dt_body_t *k, uint32_t level, dt_dtype_t dtype, const dt_lanes_t *value,
                            LLVMValueRef address, const dt_lanes_t *mask) {
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef on = mask->v[c];
    if (k->masks[c])
      on = LLVMBuildAnd(k->m->b, on, k->masks[c], "");
    LLVMValueRef any = dt__emit_intrinsic1(k->m, "llvm.vector.reduce.or", on);
    LLVMValueRef one = value->varying ? dt__lanes_first(k, on, value->v[c]) : value->v[0];
    store_one(k, level, dtype, one, address, any);
  }
}

// A store outside the vector loop, or one whose address is the same for all lanes: then the loop
// has one iteration, in lane 0, or the mask picks one.
static void store_uniform(dt_body_t *k, const dt_store_t *store, uint32_t level,
                          LLVMValueRef address) {
  dt_dtype_t dtype = k->stage->insts.items[store->value].dtype;
  dt_lanes_t value = dt__inst_value(k, store->value), mask = {0};
  if (store->mask != DT_NO_INST)
    mask = dt__inst_value(k, store->mask);
  dt__body_at(k, level);
  if (mask.varying) {
    store_from_lane(k, level, dtype, &value, address, &mask);
    return;
  }
  LLVMValueRef one = value.v[0];
  if (value.varying)
    one = LLVMBuildExtractElement(k->m->b, one, dt__emit_i64(k->m, 0), "");
  LLVMValueRef on = mask.v[0];
  if (k->rank) { // all threads of the team have the value; one of them stores it
    LLVMValueRef first = LLVMBuildICmp(k->m->b, LLVMIntEQ, k->rank, dt__emit_i64(k->m, 0), "");
    on = on ? LLVMBuildAnd(k->m->b, on, first, "") : first;
  }
  store_one(k, level, dtype, one, address, on);
}

static void store_lanes(dt_body_t *k, const dt_store_t *store, uint32_t level,
                        const dt_address_t *address, uint32_t c) {
  dt_dtype_t dtype = k->stage->insts.items[store->value].dtype;
  LLVMValueRef vector = dt__inst_lane(k, store->value, c, true), mask = k->masks[c];
  LLVMValueRef on = store->mask == DT_NO_INST ? NULL : dt__inst_lane(k, store->mask, c, true);
  dt__body_at(k, level);
  if (on)
    mask = mask ? LLVMBuildAnd(k->m->b, on, mask, "") : on;
  if (k->resident.ragged)
    vector = LLVMBuildSelect(k->m->b, mask, vector, LLVMConstNull(LLVMTypeOf(vector)), "");
  if (address->access == DT_ACCESS_UNIT && k->resident.inside[c] && !on)
    store_where(k, level, dtype, vector, address->at[c], address->alignment, k->resident.inside[c]);
  else if (address->access == DT_ACCESS_UNIT && address->alignment && !mask)
    dt__emit_store_at(k->m, dtype, vector, address->at[c], address->alignment);
  else if (address->access == DT_ACCESS_UNIT)
    dt__emit_store(k->m, dtype, vector, address->at[c], mask);
  else if (address->access == DT_ACCESS_REVERSED)
    dt__emit_store(k->m, dtype, dt__lanes_reverse(k, vector), address->at[c],
                   dt__lanes_reverse(k, mask));
  else
    dt__emit_scatter(k->m, dtype, vector, address->at[c], mask);
}

// What a resident row's later stages read of this store; true: from nowhere else.
static bool keep_stored(dt_body_t *k, const dt_store_t *store, dt_sym_t offset) {
  dt_lanes_t value = dt__inst_value(k, store->value), vectors = {.varying = true};
  if (!k->stage->n_loops)
    return false;
  for (uint32_t c = 0; c < k->copies; c++)
    vectors.v[c] = dt__inst_lane(k, store->value, c, true);
  (void)value;
  dt__resident_store(k, store->buffer, offset, store->mask == DT_NO_INST ? &vectors : NULL);
  return dt__resident_owns(k, store->buffer);
}

static void store(dt_body_t *k, const dt_store_t *store, uint32_t level,
                  const dt_address_t *address) {
  if (address->access == DT_ACCESS_UNIFORM) {
    store_uniform(k, store, level, address->at[0]);
    return;
  }
  for (uint32_t c = 0; c < k->copies; c++)
    store_lanes(k, store, level, address, c);
}

// Of a chain's teams that have the same rows one stores what other launches read; one without a row
// stores nothing. What is computed under such a condition is not remembered.
static void store_under(dt_body_t *k, LLVMValueRef condition, const dt_store_t *own, uint32_t level,
                        const dt_address_t *address) {
  dt_emit_t *m = k->m;
  dt_scope_t *scope = &k->scopes[level];
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "owned"),
                    next = dt__emit_block(m, k->fn, "next");
  uint32_t known = scope->memo.len;
  dt__body_at(k, level);
  LLVMBuildCondBr(m->b, condition, some, next);
  scope->block = some;
  dt__body_at(k, level);
  store(k, own, level, address);
  dt__body_at(k, level);
  LLVMBuildBr(m->b, next);
  scope->block = next;
  scope->memo.len = known;
  dt__body_at(k, level);
}

static bool leaves_chain(const dt_body_t *k, dt_buffer_id_t buffer) {
  dt_buffer_kind_t kind = dt__program_buffer(&k->m->program, buffer)->kind;
  return k->chain.owner && kind != DT_BUFFER_SLAB && kind != DT_BUFFER_LOCAL;
}

// All values are made before anything is stored, so that a stage may read what it overwrites.
static void make_and_store(dt_body_t *k) {
  const dt_stage_t *stage = k->stage;
  uint32_t level = k->stage_level + stage->n_loops;
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    (void)dt__inst_value(k, stage->stores.items[i].value);
    if (stage->stores.items[i].mask != DT_NO_INST)
      (void)dt__inst_value(k, stage->stores.items[i].mask);
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *own = &stage->stores.items[i];
    dt_sym_t offset = dt__access_offset(k, own->buffer, own->index);
    if (k->resident.on && keep_stored(k, own, offset))
      continue;
    if (own->buffer.id == k->resident.held.id) {
      k->resident.held_value = dt__inst_lane(k, own->value, 0, true);
      continue;
    }
    dt_address_t address = dt__access_address(k, own->buffer, offset, level);
    LLVMValueRef condition = leaves_chain(k, own->buffer) ? k->chain.owner : NULL;
    if (k->chain.live) {
      dt__body_at(k, level);
      condition = condition ? LLVMBuildAnd(k->m->b, condition, k->chain.live, "") : k->chain.live;
    }
    if (condition)
      store_under(k, condition, own, level, &address);
    else
      store(k, own, level, &address);
  }
}

// ---- Copies one by one -------------------------------------------------------------------------------

// Maps of teams. What their threads compute follows the order of the code closely.
static bool copies_are_apart(const dt_body_t *k) {
  const dt_stage_t *stage = k->stage;
  if (!k->m->device || !k->outer_lanes || k->copies < 2 || stage->n_loops || stage->reductions.len)
    return false;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_SEARCH)
      return false;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (dt__program_buffer(&k->m->program, stage->stores.items[i].buffer)->kind == DT_BUFFER_LOCAL)
      return false;
  return true;
}

// What is known of all copies at the lanes' level, of copy `c` alone.
static void see_copy(dt_body_t *k, uint32_t known, uint32_t c) {
  for (uint32_t i = 0; i < known; i++) {
    dt_memo_t memo = k->scopes[k->lane_level].memo.items[i];
    if (!memo.value.varying)
      continue;
    memo.value.v[0] = memo.value.v[c];
    dt__memo_put(k, k->lane_level, memo.key, memo.value);
  }
}

// Everything is loaded first, then each copy is computed and stored before the next: the first one
// need not wait for the last one's loads, and stores do not come all at once.
static void store_copies(dt_body_t *k) {
  const dt_stage_t *stage = k->stage;
  uint32_t copies = k->copies;
  LLVMValueRef masks[DT_MAX_UNROLL];
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_LOAD || stage->insts.items[i].kind == DT_INST_ROW)
      (void)dt__inst_value(k, i);
  memcpy(masks, k->masks, sizeof(masks));
  dt_scope_t *scope = &k->scopes[k->lane_level];
  uint32_t known = scope->memo.len;
  k->copies = 1;
  for (uint32_t c = 0; c < copies; c++) {
    k->first_copy = c;
    k->masks[0] = masks[c];
    see_copy(k, known, c);
    make_and_store(k);
    scope->memo.len = known;
  }
  k->first_copy = 0;
  k->copies = copies;
  memcpy(k->masks, masks, sizeof(masks));
}

void dt__stage_stores(dt_body_t *k) {
  if (copies_are_apart(k))
    store_copies(k);
  else
    make_and_store(k);
}
