// SPDX-License-Identifier: Apache-2.0
// Turns statements into instructions: finds the opcode's row, takes its parts, resolves operands.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

static const char *const special_names[PTX_SPECIAL_COUNT] = {
#define PTX_SPECIAL(id, name) [PTX_SP_##id] = name,
#include "test/fake_cuda/ptx_special.def"
};

// ---- Parts ----------------------------------------------------------------------------------------

bool ptx_take(ptx_reader_t *r, const char *part) {
  ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++)
    if (!s->taken[k] && ptx_is(s->parts[k], part))
      return s->taken[k] = true;
  return false;
}

// The next of words with blanks between; false at the end.
static bool next_word(const char **words, char out[32]) {
  *words += strspn(*words, " ");
  size_t n = strcspn(*words, " ");
  if (n == 0 || n >= 32)
    return false;
  memcpy(out, *words, n);
  out[n] = 0;
  *words += n;
  return true;
}

int ptx_take_one(ptx_reader_t *r, const char *words) {
  char word[32];
  for (int k = 0; next_word(&words, word); k++)
    if (ptx_take(r, word))
      return k;
  return -1;
}

void ptx_take_all(ptx_reader_t *r, const char *words) {
  char word[32];
  while (next_word(&words, word))
    (void)ptx_take(r, word);
}

ptx_type_t ptx_take_type(ptx_reader_t *r) {
  ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++) {
    ptx_type_t type = s->taken[k] ? PTX_NO_TYPE : ptx_type_of(s->parts[k]);
    if (type != PTX_NO_TYPE) {
      s->taken[k] = true;
      return type;
    }
  }
  (void)ptx_fail(r, s->line, "a type expected in the opcode");
  return PTX_B32;
}

ptx_space_t ptx_take_space(ptx_reader_t *r) {
  static const ptx_space_t spaces[] = {PTX_GLOBAL, PTX_SHARED, PTX_SHARED, PTX_SHARED, PTX_LOCAL,
                                       PTX_PARAM,  PTX_PARAM,  PTX_PARAM,  PTX_CONST};
  int k = ptx_take_one(r, "global shared shared::cta shared::cluster local param param::entry "
                          "param::func const");
  return k < 0 ? PTX_GENERIC : spaces[k];
}

void ptx_take_float(ptx_reader_t *r, ptx_insn_t *in) {
  int round = ptx_take_one(r, "rn rz rm rp rna");
  int integral = round < 0 ? ptx_take_one(r, "rni rzi rmi rpi") : -1;
  in->round = (uint8_t)(round >= 0 ? round : integral >= 0 ? integral : PTX_RN);
  in->integral = integral >= 0;
  in->ftz = ptx_take(r, "ftz");
  in->sat = ptx_take(r, "sat");
  in->nan = ptx_take(r, "NaN");
  in->relu = ptx_take(r, "relu");
  in->approx = ptx_take_one(r, "approx full") >= 0;
}

bool ptx_done(ptx_reader_t *r) {
  const ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++)
    if (!s->taken[k])
      return ptx_fail(r, s->line, "\"%.*s\" does not simulate with \".%.*s\"", (int)s->parts[0].n,
                      s->parts[0].at, (int)s->parts[k].n, s->parts[k].at);
  return !r->failed;
}

// ---- Operands -------------------------------------------------------------------------------------

ptx_operand_t *ptx_operand(ptx_reader_t *r, uint32_t k) {
  ptx_statement_t *s = &r->statement;
  return &s->all[s->operand[k < s->n ? k : 0]];
}

bool ptx_count(ptx_reader_t *r, uint32_t least, uint32_t most) {
  const ptx_statement_t *s = &r->statement;
  if (s->n >= least && s->n <= most && s->n > 0)
    return true;
  return ptx_fail(r, s->line, "%u operands, where %u to %u are taken", s->n, least, most);
}

int32_t ptx_constant(ptx_reader_t *r, uint64_t bits) {
  ptx_module_t *m = r->module;
  uint32_t from = m->n_constants > 32 ? m->n_constants - 32 : 0; // recent ones are shared
  for (uint32_t k = from; k < m->n_constants; k++) {
    bool patched = false;
    for (uint32_t p = 0; p < m->n_patches; p++)
      patched |= m->patches[p].constant == k;
    if (!patched && m->constants[k] == bits)
      return ~(int32_t)k;
  }
  uint64_t *slot = PTX_GROW(m->constants, m->n_constants);
  *slot = bits;
  return ~(int32_t)(m->n_constants - 1);
}

// The address of a variable, plus an offset.
static int32_t variable_address(ptx_reader_t *r, uint32_t variable, int64_t offset) {
  ptx_module_t *m = r->module;
  uint64_t *slot = PTX_GROW(m->constants, m->n_constants);
  *slot = (uint64_t)offset;
  ptx_patch_t *patch = PTX_GROW(m->patches, m->n_patches);
  *patch = (ptx_patch_t){m->n_constants - 1, variable, r->function};
  return ~(int32_t)(m->n_constants - 1);
}

