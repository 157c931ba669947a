// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions of the PTX simulator: every shape, with factors that differ in every
// place, laid out over the lanes here as the PTX manual says, and matrices loaded and stored.
#include "test/unit/cuda/ptx/ptx_fixture.h"

// One shape: how a register's elements are spread. `per` elements a register of a factor.
typedef struct shape_t {
  const char *opcode;
  uint32_t rows, k, per, n_a, n_b, n_c;
  char factor, sum; // h: f16, b: bf16, t: tf32, f: f32, d: f64
} shape_t;

static const shape_t shapes[] = {
    {"m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 2, 4, 2, 4, 'h', 'f'},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 2, 4, 2, 4, 'b', 'f'},
    {"m16n8k16.row.col.f16.f16.f16.f16", 16, 16, 2, 4, 2, 2, 'h', 'h'},
    {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 2, 2, 1, 4, 'h', 'f'},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 2, 2, 1, 4, 'b', 'f'},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 1, 4, 2, 4, 't', 'f'},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 1, 2, 1, 4, 't', 'f'},
    {"m8n8k4.row.col.f64.f64.f64.f64", 8, 4, 1, 1, 1, 2, 'd', 'd'},
};

// A small integer in the format, by its definition; all of them are exact.
static uint64_t encode(int32_t x, char format) {
  if (format == 'd') {
    double value = x;
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  float value = (float)x;
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if (format == 'b')
    return bits >> 16;
  if (format != 'h' || x == 0)
    return bits;
  return (bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023);
}

static int32_t a_at(uint32_t row, uint32_t k) { return (int32_t)((row * 5 + k * 3) % 11) - 5; }
static int32_t b_at(uint32_t k, uint32_t column) { return (int32_t)((k * 7 + column) % 9) - 4; }
static int32_t c_at(uint32_t row, uint32_t column) { return (int32_t)(row * 8 + column) - 60; }

static void set(uint64_t words[32], uint32_t lane, uint32_t half, uint64_t bits) {
  words[lane] |= bits << 16 * half;
}

// Registers a0…, b0…, c0… of every lane, each in 8 bytes: register r of lane l is words[r][l].
static void spread(const shape_t *s, uint64_t words[10][32]) {
  memset(words, 0, sizeof(uint64_t[10][32]));
  uint32_t row_groups = s->rows / 8;
  for (uint32_t lane = 0; lane < 32; lane++) {
    uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t r = 0; r < s->n_a; r++)
      for (uint32_t h = 0; h < s->per; h++)
        set(words[r], lane, h,
            encode(a_at(g + 8 * (r % row_groups), t * s->per + h + r / row_groups * 4 * s->per),
                   s->factor));
    for (uint32_t r = 0; r < s->n_b; r++)
      for (uint32_t h = 0; h < s->per; h++)
        set(words[4 + r], lane, h, encode(b_at(t * s->per + h + 4 * s->per * r, g), s->factor));
    for (uint32_t r = 0; r < s->n_c; r++)
      for (uint32_t h = 0; h < (s->sum == 'h' ? 2u : 1u); h++)
        set(words[6 + r], lane, h,
            s->sum == 'h' ? encode(c_at(g + 8 * r, 2 * t + h), 'h')
                          : encode(c_at(g + 8 * (r / 2), 2 * t + r % 2), s->sum));
  }
}

static void list(char *out, size_t bytes, const char *reg, uint32_t first, uint32_t n) {
  size_t at = 0;
  out[at++] = '{';
  for (uint32_t k = 0; k < n; k++)
    at += (size_t)snprintf(out + at, bytes - at, "%s%%%s%u", k ? ", " : "", reg, first + k);
  (void)snprintf(out + at, bytes - at, "}");
}

