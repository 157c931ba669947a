// SPDX-License-Identifier: Apache-2.0
// Structs that the library fills: with their size, with none said, as short as they may be; and
// those of reports, which stand behind pointers.
#include "test/abi/every_struct.h"

// A function with variants, misses and refused calls behind it.
static dt_function_t *lived;

typedef struct row_t {
  const char *name;
  size_t size;
  dt_status_t (*ask)(void *given);
  void (*show)(const void *given);
} row_t;

// Of what is counted; where a number is of time or bytes, whether there is any.
#define COUNT(from, field) printf(" %s %llu", #field, (unsigned long long)(from)->field)
#define ANY(from, field) printf(" %s %s", #field, (from)->field ? "some" : "0")

// ---- Statistics -----------------------------------------------------------------------------------

static dt_status_t ask_function(void *given) { return dt_function_stats(lived, given); }

static void show_function(const void *given) {
  const dt_function_stats_t *stats = given;
  COUNT(stats, variants), COUNT(stats, compiles), COUNT(stats, calls), COUNT(stats, misses);
  COUNT(stats, failed_calls), COUNT(stats, evaluator_calls), ANY(stats, compile_ns);
  ANY(stats, code_bytes), COUNT(stats, constant_bytes);
}

static dt_status_t ask_function_counters(void *given) { return dt_function_counters(lived, given); }

static void show_function_counters(const void *given) {
  const dt_function_counters_t *all = given;
  COUNT(all, variants), COUNT(all, compiles), COUNT(all, calls), COUNT(all, misses);
  COUNT(all, evaluator_calls), COUNT(all, failed_calls), ANY(all, compile_ns);
  COUNT(all, kernels), ANY(all, code_bytes), COUNT(all, constant_bytes), COUNT(all, promotions);
  COUNT(all, limit_misses), COUNT(all, frozen_misses), COUNT(all, sampled_calls);
  COUNT(all, readbacks), COUNT(all, launches), ANY(all, device_load_ns), COUNT(all, graph_calls);
  COUNT(all, graph_skips);
  printf(" graph_skip %s", all->graph_skip ? all->graph_skip : "none");
}

static dt_status_t ask_session(void *given) { return dt_session_stats(place.session, given); }

static void show_session(const void *given) {
  const dt_session_stats_t *stats = given;
  ANY(stats, bytes), COUNT(stats, generation), COUNT(stats, graph_calls);
  COUNT(stats, graph_skips), COUNT(stats, builds), COUNT(stats, live_results);
}

// On a device, where there is one: there it counts.
static dt_session_t *counted;

static dt_status_t ask_session_counters(void *given) { return dt_session_counters(counted, given); }

static void show_session_counters(const void *given) {
  const dt_session_counters_t *all = given;
  COUNT(all, path_length), COUNT(all, generation), COUNT(all, graph_calls);
  COUNT(all, graph_skips), COUNT(all, unchanged_calls), COUNT(all, builds), ANY(all, build_ns);
  COUNT(all, nodes_set), COUNT(all, grids_set), COUNT(all, functions_set), COUNT(all, places);
  COUNT(all, executables), COUNT(all, executable_nodes), ANY(all, executable_bytes);
  ANY(all, pool_bytes), ANY(all, scratch_bytes), COUNT(all, growths), ANY(all, growth_ns);
  COUNT(all, live_results), COUNT(all, live_bytes), COUNT(all, frozen_builds);
  COUNT(all, frozen_growths), COUNT(all, staged_inputs), COUNT(all, staged_bytes);
  ANY(all, staging_bytes), COUNT(all, shared_set), COUNT(all, direct_calls);
  printf(" graph_skip %s", all->graph_skip ? all->graph_skip : "none");
}

static dt_status_t ask_runtime(void *given) { return dt_runtime_stats(place.runtime, given); }

static void show_runtime(const void *given) {
  const dt_runtime_stats_t *stats = given;
  COUNT(stats, max_bytes), ANY(stats, bytes), COUNT(stats, evicted_variants);
  COUNT(stats, evicted_bytes), COUNT(stats, trims), COUNT(stats, max_device_bytes);
  ANY(stats, device_bytes), COUNT(stats, evicted_device_bytes), COUNT(stats, evicted_graphs);
  COUNT(stats, packed_bytes), COUNT(stats, shared_bytes), ANY(stats, program_bytes);
  ANY(stats, session_bytes), ANY(stats, code_bytes);
  // Whether it is used up depends on time.
  printf(" warm_bytes %s", stats->warm_bytes <= stats->bytes ? "within" : "beyond");
  COUNT(stats, mapped_bytes), COUNT(stats, constant_bytes);
}

// ---- What there is --------------------------------------------------------------------------------

static dt_status_t ask_cpu(void *given) { return dt_device_info(place.runtime, DT_CPU, 0, given); }

static dt_status_t ask_device(void *given) {
  return dt_device_info(place.runtime, DT_CUDA, 0, given);
}

