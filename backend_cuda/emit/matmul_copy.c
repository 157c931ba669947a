// SPDX-License-Identifier: Apache-2.0
// Tiles of the operands from global to shared memory. Threads take neighbouring places of the loop
// that lies innermost, so that a warp reads whole lines. What is outside of the matrix is zero:
// nothing is read there.
#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/insts.h"

#define TOGETHER 4 // elements of a thread that are read before the first of them is needed

static uint32_t log2_of(uint32_t n) {
  uint32_t log = 0;
  while (n >>= 1)
    log++;
  return log;
}

static LLVMValueRef below(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(m->b, LLVMIntSLT, a, b, "");
}

// Elements of a row that are copied together: those in a panel, or as many as divide them.
static uint32_t row_elements(const dt_operand_t *o) {
  return o->panels ? DT_PANEL_BYTES / (uint32_t)dt_dtype_size(o->dtype) : o->inner & (0 - o->inner);
}

// Bytes from one such part of a row to the next.
static uint32_t part_bytes(const dt_operand_t *o) {
  return o->panels ? o->outer * DT_PANEL_BYTES
                   : row_elements(o) * (uint32_t)dt_dtype_size(o->dtype);
}

// Rows that the threads cover at once, each with so many elements.
static uint32_t rows_at_once(const dt_tile_t *t, const dt_operand_t *o, uint32_t elements) {
  return t->plan.threads / (row_elements(o) / elements);
}

// Pieces of a thread in one part of all rows; parts follow one another.
static uint32_t pieces_of_part(const dt_tile_t *t, const dt_operand_t *o, uint32_t elements) {
  return o->outer / rows_at_once(t, o, elements);
}

// Byte of an element of 2 bytes in its row of a panel.
static LLVMValueRef in_panel(dt_tile_t *t, LLVMValueRef inner, LLVMValueRef outer) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef seven = dt__emit_i32(m, 7),
               unit = LLVMBuildLShr(m->b, inner, dt__emit_i32(m, 3), "");
  LLVMValueRef place = LLVMBuildXor(m->b, unit, LLVMBuildAnd(m->b, outer, seven, ""), "");
  LLVMValueRef in_unit = dt__matmul_step(t, LLVMBuildAnd(m->b, inner, seven, ""), 2, 0);
  return LLVMBuildAdd(m->b, dt__matmul_step(t, place, 16, 0), in_unit, "");
}

// Where this thread stands in an operand's tile for its piece `number` (i32) of so many elements.
static dt_operand_place_t place_of(dt_tile_t *t, const dt_operand_t *o, uint32_t elements,
                                   LLVMValueRef number) {
  dt_emit_t *m = t->k->m;
  uint32_t in_row = row_elements(o) / elements, rows = rows_at_once(t, o, elements);
  LLVMValueRef each = dt__emit_i32(m, pieces_of_part(t, o, elements));
  LLVMValueRef part = NULL;
  if (row_elements(o) < o->inner) {
    part = LLVMBuildUDiv(m->b, number, each, "");
    number = LLVMBuildURem(m->b, number, each, "");
  }
  LLVMValueRef low = LLVMBuildAnd(m->b, t->tid, dt__emit_i32(m, in_row - 1), "");
  LLVMValueRef high = LLVMBuildLShr(m->b, t->tid, dt__emit_i32(m, log2_of(in_row)), "");
  LLVMValueRef inner = dt__matmul_step(t, low, elements, 0);
  LLVMValueRef outer = LLVMBuildAdd(m->b, high, dt__matmul_step(t, number, rows, 0), "");
  uint32_t element = (uint32_t)dt_dtype_size(o->dtype);
  LLVMValueRef to = LLVMBuildAdd(
      m->b, dt__matmul_step(t, outer, o->pitch, o->offset),
      o->panels ? in_panel(t, inner, outer) : dt__matmul_step(t, inner, element, 0), "");
  if (part) {
    to = LLVMBuildAdd(m->b, to, dt__matmul_step(t, part, part_bytes(o), 0), "");
    inner = LLVMBuildAdd(m->b, inner, dt__matmul_step(t, part, row_elements(o), 0), "");
  }
  return (dt_operand_place_t){o->along_k ? outer : inner, o->along_k ? inner : outer, to};
}

