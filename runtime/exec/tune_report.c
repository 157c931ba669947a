// SPDX-License-Identifier: Apache-2.0
// Reports of tuning: a journal that grows by items, and its text.
#include "runtime/exec/tune.h"

#include "runtime/base/status.h"
#include "runtime/compile/tuned.h"

#include <string.h>

struct dt_journal_t {
  dt_tune_report_t report; // first: what callers see
  dt_arena_t arena;
  DT_VEC(const dt_tune_item_t *) items;
  DT_VEC(const dt_tune_variant_t *) variants;
};

// ---- Making ---------------------------------------------------------------------------------------
dt_status_t dt__journal_create(const char *function, dt_journal_t **out) {
  dt_journal_t *journal = *out = dt__calloc(1, sizeof(*journal));
  if (!journal)
    return DT_NO_MEMORY();
  dt__arena_init(&journal->arena, 4096);
  journal->report.function = dt__arena_strdup(&journal->arena, function);
  if (journal->report.function)
    return NULL;
  dt__journal_free(journal);
  *out = NULL;
  return DT_NO_MEMORY();
}

void dt__journal_free(dt_journal_t *journal) {
  if (!journal)
    return;
  dt__arena_fini(&journal->arena);
  dt__free(journal);
}

dt_status_t dt__journal_note(dt_journal_t *journal, const dt_journal_item_t *item) {
  if (!journal)
    return NULL;
  dt_tune_item_t *own = DT_ARENA_NEW(&journal->arena, dt_tune_item_t);
  const char *why =
      dt__arena_strdup(&journal->arena, item->why ? dt_status_message(item->why) : "");
  if (!own || !why || !DT_VEC_PUSH(&journal->arena, &journal->items, own))
    return DT_NO_MEMORY();
  const dt_choice_row_t *row = dt__choice(item->choice);
  *own = (dt_tune_item_t){.choice = row->name,
                          .what = row->doc,
                          .variant = item->variant,
                          .outcome = item->outcome,
                          .why = why,
                          .keeps_bits = item->keeps_bits,
                          .ratio = item->ratio};
  return NULL;
}

static const char *print_choices(dt_arena_t *arena, dt_choices_t choices) {
  dt_text_t text;
  dt__text_init(&text);
  dt__choices_print(choices, &text);
  const char *out = text.failed ? NULL : dt__arena_strdup(arena, dt__text_str(&text));
  dt__text_fini(&text);
  return out;
}

dt_status_t dt__journal_variant(dt_journal_t *journal, uint32_t variant, dt_choices_t choices,
                                bool kept, const dt_trial_t *trial) {
  if (!journal)
    return NULL;
  dt_arena_t *arena = &journal->arena;
  uint32_t n = trial->n_calls;
  dt_tune_variant_t *own = DT_ARENA_NEW(arena, dt_tune_variant_t);
  uint32_t *calls = DT_ARENA_ARRAY(arena, uint32_t, n);
  uint64_t *before = DT_ARENA_ARRAY(arena, uint64_t, n), *ns = DT_ARENA_ARRAY(arena, uint64_t, n);
  const char *names = print_choices(arena, choices);
  if (!own || !calls || !before || !ns || !names || !DT_VEC_PUSH(arena, &journal->variants, own))
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    calls[k] = trial->calls[k].index;
    before[k] = trial->calls[k].a_ns;
    ns[k] = trial->calls[k].b_ns;
  }
  *own = (dt_tune_variant_t){.variant = variant,
                             .choices = names,
                             .kept = kept,
                             .n_calls = n,
                             .calls = calls,
                             .before_ns = before,
                             .ns = ns};
  return NULL;
}

dt_tune_report_t *dt__journal_report(dt_journal_t *journal, uint64_t ns) {
  if (!journal)
    return NULL;
  dt_tune_report_t *report = &journal->report;
  report->n_items = journal->items.len;
  report->items = journal->items.items;
  report->n_variants = journal->variants.len;
  report->variants = journal->variants.items;
  report->ns = ns;
  return report;
}

void dt_tune_report_free(dt_tune_report_t *report) {
  dt__journal_free((dt_journal_t *)(void *)report);
}

const char *dt_tune_outcome_name(dt_tune_outcome_t outcome) {
  static const char *const names[] = {"taken", "slower", "same", "other bits", "failed", "no time"};
  return (uint32_t)outcome < sizeof(names) / sizeof(names[0]) ? names[outcome] : "unknown";
}

// ---- Sizes ----------------------------------------------------------------------------------------
#define MOST_NAMED 8 // inputs

// A tensor whose sizes are all declared says nothing.
static bool says_something(const dt_input_decl_t *input) {
  bool says = input->kind != DT_INPUT_TENSOR && input->kind != DT_INPUT_DONATED;
  for (uint32_t d = 0; !says && d < input->rank; d++)
    says = !input->dims || !input->dims[d].is_static;
  return says;
}

