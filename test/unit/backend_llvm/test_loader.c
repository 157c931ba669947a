// SPDX-License-Identifier: Apache-2.0
// The object loader: what it loads and finds, and that no damaged object does worse than a status:
// every truncation, many flipped bytes, fields set to extremes. Nothing of a damaged object is run.
#include "test/unit/backend_llvm/rig.h"

#include "backend_llvm/emit/llvm_compat.h"
#include "backend_llvm/host/target.h"

#include "runtime/base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct object_t {
  void *data;
  size_t bytes;
} object_t;

// An object of `text` (LLVM IR), through the machine that kernels use.
static object_t assemble(const char *text) {
  dt_target_t target;
  expect_ok(dt__host_target("", 1, &target));
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMContextRef context = LLVMContextCreate();
  LLVMMemoryBufferRef source = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "ir");
  LLVMModuleRef module;
  char *message = NULL;
  if (LLVMParseIRInContext(context, source, &module, &message))
    fail_msg("%s", message);
  LLVMTargetRef llvm_target;
  assert_false(LLVMGetTargetFromTriple("x86_64-unknown-linux-gnu", &llvm_target, &message));
  LLVMTargetMachineRef machine =
      LLVMCreateTargetMachine(llvm_target, "x86_64-unknown-linux-gnu", "x86-64-v3", "",
                              LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMMemoryBufferRef buffer;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &buffer))
    fail_msg("%s", message);
  object_t object = {.bytes = LLVMGetBufferSize(buffer)};
  object.data = dt__alloc(object.bytes);
  assert_non_null(object.data);
  memcpy(object.data, LLVMGetBufferStart(buffer), object.bytes);
  LLVMDisposeMemoryBuffer(buffer);
  LLVMDisposeTargetMachine(machine);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  return object;
}

static const char small_ir[] =
    "@table = private unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 32\n"
    "declare ptr @memcpy(ptr, ptr, i64) nounwind\n"
    "@addresses = private unnamed_addr constant [2 x ptr] [\n"
    "  ptr getelementptr (i64, ptr @table, i64 2), ptr @memcpy]\n"
    "define ptr @address_of(i64 %i) nounwind {\n"
    "  %p = getelementptr ptr, ptr @addresses, i64 %i\n"
    "  %v = load ptr, ptr %p\n  ret ptr %v\n}\n"
    "define internal i64 @twice(i64 %x) nounwind noinline {\n"
    "  %y = shl i64 %x, 1\n  ret i64 %y\n}\n"
    "define i64 @entry(i64 %i) nounwind {\n"
    "  %p = getelementptr i64, ptr @table, i64 %i\n"
    "  %v = load i64, ptr %p\n"
    "  %r = call i64 @twice(i64 %v)\n  ret i64 %r\n}\n"
    "define ptr @address() nounwind {\n  ret ptr @memcpy\n}\n"
    "define void @copy(ptr %to, ptr %from, i64 %n) nounwind {\n"
    "  %r = call ptr @memcpy(ptr %to, ptr %from, i64 %n)\n  ret void\n}\n"
    "define double @scaled(double %x) nounwind {\n"
    "  %y = fmul double %x, 0x3FF3C0CA428C59FB\n  ret double %y\n}\n";

static void check_native(const dt_native_t *native) {
  assert_true(dt__native_bytes(native) >= 4096);
  assert_null(dt__native_symbol(native, "twice")); // local
  assert_null(dt__native_symbol(native, "memcpy"));
  int64_t (*entry)(int64_t);
  void *at = dt__native_symbol(native, "entry");
  assert_non_null(at);
  memcpy(&entry, &at, sizeof(at));
  const int64_t want[] = {6, 10, 14, 22};
  for (int64_t i = 0; i < 4; i++)
    assert_int_equal(entry(i), want[i]);
  void (*copy)(void *, const void *, int64_t);
  at = dt__native_symbol(native, "copy");
  memcpy(&copy, &at, sizeof(at));
  char into[6] = "", from[6] = "hello";
  copy(into, from, 6);
  assert_string_equal(into, "hello");
  void *(*address)(void);
  at = dt__native_symbol(native, "address");
  memcpy(&address, &at, sizeof(at));
  void *(*other_copy)(void *, const void *, size_t);
  at = address();
  memcpy(&other_copy, &at, sizeof(at));
  other_copy(into, "other", 6);
  assert_string_equal(into, "other");
  double (*scaled)(double);
  at = dt__native_symbol(native, "scaled");
  memcpy(&scaled, &at, sizeof(at));
  assert_true(scaled(2.0) == 2.0 * 0x1.3c0ca428c59fbp0);
  void *(*address_of)(int64_t);
  at = dt__native_symbol(native, "address_of");
  memcpy(&address_of, &at, sizeof(at));
  assert_int_equal(*(const int64_t *)address_of(0), 7);
  at = address_of(1);
  memcpy(&other_copy, &at, sizeof(at));
  other_copy(into, "third", 6);
  assert_string_equal(into, "third");
}

