// SPDX-License-Identifier: Apache-2.0
// Decisions as code. Consecutive nodes with the same target become one block with one branch: their
// differences are or'ed together and tested once, so that a hit takes few branches and many loads
// at a time. The chain of such blocks from the root to the first real choice is the trunk. All code
// behind the trunk has the trunk's loads in registers.
#include "backend_llvm/emit/decide.h"

#include "runtime/tensor/tensor.h"

#include <stddef.h>
#include <string.h>

#define MOST_TESTS 24 // of one block

_Static_assert(offsetof(dt_tensor_t, device) == offsetof(dt_tensor_t, dtype) + 4 &&
                   sizeof(dt_dtype_t) == 4 && sizeof(dt_device_t) == 4,
               "dtype and device are read as one number");

// ---- Loads ----------------------------------------------------------------------------------------
static LLVMValueRef load_at(dt_decide_t *d, LLVMTypeRef type, LLVMValueRef base, size_t offset) {
  LLVMValueRef at = base;
  if (offset)
    at = dt__emit_offset(&d->m, base, dt__emit_i64(&d->m, (int64_t)offset));
  return LLVMBuildLoad2(d->m.b, type, at, "");
}

// What was loaded where the current block may use it, or NULL.
static LLVMValueRef have(const dt_decide_t *d, const dt_loaded_t *loaded) {
  if (loaded->trunk)
    return loaded->trunk;
  return loaded->block == d->block ? loaded->local : NULL;
}

static LLVMValueRef keep(dt_decide_t *d, dt_loaded_t *loaded, LLVMValueRef value) {
  if (d->in_trunk)
    loaded->trunk = value;
  loaded->local = value;
  loaded->block = d->block;
  return value;
}

// The call's array of captured values, or of inputs.
static LLVMValueRef list_of(dt_decide_t *d, bool captures) {
  dt_loaded_t *list = &d->lists[captures];
  if (have(d, list))
    return have(d, list);
  size_t offset =
      captures ? offsetof(dt_guard_args_t, captures) : offsetof(dt_guard_args_t, inputs);
  return keep(d, list, load_at(d, d->m.t_ptr, d->args, offset));
}

// An input's tensor.
static LLVMValueRef pointer(dt_decide_t *d, uint32_t index) {
  dt_loaded_t *item = &d->inputs[index];
  if (have(d, item))
    return have(d, item);
  return keep(d, item, load_at(d, d->m.t_ptr, list_of(d, false), index * sizeof(void *)));
}

static LLVMValueRef widen(dt_decide_t *d, LLVMValueRef value, bool is_signed) {
  if (LLVMGetIntTypeWidth(LLVMTypeOf(value)) == 64)
    return value;
  return is_signed ? LLVMBuildSExt(d->m.b, value, d->m.t_i64, "")
                   : LLVMBuildZExt(d->m.b, value, d->m.t_i64, "");
}

static LLVMValueRef load_value(dt_decide_t *d, LLVMValueRef tensor, dt_dtype_t dtype) {
  LLVMValueRef data = load_at(d, d->m.t_ptr, tensor, offsetof(dt_tensor_t, data));
  LLVMValueRef value = LLVMBuildLoad2(d->m.b, dt__emit_memory_type(&d->m, dtype), data, "");
  if (dtype == DT_BOOL)
    value = LLVMBuildICmp(d->m.b, LLVMIntNE, value, dt__emit_int(d->m.t_i8, 0), "");
  return widen(d, value, dt__dtype_is_signed(dtype));
}

// The header as guards/record.h packs it.
static LLVMValueRef load_key(dt_decide_t *d, LLVMValueRef tensor) {
  dt_emit_t *m = &d->m;
  const struct {
    size_t offset;
    LLVMTypeRef type;
    int64_t shift;
  } fields[] = {{offsetof(dt_tensor_t, dtype), m->t_i32, 0},
                {offsetof(dt_tensor_t, device), m->t_i32, 8},
                {offsetof(dt_tensor_t, rank), m->t_i32, 16},
                {offsetof(dt_tensor_t, contiguous), m->t_i8, 24},
                {offsetof(dt_tensor_t, order), m->t_i32, DT_GUARD_KEY_ORDER_AT}};
  LLVMValueRef key = dt__emit_i64(m, 0);
  for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
    LLVMValueRef field = widen(d, load_at(d, fields[k].type, tensor, fields[k].offset), false);
    field = LLVMBuildShl(m->b, field, dt__emit_i64(m, fields[k].shift), "");
    key = LLVMBuildOr(m->b, key, field, "");
  }
  return key;
}

