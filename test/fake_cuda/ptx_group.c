// SPDX-License-Identifier: Apache-2.0
// Products by groups of four warps (wgmma): decoding, and what they do. Factors lie in shared
// memory as descriptors say, in rows of 128 bytes whose 16-byte units change places with their row.
// A product is made when its warp waits for it, and not before: a program that touches sums or
// factors too early, registers of A among them, gets another result. Each warp makes its own 16
// rows.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 64u // of a group
#define DEPTH 16u
#define WARP_ROWS 16u
#define HELD 4u // registers of A

// ---- Decoding -----------------------------------------------------------------------------------------

static bool fail_form(ptx_reader_t *r) {
  return ptx_fail(r, r->statement.line, "wgmma in a form that is not simulated");
}

// n of m64nNk16, a multiple of 8 up to 256; 0: no such part.
static uint32_t take_columns(ptx_reader_t *r) {
  ptx_statement_t *s = &r->statement;
  for (uint32_t k = 1; k < s->n_parts; k++) {
    char text[16] = "", *end = NULL;
    if (s->parts[k].n >= sizeof(text) || s->parts[k].n < 7)
      continue;
    memcpy(text, s->parts[k].at, s->parts[k].n);
    unsigned long n = memcmp(text, "m64n", 4) == 0 ? strtoul(text + 4, &end, 10) : 0;
    if (n < 8 || n > 256 || n % 8 || strcmp(end, "k16") != 0)
      continue;
    s->taken[k] = true;
    return (uint32_t)n;
  }
  return 0;
}

static bool take_flag(ptx_reader_t *r, uint32_t k, uint64_t most, uint64_t *out) {
  const ptx_operand_t *operand = ptx_operand(r, k);
  *out = operand->bits;
  return operand->kind == PTX_OP_NUMBER && operand->number == PTX_INTEGER && operand->bits <= most;
}

// Both signs, then whether A is turned, which held is never, and B.
static bool take_flags(ptx_reader_t *r, bool held, ptx_insn_t *in) {
  uint64_t signs[2], turned[2] = {0, 0};
  for (uint32_t k = 0; k < 2; k++)
    if (!take_flag(r, 4 + k, 1, &signs[k]) || !signs[k])
      return false;
  if ((!held && !take_flag(r, 6, 1, &turned[0])) || !take_flag(r, held ? 6 : 7, 1, &turned[1]))
    return false;
  in->mode = (uint8_t)(turned[0] | turned[1] << 1 | (unsigned)held << 2);
  return true;
}

// wgmma.mma_async.sync.aligned.m64nNk16.f32.f16.f16 {sums}, a, b, add, 1, 1, a turned, b turned;
//                                                   {sums}, {a, a, a, a}, b, add, 1, 1, b turned;
static bool decode_product(ptx_reader_t *r) {
  ptx_insn_t in = {.flow = PTX_MEET, .members = ptx_members_whole};
  uint32_t columns = take_columns(r);
  if (!columns || ptx_take_type(r) != PTX_F32)
    return fail_form(r);
  in.type = (uint8_t)ptx_take_type(r);
  if ((in.type != PTX_F16 && in.type != PTX_BF16) || ptx_take_type(r) != (ptx_type_t)in.type ||
      !ptx_count(r, 7, 8))
    return fail_form(r);
  bool held = r->statement.n == 7;
  if (!take_flags(r, held, &in))
    return fail_form(r);
  in.second_offset = columns;
  if (ptx_sources(r, ptx_operand(r, 1), held ? PTX_B32 : PTX_B64, &in.in[2], HELD) !=
      (held ? HELD : 1u))
    return fail_form(r);
  in.in[0] = ptx_source(r, ptx_operand(r, 2), PTX_B64);
  in.in[1] = ptx_source(r, ptx_operand(r, 3), PTX_PRED);
  in.extra = r->module->n_sums;
  ptx_sums_t *sums = PTX_GROW(r->module->sums, r->module->n_sums);
  if (!sums || ptx_dests(r, ptx_operand(r, 0), sums->slots, PTX_GROUP_SUMS) != columns / 2)
    return fail_form(r);
  ptx_insn_t *to = ptx_emit(r, ptx_exec_group_multiply);
  in.exec = to->exec, in.line = to->line, in.target = to->target;
  in.guard = to->guard, in.guard_not = to->guard_not;
  *to = in;
  return ptx_done(r);
}

