// SPDX-License-Identifier: Apache-2.0
// Whole variants kept on disk: the next runtime compiles nothing, answers the same and says the
// same of bad data; an entry that is damaged, or of a program that differs in anything, is not
// used.
#include "test/support/entry.h"
#include "test/support/subjects.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/log.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/support/folder.h"
#include "test/unit/cuda/exec/twice_op.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[FOLDER_BYTES];

static uint64_t links(void) { return fake_cuda_calls(DT_CUDA_SYM_link_complete); }

// Entries of this kind; each is handed to `visit`, which may be NULL.
static uint32_t count_entries(const char *kind, void (*visit)(const char *path)) {
  uint32_t n = 0;
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    const char *dot = strrchr(entry->d_name, '.');
    char path[384];
    if (!dot || strcmp(dot + 1, kind) != 0)
      continue;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (visit)
      visit(path);
    n++;
  }
  if (dir)
    (void)closedir(dir);
  return n;
}

static void drop(const char *path) { (void)unlink(path); }

static void empty_folder(void) {
  (void)count_entries("variant", drop);
  (void)count_entries("cubin", drop);
}

// ---- Programs ---------------------------------------------------------------------------------------

// whole_subject without a result of a size from data: the number stays on the device, and so do its
// checks.
static dt_status_t queued_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_status_t status = whole_subject.program(t, in, out, closure);
  out[1] = dt_sum(t, out[1], 0, NULL, false);
  return status;
}
static subject_t queued_subject(void) {
  subject_t subject = whole_subject;
  subject.name = "queued";
  subject.program = queued_program;
  return subject;
}

// ---- Runs -------------------------------------------------------------------------------------------

static dt_tensor_t *moved(dt_session_t *session, dt_tensor_t *from, bool to_device) {
  dt_tensor_t *to = NULL;
  if (to_device)
    expect_ok(dt_tensor_create_on(session, dt_tensor_dtype(from), dt_tensor_rank(from),
                                  dt_tensor_sizes(from), &to));
  else
    expect_ok(dt_tensor_create_empty(dt_tensor_dtype(from), dt_tensor_rank(from),
                                     dt_tensor_sizes(from), &to));
  expect_ok(dt_tensor_copy(session, from, to));
  return to;
}

// One runtime's life: calls at two sizes against the evaluator, and a call whose data is wrong.
static void live_with(const subject_t *subject, const int64_t *wrong, dt_code_t code) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *host = NULL, *device = NULL;
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 2};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  rng_t rng = {5};
  const int64_t three = 3;
  dt_tensor_t *w = tensor_f32(&rng, 1, &three);
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &host));
  expect_ok(dt_session_create(runtime, &on, &device));
  dt_function_t *function = subject_function(runtime, subject, w, DT_ANSWER_COMPILED);
  dt_function_t *oracle = subject_function(runtime, subject, w, DT_ANSWER_EVALUATOR);
  const int64_t sizes[][2] = {{4, 5}, {7, 33}}, ids[] = {3, 0, 2};
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *in[] = {tensor_f32(&rng, 2, sizes[k]), tensor_i64(1, &three, ids)};
    dt_tensor_t *there[] = {moved(device, in[0], true), moved(device, in[1], true)};
    dt_tensor_t *got[2] = {NULL}, *want[2] = {NULL};
    expect_ok(dt_call(device, function, there, 2, got, 2, NULL));
    expect_ok(dt_call(host, oracle, in, 2, want, 2, NULL));
    for (uint32_t r = 0; r < 2; r++) {
      dt_tensor_t *back = moved(device, got[r], false);
      expect_ok(dt_session_wait(device));
      expect_close(back, want[r], 1e-6, 1e-5, "all");
      RELEASE(back, got[r], want[r], in[r], there[r]);
    }
  }
  dt_tensor_t *in[] = {tensor_f32(&rng, 2, sizes[0]), tensor_i64(1, &three, wrong)};
  dt_tensor_t *there[] = {moved(device, in[0], true), moved(device, in[1], true)};
  dt_tensor_t *none[2] = {NULL};
  dt_status_t status = dt_call(device, function, there, 2, none, 2, NULL);
  expect_told(status ? status : dt_session_wait(device), code, "(subjects.c:");
  for (uint32_t r = 0; r < 2; r++) {
    RELEASE(in[r], there[r], none[r]);
  }
  dt_function_release(function);
  dt_function_release(oracle);
  dt_session_destroy(device);
  dt_session_destroy(host);
  dt_runtime_release(runtime);
  dt_tensor_release(w);
}

static void live(const subject_t *subject) {
  const int64_t outside[] = {1, -9, 0};
  live_with(subject, outside, DT_E_RANGE);
}

// ---- Tests ------------------------------------------------------------------------------------------

