// SPDX-License-Identifier: Apache-2.0
// See maker.h.
#include "runtime/compile/maker.h"

#include "backend_llvm/jit/jit.h"
#include "runtime/base/build.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_PATH 4096

void dt__maker_init(dt_maker_t *maker) {
  dt__text_init(&maker->jit);
  dt__text_init(&maker->llvm);
  dt__text_init(&maker->build);
}

void dt__maker_fini(dt_maker_t *maker) {
  dt__text_fini(&maker->jit);
  dt__text_fini(&maker->llvm);
  dt__text_fini(&maker->build);
}

dt_status_t dt__maker_write(const dt_maker_t *maker, dt_text_t *out) {
  const dt_text_t *parts[] = {&maker->jit, &maker->llvm, &maker->build};
  for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
    DT_TRY(dt__text_status(parts[k]));
    dt__text_quote(out, dt__text_str(parts[k]), LONGEST_PATH);
    dt__text_put(out, " ");
  }
  return dt__text_status(out);
}

dt_status_t dt__maker_read(dt_scan_t *scan, dt_maker_t *out) {
  dt_text_t *parts[] = {&out->jit, &out->llvm, &out->build};
  char part[LONGEST_PATH + 1];
  size_t len = 0;
  for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
    DT_TRY(dt__scan_string(scan, part, sizeof(part), &len));
    dt__text_put(parts[k], part);
    DT_TRY(dt__text_status(parts[k]));
  }
  return NULL;
}

// ---- Who would make it ----------------------------------------------------------------------------

static bool is_in(const char *folder, size_t len, const char *name, char out[LONGEST_PATH]) {
  return len && len + strlen(name) + 2 <= LONGEST_PATH &&
         snprintf(out, LONGEST_PATH, "%.*s/%s", (int)len, folder, name) > 0 &&
         access(out, R_OK) == 0;
}

// The file that the loader would take for LLVM's: of that name in a folder of LD_LIBRARY_PATH, else
// the one that was there before.
static void find_llvm(const char *before, char out[LONGEST_PATH]) {
  static const char variable[] = "LD_LIBRARY_PATH=";
  const char *slash = strrchr(before, '/'), *name = slash ? slash + 1 : before;
  dt_params_loader_t loader;
  bool found = false;
  dt_status_free(dt__params_loader(&loader));
  for (char **v = loader.variables; *v && !found; v++) {
    if (strncmp(*v, variable, sizeof(variable) - 1) != 0)
      continue;
    for (const char *at = *v + sizeof(variable) - 1; *at && !found; at += *at == ':') {
      size_t len = strcspn(at, ":");
      found = is_in(at, len, name, out);
      at += len;
    }
  }
  dt__params_loader_fini(&loader);
  if (!found)
    (void)snprintf(out, LONGEST_PATH, "%s", before);
}

// Whether LLVM's file has the build still.
static bool llvm_is_the_same(const dt_maker_t *kept) {
  char path[LONGEST_PATH];
  const char *space = strrchr(dt__text_str(&kept->build), ' ');
  dt_text_t build;
  find_llvm(dt__text_str(&kept->llvm), path);
  dt__text_init(&build);
  dt__build_put_file(path, &build);
  bool same = !build.failed && space && strcmp(dt__text_str(&build), space + 1) == 0;
  dt__text_fini(&build);
  return same;
}

// Whether the code generator's file is the one that was open then, or only the loader knows.
static bool jit_is_the_same(const dt_maker_t *kept, const char *jit) {
  char *file = NULL;
  dt_status_t status = dt__jit_find(jit, &file);
  bool same = !status && (!file || strcmp(file, dt__text_str(&kept->jit)) == 0);
  dt_status_free(status);
  dt__free(file);
  return same;
}

bool dt__maker_would(const dt_maker_t *kept, struct dt_workers *workers, const char *jit) {
  if ((workers || jit_is_the_same(kept, jit)) && llvm_is_the_same(kept))
    return true;
  dt_maker_t now;
  dt__maker_init(&now);
  dt_status_t status = dt__codegen_maker(workers, jit, &now);
  bool same = status || strcmp(dt__text_str(&now.build), dt__text_str(&kept->build)) == 0;
  if (status)
    DT_LOG(DT_LOG_CACHE, 2, "kept code is used as it is: %s", dt_status_message(status));
  dt_status_free(status);
  dt__maker_fini(&now);
  return same;
}
