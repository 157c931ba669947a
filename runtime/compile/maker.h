// SPDX-License-Identifier: Apache-2.0
// Who made code that is kept: LLVM, whose library may be exchanged under ours. An entry says who
// made it, and is used if that is who would make it now, as far as it can be told without opening
// the code generator; where it cannot, that is opened and asked. Where there is none, nobody else
// would make it.
#ifndef DT_RUNTIME_COMPILE_MAKER_H
#define DT_RUNTIME_COMPILE_MAKER_H

#include "runtime/base/text.h"

struct dt_workers;

typedef struct dt_maker_t {
  dt_text_t jit;   // the code generator's file; "": it was in the program
  dt_text_t llvm;  // the file that LLVM is in
  dt_text_t build; // "LLVM 22.1.0 ", and that file's build id
} dt_maker_t;

void dt__maker_init(dt_maker_t *maker);
void dt__maker_fini(dt_maker_t *maker);
dt_status_t dt__maker_write(const dt_maker_t *maker, dt_text_t *out) DT_MUST_USE;
dt_status_t dt__maker_read(dt_scan_t *scan, dt_maker_t *out) DT_MUST_USE; // into one that is empty

// Whether code that `kept` made is what would be made now by `workers`, or, where there are none,
// by the code generator at `jit` (jit.h). On a compile thread.
bool dt__maker_would(const dt_maker_t *kept, struct dt_workers *workers, const char *jit);

#endif // DT_RUNTIME_COMPILE_MAKER_H