static void run_shape(const shape_t *s, uint64_t in[10][32], uint64_t out[4][32]) {
  char body[4096], a[64], b[64], c[64], d[64];
  const char *sum = s->sum == 'd' ? "e" : s->sum == 'f' ? "f" : "r";
  const char *factor = s->factor == 'd' ? "e" : "r";
  list(a, sizeof(a), factor, 10, s->n_a);
  list(b, sizeof(b), factor, 14, s->n_b);
  list(c, sizeof(c), sum, 16, s->n_c);
  list(d, sizeof(d), sum, 0, s->n_c);
  size_t at = (size_t)snprintf(body, sizeof(body),
                               "mul.wide.u32 %%d3, %%r1, 8;\n"
                               "add.s64 %%d4, %%d0, %%d3;\n"
                               "add.s64 %%d5, %%d1, %%d3;\n");
  for (uint32_t r = 0; r < 10; r++) {
    const char *reg = r < 6 ? factor : sum;
    at += (size_t)snprintf(body + at, sizeof(body) - at, "ld.global.b%d %%%s%u, [%%d4+%u];\n",
                           *reg == 'e' ? 64 : 32, reg, 10 + r, 256 * r);
  }
  at += (size_t)snprintf(body + at, sizeof(body) - at, "mma.sync.aligned.%s %s, %s, %s, %s;\n",
                         s->opcode, d, a, b, c);
  for (uint32_t r = 0; r < s->n_c; r++)
    at += (size_t)snprintf(body + at, sizeof(body) - at, "st.global.b%d [%%d5+%u], %%%s%u;\n",
                           *sum == 'e' ? 64 : 32, 256 * r, sum, r);
  dt_cu_function_t f = load_body("", body);
  dt_cu_ptr_t from = allocate(2560), to = allocate(1024);
  OK(cuda->copy_to_device(from, in, 2560, NULL));
  OK(cuda->fill_bytes(to, 0, 1024, NULL));
  launch(f, (launch_t){0}, from, to, from, 0);
  OK(cuda->copy_to_host(out, to, 1024, NULL));
  finish();
  expect_none();
}

static void every_shape(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
    const shape_t *s = &shapes[k];
    uint64_t in[10][32], out[4][32];
    spread(s, in);
    run_shape(s, in, out);
    for (uint32_t lane = 0; lane < 32; lane++) {
      for (uint32_t r = 0; r < s->n_c; r++) {
        uint64_t expected = 0;
        for (uint32_t h = 0; h < (s->sum == 'h' ? 2u : 1u); h++) {
          uint32_t row = lane / 4 + 8 * (s->sum == 'h' ? r : r / 2);
          uint32_t column = 2 * (lane % 4) + (s->sum == 'h' ? h : r % 2);
          int32_t sum = c_at(row, column);
          for (uint32_t i = 0; i < s->k; i++)
            sum += a_at(row, i) * b_at(i, column);
          expected |= encode(sum, s->sum) << 16 * h;
        }
        if (out[r][lane] != expected)
          fail_msg("%s: register %u of lane %u is %llx; expected %llx", s->opcode, r, lane,
                   (unsigned long long)out[r][lane], (unsigned long long)expected);
      }
    }
  }
}

// Four matrices through ldmatrix and back through stmatrix, straight and transposed.
static void matrices_there_and_back(void **state) {
  (void)state;
  static const char *const trans[] = {"", ".trans"};
  for (uint32_t from = 0; from < 2; from++) {
    for (uint32_t to = 0; to < 2; to++) {
      char body[2048];
      (void)snprintf(
          body, sizeof(body),
          "mul.wide.u32 %%d3, %%r1, 16;\nadd.s64 %%d4, %%d0, %%d3;\n"
          "ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%d4];\nmov.u32 %%r2, sm;\n"
          "mad.lo.u32 %%r2, %%r1, 16, %%r2;\n"
          "st.shared.v4.b32 [%%r2], {%%r4, %%r5, %%r6, %%r7};\nbar.warp.sync -1;\n"
          "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r4, %%r5, %%r6, %%r7}, [%%r2];\n"
          "stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%r2+512], "
          "{%%r4, %%r5, %%r6, %%r7};\nbar.warp.sync -1;\n"
          "ld.shared.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%r2+512];\n"
          "add.s64 %%d4, %%d1, %%d3;\n"
          "st.global.v4.b32 [%%d4], {%%r4, %%r5, %%r6, %%r7};",
          trans[from], trans[to]);
      dt_cu_function_t f = load_body(".shared .align 16 .b8 sm[1024];", body);
      uint16_t in[4][8][8], out[4][8][8];
      for (uint32_t k = 0; k < 256; k++)
        (&in[0][0][0])[k] = (uint16_t)(k * 257);
      dt_cu_ptr_t a = allocate(512), b = allocate(512);
      OK(cuda->copy_to_device(a, in, 512, NULL));
      launch(f, (launch_t){0}, a, b, a, 0);
      OK(cuda->copy_to_host(out, b, 512, NULL));
      finish();
      expect_none();
      for (uint32_t k = 0; k < 256; k++) {
        uint32_t m = k / 64, row = k / 8 % 8, column = k % 8;
        uint16_t expected = from == to ? in[m][row][column] : in[m][column][row];
        assert_int_equal(out[m][row][column], expected);
      }
    }
  }
}

