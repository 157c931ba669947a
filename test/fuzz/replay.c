// SPDX-License-Identifier: Apache-2.0
// usage: REPLAY FOLDER…. Runs a fuzz target once on each file of the folders, without a fuzzer: in
// every build, so that what was found once is tried for ever.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_BYTES ((size_t)1 << 24)
// For one file, also with sanitizers on a busy machine; more ends the program.
#define MOST_SECONDS 60u

static int replay(const char *folder, const char *name) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  uint8_t *data = malloc(MOST_BYTES);
  size_t size = file && data ? fread(data, 1, MOST_BYTES, file) : 0;
  int failed = !file || !data || ferror(file);
  if (file)
    (void)fclose(file);
  // A block of exactly this size lets the address sanitizer see what reads beyond it.
  uint8_t *exact = failed ? NULL : realloc(data, size ? size : 1);
  (void)alarm(MOST_SECONDS);
  if (exact)
    (void)LLVMFuzzerTestOneInput(exact, size);
  else
    (void)fprintf(stderr, "%s: cannot be read\n", path);
  free(exact ? exact : data);
  return !exact;
}

int main(int argc, char **argv) {
  int files = 0, failed = 0;
  for (int k = 1; k < argc; k++) {
    DIR *folder = opendir(argv[k]);
    if (!folder)
      (void)fprintf(stderr, "%s: no such folder\n", argv[k]);
    failed += !folder;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
      if (entry->d_name[0] == '.')
        continue;
      failed += replay(argv[k], entry->d_name);
      files++;
    }
    if (folder)
      (void)closedir(folder);
  }
  printf("%d files replayed\n", files);
  return failed > 0 || files == 0;
}
