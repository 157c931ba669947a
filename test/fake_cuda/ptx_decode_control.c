// SPDX-License-Identifier: Apache-2.0
// Decoders of control flow, calls, and instructions at which threads meet.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

static bool fail_form(ptx_reader_t *r) {
  return ptx_fail(r, r->statement.line, "\"%.*s\" in a form that is not simulated",
                  (int)r->statement.parts[0].n, r->statement.parts[0].at);
}

// ---- Branches ---------------------------------------------------------------------------------------

static bool decode_bra(ptx_reader_t *r) {
  (void)ptx_take(r, "uni");
  if (!ptx_count(r, 1, 1) || ptx_operand(r, 0)->kind != PTX_OP_NAME)
    return fail_form(r);
  ptx_insn_t *in = ptx_emit(r, ptx_exec_branch);
  in->flow = PTX_JUMP;
  ptx_refer(r, in, ptx_operand(r, 0)->name);
  return ptx_done(r);
}

static bool decode_brx(ptx_reader_t *r) {
  (void)ptx_take(r, "uni");
  if (!ptx_take(r, "idx") || !ptx_count(r, 2, 2))
    return fail_form(r);
  ptx_slice_t name = ptx_operand(r, 1)->name;
  for (uint32_t k = 0; k < r->n_lists; k++) {
    if (!ptx_same(r->lists[k].name, name))
      continue;
    int32_t index = ptx_source(r, ptx_operand(r, 0), PTX_U32);
    ptx_insn_t *in = ptx_emit(r, ptx_exec_branch_index);
    in->flow = PTX_JUMP;
    in->in[0] = index;
    in->extra = r->lists[k].list;
    return ptx_done(r);
  }
  return ptx_fail(r, r->statement.line, "no list of targets \"%.*s\"", (int)name.n, name.at);
}

static bool leave(ptx_reader_t *r, ptx_exec_t exec) {
  (void)ptx_take(r, "uni");
  if (r->statement.n)
    return fail_form(r);
  ptx_emit(r, exec)->flow = PTX_JUMP;
  return ptx_done(r);
}
static bool decode_ret(ptx_reader_t *r) {
  bool entry = r->module->functions[r->function].entry;
  if (!entry && !leave(r, ptx_exec_return))
    return false;
  if (entry)
    return leave(r, ptx_exec_exit);
  ptx_function_t *f = &r->module->functions[r->function];
  f->code[f->n_code - 1].extra = (uint32_t)f->return_slot;
  return true;
}
static bool decode_exit(ptx_reader_t *r) { return leave(r, ptx_exec_exit); }
static bool decode_trap(ptx_reader_t *r) { return leave(r, ptx_exec_trap); }

// ---- Calls ------------------------------------------------------------------------------------------

// Copies between one argument and one formal parameter, slot by slot.
static bool bind(ptx_reader_t *r, const ptx_operand_t *operand, const ptx_param_t *formal, bool in,
                 ptx_copy_t **list, uint32_t *n) {
  const ptx_symbol_t *symbol = operand->kind == PTX_OP_NAME ? ptx_param_at(r, operand) : NULL;
  int32_t actual;
  if (symbol && (symbol->slot < 0 || symbol->bytes != formal->bytes))
    return ptx_fail(r, r->statement.line, "\"%.*s\" does not fit \"%s\" of %u bytes",
                    (int)operand->name.n, operand->name.at, formal->name, formal->bytes);
  if (symbol)
    actual = symbol->slot;
  else
    actual =
        in ? ptx_source(r, operand, formal->bytes == 8 ? PTX_B64 : PTX_B32) : ptx_dest(r, operand);
  for (int32_t k = 0; k < (symbol ? formal->n_slots : 1); k++) {
    int32_t mine = actual < 0 ? actual : actual + k;
    ptx_copy_t *copy = PTX_GROW(*list, *n);
    *copy = in ? (ptx_copy_t){formal->slot + k, mine} : (ptx_copy_t){mine, formal->slot + k};
  }
  return !r->failed;
}

static bool bind_all(ptx_reader_t *r, const ptx_operand_t *list, const ptx_param_t *formals,
                     uint32_t n_formals, bool in, ptx_call_t *call) {
  uint32_t n = list ? list->n : 0;
  if (n != n_formals)
    return ptx_fail(r, r->statement.line, "%u %s, where the function has %u", n,
                    in ? "arguments" : "results", n_formals);
  for (uint32_t k = 0; k < n; k++)
    if (!bind(r, &r->statement.all[list->first + k], &formals[k], in, in ? &call->in : &call->out,
              in ? &call->n_in : &call->n_out))
      return false;
  return true;
}

