// SPDX-License-Identifier: Apache-2.0
// Sizes to measure: the product of axes, or the lines of a trace.
#include "cli/sweep.h"

#include "cli/options.h"
#include "cli/tensor_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Axes -----------------------------------------------------------------------------------------
static bool push(cli_axis_t *axis, int64_t size, char message[CLI_MESSAGE]) {
  if (axis->n == CLI_MOST_POINTS)
    return cli_wrong(message, "more than %d sizes", CLI_MOST_POINTS);
  if (axis->n == axis->capacity) {
    uint32_t capacity = axis->capacity ? 2 * axis->capacity : 16;
    int64_t *more = realloc(axis->sizes, capacity * sizeof(*more));
    if (!more)
      return cli_wrong(message, "no memory");
    axis->sizes = more;
    axis->capacity = capacity;
  }
  axis->sizes[axis->n++] = size;
  return true;
}

// "16", "16..128", "16..128:16"
static bool read_item(cli_axis_t *axis, const char **at, char message[CLI_MESSAGE]) {
  const char *item = *at;
  int64_t low = 0, high = 0, step = 1;
  bool good = cli_read_count(at, ",.", 0, DT_SIZE_LIMIT - 1, &low);
  high = low;
  if (good && **at == '.') {
    good = (*at)[1] == '.';
    *at += good ? 2 : 0;
    good = good && cli_read_count(at, ",:", low, DT_SIZE_LIMIT - 1, &high);
    if (good && **at == ':') {
      ++*at;
      good = cli_read_count(at, ",", 1, DT_SIZE_LIMIT - 1, &step);
    }
  }
  if (!good)
    return cli_wrong(message, "expected sizes such as 4 or 16..128:16 at '%.24s'", item);
  for (int64_t size = low; good && size <= high; size += step)
    good = push(axis, size, message);
  return good;
}

bool cli_sweep_add(cli_sweep_t *sweep, const char *text, char message[CLI_MESSAGE]) {
  const char *at = strrchr(text, '=');
  if (!at || at == text)
    return cli_wrong(message, "expected NAME=SIZES");
  if (sweep->n == CLI_MOST_AXES)
    return cli_wrong(message, "more than %d dims", CLI_MOST_AXES);
  cli_axis_t *axis = &sweep->axes[sweep->n++];
  *axis = (cli_axis_t){.name = text, .len = (size_t)(at - text)};
  for (uint32_t k = 0; k + 1 < sweep->n; k++) {
    if (sweep->axes[k].len == axis->len && memcmp(sweep->axes[k].name, text, axis->len) == 0)
      return cli_wrong(message, "the dim was given before");
  }
  do {
    at++;
    if (!read_item(axis, &at, message))
      return false;
  } while (*at == ',');
  sweep->n_points = (sweep->n > 1 ? sweep->n_points : 1) * axis->n;
  return sweep->n_points <= CLI_MOST_POINTS ||
         cli_wrong(message, "more than %d combinations of sizes", CLI_MOST_POINTS);
}

void cli_sweep_point(const cli_sweep_t *sweep, uint64_t point, cli_dim_t *out) {
  for (uint32_t k = sweep->n; k-- > 0;) {
    const cli_axis_t *axis = &sweep->axes[k];
    out[k] = (cli_dim_t){axis->name, axis->len, axis->sizes[point % axis->n]};
    point /= axis->n;
  }
}

void cli_sweep_free(cli_sweep_t *sweep) {
  for (uint32_t k = 0; k < sweep->n; k++)
    free(sweep->axes[k].sizes);
  *sweep = (cli_sweep_t){0};
}

// ---- Traces ---------------------------------------------------------------------------------------
int cli_trace_line(const char *line, cli_dim_t out[CLI_MOST_AXES], char message[CLI_MESSAGE]) {
  int n = 0;
  for (;;) {
    line += strspn(line, " \t\r");
    if (!*line || *line == '#')
      return n;
    size_t len = strcspn(line, "= \t\r");
    const char *at = line + len;
    cli_dim_t dim = {line, len, 0};
    if (len == 0 || *at != '=' ||
        (at++, !cli_read_count(&at, " \t\r", 0, DT_SIZE_LIMIT - 1, &dim.size))) {
      (void)cli_wrong(message, "expected NAME=SIZE at '%.24s'", line);
      return -1;
    }
    if (n == CLI_MOST_AXES) {
      (void)cli_wrong(message, "more than %d dims", CLI_MOST_AXES);
      return -1;
    }
    out[n++] = dim;
    line = at;
  }
}

// ---- Times ----------------------------------------------------------------------------------------
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double cli_quantile(double *times, uint64_t n, double q) {
  if (n == 0)
    return 0;
  qsort(times, n, sizeof(*times), by_value);
  uint64_t at = (uint64_t)ceil(q * (double)n);
  return times[at > 0 ? at - 1 : 0];
}
