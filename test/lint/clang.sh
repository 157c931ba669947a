#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library and its fuzzers compile with Clang, too, without a warning: continuous integration builds by
# GCC alone. The environment may set CLANG and DT_INCLUDES (LLVM's folder, where the build has it).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

clang=${CLANG:-clang-22}
command -v "$clang" >/dev/null || {
  printf 'SKIP: no %s\n' "$clang"
  exit 77
}
[[ -n ${DT_INCLUDES:-} ]] || {
  printf 'SKIP: a build without LLVM\n'
  exit 77
}
flags=(-std=c17 -D_GNU_SOURCE -DDT_HAVE_LLVM=1 -I. -Iinclude -isystem "$DT_INCLUDES" -Wall -Wextra -Wshadow
  -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-enum-float-conversion -fno-strict-aliasing
  -Werror -fsyntax-only)
# Three files need what a build makes for them.
mapfile -t sources < <(scripts/files '*.c' |
  grep -v -e '^\(bench\|examples\|python\|test\|tools\)/' -e '^backend_llvm/jit/\(core_table\|stubs\)\.c$' \
    -e '^library/version\.c$' && scripts/files '*.c' | grep -e '^test/\(fuzz\|support\)/')
"$clang" "${flags[@]}" "${sources[@]}"
printf '%d files\n' "${#sources[@]}"
