// SPDX-License-Identifier: Apache-2.0
// Tensors in files: which format a file is of, by its name.
#include "cli/tensor_file.h"

#include "ductile/onnx.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *text, const char *suffix) {
  size_t len = strlen(text), own = strlen(suffix);
  return len > own && strcmp(text + len - own, suffix) == 0;
}

// ---- Reading --------------------------------------------------------------------------------------
static bool read_npy(const char *path, dt_tensor_t **out, char message[CLI_MESSAGE]) {
  cli_bytes_t bytes;
  bool done = cli_bytes_read(path, &bytes, message) && cli_npy_read(bytes, out, message);
  cli_bytes_free(&bytes);
  return done;
}

static bool read_npz(const char *path, const char *name, dt_tensor_t **out,
                     char message[CLI_MESSAGE]) {
  char member[512];
  cli_bytes_t archive, bytes = {NULL, 0, NULL};
  int len = snprintf(member, sizeof(member), "%s%s", name, ends_with(name, ".npy") ? "" : ".npy");
  if (len < 0 || (size_t)len >= sizeof(member))
    return cli_wrong(message, "the name of the member is too long");
  bool done = cli_bytes_read(path, &archive, message) &&
              cli_zip_member(archive, member, &bytes, message) && cli_npy_read(bytes, out, message);
  cli_bytes_free(&bytes);
  cli_bytes_free(&archive);
  return done;
}

static bool read_pb(const char *path, dt_tensor_t **out, char message[CLI_MESSAGE]) {
  dt_status_t status = dt_onnx_tensor_read(path, out);
  if (!status)
    return true;
  (void)cli_wrong(message, "%s: %s", dt_code_name(dt_status_code(status)),
                  dt_status_message(status));
  dt_status_free(status);
  return false;
}

bool cli_tensor_read(const char *path, const char *name, dt_tensor_t **out,
                     char message[CLI_MESSAGE]) {
  const char *archive = strstr(path, ".npz:");
  *out = NULL;
  if (archive) {
    char file[PATH_MAX];
    size_t len = (size_t)(archive - path) + 4;
    if (len >= sizeof(file))
      return cli_wrong(message, "the path is too long");
    memcpy(file, path, len);
    file[len] = '\0';
    return read_npz(file, archive + 5, out, message);
  }
  if (ends_with(path, ".npy"))
    return read_npy(path, out, message);
  if (ends_with(path, ".npz"))
    return read_npz(path, name, out, message);
  if (ends_with(path, ".pb"))
    return read_pb(path, out, message);
  return cli_wrong(message, "its name ends neither in .npy, .npz nor .pb, and it is none of "
                            "zeros, ones, random, range:A..B and values:…");
}

// ---- Writing --------------------------------------------------------------------------------------
static bool write_npy(FILE *file, const dt_tensor_t *tensor, char message[CLI_MESSAGE]) {
  char header[CLI_NPY_HEADER];
  size_t len = cli_npy_header(tensor, header);
  size_t bytes = dt_tensor_bytes(tensor);
  return (fwrite(header, 1, len, file) == len &&
          (bytes == 0 || fwrite(dt_tensor_data(tensor), 1, bytes, file) == bytes)) ||
         cli_wrong(message, "%s", strerror(errno));
}

// Writes what belongs into the file of paths[first]: that tensor, or all that name the archive.
static bool write_file(FILE *file, uint32_t first, const char *const *paths,
                       const char *const *names, dt_tensor_t *const *tensors, uint32_t n,
                       char message[CLI_MESSAGE]) {
  if (!ends_with(paths[first], ".npz"))
    return write_npy(file, tensors[first], message);
  const char **own_names = calloc(n, sizeof(*own_names));
  dt_tensor_t **own = calloc(n, sizeof(*own));
  uint32_t count = 0;
  for (uint32_t k = first; own_names && own && k < n; k++) {
    if (strcmp(paths[k], paths[first]) == 0) {
      own_names[count] = names[k];
      own[count++] = tensors[k];
    }
  }
  bool done = own_names && own ? cli_npz_write(file, own_names, own, count, message)
                               : cli_wrong(message, "no memory");
  free(own_names);
  free(own);
  return done;
}

// By way of a file beside it, which takes its place when it is whole.
static bool write_path(uint32_t first, const char *const *paths, const char *const *names,
                       dt_tensor_t *const *tensors, uint32_t n, char message[CLI_MESSAGE]) {
  char beside[PATH_MAX], why[CLI_MESSAGE];
  const char *path = paths[first];
  int len = snprintf(beside, sizeof(beside), "%s.%ld.part", path, (long)getpid());
  if (len < 0 || (size_t)len >= sizeof(beside))
    return cli_wrong(message, "%s: the path is too long", path);
  FILE *file = fopen(beside, "wbxe");
  if (!file)
    return cli_wrong(message, "%s: %s", path, strerror(errno));
  bool done = write_file(file, first, paths, names, tensors, n, why);
  if (fclose(file) != 0 && done)
    done = cli_wrong(why, "%s", strerror(errno));
  if (done && rename(beside, path) != 0)
    done = cli_wrong(why, "%s", strerror(errno));
  if (!done) {
    (void)unlink(beside);
    (void)cli_wrong(message, "%s: %s", path, why);
  }
  return done;
}

bool cli_tensors_may_write(const char *const *paths, uint32_t n, char message[CLI_MESSAGE]) {
  for (uint32_t k = 0; k < n; k++) {
    bool archive = ends_with(paths[k], ".npz");
    if (!archive && !ends_with(paths[k], ".npy"))
      return cli_wrong(message, "%s: its name ends neither in .npy nor in .npz", paths[k]);
    for (uint32_t j = 0; j < k && !archive; j++)
      if (strcmp(paths[j], paths[k]) == 0)
        return cli_wrong(message, "%s: two outputs would go there", paths[k]);
  }
  return true;
}

bool cli_tensors_write(const char *const *paths, const char *const *names,
                       dt_tensor_t *const *tensors, uint32_t n, char message[CLI_MESSAGE]) {
  if (!cli_tensors_may_write(paths, n, message))
    return false;
  for (uint32_t k = 0; k < n; k++) {
    bool written = false; // with the others of its archive
    for (uint32_t j = 0; j < k; j++)
      written |= strcmp(paths[j], paths[k]) == 0;
    if (!written && !write_path(k, paths, names, tensors, n, message))
      return false;
  }
  return true;
}
