// SPDX-License-Identifier: Apache-2.0
// What Linux perf is told of code: a map whose lines are addresses, sizes and names, and a jitdump
// whose records are those of the format, with the code itself.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "runtime/exec/perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void map_path(char *out, size_t bytes) {
  (void)snprintf(out, bytes, "/tmp/perf-%ld.map", (long)getpid());
}

typedef struct code_t {
  unsigned long long address, bytes;
  char name[128];
} code_t;

// A line of the map that is a kernel of the function; the number of lines.
static int read_map(const char *text, const char *name, code_t *out) {
  int lines = 0;
  *out = (code_t){0};
  for (const char *at = text; *at; lines++) {
    code_t code = {0};
    int used = 0;
    assert_int_equal(
        sscanf(at, "%llx %llx %127[^\n]%n", &code.address, &code.bytes, code.name, &used), 3);
    assert_int_equal(at[used], '\n');
    assert_true(code.address > 0 && code.bytes > 0 && !strchr(code.name, ' '));
    if (strcmp(code.name, name) == 0)
      *out = code;
    at += used + 1;
  }
  return lines;
}

static int read_dump(const char *data, size_t bytes, const code_t *wanted, bool *out_found) {
  dt_jitdump_head_t head;
  int records = 0;
  uint64_t last = 0;
  assert_true(bytes >= sizeof(head));
  memcpy(&head, data, sizeof(head));
  assert_int_equal(head.magic, 0x4A695444);
  assert_int_equal(head.version, 1);
  assert_int_equal(head.bytes, sizeof(head));
  assert_int_equal(head.pid, getpid());
  size_t at = head.bytes;
  for (; at < bytes; records++) {
    dt_jitdump_load_t load;
    assert_true(bytes - at >= sizeof(load));
    memcpy(&load, data + at, sizeof(load));
    assert_true(load.bytes <= bytes - at);
    const char *name = data + at + sizeof(load);
    size_t len = strnlen(name, load.bytes - sizeof(load));
    assert_int_equal(load.id, DT_JITDUMP_LOAD);
    assert_int_equal(load.bytes, sizeof(load) + len + 1 + load.code_bytes);
    assert_true(load.index > last && load.ns >= head.ns);
    last = load.index;
    if (strcmp(name, wanted->name) == 0 && load.code_address == wanted->address) {
      assert_int_equal(load.code_bytes, wanted->bytes);
      *out_found =
          memcmp(name + len + 1, (const void *)(uintptr_t)load.code_address, load.code_bytes) == 0;
    }
    at += load.bytes;
  }
  assert_int_equal(at, bytes);
  return records;
}

static void test_code_is_told(void **state) {
  (void)state;
  char folder[FOLDER_BYTES], dump[FOLDER_BYTES + 32], map[64];
  folder_make(folder);
  variable_set("DUCTILE_PERF", "map,jitdump");
  variable_set("DUCTILE_PERF_DIR", folder);
  map_path(map, sizeof(map));
  (void)snprintf(dump, sizeof(dump), "%s/jit-%ld.dump", folder, (long)getpid());
  fixture_t one = {.runtime = runtime_of(1)}, other = {.runtime = runtime_of(1)}; // share the files
  one.session = session_of(one.runtime);
  other.session = session_of(other.runtime);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(7)), *y = NULL;
  options.name = "a name";
  dt_function_t *f = function_of(&one, negate_program, NULL, &options);
  expect_ok(dt_call(one.session, f, &x, 1, &y, 1, NULL));
  RELEASE(y);
  options.name = "second";
  dt_function_t *g = function_of(&other, negate_program, NULL, &options);
  y = NULL;
  expect_ok(dt_call(other.session, g, &x, 1, &y, 1, NULL));
  char *text = file_read(map, NULL);
  code_t code, second;
  int lines = read_map(text, "a_name.0.k0", &code);
  assert_int_equal(read_map(text, "second.0.k0", &second), lines);
  size_t bytes = 0;
  char *data = file_read(dump, &bytes);
  bool found = false;
  assert_int_equal(read_dump(data, bytes, &code, &found), lines);
  if (compiled_answer() == DT_ANSWER_COMPILED) {
    assert_true(code.address && second.address);
    assert_true(found);
    found = false;
    (void)read_dump(data, bytes, &second, &found);
    assert_true(found);
  }
  free(text);
  free(data);
  RELEASE(x, y);
  dt_function_release(f);
  dt_function_release(g);
  fixture_end(&one);
  fixture_end(&other);
  // A file of a process that is gone is begun anew.
  file_write(dump, "junk", 4);
  dt_runtime_release(runtime_of(1));
  data = file_read(dump, &bytes);
  assert_int_equal(read_dump(data, bytes, &code, &found), 0);
  free(data);
  (void)unlink(map);
  assert_int_equal(folder_drop(folder), 0);
}

static void test_what_is_wrong_is_told(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  variable_set("DUCTILE_PERF", "everything");
  expect_told(dt_runtime_create(NULL, &runtime), DT_E_ARGUMENT, "expected map, jitdump");
  variable_set("DUCTILE_PERF", "jitdump");
  variable_set("DUCTILE_PERF_DIR", "/none/such");
  expect_told(dt_runtime_create(NULL, &runtime), DT_E_IO, "/none/such");
  variable_set("DUCTILE_PERF", NULL);
  variable_set("DUCTILE_PERF_DIR", NULL);
}

RUN_TESTS(TEST(test_code_is_told), TEST(test_what_is_wrong_is_told))
