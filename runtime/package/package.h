// SPDX-License-Identifier: Apache-2.0
// Open packages, as the files of this folder share them.
#ifndef DT_RUNTIME_PACKAGE_PACKAGE_H
#define DT_RUNTIME_PACKAGE_PACKAGE_H

#include "ductile/package.h"

#include "runtime/base/file_tensor.h"
#include "runtime/base/thread.h"
#include "runtime/package/format.h"
#include "runtime/trace/trace.h"

#include <stdatomic.h>

struct dt_compiled_t;
struct dt_place_t;

// The bytes of a package, or of a file that it refers to: shared with the tensors that lie in them.
typedef struct dt_pack_bytes_t {
  _Atomic uint32_t refs;
  const void *data;
  size_t bytes;
  void *map, *block;     // what ends with it: a mapping, or memory; NULL: borrowed
  dt_file_stamp_t stamp; // of the file that is mapped
  int fd;                // of it, open, where code may be mapped from it; -1: none
} dt_pack_bytes_t;

struct dt_package {
  _Atomic uint32_t refs;
  dt_runtime_t *runtime; // a reference
  dt_pack_bytes_t *bytes;
  dt_arena_t arena; // of the index
  dt_pack_index_t index;
  dt_pack_part_t *parts;
  uint32_t n_parts;
  dt_mutex_t mutex;
  char *folder; // that its files are looked for in; NULL: none is known
  bool copy;    // nothing is mapped
  // Guarded by the mutex: what was made of the index, NULL and false at first.
  dt_tensor_t **tensors;   // of constants
  dt_pack_bytes_t **files; // that it refers to
  bool *sound;             // by form: its sum is right
};

// bytes.c. Where bytes come from: a path, memory, or a descriptor. Mapped or read, copied or
// borrowed; the caller has the only reference.
typedef struct dt_pack_source_t {
  const char *path;
  const void *data;
  size_t bytes;
  int fd;
  bool code; // a file's code is mapped from it
} dt_pack_source_t;
dt_status_t dt__pack_bytes_take(const dt_pack_source_t *source, bool copy,
                                dt_pack_bytes_t **out) DT_MUST_USE;
void dt__pack_bytes_retain(dt_pack_bytes_t *bytes);
void dt__pack_bytes_release(void *bytes); // NULL allowed

static inline const void *dt__pack_data(const dt_package_t *package, uint32_t part) {
  return (const char *)package->bytes->data + package->parts[part].offset;
}
// constant.c. The bytes of its data.
dt_status_t dt__pack_constant_bytes(const dt_pack_constant_t *constant, int64_t *out) DT_MUST_USE;
// A constant that the caller has a reference to. The sum of a large one is looked at
// when it is first read (dt__tensor_check_bytes). DT_E_FORMAT: damaged; DT_E_IO: in a file that is
// not there.
dt_status_t dt__pack_constant(dt_package_t *package, uint32_t constant,
                              dt_tensor_t **out) DT_MUST_USE;
// What a variant has for a level: its entry, loaded with its code at `home`; NULL: nothing is
// loaded on a device. The sums of both are looked at.
dt_status_t dt__pack_compiled(dt_package_t *package, const dt_pack_variant_t *variant,
                              uint32_t level, const struct dt_place_t *home,
                              const dt_traced_t *traced, struct dt_compiled_t **out) DT_MUST_USE;
// The trace of a variant, with its constants. The part's sum is looked at. With `verify` the graph
// is, too: of packages that are looked at, and not run.
dt_status_t dt__pack_traced(dt_package_t *package, const dt_pack_variant_t *variant,
                            struct dt_hooks_t *hooks, bool verify, dt_traced_t **out) DT_MUST_USE;
// form.c. Forms of the package that a function has, so that its bindings find them.
typedef struct dt_pack_offers_t {
  struct dt_pack_offer_t *first;
} dt_pack_offers_t;
// Those of a variant whose code for `level` is `compiled`. On failure what was offered before is
// still offered.
dt_status_t dt__pack_offer(dt_package_t *package, const dt_pack_variant_t *variant, uint32_t level,
                           const struct dt_compiled_t *compiled,
                           dt_pack_offers_t *offers) DT_MUST_USE;
void dt__pack_offers_end(dt_package_t *package, dt_pack_offers_t *offers);
// function.c. Loads all variants for all levels, and runs nothing; for tests. With `home`: those of
// its kind of device on it, too.
dt_status_t dt__package_load_all(dt_package_t *package, const struct dt_place_t *home) DT_MUST_USE;
void dt__package_retain(dt_package_t *package);
// What is a fault of ours in a process that traces is the package's in one that reads: DT_E_FORMAT.
dt_status_t dt__pack_blame(dt_status_t status) DT_MUST_USE;

#endif // DT_RUNTIME_PACKAGE_PACKAGE_H
