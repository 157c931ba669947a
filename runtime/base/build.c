// SPDX-License-Identifier: Apache-2.0
// See build.h. Notes of an object are read from its loaded parts.
#include "runtime/base/build.h"

#include "runtime/base/system.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#define MOST_PARTS 64
#define MOST_NOTE_BYTES 4096

// The object that has the address, and the build id that its linker gave it.
typedef struct build_t {
  uintptr_t inside;
  const unsigned char *id;
  size_t bytes;
  bool shared; // a library: not the program itself
} build_t;

static void find_note(build_t *build, const unsigned char *at, size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr)) && !build->id) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof(note));
    size_t name = (note.n_namesz + 3u) & ~(size_t)3, id = (note.n_descsz + 3u) & ~(size_t)3;
    size_t all = sizeof(note) + name + id;
    if (all > bytes)
      return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        memcmp(at + sizeof(note), "GNU", 4) == 0) {
      build->id = at + sizeof(note) + name;
      build->bytes = note.n_descsz;
    }
    at += all;
    bytes -= all;
  }
}

static int find_build(struct dl_phdr_info *info, size_t size, void *user) {
  build_t *build = user;
  bool own = false;
  (void)size;
  for (ElfW(Half) k = 0; k < info->dlpi_phnum; k++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[k];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    own |=
        part->p_type == PT_LOAD && build->inside >= begin && build->inside < begin + part->p_memsz;
  }
  for (ElfW(Half) k = 0; own && k < info->dlpi_phnum; k++)
    if (info->dlpi_phdr[k].p_type == PT_NOTE)
      find_note(build, (const unsigned char *)(info->dlpi_addr + info->dlpi_phdr[k].p_vaddr),
                info->dlpi_phdr[k].p_memsz);
  build->shared = own && info->dlpi_name && info->dlpi_name[0];
  return own;
}

static void put(const build_t *build, dt_text_t *out) {
  out->failed |= build->bytes == 0;
  for (size_t k = 0; k < build->bytes; k++)
    dt__text_printf(out, "%02x", build->id[k]);
}

void dt__build_put(const void *inside, dt_text_t *out, bool *out_shared) {
  build_t build = {.inside = (uintptr_t)inside};
  (void)dl_iterate_phdr(find_build, &build);
  *out_shared = build.shared;
  put(&build, out);
}

// ---- Files ----------------------------------------------------------------------------------------

static bool read_all(int fd, void *to, size_t bytes, uint64_t offset) {
  return offset <= INT64_MAX && dt__sys_read_at(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void find_in_file(int fd, build_t *build, unsigned char note[MOST_NOTE_BYTES]) {
  ElfW(Ehdr) head;
  ElfW(Phdr) parts[MOST_PARTS];
  if (!read_all(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(parts[0]) || head.e_phnum > MOST_PARTS ||
      !read_all(fd, parts, head.e_phnum * sizeof(parts[0]), head.e_phoff))
    return;
  for (ElfW(Half) k = 0; k < head.e_phnum && !build->id; k++)
    if (parts[k].p_type == PT_NOTE && parts[k].p_filesz <= MOST_NOTE_BYTES &&
        read_all(fd, note, parts[k].p_filesz, parts[k].p_offset))
      find_note(build, note, parts[k].p_filesz);
}

void dt__build_put_file(const char *path, dt_text_t *out) {
  unsigned char note[MOST_NOTE_BYTES];
  build_t build = {0};
  int fd = dt__sys_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd >= 0) {
    find_in_file(fd, &build, note);
    (void)dt__sys_close(fd);
  }
  put(&build, out);
}
