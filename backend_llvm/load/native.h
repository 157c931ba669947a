// SPDX-License-Identifier: Apache-2.0
// Machine code in memory and how it is called: the ABI between generated code and the runtime. No
// LLVM here, so that a build without it can run packaged code.
//
// Layouts below are read by generated code: change them only together with backend_llvm/emit.
#ifndef DT_BACKEND_LLVM_LOAD_NATIVE_H
#define DT_BACKEND_LLVM_LOAD_NATIVE_H

#include "backend_llvm/load/image.h"
#include "ductile/op.h"

// The first failure of a data check in one call. Written by compare-and-swap on `check` (0 → index
// + 1), the values after it by whoever won.
#define DT_RECORD_STATUS (-1) // in `check`: `value` is a dt_status_t, which the record owns
typedef struct dt_launch_record_t {
  _Atomic int64_t check; // 0: none; else index into the program's checks, plus 1; or the above
  int64_t value, extent; // the offending index as loaded, and the size it must be below
} dt_launch_record_t;

// Runs grid items [begin, end) of a kernel. `words` are its parameters: the addresses of its
// buffers in order of dt_kernel_params_t, then the values of its symbols. `scratch` is 64-byte
// aligned memory of the calling worker, at least the kernel's scratch bytes.
typedef void (*dt_kernel_fn_t)(const uint64_t *words, int64_t begin, int64_t end, void *scratch,
                               dt_launch_record_t *record);

// A call of a user's op, whose kernel is no code of ours.
typedef struct dt_external_entry_t {
  dt_kernel_fn_t fn; // which is launched
  dt_op_args_t args; // without the lists of tensors
} dt_external_entry_t;
// The words of its kernel. On a device: the entry's address, the addresses of the operands and of
// the results, then the sizes and strides of each, in the same order. Where kernels are called in
// place: the entry's address; from word DT_EXTERNAL_ARGS on a dt_op_args_t, complete; the list of
// its tensors, operands first; the tensors; and their sizes and strides.
#define DT_EXTERNAL_ARGS 1
#define DT_EXTERNAL_ARGS_WORDS (sizeof(dt_op_args_t) / 8)
#define DT_EXTERNAL_TENSOR_WORDS (sizeof(dt_op_tensor_t) / 8)

// One call of a program. Owned by the caller (a session); the first part is set before plan, the
// second by plan. A program that reads numbers from its own data is planned and run in segments, in
// order: the plan of a later one reads them (from the block, or from arguments, constants, ONCE
// memory) into `symbols`.
#define DT_FRAME_VERSION 4u // of what generated code knows of this file and of dt_control_t
typedef struct dt_frame_t {
  // In.
  uint32_t version; // DT_FRAME_VERSION
  // What may end the call before its time; generated code looks at it at each trip of a loop. NULL:
  // nothing does.
  struct dt_control_t *control;
  int64_t *symbols;                            // values by symbol index
  void *const *inputs;                         // address of element 0 of each argument
  void *const *constants;                      // address of each constant
  void *const *once;                           // address of each ONCE buffer, in their order
  const dt_kernel_fn_t *kernels;               // by code index (dt_unit_map_t)
  const dt_external_entry_t *const *externals; // by call of a user's op
  // Set by plan.
  int64_t block_bytes;   // leased block wanted, never less than before; the caller then sets
                         // `block`, with what was in it kept
  int64_t scratch_bytes; // scratch wanted for each worker, the largest of all kernels
  int64_t *output_sizes; // sizes of all outputs, one after another; memory by the caller
  // In, for run.
  char *block;
  void *const *outputs; // address of element 0 of each result, contiguous
  // Items where generated code cannot read them (device memory): dt_readbacks_<k> writes the
  // addresses of those that segment k begins with to readback_addresses[item], and the plan of
  // segment k reads their values from readback_values[item]. NULL where it reads memory itself.
  uint64_t *readback_addresses;
  const int64_t *readback_values;
  // Called by generated code for every kernel with at least one grid item. On a device for those
  // without one, too (`count` is 0 or less); there `fn` is the entry of `kernels` as it is, and
  // `grain` the bytes of scratch that a grid item's team needs.
  void (*launch)(struct dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                 int64_t grain);
  dt_launch_record_t record;
  // Where data decides about regions of kernels, in code for devices (that for CPUs reads
  // predicates itself, and calls neither).
  // What the byte at `predicate` is, once all that was launched before is done. 0 after a failure,
  // so that no loop goes on; the failure is the callback's to keep.
  int64_t (*read_flag)(struct dt_frame_t *frame, const void *predicate);
  // Told of every region as it begins and ends (dt_region_mark_t), when not NULL. Then read_flag is
  // not called: each region's kernels are handed to `launch` once, whatever its predicate says, for
  // a caller that builds something of them.
  void (*region)(struct dt_frame_t *frame, int64_t mark, const void *predicate);
  void *owner; // of who made the callbacks; generated code does not look at it
  // Which of the program's kernels is launched next. Set by once: the first of its step; by run:
  // 1 + its number, where it is one of several steps that share code the first one's.
  int64_t kernel;
} dt_frame_t;

