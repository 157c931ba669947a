#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# That tables.sh and the compiler see what is missing: in a copy, the cells of one column after the
# other get the value that says nothing, and rows are taken out; each must be named, by its name, its
# line, or what stood there. Nothing is built: files that read the table are only parsed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/test" "$copy/runtime" "$copy/backend_llvm" "$copy/backend_cuda"
cp -r include lower guards fuse symshape "$copy"
cp -r runtime/base runtime/trace runtime/compile runtime/tensor "$copy/runtime"
cp -r backend_llvm/{emit,units,host} "$copy/backend_llvm"
cp -r backend_cuda/emit "$copy/backend_cuda"
cp -r test/lint test/conform test/support "$copy/test"

silent=0
tried=0
# What a lint or the parser of C says of the copy.
findings() {
  local source
  "$copy/test/lint/tables.sh" "$copy" || true
  for source in "$@"; do
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I "$copy" \
      -I "$copy/include" "$copy/$source" 2>&1 || true
  done
}
# judge FILE HOW SOURCE…: each of the changed rows, `name line was`, is told of.
judge() {
  local file=$1 how=$2 name line was
  shift 2
  [[ -s $copy/changed ]] || return 0
  findings "$@" >"$copy/said"
  while read -r name line was; do
    tried=$((tried + 1))
    grep -qE "(^|[^A-Za-z0-9_])($name|$was)([^A-Za-z0-9_]|\$)|/$file:$line:" "$copy/said" && continue
    printf '%s: %s: %s: nothing is said\n' "$file" "$name" "$how"
    silent=$((silent + 1))
  done <"$copy/changed"
  cp "$file" "$copy/$file"
}
# neutral FILE MACRO COLUMN VALUE SOURCE…: the column's cells become VALUE; a text's are column 0.
neutral() {
  local file=$1 macro=$2 column=$3 value=$4
  shift 4
  awk -v macro="$macro" -v column="$column" -v value="$value" -v changed="$copy/changed" '
    BEGIN { printf "" >changed }
    index($0, macro "(") == 1 {
      head = $0; text = ""
      if (match(head, /"/)) { text = substr(head, RSTART); head = substr(head, 1, RSTART - 1) }
      else sub(/\)[[:space:]]*$/, "", head)
      n = split(substr(head, length(macro) + 2), cell, /, */)
      name = macro == "FIELD" ? cell[2] : cell[1]
      if (column == 0) { if (text != "\"\")") { text = "\"\")"; print name, NR, name >changed } }
      else if (cell[column] != value) {
        was = cell[column]
        gsub(/[^A-Za-z0-9_]+/, "|", was)
        print name, NR, was >changed
        cell[column] = value
      }
      row = macro "("
      for (i = 1; i <= n; i++) row = row cell[i] (i < n ? ", " : "")
      print row (text == "" ? ")" : text)
      next
    }
    { print }' "$file" >"$copy/$file"
  judge "$file" "column $column" "$@"
}
# removed FILE MACRO KEY SOURCE…: a fifth of the rows at a time is taken out. Cell KEY may be told of
# instead of the name.
removed() {
  local file=$1 macro=$2 key=$3 part
  shift 3
  for part in 0 1 2 3 4; do
    awk -v macro="$macro" -v part="$part" -v key="$key" -v changed="$copy/changed" '
      BEGIN { printf "" >changed }
      index($0, macro "(") == 1 && rows++ % 5 == part {
        split(substr($0, length(macro) + 2), cell, /, */)
        name = macro == "FIELD" ? cell[2] : cell[1]
        print name, 0, cell[key] >changed
        next
      }
      { print }' "$file" >"$copy/$file"
    judge "$file" "row" "$@"
  done
}

while IFS=$'\t' read -r file macro column value sources; do
  [[ $file != \#* ]] || continue
  [[ $value != '""' ]] || value=
  # shellcheck disable=SC2086 # a word a source
  if [[ $column == row ]]; then
    removed "$file" "$macro" "$value" $sources
  else
    neutral "$file" "$macro" "$column" "$value" $sources
  fi
done <test/lint/columns.tsv

# A builder's line.
sed -i '/^#define dt_/d' "$copy/include/ductile/trace_lines.h"
awk '/^#define dt_/ { sub(/\(.*/, "", $2); print $2, 0, $2 }' include/ductile/trace_lines.h >"$copy/changed"
judge include/ductile/trace_lines.h line

printf '%d cells and rows taken, %d in silence\n' "$tried" "$silent"
[[ $silent -eq 0 && $tried -gt 500 ]]
