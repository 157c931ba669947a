#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: man.sh DUCTILE PAGE. The manual page and the help of the command and of each subcommand
# name the same commands and the same options.
set -euo pipefail
ductile=$1
page=$2

# Roff writes \- for a hyphen.
plain=$(sed 's/\\-/-/g' "$page")
# Options begin a line of a list, in the help as in the page.
options_of() { grep -oE '^ +--[a-z][a-z-]*' | tr -d ' ' | LC_ALL=C sort -u; }

mapfile -t commands < <("$ductile" --help | sed -n '/^Commands:/,/^$/p' | sed -nE 's/^  ([a-z]+) .*/\1/p')
[[ ${#commands[@]} -gt 0 ]] || { printf 'no command in the help\n' && exit 1; }
status=0
for command in "${commands[@]}"; do
  grep -qE "^\.SS $command\$" <<<"$plain" || { printf 'no section on %s\n' "$command" && status=1; }
done
helped=$({
  "$ductile" --help | options_of
  for command in "${commands[@]}"; do "$ductile" "$command" --help | options_of; done
} | LC_ALL=C sort -u)
paged=$(grep -A1 '^\.TP' <<<"$plain" | sed -nE 's/^\.BI? (--[a-z][a-z-]*).*/\1/p' | LC_ALL=C sort -u)
if [[ $helped != "$paged" ]]; then
  printf 'options in the help (<) and in the page (>):\n'
  diff <(printf '%s\n' "$helped") <(printf '%s\n' "$paged") || true
  status=1
fi
if command -v man >/dev/null; then
  warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  [[ -z $warnings ]] || { printf '%s\n' "$warnings" && status=1; }
fi
printf '%d commands, %d options\n' "${#commands[@]}" "$(wc -l <<<"$helped")"
exit "$status"
