// SPDX-License-Identifier: Apache-2.0
// Log channels, the sink, and dumps.
#include "test/support/check.h"

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "test/support/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sink_t {
  char text[8192];
  size_t len;
  int lines;
} sink_t;

static void collect(void *user, const char *line, size_t len) {
  sink_t *sink = user;
  assert_true(len > 0 && line[len - 1] == '\n');
  assert_true(sink->len + len < sizeof(sink->text));
  memcpy(sink->text + sink->len, line, len);
  sink->len += len;
  sink->text[sink->len] = '\0';
  sink->lines++;
}

static void test_configure(void **state) {
  (void)state;
  assert_null(dt_log_configure("guards:2, recompiles,lower:3"));
  assert_true(dt__log_on(DT_LOG_GUARDS, 2));
  assert_false(dt__log_on(DT_LOG_GUARDS, 3));
  assert_true(dt__log_on(DT_LOG_RECOMPILES, 1));
  assert_false(dt__log_on(DT_LOG_RECOMPILES, 2));
  assert_true(dt__log_on(DT_LOG_FOLD, 3));
  assert_false(dt__log_on(DT_LOG_EXEC, 1));

  assert_null(dt_log_configure("all,exec:0,lower.fold:255"));
  assert_true(dt__log_on(DT_LOG_FUSION, 1));
  assert_false(dt__log_on(DT_LOG_EXEC, 1));
  assert_true(dt__log_on(DT_LOG_FOLD, 255));

  assert_null(dt_log_configure(""));
  for (int i = 0; i < DT_LOG_COUNT; i++)
    assert_false(dt__log_on((dt_channel_t)i, 1));
  assert_null(dt_log_configure(NULL));
  assert_null(dt_log_configure(" , ,"));
}

static void test_configure_refuses(void **state) {
  (void)state;
  assert_null(dt_log_configure("exec"));
  const char *bad[] = {"guard",     "lower.fol", "guards:", "guards:x",    "guards:256",
                       "guards:-1", ":2",        "low",     "exec,nothing"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    expect_told_of(bad[i], dt_log_configure(bad[i]), DT_E_ARGUMENT, "");
    assert_true(dt__log_on(DT_LOG_EXEC, 1)); // nothing changed
  }
  expect_parts(dt_log_configure("typo"), DT_E_ARGUMENT,
               EACH_OF("'typo'", "recompiles", "lower.fold"));
}

static void test_sink(void **state) {
  (void)state;
  sink_t sink = {.len = 0};
  dt_log_sink_set(collect, &sink);
  assert_null(dt_log_configure("guards"));
  DT_LOG(DT_LOG_GUARDS, 1, "size %d", 3);
  DT_LOG(DT_LOG_GUARDS, 2, "not this");
  DT_LOG(DT_LOG_EXEC, 1, "nor this");
  DT_LOG(DT_LOG_GUARDS, 1, "ends itself\n");
  assert_string_equal(sink.text, "ductile [guards] size 3\nductile [guards] ends itself\n");
  assert_int_equal(sink.lines, 2);

  // Around and beyond the small buffer.
  char body[3000];
  for (size_t len = 980; len <= 1030; len++) {
    memset(body, 'b', len);
    body[len] = '\0';
    sink = (sink_t){.len = 0};
    dt__log_write(DT_LOG_GUARDS, "%s", body);
    assert_int_equal(sink.len, strlen("ductile [guards] ") + len + 1);
    assert_memory_equal(sink.text + strlen("ductile [guards] "), body, len);
  }
  sink = (sink_t){.len = 0};
  memset(body, 'b', sizeof(body) - 1);
  body[sizeof(body) - 1] = '\0';
  (void)dt__heap_fail_at(1, true);
  dt__log_write(DT_LOG_GUARDS, "%s", body);
  (void)dt__heap_fail_at(0, false);
  assert_int_equal(sink.lines, 1); // cut, not lost
  assert_true(sink.len > 900 && sink.len <= 1024);
  dt_log_sink_set(NULL, NULL);
  assert_null(dt_log_configure(""));
}

static void test_stderr(void **state) {
  (void)state;
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  int saved = dup(STDERR_FILENO);
  (void)dup2(pipes[1], STDERR_FILENO);
  dt__log_write(DT_LOG_EXEC, "to %s", "stderr");
  (void)dup2(saved, STDERR_FILENO);
  (void)close(pipes[1]);
  (void)close(saved);
  char text[100] = {0};
  assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
  (void)close(pipes[0]);
  assert_string_equal(text, "ductile [exec] to stderr\n");
}

static void expect_file(const char *path, const char *expected) {
  char *text = file_read(path, NULL);
  assert_string_equal(text, expected);
  free(text);
}

static void test_dump(void **state) {
  (void)state;
  char root[FOLDER_BYTES], folder[128], path[256];
  folder_make(root);
  (void)snprintf(folder, sizeof(folder), "%s/a/b", root);

  assert_false(dt__dump_on("graph"));
  assert_null(dt__dump_configure("graph, llvm", folder));
  assert_true(dt__dump_on("graph"));
  assert_true(dt__dump_on("llvm"));
  assert_false(dt__dump_on("loops"));
  assert_false(dt__dump_on("grap"));
  assert_false(dt__dump_on(""));
  mode_t mask = umask(0);
  dt__dump("f", 2, 3, "graph", "text of it\n");
  (void)umask(mask);
  struct stat info;
  assert_int_equal(stat(folder, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0755);
  (void)snprintf(path, sizeof(path), "%s/f.2.03-graph.dtt", folder);
  expect_file(path, "text of it\n");
  dt__dump("f", 2, 3, "graph", ""); // written anew
  expect_file(path, "");
  (void)unlink(path);

  // A name cannot leave the folder.
  dt__dump("../../x", 0, 12, "llvm", "y");
  (void)snprintf(path, sizeof(path), "%s/_._.._x.0.12-llvm.dtt", folder);
  expect_file(path, "y");
  (void)unlink(path);

  // A failure is logged even with all channels off.
  sink_t sink = {.len = 0};
  dt_log_sink_set(collect, &sink);
  (void)rmdir(folder);
  int fd = open(folder, O_CREAT | O_WRONLY, 0600);
  (void)close(fd);
  dt__dump("f", 0, 0, "graph", "z");
  dt_log_sink_set(NULL, NULL);
  assert_int_equal(sink.lines, 1);
  assert_non_null(strstr(sink.text, "not written"));
  (void)unlink(folder);
  (void)snprintf(folder, sizeof(folder), "%s/a", root);
  (void)rmdir(folder);
  assert_int_equal(rmdir(root), 0); // nothing else was left

  assert_null(dt__dump_configure("all", "somewhere"));
  assert_true(dt__dump_on("anything"));
  assert_null(dt__dump_configure("", NULL));
  assert_false(dt__dump_on("anything"));
  dt__dump("f", 0, 0, "graph", "nowhere to go");
  expect_code(dt__dump_configure("graph", ""), DT_E_ARGUMENT);
}

RUN_TESTS(TEST(test_configure), TEST(test_configure_refuses), TEST(test_sink), TEST(test_stderr),
          TEST(test_dump))
