// SPDX-License-Identifier: Apache-2.0
// Inputs that the command makes: from files, or of zeros, ones, random or given numbers.
#include "cli/model.h"

#include "cli/elements.h"
#include "cli/low.h"
#include "cli/options.h"
#include "cli/tensor_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// More is a slip of the keyboard.
#define MOST_BYTES ((int64_t)8 << 30)

// ---- Sizes ----------------------------------------------------------------------------------------
static bool is_named(const char *own, const char *name, size_t len) {
  return own && strlen(own) == len && memcmp(own, name, len) == 0;
}

// "x.1", the dim 1 of the input x.
static bool is_numbered(const char *input, uint32_t d, const char *name, size_t len) {
  char own[16];
  size_t input_len = input ? strlen(input) : 0;
  (void)snprintf(own, sizeof(own), ".%u", d);
  return input && len > input_len && memcmp(input, name, input_len) == 0 &&
         is_named(own, name + input_len, len - input_len);
}

// Whether any dim of any input is called so.
static bool is_known(const cli_model_t *model, const char *name, size_t len) {
  for (uint32_t k = 0; k < model->n_inputs; k++) {
    const dt_input_decl_t *input = dt_function_input(model->function, k);
    for (uint32_t d = 0; d < input->rank; d++) {
      const dt_dim_decl_t *dim = dt_function_input_dim(model->function, k, d);
      if (is_numbered(cli_model_input_name(model, k), d, name, len) ||
          (dim && (is_named(dim->name, name, len) || is_named(dim->of, name, len))))
        return true;
    }
  }
  return false;
}

// ---- Names that there are -------------------------------------------------------------------------
typedef struct names_t {
  char text[768];
  size_t len;
} names_t;

// Once each, as long as there is room.
static void add_name(names_t *names, const char *name) {
  char whole[160];
  (void)snprintf(whole, sizeof(whole), "%.150s,", name);
  for (const char *at = names->text; (at = strstr(at, whole)); at++)
    if (at == names->text || at[-1] == ' ')
      return;
  if (names->len + strlen(whole) + 2 < sizeof(names->text))
    names->len += (size_t)snprintf(names->text + names->len, sizeof(names->text) - names->len,
                                   names->len ? " %s" : "%s", whole);
}

static const char *names_end(names_t *names) {
  if (!names->len)
    return "none";
  names->text[names->len - 1] = '\0'; // the last comma
  return names->text;
}

// Of the dims that have no size yet: by their own names, or as INPUT.D.
static void add_dims(const cli_model_t *model, uint32_t k, names_t *names) {
  const dt_input_decl_t *input = dt_function_input(model->function, k);
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = dt_function_input_dim(model->function, k, d);
    char numbered[160];
    (void)snprintf(numbered, sizeof(numbered), "%.140s.%u", cli_model_input_name(model, k), d);
    if (!dim || !dim->is_static)
      add_name(names, dim && dim->name ? dim->name : dim && dim->of ? dim->of : numbered);
  }
}

// Complains of all of them at once, with those that there are.
static int no_dims(const char *me, const cli_model_t *model, names_t *unknown) {
  names_t names = {{0}, 0};
  for (uint32_t k = 0; k < model->n_inputs; k++)
    add_dims(model, k, &names);
  return cli_complain(me, CLI_USAGE,
                      "--dim: no dim of an input is called %s; there are %s (and INPUT.D)",
                      names_end(unknown), names_end(&names));
}

static int no_name(const char *me, const cli_model_t *model, const char *what, names_t *unknown,
                   uint32_t n, const char *(*name_of)(const cli_model_t *model, uint32_t k)) {
  names_t names = {{0}, 0};
  for (uint32_t k = 0; k < n; k++)
    add_name(&names, name_of(model, k));
  return cli_complain(me, CLI_USAGE, "--%s %s: no %s is called so; there are %s", what,
                      names_end(unknown), what, names_end(&names));
}

