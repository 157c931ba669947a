// SPDX-License-Identifier: Apache-2.0
// What a program of checks comes to for the numbers of one call, in plain C.
#include "test/unit/exec/check_program.h"

#include <string.h>

enum { MOST = 1 << 20 }; // of a number

typedef struct vector_t {
  int64_t n;
  double at[CP_ELEMENTS];
} vector_t;

typedef struct model_t {
  const cp_call_t *call;
  uint32_t n_syms, n_values;
  int64_t syms[CP_SYMS];
  vector_t values[CP_VALUES];
  cp_verdict_t verdict;
} model_t;

static bool stop(model_t *m, cp_verdict_t verdict) {
  if (m->verdict == CP_TAKEN)
    m->verdict = verdict;
  return false;
}

static bool need(model_t *m, bool holds) { return holds || stop(m, CP_REFUSED); }
static bool fits(model_t *m, int64_t n) {
  return need(m, n >= 0) && (n <= CP_ELEMENTS || stop(m, CP_BEYOND));
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t step_of(const cp_step_t *s) { return s->number ? s->number : 1; }

// ---- Numbers ----------------------------------------------------------------------------------------
static int64_t number_of(model_t *m, const cp_step_t *s) {
  int64_t a = m->syms[s->a % m->n_syms], b = m->syms[s->b % m->n_syms];
  switch (s->kind) {
  case CP_ITEM:
    return m->call->numbers[s->a % CP_NUMBERS];
  case CP_CONST:
    return s->number;
  case CP_DIM:
    return m->values[cp_at(s->a, m->n_values)].n;
  case CP_ADD:
    return a + b;
  case CP_SUB:
    return a - b;
  case CP_MUL:
    return a * b;
  case CP_DIV:
    return need(m, b != 0) ? floor_div(a, b) : 0;
  case CP_MOD:
    return need(m, b != 0) ? a - b * floor_div(a, b) : 0;
  case CP_MIN:
    return least(a, b);
  case CP_MAX:
    return most(a, b);
  case CP_NEG:
    return -a;
  case CP_ABS:
    return a < 0 ? -a : a;
  case CP_EQ:
    return a == b;
  case CP_NE:
    return a != b;
  case CP_LT:
    return a < b;
  case CP_LE:
    return a <= b;
  case CP_AND:
    return a != 0 && b != 0;
  case CP_OR:
    return a != 0 || b != 0;
  case CP_NOT:
    return a == 0;
  default:
    return a != 0 ? b : m->syms[s->c % m->n_syms];
  }
}

// ---- Values -----------------------------------------------------------------------------------------
static void part(const vector_t *x, int64_t start, int64_t n, int64_t step, vector_t *out) {
  out->n = n;
  for (int64_t k = 0; k < n; k++)
    out->at[k] = x->at[start + k * step];
}

static void slice(model_t *m, const vector_t *x, int64_t start, int64_t n, vector_t *out) {
  if (need(m, n >= 0 && (n == 0 || (start >= 0 && start + n <= x->n))))
    part(x, start, n, 1, out);
}

// As Python says it.
static void slice_range(const vector_t *x, int64_t begin, int64_t end, int64_t step,
                        vector_t *out) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? x->n : x->n - 1;
  begin = least(most(begin < 0 ? begin + x->n : begin, low), high);
  end = least(most(end < 0 ? end + x->n : end, low), high);
  int64_t way = step > 0 ? end - begin : begin - end, by = step > 0 ? step : -step;
  part(x, begin, way > 0 ? (way + by - 1) / by : 0, step, out);
}

static void fill(model_t *m, int64_t n, double first, double step, vector_t *out) {
  if (!fits(m, n))
    return;
  out->n = n;
  for (int64_t k = 0; k < n; k++)
    out->at[k] = first + step * (double)k;
}

static void grid(model_t *m, const vector_t *x, int64_t n, int64_t width, vector_t *out) {
  if (!need(m, n >= 0 && width >= 0 && n * width == x->n) || !fits(m, n))
    return;
  out->n = n;
  for (int64_t k = 0; k < n; k++) {
    out->at[k] = 0;
    for (int64_t i = 0; i < width; i++)
      out->at[k] += x->at[k * width + i];
  }
}

// Negative amounts take elements away.
static void pad(model_t *m, const vector_t *x, int64_t low, int64_t high, double value,
                vector_t *out) {
  int64_t n = x->n + low + high;
  if (!need(m, low >= -x->n && high >= -x->n) || !fits(m, n))
    return;
  out->n = n;
  for (int64_t k = 0; k < n; k++)
    out->at[k] = k - low >= 0 && k - low < x->n ? x->at[k - low] : value;
}

static void join(model_t *m, const vector_t *x, const vector_t *y, vector_t *out) {
  if (!fits(m, x->n + y->n))
    return;
  out->n = x->n + y->n;
  for (int64_t k = 0; k < out->n; k++)
    out->at[k] = k < x->n ? x->at[k] : y->at[k - x->n];
}

static void sums(model_t *m, const vector_t *x, const vector_t *y, vector_t *out) {
  if (!need(m, x->n == y->n || x->n == 1 || y->n == 1))
    return;
  out->n = x->n == 1 ? y->n : x->n;
  for (int64_t k = 0; k < out->n; k++)
    out->at[k] = x->at[x->n == 1 ? 0 : k] + y->at[y->n == 1 ? 0 : k];
}

