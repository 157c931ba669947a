// SPDX-License-Identifier: Apache-2.0
// Other ways to compile a program for a CPU (choices.def). A set of them is applied to a target, so
// it is part of the key of what is compiled, and of its bits where it changes any.
#ifndef DT_RUNTIME_COMPILE_CHOICES_H
#define DT_RUNTIME_COMPILE_CHOICES_H

#include "fuse/target.h"
#include "runtime/base/text.h"

typedef uint64_t dt_choices_t; // a bit a row, in their order; 0: the usual way

typedef enum dt_choice_t {
#define CHOICE(id, name, group, bits, doc) DT_CHOICE_##id,
#define WITHOUT(id, name, group, stage, doc) DT_CHOICE_##id,
#include "runtime/compile/choices.def"
  DT_CHOICES
} dt_choice_t;
_Static_assert(DT_CHOICES <= 64, "a bit each");

typedef struct dt_choice_row_t {
  const char *name, *doc;
  bool keeps_bits;
} dt_choice_row_t;
const dt_choice_row_t *dt__choice(dt_choice_t choice);

// Whether all of them keep the bits of the usual way.
bool dt__choices_keep_bits(dt_choices_t set);
// The set with `choice` where it has none, or without it; others of its group go.
dt_choices_t dt__choices_turn(dt_choices_t set, dt_choice_t choice);
// What `set` makes of a CPU's target. DT_E_UNSUPPORTED where that has nothing for one of them.
dt_status_t dt__choices_apply(dt_choices_t set, dt_target_t *target) DT_MUST_USE;

// Those of the set that the target has something for.
dt_choices_t dt__choices_within(dt_choices_t set, const dt_target_t *target);

// Names in order with commas between them; "" for none.
void dt__choices_print(dt_choices_t set, dt_text_t *out);
// DT_E_ARGUMENT for a name that is none; *out is then empty.
dt_status_t dt__choices_parse(const char *names, dt_choices_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_CHOICES_H
