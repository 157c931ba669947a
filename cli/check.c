// SPDX-License-Identifier: Apache-2.0
// ductile check: models with data of their own, in the layout of ONNX's tests, by compiled code.
#include "cli/check.h"

#include "cli/options.h"

#include <string.h>
#include <unistd.h>

#define ME "check"

typedef struct options_t {
  const char *device, *only;
  cli_list_t list;
  double rtol, atol;
  uint32_t jobs, timeout, threads;
  int64_t deadline;
  bool names_are_hints, bf16_weights, bisect, sizes_only, buffers, as_onnx, json;
  const char *package;
} options_t;

static const cli_option_t rows[] = {
    CLI_ROW_DEVICE(options_t),
    {"rtol", CLI_REAL, offsetof(options_t, rtol), "X",
     "how much floats may differ, relative to what is expected (default: what the folder's "
     "data.json says, else 0.001 of f32, 1e-6 of f64, 0.004 of f16, 0.03 of bf16)",
     NULL, 0, 0},
    {"atol", CLI_REAL, offsetof(options_t, atol), "X",
     "and absolutely (default: what data.json says, else 1e-7, or, where it is more, a small part "
     "of the largest number in the element's row: 1e-5 of f32)",
     NULL, 0, 0},
    {"as-onnx", CLI_FLAG, offsetof(options_t, as_onnx), NULL,
     "the defaults are those of ONNX's own runner, 0.001 and 1e-7 for every type", NULL, 0, 0},
    {"only", CLI_TEXT, offsetof(options_t, only), "GLOB",
     "of the folders, those whose own names are so", NULL, 0, 0},
    {"list", CLI_LIST, offsetof(options_t, list), "STATUS",
     "print the folders of this status (pass, wrong, refused, error or late), and not the others; "
     "may be given again",
     NULL, 0, 0},
    {"jobs", CLI_COUNT, offsetof(options_t, jobs), "N",
     "processes that check folders (default 1); 0: this process does, and ends if a folder ends it",
     NULL, 0, 256},
    {"threads", CLI_COUNT, offsetof(options_t, threads), "N",
     "of each process that run kernels (default: the cores shared out among the processes)", NULL,
     1, 65535},
    {"timeout", CLI_COUNT, offsetof(options_t, timeout), "SECONDS",
     "for a folder, after which its process is ended and it is an error (default 300; 0: none)",
     NULL, 0, 1000000},
    CLI_ROW_DEADLINE(options_t, "for a folder, as in 500ms or 2s, after which its calls end and it "
                                "is late (default: none)"),
    {"bisect", CLI_FLAG, offsetof(options_t, bisect), NULL,
     "say of a wrong result which node is the first whose value leaves the tolerance, beside the "
     "reference evaluator",
     NULL, 0, 0},
    {"sizes-only", CLI_FLAG, offsetof(options_t, sizes_only), NULL,
     "compare element types and sizes alone: for models that draw random numbers, where another "
     "generator drew what is expected",
     NULL, 0, 0},
    {"buffers", CLI_FLAG, offsetof(options_t, buffers), NULL,
     "call each set again, into buffers that are larger than the results, on the CPU: sizes and "
     "bits must be the same, and nothing behind them written",
     NULL, 0, 0},
    {"package", CLI_TEXT, offsetof(options_t, package), "LEVELS",
     "then write a package with code for LEVELS (as ductile compile has them), and run all sets "
     "again from it, without compiling: the bits must be the same",
     NULL, 0, 0},
    CLI_ROW_NAMES_ARE_HINTS(options_t),
    CLI_ROW_BF16_WEIGHTS(options_t),
    CLI_ROW_JSON(options_t),
};

const cli_command_t cli_check_table = {
    .name = ME,
    .usage =
        "check DIR… [--device WHERE] [--rtol X] [--atol X] [--as-onnx]\n"
        "                     [--only GLOB] [--list STATUS]… [--jobs N] [--threads N] "
        "[--timeout SECONDS]\n"
        "                     [--deadline TIME] [--bisect] [--sizes-only] [--buffers]\n"
        "                     [--package LEVELS] [--names-are-hints] [--bf16-weights] [--json]",
    .about =
        "Checks folders in the layout of ONNX's tests (model.onnx, test_data_set_N/input_K.pb and\n"
        "output_K.pb), and all of them beneath each DIR: runs all sets of a folder through one "
        "function\n"
        "by compiled code and compares the results. Element type and sizes must be those "
        "expected,\n"
        "integers and booleans equal, floats within the tolerances; NaN is equal to NaN. A line "
        "each:\n"
        "  pass     everything is as expected\n"
        "  wrong    a result is not\n"
        "  refused  the library does not do this, and says what\n"
        "  error    anything else, such as a crash: it should not happen\n"
        "  late     the deadline passed first\n",
    .exits =
        "0 each passed or was refused; 1 any was wrong or an error, or there was no folder; 2\n"
        "wrong usage; 4 any was late, and none wrong or an error.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "folder",
    .many = true,
};