// i64 `first` + i32 `step`.
static LLVMValueRef position(dt_emit_t *m, LLVMValueRef first, LLVMValueRef step) {
  return LLVMBuildNSWAdd(m->b, first, LLVMBuildZExt(m->b, step, m->t_i64, ""), "");
}

static LLVMValueRef first_of(const dt_tile_t *t, const dt_operand_t *o) {
  return o == &t->plan.a ? t->first_row : t->first_col;
}

// ---- Units of 16 bytes --------------------------------------------------------------------------------
static uint32_t unit_elements(const dt_operand_t *o) {
  return 16 / (uint32_t)dt_dtype_size(o->dtype);
}

static uint32_t unit_count(const dt_operand_t *o) { return o->inner / unit_elements(o) * o->outer; }

static uint32_t unit_rows(const dt_tile_t *t, const dt_operand_t *o) {
  return rows_at_once(t, o, unit_elements(o));
}

// Bytes from one step of `var` to the next; a size, known to the whole kernel.
static LLVMValueRef stride_of(dt_tile_t *t, const dt_operand_t *o, dt_sym_t var) {
  dt_body_t *k = t->k;
  const dt_inst_t *load = &k->stage->insts.items[o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index), coef, rest;
  if (!dt__sym_linear(k->m->env, offset, var, &coef, &rest)) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "matrix template: an operand is not linear"));
    return dt__emit_i64(k->m, 0);
  }
  LLVMValueRef stride = dt__index_scalar(k, coef);
  dt__body_at(k, 0);
  return LLVMBuildMul(k->m->b, stride, dt__emit_i64(k->m, (int64_t)dt_dtype_size(o->dtype)), "");
}

// Each row's place, or what of it there is, is found by itself.
static bool rows_differ(const dt_operand_t *o) {
  return o->copy == DT_COPY_UNITS && (o->scattered || o->mask != DT_NO_INST);
}

// Places of k as the one loop that a sum has, or as several.
static bool has_terms(const dt_tile_t *t) { return t->k->stage->n_loops > 1; }

// The address of the thread's unit that is `rows` rows of the tile after its first, at `at_k`, or,
// where k is several loops, at the first of all; and its row's bits. The scope is there to forget
// what `var` and k were bound to before.
static void place_row(dt_tile_t *t, const dt_operand_t *o, const dt_operand_place_t *place,
                      uint32_t i, LLVMValueRef at_k, dt_units_t *units) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_inst_t *load = &k->stage->insts.items[o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  uint32_t level = t->level + 1, last = k->stage->n_loops - 1;
  dt__scope_open(k, level, NULL);
  LLVMValueRef var = position(m, first_of(t, o), place->var);
  var = LLVMBuildNSWAdd(m->b, var, dt__emit_i64(m, i * unit_rows(t, o)), "");
  dt__bind_symbol(k, o->var, level, var);
  for (uint32_t v = 0; v < last; v++)
    dt__bind_symbol(k, k->stage->vars[v], level, dt__emit_i64(m, 0));
  dt__bind_symbol(k, k->stage->vars[last], level, has_terms(t) ? dt__emit_i64(m, 0) : at_k);
  units->row[i] = dt__access_address(k, load->buffer, offset, level).at[0];
  dt__body_at(k, level);
  if (o->mask != DT_NO_INST)
    units->bits[i] = dt__matmul_row_bits(t, o->mask, level);
  dt__scope_close(k, level);
  if (i == 0) {
    units->var = var;
    units->from = units->row[0];
  }
}

// The thread's first unit in the first tile. Its other units are so many rows of the tile further,
// or each has a place of its own; the other tiles are so many steps of k further: steps are the
// same for all threads.
static void begin_units(dt_tile_t *t, const dt_operand_t *o, dt_units_t *units) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  for (uint32_t v = 0; v < k->stage->n_loops; v++)
    units->by_term[v] = stride_of(t, o, k->stage->vars[v]);
  units->by_k = units->by_term[k->stage->n_loops - 1];
  units->by_row = !o->along_k ? units->by_k : o->scattered ? NULL : stride_of(t, o, o->var);
  units->extent = dt__index_scalar(k, o->extent);
  dt__body_at(k, t->level);
  bool copied = o->copy == DT_COPY_UNITS;
  dt_operand_place_t place = o->copy == DT_COPY_NONE
                                 ? dt__matmul_mma_place(t)
                                 : place_of(t, o, unit_elements(o), dt__emit_i32(m, 0));
  units->k = place.k;
  units->to = place.to;
  LLVMValueRef at_k = LLVMBuildZExt(m->b, place.k, m->t_i64, "");
  uint32_t rows = rows_differ(o) ? pieces_of_part(t, o, unit_elements(o)) : 1;
  rows = rows ? rows : 1; // of the first threads alone
  for (uint32_t i = 0; i < rows; i++)
    place_row(t, o, &place, i, copied ? at_k : dt__emit_i64(m, 0), units);
}

