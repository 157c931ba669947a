// SPDX-License-Identifier: Apache-2.0
// One compile from end to end: the pipeline on a compile thread, code generation on all of them,
// and everything else that a call needs. Every compile has its own arena and its own clone of the
// environment, which end with it.
#include "runtime/compile/compile.h"
#include "runtime/compile/external.h"

#include "backend_llvm/host/target.h"
#include "backend_llvm/jit/jit.h"
#include "lower/loop/loop.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/codegen.h"
#include "runtime/compile/early.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/kept.h"
#include "runtime/compile/level.h"
#include "runtime/compile/tuned.h"

#include <stdio.h>
#include <string.h>

// DUCTILE_TUNED: what was found in tuning is used where it keeps the bits.
#define TUNED_BITS 1

struct dt_compiler {
  dt_jobs_t *jobs;
  dt_workers_t *workers; // NULL: code is made in this process
  uint32_t threads, helpers;
  bool verify, early;
  char jit[DT_PARAM_TEXT_BYTES]; // the code generator's file; "": where it is looked for
  dt_target_t target;
  dt_disk_cache_t *cache; // of code for the CPU; NULL: none is kept
  int64_t cache_wait_ns;
  uint32_t tuned; // DUCTILE_TUNED
};

// ---- Compiler -------------------------------------------------------------------------------------

typedef struct describe_t {
  const dt_compiler_options_t *options;
  dt_compiler_t *compiler;
} describe_t;

static dt_status_t run_describe(void *opaque) {
  describe_t *describe = opaque;
  const char *cpu = describe->options->cpu ? describe->options->cpu : "";
  DT_TRY(dt__host_runs(cpu));
  return dt__codegen_target(describe->compiler->workers, cpu, describe->options->pool_width,
                            &describe->compiler->target);
}

dt_status_t dt__compiler_create(const dt_compiler_options_t *options, dt_compiler_t **out) {
  *out = NULL;
  uint64_t left_out = 0;
  DT_TRY(dt__status_annotate(dt__pipeline_without(options->without, &left_out), "DUCTILE_WITHOUT"));
  DT_TRY(dt__codegen_allowed());
  dt_compiler_t *compiler = dt__calloc(1, sizeof(*compiler));
  if (!compiler)
    return DT_NO_MEMORY();
  compiler->threads = options->threads ? options->threads : 1;
  compiler->helpers = options->helpers;
  compiler->verify = options->verify;
  compiler->early = options->early;
  compiler->cache_wait_ns = options->cache_wait_ns;
  compiler->tuned = options->tuned;
  (void)snprintf(compiler->jit, sizeof(compiler->jit), "%s", options->jit ? options->jit : "");
  if (options->cache_dir)
    compiler->cache = dt__disk_cache_open(options->cache_dir, options->cache_bytes);
  dt_status_t status =
      options->workers ? dt__codegen_isolate(options->workers, &compiler->workers) : NULL;
  if (!status)
    status = dt__jobs_create(compiler->threads, options->helpers, &compiler->jobs);
  if (!status) {
    describe_t describe = {.options = options, .compiler = compiler};
    dt_job_t job = {.run = run_describe, .arg = &describe, .what = "the target"};
    status = dt__jobs_run(compiler->jobs, &job, 1, 0);
  }
  compiler->target.left_out = left_out;
  compiler->target.fast_conv = options->fast_conv;
  if (status) {
    dt__compiler_destroy(compiler);
    return status;
  }
  *out = compiler;
  return NULL;
}

void dt__compiler_destroy(dt_compiler_t *compiler) {
  if (!compiler)
    return;
  dt__codegen_stop(compiler->workers);
  dt__jobs_destroy(compiler->jobs);
  dt__codegen_end(compiler->workers);
  dt__disk_cache_close(compiler->cache);
  dt__free(compiler);
}

dt_disk_cache_t *dt__compiler_cache(const dt_compiler_t *compiler) { return compiler->cache; }

dt_workers_t *dt__compiler_workers(const dt_compiler_t *compiler) { return compiler->workers; }

