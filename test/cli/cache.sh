#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cache.sh DUCTILE. What `ductile cache` says of a folder that a program used, and what it
# removes; runs of one model at once, of which one compiles.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/code
x=(--input 'x=values:1,2,3' --input trips=values:3)

failures=0
# expect STATUS PATTERN ARGUMENT…: the command ends so, and says PATTERN.
expect() {
  local expected=$1 pattern=$2 status=0 said
  shift 2
  said=$("$ductile" "$@" 2>&1) || status=$?
  if [[ $status -ne $expected || $said != *"$pattern"* ]]; then
    printf 'ductile %s: status %s, expected %s with "%s"; it said: %s\n' "$*" "$status" "$expected" \
      "$pattern" "$said"
    failures=$((failures + 1))
  fi
}
fail() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}
# A run of a small model, and its log.
use() { DUCTILE_CACHE_DIR=$folder DUCTILE_LOG=cache:2,compile:2 "$ductile" run models/loop.onnx "${x[@]}" 2>&1; }

expect 1 'No such file or directory' cache ls --folder "$folder"
# Whoever runs it first compiles it, and all others find it.
for k in 1 2 3 4; do
  use >"$work/log.$k" &
done
wait
compiled=$(cat "$work"/log.* | grep -c 'the host program' || true)
found=$(cat "$work"/log.* | grep -c '\[cache\] all of' || true)
[[ $compiled -eq 1 && $found -eq 3 ]] || fail "4 runs: $compiled compiled, $found found it"
expect 0 ' 0 damaged' cache ls --folder "$folder"
expect 0 '1 entries of' cache ls --folder "$folder/"
expect 0 '.variant  ductile 0.' cache ls --folder "$folder"
expect 0 ', cpu' cache ls --folder "$folder"
expect 0 '"kind":"variant"' cache ls --folder "$folder" --json
expect 0 '{"event":"total","entries":1,' cache verify --folder "$folder" --json

entry=$(echo "$folder"/*.variant)
printf 'x' | dd of="$entry" bs=1 seek=200 conv=notrunc status=none
printf 'x' >"$folder/of somebody else"
expect 1 ' damaged' cache verify --folder "$folder"
expect 1 '1 entries of' cache verify --folder "$folder"
expect 1 '"damaged":1}' cache verify --folder "$folder" --json
[[ $(use) == *'is damaged or not ours'* ]] || fail 'a damaged entry was used'
expect 0 ' 0 damaged' cache verify --folder "$folder" # it was replaced
printf 'x' | dd of="$entry" bs=1 seek=200 conv=notrunc status=none
bytes=$(stat -c %s "$entry")
expect 0 "$bytes bytes removed" cache gc --folder "$folder"
expect 0 '0 entries of' cache ls --folder "$folder"
use >"$work/log"
expect 0 '{"event":"removed","bytes":0}' cache gc --folder "$folder" --json
expect 0 "$bytes bytes removed" cache gc --folder "$folder" --most 0
# Of one kind, and nothing else.
use >"$work/log"
entry=$(echo "$folder"/*.variant)
bytes=$(stat -c %s "$entry")
cp "$entry" "${entry%.variant}.tuned"
expect 0 "$bytes bytes removed" cache drop --folder "$folder" --kind tuned
expect 0 '{"event":"removed","bytes":0}' cache drop --folder "$folder" --kind tuned --json
[[ -f $entry && ! -e ${entry%.variant}.tuned ]] || fail 'drop removed another kind, or not its own'
expect 0 "$bytes bytes removed" cache drop --folder "$folder" --kind variant
expect 1 'No such file or directory' cache drop --folder "$work/none" --kind tuned
[[ -f "$folder/of somebody else" ]] || fail 'a file of somebody else went'

# A folder that others may write is not used, and not tidied.
chmod 0777 "$folder"
expect 1 'nobody else may have write permission' cache gc --folder "$folder"
[[ $(use) == *'[cache] off: '* ]] || fail 'a folder that all may write was used'
chmod 0700 "$folder"
ln -s code "$work/link"
expect 1 'symbolic link' cache ls --folder "$work/link"

DUCTILE_CACHE_DIR='' expect 1 'no code is kept' cache ls
DUCTILE_CACHE_DIR=$folder expect 0 '0 entries' cache ls
expect 2 'no action' cache
expect 2 "no action 'none'; expected ls, verify, gc or drop" cache none
expect 2 'give --kind KIND' cache drop --folder "$folder"
expect 2 'there are tuned, variant, cubin, form' cache drop --folder "$folder" --kind code
expect 2 'one action only' cache ls gc
expect 2 '--most x' cache gc --most x
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]
