// SPDX-License-Identifier: Apache-2.0
// Epoch reclamation: what a reader may see stays, what none can see goes.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>

typedef struct item_t {
  dt_retired_t retired; // first: callbacks get it
  int *destroyed;
  bool *is_ready;
  dt_reclaim_t *then; // destroying it retires `follower` there
  struct item_t *follower;
} item_t;

static void destroy_item(dt_retired_t *retired) {
  item_t *item = (item_t *)retired;
  (*item->destroyed)++;
  if (item->follower)
    dt__reclaim_retire(item->then, &item->follower->retired);
}

static bool item_ready(dt_retired_t *retired) { return *((item_t *)retired)->is_ready; }

static item_t make_item(int *destroyed, bool *is_ready) {
  return (item_t){.retired = {.destroy = destroy_item, .ready = is_ready ? item_ready : NULL},
                  .destroyed = destroyed,
                  .is_ready = is_ready};
}

static void test_without_readers(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  assert_null(dt__reclaim_create(&reclaim));
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  int destroyed = 0;
  item_t items[3];
  for (int i = 0; i < 3; i++) {
    items[i] = make_item(&destroyed, NULL);
    dt__reclaim_retire(reclaim, &items[i].retired);
  }
  assert_int_equal(destroyed, 0); // only collecting destroys
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  assert_int_equal(destroyed, 3);
  dt__reclaim_destroy(reclaim);
  assert_int_equal(destroyed, 3);
  dt__reclaim_destroy(NULL);
}

static void test_reader_keeps_items(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  dt_reclaim_slot_t *early, *late;
  assert_null(dt__reclaim_create(&reclaim));
  assert_null(dt__reclaim_slot_acquire(reclaim, &early));
  assert_null(dt__reclaim_slot_acquire(reclaim, &late));
  assert_ptr_not_equal(early, late);
  int destroyed = 0;
  item_t first = make_item(&destroyed, NULL), second = make_item(&destroyed, NULL);

  assert_true(dt__reclaim_enter(reclaim, early));
  dt__reclaim_retire(reclaim, &first.retired);
  assert_true(dt__reclaim_enter(reclaim, late)); // after the first was retired: cannot see it
  dt__reclaim_retire(reclaim, &second.retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 2);
  dt__reclaim_leave(early);
  assert_int_equal(dt__reclaim_collect(reclaim), 1);
  assert_int_equal(destroyed, 1);
  assert_true(dt__reclaim_enter(reclaim, early)); // enters anew: no hold on the second
  assert_int_equal(dt__reclaim_collect(reclaim), 1);
  dt__reclaim_leave(late);
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  assert_int_equal(destroyed, 2);
  dt__reclaim_leave(early);
  dt__reclaim_slot_release(reclaim, early);
  dt__reclaim_slot_release(reclaim, late);
  dt__reclaim_slot_release(reclaim, NULL);
  dt__reclaim_destroy(reclaim);
}

