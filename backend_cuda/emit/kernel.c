// SPDX-License-Identifier: Apache-2.0
// See kernel.h. An entry has a body for each of its schedules, and branches to the one that a
// launch names. A body is emitted twice where vectors pay: for whole vectors, taken where
// dt__lanes_aligned holds, and element by element. Threads then still take neighbouring elements.
// Each member of a chain has versions of its own (chain.c), and so has each of a bundle.
#include "backend_cuda/emit/kernel.h"

#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#define PTX_KERNEL 71 // LLVM's calling convention
// Of a processor, about: by itself NVIDIA's assembler wants more of them, and spills what tells
// where a bundle's kernels are.
#define BUNDLE_THREADS 576

typedef struct entry_t {
  dt_body_t k;
  dt_cuda_chain_t chain;    // without kernels: none
  dt_kernel_chain_t bundle; // without kernels: none
  LLVMBasicBlockRef share;  // bundles: where a block goes that has done its part of a kernel
  uint32_t n_words, shared_bytes, matmul_blocks;
  uint32_t threads, cluster;       // of a block; blocks
  LLVMTypeRef block;               // [n_words + tail] x i64
  LLVMValueRef count, first, step; // grid items: this team's first one, and how far to the next
  bool late;  // the wait for earlier work stands where items are begun, not here
  bool fused; // a product by multiply-adds of threads
  bool sized; // there are as many grid items as numbers in device memory say, whatever `count` is
} entry_t;

static void add_attribute(dt_emit_t *m, LLVMValueRef fn, LLVMAttributeIndex at, const char *name,
                          uint64_t value, LLVMTypeRef type) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAttributeRef attribute = type ? LLVMCreateTypeAttribute(m->context, kind, type)
                                    : LLVMCreateEnumAttribute(m->context, kind, value);
  LLVMAddAttributeAtIndex(fn, at, attribute);
}

static void add_number(dt_emit_t *m, LLVMValueRef fn, const char *key, uint32_t number) {
  char text[16];
  int bytes = snprintf(text, sizeof(text), "%u", number);
  LLVMAddAttributeAtIndex(
      fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(m->context, key, (unsigned)strlen(key), text, (unsigned)bytes));
}

