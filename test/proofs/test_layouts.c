// SPDX-License-Identifier: Apache-2.0
// Where an index lies: for every layout of small ranks (orders, blocks, halos), and all small sizes
// put in for symbols, different indices have different offsets, and all of them are inside.
#include "test/support/check.h"

#include "lower/loop/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_SIZE = 3, HALOS = 4, MOST_PLACES = 4096 };

// Elements in front and behind, by dim.
static const int64_t halos[HALOS][2][3] = {
    {{0, 0, 0}, {0, 0, 0}}, {{1, 1, 1}, {0, 0, 0}}, {{0, 0, 0}, {2, 1, 2}}, {{0, 2, 1}, {1, 0, 1}}};

typedef struct space_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
  dt_sym_t sizes[3], at[3];
  uint32_t size_symbols[3], at_symbols[3];
  int64_t values[6];
  uint64_t layouts, indices;
} space_t;

static void open_space(space_t *s) {
  dt__arena_init(&s->arena, 0);
  expect_ok(dt__symenv_create(&s->env));
  for (uint32_t d = 0; d < 3; d++) {
    s->sizes[d] = dt__sym_new(s->env, DT_SYMBOL_SIZE, (dt_range_t){0, 1 << 20}, NULL, "");
    assert_true(dt__sym_is_symbol(s->env, s->sizes[d], &s->size_symbols[d]));
  }
  for (uint32_t d = 0; d < 3; d++) {
    s->at[d] = dt__sym_new(s->env, DT_SYMBOL_INT, (dt_range_t){-8, 1 << 20}, NULL, "");
    assert_true(dt__sym_is_symbol(s->env, s->at[d], &s->at_symbols[d]));
  }
  s->program = dt__program_create(&s->arena, s->env, NULL);
  assert_non_null(s->program);
}

static int64_t value_of(const space_t *s, dt_sym_t e) {
  int64_t value = 0;
  assert_true(dt__sym_eval(s->env, e, s->values, &value));
  return value;
}

static void fail_at(const dt_buffer_layout_t *layout, uint32_t rank, const space_t *s,
                    int64_t offset) {
  print_error("rank %u, block %lld of %u, offset %lld, order and sizes and index:\n", rank,
              (long long)layout->block, layout->blocked, (long long)offset);
  for (uint32_t d = 0; d < rank; d++)
    print_error("  %u %lld %lld\n", layout->order[d], (long long)s->values[s->size_symbols[d]],
                (long long)s->values[s->at_symbols[d]]);
  fail();
}

// Every index of the sizes in s->values, halo included.
static void walk(space_t *s, const dt_buffer_layout_t *layout, uint32_t rank, dt_sym_t offset,
                 int64_t count) {
  static unsigned char taken[MOST_PLACES];
  assert_true(count >= 0 && count < MOST_PLACES);
  for (int64_t k = 0; k < count; k++)
    taken[k] = 0;
  for (uint32_t d = 0; d < rank; d++) {
    if (s->values[s->size_symbols[d]] + layout->before[d] + layout->behind[d] == 0)
      return;
    s->values[s->at_symbols[d]] = -layout->before[d];
  }
  for (uint32_t d = rank; d > 0;) {
    int64_t at = value_of(s, offset);
    if (at < 0 || at >= count || taken[at]++)
      fail_at(layout, rank, s, at);
    s->indices++;
    for (d = rank; d > 0; d--) {
      int64_t end = s->values[s->size_symbols[d - 1]] + layout->behind[d - 1];
      if (++s->values[s->at_symbols[d - 1]] < end)
        break;
      s->values[s->at_symbols[d - 1]] = -layout->before[d - 1];
    }
  }
}

static void each_size(space_t *s, const dt_buffer_layout_t *layout, uint32_t rank) {
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = DT_F32, .rank = rank, .layout = layout};
  dt_buffer_id_t id;
  for (uint32_t d = 0; d < rank; d++)
    buffer.sizes[d] = s->sizes[d];
  expect_ok(dt__program_add_buffer(s->program, &buffer, &id));
  dt_sym_t offset = dt__buffer_offset(s->program, id, s->at);
  dt_sym_t count = dt__buffer_count(s->program, id);
  expect_ok(dt__symenv_status(s->env));
  uint32_t all = 1;
  for (uint32_t d = 0; d < rank; d++)
    all *= MOST_SIZE + 1;
  for (uint32_t n = 0; n < all; n++) {
    for (uint32_t d = 0, rest = n; d < rank; d++, rest /= MOST_SIZE + 1)
      s->values[s->size_symbols[d]] = rest % (MOST_SIZE + 1);
    walk(s, layout, rank, offset, value_of(s, count));
  }
  s->layouts++;
  s->program->buffers.len = 0;
  s->program->offsets.len = 0;
}

// Order number n of `rank` dims.
static void set_order(dt_buffer_layout_t *layout, uint32_t rank, uint32_t n) {
  uint8_t left[3] = {0, 1, 2};
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t pick = n % (rank - k);
    n /= rank - k;
    layout->order[k] = left[pick];
    for (uint32_t i = pick; i + 1 < rank - k; i++)
      left[i] = left[i + 1];
  }
}

static void each_block(space_t *s, dt_buffer_layout_t *layout, uint32_t rank) {
  layout->block = 0;
  each_size(s, layout, rank);
  for (uint32_t d = 0; d < rank; d++)
    for (int64_t block = 2; block <= 3; block++) {
      layout->blocked = (uint8_t)d;
      layout->block = block;
      each_size(s, layout, rank);
    }
}

static void every_index_has_a_place_of_its_own(void **state) {
  (void)state;
  space_t s = {0};
  open_space(&s);
  uint32_t orders = 1;
  for (uint32_t rank = 1; rank <= 3; rank++) {
    orders *= rank;
    for (uint32_t n = 0; n < orders; n++)
      for (uint32_t h = 0; h < HALOS; h++) {
        dt_buffer_layout_t layout = {0};
        set_order(&layout, rank, n);
        for (uint32_t d = 0; d < rank; d++) {
          layout.before[d] = halos[h][0][d];
          layout.behind[d] = halos[h][1][d];
        }
        each_block(&s, &layout, rank);
      }
  }
  print_message("%llu layouts, %llu indices\n", (unsigned long long)s.layouts,
                (unsigned long long)s.indices);
  dt__symenv_destroy(s.env);
  dt__arena_fini(&s.arena);
}

RUN_TESTS(TEST(every_index_has_a_place_of_its_own))