bool ptx_decode_group(ptx_reader_t *r) {
  static const struct {
    const char *name;
    ptx_exec_t exec;
    uint32_t n;
  } rows[] = {{"fence", ptx_exec_group_fence, 0},
              {"commit_group", ptx_exec_group_commit, 0},
              {"wait_group", ptx_exec_group_wait, 1}};
  if (ptx_take(r, "mma_async"))
    return ptx_take(r, "sync") && ptx_take(r, "aligned") ? decode_product(r) : fail_form(r);
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    uint64_t n = 0;
    if (!ptx_take(r, rows[k].name))
      continue;
    if (!ptx_take(r, "sync") || !ptx_take(r, "aligned") || r->statement.n != rows[k].n ||
        (rows[k].n && !take_flag(r, 0, 7, &n)))
      return fail_form(r);
    ptx_insn_t *in = ptx_emit(r, rows[k].exec);
    in->flow = PTX_MEET;
    in->members = ptx_members_whole;
    in->offset = (int64_t)n;
    return ptx_done(r);
  }
  return fail_form(r);
}

// ---- Factors ------------------------------------------------------------------------------------------

typedef struct factor_t {
  uint64_t begin, leading, stride; // bytes
  bool turned;
} factor_t;

static bool take_factor(ptx_warp_t *warp, const ptx_insn_t *in, uint64_t descriptor, bool turned,
                        factor_t *out) {
  *out = (factor_t){(descriptor & 0x3fff) << 4, (descriptor >> 16 & 0x3fff) << 4,
                    (descriptor >> 32 & 0x3fff) << 4, turned};
  if (descriptor >> 62 == 1 && !(descriptor >> 46 & 0xffff))
    return true;
  ptx_violation(warp, in, 0, "descriptor %llx is not of rows of 128 bytes that begin at 1024",
                (unsigned long long)descriptor);
  return false;
}

// Who wrote the unit must have fenced since: by other ways its bytes are not seen here.
static bool is_fenced(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, uint64_t address) {
  ptx_run_t *run = warp->run;
  ptx_page_t *page = ptx_page(&run->shared, PTX_BESIDE(warp->rank) + address, true);
  for (uint32_t k = 0; k < 16; k += page->unit) {
    const ptx_cell_t *cell = &page->cells[(address % PTX_PAGE + k) / page->unit];
    if (!cell->writer)
      continue;
    uint32_t writer = cell->writer - run->first_number;
    const ptx_warp_t *by = &run->warps[writer / PTX_LANES];
    if (cell->write_time >> 1 > by->fenced[writer % PTX_LANES]) {
      ptx_violation(warp, in, lane,
                    "reads shared memory that was written after its writer's last "
                    "fence.proxy.async");
      return false;
    }
  }
  return true;
}

// The 16 bytes with element (along, deep); NULL: a violation.
static const unsigned char *unit_of(ptx_warp_t *warp, const ptx_insn_t *in, const factor_t *f,
                                    uint32_t along, uint32_t deep) {
  uint32_t inner = f->turned ? along : deep, outer = f->turned ? deep : along;
  uint64_t at = f->begin + outer / 8 * f->stride + outer % 8 * 128 + inner % 64 * 2 / 16 * 16;
  if (f->turned)
    at += inner / 64 * f->leading;
  at ^= (at >> 7 & 7) << 4;
  uint32_t lane = along % PTX_LANES;
  const unsigned char *unit = ptx_at(warp, in, lane, PTX_SHARED, at, 16, PTX_READ);
  return unit && (!warp->run->racecheck || is_fenced(warp, in, lane, at)) ? unit : NULL;
}

