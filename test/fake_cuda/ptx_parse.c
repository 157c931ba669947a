// SPDX-License-Identifier: Apache-2.0
// Reads a module's text from top to bottom: directives, variables, functions and their bodies,
// whose statements are decoded as they come.
#include "test/fake_cuda/ptx_read.h"

#include <stdlib.h>
#include <string.h>

static bool at_word(const ptx_reader_t *r, const char *word) {
  return r->token.kind == PTX_WORD && ptx_is(r->token.text, word);
}

static bool skip_word(ptx_reader_t *r, const char *word) {
  if (!at_word(r, word))
    return false;
  ptx_advance(r);
  return true;
}

// Directives that say nothing to a simulator: all up to the line's end, or up to the semicolon.
static bool skip_line(ptx_reader_t *r) {
  uint32_t line = r->token.line;
  while (r->token.kind != PTX_END && r->token.line == line)
    ptx_advance(r);
  return !r->failed;
}

static bool skip_statement(ptx_reader_t *r) {
  while (r->token.kind != PTX_END && !ptx_at_sign(r, ';'))
    ptx_advance(r);
  return ptx_expect(r, ';');
}

// ---- Bodies ---------------------------------------------------------------------------------------

static void open_scope(ptx_reader_t *r) {
  uint32_t parent = r->scope;
  r->scope = r->n_scopes;
  uint32_t *slot = PTX_GROW(r->scope_parents, r->n_scopes);
  *slot = parent;
}

// .branchtargets, after its label.
static bool read_targets(ptx_reader_t *r, ptx_slice_t name) {
  ptx_list_t *list = PTX_GROW(r->lists, r->n_lists);
  list->name = name;
  list->list = r->module->n_targets;
  ptx_targets_t *targets = PTX_GROW(r->module->targets, r->module->n_targets);
  do {
    ptx_advance(r);
    if (r->token.kind != PTX_WORD)
      return ptx_fail(r, r->token.line, "a label expected");
    ptx_reference_t *reference = PTX_GROW(r->references, r->n_references);
    *reference = (ptx_reference_t){.name = r->token.text,
                                   .scope = r->scope,
                                   .line = r->token.line,
                                   .insn = PTX_NONE,
                                   .list = r->n_lists - 1,
                                   .element = targets->n};
    reference->list = list->list;
    uint32_t *at = PTX_GROW(targets->at, targets->n);
    *at = PTX_NONE;
    ptx_advance(r);
  } while (ptx_at_sign(r, ','));
  return ptx_expect(r, ';');
}

static bool read_label(ptx_reader_t *r, ptx_slice_t name, uint32_t line) {
  if (at_word(r, ".branchtargets"))
    return read_targets(r, name);
  if (at_word(r, ".callprototype") || at_word(r, ".calltargets"))
    return ptx_fail(r, line, "indirect calls are not simulated");
  for (uint32_t k = 0; k < r->n_labels; k++)
    if (r->labels[k].scope == r->scope && ptx_same(r->labels[k].name, name))
      return ptx_fail(r, line, "a label that stands twice");
  ptx_label_t *label = PTX_GROW(r->labels, r->n_labels);
  *label = (ptx_label_t){name, r->scope, r->module->functions[r->function].n_code};
  return true;
}

static bool read_declaration(ptx_reader_t *r, bool *out_was) {
  static const struct {
    const char *word;
    ptx_space_t space;
  } spaces[] = {{".shared", PTX_SHARED},
                {".local", PTX_LOCAL},
                {".global", PTX_GLOBAL},
                {".const", PTX_CONST}};
  *out_was = true;
  bool external = false;
  while (at_word(r, ".visible") || at_word(r, ".weak") || at_word(r, ".extern") ||
         at_word(r, ".common")) {
    external |= at_word(r, ".extern");
    ptx_advance(r);
  }
  for (size_t k = 0; k < sizeof(spaces) / sizeof(spaces[0]); k++)
    if (at_word(r, spaces[k].word))
      return ptx_read_variable(r, spaces[k].space, external);
  if (at_word(r, ".reg"))
    return ptx_read_registers(r);
  *out_was = false;
  return true;
}

// By hand, like all that looks for a sign here: under AddressSanitizer a function on strings
// measures the whole text at each call.
static bool before_colon(const ptx_reader_t *r) {
  const char *at = r->at;
  while (*at == ' ' || *at == '\t')
    at++;
  return *at == ':';
}

static bool read_item(ptx_reader_t *r) {
  bool was;
  if (!read_declaration(r, &was) || was)
    return !r->failed;
  if (at_word(r, ".param"))
    return ptx_read_argument(r);
  if (at_word(r, ".loc") || at_word(r, ".file"))
    return skip_line(r);
  if (at_word(r, ".pragma"))
    return skip_statement(r);
  if (ptx_skip_sign(r, ';'))
    return true;
  if (r->token.kind == PTX_WORD && before_colon(r)) { // a label
    ptx_slice_t name = r->token.text;
    uint32_t line = r->token.line;
    ptx_advance(r);
    return ptx_expect(r, ':') && read_label(r, name, line);
  }
  return ptx_read_statement(r) && ptx_decode(r);
}

