// SPDX-License-Identifier: Apache-2.0
// Declarations in PTX: registers, variables with their initial values, parameters.
#include "test/fake_cuda/ptx_read.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  uint32_t bytes;
  ptx_kind_t kind;
} types[PTX_TYPE_COUNT] = {
    [PTX_NO_TYPE] = {"", 0, PTX_BITS},
#define PTX_TYPE(id, name, bytes, kind) [PTX_##id] = {name, bytes, PTX_##kind},
#include "test/fake_cuda/ptx_types.def"
};

uint32_t ptx_type_bytes(ptx_type_t type) { return types[type].bytes; }
ptx_kind_t ptx_type_kind(ptx_type_t type) { return types[type].kind; }

ptx_type_t ptx_type_of(ptx_slice_t name) {
  for (uint32_t k = 1; k < PTX_TYPE_COUNT; k++)
    if (ptx_is(name, types[k].name))
      return (ptx_type_t)k;
  return PTX_NO_TYPE;
}

static char *copy_name(ptx_slice_t name) {
  char *copy = strndup(name.at, name.n);
  if (!copy)
    abort();
  return copy;
}

// A directive as a part, without its point.
static ptx_slice_t directive(const ptx_reader_t *r) {
  ptx_slice_t text = r->token.text;
  bool is = r->token.kind == PTX_WORD && text.n > 1 && text.at[0] == '.';
  return is ? (ptx_slice_t){text.at + 1, text.n - 1} : (ptx_slice_t){text.at, 0};
}

// ---- Names ----------------------------------------------------------------------------------------

// Whether `name` is one of symbol0, symbol1, …
static bool in_range(const ptx_symbol_t *symbol, ptx_slice_t name, uint32_t *out_index) {
  size_t n = symbol->name.n, digits = name.n - n;
  if (name.n <= n || digits > 9 || memcmp(name.at, symbol->name.at, n) != 0 ||
      (digits > 1 && name.at[n] == '0'))
    return false;
  uint32_t value = 0;
  for (size_t k = n; k < name.n; k++) {
    if (!isdigit((unsigned char)name.at[k]))
      return false;
    value = value * 10 + (uint32_t)(name.at[k] - '0');
  }
  *out_index = value;
  return value < symbol->count;
}

const ptx_symbol_t *ptx_find(const ptx_reader_t *r, ptx_slice_t name, uint32_t *out_index) {
  *out_index = 0;
  for (uint32_t k = r->n_symbols; k-- > 0;) {
    const ptx_symbol_t *symbol = &r->symbols[k];
    if (symbol->count ? in_range(symbol, name, out_index) : ptx_same(symbol->name, name))
      return symbol;
  }
  return NULL;
}

uint32_t ptx_find_function(const ptx_module_t *module, ptx_slice_t name) {
  for (uint32_t k = 0; k < module->n_functions; k++)
    if (ptx_is(name, module->functions[k].name))
      return k;
  return PTX_NONE;
}

int32_t ptx_new_slots(ptx_reader_t *r, uint32_t n) {
  uint32_t first = r->module->n_slots;
  if (n > (1u << 20) || first > (1u << 20)) {
    (void)ptx_fail(r, r->token.line, "too many registers");
    return 0;
  }
  r->module->n_slots = first + n;
  return (int32_t)first;
}

// ---- Registers ------------------------------------------------------------------------------------

// .reg .b32 %r<20>; or .reg .pred p, q;
bool ptx_read_registers(ptx_reader_t *r) {
  ptx_advance(r);
  ptx_type_t type = ptx_type_of(directive(r));
  if (type == PTX_NO_TYPE || type == PTX_B128)
    return ptx_fail(r, r->token.line, "a register of no known type");
  do {
    ptx_advance(r);
    if (r->token.kind != PTX_WORD)
      return ptx_fail(r, r->token.line, "a register's name expected");
    ptx_symbol_t *symbol = PTX_GROW(r->symbols, r->n_symbols);
    symbol->name = r->token.text;
    symbol->kind = PTX_SYM_REGISTER;
    ptx_advance(r);
    if (ptx_skip_sign(r, '<')) {
      symbol->count = (uint32_t)r->token.bits;
      if (r->token.kind != PTX_NUMBER || r->token.bits == 0 || r->token.bits > 1u << 20)
        return ptx_fail(r, r->token.line, "a number of registers expected");
      ptx_advance(r);
      if (!ptx_expect(r, '>'))
        return false;
    }
    uint32_t n = symbol->count ? symbol->count : 1;
    symbol->slot = ptx_new_slots(r, n);
    if (type != PTX_PRED && r->function != PTX_NONE)
      r->module->functions[r->function].registers += n * (ptx_type_bytes(type) == 8 ? 2 : 1);
  } while (!r->failed && ptx_at_sign(r, ','));
  return ptx_expect(r, ';');
}

