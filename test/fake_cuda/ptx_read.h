// SPDX-License-Identifier: Apache-2.0
// What the files that read PTX share: tokens, statements, names in scope, and how a statement
// becomes an instruction.
#ifndef DT_TESTS_FAKE_CUDA_PTX_READ_H
#define DT_TESTS_FAKE_CUDA_PTX_READ_H

#include "test/fake_cuda/ptx.h"

#define PTX_PARTS 20
#define PTX_OPERANDS 160

typedef struct ptx_slice_t {
  const char *at;
  size_t n;
} ptx_slice_t;
bool ptx_is(ptx_slice_t slice, const char *text);
bool ptx_same(ptx_slice_t a, ptx_slice_t b);

typedef enum ptx_token_kind_t {
  PTX_END,
  PTX_WORD,
  PTX_NUMBER,
  PTX_STRING,
  PTX_SIGN
} ptx_token_kind_t;
typedef enum ptx_number_t { PTX_INTEGER, PTX_SINGLE, PTX_DOUBLE } ptx_number_t;
typedef struct ptx_token_t {
  ptx_token_kind_t kind;
  ptx_slice_t text;
  uint64_t bits; // of a number
  ptx_number_t number;
  uint32_t line;
} ptx_token_t;

// ---- Statements -----------------------------------------------------------------------------------
typedef enum ptx_operand_kind_t {
  PTX_OP_NAME,
  PTX_OP_NUMBER,
  PTX_OP_ADDRESS, // [name + offset] or [offset]
  PTX_OP_VECTOR,  // {…} or (…): `first` and `n` say where its elements stand
} ptx_operand_kind_t;
typedef struct ptx_operand_t {
  ptx_operand_kind_t kind;
  ptx_slice_t name;
  ptx_slice_t second; // of name|second
  uint64_t bits;
  ptx_number_t number;
  int64_t offset;
  bool negated;
  uint32_t first, n;
} ptx_operand_t;
typedef struct ptx_statement_t {
  uint32_t line;
  ptx_slice_t guard; // n = 0: none
  bool guard_not;
  ptx_slice_t parts[PTX_PARTS]; // of the opcode, at its points
  bool taken[PTX_PARTS];        // parts that the decoder has understood
  uint32_t n_parts;
  uint32_t operand[16]; // indices of the top ones
  uint32_t n;
  ptx_operand_t all[PTX_OPERANDS];
  uint32_t n_all;
} ptx_statement_t;

// ---- Names ----------------------------------------------------------------------------------------
typedef enum ptx_symbol_kind_t {
  PTX_SYM_REGISTER,
  PTX_SYM_PARAM,
  PTX_SYM_VARIABLE
} ptx_symbol_kind_t;
typedef struct ptx_symbol_t {
  ptx_slice_t name;
  ptx_symbol_kind_t kind;
  uint32_t count; // registers name0 … name(count - 1); 0: one of just this name
  int32_t slot;   // -1: an entry's parameter, at `offset`
  uint32_t offset, bytes;
  uint32_t variable;
} ptx_symbol_t;
typedef struct ptx_label_t {
  ptx_slice_t name;
  uint32_t scope, at;
} ptx_label_t;
typedef struct ptx_reference_t {
  ptx_slice_t name;
  uint32_t scope, line;
  uint32_t insn;          // PTX_NONE: an entry of a list
  uint32_t list, element; // of module->targets
} ptx_reference_t;
typedef struct ptx_list_t { // of .branchtargets
  ptx_slice_t name;
  uint32_t list;
} ptx_list_t;

typedef struct ptx_reader_t {
  ptx_module_t *module;
  const char *at;
  uint32_t line;
  ptx_token_t token;
  bool failed;
  ptx_symbol_t *symbols;
  uint32_t n_symbols;
  uint32_t *scope_parents;
  uint32_t n_scopes, scope; // 0 is the module's
  ptx_label_t *labels;
  uint32_t n_labels;
  ptx_reference_t *references;
  uint32_t n_references;
  ptx_list_t *lists;
  uint32_t n_lists;
  uint32_t function; // being read; PTX_NONE: none
  ptx_statement_t statement;
} ptx_reader_t;

// Makes room for one more element of `size` bytes in *array, zeroed. NULL: no memory.
void *ptx_grow(void *array, uint32_t *n, size_t size);
#define PTX_GROW(array, n) ((array) = ptx_grow((array), &(n), sizeof(*(array))), &(array)[(n) - 1])

// The first failure's text goes to the module, with the line and what stands there.
bool ptx_fail(ptx_reader_t *r, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// ---- Tokens (ptx_lex.c) -----------------------------------------------------------------------------
void ptx_advance(ptx_reader_t *r);
bool ptx_at_sign(const ptx_reader_t *r, char sign);
bool ptx_skip_sign(ptx_reader_t *r, char sign); // true: it stood there
bool ptx_expect(ptx_reader_t *r, char sign);

// ---- Module text (ptx_parse.c, ptx_declare.c, ptx_statement.c) ----------------------------------------
bool ptx_read_statement(ptx_reader_t *r); // from the opcode or guard to its `;`
bool ptx_read_variable(ptx_reader_t *r, ptx_space_t space, bool external);
bool ptx_read_registers(ptx_reader_t *r);
// .param of a call, in a body.
bool ptx_read_argument(ptx_reader_t *r);
// A list of parameters in parentheses, of the function being read.
bool ptx_read_params(ptx_reader_t *r, ptx_function_t *f, bool results);
ptx_type_t ptx_type_of(ptx_slice_t name);
const ptx_symbol_t *ptx_find(const ptx_reader_t *r, ptx_slice_t name, uint32_t *out_index);
uint32_t ptx_find_function(const ptx_module_t *module, ptx_slice_t name);
int32_t ptx_new_slots(ptx_reader_t *r, uint32_t n);

// ---- Decoding (ptx_decode.c and the files it names) ----------------------------------------------------
bool ptx_decode(ptx_reader_t *r);
// Lays out variables and functions, and fills in what waited for that.
bool ptx_link(ptx_reader_t *r);
// What a call of a function does that the driver defines; NULL: it is none, or of other parameters.
ptx_exec_t ptx_builtin(const ptx_function_t *f);

#endif // DT_TESTS_FAKE_CUDA_PTX_READ_H
