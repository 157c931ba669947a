// SPDX-License-Identifier: Apache-2.0
// What tensors use of external files, and its loading. A file may be far larger than that, so only
// ranges are read: tensors that lie near to each other share one.
#include "frontends/onnx/external.h"

#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Exporters let tensors begin at multiples of up to this; what lies between is not worth a range.
#define NEAR ((uint64_t)64 << 10)
#define SUM_BYTES ((size_t)1 << 20) // read at a time for a checksum
#define WHAT_BYTES 512

// ---- Ranges ---------------------------------------------------------------------------------------

static int compare_spans(const void *left, const void *right) {
  const dt_onnx_span_t *a = left, *b = right;
  return a->begin != b->begin ? (a->begin > b->begin) - (a->begin < b->begin)
                              : (a->end > b->end) - (a->end < b->end);
}

// In place; how many are left.
static uint32_t merge(dt_onnx_span_t *spans, uint32_t n) {
  uint32_t len = 0;
  for (uint32_t k = 0; k < n; k++) {
    dt_onnx_span_t *last = len > 0 ? &spans[len - 1] : NULL;
    if (!last || (spans[k].begin > last->end && spans[k].begin - last->end > NEAR))
      spans[len++] = spans[k];
    else if (spans[k].end > last->end)
      last->end = spans[k].end;
  }
  return len;
}

dt_status_t dt__onnx_set_ranges(dt_onnx_external_t *file, dt_onnx_access_t access, uint32_t n,
                                dt_onnx_span_t *spans, dt_arena_t *arena,
                                const dt_onnx_limits_t *limits, uint64_t *io_bytes) {
  uint64_t before = *io_bytes, bytes = 0, alignment = dt__onnx_alignment(access);
  if (n > 0)
    qsort(spans, n, sizeof(spans[0]), compare_spans);
  n = merge(spans, n);
  file->ranges = DT_ARENA_ARRAY(arena, dt_onnx_range_t, n);
  if (!file->ranges)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    // Apart by more than what is added.
    file->ranges[k].begin = spans[k].begin / alignment * alignment;
    file->ranges[k].end = spans[k].end;
    bytes += spans[k].end - spans[k].begin;
  }
  file->n_ranges = n;
  if (bytes > limits->external_bytes || before > limits->external_bytes - bytes)
    return DT_FAIL(DT_E_LIMIT,
                   "external file \"%s\" of %llu bytes: tensors take %llu bytes of it and %llu of "
                   "files before it; the limit of all is %llu (max_external_bytes)",
                   file->name, (unsigned long long)file->file_bytes, (unsigned long long)bytes,
                   (unsigned long long)before, (unsigned long long)limits->external_bytes);
  *io_bytes = before + bytes;
  return NULL;
}

dt_status_t dt__onnx_set_whole(dt_onnx_external_t *file, dt_arena_t *arena) {
  file->ranges = DT_ARENA_NEW(arena, dt_onnx_range_t);
  if (!file->ranges)
    return DT_NO_MEMORY();
  file->n_ranges = 1;
  file->ranges->end = file->file_bytes;
  if (!file->location.has_checksum) // else once that is looked at
    file->ranges->content = (dt_onnx_bytes_t){.data = file->memory, .bytes = file->file_bytes};
  return NULL;
}

static dt_onnx_range_t *find_range(const dt_onnx_external_t *file, uint64_t offset) {
  uint32_t low = 0, high = file->n_ranges;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (file->ranges[middle].begin <= offset)
      low = middle;
    else
      high = middle;
  }
  return &file->ranges[low];
}

// ---- Loading --------------------------------------------------------------------------------------

typedef struct opened_t {
  const dt_onnx_externals_t *externals;
  dt_onnx_external_t *file;
  int fd;
  const char *model; // for messages
  dt_onnx_pace_t *pace;
  char what[WHAT_BYTES]; // the file, for messages
  dt_file_stamp_t stamp;
} opened_t;

