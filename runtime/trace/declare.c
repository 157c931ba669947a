// SPDX-License-Identifier: Apache-2.0
// Declarations: checks that they make sense, and that the arguments of a call fit them.
#include "runtime/trace/declare.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#define MOST_ALIGNMENT 4096u

typedef __int128 wide_t;

// ---- Naming -------------------------------------------------------------------------------------
static uint32_t position(const dt_trace_request_t *request, uint32_t input) {
  return request->spread ? request->spread->positions[input] : input;
}

dt_label_t dt__input_label(const dt_trace_request_t *request, uint32_t input) {
  dt_label_t out;
  const char *name = request->inputs[input].name;
  uint32_t at = position(request, input);
  if (name && name[0])
    (void)snprintf(out.text, sizeof(out.text), "argument %u \"%.100s\"", at, name);
  else
    (void)snprintf(out.text, sizeof(out.text), "argument %u", at);
  return out;
}

dt_label_t dt__dim_label(const dt_trace_request_t *request, uint32_t input, uint32_t dim) {
  dt_label_t out = dt__input_label(request, input);
  const char *name = dt__dim_decl(request, input, dim)->name;
  size_t len = strlen(out.text);
  if (name && name[0])
    (void)snprintf(out.text + len, sizeof(out.text) - len, ", dim %u \"%.24s\"", dim, name);
  else
    (void)snprintf(out.text + len, sizeof(out.text) - len, ", dim %u", dim);
  return out;
}

dt_label_t dt__part_label(const dt_trace_request_t *request, uint32_t input, const char *part,
                          uint32_t dim) {
  dt_label_t out;
  const char *name = request->inputs[input].name;
  if (name && name[0])
    (void)snprintf(out.text, sizeof(out.text), "%.100s.%s(%u)", name, part, dim);
  else
    (void)snprintf(out.text, sizeof(out.text), "argument %u.%s(%u)", position(request, input), part,
                   dim);
  return out;
}

static dt_label_t size_label(const dt_trace_request_t *request, dt_dim_at_t at) {
  return dt__part_label(request, at.input, "size", at.dim);
}

// "z.size(0) == 2*x.size(0) - 1"
static dt_label_t derived_label(const dt_trace_request_t *request, dt_dim_at_t at,
                                const dt_dim_facts_t *facts) {
  dt_label_t out;
  char scale[32] = "", offset[32] = "";
  if (facts->scale != 1)
    (void)snprintf(scale, sizeof(scale), "%lld*", (long long)facts->scale);
  if (facts->offset)
    (void)snprintf(offset, sizeof(offset), " %c %llu", facts->offset < 0 ? '-' : '+',
                   facts->offset < 0 ? 0 - (unsigned long long)facts->offset
                                     : (unsigned long long)facts->offset);
  // Two names of at most 100 characters each do not fit; the second is cut then.
  (void)snprintf(out.text, sizeof(out.text), "%.110s == %s%.60s%s", size_label(request, at).text,
                 scale, size_label(request, facts->of).text, offset);
  return out;
}

// ---- Dims ---------------------------------------------------------------------------------------
const dt_dim_decl_t *dt__dim_decl(const dt_trace_request_t *request, uint32_t input, uint32_t dim) {
  static const dt_dim_decl_t any = {0};
  return request->inputs[input].dims ? &request->inputs[input].dims[dim] : &any;
}

bool dt__dim_is_named(const dt_dim_decl_t *dim) { return dim->name && dim->name[0]; }

// The first dim named `name`.
static bool find_name(const dt_trace_request_t *request, const char *name, dt_dim_at_t *out) {
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      const dt_dim_decl_t *dim = dt__dim_decl(request, k, d);
      if (dt__dim_is_named(dim) && strcmp(dim->name, name) == 0) {
        *out = (dt_dim_at_t){k, d};
        return true;
      }
    }
  }
  return false;
}

dt_dim_at_t dt__dim_leader(const dt_trace_request_t *request, uint32_t input, uint32_t dim) {
  const dt_dim_decl_t *self = dt__dim_decl(request, input, dim);
  dt_dim_at_t at = {input, dim};
  if (dt__dim_is_named(self))
    (void)find_name(request, self->name, &at);
  return at;
}

// What one dim's declaration allows.
static dt_range_t range_of(const dt_dim_decl_t *dim) {
  dt_range_t range = {dim->min, dim->max ? dim->max : DT_SIZE_LIMIT - 1};
  if (!dim->is_static)
    return range;
  // A static size that its own bounds exclude leaves nothing.
  bool inside = dim->value >= range.lo && dim->value <= range.hi;
  return inside ? (dt_range_t){dim->value, dim->value} : (dt_range_t){1, 0};
}

