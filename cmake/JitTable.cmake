# SPDX-License-Identifier: Apache-2.0
# What libductile-jit.so and the library must agree on, made of the objects of both:
#   jit_core.def     CORE(name, index): functions of the library that the file's objects call
#   jit_identity.h   DT_JIT_IDENTITY: which build both are of
# Data of the library cannot be shared: what is not a function of it ends the build.
#   cmake -DNM=nm -DLLVM=22.1.0 -DJIT=a.a,b.a -DCORE=c.a,d.a -DOUT=folder -P JitTable.cmake
string(REPLACE "," ";" jit "${JIT}")
string(REPLACE "," ";" core "${CORE}")

# symbols(OUT ARCHIVES PATTERN): the names of those that nm lists with a type of the pattern.
function(symbols out archives pattern)
  execute_process(COMMAND "${NM}" -g ${archives} OUTPUT_VARIABLE listed RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "${NM} cannot list ${archives}")
  endif()
  string(REGEX MATCHALL " [${pattern}] dt_[A-Za-z0-9_]+" listed "${listed}")
  list(TRANSFORM listed REPLACE "^ . " "")
  list(REMOVE_DUPLICATES listed)
  list(SORT listed)
  set(${out} "${listed}" PARENT_SCOPE)
endfunction()

symbols(wanted "${jit}" U)
symbols(own "${jit}" TDBRWV)
symbols(functions "${core}" TW)
list(REMOVE_ITEM wanted ${own})
set(strange ${wanted})
list(REMOVE_ITEM strange ${functions})
if(strange)
  message(FATAL_ERROR "libductile-jit.so can have functions of the library and none of its data; it uses "
                      "what is no function: ${strange}")
endif()

set(table "/* Made by cmake/JitTable.cmake. */\n")
set(index 0)
foreach(name IN LISTS wanted)
  string(APPEND table "CORE(${name}, ${index})\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND table "#undef CORE\n")

set(sums "")
foreach(archive IN LISTS jit core)
  file(SHA256 "${archive}" sum)
  string(APPEND sums "${sum}")
endforeach()
string(SHA256 identity "${table}${sums}")
string(SUBSTRING "${identity}" 0 32 identity)

function(write name text)
  file(CONFIGURE OUTPUT "${OUT}/${name}" CONTENT "${text}" @ONLY)
endfunction()
write(jit_core.def "${table}")
write(jit_identity.h "/* Made by cmake/JitTable.cmake. */
#define DT_JIT_IDENTITY \"LLVM ${LLVM} ${identity}\"
")
