// SPDX-License-Identifier: Apache-2.0
// See image.h: what is outside, and the numbers of images.
#include "backend_llvm/load/image.h"

#include "runtime/base/memory.h"

#include <math.h>
#include <string.h>

#define MOST_BYTES ((uint64_t)1 << 30)

// A sign that is taken from an f64 for an f16, for one: LLVM rounds the f64 to have it.
static _Float16 round_to_half(double x) { return (_Float16)x; }

typedef struct outside_t {
  const char *name;
  uintptr_t address;
} outside_t;

// The n-th; .name NULL: there is none.
static outside_t outside_at(uint32_t n) {
  const outside_t allowed[] = {
      {"memcpy", (uintptr_t)memcpy},
      {"memset", (uintptr_t)memset},
      {"memmove", (uintptr_t)memmove},
      {"fma", (uintptr_t)(double (*)(double, double, double))fma}, // CPUs without the instruction
      {"fmaf", (uintptr_t)(float (*)(float, float, float))fmaf},
      {"__truncdfhf2", (uintptr_t)round_to_half},
  };
  return n < sizeof(allowed) / sizeof(allowed[0]) ? allowed[n] : (outside_t){NULL, 0};
}

uint32_t dt__outside_find(const char *name) {
  for (uint32_t n = 0; outside_at(n).name; n++)
    if (strcmp(outside_at(n).name, name) == 0)
      return n + 1;
  return 0;
}

uintptr_t dt__outside_address(uint32_t outside) { return outside_at(outside - 1).address; }

bool dt__image_fits(const dt_image_t *image) {
  bool good = image->code_bytes > 0 && dt__image_bytes(image) <= MOST_BYTES;
  for (uint32_t i = 0; good && i < image->n_slots; i++) {
    const dt_image_slot_t *slot = &image->slots[i];
    good = slot->at <= image->data_bytes && image->data_bytes - slot->at >= sizeof(uint64_t) &&
           (!slot->outside || outside_at(slot->outside - 1).name);
  }
  for (uint32_t i = 0; good && i < image->n_functions; i++)
    good = image->functions[i].at < image->code_bytes;
  return good;
}

bool dt__image_is_large(const dt_object_t *objects, uint32_t n) {
  size_t bytes = 0;
  for (uint32_t k = 0; k < n; k++)
    bytes += objects[k].bytes;
  return bytes >= DT_IMAGE_LARGE;
}

void dt__image_fini(dt_image_t *image) {
  for (uint32_t i = 0; i < image->n_functions; i++)
    dt__free((char *)(uintptr_t)image->functions[i].name);
  dt__free(image->functions);
  dt__free(image->slots);
  dt__free(image->bytes);
  *image = (dt_image_t){0};
}