int cli_know_outputs(const char *me, const cli_model_t *model, const cli_list_t *given) {
  names_t unknown = {{0}, 0};
  for (uint32_t k = 0; k < given->n; k++) {
    uint32_t index = 0;
    if (!cli_model_output(model, given->items[k], &index))
      add_name(&unknown, given->items[k]);
  }
  return unknown.len
             ? no_name(me, model, "output", &unknown, model->n_outputs, cli_model_output_name)
             : CLI_DONE;
}

static int know_inputs(const char *me, const cli_model_t *model, const cli_list_t *given) {
  names_t unknown = {{0}, 0};
  for (uint32_t k = 0; k < given->n; k++) {
    uint32_t index = 0;
    if (!cli_model_input(model, given->items[k], &index))
      add_name(&unknown, given->items[k]);
  }
  return unknown.len ? no_name(me, model, "input", &unknown, model->n_inputs, cli_model_input_name)
                     : CLI_DONE;
}

int cli_find_specs(const char *me, const cli_model_t *model, const cli_list_t *given,
                   const char **specs) {
  int result = know_inputs(me, model, given);
  for (uint32_t k = 0; k < given->n && result == CLI_DONE; k++) {
    uint32_t index = 0;
    const char *spec = cli_model_input(model, given->items[k], &index);
    if (specs[index])
      return cli_complain(me, CLI_USAGE, "--input %s: the input was given before", given->items[k]);
    specs[index] = spec;
  }
  return result;
}

// ---- Sizes that are given -------------------------------------------------------------------------
// A dim of an input.
typedef struct place_t {
  const char *input;
  uint32_t d;
  const dt_dim_decl_t *dim;
} place_t;

// The name in the model of the dim that is given as INPUT.D; NULL: none, or `item` is a name.
static const char *numbered_name(const cli_model_t *model, const cli_dim_t *item) {
  for (uint32_t k = 0; k < model->n_inputs; k++) {
    uint32_t rank = dt_function_input(model->function, k)->rank;
    for (uint32_t d = 0; d < rank; d++) {
      const dt_dim_decl_t *dim = dt_function_input_dim(model->function, k, d);
      if (is_numbered(cli_model_input_name(model, k), d, item->name, item->len))
        return dim ? dim->name : NULL;
    }
  }
  return NULL;
}

// Whether `item` gives dims of that name a size: as NAME, or as the INPUT.D that `own` is the name
// of.
static bool gives(const cli_dim_t *item, const char *own, const char *name) {
  return is_named(name, item->name, item->len) || (name && own && strcmp(name, own) == 0);
}

// The size that `item` gives the dim; false: it gives none.
static bool given_size(const cli_dim_t *item, const char *own, const place_t *place, int64_t *out) {
  const dt_dim_decl_t *dim = place->dim;
  *out = item->size;
  if (is_numbered(place->input, place->d, item->name, item->len) ||
      (dim && gives(item, own, dim->name)))
    return true;
  return dim && gives(item, own, dim->of) &&
         !__builtin_mul_overflow(*out, dim->scale ? dim->scale : 1, out) &&
         !__builtin_add_overflow(*out, dim->offset, out);
}

static int contradiction(const char *me, const place_t *place, const cli_dim_t *a,
                         const cli_dim_t *b) {
  char name[160];
  (void)snprintf(name, sizeof(name), "%.140s.%u", place->input, place->d);
  return cli_complain(me, CLI_USAGE,
                      "--dim %.*s=%lld and --dim %.*s=%lld: two sizes of %s; give one of them (or "
                      "--names-are-hints, if dims of one name may differ)",
                      (int)(a->len < 64 ? a->len : 64), a->name, (long long)a->size,
                      (int)(b->len < 64 ? b->len : 64), b->name, (long long)b->size,
                      place->dim && place->dim->name ? place->dim->name : name);
}

