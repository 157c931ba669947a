// SPDX-License-Identifier: Apache-2.0
// The state of one unit's emission: LLVM objects, the private copy of the program, and small
// helpers over LLVM's builder that are the same for scalars and vectors. Building never stops
// half-way: the first failure is kept (dt__emit_fail) and a poison value is returned, so callers
// check once.
#ifndef DT_BACKEND_LLVM_EMIT_CONTEXT_H
#define DT_BACKEND_LLVM_EMIT_CONTEXT_H

#include "backend_llvm/emit/compile.h"
#include "backend_llvm/emit/llvm_compat.h"
#include "backend_llvm/emit/math.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#define DT_MAX_UNROLL 8
#define DT_MAX_LANES 64

struct dt_body_t;
struct dt_emit_t;
struct dt_tables_t;

// What the code generator of a device does in its own way. Threads that share a grid item are a
// team; all of a team's threads run the same scopes.
typedef struct dt_device_emit_t {
  const char *intrinsics; // how LLVM's names of its own begin
  dt_fast_math_t fast;    // elementary functions take these, but under strict_fp
  bool halves;            // it adds and multiplies them as they are, rounding once (halves.h)
  // Memory accesses before it are seen by the team's threads after it.
  void (*sync)(struct dt_body_t *k);
  // The value of the thread whose rank differs by `distance` (a power of two), in its group.
  LLVMValueRef (*exchange)(struct dt_body_t *k, LLVMValueRef value, uint32_t distance);
  // Teams of several groups: the first thread of each group hands in its value; thread i of every
  // group gets that of group i modulo their number. `slot` is unique in the kernel.
  LLVMValueRef (*gather)(struct dt_body_t *k, LLVMValueRef value, uint32_t slot);
  // One tile of a matrix product, at its two coordinates among the tiles (body.h's
  // dt__matmul_item).
  void (*matmul)(struct dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row);
  // One square of a TILES schedule, at its position in the last two loops.
  void (*tile)(struct dt_body_t *k, LLVMValueRef row, LLVMValueRef col);
  // The two parts of the function that keeps a call's first failed check in its record: whether
  // nobody was there before (an i1), and what the record is filled with then.
  LLVMValueRef (*claim)(struct dt_emit_t *m, LLVMValueRef record, LLVMValueRef check);
  void (*fill)(struct dt_emit_t *m, LLVMValueRef record, LLVMValueRef check, LLVMValueRef value,
               LLVMValueRef extent);
  // After all passes: changes what the device's own assembler would make poor code of. Returns the
  // passes that go with it (LLVM's text); NULL: nothing has changed.
  const char *(*settle)(struct dt_emit_t *m);
} dt_device_emit_t;

typedef struct dt_emit_t {
  const dt_device_emit_t *device; // NULL: a CPU
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  LLVMTargetMachineRef machine;
  const dt_target_t *target;
  dt_program_t program; // a shallow copy whose environment and arena are this unit's own
  dt_symenv_t *env;
  dt_arena_t arena;
  dt_emit_math_t math;
  struct dt_tables_t *tables; // of one body after another (body.h); NULL: there was none yet
  LLVMTypeRef t_i1, t_i8, t_i16, t_i32, t_i64, t_f32, t_f64, t_ptr, t_void;
  uint32_t member;        // devices: which of its entry's codes is emitted
  LLVMValueRef fn_report; // internal functions, made on first use
  LLVMValueRef fn_fmod, fn_power;
  dt_status_t failure; // the first one
  bool entered;        // counted as inside a generator (runtime/base/life.h), until dt__emit_fini
} dt_emit_t;

// Sets up everything but the machine. `program` NULL: code that is no kernel's; then there is no
// environment either.
dt_status_t dt__emit_open(dt_emit_t *m, const dt_program_t *program, const dt_target_t *target,
                          const char *name) DT_MUST_USE;
// The same with a machine for `target`, or for its host where it is a device.
dt_status_t dt__emit_init(dt_emit_t *m, const dt_program_t *program, const dt_target_t *target,
                          const dt_compile_options_t *options, const char *name) DT_MUST_USE;
