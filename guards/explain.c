// SPDX-License-Identifier: Apache-2.0
// Guards for people: the list of a program's guards, and which of them a call failed and why. Never
// on the call path.
#include "guards/record.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct explain_t {
  const dt_guards_t *guards;
  const dt_guard_args_t *args;
  const int64_t *sym;
  dt_text_t *out;
} explain_t;

static const char *text_at(const dt_guards_t *guards, uint32_t offset) {
  return guards->text + offset;
}

static const bool can_fail[DT_GUARD_KIND_COUNT] = {
#define GUARD_KIND(id, fails, reads, remedy, if_number, doc) [DT_GUARD_##id] = fails,
#include "guards/guard_kinds.def"
};

// " (matmul, model.c:41)"
static void put_reason(const dt_guard_told_t *told, dt_text_t *out) {
  dt__text_printf(out, " (%s", told->op);
  if (told->file[0])
    dt__text_printf(out, ", %s:%d", told->file, told->line);
  dt__text_put(out, ")");
}

// ---- What came instead --------------------------------------------------------------------------
static void put_symbol(const explain_t *x, uint32_t symbol) {
  const dt_guard_symbol_t *s = &x->guards->symbols[symbol];
  dt__text_printf(x->out, "%s = %lld", text_at(x->guards, s->text), (long long)x->sym[symbol]);
  if (s->name)
    dt__text_printf(x->out, " (%s)", text_at(x->guards, s->name));
}

static void actual_modes(const explain_t *x, const dt_guard_t *g) {
  dt__guard_put_modes(x->args->modes, (uint64_t)g->b, x->out);
}

static void actual_header(const explain_t *x, const dt_guard_t *g) {
  const dt_tensor_t *t = x->args->inputs[g->input];
  char where[32];
  dt__text_printf(x->out, "%s of rank %u on %s%s", dt_dtype_name(t->dtype), t->rank,
                  t->device == DT_CPU ? "the host"
                                      : dt__place_name(t->device, where, sizeof(where)),
                  t->contiguous ? ", contiguous" : ", strided");
  if (g->b & DT_GUARD_KEY_ORDER)
    dt__guard_put_order(t->order, t->rank, x->out);
}

static void actual_size_const(const explain_t *x, const dt_guard_t *g) {
  dt__text_printf(x->out, "%lld", (long long)x->args->inputs[g->input]->sizes[g->dim]);
}

static void actual_stride_const(const explain_t *x, const dt_guard_t *g) {
  dt__text_printf(x->out, "%lld", (long long)x->args->inputs[g->input]->strides[g->dim]);
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

static void actual_value_const(const explain_t *x, const dt_guard_t *g) {
  int64_t value;
  if (dt__guard_value(x->args->inputs[g->input], (dt_dtype_t)g->dim, &value))
    dt__text_printf(x->out, "%lld", (long long)value);
  else
    dt__text_put(x->out, "more than a signed 64-bit integer holds");
}

static void actual_bind_value(const explain_t *x, const dt_guard_t *g) { actual_value_const(x, g); }

static void actual_value_symbol(const explain_t *x, const dt_guard_t *g) {
  actual_value_const(x, g);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->at);
}

static void actual_capture_const(const explain_t *x, const dt_guard_t *g) {
  dt__text_printf(x->out, "%lld", (long long)x->args->captures[g->input]);
}

static void actual_bind_capture(const explain_t *x, const dt_guard_t *g) {
  actual_capture_const(x, g);
}

static void actual_capture_symbol(const explain_t *x, const dt_guard_t *g) {
  actual_capture_const(x, g);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->at);
}

