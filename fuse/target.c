// SPDX-License-Identifier: Apache-2.0
// Targets as text: the numbers of target.def in its order, then the strings.
#include "fuse/target.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"

#include <string.h>

// ---- Writing ------------------------------------------------------------------------------------
static void put_number(dt_text_t *out, int64_t value) {
  dt__text_put(out, " ");
  dt__text_i64(out, value);
}

static void put_string(dt_text_t *out, const char *string, size_t bytes) {
  dt__text_put(out, " ");
  dt__text_quote(out, string, bytes);
}

#define WRITE_place(name) put_number(out, (int64_t)target->name)
#define WRITE_u32(name) put_number(out, target->name)
#define WRITE_i64(name) put_number(out, target->name)
#define WRITE_flag(name) put_number(out, target->name)
#define WRITE_bits(name) put_number(out, (int64_t)target->name)
#define WRITE_sizes(name) put_number(out, target->name[0]), put_number(out, target->name[1])

void dt__target_write(const dt_target_t *target, dt_text_t *out) {
#define FIELD(kind, name, doc) WRITE_##kind(name);
#define TEXT(name, bytes, doc) put_string(out, target->name, bytes);
#include "fuse/target.def"
  dt__text_put(out, "\n");
}

// ---- Reading ------------------------------------------------------------------------------------
static dt_status_t number(dt_scan_t *scan, const char *name, int64_t most, int64_t *out) {
  DT_TRY(dt__scan_i64(scan, out));
  if (*out < 0 || *out > most)
    return dt__scan_fail(scan, "%s of a target cannot be %lld", name, (long long)*out);
  return NULL;
}

static dt_status_t read_place(dt_scan_t *scan, const char *name, dt_device_t *out) {
  int64_t value = 0;
  DT_TRY(number(scan, name, DT_DEVICES - 1, &value));
  *out = (dt_device_t)value;
  return NULL;
}

static dt_status_t read_u32(dt_scan_t *scan, const char *name, uint32_t *out) {
  int64_t value = 0;
  DT_TRY(number(scan, name, UINT32_MAX, &value));
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t read_i64(dt_scan_t *scan, const char *name, int64_t *out) {
  return number(scan, name, INT64_MAX, out);
}

static dt_status_t read_flag(dt_scan_t *scan, const char *name, bool *out) {
  int64_t value = 0;
  DT_TRY(number(scan, name, 1, &value));
  *out = value != 0;
  return NULL;
}

static dt_status_t read_bits(dt_scan_t *scan, const char *name, uint64_t *out) {
  int64_t value = 0;
  DT_TRY(number(scan, name, INT64_MAX, &value));
  *out = (uint64_t)value;
  return NULL;
}

static dt_status_t read_two(dt_scan_t *scan, const char *name, uint32_t *out) {
  DT_TRY(read_u32(scan, name, &out[0]));
  return read_u32(scan, name, &out[1]);
}

#define READ_place(name) read_place(scan, #name, &out->name)
#define READ_u32(name) read_u32(scan, #name, &out->name)
#define READ_i64(name) read_i64(scan, #name, &out->name)
#define READ_flag(name) read_flag(scan, #name, &out->name)
#define READ_bits(name) read_bits(scan, #name, &out->name)
#define READ_sizes(name) read_two(scan, #name, out->name)

dt_status_t dt__target_read(dt_scan_t *scan, dt_target_t *out) {
  size_t len = 0;
  memset(out, 0, sizeof(*out));
#define FIELD(kind, name, doc) DT_TRY(READ_##kind(name));
#define TEXT(name, bytes, doc) DT_TRY(dt__scan_string(scan, out->name, bytes, &len));
#include "fuse/target.def"
  return NULL;
}
