// SPDX-License-Identifier: Apache-2.0
// Files as bytes in memory.
#include "cli/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_wrong(char message[CLI_MESSAGE], const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(message, CLI_MESSAGE, fmt, args);
  va_end(args);
  return false;
}

// Reads until `room` bytes are there or the file ends; -1 with errno set.
static ssize_t read_full(int fd, unsigned char *to, size_t room) {
  size_t got = 0;
  while (got < room) {
    ssize_t n = read(fd, to + got, room - got < (1U << 30) ? room - got : 1U << 30);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

static bool read_open(int fd, cli_bytes_t *out, char message[CLI_MESSAGE]) {
  struct stat about;
  if (fstat(fd, &about) != 0)
    return cli_wrong(message, "%s", strerror(errno));
  if (!S_ISREG(about.st_mode))
    return cli_wrong(message, "not a regular file");
  if ((uint64_t)about.st_size > CLI_FILE_LIMIT)
    return cli_wrong(message, "%lld bytes; at most %zu are read", (long long)about.st_size,
                     CLI_FILE_LIMIT);
  size_t size = (size_t)about.st_size;
  unsigned char *memory = malloc(size + 1);
  if (!memory)
    return cli_wrong(message, "no memory for %zu bytes", size);
  ssize_t got = read_full(fd, memory, size);
  if (got < 0 || (size_t)got != size) {
    free(memory);
    return got < 0 ? cli_wrong(message, "%s", strerror(errno))
                   : cli_wrong(message, "it became shorter while it was read");
  }
  *out = (cli_bytes_t){memory, size, memory};
  return true;
}

bool cli_bytes_read(const char *path, cli_bytes_t *out, char message[CLI_MESSAGE]) {
  *out = (cli_bytes_t){NULL, 0, NULL};
  // A pipe must not hold the command up before it is known to be none.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return cli_wrong(message, "%s", strerror(errno));
  bool done = read_open(fd, out, message);
  (void)close(fd);
  return done;
}

void cli_bytes_free(cli_bytes_t *bytes) {
  free(bytes->owned);
  *bytes = (cli_bytes_t){NULL, 0, NULL};
}
