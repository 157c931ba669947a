// SPDX-License-Identifier: Apache-2.0
// Patterns of users: what to look for in graphs, and what to put in its place, both written as
// programs.
//
// A pattern is a program over wildcards, which are its in[]. It matches where a graph computes what
// the program would compute of the values that the wildcards then stand for. The library looks for
// such places, and traces the program on the values found, to see that it is so: ops, axes, modes,
// literals and sizes agree. Operands of commutative ops (add, mul, maximum, …) agree in either
// order. Broadcasting is no obstacle: wildcards of any rank match what programs of any rank did.
//
// All patterns of a point are looked for in one walk, behind the passes of that point. The walk
// goes from the graph's end to its beginning; at each node the patterns whose first output can be
// that node are tried by priority, then as they were added, and the first that matches takes the
// place. What a replacement made is not looked at again. Bodies of branches and loops are graphs of
// their own.
//
// Not part of ductile.h.
#ifndef DUCTILE_PATTERN_H
#define DUCTILE_PATTERN_H

#include "ductile/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Patterns -----------------------------------------------------------------------------------

// What a wildcard may stand for.
typedef enum dt_wildcard_kind_t {
  DT_WILDCARD_VALUE = 0, // any value
  // A number that the program wrote (dt_scalar); the wildcard has rank 0. At DT_POINT_TRACED also a
  // constant of one element, such as an exporter's epsilon: if the match is replaced,
  // dt_constant_update refuses that constant.
  DT_WILDCARD_LITERAL = 1,
  DT_WILDCARD_CONSTANT = 2, // a constant of the function (dt_constant)
} dt_wildcard_kind_t;

// A wildcard, in the order of the pattern's in[]. `name` is required; the rest is valid when
// zeroed. Everywhere the pattern uses it, it stands for one node.
typedef struct dt_wildcard_t {
  const char *name; // for dt_match_node and explanations; one that no other wildcard has
  dt_wildcard_kind_t kind;
  dt_dtype_t dtype;          // DT_DTYPE_NONE: any
  const char *same_dtype;    // a wildcard before this one, whose dtype it has; NULL: none
  bool ranked;               // it has `rank` dims; else any number of them
  uint32_t rank;             // of a ranked one
  const dt_dim_decl_t *dims; // `rank` entries, or NULL. Dims of one name have sizes known to be
                             // equal. is_static, min, max, multiple_of: known of the size
  bool (*accepts)(double number, void *closure); // which literals it stands for; NULL: all
} dt_wildcard_t;

// A pattern with its replacement. Runtimes that it was added to share it.
typedef struct dt_pattern dt_pattern_t;
// A place that matches, while a check or a replacement looks at it.
typedef struct dt_match dt_match_t;

// Looks at a match: NULL if it is to be replaced, else why not, for explanations; a text that lives
// until the next check. It may build nodes to find out, which are dropped. It makes no changes.
typedef const char *(*dt_match_check_fn_t)(dt_match_t *match, void *closure);
// Makes the replacement: in[] are the nodes that the wildcards stand for, out[] gets the values
// that take the outputs' places, of their dtypes and of sizes known to be equal. It only builds. If
// it fails, or a builder does, the match stays as it is, and the log channel `passes` says why.
typedef dt_status_t (*dt_replacement_fn_t)(dt_match_t *match, dt_trace_t *trace,
                                           const dt_value_t *in, dt_value_t *out, void *closure);

// `name`, `n_wildcards`, `wildcards` and `n_outputs` are required; the rest is valid when zeroed.
// Everything is copied.
typedef struct dt_pattern_options_t {
  uint32_t struct_size; // sizeof(dt_pattern_options_t); 0 is taken as the size of version 0.1
  int32_t priority;     // patterns that can begin at one node are tried lowest first
  const char *name;     // as a pass's: no pass of the runtime has it
  const char *identity; // as a pass's: another text is another pattern. NULL: the name
  dt_point_t point;     // 0: DT_POINT_BEFORE_DECOMPOSE. Not DT_POINT_FUSED
  uint32_t n_wildcards, n_outputs;
  // Bytes from one entry of `wildcards` to the next: sizeof(dt_wildcard_t). Bytes from one entry of
  // their `dims` to the next: sizeof(dt_dim_decl_t). 0 is taken as the size of the first version.
  uint32_t wildcard_size, dim_size;
  const dt_wildcard_t *wildcards;
  bool on_demand; // only for functions that name it (dt_function_options_t.passes)
  // Values inside of the match, which are no outputs, may be used outside of it, too; they are then
  // computed twice. Else such a place does not match. Literals and broadcasts are always free.
  bool shared;
  void (*closure_free)(void *closure); // called once when nothing can run the pattern any more
} dt_pattern_options_t;

