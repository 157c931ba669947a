// SPDX-License-Identifier: Apache-2.0
// What compiles made, kept on disk for the next process: one file an entry, named by a hash of its
// key, with the whole key and a checksum inside. Whatever is doubtful counts as absent and is
// replaced. All functions may be called by any thread.
#ifndef DT_RUNTIME_BASE_DISK_CACHE_H
#define DT_RUNTIME_BASE_DISK_CACHE_H

#include "runtime/base/text.h"

// Finds what was kept under `key` among entries of this `kind`, the file's ending: *out is the
// caller's (dt__free), *out_bytes its length. False: nothing, or nothing that can be trusted, or
// `folder` is "".
bool dt__disk_cache_find(const char *folder, const char *kind, const dt_text_t *key, void **out,
                         size_t *out_bytes);
// Keeps it, for whoever asks next. A failure is logged and nothing else: the cache is no promise.
void dt__disk_cache_keep(const char *folder, const char *kind, const dt_text_t *key,
                         const void *data, size_t bytes);

#endif // DT_RUNTIME_BASE_DISK_CACHE_H