// A kind of machine that LLVM generates code for.
typedef struct dt_llvm_machine_t {
  const char *triple;
  void (*enter)(void); // tells LLVM of it
  bool entered;        // under the lock of dt__emit_machine
} dt_llvm_machine_t;

// The code generator for machines of `kind`, with target->cpu and target->features. LLVM's list of
// kinds is one for the process, without a lock of its own: every kind enters it here.
dt_status_t dt__emit_machine(dt_emit_t *m, dt_llvm_machine_t *kind, const dt_target_t *target,
                             LLVMCodeGenOptLevel level) DT_MUST_USE;
// How hard LLVM is to try.
typedef struct dt_llvm_level_t {
  const char *passes; // of kernels and the host program; NULL: our own lists
  LLVMCodeGenOptLevel machine;
} dt_llvm_level_t;
const dt_llvm_level_t *dt__llvm_level(const dt_compile_options_t *options); // NULL: the usual
void dt__emit_fini(dt_emit_t *m);
// Checks, passes (LLVM's text; NULL: none) and code generation: the object is the caller's
// (dt__free). `host`: may call through pointers. `order` is for dumps.
dt_status_t dt__emit_finish(dt_emit_t *m, const char *passes, bool host,
                            const dt_compile_options_t *options, uint32_t order, void **out_object,
                            size_t *out_bytes) DT_MUST_USE;
// Hands over the first failure, of emission or of the environment.
dt_status_t dt__emit_take_failure(dt_emit_t *m) DT_MUST_USE;
// Keeps the first failure; consumes `status`.
void dt__emit_fail(dt_emit_t *m, dt_status_t status);

// A function of the unit: internal or exported, with the attributes all our code has.
LLVMValueRef dt__emit_function(dt_emit_t *m, const char *name, LLVMTypeRef type, bool exported);
void dt__emit_noinline(dt_emit_t *m, LLVMValueRef fn);
// Integer ops on the bits of floats stay integer ops.
void dt__emit_keep_bits(dt_emit_t *m, LLVMValueRef fn);
LLVMBasicBlockRef dt__emit_block(dt_emit_t *m, LLVMValueRef fn, const char *name);
// Where code of an open block goes on: before its terminator, or at its end while it has none.
void dt__emit_resume(dt_emit_t *m, LLVMBasicBlockRef block);

// ---- Types -------------------------------------------------------------------------------------------
// The type a value of `dtype` has in registers (BOOL: i1) and in memory (BOOL: i8).
LLVMTypeRef dt__emit_type(const dt_emit_t *m, dt_dtype_t dtype);
LLVMTypeRef dt__emit_memory_type(const dt_emit_t *m, dt_dtype_t dtype);
// Lanes of a vector type; 0 for a scalar.
uint32_t dt__emit_lanes(LLVMTypeRef type);
// `scalar` itself, or a vector of it with `lanes` lanes.
LLVMTypeRef dt__emit_widen(LLVMTypeRef scalar, uint32_t lanes);
// `scalar` with the lanes of `value`'s type.
LLVMTypeRef dt__emit_like(LLVMValueRef value, LLVMTypeRef scalar);

// ---- Values ------------------------------------------------------------------------------------------
LLVMValueRef dt__emit_i64(const dt_emit_t *m, int64_t value);
LLVMValueRef dt__emit_i32(const dt_emit_t *m, uint32_t value);
// A literal of `type` (vectors: in every lane); integers take `i`, floats `f`.
LLVMValueRef dt__emit_int(LLVMTypeRef type, int64_t value);
LLVMValueRef dt__emit_float(LLVMTypeRef type, double value);
LLVMValueRef dt__emit_constant(const dt_emit_t *m, dt_dtype_t dtype, dt_scalar_t value);
// The value in every lane.
LLVMValueRef dt__emit_splat(dt_emit_t *m, LLVMValueRef value, uint32_t lanes);
// <0, step, 2 step, …> of integer `scalar`.
LLVMValueRef dt__emit_ramp(LLVMTypeRef scalar, uint32_t lanes, int64_t step);
// A call of an intrinsic overloaded over `types`.
LLVMValueRef dt__emit_intrinsic(dt_emit_t *m, const char *name, LLVMTypeRef *types,
                                uint32_t n_types, LLVMValueRef *args, uint32_t n_args);
