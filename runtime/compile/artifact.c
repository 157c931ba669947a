// SPDX-License-Identifier: Apache-2.0
// See artifact.h. An entry is words of 8 bytes and strings (a word with the length, then the bytes,
// filled up to a word), in the order of `describe` below, which both writes and reads them.
#include "runtime/compile/artifact.h"

#include "runtime/compile/external.h"

#include "runtime/base/build.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <string.h>

#define FORMAT 9
#define MOST_ENTRIES (1u << 20) // of any list

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

// ---- Bytes ----------------------------------------------------------------------------------------

// Writes where `to` is set, else reads. Once it failed it does nothing.
typedef struct stream_t {
  dt_text_t *to;
  const unsigned char *from;
  size_t left;
  bool failed;
} stream_t;

static void word(stream_t *s, uint64_t *value) {
  if (s->failed)
    return;
  if (s->to) {
    dt__text_write(s->to, (const char *)value, sizeof(*value));
  } else if (s->left < sizeof(*value)) {
    s->failed = true;
  } else {
    memcpy(value, s->from, sizeof(*value));
    s->from += sizeof(*value);
    s->left -= sizeof(*value);
  }
}

static void number(stream_t *s, uint32_t *value) {
  uint64_t wide = *value;
  word(s, &wide);
  s->failed |= wide > UINT32_MAX;
  *value = (uint32_t)wide;
}

static void signed_word(stream_t *s, int64_t *value) {
  uint64_t bits = (uint64_t)*value;
  word(s, &bits);
  *value = (int64_t)bits;
}

// What is read is the caller's, with a zero behind it.
static void bytes(stream_t *s, void **data, size_t *n) {
  static const char zeros[8];
  uint64_t length = *n;
  word(s, &length);
  size_t fill = (8 - length % 8) % 8;
  if (s->failed)
    return;
  if (s->to) {
    dt__text_write(s->to, *data, *n);
    dt__text_write(s->to, zeros, fill);
    return;
  }
  s->failed = length > s->left || fill > s->left - length;
  *data = s->failed ? NULL : dt__alloc((size_t)length + 1);
  s->failed |= !*data;
  if (s->failed)
    return;
  memcpy(*data, s->from, (size_t)length);
  ((char *)*data)[length] = 0;
  *n = (size_t)length;
  s->from += length + fill;
  s->left -= (size_t)length + fill;
}

static void text(stream_t *s, const char **string) {
  void *data = (void *)(uintptr_t)*string;
  size_t n = s->to ? strlen(*string) : 0;
  bytes(s, &data, &n);
  *string = data;
}

// A list's length; when reading it has room for zeroed elements.
static void *list(stream_t *s, uint32_t *n, void *readbacks, size_t size) {
  number(s, n);
  if (s->to)
    return readbacks;
  if (s->failed)
    *n = 0;
  if (s->failed)
    return NULL;
  void *made = *n > MOST_ENTRIES ? NULL : dt__calloc(*n, size);
  s->failed = !made;
  *n = made ? *n : 0;
  return made;
}

// ---- Entries --------------------------------------------------------------------------------------

static void describe_kernels(stream_t *s, dt_artifact_t *a, uint32_t words) {
  a->infos = list(s, &a->n_kernels, a->infos, words * sizeof(*a->infos));
  for (uint32_t k = 0; k < a->n_kernels * words && !s->failed; k++)
    number(s, &a->infos[k]);
}

static void describe_checks(stream_t *s, dt_compiled_t *c) {
  c->checks = list(s, &c->n_checks, c->checks, sizeof(*c->checks));
  for (uint32_t k = 0; k < c->n_checks && !s->failed; k++) {
    uint32_t code = (uint32_t)c->checks[k].code;
    text(s, &c->checks[k].text);
    number(s, &c->checks[k].readback);
    number(s, &code);
    s->failed |= c->checks[k].readback > c->n_readbacks;
    c->checks[k].code = (dt_code_t)code;
  }
  uint32_t n = c->n_asserts;
  c->assert_texts = list(s, &c->n_asserts, c->assert_texts, sizeof(*c->assert_texts));
  c->assert_codes = list(s, &n, c->assert_codes, sizeof(*c->assert_codes));
  s->failed |= n != c->n_asserts;
  for (uint32_t k = 0; k < c->n_asserts && !s->failed; k++) {
    uint32_t code = (uint32_t)c->assert_codes[k];
    text(s, &c->assert_texts[k]);
    number(s, &code);
    c->assert_codes[k] = (dt_code_t)code;
  }
}

