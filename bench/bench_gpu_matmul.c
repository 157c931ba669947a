// SPDX-License-Identifier: Apache-2.0
// Products of halves on a GPU: [M, K] by [K, N], the same weights for all of a call's products, and
// rows and a result for each, so that a call is that many launches of one kernel and no more. A
// product takes a call's time over their number; calls are CUDA graphs where
// DUCTILE_REDUCE_OVERHEAD=1 says so, as the peer's are (tools/bench/matmul_gpu_peer.py). A function
// serves all M of a (K, N). Some elements of each result are compared with sums in float64.
#include "bench/harness.h"
#include "bench/queued.h"
#include "ductile/device.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_matmul_gpu [--json] [--dtype f16|bf16] [--rows LIST] [--shapes LIST] [--rounds "
    "R]\n"
    "                        [--finish none|bias|gelu]\n"
    "\n"
    "Measures products on CUDA device 0, microseconds each.\n"
    "  --rows LIST    (default: 1,16,64,256,1024,8192)\n"
    "  --shapes LIST  KxN (default: "
    "384x384,384x1152,384x1536,1536x384,768x3072,4096x4096,4096x11008)\n"
    "  --finish WHAT  nothing (the default), + bias [N], or gelu(that) + residual [M, N]\n"
    "  --rounds R     measurements of which the median is taken (default: 9)\n"
    "Exit codes: 0 measured; 1 something failed or was wrong; 2 wrong usage.\n";

enum { MOST = 20, LIST = 16, CHECKED = 64 };
typedef enum finish_t { NONE, BIAS, GELU } finish_t;

typedef struct options_t {
  dt_dtype_t dtype;
  long rows[LIST], depths[LIST], widths[LIST], rounds;
  size_t n_rows, n_shapes;
  finish_t finish;
  bool json;
} options_t;

typedef struct shape_t {
  const options_t *o;
  int64_t k, n;
  uint32_t products;
} shape_t;

// ---- The program ------------------------------------------------------------------------------------
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const shape_t *s = closure;
  dt_value_t weight = in[0], bias = in[1];
  for (uint32_t i = 0; i < s->products; i++) {
    dt_value_t x = dt_matmul(t, in[2 + i], weight);
    if (s->o->finish != NONE)
      x = dt_add(t, x, bias);
    if (s->o->finish == GELU)
      x = dt_add(t, dt_gelu(t, x), in[2 + s->products + i]);
    out[i] = x;
  }
  return NULL;
}

// ---- Data ---------------------------------------------------------------------------------------------
// Of one power of two and both signs, so that no product is easier than another.
static uint16_t half_bits(dt_dtype_t dtype, uint64_t *state) {
  uint16_t r = (uint16_t)bench_random(state, 0, UINT16_MAX);
  return dtype == DT_F16 ? (uint16_t)((r & 0x83ff) | 0x3000) : (uint16_t)((r & 0x807f) | 0x3e00);
}

static double value_of(dt_dtype_t dtype, uint16_t bits) {
  int mantissa = dtype == DT_F16 ? 10 : 7, bias = dtype == DT_F16 ? 15 : 127;
  int exponent = (bits & 0x7fff) >> mantissa;
  double whole = (bits & ((1 << mantissa) - 1)) + (exponent ? 1 << mantissa : 0);
  double x = ldexp(whole, (exponent ? exponent : 1) - bias - mantissa);
  return bits & 0x8000 ? -x : x;
}

typedef struct matrix_t {
  dt_tensor_t *host, *device;
} matrix_t;

static void drop(matrix_t *m) {
  dt_tensor_release(m->host);
  dt_tensor_release(m->device);
  *m = (matrix_t){0};
}

// Repeats after PERIOD elements, which no row's length divides. Without a seed: not filled.
enum { PERIOD = 1000003 };
static bool make(dt_session_t *session, dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                 uint64_t seed, matrix_t *out) {
  if (!bench_ok(dt_tensor_create_empty(dtype, rank, sizes, &out->host), "host tensor") ||
      !bench_ok(dt_tensor_create_on(session, dtype, rank, sizes, &out->device), "tensor"))
    return false;
  uint16_t *data = dt_tensor_data(out->host);
  for (int64_t i = 0, n = seed ? dt_tensor_count(out->host) : 0; i < n; i++)
    data[i] = i < PERIOD ? half_bits(dtype, &seed) : data[i - PERIOD];
  return !seed || bench_ok(dt_tensor_copy(session, out->host, out->device), "upload");
}

typedef struct rig_t {
  shape_t shape;
  dt_session_t *session;
  dt_function_t *function;
  matrix_t weight, bias, x[MOST], residual[MOST], out[MOST];
  dt_tensor_t *in[2 + 2 * MOST], *results[MOST];
  uint32_t n_in;
} rig_t;