static LLVMValueRef open_entry(entry_t *e, dt_emit_t *m, const char *name) {
  e->block = LLVMArrayType2(m->t_i64, e->n_words + DT_CUDA_TAIL_WORDS);
  LLVMValueRef fn = dt__emit_function(m, name, LLVMFunctionType(m->t_void, &m->t_ptr, 1, 0), true);
  LLVMSetVisibility(fn, LLVMDefaultVisibility);
  LLVMSetFunctionCallConv(fn, PTX_KERNEL);
  add_attribute(m, fn, 1, "byval", 0, e->block);
  add_attribute(m, fn, 1, "align", 8, NULL);
  add_attribute(m, fn, 1, "noalias", 0, NULL);
  add_attribute(m, fn, 1, "readonly", 0, NULL);
  add_number(m, fn, "nvvm.reqntid", e->threads);
  if (e->cluster > 1)
    add_number(m, fn, "nvvm.cluster_dim", e->cluster);
  if (e->k.schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    add_number(m, fn, "nvvm.minctasm", e->matmul_blocks);
  else if (e->bundle.end)
    add_number(m, fn, "nvvm.minctasm", BUNDLE_THREADS / e->threads + 1);
  else if (e->k.schedule->room)
    add_number(m, fn, "nvvm.minctasm", e->k.schedule->room);
  return fn;
}

static LLVMValueRef tail_word(entry_t *e, size_t offset, LLVMTypeRef type) {
  dt_emit_t *m = e->k.m;
  int64_t at = 8 * (int64_t)e->n_words + (int64_t)offset;
  return LLVMBuildLoad2(m->b, type, dt__emit_offset(m, e->k.words, dt__emit_i64(m, at)), "");
}

// Who this thread is, what its team starts with, and where its scratch is.
static void place_thread(entry_t *e) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  uint32_t teams = e->threads / k->team;
  LLVMValueRef tid = dt__cuda_register(m, DT_CUDA_TID), block = dt__cuda_register(m, DT_CUDA_CTAID);
  LLVMValueRef blocks = dt__cuda_register(m, DT_CUDA_NCTAID), size = dt__emit_i64(m, k->team);
  LLVMValueRef own = LLVMBuildUDiv(m->b, tid, size, "");
  k->rank = k->team > 1 ? LLVMBuildURem(m->b, tid, size, "") : NULL;
  LLVMValueRef n = dt__emit_i64(m, teams);
  e->first = LLVMBuildNSWAdd(m->b, LLVMBuildNSWMul(m->b, block, n, ""), own, "");
  e->step = LLVMBuildNSWMul(m->b, blocks, n, "");
  e->count = tail_word(e, offsetof(dt_cuda_tail_t, count), m->t_i64);
  k->record =
      tail_word(e, offsetof(dt_cuda_tail_t, record), LLVMPointerTypeInContext(m->context, 1));
  k->record = k->dead = LLVMBuildAddrSpaceCast(m->b, k->record, m->t_ptr, "");
  LLVMValueRef scratch = tail_word(e, offsetof(dt_cuda_tail_t, scratch), m->t_i64);
  LLVMValueRef stride = tail_word(e, offsetof(dt_cuda_tail_t, scratch_stride), m->t_i64);
  LLVMValueRef shared = LLVMBuildICmp(m->b, LLVMIntEQ, scratch, dt__emit_i64(m, 0), "");
  e->chain.in_shared = shared;
  LLVMValueRef global = LLVMBuildIntToPtr(m->b, scratch, m->t_ptr, "");
  LLVMValueRef own_bytes = dt__emit_i64(m, e->shared_bytes);
  LLVMValueRef behind = dt__emit_offset(m, dt__cuda_dynamic_shared(m), own_bytes);
  LLVMValueRef base = LLVMBuildSelect(m->b, shared, behind, global, "");
  LLVMValueRef team = LLVMBuildSelect(m->b, shared, own, e->first, "");
  k->scratch = dt__emit_offset(m, base, LLVMBuildMul(m->b, team, stride, ""));
}

static bool has_reductions(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].reductions.len)
      return true;
  return false;
}

static bool has_locals(const dt_body_t *k) {
  for (uint32_t i = 0; i < k->m->program.buffers.len; i++)
    if (k->written[i] && k->m->program.buffers.items[i].kind == DT_BUFFER_LOCAL)
      return true;
  return false;
}

// What the team shares is used again by its next grid item.
static bool items_meet(const dt_body_t *k) {
  if (k->schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    return true;
  return k->team > 1 && (has_locals(k) || (k->team > DT_WARP && has_reductions(k->kernel)));
}

// The next kernel takes this kernel's end for the end of all work before it, so a late kernel waits
// for that work even where it has nothing to do.
static void end_thread(const entry_t *e) {
  if (e->share) {
    LLVMBuildBr(e->k.m->b, e->share);
    return;
  }
  if (e->late)
    dt__cuda_wait_for_work(e->k.m);
  LLVMBuildRetVoid(e->k.m->b);
}

// All grid items of this team, with k->lanes lanes.
static void emit_items(entry_t *e) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  LLVMValueRef extents[DT_MAX_LOOPS], digits[DT_MAX_LOOPS];
  uint32_t n = dt__grid_extents(k, extents);
  LLVMValueRef count = e->sized ? dt__emit_i64(m, 1) : e->count;
  for (uint32_t i = 0; i < n && e->sized; i++)
    count = LLVMBuildMul(m->b, count, extents[i], "");
  if (e->late && k->schedule->most) // several items each, whose loads are made together
    dt__cuda_wait_for_work(m);
  LLVMValueRef item = dt__loop_open_by(k, 1, e->first, count, e->step);
  for (uint32_t i = n; i-- > 0;) {
    digits[i] = item;
    if (i == 0)
      break;
    LLVMValueRef extent = dt__at_least_one(k, extents[i]);
    LLVMValueRef over = LLVMBuildUDiv(m->b, item, extent, "");
    digits[i] = LLVMBuildSub(m->b, item, LLVMBuildMul(m->b, over, extent, ""), "");
    item = over;
  }
  if (e->chain.kernels.end) {
    dt__cuda_chain_item(k, &e->chain, digits, n);
  } else {
    if (e->late && !k->schedule->most && k->schedule->kind != DT_SCHEDULE_TEAM_MATMUL)
      dt__cuda_wait_for_work(m);
    dt__item_emit(k, digits, n);
    dt__body_at(k, 1);
    if (items_meet(k))
      m->device->sync(k);
  }
  dt__loop_close(k, 1);
  end_thread(e);
}

