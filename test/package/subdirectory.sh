#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: subdirectory.sh CMAKE SOURCES compile|evaluate [FLAG…]. consumer/subdirectory has Ductile within it,
# by add_subdirectory and by FetchContent (configured only, since what is built is the same), with FLAGs of
# CMake. Its four programs run, the library is built alone, and `cmake --install` installs the project alone.
set -euo pipefail
cmake=$1 sources=$2 how=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'subdirectory: %s\n' "$*"
  exit 1
}
quietly() {
  "$@" >"$work/log" 2>&1 || {
    tail -n 60 "$work/log"
    fail "failed: $*"
  }
}
configure() {
  quietly "$cmake" -G Ninja -S "$sources/test/package/consumer/subdirectory" -B "$1" -DUSER_DUCTILE="$sources" "${@:2}"
}

configure "$work/fetched" -DUSER_FETCHES=ON -DDUCTILE_LLVM=OFF
grep -q '^DUCTILE_TESTS:BOOL=OFF' <<<"$("$cmake" -N -L "$work/fetched")" || fail 'FetchContent builds the tests'

configure "$work/build" "$@"
quietly "$cmake" --build "$work/build" -j "$(nproc)"
if grep -q -e -Werror "$work"/build/build.ninja; then fail 'warnings are errors'; fi
for program in user_c user_cc user_static_c user_static_cc; do
  answer=$("$work/build/bin/$program" "$how") || fail "$program: $answer"
  printf '%s: %s\n' "$program" "$answer"
  [[ $answer == *' 1000010' ]] || fail "$program: expected the sum 1000010"
done
if ldd "$work/build/bin/user_static_c" | grep libductile; then fail 'user_static_c is not static'; fi

quietly "$cmake" --install "$work/build" --prefix "$work/installed"
[[ $(cd "$work/installed" && find . -type f) == ./bin/user_c ]] ||
  fail "more than the project was installed: $(cd "$work/installed" && find . -type f)"