dt_jobs_t *dt__compiler_jobs(dt_compiler_t *compiler) { return compiler->jobs; }

bool dt__compiler_verifies(const dt_compiler_t *compiler) { return compiler->verify; }

const char *dt__compiler_jit(const dt_compiler_t *compiler) { return compiler->jit; }

const dt_target_t *dt__compiler_target(const dt_compiler_t *compiler) { return &compiler->target; }

// ---- Logs and dumps -------------------------------------------------------------------------------

// Text of the last dumped stage, so that a stage which changed nothing writes no file.
typedef struct dumper_t {
  dt_task_board_t *board;
  const char *name;
  uint32_t variant;
  dt_text_t last;
} dumper_t;

static void dump_stage(dumper_t *dumper, const dt_stage_view_t *view) {
  dt_text_t text;
  dt__text_init(&text);
  if (view->program)
    dt__program_print(view->program, &text);
  else
    dt__graph_print(view->graph, &text);
  bool changed = !text.failed && strcmp(dt__text_str(&text), dt__text_str(&dumper->last)) != 0;
  if (changed && (dt__dump_on(view->dump) || dt__dump_on(view->stage)))
    dt__dump(dumper->name, dumper->variant, view->order, view->stage, dt__text_str(&text));
  dt__text_fini(&dumper->last);
  dumper->last = text;
}

static bool any_dump(void) {
  if (dt__dump_on("graph") || dt__dump_on("fused") || dt__dump_on("loops"))
    return true;
  for (const char *const *name = dt__pipeline_stages(); *name; name++) {
    if (dt__dump_on(*name))
      return true;
  }
  return false;
}

static void observe_stage(void *user, const dt_stage_view_t *view) {
  dumper_t *dumper = user;
  if (dt__task_told(dumper->board))
    dt__task_end(dumper->board, dt__now_ns() - view->ns, 0, view->stage, dumper->name);
  DT_LOG(DT_LOG_COMPILE, 2, "%s.%u %s: %.3f ms", dumper->name, dumper->variant, view->stage,
         (double)view->ns * 1e-6);
  if (any_dump())
    dump_stage(dumper, view);
}

// ---- One compile ----------------------------------------------------------------------------------

typedef struct compile_t {
  dt_compiler_t *compiler;
  const dt_traced_t *traced;
  const char *name;
  uint32_t variant;
  const dt_codegen_t *codegen; // NULL: the CPU
  void *device;
  dt_target_t target;
  dt_arena_t arena;
  dt_symenv_t *env; // a clone of the traced one
  dt_program_t *program;
  dt_compile_request_t request; // as its best form is begun early
  dt_tuned_t *tuned;            // why it has the request's choices
  dt_early_t *early;
  dt_disk_claim_t claim;
  dt_haste_t haste;
  bool beside_calls;
  uint32_t units; // the most that kernels are cut into; 0: as many as threads can use
  bool carried;   // the code is for devices elsewhere
} compile_t;

static dt_status_t run_front(void *opaque) {
  compile_t *compile = opaque;
  dt__watch_enter(compile->arena.watch);
  const dt_traced_t *traced = compile->traced;
  DT_TRY(dt__symenv_clone(traced->env, &compile->env));
  dumper_t dumper = {.board = dt__jobs_board(compile->compiler->jobs),
                     .name = compile->name,
                     .variant = compile->variant};
  dt__text_init(&dumper.last);
  dt_status_t status =
      dt__pipeline_run(&compile->arena, compile->env, traced->graph,
                       &(dt_pipeline_request_t){.hooks = traced->hooks,
                                                .target = &compile->target,
                                                .verify = compile->compiler->verify,
                                                .observe = observe_stage,
                                                .user = &dumper},
                       &compile->program);
  dt__text_fini(&dumper.last);
  return dt__pipeline_explain(traced, status);
}

