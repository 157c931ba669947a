// SPDX-License-Identifier: Apache-2.0
// Reports as text for people and as JSON lines for programs.
#include "runtime/exec/explain.h"

#include "ductile/device.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <string.h>

// ---- Text -----------------------------------------------------------------------------------------
static void put_asker(const dt_guard_info_t *guard, dt_text_t *out) {
  dt__text_printf(out, "%s", guard->op);
  if (guard->file[0])
    dt__text_printf(out, " at %s:%d", guard->file, guard->line);
}

static void put_miss(const dt_miss_info_t *miss, const char *indent, dt_text_t *out) {
  dt__text_printf(out, "%sexpected: %s\n", indent, miss->guard->guard);
  dt__text_printf(out, "%sgot:      %s\n", indent, miss->actual);
  dt__text_printf(out, "%sasked by: ", indent);
  put_asker(miss->guard, out);
  for (uint32_t k = 0; k < miss->n_facts; k++)
    dt__text_printf(out, "\n%s%s %s", indent, k ? "         " : "because: ", miss->facts[k]);
  dt__text_printf(out, "\n%sremedy:   %s\n", indent, miss->remedy);
}

static void put_call(const dt_report_t *report, dt_text_t *out) {
  uint32_t hits = 0;
  if (!report->asked)
    return;
  if (report->refused != DT_OK) {
    dt__text_printf(out, "function %s: the declarations refuse these arguments\n",
                    report->function);
    dt__text_printf(out, "  refused:  %s: %s\n", dt_code_name(report->refused), report->refusal);
    dt__text_printf(out, "  remedy:   %s\n", report->refusal_remedy);
    return;
  }
  for (uint32_t k = 0; k < report->n_misses; k++)
    hits += report->misses[k]->hit;
  dt__text_printf(out, "function %s: %s\n", report->function,
                  hits                ? "a variant takes these arguments"
                  : !report->n_misses ? "no variant yet: the first call compiles one"
                  : report->n_variants < report->variant_limit
                      ? "no variant takes these arguments: a call compiles one, or is refused"
                      : "no variant takes these arguments, and the limit of variants is reached");
  for (uint32_t k = 0; k < report->n_misses; k++) {
    const dt_miss_info_t *miss = report->misses[k];
    dt__text_printf(out, "variant %u %s\n", miss->variant, miss->hit ? "hits" : "misses");
    if (!miss->hit)
      put_miss(miss, "  ", out);
  }
}

static const dt_variant_info_t *variant_of(const dt_report_t *report, uint32_t number) {
  for (uint32_t k = 0; k < report->n_variants; k++) {
    if (report->variants[k]->number == number)
      return report->variants[k];
  }
  return NULL;
}

static void put_dims(const dt_variant_info_t *variant, dt_text_t *out) {
  for (uint32_t k = 0; k < variant->n_dims; k++) {
    const dt_dim_info_t *dim = variant->dims[k];
    dt__text_printf(out, "  %s = %s: %s (%s)\n", dim->name, dim->size,
                    dt_dim_state_name(dim->state), dim->why);
  }
}

static void put_variants(const dt_report_t *report, dt_text_t *out) {
  if (report->n_variants == 0)
    dt__text_printf(out, "function %s has no variant; at most %u\n", report->function,
                    report->variant_limit);
  if (report->evicted)
    dt__text_printf(out, "%llu more went for the runtime's limits on memory\n",
                    (unsigned long long)report->evicted);
  for (uint32_t k = 0; k < report->n_variants; k++) {
    const dt_variant_info_t *variant = report->variants[k];
    dt__text_printf(out, "variant %u of function %s", variant->number, report->function);
    char place[32];
    if (variant->device != DT_CPU)
      dt__text_printf(
          out, " on %s",
          dt__place_name(dt__place(variant->device, variant->ordinal), place, sizeof(place)));
    dt__text_put(out, " sees\n");
    put_dims(variant, out);
    dt__text_put(out, "and takes calls with\n");
    for (uint32_t g = 0; g < variant->n_guards; g++) {
      dt__text_printf(out, "  %s, asked by ", variant->guards[g]->guard);
      put_asker(variant->guards[g], out);
      dt__text_put(out, "\n");
    }
    if (variant->tuned[0])
      dt__text_printf(out, "tuned: %s\n", variant->tuned);
  }
}

