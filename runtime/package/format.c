// SPDX-License-Identifier: Apache-2.0
// See format.h: head, table and sums.
#include "runtime/package/format.h"

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <fcntl.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the file's numbers are read as they lie");

typedef struct head_t {
  char magic[8];
  uint32_t abi, n_parts;
  uint64_t bytes; // of the file
  uint64_t table; // where it begins; it ends with the file
  uint64_t table_sum;
  uint64_t zero[2];
  uint64_t sum; // of the bytes before it
} head_t;
_Static_assert(sizeof(head_t) == DT_PACK_HEAD_BYTES, "format");
_Static_assert(sizeof(dt_pack_part_t) == 24, "format");

// ---- Reading --------------------------------------------------------------------------------------
static dt_status_t check_head(const head_t *head, size_t bytes) {
  if (memcmp(head->magic, DT_PACK_MAGIC, sizeof(head->magic)) != 0)
    return DT_FAIL(DT_E_FORMAT, "it does not begin as a package does");
  if (dt__hash(head, offsetof(head_t, sum), 0) != head->sum)
    return DT_FAIL(DT_E_FORMAT, "the sum of its head is another: it is damaged");
  if (head->abi != DT_PACKAGE_ABI)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "it was written for ABI number %u, and this library has %u: write it with this "
                   "version of Ductile, or use a library of that number",
                   head->abi, DT_PACKAGE_ABI);
  if (head->bytes != bytes)
    return DT_FAIL(DT_E_FORMAT, "it has %zu bytes; expected %llu: it is cut off, or has too many",
                   bytes, (unsigned long long)head->bytes);
  uint64_t table = (uint64_t)head->n_parts * sizeof(dt_pack_part_t);
  if (!head->n_parts || table > bytes || head->table != bytes - table ||
      head->table < DT_PACK_HEAD_BYTES || head->table % sizeof(uint64_t))
    return DT_FAIL(DT_E_FORMAT, "its table is not at its end");
  return NULL;
}

static dt_status_t check_parts(const head_t *head, const dt_pack_part_t *parts) {
  uint64_t at = DT_PACK_HEAD_BYTES;
  for (uint32_t k = 0; k < head->n_parts; k++) {
    const dt_pack_part_t *part = &parts[k];
    if (part->offset < at || part->offset % DT_PACK_ALIGN || part->offset > head->table ||
        part->bytes > head->table - part->offset)
      return DT_FAIL(DT_E_FORMAT, "part %u lies outside of the file, or in another part", k);
    at = part->offset + part->bytes;
  }
  return NULL;
}

dt_status_t dt__pack_open(const void *data, size_t bytes, dt_pack_part_t **out, uint32_t *out_n) {
  head_t head;
  *out = NULL;
  *out_n = 0;
  if (bytes < sizeof(head))
    return DT_FAIL(DT_E_FORMAT, "%zu bytes are no package", bytes);
  memcpy(&head, data, sizeof(head));
  DT_TRY(check_head(&head, bytes));
  const char *table = (const char *)data + head.table;
  if (dt__hash(table, bytes - (size_t)head.table, 0) != head.table_sum)
    return DT_FAIL(DT_E_FORMAT, "the sum of its table is another: it is damaged");
  dt_pack_part_t *parts = dt__calloc(head.n_parts, sizeof(*parts));
  if (!parts)
    return DT_NO_MEMORY();
  memcpy(parts, table, head.n_parts * sizeof(*parts));
  dt_status_t status = check_parts(&head, parts);
  if (status) {
    dt__free(parts);
    return status;
  }
  *out = parts;
  *out_n = head.n_parts;
  return NULL;
}

dt_status_t dt__pack_check(const void *data, const dt_pack_part_t *part, const char *what) {
  if (dt__hash((const char *)data + part->offset, (size_t)part->bytes, 0) != part->sum)
    return DT_FAIL(DT_E_FORMAT, "the sum of %s is another: the package is damaged", what);
  return NULL;
}

