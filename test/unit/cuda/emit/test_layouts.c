// SPDX-License-Identifier: Apache-2.0
// Orders, blocks and halos in PTX: programs of temporaries that have them, run by the fake driver,
// against the interpreter.
#include "test/unit/cuda/emit/gpu_rig.h"
#include "test/unit/cuda/ptx/ptx_fixture.h"

#include <stdio.h>

static const dt_cuda_model_t h100 = {9, 0, 132, 227 << 10, 50 << 20};

// x with a halo, then differences of elements three apart, in another order.
static const char program[] = "program {\n"
                              "symbol s0: [0, 1000]\nsymbol s1: [0, 1000]\nsymbol s2: [0, 1000]\n"
                              "buffer b1 = input 0 f32[s0, s1, s2] strides [s1*s2, s2, 1]\n"
                              "buffer b2 = temp f32[s0, s1, s2] %s\n"
                              "buffer b3 = output 0 f32[s0, s1, s2] order [2, 0, 1]\n"
                              "kernel \"pad\" outer i3 < s0, i4 < s1, i5 < s2 + 3 {\n"
                              "  stage {\n"
                              "    v0 = const f32 0.5\n"
                              "    v1 = index bool 2 <= i5 and i5 < s2 + 2\n"
                              "    v2 = load f32 b1[i3, i4, i5 - 2] mask v1 else v0\n"
                              "    store b2[i3, i4, i5 - 2] = v2\n"
                              "  }\n"
                              "  schedule outer_lanes lanes 4 unroll 2 block 256 grain 8 team 32\n"
                              "}\n"
                              "kernel \"difference\" outer i6 < s2, i7 < s0, i8 < s1 {\n"
                              "  stage {\n"
                              "    v0 = load f32 b2[i7, i8, i6 + 1]\n"
                              "    v1 = load f32 b2[i7, i8, i6 - 2]\n"
                              "    v2 = sub f32 v0, v1\n"
                              "    store b3[i7, i8, i6] = v2\n"
                              "  }\n"
                              "  schedule outer_lanes lanes 4 unroll 2 block 256 grain 8 team 32\n"
                              "}\n"
                              "outputs b3\n"
                              "}\n";

static void layouts_lie_alike(void **state) {
  (void)state;
  static const char *const temps[] = {
      "order [0, 1, 2] halo [0, 0, 2] [0, 0, 1] fill 0.5",
      "order [2, 0, 1] halo [1, 0, 2] [0, 2, 1]",
      "order [0, 2, 1] block 4 of 1 halo [0, 0, 2] [0, 0, 1]",
      "order [1, 0, 2] block 3 of 2 halo [0, 0, 2] [0, 0, 1] fill 0.5",
  };
  static const int64_t sizes[][3] = {{2, 3, 5}, {1, 9, 33}, {3, 1, 1}, {2, 0, 4}};
  for (size_t k = 0; k < sizeof(temps) / sizeof(temps[0]); k++) {
    char text[2048];
    gpu_rig_t r;
    (void)snprintf(text, sizeof(text), program, temps[k]);
    gpu_rig_open_loops(&r, text, &h100);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
      gpu_rig_run(&r, cuda, sizes[s], 3, 2, temps[k]);
      expect_none();
    }
    gpu_rig_close(&r);
  }
}

RUN_WITH_LIBRARY(ON_DEVICE(layouts_lie_alike))
