// SPDX-License-Identifier: Apache-2.0
// One core's f32 matrix product by the matrix template, against the core's own multiply-add peak
// measured between the repeats, both in the thread's own processor time. B is packed beforehand, as
// constants are.
#include "bench/harness.h"

#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "backend_llvm/load/native.h"
#include "runtime/base/status.h"

#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: bench_matmul [M N K [TILE_ROWS TILE_COLS [ROWS]]]\n"
    "\n"
    "Measures f32 products of M x K by K x N on one core beside its multiply-adds alone: some "
    "sizes, or one;\n"
    "by the tile that is given, and the micro-kernel's rows. Prints JSON lines.\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- Peak --------------------------------------------------------------------------------------------
__attribute__((target("avx512f"))) static float peak_512(int64_t n) {
  __m512 acc[12], x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-9f);
  for (int i = 0; i < 12; i++)
    acc[i] = _mm512_set1_ps((float)i);
  for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
      acc[i] = _mm512_fmadd_ps(acc[i], x, y);
  for (int i = 1; i < 12; i++)
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  return _mm512_reduce_add_ps(acc[0]);
}

__attribute__((target("avx2,fma"))) static float peak_256(int64_t n) {
  __m256 acc[12], x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-9f);
  for (int i = 0; i < 12; i++)
    acc[i] = _mm256_set1_ps((float)i);
  for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
      acc[i] = _mm256_fmadd_ps(acc[i], x, y);
  for (int i = 1; i < 12; i++)
    acc[0] = _mm256_add_ps(acc[0], acc[i]);
  float out[8];
  _mm256_storeu_ps(out, acc[0]);
  return out[0];
}

static volatile float sink;

static double peak_gflops(bool wide) {
  int64_t n = 300000;
  double t = seconds();
  sink = wide ? peak_512(n) : peak_256(n);
  t = seconds() - t;
  return 12.0 * (wide ? 32 : 16) * (double)n / t * 1e-9;
}

// ---- The program -------------------------------------------------------------------------------------
typedef struct product_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
  dt_target_t target;
  dt_stage_t stages[2];
  dt_native_t *native, *host;
  dt_kernel_fn_t kernel;
  dt_host_plan_fn_t plan;
  dt_host_run_fn_t run;
} product_t;

static dt_buffer_id_t add_buffer(product_t *p, dt_buffer_kind_t kind, uint32_t index, uint32_t rank,
                                 const dt_sym_t *sizes) {
  dt_buffer_t buffer = {.kind = kind, .dtype = DT_F32, .rank = rank, .index = index};
  dt_sym_t stride = dt__sym_const(p->env, 1);
  for (uint32_t i = rank; i-- > 0;) {
    buffer.sizes[i] = sizes[i];
    buffer.strides[i] = stride;
    stride = dt__sym_mul(p->env, stride, sizes[i]);
  }
  dt_buffer_id_t id;
  die(dt__program_add_buffer(p->program, &buffer, &id));
  return id;
}

static uint32_t add_inst(product_t *p, dt_stage_t *stage, dt_inst_t inst) {
  uint32_t id;
  die(dt__stage_add(p->program, stage, &inst, &id));
  return id;
}

static dt_inst_t load_inst(dt_buffer_id_t buffer, const dt_sym_t *index) {
  return (dt_inst_t){.kind = DT_INST_LOAD,
                     .dtype = DT_F32,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST,
                     .buffer = buffer,
                     .index = index};
}

