// SPDX-License-Identifier: Apache-2.0
// Fusion keeps meaning: small programs are lowered, and after each fusion pass the interpreter must
// give what it gave before the first, at many sizes. Kernel counts are checked where they are the
// point (row-persistent softmax and layer norm, epilogues of products).
#include "test/support/check.h"

#include "ductile/device.h"
#include "fuse/fuse.h"
#include "lower/passes/passes.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_INPUTS 6
#define MAX_OUTPUTS 6

typedef struct build_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_sym_t s[3]; // size symbols
  dt_node_id_t in[MAX_INPUTS];
  uint32_t n_inputs;
} build_t;

static const dt_origin_t here = {.op = "test", .file = "test_programs.c", .line = 1};

static dt_node_id_t add(build_t *b, dt_op_t op, uint32_t n, const dt_node_id_t *in,
                        const dt_attrs_t *attrs) {
  dt_node_id_t out = {0};
  expect_ok(dt__graph_add(b->graph, op, in, n, attrs, &here, &out));
  return out;
}

static dt_node_id_t unary(build_t *b, dt_op_t op, dt_node_id_t x) {
  return add(b, op, 1, &x, NULL);
}

static dt_node_id_t binary(build_t *b, dt_op_t op, dt_node_id_t x, dt_node_id_t y) {
  dt_node_id_t in[2] = {x, y};
  expect_ok(dt__graph_broadcast(b->graph, in, 2, &here));
  return add(b, op, 2, in, NULL);
}

static dt_node_id_t matmul(build_t *b, dt_node_id_t x, dt_node_id_t y) {
  return add(b, DT_OP_matmul, 2, (dt_node_id_t[]){x, y}, NULL);
}

static dt_node_id_t reduce(build_t *b, dt_op_t op, dt_node_id_t x, int32_t axis, bool keep) {
  dt_attrs_t attrs = {.n_axes = 1, .axes = {axis}, .keepdims = keep};
  return add(b, op, 1, &x, &attrs);
}

static dt_node_id_t scalar(build_t *b, double value) {
  dt_attrs_t attrs = {.dtype = DT_F32, .floats = {value}};
  return add(b, DT_OP_scalar, 0, NULL, &attrs);
}

static dt_node_id_t input(build_t *b, uint32_t rank, const dt_sym_t *sizes) {
  dt_graph_input_t in = {.name = "x", .dtype = DT_F32, .rank = rank, .contiguous = true};
  dt_sym_t stride = dt__sym_const(b->env, 1);
  for (uint32_t d = rank; d-- > 0;) {
    in.sizes[d] = sizes[d];
    in.strides[d] = stride;
    stride = dt__sym_mul(b->env, stride, sizes[d]);
  }
  dt_node_id_t id;
  expect_ok(dt__graph_add_input(b->graph, &in, &id));
  b->in[b->n_inputs++] = id;
  return id;
}

static dt_node_id_t view(build_t *b, dt_op_t op, dt_node_id_t x, uint32_t n, const dt_sym_t *syms,
                         const int32_t *axes) {
  dt_attrs_t attrs = {0};
  if (syms) {
    attrs.n_syms = n;
    memcpy(attrs.syms, syms, n * sizeof(*syms));
  } else {
    attrs.n_axes = n;
    memcpy(attrs.axes, axes, n * sizeof(*axes));
  }
  return add(b, op, 1, &x, &attrs);
}

static dt_sym_t lit(build_t *b, int64_t v) { return dt__sym_const(b->env, v); }

// ---- Programs -------------------------------------------------------------------------------------

static void make_softmax(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {1}};
  expect_ok(dt__graph_add_output(b->graph, add(b, DT_OP_softmax, 1, &x, &attrs)));
}

static void make_column_softmax(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {0}};
  expect_ok(dt__graph_add_output(b->graph, add(b, DT_OP_softmax, 1, &x, &attrs)));
}

