// SPDX-License-Identifier: Apache-2.0
// Adds up what recorders noted, by variant and site, under the profile's mutex. What there is no
// memory for is left out and counted.
#include "runtime/base/hash.h"
#include "runtime/exec/session.h"
#include "runtime/exec/timing_queue.h"

#include <string.h>

void dt__profile_lose(dt_profile_t *profile) {
  dt__mutex_lock(&profile->mutex);
  profile->lost++;
  dt__mutex_unlock(&profile->mutex);
}

// ---- Numbers by hash --------------------------------------------------------------------------------

typedef bool (*is_it_t)(const dt_timed_t *of, uint32_t number, const void *key);

static uint32_t index_find(const dt_timed_index_t *index, uint64_t hash, const dt_timed_t *of,
                           is_it_t is_it, const void *key) {
  for (uint32_t at = (uint32_t)hash; index->cap; at++) {
    uint32_t slot = index->slots[at & (index->cap - 1)];
    if (!slot || is_it(of, slot - 1, key))
      return slot;
  }
  return 0;
}

static void index_put(dt_timed_index_t *index, uint64_t hash, uint32_t number) {
  uint32_t at = (uint32_t)hash;
  while (index->slots[at & (index->cap - 1)])
    at++;
  index->slots[at & (index->cap - 1)] = number + 1;
}

// Room for one number more than `n`; `hash_of` each that is there.
static bool index_grow(dt_timed_index_t *index, uint32_t n, const dt_timed_t *of,
                       uint64_t (*hash_of)(const dt_timed_t *of, uint32_t number)) {
  if (2 * n + 2 <= index->cap)
    return true;
  uint32_t cap = index->cap ? 2 * index->cap : 64;
  uint32_t *slots = dt__calloc(cap, sizeof(*slots));
  if (!slots)
    return false;
  dt__free(index->slots);
  *index = (dt_timed_index_t){slots, cap};
  for (uint32_t k = 0; k < n; k++)
    index_put(index, hash_of(of, k), k);
  return true;
}

static bool grow(void **items, uint32_t *cap, uint32_t n, size_t item) {
  if (n < *cap)
    return true;
  uint32_t wanted = *cap ? 2 * *cap : 16;
  void *grown = dt__realloc(*items, wanted * item);
  if (!grown)
    return false;
  *items = grown;
  *cap = wanted;
  return true;
}

// ---- Variants ---------------------------------------------------------------------------------------

static dt_timed_t *make_timed(dt_profile_t *profile, const dt_recorder_t *recorder, uint64_t id) {
  dt_variant_t *variant = recorder->variant;
  dt_timed_t *timed = dt__calloc(1, sizeof(*timed));
  if (!timed)
    return NULL;
  timed->function = recorder->function;
  dt_function_retain(timed->function);
  timed->id = id;
  timed->least = UINT64_MAX;
  timed->place = recorder->place;
  timed->queued = recorder->session->home->kind->timer != NULL;
  if (variant) {
    timed->variant = variant;
    timed->number = variant->number;
    dt__variant_retain(variant);
  }
  *(profile->last ? &profile->last->next : &profile->first) = timed;
  profile->last = timed;
  timed->beside = profile->buckets[id % DT_TIMED_BUCKETS];
  profile->buckets[id % DT_TIMED_BUCKETS] = timed;
  return timed;
}

// NULL: there is no memory.
static dt_timed_t *find_timed(dt_profile_t *profile, const dt_recorder_t *recorder) {
  uint64_t id = recorder->variant ? recorder->variant->id : 0;
  dt_timed_t *timed = profile->buckets[id % DT_TIMED_BUCKETS];
  while (timed && (timed->id != id || (!id && timed->function != recorder->function)))
    timed = timed->beside;
  return timed ? timed : make_timed(profile, recorder, id);
}

// ---- Sites ------------------------------------------------------------------------------------------

static uint64_t hash_address(const void *address) {
  return dt__hash_mix((uint64_t)(uintptr_t)address, 0);
}
static uint64_t hash_of_site(const dt_timed_t *of, uint32_t number) {
  return hash_address(of->sites[number].site);
}
static bool is_site(const dt_timed_t *of, uint32_t number, const void *key) {
  return of->sites[number].site == key;
}

// The kernels of a variant may be replaced while it is called, so the code is looked for once.
static uint32_t code_of(const dt_variant_t *variant, dt_kernel_fn_t fn) {
  const dt_compiled_t *compiled = variant->compiled;
  for (uint32_t k = 0; compiled && k < compiled->n_kernels; k++)
    if (__atomic_load_n(&compiled->kernels[k], __ATOMIC_RELAXED) == fn)
      return k;
  return UINT32_MAX;
}

