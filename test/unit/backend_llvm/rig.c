// SPDX-License-Identifier: Apache-2.0
// See rig.h. Grids are cut into pieces that run last to first, with scratch full of rubbish.
#include "test/unit/backend_llvm/rig.h"
#include "backend_llvm/host/target.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char *rig_cpu = "";

bool rig_use_cpu(int argc, char **argv) {
  bool runs = true;
  if (argc > 1)
    rig_cpu = argv[1];
  if (strcmp(rig_cpu, "x86-64-v2") == 0)
    runs = __builtin_cpu_supports("sse4.2");
  else if (strcmp(rig_cpu, "x86-64-v3") == 0)
    runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!runs)
    printf("SKIP: the host cannot run %s\n", rig_cpu);
  return runs;
}

void rig_open(rig_t *r) {
  memset(r, 0, sizeof(*r));
  dt__arena_init(&r->arena, 0);
  expect_ok(dt__symenv_create(&r->env));
  r->graph = dt__graph_create(&r->arena, r->env);
  assert_non_null(r->graph);
  r->program = dt__program_create(&r->arena, r->env, r->graph);
  assert_non_null(r->program);
  expect_ok(dt__host_target(rig_cpu, 1, &r->target));
}

void rig_close(rig_t *r) {
  dt__symenv_destroy(r->env);
  dt__arena_fini(&r->arena);
}

dt_sym_t rig_size(rig_t *r) {
  dt_range_t range = {0, DT_SIZE_LIMIT - 1};
  return dt__sym_new(r->env, DT_SYMBOL_SIZE, range, NULL, "");
}

dt_sym_t rig_const(rig_t *r, int64_t value) { return dt__sym_const(r->env, value); }

dt_buffer_id_t rig_buffer(rig_t *r, dt_buffer_kind_t kind, dt_dtype_t dtype, uint32_t index,
                          uint32_t rank, const dt_sym_t *sizes, const dt_sym_t *strides) {
  dt_buffer_t buffer = {.kind = kind, .dtype = dtype, .rank = rank, .index = index};
  for (uint32_t i = 0; i < rank; i++)
    buffer.sizes[i] = sizes[i];
  if (strides) {
    for (uint32_t i = 0; i < rank; i++)
      buffer.strides[i] = strides[i];
  } else {
    dt_sym_t stride = rig_const(r, 1);
    for (uint32_t i = rank; i-- > 0;) {
      buffer.strides[i] = stride;
      stride = dt__sym_mul(r->env, stride, sizes[i]);
    }
  }
  dt_buffer_id_t id;
  expect_ok(dt__program_add_buffer(r->program, &buffer, &id));
  if (kind == DT_BUFFER_INPUT) {
    dt_graph_input_t input = {.name = "", .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
      input.sizes[i] = buffer.sizes[i];
      input.strides[i] = buffer.strides[i];
    }
    assert_true(DT_VEC_PUSH(&r->arena, &r->graph->inputs, input));
  }
  if (kind == DT_BUFFER_OUTPUT)
    assert_true(DT_VEC_PUSH(&r->arena, &r->program->outputs, id));
  return id;
}

// ---- Kernels -----------------------------------------------------------------------------------------
void rig_kernel(rig_t *r, const char *name) { r->kernel = (dt_kernel_t){.name = name}; }

dt_sym_t rig_outer(rig_t *r, dt_sym_t extent) {
  uint32_t i = r->kernel.n_loops++;
  r->kernel.extents[i] = extent;
  return r->kernel.vars[i] = dt__sym_new_loop(r->env, extent);
}

void rig_stage(rig_t *r) { r->stage = (dt_stage_t){0}; }

dt_sym_t rig_inner(rig_t *r, dt_sym_t extent) {
  uint32_t i = r->stage.n_loops++;
  r->stage.extents[i] = extent;
  return r->stage.vars[i] = dt__sym_new_loop(r->env, extent);
}

static dt_inst_t blank(dt_inst_kind_t kind, dt_dtype_t dtype) {
  return (dt_inst_t){.kind = kind,
                     .dtype = dtype,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST};
}

static uint32_t add(rig_t *r, const dt_inst_t *inst) {
  uint32_t id;
  expect_ok(dt__stage_add(r->program, &r->stage, inst, &id));
  return id;
}

