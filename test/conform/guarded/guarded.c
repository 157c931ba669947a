// SPDX-License-Identifier: Apache-2.0
// See guarded.h.
#include "test/conform/guarded/guarded.h"

#include "backend_llvm/load/native.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, UNITS = 16 };

// Memory between two pages that nobody may touch.
typedef struct piece_t {
  char *map;
  size_t mapped;
  char *room; // what may be touched; `inside` lies in it
  size_t room_bytes;
  char *inside;
  size_t bytes;
  char *home; // where the program has it; NULL: nowhere
  bool written;
  char text[80]; // whose it is
} piece_t;

struct guarded_t {
  dt_frame_t frame; // first: launches have its address
  dt_program_t *program;
  dt_kernel_params_t *params; // by kernel
  dt_unit_map_t map;
  uint32_t n_units;
  dt_native_t *natives[UNITS];
  dt_kernel_fn_t *kernels; // by code
  void **constants;
  char *once, *block;
  void **once_table; // by ONCE buffer
  dt_host_run_fn_t commit;
  uint32_t last;   // the kernel launched last
  uint32_t number; // of the call
  int64_t scratch_bytes;
  uint64_t launches;
  dt_status_t failure;
  char *note;
  piece_t *pieces;
  uint32_t n_pieces, most_pieces;
};

// ---- Pieces -----------------------------------------------------------------------------------------
// What memory holds that nobody wrote: NaN of every float, and a large or a negative integer.
static int poison(const guarded_t *g) { return g->number & 2 ? 0x7F : 0xFF; }

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// `inside` - `base` bytes before it is a multiple of `alignment`.
static dt_status_t piece_open(const guarded_t *g, piece_t *p, size_t bytes, size_t alignment) {
  p->bytes = bytes;
  p->room_bytes = pages(bytes);
  p->mapped = p->room_bytes + 2 * PAGE;
  p->map = mmap(NULL, p->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p->map == MAP_FAILED) {
    p->map = NULL;
    return DT_NO_MEMORY();
  }
  p->room = p->map + PAGE;
  size_t behind = g->number & 1 ? 0 : (p->room_bytes - bytes) / alignment * alignment;
  p->inside = p->room + behind;
  if (p->room_bytes && mprotect(p->room, p->room_bytes, PROT_READ | PROT_WRITE) != 0)
    return DT_NO_MEMORY();
  if (p->room_bytes)
    memset(p->room, poison(g), p->room_bytes);
  return NULL;
}

static void piece_close(piece_t *p) {
  if (p->map)
    (void)munmap(p->map, p->mapped);
  *p = (piece_t){0};
}

// The bytes around a piece are as they were.
static bool is_whole(const guarded_t *g, const piece_t *p, const char **out_where) {
  char expected = (char)poison(g);
  for (char *at = p->room; at < p->room + p->room_bytes; at++) {
    if (at == p->inside)
      at += p->bytes;
    if (at == p->room + p->room_bytes)
      break;
    *out_where = at < p->inside ? "before" : "behind";
    if (*at != expected)
      return false;
  }
  return true;
}

// ---- Touching what is between -------------------------------------------------------------------------
static guarded_t *running;

static void append(char **at, const char *end, const char *text) {
  while (*text && *at < end)
    *(*at)++ = *text++;
  **at = '\0';
}

// Says whose memory it was; the instruction is then run again and ends the process.
static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  const char *address = info->si_addr;
  for (uint32_t i = 0; running && i < running->n_pieces; i++) {
    const piece_t *p = &running->pieces[i];
    if (address < p->map || address >= p->map + p->mapped)
      continue;
    char *at = running->note;
    append(&at, running->note + GUARDED_NOTE - 1, p->text);
    append(&at, running->note + GUARDED_NOTE - 1,
           address < p->inside               ? ": touched before it"
           : address >= p->inside + p->bytes ? ": touched behind it"
                                             : ": written, is only read");
  }
  struct sigaction usual = {.sa_handler = SIG_DFL};
  (void)sigaction(number, &usual, NULL);
}

static void watch(guarded_t *g) {
  running = g;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  (void)sigaction(SIGSEGV, &action, NULL);
}

