// SPDX-License-Identifier: Apache-2.0
// See image.h. Sections are placed first, those of all objects one after another; then relocations
// are read for what needs a slot or a stub; then all is written.
#include "backend_llvm/load/image.h"

#include "backend_llvm/load/elf.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_BYTES ((uint64_t)1 << 30)
#define STUB_BYTES 8
#define LINE 64u

typedef struct place_t {
  bool mapped, data; // in the image; in its data
  uint64_t at;       // from where the code, or the data, begin
} place_t;

typedef struct unit_t {
  dt_elf_t elf;
  place_t *places;         // by section
  uint32_t *slots, *stubs; // by symbol: 1 + its number; 0: none
} unit_t;

typedef struct link_t {
  unit_t *units;
  uint32_t n_units, n_slots, n_stubs, n_fixed; // n_fixed: slots in sections
  uint64_t code, data;                         // bytes so far
  uint64_t stubs, table;                       // where they begin
  uint64_t unit;                               // that code and data are a multiple of
  dt_image_t *out;
} link_t;

static dt_status_t too_large(void) {
  return DT_FAIL(DT_E_LIMIT, "object file: more than %llu bytes of code",
                 (unsigned long long)MOST_BYTES);
}

static bool align_up(uint64_t *value, uint64_t alignment) {
  *value = (*value + alignment - 1) & ~(alignment - 1);
  return *value <= MOST_BYTES;
}

// ---- Places ---------------------------------------------------------------------------------------
// Unwind tables describe frames that nothing unwinds; notes and debug information are not
// allocated.
static bool is_wanted(const dt_elf_t *elf, const Elf64_Shdr *section) {
  return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_type == SHT_PROGBITS &&
         strcmp(dt__elf_section_name(elf, section), ".eh_frame") != 0;
}

static dt_status_t check_section(const dt_elf_t *elf, const Elf64_Shdr *section) {
  const char *name = dt__elf_section_name(elf, section);
  uint64_t alignment = section->sh_addralign;
  if ((section->sh_flags & SHF_ALLOC) != 0 && section->sh_size != 0 &&
      ((section->sh_flags & SHF_TLS) != 0 || section->sh_type == SHT_NOBITS ||
       ((section->sh_flags & SHF_WRITE) != 0 && strncmp(name, ".data.rel.ro", 12) != 0)))
    return DT_FAIL(DT_E_COMPILE, "object file: section %s would be written at run time", name);
  if (is_wanted(elf, section) && ((alignment & (alignment - 1)) != 0 || alignment > DT_IMAGE_PAGE))
    return DT_FAIL(DT_E_COMPILE, "object file: section %s has alignment %llu", name,
                   (unsigned long long)alignment);
  return NULL;
}

static dt_status_t place_sections(link_t *link, unit_t *unit) {
  for (uint32_t i = 0; i < unit->elf.n_sections; i++) {
    const Elf64_Shdr *section = &unit->elf.sections[i];
    place_t *place = &unit->places[i];
    DT_TRY(check_section(&unit->elf, section));
    if (!is_wanted(&unit->elf, section))
      continue;
    place->mapped = true;
    if (section->sh_addralign > link->unit)
      link->unit = DT_IMAGE_PAGE; // data that begin behind the code are aligned, too
    place->data = place->data || (section->sh_flags & SHF_WRITE) != 0;
    if (place->data && (section->sh_flags & SHF_EXECINSTR) != 0)
      return DT_FAIL(DT_E_COMPILE, "object file: section %s has addresses between its code",
                     dt__elf_section_name(&unit->elf, section));
    uint64_t *at = place->data ? &link->data : &link->code;
    if (!align_up(at, section->sh_addralign ? section->sh_addralign : 1) ||
        section->sh_size > MOST_BYTES - *at)
      return too_large();
    place->at = *at;
    *at += section->sh_size;
  }
  return NULL;
}

// ---- Relocations ----------------------------------------------------------------------------------
typedef enum how_t { UNKNOWN, NOTHING, RELATIVE_32, SLOT_32, ADDRESS_64, RELATIVE_64 } how_t;

static how_t how_of(uint32_t type) {
  switch (type) {
  case R_X86_64_NONE:
    return NOTHING;
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
    return RELATIVE_32;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX:
    return SLOT_32;
  case R_X86_64_64:
    return ADDRESS_64;
  case R_X86_64_PC64:
    return RELATIVE_64;
  default:
    return UNKNOWN;
  }
}