// Behind the site that was launched before it in this call.
static uint32_t make_site(dt_timed_t *timed, const dt_stamp_t *stamp, uint32_t last) {
  if (!grow((void **)&timed->sites, &timed->sites_cap, timed->n_sites, sizeof(*timed->sites)) ||
      !index_grow(&timed->site_index, timed->n_sites, timed, hash_of_site))
    return 0;
  uint32_t number = timed->n_sites++;
  uint32_t *link = last ? &timed->sites[last - 1].next : &timed->first;
  timed->sites[number] = (dt_timed_site_t){.site = stamp->site,
                                           .graph = !stamp->fn,
                                           .code = code_of(timed->variant, stamp->fn),
                                           .kernel = stamp->kernel,
                                           .next = *link,
                                           .least = UINT64_MAX};
  *link = number + 1;
  index_put(&timed->site_index, hash_address(stamp->site), number);
  return number + 1;
}

// 1 + the site; 0: there is no memory. Most launches follow the one that they followed before.
static uint32_t find_site(dt_timed_t *timed, const dt_stamp_t *stamp, uint32_t last) {
  uint32_t next = last ? timed->sites[last - 1].next : timed->first;
  if (next && timed->sites[next - 1].site == stamp->site)
    return next;
  uint32_t found =
      index_find(&timed->site_index, hash_address(stamp->site), timed, is_site, stamp->site);
  return found ? found : make_site(timed, stamp, last);
}

// ---- Shapes -----------------------------------------------------------------------------------------

typedef struct shape_key_t {
  uint64_t hash;
  const int64_t *values;
  uint32_t n;
} shape_key_t;

static uint64_t hash_of_shape(const dt_timed_t *of, uint32_t number) {
  return of->shapes[number].hash;
}
static bool is_shape(const dt_timed_t *of, uint32_t number, const void *opaque) {
  const shape_key_t *key = opaque;
  const dt_timed_shape_t *shape = &of->shapes[number];
  return shape->hash == key->hash &&
         (key->n == 0 || memcmp(shape->values, key->values, key->n * sizeof(*key->values)) == 0);
}

static uint32_t make_shape(dt_timed_t *timed, const shape_key_t *key) {
  if (timed->n_shapes == DT_MOST_SHAPES ||
      !grow((void **)&timed->shapes, &timed->shapes_cap, timed->n_shapes, sizeof(*timed->shapes)) ||
      !index_grow(&timed->shape_index, timed->n_shapes, timed, hash_of_shape))
    return 0;
  int64_t *values = dt__alloc((key->n + 1) * sizeof(*values));
  if (!values)
    return 0;
  if (key->n)
    memcpy(values, key->values, key->n * sizeof(*values));
  uint32_t number = timed->n_shapes++;
  timed->shapes[number] = (dt_timed_shape_t){.hash = key->hash, .values = values};
  index_put(&timed->shape_index, key->hash, number);
  return number + 1;
}

// The shape of the call under way, or NULL.
static dt_timed_shape_t *find_shape(dt_timed_t *timed, const dt_recorder_t *recorder) {
  const dt_compiled_t *compiled = timed->variant ? timed->variant->compiled : NULL;
  if (!compiled)
    return NULL;
  shape_key_t key = {.values = recorder->symbols, .n = compiled->n_symbols};
  for (uint32_t k = 0; k < key.n; k++)
    key.hash = dt__hash_mix((uint64_t)key.values[k], key.hash);
  uint32_t found = timed->last_shape;
  if (!found || !is_shape(timed, found - 1, &key))
    found = index_find(&timed->shape_index, key.hash, timed, is_shape, &key);
  if (!found)
    found = make_shape(timed, &key);
  timed->last_shape = found;
  return found ? &timed->shapes[found - 1] : NULL;
}

static bool shape_reach(dt_timed_shape_t *shape, uint32_t n_sites) {
  if (n_sites <= shape->n_launches)
    return true;
  uint32_t wanted = n_sites + n_sites / 2;
  uint64_t *grown = dt__realloc(shape->launches, wanted * sizeof(*grown));
  if (!grown)
    return false;
  memset(grown + shape->n_launches, 0, (wanted - shape->n_launches) * sizeof(*grown));
  shape->launches = grown;
  shape->n_launches = wanted;
  return true;
}

// ---- Adding up --------------------------------------------------------------------------------------

void dt__profile_put(dt_profile_t *profile, const dt_timed_event_t *event) {
  profile->events[profile->n_events++ % profile->most_events] = *event;
}

static void put_event(dt_profile_t *profile, const dt_timed_t *timed, const dt_stamp_t *stamp,
                      uint32_t index) {
  dt__profile_put(profile, &(dt_timed_event_t){.begin = stamp->begin,
                                               .end = stamp->end,
                                               .thread = stamp->thread,
                                               .of = timed,
                                               .kind = (uint32_t)stamp->kind,
                                               .index = index});
}

static void count_launch(dt_timed_site_t *site, const dt_stamp_t *stamp) {
  uint64_t ticks = stamp->end > stamp->begin ? stamp->end - stamp->begin : 0;
  site->launches++;
  site->ticks += ticks;
  site->least = ticks < site->least ? ticks : site->least;
  site->most = ticks > site->most ? ticks : site->most;
  site->busy += stamp->busy;
  site->wait += stamp->wait;
}