// ---- Buffers ----------------------------------------------------------------------------------------
static void fail(guarded_t *g, dt_status_t status) {
  g->failure = dt__status_join(g->failure, status);
}

static int64_t value_of(guarded_t *g, dt_sym_t e) {
  int64_t value = 0;
  if (!dt__sym_eval(g->program->env, e, g->frame.symbols, &value))
    fail(g, DT_FAIL(DT_E_INTERNAL, "a size or an offset has no value"));
  return value;
}

// Where the plan has element 0 of a buffer.
static char *home_of(guarded_t *g, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(g->program, id);
  switch (buffer->kind) {
  case DT_BUFFER_INPUT:
    return g->frame.inputs[buffer->index];
  case DT_BUFFER_CONSTANT:
    return g->frame.constants[buffer->index];
  case DT_BUFFER_OUTPUT:
    return g->frame.outputs[buffer->index];
  case DT_BUFFER_ONCE:
    return g->once + value_of(g, g->program->offsets.items[id.id - 1]);
  default:
    return g->block + value_of(g, g->program->offsets.items[id.id - 1]);
  }
}

// The bytes that indices inside of its sizes reach, from element 0 on.
static void reach_of(guarded_t *g, const dt_buffer_t *buffer, int64_t *out_begin,
                     int64_t *out_end) {
  int64_t element = (int64_t)dt_dtype_size(buffer->dtype), begin = 0, end = element;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    int64_t size = value_of(g, buffer->sizes[d]), stride = value_of(g, buffer->strides[d]);
    if (size <= 0) {
      *out_begin = *out_end = 0;
      return;
    }
    int64_t far = (size - 1) * stride * element;
    begin += far < 0 ? far : 0;
    end += far > 0 ? far : 0;
  }
  *out_begin = begin;
  *out_end = end;
}

// No earlier kernel writes it, and this one all of what is read of it.
static bool writes_first(const guarded_t *g, uint32_t k, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(g->program, id);
  bool own = buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_ONCE ||
             buffer->kind == DT_BUFFER_OUTPUT;
  if (!own || dt__kernel_slices(g->program, k))
    return false;
  for (uint32_t before = 0; before < k; before++)
    if (dt__kernel_stores_to(&g->program->kernels.items[before], id.id))
      return false;
  return dt__kernel_stores_to(&g->program->kernels.items[k], id.id);
}

// What code may take for granted of element 0's address.
static size_t alignment_of(const guarded_t *g, const dt_buffer_t *buffer) {
  if (buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_ONCE ||
      buffer->kind == DT_BUFFER_STATE)
    return 64;
  size_t declared =
      buffer->kind == DT_BUFFER_INPUT ? g->program->graph->inputs.items[buffer->index].align : 0;
  return declared ? declared : dt_dtype_size(buffer->dtype);
}

static dt_status_t copy_buffer(guarded_t *g, uint32_t k, dt_buffer_id_t id, piece_t *p,
                               uint64_t *word) {
  const dt_kernel_t *kernel = &g->program->kernels.items[k];
  const dt_buffer_t *buffer = dt__program_buffer(g->program, id);
  int64_t begin, end;
  reach_of(g, buffer, &begin, &end);
  (void)snprintf(p->text, sizeof(p->text), "kernel %u (%.40s), buffer %u", k, kernel->name, id.id);
  DT_TRY(piece_open(g, p, (size_t)(end - begin), alignment_of(g, buffer)));
  p->home = home_of(g, id) + begin;
  p->written = dt__kernel_stores_to(kernel, id.id);
  if (p->bytes && !writes_first(g, k, id))
    memcpy(p->inside, p->home, p->bytes);
  if (p->room_bytes && !p->written && mprotect(p->room, p->room_bytes, PROT_READ) != 0)
    return DT_NO_MEMORY();
  *word = (uint64_t)(uintptr_t)(p->inside - begin);
  return NULL;
}

// ---- Launches ---------------------------------------------------------------------------------------
static bool has_code(const guarded_t *g, uint32_t k, dt_kernel_fn_t fn) {
  const dt_unit_map_t *map = &g->map;
  for (uint32_t s = 0; s < g->program->kernels.items[k].schedules.len; s++)
    if (g->kernels[map->code_of_kernel[map->first_code[k] + s]] == fn)
      return true;
  return false;
}

