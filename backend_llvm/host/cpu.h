// SPDX-License-Identifier: Apache-2.0
// What a CPU can do, as a set of features (features.def): by asking it, without LLVM. Sets are
// compared, names of CPUs never.
#ifndef DT_BACKEND_LLVM_HOST_CPU_H
#define DT_BACKEND_LLVM_HOST_CPU_H

#include "ductile/base.h"
#include "runtime/base/text.h"

typedef enum dt_cpu_feature_t {
#define FEATURE(id, name, level, leaf, part, reg, bit, state) DT_CPU_##id,
#include "backend_llvm/host/features.def"
  DT_CPU_FEATURES
} dt_cpu_feature_t;

typedef uint64_t dt_cpu_set_t; // bits of dt_cpu_feature_t
_Static_assert(DT_CPU_FEATURES <= 64, "bits of dt_cpu_set_t");

static inline bool dt__cpu_has(dt_cpu_set_t set, dt_cpu_feature_t feature) {
  return set >> feature & 1;
}

// What this machine has and its system saves. Empty where it is no x86-64.
dt_cpu_set_t dt__cpu_host(void);
// "AuthenticAMD 25 17 1": maker, family, model, stepping; "" where it is no x86-64.
void dt__cpu_model(char *out, size_t room);

// The set that the name stands for: x86-64, x86-64-v2, x86-64-v3, x86-64-v4, or one of the last two
// with the dot products of bytes that fit it: x86-64-v3+vnni, x86-64-v4+vnni. False: it is none.
bool dt__cpu_level(const char *name, dt_cpu_set_t *out);
// The name of the largest of the first four within `set`.
const char *dt__cpu_level_within(dt_cpu_set_t set);
// The set of a level's name and of features behind it, as dt__cpu_print writes them with "+"; what
// is none of either is left out.
dt_cpu_set_t dt__cpu_set(const char *level, const char *features);
// "+avx512bf16,+gfni": features by the code generator's names, each with `before`.
void dt__cpu_print(dt_cpu_set_t set, const char *before, dt_text_t *out);

#endif // DT_BACKEND_LLVM_HOST_CPU_H
