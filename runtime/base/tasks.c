// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/tasks.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#define MOST_TASKS 16384u

// ---- Lists ------------------------------------------------------------------------------------------

dt_status_t dt__tasks_make(dt_tasks_t **out) {
  *out = NULL;
  dt_tasks_t *tasks = dt__calloc(1, sizeof(*tasks));
  if (!tasks)
    return DT_NO_MEMORY();
  dt_status_t status = dt__mutex_init(&tasks->mutex, DT_RANK_TASKS);
  if (status) {
    dt__free(tasks);
    return status;
  }
  atomic_init(&tasks->refs, 1);
  *out = tasks;
  return NULL;
}

void dt__tasks_release(dt_tasks_t *tasks) {
  if (!tasks || atomic_fetch_sub_explicit(&tasks->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__mutex_fini(&tasks->mutex);
  dt__free(tasks->items);
  dt__free(tasks);
}

// Mutex held.
static bool has_room(dt_tasks_t *tasks) {
  if (tasks->n < tasks->cap)
    return true;
  uint32_t cap = tasks->cap ? 2 * tasks->cap : 64;
  dt_task_t *items = cap <= MOST_TASKS ? dt__realloc(tasks->items, cap * sizeof(*items)) : NULL;
  if (!items)
    return false;
  tasks->items = items;
  tasks->cap = cap;
  return true;
}

static void add(dt_tasks_t *tasks, const dt_task_t *task) {
  dt__mutex_lock(&tasks->mutex);
  if (has_room(tasks))
    tasks->items[tasks->n++] = *task;
  else
    tasks->lost++;
  dt__mutex_unlock(&tasks->mutex);
}

// ---- Boards -----------------------------------------------------------------------------------------

dt_status_t dt__task_board_init(dt_task_board_t *board) {
  atomic_init(&board->list, NULL);
  return dt__mutex_init(&board->mutex, DT_RANK_TASK_BOARD);
}

void dt__task_board_fini(dt_task_board_t *board) {
  dt__tasks_release(atomic_load_explicit(&board->list, memory_order_relaxed));
  dt__mutex_fini(&board->mutex);
}

void dt__task_board_put(dt_task_board_t *board, dt_tasks_t *list) {
  if (list)
    (void)atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
  dt__mutex_lock(&board->mutex);
  dt_tasks_t *before = atomic_exchange_explicit(&board->list, list, memory_order_relaxed);
  dt__mutex_unlock(&board->mutex);
  dt__tasks_release(before);
}

void dt__task_board_take(dt_task_board_t *board, const dt_tasks_t *list) {
  dt__mutex_lock(&board->mutex);
  dt_tasks_t *up = atomic_load_explicit(&board->list, memory_order_relaxed);
  bool is = up && up == list;
  if (is)
    atomic_store_explicit(&board->list, NULL, memory_order_relaxed);
  dt__mutex_unlock(&board->mutex);
  if (is)
    dt__tasks_release(up);
}

static dt_tasks_t *list_of(dt_task_board_t *board) {
  dt__mutex_lock(&board->mutex);
  dt_tasks_t *list = atomic_load_explicit(&board->list, memory_order_relaxed);
  if (list)
    (void)atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
  dt__mutex_unlock(&board->mutex);
  return list;
}

void dt__task_end(dt_task_board_t *board, int64_t begin_ns, int64_t queued_ns, const char *name,
                  const char *of) {
  dt_task_t task = {
      .name = name, .queued_ns = queued_ns, .begin_ns = begin_ns, .end_ns = dt__now_ns()};
  dt_tasks_t *list = begin_ns ? list_of(board) : NULL;
  if (!list)
    return;
  task.thread = (uint64_t)(uintptr_t)pthread_self();
  (void)snprintf(task.of, sizeof(task.of), "%s", of ? of : "");
  if (pthread_getname_np(pthread_self(), task.thread_name, sizeof(task.thread_name)))
    task.thread_name[0] = 0;
  add(list, &task);
  dt__tasks_release(list);
}
