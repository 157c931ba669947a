// SPDX-License-Identifier: Apache-2.0
// The form of a package (docs/package.md): a head, parts at offsets, and the table of the parts.
//
//   head, 64 bytes | parts, each at its alignment, zeros between them | table
//
// Numbers of head and table are little-endian. The first part is the index, which `dt__pack_index`
// both writes and reads (runtime/base/stream.h), and which names all others by their place in the
// table. Whoever changes what any part means, what a frame is (native.h), what dt__graph_store,
// dt__symenv_write or an entry (runtime/compile/artifact.c) writes, counts DT_PACKAGE_ABI up.
#ifndef DT_RUNTIME_PACKAGE_FORMAT_H
#define DT_RUNTIME_PACKAGE_FORMAT_H

#include "ductile/function.h"
#include "runtime/base/sha256.h"
#include "runtime/base/stream.h"
#include "runtime/compile/level.h"

#define DT_PACKAGE_ABI 4u

// ---- File -----------------------------------------------------------------------------------------
#define DT_PACK_MAGIC "ductile\x1a" // 8 bytes
#define DT_PACK_HEAD_BYTES 64u
#define DT_PACK_DATA_ALIGN 4096u // of constants: pages of their own
#define DT_PACK_ALIGN 64u        // of all else
#define DT_PACK_MOST_LEVELS 256u

typedef struct dt_pack_part_t {
  uint64_t offset, bytes;
  uint64_t sum; // dt__hash with seed 0
} dt_pack_part_t;

// The parts of a file of `bytes` bytes, which `*out` owns (dt__free): inside of it, in order, apart
// from each other. The sums are those of the head and of the table; those of parts are looked at by
// who reads them. DT_E_FORMAT, DT_E_UNSUPPORTED.
dt_status_t dt__pack_open(const void *data, size_t bytes, dt_pack_part_t **out,
                          uint32_t *out_n) DT_MUST_USE;
// Whether the part is as it was written.
dt_status_t dt__pack_check(const void *data, const dt_pack_part_t *part,
                           const char *what) DT_MUST_USE;

// Gives a file whose parts lie in it the sums of what it holds; for tests that forge packages.
// Whether they do.
bool dt__pack_forge(void *data, size_t bytes);

// Parts to be written, one after another.
typedef struct dt_pack_out_t {
  dt_arena_t *arena;
  DT_VEC(dt_pack_part_t) parts;
  DT_VEC(const void *) data; // of the parts; borrowed
} dt_pack_out_t;
// Returns its place in the table; UINT32_MAX: no memory.
uint32_t dt__pack_add(dt_pack_out_t *out, const void *data, size_t bytes);
// Part 0 is `index`, which was counted as one from the beginning.
dt_status_t dt__pack_write(dt_pack_out_t *out, const char *path) DT_MUST_USE;

// ---- Index ----------------------------------------------------------------------------------------
// A file beside the package that has data of constants.
typedef struct dt_pack_file_t {
  const char *path; // from the package's folder
  uint64_t bytes;
} dt_pack_file_t;

typedef struct dt_pack_constant_t {
  const char *name;
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  uint32_t part; // 0: its data are in another file:
  uint32_t file; // its place in the index
  uint64_t offset, sum;
} dt_pack_constant_t;
// Whether they have the same data, at the same place.
static inline bool dt__pack_same(const dt_pack_constant_t *a, const dt_pack_constant_t *b) {
  return a->part == b->part && (a->part || (a->file == b->file && a->offset == b->offset));
}

// A level that all variants have code for.
typedef struct dt_pack_level_t {
  const char *name;
  dt_level_t known; // what is read: the level of that name, of which this library may know nothing
  bool is_known;
} dt_pack_level_t;

// What code of some level computes from constants alone (runtime/exec/forms.h).
typedef struct dt_pack_form_t {
  unsigned char digest[DT_SHA256_BYTES]; // of its recipe
  uint32_t part;
  uint32_t n_constants;
  uint32_t *constants; // that it is computed from, in the recipe's order
} dt_pack_form_t;

// What a variant has for a level: the part with its entry, and that with its linked code. Its
// forms, by buffer of its plan (runtime/compile/once.h): 1 + the place of the form in the index, or
// 0: it is computed when the variant is made. Devices compute theirs.
typedef struct dt_pack_code_t {
  uint32_t entry, code;
  uint32_t n_forms;
  uint32_t *forms;
} dt_pack_code_t;

typedef struct dt_pack_variant_t {
  bool generic, strict_fp;
  uint32_t traced; // the part with its trace (runtime/trace/store.h)
  uint32_t n_constants;
  uint32_t *constants; // by the graph's: places in the index
  uint32_t n_codes;
  dt_pack_code_t *codes; // by level of the index
} dt_pack_variant_t;

// The compiled decision over a function's variants, for a level: an entry
// (runtime/compile/decide.h) and its linked code; 0: there is none, and guards are interpreted.
typedef struct dt_pack_decider_t {
  uint32_t entry, code;
} dt_pack_decider_t;

typedef struct dt_pack_function_t {
  const char *name;
  bool strict_fp;
  dt_dynamic_t dynamic;
  uint32_t n_inputs, n_outputs;
  dt_input_decl_t *inputs; // as they were declared
  dt_output_decl_t *outputs;
  uint32_t n_variants;
  dt_pack_variant_t *variants;
  uint32_t n_deciders;
  dt_pack_decider_t *deciders; // by level of the index
} dt_pack_function_t;

typedef struct dt_pack_index_t {
  const char *producer; // the version that wrote it
  uint32_t n_levels;
  dt_pack_level_t *levels;
  uint32_t n_files, n_constants, n_forms, n_functions;
  dt_pack_file_t *files;
  dt_pack_constant_t *constants;
  dt_pack_form_t *forms;
  dt_pack_function_t *functions;
} dt_pack_index_t;
// s->arena and s->names are set where it is read.
void dt__pack_index(dt_stream_t *s, dt_pack_index_t *index);

#endif // DT_RUNTIME_PACKAGE_FORMAT_H
