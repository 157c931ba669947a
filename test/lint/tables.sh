#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tables.sh [ROOT]
# Tables agree with each other and with what is made of them: no row is missing, no cell has a
# value that says nothing where something is meant. What a compiler refuses anyhow is not asked.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

# cells TAG MACRO FILE: each row of the table as TAG and its cells, between tabs; texts keep quotes.
cells() {
  awk -v tag="$1" -v macro="$2" '
    index($0, macro "(") == 1 {
      row = substr($0, length(macro) + 2)
      sub(/\)[[:space:]]*$/, "", row)
      text = ""
      if (match(row, /"/)) { text = substr(row, RSTART); row = substr(row, 1, RSTART - 1) }
      gsub(/,[[:space:]]*/, "\t", row)
      print tag "\t" row text
    }' "$3"
}
# words TAG PATTERN FILE…: what PATTERN finds, each once, after TAG.
words() {
  local tag=$1 pattern=$2
  shift 2
  { grep -ohE "$pattern" "$@" || true; } | sort -u | sed "s/^/$tag\t/"
}

# All of fuse/ but the text of targets, which names no field.
mapfile -t readers < <(printf '%s\n' fuse/*.c | grep -vxF fuse/target.c)
{
  cells op OP lower/graph/ops.def
  cells scalar SCALAR_OP lower/graph/scalar_ops.def
  cells reduction REDUCTION lower/loop/reductions.def
  cells guard GUARD_KIND guards/guard_kinds.def
  cells field FIELD fuse/target.def
  cells text TEXT fuse/target.def
  cells matmul MATMUL fuse/matmul_rows.def
  cells random RG_OP test/conform/graphs/random_ops.def
  tr -d '"' <runtime/base/dtypes.def | cells dtype DTYPE -
  # Builders: prototypes, definitions, line macros.
  words proto '\<dt_[a-z0-9_]+\(dt_trace_t \*' include/ductile/trace*.h include/ductile/random.h | sed 's/(.*//'
  words defined '^[a-z].*\<dt_[a-z0-9_]+\(dt_trace_t \*' runtime/trace/*.c |
    sed -E 's/\t.*\<(dt_[a-z0-9_]+)\(.*/\t\1/'
  words line '^#define dt_[a-z0-9_]+\(trace' include/ductile/trace_lines.h |
    sed -E 's/#define (dt_[a-z0-9_]+)\(.*/\1/'
  # Rules and functions that cells name.
  words dtype_rule '^ +DTYPE_RULE\([a-z_]+' lower/graph/infer.h | sed 's/ *DTYPE_RULE(//'
  words shape_rule '^ +RULE\([a-z_]+' lower/graph/infer.h | sed 's/ *RULE(//'
  words made '\<DT_OP_[a-z0-9_]+\>' runtime/trace/*.c | sed 's/DT_OP_//'
  words eval '^dt_status_t dt__eval_[a-z0-9_]+\(' lower/graph/eval*.c |
    sed -E 's/dt_status_t dt__eval_([a-z0-9_]+)\(/\1/'
  words decompose '^dt_node_id_t dt__decompose_[a-z0-9_]+\(' lower/passes/*.c |
    sed -E 's/dt_node_id_t dt__decompose_([a-z0-9_]+)\(/\1/'
  words remedy '^static void remedy_[a-z_]+\(const remedy_t \*r\)' guards/remedy.c | sed -E 's/static void remedy_([a-z_]+)\(.*/\1/'
  words actual '^static void actual_[a-z_]+\(const explain_t' guards/explain.c |
    sed -E 's/static void actual_([a-z_]+)\(.*/\1/'
  words op_used '\<DT_OP_[a-z][a-z0-9_]*\>' lower/*/*.c runtime/trace/*.c | sed 's/DT_OP_//'
  words form '\<RG_FORM_[a-z_]+' test/conform/graphs/random_graph.h | sed 's/RG_FORM_//'
  # What reads a field of a target, and what tests say of ops.
  words asked '\<(m|k->m|emit|ctx)->target->[a-z0-9_]+' backend_llvm/emit/*.c backend_cuda/emit/*.c |
    sed 's/\t.*target->/\t/'
  words asked '\<out->(generator)' runtime/compile/codegen.c | sed 's/out->//'
  words asked '\<out->[a-z0-9_]+' backend_llvm/host/target.c | sed 's/out->//'
  words asked '\<target->[a-z0-9_]+' "${readers[@]}" fuse/target.h runtime/compile/pipeline.c \
    backend_llvm/{emit,units}/*.c backend_cuda/emit/*.c | sed 's/target->//'
  words reads '(->|\.)[a-z0-9_]+' "${readers[@]}" fuse/target.h backend_llvm/{emit,units,host}/*.c \
    backend_cuda/emit/*.c runtime/compile/*.c |
    sed -E 's/->|\.//'
  cat test/conform/cases*.c | tr '\n' ' ' |
    { grep -oE '\{ *"[a-z]+", +"[a-z0-9_]+", +"[^"]*", +T_[A-Z0-9]+' || true; } |
    sed -E 's/^\{ *"[a-z]+", +"([a-z0-9_]+)".*(T_[A-Z0-9]+)$/case\t\1:\2/' | sort -u
  words left_out '\<DT_OP_[a-z0-9_]+, "' test/conform/graphs/count_ops.c | sed -E 's/DT_OP_([a-z0-9_]+),.*/\1/'
} | awk -F '\t' -f test/lint/tables.awk
