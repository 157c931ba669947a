// SPDX-License-Identifier: Apache-2.0
// Texts that are no programs or graphs with control: each breaks one rule, and the verifier, or the
// reader, says which.
#include "test/support/check.h"

#include "lower/graph/graph.h"
#include "lower/loop/loop.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

typedef struct change_t {
  const char *from, *to; // the first place of `from`
  const char *says;      // "" where the text is fine
} change_t;

static char *changed(const char *text, const change_t *change) {
  size_t len = strlen(text), old = strlen(change->from), fresh = strlen(change->to);
  const char *at = strstr(text, change->from);
  char *made = calloc(1, len + fresh + 1);
  assert_non_null(at);
  assert_non_null(made);
  memcpy(made, text, (size_t)(at - text));
  memcpy(made + (at - text), change->to, fresh);
  memcpy(made + (at - text) + fresh, at + old, len - old - (size_t)(at - text));
  return made;
}

static void check(const char *text, const change_t *change, bool program) {
  char *own = changed(text, change);
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_scan_t scan;
  dt_program_t *loops = NULL;
  dt_graph_t *graph = NULL;
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, own, strlen(own), "text");
  dt_status_t status = program ? dt__program_parse(&arena, env, &scan, &loops)
                               : dt__graph_parse(&arena, env, &scan, &graph);
  if (!status)
    status = program ? dt__program_verify(loops) : dt__graph_verify(graph);
  const char *message = status ? dt_status_message(status) : "";
  if (change->says[0] ? !strstr(message, change->says) : status != NULL)
    fail_msg("'%s' for '%s': '%s'; expected '%s'", change->to, change->from, message, change->says);
  dt_status_free(status);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  free(own);
}

// ---- Programs -------------------------------------------------------------------------------------
static const char *const loop =
    "program {\n"
    "buffer b1 = input 0 i64[] strides []\n"
    "buffer b2 = state 1 bool[]\n"
    "buffer b3 = state 1 i64[]\n"
    "buffer b4 = temp i64[]\n"
    "buffer b5 = temp bool[]\n"
    "buffer b6 = output 0 i64[]\n"
    "kernel \"first\" { stage { v0 = load i64 b1[] store b3[] = v0 } }\n"
    "kernel \"test\" { stage { v0 = load i64 b1[] v1 = const i64 9 v2 = lt bool v0, v1 store b2[] "
    "= "
    "v2 } }\n"
    "kernel \"up\" section 1 { stage { v0 = load i64 b3[] v1 = add i64 v0, v0 store b4[] = v1 } }\n"
    "kernel \"again\" section 1 { stage { v0 = load i64 b4[] v1 = const i64 9 v2 = lt bool v0, v1 "
    "store "
    "b5[] = v2 } }\n"
    "kernel \"carry\" section 1 { stage { v0 = load i64 b4[] store b3[] = v0 } }\n"
    "kernel \"decide\" section 1 { stage { v0 = load bool b5[] store b2[] = v0 } }\n"
    "kernel \"last\" section 2 { stage { v0 = load i64 b3[] store b6[] = v0 } }\n"
    "outputs b6\n"
    "region while b2 sections 1 2\n"
    "}\n";

