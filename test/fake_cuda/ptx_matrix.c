// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions: matrices spread over a warp's registers as the PTX manual lays them
// out, gathered, multiplied, and spread again. Products are exact; sums are in double and rounded
// once, which is within what the hardware may do.
#include "test/fake_cuda/ptx_run.h"

#include <math.h>
#include <string.h>

// ---- Matrices of 8 rows of 16 bytes -------------------------------------------------------------------

static unsigned char *row_at(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t row, uint32_t touch) {
  uint64_t address = ptx_in(warp, in->in[0])[row] + (uint64_t)in->offset;
  return ptx_at(warp, in, row, in->space, address, 16, touch);
}

// The element (row, column) of which lane holds the upper or lower half.
static void place_of(const ptx_insn_t *in, uint32_t lane, uint32_t half, uint32_t *out_row,
                     uint32_t *out_column) {
  uint32_t across = lane / 4, along = lane % 4 * 2 + half;
  *out_row = in->mode ? along : across;
  *out_column = in->mode ? across : along;
}

void ptx_exec_load_matrix(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)mask;
  const unsigned char *rows[PTX_LANES];
  for (uint32_t k = 0; k < 8u * in->width; k++) {
    rows[k] = row_at(warp, in, k, PTX_READ);
    if (!rows[k])
      return;
  }
  for (uint32_t m = 0; m < in->width; m++) {
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint64_t pair = 0;
      for (uint32_t half = 0; half < 2; half++) {
        uint32_t row, column;
        uint16_t element;
        place_of(in, lane, half, &row, &column);
        memcpy(&element, rows[8 * m + row] + 2 * column, 2);
        pair |= (uint64_t)element << 16 * half;
      }
      ptx_out(warp, in->out[m])[lane] = pair;
    }
  }
}

void ptx_exec_store_matrix(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)mask;
  unsigned char *rows[PTX_LANES];
  for (uint32_t k = 0; k < 8u * in->width; k++) {
    rows[k] = row_at(warp, in, k, PTX_WRITE);
    if (!rows[k])
      return;
  }
  for (uint32_t m = 0; m < in->width; m++) {
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint64_t pair = ptx_in(warp, in->in[m + 1])[lane];
      for (uint32_t half = 0; half < 2; half++) {
        uint32_t row, column;
        uint16_t element = (uint16_t)(pair >> 16 * half);
        place_of(in, lane, half, &row, &column);
        memcpy(rows[8 * m + row] + 2 * column, &element, 2);
      }
    }
  }
}

// ---- Products -----------------------------------------------------------------------------------------

typedef struct product_t {
  double a[16][16], b[16][8], c[16][8];
} product_t;

static double half_of(uint64_t pair, uint32_t half, ptx_type_t type) {
  return ptx_decode_float(pair >> 16 * half & 0xffff, type);
}

// A factor element of 4 or 8 bytes; of tf32 the lowest bits do not count.
static double whole_of(uint64_t bits, ptx_type_t type) {
  return ptx_decode_float(type == PTX_TF32 ? bits & 0xffffe000 : bits, type);
}

// Register k of a holds rows g or g + 8 (its lowest bit), and the first or second half of the
// columns (the next bit); in pairs for halves.
static void gather_factors(const ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                           product_t *p) {
  bool pairs = in->from == PTX_F16 || in->from == PTX_BF16;
  uint32_t rows = in->from == PTX_F64 ? 1 : 2, per = pairs ? 2 : 1;
  uint32_t g = lane / 4, t = lane % 4, n_b = in->width / (4 * per);
  for (uint32_t k = 0; k < rows * n_b; k++) {
    uint64_t bits = ptx_in(warp, in->in[k])[lane];
    uint32_t row = g + 8 * (k % rows), column = t * per + k / rows * 4 * per;
    for (uint32_t half = 0; half < per; half++)
      p->a[row][column + half] = pairs ? half_of(bits, half, in->from) : whole_of(bits, in->from);
  }
  for (uint32_t k = 0; k < n_b; k++) {
    uint64_t bits = ptx_in(warp, in->in[4 + k])[lane];
    uint32_t row = t * per + k * 4 * per;
    for (uint32_t half = 0; half < per; half++)
      p->b[row + half][g] = pairs ? half_of(bits, half, in->from) : whole_of(bits, in->from);
  }
}

static void gather_sum(const ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, product_t *p) {
  uint32_t g = lane / 4, t = lane % 4;
  for (uint32_t k = 0; k < in->n_out; k++) {
    uint64_t bits = ptx_in(warp, in->in[6 + k])[lane];
    if (in->type == PTX_F16) {
      for (uint32_t half = 0; half < 2; half++)
        p->c[g + 8 * k][2 * t + half] = half_of(bits, half, PTX_F16);
    } else {
      p->c[g + 8 * (k / 2)][2 * t + k % 2] = ptx_decode_float(bits, in->type);
    }
  }
}

static void spread_result(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                          const product_t *p) {
  uint32_t g = lane / 4, t = lane % 4;
  for (uint32_t k = 0; k < in->n_out; k++) {
    uint64_t bits = 0;
    if (in->type == PTX_F16) {
      for (uint32_t half = 0; half < 2; half++)
        bits |= ptx_encode(p->c[g + 8 * k][2 * t + half], PTX_F16, PTX_RN) << 16 * half;
    } else {
      bits = ptx_encode(p->c[g + 8 * (k / 2)][2 * t + k % 2], in->type, PTX_RN);
    }
    ptx_out(warp, in->out[k])[lane] = bits;
  }
}

void ptx_exec_multiply(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)mask;
  product_t p;
  uint32_t rows = in->type == PTX_F64 ? 8 : 16;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
    gather_factors(warp, in, lane, &p);
    gather_sum(warp, in, lane, &p);
  }
  // A product of two f64 is not exact; the others are.
  bool fused = in->type == PTX_F64;
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t k = 0; k < in->width; k++)
      for (uint32_t column = 0; column < 8; column++)
        p.c[row][column] = fused ? fma(p.a[row][k], p.b[k][column], p.c[row][column])
                                 : p.c[row][column] + p.a[row][k] * p.b[k][column];
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    spread_result(warp, in, lane, &p);
}