// Emits a version into `block`, which nothing of another version is seen from.
static void emit_version(const entry_t *e, LLVMBasicBlockRef block, uint32_t lanes, bool aligned) {
  entry_t version = *e;
  version.k.scopes[0].block = block;
  version.k.lanes = lanes;
  version.k.aligned = aligned;
  dt__body_at(&version.k, 0);
  emit_items(&version);
}

// A team without items ends here, before level 0 reads what all items need. That may be missing
// where there are none: when a graph's node has no work, addresses are those of an empty tensor or
// of an earlier call.
static void leave_without_readbacks(entry_t *e) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef none = dt__emit_block(m, k->fn, "none");
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "some");
  LLVMValueRef any = LLVMBuildICmp(m->b, LLVMIntSLT, e->first, e->count, "");
  LLVMBuildCondBr(m->b, any, some, none);
  LLVMPositionBuilderAtEnd(m->b, none);
  end_thread(e);
  k->scopes[0].block = some;
  dt__body_at(k, 0);
}

// Chains: items without slabs first, where sizes allow it.
static void emit_chain(entry_t *e) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  bool keys = k->schedule->kind == DT_SCHEDULE_TEAM_MATMUL && k->schedule->team_matmul.keys;
  LLVMValueRef registers = keys ? NULL : dt__cuda_chain_scores(k, &e->chain);
  dt__body_at(k, 0);
  LLVMBasicBlockRef slabs = dt__emit_block(m, k->fn, "slabs");
  if (registers) {
    LLVMBasicBlockRef scores = dt__emit_block(m, k->fn, "scores");
    LLVMBuildCondBr(m->b, registers, scores, slabs);
    e->chain.in_registers = true;
    emit_version(e, scores, 1, false);
    e->chain.in_registers = false;
  } else {
    LLVMBuildBr(m->b, slabs);
  }
  k->scopes[0].block = slabs;
  k->scopes[0].memo.len = 0;
  dt__body_at(k, 0);
  dt__cuda_chain_place(k, &e->chain);
  emit_items(e);
}

static void emit_versions(entry_t *e) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  dt_schedule_kind_t kind = k->schedule->kind;
  bool scalar = kind == DT_SCHEDULE_SERIAL || kind == DT_SCHEDULE_TILES;
  uint32_t lanes = scalar ? 1 : k->schedule->lanes;
  LLVMValueRef aligned = NULL;
  if (kind == DT_SCHEDULE_TEAM_MATMUL)
    aligned = dt__cuda_matmul_aligned(k);
  else if (lanes > 1)
    aligned = dt__lanes_aligned(k, lanes);
  dt__body_at(k, 0);
  LLVMBasicBlockRef single = dt__emit_block(m, k->fn, "elements");
  if (!aligned) {
    LLVMBuildBr(m->b, single);
  } else {
    LLVMBasicBlockRef vectors = dt__emit_block(m, k->fn, "vectors");
    LLVMBuildCondBr(m->b, aligned, vectors, single);
    emit_version(e, vectors, lanes, true);
  }
  emit_version(e, single, 1, false);
}

