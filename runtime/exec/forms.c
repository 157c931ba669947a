// SPDX-License-Identifier: Apache-2.0
// See forms.h. A hash only finds candidates. Contents are compared byte by byte, unless both are at
// the same place in memory or of the same file. All uses of a form have constants of equal
// contents, so that any of them stands for all.
#include "runtime/exec/forms.h"

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/pages.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/exec/runtime.h"

#include <string.h>

struct dt_form_t {
  dt_form_t *next; // of its head
  unsigned char digest[DT_SHA256_BYTES];
  size_t bytes;
  void *data; // of pages.h, but where somebody gets it back:
  void (*give)(void *owner);
  void *owner;
  bool mapped; // it is a file's
  uint32_t n_tensors;
  dt_form_use_t *uses;
  uint32_t n_in_use;
  bool closed;   // it is found no more
  uint64_t hash; // of its constants' contents; 0: not known
};

// ---- Equal contents -------------------------------------------------------------------------------

#define SOME ((size_t)4096) // compared before more is read

typedef enum sameness_t { DIFFERENT, SAME, MAY_BE } sameness_t;

// By what is known without reading more than a little.
static sameness_t compare_tensors(const dt_tensor_t *a, const dt_tensor_t *b) {
  size_t bytes = dt__tensor_bytes(a);
  if (bytes != dt__tensor_bytes(b))
    return DIFFERENT;
  if (a->data == b->data)
    return SAME;
  // A file that was changed in place shows its new bytes in older mappings, too.
  const dt_file_place_t *x = dt__tensor_place(a), *y = dt__tensor_place(b);
  if (x && y && x->stamp->device == y->stamp->device && x->stamp->inode == y->stamp->inode) {
    if (!dt__file_same(x->stamp, y->stamp))
      return DIFFERENT;
    if (x->offset == y->offset)
      return SAME;
  }
  size_t some = bytes < SOME ? bytes : SOME;
  if (memcmp(a->data, b->data, some) != 0)
    return DIFFERENT;
  return some == bytes ? SAME : MAY_BE;
}

static uint64_t hash_of(const dt_forms_t *forms, const dt_form_use_t *use, uint32_t n) {
  uint64_t hash = forms->seed;
  for (uint32_t i = 0; i < n; i++) {
    hash = dt__hash(use->tensors[i]->data, dt__tensor_bytes(use->tensors[i]), hash);
    dt__tensor_let_go(use->tensors[i]);
  }
  return hash ? hash : 1;
}

static bool equal_bytes(const dt_form_use_t *a, const dt_form_use_t *b, uint32_t n) {
  bool equal = true;
  for (uint32_t i = 0; equal && i < n; i++) {
    const dt_tensor_t *x = a->tensors[i], *y = b->tensors[i];
    equal = x->data == y->data || memcmp(x->data, y->data, dt__tensor_bytes(x)) == 0;
    dt__tensor_let_go(x);
    dt__tensor_let_go(y);
  }
  return equal;
}

// *own_hash: that of `use`, once it was needed; 0 before.
static bool fits(const dt_forms_t *forms, dt_form_t *form, const dt_form_use_t *use,
                 uint64_t *own_hash) {
  const dt_form_use_t *other = form->uses;
  sameness_t all = SAME;
  for (uint32_t i = 0; i < form->n_tensors && all != DIFFERENT; i++) {
    sameness_t one = compare_tensors(other->tensors[i], use->tensors[i]);
    all = one == SAME ? all : one;
  }
  if (all != MAY_BE)
    return all == SAME;
  // So that many with a long beginning in common are read once each, not once for each other.
  if (!form->hash)
    form->hash = hash_of(forms, other, form->n_tensors);
  if (!*own_hash)
    *own_hash = hash_of(forms, use, form->n_tensors);
  return form->hash == *own_hash && equal_bytes(other, use, form->n_tensors);
}

// ---- Finding and making ---------------------------------------------------------------------------

static dt_form_t **head_of(dt_forms_t *forms, const unsigned char *digest) {
  return &forms->heads[digest[0] % DT_FORM_HEADS];
}

static void attach(dt_form_t *form, dt_form_use_t *use) {
  use->form = form;
  use->next = form->uses;
  form->uses = use;
}

