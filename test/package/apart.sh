#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: apart.sh PROGRAM LIBRARY JIT WORKER INSIDE. The code generator is a file of its own (apart.c is what
# runs): without it everything but making code works, kept code too; it is opened where code must be
# made, once, and never by a process whose code is kept or made by workers; one of another build is
# refused; it is found beside the library, or beside the program INSIDE, which has the library in itself,
# and where DUCTILE_JIT says.
set -euo pipefail
program=$1 library=$2 jit=$3 worker=$4 inside=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{both,alone,foreign,elsewhere,kept,workers}
cp -L "$library" "$work/both/libductile.so.1"
cp "$jit" "$work/both/"
cp -L "$library" "$work/alone/libductile.so.1"
cp -L "$library" "$work/foreign/libductile.so.1"
cp "$jit" "$work/elsewhere/"
failures=0

# life WHAT FOLDER WANTED [THREADS] [VARIABLE=VALUE…]: what is printed is the extended regular expression.
life() {
  local what=$1 folder=$2 wanted=$3 threads=1 answer
  shift 3
  [[ ${1:-} != [0-9]* ]] || { threads=$1 && shift; }
  answer=$(env "$@" "$program" "$work/$folder/libductile.so.1" "$threads" 2>"$work/said") || answer="failed: $?"
  if [[ ! $answer =~ ^$wanted$ ]]; then
    printf '%s: %s; expected %s\n' "$what" "$answer" "$wanted"
    cat "$work/said"
    failures=$((failures + 1))
  fi
}
said() { # WHAT WORDS
  grep -qF -- "$2" "$work/said" || {
    printf '%s: "%s" was not said:\n' "$1" "$2"
    cat "$work/said"
    failures=$((failures + 1))
  }
}

# What the files show and need.
shown=$(nm -D --defined-only "$jit" | awk '{ print $3 }' | tr '\n' ' ')
[[ $shown == 'dt_jit_enter ' ]] || {
  printf 'libductile-jit.so shows %s\n' "$shown"
  failures=$((failures + 1))
}
needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(lib(c|m|dl|pthread)\.so|ld-linux)' || true)
[[ -z $needed ]] || {
  printf 'the library needs %s\n' "$needed"
  failures=$((failures + 1))
}

export DUCTILE_CACHE_DIR=
life 'it makes code' both 'DT_OK [0-9a-f]{8} jit( llvm)?'
bits=$(env "$program" "$work/both/libductile.so.1" | cut -d ' ' -f 2)
llvm=$(env "$program" "$work/both/libductile.so.1" | cut -d ' ' -f 3-)
life 'four open it at once' both "DT_OK $bits $llvm" 4 DUCTILE_LOG=compile
[[ $(grep -c 'was opened' "$work/said") == 1 ]] || {
  printf 'it was not opened once:\n' && cat "$work/said"
  failures=$((failures + 1))
}

life 'there is none' alone 'DT_E_UNSUPPORTED 0+'
said 'there is none' "looked for $work/alone/libductile-jit.so"
said 'there is none' 'install the package that has libductile-jit.so, name the file by DUCTILE_JIT'
life 'DUCTILE_JIT' alone "DT_OK $bits $llvm" "DUCTILE_JIT=$work/elsewhere/libductile-jit.so"
life 'DUCTILE_JIT, a wrong one' both 'DT_E_UNSUPPORTED 0+' "DUCTILE_JIT=$work/nowhere.so"
said 'DUCTILE_JIT, a wrong one' "$work/nowhere.so"
life 'by the loader' alone "DT_OK $bits $llvm" "LD_LIBRARY_PATH=$work/elsewhere"

# Another build's identity is other digits of the same length.
identity=$(grep -aoE 'LLVM [0-9.]+ [0-9a-f]{32}' "$jit" | head -n 1)
changed=${identity%?}$([[ $identity == *0 ]] && printf 1 || printf 0)
LC_ALL=C sed "s/$identity/$changed/g" "$jit" >"$work/foreign/libductile-jit.so"
life 'of another build' foreign 'DT_E_UNSUPPORTED 0+ jit( llvm)?'
said 'of another build' "is of another build than this library: it is $changed, expected $identity"

# What is kept is found by the next process, without it and with it, and it is not opened.
export DUCTILE_CACHE_DIR=$work/kept
life 'code is kept' both "DT_OK $bits $llvm"
life 'code was kept' both "DT_OK $bits" DUCTILE_LOG=cache:2
said 'code was kept' '[cache] all of apart.0'
life 'code was kept, and there is none' alone "DT_OK $bits"
life 'code was kept, and it is of another build' foreign "DT_OK $bits( jit)?( llvm)?"
# Other code than is kept must be made.
life 'other code' alone 'DT_E_UNSUPPORTED 0+' DUCTILE_STRICT_FP=1

# The process itself never has it where workers make the code.
export DUCTILE_CACHE_DIR=$work/workers DUCTILE_ISOLATION=worker DUCTILE_WORKER=$worker
life 'a worker makes it' both "DT_OK $bits" DUCTILE_LOG=cache
if grep -q 'not kept' "$work/said"; then
  cat "$work/said"
  failures=$((failures + 1))
fi
life 'a worker made it' both "DT_OK $bits" DUCTILE_LOG=cache:2,compile:2
said 'a worker made it' '[cache] all of apart.0'
unset DUCTILE_ISOLATION DUCTILE_WORKER

# The library in a program.
export DUCTILE_CACHE_DIR=$work/inside
mkdir "$work/inside"
cp "$inside" "$work/both/program"
cp "$inside" "$work/alone/program"
program=$work/both/program
life 'a program that has the library' both "DT_OK $bits $llvm"
life 'its code was kept' both "DT_OK $bits"
program=$work/alone/program
life 'its code was kept, and there is none' alone "DT_OK $bits"
life 'a program without it' alone 'DT_E_UNSUPPORTED 0+' DUCTILE_CACHE_DIR=
said 'a program without it' "looked for $work/alone/libductile-jit.so"
[[ $failures -eq 0 ]]
printf 'the code generator is a file of its own\n'
