// SPDX-License-Identifier: Apache-2.0
// Decoders of instructions on values that are no plain scalar operation: moves, conversions,
// comparisons, selections, carries, addresses.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

static bool fail_form(ptx_reader_t *r) {
  return ptx_fail(r, r->statement.line, "\"%.*s\" in a form that is not simulated",
                  (int)r->statement.parts[0].n, r->statement.parts[0].at);
}

// ---- Moves ----------------------------------------------------------------------------------------

static bool decode_vector_move(ptx_reader_t *r, ptx_type_t type, bool pack) {
  ptx_insn_t in = {0};
  uint32_t n = ptx_operand(r, pack ? 1 : 0)->n, bytes = ptx_type_bytes(type);
  if (n == 0 || n > 4 || bytes % n)
    return fail_form(r);
  static const ptx_type_t parts[] = {[1] = PTX_B8, [2] = PTX_B16, [4] = PTX_B32, [8] = PTX_B64};
  uint32_t one = bytes / n;
  if (one > 8 || !parts[one])
    return fail_form(r);
  if (pack) {
    in.out[0] = ptx_dest(r, ptx_operand(r, 0));
    in.n_in = (uint8_t)ptx_sources(r, ptx_operand(r, 1), parts[one], in.in, 4);
  } else {
    in.n_out = (uint8_t)ptx_dests(r, ptx_operand(r, 0), in.out, 4);
    in.in[0] = ptx_source(r, ptx_operand(r, 1), type);
  }
  if (bytes > 8)
    return fail_form(r);
  ptx_insn_t *insn = ptx_emit(r, pack ? ptx_exec_pack : ptx_exec_unpack);
  memcpy(insn->out, in.out, sizeof(in.out));
  memcpy(insn->in, in.in, sizeof(in.in));
  insn->n_in = in.n_in;
  insn->n_out = in.n_out;
  insn->width = (uint8_t)one;
  return ptx_done(r);
}

static bool decode_clock(ptx_reader_t *r, ptx_type_t type) {
  ptx_slice_t name = ptx_operand(r, 1)->name;
  static const char *const names[] = {"%clock",       "%clock64",        "%clock_hi",
                                      "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};
  for (uint32_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
    if (!ptx_is(name, names[k]))
      continue;
    int32_t out = ptx_dest(r, ptx_operand(r, 0));
    ptx_insn_t *in = ptx_emit(r, ptx_exec_clock);
    in->out[0] = out;
    in->type = (uint8_t)type;
    in->mode = (uint8_t)(k == 2 || k == 5); // the upper half
    return ptx_done(r);
  }
  return false;
}

static bool decode_mov(ptx_reader_t *r) {
  ptx_type_t type = ptx_take_type(r);
  if (!ptx_count(r, 2, 2))
    return false;
  const ptx_operand_t *to = ptx_operand(r, 0), *from = ptx_operand(r, 1);
  if (to->kind == PTX_OP_VECTOR || from->kind == PTX_OP_VECTOR)
    return decode_vector_move(r, type, from->kind == PTX_OP_VECTOR);
  if (from->kind == PTX_OP_NAME && from->name.n && from->name.at[0] == '%' && decode_clock(r, type))
    return true;
  uint32_t bytes = ptx_type_bytes(type);
  if (bytes > 8)
    return fail_form(r);
  int32_t out = ptx_dest(r, to), source = ptx_source(r, from, type);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_unary);
  in->scalar = ptx_moves[bytes];
  in->type = (uint8_t)type;
  in->out[0] = out;
  in->in[0] = source;
  return ptx_done(r);
}

// ---- Conversions ----------------------------------------------------------------------------------

static bool decode_cvt(ptx_reader_t *r) {
  ptx_insn_t flags = {0};
  if (ptx_take(r, "pack"))
    return fail_form(r);
  ptx_take_float(r, &flags);
  ptx_type_t to = ptx_take_type(r), from = ptx_take_type(r);
  uint8_t n = 1;
  ptx_scalar_t scalar = ptx_conversion(to, from, &n);
  if (!scalar || flags.nan || flags.approx)
    return fail_form(r);
  if (!ptx_count(r, n + 1u, n + 1u))
    return false;
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), from);
  int32_t b = n == 2 ? ptx_source(r, ptx_operand(r, 2), from) : 0;
  ptx_insn_t *in = ptx_emit(r, n == 2 ? ptx_exec_binary : ptx_exec_unary);
  in->scalar = scalar;
  in->type = (uint8_t)to;
  in->from = (uint8_t)from;
  in->round = flags.round, in->integral = flags.integral;
  in->ftz = flags.ftz, in->sat = flags.sat, in->relu = flags.relu;
  in->out[0] = out;
  in->in[0] = a, in->in[1] = b;
  return ptx_done(r);
}

