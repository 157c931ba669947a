// SPDX-License-Identifier: Apache-2.0
// How public structs grow. A program may be older or newer than the library it runs with: options
// are copied into a zeroed struct of ours, which is all that is read from then on, and results are
// never written beyond the caller's size. Each such struct begins with `uint32_t struct_size` and
// is a row of structs.def.
#ifndef DT_RUNTIME_BASE_OPTIONS_H
#define DT_RUNTIME_BASE_OPTIONS_H

#include "ductile/base.h"

enum {
#define GROWS(type, least) DT_LEAST_##type = (least),
#define ELEMENT(type, least) DT_LEAST_##type = (least),
#include "runtime/base/structs.def"
};

typedef struct dt_growing_t {
  const char *name;
  uint32_t least; // bytes of the first header that had it
  uint32_t known; // bytes in this library
} dt_growing_t;

#define DT_GROWING(type) (&(const dt_growing_t){#type, DT_LEAST_##type, (uint32_t)sizeof(type)})

// own = what `given` says, zero where it ends; all zero for NULL. A struct_size of 0 is the least.
// own->struct_size is then the size known here. DT_E_ARGUMENT for less than the least size or an
// absurd one, DT_E_UNSUPPORTED where a newer program sets a field that is not known here.
#define DT_OPTIONS_TAKE(type, own, given)                                                          \
  dt__options_take(1 ? (own) : (type *)0, 1 ? (given) : (const type *)0, DT_GROWING(type))
dt_status_t dt__options_take(void *own, const void *given, const dt_growing_t *about) DT_MUST_USE;

// The same of element `index` of an array whose elements are `size` bytes apart; 0: the least size.
// An element may be larger than what is known here where the rest of it is zero.
#define DT_ELEMENT_TAKE(type, own, array, size, index)                                             \
  dt__element_take(1 ? (own) : (type *)0, 1 ? (array) : (const type *)0, size, index,              \
                   DT_GROWING(type))
dt_status_t dt__element_take(void *own, const void *array, uint32_t size, uint32_t index,
                             const dt_growing_t *about) DT_MUST_USE;

// Whether the caller's struct can be told to: DT_E_ARGUMENT for a size that holds nothing.
#define DT_RESULT_CHECK(type, given) dt__result_check(1 ? (given) : (type *)0, DT_GROWING(type))
dt_status_t dt__result_check(const void *given, const dt_growing_t *about) DT_MUST_USE;

// Copies as much of `all` as the caller's struct has room for, zero where it knows more; its
// struct_size stays. After dt__result_check.
#define DT_RESULT_GIVE(type, given, all)                                                           \
  dt__result_give(1 ? (given) : (type *)0, 1 ? (all) : (const type *)0, DT_GROWING(type))
void dt__result_give(void *given, const void *all, const dt_growing_t *about);

// The same of results in an array whose elements are `size` bytes apart, which is said beside it:
// DT_E_ARGUMENT for less than the least size or an absurd one.
#define DT_ELEMENT_CHECK(type, size) dt__element_check(size, DT_GROWING(type))
dt_status_t dt__element_check(size_t size, const dt_growing_t *about) DT_MUST_USE;
#define DT_ELEMENT_GIVE(type, array, size, index, all)                                             \
  dt__element_give(1 ? (array) : (type *)0, size, index, 1 ? (all) : (const type *)0,              \
                   DT_GROWING(type))
void dt__element_give(void *array, size_t size, uint32_t index, const void *all,
                      const dt_growing_t *about);

#endif // DT_RUNTIME_BASE_OPTIONS_H
