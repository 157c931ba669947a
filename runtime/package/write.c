// SPDX-License-Identifier: Apache-2.0
// Writing packages: each variant's trace, its constants, and its code for each level.
#include "ductile/package.h"

#include "runtime/base/hash.h"
#include "runtime/base/life.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/compile/decide.h"
#include "runtime/compile/tuned.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"
#include "runtime/package/level.h"
#include "runtime/package/refer.h"
#include "runtime/trace/store.h"

#include <string.h>

#define DEFAULT_LEVELS "v3,v4"

typedef struct writer_t {
  dt_arena_t arena; // of all that is written but the constants' data
  dt_pack_out_t out;
  dt_pack_index_t index;
  dt_pack_files_t files; // that constants may stay in
  DT_VEC(dt_pack_constant_t) constants;
  DT_VEC(dt_tensor_t *) tensors; // whose data are in parts: retained
  DT_VEC(dt_pack_form_t) forms;
  DT_VEC(dt_bindings_t *) bindings; // whose forms are in parts
  dt_pack_levels_t levels;
  bool no_forms;
} writer_t;

// ---- Parts ----------------------------------------------------------------------------------------
static dt_status_t add_part(writer_t *w, const void *data, size_t bytes, uint32_t *out) {
  *out = dt__pack_add(&w->out, data, bytes);
  return *out == UINT32_MAX ? DT_NO_MEMORY() : NULL;
}

// A part of a copy.
static dt_status_t add_copy(writer_t *w, const void *data, size_t bytes, uint32_t *out) {
  const void *copy = dt__arena_copy(&w->arena, data, bytes);
  return copy ? add_part(w, copy, bytes, out) : DT_NO_MEMORY();
}

// A part of what `text` holds.
static dt_status_t add_text(writer_t *w, const dt_text_t *text, uint32_t *out) {
  DT_TRY(dt__text_status(text));
  return add_copy(w, text->data, text->len, out);
}

// A part of data, which are there once.
static dt_status_t add_data(writer_t *w, const void *data, size_t bytes, uint32_t *out) {
  DT_TRY(add_part(w, bytes ? data : "", bytes, out));
  const dt_pack_part_t *parts = w->out.parts.items, *last = &parts[*out];
  for (uint32_t k = 1; k < *out; k++)
    if (parts[k].sum == last->sum && parts[k].bytes == bytes &&
        memcmp(w->out.data.items[k], w->out.data.items[*out], bytes) == 0) {
      *out = k;
      w->out.parts.len--;
      w->out.data.len--;
      break;
    }
  return NULL;
}

// The place of a constant in the index: equal ones, and equal data, are there once.
static dt_status_t add_constant(writer_t *w, const char *name, dt_tensor_t *tensor, uint32_t *out) {
  dt_pack_constant_t own = {.dtype = tensor->dtype, .rank = tensor->rank};
  memcpy(own.sizes, tensor->sizes, tensor->rank * sizeof(own.sizes[0]));
  DT_TRY(dt__pack_refer(&w->files, tensor, &own));
  if (!own.file)
    DT_TRY(add_data(w, tensor->data, dt__tensor_bytes(tensor), &own.part));
  else
    own.file--;
  for (uint32_t k = 0; k < w->constants.len; k++) {
    const dt_pack_constant_t *other = &w->constants.items[k];
    *out = k;
    if (dt__pack_same(other, &own) && other->dtype == own.dtype && other->rank == own.rank &&
        memcmp(other->sizes, own.sizes, sizeof(own.sizes)) == 0 && strcmp(other->name, name) == 0)
      return NULL;
  }
  own.name = dt__arena_strdup(&w->arena, name);
  if (!own.name || !DT_VEC_RESERVE(&w->arena, &w->tensors) ||
      !DT_VEC_PUSH(&w->arena, &w->constants, own))
    return DT_NO_MEMORY();
  dt_tensor_retain(tensor);
  w->tensors.items[w->tensors.len++] = tensor;
  *out = w->constants.len - 1;
  return NULL;
}

// ---- Forms ----------------------------------------------------------------------------------------
// A variant that the writer holds, with its constants at that moment.
typedef struct held_t {
  dt_variant_t *variant;
  uint32_t n;
  dt_tensor_t **tensors;
  dt_choices_t choices; // of its code, and why
  dt_tuned_t *tuned;
} held_t;

