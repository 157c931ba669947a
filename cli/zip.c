// SPDX-License-Identifier: Apache-2.0
// Members of .npz files, which are ZIP archives (PKWARE's APPNOTE.TXT 6.3): stored or deflated,
// with 64-bit sizes or without. The directory at the end is what counts; a member's own header must
// agree with it in name and method, so that no two readers find two different files.
#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// Signatures, and the bytes of each record without its names.
#define END_SIGNATURE 0x06054b50U
#define END64_SIGNATURE 0x06064b50U
#define LOCATOR_SIGNATURE 0x07064b50U
#define ENTRY_SIGNATURE 0x02014b50U
#define LOCAL_SIGNATURE 0x04034b50U
enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };

#define MOST_MEMBERS 65536U
// The most that deflate can pack into a byte.
#define MOST_RATIO 1032U

typedef struct member_t {
  uint32_t flags, method, crc;
  uint64_t packed, bytes, offset; // the offset is that of its own header
} member_t;

typedef struct directory_t {
  uint64_t at, len, n;
} directory_t;

static uint64_t number(const unsigned char *at, uint32_t bytes) {
  uint64_t value = 0;
  for (uint32_t k = 0; k < bytes; k++)
    value |= (uint64_t)at[k] << (8 * k);
  return value;
}

static bool damaged(char message[CLI_MESSAGE], const char *what) {
  return cli_wrong(message, "not a sound .npz file: %s", what);
}

// ---- The directory --------------------------------------------------------------------------------
// 64-bit values stand in a record of their own, which a locator before `end` leads to.
static bool find_directory64(cli_bytes_t archive, size_t end, directory_t *out,
                             char message[CLI_MESSAGE]) {
  if (end < LOCATOR_BYTES || number(archive.at + end - LOCATOR_BYTES, 4) != LOCATOR_SIGNATURE)
    return damaged(message, "64-bit sizes without their record");
  size_t locator = end - LOCATOR_BYTES;
  uint64_t at = number(archive.at + locator + 8, 8);
  if (number(archive.at + locator + 16, 4) > 1)
    return damaged(message, "it is one of several parts");
  if (locator < END64_BYTES || at > locator - END64_BYTES ||
      number(archive.at + at, 4) != END64_SIGNATURE)
    return damaged(message, "64-bit sizes without their record");
  *out = (directory_t){.at = number(archive.at + at + 48, 8),
                       .len = number(archive.at + at + 40, 8),
                       .n = number(archive.at + at + 32, 8)};
  if (number(archive.at + at + 16, 4) != 0 || number(archive.at + at + 20, 4) != 0)
    return damaged(message, "it is one of several parts");
  return out->at <= at && out->len <= at - out->at ? true
                                                   : damaged(message, "its directory is cut off");
}

static bool find_directory(cli_bytes_t archive, directory_t *out, char message[CLI_MESSAGE]) {
  // The record stands last, but for a comment of at most 65535 bytes whose length it gives.
  for (size_t back = END_BYTES; back <= archive.len && back <= END_BYTES + 65535; back++) {
    const unsigned char *at = archive.at + archive.len - back;
    if (number(at, 4) != END_SIGNATURE || number(at + 20, 2) != back - END_BYTES)
      continue;
    size_t end = archive.len - back;
    *out = (directory_t){number(at + 16, 4), number(at + 12, 4), number(at + 10, 2)};
    if (out->at == UINT32_MAX || out->len == UINT32_MAX || out->n == UINT16_MAX)
      return find_directory64(archive, end, out, message);
    if (number(at + 4, 2) != 0 || number(at + 6, 2) != 0)
      return damaged(message, "it is one of several parts");
    return out->at <= end && out->len <= end - out->at
               ? true
               : damaged(message, "its directory is cut off");
  }
  return damaged(message, "it has no directory");
}