// "gather: index of ids (model.c:41)": what failed, and the line of the program that asked for it.
static dt_status_t origin_text(const char *what, const dt_origin_t *origin, const char **out) {
  dt_text_t text;
  dt__text_init(&text);
  dt__text_put(&text, what ? what : "");
  if (origin->file && origin->file[0]) {
    const char *slash = strrchr(origin->file, '/');
    dt__text_printf(&text, " (%s:%d)", slash ? slash + 1 : origin->file, origin->line);
  }
  dt_status_t status = dt__text_status(&text);
  *out = status ? NULL : dt__strdup(dt__text_str(&text));
  dt__text_fini(&text);
  return status || *out ? status : DT_NO_MEMORY();
}

static dt_status_t take_texts(const dt_program_t *program, dt_compiled_t *out) {
  const dt_graph_t *graph = program->graph;
  out->checks = dt__calloc(program->checks.len, sizeof(*out->checks));
  out->assert_texts = dt__calloc(graph->asserts.len, sizeof(*out->assert_texts));
  out->assert_codes = dt__calloc(graph->asserts.len, sizeof(*out->assert_codes));
  if (!out->checks || !out->assert_texts || !out->assert_codes)
    return DT_NO_MEMORY();
  for (; out->n_checks < program->checks.len; out->n_checks++) {
    const dt_check_t *check = &program->checks.items[out->n_checks];
    dt_compiled_check_t *own = &out->checks[out->n_checks];
    *own = (dt_compiled_check_t){.readback = check->readback, .code = check->code};
    DT_TRY(origin_text(check->what, &check->origin, &own->text));
  }
  for (; out->n_asserts < graph->asserts.len; out->n_asserts++) {
    const dt_graph_assert_t *check = &graph->asserts.items[out->n_asserts];
    out->assert_codes[out->n_asserts] = check->code ? check->code : DT_E_SHAPE;
    DT_TRY(origin_text(check->what, &check->origin, &out->assert_texts[out->n_asserts]));
  }
  return NULL;
}

static dt_status_t take_readbacks(const dt_program_t *program, dt_compiled_t *out) {
  out->readbacks = dt__calloc(program->readbacks.len, sizeof(*out->readbacks));
  if (!out->readbacks)
    return DT_NO_MEMORY();
  for (; out->n_readbacks < program->readbacks.len; out->n_readbacks++) {
    const dt_readback_t *readback = &program->readbacks.items[out->n_readbacks];
    dt_compiled_readback_t *own = &out->readbacks[out->n_readbacks];
    own->symbol = readback->symbol;
    own->range = dt__symbol_info(program->env, readback->symbol).range;
    if (readback->symbol >= out->n_symbols)
      out->n_symbols = readback->symbol + 1;
    DT_TRY(origin_text(readback->what, &readback->origin, &own->text));
  }
  if (!program->segments_reason)
    return NULL;
  out->segments_reason = dt__strdup(program->segments_reason);
  return out->segments_reason ? NULL : DT_NO_MEMORY();
}