// What code of a level computes from the constants, by that code.
static dt_status_t compute(writer_t *w, const dt_function_t *function, const held_t *held,
                           dt_compiled_t *compiled, dt_bindings_t **out) {
  const dt_variant_t *own = held->variant;
  dt_variant_t variant = {.traced = own->traced,
                          .compiled = compiled,
                          .place = DT_CPU,
                          .strict_fp = own->strict_fp,
                          .runtime = function->runtime};
  DT_TRY(dt__runtime_place(function->runtime, DT_CPU, 0, &variant.home));
  const dt_bindings_peers_t alone = {.list = NULL};
  if (!DT_VEC_RESERVE(&w->arena, &w->bindings))
    return DT_NO_MEMORY();
  DT_TRY(dt__bindings_create(function, &variant, held->tensors, &alone, out));
  w->bindings.items[w->bindings.len++] = *out;
  return NULL;
}

static bool is_form(const writer_t *w, const dt_pack_form_t *a, const dt_pack_form_t *b) {
  bool same =
      a->n_constants == b->n_constants && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
  for (uint32_t i = 0; same && i < a->n_constants; i++)
    same =
        dt__pack_same(&w->constants.items[a->constants[i]], &w->constants.items[b->constants[i]]);
  return same;
}

static dt_status_t add_form(writer_t *w, const dt_once_plan_t *plan, const dt_once_buffer_t *buffer,
                            const uint32_t *constants, const void *data, uint32_t *out) {
  dt_pack_form_t own = {.n_constants = buffer->n_constants};
  memcpy(own.digest, buffer->digest, sizeof(own.digest));
  own.constants = DT_ARENA_ARRAY(&w->arena, uint32_t, (size_t)own.n_constants + 1);
  if (!own.constants)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < own.n_constants; i++)
    own.constants[i] = constants[plan->numbers[buffer->first + i]];
  *out = 0;
  while (*out < w->forms.len && !is_form(w, &w->forms.items[*out], &own))
    (*out)++;
  if (*out < w->forms.len)
    return NULL;
  DT_TRY(add_data(w, data, (size_t)buffer->bytes, &own.part));
  return DT_VEC_PUSH(&w->arena, &w->forms, own) ? NULL : DT_NO_MEMORY();
}

static dt_status_t add_forms(writer_t *w, const dt_function_t *function, const held_t *held,
                             const uint32_t *constants, dt_compiled_t *compiled,
                             dt_pack_code_t *out) {
  const dt_once_plan_t *plan = &compiled->once_plan;
  dt_bindings_t *bindings = NULL;
  out->forms = DT_ARENA_ARRAY(&w->arena, uint32_t, (size_t)plan->n_buffers + 1);
  if (!out->forms)
    return DT_NO_MEMORY();
  DT_TRY(compute(w, function, held, compiled, &bindings));
  out->n_forms = plan->n_buffers;
  for (uint32_t b = 0; b < plan->n_buffers; b++) {
    const dt_once_buffer_t *buffer = &plan->buffers[b];
    if (!buffer->kept || !buffer->shared || !buffer->bytes)
      continue;
    DT_TRY(add_form(w, plan, buffer, constants, bindings->once[b], &out->forms[b]));
    out->forms[b]++;
  }
  return NULL;
}

static bool has_forms(const dt_once_plan_t *plan) {
  for (uint32_t b = 0; b < plan->n_buffers; b++)
    if (plan->buffers[b].kept && plan->buffers[b].shared)
      return true;
  return false;
}

// By the level's code where it runs here, else by other code for the same programs.
static dt_status_t add_level_forms(writer_t *w, const dt_function_t *function, const held_t *held,
                                   const dt_level_t *level, const dt_compile_request_t *request,
                                   const uint32_t *constants, dt_compiled_t *compiled,
                                   dt_pack_code_t *out) {
  dt_compiler_t *compiler = function->runtime->compiler;
  dt_compiled_t *here = NULL;
  if (!has_forms(&compiled->once_plan))
    return NULL;
  bool runs = dt__levels_within(dt__compiler_target(compiler)) >> level->row & 1;
  if (!runs)
    DT_TRY(dt__compile_here(compiler, request, level, &here));
  dt_status_t status = add_forms(w, function, held, constants, runs ? compiled : here, out);
  dt__compiled_destroy(here);
  return status;
}

// ---- Variants -------------------------------------------------------------------------------------
static dt_status_t add_entry(writer_t *w, const dt_function_t *function, const held_t *held,
                             const dt_level_t *level, const uint32_t *constants,
                             dt_pack_code_t *out) {
  const dt_variant_t *variant = held->variant;
  const dt_compile_request_t request = {.traced = variant->traced,
                                        .name = function->name,
                                        .variant = variant->number,
                                        .strict_fp = variant->strict_fp,
                                        .choices = held->choices,
                                        .tuned = held->tuned};
  dt_entry_t entry;
  dt_status_t status = dt__compile_entry(function->runtime->compiler, &request, level, &entry);
  if (!status)
    status = add_text(w, &entry.text, &out->entry);
  if (!status)
    status = add_copy(w, entry.code, entry.code_bytes, &out->code);
  if (!status && !w->no_forms && !level->codegen)
    status = add_level_forms(w, function, held, level, &request, constants, entry.compiled, out);
  dt__entry_fini(&entry);
  return dt__status_annotate(status, "for %s", level->name);
}

