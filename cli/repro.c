// SPDX-License-Identifier: Apache-2.0
// ductile repro: shows a fault again from a file that the library wrote into DUCTILE_REPRO_DIR, and
// reduces the graph to what the fault needs.
#include "cli/repro.h"

#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ME "repro"

typedef struct options_t {
  const char *path, *reduce, *call, *device;
  double rtol, atol;
  uint32_t threads, timeout, seed, tries;
  bool json;
} options_t;

static const cli_option_t rows[] = {
    {"reduce", CLI_TEXT, offsetof(options_t, reduce), "OUT",
     "take away what the fault does not need, and write what is left to OUT", NULL, 0, 0},
    {"call", CLI_TEXT, offsetof(options_t, call), "TEXT",
     "sizes of the inputs, as for explain (default: what the file says)", NULL, 0, 0},
    {"device", CLI_TEXT, offsetof(options_t, device), "WHERE",
     CLI_DEVICES " (default: what the file says)", NULL, 0, 0},
    {"threads", CLI_COUNT, offsetof(options_t, threads), "N",
     "that run kernels (default: what the file says)", NULL, 1, 65535},
    {"seed", CLI_COUNT, offsetof(options_t, seed), "N", "of the elements (default 1)", NULL, 0,
     UINT32_MAX},
    {"rtol", CLI_REAL, offsetof(options_t, rtol), "X",
     "how much floats may differ from the evaluator's, relative to them (default 0.001)", NULL, 0,
     0},
    {"atol", CLI_REAL, offsetof(options_t, atol), "X", "and absolutely (default 1e-5)", NULL, 0, 0},
    {"timeout", CLI_COUNT, offsetof(options_t, timeout), "SECONDS",
     "for a run, after which it hangs (default 60)", NULL, 1, 86400},
    {"tries", CLI_COUNT, offsetof(options_t, tries), "N", "the most runs to reduce (default 1000)",
     NULL, 1, UINT32_MAX},
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_repro_table = {
    .name = ME,
    .usage = "repro FILE [--reduce OUT] [--call TEXT] [--device WHERE] [--threads N] [--seed N]\n"
             "                     [--rtol X] [--atol X] [--timeout SECONDS] [--tries N] [--json]",
    .about =
        "Compiles the graph in FILE as it was compiled when the file was written, calls it with "
        "the\n"
        "sizes that FILE says and random elements, in a process of its own, and compares with the\n"
        "reference evaluator. FILE is what the library wrote into DUCTILE_REPRO_DIR, graph IR, or "
        "a\n"
        ".dtt test; - is standard input. It shows one of\n"
        "  nothing  compiled code answers, and as the evaluator does\n"
        "  status   a status that the evaluator does not give\n"
        "  wrong    another answer\n"
        "  signal   the end of the process\n"
        "  hang     no answer in time\n",
    .exits = "0 the fault does not show; 1 it does; 2 wrong usage; 3 the file cannot be read.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "file",
};
enum { EXIT_UNREADABLE = 3 };

// ORDER(cli_shown_t)
static const char *const shown_words[] = {"nothing", "status", "wrong", "signal", "hang"};
_Static_assert(CLI_SHOWN_NOTHING == 0 && CLI_SHOWN_STATUS == 1 && CLI_SHOWN_WRONG == 2 &&
                   CLI_SHOWN_SIGNAL == 3 && CLI_SHOWN_HANG == 4,
               "the words stand in the order of cli_shown_t");

typedef struct job_t {
  const options_t *options;
  char *text, *call; // the whole file; its graph alone once its lines were read
  size_t len;
  cli_replay_t replay;
} job_t;

// ---- The file's lines ---------------------------------------------------------------------------
static char *copy_text(const char *at, size_t len) {
  char *copy = malloc(len + 1);
  if (copy) {
    memcpy(copy, at, len);
    copy[len] = '\0';
  }
  return copy;
}

// The value of the line "key: value" before --IN--, copied (free); NULL: there is none.
static char *read_key(const job_t *job, const char *key) {
  const char *at = job->text, *end = at + job->len;
  size_t len = strlen(key);
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t line = (size_t)((stop ? stop : end) - at);
    if (line == 6 && memcmp(at, "--IN--", 6) == 0)
      return NULL;
    if (line > len + 2 && memcmp(at, key, len) == 0 && memcmp(at + len, ": ", 2) == 0)
      return copy_text(at + len + 2, line - len - 2);
    at += line + 1;
  }
  return NULL;
}

static bool read_place(job_t *job) {
  char *device = read_key(job, "device");
  const char *where = job->options->device ? job->options->device : device;
  // In a file "the host" and other words of messages are the CPU.
  bool known = cli_place_device(where, &job->replay.place) || !job->options->device;
  free(device);
  return known;
}

static void read_numbers(job_t *job) {
  char *threads = read_key(job, "threads"), *strict = read_key(job, "strict_fp");
  job->replay.threads = job->options->threads ? job->options->threads
                        : threads             ? (uint32_t)strtoul(threads, NULL, 10)
                                              : 0;
  job->replay.strict_fp = strict && strcmp(strict, "1") == 0;
  free(threads);
  free(strict);
}

