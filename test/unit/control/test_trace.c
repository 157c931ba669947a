// SPDX-License-Identifier: Apache-2.0
// dt_cond, dt_while and dt_subgraph as a tracer sees them: what they refuse and how it reads, what
// becomes an operand, what a constant predicate leaves, what calls share, and that bodies keep
// their values to themselves.
#include "test/support/tensors.h"

#include "lower/graph/eval.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/trace/trace.h"

#include <string.h>

typedef dt_value_t v_t;

static const dt_input_decl_t declared[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                           {.name = "y", .dtype = DT_F32, .rank = 1},
                                           {.name = "flag", .dtype = DT_BOOL, .rank = 0},
                                           {.name = "k", .dtype = DT_I64, .rank = 0}};
enum { X, Y, FLAG, K };

typedef struct outside_t {
  v_t kept;       // what a body leaves behind for others
  v_t x, y, flag; // what a body reads of the outside
  dt_tensor_t *w; // a constant's
  int calls;
} outside_t;

static dt_status_t trace(dt_program_fn_t program, outside_t *outside, dt_tensor_t *const *example,
                         dt_traced_t **out) {
  dt_trace_request_t request = {.name = "model",
                                .program = program,
                                .closure = outside,
                                .n_inputs = 4,
                                .n_outputs = 1,
                                .inputs = declared,
                                .example = example};
  return dt__trace_run(&request, out);
}

// ---- Bodies -----------------------------------------------------------------------------------------
#define BODY(name, ...)                                                                            \
  static dt_status_t name(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {                 \
    outside_t *outside = closure;                                                                  \
    (void)t, (void)in, (void)out, (void)outside;                                                   \
    __VA_ARGS__;                                                                                   \
    return NULL;                                                                                   \
  }
BODY(same, out[0] = in[0])
BODY(nothing, )
BODY(negated, out[0] = dt_neg(t, in[0]))
BODY(as_f64, out[0] = dt_cast(t, in[0], DT_F64))
BODY(summed, out[0] = dt_sum(t, in[0], 0, NULL, false))
BODY(halved, out[0] = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_sym_const(t, 2), 1))
BODY(three, out[0] = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_sym_const(t, 3), 1))
BODY(reads_number, dt_sym_t n = dt_item(t, dt_cast(t, dt_sum(t, in[0], 0, NULL, false), DT_I64));
     out[0] = dt_full(t, DT_F32, 1, 1, &n))
BODY(selects, out[0] = dt_masked_select(t, in[0], dt_gt(t, in[0], dt_scalar(t, DT_F32, 0))))
BODY(finds, out[0] = dt_cast(t, dt_nonzero(t, in[0]), DT_F32))
BODY(repeats, out[0] = dt_repeat_interleave(t, in[0], dt_scalar(t, DT_I64, 2), 0);
     out[0] = dt_repeat_interleave(t, in[0], dt_cast(t, in[0], DT_I64), 0))
BODY(updates, dt_update(t, outside->x, in[0]); out[0] = in[0])
BODY(keeps, outside->kept = dt_exp(t, in[0]); out[0] = in[0])
BODY(uses_kept, out[0] = dt_neg(t, outside->kept))
BODY(gives_kept, out[0] = outside->kept)
BODY(closes_over, out[0] = dt_add(t, in[0], outside->y))
BODY(with_constant, out[0] = dt_add(t, in[0], dt_constant(t, "w", outside->w)))
BODY(disagrees, dt_cond(t, outside->flag, halved, three, closure, 2, in, 1, out))
BODY(sine, out[0] = dt_sin(t, in[0]))
BODY(less, out[0] = dt_lt(t, in[0], in[1]))
BODY(finite, out[0] = dt_all(t, dt_lt(t, in[0], in[1]), 0, NULL, false))
BODY(not_less, out[0] = dt_neg(t, in[0]))
BODY(up, out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1)))
BODY(fails, return DT_FAIL(DT_E_UNSUPPORTED, "not today"))
BODY(asks, outside->calls++;
     out[0] = dt_sym_true(t, dt_sym_lt(t, dt_dim(t, in[0], 0), dt_sym_const(t, 5)))
                  ? dt_neg(t, in[0])
                  : in[0])

