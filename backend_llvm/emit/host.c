// SPDX-License-Identifier: Apache-2.0
// The host program: straight-line code over a dt_frame_t. dt_plan evaluates sizes with every
// operation checked for overflow; dt_once and dt_run fill the words of each kernel on the stack and
// hand it to the frame's launch function. Everything is computed on the main line, so that values
// may be shared; only the launch itself is conditional.
#include "backend_llvm/emit/host.h"

#include "backend_llvm/emit/body.h"
#include "backend_llvm/load/native.h"

typedef struct host_t {
  dt_body_t k;
  const dt_unit_map_t *map;
  LLVMValueRef frame;
  LLVMValueRef words; // stack, for the kernel with the most
} host_t;

static LLVMValueRef field(host_t *h, size_t offset) {
  return dt__emit_offset(h->k.m, h->frame, dt__emit_i64(h->k.m, (int64_t)offset));
}

static LLVMValueRef load_field(host_t *h, LLVMTypeRef type, size_t offset) {
  return LLVMBuildLoad2(h->k.m->b, type, field(h, offset), "");
}

static LLVMValueRef load_at(host_t *h, LLVMTypeRef type, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  return LLVMBuildLoad2(m->b, type, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)), "");
}

static void store_at(host_t *h, LLVMValueRef value, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  LLVMBuildStore(m->b, value, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)));
}

static LLVMValueRef evaluate(host_t *h, dt_sym_t e) {
  LLVMValueRef value = dt__index_scalar(&h->k, e);
  dt__body_at(&h->k, 0);
  return value;
}

// Opens `name` and binds every symbol that a call brings.
static dt_status_t open_function(host_t *h, dt_emit_t *m, const dt_unit_map_t *map,
                                 const char *name, LLVMTypeRef result, bool symbols) {
  *h = (host_t){.map = map};
  DT_TRY(dt__body_init(&h->k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(result, &m->t_ptr, 1, 0);
  LLVMValueRef fn = dt__emit_function(m, name, type, true);
  h->frame = LLVMGetParam(fn, 0);
  dt__body_enter(&h->k, fn);
  if (!symbols)
    return NULL;
  LLVMValueRef values = load_field(h, m->t_ptr, offsetof(dt_frame_t, symbols));
  for (uint32_t i = 0; i < h->k.n_bindings; i++) {
    dt_symbol_kind_t kind = dt__symbol_info(m->env, i).kind;
    if (kind == DT_SYMBOL_SIZE || kind == DT_SYMBOL_INT || kind == DT_SYMBOL_UNBACKED)
      dt__bind_uniform(&h->k, i, 0, load_at(h, m->t_i64, values, i));
  }
  return NULL;
}

// ---- Plan ----------------------------------------------------------------------------------------------
static void note_bad(host_t *h, LLVMValueRef bit) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_i1, h->k.overflow, "");
  LLVMBuildStore(m->b, LLVMBuildOr(m->b, before, bit, ""), h->k.overflow);
}

// Unsigned comparison: a negative value is refused too.
static void require_below_limit(host_t *h, LLVMValueRef value) {
  dt_emit_t *m = h->k.m;
  note_bad(h, LLVMBuildICmp(m->b, LLVMIntUGE, value, dt__emit_i64(m, DT_SIZE_LIMIT), ""));
}

static void plan_asserts(host_t *h) {
  dt_emit_t *m = h->k.m;
  const dt_graph_t *graph = m->program.graph;
  for (uint32_t i = 0; graph && i < graph->asserts.len; i++) {
    LLVMValueRef holds = LLVMBuildICmp(m->b, LLVMIntNE, evaluate(h, graph->asserts.items[i].cond),
                                       dt__emit_i64(m, 0), "");
    LLVMBasicBlockRef failed = dt__emit_block(m, h->k.fn, "failed");
    LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
    LLVMBuildCondBr(m->b, holds, next, failed);
    LLVMPositionBuilderAtEnd(m->b, failed);
    LLVMBuildRet(m->b, dt__emit_i64(m, (int64_t)i + 1));
    h->k.scopes[0].block = next;
    dt__body_at(&h->k, 0);
  }
}

static void plan_buffers(host_t *h) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    const dt_buffer_t *buffer = &m->program.buffers.items[i];
    if (buffer->kind == DT_BUFFER_INPUT || buffer->kind == DT_BUFFER_CONSTANT)
      continue;
    for (uint32_t d = 0; d < buffer->rank; d++) {
      dt_range_t range = dt__sym_range(m->env, buffer->sizes[d]);
      if (range.lo < 0 || range.hi >= DT_SIZE_LIMIT)
        require_below_limit(h, evaluate(h, buffer->sizes[d]));
    }
    dt_sym_t count = dt__buffer_count(&m->program, (dt_buffer_id_t){i + 1});
    dt_sym_t bytes =
        dt__sym_mul(m->env, count, dt__sym_const(m->env, (int64_t)dt_dtype_size(buffer->dtype)));
    require_below_limit(h, evaluate(h, bytes));
  }
}

