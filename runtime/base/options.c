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
  return size ? size : about->least;
}

static uint32_t least_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

static dt_status_t check_size(const char *field, uint32_t size, uint32_t least,
                              const dt_growing_t *about) {
  if (size >= least && size <= MOST_BYTES)
    return NULL;
  return DT_FAIL(DT_E_ARGUMENT, "%s: %u; expected %u, sizeof(%s), and never below %u", field, size,
                 about->known, about->name, least);
}

// What a newer program says beyond what is known here must say nothing.
static dt_status_t check_rest(const char *field, const char *given, uint32_t size,
                              const dt_growing_t *about) {
  for (uint32_t i = about->known; i < size; i++)
    if (given[i] != 0)
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "%s: %u: a field behind byte %u of %s is set that this version does not know",
                     field, size, about->known, about->name);
  return NULL;
}

dt_status_t dt__options_take(void *own, const void *given, const dt_growing_t *about) {
  memset(own, 0, about->known);
  memcpy(own, &about->known, sizeof(about->known));
  if (!given)
    return NULL;
  uint32_t size = size_of(given, about), skip = (uint32_t)sizeof(size);
  DT_TRY(check_size("struct_size", size, about->least, about));
  DT_TRY(check_rest("struct_size", given, size, about));
  memcpy((char *)own + skip, (const char *)given + skip, least_of(size, about->known) - skip);
  return NULL;
}

dt_status_t dt__element_take(void *own, const void *array, uint32_t size, uint32_t index,
                             const dt_growing_t *about) {
  size = size ? size : about->least;
  memset(own, 0, about->known);
  DT_TRY(check_size("the size of an element", size, about->least, about));
  const char *given = (const char *)array + (size_t)size * index;
  DT_TRY(check_rest("the size of an element", given, size, about));
  memcpy(own, given, least_of(size, about->known));
  return NULL;
}

dt_status_t dt__result_check(const void *given, const dt_growing_t *about) {
  uint32_t size = size_of(given, about), least = (uint32_t)sizeof(size);
  return check_size("struct_size", size, least, about);
}

void dt__result_give(void *given, const void *all, const dt_growing_t *about) {
  uint32_t size = size_of(given, about), skip = (uint32_t)sizeof(size);
  uint32_t known = least_of(size, about->known);
  memcpy((char *)given + skip, (const char *)all + skip, known - skip);
  memset((char *)given + known, 0, size - known);
}

dt_status_t dt__element_check(size_t size, const dt_growing_t *about) {
  uint32_t said = size <= MOST_BYTES ? (uint32_t)size : UINT32_MAX;
  return check_size("the size of an element", said, about->least, about);
}

void dt__element_give(void *array, size_t size, uint32_t index, const void *all,
                      const dt_growing_t *about) {
  char *given = (char *)array + size * index;
  size_t known = size < about->known ? size : about->known;
  memcpy(given, all, known);
  memset(given + known, 0, size - known);
}
