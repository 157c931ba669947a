// SPDX-License-Identifier: Apache-2.0
// Division without calls (backend_cuda/emit/without_calls.c), as the simulator runs it: quotients,
// rests and roots have the bits that C gives them, over numbers drawn at random and those where an
// approximation is likeliest to be wrong. NaNs are only NaNs: a GPU has one of its own.
#include "backend_cuda/emit/device.h"
#include "backend_cuda/emit/emit.h"
#include "backend_cuda/emit/without_calls.h"
#include "runtime/base/half.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "test/support/random.h"
#include "test/unit/cuda/ptx/ptx_fixture.h"

#include <math.h>

#define THREADS 256
#define BLOCKS 256
#define EACH (THREADS * BLOCKS) // pairs of a launch
#define ENTRY 71                // LLVM's calling convention of PTX's entries

// ---- Ops ------------------------------------------------------------------------------------------
#define ANY_NAN UINT32_MAX

static float float_of(uint64_t bits) {
  float x;
  memcpy(&x, &(uint32_t){(uint32_t)bits}, sizeof(x));
  return x;
}

static uint64_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return isnan(x) ? ANY_NAN : bits;
}

static double half_of(uint64_t bits) { return dt__f16_widen((dt_f16_t){(uint16_t)bits}); }

// C's answers.
static uint64_t quotient(uint64_t a, uint64_t b) { return a / b; }
static uint64_t rest(uint64_t a, uint64_t b) { return a % b; }
static uint64_t signed_quotient(uint64_t a, uint64_t b) {
  return (uint64_t)((int64_t)a / (int64_t)b);
}
static uint64_t signed_rest(uint64_t a, uint64_t b) { return (uint64_t)((int64_t)a % (int64_t)b); }
static uint64_t floats(uint64_t a, uint64_t b) { return bits_of(float_of(a) / float_of(b)); }
static uint64_t halves(uint64_t a, uint64_t b) {
  double x = half_of(a) / half_of(b);
  return isnan(x) ? ANY_NAN : dt__f16_round(x).bits;
}
static uint64_t root(uint64_t a, uint64_t b) {
  (void)b;
  return bits_of(sqrtf(float_of(a)));
}

// A result, of which NaNs are all one.
static uint64_t whole_bits(uint64_t bits) { return bits; }
static uint64_t float_bits(uint64_t bits) { return bits_of(float_of(bits)); }
static uint64_t half_bits(uint64_t bits) { return isnan(half_of(bits)) ? ANY_NAN : bits; }

typedef enum op_t { QUOTIENT, REST, SIGNED_QUOTIENT, SIGNED_REST, FLOATS, HALVES, ROOT, OPS } op_t;

// Of elements p0[i] and p1[i], to p2[i].
static const struct {
  const char *name;
  LLVMOpcode opcode; // LLVMCall: a square root
  dt_dtype_t dtype;
  uint32_t lanes; // of a vector that is divided at once; 0: a scalar
  uint64_t (*answer)(uint64_t a, uint64_t b);
  uint64_t (*seen)(uint64_t bits);
} ops[OPS] = {{"quotient", LLVMUDiv, DT_I64, 0, quotient, whole_bits},
              {"rest", LLVMURem, DT_I64, 0, rest, whole_bits},
              {"signed_quotient", LLVMSDiv, DT_I64, 0, signed_quotient, whole_bits},
              {"signed_rest", LLVMSRem, DT_I64, 2, signed_rest, whole_bits},
              {"floats", LLVMFDiv, DT_F32, 4, floats, float_bits},
              {"halves", LLVMFDiv, DT_F16, 2, halves, half_bits},
              {"root", LLVMCall, DT_F32, 2, root, float_bits}};

// ---- Kernels --------------------------------------------------------------------------------------
static uint32_t lanes_of(op_t op) { return ops[op].lanes ? ops[op].lanes : 1; }

