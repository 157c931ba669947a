// SPDX-License-Identifier: Apache-2.0
// ductile-opt --check: a graph over the arguments of a --DATA-- section, through the evaluator, the
// interpreter after every stage, and compiled code.
#ifndef DT_TOOLS_OPT_CHECK_H
#define DT_TOOLS_OPT_CHECK_H

#include "fuse/target.h"
#include "runtime/base/text.h"

// `data`: for each input of the graph, in order, a line
//   input (sizes) strides (strides) first F count N: B B B …
// where the N numbers behind the colon are the bits of the elements in memory, and F is the one at
// index 0. *out gets "right", or what was wrong, and after which stage.
dt_status_t opt_check(const char *graph, const char *data, const dt_target_t *target,
                      dt_text_t *out) DT_MUST_USE;

#endif // DT_TOOLS_OPT_CHECK_H