static bool has_words(guarded_t *g, uint32_t k, const uint64_t *words) {
  const dt_kernel_params_t *params = &g->params[k];
  for (uint32_t i = 0; i < params->n_buffers; i++)
    if (words[i] != (uint64_t)(uintptr_t)home_of(g, params->buffers[i]))
      return false;
  return true;
}

// Kernels that share code are told apart by their addresses, and by their order.
static bool find_kernel(guarded_t *g, dt_kernel_fn_t fn, const uint64_t *words, uint32_t *out) {
  uint32_t n = g->program->kernels.len;
  for (uint32_t i = 0; i < n; i++) {
    *out = (g->last + 1 + i) % n;
    if (has_code(g, *out, fn) && has_words(g, *out, words))
      return true;
  }
  return false;
}

static bool reserve_pieces(guarded_t *g, uint32_t n) {
  if (n <= g->most_pieces)
    return true;
  piece_t *grown = realloc(g->pieces, n * sizeof(*grown));
  if (!grown)
    return false;
  g->pieces = grown;
  g->most_pieces = n;
  return true;
}

// Pieces of buffers, then one of words, then one of scratch.
static dt_status_t open_pieces(guarded_t *g, uint32_t k, const uint64_t *words) {
  const dt_kernel_params_t *params = &g->params[k];
  uint32_t n = params->n_buffers;
  if (!reserve_pieces(g, n + 2))
    return DT_NO_MEMORY();
  memset(g->pieces, 0, (n + 2) * sizeof(*g->pieces));
  g->n_pieces = n + 2;
  piece_t *p = &g->pieces[n], *scratch = &g->pieces[n + 1];
  (void)snprintf(p->text, sizeof(p->text), "kernel %u, words", k);
  (void)snprintf(scratch->text, sizeof(scratch->text), "kernel %u, scratch", k);
  DT_TRY(piece_open(g, p, (n + params->n_symbols) * sizeof(*words), sizeof(*words)));
  memcpy(p->inside, words, p->bytes);
  uint64_t *copied = (uint64_t *)(void *)p->inside;
  for (uint32_t i = 0; i < n; i++)
    DT_TRY(copy_buffer(g, k, params->buffers[i], &g->pieces[i], &copied[i]));
  return piece_open(g, scratch, (size_t)g->scratch_bytes, 64);
}

static void run_pieces(guarded_t *g, uint32_t k, dt_kernel_fn_t fn, int64_t count) {
  uint32_t n = g->params[k].n_buffers;
  const uint64_t *words = (const uint64_t *)(const void *)g->pieces[n].inside;
  piece_t *scratch = &g->pieces[n + 1];
  int64_t parts = count < 3 ? count : 3;
  for (int64_t i = parts; i-- > 0;) {
    if (scratch->bytes)
      memset(scratch->inside, poison(g), scratch->bytes);
    fn(words, count * i / parts, count * (i + 1) / parts, scratch->inside, &g->frame.record);
  }
}

static void close_pieces(guarded_t *g) {
  for (uint32_t i = 0; i < g->n_pieces; i++) {
    piece_t *p = &g->pieces[i];
    const char *where = "";
    if (p->map && p->room && !is_whole(g, p, &where))
      fail(g, DT_FAIL(DT_E_INTERNAL, "%s: written %s it", p->text, where));
    if (p->written && p->bytes)
      memcpy(p->home, p->inside, p->bytes);
    piece_close(p);
  }
  g->n_pieces = 0;
}

static void launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                   int64_t grain) {
  guarded_t *g = (guarded_t *)(void *)frame;
  uint32_t k = 0;
  if (g->failure)
    return;
  if (count < 1 || grain < 1 || !find_kernel(g, fn, words, &k)) {
    fail(g, DT_FAIL(DT_E_INTERNAL, "a launch of %lld items by %lld that is no kernel's",
                    (long long)count, (long long)grain));
    return;
  }
  g->last = k;
  g->launches++;
  dt_status_t status = open_pieces(g, k, words);
  if (status)
    fail(g, status);
  else
    run_pieces(g, k, fn, count);
  close_pieces(g);
}

