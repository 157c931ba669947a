// SPDX-License-Identifier: Apache-2.0
// Cubins on disk: one file an entry, named by a hash of its key, with the whole key and a checksum
// inside. Whatever is doubtful counts as absent and is replaced.
#ifndef DT_BACKEND_CUDA_EXEC_CACHE_H
#define DT_BACKEND_CUDA_EXEC_CACHE_H

#include "runtime/base/text.h"

// Finds what was kept under `key`: *out is the caller's (dt__free), *out_bytes its length. False:
// nothing, or nothing that can be trusted.
bool dt__cuda_cache_find(const char *folder, const dt_text_t *key, void **out, size_t *out_bytes);
// Keeps it, for whoever asks next. A failure is logged and nothing else: the cache is no promise.
void dt__cuda_cache_keep(const char *folder, const dt_text_t *key, const void *data, size_t bytes);

#endif // DT_BACKEND_CUDA_EXEC_CACHE_H