static void describe_edges(stream_t *s, dt_compiled_t *c) {
  c->edges = list(s, &c->n_edges, c->edges, sizeof(*c->edges));
  for (uint32_t k = 0; k < c->n_edges && !s->failed; k++) {
    number(s, &c->edges[k].from);
    number(s, &c->edges[k].to);
    s->failed |= c->edges[k].from >= c->edges[k].to || c->edges[k].to >= c->n_launches;
  }
}

static void describe_items(stream_t *s, dt_compiled_t *c) {
  c->readbacks = list(s, &c->n_readbacks, c->readbacks, sizeof(*c->readbacks));
  for (uint32_t k = 0; k < c->n_readbacks && !s->failed; k++) {
    dt_compiled_readback_t *readback = &c->readbacks[k];
    text(s, &readback->text);
    number(s, &readback->symbol);
    signed_word(s, &readback->range.lo);
    signed_word(s, &readback->range.hi);
  }
  uint32_t reads = c->segments_reason != NULL;
  number(s, &reads);
  if (reads)
    text(s, &c->segments_reason);
}

// ---- Calls of users' ops --------------------------------------------------------------------------
// Numbers of 8 bytes; what is read is the caller's.
static void *values(stream_t *s, const void *items, uint32_t *n) {
  void *data = (void *)(uintptr_t)items;
  size_t size = (size_t)*n * 8;
  bytes(s, &data, &size);
  s->failed |= size % 8 != 0 || size / 8 > DT_OP_MAX_VALUES;
  *n = (uint32_t)(size / 8);
  return data;
}

static void describe_attr(stream_t *s, dt_op_attr_t *attr) {
  uint32_t kind = (uint32_t)attr->kind;
  number(s, &kind);
  attr->kind = (dt_op_attr_kind_t)kind;
  text(s, &attr->name);
  s->failed |= s->failed || !dt__attr_kind_name(attr->kind) || !dt__attr_name_is_valid(attr->name);
  if (s->failed)
    return;
  switch (attr->kind) {
  case DT_OP_ATTR_INT:
    signed_word(s, &attr->i);
    break;
  case DT_OP_ATTR_FLOAT: {
    uint64_t bits = 0;
    memcpy(&bits, &attr->f, sizeof(bits));
    word(s, &bits);
    memcpy(&attr->f, &bits, sizeof(bits));
    break;
  }
  case DT_OP_ATTR_TEXT:
    text(s, &attr->text);
    break;
  case DT_OP_ATTR_INTS:
    attr->ints = values(s, attr->ints, &attr->n);
    break;
  case DT_OP_ATTR_FLOATS:
    attr->floats = values(s, attr->floats, &attr->n);
    break;
  }
}

static void describe_types(stream_t *s, dt_external_call_t *call) {
  dt_external_result_t *types = (dt_external_result_t *)(uintptr_t)call->types;
  types = list(s, &call->n_tensors, types, sizeof(*types));
  call->types = types;
  for (uint32_t k = 0; k < call->n_tensors && !s->failed; k++) {
    uint32_t dtype = (uint32_t)types[k].dtype;
    number(s, &dtype);
    number(s, &types[k].rank);
    types[k].dtype = (dt_dtype_t)dtype;
    s->failed |= !dt__dtype_is_valid(types[k].dtype) || types[k].rank > DT_MAX_RANK;
  }
}

static void describe_call(stream_t *s, dt_external_call_t *call) {
  uint32_t part = (uint32_t)call->call.part;
  text(s, &call->call.name);
  text(s, &call->call.identity);
  number(s, &part);
  number(s, &call->n_inputs);
  word(s, &call->updates);
  number(s, &call->in_place);
  describe_types(s, call);
  dt_op_attr_t *attrs = (dt_op_attr_t *)(uintptr_t)call->call.attrs;
  attrs = list(s, &call->call.n_attrs, attrs, sizeof(*attrs));
  call->call.attrs = attrs;
  s->failed |= part > DT_EXTERNAL_NUMBERS || call->n_inputs > call->n_tensors ||
               call->n_inputs > DT_OP_MAX_INPUTS ||
               call->n_tensors - call->n_inputs > DT_OP_MAX_RESULTS ||
               call->call.n_attrs > DT_OP_MAX_ATTRS;
  call->call.part = (dt_external_part_t)part;
  for (uint32_t k = 0; k < call->call.n_attrs && !s->failed; k++)
    describe_attr(s, &attrs[k]);
}

