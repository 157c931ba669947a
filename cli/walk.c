// SPDX-License-Identifier: Apache-2.0
// Which folders there are to check, and their sets of data.
#include "cli/check.h"
#include "cli/options.h"
#include "cli/tensor_file.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_FOLDERS 1000000U
#define MOST_DEPTH 16

// ---- Lists ----------------------------------------------------------------------------------------
static bool add(cli_folders_t *folders, const char *path, size_t name_at) {
  if (folders->n == folders->capacity) {
    uint32_t capacity = folders->capacity ? 2 * folders->capacity : 256;
    cli_folder_t *more = capacity <= 2 * MOST_FOLDERS
                             ? realloc(folders->items, capacity * sizeof(*folders->items))
                             : NULL;
    if (!more)
      return false;
    folders->items = more;
    folders->capacity = capacity;
  }
  char *copy = strdup(path);
  if (!copy)
    return false;
  folders->items[folders->n++] = (cli_folder_t){copy, copy + name_at};
  return true;
}

void cli_folders_free(cli_folders_t *folders) {
  for (uint32_t k = 0; k < folders->n; k++)
    free(folders->items[k].path);
  free(folders->items);
  *folders = (cli_folders_t){0};
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const cli_folder_t *)a)->path, ((const cli_folder_t *)b)->path);
}

// ---- Walking --------------------------------------------------------------------------------------
typedef struct walk_t {
  cli_folders_t *folders;
  const char *only;
  size_t name_at; // where what is left of a path begins
  char path[PATH_MAX];
  size_t len;
  char *message;
} walk_t;

static bool holds_model(const walk_t *walk) {
  char file[PATH_MAX + 16];
  struct stat about;
  (void)snprintf(file, sizeof(file), "%s/model.onnx", walk->path);
  return stat(file, &about) == 0;
}

static bool is_folder(const walk_t *walk) {
  struct stat about;
  return lstat(walk->path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool add_this(walk_t *walk) {
  const char *slash = strrchr(walk->path, '/');
  if (walk->only && fnmatch(walk->only, slash ? slash + 1 : walk->path, 0) != 0)
    return true;
  // A folder that was given itself goes by its own name.
  size_t name_at = walk->name_at < walk->len ? walk->name_at
                   : slash                   ? (size_t)(slash + 1 - walk->path)
                                             : 0;
  return add(walk->folders, walk->path, name_at) || cli_wrong(walk->message, "no memory");
}

static bool go(walk_t *walk, uint32_t depth) {
  if (holds_model(walk))
    return add_this(walk);
  if (depth == MOST_DEPTH)
    return true;
  DIR *dir = opendir(walk->path);
  if (!dir)
    return cli_wrong(walk->message, "%s: %s", walk->path, strerror(errno));
  size_t len = walk->len;
  bool done = true;
  for (struct dirent *entry = readdir(dir); entry && done; entry = readdir(dir)) {
    size_t own = strlen(entry->d_name);
    if (entry->d_name[0] == '.' || len + 1 + own >= sizeof(walk->path))
      continue;
    walk->path[len] = '/';
    memcpy(walk->path + len + 1, entry->d_name, own + 1);
    walk->len = len + 1 + own;
    if (is_folder(walk))
      done = go(walk, depth + 1);
    walk->path[len] = '\0';
    walk->len = len;
  }
  (void)closedir(dir);
  return done;
}

bool cli_walk(cli_folders_t *folders, const char *root, const char *only,
              char message[CLI_MESSAGE]) {
  walk_t walk = {.folders = folders, .only = only, .len = strlen(root), .message = message};
  uint32_t before = folders->n;
  while (walk.len > 1 && root[walk.len - 1] == '/')
    walk.len--;
  if (walk.len == 0 || walk.len >= sizeof(walk.path))
    return cli_wrong(message, "%s: no folder's path", root);
  memcpy(walk.path, root, walk.len);
  walk.path[walk.len] = '\0';
  walk.name_at = walk.len + 1;
  if (!go(&walk, 0))
    return false;
  if (folders->n > before)
    qsort(folders->items + before, folders->n - before, sizeof(*folders->items), by_path);
  return true;
}

// ---- Sets -----------------------------------------------------------------------------------------
static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

int cli_find_sets(const char *folder, uint32_t numbers[CLI_MOST_SETS]) {
  static const char prefix[] = "test_data_set_";
  DIR *dir = opendir(folder);
  int n = 0;
  if (!dir)
    return -1;
  for (struct dirent *entry = readdir(dir); entry && n < CLI_MOST_SETS; entry = readdir(dir)) {
    const char *at = entry->d_name + sizeof(prefix) - 1;
    int64_t number = 0;
    if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0 &&
        cli_read_count(&at, "", 0, UINT32_MAX, &number))
      numbers[n++] = (uint32_t)number;
  }
  (void)closedir(dir);
  qsort(numbers, (size_t)n, sizeof(*numbers), by_number);
  return n;
}
