// SPDX-License-Identifier: Apache-2.0
// Places of an image in squares of 2 x 2 (fuse/winograd.c has the transforms): one grid item is a
// tile of squares, and some columns of the product.
//
//   find where squares begin, and how many rows and columns of places they have
//   for each DEPTH of channels:
//     for each square: 4 x 4 places of x, transformed:  V[r, s, square, c]          (scratch)
//     for each r, s, panel, group of squares:           micro-kernel: M[r, s, square, k] (+)= V * U
//   for each square: M transformed back, its four places in the place of M[0, 0], …, M[0, 3]
//   for each place that the image has: the later stages, their row value loaded from there
//
// V's channels of one depth and M's columns stay in the second-level cache. Where a square hangs
// over the image's last row or column, x is read at the one before.
//
// Each place is made of those V alone that are made of its own window, so that nothing beside the
// window matters to it. But an infinity less another one is none: squares whose results are not all
// finite are made anew, by the first stage as it stands. If all of them are, so is all of x that
// they are made of.
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/matmul.h"
#include "backend_llvm/emit/matmul_micro.h"

#define SIDE 4
#define FORMS (SIDE * SIDE)
#define DEPTH 128 // channels that are worked on at a time
#define V_STRIDE (DEPTH + 16)

// ---- Sizes ----------------------------------------------------------------------------------------
int64_t dt__winograd_bytes(const dt_matmul_t *matmul, size_t element) {
  int64_t squares = (int64_t)matmul->tile_rows * FORMS;
  return squares * (V_STRIDE + (int64_t)matmul->tile_cols) * (int64_t)element;
}

dt_sym_t dt__winograd_squares(dt_symenv_t *env, dt_sym_t places, dt_sym_t across, dt_sym_t *down) {
  dt_sym_t two = dt__sym_const(env, 2);
  dt_sym_t rows = dt__sym_floordiv(env, places, dt__sym_max(env, across, dt__sym_const(env, 1)));
  if (down)
    *down = rows;
  return dt__sym_mul(env, dt__sym_ceildiv(env, rows, two), dt__sym_ceildiv(env, across, two));
}

// ---- What is relied on ----------------------------------------------------------------------------
static const dt_inst_t *sum_inst(const dt_kernel_t *kernel, uint32_t id) {
  return &kernel->stages.items[0].insts.items[id];
}

// x's place: of the window's first element, and the steps of rows, columns and channels. False:
// they are not the same everywhere.
typedef struct place_t {
  dt_sym_t begin, step[3];
} place_t;

static bool find_place(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul,
                       place_t *out) {
  const dt_inst_t *a = sum_inst(kernel, matmul->a);
  const dt_stage_t *stage = &kernel->stages.items[0];
  out->begin = dt__access_place(&m->program, kernel, a->buffer, a->index);
  for (uint32_t v = 0; v < 3; v++) {
    if (!dt__sym_linear(m->env, out->begin, stage->vars[v], &out->step[v], &out->begin))
      return false;
    for (uint32_t o = 0; o < kernel->n_loops; o++)
      if (dt__sym_depends(m->env, out->step[v], kernel->vars[o]))
        return false;
  }
  return true;
}

static bool is_f32_load(const dt_inst_t *inst) {
  return inst->kind == DT_INST_LOAD && inst->mask == DT_NO_INST && inst->dtype == DT_F32;
}

// A product of x with something else.
static bool is_term(const dt_kernel_t *kernel, const dt_matmul_t *matmul) {
  const dt_inst_t *term = sum_inst(kernel, kernel->stages.items[0].reductions.items[0].value);
  return term->kind == DT_INST_SCALAR && term->op == DT_SCALAR_mul && term->args[0] == matmul->a &&
         is_f32_load(sum_inst(kernel, matmul->a)) && is_f32_load(sum_inst(kernel, matmul->b));
}

// All of U's elements lie where the schedule says.
static bool has_weights(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul) {
  const dt_buffer_t *u = dt__program_buffer(&m->program, sum_inst(kernel, matmul->b)->buffer);
  int64_t sides[3] = {0, 0, 0};
  for (uint32_t d = 0; d < 2 && u->rank == 5; d++)
    (void)dt__sym_is_const(m->env, u->sizes[d], &sides[d]);
  if (u->rank == 5)
    (void)dt__sym_is_const(m->env, u->sizes[4], &sides[2]);
  return !u->layout && sides[0] == SIDE && sides[1] == SIDE && sides[2] == (int64_t)matmul->width;
}

