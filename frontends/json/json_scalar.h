// SPDX-License-Identifier: Apache-2.0
// Strings and numbers of the JSON reader. Private to frontends/json.
#ifndef DT_FRONTENDS_JSON_JSON_SCALAR_H
#define DT_FRONTENDS_JSON_JSON_SCALAR_H

#include "frontends/json/json.h"

// Reads the string that begins at json->at with a quote; sets text and len.
dt_status_t dt__json_read_string(dt_json_t *json, dt_json_token_t *out) DT_MUST_USE;
// Reads the number at json->at; sets kind, number and, for integers, integer.
dt_status_t dt__json_read_number(dt_json_t *json, dt_json_token_t *out) DT_MUST_USE;

#endif // DT_FRONTENDS_JSON_JSON_SCALAR_H
