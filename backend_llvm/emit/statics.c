// SPDX-License-Identifier: Apache-2.0
// LLVM's static objects.
//
// Each registers its destructor when it is made: while LLVM is loaded, or in the middle of a
// compile. So exit would run the destructor before any handler that could wait for that compile
// (runtime/base/life.c), which was set before. These objects hold nothing but memory, so their
// destructors are not registered: the slot by which LLVM's library calls __cxa_atexit is set to a
// function that does nothing. Our own file that needs LLVM does so while it is loaded, before
// LLVM's first constructor runs (backend_llvm/jit/entry.c). A program that has LLVM from its start
// does it before its first compile, and destructors from LLVM's load time then stand before our
// handler, and run as usual. With LLVM's archives the linker's --wrap does the same for all.
#include "backend_llvm/emit/statics.h"

#include <pthread.h>

typedef void (*destructor_t)(void *object);

#ifdef DT_STATIC_LLVM
int __wrap___cxa_atexit(destructor_t destructor, void *object, void *library);
int __wrap___cxa_atexit(destructor_t destructor, void *object, void *library) {
  (void)destructor, (void)object, (void)library;
  return 0;
}

void dt__llvm_keep_statics(void) {}

#elif defined(__x86_64__)
#include <link.h>
#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int forget(destructor_t destructor, void *object, void *library) {
  (void)destructor, (void)object, (void)library;
  return 0;
}

// What the dynamic section says, as addresses.
typedef struct image_t {
  const struct dl_phdr_info *info;
  const ElfW(Sym) * symbols;
  const char *names;
} image_t;

static const void *address_of(const struct dl_phdr_info *info, ElfW(Addr) value) {
  // The C library turns these into addresses when it loads an image; one that has not left offsets.
  ElfW(Addr) at = value < info->dlpi_addr ? info->dlpi_addr + value : value;
  return (const void *)at;
}

static bool has_address(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && address >= begin && address - begin < part->p_memsz)
      return true;
  }
  return false;
}

// Whether the loader has made the slot's page read-only.
static bool is_sealed(const struct dl_phdr_info *info, uintptr_t slot) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_RELRO && slot >= begin && slot - begin < part->p_memsz)
      return true;
  }
  return false;
}

static void set_slot(const struct dl_phdr_info *info, uintptr_t slot) {
  uintptr_t page = slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  size_t bytes = slot + sizeof(void *) - page;
  bool sealed = is_sealed(info, slot);
  if (sealed && mprotect((void *)page, bytes, PROT_READ | PROT_WRITE) != 0)
    return; // then they are destroyed as ever
  __atomic_store_n((uintptr_t *)slot, (uintptr_t)forget, __ATOMIC_RELAXED);
  if (sealed)
    (void)mprotect((void *)page, bytes, PROT_READ);
}

static void set_slots(const image_t *image, const ElfW(Rela) * relocations, size_t bytes) {
  for (size_t i = 0; relocations && i < bytes / sizeof(*relocations); i++) {
    const ElfW(Rela) *at = &relocations[i];
    if (ELF64_R_TYPE(at->r_info) != R_X86_64_JUMP_SLOT &&
        ELF64_R_TYPE(at->r_info) != R_X86_64_GLOB_DAT)
      continue;
    const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(at->r_info)];
    if (strcmp(image->names + symbol->st_name, "__cxa_atexit") == 0)
      set_slot(image->info, image->info->dlpi_addr + at->r_offset);
  }
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  // A library other than this one: in a program that holds both, nothing is changed.
  if (!has_address(info, (uintptr_t)LLVMContextCreate) || has_address(info, (uintptr_t)visit))
    return 0;
  const ElfW(Dyn) *entry = NULL;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  image_t image = {.info = info};
  const ElfW(Rela) *data = NULL, *calls = NULL;
  size_t data_bytes = 0, call_bytes = 0;
  for (; entry && entry->d_tag != DT_NULL; entry++) {
    const void *address = address_of(info, entry->d_un.d_ptr);
    switch (entry->d_tag) {
    case DT_SYMTAB:
      image.symbols = address;
      break;
    case DT_STRTAB:
      image.names = address;
      break;
    case DT_RELA:
      data = address;
      break;
    case DT_RELASZ:
      data_bytes = entry->d_un.d_val;
      break;
    case DT_JMPREL:
      calls = address;
      break;
    case DT_PLTRELSZ:
      call_bytes = entry->d_un.d_val;
      break;
    default:
      break;
    }
  }
  if (image.symbols && image.names) {
    set_slots(&image, data, data_bytes);
    set_slots(&image, calls, call_bytes);
  }
  return 1;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void keep(void) { (void)dl_iterate_phdr(visit, NULL); }

void dt__llvm_keep_statics(void) { (void)pthread_once(&once, keep); }

#else
void dt__llvm_keep_statics(void) {}
#endif
