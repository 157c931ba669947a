// SPDX-License-Identifier: Apache-2.0
// External data.
#include "frontends/onnx/external.h"

#include "frontends/onnx/visit.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <stdlib.h>
#include <string.h>

#define SHOW(str) dt__onnx_show(str).text

// ---- What the model says --------------------------------------------------------------------------
typedef struct entry_t {
  const char *what;
  const dt_onnx_at_t *at;
  const dt_onnx_tensor_t *tensor;
  dt_onnx_location_t *out;
  dt_onnx_str_t value;
} entry_t;

#define FAIL(e, code, ...)                                                                         \
  dt__onnx_fail((e)->what, (code), (e)->at, (e)->tensor->head.offset, __VA_ARGS__)

static bool next_component(dt_onnx_str_t path, size_t *at, dt_onnx_str_t *out) {
  if (*at > path.len)
    return false;
  const char *begin = path.at + *at;
  const char *slash = memchr(begin, '/', path.len - *at);
  *out = (dt_onnx_str_t){begin, slash ? (size_t)(slash - begin) : path.len - *at};
  *at += out->len + 1;
  return true;
}

static dt_status_t read_path(const entry_t *e) {
  dt_onnx_str_t path = e->value, part;
  if (path.len > DT_ONNX_MAX_NAME_BYTES)
    return FAIL(e, DT_E_LIMIT, "a location of %zu bytes, the limit is %u", path.len,
                DT_ONNX_MAX_NAME_BYTES);
  if (path.len == 0 || memchr(path.at, '\0', path.len))
    return FAIL(e, DT_E_FORMAT, "the location of external data is empty, or holds a zero byte");
  if (path.at[0] == '/')
    return FAIL(e, DT_E_FORMAT,
                "external data at \"%s\": an absolute path; it must lie beneath the model's folder",
                SHOW(path));
  while (path.len > 2 && path.at[0] == '.' && path.at[1] == '/')
    path = (dt_onnx_str_t){path.at + 2, path.len - 2};
  for (size_t at = 0; next_component(path, &at, &part);) {
    if (dt__onnx_str_is(part, ".."))
      return FAIL(e, DT_E_FORMAT,
                  "external data at \"%s\": \"..\" could lead out of the model's folder",
                  SHOW(path));
    if (part.len == 0 || dt__onnx_str_is(part, "."))
      return FAIL(e, DT_E_FORMAT, "external data at \"%s\": an empty name, or \".\", in the path",
                  SHOW(path));
  }
  e->out->path = path;
  return NULL;
}

static bool read_decimal(dt_onnx_str_t text, uint64_t *out) {
  uint64_t value = 0;
  for (size_t k = 0; k < text.len; k++) {
    if (text.at[k] < '0' || text.at[k] > '9' || value > (uint64_t)DT_SIZE_LIMIT)
      return false;
    value = 10 * value + (uint64_t)(text.at[k] - '0');
  }
  *out = value;
  return text.len > 0;
}

static dt_status_t read_offset(const entry_t *e) {
  if (!read_decimal(e->value, &e->out->offset) || e->out->offset > (uint64_t)DT_SIZE_LIMIT)
    return FAIL(e, DT_E_FORMAT, "external data: offset \"%s\" is no number from 0 to 2^47",
                SHOW(e->value));
  return NULL;
}

