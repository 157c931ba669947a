// SPDX-License-Identifier: Apache-2.0
// ductile-opt: reads graph IR, runs the pipeline up to a stage and prints what came out; with .dtt
// files, compares that with what the file expects. The target is a described one, not the host, so
// that texts are equal everywhere.
#include "fuse/target.h"
#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"
#include "runtime/trace/rewrites.h"
#include "tools/opt_check.h"
#include "tools/opt_file.h"
#include "tools/opt_llvm.h"
#include "tools/opt_ptx.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_SAME = 0, EXIT_DIFFERENT = 1, EXIT_USAGE = 2 };

typedef struct options_t {
  const char *stage; // NULL: the last
  const char *print; // "graph", "loops" or NULL: what the stage makes
  const char *gpu;   // NULL: a CPU
  bool llvm, ptx, check, update, help;
  const char *path; // NULL: standard input
} options_t;

static const char help[] =
    "usage: ductile-opt [--stage NAME] [--print graph|loops] [--llvm] [--gpu ARCH [--ptx]]\n"
    "                   [--check] [--update] [FILE]\n"
    "\n"
    "Reads graph IR from FILE (or standard input), runs the compiler's stages up to NAME and "
    "prints\n"
    "the result. A FILE in sections (--TEST--, --ARGS--, --IN--, --EXPECT--) is a test: the "
    "options\n"
    "in its --ARGS-- are taken, and the result is compared with --EXPECT--.\n"
    "\n"
    "  --stage NAME   the last stage to run (default: all of them)\n"
    "  --print WHAT   graph or loops: the last one made (default: what the last stage makes)\n"
    "  --llvm         the LLVM IR of the kernels, after all stages\n"
    "  --gpu ARCH     for a GPU instead of a CPU: sm_80, sm_89 or sm_90\n"
    "  --ptx          the PTX of the kernels, after all stages; with --gpu\n"
    "  --check        run the graph over the arguments in the section --DATA--, by the evaluator, "
    "by\n"
    "                 the interpreter after every stage, and as code of this machine: right, or "
    "where\n"
    "                 it is wrong\n"
    "  --update       rewrite --EXPECT-- instead of comparing\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 printed, or as expected; 1 different, or the input was refused; 2 bad usage "
    "or\n"
    "an unreadable file.\n";

static void print_help(void) {
  (void)printf("%s\nStages:", help);
  for (const char *const *name = dt__pipeline_stages(); *name; name++)
    (void)printf(" %s", *name);
  (void)printf("\n");
}

// ---- Options --------------------------------------------------------------------------------------

static bool known_stage(const char *name) {
  for (const char *const *stage = dt__pipeline_stages(); *stage; stage++) {
    if (strcmp(*stage, name) == 0)
      return true;
  }
  return false;
}

// An option without a value, or the path. False: neither.
static bool take_flag(options_t *options, const char *word) {
  if (strcmp(word, "--llvm") == 0)
    options->llvm = true;
  else if (strcmp(word, "--ptx") == 0)
    options->ptx = true;
  else if (strcmp(word, "--check") == 0)
    options->check = true;
  else if (strcmp(word, "--update") == 0)
    options->update = true;
  else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
    options->help = true;
  else if (word[0] != '-' || word[1] == '\0')
    options->path = word;
  else
    return false;
  return true;
}

// An option with a value. False: it has none, or not of its kind.
static bool take_pair(options_t *options, const char *word, const char *value) {
  if (!value)
    return false;
  if (strcmp(word, "--stage") == 0 && known_stage(value))
    options->stage = value;
  else if (strcmp(word, "--gpu") == 0 && opt_ptx_known(value))
    options->gpu = value;
  else if (strcmp(word, "--print") == 0 &&
           (strcmp(value, "graph") == 0 || strcmp(value, "loops") == 0))
    options->print = value;
  else
    return false;
  return true;
}

static bool take_options(options_t *options, char **words, int n) {
  for (int i = 0; i < n; i++) {
    if (take_flag(options, words[i]))
      continue;
    const char *value = i + 1 < n ? words[i + 1] : NULL;
    if (!take_pair(options, words[i], value)) {
      (void)fprintf(stderr, "ductile-opt: %s %s: no such option or value; see --help\n", words[i],
                    value ? value : "");
      return false;
    }
    i++;
  }
  return true;
}

