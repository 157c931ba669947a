// SPDX-License-Identifier: Apache-2.0
// The program ductile-worker: the library's code generator in a process of its own.
#include "ductile/function.h"

int main(int argc, char **argv) { return dt_worker_main(argc, argv); }
