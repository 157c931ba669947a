// SPDX-License-Identifier: Apache-2.0
// What shows that the kernel proofs can fail: small programs with one fault put in, each of which
// must be refuted by a counterexample. And the facts that turn an index inside its sizes into an
// address inside its buffer, with weaker conditions refuted.
#include "test/proofs/kernels.h"

#include "ductile/ductile.h"

#include <stdio.h>
#include <stdlib.h>

// ---- Programs ---------------------------------------------------------------------------------------
static const dt_dim_decl_t dims_mn[] = {{.name = "m"}, {.name = "n"}};
static const dt_dim_decl_t dims_nk[] = {{.name = "n"}, {.name = "k"}};
static const dt_dim_decl_t any_two[2];
static const dt_input_decl_t two_matrices[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims_mn},
    {.name = "w", .dtype = DT_F32, .rank = 2, .dims = dims_nk}};
static const dt_dim_decl_t dims_bmn[] = {{.name = "b"}, {.name = "m"}, {.name = "n"}};
static const dt_dim_decl_t dims_bnk[] = {{.name = "b"}, {.name = "n"}, {.name = "k"}};
static const dt_input_decl_t two_batches[] = {
    {.name = "x", .dtype = DT_F32, .rank = 3, .dims = dims_bmn},
    {.name = "w", .dtype = DT_F32, .rank = 3, .dims = dims_bnk}};
static const dt_input_decl_t free_matrices[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = any_two},
    {.name = "y", .dtype = DT_F32, .rank = 2, .dims = any_two}};
static const dt_input_decl_t table_and_ids[] = {
    {.name = "table", .dtype = DT_F32, .rank = 2, .dims = any_two},
    {.name = "ids", .dtype = DT_I64, .rank = 1, .dims = any_two}};

static dt_status_t make_neg(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t make_pad(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const dt_sym_t low[2] = {dt_sym_const(t, 1), dt_sym_const(t, 0)};
  const dt_sym_t high[2] = {dt_sym_const(t, 0), dt_dim(t, in[0], 0)};
  out[0] = dt_pad(t, in[0], low, high, 3.0);
  return NULL;
}

static dt_status_t make_gather(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_gather(t, in[0], in[1], 0);
  return NULL;
}

// As many rows of x as y has: under the guard that there are so many.
static dt_status_t make_slice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_dim(t, in[1], 0), 1);
  return NULL;
}

static dt_status_t make_product(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t y = dt_matmul(t, in[0], in[1]);
  out[0] = dt_matmul(t, dt_exp(t, y), dt_transpose(t, y, 0, 1));
  return NULL;
}

// The softmax takes the place of the scores, a row at a time.
static dt_status_t make_rows(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t p = dt_softmax(t, dt_matmul(t, in[0], in[1]), -1);
  out[0] = dt_matmul(t, p, dt_transpose(t, in[1], 0, 1));
  return NULL;
}

// The exponential takes the place of its argument, element by element.
static dt_status_t make_elements(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  const int32_t axes[2] = {0, 1};
  dt_value_t y = dt_matmul(t, in[0], in[1]);
  dt_value_t e = dt_exp(t, dt_sub(t, y, dt_amax(t, y, 2, axes, true)));
  out[0] = dt_matmul(t, e, dt_transpose(t, in[1], 0, 1));
  return NULL;
}

// Scores, softmax and product of some batches, then of the next; then a sum over all of them.
// The sum of those elements of x that are above 0, as often as there are, over their sum before.
static dt_status_t make_selection(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t zero = dt_scalar(t, DT_F32, 0);
  dt_value_t some = dt_masked_select(t, in[0], dt_gt(t, in[0], zero));
  dt_value_t sums = dt_cumsum(t, some, 0, DT_CUMSUM_INCLUSIVE);
  out[0] = dt_sum(t, dt_softmax(t, sums, 0), 0, NULL, false);
  return NULL;
}

static dt_status_t make_batches(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  const int32_t axes[1] = {0};
  dt_value_t p = dt_softmax(t, dt_matmul(t, in[0], in[1]), -1);
  out[0] = dt_sum(t, dt_matmul(t, p, dt_transpose(t, in[1], 1, 2)), 1, axes, false);
  return NULL;
}

