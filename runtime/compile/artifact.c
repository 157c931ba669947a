// SPDX-License-Identifier: Apache-2.0
// See artifact.h. An entry is what `describe` below both writes and reads (stream.h).
#include "runtime/compile/artifact.h"

#include "runtime/compile/codegen.h"
#include "runtime/compile/external.h"
#include "runtime/compile/maker.h"
#include "runtime/compile/tuned.h"

#include "runtime/base/build.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/stream.h"
#include "runtime/base/thread.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <string.h>

#define FORMAT 14

// ---- Key ------------------------------------------------------------------------------------------

static void put_target(const dt_target_t *t, dt_text_t *out) {
  dt__text_put(out, "target");
  dt__target_write(t, out);
  if (t->host)
    put_target(t->host, out);
}

static void put_origin(const char *what, const dt_origin_t *origin, dt_text_t *out) {
  dt__text_printf(out, "%s %s %s:%d\n", what ? what : "", origin->op ? origin->op : "",
                  origin->file ? origin->file : "", origin->line);
}

void dt__artifact_key(const dt_traced_t *traced, const dt_target_t *target,
                      const dt_artifact_place_t *place, dt_text_t *out) {
  static const char here;
  const dt_graph_t *graph = traced->graph;
  dt__text_printf(out, "ductile %d.%d.%d format %d frame %u build ", DT_VERSION_MAJOR,
                  DT_VERSION_MINOR, DT_VERSION_PATCH, FORMAT, DT_FRAME_VERSION);
  bool shared = false;
  dt__build_put(&here, out, &shared);
  dt__text_put(out, "\n");
  if (place->codegen)
    place->codegen->key(place->device, out);
  else
    dt__text_put(out, "cpu");
  dt__text_put(out, "\n");
  put_target(target, out);
  dt__hooks_key(traced->hooks, out);
  dt__graph_print(graph, out);
  for (uint32_t id = 1; id <= graph->nodes.len; id++)
    put_origin("node", &graph->nodes.items[id - 1].origin, out);
  for (uint32_t k = 0; k < graph->asserts.len; k++)
    put_origin(graph->asserts.items[k].what, &graph->asserts.items[k].origin, out);
  dt__symenv_print(traced->env, out);
}

// ---- Entries --------------------------------------------------------------------------------------

static void describe_kernels(dt_stream_t *s, dt_artifact_t *a, uint32_t words) {
  a->infos = dt__stream_list(s, &a->n_kernels, a->infos, words * sizeof(*a->infos));
  for (uint32_t k = 0; k < a->n_kernels * words && !s->failed; k++)
    dt__stream_number(s, &a->infos[k]);
}

static void describe_checks(dt_stream_t *s, dt_compiled_t *c) {
  c->checks = dt__stream_list(s, &c->n_checks, c->checks, sizeof(*c->checks));
  for (uint32_t k = 0; k < c->n_checks && !s->failed; k++) {
    uint32_t code = (uint32_t)c->checks[k].code;
    dt__stream_text(s, &c->checks[k].text);
    dt__stream_number(s, &c->checks[k].readback);
    dt__stream_number(s, &code);
    s->failed |= c->checks[k].readback > c->n_readbacks;
    c->checks[k].code = (dt_code_t)code;
  }
  uint32_t n = c->n_asserts;
  c->assert_texts = dt__stream_list(s, &c->n_asserts, c->assert_texts, sizeof(*c->assert_texts));
  c->assert_codes = dt__stream_list(s, &n, c->assert_codes, sizeof(*c->assert_codes));
  s->failed |= n != c->n_asserts;
  for (uint32_t k = 0; k < c->n_asserts && !s->failed; k++) {
    uint32_t code = (uint32_t)c->assert_codes[k];
    dt__stream_text(s, &c->assert_texts[k]);
    dt__stream_number(s, &code);
    c->assert_codes[k] = (dt_code_t)code;
  }
}

