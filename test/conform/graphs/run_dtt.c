// SPDX-License-Identifier: Apache-2.0
// A call of a random program as a .dtt: the graph that it traces, and its arguments' bits.
// Arguments that share memory are written apart.
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "test/conform/graphs/run_graph.h"

#include <stdio.h>
#include <string.h>

static void put_list(uint32_t n, const int64_t *values) {
  printf("(");
  for (uint32_t k = 0; k < n; k++)
    printf(k ? ", %lld" : "%lld", (long long)values[k]);
  printf(")");
}

static void put_argument(const dt_tensor_t *tensor) {
  uint32_t rank = dt_tensor_rank(tensor);
  const int64_t *sizes = dt_tensor_sizes(tensor), *strides = dt_tensor_strides(tensor);
  size_t size = dt_dtype_size(dt_tensor_dtype(tensor));
  int64_t low = 0, high = 0, empty = dt_tensor_count(tensor) == 0;
  for (uint32_t d = 0; d < rank && !empty; d++) {
    int64_t reach = (sizes[d] - 1) * strides[d];
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
  }
  printf("input ");
  put_list(rank, sizes);
  printf(" strides ");
  put_list(rank, strides);
  printf(" first %lld count %lld:", (long long)-low, (long long)(empty ? 0 : high - low + 1));
  for (int64_t k = low; k <= high && !empty; k++) {
    int64_t bits = 0;
    memcpy(&bits, (const char *)dt_tensor_data(tensor) + k * (int64_t)size, size);
    printf(" %lld", (long long)bits);
  }
  printf("\n");
}

void rg_print_dtt(rg_run_t *run, uint32_t call) {
  rg_args_t args;
  dt_traced_t *traced = NULL;
  dt_text_t text;
  bool made = rg_make_args(run, call, &args);
  dt_trace_request_t request = rg_request(run, "dtt", args.tensors);
  dt_status_t status = made ? dt__trace_run(&request, &traced) : NULL;
  dt__text_init(&text);
  if (made && !status) {
    dt__graph_print(traced->graph, &text);
    printf("--TEST--\nRandom graph %llu, call %u.\n--ARGS--\n--check\n--IN--\n%s--DATA--\n",
           (unsigned long long)run->p->seed, call, dt__text_str(&text));
    for (uint32_t k = 0; k < args.n; k++)
      put_argument(args.tensors[k]);
    printf("--EXPECT--\nright\n");
  }
  dt_status_free(status);
  dt__text_fini(&text);
  dt__traced_destroy(traced);
  rg_free_args(&args);
}
