#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# File lengths: sources fail above 1200 lines and are named above 800, headers fail above 400 and
# are named above 200. Tables (.def) have no limit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scripts/files '*.c' '*.h' | tr '\n' '\0' | xargs -0 -r awk '
  function close_file() {
    if (name == "") return
    files++
    header = name ~ /\.h$/
    if (lines > (header ? 400 : 1200)) {
      printf "%s: %d lines, the limit is %d\n", name, lines, header ? 400 : 1200
      failures++
    } else if (lines > (header ? 200 : 800)) {
      printf "%s: %d lines, consider a split at %d\n", name, lines, header ? 200 : 800
    }
  }
  FNR == 1 { close_file(); name = FILENAME }
  { lines = FNR }
  END {
    close_file()
    printf "%d files checked, %d too long\n", files, failures
    exit failures > 0
  }'