BODY(counted, outside->calls++; out[0] = dt_add(t, in[0], in[1]))
BODY(counted_y, outside->calls++; out[0] = dt_add(t, in[0], outside->y))
BODY(counted_constant, outside->calls++; out[0] = dt_add(t, in[0], dt_constant(t, "w", outside->w)))
BODY(recurs, dt_subgraph(t, recurs, closure, 1, in, 1, 0, out))
BODY(recurs_by_branches,
     dt_cond(t, outside->flag, recurs_by_branches, same, closure, 1, in, 1, out))

static v_t subgraph_of(dt_trace_t *t, dt_branch_fn_t fn, void *closure, v_t a, v_t b) {
  const v_t in[2] = {a, b};
  v_t out;
  dt_subgraph(t, fn, closure, 2, in, 1, 0, &out);
  return out;
}

// ---- Refusals -----------------------------------------------------------------------------------------
// Each line fails; `c` calls dt_cond on x and y, `w` dt_while on k.
static v_t cond_of(dt_trace_t *t, v_t pred, dt_branch_fn_t a, dt_branch_fn_t b, const v_t *in,
                   void *closure) {
  v_t out;
  dt_cond(t, pred, a, b, closure, 2, in, 1, &out);
  return out;
}
static v_t switch_of(dt_trace_t *t, v_t index, uint32_t n, dt_branch_fn_t last, const v_t *in,
                     void *closure) {
  dt_branch_fn_t cases[70];
  for (uint32_t k = 0; k < 70; k++)
    cases[k] = k + 1 == n ? last : same;
  v_t out;
  dt_switch(t, index, n, cases, closure, 2, in, 1, &out);
  return out;
}
static v_t while_of(dt_trace_t *t, dt_branch_fn_t test, dt_branch_fn_t body, v_t init,
                    const v_t *captured, void *closure) {
  v_t out;
  dt_while(t, test, body, closure, 1, &init, 1, captured, &out);
  return out;
}

