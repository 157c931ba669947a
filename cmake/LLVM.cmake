# SPDX-License-Identifier: Apache-2.0
# LLVM 22 as the target dt_llvm (headers as system headers, the shared library). Without it
# DUCTILE_LLVM is switched off for this configuration: parts that need code generation are left out
# and nothing else changes. An older LLVM on the PATH is never taken.

if(DUCTILE_LLVM)
  # A folder of LLVM's own CMake files may name another build; else Debian's versioned program.
  if(LLVM_DIR)
    find_program(DT_LLVM_CONFIG NAMES llvm-config-22 llvm-config
                 HINTS "${LLVM_DIR}/../../../bin" NO_DEFAULT_PATH)
  else()
    find_program(DT_LLVM_CONFIG NAMES llvm-config-22 HINTS /usr/lib/llvm-22/bin)
  endif()
  set(dt_llvm_version "")
  if(DT_LLVM_CONFIG)
    execute_process(COMMAND "${DT_LLVM_CONFIG}" --version OUTPUT_VARIABLE dt_llvm_version
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND "${DT_LLVM_CONFIG}" --includedir OUTPUT_VARIABLE DT_LLVM_INCLUDE_DIR
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND "${DT_LLVM_CONFIG}" --libdir OUTPUT_VARIABLE dt_llvm_libdir
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    find_library(DT_LLVM_LIBRARY NAMES LLVM-22 LLVM PATHS "${dt_llvm_libdir}" NO_DEFAULT_PATH)
  endif()
  if(dt_llvm_version MATCHES "^22\\." AND DT_LLVM_LIBRARY
     AND EXISTS "${DT_LLVM_INCLUDE_DIR}/llvm-c/Core.h")
    add_library(dt_llvm INTERFACE)
    target_include_directories(dt_llvm SYSTEM INTERFACE "${DT_LLVM_INCLUDE_DIR}")
    target_link_libraries(dt_llvm INTERFACE "${DT_LLVM_LIBRARY}")
    message(STATUS "LLVM: ${dt_llvm_version}, ${DT_LLVM_LIBRARY}")
  else()
    message(WARNING "LLVM 22 was not found (scripts/deps installs it): the LLVM backend is left out.")
    set(DUCTILE_LLVM OFF)
  endif()
else()
  message(STATUS "LLVM: off")
endif()
