// SPDX-License-Identifier: Apache-2.0
// Attention of halves on a GPU: softmax(q k^T / sqrt(d)) v, whole, causal, and of one row of
// queries over a cache of keys. A call is several of them with operands and results of their own (k
// and v of the same values), and one takes a call's time over their number; calls are CUDA graphs
// where DUCTILE_REDUCE_OVERHEAD=1 says so, as the peer's are (tools/bench/attention_gpu_peer.py,
// which has the same sizes). A function serves all batches and lengths of a form and d. Some rows
// of each result are compared with float64.
#include "bench/harness.h"
#include "bench/queued.h"
#include "ductile/device.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_gpu_attention [--json] [--forms LIST] [--d LIST] [--lengths LIST] [--batches "
    "LIST]\n"
    "                           [--tokens N] [--memory MIB] [--rounds R]\n"
    "\n"
    "Measures attention in f16 on CUDA device 0, microseconds each. q, k and v are [B, H, S, d];\n"
    "a case is named FORM f16 BxHxSxd.\n"
    "  --forms LIST    forward, causal, decode (default: all three). decode: one row of queries\n"
    "                  over S keys\n"
    "  --d LIST        sizes of a head, of which there are 1024 / d, in decode 16 (default:\n"
    "                  32,64,128; decode: 64,128)\n"
    "  --lengths LIST  S (default: 64,128,256,512,1024,2048,4096,8192; decode: "
    "512,2048,8192,32768)\n"
    "  --batches LIST  B of decode (default: 1,8)\n"
    "  --tokens N      B * S of the other forms; B is at least 1 (default: 8192)\n"
    "  --memory MIB    skip what needs more, the scores as a whole included (default: 16384)\n"
    "  --rounds R      measurements of which the median is taken (default: 9)\n"
    "What is skipped, too large or refused by the library, is said on stderr.\n"
    "Exit codes: 0 measured or skipped; 1 something failed or was wrong; 2 wrong usage.\n";

enum { MOST = 16, LIST = 16, SAMPLED = 12, DECODE_HEADS = 16, WIDTH = 1024 };
typedef enum form_t { FORWARD, CAUSAL, DECODE, FORMS } form_t;
static const char *const form_names[FORMS] = {"forward", "causal", "decode"};

typedef struct list_t {
  size_t n;
  long items[LIST]; // 0 items: the form's own
} list_t;

typedef struct options_t {
  list_t heads, lengths, batches; // heads: their sizes
  long tokens, memory, rounds;
  const char *forms;
  bool json;
} options_t;

// What a function is made for.
typedef struct program_t {
  form_t form;
  int64_t heads, d;
  uint32_t count; // attentions of a call
} program_t;

// ---- The program --------------------------------------------------------------------------------
// Row i sees the keys up to i.
static dt_value_t causal(dt_trace_t *t, dt_value_t scores) {
  const dt_sym_t one = dt_sym_const(t, 1);
  const dt_sym_t rows[2] = {dt_dim(t, scores, -2), one}, keys[2] = {one, dt_dim(t, scores, -1)};
  dt_value_t seen = dt_le(t, dt_iota(t, DT_I64, 2, keys, 1), dt_iota(t, DT_I64, 2, rows, 0));
  return dt_where(t, seen, scores, dt_scalar(t, DT_F16, -INFINITY));
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const program_t *p = closure;
  for (uint32_t i = 0; i < p->count; i++) {
    const dt_value_t *own = in + (size_t)3 * i; // q, k, v
    dt_value_t scores = dt_matmul(t, own[0], dt_transpose(t, own[1], -1, -2));
    scores = dt_mul(t, scores, dt_scalar(t, DT_F16, 1.0 / sqrt((double)p->d)));
    if (p->form == CAUSAL)
      scores = causal(t, scores);
    out[i] = dt_matmul(t, dt_softmax(t, scores, -1), own[2]);
  }
  return NULL;
}