// ---- Faults -----------------------------------------------------------------------------------------
// The first access of its kind; NULL without one.
static dt_inst_t *a_load(dt_program_t *program, bool masked) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++) {
        dt_inst_t *inst = &stage->insts.items[i];
        if (inst->kind == DT_INST_LOAD && dt__program_buffer(program, inst->buffer)->rank &&
            (!masked || inst->mask != DT_NO_INST))
          return inst;
      }
    }
  return NULL;
}

static dt_store_t *a_store(dt_program_t *program) {
  return &program->kernels.items[0].stages.items[0].stores.items[0];
}

// The index of an access with `index[dim]` in place of what was there.
static const dt_sym_t *replaced(dt_program_t *program, dt_buffer_id_t buffer, const dt_sym_t *index,
                                uint32_t dim, dt_sym_t by) {
  uint32_t rank = dt__program_buffer(program, buffer)->rank;
  dt_sym_t *made = DT_ARENA_ARRAY(program->arena, dt_sym_t, rank);
  for (uint32_t d = 0; d < rank; d++)
    made[d] = d == dim ? by : index[d];
  return made;
}

static dt_sym_t plus(dt_program_t *program, dt_sym_t e, int64_t value) {
  return dt__sym_add(program->env, e, dt__sym_const(program->env, value));
}

static void store_one_beyond(dt_program_t *p) {
  dt_store_t *store = a_store(p);
  store->index = replaced(p, store->buffer, store->index, 0, plus(p, store->index[0], 1));
}

static void load_one_before(dt_program_t *p) {
  dt_inst_t *load = a_load(p, false);
  load->index = replaced(p, load->buffer, load->index, 0, plus(p, load->index[0], -1));
}

static void swap_dims(dt_program_t *p) {
  dt_inst_t *load = a_load(p, false);
  dt_sym_t second = load->index[1];
  load->index = replaced(p, load->buffer, load->index, 1, load->index[0]);
  load->index = replaced(p, load->buffer, load->index, 0, second);
}

static void no_mask(dt_program_t *p) { a_load(p, true)->mask = DT_NO_INST; }

// i0 times the cube of a size, modulo the dim: inside, but the product does not fit in 64 bits.
static void product_too_wide(dt_program_t *p) {
  dt_inst_t *load = a_load(p, false);
  const dt_sym_t *sizes = dt__program_buffer(p, load->buffer)->sizes;
  dt_sym_t e = load->index[0];
  for (int k = 0; k < 3; k++)
    e = dt__sym_mul(p->env, e, sizes[1]);
  e = dt__sym_mod(p->env, e, sizes[0]);
  load->index = replaced(p, load->buffer, load->index, 0, e);
}

// An extent that is one too many.
static void loop_too_long(dt_program_t *p) {
  dt_kernel_t *kernel = &p->kernels.items[0];
  dt_store_t *store = a_store(p);
  dt_sym_t extent = plus(p, kernel->extents[0], 1), old = kernel->vars[0];
  kernel->extents[0] = extent;
  kernel->vars[0] = dt__sym_new_loop(p->env, extent);
  dt_sym_t at = dt__sym_subst(p->env, store->index[0], &old, &kernel->vars[0], 1);
  store->index = replaced(p, store->buffer, store->index, 0, at);
}

// Whole panels only: the last columns have none.
static void too_few_panels(dt_program_t *p) {
  for (uint32_t k = 0; k < p->kernels.len; k++) {
    dt_kernel_t *kernel = &p->kernels.items[k];
    for (uint32_t s = 0; s < kernel->schedules.len; s++) {
      const dt_matmul_t *matmul = &kernel->schedules.items[s].matmul;
      if (kernel->schedules.items[s].kind != DT_SCHEDULE_MATMUL || matmul->own_panels)
        continue;
      dt_buffer_id_t b = kernel->stages.items[0].insts.items[matmul->b].buffer;
      dt_buffer_t *buffer = dt__program_buffer(p, b);
      buffer->sizes[buffer->rank - 3] = dt__sym_floordiv(
          p->env, kernel->extents[kernel->n_loops - 1], dt__sym_const(p->env, matmul->width));
    }
  }
}

// ---- Faults of the plan -----------------------------------------------------------------------------
static uint32_t last_temp(const dt_program_t *p) {
  uint32_t found = 0;
  for (uint32_t b = 0; b < p->buffers.len; b++)
    if (p->buffers.items[b].kind == DT_BUFFER_TEMP && p->offsets.items[b].id)
      found = b;
  return found;
}