static LLVMValueRef load_slot(dt_decide_t *d, const dt_slot_t *slot) {
  dt_emit_t *m = &d->m;
  if (slot->kind == DT_SLOT_MODES)
    return load_at(d, m->t_i64, d->args, offsetof(dt_guard_args_t, modes));
  if (slot->kind == DT_SLOT_CAPTURE)
    return load_at(d, m->t_i64, list_of(d, true), slot->index * sizeof(int64_t));
  LLVMValueRef base = pointer(d, slot->index);
  size_t dim = (size_t)slot->dim * sizeof(int64_t);
  switch ((dt_slot_kind_t)slot->kind) {
  case DT_SLOT_KEY:
    return load_key(d, base);
  case DT_SLOT_SIZE:
    return load_at(d, m->t_i64, base, offsetof(dt_tensor_t, sizes) + dim);
  case DT_SLOT_STRIDE:
    return load_at(d, m->t_i64, base, offsetof(dt_tensor_t, strides) + dim);
  case DT_SLOT_COUNT:
    return load_at(d, m->t_i64, base, offsetof(dt_tensor_t, count));
  case DT_SLOT_DATA:
    return load_at(d, m->t_i64, base, offsetof(dt_tensor_t, data));
  case DT_SLOT_VALUE:
    return load_value(d, base, (dt_dtype_t)slot->dim);
  default:
    return NULL; // MODES and CAPTURE were above
  }
}

LLVMValueRef dt__decide_slot(dt_decide_t *d, uint32_t slot) {
  dt_loaded_t *loaded = &d->slots[slot];
  if (have(d, loaded))
    return have(d, loaded);
  return keep(d, loaded, load_slot(d, &d->tree->slots[slot]));
}

// ---- Tests ----------------------------------------------------------------------------------------
// The tests of one block: its way on is taken where no bit of `differs` is set and `good` is.
typedef struct tests_t {
  LLVMValueRef differs; // i64, or NULL: no such test
  LLVMValueRef good;    // i1, or NULL
} tests_t;

static void add_difference(dt_decide_t *d, tests_t *tests, LLVMValueRef bits) {
  tests->differs = tests->differs ? LLVMBuildOr(d->m.b, tests->differs, bits, "") : bits;
}

static void add_good(dt_decide_t *d, tests_t *tests, LLVMValueRef bit) {
  tests->good = tests->good ? LLVMBuildAnd(d->m.b, tests->good, bit, "") : bit;
}

static LLVMValueRef difference(dt_decide_t *d, LLVMValueRef value, int64_t literal) {
  if (literal == 0)
    return value;
  return LLVMBuildXor(d->m.b, value, dt__emit_i64(&d->m, literal), "");
}

// Where the header differs from `key` in what `mask` names.
static LLVMValueRef key_difference(dt_decide_t *d, uint32_t input, int64_t mask, int64_t key) {
  dt_emit_t *m = &d->m;
  LLVMValueRef t = pointer(d, input);
  LLVMValueRef type = load_at(d, m->t_i64, t, offsetof(dt_tensor_t, dtype));
  LLVMValueRef rank = widen(d, load_at(d, m->t_i32, t, offsetof(dt_tensor_t, rank)), false);
  int64_t dtype_device = (key & 0xff) | (key >> 8 & 0xff) << 32;
  LLVMValueRef bits = LLVMBuildOr(m->b, difference(d, type, dtype_device),
                                  difference(d, rank, key >> 16 & 0xff), "");
  if (mask & DT_GUARD_KEY_ORDER) {
    LLVMValueRef order = widen(d, load_at(d, m->t_i32, t, offsetof(dt_tensor_t, order)), false);
    int64_t wanted = (int64_t)((uint64_t)key >> DT_GUARD_KEY_ORDER_AT);
    bits = LLVMBuildOr(m->b, bits, difference(d, order, wanted), "");
  }
  if (!(mask & DT_GUARD_KEY_CONTIGUOUS))
    return bits;
  LLVMValueRef flag = widen(d, load_at(d, m->t_i8, t, offsetof(dt_tensor_t, contiguous)), false);
  return LLVMBuildOr(m->b, bits, difference(d, flag, key >> 24 & 1), "");
}

