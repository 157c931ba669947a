// SPDX-License-Identifier: Apache-2.0
// See once.h. Which kernels run is found from behind: those that write what is wanted, and with
// them what they read.
#include "runtime/exec/once.h"

#include "runtime/base/fp.h"
#include "runtime/base/log.h"
#include "runtime/base/pages.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"
#include "runtime/exec/kept_forms.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/runtime.h"

#include <string.h>

#define LINE ((size_t)64)

typedef struct once_run_t {
  dt_launch_frame_t launch; // first
  const dt_variant_t *variant;
  const dt_once_plan_t *plan;
  dt_bindings_t *bindings;
  bool *wanted;            // by kernel
  bool *missing;           // by buffer: it is to be computed
  uint32_t *last, *behind; // by buffer, by constant: 1 + the last wanted kernel that touches it
  uint32_t done;           // kernels before this one have run
  dt_kept_forms_t kept;
} once_run_t;

// ---- Parts of a plan ------------------------------------------------------------------------------

typedef struct span_t {
  const uint32_t *items;
  uint32_t n;
} span_t;

static span_t writes_of(const dt_once_plan_t *plan, uint32_t k) {
  return (span_t){plan->numbers + plan->kernels[k].first, plan->kernels[k].n_writes};
}
static span_t reads_of(const dt_once_plan_t *plan, uint32_t k) {
  const dt_once_kernel_t *own = &plan->kernels[k];
  return (span_t){plan->numbers + own->first + own->n_writes, own->n_reads};
}
static span_t constants_of(const dt_once_plan_t *plan, uint32_t k) {
  const dt_once_kernel_t *own = &plan->kernels[k];
  return (span_t){plan->numbers + own->first + own->n_writes + own->n_reads, own->n_constants};
}

// ---- What is there, and what is not ---------------------------------------------------------------

static dt_forms_t *forms_of(const once_run_t *run) { return &run->variant->runtime->forms; }

// Places for the uses, and for the tensors that they name.
static dt_status_t open_uses(once_run_t *run) {
  const dt_once_plan_t *plan = run->plan;
  dt_bindings_t *bindings = run->bindings;
  size_t n_tensors = 0;
  for (uint32_t b = 0; b < plan->n_buffers; b++)
    n_tensors += plan->buffers[b].n_constants;
  bindings->uses = dt__calloc(plan->n_buffers, sizeof(*bindings->uses));
  bindings->use_tensors = dt__calloc(n_tensors, sizeof(*bindings->use_tensors));
  if (!bindings->uses || !bindings->use_tensors)
    return DT_NO_MEMORY();
  bindings->n_uses = plan->n_buffers;
  bindings->forms = forms_of(run);
  dt_tensor_t **at = bindings->use_tensors;
  for (uint32_t b = 0; b < plan->n_buffers; b++) {
    const dt_once_buffer_t *buffer = &plan->buffers[b];
    bindings->uses[b] = (dt_form_use_t){.function = bindings->function, .tensors = at};
    for (uint32_t i = 0; i < buffer->n_constants; i++)
      *at++ = bindings->tensors[plan->numbers[buffer->first + i]];
  }
  return NULL;
}

// Bytes that were kept become the form.
static dt_status_t take_kept(once_run_t *run, uint32_t b, const dt_form_bytes_t *bytes) {
  void *data = NULL;
  dt_status_t status =
      dt__form_offer(forms_of(run), &run->plan->buffers[b], &run->bindings->uses[b], bytes, &data);
  if (status)
    bytes->give(bytes->owner);
  else
    run->bindings->once[b] = data;
  return status;
}

static dt_status_t find_forms(once_run_t *run) {
  for (uint32_t b = 0; b < run->plan->n_buffers; b++) {
    const dt_once_buffer_t *buffer = &run->plan->buffers[b];
    dt_form_use_t *use = &run->bindings->uses[b];
    dt_form_bytes_t kept;
    void *data = NULL;
    if (buffer->kept && dt__form_find(forms_of(run), buffer, use, &data))
      run->bindings->once[b] = data;
    else if (dt__kept_form_is(&run->kept, buffer, use) &&
             dt__kept_form_find(&run->kept, buffer, use, &kept))
      DT_TRY(take_kept(run, b, &kept));
    run->missing[b] = buffer->kept && !use->form;
  }
  return NULL;
}

