// SPDX-License-Identifier: Apache-2.0
// Forms of packages: what a level's code computes from constants alone lies in the file, and is
// used from there (runtime/exec/forms.h), so that processes share it.
#include "runtime/package/package.h"

#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/runtime.h"

#include <string.h>

// One form that a function has, as long as it lives.
typedef struct dt_pack_offer_t {
  struct dt_pack_offer_t *next;
  uint32_t form; // in the index
  dt_form_use_t use;
  dt_tensor_t *tensors[]; // that the use names: references
} dt_pack_offer_t;

static void offer_free(dt_pack_offer_t *offer, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    dt_tensor_release(offer->tensors[i]);
  dt__free(offer);
}

void dt__pack_offers_end(dt_package_t *package, dt_pack_offers_t *offers) {
  while (offers->first) {
    dt_pack_offer_t *offer = offers->first;
    offers->first = offer->next;
    dt__form_leave(&package->runtime->forms, &offer->use);
    offer_free(offer, package->index.forms[offer->form].n_constants);
  }
}

static dt_status_t check_sum(dt_package_t *package, uint32_t form) {
  dt_status_t status = NULL;
  dt__mutex_lock(&package->mutex);
  if (!package->sound[form])
    status = dt__pack_check(package->bytes->data, &package->parts[package->index.forms[form].part],
                            "what was computed from constants");
  package->sound[form] = !status;
  dt__mutex_unlock(&package->mutex);
  return status;
}

// Whether the form is that of the buffer, computed from the variant's constants.
static bool fits(const dt_package_t *package, const dt_pack_variant_t *variant,
                 const dt_once_plan_t *plan, const dt_once_buffer_t *buffer,
                 const dt_pack_form_t *form) {
  const dt_pack_constant_t *constants = package->index.constants;
  bool good = buffer->shared && buffer->kept && form->n_constants == buffer->n_constants &&
              package->parts[form->part].bytes == (uint64_t)buffer->bytes &&
              memcmp(form->digest, buffer->digest, sizeof(form->digest)) == 0;
  for (uint32_t i = 0; good && i < form->n_constants; i++) {
    uint32_t own = plan->numbers[buffer->first + i];
    good = own < variant->n_constants &&
           dt__pack_same(&constants[form->constants[i]], &constants[variant->constants[own]]);
  }
  return good;
}

static dt_status_t offer_form(dt_package_t *package, uint32_t which, const dt_once_buffer_t *buffer,
                              dt_pack_offer_t *offer) {
  const dt_pack_form_t *form = &package->index.forms[which];
  offer->form = which;
  offer->use = (dt_form_use_t){.function = package, .tensors = offer->tensors};
  for (uint32_t i = 0; i < form->n_constants; i++)
    DT_TRY(dt__pack_constant(package, form->constants[i], &offer->tensors[i]));
  DT_TRY(check_sum(package, which));
  const dt_form_bytes_t bytes = {.data = dt__pack_data(package, form->part),
                                 .mapped = package->bytes->map != NULL,
                                 .give = dt__pack_bytes_release,
                                 .owner = package->bytes};
  dt__pack_bytes_retain(package->bytes);
  void *data = NULL;
  dt_status_t status = dt__form_offer(&package->runtime->forms, buffer, &offer->use, &bytes, &data);
  if (status)
    dt__pack_bytes_release(package->bytes);
  return status;
}

static bool is_offered(const dt_pack_offers_t *offers, uint32_t form) {
  const dt_pack_offer_t *offer = offers->first;
  while (offer && offer->form != form)
    offer = offer->next;
  return offer != NULL;
}

static dt_status_t offer(dt_package_t *package, uint32_t form, const dt_once_buffer_t *buffer,
                         dt_pack_offers_t *offers) {
  if (is_offered(offers, form))
    return NULL;
  uint32_t n = package->index.forms[form].n_constants;
  dt_pack_offer_t *own = dt__calloc(1, sizeof(*own) + n * sizeof(own->tensors[0]));
  if (!own)
    return DT_NO_MEMORY();
  dt_status_t status = offer_form(package, form, buffer, own);
  if (status) {
    offer_free(own, n);
    return status;
  }
  own->next = offers->first;
  offers->first = own;
  return NULL;
}

dt_status_t dt__pack_offer(dt_package_t *package, const dt_pack_variant_t *variant, uint32_t level,
                           const dt_compiled_t *compiled, dt_pack_offers_t *offers) {
  const dt_pack_code_t *own = &variant->codes[level];
  const dt_once_plan_t *plan = &compiled->once_plan;
  if (own->n_forms && own->n_forms != plan->n_buffers)
    return DT_FAIL(DT_E_FORMAT, "forms are not of the code that has them");
  for (uint32_t b = 0; b < own->n_forms; b++) {
    if (!own->forms[b])
      continue;
    uint32_t form = own->forms[b] - 1;
    if (!fits(package, variant, plan, &plan->buffers[b], &package->index.forms[form]))
      return DT_FAIL(DT_E_FORMAT, "a form is of other code, or of other constants");
    DT_TRY(offer(package, form, &plan->buffers[b], offers));
  }
  return NULL;
}
