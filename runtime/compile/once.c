// SPDX-License-Identifier: Apache-2.0
// See once.h. A digest is taken of the kernels that write the buffer: their text, which names no
// buffer, and what stands behind each of its parameters: a constant, by the place at which it comes
// up first; another buffer, by its digest; or one that the kernel writes itself.
#include "runtime/compile/once.h"

#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <string.h>

#define MOST_CONSTANTS 64u // that a buffer which may be shared is computed from

// ---- Who reads and writes what --------------------------------------------------------------------

typedef DT_VEC(uint32_t) numbers_t;

typedef struct describe_t {
  dt_program_t *program;
  dt_arena_t arena; // the rest, but for *out
  dt_once_plan_t *out;
  bool strict_fp;
  uint32_t *number;  // by buffer, [id - 1]: of a ONCE buffer, 1 + its number
  uint32_t *last;    // by ONCE buffer: 1 + the last kernel that writes it
  uint32_t *writers; // and how many do
  uint32_t *mark;    // by buffer, [id - 1]: the last walk that came to it
  uint32_t walks;
  dt_kernel_params_t *params; // by ONCE kernel
  dt_text_t *texts;
  numbers_t *constants; // by ONCE buffer
  dt_sha256_t *sums;    // the same
} describe_t;

typedef void touch_fn_t(describe_t *d, const dt_buffer_t *buffer, dt_buffer_id_t id, void *user);

static void each_read(describe_t *d, const dt_kernel_t *kernel, touch_fn_t *fn, void *user) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t id = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (id.id)
        fn(d, dt__program_buffer(d->program, id), id, user);
    }
}

static void each_write(describe_t *d, const dt_kernel_t *kernel, touch_fn_t *fn, void *user) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
      fn(d, dt__program_buffer(d->program, id), id, user);
    }
}

// ---- Uses in calls --------------------------------------------------------------------------------

static void note_use(describe_t *d, const dt_buffer_t *buffer, dt_buffer_id_t id, void *user) {
  const uint32_t *use = user;
  if (buffer->kind == DT_BUFFER_CONSTANT)
    d->out->uses[buffer->index] |= *use;
  if (buffer->kind == DT_BUFFER_ONCE)
    d->out->buffers[d->number[id.id - 1] - 1].kept = true;
}

static void use_buffer(describe_t *d, dt_buffer_id_t id) {
  uint32_t use = DT_CONSTANT_IN_CALLS;
  if (id.id)
    note_use(d, dt__program_buffer(d->program, id), id, &use);
}

static void find_uses(describe_t *d) {
  const dt_program_t *program = d->program;
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    uint32_t use = DT_CONSTANT_IN_CALLS | (kernel->external ? DT_CONSTANT_BY_OPS : 0);
    each_read(d, kernel, note_use, &use);
    use_buffer(d, kernel->gate);
  }
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    use_buffer(d, program->readbacks.items[k].buffer);
  for (uint32_t k = 0; k < program->regions.len; k++)
    use_buffer(d, program->regions.items[k].predicate);
}

// ---- Kernels --------------------------------------------------------------------------------------

typedef struct gather_t {
  dt_buffer_kind_t kind;
  numbers_t *to;
  uint32_t n;
  bool failed;
} gather_t;

// Each buffer of a kind once.
static void gather(describe_t *d, const dt_buffer_t *buffer, dt_buffer_id_t id, void *user) {
  gather_t *g = user;
  if (buffer->kind != g->kind || d->mark[id.id - 1] == d->walks)
    return;
  d->mark[id.id - 1] = d->walks;
  uint32_t number = g->kind == DT_BUFFER_ONCE ? d->number[id.id - 1] - 1 : buffer->index;
  g->failed |= !DT_VEC_PUSH(&d->arena, g->to, number);
  g->n++;
}