static dt_status_t add_entries(writer_t *w, const dt_function_t *function, const held_t *held,
                               dt_pack_variant_t *out) {
  const dt_pack_levels_t *levels = &w->levels;
  out->n_codes = levels->n;
  out->codes = DT_ARENA_ARRAY(&w->arena, dt_pack_code_t, levels->n);
  if (!out->codes)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < levels->n; k++)
    DT_TRY(add_entry(w, function, held, &levels->items[k], out->constants, &out->codes[k]));
  return NULL;
}

static dt_status_t add_trace(writer_t *w, const dt_traced_t *traced, uint32_t *out) {
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__traced_write(traced, &text);
  if (!status)
    status = add_text(w, &text, out);
  dt__text_fini(&text);
  return status;
}

static dt_status_t add_variant(writer_t *w, const dt_function_t *function, const held_t *held,
                               dt_pack_variant_t *out) {
  const dt_variant_t *variant = held->variant;
  const dt_graph_t *graph = variant->traced->graph;
  *out = (dt_pack_variant_t){.generic = variant->generic, .strict_fp = variant->strict_fp};
  DT_TRY(add_trace(w, variant->traced, &out->traced));
  out->n_constants = held->n;
  out->constants = DT_ARENA_ARRAY(&w->arena, uint32_t, (size_t)held->n + 1);
  if (!out->constants)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < held->n; k++)
    DT_TRY(add_constant(w, graph->constants.items[k].name, held->tensors[k], &out->constants[k]));
  return add_entries(w, function, held, out);
}

// ---- Deciders -------------------------------------------------------------------------------------
typedef struct decider_t {
  const dt_function_t *function;
  const dt_level_t *level;
  dt_guards_t **programs;
  uint32_t n;
  dt_entry_t entry;
} decider_t;

static dt_status_t run_decider(void *opaque) {
  decider_t *decider = opaque;
  return dt__decide_entry(decider->function->runtime->compiler,
                          (const dt_guards_t *const *)decider->programs, decider->n,
                          decider->function->name, decider->level->cpu, &decider->entry);
}

// Where the guards are too many or too large for one decision, they are interpreted.
static dt_status_t add_decider(writer_t *w, decider_t *decider, dt_pack_decider_t *out) {
  dt_job_t job = {
      .run = run_decider, .arg = decider, .what = "guards", .of = decider->function->name};
  decider->entry = (dt_entry_t){0};
  dt_status_t status =
      dt__jobs_run(dt__compiler_jobs(decider->function->runtime->compiler), &job, 1, 0);
  if (dt_status_code(status) == DT_E_LIMIT) {
    dt_status_free(status);
    dt__entry_fini(&decider->entry);
    return NULL;
  }
  if (!status)
    status = add_text(w, &decider->entry.text, &out->entry);
  if (!status)
    status = add_copy(w, decider->entry.code, decider->entry.code_bytes, &out->code);
  dt__entry_fini(&decider->entry);
  return status;
}

// Over guards as who opens the package has them where the level is: on the first device of a kind.
static dt_status_t add_level_decider(writer_t *w, decider_t *decider, const held_t *held,
                                     dt_pack_decider_t *out) {
  const dt_function_t *function = decider->function;
  dt_device_t place = dt__place(decider->level->device, 0);
  dt_status_t status = NULL;
  uint32_t made = 0;
  for (; made < decider->n && !status; made++) {
    const dt_variant_t *variant = held[made].variant;
    decider->programs[made] = NULL;
    status = dt__variant_guards(function, variant->traced,
                                dt__variant_modes(function, place, variant->strict_fp),
                                &decider->programs[made]);
  }
  if (!status)
    status = add_decider(w, decider, out);
  for (uint32_t k = 0; k < made; k++)
    dt__guards_destroy(decider->programs[k]);
  return status;
}

