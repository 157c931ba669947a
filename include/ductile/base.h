// SPDX-License-Identifier: Apache-2.0
// Version, export macros, statuses and element types: what every other public header needs.
//
// Thread tags used in all public headers:
//   [any]      may be called from any thread at any time.
//   [external] calls on one object must not overlap; different objects are independent.
#ifndef DUCTILE_BASE_H
#define DUCTILE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DT_API __attribute__((visibility("default")))
#define DT_MUST_USE __attribute__((warn_unused_result))
#define DT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define DT_API
#define DT_MUST_USE
#define DT_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version of these headers; dt_version says the library's.
#define DT_VERSION_MAJOR 0
#define DT_VERSION_MINOR 1
#define DT_VERSION_PATCH 0

// The library's version as "major.minor.patch"; static storage. [any]
DT_API const char *dt_version(void);

// ---- Status -------------------------------------------------------------------------------------

// What went wrong, for programs. The message says the rest, for people.
typedef enum dt_code_t {
  DT_OK = 0,
  DT_E_ARGUMENT = 1,    // a null pointer, a wrong count, an option out of range
  DT_E_SHAPE = 2,       // sizes, rank or strides do not fit what the program asks
  DT_E_DTYPE = 3,       // an element type does not fit
  DT_E_RANGE = 4,       // data outside its allowed range (an index outside its table)
  DT_E_LIMIT = 5,       // a stated limit is exceeded (tensor bytes, rank, variants)
  DT_E_NO_MEMORY = 6,   // an allocation failed
  DT_E_UNSUPPORTED = 7, // valid, but this build or device cannot do it
  DT_E_FORMAT = 8,      // a file or text is malformed
  DT_E_IO = 9,          // the operating system refused a file operation
  DT_E_COMPILE = 10,    // code generation failed
  DT_E_FORKED = 11,     // used in a child after fork
  DT_E_STATE = 12,      // called at the wrong time (a trace that has ended, a stale output)
  DT_E_INTERNAL = 13,   // a broken invariant of ours: please report
  DT_E_DEVICE = 14,     // the device or its driver failed; lost ones (device.h) need a new process
  DT_E_DEADLINE = 15,   // the time that the caller gave has passed
  DT_E_CANCELLED = 16,  // the caller asked for an end (dt_cancel_request)
} dt_code_t;

// A result. NULL is success; anything else is owned by whoever received it and is released with
// dt_status_free. Pointer-sized, cheap to pass by value.
typedef struct dt_status *dt_status_t;

// The code of `status` (DT_OK for NULL). Borrows. [any]
DT_API dt_code_t dt_status_code(dt_status_t status);
// The code's name, such as "DT_E_SHAPE"; static storage. [any]
DT_API const char *dt_code_name(dt_code_t code);
// The message: what happened, expected and actual, and what to do, outermost context first.
// "" for NULL. Valid until the status is freed. [any]
DT_API const char *dt_status_message(dt_status_t status);
// Releases a status; NULL is allowed. [any, each status once]
DT_API void dt_status_free(dt_status_t status);

// Releases a text that a function here gave out; NULL is allowed. [any, each text once]
DT_API void dt_text_free(char *text);

// ---- Cancelling ---------------------------------------------------------------------------------

// Ends calls that were given it (dt_call_options_t, dt_prepare_options_t, dt_onnx_options_t,
// dt_onnx_function_options_t) and have not ended. In the caller's memory, valid when zeroed; any
// number of calls may share one. It must stay until they have returned, and is read and written by
// the functions below and the library alone.
typedef struct dt_cancel_t {
  int32_t requested;
} dt_cancel_t;
// From any thread and any signal handler: those calls, and later ones, end with DT_E_CANCELLED as
// soon as they look. [any]
DT_API void dt_cancel_request(dt_cancel_t *cancel);
// Makes it as new, for later calls. [any]
DT_API void dt_cancel_reset(dt_cancel_t *cancel);

// ---- Element types ------------------------------------------------------------------------------

// Element type of a tensor. Values are stable.
typedef enum dt_dtype_t {
  DT_DTYPE_NONE = 0,
  DT_BOOL = 1, // one byte, 0 or 1
  DT_I8 = 2,
  DT_I16 = 3,
  DT_I32 = 4,
  DT_I64 = 5,
  DT_U8 = 6,
  DT_U16 = 7,
  DT_U32 = 8,
  DT_U64 = 9,
  DT_F16 = 10,  // IEEE binary16. Both 16-bit floats are storage types: an op computes in f32, its
  DT_BF16 = 11, // sums too, and rounds its result once, to nearest even. bf16: an f32's upper half
  DT_F32 = 12,
  DT_F64 = 13,
} dt_dtype_t;

// Where memory lives and code runs. Values are stable; ductile/device.h names the other kinds.
typedef enum dt_device_t { DT_CPU = 0, DT_MOST_DEVICES = 255 } dt_device_t;

// The most dims a tensor may have.
#define DT_MAX_RANK 8
// Every dim, and every tensor's bytes, must be below this; checked wherever a size is made.
#define DT_SIZE_LIMIT ((int64_t)1 << 47)

// Bytes of one element; 0 for a value that is no dtype. [any]
DT_API size_t dt_dtype_size(dt_dtype_t dtype);
// Short name such as "f32"; "none" for a value that is no dtype. Static storage. [any]
DT_API const char *dt_dtype_name(dt_dtype_t dtype);

// ---- Symbolic integers --------------------------------------------------------------------------

// An integer expression over sizes that are unknown until call time. Belongs to the trace that made
// it, which `id` tells, so that another one refuses it; id 0 is "none", the result of a failed
// operation. Copy freely.
typedef struct dt_sym_t {
  uint32_t id;
} dt_sym_t;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_BASE_H
