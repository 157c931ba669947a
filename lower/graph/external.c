// SPDX-License-Identifier: Apache-2.0
// Ops of users: options, references, names and attributes.
#include "lower/graph/external.h"

#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <string.h>

#define MOST_NAME 127

// ---- Names --------------------------------------------------------------------------------------
static bool is_word(const char *name, const char *also) {
  size_t len = name ? strlen(name) : 0;
  for (size_t k = 0; k < len; k++)
    if (!isalnum((unsigned char)name[k]) && !strchr(also, name[k]))
      return false;
  return len > 0 && len <= MOST_NAME && !isdigit((unsigned char)name[0]);
}

bool dt__op_name_is_valid(const char *name) {
  if (!is_word(name, "_."))
    return false;
  const char *dot = strchr(name, '.');
  return dot && dot != name && dot[1] && !strstr(name, "..") && name[strlen(name) - 1] != '.';
}

bool dt__attr_name_is_valid(const char *name) { return is_word(name, "_"); }

// ---- Options ------------------------------------------------------------------------------------
static dt_status_t check_functions(const dt_op_options_t *options) {
  if (!options->infer)
    return DT_FAIL(DT_E_ARGUMENT, "infer: NULL");
  if (!options->kernel && !options->decompose && !options->device_kernel)
    return DT_FAIL(DT_E_ARGUMENT,
                   "kernel, decompose, device_kernel: NULL; one of them is required");
  if (options->n_numbers > DT_OP_MAX_NUMBERS)
    return DT_FAIL(DT_E_LIMIT, "n_numbers: %u, the most is %d", options->n_numbers,
                   DT_OP_MAX_NUMBERS);
  if ((options->n_numbers != 0) != (options->numbers != NULL))
    return DT_FAIL(DT_E_ARGUMENT, "n_numbers: %u; expected %s", options->n_numbers,
                   options->numbers ? "how many `numbers` reads" : "0, as `numbers` is NULL");
  return NULL;
}

static dt_status_t check_updates(const dt_op_options_t *options) {
  uint32_t most = options->most_inputs ? options->most_inputs : options->least_inputs;
  most = most ? most : 1;
  uint64_t seen = 0;
  for (uint32_t k = 0; k < DT_OP_MAX_RESULTS; k++) {
    uint32_t input = options->updates[k];
    if (input > most)
      return DT_FAIL(DT_E_ARGUMENT, "updates[%u]: %u; the most inputs are %u", k, input, most);
    if (input && seen >> (input - 1) & 1)
      return DT_FAIL(DT_E_ARGUMENT, "updates[%u]: input %u has a new value already", k, input - 1);
    seen |= input ? (uint64_t)1 << (input - 1) : 0;
  }
  return options->in_place && !seen ? DT_FAIL(DT_E_ARGUMENT, "in_place: no result updates an input")
                                    : NULL;
}

static dt_status_t check(const dt_op_options_t *options) {
  const char *name = options->name;
  if (!dt__op_name_is_valid(name))
    return DT_FAIL(DT_E_ARGUMENT,
                   "name: %s%.64s%s; expected \"domain.name\", of letters, digits and _, at most "
                   "%d in all",
                   name ? "\"" : "", name ? name : "NULL", name ? "\"" : "", MOST_NAME);
  DT_TRY(check_functions(options));
  if (options->identity && strlen(options->identity) > DT_OP_MAX_TEXT)
    return DT_FAIL(DT_E_LIMIT, "identity: %zu bytes, with the library's; the most is %d",
                   strlen(options->identity), DT_OP_MAX_TEXT);
  if (options->most_inputs && options->least_inputs > options->most_inputs)
    return DT_FAIL(DT_E_ARGUMENT, "least_inputs: %u, more than most_inputs, %u",
                   options->least_inputs, options->most_inputs);
  if (options->least_inputs > DT_OP_MAX_INPUTS || options->most_inputs > DT_OP_MAX_INPUTS)
    return DT_FAIL(DT_E_LIMIT, "least_inputs: %u, most_inputs: %u; the most is %d",
                   options->least_inputs, options->most_inputs, DT_OP_MAX_INPUTS);
  return check_updates(options);
}

