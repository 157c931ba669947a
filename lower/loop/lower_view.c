// SPDX-License-Identifier: Apache-2.0
// Views as index maps: from an index of the result to the index of its element in the input.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

// `at` is an index of the result, a dim each; `old` receives the input's.
typedef void (*view_fn_t)(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                          const dt_sym_t *at, dt_sym_t *old);

// ---- Reshape ------------------------------------------------------------------------------------
// Dims whose size is not the literal 1: the others have index 0 and take part in nothing.
typedef struct dims_t {
  uint32_t n;
  uint32_t dim[DT_MAX_RANK];
  dt_sym_t size[DT_MAX_RANK];
} dims_t;

static dims_t dims_of(dt_symenv_t *env, const dt_node_t *node) {
  dims_t dims = {0};
  for (uint32_t k = 0; k < node->rank; k++) {
    dt_sym_t size = dt__sym_simplify(env, node->sizes[k]);
    int64_t literal = 0;
    if (dt__sym_is_const(env, size, &literal) && literal == 1)
      continue;
    dims.dim[dims.n] = k;
    dims.size[dims.n++] = size;
  }
  return dims;
}

static dt_sym_t product(dt_symenv_t *env, const dt_sym_t *sizes, uint32_t n) {
  dt_sym_t made = dt__sym_const(env, 1);
  for (uint32_t k = 0; k < n; k++)
    made = dt__sym_mul(env, made, sizes[k]);
  return made;
}

// The smallest p, q >= 1 such that the first p sizes of `a` and the first q of `b` provably have
// one product; all that is left where nothing is provable.
static void match_group(dt_symenv_t *env, const dt_sym_t *a, uint32_t na, const dt_sym_t *b,
                        uint32_t nb, uint32_t *out_p, uint32_t *out_q) {
  for (uint32_t both = 2; both <= na + nb; both++)
    for (uint32_t p = 1; p < both && p <= na; p++) {
      uint32_t q = both - p;
      if (q > nb || !dt__sym_known_eq(env, product(env, a, p), product(env, b, q)))
        continue;
      *out_p = p;
      *out_q = q;
      return;
    }
  *out_p = na;
  *out_q = nb;
}

// The row-major position of index `at` among sizes `b`, as an index among sizes `a`. Only read
// where the sizes are not zero: elsewhere no element exists.
static void regroup(dt_symenv_t *env, const dt_sym_t *a, uint32_t p, dt_sym_t *old,
                    const dt_sym_t *b, uint32_t q, const dt_sym_t *at) {
  dt_sym_t linear = dt__sym_const(env, 0);
  for (uint32_t k = 0; k < q; k++)
    linear = dt__sym_add(env, dt__sym_mul(env, linear, b[k]), at[k]);
  for (uint32_t k = p; k-- > 0;) {
    if (k == 0) {
      old[0] = linear;
      return;
    }
    old[k] = dt__sym_mod(env, linear, a[k]);
    linear = dt__sym_floordiv(env, linear, a[k]);
  }
}

static void view_reshape(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                         const dt_sym_t *at, dt_sym_t *old) {
  dt_symenv_t *env = ctx->env;
  dims_t a = dims_of(env, in), b = dims_of(env, node);
  for (uint32_t k = 0; k < in->rank; k++)
    old[k] = dt__sym_const(env, 0);
  uint32_t i = 0, j = 0;
  while (i < a.n) {
    uint32_t p = a.n - i, q = b.n - j;
    if (q)
      match_group(env, a.size + i, p, b.size + j, q, &p, &q);
    dt_sym_t from[DT_MAX_RANK], to[DT_MAX_RANK];
    for (uint32_t k = 0; k < q; k++)
      from[k] = at[b.dim[j + k]];
    regroup(env, a.size + i, p, to, b.size + j, q, from);
    for (uint32_t k = 0; k < p; k++)
      old[a.dim[i + k]] = to[k];
    i += p;
    j += q;
  }
}

// ---- The others -----------------------------------------------------------------------------------
static void view_permute(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                         const dt_sym_t *at, dt_sym_t *old) {
  (void)ctx;
  for (uint32_t k = 0; k < in->rank; k++)
    old[node->attrs->axes[k]] = at[k];
}

// A dim that may or may not be repeated is decided by its size at run time.
static void view_expand(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                        const dt_sym_t *at, dt_sym_t *old) {
  dt_symenv_t *env = ctx->env;
  dt_sym_t zero = dt__sym_const(env, 0), one = dt__sym_const(env, 1);
  for (uint32_t k = 0; k < in->rank; k++) {
    if (dt__sym_known_eq(env, in->sizes[k], one))
      old[k] = zero;
    else if (dt__sym_known_eq(env, in->sizes[k], node->sizes[k]))
      old[k] = at[k];
    else
      old[k] = dt__sym_select(env, dt__sym_eq(env, in->sizes[k], one), zero, at[k]);
  }
}

static void view_slice(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                       const dt_sym_t *at, dt_sym_t *old) {
  dt_symenv_t *env = ctx->env;
  for (uint32_t k = 0; k < in->rank; k++) {
    dt_sym_t step = dt__sym_const(env, node->attrs->ints[k]);
    old[k] = dt__sym_add(env, node->attrs->syms[2 * k], dt__sym_mul(env, at[k], step));
  }
}

// Place and element of a window are one index.
static void view_window(dt_lowering_t *ctx, const dt_node_t *node, const dt_node_t *in,
                        const dt_sym_t *at, dt_sym_t *old) {
  dt_symenv_t *env = ctx->env;
  uint32_t n = node->attrs->n_axes, lead = in->rank - n;
  for (uint32_t k = 0; k < lead; k++)
    old[k] = at[k];
  for (uint32_t k = 0; k < n; k++) {
    const dt_sym_t *stride = &node->attrs->syms[4 * k + 2], *dilation = stride + 1;
    old[lead + k] = dt__sym_add(env, dt__sym_mul(env, at[lead + k], *stride),
                                dt__sym_mul(env, at[in->rank + k], *dilation));
  }
}

static const view_fn_t view_fns[DT_OP_COUNT] = {
    [DT_OP_reshape] = view_reshape, [DT_OP_permute] = view_permute, [DT_OP_expand] = view_expand,
    [DT_OP_slice] = view_slice,     [DT_OP_window] = view_window,
};

dt_status_t dt__lower_view(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  if (!view_fns[node->op])
    return DT_FAIL(DT_E_INTERNAL, "a view without an index map");
  dt_lowered_t *value = &ctx->values[id.id - 1];
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK], index[DT_MAX_RANK];
  DT_TRY(dt__lower_places(ctx, id, value, at));
  view_fns[node->op](ctx, node, in, at, old);
  dt__lower_substitute(ctx, &ctx->values[node->inputs[0].id - 1], old, &value->read, index);
  if (value->read.kind != DT_INST_LOAD)
    return NULL;
  value->read.index =
      dt__exprs_copy(ctx->arena, index, dt__program_buffer(ctx->program, value->read.buffer)->rank);
  if (!value->read.index)
    return DT_NO_MEMORY();
  return NULL;
}