// call (results), f, (arguments); each list may be missing.
static bool decode_call(ptx_reader_t *r) {
  (void)ptx_take(r, "uni");
  if (!ptx_count(r, 1, 3))
    return false;
  uint32_t at = 0, n = r->statement.n;
  const ptx_operand_t *results = NULL, *arguments = NULL;
  if (ptx_operand(r, at)->kind == PTX_OP_VECTOR && n > 1)
    results = ptx_operand(r, at++);
  const ptx_operand_t *callee = ptx_operand(r, at++);
  if (at < n && ptx_operand(r, at)->kind == PTX_OP_VECTOR)
    arguments = ptx_operand(r, at++);
  uint32_t function = ptx_find_function(r->module, callee->name);
  if (at != n || callee->kind != PTX_OP_NAME || function == PTX_NONE)
    return ptx_fail(r, r->statement.line, "a call of no function that is declared");
  const ptx_function_t *f = &r->module->functions[function];
  if (f->entry)
    return fail_form(r);
  uint32_t index = r->module->n_calls;
  ptx_call_t *call = PTX_GROW(r->module->calls, r->module->n_calls);
  call->function = function;
  if (!bind_all(r, results, f->results, f->n_results, false, call) ||
      !bind_all(r, arguments, f->params, f->n_params, true, call))
    return false;
  ptx_function_t *caller = &r->module->functions[r->function];
  uint32_t *slot = PTX_GROW(caller->callees, caller->n_callees);
  *slot = function;
  ptx_insn_t *in = ptx_emit(r, ptx_exec_call);
  in->flow = PTX_JUMP;
  in->extra = index;
  // The results are copied where the call comes back to.
  ptx_insn_t *back = ptx_emit(r, ptx_exec_results);
  back->extra = index;
  return ptx_done(r);
}

// ---- Meetings of a warp -------------------------------------------------------------------------------

static ptx_insn_t *emit_meeting(ptx_reader_t *r, ptx_exec_t exec, ptx_members_t members,
                                int32_t mask) {
  ptx_insn_t *in = ptx_emit(r, exec);
  in->flow = PTX_MEET;
  in->members = members;
  in->in[0] = mask;
  return in;
}

// shfl.sync.bfly.b32 d|p, a, b, c, members;
static bool decode_shfl(ptx_reader_t *r) {
  bool sync = ptx_take(r, "sync");
  int mode = ptx_take_one(r, "up down bfly idx");
  if (!sync || mode < 0 || !ptx_take(r, "b32") || !ptx_count(r, 5, 5))
    return fail_form(r);
  ptx_operand_t to = *ptx_operand(r, 0);
  int32_t out = ptx_dest(r, &to), source[4];
  to.name = to.second;
  int32_t valid = to.second.n ? ptx_dest(r, &to) : PTX_SINK;
  for (uint32_t k = 0; k < 4; k++)
    source[k] = ptx_source(r, ptx_operand(r, k + 1), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_shuffle, ptx_members_named, source[3]);
  in->mode = (uint8_t)mode;
  in->out[0] = out;
  in->out[1] = valid;
  memcpy(in->in + 1, source, 3 * sizeof(source[0]));
  return ptx_done(r);
}

static bool decode_vote(ptx_reader_t *r) {
  bool sync = ptx_take(r, "sync");
  int mode = ptx_take_one(r, "all any uni ballot");
  if (!sync || mode < 0 || ptx_take_one(r, "pred b32") < 0 || !ptx_count(r, 3, 3))
    return fail_form(r);
  ptx_operand_t of = *ptx_operand(r, 1);
  bool negated = of.negated;
  of.negated = false;
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, &of, PTX_PRED);
  int32_t members = ptx_source(r, ptx_operand(r, 2), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_vote, ptx_members_named, members);
  in->mode = (uint8_t)mode;
  in->in_not = negated ? 2 : 0;
  in->out[0] = out;
  in->in[1] = a;
  return ptx_done(r);
}

static bool decode_redux(ptx_reader_t *r) {
  bool sync = ptx_take(r, "sync");
  int action = ptx_take_one(r, "add min max and or xor");
  ptx_type_t type = ptx_take_type(r);
  bool fits = type == PTX_U32 || type == PTX_S32 || type == PTX_B32;
  if (!sync || action < 0 || !fits || !ptx_count(r, 3, 3))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0)), a = ptx_source(r, ptx_operand(r, 1), type);
  int32_t members = ptx_source(r, ptx_operand(r, 2), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_reduce, ptx_members_named, members);
  in->action = (uint8_t)action;
  in->type = (uint8_t)type;
  in->out[0] = out;
  in->in[1] = a;
  return ptx_done(r);
}

static bool decode_match(ptx_reader_t *r) {
  int mode = ptx_take_one(r, "any all");
  bool sync = ptx_take(r, "sync");
  ptx_type_t type = ptx_take_type(r);
  if (!sync || mode < 0 || (type != PTX_B32 && type != PTX_B64) || !ptx_count(r, 3, 3))
    return fail_form(r);
  ptx_operand_t to = *ptx_operand(r, 0);
  int32_t out = ptx_dest(r, &to), a = ptx_source(r, ptx_operand(r, 1), type);
  to.name = to.second;
  int32_t all = to.second.n ? ptx_dest(r, &to) : PTX_SINK;
  int32_t members = ptx_source(r, ptx_operand(r, 2), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_match, ptx_members_named, members);
  in->mode = (uint8_t)mode;
  in->type = (uint8_t)type;
  in->out[0] = out;
  in->out[1] = all;
  in->in[1] = a;
  return ptx_done(r);
}