bool dt__pack_forge(void *data, size_t bytes) {
  head_t head;
  if (bytes < sizeof(head))
    return false;
  memcpy(&head, data, sizeof(head));
  uint64_t table = (uint64_t)head.n_parts * sizeof(dt_pack_part_t);
  head.bytes = bytes;
  bool whole = table <= bytes && head.table == bytes - table && head.table >= sizeof(head);
  for (uint32_t k = 0; whole && k < head.n_parts; k++) {
    char *row = (char *)data + head.table + k * sizeof(dt_pack_part_t);
    dt_pack_part_t part;
    memcpy(&part, row, sizeof(part));
    if (part.offset > head.table || part.bytes > head.table - part.offset)
      continue;
    part.sum = dt__hash((const char *)data + part.offset, (size_t)part.bytes, 0);
    memcpy(row, &part, sizeof(part));
  }
  if (whole)
    head.table_sum = dt__hash((const char *)data + head.table, (size_t)table, 0);
  head.sum = dt__hash(&head, offsetof(head_t, sum), 0);
  memcpy(data, &head, sizeof(head));
  return whole;
}

// ---- Writing --------------------------------------------------------------------------------------
uint32_t dt__pack_add(dt_pack_out_t *out, const void *data, size_t bytes) {
  dt_pack_part_t part = {.bytes = bytes, .sum = data ? dt__hash(data, bytes, 0) : 0};
  if (!DT_VEC_PUSH(out->arena, &out->parts, part) || !DT_VEC_PUSH(out->arena, &out->data, data))
    return UINT32_MAX;
  return out->parts.len - 1;
}

static uint64_t align(uint64_t at, uint64_t to) { return (at + to - 1) / to * to; }

// Data of many pages begin a page.
static void place(dt_pack_out_t *out, uint64_t *end) {
  uint64_t at = DT_PACK_HEAD_BYTES;
  for (uint32_t k = 0; k < out->parts.len; k++) {
    dt_pack_part_t *part = &out->parts.items[k];
    part->offset =
        align(at, part->bytes >= DT_PACK_DATA_ALIGN ? DT_PACK_DATA_ALIGN : DT_PACK_ALIGN);
    at = part->offset + part->bytes;
  }
  *end = align(at, sizeof(uint64_t));
}

dt_status_t dt__pack_write(dt_pack_out_t *out, const char *path) {
  static const char zeros[DT_PACK_DATA_ALIGN];
  uint32_t n = out->parts.len;
  dt_file_part_t *file = DT_ARENA_ARRAY(out->arena, dt_file_part_t, 2 * (size_t)n + 3);
  if (!file)
    return DT_NO_MEMORY();
  head_t head = {.abi = DT_PACKAGE_ABI, .n_parts = n};
  memcpy(head.magic, DT_PACK_MAGIC, sizeof(head.magic));
  place(out, &head.table);
  size_t table = n * sizeof(dt_pack_part_t);
  head.bytes = head.table + table;
  head.table_sum = dt__hash(out->parts.items, table, 0);
  head.sum = dt__hash(&head, offsetof(head_t, sum), 0);
  uint32_t n_file = 0;
  uint64_t at = sizeof(head);
  file[n_file++] = (dt_file_part_t){&head, sizeof(head)};
  for (uint32_t k = 0; k < n; k++) {
    const dt_pack_part_t *part = &out->parts.items[k];
    file[n_file++] = (dt_file_part_t){zeros, (size_t)(part->offset - at)};
    file[n_file++] = (dt_file_part_t){out->data.items[k], (size_t)part->bytes};
    at = part->offset + part->bytes;
  }
  file[n_file++] = (dt_file_part_t){zeros, (size_t)(head.table - at)};
  file[n_file++] = (dt_file_part_t){out->parts.items, table};
  return dt__file_replace(AT_FDCWD, path, 0644, file, n_file);
}
