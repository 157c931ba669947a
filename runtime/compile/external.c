// SPDX-License-Identifier: Apache-2.0
// See external.h. A call's kernel is launched like any other, with words that native.h describes:
// generated code makes the kernel's arguments of them.
#include "runtime/compile/external.h"

#include "backend_llvm/load/native.h"
#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/trace/op_list.h"

#include <string.h>

// One call. Generated code reads `entry`.
typedef struct entry_t {
  dt_external_entry_t entry;
  dt_op_kernel_fn_t kernel; // where `fn` is run's
  dt_external_call_t of;
} entry_t;

struct dt_externals_t {
  dt_arena_t arena;
  const dt_codegen_t *codegen; // whose device the code is in; NULL: the CPU
  uint32_t n;
  const dt_external_entry_t **table;
  void **code; // by call, of a device
};

// ---- Running ------------------------------------------------------------------------------------
// The first failure of a call is kept.
static void keep_failure(dt_launch_record_t *record, dt_status_t status) {
  int64_t none = 0;
  if (!status)
    return;
  if (atomic_compare_exchange_strong(&record->check, &none, DT_RECORD_STATUS))
    record->value = (int64_t)(uintptr_t)status;
  else
    dt_status_free(status);
}

static const entry_t *entry_of(const uint64_t *words) {
  return (const entry_t *)(uintptr_t)words[0];
}

static const dt_op_args_t *args_of(const uint64_t *words) {
  return (const dt_op_args_t *)(const void *)(words + DT_EXTERNAL_ARGS);
}

// On the way to each kernel: no more than it needs.
static void run(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                dt_launch_record_t *record) {
  const entry_t *entry = entry_of(words);
  (void)scratch;
  dt_status_t status = entry->kernel(args_of(words), begin, end);
  if (status)
    keep_failure(record, dt__status_annotate(status, "%s", entry->of.call.name));
}

// Numbers are what the only result holds; an op that reads them is told of none.
static void run_numbers(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                        dt_launch_record_t *record) {
  const dt_external_call_t *of = &entry_of(words)->of;
  const dt_op_args_t *args = args_of(words);
  (void)begin, (void)end, (void)scratch;
  dt_status_t status = of->call.def->options.numbers(args, args->results[0]->data);
  keep_failure(record, dt__status_annotate(status, "%s", of->call.name));
}

static void run_absent(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                       dt_launch_record_t *record) {
  (void)begin, (void)end, (void)scratch;
  keep_failure(record, DT_FAIL(DT_E_UNSUPPORTED, "%s: the op has no kernel here",
                               entry_of(words)->of.call.name));
}

// ---- Calls of a program -------------------------------------------------------------------------
static void add_type(const dt_program_t *program, dt_buffer_id_t id, dt_external_call_t *call,
                     dt_external_result_t *types) {
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  types[call->n_tensors++] = (dt_external_result_t){.dtype = buffer->dtype, .rank = buffer->rank};
}

static void take_updates(const dt_op_def_t *def, dt_external_call_t *out) {
  _Static_assert(sizeof(def->options.updates) == sizeof(out->updates), "one word");
  memcpy(&out->updates, def->options.updates, sizeof(out->updates));
  out->in_place = def->options.in_place;
}

static dt_status_t take_call(const dt_program_t *program, const dt_kernel_t *kernel,
                             dt_arena_t *arena, dt_external_call_t *out) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  dt_external_result_t *types =
      DT_ARENA_ARRAY(arena, dt_external_result_t, (size_t)stage->insts.len + stage->stores.len + 1);
  if (!types)
    return DT_NO_MEMORY();
  *out =
      (dt_external_call_t){.call = *program->externals.items[kernel->external - 1], .types = types};
  if (out->call.def)
    take_updates(out->call.def, out);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      add_type(program, stage->insts.items[i].buffer, out, types);
  out->n_inputs = out->n_tensors;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    add_type(program, stage->stores.items[i].buffer, out, types);
  if (out->n_inputs > DT_OP_MAX_INPUTS || stage->stores.len > DT_OP_MAX_RESULTS)
    return DT_FAIL(DT_E_INTERNAL, "%s: %u tensors", kernel->name, out->n_tensors);
  return NULL;
}