static bool make_function(dt_runtime_t *runtime, program_t *p, dt_function_t **out) {
  const dt_dim_decl_t batch = {.name = "b", .mark = DT_MARK_DYNAMIC};
  const dt_dim_decl_t length = {.name = "s", .mark = DT_MARK_DYNAMIC};
  const dt_dim_decl_t one = {.is_static = true, .value = 1};
  const dt_dim_decl_t heads = {.is_static = true, .value = p->heads};
  const dt_dim_decl_t d = {.is_static = true, .value = p->d};
  const dt_dim_decl_t rows[4] = {batch, heads, p->form == DECODE ? one : length, d};
  const dt_dim_decl_t keys[4] = {batch, heads, length, d};
  char names[3 * MOST][16];
  dt_input_decl_t decls[3 * MOST] = {0};
  for (uint32_t i = 0; i < 3 * p->count; i++) {
    (void)snprintf(names[i], sizeof(names[i]), "%c%u", "qkv"[i % 3], i / 3);
    decls[i] = (dt_input_decl_t){
        .name = names[i], .dtype = DT_F16, .rank = 4, .dims = i % 3 ? keys : rows};
  }
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = form_names[p->form],
                                   .n_inputs = 3 * p->count,
                                   .n_outputs = p->count,
                                   .inputs = decls};
  return bench_ok(dt_function_create(runtime, program, p, &options, out), "function");
}

// ---- One case -----------------------------------------------------------------------------------
typedef struct case_t {
  dt_session_t *session;
  const program_t *p;
  int64_t batch, rows, keys;
  char name[96];
  dt_tensor_t *q[MOST], *k, *v, *result; // on the host
  dt_tensor_t *in[3 * MOST], *out[MOST]; // on the device
  bool refused;                          // it ended with what the library may refuse
  float *value;                          // of each half, by its bits
  double *weights, *errors;              // of one row of scores
} case_t;

// Whether a step of the case succeeded; else says why not.
static bool fine(case_t *c, dt_status_t status, const char *doing) {
  if (!status)
    return true;
  dt_code_t code = dt_status_code(status);
  c->refused = code == DT_E_NO_MEMORY || code == DT_E_UNSUPPORTED || code == DT_E_LIMIT;
  (void)fprintf(stderr, "%s: %s: %s: %s: %s\n", c->refused ? "skipped" : "failed", c->name, doing,
                dt_code_name(code), dt_status_message(status));
  dt_status_free(status);
  return false;
}

// Of one power of two, `exponent`, and both signs. Repeats after PERIOD elements, which no row's
// length divides. Without a seed: not filled.
enum { PERIOD = 1000003, ONE = 0x3c00, HALF = 0x3800 };
static bool make(case_t *c, int64_t length, uint64_t seed, uint16_t exponent, dt_tensor_t **out) {
  const int64_t sizes[4] = {c->batch, c->p->heads, length, c->p->d};
  if (!fine(c, dt_tensor_create_empty(DT_F16, 4, sizes, out), "host tensor"))
    return false;
  uint16_t *data = dt_tensor_data(*out);
  for (int64_t i = 0, n = seed ? dt_tensor_count(*out) : 0; i < n; i++)
    data[i] = i < PERIOD ? (uint16_t)((bench_random(&seed, 0, UINT16_MAX) & 0x83ff) | exponent)
                         : data[i - PERIOD];
  return true;
}

static bool place(case_t *c, const dt_tensor_t *from, int64_t length, dt_tensor_t **out) {
  const int64_t sizes[4] = {c->batch, c->p->heads, length, c->p->d};
  return fine(c, dt_tensor_create_on(c->session, DT_F16, 4, sizes, out), "tensor") &&
         (!from || fine(c, dt_tensor_copy(c->session, from, *out), "upload"));
}

// Scores are some units apart, so that rows are neither flat nor of one key.
static bool make_operands(case_t *c) {
  bool good = make(c, c->keys, 1, ONE, &c->k) && make(c, c->keys, 2, HALF, &c->v) &&
              make(c, c->rows, 0, 0, &c->result);
  for (uint32_t i = 0; good && i < c->p->count; i++) {
    dt_tensor_t **in = c->in + (size_t)3 * i;
    good = make(c, c->rows, 100 + i, ONE, &c->q[i]) && place(c, c->q[i], c->rows, in) &&
           place(c, c->k, c->keys, in + 1) && place(c, c->v, c->keys, in + 2) &&
           place(c, NULL, c->rows, &c->out[i]);
  }
  return good;
}