static LLVMValueRef remainder_of(dt_decide_t *d, const dt_term_t *term) {
  dt_emit_t *m = &d->m;
  LLVMValueRef value = dt__decide_slot(d, term->slot), by = dt__emit_i64(m, term->a);
  if ((term->a & (term->a - 1)) == 0)
    return LLVMBuildAnd(m->b, value, dt__emit_i64(m, term->a - 1), "");
  uint8_t kind = d->tree->slots[term->slot].kind;
  if (kind == DT_SLOT_SIZE || kind == DT_SLOT_COUNT)
    return LLVMBuildURem(m->b, value, by, "");
  LLVMValueRef rest = LLVMBuildSRem(m->b, value, by, "");
  LLVMValueRef below = LLVMBuildICmp(m->b, LLVMIntSLT, rest, dt__emit_i64(m, 0), "");
  return LLVMBuildSelect(m->b, below, LLVMBuildAdd(m->b, rest, by, ""), rest, "");
}

// i1: lo <= value <= hi
static LLVMValueRef in_interval(dt_decide_t *d, LLVMValueRef value, int64_t lo, int64_t hi) {
  dt_emit_t *m = &d->m;
  if (lo == INT64_MIN)
    return LLVMBuildICmp(m->b, LLVMIntSLE, value, dt__emit_i64(m, hi), "");
  if (hi == INT64_MAX)
    return LLVMBuildICmp(m->b, LLVMIntSGE, value, dt__emit_i64(m, lo), "");
  if (lo == hi)
    return LLVMBuildICmp(m->b, LLVMIntEQ, value, dt__emit_i64(m, lo), "");
  LLVMValueRef above = LLVMBuildSub(m->b, value, dt__emit_i64(m, lo), "");
  int64_t width = (int64_t)((uint64_t)hi - (uint64_t)lo);
  return LLVMBuildICmp(m->b, LLVMIntULE, above, dt__emit_i64(m, width), "");
}

// i1: the sign of a comparison lies in [lo, hi].
static LLVMValueRef sign_in(dt_decide_t *d, const dt_term_t *term, int64_t lo, int64_t hi) {
  static const LLVMIntPredicate predicates[8] = {
      [1] = LLVMIntSLT, [2] = LLVMIntEQ, [3] = LLVMIntSLE, [4] = LLVMIntSGT, [6] = LLVMIntSGE};
  dt_emit_t *m = &d->m;
  uint32_t set = 0;
  for (int64_t sign = -1; sign <= 1; sign++)
    set |= (uint32_t)(lo <= sign && sign <= hi) << (sign + 1);
  if (set == 0 || set == 7)
    return LLVMConstInt(m->t_i1, set == 7, 0);
  LLVMValueRef a = dt__decide_slot(d, term->slot), b = dt__decide_slot(d, term->other);
  return LLVMBuildICmp(m->b, predicates[set], a, b, "");
}

// i1: the answer to a node's question.
static LLVMValueRef answer(dt_decide_t *d, const dt_tree_node_t *node) {
  dt_emit_t *m = &d->m;
  const dt_term_t *term = &d->tree->terms[node->term];
  if (node->lo == INT64_MIN && node->hi == INT64_MAX)
    return LLVMConstInt(m->t_i1, 1, 0);
  switch ((dt_term_kind_t)term->kind) {
  case DT_TERM_SIGN:
    return sign_in(d, term, node->lo, node->hi);
  case DT_TERM_EXPR: {
    LLVMValueRef holds = dt__decide_expr(d, term);
    bool no = node->lo <= 0 && node->hi >= 0, yes = node->lo <= 1 && node->hi >= 1;
    if (no == yes)
      return LLVMConstInt(m->t_i1, yes, 0);
    return yes ? holds : LLVMBuildNot(m->b, holds, "");
  }
  case DT_TERM_MOD:
    return in_interval(d, remainder_of(d, term), node->lo, node->hi);
  case DT_TERM_MASK: {
    LLVMValueRef value = dt__decide_slot(d, term->slot);
    value = LLVMBuildAnd(m->b, value, dt__emit_i64(m, term->a), "");
    return in_interval(d, value, node->lo, node->hi);
  }
  case DT_TERM_SLOT:
    break;
  }
  return in_interval(d, dt__decide_slot(d, term->slot), node->lo, node->hi);
}