static void plan_outputs(host_t *h) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef sizes = load_field(h, m->t_ptr, offsetof(dt_frame_t, output_sizes));
  int64_t at = 0;
  for (uint32_t o = 0; o < m->program.outputs.len; o++) {
    const dt_buffer_t *buffer = dt__program_buffer(&m->program, m->program.outputs.items[o]);
    for (uint32_t d = 0; d < buffer->rank; d++)
      store_at(h, evaluate(h, buffer->sizes[d]), sizes, at++);
  }
}

// The largest scratch of kernels first … last - 1 under any of their schedules.
static LLVMValueRef largest_scratch(host_t *h, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  dt_sym_t most = dt__sym_const(m->env, 0);
  for (uint32_t i = first; i < last; i++) {
    const dt_kernel_t *kernel = &m->program.kernels.items[i];
    for (uint32_t s = 0; s < kernel->schedules.len; s++) {
      dt_sym_t bytes = dt__scratch_layout(m, kernel, &kernel->schedules.items[s], NULL);
      most = dt__sym_max(m->env, most, bytes);
    }
  }
  return evaluate(h, most);
}

static dt_status_t emit_plan(dt_emit_t *m, const dt_unit_map_t *map) {
  host_t h;
  DT_TRY(open_function(&h, m, map, "dt_plan", m->t_i64, true));
  h.k.overflow = dt__body_slot(&h.k, m->t_i1, 1);
  LLVMBuildStore(m->b, LLVMConstNull(m->t_i1), h.k.overflow);
  plan_asserts(&h);
  plan_buffers(&h);
  plan_outputs(&h);
  LLVMValueRef block =
      evaluate(&h, m->program.block_bytes.id ? m->program.block_bytes : dt__sym_const(m->env, 0));
  require_below_limit(&h, block);
  LLVMBuildStore(m->b, block, field(&h, offsetof(dt_frame_t, block_bytes)));
  LLVMValueRef scratch = largest_scratch(&h, m->program.n_once, m->program.kernels.len);
  require_below_limit(&h, scratch);
  LLVMBuildStore(m->b, scratch, field(&h, offsetof(dt_frame_t, scratch_bytes)));
  LLVMValueRef bad = LLVMBuildLoad2(m->b, m->t_i1, h.k.overflow, "");
  LLVMBuildRet(m->b, LLVMBuildSelect(m->b, bad, dt__emit_i64(m, -1), dt__emit_i64(m, 0), ""));
  return NULL;
}

// ---- Run -----------------------------------------------------------------------------------------------
static LLVMValueRef placed(host_t *h, size_t memory, uint32_t buffer) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef base = load_field(h, m->t_ptr, memory);
  if (buffer >= m->program.offsets.len || !m->program.offsets.items[buffer].id) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "memory plan: buffer %u has no place", buffer + 1));
    return base;
  }
  return dt__emit_offset(m, base, evaluate(h, m->program.offsets.items[buffer]));
}

static LLVMValueRef buffer_address(host_t *h, dt_buffer_id_t id) {
  dt_emit_t *m = h->k.m;
  const dt_buffer_t *buffer = dt__program_buffer(&m->program, id);
  LLVMValueRef *base = &h->k.bases[id.id - 1];
  if (*base)
    return *base;
  switch (buffer->kind) {
  case DT_BUFFER_INPUT:
    *base =
        load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, inputs)), buffer->index);
    break;
  case DT_BUFFER_CONSTANT:
    *base = load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, constants)),
                    buffer->index);
    break;
  case DT_BUFFER_OUTPUT:
    *base =
        load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, outputs)), buffer->index);
    break;
  case DT_BUFFER_ONCE:
    *base = placed(h, offsetof(dt_frame_t, once), id.id - 1);
    break;
  default:
    *base = placed(h, offsetof(dt_frame_t, block), id.id - 1);
    break;
  }
  return *base;
}

// What is launched: of the first schedule whose predicate holds.
typedef struct choice_t {
  LLVMValueRef fn, count, grain;
} choice_t;

static choice_t schedule_choice(host_t *h, uint32_t kernel_index, uint32_t s,
                                LLVMValueRef functions) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  const dt_schedule_t *schedule = &kernel->schedules.items[s];
  uint32_t code = h->map->code_of_kernel[h->map->first_code[kernel_index] + s];
  dt_sym_t axes[DT_MAX_LOOPS];
  uint32_t n = dt__grid_axes(m, kernel, schedule, axes);
  dt_sym_t count = dt__sym_const(m->env, 1);
  for (uint32_t i = 0; i < n; i++)
    count = dt__sym_mul(m->env, count, axes[i]);
  choice_t choice = {.count = evaluate(h, count)};
  choice.fn = load_at(h, m->t_ptr, functions, code);
  choice.grain = evaluate(h, dt__grid_grain(m, kernel, schedule));
  return choice;
}