static const dt_sym_t *copy_index(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index) {
  uint32_t rank = dt__program_buffer(r->program, buffer)->rank;
  dt_sym_t *copy = DT_ARENA_ARRAY(&r->arena, dt_sym_t, rank + 1);
  assert_non_null(copy);
  for (uint32_t i = 0; i < rank; i++)
    copy[i] = index[i];
  return copy;
}

uint32_t rig_load_masked(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t mask,
                         uint32_t other) {
  dt_inst_t inst = blank(DT_INST_LOAD, dt__program_buffer(r->program, buffer)->dtype);
  inst.buffer = buffer;
  inst.index = copy_index(r, buffer, index);
  inst.mask = mask;
  inst.args[0] = other;
  return add(r, &inst);
}

uint32_t rig_load(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index) {
  return rig_load_masked(r, buffer, index, DT_NO_INST, DT_NO_INST);
}

uint32_t rig_op(rig_t *r, dt_scalar_op_t op, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t last = c != DT_NO_INST ? c : b != DT_NO_INST ? b : a;
  dt_dtype_t dtype = r->stage.insts.items[last].dtype;
  dt_inst_t inst = blank(DT_INST_SCALAR, dt__scalar_info(op)->result_bool ? DT_BOOL : dtype);
  inst.op = op;
  inst.args[0] = a;
  inst.args[1] = b;
  inst.args[2] = c;
  return add(r, &inst);
}

uint32_t rig_cast(rig_t *r, dt_dtype_t dtype, uint32_t a) {
  dt_inst_t inst = blank(DT_INST_CAST, dtype);
  inst.args[0] = a;
  return add(r, &inst);
}

uint32_t rig_literal(rig_t *r, dt_dtype_t dtype, double value) {
  dt_inst_t inst = blank(DT_INST_CONST, dtype);
  if (dt__dtype_is_float(dtype))
    inst.value.f = value;
  else
    inst.value.i = (int64_t)value;
  return add(r, &inst);
}

uint32_t rig_index(rig_t *r, dt_dtype_t dtype, dt_sym_t e) {
  dt_inst_t inst = blank(DT_INST_INDEX, dtype);
  inst.sym = e;
  return add(r, &inst);
}

uint32_t rig_row(rig_t *r, uint32_t row, dt_dtype_t dtype) {
  dt_inst_t inst = blank(DT_INST_ROW, dtype);
  inst.row = row;
  return add(r, &inst);
}

uint32_t rig_bind_masked(rig_t *r, dt_sym_t data, dt_sym_t extent, uint32_t value, uint32_t mask,
                         const char *what) {
  dt_inst_t inst = blank(DT_INST_BIND, DT_BOOL);
  inst.sym = data;
  inst.extent = extent;
  inst.args[0] = value;
  inst.mask = mask;
  inst.check = r->program->checks.len;
  dt_check_t check = {.what = what};
  assert_true(DT_VEC_PUSH(&r->arena, &r->program->checks, check));
  return add(r, &inst);
}

uint32_t rig_bind(rig_t *r, dt_sym_t data, dt_sym_t extent, uint32_t value, const char *what) {
  return rig_bind_masked(r, data, extent, value, DT_NO_INST, what);
}

uint32_t rig_search(rig_t *r, dt_buffer_id_t buffer, uint32_t value, bool inclusive) {
  dt_inst_t inst = blank(DT_INST_SEARCH, DT_I64);
  inst.buffer = buffer;
  inst.args[0] = value;
  inst.inclusive = inclusive;
  return add(r, &inst);
}

uint32_t rig_running(rig_t *r, uint32_t row, dt_dtype_t dtype) {
  dt_inst_t inst = blank(DT_INST_RUNNING, dtype);
  inst.row = row;
  return add(r, &inst);
}

uint32_t rig_prior(rig_t *r, uint32_t row, dt_dtype_t dtype) {
  dt_inst_t inst = blank(DT_INST_PRIOR, dtype);
  inst.row = row;
  return add(r, &inst);
}

void rig_store_masked(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t value,
                      uint32_t mask) {
  dt_store_t store = {buffer, copy_index(r, buffer, index), value, mask, false, false};
  assert_true(DT_VEC_PUSH(&r->arena, &r->stage.stores, store));
}

void rig_store(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t value) {
  rig_store_masked(r, buffer, index, value, DT_NO_INST);
}

