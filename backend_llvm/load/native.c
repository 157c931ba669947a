// SPDX-License-Identifier: Apache-2.0
// Loads an object into code memory (code.h): the allocated sections in file order, then a table of
// addresses (for relocations through the GOT), then jump stubs for the few allowed outside
// functions. It is written, relocated, and made read-and-execute before anyone sees it.
//
//   [ sections, each at its alignment | addresses: 8 bytes a symbol | stubs: 16 bytes a symbol ]
//
// What is written lies at `to`, and at `base` when it runs: the same place, or another view of it.
#include "backend_llvm/load/native.h"

#include "backend_llvm/load/code.h"
#include "backend_llvm/load/elf.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

#define MAX_MAPPED ((uint64_t)1 << 30)
#define NOT_MAPPED UINT64_MAX
#define STUB_BYTES 16

typedef struct exported_t {
  char *name;
  void *address;
} exported_t;

struct dt_native {
  dt_code_memory_t memory;
  exported_t *functions;
  uint32_t n_functions;
};

// What code may call outside itself: what a code generator assumes to exist, and no more.
typedef struct outside_t {
  const char *name;
  uintptr_t address;
} outside_t;

// A sign that is taken from an f64 for an f16, for one: LLVM rounds the f64 to have it.
static _Float16 round_to_half(double x) { return (_Float16)x; }

static uintptr_t outside_address(const char *name) {
  const outside_t allowed[] = {
      {"memcpy", (uintptr_t)memcpy},
      {"memset", (uintptr_t)memset},
      {"memmove", (uintptr_t)memmove},
      {"fma", (uintptr_t)(double (*)(double, double, double))fma}, // CPUs without the instruction
      {"fmaf", (uintptr_t)(float (*)(float, float, float))fmaf},
      {"__truncdfhf2", (uintptr_t)round_to_half},
  };
  for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
    if (strcmp(allowed[i].name, name) == 0)
      return allowed[i].address;
  return 0;
}

typedef struct loading_t {
  dt_elf_t elf;
  uint64_t *place;       // of each section in the mapping; NOT_MAPPED
  uint64_t table, stubs; // offsets of the address table and of the stubs
  uint64_t bytes;
  uint64_t base;
  unsigned char *to;
} loading_t;

static bool align_up(uint64_t *value, uint64_t alignment) {
  *value = (*value + alignment - 1) & ~(alignment - 1);
  return *value <= MAX_MAPPED;
}

// Unwind tables describe frames that nothing unwinds; notes and debug information are not
// allocated.
static bool section_wanted(const loading_t *loading, const Elf64_Shdr *section) {
  return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_type == SHT_PROGBITS &&
         strcmp(dt__elf_section_name(&loading->elf, section), ".eh_frame") != 0;
}

static dt_status_t place_sections(loading_t *loading) {
  const dt_elf_t *elf = &loading->elf;
  loading->place = dt__calloc(elf->n_sections, sizeof(uint64_t));
  if (!loading->place)
    return DT_NO_MEMORY();
  uint64_t at = 0;
  for (uint32_t i = 0; i < elf->n_sections; i++) {
    const Elf64_Shdr *section = &elf->sections[i];
    const char *name = dt__elf_section_name(elf, section);
    loading->place[i] = NOT_MAPPED;
    if ((section->sh_flags & SHF_ALLOC) != 0 && section->sh_size != 0 &&
        ((section->sh_flags & SHF_TLS) != 0 || section->sh_type == SHT_NOBITS ||
         ((section->sh_flags & SHF_WRITE) != 0 && strncmp(name, ".data.rel.ro", 12) != 0)))
      return DT_FAIL(DT_E_COMPILE, "object file: section %s would be written at run time", name);
    if (!section_wanted(loading, section))
      continue;
    uint64_t alignment = section->sh_addralign ? section->sh_addralign : 1;
    if ((alignment & (alignment - 1)) != 0 || alignment > 4096)
      return DT_FAIL(DT_E_COMPILE, "object file: section %s has alignment %llu", name,
                     (unsigned long long)alignment);
    if (!align_up(&at, alignment) || section->sh_size > MAX_MAPPED - at)
      return DT_FAIL(DT_E_LIMIT, "object file: more than %llu bytes of code",
                     (unsigned long long)MAX_MAPPED);
    loading->place[i] = at;
    at += section->sh_size;
  }
  (void)align_up(&at, 16);
  loading->table = at;
  loading->stubs = at + (uint64_t)elf->n_symbols * sizeof(uint64_t);
  (void)align_up(&loading->stubs, STUB_BYTES);
  at = loading->stubs + (uint64_t)elf->n_symbols * STUB_BYTES;
  if (at > MAX_MAPPED)
    return DT_FAIL(DT_E_LIMIT, "object file: too many symbols");
  loading->bytes = at;
  return NULL;
}