static void show_device(const void *given) {
  const dt_device_info_t *info = given;
  COUNT(info, major), COUNT(info, minor), COUNT(info, processors), ANY(info, memory_bytes);
  COUNT(info, shared_bytes);
  printf(" name %s", info->name[0] ? "told" : "none");
}

static dt_status_t ask_tensor(void *given) {
  static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[0,2]}} ";
  unsigned char bytes[8 + sizeof header + 1] = {sizeof header - 1};
  memcpy(bytes + 8, header, sizeof header - 1);
  bytes[8 + sizeof header - 1] = 7;
  dt_safetensors_t *file = NULL;
  dt_status_t status = dt_safetensors_open_memory(bytes, sizeof header + 9, NULL, &file);
  if (!status)
    status = dt_safetensors_find(file, "t", given);
  dt_safetensors_close(file);
  return status;
}

static void show_safetensor(const void *given) {
  const dt_safetensors_info_t *info = given;
  COUNT(info, dtype), COUNT(info, rank), COUNT(info, sizes[0]), COUNT(info, sizes[1]);
  COUNT(info, bytes), COUNT(info, aligned);
  printf(" data %s", info->data ? "some" : "none");
}

static dt_status_t tell_node(dt_rewriter_t *rewriter, void *closure) {
  return dt_rewriter_node(rewriter, dt_rewriter_output(rewriter, 0), closure);
}

static dt_status_t ask_node(void *given) {
  dt_function_t *function = NULL;
  const dt_function_options_t options = one_matrix();
  const dt_pass_options_t pass = {.struct_size = sizeof pass, .name = "tell"};
  must(dt_runtime_add_pass(place.runtime, DT_POINT_TRACED, tell_node, given, &pass));
  must(dt_function_create(place.runtime, doubled, NULL, &options, &function));
  dt_status_t status = dt_function_prepare(function, NULL);
  dt_function_release(function);
  must(dt_runtime_remove_pass(place.runtime, "tell"));
  return status;
}

static void show_node(const void *given) {
  const dt_node_info_t *info = given;
  COUNT(info, dtype), COUNT(info, n_inputs), COUNT(info, n_users), COUNT(info, n_outputs);
  COUNT(info, rank), COUNT(info, n_axes), COUNT(info, n_sizes), COUNT(info, floats[0]);
}

// ---- The rows -------------------------------------------------------------------------------------

#define ROW(type, ask, show) {#type, sizeof(type), ask, show}
static const row_t rows[] = {
    ROW(dt_function_stats_t, ask_function, show_function),
    ROW(dt_function_counters_t, ask_function_counters, show_function_counters),
    ROW(dt_session_stats_t, ask_session, show_session),
    ROW(dt_session_counters_t, ask_session_counters, show_session_counters),
    ROW(dt_runtime_stats_t, ask_runtime, show_runtime),
    ROW(dt_device_info_t, ask_cpu, show_device),
    ROW(dt_device_info_t, ask_device, show_device),
    ROW(dt_safetensors_info_t, ask_tensor, show_safetensor),
    ROW(dt_node_info_t, ask_node, show_node),
};

// A struct that says `size` bytes, in memory of `room`, which was garbage.
static void ask(const row_t *row, const char *how, uint32_t size, size_t room) {
  unsigned char *given = exactly(room);
  memset(given, 0xA5, room);
  memcpy(given, &size, sizeof size);
  title(row->name, how);
  bool done = told_code("asked", row->ask(given));
  uint32_t after = 0;
  memcpy(&after, given, sizeof after);
  printf("  the size stays: %s\n", after == size ? "yes" : "no");
  if (done && size == row->size) {
    printf(" ");
    row->show(given);
    printf("\n");
  }
  free(given);
}

// What is there and in no struct of a fixed form.
static void show_json(void) {
  char *text = NULL;
  title("statistics", "as JSON");
  for (int which = 0; which < 2; which++) {
    dt_status_t status =
        which ? dt_session_stats_json(counted, &text) : dt_function_stats_json(lived, &text);
    if (told("asked", status))
      printf("  %s\n", text[0] == '{' ? "an object" : "no object");
    dt_text_free(text);
  }
}

// ---- Reports --------------------------------------------------------------------------------------

static void show_guard(const dt_guard_info_t *guard) {
  const char *slash = strrchr(guard->file, '/'); // the folder is the build's
  printf("   dt_guard_info_t: %s, by %s in %s, line %s\n", guard->guard, guard->op,
         slash ? slash + 1 : guard->file, guard->line > 0 ? "told" : "none");
}

static void show_variant(const dt_variant_info_t *variant) {
  printf("  dt_variant_info_t: %u, device %d, ordinal %d\n", variant->number, (int)variant->device,
         variant->ordinal);
  for (uint32_t k = 0; k < variant->n_dims; k++) {
    const dt_dim_info_t *dim = variant->dims[k];
    printf("   dt_dim_info_t: %u.%u %s, size %s, %s\n", dim->input, dim->dim, dim->name, dim->size,
           dt_dim_state_name(dim->state));
  }
  for (uint32_t k = 0; k < variant->n_guards; k++)
    show_guard(variant->guards[k]);
}

