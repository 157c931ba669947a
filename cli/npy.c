// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files: a header, which is a Python literal of three keys, then the elements. The
// format is that of numpy's NEP 1 with versions 2 (longer headers) and 3 (UTF-8 in them).
#include "cli/tensor_file.h"

#include "cli/options.h"

#include <string.h>

// numpy itself refuses headers above 10 000 bytes.
#define MOST_HEADER 65536

// ---- Element types --------------------------------------------------------------------------------
static const struct {
  const char *kind; // as in descr, without the byte order
  dt_dtype_t dtype;
} types[] = {
    {"b1", DT_BOOL}, {"i1", DT_I8},  {"i2", DT_I16}, {"i4", DT_I32}, {"i8", DT_I64},
    {"u1", DT_U8},   {"u2", DT_U16}, {"u4", DT_U32}, {"u8", DT_U64}, {"f2", DT_F16},
    {"V2", DT_BF16}, {"f4", DT_F32}, {"f8", DT_F64},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

// ---- The header -----------------------------------------------------------------------------------
typedef struct header_t {
  dt_dtype_t dtype;
  bool swapped, fortran;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  uint32_t seen; // bits of the keys
} header_t;

typedef struct reader_t {
  const char *at; // NUL-terminated
  char *message;
} reader_t;

static void skip_blanks(reader_t *r) { r->at += strspn(r->at, " \t\r\n"); }

static bool take(reader_t *r, char c) {
  skip_blanks(r);
  if (*r->at != c)
    return false;
  r->at++;
  return true;
}

static bool expect(reader_t *r, char c) {
  return take(r, c) || cli_wrong(r->message, "its header: expected '%c' at '%.24s'", c, r->at);
}

// A text in quotes of either kind, without escapes; `room` counts the NUL.
static bool read_text(reader_t *r, char *out, size_t room) {
  skip_blanks(r);
  char quote = *r->at;
  if (quote != '\'' && quote != '"')
    return cli_wrong(r->message, "its header: expected a text at '%.24s'", r->at);
  const char *end = strchr(r->at + 1, quote);
  size_t len = end ? (size_t)(end - r->at - 1) : room;
  if (len >= room || memchr(r->at + 1, '\\', len))
    return cli_wrong(r->message, "its header: not a plain text at '%.24s'", r->at);
  memcpy(out, r->at + 1, len);
  out[len] = '\0';
  r->at = end + 1;
  return true;
}

static bool read_descr(reader_t *r, header_t *header) {
  char text[16];
  skip_blanks(r);
  if (*r->at == '[')
    return cli_wrong(r->message, "a structured element type; convert it to a plain one");
  if (!read_text(r, text, sizeof(text)))
    return false;
  const char *kind = text + (text[0] && strchr("<>=|", text[0]) ? 1 : 0);
  header->swapped = text[0] == '>';
  for (size_t k = 0; k < N_TYPES; k++) {
    if (strcmp(kind, types[k].kind) == 0) {
      header->dtype = types[k].dtype;
      return true;
    }
  }
  return cli_wrong(r->message,
                   "element type '%s' is not read; booleans, integers, f2 to f8 and bfloat16 are",
                   text);
}

static bool read_order(reader_t *r, header_t *header) {
  skip_blanks(r);
  header->fortran = strncmp(r->at, "True", 4) == 0;
  if (!header->fortran && strncmp(r->at, "False", 5) != 0)
    return cli_wrong(r->message, "its header: expected True or False at '%.24s'", r->at);
  r->at += header->fortran ? 4 : 5;
  return true;
}

static bool read_shape(reader_t *r, header_t *header) {
  if (!expect(r, '('))
    return false;
  while (!take(r, ')')) {
    if (header->rank == DT_MAX_RANK)
      return cli_wrong(r->message, "more than %d dims", DT_MAX_RANK);
    skip_blanks(r);
    if (!cli_read_count(&r->at, "L,) ", 0, DT_SIZE_LIMIT - 1, &header->sizes[header->rank]))
      return cli_wrong(r->message, "its header: no size below 2^47 at '%.24s'", r->at);
    header->rank++;
    (void)take(r, 'L'); // Python 2 wrote long integers so
    if (!take(r, ',')) {
      if (header->rank == 1)
        return cli_wrong(r->message, "its header: the shape is no tuple");
      return expect(r, ')');
    }
  }
  return true;
}

static bool read_key(reader_t *r, header_t *header) {
  static const struct {
    const char *key;
    bool (*read)(reader_t *r, header_t *header);
  } keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
  char name[24];
  if (!read_text(r, name, sizeof(name)) || !expect(r, ':'))
    return false;
  for (uint32_t k = 0; k < 3; k++) {
    if (strcmp(name, keys[k].key) != 0)
      continue;
    if (header->seen >> k & 1)
      return cli_wrong(r->message, "its header: '%s' stands twice", name);
    header->seen |= 1U << k;
    return keys[k].read(r, header);
  }
  return cli_wrong(r->message, "its header: no key is called '%s'", name);
}

static bool read_literal(reader_t *r, header_t *header) {
  if (!expect(r, '{'))
    return false;
  while (!take(r, '}')) {
    if (!read_key(r, header))
      return false;
    if (!take(r, ',')) {
      if (!expect(r, '}'))
        return false;
      break;
    }
  }
  skip_blanks(r);
  if (*r->at)
    return cli_wrong(r->message, "its header: '%.24s' stands behind the end", r->at);
  return header->seen == 7 ||
         cli_wrong(r->message, "its header lacks descr, fortran_order or shape");
}

// The header's text; `rest` is what follows.
static bool find_literal(cli_bytes_t bytes, char text[MOST_HEADER + 1], cli_bytes_t *rest,
                         char message[CLI_MESSAGE]) {
  static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (bytes.len < 10 || memcmp(bytes.at, magic, sizeof(magic)) != 0)
    return cli_wrong(message, "not a .npy file");
  unsigned major = bytes.at[6];
  if (major < 1 || major > 3 || bytes.at[7] != 0)
    return cli_wrong(message, ".npy version %u.%u; 1.0 to 3.0 are read", major, bytes.at[7]);
  size_t start = major == 1 ? 10 : 12;
  if (bytes.len < start)
    return cli_wrong(message, "its header is cut off");
  size_t len = bytes.at[8] | (size_t)bytes.at[9] << 8;
  if (major > 1)
    len |= (size_t)bytes.at[10] << 16 | (size_t)bytes.at[11] << 24;
  if (len > MOST_HEADER)
    return cli_wrong(message, "its header has %zu bytes; at most %d are read", len, MOST_HEADER);
  if (len > bytes.len - start)
    return cli_wrong(message, "its header is cut off");
  if (memchr(bytes.at + start, 0, len))
    return cli_wrong(message, "its header has a NUL");
  memcpy(text, bytes.at + start, len);
  text[len] = '\0';
  *rest = (cli_bytes_t){bytes.at + start + len, bytes.len - start - len, NULL};
  return true;
}

// ---- Elements -------------------------------------------------------------------------------------
static void copy_element(unsigned char *to, const unsigned char *from, size_t size, bool swapped) {
  for (size_t k = 0; k < size; k++)
    to[k] = from[swapped ? size - 1 - k : k];
}

// From first index fastest to last index fastest.
static void copy_fortran(const header_t *header, const unsigned char *from, unsigned char *to,
                         int64_t count) {
  size_t size = dt_dtype_size(header->dtype);
  int64_t index[DT_MAX_RANK] = {0}, strides[DT_MAX_RANK], step = 1, at = 0;
  for (uint32_t d = 0; d < header->rank && count > 0; d++) {
    strides[d] = step;
    step *= header->sizes[d];
  }
  for (int64_t k = 0; k < count; k++) {
    copy_element(to + (size_t)k * size, from + (size_t)at * size, size, header->swapped);
    for (uint32_t d = header->rank; d-- > 0;) {
      at += strides[d];
      if (++index[d] < header->sizes[d])
        break;
      at -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

static bool copy_elements(const header_t *header, cli_bytes_t from, dt_tensor_t *tensor,
                          char message[CLI_MESSAGE]) {
  size_t size = dt_dtype_size(header->dtype);
  int64_t count = dt_tensor_count(tensor);
  unsigned char *to = dt_tensor_data(tensor);
  if (header->fortran && header->rank > 1) {
    copy_fortran(header, from.at, to, count);
  } else if (header->swapped && size > 1) {
    for (int64_t k = 0; k < count; k++)
      copy_element(to + (size_t)k * size, from.at + (size_t)k * size, size, true);
  } else if (from.len > 0) {
    memcpy(to, from.at, from.len);
  }
  for (int64_t k = 0; k < count && header->dtype == DT_BOOL; k++) {
    if (to[k] > 1)
      return cli_wrong(message, "element %lld is %u, which is no boolean", (long long)k, to[k]);
  }
  return true;
}

// The bytes that the elements need must be just those that are there.
static bool check_bytes(const header_t *header, size_t there, char message[CLI_MESSAGE]) {
  int64_t needed = (int64_t)dt_dtype_size(header->dtype);
  bool empty = false;
  for (uint32_t d = 0; d < header->rank; d++)
    empty |= header->sizes[d] == 0;
  for (uint32_t d = 0; d < header->rank && !empty; d++) {
    if (__builtin_mul_overflow(needed, header->sizes[d], &needed) || needed >= DT_SIZE_LIMIT)
      return cli_wrong(message, "its sizes are too large");
  }
  needed = empty ? 0 : needed;
  return (size_t)needed == there ||
         cli_wrong(message, "%zu bytes of elements where its header needs %lld", there,
                   (long long)needed);
}

bool cli_npy_read(cli_bytes_t bytes, dt_tensor_t **out, char message[CLI_MESSAGE]) {
  static _Thread_local char text[MOST_HEADER + 1];
  header_t header = {0};
  reader_t reader = {text, message};
  cli_bytes_t elements = {NULL, 0, NULL};
  *out = NULL;
  if (!find_literal(bytes, text, &elements, message) || !read_literal(&reader, &header) ||
      !check_bytes(&header, elements.len, message))
    return false;
  dt_status_t status = dt_tensor_create_empty(header.dtype, header.rank, header.sizes, out);
  if (status) {
    (void)cli_wrong(message, "%s", dt_status_message(status));
    dt_status_free(status);
    return false;
  }
  if (copy_elements(&header, elements, *out, message))
    return true;
  dt_tensor_release(*out);
  *out = NULL;
  return false;
}

// ---- Writing --------------------------------------------------------------------------------------
size_t cli_npy_header(const dt_tensor_t *tensor, char out[CLI_NPY_HEADER]) {
  const char *kind = "";
  for (size_t k = 0; k < N_TYPES; k++) {
    if (types[k].dtype == dt_tensor_dtype(tensor))
      kind = types[k].kind;
  }
  char order = dt_dtype_size(dt_tensor_dtype(tensor)) == 1 ? '|' : '<';
  char *text = out + 10;
  size_t room = CLI_NPY_HEADER - 10;
  size_t len = (size_t)snprintf(text, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                                order, kind);
  uint32_t rank = dt_tensor_rank(tensor);
  for (uint32_t d = 0; d < rank; d++)
    len += (size_t)snprintf(text + len, room - len, "%s%lld%s", d > 0 ? " " : "",
                            (long long)dt_tensor_sizes(tensor)[d],
                            d + 1 < rank || rank == 1 ? "," : "");
  len += (size_t)snprintf(text + len, room - len, "), }");
  // The elements begin at a multiple of 64 bytes, and the header ends with a new line.
  size_t whole = (10 + len + 1 + 63) / 64 * 64;
  memset(text + len, ' ', whole - 10 - len - 1);
  out[whole - 1] = '\n';
  memcpy(out, "\x93NUMPY\x01", 8);
  out[8] = (char)((whole - 10) & 255);
  out[9] = (char)((whole - 10) >> 8);
  return whole;
}