typedef struct reloc_t {
  how_t how;
  uint32_t section, symbol;
  uint64_t at; // in the section
  int64_t plus;
} reloc_t;
typedef dt_status_t visit_t(link_t *link, unit_t *unit, const reloc_t *reloc);

static dt_status_t visit_section(link_t *link, unit_t *unit, const Elf64_Shdr *relocations,
                                 visit_t *visit) {
  const dt_elf_t *elf = &unit->elf;
  uint32_t into = relocations->sh_info;
  if (into >= elf->n_sections)
    return DT_FAIL(DT_E_COMPILE, "object file: relocations for a section that is not there");
  size_t n = (size_t)(relocations->sh_size / sizeof(Elf64_Rela));
  for (size_t i = 0; i < n && is_wanted(elf, &elf->sections[into]); i++) {
    Elf64_Rela rela = dt__elf_rela(elf, relocations, i);
    const reloc_t reloc = {.how = how_of(ELF64_R_TYPE(rela.r_info)),
                           .section = into,
                           .symbol = (uint32_t)ELF64_R_SYM(rela.r_info),
                           .at = rela.r_offset,
                           .plus = rela.r_addend};
    if (reloc.how == NOTHING)
      continue;
    if (reloc.how == UNKNOWN)
      return DT_FAIL(DT_E_COMPILE, "object file: relocation type %u is not known",
                     (unsigned)ELF64_R_TYPE(rela.r_info));
    if (reloc.at >= elf->sections[into].sh_size)
      return DT_FAIL(DT_E_COMPILE, "object file: a relocation lies outside its section");
    if (reloc.symbol == 0 || reloc.symbol >= elf->n_symbols)
      return DT_FAIL(DT_E_COMPILE, "object file: a relocation names symbol %u of %u", reloc.symbol,
                     elf->n_symbols);
    DT_TRY(visit(link, unit, &reloc));
  }
  return NULL;
}

static dt_status_t visit_all(link_t *link, visit_t *visit) {
  for (uint32_t u = 0; u < link->n_units; u++) {
    unit_t *unit = &link->units[u];
    for (uint32_t i = 0; i < unit->elf.n_sections; i++)
      if (unit->elf.sections[i].sh_type == SHT_RELA)
        DT_TRY(visit_section(link, unit, &unit->elf.sections[i], visit));
  }
  return NULL;
}

static bool is_outside(const unit_t *unit, uint32_t symbol) {
  return unit->elf.symbols[symbol].st_shndx == SHN_UNDEF;
}

// Sections with addresses are data; outside functions, and what is reached by the table, get slots.
static dt_status_t count(link_t *link, unit_t *unit, const reloc_t *reloc) {
  bool outside = is_outside(unit, reloc->symbol);
  const char *name = dt__elf_symbol_name(&unit->elf, &unit->elf.symbols[reloc->symbol]);
  if (outside && !dt__outside_find(name))
    return DT_FAIL(DT_E_COMPILE, "object file: the code refers to '%s', which is not allowed",
                   name);
  if (reloc->how == ADDRESS_64) {
    unit->places[reloc->section].data = true;
    link->n_fixed++;
    return NULL;
  }
  if ((outside || reloc->how == SLOT_32) && !unit->slots[reloc->symbol])
    unit->slots[reloc->symbol] = ++link->n_slots;
  if (outside && reloc->how != SLOT_32 && !unit->stubs[reloc->symbol])
    unit->stubs[reloc->symbol] = ++link->n_stubs;
  return NULL;
}

// ---- Writing --------------------------------------------------------------------------------------
static uint64_t place_in_image(const link_t *link, const place_t *place) {
  return place->at + (place->data ? link->out->code_bytes : 0);
}

// Where a symbol that is inside lies in the image.
static dt_status_t symbol_place(const link_t *link, const unit_t *unit, uint32_t index,
                                uint64_t *out) {
  const dt_elf_t *elf = &unit->elf;
  const Elf64_Sym *symbol = &elf->symbols[index];
  const char *name = dt__elf_symbol_name(elf, symbol);
  if (symbol->st_shndx >= elf->n_sections || !unit->places[symbol->st_shndx].mapped)
    return DT_FAIL(DT_E_COMPILE, "object file: symbol '%s' lies in no mapped section", name);
  if (symbol->st_value > elf->sections[symbol->st_shndx].sh_size)
    return DT_FAIL(DT_E_COMPILE, "object file: symbol '%s' lies outside its section", name);
  *out = place_in_image(link, &unit->places[symbol->st_shndx]) + symbol->st_value;
  return NULL;
}

static uint64_t slot_place(const link_t *link, uint32_t slot) {
  return link->out->code_bytes + link->table + (slot - 1) * sizeof(uint64_t);
}

