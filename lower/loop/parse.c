// SPDX-License-Identifier: Apache-2.0
// Programs from text, as print.c writes them: symbols, buffers and checks. parse_body.c reads
// kernels, parse_plan.c everything around kernels. The caller verifies the program.
#include "lower/loop/parse_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

dt_status_t dt__loop_parse_u32(dt_loop_parser_t *p, uint32_t *out) {
  int64_t value = 0;
  *out = 0;
  DT_TRY(dt__scan_i64(p->scan, &value));
  if (value < 0 || value >= UINT32_MAX)
    return dt__scan_fail(p->scan, "%lld is no count", (long long)value);
  *out = (uint32_t)value;
  return NULL;
}

dt_status_t dt__loop_parse_id(dt_loop_parser_t *p, char letter, uint32_t *out) {
  const char token[2] = {letter, '\0'};
  DT_TRY(dt__scan_expect(p->scan, token));
  return dt__loop_parse_u32(p, out);
}

dt_status_t dt__loop_parse_buffer(dt_loop_parser_t *p, dt_buffer_id_t *out) {
  DT_TRY(dt__loop_parse_id(p, 'b', &out->id));
  if (out->id == 0 || out->id > p->program->buffers.len)
    return dt__scan_fail(p->scan, "there is no buffer b%u", out->id);
  return NULL;
}

dt_status_t dt__loop_parse_dtype(dt_loop_parser_t *p, dt_dtype_t *out) {
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  *out = dt__dtype_parse(word, len);
  if (*out == DT_DTYPE_NONE)
    return dt__scan_fail(p->scan, "unknown dtype '%.*s'", (int)(len > 32 ? 32 : len), word);
  return NULL;
}

dt_status_t dt__loop_parse_exprs(dt_loop_parser_t *p, dt_sym_t *exprs, uint32_t cap,
                                 uint32_t *out_n) {
  *out_n = 0;
  DT_TRY(dt__scan_expect(p->scan, "["));
  if (dt__scan_accept(p->scan, "]"))
    return NULL;
  do {
    if (*out_n == cap)
      return dt__scan_fail(p->scan, "more than %u expressions", cap);
    DT_TRY(dt__sym_parse(p->env, p->scan, &exprs[*out_n]));
    (*out_n)++;
  } while (dt__scan_accept(p->scan, ","));
  return dt__scan_expect(p->scan, "]");
}

dt_status_t dt__loop_parse_range(dt_loop_parser_t *p, dt_range_t *out) {
  DT_TRY(dt__scan_expect(p->scan, "["));
  DT_TRY(dt__scan_i64(p->scan, &out->lo));
  DT_TRY(dt__scan_expect(p->scan, ","));
  DT_TRY(dt__scan_i64(p->scan, &out->hi));
  return dt__scan_expect(p->scan, "]");
}