static bool by_units(const dt_tile_t *t, const dt_operand_t *o) {
  return o->copy != DT_COPY_ELEMENTS && (o->copy != DT_COPY_UNITS || t->asynchronous);
}

void dt__matmul_copy_begin(dt_tile_t *t) {
  const dt_operand_t *operands[2] = {&t->plan.a, &t->plan.b};
  for (uint32_t i = 0; i < 2; i++)
    if (by_units(t, operands[i]))
      begin_units(t, operands[i], &t->units[i]);
}

// Elements of k that are left from first_k on, at most a tile's depth: i32, less than 0 where it is
// past the end.
static LLVMValueRef left_of(dt_tile_t *t, LLVMValueRef first_k) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef left = LLVMBuildNSWSub(m->b, t->extent_k, first_k, "");
  LLVMValueRef depth = dt__emit_i64(m, t->plan.matmul->depth);
  left = LLVMBuildSelect(m->b, below(m, left, depth), left, depth, "");
  return LLVMBuildTrunc(m->b, left, m->t_i32, "");
}

// Units of one part of all rows, which have their places of k in common.
typedef struct part_t {
  uint32_t along;                   // elements of a row before it
  LLVMValueRef at_k;                // i32: its place of k where that is innermost
  LLVMValueRef terms[DT_MAX_LOOPS]; // i32, where k is several loops
  LLVMValueRef step;                // i64: bytes from the first tile's place
} part_t;

static part_t part_of(dt_tile_t *t, const dt_operand_t *o, const dt_units_t *units, uint32_t number,
                      LLVMValueRef first_k) {
  dt_emit_t *m = t->k->m;
  part_t part = {.along = number * row_elements(o)};
  if (o->along_k)
    part.at_k = LLVMBuildAdd(m->b, units->k, dt__emit_i32(m, part.along), "");
  if (!has_terms(t)) {
    part.step = LLVMBuildMul(m->b, first_k, units->by_k, "");
    return part;
  }
  LLVMValueRef first = LLVMBuildTrunc(m->b, first_k, m->t_i32, "");
  dt__matmul_terms(t, LLVMBuildAdd(m->b, first, part.at_k, ""), part.terms);
  part.step = dt__emit_i64(m, 0);
  for (uint32_t v = 0; v < t->k->stage->n_loops; v++) {
    LLVMValueRef at = LLVMBuildZExt(m->b, part.terms[v], m->t_i64, "");
    part.step = LLVMBuildAdd(m->b, part.step, LLVMBuildMul(m->b, at, units->by_term[v], ""), "");
  }
  return part;
}

// Nothing is read outside of the matrix: the address may then be one that does not exist.
static void copy_unit(dt_tile_t *t, const dt_operand_t *o, const dt_units_t *units,
                      const part_t *part, uint32_t i, LLVMValueRef first_k, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  uint32_t rows = i * unit_rows(t, o), element = (uint32_t)dt_dtype_size(o->dtype);
  bool each = rows_differ(o);
  LLVMValueRef var =
      LLVMBuildNSWAdd(m->b, units->var, dt__emit_i64(m, o->along_k ? rows : part->along), "");
  LLVMValueRef at_k =
      o->along_k ? part->at_k : LLVMBuildAdd(m->b, units->k, dt__emit_i32(m, rows), "");
  LLVMValueRef inside =
      LLVMBuildAnd(m->b, below(m, var, units->extent), below(m, at_k, left_of(t, first_k)), "");
  if (o->mask != DT_NO_INST)
    inside = LLVMBuildAnd(m->b, inside, dt__matmul_row_has(t, units->bits[i], part->terms), "");
  LLVMValueRef bytes = LLVMBuildSelect(m->b, inside, dt__emit_i32(m, 16), dt__emit_i32(m, 0), "");
  LLVMValueRef step = part->step;
  if (!each)
    step =
        LLVMBuildAdd(m->b, step, LLVMBuildMul(m->b, units->by_row, dt__emit_i64(m, rows), ""), "");
  if (!has_terms(t))
    step = LLVMBuildAdd(m->b, step, dt__emit_i64(m, part->along * element), "");
  LLVMValueRef to = LLVMBuildAdd(m->b, at, units->to, "");
  uint32_t plus = rows * o->pitch + part->along / row_elements(o) * part_bytes(o);
  LLVMValueRef from = each ? units->row[i] : units->from;
  (t->early ? dt__cuda_copy_early : dt__ptx_copy)(m, dt__matmul_shared(t, to, plus),
                                                  dt__emit_offset(m, from, step), bytes);
}

