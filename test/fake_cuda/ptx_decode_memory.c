// SPDX-License-Identifier: Apache-2.0
// Decoders of instructions on memory: loads, stores, atomics, asynchronous copies, fences,
// matrices.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

#define HINTS                                                                                      \
  "ca cg cs lu cv wb wt nc weak cta gpu sys cluster L1::evict_normal L1::evict_unchanged "         \
  "L1::evict_first L1::evict_last L1::no_allocate L2::evict_normal L2::evict_first "               \
  "L2::evict_last L2::64B L2::128B L2::256B"

static bool fail_form(ptx_reader_t *r) {
  return ptx_fail(r, r->statement.line, "\"%.*s\" in a form that is not simulated",
                  (int)r->statement.parts[0].n, r->statement.parts[0].at);
}

static uint8_t take_width(ptx_reader_t *r) {
  int k = ptx_take_one(r, "v2 v4 v8");
  return (uint8_t)(k < 0 ? 1 : 2 << k);
}

// A policy for the cache is one more operand, which says nothing here.
static bool count_with_policy(ptx_reader_t *r, uint32_t n) {
  n += ptx_take(r, "L2::cache_hint");
  return ptx_count(r, n, n);
}

// ---- Loads and stores -------------------------------------------------------------------------------

// A place in a parameter of a call or of the function: a slot and bytes in it.
static bool slot_place(ptx_reader_t *r, ptx_insn_t *in, const ptx_symbol_t *symbol, int64_t offset,
                       uint32_t bytes) {
  if (offset < 0 || offset + bytes > symbol->bytes || (uint64_t)offset % ptx_type_bytes(in->type))
    return ptx_fail(r, r->statement.line, "beyond the parameter's %u bytes", symbol->bytes);
  in->in[0] = symbol->slot;
  in->offset = offset;
  return true;
}

static void fill(ptx_insn_t *to, ptx_insn_t from) {
  from.exec = to->exec, from.line = to->line, from.target = to->target;
  from.guard = to->guard, from.guard_not = to->guard_not;
  *to = from;
}

typedef struct access_t {
  ptx_insn_t in;
  const ptx_operand_t *at, *values;
  const ptx_symbol_t *slot; // the parameter that it means; NULL: memory
} access_t;

static bool take_access(ptx_reader_t *r, access_t *a, bool load) {
  a->in.strong = ptx_take_one(r, "volatile relaxed acquire release mmio") >= 0;
  ptx_space_t space = ptx_take_space(r);
  ptx_take_all(r, HINTS);
  a->in.space = (uint8_t)space;
  a->in.width = take_width(r);
  ptx_type_t type = ptx_take_type(r);
  a->in.type = (uint8_t)type;
  if (!count_with_policy(r, 2))
    return false;
  if (type == PTX_PRED || ptx_type_bytes(type) > 8 || a->in.width > 4 ||
      a->in.width * ptx_type_bytes(type) > 16)
    return fail_form(r);
  a->at = ptx_operand(r, load ? 1 : 0);
  a->values = ptx_operand(r, load ? 0 : 1);
  if (a->at->kind == PTX_OP_ADDRESS && space == PTX_PARAM) {
    const ptx_symbol_t *symbol = ptx_param_at(r, a->at);
    a->slot = symbol && symbol->slot >= 0 ? symbol : NULL;
  }
  if (a->slot)
    return slot_place(r, &a->in, a->slot, a->at->offset, a->in.width * ptx_type_bytes(type));
  return ptx_address(r, &a->in, a->at);
}

static bool decode_ld(ptx_reader_t *r) {
  access_t a = {0};
  if (!take_access(r, &a, true))
    return false;
  a.in.n_out = (uint8_t)ptx_dests(r, a.values, a.in.out, 4);
  if (a.in.n_out != a.in.width)
    return fail_form(r);
  bool param = a.in.space == PTX_PARAM;
  fill(ptx_emit(r, a.slot  ? ptx_exec_load_slot
                   : param ? ptx_exec_load_param
                           : ptx_exec_load),
       a.in);
  return ptx_done(r);
}

