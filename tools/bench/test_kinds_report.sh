#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kinds_report.py on lines as bench_kinds.py prints them: rows that are measured, slow, refused, wrong
# and crashed, kinds without a measured row; and on what is no such file.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" "$here/kinds_report.py" "$here/kinds_report_case.jsonl" >"$work/got"
"$python" "$here/kinds_report.py" --markdown "$here/kinds_report_case.jsonl" >>"$work/got"
"$python" "$here/kinds_report.py" --scaling "$here/kinds_report_case.jsonl" >>"$work/got"
diff -u "$here/kinds_report_case.txt" "$work/got"

# expect WANTED ARGUMENT…: the exit code.
expect() {
  local wanted=$1 code=0
  shift
  "$python" "$here/kinds_report.py" "$@" >/dev/null 2>&1 || code=$?
  [[ $code -eq $wanted ]] || {
    printf 'exit code %d, expected %d: %s\n' "$code" "$wanted" "$*"
    exit 1
  }
}
expect 1 "$work/nowhere"
printf 'no JSON\n' >"$work/text"
expect 1 "$work/text"
expect 2
expect 0 --help
