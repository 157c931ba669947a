// SPDX-License-Identifier: Apache-2.0
// Starts a process that the host does not notice: it sends no SIGCHLD, no wait for any child finds
// it, no descriptor of the host's is open in it, no signal of a terminal reaches it.
#ifndef DT_RUNTIME_COMPILE_WORKER_SPAWN_H
#define DT_RUNTIME_COMPILE_WORKER_SPAWN_H

#include "ductile/base.h"

typedef struct dt_process_t {
  int socket; // to its descriptor DT_WORKER_FD; closed when it ends
  int handle; // by which it can be killed whatever became of its number; -1: the kernel has none
  int pid;    // for people
} dt_process_t;

// `path` is a program, `environment` all of its variables, NULL at the end. DT_E_UNSUPPORTED where
// it cannot be run, saying why. On any thread.
dt_status_t dt__process_start(const char *path, char *const environment[],
                              dt_process_t *out) DT_MUST_USE;
// Kills it, if it lives, and waits for its end where it became a child of ours all the same.
void dt__process_kill(dt_process_t *process);
// Gives up our end of the socket, at which it ends by itself.
void dt__process_close(dt_process_t *process);

#endif // DT_RUNTIME_COMPILE_WORKER_SPAWN_H