static void copy_parts(dt_tile_t *t, const dt_operand_t *o, const dt_units_t *units, uint32_t count,
                       LLVMValueRef first_k, LLVMValueRef at) {
  uint32_t each = pieces_of_part(t, o, unit_elements(o));
  part_t part = {0};
  for (uint32_t i = 0; i < count; i++) {
    if (i == 0 || (each && i % each == 0))
      part = part_of(t, o, units, each ? i / each : 0, first_k);
    copy_unit(t, o, units, &part, each ? i % each : i, first_k, at);
  }
}

// A slab's rows are as many as the tile's, and zeros follow each (chain.c). What is in rows that
// the matrix has not is nobody's.
static void copy_slab(dt_tile_t *t, const dt_operand_t *o, const dt_units_t *units, uint32_t count,
                      LLVMValueRef first_k, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef values[DT_MATMUL_MAX_UNITS];
  LLVMValueRef to = LLVMBuildAdd(m->b, at, units->to, "");
  LLVMValueRef at_k = LLVMBuildMul(m->b, position(m, first_k, units->k), units->by_k, "");
  LLVMValueRef from = dt__emit_offset(m, units->from, at_k);
  for (uint32_t i = 0; i < count; i++) {
    LLVMValueRef rows = dt__emit_i64(m, i * unit_rows(t, o));
    LLVMValueRef here = dt__emit_offset(m, from, LLVMBuildMul(m->b, units->by_row, rows, ""));
    values[i] = dt__emit_load_at(m, DT_I32, 4, here, 16, false);
  }
  for (uint32_t i = 0; i < count; i++)
    dt__emit_store_at(m, DT_I32, values[i],
                      dt__matmul_shared(t, to, i * unit_rows(t, o) * o->pitch), 16);
}

// Every thread has the same number of units, or one that only the first threads have.
static void copy_units(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef first_k, LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t all = unit_count(o), threads = t->plan.threads, level = t->level + 3;
  uint32_t count = (all + threads - 1) / threads;
  const dt_units_t *units = &t->units[o == &t->plan.b];
  dt__body_at(k, level - 1);
  LLVMValueRef wanted = NULL;
  if (all < threads)
    wanted = LLVMBuildICmp(m->b, LLVMIntULT, t->tid, dt__emit_i32(m, all), "");
  dt__scope_open(k, level, wanted);
  if (o->copy == DT_COPY_SLAB)
    copy_slab(t, o, units, count, first_k, at);
  else
    copy_parts(t, o, units, count, first_k, at);
  dt__scope_close(k, level);
}

// ---- Elements -----------------------------------------------------------------------------------------
static LLVMValueRef last_at_most(dt_emit_t *m, LLVMValueRef at, LLVMValueRef extent) {
  LLVMValueRef last = LLVMBuildNSWSub(m->b, extent, dt__emit_i64(m, 1), "");
  return LLVMBuildSelect(m->b, below(m, at, last), at, last, "");
}