// Mutex held.
static dt_form_t *find(dt_forms_t *forms, const dt_once_buffer_t *buffer, const dt_form_use_t *use,
                       uint64_t *out_hash) {
  for (dt_form_t *form = *head_of(forms, buffer->digest); buffer->shared && form; form = form->next)
    if (!form->closed && form->bytes == (size_t)buffer->bytes &&
        form->n_tensors == buffer->n_constants &&
        memcmp(form->digest, buffer->digest, sizeof(form->digest)) == 0 &&
        fits(forms, form, use, out_hash))
      return form;
  return NULL;
}

bool dt__form_find(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                   void **out_data) {
  uint64_t hash = 0;
  dt__mutex_lock(&forms->mutex);
  dt_form_t *form = find(forms, buffer, use, &hash);
  if (form) {
    attach(form, use);
    *out_data = form->data;
  }
  dt__mutex_unlock(&forms->mutex);
  return form != NULL;
}

static void form_free(const dt_forms_t *forms, dt_form_t *form) {
  if (form && form->give)
    form->give(form->owner);
  else if (form)
    dt__pages_give(forms->from, form->data, form->bytes);
  dt__free(form);
}

static dt_form_t *form_new(const dt_once_buffer_t *buffer, const void *data) {
  dt_form_t *made = dt__alloc(sizeof(*made));
  if (!made)
    return NULL;
  *made = (dt_form_t){.bytes = (size_t)buffer->bytes,
                      .data = (void *)(uintptr_t)data,
                      .n_tensors = buffer->n_constants,
                      .closed = !buffer->shared};
  memcpy(made->digest, buffer->digest, sizeof(made->digest));
  return made;
}

// Of `made`, or of an equal one that is there; then `made` goes.
static void add(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                dt_form_t *made, void **out_data) {
  dt__mutex_lock(&forms->mutex);
  dt_form_t *form = find(forms, buffer, use, &made->hash);
  if (!form) {
    dt_form_t **head = head_of(forms, buffer->digest);
    form = made;
    form->next = *head;
    *head = form;
    made = NULL;
  }
  attach(form, use);
  *out_data = form->data;
  dt__mutex_unlock(&forms->mutex);
  form_free(forms, made);
}

dt_status_t dt__form_add(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                         void **data) {
  dt_form_t *made = form_new(buffer, *data);
  if (!made)
    return DT_NO_MEMORY();
  add(forms, buffer, use, made, data);
  return NULL;
}

dt_status_t dt__form_offer(dt_forms_t *forms, const dt_once_buffer_t *buffer, dt_form_use_t *use,
                           const dt_form_bytes_t *bytes, void **out_data) {
  dt_form_t *made = form_new(buffer, bytes->data);
  if (!made)
    return DT_NO_MEMORY();
  made->mapped = bytes->mapped;
  made->give = bytes->give;
  made->owner = bytes->owner;
  add(forms, buffer, use, made, out_data);
  return NULL;
}

// ---- Use ------------------------------------------------------------------------------------------

// Whether other bindings of the function that are in use have the form.
static bool function_has(const dt_form_use_t *use) {
  for (const dt_form_use_t *other = use->form->uses; other; other = other->next)
    if (other != use && other->in_use && other->function == use->function)
      return true;
  return false;
}

// Mutex held.
static void set_use(dt_forms_t *forms, dt_form_use_t *use, bool in_use, uint64_t *all,
                    uint64_t *own) {
  dt_form_t *form = use->form;
  if (!form || use->in_use == in_use)
    return;
  use->in_use = in_use;
  uint32_t others = in_use ? form->n_in_use++ : --form->n_in_use;
  if (form->mapped) {
    uint64_t bytes = others ? 0 : form->bytes;
    forms->mapped_bytes = in_use ? forms->mapped_bytes + bytes : forms->mapped_bytes - bytes;
    return;
  }
  *own += function_has(use) ? 0 : form->bytes;
  uint64_t *count = others ? &forms->shared_bytes : &forms->bytes;
  *count = in_use ? *count + form->bytes : *count - form->bytes;
  *all += others ? 0 : form->bytes;
}

