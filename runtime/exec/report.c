// SPDX-License-Identifier: Apache-2.0
// Reports: a snapshot of a function's variants, guards and compiles, and of whether the variants
// accept one call's arguments. The report holds copies, so it outlives the function.
#include "runtime/exec/explain.h"

#include "runtime/base/status.h"
#include "runtime/compile/tuned.h"
#include "runtime/exec/decide.h"

#include <string.h>

typedef struct report_t {
  dt_report_t head; // first: what callers see
  dt_arena_t arena;
} report_t;

// ---- Arguments that the declarations refuse -------------------------------------------------------
typedef struct refusal_t {
  const dt_function_t *function;
  dt_tensor_t *const *inputs; // as given
  dt_text_t *out;
} refusal_t;

static void put_dim(const refusal_t *r, uint32_t k, uint32_t d) {
  const char *name = r->function->given[k].name;
  if (name && name[0])
    dt__text_printf(r->out, "%s.size(%u)", name, d);
  else
    dt__text_printf(r->out, "argument %u.size(%u)", k, d);
}

static bool same_name(const dt_dim_decl_t *a, const dt_dim_decl_t *b) {
  return a->name && b->name && a->name[0] && strcmp(a->name, b->name) == 0;
}

// Says what to do where dim `d` of input `k` and an earlier one share a name, but not a size.
static bool remedy_name(const refusal_t *r, uint32_t k, uint32_t d) {
  const dt_input_decl_t *inputs = r->function->given;
  for (uint32_t i = 0; i <= k; i++) {
    for (uint32_t e = 0; inputs[i].dims && e < inputs[i].rank && (i < k || e < d); e++) {
      if (!same_name(&inputs[k].dims[d], &inputs[i].dims[e]) ||
          r->inputs[i]->sizes[e] == r->inputs[k]->sizes[d])
        continue;
      dt__text_put(r->out, "declare ");
      put_dim(r, i, e);
      dt__text_put(r->out, " and ");
      put_dim(r, k, d);
      dt__text_printf(r->out, " with different names: both are '%s', so their sizes are equal",
                      inputs[k].dims[d].name);
      return true;
    }
  }
  return false;
}

// Where dim `d` of input `k` derives from dims of another size.
static bool remedy_derived(const refusal_t *r, uint32_t k, uint32_t d) {
  const dt_input_decl_t *inputs = r->function->given;
  const dt_dim_decl_t *decl = &inputs[k].dims[d];
  for (uint32_t i = 0; decl->of && i < r->function->n_given; i++) {
    for (uint32_t e = 0; inputs[i].dims && e < inputs[i].rank; e++) {
      const char *name = inputs[i].dims[e].name;
      int64_t scale = decl->scale ? decl->scale : 1, expected = 0;
      if (!name || strcmp(name, decl->of) != 0)
        continue;
      if (dt__mul_i64(scale, r->inputs[i]->sizes[e], &expected) &&
          dt__add_i64(expected, decl->offset, &expected) && expected == r->inputs[k]->sizes[d])
        continue;
      dt__text_put(r->out, "declare ");
      put_dim(r, k, d);
      dt__text_printf(r->out, " as a dim of its own if it need not be %lld*%s + %lld",
                      (long long)scale, decl->of, (long long)decl->offset);
      return true;
    }
  }
  return false;
}

static bool remedy_dim(const refusal_t *r, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *decl = &r->function->given[k].dims[d];
  int64_t size = r->inputs[k]->sizes[d];
  if (r->function->given[k].kind == DT_INPUT_INTEGERS && size != decl->value) {
    char name[96];
    dt__text_printf(r->out, "pass %s with %lld elements, or make another function for %lld",
                    dt__given_name(r->function, k, name, sizeof(name)), (long long)decl->value,
                    (long long)size);
    return true;
  }
  if (decl->is_static && size != decl->value) {
    dt__text_put(r->out, "declare ");
    put_dim(r, k, d);
    dt__text_printf(r->out, " dynamic if its size changes; it is declared static %lld",
                    (long long)decl->value);
    return true;
  }
  if (!decl->is_static && (size < decl->min || (decl->max && size > decl->max))) {
    dt__text_put(r->out, "widen the declared range of ");
    put_dim(r, k, d);
    dt__text_printf(r->out, " to take in %lld", (long long)size);
    return true;
  }
  if (decl->multiple_of > 1 && size % decl->multiple_of) {
    dt__text_put(r->out, "pad ");
    put_dim(r, k, d);
    dt__text_printf(r->out,
                    " to a multiple of %lld before the call, or declare it without "
                    "multiple_of",
                    (long long)decl->multiple_of);
    return true;
  }
  return remedy_name(r, k, d) || remedy_derived(r, k, d);
}

static bool remedy_alignment(const refusal_t *r, uint32_t k) {
  uint32_t alignment = r->function->given[k].alignment;
  char name[96];
  if (!alignment || (uintptr_t)r->inputs[k]->data % alignment == 0)
    return false;
  dt__text_printf(r->out,
                  "pass %s in memory aligned to %u bytes (dt_tensor_create_empty aligns to 64), or "
                  "declare a smaller alignment",
                  dt__given_name(r->function, k, name, sizeof(name)), alignment);
  return true;
}