static void describe_edges(dt_stream_t *s, dt_compiled_t *c) {
  c->edges = dt__stream_list(s, &c->n_edges, c->edges, sizeof(*c->edges));
  for (uint32_t k = 0; k < c->n_edges && !s->failed; k++) {
    dt__stream_number(s, &c->edges[k].from);
    dt__stream_number(s, &c->edges[k].to);
    s->failed |= c->edges[k].from >= c->edges[k].to || c->edges[k].to >= c->n_launches;
  }
}

static void describe_numbers(dt_stream_t *s, uint32_t **numbers, uint32_t *n) {
  *numbers = dt__stream_list(s, n, *numbers, sizeof(**numbers));
  for (uint32_t k = 0; k < *n && !s->failed; k++)
    dt__stream_number(s, &(*numbers)[k]);
}

static void describe_once(dt_stream_t *s, dt_once_plan_t *plan) {
  plan->buffers = dt__stream_list(s, &plan->n_buffers, plan->buffers, sizeof(*plan->buffers));
  for (uint32_t k = 0; k < plan->n_buffers && !s->failed; k++) {
    dt_once_buffer_t *own = &plan->buffers[k];
    uint32_t flags = own->shared | (uint32_t)own->kept << 1;
    dt__stream_raw(s, own->digest, sizeof(own->digest));
    dt__stream_number(s, &flags);
    dt__stream_signed(s, &own->bytes);
    dt__stream_signed(s, &own->offset);
    dt__stream_number(s, &own->first);
    dt__stream_number(s, &own->n_constants);
    own->shared = flags & 1;
    own->kept = flags & 2;
  }
  plan->kernels = dt__stream_list(s, &plan->n_kernels, plan->kernels, sizeof(*plan->kernels));
  for (uint32_t k = 0; k < plan->n_kernels && !s->failed; k++) {
    dt_once_kernel_t *own = &plan->kernels[k];
    dt__stream_number(s, &own->first);
    dt__stream_number(s, &own->n_writes);
    dt__stream_number(s, &own->n_reads);
    dt__stream_number(s, &own->n_constants);
  }
  describe_numbers(s, &plan->uses, &plan->n_constants);
  describe_numbers(s, &plan->numbers, &plan->n_numbers);
}

static void describe_items(dt_stream_t *s, dt_compiled_t *c) {
  c->readbacks = dt__stream_list(s, &c->n_readbacks, c->readbacks, sizeof(*c->readbacks));
  for (uint32_t k = 0; k < c->n_readbacks && !s->failed; k++) {
    dt_compiled_readback_t *readback = &c->readbacks[k];
    dt__stream_text(s, &readback->text);
    dt__stream_number(s, &readback->symbol);
    dt__stream_signed(s, &readback->range.lo);
    dt__stream_signed(s, &readback->range.hi);
  }
  uint32_t reads = c->segments_reason != NULL;
  dt__stream_number(s, &reads);
  if (reads)
    dt__stream_text(s, &c->segments_reason);
}

// ---- Calls of users' ops --------------------------------------------------------------------------
static void describe_types(dt_stream_t *s, dt_external_call_t *call) {
  dt_external_result_t *types = (dt_external_result_t *)(uintptr_t)call->types;
  types = dt__stream_list(s, &call->n_tensors, types, sizeof(*types));
  call->types = types;
  for (uint32_t k = 0; k < call->n_tensors && !s->failed; k++) {
    uint32_t dtype = (uint32_t)types[k].dtype;
    dt__stream_number(s, &dtype);
    dt__stream_number(s, &types[k].rank);
    types[k].dtype = (dt_dtype_t)dtype;
    s->failed |= !dt__dtype_is_valid(types[k].dtype) || types[k].rank > DT_MAX_RANK;
  }
}

