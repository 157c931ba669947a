// SPDX-License-Identifier: Apache-2.0
// Opens a safetensors file, holds its data and answers questions about it. The header is always
// read into memory of our own before it is looked at, so a file that changes meanwhile cannot be
// seen in two states.
#include "ductile/safetensors.h"

#include "frontends/safetensors/header.h"
#include "runtime/base/file.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX_BYTES 8u
#define DATA_ALIGNMENT 64u

struct dt_safetensors {
  dt_st_header_t header;
  const unsigned char *data; // the tensors' bytes: inside `map`, `block` or the caller's memory
  uint64_t data_bytes;
  void *map; // owner when mapped
  size_t map_bytes;
  void *block; // owner when read
};

static dt_status_t read_options(const dt_safetensors_options_t *options,
                                dt_safetensors_access_t *out_access, dt_st_limits_t *out) {
  dt_safetensors_options_t all;
  DT_TRY(DT_OPTIONS_TAKE(dt_safetensors_options_t, &all, options));
  if (all.access != DT_SAFETENSORS_READ && all.access != DT_SAFETENSORS_MAP)
    return DT_FAIL(DT_E_ARGUMENT, "safetensors options: no access mode %d", (int)all.access);
  const uint64_t header_cap = 100000000, file_cap = (uint64_t)16 << 30;
  const uint32_t tensor_cap = 1000000;
  out->file_bytes = all.max_file_bytes ? all.max_file_bytes : file_cap;
  out->header_bytes =
      all.max_header_bytes && all.max_header_bytes < header_cap ? all.max_header_bytes : header_cap;
  out->tensors = all.max_tensors && all.max_tensors < tensor_cap ? all.max_tensors : tensor_cap;
  *out_access = all.access;
  return NULL;
}

// The header's length, from the first eight bytes, against the file's and the limits.
static dt_status_t check_prefix(const unsigned char prefix[PREFIX_BYTES], uint64_t file_bytes,
                                const dt_st_limits_t *limits, const char *what, size_t *out) {
  uint64_t length = 0;
  for (unsigned i = 0; i < PREFIX_BYTES; i++)
    length |= (uint64_t)prefix[i] << (8 * i);
  if (length > limits->header_bytes)
    return DT_FAIL(DT_E_LIMIT, "%s: a header of %llu bytes, the limit is %llu", what,
                   (unsigned long long)length, (unsigned long long)limits->header_bytes);
  if (length > file_bytes - PREFIX_BYTES)
    return DT_FAIL(DT_E_FORMAT, "%s: a header of %llu bytes in a file of %llu: truncated?", what,
                   (unsigned long long)length, (unsigned long long)file_bytes);
  *out = (size_t)length;
  return NULL;
}

static dt_status_t check_file_bytes(uint64_t bytes, const dt_st_limits_t *limits,
                                    const char *what) {
  if (bytes > limits->file_bytes)
    return DT_FAIL(DT_E_LIMIT, "%s: %llu bytes, the limit is %llu", what, (unsigned long long)bytes,
                   (unsigned long long)limits->file_bytes);
  if (bytes < PREFIX_BYTES)
    return DT_FAIL(DT_E_FORMAT, "%s: %llu bytes are too few for a safetensors file", what,
                   (unsigned long long)bytes);
  return NULL;
}

// ---- Files --------------------------------------------------------------------------------------

static dt_status_t load_header(dt_safetensors_t *file, int fd, uint64_t file_bytes,
                               const dt_st_limits_t *limits, const char *path,
                               size_t *out_header_bytes) {
  unsigned char prefix[PREFIX_BYTES];
  size_t bytes = 0;
  DT_TRY(dt__file_read(fd, prefix, sizeof prefix, 0, path));
  DT_TRY(check_prefix(prefix, file_bytes, limits, path, &bytes));
  char *text = dt__alloc(bytes);
  if (!text)
    return DT_NO_MEMORY();
  file->data_bytes = file_bytes - PREFIX_BYTES - bytes;
  dt_status_t status = dt__file_read(fd, text, bytes, PREFIX_BYTES, path);
  if (!status)
    status = dt__st_header_parse(&file->header, text, bytes, file->data_bytes, limits, path);
  dt__free(text);
  *out_header_bytes = bytes;
  return status;
}

