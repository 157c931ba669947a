// SPDX-License-Identifier: Apache-2.0
// The folder of compiled code, for whoever keeps house: see ductile/experimental.h.
#include "ductile/experimental.h"

#include "runtime/base/disk_list.h"
#include "runtime/base/params.h"
#include "runtime/base/status.h"

#include <string.h>

// The folder that is meant; *params, which it may point into, is the caller's.
static dt_status_t find_folder(const char *folder, dt_params_t *params, const char **out) {
  *out = folder;
  if (folder)
    return NULL;
  DT_TRY(dt__params_load(params));
  *out = params->cache_dir;
  if (!params->cache_dir[0])
    return DT_FAIL(DT_E_STATE, "no code is kept: DUCTILE_CACHE_DIR is empty, or there is no home "
                               "folder; name a folder");
  return NULL;
}

typedef struct visit_t {
  dt_cache_visit_fn_t visit;
  void *closure;
} visit_t;

// The first two lines of a key: version and build, and the device. Others are one line without
// these.
static void put_of(const dt_disk_item_t *item, dt_text_t *out) {
  const char *at = item->key, *end = at + item->key_bytes;
  for (int line = 0; line < 2 && at < end; line++) {
    const char *next = memchr(at, '\n', (size_t)(end - at));
    if (!next)
      return;
    dt__text_put(out, line ? ", " : "");
    dt__text_write(out, at, (size_t)(next - at));
    at = next + 1;
  }
}

static void visit_item(void *user, const dt_disk_item_t *item) {
  const visit_t *own = user;
  dt_text_t of;
  dt__text_init(&of);
  put_of(item, &of);
  dt_cache_entry_t entry = {.name = item->name,
                            .kind = item->kind,
                            .of = of.failed ? "" : dt__text_str(&of),
                            .bytes = item->bytes,
                            .used_ns = item->used_ns,
                            .sound = item->sound};
  own->visit(own->closure, &entry);
  dt__text_fini(&of);
}

dt_status_t dt_cache_visit(const char *folder, dt_cache_visit_fn_t visit, void *closure) {
  dt_params_t params;
  visit_t own = {visit, closure};
  if (!visit)
    return DT_FAIL(DT_E_ARGUMENT, "dt_cache_visit: visit: NULL");
  DT_TRY(dt__status_annotate(find_folder(folder, &params, &folder), "dt_cache_visit"));
  return dt__status_annotate(dt__disk_list(folder, visit_item, &own), "dt_cache_visit");
}

dt_status_t dt_cache_clean(const char *folder, uint64_t most_bytes, uint64_t *out_bytes) {
  dt_params_t params;
  uint64_t bytes = 0;
  DT_TRY(dt__status_annotate(find_folder(folder, &params, &folder), "dt_cache_clean"));
  dt_status_t status = dt__disk_clean(folder, most_bytes, &bytes);
  if (out_bytes)
    *out_bytes = bytes;
  return dt__status_annotate(status, "dt_cache_clean");
}

dt_status_t dt_cache_drop(const char *folder, const char *kind, uint64_t *out_bytes) {
  dt_params_t params;
  uint64_t bytes = 0;
  if (!kind)
    return DT_FAIL(DT_E_ARGUMENT, "dt_cache_drop: kind: NULL");
  DT_TRY(dt__status_annotate(find_folder(folder, &params, &folder), "dt_cache_drop"));
  dt_status_t status = dt__disk_drop(folder, kind, &bytes);
  if (out_bytes)
    *out_bytes = bytes;
  return dt__status_annotate(status, "dt_cache_drop");
}
