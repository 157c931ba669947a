#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs shellcheck over the project's shell programs; skipped where it is not installed. Before that:
# grep ends at its first line where it prints nothing, and what writes into it may then be ended by
# SIGPIPE, which pipefail takes for a failure of the pipe.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

files=()
while IFS= read -r file; do
  if grep -qE '^#!.*\<(bash|sh)$' <<<"$(head -n 1 "$file")"; then files+=("$file"); fi
done < <(
  scripts/files '*.sh'
  scripts/files | grep -E '^(scripts|\.ci)/[^.]+$' || true
)
mapfile -t strict < <(grep -l '^set -.*pipefail' "${files[@]}")
# As one line what a pipe at its end goes on with.
joined=$(awk 'FNR == 1 { line = "" }
  { text = line $0 }
  text ~ /[^|]\| *$/ { line = text; next }
  { print FILENAME ":" FNR ": " text; line = "" }' "${strict[@]}")
if grep -E '[^|]\| *grep (-[a-zA-Z]*q|.*>/dev/null)' <<<"$joined"; then
  printf 'grep ends early, which its pipe may not survive: give it the text by a here-string\n'
  exit 1
fi

command -v shellcheck >/dev/null || {
  printf 'SKIP: shellcheck is not installed\n'
  exit 77
}
shellcheck "${files[@]}"
printf '%d shell programs checked\n' "${#files[@]}"
