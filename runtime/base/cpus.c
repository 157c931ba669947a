// SPDX-License-Identifier: Apache-2.0
// See cpus.h.
#include "runtime/base/cpus.h"

#include "runtime/base/status.h"

#include <string.h>

// A number at *at, which goes behind it; -1: there is none, or it is none of a CPU.
static int read_cpu(const char **at) {
  int cpu = 0;
  const char *begin = *at;
  for (; **at >= '0' && **at <= '9'; (*at)++) {
    cpu = 10 * cpu + (**at - '0');
    if (cpu >= CPU_SETSIZE)
      return -1;
  }
  return *at > begin ? cpu : -1;
}

dt_status_t dt__cpus_parse(const char *text, dt_cpus_t *out) {
  *out = (dt_cpus_t){.given = true};
  const char *at = text;
  do {
    int first = read_cpu(&at), last = first;
    if (*at == '-') {
      at++;
      last = read_cpu(&at);
    }
    if (first < 0 || last < first || (*at && *at != ','))
      return DT_FAIL(DT_E_ARGUMENT, "cpus: '%s' at '%.16s'; expected CPUs below %d, as in 0-3,8",
                     text, at, CPU_SETSIZE);
    for (int cpu = first; cpu <= last; cpu++)
      CPU_SET((size_t)cpu, &out->set);
  } while (*at++ == ',');
  return NULL;
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
  if (sched_getaffinity(0, sizeof(before->set), &before->set) != 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "cpus: this machine has more CPUs than a set can name");
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
