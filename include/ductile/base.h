// SPDX-License-Identifier: Apache-2.0
// Version, export macros, statuses and element types, for all other public headers.
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

// The version of these headers. dt_version gives the library's version.
#define DT_VERSION_MAJOR 0
#define DT_VERSION_MINOR 1
#define DT_VERSION_PATCH 0

// The library's version as "major.minor.patch"; static storage. [any]
DT_API const char *dt_version(void);

// ---- Status -------------------------------------------------------------------------------------

// What went wrong, for programs. The message tells people the details.
typedef enum dt_code_t {
  DT_OK = 0,
  DT_E_ARGUMENT = 1,    // a null pointer, a wrong count, an option out of range
  DT_E_SHAPE = 2,       // sizes, rank or strides do not fit the program
  DT_E_DTYPE = 3,       // an element type does not fit
  DT_E_RANGE = 4,       // data are outside the allowed range (an index outside its table)
  DT_E_LIMIT = 5,       // a stated limit is exceeded (tensor bytes, rank, variants)
  DT_E_NO_MEMORY = 6,   // an allocation failed
  DT_E_UNSUPPORTED = 7, // valid, but this build or device cannot do it
  DT_E_FORMAT = 8,      // a file or text is malformed
  DT_E_IO = 9,          // the operating system refused a file operation
  DT_E_COMPILE = 10,    // code generation failed
  DT_E_FORKED = 11,     // used in a child after fork
  DT_E_STATE = 12,      // called at the wrong time (the trace has ended, a result is stale)
  DT_E_INTERNAL = 13,   // a broken invariant of ours: please report
  DT_E_DEVICE = 14,     // the device or its driver failed; a lost device needs a new process
                        // (device.h)
  DT_E_DEADLINE = 15,   // the caller's deadline has passed
  DT_E_CANCELLED = 16,  // the caller cancelled (dt_cancel_request)
} dt_code_t;

// A result. NULL is success. Any other status is owned by whoever received it, who releases it with
// dt_status_free. It is the size of a pointer and is passed by value.
typedef struct dt_status *dt_status_t;

// The code of `status`; DT_OK for NULL. Borrows `status`. [any]
DT_API dt_code_t dt_status_code(dt_status_t status);
// The code's name, such as "DT_E_SHAPE"; static storage. [any]
DT_API const char *dt_code_name(dt_code_t code);
// The message: what happened, what was expected, what was found, and what to do, outermost context
// first. "" for NULL. Valid until the status is freed. [any]
DT_API const char *dt_status_message(dt_status_t status);
// A failure of a function that a program gives the library, such as a pass or a kernel; never NULL.
// DT_OK and unknown codes become DT_E_ARGUMENT. `message` is copied. [any]
DT_API dt_status_t dt_status_make(dt_code_t code, const char *message);
// Releases a status; NULL is allowed. [any, each status once]
DT_API void dt_status_free(dt_status_t status);

// Releases a text that a function of this library returned; NULL is allowed. [any, each text once]
DT_API void dt_text_free(char *text);

// ---- Cancelling ---------------------------------------------------------------------------------

// A flag that cancels calls. A call gets the flag by its options (dt_call_options_t,
// dt_prepare_options_t, dt_onnx_options_t, dt_onnx_function_options_t). The flag is in the caller's
// memory and is valid when zeroed. Several calls may share one flag. It must stay in memory until
// all these calls have returned. Only the functions below and the library may read or write it.
typedef struct dt_cancel_t {
  int32_t requested;
} dt_cancel_t;
// Cancels the calls that were given `cancel` and have not ended, and later ones until
// dt_cancel_reset. Each ends with DT_E_CANCELLED when it next looks at the flag. Signal handlers
// may call this, too. [any]
DT_API void dt_cancel_request(dt_cancel_t *cancel);
// Clears the flag, for later calls. [any]
DT_API void dt_cancel_reset(dt_cancel_t *cancel);

// ---- Element types ------------------------------------------------------------------------------