static void a_warp_must_be_whole(void **state) {
  (void)state;
  dt_cu_function_t f = load_body(
      "", "setp.eq.u32 %p1, %r1, 5;\n@%p1 ret;\nmma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
          "{%e0, %e1}, {%e2}, {%e3}, {%e0, %e1};");
  launch(f, (launch_t){0}, 0, 0, 0, 0);
  finish();
  expect_violation("needs all 32 lanes");
}

// ---- Groups of warps ----------------------------------------------------------------------------

#define ROWS 64
#define COLUMNS 72 // a panel and a part of the next
#define DEPTH 16
#define B_BEGIN 8192
#define IMAGE 20480 // bytes of shared memory
#define N_SUMS (COLUMNS / 2)

typedef struct group_t {
  bool a_turned, b_turned;
  bool a_held; // by registers, which come first in the image, 16 bytes a thread
  bool a_lost; // one of them is changed before the wait
  bool no_fence, no_proxy, no_wait; // left out
} group_t;

// Puts the element (along, deep) of a factor where the PTX manual says that it is: rows of 128
// bytes, whose units of 16 bytes change places with the row's number in eight. Where k is innermost
// it is the second step of 16 in the row.
static void put(unsigned char *image, uint32_t begin, bool turned, uint32_t along, uint32_t deep,
                int32_t value) {
  uint32_t inner = turned ? along % 64 : DEPTH + deep, outer = turned ? deep : along;
  uint32_t panel = turned ? along / 64 : 0, unit = inner / 8 ^ outer % 8;
  uint16_t bits = (uint16_t)encode(value, 'h');
  memcpy(image + begin + panel * 2048 + outer * 128 + unit * 16 + inner % 8 * 2, &bits, 2);
}