static void test_programs(void **state) {
  (void)state;
  static const change_t changes[] = {
      {"outputs b6", "outputs b6", ""},
      {"sections 1 2", "sections 0 2", "region 0: sections 0 to 2"},
      {"sections 1 2", "sections 2 2", "region 0: sections 2 to 2"},
      {"sections 1 2", "sections 1 9", "kernel 6 comes after the state was handed on"},
      {"while b2", "while b3", "buffer 3, which is state, is no predicate of it"},
      {"while b2", "if b2", "buffer 2 is state of region 1 of 1"},
      {"while b2", "else b2", "buffer 2 is state of region 1 of 1"},
      {"state 1 i64", "state 2 i64", "buffer 3 is state of region 2 of 1"},
      {"state 1 bool", "temp bool", "buffer 2, which is temp, is no predicate of it"},
      {"kernel \"again\" section 1", "kernel \"again\" section 2", "its 3 kernels stand apart"},
      {"kernel \"last\" section 2", "kernel \"last\" section 7", ""},
      {"v0 = load i64 b3[] store b6", "v0 = load i64 b4[] store b6",
       "kernel 6 reads buffer 4, which region 0 writes"},
      {"v0 = load i64 b4[] store b3", "v0 = load i64 b3[] store b3",
       "kernel 4 hands on state and reads buffer 3"},
      {"v0 = load bool b5[] store b2[] = v0", "v0 = load bool b5[] store b5[] = v0",
       "region 0 never changes its predicate"},
      {"kernel \"test\" {", "kernel \"test\" section 2 {", ""},
      {"store b4[] = v1", "store b4[] = v1 store b6[] = v1", "kernel 2 of a region writes output"},
      {"region while b2 sections 1 2\n",
       "region while b2 sections 1 2\nregion if b5 sections 1 3\n",
       "region 1 lies over the end of region 0"},
      {"region while b2 sections 1 2\n",
       "region while b2 sections 1 2\nregion else b5 sections 1 2\n",
       "region 1 is an else without its if"},
  };
  for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
    check(loop, &changes[k], true);
}

// ---- Graphs ---------------------------------------------------------------------------------------
static const char *const branch = "graph (s0: [0, 1000], s1: [0, 1000]) {\n"
                                  "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                                  "  %2 = input \"flag\" bool[] strides [] contiguous\n"
                                  "  %3 = cond %2, %1 then {\n"
                                  "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                  "    %2 = neg %1 : f32[s0]\n"
                                  "    return %2\n"
                                  "  } else {\n"
                                  "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                  "    return %1\n"
                                  "  } : bool[]\n"
                                  "  %4 = result %3 {index = 0} : f32[s0]\n"
                                  "  return %4\n"
                                  "}\n";

static const char *const cases = "graph (s0: [0, 1000]) {\n"
                                 "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                                 "  %2 = input \"k\" u8[] strides [] contiguous\n"
                                 "  %3 = switch %2, %1 case {\n"
                                 "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                 "    %2 = neg %1 : f32[s0]\n"
                                 "    return %2\n"
                                 "  } case {\n"
                                 "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                 "    %2 = exp %1 : f32[s0]\n"
                                 "    return %2\n"
                                 "  } case {\n"
                                 "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                 "    return %1\n"
                                 "  } : bool[]\n"
                                 "  %4 = result %3 {index = 0} : f32[s0]\n"
                                 "  return %4\n"
                                 "}\n";

static void test_cases(void **state) {
  (void)state;
  static const change_t graphs[] = {
      {"return %4", "return %4", ""},
      {"switch %2, %1", "switch %1, %2", "the index must be one u8 of rank 0"},
      {"switch %2, %1", "switch %2", "case reads 1 operands, 0 are given"},
      {"switch %2, %1", "cond %2, %1", "expected 'then'"},
      {"index = 0", "index = 1", "there is no output 1 of 1"},
      {"    return %1\n", "    return\n", "the case 0 has 1 outputs, the case 2 has 0"},
      {"%2 = exp %1 : f32[s0]", "%2 = sum %1 {axes = [0], keepdims = 0} : f32[]",
       "output 0 of the case 0 is f32[s0], of the case 1 f32[]"},
  };
  for (size_t k = 0; k < sizeof(graphs) / sizeof(graphs[0]); k++)
    check(cases, &graphs[k], false);
  static const char *const program =
      "program {\n"
      "buffer b1 = input 0 u8[] strides []\n"
      "buffer b2 = state 0 u8[]\n"
      "buffer b3 = output 0 u8[]\n"
      "kernel \"a\" section 1 { stage { v0 = const u8 3 store b2[] = v0 } }\n"
      "kernel \"b\" section 2 { stage { v0 = load u8 b1[] store b2[] = v0 } }\n"
      "kernel \"last\" section 4 { stage { v0 = load u8 b2[] store b3[] = v0 } }\n"
      "outputs b3\n"
      "region case 0 of 3 b1 sections 1 2\n"
      "region case 1 of 3 b1 sections 2 3\n"
      "region case 2 of 3 b1 sections 3 4\n"
      "}\n";
  static const change_t programs[] = {
      {"outputs b3", "outputs b3", ""},
      {"case 1 of 3 b1", "case 1 of 3 b2", "region 0 is case 0 of 3 that are not side by side"},
      {"case 2 of 3 b1 sections 3 4", "case 2 of 4 b1 sections 3 4",
       "region 1 is case 1 of 3 that are not side by side"},
      {"case 0 of 3", "case 1 of 3", "region 0 is case 1 of 3 that are not side by side"},
      {"region case 2 of 3 b1 sections 3 4\n", "",
       "region 1 is case 1 of 3 that are not side by side"},
  };
  for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++)
    check(program, &programs[k], true);
}

