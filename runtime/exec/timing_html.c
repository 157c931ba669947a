// SPDX-License-Identifier: Apache-2.0
// Profiles as one page that needs nothing else: for each variant what its calls' time is spent on,
// its kernels as a graph (timing_svg.c), and all of them in a table.
#include "runtime/exec/timing_report.h"

#include <string.h>

void dt__html_put(dt_text_t *out, const char *text) {
  for (const char *at = text; *at;) {
    size_t plain = strcspn(at, "&<>\"'");
    unsigned char c = (unsigned char)at[plain];
    dt__text_write(out, at, plain);
    if (!c)
      return;
    dt__text_printf(out, "&#%u;", c);
    at += plain + 1;
  }
}

// From pale to strong, by the share of a kernel.
void dt__html_colour(double share, char *out, size_t bytes) {
  double heat = share < 0 ? 0 : share > 0.25 ? 1 : share * 4;
  (void)snprintf(out, bytes, "hsl(%d,%d%%,%d%%)", (int)(48 - 40 * heat), (int)(35 + 55 * heat),
                 (int)(94 - 32 * heat));
}

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<title>Ductile: where time goes</title>\n<style>\n"
    "body{font:14px/1.4 sans-serif;margin:1.5em;color:#222;background:#fff}\n"
    "table{border-collapse:collapse;margin:.6em 0}\n"
    "th,td{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\n"
    "th:last-child,td:last-child{text-align:left;white-space:normal}\n"
    "th{background:#f4f4f4;position:sticky;top:0}\n"
    ".bar{display:flex;height:1.6em;width:100%;max-width:70em;border:1px solid #bbb}\n"
    ".bar span{overflow:hidden;white-space:nowrap;font-size:12px;padding-left:2px}\n"
    ".graph{overflow:auto;max-height:80vh;border:1px solid #ddd}\n"
    ".from{color:#777;font-size:12px}\n"
    "</style>\n</head>\n<body>\n";

// ---- Parts ------------------------------------------------------------------------------------------
static void put_parts(const dt_profile_variant_t *variant, dt_text_t *out) {
  dt__text_put(out, "<div class=\"bar\">");
  for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++) {
    const char *name = dt_profile_part_name((dt_profile_part_t)k);
    double part = (double)variant->parts_ns[k];
    double percent = variant->total_ns ? 100 * part / (double)variant->total_ns : 0;
    if (percent < 0.05)
      continue;
    dt__text_printf(out,
                    "<span style=\"width:%.2f%%;background:hsl(%u,50%%,%u%%)\" "
                    "title=\"%s %.1f%%\">%s %.1f%%</span>",
                    percent, 36 * k, k % 2 ? 78 : 86, name, percent, name, percent);
  }
  dt__text_put(out, "</div>\n");
}

// ---- Kernels ----------------------------------------------------------------------------------------
static void put_from(const dt_profile_kernel_t *kernel, dt_text_t *out) {
  for (uint32_t k = 0; k < kernel->n_sources; k++) {
    const dt_profile_source_t *source = kernel->sources[k];
    dt__text_put(out, k ? ", " : "");
    dt__html_put(out, source->op);
    if (!source->file[0])
      continue;
    dt__text_put(out, " ");
    dt__html_put(out, source->file);
    dt__text_printf(out, ":%d", source->line);
  }
}

static void put_row(const dt_profile_kernel_t *kernel, uint32_t number, dt_text_t *out) {
  char colour[40];
  double n = kernel->launches ? (double)kernel->launches : 1;
  double sized = (double)kernel->sized_launches;
  dt__html_colour(kernel->share, colour, sizeof(colour));
  dt__text_printf(out,
                  "<tr><td>%u</td><td style=\"background:%s\">%.1f%%</td><td>%.2f</td>"
                  "<td>%.2f</td><td>%.2f</td><td>%llu</td>",
                  number, colour, 100 * kernel->share, (double)kernel->total_ns * 1e-3 / n,
                  (double)kernel->min_ns * 1e-3, (double)kernel->max_ns * 1e-3,
                  (unsigned long long)kernel->launches);
  if (kernel->sized_launches)
    dt__text_printf(out, "<td>%.3f</td><td>%.3f</td>", kernel->bytes * 1e-6 / sized,
                    kernel->flops * 1e-6 / sized);
  else
    dt__text_put(out, "<td>-</td><td>-</td>");
  if (kernel->floor_ns > 0 && kernel->total_ns)
    dt__text_printf(out, "<td>%.1f%%</td>",
                    100 * kernel->floor_ns / sized / ((double)kernel->total_ns / n));
  else
    dt__text_put(out, "<td>-</td>");
  dt__text_printf(out, "<td>%.1f%%</td><td>",
                  kernel->total_ns ? 100 * (double)kernel->wait_ns / (double)kernel->total_ns : 0);
  dt__html_put(out, kernel->name);
  dt__text_put(out, kernel->packs ? " (packs)" : "");
  if (kernel->n_sources) {
    dt__text_put(out, " <span class=\"from\">");
    put_from(kernel, out);
    dt__text_put(out, "</span>");
  }
  dt__text_put(out, "</td></tr>\n");
}

