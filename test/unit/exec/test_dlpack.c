// SPDX-License-Identifier: Apache-2.0
// Tensors as DLPack gives and takes them: every dtype there and back, strides, who frees what, what
// is read-only, what is refused by name, and the order of a device's work.
#include "ductile/dlpack.h"

#include "runtime/base/memory.h"
#include "test/support/subjects.h"

#include <string.h>

// ---- There and back -------------------------------------------------------------------------------
typedef struct row_t {
  dt_dtype_t dtype;
  uint8_t code, bits;
} row_t;

// By the specification.
static const row_t rows[] = {
    {DT_BOOL, 6, 8},        {DT_I8, 0, 8},        {DT_I16, 0, 16},    {DT_I32, 0, 32},
    {DT_I64, 0, 64},        {DT_U8, 1, 8},        {DT_U16, 1, 16},    {DT_U32, 1, 32},
    {DT_U64, 1, 64},        {DT_F16, 2, 16},      {DT_BF16, 4, 16},   {DT_F32, 2, 32},
    {DT_F64, 2, 64},        {DT_F8E4M3FN, 10, 8}, {DT_F8E5M2, 12, 8}, {DT_F8E4M3FNUZ, 11, 8},
    {DT_F8E5M2FNUZ, 13, 8}, {DT_F8E8M0, 14, 8},   {DT_F4E2M1, 17, 4}, {DT_I4, 0, 4},
    {DT_U4, 1, 4},          {DT_I2, 0, 2},        {DT_U2, 1, 2},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void test_every_dtype(void **state) {
  (void)state;
  for (size_t k = 0; k < N_ROWS; k++) {
    dt_tensor_t *tensor = tensor_empty(rows[k].dtype, 2, SIZES(3, 8)), *back = NULL;
    dt_dlpack_managed_t *given = NULL;
    expect_ok(dt_tensor_to_dlpack(tensor, NULL, &given));
    assert_int_equal(given->version.major, 1);
    assert_int_equal(given->version.minor, 1);
    assert_int_equal(given->flags, 0);
    assert_int_equal(given->tensor.dtype.code, rows[k].code);
    assert_int_equal(given->tensor.dtype.bits, rows[k].bits);
    assert_int_equal(given->tensor.dtype.lanes, 1);
    assert_int_equal(given->tensor.device.kind, DT_DLPACK_CPU);
    assert_int_equal(given->tensor.device.ordinal, 0);
    assert_int_equal(given->tensor.rank, 2);
    assert_int_equal(given->tensor.sizes[1], 8);
    assert_int_equal(given->tensor.strides[0], 8);
    assert_ptr_equal(given->tensor.data, dt_tensor_data(tensor));
    expect_ok(dt_tensor_from_dlpack(given, &back));
    assert_int_equal(dt_tensor_dtype(back), rows[k].dtype);
    assert_ptr_equal(dt_tensor_data(back), dt_tensor_data(tensor));
    expect_sizes(back, 2, SIZES(3, 8));
    dt_tensor_release(tensor); // `back` keeps it
    memset(dt_tensor_data(back), 1, dt_tensor_bytes(back));
    dt_tensor_release(back);
  }
}

// Where a byte has two elements it is one of two lanes, as PyTorch has it.
static void test_bytes_of_two_lanes(void **state) {
  (void)state;
  unsigned char bytes[12];
  int64_t sizes[] = {3, 4};
  dt_dlpack_managed_t managed = {.version = {1, 0},
                                 .tensor = {.data = bytes,
                                            .device = {DT_DLPACK_CPU, 0},
                                            .rank = 2,
                                            .dtype = {17, 4, 2},
                                            .sizes = sizes}};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor));
  assert_int_equal(dt_tensor_dtype(tensor), DT_F4E2M1);
  expect_sizes(tensor, 2, SIZES(3, 8));
  assert_int_equal(dt_tensor_bytes(tensor), 12);
  dt_tensor_release(tensor);
  int64_t strides[] = {4, 1};
  managed.tensor.strides = strides;
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor));
  expect_sizes(tensor, 2, SIZES(3, 8));
  dt_tensor_release(tensor);
  managed.tensor.rank = 0;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_SHAPE, "rank: 0");
}

