// SPDX-License-Identifier: Apache-2.0
// Objects linked into one image, which runs at whatever address it is mapped: from memory or from a
// file. What depends on that address, and on those of outside functions, is filled in when it is
// loaded, in its data.
//
//   [ code: sections that hold no address, stubs of outside functions | data: sections that do, a
//     table of addresses ]
//
// In whole pages both begin a page and end with zeros up to one, so that they can be mapped from a
// file; small images are not worth that, and are copied.
#ifndef DT_BACKEND_LLVM_LOAD_IMAGE_H
#define DT_BACKEND_LLVM_LOAD_IMAGE_H

#include "ductile/base.h"

#define DT_IMAGE_PAGE ((uint32_t)4096)
#define DT_IMAGE_LARGE ((size_t)16384) // bytes of objects from which on pages are worth it

typedef struct dt_object_t {
  void *data;
  size_t bytes;
} dt_object_t;

// Eight bytes of data that become an address.
typedef struct dt_image_slot_t {
  uint32_t at;      // from where the data begin
  uint32_t outside; // 1 + the outside function (dt__outside_find), or 0: the image's first byte
  int64_t plus;     // from there
} dt_image_slot_t;

typedef struct dt_image_function_t {
  const char *name;
  uint32_t at; // in the code
} dt_image_function_t;

typedef struct dt_image_t {
  void *bytes; // code, then data, as they are before they are loaded; at any address
  uint32_t code_bytes, data_bytes;
  uint32_t n_slots, n_functions;
  dt_image_slot_t *slots;
  dt_image_function_t *functions; // that are global; names of their own
} dt_image_t;

static inline size_t dt__image_bytes(const dt_image_t *image) {
  return (size_t)image->code_bytes + image->data_bytes;
}

// Links objects (ELF64 x86-64 relocatable). They may reference nothing outside themselves but what
// the allow-list names; anything else is refused with DT_E_COMPILE naming the symbol, as are
// functions of one name. On failure *out is zero; else all of it is the caller's.
dt_status_t dt__image_link(const dt_object_t *objects, uint32_t n, bool pages,
                           dt_image_t *out) DT_MUST_USE;
// Whether there are so many.
bool dt__image_is_large(const dt_object_t *objects, uint32_t n);
// Whether it is in whole pages.
static inline bool dt__image_has_pages(const dt_image_t *image) {
  return image->code_bytes % DT_IMAGE_PAGE == 0 && image->data_bytes % DT_IMAGE_PAGE == 0;
}
void dt__image_fini(dt_image_t *image);
// Whether all numbers of an image that was read are inside of it.
bool dt__image_fits(const dt_image_t *image);

// What code may call outside itself: what a code generator assumes to exist, and no more. 1 + its
// number; 0: it is none. Images name functions by these numbers, so none may change.
uint32_t dt__outside_find(const char *name);
uintptr_t dt__outside_address(uint32_t outside); // as dt__outside_find gives it

#endif // DT_BACKEND_LLVM_LOAD_IMAGE_H