// With one variant there is nothing to decide.
static dt_status_t add_deciders(writer_t *w, const dt_function_t *function, const held_t *held,
                                uint32_t n, dt_pack_function_t *out) {
  decider_t decider = {.function = function, .n = n};
  const dt_pack_levels_t *levels = &w->levels;
  decider.programs = DT_ARENA_ARRAY(&w->arena, dt_guards_t *, n);
  out->n_deciders = levels->n;
  out->deciders = DT_ARENA_ARRAY(&w->arena, dt_pack_decider_t, levels->n);
  if (!decider.programs || !out->deciders)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < levels->n && n > 1; k++) {
    decider.level = &levels->items[k];
    DT_TRY(add_level_decider(w, &decider, held, &out->deciders[k]));
  }
  return NULL;
}

// ---- Functions ------------------------------------------------------------------------------------
static void let_go(held_t *held, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    for (uint32_t i = 0; i < held[k].n; i++)
      dt_tensor_release(held[k].tensors[i]);
    dt__tuned_destroy(held[k].tuned);
    dt__variant_release(held[k].variant);
  }
}

// The place whose variants are written: what was traced is the same for all. That of the first
// variant with code, unless there are some for the CPU.
static dt_device_t place_of(const dt_variant_list_t *list) {
  dt_device_t place = DT_CPU;
  bool found = false;
  for (uint32_t k = 0; k < list->n; k++) {
    if (!list->items[k]->compiled || (found && list->items[k]->place != DT_CPU))
      continue;
    place = list->items[k]->place;
    found = true;
  }
  return place;
}

// The function's mutex held.
static dt_status_t hold(writer_t *w, dt_function_t *function, held_t **out, uint32_t *out_n) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_device_t place = place_of(list);
  held_t *held = DT_ARENA_ARRAY(&w->arena, held_t, (size_t)list->n + 1);
  *out = held;
  for (uint32_t k = 0; held && k < list->n; k++) {
    dt_variant_t *variant = list->items[k];
    const dt_bindings_t *bindings = atomic_load_explicit(&variant->bindings, memory_order_relaxed);
    if (variant->place != place || !variant->compiled)
      continue;
    dt_tensor_t **tensors =
        dt__arena_copy(&w->arena, bindings->tensors, bindings->n * sizeof(dt_tensor_t *));
    if (!tensors)
      return DT_NO_MEMORY();
    for (uint32_t i = 0; i < bindings->n; i++)
      dt_tensor_retain(tensors[i]);
    dt__variant_retain(variant);
    held[(*out_n)++] = (held_t){.variant = variant,
                                .n = bindings->n,
                                .tensors = tensors,
                                .choices = variant->compiled->choices,
                                .tuned = dt__tuned_copy(variant->compiled->tuned)};
  }
  return held ? NULL : DT_NO_MEMORY();
}

static dt_status_t hold_all(writer_t *w, dt_function_t *function, held_t **out, uint32_t *out_n) {
  *out_n = 0;
  dt__mutex_lock(&function->mutex);
  dt_status_t status = hold(w, function, out, out_n);
  dt__mutex_unlock(&function->mutex);
  return status;
}

// As declared, of the function's own memory: like_input counts arguments.
static dt_status_t take_outputs(writer_t *w, const dt_function_t *function,
                                dt_pack_function_t *out) {
  out->outputs = DT_ARENA_ARRAY(&w->arena, dt_output_decl_t, function->n_outputs);
  if (!out->outputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; function->outputs && k < function->n_outputs; k++) {
    dt_output_decl_t *own = &out->outputs[k];
    *own = function->outputs[k];
    if (own->like_input)
      own->like_input = 1 + dt__input_position(function, own->like_input - 1);
  }
  return NULL;
}

static dt_status_t add_function(writer_t *w, const dt_function_t *function, const held_t *held,
                                uint32_t n, dt_pack_function_t *out) {
  *out = (dt_pack_function_t){.name = function->name,
                              .strict_fp = function->strict_fp,
                              .dynamic = function->dynamic,
                              .n_inputs = function->n_given,
                              .n_outputs = function->n_outputs,
                              .n_variants = n};
  DT_TRY(take_outputs(w, function, out));
  out->inputs =
      dt__arena_copy(&w->arena, function->given, function->n_given * sizeof(*out->inputs));
  out->variants = DT_ARENA_ARRAY(&w->arena, dt_pack_variant_t, n);
  if (!out->inputs || !out->variants)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    DT_TRY(add_variant(w, function, &held[k], &out->variants[k]));
  return add_deciders(w, function, held, n, out);
}

