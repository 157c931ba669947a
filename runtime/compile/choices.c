// SPDX-License-Identifier: Apache-2.0
// See choices.h. Each row edits a target by the function of its id.
#include "runtime/compile/choices.h"

#include "runtime/base/status.h"
#include "runtime/compile/compile.h"

#include <string.h>

#define SLICES 4          // times as long, or as short
#define REPEATED_COST 8   // dt_target_t.repeated_cost: an elementary function costs more
#define MOST_TILE_ROWS 14 // what the template's code has registers and room for
#define WIDE 3            // vectors of a tile
#define OPTIMISED 4       // LLVM's -O3, from 1

// ---- Edits ----------------------------------------------------------------------------------------
static dt_status_t nothing_for(const char *what) {
  return DT_FAIL(DT_E_UNSUPPORTED, "this CPU has no %s", what);
}

static dt_status_t leave_out(const char *stage, dt_target_t *target) {
  uint64_t bits = 0;
  DT_TRY(dt__pipeline_without(stage, &bits));
  target->left_out |= bits;
  return NULL;
}

static dt_status_t edit_own_codes(dt_target_t *target) {
  target->parameters = false;
  return NULL;
}

static dt_status_t edit_long_slices(dt_target_t *target) {
  target->l2_bytes *= SLICES;
  return NULL;
}

static dt_status_t edit_short_slices(dt_target_t *target) {
  target->l2_bytes /= SLICES;
  return NULL;
}

static dt_status_t edit_optimised(dt_target_t *target) {
  target->llvm_level = OPTIMISED;
  return NULL;
}

static dt_status_t edit_any_model(dt_target_t *target) {
  if (!target->tune[0])
    return nothing_for("model of its own");
  target->tune[0] = 0;
  return NULL;
}

// One vector of a panel's row, and one element of A, are in registers beside the sums.
static void set_tiles(dt_target_t *target, uint32_t vectors) {
  uint32_t rows = (target->vector_registers - vectors - 1) / vectors;
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t lanes = target->vector_bytes / (i == 0 ? 4 : 8);
    target->matmul_width[i] = vectors * lanes;
    target->matmul_rows[i] = rows < MOST_TILE_ROWS ? rows : MOST_TILE_ROWS;
  }
}

static dt_status_t edit_wide_tiles(dt_target_t *target) {
  set_tiles(target, WIDE);
  return NULL;
}

static dt_status_t edit_tall_tiles(dt_target_t *target) {
  if (target->vector_registers < 32)
    return nothing_for("registers for taller tiles");
  set_tiles(target, 2);
  return NULL;
}

static dt_status_t edit_half_vectors(dt_target_t *target) {
  if (target->vector_bytes < 64)
    return nothing_for("vectors of 64 bytes");
  target->map_bytes = target->vector_bytes / 2;
  return NULL;
}

static dt_status_t edit_whole_windows(dt_target_t *target) {
  if (!target->fast_conv)
    return DT_FAIL(DT_E_UNSUPPORTED, "no convolution is made in squares (DUCTILE_FAST_CONV=0)");
  target->fast_conv = false;
  return NULL;
}

static dt_status_t edit_repeats(dt_target_t *target) {
  target->repeated_cost = REPEATED_COST;
  return NULL;
}

#define CHOICE(id, name, group, bits, doc)
#define WITHOUT(id, name, group, stage, doc)                                                       \
  static dt_status_t edit_##id(dt_target_t *target) { return leave_out(stage, target); }
#include "runtime/compile/choices.def"

// ---- Rows -----------------------------------------------------------------------------------------
typedef struct row_t {
  dt_choice_row_t told;
  const char *group;
  dt_status_t (*edit)(dt_target_t *target);
} row_t;

#define KEEPS true
#define OTHER false
static const row_t rows[] = {
#define CHOICE(id, name, group, bits, doc) {{name, doc, bits}, #group, edit_##id},
#define WITHOUT(id, name, group, stage, doc) {{name, doc, OTHER}, #group, edit_##id},
#include "runtime/compile/choices.def"
};

const dt_choice_row_t *dt__choice(dt_choice_t choice) { return &rows[choice].told; }

static dt_choices_t bit(uint32_t k) { return (dt_choices_t)1 << k; }

bool dt__choices_keep_bits(dt_choices_t set) {
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    if (set & bit(k) && !rows[k].told.keeps_bits)
      return false;
  return true;
}

dt_choices_t dt__choices_turn(dt_choices_t set, dt_choice_t choice) {
  if (set & bit(choice))
    return set & ~bit(choice);
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    if (strcmp(rows[k].group, rows[choice].group) == 0)
      set &= ~bit(k);
  return set | bit(choice);
}

dt_status_t dt__choices_apply(dt_choices_t set, dt_target_t *target) {
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    if (set & bit(k))
      DT_TRY(dt__status_annotate(rows[k].edit(target), "%s", rows[k].told.name));
  return NULL;
}

dt_choices_t dt__choices_within(dt_choices_t set, const dt_target_t *target) {
  for (uint32_t k = 0; k < DT_CHOICES; k++) {
    dt_target_t edited = *target;
    dt_status_t status = set & bit(k) ? rows[k].edit(&edited) : NULL;
    if (status)
      set &= ~bit(k);
    dt_status_free(status);
  }
  return set;
}

// ---- Text -----------------------------------------------------------------------------------------
void dt__choices_print(dt_choices_t set, dt_text_t *out) {
  const char *between = "";
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    if (set & bit(k)) {
      dt__text_printf(out, "%s%s", between, rows[k].told.name);
      between = ",";
    }
}

static bool find(const char *name, size_t len, dt_choices_t *set) {
  for (uint32_t k = 0; k < DT_CHOICES; k++)
    if (strlen(rows[k].told.name) == len && memcmp(rows[k].told.name, name, len) == 0) {
      *set |= bit(k);
      return true;
    }
  return false;
}

dt_status_t dt__choices_parse(const char *names, dt_choices_t *out) {
  *out = 0;
  for (const char *at = names; at && *at;) {
    size_t len = strcspn(at, ",");
    if (!find(at, len, out)) {
      *out = 0;
      return DT_FAIL(DT_E_ARGUMENT, "'%.*s' is no choice", (int)(len < 64 ? len : 64), at);
    }
    at += len + (at[len] == ',');
  }
  return NULL;
}
