// SPDX-License-Identifier: Apache-2.0
// Files are written by one write for all code of a variant, at their ends: several runtimes of a
// process share them.
#include "runtime/exec/perf.h"

#include "runtime/base/life.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

struct dt_perf_t {
  dt_mutex_t mutex; // of who writes
  int map, dump;    // -1: it is not wanted
  void *marker;     // a mapping of the dump, by which perf finds it
  size_t marker_bytes;
  uint64_t last_index; // of code in the dump; guarded by mutex
};

// ---- Files ------------------------------------------------------------------------------------------

// A file of this user's own, for this process's name; whatever stands there otherwise is refused.
static dt_status_t open_own(const char *path, int flags, int *out) {
  struct stat found;
  int fd = dt__sys_open(AT_FDCWD, path, flags | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0)
    return DT_FAIL(DT_E_IO, "%s: cannot open: %s", path, strerror(errno));
  if (dt__sys_stat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid()) {
    (void)dt__sys_close(fd);
    return DT_FAIL(DT_E_IO, "%s: no file of this user's own", path);
  }
  *out = fd;
  return NULL;
}

static bool write_all(int fd, const char *at, size_t bytes) {
  while (bytes) {
    ssize_t done = dt__sys_write(fd, at, bytes);
    if (done <= 0)
      return false;
    at += done;
    bytes -= (size_t)done;
  }
  return true;
}

// Whoever uses a file shares its lock; who can have it alone finds a file of a process that is
// gone.
static dt_status_t begin_file(const char *path, int fd, const void *head, size_t bytes) {
  bool good = true;
  if (dt__sys_lock(fd) == 0)
    good = dt__sys_truncate(fd, 0) == 0 && write_all(fd, head, bytes);
  if (!good)
    return DT_FAIL(DT_E_IO, "%s: cannot write: %s", path, strerror(errno));
  (void)dt__sys_share(fd);
  return NULL;
}

static dt_status_t open_map(dt_perf_t *perf) {
  char path[64];
  (void)snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)getpid());
  DT_TRY(open_own(path, O_WRONLY, &perf->map));
  return begin_file(path, perf->map, "", 0);
}

static dt_status_t open_dump(dt_perf_t *perf, const char *folder) {
  char path[PATH_MAX];
  const dt_jitdump_head_t head = {.magic = DT_JITDUMP_MAGIC,
                                  .version = DT_JITDUMP_VERSION,
                                  .bytes = sizeof(head),
                                  .machine = MACHINE,
                                  .pid = (uint32_t)getpid(),
                                  .ns = (uint64_t)dt__now_ns()};
  (void)snprintf(path, sizeof(path), "%.3800s/jit-%ld.dump", folder, (long)getpid());
  DT_TRY(open_own(path, O_RDWR, &perf->dump));
  DT_TRY(begin_file(path, perf->dump, &head, sizeof(head)));
  perf->marker_bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *marker = dt__sys_map(perf->marker_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, perf->dump, 0);
  if (marker == MAP_FAILED)
    return DT_FAIL(DT_E_IO, "%s: cannot be mapped as code, by which perf finds it: %s", path,
                   strerror(errno));
  perf->marker = marker;
  return NULL;
}

// ---- Opening ----------------------------------------------------------------------------------------

static bool is_word(const char *at, size_t len, const char *word) {
  return len == strlen(word) && memcmp(at, word, len) == 0;
}

static dt_status_t read_words(const char *what, bool *out_map, bool *out_dump) {
  for (const char *at = what; *at;) {
    size_t len = strcspn(at, ",");
    if (is_word(at, len, "map"))
      *out_map = true;
    else if (is_word(at, len, "jitdump"))
      *out_dump = true;
    else if (len)
      return DT_FAIL(DT_E_ARGUMENT, "DUCTILE_PERF is '%s'; expected map, jitdump, or map,jitdump",
                     what);
    at += len + (at[len] == ',');
  }
  return NULL;
}