// The element at the thread's place, at the tile's level 4; outside of the matrix its last element
// is read instead, and zero is what it counts as. Indices bound from data may be of either operand,
// and are bound for both: the other one's at the tile's first row (column), which is in the matrix.
static LLVMValueRef read_element(dt_tile_t *t, const dt_operand_t *o,
                                 const dt_operand_place_t *place, LLVMValueRef first_k) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef extent = dt__index_scalar(k, o->extent);
  uint32_t level = t->level + 4;
  dt__body_at(k, level);
  LLVMValueRef var = position(m, first_of(t, o), place->var);
  LLVMValueRef at_k = position(m, first_k, place->k);
  LLVMValueRef inside = LLVMBuildAnd(m->b, below(m, var, extent), below(m, at_k, t->extent_k), "");
  k->stage_level = level - 1;
  const dt_operand_t *other = o == &t->plan.a ? &t->plan.b : &t->plan.a;
  dt__bind_symbol(k, o->var, level, last_at_most(m, var, extent));
  dt__bind_symbol(k, other->var, level, first_of(t, other));
  dt_status_t status = dt__stage_enter(k, 0);
  if (status)
    dt__emit_fail(m, status);
  LLVMValueRef terms[DT_MAX_LOOPS];
  dt__matmul_terms(t, last_at_most(m, at_k, t->extent_k), terms);
  uint32_t last = level + k->stage->n_loops - 1; // each loop at a level of its own
  for (uint32_t at = level; at <= last; at++) {
    if (at > level)
      dt__scope_open(k, at, NULL);
    dt__bind_symbol(k, k->stage->vars[at - level], at, terms[at - level]);
  }
  dt__stage_binds(k, last);
  dt_dtype_t dtype = k->stage->insts.items[o->load].dtype;
  LLVMValueRef value = dt__inst_value(k, o->load).v[0];
  for (uint32_t at = last; at > level; at--)
    dt__scope_close(k, at);
  dt__body_at(k, level);
  if (dtype != o->dtype)
    value = dt__emit_cast(m, dtype, o->dtype, value);
  return LLVMBuildSelect(m->b, inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

// A loop over a few at a time keeps addresses out of registers that multiplication needs.
static void copy_elements(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef first_k,
                          LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t pieces = o->inner * o->outer / t->plan.threads;
  uint32_t together = pieces < TOGETHER ? pieces : TOGETHER, level = t->level + 3;
  LLVMValueRef values[TOGETHER], places[TOGETHER];
  LLVMValueRef number =
      dt__loop_open(k, level, dt__emit_i64(m, 0), dt__emit_i64(m, pieces), together);
  dt__ptx_no_unroll(m);
  number = LLVMBuildTrunc(m->b, number, m->t_i32, "");
  for (uint32_t i = 0; i < together; i++) {
    dt__scope_open(k, level + 1, NULL);
    dt_operand_place_t place = place_of(t, o, 1, dt__matmul_step(t, number, 1, i));
    values[i] = read_element(t, o, &place, first_k);
    places[i] = LLVMBuildAdd(m->b, at, place.to, "");
    dt__scope_close(k, level + 1);
  }
  for (uint32_t i = 0; i < together; i++)
    dt__emit_store(m, o->dtype, values[i], dt__matmul_shared(t, places[i], 0), NULL);
  dt__loop_close(k, level);
}

uint32_t dt__matmul_settled(const dt_tile_t *t) {
  const dt_operand_t *operands[2] = {&t->plan.a, &t->plan.b};
  uint32_t settled = 0;
  for (uint32_t i = 0; i < 2 && t->asynchronous; i++) {
    const dt_inst_t *load = &t->k->stage->insts.items[operands[i]->load];
    if (operands[i]->copy == DT_COPY_UNITS && dt__cuda_is_settled(t->k, load->buffer))
      settled |= 1U << i;
  }
  return settled;
}

void dt__matmul_copy(dt_tile_t *t, uint32_t operands, LLVMValueRef first_k, LLVMValueRef at,
                     LLVMValueRef some) {
  const dt_operand_t *both[2] = {&t->plan.a, &t->plan.b};
  for (uint32_t i = 0; i < 2; i++) {
    bool asynchronous = t->asynchronous && both[i]->copy == DT_COPY_UNITS;
    if (!(operands >> i & 1) || both[i]->copy == DT_COPY_NONE)
      continue;
    dt__scope_open(t->k, t->level + 2, asynchronous ? NULL : some);
    (by_units(t, both[i]) ? copy_units : copy_elements)(t, both[i], first_k, at);
    dt__scope_close(t->k, t->level + 2);
  }
}