dt_status_t dt__loop_parse_string(dt_loop_parser_t *p, const char **out) {
  char buf[1024];
  size_t len = 0;
  DT_TRY(dt__scan_string(p->scan, buf, sizeof(buf), &len));
  if (memchr(buf, '\0', len))
    return dt__scan_fail(p->scan, "a string with a NUL");
  *out = dt__arena_strdup(p->arena, buf);
  return *out ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__loop_parse_name(dt_loop_parser_t *p, const char *(*name)(uint32_t), uint32_t n,
                                const char *what, uint32_t *out) {
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  for (uint32_t k = 0; k < n; k++)
    if (strlen(name(k)) == len && memcmp(name(k), word, len) == 0) {
      *out = k;
      return NULL;
    }
  return dt__scan_fail(p->scan, "unknown %s '%.*s'", what, (int)(len > 32 ? 32 : len), word);
}

dt_status_t dt__loop_parse_value(dt_loop_parser_t *p, dt_dtype_t dtype, dt_scalar_t *out) {
  if (p->exact) {
    DT_TRY(dt__scan_expect(p->scan, "bits"));
    return dt__scan_i64(p->scan, &out->i);
  }
  return dt__dtype_is_float(dtype) ? dt__scan_f64(p->scan, &out->f)
                                   : dt__scan_i64(p->scan, &out->i);
}

// ---- Lines ----------------------------------------------------------------------------------------------
static dt_status_t parse_symbol(dt_loop_parser_t *p) {
  static const struct {
    char letter;
    dt_symbol_kind_t kind;
  } kinds[] = {{'s', DT_SYMBOL_SIZE},
               {'n', DT_SYMBOL_INT},
               {'u', DT_SYMBOL_UNBACKED},
               {'p', DT_SYMBOL_SLICE},
               {'c', DT_SYMBOL_PARAMETER}};
  const size_t n_kinds = sizeof(kinds) / sizeof(kinds[0]);
  dt__scan_space(p->scan);
  size_t at = 0;
  while (at < n_kinds && (p->scan->at == p->scan->end || *p->scan->at != kinds[at].letter))
    at++;
  if (at == n_kinds)
    return dt__scan_fail(p->scan, "expected a symbol s, n, u, p or c");
  uint32_t number = 0;
  DT_TRY(dt__loop_parse_id(p, kinds[at].letter, &number));
  if (number != dt__symenv_symbol_count(p->env))
    return dt__scan_fail(p->scan, "the next symbol has number %u", dt__symenv_symbol_count(p->env));
  dt_range_t range;
  int64_t hint = 0;
  const char *name = "";
  DT_TRY(dt__scan_expect(p->scan, ":"));
  DT_TRY(dt__loop_parse_range(p, &range));
  bool has_hint = dt__scan_accept_word(p->scan, "hint");
  if (has_hint)
    DT_TRY(dt__scan_i64(p->scan, &hint));
  if (dt__scan_peek(p->scan, "\""))
    DT_TRY(dt__loop_parse_string(p, &name));
  (void)dt__sym_new(p->env, kinds[at].kind, range, has_hint ? &hint : NULL, name);
  return dt__symenv_status(p->env);
}

static const char *buffer_kind(uint32_t k) { return dt__buffer_kind_name((dt_buffer_kind_t)k); }

// `[k, …]`, one a dim.
static dt_status_t parse_list(dt_loop_parser_t *p, int64_t *out, uint32_t n) {
  DT_TRY(dt__scan_expect(p->scan, "["));
  for (uint32_t k = 0; k < n; k++) {
    if (k)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(dt__scan_i64(p->scan, &out[k]));
    if (out[k] < 0 || out[k] >= DT_SIZE_LIMIT)
      return dt__scan_fail(p->scan, "%lld in a layout", (long long)out[k]);
  }
  return dt__scan_expect(p->scan, "]");
}

// After the word `order`.
static dt_status_t parse_layout(dt_loop_parser_t *p, dt_buffer_t *buffer) {
  uint32_t blocked = 0;
  int64_t order[DT_MAX_RANK] = {0};
  dt_buffer_layout_t *layout = DT_ARENA_NEW(p->arena, dt_buffer_layout_t);
  if (!layout)
    return DT_NO_MEMORY();
  buffer->layout = layout;
  DT_TRY(parse_list(p, order, buffer->rank));
  for (uint32_t k = 0; k < buffer->rank; k++)
    layout->order[k] = (uint8_t)(order[k] < DT_MAX_RANK ? order[k] : DT_MAX_RANK);
  if (dt__scan_accept_word(p->scan, "block")) {
    DT_TRY(dt__scan_i64(p->scan, &layout->block));
    DT_TRY(dt__scan_expect(p->scan, "of"));
    DT_TRY(dt__loop_parse_u32(p, &blocked));
    layout->blocked = (uint8_t)(blocked < DT_MAX_RANK ? blocked : DT_MAX_RANK);
  }
  if (dt__scan_accept_word(p->scan, "halo")) {
    DT_TRY(parse_list(p, layout->before, buffer->rank));
    DT_TRY(parse_list(p, layout->behind, buffer->rank));
  }
  layout->filled = dt__scan_accept_word(p->scan, "fill");
  if (layout->filled)
    DT_TRY(dt__loop_parse_value(p, buffer->dtype, &layout->fill));
  return dt__layout_check(buffer) ? NULL : dt__scan_fail(p->scan, "no layout of the buffer's rank");
}

static dt_status_t parse_buffer(dt_loop_parser_t *p) {
  dt_buffer_t buffer = {0};
  dt_buffer_id_t made;
  uint32_t id = 0, kind = 0, n_strides = 0;
  DT_TRY(dt__loop_parse_id(p, 'b', &id));
  if (id != p->program->buffers.len + 1)
    return dt__scan_fail(p->scan, "the next buffer is b%u", p->program->buffers.len + 1);
  DT_TRY(dt__scan_expect(p->scan, "="));
  DT_TRY(dt__loop_parse_name(p, buffer_kind, DT_BUFFER_STATE + 1, "buffer kind", &kind));
  buffer.kind = (dt_buffer_kind_t)kind;
  if (kind <= DT_BUFFER_OUTPUT || kind == DT_BUFFER_STATE)
    DT_TRY(dt__loop_parse_u32(p, &buffer.index));
  DT_TRY(dt__loop_parse_dtype(p, &buffer.dtype));
  DT_TRY(dt__loop_parse_exprs(p, buffer.sizes, DT_MAX_RANK, &buffer.rank));
  if (buffer.kind == DT_BUFFER_INPUT || p->exact) {
    DT_TRY(dt__scan_expect(p->scan, "strides"));
    DT_TRY(dt__loop_parse_exprs(p, buffer.strides, DT_MAX_RANK, &n_strides));
    if (n_strides != buffer.rank)
      return dt__scan_fail(p->scan, "%u strides for rank %u", n_strides, buffer.rank);
  }
  if (dt__scan_accept_word(p->scan, "row"))
    DT_TRY(dt__sym_parse(p->env, p->scan, &buffer.row));
  if (dt__scan_accept_word(p->scan, "order"))
    DT_TRY(parse_layout(p, &buffer));
  buffer.donated = dt__scan_accept_word(p->scan, "donated");
  buffer.taken = buffer.donated && dt__scan_accept_word(p->scan, "taken");
  return p->exact ? dt__program_put_buffer(p->program, &buffer)
                  : dt__program_add_buffer(p->program, &buffer, &made);
}

static dt_status_t parse_assert(dt_loop_parser_t *p) {
  dt_graph_assert_t check = {0};
  if (!p->exact)
    return dt__scan_fail(p->scan, "asserts are part of exact text only");
  DT_TRY(dt__sym_parse(p->env, p->scan, &check.cond));
  return DT_VEC_PUSH(p->arena, &p->graph->asserts, check) ? NULL : DT_NO_MEMORY();
}

static dt_status_t parse_check(dt_loop_parser_t *p) {
  uint32_t number = 0;
  dt_check_t check = {0};
  DT_TRY(dt__loop_parse_u32(p, &number));
  if (number != p->program->checks.len)
    return dt__scan_fail(p->scan, "the next check has number %u", p->program->checks.len);
  DT_TRY(dt__loop_parse_string(p, &check.what));
  DT_TRY(dt__scan_expect(p->scan, "op"));
  DT_TRY(dt__loop_parse_string(p, &check.origin.op));
  uint32_t code = 0;
  if (dt__scan_accept_word(p->scan, "code"))
    DT_TRY(dt__loop_parse_u32(p, &code));
  check.code = (dt_code_t)code;
  if (dt__scan_accept_word(p->scan, "readback")) {
    DT_TRY(dt__loop_parse_u32(p, &check.readback));
    check.readback++;
  }
  return DT_VEC_PUSH(p->arena, &p->program->checks, check) ? NULL : DT_NO_MEMORY();
}

static dt_status_t parse_number(dt_loop_parser_t *p) {
  if (!p->exact)
    return dt__scan_fail(p->scan, "numbers are part of exact text only");
  dt_attrs_t *attrs = DT_ARENA_NEW(p->arena, dt_attrs_t);
  if (!attrs)
    return DT_NO_MEMORY();
  DT_TRY(dt__sym_parse(p->env, p->scan, &attrs->syms[0]));
  dt_node_t node = {.op = DT_OP_size, .attrs = attrs};
  return DT_VEC_PUSH(p->arena, &p->graph->nodes, node) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__loop_parse_program(dt_loop_parser_t *p) {
  static const struct {
    const char *word;
    dt_status_t (*parse)(dt_loop_parser_t *p);
  } lines[] = {{"symbol", parse_symbol},
               {"assert", parse_assert},
               {"number", parse_number},
               {"buffer", parse_buffer},
               {"check", parse_check},
               {"kernel", dt__loop_parse_kernel},
               {"outputs", dt__loop_parse_outputs},
               {"readback", dt__loop_parse_readback},
               {"once", dt__loop_parse_once},
               {"device_sized", dt__loop_parse_device_sized},
               {"host_reads", dt__loop_parse_host_reads},
               {"offset", dt__loop_parse_offset},
               {"block", dt__loop_parse_block},
               {"kept", dt__loop_parse_kept},
               {"segment", dt__loop_parse_segment},
               {"slices", dt__loop_parse_slices},
               {"region", dt__loop_parse_region}};
  dt_scan_t *scan = p->scan;
  DT_TRY(dt__scan_expect(scan, "program"));
  DT_TRY(dt__scan_expect(scan, "{"));
  while (!dt__scan_accept(scan, "}")) {
    size_t k = 0, n = sizeof(lines) / sizeof(lines[0]);
    while (k < n && !dt__scan_accept_word(scan, lines[k].word))
      k++;
    if (k == n)
      return dt__scan_fail(scan,
                           "expected symbol, buffer, check, kernel, outputs, readback or the plan");
    DT_TRY(lines[k].parse(p));
    DT_TRY(dt__symenv_status(p->env));
  }
  return dt__program_settle_regions(p->program);
}

dt_status_t dt__program_parse(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                              dt_program_t **out) {
  *out = NULL;
  if (dt__symenv_symbol_count(env) != 0)
    return DT_FAIL(DT_E_ARGUMENT, "a program is read into an environment without symbols");
  dt_loop_parser_t p = {
      .arena = arena, .env = env, .scan = scan, .program = dt__program_create(arena, env, NULL)};
  if (!p.program)
    return DT_NO_MEMORY();
  DT_TRY(dt__loop_parse_program(&p));
  *out = p.program;
  return NULL;
}