static bool decode_st(ptx_reader_t *r) {
  access_t a = {0};
  if (!take_access(r, &a, false))
    return false;
  if ((a.in.space == PTX_PARAM && !a.slot) || a.in.space == PTX_CONST)
    return fail_form(r);
  uint32_t n = ptx_sources(r, a.values, a.in.type, a.in.in + 1, 4);
  a.in.n_in = (uint8_t)n;
  if (n != a.in.width)
    return fail_form(r);
  fill(ptx_emit(r, a.slot ? ptx_exec_store_slot : ptx_exec_store), a.in);
  return ptx_done(r);
}

// ---- Atomics ----------------------------------------------------------------------------------------

static bool atomic_fits(const ptx_insn_t *in) {
  uint32_t bytes = ptx_type_bytes(in->type);
  ptx_kind_t kind = ptx_type_kind(in->type);
  bool half = in->type == PTX_F16 || in->type == PTX_BF16 || in->type == PTX_F16X2 ||
              in->type == PTX_BF16X2;
  if (kind == PTX_FLOAT || half)
    return in->action == PTX_ADD;
  if (in->action == PTX_CAS && bytes == 2)
    return true;
  return bytes == 4 || bytes == 8;
}

static bool decode_atomic(ptx_reader_t *r, bool returns) {
  ptx_insn_t in = {0};
  ptx_take_all(r, "relaxed acquire release acq_rel cta gpu sys cluster noftz");
  in.space = (uint8_t)ptx_take_space(r);
  int action = ptx_take_one(r, "add min max and or xor exch cas inc dec");
  in.type = (uint8_t)ptx_take_type(r);
  if (action < 0)
    return fail_form(r);
  in.action = (uint8_t)action;
  bool cas = action == PTX_CAS;
  if (!count_with_policy(r, 2u + returns + cas))
    return false;
  if (!atomic_fits(&in) ||
      (in.space != PTX_GENERIC && in.space != PTX_GLOBAL && in.space != PTX_SHARED))
    return fail_form(r);
  in.out[0] = returns ? ptx_dest(r, ptx_operand(r, 0)) : PTX_SINK;
  if (!ptx_address(r, &in, ptx_operand(r, returns)))
    return false;
  in.in[1] = ptx_source(r, ptx_operand(r, 1u + returns), in.type);
  in.in[2] = cas ? ptx_source(r, ptx_operand(r, 2u + returns), in.type) : 0;
  fill(ptx_emit(r, ptx_exec_atomic), in);
  return ptx_done(r);
}
static bool decode_atom(ptx_reader_t *r) { return decode_atomic(r, true); }
static bool decode_red(ptx_reader_t *r) { return decode_atomic(r, false); }

// ---- Asynchronous copies ----------------------------------------------------------------------------

static bool constant_operand(ptx_reader_t *r, uint32_t k, uint64_t *out) {
  const ptx_operand_t *operand = ptx_operand(r, k);
  if (operand->kind != PTX_OP_NUMBER || operand->number != PTX_INTEGER)
    return ptx_fail(r, r->statement.line, "operand %u must be an integer constant", k + 1);
  *out = operand->bits;
  return true;
}

static bool decode_groups(ptx_reader_t *r) {
  bool commit = ptx_take(r, "commit_group"), some = ptx_take(r, "wait_group");
  uint64_t n = 0;
  if (!commit && !some && !ptx_take(r, "wait_all"))
    return fail_form(r);
  if (some && (!ptx_count(r, 1, 1) || !constant_operand(r, 0, &n)))
    return false;
  if (!some && r->statement.n)
    return fail_form(r);
  ptx_insn_t *in = ptx_emit(r, commit ? ptx_exec_commit_group : ptx_exec_wait_group);
  in->offset = (int64_t)n;
  in->mode = !some; // everything, committed or not
  return ptx_done(r);
}

