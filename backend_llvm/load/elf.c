// SPDX-License-Identifier: Apache-2.0
// Reads ELF64 relocatable objects. Every offset, size, count, name and index that the file states
// is checked here once, so that the loader may use them without looking at the file's length again.
#include "backend_llvm/load/elf.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

static dt_status_t malformed(const char *what) {
  return DT_FAIL(DT_E_COMPILE, "object file: %s", what);
}

static bool range_ok(const dt_elf_t *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->bytes && size <= elf->bytes - offset;
}

static dt_status_t read_header(const dt_elf_t *elf, Elf64_Ehdr *header) {
  if (elf->bytes < sizeof(*header))
    return malformed("shorter than its header");
  memcpy(header, elf->data, sizeof(*header));
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_ident[EI_VERSION] != EV_CURRENT)
    return malformed("not a 64-bit little-endian ELF file");
  if (header->e_type != ET_REL || header->e_machine != EM_X86_64)
    return malformed("not a relocatable object for x86-64");
  if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum == 0)
    return malformed("no section headers of the expected size");
  if (!range_ok(elf, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
    return malformed("section headers lie outside the file");
  return NULL;
}

// A string table must end with a NUL so that any offset inside it is a string.
static dt_status_t read_strings(const dt_elf_t *elf, uint32_t index, const char **out,
                                size_t *out_bytes) {
  if (index >= elf->n_sections || elf->sections[index].sh_type != SHT_STRTAB)
    return malformed("a string table is missing");
  const Elf64_Shdr *section = &elf->sections[index];
  const char *at = (const char *)elf->data + section->sh_offset;
  if (section->sh_size == 0 || at[section->sh_size - 1] != '\0')
    return malformed("a string table does not end with a NUL");
  *out = at;
  *out_bytes = (size_t)section->sh_size;
  return NULL;
}

static dt_status_t read_sections(dt_elf_t *elf, const Elf64_Ehdr *header) {
  elf->n_sections = header->e_shnum;
  elf->sections = dt__calloc(elf->n_sections, sizeof(Elf64_Shdr));
  if (!elf->sections)
    return DT_NO_MEMORY();
  memcpy(elf->sections, elf->data + header->e_shoff, elf->n_sections * sizeof(Elf64_Shdr));
  for (uint32_t i = 0; i < elf->n_sections; i++) {
    const Elf64_Shdr *section = &elf->sections[i];
    if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
        !range_ok(elf, section->sh_offset, section->sh_size))
      return malformed("a section lies outside the file");
    if (section->sh_type == SHT_RELA &&
        (section->sh_entsize != sizeof(Elf64_Rela) || section->sh_size % sizeof(Elf64_Rela) != 0))
      return malformed("a relocation section has a wrong entry size");
    if (section->sh_type == SHT_REL)
      return malformed("relocations without addends");
  }
  DT_TRY(read_strings(elf, header->e_shstrndx, &elf->section_names, &elf->section_names_bytes));
  for (uint32_t i = 0; i < elf->n_sections; i++)
    if (elf->sections[i].sh_name >= elf->section_names_bytes)
      return malformed("a section name lies outside its table");
  return NULL;
}

static dt_status_t read_symbols(dt_elf_t *elf) {
  const Elf64_Shdr *table = NULL;
  for (uint32_t i = 0; i < elf->n_sections; i++) {
    if (elf->sections[i].sh_type != SHT_SYMTAB)
      continue;
    if (table)
      return malformed("more than one symbol table");
    table = &elf->sections[i];
  }
  if (!table)
    return malformed("no symbol table");
  if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_size % sizeof(Elf64_Sym) != 0 ||
      table->sh_size / sizeof(Elf64_Sym) > UINT32_MAX)
    return malformed("the symbol table has a wrong entry size");
  DT_TRY(read_strings(elf, table->sh_link, &elf->symbol_names, &elf->symbol_names_bytes));
  elf->n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym));
  elf->symbols = dt__calloc(elf->n_symbols, sizeof(Elf64_Sym));
  if (!elf->symbols)
    return DT_NO_MEMORY();
  memcpy(elf->symbols, elf->data + table->sh_offset, (size_t)table->sh_size);
  for (uint32_t i = 0; i < elf->n_symbols; i++) {
    const Elf64_Sym *symbol = &elf->symbols[i];
    if (symbol->st_name >= elf->symbol_names_bytes)
      return malformed("a symbol name lies outside its table");
    if (symbol->st_shndx >= elf->n_sections && symbol->st_shndx < SHN_LORESERVE)
      return malformed("a symbol names a section that is not there");
  }
  return NULL;
}

dt_status_t dt__elf_read(const void *object, size_t bytes, dt_elf_t *out) {
  *out = (dt_elf_t){.data = object, .bytes = bytes};
  Elf64_Ehdr header;
  dt_status_t status = read_header(out, &header);
  if (!status)
    status = read_sections(out, &header);
  if (!status)
    status = read_symbols(out);
  if (status)
    dt__elf_fini(out);
  return status;
}

void dt__elf_fini(dt_elf_t *elf) {
  dt__free(elf->sections);
  dt__free(elf->symbols);
  *elf = (dt_elf_t){0};
}

const char *dt__elf_section_name(const dt_elf_t *elf, const Elf64_Shdr *section) {
  return elf->section_names + section->sh_name;
}

Elf64_Rela dt__elf_rela(const dt_elf_t *elf, const Elf64_Shdr *section, size_t index) {
  Elf64_Rela rela;
  memcpy(&rela, elf->data + section->sh_offset + index * sizeof(rela), sizeof(rela));
  return rela;
}
