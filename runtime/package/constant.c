// SPDX-License-Identifier: Apache-2.0
// Constants of packages: tensors where their data lie, in the package or in a file that it refers
// to, and traces with them. A small one's sum is looked at when it is made, a large one's before it
// is read for the first time: where forms stand for it, nobody may ever read it.
#include "runtime/package/package.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/store.h"

#include <string.h>

#define SMALL_BYTES DT_PACK_DATA_ALIGN

dt_status_t dt__pack_blame(dt_status_t status) {
  if (dt_status_code(status) != DT_E_INTERNAL)
    return status;
  dt_status_t own =
      DT_FAIL(DT_E_FORMAT, "the package contradicts itself: %s", dt_status_message(status));
  dt_status_free(status);
  return own;
}

// ---- Data -----------------------------------------------------------------------------------------
// What a constant's tensor holds.
typedef struct lazy_t {
  dt_pack_bytes_t *bytes; // a reference
  const void *data;
  size_t n;
  uint64_t sum;
  _Atomic bool sound;
  char *what; // for messages
} lazy_t;

static void drop_lazy(void *opaque) {
  lazy_t *lazy = opaque;
  dt__pack_bytes_release(lazy->bytes);
  dt__free(lazy->what);
  dt__free(lazy);
}

static dt_status_t check_lazy(void *opaque) {
  lazy_t *lazy = opaque;
  if (atomic_load_explicit(&lazy->sound, memory_order_relaxed))
    return NULL;
  if (dt__hash(lazy->data, lazy->n, 0) != lazy->sum)
    return DT_FAIL(DT_E_FORMAT, "%s", lazy->what);
  atomic_store_explicit(&lazy->sound, true, memory_order_relaxed);
  return NULL;
}

static dt_status_t make_tensor(lazy_t *lazy, const dt_pack_constant_t *constant, uint64_t offset,
                               dt_tensor_t **out) {
  const dt_file_place_t place = {.stamp = lazy->bytes->map ? &lazy->bytes->stamp : NULL,
                                 .offset = offset,
                                 .check = check_lazy};
  if (!lazy->what)
    return DT_NO_MEMORY();
  if (lazy->n < SMALL_BYTES)
    DT_TRY(check_lazy(lazy));
  return dt__file_tensor(lazy->data, lazy->n, constant->dtype, constant->rank, constant->sizes,
                         place, drop_lazy, lazy, out);
}

// Of `n` bytes; `what` says what is wrong where the sum is another, and is taken.
static dt_status_t make(dt_pack_bytes_t *bytes, const dt_pack_constant_t *constant,
                        dt_pack_part_t of, char *what, dt_tensor_t **out) {
  lazy_t *lazy = dt__calloc(1, sizeof(*lazy));
  if (!lazy) {
    dt__free(what);
    return DT_NO_MEMORY();
  }
  *lazy = (lazy_t){.bytes = bytes,
                   .data = (const char *)bytes->data + of.offset,
                   .n = (size_t)of.bytes,
                   .sum = of.sum,
                   .what = what};
  dt__pack_bytes_retain(bytes);
  dt_status_t status = make_tensor(lazy, constant, of.offset, out);
  if (status)
    drop_lazy(lazy);
  return status;
}

// ---- Files ----------------------------------------------------------------------------------------
static dt_status_t open_at(const dt_package_t *package, const dt_pack_file_t *file,
                           const char *path, dt_pack_bytes_t **out) {
  const dt_pack_source_t source = {.path = path};
  DT_TRY(dt__pack_bytes_take(&source, package->copy, out));
  size_t bytes = (*out)->bytes;
  if (bytes == file->bytes)
    return NULL;
  dt__pack_bytes_release(*out);
  *out = NULL;
  return DT_FAIL(DT_E_FORMAT,
                 "%s has %zu bytes; expected %llu: it is not the file that the package was written "
                 "with",
                 path, bytes, (unsigned long long)file->bytes);
}

static dt_status_t open_file(const dt_package_t *package, const dt_pack_file_t *file,
                             dt_pack_bytes_t **out) {
  if (!package->folder)
    return DT_FAIL(DT_E_ARGUMENT,
                   "weights are in the file %s beside the package: options->folder says where that "
                   "is, unless it is opened by its path",
                   file->path);
  dt_text_t path;
  dt__text_init(&path);
  dt__text_printf(&path, "%s/%s", package->folder, file->path);
  dt_status_t status = dt__text_status(&path);
  if (!status)
    status = open_at(package, file, dt__text_str(&path), out);
  dt__text_fini(&path);
  return dt__status_annotate(status, "the package's weights");
}

dt_status_t dt__pack_constant_bytes(const dt_pack_constant_t *constant, int64_t *out) {
  dt_layout_t layout;
  DT_TRY(dt__layout_set(&layout, constant->dtype, constant->rank, constant->sizes, NULL));
  *out = layout.high - layout.low;
  return NULL;
}

// ---- Constants ------------------------------------------------------------------------------------
static char *told(const dt_package_t *package, const dt_pack_constant_t *constant) {
  dt_text_t text;
  dt__text_init(&text);
  if (constant->part)
    dt__text_printf(&text, "the sum of constant '%s' is another: the package is damaged",
                    constant->name);
  else
    dt__text_printf(&text,
                    "constant '%s' in %s/%s has another sum: the file is damaged, or not the one "
                    "that the package was written with",
                    constant->name, package->folder, package->index.files[constant->file].path);
  char *own = text.failed ? NULL : dt__strdup(dt__text_str(&text));
  dt__text_fini(&text);
  return own;
}

// The mutex held.
static dt_status_t make_constant(dt_package_t *package, const dt_pack_constant_t *constant,
                                 dt_tensor_t **out) {
  if (constant->part)
    return make(package->bytes, constant, package->parts[constant->part], told(package, constant),
                out);
  int64_t bytes = 0;
  dt_pack_bytes_t **file = &package->files[constant->file];
  if (!*file)
    DT_TRY(open_file(package, &package->index.files[constant->file], file));
  DT_TRY(dt__pack_constant_bytes(constant, &bytes));
  const dt_pack_part_t of = {constant->offset, (uint64_t)bytes, constant->sum};
  return make(*file, constant, of, told(package, constant), out);
}

dt_status_t dt__pack_constant(dt_package_t *package, uint32_t constant, dt_tensor_t **out) {
  dt_status_t status = NULL;
  dt__mutex_lock(&package->mutex);
  if (!package->tensors[constant])
    status =
        make_constant(package, &package->index.constants[constant], &package->tensors[constant]);
  *out = package->tensors[constant];
  dt_tensor_retain(*out);
  dt__mutex_unlock(&package->mutex);
  return status;
}

// ---- Traces ---------------------------------------------------------------------------------------
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
