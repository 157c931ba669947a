// SPDX-License-Identifier: Apache-2.0
// See follow.h. A kernel that loads an argument whose channels lie innermost, and stores a
// temporary, walks one of them in steps unless both lie alike. So each access beside a temporary
// votes: the loops that are the dims of both say which order of the temporary's dims is that of the
// other's memory. The order with most votes is taken, if it has more than row-major.
//
// A temporary can take an order where each of its dims is one loop in every access, and no product
// reads or stores it: templates want rows of their operands, and store rows.
#include "fuse/follow.h"

#include "fuse/body.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ROUNDS 3 // over all temporaries: forwards, backwards, forwards
#define MOST_ORDERS 4

typedef struct order_t {
  bool known; // else it has none, or one that is decided later
  uint8_t dims[DT_MAX_RANK];
} order_t;

typedef struct follow_t {
  dt_program_t *program;
  dt_flow_t *flow;
  bool *open; // by buffer, [id - 1]: a temporary that may take an order
} follow_t;

// Counts of orders of one temporary's dims.
typedef struct votes_t {
  uint32_t n;
  uint8_t dims[MOST_ORDERS][DT_MAX_RANK];
  uint32_t count[MOST_ORDERS];
} votes_t;

// ---- Orders ---------------------------------------------------------------------------------------

// Of an argument, where its strides say it: without gaps.
static order_t input_order(dt_program_t *program, const dt_buffer_t *buffer) {
  dt_symenv_t *env = program->env;
  order_t order = {.known = true};
  dt_sym_t stride = dt__sym_const(env, 1);
  bool taken[DT_MAX_RANK] = {false};
  for (uint32_t k = buffer->rank; k-- > 0;) {
    uint32_t d = buffer->rank;
    while (d-- > 0)
      if (!taken[d] && dt__sym_known_eq(env, buffer->strides[d], stride))
        break;
    if (d == UINT32_MAX)
      return (order_t){.known = false};
    taken[d] = true;
    order.dims[k] = (uint8_t)d;
    stride = dt__sym_mul(env, stride, buffer->sizes[d]);
  }
  return order;
}

static order_t order_of(const follow_t *f, uint32_t id) {
  const dt_buffer_t *buffer = &f->program->buffers.items[id - 1];
  order_t order = {.known = true};
  if (buffer->layout) {
    memcpy(order.dims, buffer->layout->order, sizeof(order.dims));
    order.known = dt__layout_is_order(buffer->layout, buffer->rank);
    return order;
  }
  if (buffer->kind == DT_BUFFER_INPUT)
    return input_order(f->program, buffer);
  for (uint32_t k = 0; k < buffer->rank; k++)
    order.dims[k] = (uint8_t)k;
  order.known = !f->open[id - 1];
  return order;
}

static bool is_row_major(const uint8_t *dims, uint32_t rank) {
  for (uint32_t k = 0; k < rank; k++)
    if (dims[k] != k)
      return false;
  return true;
}

// ---- What may take one ----------------------------------------------------------------------------

static bool is_loop(const dt_program_t *program, dt_sym_t e) {
  uint32_t symbol = 0;
  return dt__sym_is_symbol(program->env, e, &symbol) &&
         dt__symbol_info(program->env, symbol).kind == DT_SYMBOL_LOOP;
}

static void close_access(const follow_t *f, uint32_t id, const dt_sym_t *index, bool plain) {
  const dt_buffer_t *buffer = &f->program->buffers.items[id - 1];
  for (uint32_t d = 0; plain && d < buffer->rank; d++)
    plain = is_loop(f->program, index[d]);
  if (!plain)
    f->open[id - 1] = false;
}

static void close_stage(const follow_t *f, const dt_stage_t *stage, bool plain) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    uint32_t id = dt__inst_reads(inst).id;
    if (id)
      close_access(f, id, inst->index, plain && inst->kind == DT_INST_LOAD);
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    close_access(f, store->buffer.id, store->index, plain && !store->whole && !store->revises);
  }
}

static dt_status_t find_open(follow_t *f) {
  const dt_program_t *program = f->program;
  f->open = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1);
  if (!f->open)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_buffer_t *buffer = &program->buffers.items[b];
    f->open[b] = buffer->kind == DT_BUFFER_TEMP && buffer->rank >= 3 && !buffer->layout &&
                 !dt__buffer_is_readback(program, b + 1);
  }
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    uint32_t x = 0, y = 0;
    bool plain = !dt__kernel_is_contraction(kernel, &x, &y);
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      close_stage(f, &kernel->stages.items[s], plain);
  }
  return NULL;
}