static void make_layer_norm(build_t *b) {
  dt_sym_t width = lit(b, 24), sizes[3] = {b->s[0], b->s[1], width};
  dt_node_id_t x = input(b, 3, sizes), r = input(b, 3, sizes), scale = input(b, 1, &width),
               bias = input(b, 1, &width);
  dt_node_id_t sum = binary(b, DT_OP_add, x, r), in[3] = {sum, scale, bias};
  dt_attrs_t attrs = {.n_axes = 1, .floats = {1e-5}};
  dt_node_id_t y = add(b, DT_OP_layer_norm, 3, in, &attrs);
  expect_ok(dt__graph_add_output(b->graph, y));
  expect_ok(dt__graph_add_output(b->graph, sum));
}

static void make_mlp(build_t *b) {
  dt_sym_t k = lit(b, 19), n = lit(b, 37), x_sizes[3] = {b->s[0], b->s[1], k}, w_sizes[2] = {k, n};
  dt_node_id_t x = input(b, 3, x_sizes), w = input(b, 2, w_sizes), bias = input(b, 1, &n);
  dt_node_id_t y = unary(b, DT_OP_gelu, binary(b, DT_OP_add, matmul(b, x, w), bias));
  expect_ok(dt__graph_add_output(b->graph, y));
}

static void make_attention(build_t *b) {
  // [s0, s1, 2*8] → heads → softmax(q kᵀ) v → [s0, s1, 16]
  dt_sym_t width = lit(b, 16), heads = lit(b, 2), dim = lit(b, 8);
  dt_sym_t sizes[3] = {b->s[0], b->s[1], width}, split[4] = {b->s[0], b->s[1], heads, dim};
  const int32_t to_heads[4] = {0, 2, 1, 3}, to_keys[4] = {0, 2, 3, 1};
  dt_node_id_t q = input(b, 3, sizes), k = input(b, 3, sizes), v = input(b, 3, sizes);
  q = view(b, DT_OP_permute, view(b, DT_OP_reshape, q, 4, split, NULL), 4, NULL, to_heads);
  k = view(b, DT_OP_permute, view(b, DT_OP_reshape, k, 4, split, NULL), 4, NULL, to_keys);
  v = view(b, DT_OP_permute, view(b, DT_OP_reshape, v, 4, split, NULL), 4, NULL, to_heads);
  dt_node_id_t scores = binary(b, DT_OP_mul, matmul(b, q, k), scalar(b, 0.35));
  dt_attrs_t attrs = {.n_axes = 1, .axes = {3}};
  dt_node_id_t p = add(b, DT_OP_softmax, 1, &scores, &attrs);
  dt_node_id_t c = view(b, DT_OP_permute, matmul(b, p, v), 4, NULL, to_heads);
  expect_ok(dt__graph_add_output(b->graph, view(b, DT_OP_reshape, c, 3, sizes, NULL)));
}

// One after the other, as layers are.
static void make_two_attentions(build_t *b) {
  make_attention(b);
  dt_node_id_t x = b->graph->outputs.items[0];
  b->graph->outputs.len = 0;
  dt_sym_t sizes[3] = {b->s[0], b->s[1], lit(b, 16)};
  const int32_t turn[3] = {0, 2, 1};
  dt_node_id_t y = input(b, 3, sizes);
  dt_node_id_t scores = matmul(b, x, view(b, DT_OP_permute, y, 3, NULL, turn));
  dt_attrs_t attrs = {.n_axes = 1, .axes = {2}};
  dt_node_id_t p = add(b, DT_OP_softmax, 1, &scores, &attrs);
  expect_ok(dt__graph_add_output(b->graph, matmul(b, p, y)));
  expect_ok(dt__graph_add_output(b->graph, x));
}

