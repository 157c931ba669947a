#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: long.sh PROGRAM loops|compiled [FIRST [LAST [JOBS]]]. Runs random graphs of seeds FIRST … LAST
# (loops: 1 … 62500, through all passes and the loop interpreter; compiled: 900001 … 902500, as code), of
# 8 calls each, in chunks by JOBS processes (one a core), and prints their table with a line of totals. A
# chunk that is done is kept in $DT_GRAPHS_DIR (build/graphs) and not run again, so that the script may
# be stopped and begun again, and shards of seeds may be run on several machines. Of a failure it prints
# the reduced program, too (long.tsv is the table of what was run last).
set -euo pipefail
program=$(realpath "$1")
mode=${2:-loops}
case $mode in
loops) begin=1 end=62500 chunk=500 flags=(--loops) ;;
compiled) begin=900001 end=902500 chunk=50 flags=() ;;
*)
  sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
first=${3:-$begin}
last=${4:-$end}
jobs=${5:-$(nproc)}
state=${DT_GRAPHS_DIR:-build/graphs}
mkdir -p "$state"

# The program's last line as one of the table.
# shellcheck disable=SC2016  # perl's variables
row='s/^(\d+) programs, (\d+) checks, (\d+) variants, (\d+) kernels, (-?\d+) elements compared, '
# shellcheck disable=SC2016
row+='(-?\d+) uncertain, (\d+) failures$/$ENV{MODE}\t$ENV{SEED}\t$1\t$2\t$3\t$4\t$5\t$6\t$7/'

run_chunk() {
  local out="$state/$mode-$1-$2.tsv"
  [[ -s $out ]] && return
  MODE=$mode SEED=$1 "$program" "${flags[@]}" --seed "$1" --count "$2" |
    MODE=$mode SEED=$1 perl -pe "$row" >"$out.part" || true
  mv "$out.part" "$out"
}

files=()
for ((seed = first; seed <= last; seed += chunk)); do
  count=$((last - seed + 1 < chunk ? last - seed + 1 : chunk))
  files+=("$state/$mode-$seed-$count.tsv")
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  run_chunk "$seed" "$count" &
done
wait

printf 'mode\tseed\tprograms\tgraphs_x_shapes\tvariants\tkernels\tcompared\tuncertain\tfailures\n'
grep -hv -P '^\w+(\t-?\d+){8}$' "${files[@]}" >&2 || true
grep -h -P '^\w+(\t-?\d+){8}$' "${files[@]}" | awk -F '\t' '
  { print; for (k = 3; k <= 9; k++) sum[k] += $k }
  END {
    printf "%s\tall", $1
    for (k = 3; k <= 9; k++) printf "\t%d", sum[k]
    printf "\n"
    exit sum[9] > 0 || NR == 0
  }'