// Marks nest: IF … [ELSE …] ENDIF, SWITCH … CASE … CASE … ENDSWITCH, and WHILE … AGAIN, after whose
// kernels the predicate says whether they run again. A SWITCH comes with the number of its cases
// (DT_MARK_CASES): a predicate that is none of them means the last. The predicate of a WHILE is
// written before it. The numbers are generated code's.
typedef enum dt_region_mark_t {
  DT_MARK_IF = 0,
  DT_MARK_ELSE = 1,
  DT_MARK_ENDIF = 2,
  DT_MARK_WHILE = 3,
  DT_MARK_AGAIN = 4,
  DT_MARK_SWITCH = 5,
  DT_MARK_CASE = 6,
  DT_MARK_ENDSWITCH = 7,
} dt_region_mark_t;
#define DT_MARK_CASES 8 // bits below the number of cases in a mark

// Entry points of a host program, plan and run once a segment. plan: 0, or index + 1 of the first
// failed assert of the program's graph, or -1 when a size or byte count overflows its limit, or
// DT_PLAN_NO_NUMBER when a number that the program makes of sizes does not fit in 64 bits, or
// -2 - index of an item whose value, by then in `symbols`, is outside of its range. once: runs the
// ONCE kernels (needs once, constants, kernels, launch, scratch as of `once_scratch_bytes`). run:
// the others but those that update arguments, which are commit's, after the last run.
#define DT_PLAN_NO_NUMBER INT64_MIN
typedef int64_t (*dt_host_plan_fn_t)(dt_frame_t *frame);
typedef void (*dt_host_run_fn_t)(dt_frame_t *frame);

// An image (image.h) loaded: mapped from a file where it is given one and the system lets code run
// from there, else copied, written, then made read-and-execute; no mapping is ever both (code.h).
typedef struct dt_native dt_native_t;
typedef struct dt_native_file_t {
  int fd;
  uint64_t offset; // of the image's bytes, at a page
} dt_native_file_t;
dt_status_t dt__native_load_image(const dt_image_t *image, const dt_native_file_t *file,
                                  dt_native_t **out) DT_MUST_USE;
// The image of one object file.
dt_status_t dt__native_load(const void *object, size_t bytes, dt_native_t **out) DT_MUST_USE;
void dt__native_unload(dt_native_t *native); // NULL allowed; no code of it may be running
// Address of a defined global function, NULL if there is none.
void *dt__native_symbol(const dt_native_t *native, const char *name);
// Defined global function `index`, with its code up to the next one; false: there are no more. In
// no order.
typedef struct dt_native_function_t {
  const char *name;
  const void *code;
  size_t bytes;
} dt_native_function_t;
bool dt__native_function(const dt_native_t *native, uint32_t index, dt_native_function_t *out);
size_t dt__native_bytes(const dt_native_t *native);   // mapped
bool dt__native_is_mapped(const dt_native_t *native); // from a file

#endif // DT_BACKEND_LLVM_LOAD_NATIVE_H