static uint64_t set_all(dt_forms_t *forms, dt_form_use_t *uses, uint32_t n, bool in_use,
                        uint64_t *out_own) {
  uint64_t all = 0;
  *out_own = 0;
  dt__mutex_lock(&forms->mutex);
  for (uint32_t k = 0; uses && k < n; k++)
    set_use(forms, &uses[k], in_use, &all, out_own);
  dt__mutex_unlock(&forms->mutex);
  return all;
}

uint64_t dt__forms_come(dt_forms_t *forms, dt_form_use_t *uses, uint32_t n, uint64_t *out_own) {
  return set_all(forms, uses, n, true, out_own);
}

uint64_t dt__forms_go(dt_forms_t *forms, dt_form_use_t *uses, uint32_t n, uint64_t *out_own) {
  return set_all(forms, uses, n, false, out_own);
}

// Mutex held.
static void unlink_form(dt_forms_t *forms, const dt_form_t *form) {
  dt_form_t **at = head_of(forms, form->digest);
  while (*at != form)
    at = &(*at)->next;
  *at = form->next;
}

void dt__form_leave(dt_forms_t *forms, dt_form_use_t *use) {
  dt_form_t *form = use->form;
  uint64_t all = 0, own = 0;
  if (!form)
    return;
  dt__mutex_lock(&forms->mutex);
  set_use(forms, use, false, &all, &own);
  dt_form_use_t **at = &form->uses;
  while (*at != use)
    at = &(*at)->next;
  *at = use->next;
  use->form = NULL;
  bool last = !form->uses;
  if (last)
    unlink_form(forms, form);
  dt__mutex_unlock(&forms->mutex);
  if (last)
    form_free(forms, form);
}

static bool has_tensor(const dt_form_t *form, const dt_tensor_t *tensor) {
  for (const dt_form_use_t *use = form->uses; use; use = use->next)
    for (uint32_t i = 0; i < form->n_tensors; i++)
      if (use->tensors[i]->data == tensor->data)
        return true;
  return false;
}

void dt__forms_close(dt_forms_t *forms, const dt_tensor_t *tensor) {
  dt__mutex_lock(&forms->mutex);
  for (uint32_t k = 0; k < DT_FORM_HEADS; k++)
    for (dt_form_t *form = forms->heads[k]; form; form = form->next)
      form->closed = form->closed || has_tensor(form, tensor);
  dt__mutex_unlock(&forms->mutex);
}

// ---- All ------------------------------------------------------------------------------------------

dt_forms_count_t dt__forms_count(dt_forms_t *forms) {
  dt__mutex_lock(&forms->mutex);
  const dt_forms_count_t count = {forms->bytes, forms->shared_bytes, forms->mapped_bytes};
  dt__mutex_unlock(&forms->mutex);
  return count;
}

static uint64_t held(const dt_holder_t *holder, dt_memory_t memory) {
  dt_forms_t *forms = (dt_forms_t *)((uintptr_t)holder - offsetof(dt_forms_t, holder));
  return memory == DT_MEMORY_HOST ? dt__forms_count(forms).bytes : 0;
}

static uint64_t never(dt_holder_t *holder, dt_memory_t memory) {
  (void)holder, (void)memory;
  return UINT64_MAX;
}

static uint64_t nothing(dt_holder_t *holder, dt_memory_t memory) {
  (void)holder, (void)memory;
  return 0;
}

static const dt_holder_kind_t forms_holder = {held, never, nothing};

dt_status_t dt__forms_begin(dt_runtime_t *runtime) {
  dt_forms_t *forms = &runtime->forms;
  DT_TRY(dt__mutex_init(&forms->mutex, DT_RANK_FORMS));
  forms->ready = true;
  forms->from = dt__runtime_memory(runtime);
  if (!dt__sys_random(&forms->seed, sizeof(forms->seed)))
    forms->seed = dt__hash_mix((uint64_t)dt__now_ns(), (uint64_t)(uintptr_t)runtime);
  dt__budget_join(&runtime->budget, &forms->holder, &forms_holder);
  return NULL;
}

void dt__forms_end(dt_runtime_t *runtime) {
  dt_forms_t *forms = &runtime->forms;
  dt__budget_leave(&runtime->budget, &forms->holder);
  if (forms->ready)
    dt__mutex_fini(&forms->mutex);
}