static void test_load(void **state) {
  (void)state;
  object_t object = assemble(small_ir);
  dt_native_t *native;
  expect_ok(dt__native_load(object.data, object.bytes, &native));
  check_native(native);
  dt__native_unload(native);
  dt__native_unload(NULL);
  dt__free(object.data);
}

// ---- Images ---------------------------------------------------------------------------------------
static int file_of(const dt_image_t *image, size_t before) {
  char name[] = "/tmp/ductile-image-XXXXXX";
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  (void)unlink(name);
  assert_int_equal(pwrite(fd, image->bytes, dt__image_bytes(image), (off_t)before),
                   (ssize_t)dt__image_bytes(image));
  return fd;
}

// Two objects in one image: copied, mapped, and copied where mapping is refused.
static void test_images(void **state) {
  (void)state;
  object_t object = assemble(small_ir);
  object_t other = assemble("define i64 @other() nounwind {\n  ret i64 42\n}\n");
  const dt_object_t both[] = {{object.data, object.bytes}, {other.data, other.bytes}};
  dt_image_t image;
  expect_ok(dt__image_link(both, 2, true, &image));
  assert_true(dt__image_fits(&image) && image.data_bytes > 0);
  const dt_native_file_t file = {file_of(&image, 8192), 8192};
  for (int way = 0; way < 3; way++) {
    dt_native_t *native;
    if (way == 2)
      (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 1, EPERM, false);
    expect_ok(dt__native_load_image(&image, way ? &file : NULL, &native));
    (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 0, 0, false);
    assert_int_equal(dt__native_is_mapped(native), way == 1);
    check_native(native);
    int64_t (*forty_two)(void);
    void *at = dt__native_symbol(native, "other");
    memcpy(&forty_two, &at, sizeof(at));
    assert_int_equal(forty_two(), 42);
    dt__native_unload(native);
  }
  dt__image_fini(&image);
  // A small one is copied, whatever file there is.
  expect_ok(dt__image_link(both, 2, false, &image));
  assert_false(dt__image_has_pages(&image));
  dt_native_t *small;
  expect_ok(dt__native_load_image(&image, &file, &small));
  assert_false(dt__native_is_mapped(small));
  check_native(small);
  dt__native_unload(small);
  (void)close(file.fd);
  dt__image_fini(&image);
  // Functions of one name; and every mapping that fails in turn.
  const dt_object_t twice[] = {both[1], both[1]};
  expect_told(dt__image_link(twice, 2, true, &image), DT_E_COMPILE,
              "two functions are called 'other'");
  expect_ok(dt__image_link(both, 1, true, &image));
  const dt_native_file_t own = {file_of(&image, 0), 0};
  for (uint64_t n = 1; n < 6; n++)
    for (int way = 0; way < 2; way++) {
      dt_native_t *native = NULL;
      (void)dt__system_fail_at(DT_SYSTEM_MAPPING, n, way ? ENOMEM : EACCES, false);
      dt_status_t status = dt__native_load_image(&image, &own, &native);
      (void)dt__system_fail_at(DT_SYSTEM_MAPPING, 0, 0, false);
      if (!status)
        check_native(native);
      else
        assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
      dt_status_free(status);
      dt__native_unload(native);
    }
  (void)close(own.fd);
  dt__image_fini(&image);
  dt__free(object.data);
  dt__free(other.data);
}