int32_t ptx_register(ptx_reader_t *r, ptx_slice_t name) {
  uint32_t index;
  const ptx_symbol_t *symbol = ptx_find(r, name, &index);
  if (!symbol || symbol->kind != PTX_SYM_REGISTER) {
    (void)ptx_fail(r, r->statement.line, "no register \"%.*s\"", (int)name.n, name.at);
    return 0;
  }
  return symbol->slot + (int32_t)index;
}

static int32_t named_source(ptx_reader_t *r, const ptx_operand_t *operand) {
  for (int32_t k = 0; k < PTX_SPECIAL_COUNT; k++)
    if (ptx_is(operand->name, special_names[k]))
      return k;
  uint32_t index;
  const ptx_symbol_t *symbol = ptx_find(r, operand->name, &index);
  if (symbol && symbol->kind == PTX_SYM_VARIABLE)
    return variable_address(r, symbol->variable, operand->offset);
  if (symbol && symbol->kind == PTX_SYM_PARAM && symbol->slot < 0)
    return ptx_constant(r, symbol->offset + (uint64_t)operand->offset);
  if (symbol && symbol->kind == PTX_SYM_PARAM) {
    (void)ptx_fail(r, r->statement.line, "the address of a function's parameter");
    return 0;
  }
  return ptx_register(r, operand->name);
}

static uint64_t number_bits(ptx_reader_t *r, const ptx_operand_t *operand, ptx_type_t type) {
  uint32_t bytes = ptx_type_bytes(type);
  uint64_t bits = operand->bits;
  if (type == PTX_PRED)
    return bits != 0;
  if (operand->number == PTX_SINGLE && bytes != 4)
    (void)ptx_fail(r, r->statement.line, "a 32-bit float where %u bytes are taken", bytes);
  if (operand->number == PTX_DOUBLE && type == PTX_F32) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    float single = (float)value;
    uint32_t word;
    memcpy(&word, &single, sizeof(word));
    return word;
  }
  if (operand->number == PTX_DOUBLE && bytes != 8)
    (void)ptx_fail(r, r->statement.line, "a 64-bit float where %u bytes are taken", bytes);
  return bytes >= 8 ? bits : bits & (((uint64_t)1 << bytes * 8) - 1);
}

int32_t ptx_source(ptx_reader_t *r, const ptx_operand_t *operand, ptx_type_t type) {
  switch (operand->kind) {
  case PTX_OP_NUMBER:
    return ptx_constant(r, number_bits(r, operand, type));
  case PTX_OP_NAME:
    if (operand->negated || operand->second.n)
      break;
    return named_source(r, operand);
  default:
    break;
  }
  (void)ptx_fail(r, r->statement.line, "an operand of a form that is not taken here");
  return 0;
}

int32_t ptx_dest(ptx_reader_t *r, const ptx_operand_t *operand) {
  if (operand->kind != PTX_OP_NAME || operand->negated || operand->offset) {
    (void)ptx_fail(r, r->statement.line, "a destination that is no register");
    return 0;
  }
  return ptx_is(operand->name, "_") ? PTX_SINK : ptx_register(r, operand->name);
}

uint32_t ptx_sources(ptx_reader_t *r, const ptx_operand_t *operand, ptx_type_t type, int32_t *slots,
                     uint32_t cap) {
  bool vector = operand->kind == PTX_OP_VECTOR;
  uint32_t n = vector ? operand->n : 1;
  if (n > cap || n == 0) {
    (void)ptx_fail(r, r->statement.line, "%u elements, where %u are taken", n, cap);
    return 0;
  }
  for (uint32_t k = 0; k < n; k++)
    slots[k] = ptx_source(r, vector ? &r->statement.all[operand->first + k] : operand, type);
  return n;
}

uint32_t ptx_dests(ptx_reader_t *r, const ptx_operand_t *operand, int32_t *slots, uint32_t cap) {
  bool vector = operand->kind == PTX_OP_VECTOR;
  uint32_t n = vector ? operand->n : 1;
  if (n > cap || n == 0) {
    (void)ptx_fail(r, r->statement.line, "%u elements, where %u are taken", n, cap);
    return 0;
  }
  for (uint32_t k = 0; k < n; k++)
    slots[k] = ptx_dest(r, vector ? &r->statement.all[operand->first + k] : operand);
  return n;
}

bool ptx_address(ptx_reader_t *r, ptx_insn_t *in, const ptx_operand_t *operand) {
  if (operand->kind != PTX_OP_ADDRESS)
    return ptx_fail(r, r->statement.line, "an address in brackets expected");
  in->offset = operand->offset;
  if (operand->name.n == 0) {
    in->in[0] = ptx_constant(r, 0);
    return true;
  }
  ptx_operand_t base = *operand;
  base.offset = 0;
  in->in[0] = named_source(r, &base);
  return !r->failed;
}

const ptx_symbol_t *ptx_param_at(ptx_reader_t *r, const ptx_operand_t *operand) {
  uint32_t index;
  const ptx_symbol_t *symbol = ptx_find(r, operand->name, &index);
  bool is = symbol && symbol->kind == PTX_SYM_PARAM;
  return is ? symbol : NULL;
}

// ---- Instructions ---------------------------------------------------------------------------------

