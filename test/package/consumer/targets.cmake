# SPDX-License-Identifier: Apache-2.0
# user.c as C11 and as C++17, with the library shared and in the program itself, as find_package and
# add_subdirectory name them.
foreach(kind IN ITEMS c cc)
  add_executable(user_${kind} "${CMAKE_CURRENT_LIST_DIR}/user.${kind}")
  target_link_libraries(user_${kind} PRIVATE Ductile::ductile)
  add_executable(user_static_${kind} "${CMAKE_CURRENT_LIST_DIR}/user.${kind}")
  target_link_libraries(user_static_${kind} PRIVATE Ductile::ductile_static)
endforeach()