// Address of symbol `index`; for an outside function that of its stub, so that 32-bit distances
// reach it. The table entry of the symbol holds the same address.
static dt_status_t symbol_address(const loading_t *loading, uint32_t index, uint64_t *out) {
  const dt_elf_t *elf = &loading->elf;
  if (index == 0 || index >= elf->n_symbols)
    return DT_FAIL(DT_E_COMPILE, "object file: a relocation names symbol %u of %u", index,
                   elf->n_symbols);
  const Elf64_Sym *symbol = &elf->symbols[index];
  const char *name = dt__elf_symbol_name(elf, symbol);
  if (symbol->st_shndx == SHN_UNDEF) {
    if (!outside_address(name))
      return DT_FAIL(DT_E_COMPILE, "object file: the code refers to '%s', which is not allowed",
                     name);
    *out = loading->base + loading->stubs + (uint64_t)index * STUB_BYTES;
    return NULL;
  }
  if (symbol->st_shndx >= elf->n_sections || loading->place[symbol->st_shndx] == NOT_MAPPED)
    return DT_FAIL(DT_E_COMPILE, "object file: symbol '%s' lies in no mapped section", name);
  if (symbol->st_value > elf->sections[symbol->st_shndx].sh_size)
    return DT_FAIL(DT_E_COMPILE, "object file: symbol '%s' lies outside its section", name);
  *out = loading->base + loading->place[symbol->st_shndx] + symbol->st_value;
  return NULL;
}

// jmp *[rip + 2], two bytes of padding, the address.
static void write_stub(loading_t *loading, uint32_t index, uintptr_t address) {
  unsigned char *at = loading->to + loading->stubs + (uint64_t)index * STUB_BYTES;
  const unsigned char jump[8] = {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0x90, 0x90};
  uint64_t target = (uint64_t)address;
  memcpy(at, jump, sizeof(jump));
  memcpy(at + 8, &target, sizeof(target));
}

typedef struct patch_t {
  unsigned char *at; // where it is written
  uint64_t place;    // its address when it runs
  size_t room;       // bytes left in the section from `at`
  uint64_t symbol;   // address
  uint64_t slot;     // address of the symbol's entry in the table
  int64_t addend;
} patch_t;

static dt_status_t write_relative32(const patch_t *patch, uint64_t target) {
  int64_t distance = (int64_t)(target + (uint64_t)patch->addend - patch->place);
  int32_t narrow = (int32_t)distance;
  if (patch->room < sizeof(narrow) || narrow != distance)
    return DT_FAIL(DT_E_COMPILE, "object file: a relocation does not fit");
  memcpy(patch->at, &narrow, sizeof(narrow));
  return NULL;
}

static dt_status_t write_64(const patch_t *patch, uint64_t value) {
  if (patch->room < sizeof(value))
    return DT_FAIL(DT_E_COMPILE, "object file: a relocation does not fit");
  memcpy(patch->at, &value, sizeof(value));
  return NULL;
}

static dt_status_t relocate_one(const patch_t *patch, uint32_t type) {
  uint64_t addend = (uint64_t)patch->addend;
  switch (type) {
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
    return write_relative32(patch, patch->symbol);
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX:
    return write_relative32(patch, patch->slot);
  case R_X86_64_64:
    return write_64(patch, patch->symbol + addend);
  case R_X86_64_PC64:
    return write_64(patch, patch->symbol + addend - patch->place);
  default:
    return DT_FAIL(DT_E_COMPILE, "object file: relocation type %u is not known", type);
  }
}

static dt_status_t relocate_section(loading_t *loading, const Elf64_Shdr *rela_section) {
  const dt_elf_t *elf = &loading->elf;
  uint32_t into = rela_section->sh_info;
  if (into >= elf->n_sections)
    return DT_FAIL(DT_E_COMPILE, "object file: relocations for a section that is not there");
  if (loading->place[into] == NOT_MAPPED)
    return NULL;
  size_t n = (size_t)(rela_section->sh_size / sizeof(Elf64_Rela));
  for (size_t i = 0; i < n; i++) {
    Elf64_Rela rela = dt__elf_rela(elf, rela_section, i);
    uint32_t type = ELF64_R_TYPE(rela.r_info);
    uint64_t index = ELF64_R_SYM(rela.r_info);
    if (type == R_X86_64_NONE)
      continue;
    if (rela.r_offset >= elf->sections[into].sh_size)
      return DT_FAIL(DT_E_COMPILE, "object file: a relocation lies outside its section");
    uint64_t place = loading->place[into] + rela.r_offset;
    patch_t patch = {.at = loading->to + place,
                     .place = loading->base + place,
                     .room = (size_t)(elf->sections[into].sh_size - rela.r_offset),
                     .addend = rela.r_addend};
    DT_TRY(symbol_address(loading, (uint32_t)index, &patch.symbol));
    uint64_t slot = loading->table + index * sizeof(uint64_t);
    memcpy(loading->to + slot, &patch.symbol, sizeof(uint64_t));
    patch.slot = loading->base + slot;
    if (elf->symbols[index].st_shndx == SHN_UNDEF)
      write_stub(loading, (uint32_t)index,
                 outside_address(dt__elf_symbol_name(elf, &elf->symbols[index])));
    DT_TRY(relocate_one(&patch, type));
  }
  return NULL;
}

