#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: kills.sh PROGRAM [KILLS]. The long form of unit.base.disk_cache: kills so many writers of the
# cache folder (2000) and prints the row of kills.tsv.
set -euo pipefail
printf 'killed\tlooks\thits\twrong\tleft behind\n'
"$1" "${2:-2000}" 2>&1 | awk -F '\t' '
  $1 == "killed" { printf "%s\t%s\t%s\t%s\t%s\n", $2, $4, $6, $8, $10; rows++ }
  /FAILED/ { print > "/dev/stderr"; failures++ }
  END { exit rows != 1 || failures > 0 }'