static bool any_order(const follow_t *f) {
  for (uint32_t b = 0; b < f->program->buffers.len; b++) {
    const dt_buffer_t *buffer = &f->program->buffers.items[b];
    bool asked = buffer->layout || (buffer->kind == DT_BUFFER_INPUT && buffer->rank >= 3);
    order_t order = asked ? order_of(f, b + 1) : (order_t){.known = false};
    if (order.known && !is_row_major(order.dims, buffer->rank))
      return true;
  }
  return false;
}

// ---- Votes ----------------------------------------------------------------------------------------

// The place in the other's memory of the loop that `e` is, or its rank.
static uint32_t place_of(const order_t *order, const dt_sym_t *index, uint32_t rank, dt_sym_t e) {
  uint32_t k = 0;
  while (k < rank && index[order->dims[k]].id != e.id)
    k++;
  return k;
}

static void count_vote(votes_t *votes, const uint8_t *dims) {
  uint32_t k = 0;
  while (k < votes->n && memcmp(votes->dims[k], dims, sizeof(votes->dims[k])) != 0)
    k++;
  if (k == MOST_ORDERS)
    return;
  if (k == votes->n)
    memcpy(votes->dims[votes->n++], dims, sizeof(votes->dims[k]));
  votes->count[k]++;
}

// An access of `id` at `index`, beside one of the temporary at `own`.
static void vote(const follow_t *f, const dt_buffer_t *temp, const dt_sym_t *own, uint32_t id,
                 const dt_sym_t *index, votes_t *votes) {
  order_t order = order_of(f, id);
  uint8_t dims[DT_MAX_RANK] = {0};
  uint32_t places[DT_MAX_RANK], rank = f->program->buffers.items[id - 1].rank;
  if (!order.known)
    return;
  for (uint32_t d = 0; d < temp->rank; d++) {
    uint32_t place = place_of(&order, index, rank, own[d]), at = d;
    if (place == rank)
      return; // it does not move with this dim
    for (; at > 0 && places[at - 1] > place; at--) {
      places[at] = places[at - 1];
      dims[at] = dims[at - 1];
    }
    places[at] = place;
    dims[at] = (uint8_t)d;
  }
  count_vote(votes, dims);
}

// All accesses of the stage beside one of `id`.
static void vote_beside(const follow_t *f, const dt_stage_t *stage, uint32_t id,
                        const dt_sym_t *own, votes_t *votes) {
  const dt_buffer_t *temp = &f->program->buffers.items[id - 1];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind == DT_INST_LOAD && inst->buffer.id != id)
      vote(f, temp, own, inst->buffer.id, inst->index, votes);
  }
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id != id)
      vote(f, temp, own, stage->stores.items[i].buffer.id, stage->stores.items[i].index, votes);
}

static void vote_in_stage(const follow_t *f, const dt_stage_t *stage, uint32_t id, votes_t *votes) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (dt__inst_reads(&stage->insts.items[i]).id == id)
      vote_beside(f, stage, id, stage->insts.items[i].index, votes);
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id == id)
      vote_beside(f, stage, id, stage->stores.items[i].index, votes);
}

static dt_status_t decide(follow_t *f, uint32_t id) {
  dt_program_t *program = f->program;
  dt_buffer_t *buffer = &program->buffers.items[id - 1];
  votes_t votes = {0};
  DT_TRY(dt__flow_users(f->flow, id - 1));
  for (uint32_t u = 0; u < f->flow->users.len; u++) {
    const dt_kernel_t *kernel = &program->kernels.items[f->flow->users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      vote_in_stage(f, &kernel->stages.items[s], id, &votes);
  }
  uint32_t best = 0, plain = 0;
  for (uint32_t k = 0; k < votes.n; k++) {
    best = votes.count[k] > votes.count[best] ? k : best;
    plain = is_row_major(votes.dims[k], buffer->rank) ? votes.count[k] : plain;
  }
  if (votes.n == 0 || votes.count[best] <= plain)
    return NULL;
  DT_TRY(dt__layout_of_order(program->arena, votes.dims[best], buffer->rank, &buffer->layout));
  dt__buffer_set_strides(program->env, buffer);
  f->open[id - 1] = false;
  DT_LOG(DT_LOG_FUSION, 1, "buffer %u: dim %u innermost", id, votes.dims[best][buffer->rank - 1]);
  return NULL;
}

dt_status_t dt__follow_orders(dt_program_t *program, dt_flow_t *flow) {
  follow_t f = {.program = program, .flow = flow};
  uint32_t n = program->buffers.len;
  DT_TRY(find_open(&f));
  if (!any_order(&f))
    return NULL;
  for (uint32_t round = 0; round < ROUNDS; round++)
    for (uint32_t i = 0; i < n; i++) {
      uint32_t b = round % 2 ? n - 1 - i : i;
      if (f.open[b])
        DT_TRY(decide(&f, b + 1));
    }
  return dt__symenv_status(program->env);
}
