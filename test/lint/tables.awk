# SPDX-License-Identifier: Apache-2.0
# The rules of tables.sh, over the rows and words that it collects.
function bad(file, row, what) { printf "%s: %s: %s\n", file, row, what; failures++ }
function need(is, file, row, what) { checked++; if (!is) bad(file, row, what) }
function one_of(cell, list) { return index(" " list " ", " " cell " ") > 0 }
function has(flags, flag) { return flags ~ ("DT_OPF_" flag "($|[^A-Z])") }
function says(text) { return text ~ /^"."/ || length(text) > 2 }

BEGIN {
  OPS = "lower/graph/ops.def"; SCALARS = "lower/graph/scalar_ops.def"; REDUCTIONS = "lower/loop/reductions.def"
  GUARDS = "guards/guard_kinds.def"; TARGET = "fuse/target.def"; MATMULS = "fuse/matmul_rows.def"
  RANDOM = "test/conform/graphs/random_ops.def"; LINES = "include/ductile/trace_lines.h"
  # Operand dtypes of a scalar op and of random programs, by the dtype rule of the op.
  split("float_only F float_test F number N order N integer I logic B compare A where A same A attr A" \
        " gather A scatter A arg N search N iota N item I control N", pair, " ")
  for (i = 1; i in pair; i += 2) domain[pair[i]] = pair[i + 1]
  # The same in cases.c.
  split("float_only T_FLOAT number T_NUMBER order T_NUMBER integer T_INT logic T_BOOL compare T_ALL" \
        " arg T_NUMBER", pair, " ")
  for (i = 1; i in pair; i += 2) dtypes[pair[i]] = pair[i + 1]
  # Builders without a line of their own.
  no_line["dt_trace_at"] = "it takes the line"
  no_line["dt_trace_fail"] = "the message is the program's own, and says its place"
  no_line["dt_trace_goes_on"] = "it asks, and names no builder"
  no_line["dt_trace_recode"] = "it tells an earlier failure otherwise"
  # Instructions of random programs under another name than their op.
  split("size_value size nonzero_sum nonzero masked_sum masked_select", pair, " ")
  for (i = 1; i in pair; i += 2) { stands_for[pair[i]] = pair[i + 1]; instruction[pair[i + 1]] = pair[i] }
  # Instructions that do more than their op, or are none: what they do is arithmetic.
  split("masked_sum N branch N call_pair N", pair, " ")
  for (i = 1; i in pair; i += 2) own_domain[pair[i]] = pair[i + 1]
  # Ops that random programs have through others.
  split("reshape flatten window conv overlap_add conv_transpose result cond external call_flip", pair, " ")
  for (i = 1; i in pair; i += 2) through[pair[i]] = pair[i + 1]
}

$1 == "op" { op[++n_ops] = $0; rule[$2] = $5; arity[$2] = $3; lower[$2] = $8; build[$2] = $10 }
$1 == "scalar" { scalar[++n_scalars] = $0; is_scalar[$2] = 1 }
$1 == "reduction" { reduction[++n_reductions] = $0; reduced[$4] = $2 }
$1 == "guard" { guard[++n_guards] = $0 }
$1 == "field" || $1 == "text" { field[++n_fields] = $0; is_field[$1 == "text" ? $2 : $3] = 1 }
$1 == "matmul" { matmul[++n_matmuls] = $0; multiplied[$3, $4, $5] = 1 }
$1 == "random" { random[++n_random] = $0; tried[$2 in stands_for ? stands_for[$2] : $2] = 1 }
$1 == "dtype" { dtype[++n_dtypes] = $0 }
NF == 2 { set[$1, $2] = 1; list[$1, ++count[$1]] = $2 } # words

