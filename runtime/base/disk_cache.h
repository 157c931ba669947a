// SPDX-License-Identifier: Apache-2.0
// What compiles made, kept on disk for the next process: one file an entry, named by a hash of its
// key, with the whole key and a SHA-256 of everything inside. Whatever is doubtful counts as absent
// and is replaced.
//
// The folder is opened once, and everything in it is reached through that: it must be the user's
// own, with no write permission for others, and no symbolic link; else nothing is kept, and the log
// says so. An entry must be a regular file of the user's that nobody else may write. So nobody but
// the user (and the superuser) gives code to a process of his; the sum tells damage, not forgery.
//
// The folder has a limit. What was not used for the longest time goes first, so what other builds
// left goes by and by. Names that are none of ours are left alone and not counted.
//
// All functions may be called by any thread, and by any number of processes for one folder.
#ifndef DT_RUNTIME_BASE_DISK_CACHE_H
#define DT_RUNTIME_BASE_DISK_CACHE_H

#include "runtime/base/text.h"

#define DT_DISK_NAME_BYTES 64 // of an entry's name, at most; those of other files are longer

typedef struct dt_disk_cache_t dt_disk_cache_t;

// Opens the folder, which is made where there is none, removes what processes that died left there,
// and keeps it to about `most_bytes`. NULL: nothing is kept: `folder` is "", or the log says why.
dt_disk_cache_t *dt__disk_cache_open(const char *folder, uint64_t most_bytes);
void dt__disk_cache_close(dt_disk_cache_t *cache); // NULL allowed

// Finds what was kept under `key` among entries of this `kind`, the file's ending (letters): *out
// is the caller's (dt__free), *out_bytes its length. False: nothing, or nothing that can be
// trusted, or `cache` is NULL. Never waits for anybody.
bool dt__disk_cache_find(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key, void **out,
                         size_t *out_bytes);
// Keeps it, for whoever asks next. A failure is logged and nothing else: the cache is no promise.
void dt__disk_cache_keep(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                         const void *data, size_t bytes);

// Entries whose data are large and lie at pages, so that they are mapped and shared by processes:
// of these a fast sum (XXH3) stands for the SHA-256, and they are not brought to the disk before
// others see them, so that a loss of power may damage them.
typedef struct dt_disk_map_t {
  void *map;
  size_t map_bytes;
  const void *data;
} dt_disk_map_t;
// Maps such an entry with `bytes` of data, read-only. False: nothing, or nothing that can be
// trusted.
bool dt__disk_cache_map(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                        size_t bytes, dt_disk_map_t *out);
void dt__disk_cache_unmap(const dt_disk_map_t *map);
// Keeps it, unless it and `others`, bytes of such entries that are in use, would be more than half
// of what the folder may have. False: it is not kept.
bool dt__disk_cache_keep_pages(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                               const void *data, size_t bytes, uint64_t others);

// The right to make an entry that is not there. Whoever has none may make it all the same.
typedef struct dt_disk_claim_t {
  int lock; // an open file that is locked; -1: none
  char name[DT_DISK_NAME_BYTES + 8];
} dt_disk_claim_t;
// False: somebody else has it, in this process or in another, who gives it up at his end at the
// latest. True: it is the caller's, until dt__disk_cache_unclaim; also where there is no cache, or
// files cannot be locked. Never waits.
bool dt__disk_cache_claim(dt_disk_cache_t *cache, const char *kind, const dt_text_t *key,
                          dt_disk_claim_t *out);
void dt__disk_cache_unclaim(dt_disk_cache_t *cache, dt_disk_claim_t *claim);

#endif // DT_RUNTIME_BASE_DISK_CACHE_H
