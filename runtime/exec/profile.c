// SPDX-License-Identifier: Apache-2.0
// Profiles as files: the statistics of a function's calls, as text with a checksum.
//
//   ductile-profile 1
//   function "mlp"
//   source "x.size(0)" dynamic
//   source "x.size(1)" value 16
//   capture "heads" unset
//   row 12 1 [33, 16]                 sampled calls, misses, a number for each source
//   end 1234567890123456789
//
// A file is read as a whole. If any of it makes no sense, none of it is taken.
#include "runtime/exec/policy.h"

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/text.h"
#include "runtime/exec/function.h"

#include <fcntl.h>
#include <string.h>

#define MOST_BYTES ((size_t)4 << 20)
#define MOST_NAME 1024
#define MOST_CAPTURES DT_MOST_CAPTURES

// ---- Writing ------------------------------------------------------------------------------------
static void put_learned(dt_text_t *out, const char *what, const char *name, dt_learned_t learned) {
  dt__text_printf(out, "%s ", what);
  dt__text_quote(out, name, SIZE_MAX);
  if (learned.state == DT_LEARNED_VALUE)
    dt__text_printf(out, " value %lld\n", (long long)learned.value);
  else
    dt__text_put(out, learned.state == DT_LEARNED_DYNAMIC ? " dynamic\n" : " unset\n");
}

static void put_rows(dt_text_t *out, dt_histogram_t *histogram) {
  dt__histogram_lock(histogram);
  for (uint32_t k = 0; k < histogram->n; k++) {
    dt__text_printf(out, "row %llu %llu [", (unsigned long long)histogram->rows[k].calls,
                    (unsigned long long)histogram->rows[k].misses);
    for (uint32_t i = 0; i < histogram->width; i++)
      dt__text_printf(out, i ? ", %lld" : "%lld",
                      (long long)histogram->values[k * histogram->width + i]);
    dt__text_put(out, "]\n");
  }
  dt__histogram_unlock(histogram);
}

// A number that dt__scan_i64 reads back.
static int64_t checksum(const char *data, size_t len) {
  return (int64_t)(dt__hash(data, len, 0) >> 1);
}

static void put_profile(dt_text_t *out, dt_function_t *function) {
  dt_policy_t *policy = &function->policy;
  dt__text_put(out, "ductile-profile 1\nfunction ");
  dt__text_quote(out, function->name, SIZE_MAX);
  dt__text_put(out, "\n");
  dt__mutex_lock(&function->mutex);
  for (uint32_t k = 0; k < policy->n_sources; k++)
    put_learned(out, "source", policy->sources[k].name, policy->sources[k].learned);
  for (uint32_t k = 0; k < policy->captures.len; k++)
    put_learned(out, "capture", policy->captures.items[k].name, policy->captures.items[k].learned);
  put_rows(out, &policy->histogram);
  dt__mutex_unlock(&function->mutex);
  int64_t sum = checksum(dt__text_str(out), out->len);
  dt__text_printf(out, "end %lld\n", (long long)sum);
}

dt_status_t dt_function_profile_save(dt_function_t *function, const char *path) {
  if (!function || !path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_profile_save: %s: NULL",
                   function ? "path" : "function");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_profile_save in a child after fork");
  dt_text_t text;
  dt__text_init(&text);
  put_profile(&text, function);
  dt_status_t status = dt__text_status(&text);
  if (!status)
    status =
        dt__file_replace(AT_FDCWD, path, 0666, &(dt_file_part_t){dt__text_str(&text), text.len}, 1);
  dt__text_fini(&text);
  return dt__status_annotate(status, "function %s: saving a profile", function->name);
}

// ---- Reading ------------------------------------------------------------------------------------
static dt_status_t read_file(const char *path, char **out, size_t *out_len) {
  int fd = -1;
  struct stat info;
  DT_TRY(dt__file_open(AT_FDCWD, path, &fd, &info));
  dt_status_t status = NULL;
  char *data = NULL;
  size_t bytes = (size_t)info.st_size;
  if (bytes > MOST_BYTES)
    status = DT_FAIL(DT_E_FORMAT, "%s has %zu bytes; a profile has at most %zu", path, bytes,
                     MOST_BYTES);
  else if (!(data = dt__alloc(bytes)))
    status = DT_NO_MEMORY();
  else
    status = dt__file_read(fd, data, bytes, 0, path);
  (void)dt__sys_close(fd);
  if (status) {
    dt__free(data);
    return status;
  }
  *out = data;
  *out_len = bytes;
  return NULL;
}