static void test_ranks_and_strides(void **state) {
  (void)state;
  float data[24];
  int64_t sizes[] = {2, 3}, strides[] = {-3, 1};
  dt_dlpack_managed_t managed = {.version = {1, 3},
                                 .tensor = {.data = data,
                                            .device = {DT_DLPACK_CPU, 0},
                                            .rank = 2,
                                            .dtype = {2, 32, 1},
                                            .sizes = sizes,
                                            .strides = strides,
                                            .byte_offset = 12}};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor));
  assert_ptr_equal(dt_tensor_data(tensor), data + 3);
  assert_int_equal(dt_tensor_strides(tensor)[0], -3);
  dt_dlpack_managed_t *given = NULL;
  expect_ok(dt_tensor_to_dlpack(tensor, NULL, &given));
  assert_int_equal(given->tensor.strides[0], -3);
  assert_int_equal(given->tensor.byte_offset, 0);
  given->deleter(given);
  dt_tensor_release(tensor);
  managed.tensor.rank = 0;
  managed.tensor.sizes = managed.tensor.strides = NULL;
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor));
  assert_int_equal(dt_tensor_count(tensor), 1);
  dt_tensor_release(tensor);
  sizes[0] = 0;
  managed.tensor = (dt_dlpack_tensor_t){
      .device = {DT_DLPACK_GPU_PINNED, 5}, .rank = 2, .dtype = {2, 32, 1}, .sizes = sizes};
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor)); // without elements, and without data
  assert_int_equal(dt_tensor_device(tensor), DT_CPU);
  dt_tensor_release(tensor);
}

// ---- Who frees ------------------------------------------------------------------------------------
static void count_deletion(dt_dlpack_managed_t *self) { (*(int *)self->context)++; }

static void test_the_deleter_runs_once(void **state) {
  (void)state;
  float data[4] = {1, 2, 3, 4};
  int64_t size = 4;
  int deleted = 0;
  dt_dlpack_managed_t managed = {.version = {1, 1},
                                 .context = &deleted,
                                 .deleter = count_deletion,
                                 .tensor = {.data = data,
                                            .device = {DT_DLPACK_CPU, 0},
                                            .rank = 1,
                                            .dtype = {2, 32, 1},
                                            .sizes = &size}};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_from_dlpack(&managed, &tensor));
  dt_dlpack_managed_t *given = NULL;
  expect_ok(dt_tensor_to_dlpack(tensor, NULL, &given));
  dt_tensor_release(tensor);
  assert_int_equal(deleted, 0);
  given->deleter(given);
  assert_int_equal(deleted, 1);
  managed.tensor.dtype.code = 5;
  expect_code(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED);
  assert_int_equal(deleted, 1); // on failure it stays the giver's
}

static void test_without_memory(void **state) {
  (void)state;
  dt_tensor_t *tensor = tensor_empty(DT_F32, 1, SIZES(4)), *back = NULL;
  dt_dlpack_managed_t *given = NULL;
  (void)dt__heap_fail_at(1, false);
  dt_status_t status = dt_tensor_to_dlpack(tensor, NULL, &given);
  (void)dt__heap_fail_at(0, false);
  expect_code(status, DT_E_NO_MEMORY);
  assert_null(given);
  expect_ok(dt_tensor_to_dlpack(tensor, NULL, &given));
  (void)dt__heap_fail_at(1, false);
  status = dt_tensor_from_dlpack(given, &back);
  (void)dt__heap_fail_at(0, false);
  expect_code(status, DT_E_NO_MEMORY);
  assert_null(back);
  given->deleter(given);
  dt_tensor_release(tensor);
}

// ---- Read-only ------------------------------------------------------------------------------------
static dt_status_t add_to_state(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  dt_update(t, in[0], out[0]);
  return NULL;
}

static dt_tensor_t *read_only(dt_tensor_t *tensor) {
  dt_dlpack_managed_t *given = NULL;
  dt_tensor_t *back = NULL;
  const dt_dlpack_options_t options = {.struct_size = sizeof(options), .read_only = true};
  expect_ok(dt_tensor_to_dlpack(tensor, &options, &given));
  assert_int_equal(given->flags, DT_DLPACK_READ_ONLY);
  expect_ok(dt_tensor_from_dlpack(given, &back));
  return back;
}