// Complains where two give one dim sizes that differ, or one gives another than the model.
static int agree_on(const char *me, const place_t *place, const cli_dims_t *dims,
                    const char *const *own) {
  const cli_dim_t *before = NULL;
  int64_t expected = place->dim ? place->dim->value : 0, size = 0;
  bool is_static = place->dim && place->dim->is_static;
  for (uint32_t k = 0; k < dims->n; k++) {
    const cli_dim_t *item = &dims->items[k];
    if (!given_size(item, own[k], place, &size))
      continue;
    if (is_static && size != expected)
      return cli_complain(me, CLI_USAGE, "--dim %.*s=%lld: the model says %lld; leave it out",
                          (int)(item->len < 64 ? item->len : 64), item->name, (long long)item->size,
                          (long long)expected);
    if (before && size != expected)
      return contradiction(me, place, before, item);
    before = item;
    expected = size;
  }
  return CLI_DONE;
}

static int agree(const char *me, const cli_model_t *model, const cli_dims_t *dims) {
  const char *own[CLI_MOST_VALUES];
  int result = CLI_DONE;
  for (uint32_t k = 0; k < dims->n; k++)
    own[k] = numbered_name(model, &dims->items[k]);
  for (uint32_t k = 0; k < model->n_inputs; k++) {
    uint32_t rank = dt_function_input(model->function, k)->rank;
    for (uint32_t d = 0; d < rank && result == CLI_DONE; d++) {
      const place_t place = {cli_model_input_name(model, k), d,
                             dt_function_input_dim(model->function, k, d)};
      result = agree_on(me, &place, dims, own);
    }
  }
  return result;
}

int cli_know_dims(const char *me, const cli_model_t *model, const cli_dim_t *dims, uint32_t n) {
  const cli_dims_t all = {dims, n};
  names_t unknown = {{0}, 0};
  for (uint32_t k = 0; k < n; k++) {
    char quoted[160];
    (void)snprintf(quoted, sizeof(quoted), "'%.*s'", (int)(dims[k].len < 64 ? dims[k].len : 64),
                   dims[k].name);
    if (!is_known(model, dims[k].name, dims[k].len))
      add_name(&unknown, quoted);
  }
  if (unknown.len)
    return no_dims(me, model, &unknown);
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < k; i++)
      if (dims[i].len == dims[k].len && memcmp(dims[i].name, dims[k].name, dims[k].len) == 0)
        return cli_complain(me, CLI_USAGE, "--dim %.*s: given twice; expected one size",
                            (int)(dims[k].len < 64 ? dims[k].len : 64), dims[k].name);
  return agree(me, model, &all);
}

// Whether the tensor, whose sizes `spec` says, has those that `dims` give its dims.
static bool agrees(const cli_model_t *model, uint32_t k, const cli_dims_t *dims,
                   const dt_tensor_t *tensor, char message[CLI_MESSAGE]) {
  uint32_t rank = dt_function_input(model->function, k)->rank;
  for (uint32_t d = 0; d < rank && rank == dt_tensor_rank(tensor); d++) {
    const place_t place = {cli_model_input_name(model, k), d,
                           dt_function_input_dim(model->function, k, d)};
    int64_t own = dt_tensor_sizes(tensor)[d], size = 0;
    for (uint32_t i = 0; i < dims->n; i++) {
      const cli_dim_t *item = &dims->items[i];
      if (given_size(item, NULL, &place, &size) && size != own)
        return cli_wrong(message,
                         "dim %u is %lld here and %lld by --dim %.*s=%lld; give one of "
                         "them",
                         d, (long long)own, (long long)size, (int)(item->len < 64 ? item->len : 64),
                         item->name, (long long)item->size);
    }
  }
  return true;
}

static bool size_of(const char *input, uint32_t d, const dt_dim_decl_t *dim, const cli_dims_t *dims,
                    int64_t *out) {
  const place_t place = {input, d, dim};
  for (uint32_t k = 0; k < dims->n; k++)
    if (given_size(&dims->items[k], NULL, &place, out))
      return true;
  if (dim && dim->is_static)
    *out = dim->value;
  return dim && dim->is_static;
}