// ---- Right answers --------------------------------------------------------------------------------------
static bool check(rig_t *rig, int64_t rows) {
  const shape_t *s = &rig->shape;
  dt_dtype_t dtype = s->o->dtype;
  const uint16_t *w = dt_tensor_data(rig->weight.host), *b = dt_tensor_data(rig->bias.host);
  uint64_t state = (uint64_t)rows;
  for (uint32_t i = 0; i < s->products; i += s->products - 1) { // the first and the last
    if (!bench_ok(dt_tensor_copy(rig->session, rig->out[i].device, rig->out[i].host), "download") ||
        !bench_ok(dt_session_wait(rig->session), "wait"))
      return false;
    const uint16_t *x = dt_tensor_data(rig->x[i].host), *out = dt_tensor_data(rig->out[i].host);
    for (int c = 0; c < CHECKED; c++) {
      int64_t row = bench_random(&state, 0, rows - 1), col = bench_random(&state, 0, s->n - 1);
      double sum = 0, size = 0, terms = 0; // what was rounded on the way
      for (int64_t k = 0; k < s->k; k++) {
        double p = value_of(dtype, x[row * s->k + k]) * value_of(dtype, w[k * s->n + col]);
        sum += p;
        size += fabs(p);
      }
      terms = fabs(sum);
      if (s->o->finish != NONE) {
        sum += value_of(dtype, b[col]);
        terms += fabs(sum);
      }
      if (s->o->finish == GELU) {
        const uint16_t *residual = dt_tensor_data(rig->residual[i].host);
        sum = 0.5 * sum * (1 + erf(sum / sqrt(2)));
        terms += fabs(sum);
        sum += value_of(dtype, residual[row * s->n + col]);
        terms += fabs(sum);
      }
      double is = value_of(dtype, out[row * s->n + col]), step = dtype == DT_F16 ? 0x1p-11 : 0x1p-8;
      if (!(fabs(is - sum) <= 2 * step * terms + 1e-6 * size)) {
        (void)fprintf(stderr, "%lldx%lldx%lld: element (%lld, %lld) is %g, not %g\n",
                      (long long)rows, (long long)s->k, (long long)s->n, (long long)row,
                      (long long)col, is, sum);
        return false;
      }
    }
  }
  return true;
}

// ---- Measuring --------------------------------------------------------------------------------------------
static void release_rows(rig_t *rig) {
  for (uint32_t i = 0; i < MOST; i++) {
    drop(&rig->x[i]);
    drop(&rig->residual[i]);
    drop(&rig->out[i]);
  }
}

static bool run_rows(bench_report_t *report, rig_t *rig, int64_t rows) {
  const shape_t *s = &rig->shape;
  const options_t *o = s->o;
  int64_t in[2] = {rows, s->k}, out[2] = {rows, s->n};
  bool good = true;
  rig->n_in = 0;
  rig->in[rig->n_in++] = rig->weight.device;
  rig->in[rig->n_in++] = rig->bias.device;
  for (uint32_t i = 0; good && i < s->products; i++) {
    good = make(rig->session, o->dtype, 2, in, 100 + i, &rig->x[i]) &&
           make(rig->session, o->dtype, 2, out, 0, &rig->out[i]);
    rig->in[rig->n_in++] = rig->x[i].device;
    rig->results[i] = rig->out[i].device;
  }
  for (uint32_t i = 0; good && i < s->products && o->finish == GELU; i++) {
    good = make(rig->session, o->dtype, 2, out, 300 + i, &rig->residual[i]);
    rig->in[rig->n_in++] = rig->residual[i].device;
  }
  const queued_call_t call = {rig->session, rig->function, rig->in,
                              rig->results, rig->n_in,     s->products};
  double us = good ? queued_us(&call, o->rounds) / s->products : 0;
  good = good && us > 0 && check(rig, rows);
  if (good) {
    char name[96];
    static const char *const finishes[] = {"", " bias", " gelu"};
    (void)snprintf(name, sizeof(name), "%s %lldx%lldx%lld%s", o->dtype == DT_F16 ? "f16" : "bf16",
                   (long long)rows, (long long)s->k, (long long)s->n, finishes[o->finish]);
    bench_value(report, name, "time", "us", us);
  }
  release_rows(rig);
  return good;
}