static dt_status_t take_numbers(const compile_t *compile, dt_compiled_t *out) {
  const dt_program_t *program = compile->program;
  if (!dt__sym_is_const(program->env, program->once_bytes, &out->once_bytes))
    return DT_FAIL(DT_E_INTERNAL, "the bytes of what is computed once depend on a size");
  for (uint32_t k = program->n_once; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    out->n_launches++;
  out->n_regions = program->regions.len;
  for (uint32_t i = 0; i < program->regions.len; i++) {
    dt_region_kind_t kind = program->regions.items[i].kind;
    out->n_others += kind == DT_REGION_ELSE || kind == DT_REGION_CASE;
    out->n_loops += kind == DT_REGION_WHILE;
  }
  out->n_symbols = dt__symenv_symbol_count(compile->traced->env);
  const dt_graph_t *graph = compile->traced->graph;
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    out->n_output_sizes += dt__graph_node(graph, graph->outputs.items[k])->rank;
  return NULL;
}

static dt_status_t take_edges(const dt_program_t *program, dt_compiled_t *out) {
  dt_edges_t edges = {0};
  bool chain = false;
  DT_TRY(dt__program_edges(program, &edges, &chain));
  if (chain || edges.len == 0)
    return NULL;
  out->edges = dt__calloc(edges.len, sizeof(*out->edges));
  if (!out->edges)
    return DT_NO_MEMORY();
  memcpy(out->edges, edges.items, edges.len * sizeof(*out->edges));
  out->n_edges = edges.len;
  return NULL;
}

static void tell_segments(const compile_t *compile, const dt_compiled_t *compiled) {
  const dt_program_t *program = compile->program;
  uint32_t readback = 0, kernel = program->n_once;
  for (uint32_t s = 0; s < program->segments.len; s++) {
    const dt_program_segment_t *segment = &program->segments.items[s];
    DT_LOG(DT_LOG_COMPILE, 2, "%s.%u segment %u: %u kernels, after reading %u numbers%s%s",
           compile->name, compile->variant, s, segment->kernel_end - kernel,
           segment->readback_end - readback, segment->readback_end > readback ? ", first " : "",
           segment->readback_end > readback ? compiled->readbacks[readback].text : "");
    readback = segment->readback_end;
    kernel = segment->kernel_end;
  }
}

// What can be ended between two units is cut into more of them.
#define BESIDE_UNITS 6

// Many threads that wake up at once are put onto cores where callers run, some for milliseconds.
static uint32_t threads_of(const compile_t *compile) {
  uint32_t all = compile->units ? compile->units : compile->compiler->threads;
  return compile->beside_calls ? (all + 3) / 4 : all;
}

static uint32_t units_of(const compile_t *compile) {
  uint32_t threads = compile->compiler->helpers + 1;
  if (!compile->beside_calls || compile->codegen)
    return 0;
  return threads > BESIDE_UNITS ? threads : BESIDE_UNITS;
}

typedef struct back_t {
  const compile_t *compile;
  dt_compiled_t *out;
} back_t;

static dt_status_t run_externals(const back_t *own) {
  DT_TRY(dt__externals_create(own->compile->program, own->compile->codegen, own->compile->device,
                              own->compile->carried, &own->out->externals));
  own->out->external_table = dt__externals_table(own->out->externals);
  return NULL;
}

static dt_status_t run_open(void *opaque) {
  const dt_compiler_t *compiler = opaque;
  return dt__codegen_open(compiler->workers, compiler->jit);
}

bool dt__compiler_has_codegen(dt_compiler_t *compiler) {
  char *file = NULL;
  if (dt__codegen_is_open(compiler->workers))
    return true;
  dt_status_t status = dt__jit_find(compiler->jit, &file);
  bool found = !status && file;
  dt__free(file);
  if (!status && !found) { // the loader may find it
    dt_job_t job = {.run = run_open, .arg = compiler, .what = "open the code generator"};
    status = dt__jobs_run(compiler->jobs, &job, 1, 0);
    found = !status;
  }
  dt_status_free(status);
  return found;
}

// The code generator is opened beside the first passes of the first compile.
static dt_status_t begin(compile_t *compile) {
  dt_compiler_t *compiler = compile->compiler;
  dt_job_t jobs[] = {{.run = run_open, .arg = compiler, .what = "open the code generator"},
                     {.run = run_front,
                      .arg = compile,
                      .what = "passes",
                      .of = compile->name,
                      .variant = compile->variant}};
  bool open = dt__codegen_is_open(compiler->workers);
  return dt__jobs_run(compiler->jobs, &jobs[open ? 1 : 0], open ? 1 : 2, 0);
}

// What is left to do on a compile thread.
static dt_status_t run_back(void *opaque) {
  const back_t *own = opaque;
  const compile_t *compile = own->compile;
  DT_TRY(dt__once_describe(compile->program, compile->target.strict_fp, &own->out->once_plan));
  return compile->program->externals.len ? run_externals(own) : NULL;
}

// Where it cannot be begun it is made later.
static void begin_early(void *user) {
  compile_t *compile = user;
  dt_status_free(dt__early_begin(compile->compiler, &compile->request, &compile->early));
}

static bool wants_early(const compile_t *compile) {
  const dt_compiler_t *compiler = compile->compiler;
  return compile->haste == DT_HASTE_EARLY || (compiler->early && !compiler->workers);
}

static dt_status_t compile_all(compile_t *compile, dt_artifact_t *keep, dt_compiled_t *out) {
  dt_compiler_t *compiler = compile->compiler;
  DT_TRY(begin(compile));
  dt_codegen_request_t request = {.program = compile->program,
                                  .target = &compile->target,
                                  .codegen = compile->codegen,
                                  .device = compile->device,
                                  .workers = compiler->workers,
                                  .threads = threads_of(compile),
                                  .units = units_of(compile),
                                  .verify = compiler->verify,
                                  .haste = compile->haste,
                                  .on_quick = wants_early(compile) ? begin_early : NULL,
                                  .user = compile,
                                  .name = compile->name,
                                  .variant = compile->variant,
                                  .keep = keep,
                                  .carried = compile->carried};
  DT_TRY(dt__codegen_run(compiler->jobs, &request, out));
  DT_TRY(take_numbers(compile, out));
  if (compile->codegen)
    DT_TRY(take_edges(compile->program, out));
  DT_TRY(take_readbacks(compile->program, out));
  back_t rest = {compile, out};
  dt_job_t back = {.run = run_back,
                   .arg = &rest,
                   .what = "constants",
                   .of = compile->name,
                   .variant = compile->variant};
  DT_TRY(dt__jobs_run(compiler->jobs, &back, 1, 0));
  tell_segments(compile, out);
  return take_texts(compile->program, out);
}

// What somebody wants to look at is made anew.
static bool wants_stages(void) { return any_dump() || dt__dump_on("llvm") || dt__dump_on("ptx"); }

static dt_status_t describe_device(compile_t *compile) {
  const dt_target_t *host = &compile->compiler->target;
  bool strict_fp = compile->target.strict_fp;
  DT_TRY(compile->codegen->target(compile->device, host, &compile->target));
  compile->target.left_out = host->left_out;
  compile->target.fast_conv = host->fast_conv;
  compile->target.strict_fp = strict_fp;
  return NULL;
}

static dt_status_t make(void *user, dt_artifact_t *keep, dt_compiled_t *own) {
  compile_t *compile = user;
  own->choices = compile->request.choices;
  return compile_all(compile, keep, own);
}

static dt_disk_cache_t *cache_of(const compile_t *compile) {
  const dt_codegen_t *codegen = compile->codegen;
  if (!codegen)
    return compile->compiler->cache;
  return codegen->cache ? codegen->cache(compile->device) : NULL;
}

// What was found in tuning is used where it keeps the bits, or the user wants others, too.
static bool choose(void *user, dt_tuned_t **tuned) {
  compile_t *compile = user;
  dt_choices_t choices = (*tuned)->choices;
  dt_target_t target = compile->target;
  bool wanted = compile->compiler->tuned > TUNED_BITS || dt__choices_keep_bits(choices);
  if (!wanted) {
    DT_LOG(DT_LOG_CACHE, 1,
           "%s.%u: what tuning found changes bits, and is not used "
           "(DUCTILE_TUNED)",
           compile->name, compile->variant);
    return false;
  }
  dt_status_t status = dt__choices_apply(choices, &target);
  if (!status) {
    compile->target = target;
    compile->request.choices = choices;
    compile->tuned = *tuned;
    *tuned = NULL;
  }
  dt_status_free(status);
  return !status;
}

static dt_status_t find_or_compile(compile_t *compile, dt_compiled_t **own) {
  dt_disk_cache_t *cache = cache_of(compile);
  if (compile->codegen)
    DT_TRY(describe_device(compile));
  else if (compile->request.chosen)
    DT_TRY(dt__choices_apply(compile->request.choices, &compile->target));
  bool chooses = !compile->request.chosen && !compile->codegen && compile->compiler->tuned;
  compile->request.chosen = true; // its best form is compiled alike
  if (!cache || wants_stages())
    return compile_all(compile, NULL, *own);
  return dt__compile_kept(
      &(dt_kept_request_t){.jobs = compile->compiler->jobs,
                           .place = {.codegen = compile->codegen,
                                     .device = compile->device,
                                     .cache = cache,
                                     .workers = compile->compiler->workers,
                                     .jit = compile->compiler->jit},
                           .traced = compile->traced,
                           .target = &compile->target,
                           .watch = compile->arena.watch,
                           .wait_ns = compile->compiler->cache_wait_ns,
                           .claim = compile->request.claimed ? NULL : &compile->claim,
                           .choose = chooses ? choose : NULL,
                           .name = compile->name,
                           .variant = compile->variant,
                           .quick = compile->haste && !compile->codegen,
                           .make = make,
                           .user = compile},
      own);
}

// It goes on to what is made early.
static void end_claim(compile_t *compile) {
  dt_disk_cache_t *cache = cache_of(compile);
  if (compile->early && cache)
    dt__early_claim(compile->early, cache, &compile->claim);
  else if (cache)
    dt__disk_cache_unclaim(cache, &compile->claim);
}

dt_status_t dt__compile(dt_compiler_t *compiler, const dt_compile_request_t *request,
                        dt_compiled_t **out) {
  *out = NULL;
  const char *name = request->name;
  uint32_t variant = request->variant;
  dt_compiled_t *compiled = dt__calloc(1, sizeof(*compiled));
  if (!compiled)
    return DT_NO_MEMORY();
  compile_t compile = {.compiler = compiler,
                       .traced = request->traced,
                       .name = name,
                       .variant = variant,
                       .codegen = request->codegen,
                       .device = request->device,
                       .target = compiler->target,
                       .request = *request,
                       .claim = {.lock = -1},
                       .haste = request->haste,
                       .beside_calls = request->beside_calls};
  compile.target.strict_fp = request->strict_fp;
  dt__watch_enter(request->watch);
  dt__arena_init(&compile.arena, 0);
  compile.arena.watch = request->watch;
  int64_t begin = dt__now_ns();
  dt_status_t status = find_or_compile(&compile, &compiled);
  status = dt__watch_explain(request->watch, status);
  end_claim(&compile);
  compiled->early = compile.early;
  compiled->choices = compile.request.choices;
  if (compile.tuned) {
    dt__tuned_destroy(compiled->tuned);
    compiled->tuned = compile.tuned;
  }
  if (!status && compiled->segments_reason)
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u reads numbers from data on the host: %s", name, variant,
           compiled->segments_reason);
  if (!status)
    DT_LOG(DT_LOG_COMPILE, 1,
           "%s.%u%s: %u kernels a call, %u codes, %u segments, %u units, %llu bytes of code, %lld "
           "computed once, %.1f ms",
           name, variant, compiled->quick ? ", quickly" : "", compiled->n_launches,
           compiled->n_kernels, compiled->n_segments, compiled->n_units,
           (unsigned long long)compiled->code_bytes, (long long)compiled->once_bytes,
           (double)(dt__now_ns() - begin) * 1e-6);
  dt__symenv_destroy(compile.env);
  dt__arena_fini(&compile.arena);
  dt__heap_trim(); // what passes threw away, and what was read from the cache
  if (status) {
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u: failed: %s", name, variant, dt_status_message(status));
    dt__compiled_unload(compiled); // nothing was launched
    dt__compiled_destroy(compiled);
    return status;
  }
  *out = compiled;
  return NULL;
}