#define REFUSALS                                                                                   \
  R(pred_dtype, cond_of(t, in[K], same, same, in, w), DT_E_DTYPE,                                  \
    "cond: the predicate is i64 of rank 0; expected one bool")                                     \
  R(pred_rank, cond_of(t, dt_gt(t, in[X], in[X]), same, same, in, w), DT_E_SHAPE,                  \
    "cond: the predicate is bool of rank 1; expected one bool")                                    \
  R(pred_none, cond_of(t, (v_t){0}, same, same, in, w), DT_E_ARGUMENT,                             \
    "cond: the predicate is the none value")                                                       \
  R(no_branch, cond_of(t, in[FLAG], same, NULL, in, w), DT_E_ARGUMENT, "a function")               \
  R(unset, cond_of(t, in[FLAG], same, nothing, in, w), DT_E_ARGUMENT,                              \
    "output 0 of 1 was not set by else")                                                           \
  R(dtypes, cond_of(t, in[FLAG], same, as_f64, in, w), DT_E_DTYPE,                                 \
    "output 0 of the then branch is f32[s0], of the else branch f64[s0]")                          \
  R(ranks, cond_of(t, in[FLAG], same, summed, in, w), DT_E_SHAPE,                                  \
    "output 0 of the then branch is f32[s0], of the else branch f32[]")                            \
  R(sizes, cond_of(t, in[FLAG], same, disagrees, in, w), DT_E_SHAPE,                               \
    "output 0 of the then branch is f32[2], of the else branch f32[3]; branches must agree")       \
  R(item, cond_of(t, in[FLAG], same, reads_number, in, w), DT_E_STATE,                             \
    "item: a body of cond, switch, while or subgraph reads no number from data")                   \
  R(select, cond_of(t, in[FLAG], selects, same, in, w), DT_E_STATE, "masked_select: a body of")    \
  R(nonzero, cond_of(t, in[FLAG], finds, same, in, w), DT_E_STATE, "nonzero: a body of")           \
  R(repeat, cond_of(t, in[FLAG], repeats, same, in, w), DT_E_STATE, "repeat_interleave: a body")   \
  R(update, cond_of(t, in[FLAG], updates, same, in, w), DT_E_STATE,                                \
    "update: a body of cond, switch, while or subgraph updates no input")                          \
  R(leak, dt_neg(t, (cond_of(t, in[FLAG], keeps, same, in, w), w->kept)), DT_E_ARGUMENT,           \
    "was made in a body of cond, switch, while or subgraph that has ended")                        \
  R(cousin, cond_of(t, in[FLAG], keeps, uses_kept, in, w), DT_E_ARGUMENT,                          \
    "was made in a body of cond, switch, while or subgraph that has ended")                        \
  R(cousin_out, cond_of(t, in[FLAG], keeps, gives_kept, in, w), DT_E_ARGUMENT,                     \
    "was made in a body of cond, switch, while or subgraph that has ended")                        \
  R(inner, cond_of(t, in[FLAG], fails, same, in, w), DT_E_UNSUPPORTED, "not today")                \
  R(index_dtype, switch_of(t, dt_scalar(t, DT_F32, 1), 3, same, in, w), DT_E_DTYPE,                \
    "switch: the index is f32 of rank 0; expected one integer")                                    \
  R(index_rank, switch_of(t, dt_cast(t, in[X], DT_I64), 3, same, in, w), DT_E_SHAPE,               \
    "switch: the index is i64 of rank 1; expected one integer")                                    \
  R(index_none, switch_of(t, (v_t){0}, 3, same, in, w), DT_E_ARGUMENT, "switch: the index is the") \
  R(no_cases, switch_of(t, in[K], 0, same, in, w), DT_E_ARGUMENT, "switch: 0 cases; expected 1")   \
  R(many_cases, switch_of(t, in[K], 65, same, in, w), DT_E_ARGUMENT, "65 cases; expected 1 to 64") \
  R(no_case, switch_of(t, in[K], 4, NULL, in, w), DT_E_ARGUMENT, "switch: a function")             \
  R(case_dtype, switch_of(t, in[K], 4, as_f64, in, w), DT_E_DTYPE,                                 \
    "output 0 of the case 0 is f32[s0], of the case 3 f64[s0]; branches must agree")               \
  R(case_unset, switch_of(t, in[K], 4, nothing, in, w), DT_E_ARGUMENT,                             \
    "output 0 of 1 was not set by case")                                                           \
  R(test_dtype, while_of(t, not_less, up, in[K], &in[K], w), DT_E_DTYPE,                           \
    "while: the test must give one bool of rank 0")                                                \
  R(state_dtype, while_of(t, less, as_f64, in[K], &in[K], w), DT_E_DTYPE,                          \
    "state 0 of the body's result is f64[], of the loop i64[]; the state keeps its dtype")         \
  R(state_sizes, while_of(t, finite, halved, in[X], &in[X], w), DT_E_SHAPE,                        \
    "of the loop f32[s0]; the state keeps")                                                        \
  R(no_state, (dt_while(t, less, up, w, 0, NULL, 0, NULL, out), *in), DT_E_ARGUMENT,               \
    "while: no value would come out")                                                              \
  R(no_init, (dt_while(t, less, up, w, 1, NULL, 0, NULL, out), *in), DT_E_ARGUMENT,                \
    "while: the first state: no values")                                                           \
  R(no_operand, (dt_subgraph(t, same, w, 0, in, 1, 0, out), *in), DT_E_ARGUMENT,                   \
    "subgraph: a subgraph reads one operand at least")                                             \
  R(no_operands, (dt_subgraph(t, same, w, 1, NULL, 1, 0, out), *in), DT_E_ARGUMENT,                \
    "subgraph: an operand: no values")                                                             \
  R(no_result, (dt_subgraph(t, same, w, 1, in, 0, 0, out), *in), DT_E_ARGUMENT,                    \
    "subgraph: no value would come out")                                                           \
  R(no_memory, (dt_subgraph(t, same, w, 1, in, 1, 0, NULL), *in), DT_E_ARGUMENT,                   \
    "subgraph: the function or the memory")                                                        \
  R(no_function, subgraph_of(t, NULL, w, *in, *in), DT_E_ARGUMENT, "the function or the memory")   \
  R(many_operands, (dt_subgraph(t, same, w, UINT32_MAX, in, 1, 0, out), *in), DT_E_LIMIT,          \
    "more than 65536 values")                                                                      \
  R(many_results, (dt_subgraph(t, same, w, 1, in, UINT32_MAX, 0, out), *in), DT_E_LIMIT,           \
    "more than 65536 values")                                                                      \
  R(unknown_flag, (dt_subgraph(t, same, w, 1, in, 1, 4, out), *in), DT_E_UNSUPPORTED,              \
    "subgraph: the flags 0x4 are none that this version knows")                                    \
  R(none_given, subgraph_of(t, same, w, (v_t){0}, *in), DT_E_ARGUMENT, "an operand is the none")   \
  R(unset_output, subgraph_of(t, nothing, w, *in, *in), DT_E_ARGUMENT,                             \
    "output 0 of 1 was not set by body")                                                           \
  R(body_fails, subgraph_of(t, fails, w, *in, *in), DT_E_UNSUPPORTED, "not today")                 \
  R(body_updates, subgraph_of(t, updates, w, *in, *in), DT_E_STATE, "update: a body of")           \
  R(body_reads, subgraph_of(t, reads_number, w, *in, *in), DT_E_STATE, "item: a body of")          \
  R(kept_of_a_call, dt_neg(t, (subgraph_of(t, keeps, w, *in, *in), w->kept)), DT_E_ARGUMENT,       \
    "was made in a body of cond, switch, while or subgraph that has ended")                        \
  R(itself, subgraph_of(t, recurs, w, *in, *in), DT_E_LIMIT,                                       \
    "bodies in bodies, more than 32 deep: a body that runs itself has no end")                     \
  R(itself_in_branches, subgraph_of(t, recurs_by_branches, w, *in, *in), DT_E_LIMIT,               \
    "bodies in bodies, more than 32 deep")

