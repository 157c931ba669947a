// SPDX-License-Identifier: Apache-2.0
// Opening packages: the bytes, head and table, the index, each number of which is checked here.
#include "runtime/package/package.h"

#include "runtime/base/life.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- The index ------------------------------------------------------------------------------------
static bool is_part(const dt_package_t *package, uint32_t part) {
  return part > 0 && part < package->n_parts;
}

static bool is_place(const dt_package_t *package, const dt_pack_constant_t *constant,
                     uint64_t bytes) {
  const dt_pack_index_t *index = &package->index;
  if (constant->part)
    return is_part(package, constant->part) && package->parts[constant->part].bytes == bytes;
  return constant->file < index->n_files &&
         constant->offset <= index->files[constant->file].bytes &&
         bytes <= index->files[constant->file].bytes - constant->offset;
}

static dt_status_t check_constant(const dt_package_t *package, const dt_pack_constant_t *constant) {
  int64_t bytes = 0;
  DT_TRY(dt__pack_constant_bytes(constant, &bytes));
  if (is_place(package, constant, (uint64_t)bytes))
    return NULL;
  return DT_FAIL(DT_E_FORMAT, "constant '%s': its data are not of its sizes", constant->name);
}

static dt_status_t check_form(const dt_package_t *package, const dt_pack_form_t *form) {
  bool good = is_part(package, form->part);
  for (uint32_t k = 0; k < form->n_constants; k++)
    good = good && form->constants[k] < package->index.n_constants;
  return good ? NULL : DT_FAIL(DT_E_FORMAT, "a form names parts that there are not");
}

static dt_status_t check_variant(const dt_package_t *package, const dt_pack_variant_t *variant) {
  const dt_pack_index_t *index = &package->index;
  bool good = is_part(package, variant->traced);
  for (uint32_t k = 0; k < variant->n_constants; k++)
    good = good && variant->constants[k] < index->n_constants;
  good = good && variant->n_codes == index->n_levels;
  for (uint32_t k = 0; good && k < variant->n_codes; k++) {
    const dt_pack_code_t *own = &variant->codes[k];
    good = is_part(package, own->entry) && is_part(package, own->code) &&
           (own->n_forms == 0 || index->levels[k].known.device == DT_CPU);
    for (uint32_t i = 0; i < own->n_forms; i++)
      good = good && own->forms[i] <= index->n_forms;
  }
  return good ? NULL : DT_FAIL(DT_E_FORMAT, "a variant names parts that there are not");
}

static dt_status_t check_function(const dt_package_t *package, const dt_pack_function_t *function) {
  if (!function->name[0] || !function->n_variants || !function->n_outputs)
    return DT_FAIL(DT_E_FORMAT, "a function without name, results or variants");
  for (uint32_t k = 0; k < function->n_variants; k++)
    DT_TRY(dt__status_annotate(check_variant(package, &function->variants[k]), "function %s",
                               function->name));
  bool good = function->n_deciders == package->index.n_levels;
  for (uint32_t k = 0; good && k < function->n_deciders; k++) {
    const dt_pack_decider_t *own = &function->deciders[k];
    good = !own->entry || (is_part(package, own->entry) && is_part(package, own->code));
  }
  if (!good)
    return DT_FAIL(DT_E_FORMAT, "function %s: a decider names parts that there are not",
                   function->name);
  return NULL;
}

// Each name once. A level that this library does not know is of a later one.
static bool know_levels(dt_pack_index_t *index) {
  bool good = index->n_levels > 0 && index->n_levels <= DT_PACK_MOST_LEVELS;
  for (uint32_t k = 0; good && k < index->n_levels; k++) {
    dt_pack_level_t *own = &index->levels[k];
    own->is_known = dt__level_named(own->name, strlen(own->name), &own->known);
    for (uint32_t j = 0; j < k; j++)
      good = good && strcmp(index->levels[j].name, own->name) != 0;
  }
  return good;
}

static dt_status_t read_index(dt_package_t *package) {
  dt_pack_index_t *index = &package->index;
  dt_stream_names_t names = {.arena = &package->arena};
  dt_stream_t s = {.from = dt__pack_data(package, 0),
                   .left = (size_t)package->parts[0].bytes,
                   .arena = &package->arena,
                   .names = &names};
  DT_TRY(dt__pack_check(package->bytes->data, &package->parts[0], "the index"));
  dt__pack_index(&s, index);
  if (!dt__stream_is_done(&s) || !know_levels(index))
    return DT_FAIL(DT_E_FORMAT, "its index is of another form");
  for (uint32_t k = 0; k < index->n_constants; k++)
    DT_TRY(check_constant(package, &index->constants[k]));
  for (uint32_t k = 0; k < index->n_forms; k++)
    DT_TRY(check_form(package, &index->forms[k]));
  for (uint32_t k = 0; k < index->n_functions; k++)
    DT_TRY(check_function(package, &index->functions[k]));
  return NULL;
}

// ---- Packages -------------------------------------------------------------------------------------
void dt__package_retain(dt_package_t *package) {
  (void)atomic_fetch_add_explicit(&package->refs, 1, memory_order_relaxed);
}

