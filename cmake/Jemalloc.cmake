# SPDX-License-Identifier: Apache-2.0
# The heap behind runtime/base/memory.h:
#   private  the target dt_jemalloc, made by scripts/deps in .deps/jemalloc; its functions are named
#            dtje_malloc, dtje_free, …
#   system   the host's jemalloc, which takes the place of malloc once it is linked; no target
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
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
elseif(dt_jemalloc_kind STREQUAL "system")
  pkg_check_modules(DT_SYSTEM_JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
  target_link_libraries(dt_flags INTERFACE PkgConfig::DT_SYSTEM_JEMALLOC)
elseif(NOT dt_jemalloc_kind STREQUAL "off")
  message(FATAL_ERROR "DUCTILE_JEMALLOC is '${DUCTILE_JEMALLOC}'; it may be private, system or off.")
endif()
message(STATUS "jemalloc: ${dt_jemalloc_kind}")