static dt_status_t gather_all(describe_t *d, uint32_t kernel, bool writes, dt_buffer_kind_t kind,
                              numbers_t *to, uint32_t *out_n) {
  gather_t g = {.kind = kind, .to = to};
  const dt_kernel_t *of = &d->program->kernels.items[kernel];
  d->walks++;
  if (writes)
    each_write(d, of, gather, &g);
  else
    each_read(d, of, gather, &g);
  *out_n = g.n;
  return g.failed ? DT_NO_MEMORY() : NULL;
}

static dt_status_t list_kernels(describe_t *d, numbers_t *numbers) {
  dt_once_plan_t *out = d->out;
  for (uint32_t k = 0; k < out->n_kernels; k++) {
    dt_once_kernel_t *own = &out->kernels[k];
    own->first = numbers->len;
    DT_TRY(gather_all(d, k, true, DT_BUFFER_ONCE, numbers, &own->n_writes));
    for (uint32_t i = 0; i < own->n_writes; i++) {
      d->last[numbers->items[own->first + i]] = k + 1;
      d->writers[numbers->items[own->first + i]]++;
    }
    DT_TRY(gather_all(d, k, false, DT_BUFFER_ONCE, numbers, &own->n_reads));
    DT_TRY(gather_all(d, k, false, DT_BUFFER_CONSTANT, numbers, &own->n_constants));
  }
  return NULL;
}

// ---- Digests --------------------------------------------------------------------------------------

static void add_number(dt_sha256_t *sum, uint64_t number) {
  dt__sha256_add(sum, &number, sizeof(number));
}

static bool writes(const describe_t *d, uint32_t kernel, uint32_t buffer,
                   const numbers_t *numbers) {
  const dt_once_kernel_t *own = &d->out->kernels[kernel];
  for (uint32_t i = 0; i < own->n_writes; i++)
    if (numbers->items[own->first + i] == buffer)
      return true;
  return false;
}

// The place of constant `index` among those of `buffer`, whose it becomes. What is computed from
// very many is not looked for.
static dt_status_t place_of(describe_t *d, uint32_t buffer, uint32_t index, dt_sha256_t *sum) {
  numbers_t *own = &d->constants[buffer];
  uint32_t at = 0;
  while (at < own->len && own->items[at] != index)
    at++;
  if (at == MOST_CONSTANTS)
    d->out->buffers[buffer].shared = false;
  else if (at == own->len && !DT_VEC_PUSH(&d->arena, own, index))
    return DT_NO_MEMORY();
  add_number(sum, at);
  return NULL;
}

static dt_status_t add_parameter(describe_t *d, uint32_t buffer, uint32_t kernel, dt_buffer_id_t id,
                                 const numbers_t *numbers, dt_sha256_t *sum) {
  const dt_buffer_t *of = dt__program_buffer(d->program, id);
  dt_once_plan_t *out = d->out;
  add_number(sum, (uint64_t)of->kind);
  if (of->kind == DT_BUFFER_CONSTANT)
    return place_of(d, buffer, of->index, sum);
  uint32_t other = of->kind == DT_BUFFER_ONCE ? d->number[id.id - 1] - 1 : UINT32_MAX;
  bool own = other != UINT32_MAX && d->writers[other] == 1 && writes(d, kernel, other, numbers);
  if (other == buffer || own) {
    add_number(sum, other == buffer);
    return NULL;
  }
  if (other == UINT32_MAX || !out->buffers[other].shared || d->last[other] > kernel) {
    out->buffers[buffer].shared = false;
    return NULL;
  }
  dt__sha256_add(sum, out->buffers[other].digest, DT_SHA256_BYTES);
  for (uint32_t i = 0; i < d->constants[other].len; i++)
    DT_TRY(place_of(d, buffer, d->constants[other].items[i], sum));
  return NULL;
}

// Numbers that one code serves several kernels by are this kernel's. Others are of calls.
static void add_symbols(describe_t *d, uint32_t buffer, const dt_kernel_params_t *params) {
  for (uint32_t i = 0; i < params->n_symbols; i++) {
    dt_symbol_info_t info = dt__symbol_info(d->program->env, params->symbols[i]);
    if (info.kind == DT_SYMBOL_PARAMETER)
      add_number(&d->sums[buffer], (uint64_t)info.hint);
    else
      d->out->buffers[buffer].shared = false;
  }
}