// Rows are made once for the product and once for the result; the sum in front of them is used
// again.
static void make_norm_linear(build_t *b) {
  dt_sym_t width = lit(b, 24), sizes[3] = {b->s[0], b->s[1], width}, w_sizes[2] = {width, b->s[1]};
  dt_node_id_t x = input(b, 3, sizes), r = input(b, 3, sizes), scale = input(b, 1, &width),
               bias = input(b, 1, &width), w = input(b, 2, w_sizes);
  dt_node_id_t sum = binary(b, DT_OP_add, x, r), in[3] = {sum, scale, bias};
  dt_attrs_t attrs = {.n_axes = 1, .floats = {1e-5}};
  dt_node_id_t y = add(b, DT_OP_layer_norm, 3, in, &attrs);
  expect_ok(dt__graph_add_output(b->graph, unary(b, DT_OP_gelu, matmul(b, y, w))));
  expect_ok(dt__graph_add_output(b->graph, binary(b, DT_OP_add, y, sum)));
}

// Softmax that others read too, over rows of the product's batch and m in another order.
static void make_rows_linear(build_t *b) {
  dt_sym_t width = lit(b, 9), sizes[3] = {b->s[1], b->s[0], width}, w_sizes[2] = {width, b->s[0]};
  dt_node_id_t x = input(b, 3, sizes), w = input(b, 2, w_sizes);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {2}};
  const int32_t turn[3] = {1, 0, 2};
  dt_node_id_t p = add(b, DT_OP_softmax, 1, &x, &attrs);
  expect_ok(dt__graph_add_output(b->graph, matmul(b, view(b, DT_OP_permute, p, 3, NULL, turn), w)));
  expect_ok(dt__graph_add_output(b->graph, p));
}

static void make_column_sum(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s);
  expect_ok(dt__graph_add_output(b->graph, reduce(b, DT_OP_sum, unary(b, DT_OP_exp, x), 0, false)));
}

static void make_full_sum(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s);
  dt_attrs_t attrs = {.n_axes = 2, .axes = {0, 1}};
  dt_node_id_t sum = add(b, DT_OP_sum, 1, &x, &attrs), max = add(b, DT_OP_amax, 1, &x, &attrs);
  expect_ok(dt__graph_add_output(b->graph, binary(b, DT_OP_mul, sum, max)));
}

static void make_transpose(build_t *b) {
  const int32_t swap[2] = {1, 0};
  dt_node_id_t x = input(b, 2, b->s);
  dt_node_id_t t = view(b, DT_OP_permute, unary(b, DT_OP_neg, x), 2, NULL, swap);
  expect_ok(dt__graph_add_output(b->graph, binary(b, DT_OP_add, t, t)));
}

static void make_concat_pad(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s), y = unary(b, DT_OP_tanh, x), in[2] = {x, y};
  dt_attrs_t attrs = {.n_axes = 1, .axes = {1}};
  dt_node_id_t c = add(b, DT_OP_concat, 2, in, &attrs);
  dt_attrs_t pad = {.n_syms = 4, .floats = {7}};
  const int64_t around[4] = {1, 0, 2, 3};
  for (int k = 0; k < 4; k++)
    pad.syms[k] = lit(b, around[k]);
  dt_node_id_t p = add(b, DT_OP_pad, 1, &c, &pad);
  expect_ok(dt__graph_add_output(b->graph, reduce(b, DT_OP_sum, p, 1, true)));
  expect_ok(dt__graph_add_output(b->graph, unary(b, DT_OP_abs, p)));
}

static void make_rows_then_map(build_t *b) {
  dt_node_id_t x = input(b, 2, b->s);
  dt_node_id_t max = reduce(b, DT_OP_amax, x, 1, true), min = reduce(b, DT_OP_amin, x, 1, true);
  dt_node_id_t range = binary(b, DT_OP_sub, max, min);
  expect_ok(
      dt__graph_add_output(b->graph, binary(b, DT_OP_div, binary(b, DT_OP_sub, x, min), range)));
  expect_ok(dt__graph_add_output(b->graph, range));
}

static dt_node_id_t backwards(build_t *b, dt_node_id_t x, int64_t n) {
  dt_attrs_t attrs = {.n_syms = 2, .syms = {lit(b, n - 1), lit(b, n)}, .ints = {-1}};
  return add(b, DT_OP_slice, 1, &x, &attrs);
}

