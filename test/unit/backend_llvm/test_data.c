// SPDX-License-Identifier: Apache-2.0
// What data decides: reductions read while they run, searches, stores under masks and at places
// that come from data, updates of arguments. Everything against the loop interpreter, under every
// schedule that may run it.
#include "test/unit/backend_llvm/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_SCHEDULES 4
#define LARGEST (DT_SIZE_LIMIT - 1)

// One element at a time; lanes on the last outer loop, one vector or two; lanes on inner loops.
static dt_schedule_t schedule_of(const rig_t *r, int which, dt_dtype_t dtype) {
  dt_schedule_t s = {.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1, .grain = 1};
  if (which == 0)
    return s;
  s.kind = which == 3 ? DT_SCHEDULE_INNER_LANES : DT_SCHEDULE_OUTER_LANES;
  s.lanes = rig_lanes(r, dtype);
  s.unroll = which == 2 ? 2 : 1;
  if (which != 3)
    s.outer.block = (int64_t)s.lanes * s.unroll * 2;
  return s;
}

static void take(dt_dtype_t dtype, region_t *region, size_t n, uint32_t seed) {
  *region = region_open(n * dt_dtype_size(dtype));
  fill(dtype, region->at, n, seed, false);
}

// ---- Reductions read while they run -------------------------------------------------------------

// y[m, n, 2] = the reduction of x[m, n, 2] over its two last dims, so far; z[m] = all of it.
static void running_program(rig_t *r, dt_reduction_kind_t kind, dt_dtype_t dtype, int which) {
  bool arg = kind == DT_REDUCE_ARGMAX || kind == DT_REDUCE_ARGMIN;
  dt_dtype_t result = arg ? DT_I64 : dtype;
  dt_sym_t sizes[3] = {rig_size(r), rig_size(r), rig_const(r, 2)}, at[3];
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 3, sizes, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, result, 0, 3, sizes, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, result, 1, 1, sizes, NULL);
  rig_kernel(r, "running");
  at[0] = rig_outer(r, sizes[0]);
  rig_stage(r);
  at[1] = rig_inner(r, sizes[1]);
  at[2] = rig_inner(r, sizes[2]);
  uint32_t value = rig_load(r, x, at), index = DT_NO_INST;
  dt_sym_t flat = dt__sym_add(r->env, dt__sym_mul(r->env, at[1], sizes[2]), at[2]);
  if (arg)
    index = rig_index(r, DT_I64, flat);
  uint32_t row = rig_fold(r, kind, value, index);
  rig_store(r, y, at, rig_running(r, row, result));
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, z, at, rig_row(r, row, result));
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, which, dtype));
  rig_kernel_end(r);
}

static void check_running(dt_reduction_kind_t kind, dt_dtype_t dtype, int which) {
  rig_t r;
  code_t code;
  rig_open(&r);
  running_program(&r, kind, dtype, which);
  rig_compile(&r, &code);
  const int64_t ms[] = {0, 1, 5, 37}, ns[] = {0, 1, 6};
  for (int i = 0; i < 12; i++) {
    int64_t m = ms[i % 4], n = ns[i / 4];
    size_t count = (size_t)(m * n * 2);
    region_t x;
    char what[96];
    snprintf(what, sizeof(what), "reduction %d of %s, schedule %d, %lld x %lld", (int)kind,
             dt_dtype_name(dtype), which, (long long)m, (long long)n);
    take(dtype, &x, count, (uint32_t)i);
    call_t call = {.symbols = {m, n}, .inputs = {x.at}, .pieces = 2};
    compare_call(&r, &code, &call, 2, (const size_t[]){count, (size_t)m}, 0, what);
    region_close(&x);
  }
  code_close(&code);
  rig_close(&r);
}

static void test_running(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_I32, DT_I8, DT_U8};
  const dt_reduction_kind_t kinds[] = {DT_REDUCE_SUM, DT_REDUCE_MAX, DT_REDUCE_MIN,
                                       DT_REDUCE_ARGMAX, DT_REDUCE_ARGMIN};
  for (int which = 0; which < 3; which++) {
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
      for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        check_running(kinds[k], dtypes[d], which);
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
      check_running(DT_REDUCE_LAST, dtypes[d], which);
    check_running(DT_REDUCE_LAST, DT_BOOL, which);
    check_running(DT_REDUCE_PROD, DT_I32, which);
    check_running(DT_REDUCE_ANY, DT_BOOL, which);
    check_running(DT_REDUCE_ALL, DT_BOOL, which);
  }
}