#define MOST_WORDS 32

// Options of a test, cut at blanks in place.
static bool take_args_section(options_t *options, char *text) {
  char *words[MOST_WORDS];
  int n = 0;
  for (char *at = text; *at && n < MOST_WORDS;) {
    at += strspn(at, " \n");
    if (!*at)
      break;
    words[n++] = at;
    at += strcspn(at, " \n");
    if (*at)
      *at++ = '\0';
  }
  return take_options(options, words, n);
}

// ---- Running --------------------------------------------------------------------------------------

// A machine with 8 lanes of f32, 16 registers and no masked memory, as x86-64-v3 is.
static dt_target_t described_target(void) {
  return (dt_target_t){.device = DT_CPU,
                       .fast_conv = true,
                       .cpu = "x86-64-v3",
                       .features = "",
                       .vector_bytes = 32,
                       .vector_registers = 16,
                       .fma = true,
                       .dot_products = 1,
                       .threads = 4,
                       .l1_bytes = 32 << 10,
                       .l2_bytes = 1 << 20,
                       .matmul_rows = {6, 6},
                       .matmul_width = {16, 8},
                       .parameters = true};
}

typedef struct result_t {
  dt_text_t graph, loops; // the last of each
} result_t;

static void observe(void *user, const dt_stage_view_t *view) {
  result_t *result = user;
  dt_text_t *text = view->program ? &result->loops : &result->graph;
  dt__text_fini(text);
  dt__text_init(text);
  if (view->program)
    dt__program_print(view->program, text);
  else
    dt__graph_print(view->graph, text);
}

static dt_status_t parse(dt_arena_t *arena, dt_symenv_t *env, const char *text, const char *what,
                         dt_graph_t **out) {
  dt_scan_t scan;
  dt__scan_init(&scan, text, strlen(text), what);
  DT_TRY(dt__graph_parse(arena, env, &scan, out));
  if (!dt__scan_end(&scan))
    return dt__scan_fail(&scan, "expected the end of the text");
  return dt__symenv_status(env);
}

// What is printed must read back as the same text.
static dt_status_t check_round_trip(const char *text) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_symenv_t *env = NULL;
  dt_graph_t *graph = NULL;
  dt_text_t again;
  dt__text_init(&again);
  dt_status_t status = dt__symenv_create(&env);
  if (!status)
    status = parse(&arena, env, text, "printed graph", &graph);
  if (!status) {
    dt__graph_print(graph, &again);
    status = dt__text_status(&again);
  }
  if (!status && strcmp(dt__text_str(&again), text) != 0)
    status =
        DT_FAIL(DT_E_INTERNAL, "a printed graph reads back as another:\n%s", dt__text_str(&again));
  dt__text_fini(&again);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

static dt_status_t run_stages(dt_arena_t *arena, dt_symenv_t *env, const opt_file_t *file,
                              const options_t *options, result_t *result, dt_text_t *out) {
  dt_graph_t *graph = NULL;
  DT_TRY(parse(arena, env, file->in, "graph", &graph));
  dt__symenv_freeze(env); // as after tracing: stages add no guard
  dt_target_t target = described_target();
  if (options->gpu)
    DT_TRY(opt_ptx_target(options->gpu, &target));
  bool code = options->llvm || options->ptx;
  dt_program_t *program = NULL;
  dt_hooks_t *hooks = NULL;
  DT_TRY(dt__hooks_create(&hooks));
  DT_TRY(dt__rewrites_add(hooks, &hooks));
  dt_status_t status =
      dt__pipeline_run(arena, env, graph,
                       &(dt_pipeline_request_t){.target = &target,
                                                .until = code ? NULL : options->stage,
                                                .verify = true,
                                                .hooks = hooks,
                                                .observe = observe,
                                                .user = result},
                       &program);
  dt__hooks_release(hooks);
  DT_TRY(status);
  DT_TRY(dt__text_status(&result->graph));
  DT_TRY(dt__text_status(&result->loops));
  DT_TRY(check_round_trip(dt__text_str(&result->graph)));
  if (options->llvm)
    return opt_llvm_print(program, out);
  if (options->ptx && !options->gpu)
    return DT_FAIL(DT_E_ARGUMENT, "--ptx: expected --gpu with it");
  if (options->ptx)
    return opt_ptx_print(program, &target, out);
  bool loops = options->print ? strcmp(options->print, "loops") == 0 : program != NULL;
  if (loops && !program)
    return DT_FAIL(DT_E_ARGUMENT, "--print loops: stage %s makes a graph", options->stage);
  dt__text_put(out, dt__text_str(loops ? &result->loops : &result->graph));
  return dt__text_status(out);
}

