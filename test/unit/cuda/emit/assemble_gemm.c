// SPDX-License-Identifier: Apache-2.0
// Has NVIDIA's assembler take the code of matrix products, of every element type, layout and what
// may follow, and of chains, for the oldest GPU and for a new one: it must be accepted, with
// nothing spilled from registers to memory. Attention by blocks of keys and products by groups of
// warps take all registers that a block may have, and the assembler fills them with what it moves
// ahead: what lives around their loops may be spilled, once a tile, but nothing in a loop that
// multiplies.
//
// usage: assemble_gemm PTXAS NVDISASM [TURN TURNS]
// (of its programs, those whose number leaves TURN)
#include "test/support/check.h"
#include "test/support/folder.h"

#include "test/unit/cuda/emit/chain_graph.h"
#include "test/unit/cuda/emit/gemm_graph.h"
#include "test/unit/cuda/emit/gpu_rig.h"
#include "test/unit/cuda/emit/sass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ptxas, *nvdisasm;
static char folder[FOLDER_BYTES]; // of what goes to them and comes from them
static uint32_t turn, turns = 1, programs;

typedef struct gpu_t {
  dt_cuda_model_t model;
  const char *arch;
} gpu_t;

static const gpu_t gpus[] = {{{8, 0, 108, 163 << 10, 40 << 20}, "sm_80"},
                             {{9, 0, 132, 227 << 10, 50 << 20}, "sm_90a"}};

// All that a command says; the caller frees it.
static char *said_by(const char *command, int *out_status) {
  FILE *said = popen(command, "r");
  assert_non_null(said);
  size_t room = 1 << 16, n = 0, got;
  char *text = malloc(room);
  assert_non_null(text);
  while ((got = fread(text + n, 1, room - n - 1, said)) > 0) {
    n += got;
    if (room - n == 1) {
      room *= 2;
      text = realloc(text, room);
      assert_non_null(text);
    }
  }
  text[n] = 0;
  *out_status = pclose(said);
  return text;
}

static void check_loops(const char *object, const char *arch, const char *what) {
  char command[512];
  int status;
  (void)snprintf(command, sizeof(command), "'%s' -c %s", nvdisasm, object);
  char *text = said_by(command, &status);
  assert_int_equal(status, 0);
  sass_loops_t loops = sass_loops(text);
  free(text);
  if (!loops.multiplying || loops.spilling)
    fail_msg("%s for %s: of %u loops that multiply %u spill", what, arch, loops.multiplying,
             loops.spilling);
}

// Whether the entry dt_kN, of number `entry`, has attention by blocks of keys, or products by
// groups of warps.
static bool may_spill(const gpu_rig_t *r, uint32_t entry) {
  for (uint32_t c = 0; c < r->map.n_codes; c++) {
    dt_code_origin_t from = r->map.origin_of_code[c];
    const dt_schedule_t *s = &r->program->kernels.items[from.kernel].schedules.items[from.schedule];
    if (r->map.entry_of_code[c] == entry && s->kind == DT_SCHEDULE_TEAM_MATMUL &&
        (s->team_matmul.keys || dt__matmul_for_groups(&s->team_matmul)))
      return true;
  }
  return false;
}

// The driver's linker takes PTX as code to be linked, where more is a call than in a whole program:
// the assembler says where products of groups of warps wait for each other for it
// (backend_cuda/emit/without_calls.c).
static void check_together(const char *path, const char *object, const char *arch,
                           const char *what) {
  char command[512];
  int status;
  (void)snprintf(command, sizeof(command), "'%s' -c -arch %s -v %s -o %s 2>&1", ptxas, arch, path,
                 object);
  char *text = said_by(command, &status), *loss = strstr(text, "Performance Loss");
  if (loss)
    loss[strcspn(loss, "\n")] = '\0';
  if (status || loss)
    fail_msg("%s for %s: status %d: %s", what, arch, status, loss ? loss : text);
  free(text);
}

