// SPDX-License-Identifier: Apache-2.0
// Devices by name, and what is said of one that there is not.
#include "test/support/fixture.h"

#include "ductile/device.h"

static void expect_parsed(const char *text, dt_device_t device, int32_t ordinal) {
  dt_device_t got = DT_MOST_DEVICES;
  int32_t number = -1;
  expect_ok(dt_device_parse(text, &got, &number));
  assert_int_equal(got, device);
  assert_int_equal(number, ordinal);
}

static void test_names(void **state) {
  (void)state;
  expect_parsed("cpu", DT_CPU, 0);
  expect_parsed("cpu:0", DT_CPU, 0);
  expect_parsed("cuda", DT_CUDA, 0);
  expect_parsed("cuda:0", DT_CUDA, 0);
  expect_parsed("cuda:63", DT_CUDA, 63);
  assert_string_equal(dt_device_name(DT_CPU), "cpu");
  assert_string_equal(dt_device_name(DT_CUDA), "cuda");
  assert_null(dt_device_name((dt_device_t)2));
  assert_null(dt_device_name(DT_MOST_DEVICES));
}

static void test_no_names(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",           "c",        "CPU",      "cpux",
      ":0",         "cpu:1",    "cpu:",     "cuda:",
      "cuda:64",    "cuda:-1",  "cuda: 1",  "cuda:1x",
      "cuda:+1",    "cuda:1:1", "cuda:0x1", "cuda:99999999999999999999",
      "interpreter"};
  for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
    dt_device_t device = DT_MOST_DEVICES;
    int32_t ordinal = 7;
    expect_told(dt_device_parse(texts[k], &device, &ordinal), DT_E_ARGUMENT, "dt_device_parse");
    assert_int_equal(device, DT_CPU); // nulled at entry, and nothing half done
    assert_int_equal(ordinal, 0);
  }
  dt_device_t device = DT_CPU;
  int32_t ordinal = 0;
  expect_told(dt_device_parse(NULL, &device, &ordinal), DT_E_ARGUMENT, "text: NULL");
  expect_told(dt_device_parse("cpu", NULL, &ordinal), DT_E_ARGUMENT, "out_device: NULL");
  expect_told(dt_device_parse("cpu", &device, NULL), DT_E_ARGUMENT, "out_ordinal: NULL");
}

// Every entry that takes a device refuses one that there is not, by its number.
static void test_no_devices(void **state) {
  fixture_t *fixture = *state;
  int32_t count = 7;
  dt_device_info_t info = {.struct_size = sizeof(info)};
  dt_session_t *session = NULL;
  for (int device = 2; device < 6; device++) {
    dt_session_options_t options = {.struct_size = sizeof(options), .device = (dt_device_t)device};
    expect_told(dt_device_count(fixture->runtime, options.device, &count), DT_E_ARGUMENT,
                "is no device");
    assert_int_equal(count, 0);
    expect_told(dt_device_info(fixture->runtime, options.device, 0, &info), DT_E_ARGUMENT,
                "is no device");
    expect_told(dt_session_create(fixture->runtime, &options, &session), DT_E_ARGUMENT,
                "is no device");
    assert_null(session);
  }
  expect_told(dt_device_info(fixture->runtime, DT_CPU, 1, &info), DT_E_ARGUMENT, "ordinal: 1");
  expect_told(dt_device_info(fixture->runtime, DT_CUDA, 64, &info), DT_E_ARGUMENT, "0 to 63");
  expect_told(dt_device_info(fixture->runtime, DT_CUDA, -1, &info), DT_E_ARGUMENT, "0 to 63");
}

static int setup(void **state) { return fixture_open(state, 1, 3); }

RUN_TESTS_WITH(setup, fixture_close, TEST(test_names), TEST(test_no_names), TEST(test_no_devices))
