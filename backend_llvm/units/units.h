// SPDX-License-Identifier: Apache-2.0
// What a compile is cut into, and what is told whoever makes its code: units, segments, options.
#ifndef DT_BACKEND_LLVM_UNITS_UNITS_H
#define DT_BACKEND_LLVM_UNITS_UNITS_H

#include "fuse/fuse.h"

#define DT_NO_CODE UINT32_MAX

// The first kernel and schedule that became a code.
typedef struct dt_code_origin_t {
  uint32_t kernel, schedule;
} dt_code_origin_t;

// What a unit has at most, in about as many instructions of LLVM's; one code may have more.
// Measured by bench/bench_compile.c: `scripts/bench compile`.
#define DT_UNIT_WORK 12000
#define DT_UNIT_WORK_ANY UINT64_MAX // units are as many as threads want

// How a program is cut: distinct kernel codes (equal kernels share one, and so do equal chains),
// grouped into units of about equal cost, and one unit more for the host program (always the last).
typedef struct dt_unit_map_t {
  uint32_t n_kernels;       // of the program
  uint32_t *code_of_kernel; // program kernel and schedule → code index: [first_code[k] + schedule];
                            // makers of chains have none of their own
  uint32_t *first_code;
  uint32_t n_codes;
  uint32_t *unit_of_code;
  uint32_t *entry_of_code;  // the first code that shares its entry; on CPUs the code itself
  uint32_t *member_of_code; // which of that entry's it is, from 0 on, in order of code indices
  dt_code_origin_t *origin_of_code;
  uint64_t *work_of_code; // about how many instructions of LLVM's it is
  uint32_t n_units;       // host unit included
} dt_unit_map_t;
// Arrays in program->arena. `max_units` >= 2: more are made where units would have more than
// `unit_work`.
dt_status_t dt__llvm_split(dt_program_t *program, const dt_target_t *target, uint32_t max_units,
                           uint64_t unit_work, dt_unit_map_t *out) DT_MUST_USE;

// About how many bytes compiling a unit takes while it is under way: its copy of the environment,
// modules, LLVM's tables, code.
uint64_t dt__llvm_unit_bytes(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit);

#define DT_LLVM_LEVELS 4
typedef struct dt_compile_options_t {
  bool verify; // LLVM's verifier, besides the allow-list (always on in debug builds)
  bool quick;  // code that is wanted soon rather than fast
  // The same of kernels for CPUs: their quick form, of the same bits.
  bool quick_kernels;
  // 0: as ever; 1 to DT_LLVM_LEVELS: CPU code as LLVM makes it at its own levels, -O0 to -O3, so
  // that tests can compare what they compute.
  uint32_t llvm_level;
  const char *dump_name; // function name for dumps of LLVM IR and of a device's text, or NULL
  uint32_t dump_variant;
} dt_compile_options_t;

// ---- Segments (segments.c) -----------------------------------------------------------------------
// What one segment of a call plans and runs: readbacks and kernels [first, end). A program without
// segments has one.
typedef struct dt_segment_span_t {
  uint32_t readback, readback_end;
  uint32_t kernel, kernel_end;
  dt_sym_t block_bytes; // none: 0
} dt_segment_span_t;
uint32_t dt__llvm_segment_count(const dt_program_t *program);
dt_segment_span_t dt__llvm_segment_span(const dt_program_t *program, uint32_t segment);
// Every readback and every kernel stands in one segment, in order; readbacks are as loop.h says.
dt_status_t dt__llvm_segments_verify(const dt_program_t *program) DT_MUST_USE;
// The first segment whose plan knows the value of `e`, or all sizes of a buffer.
uint32_t dt__llvm_segment_of(const dt_program_t *program, dt_sym_t e);
uint32_t dt__llvm_sizes_segment(const dt_program_t *program, dt_buffer_id_t id);

#endif // DT_BACKEND_LLVM_UNITS_UNITS_H