static unsigned char *byte_at(const link_t *link, uint64_t place) {
  return (unsigned char *)link->out->bytes + place;
}

// A slot that becomes the address of the symbol, and that much more.
static dt_status_t put_slot(link_t *link, const unit_t *unit, uint32_t symbol, uint64_t at,
                            int64_t plus) {
  dt_image_slot_t slot = {.at = (uint32_t)at, .plus = plus};
  uint64_t place = 0;
  if (is_outside(unit, symbol)) {
    slot.outside = dt__outside_find(dt__elf_symbol_name(&unit->elf, &unit->elf.symbols[symbol]));
  } else {
    DT_TRY(symbol_place(link, unit, symbol, &place));
    slot.plus = (int64_t)(place + (uint64_t)plus);
  }
  link->out->slots[link->out->n_slots++] = slot;
  return NULL;
}

static dt_status_t no_room(void) {
  return DT_FAIL(DT_E_COMPILE, "object file: a relocation does not fit");
}

static dt_status_t put_32(const link_t *link, uint64_t place, uint64_t room, uint64_t target,
                          int64_t plus) {
  int64_t distance = (int64_t)(target + (uint64_t)plus - place);
  int32_t narrow = (int32_t)distance;
  if (room < sizeof(narrow) || narrow != distance)
    return no_room();
  memcpy(byte_at(link, place), &narrow, sizeof(narrow));
  return NULL;
}

static dt_status_t relocate(link_t *link, unit_t *unit, const reloc_t *reloc) {
  const place_t *section = &unit->places[reloc->section];
  uint64_t place = place_in_image(link, section) + reloc->at, target = 0;
  uint64_t room = unit->elf.sections[reloc->section].sh_size - reloc->at;
  if (reloc->how == ADDRESS_64)
    return room < sizeof(uint64_t)
               ? no_room()
               : put_slot(link, unit, reloc->symbol, section->at + reloc->at, reloc->plus);
  if (reloc->how == SLOT_32)
    return put_32(link, place, room, slot_place(link, unit->slots[reloc->symbol]), reloc->plus);
  if (is_outside(unit, reloc->symbol))
    target = link->stubs + (unit->stubs[reloc->symbol] - 1) * STUB_BYTES;
  else
    DT_TRY(symbol_place(link, unit, reloc->symbol, &target));
  if (reloc->how == RELATIVE_32)
    return put_32(link, place, room, target, reloc->plus);
  uint64_t distance = target + (uint64_t)reloc->plus - place;
  if (room < sizeof(distance))
    return no_room();
  memcpy(byte_at(link, place), &distance, sizeof(distance));
  return NULL;
}

// jmp *[rip + distance to the slot], two bytes of padding.
static dt_status_t write_stub(const link_t *link, uint32_t stub, uint32_t slot) {
  static const unsigned char jump[STUB_BYTES] = {0xff, 0x25, 0, 0, 0, 0, 0x90, 0x90};
  uint64_t place = link->stubs + (stub - 1) * STUB_BYTES;
  memcpy(byte_at(link, place), jump, sizeof(jump));
  return put_32(link, place + 2, sizeof(int32_t), slot_place(link, slot), -4);
}

static dt_status_t write_unit(link_t *link, unit_t *unit) {
  const dt_elf_t *elf = &unit->elf;
  for (uint32_t i = 0; i < elf->n_sections; i++)
    if (unit->places[i].mapped && elf->sections[i].sh_size)
      memcpy(byte_at(link, place_in_image(link, &unit->places[i])),
             elf->data + elf->sections[i].sh_offset, (size_t)elf->sections[i].sh_size);
  for (uint32_t k = 1; k < elf->n_symbols; k++) {
    if (unit->slots[k])
      DT_TRY(put_slot(link, unit, k, link->table + (unit->slots[k] - 1) * sizeof(uint64_t), 0));
    if (unit->stubs[k])
      DT_TRY(write_stub(link, unit->stubs[k], unit->slots[k]));
  }
  return NULL;
}

// ---- Functions ------------------------------------------------------------------------------------
static bool is_function(const Elf64_Sym *symbol) {
  return ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL &&
         ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF;
}