// y[m, n]: each iteration leaves two values, each made of what the one before left in the other: a
// step of one must not be seen by the other. z[m]: what the last one left.
static void crossing_program(rig_t *r, dt_dtype_t dtype, int which) {
  dt_sym_t sizes[2] = {rig_size(r), rig_size(r)}, at[2];
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 2, sizes, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, 2, sizes, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 1, 1, sizes, NULL);
  rig_kernel(r, "crossing");
  at[0] = rig_outer(r, sizes[0]);
  rig_stage(r);
  at[1] = rig_inner(r, sizes[1]);
  uint32_t value = rig_load(r, x, at);
  uint32_t a = rig_prior(r, 0, dtype), b = rig_prior(r, 1, dtype);
  uint32_t sum = rig_op(r, DT_SCALAR_add, a, value, DT_NO_INST);
  (void)rig_fold(r, DT_REDUCE_LAST, b, DT_NO_INST);
  (void)rig_fold(r, DT_REDUCE_LAST, sum, DT_NO_INST);
  rig_store(r, y, at, rig_op(r, DT_SCALAR_sub, sum, a, DT_NO_INST));
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, z, at, rig_row(r, 1, dtype));
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, which, dtype));
  rig_kernel_end(r);
}

static void test_priors(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_I8};
  for (int k = 0; k < 12; k++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    crossing_program(&r, dtypes[k % 4], k / 4);
    rig_compile(&r, &code);
    const int64_t ms[] = {0, 1, 5, 37}, ns[] = {0, 1, 6};
    for (int i = 0; i < 12; i++) {
      size_t m = (size_t)ms[i % 4], n = (size_t)ns[i / 4];
      region_t x;
      take(dtypes[k % 4], &x, m * n, (uint32_t)i);
      call_t call = {.symbols = {ms[i % 4], ns[i / 4]}, .inputs = {x.at}, .pieces = 2};
      compare_call(&r, &code, &call, 2, (const size_t[]){m * n, m}, 0, "crossing");
      region_close(&x);
    }
    code_close(&code);
    rig_close(&r);
  }
}

// y[n, 2]: the running sum of x, then the running maximum of that sum: one reduction feeds another.
static void test_running_chain(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_size(&r), sizes[2] = {n, rig_const(&r, 2)};
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 2, sizes, NULL);
  rig_kernel(&r, "chain");
  rig_stage(&r);
  dt_sym_t i = rig_inner(&r, n), at[2] = {i, rig_const(&r, 0)};
  // The second reduction comes first in the list: its operand asks for the first one's step.
  uint32_t load = rig_load(&r, x, &i);
  dt_reduction_t most = {.kind = DT_REDUCE_MAX, .index = DT_NO_INST, .row = 1, .dtype = DT_F32};
  assert_true(DT_VEC_PUSH(&r.arena, &r.stage.reductions, most));
  uint32_t row = rig_fold(&r, DT_REDUCE_SUM, load, DT_NO_INST);
  r.kernel.n_rows = 2;
  uint32_t sum = rig_running(&r, row, DT_F32);
  r.stage.reductions.items[0].value = sum;
  uint32_t largest = rig_running(&r, 1, DT_F32);
  rig_store(&r, y, at, sum);
  at[1] = rig_const(&r, 1);
  rig_store(&r, y, at, largest);
  rig_stage_end(&r);
  rig_schedule(&r, schedule_of(&r, 0, DT_F32));
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  for (int64_t size = 0; size < 30; size += 7) {
    region_t in;
    take(DT_F32, &in, (size_t)size, 5);
    call_t call = {.symbols = {size}, .inputs = {in.at}};
    compare_call(&r, &code, &call, 1, (const size_t[]){(size_t)size * 2}, 0, "chain");
    region_close(&in);
  }
  code_close(&code);
  rig_close(&r);
}

// ---- Searches --------------------------------------------------------------------------------------