// What three reductions of joined parts give is turned round, twice: each time by maps that do not
// know each other.
static void make_small_maps(build_t *b) {
  static const dt_op_t ops[] = {DT_OP_amax, DT_OP_amin, DT_OP_sum};
  dt_node_id_t x = input(b, 2, (dt_sym_t[]){lit(b, 6), b->s[0]});
  for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
    dt_node_id_t up = binary(b, DT_OP_add, x, scalar(b, (double)k));
    dt_node_id_t sides[2] = {up, input(b, 2, (dt_sym_t[]){lit(b, 6), lit(b, 2)})};
    dt_attrs_t along = {.n_axes = 1, .axes = {1}};
    dt_node_id_t row = reduce(b, ops[k], add(b, DT_OP_concat, 2, sides, &along), 1, false);
    dt_node_id_t turned = unary(b, DT_OP_sin, backwards(b, row, 6));
    dt_node_id_t again = binary(b, DT_OP_add, backwards(b, turned, 6), scalar(b, 1));
    expect_ok(dt__graph_add_output(b->graph, again));
    expect_ok(dt__graph_add_output(b->graph, unary(b, DT_OP_neg, turned)));
  }
}

static const struct {
  const char *name;
  void (*make)(build_t *);
  uint32_t kernels; // after fusion, on a CPU; 0: any
  uint32_t slices;
  uint32_t launches; // of a device, where a chain is one; 0: any
} programs[] = {
    {"softmax", make_softmax, 1, 0, 1},
    {"column softmax", make_column_softmax, 1, 0, 0},
    {"residual layer norm", make_layer_norm, 1, 0, 1},
    {"mlp", make_mlp, 2, 0, 1},             // packing, product with epilogue
    {"attention", make_attention, 5, 1, 1}, // two packings, two products, softmax
    {"two attentions", make_two_attentions, 10, 2, 0},
    {"layer norm and linear", make_norm_linear, 0, 0, 1},
    {"softmax and linear", make_rows_linear, 0, 0, 1},
    {"column sum", make_column_sum, 1, 0, 0},
    {"full sum", make_full_sum, 2, 0, 0}, // two steps
    {"transpose", make_transpose, 1, 0, 1},
    {"concat and pad", make_concat_pad, 0, 0, 0},
    {"rows then map", make_rows_then_map, 1, 0, 1},
    {"small maps", make_small_maps, 0, 0, 6}, // three reductions, three bundles
};

typedef dt_status_t (*fuse_fn_t)(dt_program_t *, const dt_target_t *);
static const struct {
  const char *name;
  fuse_fn_t fn;
} passes[] = {
    {"layouts", dt__fuse_layouts}, {"operands", dt__fuse_operands}, {"split", dt__fuse_split},
    {"inline", dt__fuse_inline},   {"stages", dt__fuse_stages},     {"prune", dt__fuse_prune},
    {"proven", dt__fuse_proven},   {"narrow", dt__fuse_narrow},     {"chains", dt__fuse_chains},
    {"slices", dt__fuse_slices},   {"schedule", dt__fuse_schedule}, {"foreach", dt__fuse_foreach},
    {"plan", dt__fuse_plan},
};

static const dt_target_t gpu = {.device = DT_CUDA,
                                .vector_bytes = 16,
                                .vector_registers = 32,
                                .masked_memory = true,
                                .fma = true,
                                .half_convert = true,
                                .threads = 132,
                                .l1_bytes = 1 << 17,
                                .l2_bytes = 1 << 25,
                                .queued = true,
                                .own_memory = true,
                                .entries = true,
                                .block_threads = 256,
                                .warp = 32,
                                .half_sums = 64,
                                .map_blocks = 128,
                                .busy_parts = 1 << 20,
                                .tile_bytes = 48 << 10,
                                .slab_unit = 256,
                                .slab_pad = 16,
                                .bundle_words = 192};
