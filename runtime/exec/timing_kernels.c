// SPDX-License-Identifier: Apache-2.0
// See timing_kernels.h. What a launch must read and write is counted as if caches had room for it:
// each element of each buffer once, and no more than its loops ask for. So times by these numbers
// are floors.
#include "runtime/exec/timing_kernels.h"

#include "runtime/base/status.h"
#include "runtime/exec/place.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 96u

// ---- Making -----------------------------------------------------------------------------------------
static void note_writer(dt_timed_kernels_t *t, dt_buffer_id_t id, uint32_t launch) {
  t->writers[id.id - 1] = launch + 1;
}

static void note_writes(dt_timed_kernels_t *t, uint32_t launch) {
  for (uint32_t k = t->launches[launch].first; k < t->launches[launch].end; k++) {
    const dt_kernel_t *kernel = &t->again.program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
        note_writer(t, kernel->stages.items[s].stores.items[i].buffer, launch);
  }
}

static bool is_named(const char *name, const char *part) { return strstr(name, part) != NULL; }

// Names of the ops, each once, as far as there is room.
static void join_name(char *to, const char *name) {
  size_t len = strlen(to);
  if (is_named(to, name) || len + strlen(name) + 2 > NAME_BYTES)
    return;
  (void)snprintf(to + len, NAME_BYTES - len, "%s%s", len ? "_" : "", name);
}

static bool is_same(const dt_profile_source_t *a, const dt_profile_source_t *b) {
  return a->line == b->line && strcmp(a->op, b->op) == 0 && strcmp(a->file, b->file) == 0;
}

static void add_source(dt_timed_launch_t *launch, const dt_profile_source_t **list,
                       const dt_profile_source_t *source) {
  for (uint32_t k = 0; k < launch->n_sources; k++)
    if (is_same(list[k], source))
      return;
  list[launch->n_sources++] = source;
}

static uint32_t count_ops(const dt_timed_kernels_t *t, const dt_sources_t *sources,
                          const dt_timed_launch_t *launch) {
  uint32_t n = 0;
  for (uint32_t k = launch->first; k < launch->end; k++)
    n += dt__sources_of(sources, t->again.program->kernels.items[k].name).n;
  return n;
}

static bool describe(dt_timed_kernels_t *t, const dt_sources_t *sources,
                     dt_timed_launch_t *launch) {
  char name[NAME_BYTES] = "";
  uint32_t most = count_ops(t, sources, launch);
  const dt_profile_source_t **list = DT_ARENA_ARRAY(&t->arena, const dt_profile_source_t *, most);
  if (!list)
    return false;
  bool folds = false, packs = false;
  for (uint32_t k = launch->first; k < launch->end; k++) {
    const dt_kernel_t *kernel = &t->again.program->kernels.items[k];
    dt_source_list_t ops = dt__sources_of(sources, kernel->name);
    for (uint32_t i = 0; i < ops.n; i++) {
      const dt_source_op_t *op = &sources->ops.items[ops.ops[i]];
      join_name(name, op->name);
      packs = packs || strcmp(op->name, "pack") == 0;
      if (op->source.op)
        add_source(launch, list, &op->source);
    }
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      folds = folds || kernel->stages.items[s].reductions.len;
  }
  launch->packs = packs && !folds;
  launch->sources = list;
  launch->name = dt__arena_strdup(&t->arena, name);
  return launch->name != NULL;
}

static dt_status_t find_launches(dt_timed_kernels_t *t, const dt_sources_t *sources) {
  const dt_program_t *program = t->again.program;
  uint32_t most = program->kernels.len - program->n_once;
  t->launches = DT_ARENA_ARRAY(&t->arena, dt_timed_launch_t, most);
  t->writers = DT_ARENA_ARRAY(&t->arena, uint32_t, program->buffers.len);
  if (!t->launches || !t->writers || sources->failed)
    return DT_NO_MEMORY();
  for (uint32_t k = program->n_once; k < program->kernels.len;) {
    dt_timed_launch_t *launch = &t->launches[t->n];
    launch->first = k;
    launch->end = k = dt__kernel_chain(program, k).end;
    if (!describe(t, sources, launch))
      return DT_NO_MEMORY();
    note_writes(t, t->n++);
  }
  return NULL;
}

dt_timed_kernels_t *dt__timed_kernels_make(dt_timed_t *timed, dt_compiler_t *compiler) {
  dt_timed_kernels_t *t = dt__calloc(1, sizeof(*t));
  if (!t)
    return NULL;
  dt__arena_init(&t->arena, 0);
  dt_sources_t sources = {.arena = &t->arena};
  const dt_variant_t *variant = timed->variant;
  dt_compile_request_t request = {.traced = variant->traced,
                                  .strict_fp = variant->strict_fp,
                                  .codegen = variant->home->codegen,
                                  .device = variant->home->device};
  t->failed = dt__compile_again(compiler, &request, variant->compiled, dt__sources_observe,
                                &sources, &t->again);
  if (!t->failed)
    t->failed = find_launches(t, &sources);
  if (t->failed)
    t->n = 0;
  return t;
}