// ---- For other machines ---------------------------------------------------------------------------
// What a machine in general has: code that is carried to others depends on nothing of this one.
#define COMMON_THREADS 4
#define COMMON_L1_BYTES (32 << 10)
#define COMMON_L2_BYTES (1 << 20)
#define COMMON_UNITS 4

typedef struct level_t {
  compile_t *compile;
  const dt_level_t *of;
  bool here;        // its programs, in code for this machine
  dt_target_t host; // of a device's target
} level_t;

dt_status_t dt__compiler_level(const dt_compiler_t *compiler, const char *cpu, dt_target_t *out) {
  DT_TRY(dt__codegen_target(compiler->workers, cpu, COMMON_THREADS, out));
  out->left_out = compiler->target.left_out;
  out->fast_conv = compiler->target.fast_conv;
  out->l1_bytes = COMMON_L1_BYTES;
  out->l2_bytes = COMMON_L2_BYTES;
  return NULL;
}

static dt_status_t describe_level(level_t *level, dt_target_t *out) {
  const dt_codegen_t *codegen = level->of->codegen;
  dt_target_t *cpu = codegen ? &level->host : out;
  DT_TRY(dt__compiler_level(level->compile->compiler, level->of->cpu, cpu));
  if (!codegen)
    return NULL;
  DT_TRY(codegen->level_target(level->of->row, cpu, out));
  out->left_out = cpu->left_out;
  out->fast_conv = cpu->fast_conv;
  return NULL;
}