// Fails the test with the assembler's words, or with the line that tells of spills: attention by
// blocks of keys and products by groups of warps may have them around their loops.
static void assemble(const gpu_rig_t *r, const char *arch, const char *what) {
  char path[FOLDER_BYTES + 16], object[FOLDER_BYTES + 16], command[512];
  int status;
  (void)snprintf(path, sizeof(path), "%s/code.ptx", folder);
  (void)snprintf(object, sizeof(object), "%s/code.o", folder);
  file_write(path, r->ptx, strlen(r->ptx));
  (void)snprintf(command, sizeof(command), "'%s' -arch %s -v %s -o %s 2>&1", ptxas, arch, path,
                 object);
  char *text = said_by(command, &status), *rest = text, *line, wrong[600] = "";
  bool spills = false, around = false;
  while ((line = strsep(&rest, "\n"))) {
    const char *entry = strstr(line, "entry function 'dt_k");
    if (entry)
      around = may_spill(r, (uint32_t)strtoul(strstr(entry, "dt_k") + 4, NULL, 10));
    bool own = strstr(line, "spill stores") && !strstr(line, " 0 bytes spill stores");
    spills = spills || own;
    if (((own && !around) || strstr(line, "error")) && !wrong[0])
      (void)snprintf(wrong, sizeof(wrong), "%s", line);
  }
  free(text);
  if (!status && !wrong[0] && spills)
    check_loops(object, arch, what);
  if (!status && strstr(arch, "90"))
    check_together(path, object, arch, what);
  if (status || wrong[0])
    fail_msg("%s for %s: status %d: %s", what, arch, status, wrong);
}

static void check_text(const char *graph, bool strict, const char *what) {
  if (programs++ % turns != turn)
    return;
  for (size_t g = 0; g < sizeof(gpus) / sizeof(gpus[0]); g++) {
    gpu_rig_t r;
    gpu_rig_open(&r, graph, &gpus[g].model, strict);
    assemble(&r, gpus[g].arch, what);
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

// The scan of loops, on code made up: one that spills, around and inside a loop that multiplies.
static void test_scan(void **state) {
  (void)state;
  char around[] = ".text.a:\n.L_x_1:\n STL [R1], R2 ;\n.L_x_2:\n HMMA R4, R8 ;\n"
                  " @P0 BRA `(.L_x_2) ;\n LDL R2, [R1] ;\n @P1 BRA `(.L_x_1) ;\n";
  char inside[] = ".text.a:\n.L_x_1:\n BRA `(.L_x_1) ;\n.text.b:\n.L_x_1:\n HMMA R4, R8 ;\n"
                  " LDL R2, [R1] ;\n @P0 BRA `(.L_x_1) ;\n";
  sass_loops_t loops = sass_loops(around);
  assert_int_equal(loops.multiplying, 1);
  assert_int_equal(loops.spilling, 0);
  loops = sass_loops(inside);
  assert_int_equal(loops.multiplying, 1);
  assert_int_equal(loops.spilling, 1);
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
      {.dtype = "f16", .heads = 12, .dim = 32, .masked = true},
      {.dtype = "f16", .heads = 2, .dim = 5},
      {.dtype = "bf16", .heads = 2, .dim = 64, .masked = true},
      {.dtype = "f32", .heads = 2, .dim = 32, .masked = true},
      {.dtype = "f16", .heads = 2, .dim = 64, .masked = true},
      {.dtype = "f16", .heads = 2, .dim = 64},
      {.dtype = "bf16", .heads = 12, .dim = 32, .masked = true},
      {.dtype = "f16", .heads = 16, .dim = 64, .queries = 1, .scaled = true},
      {.dtype = "f16", .heads = 16, .dim = 128, .queries = 1, .scaled = true},
      {.dtype = "bf16", .heads = 3, .dim = 80, .queries = 1, .masked = true, .chosen = true},
      {.dtype = "f16", .heads = 2, .dim = 128, .queries = 4, .masked = true, .scaled = true},
      {.dtype = "f16", .heads = 4, .dim = 32, .queries = 1}};
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
  if (argc != 3 && argc != 5)
    return 2;
  ptxas = argv[1];
  nvdisasm = argv[2];
  if (argc == 5) {
    turn = (uint32_t)strtoul(argv[3], NULL, 10);
    turns = (uint32_t)strtoul(argv[4], NULL, 10);
    if (turn >= turns)
      return 2;
    printf("turn %u of %u\n", turn, turns);
  }
  const struct CMUnitTest tests[] = {TEST(test_scan),     TEST(test_layouts), TEST(test_batches),
                                     TEST(test_followed), TEST(test_strict),  TEST(test_attention),
                                     TEST(test_rows)};
  folder_make(folder);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return folder_drop(folder) || failed;
}
