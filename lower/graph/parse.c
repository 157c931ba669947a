// SPDX-License-Identifier: Apache-2.0
// The reader of what print.c writes. A text is untrusted: every node goes through the builder, and
// the sizes it states must be possible under what inference says; where inference cannot tell (the
// graph was built with facts that the text does not carry), the stated sizes are learned.
#include "lower/graph/external.h"
#include "lower/graph/infer.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

// Constants without printed data are zeros; all data of a text together is limited to this.
#define MAX_DATA ((int64_t)256 << 20)
#define MAX_NAME 4096

typedef struct parser_t {
  dt_graph_t *graph;
  dt_symenv_t *env;
  dt_scan_t *scan;
  int64_t data_bytes;
  const void *const *given; // data of the constants, in order; NULL: the text's, or zeros
  uint32_t depth;           // of the body that is being read
  char name[MAX_NAME];
} parser_t;

// A refusal of the builder, with the place in the text; a lack of memory stays what it is.
static dt_status_t placed(parser_t *p, dt_status_t status) {
  if (!status || dt_status_code(status) == DT_E_NO_MEMORY)
    return status;
  dt_status_t made = dt__scan_fail(p->scan, "%s", dt_status_message(status));
  dt_status_free(status);
  return made;
}

// ---- Lists --------------------------------------------------------------------------------------
typedef dt_status_t (*item_fn_t)(parser_t *p, void *items, uint32_t k);

// [item, …] of at most `cap` items.
static dt_status_t parse_list(parser_t *p, item_fn_t item, void *items, uint32_t cap,
                              uint32_t *out_n) {
  *out_n = 0;
  DT_TRY(dt__scan_expect(p->scan, "["));
  while (!dt__scan_peek(p->scan, "]")) {
    if (*out_n > 0)
      DT_TRY(dt__scan_expect(p->scan, ","));
    if (*out_n == cap)
      return dt__scan_fail(p->scan, "more than %u entries", cap);
    DT_TRY(item(p, items, *out_n));
    (*out_n)++;
  }
  return dt__scan_expect(p->scan, "]");
}

static dt_status_t sym_item(parser_t *p, void *items, uint32_t k) {
  return dt__sym_parse(p->env, p->scan, (dt_sym_t *)items + k);
}

// [EXPRESSION]: in brackets, or the % of the next line would go on with it.
static dt_status_t parse_one_sym(parser_t *p, dt_sym_t *out) {
  uint32_t n = 0;
  DT_TRY(parse_list(p, sym_item, out, 1, &n));
  return n == 1 ? NULL : dt__scan_fail(p->scan, "expected one expression");
}

static dt_status_t i64_item(parser_t *p, void *items, uint32_t k) {
  return dt__scan_i64(p->scan, (int64_t *)items + k);
}

static dt_status_t parse_i32(parser_t *p, int64_t lo, int32_t *out) {
  int64_t value = 0;
  DT_TRY(dt__scan_i64(p->scan, &value));
  if (value < lo || value > INT32_MAX)
    return dt__scan_fail(p->scan, "%lld is out of range", (long long)value);
  *out = (int32_t)value;
  return NULL;
}

static dt_status_t axis_item(parser_t *p, void *items, uint32_t k) {
  return parse_i32(p, INT32_MIN, (int32_t *)items + k);
}

