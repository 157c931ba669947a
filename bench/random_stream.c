// SPDX-License-Identifier: Apache-2.0
// Random bits as raw bytes on standard output, for programs that test generators
// (scripts/dieharder). Ends quietly when the reader does.
#include "bench/harness.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 }; // numbers a call

static const char usage[] =
    "usage: random_stream [--along index|offset|seed] [--seed N] [--bytes N]\n"
    "\n"
    "Writes the 64 bits of dt_philox, number after number, in the machine's byte order.\n"
    "  --along WHAT  what counts up from number to number, from 0 (seed: from --seed); the others\n"
    "                stay: offset 7, index 11 (default: index)\n"
    "  --seed N      the seed (default: 1)\n"
    "  --bytes N     how many (default: until the reader ends)\n"
    "The bytes written go to standard error at the end.\n"
    "Exit codes: 0 done, or the reader ended; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  const char *along;
  uint64_t seed, bytes;
  bool help;
} arguments_t;

// ---- Numbers ------------------------------------------------------------------------------------
enum { SEED, OFFSET, INDEX, N_WORDS };
static const char *const words[N_WORDS] = {"seed", "offset", "index"};

// f(first): first + 0, first + 1, … in the place that counts, literals in the others.
static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const arguments_t *arguments = closure;
  const dt_sym_t n = dt_sym_const(trace, BLOCK);
  const double fixed[N_WORDS] = {(double)arguments->seed, 7, 11};
  dt_value_t value[N_WORDS];
  for (int k = 0; k < N_WORDS; k++)
    value[k] = strcmp(words[k], arguments->along) == 0
                   ? dt_add(trace, dt_iota(trace, DT_U64, 1, &n, 0), in[0])
                   : dt_scalar(trace, DT_U64, fixed[k]);
  out[0] = dt_philox(trace, value[SEED], value[OFFSET], value[INDEX]);
  return dt_trace_status(trace);
}

// False: the reader has ended, or writing failed (*good).
static bool put(const char *data, size_t bytes, bool *good) {
  while (bytes > 0) {
    ssize_t n = write(STDOUT_FILENO, data, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      *good = errno == EPIPE;
      if (!*good)
        perror("random_stream");
      return false;
    }
    data += n;
    bytes -= (size_t)n;
  }
  return true;
}

static bool stream(dt_session_t *session, dt_function_t *function, const arguments_t *arguments) {
  uint64_t first = strcmp(arguments->along, "seed") == 0 ? arguments->seed : 0, written = 0;
  bool good = true, more = true;
  for (; good && more && written < arguments->bytes; first += BLOCK) {
    dt_tensor_t *in = NULL, *out = NULL;
    good = bench_ok(dt_tensor_create_empty(DT_U64, 0, NULL, &in), "an input");
    if (good)
      memcpy(dt_tensor_data(in), &first, sizeof(first));
    good = good && bench_ok(dt_call(session, function, &in, 1, &out, 1, NULL), "a call");
    if (good) {
      uint64_t left = arguments->bytes - written, bytes = BLOCK * sizeof(uint64_t);
      bytes = bytes < left ? bytes : left;
      more = put(dt_tensor_data(out), (size_t)bytes, &good);
      written += more ? bytes : 0;
    }
    dt_tensor_release(in);
    dt_tensor_release(out);
  }
  (void)fprintf(stderr, "random_stream: %" PRIu64 " bytes along %s\n", written, arguments->along);
  return good;
}

static bool run(arguments_t *arguments) {
  static const dt_input_decl_t inputs[] = {{.name = "first", .dtype = DT_U64}};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "stream",
                                         .n_inputs = 1,
                                         .inputs = inputs,
                                         .n_outputs = 1};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "a runtime") &&
              bench_ok(dt_session_create(runtime, NULL, &session), "a session") &&
              bench_ok(dt_function_create(runtime, program, arguments, &options, &function),
                       "a function") &&
              stream(session, function, arguments);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return good;
}

// ---- Arguments ----------------------------------------------------------------------------------
static bool number(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *text != '-' && *out < (uint64_t)1 << 53;
}

static bool is_word(const char *text) {
  bool found = false;
  for (int k = 0; k < N_WORDS; k++)
    found = found || strcmp(text, words[k]) == 0;
  return found;
}

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"along", required_argument, NULL, 'a'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  *out = (arguments_t){.along = "index", .seed = 1, .bytes = UINT64_MAX};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h')
      out->help = true;
    else if (option == 'a')
      good = is_word(out->along = optarg);
    else if (option == 's')
      good = number(optarg, &out->seed);
    else
      good = option == 'b' && number(optarg, &out->bytes);
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments;
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return 2;
  }
  if (arguments.help) {
    (void)fputs(usage, stdout);
    return 0;
  }
  (void)signal(SIGPIPE, SIG_IGN);
  return run(&arguments) ? 0 : 1;
}
