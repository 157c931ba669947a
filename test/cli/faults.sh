#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: faults.sh DUCTILE FAULTS. A folder whose check crashes, hangs or ends costs that folder only,
# whatever the number of processes.
set -euo pipefail
ductile=$1
faults=$2
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in a b-crash c d-hang e f-leave g h-crash; do
  cp -R folders/good "$work/$name"
done
cat >"$work/expected" <<'TEXT'
pass     a: 2 sets, 1 variant, 0 evaluator calls; at most 0 absolute, 0 relative
error    b-crash: the process crashed: Aborted
pass     c: 2 sets, 1 variant, 0 evaluator calls; at most 0 absolute, 0 relative
error    d-hang: no answer within 2 s
pass     e: 2 sets, 1 variant, 0 evaluator calls; at most 0 absolute, 0 relative
error    f-leave: the process ended without an answer
pass     g: 2 sets, 1 variant, 0 evaluator calls; at most 0 absolute, 0 relative
error    h-crash: the process crashed: Aborted
8 folders: 4 pass, 0 wrong, 0 refused, 4 error, 0 late
exit status 1
TEXT
failures=0
for jobs in 1 3 20; do
  status=0
  LD_PRELOAD=$faults "$ductile" check "$work" --jobs $jobs --timeout 2 >"$work/actual" 2>&1 || status=$?
  printf 'exit status %s\n' "$status" >>"$work/actual"
  diff "$work/expected" "$work/actual" || failures=$((failures + 1))
done
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]
