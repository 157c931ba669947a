// SPDX-License-Identifier: Apache-2.0
// Lowering of updates of arguments. The kernels that write arguments come last of all.
//
// In general the whole new value is made in a buffer of its own, and copied. If the new value is
// the argument with some elements replaced, only these are written: then it is a view of a scatter
// of a view … of the argument, and going from an element of the new value through all of these
// views ends at the same element of the argument. The values in between are made only if something
// else reads them.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

typedef struct revision_t {
  dt_node_id_t scatter;
  dt_lowered_t whole;    // the argument, as the scatter's value is read
  dt_buffer_id_t source; // its updates
} revision_t;

typedef DT_VEC(revision_t) revisions_t; // in the order in which they are made

// ---- Scatters that an update may consist of ------------------------------------------------------
// It shows elements of its input, as they are or their bits.
static bool shows(const dt_lowering_t *ctx, const dt_node_t *node) {
  return dt__op_info(node->op)->lower == DT_LOWER_view || dt__lower_is_alias(ctx, node);
}

static bool is_scatter(const dt_node_t *node) {
  return dt__op_info(node->op)->lower == DT_LOWER_scatter;
}

// What a chain of views and scatters starts from.
static dt_node_id_t base_of(const dt_lowering_t *ctx, dt_node_id_t id) {
  while (shows(ctx, dt__lower_node(ctx, id)) || is_scatter(dt__lower_node(ctx, id)))
    id = dt__lower_node(ctx, id)->inputs[0];
  return id;
}

void dt__lower_find_commits(dt_lowering_t *ctx) {
  for (uint32_t k = 0; k < ctx->graph->updates.len; k++) {
    const dt_graph_update_t *update = &ctx->graph->updates.items[k];
    dt_node_id_t base = base_of(ctx, update->value);
    if (dt__lower_node(ctx, base)->op != DT_OP_input ||
        dt__lower_node(ctx, base)->attrs->index != update->input)
      continue;
    for (dt_node_id_t id = update->value; id.id != base.id; id = dt__lower_node(ctx, id)->inputs[0])
      ctx->commits[id.id - 1] = is_scatter(dt__lower_node(ctx, id));
  }
}

// ---- Elements replaced ---------------------------------------------------------------------------
// The scatters that the new value consists of, the last one first.
static dt_status_t find_scatters(const dt_lowering_t *ctx, dt_node_id_t id, revisions_t *out) {
  while (shows(ctx, dt__lower_node(ctx, id)) || is_scatter(dt__lower_node(ctx, id))) {
    revision_t revision = {.scatter = id};
    if (ctx->commits[id.id - 1] && !DT_VEC_PUSH(ctx->arena, out, revision))
      return DT_NO_MEMORY();
    id = dt__lower_node(ctx, id)->inputs[0];
  }
  return NULL;
}

// The bitcast nearest to value `id` on the way to value `inner` that a kernel makes; or `inner`.
static dt_node_id_t nearest_made(const dt_lowering_t *ctx, dt_node_id_t id, dt_node_id_t inner) {
  while (id.id != inner.id &&
         (!dt__lower_is_alias(ctx, dt__lower_node(ctx, id)) || dt__lower_is_view(ctx, id)))
    id = dt__lower_node(ctx, id)->inputs[0];
  return id;
}

// Value `id` is read where value `from`, which it shows, lies in the argument: that is `inner`.
static dt_status_t read_through(dt_lowering_t *ctx, dt_node_id_t id, dt_node_id_t from,
                                const dt_lowered_t *inner, dt_lowered_t *out) {
  dt_sym_t index[DT_MAX_RANK];
  dt_node_id_t made = nearest_made(ctx, id, from);
  dt_lowered_t bits;
  if (made.id != from.id) {
    DT_TRY(read_through(ctx, dt__lower_node(ctx, made)->inputs[0], from, inner, &bits));
    inner = &bits;
  }
  *out = ctx->values[id.id - 1];
  dt__lower_substitute(ctx, inner, out->read.index, &out->read, index);
  uint32_t rank = dt__program_buffer(ctx->program, out->read.buffer)->rank;
  out->read.index = dt__exprs_copy(ctx->arena, index, rank);
  return out->read.index ? NULL : DT_NO_MEMORY();
}

