// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands, by table: one row says how an option is called, where its value goes
// and what --help says of it, so that parsing and help cannot disagree.
#ifndef DUCTILE_CLI_OPTIONS_H
#define DUCTILE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The most values of an option that may be given many times.
#define CLI_MOST_VALUES 1024

typedef struct cli_list_t {
  const char *items[CLI_MOST_VALUES];
  uint32_t n;
} cli_list_t;

// What an option takes, and the type of the member that its value goes to.
typedef enum cli_kind_t {
  CLI_FLAG,  // nothing; bool
  CLI_TEXT,  // anything; const char *
  CLI_WORD,  // one of `words`; uint32_t, its index
  CLI_COUNT, // a number from `low` to `high`; uint32_t
  CLI_REAL,  // a number, not negative, not infinite; double
  CLI_TIME,  // a number above 0 and its unit, as in 500ms; int64_t, nanoseconds
  CLI_LIST   // anything, as often as wanted; cli_list_t
} cli_kind_t;

typedef struct cli_option_t {
  const char *name; // "json" for --json
  cli_kind_t kind;
  size_t at;         // offset of the member
  const char *value; // what --help calls the value, and completion.c goes by; NULL for a flag
  const char *help;  // wrapped by --help
  const char *const *words; // NULL at the end
  uint32_t low, high;
} cli_option_t;

// The row of --json; `type` has a bool json.
#define CLI_ROW_JSON(type)                                                                         \
  {.name = "json",                                                                                 \
   .kind = CLI_FLAG,                                                                               \
   .at = offsetof(type, json),                                                                     \
   .help = "JSON lines instead of text"}

// The row of --deadline; `type` has an int64_t deadline, 0 for none.
#define CLI_ROW_DEADLINE(type, what)                                                               \
  {.name = "deadline",                                                                             \
   .kind = CLI_TIME,                                                                               \
   .at = offsetof(type, deadline),                                                                 \
   .value = "TIME",                                                                                \
   .help = what}

typedef struct cli_command_t {
  const char *name;
  const char *usage; // what stands behind "usage: ductile "
  const char *about; // paragraphs, in lines as they are printed
  const char *exits; // the same, on exit statuses
  const cli_option_t *options;
  uint32_t n_options;
  const char *letters;      // "o": the first option goes by -o, too; NULL: none does
  const char *operand;      // "file": for "no file" and "one file only"
  bool many;                // operands, and not one
  const char *const *words; // that the operand may be, NULL at the end; NULL: others
} cli_command_t;

// The table of each subcommand: cli_<name>_table.
#define COMMAND(name, summary) extern const cli_command_t cli_##name##_table;
#include "cli/commands.def"

// What stands on the line beside the options; borrowed from argv.
typedef struct cli_operands_t {
  const char *const *items;
  uint32_t n;
} cli_operands_t;

// Takes the line apart; `options` is the struct that the rows' offsets are in, zeroed or with
// defaults. True: go on. False: the command ends with *out_status, having printed its help, or a
// message on standard error. --help and -h are every command's. argv is reordered.
bool cli_parse(const cli_command_t *command, int argc, char **argv, void *options,
               cli_operands_t *out_operands, int *out_status);

// Reads a whole decimal number from `low` to `high` that ends at one of `ends` (NUL is one);
// *at goes there. False: there is none.
bool cli_read_count(const char **at, const char *ends, int64_t low, int64_t high, int64_t *out);

#endif // DUCTILE_CLI_OPTIONS_H
