// SPDX-License-Identifier: Apache-2.0
// Parses the header of a safetensors file and checks everything it says. Sorting finds duplicate
// names, so that no choice of names makes it slow.
#include "frontends/safetensors/header.h"

#include "frontends/json/json.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 4096

static const dt_st_dtype_t dtypes[] = {
    {"BOOL", 8, DT_BOOL},
    {"I8", 8, DT_I8},
    {"U8", 8, DT_U8},
    {"I16", 16, DT_I16},
    {"U16", 16, DT_U16},
    {"I32", 32, DT_I32},
    {"U32", 32, DT_U32},
    {"I64", 64, DT_I64},
    {"U64", 64, DT_U64},
    {"F32", 32, DT_F32},
    {"F64", 64, DT_F64},
    {"F16", 16, DT_F16},
    {"BF16", 16, DT_BF16},
    {"C64", 64, DT_DTYPE_NONE},
    {"F8_E5M2", 8, DT_F8E5M2},
    {"F8_E4M3", 8, DT_F8E4M3FN},
    {"F8_E5M2FNUZ", 8, DT_F8E5M2FNUZ},
    {"F8_E4M3FNUZ", 8, DT_F8E4M3FNUZ},
    {"F8_E8M0", 8, DT_F8E8M0},
    {"F6_E2M3", 6, DT_DTYPE_NONE},
    {"F6_E3M2", 6, DT_DTYPE_NONE},
    {"F4", 4, DT_DTYPE_NONE},
};

// What one parse needs; lives on the stack of dt__st_header_parse.
typedef struct parse_t {
  dt_json_t json;
  dt_st_header_t *header;
  const dt_st_limits_t *limits;
  uint64_t data_bytes;
  const char *what;
} parse_t;

// ---- Strings ------------------------------------------------------------------------------------

// Copies a token's text as a C string, which therefore may not hold U+0000.
static dt_status_t copy_text(parse_t *p, const dt_json_token_t *token, const char **out) {
  if (memchr(token->text, '\0', token->len))
    return dt__json_fail(&p->json, token->offset, "a string with U+0000");
  char *copy = DT_ARENA_ARRAY(&p->header->arena, char, token->len + 1);
  if (!copy)
    return DT_NO_MEMORY();
  memcpy(copy, token->text, token->len);
  copy[token->len] = '\0';
  *out = copy;
  return NULL;
}

static bool text_is(const dt_json_token_t *token, const char *word) {
  return token->len == strlen(word) && memcmp(token->text, word, token->len) == 0;
}

// ---- One tensor ---------------------------------------------------------------------------------

static dt_status_t read_dtype(parse_t *p, dt_st_entry_t *entry) {
  dt_json_token_t token;
  DT_TRY(dt__json_expect(&p->json, DT_JSON_STRING, &token));
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
    if (text_is(&token, dtypes[i].name))
      entry->dtype = &dtypes[i];
  if (!entry->dtype)
    return dt__json_fail(&p->json, token.offset, "tensor \"%s\": unknown dtype \"%.*s\"",
                         entry->name, token.len < 32 ? (int)token.len : 32, token.text);
  return NULL;
}

static dt_status_t read_shape(parse_t *p, dt_st_entry_t *entry) {
  int64_t sizes[DT_MAX_RANK];
  dt_json_token_t token;
  DT_TRY(dt__json_expect(&p->json, DT_JSON_ARRAY_BEGIN, &token));
  for (;;) {
    DT_TRY(dt__json_next(&p->json, &token));
    if (token.kind == DT_JSON_ARRAY_END)
      break;
    if (token.kind != DT_JSON_INT || token.integer < 0)
      return dt__json_fail(&p->json, token.offset,
                           "tensor \"%s\": a size must be an integer of 0 or more", entry->name);
    if (token.integer >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_LIMIT, "%s: tensor \"%s\": size %lld, the limit is 2^47", p->what,
                     entry->name, (long long)token.integer);
    if (entry->rank == DT_MAX_RANK)
      return DT_FAIL(DT_E_LIMIT, "%s: tensor \"%s\": more than %d dims", p->what, entry->name,
                     DT_MAX_RANK);
    sizes[entry->rank++] = token.integer;
  }
  int64_t *copy = DT_ARENA_ARRAY(&p->header->arena, int64_t, entry->rank + 1);
  if (!copy)
    return DT_NO_MEMORY();
  memcpy(copy, sizes, entry->rank * sizeof sizes[0]);
  entry->sizes = copy;
  return NULL;
}