static dt_status_t open_again(opened_t *o) {
  const dt_onnx_external_t *file = o->file;
  struct stat st;
  (void)snprintf(o->what, sizeof o->what, "%.200s: external file \"%.200s\" of %llu bytes",
                 o->model, file->name, (unsigned long long)file->file_bytes);
  DT_TRY(dt__onnx_open_beneath(o->externals->folder, file->name, &o->fd, &st));
  if ((uint64_t)st.st_dev == file->device && (uint64_t)st.st_ino == file->inode &&
      (uint64_t)st.st_size == file->file_bytes) {
    o->stamp = dt__file_stamp(&st);
    return NULL;
  }
  (void)dt__sys_close(o->fd);
  return DT_FAIL(
      DT_E_IO,
      "%s: external file \"%s\" is not the one that was there when the model was opened: "
      "open the model anew",
      o->model, file->name);
}

static dt_status_t load_range(opened_t *o, dt_onnx_range_t *range) {
  DT_TRY(dt__onnx_load(o->fd, range->begin, range->end - range->begin, o->externals->access,
                       o->what, o->pace, &range->content));
  range->content.stamp = o->stamp;
  return NULL;
}

// What of a piece of the file belongs to ranges goes there, so that the bytes in use are those that
// the checksum is of.
static void copy_piece(const dt_onnx_external_t *file, const unsigned char *piece, uint64_t begin,
                       uint64_t end) {
  for (uint32_t k = 0; k < file->n_ranges; k++) {
    const dt_onnx_range_t *range = &file->ranges[k];
    uint64_t from = range->begin > begin ? range->begin : begin;
    uint64_t to = range->end < end ? range->end : end;
    if (range->content.block && from < to)
      memcpy((unsigned char *)range->content.block + (from - range->begin), piece + (from - begin),
             (size_t)(to - from));
  }
}

static dt_status_t read_and_sum(opened_t *o, unsigned char *piece, unsigned char *out_sum) {
  dt_sha1_t sum;
  dt__sha1_init(&sum);
  for (uint64_t at = 0; at < o->file->file_bytes;) {
    uint64_t left = o->file->file_bytes - at;
    size_t bytes = left < SUM_BYTES ? (size_t)left : SUM_BYTES;
    DT_TRY(dt__onnx_go_on(o->pace, DT_ONNX_WORK_A_LOOK));
    DT_TRY(dt__file_read(o->fd, piece, bytes, at, o->what));
    dt__sha1_add(&sum, piece, bytes);
    copy_piece(o->file, piece, at, at + bytes);
    at += bytes;
  }
  dt__sha1_end(&sum, out_sum);
  return NULL;
}

static dt_status_t check_sum(const opened_t *o, const unsigned char *sum) {
  if (memcmp(sum, o->file->location.checksum, DT_SHA1_BYTES) == 0)
    return NULL;
  return DT_FAIL(DT_E_FORMAT,
                 "%s: external file \"%s\" does not have the checksum that the model gives: it is "
                 "damaged or another model's",
                 o->model, o->file->name);
}

// All ranges of a file with a checksum, which is read once for both.
static dt_status_t load_checked(opened_t *o) {
  unsigned char sum[DT_SHA1_BYTES];
  for (uint32_t k = 0; k < o->file->n_ranges; k++) {
    dt_onnx_range_t *range = &o->file->ranges[k];
    DT_TRY(dt__onnx_take(o->fd, range->begin, range->end - range->begin, o->externals->access,
                         o->what, &range->content));
    range->content.stamp = o->stamp;
  }
  unsigned char *piece = dt__alloc(SUM_BYTES);
  if (!piece)
    return DT_NO_MEMORY();
  dt_status_t status = read_and_sum(o, piece, sum);
  dt__free(piece);
  return status ? status : check_sum(o, sum);
}