// cp.async.cg.shared.global [to], [from], 16, bytes;
static bool decode_cp(ptx_reader_t *r) {
  if (!ptx_take(r, "async"))
    return fail_form(r);
  if (r->statement.n < 2)
    return decode_groups(r);
  ptx_insn_t in = {0}, from = {0};
  int cache = ptx_take_one(r, "ca cg");
  if (cache < 0 || ptx_take_one(r, "shared shared::cta") < 0 || !ptx_take(r, "global"))
    return fail_form(r);
  ptx_take_all(r, "L2::64B L2::128B L2::256B");
  uint64_t bytes = 0;
  if (!ptx_count(r, 3, 4) || !constant_operand(r, 2, &bytes))
    return false;
  if (!(bytes == 16 || (cache == 0 && (bytes == 4 || bytes == 8))))
    return ptx_fail(r, r->statement.line, "an asynchronous copy of %u bytes", (uint32_t)bytes);
  if (!ptx_address(r, &in, ptx_operand(r, 0)) || !ptx_address(r, &from, ptx_operand(r, 1)))
    return false;
  in.in[1] = from.in[0];
  in.second_offset = from.offset;
  in.width = (uint8_t)bytes;
  in.n_in = (uint8_t)r->statement.n;
  if (in.n_in == 4)
    in.in[2] = ptx_source(r, ptx_operand(r, 3), PTX_U32);
  fill(ptx_emit(r, ptx_exec_copy_async), in);
  return ptx_done(r);
}

// ---- What does nothing here -------------------------------------------------------------------------

static bool decode_fence(ptx_reader_t *r) {
  if (ptx_take(r, "proxy")) {
    if (!ptx_take(r, "async") || r->statement.n)
      return fail_form(r);
    ptx_take_all(r, "shared::cta");
    (void)ptx_emit(r, ptx_exec_fence_proxy);
    return ptx_done(r);
  }
  ptx_take_all(r, "sc acq_rel acquire release cta gpu gl sys cluster");
  if (r->statement.n)
    return fail_form(r);
  (void)ptx_emit(r, ptx_exec_nothing);
  return ptx_done(r);
}

static bool decode_prefetch(ptx_reader_t *r) {
  ptx_take_all(r, "L1 L2 global local L2::evict_last L2::evict_normal");
  if (!ptx_count(r, 1, 1))
    return false;
  (void)ptx_emit(r, ptx_exec_nothing);
  return ptx_done(r);
}

static bool decode_griddepcontrol(ptx_reader_t *r) {
  bool wait = ptx_take(r, "wait");
  if (!wait && !ptx_take(r, "launch_dependents"))
    return fail_form(r);
  (void)ptx_emit(r, wait ? ptx_exec_grid_wait : ptx_exec_nothing);
  return ptx_done(r);
}

// ---- Matrices ---------------------------------------------------------------------------------------

static bool decode_matrix(ptx_reader_t *r, bool load) {
  ptx_insn_t in = {0};
  if (!ptx_take(r, "sync") || !ptx_take(r, "aligned") || !ptx_take(r, "m8n8"))
    return fail_form(r);
  int count = ptx_take_one(r, "x1 x2 x4");
  in.mode = ptx_take(r, "trans");
  ptx_space_t space = ptx_take_space(r);
  in.space = (uint8_t)space;
  if (!ptx_take(r, "b16") || count < 0 || (space != PTX_SHARED && space != PTX_GENERIC) ||
      !ptx_count(r, 2, 2))
    return fail_form(r);
  in.width = (uint8_t)(1 << count);
  if (!ptx_address(r, &in, ptx_operand(r, load ? 1 : 0)))
    return false;
  uint32_t n = load ? ptx_dests(r, ptx_operand(r, 0), in.out, 4)
                    : ptx_sources(r, ptx_operand(r, 1), PTX_B32, in.in + 1, 4);
  if (n != in.width)
    return fail_form(r);
  in.flow = PTX_MEET;
  in.members = ptx_members_whole;
  fill(ptx_emit(r, load ? ptx_exec_load_matrix : ptx_exec_store_matrix), in);
  return ptx_done(r);
}
static bool decode_ldmatrix(ptx_reader_t *r) { return decode_matrix(r, true); }
static bool decode_stmatrix(ptx_reader_t *r) { return decode_matrix(r, false); }