// A kernel that computes what is missing would write over what others read: that is computed, too.
static bool leave_written(once_run_t *run, uint32_t kernel) {
  span_t writes = writes_of(run->plan, kernel);
  bool left = false;
  for (uint32_t i = 0; i < writes.n; i++) {
    dt_form_use_t *use = &run->bindings->uses[writes.items[i]];
    if (!use->form)
      continue;
    dt__form_leave(forms_of(run), use);
    run->bindings->once[writes.items[i]] = NULL;
    run->missing[writes.items[i]] = left = true;
  }
  return left;
}

static bool writes_missing(const once_run_t *run, uint32_t kernel) {
  span_t writes = writes_of(run->plan, kernel);
  for (uint32_t i = 0; i < writes.n; i++)
    if (run->missing[writes.items[i]])
      return true;
  return false;
}

static void find_wanted(once_run_t *run) {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t k = run->plan->n_kernels; k-- > 0;) {
      run->wanted[k] = writes_missing(run, k);
      if (!run->wanted[k])
        continue;
      again = leave_written(run, k) || again;
      span_t reads = reads_of(run->plan, k);
      for (uint32_t i = 0; i < reads.n; i++)
        if (!run->bindings->uses[reads.items[i]].form)
          run->missing[reads.items[i]] = true;
    }
  }
}

static void find_ends(once_run_t *run) {
  for (uint32_t k = 0; k < run->plan->n_kernels; k++) {
    if (!run->wanted[k])
      continue;
    span_t all[] = {writes_of(run->plan, k), reads_of(run->plan, k)};
    for (uint32_t s = 0; s < 2; s++)
      for (uint32_t i = 0; i < all[s].n; i++)
        run->last[all[s].items[i]] = k + 1;
    span_t constants = constants_of(run->plan, k);
    for (uint32_t i = 0; i < constants.n; i++)
      run->behind[constants.items[i]] = k + 1;
  }
}

static dt_status_t check_constants(const once_run_t *run) {
  for (uint32_t c = 0; c < run->plan->n_constants; c++)
    if (run->behind[c])
      DT_TRY(dt__tensor_check_bytes(run->bindings->tensors[c]));
  return NULL;
}

static const dt_allocator_t *memory_of(const once_run_t *run) {
  return dt__runtime_memory(run->variant->runtime);
}

static dt_status_t take_memory(once_run_t *run) {
  const dt_once_plan_t *plan = run->plan;
  for (uint32_t b = 0; b < plan->n_buffers; b++) {
    // A kernel that is wanted for another buffer writes this one, too.
    bool written = run->last[b] && !run->bindings->uses[b].form;
    if (!run->missing[b] && !written)
      continue;
    run->missing[b] = true;
    run->bindings->once[b] = dt__pages_take(memory_of(run), (size_t)plan->buffers[b].bytes);
    if (!run->bindings->once[b])
      return DT_FAIL(DT_E_NO_MEMORY,
                     "out of memory: %lld bytes for what is computed from constants",
                     (long long)plan->buffers[b].bytes);
  }
  return NULL;
}

// ---- Running --------------------------------------------------------------------------------------

static void drop_buffer(once_run_t *run, uint32_t b) {
  if (!run->missing[b])
    return;
  dt__pages_give(memory_of(run), run->bindings->once[b], (size_t)run->plan->buffers[b].bytes);
  run->bindings->once[b] = NULL;
  run->missing[b] = false;
}

// What nothing needs any more behind kernel k.
static void end_kernel(once_run_t *run, uint32_t k) {
  span_t all[] = {writes_of(run->plan, k), reads_of(run->plan, k)};
  for (uint32_t s = 0; s < 2; s++)
    for (uint32_t i = 0; i < all[s].n; i++) {
      uint32_t b = all[s].items[i];
      if (run->last[b] == k + 1 && !run->plan->buffers[b].kept)
        drop_buffer(run, b);
    }
  span_t constants = constants_of(run->plan, k);
  for (uint32_t i = 0; i < constants.n; i++) {
    uint32_t c = constants.items[i];
    if (run->behind[c] == k + 1 && !(run->plan->uses[c] & DT_CONSTANT_IN_CALLS))
      dt__tensor_let_go(run->bindings->tensors[c]);
  }
}

static void end_before(once_run_t *run, uint32_t kernel) {
  for (; run->done < kernel && run->done < run->plan->n_kernels; run->done++)
    if (run->wanted[run->done])
      end_kernel(run, run->done);
}

static void launch_wanted(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                          int64_t count, int64_t grain) {
  once_run_t *run = (once_run_t *)frame;
  uint32_t kernel = (uint32_t)frame->kernel;
  end_before(run, kernel);
  if (kernel < run->plan->n_kernels && run->wanted[kernel])
    dt__launch(frame, fn, words, count, grain);
}

