#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: full.sh PROGRAM [FIRST [LAST [JOBS]]]. Runs the guard fuzz over seeds FIRST … LAST (1 … 10000)
# in chunks of 100 by JOBS processes (one a core), and prints their table with a line of totals. A chunk
# that is done is kept in $DT_SIZES_DIR (build/sizes) and not run again, so that the script may be
# stopped and begun again, and shards of seeds may be run on several machines.
set -euo pipefail
program=$(realpath "$1")
first=${2:-1}
last=${3:-10000}
jobs=${4:-$(nproc)}
chunk=100
state=${DT_SIZES_DIR:-build/sizes}
mkdir -p "$state"

run_chunk() {
  local out="$state/$1-$2.tsv"
  [[ -s $out ]] && return
  "$program" --seed "$1" --count "$2" --table >"$out.part" || true
  mv "$out.part" "$out"
}

files=()
for ((seed = first; seed <= last; seed += chunk)); do
  count=$((last - seed + 1 < chunk ? last - seed + 1 : chunk))
  files+=("$state/$seed-$count.tsv")
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  run_chunk "$seed" "$count" &
done
wait

printf 'seed\tprograms\tcalls\ttaken\trefused\tregions\tvariants\tprepared\tcompared\tfailures\tseconds\n'
# What else a chunk printed tells of a failure.
grep -hv -P '^\d+(\t\d+){10}$' "${files[@]}" >&2 || true
grep -h -P '^\d+(\t\d+){10}$' "${files[@]}" | awk -F '\t' '
  { print; for (k = 2; k <= 11; k++) sum[k] += $k }
  END {
    printf "all"
    for (k = 2; k <= 11; k++) printf "\t%d", sum[k]
    printf "\n"
    exit sum[10] > 0 || NR == 0
  }'