static void the_next_runtime_compiles_nothing(void **state) {
  (void)state;
  empty_folder();
  uint64_t before = links(), none = fake_cuda_early();
  live(&whole_subject);
  uint64_t early = fake_cuda_early() - none;
  assert_true(early > 0);
  uint64_t after = links();
  assert_true(after > before);
  assert_int_equal(count_entries("variant", NULL), 1);
  (void)count_entries("cubin", drop); // of no use to whoever has the variant
  live(&whole_subject);
  assert_int_equal(fake_cuda_early() - none, 2 * early); // launched in the same way
  assert_int_equal(links(), after);
  assert_int_equal(count_entries("cubin", NULL), 0);
}

static void checks_of_numbers_are_kept(void **state) {
  (void)state;
  const subject_t queued = queued_subject();
  const int64_t last[] = {-1, -1, -1}; // a row, but no length
  empty_folder();
  live_with(&queued, last, DT_E_SHAPE);
  uint64_t after = links();
  assert_int_equal(count_entries("variant", NULL), 1);
  live_with(&queued, last, DT_E_SHAPE);
  live(&queued);
  assert_int_equal(links(), after);
}

static void other_facts_are_another_entry(void **state) {
  (void)state;
  empty_folder();
  live(&whole_subject);
  live(&whole_short_subject);
  assert_int_equal(count_entries("variant", NULL), 2);
}

static size_t cut_at; // bytes that are left of an entry, or where one bit is turned
static bool cut;

static void damage(const char *path) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  if (cut) {
    assert_int_equal(ftruncate(fileno(file), (off_t)cut_at), 0);
  } else {
    assert_int_equal(fseek(file, -(long)cut_at, SEEK_END), 0);
    int c = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    (void)fputc(c ^ 0x10, file);
  }
  (void)fclose(file);
}

static void damaged_entries_are_made_anew(void **state) {
  (void)state;
  const struct {
    bool cut;
    size_t at;
  } cases[] = {{true, 0}, {true, 40}, {true, 20000}, {false, 1}, {false, 900}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    empty_folder();
    live(&whole_subject);
    cut = cases[k].cut;
    cut_at = cases[k].at;
    assert_int_equal(count_entries("variant", damage), 1);
    (void)count_entries("cubin", drop);
    uint64_t before = links();
    live(&whole_subject);
    uint64_t after = links();
    assert_true(after > before);
    live(&whole_subject);
    assert_int_equal(links(), after);
  }
}

// ---- Entries that are sound and say something else ---------------------------------------------------

// The word that says how many segments there are; behind it come the number of results, their
// segments, bytes computed once, launches, regions, others, loops, symbols and sizes of results.
static size_t segments_at(const entry_t *e) {
  size_t at = entry_kernels(e);
  return entry_behind(e, at, 2 + 10 * entry_word(e, at)); // and no calls of users' ops
}

static const char *renamed; // a function of the host's that is called otherwise; NULL: a word
static size_t behind;       // what word it is, counted from that of segments
static uint64_t becomes;

static void forge(const char *path) {
  entry_t e = entry_open(path);
  if (renamed) {
    char *name = memmem(e.data, e.bytes, renamed, strlen(renamed) + 1);
    assert_non_null(name);
    name[0] = 'x';
  } else {
    size_t at = entry_behind(&e, segments_at(&e), behind);
    assert_true(entry_word(&e, at) != becomes);
    entry_set(&e, at, becomes);
  }
  entry_keep(&e, folder);
}

static void forged_entries_are_made_anew(void **state) {
  (void)state;
  const struct {
    const char *renamed;
    size_t behind;
    uint64_t becomes;
  } cases[] = {
      {"dt_once", 0, 0},      {"dt_plan_1", 0, 0}, {NULL, 0, 0}, // segments
      {NULL, 0, 9},           {NULL, 1, 1},                      // results,
      {NULL, 2, 77},                                             // and the segment of the first
      {NULL, 5, 77},                                             // whose memory the first may have
      {NULL, 7, 1},                                              // results that are copies
      {NULL, 10, 127},                       // bytes computed once: less than none
      {NULL, 15, 0},                         // symbols
      {NULL, 15, UINT32_MAX}, {NULL, 16, 5}, // sizes of results
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    empty_folder();
    live(&whole_subject);
    renamed = cases[k].renamed;
    behind = cases[k].behind;
    becomes = cases[k].becomes;
    assert_int_equal(count_entries("variant", forge), 1);
    (void)count_entries("cubin", drop);
    uint64_t before = links();
    live(&whole_subject);
    if (links() == before)
      fail_msg("case %zu: the entry was taken", k);
  }
}