// ---- Device kernels -----------------------------------------------------------------------------
#define MOST_THREADS 1024u
#define MOST_SHARED (1u << 20)
#define MOST_IMAGE ((uint64_t)1 << 30)

static dt_status_t check_device_kernel(const dt_op_device_kernel_t *kernel) {
  uint32_t items = kernel->items ? kernel->items : 1;
  if ((int)kernel->device <= (int)DT_CPU)
    return DT_FAIL(DT_E_ARGUMENT, "device_kernel: device %d; the CPU's is `kernel`",
                   (int)kernel->device);
  if (!kernel->entry || !kernel->entry[0] || (!kernel->text && !kernel->image))
    return DT_FAIL(DT_E_ARGUMENT, "device_kernel: %s: NULL",
                   kernel->entry && kernel->entry[0] ? "text, image" : "entry");
  if (!kernel->text && (!kernel->image_bytes || kernel->image_bytes > MOST_IMAGE))
    return DT_FAIL(DT_E_ARGUMENT, "device_kernel: an image of %llu bytes",
                   (unsigned long long)kernel->image_bytes);
  if (!kernel->threads || kernel->threads > MOST_THREADS || kernel->threads % items ||
      kernel->shared_bytes > MOST_SHARED)
    return DT_FAIL(DT_E_ARGUMENT,
                   "device_kernel: %u threads for %u items, %u bytes shared; expected 1 to %u "
                   "threads, a multiple of the items",
                   kernel->threads, items, kernel->shared_bytes, MOST_THREADS);
  return NULL;
}

static size_t image_bytes(const dt_op_device_kernel_t *kernel) {
  return kernel->text ? strlen(kernel->text) + 1 : (size_t)kernel->image_bytes;
}

// Into `room`, which holds its texts.
static void take_device_kernel(dt_op_def_t *def, const dt_op_device_kernel_t *kernel, char *room) {
  size_t entry = strlen(kernel->entry) + 1;
  def->device = *kernel;
  def->device.items = kernel->items ? kernel->items : 1;
  def->device.entry = memcpy(room, kernel->entry, entry);
  const void *image =
      memcpy(room + entry, kernel->text ? kernel->text : kernel->image, image_bytes(kernel));
  def->device.text = kernel->text ? image : NULL;
  def->device.image = kernel->text ? NULL : image;
  def->options.device_kernel = &def->device;
}

dt_status_t dt__op_def_create(const dt_op_options_t *options, dt_op_def_t **out) {
  dt_op_device_kernel_t kernel = {0};
  *out = NULL;
  DT_TRY(check(options));
  if (options->device_kernel) {
    DT_TRY(DT_OPTIONS_TAKE(dt_op_device_kernel_t, &kernel, options->device_kernel));
    DT_TRY(check_device_kernel(&kernel));
  }
  const char *identity = options->identity ? options->identity : options->name;
  size_t name_bytes = strlen(options->name) + 1, bytes = strlen(identity) + 1;
  size_t kernel_bytes =
      options->device_kernel ? strlen(kernel.entry) + 1 + image_bytes(&kernel) : 0;
  dt_op_def_t *def = dt__calloc(1, sizeof(*def) + name_bytes + bytes + kernel_bytes);
  if (!def)
    return DT_NO_MEMORY();
  char *texts = (char *)(def + 1);
  def->refs = 1;
  def->options = *options;
  def->options.name = memcpy(texts, options->name, name_bytes);
  def->options.identity = memcpy(texts + name_bytes, identity, bytes);
  def->options.closure_free = NULL;
  if (options->device_kernel)
    take_device_kernel(def, &kernel, texts + name_bytes + bytes);
  if (!def->options.least_inputs)
    def->options.least_inputs = 1;
  if (!def->options.most_inputs)
    def->options.most_inputs = def->options.least_inputs;
  *out = def;
  return NULL;
}

dt_op_def_t *dt__op_def_retain(dt_op_def_t *def) {
  (void)atomic_fetch_add_explicit(&def->refs, 1, memory_order_relaxed);
  return def;
}

