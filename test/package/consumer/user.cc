// SPDX-License-Identifier: Apache-2.0
// The same as C++17.
#include "user.c"