// The sizes that the declaration and --dim give.
static bool declared_sizes(const cli_model_t *model, uint32_t k, const cli_dims_t *dims,
                           int64_t sizes[DT_MAX_RANK], uint32_t *out_rank,
                           char message[CLI_MESSAGE]) {
  const dt_input_decl_t *input = dt_function_input(model->function, k);
  const char *name = cli_model_input_name(model, k);
  *out_rank = input->rank;
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = dt_function_input_dim(model->function, k, d);
    if (size_of(name, d, dim, dims, &sizes[d]))
      continue;
    if (dim && dim->name)
      return cli_wrong(message, "dim %u has no size: give --dim %s=SIZE", d, dim->name);
    return cli_wrong(message, "dim %u has no size: give --dim %s.%u=SIZE", d, name, d);
  }
  return true;
}

static void add_missing(const cli_model_t *model, uint32_t k, const cli_dims_t *dims,
                        names_t *names) {
  const dt_input_decl_t *input = dt_function_input(model->function, k);
  const char *name = cli_model_input_name(model, k);
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = dt_function_input_dim(model->function, k, d);
    char numbered[160];
    int64_t size = 0;
    if (size_of(name, d, dim, dims, &size))
      continue;
    (void)snprintf(numbered, sizeof(numbered), "%.140s.%u", name, d);
    add_name(names, dim && dim->name ? dim->name : dim && dim->of ? dim->of : numbered);
  }
}

// "1x3x224"; nothing for a scalar.
static bool read_sizes(const char *text, int64_t sizes[DT_MAX_RANK], uint32_t *out_rank,
                       char message[CLI_MESSAGE]) {
  *out_rank = 0;
  while (*text) {
    if (*out_rank == DT_MAX_RANK)
      return cli_wrong(message, "more than %d sizes", DT_MAX_RANK);
    if (!cli_read_count(&text, "x", 0, DT_SIZE_LIMIT - 1, &sizes[*out_rank]))
      return cli_wrong(message, "expected a size at '%.24s'", text);
    (*out_rank)++;
    if (*text && *++text == '\0')
      return cli_wrong(message, "expected a size at the end");
  }
  return true;
}

// ---- Elements -------------------------------------------------------------------------------------
typedef struct fill_t {
  dt_dtype_t dtype;
  void *data;
  int64_t count;
  size_t bytes;
  const char *args; // what stands behind the word, up to args_len
  size_t args_len;
  uint64_t state; // of the random numbers
  char *message;
} fill_t;