static void all_at_zero(dt_program_t *p) {
  for (uint32_t b = 0; b < p->buffers.len; b++)
    if (p->buffers.items[b].kind == DT_BUFFER_TEMP && p->offsets.items[b].id)
      p->offsets.items[b] = dt__sym_const(p->env, 0);
}

static void block_too_small(dt_program_t *p) { p->block_bytes = plus(p, p->block_bytes, -64); }

static void off_the_line(dt_program_t *p) {
  uint32_t b = last_temp(p);
  p->offsets.items[b] = plus(p, p->offsets.items[b], 32);
  p->block_bytes = plus(p, p->block_bytes, 64);
}

static void before_the_block(dt_program_t *p) {
  uint32_t b = last_temp(p);
  p->offsets.items[b] = dt__sym_sub(p->env, p->offsets.items[b], p->block_bytes);
}

static void no_place(dt_program_t *p) { p->offsets.items[last_temp(p)] = DT_SYM_NONE_ID; }

// ---- Faults of what is in place -----------------------------------------------------------------------
// The first kernel that stores a temporary in the place of another one that it loads, with the
// stages that load and store. A program without one is not changed.
typedef struct in_place_t {
  dt_kernel_t *kernel;
  dt_store_t *store;
  uint32_t loads;
} in_place_t;

static bool loads_from_place(const dt_program_t *p, const dt_stage_t *stage, uint32_t fresh) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    uint32_t id = dt__inst_reads(&stage->insts.items[i]).id;
    if (id && id != fresh && p->buffers.items[id - 1].kind == DT_BUFFER_TEMP &&
        p->offsets.items[id - 1].id == p->offsets.items[fresh - 1].id)
      return true;
  }
  return false;
}

static bool find_in_place(dt_program_t *p, in_place_t *out) {
  for (uint32_t k = 0; k < p->kernels.len; k++) {
    dt_kernel_t *kernel = &p->kernels.items[k];
    for (uint32_t by = 0; by < kernel->stages.len; by++)
      for (uint32_t s = 0; s < kernel->stages.items[by].stores.len; s++) {
        dt_store_t *store = &kernel->stages.items[by].stores.items[s];
        if (dt__program_buffer(p, store->buffer)->kind != DT_BUFFER_TEMP)
          continue;
        for (uint32_t at = 0; at < kernel->stages.len; at++)
          if (loads_from_place(p, &kernel->stages.items[at], store->buffer.id)) {
            *out = (in_place_t){kernel, store, at};
            return true;
          }
      }
  }
  return false;
}

// Elements of a dim stored in the opposite order: inside, and no two equal.
static void store_reversed(dt_program_t *p, uint32_t dim) {
  in_place_t found;
  if (!find_in_place(p, &found))
    return;
  dt_sym_t last = plus(p, dt__program_buffer(p, found.store->buffer)->sizes[dim], -1);
  dt_sym_t at = dt__sym_sub(p->env, last, found.store->index[dim]);
  found.store->index = replaced(p, found.store->buffer, found.store->index, dim, at);
}

static void rows_reversed(dt_program_t *p) { store_reversed(p, 0); }
static void columns_reversed(dt_program_t *p) { store_reversed(p, 1); }

static void load_again(dt_program_t *p) {
  in_place_t found;
  if (!find_in_place(p, &found))
    return;
  dt_stage_t again = found.kernel->stages.items[found.loads];
  again.stores.len = 0;
  (void)DT_VEC_PUSH(p->arena, &found.kernel->stages, again);
}

// ---- Faults of slices -----------------------------------------------------------------------------------
// A temporary of one slice, by its first store; NULL without one.
static dt_store_t *store_of_slice(dt_program_t *p) {
  for (uint32_t s = 0; s < p->slices.len; s++)
    for (uint32_t k = p->slices.items[s].first; k < p->slices.items[s].end; k++)
      for (uint32_t g = 0; g < p->kernels.items[k].stages.len; g++) {
        dt_stage_t *stage = &p->kernels.items[k].stages.items[g];
        for (uint32_t i = 0; i < stage->stores.len; i++)
          if (kp_of_slice(p, stage->stores.items[i].buffer.id - 1, &p->slices.items[s]))
            return &stage->stores.items[i];
      }
  return NULL;
}

