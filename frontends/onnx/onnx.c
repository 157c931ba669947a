// SPDX-License-Identifier: Apache-2.0
// Opens models: bytes, structure, checks, external files, in this order.
#include "frontends/onnx/onnx.h"

#include "frontends/onnx/check.h"
#include "runtime/base/file.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <string.h>

// ---- Options --------------------------------------------------------------------------------------
static uint64_t lowered(uint64_t given, uint64_t limit) {
  return given && given < limit ? given : limit;
}

static dt_status_t read_options(const dt_onnx_options_t *options, dt_onnx_options_t *out) {
  DT_TRY(DT_OPTIONS_TAKE(dt_onnx_options_t, out, options));
  if (out->access != DT_ONNX_READ && out->access != DT_ONNX_MAP)
    return DT_FAIL(DT_E_ARGUMENT, "onnx options: no access mode %d", (int)out->access);
  return NULL;
}

static void set_limits(dt_onnx_limits_t *limits, const dt_onnx_options_t *options) {
  limits->file_bytes = options->max_file_bytes ? options->max_file_bytes : (uint64_t)16 << 30;
  limits->external_bytes =
      options->max_external_bytes ? options->max_external_bytes : (uint64_t)64 << 30;
  limits->structure_bytes = lowered(options->max_structure_bytes, (uint64_t)2 << 30);
  limits->counted[DT_ONNX_COUNT_NODES] = (uint32_t)lowered(options->max_nodes, 1000000);
  limits->counted[DT_ONNX_COUNT_TENSORS] = (uint32_t)lowered(options->max_tensors, 1000000);
  limits->counted[DT_ONNX_COUNT_GRAPHS] = (uint32_t)lowered(options->max_depth, 32);
}

// ---- The open model -------------------------------------------------------------------------------
// One opening: what it takes, and how long it may.
typedef struct opening_t {
  dt_onnx_options_t options;
  dt_control_t control;
  dt_onnx_pace_t pace;
} opening_t;

static dt_status_t begin(opening_t *opening, const dt_onnx_options_t *options) {
  opening->pace = (dt_onnx_pace_t){0};
  DT_TRY(read_options(options, &opening->options));
  if (dt__control_is_wanted(opening->options.deadline_ns, opening->options.cancel)) {
    dt__control_init(&opening->control, opening->options.deadline_ns, opening->options.cancel);
    opening->pace.control = &opening->control;
  }
  return dt__onnx_go_on(&opening->pace, DT_ONNX_WORK_A_LOOK);
}

static dt_status_t create(const char *what, const dt_onnx_options_t *options, dt_onnx_t **out) {
  dt_onnx_t *file = dt__calloc(1, sizeof *file);
  if (!file)
    return DT_NO_MEMORY();
  dt__arena_init(&file->arena, 0);
  file->externals.folder = -1;
  atomic_init(&file->shares, 1);
  file->externals.access = options->access;
  set_limits(&file->limits, options);
  file->what = dt__arena_strdup(&file->arena, what);
  *out = file;
  return file->what ? NULL : DT_NO_MEMORY();
}

static dt_status_t read_whole(dt_onnx_t *file, const dt_onnx_message_t *message,
                              dt_onnx_pace_t *pace, void *to) {
  // A few bytes stand for a struct: memory is bounded by the file's size, too. No file has 2^58
  // bytes.
  dt_onnx_limits_t limits = file->limits;
  limits.structure_bytes =
      lowered(limits.structure_bytes, ((uint64_t)64 << 20) + 64 * file->bytes.bytes);
  dt_onnx_read_t read = {.data = file->bytes.data,
                         .bytes = file->bytes.bytes,
                         .what = file->what,
                         .arena = &file->arena,
                         .limits = &limits,
                         .pace = pace};
  return dt__onnx_read(&read, message, to);
}

static dt_status_t read_model(dt_onnx_t *file, const char *path, opening_t *opening) {
  const dt_onnx_options_t *options = &opening->options;
  dt_onnx_check_t check = {.model = &file->model,
                           .what = file->what,
                           .arena = &file->arena,
                           .limits = &file->limits,
                           .pace = &opening->pace};
  DT_TRY(dt__onnx_set_memory(&file->externals, options, &file->arena));
  DT_TRY(read_whole(file, &dt__onnx_model_message, &opening->pace, &file->model));
  DT_TRY(dt__onnx_check(&check));
  DT_TRY(dt__onnx_interface(file));
  if (!check.any_external)
    return NULL;
  if (options->data_folder)
    DT_TRY(dt__onnx_open_folder(options->data_folder, false, &file->externals.folder));
  else if (path)
    DT_TRY(dt__onnx_open_folder(path, true, &file->externals.folder));
  return dt__onnx_find_external(&file->externals, &file->model, file->what, &file->arena,
                                &file->limits, &opening->pace);
}

