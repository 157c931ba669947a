#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: exports.sh LIBRARY [ARCHIVE]. What the shared library exports is what the public headers declare with
# DT_API: nothing internal, nothing of LLVM or jemalloc, and nothing declared but missing. Each name
# has its version node: DUCTILE_EXPERIMENTAL what experimental.h declares, of the others the one of
# library/ductile.map that lists it, the last one what none does. The archive shows the same names.
set -euo pipefail
library=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# name node
exported=$(nm -D --defined-only --with-symbol-versions "$library" |
  awk '$2 != "A" { split($3, part, /@+/); print part[1], part[2] }' | LC_ALL=C sort -u)
# Each declaration runs to its semicolon; its name is the first dt_ word before a parenthesis, or
# the last word of an object's declaration.
declared_in() { # NODE HEADER
  sed -E 's@//.*@@; /^[[:space:]]*#/d' "$2" | tr '\n' ' ' | tr ';' '\n' |
    grep -w DT_API | sed -E 's/.*\<DT_API\>//' |
    awk -v node="$1" '{
    if (match($0, /dt_[a-z0-9_]+[[:space:]]*\(/)) name = substr($0, RSTART, RLENGTH - 1)
    else if (match($0, /dt_[a-z0-9_]+[^a-z0-9_]*$/)) name = substr($0, RSTART, RLENGTH)
    gsub(/[^A-Za-z0-9_]/, "", name)
    print name, node
  }'
}
declared=$(for header in include/ductile/*.h; do
  case $header in
    */experimental.h) declared_in DUCTILE_EXPERIMENTAL "$header" ;;
    *) declared_in "" "$header" ;;
  esac
done | awk '
  FNR == NR { if (/^DUCTILE_[0-9]+ /) node = last = $1
              else if (/^DUCTILE_EXPERIMENTAL/) node = ""
              else if (node && match($1, /^dt_[a-z0-9_]+;$/)) of[substr($1, 1, RLENGTH - 1)] = node
              next }
  $2 { print; next }
  { print $1, ($1 in of ? of[$1] : last) }' library/ductile.map - | LC_ALL=C sort -u)

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
if [[ -n ${2:-} ]]; then
  shown=$(nm -g --defined-only "$2" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u)
  if [[ $shown != "$(cut -d ' ' -f 1 <<<"$exported")" ]]; then
    printf 'shown by %s alone (<) and by the shared library alone (>):\n' "${2##*/}"
    diff <(printf '%s\n' "$shown") <(cut -d ' ' -f 1 <<<"$exported") | grep '^[<>]'
    status=1
  fi
fi
printf '%d symbols exported, %d declared\n' "$(sed '/^$/d' <<<"$exported" | wc -l)" \
  "$(sed '/^$/d' <<<"$declared" | wc -l)"
exit "$status"
