// SPDX-License-Identifier: Apache-2.0
// ductile cache: the folder where compiled code is kept: what is in it, whether it is sound, and
// removing what is not or is not used.
#include "cli/options.h"

#include "cli/cli.h"
#include "ductile/experimental.h"

#include <string.h>
#include <time.h>

#define ME "cache"

typedef struct options_t {
  const char *folder;
  uint32_t most, kind; // an index of `kinds`
  bool json;
} options_t;

// Of entries (dt_cache_entry_t).
static const char *const kinds[] = {"tuned", "variant", "cubin", "form", NULL};
#define NO_KIND (sizeof(kinds) / sizeof(kinds[0]))

static const cli_option_t rows[] = {
    {.name = "folder",
     .kind = CLI_TEXT,
     .at = offsetof(options_t, folder),
     .value = "FOLDER",
     .help = "the folder (default: the one that a program would use, DUCTILE_CACHE_DIR)"},
    {.name = "most",
     .kind = CLI_COUNT,
     .at = offsetof(options_t, most),
     .value = "MIB",
     .help = "gc: what may stay, in MiB; what was not used for the longest time goes first "
             "(default: 1024; 0: nothing stays)",
     .high = 1048576},
    {.name = "kind",
     .kind = CLI_WORD,
     .at = offsetof(options_t, kind),
     .value = "KIND",
     .help = "drop: what goes, as ls names it: tuned (what ductile tune found), variant, cubin or "
             "form",
     .words = kinds},
    CLI_ROW_JSON(options_t),
};

static const char *const action_words[] = {"ls", "verify", "gc", "drop", NULL};

const cli_command_t cli_cache_table = {
    .name = ME,
    .usage = "cache ls|verify|gc|drop [--folder FOLDER] [--most MIB] [--kind KIND] [--json]",
    .about =
        "ls      lists the entries of the folder where compiled code is kept, those that were "
        "not used\n"
        "        for the longest time first\n"
        "verify  lists the entries that are damaged; such an entry is never used, and the "
        "next\n"
        "        program that wants it replaces it\n"
        "gc      removes damaged entries, what programs left that died while they wrote, and "
        "what\n"
        "        was not used for the longest time\n"
        "drop    removes all entries of a kind: without tuned ones, programs that start compile "
        "as\n"
        "        usual\n"
        "Programs may run meanwhile: what they lose they compile again.\n",
    .exits = "0 done; 1 failed, with a message, or verify found damaged entries; 2 wrong usage.",
    .options = rows,
    .n_options = sizeof(rows) / sizeof(rows[0]),
    .operand = "action",
    .words = action_words,
};

// ---- Entries --------------------------------------------------------------------------------------

typedef struct listing_t {
  bool json, all; // and not damaged ones only
  uint64_t n, damaged, bytes;
} listing_t;

static void tell_entry(const listing_t *listing, const dt_cache_entry_t *entry) {
  char used[32] = "";
  time_t seconds = (time_t)(entry->used_ns / 1000000000);
  struct tm at;
  if (gmtime_r(&seconds, &at))
    (void)strftime(used, sizeof(used), "%Y-%m-%dT%H:%M:%SZ", &at);
  if (!listing->json) {
    (void)printf("%-20s %12llu  %-8s %s  %s\n", used, (unsigned long long)entry->bytes, entry->kind,
                 entry->name, entry->sound ? entry->of : "damaged");
    return;
  }
  (void)printf("{\"event\":\"entry\",\"name\":");
  cli_json_string(stdout, entry->name);
  (void)printf(",\"kind\":");
  cli_json_string(stdout, entry->kind);
  (void)printf(",\"of\":");
  cli_json_string(stdout, entry->of);
  (void)printf(",\"bytes\":%llu,\"used\":\"%s\",\"sound\":%s}\n", (unsigned long long)entry->bytes,
               used, entry->sound ? "true" : "false");
}

static void visit(void *closure, const dt_cache_entry_t *entry) {
  listing_t *listing = closure;
  listing->n++;
  listing->damaged += !entry->sound;
  listing->bytes += entry->bytes;
  if (listing->all || !entry->sound)
    tell_entry(listing, entry);
}

static int list(const options_t *options, bool all) {
  listing_t listing = {.json = options->json, .all = all};
  dt_status_t status = dt_cache_visit(options->folder, visit, &listing);
  if (status)
    return cli_failed(ME, all ? "ls" : "verify", status);
  (void)printf(options->json ? "{\"event\":\"total\",\"entries\":%llu,\"bytes\":%llu,"
                               "\"damaged\":%llu}\n"
                             : "%llu entries of %llu bytes, %llu damaged\n",
               (unsigned long long)listing.n, (unsigned long long)listing.bytes,
               (unsigned long long)listing.damaged);
  return !all && listing.damaged ? CLI_FAILED : CLI_DONE;
}

static int tell_removed(const options_t *options, uint64_t bytes) {
  (void)printf(options->json ? "{\"event\":\"removed\",\"bytes\":%llu}\n" : "%llu bytes removed\n",
               (unsigned long long)bytes);
  return CLI_DONE;
}

static int clean(const options_t *options) {
  uint64_t bytes = 0;
  dt_status_t status = dt_cache_clean(options->folder, (uint64_t)options->most << 20, &bytes);
  return status ? cli_failed(ME, "gc", status) : tell_removed(options, bytes);
}

static int drop(const options_t *options) {
  uint64_t bytes = 0;
  if (options->kind == NO_KIND)
    return cli_complain(ME, CLI_USAGE, "drop: of what? give --kind KIND, such as tuned");
  dt_status_t status = dt_cache_drop(options->folder, kinds[options->kind], &bytes);
  return status ? cli_failed(ME, "drop", status) : tell_removed(options, bytes);
}

int cli_cache(int argc, char **argv) {
  options_t options = {.most = 1024, .kind = NO_KIND};
  cli_operands_t actions;
  int result = CLI_DONE;
  if (!cli_parse(&cli_cache_table, argc, argv, &options, &actions, &result))
    return result;
  const char *action = actions.items[0];
  if (strcmp(action, "ls") == 0)
    return list(&options, true);
  if (strcmp(action, "verify") == 0)
    return list(&options, false);
  if (strcmp(action, "gc") == 0)
    return clean(&options);
  if (strcmp(action, "drop") == 0)
    return drop(&options);
  return cli_complain(ME, CLI_USAGE, "no action '%s'; expected ls, verify, gc or drop", action);
}