static void test_read_only(void **state) {
  (void)state;
  fixture_t on = fixture_on(DT_CPU, 2);
  static const dt_input_decl_t one[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(1, one);
  dt_function_t *reads = function_of(&on, double_program, NULL, &options);
  dt_function_t *writes = function_of(&on, add_to_state, NULL, &options);
  dt_tensor_t *x = tensor_full(3, 1, SIZES(4)), *shut = read_only(x), *out = NULL;
  dt_dlpack_managed_t *again = NULL;
  for (int round = 0; round < 2; round++) {
    expect_ok(dt_call(on.session, reads, &shut, 1, &out, 1, NULL));
    assert_true(((float *)dt_tensor_data(out))[3] == 6);
    RELEASE(out);
    out = shut;
    expect_told(dt_call(on.session, reads, &x, 1, &out, 1, NULL), DT_E_ARGUMENT, "read-only");
    out = NULL;
    expect_told(dt_call(on.session, writes, &shut, 1, &out, 1, NULL), DT_E_ARGUMENT,
                "'x': the program updates it");
    assert_true(((float *)dt_tensor_data(x))[0] == 3);
    expect_told(dt_tensor_copy(on.session, x, shut), DT_E_ARGUMENT, "read-only");
  }
  expect_ok(dt_call(on.session, writes, &x, 1, &out, 1, NULL)); // by the other name
  assert_true(((float *)dt_tensor_data(shut))[0] == 6);
  expect_ok(dt_tensor_to_dlpack(shut, NULL, &again)); // stays so
  assert_int_equal(again->flags, DT_DLPACK_READ_ONLY);
  again->deleter(again);
  RELEASE(x, shut, out);
  dt_function_release(reads);
  dt_function_release(writes);
  fixture_end(&on);
}

// ---- Refusals -------------------------------------------------------------------------------------
static const struct {
  dt_dlpack_dtype_t dtype;
  uint64_t flags;
  const char *told;
} strangers[] = {
    {{5, 64, 1}, 0, "dtype: complex of 64 bits"},
    {{5, 128, 1}, 0, "dtype: complex of 128 bits"},
    {{3, 64, 1}, 0, "dtype: opaque handle"},
    {{2, 128, 1}, 0, "dtype: float of 128 bits"},
    {{7, 8, 1}, 0, "dtype: float8_e3m4"},
    {{8, 8, 1}, 0, "dtype: float8_e4m3"},
    {{9, 8, 1}, 0, "dtype: float8_e4m3b11fnuz"},
    {{15, 6, 1}, 0, "dtype: float6_e2m3fn"},
    {{16, 6, 1}, 0, "dtype: float6_e3m2fn"},
    {{200, 8, 1}, 0, "type code 200"},
    {{2, 32, 4}, 0, "dtype: float32 of 4 lanes"},
    {{2, 32, 0}, 0, "dtype: float32 of 0 lanes"},
    {{1, 1, 1}, 0, "dtype: unsigned integer of 1 bits"},
    {{0, 4, 1}, DT_DLPACK_PADDED, "dtype: int4 with a byte for each element"},
};

static void test_refused(void **state) {
  (void)state;
  _Alignas(64) unsigned char data[256];
  int64_t sizes[] = {3, 3};
  dt_tensor_t *tensor = NULL;
  dt_dlpack_managed_t good = {.version = {1, 1},
                              .tensor = {.data = data,
                                         .device = {DT_DLPACK_CPU, 0},
                                         .rank = 2,
                                         .dtype = {2, 32, 1},
                                         .sizes = sizes}};
  for (size_t k = 0; k < sizeof(strangers) / sizeof(strangers[0]); k++) {
    dt_dlpack_managed_t managed = good;
    managed.tensor.dtype = strangers[k].dtype;
    managed.flags = strangers[k].flags;
    expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED, strangers[k].told);
  }
  dt_dlpack_managed_t managed = good;
  managed.version.major = 2;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED, "DLPack 2.1");
  managed = good;
  managed.tensor.device.kind = 10;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED, "kind 10");
  managed.tensor.device.kind = 0;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED, "kind 0");
  managed = good;
  managed.tensor.rank = 9;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_SHAPE, "rank: 9");
  managed.tensor.rank = -1;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_SHAPE, "rank: -1");
  managed = good;
  managed.tensor.sizes = NULL;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_ARGUMENT, "sizes: NULL");
  managed = good;
  managed.tensor.byte_offset = 2;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_ARGUMENT, "not aligned");
  managed = good;
  managed.tensor.data = NULL;
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_ARGUMENT, "data: NULL");
  managed = good;
  managed.tensor.dtype = (dt_dlpack_dtype_t){0, 4, 1};
  expect_told(dt_tensor_from_dlpack(&managed, &tensor), DT_E_UNSUPPORTED, "rows of 3 i4");
  sizes[1] = -1;
  expect_told(dt_tensor_from_dlpack(&good, &tensor), DT_E_SHAPE, "sizes[1]: -1");
  sizes[1] = INT64_MAX;
  expect_code(dt_tensor_from_dlpack(&good, &tensor), DT_E_SHAPE);
  good.tensor.dtype = (dt_dlpack_dtype_t){17, 4, 2};
  expect_code(dt_tensor_from_dlpack(&good, &tensor), DT_E_SHAPE);
  expect_told(dt_tensor_from_dlpack(NULL, &tensor), DT_E_ARGUMENT, "managed: NULL");
  expect_told(dt_tensor_from_dlpack(&good, NULL), DT_E_ARGUMENT, "out: NULL");
}

