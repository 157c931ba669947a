// SPDX-License-Identifier: Apache-2.0
// ductile completion: prints the completion of a shell, made of the subcommands' tables.
#include "cli/completion.h"

#include "cli/cli.h"
#include "cli/model.h"

#include <string.h>

#define ME "completion"

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static void (*const printers[])(void) = {cli_complete_bash, cli_complete_zsh, cli_complete_fish};

const cli_command_t cli_completion_table = {
    .name = ME,
    .usage = "completion bash|zsh|fish",
    .about = "Prints what the shell needs to complete commands, options and their values. For one\n"
             "session: . <(ductile completion bash), or ductile completion fish | source. An\n"
             "installation has it where bash, zsh and fish look.\n",
    .exits = "0 done; 2 wrong usage.",
    .operand = "shell",
    .words = shells,
};

const cli_completed_t cli_completed[] = {
#define COMMAND(name, summary) {#name, summary, &cli_##name##_table},
#include "cli/commands.def"
};
const uint32_t cli_n_completed = sizeof(cli_completed) / sizeof(cli_completed[0]);

// ---- What may stand where -------------------------------------------------------------------------
static const char *const devices[] = {CLI_DEVICE_WORDS, NULL};

// By what --help calls it. What is not here is anything.
static const struct {
  const char *value;
  cli_slot_t place;
  const char *const *words;
} places[] = {
    {"FILE", CLI_FILES, NULL},
    {"OUT", CLI_FILES, NULL},
    {"PROGRAM", CLI_FILES, NULL},
    {"FOLDER", CLI_FOLDERS, NULL},
    {"NAME=FILE", CLI_NAMED_FILES, NULL},
    {"NAME=SPEC", CLI_NAMED_FILES, NULL},
    {"WHERE", CLI_WORDS, devices},
    {"file", CLI_FILES, NULL},
    {"model", CLI_FILES, NULL},
    {"folder", CLI_FOLDERS, NULL},
};

static cli_slot_t place_of(const char *value, const char *const *words,
                           const char *const **out_words) {
  *out_words = words;
  if (words)
    return CLI_WORDS;
  for (size_t k = 0; value && k < sizeof(places) / sizeof(places[0]); k++) {
    if (strcmp(value, places[k].value) == 0) {
      *out_words = places[k].words;
      return places[k].place;
    }
  }
  return CLI_ANYTHING;
}

cli_slot_t cli_slot_of(const cli_option_t *option, const char *const **out_words) {
  return place_of(option->value, option->words, out_words);
}

cli_slot_t cli_operand_of(const cli_command_t *command, const char *const **out_words) {
  return place_of(command->operand, command->words, out_words);
}

// ---- Printing -------------------------------------------------------------------------------------
void cli_print_words(const char *const *words) {
  for (uint32_t k = 0; words[k]; k++)
    (void)printf("%s%s", k ? " " : "", words[k]);
}

// What is said besides begins with one of these.
static size_t first_part(const char *help) {
  static const char *const ends[] = {"; ", ": ", " ("};
  size_t len = strlen(help);
  for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
    const char *at = strstr(help, ends[k]);
    if (at && (size_t)(at - help) < len)
      len = (size_t)(at - help);
  }
  return len;
}

void cli_print_help(const char *help, const char *quote, const char *strange) {
  size_t len = first_part(help);
  for (size_t k = 0; k < len; k++) {
    if (help[k] == '\'') {
      (void)fputs(quote, stdout);
      continue;
    }
    if (strchr(strange, help[k]))
      (void)putchar('\\');
    (void)putchar(help[k]);
  }
}

// ---- The command ----------------------------------------------------------------------------------
int cli_completion(int argc, char **argv) {
  cli_operands_t operands;
  int result = CLI_DONE;
  if (!cli_parse(&cli_completion_table, argc, argv, NULL, &operands, &result))
    return result;
  for (uint32_t k = 0; shells[k]; k++) {
    if (strcmp(operands.items[0], shells[k]) == 0) {
      printers[k]();
      return CLI_DONE;
    }
  }
  return cli_complain(ME, CLI_USAGE, "%s: no such shell; there are bash, zsh and fish",
                      operands.items[0]);
}
