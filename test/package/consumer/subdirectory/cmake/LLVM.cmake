# SPDX-License-Identifier: Apache-2.0
# A module of the user's of a name that the library has, too.
message(FATAL_ERROR "the library took a module of the project that it is in")