uint32_t rig_fold(rig_t *r, dt_reduction_kind_t kind, uint32_t value, uint32_t index) {
  dt_dtype_t dtype = index == DT_NO_INST ? r->stage.insts.items[value].dtype : DT_I64;
  dt_reduction_t reduction = {kind, value, index, r->kernel.n_rows++, dtype};
  assert_true(DT_VEC_PUSH(&r->arena, &r->stage.reductions, reduction));
  return reduction.row;
}

void rig_stage_end(rig_t *r) { assert_true(DT_VEC_PUSH(&r->arena, &r->kernel.stages, r->stage)); }

void rig_schedule(rig_t *r, dt_schedule_t schedule) {
  if (schedule.grain == 0)
    schedule.grain = 1;
  if (schedule.kind == DT_SCHEDULE_OUTER_LANES && schedule.outer.block == 0)
    schedule.outer.block = 1;
  assert_true(DT_VEC_PUSH(&r->arena, &r->kernel.schedules, schedule));
}

void rig_kernel_end(rig_t *r) {
  assert_true(DT_VEC_PUSH(&r->arena, &r->program->kernels, r->kernel));
}

dt_sym_t rig_item(rig_t *r, dt_buffer_id_t buffer, int64_t lo, int64_t hi, const char *what) {
  dt_sym_t symbol = dt__sym_new(r->env, DT_SYMBOL_UNBACKED, (dt_range_t){lo, hi}, NULL, what);
  dt_readback_t item = {.buffer = buffer, .what = what};
  assert_true(dt__sym_is_symbol(r->env, symbol, &item.symbol));
  assert_true(DT_VEC_PUSH(&r->arena, &r->program->readbacks, item));
  return symbol;
}

// The readbacks made while it was built read what it writes: the next segment binds them.
void rig_segment(rig_t *r) {
  dt_program_segment_t segment = {.readback_end = r->next_items,
                                  .kernel_end = r->program->kernels.len};
  assert_true(DT_VEC_PUSH(&r->arena, &r->program->segments, segment));
  r->next_items = r->program->readbacks.len;
}

uint32_t rig_lanes(const rig_t *r, dt_dtype_t dtype) {
  return r->target.vector_bytes / (uint32_t)dt_dtype_size(dtype);
}

// ---- Compiling ---------------------------------------------------------------------------------------
static dt_sym_t rounded_bytes(rig_t *r, uint32_t buffer) {
  dt_symenv_t *env = r->env;
  dt_dtype_t dtype = r->program->buffers.items[buffer].dtype;
  dt_sym_t count = dt__buffer_count(r->program, (dt_buffer_id_t){buffer + 1});
  dt_sym_t bytes = dt__sym_mul(env, count, rig_const(r, (int64_t)dt_dtype_size(dtype)));
  dt_sym_t unit = rig_const(r, 64);
  return dt__sym_mul(env, dt__sym_ceildiv(env, bytes, unit), unit);
}

// TEMP and ONCE buffers one after another; TEMPs in order of the segments that know their sizes.
static void place_buffers(rig_t *r) {
  dt_program_t *p = r->program;
  dt_sym_t block = rig_const(r, 0), once = rig_const(r, 0);
  p->offsets.len = 0;
  for (uint32_t i = 0; i < p->buffers.len; i++)
    assert_true(DT_VEC_PUSH(&r->arena, &p->offsets, DT_SYM_NONE_ID));
  for (uint32_t s = 0; s < dt__llvm_segment_count(p); s++) {
    for (uint32_t i = 0; i < p->buffers.len; i++) {
      const dt_buffer_t *b = &p->buffers.items[i];
      uint32_t own = dt__llvm_sizes_segment(p, (dt_buffer_id_t){i + 1});
      if (own != s || (b->kind != DT_BUFFER_TEMP && b->kind != DT_BUFFER_ONCE))
        continue;
      dt_sym_t *at = b->kind == DT_BUFFER_TEMP ? &block : &once;
      p->offsets.items[i] = *at;
      *at = dt__sym_add(r->env, *at, rounded_bytes(r, i));
    }
    if (s < p->segments.len)
      p->segments.items[s].block_bytes = block;
  }
  p->block_bytes = block;
  p->once_bytes = once;
}