static dt_status_t parse_u32(parser_t *p, uint32_t *out) {
  int32_t value = 0;
  DT_TRY(parse_i32(p, 0, &value));
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t parse_dtype(parser_t *p, dt_dtype_t *out) {
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  *out = dt__dtype_parse(word, len);
  if (*out == DT_DTYPE_NONE)
    return dt__scan_fail(p->scan, "'%.*s' is no dtype", (int)(len < 64 ? len : 64), word);
  return NULL;
}

static dt_status_t parse_value(parser_t *p, dt_dtype_t dtype, dt_scalar_t *out) {
  if (dt__dtype_is_float(dtype))
    return dt__scan_f64(p->scan, &out->f);
  DT_TRY(dt__scan_i64(p->scan, &out->i));
  if (dt__scalar_cast(DT_I64, dtype, *out).i != out->i)
    return dt__scan_fail(p->scan, "%lld does not fit %s", (long long)out->i, dt_dtype_name(dtype));
  return NULL;
}

// %N
static dt_status_t parse_id(parser_t *p, dt_node_id_t *out) {
  DT_TRY(dt__scan_expect(p->scan, "%"));
  return parse_u32(p, &out->id);
}

// Into p->name. A name with a zero byte would end early as a C string.
static dt_status_t parse_string(parser_t *p) {
  size_t len = 0;
  DT_TRY(dt__scan_string(p->scan, p->name, sizeof(p->name), &len));
  if (memchr(p->name, '\0', len))
    return dt__scan_fail(p->scan, "a name holds a zero byte");
  return NULL;
}

// ---- Symbols ------------------------------------------------------------------------------------
static dt_status_t parse_symbol(parser_t *p, uint32_t index) {
  static const struct {
    char letter;
    dt_symbol_kind_t kind;
  } kinds[] = {{'s', DT_SYMBOL_SIZE}, {'n', DT_SYMBOL_INT}, {'u', DT_SYMBOL_UNBACKED}};
  const char *word = NULL;
  size_t len = 0, k = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  while (k < 3 && kinds[k].letter != word[0])
    k++;
  dt_scan_t digits;
  int64_t number = -1;
  dt__scan_init(&digits, word + 1, len - 1, p->scan->what);
  if (k < 3)
    dt_status_free(dt__scan_i64(&digits, &number));
  if (k == 3 || number != (int64_t)index || digits.at != digits.end)
    return dt__scan_fail(p->scan, "symbol %u must be s%u, n%u or u%u", index, index, index, index);
  int64_t bounds[2] = {0}, hint = 0;
  uint32_t n = 0;
  DT_TRY(dt__scan_expect(p->scan, ":"));
  DT_TRY(parse_list(p, i64_item, bounds, 2, &n));
  if (n != 2 || bounds[0] > bounds[1])
    return dt__scan_fail(p->scan, "a range has two bounds in order");
  bool hinted = dt__scan_accept_word(p->scan, "hint");
  if (hinted)
    DT_TRY(dt__scan_i64(p->scan, &hint));
  p->name[0] = '\0';
  if (dt__scan_peek(p->scan, "\""))
    DT_TRY(parse_string(p));
  dt_range_t range = {bounds[0], bounds[1]};
  dt_sym_t made = dt__sym_new(p->env, kinds[k].kind, range, hinted ? &hint : NULL, p->name);
  if (made.id != 0)
    return NULL;
  DT_TRY(placed(p, dt__symenv_status(p->env)));
  return dt__scan_fail(p->scan, "the symbol cannot be made");
}

static dt_status_t parse_symbols(parser_t *p) {
  DT_TRY(dt__scan_expect(p->scan, "graph"));
  DT_TRY(dt__scan_expect(p->scan, "("));
  for (uint32_t index = 0; !dt__scan_peek(p->scan, ")"); index++) {
    if (index > 0)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(parse_symbol(p, index));
  }
  DT_TRY(dt__scan_expect(p->scan, ")"));
  return dt__scan_expect(p->scan, "{");
}

// ---- Declarations: each reads on after its keyword, and adds a leaf when `leaf` is not NULL -----
static dt_status_t parse_input(parser_t *p, dt_node_id_t *leaf) {
  dt_graph_input_t input = {0};
  uint32_t n = 0;
  DT_TRY(parse_string(p));
  input.name = p->name;
  DT_TRY(parse_dtype(p, &input.dtype));
  DT_TRY(parse_list(p, sym_item, input.sizes, DT_MAX_RANK, &input.rank));
  DT_TRY(dt__scan_expect(p->scan, "strides"));
  DT_TRY(parse_list(p, sym_item, input.strides, DT_MAX_RANK, &n));
  if (n != input.rank)
    return dt__scan_fail(p->scan, "%u strides for %u sizes", n, input.rank);
  input.contiguous = dt__scan_accept_word(p->scan, "contiguous");
  if (dt__scan_accept_word(p->scan, "align"))
    DT_TRY(parse_u32(p, &input.align));
  input.donated = dt__scan_accept_word(p->scan, "donated");
  input.is_int = dt__scan_accept_word(p->scan, "value");
  if (input.is_int)
    DT_TRY(parse_one_sym(p, &input.value));
  return placed(p, leaf ? dt__graph_add_input(p->graph, &input, leaf)
                        : dt__graph_declare_input(p->graph, &input));
}

// `row`: the size of the last dim.
static dt_status_t parse_data(parser_t *p, dt_dtype_t dtype, int64_t count, int64_t row,
                              char *data) {
  DT_TRY(dt__scan_expect(p->scan, "["));
  for (int64_t k = 0; k < count; k++) {
    dt_scalar_t value = {0};
    if (k > 0)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(parse_value(p, dtype, &value));
    dt__element_store(dtype, data, row, k, value);
  }
  return dt__scan_expect(p->scan, "]");
}

// The bytes of a constant of `count` elements, within what a text may have of them.
static dt_status_t make_data(parser_t *p, const dt_graph_constant_t *constant, int64_t count,
                             char **out) {
  int64_t bytes = 0, size = (int64_t)dt_dtype_size(constant->dtype);
  if (!dt__mul_i64(count, size, &bytes) || bytes > MAX_DATA - p->data_bytes)
    return dt__scan_fail(p->scan, "constants of more than %lld bytes", (long long)MAX_DATA);
  p->data_bytes += bytes;
  *out = dt__arena_alloc(p->graph->arena, (size_t)bytes);
  return *out ? NULL : DT_NO_MEMORY();
}

static dt_status_t take_data(parser_t *p, dt_graph_constant_t *constant, int64_t count,
                             dt_node_id_t *leaf) {
  bool in_text = dt__scan_accept_word(p->scan, "data");
  char *data = NULL;
  if (in_text || !p->given)
    DT_TRY(make_data(p, constant, count, &data));
  if (in_text)
    DT_TRY(parse_data(p, constant->dtype, count,
                      constant->rank ? constant->sizes[constant->rank - 1] : 1, data));
  constant->data = p->given ? p->given[p->graph->constants.len] : data;
  return placed(p, leaf ? dt__graph_add_constant(p->graph, constant, NULL, leaf)
                        : dt__graph_declare_constant(p->graph, constant));
}

static dt_status_t parse_constant(parser_t *p, dt_node_id_t *leaf) {
  dt_graph_constant_t constant = {0};
  int64_t key = 0, count = 1;
  DT_TRY(parse_string(p));
  constant.name = dt__arena_strdup(p->graph->arena, p->name);
  if (!constant.name)
    return DT_NO_MEMORY();
  DT_TRY(parse_dtype(p, &constant.dtype));
  DT_TRY(parse_list(p, i64_item, constant.sizes, DT_MAX_RANK, &constant.rank));
  DT_TRY(dt__scan_expect(p->scan, "key"));
  DT_TRY(dt__scan_i64(p->scan, &key));
  constant.key = (uint64_t)key;
  for (uint32_t k = 0; k < constant.rank; k++) {
    // A negative size is the declaration's to refuse.
    if (constant.sizes[k] < 0)
      count = 0;
    else if (!dt__mul_i64(count, constant.sizes[k], &count))
      return dt__scan_fail(p->scan, "the constant is too large");
  }
  return take_data(p, &constant, count, leaf);
}

// ---- Nodes --------------------------------------------------------------------------------------
// Attribute readers by key; `value` is the dtype that a literal has.
static dt_status_t attr_index(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_u32(p, &attrs->index);
}

static dt_status_t attr_dtype(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_dtype(p, &attrs->dtype);
}

static dt_status_t attr_axes(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_list(p, axis_item, attrs->axes, DT_MAX_RANK, &attrs->n_axes);
}

static dt_status_t attr_n_axes(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_u32(p, &attrs->n_axes);
}

static dt_status_t attr_keepdims(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_u32(p, &attrs->keepdims);
}

static dt_status_t attr_mode(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_u32(p, &attrs->mode);
}

static dt_status_t attr_syms(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return parse_list(p, sym_item, attrs->syms, 2 * DT_MAX_RANK, &attrs->n_syms);
}

static dt_status_t attr_steps(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  uint32_t n = 0;
  return parse_list(p, i64_item, attrs->ints, DT_MAX_RANK, &n);
}

static dt_status_t attr_value(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  dt_dtype_t dtype = attrs->dtype ? attrs->dtype : value;
  dt_scalar_t scalar = {0};
  DT_TRY(parse_value(p, dtype, &scalar));
  if (dt__dtype_is_float(dtype))
    attrs->floats[0] = scalar.f;
  else
    attrs->ints[0] = scalar.i;
  return NULL;
}

static dt_status_t attr_epsilon(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs) {
  (void)value;
  return dt__scan_f64(p->scan, &attrs->floats[0]);
}

static const struct {
  const char *key;
  uint32_t bit;
  dt_status_t (*read)(parser_t *p, dt_dtype_t value, dt_attrs_t *attrs);
} attr_keys[] = {
    {"index", DT_ATTR_INDEX, attr_index},
    {"dtype", DT_ATTR_DTYPE, attr_dtype},
    {"axes", DT_ATTR_AXES, attr_axes},
    {"n_axes", DT_ATTR_N_AXES, attr_n_axes},
    {"keepdims", DT_ATTR_KEEPDIMS, attr_keepdims},
    {"mode", DT_ATTR_MODE, attr_mode},
    {"syms", DT_ATTR_SYMS, attr_syms},
    {"steps", DT_ATTR_STEPS, attr_steps},
    {"value", DT_ATTR_VALUE, attr_value},
    {"epsilon", DT_ATTR_EPSILON, attr_epsilon},
};

static dt_status_t parse_attrs(parser_t *p, dt_op_t op, dt_dtype_t value, dt_attrs_t *attrs) {
  const size_t n = sizeof(attr_keys) / sizeof(attr_keys[0]);
  for (bool first = true; !dt__scan_accept(p->scan, "}"); first = false) {
    size_t k = 0;
    if (!first)
      DT_TRY(dt__scan_expect(p->scan, ","));
    while (k < n && !((dt__op_attrs(op) & attr_keys[k].bit) &&
                      dt__scan_accept_word(p->scan, attr_keys[k].key)))
      k++;
    if (k == n)
      return dt__scan_fail(p->scan, "expected an attribute of %s", dt__op_info(op)->name);
    DT_TRY(dt__scan_expect(p->scan, "="));
    DT_TRY(attr_keys[k].read(p, value, attrs));
  }
  return NULL;
}

// The type a node states: its dtype must be inference's, its sizes possible.
static dt_status_t parse_type(parser_t *p, dt_node_t *node) {
  dt_dtype_t dtype = DT_DTYPE_NONE;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  DT_TRY(parse_dtype(p, &dtype));
  DT_TRY(parse_list(p, sym_item, sizes, DT_MAX_RANK, &rank));
  if (dtype != node->dtype || rank != node->rank)
    return dt__scan_fail(p->scan, "%s gives %s of rank %u, not %s of rank %u",
                         dt__op_info(node->op)->name, dt_dtype_name(node->dtype), node->rank,
                         dt_dtype_name(dtype), rank);
  for (uint32_t k = 0; k < rank; k++) {
    if (sizes[k].id == 0) // building failed; the environment knows why
      return placed(p, dt__status_join(dt__symenv_status(p->env),
                                       DT_FAIL(DT_E_FORMAT, "size %u is no expression", k)));
    if (node->sizes[k].id == sizes[k].id)
      continue;
    dt_sym_t equal = dt__sym_eq(p->env, node->sizes[k], sizes[k]);
    dt_tri_t known = equal.id ? dt__sym_known(p->env, equal) : DT_FALSE;
    if (known == DT_FALSE)
      return dt__scan_fail(p->scan, "size %u of the result cannot be this", k);
    if (known == DT_UNKNOWN)
      DT_TRY(placed(p, dt__sym_learn(p->env, equal)));
    node->sizes[k] = sizes[k];
  }
  return NULL;
}

static dt_status_t parse_lines(parser_t *p);

// { LINE … } into a graph of its own; bodies of bodies up to a depth that no stack minds.
static dt_status_t parse_body(parser_t *p, const char *name, const dt_graph_t **out) {
  dt_graph_t *outer = p->graph;
  DT_TRY(dt__scan_expect(p->scan, name));
  DT_TRY(dt__scan_expect(p->scan, "{"));
  if (p->depth == DT_MOST_BODY_DEPTH)
    return dt__scan_fail(p->scan, "bodies in bodies, more than %u deep", DT_MOST_BODY_DEPTH);
  p->graph = dt__graph_create(outer->arena, p->env);
  *out = p->graph;
  if (!p->graph) {
    p->graph = outer;
    return DT_NO_MEMORY();
  }
  p->depth++;
  dt_status_t status = parse_lines(p);
  p->depth--;
  p->graph = outer;
  return status;
}

// The body of an earlier call.
static dt_status_t parse_again(parser_t *p, dt_graph_control_t *out) {
  dt_node_id_t id;
  DT_TRY(parse_id(p, &id));
  if (id.id == 0 || id.id > p->graph->nodes.len || dt__graph_node(p->graph, id)->op != DT_OP_call)
    return dt__scan_fail(p->scan, "%%%u is no call", id.id);
  out->bodies[0] = dt__graph_control(p->graph, dt__graph_node(p->graph, id))->bodies[0];
  return NULL;
}

static dt_status_t parse_bodies(parser_t *p, dt_op_t op, dt_graph_control_t *out) {
  bool one = op == DT_OP_associative_scan || op == DT_OP_call;
  uint32_t n = op == DT_OP_switch ? DT_MOST_CASES : one ? 1 : dt__op_is_control(op) ? 2 : 0;
  if (op == DT_OP_call && dt__scan_accept_word(p->scan, "again"))
    return parse_again(p, out);
  for (uint32_t b = 0; b < n && (op != DT_OP_switch || !dt__scan_peek(p->scan, ":")); b++)
    DT_TRY(parse_body(p, dt__control_body_name(op, b), &out->bodies[b]));
  return NULL;
}

// ---- Calls of users' ops ------------------------------------------------------------------------
// What a call may have (op.h) can be read.
_Static_assert(MAX_NAME == DT_OP_MAX_TEXT + 1, "texts of calls are names");

static dt_status_t f64_item(parser_t *p, void *items, uint32_t k) {
  return dt__scan_f64(p->scan, (double *)items + k);
}

// [value, …] of 8 bytes each.
static dt_status_t parse_values(parser_t *p, item_fn_t item, uint32_t *out_n, void **out) {
  uint32_t cap = 0;
  void *items = NULL;
  *out_n = 0;
  DT_TRY(dt__scan_expect(p->scan, "["));
  while (!dt__scan_peek(p->scan, "]")) {
    if (*out_n > 0)
      DT_TRY(dt__scan_expect(p->scan, ","));
    if (*out_n == DT_OP_MAX_VALUES)
      return dt__scan_fail(p->scan, "more than %d entries", DT_OP_MAX_VALUES);
    if (!dt__arena_grow(p->graph->arena, &items, &cap, *out_n + 1, sizeof(int64_t)))
      return DT_NO_MEMORY();
    DT_TRY(item(p, items, *out_n));
    (*out_n)++;
  }
  *out = items;
  return dt__scan_expect(p->scan, "]");
}

static dt_status_t parse_text(parser_t *p, const char **out) {
  DT_TRY(parse_string(p));
  *out = dt__arena_strdup(p->graph->arena, p->name);
  return *out ? NULL : DT_NO_MEMORY();
}

// KIND NAME VALUE
static dt_status_t parse_attr(parser_t *p, dt_op_attr_t *attr) {
  const char *word = NULL;
  size_t len = 0;
  void *values = NULL;
  for (int kind = DT_OP_ATTR_INT; kind <= DT_OP_ATTR_FLOATS && !attr->kind; kind++)
    if (dt__scan_accept_word(p->scan, dt__attr_kind_name((dt_op_attr_kind_t)kind)))
      attr->kind = (dt_op_attr_kind_t)kind;
  if (!attr->kind)
    return dt__scan_fail(p->scan, "expected int, float, text, ints or floats");
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  attr->name = dt__arena_printf(p->graph->arena, "%.*s", (int)(len < 256 ? len : 256), word);
  if (!attr->name)
    return DT_NO_MEMORY();
  if (!dt__attr_name_is_valid(attr->name))
    return dt__scan_fail(p->scan, "'%s' is no name of an attribute", attr->name);
  switch (attr->kind) {
  case DT_OP_ATTR_INT:
    return dt__scan_i64(p->scan, &attr->i);
  case DT_OP_ATTR_FLOAT:
    return dt__scan_f64(p->scan, &attr->f);
  case DT_OP_ATTR_TEXT:
    return parse_text(p, &attr->text);
  case DT_OP_ATTR_INTS:
    DT_TRY(parse_values(p, i64_item, &attr->n, &values));
    attr->ints = values;
    return NULL;
  case DT_OP_ATTR_FLOATS:
    DT_TRY(parse_values(p, f64_item, &attr->n, &values));
    attr->floats = values;
    return NULL;
  }
  return NULL;
}

static dt_status_t parse_call_attrs(parser_t *p, dt_graph_external_t *external) {
  dt_op_attr_t *attrs = DT_ARENA_ARRAY(p->graph->arena, dt_op_attr_t, DT_OP_MAX_ATTRS);
  if (!attrs)
    return DT_NO_MEMORY();
  external->attrs = attrs;
  DT_TRY(dt__scan_expect(p->scan, "{"));
  while (!dt__scan_accept(p->scan, "}")) {
    if (external->n_attrs)
      DT_TRY(dt__scan_expect(p->scan, ","));
    if (external->n_attrs == DT_OP_MAX_ATTRS)
      return dt__scan_fail(p->scan, "more than %d attributes", DT_OP_MAX_ATTRS);
    DT_TRY(parse_attr(p, &attrs[external->n_attrs++]));
  }
  return NULL;
}

static dt_status_t result_item(parser_t *p, void *items, uint32_t k) {
  dt_external_result_t *result = (dt_external_result_t *)items + k;
  DT_TRY(parse_dtype(p, &result->dtype));
  return parse_list(p, sym_item, result->sizes, DT_MAX_RANK, &result->rank);
}

// "domain.name" "identity" kernel with {…} items [e] gives [TYPE, …]
static dt_status_t parse_external(parser_t *p, const dt_node_id_t *inputs, uint32_t n_inputs,
                                  dt_node_id_t *out) {
  dt_external_result_t results[DT_OP_MAX_RESULTS] = {0};
  dt_graph_external_t external = {.results = results};
  DT_TRY(parse_text(p, &external.name));
  if (!dt__op_name_is_valid(external.name))
    return dt__scan_fail(p->scan, "'%s' is no name of an op", external.name);
  DT_TRY(parse_text(p, &external.identity));
  if (dt__scan_accept_word(p->scan, "numbers"))
    external.part = DT_EXTERNAL_NUMBERS;
  else
    DT_TRY(dt__scan_expect(p->scan, "kernel"));
  DT_TRY(dt__scan_expect(p->scan, "with"));
  DT_TRY(parse_call_attrs(p, &external));
  DT_TRY(dt__scan_expect(p->scan, "items"));
  DT_TRY(parse_one_sym(p, &external.items));
  DT_TRY(dt__scan_expect(p->scan, "gives"));
  DT_TRY(parse_list(p, result_item, results, DT_OP_MAX_RESULTS, &external.n_results));
  return placed(p, dt__graph_add_external(p->graph, &external, inputs, n_inputs, NULL, out));
}

// ---- Nodes --------------------------------------------------------------------------------------
static dt_status_t add_op(parser_t *p, dt_op_t op, const dt_node_id_t *inputs, uint32_t n,
                          const dt_attrs_t *attrs, dt_node_id_t *out) {
  dt_graph_control_t control = {.same = 0};
  if (op == DT_OP_external)
    return parse_external(p, inputs, n, out);
  DT_TRY(parse_bodies(p, op, &control));
  return placed(p, dt__op_is_control(op)
                       ? dt__graph_add_control(p->graph, op, &control, inputs, n, attrs, NULL, out)
                       : dt__graph_add(p->graph, op, inputs, n, attrs, NULL, out));
}

static dt_status_t parse_op(parser_t *p, dt_op_t op, dt_node_id_t *out) {
  DT_VEC(dt_node_id_t) inputs = {0};
  while (dt__scan_peek(p->scan, inputs.len ? "," : "%")) {
    dt_node_id_t id;
    if (inputs.len)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(parse_id(p, &id));
    if (id.id == 0 || id.id > p->graph->nodes.len)
      return dt__scan_fail(p->scan, "%%%u is no value so far", id.id);
    if (!DT_VEC_PUSH(p->graph->arena, &inputs, id))
      return DT_NO_MEMORY();
  }
  dt_attrs_t attrs = {0};
  dt_dtype_t value = inputs.len ? dt__graph_node(p->graph, inputs.items[0])->dtype : DT_I64;
  if (dt__scan_accept(p->scan, "{"))
    DT_TRY(parse_attrs(p, op, value, &attrs));
  DT_TRY(add_op(p, op, inputs.items, inputs.len, &attrs, out));
  DT_TRY(dt__scan_expect(p->scan, ":"));
  return parse_type(p, &p->graph->nodes.items[out->id - 1]);
}

// %N = …
static dt_status_t parse_node(parser_t *p) {
  dt_node_id_t stated, made = {0};
  DT_TRY(parse_id(p, &stated));
  if (stated.id != p->graph->nodes.len + 1)
    return dt__scan_fail(p->scan, "the next value is %%%u", p->graph->nodes.len + 1);
  DT_TRY(dt__scan_expect(p->scan, "="));
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  dt_op_t op = dt__op_find(word, len);
  if (op == DT_OP_NONE)
    return dt__scan_fail(p->scan, "'%.*s' is no op", (int)(len < 64 ? len : 64), word);
  bool declares = dt__scan_peek(p->scan, "\"");
  if (declares && op == DT_OP_input)
    return parse_input(p, &made);
  if (declares && op == DT_OP_constant)
    return parse_constant(p, &made);
  return parse_op(p, op, &made);
}

// ---- The whole ----------------------------------------------------------------------------------
static dt_status_t parse_assert(parser_t *p) {
  dt_graph_assert_t assertion = {.origin = {.op = "assert", .file = ""}};
  DT_TRY(dt__sym_parse(p->env, p->scan, &assertion.cond));
  DT_TRY(parse_string(p));
  assertion.what = dt__arena_strdup(p->graph->arena, p->name);
  if (dt__scan_accept_word(p->scan, "code")) {
    int32_t code = 0;
    DT_TRY(parse_i32(p, 0, &code));
    assertion.code = (dt_code_t)code;
  }
  if (!assertion.what || !DT_VEC_PUSH(p->graph->arena, &p->graph->asserts, assertion))
    return DT_NO_MEMORY();
  return NULL;
}

static dt_status_t parse_capture(parser_t *p) {
  dt_graph_capture_t capture = {0};
  DT_TRY(parse_string(p));
  capture.name = p->name;
  DT_TRY(parse_one_sym(p, &capture.value));
  return placed(p, dt__graph_add_capture(p->graph, &capture));
}

static dt_status_t parse_update(parser_t *p) {
  dt_graph_update_t update = {0};
  DT_TRY(parse_u32(p, &update.input));
  DT_TRY(parse_id(p, &update.value));
  return placed(p, dt__graph_add_update(p->graph, &update));
}

// "order [0, 2, 3, 1] like 0"; outputs before it that have none are row-major.
static dt_status_t parse_order(parser_t *p) {
  dt_graph_order_t order = {0};
  int64_t dims[DT_MAX_RANK];
  uint32_t n = 0;
  DT_TRY(parse_list(p, i64_item, dims, DT_MAX_RANK, &n));
  if (dt__scan_accept_word(p->scan, "like")) {
    DT_TRY(parse_u32(p, &order.like));
    order.like++;
  }
  while (p->graph->orders.len + 1 < p->graph->outputs.len) {
    dt_graph_order_t plain = {0};
    for (uint32_t k = 0; k < DT_MAX_RANK; k++)
      plain.dims[k] = (uint8_t)k;
    DT_TRY(placed(p, dt__graph_add_order(p->graph, &plain)));
  }
  uint32_t rank = dt__graph_node(p->graph, p->graph->outputs.items[p->graph->orders.len])->rank;
  if (n != rank)
    return dt__scan_fail(p->scan, "an order of %u dims for rank %u", n, rank);
  for (uint32_t k = 0; k < n; k++)
    order.dims[k] = (uint8_t)(dims[k] >= 0 && dims[k] < DT_MAX_RANK ? dims[k] : DT_MAX_RANK);
  return placed(p, dt__graph_add_order(p->graph, &order));
}

static dt_status_t parse_return(parser_t *p) {
  for (bool first = true; !dt__scan_peek(p->scan, "}"); first = false) {
    dt_node_id_t id;
    if (!first)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(parse_id(p, &id));
    DT_TRY(placed(p, dt__graph_add_output(p->graph, id)));
    if (dt__scan_accept_word(p->scan, "order"))
      DT_TRY(parse_order(p));
  }
  return dt__scan_expect(p->scan, "}");
}

// Up to and with the closing brace.
static dt_status_t parse_lines(parser_t *p) {
  while (!dt__scan_accept_word(p->scan, "return")) {
    if (dt__scan_accept_word(p->scan, "assert"))
      DT_TRY(parse_assert(p));
    else if (dt__scan_accept_word(p->scan, "capture"))
      DT_TRY(parse_capture(p));
    else if (dt__scan_accept_word(p->scan, "update"))
      DT_TRY(parse_update(p));
    else if (dt__scan_accept_word(p->scan, "input"))
      DT_TRY(parse_input(p, NULL));
    else if (dt__scan_accept_word(p->scan, "constant"))
      DT_TRY(parse_constant(p, NULL));
    else
      DT_TRY(parse_node(p));
  }
  return parse_return(p);
}

dt_status_t dt__graph_parse(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                            dt_graph_t **out) {
  return dt__graph_parse_over(arena, env, scan, NULL, out);
}

dt_status_t dt__graph_parse_over(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                                 const void *const *data, dt_graph_t **out) {
  *out = NULL;
  if (dt__symenv_symbol_count(env) != 0)
    return DT_FAIL(DT_E_ARGUMENT, "a graph is parsed into an empty environment");
  parser_t *p = DT_ARENA_NEW(arena, parser_t);
  dt_graph_t *graph = dt__graph_create(arena, env);
  if (!p || !graph)
    return DT_NO_MEMORY();
  p->graph = graph;
  p->env = env;
  p->scan = scan;
  p->given = data;
  DT_TRY(parse_symbols(p));
  DT_TRY(parse_lines(p));
  DT_TRY(placed(p, dt__symenv_status(env)));
  *out = graph;
  return NULL;
}
