// SPDX-License-Identifier: Apache-2.0
// Why a function compiled, and why a call hits or misses its variants: as text for people, as
// structs or JSON lines for programs. The functions here read what a dt_function_t already holds.
// They trace and compile nothing, and never run on the call path.
#ifndef DUCTILE_EXPLAIN_H
#define DUCTILE_EXPLAIN_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a variant sees a dim of an input.
typedef enum dt_dim_state_t {
  DT_DIM_DYNAMIC = 0,     // any size in its range
  DT_DIM_STATIC = 1,      // one size, declared
  DT_DIM_SPECIALISED = 2, // one size, because the program asked for it
  DT_DIM_EQUAL = 3,       // the size of another dim
  DT_DIM_DERIVED = 4,     // computed from other dims
} dt_dim_state_t;
DT_API const char *dt_dim_state_name(dt_dim_state_t state); // "dynamic"; static storage [any]

// Why a variant was made.
typedef enum dt_compile_reason_t {
  DT_COMPILE_FIRST = 0,   // no variant yet
  DT_COMPILE_PREPARE = 1, // dt_function_prepare
  DT_COMPILE_MISS = 2,    // there were variants, but none accepted the arguments
} dt_compile_reason_t;
DT_API const char *dt_compile_reason_name(dt_compile_reason_t reason); // "miss" [any]

// In the structs below texts are never NULL; `file` is "" if no source line asked. Programs get
// each struct by pointer, so later versions may add fields at its end.

// A dim of a tensor, or the number passed as an integer or boolean argument.
typedef struct dt_dim_info_t {
  uint32_t input, dim;
  const char *name; // "x.size(1)", "n"
  const char *size; // "s1", "64", "2*s0"
  dt_dim_state_t state;
  const char *why; // "any size", "declared static", "s1 == 64 (sym_int, model.c:41)"
} dt_dim_info_t;

// A condition that a call must fulfil to run a variant.
typedef struct dt_guard_info_t {
  const char *guard; // "s0 <= 512"
  const char *op;    // the op that asked: "sym_true", "matmul"
  const char *file;
  int line;
} dt_guard_info_t;

// Code for one device, and the calls that it accepts.
typedef struct dt_variant_info_t {
  uint32_t number;
  uint32_t n_dims, n_guards;
  const dt_dim_info_t *const *dims;
  const dt_guard_info_t *const *guards;
  dt_device_t device; // whose code it is
  int32_t ordinal;
  // What dt_function_tune found for it, in this process or an earlier one: "long-slices: 1.9 ms for
  // 2.1 ms at x 8x128", or "as usual: …". "": it was not tuned.
  const char *tuned;
} dt_variant_info_t;

// Whether one variant accepts a call's arguments, and why not. On a hit the texts are "".
typedef struct dt_miss_info_t {
  uint32_t variant; // its number
  bool hit;
  const dt_guard_info_t *guard; // the first guard that does not hold: what was expected, who asked
  const char *actual;           // "s0 = 600 (batch)"
  const char *remedy;           // what to declare or change
  uint32_t n_facts;
  const char *const *facts; // other facts that fixed the dims that the guard reads, in order
} dt_miss_info_t;

// One compile, successful or not.
typedef struct dt_compile_info_t {
  uint32_t number; // of the variant
  dt_compile_reason_t reason;
  const dt_miss_info_t *miss; // if `reason` is DT_COMPILE_MISS: the miss of the nearest variant;
                              // else NULL
  uint64_t ns;                // wall time: tracing, compiling, publishing
  dt_code_t code;             // DT_OK: a variant was made
  const char *failure;        // the failure's message; "" without one
} dt_compile_info_t;

// The whole report: one function at one moment.
typedef struct dt_report_t {
  const char *function;
  uint32_t variant_limit;
  uint32_t n_variants; // oldest first
  const dt_variant_info_t *const *variants;
  bool asked;          // arguments were given; the fields from here to `misses` are about them
  dt_code_t refused;   // DT_OK: the declarations admit the arguments
  const char *refusal; // the message that a call gets
  const char *refusal_remedy;
  uint32_t n_misses; // one per variant; 0 if the declarations refuse
  const dt_miss_info_t *const *misses;
  uint32_t n_compiles; // oldest first
  const dt_compile_info_t *const *compiles;
  uint64_t forgotten; // older compiles that the history no longer holds
  uint64_t evicted;   // variants evicted for the runtime's limits on memory
} dt_report_t;

// Reports everything that is known of `function`, and whether its variants accept `inputs` (NULL
// with n_inputs 0: not asked). The call itself is not made. *out is the caller's, released with
// dt_report_free; NULL on failure. DT_E_ARGUMENT (a NULL, a wrong number of inputs),
// DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_report(dt_function_t *function, dt_tensor_t *const *inputs,
                                      uint32_t n_inputs, dt_report_t **out) DT_MUST_USE;
DT_API void dt_report_free(dt_report_t *report); // NULL allowed [any, each report once]

// Parts of a report, or'ed; 0 means all.
typedef enum dt_report_part_t {
  DT_REPORT_VARIANTS = 1, // dims and guards of each variant
  DT_REPORT_CALL = 2,     // whether the variants accept the arguments
  DT_REPORT_COMPILES = 4, // the history
} dt_report_part_t;
// The report as text for people, or as JSON lines: objects whose "event" is "variant", "hit",
// "miss", "refused" or "compile". *out is released with dt_text_free. DT_E_ARGUMENT (a NULL, a part
// that is none), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_report_text(const dt_report_t *report, uint32_t parts,
                                  char **out) DT_MUST_USE;
DT_API dt_status_t dt_report_json(const dt_report_t *report, uint32_t parts,
                                  char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_EXPLAIN_H
