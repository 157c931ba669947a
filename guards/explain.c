// SPDX-License-Identifier: Apache-2.0
// Guards for people: the list of a program's guards, and which of them a call failed and why. Never
// on the call path.
#include "guards/record.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct explain_t {
  const dt_guards_t *guards;
  dt_tensor_t *const *inputs;
  const int64_t *sym;
  dt_text_t *out;
} explain_t;

static const char *text_at(const dt_guards_t *guards, uint32_t offset) {
  return guards->text + offset;
}

// " (matmul, model.c:41)"
static void put_reason(const dt_guards_t *guards, const dt_guard_t *g, dt_text_t *out) {
  const dt_guard_reason_t *reason = &guards->reasons[g->reason];
  dt__text_printf(out, " (%s", text_at(guards, reason->op));
  if (reason->file)
    dt__text_printf(out, ", %s:%d", text_at(guards, reason->file), reason->line);
  dt__text_put(out, ")");
}

// ---- What came instead --------------------------------------------------------------------------
static void put_symbol(const explain_t *x, uint32_t symbol) {
  const dt_guard_symbol_t *s = &x->guards->symbols[symbol];
  dt__text_printf(x->out, "%s = %lld", text_at(x->guards, s->text), (long long)x->sym[symbol]);
  if (s->name)
    dt__text_printf(x->out, " (%s)", text_at(x->guards, s->name));
}

static void actual_header(const explain_t *x, const dt_guard_t *g) {
  const dt_tensor_t *t = x->inputs[g->input];
  dt__text_printf(x->out, "%s of rank %u on %s%s", dt_dtype_name(t->dtype), t->rank,
                  t->device == DT_CPU ? "the host" : "a device",
                  t->contiguous ? ", contiguous" : ", strided");
}

static void actual_size_const(const explain_t *x, const dt_guard_t *g) {
  dt__text_printf(x->out, "%lld", (long long)x->inputs[g->input]->sizes[g->dim]);
}

static void actual_stride_const(const explain_t *x, const dt_guard_t *g) {
  dt__text_printf(x->out, "%lld", (long long)x->inputs[g->input]->strides[g->dim]);
}

static void actual_bind_size(const explain_t *x, const dt_guard_t *g) { actual_size_const(x, g); }

static void actual_bind_stride(const explain_t *x, const dt_guard_t *g) {
  actual_stride_const(x, g);
}

static void actual_size_symbol(const explain_t *x, const dt_guard_t *g) {
  actual_size_const(x, g);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->at);
}

static void actual_stride_symbol(const explain_t *x, const dt_guard_t *g) {
  actual_stride_const(x, g);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->at);
}

static void actual_symbol_range(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbol_not(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbol_mod(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbols_eq(const explain_t *x, const dt_guard_t *g) {
  put_symbol(x, g->at);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->other);
}

static void actual_symbols_ne(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

static void actual_symbols_lt(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

static void actual_symbols_le(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

// The symbols of an expression, each once, in the order of their first use.
static void put_symbols(const explain_t *x, const dt_guard_t *g) {
  const dt_guard_step_t *steps = x->guards->steps + g->at;
  const char *between = "";
  for (uint32_t k = 0; k < g->other; k++) {
    bool fresh = steps[k].op == DT_SYM_SYMBOL;
    for (uint32_t j = 0; fresh && j < k; j++)
      fresh = steps[j].op != DT_SYM_SYMBOL || steps[j].symbol != steps[k].symbol;
    if (!fresh)
      continue;
    dt__text_put(x->out, between);
    put_symbol(x, steps[k].symbol);
    between = ", ";
  }
}

static void put_value(const explain_t *x, const dt_guard_t *g) {
  int64_t value = 0;
  if (dt__guard_eval(x->guards->steps + g->at, g->other, x->sym, &value))
    dt__text_printf(x->out, "%lld for ", (long long)value);
  else
    dt__text_put(x->out, "no 64-bit value for ");
  put_symbols(x, g);
}

static void actual_size_expr(const explain_t *x, const dt_guard_t *g) {
  actual_size_const(x, g);
  dt__text_put(x->out, ", expected ");
  put_value(x, g);
}

static void actual_stride_expr(const explain_t *x, const dt_guard_t *g) {
  actual_stride_const(x, g);
  dt__text_put(x->out, ", expected ");
  put_value(x, g);
}

static void actual_expr(const explain_t *x, const dt_guard_t *g) {
  int64_t value = 0;
  if (!dt__guard_eval(x->guards->steps + g->at, g->other, x->sym, &value))
    dt__text_put(x->out, "no 64-bit value for ");
  put_symbols(x, g);
}

static void (*const actual[DT_GUARD_KIND_COUNT])(const explain_t *, const dt_guard_t *) = {
#define GUARD_KIND(id, can_fail, doc) [DT_GUARD_##id] = actual_##id,
#include "guards/guard_kinds.def"
};

// ---- Walks --------------------------------------------------------------------------------------
bool dt__guards_explain(const dt_guards_t *guards, dt_tensor_t *const *inputs, dt_text_t *out) {
  int64_t *symbols = dt__calloc(guards->n_symbols, sizeof(*symbols));
  if (!symbols) {
    dt__text_put(out, "a guard failed or not: no memory to find out");
    return true;
  }
  explain_t x = {guards, inputs, symbols, out};
  bool failed = false;
  for (uint32_t k = 0; k < guards->n_records && !failed; k++) {
    const dt_guard_t *g = &guards->records[k];
    failed = !dt__guard_check(guards, g, inputs, symbols);
    if (!failed)
      continue;
    dt__text_printf(out, "expected %s, got ", text_at(guards, guards->reasons[g->reason].text));
    actual[g->kind](&x, g);
    put_reason(guards, g, out);
  }
  dt__free(symbols);
  return failed;
}

void dt__guards_print(const dt_guards_t *guards, dt_text_t *out) {
  for (uint32_t k = 0; k < guards->n_records; k++) {
    const dt_guard_t *g = &guards->records[k];
    dt__text_put(out, text_at(guards, guards->reasons[g->reason].text));
    put_reason(guards, g, out);
    dt__text_put(out, "\n");
  }
}