static void package_free(dt_package_t *package) {
  for (uint32_t k = 0; package->tensors && k < package->index.n_constants; k++)
    dt_tensor_release(package->tensors[k]);
  for (uint32_t k = 0; package->files && k < package->index.n_files; k++)
    dt__pack_bytes_release(package->files[k]);
  dt__free(package->tensors);
  dt__free(package->files);
  dt__free(package->sound);
  dt__free(package->folder);
  dt__free(package->parts);
  dt__arena_fini(&package->arena);
  dt__pack_bytes_release(package->bytes);
  dt__free(package);
}

void dt_package_release(dt_package_t *package) {
  if (!package || atomic_fetch_sub_explicit(&package->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt_runtime_t *runtime = package->runtime;
  if (!dt__forked())
    dt__mutex_fini(&package->mutex);
  package_free(package);
  dt_runtime_release(runtime);
}

static dt_status_t read_package(dt_package_t *package, const dt_package_options_t *options) {
  const dt_pack_bytes_t *bytes = package->bytes;
  if ((uintptr_t)bytes->data % DT_PACK_ALIGN)
    return DT_FAIL(DT_E_ARGUMENT, "data: expected an address that %u divides", DT_PACK_ALIGN);
  if (options->verify)
    DT_TRY(options->verify(options->user, bytes->data, bytes->bytes));
  DT_TRY(dt__pack_open(bytes->data, bytes->bytes, &package->parts, &package->n_parts));
  DT_TRY(read_index(package));
  package->tensors = dt__calloc(package->index.n_constants, sizeof(*package->tensors));
  package->files = dt__calloc(package->index.n_files, sizeof(*package->files));
  package->sound = dt__calloc(package->index.n_forms, sizeof(*package->sound));
  if (!package->tensors || !package->files || !package->sound)
    return DT_NO_MEMORY();
  return dt__mutex_init(&package->mutex, DT_RANK_MODEL);
}

// Where files that a package refers to are: in a folder that is given, or that of its path.
static char *folder_of(const char *path, const char *given) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  if (given || !slash)
    return dt__strdup(given ? given : ".");
  size_t n = (size_t)(slash - path);
  char *own = dt__calloc(n + 2, 1);
  if (own)
    memcpy(own, path, n ? n : 1);
  return own;
}

static dt_status_t take_folder(dt_package_t *package, const char *path, const char *given) {
  if (!path && !given)
    return NULL;
  package->folder = folder_of(path, given);
  return package->folder ? NULL : DT_NO_MEMORY();
}

// Takes `bytes` also on failure.
static dt_status_t create(dt_runtime_t *runtime, dt_pack_bytes_t *bytes, const char *path,
                          const dt_package_options_t *options, dt_package_t **out) {
  dt_package_t *package = dt__calloc(1, sizeof(*package));
  if (!package) {
    dt__pack_bytes_release(bytes);
    return DT_NO_MEMORY();
  }
  atomic_init(&package->refs, 1);
  package->runtime = runtime;
  package->bytes = bytes;
  dt__arena_init(&package->arena, 0);
  package->copy = options->copy;
  dt_status_t status = take_folder(package, path, options->folder);
  if (!status)
    status = read_package(package, options);
  if (status) {
    package_free(package);
    return status;
  }
  dt_runtime_retain(runtime);
  *out = package;
  return NULL;
}

static dt_status_t open_source(dt_runtime_t *runtime, const dt_pack_source_t *source,
                               const dt_package_options_t *options, dt_package_t **out) {
  dt_package_options_t own;
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  DT_TRY(DT_OPTIONS_TAKE(dt_package_options_t, &own, options));
  dt_pack_bytes_t *bytes = NULL;
  DT_TRY(dt__pack_bytes_take(source, own.copy, &bytes));
  return create(runtime, bytes, source->path, &own, out);
}

dt_status_t dt_package_open(dt_runtime_t *runtime, const char *path,
                            const dt_package_options_t *options, dt_package_t **out) {
  if (!path || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open: %s: NULL", path ? "out" : "path");
  *out = NULL;
  return dt__status_annotate(
      open_source(runtime, &(dt_pack_source_t){.path = path, .code = true}, options, out),
      "dt_package_open: %s", path);
}

dt_status_t dt_package_open_descriptor(dt_runtime_t *runtime, int descriptor,
                                       const dt_package_options_t *options, dt_package_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open_descriptor: out: NULL");
  *out = NULL;
  return dt__status_annotate(
      open_source(runtime, &(dt_pack_source_t){.fd = descriptor}, options, out),
      "dt_package_open_descriptor");
}

dt_status_t dt_package_open_memory(dt_runtime_t *runtime, const void *data, size_t bytes,
                                   const dt_package_options_t *options, dt_package_t **out) {
  if (!data || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open_memory: %s: NULL", data ? "out" : "data");
  *out = NULL;
  return dt__status_annotate(
      open_source(runtime, &(dt_pack_source_t){.data = data, .bytes = bytes}, options, out),
      "dt_package_open_memory");
}

uint32_t dt_package_n_functions(const dt_package_t *package) {
  return package ? package->index.n_functions : 0;
}

const char *dt_package_function_name(const dt_package_t *package, uint32_t index) {
  return index < dt_package_n_functions(package) ? package->index.functions[index].name : NULL;
}
