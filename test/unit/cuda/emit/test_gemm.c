// SPDX-License-Identifier: Apache-2.0
// Matrix products by the GPU's template, on the simulator: operand layouts, element types, sizes
// around the edges of tiles, what follows a product, and several tiles a block.
#include "test/unit/cuda/emit/gemm_graph.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "test/unit/cuda/emit/gpu_rig.h"
#include "test/unit/cuda/ptx/ptx_fixture.h"

static const dt_cuda_model_t h200 = {9, 0, 132, 227 << 10, 50 << 20};
static const dt_cuda_model_t tiny = {9, 0, 1, 227 << 10, 50 << 20}; // any tile is enough for it

typedef struct sizes_t {
  int64_t m, n, k, batch;
} sizes_t;

typedef struct tile_t {
  uint32_t rows, cols, ring, cluster;
} tile_t;

static void expect_tile(gpu_rig_t *r, const int64_t *numbers, const tile_t *wanted) {
  int64_t *symbols = gpu_rig_symbols(r, numbers, 4);
  for (uint32_t k = 0; k < r->program->kernels.len; k++) {
    gpu_launch_t l;
    gpu_rig_launch(r, k, symbols, &l);
    if (l.schedule->kind != DT_SCHEDULE_TEAM_MATMUL)
      continue;
    const dt_team_matmul_t *m = &l.schedule->team_matmul;
    if (m->tile_rows != wanted->rows || m->tile_cols != wanted->cols || m->ring != wanted->ring ||
        dt__matmul_cluster(m) != wanted->cluster)
      fail_msg("%lld x %lld x %lld: tile %u x %u ring %u by %u", (long long)numbers[0],
               (long long)numbers[1], (long long)numbers[2], m->tile_rows, m->tile_cols, m->ring,
               dt__matmul_cluster(m));
  }
  free(symbols);
}

// `tile`: of all sizes; NULL: any.
static void check(const gemm_case_t *c, const dt_cuda_model_t *model, const sizes_t *sizes,
                  uint32_t n, const tile_t *tile) {
  dt_text_t text;
  gpu_rig_t r;
  int64_t all[16][4];
  assert_true(n <= 16);
  for (uint32_t i = 0; i < n; i++)
    memcpy(all[i], (int64_t[]){sizes[i].m, sizes[i].n, sizes[i].k, sizes[i].batch}, sizeof(all[i]));
  gpu_rig_open_for(&r, gemm_graph(c, &text), model, c->strict, (const int64_t (*)[4])all, n);
  for (uint32_t i = 0; i < n; i++) {
    const int64_t *numbers = all[i];
    char what[128];
    (void)snprintf(what, sizeof(what), "%s%s%s%s%s follow %d, %lld x %lld x %lld, batch %lld",
                   c->dtype, c->a_turned ? " A'" : "", c->b_turned ? " B'" : "",
                   c->batched ? " batched" : "", c->strict ? " strict" : "", (int)c->follow,
                   (long long)numbers[0], (long long)numbers[1], (long long)numbers[2],
                   (long long)numbers[3]);
    gpu_rig_run(&r, cuda, numbers, 4, 2, what);
    expect_none();
    if (tile)
      expect_tile(&r, numbers, tile);
  }
  gpu_rig_close(&r);
  dt__text_fini(&text);
}