static void put_argument(const dt_input_decl_t *input, const dt_tensor_t *tensor, dt_text_t *out) {
  if (input->kind == DT_INPUT_INTEGER || input->kind == DT_INPUT_BOOLEAN)
    dt__text_i64(out, dt__int_argument(tensor));
  for (uint32_t d = 0; d < tensor->rank; d++)
    dt__text_printf(out, "%s%lld", d ? "x" : "", (long long)tensor->sizes[d]);
}

void dt__tune_sizes_put(const dt_function_t *function, dt_tensor_t *const *inputs, dt_text_t *out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < function->n_given; k++) {
    const char *name = function->given[k].name;
    if (!says_something(&function->given[k]))
      continue;
    if (n++ == MOST_NAMED) {
      dt__text_put(out, ", …");
      return;
    }
    dt__text_put(out, n > 1 ? ", " : "");
    if (name && name[0])
      dt__text_printf(out, "%s ", name);
    else
      dt__text_printf(out, "argument %u ", k);
    put_argument(&function->given[k], inputs[k], out);
  }
}

// ---- Text -----------------------------------------------------------------------------------------
static void put_item(const dt_tune_item_t *item, dt_text_t *out) {
  dt__text_printf(out, "variant %u, %s: %s", item->variant, item->choice,
                  dt_tune_outcome_name(item->outcome));
  if (item->ratio > 0)
    dt__text_printf(out, ", %.3f of the time before", item->ratio);
  dt__text_printf(out, " (%s)", item->what);
  if (item->why[0])
    dt__text_printf(out, ": %s", item->why);
  dt__text_put(out, "\n");
}

static void put_variant(const dt_tune_variant_t *variant, dt_text_t *out) {
  dt__text_printf(out, "variant %u is compiled %s%s%s\n", variant->variant,
                  variant->choices[0] ? "by " : "as usual", variant->choices,
                  variant->kept ? ", kept on disk" : "");
  for (uint32_t k = 0; k < variant->n_calls; k++)
    dt__text_printf(out, "  call %u: %.1f us, %.1f before\n", variant->calls[k],
                    (double)variant->ns[k] * 1e-3, (double)variant->before_ns[k] * 1e-3);
}

static void put_string(const char *name, const char *value, dt_text_t *out) {
  dt__text_printf(out, ",\"%s\":\"", name);
  dt__text_json(out, value, strlen(value));
  dt__text_put(out, "\"");
}

static void begin_event(const char *event, const dt_tune_report_t *report, uint32_t variant,
                        dt_text_t *out) {
  dt__text_printf(out, "{\"event\":\"%s\"", event);
  put_string("function", report->function, out);
  dt__text_printf(out, ",\"variant\":%u", variant);
}

static void item_event(const dt_tune_report_t *report, const dt_tune_item_t *item, dt_text_t *out) {
  begin_event("choice", report, item->variant, out);
  put_string("choice", item->choice, out);
  put_string("what", item->what, out);
  put_string("outcome", dt_tune_outcome_name(item->outcome), out);
  dt__text_printf(out, ",\"keeps_bits\":%s", item->keeps_bits ? "true" : "false");
  if (item->ratio > 0)
    dt__text_printf(out, ",\"ratio\":%.4f", item->ratio);
  if (item->why[0])
    put_string("message", item->why, out);
  dt__text_put(out, "}\n");
}

static void variant_event(const dt_tune_report_t *report, const dt_tune_variant_t *variant,
                          dt_text_t *out) {
  begin_event("tuned", report, variant->variant, out);
  put_string("choices", variant->choices, out);
  dt__text_printf(out, ",\"kept\":%s,\"calls\":[", variant->kept ? "true" : "false");
  for (uint32_t k = 0; k < variant->n_calls; k++)
    dt__text_printf(out, "%s{\"call\":%u,\"before_ns\":%llu,\"ns\":%llu}", k ? "," : "",
                    variant->calls[k], (unsigned long long)variant->before_ns[k],
                    (unsigned long long)variant->ns[k]);
  dt__text_put(out, "]}\n");
}

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

static dt_status_t check(const char *who, const dt_tune_report_t *report, char **out) {
  if (out)
    *out = NULL;
  return report && out ? NULL
                       : DT_FAIL(DT_E_ARGUMENT, "%s: %s: NULL", who, report ? "out" : "report");
}

dt_status_t dt_tune_report_text(const dt_tune_report_t *report, char **out) {
  dt_text_t text;
  DT_TRY(check("dt_tune_report_text", report, out));
  dt__text_init(&text);
  for (uint32_t k = 0; k < report->n_items; k++)
    put_item(report->items[k], &text);
  for (uint32_t k = 0; k < report->n_variants; k++)
    put_variant(report->variants[k], &text);
  return give(&text, out);
}

dt_status_t dt_tune_report_json(const dt_tune_report_t *report, char **out) {
  dt_text_t text;
  DT_TRY(check("dt_tune_report_json", report, out));
  dt__text_init(&text);
  for (uint32_t k = 0; k < report->n_items; k++)
    item_event(report, report->items[k], &text);
  for (uint32_t k = 0; k < report->n_variants; k++)
    variant_event(report, report->variants[k], &text);
  return give(&text, out);
}