// ---- Code -------------------------------------------------------------------------------------------
static dt_status_t find(const guarded_t *g, const char *name, uint32_t number, void *out) {
  char whole[32];
  (void)snprintf(whole, sizeof(whole), name, number);
  void *at = dt__native_symbol(g->natives[g->n_units - 1], whole);
  if (!at)
    return DT_FAIL(DT_E_INTERNAL, "there is no %s", whole);
  memcpy(out, &at, sizeof(at));
  return NULL;
}

static dt_status_t load_units(guarded_t *g, const dt_target_t *target,
                              const dt_compile_options_t *options) {
  for (uint32_t u = 0; u < g->map.n_units; u++) {
    void *object;
    size_t bytes;
    DT_TRY(dt__llvm_compile_unit(g->program, &g->map, u, target, options, &object, &bytes));
    dt_status_t status = dt__native_load(object, bytes, &g->natives[u]);
    dt__free(object);
    DT_TRY(status);
    g->n_units = u + 1;
  }
  for (uint32_t c = 0; c < g->map.n_codes; c++) {
    char name[32];
    (void)snprintf(name, sizeof(name), "dt_k%u", c);
    void *at = dt__native_symbol(g->natives[g->map.unit_of_code[c]], name);
    if (!at)
      return DT_FAIL(DT_E_INTERNAL, "there is no %s", name);
    memcpy(&g->kernels[c], &at, sizeof(at));
  }
  return NULL;
}

static dt_status_t find_params(guarded_t *g) {
  for (uint32_t k = 0; k < g->program->kernels.len; k++) {
    dt_text_t text;
    dt__text_init(&text);
    dt_status_t status =
        dt__chain_print(g->program, dt__kernel_chain(g->program, k), &g->params[k], &text);
    dt__text_fini(&text);
    DT_TRY(status);
  }
  return NULL;
}

static void set_constants(guarded_t *g) {
  const dt_graph_t *graph = g->program->graph;
  for (uint32_t i = 0; i < graph->constants.len; i++) {
    const void *data = graph->constants.items[i].data;
    memcpy(&g->constants[i], &data, sizeof(data));
  }
  g->frame.constants = g->constants;
}

static dt_status_t run_once(guarded_t *g) {
  int64_t bytes = 0;
  dt_host_run_fn_t once;
  int64_t (*scratch)(void);
  if (!dt__sym_is_const(g->program->env, g->program->once_bytes, &bytes))
    return DT_FAIL(DT_E_INTERNAL, "the bytes of what is computed once depend on a size");
  g->once = dt__alloc_aligned((size_t)bytes + 64, 64);
  if (!g->once)
    return DT_NO_MEMORY();
  memset(g->once, poison(g), (size_t)bytes + 64);
  DT_TRY(find(g, "dt_once", 0, &once));
  DT_TRY(find(g, "dt_once_scratch", 0, &scratch));
  g->frame.once = g->once_table = calloc(g->program->buffers.len + 1, sizeof(*g->once_table));
  if (!g->once_table)
    return DT_NO_MEMORY();
  for (uint32_t b = 0, n = 0; b < g->program->buffers.len; b++)
    if (g->program->buffers.items[b].kind == DT_BUFFER_ONCE)
      g->once_table[n++] = home_of(g, (dt_buffer_id_t){b + 1});
  g->scratch_bytes = scratch();
  once(&g->frame);
  dt_status_t status = g->failure;
  g->failure = NULL;
  return status;
}

static dt_status_t fill(guarded_t *g, const dt_target_t *target,
                        const dt_compile_options_t *options) {
  dt_program_t *program = g->program;
  DT_TRY(dt__llvm_split(program, target, UNITS, DT_UNIT_WORK_ANY, &g->map));
  if (g->map.n_units > UNITS)
    return DT_FAIL(DT_E_INTERNAL, "%u units", g->map.n_units);
  g->kernels = calloc(g->map.n_codes + 1, sizeof(dt_kernel_fn_t));
  g->params = calloc(program->kernels.len + 1, sizeof(*g->params));
  g->constants = calloc(program->graph->constants.len + 1, sizeof(*g->constants));
  if (!g->kernels || !g->params || !g->constants)
    return DT_NO_MEMORY();
  DT_TRY(load_units(g, target, options));
  DT_TRY(find_params(g));
  g->frame.version = DT_FRAME_VERSION;
  g->frame.kernels = g->kernels;
  g->frame.launch = launch;
  void *commit = dt__native_symbol(g->natives[g->n_units - 1], "dt_commit");
  memcpy(&g->commit, &commit, sizeof(commit));
  set_constants(g);
  return NULL;
}