// Elements [first, first + n) x DEPTH, n a multiple of 8; out[along * DEPTH + deep].
static bool read_factor(ptx_warp_t *warp, const ptx_insn_t *in, const factor_t *f, uint32_t first,
                        uint32_t n, double *out) {
  uint32_t by_along = f->turned ? 8 : 1, by_deep = f->turned ? 1 : 8;
  for (uint32_t along = 0; along < n; along += by_along)
    for (uint32_t deep = 0; deep < DEPTH; deep += by_deep) {
      const unsigned char *unit = unit_of(warp, in, f, first + along, deep);
      if (!unit)
        return false;
      for (uint32_t k = 0; k < 8; k++) {
        uint16_t bits;
        memcpy(&bits, unit + 2 * k, 2);
        uint32_t at = f->turned ? (along + k) * DEPTH + deep : along * DEPTH + deep + k;
        out[at] = ptx_decode_float(bits, in->type);
      }
    }
  return true;
}

// ---- Products -----------------------------------------------------------------------------------------

// Registers of A as they are now: pairs of rows l / 4 and l / 4 + 8, then the same 8 further.
static void take_held(ptx_warp_t *warp, const ptx_insn_t *in, double *out) {
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t k = 0; k < 2 * HELD; k++) {
      uint32_t row = lane / 4 + k / 2 % 2 * 8, deep = k / 4 * 8 + lane % 4 * 2 + k % 2;
      uint64_t pair = ptx_in(warp, in->in[2 + k / 2])[lane];
      out[row * DEPTH + deep] = ptx_decode_float(pair >> 16 * (k % 2) & 0xffff, in->type);
    }
}

static bool take_rows(ptx_warp_t *warp, const ptx_product_t *product, double *out) {
  const ptx_insn_t *in = product->in;
  factor_t a;
  if (in->mode & 4) {
    take_held(warp, in, out);
    return true;
  }
  return take_factor(warp, in, product->a, in->mode & 1, &a) &&
         read_factor(warp, in, &a, warp->index % 4 * WARP_ROWS, WARP_ROWS, out);
}

static bool make_product(ptx_warp_t *warp, const ptx_product_t *product) {
  const ptx_insn_t *in = product->in;
  const int32_t *slots = warp->run->module->sums[in->extra].slots;
  uint32_t columns = (uint32_t)in->second_offset;
  double a[WARP_ROWS * DEPTH], b[256 * DEPTH];
  factor_t fb;
  if (!take_rows(warp, product, a) || !take_factor(warp, in, product->b, in->mode & 2, &fb) ||
      !read_factor(warp, in, &fb, 0, columns, b))
    return false;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t k = 0; k < columns / 2; k++) {
      uint32_t row = lane / 4 + k / 2 % 2 * 8, column = k / 4 * 8 + lane % 4 * 2 + k % 2;
      uint64_t *sum = &ptx_out(warp, slots[k])[lane];
      double all = product->adds ? ptx_decode_float(*sum, PTX_F32) : 0;
      for (uint32_t deep = 0; deep < DEPTH; deep++)
        all += a[row * DEPTH + deep] * b[column * DEPTH + deep];
      *sum = ptx_encode(all, PTX_F32, PTX_RN);
    }
  return true;
}

void ptx_exec_group_multiply(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)mask;
  ptx_products_t *p = &warp->products;
  if (!p->fenced) {
    ptx_violation(warp, in, 0, "no wgmma.fence since the sums may have been touched");
    return;
  }
  p->list = realloc(p->list, (p->n + 1) * sizeof(p->list[0]));
  if (!p->list)
    abort();
  p->list[p->n++] = (ptx_product_t){.in = in,
                                    .a = ptx_in(warp, in->in[2])[0],
                                    .b = ptx_in(warp, in->in[0])[0],
                                    .adds = ptx_in(warp, in->in[1])[0] & 1,
                                    .group = p->group};
}

void ptx_exec_group_fence(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)in, (void)mask;
  warp->products.fenced = true;
}

void ptx_exec_group_commit(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)in, (void)mask;
  warp->products.group++;
}

// All groups but the newest `offset` are made, in their order.
void ptx_exec_group_wait(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)mask;
  ptx_products_t *p = &warp->products;
  uint32_t done = 0;
  while (done < p->n && p->list[done].group + (uint64_t)in->offset < p->group)
    if (!make_product(warp, &p->list[done++]))
      return;
  p->n -= done;
  memmove(p->list, p->list + done, p->n * sizeof(p->list[0]));
  p->fenced = false;
}

// fence.proxy.async
void ptx_exec_fence_proxy(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)in;
  PTX_EACH(lane, mask) warp->fenced[lane] = warp->time;
}