static uint64_t descriptor(uint32_t begin, bool turned) {
  uint64_t from = begin + (turned ? 0 : 2 * DEPTH);
  return from >> 4 | (uint64_t)(2048 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

static dt_cu_function_t group_text(const group_t *g) {
  char body[8192], sums[512], a_turned[8] = "";
  size_t at = 0;
  if (!g->a_held)
    (void)snprintf(a_turned, sizeof(a_turned), ", %d", g->a_turned);
  list(sums, sizeof(sums), "f", 0, N_SUMS);
  at += (size_t)snprintf(body, sizeof(body),
                         "mul.wide.u32 %%d3, %%r1, 16;\nadd.s64 %%d4, %%d0, %%d3;\n"
                         "mov.u32 %%r2, sm;\nmad.lo.u32 %%r2, %%r1, 16, %%r2;\n");
  for (uint32_t k = 0; k < IMAGE; k += 2048)
    at += (size_t)snprintf(body + at, sizeof(body) - at,
                           "ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%d4+%u];\n"
                           "st.shared.v4.b32 [%%r2+%u], {%%r4, %%r5, %%r6, %%r7};\n",
                           k, k);
  for (uint32_t k = 0; k < N_SUMS; k++)
    at += (size_t)snprintf(body + at, sizeof(body) - at, "mov.f32 %%f%u, 0f40000000;\n", k);
  at += (size_t)snprintf(
      body + at, sizeof(body) - at,
      "%s%sbar.sync 0;\nmov.u64 %%d5, %llu;\nmov.u64 %%d6, %llu;\n{\n.reg .pred all;\n"
      "mov.pred all, -1;\n%swgmma.mma_async.sync.aligned.m64n%uk16.f32.f16.f16 %s, %s, %%d6, "
      "all, 1, 1%s, %d;\nwgmma.commit_group.sync.aligned;\n}\n%s",
      g->a_held ? "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d4];\n" : "",
      g->no_proxy ? "" : "fence.proxy.async.shared::cta;\n",
      (unsigned long long)descriptor(0, g->a_turned),
      (unsigned long long)descriptor(B_BEGIN, g->b_turned),
      g->no_fence ? "" : "wgmma.fence.sync.aligned;\n", COLUMNS, sums,
      g->a_held ? "{%r4, %r5, %r6, %r7}" : "%d5", a_turned, g->b_turned,
      g->a_lost ? "mov.u32 %r7, 0;\n" : "");
  at += (size_t)snprintf(body + at, sizeof(body) - at,
                         "wgmma.wait_group.sync.aligned %d;\nmul.wide.u32 %%d3, %%r1, 4;\n"
                         "add.s64 %%d4, %%d1, %%d3;\n",
                         g->no_wait);
  for (uint32_t k = 0; k < N_SUMS; k++)
    at += (size_t)snprintf(body + at, sizeof(body) - at, "st.global.f32 [%%d4+%u], %%f%u;\n",
                           512 * k, k);
  return load_body(".shared .align 1024 .b8 sm[20480];", body);
}

// As a product of one warp has them: pairs of rows l / 4 and l / 4 + 8, then the same 8 further.
static void put_held(unsigned char *image, uint32_t row, uint32_t deep, int32_t value) {
  uint32_t thread = row / 16 * 32 + row % 8 * 4 + deep % 8 / 2;
  uint32_t held = deep / 8 * 2 + row % 16 / 8;
  uint16_t bits = (uint16_t)encode(value, 'h');
  memcpy(image + thread * 16 + held * 4 + deep % 2 * 2, &bits, 2);
}

static void run_group(const group_t *g, float out[N_SUMS][128]) {
  unsigned char image[IMAGE] = {0};
  for (uint32_t deep = 0; deep < DEPTH; deep++) {
    for (uint32_t row = 0; row < ROWS; row++)
      if (g->a_held)
        put_held(image, row, deep, a_at(row, deep));
      else
        put(image, 0, g->a_turned, row, deep, a_at(row, deep));
    for (uint32_t column = 0; column < COLUMNS; column++)
      put(image, B_BEGIN, g->b_turned, column, deep, b_at(deep, column));
  }
  dt_cu_function_t f = group_text(g);
  dt_cu_ptr_t from = allocate(IMAGE), to = allocate(N_SUMS * 512);
  OK(cuda->copy_to_device(from, image, IMAGE, NULL));
  OK(cuda->fill_bytes(to, 0, N_SUMS * 512, NULL));
  launch(f, (launch_t){.block = 128}, from, to, from, 0);
  OK(cuda->copy_to_host(out, to, N_SUMS * 512, NULL));
  finish();
}

// Row r of the 64 belongs to warp r / 16, and there to lanes as in a product of one warp.
static void groups_of_warps(void **state) {
  (void)state;
  for (int form = 0; form < 6; form++) {
    bool held = form >= 4;
    group_t g = {
        .a_turned = !held && form & 1, .b_turned = held ? form & 1 : form & 2, .a_held = held};
    float out[N_SUMS][128];
    run_group(&g, out);
    expect_none();
    for (uint32_t thread = 0; thread < 128; thread++)
      for (uint32_t k = 0; k < N_SUMS; k++) {
        uint32_t row = thread / 32 * 16 + thread % 32 / 4 + k / 2 % 2 * 8;
        uint32_t column = k / 4 * 8 + thread % 4 * 2 + k % 2;
        int32_t sum = 2;
        for (uint32_t i = 0; i < DEPTH; i++)
          sum += a_at(row, i) * b_at(i, column);
        if (out[k][thread] != (float)sum)
          fail_msg("form %d: sum %u of thread %u is %g; expected %d", form, k, thread,
                   (double)out[k][thread], sum);
      }
  }
}

// Until a thread has waited its sums are what they were.
static void groups_take_their_time(void **state) {
  (void)state;
  float out[N_SUMS][128];
  run_group(&(group_t){.no_wait = true}, out);
  expect_none();
  assert_true(out[0][0] == 2 && out[N_SUMS - 1][127] == 2);
  float lost[N_SUMS][128];
  run_group(&(group_t){.a_held = true}, out);
  run_group(&(group_t){.a_held = true, .a_lost = true}, lost);
  expect_none();
  assert_true(memcmp(out, lost, sizeof(out)) != 0);
}

static void groups_need_fences(void **state) {
  (void)state;
  float out[N_SUMS][128];
  run_group(&(group_t){.no_fence = true}, out);
  expect_violation("no wgmma.fence");
}

static void groups_need_what_they_see(void **state) {
  (void)state;
  float out[N_SUMS][128];
  run_group(&(group_t){.no_proxy = true}, out);
  expect_violation("fence.proxy.async");
}

RUN_WITH_LIBRARY(ON_DEVICE(every_shape), ON_DEVICE(matrices_there_and_back),
                 ON_DEVICE(a_warp_must_be_whole), ON_DEVICE(groups_of_warps),
                 ON_DEVICE(groups_take_their_time), ON_DEVICE(groups_need_fences),
                 ON_DEVICE(groups_need_what_they_see))