// The table's lines say it in words.
static void put_device(const dt_profile_variant_t *variant, dt_text_t *out) {
  dt_text_t lines;
  dt__text_init(&lines);
  dt__timed_put_device(variant, &lines);
  if (lines.len) {
    dt__text_put(out, "<pre>");
    dt__html_put(out, dt__text_str(&lines));
    dt__text_put(out, "</pre>\n");
  }
  out->failed = out->failed || lines.failed;
  dt__text_fini(&lines);
}

static void put_variant(const dt_profile_variant_t *variant, const uint32_t *order,
                        dt_text_t *out) {
  dt_text_t name;
  dt__text_init(&name);
  dt__timed_put_variant(variant, &name);
  dt__text_put(out, "<h2>");
  dt__html_put(out, dt__text_str(&name));
  dt__text_fini(&name);
  dt__text_printf(out, "</h2>\n<p>%llu calls of %llu sizes, %.1f us each (%.1f to %.1f)</p>\n",
                  (unsigned long long)variant->calls, (unsigned long long)variant->shapes,
                  variant->calls ? (double)variant->total_ns * 1e-3 / (double)variant->calls : 0,
                  (double)variant->min_ns * 1e-3, (double)variant->max_ns * 1e-3);
  put_parts(variant, out);
  put_device(variant, out);
  if (variant->unknown[0]) {
    dt__text_put(out, "<p>Of its kernels nothing more is known: ");
    dt__html_put(out, variant->unknown);
    dt__text_put(out, "</p>\n");
  }
  if (!variant->n_kernels)
    return;
  dt__timed_svg(variant, out);
  dt__text_put(out, "<table>\n<tr><th>no.</th><th>share</th><th>us each</th><th>least</th>"
                    "<th>most</th><th>launches</th><th>MB</th><th>MFLOP</th><th>floor</th>"
                    "<th>waits</th><th>kernel, and what it came from</th></tr>\n");
  for (uint32_t k = 0; k < variant->n_kernels; k++)
    put_row(variant->kernels[order[k]], order[k], out);
  dt__text_put(out, "</table>\n");
}

void dt__timed_html(const dt_timed_report_t *report, dt_text_t *out) {
  const dt_profile_report_t *all = &report->head;
  uint32_t most = 0;
  for (uint32_t k = 0; k < all->n_variants; k++)
    most = all->variants[k]->n_kernels > most ? all->variants[k]->n_kernels : most;
  uint32_t *order = dt__alloc(((size_t)most + 1) * sizeof(*order));
  if (!order) {
    out->failed = true;
    return;
  }
  dt__text_put(out, head);
  dt__text_printf(out,
                  "<h1>Where time goes</h1>\n<p>%llu calls, %.1f ms in them, of which %.1f%% are "
                  "named; %u threads; this machine: at most %.0f GFLOP/s, %.0f GB/s in caches, "
                  "%.0f GB/s in memory. A kernel's floor is the part of its time that its bytes or "
                  "its operations take at these rates.</p>\n",
                  (unsigned long long)all->calls, (double)all->total_ns * 1e-6, 100 * all->named,
                  all->threads, all->flops_per_s * 1e-9, all->cache_bytes_per_s * 1e-9,
                  all->memory_bytes_per_s * 1e-9);
  if (all->lost)
    dt__text_printf(out, "<p>%llu calls or launches were lost for lack of memory.</p>\n",
                    (unsigned long long)all->lost);
  for (uint32_t k = 0; k < all->n_variants; k++) {
    dt__timed_order(all->variants[k], order);
    put_variant(all->variants[k], order, out);
  }
  dt__text_put(out, "</body>\n</html>\n");
  dt__free(order);
}
