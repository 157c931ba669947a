// SPDX-License-Identifier: Apache-2.0
// .npz archives: stored, deflated and 64-bit members, what is written is read again, one refusal a
// rule, bombs, every truncation and every changed bit.
#include "test/support/check.h"

#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MOST 8192

typedef struct archive_t {
  unsigned char bytes[MOST];
  size_t len;
} archive_t;

static void put(archive_t *archive, uint64_t value, uint32_t bytes) {
  for (uint32_t k = 0; k < bytes; k++)
    archive->bytes[archive->len++] = (unsigned char)(k < 8 ? (value >> (8 * k)) & 0xff : 0);
}

static void put_bytes(archive_t *archive, const void *from, size_t len) {
  memcpy(archive->bytes + archive->len, from, len);
  archive->len += len;
}

// ---- Making archives ------------------------------------------------------------------------------
// One member "x.npy" of `text`. What a fault changes is a field of its own; zeroed, all is right.
typedef struct how_t {
  bool deflated, wide; // wide: 64-bit sizes everywhere
  uint32_t flags, method_here, crc_off, disk;
  uint64_t more_bytes, more_packed, more_offset, more_members, more_directory;
  const char *local_name; // in place of the name in the member's own header
  bool twice, no_extra;
  size_t comment;
} how_t;

static const char text[] = "elements elements elements elements elements elements elements";

static size_t pack(const how_t *how, unsigned char *out, size_t room) {
  if (!how->deflated) {
    memcpy(out, text, sizeof(text));
    return sizeof(text);
  }
  z_stream stream = {0};
  assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = (unsigned char *)(uintptr_t)text;
  stream.avail_in = sizeof(text);
  stream.next_out = out;
  stream.avail_out = (uInt)room;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  (void)deflateEnd(&stream);
  return room - stream.avail_out;
}

static void put_entry(archive_t *archive, const how_t *how, size_t packed) {
  uint32_t crc = (uint32_t)crc32(0, (const unsigned char *)text, sizeof(text)) + how->crc_off;
  uint64_t bytes = sizeof(text) + how->more_bytes, whole = packed + how->more_packed;
  bool extra = how->wide && !how->no_extra;
  put(archive, 0x02014b50, 4);
  put(archive, 45, 2);
  put(archive, 45, 2);
  put(archive, how->flags, 2);
  put(archive, how->method_here ? how->method_here : how->deflated ? 8 : 0, 2);
  put(archive, 0, 4);
  put(archive, crc, 4);
  put(archive, how->wide ? UINT32_MAX : whole, 4);
  put(archive, how->wide ? UINT32_MAX : bytes, 4);
  put(archive, 5, 2);
  put(archive, extra ? 8 + 28 : 0, 2);
  put(archive, 0, 2);
  put(archive, 0, 8);
  put(archive, how->wide ? UINT32_MAX : how->more_offset, 4);
  put_bytes(archive, "x.npy", 5);
  if (!extra)
    return;
  put(archive, 0x5455, 2); // a field that is not looked at
  put(archive, 4, 2);
  put(archive, 0, 4);
  put(archive, 1, 2);
  put(archive, 24, 2);
  put(archive, bytes, 8);
  put(archive, whole, 8);
  put(archive, how->more_offset, 8);
}