static void emit_op(dt_emit_t *m, op_t op) {
  LLVMTypeRef params[3] = {m->t_ptr, m->t_ptr, m->t_ptr};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, params, 3, false), stored = NULL;
  LLVMValueRef fn = dt__emit_function(m, ops[op].name, type, true), in[2], out;
  LLVMSetFunctionCallConv(fn, ENTRY);
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, fn, "entry"));
  dt__cuda_multiplies_together(m);
  LLVMValueRef block = dt__cuda_register(m, DT_CUDA_CTAID);
  LLVMValueRef at = LLVMBuildMul(m->b, block, dt__emit_i64(m, THREADS), "");
  at = LLVMBuildAdd(m->b, at, dt__cuda_register(m, DT_CUDA_TID), "");
  uint32_t bytes = (uint32_t)dt_dtype_size(ops[op].dtype) * lanes_of(op);
  at = LLVMBuildMul(m->b, at, dt__emit_i64(m, bytes), "");
  for (uint32_t i = 0; i < 2; i++) {
    in[i] = dt__emit_load_at(m, ops[op].dtype, ops[op].lanes,
                             dt__emit_offset(m, LLVMGetParam(fn, i), at), bytes, false);
    stored = LLVMTypeOf(in[i]);
    if (ops[op].dtype == DT_F16) // has the bits of an integer so far
      in[i] = LLVMBuildBitCast(m->b, in[i], dt__emit_like(in[i], LLVMHalfTypeInContext(m->context)),
                               "");
  }
  if (ops[op].opcode == LLVMCall)
    out = dt__emit_intrinsic1(m, "llvm.sqrt", in[0]);
  else
    out = LLVMBuildBinOp(m->b, ops[op].opcode, in[0], in[1], "");
  out = LLVMBuildBitCast(m->b, out, stored, "");
  dt__emit_store_at(m, ops[op].dtype, out, dt__emit_offset(m, LLVMGetParam(fn, 2), at), bytes);
  LLVMBuildRetVoid(m->b);
}

