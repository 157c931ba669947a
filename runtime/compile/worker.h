// SPDX-License-Identifier: Apache-2.0
// Code made in worker processes: a code generator that runs out of memory, crashes or hangs ends
// only its worker. Workers are started when they are needed, as many as compile threads ask at a
// time, and started again when they died. A worker ends when it was idle for a while, and with this
// process. docs/worker.md describes all of it.
#ifndef DT_RUNTIME_COMPILE_WORKER_H
#define DT_RUNTIME_COMPILE_WORKER_H

#include "fuse/target.h"
#include "runtime/base/text.h"
#include "runtime/base/watch.h"

struct dt_maker_t;

typedef struct dt_workers dt_workers_t;

// Strings are copied.
typedef struct dt_workers_options_t {
  const char *path; // of the program; NULL or "": beside this library, or where it was installed
  uint32_t mib;     // of memory that one may write; 0: no limit
  uint32_t seconds; // that a request may take, by the clock and of a processor; 0: no limit
  uint32_t idle_ms; // until one ends that nothing was asked of
  const char *dump, *dump_dir; // DUCTILE_DUMP and its folder
  const char *jit;             // the code generator's file; NULL or "": where it is looked for
} dt_workers_options_t;

typedef struct dt_workers_stats_t {
  uint64_t started, died; // the latter: not by themselves
  uint64_t ns;            // processor time of all, as far as they answered
} dt_workers_stats_t;

// Starts none. DT_E_UNSUPPORTED where there is no program, naming the places looked at.
dt_status_t dt__workers_create(const dt_workers_options_t *options, dt_workers_t **out) DT_MUST_USE;
// Ends what runs: requests under way fail, and so do all that come.
void dt__workers_stop(dt_workers_t *workers);
// When no request is under way. NULL allowed. In a child after fork it touches no worker.
void dt__workers_destroy(dt_workers_t *workers);
dt_workers_stats_t dt__workers_stats(dt_workers_t *workers);

// ---- Requests: on compile threads -------------------------------------------------------------------
// Where a worker dies or takes too long: DT_E_COMPILE, or DT_E_NO_MEMORY at its limit of memory,
// naming what ended it. A death without a word is tried once more with another worker. What killed
// two is refused for a while without being tried.
//
// `watch` (NULL: none) counts the processor time, and ends the request when it is over.

// Describes this machine, or the CPU of that name.
dt_status_t dt__workers_target(dt_workers_t *workers, const char *cpu, uint32_t threads,
                               dt_target_t *out) DT_MUST_USE;

// Who makes the code there.
dt_status_t dt__workers_maker(dt_workers_t *workers, struct dt_maker_t *out) DT_MUST_USE;

// A program whose units are asked for one by one: worker_text.h's text, which stays the caller's.
typedef struct dt_worker_source_t {
  uint64_t number;  // dt__workers_number: a worker that has it already is not sent it again
  const char *name; // of the function, for messages
  const char *text;
  size_t bytes;
} dt_worker_source_t;
uint64_t dt__workers_number(dt_workers_t *workers);
// *out (dt__free) has a zero behind it.
dt_status_t dt__workers_unit(dt_workers_t *workers, const dt_worker_source_t *source, uint32_t unit,
                             dt_watch_t *watch, void **out, size_t *out_bytes) DT_MUST_USE;
// Fills `n` numbers that say how the codes of the source's device are launched.
dt_status_t dt__workers_infos(dt_workers_t *workers, const dt_worker_source_t *source,
                              uint32_t *out, uint32_t n) DT_MUST_USE;
dt_status_t dt__workers_decide(dt_workers_t *workers, const dt_worker_source_t *source, void **out,
                               size_t *out_bytes) DT_MUST_USE;

// ---- Both sides -------------------------------------------------------------------------------------
// What a worker says of itself: protocol, version, and the build of the library that it runs. In a
// program that has the library's code in itself there is no build to compare.
void dt__worker_hello(dt_text_t *out);
// NULL: it may work for this process. Else DT_E_UNSUPPORTED saying what differs.
dt_status_t dt__worker_hello_check(const char *text, size_t bytes) DT_MUST_USE;
// The program to run: *out (dt__free) is `path`, or where one was found.
dt_status_t dt__worker_find(const char *path, char **out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_WORKER_H
