// SPDX-License-Identifier: Apache-2.0
// Fuzzes packages: an input gets the sums of what it holds, so that what is behind them is reached;
// it is opened, described, and its code loaded. Nothing of it runs: code of a package may do
// anything.
#include "ductile/package.h"
#include "runtime/package/package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static dt_runtime_t *the_runtime(void) {
  static dt_runtime_t *runtime;
  const dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 1};
  if (!runtime && dt_runtime_create(&options, &runtime))
    abort();
  return runtime;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *copy = aligned_alloc(64, (size + 64) / 64 * 64), *text = NULL;
  dt_package_t *package = NULL;
  if (!copy)
    abort();
  memcpy(copy, data, size);
  (void)dt__pack_forge(copy, size);
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  dt_status_t status = dt_package_open_memory(the_runtime(), copy, size, &options, &package);
  if (!status)
    status = dt_package_report_json(package, &text);
  if (!status)
    status = dt__package_load_all(package, NULL);
  if (dt_status_code(status) == DT_E_INTERNAL) {
    (void)fprintf(stderr, "%s\n", dt_status_message(status));
    abort();
  }
  dt_status_free(status);
  dt_text_free(text);
  dt_package_release(package);
  free(copy);
  return 0;
}
