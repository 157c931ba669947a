#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# graphs_summary.py on lines as the benchmarks print them: measures that are met, that are not, and
# that are missing; and on what is no such file.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" "$here/graphs_summary.py" "$here/graphs_summary_case.jsonl" >"$work/got"
diff -u "$here/graphs_summary_case.txt" "$work/got"

# expect WANTED ARGUMENT…: the exit code.
expect() {
  local wanted=$1 code=0
  shift
  "$python" "$here/graphs_summary.py" "$@" >/dev/null 2>"$work/told" || code=$?
  [[ $code -eq $wanted ]] || {
    printf 'exit code %d, expected %d: %s\n' "$code" "$wanted" "$*"
    exit 1
  }
}
expect 1 "$work/nowhere"
printf 'no JSON\n' >"$work/text"
expect 1 "$work/text"
printf '{"case":"host"}\n' >"$work/other"
expect 1 "$work/other"
grep -q other "$work/told"
expect 2
expect 0 --help
