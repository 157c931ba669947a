#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rules about text: the licence line, calls that a library must not make, leftover markers, stray
# white space.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failures=0
# report WHAT LINES: one finding for each line of LINES, which may be empty.
report() {
  local line
  [[ -n $2 ]] || return 0
  while IFS= read -r line; do
    printf '%s: %s\n' "$line" "$1"
    failures=$((failures + 1))
  done <<<"$2"
}
# Programs without a suffix are scripts.
programs() { scripts/files | grep -E '^(scripts|\.ci)/[^.]+$' || true; }

# Reads C and prints `file:line:code` with comments and the insides of strings left out.
code_of() {
  awk '
    FNR == 1 { in_comment = 0 }
    {
      line = $0
      out = ""
      while (line != "") {
        if (in_comment) {
          end = index(line, "*/")
          if (!end) break
          line = substr(line, end + 2)
          in_comment = 0
        } else if (match(line, /\/\/|\/\*|"|\047/)) {
          out = out substr(line, 1, RSTART - 1)
          mark = substr(line, RSTART, RLENGTH)
          line = substr(line, RSTART + RLENGTH)
          if (mark == "//") break
          if (mark == "/*") in_comment = 1
          else {
            # A literal: up to its closing quote on this line.
            pattern = mark == "\"" ? "^([^\"\\\\]|\\\\.)*\"" : "^([^\047\\\\]|\\\\.)*\047"
            if (match(line, pattern)) line = substr(line, RLENGTH + 1)
            else line = ""
            out = out mark mark
          }
        } else {
          out = out line
          break
        }
      }
      if (out !~ /^[[:space:]]*$/) print FILENAME ":" FNR ":" out
    }' "$@"
}

# ---- Licence line -------------------------------------------------------------------------------
while IFS= read -r file; do
  grep -qF 'SPDX-License-Identifier: Apache-2.0' <<<"$(head -n 2 "$file")" ||
    report 'no SPDX-License-Identifier in its first two lines' "$file"
done < <(
  scripts/files '*.c' '*.h' '*.sh' '*.py' '*.cmake' '*.map' CMakeLists.txt
  programs
)

# ---- Calls --------------------------------------------------------------------------------------
# The library: everything but programs and tests.
mapfile -t library < <(scripts/files '*.c' '*.h' | grep -E \
  '^(include|runtime|symshape|lower|guards|fuse|backend_(llvm|cuda)|cudagraphs|frontends|library)/')
code=$(code_of "${library[@]}")
# calls WORDS ALLOWED: lines of the library that call one of WORDS, in files other than ALLOWED.
calls() {
  grep -E "^[^:]+:[0-9]+:(.*[^A-Za-z0-9_.>])?($1)[[:space:]]*\\(" <<<"$code" | grep -vE "^($2):" || true
}
# What runs in the program ductile-worker alone may end that.
report 'ends the process' "$(calls 'abort|exit|_exit|_Exit|quick_exit|assert|longjmp|siglongjmp' \
  'runtime/compile/worker_(serve|limits)\.c')"
# One place may stop a build that checks our own invariants: the ranks of mutexes.
report 'ends the process' "$(calls '__builtin_trap' 'runtime/base/thread\.c')"
report 'reads the environment' "$(calls 'getenv|secure_getenv' 'runtime/base/params\.c')"
report 'goes around dt__alloc' "$(calls \
  'malloc|calloc|realloc|free|strn?dup|v?asprintf|aligned_alloc|posix_memalign' \
  'runtime/base/memory\.c')"
report 'has no bound' "$(calls 'strcpy|strcat|v?sprintf|gets|strtok|alloca' '')"

# ---- Markers and white space --------------------------------------------------------------------
mapfile -t texts < <(
  scripts/files '*.c' '*.h' '*.def' '*.sh' '*.py' '*.cmake' '*.map' '*.md' CMakeLists.txt '*.json' \
    .clang-format .clang-tidy
  programs
)
# The words are put together here so that this file does not find itself.
report 'leftover marker' "$(grep -nE "\\<(TO""DO|FIX""ME|XX""X|HA""CK|INTER""IM)\\>" "${texts[@]}" || true)"
report 'trailing white space' "$(grep -nE '[[:space:]]+$' "${texts[@]}" || true)"
report 'contains a tab' "$(grep -lE $'\t' "${texts[@]}" || true)"

# ---- Types --------------------------------------------------------------------------------------
# A dt_*_t of several files is one type: whoever looks for it finds one definition.
mapfile -t sources < <(scripts/files '*.c' '*.h')
report 'a type of this name is defined in another file, too' "$(awk '
  match($0, /^(typedef [^;{]*[ *]|typedef .*\} |\} )dt_[a-z0-9_]+_t(\[[^]]*\])?;/) ||
  match($0, /^typedef [^;{]*\(\*dt_[a-z0-9_]+_t\)/) {
    name = substr($0, RSTART, RLENGTH)
    sub(/(\[[^]]*\])?[;)].*$/, "", name)
    sub(/.*[ *]/, "", name)
    if (!(name in first)) first[name] = FILENAME
    else if (first[name] != FILENAME) print FILENAME ":" FNR ": " name " (" first[name] ")"
  }' "${sources[@]}")"

# ---- Width --------------------------------------------------------------------------------------
# clang-format leaves comments as they are, so that drawings stay whole. Rules of sections are free.
report 'goes beyond column 100' \
  "$(LC_ALL=C.UTF-8 grep -noP '^(?! *// ----).{101,}' "${sources[@]}" || true)"

printf '%d texts and %d library files checked, %d findings\n' "${#texts[@]}" "${#library[@]}" \
  "$failures"
[[ $failures -eq 0 ]]
