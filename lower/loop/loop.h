// SPDX-License-Identifier: Apache-2.0
// The loop IR: the form of a program after lowering. It names no tensor op, no model and no device;
// views have become index expressions.
//
// A program is buffers and kernels in order. A kernel is a perfect nest of outer loops around
// stages. Outer iterations are independent of each other. Stages run one after another in each
// outer iteration. A stage has inner loops of its own (possibly none). It either maps (stores
// elements) or reduces all its inner loops into row values, or both at once.
//
//   kernel softmax: outer i0 < s0, i1 < s1                      (independent, any order, parallel)
//     stage 0: inner i2 < s2:  r0 = reduce max(load x[i0, i1, i2])
//     stage 1: inner i3 < s2:  e = exp(load x[i0, i1, i3] - r0);  store L0[i3] = e;
//                              r1 = reduce sum(e)
//     stage 2: inner i4 < s2:  store y[i0, i1, i4] = load L0[i4] / r1
//
// A reduction straight from lowering is one reduction stage and one stage without inner loops that
// stores the row value; a matrix product is the reduction of a product. Fusion makes bigger kernels
// of these. Schedules (templates, vector axis, tiles) only say how a kernel is run, never what it
// means, so the interpreter and every backend agree on the meaning.
#ifndef DT_LOWER_LOOP_LOOP_H
#define DT_LOWER_LOOP_LOOP_H

#include "lower/loop/kernel.h"

// A check that loads make on data, or that a program of device sizes makes on a readback: what is
// said when it fails.
typedef struct dt_check_t {
  const char *what; // "gather: index of ids"
  dt_origin_t origin;
  uint32_t readback; // 1 + the readback whose value is checked, and told; 0: an index is
  dt_code_t code;    // of an assert on it; OK: its range is what is checked
} dt_check_t;

// A number that a call reads from its own data: after the kernels that write `buffer` (rank 0, I64)
// the host binds the UNBACKED symbol `symbol` to it, makes the graph's asserts on it, and goes on.
typedef struct dt_readback_t {
  dt_buffer_id_t buffer;
  uint32_t symbol;
  const char *what; // for messages: "item", "nonzero"
  dt_origin_t origin;
  dt_sym_t most; // programs of device sizes: the value is no more; free of readbacks. Or none
} dt_readback_t;

// Programs of device sizes (of devices; set by fuse): the host binds no readbacks, and there is one
// segment. Kernels read a symbol of a readback from its buffer where they begin; memory is planned
// for the most that readbacks may be (dt__program_most), and so is each grid. Behind the kernels
// that write a readback's buffer stands one that makes the readback's range, its `most` and the
// asserts that waited for it checks, and stores to a gate whether all of these, and those of the
// gate before, hold. Every kernel behind it has this gate: nothing uses a readback that a check
// refused.
//
// Where any program of a device both checks and updates, a kernel behind all checks stores to a
// gate whether all held (SOUND), and kernels that update have that gate (set by fuse).

// A kernel belongs to the first segment at whose beginning every UNBACKED symbol that it uses is
// bound: in its extents, indices, predicates, and the sizes and strides of its buffers. The same
// holds for offsets of what it writes first. A segment may be without kernels, and the first one
// may begin with readbacks (of constants).
typedef struct dt_program_segment_t {
  uint32_t readback_end; // readbacks before this one are bound when it begins
  uint32_t kernel_end;   // its kernels go up to this one
  dt_sym_t block_bytes;  // of all TEMP buffers placed in it or before; earlier ones never move
} dt_program_segment_t;

// Kernels [first, end) run over a common loop a slice at a time, all of them over one slice before
// the next: for begin = 0, step, 2 step, … below `extent` with count = min(step, extent - begin).
// Both are SLICE symbols, which only these kernels use. A temporary that only they use holds one
// slice; its first dim has the size `step`.
typedef struct dt_program_slices_t {
  uint32_t first, end;   // set by dt__program_settle_slices from what the kernels say
  dt_sym_t extent, step; // step >= 1
  uint32_t begin, count; // SLICE symbols, by index
} dt_program_slices_t;