static void enter_nvptx(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

// PTX of all ops; the caller frees it.
static char *emit_ops(void) {
  static const dt_cuda_model_t h100 = {9, 0, 132, 227 << 10, 50 << 20};
  static dt_llvm_machine_t nvptx = {"nvptx64-nvidia-cuda", enter_nvptx, false};
  dt_target_t target;
  dt_emit_t m;
  void *text = NULL;
  size_t bytes = 0;
  expect_ok(dt__cuda_target(&h100, NULL, &target));
  expect_ok(dt__emit_open(&m, NULL, &target, "ductile.without_calls"));
  m.device = &dt__cuda_device_emit;
  expect_ok(dt__emit_machine(&m, &nvptx, &target, LLVMCodeGenLevelDefault));
  for (op_t op = 0; op < OPS; op++)
    emit_op(&m, op);
  const dt_compile_options_t options = {.verify = true};
  expect_ok(dt__emit_finish(&m, "function(early-cse)", false, &options, 0, &text, &bytes));
  dt__emit_fini(&m);
  return text;
}

static char *text;

static int make_ops(void **state) {
  text = emit_ops();
  return enter(state);
}

static int drop_ops(void **state) {
  dt__free(text);
  return leave(state);
}

// What is tested is there, and what it stands for is not.
static void ops_are_without_calls(void **state) {
  static const char *const calls[] = {"div.u64",  "div.s64", "rem.",    "div.rn.f32",
                                      "div.full", "sqrt.rn", "call.uni"};
  (void)state;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    if (strstr(text, calls[i]))
      fail_msg("%s in\n%s", calls[i], text);
  assert_non_null(strstr(text, "rcp.approx.ftz.f64"));
  assert_non_null(strstr(text, "rsqrt.approx.ftz.f64"));
}

// ---- Runs -----------------------------------------------------------------------------------------
// Pairs for one op, run when there are as many as a launch has.
typedef struct pairs_t {
  op_t op;
  dt_cu_function_t function;
  uint64_t *a, *b;
  uint32_t n;
  uint64_t all;
} pairs_t;

static void begin(pairs_t *p, op_t op) {
  *p = (pairs_t){.op = op, .function = load_text(text, ops[op].name)};
  p->a = calloc(EACH * 4, sizeof(uint64_t));
  p->b = calloc(EACH * 4, sizeof(uint64_t));
  assert_true(p->a && p->b);
}

static dt_cu_ptr_t to_device(const uint64_t *from, size_t size, uint32_t n) {
  unsigned char *packed = malloc(size * n);
  assert_non_null(packed);
  for (uint32_t i = 0; i < n; i++)
    memcpy(packed + i * size, &from[i], size); // the lowest bytes come first
  dt_cu_ptr_t to = allocate(size * n);
  OK(cuda->copy_to_device(to, packed, size * n, NULL));
  free(packed);
  return to;
}

static void run_pairs(pairs_t *p) {
  size_t size = dt_dtype_size(ops[p->op].dtype);
  uint32_t lanes = lanes_of(p->op), per_block = THREADS * lanes;
  if (!p->n)
    return;
  uint32_t blocks = (p->n + per_block - 1) / per_block, all = blocks * per_block;
  for (uint32_t i = p->n; i < all; i++) {
    p->a[i] = p->a[0];
    p->b[i] = p->b[0];
  }
  dt_cu_ptr_t a = to_device(p->a, size, all), b = to_device(p->b, size, all),
              c = allocate(size * all);
  void *params[] = {&a, &b, &c};
  OK(launch_params(p->function, (launch_t){.grid = blocks, .block = THREADS}, params));
  unsigned char *out = malloc(size * all);
  assert_non_null(out);
  OK(cuda->copy_to_host(out, (dt_cu_ptr_t)c, size * all, NULL));
  finish();
  expect_none();
  for (uint32_t i = 0; i < p->n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, out + i * size, size);
    uint64_t is = ops[p->op].seen(bits), should = ops[p->op].answer(p->a[i], p->b[i]);
    if (is != should)
      fail_msg("%s of %#llx, %#llx: %#llx, expected %#llx", ops[p->op].name,
               (unsigned long long)p->a[i], (unsigned long long)p->b[i], (unsigned long long)is,
               (unsigned long long)should);
  }
  free(out);
  OK(cuda->mem_free(a));
  OK(cuda->mem_free(b));
  OK(cuda->mem_free(c));
  p->all += p->n;
  p->n = 0;
}

static void add(pairs_t *p, uint64_t a, uint64_t b) {
  p->a[p->n] = a;
  p->b[p->n] = b;
  if (++p->n == EACH * lanes_of(p->op))
    run_pairs(p);
}

static void end(pairs_t *p) {
  run_pairs(p);
  printf("%s: %llu pairs\n", ops[p->op].name, (unsigned long long)p->all);
  free(p->a);
  free(p->b);
}

// ---- Integers -------------------------------------------------------------------------------------
// Where C has an answer.
static void add_integers(pairs_t *p, uint64_t a, uint64_t b) {
  bool is_signed = ops[p->op].opcode == LLVMSDiv || ops[p->op].opcode == LLVMSRem;
  if (b && !(is_signed && a == (uint64_t)INT64_MIN && b == UINT64_MAX))
    add(p, a, b);
}

// Of as many bits as chance has it.
static uint64_t some_integer(rng_t *rng, uint32_t most_bits) {
  return rng_next(rng) >> (64 - most_bits + rng_below(rng, most_bits));
}