// What a file says, in an arena of its own.
typedef struct row_t {
  uint64_t calls, misses;
  int64_t *values;
} row_t;
typedef struct named_t {
  const char *name;
  dt_learned_t learned;
} named_t;
typedef struct reader_t {
  dt_arena_t arena;
  dt_scan_t scan;
  const dt_function_t *function;
  char name[MOST_NAME];
  dt_learned_t *sources;
  DT_VEC(named_t) captures;
  DT_VEC(row_t) rows;
} reader_t;

static dt_status_t read_string(reader_t *r) {
  size_t len = 0;
  DT_TRY(dt__scan_string(&r->scan, r->name, sizeof(r->name), &len));
  if (memchr(r->name, '\0', len))
    return dt__scan_fail(&r->scan, "a name holds a zero byte");
  return NULL;
}

static dt_status_t read_learned(reader_t *r, dt_learned_t *out) {
  *out = (dt_learned_t){0};
  if (dt__scan_accept_word(&r->scan, "unset"))
    return NULL;
  if (dt__scan_accept_word(&r->scan, "dynamic")) {
    out->state = DT_LEARNED_DYNAMIC;
    return NULL;
  }
  if (!dt__scan_accept_word(&r->scan, "value"))
    return dt__scan_fail(&r->scan, "expected unset, value or dynamic");
  out->state = DT_LEARNED_VALUE;
  return dt__scan_i64(&r->scan, &out->value);
}

static dt_status_t read_sources(reader_t *r) {
  const dt_policy_t *policy = &r->function->policy;
  r->sources = DT_ARENA_ARRAY(&r->arena, dt_learned_t, policy->n_sources);
  if (!r->sources)
    return DT_NO_MEMORY();
  uint32_t k = 0;
  for (; dt__scan_accept_word(&r->scan, "source"); k++) {
    DT_TRY(read_string(r));
    if (k == policy->n_sources || strcmp(r->name, policy->sources[k].name) != 0)
      return dt__scan_fail(&r->scan,
                           "the profile is of other inputs: \"%s\" where %s%s%s is expected",
                           r->name, k < policy->n_sources ? "\"" : "",
                           k < policy->n_sources ? policy->sources[k].name : "nothing more",
                           k < policy->n_sources ? "\"" : "");
    DT_TRY(read_learned(r, &r->sources[k]));
  }
  if (k < policy->n_sources)
    return dt__scan_fail(&r->scan, "the profile is of other inputs: \"%s\" is missing",
                         policy->sources[k].name);
  return NULL;
}

