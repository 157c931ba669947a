// SPDX-License-Identifier: Apache-2.0
// The completion of fish: a line for each command and for each option.
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Made by: ductile completion fish\n"
    "function __ductile_command\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
    "end\n"
    "function __ductile_no_command\n"
    "    test (count (commandline -opc)) -eq 1\n"
    "end\n"
    "function __ductile_named\n"
    "    set -l parts (string split -m 1 = -- (commandline -ct))\n"
    "    test (count $parts) -eq 2; or return\n"
    "    for file in (__fish_complete_path $parts[2])\n"
    "        echo $parts[1]=$file\n"
    "    end\n"
    "end\n"
    "complete -c ductile -f\n"
    "complete -c ductile -n __ductile_no_command -l help -d 'what commands there are'\n"
    "complete -c ductile -n __ductile_no_command -l version -d 'the version'\n";

static void print_place(cli_slot_t place, const char *const *words) {
  switch (place) {
  case CLI_WORDS:
    (void)printf(" -x -a '");
    cli_print_words(words);
    (void)putchar('\'');
    break;
  case CLI_FILES:
    (void)printf(" -r -F");
    break;
  case CLI_FOLDERS:
    (void)printf(" -x -a '(__fish_complete_directories)'");
    break;
  case CLI_NAMED_FILES:
    (void)printf(" -x -a '(__ductile_named)'");
    break;
  default:
    (void)printf(" -x");
  }
}

static void print_option(const cli_command_t *command, uint32_t k) {
  const cli_option_t *option = &command->options[k];
  const char *const *words = NULL;
  (void)printf("complete -c ductile -n '__ductile_command %s' -l %s", command->name, option->name);
  if (command->letters && k < strlen(command->letters))
    (void)printf(" -s %c", command->letters[k]);
  cli_slot_t place = cli_slot_of(option, &words);
  if (option->kind != CLI_FLAG)
    print_place(place, words);
  (void)printf(" -d '");
  cli_print_help(option->help, "\\'", "\\");
  (void)printf("'\n");
}

void cli_complete_fish(void) {
  (void)fputs(head, stdout);
  for (uint32_t k = 0; k < cli_n_completed; k++) {
    (void)printf("complete -c ductile -n __ductile_no_command -a %s -d '", cli_completed[k].name);
    cli_print_help(cli_completed[k].summary, "\\'", "\\");
    (void)printf("'\n");
  }
  for (uint32_t k = 0; k < cli_n_completed; k++) {
    const cli_command_t *command = cli_completed[k].command;
    const char *const *words = NULL;
    for (uint32_t j = 0; j < command->n_options; j++)
      print_option(command, j);
    (void)printf("complete -c ductile -n '__ductile_command %s' -l help -d 'its options'\n"
                 "complete -c ductile -n '__ductile_command %s'",
                 command->name, command->name);
    cli_slot_t operand = cli_operand_of(command, &words);
    if (operand == CLI_FILES)
      (void)printf(" -F"); // beside options, which -r would ask for
    else
      print_place(operand, words);
    (void)putchar('\n');
  }
}