static void build(product_t *p, uint32_t tile_rows, uint32_t tile_cols, uint32_t rows) {
  dt__arena_init(&p->arena, 0);
  die(dt__symenv_create(&p->env));
  p->program = dt__program_create(&p->arena, p->env, dt__graph_create(&p->arena, p->env));
  dt_range_t range = {0, DT_SIZE_LIMIT - 1};
  dt_sym_t m = dt__sym_new(p->env, DT_SYMBOL_SIZE, range, NULL, "");
  dt_sym_t n = dt__sym_new(p->env, DT_SYMBOL_SIZE, range, NULL, "");
  dt_sym_t k = dt__sym_new(p->env, DT_SYMBOL_SIZE, range, NULL, "");
  uint32_t width = p->target.matmul_width[0];
  dt_sym_t w = dt__sym_const(p->env, width);
  dt_sym_t a_shape[2] = {m, k}, c_shape[2] = {m, n};
  dt_sym_t b_shape[3] = {dt__sym_ceildiv(p->env, n, w), k, w};
  dt_buffer_id_t a = add_buffer(p, DT_BUFFER_INPUT, 0, 2, a_shape);
  dt_buffer_id_t b = add_buffer(p, DT_BUFFER_INPUT, 1, 3, b_shape);
  dt_buffer_id_t c = add_buffer(p, DT_BUFFER_OUTPUT, 0, 2, c_shape);
  (void)DT_VEC_PUSH(&p->arena, &p->program->outputs, c);
  dt_sym_t i = dt__sym_new_loop(p->env, m), j = dt__sym_new_loop(p->env, n);
  dt_sym_t l = dt__sym_new_loop(p->env, k);
  static dt_sym_t a_at[2], b_at[3], c_at[2];
  a_at[0] = c_at[0] = i;
  c_at[1] = j;
  a_at[1] = b_at[1] = l;
  b_at[0] = dt__sym_floordiv(p->env, j, w);
  b_at[2] = dt__sym_mod(p->env, j, w);
  p->stages[0] = (dt_stage_t){.n_loops = 1, .vars = {l}, .extents = {k}};
  uint32_t x = add_inst(p, &p->stages[0], load_inst(a, a_at));
  uint32_t y = add_inst(p, &p->stages[0], load_inst(b, b_at));
  dt_inst_t mul = load_inst((dt_buffer_id_t){0}, NULL);
  mul.kind = DT_INST_SCALAR;
  mul.op = DT_SCALAR_mul;
  mul.args[0] = x;
  mul.args[1] = y;
  dt_reduction_t reduction = {DT_REDUCE_SUM, add_inst(p, &p->stages[0], mul), DT_NO_INST, 0,
                              DT_F32};
  (void)DT_VEC_PUSH(&p->arena, &p->stages[0].reductions, reduction);
  dt_inst_t row = load_inst((dt_buffer_id_t){0}, NULL);
  row.kind = DT_INST_ROW;
  dt_store_t store = {c, c_at, add_inst(p, &p->stages[1], row), DT_NO_INST, false, false};
  (void)DT_VEC_PUSH(&p->arena, &p->stages[1].stores, store);
  dt_kernel_t kernel = {
      .name = "matmul", .n_loops = 2, .vars = {i, j}, .extents = {m, n}, .n_rows = 1};
  (void)DT_VEC_PUSH(&p->arena, &kernel.stages, p->stages[0]);
  (void)DT_VEC_PUSH(&p->arena, &kernel.stages, p->stages[1]);
  dt_schedule_t schedule = {.kind = DT_SCHEDULE_MATMUL,
                            .lanes = p->target.vector_bytes / 4,
                            .unroll = 2,
                            .grain = 1,
                            .matmul = {.a = x,
                                       .b = y,
                                       .tile_rows = tile_rows,
                                       .tile_cols = tile_cols,
                                       .width = width,
                                       .rows = rows}};
  (void)DT_VEC_PUSH(&p->arena, &kernel.schedules, schedule);
  (void)DT_VEC_PUSH(&p->arena, &p->program->kernels, kernel);
  for (uint32_t buffer = 0; buffer < 3; buffer++)
    (void)DT_VEC_PUSH(&p->arena, &p->program->offsets, (dt_sym_t){0});
  p->program->block_bytes = p->program->once_bytes = dt__sym_const(p->env, 0);
}

static double compile(product_t *p) {
  dt_unit_map_t map;
  dt_native_t *natives[2];
  dt_compile_options_t options = {.dump_name = "bench"};
  double kernel_ms = 0;
  die(dt__llvm_split(p->program, &p->target, 2, DT_UNIT_WORK_ANY, &map));
  for (uint32_t u = 0; u < 2; u++) {
    void *object;
    size_t bytes;
    double t = seconds();
    die(dt__llvm_compile_unit(p->program, &map, u, &p->target, &options, &object, &bytes));
    die(dt__native_load(object, bytes, &natives[u]));
    if (u == 0)
      kernel_ms = (seconds() - t) * 1e3;
    dt__free(object);
  }
  void *kernel = dt__native_symbol(natives[0], "dt_k0"),
       *plan = dt__native_symbol(natives[1], "dt_plan_0");
  void *run = dt__native_symbol(natives[1], "dt_run_0");
  memcpy(&p->kernel, &kernel, sizeof(kernel));
  memcpy(&p->plan, &plan, sizeof(plan));
  memcpy(&p->run, &run, sizeof(run));
  p->native = natives[0];
  p->host = natives[1];
  return kernel_ms;
}

