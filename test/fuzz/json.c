// SPDX-License-Identifier: Apache-2.0
// Fuzzes the JSON reader. An accepted document must have balanced containers and valid strings.
#include "frontends/json/json.h"
#include "runtime/base/text.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_json_t json;
  dt_json_token_t token;
  int depth = 0;
  dt_status_t status = dt__json_init(&json, (const char *)data, size, "fuzz", NULL);
  while (!status) {
    status = dt__json_next(&json, &token);
    if (status)
      break;
    if (token.kind == DT_JSON_OBJECT_BEGIN || token.kind == DT_JSON_ARRAY_BEGIN)
      depth++;
    if (token.kind == DT_JSON_OBJECT_END || token.kind == DT_JSON_ARRAY_END)
      depth--;
    for (size_t i = 0; i < token.len;) {
      size_t step = dt__utf8_length(token.text + i, token.text + token.len);
      if (step == 0)
        abort();
      i += step;
    }
    if (token.kind == DT_JSON_END) {
      if (depth != 0)
        abort();
      break;
    }
  }
  dt_status_free(status);
  dt__json_fini(&json);
  return 0;
}