static void put_remedy(const refusal_t *r) {
  const dt_input_decl_t *inputs = r->function->given;
  for (uint32_t k = 0; k < r->function->n_given; k++) {
    char name[96];
    const char *who = dt__given_name(r->function, k, name, sizeof(name));
    if (r->inputs[k]->dtype != inputs[k].dtype) {
      dt__text_printf(r->out, "cast %s to %s before the call, or make another function for %s", who,
                      dt_dtype_name(inputs[k].dtype), dt_dtype_name(r->inputs[k]->dtype));
      return;
    }
    if (r->inputs[k]->rank != inputs[k].rank) {
      dt__text_printf(r->out,
                      "reshape %s to rank %u before the call, or make another function for rank %u",
                      who, inputs[k].rank, r->inputs[k]->rank);
      return;
    }
  }
  for (uint32_t k = 0; k < r->function->n_given; k++) {
    for (uint32_t d = 0; inputs[k].dims && d < inputs[k].rank; d++) {
      if (remedy_dim(r, k, d))
        return;
    }
    if (remedy_alignment(r, k))
      return;
  }
  dt__text_put(r->out, "pass what is declared");
}

// ---- Collecting -----------------------------------------------------------------------------------
// Where a session would have to run for these inputs.
dt_device_t dt__asked_place(const dt_function_t *function, dt_tensor_t *const *given) {
  for (uint32_t k = 0; given && k < function->n_given; k++)
    if (dt__is_tensor_kind(function->given[k].kind))
      return given[k]->device;
  return DT_CPU;
}

static bool take_refusal(report_t *report, const dt_function_t *function,
                         dt_tensor_t *const *given) {
  dt_report_t *head = &report->head;
  dt_trace_request_t request = {.program = function->program,
                                .closure = function->closure,
                                .n_inputs = function->n_given,
                                .n_outputs = function->n_outputs,
                                .inputs = function->given,
                                .place = dt__asked_place(function, given),
                                .example = given};
  dt_status_t status = dt__trace_check_inputs(&request);
  if (!status)
    return true;
  dt_text_t text;
  dt__text_init(&text);
  put_remedy(&(refusal_t){function, given, &text});
  head->refused = dt_status_code(status);
  head->refusal = dt__arena_strdup(&report->arena, dt_status_message(status));
  head->refusal_remedy = dt__arena_strdup(&report->arena, dt__text_str(&text));
  bool good = head->refusal && head->refusal_remedy && !text.failed;
  dt__text_fini(&text);
  dt_status_free(status);
  return good;
}

dt_tensor_t *const *dt__asked_spread(dt_arena_t *arena, const dt_function_t *function,
                                     dt_tensor_t *const *given) {
  size_t n = (size_t)function->n_inputs + 1;
  struct dt_tensor *room = DT_ARENA_ARRAY(arena, struct dt_tensor, n);
  dt_tensor_t **out = DT_ARENA_ARRAY(arena, dt_tensor_t *, n);
  if (!room || !out)
    return NULL;
  dt_status_t status =
      dt__spread_arguments(function->spread, dt__asked_place(function, given), given, room, out);
  bool good = status == NULL; // the arguments were checked
  dt_status_free(status);
  return good ? out : NULL;
}

static bool take_guards(dt_arena_t *arena, const dt_guards_t *guards, dt_variant_info_t *out) {
  uint32_t n = dt__guards_record_count(guards);
  const dt_guard_info_t **items = DT_ARENA_ARRAY(arena, const dt_guard_info_t *, n);
  bool good = items != NULL;
  for (uint32_t k = 0; good && k < n; k++) {
    dt_guard_told_t told = dt__guards_tell(guards, k);
    if (!told.can_fail)
      continue;
    dt_guard_info_t *info = DT_ARENA_NEW(arena, dt_guard_info_t);
    if (!info)
      return false;
    *info = (dt_guard_info_t){.guard = dt__arena_strdup(arena, told.guard),
                              .op = dt__arena_strdup(arena, told.op),
                              .file = dt__arena_strdup(arena, told.file),
                              .line = told.line};
    good = info->guard && info->op && info->file;
    items[out->n_guards++] = info;
  }
  out->guards = items;
  return good;
}

static const char *print_tuned(dt_arena_t *arena, const dt_variant_t *variant) {
  dt_text_t text;
  dt__text_init(&text);
  dt__tuned_put(variant->compiled ? variant->compiled->tuned : NULL, &text);
  const char *out = text.failed ? NULL : dt__arena_strdup(arena, dt__text_str(&text));
  dt__text_fini(&text);
  return out;
}