static void describe_call(dt_stream_t *s, dt_external_call_t *call) {
  uint32_t part = (uint32_t)call->call.part;
  dt__stream_text(s, &call->call.name);
  dt__stream_text(s, &call->call.identity);
  dt__stream_number(s, &part);
  dt__stream_number(s, &call->n_inputs);
  dt__stream_word(s, &call->updates);
  dt__stream_number(s, &call->in_place);
  describe_types(s, call);
  dt_op_attr_t *attrs = (dt_op_attr_t *)(uintptr_t)call->call.attrs;
  attrs = dt__stream_list(s, &call->call.n_attrs, attrs, sizeof(*attrs));
  call->call.attrs = attrs;
  s->failed |= part > DT_EXTERNAL_NUMBERS || call->n_inputs > call->n_tensors ||
               call->n_inputs > DT_OP_MAX_INPUTS ||
               call->n_tensors - call->n_inputs > DT_OP_MAX_RESULTS ||
               call->call.n_attrs > DT_OP_MAX_ATTRS;
  call->call.part = (dt_external_part_t)part;
  for (uint32_t k = 0; k < call->call.n_attrs && !s->failed; k++)
    dt__op_attr_store(s, &attrs[k]);
}

static void describe_calls(dt_stream_t *s, dt_artifact_t *a) {
  a->calls = dt__stream_list(s, &a->n_calls, a->calls, sizeof(*a->calls));
  for (uint32_t k = 0; k < a->n_calls && !s->failed; k++)
    describe_call(s, &a->calls[k]);
}

static void free_const(const void *memory) { dt__free((void *)(uintptr_t)memory); }

static void free_call(const dt_external_call_t *call) {
  for (uint32_t k = 0; call->call.attrs && k < call->call.n_attrs; k++) {
    const dt_op_attr_t *attr = &call->call.attrs[k];
    free_const(attr->name);
    free_const(attr->text);
    free_const(attr->ints);
    free_const(attr->floats);
  }
  free_const(call->call.attrs);
  free_const(call->call.name);
  free_const(call->call.identity);
  free_const(call->types);
}

// ---- An entry -------------------------------------------------------------------------------------
// The CPU's kernels have one: the unit that each is in.
static uint32_t info_words(const dt_artifact_place_t *place) {
  return place->codegen ? place->codegen->info_words : 1;
}

static void describe_code(dt_stream_t *s, bool device, dt_artifact_t *a) {
  dt__stream_flag(s, &a->linked);
  if (a->linked)
    dt__image_store(s, &a->image);
  else
    dt__stream_bytes(s, &a->host.data, &a->host.bytes);
  if (a->linked && !device)
    return;
  a->objects = dt__stream_list(s, &a->n_objects, a->objects, sizeof(*a->objects));
  for (uint32_t k = 0; k < a->n_objects && !s->failed; k++)
    dt__stream_bytes(s, &a->objects[k].data, &a->objects[k].bytes);
}

static void describe(dt_stream_t *s, const dt_artifact_place_t *place, dt_artifact_t *a,
                     dt_compiled_t *c, uint32_t *n_segments, uint32_t *n_outputs) {
  describe_code(s, place->codegen != NULL, a);
  describe_kernels(s, a, info_words(place));
  describe_calls(s, a);
  dt__stream_number(s, n_segments);
  c->output_segments =
      dt__stream_list(s, n_outputs, c->output_segments, sizeof(*c->output_segments));
  for (uint32_t k = 0; k < *n_outputs && !s->failed; k++)
    dt__stream_number(s, &c->output_segments[k]);
  uint32_t n_donations = *n_outputs, n_copies = *n_outputs;
  c->donations = dt__stream_list(s, &n_donations, c->donations, sizeof(*c->donations));
  for (uint32_t k = 0; k < n_donations && !s->failed; k++)
    dt__stream_number(s, &c->donations[k]);
  c->copies = dt__stream_list(s, &n_copies, c->copies, sizeof(*c->copies));
  for (uint32_t k = 0; k < n_copies && !s->failed; k++)
    dt__stream_number(s, &c->copies[k]);
  s->failed = s->failed || n_donations != *n_outputs || n_copies != *n_outputs;
  dt__stream_signed(s, &c->once_bytes);
  dt__stream_number(s, &c->n_launches);
  dt__stream_number(s, &c->n_regions);
  dt__stream_number(s, &c->n_others);
  dt__stream_number(s, &c->n_loops);
  dt__stream_number(s, &c->n_symbols);
  dt__stream_number(s, &c->n_output_sizes);
  describe_edges(s, c);
  describe_items(s, c);
  describe_checks(s, c);
  describe_once(s, &c->once_plan);
  uint32_t frame = DT_FRAME_VERSION;
  dt__stream_number(s, &frame);
  s->failed |= frame != DT_FRAME_VERSION;
  dt__stream_signed(s, &c->once_scratch_bytes);
  dt__choices_store(s, &c->choices);
  dt__tuned_store(s, &c->tuned);
}