dt_status_t dt__perf_open(const char *what, const char *folder, dt_perf_t **out) {
  bool map = false, dump = false;
  *out = NULL;
  DT_TRY(read_words(what, &map, &dump));
  if (!map && !dump)
    return NULL;
  dt_perf_t *perf = dt__calloc(1, sizeof(*perf));
  if (!perf)
    return DT_NO_MEMORY();
  perf->map = perf->dump = -1;
  dt_status_t status = dt__mutex_init(&perf->mutex, DT_RANK_PERF);
  if (status) {
    dt__free(perf);
    return status;
  }
  if (map)
    status = open_map(perf);
  if (!status && dump)
    status = open_dump(perf, folder);
  if (status) {
    dt__perf_close(perf);
    return dt__status_annotate(status, "DUCTILE_PERF");
  }
  *out = perf;
  return NULL;
}

void dt__perf_close(dt_perf_t *perf) {
  if (!perf)
    return;
  if (perf->marker)
    (void)munmap(perf->marker, perf->marker_bytes);
  if (perf->map >= 0)
    (void)dt__sys_close(perf->map);
  if (perf->dump >= 0)
    (void)dt__sys_close(perf->dump);
  dt__mutex_fini(&perf->mutex);
  dt__free(perf);
}

// ---- Telling ----------------------------------------------------------------------------------------

// "encoder.0.k5", in one line whatever the function is called.
static void put_name(dt_text_t *out, const char *function, uint32_t variant, const char *name) {
  for (const char *at = function; *at; at++)
    dt__text_write(out, (unsigned char)*at <= ' ' ? "_" : at, 1);
  dt__text_printf(out, ".%u.%s", variant, strncmp(name, "dt_", 3) == 0 ? name + 3 : name);
}

static void put_map(dt_text_t *out, const dt_native_function_t *code, const char *function,
                    uint32_t variant) {
  dt__text_printf(out, "%llx %zx ", (unsigned long long)(uintptr_t)code->code, code->bytes);
  put_name(out, function, variant, code->name);
  dt__text_put(out, "\n");
}

static void put_load(dt_perf_t *perf, dt_text_t *out, const dt_native_function_t *code,
                     const char *function, uint32_t variant) {
  dt_text_t name;
  dt__text_init(&name);
  put_name(&name, function, variant, code->name);
  uint64_t now = (uint64_t)dt__now_ns();
  perf->last_index = now > perf->last_index ? now : perf->last_index + 1;
  const dt_jitdump_load_t load = {.id = DT_JITDUMP_LOAD,
                                  .bytes = (uint32_t)(sizeof(load) + name.len + 1 + code->bytes),
                                  .ns = now,
                                  .pid = (uint32_t)getpid(),
                                  .thread = (uint32_t)syscall(SYS_gettid),
                                  .address = (uint64_t)(uintptr_t)code->code,
                                  .code_address = (uint64_t)(uintptr_t)code->code,
                                  .code_bytes = code->bytes,
                                  .index = perf->last_index};
  dt__text_write(out, (const char *)&load, sizeof(load));
  dt__text_write(out, dt__text_str(&name), name.len + 1);
  dt__text_write(out, code->code, code->bytes);
  out->failed = out->failed || name.failed;
  dt__text_fini(&name);
}

static void tell_units(dt_perf_t *perf, const char *function, uint32_t variant,
                       const dt_compiled_t *compiled, dt_text_t *map, dt_text_t *dump) {
  dt_native_function_t code;
  for (uint32_t u = 0; u < compiled->n_units; u++)
    for (uint32_t k = 0; dt__native_function(compiled->units[u], k, &code); k++) {
      if (perf->map >= 0)
        put_map(map, &code, function, variant);
      if (perf->dump >= 0)
        put_load(perf, dump, &code, function, variant);
    }
}

void dt__perf_tell(dt_perf_t *perf, const char *function, uint32_t variant,
                   const dt_compiled_t *compiled) {
  dt_text_t map, dump;
  if (dt__forked())
    return;
  dt__text_init(&map);
  dt__text_init(&dump);
  dt__mutex_lock(&perf->mutex);
  tell_units(perf, function, variant, compiled, &map, &dump);
  bool good = !map.failed && !dump.failed;
  if (good && map.len)
    good = write_all(perf->map, map.data, map.len);
  if (good && dump.len)
    good = write_all(perf->dump, dump.data, dump.len);
  dt__mutex_unlock(&perf->mutex);
  if (!good)
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u: perf was not told of its code", function, variant);
  dt__text_fini(&map);
  dt__text_fini(&dump);
}