// Each element is read from where it belongs.
static bool is_same_place(const dt_lowering_t *ctx, const dt_lowered_t *value) {
  for (uint32_t d = 0; d < value->rank; d++) {
    int64_t only = -1;
    bool first = dt__sym_is_const(ctx->env, value->read.index[d], &only) && only == 0;
    if (value->places[d].id ? value->read.index[d].id != value->places[d].id : !first)
      return false;
  }
  return true;
}

static dt_sym_t count_of(const dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_sym_t count = dt__sym_const(ctx->env, 1);
  for (uint32_t d = 0; d < node->rank; d++)
    count = dt__sym_mul(ctx->env, count, node->sizes[d]);
  return count;
}

// Whether the new value is the argument but for what the scatters replace; sets where they write.
static dt_status_t find_revisions(dt_lowering_t *ctx, const dt_graph_update_t *update,
                                  revisions_t *list, bool *out) {
  dt_node_id_t id = base_of(ctx, update->value);
  const dt_node_t *base = dt__lower_node(ctx, id), *value = dt__lower_node(ctx, update->value);
  dt_lowered_t at = ctx->values[id.id - 1], whole;
  *out = false;
  if (base->op != DT_OP_input || base->attrs->index != update->input || value->rank != base->rank)
    return NULL;
  DT_TRY(find_scatters(ctx, update->value, list));
  for (uint32_t k = list->len; k-- > 0;) {
    revision_t *revision = &list->items[k];
    dt_node_id_t operand = dt__lower_node(ctx, revision->scatter)->inputs[0];
    // Views are one to one, as they end where they began, if no number of elements is less.
    if (!dt__sym_known_eq(ctx->env, count_of(ctx, revision->scatter), count_of(ctx, update->value)))
      return NULL;
    DT_TRY(read_through(ctx, operand, id, &at, &revision->whole));
    at = revision->whole;
    id = revision->scatter;
  }
  DT_TRY(read_through(ctx, update->value, id, &at, &whole));
  *out = is_same_place(ctx, &whole);
  return dt__symenv_status(ctx->env);
}

// ---- Kernels -------------------------------------------------------------------------------------
// The value in a buffer of its own, so that the last kernels of all need not read what they write.
static dt_status_t own_source(dt_lowering_t *ctx, dt_node_id_t value, dt_buffer_id_t *out) {
  *out = dt__lower_own_buffer(ctx, value);
  if (out->id)
    return NULL;
  DT_TRY(dt__lower_temp(ctx, value, out));
  return dt__lower_copy(ctx, value, *out);
}

typedef struct written_t {
  bool revised;
  revisions_t revisions; // if so; the last one first
  dt_buffer_id_t source; // if not
} written_t;

static dt_status_t find_sources(dt_lowering_t *ctx, const dt_graph_update_t *update,
                                written_t *out) {
  DT_TRY(find_revisions(ctx, update, &out->revisions, &out->revised));
  if (!out->revised)
    return own_source(ctx, update->value, &out->source);
  for (uint32_t k = out->revisions.len; k-- > 0;) {
    revision_t *revision = &out->revisions.items[k];
    DT_TRY(own_source(ctx, dt__lower_node(ctx, revision->scatter)->inputs[2], &revision->source));
  }
  return NULL;
}

dt_status_t dt__lower_updates(dt_lowering_t *ctx) {
  uint32_t n = ctx->graph->updates.len;
  const dt_graph_update_t *updates = ctx->graph->updates.items;
  written_t *written = DT_ARENA_ARRAY(ctx->arena, written_t, n + 1);
  if (!written)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    DT_TRY(find_sources(ctx, &updates[k], &written[k]));
  for (uint32_t k = 0; k < n; k++) {
    if (!written[k].revised)
      DT_TRY(dt__lower_move(ctx, updates[k].value, written[k].source, ctx->inputs[updates[k].input],
                            "update"));
    for (uint32_t i = written[k].revised ? written[k].revisions.len : 0; i-- > 0;) {
      const revision_t *revision = &written[k].revisions.items[i];
      DT_TRY(dt__lower_revision(ctx, revision->scatter, &revision->whole, revision->source));
    }
  }
  return NULL;
}