static void actual_symbol_range(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbol_not(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbol_mod(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbol_not_mod(const explain_t *x, const dt_guard_t *g) { put_symbol(x, g->at); }

static void actual_symbols_eq(const explain_t *x, const dt_guard_t *g) {
  put_symbol(x, g->at);
  dt__text_put(x->out, ", ");
  put_symbol(x, g->other);
}

static void actual_symbols_ne(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

static void actual_symbols_lt(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

static void actual_symbols_le(const explain_t *x, const dt_guard_t *g) { actual_symbols_eq(x, g); }

bool dt__guard_step_is_new(const dt_guard_step_t *steps, uint32_t k) {
  bool fresh = steps[k].op == DT_SYM_SYMBOL;
  for (uint32_t j = 0; fresh && j < k; j++)
    fresh = steps[j].op != DT_SYM_SYMBOL || steps[j].symbol != steps[k].symbol;
  return fresh;
}

// The symbols of an expression, each once, in the order of their first use.
static void put_symbols(const explain_t *x, const dt_guard_t *g) {
  const dt_guard_step_t *steps = x->guards->steps + g->at;
  const char *between = "";
  for (uint32_t k = 0; k < g->other; k++) {
    if (!dt__guard_step_is_new(steps, k))
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

static void actual_value_expr(const explain_t *x, const dt_guard_t *g) {
  actual_value_const(x, g);
  dt__text_put(x->out, ", expected ");
  put_value(x, g);
}

static void actual_capture_expr(const explain_t *x, const dt_guard_t *g) {
  actual_capture_const(x, g);
  dt__text_put(x->out, ", expected ");
  put_value(x, g);
}

static void actual_expr(const explain_t *x, const dt_guard_t *g) {
  int64_t value = 0;
  if (!dt__guard_eval(x->guards->steps + g->at, g->other, x->sym, &value))
    dt__text_put(x->out, "no 64-bit value for ");
  put_symbols(x, g);
}

// Addresses differ from run to run, so memory is told by what is wrong with it.
static void actual_aligned(const explain_t *x, const dt_guard_t *g) {
  uintptr_t rest = (uintptr_t)x->args->inputs[g->input]->data & ((uintptr_t)g->a - 1);
  dt__text_printf(x->out, "an address %llu bytes past one", (unsigned long long)rest);
}

static void actual_same_memory(const explain_t *x, const dt_guard_t *g) {
  bool here = x->args->inputs[g->input]->data == x->args->inputs[g->other]->data;
  dt__text_put(x->out, here ? "the same address in another layout" : "another address");
}

static void actual_disjoint(const explain_t *x, const dt_guard_t *g) {
  bool here = x->args->inputs[g->input]->data == x->args->inputs[g->other]->data;
  dt__text_put(x->out, here ? "the same address" : "memory that overlaps");
}

static void actual_no_overlap(const explain_t *x, const dt_guard_t *g) {
  const dt_tensor_t *t = x->args->inputs[g->input];
  dt__text_put(x->out, "strides");
  for (uint32_t k = 0; k < t->rank; k++)
    dt__text_printf(x->out, "%s %lld over %lld", k ? "," : "", (long long)t->strides[k],
                    (long long)t->sizes[k]);
}

static void (*const actual[DT_GUARD_KIND_COUNT])(const explain_t *, const dt_guard_t *) = {
#define GUARD_KIND(id, can_fail, reads, remedy, if_number, doc) [DT_GUARD_##id] = actual_##id,
#include "guards/guard_kinds.def"
};

// ---- Walks --------------------------------------------------------------------------------------
// The symbols that a record reads: a function for each word of the column.
typedef void (*take_fn_t)(const dt_guards_t *guards, const dt_guard_t *g, dt_guard_failure_t *out);

static void take_none(const dt_guards_t *guards, const dt_guard_t *g, dt_guard_failure_t *out) {
  (void)guards, (void)g, (void)out;
}

static void take_at(const dt_guards_t *guards, const dt_guard_t *g, dt_guard_failure_t *out) {
  (void)guards;
  out->symbols[out->n_symbols++] = g->at;
}

static void take_both(const dt_guards_t *guards, const dt_guard_t *g, dt_guard_failure_t *out) {
  take_at(guards, g, out);
  out->symbols[out->n_symbols++] = g->other;
}

static void take_steps(const dt_guards_t *guards, const dt_guard_t *g, dt_guard_failure_t *out) {
  for (uint32_t k = 0; k < g->other && out->n_symbols < DT_GUARD_TOLD_SYMBOLS; k++) {
    if (dt__guard_step_is_new(guards->steps + g->at, k))
      out->symbols[out->n_symbols++] = guards->steps[g->at + k].symbol;
  }
}

static const take_fn_t takes[DT_GUARD_KIND_COUNT] = {
#define GUARD_KIND(id, can_fail, reads, remedy, if_number, doc) [DT_GUARD_##id] = take_##reads,
#include "guards/guard_kinds.def"
};

// Whether a record compares an expression that has no 64-bit value.
static bool has_no_value(const explain_t *x, const dt_guard_t *g) {
  int64_t value = 0;
  return takes[g->kind] == take_steps &&
         !dt__guard_eval(x->guards->steps + g->at, g->other, x->sym, &value);
}

bool dt__guards_failure(const dt_guards_t *guards, const dt_guard_args_t *args,
                        dt_guard_failure_t *out) {
  *out = (dt_guard_failure_t){0};
  dt__text_init(&out->actual);
  dt__text_init(&out->remedy);
  int64_t *symbols = dt__calloc(guards->n_symbols, sizeof(*symbols));
  if (!symbols) {
    out->told = (dt_guard_told_t){"guards that hold", "explain", "", 0, true};
    dt__text_put(&out->actual, "no memory to find out");
    return true;
  }
  explain_t x = {guards, args, symbols, &out->actual};
  uint32_t k = 0;
  while (k < guards->n_records && dt__guard_check(guards, &guards->records[k], args, symbols))
    k++;
  bool failed = k < guards->n_records;
  if (failed) {
    const dt_guard_t *g = &guards->records[k];
    out->record = k;
    out->told = dt__guards_tell(guards, k);
    actual[g->kind](&x, g);
    out->no_value = has_no_value(&x, g);
    takes[g->kind](guards, g, out);
    dt__guard_remedy(guards, g, &out->remedy);
  }
  dt__free(symbols);
  return failed;
}

void dt__guard_failure_fini(dt_guard_failure_t *failure) {
  dt__text_fini(&failure->actual);
  dt__text_fini(&failure->remedy);
}

void dt__guard_failure_put(const dt_guard_failure_t *failure, dt_text_t *out) {
  dt__text_printf(out, "expected %s, got %s", failure->told.guard, dt__text_str(&failure->actual));
  put_reason(&failure->told, out);
}

bool dt__guards_explain(const dt_guards_t *guards, const dt_guard_args_t *args, dt_text_t *out) {
  dt_guard_failure_t failure;
  bool failed = dt__guards_failure(guards, args, &failure);
  if (failed)
    dt__guard_failure_put(&failure, out);
  dt__guard_failure_fini(&failure);
  return failed;
}

uint32_t dt__guards_record_count(const dt_guards_t *guards) { return guards->n_records; }

dt_guard_told_t dt__guards_tell(const dt_guards_t *guards, uint32_t record) {
  const dt_guard_t *g = &guards->records[record];
  const dt_guard_reason_t *reason = &guards->reasons[g->reason];
  return (dt_guard_told_t){.guard = text_at(guards, reason->text),
                           .op = text_at(guards, reason->op),
                           .file = text_at(guards, reason->file),
                           .line = reason->line,
                           .can_fail = can_fail[g->kind]};
}

void dt__guards_print(const dt_guards_t *guards, dt_text_t *out) {
  for (uint32_t k = 0; k < guards->n_records; k++) {
    dt_guard_told_t told = dt__guards_tell(guards, k);
    dt__text_put(out, told.guard);
    put_reason(&told, out);
    dt__text_put(out, "\n");
  }
}
