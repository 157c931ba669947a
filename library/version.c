// SPDX-License-Identifier: Apache-2.0
// Checks that the version in the public header is the project's; libductile's own file has no code,
// everything else comes from the parts.
#include "ductile/base.h"

_Static_assert(DT_VERSION_MAJOR == DT_PROJECT_MAJOR && DT_VERSION_MINOR == DT_PROJECT_MINOR &&
                   DT_VERSION_PATCH == DT_PROJECT_PATCH,
               "include/ductile/base.h and CMakeLists.txt name different versions");
