// SPDX-License-Identifier: Apache-2.0
// The PTX simulator's program form: what the reader makes of a module's text, and what the runner
// executes. A module is decoded once into an array of instructions whose registers are slots,
// whose labels are positions, and whose work is a function. Callees lie before their callers, so
// that among a warp's threads the lowest position is also the deepest call.
#ifndef DT_TESTS_FAKE_CUDA_PTX_H
#define DT_TESTS_FAKE_CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_LANES 32
#define PTX_NONE UINT32_MAX
#define PTX_DEVICE_OFFSET ((uint64_t)1 << 46) // between host and device addresses

typedef enum ptx_type_t {
  PTX_NO_TYPE,
#define PTX_TYPE(id, name, bytes, kind) PTX_##id,
#include "test/fake_cuda/ptx_types.def"
  PTX_TYPE_COUNT
} ptx_type_t;
typedef enum ptx_kind_t { PTX_BITS, PTX_UINT, PTX_SINT, PTX_FLOAT } ptx_kind_t;
uint32_t ptx_type_bytes(ptx_type_t type);
ptx_kind_t ptx_type_kind(ptx_type_t type);

typedef enum ptx_space_t {
  PTX_GENERIC,
  PTX_GLOBAL,
  PTX_SHARED,
  PTX_LOCAL,
  PTX_PARAM, // of the entry
  PTX_CONST,
} ptx_space_t;
// Where generic addresses of shared and local memory and of the entry's parameters begin.
#define PTX_WINDOW(space) ((uint64_t)(space) << 60)

typedef enum ptx_round_t { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNA } ptx_round_t;
typedef enum ptx_compare_t {
  PTX_EQ,
  PTX_NE,
  PTX_LT,
  PTX_LE,
  PTX_GT,
  PTX_GE,
  PTX_NUM,
  PTX_NAN,
} ptx_compare_t;
typedef enum ptx_combine_t { PTX_ALONE, PTX_AND, PTX_OR, PTX_XOR } ptx_combine_t;
typedef enum ptx_action_t {
  PTX_ADD,
  PTX_MIN,
  PTX_MAX,
  PTX_BIT_AND,
  PTX_BIT_OR,
  PTX_BIT_XOR,
  PTX_EXCHANGE,
  PTX_CAS,
  PTX_INC,
  PTX_DEC,
} ptx_action_t;

// How the threads go on after an instruction.
typedef enum ptx_flow_t {
  PTX_NEXT, // to the next one
  PTX_JUMP, // where its function says
  PTX_MEET, // once all threads that it names have come
} ptx_flow_t;

typedef struct ptx_insn_t ptx_insn_t;
typedef struct ptx_warp_t ptx_warp_t;
typedef struct ptx_run_t ptx_run_t;
typedef uint64_t (*ptx_scalar_t)(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                 const ptx_insn_t *in);
// Does the work of the threads in `mask`.
typedef void (*ptx_exec_t)(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask);
// The threads that must come before a PTX_MEET instruction runs.
typedef uint32_t (*ptx_members_t)(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane);

struct ptx_insn_t {
  ptx_exec_t exec;
  ptx_scalar_t scalar;
  ptx_members_t members;
  int32_t out[4], in[10]; // slots; a source below 0 is the constant ~slot
  uint16_t in_not;        // a bit a source that is a negated predicate
  uint8_t n_out, n_in;
  int32_t guard; // slot of the predicate; -1: none
  bool guard_not;
  uint8_t flow, type, from, width, space, round, compare, combine, action, mode;
  bool ftz, sat, nan, approx, relu, strong, integral, anywhere, has_count, absolute;
  int64_t offset, second_offset; // of addresses
  uint32_t line, target;
  uint32_t extra; // index of a call or of a list of targets
};

// Copies made by a call: from slots of the caller to slots of the callee, and back.
typedef struct ptx_copy_t {
  int32_t to, from;
} ptx_copy_t;
typedef struct ptx_call_t {
  uint32_t function; // index
  uint32_t n_in, n_out;
  ptx_copy_t *in, *out;
} ptx_call_t;

typedef struct ptx_param_t {
  char *name;
  uint32_t offset, bytes; // of an entry's parameter, in its block
  int32_t slot, n_slots;  // of a function's
} ptx_param_t;

typedef struct ptx_function_t {
  char *name;
  bool entry, defined;
  ptx_param_t *params, *results;
  uint32_t n_params, n_results, param_bytes;
  ptx_insn_t *code; // until linked
  uint32_t n_code, room;
  uint32_t begin, end; // in the module's code
  int32_t return_slot; // where to go on after ret
  uint32_t *callees;   // functions that it calls
  uint32_t n_callees;
  uint32_t registers; // declared, in units of 32 bits
  // What it declares itself: registers' slots, and local memory of a thread.
  uint32_t slot_begin, slot_end, local_begin, local_end;
  uint32_t shared_bytes;                // of static variables, as the function's attribute says
  uint32_t shared_end;                  // where they end in the block's shared memory
  uint32_t max_threads[3], required[3]; // 0: not said
  uint32_t cluster[3];                  // blocks; 0: not said
} ptx_function_t;

// A variable of the module, at its place in the space.
typedef struct ptx_variable_t {
  char *name;
  ptx_space_t space;
  uint32_t bytes, align;
  uint64_t address; // offset, or for global and const the device address
  bool dynamic;     // extern .shared
  uint32_t owner;   // the entry that alone sees it, or PTX_NONE
  unsigned char *host;
  void *base;
} ptx_variable_t;

// A constant that is a variable's address, known once all variables are.
typedef struct ptx_patch_t {
  uint32_t constant, variable, function;
} ptx_patch_t;

typedef struct ptx_targets_t {
  uint32_t *at;
  uint32_t n;
  bool placed; // positions are the module's, not the function's
} ptx_targets_t;

// Where the sums of a product by a group of warps are.
#define PTX_GROUP_SUMS 128
typedef struct ptx_sums_t {
  int32_t slots[PTX_GROUP_SUMS];
} ptx_sums_t;

typedef struct ptx_module_t {
  char *text;
  char **lines; // each line's text; line numbers begin at 1
  uint32_t n_lines;
  ptx_function_t *functions;
  uint32_t n_functions;
  ptx_variable_t *variables;
  uint32_t n_variables;
  ptx_call_t *calls;
  uint32_t n_calls;
  ptx_targets_t *targets;
  uint32_t n_targets;
  ptx_sums_t *sums;
  uint32_t n_sums;
  ptx_insn_t *code;
  uint32_t n_code;
  uint64_t *constants; // a value a lane
  uint32_t n_constants;
  ptx_patch_t *patches;
  uint32_t n_patches;
  uint32_t n_slots;       // of a warp's registers
  uint32_t dynamic_begin; // where dynamic shared memory begins
  uint32_t local_bytes;
  char error[512];
} ptx_module_t;

// Special registers that have slots of their own, in every module the same.
typedef enum ptx_special_t {
#define PTX_SPECIAL(id, name) PTX_SP_##id,
#include "test/fake_cuda/ptx_special.def"
  PTX_SPECIAL_COUNT
} ptx_special_t;

// Reads a NUL-terminated text. NULL only without memory; else a module whose `error` is "" or says
// what is wrong with which line. Destroy it either way.
ptx_module_t *ptx_module_create(const char *text);
void ptx_module_destroy(ptx_module_t *module);
const ptx_function_t *ptx_find_entry(const ptx_module_t *module, const char *name);

#endif // DT_TESTS_FAKE_CUDA_PTX_H
