#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, and twice, as C17; a public one also as C11 and as C++17.
# The environment may set CC, CXX and DT_INCLUDES (LLVM's -isystem folder, where the build has it).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

read -r -a outside <<<"${DT_INCLUDES:-}"
python=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
[[ -z $python ]] || outside+=("$python")
includes=(-I. -Iinclude)
for folder in "${outside[@]}"; do includes+=(-isystem "$folder"); done
c_flags=(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror)
failures=0
count=0
skipped=0

# compile HEADER NAME COMPILER FLAG…: NAME is how the header is included.
compile() {
  local header=$1 name=$2 output
  shift 2
  count=$((count + 1))
  output=$(printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
    "$@" -fsyntax-only "${includes[@]}" - 2>&1) && return
  # Nor is there the extension without CPython's headers.
  if [[ $output == *'fatal error: Python.h: '* ]]; then
    skipped=$((skipped + 1))
    return
  fi
  # A build without LLVM has no code that would include a header over LLVM's.
  if [[ -z ${DT_INCLUDES:-} && $output == *'fatal error: llvm-c/'* ]]; then
    skipped=$((skipped + 1))
    return
  fi
  printf '%s\n%s: does not compile alone with: %s\n' "$output" "$header" "$*"
  failures=$((failures + 1))
}

while IFS= read -r header; do
  case $header in
    include/*)
      name=${header#include/}
      compile "$header" "$name" "${CC:-gcc}" -x c -std=c11 -pedantic "${c_flags[@]}"
      compile "$header" "$name" "${CC:-gcc}" -x c -std=c17 -pedantic "${c_flags[@]}"
      compile "$header" "$name" "${CXX:-g++}" -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror
      ;;
    *)
      compile "$header" "$header" "${CC:-gcc}" -x c -std=c17 -D_GNU_SOURCE "${c_flags[@]}" \
        -Wno-unused-function
      ;;
  esac
done < <(scripts/files '*.h')
printf '%d compilations of headers, %d failed, %d headers skipped\n' "$count" "$failures" "$skipped"
[[ $failures -eq 0 ]]