static void describe_calls(stream_t *s, dt_artifact_t *a) {
  a->calls = list(s, &a->n_calls, a->calls, sizeof(*a->calls));
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

static void describe(stream_t *s, uint32_t info_words, dt_artifact_t *a, dt_compiled_t *c,
                     uint32_t *n_segments, uint32_t *n_outputs) {
  bytes(s, &a->host.data, &a->host.bytes);
  a->objects = list(s, &a->n_objects, a->objects, sizeof(*a->objects));
  for (uint32_t k = 0; k < a->n_objects && !s->failed; k++)
    bytes(s, &a->objects[k].data, &a->objects[k].bytes);
  describe_kernels(s, a, info_words);
  describe_calls(s, a);
  number(s, n_segments);
  c->output_segments = list(s, n_outputs, c->output_segments, sizeof(*c->output_segments));
  for (uint32_t k = 0; k < *n_outputs && !s->failed; k++)
    number(s, &c->output_segments[k]);
  uint32_t n_donations = *n_outputs, n_copies = *n_outputs;
  c->donations = list(s, &n_donations, c->donations, sizeof(*c->donations));
  for (uint32_t k = 0; k < n_donations && !s->failed; k++)
    number(s, &c->donations[k]);
  c->copies = list(s, &n_copies, c->copies, sizeof(*c->copies));
  for (uint32_t k = 0; k < n_copies && !s->failed; k++)
    number(s, &c->copies[k]);
  s->failed = s->failed || n_donations != *n_outputs || n_copies != *n_outputs;
  signed_word(s, &c->once_bytes);
  number(s, &c->n_launches);
  number(s, &c->n_regions);
  number(s, &c->n_others);
  number(s, &c->n_loops);
  number(s, &c->n_symbols);
  number(s, &c->n_output_sizes);
  describe_edges(s, c);
  describe_items(s, c);
  describe_checks(s, c);
}

void dt__artifact_fini(dt_artifact_t *artifact) {
  dt__free(artifact->host.data);
  for (uint32_t k = 0; k < artifact->n_objects; k++)
    dt__free(artifact->objects[k].data);
  dt__free(artifact->objects);
  dt__free(artifact->infos);
  for (uint32_t k = 0; k < artifact->n_calls; k++)
    free_call(&artifact->calls[k]);
  dt__free(artifact->calls);
  *artifact = (dt_artifact_t){0};
}

void dt__artifact_keep(const dt_artifact_place_t *place, const dt_text_t *key,
                       const dt_artifact_t *artifact, const dt_compiled_t *compiled,
                       uint32_t n_outputs) {
  uint32_t n_calls = dt__externals_n(compiled->externals);
  if (!place->cache || key->failed || !artifact->host.data)
    return;
  dt_external_call_t *calls = dt__calloc(n_calls, sizeof(*calls));
  if (!calls)
    return;
  for (uint32_t k = 0; k < n_calls; k++)
    calls[k] = dt__externals_call(compiled->externals, k);
  dt_text_t entry;
  dt__text_init(&entry);
  stream_t s = {.to = &entry};
  dt_artifact_t a = *artifact; // what is written is only read
  dt_compiled_t c = *compiled;
  a.calls = calls;
  a.n_calls = n_calls;
  describe(&s, info_words(place), &a, &c, &c.n_segments, &n_outputs);
  if (!entry.failed)
    dt__disk_cache_keep(place->cache, DT_ARTIFACT_KIND, key, entry.data, entry.len);
  dt__text_fini(&entry);
  dt__free(calls);
}

// ---- Loading --------------------------------------------------------------------------------------

// All units of a CPU's, the host program's behind those of kernels.
static dt_status_t load_cpu(const dt_artifact_t *a, dt_compiled_t *out) {
  uint32_t n = a->n_objects + 1;
  for (uint32_t k = 0; k < a->n_kernels; k++)
    if (a->infos[k] >= n)
      return DT_FAIL(DT_E_FORMAT, "kernel %u is in unit %u of %u", k, a->infos[k], n);
  dt_object_t *objects = dt__calloc(n, sizeof(*objects));
  if (!objects)
    return DT_NO_MEMORY();
  memcpy(objects, a->objects, a->n_objects * sizeof(*objects));
  objects[a->n_objects] = a->host;
  dt_status_t status = dt__load_objects(objects, n, out);
  dt__free(objects);
  return status ? status : dt__load_kernels(a->infos, a->n_kernels, out);
}

static dt_status_t load(const dt_artifact_place_t *place, dt_artifact_t *a,
                        const dt_traced_t *traced, uint32_t n_segments, dt_compiled_t *out) {
  const dt_op_list_t *ops = traced->hooks ? traced->hooks->ops : NULL;
  out->codegen = place->codegen;
  DT_TRY(place->codegen ? dt__load_objects(&a->host, 1, out) : load_cpu(a, out));
  DT_TRY(dt__load_host(n_segments, out));
  if (place->codegen)
    DT_TRY(place->codegen->reload(place->device, a, out));
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
  bool good = n_outputs == graph->outputs.len && n_segments > 0 && n_segments <= MOST_ENTRIES;
  for (uint32_t k = 0; good && k < n_outputs; k++) {
    n_sizes += dt__graph_node(graph, graph->outputs.items[k])->rank;
    good = c->output_segments[k] < n_segments && c->donations[k] <= graph->inputs.len;
  }
  good = good && c->once_bytes >= 0 && c->n_output_sizes == n_sizes &&
         c->n_asserts == graph->asserts.len &&
         c->n_symbols >= dt__symenv_symbol_count(traced->env) && c->n_symbols <= MOST_ENTRIES;
  for (uint32_t k = 0; good && k < c->n_readbacks; k++)
    good = c->readbacks[k].symbol < c->n_symbols;
  for (uint32_t k = 0; good && k < c->n_asserts; k++)
    good = dt__code_is_failure(c->assert_codes[k]);
  for (uint32_t k = 0; good && k < c->n_checks; k++)
    good = c->checks[k].code == DT_OK || dt__code_is_failure(c->checks[k].code);
  return good;
}

dt_status_t dt__artifact_find(const dt_artifact_place_t *place, const dt_text_t *key,
                              const dt_traced_t *traced, dt_compiled_t **out, bool *out_refused) {
  void *entry = NULL;
  size_t size = 0;
  dt_artifact_t artifact = {0};
  uint32_t n_segments = 0, n_outputs = 0;
  *out = NULL;
  if (!dt__disk_cache_find(place->cache, DT_ARTIFACT_KIND, key, &entry, &size))
    return NULL;
  dt_compiled_t *compiled = dt__calloc(1, sizeof(*compiled));
  if (!compiled) {
    dt__free(entry);
    return DT_NO_MEMORY();
  }
  stream_t s = {.from = entry, .left = size};
  describe(&s, info_words(place), &artifact, compiled, &n_segments, &n_outputs);
  s.failed |= s.left != 0;
  dt_status_t status = NULL;
  if (s.failed)
    status = DT_FAIL(DT_E_FORMAT, "it is not an entry of this format");
  else if (!fits(compiled, traced, n_segments, n_outputs))
    status = DT_FAIL(DT_E_FORMAT, "it is the entry of another program");
  if (!status)
    status = load(place, &artifact, traced, n_segments, compiled);
  dt__artifact_fini(&artifact);
  dt__free(entry);
  if (!status) {
    *out = compiled;
    return NULL;
  }
  *out_refused = true;
  dt__compiled_unload(compiled);
  dt__compiled_destroy(compiled);
  if (dt_status_code(status) == DT_E_NO_MEMORY ||
      (place->codegen && place->codegen->lost(place->device)))
    return status;
  DT_LOG(DT_LOG_CACHE, 1, "a variant is not used: %s", dt_status_message(status));
  dt_status_free(status);
  return NULL;
}
