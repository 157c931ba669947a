// SPDX-License-Identifier: Apache-2.0
// The text of a call, "x=3x4,y=4x5@5x1,n=7", as tensors.
#include "cli/cli.h"
#include "cli/elements.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Arguments are zeros that the calls read: more than this is a slip of the keyboard.
#define MOST_BYTES ((int64_t)4 << 30)

// What stands behind one name.
typedef struct spec_t {
  uint32_t rank, n_strides;
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
} spec_t;

typedef struct reader_t {
  const char *at;
  char *message;
} reader_t;

DT_PRINTF(2, 3) static bool wrong(const reader_t *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(r->message, CLI_MESSAGE, fmt, args);
  va_end(args);
  return false;
}

static bool read_number(reader_t *r, int64_t *out) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(r->at, &end, 10);
  bool digits = end > r->at && (r->at[0] == '-' || (r->at[0] >= '0' && r->at[0] <= '9'));
  if (errno || !digits)
    return *r->at ? wrong(r, "expected a number at '%.24s'", r->at)
                  : wrong(r, "expected a number at the end");
  *out = value;
  r->at = end;
  return true;
}

// Numbers between x; none where the item ends at once.
static bool read_numbers(reader_t *r, int64_t *out, uint32_t *out_n) {
  *out_n = 0;
  if (*r->at == ',' || *r->at == '@' || *r->at == '\0')
    return true;
  for (;;) {
    if (*out_n == DT_MAX_RANK)
      return wrong(r, "more than %d sizes", DT_MAX_RANK);
    if (!read_number(r, &out[*out_n]))
      return false;
    (*out_n)++;
    if (*r->at != 'x')
      return true;
    r->at++;
  }
}

static bool read_spec(reader_t *r, spec_t *out) {
  *out = (spec_t){0};
  if (!read_numbers(r, out->sizes, &out->rank))
    return false;
  if (*r->at == '@') {
    r->at++;
    if (!read_numbers(r, out->strides, &out->n_strides))
      return false;
    if (out->n_strides != out->rank)
      return wrong(r, "%u strides for %u sizes", out->n_strides, out->rank);
  }
  if (*r->at != ',' && *r->at != '\0')
    return wrong(r, "expected a comma or the end at '%.24s'", r->at);
  return true;
}

// The input called so: by name, or by its number.
static bool find_input(const reader_t *r, const char *name, size_t len,
                       const dt_function_t *function, uint32_t *out) {
  for (*out = 0; *out < dt_function_n_inputs(function); (*out)++) {
    char number[16];
    const char *own = dt_function_input(function, *out)->name;
    (void)snprintf(number, sizeof(number), "%u", *out);
    if ((own && strlen(own) == len && memcmp(own, name, len) == 0) ||
        (strlen(number) == len && memcmp(number, name, len) == 0))
      return true;
  }
  return wrong(r, "no input is called '%.*s'", (int)(len < 64 ? len : 64), name);
}

// ---- Tensors --------------------------------------------------------------------------------------
static void free_memory(void *memory) { free(memory); }

static bool is_integer(dt_dtype_t dtype) { return dtype >= DT_BOOL && dtype <= DT_U64; }

// Elements between the first and the last address, and where the first index lies.
static bool measure(const spec_t *spec, const int64_t *strides, int64_t *span, int64_t *first) {
  int64_t low = 0, high = 0;
  bool empty = false;
  for (uint32_t d = 0; d < spec->rank; d++) {
    int64_t reach = 0;
    empty |= spec->sizes[d] == 0;
    if (spec->sizes[d] < 0 ||
        (spec->sizes[d] > 0 && __builtin_mul_overflow(spec->sizes[d] - 1, strides[d], &reach)))
      return false;
    if (spec->sizes[d] == 0)
      continue;
    int64_t *side = reach < 0 ? &low : &high;
    if (__builtin_add_overflow(*side, reach, side))
      return false;
  }
  *first = empty ? 0 : -low;
  return !__builtin_sub_overflow(high, low, span) && !__builtin_add_overflow(*span, 1, span) &&
         *span < DT_SIZE_LIMIT;
}

static bool store_integer(const reader_t *r, dt_dtype_t dtype, int64_t value, void *memory) {
  return cli_element_set_integer(dtype, memory, 0, value) ||
         wrong(r, "%lld does not fit %s", (long long)value, dt_dtype_name(dtype));
}