static dt_status_t read_captures(reader_t *r) {
  while (dt__scan_accept_word(&r->scan, "capture")) {
    named_t capture = {0};
    DT_TRY(read_string(r));
    DT_TRY(read_learned(r, &capture.learned));
    if (r->captures.len == MOST_CAPTURES)
      return dt__scan_fail(&r->scan, "more than %d captures", MOST_CAPTURES);
    capture.name = dt__arena_strdup(&r->arena, r->name);
    if (!capture.name || !DT_VEC_PUSH(&r->arena, &r->captures, capture))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t read_rows(reader_t *r) {
  uint32_t width = r->function->policy.histogram.width;
  while (dt__scan_accept_word(&r->scan, "row")) {
    int64_t calls = 0, misses = 0;
    row_t row = {.values = DT_ARENA_ARRAY(&r->arena, int64_t, width)};
    if (!row.values)
      return DT_NO_MEMORY();
    DT_TRY(dt__scan_i64(&r->scan, &calls));
    DT_TRY(dt__scan_i64(&r->scan, &misses));
    if (calls < 0 || misses < 0)
      return dt__scan_fail(&r->scan, "a negative count");
    row.calls = (uint64_t)calls;
    row.misses = (uint64_t)misses;
    DT_TRY(dt__scan_expect(&r->scan, "["));
    for (uint32_t i = 0; i < width; i++) {
      if (i)
        DT_TRY(dt__scan_expect(&r->scan, ","));
      DT_TRY(dt__scan_i64(&r->scan, &row.values[i]));
    }
    DT_TRY(dt__scan_expect(&r->scan, "]"));
    if (!DT_VEC_PUSH(&r->arena, &r->rows, row))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t read_profile(reader_t *r) {
  dt_scan_t *scan = &r->scan;
  int64_t version = 0, sum = 0;
  DT_TRY(dt__scan_expect(scan, "ductile-profile"));
  DT_TRY(dt__scan_i64(scan, &version));
  if (version != 1)
    return dt__scan_fail(scan, "a profile of version %lld; expected 1", (long long)version);
  DT_TRY(dt__scan_expect(scan, "function"));
  DT_TRY(read_string(r));
  if (strcmp(r->name, r->function->name) != 0)
    return dt__scan_fail(scan, "the profile is of function \"%s\"", r->name);
  DT_TRY(read_sources(r));
  DT_TRY(read_captures(r));
  DT_TRY(read_rows(r));
  dt__scan_space(scan);
  int64_t expected = checksum(scan->begin, (size_t)(scan->at - scan->begin));
  DT_TRY(dt__scan_expect(scan, "end"));
  DT_TRY(dt__scan_i64(scan, &sum));
  if (sum != expected)
    return dt__scan_fail(scan, "the checksum does not fit: the file is damaged");
  if (!dt__scan_end(scan))
    return dt__scan_fail(scan, "expected nothing more");
  return NULL;
}

// Mutex held. What can fail comes first, and leaves no more than names of captures behind.
static dt_status_t take_profile(dt_function_t *function, const reader_t *r) {
  dt_policy_t *policy = &function->policy;
  uint32_t width = policy->histogram.width;
  for (uint32_t k = 0; k < r->captures.len; k++) {
    const char *name = r->captures.items[k].name;
    if (!dt__policy_find_capture(policy, name) && !dt__policy_add_capture(function, name))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < r->captures.len; k++)
    (void)dt__learned_join(&dt__policy_find_capture(policy, r->captures.items[k].name)->learned,
                           r->captures.items[k].learned);
  for (uint32_t k = 0; k < policy->n_sources; k++)
    (void)dt__learned_join(&policy->sources[k].learned, r->sources[k]);
  dt__histogram_lock(&policy->histogram);
  for (uint32_t k = 0; k < r->rows.len; k++) {
    const row_t *row = &r->rows.items[k];
    dt__histogram_add(&policy->histogram, row->values, row->calls, row->misses);
    // Calls that no compile has seen show what changes, too.
    for (uint32_t i = 0; i < width; i++)
      (void)dt__learned_join(&policy->sources[i].learned,
                             (dt_learned_t){DT_LEARNED_VALUE, row->values[i]});
  }
  dt__histogram_unlock(&policy->histogram);
  return NULL;
}

static dt_status_t load(dt_function_t *function, const char *path) {
  char *data = NULL;
  size_t len = 0;
  DT_TRY(read_file(path, &data, &len));
  reader_t *r = dt__calloc(1, sizeof(*r));
  if (!r) {
    dt__free(data);
    return DT_NO_MEMORY();
  }
  r->function = function;
  dt__arena_init(&r->arena, 0);
  dt__scan_init(&r->scan, data, len, path);
  dt_status_t status = read_profile(r);
  if (!status) {
    dt__mutex_lock(&function->mutex);
    status = take_profile(function, r);
    function->policy.version++;
    dt__mutex_unlock(&function->mutex);
    dt__hot_request(function);
  }
  dt__arena_fini(&r->arena);
  dt__free(r);
  dt__free(data);
  return status;
}

dt_status_t dt_function_profile_load(dt_function_t *function, const char *path) {
  if (!function || !path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_profile_load: %s: NULL",
                   function ? "path" : "function");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_profile_load in a child after fork");
  return dt__status_annotate(load(function, path), "function %s: loading a profile",
                             function->name);
}
