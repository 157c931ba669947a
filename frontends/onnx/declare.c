// SPDX-License-Identifier: Apache-2.0
// Declares a model's inputs.
#include "frontends/onnx/declare.h"

#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <stdlib.h>
#include <string.h>

// ---- Expressions ----------------------------------------------------------------------------------
// Parentheses within each other: each is a few stack frames.
#define MAX_DEPTH 16u
#define MAX_NUMBER ((int64_t)1 << 31)

typedef struct expr_t {
  const char *at, *end;
  uint32_t depth;
} expr_t;

static bool read_sum(expr_t *e, dt_onnx_affine_t *out);

static void skip_space(expr_t *e) {
  while (e->at < e->end && *e->at == ' ')
    e->at++;
}

static bool accept(expr_t *e, char c) {
  skip_space(e);
  if (e->at == e->end || *e->at != c)
    return false;
  e->at++;
  return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool in_range(const dt_onnx_affine_t *x) {
  return x->scale > -MAX_NUMBER && x->scale < MAX_NUMBER && x->offset > -MAX_NUMBER &&
         x->offset < MAX_NUMBER;
}

static bool read_number(expr_t *e, dt_onnx_affine_t *out) {
  *out = (dt_onnx_affine_t){0};
  for (; e->at < e->end && is_digit(*e->at); e->at++) {
    out->offset = 10 * out->offset + (*e->at - '0');
    if (out->offset >= MAX_NUMBER)
      return false;
  }
  return e->at == e->end || !is_letter(*e->at);
}

static bool read_name(expr_t *e, dt_onnx_affine_t *out) {
  const char *begin = e->at;
  while (e->at < e->end && (is_letter(*e->at) || is_digit(*e->at) || *e->at == '.'))
    e->at++;
  *out = (dt_onnx_affine_t){1, 0, {begin, (size_t)(e->at - begin)}};
  return true;
}

static bool read_factor(expr_t *e, dt_onnx_affine_t *out) {
  bool negative = accept(e, '-');
  skip_space(e);
  bool good = false;
  if (accept(e, '('))
    good = e->depth++ < MAX_DEPTH && read_sum(e, out) && accept(e, ')') && e->depth-- > 0;
  else if (e->at < e->end && is_digit(*e->at))
    good = read_number(e, out);
  else if (e->at < e->end && is_letter(*e->at))
    good = read_name(e, out);
  if (good && negative)
    *out = (dt_onnx_affine_t){-out->scale, -out->offset, out->name};
  return good;
}

// One of them has no name.
static bool multiply(dt_onnx_affine_t *x, const dt_onnx_affine_t *y) {
  const dt_onnx_affine_t *named = x->name.len ? x : y, *number = x->name.len ? y : x;
  if (number->name.len > 0)
    return false;
  *x = (dt_onnx_affine_t){named->scale * number->offset, named->offset * number->offset,
                          named->name};
  return in_range(x);
}

static bool add(dt_onnx_affine_t *x, const dt_onnx_affine_t *y, int64_t sign) {
  if (x->name.len > 0 && y->name.len > 0 && !dt__onnx_str_equal(x->name, y->name))
    return false;
  *x = (dt_onnx_affine_t){x->scale + sign * y->scale, x->offset + sign * y->offset,
                          x->name.len ? x->name : y->name};
  return in_range(x);
}

static bool read_product(expr_t *e, dt_onnx_affine_t *out) {
  dt_onnx_affine_t factor;
  if (!read_factor(e, out))
    return false;
  while (accept(e, '*'))
    if (!read_factor(e, &factor) || !multiply(out, &factor))
      return false;
  return true;
}

static bool read_sum(expr_t *e, dt_onnx_affine_t *out) {
  dt_onnx_affine_t term;
  if (!read_product(e, out))
    return false;
  for (;;) {
    int64_t sign = accept(e, '+') ? 1 : accept(e, '-') ? -1 : 0;
    if (sign == 0)
      return true;
    if (!read_product(e, &term) || !add(out, &term, sign))
      return false;
  }
}

bool dt__onnx_read_affine(dt_onnx_str_t text, dt_onnx_affine_t *out) {
  expr_t e = {text.at, text.at + text.len, 0};
  if (text.len == 0 || !read_sum(&e, out))
    return false;
  skip_space(&e);
  return e.at == e.end;
}

// ---- Dims -----------------------------------------------------------------------------------------
typedef struct declare_t {
  const dt_onnx_t *file;
  dt_arena_t *arena;
  bool *initialized;           // by a name's id
  DT_VEC(dt_onnx_str_t) names; // of dims of declared inputs, sorted
  dt_text_t refused;
} declare_t;

static char *copy(const declare_t *d, dt_onnx_str_t str) {
  char *text = DT_ARENA_ARRAY(d->arena, char, str.len + 1);
  if (text)
    memcpy(text, str.at, str.len);
  return text;
}

static int compare_strs(const void *left, const void *right) {
  return dt__onnx_str_compare(*(const dt_onnx_str_t *)left, *(const dt_onnx_str_t *)right);
}

static bool is_name(const declare_t *d, dt_onnx_str_t name) {
  return d->names.len > 0 && bsearch(&name, d->names.items, d->names.len, sizeof d->names.items[0],
                                     compare_strs) != NULL;
}

// Exporters write "?" for each size that they do not know.
static bool names_something(dt_onnx_str_t name) {
  return name.len > 0 && !dt__onnx_str_is(name, "?");
}

static dt_status_t declare_dim(const declare_t *d, const dt_onnx_dim_t *dim, dt_dim_decl_t *out) {
  dt_onnx_affine_t affine = {0};
  if ((dim->head.has & 1) != 0 && dim->dim_value >= 0) {
    *out = (dt_dim_decl_t){.is_static = true, .value = dim->dim_value};
    return NULL;
  }
  if (!names_something(dim->dim_param))
    return NULL;
  // "seq-1" may be a name: it is an expression only of what is one.
  bool derived = dt__onnx_read_affine(dim->dim_param, &affine) && affine.scale != 0 &&
                 !dt__onnx_str_equal(affine.name, dim->dim_param) && is_name(d, affine.name);
  const char *name = copy(d, derived ? affine.name : dim->dim_param);
  if (!name)
    return DT_NO_MEMORY();
  if (derived)
    *out = (dt_dim_decl_t){.of = name, .scale = affine.scale, .offset = affine.offset};
  else
    out->name = name;
  return NULL;
}

// ---- Inputs ---------------------------------------------------------------------------------------
static const dt_onnx_dtype_t *dtype_of(const dt_onnx_value_t *value) {
  const dt_onnx_tensor_type_t *tensor = value->type->tensor_type;
  return tensor ? dt__onnx_dtype(tensor->elem_type) : NULL;
}

// NULL: it can be declared.
static const char *why_not(const dt_onnx_value_t *value) {
  const dt_onnx_dtype_t *dtype = dtype_of(value);
  if (!dtype)
    return "no tensor";
  if (dtype->dtype == DT_DTYPE_NONE)
    return dtype->name;
  return value->type->tensor_type->shape ? NULL : "of unknown rank";
}

static dt_status_t declare_input(declare_t *d, const dt_onnx_value_t *value, dt_input_decl_t *out) {
  const dt_onnx_shape_t *shape = value->type->tensor_type->shape;
  dt_dim_decl_t *dims = DT_ARENA_ARRAY(d->arena, dt_dim_decl_t, shape->dim.len + 1);
  *out = (dt_input_decl_t){.name = copy(d, value->name.text),
                           .dtype = dtype_of(value)->dtype,
                           .rank = shape->dim.len,
                           .dims = dims};
  if (!out->name || !dims)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < shape->dim.len; k++)
    DT_TRY(declare_dim(d, &shape->dim.items[k], &dims[k]));
  return NULL;
}

