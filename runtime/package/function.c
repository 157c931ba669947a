// SPDX-License-Identifier: Apache-2.0
// Functions of packages: their declarations, and their variants for the best level that runs here.
#include "runtime/package/level.h"

#include "runtime/base/life.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/compile/decide.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/function.h"
#include "runtime/exec/miss.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/replay.h"

#include <string.h>

// ---- Calls that no variant covers -----------------------------------------------------------------
// The program of a function is the graph of its first variant, which stands for it where all that
// was assumed in its trace holds. It is made at the first miss; the function makes one variant at a
// time.
typedef struct program_t {
  dt_package_t *package; // a reference
  const dt_pack_function_t *index;
  dt_hooks_t *hooks; // the function's
  dt_replay_t *replay;
  dt_pack_offers_t offers;
  dt_decide_kept_t decider;
  uint32_t supplied[DT_PLACES]; // variants that the function has for each place
} program_t;

static void free_program(void *opaque) {
  program_t *program = opaque;
  dt__replay_destroy(program->replay);
  dt__pack_offers_end(program->package, &program->offers);
  dt_package_release(program->package);
  dt__free(program);
}

static dt_status_t make_replay(program_t *program) {
  dt_traced_t *traced = NULL;
  DT_TRY(dt__pack_traced(program->package, &program->index->variants[0], program->hooks, false,
                         &traced));
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < traced->constants.len && !status; k++)
    status = dt__tensor_check_bytes(traced->constants.items[k]); // traces may look at any
  if (!status && !traced->graph->updates.len)
    return dt__replay_create_traced(traced, &program->replay);
  dt__traced_destroy(traced);
  if (status)
    return status;
  return DT_FAIL(DT_E_UNSUPPORTED,
                 "it updates arguments, and how the program does that with others "
                 "cannot be told from it: write a variant for these, too");
}

static dt_status_t run_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                               void *opaque) {
  program_t *program = opaque;
  if (!program->replay)
    DT_TRY(dt__status_annotate(make_replay(program), "the package's first variant"));
  return dt__replay_program(trace, in, out, program->replay);
}

// ---- Variants -------------------------------------------------------------------------------------
// Code in a part, which is looked at.
static dt_status_t take_code(const dt_package_t *package, uint32_t which, dt_code_bytes_t *out) {
  const dt_pack_part_t *part = &package->parts[which];
  *out = (dt_code_bytes_t){.data = dt__pack_data(package, which),
                           .bytes = (size_t)part->bytes,
                           .fd = part->offset % DT_PACK_DATA_ALIGN ? -1 : package->bytes->fd,
                           .offset = part->offset};
  return dt__pack_check(package->bytes->data, part, "machine code");
}

dt_status_t dt__pack_compiled(dt_package_t *package, const dt_pack_variant_t *variant,
                              uint32_t level, const dt_place_t *home, const dt_traced_t *traced,
                              dt_compiled_t **out) {
  const dt_pack_code_t *own = &variant->codes[level];
  const dt_pack_part_t *entry = &package->parts[own->entry];
  dt_entry_source_t source = {.data = dt__pack_data(package, own->entry),
                              .bytes = (size_t)entry->bytes,
                              .codegen = package->index.levels[level].known.codegen,
                              .device = home ? home->device : NULL,
                              .bare = !home};
  DT_TRY(dt__pack_check(package->bytes->data, entry, "an entry"));
  DT_TRY(take_code(package, own->code, &source.code));
  return dt__pack_blame(dt__compiled_read(package->runtime->compiler, traced, &source, out));
}

static dt_status_t take_decider(const dt_package_t *package, const dt_pack_function_t *index,
                                uint32_t level, dt_decide_kept_t *out) {
  const dt_pack_decider_t *own = &index->deciders[level];
  *out = (dt_decide_kept_t){.n = index->n_variants};
  if (!own->entry)
    return NULL;
  DT_TRY(dt__pack_check(package->bytes->data, &package->parts[own->entry], "a decider"));
  DT_TRY(take_code(package, own->code, &out->code));
  out->data = dt__pack_data(package, own->entry);
  out->bytes = (size_t)package->parts[own->entry].bytes;
  return NULL;
}