static dt_status_t load_data(dt_safetensors_t *file, int fd, uint64_t file_bytes,
                             size_t header_bytes, dt_safetensors_access_t access,
                             const char *path) {
  if (file_bytes > SIZE_MAX)
    return DT_FAIL(DT_E_LIMIT, "%s: larger than this process's address space", path);
  size_t offset = PREFIX_BYTES + header_bytes;
  if (access == DT_SAFETENSORS_MAP) {
    void *map = dt__sys_map((size_t)file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
      return DT_FAIL(errno == ENOMEM ? DT_E_NO_MEMORY : DT_E_IO, "%s: cannot map: %s", path,
                     strerrordesc_np(errno));
    file->map = map;
    file->map_bytes = (size_t)file_bytes;
    file->data = (const unsigned char *)map + offset;
    return NULL;
  }
  file->block = dt__alloc_aligned((size_t)file->data_bytes, DATA_ALIGNMENT);
  if (!file->block)
    return DT_NO_MEMORY();
  file->data = file->block;
  return dt__file_read(fd, file->block, file->data_bytes, offset, path);
}

dt_status_t dt_safetensors_open(const char *path, const dt_safetensors_options_t *options,
                                dt_safetensors_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_open: out is NULL");
  *out = NULL;
  if (!path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_open: path is NULL");
  dt_safetensors_access_t access = DT_SAFETENSORS_READ;
  dt_st_limits_t limits;
  DT_TRY(read_options(options, &access, &limits));
  int fd = -1;
  struct stat st;
  DT_TRY(dt__file_open(AT_FDCWD, path, &fd, &st));
  uint64_t bytes = (uint64_t)st.st_size;
  dt_status_t status;
  size_t header_bytes = 0;
  dt_safetensors_t *file = dt__calloc(1, sizeof *file);
  if (!file) {
    status = DT_NO_MEMORY();
    goto cleanup;
  }
  DT_TRY_GOTO(check_file_bytes(bytes, &limits, path), cleanup);
  DT_TRY_GOTO(load_header(file, fd, bytes, &limits, path, &header_bytes), cleanup);
  DT_TRY_GOTO(load_data(file, fd, bytes, header_bytes, access, path), cleanup);
  *out = file;
  file = NULL;
cleanup:
  (void)dt__sys_close(fd);
  dt_safetensors_close(file);
  return status;
}

dt_status_t dt_safetensors_open_memory(const void *data, size_t bytes,
                                       const dt_safetensors_options_t *options,
                                       dt_safetensors_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_open_memory: out is NULL");
  *out = NULL;
  if (!data)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_open_memory: data is NULL");
  static const char what[] = "safetensors in memory";
  dt_safetensors_access_t access = DT_SAFETENSORS_READ;
  dt_st_limits_t limits;
  size_t header_bytes = 0;
  DT_TRY(read_options(options, &access, &limits));
  DT_TRY(check_file_bytes(bytes, &limits, what));
  DT_TRY(check_prefix(data, bytes, &limits, what, &header_bytes));
  dt_safetensors_t *file = dt__calloc(1, sizeof *file);
  if (!file)
    return DT_NO_MEMORY();
  const unsigned char *at = data;
  file->data = at + PREFIX_BYTES + header_bytes;
  file->data_bytes = bytes - PREFIX_BYTES - header_bytes;
  dt_status_t status = dt__st_header_parse(&file->header, (const char *)at + PREFIX_BYTES,
                                           header_bytes, file->data_bytes, &limits, what);
  if (status) {
    dt_safetensors_close(file);
    return status;
  }
  *out = file;
  return NULL;
}

void dt_safetensors_close(dt_safetensors_t *file) {
  if (!file)
    return;
  if (file->map)
    munmap(file->map, file->map_bytes);
  dt__free(file->block);
  dt__st_header_fini(&file->header);
  dt__free(file);
}

// ---- Questions ----------------------------------------------------------------------------------

uint32_t dt_safetensors_count(const dt_safetensors_t *file) {
  return file ? file->header.entries.len : 0;
}

const char *dt_safetensors_name(const dt_safetensors_t *file, uint32_t index) {
  return index < dt_safetensors_count(file) ? file->header.entries.items[index].name : NULL;
}

const char *dt_safetensors_dtype_name(const dt_safetensors_t *file, uint32_t index) {
  return index < dt_safetensors_count(file) ? file->header.entries.items[index].dtype->name : NULL;
}

static dt_status_t find(const dt_safetensors_t *file, const char *name,
                        dt_safetensors_info_t *info) {
  if (!file || !name)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_find: file or name is NULL");
  const dt_st_entry_t *entry = dt__st_header_find(&file->header, name);
  if (!entry)
    return DT_FAIL(DT_E_ARGUMENT, "no tensor \"%.200s\" among the file's %u", name,
                   file->header.entries.len);
  if (entry->dtype->dtype == DT_DTYPE_NONE)
    return DT_FAIL(DT_E_UNSUPPORTED, "tensor \"%s\": dtype %s is not supported", name,
                   entry->dtype->name);
  const unsigned char *data = file->data + entry->begin;
  size_t bytes = (size_t)(entry->end - entry->begin);
  if (entry->dtype->dtype == DT_BOOL)
    for (size_t i = 0; i < bytes; i++)
      if (data[i] > 1)
        return DT_FAIL(DT_E_RANGE, "tensor \"%s\": element %zu of a BOOL tensor is %d", name, i,
                       data[i]);
  info->dtype = entry->dtype->dtype;
  info->rank = entry->rank;
  memcpy(info->sizes, entry->sizes, entry->rank * sizeof info->sizes[0]);
  info->data = data;
  info->bytes = bytes;
  info->aligned = (uintptr_t)data % (entry->dtype->bits / 8) == 0;
  return NULL;
}

dt_status_t dt_safetensors_find(const dt_safetensors_t *file, const char *name,
                                dt_safetensors_info_t *info) {
  if (!info)
    return DT_FAIL(DT_E_ARGUMENT, "dt_safetensors_find: info is NULL");
  dt_safetensors_info_t own = {0};
  DT_TRY(DT_RESULT_CHECK(dt_safetensors_info_t, info));
  dt_status_t status = find(file, name, &own);
  DT_RESULT_GIVE(dt_safetensors_info_t, info, &own);
  return status;
}

dt_status_t dt_safetensors_copy(const dt_safetensors_t *file, const char *name, void *data,
                                size_t bytes) {
  dt_safetensors_info_t info = {0};
  DT_TRY(find(file, name, &info));
  if (info.bytes != bytes || (!data && bytes > 0))
    return DT_FAIL(DT_E_ARGUMENT, "tensor \"%s\" has %zu bytes, room for %zu was given", name,
                   info.bytes, data ? bytes : 0);
  if (bytes > 0)
    memcpy(data, info.data, bytes);
  return NULL;
}

uint32_t dt_safetensors_metadata_count(const dt_safetensors_t *file) {
  return file ? file->header.metadata.len : 0;
}

const char *dt_safetensors_metadata_key(const dt_safetensors_t *file, uint32_t index) {
  return index < dt_safetensors_metadata_count(file) ? file->header.metadata.items[index].key
                                                     : NULL;
}

const char *dt_safetensors_metadata(const dt_safetensors_t *file, const char *key) {
  if (!file || !key)
    return NULL;
  const dt_st_pair_t *pair = dt__st_header_metadata(&file->header, key);
  return pair ? pair->value : NULL;
}