// What the entry needs of shared memory and of registers.
static dt_status_t plan_entry(entry_t *e, dt_emit_t *m, uint32_t index, uint32_t s) {
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  const dt_schedule_t *schedule = &kernel->schedules.items[s];
  dt_kernel_chain_t chain = dt__kernel_chain(&m->program, index);
  dt_matmul_plan_t plan = {0};
  e->threads = dt__cuda_block_threads(m->target, schedule);
  if (dt__chain_is_bundle(&m->program, chain)) {
    e->bundle = chain;
    e->threads = dt__bundle_threads(&m->program, m->target, chain);
    return NULL;
  }
  if (kernel->chain) {
    if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
      e->cluster = dt__matmul_cluster(&schedule->team_matmul);
    DT_TRY(dt__cuda_chain(&m->program, index, s, m->target->strict_fp, &e->chain));
    e->shared_bytes = e->chain.shared_bytes;
    e->matmul_blocks = e->chain.blocks;
    return NULL;
  }
  if (schedule->kind != DT_SCHEDULE_TEAM_MATMUL)
    return NULL;
  DT_TRY(dt__matmul_plan(&m->program, kernel, schedule, m->target->strict_fp, &plan));
  e->shared_bytes = plan.shared_bytes;
  e->matmul_blocks = plan.blocks;
  e->cluster = dt__matmul_cluster(&schedule->team_matmul);
  e->fused = !plan.tensor;
  return NULL;
}

static dt_status_t prepare_entry(entry_t *e, dt_emit_t *m, uint32_t index, uint32_t s,
                                 dt_kernel_params_t *params) {
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  const dt_schedule_t *schedule = &kernel->schedules.items[s];
  dt_text_t text;
  DT_TRY(dt__schedule_verify(m, kernel, schedule));
  dt__text_init(&text);
  dt_status_t status =
      dt__chain_print(&m->program, dt__kernel_chain(&m->program, index), params, &text);
  dt__text_fini(&text);
  DT_TRY(status);
  DT_TRY(plan_entry(e, m, index, s));
  DT_TRY(dt__body_init(&e->k, m, kernel, schedule));
  e->n_words = params->n_buffers + params->n_symbols;
  e->k.team = e->bundle.end ? e->threads : schedule->team ? schedule->team : 1;
  return NULL;
}

// What is computed from numbers in memory waits for them. Elsewhere a team's first item is found,
// and constants are on their way, before anything waits: no instruction may then stand in front of
// the items, where only sizes are worked out. Threads that multiply and add by themselves have no
// registers left for what is worked out twice.
static void wait_early(entry_t *e, const dt_kernel_params_t *params) {
  dt_body_t *k = &e->k;
  e->late = dt__cuda_waits(k->m->target) && !params->gate.id && !params->n_readbacks && !e->fused;
  if (e->late)
    k->least_level = e->chain.kernels.end ? DT_CHAIN_PART : k->schedule->most ? 0 : 1;
  else
    dt__cuda_wait_for_work(k->m);
}

// ---- Bundles --------------------------------------------------------------------------------------
// Blocks are dealt out to the kernels in their order. A block goes through the kernels to the one
// that it is of, by numbers that are worked out on the way, and only then waits for earlier work.
// It goes on with another share where the grid has fewer blocks than shares.

// What is the same for all shares is worked out by each: all kernels' numbers together would take
// the registers of all threads.
static void work_out_again(dt_emit_t *m, LLVMValueRef back) {
  static const char loop[] = "llvm.loop", keep[] = "llvm.licm.disable";
  LLVMMetadataRef text = LLVMMDStringInContext2(m->context, keep, sizeof(keep) - 1);
  LLVMMetadataRef self = LLVMTemporaryMDNode(m->context, NULL, 0);
  LLVMMetadataRef both[2] = {self, LLVMMDNodeInContext2(m->context, &text, 1)};
  LLVMMetadataRef node = LLVMMDNodeInContext2(m->context, both, 2);
  LLVMMetadataReplaceAllUsesWith(self, node);
  LLVMSetMetadata(back, LLVMGetMDKindIDInContext(m->context, loop, sizeof(loop) - 1),
                  LLVMMetadataAsValue(m->context, node));
}

// Of all parameters those that `own` has.
static void bind_own(dt_body_t *k, const dt_kernel_params_t *all, const dt_kernel_params_t *own) {
  for (uint32_t i = 0; i < all->n_buffers; i++)
    for (uint32_t j = 0; j < own->n_buffers; j++)
      if (own->buffers[j].id == all->buffers[i].id)
        dt__bind_parameter(k, all, i);
  for (uint32_t i = 0; i < all->n_symbols; i++)
    for (uint32_t j = 0; j < own->n_symbols; j++)
      if (own->symbols[j] == all->symbols[i])
        dt__bind_parameter(k, all, all->n_buffers + i);
}