static dt_status_t run_level(void *opaque) {
  level_t *level = opaque;
  dt_target_t *target = &level->compile->target;
  bool strict_fp = target->strict_fp;
  const dt_target_t *own = &level->compile->compiler->target;
  DT_TRY(describe_level(level, target));
  target->strict_fp = strict_fp;
  dt_choices_t *choices = &level->compile->request.choices;
  *choices = level->of->codegen ? 0 : dt__choices_within(*choices, target);
  DT_TRY(dt__choices_apply(*choices, target));
  if (level->here) {
    memcpy(target->cpu, own->cpu, sizeof(target->cpu));
    memcpy(target->features, own->features, sizeof(target->features));
  }
  return NULL;
}

static compile_t common(dt_compiler_t *compiler, const dt_compile_request_t *request) {
  compile_t compile = {.compiler = compiler,
                       .traced = request->traced,
                       .name = request->name,
                       .variant = request->variant,
                       .target = compiler->target,
                       .request = *request,
                       .units = COMMON_UNITS};
  compile.target.strict_fp = request->strict_fp;
  return compile;
}

// Without `keep`: as code for this machine, which computes the same from constants.
static dt_status_t compile_level(compile_t *compile, const dt_level_t *of, dt_artifact_t *keep,
                                 dt_compiled_t **out) {
  level_t level = {.compile = compile, .of = of, .here = keep == NULL};
  compile->codegen = of->codegen;
  compile->carried = of->codegen != NULL;
  dt_job_t job = {.run = run_level, .arg = &level};
  DT_TRY(dt__jobs_run(compile->compiler->jobs, &job, 1, 0));
  *out = dt__calloc(1, sizeof(**out));
  if (!*out)
    return DT_NO_MEMORY();
  (*out)->choices = compile->request.choices;
  (*out)->tuned = of->codegen ? NULL : dt__tuned_copy(compile->request.tuned);
  return compile_all(compile, keep, *out);
}