function check_flags(name, flags, shape, low) {
  need(has(flags, "LEAF") == (low == "leaf"), OPS, name, "LEAF is what is lowered as a leaf")
  need(has(flags, "VIEW") == (low == "view"), OPS, name, "VIEW is what is lowered as a view")
  need(has(flags, "REDUCE") == (shape == "reduce"), OPS, name, "REDUCE is what has the shape rule reduce")
  need(has(flags, "COMPOSITE") == (low == "none"), OPS, name, "COMPOSITE is what has no lowering")
  need(has(flags, "EW") == (shape == "same"), OPS, name, "EW is what has the shape rule same")
  need((arity[name] == 0) == has(flags, "LEAF"), OPS, name, "only a leaf has no operands")
}

# Some case, or one of floats and one of integers, has all dtypes that the op takes.
function check_cases(name, all,   some) {
  some = ("case", name ":" all) in set
  if (all == "T_NUMBER") some = some || (("case", name ":T_FLOAT") in set && ("case", name ":T_INT") in set)
  need(some, OPS, name, "no case of test/conform/cases*.c with " all)
}

function check_build(name, how, low,   proto, own) {
  proto = ("proto", "dt_" name) in set
  own = ("defined", "dt_" name) in set
  if (one_of(how, "unary binary reduce argreduce along")) {
    need(proto && !own, OPS, name, "build " how ": dt_" name " is declared and not written out")
    need(arity[name] == (how == "binary" ? 2 : 1), OPS, name, "build " how " of another arity")
    need((how == "argreduce") == (low == "argreduce"), OPS, name, "build " how " of what is lowered as " low)
    # Cases of the others are made from this table.
    if (how != "unary" && how != "reduce") check_cases(name, dtypes[rule[name]])
  } else if (how == "own") {
    need(own || (!proto && ("made", name) in set), OPS, name, "build own: nothing in runtime/trace makes it")
  } else {
    need(how == "none", OPS, name, "build " how " is not known")
    need(!proto && !(("made", name) in set), OPS, name, "build none: but there is a builder")
  }
}

function check_ops(   i, c, n) {
  for (i = 1; i <= n_ops; i++) {
    n = split(op[i], c, "\t")
    need(n == 13, OPS, c[2], n - 1 " cells")
    need(("dtype_rule", c[5]) in set && ("shape_rule", c[6]) in set, OPS, c[2], "rules " c[5] ", " c[6])
    check_flags(c[2], c[4], c[6], c[8])
    check_build(c[2], c[10], c[8])
    need(c[7] != "none" || c[8] != "none", OPS, c[2], "neither decomposed nor lowered")
    if (c[7] != "none") named["decompose", c[7]] = 1
    need(one_of(c[8], "ew part") == (c[2] in is_scalar), OPS, c[2],
         "lowered as ew or part is what scalar_ops.def has")
    need(c[9] == "ew" ? c[2] in is_scalar : ("eval", c[9]) in set, OPS, c[2],
         "eval " c[9] " is nowhere defined")
    need(!(one_of(c[8], "reduce argreduce") || c[6] == "associative_scan") || c[2] in reduced, OPS,
         c[2], "reductions.def has no reduction for it")
    need(says(c[13]), OPS, c[2], "no doc")
    need(c[2] in tried || ("left_out", c[2]) in set || c[10] == "none" || (c[2] in through &&
         through[c[2]] in tried), OPS, c[2], "no row" (c[2] in instruction ? \
         " " instruction[c[2]] : "") " of random_ops.def")
  }
  for (i = 1; i <= count["op_used"]; i++)
    need(list["op_used", i] in rule, OPS, list["op_used", i], "DT_OP_" list["op_used",
         i] " is named, and no row")
  for (i = 1; i <= count["decompose"]; i++)
    need(("decompose", list["decompose", i]) in named, OPS, list["decompose", i],
         "a decomposition that no row names")
}

