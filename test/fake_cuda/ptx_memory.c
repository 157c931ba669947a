// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics and asynchronous copies, each access checked for its bounds, its
// alignment and its order.
#include "test/fake_cuda/ptx_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Addresses --------------------------------------------------------------------------------------

static const ptx_range_t *find_range(const ptx_run_t *run, uint64_t address) {
  uint32_t low = 0, high = run->n_ranges;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (run->ranges[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low < run->n_ranges ? &run->ranges[low] : NULL; // the first that ends behind it
}

static unsigned char *outside(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                              uint64_t address, uint32_t bytes, uint32_t touch, const char *what) {
  char where[160];
  ptx_name_address(warp->run, address, where, sizeof(where));
  ptx_violation(warp, in, lane, "%s of %u bytes %s: %s", touch & PTX_WRITE ? "write" : "read",
                bytes, what, where);
  return NULL;
}

static unsigned char *at_global(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                                uint64_t address, uint32_t bytes, uint32_t touch) {
  ptx_run_t *run = warp->run;
  uint32_t *hint = &run->hints[in - run->module->code];
  const ptx_range_t *range = *hint < run->n_ranges ? &run->ranges[*hint] : NULL;
  if (!range || address < range->begin || address >= range->end) {
    range = find_range(run, address);
    *hint = range ? (uint32_t)(range - run->ranges) : UINT32_MAX;
  }
  if (!range || address < range->begin || bytes > range->end - address)
    return outside(warp, in, lane, address, bytes, touch, "outside of live memory");
  if (range->constant && touch & PTX_WRITE)
    return outside(warp, in, lane, address, bytes, touch, "in constant memory");
  bool early = run->launch->programmatic && !range->constant && !(warp->waited >> lane & 1);
  if (early && touch & PTX_WRITE)
    return outside(warp, in, lane, address, bytes, touch,
                   "of global memory before griddepcontrol.wait");
  if (!range->constant)
    ptx_touch(warp, in, lane, false, address, bytes, touch);
  if (early)
    ptx_note_early(run, address, bytes);
  return range->host + (address - range->begin);
}

static unsigned char *at_shared(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                                uint64_t address, uint32_t bytes, uint32_t touch) {
  ptx_run_t *run = warp->run;
  uint64_t end = run->shared_bytes, full = address;
  uint64_t rank = address >= PTX_BESIDE(0) ? (address >> 24) - 1 : warp->rank;
  address &= PTX_BESIDE(0) - 1;
  bool dynamic = address >= run->module->dynamic_begin;
  if (rank >= run->cluster || address >= end || bytes > end - address ||
      (!dynamic && address + bytes > run->entry->shared_end))
    return outside(warp, in, lane, PTX_WINDOW(PTX_SHARED) + full, bytes, touch,
                   "outside of shared memory");
  if (rank != warp->rank && run->block_alive[rank] == 0)
    return outside(warp, in, lane, PTX_WINDOW(PTX_SHARED) + full, bytes, touch,
                   "of a block that has ended");
  if (touch & PTX_WRITE && address + bytes > run->shared_used)
    run->shared_used = (uint32_t)(address + bytes);
  ptx_touch(warp, in, lane, true, PTX_BESIDE(rank) + address, bytes, touch);
  return run->shared_memory + rank * run->shared_bytes + address;
}

static unsigned char *at_local(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane,
                               uint64_t address, uint32_t bytes, uint32_t touch) {
  const ptx_run_t *run = warp->run;
  const ptx_module_t *m = run->module;
  size_t thread = (size_t)warp->index * PTX_LANES + lane,
         size = ((size_t)m->local_bytes + 16) / 16 * 16;
  for (uint32_t k = 0; k < m->n_functions; k++) {
    const ptx_function_t *f = &m->functions[k];
    if (ptx_takes_part(run, f) && address >= f->local_begin && address < f->local_end &&
        bytes <= f->local_end - address)
      return run->local_memory + thread * size + address;
  }
  return outside(warp, in, lane, PTX_WINDOW(PTX_LOCAL) + address, bytes, touch,
                 "outside of local memory");
}

unsigned char *ptx_at(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, ptx_space_t space,
                      uint64_t address, uint32_t bytes, uint32_t touch) {
  if (space == PTX_GENERIC && address >> 60) {
    space = (ptx_space_t)(address >> 60);
    address &= PTX_WINDOW(1) - 1;
  }
  if (address % bytes)
    return outside(warp, in, lane,
                   address + (space > PTX_GLOBAL && space < PTX_CONST ? PTX_WINDOW(space) : 0),
                   bytes, touch, "not aligned");
  const ptx_run_t *run = warp->run;
  switch (space) {
  case PTX_SHARED:
    return at_shared(warp, in, lane, address, bytes, touch);
  case PTX_LOCAL:
    return at_local(warp, in, lane, address, bytes, touch);
  case PTX_PARAM:
    if (address >= run->launch->param_bytes || bytes > run->launch->param_bytes - address ||
        touch & PTX_WRITE)
      return outside(warp, in, lane, PTX_WINDOW(PTX_PARAM) + address, bytes, touch,
                     "outside of the parameters");
    return (unsigned char *)(uintptr_t)run->launch->param + address;
  default:
    return at_global(warp, in, lane, address, bytes, touch);
  }
}

// ---- Loads and stores -------------------------------------------------------------------------------

static uint64_t read_value(const unsigned char *from, ptx_type_t type) {
  uint64_t bits = 0;
  uint32_t bytes = ptx_type_bytes(type);
  memcpy(&bits, from, bytes);
  if (ptx_type_kind(type) == PTX_SINT)
    bits = (uint64_t)((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
  return bits;
}

void ptx_exec_load(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t one = ptx_type_bytes(in->type), bytes = one * in->width;
  uint32_t touch = in->strong ? PTX_READ | PTX_STRONG : PTX_READ;
  PTX_EACH(lane, mask) {
    uint64_t address = ptx_in(warp, in->in[0])[lane] + (uint64_t)in->offset;
    const unsigned char *from = ptx_at(warp, in, lane, in->space, address, bytes, touch);
    if (!from)
      return;
    for (uint32_t k = 0; k < in->width; k++)
      ptx_out(warp, in->out[k])[lane] = read_value(from + k * one, in->type);
  }
}

void ptx_exec_store(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t one = ptx_type_bytes(in->type), bytes = one * in->width;
  uint32_t touch = in->strong ? PTX_WRITE | PTX_STRONG : PTX_WRITE;
  PTX_EACH(lane, mask) {
    uint64_t address = ptx_in(warp, in->in[0])[lane] + (uint64_t)in->offset;
    unsigned char *to = ptx_at(warp, in, lane, in->space, address, bytes, touch);
    if (!to)
      return;
    for (uint32_t k = 0; k < in->width; k++)
      memcpy(to + k * one, &ptx_in(warp, in->in[k + 1])[lane], one);
  }
}

void ptx_exec_load_param(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  ptx_exec_load(warp, in, mask);
}

// Parameters of calls live in slots of eight bytes.
void ptx_exec_load_slot(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t one = ptx_type_bytes(in->type);
  for (uint32_t k = 0; k < in->width; k++) {
    uint32_t at = (uint32_t)in->offset + k * one;
    const uint64_t *slot = ptx_in(warp, in->in[0] + (int32_t)(at / 8));
    PTX_EACH(lane, mask)
    ptx_out(warp, in->out[k])[lane] =
        read_value((const unsigned char *)&slot[lane] + at % 8, in->type);
  }
}

void ptx_exec_store_slot(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t one = ptx_type_bytes(in->type);
  for (uint32_t k = 0; k < in->width; k++) {
    uint32_t at = (uint32_t)in->offset + k * one;
    uint64_t *slot = ptx_out(warp, in->in[0] + (int32_t)(at / 8));
    PTX_EACH(lane, mask)
    memcpy((unsigned char *)&slot[lane] + at % 8, &ptx_in(warp, in->in[k + 1])[lane], one);
  }
}

// ---- Atomics ----------------------------------------------------------------------------------------

static uint64_t add_halves(uint64_t old, uint64_t with, ptx_type_t type) {
  ptx_type_t half = type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
  uint64_t result = 0;
  for (uint32_t k = 0; k < 32; k += 16)
    result |= ptx_encode(ptx_decode_float(old >> k & 0xffff, half) +
                             ptx_decode_float(with >> k & 0xffff, half),
                         half, PTX_RN)
              << k;
  return result;
}

static uint64_t add_values(uint64_t old, uint64_t with, ptx_type_t type) {
  switch (type) {
  case PTX_F32:
    return ptx_float_bits(ptx_float(old) + ptx_float(with));
  case PTX_F64:
  case PTX_F16:
  case PTX_BF16:
    return ptx_encode(ptx_decode_float(old, type) + ptx_decode_float(with, type), type, PTX_RN);
  case PTX_F16X2:
  case PTX_BF16X2:
    return add_halves(old, with, type);
  default:
    return old + with;
  }
}

static uint64_t combine(const ptx_insn_t *in, uint64_t old, uint64_t with, uint64_t other) {
  bool is_signed = ptx_type_kind(in->type) == PTX_SINT;
  uint32_t shift = 64 - 8 * ptx_type_bytes(in->type);
  uint64_t x = old << shift, y = with << shift;
  bool below = is_signed ? (int64_t)x < (int64_t)y : x < y;
  switch (in->action) {
  case PTX_ADD:
    return add_values(old, with, in->type);
  case PTX_MIN:
    return below ? old : with;
  case PTX_MAX:
    return below ? with : old;
  case PTX_BIT_AND:
    return old & with;
  case PTX_BIT_OR:
    return old | with;
  case PTX_BIT_XOR:
    return old ^ with;
  case PTX_CAS:
    return x == y ? other : old;
  case PTX_INC:
    return x >= y ? 0 : old + 1;
  case PTX_DEC:
    return x == 0 || x > y ? with : old - 1;
  default:
    return with;
  }
}

void ptx_exec_atomic(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t bytes = ptx_type_bytes(in->type);
  PTX_EACH(lane, mask) {
    uint64_t address = ptx_in(warp, in->in[0])[lane] + (uint64_t)in->offset, old = 0;
    unsigned char *at = ptx_at(warp, in, lane, in->space, address, bytes, PTX_WRITE | PTX_STRONG);
    if (!at)
      return;
    memcpy(&old, at, bytes);
    uint64_t with = ptx_in(warp, in->in[1])[lane], other = ptx_in(warp, in->in[2])[lane];
    uint64_t new = combine(in, old, with, other);
    memcpy(at, &new, bytes);
    ptx_out(warp, in->out[0])[lane] = old;
  }
}

// ---- Asynchronous copies ----------------------------------------------------------------------------

// The copy is noted when it is asked for and again when it is done, at the wait: whoever touches
// the place in between without an order has a race, and sees what was there before.
void ptx_exec_copy_async(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) {
    uint64_t to = ptx_in(warp, in->in[0])[lane] + (uint64_t)in->offset;
    uint64_t from = ptx_in(warp, in->in[1])[lane] + (uint64_t)in->second_offset;
    uint32_t valid = in->n_in == 4 ? (uint32_t)ptx_in(warp, in->in[2])[lane] : in->width;
    ptx_asyncs_t *asyncs = &warp->asyncs[lane];
    if (valid > in->width) {
      ptx_violation(warp, in, lane, "a copy of %u bytes from %u", in->width, valid);
      return;
    }
    if (from % in->width) {
      (void)outside(warp, in, lane, from, in->width, PTX_READ, "not aligned");
      return;
    }
    // Only the bytes that are copied are read; they may be any number.
    const unsigned char *source = NULL;
    uint32_t step = valid == in->width ? valid : 1;
    for (uint32_t k = 0; k < valid; k += step) {
      const unsigned char *part = ptx_at(warp, in, lane, PTX_GLOBAL, from + k, step, PTX_READ);
      if (!part)
        return;
      source = k ? source : part;
    }
    if (!ptx_at(warp, in, lane, PTX_SHARED, to, in->width, PTX_WRITE))
      return;
    asyncs->list = realloc(asyncs->list, (asyncs->n + 1) * sizeof(asyncs->list[0]));
    if (!asyncs->list)
      abort();
    asyncs->list[asyncs->n++] = (ptx_async_t){.to = to,
                                              .from = source,
                                              .bytes = in->width,
                                              .valid = (uint8_t)valid,
                                              .group = asyncs->group,
                                              .in = in};
  }
}

void ptx_exec_commit_group(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)in;
  PTX_EACH(lane, mask) warp->asyncs[lane].group++;
}

static bool finish_copy(ptx_warp_t *warp, uint32_t lane, const ptx_async_t *copy) {
  unsigned char *to = ptx_at(warp, copy->in, lane, PTX_SHARED, copy->to, copy->bytes, PTX_WRITE);
  if (!to)
    return false;
  memset(to, 0, copy->bytes);
  if (copy->valid)
    memcpy(to, copy->from, copy->valid);
  return true;
}

// Groups are numbered as they are committed: all but the newest `offset` must be done.
void ptx_exec_wait_group(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) {
    ptx_asyncs_t *asyncs = &warp->asyncs[lane];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < asyncs->n; k++) {
      const ptx_async_t *copy = &asyncs->list[k];
      bool waits = in->mode || copy->group + (uint64_t)in->offset < asyncs->group;
      if (waits && !finish_copy(warp, lane, copy))
        return;
      if (!waits)
        asyncs->list[kept++] = *copy;
    }
    asyncs->n = kept;
  }
}