static dt_range_t meet(dt_range_t a, dt_range_t b) {
  return (dt_range_t){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

// Adds what one more declaration of the name says.
static void add_facts(const dt_trace_request_t *request, const dt_dim_decl_t *dim,
                      dt_dim_facts_t *facts) {
  facts->range = meet(facts->range, range_of(dim));
  facts->is_static |= dim->is_static;
  if (!facts->mark)
    facts->mark = dim->mark;
  if (!facts->derived && dim->of && find_name(request, dim->of, &facts->of)) {
    facts->derived = true;
    facts->scale = dim->scale ? dim->scale : 1;
    facts->offset = dim->offset;
  }
}

dt_dim_facts_t dt__dim_facts(const dt_trace_request_t *request, uint32_t input, uint32_t dim) {
  const dt_dim_decl_t *self = dt__dim_decl(request, input, dim);
  dt_dim_facts_t facts = {.range = {0, DT_SIZE_LIMIT - 1}};
  if (!dt__dim_is_named(self)) {
    add_facts(request, self, &facts);
    return facts;
  }
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      const dt_dim_decl_t *other = dt__dim_decl(request, k, d);
      if (dt__dim_is_named(other) && strcmp(other->name, self->name) == 0)
        add_facts(request, other, &facts);
    }
  }
  return facts;
}

static int64_t clamp(wide_t x) {
  return x < INT64_MIN ? INT64_MIN : x > INT64_MAX ? INT64_MAX : (int64_t)x;
}

dt_range_t dt__dim_range(const dt_trace_request_t *request, dt_dim_at_t leader) {
  dt_dim_facts_t facts = dt__dim_facts(request, leader.input, leader.dim);
  if (!facts.derived)
    return facts.range;
  dt_range_t of = dt__dim_range(request, facts.of); // ends: cycles are refused
  wide_t a = (wide_t)facts.scale * of.lo + facts.offset;
  wide_t b = (wide_t)facts.scale * of.hi + facts.offset;
  return meet(facts.range, (dt_range_t){clamp(a < b ? a : b), clamp(a < b ? b : a)});
}

// ---- Declarations -------------------------------------------------------------------------------
static dt_status_t check_mark(const dt_dim_decl_t *dim, const char *who) {
  if ((unsigned)dim->mark > DT_MARK_UNBACKED)
    return DT_FAIL(DT_E_ARGUMENT, "%s: mark %d is no dt_mark_t", who, (int)dim->mark);
  if (dim->is_static && dim->mark && dim->mark != DT_MARK_STATIC)
    return DT_FAIL(DT_E_ARGUMENT, "%s: a static size, marked otherwise (mark %d)", who,
                   (int)dim->mark);
  if (dim->of && (dim->is_static || dim->mark))
    return DT_FAIL(DT_E_ARGUMENT,
                   "%s: derived of \"%.24s\"; it follows that dim, and has neither a static size "
                   "nor a mark of its own",
                   who, dim->of);
  return NULL;
}

static dt_status_t check_dim(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *dim = dt__dim_decl(request, k, d);
  dt_label_t who = dt__dim_label(request, k, d);
  if (dim->is_static && (dim->value < 0 || dim->value >= DT_SIZE_LIMIT))
    return DT_FAIL(DT_E_ARGUMENT, "%s: static size %lld; expected 0 to %lld", who.text,
                   (long long)dim->value, (long long)DT_SIZE_LIMIT - 1);
  if (dim->min < 0 || dim->min >= DT_SIZE_LIMIT || dim->max < 0 || dim->max >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_ARGUMENT, "%s: min %lld, max %lld; expected 0 to %lld", who.text,
                   (long long)dim->min, (long long)dim->max, (long long)DT_SIZE_LIMIT - 1);
  if (dim->max && dim->max < dim->min)
    return DT_FAIL(DT_E_ARGUMENT, "%s: max %lld is less than min %lld", who.text,
                   (long long)dim->max, (long long)dim->min);
  if (dim->multiple_of < 0 || dim->multiple_of >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_ARGUMENT, "%s: a multiple of %lld; expected 0 to %lld", who.text,
                   (long long)dim->multiple_of, (long long)DT_SIZE_LIMIT - 1);
  if (dim->is_static && dim->multiple_of && dim->value % dim->multiple_of)
    return DT_FAIL(DT_E_ARGUMENT, "%s: static size %lld is no multiple of %lld", who.text,
                   (long long)dim->value, (long long)dim->multiple_of);
  if (!dim->of && (dim->scale || dim->offset))
    return DT_FAIL(DT_E_ARGUMENT, "%s: scale %lld, offset %lld, but derived of no dim (of: NULL)",
                   who.text, (long long)dim->scale, (long long)dim->offset);
  if (dim->scale <= -DT_SIZE_LIMIT || dim->scale >= DT_SIZE_LIMIT ||
      dim->offset <= -DT_SIZE_LIMIT || dim->offset >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_ARGUMENT, "%s: scale %lld, offset %lld; expected less than %lld", who.text,
                   (long long)dim->scale, (long long)dim->offset, (long long)DT_SIZE_LIMIT);
  return check_mark(dim, who.text);
}