// Sections of kernels, numbered in order: between the first and the last kernel of one section no
// region begins or ends, and fusion joins kernels of one section only. A region is a sequence of
// whole sections.
// What a kernel of a region writes is read inside of the region only, but for STATE. The kernels of
// a region stand side by side and in one segment; it may have none.
typedef enum dt_region_kind_t {
  DT_REGION_IF,    // its kernels run where the predicate is true
  DT_REGION_ELSE,  // follows the IF of the same predicate: its kernels run where that is false
  DT_REGION_WHILE, // its kernels run again and again while the predicate, which they write, is true
  DT_REGION_CASE   // number `index` of `n` side by side on one predicate, a number: its kernels run
                   // where that is its number; the last one's also where it is none of them
} dt_region_kind_t;
typedef struct dt_program_region_t {
  dt_region_kind_t kind;
  uint32_t index, n;                   // CASE
  dt_buffer_id_t predicate;            // rank 0, BOOL; of a CASE U8
  uint32_t section_first, section_end; // its sections
  // Set by dt__program_settle_regions:
  uint32_t first, end; // its kernels
  uint32_t parent;     // 1 + the innermost region around it, or 0
  uint32_t same;       // 1 + the next region that begins at the same kernel, or 0
} dt_program_region_t;

typedef struct dt_program {
  dt_arena_t *arena; // owns everything; borrowed
  dt_symenv_t *env;  // private to the compile; borrowed
  const dt_graph_t *graph;
  DT_VEC(dt_buffer_t) buffers; // buffers.items[id - 1]
  DT_VEC(dt_kernel_t) kernels; // in order
  DT_VEC(dt_check_t) checks;
  // Result k of the function is this buffer (INPUT and CONSTANT kinds are copied by a kernel, so
  // this is always an OUTPUT; two results never share one).
  DT_VEC(dt_buffer_id_t) outputs;
  // Calls of users' ops, by kernel->external - 1. Programs read from text have none.
  DT_VEC(const dt_graph_external_t *) externals;
  DT_VEC(dt_readback_t) readbacks; // what is read back, in the order it is bound
  // Set by fuse: kernels n_once … in order of segments. The host plans a segment (binds its
  // readbacks, makes the asserts that wait for them, computes sizes), then runs its kernels. Empty:
  // one segment.
  DT_VEC(dt_program_segment_t) segments;
  DT_VEC(dt_program_slices_t) slices; // set by fuse; in order, none over two segments
  // In the order in which they begin; one inside of another comes after it.
  DT_VEC(dt_program_region_t) regions;
  uint32_t n_sections; // 0: one
  uint32_t n_once;     // the first n_once kernels run when the variant is made (set by fuse)
  bool device_sized;
  const char *segments_reason; // devices: why readbacks are read by the host all the same; or NULL
  // Memory plan (set by fuse): byte offset of each TEMP in the block, of each ONCE buffer in the
  // variant's memory (none for other kinds), and the two totals. Multiples of 64.
  DT_VEC(dt_sym_t) offsets; // by buffer, [id - 1]
  dt_sym_t block_bytes, once_bytes;
} dt_program_t;

static inline dt_buffer_t *dt__program_buffer(const dt_program_t *program, dt_buffer_id_t id) {
  return &program->buffers.items[id.id - 1];
}

// ---- Building and reading ---------------------------------------------------------------------------
dt_program_t *dt__program_create(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph);
// The strides that follow from sizes and layout. Whoever changes either sets them.
void dt__buffer_set_strides(dt_symenv_t *env, dt_buffer_t *buffer);
void dt__buffer_find_strides(dt_symenv_t *env, const dt_buffer_t *buffer, dt_sym_t *out);
// Such strides are filled in for every kind but INPUT.
dt_status_t dt__program_add_buffer(dt_program_t *program, const dt_buffer_t *buffer,
                                   dt_buffer_id_t *out) DT_MUST_USE;
// Appends an instruction, its index copied; equal instructions of one stage are shared, except
// BINDs. Fields that the kind does not read are ignored, as is the fill of a load without a mask.
dt_status_t dt__stage_add(dt_program_t *program, dt_stage_t *stage, const dt_inst_t *inst,
                          uint32_t *out) DT_MUST_USE;
// The program with all that it is made of, its graph included, in another arena: of what passes
// made on the way nothing is left. The environment is shared.
dt_status_t dt__program_copy(dt_arena_t *arena, const dt_program_t *program,
                             dt_program_t **out) DT_MUST_USE;