// Groups of another width.
static const dt_target_t wide = {.device = DT_CUDA,
                                 .vector_bytes = 16,
                                 .vector_registers = 32,
                                 .fma = true,
                                 .half_convert = true,
                                 .threads = 64,
                                 .l1_bytes = 1 << 16,
                                 .l2_bytes = 1 << 22,
                                 .queued = true,
                                 .own_memory = true,
                                 .block_threads = 512,
                                 .warp = 64,
                                 .half_sums = 32,
                                 .map_blocks = 16,
                                 .busy_parts = 1 << 16,
                                 .tile_bytes = 16 << 10,
                                 .slab_unit = 128,
                                 .slab_pad = 32,
                                 .bundle_words = 64};
// A device without teams: threads of its own run what a CPU's would.
static const dt_target_t apart = {.device = DT_CUDA,
                                  .vector_bytes = 32,
                                  .vector_registers = 16,
                                  .threads = 4,
                                  .l1_bytes = 32768,
                                  .l2_bytes = 1 << 20,
                                  .matmul_rows = {6, 6},
                                  .matmul_width = {16, 8},
                                  .queued = true,
                                  .own_memory = true};
// The cache decides how many iterations a slice has: 4 bytes make every slice one.
static dt_target_t cpu = {.vector_bytes = 64,
                          .vector_registers = 32,
                          .masked_memory = true,
                          .fma = true,
                          .fast_conv = true,
                          .dot_products = 1,
                          .threads = 2,
                          .l1_bytes = 32768,
                          .l2_bytes = 1 << 20,
                          .matmul_rows = {6, 6},
                          .matmul_width = {16, 8}};

static const int64_t shapes[][2] = {{1, 1}, {0, 5}, {5, 0},  {2, 3},
                                    {7, 1}, {1, 9}, {6, 17}, {3, 33}};

static float *random_floats(int64_t n, uint32_t seed) {
  float *data = test_malloc(((size_t)n + 1) * sizeof(float));
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525U + 1013904223U;
    data[k] = (float)(seed >> 8) / (float)(1 << 23) - 1.0F;
  }
  return data;
}

static int64_t count_of(const dt_program_t *program, const dt_sym_t *sizes, uint32_t rank,
                        const int64_t *symbols) {
  int64_t count = 1;
  for (uint32_t d = 0; d < rank; d++) {
    int64_t size = 0;
    assert_true(dt__sym_eval(program->env, sizes[d], symbols, &size));
    count *= size;
  }
  return count;
}

// Runs the program at one shape; results joined in one array.
static float *run(dt_program_t *program, const int64_t *shape, int64_t *out_count) {
  uint32_t n_symbols = dt__symenv_symbol_count(program->env);
  int64_t *symbols = test_calloc(n_symbols + 1, sizeof(int64_t));
  symbols[0] = shape[0];
  symbols[1] = shape[1];
  void *inputs[MAX_INPUTS] = {0}, *outputs[MAX_OUTPUTS] = {0};
  for (uint32_t k = 0; k < program->graph->inputs.len; k++) {
    const dt_graph_input_t *in = &program->graph->inputs.items[k];
    inputs[k] = random_floats(count_of(program, in->sizes, in->rank, symbols), 17 + k);
  }
  int64_t total = 0;
  int64_t counts[MAX_OUTPUTS] = {0};
  for (uint32_t k = 0; k < program->outputs.len; k++) {
    const dt_buffer_t *out = dt__program_buffer(program, program->outputs.items[k]);
    counts[k] = count_of(program, out->sizes, out->rank, symbols);
    outputs[k] = test_calloc((size_t)counts[k] + 1, sizeof(float));
    total += counts[k];
  }
  expect_ok(dt__program_interpret(program, symbols, inputs, outputs));
  float *joined = test_malloc(((size_t)total + 1) * sizeof(float));
  for (uint32_t k = 0, at = 0; k < program->outputs.len; at += (uint32_t)counts[k++]) {
    memcpy(joined + at, outputs[k], (size_t)counts[k] * sizeof(float));
    test_free(outputs[k]);
  }
  for (uint32_t k = 0; k < program->graph->inputs.len; k++)
    test_free(inputs[k]);
  test_free(symbols);
  *out_count = total;
  return joined;
}