static void drop_operands(case_t *c) {
  for (uint32_t i = 0; i < MOST; i++) {
    dt_tensor_release(c->q[i]);
    dt_tensor_release(c->out[i]);
  }
  for (uint32_t i = 0; i < 3 * MOST; i++)
    dt_tensor_release(c->in[i]);
  dt_tensor_release(c->k);
  dt_tensor_release(c->v);
  dt_tensor_release(c->result);
}

// ---- Right answers ------------------------------------------------------------------------------
// Bits of a half as a number.
static float value_of(uint32_t bits) {
  int exponent = (int)(bits >> 10 & 31);
  float whole = (float)((bits & 1023) + (exponent ? 1024 : 0));
  float x = exponent == 31 ? NAN : ldexpf(whole, (exponent ? exponent : 1) - 25);
  return bits & 0x8000 ? -x : x;
}

// Weights of a row from its scores, and their errors as shares of them. A score is rounded to a
// half after the product and after the scale, which is one itself; a weight where it is stored. The
// last share is what the errors of all of them do to their sum.
static void weigh(case_t *c, int64_t n) {
  double most = -INFINITY, total = 0, drift = 0;
  for (int64_t j = 0; j < n; j++)
    most = fmax(most, c->weights[j]);
  for (int64_t j = 0; j < n; j++) {
    c->errors[j] = 0x1p-11 * (3 * fabs(c->weights[j]) + 2);
    total += c->weights[j] = exp(c->weights[j] - most);
  }
  for (int64_t j = 0; j < n; j++)
    drift += (c->weights[j] /= total) * c->errors[j];
  for (int64_t j = 0; j < n; j++)
    c->errors[j] += drift;
}

// Row `row` of plane `plane`, one of batch * heads. Small weights have fewer bits.
static bool check_row(case_t *c, uint32_t which, int64_t plane, int64_t row) {
  const int64_t d = c->p->d, n = c->p->form == CAUSAL ? row + 1 : c->keys;
  const uint16_t *q = (uint16_t *)dt_tensor_data(c->q[which]) + (plane * c->rows + row) * d;
  const uint16_t *out = (uint16_t *)dt_tensor_data(c->result) + (plane * c->rows + row) * d;
  const uint16_t *k = (uint16_t *)dt_tensor_data(c->k) + plane * c->keys * d;
  const uint16_t *v = (uint16_t *)dt_tensor_data(c->v) + plane * c->keys * d;
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t e = 0; e < d; e++)
      sum += (double)c->value[q[e]] * c->value[k[j * d + e]];
    c->weights[j] = sum / sqrt((double)d);
  }
  weigh(c, n);
  double sums[WIDTH] = {0}, errors[WIDTH] = {0};
  for (int64_t j = 0; j < n; j++)
    for (int64_t e = 0; e < d; e++) {
      double x = c->value[v[j * d + e]];
      sums[e] += c->weights[j] * x;
      errors[e] += fabs(x) * (c->weights[j] * c->errors[j] + 0x1p-25);
    }
  for (int64_t e = 0; e < d; e++) {
    double is = c->value[out[e]], bound = errors[e] + 0x1p-11 * fabs(sums[e]) + 0x1p-24;
    if (!(fabs(is - sums[e]) <= bound)) {
      (void)fprintf(stderr,
                    "failed: %s: attention %u, plane %lld, row %lld: element %lld is %g, not %g "
                    "(within %.2g)\n",
                    c->name, which, (long long)plane, (long long)row, (long long)e, is, sums[e],
                    bound);
      return false;
    }
  }
  return true;
}

// The first and the last rows of all, and some between.
static bool check(case_t *c) {
  uint64_t state = (uint64_t)c->keys;
  c->weights = malloc((size_t)c->keys * sizeof(double));
  c->errors = malloc((size_t)c->keys * sizeof(double));
  bool good = c->weights && c->errors;
  for (uint32_t i = 0; good && i < c->p->count; i += c->p->count - 1) { // the first and the last
    good = fine(c, dt_tensor_copy(c->session, c->out[i], c->result), "download") &&
           fine(c, dt_session_wait(c->session), "wait");
    int64_t last = c->batch * c->p->heads - 1;
    good = good && check_row(c, i, 0, 0) && check_row(c, i, last, c->rows - 1);
    for (int r = 2; good && r < SAMPLED; r++) {
      int64_t plane = bench_random(&state, 0, last);
      good = check_row(c, i, plane, bench_random(&state, 0, c->rows - 1));
    }
  }
  free(c->weights);
  free(c->errors);
  return good;
}