static dt_status_t read_offsets(parse_t *p, dt_st_entry_t *entry) {
  dt_json_token_t token;
  uint64_t offsets[2];
  DT_TRY(dt__json_expect(&p->json, DT_JSON_ARRAY_BEGIN, &token));
  for (int i = 0; i < 2; i++) {
    DT_TRY(dt__json_next(&p->json, &token));
    if (token.kind != DT_JSON_INT || token.integer < 0)
      return dt__json_fail(&p->json, token.offset,
                           "tensor \"%s\": data_offsets must be two integers of 0 or more",
                           entry->name);
    offsets[i] = (uint64_t)token.integer;
  }
  DT_TRY(dt__json_expect(&p->json, DT_JSON_ARRAY_END, &token));
  entry->begin = offsets[0];
  entry->end = offsets[1];
  if (entry->begin > entry->end || entry->end > p->data_bytes)
    return dt__json_fail(
        &p->json, token.offset,
        "tensor \"%s\": data_offsets [%llu, %llu] do not lie in %llu bytes of data", entry->name,
        (unsigned long long)entry->begin, (unsigned long long)entry->end,
        (unsigned long long)p->data_bytes);
  return NULL;
}

// shape × dtype must be exactly the bytes between the offsets.
static dt_status_t check_bytes(parse_t *p, const dt_st_entry_t *entry) {
  int64_t count = 1, bits = 0;
  bool fits = true;
  for (uint32_t i = 0; i < entry->rank; i++)
    if (entry->sizes[i] == 0)
      count = 0;
  for (uint32_t i = 0; i < entry->rank && count != 0; i++)
    fits = fits && dt__mul_i64(count, entry->sizes[i], &count);
  fits = fits && dt__mul_i64(count, entry->dtype->bits, &bits);
  if (!fits || bits / 8 >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "%s: tensor \"%s\": its shape asks for 2^47 bytes or more", p->what,
                   entry->name);
  if (bits % 8 != 0 || (uint64_t)bits / 8 != entry->end - entry->begin)
    return DT_FAIL(DT_E_FORMAT,
                   "%s: tensor \"%s\": %lld elements of %s do not fill its %llu bytes exactly",
                   p->what, entry->name, (long long)count, entry->dtype->name,
                   (unsigned long long)(entry->end - entry->begin));
  return NULL;
}

static dt_status_t read_tensor(parse_t *p, dt_st_entry_t *entry) {
  dt_json_token_t token;
  bool shape = false, offsets = false;
  DT_TRY(dt__json_expect(&p->json, DT_JSON_OBJECT_BEGIN, &token));
  size_t offset = token.offset;
  for (;;) {
    DT_TRY(dt__json_next(&p->json, &token));
    if (token.kind == DT_JSON_OBJECT_END)
      break;
    if (text_is(&token, "dtype") && !entry->dtype) {
      DT_TRY(read_dtype(p, entry));
    } else if (text_is(&token, "shape") && !shape) {
      shape = true;
      DT_TRY(read_shape(p, entry));
    } else if (text_is(&token, "data_offsets") && !offsets) {
      offsets = true;
      DT_TRY(read_offsets(p, entry));
    } else {
      return dt__json_fail(&p->json, token.offset,
                           "tensor \"%s\": a key other than dtype, shape and data_offsets, or one "
                           "of them twice",
                           entry->name);
    }
  }
  if (!entry->dtype || !shape || !offsets)
    return dt__json_fail(&p->json, offset, "tensor \"%s\": %s is missing", entry->name,
                         !entry->dtype ? "dtype"
                         : !shape      ? "shape"
                                       : "data_offsets");
  return check_bytes(p, entry);
}