static dt_program_t *lower(build_t *b) {
  const dt_graph_t *graph = b->graph, *next = NULL;
  static const dt_graph_pass_fn_t graph_passes[] = {dt__pass_decompose, dt__pass_fold, dt__pass_cse,
                                                    dt__pass_dce};
  for (size_t k = 0; k < sizeof(graph_passes) / sizeof(graph_passes[0]); k++) {
    expect_ok(graph_passes[k](&b->arena, graph, &next));
    graph = next;
  }
  dt_program_t *program = NULL;
  expect_ok(dt__lower_graph(&b->arena, b->env, graph, &program));
  return program;
}

static void show(const char *title, const dt_program_t *program) {
  dt_text_t text;
  dt__text_init(&text);
  dt__program_print(program, &text);
  fprintf(stderr, "---- %s\n%s\n", title, dt__text_str(&text));
  dt__text_fini(&text);
}

static void count_kernels(size_t p, const dt_program_t *program, bool teams) {
  uint32_t n = 0, expected = teams ? programs[p].launches : programs[p].kernels;
  for (uint32_t k = 0; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    n++;
  if (expected && n != expected) {
    show(programs[p].name, program);
    fail_msg("%s: %u kernels, expected %u", programs[p].name, n, expected);
  }
  if (!teams && program->slices.len != programs[p].slices) {
    show(programs[p].name, program);
    fail_msg("%s: %u chains in slices, expected %u", programs[p].name, program->slices.len,
             programs[p].slices);
  }
}

// Teams are one thread or whole groups, of a block at most; a row of a chain may have a part of a
// group. Without teams there are none.
static bool team_fits(const dt_kernel_t *kernel, uint32_t team, const dt_target_t *target) {
  uint32_t warp = dt__target_warp(target);
  if (!dt__target_has_teams(target))
    return team == 0;
  return team == 1 || (team && team <= target->block_threads && team % warp == 0) ||
         (kernel->chain && team && warp % team == 0);
}

static void check_teams(const dt_program_t *program, const dt_target_t *target) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->schedules.len; s++)
      if (!team_fits(kernel, kernel->schedules.items[s].team, target))
        fail_msg("%s: a team of %u in groups of %u", kernel->name, kernel->schedules.items[s].team,
                 target->warp);
  }
}

// The kernel touches another buffer than `id` that lies where that does.
static bool is_in_the_way(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t id) {
  uint32_t slot = program->offsets.items[id - 1].id;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->stores.len + stage->insts.len; i++) {
      uint32_t other = i < stage->stores.len
                           ? stage->stores.items[i].buffer.id
                           : dt__inst_reads(&stage->insts.items[i - stage->stores.len]).id;
      if (other && other != id && program->offsets.items[other - 1].id == slot)
        return true;
    }
  }
  return false;
}

// What one kernel of a bundle writes does not lie where another reads or writes.
static void check_bundles(const dt_program_t *program) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_chain_t chain = dt__kernel_chain(program, k);
    const dt_stage_t *stage = &program->kernels.items[k].stages.items[0];
    for (uint32_t i = 0; i < stage->stores.len && dt__chain_is_bundle(program, chain); i++) {
      uint32_t id = stage->stores.items[i].buffer.id;
      if (program->buffers.items[id - 1].kind != DT_BUFFER_TEMP)
        continue;
      for (uint32_t other = chain.first; other < chain.end; other++)
        if (other != k && is_in_the_way(program, &program->kernels.items[other], id)) {
          show("a bundle", program);
          fail_msg("kernel %u writes what kernel %u of its bundle touches", k, other);
        }
    }
  }
}

// ---- Answers --------------------------------------------------------------------------------------
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]), MOST_TEXTS = 128 };

