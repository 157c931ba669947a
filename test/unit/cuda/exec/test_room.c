// SPDX-License-Identifier: Apache-2.0
// Results into buffers of device memory that are larger than they (dt_tensor_desc_t.room), launched
// plainly and as graphs: a buffer takes each call's sizes, what is behind the result stays, what
// does not fit is told before anything is queued, and where data say the size, before the result's
// kernels are.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "ductile/device.h"

enum { MOST = 64 }; // elements of the memory

typedef struct way_t {
  fake_fixture_t f;
  dt_function_t *add, *select;
  const dt_call_options_t *options; // NULL: plain
  dt_tensor_t *base;                // all of the memory
} way_t;

static way_t way_open(uint64_t seed, bool graphs) {
  way_t w = {.options = graphs ? &as_graph : NULL};
  int64_t most = MOST;
  fake_begin(seed);
  w.f = fake_fixture_open();
  w.add = function_named(w.f.runtime, "add", NULL);
  w.select = function_named(w.f.runtime, "select", NULL);
  expect_ok(dt_tensor_create_on(w.f.session, DT_F32, 1, &most, &w.base));
  return w;
}

static void way_close(way_t *w) {
  dt_tensor_release(w->base);
  dt_function_release(w->add);
  dt_function_release(w->select);
  fake_fixture_close(&w->f);
  fake_end();
}

static dt_tensor_t *buffer_over(const way_t *w, uint64_t room) {
  const int64_t none = 0;
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_F32,
                                 .device = DT_CUDA,
                                 .rank = 1,
                                 .sizes = &none,
                                 .data = dt_tensor_data(w->base),
                                 .room = room};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  assert_int_equal(dt_tensor_room(tensor), room);
  return tensor;
}

static void clear(const way_t *w) {
  dt_tensor_t *marks = host_f32(MOST, -1, 0);
  expect_ok(dt_tensor_copy(w->f.session, marks, w->base));
  dt_tensor_release(marks);
}

// The first `n` elements are first, first + step, …; the others are as they were.
static void expect_elements(const way_t *w, int64_t n, float first, float step) {
  float data[MOST];
  expect_ok(dt_tensor_read(w->f.session, w->base, data, sizeof(data)));
  for (int64_t k = 0; k < MOST; k++)
    if (data[k] != (k < n ? first + step * (float)k : -1))
      fail_msg("element %lld of %lld: got %f", (long long)k, (long long)n, (double)data[k]);
}

static dt_status_t call(const way_t *w, dt_function_t *function, uint32_t n_inputs, dt_tensor_t *x,
                        dt_tensor_t **out) {
  dt_status_t status =
      dt_call(w->f.session, function, (dt_tensor_t *[]){x, x}, n_inputs, out, 1, w->options);
  expect_ok(dt_step_begin(w->f.session));
  return status;
}

static void a_buffer_takes_each_size(void **state) {
  (void)state;
  static const int64_t sizes[] = {16, 0, 48, 1, 48, 16};
  for (uint64_t seed = 1; seed <= 4; seed++) {
    way_t w = way_open(seed, seed & 1);
    dt_tensor_t *buffer = buffer_over(&w, 48 * sizeof(float));
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
      dt_tensor_t *x = host_f32(sizes[k], 1, 1);
      clear(&w);
      expect_ok(call(&w, w.add, 2, x, &buffer));
      assert_int_equal(dt_tensor_sizes(buffer)[0], sizes[k]);
      assert_ptr_equal(dt_tensor_data(buffer), dt_tensor_data(w.base));
      expect_elements(&w, sizes[k], 2, 2);
      dt_tensor_release(x);
    }
    dt_tensor_release(buffer);
    way_close(&w);
  }
}

static void what_does_not_fit_queues_nothing(void **state) {
  (void)state;
  for (int graphs = 0; graphs < 2; graphs++) {
    way_t w = way_open(7, graphs);
    dt_tensor_t *buffer = buffer_over(&w, 48 * sizeof(float));
    dt_tensor_t *x = host_f32(49, 1, 1), *fits = host_f32(48, 1, 1);
    clear(&w);
    expect_ok(call(&w, w.add, 2, fits, &buffer)); // compiled
    clear(&w);
    uint64_t launches = fake_cuda_calls(DT_CUDA_SYM_launch);
    uint64_t replays = fake_cuda_calls(DT_CUDA_SYM_graph_launch);
    expect_told(call(&w, w.add, 2, x, &buffer), DT_E_SHAPE,
                "the result has 196 bytes; the buffer has room for 192");
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_launch), launches);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_graph_launch), replays);
    expect_elements(&w, 0, 0, 0);
    expect_ok(call(&w, w.add, 2, fits, &buffer));
    expect_elements(&w, 48, 2, 2);
    RELEASE(buffer, x, fits);
    way_close(&w);
  }
}

// Of x those above 0: their number is read back.
static void data_may_say_the_size(void **state) {
  (void)state;
  for (int graphs = 0; graphs < 2; graphs++) {
    way_t w = way_open(9, graphs);
    dt_tensor_t *buffer = buffer_over(&w, 20 * sizeof(float));
    for (int64_t above = 0; above <= 24; above += 4) {
      dt_tensor_t *x = host_f32(40, (float)(above - 39), 1); // ends with `above`
      clear(&w);
      dt_status_t status = call(&w, w.select, 1, x, &buffer);
      if (above <= 20) {
        expect_ok(status);
        assert_int_equal(dt_tensor_sizes(buffer)[0], above);
        expect_elements(&w, above, 1, 1);
      } else {
        expect_told(status, DT_E_SHAPE, "the buffer has room for 80");
        expect_elements(&w, 0, 0, 0);
      }
      dt_tensor_release(x);
    }
    dt_tensor_release(buffer);
    way_close(&w);
  }
}

// The whole buffer is the call's, and it must be where the session runs.
static void misuse_is_refused(void **state) {
  (void)state;
  way_t w = way_open(11, false);
  dt_tensor_t *buffer = buffer_over(&w, MOST * sizeof(float)), *x = first_of(w.base, 8);
  _Alignas(64) float data[MOST];
  const int64_t none = 0;
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_F32,
                                 .rank = 1,
                                 .sizes = &none,
                                 .data = data,
                                 .room = sizeof(data)};
  dt_tensor_t *host = NULL, *other = host_f32(8, 1, 1);
  clear(&w);
  expect_told(call(&w, w.add, 2, x, &buffer), DT_E_ARGUMENT, "overlaps");
  expect_ok(dt_tensor_create(&desc, &host));
  expect_told(call(&w, w.add, 2, other, &host), DT_E_ARGUMENT, "output 0 is on the CPU");
  expect_elements(&w, 0, 0, 0);
  RELEASE(buffer, x, host, other);
  way_close(&w);
}

RUN_TESTS(TEST(a_buffer_takes_each_size), TEST(what_does_not_fit_queues_nothing),
          TEST(data_may_say_the_size), TEST(misuse_is_refused))
