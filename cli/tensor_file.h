// SPDX-License-Identifier: Apache-2.0
// Tensors in files: .npy and .npz as numpy writes them, .pb as ONNX's tests have them. What is read
// is not trusted: every length is checked against the bytes there are before it is used, and memory
// is asked for only where the file has what goes into it.
#ifndef DUCTILE_CLI_TENSOR_FILE_H
#define DUCTILE_CLI_TENSOR_FILE_H

#include "cli/cli.h"

// ---- Bytes (bytes.c) ------------------------------------------------------------------------------
// Bytes of a file, or of a part of it.
typedef struct cli_bytes_t {
  const unsigned char *at;
  size_t len;
  void *owned; // freed by cli_bytes_free; NULL: the bytes are another's
} cli_bytes_t;
// Reads the whole file; at most CLI_FILE_LIMIT bytes of it.
#define CLI_FILE_LIMIT ((size_t)8 << 30)
bool cli_bytes_read(const char *path, cli_bytes_t *out, char message[CLI_MESSAGE]);
void cli_bytes_free(cli_bytes_t *bytes);
// Says what is wrong and returns false.
bool cli_wrong(char message[CLI_MESSAGE], const char *fmt, ...) DT_PRINTF(2, 3);

// ---- .npy (npy.c) ---------------------------------------------------------------------------------
// A contiguous tensor of its own. Versions 1 to 3, both byte orders, C and Fortran order; booleans,
// integers, f16 to f64, and bf16 as two bytes without a type ("V2"), which is how ml_dtypes' go.
bool cli_npy_read(cli_bytes_t bytes, dt_tensor_t **out, char message[CLI_MESSAGE]);
// Header and padding of a contiguous tensor's file, whose elements follow. Its length.
#define CLI_NPY_HEADER 512
size_t cli_npy_header(const dt_tensor_t *tensor, char out[CLI_NPY_HEADER]);

// ---- .npz (zip.c, zip_write.c) --------------------------------------------------------------------
// The bytes of the member `name`, stored or deflated. `out` may borrow from `archive`.
bool cli_zip_member(cli_bytes_t archive, const char *name, cli_bytes_t *out,
                    char message[CLI_MESSAGE]);
// Writes an archive of .npy members, stored. `names` without the suffix.
bool cli_npz_write(FILE *file, const char *const *names, dt_tensor_t *const *tensors, uint32_t n,
                   char message[CLI_MESSAGE]);

// ---- Files by their names (tensor_file.c) ---------------------------------------------------------
// Reads FILE.npy, FILE.pb, FILE.npz (its member `name`) or FILE.npz:MEMBER.
bool cli_tensor_read(const char *path, const char *name, dt_tensor_t **out,
                     char message[CLI_MESSAGE]);
// Writes contiguous tensors in host memory, each to the file of its path: one in a .npy, all that
// name the same .npz there. A file is replaced whole, or left as it was; what
// cli_tensors_may_write refuses is refused before any is written.
bool cli_tensors_write(const char *const *paths, const char *const *names,
                       dt_tensor_t *const *tensors, uint32_t n, char message[CLI_MESSAGE]);

// Whether the paths are of files that are written, and none would take what another overwrites.
bool cli_tensors_may_write(const char *const *paths, uint32_t n, char message[CLI_MESSAGE]);

#endif // DUCTILE_CLI_TENSOR_FILE_H