// All of them into `arena`, by call.
static dt_status_t take_calls(const dt_program_t *program, dt_arena_t *arena,
                              dt_external_call_t **out) {
  uint32_t n = program->externals.len;
  dt_external_call_t *calls = *out = DT_ARENA_ARRAY(arena, dt_external_call_t, (size_t)n + 1);
  if (!calls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    calls[k].call.name = calls[k].call.identity = "";
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    if (kernel->external > n)
      return DT_FAIL(DT_E_INTERNAL, "call %u of %u of users' ops", kernel->external - 1, n);
    if (kernel->external)
      DT_TRY(take_call(program, kernel, arena, &calls[kernel->external - 1]));
  }
  return NULL;
}

// ---- Making -------------------------------------------------------------------------------------
static void choose_run(entry_t *entry) {
  const dt_graph_external_t *call = &entry->of.call;
  const dt_op_options_t *op = call->def ? &call->def->options : NULL;
  bool numbers = call->part == DT_EXTERNAL_NUMBERS;
  entry->kernel = op ? op->kernel : NULL;
  entry->entry.fn = numbers && op && op->numbers ? run_numbers
                    : !numbers && entry->kernel  ? run
                                                 : run_absent;
  entry->entry.args = (dt_op_args_t){.n_inputs = entry->of.n_inputs,
                                     .n_results = numbers ? 0 : call->n_results,
                                     .n_attrs = call->n_attrs,
                                     .attrs = call->attrs,
                                     .closure = op ? op->closure : NULL};
}

static dt_status_t make_entry(const dt_external_call_t *call, dt_arena_t *arena, entry_t **out) {
  entry_t *entry = *out = DT_ARENA_NEW(arena, entry_t);
  if (!entry)
    return DT_NO_MEMORY();
  entry->of = *call;
  entry->of.types = dt__arena_copy(arena, call->types, call->n_tensors * sizeof(*call->types));
  if (!entry->of.types || !dt__external_copy(arena, &call->call, &entry->of.call))
    return DT_NO_MEMORY();
  choose_run(entry);
  return NULL;
}

// Words of a call: native.h.
static uint32_t count_words(const entry_t *entry) {
  uint32_t n = 1;
  for (uint32_t k = 0; k < entry->of.n_tensors; k++)
    n += 1 + 2 * entry->of.types[k].rank;
  return n;
}

// `carried`: the code is for devices elsewhere.
static dt_status_t load(dt_externals_t *externals, void *device, bool carried, uint32_t index,
                        entry_t *entry) {
  const dt_graph_external_t *call = &entry->of.call;
  if (!externals->codegen->external || !call->def)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the device runs no kernels of users", call->name);
  if (call->part != DT_EXTERNAL_KERNEL)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: its numbers are read by the CPU alone", call->name);
  if (carried)
    return NULL;
  return dt__status_annotate(
      externals->codegen->external(device, &call->def->device, count_words(entry),
                                   &externals->code[index], &entry->entry.fn),
      "%s", call->name);
}

static dt_status_t fill(const dt_external_call_t *calls, uint32_t n, void *device, bool carried,
                        dt_externals_t *externals) {
  dt_arena_t *arena = &externals->arena;
  externals->n = n;
  externals->table = DT_ARENA_ARRAY(arena, const dt_external_entry_t *, (size_t)n + 1);
  externals->code = DT_ARENA_ARRAY(arena, void *, (size_t)n + 1);
  if (!externals->table || !externals->code)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    entry_t *entry = NULL;
    if (!calls[k].call.name[0])
      continue;
    DT_TRY(make_entry(&calls[k], arena, &entry));
    externals->table[k] = &entry->entry;
    if (externals->codegen)
      DT_TRY(load(externals, device, carried, k, entry));
  }
  return NULL;
}