static void put_end(archive_t *archive, const how_t *how, size_t at) {
  uint64_t n = 1 + how->twice + how->more_members;
  uint64_t len = archive->len - at + how->more_directory;
  size_t end64 = archive->len;
  if (how->wide) {
    put(archive, 0x06064b50, 4);
    put(archive, 44, 8);
    put(archive, 45, 2);
    put(archive, 45, 2);
    put(archive, how->disk, 4);
    put(archive, 0, 4);
    put(archive, n, 8);
    put(archive, n, 8);
    put(archive, len, 8);
    put(archive, at, 8);
    put(archive, 0x07064b50, 4);
    put(archive, 0, 4);
    put(archive, end64, 8);
    put(archive, 1, 4);
  }
  put(archive, 0x06054b50, 4);
  put(archive, how->disk, 2);
  put(archive, 0, 2);
  put(archive, how->wide ? UINT16_MAX : n, 2);
  put(archive, how->wide ? UINT16_MAX : n, 2);
  put(archive, how->wide ? UINT32_MAX : len, 4);
  put(archive, how->wide ? UINT32_MAX : at, 4);
  put(archive, how->comment, 2);
  for (size_t k = 0; k < how->comment; k++)
    put(archive, 'P', 1);
}

static archive_t make(how_t how) {
  archive_t archive = {.len = 0};
  unsigned char packed[1024];
  size_t len = pack(&how, packed, sizeof(packed));
  const char *name = how.local_name ? how.local_name : "x.npy";
  put(&archive, 0x04034b50, 4);
  put(&archive, 20, 2);
  put(&archive, how.flags, 2);
  put(&archive, how.deflated ? 8 : 0, 2);
  put(&archive, 0, 16); // sizes may be left to the directory
  put(&archive, strlen(name), 2);
  put(&archive, 3, 2);
  put_bytes(&archive, name, strlen(name));
  put_bytes(&archive, "\0\0", 3);
  put_bytes(&archive, packed, len);
  size_t at = archive.len;
  put_entry(&archive, &how, len);
  if (how.twice)
    put_entry(&archive, &how, len);
  put_end(&archive, &how, at);
  return archive;
}

// The archive's bytes stand in a block of their own, so that a read behind them is seen.
static bool read_member(const archive_t *archive, size_t len, const char *name,
                        char message[CLI_MESSAGE]) {
  unsigned char *block = malloc(len + (len == 0));
  cli_bytes_t member;
  assert_non_null(block);
  if (len > 0)
    memcpy(block, archive->bytes, len);
  bool done = cli_zip_member((cli_bytes_t){block, len, NULL}, name, &member, message);
  if (done) {
    assert_int_equal(member.len, sizeof(text));
    assert_memory_equal(member.at, text, sizeof(text));
  }
  cli_bytes_free(&member);
  free(block);
  return done;
}

// ---- Good archives --------------------------------------------------------------------------------
static void test_good(void **state) {
  (void)state;
  char message[CLI_MESSAGE];
  for (int k = 0; k < 8; k++) {
    archive_t archive =
        make((how_t){.deflated = k & 1, .wide = k & 2, .comment = k & 4 ? 300 : 0, .flags = 8});
    if (!read_member(&archive, archive.len, "x.npy", message))
      fail_msg("%d: %s", k, message);
    assert_false(read_member(&archive, archive.len, "y.npy", message));
    assert_string_equal(message, "no member is called 'y.npy'");
  }
}

static void test_write(void **state) {
  (void)state;
  char message[CLI_MESSAGE];
  dt_tensor_t *tensors[3] = {NULL};
  const char *names[3] = {"x", "a/b", "nothing"};
  for (int64_t k = 0; k < 3; k++) {
    assert_null(dt_tensor_create_empty(DT_I64, 1, (int64_t[]){2 - k}, &tensors[k]));
    for (int64_t i = 0; i < 2 - k; i++)
      ((int64_t *)dt_tensor_data(tensors[k]))[i] = 10 * k + i;
  }
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_true(cli_npz_write(file, names, tensors, 3, message));
  archive_t archive = {.len = 0};
  rewind(file);
  archive.len = fread(archive.bytes, 1, MOST, file);
  (void)fclose(file);
  for (int k = 0; k < 3; k++) {
    char name[16];
    cli_bytes_t member;
    dt_tensor_t *again = NULL;
    (void)snprintf(name, sizeof(name), "%s.npy", names[k]);
    cli_bytes_t whole = {archive.bytes, archive.len, NULL};
    assert_true(cli_zip_member(whole, name, &member, message));
    assert_true(cli_npy_read(member, &again, message));
    assert_int_equal(dt_tensor_count(again), 2 - k);
    assert_memory_equal(dt_tensor_data(again), dt_tensor_data(tensors[k]), (size_t)(2 - k) * 8);
    dt_tensor_release(again);
    dt_tensor_release(tensors[k]);
    cli_bytes_free(&member);
  }
}