void dt__artifact_fini(dt_artifact_t *artifact) {
  dt__free(artifact->host.data);
  for (uint32_t k = 0; k < artifact->n_objects; k++)
    dt__free(artifact->objects[k].data);
  dt__free(artifact->objects);
  dt__image_fini(&artifact->image);
  dt__free(artifact->infos);
  for (uint32_t k = 0; k < artifact->n_calls; k++)
    free_call(&artifact->calls[k]);
  dt__free(artifact->calls);
  *artifact = (dt_artifact_t){0};
}

dt_status_t dt__artifact_write(const dt_artifact_place_t *place, const dt_artifact_t *artifact,
                               const dt_compiled_t *compiled, uint32_t n_outputs, dt_text_t *out) {
  uint32_t n_calls = dt__externals_n(compiled->externals);
  dt_external_call_t *calls = dt__calloc(n_calls, sizeof(*calls));
  if (!calls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n_calls; k++)
    calls[k] = dt__externals_call(compiled->externals, k);
  dt_stream_t s = {.to = out};
  dt_artifact_t a = *artifact; // what is written is only read
  dt_compiled_t c = *compiled;
  a.calls = calls;
  a.n_calls = n_calls;
  describe(&s, place, &a, &c, &c.n_segments, &n_outputs);
  dt__free(calls);
  return dt__text_status(out);
}

// Who made it comes first, as a string.
static dt_status_t write_maker(const dt_maker_t *maker, dt_text_t *out) {
  dt_text_t whole;
  dt__text_init(&whole);
  dt_status_t status = dt__maker_write(maker, &whole);
  const char *string = dt__text_str(&whole);
  dt_stream_t s = {.to = out};
  if (!status)
    dt__stream_text(&s, &string);
  dt__text_fini(&whole);
  return status ? status : dt__text_status(out);
}

// DT_E_FORMAT: another would make it now, or nobody is named.
static dt_status_t read_maker(dt_stream_t *s, const dt_artifact_place_t *place) {
  dt_maker_t maker;
  dt_scan_t scan;
  void *string = NULL;
  size_t len = 0;
  dt__stream_bytes(s, &string, &len);
  dt__maker_init(&maker);
  dt__scan_init(&scan, string ? string : "", len, "a maker");
  dt_status_t status =
      s->failed ? DT_FAIL(DT_E_FORMAT, "nobody is named") : dt__maker_read(&scan, &maker);
  if (!status && !dt__maker_would(&maker, place->workers, place->jit))
    status = DT_FAIL(DT_E_FORMAT, "%s made it", dt__text_str(&maker.build));
  dt__maker_fini(&maker);
  dt__free(string);
  return status;
}

void dt__artifact_keep(const dt_artifact_place_t *place, const dt_text_t *key,
                       const dt_maker_t *maker, const dt_artifact_t *artifact,
                       const dt_compiled_t *compiled, uint32_t n_outputs) {
  if (!place->cache || key->failed || !artifact->host.data)
    return;
  dt_text_t entry;
  dt__text_init(&entry);
  dt_status_t status = write_maker(maker, &entry);
  if (!status)
    status = dt__artifact_write(place, artifact, compiled, n_outputs, &entry);
  if (!status)
    dt__disk_cache_keep(place->cache, DT_ARTIFACT_KIND, key, entry.data, entry.len);
  dt_status_free(status);
  dt__text_fini(&entry);
}

// ---- Linking --------------------------------------------------------------------------------------

