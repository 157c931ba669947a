#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: profile.sh DUCTILE. ductile bench --profile: the table, the JSON line, and a file in each
# form. That the forms are whole is unit.exec.timing's.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "profile.sh: $*" >&2
  exit 1
}

bench() { "$ductile" bench models/sum.onnx --dim batch=3,50 --seconds 0 "$@"; }

table=$(bench --profile)
grep -q '^profile: 12 calls, ' <<<"$table" || fail "no table: $table"
grep -q '^test\.0: 12 calls of 2 sizes' <<<"$table" || fail "no variant: $table"
grep -q 'add_maximum (add node of "s"' <<<"$table" || fail "no source: $table"
if grep -q '^profile:' <<<"$(bench)"; then
  fail "a profile that nobody asked for"
fi
grep -q '^{"event":"profile","profile":{"wall_ns":.*}$' <<<"$(bench --json --profile | tail -n 1)" ||
  fail "no event"
for form in p.html p.trace.json p.json p.txt; do
  bench --profile-to "$folder/$form" >/dev/null
done
[[ $(head -c 15 "$folder/p.html") == '<!DOCTYPE html>' && $(tail -n 1 "$folder/p.html") == '</html>' ]] ||
  fail "no page"
grep -q '^{"displayTimeUnit":"ns",' "$folder/p.trace.json" || fail "no timeline"
grep -q '"cat":"kernel"' "$folder/p.trace.json" || fail "no kernels in the timeline"
grep -q '^{"wall_ns":.*"variants":\[{"function":"test"' "$folder/p.json" || fail "no object"
grep -q '^profile: ' "$folder/p.txt" || fail "no table in a file"
if bench --profile-to "$folder/none/p.json" >/dev/null 2>"$folder/error"; then
  fail "a folder that is not there was written to"
fi
grep -q 'none/p.json' "$folder/error" || fail "the failure names no file"