static bool read_block(ptx_reader_t *r) {
  uint32_t symbols = r->n_symbols, scope = r->scope;
  open_scope(r);
  if (!ptx_expect(r, '{'))
    return false;
  while (!r->failed && !ptx_at_sign(r, '}')) {
    if (r->token.kind == PTX_END)
      return ptx_fail(r, r->token.line, "the text ends inside a function");
    if (!(ptx_at_sign(r, '{') ? read_block(r) : read_item(r)))
      return false;
  }
  r->scope = scope;
  r->n_symbols = symbols;
  return ptx_expect(r, '}');
}

// ---- Labels ---------------------------------------------------------------------------------------

static uint32_t find_label(const ptx_reader_t *r, ptx_slice_t name, uint32_t scope) {
  for (;; scope = r->scope_parents[scope]) {
    for (uint32_t k = 0; k < r->n_labels; k++)
      if (r->labels[k].scope == scope && ptx_same(r->labels[k].name, name))
        return r->labels[k].at;
    if (scope == 0)
      return PTX_NONE;
  }
}

static bool resolve_labels(ptx_reader_t *r) {
  ptx_function_t *f = &r->module->functions[r->function];
  for (uint32_t k = 0; k < r->n_references; k++) {
    const ptx_reference_t *reference = &r->references[k];
    uint32_t at = find_label(r, reference->name, reference->scope);
    if (at == PTX_NONE)
      return ptx_fail(r, reference->line, "no label \"%.*s\"", (int)reference->name.n,
                      reference->name.at);
    if (reference->insn == PTX_NONE)
      r->module->targets[reference->list].at[reference->element] = at;
    else
      f->code[reference->insn].target = at;
  }
  r->n_labels = r->n_references = r->n_lists = 0;
  free(r->labels), free(r->references), free(r->lists);
  r->labels = NULL, r->references = NULL, r->lists = NULL;
  return true;
}

// ---- Functions ------------------------------------------------------------------------------------

static bool read_sizes(ptx_reader_t *r, uint32_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  uint32_t k = 0;
  do {
    ptx_advance(r);
    if (r->token.kind != PTX_NUMBER || k == 3)
      return ptx_fail(r, r->token.line, "up to three sizes expected");
    out[k++] = (uint32_t)r->token.bits;
    ptx_advance(r);
  } while (ptx_at_sign(r, ','));
  return true;
}

static bool read_performance(ptx_reader_t *r, ptx_function_t *f) {
  uint32_t ignored[3];
  for (;;) {
    if (at_word(r, ".maxntid")) {
      if (!read_sizes(r, f->max_threads))
        return false;
    } else if (at_word(r, ".reqntid")) {
      if (!read_sizes(r, f->required))
        return false;
    } else if (at_word(r, ".reqnctapercluster")) {
      if (!read_sizes(r, f->cluster))
        return false;
    } else if (at_word(r, ".explicitcluster")) {
      ptx_advance(r);
    } else if (at_word(r, ".minnctapersm") || at_word(r, ".maxnreg") ||
               at_word(r, ".maxnctapersm")) {
      if (!read_sizes(r, ignored))
        return false;
    } else if (at_word(r, ".pragma")) {
      if (!skip_statement(r))
        return false;
    } else if (at_word(r, ".noreturn")) {
      ptx_advance(r);
    } else {
      return true;
    }
  }
}

static uint32_t function_named(ptx_reader_t *r, ptx_slice_t name, bool entry) {
  uint32_t index = ptx_find_function(r->module, name);
  if (index != PTX_NONE)
    return index;
  index = r->module->n_functions;
  ptx_function_t *f = PTX_GROW(r->module->functions, r->module->n_functions);
  f->name = strndup(name.at, name.n);
  f->entry = entry;
  f->return_slot = -1;
  return index;
}

// The list of results stands before the name that tells whether the function is known: it is read
// again once that is.
static bool read_signature(ptx_reader_t *r, bool entry) {
  ptx_reader_t before = *r;
  if (ptx_at_sign(r, '('))
    while (r->token.kind != PTX_END && !ptx_skip_sign(r, ')'))
      ptx_advance(r);
  if (r->token.kind != PTX_WORD)
    return ptx_fail(r, r->token.line, "a function's name expected");
  r->function = function_named(r, r->token.text, entry);
  ptx_function_t *f = &r->module->functions[r->function];
  if (ptx_at_sign(&before, '(')) {
    const char *at = r->at;
    uint32_t line = r->line;
    ptx_token_t token = r->token;
    r->at = before.at, r->line = before.line, r->token = before.token;
    if (!ptx_read_params(r, f, true))
      return false;
    r->at = at, r->line = line, r->token = token;
  }
  ptx_advance(r);
  if (ptx_at_sign(r, '(') && !ptx_read_params(r, f, false))
    return false;
  if (f->return_slot < 0)
    f->return_slot = ptx_new_slots(r, 1);
  return true;
}