void dt__op_def_release(dt_op_def_t *def) {
  if (!def || atomic_fetch_sub_explicit(&def->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (def->options.closure_free)
    def->options.closure_free(def->options.closure);
  dt__library_release(def->library);
  dt__free(def);
}

// ---- Running ------------------------------------------------------------------------------------
dt_status_t dt__external_invoke(const dt_graph_external_t *external, const dt_op_tensor_t *tensors,
                                uint32_t n_inputs, int64_t begin, int64_t end) {
  const dt_op_tensor_t *list[DT_OP_MAX_INPUTS + DT_OP_MAX_RESULTS];
  const dt_op_options_t *op = external->def ? &external->def->options : NULL;
  bool numbers = external->part == DT_EXTERNAL_NUMBERS;
  if (!op || !(numbers ? op->numbers != NULL : op->kernel != NULL))
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the op has no kernel here", external->name);
  if (n_inputs > DT_OP_MAX_INPUTS || external->n_results > DT_OP_MAX_RESULTS)
    return DT_FAIL(DT_E_INTERNAL, "%s: %u inputs, %u results", external->name, n_inputs,
                   external->n_results);
  for (uint32_t k = 0; k < n_inputs + external->n_results; k++)
    list[k] = &tensors[k];
  dt_op_args_t args = {.n_inputs = n_inputs,
                       .n_results = numbers ? 0 : external->n_results,
                       .n_attrs = external->n_attrs,
                       .inputs = list,
                       .results = list + n_inputs,
                       .attrs = external->attrs,
                       .closure = op->closure};
  return dt__status_annotate(numbers ? op->numbers(&args, tensors[n_inputs].data)
                                     : op->kernel(&args, begin, end),
                             "%s", external->name);
}

// ---- Attributes ---------------------------------------------------------------------------------
static const char *const kind_names[] = {[DT_OP_ATTR_INT] = "int",
                                         [DT_OP_ATTR_FLOAT] = "float",
                                         [DT_OP_ATTR_TEXT] = "text",
                                         [DT_OP_ATTR_INTS] = "ints",
                                         [DT_OP_ATTR_FLOATS] = "floats"};

const char *dt__attr_kind_name(dt_op_attr_kind_t kind) {
  return (unsigned)kind < sizeof(kind_names) / sizeof(kind_names[0]) ? kind_names[kind] : NULL;
}

const dt_op_attr_t *dt__attr_find(const dt_op_attr_t *attrs, uint32_t n, const char *name,
                                  dt_op_attr_kind_t kind) {
  for (uint32_t k = 0; name && k < n; k++)
    if (attrs[k].kind == kind && strcmp(attrs[k].name, name) == 0)
      return &attrs[k];
  return NULL;
}

const dt_op_attr_t *dt_op_attr(const dt_op_args_t *args, const char *name, dt_op_attr_kind_t kind) {
  return args ? dt__attr_find(args->attrs, args->n_attrs, name, kind) : NULL;
}

static void print_values(const dt_op_attr_t *attr, dt_text_t *out) {
  bool ints = attr->kind == DT_OP_ATTR_INTS;
  dt__text_put(out, "[");
  for (uint32_t k = 0; k < attr->n; k++) {
    dt__text_put(out, k ? ", " : "");
    if (ints)
      dt__text_i64(out, attr->ints[k]);
    else
      dt__text_printf(out, "%.17g", attr->floats[k]);
  }
  dt__text_put(out, "]");
}

void dt__attrs_print(const dt_op_attr_t *attrs, uint32_t n, dt_text_t *out) {
  for (uint32_t k = 0; k < n; k++) {
    const dt_op_attr_t *attr = &attrs[k];
    dt__text_printf(out, "%s%s %s ", k ? ", " : "", dt__attr_kind_name(attr->kind), attr->name);
    if (attr->kind == DT_OP_ATTR_INT)
      dt__text_i64(out, attr->i);
    else if (attr->kind == DT_OP_ATTR_FLOAT)
      dt__text_printf(out, "%.17g", attr->f);
    else if (attr->kind == DT_OP_ATTR_TEXT)
      dt__text_quote(out, attr->text, SIZE_MAX);
    else
      print_values(attr, out);
  }
}