// Makes copies, in the program's arena, of all that the kernel points to. False: no memory.
bool dt__kernel_copy(const dt_program_t *program, dt_kernel_t *kernel);
// The kernel touches buffers ids[id - 1] instead of `id`.
void dt__kernel_renumber(dt_kernel_t *kernel, const uint32_t *ids);
// The instruction is a BIND that records a failure.
static inline bool dt__inst_checks(const dt_inst_t *inst) {
  return inst->kind == DT_INST_BIND && inst->check != DT_NO_CHECK;
}
// The buffer that `inst` reads (LOAD, SEARCH, WHOLE), or none.
static inline dt_buffer_id_t dt__inst_reads(const dt_inst_t *inst) {
  bool reads =
      inst->kind == DT_INST_LOAD || inst->kind == DT_INST_SEARCH || inst->kind == DT_INST_WHOLE;
  return reads ? inst->buffer : (dt_buffer_id_t){0};
}
// The store leaves out elements, or chooses them by data: only a whole buffer may be read after it.
bool dt__store_scatters(const dt_program_t *program, const dt_store_t *store);
// The kernel stores to an argument of the call whose contents a call that fails must not change.
bool dt__kernel_updates(const dt_program_t *program, const dt_kernel_t *kernel);
// The first kernel that does, and with it the commit point: what comes before may fail or be
// stopped, from it on nothing does. The number of kernels where there is none.
uint32_t dt__program_commit(const dt_program_t *program);
// Devices: what the kernel with a SOUND stores, the gate of the kernels that update; or none.
dt_buffer_id_t dt__program_commit_gate(const dt_program_t *program);
// A kernel makes a check.
bool dt__program_checks(const dt_program_t *program);
// The kernel revises what earlier ones stored.
bool dt__kernel_revises(const dt_kernel_t *kernel);
// The kernel only copies elements of an argument to a result, which no other stores to and none
// reads: where a call has the result without it, it is not run. Gives the INPUT and the OUTPUT.
// (results.c)
bool dt__kernel_copies_result(const dt_program_t *program, const dt_kernel_t *kernel,
                              dt_buffer_id_t *out_from, dt_buffer_id_t *out_to);
// The kernel copies a whole argument, element by element, to a result: where both are one memory it
// is not run.
bool dt__kernel_copies_whole(const dt_program_t *program, const dt_kernel_t *kernel,
                             dt_buffer_id_t *out_from, dt_buffer_id_t *out_to);
// A row of reductions.def.
typedef struct dt_reduction_info_t {
  const char *name;
  dt_scalar_op_t combine;
  bool numbers, logic; // what it takes
  bool place, ordered;
} dt_reduction_info_t;
// NULL: there is no such kind.
const dt_reduction_info_t *dt__reduction_info(dt_reduction_kind_t kind);
// The value over nothing, which changes no reduction of this kind (of a valid kind and dtype).
dt_scalar_t dt__reduction_identity(dt_reduction_kind_t kind, dt_dtype_t dtype);
// Each value takes the place of the one before: the stage's PRIORs say how they are joined.
static inline bool dt__reduction_is_last(dt_reduction_kind_t kind) {
  const dt_reduction_info_t *info = dt__reduction_info(kind);
  return info && info->combine == DT_SCALAR_NONE;
}
// The reduction gives the place of a value, not a value.
static inline bool dt__reduction_is_arg(dt_reduction_kind_t kind) {
  return dt__reduction_info(kind)->place;
}
// What the reduction gives depends on the order of its steps: a sum or a product of floats.
bool dt__reduction_has_order(const dt_stage_t *stage, const dt_reduction_t *reduction);
bool dt__kernel_has_order(const dt_kernel_t *kernel); // it has such a reduction
// The stage does, and its inner loops may store to one element again: they run in order.
bool dt__stage_revises_in_order(const dt_stage_t *stage);
// The stage's inner loops run in their order, whole: it has running reductions, reads what an
// iteration left to the next, or revises.
bool dt__stage_in_order(const dt_stage_t *stage);
bool dt__kernel_in_order(const dt_kernel_t *kernel); // it has such a stage
// The kernel has a store to buffer `id`.
bool dt__kernel_stores_to(const dt_kernel_t *kernel, uint32_t id);
// Whether the kernel is of a user's op that takes its result, buffer `fresh`, in the memory of
// operand `old`, which is no other operand.
bool dt__call_takes_place(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t old,
                          uint32_t fresh);