// Puts the way to kernel `at` into `find` and its body behind it. The block's share is number *left
// of this kernel and those behind it; *left: of those behind it, which are at `others`.
static dt_status_t emit_bundled(const entry_t *e, uint32_t at, const dt_kernel_params_t *all,
                                LLVMBasicBlockRef find, LLVMBasicBlockRef others,
                                LLVMValueRef *left) {
  entry_t own = *e;
  dt_body_t *k = &own.k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = &m->program.kernels.items[at];
  const dt_schedule_t *schedule = &kernel->schedules.items[0];
  dt_kernel_params_t params = {0};
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__kernel_print(&m->program, kernel, &params, &text);
  dt__text_fini(&text);
  DT_TRY(status);
  DT_TRY(dt__schedule_verify(m, kernel, schedule));
  DT_TRY(dt__body_take(k, kernel, schedule));
  k->team = schedule->team;
  k->scopes[0].block = find;
  dt__body_at(k, 0);
  bind_own(k, all, &params);
  LLVMValueRef blocks = dt__index_scalar(k, dt__bundled_blocks(m, kernel, e->threads));
  dt__body_at(k, 0);
  LLVMBasicBlockRef body = dt__emit_block(m, k->fn, "bundled");
  LLVMValueRef here = LLVMBuildICmp(m->b, LLVMIntSLT, *left, blocks, "");
  LLVMValueRef behind = LLVMBuildSub(m->b, *left, blocks, "");
  LLVMBuildCondBr(m->b, here, body, others);
  k->scopes[0].block = body;
  dt__body_at(k, 0);
  if (e->late)
    dt__cuda_wait_for_work(m);
  own.late = false;
  k->least_level = 0;
  LLVMValueRef tid = dt__cuda_register(m, DT_CUDA_TID), team = dt__emit_i64(m, k->team);
  LLVMValueRef teams = dt__emit_i64(m, e->threads / k->team);
  k->rank = k->team > 1 ? LLVMBuildURem(m->b, tid, team, "") : NULL;
  own.first = LLVMBuildNSWAdd(m->b, LLVMBuildNSWMul(m->b, *left, teams, ""),
                              LLVMBuildUDiv(m->b, tid, team, ""), "");
  own.step = LLVMBuildNSWMul(m->b, blocks, teams, "");
  own.sized = true;
  emit_versions(&own);
  *left = behind;
  return NULL;
}