static void slice_too_short(dt_program_t *p) {
  dt_store_t *store = store_of_slice(p);
  if (store)
    dt__program_buffer(p, store->buffer)->sizes[0] = plus(p, p->slices.items[0].step, -1);
}

static void begin_not_taken_off(dt_program_t *p) {
  dt_store_t *store = store_of_slice(p);
  if (!store)
    return;
  dt_sym_t begin = dt__symbol_sym(p->env, p->slices.items[0].begin);
  dt_sym_t at = dt__sym_add(p->env, begin, store->index[0]);
  store->index = replaced(p, store->buffer, store->index, 0, at);
}

// What the last kernel of the slices stores for others, in a place that the next slice uses.
static void result_in_slice(dt_program_t *p) {
  dt_store_t *of_slice = store_of_slice(p);
  if (!of_slice)
    return;
  const dt_kernel_t *last = &p->kernels.items[p->slices.items[0].end - 1];
  const dt_stage_t *stage = &last->stages.items[last->stages.len - 1];
  dt_buffer_id_t result = stage->stores.items[0].buffer;
  dt_sym_t bytes = dt__sym_mul(p->env, dt__buffer_count(p, result), dt__sym_const(p->env, 4));
  p->offsets.items[result.id - 1] = p->offsets.items[of_slice->buffer.id - 1];
  p->block_bytes = dt__sym_add(p->env, p->block_bytes, bytes);
  for (uint32_t s = 0; s < p->segments.len; s++)
    p->segments.items[s].block_bytes = p->block_bytes;
}

static void step_of_none(dt_program_t *p) {
  p->slices.items[0].step = plus(p, p->slices.items[0].step, -1);
}

// A readback that may be more than memory was planned for.
static void more_than_planned(dt_program_t *p) {
  p->readbacks.items[0].most = plus(p, p->readbacks.items[0].most, 1000);
}

// A gate in the place of what kernels behind it store.
static void gate_overwritten(dt_program_t *p) {
  for (uint32_t k = 0; k < p->kernels.len; k++) {
    const dt_kernel_t *kernel = &p->kernels.items[k];
    const dt_stage_t *last = &kernel->stages.items[kernel->stages.len - 1];
    dt_buffer_id_t made = last->stores.len ? last->stores.items[0].buffer : (dt_buffer_id_t){0};
    if (kernel->gate.id && made.id && dt__program_buffer(p, made)->kind == DT_BUFFER_TEMP)
      p->offsets.items[kernel->gate.id - 1] = p->offsets.items[made.id - 1];
  }
}

// ---- Controls ---------------------------------------------------------------------------------------
typedef struct control_t {
  const char *name;
  dt_program_fn_t program;
  const dt_input_decl_t *inputs;
  void (*fault)(dt_program_t *program); // NULL: the first assumption is forgotten
} control_t;

static const control_t controls[] = {
    {"a store one element beyond", make_neg, free_matrices, store_one_beyond},
    {"a load one element before", make_neg, free_matrices, load_one_before},
    {"dims of a load exchanged", make_neg, free_matrices, swap_dims},
    {"a loop one iteration too long", make_neg, free_matrices, loop_too_long},
    {"a product beyond 64 bits", make_neg, free_matrices, product_too_wide},
    {"padding without its mask", make_pad, free_matrices, no_mask},
    {"a gather that ignores its check", make_gather, table_and_ids, no_mask},
    {"a slice without its guard", make_slice, free_matrices, NULL},
    {"a packed operand without its last panel", make_product, two_matrices, too_few_panels},
    {"temporaries in one place", make_product, two_matrices, all_at_zero},
    {"a block 64 bytes too small", make_product, two_matrices, block_too_small},
    {"a temporary that begins off the line", make_product, two_matrices, off_the_line},
    {"a temporary before the block", make_product, two_matrices, before_the_block},
    {"a temporary without a place", make_product, two_matrices, no_place},
    {"in place, rows in another order", make_rows, two_matrices, rows_reversed},
    {"in place, loaded once more afterwards", make_rows, two_matrices, load_again},
    {"in place, columns in another order", make_elements, two_matrices, columns_reversed},
    {"a slice's temporary one too short", make_batches, two_batches, slice_too_short},
    {"a slice's beginning not taken off", make_batches, two_batches, begin_not_taken_off},
    {"a result where slices work", make_batches, two_batches, result_in_slice},
    {"slices of no iteration", make_batches, two_batches, step_of_none},
    {"more than was planned for", make_selection, two_matrices, more_than_planned},
    {"a gate overwritten", make_selection, two_matrices, gate_overwritten},
};