// y[m, n] = where v[m, n] belongs in s[k], whose elements lie `stride` apart; z[m, n] = where v[0,
// 0] does (found once, if the loops run).
static void search_program(rig_t *r, dt_dtype_t dtype, bool inclusive, int64_t stride, int which) {
  dt_sym_t k = rig_size(r), sizes[2] = {rig_size(r), rig_size(r)}, at[2],
           step = rig_const(r, stride);
  dt_buffer_id_t s = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 1, &k, &step);
  dt_buffer_id_t v = rig_buffer(r, DT_BUFFER_INPUT, dtype, 1, 2, sizes, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, DT_I64, 0, 2, sizes, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_I64, 1, 2, sizes, NULL);
  rig_kernel(r, "search");
  at[0] = rig_outer(r, sizes[0]);
  rig_stage(r);
  at[1] = rig_inner(r, sizes[1]);
  dt_sym_t first[2] = {rig_const(r, 0), rig_const(r, 0)};
  rig_store(r, y, at, rig_search(r, s, rig_load(r, v, at), inclusive));
  rig_store(r, z, at, rig_search(r, s, rig_load(r, v, first), inclusive));
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, which, DT_I64));
  rig_kernel_end(r);
}

static void sort(dt_dtype_t dtype, char *at, int64_t n, int64_t stride) {
  size_t size = dt_dtype_size(dtype);
  for (int64_t i = 1; i < n; i++) {
    for (int64_t j = i; j > 0; j--) {
      char *a = at + (size_t)((j - 1) * stride) * size, *b = at + (size_t)(j * stride) * size;
      dt_scalar_t x = dt__scalar_load(dtype, a), y = dt__scalar_load(dtype, b);
      if (dt__dtype_is_float(dtype) ? x.f <= y.f : x.i <= y.i)
        break;
      dt__scalar_store(dtype, a, y);
      dt__scalar_store(dtype, b, x);
    }
  }
}

static void check_search(dt_dtype_t dtype, bool inclusive, int64_t stride, int which, bool sorted) {
  rig_t r;
  code_t code;
  rig_open(&r);
  search_program(&r, dtype, inclusive, stride, which);
  rig_compile(&r, &code);
  const int64_t ks[] = {0, 1, 2, 3, 8, 100}, ns[] = {0, 1, 9, 16}, ms[] = {1, 3, 19};
  for (int i = 0; i < 72; i++) {
    int64_t k = ks[i % 6], n = ns[i / 6 % 4], m = ms[i / 24];
    size_t count = (size_t)(m * n);
    region_t s, v;
    char what[96];
    snprintf(what, sizeof(what), "search in %lld %s, schedule %d, %lld x %lld", (long long)k,
             dt_dtype_name(dtype), which, (long long)m, (long long)n);
    take(dtype, &s, k ? (size_t)((k - 1) * stride + 1) : 0, (uint32_t)i);
    take(dtype, &v, count, (uint32_t)i + 100);
    if (sorted)
      sort(dtype, s.at, k, stride);
    if (dt__dtype_is_float(dtype) && count > 3)
      dt__scalar_store(dtype, (char *)v.at + 3 * dt_dtype_size(dtype), (dt_scalar_t){.f = NAN});
    call_t call = {.symbols = {k, m, n}, .inputs = {s.at, v.at}, .pieces = 2};
    compare_call(&r, &code, &call, 2, (const size_t[]){count, count}, 0, what);
    region_close(&s);
    region_close(&v);
  }
  code_close(&code);
  rig_close(&r);
}

static void test_search(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_U64, DT_I32, DT_I16, DT_I8, DT_U8};
  for (int which = 0; which < N_SCHEDULES; which++)
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
      check_search(dtypes[d], d % 2, d % 3 ? 1 : 3, which, true);
  for (int which = 0; which < N_SCHEDULES; which++) {
    check_search(DT_I64, true, 1, which, false); // any order: the same number everywhere
    check_search(DT_F32, false, 1, which, false);
  }
}

// ---- Stores under masks ------------------------------------------------------------------------------