static void put_history(const dt_report_t *report, dt_text_t *out) {
  dt__text_printf(out, "function %s: %u compile%s, %u of at most %u variants\n", report->function,
                  report->n_compiles, report->n_compiles == 1 ? "" : "s", report->n_variants,
                  report->variant_limit);
  if (report->forgotten)
    dt__text_printf(out, "%llu older compiles are no longer held\n",
                    (unsigned long long)report->forgotten);
  for (uint32_t k = 0; k < report->n_compiles; k++) {
    const dt_compile_info_t *c = report->compiles[k];
    dt__text_printf(out, "compile %u: %s", c->number, dt_compile_reason_name(c->reason));
    if (c->miss)
      dt__text_printf(out, " of variant %u", c->miss->variant);
    dt__text_printf(out, ", %.1f ms\n", (double)c->ns / 1e6);
    if (c->miss)
      put_miss(c->miss, "  ", out);
    const dt_variant_info_t *variant = variant_of(report, c->number);
    if (c->code != DT_OK)
      dt__text_printf(out, "  failed:   %s: %s\n", dt_code_name(c->code), c->failure);
    else if (variant)
      put_dims(variant, out);
  }
}

// ---- JSON -----------------------------------------------------------------------------------------
static void put_string(const char *text, dt_text_t *out) {
  dt__text_put(out, "\"");
  dt__text_json(out, text, strlen(text));
  dt__text_put(out, "\"");
}

static void put_field(const char *name, const char *value, dt_text_t *out) {
  dt__text_printf(out, ",\"%s\":", name);
  put_string(value, out);
}