// The shapes of mma: types of the result and of the factors, and registers of d, a, b.
typedef struct shape_t {
  const char *name;
  ptx_type_t d, a;
  uint8_t k, n_d, n_a, n_b;
} shape_t;
static const shape_t shapes[] = {
    {"m16n8k16", PTX_F32, PTX_F16, 16, 4, 4, 2}, {"m16n8k16", PTX_F32, PTX_BF16, 16, 4, 4, 2},
    {"m16n8k16", PTX_F16, PTX_F16, 16, 2, 4, 2}, {"m16n8k8", PTX_F32, PTX_F16, 8, 4, 2, 1},
    {"m16n8k8", PTX_F32, PTX_BF16, 8, 4, 2, 1},  {"m16n8k8", PTX_F16, PTX_F16, 8, 2, 2, 1},
    {"m16n8k8", PTX_F32, PTX_TF32, 8, 4, 4, 2},  {"m16n8k4", PTX_F32, PTX_TF32, 4, 4, 2, 1},
    {"m8n8k4", PTX_F64, PTX_F64, 4, 2, 1, 1},
};

static const shape_t *take_shape(ptx_reader_t *r) {
  const ptx_statement_t *s = &r->statement;
  ptx_type_t types[4] = {0};
  uint32_t n = 0;
  for (uint32_t k = 1; k < s->n_parts && n < 4; k++)
    if (ptx_type_of(s->parts[k]) != PTX_NO_TYPE)
      types[n++] = ptx_type_of(s->parts[k]);
  for (size_t k = 0; n == 4 && k < sizeof(shapes) / sizeof(shapes[0]); k++) {
    const shape_t *shape = &shapes[k];
    if (types[0] == shape->d && types[3] == shape->d && types[1] == shape->a &&
        types[2] == shape->a && ptx_take(r, shape->name)) {
      for (n = 0; n < 4; n++)
        (void)ptx_take_type(r);
      return shape;
    }
  }
  return NULL;
}

static bool decode_mma(ptx_reader_t *r) {
  ptx_insn_t in = {0};
  if (!ptx_take(r, "sync") || !ptx_take(r, "aligned") || !ptx_take(r, "row") || !ptx_take(r, "col"))
    return fail_form(r);
  const shape_t *shape = take_shape(r);
  if (!shape || !ptx_count(r, 4, 4))
    return fail_form(r);
  ptx_type_t part = shape->d == PTX_F16 ? PTX_B32 : shape->d;
  ptx_type_t factor = shape->a == PTX_F64 ? PTX_F64 : PTX_B32;
  in.type = (uint8_t)shape->d;
  in.from = (uint8_t)shape->a;
  in.width = shape->k;
  in.n_out = shape->n_d;
  uint32_t d = ptx_dests(r, ptx_operand(r, 0), in.out, 4);
  uint32_t a = ptx_sources(r, ptx_operand(r, 1), factor, in.in, 4);
  uint32_t b = ptx_sources(r, ptx_operand(r, 2), factor, in.in + 4, 2);
  uint32_t c = ptx_sources(r, ptx_operand(r, 3), part, in.in + 6, 4);
  if (d != shape->n_d || c != shape->n_d || a != shape->n_a || b != shape->n_b)
    return fail_form(r);
  in.flow = PTX_MEET;
  in.members = ptx_members_whole;
  fill(ptx_emit(r, ptx_exec_multiply), in);
  return ptx_done(r);
}

const ptx_opcode_t ptx_memory_opcodes[] = {
    {"ld", decode_ld},
    {"ldu", decode_ld},
    {"st", decode_st},
    {"atom", decode_atom},
    {"red", decode_red},
    {"cp", decode_cp},
    {"membar", decode_fence},
    {"fence", decode_fence},
    {"prefetch", decode_prefetch},
    {"prefetchu", decode_prefetch},
    {"griddepcontrol", decode_griddepcontrol},
    {"ldmatrix", decode_ldmatrix},
    {"stmatrix", decode_stmatrix},
    {"mma", decode_mma},
    {"wgmma", ptx_decode_group},
    {NULL, NULL},
};
