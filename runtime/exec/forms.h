// SPDX-License-Identifier: Apache-2.0
// Forms of constants: what variants on the host compute from constants alone (packed operands of
// matrix products and convolutions, transposes, weights that are decoded once). A form is held once
// for all bindings, of whatever variants and functions, that have the same recipe over constants of
// the same contents. It ends with the last of them. An update makes other bindings, and with that
// its function leaves the form, as others stay.
#ifndef DT_RUNTIME_EXEC_FORMS_H
#define DT_RUNTIME_EXEC_FORMS_H

#include "runtime/base/thread.h"
#include "runtime/compile/once.h"
#include "runtime/exec/budget.h"
#include "runtime/tensor/tensor.h"

struct dt_runtime;

typedef struct dt_form_t dt_form_t;

// That one buffer of one binding is a form. Guarded by the forms' mutex.
typedef struct dt_form_use_t {
  dt_form_t *form;            // NULL: none
  struct dt_form_use_t *next; // of the form's
  const void *function;       // whose the bindings are
  dt_tensor_t **tensors;      // as many as the form is computed from; retained by the bindings
  bool in_use;                // the bindings are
} dt_form_use_t;

#define DT_FORM_HEADS 256
typedef struct dt_forms_t {
  dt_mutex_t mutex;
  bool ready;
  const dt_allocator_t *from;      // whose memory they are (pages.h)
  dt_form_t *heads[DT_FORM_HEADS]; // by digest
  uint64_t seed;
  uint64_t bytes, shared_bytes; // of forms in use; what more they would be if none was shared
  uint64_t mapped_bytes;        // of forms in use that lie in files
  dt_holder_t holder;           // of them: forms go with the variants that have them
} dt_forms_t;

dt_status_t dt__forms_begin(struct dt_runtime *runtime) DT_MUST_USE;
void dt__forms_end(struct dt_runtime *runtime); // no uses are left; also where the beginning failed

// Looks for a form of `buffer` over use->tensors; true: it is use->form from now on, and *out_data
// are its bytes.
bool dt__form_find(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                   void **out_data);
// Makes a form of `*data`, of pages.h, which is consumed but on failure. If there is an equal one
// by now, it is that, and *data are its bytes. DT_E_NO_MEMORY.
dt_status_t dt__form_add(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                         void **data) DT_MUST_USE;
// Bytes that are a form and were made elsewhere: of `buffer`, over use->tensors. They are found as
// long as somebody has the use, which is not in use, and stay until the last that found them
// leaves: then `give` gets their owner. `mapped`: they are a file's, and nothing that the runtime
// holds. If there is an equal form by now, it is that. *out_data are its bytes. On failure nothing
// was taken. DT_E_NO_MEMORY.
typedef struct dt_form_bytes_t {
  const void *data;
  bool mapped;
  void (*give)(void *owner);
  void *owner;
} dt_form_bytes_t;
dt_status_t dt__form_offer(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                           const dt_form_bytes_t *bytes, void **out_data) DT_MUST_USE;
void dt__form_leave(dt_forms_t *forms, dt_form_use_t *use); // also one without a form
// The contents of a tensor may be others from now on: forms of it are found no more.
void dt__forms_close(dt_forms_t *forms, const dt_tensor_t *tensor);

// The uses come in use, or go out of it. The bytes by which that changes what the runtime holds are
// returned; *out_own: what it changes of the function's alone, which counts a form once.
uint64_t dt__forms_come(dt_forms_t *forms, dt_form_use_t *uses, uint32_t n, uint64_t *out_own);
uint64_t dt__forms_go(dt_forms_t *forms, dt_form_use_t *uses, uint32_t n, uint64_t *out_own);

// Bytes of forms in use, and how many more they were if each binding had its own.
typedef struct dt_forms_count_t {
  uint64_t bytes, shared, mapped;
} dt_forms_count_t;
dt_forms_count_t dt__forms_count(dt_forms_t *forms);

#endif // DT_RUNTIME_EXEC_FORMS_H