// Steele, Lea and Flood's splitmix64.
static uint64_t next_random(fill_t *fill) {
  uint64_t z = fill->state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

static bool fill_with(fill_t *fill, int64_t value) {
  for (int64_t k = 0; k < fill->count; k++)
    (void)cli_element_set_integer(fill->dtype, fill->data, k, value);
  return true;
}

// Low-bit types have no numbers here: their bytes are 0, or any. Any bits are a value of each type.
static bool fill_bytes(fill_t *fill, bool random) {
  for (size_t k = 0; k < fill->bytes; k++)
    ((unsigned char *)fill->data)[k] = random ? (unsigned char)next_random(fill) & 0x37 : 0;
  return true;
}

static bool fill_zeros(fill_t *fill) {
  return cli_is_low(fill->dtype) ? fill_bytes(fill, false) : fill_with(fill, 0);
}
// No numbers of low-bit types are made from texts.
static bool has_numbers(const fill_t *fill) {
  return !cli_is_low(fill->dtype) ||
         cli_wrong(fill->message, "numbers of %s are read from a .pb file; or give zeros or random",
                   dt_dtype_name(fill->dtype));
}

static bool fill_ones(fill_t *fill) { return has_numbers(fill) && fill_with(fill, 1); }

// Floats between -1 and 1; of integers 0 or 1, which most indices, masks and kinds may be.
static bool fill_random(fill_t *fill) {
  if (cli_is_low(fill->dtype))
    return fill_bytes(fill, true);
  for (int64_t k = 0; k < fill->count; k++) {
    uint64_t bits = next_random(fill);
    if (cli_is_float(fill->dtype))
      (void)cli_element_set(fill->dtype, fill->data, k, (double)(int64_t)bits * 0x1p-63);
    else
      (void)cli_element_set_integer(fill->dtype, fill->data, k, (int64_t)(bits >> 63));
  }
  return true;
}

static bool read_range(const fill_t *fill, int64_t *low, int64_t *high) {
  const char *at = fill->args;
  return cli_read_count(&at, ".", INT64_MIN, INT64_MAX, low) && at[0] == '.' && at[1] == '.' &&
         (at += 2, cli_read_count(&at, ":", INT64_MIN, INT64_MAX, high)) &&
         at == fill->args + fill->args_len && *low <= *high;
}

static bool fill_range(fill_t *fill) {
  int64_t low = 0, high = 0;
  if (!has_numbers(fill))
    return false;
  if (!read_range(fill, &low, &high))
    return cli_wrong(fill->message, "expected range:A..B with whole numbers, A not above B");
  uint64_t span = (uint64_t)high - (uint64_t)low;
  for (int64_t k = 0; k < fill->count; k++) {
    uint64_t bits = next_random(fill);
    uint64_t value = (uint64_t)low + (span == UINT64_MAX ? bits : bits % (span + 1));
    if (!cli_element_set_integer(fill->dtype, fill->data, k, (int64_t)value))
      return cli_wrong(fill->message, "%lld does not fit %s", (long long)(int64_t)value,
                       dt_dtype_name(fill->dtype));
  }
  return true;
}

static uint32_t count_values(const char *args, size_t len) {
  uint32_t n = len > 0;
  for (size_t k = 0; k < len; k++)
    n += args[k] == ',';
  return n;
}

static bool fill_values(fill_t *fill) {
  const char *at = fill->args, *stop = at + fill->args_len;
  if (!has_numbers(fill))
    return false;
  if (fill->count != (int64_t)count_values(at, fill->args_len))
    return cli_wrong(fill->message, "%u values for %lld elements", count_values(at, fill->args_len),
                     (long long)fill->count);
  for (int64_t k = 0; k < fill->count; k++) {
    char *end = NULL;
    errno = 0;
    bool is_float = cli_is_float(fill->dtype), stored = false;
    double real = is_float ? strtod(at, &end) : 0;
    int64_t whole = is_float ? 0 : strtoll(at, &end, 10);
    if (end == at || errno || end > stop || (end < stop && *end != ','))
      return cli_wrong(fill->message, "expected a number at '%.24s'", at);
    stored = is_float ? cli_element_set(fill->dtype, fill->data, k, real)
                      : cli_element_set_integer(fill->dtype, fill->data, k, whole);
    if (!stored)
      return cli_wrong(fill->message, "%lld does not fit %s", (long long)whole,
                       dt_dtype_name(fill->dtype));
    at = end + 1;
  }
  return true;
}

static const struct word_t {
  const char *word;
  bool (*fill)(fill_t *fill);
  bool has_args;
} words[] = {
    {"zeros", fill_zeros, false}, {"ones", fill_ones, false},    {"random", fill_random, false},
    {"range", fill_range, true},  {"values", fill_values, true},
};

// ---- The whole ------------------------------------------------------------------------------------
// As many bytes as the sizes say; false: too many.
static bool make_empty(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes, dt_tensor_t **out,
                       char message[CLI_MESSAGE]) {
  int64_t bytes = (int64_t)dt_dtype_size(dtype);
  bool empty = false;
  for (uint32_t d = 0; d < rank; d++) {
    if (sizes[d] < 0)
      return cli_wrong(message, "a size of %lld", (long long)sizes[d]);
    empty |= sizes[d] == 0;
  }
  for (uint32_t d = 0; d < rank && !empty; d++) {
    if (__builtin_mul_overflow(bytes, sizes[d], &bytes) || bytes > MOST_BYTES)
      return cli_wrong(message, "these sizes come to more than %lld bytes", (long long)MOST_BYTES);
  }
  dt_status_t status = dt_tensor_create_empty(dtype, rank, sizes, out);
  if (!status)
    return true;
  (void)cli_wrong(message, "%s", dt_status_message(status));
  dt_status_free(status);
  return false;
}

static bool make_filled(const cli_model_t *model, uint32_t k, const struct word_t *word,
                        const char *rest, const cli_dims_t *dims, uint64_t seed, dt_tensor_t **out,
                        char message[CLI_MESSAGE]) {
  const dt_input_decl_t *input = dt_function_input(model->function, k);
  fill_t fill = {.dtype = input->dtype, .args = "", .state = seed + k, .message = message};
  int64_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  if (word->has_args) {
    fill.args = *rest == ':' ? rest + 1 : rest;
    fill.args_len = strcspn(fill.args, ":");
    rest = fill.args + fill.args_len;
  }
  bool done;
  if (*rest == ':') {
    done = read_sizes(rest + 1, sizes, &rank, message);
  } else if (word->fill == fill_values && input->rank == 1) {
    sizes[0] = count_values(fill.args, fill.args_len);
    rank = 1;
    done = true;
  } else {
    done = declared_sizes(model, k, dims, sizes, &rank, message);
  }
  if (!done || !make_empty(input->dtype, rank, sizes, out, message))
    return false;
  fill.data = dt_tensor_data(*out);
  fill.count = dt_tensor_count(*out);
  fill.bytes = dt_tensor_bytes(*out);
  if (word->fill(&fill))
    return true;
  dt_tensor_release(*out);
  *out = NULL;
  return false;
}

// Whether the sizes of the input are those of its declaration and of --dim.
static bool needs_sizes(const cli_model_t *model, uint32_t k, const char *spec) {
  size_t len = strcspn(spec, ":");
  for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
    if (!is_named(words[w].word, spec, len))
      continue;
    const char *rest = spec + len;
    if (words[w].has_args && *rest)
      rest += 1 + strcspn(rest + 1, ":");
    bool counted = words[w].fill == fill_values && dt_function_input(model->function, k)->rank == 1;
    return *rest != ':' && !counted;
  }
  return false; // a file
}