dt_status_t guarded_create(dt_program_t *program, const dt_target_t *target,
                           const dt_compile_options_t *options, guarded_t **out) {
  *out = NULL;
  guarded_t *g = calloc(1, sizeof(*g));
  if (!g)
    return DT_NO_MEMORY();
  g->program = program;
  dt_status_t status = fill(g, target, options);
  if (status) {
    guarded_destroy(g);
    return status;
  }
  *out = g;
  return NULL;
}

void guarded_destroy(guarded_t *g) {
  if (!g)
    return;
  for (uint32_t u = 0; u < g->n_units; u++)
    dt__native_unload(g->natives[u]);
  dt__free(g->once);
  free(g->once_table);
  free(g->kernels);
  free(g->params);
  free(g->constants);
  free(g->pieces);
  free(g);
}

uint64_t guarded_launches(const guarded_t *g) { return g->launches; }

// ---- Calls ------------------------------------------------------------------------------------------
// A block for `bytes`, with what was in the old one.
static dt_status_t move_block(guarded_t *g, int64_t kept) {
  size_t bytes = (size_t)g->frame.block_bytes;
  char *next = dt__alloc_aligned(bytes + 64, 64);
  if (!next)
    return DT_NO_MEMORY();
  memset(next, poison(g), bytes + 64);
  if (g->block)
    memcpy(next, g->block, (size_t)kept);
  dt__free(g->block);
  g->block = next;
  g->frame.block = next;
  return NULL;
}

static dt_status_t run_segment(guarded_t *g, uint32_t segment) {
  dt_host_plan_fn_t plan;
  dt_host_run_fn_t run;
  DT_TRY(find(g, "dt_plan_%u", segment, &plan));
  DT_TRY(find(g, "dt_run_%u", segment, &run));
  int64_t kept = g->frame.block_bytes, answer = plan(&g->frame);
  if (answer)
    return DT_FAIL(DT_E_SHAPE, "the plan of segment %u ended with %lld", segment,
                   (long long)answer);
  DT_TRY(move_block(g, kept));
  g->scratch_bytes = g->frame.scratch_bytes;
  run(&g->frame);
  if (g->frame.record.check)
    fail(g, DT_FAIL(DT_E_RANGE, "check %lld failed", (long long)g->frame.record.check - 1));
  dt_status_t status = g->failure;
  g->failure = NULL;
  return status;
}

static dt_status_t run_call(guarded_t *g) {
  uint32_t n = dt__llvm_segment_count(g->program);
  if (!g->once)
    DT_TRY(run_once(g));
  for (uint32_t segment = 0; segment < n; segment++)
    DT_TRY(run_segment(g, segment));
  if (g->commit)
    g->commit(&g->frame);
  dt_status_t status = g->failure;
  g->failure = NULL;
  return status;
}

dt_status_t guarded_call(guarded_t *g, int64_t *symbols, void *const *inputs, void *const *outputs,
                         uint32_t number, char *note) {
  int64_t *sizes = calloc((size_t)g->program->outputs.len * DT_MAX_RANK + 1, sizeof(*sizes));
  if (!sizes)
    return DT_NO_MEMORY();
  g->number = number;
  g->note = note;
  g->last = g->program->kernels.len ? g->program->kernels.len - 1 : 0;
  g->frame.symbols = symbols;
  g->frame.inputs = inputs;
  g->frame.outputs = outputs;
  g->frame.output_sizes = sizes;
  g->frame.block_bytes = 0;
  memset(&g->frame.record, 0, sizeof(g->frame.record));
  watch(g);
  dt_status_t status = run_call(g);
  running = NULL;
  dt__free(g->block);
  g->block = NULL;
  free(sizes);
  return status;
}
