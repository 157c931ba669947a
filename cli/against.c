// SPDX-License-Identifier: Apache-2.0
// onnxruntime through its Python package, in a process of its own: a line a set on its standard
// output, results beside those that they are compared with.
#include "cli/against.h"
#include "cli/tensor_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Arguments: model, folder, sets, seconds, threads.
static const char script[] =
    "import sys, time\n"
    "try:\n"
    "    import numpy as np, onnxruntime as ort\n"
    "except ImportError as error:\n"
    "    print('!', error)\n"
    "    sys.exit(1)\n"
    "model, folder, sets, seconds, threads = sys.argv[1:]\n"
    "options = ort.SessionOptions()\n"
    "options.intra_op_num_threads = int(threads)\n"
    "options.add_session_config_entry('session.intra_op.allow_spinning', '0')\n"
    "session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])\n"
    "names = [value.name for value in session.get_inputs()]\n"
    "for number in range(int(sets)):\n"
    "    place = f'{folder}/set_{number}'\n"
    "    feed = {name: np.load(f'{place}/input_{k}.npy') for k, name in enumerate(names)}\n"
    "    results, times = session.run(None, feed), []\n"
    "    end = time.perf_counter() + float(seconds)\n"
    "    while len(times) < 5 or (time.perf_counter() < end and len(times) < 100000):\n"
    "        begin = time.perf_counter()\n"
    "        session.run(None, feed)\n"
    "        times.append(time.perf_counter() - begin)\n"
    "    times.sort()\n"
    "    for k, result in enumerate(results):\n"
    "        np.save(f'{place}/against_{k}.npy', result)\n"
    "    last = len(times) - 1\n"
    "    print(number, times[last // 2], times[min(last, int(last * 0.99) + 1)], flush=True)\n";

static pid_t start(const cli_against_t *against, int *out_fd) {
  char sets[16], seconds[32], threads[16];
  int ends[2];
  (void)snprintf(sets, sizeof(sets), "%u", against->n_sets);
  (void)snprintf(seconds, sizeof(seconds), "%.6f", against->seconds);
  (void)snprintf(threads, sizeof(threads), "%u", against->threads);
  if (pipe(ends) != 0)
    return -1;
  pid_t child = fork();
  if (child == 0) {
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)execlp(against->python, against->python, "-c", script, against->model, against->folder,
                 sets, seconds, threads, (char *)NULL);
    _exit(127);
  }
  (void)close(ends[1]);
  if (child < 0)
    (void)close(ends[0]);
  *out_fd = ends[0];
  return child;
}

static bool compare_set(const cli_against_t *against, uint32_t set, cli_against_result_t *out,
                        char message[CLI_MESSAGE]) {
  const cli_tolerance_t usual = {-1, -1, -1};
  out->same = true;
  for (uint32_t k = 0; k < against->n_outputs; k++) {
    char ours[PATH_MAX], theirs[PATH_MAX], reason[CLI_MESSAGE];
    dt_tensor_t *a = NULL, *b = NULL;
    (void)snprintf(ours, sizeof(ours), "%.3900s/set_%u/output_%u.npy", against->folder, set, k);
    (void)snprintf(theirs, sizeof(theirs), "%.3900s/set_%u/against_%u.npy", against->folder, set,
                   k);
    bool read = cli_tensor_read(ours, "", &a, message) && cli_tensor_read(theirs, "", &b, message);
    out->same = read && cli_compare(a, b, &usual, &out->errors, reason) && out->same;
    dt_tensor_release(a);
    dt_tensor_release(b);
    if (!read)
      return false;
  }
  return true;
}

static bool read_lines(const cli_against_t *against, FILE *lines, cli_against_result_t *results,
                       char message[CLI_MESSAGE]) {
  char line[512];
  uint32_t n = 0, set = 0;
  while (fgets(line, sizeof(line), lines)) {
    cli_against_result_t one = {0};
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '!')
      return cli_wrong(message, "%s: %.400s", against->python, line + 2);
    // NOLINTNEXTLINE(cert-err34-c): our own script's numbers
    if (sscanf(line, "%u %lf %lf", &set, &one.median_s, &one.p99_s) != 3 || set != n)
      return cli_wrong(message, "%s: not understood: %.200s", against->python, line);
    results[n++] = one;
  }
  return n == against->n_sets || cli_wrong(message, "%s: onnxruntime ended behind %u of %u sets",
                                           against->python, n, against->n_sets);
}

bool cli_against_run(const cli_against_t *against, cli_against_result_t *results,
                     char message[CLI_MESSAGE]) {
  int fd = -1, status = 0;
  (void)fflush(stdout);
  pid_t child = start(against, &fd);
  FILE *lines = child > 0 ? fdopen(fd, "r") : NULL;
  if (!lines)
    return cli_wrong(message, "%s: %s", against->python, strerror(errno));
  bool good = read_lines(against, lines, results, message);
  (void)fclose(lines);
  (void)waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return cli_wrong(message, "%s: there is no such interpreter", against->python);
  for (uint32_t set = 0; good && set < against->n_sets; set++)
    good = compare_set(against, set, &results[set], message);
  return good;
}