#define R(name, call, code, says)                                                                  \
  static dt_status_t refused_##name(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {       \
    outside_t *w = closure;                                                                        \
    w->x = in[X];                                                                                  \
    w->flag = in[FLAG];                                                                            \
    v_t made = (call);                                                                             \
    (void)made;                                                                                    \
    assert_non_null(dt_trace_status(t));                                                           \
    assert_int_equal(dt_neg(t, in[X]).id, 0);                                                      \
    out[0] = in[X];                                                                                \
    return NULL;                                                                                   \
  }
REFUSALS
#undef R

typedef struct refusal_t {
  const char *name;
  dt_program_fn_t program;
  dt_code_t code;
  const char *says;
} refusal_t;
static const refusal_t refusals[] = {
#define R(name, call, code, says) {#name, refused_##name, code, says},
    REFUSALS
#undef R
};

static void test_refusals(void **state) {
  (void)state;
  const int64_t n = 4, k = 2;
  bool yes = true;
  rng_t rng = {3};
  dt_tensor_t *flag = tensor_empty(DT_BOOL, 0, NULL);
  memcpy(dt_tensor_data(flag), &yes, 1);
  dt_tensor_t *example[4] = {tensor_f32(&rng, 1, &n), tensor_f32(&rng, 1, &n), flag,
                             tensor_i64(0, NULL, &k)};
  for (size_t r = 0; r < sizeof(refusals) / sizeof(refusals[0]); r++) {
    outside_t outside = {.calls = 0};
    dt_traced_t *traced = NULL;
    dt_status_t status = trace(refusals[r].program, &outside, example, &traced);
    if (!status)
      fail_msg("%s is not refused", refusals[r].name);
    const char *message = dt_status_message(status);
    if (dt_status_code(status) != refusals[r].code || !strstr(message, refusals[r].says) ||
        !strstr(message, "test_trace.c:"))
      fail_msg("%s: %s\nexpected: %s", refusals[r].name, message, refusals[r].says);
    assert_null(traced);
    dt_status_free(status);
  }
  for (int i = 0; i < 4; i++)
    dt_tensor_release(example[i]);
}