static void check_integers(op_t op) {
  enum { EDGES = 64 * 5, DRAWN = 100000 };
  uint64_t edges[EDGES];
  pairs_t p;
  rng_t rng = {op + 1};
  begin(&p, op);
  for (uint32_t i = 0; i < EDGES; i++) // powers of two, one more and less, and negative ones
    edges[i] = ((uint64_t)1 << i / 5) * (i % 5 < 3 ? 1 : UINT64_MAX) + i % 5 - (i % 5 < 3 ? 1 : 3);
  for (uint32_t i = 0; i < EDGES; i++)
    for (uint32_t j = 0; j < EDGES; j++)
      add_integers(&p, edges[i], edges[j]);
  for (uint32_t i = 0; i < DRAWN; i++) {
    uint64_t a = some_integer(&rng, 64), b = some_integer(&rng, 64);
    add_integers(&p, a, b);
    add_integers(&p, rng_next(&rng), some_integer(&rng, 32)); // long quotients
    add_integers(&p, a, a - b);
    add_integers(&p, 0 - a, b);
    add_integers(&p, rng_next(&rng), edges[rng_below(&rng, EDGES)]);
    // A multiple of b, one less and one more: where a quotient is next to another.
    uint64_t whole = b ? rng_next(&rng) / b * b : 0;
    for (uint64_t d = 0; d < 3; d++)
      add_integers(&p, whole + d - 1, b);
  }
  end(&p);
}

static void integers(void **state) {
  (void)state;
  for (op_t op = QUOTIENT; op <= SIGNED_REST; op++)
    check_integers(op);
}

// ---- Floats ---------------------------------------------------------------------------------------
// Infinities, NaNs, zeros, subnormals' ends, ones, and the least and greatest of all exponents.
static uint32_t make_edges(uint32_t *edges) {
  static const uint32_t mantissas[] = {0, 1, 0x400000, 0x7ffffe, 0x7fffff};
  uint32_t n = 0;
  for (uint32_t exponent = 0; exponent < 256; exponent++)
    for (uint32_t i = 0; i < 5; i++)
      if (i < 2 || i == 4 || exponent % 16 < 2 || exponent % 16 == 15)
        edges[n++] = exponent << 23 | mantissas[i];
  return n;
}

static uint64_t with_sign(rng_t *rng, uint64_t bits) {
  return bits | (uint64_t)rng_below(rng, 2) << 31;
}

// Floats whose quotient is next to the middle between two of 24 bits: m b = ±1 mod 2^25 for odd m
// of 25 bits, so a = (m b ∓ 1) / 2^25 is a whole number and a / b as near to m / 2^25 as can be.
static void add_near_middle(pairs_t *p, rng_t *rng, uint32_t m) {
  uint32_t inverse = m;
  for (uint32_t i = 0; i < 4; i++)
    inverse *= 2 - m * inverse;
  for (uint32_t side = 0; side < 2; side++) {
    uint32_t b = (side ? 0 - inverse : inverse) & 0x1ffffff;
    if (b >> 24)
      continue;
    float x = (float)(((uint64_t)m * b + side - (side ? 0 : 1)) >> 25);
    add(p, with_sign(rng, bits_of(ldexpf(x, (int)rng_below(rng, 200) - 120))),
        with_sign(rng, bits_of(ldexpf((float)b, (int)rng_below(rng, 200) - 120))));
  }
}

// A quotient in the middle between two subnormal floats: an odd multiple of 2^-150, by a divisor
// whose inverse is none of a double's.
static void add_tie(pairs_t *p, rng_t *rng) {
  uint32_t bits = 1 + rng_below(rng, 20);
  float odd = (float)(rng_below(rng, 1U << bits) | 1);
  float by = (float)(rng_below(rng, 1U << (24 - bits)) | 3);
  int scale = (int)rng_below(rng, 60) - 80;
  add(p, with_sign(rng, bits_of(ldexpf(odd * by, scale))),
      with_sign(rng, bits_of(ldexpf(by, scale + 150))));
}

