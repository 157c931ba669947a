// SPDX-License-Identifier: Apache-2.0
// Packages described: as text for people and as JSON lines for programs.
#include "runtime/package/package.h"

#include "guards/guards.h"
#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"

#include <string.h>

typedef struct report_t {
  dt_package_t *package;
  bool json;
  dt_text_t *out;
} report_t;

// ---- Parts of lines -------------------------------------------------------------------------------
static void put_string(const report_t *r, const char *text) {
  dt__text_put(r->out, r->json ? "\"" : "");
  if (r->json)
    dt__text_json(r->out, text, strlen(text));
  else
    dt__text_put(r->out, text);
  dt__text_put(r->out, r->json ? "\"" : "");
}

static void put_levels(const report_t *r) {
  const char *comma = "";
  for (uint32_t k = 0; k < r->package->index.n_levels; k++) {
    dt__text_put(r->out, comma);
    put_string(r, r->package->index.levels[k].name);
    comma = r->json ? "," : ", ";
  }
}

// "[batch, 384, ?]".
static void put_dims(const report_t *r, const dt_input_decl_t *input) {
  dt__text_put(r->out, "[");
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = input->dims ? &input->dims[d] : NULL;
    dt__text_put(r->out, d ? ", " : "");
    if (dim && dim->is_static)
      dt__text_i64(r->out, dim->value);
    else if (dim && dim->name)
      put_string(r, dim->name);
    else
      dt__text_put(r->out, r->json ? "null" : "?");
  }
  dt__text_put(r->out, "]");
}

// ---- Lines ----------------------------------------------------------------------------------------
static void put_inputs(const report_t *r, const dt_pack_function_t *function) {
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    const dt_input_decl_t *input = &function->inputs[k];
    dt__text_put(r->out, r->json ? "{\"event\":\"input\",\"function\":" : "  input  ");
    if (r->json)
      put_string(r, function->name);
    dt__text_put(r->out, r->json ? ",\"name\":" : "");
    put_string(r, input->name ? input->name : "");
    dt__text_printf(r->out, r->json ? ",\"dtype\":\"%s\",\"dims\":" : "  %s ",
                    dt_dtype_name(input->dtype));
    put_dims(r, input);
    dt__text_put(r->out, r->json ? "}\n" : "\n");
  }
}

static void put_outputs(const report_t *r, const dt_pack_function_t *function) {
  for (uint32_t k = 0; k < function->n_outputs; k++) {
    const char *name = function->outputs[k].name;
    dt__text_put(r->out, r->json ? "{\"event\":\"output\",\"function\":" : "  output ");
    if (r->json)
      put_string(r, function->name);
    dt__text_put(r->out, r->json ? ",\"name\":" : "");
    if (name)
      put_string(r, name);
    else
      dt__text_printf(r->out, r->json ? "\"%u\"" : "%u", k);
    dt__text_put(r->out, r->json ? "}\n" : "\n");
  }
}

// Guards as a list of texts, or a line each.
static void put_guards(const report_t *r, const dt_guards_t *guards) {
  const char *comma = "";
  for (uint32_t k = 0; k < dt__guards_record_count(guards); k++) {
    dt_guard_told_t told = dt__guards_tell(guards, k);
    if (!told.can_fail)
      continue;
    dt__text_put(r->out, r->json ? comma : "    ");
    put_string(r, told.guard);
    dt__text_put(r->out, r->json ? "" : "\n");
    comma = ",";
  }
}

static void put_variant(const report_t *r, const dt_pack_function_t *function, uint32_t which,
                        const dt_guards_t *guards) {
  const dt_pack_variant_t *variant = &function->variants[which];
  dt__text_put(r->out, r->json ? "{\"event\":\"variant\",\"function\":" : "");
  if (r->json)
    put_string(r, function->name);
  dt__text_printf(r->out,
                  r->json ? ",\"variant\":%u,\"constants\":%u,\"code_bytes\":{"
                          : "  variant %u, %u constants, code",
                  which, variant->n_constants);
  const char *comma = "";
  const dt_pack_part_t *parts = r->package->parts;
  for (uint32_t k = 0; k < variant->n_codes; k++) {
    const dt_pack_code_t *own = &variant->codes[k];
    dt__text_printf(r->out, r->json ? "%s" : "%s ", comma);
    put_string(r, r->package->index.levels[k].name);
    dt__text_printf(r->out, r->json ? ":%llu" : " %llu bytes",
                    (unsigned long long)(parts[own->entry].bytes + parts[own->code].bytes));
    comma = ",";
  }
  dt__text_put(r->out, r->json ? "},\"guards\":[" : "; guards:\n");
  put_guards(r, guards);
  dt__text_put(r->out, r->json ? "]}\n" : "");
}