static dt_status_t make_variant(dt_package_t *package, dt_function_t *function,
                                const dt_pack_variant_t *own, uint32_t level,
                                const dt_place_t *home, dt_pack_offers_t *offers,
                                dt_variant_t **out) {
  dt_traced_t *traced = NULL;
  dt_compiled_t *compiled = NULL;
  const dt_variant_request_t request = {
      .number = function->next_number++,
      .generic = own->generic,
      .modes = dt__variant_modes(function, home->number, own->strict_fp)};
  DT_TRY(dt__pack_traced(package, own, function->hooks, false, &traced));
  dt_status_t status = dt__pack_compiled(package, own, level, home, traced, &compiled);
  if (!status)
    status = dt__pack_offer(package, own, level, compiled, offers);
  if (status) {
    if (compiled)
      dt__compiled_unload(compiled); // nothing was launched
    dt__compiled_destroy(compiled);
    dt__traced_destroy(traced);
    return status;
  }
  return dt__pack_blame(dt__variant_adopt(function, &request, traced, compiled, out));
}

// The decision over a function's variants is brought along if these are its first ones. Whoever
// has variants for other places, too, has it for those of the first.
static dt_status_t begin_variants(dt_package_t *package, dt_function_t *function,
                                  program_t *program, const dt_place_t *home, uint32_t level) {
  dt__mutex_lock(&function->mutex);
  bool first = atomic_load_explicit(&function->list, memory_order_relaxed)->n == 0;
  dt__mutex_unlock(&function->mutex);
  if (!first || dt__place_ordinal(home->number) != 0)
    return NULL;
  DT_TRY(take_decider(package, program->index, level, &program->decider));
  function->decider.kept = &program->decider;
  return NULL;
}

// Those that are not there yet: who failed before goes on.
static dt_status_t add_variants(dt_package_t *package, dt_function_t *function, program_t *program,
                                const dt_place_t *home) {
  const dt_pack_function_t *index = program->index;
  uint32_t level = 0, *done = &program->supplied[home->number];
  DT_TRY(dt__pack_level(package, home, &level));
  DT_TRY(begin_variants(package, function, program, home, level));
  for (; *done < index->n_variants; (*done)++) {
    dt_variant_t *variant = NULL;
    DT_TRY(make_variant(package, function, &index->variants[*done], level, home, &program->offers,
                        &variant));
    dt__mutex_lock(&function->mutex);
    dt_status_t status = dt__variant_publish(function, variant);
    dt__mutex_unlock(&function->mutex);
    DT_TRY(status);
  }
  const dt_level_t *known = &package->index.levels[level].known;
  DT_LOG(DT_LOG_CACHE, 1, "%s: %u variants of a package, for %s", function->name, index->n_variants,
         known->codegen ? known->name : known->cpu);
  return NULL;
}

// The decider is for all of them.
static void set_waits(dt_function_t *function, bool waits) {
  dt__mutex_lock(&function->mutex);
  function->decider.waits = waits;
  if (!waits)
    dt__decider_request(function);
  dt__mutex_unlock(&function->mutex);
}

// What a package has no code for is compiled, where that can be.
static dt_status_t supply(dt_function_t *function, dt_device_t place, bool *out_some) {
  program_t *program = function->closure;
  dt_package_t *package = program->package;
  dt_place_t *home = NULL;
  *out_some = false;
  if (program->supplied[place] == program->index->n_variants)
    return NULL;
  DT_TRY(dt__runtime_place(function->runtime, dt__place_device(place), dt__place_ordinal(place),
                           &home));
  if (!dt__pack_is_for(package, dt__place_device(place)) &&
      dt__compiler_has_codegen(function->runtime->compiler))
    return NULL;
  set_waits(function, true);
  dt_status_t status = add_variants(package, function, program, home);
  set_waits(function, false);
  *out_some = !status;
  return status;
}

// ---- All that there is ----------------------------------------------------------------------------
static dt_status_t load_entry(dt_package_t *package, const dt_traced_t *traced,
                              const dt_pack_variant_t *variant, uint32_t level,
                              const dt_place_t *home) {
  dt_pack_offers_t offers = {NULL};
  dt_compiled_t *compiled = NULL;
  bool there = home && home->codegen == package->index.levels[level].known.codegen;
  DT_TRY(dt__pack_compiled(package, variant, level, there ? home : NULL, traced, &compiled));
  dt_status_t status = dt__pack_offer(package, variant, level, compiled, &offers);
  dt__pack_offers_end(package, &offers);
  dt__compiled_unload(compiled);
  dt__compiled_destroy(compiled);
  return status;
}

static dt_status_t load_variant(dt_package_t *package, const dt_pack_variant_t *variant,
                                const dt_place_t *home) {
  dt_traced_t *traced = NULL;
  DT_TRY(dt__pack_traced(package, variant, package->runtime->hooks, true, &traced));
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < variant->n_codes && !status; k++)
    if (package->index.levels[k].is_known)
      status = load_entry(package, traced, variant, k, home);
  dt__traced_destroy(traced);
  return status;
}

