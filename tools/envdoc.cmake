# SPDX-License-Identifier: Apache-2.0
# docs/env.md, from the tables of parameters and log channels.
dt_add_program(envdoc SOURCES envdoc.c page.c PARTS exec)
if(DUCTILE_TESTS)
  dt_add_script_test(lint.envdoc COMMAND envdoc --check docs/env.md)
endif()
