#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/conformance against the tests: every behaviour of the tables' ranges has one row;
# a row that says `tested` names a test function behaviour_NN_… that exists, and every such function
# is in a row that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

functions=$(mktemp)
trap 'rm -f "$functions"' EXIT
grep -hoE "^((static )?void )?behaviour_[0-9]+_[a-z0-9_]+\\(void" test/unit/pytorch/*.c |
  sed -E "s/\\(void//; s/.*void //" | sort -u >"$functions"

awk -v functions="$functions" '
  function fail(text) { print FILENAME ": " text; failures++ }
  BEGIN {
    while ((getline name < functions) > 0) {
      split(name, part, "_")
      defined[name] = 1
      count[part[2] + 0]++
    }
    # Words a status may begin with; what is no test needs its reason behind.
    allowed["tested"] = allowed["waits"] = allowed["not"] = 1
  }
  /^Behaviours [0-9]+ to [0-9]+\./ {
    if (!ranges++ || $2 + 0 < first) first = $2 + 0
    if ($4 + 0 > last) last = $4 + 0
  }
  /^\| *[0-9]+ *\|/ {
    n = split($0, cell, "|")
    id = cell[2] + 0
    if (seen[id]++) fail("behaviour " id " has two rows")
    status = cell[4]
    gsub(/^ +| +$/, "", status)
    split(status, word, " ")
    if (!(word[1] in allowed)) fail("behaviour " id ": status \"" status "\"; expected tested, waits or not applicable")
    if (word[1] == "tested") {
      rest = cell[5]
      found = 0
      while (match(rest, /behaviour_[0-9]+_[a-z0-9_]+/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (!(name in defined)) fail("behaviour " id ": no test " name)
        listed[name] = 1
        found = 1
      }
      if (!found) fail("behaviour " id " names no test")
    } else if (length(status) < 12) {
      fail("behaviour " id ": \"" status "\" says no reason")
    }
    rows++
  }
  END {
    for (id = first; id <= last; id++) if (!seen[id]) fail("behaviour " id " has no row")
    for (name in defined) if (!(name in listed)) fail("test " name " is in no row that says tested")
    printf "%d behaviours checked, %d wrong\n", rows, failures
    exit failures > 0
  }' docs/conformance/pytorch-*.md