static dt_status_t load_function(dt_package_t *package, const dt_pack_function_t *function,
                                 const dt_place_t *home) {
  for (uint32_t v = 0; v < function->n_variants; v++)
    DT_TRY(load_variant(package, &function->variants[v], home));
  for (uint32_t k = 0; k < function->n_deciders; k++) {
    dt_decide_kept_t kept;
    DT_TRY(take_decider(package, function, k, &kept));
    if (kept.data)
      DT_TRY(dt__decide_load(&kept));
  }
  return NULL;
}

dt_status_t dt__package_load_all(dt_package_t *package, const dt_place_t *home) {
  for (uint32_t k = 0; k < package->index.n_functions; k++)
    DT_TRY(load_function(package, &package->index.functions[k], home));
  return NULL;
}

// ---- Functions ------------------------------------------------------------------------------------
static dt_status_t find(const dt_package_t *package, const char *name,
                        const dt_pack_function_t **out) {
  const dt_pack_index_t *index = &package->index;
  for (uint32_t k = 0; k < index->n_functions; k++) {
    *out = &index->functions[k];
    if (name ? strcmp(name, (*out)->name) == 0 : index->n_functions == 1)
      return NULL;
  }
  dt_text_t names;
  dt__text_init(&names);
  for (uint32_t k = 0; k < index->n_functions; k++)
    dt__text_printf(&names, k ? ", '%s'" : "'%s'", index->functions[k].name);
  dt_status_t status = DT_FAIL(DT_E_ARGUMENT, "name: %s%s%s; the package has %s", name ? "'" : "",
                               name ? name : "NULL", name ? "'" : "", dt__text_str(&names));
  dt__text_fini(&names);
  return status;
}

static dt_status_t check_options(const dt_function_options_t *options) {
  if (options->n_inputs || options->inputs || options->n_outputs || options->outputs ||
      options->closure_free || options->strict_fp || options->dynamic || options->answer)
    return DT_FAIL(DT_E_ARGUMENT, "options: the package gives inputs, results, closure, answer, "
                                  "dynamic and strict_fp: leave them 0");
  return NULL;
}

static void take_declarations(const dt_pack_function_t *index, dt_function_options_t *options) {
  options->n_inputs = index->n_inputs;
  options->inputs = index->inputs;
  options->input_size = sizeof(dt_input_decl_t);
  options->dim_size = sizeof(dt_dim_decl_t);
  options->n_outputs = index->n_outputs;
  options->outputs = index->outputs;
  options->output_size = sizeof(dt_output_decl_t);
  options->strict_fp = index->strict_fp;
  options->dynamic = index->dynamic;
  options->closure_free = free_program;
  if (!options->name)
    options->name = index->name;
}

static bool has_devices(const dt_package_t *package) {
  for (uint32_t k = 0; k < package->index.n_levels; k++)
    if (!package->index.levels[k].is_known || package->index.levels[k].known.codegen)
      return true;
  return false;
}

// Where all code is for CPUs it is loaded now, else when a call needs it: those on a device need
// none of it.
static dt_status_t complete(dt_package_t *package, dt_function_t *function, program_t *program) {
  bool some = false;
  program->hooks = function->hooks;
  function->takes_elements = true;
  function->pins = 1; // its variants do not go: they would not come back without a compiler
  function->supply = supply;
  if (!has_devices(package))
    DT_TRY(supply(function, DT_CPU, &some));
  function->frozen = !dt__compiler_has_codegen(package->runtime->compiler);
  return NULL;
}

static dt_status_t create(dt_package_t *package, const char *name,
                          const dt_function_options_t *given, dt_function_t **out) {
  const dt_pack_function_t *index = NULL;
  dt_function_options_t options;
  dt_function_t *function = NULL;
  DT_TRY(DT_OPTIONS_TAKE(dt_function_options_t, &options, given));
  DT_TRY(check_options(&options));
  DT_TRY(find(package, name, &index));
  program_t *program = dt__calloc(1, sizeof(*program));
  if (!program)
    return DT_NO_MEMORY();
  dt__package_retain(package);
  *program = (program_t){.package = package, .index = index};
  take_declarations(index, &options);
  dt_status_t status =
      dt_function_create(package->runtime, run_program, program, &options, &function);
  if (status) {
    free_program(program);
    return status;
  }
  status = complete(package, function, program);
  if (status)
    dt_function_release(function);
  else
    *out = function;
  return status;
}

dt_status_t dt_package_function(dt_package_t *package, const char *name,
                                const dt_function_options_t *options, dt_function_t **out) {
  if (!package || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_function: %s: NULL", package ? "out" : "package");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_package_function in a child after fork");
  return dt__status_annotate(create(package, name, options, out), "dt_package_function");
}