// The bits in which a term differs from the literal it must be, where that is cheap; else NULL.
static LLVMValueRef differing(dt_decide_t *d, const dt_tree_node_t *node) {
  const dt_term_t *term = &d->tree->terms[node->term];
  if (node->lo != node->hi)
    return NULL;
  switch ((dt_term_kind_t)term->kind) {
  case DT_TERM_MASK: {
    const dt_slot_t *slot = &d->tree->slots[term->slot];
    int64_t header = term->a & ~(DT_GUARD_KEY_CONTIGUOUS | DT_GUARD_KEY_ORDER);
    if (slot->kind == DT_SLOT_KEY && header == DT_GUARD_KEY_HEADER)
      return key_difference(d, slot->index, term->a, node->lo);
    LLVMValueRef value = dt__decide_slot(d, term->slot);
    return difference(d, LLVMBuildAnd(d->m.b, value, dt__emit_i64(&d->m, term->a), ""), node->lo);
  }
  case DT_TERM_SLOT:
    return difference(d, dt__decide_slot(d, term->slot), node->lo);
  case DT_TERM_SIGN:
    if (node->lo != 0)
      return NULL;
    return LLVMBuildXor(d->m.b, dt__decide_slot(d, term->slot), dt__decide_slot(d, term->other),
                        "");
  case DT_TERM_MOD:
    return difference(d, remainder_of(d, term), node->lo);
  case DT_TERM_EXPR:
    break;
  }
  return NULL;
}

// ---- Blocks ---------------------------------------------------------------------------------------
typedef struct emit_tree_t {
  dt_decide_t *d;
  LLVMBasicBlockRef *blocks; // by node; NULL: not asked for yet
  LLVMBasicBlockRef miss;
  LLVMBasicBlockRef *hits; // by variant
  uint32_t *uses;          // by node: how many ways lead here
  uint32_t *work;          // nodes whose block is to be filled
  uint32_t n_work;
} emit_tree_t;

static const dt_tree_node_t *node_at(const emit_tree_t *e, dt_tree_ref_t ref) {
  bool is_node = ref != DT_TREE_MISS && !(ref & DT_TREE_HIT);
  return is_node ? &e->d->tree->nodes[ref - 1] : NULL;
}

static LLVMBasicBlockRef block_of(emit_tree_t *e, dt_tree_ref_t ref) {
  if (ref == DT_TREE_MISS)
    return e->miss;
  LLVMBasicBlockRef *at = ref & DT_TREE_HIT ? &e->hits[ref & ~DT_TREE_HIT] : &e->blocks[ref - 1];
  if (!*at) {
    *at = dt__emit_block(&e->d->m, e->d->fn, "");
    if (!(ref & DT_TREE_HIT))
      e->work[e->n_work++] = ref - 1;
  }
  return *at;
}

static bool is_header(const dt_tree_t *tree, const dt_tree_node_t *node) {
  return tree->terms[node->term].kind == DT_TERM_MASK;
}

// The node's test, where the way on is that which does not lead to `out`.
static void add_test(dt_decide_t *d, tests_t *tests, const dt_tree_node_t *node,
                     dt_tree_ref_t out) {
  bool on_yes = node->no == out;
  LLVMValueRef bits = on_yes ? differing(d, node) : NULL;
  if (bits) {
    add_difference(d, tests, bits);
    return;
  }
  LLVMValueRef yes = answer(d, node);
  add_good(d, tests, on_yes ? yes : LLVMBuildNot(d->m.b, yes, ""));
}

