# SPDX-License-Identifier: Apache-2.0
# How parts, tests and tools are declared. Each folder's CMakeLists.txt uses only these functions. What is set
# here is seen in this project alone: one that adds it by add_subdirectory keeps its own settings, and gets the
# library without command, tools, tests and installation.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Objects are listed by name (JitTable.cmake) and joined (libductile.a): each is its own, and machine code.
set(CMAKE_UNITY_BUILD OFF)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
get_property(dt_many_configs GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT dt_many_configs)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(DUCTILE_LLVM "Build the LLVM backend" ON)
option(DUCTILE_STATIC_LLVM "Link LLVM's archives: one folder that runs where no LLVM is" OFF)
option(DUCTILE_STATIC_ZLIB "Link the archives of zlib and zstd, too" ${DUCTILE_STATIC_LLVM})
option(DUCTILE_WERROR "Treat warnings as errors; the presets do" OFF)
option(DUCTILE_ONNXRUNTIME "Build the execution provider for onnxruntime" ${PROJECT_IS_TOP_LEVEL})
option(DUCTILE_COMMAND "Build the command ductile" ${PROJECT_IS_TOP_LEVEL})
option(DUCTILE_TOOLS "Build developers' tools, examples and benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(DUCTILE_TESTS "Build the tests, which need command and tools" ${PROJECT_IS_TOP_LEVEL})
option(DUCTILE_INSTALL "Install with this project" ${PROJECT_IS_TOP_LEVEL})
include(GNUInstallDirs)
set(DUCTILE_JITDIR "${CMAKE_INSTALL_LIBDIR}" CACHE STRING "Where libraries that are opened at run time are installed, from the prefix")
set(DUCTILE_SANITIZE "" CACHE STRING "Sanitizers for everything: address,undefined or thread")
if(DUCTILE_TESTS AND NOT (DUCTILE_COMMAND AND DUCTILE_TOOLS))
  message(FATAL_ERROR "DUCTILE_TESTS needs DUCTILE_COMMAND and DUCTILE_TOOLS")
endif()
# Where another project is the top, a private jemalloc is used if scripts/deps has made one.
set(dt_heap private)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT EXISTS "${PROJECT_SOURCE_DIR}/.deps/jemalloc/stamp")
  set(dt_heap off)
endif()
set(DUCTILE_JEMALLOC ${dt_heap} CACHE STRING "private | system | off")

# With LLVM's archives, tests and tools share one library of all parts (ductile_inside, which exports
# internal names) instead of linking a copy of LLVM each, and find it beside themselves.
set(dt_shares_inside OFF)
if(DUCTILE_STATIC_LLVM AND DUCTILE_TOOLS)
  set(dt_shares_inside ON)
endif()
if(dt_shares_inside)
  set(CMAKE_C_VISIBILITY_PRESET default)
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
else()
  set(CMAKE_C_VISIBILITY_PRESET hidden)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(dt_flags INTERFACE)
target_compile_options(dt_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
                                          -Wmissing-prototypes -Wvla -fno-strict-aliasing)
# Numbers with names are enumerators here, also where they meet floating-point ones.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  target_compile_options(dt_flags INTERFACE -Wno-enum-float-conversion)
endif()
if(DUCTILE_WERROR)
  target_compile_options(dt_flags INTERFACE -Werror)
endif()
if(DUCTILE_SANITIZE)
  target_compile_options(dt_flags INTERFACE -fsanitize=${DUCTILE_SANITIZE} -fno-omit-frame-pointer
                                            -fno-sanitize-recover=undefined)
  target_link_options(dt_flags INTERFACE -fsanitize=${DUCTILE_SANITIZE})