// ---- Variables ------------------------------------------------------------------------------------

typedef struct declared_t { // ".align 8 .b8 name[16]" and its kin
  ptx_slice_t name;
  ptx_type_t type;
  uint32_t align, bytes;
  bool array, open; // open: []
} declared_t;

static bool read_dimensions(ptx_reader_t *r, declared_t *d) {
  uint64_t n = 1;
  while (ptx_skip_sign(r, '[')) {
    d->array = true;
    if (r->token.kind == PTX_NUMBER) {
      n *= r->token.bits;
      ptx_advance(r);
    } else {
      d->open = true;
      n = 0;
    }
    if (n > 1u << 28)
      return ptx_fail(r, r->token.line, "an array too large");
    if (!ptx_expect(r, ']'))
      return false;
  }
  d->bytes = (uint32_t)n * ptx_type_bytes(d->type);
  return true;
}

static bool read_declared(ptx_reader_t *r, declared_t *d) {
  *d = (declared_t){0};
  bool pointer = false; // what follows .ptr tells of what it points to
  for (; directive(r).n; ptx_advance(r)) {
    ptx_slice_t word = directive(r);
    pointer |= ptx_is(word, "ptr");
    if (ptx_is(word, "align")) {
      ptx_advance(r);
      uint64_t align = r->token.bits;
      if (r->token.kind != PTX_NUMBER || align == 0 || align & (align - 1) || align > 4096)
        return ptx_fail(r, r->token.line, "an alignment that is no power of two");
      if (!pointer)
        d->align = (uint32_t)align;
    } else if (ptx_type_of(word) != PTX_NO_TYPE) {
      d->type = ptx_type_of(word);
    } else if (!ptx_is(word, "ptr") && !ptx_is(word, "global") && !ptx_is(word, "shared") &&
               !ptx_is(word, "const") && !ptx_is(word, "local")) {
      return ptx_fail(r, r->token.line, "a directive that is not known");
    }
  }
  if (d->type == PTX_NO_TYPE || r->token.kind != PTX_WORD)
    return ptx_fail(r, r->token.line, "a type and a name expected");
  d->name = r->token.text;
  ptx_advance(r);
  return read_dimensions(r, d);
}

static uint64_t one_value(ptx_reader_t *r, ptx_type_t type) {
  bool minus = ptx_skip_sign(r, '-');
  uint64_t bits = r->token.bits;
  if (r->token.kind != PTX_NUMBER)
    (void)ptx_fail(r, r->token.line, "an initial value that is no number");
  if (r->token.number == PTX_DOUBLE && type == PTX_F32) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    float single = (float)value;
    uint32_t word;
    memcpy(&word, &single, sizeof(word));
    bits = word;
  }
  if (minus && r->token.number == PTX_INTEGER)
    bits = 0 - bits;
  else if (minus)
    bits ^= (uint64_t)1 << (ptx_type_bytes(type) * 8 - 1);
  ptx_advance(r);
  return bits;
}

// { 1, 2, { 3 } }: what is not said is zero.
static bool read_values(ptx_reader_t *r, ptx_variable_t *v, ptx_type_t type) {
  uint32_t at = 0, one = ptx_type_bytes(type), depth = 0;
  do {
    if (ptx_skip_sign(r, '{')) {
      depth++;
    } else if (ptx_skip_sign(r, '}')) {
      depth--;
    } else if (!ptx_skip_sign(r, ',')) {
      uint64_t bits = one_value(r, type);
      if (at + one > v->bytes)
        return ptx_fail(r, r->token.line, "more initial values than the array holds");
      memcpy(v->host + at, &bits, one);
      at += one;
    }
  } while (depth && !r->failed);
  return !r->failed;
}

// Variables that every thread sees live as long as the module, in memory of their own.
static void place_global(ptx_variable_t *v) {
  v->base = calloc(1, v->bytes + v->align + 1);
  if (!v->base)
    abort();
  uintptr_t at = ((uintptr_t)v->base + v->align - 1) / v->align * v->align;
  v->host = (unsigned char *)v->base + (at - (uintptr_t)v->base);
  v->address = (uint64_t)at + PTX_DEVICE_OFFSET;
}

