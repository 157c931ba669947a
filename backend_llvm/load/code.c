// SPDX-License-Identifier: Apache-2.0
// See code.h.
#include "backend_llvm/load/code.h"

#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Lack of memory, of mappings or of descriptors goes by; anything else is the system's rule.
static bool is_scarce(int error) {
  return error == ENOMEM || error == EAGAIN || error == ENOSPC || error == EMFILE ||
         error == ENFILE;
}

static dt_status_t refused(const char *what, size_t bytes) {
  int error = errno;
  return DT_FAIL(is_scarce(error) ? DT_E_NO_MEMORY : DT_E_UNSUPPORTED, "%zu bytes for code: %s: %s",
                 bytes, what, strerrordesc_np(error));
}

// ---- Ways -----------------------------------------------------------------------------------------

static dt_status_t map_once(dt_code_memory_t *memory) {
  void *at = dt__sys_map(memory->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return refused("mmap", memory->bytes);
  memory->base = memory->to = at;
  return NULL;
}

static dt_status_t map_views(int fd, dt_code_memory_t *memory) {
  void *to = dt__sys_map(memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (to == MAP_FAILED)
    return refused("mmap of a memory file", memory->bytes);
  memory->to = to;
  void *base = dt__sys_map(memory->bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return refused("mmap of a memory file with PROT_EXEC", memory->bytes);
  memory->base = base;
  return NULL;
}

static dt_status_t map_twice(dt_code_memory_t *memory) {
  int fd = dt__sys_memory_file("ductile-code", memory->bytes);
  if (fd < 0)
    return refused("memfd_create", memory->bytes);
  dt_status_t status = map_views(fd, memory);
  (void)dt__sys_close(fd);
  return status;
}

// By dt_code_way_t.
static dt_status_t (*const maps[DT_CODE_WAYS])(dt_code_memory_t *memory) = {map_once, map_twice};

dt_status_t dt__code_map(dt_code_way_t way, size_t bytes, dt_code_memory_t *out) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *out = (dt_code_memory_t){.bytes = (bytes + page) & ~(page - 1)};
  dt_status_t status = maps[way](out);
  if (status)
    dt__code_unmap(out);
  return status;
}

dt_status_t dt__code_finish(dt_code_memory_t *memory) {
  if (memory->to != memory->base)
    (void)munmap(memory->to, memory->bytes);
  else if (dt__sys_protect(memory->base, memory->bytes, PROT_READ | PROT_EXEC) != 0)
    return refused("mprotect with PROT_EXEC", memory->bytes);
  memory->to = NULL;
  return NULL;
}

void dt__code_unmap(dt_code_memory_t *memory) {
  if (memory->to && memory->to != memory->base && !memory->of_file)
    (void)munmap(memory->to, memory->bytes);
  if (memory->base)
    (void)munmap(memory->base, memory->bytes);
  *memory = (dt_code_memory_t){0};
}

// ---- Files ----------------------------------------------------------------------------------------

dt_status_t dt__code_map_file(int fd, uint64_t offset, size_t code_bytes, size_t data_bytes,
                              dt_code_memory_t *out) {
  *out = (dt_code_memory_t){.bytes = code_bytes + data_bytes, .of_file = true};
  void *base = dt__sys_map(out->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)offset);
  if (base == MAP_FAILED)
    return refused("mmap of a file with PROT_EXEC", out->bytes);
  out->base = base;
  out->to = (char *)base + code_bytes;
  if (!data_bytes || dt__sys_protect(out->to, data_bytes, PROT_READ | PROT_WRITE) == 0)
    return NULL;
  dt_status_t status = refused("mprotect", data_bytes);
  dt__code_unmap(out);
  return status;
}

dt_status_t dt__code_finish_file(dt_code_memory_t *memory, size_t code_bytes) {
  size_t data_bytes = memory->bytes - code_bytes;
  if (data_bytes && dt__sys_protect(memory->to, data_bytes, PROT_READ) != 0)
    return refused("mprotect", data_bytes);
  memory->to = NULL;
  return NULL;
}

// ---- What the system allows -----------------------------------------------------------------------

dt_status_t dt__code_probe(void) {
  dt_status_t failed[DT_CODE_WAYS] = {NULL}, told = NULL;
  dt_code_way_t way = 0;
  for (; way < DT_CODE_WAYS; way++) {
    dt_code_memory_t memory;
    failed[way] = dt__code_map(way, 1, &memory);
    if (!failed[way])
      failed[way] = dt__code_finish(&memory);
    dt__code_unmap(&memory);
    if (!failed[way])
      break;
    if (dt_status_code(failed[way]) == DT_E_NO_MEMORY)
      told = DT_FAIL(DT_E_NO_MEMORY, "%s", dt_status_message(failed[way]));
    if (told)
      break;
  }
  if (way == DT_CODE_WAYS)
    told = DT_FAIL(DT_E_UNSUPPORTED,
                   "the system lets this process make no code: neither by memory that becomes "
                   "executable (%s) nor by a memory file (%s). Allow one of them: "
                   "MemoryDenyWriteExecute and system-call filters of a systemd unit or container, "
                   "execmem of SELinux, vm.memfd_noexec; a build without LLVM needs neither",
                   dt_status_message(failed[DT_CODE_PROTECT]),
                   dt_status_message(failed[DT_CODE_TWICE]));
  for (way = 0; way < DT_CODE_WAYS; way++)
    dt_status_free(failed[way]);
  return told;
}