// ---- Graphs -------------------------------------------------------------------------------------------
static void expect_graph(dt_program_fn_t program, outside_t *outside, const char *const *parts,
                         const char *const *absent) {
  dt_traced_t *traced = NULL;
  dt_text_t text;
  expect_ok(trace(program, outside, NULL, &traced));
  expect_ok(dt__graph_verify(traced->graph));
  dt__text_init(&text);
  dt__graph_print(traced->graph, &text);
  for (; *parts; parts++)
    if (!strstr(dt__text_str(&text), *parts))
      fail_msg("no '%s' in\n%s", *parts, dt__text_str(&text));
  for (; *absent; absent++)
    if (strstr(dt__text_str(&text), *absent))
      fail_msg("'%s' in\n%s", *absent, dt__text_str(&text));
  dt__text_fini(&text);
  dt__traced_destroy(traced);
}
#define NONE ((const char *const[]){NULL})

// A constant predicate leaves the branch taken, of which the other one is not even traced.
static dt_status_t constant_pred(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  v_t always = dt_scalar(t, DT_BOOL, outside->calls);
  dt_cond(t, always, sine, outside->calls ? fails : negated, closure, 1, in, 1, out);
  return NULL;
}
static void test_constant_predicate(void **state) {
  (void)state;
  outside_t outside = {.calls = 1};
  expect_graph(constant_pred, &outside, EACH_OF("= sin "), EACH_OF("cond", "neg"));
  outside.calls = 0;
  expect_graph(constant_pred, &outside, EACH_OF("= neg "), EACH_OF("cond", "sin"));
}

// And so does a constant index, which may be outside of the cases.
static dt_status_t constant_index(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  static const dt_branch_fn_t cases[] = {negated, sine, same};
  dt_branch_fn_t own[3];
  memcpy(own, cases, sizeof(own));
  for (int k = 0; k < 3; k++) // but for the one that is taken
    own[k] = k == (outside->calls < 0   ? 0
                   : outside->calls > 2 ? 2
                                        : outside->calls)
                 ? own[k]
                 : fails;
  dt_switch(t, dt_scalar(t, DT_I32, outside->calls), 3, own, closure, 1, in, 1, out);
  return NULL;
}
static void test_constant_index(void **state) {
  (void)state;
  static const char *const parts[] = {"= neg ", "= neg ", "= sin ", "return %1", "return %1"};
  for (int k = -1; k < 4; k++) {
    outside_t outside = {.calls = k};
    expect_graph(constant_index, &outside, EACH_OF(parts[k + 1]), EACH_OF("switch"));
  }
}

// What bodies read of the outside becomes an operand of both, once; what is not needed none.
static dt_status_t closing(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  outside->y = dt_exp(t, in[Y]);
  v_t both[2] = {in[X], dt_log(t, in[X])};
  dt_cond(t, in[FLAG], closes_over, negated, closure, 2, both, 1, out);
  return NULL;
}
static void test_operands(void **state) {
  (void)state;
  outside_t outside = {.calls = 0};
  expect_graph(closing, &outside,
               EACH_OF("%7 = cond %3, %1, %5 then {\n", "    %3 = add %1, %2 : f32[s0]\n",
                       "  } else {\n    %1 = input \"\" f32[s0] strides [1] contiguous\n"
                       "    %2 = input \"\" f32[s0] strides [1] contiguous\n"
                       "    %3 = neg %1 : f32[s0]\n    return %3\n  } : bool[]\n"
                       "  %8 = result %7 {index = 0} : f32[s0]\n"),
               NONE);
}

