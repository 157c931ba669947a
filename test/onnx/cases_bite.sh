#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What cases.sh tells: a command that prints given lines stands for ductile.
set -euo pipefail
cases=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cases.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{data,data/a,data/b,data/c}
# shellcheck disable=SC2016 # "$0" is that command's own
printf '#!/usr/bin/env bash\ncat "${0%%/*}/lines"\n' >"$work/ductile"
chmod +x "$work/ductile"

failures=0
# run WHAT STATUS LINE…: whether cases.sh ends with STATUS (0 or 1) where the cases came out so.
run() {
  local what=$1 expected=$2 status=0
  shift 2
  printf '%s\n' "$@" 'as many cases' >"$work/lines"
  "$cases" "$work/ductile" "$work/data" "$work/table.tsv" >"$work/out" || status=$?
  [[ $status -ne $expected ]] || return 0
  printf '%s: ended with %d, expected %d\n' "$what" "$status" "$expected"
  cat "$work/out"
  failures=$((failures + 1))
}

right=('pass a: 1 variant' 'pass b: 1 variant' 'refused c: model.onnx: no')
printf '%s\n' "${right[@]}" 'as many cases' >"$work/lines"
"$cases" "$work/ductile" "$work/data" "$work/table.tsv" --update >/dev/null
[[ $(cut -f 1,2 "$work/table.tsv") == $'(pass)\t2\nc\trefused' ]] || {
  printf 'the table is\n'
  cat "$work/table.tsv"
  failures=$((failures + 1))
}
run 'the same' 0 "${right[@]}"
run 'one is wrong' 1 'pass a: 1 variant' 'wrong b: 2 is 3' "${right[2]}"
run 'one is refused' 1 'pass a: 1 variant' 'refused b: no' "${right[2]}"
run 'one is gone' 1 "${right[0]}" "${right[2]}"
run 'one went and one came' 1 "${right[0]}" 'pass d: 1 variant' "${right[2]}"
run 'one more' 1 "${right[@]}" 'pass d: 1 variant'
run 'an exception passes' 1 "${right[@]:0:2}" 'pass c: 1 variant'
run 'an exception is an error' 1 "${right[@]:0:2}" 'error c: no'
run 'an exception is gone' 1 "${right[@]:0:2}"
run 'two variants without a reason' 1 'pass a: 2 variants' "${right[@]:1}"
run 'nothing' 1
[[ $("$cases" --table "$work/data" "$work/table.tsv") == "$(cat "$work/table.tsv")" ]] || {
  printf 'the table of what is there is another\n'
  failures=$((failures + 1))
}
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]
