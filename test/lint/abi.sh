#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every struct that a public header defines, and every field of it, is pinned in
# test/unit/abi/layouts.def.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

awk '
  FILENAME ~ /layouts\.def$/ {
    if (match($0, /^(STRUCT|FIELD)\([a-z0-9_]+(, *[a-z0-9_]+)?/)) {
      row = substr($0, RSTART, RLENGTH)
      gsub(/^(STRUCT|FIELD)\(| /, "", row)
      split(row, part, ",")
      if ($0 ~ /^STRUCT/) pinned[part[1]] = 1
      else pinned[part[1] "." part[2]] = 1
    }
    next
  }
  { sub(/\/\/.*/, "") }
  # In include/ductile a struct opens as "typedef struct dt_x_t {" or "struct dt_x {" on one line.
  /^(typedef )?(struct|union) dt_[a-z0-9_]+ \{/ {
    match($0, /dt_[a-z0-9_]+/)
    name = substr($0, RSTART, RLENGTH)
    structs++
    if (!(name in pinned)) { print FILENAME ": struct " name " is not pinned"; failures++ }
    inside = 1
    next
  }
  inside && /^\}/ { inside = 0 }
  inside {
    line = $0
    # A declaration of several fields shares its type; a function pointer names its field in (*x).
    while (match(line, /\(\*[a-z0-9_]+\)|[a-z0-9_]+(\[[^]]*\])*[[:space:]]*[;,]/)) {
      field = substr(line, RSTART, RLENGTH)
      rest = substr(line, RSTART + RLENGTH)
      pointer = field ~ /^\(/
      sub(/\[.*/, "", field)
      gsub(/[^a-z0-9_]/, "", field)
      if (!((name "." field) in pinned)) {
        print FILENAME ": field " name "." field " is not pinned"
        failures++
      }
      fields++
      line = pointer ? "" : rest
    }
  }
  END {
    printf "%d public structs with %d fields checked, %d not pinned\n", structs, fields, failures
    exit failures > 0
  }' test/unit/abi/layouts.def include/ductile/*.h