// Compiles stay, since few events of the ring are older than a second or two.
static void put_part(dt_profile_t *profile, const dt_timed_t *timed, const dt_stamp_t *stamp) {
  if (stamp->part != DT_PROFILE_COMPILE || profile->n_compiles == DT_TIMED_COMPILES) {
    put_event(profile, timed, stamp, stamp->part);
    return;
  }
  profile->compiles[profile->n_compiles++] = (dt_timed_event_t){.begin = stamp->begin,
                                                                .end = stamp->end,
                                                                .thread = stamp->thread,
                                                                .of = timed,
                                                                .kind = DT_STAMP_PART,
                                                                .index = stamp->part};
}

// The site of the launch or graph, and the shape that counts it; 0: there is no memory.
static uint32_t find_place(dt_timed_t *timed, dt_recorder_t *recorder, const dt_stamp_t *stamp,
                           dt_timed_shape_t **shape) {
  uint32_t number = timed->variant ? find_site(timed, stamp, recorder->last) : 0;
  recorder->last = number;
  if (!*shape)
    *shape = find_shape(timed, recorder);
  return number;
}

// What a device says of its work is added up when that has ended. Copies have no site.
static bool take_piece(dt_timed_t *timed, dt_recorder_t *recorder, const dt_stamp_t *stamp,
                       dt_timed_shape_t **shape) {
  dt_timed_piece_t *piece = stamp->piece;
  uint32_t number = stamp->site ? find_place(timed, recorder, stamp, shape) : 0;
  if (piece) {
    piece->timed = timed;
    piece->site = number;
    if (number && *shape && shape_reach(*shape, timed->n_sites))
      piece->link = (uint32_t)(*shape - timed->shapes) + 1;
  }
  return number || !stamp->site;
}

static bool take_launch(dt_timed_t *timed, dt_recorder_t *recorder, const dt_stamp_t *stamp,
                        dt_timed_shape_t **shape) {
  uint32_t number = find_place(timed, recorder, stamp, shape);
  if (!number)
    return false;
  count_launch(&timed->sites[number - 1], stamp);
  if (*shape && shape_reach(*shape, timed->n_sites))
    (*shape)->launches[number - 1]++;
  return true;
}

static void take(dt_profile_t *profile, dt_timed_t *timed, dt_recorder_t *recorder) {
  dt_timed_shape_t *shape = NULL;
  for (uint32_t k = 0; k < recorder->n; k++) {
    const dt_stamp_t *stamp = &recorder->stamps[k];
    if (stamp->kind == DT_STAMP_PART) {
      put_part(profile, timed, stamp);
      continue;
    }
    bool good = stamp->kind == DT_STAMP_LAUNCH   ? take_launch(timed, recorder, stamp, &shape)
                : stamp->kind == DT_STAMP_QUEUED ? take_piece(timed, recorder, stamp, &shape)
                                                 : recorder->last != 0;
    profile->lost += !good && stamp->kind != DT_STAMP_SHARE;
    if (good)
      put_event(profile, timed, stamp,
                stamp->kind == DT_STAMP_QUEUED && !stamp->site ? UINT32_MAX : recorder->last - 1);
  }
  recorder->n = 0;
}

void dt__profile_take(dt_profile_t *profile, dt_recorder_t *recorder) {
  dt__mutex_lock(&profile->mutex);
  dt_timed_t *timed = find_timed(profile, recorder);
  if (timed)
    take(profile, timed, recorder);
  profile->lost += recorder->n;
  recorder->n = 0;
  dt__mutex_unlock(&profile->mutex);
}

void dt__profile_count(dt_profile_t *profile, dt_recorder_t *recorder) {
  dt_stamp_t call = {.kind = DT_STAMP_CALL,
                     .begin = recorder->began,
                     .end = recorder->at,
                     .thread = recorder->thread};
  dt__mutex_lock(&profile->mutex);
  dt_timed_t *timed = find_timed(profile, recorder);
  if (timed) {
    take(profile, timed, recorder);
    call.end = dt__ticks_now(recorder->counter);
    recorder->parts[DT_PROFILE_RECORDING] += call.end - recorder->at;
    uint64_t ticks = call.end - call.begin;
    put_event(profile, timed, &call, 0);
    timed->calls++;
    timed->ticks += ticks;
    timed->least = ticks < timed->least ? ticks : timed->least;
    timed->most = ticks > timed->most ? ticks : timed->most;
    for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++)
      timed->parts[k] += recorder->parts[k];
    timed->device.untimed += recorder->untimed;
    timed->device.split_graphs += recorder->split_graphs;
  } else {
    profile->lost++;
  }
  dt__mutex_unlock(&profile->mutex);
}

void dt__profile_free_sums(dt_profile_t *profile) {
  for (dt_timed_t *timed = profile->first, *next; timed; timed = next) {
    next = timed->next;
    for (uint32_t k = 0; k < timed->n_shapes; k++) {
      dt__free(timed->shapes[k].values);
      dt__free(timed->shapes[k].launches);
    }
    dt__timed_kernels_free(timed->kernels);
    dt__free(timed->shapes);
    dt__free(timed->shape_index.slots);
    dt__free(timed->sites);
    dt__free(timed->site_index.slots);
    if (timed->variant)
      dt__variant_release(timed->variant);
    dt_function_release(timed->function);
    dt__free(timed);
  }
  dt__free(profile->events);
}
