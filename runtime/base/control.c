// SPDX-License-Identifier: Apache-2.0
// See control.h.
#include "runtime/base/control.h"

#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#define LOOK_NS 2000000 // between two looks of a sleeper at a flag

// ---- Ends on demand -------------------------------------------------------------------------------
static struct {
  _Atomic uint64_t at, counted;
  _Atomic uint32_t code;
} demanded;

static uint32_t ends_here(void) {
  uint64_t at = atomic_load_explicit(&demanded.at, memory_order_relaxed);
  if (at == 0)
    return 0;
  uint64_t n = atomic_fetch_add_explicit(&demanded.counted, 1, memory_order_relaxed) + 1;
  return n == at ? atomic_load_explicit(&demanded.code, memory_order_relaxed) : 0;
}

uint64_t dt__control_end_at(uint64_t n, dt_code_t code) {
  atomic_store_explicit(&demanded.at, 0, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&demanded.counted, 0, memory_order_relaxed);
  atomic_store_explicit(&demanded.code, (uint32_t)code, memory_order_relaxed);
  atomic_store_explicit(&demanded.at, n, memory_order_relaxed);
  return before;
}

// ---- Flags ----------------------------------------------------------------------------------------
void dt_cancel_request(dt_cancel_t *cancel) {
  if (cancel)
    __atomic_store_n(&cancel->requested, 1, __ATOMIC_RELEASE);
}

void dt_cancel_reset(dt_cancel_t *cancel) {
  if (cancel)
    __atomic_store_n(&cancel->requested, 0, __ATOMIC_RELEASE);
}

// ---- Controls -------------------------------------------------------------------------------------
void dt__control_init(dt_control_t *control, int64_t deadline_ns, const dt_cancel_t *cancel) {
  atomic_init(&control->stopped, 0);
  control->deadline_ns = deadline_ns;
  control->cancel = cancel;
}

bool dt__control_look(dt_control_t *control, int64_t *out_now) {
  uint32_t none = 0, code = 0;
  int64_t now = out_now || control->deadline_ns ? dt__now_ns() : 0;
  if (out_now)
    *out_now = now;
  if (atomic_load_explicit(&control->stopped, memory_order_relaxed))
    return true;
  if (control->cancel && __atomic_load_n(&control->cancel->requested, __ATOMIC_ACQUIRE))
    code = DT_E_CANCELLED;
  else if (control->deadline_ns && now >= control->deadline_ns)
    code = DT_E_DEADLINE;
  if (!code)
    code = ends_here();
  if (!code)
    return false;
  // The first reason is the call's.
  (void)atomic_compare_exchange_strong_explicit(&control->stopped, &none, code,
                                                memory_order_relaxed, memory_order_relaxed);
  return true;
}

dt_status_t dt__control_found(const dt_control_t *control) {
  uint32_t code = atomic_load_explicit(&control->stopped, memory_order_relaxed);
  if (code == DT_E_CANCELLED)
    return DT_FAIL(DT_E_CANCELLED, "cancelled by dt_cancel_request");
  if (code)
    return DT_FAIL((dt_code_t)code, "the deadline passed %.3f ms ago: give more time, or less work",
                   (double)(dt__now_ns() - control->deadline_ns) * 1e-6);
  return NULL;
}

int64_t dt__control_wake_ns(const dt_control_t *control, int64_t now) {
  int64_t next = control->cancel ? now + LOOK_NS : INT64_MAX;
  return control->deadline_ns && control->deadline_ns < next ? control->deadline_ns : next;
}