// Flat tiles (at most 16 rows), small ones; aligned and not; empty.
static const sizes_t shapes[] = {{16, 64, 64, 1},  {3, 33, 5, 1}, {1, 64, 40, 1}, {40, 72, 24, 1},
                                 {65, 67, 131, 1}, {0, 8, 8, 1},  {8, 0, 8, 1},   {17, 8, 0, 1}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void check_layouts(const char *dtype, bool strict) {
  for (int turned = 0; turned < 4; turned++) {
    gemm_case_t c = {
        .dtype = dtype, .a_turned = turned & 1, .b_turned = turned & 2, .strict = strict};
    check(&c, &h200, shapes, N_SHAPES, NULL);
  }
}

static void test_f32(void **state) {
  (void)state;
  check_layouts("f32", false);
}

static void test_f64(void **state) {
  (void)state;
  check_layouts("f64", false);
}

static void test_i32(void **state) {
  (void)state;
  check_layouts("i32", false);
}

static void test_f16(void **state) {
  (void)state;
  check_layouts("f16", false);
}

static void test_bf16(void **state) {
  (void)state;
  check_layouts("bf16", false);
}

// Large tiles, several to a block, and the edges of the matrix inside of them.
static void test_large(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f16", "f64"};
  static const sizes_t large[] = {{136, 264, 40, 1}, {130, 129, 17, 1}};
  for (uint32_t d = 0; d < 3; d++)
    for (int turned = 0; turned < 4; turned += 3) {
      gemm_case_t c = {.dtype = dtypes[d], .a_turned = turned & 1, .b_turned = turned & 2};
      check(&c, &tiny, large, 2, NULL);
    }
}

// Tiles of groups of warps, which sizes and the number of processors choose: whole and partial
// ones, by units and by elements, sums that go around the ring, and sums that clusters share.
typedef struct group_case_t {
  int processors;
  sizes_t sizes[2];
  tile_t tile;
  unsigned turned; // ways in which operands may lie, a bit each
} group_case_t;

enum { ALL_TURNED = 15, BOTH_TURNED = 9, B_TURNED = 4, A_TURNED = 2 };
static const group_case_t group_cases[] = {
    {4, {{72, 104, 136, 1}, {70, 100, 67, 1}}, {64, 64, 4, 1}, BOTH_TURNED},
    {1, {{136, 40, 136, 1}, {130, 33, 67, 1}}, {64, 64, 3, 1}, BOTH_TURNED},
    {2, {{40, 136, 392, 1}, {33, 131, 40, 1}}, {64, 128, 4, 1}, BOTH_TURNED},
    {2, {{136, 184, 264, 1}, {130, 131, 65, 1}}, {128, 192, 4, 1}, ALL_TURNED},
    {5, {{136, 136, 392, 1}, {129, 130, 66, 1}}, {128, 128, 3, 1}, A_TURNED},
    {1, {{136, 136, 200, 1}, {129, 130, 66, 1}}, {128, 128, 3, 1}, BOTH_TURNED},
    {1, {{72, 200, 2056, 1}, {65, 195, 2049, 1}}, {128, 256, 4, 1}, A_TURNED},
    {4, {{72, 104, 1032, 1}, {70, 100, 1027, 1}}, {64, 64, 3, 1}, B_TURNED},
    {8, {{72, 104, 1160, 1}, {70, 100, 1027, 1}}, {64, 64, 3, 2}, BOTH_TURNED},
    {8, {{136, 136, 2056, 1}, {130, 131, 2050, 1}}, {128, 128, 3, 2}, A_TURNED},
    {2, {{16, 40, 1280, 1}, {5, 33, 1025, 1}}, {64, 64, 3, 2}, BOTH_TURNED}}; // few rows
#define N_GROUP_CASES (sizeof(group_cases) / sizeof(group_cases[0]))
#define SHARED_CASE 8
#define ALONE_CASE 3

static void check_group(const gemm_case_t *c, const group_case_t *g) {
  dt_cuda_model_t model = h200;
  model.processors = g->processors;
  check(c, &model, g->sizes, 2, c->strict ? NULL : &g->tile);
}

static void test_groups_f16(void **state) {
  (void)state;
  for (size_t i = 0; i < N_GROUP_CASES; i++)
    for (int turned = 0; turned < 4; turned++) {
      gemm_case_t c = {.dtype = "f16", .a_turned = turned & 1, .b_turned = turned & 2};
      if (group_cases[i].turned >> turned & 1)
        check_group(&c, &group_cases[i]);
    }
}

static void test_groups_bf16(void **state) {
  (void)state;
  for (int follow = GEMM_BIAS_GELU; follow <= GEMM_TWO_RESULTS; follow++) {
    gemm_case_t c = {.dtype = "bf16", .follow = (gemm_follow_t)follow};
    check_group(&c, &group_cases[ALONE_CASE]);
    check_group(&c, &group_cases[SHARED_CASE]);
  }
}

static void test_groups_strict(void **state) {
  (void)state;
  static const group_case_t wide = {.processors = 2,
                                    .sizes = {{136, 184, 72, 1}, {130, 131, 17, 1}}};
  for (int turned = 0; turned < 4; turned += 3) {
    gemm_case_t c = {
        .dtype = "f16", .a_turned = turned & 1, .b_turned = turned & 2, .strict = true};
    check_group(&c, &wide);
  }
}

static void test_batches(void **state) {
  (void)state;
  static const sizes_t batches[] = {{20, 24, 40, 3}, {5, 9, 7, 2}, {20, 24, 40, 0}};
  static const char *const dtypes[] = {"f32", "bf16"};
  for (uint32_t d = 0; d < 2; d++)
    for (int turned = 0; turned < 4; turned++) {
      gemm_case_t c = {
          .dtype = dtypes[d], .a_turned = turned & 1, .b_turned = turned & 2, .batched = true};
      check(&c, &h200, batches, 3, NULL);
    }
}

static void test_followed(void **state) {
  (void)state;
  static const sizes_t some[] = {{24, 72, 40, 1}, {7, 35, 9, 1}};
  static const char *const dtypes[] = {"f32", "f16", "bf16", "f64"};
  for (uint32_t d = 0; d < 4; d++)
    for (int follow = GEMM_BIAS_GELU; follow <= GEMM_TWO_RESULTS; follow++) {
      gemm_case_t c = {.dtype = dtypes[d], .follow = (gemm_follow_t)follow};
      check(&c, &h200, some, 2, NULL);
    }
}

static void test_strict(void **state) {
  (void)state;
  check_layouts("f32", true);
  check_layouts("f16", true);
}

// Operands that are no plain matrices: rows picked by an index from data, elements under a mask
// with something else in their place, indices that no stride describes. Integers, so that the order
// of sums is no matter; the stage after the product keeps a row of its own in LOCAL memory.
static const char odd_operands[] =
    "program {\n"
    "symbol s0: [0, 1000]\nsymbol s1: [0, 1000]\nsymbol s2: [0, 1000]\nsymbol s3: [1, 1000]\n"
    "buffer b1 = input 0 i32[s3, s2] strides [s2, 1]\n"
    "buffer b2 = input 1 i32[s2, s1] strides [1, s2]\n"
    "buffer b3 = input 2 i64[s0] strides [1]\n"
    "buffer b4 = output 0 i32[s0, s1]\n"
    "buffer b5 = local i32[3]\n"
    "check 0 \"gather: index of a\" op \"gather\"\n"
    "kernel \"odd\" outer i4 < s0, i5 < s1 {\n"
    "  stage inner i6 < s2 {\n"
    "    v0 = load i64 b3[i4]\n"
    "    v1 = bind d7: [0, 999] < s3 of v0 check 0\n"
    "    v2 = load i32 b1[d7, i6] mask v1\n"
    "    v3 = index bool i5 + i6 < s1\n"
    "    v4 = const i32 3\n"
    "    v5 = load i32 b2[i6*7%s2, i5] mask v3 else v4\n"
    "    v6 = mul i32 v2, v5\n"
    "    reduce sum i32 r0 = v6\n"
    "  }\n"
    "  stage inner i8 < 3 {\n"
    "    v0 = row i32 r0\n"
    "    v1 = index i32 i8\n"
    "    v2 = add i32 v0, v1\n"
    "    store b5[i8] = v2\n"
    "  }\n"
    "  stage inner i9 < 3 {\n"
    "    v0 = load i32 b5[i9]\n"
    "    reduce sum i32 r1 = v0\n"
    "  }\n"
    "  stage {\n"
    "    v0 = row i32 r1\n"
    "    store b4[i4, i5] = v0\n"
    "  }\n"
    "  schedule team_matmul lanes 4 unroll 1 block 1 grain 1 team 256 a v2 b v5 tile 16 64 "
    "groups 8 of 16 32 depth 64 ring 4\n"
    "}\n"
    "outputs b4\n"
    "}\n";

static void run_loops(const char *program, const int64_t (*sizes)[4], uint32_t n,
                      const char *what) {
  gpu_rig_t r;
  gpu_rig_open_loops(&r, program, &h200);
  for (uint32_t i = 0; i < n; i++) {
    gpu_rig_run(&r, cuda, sizes[i], 4, 2, what);
    expect_none();
  }
  gpu_rig_close(&r);
}

static void test_odd_operands(void **state) {
  (void)state;
  static const int64_t sizes[][4] = {{16, 64, 64, 9}, {19, 70, 33, 9}, {3, 5, 0, 9}};
  run_loops(odd_operands, sizes, 3, "operands by index and mask");
}

// Rows that repeat, as those of windows that images are cut into: elements of a row are neighbours,
// rows are at no stride; and steps of the sum at none, whose columns are neighbours.
static const char repeated_operands[] =
    "program {\n"
    "symbol s0: [0, 1000]\nsymbol s1: [0, 1000]\nsymbol s2: [0, 1000]\nsymbol s3: [1, 1000]\n"
    "buffer b1 = input 0 i32[s3, s2] strides [s2, 1]\n"
    "buffer b2 = input 1 i32[s3, s1] strides [s1, 1]\n"
    "buffer b3 = output 0 i32[s0, s1]\n"
    "kernel \"repeated\" outer i4 < s0, i5 < s1 {\n"
    "  stage inner i6 < s2 {\n"
    "    v0 = load i32 b1[i4%s3, i6]\n"
    "    v1 = load i32 b2[i6%s3, i5]\n"
    "    v2 = mul i32 v0, v1\n"
    "    reduce sum i32 r0 = v2\n"
    "  }\n"
    "  stage {\n"
    "    v0 = row i32 r0\n"
    "    store b3[i4, i5] = v0\n"
    "  }\n"
    "  schedule team_matmul lanes 4 unroll 1 block 1 grain 1 team 256 a v0 b v1 tile 16 64 "
    "groups 8 of 16 32 depth 64 ring 4\n"
    "}\n"
    "outputs b3\n"
    "}\n";

static void test_repeated_operands(void **state) {
  (void)state;
  static const int64_t sizes[][4] = {{16, 64, 64, 4}, {19, 72, 36, 12}, {3, 5, 7, 9}};
  run_loops(repeated_operands, sizes, 3, "operands that repeat");
}

int main(int argc, char **argv) {
  library = argc > 1 ? argv[1] : "";
  if (argc > 2) // a pattern: only the tests that match
    cmocka_set_test_filter(argv[2]);
  const struct CMUnitTest tests[] = {ON_DEVICE(test_f32),
                                     ON_DEVICE(test_f64),
                                     ON_DEVICE(test_i32),
                                     ON_DEVICE(test_f16),
                                     ON_DEVICE(test_bf16),
                                     ON_DEVICE(test_large),
                                     ON_DEVICE(test_batches),
                                     ON_DEVICE(test_followed),
                                     ON_DEVICE(test_strict),
                                     ON_DEVICE(test_odd_operands),
                                     ON_DEVICE(test_repeated_operands),
                                     ON_DEVICE(test_groups_f16),
                                     ON_DEVICE(test_groups_bf16),
                                     ON_DEVICE(test_groups_strict)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