ptx_insn_t *ptx_emit(ptx_reader_t *r, ptx_exec_t exec) {
  ptx_statement_t *s = &r->statement;
  int32_t guard = s->guard.n ? ptx_register(r, s->guard) : -1;
  ptx_function_t *f = &r->module->functions[r->function];
  ptx_insn_t *in = PTX_GROW(f->code, f->n_code);
  in->exec = exec;
  in->line = s->line;
  in->guard = guard;
  in->guard_not = s->guard_not;
  in->target = PTX_NONE;
  return in;
}

void ptx_refer(ptx_reader_t *r, const ptx_insn_t *in, ptx_slice_t label) {
  ptx_reference_t *reference = PTX_GROW(r->references, r->n_references);
  const ptx_insn_t *code = r->module->functions[r->function].code;
  *reference = (ptx_reference_t){
      .name = label, .scope = r->scope, .line = r->statement.line, .insn = (uint32_t)(in - code)};
}

// ---- Scalar operations ----------------------------------------------------------------------------

// How many parts `name` has if all of them stand in the opcode; 0 otherwise.
static uint32_t matches(const ptx_statement_t *s, const char *name) {
  size_t n = s->parts[0].n;
  if (strncmp(name, s->parts[0].at, n) != 0 || (name[n] && name[n] != '.'))
    return 0;
  uint32_t parts = 1;
  for (const char *at = name + n; *at == '.'; at += n, parts++) {
    n = strcspn(++at, ".");
    bool found = false;
    for (uint32_t k = 1; k < s->n_parts && !found; k++)
      found = s->parts[k].n == n && memcmp(s->parts[k].at, at, n) == 0;
    if (!found)
      return 0;
  }
  return parts;
}

static const ptx_scalar_row_t *find_scalar(const ptx_statement_t *s, bool *out_known) {
  static const ptx_scalar_row_t *const tables[] = {ptx_integer_rows, ptx_float_rows, ptx_half_rows};
  ptx_type_t type = PTX_NO_TYPE;
  for (uint32_t k = 1; k < s->n_parts && type == PTX_NO_TYPE; k++)
    type = ptx_type_of(s->parts[k]);
  const ptx_scalar_row_t *best = NULL;
  uint32_t best_parts = 0;
  for (uint32_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
    for (const ptx_scalar_row_t *row = tables[t]; row->name; row++) {
      uint32_t parts = matches(s, row->name);
      *out_known |= parts > 0;
      if (parts > best_parts && row->type == type) {
        best = row;
        best_parts = parts;
      }
    }
  }
  return best;
}

static bool decode_scalar(ptx_reader_t *r, const ptx_scalar_row_t *row) {
  static const ptx_exec_t execs[] = {NULL, ptx_exec_unary, ptx_exec_binary, ptx_exec_ternary,
                                     ptx_exec_quaternary};
  if (!ptx_count(r, row->n + 1u, row->n + 1u))
    return false;
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), in[4] = {0};
  for (uint32_t k = 0; k < row->n; k++)
    in[k] = ptx_source(r, ptx_operand(r, k + 1), row->type);
  ptx_insn_t *insn = ptx_emit(r, execs[row->n]);
  insn->scalar = row->scalar;
  insn->type = (uint8_t)row->type;
  insn->out[0] = out;
  memcpy(insn->in, in, sizeof(in));
  insn->n_out = 1;
  insn->n_in = row->n;
  (void)ptx_take_type(r);
  const char *name = row->name;
  for (name += strcspn(name, "."); *name == '.';) {
    char part[32] = {0};
    size_t n = strcspn(++name, ".");
    memcpy(part, name, n < 31 ? n : 31);
    (void)ptx_take(r, part);
    name += n;
  }
  // Only parts that the row may have are left for the flags.
  ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++) {
    char part[32] = {0};
    const char *words = row->may;
    bool may = s->taken[k];
    while (!may && next_word(&words, part))
      may = ptx_is(s->parts[k], part);
    if (!may)
      return ptx_done(r);
  }
  insn->absolute = ptx_take(r, "xorsign") && ptx_take(r, "abs");
  ptx_take_float(r, insn);
  return ptx_done(r);
}

bool ptx_decode(ptx_reader_t *r) {
  static const ptx_opcode_t *const tables[] = {ptx_memory_opcodes, ptx_control_opcodes,
                                               ptx_value_opcodes};
  const ptx_statement_t *s = &r->statement;
  if (r->function == PTX_NONE)
    return ptx_fail(r, s->line, "an instruction outside a function");
  for (uint32_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
    for (const ptx_opcode_t *row = tables[t]; row->name; row++)
      if (ptx_is(s->parts[0], row->name))
        return row->decode(r);
  bool known = false, carries = false;
  if (!ptx_decode_with_carry(r, &carries) || carries)
    return !r->failed;
  const ptx_scalar_row_t *row = find_scalar(s, &known);
  if (row)
    return decode_scalar(r, row);
  return ptx_fail(r, s->line,
                  known ? "\"%.*s\" with a type or part that is not simulated"
                        : "\"%.*s\" is not simulated",
                  (int)s->parts[0].n, s->parts[0].at);
}