const char *dt__winograd_refusal(dt_emit_t *m, const dt_kernel_t *kernel,
                                 const dt_schedule_t *schedule) {
  const dt_matmul_t *t = &schedule->matmul;
  const dt_stage_t *stage = &kernel->stages.items[0];
  int64_t channels = 0, one = 0;
  place_t place;
  if (stage->n_loops != 3 || stage->reductions.items[0].dtype != DT_F32 || kernel->by_offset ||
      !is_term(kernel, t) || !has_weights(m, kernel, t))
    return "its first stage is no sum over windows of transformed weights";
  if (!find_place(m, kernel, t, &place))
    return "its rows and columns stand at no fixed distance";
  if (!dt__sym_is_const(m->env, place.step[2], &one) || one != 1 ||
      !dt__sym_is_const(m->env, stage->extents[2], &channels) || channels % schedule->lanes)
    return "its channels are not whole vectors of neighbours";
  return NULL;
}

// ---- One tile -------------------------------------------------------------------------------------

// Of a square: where it begins in x, how much further its last row and column are, its first place
// of the result, how many rows and columns it has there, and whether it is to be made anew.
enum { BEGIN, LAST_ROW, LAST_COL, PLACE, ROWS, COLS, SPOILED, FACTS };

#define MOST_SIZES 5

typedef struct tile_t {
  dt_body_t *k;
  const dt_matmul_t *schedule;
  LLVMTypeRef type;
  LLVMValueRef v, c;                                   // scratch
  LLVMValueRef first_square, squares, first_col, cols; // of this tile
  uint32_t n_sizes, sizes[MOST_SIZES];                 // of micro-kernels
  LLVMValueRef starts[MOST_SIZES], ends[MOST_SIZES];   // the squares that each of them takes
  LLVMValueRef table;                                  // FACTS of each square
  place_t place;
  LLVMValueRef row_step, col_step, across;
  LLVMValueRef c_row; // the row the later stages work on
} tile_t;

static LLVMValueRef i64(const tile_t *t, int64_t value) { return dt__emit_i64(t->k->m, value); }

static LLVMValueRef add(const tile_t *t, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(t->k->m->b, a, b, "");
}

static LLVMValueRef times(const tile_t *t, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildMul(t->k->m->b, a, b, "");
}

static LLVMValueRef smaller(const tile_t *t, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef builder = t->k->m->b;
  return LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntSLT, a, b, ""), a, b, "");
}

static LLVMValueRef fact_at(const tile_t *t, LLVMValueRef square, int64_t fact) {
  LLVMValueRef at = add(t, times(t, square, i64(t, FACTS)), i64(t, fact));
  return dt__emit_element(t->k->m, t->k->m->t_i64, t->table, at);
}

static LLVMValueRef fact(const tile_t *t, LLVMValueRef square, int64_t fact) {
  return LLVMBuildLoad2(t->k->m->b, t->k->m->t_i64, fact_at(t, square, fact), "");
}

static void set_fact(const tile_t *t, LLVMValueRef square, int64_t fact, LLVMValueRef value) {
  LLVMBuildStore(t->k->m->b, value, fact_at(t, square, fact));
}

// How far from a square's first row (column) of x its last one is read: `left` places of the
// result, from the first on, has the image.
static LLVMValueRef last_of(const tile_t *t, LLVMValueRef left, LLVMValueRef step) {
  LLVMBuilderRef b = t->k->m->b;
  LLVMValueRef whole = LLVMBuildICmp(b, LLVMIntSGE, left, i64(t, 2), "");
  return times(t, step, LLVMBuildSelect(b, whole, i64(t, 3), i64(t, 2), ""));
}

