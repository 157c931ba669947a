// SPDX-License-Identifier: Apache-2.0
// See tuned.h. Choices are written by their names, so that rows may come and go.
#include "runtime/compile/tuned.h"

#include "lower/loop/loop.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/watch.h"
#include "runtime/compile/compile.h"

#include <string.h>

#define KIND "tuned" // of entries (disk_cache.h)
#define MOST_CALLS 4096u

void dt__tuned_destroy(dt_tuned_t *tuned) {
  if (!tuned)
    return;
  for (uint32_t k = 0; tuned->calls && k < tuned->n_calls; k++)
    dt__free((char *)(uintptr_t)tuned->calls[k].sizes);
  dt__free(tuned->calls);
  dt__free(tuned);
}

dt_tuned_t *dt__tuned_create(dt_choices_t choices, const dt_tuned_call_t *calls, uint32_t n_calls) {
  dt_tuned_t *tuned = dt__calloc(1, sizeof(*tuned));
  if (!tuned)
    return NULL;
  tuned->choices = choices;
  tuned->calls = dt__calloc(n_calls, sizeof(*calls));
  bool good = tuned->calls != NULL;
  for (; good && tuned->n_calls < n_calls; tuned->n_calls += good) {
    dt_tuned_call_t *own = &tuned->calls[tuned->n_calls];
    *own = calls[tuned->n_calls];
    own->sizes = dt__strdup(own->sizes);
    good = own->sizes != NULL;
  }
  if (good)
    return tuned;
  dt__tuned_destroy(tuned);
  return NULL;
}

dt_tuned_t *dt__tuned_copy(const dt_tuned_t *tuned) {
  dt_tuned_t *copy = tuned ? dt__tuned_create(tuned->choices, tuned->calls, tuned->n_calls) : NULL;
  if (copy)
    copy->sizes = tuned->sizes;
  return copy;
}

// ---- Kept -----------------------------------------------------------------------------------------
void dt__choices_store(dt_stream_t *s, dt_choices_t *choices) {
  dt_text_t names;
  dt__text_init(&names);
  dt__choices_print(*choices, &names);
  const char *text = dt__text_str(&names);
  bool reads = s->to == NULL;
  s->failed |= names.failed;
  dt__stream_text(s, &text);
  if (reads) {
    dt_status_t status = text ? dt__choices_parse(text, choices) : NULL;
    s->failed |= !text || status;
    dt_status_free(status);
    if (!s->arena)
      dt__free((char *)(uintptr_t)text);
  }
  dt__text_fini(&names);
}

static void store_calls(dt_stream_t *s, dt_tuned_t *tuned) {
  tuned->calls = dt__stream_list(s, &tuned->n_calls, tuned->calls, sizeof(*tuned->calls));
  s->failed |= tuned->n_calls > MOST_CALLS;
  for (uint32_t k = 0; k < tuned->n_calls && !s->failed; k++) {
    dt__stream_text(s, &tuned->calls[k].sizes);
    dt__stream_word(s, &tuned->calls[k].before_ns);
    dt__stream_word(s, &tuned->calls[k].ns);
  }
}

void dt__tuned_store(dt_stream_t *s, dt_tuned_t **tuned) {
  bool some = *tuned != NULL;
  dt__stream_flag(s, &some);
  if (!some || s->failed)
    return;
  if (!s->to)
    *tuned = dt__calloc(1, sizeof(**tuned));
  s->failed |= !*tuned;
  if (s->failed)
    return;
  dt__choices_store(s, &(*tuned)->choices);
  dt__stream_flag(s, &(*tuned)->sizes);
  store_calls(s, *tuned);
}

// The key of the usual compile, but for the sizes of the call that it was made for: these are hints
// to schedules, and other sizes are to have the same choices.
static void make_key(const dt_text_t *key, dt_text_t *out) {
  static const char hint[] = " hint ";
  const char *at = dt__text_str(key), *end = at + key->len;
  dt__text_init(out);
  out->failed = key->failed;
  for (const char *found;
       (found = memmem(at, (size_t)(end - at), hint, sizeof(hint) - 1)) != NULL;) {
    dt__text_write(out, at, (size_t)(found - at));
    at = found + sizeof(hint) - 1;
    while (at < end && (*at == '-' || (*at >= '0' && *at <= '9')))
      at++;
  }
  dt__text_write(out, at, (size_t)(end - at));
}

static void keep(dt_disk_cache_t *cache, const dt_text_t *key, const dt_tuned_t *tuned) {
  dt_text_t entry;
  dt_tuned_t *own = (dt_tuned_t *)(uintptr_t)tuned; // what is written is only read
  dt__text_init(&entry);
  dt_stream_t s = {.to = &entry};
  dt__tuned_store(&s, &own);
  if (!s.failed && !entry.failed)
    dt__disk_cache_keep(cache, KIND, key, entry.data, entry.len);
  dt__text_fini(&entry);
}

void dt__tuned_keep(dt_disk_cache_t *cache, const dt_text_t *key, const dt_tuned_t *tuned) {
  dt_text_t own;
  make_key(key, &own);
  if (cache && !own.failed)
    keep(cache, &own, tuned);
  dt__text_fini(&own);
}

static bool find(dt_disk_cache_t *cache, const dt_text_t *key, void **out, size_t *out_bytes) {
  dt_text_t own;
  make_key(key, &own);
  bool found = !own.failed && dt__disk_cache_find(cache, KIND, &own, out, out_bytes);
  dt__text_fini(&own);
  return found;
}

