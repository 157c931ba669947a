// SPDX-License-Identifier: Apache-2.0
// Reads one statement: its guard, the parts of its opcode, and its operands.
#include "test/fake_cuda/ptx_read.h"

static uint32_t read_operand(ptx_reader_t *r);

static ptx_operand_t *operand(ptx_reader_t *r, uint32_t index) { return &r->statement.all[index]; }

static uint32_t new_operand(ptx_reader_t *r, ptx_operand_kind_t kind) {
  ptx_statement_t *s = &r->statement;
  if (s->n_all == PTX_OPERANDS) {
    (void)ptx_fail(r, s->line, "more than %d operands", PTX_OPERANDS);
    return 0;
  }
  s->all[s->n_all] = (ptx_operand_t){.kind = kind};
  return s->n_all++;
}

// Elements stand one after the other: they are names and numbers, never vectors themselves.
static uint32_t read_vector(ptx_reader_t *r, char close) {
  uint32_t at = new_operand(r, PTX_OP_VECTOR);
  ptx_advance(r);
  operand(r, at)->first = r->statement.n_all;
  while (!r->failed && !ptx_at_sign(r, close)) {
    uint32_t element = read_operand(r);
    if (operand(r, element)->kind == PTX_OP_VECTOR)
      (void)ptx_fail(r, r->token.line, "a vector in a vector");
    operand(r, at)->n++;
    if (!ptx_skip_sign(r, ','))
      break;
  }
  (void)ptx_expect(r, close);
  return at;
}

// Terms joined by + and -; numbers may be joined at once to a name.
static void read_offset(ptx_reader_t *r, uint32_t at) {
  while (!r->failed && (ptx_at_sign(r, '+') || ptx_at_sign(r, '-'))) {
    bool minus = false;
    while (ptx_at_sign(r, '+') || ptx_at_sign(r, '-')) {
      minus ^= ptx_at_sign(r, '-');
      ptx_advance(r);
    }
    if (r->token.kind != PTX_NUMBER || r->token.number != PTX_INTEGER) {
      (void)ptx_fail(r, r->token.line, "an offset that is no integer");
      return;
    }
    uint64_t value = minus ? 0 - r->token.bits : r->token.bits;
    operand(r, at)->offset += (int64_t)value;
    ptx_advance(r);
  }
}

static uint32_t read_address(ptx_reader_t *r) {
  uint32_t at = new_operand(r, PTX_OP_ADDRESS);
  ptx_advance(r);
  if (r->token.kind == PTX_WORD) {
    operand(r, at)->name = r->token.text;
    ptx_advance(r);
  } else if (r->token.kind == PTX_NUMBER) {
    operand(r, at)->offset = (int64_t)r->token.bits;
    ptx_advance(r);
  }
  read_offset(r, at);
  (void)ptx_expect(r, ']');
  return at;
}

static uint32_t read_number(ptx_reader_t *r) {
  uint32_t at = new_operand(r, PTX_OP_NUMBER);
  bool minus = false, invert = false;
  while (ptx_at_sign(r, '-') || ptx_at_sign(r, '~')) {
    minus ^= ptx_at_sign(r, '-');
    invert ^= ptx_at_sign(r, '~');
    ptx_advance(r);
  }
  ptx_operand_t *o = operand(r, at);
  o->number = r->token.number;
  o->bits = r->token.bits;
  if (r->token.kind != PTX_NUMBER)
    (void)ptx_fail(r, r->token.line, "a number expected");
  if (minus && o->number == PTX_INTEGER)
    o->bits = 0 - o->bits;
  else if (minus)
    o->bits ^= (uint64_t)1 << (o->number == PTX_SINGLE ? 31 : 63);
  if (invert)
    o->bits = ~o->bits;
  ptx_advance(r);
  return at;
}

static uint32_t read_operand(ptx_reader_t *r) {
  if (ptx_at_sign(r, '{'))
    return read_vector(r, '}');
  if (ptx_at_sign(r, '('))
    return read_vector(r, ')');
  if (ptx_at_sign(r, '['))
    return read_address(r);
  if (r->token.kind == PTX_NUMBER || ptx_at_sign(r, '-') || ptx_at_sign(r, '~'))
    return read_number(r);
  uint32_t at = new_operand(r, PTX_OP_NAME);
  operand(r, at)->negated = ptx_skip_sign(r, '!');
  if (r->token.kind != PTX_WORD) {
    (void)ptx_fail(r, r->token.line, "an operand expected before '%.*s'", (int)r->token.text.n,
                   r->token.text.at);
    return at;
  }
  operand(r, at)->name = r->token.text;
  ptx_advance(r);
  read_offset(r, at);
  if (ptx_skip_sign(r, '|')) {
    operand(r, at)->second = r->token.text;
    ptx_advance(r);
  }
  return at;
}

// "ld.global.v4.f32" at its points; "shared::cta" stays one part.
static void split_opcode(ptx_reader_t *r, ptx_slice_t word) {
  ptx_statement_t *s = &r->statement;
  size_t begin = 0;
  for (size_t k = 0; k <= word.n; k++) {
    if (k < word.n && word.at[k] != '.')
      continue;
    if (s->n_parts == PTX_PARTS) {
      (void)ptx_fail(r, s->line, "an opcode of more than %d parts", PTX_PARTS);
      return;
    }
    s->parts[s->n_parts++] = (ptx_slice_t){word.at + begin, k - begin};
    begin = k + 1;
  }
}

bool ptx_read_statement(ptx_reader_t *r) {
  ptx_statement_t *s = &r->statement;
  *s = (ptx_statement_t){.line = r->token.line};
  if (ptx_skip_sign(r, '@')) {
    s->guard_not = ptx_skip_sign(r, '!');
    s->guard = r->token.text;
    ptx_advance(r);
    s->line = r->token.line;
  }
  if (r->token.kind != PTX_WORD)
    return ptx_fail(r, s->line, "an instruction expected before '%.*s'", (int)r->token.text.n,
                    r->token.text.at);
  split_opcode(r, r->token.text);
  ptx_advance(r);
  while (!r->failed && !ptx_at_sign(r, ';')) {
    if (s->n == sizeof(s->operand) / sizeof(s->operand[0]))
      return ptx_fail(r, s->line, "too many operands");
    s->operand[s->n++] = read_operand(r);
    if (!ptx_skip_sign(r, ','))
      break;
  }
  return ptx_expect(r, ';');
}