static void find_squares(tile_t *t, dt_sym_t down) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef height = dt__index_scalar(k, down), two = i64(t, 2), zero = i64(t, 0);
  dt__body_at(k, 1);
  LLVMValueRef each = LLVMBuildUDiv(m->b, add(t, t->across, i64(t, 1)), two, "");
  LLVMValueRef square = dt__loop_open(k, 2, zero, t->squares, 1);
  LLVMValueRef own = add(t, t->first_square, square);
  LLVMValueRef row = times(t, LLVMBuildUDiv(m->b, own, each, ""), two);
  LLVMValueRef col = times(t, LLVMBuildURem(m->b, own, each, ""), two);
  LLVMValueRef place = add(t, times(t, row, t->across), col);
  LLVMValueRef rows = LLVMBuildSub(m->b, height, row, "");
  LLVMValueRef cols = LLVMBuildSub(m->b, t->across, col, "");
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 2], 2, place);
  LLVMValueRef begin = dt__index_scalar(k, t->place.begin);
  dt__body_at(k, 2);
  set_fact(t, square, BEGIN, begin);
  set_fact(t, square, LAST_ROW, last_of(t, rows, t->row_step));
  set_fact(t, square, LAST_COL, last_of(t, cols, t->col_step));
  set_fact(t, square, PLACE, place);
  set_fact(t, square, ROWS, smaller(t, rows, two));
  set_fact(t, square, COLS, smaller(t, cols, two));
  dt__loop_close(k, 2);
}

// Elements from one of V's (or M's) forms to the next, whose rows are `stride` long.
static dt_squares_form_t form_of(const tile_t *t, int64_t stride) {
  return (dt_squares_form_t){.lanes = t->k->schedule->lanes,
                             .apart = (int64_t)t->schedule->tile_rows * stride};
}

static LLVMValueRef row_of(const tile_t *t, LLVMValueRef base, LLVMValueRef row, int64_t stride) {
  return dt__emit_element(t->k->m, t->type, base, times(t, row, i64(t, stride)));
}

// `depth` channels of x from `first` on, of all squares.
static void transform_x(tile_t *t, LLVMValueRef first, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  const dt_squares_form_t form = form_of(t, V_STRIDE);
  LLVMValueRef base = k->bases[sum_inst(k->kernel, t->schedule->a)->buffer.id - 1];
  LLVMValueRef square = dt__loop_open(k, 3, i64(t, 0), t->squares, 1);
  LLVMValueRef begin = add(t, fact(t, square, BEGIN), first);
  LLVMValueRef args[DT_SQUARES_ARGS] = {[DT_SQUARES_X] =
                                            dt__emit_element(k->m, t->type, base, begin),
                                        [DT_SQUARES_V] = row_of(t, t->v, square, V_STRIDE),
                                        [DT_SQUARES_COUNT] = depth,
                                        [DT_SQUARES_ROW] = t->row_step,
                                        [DT_SQUARES_COL] = t->col_step,
                                        [DT_SQUARES_LAST_ROW] = fact(t, square, LAST_ROW),
                                        [DT_SQUARES_LAST_COL] = fact(t, square, LAST_COL)};
  dt__squares_transform(k->m, &form, args);
  dt__loop_close(k, 3);
}

// ---- Products -------------------------------------------------------------------------------------

// Squares that micro-kernels take, the most first. What is left of whole groups takes each of the
// others once at most, where it has so many, and the last one as often as it has to.
static uint32_t sizes_of(const tile_t *t, uint32_t out[MOST_SIZES]) {
  uint32_t group = t->schedule->rows, n = 0;
  out[n++] = group;
  if (group / 2 > 4)
    out[n++] = group / 2;
  for (uint32_t size = 4; size >= 1; size /= 2)
    if (size < group)
      out[n++] = size;
  return n;
}

static void group_squares(tile_t *t) {
  dt_emit_t *m = t->k->m;
  uint32_t n = sizes_of(t, t->sizes);
  LLVMValueRef at = i64(t, 0), end = t->squares;
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef left = LLVMBuildSub(m->b, end, at, ""), size = i64(t, t->sizes[i]);
    LLVMValueRef once = LLVMBuildICmp(m->b, LLVMIntSGE, left, size, "");
    LLVMValueRef whole = times(t, LLVMBuildUDiv(m->b, left, size, ""), size);
    if (i > 0 && i + 1 < n)
      whole = LLVMBuildSelect(m->b, once, size, i64(t, 0), "");
    t->starts[i] = at;
    at = t->ends[i] = add(t, at, whole);
  }
  t->n_sizes = n;
}

typedef struct panel_t {
  LLVMValueRef form, at, col, depth, again; // of all forms the number; its address
} panel_t;

