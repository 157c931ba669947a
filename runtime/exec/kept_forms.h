// SPDX-License-Identifier: Apache-2.0
// Forms in the folder of kept code (docs/kept-code.md): a file each, which is mapped, so that
// processes share it. Kept are large ones of constants in mapped files, which are known by where
// they lie in which file.
#ifndef DT_RUNTIME_EXEC_KEPT_FORMS_H
#define DT_RUNTIME_EXEC_KEPT_FORMS_H

#include "runtime/base/text.h"
#include "runtime/exec/forms.h"

struct dt_disk_cache_t;

// While bindings are made.
typedef struct dt_kept_forms_t {
  dt_forms_t *forms;
  struct dt_disk_cache_t *cache; // NULL: nothing is kept
  dt_text_t build;               // of the library
  uint64_t bytes;                // of forms that were found and kept
} dt_kept_forms_t;
void dt__kept_forms_begin(dt_kept_forms_t *kept, dt_forms_t *forms, struct dt_disk_cache_t *cache);
void dt__kept_forms_end(dt_kept_forms_t *kept);

// Whether a form of `buffer` over use->tensors is one that is kept.
bool dt__kept_form_is(const dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                      const dt_form_use_t *use);
// Of such a form: finds it, or keeps `data` and then maps it. False: it is not there.
bool dt__kept_form_find(dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                        const dt_form_use_t *use, dt_form_bytes_t *out);
bool dt__kept_form_keep(dt_kept_forms_t *kept, const dt_once_buffer_t *buffer,
                        const dt_form_use_t *use, const void *data, dt_form_bytes_t *out);

#endif // DT_RUNTIME_EXEC_KEPT_FORMS_H
