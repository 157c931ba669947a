// SPDX-License-Identifier: Apache-2.0
// The networks of bench_gpu_networks: ResNet50 and BERT as programs in f16 whose weights are in a
// file, named and laid out as PyTorch's modules have them (tools/bench/networks_gpu_peer.py).
#ifndef BENCH_NETWORKS_H
#define BENCH_NETWORKS_H

#include "ductile/ductile.h"
#include "ductile/safetensors.h"

enum { RESNET_STAGES = 4 };

// ResNet50 has bottlenecks with their stride in the convolution of 3 x 3, and batch norms folded
// into weights and biases. Its input is [N, 3, H, W]; all but the 3 are symbols.
typedef struct resnet_t {
  int blocks[RESNET_STAGES];
  int64_t width, classes; // channels of the first stage's inside; of the result
} resnet_t;

// The encoder alone: its input is [batch, length, hidden], of which the first two are symbols. All
// tokens look at all tokens of their row.
typedef struct bert_t {
  int layers;
  int64_t hidden, inner;
} bert_t;

typedef struct network_t {
  const char *name;
  uint32_t rank; // of the input
  resnet_t resnet;
  bert_t bert;
  dt_safetensors_t *weights; // owner: the caller. Outlives the function
} network_t;

// Makes its function, which reads *network: one input, one result, both f16.
dt_status_t resnet_create(dt_runtime_t *runtime, network_t *network, dt_call_mode_t mode,
                          dt_function_t **out) DT_MUST_USE;
dt_status_t bert_create(dt_runtime_t *runtime, network_t *network, dt_call_mode_t mode,
                        dt_function_t **out) DT_MUST_USE;

#endif // BENCH_NETWORKS_H