// Sizes of one name are compared across arguments, and the program never sees the size of integers.
static dt_status_t check_integers(const dt_trace_request_t *request, uint32_t k) {
  const dt_input_decl_t *input = &request->inputs[k];
  const dt_dim_decl_t *dim = dt__dim_decl(request, k, 0);
  dt_label_t who = dt__input_label(request, k);
  if (input->dtype != DT_I64 && input->dtype != DT_I32 && input->dtype != DT_BOOL)
    return DT_FAIL(DT_E_DTYPE, "%s: declared dtype %s; expected i64, i32 or bool for integers",
                   who.text, dt_dtype_name(input->dtype));
  if (input->rank > 1 || input->alignment)
    return DT_FAIL(DT_E_ARGUMENT,
                   "%s: rank %u, alignment %u; expected rank 0 or 1 and no alignment for integers",
                   who.text, input->rank, input->alignment);
  if (input->rank && (!dim->is_static || dim->value < 0 || dim->value > DT_MOST_INTEGERS))
    return DT_FAIL(DT_E_ARGUMENT,
                   "%s: expected a static dim (is_static, value) of 0 to %d for integers", who.text,
                   DT_MOST_INTEGERS);
  if (input->rank && dt__dim_is_named(dim))
    return DT_FAIL(DT_E_ARGUMENT, "%s: a named dim; expected one without a name for integers",
                   dt__dim_label(request, k, 0).text);
  return NULL;
}

static dt_status_t check_kind(const dt_trace_request_t *request, uint32_t k) {
  const dt_input_decl_t *input = &request->inputs[k];
  dt_label_t who = dt__input_label(request, k);
  if ((unsigned)input->kind > DT_INPUT_DONATED)
    return DT_FAIL(DT_E_ARGUMENT, "%s: kind %d is no dt_input_kind_t", who.text, (int)input->kind);
  if (input->alignment > MOST_ALIGNMENT || (input->alignment & (input->alignment - 1)))
    return DT_FAIL(DT_E_ARGUMENT, "%s: alignment %u; expected a power of two up to %u", who.text,
                   input->alignment, MOST_ALIGNMENT);
  if (dt__is_tensor_kind(input->kind))
    return NULL;
  if (input->kind == DT_INPUT_INTEGERS)
    return check_integers(request, k);
  bool boolean = input->kind == DT_INPUT_BOOLEAN;
  if (boolean ? input->dtype != DT_BOOL
              : !dt__dtype_is_int(input->dtype) || dt__dtype_is_low(input->dtype) ||
                    input->dtype == DT_U64)
    return DT_FAIL(
        DT_E_DTYPE, "%s: declared dtype %s; expected %s", who.text, dt_dtype_name(input->dtype),
        boolean ? "bool for a boolean" : "an integer type for an integer, other than u64");
  if (input->rank || input->alignment)
    return DT_FAIL(DT_E_ARGUMENT, "%s: rank %u, alignment %u; expected 0 of both for %s", who.text,
                   input->rank, input->alignment, boolean ? "a boolean" : "an integer");
  return NULL;
}

static dt_status_t check_input(const dt_trace_request_t *request, uint32_t k) {
  const dt_input_decl_t *input = &request->inputs[k];
  if (!dt__dtype_is_valid(input->dtype))
    return DT_FAIL(DT_E_DTYPE, "%s: declared dtype %d is none", dt__input_label(request, k).text,
                   (int)input->dtype);
  if (input->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "%s: declared rank %u; the most is %d",
                   dt__input_label(request, k).text, input->rank, DT_MAX_RANK);
  DT_TRY(check_kind(request, k));
  for (uint32_t d = 0; d < input->rank; d++)
    DT_TRY(check_dim(request, k, d));
  return NULL;
}

