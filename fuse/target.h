// SPDX-License-Identifier: Apache-2.0
// The description of a device for fusion and scheduling: numbers, no code. Filled by a backend.
#ifndef DT_FUSE_TARGET_H
#define DT_FUSE_TARGET_H

#include "ductile/base.h"
#include "runtime/base/text.h"

#define DT_TARGET_place(name) dt_device_t name
#define DT_TARGET_u32(name) uint32_t name
#define DT_TARGET_i64(name) int64_t name
#define DT_TARGET_flag(name) bool name
#define DT_TARGET_bits(name) uint64_t name
#define DT_TARGET_sizes(name) uint32_t name[2]

// target.def says what the fields mean.
typedef struct dt_target_t {
#define FIELD(kind, name, doc) DT_TARGET_##kind(name);
#define TEXT(name, bytes, doc) char name[bytes];
#include "fuse/target.def"
  const struct dt_target_t *host; // devices: the machine of host programs (borrowed; NULL: this)
} dt_target_t;

static inline uint32_t dt__target_threads(const dt_target_t *target) {
  return target->threads ? target->threads : 1;
}
// Whether threads share grid items.
static inline bool dt__target_has_teams(const dt_target_t *target) {
  return target->block_threads != 0;
}
// Threads of a group; 1: each runs by itself.
static inline uint32_t dt__target_warp(const dt_target_t *target) {
  return target->warp ? target->warp : 1;
}
// Groups of the largest team.
static inline uint32_t dt__target_groups(const dt_target_t *target) {
  return target->block_threads / dt__target_warp(target);
}

// One line with every field but the host.
void dt__target_write(const dt_target_t *target, dt_text_t *out);
// Reads it back; leaves out->host NULL. DT_E_FORMAT.
dt_status_t dt__target_read(dt_scan_t *scan, dt_target_t *out) DT_MUST_USE;

#endif // DT_FUSE_TARGET_H