static dt_status_t make_entry(compile_t *compile, const dt_level_t *level, dt_entry_t *out) {
  dt_artifact_t artifact = {0};
  dt_status_t status = compile_level(compile, level, &artifact, &out->compiled);
  const dt_artifact_place_t place = {.codegen = level->codegen};
  if (!status)
    status = dt__artifact_link(&artifact, level->codegen);
  if (!status)
    status = dt__artifact_write(&place, &artifact, out->compiled,
                                compile->traced->graph->outputs.len, &out->text);
  out->code_bytes = dt__image_bytes(&artifact.image);
  out->code = artifact.image.bytes;
  artifact.image.bytes = NULL;
  dt__artifact_fini(&artifact);
  return status;
}

dt_status_t dt__compile_here(dt_compiler_t *compiler, const dt_compile_request_t *request,
                             const dt_level_t *level, dt_compiled_t **out) {
  compile_t compile = common(compiler, request);
  *out = NULL;
  dt__arena_init(&compile.arena, 0);
  dt_status_t status = compile_level(&compile, level, NULL, out);
  dt__symenv_destroy(compile.env);
  dt__arena_fini(&compile.arena);
  if (status) {
    dt__compiled_destroy(*out);
    *out = NULL;
  }
  return status;
}

void dt__entry_fini(dt_entry_t *entry) {
  dt__compiled_destroy(entry->compiled);
  dt__free(entry->code);
  dt__text_fini(&entry->text);
}