// A slot is held by one, inside or outside; outside it keeps nothing.
static void test_holding(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  dt_reclaim_slot_t *slot;
  assert_null(dt__reclaim_create(&reclaim));
  assert_null(dt__reclaim_slot_acquire(reclaim, &slot));
  int destroyed = 0;
  item_t items[3];
  for (int i = 0; i < 3; i++)
    items[i] = make_item(&destroyed, NULL);
  assert_true(dt__reclaim_hold(slot));
  assert_false(dt__reclaim_hold(slot));
  assert_false(dt__reclaim_enter(reclaim, slot));
  dt__reclaim_retire(reclaim, &items[0].retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  dt__reclaim_leave(slot);
  assert_true(dt__reclaim_enter(reclaim, slot));
  dt__reclaim_retire(reclaim, &items[1].retired);
  assert_false(dt__reclaim_enter(reclaim, slot)); // and is not inside later than it was
  assert_false(dt__reclaim_hold(slot));
  assert_int_equal(dt__reclaim_collect(reclaim), 1);
  dt__reclaim_pause(slot);
  assert_false(dt__reclaim_hold(slot));
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  dt__reclaim_resume(reclaim, slot);
  assert_false(dt__reclaim_hold(slot));
  dt__reclaim_retire(reclaim, &items[2].retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 1);
  dt__reclaim_leave(slot);
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  assert_int_equal(destroyed, 3);
  dt__reclaim_slot_release(reclaim, slot);
  dt__reclaim_destroy(reclaim);
}

static void test_ready(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  assert_null(dt__reclaim_create(&reclaim));
  int waiting_gone = 0, other_gone = 0;
  bool is_ready = false;
  item_t waiting = make_item(&waiting_gone, &is_ready), other = make_item(&other_gone, NULL);
  item_t last = make_item(&waiting_gone, &is_ready);
  dt__reclaim_retire(reclaim, &waiting.retired);
  dt__reclaim_retire(reclaim, &other.retired);
  dt__reclaim_retire(reclaim, &last.retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 2); // one that is not ready holds no other up
  assert_int_equal(other_gone, 1);
  is_ready = true;
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  assert_int_equal(waiting_gone, 2);

  // Retiring works after the list's last item was taken out.
  dt__reclaim_retire(reclaim, &other.retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 0);
  assert_int_equal(other_gone, 2);
  dt__reclaim_destroy(reclaim);
}

static void test_destroy_takes_all(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  assert_null(dt__reclaim_create(&reclaim));
  int destroyed = 0;
  bool never = false;
  item_t follower = make_item(&destroyed, &never), item = make_item(&destroyed, &never);
  item.then = reclaim;
  item.follower = &follower;
  dt__reclaim_retire(reclaim, &item.retired);
  assert_int_equal(dt__reclaim_collect(reclaim), 1);
  dt__reclaim_destroy(reclaim);
  assert_int_equal(destroyed, 2);
}

static void test_slots(void **state) {
  (void)state;
  dt_reclaim_t *reclaim;
  dt_reclaim_slot_t *slot, *again;
  assert_null(dt__reclaim_create(&reclaim));
  assert_null(dt__reclaim_slot_acquire(reclaim, &slot));
  assert_int_equal((uintptr_t)slot % 64, 0);
  dt__reclaim_slot_release(reclaim, slot);
  assert_null(dt__reclaim_slot_acquire(reclaim, &again));
  assert_ptr_equal(slot, again);
  (void)dt__heap_fail_at(1, true);
  dt_status_t status = dt__reclaim_slot_acquire(reclaim, &slot);
  (void)dt__heap_fail_at(0, false);
  assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
  assert_null(slot);
  dt_status_free(status);
  dt__reclaim_destroy(reclaim);
  (void)dt__heap_fail_at(1, true);
  status = dt__reclaim_create(&reclaim);
  (void)dt__heap_fail_at(0, false);
  assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
  assert_null(reclaim);
  dt_status_free(status);
}

// ---- Readers and writers at once ------------------------------------------------------------------

typedef struct node_t {
  dt_retired_t retired;
  uint64_t value, complement; // value ^ complement is all ones while the node is alive
} node_t;

typedef struct shared_t {
  dt_reclaim_t *reclaim;
  _Atomic(node_t *) current;
  _Atomic bool stop;
  _Atomic int torn;
  _Atomic int64_t reads;
} shared_t;

static void destroy_node(dt_retired_t *retired) {
  node_t *node = (node_t *)retired;
  node->value = 0; // a reader that still looks sees a torn node, even without a sanitizer
  node->complement = 0;
  dt__free(node);
}

static node_t *make_node(uint64_t value) {
  node_t *node = dt__alloc(sizeof(*node));
  *node = (node_t){.retired = {.destroy = destroy_node}, .value = value, .complement = ~value};
  return node;
}

static void *read_nodes(void *arg) {
  shared_t *shared = arg;
  dt_reclaim_slot_t *slot;
  if (dt__reclaim_slot_acquire(shared->reclaim, &slot)) {
    (void)atomic_fetch_add(&shared->torn, 1);
    return NULL;
  }
  while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
    if (!dt__reclaim_enter(shared->reclaim, slot))
      (void)atomic_fetch_add(&shared->torn, 1);
    node_t *node = atomic_load_explicit(&shared->current, memory_order_acquire);
    for (int i = 0; i < 20; i++) {
      if ((*(volatile uint64_t *)&node->value ^ *(volatile uint64_t *)&node->complement) !=
          UINT64_MAX)
        (void)atomic_fetch_add(&shared->torn, 1);
    }
    dt__reclaim_leave(slot);
    (void)atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
  }
  dt__reclaim_slot_release(shared->reclaim, slot);
  return NULL;
}

static void *write_nodes(void *arg) {
  shared_t *shared = arg;
  for (uint64_t i = 0; i < 20000; i++) {
    node_t *old = atomic_exchange_explicit(&shared->current, make_node(i), memory_order_acq_rel);
    dt__reclaim_retire(shared->reclaim, &old->retired);
    if (i % 8 == 0)
      (void)dt__reclaim_collect(shared->reclaim);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  shared_t shared = {.torn = 0};
  assert_null(dt__reclaim_create(&shared.reclaim));
  atomic_store(&shared.current, make_node(7));
  pthread_t readers[3], writers[2];
  for (int i = 0; i < 3; i++)
    assert_null(dt__thread_start(&readers[i], "reader", false, read_nodes, &shared));
  for (int i = 0; i < 2; i++)
    assert_null(dt__thread_start(&writers[i], "writer", false, write_nodes, &shared));
  for (int i = 0; i < 2; i++)
    (void)pthread_join(writers[i], NULL);
  while (atomic_load(&shared.reads) == 0)
    continue;
  atomic_store(&shared.stop, true);
  for (int i = 0; i < 3; i++)
    (void)pthread_join(readers[i], NULL);
  assert_int_equal(atomic_load(&shared.torn), 0);
  assert_int_equal(dt__reclaim_collect(shared.reclaim), 0);
  dt__free(atomic_load(&shared.current));
  dt__reclaim_destroy(shared.reclaim);
}

RUN_TESTS(TEST(test_without_readers), TEST(test_reader_keeps_items), TEST(test_holding),
          TEST(test_ready), TEST(test_destroy_takes_all), TEST(test_slots), TEST(test_threads))