static bool take_variants(report_t *report, const dt_function_t *function,
                          const dt_variant_list_t *list) {
  const dt_variant_info_t **items =
      DT_ARENA_ARRAY(&report->arena, const dt_variant_info_t *, list->n);
  bool good = items != NULL;
  for (uint32_t k = 0; good && k < list->n; k++) {
    dt_variant_info_t *info = DT_ARENA_NEW(&report->arena, dt_variant_info_t);
    if (!info)
      return false;
    info->number = list->items[k]->number;
    info->device = dt__place_device(list->items[k]->place);
    info->ordinal = dt__place_ordinal(list->items[k]->place);
    info->tuned = print_tuned(&report->arena, list->items[k]);
    good = info->tuned && dt__dims_make(&report->arena, function, list->items[k], info) &&
           take_guards(&report->arena, list->items[k]->guards, info);
    items[k] = info;
  }
  report->head.n_variants = list->n;
  report->head.variants = items;
  return good;
}

static bool take_misses(report_t *report, const dt_variant_list_t *list,
                        const dt_guard_args_t *args) {
  const dt_miss_info_t **items = DT_ARENA_ARRAY(&report->arena, const dt_miss_info_t *, list->n);
  bool good = items != NULL;
  for (uint32_t k = 0; good && k < list->n; k++) {
    items[k] = dt__miss_make(&report->arena, list->items[k], args);
    good = items[k] != NULL;
  }
  report->head.n_misses = list->n;
  report->head.misses = items;
  return good;
}

static bool take_compiles(report_t *report, const dt_history_t *history) {
  dt_arena_t *arena = &report->arena;
  const dt_compile_info_t **items = DT_ARENA_ARRAY(arena, const dt_compile_info_t *, history->n);
  bool good = items != NULL;
  for (const dt_history_item_t *item = history->first; good && item; item = item->next) {
    dt_compile_info_t *info = DT_ARENA_NEW(arena, dt_compile_info_t);
    if (!info)
      return false;
    *info = item->info;
    info->failure = dt__arena_strdup(arena, item->info.failure);
    good = info->failure != NULL;
    if (good && info->miss)
      good = (info->miss = dt__miss_copy(arena, info->miss)) != NULL;
    items[report->head.n_compiles++] = info;
  }
  report->head.compiles = items;
  report->head.forgotten = history->forgotten;
  return good;
}

static bool collect(report_t *report, dt_function_t *function, dt_tensor_t *const *given) {
  dt_tensor_t *const *inputs = given;
  report->head.function = dt__arena_strdup(&report->arena, function->name);
  report->head.variant_limit = function->variant_limit;
  report->head.refusal = report->head.refusal_remedy = "";
  report->head.asked = given != NULL;
  bool good = report->head.function != NULL;
  if (good && given)
    good = take_refusal(report, function, given);
  bool fits = given && report->head.refused == DT_OK;
  if (good && fits && function->spread)
    good = (inputs = dt__asked_spread(&report->arena, function, given)) != NULL;
  // Under the mutex the list stays: it retires only after it was replaced there.
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args =
      dt__guard_args(function, list, dt__asked_place(function, given), inputs, captured);
  report->head.evicted = function->excused;
  good = good && take_variants(report, function, list) && take_compiles(report, &function->history);
  if (good && fits)
    good = take_misses(report, list, &args);
  dt__mutex_unlock(&function->mutex);
  return good;
}

// ---- API ------------------------------------------------------------------------------------------
dt_status_t dt__asked_check(const dt_function_t *function, dt_tensor_t *const *inputs,
                            uint32_t n_inputs, const void *out) {
  if (!function || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", function ? "out" : "function");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  if (!inputs && n_inputs == 0)
    return NULL;
  if (n_inputs != function->n_given || !inputs)
    return DT_FAIL(DT_E_ARGUMENT, "got %u inputs%s; expected %u", n_inputs,
                   inputs ? "" : " at NULL", function->n_given);
  for (uint32_t k = 0; k < n_inputs; k++) {
    char name[96];
    if (!inputs[k])
      return DT_FAIL(DT_E_ARGUMENT, "%s: NULL; expected a tensor",
                     dt__given_name(function, k, name, sizeof(name)));
  }
  return NULL;
}

dt_status_t dt_function_report(dt_function_t *function, dt_tensor_t *const *inputs,
                               uint32_t n_inputs, dt_report_t **out) {
  if (out)
    *out = NULL;
  dt_status_t status = dt__asked_check(function, inputs, n_inputs, out);
  if (status)
    return dt__status_annotate(status, "dt_function_report");
  report_t *report = dt__calloc(1, sizeof(*report));
  if (!report)
    return DT_NO_MEMORY();
  dt__arena_init(&report->arena, 4096);
  if (!collect(report, function, inputs)) {
    dt_report_free(&report->head);
    return DT_NO_MEMORY();
  }
  *out = &report->head;
  return NULL;
}

void dt_report_free(dt_report_t *head) {
  if (!head)
    return;
  report_t *report = (report_t *)(void *)head;
  dt__arena_fini(&report->arena);
  dt__free(report);
}

const char *dt_dim_state_name(dt_dim_state_t state) {
  static const char *const names[] = {"dynamic", "static", "specialised", "equal", "derived"};
  return (uint32_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

const char *dt_compile_reason_name(dt_compile_reason_t reason) {
  static const char *const names[] = {"first call", "prepare", "miss"};
  return (uint32_t)reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "unknown";
}