// ORDER(cli_outcome_t)
static const char *const outcomes[] = {"pass", "wrong", "refused", "error", "late"};
_Static_assert(CLI_PASS == 0 && CLI_WRONG == 1 && CLI_REFUSED == 2 && CLI_ERROR == 3 &&
                   CLI_OVERDUE == 4,
               "the words stand in the order of cli_outcome_t");

// ---- Telling --------------------------------------------------------------------------------------
typedef struct telling_t {
  const options_t *options;
  bool listed[CLI_N_OUTCOMES];
  bool terminal; // standard error is one
  uint32_t n, counts[CLI_N_OUTCOMES], told;
  uint64_t evaluator_calls;
} telling_t;

static void tell_json(const cli_folder_t *folder, const cli_verdict_t *verdict) {
  (void)printf("{\"event\":\"folder\",\"folder\":");
  cli_json_string(stdout, folder->name);
  (void)printf(",\"status\":\"%s\",\"sets\":%u,\"variants\":%u,\"evaluator_calls\":%llu,"
               "\"max_abs\":%.9g,\"max_rel\":%.9g,\"ms\":%.3f,\"reason\":",
               outcomes[verdict->outcome], verdict->sets, verdict->variants,
               (unsigned long long)verdict->evaluator_calls, verdict->errors.absolute,
               verdict->errors.relative, verdict->ms);
  cli_json_string(stdout, verdict->reason);
  (void)printf("}\n");
}

// One line, whatever the reason holds.
static void tell_text(const cli_folder_t *folder, const cli_verdict_t *verdict, bool sizes_only) {
  (void)printf("%-7s  %s: ", outcomes[verdict->outcome], folder->name);
  if (verdict->outcome == CLI_PASS)
    (void)printf("%u set%s, %u variant%s, %llu evaluator calls", verdict->sets,
                 verdict->sets == 1 ? "" : "s", verdict->variants,
                 verdict->variants == 1 ? "" : "s", (unsigned long long)verdict->evaluator_calls);
  if (verdict->outcome == CLI_PASS && !sizes_only)
    (void)printf("; at most %.3g absolute, %.3g relative", verdict->errors.absolute,
                 verdict->errors.relative);
  for (const char *at = verdict->reason; *at; at++)
    (void)fputs(*at == '\n' ? "; " : (char[]){*at, '\0'}, stdout);
  (void)printf("\n");
}

static void show_progress(const telling_t *telling) {
  if (telling->terminal)
    (void)fprintf(stderr, "\r%u of %u\033[K", telling->told, telling->n);
}

static void tell(void *user, const cli_folder_t *folder, const cli_verdict_t *verdict) {
  telling_t *telling = user;
  telling->counts[verdict->outcome]++;
  telling->evaluator_calls += verdict->evaluator_calls;
  telling->told++;
  if (telling->listed[verdict->outcome]) {
    if (telling->terminal)
      (void)fprintf(stderr, "\r\033[K");
    if (telling->options->json)
      tell_json(folder, verdict);
    else
      tell_text(folder, verdict, telling->options->sizes_only);
    (void)fflush(stdout);
  }
  show_progress(telling);
}

static void tell_total(const telling_t *telling) {
  const uint32_t *counts = telling->counts;
  if (telling->terminal)
    (void)fprintf(stderr, "\r\033[K");
  if (telling->options->json)
    (void)printf("{\"event\":\"total\",\"folders\":%u,\"pass\":%u,\"wrong\":%u,\"refused\":%u,"
                 "\"error\":%u,\"late\":%u,\"evaluator_calls\":%llu}\n",
                 telling->told, counts[CLI_PASS], counts[CLI_WRONG], counts[CLI_REFUSED],
                 counts[CLI_ERROR], counts[CLI_OVERDUE],
                 (unsigned long long)telling->evaluator_calls);
  else
    (void)printf("%u folder%s: %u pass, %u wrong, %u refused, %u error, %u late\n", telling->told,
                 telling->told == 1 ? "" : "s", counts[CLI_PASS], counts[CLI_WRONG],
                 counts[CLI_REFUSED], counts[CLI_ERROR], counts[CLI_OVERDUE]);
}