static bool make(const reader_t *r, const dt_input_decl_t *input, spec_t *spec, dt_tensor_t **out) {
  // A number for a scalar of integers is its value, not a size.
  int64_t value = spec->sizes[0], span = 1, first = 0, step = 1;
  bool is_value = input->rank == 0 && spec->rank == 1 && is_integer(input->dtype);
  if (is_value)
    spec->rank = 0;
  for (uint32_t d = spec->rank; d-- > 0 && !spec->n_strides;) {
    spec->strides[d] = step;
    if (__builtin_mul_overflow(step, spec->sizes[d] > 0 ? spec->sizes[d] : 1, &step))
      return wrong(r, "the sizes are too large");
  }
  if (!measure(spec, spec->strides, &span, &first))
    return wrong(r, "sizes or strides are out of range");
  size_t bytes = dt_dtype_size(input->dtype);
  if (span > MOST_BYTES / (int64_t)bytes)
    return wrong(r, "more than %lld bytes", (long long)MOST_BYTES);
  void *memory = NULL;
  // Rounded up to what every declared alignment divides.
  size_t room = (((size_t)span * bytes) + 4095) / 4096 * 4096;
  if (posix_memalign(&memory, 4096, room) != 0)
    return wrong(r, "no memory for %zu bytes", room);
  memset(memory, 0, (size_t)span * bytes);
  if (is_value && !store_integer(r, input->dtype, value, memory)) {
    free(memory);
    return false;
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = input->dtype,
                           .rank = spec->rank,
                           .sizes = spec->sizes,
                           .strides = spec->n_strides ? spec->strides : NULL,
                           .data = (char *)memory + (size_t)first * bytes,
                           .release = free_memory,
                           .user = memory};
  dt_status_t status = dt_tensor_create(&desc, out);
  if (!status)
    return true;
  (void)wrong(r, "%s", dt_status_message(status));
  dt_status_free(status);
  free(memory);
  return false;
}

// ---- The whole ------------------------------------------------------------------------------------
// One item, NAME=SIZES[@STRIDES].
static bool read_item(reader_t *r, const dt_function_t *function, dt_tensor_t **out) {
  size_t len = strcspn(r->at, "=,");
  const char *name = r->at;
  uint32_t k = 0;
  spec_t spec;
  if (name[len] != '=')
    return wrong(r, "expected NAME=SIZES at '%.24s'", name);
  if (!find_input(r, name, len, function, &k))
    return false;
  if (out[k])
    return wrong(r, "'%.*s' stands twice", (int)(len < 64 ? len : 64), name);
  r->at = name + len + 1;
  return read_spec(r, &spec) && make(r, dt_function_input(function, k), &spec, &out[k]);
}

// An input that the text leaves out must be wholly static.
static bool is_static(const dt_function_t *function, uint32_t k, spec_t *out) {
  const dt_input_decl_t *input = dt_function_input(function, k);
  bool all = input->kind == DT_INPUT_TENSOR || input->kind == DT_INPUT_DONATED;
  *out = (spec_t){.rank = input->rank};
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = dt_function_input_dim(function, k, d);
    all &= dim && dim->is_static;
    out->sizes[d] = dim ? dim->value : 0;
  }
  return all;
}

// False: it is told of all inputs that have no sizes at once, as long as there is room.
static bool find_missing(const reader_t *r, const dt_function_t *function,
                         dt_tensor_t *const *given) {
  char text[CLI_MESSAGE / 2] = "";
  size_t len = 0;
  spec_t spec;
  for (uint32_t k = 0; k < dt_function_n_inputs(function) && len + 96 < sizeof(text); k++) {
    const char *name = dt_function_input(function, k)->name;
    if (!given[k] && !is_static(function, k, &spec))
      len += (size_t)snprintf(text + len, sizeof(text) - len, "%sinput %u%s%.48s", len ? "; " : "",
                              k, name ? ", " : "", name ? name : "");
  }
  return len == 0 || wrong(r, "no sizes for %s", text);
}

static bool make_rest(const reader_t *r, const dt_function_t *function, dt_tensor_t **out) {
  bool good = find_missing(r, function, out);
  spec_t spec;
  for (uint32_t k = 0; good && k < dt_function_n_inputs(function); k++)
    if (!out[k] && is_static(function, k, &spec))
      good = make(r, dt_function_input(function, k), &spec, &out[k]);
  return good;
}

bool cli_make_args(const char *text, const dt_function_t *function, dt_tensor_t **out,
                   char message[CLI_MESSAGE]) {
  uint32_t n = dt_function_n_inputs(function);
  reader_t r = {text, message};
  bool good = true;
  message[0] = '\0';
  for (uint32_t k = 0; k < n; k++)
    out[k] = NULL;
  while (good && *r.at) {
    good = read_item(&r, function, out);
    if (good && *r.at == ',' && *++r.at == '\0')
      good = wrong(&r, "nothing stands behind the last comma");
  }
  good = good && make_rest(&r, function, out);
  for (uint32_t k = 0; !good && k < n; k++) {
    dt_tensor_release(out[k]);
    out[k] = NULL;
  }
  return good;
}