static void test_giving_refused(void **state) {
  (void)state;
  dt_tensor_t *tensor = tensor_empty(DT_I4, 2, SIZES(3, 3));
  dt_dlpack_managed_t *given = NULL;
  expect_told(dt_tensor_to_dlpack(tensor, NULL, &given), DT_E_UNSUPPORTED, "rows of 3 i4");
  assert_null(given);
  expect_told(dt_tensor_to_dlpack(NULL, NULL, &given), DT_E_ARGUMENT, "tensor: NULL");
  const dt_dlpack_options_t options = {.struct_size = sizeof(options), .stream = &given};
  dt_tensor_t *other = tensor_empty(DT_I4, 2, SIZES(1, 3));
  expect_told(dt_tensor_to_dlpack(other, &options, &given), DT_E_ARGUMENT, "stream");
  RELEASE(tensor, other);
}

// ---- Devices --------------------------------------------------------------------------------------
static void test_devices(void **state) {
  (void)state;
  fixture_t on = fixture_on(DT_CUDA, 1), host = fixture_on(DT_CPU, 1);
  dt_session_options_t borrowed = {.struct_size = sizeof(borrowed), .device = DT_CUDA};
  dt_session_t *second = NULL;
  expect_ok(dt_session_create(on.runtime, &borrowed, &second));
  static const dt_input_decl_t one[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(1, one);
  dt_function_t *function = function_of(&on, double_program, NULL, &options);
  dt_tensor_t *x = tensor_full(3, 1, SIZES(40)), *y = NULL;
  expect_ok(dt_call(on.session, function, &x, 1, &y, 1, NULL));
  for (int way = 0; way < 3; way++) { // behind a stream, behind a wait, and as it is
    const dt_dlpack_options_t how = {.struct_size = sizeof(how),
                                     .session = way < 2 ? on.session : NULL,
                                     .stream = way == 0 ? dt_session_stream(second) : NULL};
    dt_dlpack_managed_t *given = NULL;
    dt_tensor_t *back = NULL, *z = NULL;
    float got[40];
    expect_ok(dt_tensor_to_dlpack(y, &how, &given));
    assert_int_equal(given->tensor.device.kind, DT_DLPACK_GPU);
    assert_int_equal(given->tensor.device.ordinal, 0);
    expect_ok(dt_tensor_from_dlpack(given, &back));
    assert_int_equal(dt_tensor_device(back), DT_CUDA);
    expect_ok(dt_call(second, function, &back, 1, &z, 1, NULL));
    expect_ok(dt_tensor_read(second, z, got, sizeof(got)));
    assert_true(got[0] == 12 && got[39] == 12);
    RELEASE(back, z);
  }
  const dt_dlpack_options_t wrong = {.struct_size = sizeof(wrong), .session = host.session};
  dt_dlpack_managed_t *given = NULL;
  expect_told(dt_tensor_to_dlpack(y, &wrong, &given), DT_E_ARGUMENT, "session");
  RELEASE(x, y);
  dt_function_release(function);
  dt_session_destroy(second);
  fixture_end(&host);
  fixture_end(&on);
}

RUN_TESTS(TEST(test_every_dtype), TEST(test_bytes_of_two_lanes), TEST(test_ranks_and_strides),
          TEST(test_the_deleter_runs_once), TEST(test_without_memory), TEST(test_read_only),
          TEST(test_refused), TEST(test_giving_refused), TEST(test_devices))