static dt_status_t emit_bundle(entry_t *e, const dt_kernel_params_t *params) {
  dt_body_t *k = &e->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(m->b);
  LLVMBasicBlockRef find = dt__emit_block(m, k->fn, "shares");
  LLVMBasicBlockRef next = dt__emit_block(m, k->fn, "next");
  LLVMBasicBlockRef done = dt__emit_block(m, k->fn, "done");
  LLVMBuildBr(m->b, find);
  LLVMPositionBuilderAtEnd(m->b, find);
  LLVMValueRef share = LLVMBuildPhi(m->b, m->t_i64, ""), left = share;
  e->share = next;
  for (uint32_t at = e->bundle.first; at < e->bundle.end; at++) {
    LLVMBasicBlockRef others = at + 1 < e->bundle.end ? dt__emit_block(m, k->fn, "find") : done;
    DT_TRY(emit_bundled(e, at, params, find, others, &left));
    find = others;
  }
  e->share = NULL;
  LLVMPositionBuilderAtEnd(m->b, next);
  LLVMValueRef further = dt__ptx_anew(m, LLVMBuildNSWAdd(m->b, share, e->step, ""));
  work_out_again(m, LLVMBuildBr(m->b, LLVMGetInstructionParent(share)));
  LLVMValueRef shares[2] = {e->first, further};
  LLVMBasicBlockRef from[2] = {before, next};
  LLVMAddIncoming(share, shares, from, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
  end_thread(e);
  return NULL;
}

// A grid item is a block's share.
static void begin_bundle(entry_t *e, const dt_kernel_params_t *params) {
  for (uint32_t i = 0; i < params->n_buffers && params->gate.id; i++)
    if (params->buffers[i].id == params->gate.id)
      dt__bind_parameter(&e->k, params, i);
  dt__bind_readbacks(&e->k, params);
  dt_status_t status = emit_bundle(e, params);
  if (status)
    dt__emit_fail(e->k.m, status);
}

// The body under one schedule, from where the builder is on.
static void emit_body(entry_t *e, const dt_kernel_params_t *params) {
  wait_early(e, params);
  place_thread(e);
  leave_without_readbacks(e);
  if (e->bundle.end) {
    begin_bundle(e, params);
    return;
  }
  dt__bind_parameters(&e->k, params);
  dt__bind_readbacks(&e->k, params);
  e->sized = dt__grid_has_readbacks(&e->k);
  if (e->chain.kernels.end) {
    emit_chain(e);
    return;
  }
  dt__place_locals(&e->k);
  emit_versions(e);
}

// Branches to block k where the launch's member is k: by halves, as a table of targets is another
// load to wait for.
static void branch(entry_t *e, LLVMValueRef member, uint32_t first, uint32_t n,
                   LLVMBasicBlockRef *blocks) {
  dt_emit_t *m = e->k.m;
  if (n == 1) {
    LLVMBuildBr(m->b, blocks[first]);
    return;
  }
  uint32_t half = n / 2;
  LLVMBasicBlockRef low = dt__emit_block(m, e->k.fn, "choose");
  LLVMBasicBlockRef high = dt__emit_block(m, e->k.fn, "choose");
  LLVMValueRef less =
      LLVMBuildICmp(m->b, LLVMIntULT, member, dt__emit_i64(m, (int64_t)first + half), "");
  LLVMBuildCondBr(m->b, less, low, high);
  LLVMPositionBuilderAtEnd(m->b, low);
  branch(e, member, first, half, blocks);
  LLVMPositionBuilderAtEnd(m->b, high);
  branch(e, member, first + half, n - half, blocks);
}

static dt_status_t prepare_members(dt_emit_t *m, const dt_code_origin_t *codes, uint32_t n,
                                   entry_t *members, dt_kernel_params_t *params) {
  for (uint32_t i = 0; i < n; i++) {
    DT_TRY(prepare_entry(&members[i], m, codes[i].kernel, codes[i].schedule, &params[i]));
    if (members[i].matmul_blocks < members[0].matmul_blocks)
      members[0].matmul_blocks = members[i].matmul_blocks;
  }
  return NULL;
}

dt_status_t dt__cuda_emit_entry(dt_emit_t *m, const dt_code_origin_t *codes, uint32_t n,
                                const char *name) {
  entry_t *members = DT_ARENA_ARRAY(&m->arena, entry_t, n);
  dt_kernel_params_t *params = DT_ARENA_ARRAY(&m->arena, dt_kernel_params_t, n);
  LLVMBasicBlockRef *blocks = DT_ARENA_ARRAY(&m->arena, LLVMBasicBlockRef, n);
  if (!members || !params || !blocks)
    return DT_NO_MEMORY();
  DT_TRY(prepare_members(m, codes, n, members, params));
  entry_t *first = &members[0];
  LLVMValueRef fn = open_entry(first, m, name);
  first->k.words = LLVMGetParam(fn, 0);
  dt__body_enter(&first->k, fn);
  if (n > 1) {
    LLVMValueRef member = tail_word(first, offsetof(dt_cuda_tail_t, member), m->t_i64);
    for (uint32_t i = 0; i < n; i++)
      blocks[i] = dt__emit_block(m, fn, "member");
    branch(first, member, 0, n, blocks);
  }
  for (uint32_t i = 0; i < n; i++) {
    members[i].k.words = first->k.words;
    members[i].k.fn = fn;
    members[i].k.slots = first->k.slots;
    members[i].k.scopes[0].block = n > 1 ? blocks[i] : first->k.scopes[0].block;
    dt__body_at(&members[i].k, 0);
    m->member = i;
    if (n > 1)
      dt__ptx_part(m, i);
    emit_body(&members[i], &params[i]);
  }
  m->member = 0;
  return NULL;
}
