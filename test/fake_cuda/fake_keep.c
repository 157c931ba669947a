// SPDX-License-Identifier: Apache-2.0
// Keeps the PTX that it is given, one file a text, for NVIDIA's assembler to look at
// (scripts/assemble): FAKE_CUDA_KEEP names the folder, which exists.
#include "test/fake_cuda/fake_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash(const char *text) { // FNV-1a
  uint64_t h = 0xcbf29ce484222325u;
  for (; *text; text++)
    h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  return h;
}

// Other processes may write the same text at the same time: each a file of its own first.
void fake_keep(const char *text) {
  const char *folder = getenv("FAKE_CUDA_KEEP");
  const char *target = strstr(text, ".target ");
  if (!folder || !folder[0] || !target)
    return;
  target += strlen(".target ");
  char path[512], own[544];
  int n = snprintf(path, sizeof(path), "%s/%.*s-%016llx.ptx", folder,
                   (int)strcspn(target, " ,\t\n"), target, (unsigned long long)hash(text));
  if (n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) == 0)
    return;
  (void)snprintf(own, sizeof(own), "%s.%d", path, (int)getpid());
  FILE *file = fopen(own, "wb");
  bool good = file && fputs(text, file) >= 0;
  if (file)
    good &= fclose(file) == 0;
  if (!good || rename(own, path) != 0) {
    (void)fprintf(stderr, "FAIL %s cannot be written\n", path);
    abort();
  }
}
