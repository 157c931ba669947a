// SPDX-License-Identifier: Apache-2.0
// Profiles of a command's calls.
#ifndef DUCTILE_CLI_PROFILE_H
#define DUCTILE_CLI_PROFILE_H

#include "ductile/profile.h"

// Ends the profile, tells it on standard output as a table, or as a JSON line whose "event" is
// "profile", and writes it to `path`, if that is not NULL, in the form that dt_profile_format_of
// finds. A failure is told; returns the exit status.
int cli_profile_end(const char *me, dt_profile_t *profile, const char *path, bool json);

#endif // DUCTILE_CLI_PROFILE_H