static void call_micro(tile_t *t, uint32_t rows, LLVMValueRef square, const panel_t *p) {
  dt_emit_t *m = t->k->m;
  static const dt_panel_t plain = {
      .held = DT_F32, .scales = DT_NO_INST, .zeros = DT_NO_INST, .a_scales = DT_NO_INST};
  const int64_t c_stride = t->schedule->tile_cols;
  LLVMValueRef row = add(t, times(t, p->form, i64(t, t->schedule->tile_rows)), square);
  LLVMValueRef c_at = add(t, times(t, row, i64(t, c_stride)), p->col);
  dt_micro_form_t form = {.sum = DT_F32,
                          .a = DT_F32,
                          .rows = rows,
                          .width = t->schedule->width,
                          .panel = &plain,
                          .in_place = true};
  dt_micro_args_t args = {.a = dt__emit_element(m, t->type, t->v, times(t, row, i64(t, V_STRIDE))),
                          .b = p->at,
                          .c = dt__emit_element(m, t->type, t->c, c_at),
                          .depth = p->depth,
                          .c_stride = i64(t, c_stride),
                          .again = p->again,
                          .a_stride = i64(t, V_STRIDE),
                          .runs = i64(t, 1),
                          .run_step = i64(t, 0)};
  dt__matmul_micro(m, &form, &args);
}

static void multiply(tile_t *t, LLVMValueRef first, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_inst_t *b = sum_inst(kernel, t->schedule->b);
  LLVMValueRef zero = i64(t, 0);
  panel_t p = {.depth = depth, .again = LLVMBuildICmp(m->b, LLVMIntNE, first, zero, "")};
  LLVMValueRef plane = dt__index_scalar(k, dt__program_buffer(&m->program, b->buffer)->strides[1]);
  dt__body_at(k, 2);
  dt__bind_symbol(k, stage->vars[0], 2, zero);
  dt__bind_symbol(k, stage->vars[1], 2, zero);
  dt__bind_symbol(k, stage->vars[2], 2, first);
  p.form = dt__loop_open(k, 3, zero, i64(t, FORMS), 1);
  LLVMValueRef from = times(t, p.form, plane);
  p.col = dt__loop_open(k, 4, zero, t->cols, t->schedule->width);
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 1], 4, add(t, t->first_col, p.col));
  p.at = dt__access_address(k, b->buffer, dt__access_offset(k, b->buffer, b->index), 4).at[0];
  dt__body_at(k, 4);
  p.at = dt__emit_element(m, t->type, p.at, from);
  for (uint32_t i = 0; i < t->n_sizes; i++) {
    call_micro(t, t->sizes[i], dt__loop_open(k, 5, t->starts[i], t->ends[i], t->sizes[i]), &p);
    dt__loop_close(k, 5);
  }
  dt__loop_close(k, 4);
  dt__loop_close(k, 3);
}

// ---- Results --------------------------------------------------------------------------------------

// A place made anew, by the first stage: all columns of its row of the C tile.
static void sum_windows(tile_t *t) {
  dt_body_t *k = t->k;
  const uint32_t level = k->item_level + 1;
  const dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].reductions.items[0].row];
  if (!dt__outer_enter(k, 0, 1))
    return;
  LLVMValueRef col = dt__loop_open(k, level, i64(t, 0), t->cols, k->lanes);
  k->copies = 1;
  k->masks[0] = NULL; // panels are whole
  k->lane_base = add(t, t->first_col, col);
  dt__stage_emit(k, 0);
  dt__body_at(k, level);
  LLVMValueRef sum = dt__lanes_vector(k, row, 0, level);
  dt__emit_store(k->m, DT_F32, sum, dt__emit_element(k->m, t->type, t->c_row, col), NULL);
  dt__loop_close(k, level);
}

// Place (i, j) of a square is row `square` of M's form 2 i + j from here on.
static void make_places(tile_t *t) {
  dt_body_t *k = t->k;
  const dt_squares_form_t form = form_of(t, t->schedule->tile_cols);
  LLVMValueRef square = dt__loop_open(k, 2, i64(t, 0), t->squares, 1);
  LLVMValueRef c = row_of(t, t->c, square, t->schedule->tile_cols);
  set_fact(t, square, SPOILED, dt__squares_back(k->m, &form, c, t->cols));
  dt__loop_close(k, 2);
}

