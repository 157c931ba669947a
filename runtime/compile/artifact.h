// SPDX-License-Identifier: Apache-2.0
// A variant as a file on disk: its machine code and whatever else a call needs, under a key that
// names everything that the compile depends on. A process that finds one compiles nothing. A
// doubtful file counts as not found.
#ifndef DT_RUNTIME_COMPILE_ARTIFACT_H
#define DT_RUNTIME_COMPILE_ARTIFACT_H

#include "runtime/base/text.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/load.h"

#define DT_ARTIFACT_KIND "variant" // of entries (disk_cache.h)

typedef struct dt_artifact_t {
  dt_object_t host;     // data owned
  dt_object_t *objects; // and their data owned; one a unit of kernels
  uint32_t n_objects;
  // All native code linked: an entry then says what is in the image, whose bytes are kept apart.
  // Objects are then a device's kernels as they were emitted, for any device of a level. Owned.
  bool linked;
  dt_image_t image;
  // Of a device: how each kernel is launched, codegen->info_words numbers a kernel, as they mean
  // it. Of the CPU: the unit that each kernel is in. Owned.
  uint32_t *infos;
  uint32_t n_kernels;
  // Calls of users' ops, by name, with identity and attributes: their kernels are those of the
  // runtime that loads them. Owned with all texts and lists.
  struct dt_external_call_t *calls; // (external.h)
  uint32_t n_calls;
} dt_artifact_t;

// What it is for.
typedef struct dt_artifact_place_t {
  const dt_codegen_t *codegen; // NULL: the CPU
  void *device;
  struct dt_disk_cache_t *cache;
  struct dt_workers *workers; // who makes the code (maker.h): these, or, where it is NULL,
  const char *jit;            // the code generator at that file
  dt_jobs_t *jobs;            // of linked entries for devices: compile threads
  bool bare;                  // what is for the device is not loaded; for tests
} dt_artifact_place_t;

void dt__artifact_fini(dt_artifact_t *artifact);
// Links native code: the host program, and with it the CPU's kernels.
dt_status_t dt__artifact_link(dt_artifact_t *artifact, const dt_codegen_t *codegen) DT_MUST_USE;

// The key of a compile: this build of the library, the device and its driver, both targets, the
// graph with the places that asked for its checks, passes and identities of ops, and all that is
// known of its symbols. *out is failed where this build has no identity: nothing is then kept.
void dt__artifact_key(const dt_traced_t *traced, const dt_target_t *target,
                      const dt_artifact_place_t *place, dt_text_t *out);
// What a compile of `n_outputs` results made, as an entry; and such an entry, whoever kept it,
// loaded on the calling thread, a compile thread, or another one where place->jobs are given.
// DT_E_FORMAT: it is none, or that of another program.
dt_status_t dt__artifact_write(const dt_artifact_place_t *place, const dt_artifact_t *artifact,
                               const dt_compiled_t *compiled, uint32_t n_outputs,
                               dt_text_t *out) DT_MUST_USE;
// `code` has the bytes of its image; NULL: it has objects.
dt_status_t dt__artifact_read(const dt_artifact_place_t *place, const void *data, size_t bytes,
                              const dt_code_bytes_t *code, const dt_traced_t *traced,
                              dt_compiled_t **out) DT_MUST_USE;
// Finds an entry of `traced` in the place's cache, loads it on the calling thread, a compile
// thread, and makes *out of it. NULL in *out: there is none, or one that cannot be used, where
// *out_refused is set. A status: memory, or the device is lost.
dt_status_t dt__artifact_find(const dt_artifact_place_t *place, const dt_text_t *key,
                              const dt_traced_t *traced, dt_compiled_t **out,
                              bool *out_refused) DT_MUST_USE;
// Keeps what `maker` made for a compile of `n_outputs` results.
struct dt_maker_t;
void dt__artifact_keep(const dt_artifact_place_t *place, const dt_text_t *key,
                       const struct dt_maker_t *maker, const dt_artifact_t *artifact,
                       const dt_compiled_t *compiled, uint32_t n_outputs);

#endif // DT_RUNTIME_COMPILE_ARTIFACT_H
