#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: text.sh DUCTILE TEXT [--update]. TEXT, FOLDER/NAME.txt, begins with the arguments of the
# subcommand FOLDER, a line each; then stand an empty line, what the command prints, and its exit
# status. Times and bytes are left out. With --update the rest of TEXT is written anew.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
text=$2
command=${text%%/*}

mapfile -t arguments < <(sed '/^$/,$d' "$text")
status=0
printed=$("$ductile" "$command" "${arguments[@]}" 2>&1) || status=$?
actual=$(
  printf '%s\n' "${arguments[@]}"
  printf '\n%s\nexit status %s\n' "$printed" "$status" |
    case $command in
      inspect) cat ;;
      run) sed -E 's/[0-9.]+ MB\>/- MB/g; s/("(call|peak)_bytes"):[0-9]+/\1:0/g' ;;
      *) sed -E 's/[0-9.]+ [um]s\>/- ms/g; s/[0-9.]+ (ns|MB)\>/- \1/g
                 s/("([a-z0-9_]+_)?(us|ns|ms|bytes)"):[0-9.]+/\1:0/g
                 s/\(session .*\)$/(-)/' ;;
    esac
)
if [[ ${3:-} == --update ]]; then
  printf '%s\n' "$actual" >"$text"
  exit 0
fi
diff "$text" - <<<"$actual"