static bool read_function(ptx_reader_t *r, bool entry) {
  uint32_t symbols = r->n_symbols, line = r->token.line;
  ptx_advance(r);
  if (!read_signature(r, entry))
    return false;
  ptx_function_t *f = &r->module->functions[r->function];
  if (!read_performance(r, f))
    return false;
  if (ptx_skip_sign(r, ';')) {
    r->n_symbols = symbols;
    r->function = PTX_NONE;
    return true;
  }
  if (f->defined)
    return ptx_fail(r, line, "\"%s\" is defined twice", f->name);
  f->defined = true;
  f->slot_begin = r->module->n_slots;
  f->local_begin = r->module->local_bytes;
  bool fine = read_block(r) && resolve_labels(r);
  f->slot_end = r->module->n_slots;
  f->local_end = r->module->local_bytes;
  r->n_symbols = symbols;
  r->function = PTX_NONE;
  return fine;
}

// ---- The module -----------------------------------------------------------------------------------

static bool read_top(ptx_reader_t *r) {
  if (at_word(r, ".version") || at_word(r, ".target") || at_word(r, ".address_size") ||
      at_word(r, ".file") || at_word(r, ".loc"))
    return skip_line(r);
  if (at_word(r, ".pragma"))
    return skip_statement(r);
  if (at_word(r, ".section"))
    return ptx_fail(r, r->token.line, "debug sections are not read");
  bool was;
  if (!read_declaration(r, &was) || was)
    return !r->failed;
  if (at_word(r, ".entry"))
    return read_function(r, true);
  if (at_word(r, ".func"))
    return read_function(r, false);
  if (skip_word(r, ".noreturn"))
    return true;
  return ptx_fail(r, r->token.line, "a directive that is not known");
}

static void split_lines(ptx_module_t *m) {
  for (char *at = m->text; at;) {
    size_t n = 0;
    while (at[n] && at[n] != '\n')
      n++;
    char **line = PTX_GROW(m->lines, m->n_lines);
    *line = calloc(n + 1, 1);
    if (!*line)
      abort();
    memcpy(*line, at, n);
    at = at[n] ? at + n + 1 : NULL;
  }
}

ptx_module_t *ptx_module_create(const char *text) {
  ptx_module_t *m = calloc(1, sizeof(*m));
  if (!m)
    return NULL;
  m->text = strdup(text);
  if (!m->text) {
    free(m);
    return NULL;
  }
  split_lines(m);
  m->n_slots = PTX_SPECIAL_COUNT + 2; // the carry, and a sink for what nobody reads
  ptx_reader_t r = {.module = m, .at = m->text, .line = 1, .function = PTX_NONE};
  uint32_t *root = PTX_GROW(r.scope_parents, r.n_scopes);
  *root = 0;
  ptx_advance(&r);
  while (!r.failed && r.token.kind != PTX_END)
    (void)read_top(&r);
  if (!r.failed)
    (void)ptx_link(&r);
  free(r.symbols), free(r.scope_parents), free(r.labels), free(r.references), free(r.lists);
  return m;
}

void ptx_module_destroy(ptx_module_t *m) {
  if (!m)
    return;
  for (uint32_t k = 0; k < m->n_lines; k++)
    free(m->lines[k]);
  for (uint32_t k = 0; k < m->n_functions; k++) {
    ptx_function_t *f = &m->functions[k];
    for (uint32_t p = 0; p < f->n_params; p++)
      free(f->params[p].name);
    for (uint32_t p = 0; p < f->n_results; p++)
      free(f->results[p].name);
    free(f->name), free(f->params), free(f->results), free(f->code), free(f->callees);
  }
  for (uint32_t k = 0; k < m->n_variables; k++)
    free(m->variables[k].name), free(m->variables[k].base);
  for (uint32_t k = 0; k < m->n_calls; k++)
    free(m->calls[k].in), free(m->calls[k].out);
  for (uint32_t k = 0; k < m->n_targets; k++)
    free(m->targets[k].at);
  free(m->lines), free(m->functions), free(m->variables), free(m->calls), free(m->targets);
  free(m->sums);
  free(m->code), free(m->constants), free(m->patches), free(m->text);
  free(m);
}

const ptx_function_t *ptx_find_entry(const ptx_module_t *m, const char *name) {
  for (uint32_t k = 0; k < m->n_functions; k++)
    if (m->functions[k].entry && strcmp(m->functions[k].name, name) == 0)
      return &m->functions[k];
  return NULL;
}
