// SPDX-License-Identifier: Apache-2.0
// The completion of zsh: a call of _arguments for each command.
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

static const char head[] = "#compdef ductile\n"
                           "# Made by: ductile completion zsh\n"
                           "_ductile_named() {\n"
                           "  if compset -P '*='; then _files; else _message 'NAME='; fi\n"
                           "}\n"
                           "_ductile() {\n"
                           "  local curcontext=$curcontext state line\n"
                           "  local -a commands\n"
                           "  commands=(\n";

static const char middle[] = "  )\n"
                             "  _arguments -C '(- *)--help[what commands there are]' "
                             "'(- *)--version[the version]' '1: :->command' '*:: :->line'\n"
                             "  case $state in\n"
                             "  command) _describe command commands ;;\n"
                             "  line)\n"
                             "    case $words[1] in\n";

static const char tail[] = "    esac\n"
                           "    ;;\n"
                           "  esac\n"
                           "}\n"
                           "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
                           "  _ductile \"$@\"\n"
                           "else\n"
                           "  compdef _ductile ductile\n"
                           "fi\n";

static void print_place(const char *what, cli_slot_t place, const char *const *words) {
  (void)printf(":%s:", what);
  switch (place) {
  case CLI_WORDS:
    (void)putchar('(');
    cli_print_words(words);
    (void)putchar(')');
    break;
  case CLI_FILES:
    (void)printf("_files");
    break;
  case CLI_FOLDERS:
    (void)printf("_files -/");
    break;
  case CLI_NAMED_FILES:
    (void)printf("_ductile_named");
    break;
  default:
    (void)putchar(' ');
  }
}

static void print_help(const char *help) { cli_print_help(help, "'\\''", "[]:\\"); }

static void print_option(const cli_command_t *command, uint32_t k) {
  const cli_option_t *option = &command->options[k];
  const char *const *words = NULL;
  cli_slot_t place = cli_slot_of(option, &words);
  const char *many = option->kind == CLI_LIST ? "*" : "";
  const char *has_value = option->kind == CLI_FLAG ? "" : "=";
  bool letter = command->letters && k < strlen(command->letters);
  for (int form = letter ? 0 : 1; form < 2; form++) {
    (void)printf(" \\\n        '%s", many);
    if (form == 0)
      (void)printf("-%c%s[", command->letters[k], option->kind == CLI_FLAG ? "" : "+");
    else
      (void)printf("--%s%s[", option->name, has_value);
    print_help(option->help);
    (void)putchar(']');
    if (option->kind != CLI_FLAG)
      print_place(option->value, place, words);
    (void)putchar('\'');
  }
}

void cli_complete_zsh(void) {
  (void)fputs(head, stdout);
  for (uint32_t k = 0; k < cli_n_completed; k++) {
    (void)printf("    '%s:", cli_completed[k].name);
    print_help(cli_completed[k].summary);
    (void)printf("'\n");
  }
  (void)fputs(middle, stdout);
  for (uint32_t k = 0; k < cli_n_completed; k++) {
    const cli_command_t *command = cli_completed[k].command;
    const char *const *words = NULL;
    (void)printf("    %s)\n      _arguments '--help[its options]'", command->name);
    for (uint32_t j = 0; j < command->n_options; j++)
      print_option(command, j);
    cli_slot_t operand = cli_operand_of(command, &words);
    (void)printf(" \\\n        '%s", command->many ? "*" : "1");
    print_place(command->operand, operand, words);
    (void)printf("'\n      ;;\n");
  }
  (void)fputs(tail, stdout);
}
