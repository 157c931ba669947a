// SPDX-License-Identifier: Apache-2.0
// A model ready to be called: what run, check and bench share.
#ifndef DUCTILE_CLI_MODEL_H
#define DUCTILE_CLI_MODEL_H

#include "cli/cli.h"
#include "cli/options.h"

#include "ductile/onnx.h"
#include "ductile/package.h"

// ---- Models (model.c) -----------------------------------------------------------------------------
// Where and how. Zeroed: the CPU, defaults.
typedef struct cli_place_t {
  dt_device_t device;
  int32_t ordinal;
  const char *data; // folder of external data; NULL: the model's
  const char *name; // of the function; NULL: the model's
  bool names_are_hints;
  bool bf16_weights;
  bool map; // files are mapped, not read
  dt_call_mode_t mode;
  dt_limit_action_t limit_action;
  int64_t deadline; // nanoseconds from when the model is opened to the end of its calls; 0: none
} cli_place_t;
#define CLI_DEVICES "cpu, cuda or cuda:N"
#define CLI_DEVICE_WORDS "cpu", "cuda" // for completion
// Rows of the options that commands on models share. `type` has members of these names, of the
// types that options.h says.
#define CLI_ROW_DEVICE(type)                                                                       \
  {.name = "device",                                                                               \
   .kind = CLI_TEXT,                                                                               \
   .at = offsetof(type, device),                                                                   \
   .value = "WHERE",                                                                               \
   .help = CLI_DEVICES " (default: cpu)"}
#define CLI_ROW_DATA(type)                                                                         \
  {.name = "data",                                                                                 \
   .kind = CLI_TEXT,                                                                               \
   .at = offsetof(type, data),                                                                     \
   .value = "FOLDER",                                                                              \
   .help = "where files of external data lie (default: the model's folder)"}
#define CLI_ROW_THREADS(type)                                                                      \
  {.name = "threads",                                                                              \
   .kind = CLI_COUNT,                                                                              \
   .at = offsetof(type, threads),                                                                  \
   .value = "N",                                                                                   \
   .help = "that run kernels (default: DUCTILE_THREADS, else one a core)",                         \
   .low = 1,                                                                                       \
   .high = 65535}
#define CLI_ROW_NAMES_ARE_HINTS(type)                                                              \
  {.name = "names-are-hints",                                                                      \
   .kind = CLI_FLAG,                                                                               \
   .at = offsetof(type, names_are_hints),                                                          \
   .help =                                                                                         \
       "dims of one name may have different sizes, for models whose exporter named them wrongly; " \
       "--dim then takes INPUT.D=SIZE"}
#define CLI_ROW_BF16_WEIGHTS(type)                                                                 \
  {.name = "bf16-weights",                                                                         \
   .kind = CLI_FLAG,                                                                               \
   .at = offsetof(type, bf16_weights),                                                             \
   .help = "keep f32 weights of products in bf16, half of the bytes: each changes by 2^-9 of "     \
           "itself at most"}
#define CLI_ROW_MAP(type)                                                                          \
  {.name = "map",                                                                                  \
   .kind = CLI_FLAG,                                                                               \
   .at = offsetof(type, map),                                                                      \
   .help = "map the model's files instead of reading them: weights are read where they lie; "      \
           "nobody may write to the files meanwhile"}
// As dt_device_parse; NULL is the CPU.
bool cli_place_device(const char *text, cli_place_t *out);

// ---- Files (onnx_file.c) --------------------------------------------------------------------------
// Whether the file, or standard input for "-", which stays as it is, begins as a model in ONNX's
// format does, and not as text.
bool cli_is_onnx(const char *path);
// As dt_onnx_open; "-" is standard input, whose bytes are *out_bytes: to be freed after the model
// and all functions made of it, also on failure.
dt_status_t cli_onnx_open(const char *path, const dt_onnx_options_t *about, void **out_bytes,
                          dt_onnx_t **out) DT_MUST_USE;

typedef struct cli_model_t {
  dt_onnx_t *onnx;
  void *bytes;           // of a model from standard input
  dt_package_t *package; // instead of `onnx`: the file is a package
  dt_function_t *function;
  dt_session_t *session;
  uint32_t n_inputs, n_outputs;
  int64_t end_ns; // of its calls, as dt_call_options_t has it
} cli_model_t;
// Of an ONNX model, or of a package with one function. On failure nothing is left open.
dt_status_t cli_model_open(cli_model_t *model, dt_runtime_t *runtime, const char *path,
                           const cli_place_t *place) DT_MUST_USE;