void dt__timed_kernels_free(dt_timed_kernels_t *t) {
  if (!t)
    return;
  dt__again_fini(&t->again);
  dt__arena_fini(&t->arena);
  dt_status_free(t->failed);
  dt__free(t);
}

bool dt__timed_launch_has(const dt_timed_kernels_t *t, uint32_t launch, uint32_t code) {
  uint32_t head = t->launches[launch].end - 1;
  const dt_kernel_t *kernel = &t->again.program->kernels.items[head];
  if (kernel->external || code == UINT32_MAX)
    return kernel->external && code == UINT32_MAX;
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    if (t->again.map.code_of_kernel[t->again.map.first_code[head] + s] == code)
      return true;
  return false;
}

// ---- Work -------------------------------------------------------------------------------------------
struct dt_timed_meter_t {
  const dt_timed_kernels_t *of;
  const dt_program_t *program;
  const dt_kernel_t *kernel;
  const dt_stage_t *stage;
  uint32_t n_symbols;
  int64_t *values;                  // by symbol of the program
  double extents[2 * DT_MAX_LOOPS]; // of the kernel's loops, then of the stage's
  double *bytes;                    // by buffer, [id - 1]: of this launch
  uint32_t n_touched, *touched;     // the buffers that have any
  uint64_t *loops;                  // by instruction: the loops that it depends on, a bit each
  dt_timed_work_t sums;
  bool good;
};
typedef dt_timed_meter_t work_t;

static double value_of(work_t *w, dt_sym_t e) {
  int64_t value = 0;
  w->good = w->good && dt__sym_eval(w->program->env, e, w->values, &value);
  return value > 0 ? (double)value : 0;
}

static uint32_t n_loops(const work_t *w) { return w->kernel->n_loops + w->stage->n_loops; }

static dt_sym_t loop_var(const work_t *w, uint32_t loop) {
  uint32_t outer = w->kernel->n_loops;
  return loop < outer ? w->kernel->vars[loop] : w->stage->vars[loop - outer];
}

static uint64_t loops_of(const work_t *w, dt_sym_t e) {
  uint64_t mask = 0;
  for (uint32_t k = 0; e.id && k < n_loops(w); k++)
    mask |= (uint64_t)dt__sym_depends(w->program->env, e, loop_var(w, k)) << k;
  return mask;
}

static uint64_t loops_of_index(const work_t *w, dt_buffer_id_t id, const dt_sym_t *index) {
  uint64_t mask = 0;
  uint32_t rank = dt__program_buffer(w->program, id)->rank;
  for (uint32_t d = 0; index && d < rank; d++)
    mask |= loops_of(w, index[d]);
  return mask;
}

static double trips(const work_t *w, uint64_t mask) {
  double n = 1;
  for (uint32_t k = 0; k < n_loops(w); k++)
    n *= mask >> k & 1 ? w->extents[k] : 1;
  return n;
}

// `n` elements of the buffer are touched, in so many trips; all of them at most.
static void touch(work_t *w, dt_buffer_id_t id, double n) {
  const dt_buffer_t *buffer = dt__program_buffer(w->program, id);
  if (buffer->kind == DT_BUFFER_LOCAL || buffer->kind == DT_BUFFER_SLAB || n <= 0)
    return;
  double all = (double)dt_dtype_size(buffer->dtype), each = all;
  for (uint32_t d = 0; d < buffer->rank; d++)
    all *= value_of(w, buffer->sizes[d]);
  if (all <= 0)
    return;
  if (w->bytes[id.id - 1] == 0)
    w->touched[w->n_touched++] = id.id - 1;
  double bytes = w->bytes[id.id - 1] + n * each;
  w->bytes[id.id - 1] = bytes < all ? bytes : all;
}

static void count_inst(work_t *w, uint32_t k) {
  const dt_inst_t *inst = &w->stage->insts.items[k];
  uint64_t mask = loops_of(w, inst->sym), outer = (UINT64_C(1) << w->kernel->n_loops) - 1;
  for (uint32_t a = 0; a < 3; a++)
    mask |= inst->args[a] != DT_NO_INST && inst->args[a] < k ? w->loops[inst->args[a]] : 0;
  mask |= inst->mask != DT_NO_INST && inst->mask < k ? w->loops[inst->mask] : 0;
  dt_buffer_id_t reads = dt__inst_reads(inst);
  if (reads.id)
    mask |= loops_of_index(w, reads, inst->index);
  if (inst->kind == DT_INST_ROW)
    mask |= outer;
  if (inst->kind == DT_INST_RUNNING || inst->kind == DT_INST_PRIOR)
    mask = (UINT64_C(1) << n_loops(w)) - 1;
  w->loops[k] = mask;
  if (inst->kind == DT_INST_SCALAR)
    w->sums.flops += trips(w, mask);
  if (reads.id)
    touch(w, reads, inst->kind == DT_INST_LOAD ? trips(w, mask) : 1e300);
}

