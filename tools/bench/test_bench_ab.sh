#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_ab.py on programs whose figures are known: a tie, a regression beyond the bound and one
# within it, noise that hides nothing, programs that fail or print no such figure.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# program NAME NS: prints NS and up to 1 % more, another amount at each run.
program() {
  cat >"$work/$1" <<TEXT
#!/bin/sh
n=\$(cat "$work/$1.runs" 2>/dev/null || echo 0)
echo \$((n + 1)) >"$work/$1.runs"
echo "no JSON"
echo "{\"bench\":\"b\",\"case\":\"hit\",\"metric\":\"median\",\"value\":\$(($2 + n * 7 % 11 * $2 / 1000))}"
TEXT
  chmod +x "$work/$1"
}

# expect CODE ARGUMENT…
expect() {
  local wanted=$1 code=0
  shift
  "$python" "$here/bench_ab.py" "$@" >"$work/got" 2>"$work/told" || code=$?
  [[ $code -eq $wanted ]] || {
    printf 'exit code %d, expected %d: %s\n' "$code" "$wanted" "$*"
    cat "$work/got" "$work/told"
    exit 1
  }
}

program even 10000
program same 10000
program slower 10800
printf '#!/bin/sh\nexit 5\n' >"$work/fails"
chmod +x "$work/fails"

expect 0 --old "$work/even" --new "$work/same" --figures hit --bound 3
grep -q 'hit median.*within' "$work/got"
expect 1 --old "$work/even" --new "$work/slower" --figures hit --bound 3
grep -q 'hit median.*BEYOND' "$work/got"
expect 0 --old "$work/even" --new "$work/slower" --figures hit --bound 10
expect 0 --old "$work/slower" --new "$work/even" --figures hit --bound 3 --json
grep -q '"within": true' "$work/got"
expect 3 --old "$work/even" --new "$work/same" --figures miss
expect 3 --old "$work/even" --new "$work/fails"
expect 2 --old "$work/even" --new "$work/same" --turns 3

# The ranks of 15 turns are those of the binomial's tables.
"$python" - "$here" <<'TEXT'
import sys
sys.path.insert(0, sys.argv[1])
import bench_ab
assert bench_ab.ranks(15) == (4, 12), bench_ab.ranks(15)
assert bench_ab.ranks(25) == (8, 18), bench_ab.ranks(25)
assert bench_ab.interval([1.0] * 15) == (1.0, 1.0, 1.0)
TEXT