static dt_status_t read_length(const entry_t *e) {
  uint64_t length = 0;
  if (!read_decimal(e->value, &length))
    return FAIL(e, DT_E_FORMAT, "external data: length \"%s\" is no number from 0 to 2^47",
                SHOW(e->value));
  if (length != e->tensor->bytes)
    return FAIL(e, DT_E_FORMAT, "tensor \"%s\" needs %llu bytes, its external data has length %llu",
                SHOW(e->tensor->name.text), (unsigned long long)e->tensor->bytes,
                (unsigned long long)length);
  return NULL;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static dt_status_t read_checksum(const entry_t *e) {
  bool good = e->value.len == 2 * (size_t)DT_SHA1_BYTES;
  for (size_t k = 0; good && k < DT_SHA1_BYTES; k++) {
    int high = hex_digit(e->value.at[2 * k]), low = hex_digit(e->value.at[2 * k + 1]);
    good = high >= 0 && low >= 0;
    unsigned byte = good ? (unsigned)high << 4 | (unsigned)low : 0;
    e->out->checksum[k] = (unsigned char)byte;
  }
  if (!good)
    return FAIL(e, DT_E_FORMAT,
                "external data: checksum \"%s\" is no SHA-1 of 40 hexadecimal digits",
                SHOW(e->value));
  e->out->has_checksum = true;
  return NULL;
}

static const struct {
  const char *key;
  dt_status_t (*read)(const entry_t *e);
} keys[] = {
    {"location", read_path},
    {"offset", read_offset},
    {"length", read_length},
    {"checksum", read_checksum},
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

dt_status_t dt__onnx_read_location(const char *what, const dt_onnx_tensor_t *tensor,
                                   const dt_onnx_at_t *at, dt_onnx_location_t *out) {
  dt_onnx_location_t location = {0};
  entry_t entry = {what, at, tensor, &location, {0}}, *e = &entry;
  bool seen[N_KEYS] = {false};
  for (uint32_t k = 0; k < tensor->external_data.len; k++) {
    const dt_onnx_entry_t *pair = &tensor->external_data.items[k];
    entry.value = pair->value;
    for (size_t i = 0; i < N_KEYS; i++) {
      if (!dt__onnx_str_is(pair->key, keys[i].key))
        continue;
      if (seen[i])
        return FAIL(e, DT_E_FORMAT, "external data: key \"%s\" is there twice", keys[i].key);
      seen[i] = true;
      DT_TRY(keys[i].read(e));
    }
  }
  if (!seen[0])
    return FAIL(e, DT_E_FORMAT, "tensor \"%s\" is external, but has no location",
                SHOW(tensor->name.text));
  if (out)
    *out = location;
  return NULL;
}

// ---- Memory in the place of files -----------------------------------------------------------------
static int compare_memory(const void *left, const void *right) {
  return strcmp(((const dt_onnx_memory_t *)left)->name, ((const dt_onnx_memory_t *)right)->name);
}

dt_status_t dt__onnx_set_memory(dt_onnx_externals_t *externals, const dt_onnx_options_t *options,
                                dt_arena_t *arena) {
  uint32_t n = options->n_memory;
  if (n > 0 && !options->memory)
    return DT_FAIL(DT_E_ARGUMENT, "onnx options: memory is NULL");
  externals->memory.items = DT_ARENA_ARRAY(arena, dt_onnx_memory_t, n);
  if (n > 0 && !externals->memory.items)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    dt_onnx_memory_t *memory = &externals->memory.items[k];
    DT_TRY(DT_ELEMENT_TAKE(dt_onnx_memory_t, memory, options->memory, options->memory_size, k));
    if (!memory->name || (!memory->data && memory->bytes > 0))
      return DT_FAIL(DT_E_ARGUMENT, "onnx options: memory[%u]: %s is NULL", k,
                     memory->name ? "data" : "name");
    memory->name = dt__arena_strdup(arena, memory->name);
    if (!memory->name)
      return DT_NO_MEMORY();
  }
  if (n > 0)
    qsort(externals->memory.items, n, sizeof(dt_onnx_memory_t), compare_memory);
  for (uint32_t k = 1; k < n; k++)
    if (compare_memory(&externals->memory.items[k - 1], &externals->memory.items[k]) == 0)
      return DT_FAIL(DT_E_ARGUMENT, "onnx options: memory: two are named \"%s\"",
                     externals->memory.items[k].name);
  externals->memory.len = n;
  return NULL;
}

static const dt_onnx_memory_t *find_memory(const dt_onnx_externals_t *externals, const char *name) {
  dt_onnx_memory_t key = {.name = name};
  return externals->memory.len == 0 ? NULL
                                    : bsearch(&key, externals->memory.items, externals->memory.len,
                                              sizeof(key), compare_memory);
}

// ---- Finding files --------------------------------------------------------------------------------
typedef struct place_t {
  dt_onnx_tensor_t *tensor;
  dt_onnx_location_t location;
} place_t;

typedef struct finding_t {
  dt_onnx_externals_t *externals;
  dt_onnx_model_t *model;
  const char *what;
  dt_arena_t *arena;
  const dt_onnx_limits_t *limits;
  dt_onnx_pace_t *pace;
  DT_VEC(place_t) places;
  const dt_onnx_tensor_t *wanted; // of a failure
  dt_status_t failure;
} finding_t;

static dt_status_t add_place(void *user, const dt_onnx_message_t *message, void *out,
                             const dt_onnx_at_t *at) {
  finding_t *f = user;
  place_t place = {.tensor = out};
  DT_TRY(dt__onnx_go_on(f->pace, 4));
  if (message != &dt__onnx_tensor_message || place.tensor->data_location != 1)
    return NULL;
  DT_TRY(dt__onnx_read_location(f->what, place.tensor, at, &place.location));
  return DT_VEC_PUSH(f->arena, &f->places, place) ? NULL : DT_NO_MEMORY();
}

static dt_status_t tell_place(void *user, const dt_onnx_message_t *message, void *out,
                              const dt_onnx_at_t *at) {
  finding_t *f = user;
  if (message != &dt__onnx_tensor_message || out != f->wanted)
    return NULL;
  return dt__onnx_fail(f->what, dt_status_code(f->failure), at, f->wanted->head.offset, "%s",
                       dt_status_message(f->failure));
}

// Puts the way to the tensor before the failure.
static dt_status_t fail_at(finding_t *f, const dt_onnx_tensor_t *tensor, dt_status_t failure) {
  f->wanted = tensor;
  f->failure = failure;
  dt_status_t told = dt__onnx_visit(&dt__onnx_model_message, f->model, NULL, tell_place, f);
  if (!told)
    return failure;
  dt_status_free(failure);
  return told;
}

static int compare_places(const void *left, const void *right) {
  const place_t *a = left, *b = right;
  int order = dt__onnx_str_compare(a->location.path, b->location.path);
  if (order != 0)
    return order;
  return a->tensor->head.offset < b->tensor->head.offset   ? -1
         : a->tensor->head.offset > b->tensor->head.offset ? 1
                                                           : 0;
}

static dt_status_t check_place(const dt_onnx_external_t *file, const place_t *place) {
  const dt_onnx_tensor_t *tensor = place->tensor;
  uint64_t offset = place->location.offset;
  if (offset > file->file_bytes || tensor->bytes > file->file_bytes - offset)
    return DT_FAIL(DT_E_FORMAT,
                   "tensor \"%s\" needs bytes %llu to %llu of external file \"%s\", which has %llu",
                   SHOW(tensor->name.text), (unsigned long long)offset,
                   (unsigned long long)(offset + tensor->bytes), file->name,
                   (unsigned long long)file->file_bytes);
  if (place->location.has_checksum != file->location.has_checksum ||
      memcmp(place->location.checksum, file->location.checksum, DT_SHA1_BYTES) != 0)
    return DT_FAIL(DT_E_FORMAT, "external file \"%s\": tensors give it different checksums",
                   file->name);
  return NULL;
}

static dt_status_t open_file(const finding_t *f, dt_onnx_external_t *file) {
  static const unsigned char nothing[1];
  int fd = -1;
  struct stat st;
  const dt_onnx_memory_t *memory = find_memory(f->externals, file->name);
  if (memory) {
    file->memory = memory->bytes > 0 ? memory->data : nothing;
    file->file_bytes = memory->bytes;
    return NULL;
  }
  if (f->externals->folder < 0)
    return DT_FAIL(DT_E_ARGUMENT,
                   "external file \"%s\" of a model in memory: name its folder (data_folder)",
                   file->name);
  DT_TRY(dt__onnx_open_beneath(f->externals->folder, file->name, &fd, &st));
  (void)dt__sys_close(fd);
  file->device = (uint64_t)st.st_dev;
  file->inode = (uint64_t)st.st_ino;
  file->file_bytes = (uint64_t)st.st_size;
  if (file->file_bytes > f->limits->file_bytes)
    return DT_FAIL(DT_E_LIMIT, "external file \"%s\" has %llu bytes, the limit is %llu", file->name,
                   (unsigned long long)file->file_bytes, (unsigned long long)f->limits->file_bytes);
  return NULL;
}

// What its tensors take of the file.
static dt_status_t set_ranges(finding_t *f, dt_onnx_external_t *file, uint32_t first,
                              uint32_t end) {
  dt_onnx_span_t *spans = DT_ARENA_ARRAY(f->arena, dt_onnx_span_t, end - first);
  uint32_t n = 0;
  if (!spans)
    return DT_NO_MEMORY();
  for (uint32_t k = first; k < end; k++) {
    uint64_t begin = f->places.items[k].location.offset, bytes = f->places.items[k].tensor->bytes;
    if (bytes > 0)
      spans[n++] = (dt_onnx_span_t){begin, begin + bytes};
  }
  if (file->memory)
    return dt__onnx_set_whole(file, f->arena);
  return dt__onnx_set_ranges(file, f->externals->access, n, spans, f->arena, f->limits,
                             &f->externals->bytes);
}

// Places from `first` on that have its path belong to one file.
static dt_status_t add_file(finding_t *f, uint32_t first, uint32_t *out_end) {
  const place_t *places = f->places.items;
  dt_onnx_external_t *file = &f->externals->files.items[f->externals->files.len];
  file->location = places[first].location;
  char *name = DT_ARENA_ARRAY(f->arena, char, file->location.path.len + 1);
  if (!name)
    return DT_NO_MEMORY();
  memcpy(name, file->location.path.at, file->location.path.len);
  file->name = name;
  f->externals->files.len++;
  dt_status_t status = dt__onnx_go_on(f->pace, DT_ONNX_WORK_A_LOOK);
  if (status)
    return status;
  status = open_file(f, file);
  uint32_t k = first;
  for (; !status && k < f->places.len &&
         dt__onnx_str_equal(places[k].location.path, file->location.path);
       k++) {
    status = check_place(file, &places[k]);
    places[k].tensor->external = f->externals->files.len;
    places[k].tensor->external_offset = places[k].location.offset;
    file->tensors++;
    file->tensor_bytes += places[k].tensor->bytes;
  }
  *out_end = k;
  if (!status)
    status = set_ranges(f, file, first, k);
  return status ? fail_at(f, places[k > first ? k - 1 : first].tensor, status) : NULL;
}

dt_status_t dt__onnx_find_external(dt_onnx_externals_t *externals, dt_onnx_model_t *model,
                                   const char *what, dt_arena_t *arena,
                                   const dt_onnx_limits_t *limits, dt_onnx_pace_t *pace) {
  finding_t f = {.externals = externals,
                 .model = model,
                 .what = what,
                 .arena = arena,
                 .limits = limits,
                 .pace = pace};
  DT_TRY(dt__mutex_init(&externals->lock, DT_RANK_MODEL));
  dt__cond_init(&externals->loaded);
  externals->has_lock = true;
  DT_TRY(dt__onnx_visit(&dt__onnx_model_message, model, NULL, add_place, &f));
  qsort(f.places.items, f.places.len, sizeof f.places.items[0], compare_places);
  uint32_t files = 1;
  for (uint32_t k = 1; k < f.places.len; k++)
    files +=
        !dt__onnx_str_equal(f.places.items[k - 1].location.path, f.places.items[k].location.path);
  externals->files.items = DT_ARENA_ARRAY(arena, dt_onnx_external_t, files);
  if (!externals->files.items)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < f.places.len;)
    DT_TRY(add_file(&f, k, &k));
  return NULL;
}
