// SPDX-License-Identifier: Apache-2.0
// The kernels of a variant as a graph: each stands one row below the last of those that make what
// it reads, and is as warm as its share of the time.
#include "runtime/exec/timing_report.h"

#define MOST 2000u // kernels of a picture
#define BOX_WIDTH 210
#define BOX_HEIGHT 30
#define ROW_HEIGHT 52
#define COLUMN_WIDTH 226
#define MARGIN 8
#define NAME_CHARS 26

typedef struct place_t {
  uint32_t row, column;
} place_t;

// Readers stand behind what they read, but in loops.
static uint32_t find_places(const dt_profile_variant_t *variant, uint32_t n, place_t *places,
                            uint32_t *in_row, uint32_t *out_columns) {
  uint32_t rows = 0, columns = 0;
  for (uint32_t k = 0; k < n; k++) {
    const dt_profile_kernel_t *kernel = variant->kernels[k];
    uint32_t row = 0;
    for (uint32_t i = 0; i < kernel->n_reads; i++)
      if (kernel->reads[i] < k && places[kernel->reads[i]].row >= row)
        row = places[kernel->reads[i]].row + 1;
    places[k] = (place_t){row, in_row[row]++};
    rows = row >= rows ? row + 1 : rows;
    columns = in_row[row] > columns ? in_row[row] : columns;
  }
  *out_columns = columns;
  return rows;
}

static int left_of(place_t at) { return MARGIN + (int)at.column * COLUMN_WIDTH; }
static int top_of(place_t at) { return MARGIN + (int)at.row * ROW_HEIGHT; }

static void put_edge(place_t from, place_t to, dt_text_t *out) {
  int x = left_of(from) + BOX_WIDTH / 2, y = top_of(from) + BOX_HEIGHT;
  int u = left_of(to) + BOX_WIDTH / 2, v = top_of(to);
  dt__text_printf(out, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x, y, x, y + 16, u, v - 16, u,
                  v);
}

static void put_box(const dt_profile_kernel_t *kernel, uint32_t number, place_t at,
                    dt_text_t *out) {
  char colour[40], name[NAME_CHARS + 1];
  dt__html_colour(kernel->share, colour, sizeof(colour));
  (void)snprintf(name, sizeof(name), "%s", kernel->name);
  dt__text_printf(out, "<g><title>%u ", number);
  dt__html_put(out, kernel->name);
  dt__text_printf(out, ": %.2f us each, %llu launches",
                  (double)kernel->total_ns * 1e-3 / (double)kernel->launches,
                  (unsigned long long)kernel->launches);
  for (uint32_t k = 0; k < kernel->n_sources && k < 12; k++) {
    dt__text_put(out, "\n");
    dt__html_put(out, kernel->sources[k]->op);
    dt__text_put(out, " ");
    dt__html_put(out, kernel->sources[k]->file);
    dt__text_printf(out, ":%d", kernel->sources[k]->line);
  }
  dt__text_printf(out,
                  "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" "
                  "style=\"fill:%s\"/><text x=\"%d\" y=\"%d\">",
                  left_of(at), top_of(at), BOX_WIDTH, BOX_HEIGHT, colour, left_of(at) + 5,
                  top_of(at) + 13);
  dt__html_put(out, name);
  dt__text_printf(out, "</text><text x=\"%d\" y=\"%d\">%u: %.1f%%</text></g>\n", left_of(at) + 5,
                  top_of(at) + 25, number, 100 * kernel->share);
}

static void put_graph(const dt_profile_variant_t *variant, uint32_t n, place_t *places,
                      uint32_t *in_row, dt_text_t *out) {
  uint32_t columns = 0, rows = find_places(variant, n, places, in_row, &columns);
  dt__text_printf(out,
                  "<div class=\"graph\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                  "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
                  "<g fill=\"none\" stroke=\"#999\">\n",
                  2 * MARGIN + (int)columns * COLUMN_WIDTH, 2 * MARGIN + (int)rows * ROW_HEIGHT);
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < variant->kernels[k]->n_reads; i++)
      if (variant->kernels[k]->reads[i] < n)
        put_edge(places[variant->kernels[k]->reads[i]], places[k], out);
  dt__text_put(out, "</g>\n<g stroke=\"none\" fill=\"#111\">\n");
  for (uint32_t k = 0; k < n; k++)
    put_box(variant->kernels[k], k, places[k], out);
  dt__text_put(out, "</g>\n</svg></div>\n");
}

void dt__timed_svg(const dt_profile_variant_t *variant, dt_text_t *out) {
  uint32_t n = variant->n_kernels < MOST ? variant->n_kernels : MOST;
  place_t *places = dt__calloc((size_t)n + 1, sizeof(*places));
  uint32_t *in_row = dt__calloc((size_t)n + 1, sizeof(*in_row));
  if (places && in_row)
    put_graph(variant, n, places, in_row, out);
  else
    out->failed = true;
  if (variant->n_kernels > n)
    dt__text_printf(out, "<p>The picture has the first %u of %u kernels.</p>\n", n,
                    variant->n_kernels);
  dt__free(places);
  dt__free(in_row);
}
