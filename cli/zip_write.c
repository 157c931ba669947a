// SPDX-License-Identifier: Apache-2.0
// Writes .npz archives as numpy.savez does: members stored, in 32-bit records.
#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// The most that 32-bit records hold, and some room for them.
#define MOST_BYTES ((uint64_t)UINT32_MAX - (1U << 20))

typedef struct member_t {
  char name[512]; // with its suffix
  uint32_t crc, bytes, offset;
} member_t;

static void put(unsigned char *to, uint64_t value, uint32_t bytes) {
  for (uint32_t k = 0; k < bytes; k++)
    to[k] = (unsigned char)(value >> (8 * k));
}

// What a member's own header and its entry of the directory have in common: 26 bytes from the
// version on.
static void put_common(unsigned char *to, const member_t *member) {
  put(to, 20, 2);        // version 2.0 is needed to read it
  put(to + 2, 0x800, 2); // the name is UTF-8
  put(to + 4, 0, 2);     // stored
  put(to + 6, 0, 2);
  put(to + 8, 0x21, 2); // 1980-01-01: equal tensors make equal files
  put(to + 10, member->crc, 4);
  put(to + 14, member->bytes, 4);
  put(to + 18, member->bytes, 4);
  put(to + 22, strlen(member->name), 2);
  put(to + 24, 0, 2);
}

static bool write_all(FILE *file, const void *bytes, size_t len) {
  return len == 0 || fwrite(bytes, 1, len, file) == len;
}

static bool write_member(FILE *file, const dt_tensor_t *tensor, const char *header,
                         size_t header_bytes, const member_t *member) {
  unsigned char record[30] = {'P', 'K', 3, 4};
  size_t bytes = member->bytes - header_bytes;
  put_common(record + 4, member);
  return write_all(file, record, sizeof(record)) &&
         write_all(file, member->name, strlen(member->name)) &&
         write_all(file, header, header_bytes) && write_all(file, dt_tensor_data(tensor), bytes);
}

static bool write_directory(FILE *file, const member_t *members, uint32_t n, uint64_t at) {
  uint64_t len = 0;
  for (uint32_t k = 0; k < n; k++) {
    unsigned char record[46] = {'P', 'K', 1, 2, 20};
    put_common(record + 6, &members[k]);
    put(record + 42, members[k].offset, 4);
    if (!write_all(file, record, sizeof(record)) ||
        !write_all(file, members[k].name, strlen(members[k].name)))
      return false;
    len += sizeof(record) + strlen(members[k].name);
  }
  unsigned char end[22] = {'P', 'K', 5, 6};
  put(end + 8, n, 2);
  put(end + 10, n, 2);
  put(end + 12, len, 4);
  put(end + 16, at, 4);
  return write_all(file, end, sizeof(end));
}

bool cli_npz_write(FILE *file, const char *const *names, dt_tensor_t *const *tensors, uint32_t n,
                   char message[CLI_MESSAGE]) {
  member_t *members = calloc(n + 1, sizeof(*members));
  uint64_t at = 0;
  bool done = members != NULL || cli_wrong(message, "no memory");
  if (n >= UINT16_MAX)
    done = cli_wrong(message, "too many tensors for one .npz file");
  for (uint32_t k = 0; done && k < n; k++) {
    char header[CLI_NPY_HEADER];
    size_t header_bytes = cli_npy_header(tensors[k], header);
    size_t bytes = dt_tensor_bytes(tensors[k]);
    uLong crc = crc32_z(0, (const unsigned char *)header, header_bytes);
    int len = snprintf(members[k].name, sizeof(members[k].name), "%s.npy", names[k]);
    if (len < 0 || (size_t)len >= sizeof(members[k].name))
      done = cli_wrong(message, "the name '%.32s…' is too long for a .npz file", names[k]);
    else if (bytes > MOST_BYTES || at + bytes > MOST_BYTES)
      done = cli_wrong(message, "more than 4 GiB for one .npz file; write .npy files");
    if (!done)
      break;
    members[k].crc = (uint32_t)(bytes ? crc32_z(crc, dt_tensor_data(tensors[k]), bytes) : crc);
    members[k].bytes = (uint32_t)(header_bytes + bytes);
    members[k].offset = (uint32_t)at;
    done = write_member(file, tensors[k], header, header_bytes, &members[k]) ||
           cli_wrong(message, "it cannot be written");
    at += 30 + (uint64_t)len + header_bytes + bytes;
  }
  if (done)
    done = write_directory(file, members, n, at) || cli_wrong(message, "it cannot be written");
  free(members);
  return done;
}