// ---- Comparisons ------------------------------------------------------------------------------------

// Unordered comparisons are the ordered ones' names with u, and hold for what is not a number;
// lo, ls, hi, hs are those of unsigned numbers.
static bool take_compare(ptx_reader_t *r, ptx_insn_t *in) {
  static const struct {
    uint8_t compare;
    bool unordered;
  } rows[] = {{PTX_EQ, 0}, {PTX_NE, 0}, {PTX_LT, 0}, {PTX_LE, 0}, {PTX_GT, 0},  {PTX_GE, 0},
              {PTX_EQ, 1}, {PTX_NE, 1}, {PTX_LT, 1}, {PTX_LE, 1}, {PTX_GT, 1},  {PTX_GE, 1},
              {PTX_LT, 0}, {PTX_LE, 0}, {PTX_GT, 0}, {PTX_GE, 0}, {PTX_NUM, 0}, {PTX_NAN, 1}};
  int k = ptx_take_one(r, "eq ne lt le gt ge equ neu ltu leu gtu geu lo ls hi hs num nan");
  if (k < 0)
    return ptx_fail(r, r->statement.line, "a comparison expected in the opcode");
  in->compare = rows[k].compare;
  in->nan = rows[k].unordered;
  int combine = ptx_take_one(r, "and or xor");
  in->combine = (uint8_t)(combine + 1);
  in->ftz = ptx_take(r, "ftz");
  return true;
}

// setp.lt.and.s32 p|q, a, b, !c; and set, with a number instead of the predicates.
static bool decode_compare(ptx_reader_t *r, bool set) {
  ptx_insn_t in = {0};
  if (!take_compare(r, &in))
    return false;
  if (set)
    in.type = (uint8_t)ptx_take_type(r);
  in.from = (uint8_t)ptx_take_type(r);
  uint32_t n = in.combine ? 4 : 3;
  if (!ptx_count(r, n, n))
    return false;
  ptx_operand_t to = *ptx_operand(r, 0);
  if (to.second.n && set)
    return fail_form(r);
  in.out[0] = ptx_dest(r, &to);
  to.name = to.second;
  in.out[1] = to.second.n ? ptx_dest(r, &to) : PTX_SINK;
  in.in[0] = ptx_source(r, ptx_operand(r, 1), in.from);
  in.in[1] = ptx_source(r, ptx_operand(r, 2), in.from);
  if (in.combine) {
    ptx_operand_t with = *ptx_operand(r, 3);
    in.in_not = with.negated ? 4 : 0;
    with.negated = false;
    in.in[2] = ptx_source(r, &with, PTX_PRED);
  }
  ptx_insn_t *insn = ptx_emit(r, set ? ptx_exec_set : ptx_exec_compare);
  in.exec = insn->exec, in.line = insn->line, in.guard = insn->guard;
  in.guard_not = insn->guard_not, in.target = insn->target;
  *insn = in;
  return ptx_done(r);
}
static bool decode_setp(ptx_reader_t *r) { return decode_compare(r, false); }
static bool decode_set(ptx_reader_t *r) { return decode_compare(r, true); }

static bool decode_selp(ptx_reader_t *r) {
  ptx_type_t type = ptx_take_type(r);
  if (!ptx_count(r, 4, 4))
    return false;
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  int32_t b = ptx_source(r, ptx_operand(r, 2), type);
  int32_t p = ptx_source(r, ptx_operand(r, 3), PTX_PRED);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_select);
  in->type = (uint8_t)type;
  in->out[0] = out;
  in->in[0] = a, in->in[1] = b, in->in[2] = p;
  return ptx_done(r);
}

// slct.f32.s32 d, a, b, c: a where c is not below zero.
static bool decode_slct(ptx_reader_t *r) {
  bool ftz = ptx_take(r, "ftz");
  ptx_type_t type = ptx_take_type(r), from = ptx_take_type(r);
  if (!ptx_count(r, 4, 4))
    return false;
  if (from != PTX_S32 && from != PTX_F32)
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  int32_t b = ptx_source(r, ptx_operand(r, 2), type), c = ptx_source(r, ptx_operand(r, 3), from);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_slct);
  in->type = (uint8_t)type;
  in->from = (uint8_t)from;
  in->ftz = ftz;
  in->out[0] = out;
  in->in[0] = a, in->in[1] = b, in->in[2] = c;
  return ptx_done(r);
}