static dt_status_t fill(loading_t *loading) {
  const dt_elf_t *elf = &loading->elf;
  for (uint32_t i = 0; i < elf->n_sections; i++)
    if (loading->place[i] != NOT_MAPPED)
      memcpy(loading->to + loading->place[i], elf->data + elf->sections[i].sh_offset,
             (size_t)elf->sections[i].sh_size);
  for (uint32_t i = 0; i < elf->n_sections; i++)
    if (elf->sections[i].sh_type == SHT_RELA)
      DT_TRY(relocate_section(loading, &elf->sections[i]));
  return NULL;
}

static dt_status_t export_functions(const loading_t *loading, dt_native_t *native) {
  const dt_elf_t *elf = &loading->elf;
  native->functions = dt__calloc(elf->n_symbols, sizeof(exported_t));
  if (!native->functions)
    return DT_NO_MEMORY();
  for (uint32_t i = 1; i < elf->n_symbols; i++) {
    const Elf64_Sym *symbol = &elf->symbols[i];
    if (ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL ||
        ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF)
      continue;
    uint64_t address;
    DT_TRY(symbol_address(loading, i, &address));
    if ((elf->sections[symbol->st_shndx].sh_flags & SHF_EXECINSTR) == 0)
      return DT_FAIL(DT_E_COMPILE, "object file: function '%s' lies in no code section",
                     dt__elf_symbol_name(elf, symbol));
    exported_t *function = &native->functions[native->n_functions];
    function->name = dt__strdup(dt__elf_symbol_name(elf, symbol));
    if (!function->name)
      return DT_NO_MEMORY();
    function->address = (void *)(uintptr_t)address;
    native->n_functions++;
  }
  return NULL;
}

static dt_status_t fill_and_finish(loading_t *loading, dt_native_t *native) {
  loading->base = (uint64_t)(uintptr_t)native->memory.base;
  loading->to = native->memory.to;
  DT_TRY(fill(loading));
  return dt__code_finish(&native->memory);
}

// In a way that the system allows.
static dt_status_t map_and_fill(loading_t *loading, dt_native_t *native) {
  dt_status_t status = NULL;
  for (dt_code_way_t way = 0; way < DT_CODE_WAYS; way++) {
    dt_status_free(status);
    status = dt__code_map(way, (size_t)loading->bytes, &native->memory);
    if (!status)
      status = fill_and_finish(loading, native);
    if (!status)
      return export_functions(loading, native);
    dt__code_unmap(&native->memory);
    if (dt_status_code(status) != DT_E_UNSUPPORTED)
      return status;
  }
  return status;
}

dt_status_t dt__native_load(const void *object, size_t bytes, dt_native_t **out) {
  *out = NULL;
  loading_t loading = {0};
  DT_TRY(dt__elf_read(object, bytes, &loading.elf));
  dt_status_t status = place_sections(&loading);
  dt_native_t *native = NULL;
  if (!status) {
    native = dt__calloc(1, sizeof(*native));
    status = native ? map_and_fill(&loading, native) : DT_NO_MEMORY();
  }
  dt__free(loading.place);
  dt__elf_fini(&loading.elf);
  if (status) {
    dt__native_unload(native);
    return status;
  }
  *out = native;
  return NULL;
}

void dt__native_unload(dt_native_t *native) {
  if (!native)
    return;
  dt__code_unmap(&native->memory);
  for (uint32_t i = 0; i < native->n_functions; i++)
    dt__free(native->functions[i].name);
  dt__free(native->functions);
  dt__free(native);
}

void *dt__native_symbol(const dt_native_t *native, const char *name) {
  for (uint32_t i = 0; i < native->n_functions; i++)
    if (strcmp(native->functions[i].name, name) == 0)
      return native->functions[i].address;
  return NULL;
}

size_t dt__native_bytes(const dt_native_t *native) { return native->memory.bytes; }