// y[at] = x[i] where c[i], 0 - x[i] elsewhere, by two kernels; at = i, n - 1 - i or 2 i and 2 i + 1
// (then both are written). q[] = x[n - 1], stored by the iteration that has it.
static void masked_program(rig_t *r, dt_dtype_t dtype, int order, int which) {
  dt_sym_t n = rig_size(r), two = rig_const(r, 2);
  dt_sym_t wide = order == 2 ? dt__sym_mul(r->env, n, two) : n;
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 1, &n, NULL);
  dt_buffer_id_t c = rig_buffer(r, DT_BUFFER_INPUT, DT_BOOL, 1, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, 1, &wide, NULL);
  dt_buffer_id_t q = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 1, 0, NULL, NULL);
  for (int kernel = 0; kernel < 2; kernel++) {
    rig_kernel(r, "masked");
    dt_sym_t i = which == 3 ? (dt_sym_t){0} : rig_outer(r, n), at;
    rig_stage(r);
    if (which == 3)
      i = rig_inner(r, n);
    uint32_t value = rig_load(r, x, &i), mask = rig_load(r, c, &i);
    dt_sym_t last = dt__sym_sub(r->env, n, rig_const(r, 1));
    if (kernel == 0) {
      uint32_t here = rig_index(r, DT_BOOL, dt__sym_eq(r->env, i, last));
      rig_store_masked(r, q, NULL, value, here);
    } else {
      mask = rig_op(r, DT_SCALAR_logical_not, mask, DT_NO_INST, DT_NO_INST);
      value = rig_op(r, DT_SCALAR_sub, rig_literal(r, dtype, 0), value, DT_NO_INST);
    }
    at = order == 0 ? i : order == 1 ? dt__sym_sub(r->env, last, i) : dt__sym_mul(r->env, i, two);
    rig_store_masked(r, y, &at, value, mask);
    if (order == 2) {
      at = dt__sym_add(r->env, at, rig_const(r, 1));
      rig_store_masked(r, y, &at, value, mask);
    }
    rig_stage_end(r);
    rig_schedule(r, schedule_of(r, which, dtype));
    rig_kernel_end(r);
  }
}

static void test_masked_stores(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_I32, DT_I16, DT_I8};
  for (int which = 0; which < N_SCHEDULES; which++) {
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
      for (int order = 0; order < 3; order++) {
        rig_t r;
        code_t code;
        rig_open(&r);
        masked_program(&r, dtypes[d], order, which);
        rig_compile(&r, &code);
        const int64_t sizes[] = {1, 2, 15, 64, 131};
        for (int s = 0; s < 5; s++) {
          size_t n = (size_t)sizes[s];
          region_t x, c;
          char what[96];
          snprintf(what, sizeof(what), "%s, schedule %d, order %d, %zu elements",
                   dt_dtype_name(dtypes[d]), which, order, n);
          take(dtypes[d], &x, n, (uint32_t)s);
          take(DT_BOOL, &c, n, (uint32_t)s + 9);
          call_t call = {.symbols = {sizes[s]}, .inputs = {x.at, c.at}, .pieces = 3};
          compare_call(&r, &code, &call, 2, (const size_t[]){order == 2 ? 2 * n : n, 1}, 0, what);
          region_close(&x);
          region_close(&c);
        }
        code_close(&code);
        rig_close(&r);
      }
    }
  }
}

// ---- Places that come from data ------------------------------------------------------------------------

// The elements of x[n] that are greater than 0, in order: how many there are is an item, the place
// of each is the running count before it. `which` 0: one loop that counts and stores; else places
// are kept and stored from by lanes.
static void compress_program(rig_t *r, dt_dtype_t dtype, int which) {
  dt_sym_t n = rig_size(r);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 1, &n, NULL);
  dt_buffer_id_t p = rig_buffer(r, DT_BUFFER_TEMP, DT_I64, 0, 1, &n, NULL);
  dt_buffer_id_t total = rig_buffer(r, DT_BUFFER_TEMP, DT_I64, 0, 0, NULL, NULL);
  rig_kernel(r, "count");
  rig_stage(r);
  dt_sym_t i = rig_inner(r, n);
  uint32_t wanted =
      rig_op(r, DT_SCALAR_gt, rig_load(r, x, &i), rig_literal(r, dtype, 0), DT_NO_INST);
  uint32_t row = rig_fold(r, DT_REDUCE_SUM, rig_cast(r, DT_I64, wanted), DT_NO_INST);
  uint32_t place =
      rig_op(r, DT_SCALAR_sub, rig_running(r, row, DT_I64), rig_literal(r, DT_I64, 1), DT_NO_INST);
  rig_store(r, p, &i, place);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, total, NULL, rig_row(r, row, DT_I64));
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, 0, dtype));
  rig_kernel_end(r);
  dt_sym_t u = rig_item(r, total, 0, LARGEST, "compress");
  rig_segment(r);

  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, 1, &u, NULL);
  rig_kernel(r, "place");
  i = which ? rig_outer(r, n) : (dt_sym_t){0};
  rig_stage(r);
  if (!which)
    i = rig_inner(r, n);
  uint32_t value = rig_load(r, x, &i);
  wanted = rig_op(r, DT_SCALAR_gt, value, rig_literal(r, dtype, 0), DT_NO_INST);
  if (which) {
    place = rig_load(r, p, &i);
  } else {
    row = rig_fold(r, DT_REDUCE_SUM, rig_cast(r, DT_I64, wanted), DT_NO_INST);
    place = rig_op(r, DT_SCALAR_sub, rig_running(r, row, DT_I64), rig_literal(r, DT_I64, 1),
                   DT_NO_INST);
  }
  dt_sym_t d = dt__program_new_data(r->program, u);
  uint32_t bound = rig_bind_masked(r, d, u, place, wanted, "compress: place");
  rig_store_masked(r, y, &d, value, bound);
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, which, dtype));
  rig_kernel_end(r);
  rig_segment(r);
}

