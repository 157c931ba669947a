#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cases.sh DUCTILE FOLDER TABLE [--update] [-- ARGUMENT…]. Runs ductile check over the folders in
# FOLDER, with the arguments, and compares with TABLE: case, status, reason (of what passes: how many
# variants, if not one, and why). Fails where a case that passed no longer does, where one is wrong or an
# error that was not, where cases came or went, and where one has several variants and variants.tsv does
# not say why. With --update TABLE is written anew. Cases in tolerances.tsv have a looser absolute
# tolerance, for what is wrong with their own data.
set -euo pipefail
ductile=$1
folder=$2
table=$3
shift 3
update=''
if [[ ${1:-} == --update ]]; then
  update=1
  shift
fi
[[ ${1:-} != -- ]] || shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$ductile" check "$folder" --jobs 2 --timeout 120 "$@" >"$work/lines" || true
while IFS=$'\t' read -r name atol _; do
  [[ -d $folder/$name ]] || continue
  "$ductile" check "$folder/$name" "$@" --atol "$atol" >"$work/again" || true
  line=$(head -n 1 "$work/again") name=$name awk '
    $2 == ENVIRON["name"] || $2 == ENVIRON["name"] ":" { $0 = ENVIRON["line"] }
    { print }' "$work/lines" >"$work/merged"
  mv "$work/merged" "$work/lines"
done <"$(dirname "${BASH_SOURCE[0]}")/tolerances.tsv"
sed '$d' "$work/lines" | why=$(dirname "${BASH_SOURCE[0]}")/variants.tsv awk '
BEGIN {
  while ((getline line < ENVIRON["why"]) > 0) {
    at = index(line, "\t")
    reasons[substr(line, 1, at - 1)] = substr(line, at + 1)
  }
}
{
  status = $1
  name = $2
  sub(/:$/, "", name)
  reason = $0
  sub(/^[a-z]+ +[^ ]+: ?/, "", reason)
  sub(/^model\.onnx: /, "", reason)
  gsub(/\t/, " ", reason)
  if (status == "pass") {
    match(reason, /[0-9]+ variants?/)
    reason = substr(reason, RSTART, RLENGTH)
    if (reason == "1 variant") reason = ""
    else reason = reason ": " (name in reasons ? reasons[name] : "no reason is given")
  }
  printf "%s\t%s%s\n", name, status, reason == "" ? "" : "\t" substr(reason, 1, 120)
}' >"$work/actual"
cut -f 2 "$work/actual" | sort | uniq -c
if grep ' variants: no reason is given$' "$work/actual"; then
  printf 'variants.tsv must say why\n'
  exit 1
fi
if [[ -n $update ]]; then
  cp "$work/actual" "$table"
  exit 0
fi
awk -F '\t' '
  NR == FNR { expected[$1] = $2; next }
  { seen[$1] = 1 }
  !($1 in expected) { printf "%s: not in the table; it is %s\n", $1, $2; failures++; next }
  expected[$1] == $2 { next }
  $2 == "pass" { better++; next }
  expected[$1] == "pass" || $2 == "wrong" || $2 == "error" {
    printf "%s: %s, expected %s: %s\n", $1, $2, expected[$1], $3
    failures++
  }
  END {
    for (name in expected)
      if (!(name in seen)) { printf "%s: in the table, and not in the data\n", name; failures++ }
    if (better) printf "%d cases pass that did not: run this with --update\n", better
    printf "%d failures\n", failures
    exit failures > 0
  }' "$table" "$work/actual"
