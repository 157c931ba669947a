// SPDX-License-Identifier: Apache-2.0
// A bounds-checked reading of an ELF64 x86-64 relocatable object: section headers, symbols and
// relocations as aligned copies. Nothing here maps or writes code (native.c does).
#ifndef DT_BACKEND_LLVM_LOAD_ELF_H
#define DT_BACKEND_LLVM_LOAD_ELF_H

#include "ductile/base.h"

#include <elf.h>

typedef struct dt_elf_t {
  const unsigned char *data; // borrowed
  size_t bytes;
  uint32_t n_sections, n_symbols;
  Elf64_Shdr *sections; // checked: offset and size lie inside the data (except NOBITS)
  Elf64_Sym *symbols;   // checked: names and section indices are valid
  const char *section_names, *symbol_names;
  size_t section_names_bytes, symbol_names_bytes;
} dt_elf_t;

// Reads and checks. On failure nothing is held.
dt_status_t dt__elf_read(const void *object, size_t bytes, dt_elf_t *out) DT_MUST_USE;
void dt__elf_fini(dt_elf_t *elf);
const char *dt__elf_section_name(const dt_elf_t *elf, const Elf64_Shdr *section);
static inline const char *dt__elf_symbol_name(const dt_elf_t *elf, const Elf64_Sym *symbol) {
  return elf->symbol_names + symbol->st_name;
}
// Entry `index` of a RELA section; the caller checked index < sh_size / sizeof(Elf64_Rela).
Elf64_Rela dt__elf_rela(const dt_elf_t *elf, const Elf64_Shdr *section, size_t index);

#endif // DT_BACKEND_LLVM_LOAD_ELF_H
