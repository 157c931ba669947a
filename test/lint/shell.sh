#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs shellcheck over the project's shell programs; skipped where it is not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v shellcheck >/dev/null || {
  printf 'SKIP: shellcheck is not installed\n'
  exit 77
}
files=()
while IFS= read -r file; do
  if head -n 1 "$file" | grep -qE '^#!.*\<(bash|sh)$'; then files+=("$file"); fi
done < <(
  scripts/files '*.sh'
  scripts/files | grep -E '^(scripts|\.ci)/[^.]+$' || true
)
shellcheck "${files[@]}"
printf '%d shell programs checked\n' "${#files[@]}"
