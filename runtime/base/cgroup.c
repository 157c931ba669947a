// SPDX-License-Identifier: Apache-2.0
// How much of the processors' time the control groups of this process allow. Which group it is in
// stands in /proc/self/cgroup, where groups are to be seen in /proc/self/mountinfo. A limit of any
// group on the way up holds for all below it, so the least counts.
#include "runtime/base/memory.h"
#include "runtime/base/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group_t {
  bool unified;       // version 2: one tree for everything
  const char *path;   // within the tree
  const char *folder; // where groups are mounted
  const char *rest;   // of the path, from there
} group_t;

// Cuts the next field off at any of `ends`; NULL: there is none.
static char *cut(char **at, const char *ends) {
  char *field = *at;
  if (!field || !*field)
    return NULL;
  size_t len = strcspn(field, ends);
  *at = field + len + (field[len] != '\0');
  field[len] = '\0';
  return field;
}

static bool lists(const char *list, const char *word) {
  size_t len = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += len)
    if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
      return true;
  return false;
}

// "0::/path", "4:cpu,cpuacct:/path". Time may be counted in a tree of version 1 beside an unified
// one that does not have it.
static bool find_path(char *text, group_t *out) {
  out->path = NULL;
  for (char *line; (line = cut(&text, "\n"));) {
    const char *number = cut(&line, ":"), *names = number ? line : NULL;
    char *path = line ? strchr(line, ':') : NULL;
    if (!names || !path)
      continue;
    *path++ = '\0';
    bool unified = strcmp(number, "0") == 0 && !*names;
    if ((unified && !out->path) || lists(names, "cpu")) {
      out->path = path;
      out->unified = unified;
    }
  }
  return out->path != NULL;
}

// Blanks and the like are written as three octal digits.
static void unescape(char *text) {
  char *to = text;
  for (const char *at = text; *at;) {
    unsigned value = 0;
    int used = 0;
    if (*at == '\\' && sscanf(at + 1, "%3o%n", &value, &used) == 1 && used == 3) {
      *to++ = (char)value;
      at += 4;
    } else {
      *to++ = *at++;
    }
  }
  *to = '\0';
}

// What of the group's path lies below the group that is mounted; NULL: it is not to be seen there,
// or the names are of another space.
static const char *below(const group_t *group, const char *root) {
  size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
  const char *rest = group->path + len;
  bool inside = strncmp(group->path, root, len) == 0 && (!*rest || *rest == '/');
  return inside && !strstr(rest, "..") ? rest : NULL;
}

// "36 35 0:31 /root /folder options … - cgroup source cpu,cpuacct". The first place where the group
// is to be seen, else the last: what is mounted there is what holds here.
static bool find_folder(char *text, group_t *group) {
  for (char *line; (line = cut(&text, "\n"));) {
    char *rest = strstr(line, " - ");
    char *fields[5] = {NULL}, *tail[3] = {NULL};
    if (!rest)
      continue;
    *rest = '\0';
    rest += 3;
    for (int k = 0; k < 5; k++)
      fields[k] = cut(&line, " ");
    for (int k = 0; k < 3; k++)
      tail[k] = cut(&rest, " ");
    if (!fields[4] || !tail[0] ||
        (group->unified ? strcmp(tail[0], "cgroup2") != 0
                        : strcmp(tail[0], "cgroup") != 0 || !tail[2] || !lists(tail[2], "cpu")))
      continue;
    unescape(fields[3]);
    unescape(fields[4]);
    group->folder = fields[4];
    group->rest = below(group, fields[3]);
    if (group->rest)
      return true;
  }
  group->rest = "";
  return group->folder != NULL;
}

// Two numbers of one file, or one of each of two. False: no limit there.
static bool read_limit(const group_t *group, const char *folder, long long *quota,
                       long long *period) {
  static const char *const names[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
  char path[PATH_MAX];
  long long *to[] = {quota, period};
  bool good = true;
  for (int k = 0; good && k < (group->unified ? 1 : 2); k++) {
    int n = snprintf(path, sizeof(path), "%s/%s", folder, group->unified ? "cpu.max" : names[k]);
    char *text = n > 0 && (size_t)n < sizeof(path) ? dt__process_read(path) : NULL;
    good = text && (group->unified ? sscanf(text, "%lld %lld", quota, period) == 2
                                   : sscanf(text, "%lld", to[k]) == 1);
    dt__free(text);
  }
  return good && *quota > 0 && *period > 0;
}

// The least of the group and those above it, as far as they are to be seen.
static int least(const char *root, const group_t *group) {
  char folder[PATH_MAX];
  int n = snprintf(folder, sizeof(folder), "%s%s%s", root, group->folder, group->rest);
  if (n < 0 || (size_t)n >= sizeof(folder))
    return 0;
  size_t top = strlen(root) + strlen(group->folder);
  int cores = 0;
  for (size_t len = strlen(folder); len >= top && len > 0;) {
    long long quota = 0, period = 0;
    folder[len] = '\0';
    if (read_limit(group, folder, &quota, &period)) {
      long long here = quota / period + (quota % period != 0);
      if (here < INT_MAX && (cores == 0 || here < cores))
        cores = (int)here;
    }
    do
      len--;
    while (len >= top && folder[len] != '/');
  }
  return cores;
}

static char *read_under(const char *root, const char *name) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/proc/self/%s", root, name);
  return n > 0 && (size_t)n < sizeof(path) ? dt__process_read(path) : NULL;
}

int dt__cgroup_cores(const char *root) {
  group_t group = {0};
  char *groups = read_under(root, "cgroup"), *mounts = read_under(root, "mountinfo");
  int cores = 0;
  if (groups && mounts && find_path(groups, &group) && find_folder(mounts, &group))
    cores = least(root, &group);
  dt__free(groups);
  dt__free(mounts);
  return cores;
}