// ---- Measuring ----------------------------------------------------------------------------------
typedef struct rig_t {
  const options_t *o;
  bench_report_t report;
  dt_runtime_t *runtime;
  dt_session_t *session;
  float value[UINT16_MAX + 1];
} rig_t;

static bool measure(rig_t *rig, case_t *c, dt_function_t *function) {
  const uint32_t n = c->p->count;
  if (!make_operands(c) ||
      !fine(c, dt_call(c->session, function, c->in, 3 * n, c->out, n, NULL), "call") ||
      !fine(c, dt_session_wait(c->session), "call") || !check(c))
    return false;
  const queued_call_t call = {c->session, function, c->in, c->out, 3 * n, n};
  double us = queued_us(&call, rig->o->rounds) / n;
  if (!(us > 0) || !check(c))
    return false;
  bench_value(&rig->report, c->name, "time", "us", us);
  return true;
}

// Bytes of the operands of all attentions, and of the scores of one.
static double bytes_of(const program_t *p, int64_t batch, int64_t rows, int64_t keys) {
  double planes = (double)batch * (double)p->heads;
  double operands = 2.0 * planes * (double)(rows + keys) * (double)p->d * 2;
  return operands * p->count + planes * (double)rows * (double)keys * 2;
}

static bool run_case(rig_t *rig, const program_t *p, dt_function_t *function, int64_t batch,
                     int64_t length) {
  case_t *c = calloc(1, sizeof(*c));
  if (!c)
    return false;
  c->session = rig->session;
  c->p = p;
  c->batch = batch;
  c->rows = p->form == DECODE ? 1 : length;
  c->keys = length;
  c->value = rig->value;
  (void)snprintf(c->name, sizeof(c->name), "%s f16 %lldx%lldx%lldx%lld", form_names[p->form],
                 (long long)batch, (long long)p->heads, (long long)length, (long long)p->d);
  double mib = bytes_of(p, batch, c->rows, c->keys) / 0x1p20;
  bool good = true;
  if (mib > (double)rig->o->memory) {
    (void)fprintf(stderr, "skipped: %s: needs %.0f MiB, more than %ld\n", c->name, mib,
                  rig->o->memory);
  } else {
    good = measure(rig, c, function) || c->refused;
    drop_operands(c);
  }
  free(c);
  return good;
}

// So many that a launch of a graph counts little, and that caches hold no operands of the next
// call.
static uint32_t count_of(form_t form, int64_t heads, int64_t d, int64_t batch, int64_t length) {
  if (form != DECODE)
    return 4;
  return batch * heads * length * d * 4 <= 32 << 20 ? MOST : 2;
}

// The function of the case before serves the next one where that has as many attentions.
static bool run_d(rig_t *rig, form_t form, int64_t d, const list_t *batches,
                  const list_t *lengths) {
  program_t p = {.form = form, .d = d, .heads = form == DECODE ? DECODE_HEADS : WIDTH / d};
  dt_function_t *function = NULL;
  bool good = true;
  for (size_t b = 0; b < batches->n; b++)
    for (size_t l = 0; l < lengths->n; l++) {
      int64_t length = lengths->items[l], batch = batches->items[b];
      if (form != DECODE)
        batch = rig->o->tokens > length ? rig->o->tokens / length : 1;
      uint32_t count = count_of(form, p.heads, d, batch, length);
      if (count != p.count) {
        dt_function_release(function);
        function = NULL;
        p.count = count;
        if (!make_function(rig->runtime, &p, &function))
          return false;
      }
      good &= run_case(rig, &p, function, batch, length);
    }
  dt_function_release(function);
  return good;
}