void cli_model_close(cli_model_t *model);
// Whether the file is a package: by its first bytes.
#define CLI_PACKAGE_BEGINS "ductile\x1a" // docs/package.md
bool cli_is_package(const char *path);
// Exchanges the function for that of a package of it, with code for `levels`, which can compile
// nothing more.
dt_status_t cli_model_pack(cli_model_t *model, dt_runtime_t *runtime,
                           const char *levels) DT_MUST_USE;
// "" where it has none.
const char *cli_model_input_name(const cli_model_t *model, uint32_t index);
const char *cli_model_output_name(const cli_model_t *model, uint32_t index);
// One call with new results, and its wait. On failure no result is left.
dt_status_t cli_model_call(const cli_model_t *model, dt_tensor_t *const *inputs,
                           dt_tensor_t **results) DT_MUST_USE;
// A result's elements in a contiguous host tensor of its own.
dt_status_t cli_model_fetch(const cli_model_t *model, const dt_tensor_t *result,
                            dt_tensor_t **out) DT_MUST_USE;
void cli_release_all(dt_tensor_t **tensors, uint32_t n); // and sets them to NULL
// What the calls so far have taken at once, at most: what the session holds between kernels,
// scratch, and `results`.
uint64_t cli_model_bytes(const cli_model_t *model, dt_tensor_t *const *results);
// The input or output that `text`, "NAME=…", names, by its name or its number; what stands behind
// the =. NULL: none.
const char *cli_model_input(const cli_model_t *model, const char *text, uint32_t *out_index);
const char *cli_model_output(const cli_model_t *model, const char *text, uint32_t *out_index);
// "2x3 f32", "f32" for a scalar.
#define CLI_SIZES_TEXT 192
void cli_sizes_text(const dt_tensor_t *tensor, char out[CLI_SIZES_TEXT]);

// ---- Inputs (inputs.c) ----------------------------------------------------------------------------
// Sizes that --dim gives. A name is that of a dim in the model, or INPUT.D for the dim D of an
// input.
typedef struct cli_dim_t {
  const char *name;
  size_t len;
  int64_t size;
} cli_dim_t;
typedef struct cli_dims_t {
  const cli_dim_t *items;
  uint32_t n;
} cli_dims_t;
// CLI_DONE if each of the dims is one of an input's, once, and no two give one dim sizes that
// differ; else it complains for the command `me`: of all names that there are not at once.
int cli_know_dims(const char *me, const cli_model_t *model, const cli_dim_t *dims, uint32_t n);
// CLI_DONE if each of "NAME=…" is one of an output; else it complains.
int cli_know_outputs(const char *me, const cli_model_t *model, const cli_list_t *given);
// Specs of inputs from "NAME=SPEC", by input; complains of names that there are not and of inputs
// that are given twice.
int cli_find_specs(const char *me, const cli_model_t *model, const cli_list_t *given,
                   const char **specs);
// CLI_DONE where `dims` say all sizes that inputs need which no spec (NULL: `other`) says; else it
// complains of all that are missing at once.
int cli_need_sizes(const char *me, const cli_model_t *model, const char *const *specs,
                   const char *other, const cli_dims_t *dims);
// The input `k` from `spec`: zeros, ones, random, range:A..B or values:A,B,…, each with :SIZES
// where they are not those that the model or `dims` say; or a file (tensor_file.h). `seed` makes
// random elements.
bool cli_input_make(const cli_model_t *model, uint32_t k, const char *spec, const cli_dims_t *dims,
                    uint64_t seed, dt_tensor_t **out, char message[CLI_MESSAGE]);
// All inputs at one combination of sizes, each by its spec, or random without one; complains of all
// sizes that are missing at once. What was made is in `out` also on failure, for the caller to
// release (cli_release_all).
int cli_random_inputs(const char *me, const cli_model_t *model, const char *const *specs,
                      const cli_dims_t *dims, dt_tensor_t **out);

#endif // DUCTILE_CLI_MODEL_H