// That the dims a dim derives from are there, in the end not derived, and told one way.
static dt_status_t check_derived(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *dim = dt__dim_decl(request, k, d);
  dt_label_t who = dt__dim_label(request, k, d);
  dt_dim_at_t at = {k, d}, unused;
  if (dim->of && !find_name(request, dim->of, &unused))
    return DT_FAIL(DT_E_ARGUMENT, "%s: derived of \"%.60s\", which names no dim", who.text,
                   dim->of);
  dt_dim_facts_t facts = dt__dim_facts(request, k, d);
  if (facts.derived && (facts.mark || facts.is_static))
    return DT_FAIL(DT_E_ARGUMENT, "%s: dims of this name are derived, and static or marked, too",
                   who.text);
  if (dim->of && (strcmp(dim->of, dt__dim_decl(request, facts.of.input, facts.of.dim)->name) != 0 ||
                  facts.scale != (dim->scale ? dim->scale : 1) || facts.offset != dim->offset))
    return DT_FAIL(DT_E_ARGUMENT, "%s: dims of this name are derived in two ways", who.text);
  for (uint32_t steps = 0; facts.derived; steps++) {
    if (steps > request->n_inputs * DT_MAX_RANK)
      return DT_FAIL(DT_E_ARGUMENT, "%s: derived of itself", who.text);
    at = facts.of;
    facts = dt__dim_facts(request, at.input, at.dim);
  }
  return NULL;
}

static dt_status_t check_joint(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  dt_dim_at_t leader = dt__dim_leader(request, k, d);
  dt_dim_facts_t facts = dt__dim_facts(request, k, d);
  dt_mark_t mark = dt__dim_decl(request, k, d)->mark;
  if (mark && mark != facts.mark)
    return DT_FAIL(DT_E_ARGUMENT, "%s: dims of this name have different marks",
                   dt__dim_label(request, k, d).text);
  dt_range_t range = dt__dim_range(request, leader);
  if (range.lo > range.hi)
    return DT_FAIL(DT_E_ARGUMENT, "%s: no size satisfies all declarations of this name",
                   dt__dim_label(request, k, d).text);
  return NULL;
}

static dt_status_t check_declared(const dt_trace_request_t *request) {
  if (!request->program)
    return DT_FAIL(DT_E_ARGUMENT, "program: NULL; expected a function to trace");
  if (request->n_inputs && !request->inputs)
    return DT_FAIL(DT_E_ARGUMENT, "inputs: NULL; expected %u declarations", request->n_inputs);
  for (uint32_t k = 0; k < request->n_inputs; k++)
    DT_TRY(check_input(request, k));
  // Declarations of one name are joined only once each is known to make sense, and ranges only
  // once no dim derives from itself.
  static dt_status_t (*const joint[])(const dt_trace_request_t *, uint32_t,
                                      uint32_t) = {check_derived, check_joint};
  for (uint32_t step = 0; step < 2; step++) {
    for (uint32_t k = 0; k < request->n_inputs; k++) {
      for (uint32_t d = 0; request->inputs[k].dims && d < request->inputs[k].rank; d++)
        DT_TRY(joint[step](request, k, d));
    }
  }
  return NULL;
}

// The function's name in front of a failure.
static dt_status_t in_function(const dt_trace_request_t *request, dt_status_t status) {
  if (!request->name || !request->name[0])
    return status;
  return dt__status_annotate(status, "%s", request->name);
}

dt_status_t dt__trace_check_declarations(const dt_trace_request_t *request) {
  return in_function(request, check_declared(request));
}

// ---- Arguments ----------------------------------------------------------------------------------
static dt_status_t check_range(const dt_trace_request_t *request, uint32_t k, uint32_t d,
                               dt_range_t range, int64_t size) {
  if (size >= range.lo && size <= range.hi)
    return NULL;
  bool low = size < range.lo;
  int64_t bound = low ? range.lo : range.hi;
  return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected at %s %lld (%s %s %lld)",
                 dt__dim_label(request, k, d).text, (long long)size, low ? "least" : "most",
                 (long long)bound, size_label(request, (dt_dim_at_t){k, d}).text,
                 low ? ">=" : "<=", (long long)bound);
}

