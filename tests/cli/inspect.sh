#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: inspect.sh DUCTILE TEXT [--update]. TEXT begins with the arguments of `ductile inspect`, a line
# each; then stand an empty line, what the command prints, and its exit status. With --update the rest
# of TEXT is written anew.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
text=$2

mapfile -t arguments < <(sed '/^$/,$d' "$text")
status=0
printed=$("$ductile" inspect "${arguments[@]}" 2>&1) || status=$?
actual=$(
  printf '%s\n' "${arguments[@]}"
  printf '\n%s\nexit status %s\n' "$printed" "$status"
)
if [[ ${3:-} == --update ]]; then
  printf '%s\n' "$actual" >"$text"
  exit 0
fi
diff "$text" - <<<"$actual"