// A constant first read in a body is the program's, and the same one in other bodies and after.
static dt_status_t constants(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  v_t made;
  dt_cond(t, in[FLAG], with_constant, with_constant, closure, 1, in, 1, &made);
  dt_cond(t, in[FLAG], with_constant, same, closure, 1, &made, 1, &made);
  out[0] = dt_mul(t, made, dt_constant(t, "w", outside->w));
  return NULL;
}
static void test_constants(void **state) {
  (void)state;
  const int64_t n = 1;
  outside_t outside = {.w = tensor_full(2, 1, &n)};
  dt_traced_t *traced = NULL;
  expect_ok(trace(constants, &outside, NULL, &traced));
  expect_ok(dt__graph_verify(traced->graph));
  assert_int_equal(traced->constants.len, 1);
  assert_int_equal(traced->graph->controls.len, 2);
  for (uint32_t k = 0; k < 2; k++)
    assert_int_equal(traced->graph->controls.items[k].bodies[0]->constants.len, 0);
  dt__traced_destroy(traced);
  dt_tensor_release(outside.w);
}

// Questions about sizes in a body are the program's.
static dt_status_t asking(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_cond(t, in[FLAG], asks, same, closure, 1, in, 1, out);
  return NULL;
}
static void test_guards(void **state) {
  (void)state;
  const int64_t n = 3, k = 0;
  rng_t rng = {5};
  dt_tensor_t *flag = tensor_empty(DT_BOOL, 0, NULL);
  memset(dt_tensor_data(flag), 0, 1);
  dt_tensor_t *example[4] = {tensor_f32(&rng, 1, &n), tensor_f32(&rng, 1, &n), flag,
                             tensor_i64(0, NULL, &k)};
  outside_t outside = {.calls = 0};
  dt_traced_t *traced = NULL;
  expect_ok(trace(asking, &outside, example, &traced));
  assert_int_equal(outside.calls, 1);
  assert_int_equal(traced->conds.len, 1);
  dt__traced_destroy(traced);
  for (int i = 0; i < 4; i++)
    dt_tensor_release(example[i]);
}

// ---- Subgraphs ----------------------------------------------------------------------------------------
// What has a body of its own, and what has that of a call before.
BODY(calls_counted, out[0] = subgraph_of(t, counted, outside, in[0], in[0]))
static dt_status_t calling(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  static outside_t other;
  outside_t *outside = closure;
  v_t x = in[X], y = in[Y], made = subgraph_of(t, counted, outside, x, x);
  assert_int_equal(outside->calls, 1);
  made = subgraph_of(t, counted, outside, dt_neg(t, x), made);
  assert_int_equal(outside->calls, 1);
  v_t other_size = subgraph_of(t, counted, outside, y, y); // another symbol
  assert_int_equal(outside->calls, 2);
  dt_cond(t, in[FLAG], calls_counted, same, closure, 1, &made, 1, &made);
  assert_int_equal(outside->calls, 2);
  v_t f64 = dt_cast(t, x, DT_F64);
  (void)subgraph_of(t, counted, outside, f64, f64);
  assert_int_equal(outside->calls, 3);
  dt_value_t several[2] = {x, made};
  (void)subgraph_of(t, counted, &other, x, x);
  dt_subgraph(t, counted, outside, 2, several, 1, 0, several); // `in` is `out`
  assert_int_equal(outside->calls, 3);
  out[0] = dt_add(t, several[0], dt_sum(t, other_size, 0, NULL, false));
  return NULL;
}

static void test_subgraphs(void **state) {
  (void)state;
  outside_t outside = {.calls = 0};
  dt_traced_t *traced = NULL;
  expect_ok(trace(calling, &outside, NULL, &traced));
  expect_ok(dt__graph_verify(traced->graph));
  // Two calls, of y, in the branch and it, of f64, of the other closure, the last one.
  static const uint32_t same_as[] = {0, 1, 0, 1, 0, 0, 0, 1};
  assert_int_equal(traced->graph->controls.len, 8);
  for (uint32_t k = 0; k < 8; k++)
    assert_int_equal(traced->graph->controls.items[k].same, same_as[k]);
  const dt_graph_t *then = traced->graph->controls.items[4].bodies[0];
  assert_ptr_equal(then->controls.items[0].bodies[0], traced->graph->controls.items[0].bodies[0]);
  dt__traced_destroy(traced);
  outside.calls = 0;
  expect_graph(calling, &outside,
               EACH_OF("  %5 = call %1, %1 body {\n", " = call %7, %6 again %5 : bool[]\n"), NONE);
}

