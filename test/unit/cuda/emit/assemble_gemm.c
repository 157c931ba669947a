// SPDX-License-Identifier: Apache-2.0
// Has NVIDIA's assembler take the code of matrix products, of every element type, layout and what
// may follow, and of chains, for the oldest GPU and for a new one: it must be accepted, with
// nothing spilled from registers to memory.
//
// usage: assemble_gemm PTXAS [TURN TURNS]   (of its programs, those whose number leaves TURN)
#include "test/support/check.h"

#include "test/unit/cuda/emit/chain_graph.h"
#include "test/unit/cuda/emit/gemm_graph.h"
#include "test/unit/cuda/emit/gpu_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *ptxas;
static uint32_t turn, turns = 1, programs;

typedef struct gpu_t {
  dt_cuda_model_t model;
  const char *arch;
} gpu_t;

static const gpu_t gpus[] = {{{8, 0, 108, 163 << 10, 40 << 20}, "sm_80"},
                             {{9, 0, 132, 227 << 10, 50 << 20}, "sm_90a"}};

// Fails the test with the assembler's words, or with the line that tells of spills.
static void assemble(const char *ptx, const char *arch, const char *what) {
  char path[] = "/tmp/ductile-gemm-XXXXXX", command[512], line[512];
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, ptx, strlen(ptx)), (ssize_t)strlen(ptx));
  (void)close(file);
  (void)snprintf(command, sizeof(command), "'%s' -arch %s -v %s -o /dev/null 2>&1", ptxas, arch,
                 path);
  FILE *said = popen(command, "r");
  assert_non_null(said);
  char wrong[600] = "";
  while (fgets(line, sizeof(line), said)) {
    bool spills = strstr(line, "spill stores") && !strstr(line, " 0 bytes spill stores");
    if ((spills || strstr(line, "error")) && !wrong[0])
      (void)snprintf(wrong, sizeof(wrong), "%s", line);
  }
  int status = pclose(said);
  (void)unlink(path);
  if (status || wrong[0])
    fail_msg("%s for %s: status %d: %s", what, arch, status, wrong);
}

static void check_text(const char *graph, bool strict, const char *what) {
  if (programs++ % turns != turn)
    return;
  for (size_t g = 0; g < sizeof(gpus) / sizeof(gpus[0]); g++) {
    gpu_rig_t r;
    gpu_rig_open(&r, graph, &gpus[g].model, strict);
    assemble(r.ptx, gpus[g].arch, what);
    gpu_rig_close(&r);
  }
}

static void check(const gemm_case_t *c) {
  char what[128];
  (void)snprintf(what, sizeof(what), "%s%s%s%s%s follow %d", c->dtype, c->a_turned ? " A'" : "",
                 c->b_turned ? " B'" : "", c->batched ? " batched" : "", c->strict ? " strict" : "",
                 (int)c->follow);
  dt_text_t text;
  check_text(gemm_graph(c, &text), c->strict, what);
  dt__text_fini(&text);
}

static void test_layouts(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i32"};
  for (uint32_t d = 0; d < 5; d++)
    for (int turned = 0; turned < 4; turned++)
      check(&(gemm_case_t){.dtype = dtypes[d], .a_turned = turned & 1, .b_turned = turned & 2});
}

static void test_batches(void **state) {
  (void)state;
  check(&(gemm_case_t){.dtype = "f32", .batched = true});
  check(&(gemm_case_t){.dtype = "f16", .batched = true, .b_turned = true});
}

static void test_followed(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f16"};
  for (uint32_t d = 0; d < 2; d++)
    for (int follow = GEMM_BIAS_GELU; follow <= GEMM_TWO_RESULTS; follow++)
      check(&(gemm_case_t){.dtype = dtypes[d], .follow = (gemm_follow_t)follow});
}

static void test_strict(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
  for (uint32_t d = 0; d < 4; d++)
    for (int turned = 0; turned < 4; turned++)
      check(&(gemm_case_t){.dtype = dtypes[d],
                           .a_turned = turned & 1,
                           .b_turned = turned & 2,
                           .batched = turned == 2,
                           .strict = true,
                           .follow = turned & 1 ? GEMM_BIAS_GELU : GEMM_NOTHING});
}

static void test_attention(void **state) {
  (void)state;
  static const attention_case_t cases[] = {
      {"f16", 12, 32, true}, {"f16", 2, 5, false}, {"bf16", 2, 64, true}, {"f32", 2, 32, true}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    dt_text_t text;
    check_text(attention_graph(&cases[i], &text), false, "attention");
    dt__text_fini(&text);
  }
}

static void test_rows(void **state) {
  (void)state;
  static const rows_case_t cases[] = {{"f16", ROWS_NORM_RESULT, 384, 1536, true},
                                      {"f16", ROWS_GATHERED_NORM, 384, 384, true},
                                      {"bf16", ROWS_NORM, 768, 1152, false},
                                      {"f32", ROWS_NORM, 384, 1536, true},
                                      {"f32", ROWS_SOFTMAX, 33, 70, false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    dt_text_t text;
    check_text(rows_graph(&cases[i], &text), false, "rows in front of a product");
    dt__text_fini(&text);
  }
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 4)
    return 2;
  ptxas = argv[1];
  if (argc == 4) {
    turn = (uint32_t)strtoul(argv[2], NULL, 10);
    turns = (uint32_t)strtoul(argv[3], NULL, 10);
    if (turn >= turns)
      return 2;
    printf("turn %u of %u\n", turn, turns);
  }
  const struct CMUnitTest tests[] = {TEST(test_layouts), TEST(test_batches),   TEST(test_followed),
                                     TEST(test_strict),  TEST(test_attention), TEST(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
