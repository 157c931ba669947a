// SPDX-License-Identifier: Apache-2.0
// Makes the decision over guard programs, emits its code and loads it.
#include "runtime/compile/decide.h"

#include "backend_llvm/jit/jit.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/load.h"
#include "runtime/compile/worker.h"
#include "runtime/compile/worker_text.h"

#include <string.h>

static dt_status_t find_function(dt_native_t **out_native, dt_decide_fn_t *out_fn) {
  // Data and function pointers are of one size wherever the loader runs; ISO C has no cast for it.
  union {
    void *data;
    dt_decide_fn_t fn;
  } address = {.data = dt__native_symbol(*out_native, "dt_decide")};
  if (!address.data) {
    dt__native_unload(*out_native);
    *out_native = NULL;
    return DT_FAIL(DT_E_COMPILE, "compiled code has no function dt_decide");
  }
  *out_fn = address.fn;
  return NULL;
}

static dt_status_t load(const void *object, size_t bytes, dt_native_t **out_native,
                        dt_decide_fn_t *out_fn) {
  DT_TRY(dt__native_load(object, bytes, out_native));
  return find_function(out_native, out_fn);
}

static dt_status_t emit(const dt_compiler_t *compiler, const dt_tree_t *tree,
                        const dt_target_t *target, const dt_compile_options_t *options, void **out,
                        size_t *out_bytes) {
  dt_workers_t *workers = dt__compiler_workers(compiler);
  if (!workers) {
    const dt_jit_t *jit = NULL;
    DT_TRY(dt__jit_open(dt__compiler_jit(compiler), &jit));
    return jit->compile_decider(tree, target, options, out, out_bytes);
  }
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__worker_tree_write(tree, target, options, &text);
  dt_worker_source_t source = {
      .name = options->dump_name, .text = dt__text_str(&text), .bytes = text.len};
  if (!status)
    status = dt__workers_decide(workers, &source, out, out_bytes);
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__decide_compile(const dt_compiler_t *compiler, const dt_guards_t *const *programs,
                               uint32_t n, const char *name, dt_native_t **out_native,
                               dt_decide_fn_t *out_fn) {
  *out_native = NULL;
  *out_fn = NULL;
  dt_tree_t *tree = NULL;
  DT_TRY(dt__tree_create(programs, n, &tree));
  if (dt__dump_on("guards")) {
    dt_text_t text;
    dt__text_init(&text);
    dt__tree_print(tree, &text);
    dt__dump(name, n, 91, "decider", dt__text_str(&text));
    dt__text_fini(&text);
  }
  dt_compile_options_t options = {.verify = dt__compiler_verifies(compiler),
                                  .quick = true,
                                  .dump_name = name,
                                  .dump_variant = n};
  void *object = NULL;
  size_t bytes = 0;
  dt_status_t status =
      emit(compiler, tree, dt__compiler_target(compiler), &options, &object, &bytes);
  if (!status)
    status = load(object, bytes, out_native, out_fn);
  dt__free(object);
  dt__tree_destroy(tree);
  return dt__status_annotate(status, "decider over %u variants", n);
}

// ---- Kept ones ------------------------------------------------------------------------------------
// An entry: the tree as text, and the image of its code.
static void store(dt_stream_t *s, void **tree, size_t *bytes, dt_image_t *image) {
  dt__stream_bytes(s, tree, bytes);
  dt__image_store(s, image);
}

static dt_status_t link_entry(const dt_text_t *tree, const dt_object_t *object, dt_entry_t *out) {
  dt_image_t image;
  void *text = tree->data;
  size_t bytes = tree->len;
  dt_stream_t s = {.to = &out->text};
  DT_TRY(dt__image_link(object, 1, dt__image_is_large(object, 1), &image));
  store(&s, &text, &bytes, &image);
  out->code = image.bytes;
  out->code_bytes = dt__image_bytes(&image);
  image.bytes = NULL;
  dt__image_fini(&image);
  return dt__text_status(&out->text);
}

static dt_status_t make_entry(const dt_compiler_t *compiler, const dt_tree_t *tree,
                              const char *name, const char *cpu, dt_entry_t *out) {
  const dt_compile_options_t options = {.verify = dt__compiler_verifies(compiler),
                                        .dump_name = name,
                                        .dump_variant = tree->n_variants};
  dt_target_t target;
  dt_object_t object = {NULL, 0};
  dt_text_t text;
  DT_TRY(dt__compiler_level(compiler, cpu, &target));
  dt__text_init(&text);
  dt_status_t status = dt__tree_write(tree, &text);
  if (!status)
    status = emit(compiler, tree, &target, &options, &object.data, &object.bytes);
  if (!status)
    status = link_entry(&text, &object, out);
  dt__free(object.data);
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__decide_entry(const dt_compiler_t *compiler, const dt_guards_t *const *programs,
                             uint32_t n, const char *name, const char *cpu, dt_entry_t *out) {
  dt_tree_t *tree = NULL;
  *out = (dt_entry_t){0};
  dt__text_init(&out->text);
  DT_TRY(dt__tree_create(programs, n, &tree));
  dt_status_t status = make_entry(compiler, tree, name, cpu, out);
  dt__tree_destroy(tree);
  return dt__status_annotate(status, "decider over %u variants", n);
}

typedef struct found_t {
  void *tree;
  size_t bytes;
  dt_image_t image;
} found_t;

static void found_fini(found_t *found) {
  dt__free(found->tree);
  dt__image_fini(&found->image);
}

static dt_status_t read_kept(const dt_decide_kept_t *kept, found_t *out) {
  dt_stream_t s = {.from = kept->data, .left = kept->bytes};
  *out = (found_t){0};
  store(&s, &out->tree, &out->bytes, &out->image);
  return dt__stream_is_done(&s) ? NULL : DT_FAIL(DT_E_FORMAT, "it is no decider of this format");
}

static dt_status_t load_kept(const dt_decide_kept_t *kept, const found_t *found,
                             dt_native_t **out_native, dt_decide_fn_t *out_fn) {
  DT_TRY(dt__load_native(&found->image, &kept->code, out_native));
  return find_function(out_native, out_fn);
}

static dt_status_t is_tree(const found_t *found, const dt_guards_t *const *programs, uint32_t n,
                           bool *out) {
  dt_tree_t *tree = NULL;
  dt_text_t text;
  DT_TRY(dt__tree_create(programs, n, &tree));
  dt__text_init(&text);
  dt_status_t status = dt__tree_write(tree, &text);
  *out = !status && text.len == found->bytes && memcmp(text.data, found->tree, text.len) == 0;
  dt__text_fini(&text);
  dt__tree_destroy(tree);
  return status;
}

dt_status_t dt__decide_find(const dt_decide_kept_t *kept, const dt_guards_t *const *programs,
                            uint32_t n, dt_native_t **out_native, dt_decide_fn_t *out_fn) {
  found_t found;
  bool same = false;
  *out_native = NULL;
  *out_fn = NULL;
  if (!kept->data || kept->n != n)
    return NULL;
  dt_status_t status = read_kept(kept, &found);
  if (!status)
    status = is_tree(&found, programs, n, &same);
  if (same)
    status = load_kept(kept, &found, out_native, out_fn);
  found_fini(&found);
  return status;
}

dt_status_t dt__decide_load(const dt_decide_kept_t *kept) {
  found_t found;
  dt_native_t *native = NULL;
  dt_decide_fn_t fn = NULL;
  dt_status_t status = read_kept(kept, &found);
  if (!status)
    status = load_kept(kept, &found, &native, &fn);
  dt__native_unload(native);
  found_fini(&found);
  return status;
}
