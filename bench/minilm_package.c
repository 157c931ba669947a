// SPDX-License-Identifier: Apache-2.0
// bench_minilm's case "package": written, opened, and compared with what is compiled here.
#include "bench/minilm.h"
#include "ductile/experimental.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int64_t shapes[][2] = {{1, 16}, {3, 19}, {2, 37}, {1, 128}, {8, 100}, {64, 128}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static bool write_package(minilm_bench_t *bench, dt_function_t *function) {
  const dt_package_write_options_t options = {.struct_size = sizeof options,
                                              .levels = bench->levels};
  double begin = bench_now_ns();
  struct stat about;
  if (!bench->path || !bench->levels) {
    fprintf(stderr, "bench: the case package wants --package and --levels\n");
    return false;
  }
  if (!bench_ok(dt_package_write(bench->path, &function, 1, &options), "writing the package"))
    return false;
  bench_value(&bench->report, "package", "writing", "ms", (bench_now_ns() - begin) * 1e-6);
  if (stat(bench->path, &about) == 0)
    bench_value(&bench->report, "package", "bytes", "MB", (double)about.st_size * 1e-6);
  return true;
}

// The embeddings of one call, into `out`.
static bool embed(minilm_bench_t *bench, dt_function_t *function, const int64_t *shape,
                  float *out) {
  double unused = 0;
  if (!bench_ok(minilm_io_bind(&bench->io, shape[0], shape[1]), "binding") ||
      !bench_ok(minilm_call(bench, function, &unused), "a call") ||
      !bench_ok(minilm_io_read(bench), "reading"))
    return false;
  memcpy(out, bench->io.embeddings, (size_t)shape[0] * MINILM_HIDDEN * sizeof(float));
  return true;
}

static bool compare(minilm_bench_t *bench, dt_function_t *own, dt_function_t *taken) {
  enum { MOST = 64 * MINILM_HIDDEN };
  float *a = calloc(2 * MOST, sizeof *a), *b = a ? a + MOST : NULL;
  double others = 0;
  bool good = a != NULL;
  for (int k = 0; k < SHAPES && good; k++) {
    good = embed(bench, own, shapes[k], a) && embed(bench, taken, shapes[k], b);
    for (int64_t i = 0; good && i < shapes[k][0] * MINILM_HIDDEN; i++)
      others += memcmp(&a[i], &b[i], sizeof *a) != 0;
  }
  free(a);
  if (good)
    bench_limited(&bench->report, "package", "elements of other bits", "count", others, 0);
  return good;
}

bool minilm_case_package(minilm_bench_t *bench) {
  dt_package_t *package = NULL;
  dt_function_t *taken = NULL, *own = minilm_prepared_of(bench, NULL);
  bool good = own && write_package(bench, own) &&
              bench_ok(dt_package_open(bench->runtime, bench->path, NULL, &package), "opening");
  taken = good ? minilm_prepared_of(bench, package) : NULL;
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  good = taken && compare(bench, own, taken) &&
         bench_ok(dt_function_counters(taken, &stats), "reading the counters");
  if (good)
    bench_limited(&bench->report, "package", "compiles", "count", (double)stats.compiles, 0);
  dt_function_release(taken);
  dt_function_release(own);
  dt_package_release(package);
  return good;
}