// What kernel k, which writes the buffer, says of it.
static dt_status_t add_kernel(describe_t *d, uint32_t buffer, uint32_t k,
                              const numbers_t *numbers) {
  dt_once_buffer_t *own = &d->out->buffers[buffer];
  const dt_kernel_params_t *params = &d->params[k];
  dt_sha256_t *sum = &d->sums[buffer];
  dt__sha256_add(sum, dt__text_str(&d->texts[k]), d->texts[k].len + 1);
  add_number(sum, params->n_buffers);
  add_symbols(d, buffer, params);
  own->shared = own->shared && params->n_readbacks == 0;
  for (uint32_t i = 0; i < params->n_buffers; i++)
    DT_TRY(add_parameter(d, buffer, k, params->buffers[i], numbers, sum));
  if (d->last[buffer] == k + 1)
    dt__sha256_end(sum, own->digest);
  return NULL;
}

static void begin_sums(describe_t *d) {
  for (uint32_t b = 0; b < d->out->n_buffers; b++) {
    d->out->buffers[b].shared = true;
    dt__sha256_init(&d->sums[b]);
    add_number(&d->sums[b], (uint64_t)d->out->buffers[b].bytes);
    add_number(&d->sums[b], d->strict_fp);
  }
}

// A buffer is read behind the last kernel that writes it, so in the order of kernels each is known
// before others are computed from it.
static dt_status_t digest_all(describe_t *d, numbers_t *numbers) {
  dt_once_plan_t *out = d->out;
  begin_sums(d);
  for (uint32_t k = 0; k < out->n_kernels; k++)
    for (uint32_t i = 0; i < out->kernels[k].n_writes; i++)
      DT_TRY(add_kernel(d, numbers->items[out->kernels[k].first + i], k, numbers));
  for (uint32_t b = 0; b < out->n_buffers; b++) {
    out->buffers[b].first = numbers->len;
    out->buffers[b].n_constants = d->constants[b].len;
    for (uint32_t i = 0; i < d->constants[b].len; i++)
      if (!DT_VEC_PUSH(&d->arena, numbers, d->constants[b].items[i]))
        return DT_NO_MEMORY();
  }
  return NULL;
}

// ---- All ------------------------------------------------------------------------------------------

static dt_status_t number_buffers(describe_t *d) {
  dt_program_t *program = d->program;
  dt_once_plan_t *out = d->out;
  dt_sym_t end = program->once_bytes;
  for (uint32_t b = program->buffers.len; b-- > 0;) {
    if (!d->number[b])
      continue;
    dt_once_buffer_t *own = &out->buffers[d->number[b] - 1];
    dt_sym_t at = program->offsets.items[b], bytes = dt__sym_sub(program->env, end, at);
    if (!dt__sym_is_const(program->env, at, &own->offset) ||
        !dt__sym_is_const(program->env, bytes, &own->bytes))
      return DT_FAIL(DT_E_INTERNAL, "the bytes of what is computed once depend on a size");
    end = at;
  }
  return NULL;
}

