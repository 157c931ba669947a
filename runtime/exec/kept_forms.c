// SPDX-License-Identifier: Apache-2.0
// See kept_forms.h. A key is the build of the library, the recipe, and of each constant the file's
// stamp and the place in it. A file that was written to just now may be written to again within the
// same tick of its clock, so it is left alone for a while.
#include "runtime/exec/kept_forms.h"

#include "runtime/base/build.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/memory.h"

#include <sys/mman.h>
#include <time.h>

#define LEAST_BYTES ((int64_t)64 << 10)
#define SETTLED_SECONDS 2

void dt__kept_forms_begin(dt_kept_forms_t *kept, dt_forms_t *forms, dt_disk_cache_t *cache) {
  static const char here;
  bool shared = false;
  *kept = (dt_kept_forms_t){.forms = forms, .cache = cache};
  dt__text_init(&kept->build);
  if (cache)
    dt__build_put(&here, &kept->build, &shared);
  if (kept->build.failed)
    kept->cache = NULL;
}

void dt__kept_forms_end(dt_kept_forms_t *kept) { dt__text_fini(&kept->build); }

static bool is_settled(const dt_file_stamp_t *stamp) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0)
    return false;
  return stamp->changed[0] + SETTLED_SECONDS < now.tv_sec &&
         stamp->modified[0] + SETTLED_SECONDS < now.tv_sec;
}

bool dt__kept_form_is(const dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                      const dt_form_use_t *use) {
  bool good = kept->cache && buffer->kept && buffer->shared && buffer->bytes >= LEAST_BYTES &&
              buffer->n_constants > 0;
  for (uint32_t i = 0; good && i < buffer->n_constants; i++) {
    const dt_file_place_t *place = dt__tensor_place(use->tensors[i]);
    good = place && is_settled(place->stamp);
  }
  return good;
}

static void put_place(const dt_tensor_t *tensor, dt_text_t *out) {
  const dt_file_place_t *place = dt__tensor_place(tensor);
  const dt_file_stamp_t *stamp = place->stamp;
  dt__text_printf(out, "%llx %llx %llu %lld.%09lld %lld.%09lld at %llu %llu\n",
                  (unsigned long long)stamp->device, (unsigned long long)stamp->inode,
                  (unsigned long long)stamp->bytes, (long long)stamp->modified[0],
                  (long long)stamp->modified[1], (long long)stamp->changed[0],
                  (long long)stamp->changed[1], (unsigned long long)place->offset,
                  (unsigned long long)dt__tensor_bytes(tensor));
}

static void put_key(const dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                    const dt_form_use_t *use, dt_text_t *out) {
  dt__text_printf(out, "form of weights, build %s\n%lld bytes, recipe ", dt__text_str(&kept->build),
                  (long long)buffer->bytes);
  for (size_t k = 0; k < sizeof(buffer->digest); k++)
    dt__text_printf(out, "%02x", buffer->digest[k]);
  dt__text_put(out, "\n");
  for (uint32_t i = 0; i < buffer->n_constants; i++)
    put_place(use->tensors[i], out);
}

// What a form that was found holds.
static void give(void *opaque) {
  dt_disk_map_t *map = opaque;
  dt__disk_cache_unmap(map);
  dt__free(map);
}

static bool find(dt_kept_forms_t *kept, const dt_text_t *key, size_t bytes, dt_form_bytes_t *out) {
  dt_disk_map_t *map = dt__alloc(sizeof(*map));
  if (!map)
    return false;
  if (!dt__disk_cache_map(kept->cache, "form", key, bytes, map)) {
    dt__free(map);
    return false;
  }
  kept->bytes += bytes;
  *out = (dt_form_bytes_t){.data = map->data, .mapped = true, .give = give, .owner = map};
  return true;
}

bool dt__kept_form_find(dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                        const dt_form_use_t *use, dt_form_bytes_t *out) {
  dt_text_t key;
  dt__text_init(&key);
  put_key(kept, buffer, use, &key);
  bool found = find(kept, &key, (size_t)buffer->bytes, out);
  dt__text_fini(&key);
  return found;
}

bool dt__kept_form_keep(dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                        const dt_form_use_t *use, const void *data, dt_form_bytes_t *out) {
  dt_text_t key;
  dt__text_init(&key);
  put_key(kept, buffer, use, &key);
  size_t bytes = (size_t)buffer->bytes;
  uint64_t others = dt__forms_count(kept->forms).mapped + kept->bytes;
  bool found = dt__disk_cache_keep_pages(kept->cache, "form", &key, data, bytes, others) &&
               find(kept, &key, bytes, out);
  dt__text_fini(&key);
  return found;
}
