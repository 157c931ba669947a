// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/symshape/sym_test.h"
int main(void){return 0;}