static dt_status_t make_room(describe_t *d) {
  const dt_program_t *program = d->program;
  dt_once_plan_t *out = d->out;
  uint32_t n = program->buffers.len;
  d->number = DT_ARENA_ARRAY(&d->arena, uint32_t, n + 1);
  d->mark = DT_ARENA_ARRAY(&d->arena, uint32_t, n + 1);
  if (!d->number || !d->mark)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < n; b++)
    if (program->buffers.items[b].kind == DT_BUFFER_ONCE)
      d->number[b] = ++out->n_buffers;
  out->n_kernels = program->n_once;
  out->n_constants = program->graph->constants.len;
  out->buffers = dt__calloc(out->n_buffers, sizeof(*out->buffers));
  out->kernels = dt__calloc(out->n_kernels, sizeof(*out->kernels));
  out->uses = dt__calloc(out->n_constants, sizeof(*out->uses));
  d->last = DT_ARENA_ARRAY(&d->arena, uint32_t, out->n_buffers + 1);
  d->writers = DT_ARENA_ARRAY(&d->arena, uint32_t, out->n_buffers + 1);
  d->constants = DT_ARENA_ARRAY(&d->arena, numbers_t, out->n_buffers + 1);
  d->sums = DT_ARENA_ARRAY(&d->arena, dt_sha256_t, out->n_buffers + 1);
  d->params = DT_ARENA_ARRAY(&d->arena, dt_kernel_params_t, out->n_kernels + 1);
  d->texts = DT_ARENA_ARRAY(&d->arena, dt_text_t, out->n_kernels + 1);
  if (!out->buffers || !out->kernels || !out->uses || !d->last || !d->writers || !d->constants ||
      !d->sums || !d->params || !d->texts)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < out->n_kernels; k++)
    dt__text_init(&d->texts[k]);
  return NULL;
}

static dt_status_t describe(describe_t *d) {
  dt_once_plan_t *out = d->out;
  numbers_t numbers = {0};
  DT_TRY(make_room(d));
  DT_TRY(number_buffers(d));
  find_uses(d);
  for (uint32_t k = 0; k < out->n_kernels; k++)
    DT_TRY(
        dt__kernel_print(d->program, &d->program->kernels.items[k], &d->params[k], &d->texts[k]));
  DT_TRY(list_kernels(d, &numbers));
  DT_TRY(digest_all(d, &numbers));
  out->numbers = dt__calloc(numbers.len, sizeof(*out->numbers));
  if (!out->numbers)
    return DT_NO_MEMORY();
  if (numbers.len)
    memcpy(out->numbers, numbers.items, numbers.len * sizeof(*out->numbers));
  out->n_numbers = numbers.len;
  return dt__symenv_status(d->program->env);
}

dt_status_t dt__once_describe(dt_program_t *program, bool strict_fp, dt_once_plan_t *out) {
  describe_t d = {.program = program, .out = out, .strict_fp = strict_fp};
  dt__arena_init_like(&d.arena, program->arena);
  dt_status_t status = describe(&d);
  for (uint32_t k = 0; d.texts && k < out->n_kernels; k++)
    dt__text_fini(&d.texts[k]); // where they were not begun, they are zero
  dt__arena_fini(&d.arena);
  return status;
}

// ---- Plans that were read -------------------------------------------------------------------------

static bool all_below(const dt_once_plan_t *plan, uint32_t first, uint32_t n, uint32_t limit) {
  if (first > plan->n_numbers || n > plan->n_numbers - first)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (plan->numbers[first + i] >= limit)
      return false;
  return true;
}

bool dt__once_fits(const dt_once_plan_t *plan, uint32_t n_constants, int64_t once_bytes) {
  int64_t end = 0;
  if (plan->n_constants != n_constants)
    return false;
  for (uint32_t b = 0; b < plan->n_buffers; b++) {
    const dt_once_buffer_t *own = &plan->buffers[b];
    if (own->offset != end || own->bytes < 0 || own->bytes > once_bytes - end ||
        !all_below(plan, own->first, own->n_constants, n_constants))
      return false;
    end += own->bytes;
  }
  for (uint32_t k = 0; k < plan->n_kernels; k++) {
    const dt_once_kernel_t *own = &plan->kernels[k];
    if (own->n_writes > plan->n_numbers || own->n_reads > plan->n_numbers ||
        !all_below(plan, own->first, own->n_writes, plan->n_buffers) ||
        !all_below(plan, own->first + own->n_writes, own->n_reads, plan->n_buffers) ||
        !all_below(plan, own->first + own->n_writes + own->n_reads, own->n_constants, n_constants))
      return false;
  }
  return end == once_bytes;
}

void dt__once_fini(dt_once_plan_t *plan) {
  dt__free(plan->buffers);
  dt__free(plan->kernels);
  dt__free(plan->uses);
  dt__free(plan->numbers);
  *plan = (dt_once_plan_t){0};
}