static dt_status_t add_function(link_t *link, const unit_t *unit, uint32_t symbol) {
  const dt_elf_t *elf = &unit->elf;
  const Elf64_Sym *of = &elf->symbols[symbol];
  const char *name = dt__elf_symbol_name(elf, of);
  dt_image_t *out = link->out;
  uint64_t place = 0;
  DT_TRY(symbol_place(link, unit, symbol, &place));
  if ((elf->sections[of->st_shndx].sh_flags & SHF_EXECINSTR) == 0 || place >= out->code_bytes)
    return DT_FAIL(DT_E_COMPILE, "object file: function '%s' lies in no code section", name);
  for (uint32_t i = 0; link->n_units > 1 && i < out->n_functions; i++)
    if (strcmp(out->functions[i].name, name) == 0)
      return DT_FAIL(DT_E_COMPILE, "object files: two functions are called '%s'", name);
  dt_image_function_t *function = &out->functions[out->n_functions];
  *function = (dt_image_function_t){dt__strdup(name), (uint32_t)place};
  if (!function->name)
    return DT_NO_MEMORY();
  out->n_functions++;
  return NULL;
}

static dt_status_t add_functions(link_t *link) {
  uint64_t n = 0;
  for (uint32_t u = 0; u < link->n_units; u++)
    n += link->units[u].elf.n_symbols;
  link->out->functions = dt__calloc((size_t)n, sizeof(*link->out->functions));
  if (!link->out->functions)
    return DT_NO_MEMORY();
  for (uint32_t u = 0; u < link->n_units; u++)
    for (uint32_t k = 1; k < link->units[u].elf.n_symbols; k++)
      if (is_function(&link->units[u].elf.symbols[k]))
        DT_TRY(add_function(link, &link->units[u], k));
  return NULL;
}

// ---- All ------------------------------------------------------------------------------------------
static dt_status_t read_unit(unit_t *unit, const dt_object_t *object) {
  DT_TRY(dt__elf_read(object->data, object->bytes, &unit->elf));
  unit->places = dt__calloc(unit->elf.n_sections, sizeof(*unit->places));
  unit->slots = dt__calloc(unit->elf.n_symbols, sizeof(*unit->slots));
  unit->stubs = dt__calloc(unit->elf.n_symbols, sizeof(*unit->stubs));
  return unit->places && unit->slots && unit->stubs ? NULL : DT_NO_MEMORY();
}

static dt_status_t place_all(link_t *link) {
  for (uint32_t u = 0; u < link->n_units; u++)
    DT_TRY(place_sections(link, &link->units[u]));
  (void)align_up(&link->code, STUB_BYTES);
  (void)align_up(&link->data, sizeof(uint64_t));
  link->stubs = link->code;
  link->table = link->data;
  link->code += (uint64_t)link->n_stubs * STUB_BYTES;
  link->data += (uint64_t)link->n_slots * sizeof(uint64_t);
  link->code += link->code == 0;
  if (!align_up(&link->code, link->unit) || !align_up(&link->data, link->unit) ||
      link->code + link->data > MOST_BYTES)
    return too_large();
  return NULL;
}

static dt_status_t take_room(link_t *link) {
  dt_image_t *out = link->out;
  out->code_bytes = (uint32_t)link->code;
  out->data_bytes = (uint32_t)link->data;
  out->bytes = dt__calloc(dt__image_bytes(out), 1);
  out->slots = dt__calloc((size_t)link->n_slots + link->n_fixed, sizeof(*out->slots));
  return out->bytes && out->slots ? NULL : DT_NO_MEMORY();
}

static dt_status_t link_all(link_t *link, const dt_object_t *objects) {
  for (uint32_t u = 0; u < link->n_units; u++)
    DT_TRY(read_unit(&link->units[u], &objects[u]));
  DT_TRY(visit_all(link, count));
  DT_TRY(place_all(link));
  DT_TRY(take_room(link));
  for (uint32_t u = 0; u < link->n_units; u++)
    DT_TRY(write_unit(link, &link->units[u]));
  DT_TRY(visit_all(link, relocate));
  return add_functions(link);
}

dt_status_t dt__image_link(const dt_object_t *objects, uint32_t n, bool pages, dt_image_t *out) {
  *out = (dt_image_t){0};
  link_t link = {.units = dt__calloc(n, sizeof(*link.units)),
                 .n_units = n,
                 .unit = pages ? DT_IMAGE_PAGE : LINE,
                 .out = out};
  dt_status_t status = link.units ? link_all(&link, objects) : DT_NO_MEMORY();
  for (uint32_t u = 0; link.units && u < n; u++) {
    dt__free(link.units[u].places);
    dt__free(link.units[u].slots);
    dt__free(link.units[u].stubs);
    dt__elf_fini(&link.units[u].elf);
  }
  dt__free(link.units);
  if (status)
    dt__image_fini(out);
  return status;
}