static dt_status_t write_function(writer_t *w, dt_function_t *function, dt_pack_function_t *out) {
  held_t *held = NULL;
  uint32_t n = 0;
  if (function->answer == DT_ANSWER_EVALUATOR)
    return DT_FAIL(DT_E_UNSUPPORTED, "the reference evaluator answers its calls: there is no code");
  dt_status_t status = hold_all(w, function, &held, &n);
  if (!status && !n) {
    status = dt_function_prepare(function, NULL);
    if (!status)
      status = hold_all(w, function, &held, &n);
  }
  if (!status)
    status = n ? add_function(w, function, held, n, out)
               : DT_FAIL(DT_E_STATE, "it has no variant for the CPU");
  let_go(held, n);
  return status;
}

// ---- Packages -------------------------------------------------------------------------------------
static dt_status_t take_levels(writer_t *w) {
  uint32_t n = w->index.n_levels = w->levels.n;
  w->index.levels = DT_ARENA_ARRAY(&w->arena, dt_pack_level_t, n);
  for (uint32_t k = 0; w->index.levels && k < n; k++)
    w->index.levels[k].name = w->levels.items[k].name;
  return w->index.levels ? NULL : DT_NO_MEMORY();
}

static dt_status_t write_index(writer_t *w, dt_text_t *text) {
  dt_stream_names_t names = {.arena = &w->arena};
  dt_stream_t s = {.to = text, .names = &names};
  DT_TRY(take_levels(w));
  w->index.n_constants = w->constants.len;
  w->index.constants = w->constants.items;
  w->index.n_forms = w->forms.len;
  w->index.forms = w->forms.items;
  w->index.n_files = w->files.n;
  w->index.files = w->files.index;
  dt__pack_index(&s, &w->index);
  DT_TRY(dt__text_status(text));
  w->out.data.items[0] = text->data;
  w->out.parts.items[0] =
      (dt_pack_part_t){.bytes = text->len, .sum = dt__hash(text->data, text->len, 0)};
  return s.failed ? DT_NO_MEMORY() : NULL;
}

static dt_status_t write_all(writer_t *w, dt_function_t *const *functions, uint32_t n,
                             const char *path) {
  uint32_t index = 0;
  w->index = (dt_pack_index_t){.producer = dt_version(), .n_functions = n};
  w->index.functions = DT_ARENA_ARRAY(&w->arena, dt_pack_function_t, n);
  if (!w->index.functions)
    return DT_NO_MEMORY();
  DT_TRY(add_part(w, NULL, 0, &index)); // filled in at the end
  for (uint32_t k = 0; k < n; k++)
    DT_TRY(dt__status_annotate(write_function(w, functions[k], &w->index.functions[k]),
                               "function %s", functions[k]->name));
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = write_index(w, &text);
  if (!status)
    status = dt__pack_write(&w->out, path);
  dt__text_fini(&text);
  return status;
}

static dt_status_t check_names(dt_function_t *const *functions, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (!functions[k])
      return DT_FAIL(DT_E_ARGUMENT, "functions[%u]: NULL", k);
    for (uint32_t j = 0; j < k; j++)
      if (strcmp(functions[j]->name, functions[k]->name) == 0)
        return DT_FAIL(DT_E_ARGUMENT, "functions[%u] and functions[%u] are both named '%s'", j, k,
                       functions[k]->name);
  }
  return NULL;
}

static dt_status_t package_write(const char *path, dt_function_t *const *functions, uint32_t n,
                                 const dt_package_write_options_t *options) {
  dt_package_write_options_t own;
  writer_t w = {0};
  if (!path || !functions || !n)
    return DT_FAIL(DT_E_ARGUMENT, "%s",
                   !path       ? "path: NULL"
                   : functions ? "n: 0; expected a function at least"
                               : "functions: NULL");
  DT_TRY(DT_OPTIONS_TAKE(dt_package_write_options_t, &own, options));
  DT_TRY(dt__pack_levels_parse(own.levels ? own.levels : DEFAULT_LEVELS, &w.levels));
  DT_TRY(check_names(functions, n));
  dt__arena_init(&w.arena, 0);
  w.out.arena = &w.arena;
  w.no_forms = own.no_forms;
  dt_status_t status = dt__pack_files_take(&w.files, &w.arena, path, own.files, own.n_files);
  if (!status)
    status = write_all(&w, functions, n, path);
  for (uint32_t k = 0; k < w.bindings.len; k++)
    dt__bindings_destroy(w.bindings.items[k]);
  for (uint32_t k = 0; k < w.tensors.len; k++)
    dt_tensor_release(w.tensors.items[k]);
  dt__arena_fini(&w.arena);
  return status;
}

dt_status_t dt_package_write(const char *path, dt_function_t *const *functions, uint32_t n,
                             const dt_package_write_options_t *options) {
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_package_write in a child after fork");
  return dt__status_annotate(package_write(path, functions, n, options), "dt_package_write");
}