static void quotients_of_floats(void **state) {
  enum { DRAWN = 200000 };
  uint32_t edges[256 * 5], n = make_edges(edges);
  pairs_t p;
  rng_t rng = {77};
  (void)state;
  begin(&p, FLOATS);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = i % 3; j < n; j += 3)
      add(&p, with_sign(&rng, edges[i]), with_sign(&rng, edges[j]));
  for (uint32_t i = 0; i < DRAWN; i++) {
    uint32_t a = (uint32_t)rng_next(&rng), b = (uint32_t)rng_next(&rng);
    add(&p, a, b);
    add(&p, a & 0x807fffff, (b & 0x807fffff) | (64 + rng_below(&rng, 128)) << 23); // subnormal
    add(&p, (a & 0x80ffffff) | 0x7e000000, (b & 0x80ffffff) | 0x3f000000);         // the greatest
    add(&p, (a & 0x80ffffff) | 0x01000000, (b & 0x80ffffff) | 0x40000000); // to subnormal ones
    add_tie(&p, &rng);
    add_near_middle(&p, &rng, (uint32_t)rng_next(&rng) >> 8 | 0x1000001);
  }
  end(&p);
}

static void zeros_keep_their_sign(void **state) {
  static const float zeros[] = {0.0f, -0.0f};
  static const float others[] = {1, -1, 3, -3, 0x1p-149f, -0x1p-149f, INFINITY, -INFINITY};
  pairs_t p;
  (void)state;
  begin(&p, FLOATS);
  for (uint32_t i = 0; i < 2; i++)
    for (uint32_t j = 0; j < sizeof(others) / sizeof(others[0]); j++) {
      add(&p, bits_of(zeros[i]), bits_of(others[j]));
      add(&p, bits_of(others[j]), bits_of(zeros[i]));
    }
  end(&p);
}

static void quotients_of_halves(void **state) {
  pairs_t p;
  rng_t rng = {78};
  (void)state;
  begin(&p, HALVES);
  for (uint32_t a = 0; a < 1 << 16; a++)
    for (uint32_t i = 0; i < 8; i++)
      add(&p, a, i < 2 ? (i << 15 | 0x3c00) : rng_below(&rng, 1 << 16));
  end(&p);
}

// Floats whose root is next to the middle between two: m of 25 bits with m m = c mod 2^power, so
// (m m - c) / 2^power has the root m - c / 2 m, nearly. There are four such m for c = 1 mod 8.
static void add_near_roots(pairs_t *p, int64_t c, uint32_t power) {
  uint64_t first = 1, mask = ((uint64_t)1 << power) - 1;
  for (uint32_t bit = 3; bit < power; bit++)
    if ((first * first - (uint64_t)c) >> bit & 1)
      first += (uint64_t)1 << (bit - 1);
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t m = ((i & 1 ? 0 - first : first) + (i & 2 ? (uint64_t)1 << (power - 1) : 0)) & mask;
    uint64_t x = (m * m - (uint64_t)c) >> power;
    if (m >> 24 == 1 && x < 1 << 24)
      for (int scale = -60; scale <= 50; scale += 10)
        add(p, bits_of(ldexpf((float)x, 2 * scale + (int)(power & 1))), 0);
  }
}

static void roots(void **state) {
  enum { DRAWN = 400000, NEAR = 1 << 14 };
  uint32_t edges[256 * 5], n = make_edges(edges);
  pairs_t p;
  rng_t rng = {79};
  (void)state;
  begin(&p, ROOT);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t sign = 0; sign < 2; sign++)
      add(&p, edges[i] | (uint64_t)sign << 31, 0);
  for (int64_t c = 1 - 8 * NEAR; c < 8 * NEAR; c += 8)
    for (uint32_t power = 25; power < 27; power++)
      add_near_roots(&p, c, power);
  for (uint32_t i = 0; i < DRAWN; i++) {
    uint32_t x = (uint32_t)rng_next(&rng);
    add(&p, i % 16 ? x & INT32_MAX : x, 0);
    add(&p, x & 0x7fffff, 0);
    // Squares, and their neighbours.
    float y = (float)(x & 0xffffff);
    add(&p, bits_of(y * y) + i % 3 - 1, 0);
  }
  end(&p);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(ops_are_without_calls), TEST(integers),
                                     TEST(zeros_keep_their_sign), TEST(quotients_of_floats),
                                     TEST(quotients_of_halves),   TEST(roots)};
  library = argv[1];
  return argc == 2 ? cmocka_run_group_tests(tests, make_ops, drop_ops) : 2;
}