static void test_graphs(void **state) {
  (void)state;
  static const change_t changes[] = {
      {"return %4", "return %4", ""},
      {"return %4", "return %3", "is no value but what `result` reads"},
      {"index = 0", "index = 1", "there is no output 1 of 1"},
      {"result %3", "result %1",
       "must be a cond, a switch, a while, an associative_scan, a call or an external"},
      {"cond %2, %1", "cond %1, %2", "the predicate must be one bool"},
      {"cond %2, %1", "cond %2", "then reads 1 operands, 0 are given"},
      {"cond %2, %1", "while %2, %1", "expected 'test'"},
      {"  } else {\n    %1 = input \"\" f32[s0]", "  } else {\n    %1 = input \"\" f64[s0]",
       "operand 0 of the call is f32[s0], of the else f64[s0]"},
      {"    return %1\n", "    return\n", "the then branch has 1 outputs, the else branch has 0"},
      {"%2 = neg %1 : f32[s0]", "%2 = sum %1 {axes = [0], keepdims = 1} : f32[1]", ""},
      {"%2 = neg %1 : f32[s0]", "%2 = sum %1 {axes = [0], keepdims = 0} : f32[]",
       "output 0 of the then branch is f32[], of the else branch f32[s0]"},
      {"    %2 = neg", "    %2 = constant \"c\" f32[1] key 3\n    %3 = neg", "constants, captures"},
      {"    %2 = neg %1", "    assert s0 <= 3 \"few\"\n    %2 = neg %1", "constants, captures"},
      {"    %2 = neg %1 : f32[s0]\n    return %2",
       "    %2 = nonzero %1 {syms = [s1]} : i64[s1, 1]\n    return %1", "nonzero binds a symbol"},
  };
  for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
    check(branch, &changes[k], false);
}

// ---- Calls ----------------------------------------------------------------------------------------
static const char *const calls = "graph (s0: [0, 100]) {\n"
                                 "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                                 "  %2 = input \"y\" f64[s0] strides [1] contiguous\n"
                                 "  %3 = call %1 body {\n"
                                 "    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                                 "    %2 = neg %1 : f32[s0]\n"
                                 "    return %2\n"
                                 "  } : bool[]\n"
                                 "  %4 = result %3 {index = 0} : f32[s0]\n"
                                 "  %5 = call %4 again %3 : bool[]\n"
                                 "  %6 = result %5 {index = 0} : f32[s0]\n"
                                 "  return %6\n"
                                 "}\n";

static void test_shared_bodies(void **state) {
  (void)state;
  static const change_t changes[] = {
      {"return %6", "return %6", ""},
      {"return %6", "return %5", "is no value but what `result` reads"},
      {"again %3", "again %1", "%1 is no call"},
      {"again %3", "again %5", "%5 is no call"},
      {"again %3", "again %0", "is no"},
      {"again %3", "", "expected 'body'"},
      {"call %4 again", "call %2 again", "operand 0 of the call is f64[s0], of the body f32[s0]"},
      {"call %4 again", "call %4, %4 again", "body reads 1 operands, 2 are given"},
      {"result %5 {index = 0}", "result %5 {index = 1}", "there is no output 1 of 1"},
  };
  for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
    check(calls, &changes[k], false);
}