static void test_compress(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_I32, DT_I16, DT_I8};
  for (int which = 0; which < 3; which++) {
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
      rig_t r;
      code_t code;
      rig_open(&r);
      compress_program(&r, dtypes[d], which);
      rig_compile(&r, &code);
      const int64_t sizes[] = {0, 1, 2, 15, 64, 333};
      for (int s = 0; s < 6; s++) {
        size_t n = (size_t)sizes[s], count = 0;
        region_t x;
        take(dtypes[d], &x, n, (uint32_t)s + 1);
        for (size_t i = 0; i < n; i++) {
          dt_scalar_t v = dt__scalar_load(dtypes[d], (char *)x.at + i * dt_dtype_size(dtypes[d]));
          count += dt__dtype_is_float(dtypes[d]) ? v.f > 0 : v.i > 0;
        }
        call_t call = {.symbols = {sizes[s]}, .inputs = {x.at}, .pieces = 3};
        compare_call(&r, &code, &call, 1, &count, 0, dt_dtype_name(dtypes[d]));
        assert_int_equal(call.output_sizes[0], count);
        assert_int_equal(call.record.check, 0);
        region_close(&x);
      }
      code_close(&code);
      rig_close(&r);
    }
  }
}

// y[i] = c[i] ? t[p[i]] : 0: a bind that is masked says nothing about what it leaves out.
static void test_masked_binds(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t n = rig_size(&r), k = rig_size(&r);
    dt_buffer_id_t t = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &k, NULL);
    dt_buffer_id_t p = rig_buffer(&r, DT_BUFFER_INPUT, DT_I32, 1, 1, &n, NULL);
    dt_buffer_id_t c = rig_buffer(&r, DT_BUFFER_INPUT, DT_BOOL, 2, 1, &n, NULL);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
    rig_kernel(&r, "gather");
    dt_sym_t i = rig_outer(&r, n), d = dt__program_new_data(r.program, k);
    rig_stage(&r);
    uint32_t mask = rig_load(&r, c, &i);
    uint32_t bound = rig_bind_masked(&r, d, k, rig_load(&r, p, &i), mask, "place");
    rig_store(&r, y, &i, rig_load_masked(&r, t, &d, bound, DT_NO_INST));
    rig_stage_end(&r);
    rig_schedule(&r, schedule_of(&r, which, DT_F32));
    rig_kernel_end(&r);
    rig_compile(&r, &code);
    float table[3] = {1, 2, 3};
    int32_t places[40];
    uint8_t wanted[40];
    for (int64_t j = 0; j < 40; j++) {
      wanted[j] = j % 3 != 1;
      places[j] = wanted[j] ? (int32_t)(j % 6) - 3 : INT32_MAX - (int32_t)j;
    }
    call_t call = {.symbols = {39, 3}, .inputs = {table, places, wanted}, .pieces = 2};
    compare_call(&r, &code, &call, 1, (const size_t[]){39}, 0, "masked bind");
    assert_int_equal(call.record.check, 0);
    float out[40];
    call.symbols[1] = 0; // nothing is in range, and nothing is wanted
    call.outputs[0] = out;
    memset(wanted, 0, sizeof(wanted));
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.record.check, 0);
    wanted[7] = 1;
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.record.check, 1);
    assert_int_equal(call.record.value, places[7]);
    assert_int_equal(call.record.extent, 0);
    code_close(&code);
    rig_close(&r);
  }
}

