// SPDX-License-Identifier: Apache-2.0
// See queued.h.
#include "bench/queued.h"

#include "bench/harness.h"
#include "ductile/device.h"

enum { WARM_UP = 3, MOST_CALLS = 4096 };
#define ROUND_NS 4e6

static bool make_calls(const queued_call_t *c, int64_t calls) {
  for (int64_t k = 0; k < calls; k++)
    if (!bench_ok(dt_call(c->session, c->function, c->inputs, c->n_inputs, c->outputs, c->n_outputs,
                          NULL),
                  "call"))
      return false;
  return bench_ok(dt_session_wait(c->session), "wait");
}

double queued_us(const queued_call_t *call, long rounds) {
  double all[QUEUED_ROUNDS];
  int64_t calls = 1;
  long n = rounds < QUEUED_ROUNDS ? rounds : QUEUED_ROUNDS;
  for (long r = -WARM_UP; r < n;) {
    double begin = bench_now_ns();
    if (!make_calls(call, calls))
      return 0;
    double took = bench_now_ns() - begin;
    if (r == -1 && took < ROUND_NS && calls < MOST_CALLS) {
      calls *= 2;
      continue;
    }
    if (r >= 0)
      all[r] = took / (double)calls / 1e3;
    r++;
  }
  return bench_median(all, (size_t)n);
}
