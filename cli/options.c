// SPDX-License-Identifier: Apache-2.0
// Parsing of options, and the help that their table makes.
#include "cli/options.h"

#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Columns of --help: where what is said of an option begins, and where lines end.
enum { HELP_AT = 19, HELP_END = 99 };

// ---- Help -----------------------------------------------------------------------------------------
static void print_wrapped(const char *text) {
  int column = HELP_AT;
  while (*text) {
    size_t len = strcspn(text, " ");
    if (column > HELP_AT && column + (int)len + 1 > HELP_END) {
      (void)printf("\n%*s", HELP_AT, "");
      column = HELP_AT;
    } else if (column > HELP_AT) {
      (void)putchar(' ');
      column++;
    }
    (void)printf("%.*s", (int)len, text);
    column += (int)len;
    text += len + (text[len] == ' ');
  }
  (void)putchar('\n');
}

static void print_option(const char *name, const char *value, const char *help) {
  int used = printf("  --%s%s%s", name, value ? " " : "", value ? value : "");
  if (used + 2 > HELP_AT)
    (void)printf("\n%*s", HELP_AT, "");
  else
    (void)printf("%*s", HELP_AT - used, "");
  print_wrapped(help);
}

static void print_help(const cli_command_t *command) {
  (void)printf("usage: ductile %s\n\n%s\n", command->usage, command->about);
  for (uint32_t k = 0; k < command->n_options; k++)
    print_option(command->options[k].name, command->options[k].value, command->options[k].help);
  print_option("help", NULL, "this text");
  (void)printf("\nExit status: %s\n", command->exits);
}

// ---- Values ---------------------------------------------------------------------------------------
bool cli_read_count(const char **at, const char *ends, int64_t low, int64_t high, int64_t *out) {
  char *end = NULL;
  bool digits = **at >= '0' && **at <= '9';
  bool minus = **at == '-' && low < 0 && (*at)[1] >= '0' && (*at)[1] <= '9';
  if (!digits && !minus)
    return false;
  errno = 0;
  long long value = strtoll(*at, &end, 10);
  if (errno || (*end && !strchr(ends, *end)) || value < low || value > high)
    return false;
  *out = value;
  *at = end;
  return true;
}

static bool take_word(const cli_option_t *option, const char *value, uint32_t *out) {
  for (uint32_t k = 0; option->words[k]; k++) {
    if (strcmp(value, option->words[k]) == 0) {
      *out = k;
      return true;
    }
  }
  return false;
}

static bool take_real(const char *value, double *out) {
  char *end = NULL;
  errno = 0;
  *out = strtod(value, &end);
  return end > value && *end == '\0' && !errno && isfinite(*out) && *out >= 0;
}

// A day at most, so that sums with the clock stay numbers.
static bool take_time(const char *value, int64_t *out) {
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  size_t len = strspn(value, "0123456789.");
  char digits[32];
  double number = 0;
  if (len >= sizeof(digits))
    return false;
  (void)snprintf(digits, sizeof(digits), "%.*s", (int)len, value);
  if (!take_real(digits, &number))
    return false;
  for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
    double ns = number * units[k].ns;
    if (strcmp(value + len, units[k].name) == 0 && ns >= 1 && ns <= 24 * 3600e9) {
      *out = (int64_t)ns;
      return true;
    }
  }
  return false;
}

int64_t cli_end_ns(int64_t deadline) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return deadline ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + deadline : 0;
}

static bool take_item(cli_list_t *list, const char *value) {
  if (list->n == CLI_MOST_VALUES)
    return false;
  list->items[list->n++] = value;
  return true;
}

static bool take(const cli_option_t *option, void *options, const char *value) {
  void *to = (char *)options + option->at;
  int64_t count = 0;
  switch (option->kind) {
  case CLI_FLAG:
    *(bool *)to = true;
    return true;
  case CLI_TEXT:
    *(const char **)to = value;
    return true;
  case CLI_WORD:
    return take_word(option, value, to);
  case CLI_COUNT:
    if (!cli_read_count(&value, "", option->low, option->high, &count))
      return false;
    *(uint32_t *)to = (uint32_t)count;
    return true;
  case CLI_REAL:
    return take_real(value, to);
  case CLI_TIME:
    return take_time(value, to);
  case CLI_LIST:
    return take_item(to, value);
  }
  return false;
}