static void count_stage(work_t *w) {
  for (uint32_t k = 0; k < n_loops(w); k++)
    w->extents[k] = value_of(w, k < w->kernel->n_loops ? w->kernel->extents[k]
                                                       : w->stage->extents[k - w->kernel->n_loops]);
  for (uint32_t k = 0; k < w->stage->insts.len; k++)
    count_inst(w, k);
  uint64_t all = (UINT64_C(1) << n_loops(w)) - 1;
  w->sums.flops += trips(w, all) * w->stage->reductions.len;
  for (uint32_t k = 0; k < w->stage->stores.len; k++) {
    const dt_store_t *store = &w->stage->stores.items[k];
    touch(w, store->buffer,
          store->whole ? 1e300 : trips(w, loops_of_index(w, store->buffer, store->index)));
  }
}

// Kernels in slices are launched once a slice: all of them, over their number.
static double slices_of(work_t *w, const dt_timed_launch_t *launch) {
  const dt_program_slices_t *slices = dt__kernel_slices(w->program, launch->first);
  if (!slices)
    return 1;
  double extent = value_of(w, slices->extent), step = value_of(w, slices->step);
  w->values[slices->begin] = 0;
  w->values[slices->count] = (int64_t)extent;
  double n = step > 0 ? extent / step : 1;
  return n > 1 ? n : 1;
}

static uint32_t most_insts(const dt_program_t *program) {
  uint32_t most = 1;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      uint32_t n = program->kernels.items[k].stages.items[s].insts.len;
      most = n > most ? n : most;
    }
  return most;
}

static void count_launch(work_t *w, const dt_timed_launch_t *launch, dt_timed_work_t *out) {
  double slices = slices_of(w, launch);
  for (uint32_t k = launch->first; k < launch->end; k++) {
    w->kernel = &w->program->kernels.items[k];
    for (uint32_t s = 0; s < w->kernel->stages.len; s++) {
      w->stage = &w->kernel->stages.items[s];
      count_stage(w);
    }
  }
  for (uint32_t k = 0; k < w->n_touched; k++) {
    w->sums.bytes += w->bytes[w->touched[k]];
    w->bytes[w->touched[k]] = 0;
  }
  *out = (dt_timed_work_t){w->sums.bytes / slices, w->sums.flops / slices, slices};
}

// What the host program computes of a call's symbols, and the numbers that codes take.
static void derive_values(work_t *w) {
  for (uint32_t k = 0; k < w->n_symbols; k++) {
    dt_symbol_info_t info = dt__symbol_info(w->program->env, k);
    if (info.kind == DT_SYMBOL_PARAMETER)
      (void)dt__sym_hint(w->program->env, dt__symbol_sym(w->program->env, k), &w->values[k]);
    else if (info.divisor)
      w->values[k] = w->values[info.whole] / info.divisor;
  }
}

bool dt__timed_work(dt_timed_meter_t *w, uint32_t launch, const int64_t *values, uint32_t n,
                    dt_timed_work_t *out) {
  memcpy(w->values, values, (n < w->n_symbols ? n : w->n_symbols) * sizeof(*values));
  w->sums = (dt_timed_work_t){0, 0, 0};
  w->n_touched = 0;
  w->good = true;
  derive_values(w);
  count_launch(w, &w->of->launches[launch], out);
  return w->good;
}

dt_timed_meter_t *dt__timed_meter_make(const dt_timed_kernels_t *t) {
  const dt_program_t *program = t->again.program;
  work_t *w = dt__calloc(1, sizeof(*w));
  if (!w)
    return NULL;
  w->of = t;
  w->program = program;
  w->n_symbols = dt__symenv_symbol_count(program->env);
  w->values = dt__calloc((size_t)w->n_symbols + 1, sizeof(*w->values));
  w->bytes = dt__calloc((size_t)program->buffers.len + 1, sizeof(*w->bytes));
  w->touched = dt__calloc((size_t)program->buffers.len + 1, sizeof(*w->touched));
  w->loops = dt__calloc(most_insts(program), sizeof(*w->loops));
  if (w->values && w->bytes && w->touched && w->loops)
    return w;
  dt__timed_meter_free(w);
  return NULL;
}

void dt__timed_meter_free(dt_timed_meter_t *w) {
  if (!w)
    return;
  dt__free(w->values);
  dt__free(w->bytes);
  dt__free(w->touched);
  dt__free(w->loops);
  dt__free(w);
}
