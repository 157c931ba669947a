// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `ductile` share. The command is a user of the library: it knows the
// public headers only.
#ifndef DUCTILE_CLI_CLI_H
#define DUCTILE_CLI_CLI_H

#include "ductile/ductile.h"

#include <stdio.h>

// Exit statuses of every subcommand; 3 is repro's own. CLI_LATE: what --deadline gave is over.
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_LATE = 4 };

// Subcommands: argv[0] is the subcommand's name.
#define COMMAND(name, summary) int cli_##name(int argc, char **argv);
#include "cli/commands.def"

// ---- Saying things (say.c) ------------------------------------------------------------------------
// Messages are JSON from now on, a line each on standard error, whose "event" is "error".
void cli_errors_as_json(void);
// Whether --json stands anywhere behind argv[0], so that what is wrong before it is told so, too
// (options.c).
bool cli_wants_json(int argc, char **argv);
// "ductile explain: …" on standard error, "ductile: …" where `command` is ""; returns
// `exit_status`, with which the process is to end.
int cli_complain(const char *command, int exit_status, const char *fmt, ...) DT_PRINTF(3, 4);
// Complains of a failure and frees it; CLI_DONE for none, CLI_LATE for DT_E_DEADLINE, else
// CLI_FAILED.
int cli_failed(const char *command, const char *what, dt_status_t status);
// A JSON string with its quotes.
void cli_json_string(FILE *out, const char *text);

// ---- Time (options.c) -----------------------------------------------------------------------------
// The end of what may take `deadline` nanoseconds from now on, as calls take it; 0 for 0, no end.
int64_t cli_end_ns(int64_t deadline);

// ---- Memory (say.c) -------------------------------------------------------------------------------
// The most bytes that the process has held so far (ru_maxrss).
uint64_t cli_peak_bytes(void);

// ---- Files (ir_file.c) ----------------------------------------------------------------------------
// The whole file and a NUL. `path` "-" is standard input. The text is the caller's (free); NULL on
// failure, which is told on standard error, as one that ends the process with `exit_status`.
char *cli_read_text(const char *command, int exit_status, const char *path, size_t *out_len);
// Leaves the section --IN-- of a test in sections, and the lines of the others empty, so that line
// numbers stay the file's. Text without sections stays as it is.
void cli_keep_ir(char *text, size_t len);
// Reads graph IR: both of these.
char *cli_read_ir(const char *command, int exit_status, const char *path, size_t *out_len);

// ---- Arguments of calls (call_text.c) -------------------------------------------------------------
#define CLI_MESSAGE 1024
// Makes the arguments of a call from a text such as "x=3x4,y=4x5@5x1,n=7": sizes, or the value of
// an integer argument; strides behind @; zeros otherwise. `inputs` are the function's declarations.
// False: `message` says what is wrong, and nothing was made.
bool cli_make_args(const char *text, const dt_function_t *function, dt_tensor_t **out,
                   char message[CLI_MESSAGE]);

#endif // DUCTILE_CLI_CLI_H
