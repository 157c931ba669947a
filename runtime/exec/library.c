// SPDX-License-Identifier: Apache-2.0
// Libraries of ops (include/ductile/op.h): a shared object registers on the thread that opens it,
// and what it registers carries a share in it.
#include "runtime/exec/library.h"

#include "ductile/op.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <ctype.h>
#include <string.h>

#define MOST_NAME 63

// ---- On this thread -------------------------------------------------------------------------------
typedef struct opening_t {
  const dt_runtime_t *runtime;
  dt_library_t *library;
} opening_t;

static _Thread_local opening_t opening;

dt_library_t *dt__library_opening(const dt_runtime_t *runtime) {
  return opening.runtime == runtime ? opening.library : NULL;
}

dt_status_t dt__library_identity(const dt_library_t *library, const char *own, char **out_made,
                                 const char **out) {
  dt_text_t text;
  *out = own;
  *out_made = NULL;
  if (!library || !own)
    return NULL;
  dt__text_init(&text);
  dt__text_put(&text, own);
  dt__text_put(&text, "@");
  dt__text_put(&text, library->identity);
  *out_made = text.failed ? NULL : dt__strdup(dt__text_str(&text));
  dt__text_fini(&text);
  if (!*out_made)
    return DT_NO_MEMORY();
  *out = *out_made;
  return NULL;
}

// ---- What a runtime has of libraries --------------------------------------------------------------
static bool is_called(const dt_library_t *library, const char *name) {
  return library && strcmp(library->name, name) == 0;
}

// A share in the library of this name, or NULL.
static dt_library_t *find(dt_runtime_t *runtime, const char *name) {
  dt_hooks_t *hooks = dt__hooks_share(runtime->turn, &runtime->hooks);
  dt_library_t *found = NULL;
  for (uint32_t k = 0; k < hooks->n && !found; k++)
    if (is_called(hooks->hooks[k]->library, name))
      found = hooks->hooks[k]->library;
  for (uint32_t k = 0; hooks->ops && k < hooks->ops->n && !found; k++)
    if (is_called(hooks->ops->ops[k]->library, name))
      found = hooks->ops->ops[k]->library;
  found = dt__library_retain(found);
  dt__hooks_release(hooks);
  return found;
}

static dt_status_t remove_brought(void *arg, const dt_hooks_t *old, dt_hooks_t **out) {
  return dt__hooks_remove_library(old, arg, out);
}

static dt_status_t remove_all(dt_runtime_t *runtime, dt_library_t *library) {
  return dt__hooks_change(runtime->turn, &runtime->hooks, "a library", remove_brought, library);
}

// ---- Opening --------------------------------------------------------------------------------------
static dt_status_t check_info(const dt_op_library_info_t *info, const char *path) {
  if (!info || info->form != DT_OP_LIBRARY_FORM)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: a library of form %u; this runtime takes form %d", path,
                   info ? info->form : 0, DT_OP_LIBRARY_FORM);
  size_t len = info->name ? strlen(info->name) : 0;
  bool good = len > 0 && len <= MOST_NAME;
  for (size_t k = 0; good && k < len; k++)
    good = isalnum((unsigned char)info->name[k]) || strchr("_-", info->name[k]);
  if (!good || !info->open)
    return DT_FAIL(DT_E_ARGUMENT, "%s: %s", path,
                   good ? "open: NULL" : "its name; expected 1 to 63 letters, digits, _ and -");
  return NULL;
}

// What it says of itself, which lies in its own memory.
static dt_status_t ask(void *handle, const char *path, const dt_op_library_info_t **out) {
  union {
    void *data;
    dt_op_library_fn_t fn;
  } entry = {.data = dt__library_symbol(handle, "dt_op_library")};
  if (!entry.data)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: it exports no dt_op_library: it is no library of ops",
                   path);
  *out = entry.fn();
  return check_info(*out, path);
}

// Whether something of it is there.
static bool brought(dt_runtime_t *runtime, const char *name) {
  dt_library_t *found = find(runtime, name);
  dt__library_release(found);
  return found != NULL;
}

static dt_status_t let_register(dt_runtime_t *runtime, const dt_op_library_info_t *info,
                                dt_library_t *library) {
  opening_t outer = opening;
  opening = (opening_t){runtime, library};
  dt_status_t status = info->open(runtime);
  opening = outer;
  if (!status && !brought(runtime, library->name))
    status = DT_FAIL(DT_E_ARGUMENT, "it brings nothing");
  if (!status)
    return NULL;
  dt_status_t undone = remove_all(runtime, library);
  return dt__status_join(dt__status_annotate(status, "library %s", library->name), undone);
}

static dt_status_t open_library(dt_runtime_t *runtime, const char *path) {
  const dt_op_library_info_t *info = NULL;
  dt_library_t *library = NULL;
  void *handle = NULL;
  DT_TRY(dt__library_open(path, &handle));
  dt_status_t status = ask(handle, path, &info);
  if (!status && brought(runtime, info->name))
    status = DT_FAIL(DT_E_ARGUMENT, "library %s is open already", info->name);
  if (!status)
    status = dt__library_create(handle, info->name, info->identity ? info->identity : info->name,
                                &library);
  if (status) {
    dt__library_shut(handle);
    return status;
  }
  status = let_register(runtime, info, library);
  dt__library_release(library); // what it brought has its own shares
  return status;
}

static dt_status_t check(const dt_runtime_t *runtime, const char *text, const char *what) {
  if (!runtime || !text)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? what : "runtime");
  return dt__forked() ? DT_FAIL(DT_E_FORKED, "in a child after fork") : NULL;
}

dt_status_t dt_op_library_open(dt_runtime_t *runtime, const char *path) {
  dt_status_t status = check(runtime, path, "path");
  return dt__status_annotate(status ? status : open_library(runtime, path), "dt_op_library_open");
}

dt_status_t dt_op_library_close(dt_runtime_t *runtime, const char *name) {
  dt_status_t status = check(runtime, name, "name");
  dt_library_t *library = status ? NULL : find(runtime, name);
  if (!status)
    status = library ? remove_all(runtime, library)
                     : DT_FAIL(DT_E_ARGUMENT, "no library is named %.64s", name);
  dt__library_release(library);
  return dt__status_annotate(status, "dt_op_library_close");
}
