// SPDX-License-Identifier: Apache-2.0
// Opening packages: the bytes, head and table, the index, each number of which is checked here.
#include "runtime/package/package.h"

#include "runtime/base/file.h"
#include "runtime/base/life.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

// ---- Bytes ----------------------------------------------------------------------------------------
static void release_bytes(void *opaque) {
  dt_pack_bytes_t *bytes = opaque;
  if (!bytes || atomic_fetch_sub_explicit(&bytes->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (bytes->map)
    (void)munmap(bytes->map, bytes->bytes);
  dt__free(bytes->block);
  dt__free(bytes);
}

static dt_status_t map(int fd, dt_pack_bytes_t *out) {
  void *at = dt__sys_map(out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED)
    return DT_FAIL(errno == ENOMEM ? DT_E_NO_MEMORY : DT_E_IO, "cannot map %zu bytes: %s",
                   out->bytes, strerrordesc_np(errno));
  out->map = at;
  out->data = at;
  return NULL;
}

static dt_status_t take_block(dt_pack_bytes_t *out) {
  out->block = dt__alloc_aligned(out->bytes, DT_PACK_ALIGN);
  out->data = out->block;
  return out->block ? NULL
                    : DT_FAIL(DT_E_NO_MEMORY, "no memory for %zu bytes of a package", out->bytes);
}

static dt_status_t take_file(int fd, const struct stat *found, const char *what, bool copy,
                             dt_pack_bytes_t *out) {
  out->bytes = (size_t)found->st_size;
  if (out->bytes < DT_PACK_HEAD_BYTES)
    return DT_FAIL(DT_E_FORMAT, "%zu bytes are no package", out->bytes);
  if (!copy)
    return map(fd, out);
  DT_TRY(take_block(out));
  return dt__file_read(fd, out->block, out->bytes, 0, what);
}

// ---- The index ------------------------------------------------------------------------------------
static bool is_part(const dt_package_t *package, uint32_t part) {
  return part > 0 && part < package->n_parts;
}

static dt_status_t check_constant(const dt_package_t *package, const dt_pack_constant_t *constant) {
  dt_layout_t layout;
  dt_status_t status =
      dt__layout_set(&layout, constant->dtype, constant->rank, constant->sizes, NULL);
  if (!status && (!is_part(package, constant->part) ||
                  (uint64_t)(layout.high - layout.low) != package->parts[constant->part].bytes))
    status = DT_FAIL(DT_E_FORMAT, "constant '%s': its data are not of its sizes", constant->name);
  return status;
}

static dt_status_t check_variant(const dt_package_t *package, const dt_pack_variant_t *variant) {
  const dt_pack_index_t *index = &package->index;
  bool good = is_part(package, variant->traced);
  for (uint32_t k = 0; k < variant->n_constants; k++)
    good = good && variant->constants[k] < index->n_constants;
  for (uint32_t k = 0; k < DT_LEVELS; k++)
    good = good && (index->levels >> k & 1 ? is_part(package, variant->entries[k])
                                           : variant->entries[k] == 0);
  return good ? NULL : DT_FAIL(DT_E_FORMAT, "a variant names parts that there are not");
}

static dt_status_t check_function(const dt_package_t *package, const dt_pack_function_t *function) {
  if (!function->name[0] || !function->n_variants || !function->n_outputs)
    return DT_FAIL(DT_E_FORMAT, "a function without name, results or variants");
  for (uint32_t k = 0; k < function->n_variants; k++)
    DT_TRY(dt__status_annotate(check_variant(package, &function->variants[k]), "function %s",
                               function->name));
  return NULL;
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
  if (!dt__stream_is_done(&s) || !index->levels)
    return DT_FAIL(DT_E_FORMAT, "its index is of another form");
  for (uint32_t k = 0; k < index->n_constants; k++)
    DT_TRY(check_constant(package, &index->constants[k]));
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
  dt__free(package->tensors);
  dt__free(package->parts);
  dt__arena_fini(&package->arena);
  release_bytes(package->bytes);
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
  package->tensors = dt__calloc(package->index.n_constants, sizeof(dt_tensor_t *));
  return package->tensors ? dt__mutex_init(&package->mutex, DT_RANK_MODEL) : DT_NO_MEMORY();
}

// Takes `bytes` also on failure.
static dt_status_t create(dt_runtime_t *runtime, dt_pack_bytes_t *bytes,
                          const dt_package_options_t *options, dt_package_t **out) {
  dt_package_t *package = dt__calloc(1, sizeof(*package));
  if (!package) {
    release_bytes(bytes);
    return DT_NO_MEMORY();
  }
  atomic_init(&package->refs, 1);
  package->runtime = runtime;
  package->bytes = bytes;
  dt__arena_init(&package->arena, 0);
  dt_status_t status = read_package(package, options);
  if (status) {
    package_free(package);
    return status;
  }
  dt_runtime_retain(runtime);
  *out = package;
  return NULL;
}

// Where the bytes come from: a path, a descriptor, or memory.
typedef struct source_t {
  const char *path;
  int fd;
  const void *data;
  size_t bytes;
} source_t;

static dt_status_t take_descriptor(int fd, bool copy, dt_pack_bytes_t *out) {
  struct stat found;
  if (dt__sys_stat(fd, &found) != 0)
    return DT_FAIL(DT_E_IO, "descriptor %d: %s", fd, strerrordesc_np(errno));
  if (!S_ISREG(found.st_mode))
    return DT_FAIL(DT_E_IO, "descriptor %d: not a regular file", fd);
  return take_file(fd, &found, "the package", copy, out);
}

static dt_status_t take_path(const char *path, bool copy, dt_pack_bytes_t *out) {
  struct stat found;
  int fd = -1;
  DT_TRY(dt__file_open(AT_FDCWD, path, &fd, &found));
  dt_status_t status = take_file(fd, &found, path, copy, out);
  (void)dt__sys_close(fd);
  return status;
}

static dt_status_t take_bytes(const source_t *source, bool copy, dt_pack_bytes_t *out) {
  if (source->path)
    return take_path(source->path, copy, out);
  if (!source->data)
    return take_descriptor(source->fd, copy, out);
  out->data = source->data;
  out->bytes = source->bytes;
  if (!copy)
    return NULL;
  DT_TRY(take_block(out));
  memcpy(out->block, source->data, out->bytes);
  return NULL;
}

static dt_status_t open_source(dt_runtime_t *runtime, const source_t *source,
                               const dt_package_options_t *options, dt_package_t **out) {
  dt_package_options_t own;
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  DT_TRY(DT_OPTIONS_TAKE(dt_package_options_t, &own, options));
  dt_pack_bytes_t *bytes = dt__calloc(1, sizeof(*bytes));
  if (!bytes)
    return DT_NO_MEMORY();
  atomic_init(&bytes->refs, 1);
  dt_status_t status = take_bytes(source, own.copy, bytes);
  if (status) {
    release_bytes(bytes);
    return status;
  }
  return create(runtime, bytes, &own, out);
}

dt_status_t dt_package_open(dt_runtime_t *runtime, const char *path,
                            const dt_package_options_t *options, dt_package_t **out) {
  if (!path || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open: %s: NULL", path ? "out" : "path");
  *out = NULL;
  return dt__status_annotate(open_source(runtime, &(source_t){.path = path}, options, out),
                             "dt_package_open: %s", path);
}

dt_status_t dt_package_open_descriptor(dt_runtime_t *runtime, int descriptor,
                                       const dt_package_options_t *options, dt_package_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open_descriptor: out: NULL");
  *out = NULL;
  return dt__status_annotate(open_source(runtime, &(source_t){.fd = descriptor}, options, out),
                             "dt_package_open_descriptor");
}

dt_status_t dt_package_open_memory(dt_runtime_t *runtime, const void *data, size_t bytes,
                                   const dt_package_options_t *options, dt_package_t **out) {
  if (!data || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_package_open_memory: %s: NULL", data ? "out" : "data");
  *out = NULL;
  return dt__status_annotate(
      open_source(runtime, &(source_t){.data = data, .bytes = bytes}, options, out),
      "dt_package_open_memory");
}

uint32_t dt_package_n_functions(const dt_package_t *package) {
  return package ? package->index.n_functions : 0;
}

const char *dt_package_function_name(const dt_package_t *package, uint32_t index) {
  return index < dt_package_n_functions(package) ? package->index.functions[index].name : NULL;
}

// ---- Parts ----------------------------------------------------------------------------------------
static dt_status_t make_constant(const dt_package_t *package, uint32_t which, dt_tensor_t **out) {
  const dt_pack_constant_t *constant = &package->index.constants[which];
  DT_TRY(dt__pack_check(package->bytes->data, &package->parts[constant->part], constant->name));
  const dt_tensor_desc_t desc = {
      .struct_size = sizeof(desc),
      .dtype = constant->dtype,
      .rank = constant->rank,
      .sizes = constant->sizes,
      .data = (void *)(uintptr_t)dt__pack_data(package, constant->part), // nobody writes there
      .release = release_bytes,
      .user = package->bytes};
  DT_TRY(dt_tensor_create(&desc, out));
  (void)atomic_fetch_add_explicit(&package->bytes->refs, 1, memory_order_relaxed);
  return NULL;
}

dt_status_t dt__pack_constant(dt_package_t *package, uint32_t constant, dt_tensor_t **out) {
  dt_status_t status = NULL;
  dt__mutex_lock(&package->mutex);
  if (!package->tensors[constant])
    status = make_constant(package, constant, &package->tensors[constant]);
  *out = package->tensors[constant];
  dt_tensor_retain(*out);
  dt__mutex_unlock(&package->mutex);
  return status;
}

static dt_status_t read_traced(dt_package_t *package, const dt_pack_variant_t *variant,
                               dt_hooks_t *hooks, bool verify, dt_tensor_t **constants,
                               dt_traced_t **out) {
  const dt_pack_part_t *part = &package->parts[variant->traced];
  DT_TRY(dt__pack_check(package->bytes->data, part, "a trace"));
  for (uint32_t k = 0; k < variant->n_constants; k++)
    DT_TRY(dt__pack_constant(package, variant->constants[k], &constants[k]));
  const dt_traced_source_t source = {.constants = constants,
                                     .n_constants = variant->n_constants,
                                     .hooks = hooks,
                                     .verify = verify};
  return dt__traced_read(dt__pack_data(package, variant->traced), (size_t)part->bytes, &source,
                         out);
}

dt_status_t dt__pack_traced(dt_package_t *package, const dt_pack_variant_t *variant,
                            dt_hooks_t *hooks, bool verify, dt_traced_t **out) {
  *out = NULL;
  dt_tensor_t **constants = dt__calloc(variant->n_constants, sizeof(*constants));
  if (!constants)
    return DT_NO_MEMORY();
  dt_status_t status = read_traced(package, variant, hooks, verify, constants, out);
  for (uint32_t k = 0; k < variant->n_constants; k++)
    dt_tensor_release(constants[k]);
  dt__free(constants);
  return status;
}