// Each element `times` times.
static void repeat(model_t *m, const vector_t *x, int64_t times, vector_t *out) {
  if (!need(m, times >= 0) || !fits(m, x->n * times))
    return;
  for (int64_t k = 0; k < x->n * times; k++)
    out->at[out->n++] = x->at[k / times];
}

static void value_of(model_t *m, const cp_step_t *s, vector_t *out) {
  const vector_t *x = &m->values[cp_at(s->a, m->n_values)], *y = &m->values[s->b % m->n_values];
  int64_t b = m->syms[s->b % m->n_syms], c = m->syms[s->c % m->n_syms], step = step_of(s);
  int64_t way = step > 0 ? c - b : b - c, by = step > 0 ? step : -step;
  switch (s->kind) {
  case CP_SLICE:
    slice(m, x, b, c, out);
    return;
  case CP_SLICE_RANGE:
    slice_range(x, b, c, step, out);
    return;
  case CP_SPLIT:
    if (need(m, b >= 0 && c >= 0 && b + c == x->n))
      part(x, b, c, 1, out);
    return;
  case CP_FULL:
    fill(m, b, (double)s->number, 0, out);
    return;
  case CP_RANGE:
    fill(m, way > 0 ? (way + by - 1) / by : 0, (double)b, (double)step, out);
    return;
  case CP_RESHAPE: // -1 is another question where it is a literal
    if (b == -1)
      (void)stop(m, CP_BEYOND);
    else if (need(m, b == x->n))
      *out = *x;
    return;
  case CP_GRID:
    if (b == -1 || c == -1)
      (void)stop(m, CP_BEYOND);
    else
      grid(m, x, b, c, out);
    return;
  case CP_OPEN:
    grid(m, x, x->n / (1 + s->c % 4), 1 + s->c % 4, out);
    return;
  case CP_PAD:
    pad(m, x, b, c, (double)s->number, out);
    return;
  case CP_CONCAT:
    join(m, x, y, out);
    return;
  case CP_BROADCAST:
    sums(m, x, y, out);
    return;
  case CP_EXPAND:
    if (need(m, x->n == 1 || b == x->n))
      fill(m, b, 0, 0, out);
    for (int64_t k = 0; k < out->n; k++)
      out->at[k] = x->at[x->n == 1 ? 0 : k];
    return;
  case CP_SELECTION:
    for (int64_t k = 0; k < x->n; k++)
      if (x->at[k] > 0)
        out->at[out->n++] = x->at[k];
    return;
  case CP_PLACES:
    for (int64_t k = 0; k < x->n; k++)
      if (x->at[k] != 0)
        out->at[out->n++] = (double)k;
    return;
  case CP_REPEAT:
    repeat(m, x, b, out);
    return;
  case CP_CUMSUM:
    *out = *x;
    for (int64_t k = 1; k < x->n; k++)
      out->at[k] += out->at[k - 1];
    return;
  default: // CP_DOT
    if (!need(m, x->n == y->n))
      return;
    out->n = 1;
    out->at[0] = 0;
    for (int64_t k = 0; k < x->n; k++)
      out->at[0] += x->at[k] * y->at[k];
    return;
  }
}

static bool holds(const model_t *m, const cp_step_t *s) {
  int64_t a = m->syms[s->a % m->n_syms], b = m->syms[s->b % m->n_syms];
  return s->kind == CP_CHECK_TRUE ? a != 0
         : s->kind == CP_CHECK_EQ ? a == b
         : s->kind == CP_CHECK_NE ? a != b
         : s->kind == CP_CHECK_LT ? a < b
                                  : a <= b;
}

static void model_step(model_t *m, const cp_step_t *s) {
  if (s->kind >= CP_CHECK_TRUE) {
    (void)need(m, holds(m, s));
    return;
  }
  int64_t number = 0;
  if (s->kind >= CP_SLICE) {
    vector_t *made = &m->values[m->n_values];
    made->n = 0;
    value_of(m, s, made);
    for (int64_t k = 0; k < made->n; k++)
      if (made->at[k] > MOST || made->at[k] < -MOST)
        (void)stop(m, CP_BEYOND);
    m->n_values++;
    number = made->n;
  } else {
    number = number_of(m, s);
  }
  if (number > MOST || number < -MOST)
    (void)stop(m, CP_BEYOND);
  m->syms[m->n_syms++] = number;
}

void cp_model(const cp_program_t *p, const cp_call_t *call, cp_result_t *out) {
  static model_t model;
  model_t *m = &model;
  *m = (model_t){.call = call};
  *out = (cp_result_t){.verdict = CP_TAKEN};
  for (uint32_t k = 0; k < CP_TENSORS; k++) {
    m->syms[m->n_syms++] = m->values[k].n = call->sizes[k];
    for (int64_t i = 0; i < call->sizes[k]; i++)
      m->values[k].at[i] = cp_element(k, i);
    m->n_values++;
  }
  for (uint32_t k = 0; k < p->n_steps && m->verdict == CP_TAKEN; k++) {
    out->at = k;
    model_step(m, &p->steps[k]);
  }
  out->verdict = m->verdict;
  if (m->verdict != CP_TAKEN)
    return;
  vector_t last = {.n = 0};
  join(m, &m->values[m->n_values - 1], &m->values[m->n_values - 2], &last);
  out->verdict = m->verdict;
  out->n = last.n;
  out->number = -m->syms[m->n_syms - 1];
  for (int64_t k = 0; k < last.n; k++)
    out->elements[k] = -last.at[k];
}