static void show_miss(const dt_miss_info_t *miss) {
  printf("  dt_miss_info_t: variant %u, %s, %s, %s\n", miss->variant, miss->hit ? "hit" : "miss",
         miss->actual, miss->remedy);
  if (miss->guard)
    show_guard(miss->guard);
  for (uint32_t k = 0; k < miss->n_facts; k++)
    printf("   fact %u\n", k);
}

static void show_report(dt_tensor_t *const *inputs, uint32_t n_inputs) {
  dt_report_t *report = NULL;
  must(dt_function_report(lived, inputs, n_inputs, &report));
  title("dt_report_t", n_inputs ? "about a call" : "about all");
  printf("  %s, limit %u, asked %d, refused %s %s %s, forgotten %llu, evicted %llu\n",
         report->function, report->variant_limit, report->asked, dt_code_name(report->refused),
         report->refusal, report->refusal_remedy, (unsigned long long)report->forgotten,
         (unsigned long long)report->evicted);
  for (uint32_t k = 0; k < report->n_variants; k++)
    show_variant(report->variants[k]);
  for (uint32_t k = 0; k < report->n_misses; k++)
    show_miss(report->misses[k]);
  for (uint32_t k = 0; k < report->n_compiles; k++) {
    const dt_compile_info_t *compile = report->compiles[k];
    printf("  dt_compile_info_t: %u, %s, time %s, %s %s\n", compile->number,
           dt_compile_reason_name(compile->reason), compile->ns ? "some" : "none",
           dt_code_name(compile->code), compile->failure);
    if (compile->miss)
      show_miss(compile->miss);
  }
  char *text = NULL;
  bool done = told("dt_report_text", dt_report_text(report, DT_REPORT_CALL, &text));
  printf("  %s\n", done && text[0] ? "some text" : "no text");
  dt_text_free(text);
  dt_report_free(report);
}

// ---- A life ---------------------------------------------------------------------------------------

static dt_status_t branches(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  (void)closure;
  bool few = dt_sym_true(trace, dt_sym_le(trace, dt_dim(trace, in[0], 0), dt_sym_const(trace, 4)));
  out[0] = few ? dt_add(trace, in[0], in[0]) : dt_mul(trace, in[0], in[0]);
  return NULL;
}

static void live(void) {
  dt_function_options_t options = one_matrix();
  options.name = "lived";
  must(dt_function_create(place.runtime, branches, NULL, &options, &lived));
  title("a function", "and its life");
  call_rows(lived, 2, NULL);
  call_rows(lived, 3, NULL);
  call_rows(lived, 6, NULL);
  dt_tensor_t *wide = counting(2, (const int64_t[]){2, 4}), *y = NULL;
  (void)told("a wide call", dt_call(place.session, lived, &wide, 1, &y, 1, NULL));
  show_report(NULL, 0);
  show_report(&wide, 1);
  dt_tensor_release(wide);
  dt_tensor_t *tall = counting(2, (const int64_t[]){5, 3});
  show_report(&tall, 1);
  dt_tensor_release(tall);
}

// Two calls as graphs, one of which changes sizes.
static void live_on_device(void) {
  const dt_session_options_t on = {.struct_size = sizeof on, .device = DT_CUDA};
  const dt_call_options_t how = {.struct_size = sizeof how, .mode = DT_CALL_REDUCE_OVERHEAD};
  must(dt_session_create(place.runtime, &on, &counted));
  for (int64_t n = 2; n < 4; n++) {
    dt_tensor_t *x = counting(2, (const int64_t[]){n, 3}), *y = NULL;
    float numbers[9] = {0};
    must(dt_step_begin(counted));
    must(dt_call(counted, lived, &x, 1, &y, 1, &how));
    must(dt_tensor_read(counted, y, numbers, (size_t)n * 3 * sizeof numbers[0]));
    printf("  on a device: %g %g\n", (double)numbers[0], (double)numbers[3 * n - 1]);
    dt_tensor_release(x);
    dt_tensor_release(y);
  }
}

void every_result(void) {
  live();
  if (place.devices)
    live_on_device();
  else
    must(dt_session_create(place.runtime, NULL, &counted));
  for (const row_t *row = rows; row < rows + sizeof rows / sizeof rows[0]; row++) {
    if (row->ask == ask_device && !place.devices)
      continue;
    ask(row, "with its size", (uint32_t)row->size, row->size);
    ask(row, "no size said", 0, row->size);
    ask(row, "of 8 bytes", 8, 8);
    ask(row, "of 3 bytes", 3, 8);
  }
  show_json();
  dt_session_destroy(counted);
  dt_function_release(lived);
}
