// SPDX-License-Identifier: Apache-2.0
// Open packages, as the files of this folder share them.
#ifndef DT_RUNTIME_PACKAGE_PACKAGE_H
#define DT_RUNTIME_PACKAGE_PACKAGE_H

#include "ductile/package.h"

#include "runtime/base/thread.h"
#include "runtime/package/format.h"
#include "runtime/trace/trace.h"

#include <stdatomic.h>

// The bytes of a package: shared with the tensors that lie in them.
typedef struct dt_pack_bytes_t {
  _Atomic uint32_t refs;
  const void *data;
  size_t bytes;
  void *map, *block; // what ends with it: a mapping, or memory; NULL: borrowed
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
  dt_tensor_t **tensors; // of constants: made, and their sums looked at; guarded by the mutex
};

static inline const void *dt__pack_data(const dt_package_t *package, uint32_t part) {
  return (const char *)package->bytes->data + package->parts[part].offset;
}
// constant.c. A constant that the caller has a reference to. DT_E_FORMAT: damaged.
dt_status_t dt__pack_constant(dt_package_t *package, uint32_t constant,
                              dt_tensor_t **out) DT_MUST_USE;
// The trace of a variant, with its constants. The part's sum is looked at. With `verify` the graph
// is, too: of packages that are looked at, and not run.
dt_status_t dt__pack_traced(dt_package_t *package, const dt_pack_variant_t *variant,
                            struct dt_hooks_t *hooks, bool verify, dt_traced_t **out) DT_MUST_USE;
// function.c. Loads all variants for all levels, and runs nothing; for tests.
dt_status_t dt__package_load_all(dt_package_t *package) DT_MUST_USE;
void dt__package_retain(dt_package_t *package);

#endif // DT_RUNTIME_PACKAGE_PACKAGE_H
