#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files, mappings and threads of the library are asked for in runtime/base/system.c alone, where
# interrupted calls are made again and tests make the n-th fail. The worker's own process (its loop and
# its limits) may end at any call, and its host is tested for that. What is done about LLVM's statics
# runs while that is loaded, when nothing of ours can be called.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

calls='open|openat|openat2|fopen|fdopen|opendir|close|read|pread|readv|write|pwrite|writev|fsync'
calls+='|fdatasync|ftruncate|fallocate|stat|fstat|lstat|fstatat|rename|renameat|unlink|unlinkat|mkdir'
calls+='|mkdirat|flock|link|linkat|futimens|utimensat|readdir|mmap|mprotect|mremap|memfd_create|shm_open'
calls+='|pthread_create|thrd_create|mkstemp|tmpfile'
parts='runtime|symshape|lower|guards|fuse|backend_llvm|backend_cuda|cudagraphs|frontends|library'
# shellcheck disable=SC2016 # $0 is awk's
scripts/files '*.c' '*.h' '*.cpp' | grep -E "^($parts)/" | grep -vE '^(runtime/(base/system|compile/worker_(limits|serve))|backend_llvm/emit/statics)\.c$' |
  tr '\n' '\0' | xargs -0 -r awk -v calls="(^|[^A-Za-z0-9_.>*])($calls)\\\\(" '
  FNR == 1 { files++ }
  {
    line = $0
    sub(/\/\/.*/, "", line)
    if (line ~ calls) {
      printf "%s:%d: ask runtime/base/system.h instead: %s\n", FILENAME, FNR, $0
      failures++
    }
  }
  END {
    printf "%d files checked, %d calls of the system\n", files, failures
    exit failures > 0 || files < 100
  }'
