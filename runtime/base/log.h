// SPDX-License-Identifier: Apache-2.0
// Log channels (channels.def), chosen by DUCTILE_LOG ("guards:2,recompiles,lower.fold:3", by
// prefix), and stage dumps chosen by DUCTILE_DUMP into DUCTILE_DUMP_DIR. Off costs one relaxed
// load. A line goes to stderr, or to the sink a program installs, in one write.
#ifndef DT_RUNTIME_BASE_LOG_H
#define DT_RUNTIME_BASE_LOG_H

#include "ductile/runtime.h"

#include <stdatomic.h>

typedef enum dt_channel_t {
#define CHANNEL(id, name, doc) DT_LOG_##id,
#include "runtime/base/channels.def"
  DT_LOG_COUNT
} dt_channel_t;

extern _Atomic uint8_t dt__log_levels[DT_LOG_COUNT];

// True when `channel` prints at `level` (1 = the ordinary level, higher = more). Code that stands
// in a file of its own (backend_llvm/jit) has functions of the library, but none of its data.
bool dt__log_asks(dt_channel_t channel, int level);
static inline bool dt__log_on(dt_channel_t channel, int level) {
#ifdef DT_APART
  return dt__log_asks(channel, level);
#else
  return atomic_load_explicit(&dt__log_levels[channel], memory_order_relaxed) >= level;
#endif
}
void dt__log_write(dt_channel_t channel, const char *fmt, ...) DT_PRINTF(2, 3);
#define DT_LOG(channel, level, ...)                                                                \
  do {                                                                                             \
    if (dt__log_on((channel), (level)))                                                            \
      dt__log_write((channel), __VA_ARGS__);                                                       \
  } while (0)

// dt_log_configure and dt_log_sink_set are of runtime.h: a name covers its channel and those below
// it ("lower" covers "lower.fold"), "all" covers every one.

// Applies DUCTILE_DUMP (stages separated by commas, or "all"; "" for none) and DUCTILE_DUMP_DIR.
dt_status_t dt__dump_configure(const char *stages, const char *folder) DT_MUST_USE;
// True when `stage` ("graph", "fused", "loops", "llvm", "guards", …) is dumped.
bool dt__dump_on(const char *stage);
// Writes `text` to <dir>/<function>.<variant>.<nn>-<stage>.dtt. Failures are logged, not returned.
void dt__dump(const char *function, uint32_t variant, uint32_t order, const char *stage,
              const char *text);
// Writes `text` to <folder>/<function>.<tail>.dtt, of the names what cannot leave the folder, which
// is made where it is missing. *out_path, made ready by the caller, is the file's; false: it was
// not written, which is logged.
struct dt_text_t;
bool dt__dump_file(const char *folder, const char *function, const char *tail, const char *text,
                   struct dt_text_t *out_path);

#endif // DT_RUNTIME_BASE_LOG_H
