// SPDX-License-Identifier: Apache-2.0
// Graph texts compiled for a GPU and run, without the runtime: PTX through the driver table, sizes
// and launches worked out here, results compared with the evaluator within its bounds.
#ifndef DT_TESTS_UNIT_CUDA_EMIT_GPU_RIG_H
#define DT_TESTS_UNIT_CUDA_EMIT_GPU_RIG_H

#include "backend_cuda/driver/driver.h"
#include "backend_cuda/emit/emit.h"
#include "lower/loop/loop.h"

#define GPU_RIG_MAX_SIZES 8

typedef struct gpu_rig_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph; // NULL: made from loops
  dt_program_t *program;
  dt_target_t target;
  dt_unit_map_t map;
  char *ptx;             // of all kernels
  const dt_cuda_t *cuda; // whose `module` is; NULL before the first run
  dt_cu_module_t module;
} gpu_rig_t;

// One launch of one kernel, for given sizes. Words are filled by whoever knows addresses.
typedef struct gpu_launch_t {
  const dt_kernel_t *kernel;
  const dt_schedule_t *schedule;
  uint32_t code;
  dt_cuda_kernel_info_t info;
  dt_kernel_params_t params;
  int64_t count; // grid items
} gpu_launch_t;

// The graph's program for `model`, without code; ends the test with the message of what failed.
void gpu_rig_make(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict);
// The same, compiled.
void gpu_rig_open(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict);
// The same, where it will be run for these sizes alone: schedules that none of them takes are left
// out of a program of one kernel, but the last, which has no condition. Most of the time goes into
// code.
void gpu_rig_open_for(gpu_rig_t *r, const char *graph, const dt_cuda_model_t *model, bool strict,
                      const int64_t (*sizes)[4], uint32_t n);
// The same for a scheduled program as text, of inputs and outputs alone; results are then compared
// with the interpreter's, exactly.
void gpu_rig_open_loops(gpu_rig_t *r, const char *program, const dt_cuda_model_t *model);
void gpu_rig_close(gpu_rig_t *r);
// What kernel `index` launches where symbols have these values.
void gpu_rig_launch(gpu_rig_t *r, uint32_t index, const int64_t *symbols, gpu_launch_t *out);
// Values of all symbols, the first ones given; the caller frees them.
int64_t *gpu_rig_symbols(const gpu_rig_t *r, const int64_t *sizes, uint32_t n);
int64_t gpu_rig_value(const gpu_rig_t *r, const int64_t *symbols, dt_sym_t e);
// Bytes of a buffer, with what lies between its elements.
size_t gpu_rig_bytes(const gpu_rig_t *r, const int64_t *symbols, const dt_buffer_t *buffer);
// Fills memory with numbers that differ and are small.
void gpu_rig_fill(dt_dtype_t dtype, void *data, size_t bytes, uint32_t seed);
// Compares results with the evaluator's, whose arguments are `inputs`; fails the test naming the
// element.
void gpu_rig_compare(gpu_rig_t *r, const int64_t *symbols, void *const *inputs,
                     void *const *outputs, const char *what);

// Runs the graph for these sizes through the driver's table `cuda`; at most `blocks` blocks a
// launch.
void gpu_rig_run(gpu_rig_t *r, const dt_cuda_t *cuda, const int64_t *sizes, uint32_t n_sizes,
                 uint32_t blocks, const char *what);

#endif // DT_TESTS_UNIT_CUDA_EMIT_GPU_RIG_H