// ---- Faults ---------------------------------------------------------------------------------------
static void test_faults(void **state) {
  (void)state;
  static const struct {
    how_t how;
    const char *message;
  } rows[] = {
      {{.flags = 1}, "encrypted"},
      {{.method_here = 12}, "method 12"},
      {{.deflated = true, .method_here = 0xffff}, "method 65535"},
      {{.method_here = 8}, "disagree"},
      {{.crc_off = 1}, "checksum"},
      {{.deflated = true, .crc_off = 1}, "checksum"},
      {{.more_bytes = 1}, "two sizes"},
      {{.more_packed = 1}, "two sizes"},
      {{.more_packed = 4096, .more_bytes = 4096}, "beyond the end"},
      {{.deflated = true, .more_packed = 4096}, "beyond the end"},
      {{.deflated = true, .more_bytes = 1}, "cannot be unpacked"},
      {{.deflated = true, .more_bytes = (uint64_t)-1}, "cannot be unpacked"},
      {{.deflated = true, .more_packed = 1}, "cannot be unpacked"},
      {{.deflated = true, .more_bytes = 0x7fffffff}, "larger than its bytes"},
      {{.deflated = true, .wide = true, .more_bytes = (uint64_t)1 << 62}, "larger than its bytes"},
      {{.wide = true, .more_packed = (uint64_t)-100, .more_bytes = (uint64_t)-100},
       "beyond the end"},
      {{.more_offset = 100000}, "beyond the end"},
      {{.wide = true, .more_offset = (uint64_t)-40}, "beyond the end"},
      {{.more_offset = 1}, "disagree"},
      {{.local_name = "y.npy"}, "disagree"},
      {{.local_name = "x.npyx"}, "disagree"},
      {{.twice = true}, "two members"},
      {{.more_members = 1}, "directory is cut off"},
      {{.wide = true, .more_members = 65536}, "at most 65536"},
      {{.more_directory = 1}, "directory is cut off"},
      {{.wide = true, .more_directory = 1}, "directory is cut off"},
      {{.wide = true, .more_directory = (uint64_t)1 << 63}, "directory is cut off"},
      {{.disk = 1}, "several parts"},
      {{.wide = true, .disk = 1}, "several parts"},
      {{.wide = true, .no_extra = true}, "64-bit sizes"},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    char message[CLI_MESSAGE];
    archive_t archive = make(rows[k].how);
    if (read_member(&archive, archive.len, "x.npy", message))
      fail_msg("row %zu: taken", k);
    if (!strstr(message, rows[k].message))
      fail_msg("row %zu: \"%s\", expected \"%s\"", k, message, rows[k].message);
  }
}

static void test_damage(void **state) {
  (void)state;
  char message[CLI_MESSAGE];
  for (int k = 0; k < 4; k++) {
    archive_t archive = make((how_t){.deflated = k & 1, .wide = k & 2});
    for (size_t len = 0; len < archive.len; len++)
      assert_false(read_member(&archive, len, "x.npy", message));
    for (size_t bit = 0; bit < 8 * archive.len; bit++) {
      archive.bytes[bit / 8] ^= (unsigned char)(1 << (bit % 8));
      (void)read_member(&archive, archive.len, "x.npy", message);
      archive.bytes[bit / 8] ^= (unsigned char)(1 << (bit % 8));
    }
  }
}

RUN_TESTS(TEST(test_good), TEST(test_write), TEST(test_faults), TEST(test_damage))