static bool run_shape(bench_report_t *report, dt_runtime_t *runtime, dt_session_t *session,
                      const options_t *o, size_t at) {
  rig_t *rig = calloc(1, sizeof(*rig));
  if (!rig)
    return false;
  bool large = o->depths[at] * o->widths[at] >= 1 << 22;
  rig->shape =
      (shape_t){.o = o, .k = o->depths[at], .n = o->widths[at], .products = large ? 5 : MOST};
  rig->session = session;
  const shape_t *s = &rig->shape;
  static dt_dim_decl_t weight_dims[2], x_dims[2], bias_dims[1], residual_dims[2];
  weight_dims[0] = x_dims[1] = (dt_dim_decl_t){.is_static = true, .value = s->k};
  weight_dims[1] = bias_dims[0] = residual_dims[1] =
      (dt_dim_decl_t){.is_static = true, .value = s->n};
  x_dims[0] = residual_dims[0] = (dt_dim_decl_t){.name = "m", .mark = DT_MARK_DYNAMIC};
  static char names[2 * MOST][16];
  dt_input_decl_t decls[2 + 2 * MOST] = {
      {.name = "weight", .dtype = o->dtype, .rank = 2, .dims = weight_dims},
      {.name = "bias", .dtype = o->dtype, .rank = 1, .dims = bias_dims}};
  uint32_t n = o->finish == GELU ? 2 * s->products : s->products;
  for (uint32_t i = 0; i < n; i++) {
    (void)snprintf(names[i], sizeof(names[i]), "x%u", i);
    decls[2 + i] = (dt_input_decl_t){.name = names[i],
                                     .dtype = o->dtype,
                                     .rank = 2,
                                     .dims = i < s->products ? x_dims : residual_dims};
  }
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "products",
                                   .n_inputs = 2 + n,
                                   .n_outputs = s->products,
                                   .inputs = decls};
  const int64_t weight[2] = {s->k, s->n};
  bool good = make(session, o->dtype, 2, weight, 1, &rig->weight) &&
              make(session, o->dtype, 1, weight + 1, 2, &rig->bias) &&
              bench_ok(dt_function_create(runtime, program, &rig->shape, &options, &rig->function),
                       "function");
  for (size_t r = 0; good && r < o->n_rows; r++)
    good = run_rows(report, rig, o->rows[r]);
  dt_function_release(rig->function);
  drop(&rig->weight);
  drop(&rig->bias);
  free(rig);
  return good;
}

static bool run(const options_t *o) {
  bench_report_t report;
  bench_begin(&report, "matmul_gpu", o->json);
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "runtime") &&
              bench_ok(dt_session_create(runtime, &on, &session), "session");
  for (size_t i = 0; good && i < o->n_shapes; i++)
    good = run_shape(&report, runtime, session, o, i);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------------------
// Numbers between commas, or pairs with an x between them (`second` not NULL).
static bool parse_list(const char *text, long *first, long *second, size_t *out_n) {
  size_t n = 0;
  for (const char *at = text; *at; n++) {
    char *end = NULL;
    if (n == LIST)
      return false;
    first[n] = strtol(at, &end, 10);
    if (second && *end == 'x')
      second[n] = strtol(end + 1, &end, 10);
    if (first[n] < 1 || first[n] > 1 << 20 || (second && (second[n] < 1 || second[n] > 1 << 20)) ||
        (*end && *end != ','))
      return false;
    at = *end ? end + 1 : end;
  }
  *out_n = n;
  return n > 0;
}

static bool parse(int c, options_t *o) {
  switch (c) {
  case 'm':
    return parse_list(optarg, o->rows, NULL, &o->n_rows);
  case 's':
    return parse_list(optarg, o->depths, o->widths, &o->n_shapes);
  case 'r':
    return bench_parse_number(optarg, 1, 64, &o->rounds);
  case 'd':
    o->dtype = strcmp(optarg, "bf16") == 0 ? DT_BF16 : DT_F16;
    return o->dtype == DT_BF16 || strcmp(optarg, "f16") == 0;
  case 'f':
    o->finish = strcmp(optarg, "gelu") == 0 ? GELU : strcmp(optarg, "bias") == 0 ? BIAS : NONE;
    return o->finish != NONE || strcmp(optarg, "none") == 0;
  case 'j':
    o->json = true;
    return true;
  default:
    return false;
  }
}

int main(int argc, char **argv) {
  options_t o = {.dtype = DT_F16, .rounds = 9};
  (void)parse_list("1,16,64,256,1024,8192", o.rows, NULL, &o.n_rows);
  (void)parse_list("384x384,384x1152,384x1536,1536x384,768x3072,4096x4096,4096x11008", o.depths,
                   o.widths, &o.n_shapes);
  static const struct option longs[] = {
      {"rows", required_argument, NULL, 'm'},   {"shapes", required_argument, NULL, 's'},
      {"rounds", required_argument, NULL, 'r'}, {"dtype", required_argument, NULL, 'd'},
      {"finish", required_argument, NULL, 'f'}, {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
    if (c == 'h')
      return printf("%s", usage) < 0;
    if (!parse(c, &o)) {
      (void)fprintf(stderr, "%s", usage);
      return BENCH_EXIT_USAGE;
    }
  }
  return run(&o) ? 0 : BENCH_EXIT_FAILED;
}