dt_status_t dt__compile_entry(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              const dt_level_t *level, dt_entry_t *out) {
  *out = (dt_entry_t){0};
  dt__text_init(&out->text);
  compile_t compile = common(compiler, request);
  dt__watch_enter(request->watch);
  dt__arena_init(&compile.arena, 0);
  compile.arena.watch = request->watch;
  int64_t begin = dt__now_ns();
  dt_status_t status = dt__watch_explain(request->watch, make_entry(&compile, level, out));
  if (!status)
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u for %s: %zu bytes, %.1f ms", request->name, request->variant,
           level->name, out->text.len + out->code_bytes, (double)(dt__now_ns() - begin) * 1e-6);
  dt__symenv_destroy(compile.env);
  dt__arena_fini(&compile.arena);
  return status;
}

// An entry, loaded.
typedef struct entry_t {
  const dt_traced_t *traced;
  const dt_entry_source_t *source;
  dt_artifact_place_t place;
  dt_compiled_t *compiled;
} entry_t;

static dt_status_t run_entry(void *opaque) {
  entry_t *entry = opaque;
  const dt_entry_source_t *source = entry->source;
  return dt__artifact_read(&entry->place, source->data, source->bytes, &source->code, entry->traced,
                           &entry->compiled);
}

dt_status_t dt__compiled_read(dt_compiler_t *compiler, const dt_traced_t *traced,
                              const dt_entry_source_t *source, dt_compiled_t **out) {
  entry_t entry = {.traced = traced,
                   .source = source,
                   .place = {.codegen = source->codegen,
                             .device = source->device,
                             .jobs = compiler->jobs,
                             .bare = source->bare}};
  dt_job_t job = {.run = run_entry, .arg = &entry};
  // What a device loads goes to the compile threads unit by unit.
  dt_status_t status =
      source->codegen ? run_entry(&entry) : dt__jobs_run(compiler->jobs, &job, 1, 0);
  *out = entry.compiled;
  return status;
}

// ---- The end of what was compiled -----------------------------------------------------------------

static void free_texts(const char **texts, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    dt__free((char *)(uintptr_t)texts[i]);
  dt__free(texts);
}

void dt__compiled_unload(dt_compiled_t *compiled) {
  dt__externals_unload(compiled->externals);
  if (compiled->device_code)
    compiled->codegen->unload(compiled->device_code);
  compiled->device_code = NULL;
}

void dt__compiled_destroy(dt_compiled_t *compiled) {
  if (!compiled)
    return;
  dt__early_destroy(compiled->early);
  dt__tuned_destroy(compiled->tuned);
  dt__externals_destroy(compiled->externals);
  dt__once_fini(&compiled->once_plan);
  for (uint32_t i = 0; i < compiled->n_units; i++)
    dt__native_unload(compiled->units[i]);
  dt__free(compiled->units);
  dt__free(compiled->kernels);
  dt__free(compiled->edges);
  dt__free(compiled->assert_codes);
  dt__free(compiled->segments);
  dt__free(compiled->output_segments);
  dt__free(compiled->donations);
  dt__free(compiled->copies);
  for (uint32_t i = 0; i < compiled->n_readbacks; i++)
    dt__free((char *)(uintptr_t)compiled->readbacks[i].text);
  dt__free(compiled->readbacks);
  dt__free((char *)(uintptr_t)compiled->segments_reason);
  for (uint32_t i = 0; i < compiled->n_checks; i++)
    dt__free((char *)(uintptr_t)compiled->checks[i].text);
  dt__free(compiled->checks);
  free_texts(compiled->assert_texts, compiled->n_asserts);
  dt__free(compiled);
}