static bool decode_testp(ptx_reader_t *r) {
  int mode = ptx_take_one(r, "finite infinite number notanumber normal subnormal");
  ptx_type_t type = ptx_take_type(r);
  if (!ptx_count(r, 2, 2))
    return false;
  if (mode < 0 || (type != PTX_F32 && type != PTX_F64))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_test);
  in->type = (uint8_t)type;
  in->mode = (uint8_t)mode;
  in->out[0] = out;
  in->in[0] = a;
  return ptx_done(r);
}

// ---- Carries --------------------------------------------------------------------------------------

// add.cc, addc, sub.cc, subc, mad.lo.cc, madc.lo: in->action says minus, mode reads the carry,
// width writes it, and space says which half of a product comes first.
static bool decode_carry(ptx_reader_t *r, bool minus, bool reads, bool product) {
  bool writes = ptx_take(r, "cc");
  int half = product ? ptx_take_one(r, "lo hi") : -1;
  ptx_type_t type = ptx_take_type(r);
  uint32_t n = product ? 4 : 3, bytes = ptx_type_bytes(type);
  if (!ptx_count(r, n, n))
    return false;
  if ((bytes != 4 && bytes != 8) || (product && half < 0))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), source[3] = {0};
  for (uint32_t k = 0; k + 1 < n; k++)
    source[k] = ptx_source(r, ptx_operand(r, k + 1), type);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_carry);
  in->type = (uint8_t)type;
  in->action = minus;
  in->mode = reads;
  in->width = writes;
  in->space = (uint8_t)(half + 1);
  in->out[0] = out;
  memcpy(in->in, source, sizeof(source));
  return ptx_done(r);
}
static bool has_part(const ptx_reader_t *r, const char *part) {
  const ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++)
    if (ptx_is(s->parts[k], part))
      return true;
  return false;
}
static bool decode_addc(ptx_reader_t *r) { return decode_carry(r, false, true, false); }
static bool decode_subc(ptx_reader_t *r) { return decode_carry(r, true, true, false); }
static bool decode_madc(ptx_reader_t *r) { return decode_carry(r, false, true, true); }
bool ptx_decode_with_carry(ptx_reader_t *r, bool *out_was) {
  const ptx_statement_t *s = &r->statement;
  *out_was = has_part(r, "cc");
  if (*out_was && ptx_is(s->parts[0], "add"))
    return decode_carry(r, false, false, false);
  if (*out_was && ptx_is(s->parts[0], "sub"))
    return decode_carry(r, true, false, false);
  if (*out_was && ptx_is(s->parts[0], "mad"))
    return decode_carry(r, false, false, true);
  *out_was = false;
  return true;
}

// ---- Addresses ------------------------------------------------------------------------------------

static bool decode_cvta(ptx_reader_t *r) {
  bool to = ptx_take(r, "to");
  ptx_space_t space = ptx_take_space(r);
  ptx_type_t type = ptx_take_type(r);
  if (!ptx_count(r, 2, 2))
    return false;
  if (space == PTX_GENERIC || (type != PTX_U64 && type != PTX_B64))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  ptx_insn_t *in = ptx_emit(r, to ? ptx_exec_to_space : ptx_exec_to_generic);
  in->space = (uint8_t)space;
  in->out[0] = out;
  in->in[0] = a;
  return ptx_done(r);
}

static bool decode_isspacep(ptx_reader_t *r) {
  ptx_space_t space = ptx_take_space(r);
  if (!ptx_count(r, 2, 2))
    return false;
  if (space == PTX_GENERIC || space == PTX_CONST)
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), PTX_U64);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_is_space);
  in->space = (uint8_t)space;
  in->out[0] = out;
  in->in[0] = a;
  return ptx_done(r);
}

// mapa.shared::cluster.u64 d, a, rank: a place of this block's shared memory in another's
static bool decode_mapa(ptx_reader_t *r) {
  ptx_space_t space = ptx_take_space(r);
  ptx_type_t type = ptx_take_type(r);
  if (space != PTX_SHARED || (type != PTX_U64 && type != PTX_U32) || !ptx_count(r, 3, 3))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  int32_t rank = ptx_source(r, ptx_operand(r, 2), PTX_U32);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_map_beside);
  in->out[0] = out;
  in->in[0] = a, in->in[1] = rank;
  return ptx_done(r);
}

const ptx_opcode_t ptx_value_opcodes[] = {
    {"mapa", decode_mapa},         {"mov", decode_mov},
    {"cvt", decode_cvt},           {"setp", decode_setp},
    {"set", decode_set},           {"selp", decode_selp},
    {"slct", decode_slct},         {"testp", decode_testp},
    {"addc", decode_addc},         {"subc", decode_subc},
    {"madc", decode_madc},         {"cvta", decode_cvta},
    {"isspacep", decode_isspacep}, {NULL, NULL},
};
