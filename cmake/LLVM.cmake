# SPDX-License-Identifier: Apache-2.0
# LLVM 22 as the target dt_llvm (headers as system headers, the shared library). Without it
# DUCTILE_LLVM is switched off for this configuration: parts that need code generation are left out
# and nothing else changes. An older LLVM on the PATH is never taken.

# LLVM's archives, and what they need, so that nothing but the C library is wanted at run time. What
# LLVM can do with libxml2, Z3 or a terminal is never reached from the C API's code generation, so
# those are left out, and the linker would say if it were.
function(dt_static_llvm)
  set(components x86 nvptx passes irreader bitreader analysis target mc)
  execute_process(COMMAND "${DT_LLVM_CONFIG}" --link-static --libfiles ${components}
                  OUTPUT_VARIABLE files OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "DUCTILE_STATIC_LLVM: ${DT_LLVM_CONFIG} knows no static libraries")
  endif()
  separate_arguments(files)
  if(DUCTILE_STATIC_ZLIB)
    find_library(DT_LIBZ NAMES libz.a REQUIRED)
    find_library(DT_LIBZSTD NAMES libzstd.a REQUIRED)
  else()
    find_library(DT_LIBZ NAMES libz.so REQUIRED)
    find_library(DT_LIBZSTD NAMES libzstd.so REQUIRED)
  endif()
  target_link_libraries(dt_llvm INTERFACE -Wl,--start-group ${files} -Wl,--end-group
                        "${DT_LIBZ}" "${DT_LIBZSTD}" -l:libstdc++.a -static-libgcc dl m)
  # See backend_llvm/emit/statics.c.
  target_link_options(dt_llvm INTERFACE -Wl,--gc-sections -Wl,--exclude-libs,ALL
                      -Wl,--wrap=__cxa_atexit)
  message(STATUS "LLVM: ${dt_llvm_version}, its archives")
endfunction()

if(DUCTILE_LLVM AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  message(WARNING "Code is generated on x86-64 alone, and this is ${CMAKE_SYSTEM_PROCESSOR}: the LLVM backend is "
                  "left out.")
  set(DUCTILE_LLVM OFF)
endif()
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
    if(DUCTILE_STATIC_LLVM)
      dt_static_llvm()
    else()
      target_link_libraries(dt_llvm INTERFACE "${DT_LLVM_LIBRARY}")
      message(STATUS "LLVM: ${dt_llvm_version}, ${DT_LLVM_LIBRARY}")
    endif()
  else()
    message(WARNING "LLVM 22 was not found (scripts/deps installs it): the LLVM backend is left out.")
    set(DUCTILE_LLVM OFF)
  endif()
else()
  message(STATUS "LLVM: off")
endif()