static const list_t own_heads[FORMS] = {{3, {32, 64, 128}}, {3, {32, 64, 128}}, {2, {64, 128}}};
static const list_t own_lengths[FORMS] = {{8, {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                                          {8, {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                                          {4, {512, 2048, 8192, 32768}}};
static const list_t own_batches[FORMS] = {{1, {0}}, {1, {0}}, {2, {1, 8}}};

static bool run(const options_t *o) {
  rig_t *rig = calloc(1, sizeof(*rig));
  if (!rig)
    return false;
  rig->o = o;
  bench_begin(&rig->report, "gpu_attention", o->json);
  for (uint32_t bits = 0; bits <= UINT16_MAX; bits++)
    rig->value[bits] = value_of(bits);
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  bool ready = bench_ok(dt_runtime_create(NULL, &rig->runtime), "runtime") &&
               bench_ok(dt_session_create(rig->runtime, &on, &rig->session), "session");
  bool good = ready;
  for (int form = 0; ready && form < FORMS; form++) {
    const list_t *heads = o->heads.n ? &o->heads : &own_heads[form];
    const list_t *lengths = o->lengths.n ? &o->lengths : &own_lengths[form];
    const list_t *batches = form == DECODE && o->batches.n ? &o->batches : &own_batches[form];
    for (size_t i = 0; bench_listed(o->forms, form_names[form]) && i < heads->n; i++)
      good &= run_d(rig, (form_t)form, heads->items[i], batches, lengths);
  }
  dt_session_destroy(rig->session);
  dt_runtime_release(rig->runtime);
  free(rig);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------
// Numbers between commas.
static bool parse_list(const char *text, long most, list_t *out) {
  out->n = 0;
  for (const char *at = text; *at; out->n++) {
    char *end = NULL;
    if (out->n == LIST)
      return false;
    out->items[out->n] = strtol(at, &end, 10);
    if (end == at || out->items[out->n] < 1 || out->items[out->n] > most || (*end && *end != ','))
      return false;
    at = *end ? end + 1 : end;
  }
  return out->n > 0;
}

// Names of forms between commas, and nothing else.
static bool parse_forms(const char *text, const char **out) {
  size_t length = 0;
  for (int form = 0; form < FORMS; form++)
    length += bench_listed(text, form_names[form]) ? strlen(form_names[form]) + 1 : 0;
  *out = text;
  return length > 0 && length == strlen(text) + 1;
}

static bool parse(int c, options_t *o) {
  switch (c) {
  case 'f':
    return parse_forms(optarg, &o->forms);
  case 'd':
    return parse_list(optarg, WIDTH, &o->heads);
  case 'l':
    return parse_list(optarg, 1 << 20, &o->lengths);
  case 'b':
    return parse_list(optarg, 1 << 12, &o->batches);
  case 't':
    return bench_parse_number(optarg, 1, 1 << 24, &o->tokens);
  case 'm':
    return bench_parse_number(optarg, 1, 1 << 24, &o->memory);
  case 'r':
    return bench_parse_number(optarg, 1, QUEUED_ROUNDS, &o->rounds);
  case 'j':
    o->json = true;
    return true;
  default:
    return false;
  }
}

int main(int argc, char **argv) {
  options_t o = {.tokens = 8192, .memory = 16384, .rounds = 9, .forms = "forward,causal,decode"};
  static const struct option longs[] = {
      {"forms", required_argument, NULL, 'f'},   {"d", required_argument, NULL, 'd'},
      {"lengths", required_argument, NULL, 'l'}, {"batches", required_argument, NULL, 'b'},
      {"tokens", required_argument, NULL, 't'},  {"memory", required_argument, NULL, 'm'},
      {"rounds", required_argument, NULL, 'r'},  {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
  for (int c, at = 0; (c = getopt_long(argc, argv, "", longs, &at)) != -1;) {
    if (c == 'h')
      return printf("%s", usage) < 0;
    if (parse(c, &o))
      continue;
    if (c != '?')
      (void)fprintf(stderr, "bench_gpu_attention: --%s does not take '%s'\n", longs[at].name,
                    optarg);
    (void)fprintf(stderr, "%s", usage);
    return BENCH_EXIT_USAGE;
  }
  if (optind < argc) {
    (void)fprintf(stderr, "bench_gpu_attention: '%s' is no option\n%s", argv[optind], usage);
    return BENCH_EXIT_USAGE;
  }
  return run(&o) ? 0 : BENCH_EXIT_FAILED;
}