// With its fault the program is refuted, without it everything is proved.
static bool control_holds(const control_t *control, dt_tensor_t *const *example) {
  static const kp_options_t options = {
      .share = 1, .limit_ms = 5000, .repeat_ms = 5000, .quiet = true};
  dt_trace_request_t request = {.name = control->name,
                                .program = control->program,
                                .n_inputs = 2,
                                .n_outputs = 1,
                                .inputs = control->inputs,
                                .example = example};
  kp_made_t made;
  kp_counts_t right = {0}, wrong = {0};
  bool on_gpu = control->program == make_selection;
  if (on_gpu ? kp_make_on_gpu(&request, &made) : kp_make(&request, "plan", &made)) {
    kp_prove_made(control->name, &made, &options, &right);
    if (control->fault)
      control->fault(made.program);
    else
      made.drop = 0;
    kp_prove_made(control->name, &made, &options, &wrong);
  }
  kp_unmake(&made);
  // A fact that the simplifier still knows is contradicted by Z3, which does not.
  uint32_t refuted = wrong.refuted + wrong.contradicted;
  printf("%-42s %4u claims, %u open; with the fault %u refuted\n", control->name, right.obligations,
         right.open, refuted);
  return right.obligations > 0 && right.open == 0 && right.contradicted == 0 && refuted > 0;
}

uint32_t kp_controls(void) {
  const int64_t large[2] = {12, 9}, small[2] = {5, 9};
  dt_tensor_t *example[2] = {NULL, NULL};
  dt_status_free(dt_tensor_create_empty(DT_F32, 2, large, &example[0]));
  dt_status_free(dt_tensor_create_empty(DT_F32, 2, small, &example[1]));
  uint32_t lost = 0;
  for (size_t k = 0; k < sizeof(controls) / sizeof(controls[0]); k++)
    lost += !control_holds(&controls[k], controls[k].fault ? NULL : example);
  dt_tensor_release(example[0]);
  dt_tensor_release(example[1]);
  return lost;
}

// ---- Lemmas -----------------------------------------------------------------------------------------
// An index i of n rows of c elements, and an offset o in a row, give an offset in the whole.
// Applied once a dim it says that offsets of contiguous buffers are below their number of elements.
static void lemma_rows(goal_t *g) {
  term_t zero = t_int(g, 0);
  term_t i = t_fresh(g, "i"), n = t_fresh(g, "n"), o = t_fresh(g, "o"), c = t_fresh(g, "c");
  given(g, t_le(g, zero, i));
  side(g, t_lt(g, i, n), t_le(g, i, n));
  given(g, t_le(g, zero, o));
  side(g, t_lt(g, o, c), t_le(g, o, c));
  term_t at = t_add(g, t_mul(g, i, c), o);
  claim(g, t_and(g, t_le(g, zero, at), t_lt(g, at, t_mul(g, n, c))));
}

// A dim of n steps of stride t reaches no further than its last element, on either side. Tensors
// are refused whose reaches add up to DT_SIZE_LIMIT bytes.
static void lemma_strides(goal_t *g) {
  term_t zero = t_int(g, 0), one = t_int(g, 1);
  term_t i = t_fresh(g, "i"), n = t_fresh(g, "n"), t = t_fresh(g, "t");
  given(g, t_le(g, zero, i));
  side(g, t_lt(g, i, n), t_le(g, i, n));
  term_t reach = t_mul(g, t_sub(g, n, one), t), at = t_mul(g, i, t);
  claim(g, t_implies(g, t_le(g, zero, t), t_between(g, zero, at, reach)));
  claim(g, t_implies(g, t_le(g, t, zero), t_between(g, reach, at, zero)));
}

// What kz_compare_quotients gives.
static void lemma_quotients(goal_t *g) {
  term_t q = t_fresh(g, "q"), d = t_fresh(g, "d"), end = t_fresh(g, "end");
  side(g, t_lt(g, t_int(g, 0), d), t_true(g));
  given(g, t_le(g, end, q));
  claim(g, t_le(g, t_mul(g, end, d), t_mul(g, q, d)));
}