static dt_status_t put_variants(const report_t *r, const dt_pack_function_t *function) {
  for (uint32_t k = 0; k < function->n_variants; k++) {
    dt_traced_t *traced = NULL;
    dt_guards_t *guards = NULL;
    DT_TRY(dt__pack_traced(r->package, &function->variants[k], r->package->runtime->hooks, true,
                           &traced));
    dt_guard_context_t context = {.shared = traced->shared};
    dt_status_t status =
        dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, &context, &guards);
    status = dt__pack_blame(status);
    if (!status)
      put_variant(r, function, k, guards);
    dt__guards_destroy(guards);
    dt__traced_destroy(traced);
    DT_TRY(status);
  }
  return NULL;
}

static dt_status_t put_function(const report_t *r, const dt_pack_function_t *function) {
  dt__text_put(r->out, r->json ? "{\"event\":\"function\",\"name\":" : "function ");
  put_string(r, function->name);
  dt__text_printf(r->out,
                  r->json ? ",\"inputs\":%u,\"outputs\":%u,\"variants\":%u}\n"
                          : ": %u inputs, %u outputs, %u variants\n",
                  function->n_inputs, function->n_outputs, function->n_variants);
  put_inputs(r, function);
  put_outputs(r, function);
  return put_variants(r, function);
}

static uint64_t constant_bytes(const dt_package_t *package) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < package->index.n_constants; k++) {
    uint32_t part = package->index.constants[k].part;
    bool seen = false; // equal data are there once
    for (uint32_t j = 0; j < k && !seen; j++)
      seen = package->index.constants[j].part == part;
    bytes += seen ? 0 : package->parts[part].bytes;
  }
  return bytes;
}

static dt_status_t put_package(const report_t *r) {
  const dt_package_t *package = r->package;
  dt__text_put(r->out, r->json ? "{\"event\":\"package\",\"producer\":" : "package of Ductile ");
  put_string(r, package->index.producer);
  dt__text_printf(
      r->out, r->json ? ",\"abi\":%u,\"bytes\":%zu,\"levels\":[" : ", ABI %u: %zu bytes, levels ",
      DT_PACKAGE_ABI, package->bytes->bytes);
  put_levels(r);
  dt__text_put(r->out, r->json ? "]}\n" : "\n");
  for (uint32_t k = 0; k < package->index.n_functions; k++)
    DT_TRY(put_function(r, &package->index.functions[k]));
  dt__text_printf(r->out,
                  r->json ? "{\"event\":\"constants\",\"n\":%u,\"bytes\":%llu}\n"
                          : "%u constants, %llu bytes\n",
                  package->index.n_constants, (unsigned long long)constant_bytes(package));
  return dt__text_status(r->out);
}

static dt_status_t report(const dt_package_t *package, bool json, char **out) {
  dt_text_t text;
  if (!package || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", package ? "out" : "package");
  *out = NULL;
  dt__text_init(&text);
  // Constants are made as they are needed; all else is read alone.
  const report_t r = {(dt_package_t *)(uintptr_t)package, json, &text};
  dt_status_t status = put_package(&r);
  if (!status) {
    *out = dt__strdup(dt__text_str(&text));
    status = *out ? NULL : DT_NO_MEMORY();
  }
  dt__text_fini(&text);
  return status;
}

dt_status_t dt_package_report_text(const dt_package_t *package, char **out) {
  return dt__status_annotate(report(package, false, out), "dt_package_report_text");
}

dt_status_t dt_package_report_json(const dt_package_t *package, char **out) {
  return dt__status_annotate(report(package, true, out), "dt_package_report_json");
}
