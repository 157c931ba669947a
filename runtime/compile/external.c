// SPDX-License-Identifier: Apache-2.0
// See external.h. A call's kernel is launched like any other, with words that native.h describes:
// the function below makes tensors of them and runs the op's own.
#include "runtime/compile/external.h"

#include "backend_llvm/load/native.h"
#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

// One call. Generated code reads `fn`.
typedef struct entry_t {
  dt_kernel_fn_t fn;
  uint32_t n_inputs, n_tensors;
  dt_op_kernel_fn_t kernel; // where `fn` is run's
  dt_op_args_t args;        // without the lists of tensors
  dt_graph_external_t call;
  const dt_external_result_t *types; // of all tensors; their sizes are not used
} entry_t;

struct dt_externals_t {
  dt_arena_t arena;
  const dt_codegen_t *codegen; // whose device the code is in; NULL: the CPU
  uint32_t n;
  const void **table;
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

#define MOST_TENSORS (DT_OP_MAX_INPUTS + DT_OP_MAX_RESULTS)

// Tensors of the words, and the list of them.
static inline void take_tensors(const entry_t *entry, const uint64_t *words,
                                dt_op_tensor_t *tensors, const dt_op_tensor_t **list) {
  const int64_t *numbers = (const int64_t *)words + 1 + entry->n_tensors;
  for (uint32_t k = 0; k < entry->n_tensors; k++) {
    uint32_t rank = entry->types[k].rank;
    tensors[k] = (dt_op_tensor_t){.data = (void *)(uintptr_t)words[1 + k],
                                  .dtype = entry->types[k].dtype,
                                  .rank = rank,
                                  .sizes = numbers,
                                  .strides = numbers + rank};
    list[k] = &tensors[k];
    numbers += 2 * (size_t)rank;
  }
}

// On the way to each kernel: no more than it needs.
static void run(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                dt_launch_record_t *record) {
  const entry_t *entry = (const entry_t *)(uintptr_t)words[0];
  dt_op_tensor_t tensors[MOST_TENSORS];
  const dt_op_tensor_t *list[MOST_TENSORS];
  (void)scratch;
  take_tensors(entry, words, tensors, list);
  dt_op_args_t args = entry->args;
  args.inputs = list;
  args.results = list + entry->n_inputs;
  dt_status_t status = entry->kernel(&args, begin, end);
  if (status)
    keep_failure(record, dt__status_annotate(status, "%s", entry->call.name));
}

// The same for what reads numbers, and for what cannot run here.
static void run_whole(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                      dt_launch_record_t *record) {
  const entry_t *entry = (const entry_t *)(uintptr_t)words[0];
  dt_op_tensor_t tensors[MOST_TENSORS];
  const dt_op_tensor_t *list[MOST_TENSORS];
  (void)scratch;
  take_tensors(entry, words, tensors, list);
  keep_failure(record, dt__external_invoke(&entry->call, tensors, entry->n_inputs, begin, end));
}

// ---- Making -------------------------------------------------------------------------------------
static void add_type(const dt_program_t *program, dt_buffer_id_t id, entry_t *entry,
                     dt_external_result_t *types) {
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  types[entry->n_tensors++] = (dt_external_result_t){.dtype = buffer->dtype, .rank = buffer->rank};
}

static void choose_run(entry_t *entry) {
  const dt_graph_external_t *call = &entry->call;
  const dt_op_options_t *op = call->def ? &call->def->options : NULL;
  entry->fn = run_whole;
  if (!op || !op->kernel || call->part != DT_EXTERNAL_KERNEL)
    return;
  entry->fn = run;
  entry->kernel = op->kernel;
  entry->args = (dt_op_args_t){.n_inputs = entry->n_inputs,
                               .n_results = call->n_results,
                               .n_attrs = call->n_attrs,
                               .attrs = call->attrs,
                               .closure = op->closure};
}

static dt_status_t make_entry(const dt_program_t *program, const dt_kernel_t *kernel,
                              dt_arena_t *arena, entry_t **out) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  entry_t *entry = *out = DT_ARENA_NEW(arena, entry_t);
  dt_external_result_t *types = DT_ARENA_ARRAY(arena, dt_external_result_t, stage->insts.len + 1);
  if (!entry || !types ||
      !dt__external_copy(arena, program->externals.items[kernel->external - 1], &entry->call))
    return DT_NO_MEMORY();
  entry->types = types;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      add_type(program, stage->insts.items[i].buffer, entry, types);
  entry->n_inputs = entry->n_tensors;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    add_type(program, stage->stores.items[i].buffer, entry, types);
  if (entry->n_inputs > DT_OP_MAX_INPUTS || stage->stores.len > DT_OP_MAX_RESULTS)
    return DT_FAIL(DT_E_INTERNAL, "%s: %u tensors", kernel->name, entry->n_tensors);
  choose_run(entry);
  return NULL;
}

// Words of a call: native.h.
static uint32_t count_words(const entry_t *entry) {
  uint32_t n = 1;
  for (uint32_t k = 0; k < entry->n_tensors; k++)
    n += 1 + 2 * entry->types[k].rank;
  return n;
}

static dt_status_t load(dt_externals_t *externals, void *device, uint32_t index, entry_t *entry) {
  const dt_op_def_t *def = entry->call.def;
  if (!externals->codegen->external || !def)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the device runs no kernels of users", entry->call.name);
  if (entry->call.part != DT_EXTERNAL_KERNEL)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: its numbers are read by the CPU alone", entry->call.name);
  return dt__status_annotate(externals->codegen->external(device, &def->device, count_words(entry),
                                                          &externals->code[index], &entry->fn),
                             "%s", entry->call.name);
}

static dt_status_t fill(const dt_program_t *program, void *device, dt_externals_t *externals) {
  dt_arena_t *arena = &externals->arena;
  externals->n = program->externals.len;
  externals->table = DT_ARENA_ARRAY(arena, const void *, externals->n + 1);
  externals->code = DT_ARENA_ARRAY(arena, void *, externals->n + 1);
  if (!externals->table || !externals->code)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    entry_t *entry = NULL;
    if (!kernel->external)
      continue;
    if (kernel->external > program->externals.len)
      return DT_FAIL(DT_E_INTERNAL, "call %u of %u of users' ops", kernel->external - 1,
                     program->externals.len);
    DT_TRY(make_entry(program, kernel, arena, &entry));
    externals->table[kernel->external - 1] = entry;
    if (externals->codegen)
      DT_TRY(load(externals, device, kernel->external - 1, entry));
  }
  return NULL;
}

dt_status_t dt__externals_create(const dt_program_t *program, const dt_codegen_t *codegen,
                                 void *device, dt_externals_t **out) {
  *out = NULL;
  if (program->externals.len == 0)
    return NULL;
  dt_externals_t *made = dt__calloc(1, sizeof(*made));
  if (!made)
    return DT_NO_MEMORY();
  dt__arena_init(&made->arena, 0);
  made->codegen = codegen;
  dt_status_t status = fill(program, device, made);
  if (status) {
    dt__externals_unload(made); // nothing was launched
    dt__externals_destroy(made);
    return status;
  }
  *out = made;
  return NULL;
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

const void *const *dt__externals_table(const dt_externals_t *externals) {
  return externals ? externals->table : NULL;
}
