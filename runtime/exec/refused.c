// SPDX-License-Identifier: Apache-2.0
// See refused.h. A small table, overwritten in turn.
#include "runtime/exec/refused.h"

#include "guards/record.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/exec/function.h"

#include <string.h>

#define ENTRIES 32u
#define LIFE_NS 1000000000
#define MOST_MESSAGE 4096u

typedef struct entry_t {
  uint64_t hash, version; // version: of the policy, when it was noted
  int64_t ends_ns;
  uint32_t n, n_reads;
  int64_t *words;          // NULL: the entry is free; the heap's, with `reads` behind
  dt_policy_read_t *reads; // captures
  dt_status_t status;      // owned
} entry_t;

struct dt_refused_t {
  uint32_t next;
  entry_t entries[ENTRIES];
};

// ---- Keys -----------------------------------------------------------------------------------------

static void put(dt_refused_key_t *key, int64_t word) {
  if (key->n < DT_REFUSED_WORDS)
    key->words[key->n] = word;
  key->n++;
}

static void put_tensor(dt_refused_key_t *key, const dt_tensor_t *tensor) {
  put(key, dt__guard_key_of(tensor));
  for (uint32_t k = 0; k < tensor->rank; k++)
    put(key, tensor->sizes[k]);
  for (uint32_t k = 0; k < tensor->rank && !tensor->contiguous; k++)
    put(key, tensor->strides[k]);
}

// Where inputs share memory, a program that updates one is traced by how they do.
static bool any_meet(const dt_function_t *function, dt_tensor_t *const *inputs) {
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    if (!dt__is_tensor_kind(function->inputs[k].kind))
      continue;
    dt_bytes_t own = dt__tensor_reach(inputs[k]);
    for (uint32_t j = 0; j < k; j++) {
      if (dt__is_tensor_kind(function->inputs[j].kind) &&
          dt__bytes_meet(own, dt__tensor_reach(inputs[j])))
        return true;
    }
  }
  return false;
}

void dt__refused_key(const dt_function_t *function, dt_device_t place, dt_tensor_t *const *inputs,
                     dt_refused_key_t *out) {
  out->n = 0;
  put(out, place);
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    put_tensor(out, inputs[k]);
    if (!dt__is_tensor_kind(function->inputs[k].kind))
      put(out, dt__int_argument(inputs[k]));
  }
  if (out->n <= DT_REFUSED_WORDS && any_meet(function, inputs)) {
    for (uint32_t k = 0; k < function->n_inputs; k++)
      put(out, (int64_t)(uintptr_t)inputs[k]->data);
  }
  if (out->n > DT_REFUSED_WORDS)
    out->n = 0;
  out->hash = dt__hash(out->words, out->n * sizeof(out->words[0]), 0);
}

// ---- Looking up -----------------------------------------------------------------------------------

static bool reads_hold(const dt_policy_t *policy, const entry_t *entry) {
  for (uint32_t k = 0; k < entry->n_reads; k++) {
    const dt_policy_read_t *read = &entry->reads[k];
    const int64_t *address = policy->captures.items[read->index].address;
    if (__atomic_load_n(address, __ATOMIC_RELAXED) != read->value)
      return false;
  }
  return true;
}

dt_status_t dt__refused_find(const dt_function_t *function, const dt_refused_key_t *key) {
  const dt_refused_t *refused = function->refused;
  if (!refused || !key->n)
    return NULL;
  int64_t now = dt__now_ns();
  for (uint32_t k = 0; k < ENTRIES; k++) {
    const entry_t *entry = &refused->entries[k];
    if (entry->words && entry->hash == key->hash && entry->n == key->n &&
        entry->version == function->policy.version && now < entry->ends_ns &&
        memcmp(entry->words, key->words, key->n * sizeof(key->words[0])) == 0 &&
        reads_hold(&function->policy, entry))
      return dt__status_clone(entry->status);
  }
  return NULL;
}

// ---- Noting ---------------------------------------------------------------------------------------

bool dt__refused_is(dt_code_t code) {
  return code == DT_E_ARGUMENT || code == DT_E_SHAPE || code == DT_E_DTYPE || code == DT_E_RANGE ||
         code == DT_E_LIMIT;
}

// Whether the same call would be traced alike as long as the policy stays as it is now. An address
// that no variant reads may be gone when somebody looks.
static bool is_settled(const dt_function_t *function, const dt_policy_build_t *build) {
  for (uint32_t k = 0; k < build->n_reads; k++) {
    if (!function->policy.captures.items[build->reads[k].index].used)
      return false;
  }
  return !build->generic && build->began + build->changes == function->policy.version;
}

static void entry_fini(entry_t *entry) {
  dt__free(entry->words);
  dt_status_free(entry->status);
  *entry = (entry_t){0};
}

void dt__refused_note(dt_function_t *function, const dt_refused_key_t *key,
                      const dt_policy_build_t *build, dt_status_t status) {
  if (!key->n || !dt__refused_is(dt_status_code(status)) || !is_settled(function, build) ||
      strlen(dt_status_message(status)) > MOST_MESSAGE)
    return;
  if (!function->refused)
    function->refused = dt__calloc(1, sizeof(*function->refused));
  if (!function->refused)
    return;
  entry_t *entry = &function->refused->entries[function->refused->next++ % ENTRIES];
  entry_fini(entry);
  size_t words = key->n * sizeof(key->words[0]), reads = build->n_reads * sizeof(build->reads[0]);
  entry->words = dt__alloc(words + reads);
  entry->status = dt__status_clone(status);
  // Without memory a copy says less.
  if (!entry->words || strcmp(dt_status_message(entry->status), dt_status_message(status)) != 0) {
    entry_fini(entry);
    return;
  }
  entry->reads = (dt_policy_read_t *)(entry->words + key->n);
  memcpy(entry->words, key->words, words);
  memcpy(entry->reads, build->reads, reads);
  entry->hash = key->hash;
  entry->version = function->policy.version;
  entry->ends_ns = dt__now_ns() + LIFE_NS;
  entry->n = key->n;
  entry->n_reads = build->n_reads;
}

void dt__refused_destroy(dt_refused_t *refused) {
  if (!refused)
    return;
  for (uint32_t k = 0; k < ENTRIES; k++)
    entry_fini(&refused->entries[k]);
  dt__free(refused);
}