static choice_t choose(host_t *h, uint32_t kernel_index) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  LLVMValueRef functions = load_field(h, m->t_ptr, offsetof(dt_frame_t, kernels));
  uint32_t n = kernel->schedules.len;
  choice_t best = schedule_choice(h, kernel_index, n - 1, functions);
  for (uint32_t s = n - 1; s-- > 0;) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    choice_t other = schedule_choice(h, kernel_index, s, functions);
    if (!schedule->predicate.id) {
      best = other;
      continue;
    }
    LLVMValueRef take =
        LLVMBuildICmp(m->b, LLVMIntNE, evaluate(h, schedule->predicate), dt__emit_i64(m, 0), "");
    best.fn = LLVMBuildSelect(m->b, take, other.fn, best.fn, "");
    best.count = LLVMBuildSelect(m->b, take, other.count, best.count, "");
    best.grain = LLVMBuildSelect(m->b, take, other.grain, best.grain, "");
  }
  return best;
}

static void launch(host_t *h, choice_t choice) {
  dt_emit_t *m = h->k.m;
  LLVMTypeRef params[5] = {m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64, m->t_i64};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, params, 5, 0);
  LLVMBasicBlockRef some = dt__emit_block(m, h->k.fn, "launch");
  LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
  LLVMValueRef any = LLVMBuildICmp(m->b, LLVMIntSGT, choice.count, dt__emit_i64(m, 0), "");
  LLVMBuildCondBr(m->b, any, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  LLVMValueRef fn = load_field(h, m->t_ptr, offsetof(dt_frame_t, launch));
  LLVMValueRef args[5] = {h->frame, choice.fn, h->words, choice.count, choice.grain};
  LLVMBuildCall2(m->b, type, fn, args, 5, "");
  LLVMBuildBr(m->b, next);
  h->k.scopes[0].block = next;
  dt__body_at(&h->k, 0);
}

static dt_status_t run_kernel(host_t *h, uint32_t index, const dt_kernel_params_t *params) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  if (kernel->schedules.len == 0)
    return DT_FAIL(DT_E_INTERNAL, "kernel %s has no schedule", kernel->name);
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    DT_TRY(dt__schedule_verify(m, kernel, &kernel->schedules.items[s]));
  choice_t choice = choose(h, index);
  for (uint32_t i = 0; i < params->n_buffers; i++)
    store_at(h, buffer_address(h, params->buffers[i]), h->words, i);
  for (uint32_t i = 0; i < params->n_symbols; i++)
    store_at(h, evaluate(h, dt__symbol_sym(m->env, params->symbols[i])), h->words,
             (int64_t)params->n_buffers + i);
  launch(h, choice);
  return NULL;
}

static dt_status_t emit_run(dt_emit_t *m, const dt_unit_map_t *map, const char *name,
                            uint32_t first, uint32_t last, bool symbols,
                            const dt_kernel_params_t *params) {
  host_t h;
  DT_TRY(open_function(&h, m, map, name, m->t_void, symbols));
  uint32_t most = 1;
  for (uint32_t i = first; i < last; i++)
    if (params[i].n_buffers + params[i].n_symbols > most)
      most = params[i].n_buffers + params[i].n_symbols;
  h.words = dt__body_slot(&h.k, m->t_i64, most);
  for (uint32_t i = first; i < last && !m->failure; i++)
    DT_TRY(run_kernel(&h, i, &params[i]));
  LLVMBuildRetVoid(m->b);
  return NULL;
}

static dt_status_t emit_once_scratch(dt_emit_t *m, const dt_unit_map_t *map) {
  host_t h = {.map = map};
  DT_TRY(dt__body_init(&h.k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, NULL, 0, 0);
  dt__body_enter(&h.k, dt__emit_function(m, "dt_once_scratch", type, true));
  LLVMBuildRet(m->b, largest_scratch(&h, 0, m->program.n_once));
  return NULL;
}

dt_status_t dt__emit_host(dt_emit_t *m, const dt_unit_map_t *map) {
  uint32_t n = m->program.kernels.len;
  if (m->program.n_once > n)
    return DT_FAIL(DT_E_INTERNAL, "program: %u of %u kernels run once", m->program.n_once, n);
  dt_kernel_params_t *params = DT_ARENA_ARRAY(&m->arena, dt_kernel_params_t, n + 1);
  if (!params)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    dt_text_t text;
    dt__text_init(&text);
    dt_status_t status =
        dt__kernel_print(&m->program, &m->program.kernels.items[i], &params[i], &text);
    dt__text_fini(&text);
    DT_TRY(status);
  }
  DT_TRY(emit_plan(m, map));
  DT_TRY(emit_once_scratch(m, map));
  DT_TRY(emit_run(m, map, "dt_once", 0, m->program.n_once, false, params));
  return emit_run(m, map, "dt_run", m->program.n_once, n, true, params);
}
