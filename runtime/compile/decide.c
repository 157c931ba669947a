// SPDX-License-Identifier: Apache-2.0
// Makes the decision over guard programs, emits its code and loads it.
#include "runtime/compile/decide.h"

#include "backend_llvm/jit/jit.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/worker.h"
#include "runtime/compile/worker_text.h"

static dt_status_t load(const void *object, size_t bytes, dt_native_t **out_native,
                        dt_decide_fn_t *out_fn) {
  DT_TRY(dt__native_load(object, bytes, out_native));
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

static dt_status_t emit(const dt_compiler_t *compiler, const dt_tree_t *tree,
                        const dt_compile_options_t *options, void **out, size_t *out_bytes) {
  const dt_target_t *target = dt__compiler_target(compiler);
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
  dt_status_t status = emit(compiler, tree, &options, &object, &bytes);
  if (!status)
    status = load(object, bytes, out_native, out_fn);
  dt__free(object);
  dt__tree_destroy(tree);
  return dt__status_annotate(status, "decider over %u variants", n);
}