// Some kernel has.
bool dt__program_stores_to(const dt_program_t *program, uint32_t id);
// The kernel stores to LOCAL buffers.
bool dt__kernel_has_locals(const dt_program_t *program, const dt_kernel_t *kernel);
// The slices that kernel k is run in, or NULL.
const dt_program_slices_t *dt__kernel_slices(const dt_program_t *program, uint32_t k);
// Sets first and end of all slices after kernels were put in another order or added. DT_E_INTERNAL
// when kernels of one do not stand side by side.
dt_status_t dt__program_settle_slices(dt_program_t *program) DT_MUST_USE;
// Sets what regions and kernels know of each other after kernels were put in another order, added
// or dropped. DT_E_INTERNAL when kernels of one do not stand side by side.
dt_status_t dt__program_settle_regions(dt_program_t *program) DT_MUST_USE;
// What they know is what settling would set.
dt_status_t dt__program_is_settled(const dt_program_t *program, bool *out) DT_MUST_USE;
// The outermost region that begins at kernel k, has kernels and comes after region `after` - 1 in
// their order (0: any); its index, or UINT32_MAX.
uint32_t dt__region_at(const dt_program_t *program, uint32_t k, uint32_t after);
// The IF that an ELSE belongs to, and the ELSE that belongs to an IF; UINT32_MAX: none.
uint32_t dt__region_if(const dt_program_t *program, uint32_t other);
uint32_t dt__region_else(const dt_program_t *program, uint32_t one);
// The first of the cases that `one` is of: the others are the regions behind it that have no region
// around them which it has not. UINT32_MAX where they are not whole.
uint32_t dt__region_cases(const dt_program_t *program, uint32_t one);
// The next case behind `one`, or UINT32_MAX.
uint32_t dt__region_next_case(const dt_program_t *program, uint32_t one);
// The kernel writes the state of a loop at the end of a trip.
bool dt__kernel_carries(const dt_program_t *program, const dt_kernel_t *kernel);
// The chain of kernel k: from its first maker up to and with its head. A kernel of no chain is its
// own head: [k, k + 1).
typedef struct dt_kernel_chain_t {
  uint32_t first, end;
} dt_kernel_chain_t;
dt_kernel_chain_t dt__kernel_chain(const dt_program_t *program, uint32_t k);
// The chain is a bundle: none of its kernels is a product.
bool dt__chain_is_bundle(const dt_program_t *program, dt_kernel_chain_t chain);
// Devices: into how many parts the head's columns are dealt out where its tiles are for groups that
// multiply together, so that a processor runs one block: `made` tiles of rows, `cols` of columns.
dt_sym_t dt__chain_groups(dt_symenv_t *env, int64_t processors, dt_sym_t made, dt_sym_t cols);
// How many readbacks, from the first on, must be bound before the kernel can run: because of its
// own symbols, not of what it reads. The same for one expression.
uint32_t dt__kernel_readbacks(const dt_program_t *program, const dt_kernel_t *kernel);
uint32_t dt__expr_readbacks(const dt_program_t *program, dt_sym_t e);
// An expression free of readbacks that `e` is never above, whatever the readbacks are in their
// ranges and up to their `most`; none: there is none to be seen, or it has a product of several of
// them.
dt_sym_t dt__program_most(dt_program_t *program, dt_sym_t e);
// The same from below.
dt_sym_t dt__program_least(dt_program_t *program, dt_sym_t e);
// Element offset of index[…] in `buffer`, as one simplified expression. Different indices, halo
// included, have different offsets in [0, count) (proofs.layouts).
dt_sym_t dt__buffer_offset(dt_program_t *program, dt_buffer_id_t buffer, const dt_sym_t *index);
// The same of an access of `kernel`, which may be by offset.
dt_sym_t dt__access_place(dt_program_t *program, const dt_kernel_t *kernel, dt_buffer_id_t buffer,
                          const dt_sym_t *index);
// Number of elements that its memory has room for, halo and the rest of blocks included.
dt_sym_t dt__buffer_count(dt_program_t *program, dt_buffer_id_t buffer);
// The layout has an order at most; it is NULL's. `rank` is its buffer's.
bool dt__layout_is_order(const dt_buffer_layout_t *layout, uint32_t rank);
bool dt__layout_is_row_major(const dt_buffer_layout_t *layout, uint32_t rank);
// Equal indices of two buffers of equal sizes have equal offsets.
bool dt__layouts_same(const dt_buffer_t *a, const dt_buffer_t *b);
// One may stand in the other's place in equal kernels.
bool dt__buffers_alike(const dt_buffer_t *a, const dt_buffer_t *b);
// Iterations of the last but one outer loop can run side by side, with lanes on the last one
// (beside.c).
bool dt__kernel_runs_beside(dt_program_t *program, const dt_kernel_t *kernel);
// A layout with this order and nothing else, or NULL for the row-major one.
dt_status_t dt__layout_of_order(dt_arena_t *arena, const uint8_t *order, uint32_t rank,
                                const dt_buffer_layout_t **out) DT_MUST_USE;