// A size against the dims it derives from.
static dt_status_t check_derived_size(const dt_trace_request_t *request, dt_dim_at_t leader,
                                      int64_t size) {
  dt_dim_facts_t facts = dt__dim_facts(request, leader.input, leader.dim);
  if (!facts.derived)
    return NULL;
  int64_t of = request->example[facts.of.input]->sizes[facts.of.dim];
  wide_t expected = (wide_t)facts.scale * of + facts.offset;
  if (expected == size)
    return NULL;
  return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected %lld (%s)",
                 dt__dim_label(request, leader.input, leader.dim).text, (long long)size,
                 (long long)clamp(expected), derived_label(request, leader, &facts).text);
}

static dt_status_t check_size(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *dim = dt__dim_decl(request, k, d);
  int64_t size = request->example[k]->sizes[d];
  if (dim->is_static && size != dim->value)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected %lld", dt__dim_label(request, k, d).text,
                   (long long)size, (long long)dim->value);
  DT_TRY(check_range(request, k, d, range_of(dim), size));
  if (dim->multiple_of && size % dim->multiple_of)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected a multiple of %lld (%s %% %lld == 0)",
                   dt__dim_label(request, k, d).text, (long long)size, (long long)dim->multiple_of,
                   size_label(request, (dt_dim_at_t){k, d}).text, (long long)dim->multiple_of);
  dt_dim_at_t leader = dt__dim_leader(request, k, d);
  int64_t expected = request->example[leader.input]->sizes[leader.dim];
  if (size != expected)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected %lld, the size of %s (%.100s == %.100s)",
                   dt__dim_label(request, k, d).text, (long long)size, (long long)expected,
                   dt__dim_label(request, leader.input, leader.dim).text,
                   size_label(request, (dt_dim_at_t){k, d}).text, size_label(request, leader).text);
  if (leader.input != k || leader.dim != d)
    return NULL;
  DT_TRY(check_range(request, k, d, dt__dim_range(request, leader), size));
  return check_derived_size(request, leader, size);
}

static dt_status_t check_header(const dt_trace_request_t *request, uint32_t k) {
  const dt_tensor_t *tensor = request->example[k];
  const dt_input_decl_t *input = &request->inputs[k];
  dt_label_t who = dt__input_label(request, k);
  if (!tensor)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL; expected a tensor", who.text);
  dt_device_t place = dt__is_tensor_kind(input->kind) ? request->place : DT_CPU;
  char here[32], there[32];
  if (tensor->device != place && place != request->place)
    return DT_FAIL(DT_E_ARGUMENT,
                   "%s: on %s; a number that calls bring is a host tensor in every session; copy "
                   "it there by dt_tensor_copy",
                   who.text, dt__place_name(tensor->device, there, sizeof(there)));
  if (tensor->device != place)
    return DT_FAIL(
        DT_E_ARGUMENT,
        "%s: on %s, and the session runs on %s; copy it there by dt_tensor_copy, or call "
        "in a session on its device",
        who.text, dt__place_name(tensor->device, there, sizeof(there)),
        dt__place_name(place, here, sizeof(here)));
  if (tensor->dtype != input->dtype)
    return DT_FAIL(DT_E_DTYPE, "%s: dtype %s; expected %s", who.text, dt_dtype_name(tensor->dtype),
                   dt_dtype_name(input->dtype));
  if (tensor->rank != input->rank)
    return DT_FAIL(DT_E_SHAPE, "%s: rank %u; expected %u", who.text, tensor->rank, input->rank);
  if (input->alignment && (uintptr_t)tensor->data % input->alignment) {
    uintptr_t data = (uintptr_t)tensor->data;
    return DT_FAIL(DT_E_ARGUMENT, "%s: the data is aligned to %llu bytes; expected %u", who.text,
                   (unsigned long long)(data & (0 - data)), input->alignment);
  }
  return NULL;
}

static dt_status_t check_arguments(const dt_trace_request_t *request) {
  // Headers of all first: sizes of one name are compared across arguments.
  for (uint32_t k = 0; k < request->n_inputs; k++)
    DT_TRY(check_header(request, k));
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; request->inputs[k].dims && d < request->inputs[k].rank; d++)
      DT_TRY(check_size(request, k, d));
  }
  return NULL;
}

dt_status_t dt__trace_check_input(const dt_trace_request_t *request, uint32_t input) {
  DT_TRY(in_function(request, check_header(request, input)));
  for (uint32_t d = 0; request->inputs[input].dims && d < request->inputs[input].rank; d++)
    DT_TRY(in_function(request, check_size(request, input, d)));
  return NULL;
}

dt_status_t dt__trace_check_inputs(const dt_trace_request_t *request) {
  if (!request->example || request->n_inputs == 0)
    return NULL;
  return in_function(request, check_arguments(request));
}