dt_tuned_t *dt__tuned_find(dt_disk_cache_t *cache, const dt_text_t *key) {
  void *entry = NULL;
  size_t size = 0;
  dt_tuned_t *tuned = NULL;
  if (!find(cache, key, &entry, &size))
    return NULL;
  dt_stream_t s = {.from = entry, .left = size};
  dt__tuned_store(&s, &tuned);
  bool good = dt__stream_is_done(&s);
  dt__free(entry);
  if (good)
    return tuned;
  DT_LOG(DT_LOG_CACHE, 1, "what tuning found is not used: it is damaged");
  dt__tuned_destroy(tuned);
  return NULL;
}

// ---- Compiles -------------------------------------------------------------------------------------
typedef struct ask_t {
  dt_compiler_t *compiler;
  const dt_compile_request_t *request;
  const dt_tuned_t *tuned;
  uint64_t loops;
} ask_t;

static dt_status_t target_of(const ask_t *ask, dt_choices_t choices, dt_target_t *out) {
  *out = *dt__compiler_target(ask->compiler);
  out->strict_fp = ask->request->strict_fp;
  return dt__choices_apply(choices, out);
}

static dt_status_t run_keep(void *opaque) {
  const ask_t *ask = opaque;
  const dt_artifact_place_t place = {.cache = dt__compiler_cache(ask->compiler)};
  dt_target_t target;
  dt_text_t key;
  DT_TRY(target_of(ask, 0, &target));
  dt__text_init(&key);
  dt__artifact_key(ask->request->traced, &target, &place, &key);
  bool failed = key.failed;
  dt__tuned_keep(place.cache, &key, ask->tuned);
  dt__text_fini(&key);
  return failed ? DT_FAIL(DT_E_UNSUPPORTED, "this build of the library has no build id") : NULL;
}

bool dt__compile_keep_tuned(dt_compiler_t *compiler, const dt_compile_request_t *request,
                            const dt_tuned_t *tuned) {
  ask_t ask = {.compiler = compiler, .request = request, .tuned = tuned};
  dt_job_t job = {.run = run_keep, .arg = &ask};
  if (!dt__compiler_cache(compiler))
    return false;
  dt_status_t status = dt__jobs_run(dt__compiler_jobs(compiler), &job, 1, 1);
  if (status)
    DT_LOG(DT_LOG_CACHE, 1, "%s.%u: what tuning found is not kept: %s", request->name,
           request->variant, dt_status_message(status));
  bool kept = !status;
  dt_status_free(status);
  return kept;
}

static dt_status_t hash_loops(const dt_target_t *target, const dt_program_t *program,
                              uint64_t *out) {
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "%u %s\n", target->llvm_level, target->tune);
  dt__program_print(program, &text);
  *out = dt__hash(text.data, text.len, 0);
  dt_status_t status = dt__text_status(&text);
  dt__text_fini(&text);
  return status;
}

static dt_status_t run_loops(void *opaque) {
  ask_t *ask = opaque;
  const dt_traced_t *traced = ask->request->traced;
  dt_target_t target;
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_program_t *program = NULL;
  dt__watch_enter(ask->request->watch);
  DT_TRY(target_of(ask, ask->request->choices, &target));
  DT_TRY(dt__symenv_clone(traced->env, &env));
  dt__arena_init(&arena, 0);
  arena.watch = ask->request->watch;
  dt_status_t status = dt__pipeline_run(
      &arena, env, traced->graph,
      &(dt_pipeline_request_t){.hooks = traced->hooks, .target = &target}, &program);
  if (!status)
    status = hash_loops(&target, program, &ask->loops);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return dt__watch_explain(ask->request->watch, status);
}

dt_status_t dt__compile_loops(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              uint64_t *out) {
  ask_t ask = {.compiler = compiler, .request = request};
  dt_job_t job = {.run = run_loops, .arg = &ask};
  DT_TRY(dt__jobs_run(dt__compiler_jobs(compiler), &job, 1, 1));
  *out = ask.loops;
  return NULL;
}

// ---- Text -----------------------------------------------------------------------------------------
static void put_ns(uint64_t ns, dt_text_t *out) {
  if (ns < 10000)
    dt__text_printf(out, "%llu ns", (unsigned long long)ns);
  else if (ns < 10000000)
    dt__text_printf(out, "%.1f us", (double)ns * 1e-3);
  else
    dt__text_printf(out, "%.1f ms", (double)ns * 1e-6);
}

void dt__tuned_put(const dt_tuned_t *tuned, dt_text_t *out) {
  if (!tuned)
    return;
  dt__text_put(out, tuned->sizes ? "for hot sizes" : "");
  dt__text_put(out, tuned->sizes && tuned->choices ? ", " : "");
  if (tuned->choices)
    dt__choices_print(tuned->choices, out);
  else if (!tuned->sizes)
    dt__text_put(out, "as usual");
  for (uint32_t k = 0; k < tuned->n_calls; k++) {
    const dt_tuned_call_t *call = &tuned->calls[k];
    dt__text_put(out, k ? ", " : ": ");
    put_ns(call->ns, out);
    if (tuned->choices || tuned->sizes) {
      dt__text_put(out, " for ");
      put_ns(call->before_ns, out);
    }
    if (call->sizes[0])
      dt__text_printf(out, " at %s", call->sizes);
  }
}