// Whether the test of `ref` may join a block that leaves to `out` and has had a header test.
static bool joins(const emit_tree_t *e, dt_tree_ref_t ref, dt_tree_ref_t out, bool header) {
  const dt_tree_node_t *node = node_at(e, ref);
  return node && e->uses[ref - 1] == 1 && (node->no == out || node->yes == out) &&
         !(header && e->d->tree->terms[node->term].reads_memory);
}

// Fills the node's block, and with it those that may join. Gives where it goes on.
static dt_tree_ref_t fill_block(emit_tree_t *e, uint32_t index) {
  dt_decide_t *d = e->d;
  dt_emit_t *m = &d->m;
  const dt_tree_node_t *node = &d->tree->nodes[index];
  LLVMPositionBuilderAtEnd(m->b, e->blocks[index]);
  d->block++;
  bool header = is_header(d->tree, node);
  bool by_no = joins(e, node->yes, node->no, header),
       by_yes = joins(e, node->no, node->yes, header);
  dt_tree_ref_t out = by_yes && !by_no ? node->yes : node->no;
  tests_t tests = {0};
  dt_tree_ref_t next = 0;
  for (uint32_t n = 1;; n++) {
    add_test(d, &tests, node, out);
    header |= is_header(d->tree, node);
    next = node->no == out ? node->yes : node->no;
    if (n == MOST_TESTS || !joins(e, next, out, header))
      break;
    node = node_at(e, next);
  }
  if (tests.differs)
    add_good(d, &tests, LLVMBuildICmp(m->b, LLVMIntEQ, tests.differs, dt__emit_i64(m, 0), ""));
  LLVMBuildCondBr(m->b, tests.good, block_of(e, next), block_of(e, out));
  return out == DT_TREE_MISS ? next : DT_TREE_MISS;
}

// The blocks from the root on that can only go on or miss.
static void fill_trunk(emit_tree_t *e) {
  dt_tree_ref_t at = e->d->tree->root;
  LLVMBuildBr(e->d->m.b, block_of(e, at));
  e->d->in_trunk = true;
  while (node_at(e, at) && e->uses[at - 1] <= 1) {
    e->n_work = 0; // the only one
    at = fill_block(e, at - 1);
  }
  e->d->in_trunk = false;
}

// ---- Hits -----------------------------------------------------------------------------------------
// Variants that take the same symbols from the same slots are filled by the same code.
typedef struct filler_t {
  const dt_tree_variant_t *variant; // the first of them
  LLVMBasicBlockRef block;
  LLVMValueRef index; // phi
} filler_t;

static bool same_symbols(const dt_tree_variant_t *a, const dt_tree_variant_t *b) {
  return a->n_symbols == b->n_symbols &&
         memcmp(a->slots, b->slots, a->n_symbols * sizeof(a->slots[0])) == 0;
}

static void fill_symbols(dt_decide_t *d, const filler_t *filler) {
  dt_emit_t *m = &d->m;
  LLVMPositionBuilderAtEnd(m->b, filler->block);
  filler_t mine = *filler;
  d->block++;
  for (uint32_t k = 0; k < mine.variant->n_symbols; k++) {
    uint32_t slot = mine.variant->slots[k];
    LLVMValueRef value = slot == DT_TREE_ZERO ? dt__emit_i64(m, 0) : dt__decide_slot(d, slot);
    LLVMValueRef at = dt__emit_offset(m, d->symbols, dt__emit_i64(m, (int64_t)k * 8));
    LLVMBuildStore(m->b, value, at);
  }
  LLVMBuildRet(m->b, mine.index);
}