static void test_numbers_of_images(void **state) {
  (void)state;
  object_t object = assemble(small_ir);
  const dt_object_t one = {object.data, object.bytes};
  dt_image_t image;
  expect_ok(dt__image_link(&one, 1, true, &image));
  const dt_image_t sound = image;
  dt_image_slot_t slot = image.slots[0];
  image.code_bytes = 0;
  assert_false(dt__image_fits(&image));
  image.code_bytes = UINT32_MAX - DT_IMAGE_PAGE + 1;
  assert_false(dt__image_fits(&image));
  image = sound;
  image.slots[0].at = image.data_bytes - 7;
  assert_false(dt__image_fits(&image));
  image.slots[0].at = UINT32_MAX;
  assert_false(dt__image_fits(&image));
  image.slots[0] = slot;
  image.slots[0].outside = 100;
  assert_false(dt__image_fits(&image));
  image.slots[0] = slot;
  image.functions[0].at = image.code_bytes;
  assert_false(dt__image_fits(&image));
  dt__image_fini(&image);
  dt__free(object.data);
}

static void test_unknown_symbol(void **state) {
  (void)state;
  object_t object = assemble("declare i32 @system(ptr)\n"
                             "define i32 @f(ptr %p) nounwind {\n"
                             "  %r = call i32 @system(ptr %p)\n  ret i32 %r\n}\n");
  dt_native_t *native;
  expect_told(dt__native_load(object.data, object.bytes, &native), DT_E_COMPILE, "system");
  assert_null(native);
  dt__free(object.data);
}

static void test_writable_data(void **state) {
  (void)state;
  object_t object = assemble("@counter = global i64 7\n"
                             "define i64 @f() nounwind {\n"
                             "  %r = load i64, ptr @counter\n  ret i64 %r\n}\n");
  dt_native_t *native;
  expect_code(dt__native_load(object.data, object.bytes, &native), DT_E_COMPILE);
  dt__free(object.data);
}

static void try_load(const void *data, size_t bytes) {
  dt_native_t *native = NULL;
  dt_status_t status = dt__native_load(data, bytes, &native);
  assert_true((status == NULL) == (native != NULL));
  dt_status_free(status);
  dt__native_unload(native);
}

// Each copy is made to its exact size, so that the sanitizers see a read past its end.
static void test_truncation(void **state) {
  (void)state;
  object_t object = assemble(small_ir);
  for (size_t n = 0; n < object.bytes; n++) {
    void *part = dt__alloc(n);
    assert_non_null(part);
    memcpy(part, object.data, n);
    dt_native_t *native;
    dt_status_t status = dt__native_load(part, n, &native);
    assert_null(native);
    assert_non_null(status);
    dt_status_free(status);
    dt__free(part);
  }
  dt__free(object.data);
}

static void test_damage(void **state) {
  (void)state;
  object_t object = assemble(small_ir);
  unsigned char *copy = dt__alloc(object.bytes);
  assert_non_null(copy);
  const unsigned char extremes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (size_t at = 0; at < object.bytes; at++)
    for (size_t e = 0; e < sizeof(extremes); e++) {
      memcpy(copy, object.data, object.bytes);
      copy[at] = extremes[e];
      try_load(copy, object.bytes);
    }
  uint32_t x = 1;
  for (uint32_t turn = 0; turn < 20000; turn++) {
    memcpy(copy, object.data, object.bytes);
    for (uint32_t flips = 0; flips <= turn % 4; flips++) {
      x = x * 1664525u + 1013904223u;
      copy[(x >> 8) % object.bytes] ^= (unsigned char)(x >> 3 | 1);
    }
    try_load(copy, object.bytes);
  }
  for (size_t at = 0; at + 8 <= object.bytes; at += 4) {
    const uint64_t wide[] = {UINT64_MAX, INT64_MAX, (uint64_t)1 << 32, UINT64_MAX - 63};
    for (size_t e = 0; e < 4; e++) {
      memcpy(copy, object.data, object.bytes);
      memcpy(copy + at, &wide[e], 8);
      try_load(copy, object.bytes);
    }
  }
  dt__free(copy);
  dt__free(object.data);
}

RUN_TESTS(TEST(test_load), TEST(test_images), TEST(test_numbers_of_images),
          TEST(test_unknown_symbol), TEST(test_writable_data), TEST(test_truncation),
          TEST(test_damage))