// Element type of a tensor. Values are stable. f16 and bf16 are storage types: an op computes in
// f32, sums included, and rounds its result once, to nearest even.
//
// The low-bit types, from DT_F8E4M3FN on, are storage types, too, and no op computes in them. Ops
// that move elements take them, and dt_cast converts from and to them; every other op refuses them
// with DT_E_DTYPE. docs/lowbit.md has their values and rules.
//
// Elements of 4 and 2 bits are packed: two or four to a byte, the first in the lowest bits. Each
// row of the last dim is packed by itself: it begins with a byte of its own and takes
// ceil(size * bits / 8) bytes. Bits of its last byte behind its last element are never read, and
// are 0 where Ductile writes. A scalar takes a byte. Rows lie in row-major order without gaps, so
// such a tensor has no strides but the contiguous ones.
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
  DT_F16 = 10,  // IEEE binary16
  DT_BF16 = 11, // the upper half of an f32
  DT_F32 = 12,
  DT_F64 = 13,
  DT_F8E4M3FN = 14,   // a sign, 4 bits of exponent, 3 of fraction; up to 448, NaN, no infinity
  DT_F8E5M2 = 15,     // a sign, 5 bits of exponent, 2 of fraction; up to 57344, infinities, NaN
  DT_F8E4M3FNUZ = 16, // up to 240; one zero, one NaN, no infinity
  DT_F8E5M2FNUZ = 17, // up to 57344; one zero, one NaN, no infinity
  DT_F8E8M0 = 18,     // powers of two from 2^-127 to 2^127, NaN; no sign, no zero
  DT_F4E2M1 = 19,     // a sign, 2 bits of exponent, 1 of fraction; up to 6, no infinity, no NaN
  DT_I4 = 20,         // -8 to 7
  DT_U4 = 21,         // 0 to 15
  DT_I2 = 22,         // -2 to 1
  DT_U2 = 23,         // 0 to 3
} dt_dtype_t;

// How dt_cast_as rounds to the low-bit floats; bits to be joined. 0, which is what dt_cast does:
// numbers beyond the largest become the largest, and so do infinities but for DT_F8E8M0; to
// DT_F8E8M0 numbers round up, to the next power of two that is no less in size.
//
// With DT_CAST_OVERFLOW, numbers beyond the largest, once rounded, become an infinity, or NaN where
// the type has none (DT_F4E2M1, which has neither, does not change). The others are for DT_F8E8M0
// alone.
typedef enum dt_cast_how_t {
  DT_CAST_OVERFLOW = 1, // beyond the largest: infinity or NaN
  DT_CAST_DOWN = 2,     // to the next power of two that is no larger in size
  DT_CAST_NEAREST = 4,  // to the nearest power of two, up where two are as near
} dt_cast_how_t;

// Where memory lives and code runs. Values are stable; ductile/device.h names the other kinds.
typedef enum dt_device_t { DT_CPU = 0, DT_MOST_DEVICES = 255 } dt_device_t;

// The most dims a tensor may have.
#define DT_MAX_RANK 8
// Every size and every tensor's number of bytes must be below this limit. It is checked wherever a
// size is computed.
#define DT_SIZE_LIMIT ((int64_t)1 << 47)

// Bytes of one element, or 1 where elements share a byte (dt_tensor_bytes has a tensor's); 0 for a
// value that is no dtype. [any]
DT_API size_t dt_dtype_size(dt_dtype_t dtype);
// Bits of one element as it is stored: 4 or 2 where elements share a byte, 8 for bool; 0 for a
// value that is no dtype. [any]
DT_API uint32_t dt_dtype_bits(dt_dtype_t dtype);
// Short name such as "f32"; "none" for a value that is no dtype. Static storage. [any]
DT_API const char *dt_dtype_name(dt_dtype_t dtype);

// ---- Symbolic integers --------------------------------------------------------------------------

// An integer expression over sizes that are unknown until call time. `id` also tells which trace
// made the symbol; any other trace refuses it. A failed operation returns id 0, "none". Copy
// freely.
typedef struct dt_sym_t {
  uint32_t id;
} dt_sym_t;

// ---- Structs ------------------------------------------------------------------------------------

// The initialiser of a struct or an array, in C and in C++: all of it is zero.
// clang-format off
#ifdef __cplusplus
#define DT_ZERO {}
#else
#define DT_ZERO {0}
#endif
// clang-format on

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_BASE_H
