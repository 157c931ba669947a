// SPDX-License-Identifier: Apache-2.0
// See target.h. What a name or a machine stands for is a set of features; the numbers follow from
// the set. The shape of the matrix template's register tile is here, too.
#include "backend_llvm/host/target.h"

#include "backend_llvm/host/cpu.h"
#include "runtime/base/status.h"

#include <string.h>
#include <unistd.h>

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

static void measure(dt_cpu_set_t set, dt_target_t *out) {
  bool wide = dt__cpu_has(set, DT_CPU_avx512f) && dt__cpu_has(set, DT_CPU_avx512vl) &&
              dt__cpu_has(set, DT_CPU_avx512bw) && dt__cpu_has(set, DT_CPU_avx512dq);
  out->fma = dt__cpu_has(set, DT_CPU_fma);
  out->half_convert = dt__cpu_has(set, DT_CPU_f16c);
  out->vector_bytes = wide ? 64 : dt__cpu_has(set, DT_CPU_avx2) && out->fma ? 32 : 16;
  out->vector_registers = out->vector_bytes == 64 ? 32 : 16;
  bool at_once = dt__cpu_has(set, DT_CPU_avxvnni) ? out->vector_bytes <= 32 : false;
  at_once = at_once || (out->vector_bytes == 64 && dt__cpu_has(set, DT_CPU_avx512vnni));
  out->dot_products = at_once ? 2 : 1;
  out->byte_tables = wide && dt__cpu_has(set, DT_CPU_avx512vbmi);
  out->masked_memory = out->vector_bytes == 64;
  out->l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  out->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  matmul_shape(out);
}

// A level by its name, and what is beyond it by features.
static dt_status_t name_set(dt_cpu_set_t set, dt_target_t *out) {
  dt_cpu_set_t level = 0;
  dt_text_t text;
  const char *name = dt__cpu_level_within(set);
  (void)dt__cpu_level(name, &level);
  dt__text_init(&text);
  dt__cpu_print(set & ~level, "+", &text);
  dt_status_t status = dt__text_status(&text);
  if (!status && (text.len >= sizeof(out->features) || strlen(name) >= sizeof(out->cpu)))
    status = DT_FAIL(DT_E_INTERNAL, "the features of a CPU are too long");
  if (!status) {
    memcpy(out->features, dt__text_str(&text), text.len + 1);
    memcpy(out->cpu, name, strlen(name) + 1);
  }
  dt__text_fini(&text);
  return status;
}

static dt_status_t level_of(const char *cpu, dt_cpu_set_t *out) {
  if (dt__cpu_level(cpu, out) && dt__cpu_has(*out, DT_CPU_sse41))
    return NULL;
  return DT_FAIL(
      DT_E_ARGUMENT,
      "CPU '%s' is not known; use x86-64-v2, x86-64-v3, x86-64-v4, one of the last two with "
      "+vnni, or \"\" for the host",
      cpu);
}

dt_status_t dt__host_target(const char *cpu, uint32_t threads, dt_target_t *out) {
  dt_cpu_set_t set = 0;
  *out = (dt_target_t){.device = DT_CPU, .threads = threads, .parameters = true, .fast_conv = true};
  if (cpu && *cpu) {
    DT_TRY(level_of(cpu, &set));
  } else {
    set = dt__cpu_host();
    dt__cpu_model(out->tune, sizeof(out->tune));
  }
  measure(set, out);
  return name_set(set, out);
}

dt_status_t dt__host_runs(const char *cpu) {
  dt_cpu_set_t wanted = 0, missing = 0;
#ifdef __x86_64__
  if (!dt__cpu_has(dt__cpu_host(), DT_CPU_sse41))
    return DT_FAIL(DT_E_UNSUPPORTED, "this machine's CPU has no SSE4.1");
#endif
  if (!cpu || !*cpu)
    return NULL;
  DT_TRY(level_of(cpu, &wanted));
  missing = wanted & ~dt__cpu_host();
  if (!missing)
    return NULL;
  dt_text_t text;
  dt__text_init(&text);
  dt__cpu_print(missing, "", &text);
  dt_status_t status = DT_FAIL(DT_E_UNSUPPORTED, "DUCTILE_CPU is %s, but this machine lacks %s",
                               cpu, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}