// With scratch of its own.
static dt_status_t run_kernels(once_run_t *run) {
  const dt_compiled_t *compiled = run->variant->compiled;
  dt_pool_t *pool = run->variant->runtime->pool;
  size_t stride = ((size_t)compiled->once_scratch_bytes + LINE - 1) / LINE * LINE;
  size_t bytes = stride * dt__pool_width(pool);
  char *scratch = dt__pages_take(memory_of(run), bytes);
  if (!scratch)
    return DT_FAIL(DT_E_NO_MEMORY,
                   "out of memory: %zu bytes of scratch for what is computed from "
                   "constants",
                   bytes);
  run->launch = (dt_launch_frame_t){.frame = dt__once_frame(run->variant, run->bindings),
                                    .pool = pool,
                                    .level = DT_POOL_NORMAL,
                                    .scratch = scratch,
                                    .scratch_stride = stride};
  run->launch.frame.launch = launch_wanted;
  uint32_t before = dt__fp_enter();
  compiled->once(&run->launch.frame);
  dt__fp_leave(before);
  dt__pages_give(memory_of(run), scratch, bytes);
  end_before(run, run->plan->n_kernels);
  return dt__record_status(compiled, &run->launch.frame.record);
}

// What is kept on disk is used from there: processes share it, this one from the start.
static dt_status_t keep_form(once_run_t *run, uint32_t b) {
  const dt_once_buffer_t *buffer = &run->plan->buffers[b];
  dt_form_use_t *use = &run->bindings->uses[b];
  void *made = run->bindings->once[b];
  dt_form_bytes_t kept;
  if (!dt__kept_form_is(&run->kept, buffer, use) ||
      !dt__kept_form_keep(&run->kept, buffer, use, made, &kept))
    return dt__form_add(forms_of(run), buffer, use, &run->bindings->once[b]);
  DT_TRY(take_kept(run, b, &kept));
  dt__pages_give(memory_of(run), made, (size_t)buffer->bytes);
  return NULL;
}

static dt_status_t keep_forms(once_run_t *run) {
  for (uint32_t b = 0; b < run->plan->n_buffers; b++) {
    if (!run->missing[b])
      continue;
    if (run->plan->buffers[b].kept) {
      DT_TRY(keep_form(run, b));
      run->missing[b] = false;
    } else {
      drop_buffer(run, b);
    }
  }
  return NULL;
}

static dt_status_t compute(once_run_t *run) {
  bool any = false;
  DT_TRY(open_uses(run));
  DT_TRY(find_forms(run));
  find_wanted(run);
  find_ends(run);
  for (uint32_t k = 0; k < run->plan->n_kernels; k++)
    any = any || run->wanted[k];
  if (!any)
    return NULL;
  DT_TRY(check_constants(run));
  dt_status_t status = take_memory(run);
  if (!status)
    status = run_kernels(run);
  if (!status)
    status = keep_forms(run);
  for (uint32_t b = 0; b < run->plan->n_buffers; b++)
    drop_buffer(run, b); // what is left of a failure
  return status;
}

dt_status_t dt__host_once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  const dt_once_plan_t *plan = &variant->compiled->once_plan;
  once_run_t run = {.variant = variant, .plan = plan, .bindings = bindings};
  dt_arena_t arena;
  dt__arena_init(&arena, 4096);
  run.wanted = DT_ARENA_ARRAY(&arena, bool, plan->n_kernels + 1);
  run.missing = DT_ARENA_ARRAY(&arena, bool, plan->n_buffers + 1);
  run.last = DT_ARENA_ARRAY(&arena, uint32_t, plan->n_buffers + 1);
  run.behind = DT_ARENA_ARRAY(&arena, uint32_t, plan->n_constants + 1);
  dt__kept_forms_begin(&run.kept, forms_of(&run), dt__compiler_cache(variant->runtime->compiler));
  dt_status_t status =
      run.wanted && run.missing && run.last && run.behind ? compute(&run) : DT_NO_MEMORY();
  dt__kept_forms_end(&run.kept);
  dt__arena_fini(&arena);
  return status;
}

void dt__host_once_fini(dt_bindings_t *bindings) {
  for (uint32_t b = 0; b < bindings->n_uses; b++)
    dt__form_leave(bindings->forms, &bindings->uses[b]);
  dt__free(bindings->uses);
  dt__free(bindings->use_tensors);
}