static int read_job(job_t *job) {
  const options_t *options = job->options;
  job->text = cli_read_text(ME, EXIT_UNREADABLE, options->path, &job->len);
  if (!job->text)
    return EXIT_UNREADABLE;
  job->call = options->call ? strdup(options->call) : read_key(job, "call");
  job->replay.file = options->path;
  job->replay.text = job->text;
  job->replay.len = job->len;
  job->replay.call = job->call;
  bool known = read_place(job);
  read_numbers(job);
  cli_keep_ir(job->text, job->len);
  if (!known)
    return cli_complain(ME, CLI_USAGE, "--device %s: expected " CLI_DEVICES, options->device);
  return CLI_DONE;
}

// ---- Telling ------------------------------------------------------------------------------------
static void tell_fault(const options_t *options, const cli_fault_t *fault) {
  if (options->json) {
    (void)printf("{\"event\":\"repro\",\"shown\":\"%s\",\"message\":", shown_words[fault->shown]);
    cli_json_string(stdout, fault->message);
    (void)printf("}\n");
  } else {
    (void)printf("%s%s%s\n", shown_words[fault->shown], fault->message[0] ? ": " : "",
                 fault->message);
  }
  (void)fflush(stdout);
}

static void tell_try(void *user, uint32_t tries, uint32_t nodes) {
  (void)user;
  if (isatty(STDERR_FILENO) == 1)
    (void)fprintf(stderr, "\r%u runs, %u nodes left\033[K", tries, nodes);
}

static void tell_reduced(const options_t *options, const cli_reduced_t *reduced) {
  if (isatty(STDERR_FILENO) == 1)
    (void)fprintf(stderr, "\r\033[K");
  if (options->json) {
    (void)printf("{\"event\":\"reduced\",\"nodes\":%u,\"before\":%u,\"runs\":%u,\"file\":",
                 reduced->nodes, reduced->before, reduced->tries);
    cli_json_string(stdout, options->reduce);
    (void)printf("}\n");
  } else {
    (void)printf("%s: %u of %u nodes, after %u runs\n", options->reduce, reduced->nodes,
                 reduced->before, reduced->tries);
  }
}

// ---- The job ------------------------------------------------------------------------------------
static int write_reduced(const job_t *job, const cli_fault_t *fault, const cli_reduced_t *reduced) {
  FILE *file = fopen(job->options->reduce, "w");
  if (!file)
    return cli_complain(ME, CLI_FAILED, "%s: %s", job->options->reduce, strerror(errno));
  (void)fprintf(file, "--TEST--\n%s: %s\nthreads: %u\nstrict_fp: %d\n", shown_words[fault->shown],
                fault->message, job->replay.threads, job->replay.strict_fp);
  if (job->replay.place.device != DT_CPU)
    (void)fprintf(file, "device: %s:%d\n", dt_device_name(job->replay.place.device),
                  job->replay.place.ordinal);
  if (reduced->call)
    (void)fprintf(file, "call: %s\n", reduced->call);
  (void)fprintf(file, "--IN--\n%s", reduced->text);
  bool good = ferror(file) == 0;
  good = fclose(file) == 0 && good;
  if (!good)
    return cli_complain(ME, CLI_FAILED, "%s: %s", job->options->reduce, strerror(errno));
  tell_reduced(job->options, reduced);
  return CLI_FAILED; // the fault shows
}

static int run(const job_t *job) {
  char message[CLI_MESSAGE];
  cli_fault_t fault;
  cli_reduced_t reduced;
  if (!cli_replay(&job->replay, &fault, message))
    return cli_complain(ME, EXIT_UNREADABLE, "%s", message);
  tell_fault(job->options, &fault);
  if (fault.shown == CLI_SHOWN_NOTHING || !job->options->reduce)
    return fault.shown == CLI_SHOWN_NOTHING ? CLI_DONE : CLI_FAILED;
  int result = CLI_FAILED;
  if (cli_reduce(&job->replay, &fault, job->options->tries, tell_try, NULL, &reduced, message))
    result = write_reduced(job, &fault, &reduced);
  else
    result = cli_complain(ME, EXIT_UNREADABLE, "%s", message);
  free(reduced.text);
  free(reduced.call);
  return result;
}

int cli_repro(int argc, char **argv) {
  static options_t options = {.rtol = 1e-3, .atol = 1e-5, .timeout = 60, .seed = 1, .tries = 1000};
  cli_operands_t files;
  int result = CLI_DONE;
  if (!cli_parse(&cli_repro_table, argc, argv, &options, &files, &result))
    return result;
  options.path = files.items[0];
  job_t job = {.options = &options,
               .replay = {.rtol = options.rtol,
                          .atol = options.atol,
                          .seed = options.seed,
                          .timeout_s = options.timeout}};
  result = read_job(&job);
  if (result == CLI_DONE)
    result = run(&job);
  free(job.text);
  free(job.call);
  return result;
}