static void *scratch;

static void launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                   int64_t grain) {
  (void)grain;
  fn(words, 0, count, scratch, &frame->record);
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(product_t *p, int64_t m, int64_t n, int64_t k, double compile_ms,
                    const char *variant) {
  uint32_t width = p->target.matmul_width[0];
  size_t panels = (size_t)((n + width - 1) / width);
  size_t a_count = (size_t)(m * k), b_count = panels * (size_t)k * width, c_count = (size_t)(m * n);
  float *a = dt__alloc_aligned((a_count + 64) * 4, 64),
        *b = dt__alloc_aligned((b_count + 64) * 4, 64);
  float *c = dt__alloc_aligned((c_count + 64) * 4, 64);
  for (size_t i = 0; i < a_count; i++)
    a[i] = (float)(i % 7) * 0.25f;
  for (size_t i = 0; i < b_count; i++)
    b[i] = (float)(i % 5) * 0.5f;
  int64_t symbols[3] = {m, n, k}, sizes[2];
  void *inputs[2] = {a, b}, *outputs[1] = {c};
  dt_frame_t frame = {.symbols = symbols,
                      .inputs = inputs,
                      .kernels = &p->kernel,
                      .output_sizes = sizes,
                      .outputs = outputs,
                      .launch = launch};
  if (p->plan(&frame) != 0)
    die(DT_FAIL(DT_E_INTERNAL, "plan refused"));
  scratch = dt__alloc_aligned((size_t)frame.scratch_bytes + 64, 64);
  double flops = 2.0 * (double)m * (double)n * (double)k;
  int64_t turns = (int64_t)(2e8 / flops) + 1;
  double rates[21], peaks[21];
  p->run(&frame);
  for (int r = 0; r < 21; r++) {
    peaks[r] = peak_gflops(p->target.vector_bytes == 64);
    double t = seconds();
    for (int64_t i = 0; i < turns; i++)
      p->run(&frame);
    rates[r] = flops * (double)turns / (seconds() - t) * 1e-9;
  }
  qsort(rates, 21, sizeof(double), compare_doubles);
  qsort(peaks, 21, sizeof(double), compare_doubles);
  printf("{\"bench\":\"matmul\",\"case\":\"%lldx%lldx%lld%s\",\"metric\":\"rate\",\"unit\":\"GFLOP/"
         "s\","
         "\"value\":%.1f,\"peer\":\"fma "
         "peak\",\"peer_value\":%.1f,\"ratio\":%.3f,\"compile_ms\":%.1f}\n",
         (long long)m, (long long)n, (long long)k, variant, rates[10], peaks[10],
         rates[10] / peaks[10], compile_ms);
  fflush(stdout);
  dt__free(a);
  dt__free(b);
  dt__free(c);
  dt__free(scratch);
}

int main(int argc, char **argv) {
  product_t p = {0};
  if (bench_help(argc, argv, usage))
    return 0;
  if (argc != 1 && argc != 4 && argc != 6 && argc != 7) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  die(dt__host_target("", 1, &p.target));
  if (p.target.vector_bytes < 32) {
    printf("{\"bench\":\"matmul\",\"skipped\":\"no AVX2\"}\n");
    return 0;
  }
  uint32_t rows = argc > 6 ? (uint32_t)atoi(argv[6]) : p.target.matmul_rows[0];
  uint32_t tile_rows = argc > 5 ? (uint32_t)atoi(argv[4]) : rows * 16;
  uint32_t tile_cols = argc > 5 ? (uint32_t)atoi(argv[5]) : p.target.matmul_width[0] * 12;
  char variant[64] = "";
  if (argc > 5)
    snprintf(variant, sizeof(variant), " tile %ux%u rows %u", tile_rows, tile_cols, rows);
  build(&p, tile_rows, tile_cols, rows);
  double ms = compile(&p);
  if (argc > 3) {
    measure(&p, atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), ms, variant);
  } else {
    const int64_t cases[][3] = {{1, 384, 384},    {1, 1536, 384},    {4, 384, 384},
                                {16, 1536, 384},  {128, 384, 384},   {128, 384, 1536},
                                {128, 1536, 384}, {2048, 2048, 2048}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
      measure(&p, cases[i][0], cases[i][1], cases[i][2], ms, variant);
  }
  dt__native_unload(p.native);
  dt__native_unload(p.host);
  dt__symenv_destroy(p.env);
  dt__arena_fini(&p.arena);
  return 0;
}
