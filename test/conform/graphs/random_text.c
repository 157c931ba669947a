// SPDX-License-Identifier: Apache-2.0
// Random programs as text:
//
//   graph 17 {
//     symbols 2
//     prepare 0
//     bounded                  ; where sizes are declared to lie where those of the calls do
//     call (3, 5) 0            ; sizes of the symbols, layout of the arguments
//     primes (1009, 1013)      ; RG_PRIMES lines
//     %0 = input f32 () {-1, 4, 1, 0}
//     %1 = sum f32 (%0) {1, 0}
//     options dynamic 0 strict 0 threads 2    ; dt_dynamic_t
//     update %0 = %2           ; at the end, any number
//     out %1
//   }
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "test/conform/graphs/random_graph.h"

#include <string.h>

static void put_sizes(const rg_program_t *p, const int64_t *sizes, dt_text_t *out) {
  dt__text_put(out, "(");
  for (uint32_t k = 0; k < p->n_symbols; k++)
    dt__text_printf(out, k ? ", %lld" : "%lld", (long long)sizes[k]);
  dt__text_put(out, ")");
}

static void put_node(const rg_program_t *p, uint32_t i, dt_text_t *out) {
  const rg_node_t *node = &p->nodes[i];
  dt__text_printf(out, "  %%%u = %s %s (", i, rg_ops[node->op].name, dt_dtype_name(node->dtype));
  for (uint32_t k = 0; k < node->n_args; k++)
    dt__text_printf(out, k ? ", %%%u" : "%%%u", node->args[k]);
  dt__text_put(out, ")");
  if (node->n_numbers) {
    for (uint32_t k = 0; k < node->n_numbers; k++)
      dt__text_printf(out, k ? ", %d" : " {%d", node->numbers[k]);
    dt__text_put(out, "}");
  }
  if (node->op == RG_scalar || node->op == RG_pad)
    dt__text_printf(out, " %.17g", node->value);
  dt__text_put(out, "  ;");
  for (uint32_t d = 0; d < node->rank; d++)
    dt__text_printf(out, d ? ", %lld" : " [%lld", (long long)node->dims[d].at[0]);
  dt__text_put(out, node->rank ? "]\n" : " []\n");
}

void rg_print(const rg_program_t *p, dt_text_t *out) {
  dt__text_printf(out, "graph %llu {\n  symbols %u\n  prepare %d\n", (unsigned long long)p->seed,
                  p->n_symbols, (int)p->prepare);
  dt__text_printf(out, "  options dynamic %d strict %d threads %u\n", (int)p->dynamic,
                  (int)p->strict, p->threads);
  if (p->bounded)
    dt__text_put(out, "  bounded\n");
  for (uint32_t k = 0; k < p->n_calls; k++) {
    dt__text_put(out, "  call ");
    put_sizes(p, p->calls[k].sizes, out);
    dt__text_printf(out, " %d\n", p->calls[k].layout);
  }
  for (uint32_t k = 0; k < RG_PRIMES; k++) {
    dt__text_put(out, "  primes ");
    put_sizes(p, p->primes[k], out);
    dt__text_put(out, "\n");
  }
  for (uint32_t i = 0; i < p->n_nodes; i++)
    put_node(p, i, out);
  for (uint32_t k = 0; k < p->n_updates; k++)
    dt__text_printf(out, "  update %%%u = %%%u\n", p->updates[k].input, p->updates[k].value);
  dt__text_put(out, "  out");
  for (uint32_t k = 0; k < p->n_outputs; k++)
    dt__text_printf(out, " %%%u", p->outputs[k]);
  dt__text_put(out, "\n}\n");
}

// ---- Reading --------------------------------------------------------------------------------------
static dt_status_t read_u32(dt_scan_t *scan, uint32_t most, uint32_t *out) {
  int64_t value = 0;
  DT_TRY(dt__scan_i64(scan, &value));
  if (value < 0 || value > most)
    return dt__scan_fail(scan, "%lld; expected 0 to %u", (long long)value, most);
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t read_sizes(dt_scan_t *scan, const rg_program_t *p, int64_t *out) {
  DT_TRY(dt__scan_expect(scan, "("));
  for (uint32_t k = 0; k < p->n_symbols; k++) {
    if (k)
      DT_TRY(dt__scan_expect(scan, ","));
    DT_TRY(dt__scan_i64(scan, &out[k]));
  }
  return dt__scan_expect(scan, ")");
}

static dt_status_t read_op(dt_scan_t *scan, rg_node_t *node) {
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(scan, &word, &len));
  uint32_t op = 0;
  while (op < RG_OP_COUNT &&
         (strlen(rg_ops[op].name) != len || memcmp(rg_ops[op].name, word, len) != 0))
    op++;
  if (op == RG_OP_COUNT)
    return dt__scan_fail(scan, "no instruction '%.*s'", (int)len, word);
  node->op = (rg_op_t)op;
  DT_TRY(dt__scan_word(scan, &word, &len));
  node->dtype = dt__dtype_parse(word, len);
  if (node->dtype == DT_DTYPE_NONE)
    return dt__scan_fail(scan, "no dtype '%.*s'", (int)len, word);
  return NULL;
}