// A cubin that the driver refuses inside of an entry that is otherwise sound.
static void a_refused_cubin_is_made_anew(void **state) {
  (void)state;
  empty_folder();
  live(&whole_subject);
  const dt_cu_result_t results[] = {209, 12345}; // no binary for this device, and what has no name
  for (size_t k = 0; k < 2; k++) {
    uint64_t before = links();
    fake_cuda_fail(DT_CUDA_SYM_module_load, 0, results[k], false);
    (void)count_entries("cubin", drop);
    live(&whole_subject);
    assert_true(links() > before);
  }
}

static void hear_why(void *user, const char *line, size_t len) {
  bool *told = user;
  *told |= memmem(line, len, "reads numbers from data on the host", 35) != NULL;
}

// Whoever looks for what slows a program down sees the same in the next process.
static void why_it_reads_is_told_again(void **state) {
  (void)state;
  empty_folder();
  for (uint32_t k = 0; k < 2; k++) {
    bool told = false;
    uint64_t before = links();
    variable_set("DUCTILE_LOG", "compile:1");
    dt_log_sink_set(hear_why, &told);
    live(&whole_subject);
    dt_log_sink_set(NULL, NULL);
    variable_set("DUCTILE_LOG", NULL);
    assert_int_equal(links() > before, k == 0);
    assert_true(told);
  }
}

// ---- Ops of users -----------------------------------------------------------------------------------

static bool found, refused; // what the log said of entries
static const char *refusal; // what it is refused for

static void hear_of_entries(void *user, const char *line, size_t len) {
  (void)user;
  found |= memmem(line, len, "[cache] all of", 14) != NULL;
  refused |= refusal && memmem(line, len, "[cache] a variant is not used", 29) &&
             memmem(line, len, refusal, strlen(refusal));
}

// One runtime's life with the op, whose attribute values an entry has to keep. Whether the variant
// came from the disk.
static bool live_with_op(dt_op_options_t op) {
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(1, vector);
  found = refused = false;
  variable_set("DUCTILE_LOG", "cache:2");
  dt_log_sink_set(hear_of_entries, NULL);
  fixture_t f = fixture_on(DT_CUDA, 1);
  f.rng = (rng_t){3};
  expect_ok(dt_op_register(f.runtime, &op));
  dt_function_t *function = function_of(&f, twice_program, NULL, &options);
  for (int64_t n = 0; n < 200; n += 66) {
    dt_tensor_t *x = tensor_f32(&f.rng, 1, &n), *there = tensor_upload(f.session, x), *out = NULL;
    expect_ok(dt_call(f.session, function, &there, 1, &out, 1, NULL));
    dt_tensor_t *back = tensor_download(f.session, out);
    for (int64_t i = 0; i < n; i++) {
      float sum = 2 * (((const float *)dt_tensor_data(x))[i] + 1) + 3;
      assert_true(((const float *)dt_tensor_data(back))[i] == (sum < 0 ? -sum : 0));
    }
    RELEASE(x, there, out, back);
  }
  assert_int_equal(stats_of(function).evaluator_calls, 0);
  dt_function_release(function);
  fixture_end(&f);
  dt_log_sink_set(NULL, NULL);
  variable_set("DUCTILE_LOG", NULL);
  return found;
}

static void calls_of_users_ops_are_kept_by_name(void **state) {
  (void)state;
  dt_op_options_t op = twice_op();
  empty_folder();
  assert_false(live_with_op(op));
  assert_int_equal(count_entries("variant", NULL), 1);
  uint64_t after = links();
  assert_true(live_with_op(op));
  assert_int_equal(links(), after); // nor is the op's PTX linked again
  (void)count_entries("cubin", drop);
  assert_true(live_with_op(op)); // which is the op's to bring: an entry has none of it
  assert_int_equal(links(), after + 1);
  op.identity = "another";
  assert_false(live_with_op(op));
  assert_int_equal(count_entries("variant", NULL), 2);
  assert_true(live_with_op(op));
}

// Attributes of all kinds and a device kernel that reads none of them.
static dt_status_t of_attrs(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  static const int64_t ints[] = {1, -2, 3};
  static const double floats[] = {0.5, -0.0};
  const dt_op_attr_t attrs[] = {
      {.name = "int", .kind = DT_OP_ATTR_INT, .i = -7},
      {.name = "float", .kind = DT_OP_ATTR_FLOAT, .f = 1e300},
      {.name = "text", .kind = DT_OP_ATTR_TEXT, .text = "of a \"text\"\n"},
      {.name = "ints", .kind = DT_OP_ATTR_INTS, .n = 3, .ints = ints},
      {.name = "floats", .kind = DT_OP_ATTR_FLOATS, .n = 2, .floats = floats},
      {.name = "none", .kind = DT_OP_ATTR_INTS}};
  (void)closure;
  dt_op_call(t, "test.twice", 1, in, 6, attrs, 1, out);
  return NULL;
}

