// SPDX-License-Identifier: Apache-2.0
// The completion of bash.
#include "cli/completion.h"

#include <stdio.h>

// Bash takes words apart at =, so what stands around one is joined first; of the answer it wants
// what stands behind the last one, or all of it where = is no place to break.
static const char head[] =
    "# Made by: ductile completion bash\n"
    "_ductile() {\n"
    "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} place=none words='' "
    "option=''\n"
    "  local options operand operand_words='' value last before reply k=$COMP_CWORD\n"
    "  COMPREPLY=()\n"
    "  while [[ $k -gt 1 && (${COMP_WORDS[k]} == '=' || ${COMP_WORDS[k-1]} == '=') ]]; do\n"
    "    k=$((k - 1))\n"
    "    word=${COMP_WORDS[k]}$word\n"
    "  done\n"
    "  [[ $COMP_CWORD -gt 1 ]] || command=''\n"
    "  value=$word\n"
    "  if [[ $word == --*=* ]]; then\n"
    "    option=${word%%=*}\n"
    "    value=${word#*=}\n"
    "  elif [[ $k -gt 2 && ${COMP_WORDS[k-1]} == -* ]]; then\n"
    "    option=${COMP_WORDS[k-1]}\n"
    "  fi\n"
    "  case $command in\n";

static const char tail[] =
    "  *)\n"
    "    return\n"
    "    ;;\n"
    "  esac\n"
    "  if [[ $place == flag ]]; then\n"
    "    [[ $word != --*=* ]] || return\n"
    "    if [[ $word == -* ]]; then\n"
    "      place=words words=$options\n"
    "    else\n"
    "      place=$operand words=$operand_words\n"
    "    fi\n"
    "  fi\n"
    "  last=$value\n"
    "  if [[ $place == named ]]; then\n"
    "    [[ $value == *=* ]] || return\n"
    "    place=file\n"
    "    last=${value#*=}\n"
    "  fi\n"
    "  case $place in\n"
    "  words) reply=$(compgen -W \"$words\" -- \"$last\") ;;\n"
    "  file)\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    reply=$(compgen -f -- \"$last\")\n"
    "    ;;\n"
    "  folder)\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    reply=$(compgen -d -- \"$last\")\n"
    "    ;;\n"
    "  *) return ;;\n"
    "  esac\n"
    "  [[ -n $reply ]] || return\n"
    "  mapfile -t COMPREPLY <<<\"$reply\"\n"
    "  before=${word%\"$last\"}\n"
    "  [[ $COMP_WORDBREAKS == *'='* ]] || COMPREPLY=(\"${COMPREPLY[@]/#/$before}\")\n"
    "}\n"
    "complete -F _ductile ductile\n";

static const char *const names[CLI_SLOTS] = {[CLI_ANYTHING] = "none",
                                             [CLI_WORDS] = "words",
                                             [CLI_FILES] = "file",
                                             [CLI_FOLDERS] = "folder",
                                             [CLI_NAMED_FILES] = "named"};

static void print_place(const char *prefix, cli_slot_t place, const char *const *words) {
  (void)printf("%splace=%s", prefix, names[place]);
  if (place == CLI_WORDS) {
    (void)printf(" words='");
    cli_print_words(words);
    (void)putchar('\'');
  }
}

static void print_command(const cli_command_t *command) {
  const char *const *words = NULL;
  cli_slot_t operand = cli_operand_of(command, &words);
  (void)printf("  %s)\n    options='", command->name);
  for (uint32_t k = 0; k < command->n_options; k++)
    (void)printf("--%s ", command->options[k].name);
  (void)printf("--help'\n    operand=%s", names[operand]);
  if (operand == CLI_WORDS) {
    (void)printf(" operand_words='");
    cli_print_words(words);
    (void)putchar('\'');
  }
  (void)printf("\n    case $option in\n");
  for (uint32_t k = 0; k < command->n_options; k++) {
    const cli_option_t *option = &command->options[k];
    if (option->kind == CLI_FLAG)
      continue;
    (void)printf("    --%s", option->name);
    for (uint32_t j = 0; command->letters && j <= k && command->letters[j]; j++)
      if (j == k)
        (void)printf(" | -%c", command->letters[j]);
    cli_slot_t place = cli_slot_of(option, &words);
    print_place(") ", place, words);
    (void)printf(" ;;\n");
  }
  (void)printf("    *) place=flag ;;\n    esac\n    ;;\n");
}

void cli_complete_bash(void) {
  (void)fputs(head, stdout);
  (void)fputs("  '')\n    place=words words='", stdout);
  for (uint32_t k = 0; k < cli_n_completed; k++)
    (void)printf("%s ", cli_completed[k].name);
  (void)fputs("'\n    [[ $word != -* ]] || words='--help --version'\n    ;;\n", stdout);
  for (uint32_t k = 0; k < cli_n_completed; k++)
    print_command(cli_completed[k].command);
  (void)fputs(tail, stdout);
}