// Makes a pattern. The program is traced on a sample, and has to record the same ops for every rank
// and dtype that its wildcards may have, but for broadcasts. It has at most 256 nodes. Each output
// is made of wildcards, and outputs have nodes or wildcards in common. `check` may be NULL. On
// failure *out is NULL and closure_free is not called: DT_E_ARGUMENT, DT_E_LIMIT, DT_E_NO_MEMORY,
// DT_E_UNSUPPORTED (checks, constants, updates, branches, loops, numbers from data, calls of users'
// ops), or what the program failed with. [any]
DT_API dt_status_t dt_pattern_create(dt_program_fn_t pattern, dt_replacement_fn_t replacement,
                                     dt_match_check_fn_t check, void *closure,
                                     const dt_pattern_options_t *options,
                                     dt_pattern_t **out) DT_MUST_USE;
// NULL allowed. Runtimes and functions that have the pattern keep it. [any]
DT_API void dt_pattern_release(dt_pattern_t *pattern);
// How many places it has replaced so far, in all compiles of all runtimes; 0 for NULL. [any]
DT_API uint64_t dt_pattern_count(const dt_pattern_t *pattern);

// Adds a pattern for functions that are made from then on. dt_runtime_remove_pass takes it out by
// its name. DT_E_ARGUMENT (NULL, a name that is taken), DT_E_STATE (in a pass), DT_E_NO_MEMORY.
// [any]
DT_API dt_status_t dt_runtime_add_pattern(dt_runtime_t *runtime, dt_pattern_t *pattern) DT_MUST_USE;
// The pattern of this name that functions made from then on have: one that was added, or one of the
// library's own, which docs/rewrites.md lists. *out is a share, released with dt_pattern_release;
// NULL on failure: DT_E_ARGUMENT (a NULL, no pattern of that name). [any]
DT_API dt_status_t dt_runtime_find_pattern(dt_runtime_t *runtime, const char *name,
                                           dt_pattern_t **out) DT_MUST_USE;

// ---- Matches ------------------------------------------------------------------------------------

// The graph that the match is in, to look at: changes are refused (DT_E_STATE). [external by match]
DT_API dt_rewriter_t *dt_match_rewriter(dt_match_t *match);
// The node that wildcard `name` stands for; the none value if there is no such wildcard.
// [external by match]
DT_API dt_value_t dt_match_node(dt_match_t *match, const char *name);
// The node that is output `index` of the pattern; the none value beyond the last.
// [external by match]
DT_API dt_value_t dt_match_output(dt_match_t *match, uint32_t index);
// The size that dims named `name` have here, for builders of the rewriter's trace. False if no
// wildcard has such a dim; *out is then the none size. [external by match]
DT_API bool dt_match_size(dt_match_t *match, const char *name, dt_sym_t *out);
// The number that literal wildcard `name` stands for. False if it is no literal; *out is then 0.
// [external by match]
DT_API bool dt_match_literal(dt_match_t *match, const char *name, double *out);

// ---- Explanations -------------------------------------------------------------------------------

// Where the pattern matches in the rewriter's graph as it is, and for the nearest misses, those
// with the most nodes that agree, which node did not and why: another op, dtype, axis, number or
// size, a use outside of the match, the check's refusal. Changes nothing, and replaces nothing.
// *out is released with dt_text_free. DT_E_ARGUMENT, DT_E_STATE (in a check or a replacement, or at
// DT_POINT_FUSED), DT_E_NO_MEMORY. [external by rewriter]
DT_API dt_status_t dt_pattern_explain(dt_pattern_t *pattern, dt_rewriter_t *rewriter,
                                      char **out) DT_MUST_USE;
// The same of the graph that the function traced for a call with these arguments, bodies included,
// as passes at DT_POINT_TRACED left it. DT_E_STATE if no call with such arguments was made, or in a
// pass. [any]
DT_API dt_status_t dt_pattern_explain_function(dt_pattern_t *pattern, dt_function_t *function,
                                               dt_tensor_t *const *inputs, uint32_t n_inputs,
                                               char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_PATTERN_H