// What a body captured is what it was; an argument that was updated is read again. Constants that
// were made in a body serve outside of it.
BODY(calls_constant, dt_subgraph(t, counted_constant, closure, 1, in, 1, 0, out))
static dt_status_t capturing(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  v_t made = in[X];
  outside->y = in[Y];
  for (int k = 0; k < 3; k++)
    dt_subgraph(t, counted_y, closure, 1, &made, 1, 0, &made);
  dt_update(t, in[X], dt_neg(t, in[X])); // which the body did not capture
  dt_subgraph(t, counted_y, closure, 1, &made, 1, 0, &made);
  assert_int_equal(outside->calls, 1);
  dt_update(t, in[Y], dt_neg(t, in[Y]));
  dt_subgraph(t, counted_y, closure, 1, &made, 1, 0, &made);
  assert_int_equal(outside->calls, 2);
  dt_cond(t, in[FLAG], calls_constant, calls_constant, closure, 1, &made, 1, &made);
  dt_subgraph(t, counted_constant, closure, 1, &made, 1, 0, &made);
  assert_int_equal(outside->calls, 3);
  out[0] = made;
  return NULL;
}

static void test_captures(void **state) {
  (void)state;
  const int64_t one = 1, n = 3, k = 0;
  outside_t outside = {.w = tensor_full(2, 1, &one)};
  rng_t rng = {5};
  dt_tensor_t *flag = tensor_empty(DT_BOOL, 0, NULL);
  memset(dt_tensor_data(flag), 0, 1);
  dt_tensor_t *example[4] = {tensor_f32(&rng, 1, &n), tensor_f32(&rng, 1, &n), flag,
                             tensor_i64(0, NULL, &k)};
  dt_traced_t *traced = NULL;
  expect_ok(trace(capturing, &outside, example, &traced));
  expect_ok(dt__graph_verify(traced->graph));
  assert_int_equal(traced->constants.len, 1);
  dt__traced_destroy(traced);
  dt_tensor_release(outside.w);
  for (int i = 0; i < 4; i++)
    dt_tensor_release(example[i]);
}

// ---- The evaluator ------------------------------------------------------------------------------------
static dt_status_t counting(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t n = dt_scalar(t, DT_I64, 0);
  dt_while(t, less, up, closure, 1, &n, 1, &in[K], &n);
  out[0] = n;
  return NULL;
}
static void test_trip_limit(void **state) {
  (void)state;
  dt_traced_t *traced = NULL;
  outside_t outside = {.calls = 0};
  expect_ok(trace(counting, &outside, NULL, &traced));
  int64_t symbols[16] = {1, 1}, k = 7, size = 1, stride = 1;
  float x = 0;
  bool flag = false;
  dt_eval_arg_t args[4] = {
      {&x, &size, &stride}, {&x, &size, &stride}, {&flag, NULL, NULL}, {&k, NULL, NULL}};
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_eval_value_t out;
  dt_eval_options_t options = {.max_trips = 7};
  expect_ok(dt__graph_eval(traced->graph, symbols, args, &options, &arena, &out));
  assert_int_equal(out.data[0].i, 7);
  options.max_trips = 6;
  expect_told(dt__graph_eval(traced->graph, symbols, args, &options, &arena, &out), DT_E_LIMIT,
              "the loop has not ended after 6 trips");
  k = INT64_MAX;
  expect_told(dt__graph_eval(traced->graph, symbols, args, NULL, &arena, &out), DT_E_LIMIT,
              "the loop has not ended after 1048576 trips");
  dt__arena_fini(&arena);
  dt__traced_destroy(traced);
}

RUN_TESTS(TEST(test_refusals), TEST(test_constant_predicate), TEST(test_constant_index),
          TEST(test_operands), TEST(test_constants), TEST(test_guards), TEST(test_subgraphs),
          TEST(test_captures), TEST(test_trip_limit))