static dt_status_t load_units(rig_t *r, const dt_unit_map_t *map, code_t *code) {
  dt_compile_options_t options = {.verify = true, .dump_name = "rig"};
  for (uint32_t u = 0; u < map->n_units; u++) {
    void *object;
    size_t bytes;
    DT_TRY(dt__llvm_compile_unit(r->program, map, u, &r->target, &options, &object, &bytes));
    dt_status_t status = dt__native_load(object, bytes, &code->natives[u]);
    dt__free(object);
    DT_TRY(status);
    code->n_units = u + 1;
    code->bytes += bytes;
  }
  for (uint32_t c = 0; c < map->n_codes; c++) {
    char name[32];
    snprintf(name, sizeof(name), "dt_k%u", c);
    void *at = dt__native_symbol(code->natives[map->unit_of_code[c]], name);
    assert_non_null(at);
    memcpy(&code->kernels[c], &at, sizeof(at));
  }
  code->n_kernels = map->n_codes;
  const dt_native_t *host = code->natives[map->n_units - 1];
  void *once[2] = {dt__native_symbol(host, "dt_once"), dt__native_symbol(host, "dt_once_scratch")};
  assert_non_null(once[0]);
  assert_non_null(once[1]);
  memcpy(&code->once, &once[0], sizeof(void *));
  memcpy(&code->once_scratch, &once[1], sizeof(void *));
  code->n_segments = dt__llvm_segment_count(r->program);
  assert_true(code->n_segments <= RIG_MAX_SEGMENTS);
  for (uint32_t s = 0; s < code->n_segments; s++) {
    char plan[32], run[32];
    snprintf(plan, sizeof(plan), "dt_plan_%u", s);
    snprintf(run, sizeof(run), "dt_run_%u", s);
    void *found[2] = {dt__native_symbol(host, plan), dt__native_symbol(host, run)};
    assert_non_null(found[0]);
    assert_non_null(found[1]);
    memcpy(&code->plan[s], &found[0], sizeof(void *));
    memcpy(&code->run[s], &found[1], sizeof(void *));
  }
  void *commit = dt__native_symbol(host, "dt_commit");
  memcpy(&code->commit, &commit, sizeof(void *));
  return NULL;
}

dt_status_t rig_try_compile(rig_t *r, code_t *code) {
  memset(code, 0, sizeof(*code));
  place_buffers(r);
  expect_ok(dt__symenv_status(r->env));
  DT_TRY(dt__program_verify(r->program));
  dt_unit_map_t map;
  DT_TRY(dt__llvm_split(r->program, &r->target, 4, DT_UNIT_WORK_ANY, &map));
  assert_true(map.n_codes <= 64);
  dt_status_t status = load_units(r, &map, code);
  if (status)
    code_close(code);
  return status;
}

void rig_compile(rig_t *r, code_t *code) { expect_ok(rig_try_compile(r, code)); }

void code_close(code_t *code) {
  for (uint32_t u = 0; u < 16; u++)
    dt__native_unload(code->natives[u]);
  memset(code, 0, sizeof(*code));
}

// ---- Running -----------------------------------------------------------------------------------------
region_t region_open(size_t bytes) {
  size_t page = 4096, room = (bytes + page - 1) / page * page;
  region_t region = {.mapped = room + page};
  region.base =
      mmap(NULL, region.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(region.base != MAP_FAILED);
  assert_int_equal(mprotect((char *)region.base + room, page, PROT_NONE), 0);
  region.at = (char *)region.base + (room - bytes);
  return region;
}

void region_close(region_t *region) { munmap(region->base, region->mapped); }

typedef struct frame_t {
  dt_frame_t frame;
  call_t *call;
} frame_t;

static void launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                   int64_t grain) {
  frame_t *own = (frame_t *)(void *)frame;
  call_t *call = own->call;
  assert_true(count > 0);
  assert_true(grain > 0);
  call->launches++;
  call->items += count;
  int64_t pieces = call->pieces ? call->pieces : 1;
  if (pieces > count)
    pieces = count;
  size_t bytes = (size_t)frame->scratch_bytes + 64;
  char *scratch = dt__alloc_aligned(bytes, 64);
  assert_non_null(scratch);
  for (int64_t i = pieces; i-- > 0;) {
    memset(scratch, 0xee, bytes);
    fn(words, count * i / pieces, count * (i + 1) / pieces, scratch, &frame->record);
    for (size_t b = bytes - 64; b < bytes; b++)
      assert_int_equal((unsigned char)scratch[b], 0xee);
  }
  dt__free(scratch);
}

// A larger block at another address, with what was in it.
static void move_block(dt_frame_t *f, region_t *block, int64_t kept) {
  region_t next = region_open((size_t)f->block_bytes);
  assert_true(f->block_bytes >= kept);
  memset(next.at, 0xee, (size_t)f->block_bytes);
  if (block->base) {
    memcpy(next.at, block->at, (size_t)kept);
    region_close(block);
  }
  *block = next;
  f->block = next.at;
}

