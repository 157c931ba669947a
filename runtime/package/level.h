// SPDX-License-Identifier: Apache-2.0
// Levels of packages: those that are asked for, and the one that runs at a place.
#ifndef DT_RUNTIME_PACKAGE_LEVEL_H
#define DT_RUNTIME_PACKAGE_LEVEL_H

#include "runtime/package/package.h"

// In their order (dt__level_before), each once.
typedef struct dt_pack_levels_t {
  uint32_t n;
  dt_level_t items[DT_PACK_MOST_LEVELS];
} dt_pack_levels_t;
// Of names between commas. DT_E_ARGUMENT.
dt_status_t dt__pack_levels_parse(const char *text, dt_pack_levels_t *out) DT_MUST_USE;

// Whether the package has code for the kind of device.
bool dt__pack_is_for(const dt_package_t *package, dt_device_t device);
// Of the package's levels for the kind of device the best that runs at `home`. DT_E_UNSUPPORTED:
// none does; the message names both sides.
dt_status_t dt__pack_level(const dt_package_t *package, const struct dt_place_t *home,
                           uint32_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_PACKAGE_LEVEL_H
