// SPDX-License-Identifier: Apache-2.0
// Loads images (image.h): into code memory (code.h), where they are written and then made
// read-and-execute before anyone sees them, or straight from a file, where addresses alone are
// written.
#include "backend_llvm/load/native.h"

#include "backend_llvm/load/code.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct exported_t {
  char *name;
  void *address;
} exported_t;

struct dt_native {
  dt_code_memory_t memory;
  exported_t *functions;
  uint32_t n_functions;
  size_t code_bytes; // at the beginning of the memory
};

// ---- Filling --------------------------------------------------------------------------------------
// The addresses in an image that runs at `base`; its data are written at `data`.
static void fill_slots(const dt_image_t *image, const void *base, unsigned char *data) {
  for (uint32_t i = 0; i < image->n_slots; i++) {
    const dt_image_slot_t *slot = &image->slots[i];
    uint64_t from = slot->outside ? dt__outside_address(slot->outside) : (uint64_t)(uintptr_t)base;
    uint64_t address = from + (uint64_t)slot->plus;
    memcpy(data + slot->at, &address, sizeof(address));
  }
}

static dt_status_t fill_copy(const dt_image_t *image, dt_code_memory_t *memory) {
  unsigned char *to = memory->to;
  memcpy(to, image->bytes, dt__image_bytes(image));
  fill_slots(image, memory->base, to + image->code_bytes);
  return dt__code_finish(memory);
}

// In a way that the system allows.
static dt_status_t load_copy(const dt_image_t *image, dt_code_memory_t *memory) {
  dt_status_t status = NULL;
  for (dt_code_way_t way = 0; way < DT_CODE_WAYS; way++) {
    dt_status_free(status);
    status = dt__code_map(way, dt__image_bytes(image), memory);
    if (!status)
      status = fill_copy(image, memory);
    if (!status)
      return NULL;
    dt__code_unmap(memory);
    if (dt_status_code(status) != DT_E_UNSUPPORTED)
      return status;
  }
  return status;
}

static dt_status_t load_file(const dt_image_t *image, const dt_native_file_t *file,
                             dt_code_memory_t *memory) {
  DT_TRY(dt__code_map_file(file->fd, file->offset, image->code_bytes, image->data_bytes, memory));
  if (image->data_bytes)
    fill_slots(image, memory->base, memory->to);
  dt_status_t status = dt__code_finish_file(memory, image->code_bytes);
  if (status)
    dt__code_unmap(memory);
  return status;
}

// A file that may not be run from, as on a file system mounted noexec, is copied.
static dt_status_t load(const dt_image_t *image, const dt_native_file_t *file,
                        dt_code_memory_t *memory) {
  if (!file || !dt__image_has_pages(image))
    return load_copy(image, memory);
  dt_status_t status = load_file(image, file, memory);
  if (dt_status_code(status) != DT_E_UNSUPPORTED)
    return status;
  dt_status_free(status);
  return load_copy(image, memory);
}

// ---- Functions ------------------------------------------------------------------------------------
static dt_status_t export_functions(const dt_image_t *image, dt_native_t *native) {
  native->functions = dt__calloc(image->n_functions, sizeof(exported_t));
  if (!native->functions)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < image->n_functions; i++) {
    exported_t *function = &native->functions[native->n_functions];
    function->name = dt__strdup(image->functions[i].name);
    if (!function->name)
      return DT_NO_MEMORY();
    function->address = (char *)native->memory.base + image->functions[i].at;
    native->n_functions++;
  }
  return NULL;
}

dt_status_t dt__native_load_image(const dt_image_t *image, const dt_native_file_t *file,
                                  dt_native_t **out) {
  *out = NULL;
  dt_native_t *native = dt__calloc(1, sizeof(*native));
  if (!native)
    return DT_NO_MEMORY();
  native->code_bytes = image->code_bytes;
  dt_status_t status = load(image, file, &native->memory);
  if (!status)
    status = export_functions(image, native);
  if (status) {
    dt__native_unload(native);
    return status;
  }
  *out = native;
  return NULL;
}

dt_status_t dt__native_load(const void *object, size_t bytes, dt_native_t **out) {
  const dt_object_t only = {(void *)(uintptr_t)object, bytes}; // it is only read
  dt_image_t image;
  *out = NULL;
  DT_TRY(dt__image_link(&only, 1, false, &image));
  dt_status_t status = dt__native_load_image(&image, NULL, out);
  dt__image_fini(&image);
  return status;
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

bool dt__native_function(const dt_native_t *native, uint32_t index, dt_native_function_t *out) {
  if (index >= native->n_functions)
    return false;
  const char *code = native->functions[index].address;
  const char *end = (const char *)native->memory.base + native->code_bytes;
  for (uint32_t k = 0; k < native->n_functions; k++) {
    const char *other = native->functions[k].address;
    end = other > code && other < end ? other : end;
  }
  *out = (dt_native_function_t){native->functions[index].name, code, (size_t)(end - code)};
  return true;
}

size_t dt__native_bytes(const dt_native_t *native) { return native->memory.bytes; }

bool dt__native_is_mapped(const dt_native_t *native) { return native->memory.of_file; }
