#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cases.sh DUCTILE FOLDER TABLE [--update] [-- ARGUMENT…]
#        cases.sh --table FOLDER TABLE
# Runs ductile check over the folders in FOLDER, with the arguments, and compares with TABLE. Its first
# row has how many cases pass and the digest of their names; then comes a row for each case that does
# not: case, status, reason. Fails where a case that has no row does not pass, where a row's case passes
# or has another status, where cases came or went, and where one has several variants and variants.tsv
# does not say why. With --update TABLE is written anew. Cases in tolerances.tsv have a looser absolute
# tolerance, for what is wrong with their own data. Of cases in drawn.tsv, whose numbers another
# generator drew, element types and sizes are compared, and the status is "drawn", never "pass".
# The second form prints the TABLE of those folders that are there.
set -euo pipefail
ductile=$1
folder=$2
table=$3
shift 3

# Reads names; the first row of a table in which they are the cases that pass.
passing_row() {
  local names
  names=$(LC_ALL=C sort)
  printf '(pass)\t%d\t%s\n' "$(grep -c . <<<"$names")" "$(sha256sum <<<"$names" | cut -c 1-16)"
}

if [[ $ductile == --table ]]; then
  rows=$(while IFS= read -r row; do
    [[ ! -d $folder/${row%%$'\t'*} ]] || printf '%s\n' "$row"
  done <"$table")
  for case in "$folder"/*/; do basename "$case"; done |
    { grep -vxF "$(cut -f 1 <<<"$rows")" || true; } | passing_row
  [[ -z $rows ]] || printf '%s\n' "$rows"
  exit 0
fi

update=''
if [[ ${1:-} == --update ]]; then
  update=1
  shift
fi
[[ ${1:-} != -- ]] || shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Two at a time, unless the caller says how many.
jobs=(--jobs 2)
[[ " $* " != *' --jobs '* ]] || jobs=()
"$ductile" check "$folder" --as-onnx ${jobs[@]+"${jobs[@]}"} --timeout 120 "$@" >"$work/lines" || true

# again NAME STATUS ARGUMENT…: a case once more with these arguments; STATUS is what a pass then is.
again() {
  local name=$1 status=$2
  [[ -d $folder/$name ]] || return 0
  "$ductile" check "$folder/$name" --as-onnx "${@:3}" >"$work/again" || true
  line=$(head -n 1 "$work/again") name=$name status=$status awk '
    $2 == ENVIRON["name"] || $2 == ENVIRON["name"] ":" {
      $0 = ENVIRON["line"]
      sub(/^pass/, ENVIRON["status"])
    }
    { print }' "$work/lines" >"$work/merged"
  mv "$work/merged" "$work/lines"
}
here=$(dirname "${BASH_SOURCE[0]}")
while IFS=$'\t' read -r name atol _; do
  again "$name" pass "$@" --atol "$atol"
done <"$here/tolerances.tsv"
while IFS=$'\t' read -r name _; do
  again "$name" drawn "$@" --sizes-only
done <"$here/drawn.tsv"
sed '$d' "$work/lines" | why=$here/variants.tsv awk '
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
awk -F '\t' '$2 == "pass" { print $1 }' "$work/actual" | passing_row >"$work/table"
awk -F '\t' '$2 != "pass"' "$work/actual" >>"$work/table"
if [[ -n $update ]]; then
  cp "$work/table" "$table"
  exit 0
fi
awk -F '\t' '
  NR == FNR && FNR == 1 { count = $2; names = $3; next }
  NR == FNR { expected[$1] = $2; next }
  $1 == "(pass)" {
    if ($2 != count) { printf "%d cases pass, expected %d\n", $2, count; failures++ }
    else if ($3 != names) { printf "%d other cases pass than did\n", $2; failures++ }
    next
  }
  { seen[$1] = 1 }
  $1 in expected && $2 == expected[$1] { next }
  { printf "%s: %s, expected %s: %s\n", $1, $2, $1 in expected ? expected[$1] : "pass", $3; failures++ }
  END {
    for (name in expected)
      if (!(name in seen)) { printf "%s: no longer %s\n", name, expected[name]; failures++ }
    if (failures) printf "where that is right, run this with --update\n"
    printf "%d failures\n", failures
    exit failures > 0
  }' "$table" "$work/table"
