// SPDX-License-Identifier: Apache-2.0
// The target CPU in numbers: its name and features as LLVM sees them, vector width, caches, and the
// shape of the matrix template's register tile.
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/emit/llvm_compat.h"
#include "runtime/base/build.h"
#include "runtime/base/life.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_feature(const char *features, const char *name) {
  size_t len = strlen(name);
  for (const char *at = features; (at = strstr(at, name)) != NULL; at += len) {
    bool begins = at == features || at[-1] == ',';
    bool ends = at[len] == '\0' || at[len] == ',';
    if (begins && ends)
      return true;
  }
  return false;
}

static bool copy_text(char *to, size_t room, const char *from) {
  size_t bytes = strlen(from) + 1;
  if (bytes > room)
    return false;
  memcpy(to, from, bytes);
  return true;
}

static dt_status_t host_names(dt_target_t *out) {
  DT_TRY(dt__generator_enter());
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  dt_status_t status = NULL;
  if (!cpu || !features || !copy_text(out->cpu, sizeof(out->cpu), cpu) ||
      !copy_text(out->features, sizeof(out->features), features))
    status = DT_FAIL(DT_E_UNSUPPORTED, "the host CPU's name or features are too long");
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  dt__generator_leave();
  return status;
}

// CPUs that may be named instead of the host's: what their name implies, without asking LLVM.
typedef struct level_t {
  const char *cpu;
  uint32_t vector_bytes;
} level_t;
static const level_t levels[] = {{"x86-64-v2", 16}, {"x86-64-v3", 32}, {"x86-64-v4", 64}};

static dt_status_t named_level(const char *cpu, dt_target_t *out) {
  for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
    if (strcmp(levels[i].cpu, cpu) != 0)
      continue;
    (void)copy_text(out->cpu, sizeof(out->cpu), cpu);
    out->vector_bytes = levels[i].vector_bytes;
    out->fma = levels[i].vector_bytes >= 32;
    out->half_convert = levels[i].vector_bytes >= 32;
    return NULL;
  }
  return DT_FAIL(DT_E_ARGUMENT,
                 "CPU '%s' is not known; use x86-64-v2, x86-64-v3, x86-64-v4, or \"\" for the host",
                 cpu);
}

static int64_t cache_bytes(int name, int64_t otherwise) {
  long bytes = sysconf(name);
  return bytes > 0 ? (int64_t)bytes : otherwise;
}

// Rows times columns of accumulators, with room for the panel's vectors and one element of A.
// Columns are two vectors, so that each element of A is used twice.
static void matmul_shape(dt_target_t *out) {
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t lanes = out->vector_bytes / (i == 0 ? 4 : 8);
    out->matmul_width[i] = 2 * lanes;
    out->matmul_rows[i] = out->vector_registers == 32 ? 8 : 6;
  }
}

// Where LLVM is a part of the library that says the library's own build.
static dt_status_t name_generator(dt_target_t *out) {
  unsigned major = 0, minor = 0, patch = 0;
  union {
    void (*function)(unsigned *, unsigned *, unsigned *);
    void *address; // of one size wherever LLVM runs; ISO C has no cast for it
  } inside = {.function = LLVMGetVersion};
  dt_text_t text;
  bool shared = false;
  LLVMGetVersion(&major, &minor, &patch);
  dt__text_init(&text);
  dt__text_printf(&text, "LLVM %u.%u.%u ", major, minor, patch);
  dt__build_put(inside.address, &text, &shared);
  text.failed = false; // what has no build id has its version
  bool good = copy_text(out->generator, sizeof(out->generator), dt__text_str(&text));
  dt__text_fini(&text);
  return good ? NULL : DT_FAIL(DT_E_UNSUPPORTED, "the build of LLVM has too long a name");
}

dt_status_t dt__llvm_host_target(const char *cpu, uint32_t threads, dt_target_t *out) {
  *out = (dt_target_t){.device = DT_CPU, .threads = threads, .parameters = true};
  DT_TRY(name_generator(out));
  if (cpu && *cpu) {
    DT_TRY(named_level(cpu, out));
  } else {
    DT_TRY(host_names(out));
    const char *f = out->features;
    if (!has_feature(f, "+sse4.1"))
      return DT_FAIL(DT_E_UNSUPPORTED, "the host CPU '%s' has no SSE4.1", out->cpu);
    out->fma = has_feature(f, "+fma");
    out->half_convert = has_feature(f, "+f16c");
    bool wide = has_feature(f, "+avx512f") && has_feature(f, "+avx512vl") &&
                has_feature(f, "+avx512bw") && has_feature(f, "+avx512dq");
    bool middle = has_feature(f, "+avx2") && out->fma;
    out->vector_bytes = wide ? 64 : middle ? 32 : 16;
  }
  out->vector_registers = out->vector_bytes == 64 ? 32 : 16;
  out->masked_memory = out->vector_bytes == 64;
  out->l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  out->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  matmul_shape(out);
  return NULL;
}