// Places that are not in range: the failure is recorded and nothing is written anywhere.
static void test_scatter_out_of_range(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t n = rig_size(&r), k = rig_size(&r);
    dt_buffer_id_t p = rig_buffer(&r, DT_BUFFER_INPUT, DT_I64, 0, 1, &n, NULL);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_I32, 0, 1, &k, NULL);
    rig_kernel(&r, "scatter");
    dt_sym_t i = rig_outer(&r, n), d = dt__program_new_data(r.program, k);
    rig_stage(&r);
    uint32_t bound = rig_bind(&r, d, k, rig_load(&r, p, &i), "place");
    rig_store_masked(&r, y, &d, rig_index(&r, DT_I32, i), bound);
    rig_stage_end(&r);
    rig_schedule(&r, schedule_of(&r, which, DT_I32));
    rig_kernel_end(&r);
    rig_compile(&r, &code);
    int64_t places[21];
    for (int64_t j = 0; j < 21; j++)
      places[j] = j % 2 ? INT64_MAX - j : -1000 - j;
    places[4] = 2;
    region_t out = region_open(5 * sizeof(int32_t));
    memset(out.at, 0x55, 5 * sizeof(int32_t));
    call_t call = {.symbols = {21, 5}, .inputs = {places}, .outputs = {out.at}};
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.record.check, 1);
    assert_int_equal(call.record.extent, 5);
    for (int j = 0; j < 5; j++)
      assert_int_equal(((int32_t *)out.at)[j], j == 2 ? 4 : 0x55555555);
    region_close(&out);
    code_close(&code);
    rig_close(&r);
  }
}

// ---- Updates of arguments --------------------------------------------------------------------------------

// x[i, j] = x[i, j] + 1 for an argument with strides of its own, by way of a temporary.
static void test_updates(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t sizes[2] = {rig_size(&r), rig_size(&r)}, strides[2], at[2];
    for (int d = 0; d < 2; d++) {
      dt_range_t any = {INT64_MIN, INT64_MAX};
      strides[d] = dt__sym_new(r.env, DT_SYMBOL_INT, any, NULL, "stride");
    }
    dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 2, sizes, strides);
    dt_buffer_id_t t = rig_buffer(&r, DT_BUFFER_TEMP, DT_F32, 0, 2, sizes, NULL);
    for (int kernel = 0; kernel < 2; kernel++) {
      rig_kernel(&r, "update");
      at[0] = rig_outer(&r, sizes[0]);
      at[1] = rig_outer(&r, sizes[1]);
      rig_stage(&r);
      uint32_t value = rig_load(&r, kernel ? t : x, at);
      if (kernel == 0)
        value = rig_op(&r, DT_SCALAR_add, value, rig_literal(&r, DT_F32, 1), DT_NO_INST);
      rig_store(&r, kernel ? x : t, at, value);
      rig_stage_end(&r);
      rig_schedule(&r, schedule_of(&r, which, DT_F32));
      rig_kernel_end(&r);
    }
    rig_compile(&r, &code);
    const int64_t cases[][4] = {{0, 3, 3, 1}, {1, 1, 7, 9},   {5, 9, 9, 1},
                                {5, 9, 1, 5}, {4, 33, 80, 2}, {4, 33, -80, -2}};
    for (int c = 0; c < 6; c++) {
      int64_t m = cases[c][0], n = cases[c][1], sm = cases[c][2], sn = cases[c][3];
      float data[400], want[400];
      for (int e = 0; e < 400; e++)
        want[e] = data[e] = (float)e;
      int64_t start = sm < 0 ? 399 : 0;
      for (int64_t i = 0; i < m * n; i++)
        want[start + i / n * sm + i % n * sn] += 1;
      call_t call = {.symbols = {m, n, sm, sn}, .inputs = {data + start}, .pieces = 2};
      assert_int_equal(code_call(&code, &call), 0);
      assert_memory_equal(data, want, sizeof(data));
    }
    code_close(&code);
    rig_close(&r);
  }
}

// Lanes over a loop whose iterations must follow each other are refused.
static void test_refusals(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  running_program(&r, DT_REDUCE_SUM, DT_F32, 3);
  expect_code(rig_try_compile(&r, &code), DT_E_INTERNAL);
  rig_close(&r);
}

RUN_RIG_TESTS(TEST(test_running), TEST(test_priors), TEST(test_running_chain), TEST(test_search),
              TEST(test_masked_stores), TEST(test_compress), TEST(test_masked_binds),
              TEST(test_scatter_out_of_range), TEST(test_updates), TEST(test_refusals))