// ---- Metadata -----------------------------------------------------------------------------------

static dt_status_t read_metadata(parse_t *p) {
  dt_st_header_t *header = p->header;
  dt_json_token_t token;
  DT_TRY(dt__json_expect(&p->json, DT_JSON_OBJECT_BEGIN, &token));
  for (;;) {
    dt_st_pair_t pair;
    DT_TRY(dt__json_next(&p->json, &token));
    if (token.kind == DT_JSON_OBJECT_END)
      return NULL;
    DT_TRY(copy_text(p, &token, &pair.key));
    DT_TRY(dt__json_expect(&p->json, DT_JSON_STRING, &token));
    DT_TRY(copy_text(p, &token, &pair.value));
    if (header->metadata.len >= p->limits->tensors)
      return DT_FAIL(DT_E_LIMIT, "%s: more than %u metadata entries", p->what, p->limits->tensors);
    if (!DT_VEC_PUSH(&header->arena, &header->metadata, pair))
      return DT_NO_MEMORY();
  }
}

// ---- The whole ----------------------------------------------------------------------------------

static dt_status_t read_entries(parse_t *p) {
  dt_st_header_t *header = p->header;
  dt_json_token_t token;
  bool metadata = false;
  DT_TRY(dt__json_expect(&p->json, DT_JSON_OBJECT_BEGIN, &token));
  for (;;) {
    DT_TRY(dt__json_next(&p->json, &token));
    if (token.kind == DT_JSON_OBJECT_END)
      break;
    if (text_is(&token, "__metadata__")) {
      if (metadata)
        return dt__json_fail(&p->json, token.offset, "\"__metadata__\" twice");
      metadata = true;
      DT_TRY(read_metadata(p));
      continue;
    }
    if (token.len > MAX_NAME_BYTES)
      return DT_FAIL(DT_E_LIMIT, "%s: byte %zu: a tensor name of %zu bytes, the limit is %d",
                     p->what, token.offset, token.len, MAX_NAME_BYTES);
    if (header->entries.len >= p->limits->tensors)
      return DT_FAIL(DT_E_LIMIT, "%s: more than %u tensors", p->what, p->limits->tensors);
    dt_st_entry_t entry = {0};
    DT_TRY(copy_text(p, &token, &entry.name));
    DT_TRY(read_tensor(p, &entry));
    if (!DT_VEC_PUSH(&header->arena, &header->entries, entry))
      return DT_NO_MEMORY();
  }
  // Only spaces may follow the object; other JSON white space would not be this format.
  for (const char *at = p->json.at; at < p->json.end; at++)
    if (*at != ' ')
      return dt__json_fail(&p->json, (size_t)(at - p->json.begin),
                           "something other than spaces after the header's object");
  return NULL;
}

static int compare_place(const void *left, const void *right) {
  const dt_st_entry_t *a = left, *b = right;
  if (a->begin != b->begin)
    return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end)
    return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