// ---- The job --------------------------------------------------------------------------------------
static int read_list(const options_t *options, telling_t *telling) {
  for (uint32_t k = 0; k < options->list.n; k++) {
    bool found = false;
    for (uint32_t o = 0; o < CLI_N_OUTCOMES; o++) {
      bool same = strcmp(options->list.items[k], outcomes[o]) == 0;
      telling->listed[o] |= same;
      found |= same;
    }
    if (!found)
      return cli_complain(ME, CLI_USAGE, "--list %s: expected pass, wrong, refused, error or late",
                          options->list.items[k]);
  }
  for (uint32_t o = 0; o < CLI_N_OUTCOMES; o++)
    telling->listed[o] |= options->list.n == 0;
  return CLI_DONE;
}

// Processes share the machine out among themselves.
static uint32_t threads_each(uint32_t jobs) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t n = cores > 0 ? (uint32_t)cores : 1;
  return jobs <= 1 ? n : n / jobs > 0 ? n / jobs : 1;
}

static int check(const options_t *options, const cli_checking_t *checking,
                 const cli_operands_t *roots, telling_t *telling) {
  char message[CLI_MESSAGE];
  cli_folders_t folders = {0};
  int result = CLI_DONE;
  for (uint32_t k = 0; k < roots->n && result == CLI_DONE; k++) {
    uint32_t before = folders.n;
    if (strcmp(roots->items[k], "-") == 0)
      result = cli_complain(ME, CLI_USAGE,
                            "-: standard input is no folder with a model and its data; "
                            "ductile run takes a model from there");
    else if (!cli_walk(&folders, roots->items[k], options->only, message))
      result = cli_complain(ME, CLI_FAILED, "%s", message);
    else if (folders.n == before)
      result = cli_complain(ME, CLI_FAILED, "%s: no folder with a model.onnx%s%s", roots->items[k],
                            options->only ? " is called " : "", options->only ? options->only : "");
  }
  telling->n = folders.n;
  if (result == CLI_DONE) {
    show_progress(telling);
    if (!cli_check_all(checking, &folders, options->jobs, tell, telling, message))
      result = cli_complain(ME, CLI_FAILED, "%s", message);
    tell_total(telling);
  }
  cli_folders_free(&folders);
  if (telling->counts[CLI_WRONG] + telling->counts[CLI_ERROR] > 0)
    result = CLI_FAILED;
  else if (result == CLI_DONE && telling->counts[CLI_OVERDUE] > 0)
    result = CLI_LATE;
  return result;
}

int cli_check(int argc, char **argv) {
  static options_t options = {.rtol = -1, .atol = -1, .jobs = 1, .timeout = 300};
  cli_operands_t roots;
  telling_t telling = {.options = &options, .terminal = isatty(STDERR_FILENO) == 1};
  int result = CLI_DONE;
  if (!cli_parse(&cli_check_table, argc, argv, &options, &roots, &result))
    return result;
  uint32_t threads = threads_each(options.jobs);
  cli_checking_t checking = {.place = {.limit_action = DT_LIMIT_ERROR,
                                       .names_are_hints = options.names_are_hints,
                                       .bf16_weights = options.bf16_weights,
                                       .deadline = options.deadline},
                             .threads = options.threads ? options.threads : threads,
                             .compile_threads = threads,
                             .rtol = options.rtol,
                             .atol = options.atol,
                             .timeout_s = options.timeout,
                             .bisect = options.bisect,
                             .sizes_only = options.sizes_only,
                             .buffers = options.buffers,
                             .as_onnx = options.as_onnx,
                             .package = options.package};
  if (!cli_place_device(options.device, &checking.place))
    return cli_complain(ME, CLI_USAGE, "--device %s: expected " CLI_DEVICES, options.device);
  result = read_list(&options, &telling);
  if (result != CLI_DONE)
    return result;
  return check(&options, &checking, &roots, &telling);
}