static void calls_with_attributes_are_kept(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_op_options_t op = twice_op();
  empty_folder();
  uint64_t made[2];
  for (int k = 0; k < 2; k++) {
    fixture_t f = fixture_on(DT_CUDA, 1);
    dt_function_options_t options = options_of(1, vector);
    uint64_t before = links();
    expect_ok(dt_op_register(f.runtime, &op));
    dt_function_t *function = function_of(&f, of_attrs, NULL, &options);
    dt_tensor_t *x = tensor_full(3, 1, SIZES(70)), *there = tensor_upload(f.session, x),
                *out = NULL;
    expect_ok(dt_call(f.session, function, &there, 1, &out, 1, NULL));
    dt_tensor_t *back = tensor_download(f.session, out);
    assert_true(((const float *)dt_tensor_data(back))[69] == 6);
    RELEASE(x, there, out, back);
    dt_function_release(function);
    fixture_end(&f);
    made[k] = links() - before;
  }
  assert_true(made[0] > 0);
  assert_int_equal(made[1], 0);
  assert_int_equal(count_entries("variant", NULL), 1);
}

static void an_op_that_is_gone_is_refused_by_name(void **state) {
  (void)state;
  static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_op_options_t op = twice_op();
  empty_folder();
  assert_false(live_with_op(op));
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_function_options_t options = options_of(1, vector);
  dt_function_t *function = function_of(&f, twice_program, NULL, &options);
  dt_tensor_t *x = tensor_full(3, 1, SIZES(5)), *there = tensor_upload(f.session, x), *out = NULL;
  expect_told(dt_call(f.session, function, &there, 1, &out, 1, NULL), DT_E_UNSUPPORTED,
              "test.twice: the function's runtime has no such op");
  RELEASE(x, there);
  dt_function_release(function);
  fixture_end(&f);
}

static const char *exchanged, *with; // texts of an entry's data, of one length
static int word;                     // or: of the call's, -1: the length of its name

static void exchange(const char *path) {
  entry_t e = entry_open(path);
  if (exchanged) {
    memcpy(e.data + entry_find(&e, exchanged) + 1, with, strlen(with));
  } else {
    size_t at = entry_find(&e, "test.twice");
    if (word >= 0)
      at = entry_behind(&e, entry_behind_bytes(&e, entry_behind_bytes(&e, at)), (size_t)word);
    entry_set(&e, at, becomes);
  }
  entry_keep(&e, folder);
}

// Words behind the op's name and identity: part, inputs, updates (two), tensors, of each its dtype
// and rank, and attributes.
static void forged_calls_are_made_anew(void **state) {
  (void)state;
  static const struct {
    const char *exchanged, *with;
    int word;
    uint64_t becomes;
    const char *refusal;
  } cases[] = {
      {"test.twice", "test.xwice", 0, 0, "test.xwice: the runtime has no such op"},
      {"identity", "idexxity", 0, 0, "test.twice: it was compiled with \"idexxity\""},
      {NULL, NULL, -1, 0, "not an entry"},                    // a name of no length
      {NULL, NULL, 0, 1, "test.twice: its numbers are read"}, // numbers, not a kernel
      {NULL, NULL, 1, 3, "not an entry"},                     // more inputs than tensors
      {NULL, NULL, 1, 0, "test.twice: the op has no kernel for this call"},
      {NULL, NULL, 2, 1, "test.twice: the op updates other inputs"},
      {NULL, NULL, 4, 1u << 30, "not an entry"}, // tensors
      {NULL, NULL, 6, 99, "not an entry"},       // rank
      {NULL, NULL, 9, 65, "not an entry"},       // attributes
  };
  dt_op_options_t op = twice_op();
  op.identity = "identity";
  empty_folder();
  assert_false(live_with_op(op));
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) { // a sound one takes its place
    refusal = cases[k].refusal;
    exchanged = cases[k].exchanged;
    with = cases[k].with;
    word = cases[k].word;
    becomes = cases[k].becomes;
    assert_int_equal(count_entries("variant", exchange), 1);
    if (live_with_op(op) || !refused)
      fail_msg("case %zu: the entry was taken, or for another reason", k);
    refusal = NULL;
  }
}

static int make_folder(void **state) {
  (void)state;
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  empty_folder();
  return rmdir(folder);
}

RUN_TESTS_WITH(make_folder, remove_folder, TEST(the_next_runtime_compiles_nothing),
               TEST(checks_of_numbers_are_kept), TEST(other_facts_are_another_entry),
               TEST(damaged_entries_are_made_anew), TEST(forged_entries_are_made_anew),
               TEST(a_refused_cubin_is_made_anew), TEST(why_it_reads_is_told_again),
               TEST(calls_of_users_ops_are_kept_by_name), TEST(calls_with_attributes_are_kept),
               TEST(an_op_that_is_gone_is_refused_by_name), TEST(forged_calls_are_made_anew))
