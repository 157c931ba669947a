# SPDX-License-Identifier: Apache-2.0
# The heap behind runtime/base/memory.h:
#   private  the target dt_jemalloc, made by scripts/deps in .deps/jemalloc; its functions are named
#            dtje_malloc, dtje_free, …
#   system   the process's malloc, which is expected to be jemalloc: programs of this build link the
#            system's, the library itself does not. A library cannot bring the malloc of the process
#            that loads it: of one that is linked in behind the C library, C++ would take its new and
#            delete, and leave malloc. Where the process has no jemalloc, it is as with `off`.
#   off      the C library's malloc; no target. Sanitizer builds always are, so that they see every
#            block.

set_property(CACHE DUCTILE_JEMALLOC PROPERTY STRINGS private system off)
set(dt_jemalloc_kind "${DUCTILE_JEMALLOC}")
if(DUCTILE_SANITIZE)
  set(dt_jemalloc_kind off)
endif()

if(dt_jemalloc_kind STREQUAL "private")
  set(dt_jemalloc_root "${PROJECT_SOURCE_DIR}/.deps/jemalloc")
  if(NOT EXISTS "${dt_jemalloc_root}/stamp")
    message(FATAL_ERROR "There is no private jemalloc in ${dt_jemalloc_root}: run scripts/deps, or "
                        "configure with -DDUCTILE_JEMALLOC=system or off.")
  endif()
  add_library(dt_jemalloc STATIC IMPORTED)
  set_target_properties(dt_jemalloc PROPERTIES
    IMPORTED_LOCATION "${dt_jemalloc_root}/lib/libjemalloc_pic.a"
    INTERFACE_INCLUDE_DIRECTORIES "${dt_jemalloc_root}/include"
    INTERFACE_COMPILE_DEFINITIONS "DUCTILE_JEMALLOC=1;DUCTILE_JEMALLOC_PREFIXED=1"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
elseif(dt_jemalloc_kind STREQUAL "system")
  pkg_check_modules(DT_SYSTEM_JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
  add_library(dt_jemalloc INTERFACE IMPORTED)
  target_include_directories(dt_jemalloc INTERFACE ${DT_SYSTEM_JEMALLOC_INCLUDE_DIRS})
  target_compile_definitions(dt_jemalloc INTERFACE DUCTILE_JEMALLOC=1 DUCTILE_JEMALLOC_SYSTEM=1)
  # Of every program, before the C library.
  add_link_options(
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:--push-state,--no-as-needed,${DT_SYSTEM_JEMALLOC_LINK_LIBRARIES},--pop-state>")
elseif(NOT dt_jemalloc_kind STREQUAL "off")
  message(FATAL_ERROR "DUCTILE_JEMALLOC is '${DUCTILE_JEMALLOC}'; it may be private, system or off.")
endif()
message(STATUS "jemalloc: ${dt_jemalloc_kind}")
