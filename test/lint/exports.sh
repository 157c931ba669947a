#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: exports.sh LIBRARY. What the shared library exports is what the public headers declare with
# DT_API: nothing internal, nothing of LLVM or jemalloc, and nothing declared but missing.
set -euo pipefail
library=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
  LC_ALL=C sort -u)
# Each declaration runs to its semicolon; its name is the first dt_ word before a parenthesis, or
# the last word of an object's declaration.
declared=$(sed -E 's@//.*@@; /^[[:space:]]*#/d' include/ductile/*.h | tr '\n' ' ' | tr ';' '\n' |
  grep -w DT_API | sed -E 's/.*\<DT_API\>//' |
  awk '{
    if (match($0, /dt_[a-z0-9_]+[[:space:]]*\(/)) name = substr($0, RSTART, RLENGTH - 1)
    else if (match($0, /dt_[a-z0-9_]+[^a-z0-9_]*$/)) name = substr($0, RSTART, RLENGTH)
    gsub(/[^A-Za-z0-9_]/, "", name)
    print name
  }' | LC_ALL=C sort -u)

status=0
extra=$(comm -23 <(printf '%s\n' "$exported") <(printf '%s\n' "$declared") | sed '/^$/d')
missing=$(comm -13 <(printf '%s\n' "$exported") <(printf '%s\n' "$declared") | sed '/^$/d')
if [[ -n $extra ]]; then
  printf 'exported, but declared in no public header:\n%s\n' "$extra"
  status=1
fi
if [[ -n $missing ]]; then
  printf 'declared with DT_API, but not exported:\n%s\n' "$missing"
  status=1
fi
printf '%d symbols exported, %d declared\n' "$(sed '/^$/d' <<<"$exported" | wc -l)" \
  "$(sed '/^$/d' <<<"$declared" | wc -l)"
exit "$status"
