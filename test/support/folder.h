// SPDX-License-Identifier: Apache-2.0
// Folders and files of a test's own, and the environment. What fails ends the test.
#ifndef DT_TESTS_SUPPORT_FOLDER_H
#define DT_TESTS_SUPPORT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#define FOLDER_BYTES 64

// A new folder, in memory where there is such a place: to wait for a disk shows nothing.
void folder_make(char path[FOLDER_BYTES]);
// Removes it with all that is in it. 0: it is gone.
int folder_drop(const char *path);
// How many entries it has whose names end so; "": all.
uint32_t folder_count(const char *path, const char *end);

void file_write(const char *path, const void *data, size_t bytes);
// The file at root/name, which begins with a slash, with the folders on the way to it.
void file_put(const char *root, const char *name, const char *text);
// All of it, and a zero byte behind it (free). out_bytes may be NULL.
char *file_read(const char *path, size_t *out_bytes);

// Of this process's environment; NULL: it has no such variable.
void variable_set(const char *name, const char *value);

#endif // DT_TESTS_SUPPORT_FOLDER_H