// elect.sync d|p, members;
static bool decode_elect(ptx_reader_t *r) {
  if (!ptx_take(r, "sync") || !ptx_count(r, 2, 2))
    return fail_form(r);
  ptx_operand_t to = *ptx_operand(r, 0);
  int32_t out = ptx_dest(r, &to);
  to.name = to.second;
  if (to.second.n == 0)
    return fail_form(r);
  int32_t is = ptx_dest(r, &to), members = ptx_source(r, ptx_operand(r, 1), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_elect, ptx_members_named, members);
  in->out[0] = out;
  in->out[1] = is;
  return ptx_done(r);
}

static bool decode_activemask(ptx_reader_t *r) {
  if (!ptx_take(r, "b32") || !ptx_count(r, 1, 1))
    return fail_form(r);
  int32_t out = ptx_dest(r, ptx_operand(r, 0));
  ptx_emit(r, ptx_exec_active_mask)->out[0] = out;
  return ptx_done(r);
}

// ---- Barriers of a block ------------------------------------------------------------------------------

static bool decode_warp_sync(ptx_reader_t *r) {
  if (!ptx_take(r, "sync") || !ptx_count(r, 1, 1))
    return fail_form(r);
  int32_t members = ptx_source(r, ptx_operand(r, 0), PTX_B32);
  ptx_insn_t *in = emit_meeting(r, ptx_exec_warp_sync, ptx_members_named, members);
  in->anywhere = true; // lanes may come from different places
  return ptx_done(r);
}

// bar.sync is barrier.sync.aligned. in[0]: the barrier, in[1]: how many threads, in[2]: what is
// reduced. mode: 0 waits, 1 only arrives.
static bool decode_barrier_as(ptx_reader_t *r, bool aligned) {
  (void)ptx_take(r, "cta");
  aligned |= ptx_take(r, "aligned");
  int kind = ptx_take_one(r, "sync arrive red");
  int action = kind == 2 ? ptx_take_one(r, "popc and or") : -1;
  uint32_t red = kind == 2 ? 2 : 0;
  if (kind == 2)
    (void)ptx_take_one(r, "u32 pred");
  (void)ptx_take(r, "all");
  if (kind < 0 || (kind == 2 && action < 0) || !ptx_count(r, (kind == 1 ? 2u : 1u) + red, 2 + red))
    return fail_form(r);
  uint32_t at = kind == 2 ? 1 : 0, n = r->statement.n - red;
  int32_t out = kind == 2 ? ptx_dest(r, ptx_operand(r, 0)) : PTX_SINK;
  int32_t id = ptx_source(r, ptx_operand(r, at), PTX_U32);
  int32_t count = n == 2 ? ptx_source(r, ptx_operand(r, at + 1), PTX_U32) : 0, value = 0;
  bool negated = false;
  if (kind == 2) {
    ptx_operand_t of = *ptx_operand(r, at + n);
    negated = of.negated;
    of.negated = false;
    value = ptx_source(r, &of, PTX_PRED);
  }
  ptx_insn_t *in = ptx_emit(r, ptx_exec_barrier);
  in->flow = PTX_MEET;
  in->members = aligned ? ptx_members_alive : ptx_members_self;
  in->in[0] = id, in->in[1] = count, in->in[2] = value;
  in->in_not = negated ? 4 : 0;
  in->has_count = n == 2;
  in->mode = kind == 1;
  in->action = (uint8_t)(action + 1); // 0: none
  in->out[0] = out;
  return ptx_done(r);
}
static bool decode_bar(ptx_reader_t *r) {
  return ptx_take(r, "warp") ? decode_warp_sync(r) : decode_barrier_as(r, true);
}
// barrier.cluster.arrive and .wait
static bool decode_cluster(ptx_reader_t *r) {
  int kind = ptx_take_one(r, "arrive wait");
  bool aligned = ptx_take(r, "aligned");
  (void)ptx_take(r, kind == 0 ? "release" : "acquire");
  if (kind < 0 || r->statement.n)
    return fail_form(r);
  ptx_insn_t *in = ptx_emit(r, kind == 0 ? ptx_exec_cluster_arrive : ptx_exec_cluster_wait);
  in->flow = PTX_MEET;
  in->members = aligned ? ptx_members_alive : ptx_members_self;
  return ptx_done(r);
}
static bool decode_barrier(ptx_reader_t *r) {
  return ptx_take(r, "cluster") ? decode_cluster(r) : decode_barrier_as(r, false);
}

const ptx_opcode_t ptx_control_opcodes[] = {
    {"bra", decode_bra},     {"brx", decode_brx},         {"ret", decode_ret},
    {"exit", decode_exit},   {"trap", decode_trap},       {"call", decode_call},
    {"shfl", decode_shfl},   {"vote", decode_vote},       {"redux", decode_redux},
    {"match", decode_match}, {"elect", decode_elect},     {"activemask", decode_activemask},
    {"bar", decode_bar},     {"barrier", decode_barrier}, {NULL, NULL},
};