static dt_status_t read_node(dt_scan_t *scan, rg_program_t *p) {
  uint32_t id = 0;
  if (p->n_nodes == RG_NODES)
    return dt__scan_fail(scan, "more than %d nodes", RG_NODES);
  rg_node_t *node = &p->nodes[p->n_nodes];
  DT_TRY(read_u32(scan, RG_NODES, &id));
  if (id != p->n_nodes)
    return dt__scan_fail(scan, "node %u; expected %u", id, p->n_nodes);
  DT_TRY(dt__scan_expect(scan, "="));
  DT_TRY(read_op(scan, node));
  DT_TRY(dt__scan_expect(scan, "("));
  while (!dt__scan_accept(scan, ")")) {
    if (node->n_args == RG_ARGS)
      return dt__scan_fail(scan, "more than %d operands", RG_ARGS);
    if (node->n_args)
      DT_TRY(dt__scan_expect(scan, ","));
    DT_TRY(dt__scan_expect(scan, "%"));
    DT_TRY(read_u32(scan, RG_NODES, &node->args[node->n_args++]));
  }
  if (dt__scan_accept(scan, "{")) {
    while (!dt__scan_accept(scan, "}")) {
      int64_t value = 0;
      if (node->n_numbers == RG_NUMBERS)
        return dt__scan_fail(scan, "more than %d numbers", RG_NUMBERS);
      if (node->n_numbers)
        DT_TRY(dt__scan_expect(scan, ","));
      DT_TRY(dt__scan_i64(scan, &value));
      node->numbers[node->n_numbers++] = (int32_t)value;
    }
  }
  if (node->op == RG_scalar || node->op == RG_pad)
    DT_TRY(dt__scan_f64(scan, &node->value));
  p->n_nodes++;
  return NULL;
}

static dt_status_t read_options(dt_scan_t *scan, rg_program_t *p) {
  uint32_t dynamic = 0, strict = 0;
  DT_TRY(dt__scan_expect(scan, "dynamic"));
  DT_TRY(read_u32(scan, DT_DYNAMIC_STATIC, &dynamic));
  DT_TRY(dt__scan_expect(scan, "strict"));
  DT_TRY(read_u32(scan, 1, &strict));
  DT_TRY(dt__scan_expect(scan, "threads"));
  DT_TRY(read_u32(scan, 64, &p->threads));
  p->dynamic = (dt_dynamic_t)dynamic;
  p->strict = strict != 0;
  return NULL;
}

static dt_status_t read_update(dt_scan_t *scan, rg_program_t *p) {
  if (p->n_updates == RG_UPDATES)
    return dt__scan_fail(scan, "more than %d updates", RG_UPDATES);
  DT_TRY(dt__scan_expect(scan, "%"));
  DT_TRY(read_u32(scan, RG_NODES, &p->updates[p->n_updates].input));
  DT_TRY(dt__scan_expect(scan, "="));
  DT_TRY(dt__scan_expect(scan, "%"));
  return read_u32(scan, RG_NODES, &p->updates[p->n_updates++].value);
}

static dt_status_t read_lines(dt_scan_t *scan, rg_program_t *p) {
  uint32_t n_primes = 0, prepare = 0, layout = 0;
  for (;;) {
    if (dt__scan_accept(scan, "%")) {
      DT_TRY(read_node(scan, p));
    } else if (dt__scan_accept_word(scan, "symbols")) {
      DT_TRY(read_u32(scan, RG_SYMBOLS, &p->n_symbols));
    } else if (dt__scan_accept_word(scan, "prepare")) {
      DT_TRY(read_u32(scan, 1, &prepare));
      p->prepare = prepare != 0;
    } else if (dt__scan_accept_word(scan, "bounded")) {
      p->bounded = true;
    } else if (dt__scan_accept_word(scan, "options")) {
      DT_TRY(read_options(scan, p));
    } else if (dt__scan_accept_word(scan, "update")) {
      DT_TRY(read_update(scan, p));
    } else if (dt__scan_accept_word(scan, "call")) {
      if (p->n_calls == RG_SHAPES)
        return dt__scan_fail(scan, "more than %d calls", RG_SHAPES);
      DT_TRY(read_sizes(scan, p, p->calls[p->n_calls].sizes));
      DT_TRY(read_u32(scan, RG_LAYOUTS - 1, &layout));
      p->calls[p->n_calls++].layout = (int32_t)layout;
    } else if (dt__scan_accept_word(scan, "primes")) {
      if (n_primes == RG_PRIMES)
        return dt__scan_fail(scan, "more than %d lines of primes", RG_PRIMES);
      DT_TRY(read_sizes(scan, p, p->primes[n_primes++]));
    } else {
      break;
    }
  }
  if (n_primes != RG_PRIMES)
    return dt__scan_fail(scan, "expected %d lines of primes", RG_PRIMES);
  return NULL;
}

dt_status_t rg_parse(dt_scan_t *scan, rg_program_t *out) {
  *out = (rg_program_t){.threads = 2}; // as texts without options were run
  int64_t seed = 0;
  DT_TRY(dt__scan_expect(scan, "graph"));
  DT_TRY(dt__scan_i64(scan, &seed));
  out->seed = (uint64_t)seed;
  DT_TRY(dt__scan_expect(scan, "{"));
  DT_TRY(read_lines(scan, out));
  DT_TRY(dt__scan_expect(scan, "out"));
  while (dt__scan_accept(scan, "%")) {
    if (out->n_outputs == RG_OUTPUTS)
      return dt__scan_fail(scan, "more than %d outputs", RG_OUTPUTS);
    DT_TRY(read_u32(scan, RG_NODES, &out->outputs[out->n_outputs++]));
  }
  DT_TRY(dt__scan_expect(scan, "}"));
  if (!rg_check(out))
    return dt__scan_fail(scan, "graph %lld is not a valid program", (long long)seed);
  return NULL;
}