endif()
target_compile_definitions(dt_flags INTERFACE _GNU_SOURCE)
target_include_directories(dt_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")

# dt_add_folders(DIR…): subfolders in order; one without a CMakeLists.txt is skipped.
function(dt_add_folders)
  foreach(dir IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt")
      add_subdirectory(${dir})
    endif()
  endforeach()
endfunction()

# dt_add_part(NAME SOURCES … [PARTS …] [LIBS …] [APART] [SMALL]): static library dt_NAME, a layer of libductile;
# APART: of libductile-jit, which has functions of the other, but none of its data. SMALL: a line of it runs once a
# node, a file or a compile, so that a release has it at its smallest.
function(dt_add_part name)
  cmake_parse_arguments(ARG "APART;SMALL" "" "SOURCES;PARTS;LIBS" ${ARGN})
  add_library(dt_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_PARTS PREPEND dt_)
  target_link_libraries(dt_${name} PUBLIC dt_flags ${ARG_PARTS} ${ARG_LIBS} Threads::Threads m)
  if(ARG_SMALL)
    target_compile_options(dt_${name} PRIVATE $<$<CONFIG:Release>:-Os>)
  endif()
  if(ARG_APART)
    target_compile_definitions(dt_${name} PRIVATE DT_APART=1)
    set_property(GLOBAL APPEND PROPERTY DUCTILE_JIT_PARTS dt_${name})
  else()
    set_property(GLOBAL APPEND PROPERTY DUCTILE_PARTS dt_${name})
  endif()
endfunction()

# dt_link_parts(TARGET PARTS …): what a program that uses internal names links. The part test_support
# stands first: it is linked with those that come after it.
function(dt_link_parts target)
  cmake_parse_arguments(ARG "" "" "PARTS" ${ARGN})
  if("test_support" IN_LIST ARG_PARTS)
    list(REMOVE_ITEM ARG_PARTS test_support)
    target_link_libraries(${target} PRIVATE dt_test_support)
  endif()
  if(dt_shares_inside AND ARG_PARTS)
    target_link_libraries(${target} PRIVATE dt_flags ductile_inside)
    if("backend_llvm" IN_LIST ARG_PARTS)
      target_include_directories(${target} SYSTEM PRIVATE "${DT_LLVM_INCLUDE_DIR}")
    endif()
  else()
    list(TRANSFORM ARG_PARTS PREPEND dt_)
    target_link_libraries(${target} PRIVATE dt_flags ${ARG_PARTS})
  endif()
endfunction()

# How long a test may take. Tools that slow programs down want more (scripts/test-long valgrind).
set(DUCTILE_TEST_SECONDS 600 CACHE STRING "seconds after which a test has failed")

# dt_add_test_of(LABEL.PART.NAME TARGET [ARGS …] [TURN …]): a CTest entry of a program that there is, labelled
# with the first component of its name, that keeps no code on the disk. TURN: test/turn.sh's numbers.
function(dt_add_test_of name target)
  cmake_parse_arguments(ARG "" "" "ARGS;TURN" ${ARGN})
  if(ARG_TURN)
    list(PREPEND ARG_TURN "${PROJECT_SOURCE_DIR}/test/turn.sh")
    set(target $<TARGET_FILE:${target}>)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_TURN} ${target} ${ARG_ARGS} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  string(REGEX MATCH "^[^.]+" label ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${DUCTILE_TEST_SECONDS}
                                          ENVIRONMENT "DUCTILE_CACHE_DIR=")
endfunction()

# dt_add_test(LABEL.PART.NAME SOURCES … [PARTS …] [LIBS …] [ARGS …] [TURN …] [FAKE_CUDA]): a cmocka
# program with test/support and its CTest entry. FAKE_CUDA: it runs with the fake driver, and keeps
# no code on the disk.
function(dt_add_test name)
  cmake_parse_arguments(ARG "FAKE_CUDA" "" "SOURCES;PARTS;LIBS;ARGS;TURN" ${ARGN})
  string(REPLACE "." "_" target ${name})
  add_executable(${target} ${ARG_SOURCES})
  dt_link_parts(${target} PARTS test_support ${ARG_PARTS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} cmocka Threads::Threads m)
  dt_add_test_of(${name} ${target} ARGS ${ARG_ARGS} TURN ${ARG_TURN})
  if(ARG_FAKE_CUDA)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "DUCTILE_CUDA=$<TARGET_FILE:fake_cuda>;DUCTILE_CACHE_DIR=")
  endif()
endfunction()

# dt_add_script_test(LABEL.NAME COMMAND … [TIMEOUT SECONDS]): a test that is a program of the host.
# It may exit with 77 to say that it was skipped.
function(dt_add_script_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT ${DUCTILE_TEST_SECONDS})
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  string(REGEX MATCH "^[^.]+" label ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT}
                                          ENVIRONMENT "DUCTILE_CACHE_DIR=" SKIP_RETURN_CODE 77)
endfunction()

# dt_add_program(NAME SOURCES … [PARTS …] [LIBS …])
function(dt_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PARTS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  dt_link_parts(${name} PARTS ${ARG_PARTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} Threads::Threads m)
endfunction()
