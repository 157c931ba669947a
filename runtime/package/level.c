// SPDX-License-Identifier: Apache-2.0
// See level.h.
#include "runtime/package/level.h"

#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"
#include "runtime/exec/runtime.h"

#include <string.h>

// ---- Those that are asked for ---------------------------------------------------------------------
// In its place, once.
static bool put(dt_pack_levels_t *levels, const dt_level_t *level) {
  uint32_t at = 0, n = levels->n;
  while (at < n && dt__level_before(&levels->items[at], level))
    at++;
  if (at < n && !dt__level_before(level, &levels->items[at]))
    return true;
  if (n == DT_PACK_MOST_LEVELS)
    return false;
  memmove(&levels->items[at + 1], &levels->items[at], (n - at) * sizeof(levels->items[0]));
  levels->items[at] = *level;
  levels->n++;
  return true;
}

static dt_status_t no_such_level(const char *name, size_t len, const char *text) {
  dt_text_t names;
  dt__text_init(&names);
  dt__level_names(&names);
  dt_status_t status = DT_FAIL(DT_E_ARGUMENT,
                               "levels: '%.*s' in \"%s\" is none; expected some of %s, between "
                               "commas",
                               (int)len, name, text, dt__text_str(&names));
  dt__text_fini(&names);
  return status;
}

dt_status_t dt__pack_levels_parse(const char *text, dt_pack_levels_t *out) {
  out->n = 0;
  for (const char *at = text;;) {
    size_t len = strcspn(at, ",");
    dt_level_t level;
    if (!dt__level_named(at, len, &level) || !put(out, &level))
      return no_such_level(at, len, text);
    if (!at[len])
      return NULL;
    at += len + 1;
  }
}

// ---- The one that runs ----------------------------------------------------------------------------
bool dt__pack_is_for(const dt_package_t *package, dt_device_t device) {
  const dt_pack_index_t *index = &package->index;
  for (uint32_t k = 0; k < index->n_levels; k++)
    if (index->levels[k].is_known && index->levels[k].known.device == device)
      return true;
  return false;
}

// How well a level suits the place, beside a CPU of the levels `host`; 0: it does not run there.
static uint32_t suits(const dt_pack_level_t *level, const dt_place_t *home, uint32_t host) {
  const dt_level_t *known = &level->known;
  if (!level->is_known || known->device != dt__place_device(home->number))
    return 0;
  if (!known->codegen)
    return host >> known->row & 1 ? known->row + 1 : 0;
  uint32_t cpu = dt__level_find(known->cpu, strlen(known->cpu)); // of host programs
  return host >> cpu & 1 ? known->codegen->suits(home->device, known->row) : 0;
}

static void put_host(uint32_t levels, dt_text_t *out) {
  const char *comma = "";
  for (uint32_t k = 0; k < DT_LEVELS; k++)
    if (levels >> k & 1) {
      dt__text_printf(out, "%s%s", comma, dt__levels[k].name);
      comma = ", ";
    }
  dt__text_put(out, levels ? "" : "no level");
}

static void put_place(const dt_place_t *home, uint32_t host, dt_text_t *out) {
  if (home->codegen && home->codegen->name) {
    dt__text_put(out, "the device is ");
    home->codegen->name(home->device, out);
    dt__text_put(out, ", beside a CPU that runs ");
  } else {
    dt__text_put(out, "this machine runs ");
  }
  put_host(host, out);
}

static dt_status_t none_runs(const dt_package_t *package, const dt_place_t *home, uint32_t host) {
  const dt_pack_index_t *index = &package->index;
  dt_text_t own, here;
  dt__text_init(&own);
  dt__text_init(&here);
  for (uint32_t k = 0; k < index->n_levels; k++)
    dt__text_printf(&own, k ? ", %s" : "%s", index->levels[k].name);
  put_place(home, host, &here);
  dt_status_t status =
      DT_FAIL(DT_E_UNSUPPORTED,
              "the package has code for %s, and %s: write it with a level that runs there",
              dt__text_str(&own), dt__text_str(&here));
  dt__text_fini(&own);
  dt__text_fini(&here);
  return status;
}

dt_status_t dt__pack_level(const dt_package_t *package, const dt_place_t *home, uint32_t *out) {
  uint32_t host = dt__levels_within(dt__compiler_target(package->runtime->compiler)), best = 0;
  for (uint32_t k = 0; k < package->index.n_levels; k++) {
    uint32_t own = suits(&package->index.levels[k], home, host);
    *out = own > best ? k : *out;
    best = own > best ? own : best;
  }
  return best ? NULL : none_runs(package, home, host);
}