int cli_need_sizes(const char *me, const cli_model_t *model, const char *const *specs,
                   const char *other, const cli_dims_t *dims) {
  names_t names = {{0}, 0};
  for (uint32_t k = 0; k < model->n_inputs; k++)
    if (needs_sizes(model, k, specs[k] ? specs[k] : other))
      add_missing(model, k, dims, &names);
  if (!names.len)
    return CLI_DONE;
  return cli_complain(me, CLI_FAILED,
                      "no sizes of %s: give each by --dim NAME=SIZE, or its inputs by --input",
                      names_end(&names));
}

bool cli_input_make(const cli_model_t *model, uint32_t k, const char *spec, const cli_dims_t *dims,
                    uint64_t seed, dt_tensor_t **out, char message[CLI_MESSAGE]) {
  char why[CLI_MESSAGE];
  const char *name = cli_model_input_name(model, k);
  size_t len = strcspn(spec, ":");
  bool done = false, found = false;
  *out = NULL;
  for (size_t w = 0; w < sizeof(words) / sizeof(words[0]) && !found; w++) {
    found = is_named(words[w].word, spec, len);
    if (found)
      done = make_filled(model, k, &words[w], spec + len, dims, seed, out, why);
  }
  if (!found)
    done = cli_tensor_read(spec, name, out, why);
  if (done && !agrees(model, k, dims, *out, why)) {
    dt_tensor_release(*out);
    *out = NULL;
    done = false;
  }
  return done || cli_wrong(message, "input %u, %s: %s: %s", k, name, spec, why);
}

int cli_random_inputs(const char *me, const cli_model_t *model, const char *const *specs,
                      const cli_dims_t *dims, dt_tensor_t **out) {
  static const char other[] = "random";
  char message[CLI_MESSAGE];
  int result = cli_need_sizes(me, model, specs, other, dims);
  for (uint32_t k = 0; k < model->n_inputs && result == CLI_DONE; k++)
    if (!cli_input_make(model, k, specs[k] ? specs[k] : other, dims, k + 1, &out[k], message))
      result = cli_complain(me, CLI_FAILED, "%s", message);
  return result;
}