// Sizes that do not fit 32 bits stand in an extra field, only these and in this order.
static bool read_extra(const unsigned char *at, size_t len, member_t *member,
                       char message[CLI_MESSAGE]) {
  uint64_t *const wanted[] = {&member->bytes, &member->packed, &member->offset};
  bool wide = false;
  for (uint32_t k = 0; k < 3; k++)
    wide |= *wanted[k] == UINT32_MAX;
  for (size_t k = 0; wide && len - k >= 4;) {
    size_t field = (size_t)number(at + k + 2, 2), used = 0;
    if (field > len - k - 4)
      break;
    if (number(at + k, 2) != 1) {
      k += 4 + field;
      continue;
    }
    for (uint32_t w = 0; w < 3; w++) {
      if (*wanted[w] != UINT32_MAX)
        continue;
      if (field - used < 8)
        return damaged(message, "a member lacks its 64-bit sizes");
      *wanted[w] = number(at + k + 4 + used, 8);
      used += 8;
    }
    return true;
  }
  return !wide || damaged(message, "a member lacks its 64-bit sizes");
}

// The entry at `at`, of which `room` bytes are there, with its name; how many it takes, 0: damaged.
static size_t read_entry(const unsigned char *at, size_t room, member_t *out, const char **out_name,
                         size_t *out_len, char message[CLI_MESSAGE]) {
  if (room < ENTRY_BYTES || number(at, 4) != ENTRY_SIGNATURE) {
    (void)damaged(message, "its directory is cut off");
    return 0;
  }
  size_t name = (size_t)number(at + 28, 2), extra = (size_t)number(at + 30, 2);
  size_t whole = ENTRY_BYTES + name + extra + (size_t)number(at + 32, 2);
  if (whole > room) {
    (void)damaged(message, "its directory is cut off");
    return 0;
  }
  *out = (member_t){.flags = (uint32_t)number(at + 8, 2),
                    .method = (uint32_t)number(at + 10, 2),
                    .crc = (uint32_t)number(at + 16, 4),
                    .packed = number(at + 20, 4),
                    .bytes = number(at + 24, 4),
                    .offset = number(at + 42, 4)};
  *out_name = (const char *)at + ENTRY_BYTES;
  *out_len = name;
  return read_extra(at + ENTRY_BYTES + name, extra, out, message) ? whole : 0;
}

static bool find_member(cli_bytes_t archive, const directory_t *directory, const char *name,
                        member_t *out, char message[CLI_MESSAGE]) {
  const unsigned char *at = archive.at + directory->at;
  size_t room = (size_t)directory->len, len = strlen(name), own_len = 0;
  bool found = false;
  if (directory->n > MOST_MEMBERS)
    return cli_wrong(message, "%llu members; at most %u are read", (unsigned long long)directory->n,
                     MOST_MEMBERS);
  for (uint64_t k = 0; k < directory->n; k++) {
    member_t member;
    const char *own = NULL;
    size_t taken = read_entry(at, room, &member, &own, &own_len, message);
    if (taken == 0)
      return false;
    at += taken;
    room -= taken;
    if (own_len != len || memcmp(own, name, len) != 0)
      continue;
    if (found)
      return cli_wrong(message, "two members are called '%s'", name);
    found = true;
    *out = member;
  }
  return found || cli_wrong(message, "no member is called '%s'", name);
}

// ---- Members --------------------------------------------------------------------------------------
// Where the member's bytes lie.
static bool find_bytes(cli_bytes_t archive, const member_t *member, const char *name,
                       const unsigned char **out, char message[CLI_MESSAGE]) {
  if (archive.len < LOCAL_BYTES || member->offset > archive.len - LOCAL_BYTES)
    return damaged(message, "a member lies beyond the end");
  const unsigned char *at = archive.at + member->offset;
  size_t room = archive.len - (size_t)member->offset - LOCAL_BYTES;
  size_t own = (size_t)number(at + 26, 2), extra = (size_t)number(at + 28, 2);
  if (number(at, 4) != LOCAL_SIGNATURE || number(at + 8, 2) != member->method ||
      own != strlen(name) || own > room || memcmp(at + LOCAL_BYTES, name, own) != 0)
    return damaged(message, "a member's header and the directory disagree");
  if (own + extra > room || member->packed > room - own - extra)
    return damaged(message, "a member lies beyond the end");
  *out = at + LOCAL_BYTES + own + extra;
  return true;
}