// Memory with a checksum.
static dt_status_t sum_memory(opened_t *o) {
  unsigned char sum[DT_SHA1_BYTES];
  dt_sha1_t sha1;
  dt__sha1_init(&sha1);
  for (uint64_t at = 0; at < o->file->file_bytes; at += SUM_BYTES) {
    uint64_t left = o->file->file_bytes - at;
    DT_TRY(dt__onnx_go_on(o->pace, DT_ONNX_WORK_A_LOOK));
    dt__sha1_add(&sha1, o->file->memory + at, left < SUM_BYTES ? (size_t)left : SUM_BYTES);
  }
  dt__sha1_end(&sha1, sum);
  DT_TRY(check_sum(o, sum));
  o->file->ranges->content =
      (dt_onnx_bytes_t){.data = o->file->memory, .bytes = o->file->file_bytes};
  return NULL;
}

static void unload(dt_onnx_external_t *file) {
  for (uint32_t k = 0; k < file->n_ranges; k++)
    dt__onnx_unload(&file->ranges[k].content);
}

static dt_status_t load(const dt_onnx_externals_t *externals, dt_onnx_external_t *file,
                        dt_onnx_range_t *range, const char *what, dt_onnx_pace_t *pace) {
  opened_t o = {.externals = externals, .file = file, .model = what, .pace = pace};
  if (file->memory)
    return sum_memory(&o);
  DT_TRY(open_again(&o));
  dt_status_t status = file->location.has_checksum ? load_checked(&o) : load_range(&o, range);
  if (status && file->location.has_checksum)
    unload(file);
  (void)dt__sys_close(o.fd);
  return status;
}

// Until nobody else loads. The lock held.
static dt_status_t wait_for_others(dt_onnx_externals_t *externals, const dt_onnx_pace_t *pace) {
  dt_control_t *control = pace ? pace->control : NULL;
  while (externals->loading) {
    int64_t now = 0;
    if (control && dt__control_look(control, &now))
      return dt__control_found(control);
    dt__cond_wait_until(&externals->loaded, &externals->lock,
                        control ? dt__control_wake_ns(control, now) : INT64_MAX);
  }
  return NULL;
}

dt_status_t dt__onnx_load_external(dt_onnx_externals_t *externals, const dt_onnx_tensor_t *tensor,
                                   const char *what, dt_onnx_pace_t *pace,
                                   const unsigned char **out) {
  static const unsigned char nothing[1];
  *out = nothing;
  if (tensor->bytes == 0)
    return NULL;
  dt_onnx_external_t *file = &externals->files.items[tensor->external - 1];
  dt_onnx_range_t *range = find_range(file, tensor->external_offset);
  dt__mutex_lock(&externals->lock);
  dt_status_t status = wait_for_others(externals, pace);
  if (!status && !range->content.data) {
    externals->loading = true;
    dt__mutex_unlock(&externals->lock);
    status = load(externals, file, range, what, pace);
    dt__mutex_lock(&externals->lock);
    externals->loading = false;
    (void)pthread_cond_broadcast(&externals->loaded);
  }
  if (!status)
    *out = range->content.data + (tensor->external_offset - range->begin);
  dt__mutex_unlock(&externals->lock);
  return status;
}

const dt_onnx_bytes_t *dt__onnx_external_bytes(const dt_onnx_externals_t *externals,
                                               const dt_onnx_tensor_t *tensor, uint64_t *out_at) {
  const dt_onnx_range_t *range =
      find_range(&externals->files.items[tensor->external - 1], tensor->external_offset);
  *out_at = tensor->external_offset;
  return &range->content;
}

void dt__onnx_externals_fini(dt_onnx_externals_t *externals) {
  for (uint32_t k = 0; k < externals->files.len; k++)
    unload(&externals->files.items[k]);
  if (externals->has_lock) {
    (void)pthread_cond_destroy(&externals->loaded);
    dt__mutex_fini(&externals->lock);
  }
  if (externals->folder >= 0)
    (void)dt__sys_close(externals->folder);
  externals->folder = -1;
}