// Elements of buffers of equal sizes are the same only where the indices are: for one dim, with the
// dims behind it as the offset in a row. What lets a buffer take the place of another one.
static void lemma_elements(goal_t *g) {
  term_t zero = t_int(g, 0), c = t_fresh(g, "c");
  term_t i = t_fresh(g, "i"), o = t_fresh(g, "o"), j = t_fresh(g, "j"), q = t_fresh(g, "q");
  given(g, t_and(g, t_le(g, zero, o), t_le(g, zero, q)));
  side(g, t_lt(g, o, c), t_le(g, o, c));
  side(g, t_lt(g, q, c), t_le(g, q, c));
  given(g, t_eq(g, t_add(g, t_mul(g, i, c), o), t_add(g, t_mul(g, j, c), q)));
  claim(g, t_and(g, t_eq(g, i, j), t_eq(g, o, q)));
}

// The host's loop over slices: as many as (extent + step - 1) // step begin before the extent.
static void lemma_slices(goal_t *g) {
  term_t zero = t_int(g, 0), one = t_int(g, 1);
  term_t extent = t_fresh(g, "extent"), step = t_fresh(g, "step");
  term_t at = t_fresh(g, "at"), n = t_fresh(g, "n"), r = t_fresh(g, "r");
  given(g, t_le(g, one, step));
  given(g, t_and(g, t_le(g, zero, r), t_lt(g, r, step)));
  given(g, t_eq(g, t_sub(g, t_add(g, extent, step), one), t_add(g, t_mul(g, step, n), r)));
  given(g, t_le(g, zero, at));
  side(g, t_lt(g, at, n), t_le(g, at, n));
  term_t begin = t_mul(g, at, step);
  claim(g, t_and(g, t_le(g, zero, begin), t_lt(g, begin, extent)));
}

// A buffer of sizes up to bounds is no larger than one of the bounds; once a dim.
static void lemma_bounds(goal_t *g) {
  term_t zero = t_int(g, 0), x = t_fresh(g, "x"), most = t_fresh(g, "most");
  term_t rest = t_fresh(g, "rest"), all = t_fresh(g, "all");
  given(g, t_between(g, zero, x, most));
  given(g, t_le(g, rest, all));
  side(g, t_le(g, zero, rest), t_true(g));
  claim(g, t_le(g, t_mul(g, x, rest), t_mul(g, most, all)));
}

// A search that halves [low, high) reads an element of it.
static void lemma_halving(goal_t *g) {
  term_t low = t_fresh(g, "low"), high = t_fresh(g, "high");
  term_t half = t_fresh(g, "half"), r = t_fresh(g, "r");
  side(g, t_lt(g, low, high), t_le(g, low, high));
  given(g, t_between(g, t_int(g, 0), r, t_int(g, 1)));
  given(g, t_eq(g, t_add(g, low, high), t_add(g, t_add(g, half, half), r)));
  claim(g, t_and(g, t_le(g, low, half), t_lt(g, half, high)));
}

static bool verdict_is(goal_fn_t goal, arith_t arith, int weaken, verdict_t wanted) {
  goal_run_t run = {.arith = arith, .weaken = weaken, .limit_ms = 5000};
  goal_result_t result = goal_run(goal, &run);
  bool is = result.verdict == wanted;
  if (!is)
    printf("lemma: %s\n", result.model ? result.model : "no model");
  free(result.model);
  return is;
}

uint32_t kp_lemmas(void) {
  static const struct {
    const char *name;
    goal_fn_t goal;
    int n_weaker;
  } lemmas[] = {
      {"offsets in rows", lemma_rows, 2},         {"reach of strides", lemma_strides, 1},
      {"quotients compared", lemma_quotients, 1}, {"elements by their indices", lemma_elements, 2},
      {"slices begin inside", lemma_slices, 1},   {"halving stays inside", lemma_halving, 1},
      {"sizes up to bounds", lemma_bounds, 1}};
  uint32_t lost = 0;
  for (size_t k = 0; k < sizeof(lemmas) / sizeof(lemmas[0]); k++) {
    bool holds = verdict_is(lemmas[k].goal, ARITH_TRUE, -1, PROVED);
    for (int w = 0; w < lemmas[k].n_weaker; w++)
      holds = verdict_is(lemmas[k].goal, ARITH_TRUE, w, REFUTED) && holds;
    printf("lemma: %s: %s\n", lemmas[k].name, holds ? "proved" : "NOT proved");
    lost += !holds;
  }
  return lost;
}