// Those of kernels, and behind them the host program's; the list is the caller's.
static dt_object_t *all_objects(const dt_artifact_t *a) {
  dt_object_t *objects = dt__calloc((size_t)a->n_objects + 1, sizeof(*objects));
  if (!objects)
    return NULL;
  if (a->n_objects)
    memcpy(objects, a->objects, a->n_objects * sizeof(*objects));
  objects[a->n_objects] = a->host;
  return objects;
}

static dt_status_t link_objects(dt_artifact_t *artifact, const dt_object_t *objects, uint32_t n) {
  DT_TRY(dt__image_link(objects, n, dt__image_is_large(objects, n), &artifact->image));
  artifact->linked = true;
  return NULL;
}

dt_status_t dt__artifact_link(dt_artifact_t *artifact, const dt_codegen_t *codegen) {
  if (codegen)
    return link_objects(artifact, &artifact->host, 1);
  dt_object_t *objects = all_objects(artifact);
  if (!objects)
    return DT_NO_MEMORY();
  dt_status_t status = link_objects(artifact, objects, artifact->n_objects + 1);
  dt__free(objects);
  for (uint32_t k = 0; k < artifact->n_kernels; k++)
    artifact->infos[k] = 0; // all are in one unit
  return status;
}

// ---- Loading --------------------------------------------------------------------------------------

// All units of a CPU's, the host program's behind those of kernels.
static dt_status_t load_cpu(const dt_artifact_t *a, dt_compiled_t *out) {
  uint32_t n = a->n_objects + 1;
  for (uint32_t k = 0; k < a->n_kernels; k++)
    if (a->infos[k] >= n)
      return DT_FAIL(DT_E_FORMAT, "kernel %u is in unit %u of %u", k, a->infos[k], n);
  dt_object_t *objects = all_objects(a);
  if (!objects)
    return DT_NO_MEMORY();
  dt_status_t status = dt__load_objects(objects, n, out);
  dt__free(objects);
  return status ? status : dt__load_kernels(a->infos, a->n_kernels, out);
}

// The same of an image, which is one unit.
static dt_status_t load_linked(const dt_artifact_t *a, const dt_code_bytes_t *code,
                               dt_compiled_t *out) {
  for (uint32_t k = 0; k < a->n_kernels; k++)
    if (a->infos[k])
      return DT_FAIL(DT_E_FORMAT, "kernel %u is in unit %u of 1", k, a->infos[k]);
  DT_TRY(dt__load_image(&a->image, code, out));
  return dt__load_kernels(a->infos, a->n_kernels, out);
}

// Kernels of a device, and the host program, which is native.
static dt_status_t load_host(const dt_artifact_t *a, const dt_code_bytes_t *code,
                             dt_compiled_t *out) {
  return a->linked ? dt__load_image(&a->image, code, out) : dt__load_objects(&a->host, 1, out);
}

static dt_status_t load_device(const dt_artifact_place_t *place, dt_artifact_t *a,
                               dt_compiled_t *out) {
  const dt_codegen_t *codegen = place->codegen;
  return a->linked ? codegen->load_carried(place->jobs, place->device, a, out)
                   : codegen->reload(place->device, a, out);
}

static dt_status_t load(const dt_artifact_place_t *place, dt_artifact_t *a,
                        const dt_code_bytes_t *code, const dt_traced_t *traced, uint32_t n_segments,
                        dt_compiled_t *out) {
  const dt_op_list_t *ops = traced->hooks ? traced->hooks->ops : NULL;
  out->codegen = place->codegen;
  if (a->linked != (code != NULL))
    return DT_FAIL(DT_E_FORMAT, "its code is %slinked", a->linked ? "" : "not ");
  DT_TRY(place->codegen ? load_host(a, code, out)
         : a->linked    ? load_linked(a, code, out)
                        : load_cpu(a, out));
  DT_TRY(dt__load_host(n_segments, out));
  if (place->bare)
    return NULL;
  if (place->codegen)
    DT_TRY(load_device(place, a, out));
  DT_TRY(dt__externals_load(a->calls, a->n_calls, ops, place->codegen, place->device,
                            &out->externals));
  out->external_table = dt__externals_table(out->externals);
  return NULL;
}

