#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: help.sh BENCHMARKS. Every program of that folder, and every script of scripts/, says how it is used when it is asked
# by --help, on standard output, and does nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

status=0 asked=0
for program in "$1"/bench_* scripts/*; do
  [[ -f $program && -x $program ]] || continue
  asked=$((asked + 1))
  said=$(timeout 20 "$program" --help 2>&1 </dev/null) || {
    printf '%s --help: exit status %d: %.80s\n' "$program" $? "$said"
    status=1
    continue
  }
  grep -q '^usage: ' <<<"$said" || {
    printf '%s --help: says no usage, but %.80s\n' "$program" "$said"
    status=1
  }
done
printf '%d programs asked\n' "$asked"
[[ $asked -gt 40 ]] || status=1
exit "$status"