// ---- Scans ----------------------------------------------------------------------------------------
static const char *const scan = "graph (s0: [0, 100]) {\n"
                                "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                                "  %2 = input \"y\" f32[s0] strides [1] contiguous\n"
                                "  %3 = input \"c\" f32[] strides [] contiguous\n"
                                "  %4 = associative_scan %1, %3 {axes = [0]} combine {\n"
                                "    %1 = input \"\" f32[] strides [] contiguous\n"
                                "    %2 = input \"\" f32[] strides [] contiguous\n"
                                "    %3 = input \"\" f32[] strides [] contiguous\n"
                                "    %4 = add %1, %2 : f32[]\n"
                                "    return %4\n"
                                "  } : bool[]\n"
                                "  %5 = result %4 {index = 0} : f32[s0]\n"
                                "  return %5\n"
                                "}\n";

static void test_scans(void **state) {
  (void)state;
  static const change_t changes[] = {
      {"return %5", "return %5", ""},
      {"return %5", "return %4", "is no value but what `result` reads"},
      {"axes = [0]", "axes = [1]", "axis"},
      {"scan %1, %3", "scan %1, %2", "combine reads argument 1 from outside, which has rank 1"},
      {"scan %1, %3", "scan %1", "combine reads 3 values, 2 are given"},
      {"return %4\n", "return\n", "combine gives 0 values of 2 operands"},
      {"index = 0", "index = 1", "there is no output 1 of 1"},
      {"combine", "then", "expected 'combine'"},
      {"%2 = input \"\" f32", "%2 = input \"\" i32", "add"},
      {"add %1, %2", "eq %1, %2", "eq gives bool of rank 0"},
      {"%4 = add %1, %2", "%4 = sum %1 {axes = []}", "cannot use `sum` of rank 0"},
      {"%4 = add %1, %2 : f32[]", "%4 = reshape %1 {syms = [1]} : f32[1]",
       "result 0 of combine is f32 of rank 1, expected one element of f32"},
      {"\"x\" f32[s0]", "\"x\" f16[s0]", "elements are joined in f32"},
      {"\"x\" f32[s0] strides [1]", "\"x\" f64[s0] strides [1]",
       "operand 0 of combine is f32 of rank 0, expected one element of f64"},
  };
  for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
    check(scan, &changes[k], false);
  static const char *const program = "program {\n"
                                     "symbol s0: [0, 100]\n"
                                     "buffer b1 = input 0 f32[s0] strides [1]\n"
                                     "buffer b2 = output 0 f32[s0]\n"
                                     "kernel \"scan\" { stage inner i1 < s0 {\n"
                                     "v0 = prior f32 r0 v1 = load f32 b1[i1] v2 = add f32 v0, v1\n"
                                     "store b2[i1] = v2\n"
                                     "reduce last f32 r0 = v2 }\n"
                                     "schedule serial lanes 1 unroll 1 block 1 grain 1 }\n"
                                     "outputs b2\n"
                                     "}\n";
  static const change_t programs[] = {
      {"outputs b2", "outputs b2", ""},
      {"prior f32 r0", "prior f32 r1", "v0: r1 is no reduction of this stage"},
      {"prior f32 r0", "prior i32 r0", "v0: r0 is f32, not i32"},
      {"reduce last", "reduce sum", "v0: r0 is not what an iteration leaves to the next"},
      {"schedule serial lanes 1 unroll 1 block 1", "schedule inner_lanes lanes 4 unroll 1 block 1",
       "takes loops apart that run in order"},
  };
  for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++)
    check(program, &programs[k], true);
}

RUN_TESTS(TEST(test_programs), TEST(test_graphs), TEST(test_shared_bodies), TEST(test_scans),
          TEST(test_cases))