// The first stage's row value in the lanes of this vector.
static void load_row_value(dt_body_t *k, void *user) {
  const tile_t *t = user;
  dt__body_at(k, k->lane_level);
  LLVMValueRef at = LLVMBuildSub(k->m->b, k->lane_base, t->first_col, "");
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].reductions.items[0].row];
  row->varying = true;
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef from = add(t, at, i64(t, (int64_t)(c * k->lanes)));
    row->v[c] = dt__emit_load(k->m, DT_F32, k->lanes,
                              dt__emit_element(k->m, t->type, t->c_row, from), NULL, NULL);
  }
}

static void finish_places(tile_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef zero = i64(t, 0), end = add(t, t->first_col, t->cols);
  LLVMValueRef square = dt__loop_open(k, 2, zero, t->squares, 1);
  LLVMValueRef first = fact(t, square, PLACE), cols = fact(t, square, COLS);
  LLVMValueRef spoiled = fact(t, square, SPOILED);
  LLVMValueRef i = dt__loop_open(k, 3, zero, fact(t, square, ROWS), 1);
  LLVMValueRef j = dt__loop_open(k, 4, zero, cols, 1);
  LLVMValueRef place = add(t, first, add(t, times(t, i, t->across), j));
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 2], 4, place);
  LLVMValueRef form = add(t, times(t, i, i64(t, 2)), j);
  LLVMValueRef row = add(t, times(t, form, i64(t, t->schedule->tile_rows)), square);
  t->c_row = dt__emit_element(m, t->type, t->c, times(t, row, i64(t, t->schedule->tile_cols)));
  k->item_level = 5;
  (void)dt__loop_open(k, 5, zero, spoiled, 1);
  sum_windows(t);
  dt__loop_close(k, 5);
  k->item_level = 4;
  dt__outer_vectors(k, t->first_col, end, false, 1, kernel->stages.len, load_row_value, t);
  k->item_level = 1;
  dt__loop_close(k, 4);
  dt__loop_close(k, 3);
  dt__loop_close(k, 2);
}

static LLVMValueRef scalar_at(dt_body_t *k, dt_sym_t e) {
  LLVMValueRef value = dt__index_scalar(k, e);
  dt__body_at(k, 1);
  return value;
}

void dt__winograd_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row) {
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_matmul_t *schedule = &k->schedule->matmul;
  const dt_stage_t *stage = &kernel->stages.items[0];
  tile_t t = {.k = k, .schedule = schedule, .type = m->t_f32, .v = k->scratch};
  int64_t v_bytes = (int64_t)schedule->tile_rows * FORMS * V_STRIDE * (int64_t)sizeof(float);
  dt_sym_t down, all;
  k->stage_index = 0;
  k->stage = stage;
  all = dt__winograd_squares(m->env, kernel->extents[kernel->n_loops - 2], schedule->across, &down);
  t.across = scalar_at(k, schedule->across);
  (void)find_place(m, kernel, schedule, &t.place); // verified
  t.row_step = scalar_at(k, t.place.step[0]);
  t.col_step = scalar_at(k, t.place.step[1]);
  LLVMValueRef squares = scalar_at(k, all);
  LLVMValueRef columns = scalar_at(k, kernel->extents[kernel->n_loops - 1]);
  t.c = dt__emit_offset(m, k->scratch, dt__emit_i64(m, v_bytes));
  t.first_square = times(&t, tile_row, i64(&t, schedule->tile_rows));
  t.first_col = times(&t, tile_col, i64(&t, schedule->tile_cols));
  t.squares =
      smaller(&t, LLVMBuildSub(m->b, squares, t.first_square, ""), i64(&t, schedule->tile_rows));
  t.cols = smaller(&t, LLVMBuildSub(m->b, columns, t.first_col, ""), i64(&t, schedule->tile_cols));
  group_squares(&t);
  t.table = dt__body_slot(k, m->t_i64, schedule->tile_rows * FACTS);
  find_squares(&t, down);
  dt__body_at(k, 1);
  LLVMValueRef channels = scalar_at(k, stage->extents[2]);
  LLVMValueRef first = dt__loop_open(k, 2, i64(&t, 0), channels, DEPTH);
  LLVMValueRef depth = smaller(&t, LLVMBuildSub(m->b, channels, first, ""), i64(&t, DEPTH));
  transform_x(&t, first, depth);
  multiply(&t, first, depth);
  dt__loop_close(k, 2);
  make_places(&t);
  finish_places(&t);
}