// zlib counts in unsigned: what is there is handed over in pieces.
static int inflate_all(z_stream *stream, const unsigned char *from, uint64_t packed,
                       unsigned char *to, uint64_t bytes) {
  const uint64_t piece = 1U << 30;
  int result = Z_OK;
  stream->next_in = (unsigned char *)(uintptr_t)from;
  stream->next_out = to;
  while (result == Z_OK) {
    uint64_t had = packed + bytes;
    uInt in = (uInt)(packed < piece ? packed : piece), room = (uInt)(bytes < piece ? bytes : piece);
    stream->avail_in = in;
    stream->avail_out = room;
    result = inflate(stream, Z_NO_FLUSH);
    packed -= in - stream->avail_in;
    bytes -= room - stream->avail_out;
    if (result == Z_OK && packed + bytes == had)
      break;
  }
  return result == Z_STREAM_END && (packed > 0 || bytes > 0) ? Z_DATA_ERROR : result;
}

static bool unpack(const unsigned char *from, const member_t *member, cli_bytes_t *out,
                   char message[CLI_MESSAGE]) {
  // More than deflate can pack is a lie, found before memory is asked for.
  if (member->bytes / MOST_RATIO > member->packed)
    return damaged(message, "a member says it is larger than its bytes can unpack to");
  if (member->bytes > CLI_FILE_LIMIT)
    return cli_wrong(message, "a member of %llu bytes; at most %zu are read",
                     (unsigned long long)member->bytes, CLI_FILE_LIMIT);
  unsigned char *memory = malloc((size_t)member->bytes + 1);
  z_stream stream = {0};
  if (!memory || inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    free(memory);
    return cli_wrong(message, "no memory for %llu bytes", (unsigned long long)member->bytes);
  }
  int result = inflate_all(&stream, from, member->packed, memory, member->bytes);
  (void)inflateEnd(&stream);
  if (result != Z_STREAM_END) {
    free(memory);
    return damaged(message, "a member cannot be unpacked to the size it has");
  }
  *out = (cli_bytes_t){memory, (size_t)member->bytes, memory};
  return true;
}

static bool open_member(cli_bytes_t archive, const member_t *member, const char *name,
                        cli_bytes_t *out, char message[CLI_MESSAGE]) {
  const unsigned char *from = NULL;
  if (member->flags & 1)
    return cli_wrong(message, "member '%s' is encrypted", name);
  if (member->method != 0 && member->method != 8)
    return cli_wrong(message, "member '%s' is packed by method %u; stored and deflated are read",
                     name, member->method);
  if (!find_bytes(archive, member, name, &from, message))
    return false;
  if (member->method == 8)
    return unpack(from, member, out, message);
  if (member->packed != member->bytes)
    return damaged(message, "a stored member of two sizes");
  *out = (cli_bytes_t){from, (size_t)member->bytes, NULL};
  return true;
}

bool cli_zip_member(cli_bytes_t archive, const char *name, cli_bytes_t *out,
                    char message[CLI_MESSAGE]) {
  directory_t directory = {0, 0, 0};
  member_t member = {0};
  *out = (cli_bytes_t){NULL, 0, NULL};
  if (!find_directory(archive, &directory, message) ||
      !find_member(archive, &directory, name, &member, message) ||
      !open_member(archive, &member, name, out, message))
    return false;
  if (crc32_z(0, out->at, out->len) == member.crc)
    return true;
  cli_bytes_free(out);
  return cli_wrong(message, "member '%s' does not have the checksum that the archive gives", name);
}