// Of one program, for all targets: what it gives before the first pass, and the texts that have
// been interpreted and gave the same. The text is all of a program, so none is interpreted twice.
typedef struct known_t {
  float *expected[N_SHAPES];
  int64_t counts[N_SHAPES];
  char *texts[MOST_TEXTS];
  uint32_t n;
} known_t;

static bool is_known(known_t *known, const dt_program_t *program) {
  dt_text_t text;
  dt__text_init(&text);
  dt__program_print(program, &text);
  expect_ok(dt__text_status(&text));
  for (uint32_t k = 0; k < known->n; k++)
    if (strcmp(known->texts[k], dt__text_str(&text)) == 0) {
      dt__text_fini(&text);
      return true;
    }
  assert_true(known->n < MOST_TEXTS);
  known->texts[known->n] = test_malloc(text.len + 1);
  memcpy(known->texts[known->n++], dt__text_str(&text), text.len + 1);
  dt__text_fini(&text);
  return false;
}

static void forget(known_t *known) {
  for (size_t k = 0; k < N_SHAPES; k++)
    test_free(known->expected[k]);
  for (uint32_t k = 0; k < known->n; k++)
    test_free(known->texts[k]);
}

static void check_answers(size_t p, const char *pass, dt_program_t *program, const known_t *known) {
  for (size_t k = 0; k < N_SHAPES; k++) {
    int64_t count = 0;
    float *got = run(program, shapes[k], &count);
    assert_int_equal(count, known->counts[k]);
    for (int64_t i = 0; i < count; i++) {
      double want = (double)known->expected[k][i], have = (double)got[i];
      bool same = (isnan(want) && isnan(have)) || want == have ||
                  fabs(want - have) <= 1e-5 * (1 + fabs(want));
      if (!same) {
        show(pass, program);
        fail_msg("%s after %s at [%d, %d]: element %d is %g, was %g", programs[p].name, pass,
                 (int)shapes[k][0], (int)shapes[k][1], (int)i, have, want);
      }
    }
    test_free(got);
  }
}

static void check_program(size_t p, const dt_target_t *target, known_t *known) {
  build_t b = {0};
  dt__arena_init(&b.arena, 0);
  expect_ok(dt__symenv_create(&b.env));
  b.graph = dt__graph_create(&b.arena, b.env);
  dt_range_t range = {0, DT_SIZE_LIMIT - 1};
  for (int k = 0; k < 2; k++)
    b.s[k] = dt__sym_new(b.env, DT_SYMBOL_SIZE, range, NULL, "size");
  programs[p].make(&b);
  dt__symenv_freeze(b.env);
  dt_program_t *program = lower(&b);
  expect_ok(dt__program_verify(program));
  bool first = known->n == 0;
  assert_int_equal(is_known(known, program), !first); // before any pass there is no target
  for (size_t k = 0; k < N_SHAPES && first; k++)
    known->expected[k] = run(program, shapes[k], &known->counts[k]);
  for (size_t f = 0; f < sizeof(passes) / sizeof(passes[0]); f++) {
    expect_ok(passes[f].fn(program, target));
    dt_status_t status = dt__program_verify(program);
    if (status)
      show(passes[f].name, program);
    expect_ok(status);
    if (!is_known(known, program))
      check_answers(p, passes[f].name, program, known);
  }
  count_kernels(p, program, dt__target_has_teams(target));
  check_teams(program, target);
  check_bundles(program);
  dt__symenv_destroy(b.env);
  dt__arena_fini(&b.arena);
}

static void fusion_keeps_meaning(void **state) {
  (void)state;
  static const int64_t caches[] = {4, 500, 1 << 20};
  for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
    known_t known = {.n = 0};
    printf("%s\n", programs[p].name);
    for (size_t c = 0; c < sizeof(caches) / sizeof(caches[0]); c++) {
      cpu.l2_bytes = caches[c];
      check_program(p, &cpu, &known);
    }
    check_program(p, &gpu, &known);
    check_program(p, &wide, &known);
    check_program(p, &apart, &known);
    forget(&known);
  }
}

RUN_TESTS(TEST(fusion_keeps_meaning))