static void put_number(const char *name, uint64_t value, dt_text_t *out) {
  dt__text_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void begin_event(const char *event, const dt_report_t *report, dt_text_t *out) {
  dt__text_printf(out, "{\"event\":\"%s\"", event);
  put_field("function", report->function, out);
}

static void put_guard_fields(const dt_guard_info_t *guard, dt_text_t *out) {
  put_field("guard", guard->guard, out);
  put_field("op", guard->op, out);
  put_field("file", guard->file, out);
  dt__text_printf(out, ",\"line\":%d", guard->line);
}

static void put_miss_fields(const dt_miss_info_t *miss, dt_text_t *out) {
  put_guard_fields(miss->guard, out);
  put_field("actual", miss->actual, out);
  dt__text_put(out, ",\"facts\":[");
  for (uint32_t k = 0; k < miss->n_facts; k++) {
    dt__text_put(out, k ? "," : "");
    put_string(miss->facts[k], out);
  }
  dt__text_put(out, "]");
  put_field("remedy", miss->remedy, out);
}

static void variant_event(const dt_report_t *report, const dt_variant_info_t *variant,
                          dt_text_t *out) {
  begin_event("variant", report, out);
  put_number("variant", variant->number, out);
  if (variant->device != DT_CPU) {
    dt__text_printf(out, ",\"device\":\"%s\"", dt_device_name(variant->device));
    put_number("ordinal", (uint64_t)variant->ordinal, out);
  }
  dt__text_put(out, ",\"dims\":[");
  for (uint32_t k = 0; k < variant->n_dims; k++) {
    const dt_dim_info_t *dim = variant->dims[k];
    dt__text_printf(out, "%s{\"input\":%u,\"dim\":%u", k ? "," : "", dim->input, dim->dim);
    put_field("name", dim->name, out);
    put_field("size", dim->size, out);
    put_field("state", dt_dim_state_name(dim->state), out);
    put_field("why", dim->why, out);
    dt__text_put(out, "}");
  }
  dt__text_put(out, "],\"guards\":[");
  for (uint32_t k = 0; k < variant->n_guards; k++) {
    dt__text_printf(out, "%s{\"index\":%u", k ? "," : "", k);
    put_guard_fields(variant->guards[k], out);
    dt__text_put(out, "}");
  }
  dt__text_put(out, "]");
  if (variant->tuned[0])
    put_field("tuned", variant->tuned, out);
  dt__text_put(out, "}\n");
}

static void call_events(const dt_report_t *report, dt_text_t *out) {
  if (report->refused != DT_OK) {
    begin_event("refused", report, out);
    put_field("code", dt_code_name(report->refused), out);
    put_field("message", report->refusal, out);
    put_field("remedy", report->refusal_remedy, out);
    dt__text_put(out, "}\n");
  }
  for (uint32_t k = 0; k < report->n_misses; k++) {
    begin_event(report->misses[k]->hit ? "hit" : "miss", report, out);
    put_number("variant", report->misses[k]->variant, out);
    if (!report->misses[k]->hit)
      put_miss_fields(report->misses[k], out);
    dt__text_put(out, "}\n");
  }
}

static void compile_event(const dt_report_t *report, const dt_compile_info_t *c, dt_text_t *out) {
  begin_event("compile", report, out);
  put_number("variant", c->number, out);
  put_field("reason", dt_compile_reason_name(c->reason), out);
  put_number("ns", c->ns, out);
  put_field("code", dt_code_name(c->code), out);
  if (c->code != DT_OK)
    put_field("message", c->failure, out);
  if (c->miss) {
    put_number("missed", c->miss->variant, out);
    put_miss_fields(c->miss, out);
  }
  dt__text_put(out, "}\n");
}

// ---- API ------------------------------------------------------------------------------------------
// The writer's memory is the heap's, as dt_text_free expects.
static dt_status_t give(dt_text_t *text, char **out) {
  if (!text->len)
    dt__text_put(text, "");
  dt_status_t status = dt__text_status(text);
  if (status)
    dt__text_fini(text);
  else
    *out = text->data;
  return status;
}

#define ALL_PARTS ((uint32_t)(DT_REPORT_VARIANTS | DT_REPORT_CALL | DT_REPORT_COMPILES))

static dt_status_t check(const dt_report_t *report, uint32_t parts, char **out) {
  if (!report || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", report ? "out" : "report");
  *out = NULL;
  if (parts & ~ALL_PARTS)
    return DT_FAIL(DT_E_ARGUMENT, "parts: %u; expected DT_REPORT_* joined, or 0 for all", parts);
  return NULL;
}

dt_status_t dt_report_json(const dt_report_t *report, uint32_t parts, char **out) {
  dt_status_t status = check(report, parts, out);
  if (status)
    return dt__status_annotate(status, "dt_report_json");
  dt_text_t text;
  dt__text_init(&text);
  for (uint32_t k = 0; (!parts || parts & DT_REPORT_VARIANTS) && k < report->n_variants; k++)
    variant_event(report, report->variants[k], &text);
  if (!parts || parts & DT_REPORT_CALL)
    call_events(report, &text);
  for (uint32_t k = 0; (!parts || parts & DT_REPORT_COMPILES) && k < report->n_compiles; k++)
    compile_event(report, report->compiles[k], &text);
  return give(&text, out);
}

dt_status_t dt_report_text(const dt_report_t *report, uint32_t parts, char **out) {
  dt_status_t status = check(report, parts, out);
  if (status)
    return dt__status_annotate(status, "dt_report_text");
  dt_text_t text;
  dt__text_init(&text);
  if (!parts || parts & DT_REPORT_VARIANTS)
    put_variants(report, &text);
  if (!parts || parts & DT_REPORT_CALL)
    put_call(report, &text);
  if (!parts || parts & DT_REPORT_COMPILES)
    put_history(report, &text);
  return give(&text, out);
}
