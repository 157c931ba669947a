#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: turn.sh TURNS STRIDE COUNT PROGRAM [ARGUMENT…]
# Runs a program of random cases with COUNT seeds, and with other ones at each commit: of TURNS ranges of
# STRIDE seeds each, which take turns by the number of commits, the first COUNT. A sanitizer's few are
# so among those that the optimised build has run.
set -eu

if [ $# -lt 4 ]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
turn=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % $1))
seed=$((1 + turn * $2)) count=$3 turns=$1
shift 3
echo "turn $turn of $turns: seeds $seed to $((seed + count - 1))"
exec "$@" --seed "$seed" --count "$count"
