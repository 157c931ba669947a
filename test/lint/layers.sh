#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every #include obeys layers.txt and names a file by its path from the root or from include/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t files < <(scripts/files '*.c' '*.h' '*.def')
{
  sed 's/^/rule /' test/lint/layers.txt
  printf 'file %s\n' "${files[@]}"
  grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "${files[@]}" |
    sed -E 's/^([^:]+):([0-9]+):[^"<]*(["<])([^">]+)[">].*/include \1 \2 \3 \4/'
} | awk '
  function folder_of(path, best, f) {
    best = ""
    for (f in rank) if (index(path, f "/") == 1 && length(f) > length(best)) best = f
    return best
  }
  function bad(text) { printf "%s:%s: %s\n", $2, $3, text; failures++ }
  $1 == "rule" && $2 == "layer" {
    depth++
    split("", names); n = 0; colon = 0
    for (i = 3; i <= NF; i++) {
      if ($i == ":") colon = 1
      else if (colon) for (k = 1; k <= n; k++) { only[names[k]] = 1; allow[names[k], $i] = 1 }
      else { rank[$i] = depth; names[++n] = $i }
    }
  }
  $1 == "rule" && $2 == "public" { public[$3] = 1 }
  $1 == "rule" && $2 == "outside" {
    outside[$3] = 1
    for (i = 4; i <= NF; i++) may[$3, $i] = 1
  }
  $1 == "file" { known[$2] = 1 }
  $1 == "include" {
    count++
    from = folder_of($2)
    is_public = 0
    for (p in public) if (index($2, p "/") == 1) is_public = 1
    if (from == "" && !is_public) { bad("the file is in no folder of layers.txt"); next }
    if ($4 == "<") {
      for (o in outside)
        if (index($5, o) == 1 && !((o, from) in may)) bad("<" $5 "> is not for this folder")
      if ($5 ~ /^ductile\//) bad("write \"" $5 "\", not <" $5 ">")
      next
    }
    if (("include/" $5) in known) next
    if (is_public) { bad("a public header may not include \"" $5 "\""); next }
    if (!($5 in known)) { bad("\"" $5 "\" is no path from the root or from include/"); next }
    to = folder_of($5)
    if (to == from || (from, "all") in allow) next
    if (from in only) {
      if (!((from, to) in allow)) bad("folder " from " may not include \"" $5 "\"")
    } else if (rank[to] > rank[from]) {
      bad("\"" $5 "\" stands above folder " from " in the layers")
    }
  }
  END {
    printf "%d includes checked, %d wrong\n", count, failures
    exit failures > 0
  }'
