// SPDX-License-Identifier: Apache-2.0
// ductile: the library's command. Finds the subcommand in the table and runs it.
#include "cli/cli.h"

#include <string.h>

static const struct {
  const char *name, *summary;
  int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, summary) {#name, summary, cli_##name},
#include "cli/commands.def"
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out) {
  (void)fprintf(out, "usage: ductile COMMAND [OPTION…]\n"
                     "\n"
                     "Compiles tensor programs for sizes that change from call to call.\n"
                     "\n"
                     "Commands:\n");
  for (size_t k = 0; k < N_COMMANDS; k++)
    (void)fprintf(out, "  %-10s %s\n", commands[k].name, commands[k].summary);
  (void)fprintf(out, "\n"
                     "  --help     this text; ductile COMMAND --help says more\n"
                     "  --version  the version\n"
                     "\n"
                     "Exit status: 0 done; 1 failed, with a message on standard error; 2 wrong "
                     "usage; 4 a deadline passed.\n");
}

static int no_command(int argc, char **argv) {
  char names[256] = "";
  size_t len = 0;
  for (size_t k = 0; k < N_COMMANDS && len < sizeof(names) - 32; k++)
    len += (size_t)snprintf(names + len, sizeof(names) - len, k ? ", %.24s" : "%.24s",
                            commands[k].name);
  if (cli_wants_json(argc, argv))
    cli_errors_as_json();
  return cli_complain("", CLI_USAGE, "no command '%s'; there are %s", argv[1], names);
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return CLI_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help(stdout);
    return CLI_DONE;
  }
  if (strcmp(argv[1], "--version") == 0) {
    (void)printf("ductile %s\n", dt_version());
    return CLI_DONE;
  }
  for (size_t k = 0; k < N_COMMANDS; k++) {
    if (strcmp(argv[1], commands[k].name) == 0)
      return commands[k].run(argc - 1, argv + 1);
  }
  return no_command(argc, argv);
}

int main(int argc, char **argv) {
  int status = run(argc, argv);
  // What could not be written was not done.
  if (fflush(stdout) != 0 || ferror(stdout))
    return cli_complain("", CLI_FAILED, "standard output cannot be written");
  return status;
}
