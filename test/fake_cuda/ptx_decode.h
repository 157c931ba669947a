// SPDX-License-Identifier: Apache-2.0
// Helpers of the files that turn a statement into an instruction. Each part of an opcode must be
// taken by the decoder; one that is left over is an error, so that nothing is skipped in silence.
#ifndef DT_TESTS_FAKE_CUDA_PTX_DECODE_H
#define DT_TESTS_FAKE_CUDA_PTX_DECODE_H

#include "test/fake_cuda/ptx_read.h"

// A row of an opcode's decoder.
typedef struct ptx_opcode_t {
  const char *name;
  bool (*decode)(ptx_reader_t *r);
} ptx_opcode_t;
extern const ptx_opcode_t ptx_memory_opcodes[], ptx_control_opcodes[], ptx_value_opcodes[];

// A row of a scalar operation: `name` with its parts, the type, sources, and the parts that it may
// have besides, with blanks between.
typedef struct ptx_scalar_row_t {
  const char *name;
  ptx_type_t type;
  uint8_t n;
  ptx_scalar_t scalar;
  const char *may;
} ptx_scalar_row_t;
extern const ptx_scalar_row_t ptx_integer_rows[], ptx_float_rows[], ptx_half_rows[];
extern const ptx_scalar_t ptx_moves[]; // by bytes
// The conversion and how many sources it takes; NULL: none.
ptx_scalar_t ptx_conversion(ptx_type_t to, ptx_type_t from, uint8_t *out_n);

// ---- Parts of the opcode ----------------------------------------------------------------------------
bool ptx_take(ptx_reader_t *r, const char *part); // true: it stood there
// The first of `words` (blanks between) that stands there, as its position; -1: none.
int ptx_take_one(ptx_reader_t *r, const char *words);
void ptx_take_all(ptx_reader_t *r, const char *words); // any of them, without meaning here
ptx_type_t ptx_take_type(ptx_reader_t *r);             // the first type left
ptx_space_t ptx_take_space(ptx_reader_t *r);           // PTX_GENERIC: none said
void ptx_take_float(ptx_reader_t *r, ptx_insn_t *in);  // rounding, ftz, sat, NaN, relu, approx
bool ptx_done(ptx_reader_t *r);                        // fails when parts are left

// ---- Operands ---------------------------------------------------------------------------------------
ptx_operand_t *ptx_operand(ptx_reader_t *r, uint32_t k);
bool ptx_count(ptx_reader_t *r, uint32_t least, uint32_t most);
int32_t ptx_source(ptx_reader_t *r, const ptx_operand_t *operand, ptx_type_t type);
int32_t ptx_dest(ptx_reader_t *r, const ptx_operand_t *operand);
// One operand or the elements of a vector, into `slots`; returns how many.
uint32_t ptx_sources(ptx_reader_t *r, const ptx_operand_t *operand, ptx_type_t type, int32_t *slots,
                     uint32_t cap);
uint32_t ptx_dests(ptx_reader_t *r, const ptx_operand_t *operand, int32_t *slots, uint32_t cap);
// [base + offset] into in[0] and offset.
bool ptx_address(ptx_reader_t *r, ptx_insn_t *in, const ptx_operand_t *operand);
int32_t ptx_constant(ptx_reader_t *r, uint64_t bits);
int32_t ptx_register(ptx_reader_t *r, ptx_slice_t name);
// A register that exists, and not a constant or a special one.
const ptx_symbol_t *ptx_param_at(ptx_reader_t *r, const ptx_operand_t *operand);

// add, sub and mad that write the carry; *out_was: it was one of them.
bool ptx_decode_with_carry(ptx_reader_t *r, bool *out_was);

bool ptx_decode_group(ptx_reader_t *r); // wgmma (ptx_group.c)

// A new instruction at the function's end, with the statement's line and guard.
ptx_insn_t *ptx_emit(ptx_reader_t *r, ptx_exec_t exec);
void ptx_refer(ptx_reader_t *r, const ptx_insn_t *in, ptx_slice_t label);

#endif // DT_TESTS_FAKE_CUDA_PTX_DECODE_H
