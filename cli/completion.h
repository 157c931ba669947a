// SPDX-License-Identifier: Apache-2.0
// What the shells' completions are made of: the subcommands with their tables, and what may stand
// where an option's value or an operand stands.
#ifndef DUCTILE_CLI_COMPLETION_H
#define DUCTILE_CLI_COMPLETION_H

#include "cli/options.h"

typedef enum cli_slot_t {
  CLI_ANYTHING,    // what no shell knows: numbers, names
  CLI_WORDS,       // one of a list
  CLI_FILES,       // a file
  CLI_FOLDERS,     // a folder
  CLI_NAMED_FILES, // NAME=FILE
  CLI_SLOTS
} cli_slot_t;

typedef struct cli_completed_t {
  const char *name, *summary;
  const cli_command_t *command;
} cli_completed_t;

// In the order of --help.
extern const cli_completed_t cli_completed[];
extern const uint32_t cli_n_completed;

// What stands behind an option, CLI_ANYTHING for a flag; words are in *out_words, NULL at the end.
cli_slot_t cli_slot_of(const cli_option_t *option, const char *const **out_words);
cli_slot_t cli_operand_of(const cli_command_t *command, const char *const **out_words);

// The words with blanks between them.
void cli_print_words(const char *const *words);
// What --help says, up to where it says more than what the option is, for single quotes: `quote`
// stands for one, and `strange` characters behind a backslash.
void cli_print_help(const char *help, const char *quote, const char *strange);

void cli_complete_bash(void);
void cli_complete_fish(void);
void cli_complete_zsh(void);

#endif // DUCTILE_CLI_COMPLETION_H