static int compare_name(const void *left, const void *right) {
  const dt_st_entry_t *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

static int compare_key(const void *left, const void *right) {
  const dt_st_pair_t *a = left, *b = right;
  return strcmp(a->key, b->key);
}

// In order of place, each tensor must begin where the one before it ended, and the last one must
// end with the data.
static dt_status_t check_coverage(parse_t *p) {
  dt_st_header_t *header = p->header;
  uint64_t at = 0;
  for (uint32_t i = 0; i < header->entries.len; i++) {
    const dt_st_entry_t *entry = &header->entries.items[i];
    if (entry->begin != at)
      return DT_FAIL(DT_E_FORMAT, "%s: tensor \"%s\" begins at byte %llu of the data, %s %llu",
                     p->what, entry->name, (unsigned long long)entry->begin,
                     entry->begin < at ? "overlapping the one that ends at"
                                       : "leaving a gap after byte",
                     (unsigned long long)at);
    at = entry->end;
  }
  if (at != p->data_bytes)
    return DT_FAIL(DT_E_FORMAT, "%s: the tensors cover %llu of %llu bytes of data", p->what,
                   (unsigned long long)at, (unsigned long long)p->data_bytes);
  return NULL;
}

static dt_status_t index_names(parse_t *p) {
  dt_st_header_t *header = p->header;
  uint32_t count = header->entries.len;
  header->by_name = DT_ARENA_ARRAY(&header->arena, const dt_st_entry_t *, (size_t)count + 1);
  if (!header->by_name)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < count; i++)
    header->by_name[i] = &header->entries.items[i];
  qsort(header->by_name, count, sizeof header->by_name[0], compare_name);
  for (uint32_t i = 1; i < count; i++)
    if (strcmp(header->by_name[i - 1]->name, header->by_name[i]->name) == 0)
      return DT_FAIL(DT_E_FORMAT, "%s: tensor \"%s\" is there twice", p->what,
                     header->by_name[i]->name);

  uint32_t pairs = header->metadata.len;
  if (pairs > 0)
    qsort(header->metadata.items, pairs, sizeof header->metadata.items[0], compare_key);
  for (uint32_t i = 1; i < pairs; i++)
    if (strcmp(header->metadata.items[i - 1].key, header->metadata.items[i].key) == 0)
      return DT_FAIL(DT_E_FORMAT, "%s: metadata key \"%.64s\" is there twice", p->what,
                     header->metadata.items[i].key);
  return NULL;
}

static dt_status_t parse_all(parse_t *p, const char *text, size_t bytes) {
  if (bytes == 0 || text[0] != '{')
    return DT_FAIL(DT_E_FORMAT, "%s: the header does not begin with '{'", p->what);
  // A tensor is {"dtype", "shape": […], …} inside the outermost object: three levels.
  dt_json_limits_t limits = {.total_bytes = bytes, .string_bytes = bytes, .depth = 3};
  DT_TRY(dt__json_init(&p->json, text, bytes, p->what, &limits));
  DT_TRY(read_entries(p));
  if (p->header->entries.len > 0)
    qsort(p->header->entries.items, p->header->entries.len, sizeof p->header->entries.items[0],
          compare_place);
  DT_TRY(index_names(p));
  return check_coverage(p);
}

dt_status_t dt__st_header_parse(dt_st_header_t *header, const char *text, size_t bytes,
                                uint64_t data_bytes, const dt_st_limits_t *limits,
                                const char *what) {
  parse_t p = {.header = header, .limits = limits, .data_bytes = data_bytes, .what = what};
  dt__arena_init(&header->arena, 0);
  dt_status_t status = parse_all(&p, text, bytes);
  dt__json_fini(&p.json);
  return status;
}

void dt__st_header_fini(dt_st_header_t *header) { dt__arena_fini(&header->arena); }

const dt_st_entry_t *dt__st_header_find(const dt_st_header_t *header, const char *name) {
  if (header->entries.len == 0)
    return NULL;
  dt_st_entry_t key = {.name = name};
  const dt_st_entry_t *probe = &key;
  const dt_st_entry_t *const *found = bsearch(&probe, header->by_name, header->entries.len,
                                              sizeof header->by_name[0], compare_name);
  return found ? *found : NULL;
}

const dt_st_pair_t *dt__st_header_metadata(const dt_st_header_t *header, const char *key) {
  if (header->metadata.len == 0)
    return NULL;
  dt_st_pair_t probe = {.key = key};
  return bsearch(&probe, header->metadata.items, header->metadata.len,
                 sizeof header->metadata.items[0], compare_key);
}