bool ptx_read_variable(ptx_reader_t *r, ptx_space_t space, bool external) {
  declared_t d;
  ptx_advance(r);
  if (!read_declared(r, &d))
    return false;
  if (external && space != PTX_SHARED)
    return ptx_fail(r, r->token.line, "external variables are not linked");
  if (d.open && !(external && space == PTX_SHARED))
    return ptx_fail(r, r->token.line, "an array without a size");
  uint32_t unused;
  const ptx_symbol_t *old = ptx_find(r, d.name, &unused);
  if (old && external)
    return ptx_expect(r, ';'); // declared again
  ptx_symbol_t *symbol = PTX_GROW(r->symbols, r->n_symbols);
  symbol->name = d.name;
  symbol->kind = PTX_SYM_VARIABLE;
  symbol->variable = r->module->n_variables;
  ptx_variable_t *v = PTX_GROW(r->module->variables, r->module->n_variables);
  v->name = copy_name(d.name);
  v->space = space;
  v->bytes = d.bytes;
  v->align = d.align > ptx_type_bytes(d.type) ? d.align : ptx_type_bytes(d.type);
  v->dynamic = external && d.open;
  bool mine = r->function != PTX_NONE && r->module->functions[r->function].entry;
  v->owner = mine ? r->function : PTX_NONE;
  if (space == PTX_GLOBAL || space == PTX_CONST)
    place_global(v);
  if (space == PTX_LOCAL) {
    v->address = (r->module->local_bytes + v->align - 1) / v->align * v->align;
    r->module->local_bytes = (uint32_t)v->address + v->bytes;
  }
  if (ptx_skip_sign(r, '=')) {
    if (!v->host)
      return ptx_fail(r, r->token.line, "initial values in a space that takes none");
    if (!read_values(r, v, d.type))
      return false;
  }
  return ptx_expect(r, ';');
}

// ---- Parameters -----------------------------------------------------------------------------------

static void name_param(ptx_reader_t *r, const declared_t *d, int32_t slot, uint32_t offset) {
  ptx_symbol_t *symbol = PTX_GROW(r->symbols, r->n_symbols);
  symbol->name = d->name;
  symbol->kind = PTX_SYM_PARAM;
  symbol->slot = slot;
  symbol->offset = offset;
  symbol->bytes = d->bytes;
}

bool ptx_read_argument(ptx_reader_t *r) {
  declared_t d;
  ptx_advance(r);
  if (!read_declared(r, &d))
    return false;
  name_param(r, &d, ptx_new_slots(r, (d.bytes + 7) / 8), 0);
  return ptx_expect(r, ';');
}

// One .param or .reg of a function. A function declared before keeps its slots.
static bool read_param(ptx_reader_t *r, ptx_function_t *f, bool result, uint32_t index,
                       bool again) {
  bool is_register = ptx_is(directive(r), "reg");
  if (!is_register && !ptx_is(directive(r), "param"))
    return ptx_fail(r, r->token.line, ".param or .reg expected");
  ptx_advance(r);
  declared_t d;
  if (!read_declared(r, &d))
    return false;
  if (d.bytes == 0)
    return ptx_fail(r, r->token.line, "a parameter without a size");
  ptx_param_t **list = result ? &f->results : &f->params;
  uint32_t *n = result ? &f->n_results : &f->n_params;
  if (!again) {
    ptx_param_t *new = PTX_GROW(*list, *n);
    new->name = copy_name(d.name);
    new->bytes = d.bytes;
    new->n_slots = (int32_t)((d.bytes + 7) / 8);
    new->slot = -1;
    uint32_t align = d.align > ptx_type_bytes(d.type) ? d.align : ptx_type_bytes(d.type);
    new->offset = (f->param_bytes + align - 1) / align * align;
    if (f->entry)
      f->param_bytes = new->offset + d.bytes;
    else
      new->slot = ptx_new_slots(r, (uint32_t)new->n_slots);
  } else if (index >= *n || (*list)[index].bytes != d.bytes) {
    return ptx_fail(r, r->token.line, "parameters that differ from an earlier declaration");
  }
  const ptx_param_t *param = &(*list)[index];
  name_param(r, &d, param->slot, param->offset);
  if (is_register)
    r->symbols[r->n_symbols - 1].kind = PTX_SYM_REGISTER;
  return true;
}

bool ptx_read_params(ptx_reader_t *r, ptx_function_t *f, bool results) {
  bool again = f->return_slot >= 0; // a function declared before
  if (!ptx_expect(r, '('))
    return false;
  for (uint32_t index = 0; !ptx_at_sign(r, ')'); index++) {
    if (!read_param(r, f, results, index, again))
      return false;
    if (!ptx_skip_sign(r, ','))
      break;
  }
  return ptx_expect(r, ')');
}
