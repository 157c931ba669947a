// SPDX-License-Identifier: Apache-2.0
// See cpus.h. Which CPUs a NUMA node has stands in /sys/devices/system/node.
#include "runtime/base/cpus.h"

#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NODE "node:"
#define NODES_FOLDER "/sys/devices/system/node"

// ---- Lists ----------------------------------------------------------------------------------------

// A number at *at, which goes behind it; -1: there is none, or it is none of a CPU.
static int read_number(const char **at) {
  int number = 0;
  const char *begin = *at;
  for (; **at >= '0' && **at <= '9'; (*at)++) {
    number = 10 * number + (**at - '0');
    if (number >= CPU_SETSIZE)
      return -1;
  }
  return *at > begin ? number : -1;
}

// "3" or "0-3", up to a comma or the end. False: it is neither; *at is where that shows.
static bool read_item(const char **at, cpu_set_t *to) {
  int first = read_number(at), last = first;
  if (**at == '-') {
    (*at)++;
    last = read_number(at);
  }
  if (first < 0 || last < first || (**at && **at != ','))
    return false;
  for (int k = first; k <= last; k++)
    CPU_SET((size_t)k, to);
  return true;
}

// CPUs, and behind "node:" nodes.
static dt_status_t read_text(const char *text, cpu_set_t *cpus, cpu_set_t *nodes) {
  const char *at = text;
  cpu_set_t *to = cpus;
  do {
    if (strncmp(at, NODE, strlen(NODE)) == 0) {
      at += strlen(NODE);
      to = nodes;
    }
    if (!read_item(&at, to))
      return DT_FAIL(DT_E_ARGUMENT,
                     "cpus: '%s' at '%.16s'; expected CPUs below %d, as in 0-3,8, and then nodes, "
                     "as in node:0,1",
                     text, at, CPU_SETSIZE);
  } while (*at++ == ',');
  return NULL;
}

// ---- Nodes ----------------------------------------------------------------------------------------

// A line of the system's, whose end is cut off; none of it is a list of nothing.
static bool read_line(char *line, cpu_set_t *to) {
  const char *at = line;
  line[strcspn(line, "\n")] = '\0';
  bool good = true;
  if (*line)
    do
      good = read_item(&at, to);
    while (good && *at++ == ',');
  return good;
}

// One of the files that say what there is: *out_line is for dt__free, also on failure.
static dt_status_t read_file(const char *root, const char *name, cpu_set_t *out, char **out_line) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s" NODES_FOLDER "/%s", root, name);
  *out_line = n > 0 && (size_t)n < sizeof(path) ? dt__process_read(path) : NULL;
  if (!*out_line)
    return DT_FAIL(DT_E_UNSUPPORTED, "cpus: node: " NODES_FOLDER "/%s cannot be read", name);
  if (!read_line(*out_line, out))
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "cpus: node: " NODES_FOLDER "/%s: '%.64s'; expected numbers below %d", name,
                   *out_line, CPU_SETSIZE);
  return NULL;
}

// The CPUs of one node that are `allowed`, of which there must be one. `has`: what nodes there are.
static dt_status_t add_node(const char *root, int node, const char *has, const cpu_set_t *allowed,
                            cpu_set_t *to) {
  char name[32], *line = NULL;
  cpu_set_t cpus = {0}, both = {0};
  (void)snprintf(name, sizeof(name), "node%d/cpulist", node);
  dt_status_t status = read_file(root, name, &cpus, &line);
  CPU_AND(&both, &cpus, allowed);
  if (!status && CPU_COUNT(&cpus) == 0)
    status = DT_FAIL(DT_E_ARGUMENT, "cpus: node %d has no CPUs; there are nodes %.64s", node, has);
  else if (!status && CPU_COUNT(&both) == 0)
    status = DT_FAIL(DT_E_ARGUMENT,
                     "cpus: threads of this process may not run on any CPU of node %d (%.64s); "
                     "taskset -pc shows where they may",
                     node, line);
  else if (!status)
    CPU_OR(to, to, &both);
  dt__free(line);
  return status;
}

static dt_status_t add_nodes(const char *root, const cpu_set_t *nodes, const cpu_set_t *allowed,
                             cpu_set_t *to) {
  cpu_set_t online = {0};
  char *has = NULL;
  dt_status_t status = read_file(root, "online", &online, &has);
  for (int node = 0; !status && node < CPU_SETSIZE; node++) {
    if (!CPU_ISSET((size_t)node, nodes))
      continue;
    status =
        CPU_ISSET((size_t)node, &online)
            ? add_node(root, node, has, allowed, to)
            : DT_FAIL(DT_E_ARGUMENT, "cpus: there is no node %d; there are nodes %.64s", node, has);
  }
  dt__free(has);
  return status;
}

dt_status_t dt__cpus_parse(const char *text, const char *root, const cpu_set_t *allowed,
                           dt_cpus_t *out) {
  cpu_set_t nodes = {0};
  *out = (dt_cpus_t){.given = true};
  DT_TRY(read_text(text, &out->set, &nodes));
  return CPU_COUNT(&nodes) > 0 ? add_nodes(root, &nodes, allowed, &out->set) : NULL;
}

// ---- Threads --------------------------------------------------------------------------------------

static dt_status_t where_now(cpu_set_t *out) {
  return sched_getaffinity(0, sizeof(*out), out) == 0
             ? NULL
             : DT_FAIL(DT_E_UNSUPPORTED, "cpus: this machine has more CPUs than a set can name");
}

dt_status_t dt__cpus_read(const char *text, dt_cpus_t *out) {
  cpu_set_t allowed;
  *out = (dt_cpus_t){.given = false};
  DT_TRY(where_now(&allowed));
  return dt__cpus_parse(text, "", &allowed, out);
}

static dt_status_t refuse(const dt_cpus_t *cpus, const cpu_set_t *allowed) {
  size_t cpu = 0;
  while (cpu + 1 < CPU_SETSIZE && (!CPU_ISSET(cpu, &cpus->set) || CPU_ISSET(cpu, allowed)))
    cpu++;
  return DT_FAIL(DT_E_ARGUMENT,
                 "cpus: threads of this process may not run on CPU %zu; taskset -pc shows where "
                 "they may",
                 cpu);
}

dt_status_t dt__cpus_enter(const dt_cpus_t *cpus, dt_cpus_t *before) {
  *before = (dt_cpus_t){.given = false};
  if (!cpus->given)
    return NULL;
  cpu_set_t now = {0};
  DT_TRY(where_now(&before->set));
  // The system leaves out what the process' control group does not have.
  if (sched_setaffinity(0, sizeof(cpus->set), &cpus->set) == 0) {
    before->given = true;
    if (sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &cpus->set))
      return NULL;
  }
  dt__cpus_leave(before);
  before->given = false;
  return refuse(cpus, &now);
}

void dt__cpus_leave(const dt_cpus_t *before) {
  if (before->given)
    (void)sched_setaffinity(0, sizeof(before->set), &before->set);
}