int64_t code_call(code_t *code, call_t *call) {
  frame_t own = {.call = call};
  dt_frame_t *f = &own.frame;
  f->symbols = call->symbols;
  f->inputs = call->inputs;
  f->constants = call->constants;
  f->once = code->once_memory;
  f->kernels = code->kernels;
  f->output_sizes = call->output_sizes;
  f->outputs = call->outputs;
  f->launch = launch;
  call->launches = 0;
  call->items = 0;
  call->segments = 0;
  region_t block = {0};
  int64_t answer = 0;
  for (uint32_t s = 0; s < code->n_segments && answer == 0 && f->record.check == 0; s++) {
    int64_t kept = f->block_bytes;
    answer = code->plan[s](f);
    call->segments++;
    if (answer)
      break;
    move_block(f, &block, kept);
    code->run[s](f);
  }
  if (code->commit && answer == 0 && f->record.check == 0)
    code->commit(f);
  call->record.check = f->record.check;
  call->record.value = f->record.value;
  call->record.extent = f->record.extent;
  if (block.base)
    region_close(&block);
  return answer;
}

void fill(dt_dtype_t dtype, void *at, size_t n, uint32_t seed, bool fractions) {
  uint32_t x = seed * 2654435761u + 12345u;
  for (size_t i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    int32_t small = (int32_t)((x >> 16) % 17) - 8;
    dt_scalar_t v;
    if (dt__dtype_is_float(dtype))
      v.f = fractions ? small + ((x >> 8) % 4) * 0.25 : small;
    else if (dtype == DT_BOOL)
      v.i = (x >> 16) & 1;
    else
      v.i = dt__dtype_is_signed(dtype) ? small : small + 8;
    dt__scalar_store(dtype, (char *)at + i * dt_dtype_size(dtype), v);
  }
}

static bool close_enough(double a, double b, double rtol) {
  if (isnan(a) || isnan(b))
    return isnan(a) && isnan(b);
  if (a == b)
    return true;
  return fabs(a - b) <= rtol * fmax(fabs(a), fabs(b)) + (rtol >= 1e-6 ? rtol * 1e-3 : 0);
}

void expect_equal(dt_dtype_t dtype, const void *got, const void *want, size_t n, double rtol,
                  const char *what) {
  size_t size = dt_dtype_size(dtype);
  for (size_t i = 0; i < n; i++) {
    dt_scalar_t a = dt__scalar_load(dtype, (const char *)got + i * size);
    dt_scalar_t b = dt__scalar_load(dtype, (const char *)want + i * size);
    if (dt__dtype_is_float(dtype)) {
      if (!close_enough(a.f, b.f, rtol))
        fail_msg("%s: element %zu of %zu is %.17g, expected %.17g", what, i, n, a.f, b.f);
    } else if (a.i != b.i) {
      fail_msg("%s: element %zu of %zu is %lld, expected %lld", what, i, n, (long long)a.i,
               (long long)b.i);
    }
  }
}

void compare_call(rig_t *r, code_t *code, call_t *call, uint32_t n_outputs, const size_t *n,
                  double rtol, const char *what) {
  region_t got[RIG_MAX_ARGS], want[RIG_MAX_ARGS];
  void *expected[RIG_MAX_ARGS] = {0};
  for (uint32_t o = 0; o < n_outputs; o++) {
    dt_dtype_t dtype = dt__program_buffer(r->program, r->program->outputs.items[o])->dtype;
    size_t bytes = n[o] * dt_dtype_size(dtype);
    got[o] = region_open(bytes);
    want[o] = region_open(bytes);
    memset(got[o].at, 0xcd, bytes);
    memset(want[o].at, 0xcd, bytes);
    call->outputs[o] = got[o].at;
    expected[o] = want[o].at;
  }
  assert_int_equal(code_call(code, call), 0);
  expect_ok(dt__program_interpret(r->program, call->symbols, call->inputs, expected));
  for (uint32_t o = 0; o < n_outputs; o++) {
    dt_dtype_t dtype = dt__program_buffer(r->program, r->program->outputs.items[o])->dtype;
    expect_equal(dtype, got[o].at, want[o].at, n[o], rtol, what);
    region_close(&got[o]);
    region_close(&want[o]);
  }
}
