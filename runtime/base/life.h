// SPDX-License-Identifier: Apache-2.0
// The library in the life of its process: forks, the process's exit, and its end with its last
// thread.
#ifndef DT_RUNTIME_BASE_LIFE_H
#define DT_RUNTIME_BASE_LIFE_H

#include "ductile/base.h"

// ---- Runtimes -----------------------------------------------------------------------------------

// Something with threads and locks that a process has: a runtime. Embedded in it.
typedef struct dt_life_t {
  struct dt_life_t *next, **at; // of all that live
  // Tells its threads to end and waits for none of them: nobody is left who could use them.
  void (*end_threads)(struct dt_life_t *life);
} dt_life_t;

// A life begins, before any thread or lock of it. Ends when all of those are gone.
void dt__life_begin(dt_life_t *life, void (*end_threads)(dt_life_t *life));
void dt__life_end(dt_life_t *life);
// The calling thread is the host's and uses the library: its end may leave our threads alone in the
// process, which they then end.
void dt__life_meet_thread(void);
// Our own threads say when they begin and when they end.
void dt__life_thread_begins(void);
void dt__life_thread_ends(void);

// True in a child process that was forked while a life had begun: the threads are not there, and
// locks may be held for ever.
bool dt__forked(void);

// ---- Exit ---------------------------------------------------------------------------------------

// Code generators keep state in libraries that exit takes apart, so exit waits until no thread is
// inside one, for as long as its parts take, and lets none in any more.
// Enters, unless the process is ending: DT_E_STATE.
dt_status_t dt__generator_enter(void) DT_MUST_USE;
// Inside, between parts: DT_E_STATE when the process is ending and waits for this thread.
dt_status_t dt__generator_check(void) DT_MUST_USE;
void dt__generator_leave(void);

#endif // DT_RUNTIME_BASE_LIFE_H