static dt_status_t run(const opt_file_t *file, const options_t *options, dt_text_t *out) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_symenv_t *env = NULL;
  result_t result = {0};
  dt__text_init(&result.graph);
  dt__text_init(&result.loops);
  dt_status_t status = NULL;
  dt_target_t target = described_target();
  if (options->check)
    status = opt_check(file->in, file->data, &target, out);
  else
    status = dt__symenv_create(&env);
  if (!status && !options->check)
    status = run_stages(&arena, env, file, options, &result, out);
  dt__text_fini(&result.graph);
  dt__text_fini(&result.loops);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

// ---- Showing --------------------------------------------------------------------------------------

// A test may expect a refusal: its text is then the failure.
static int show_test(const options_t *options, const opt_file_t *file, dt_status_t failure,
                     dt_text_t *text) {
  if (failure) {
    dt__text_fini(text);
    dt__text_init(text);
    dt__text_printf(text, "%s: %s\n", dt_code_name(dt_status_code(failure)),
                    dt_status_message(failure));
  }
  const char *actual = dt__text_str(text);
  if (strcmp(actual, file->expect) == 0)
    return EXIT_SAME;
  if (!options->update) {
    opt_diff_print(file->expect, actual);
    return EXIT_DIFFERENT;
  }
  // A fault of ours is nothing to expect.
  if (dt_status_code(failure) == DT_E_INTERNAL) {
    (void)fprintf(stderr, "ductile-opt: %s: not updated: %s", options->path, actual);
    return EXIT_DIFFERENT;
  }
  opt_file_t again = {0}; // the options of `file` were cut in place
  dt_status_t status = opt_file_read(options->path, &again);
  if (!status)
    status = opt_file_write(options->path, &again, actual);
  opt_file_fini(&again);
  if (!status)
    return EXIT_SAME;
  (void)fprintf(stderr, "ductile-opt: %s\n", dt_status_message(status));
  dt_status_free(status);
  return EXIT_USAGE;
}

static int run_file(options_t *options, opt_file_t *file) {
  if (!take_args_section(options, file->args))
    return EXIT_USAGE;
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = run(file, options, &text);
  int result = status ? EXIT_DIFFERENT : EXIT_SAME;
  if (file->is_test)
    result = show_test(options, file, status, &text);
  else if (status)
    (void)fprintf(stderr, "ductile-opt: %s: %s\n", dt_code_name(dt_status_code(status)),
                  dt_status_message(status));
  else
    (void)printf("%s", dt__text_str(&text));
  dt_status_free(status);
  dt__text_fini(&text);
  return result;
}

int main(int argc, char **argv) {
  options_t options = {0};
  if (!take_options(&options, argv + 1, argc - 1))
    return EXIT_USAGE;
  if (options.help) {
    print_help();
    return EXIT_SAME;
  }
  opt_file_t file;
  dt_status_t status = opt_file_read(options.path ? options.path : "-", &file);
  if (status) {
    (void)fprintf(stderr, "ductile-opt: %s\n", dt_status_message(status));
    dt_status_free(status);
    return EXIT_USAGE;
  }
  if (file.is_test && !options.path && options.update) {
    (void)fprintf(stderr, "ductile-opt: --update needs a file\n");
    opt_file_fini(&file);
    return EXIT_USAGE;
  }
  int result = run_file(&options, &file);
  opt_file_fini(&file);
  return result;
}
