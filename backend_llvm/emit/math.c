// SPDX-License-Identifier: Apache-2.0
// Entry points of the elementary functions: dispatch over math_table.def. The emitters are in
// math_exp.c, math_log.c, math_pow.c, math_trig.c, math_inverse.c and math_erf.c.
#include "backend_llvm/emit/math.h"

#include "backend_llvm/emit/math_build.h"

typedef dt_val_t (*emit_fn_t)(const dt_math_build_t *b, dt_val_t x);

static const emit_fn_t EMITTERS[DT_MATH_COUNT] = {
#define MATH(id, name, ulp_f32, ulp_f64) [DT_MATH_##id] = dt__math_##name,
#include "backend_llvm/emit/math_table.def"
};

LLVMValueRef dt__emit_math(const dt_emit_math_t *m, dt_math_fn_t fn, LLVMValueRef x) {
  dt_math_build_t b;
  dt__math_build_init(&b, m, LLVMTypeOf(x));
  return EMITTERS[fn](&b, x);
}

dt_val_t dt__math_rsqrt(const dt_math_build_t *b, dt_val_t x) {
  return f_div(b, dt__math_f(b, 1.0), f_sqrt(b, x));
}
