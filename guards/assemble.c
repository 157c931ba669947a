// SPDX-License-Identifier: Apache-2.0
// Puts the parts of a guard program into one block, records sorted by kind.
#include "guards/build.h"

#include "runtime/base/status.h"

#include <string.h>

static const bool can_fail[DT_GUARD_KIND_COUNT] = {
#define GUARD_KIND(id, fails, reads, remedy, if_number, doc) [DT_GUARD_##id] = fails,
#include "guards/guard_kinds.def"
};
_Static_assert(DT_GUARD_bind_size < DT_GUARD_size_symbol &&
                   DT_GUARD_bind_stride < DT_GUARD_size_symbol &&
                   DT_GUARD_bind_value < DT_GUARD_size_symbol &&
                   DT_GUARD_bind_capture < DT_GUARD_size_symbol,
               "ORDER(guard_kinds): symbols are bound before they are read");
_Static_assert(DT_GUARD_header < DT_GUARD_value_const && DT_GUARD_header < DT_GUARD_bind_value,
               "ORDER(guard_kinds): an argument's memory is read after its dtype is known");

uint32_t dt__guard_text(dt_guard_build_t *build, const char *string) {
  if (build->text.len == 0)
    dt__text_write(&build->text, "", 1);
  if (!string || !string[0])
    return 0;
  size_t at = build->text.len;
  if (at + strlen(string) >= UINT32_MAX) {
    build->text.failed = true;
    return 0;
  }
  dt__text_write(&build->text, string, strlen(string) + 1);
  return (uint32_t)at;
}

dt_status_t dt__guard_emit(dt_guard_build_t *build, dt_guard_t record, dt_text_t *text,
                           const dt_origin_t *origin) {
  dt_guard_reason_t reason = {.text = dt__guard_text(build, dt__text_str(text)),
                              .op = dt__guard_text(build, origin->op),
                              .file = dt__guard_text(build, origin->file),
                              .line = origin->line};
  record.reason = build->reasons.len;
  dt_status_t status = dt__text_status(text);
  dt__text_fini(text);
  if (!status && (!DT_VEC_PUSH(&build->arena, &build->reasons, reason) ||
                  !DT_VEC_PUSH(&build->arena, &build->records, record)))
    status = DT_NO_MEMORY();
  return status;
}

// Stable, so that within a kind the order is that of asking.
static uint32_t copy_sorted(const dt_guard_build_t *build, dt_guard_t *out) {
  uint32_t n = 0, failing = 0;
  for (int kind = 0; kind < DT_GUARD_KIND_COUNT; kind++) {
    for (uint32_t k = 0; k < build->records.len; k++) {
      if (build->records.items[k].kind != kind)
        continue;
      out[n++] = build->records.items[k];
      failing += can_fail[kind];
    }
  }
  return failing;
}

static dt_status_t make_symbols(dt_guard_build_t *build, dt_guard_symbol_t **out) {
  *out = DT_ARENA_ARRAY(&build->arena, dt_guard_symbol_t, build->n_symbols);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < build->n_symbols; k++) {
    dt_text_t text;
    dt__text_init(&text);
    dt__sym_print(build->env, dt__symbol_sym(build->env, k), &text);
    (*out)[k].text = dt__guard_text(build, dt__text_str(&text));
    (*out)[k].name = dt__guard_text(build, dt__symbol_info(build->env, k).name);
    dt_status_t status = dt__text_status(&text);
    dt__text_fini(&text);
    DT_TRY(status);
  }
  return NULL;
}

// The next piece of the block, aligned to 16.
static size_t take(size_t *at, size_t count, size_t item) {
  size_t here = *at;
  *at = (here + count * item + 15) & ~(size_t)15;
  return here;
}

dt_status_t dt__guard_assemble(dt_guard_build_t *build, dt_guards_t **out) {
  dt_guard_symbol_t *symbols = NULL;
  DT_TRY(make_symbols(build, &symbols));
  DT_TRY(dt__text_status(&build->text));
  size_t bytes = 0;
  (void)take(&bytes, 1, sizeof(dt_guards_t));
  size_t records = take(&bytes, build->records.len, sizeof(dt_guard_t));
  size_t steps = take(&bytes, build->steps.len, sizeof(dt_guard_step_t));
  size_t symbols_at = take(&bytes, build->n_symbols, sizeof(dt_guard_symbol_t));
  size_t reasons = take(&bytes, build->reasons.len, sizeof(dt_guard_reason_t));
  size_t text = take(&bytes, build->text.len, 1);
  char *block = dt__alloc_aligned(bytes, 64);
  if (!block)
    return DT_NO_MEMORY();
  memset(block, 0, bytes);
  dt_guards_t *guards = (dt_guards_t *)(void *)block;
  *guards = (dt_guards_t){.n_records = build->records.len,
                          .n_symbols = build->n_symbols,
                          .records = (const dt_guard_t *)(void *)(block + records),
                          .steps = (const dt_guard_step_t *)(void *)(block + steps),
                          .symbols = (const dt_guard_symbol_t *)(void *)(block + symbols_at),
                          .reasons = (const dt_guard_reason_t *)(void *)(block + reasons),
                          .text = block + text};
  for (uint32_t k = 0; k < build->n_symbols; k++)
    guards->clear |= !build->bound[k];
  guards->n_can_fail = copy_sorted(build, (dt_guard_t *)(void *)(block + records));
  if (build->steps.len)
    memcpy(block + steps, build->steps.items, build->steps.len * sizeof(dt_guard_step_t));
  if (build->n_symbols)
    memcpy(block + symbols_at, symbols, build->n_symbols * sizeof(dt_guard_symbol_t));
  if (build->reasons.len)
    memcpy(block + reasons, build->reasons.items, build->reasons.len * sizeof(dt_guard_reason_t));
  memcpy(block + text, build->text.data, build->text.len);
  *out = guards;
  return NULL;
}

void dt__guards_destroy(dt_guards_t *guards) { dt__free(guards); }

uint32_t dt__guards_symbol_count(const dt_guards_t *guards) { return guards->n_symbols; }

uint32_t dt__guards_count(const dt_guards_t *guards) { return guards->n_can_fail; }