// ---- The line -------------------------------------------------------------------------------------
// Of "--name", "--name=value" or "-n"; *out_len is how long it is, without a value.
static const cli_option_t *find(const cli_command_t *command, const char *word, size_t *out_len) {
  *out_len = strcspn(word, "=");
  for (uint32_t k = 0; k < command->n_options; k++) {
    const cli_option_t *option = &command->options[k];
    size_t len = strlen(option->name) + 2;
    if ((len == *out_len && strncmp(word, "--", 2) == 0 &&
         memcmp(option->name, word + 2, len - 2) == 0) ||
        (command->letters && k < strlen(command->letters) && word[1] == command->letters[k] &&
         !word[2]))
      return option;
  }
  return NULL;
}

static void complain_of_value(const cli_command_t *command, const cli_option_t *option,
                              const char *value) {
  char words[256] = "see --help";
  size_t len = 0;
  for (uint32_t k = 0; option->words && option->words[k] && len < sizeof(words) - 64; k++)
    if (option->words[k][0]) // "" stands for none
      len += (size_t)snprintf(words + len, sizeof(words) - len, len ? ", %.48s" : "there are %.48s",
                              option->words[k]);
  (void)cli_complain(command->name, CLI_USAGE, "--%s %s: no such value for %s; %s", option->name,
                     value, option->value, words);
}

static void complain_of_option(const cli_command_t *command, const char *word) {
  char names[1024] = "--help";
  size_t len = strlen(names);
  for (uint32_t k = 0; k < command->n_options && len < sizeof(names) - 64; k++)
    len +=
        (size_t)snprintf(names + len, sizeof(names) - len, ", --%.48s", command->options[k].name);
  (void)cli_complain(command->name, CLI_USAGE, "%s: no such option; there are %s", word, names);
}

// The option at argv[k], whose value stands behind = or is the next word. How many words were
// taken; 0: wrong usage, which is told.
static int take_option(const cli_command_t *command, int argc, char **argv, int k, void *options,
                       uint64_t *taken) {
  const char *word = argv[k];
  size_t len = 0;
  const cli_option_t *option = find(command, word, &len);
  bool joined = word[len] == '=';
  if (!option || (option->kind == CLI_FLAG && joined)) {
    complain_of_option(command, word);
    return 0;
  }
  uint64_t bit = UINT64_C(1) << (option - command->options);
  if (option->kind != CLI_LIST && (*taken & bit)) {
    (void)cli_complain(command->name, CLI_USAGE, "--%s: given twice; it may be given once",
                       option->name);
    return 0;
  }
  *taken |= bit;
  if (option->kind == CLI_FLAG)
    return take(option, options, NULL) ? 1 : 0;
  if (!joined && k + 1 >= argc) {
    (void)cli_complain(command->name, CLI_USAGE, "%s: needs %s; see --help", word, option->value);
    return 0;
  }
  const char *value = joined ? word + len + 1 : argv[k + 1];
  if (take(option, options, value))
    return joined ? 1 : 2;
  complain_of_value(command, option, value);
  return 0;
}

static bool is_help(const char *word) {
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool count_operands(const cli_command_t *command, const cli_operands_t *operands) {
  bool none = operands->n == 0, more = operands->n > 1 && !command->many;
  if (none)
    (void)cli_complain(command->name, CLI_USAGE, "no %s; see --help", command->operand);
  if (more)
    (void)cli_complain(command->name, CLI_USAGE, "one %s only: %s and %s", command->operand,
                       operands->items[0], operands->items[1]);
  return !none && !more;
}

bool cli_wants_json(int argc, char **argv) {
  for (int k = 1; k < argc && strcmp(argv[k], "--") != 0; k++)
    if (strcmp(argv[k], "--json") == 0)
      return true;
  return false;
}

bool cli_parse(const cli_command_t *command, int argc, char **argv, void *options,
               cli_operands_t *out_operands, int *out_status) {
  // Operands move to the front, so that they need no memory of their own.
  uint32_t n = 0;
  bool only_operands = false;
  uint64_t given = 0; // a bit for each row
  *out_status = CLI_USAGE;
  if (cli_wants_json(argc, argv))
    cli_errors_as_json();
  for (int k = 1; k < argc;) {
    int taken = 1;
    if (!only_operands && strcmp(argv[k], "--") == 0) {
      only_operands = true;
    } else if (only_operands || argv[k][0] != '-' || argv[k][1] == '\0') {
      argv[1 + n++] = argv[k];
    } else if (is_help(argv[k])) {
      print_help(command);
      *out_status = CLI_DONE;
      return false;
    } else {
      taken = take_option(command, argc, argv, k, options, &given);
      if (taken == 0)
        return false;
    }
    k += taken;
  }
  *out_operands = (cli_operands_t){(const char *const *)(argv + 1), n};
  return count_operands(command, out_operands);
}