static dt_status_t check_size(const dt_onnx_t *file, uint64_t bytes) {
  if (bytes > file->limits.file_bytes)
    return DT_FAIL(DT_E_LIMIT, "%s: %llu bytes, the limit is %llu", file->what,
                   (unsigned long long)bytes, (unsigned long long)file->limits.file_bytes);
  if (bytes == 0)
    return DT_FAIL(DT_E_FORMAT, "%s: an empty file is no ONNX model", file->what);
  return NULL;
}

static dt_status_t load_path(dt_onnx_t *file, const char *path, dt_onnx_pace_t *pace) {
  int fd = -1;
  struct stat st;
  DT_TRY(dt__onnx_open_path(path, &fd, &st));
  dt_status_t status = check_size(file, (uint64_t)st.st_size);
  if (!status)
    status = dt__onnx_load(fd, 0, (uint64_t)st.st_size, file->externals.access, path, pace,
                           &file->bytes);
  file->bytes.stamp = dt__file_stamp(&st);
  (void)dt__sys_close(fd);
  return status;
}

// Other failures name the file themselves.
static dt_status_t late(dt_status_t status, const char *what) {
  dt_code_t code = dt_status_code(status);
  bool ended = code == DT_E_DEADLINE || code == DT_E_CANCELLED;
  return ended ? dt__status_annotate(status, "%s", what) : status;
}

dt_status_t dt_onnx_open(const char *path, const dt_onnx_options_t *options, dt_onnx_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_open: out is NULL");
  *out = NULL;
  if (!path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_open: path is NULL");
  opening_t opening;
  dt_onnx_t *file = NULL;
  dt_status_t status;
  DT_TRY_GOTO(begin(&opening, options), failed);
  DT_TRY_GOTO(create(path, &opening.options, &file), failed);
  DT_TRY_GOTO(load_path(file, path, &opening.pace), failed);
  DT_TRY_GOTO(read_model(file, path, &opening), failed);
  *out = file;
  return NULL;
failed:
  dt_onnx_close(file);
  return late(status, path);
}

dt_status_t dt_onnx_open_memory(const void *data, size_t bytes, const dt_onnx_options_t *options,
                                dt_onnx_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_open_memory: out is NULL");
  *out = NULL;
  if (!data)
    return DT_FAIL(DT_E_ARGUMENT, "dt_onnx_open_memory: data is NULL");
  opening_t opening;
  dt_onnx_t *file = NULL;
  dt_status_t status;
  DT_TRY_GOTO(begin(&opening, options), failed);
  DT_TRY_GOTO(create("model in memory", &opening.options, &file), failed);
  DT_TRY_GOTO(check_size(file, bytes), failed);
  file->bytes = (dt_onnx_bytes_t){.data = data, .bytes = bytes};
  DT_TRY_GOTO(read_model(file, NULL, &opening), failed);
  *out = file;
  return NULL;
failed:
  dt_onnx_close(file);
  return late(status, "model in memory");
}

static dt_status_t read_tensor(dt_onnx_t *file, dt_onnx_tensor_t **out) {
  bool external = false;
  *out = DT_ARENA_NEW(&file->arena, dt_onnx_tensor_t);
  if (!*out)
    return DT_NO_MEMORY();
  DT_TRY(read_whole(file, &dt__onnx_tensor_message, NULL, *out));
  DT_TRY(dt__onnx_check_tensor(file->what, *out, NULL, &external));
  return external
             ? DT_FAIL(DT_E_UNSUPPORTED, "%s: a tensor whose data lie in another file", file->what)
             : NULL;
}

dt_status_t dt__onnx_open_tensor(const char *path, dt_onnx_t **out, dt_onnx_tensor_t **out_tensor) {
  dt_onnx_options_t options = {0};
  dt_onnx_t *file = NULL;
  dt_status_t status;
  *out = NULL;
  DT_TRY_GOTO(create(path, &options, &file), failed);
  DT_TRY_GOTO(load_path(file, path, NULL), failed);
  DT_TRY_GOTO(read_tensor(file, out_tensor), failed);
  *out = file;
  return NULL;
failed:
  dt_onnx_close(file);
  return status;
}

void dt__onnx_retain(dt_onnx_t *file) { atomic_fetch_add(&file->shares, 1); }

void dt__onnx_release(dt_onnx_t *file) {
  if (!file || atomic_fetch_sub(&file->shares, 1) != 1)
    return;
  dt__onnx_externals_fini(&file->externals);
  dt__onnx_unload(&file->bytes);
  dt__arena_fini(&file->arena);
  dt__free(file);
  dt__heap_trim(); // the files' bytes
}

void dt_onnx_close(dt_onnx_t *file) { dt__onnx_release(file); }