static dt_status_t fill_hits(emit_tree_t *e) {
  dt_decide_t *d = e->d;
  dt_emit_t *m = &d->m;
  filler_t *fillers = DT_ARENA_ARRAY(&m->arena, filler_t, d->tree->n_variants + 1);
  if (!fillers)
    return DT_NO_MEMORY();
  uint32_t n = 0;
  for (uint32_t v = 0; v < d->tree->n_variants; v++) {
    if (!e->hits[v])
      continue;
    const dt_tree_variant_t *variant = &d->tree->variants[v];
    uint32_t k = 0;
    while (k < n && !same_symbols(fillers[k].variant, variant))
      k++;
    if (k == n) {
      filler_t *f = &fillers[n++];
      f->variant = variant;
      f->block = dt__emit_block(m, d->fn, "hit");
      LLVMPositionBuilderAtEnd(m->b, f->block);
      f->index = LLVMBuildPhi(m->b, m->t_i64, "");
    }
    LLVMPositionBuilderAtEnd(m->b, e->hits[v]);
    LLVMBuildBr(m->b, fillers[k].block);
    LLVMValueRef index = dt__emit_i64(m, v);
    LLVMAddIncoming(fillers[k].index, &index, &e->hits[v], 1);
  }
  for (uint32_t k = 0; k < n; k++)
    fill_symbols(d, &fillers[k]);
  return NULL;
}

// ---- The function ---------------------------------------------------------------------------------
static void count_use(emit_tree_t *e, dt_tree_ref_t ref) {
  if (node_at(e, ref))
    e->uses[ref - 1]++;
}

static dt_status_t make_room(emit_tree_t *e) {
  dt_decide_t *d = e->d;
  const dt_tree_t *tree = d->tree;
  dt_arena_t *arena = &d->m.arena;
  uint32_t n_inputs = 0;
  for (uint32_t k = 0; k < tree->n_slots; k++)
    if (tree->slots[k].kind != DT_SLOT_CAPTURE && tree->slots[k].index >= n_inputs)
      n_inputs = tree->slots[k].index + 1u;
  d->slots = DT_ARENA_ARRAY(arena, dt_loaded_t, tree->n_slots + 1);
  d->inputs = DT_ARENA_ARRAY(arena, dt_loaded_t, n_inputs + 1);
  e->blocks = DT_ARENA_ARRAY(arena, LLVMBasicBlockRef, tree->n_nodes + 1);
  e->hits = DT_ARENA_ARRAY(arena, LLVMBasicBlockRef, tree->n_variants + 1);
  e->uses = DT_ARENA_ARRAY(arena, uint32_t, tree->n_nodes + 1);
  e->work = DT_ARENA_ARRAY(arena, uint32_t, tree->n_nodes + 1);
  if (!d->slots || !d->inputs || !e->blocks || !e->hits || !e->uses || !e->work)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < tree->n_nodes; k++) {
    count_use(e, tree->nodes[k].yes);
    count_use(e, tree->nodes[k].no);
  }
  return NULL;
}

static dt_status_t emit_tree(dt_decide_t *d) {
  dt_emit_t *m = &d->m;
  LLVMTypeRef params[2] = {m->t_ptr, m->t_ptr};
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, params, 2, 0);
  d->fn = dt__emit_function(m, "dt_decide", type, true);
  d->args = LLVMGetParam(d->fn, 0);
  d->symbols = LLVMGetParam(d->fn, 1);
  emit_tree_t e = {.d = d};
  DT_TRY(make_room(&e));
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, d->fn, "entry"));
  LLVMBasicBlockRef entry = LLVMGetInsertBlock(m->b);
  e.miss = dt__emit_block(m, d->fn, "miss");
  LLVMPositionBuilderAtEnd(m->b, e.miss);
  LLVMBuildRet(m->b, dt__emit_i64(m, -1));
  LLVMPositionBuilderAtEnd(m->b, entry);
  fill_trunk(&e);
  while (e.n_work > 0)
    (void)fill_block(&e, e.work[--e.n_work]);
  return fill_hits(&e);
}

dt_status_t dt__llvm_compile_decider(const dt_tree_t *tree, const dt_target_t *target,
                                     const dt_compile_options_t *options, void **out_object,
                                     size_t *out_bytes) {
  *out_object = NULL;
  *out_bytes = 0;
  dt_decide_t d = {.tree = tree};
  DT_TRY(dt__emit_init(&d.m, NULL, target, options, "ductile.decide"));
  d.t_i128 = LLVMIntTypeInContext(d.m.context, 128);
  dt_status_t status = emit_tree(&d);
  if (!status)
    status = dt__emit_finish(&d.m, NULL, false, options, 45, out_object, out_bytes);
  dt__emit_fini(&d.m);
  return status;
}