function check_scalars(   i, c, r) {
  for (i = 1; i <= n_scalars; i++) {
    split(scalar[i], c, "\t")
    if (!(c[2] in rule)) { bad(SCALARS, c[2], "ops.def has no op of this name"); continue }
    r = rule[c[2]]
    need(c[3] == arity[c[2]], SCALARS, c[2], "arity " c[3] " of an op of " arity[c[2]])
    need(c[4] == domain[r], SCALARS, c[2], "domain " c[4] " of an op with the dtype rule " r)
    need(c[5] == (one_of(r, "compare order float_test") ? "BOOL" : "SAME"), SCALARS, c[2],
         "result " c[5] " of an op with the dtype rule " r)
    need(c[6] + 0 >= 1, SCALARS, c[2], "cost " c[6])
  }
}

function check_reductions(   i, c, joins) {
  split("add zero mul one maximum lowest minimum highest logical_or zero logical_and one gt lowest" \
        " lt highest NONE zero", pair, " ")
  for (i = 1; i in pair; i += 2) joins[pair[i]] = pair[i + 1]
  for (i = 1; i <= n_reductions; i++) {
    split(reduction[i], c, "\t")
    if (!(c[4] in rule)) { bad(REDUCTIONS, c[2], "ops.def has no op " c[4]); continue }
    need(c[3] ~ /^[a-z]+$/ && c[3] != "none", REDUCTIONS, c[2], "no name")
    need(c[6] == joins[c[5]], REDUCTIONS, c[2], "start " c[6] " of what is joined by " c[5])
    need((c[7] == "logic") == (rule[c[4]] == "logic"), REDUCTIONS, c[2],
         "takes " c[7] " for an op with the dtype rule " rule[c[4]])
    need((c[8] == "place") == (lower[c[4]] == "argreduce"), REDUCTIONS, c[2],
         "gives " c[8] " for what is lowered as " lower[c[4]])
    need((c[9] == "ordered") == one_of(c[5], "add mul"), REDUCTIONS, c[2],
         "order " c[9] " of what is joined by " c[5])
    need((c[7] == "any") == (c[5] == "NONE"), REDUCTIONS, c[2],
         "takes " c[7] " of what is joined by " c[5])
  }
}

function check_guards(   i, c, want, symbols) {
  for (i = 1; i <= n_guards; i++) {
    split(guard[i], c, "\t")
    want = c[7] ~ /sym\[at\] =[^=]/ ? "none" : c[7] ~ /sym\[other\]/ ? "both" : c[7] ~ /sym\[at\]/ ? \
         "at" : c[7] ~ /expression at/ ? "steps" : "none"
    need(says(c[7]), GUARDS, c[2], "no doc")
    need(c[4] == want, GUARDS, c[2], "reads " c[4] ", and its doc " want)
    need((c[3] == "0") == (c[5] == "never"), GUARDS, c[2], "can_fail " c[3] " with the remedy " c[5])
    need((c[3] == "0") <= (c[2] ~ /^bind_/), GUARDS, c[2], "only what binds cannot fail")
    need(("remedy", c[5]) in set && ("remedy", c[6]) in set, GUARDS, c[2],
         "remedy " c[5] ", " c[6] " is nowhere defined")
    is_guard[c[2]] = 1
    symbols = c[2] ~ /^symbols?_/ && c[5] != "general"
    need(c[6] == (symbols ? "number" : c[5]), GUARDS, c[2], "if_number " c[6])
    named["remedy", c[5]] = named["remedy", c[6]] = 1
  }
  for (i = 1; i <= count["actual"]; i++)
    need(list["actual", i] in is_guard, GUARDS, list["actual", i], "actual_" list["actual",
         i] " is for no row")
  for (i = 1; i <= count["remedy"]; i++)
    need(("remedy", list["remedy", i]) in named, GUARDS, list["remedy", i], "a remedy that no row names")
}