// Which inputs there are, the names of their dims, and what cannot be declared.
static dt_status_t gather(declare_t *d, dt_onnx_decls_t *out) {
  const dt_onnx_graph_t *graph = d->file->model.graph;
  for (uint32_t k = 0; k < graph->initializer.len; k++)
    d->initialized[graph->initializer.items[k].name.id] = true;
  for (uint32_t k = 0; k < graph->input.len; k++) {
    const dt_onnx_value_t *value = &graph->input.items[k];
    if (d->initialized[value->name.id])
      continue;
    const char *why = why_not(value);
    if (why)
      dt__text_printf(&d->refused, "%s\"%s\" (%s)", d->refused.len ? ", " : "",
                      dt__onnx_show(value->name.text).text, why);
    const dt_onnx_shape_t *shape = why ? NULL : value->type->tensor_type->shape;
    for (uint32_t i = 0; shape && i < shape->dim.len; i++)
      if (names_something(shape->dim.items[i].dim_param) &&
          !DT_VEC_PUSH(d->arena, &d->names, shape->dim.items[i].dim_param))
        return DT_NO_MEMORY();
    out->inputs[out->len++] = k;
  }
  if (d->names.len > 0)
    qsort(d->names.items, d->names.len, sizeof d->names.items[0], compare_strs);
  DT_TRY(dt__text_status(&d->refused));
  return d->refused.len ? DT_FAIL(DT_E_UNSUPPORTED, "%s: inputs that cannot be declared: %s",
                                  d->file->what, dt__text_str(&d->refused))
                        : NULL;
}

static dt_status_t declare_all(declare_t *d, dt_onnx_decls_t *out) {
  const dt_onnx_graph_t *graph = d->file->model.graph;
  *out = (dt_onnx_decls_t){.items = DT_ARENA_ARRAY(d->arena, dt_input_decl_t, graph->input.len + 1),
                           .inputs = DT_ARENA_ARRAY(d->arena, uint32_t, graph->input.len + 1)};
  d->initialized = DT_ARENA_ARRAY(d->arena, bool, d->file->model.n_names);
  if (!out->items || !out->inputs || !d->initialized)
    return DT_NO_MEMORY();
  DT_TRY(gather(d, out));
  for (uint32_t k = 0; k < out->len; k++)
    DT_TRY(declare_input(d, &graph->input.items[out->inputs[k]], &out->items[k]));
  return NULL;
}

dt_status_t dt__onnx_declare(const dt_onnx_t *file, dt_arena_t *arena, dt_onnx_decls_t *out) {
  declare_t d = {.file = file, .arena = arena};
  dt__text_init(&d.refused);
  dt_status_t status = declare_all(&d, out);
  dt__text_fini(&d.refused);
  return status;
}
