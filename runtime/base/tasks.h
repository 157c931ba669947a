// SPDX-License-Identifier: Apache-2.0
// What the library's own threads work on, for timelines: a list of tasks with their times, which
// whoever works writes to while somebody listens, and a board where lists are put up.
#ifndef DT_RUNTIME_BASE_TASKS_H
#define DT_RUNTIME_BASE_TASKS_H

#include "runtime/base/thread.h"

#include <stdatomic.h>

#define DT_TASK_TEXT 64u

typedef struct dt_task_t {
  const char *name;      // static storage
  char of[DT_TASK_TEXT]; // what for, as far as there is room
  char thread_name[16];
  uint64_t thread;
  int64_t queued_ns; // 0: it waited for no thread
  int64_t begin_ns, end_ns;
} dt_task_t;

// ---- Lists --------------------------------------------------------------------------------------
// Keeps the first tasks that end, and counts the others. [any]
typedef struct dt_tasks_t {
  _Atomic uint32_t refs;
  dt_mutex_t mutex; // guards what follows
  uint32_t n, cap;
  uint64_t lost;
  dt_task_t *items;
} dt_tasks_t;

dt_status_t dt__tasks_make(dt_tasks_t **out) DT_MUST_USE; // with a reference, the caller's
void dt__tasks_release(dt_tasks_t *tasks);                // NULL allowed

// ---- Boards -------------------------------------------------------------------------------------
typedef struct dt_task_board_t {
  dt_mutex_t mutex;
  _Atomic(dt_tasks_t *) list; // a reference; NULL: nobody listens. Changed under the mutex
} dt_task_board_t;

dt_status_t dt__task_board_init(dt_task_board_t *board) DT_MUST_USE;
void dt__task_board_fini(dt_task_board_t *board);
// The list, or NULL, takes the place of the one before: tasks that end from now on go there.
void dt__task_board_put(dt_task_board_t *board, dt_tasks_t *list);
// The same where `list` is up, and only there.
void dt__task_board_take(dt_task_board_t *board, const dt_tasks_t *list);

static inline bool dt__task_told(const dt_task_board_t *board) {
  return atomic_load_explicit(&board->list, memory_order_relaxed) != NULL;
}
// When the task begins; 0: nobody listens.
static inline int64_t dt__task_begin(const dt_task_board_t *board) {
  return dt__task_told(board) ? dt__now_ns() : 0;
}
// On the thread that did it; nothing where `begin_ns` is 0. `of` NULL: "".
void dt__task_end(dt_task_board_t *board, int64_t begin_ns, int64_t queued_ns, const char *name,
                  const char *of);

#endif // DT_RUNTIME_BASE_TASKS_H