// A fresh DATA symbol for a BIND of this extent: in [0, extent - 1], or 0.
dt_sym_t dt__program_new_data(dt_program_t *program, dt_sym_t extent);

// Makes the loops of a graph whose composites are decomposed: one kernel a non-view op, one buffer
// a kernel. The environment must be the graph's, or a clone of it.
dt_status_t dt__lower_graph(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                            dt_program_t **out) DT_MUST_USE;

// Every invariant above, after any pass. DT_E_INTERNAL naming kernel and stage.
dt_status_t dt__program_verify(const dt_program_t *program) DT_MUST_USE;
// Deterministic: symbols renumbered in order of first use, no addresses. dt__program_parse reads it
// back into an empty environment; the program then has no graph, so its constants have no data.
void dt__program_print(const dt_program_t *program, dt_text_t *out);
dt_status_t dt__program_parse(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                              dt_program_t **out) DT_MUST_USE;
// The program with all of its environment and with the graph's asserts and numbers, exactly: what
// is read back is made into the same code. *out_env is the caller's; the program's graph has
// nothing but asserts.
dt_status_t dt__program_write(const dt_program_t *program, dt_text_t *out) DT_MUST_USE;
dt_status_t dt__program_read(dt_arena_t *arena, dt_scan_t *scan, dt_symenv_t **out_env,
                             dt_program_t **out) DT_MUST_USE;
// One kernel with buffers and symbols renumbered in order of first use: equal texts are equal code,
// for code that uses no other knowledge of its symbols than their ranges. Names are left out.
// `buffers` and `symbols` receive the order (arena arrays): the kernel's parameters.
typedef struct dt_kernel_params_t {
  uint32_t n_buffers, n_symbols;
  dt_buffer_id_t *buffers; // LOCAL and SLAB excluded
  uint32_t *symbols; // free symbols (SIZE, INT, UNBACKED) that the body, extents and strides use
  // Programs of device sizes: readbacks whose symbols it uses (their buffers are among `buffers`
  // instead of the symbols among `symbols`), and its gate, which is among them, too.
  uint32_t n_readbacks;
  uint32_t *readbacks;
  dt_buffer_id_t gate;
} dt_kernel_params_t;
dt_status_t dt__kernel_print(dt_program_t *program, const dt_kernel_t *kernel,
                             dt_kernel_params_t *params, dt_text_t *out) DT_MUST_USE;
// The same for all kernels of a chain as one piece of code, with one list of parameters.
dt_status_t dt__chain_print(dt_program_t *program, dt_kernel_chain_t chain,
                            dt_kernel_params_t *params, dt_text_t *out) DT_MUST_USE;

// ---- Interpreter: the meaning, for tests --------------------------------------------------------------
// Runs one kernel serially on memory. base[id - 1] is the address of each buffer that it uses
// (LOCAL excluded); `symbols` are values by symbol, of which only SIZE, INT, UNBACKED and SLICE
// ones are read. DT_E_RANGE naming the check that failed; DT_E_INTERNAL naming kernel and buffer
// for an access outside its sizes, a LOCAL element read before it was written, an index without a
// value.
dt_status_t dt__kernel_interpret(const dt_program_t *program, const dt_kernel_t *kernel,
                                 const int64_t *symbols, void *const *base) DT_MUST_USE;
// Runs all kernels: allocates TEMP and ONCE buffers itself. Inputs and outputs by index; constants
// are the graph's. Readbacks are bound as soon as their buffers are written, whatever `symbols`
// says of them, and the graph's asserts made (DT_E_SHAPE): results must have room for the sizes
// that follow. Also checks that each element of a buffer is written at most once, before it is read
// and before it is revised, that every element of every output is written, and that nothing is used
// before it is bound.
dt_status_t dt__program_interpret(const dt_program_t *program, const int64_t *symbols,
                                  void *const *inputs, void *const *outputs) DT_MUST_USE;

#endif // DT_LOWER_LOOP_LOOP_H