function check_target(   i, c, name, doc) {
  for (i = 1; i <= n_fields; i++) {
    split(field[i], c, "\t")
    name = c[1] == "text" ? c[2] : c[3]
    doc = c[4]
    need(says(doc), TARGET, name, "no doc")
    need(c[1] == "text" ? c[3] + 0 > 1 : one_of(c[2], "flag u32 i64 sizes bits place"), TARGET, name,
         "kind or bytes " c[2] " " c[3])
    need(("reads", name) in set, TARGET, name, "nothing reads it")
  }
  for (i = 1; i <= count["asked"]; i++)
    need(list["asked", i] in is_field || list["asked", i] == "host", TARGET, list["asked", i],
         "read, and no row")
}

function check_matmuls(   i, c, bytes) {
  for (i = 1; i <= n_dtypes; i++) {
    split(dtype[i], c, "\t")
    bytes[c[2]] = c[5]
  }
  for (i = 1; i <= n_matmuls; i++) {
    split(matmul[i], c, "\t")
    need(c[2] ~ /^[a-z0-9]+$/ && c[2] != "none", MATMULS, c[2], "no name")
    need(c[3] in bytes && c[4] in bytes && c[5] in bytes, MATMULS, c[2], "dtypes " c[3] ", " c[4] ", " c[5])
    need(c[6] == bytes[c[5]], MATMULS, c[2], "tile " c[6] " for sums of " c[5])
    need(c[7] + 0 >= 1, MATMULS, c[2], "k_step " c[7])
    need(c[9] != "none", MATMULS, c[2], "no body")
  }
  # Register tiles are of 4 and 8 bytes: numbers of that size have a template.
  for (i in bytes)
    if (bytes[i] == 4 || bytes[i] == 8)
      need((i, i, i) in multiplied, MATMULS, i, "no row has sums of it")
  need(("U8", "I8", "I32") in multiplied, MATMULS, "u8i8", "no row has sums of u8 times i8")
  need(("I8", "U8", "I32") in multiplied, MATMULS, "i8u8", "no row has sums of i8 times u8")
}

function check_random(   i, c, of) {
  for (i = 1; i <= n_random; i++) {
    split(random[i], c, "\t")
    of = c[2] in stands_for ? stands_for[c[2]] : c[2]
    need(("form", c[3]) in set, RANDOM, c[2], "form " c[3])
    named["form", c[3]] = 1
    need(one_of(c[4], "F N I B A"), RANDOM, c[2], "domain " c[4])
    if (c[2] in own_domain) need(c[4] == own_domain[c[2]], RANDOM, c[2], "domain " c[4])
    else if (of in rule && rule[of] in domain)
      need(c[4] == domain[rule[of]], RANDOM, c[2], "domain " c[4] " of an op with the dtype rule " rule[of])
    need((c[5] == "0") == one_of(c[2], "input constant"), RANDOM, c[2], "weight " c[5])
    need(one_of(c[6], "exact tame wild"), RANDOM, c[2], "style " c[6])
  }
  for (i = 1; i <= count["form"]; i++)
    need(("form", list["form", i]) in named, RANDOM, list["form", i], "a form that no row has")
}

function check_lines(   i, name, op) {
  for (i = 1; i <= count["proto"]; i++) {
    name = list["proto", i]
    op = substr(name, 4)
    need(name ~ /^dt_sym_/ || ("defined", name) in set || (op in build && one_of(build[op],
         "unary binary reduce argreduce along")), OPS, op, name " is declared, and nothing makes it")
    need((("line", name) in set) != (name in no_line), LINES, name, name in no_line ? \
         "a line for what is to have none" : "no line")
  }
  for (i = 1; i <= count["line"]; i++)
    need(("proto", list["line", i]) in set, LINES, list["line", i], "a line for what no header declares")
}

END {
  check_ops(); check_scalars(); check_reductions(); check_guards()
  check_target(); check_matmuls(); check_random(); check_lines()
  printf "%d cells and rows checked, %d findings\n", checked, failures
  exit failures > 0 || checked < 1000
}