static dt_status_t make(const dt_external_call_t *calls, uint32_t n, const dt_codegen_t *codegen,
                        void *device, bool carried, dt_externals_t **out) {
  dt_externals_t *made = dt__calloc(1, sizeof(*made));
  if (!made)
    return DT_NO_MEMORY();
  dt__arena_init(&made->arena, 0);
  made->codegen = codegen;
  dt_status_t status = fill(calls, n, device, carried, made);
  if (status) {
    dt__externals_unload(made); // nothing was launched
    dt__externals_destroy(made);
    return status;
  }
  *out = made;
  return NULL;
}

dt_status_t dt__externals_create(const dt_program_t *program, const dt_codegen_t *codegen,
                                 void *device, bool carried, dt_externals_t **out) {
  dt_arena_t arena;
  dt_external_call_t *calls = NULL;
  *out = NULL;
  if (program->externals.len == 0)
    return NULL;
  dt__arena_init(&arena, 0);
  dt_status_t status = take_calls(program, &arena, &calls);
  if (!status)
    status = make(calls, program->externals.len, codegen, device, carried, out);
  dt__arena_fini(&arena);
  return status;
}

// ---- Calls of a file ----------------------------------------------------------------------------
static dt_device_t device_of(const dt_codegen_t *codegen) {
  int device = (int)DT_DEVICES - 1;
  while (device > 0 && dt__codegens[device] != codegen)
    device--;
  return (dt_device_t)device;
}

static dt_status_t find_op(const dt_op_list_t *ops, const dt_codegen_t *codegen,
                           dt_external_call_t *call) {
  dt_graph_external_t *own = &call->call;
  const dt_op_def_t *def = own->def = dt__op_list_find(ops, own->name);
  if (!def)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the runtime has no such op", own->name);
  if (strcmp(def->options.identity, own->identity) != 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: it was compiled with \"%.64s\", and the op is \"%.64s\"",
                   own->name, own->identity, def->options.identity);
  dt_external_call_t now = {0};
  take_updates(def, &now);
  if (now.updates != call->updates || now.in_place != call->in_place)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the op updates other inputs than it did", own->name);
  if (!dt__op_has_kernel(def, device_of(codegen)) || call->n_inputs < def->options.least_inputs ||
      call->n_inputs > def->options.most_inputs)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the op has no kernel for this call", own->name);
  own->results = call->types + call->n_inputs;
  own->n_results = call->n_tensors - call->n_inputs;
  return NULL;
}

dt_status_t dt__externals_load(const dt_external_call_t *calls, uint32_t n, const dt_op_list_t *ops,
                               const dt_codegen_t *codegen, void *device, dt_externals_t **out) {
  dt_status_t status = NULL;
  *out = NULL;
  if (n == 0)
    return NULL;
  dt_external_call_t *found = dt__calloc(n, sizeof(*found));
  if (!found)
    return DT_NO_MEMORY();
  memcpy(found, calls, n * sizeof(*found));
  for (uint32_t k = 0; k < n && !status; k++)
    if (found[k].call.name[0])
      status = find_op(ops, codegen, &found[k]);
  if (!status)
    status = make(found, n, codegen, device, false, out);
  dt__free(found);
  return status;
}

uint32_t dt__externals_n(const dt_externals_t *externals) { return externals ? externals->n : 0; }

dt_external_call_t dt__externals_call(const dt_externals_t *externals, uint32_t index) {
  static const dt_external_call_t none = {.call = {.name = "", .identity = ""}};
  const entry_t *entry = (const entry_t *)(const void *)externals->table[index];
  return entry ? entry->of : none;
}

void dt__externals_unload(dt_externals_t *externals) {
  for (uint32_t k = 0; externals && externals->code && k < externals->n; k++) {
    if (externals->code[k])
      externals->codegen->unload(externals->code[k]);
    externals->code[k] = NULL;
  }
}

void dt__externals_destroy(dt_externals_t *externals) {
  if (!externals)
    return;
  dt__arena_fini(&externals->arena);
  dt__free(externals);
}

const dt_external_entry_t *const *dt__externals_table(const dt_externals_t *externals) {
  return externals ? externals->table : NULL;
}