// The usual case: overloaded over the type of the first argument.
LLVMValueRef dt__emit_intrinsic1(dt_emit_t *m, const char *name, LLVMValueRef x);
LLVMValueRef dt__emit_intrinsic2(dt_emit_t *m, const char *name, LLVMValueRef x, LLVMValueRef y);
// a * b + c: one rounding where the target has it and the policy allows.
LLVMValueRef dt__emit_mul_add(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
// Address `bytes` (i64) after `base`.
LLVMValueRef dt__emit_offset(dt_emit_t *m, LLVMValueRef base, LLVMValueRef bytes);
// Address of element `index` (i64, or a vector of integers for many addresses).
LLVMValueRef dt__emit_element(dt_emit_t *m, LLVMTypeRef element, LLVMValueRef base,
                              LLVMValueRef index);

// ---- Memory ------------------------------------------------------------------------------------------
// What loads may assume of addresses of elements: nothing on a CPU, where constants are read where
// a file has them. Its code is the same either way.
unsigned dt__load_alignment(const dt_emit_t *m, dt_dtype_t dtype);
// Elements of `dtype` as values (BOOL: i1). Scalar, or `lanes` neighbours from `address`; `mask`
// (vector of i1) may be NULL; lanes that are off read nothing and give `other` (NULL: zero).
LLVMValueRef dt__emit_load(dt_emit_t *m, dt_dtype_t dtype, uint32_t lanes, LLVMValueRef address,
                           LLVMValueRef mask, LLVMValueRef other);
void dt__emit_store(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef address,
                    LLVMValueRef mask);
// The same without masks, at an address that is a multiple of `alignment` bytes; `invariant`:
// nothing writes there while the kernel runs.
LLVMValueRef dt__emit_load_at(dt_emit_t *m, dt_dtype_t dtype, uint32_t lanes, LLVMValueRef address,
                              uint32_t alignment, bool invariant);
void dt__emit_store_at(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef address,
                       uint32_t alignment);
// One address a lane. `dead` is an address that can always be read: where gathers are made of
// scalar loads, lanes that are off read it.
LLVMValueRef dt__emit_gather(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef addresses,
                             LLVMValueRef mask, LLVMValueRef other, LLVMValueRef dead);
void dt__emit_scatter(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef addresses,
                      LLVMValueRef mask);

// How many of `count` ascending elements at `base`, `stride` apart, are less than `wanted`
// (inclusive: or equal), a scalar or a vector; i64 (search.c). `dead` as for gathers.
typedef struct dt_search_t {
  dt_dtype_t dtype;
  bool inclusive;
  LLVMValueRef base, count, stride, dead;
} dt_search_t;
LLVMValueRef dt__emit_search(dt_emit_t *m, const dt_search_t *search, LLVMValueRef wanted);

// ---- Scalar ops (scalar.c) -----------------------------------------------------------------------------
// `dtype` is that of the operands (of the second and third for where); scalars or vectors alike.
LLVMValueRef dt__emit_scalar_op(dt_emit_t *m, dt_scalar_op_t op, dt_dtype_t dtype,
                                LLVMValueRef *args);
// Of seed, offset and index (philox.c).
LLVMValueRef dt__emit_philox(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *args);
LLVMValueRef dt__emit_cast(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef value);
// Division by something that stays the same over many dividends: what is made of the divisor once,
// and the quotient from it, within one unit in the last place (scalar.c says how).
typedef struct dt_divisor_t {
  LLVMValueRef divisor, reciprocal, scale, ordinary;
} dt_divisor_t;
dt_divisor_t dt__emit_divisor(dt_emit_t *m, LLVMValueRef divisor);
LLVMValueRef dt__emit_divide(dt_emit_t *m, LLVMValueRef x, const dt_divisor_t *by);
// The larger (smaller) of two; NaN if either is.
LLVMValueRef dt__emit_extremum(dt_emit_t *m, dt_dtype_t dtype, bool larger, LLVMValueRef a,
                               LLVMValueRef b);

#endif // DT_BACKEND_LLVM_EMIT_CONTEXT_H