// Whether the numbers by which calls go through an entry's lists are those of the program, and
// inside of the lists.
static bool fits(const dt_compiled_t *c, const dt_traced_t *traced, uint32_t n_segments,
                 uint32_t n_outputs) {
  const dt_graph_t *graph = traced->graph;
  uint32_t n_sizes = 0;
  bool good = n_outputs == graph->outputs.len && n_segments > 0 && n_segments <= DT_STREAM_MOST;
  for (uint32_t k = 0; good && k < n_outputs; k++) {
    n_sizes += dt__graph_node(graph, graph->outputs.items[k])->rank;
    good = c->output_segments[k] < n_segments && c->donations[k] <= graph->inputs.len;
  }
  good = good && c->once_bytes >= 0 && c->once_scratch_bytes >= 0 &&
         dt__once_fits(&c->once_plan, graph->constants.len, c->once_bytes) &&
         c->n_output_sizes == n_sizes && c->n_asserts == graph->asserts.len &&
         c->n_symbols >= dt__symenv_symbol_count(traced->env) && c->n_symbols <= DT_STREAM_MOST;
  for (uint32_t k = 0; good && k < c->n_readbacks; k++)
    good = c->readbacks[k].symbol < c->n_symbols;
  for (uint32_t k = 0; good && k < c->n_asserts; k++)
    good = dt__code_is_failure(c->assert_codes[k]);
  for (uint32_t k = 0; good && k < c->n_checks; k++)
    good = c->checks[k].code == DT_OK || dt__code_is_failure(c->checks[k].code);
  return good;
}

static dt_status_t read_entry(const dt_artifact_place_t *place, const void *data, size_t bytes,
                              const dt_code_bytes_t *code, const dt_traced_t *traced,
                              dt_compiled_t *out) {
  dt_artifact_t artifact = {0};
  uint32_t n_segments = 0, n_outputs = 0;
  dt_stream_t s = {.from = data, .left = bytes};
  describe(&s, place, &artifact, out, &n_segments, &n_outputs);
  dt_status_t status = NULL;
  if (!dt__stream_is_done(&s))
    status = DT_FAIL(DT_E_FORMAT, "it is not an entry of this format");
  else if (!fits(out, traced, n_segments, n_outputs))
    status = DT_FAIL(DT_E_FORMAT, "it is the entry of another program");
  if (!status)
    status = load(place, &artifact, code, traced, n_segments, out);
  dt__artifact_fini(&artifact);
  return status;
}

dt_status_t dt__artifact_read(const dt_artifact_place_t *place, const void *data, size_t bytes,
                              const dt_code_bytes_t *code, const dt_traced_t *traced,
                              dt_compiled_t **out) {
  dt_compiled_t *compiled = dt__calloc(1, sizeof(*compiled));
  *out = NULL;
  if (!compiled)
    return DT_NO_MEMORY();
  dt_status_t status = read_entry(place, data, bytes, code, traced, compiled);
  if (status) {
    dt__compiled_unload(compiled);
    dt__compiled_destroy(compiled);
    return status;
  }
  *out = compiled;
  return NULL;
}

dt_status_t dt__artifact_find(const dt_artifact_place_t *place, const dt_text_t *key,
                              const dt_traced_t *traced, dt_compiled_t **out, bool *out_refused) {
  void *entry = NULL;
  size_t size = 0;
  *out = NULL;
  if (!dt__disk_cache_find(place->cache, DT_ARTIFACT_KIND, key, &entry, &size))
    return NULL;
  dt_stream_t s = {.from = entry, .left = size};
  dt_status_t status = read_maker(&s, place);
  if (!status)
    status = dt__artifact_read(place, s.from, s.left, NULL, traced, out);
  dt__free(entry);
  if (!status)
    return NULL;
  *out_refused = true;
  if (dt_status_code(status) == DT_E_NO_MEMORY ||
      (place->codegen && place->codegen->lost(place->device)))
    return status;
  DT_LOG(DT_LOG_CACHE, 1, "a variant is not used: %s", dt_status_message(status));
  dt_status_free(status);
  return NULL;
}
