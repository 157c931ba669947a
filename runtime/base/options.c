// SPDX-License-Identifier: Apache-2.0
// Sizes of public structs: taking options of any age, giving results to callers of any age.
#include "runtime/base/options.h"

#include "runtime/base/status.h"

#include <string.h>

// Longer than any struct will be, so that a garbage size is not read or written to its end.
#define MOST_BYTES 4096

static uint32_t size_of(const void *given, const dt_growing_t *about) {
  uint32_t size = 0;
  memcpy(&size, given, sizeof(size));
  return size ? size : about->known;
}

static uint32_t least_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

static dt_status_t wrong_size(uint32_t size, uint32_t least, const dt_growing_t *about) {
  return DT_FAIL(DT_E_ARGUMENT, "struct_size: %u; expected %u, sizeof(%s), and never below %u",
                 size, about->known, about->name, least);
}

dt_status_t dt__options_take(void *own, const void *given, const dt_growing_t *about) {
  memset(own, 0, about->known);
  memcpy(own, &about->known, sizeof(about->known));
  if (!given)
    return NULL;
  uint32_t size = size_of(given, about);
  if (size < about->least || size > MOST_BYTES)
    return wrong_size(size, about->least, about);
  for (uint32_t i = about->known; i < size; i++) {
    if (((const char *)given)[i] != 0)
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "struct_size: %u: a field behind byte %u of %s is set that this version does "
                     "not know",
                     size, about->known, about->name);
  }
  uint32_t skip = (uint32_t)sizeof(about->known);
  memcpy((char *)own + skip, (const char *)given + skip, least_of(size, about->known) - skip);
  return NULL;
}

dt_status_t dt__result_check(const void *given, const dt_growing_t *about) {
  uint32_t size = size_of(given, about), least = (uint32_t)sizeof(size);
  return size < least || size > MOST_BYTES ? wrong_size(size, least, about) : NULL;
}

void dt__result_give(void *given, const void *all, const dt_growing_t *about) {
  uint32_t size = size_of(given, about), skip = (uint32_t)sizeof(size);
  uint32_t known = least_of(size, about->known);
  memcpy((char *)given + skip, (const char *)all + skip, known - skip);
  memset((char *)given + known, 0, size - known);
}

dt_status_t dt__options_no_next(const void *next) {
  return next ? DT_FAIL(DT_E_UNSUPPORTED, "next: expected NULL; this version knows no extension")
              : NULL;
}
