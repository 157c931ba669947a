// SPDX-License-Identifier: Apache-2.0
// What the PTX simulator computes: small texts, instruction by instruction.
#include "test/unit/cuda/ptx/ptx_fixture.h"

#include <math.h>

// The body leaves 64-bit words at %d1, of which the first is compared, for each thread at 8 bytes.
typedef struct case_t {
  const char *body;     // a result in %d10 from %r1 (the thread) and %r0 (7)
  uint64_t first, last; // of threads 0 and 31
} case_t;

static void try_cases(const char *declarations, const case_t *cases, size_t n) {
  for (size_t k = 0; k < n; k++) {
    char body[2048];
    (void)snprintf(body, sizeof(body),
                   "%s\nmul.wide.u32 %%d3, %%r1, 8;\nadd.s64 %%d4, %%d1, %%d3;\n"
                   "st.global.u64 [%%d4], %%d10;",
                   cases[k].body);
    dt_cu_function_t f = load_body(declarations, body);
    dt_cu_ptr_t out = allocate(256), in = allocate(4096);
    OK(cuda->fill_bytes(in, 1, 4096, NULL));
    launch(f, (launch_t){0}, in, out, in, 7);
    uint64_t results[32];
    OK(cuda->copy_to_host(results, out, sizeof(results), NULL));
    finish();
    expect_none();
    if (results[0] != cases[k].first || results[31] != cases[k].last)
      fail_msg("%s\ngives %llx and %llx; expected %llx and %llx", cases[k].body,
               (unsigned long long)results[0], (unsigned long long)results[31],
               (unsigned long long)cases[k].first, (unsigned long long)cases[k].last);
  }
}
#define TRY(declarations, cases) try_cases(declarations, cases, sizeof(cases) / sizeof(cases[0]))
#define OUT32 "cvt.u64.u32 %d10, %r10;"

static void integers(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"sub.s32 %r10, %r1, %r0;" OUT32, 0xfffffff9, 24},
      {"mul.lo.s32 %r10, %r1, -3;" OUT32, 0, 0xffffffa3},
      {"sub.s32 %r9, 0, %r1;\nmul.wide.s32 %d10, %r9, 5;", 0, (uint64_t)-155},
      {"mad.wide.u32 %d10, %r1, 0x10000000, 1;", 1, 0x1f0000001},
      {"mov.u32 %r9, -1;\nmul.hi.u32 %r10, %r9, %r1;" OUT32, 0, 30},
      {"mul.hi.s32 %r10, -2, %r1;" OUT32, 0, 0xffffffff},
      {"mov.u64 %d9, -8;\ndiv.s64 %d10, %d9, 3;", (uint64_t)-2, (uint64_t)-2},
      {"rem.s32 %r10, -8, 3;" OUT32, 0xfffffffe, 0xfffffffe},
      {"mov.u32 %r9, 0x80000000;\ndiv.s32 %r10, %r9, -1;" OUT32, 0x80000000, 0x80000000},
      {"rem.u32 %r10, %r1, %r0;" OUT32, 0, 3},
      {"min.s32 %r10, %r1, -4;" OUT32, 0xfffffffc, 0xfffffffc},
      {"max.u32 %r10, %r1, 10;" OUT32, 10, 31},
      {"sub.s32 %r9, %r1, 40;\nabs.s32 %r10, %r9;" OUT32, 40, 9},
      {"neg.s32 %r10, %r1;" OUT32, 0, 0xffffffe1},
      {"shl.b32 %r10, %r0, %r1;" OUT32, 7, 0x80000000},
      {"shl.b32 %r10, %r0, 32;" OUT32, 0, 0},
      {"shr.s32 %r10, -64, %r1;" OUT32, 0xffffffc0, 0xffffffff},
      {"shf.l.wrap.b32 %r10, 0x80000001, 5, %r1;" OUT32, 5, 0xc0000000},
      {"shf.r.clamp.b32 %r10, 1, 2, 32;" OUT32, 2, 2},
      {"bfe.u32 %r10, 0xabcd, 4, 8;" OUT32, 0xbc, 0xbc},
      {"bfe.s32 %r10, 0xabcd, 8, 8;" OUT32, 0xffffffab, 0xffffffab},
      {"bfi.b32 %r10, 0xf, %r1, 8, 4;" OUT32, 0xf00, 0xf1f},
      {"brev.b32 %r10, %r1;" OUT32, 0, 0xf8000000},
      {"popc.b64 %r10, 0xff00ff;" OUT32, 16, 16},
      {"clz.b32 %r10, %r1;" OUT32, 32, 27},
      {"bfind.u32 %r10, %r1;" OUT32, 0xffffffff, 4},
      {"prmt.b32 %r10, 0x33221100, 0x77665544, 0x7250;" OUT32, 0x77225500, 0x77225500},
      {"prmt.b32 %r10, 0x80, 0, 0x8888;" OUT32, 0xffffffff, 0xffffffff},
      {"lop3.b32 %r10, %r1, 0xc, 0xa, 0xea;" OUT32, 0xa, 0xe},
      {"not.b32 %r10, %r1;" OUT32, 0xffffffff, 0xffffffe0},
      {"cnot.b32 %r10, %r1;" OUT32, 1, 0},
      {"add.cc.u32 %r9, %r1, 0xffffffff;\naddc.u32 %r10, 0, 0;" OUT32, 0, 1},
      {"sub.cc.u32 %r9, %r1, 1;\nsubc.u32 %r10, 5, 0;" OUT32, 4, 5},
      {"mov.b64 %d10, {%r1, %r0};", 0x700000000, 0x70000001f},
      {"mov.u64 %d9, 0x1122334455667788;\nmov.b64 {%r9, %r10}, %d9;" OUT32, 0x11223344, 0x11223344},
      {"mov.u64 %d9, 0x1122334455667788;\nmov.b64 {_, %r10}, %d9;" OUT32, 0x11223344, 0x11223344},
      {"dp4a.s32.s32 %r10, 0x01ff0203, 0x01010101, %r1;" OUT32, 5, 36},
      {"cvt.u16.u32 %h1, %r1;\nmul.wide.u16 %r10, %h1, 3;" OUT32, 0, 93},
      {"mov.b16 %h1, -3;\ncvt.s32.s16 %r10, %h1;" OUT32, 0xfffffffd, 0xfffffffd},
      {"cvt.s64.s32 %d10, -5;", (uint64_t)-5, (uint64_t)-5},
      {"cvt.sat.u8.s32 %r10, 300;" OUT32, 255, 255},
      {"cvt.sat.s8.s32 %r9, -300;\ncvt.s64.s8 %d10, %r9;", (uint64_t)-128, (uint64_t)-128},
      {"add.s16x2 %r10, 0x0001ffff, 0x00010001;\n" OUT32, 0x20000, 0x20000},
      {"min.s16x2 %r10, 0x0001ffff, 0xfffe0001;\n" OUT32, 0xfffeffff, 0xfffeffff},
      {"add.sat.s32 %r10, 0x7fffffff, %r1;" OUT32, 0x7fffffff, 0x7fffffff},
      {"setp.ge.s32 %p1, %r1, 16;\nselp.b32 %r10, 5, -1, %p1;" OUT32, 0xffffffff, 5},
      {"setp.lt.u32 %p2, %r1, 40;\nsetp.eq.and.s32 %p1|%p3, %r1, 31, %p2;\n"
       "selp.u32 %r9, 1, 0, %p1;\nselp.u32 %r8, 2, 0, %p3;\nor.b32 %r10, %r9, %r8;" OUT32,
       2, 1},
      {"setp.lt.f16x2 %p1|%p3, 0x40003C00, 0x3C004000;\nselp.u32 %r10, 1, 0, %p1;\n"
       "@%p3 add.u32 %r10, %r10, 2;" OUT32,
       1, 1}, // 1 < 2 below; 2 < 1 above
      {"setp.gt.or.s32 %p1, %r1, 31, !%p0;\nmov.pred %p0, 0;\n"
       "setp.gt.or.s32 %p1, %r1, 31, !%p0;\nselp.u32 %r10, 1, 0, %p1;" OUT32,
       1, 1},
      {"set.eq.u32.s32 %r10, %r1, 31;" OUT32, 0, 0xffffffff},
      {"sub.s32 %r9, %r1, 3;\nslct.u32.s32 %r10, 1, 2, %r9;" OUT32, 2, 1},
      {"mov.u32 %r10, %laneid;" OUT32, 0, 31},
      {"mov.u32 %r10, %lanemask_lt;" OUT32, 0, 0x7fffffff},
      {"mov.u32 %r10, %ntid.x;" OUT32, 32, 32},
      {"{ .reg .b32 t; mov.b32 t, %r1; add.u32 %r10, t, 1; }\n{ .reg .b64 t; cvt.u64.u32 t, %r10; "
       "mov.b64 %d10, t; }",
       1, 32},
  };
  TRY("", cases);
}

#define F32(expr) expr "\nmov.b32 %r10, %f10;\n" OUT32
static void floats(void **state) {
  (void)state;
  static const case_t cases[] = {
      {F32("add.f32 %f10, 0f3F800000, 0f33800000;"), 0x3f800000, 0x3f800000},
      {F32("add.rp.f32 %f10, 0f3F800000, 0f33800000;"), 0x3f800001, 0x3f800001},
      {F32("add.rz.f32 %f10, 0fBF800000, 0fB3800000;"), 0xbf800000, 0xbf800000},
      {F32("fma.rn.f32 %f10, 0f3F800001, 0f3F800001, 0fBF800002;"), 0x28800000, 0x28800000},
      {F32("mul.ftz.f32 %f10, 0f00800000, 0f3F000000;"), 0, 0},
      {F32("mul.f32 %f10, 0f00800000, 0f3F000000;"), 0x400000, 0x400000},
      {F32("add.sat.f32 %f10, 0f3F800000, 0f3F800000;"), 0x3f800000, 0x3f800000},
      {F32("div.rn.f32 %f10, 0f3F800000, 0f40400000;"), 0x3eaaaaab, 0x3eaaaaab},
      {F32("sqrt.rn.f32 %f10, 0f40000000;"), 0x3fb504f3, 0x3fb504f3},
      {F32("ex2.approx.ftz.f32 %f10, 0f40400000;"), 0x41000000, 0x41000000},
      {F32("lg2.approx.f32 %f10, 0f41000000;"), 0x40400000, 0x40400000},
      {F32("rcp.approx.ftz.f32 %f10, 0f40000000;"), 0x3f000000, 0x3f000000},
      {F32("rsqrt.approx.f32 %f10, 0f40800000;"), 0x3f000000, 0x3f000000},
      {F32("max.f32 %f10, 0f7FC00000, 0f3F800000;"), 0x3f800000, 0x3f800000},
      {F32("max.NaN.f32 %f10, 0f7FC00000, 0f3F800000;"), 0x7fffffff, 0x7fffffff},
      {F32("min.f32 %f10, 0f80000000, 0f00000000;"), 0x80000000, 0x80000000},
      {F32("neg.f32 %f10, 0f3F800000;"), 0xbf800000, 0xbf800000},
      {F32("copysign.f32 %f10, 0f80000000, 0f3F800000;"), 0xbf800000, 0xbf800000},
      {F32("cvt.rn.f32.u32 %f10, 16777217;"), 0x4b800000, 0x4b800000},
      {F32("cvt.rp.f32.u32 %f10, 16777217;"), 0x4b800001, 0x4b800001},
      {F32("cvt.rn.f32.s64 %f10, -9007199791611905;"), 0xda000001, 0xda000001},
      {F32("cvt.rni.f32.f32 %f10, 0f40200000;"), 0x40000000, 0x40000000},
      {F32("cvt.rpi.f32.f32 %f10, 0f40200000;"), 0x40400000, 0x40400000},
      {F32("cvt.rna.tf32.f32 %r9, 0f3F801000;\nmov.b32 %f10, %r9;"), 0x3f802000, 0x3f802000},
      {"cvt.rzi.s32.f32 %r10, 0fC0200000;" OUT32, 0xfffffffe, 0xfffffffe},
      {"cvt.rmi.s32.f32 %r10, 0fC0200000;" OUT32, 0xfffffffd, 0xfffffffd},
      {"cvt.rzi.u32.f32 %r10, 0fC0200000;" OUT32, 0, 0},
      {"cvt.rzi.s32.f32 %r10, 0f7F000000;" OUT32, 0x7fffffff, 0x7fffffff},
      {"cvt.rzi.s32.f32 %r10, 0f7FC00000;" OUT32, 0, 0},
      {"cvt.rzi.u64.f64 %d10, 0d43F0000000000000;", UINT64_MAX, UINT64_MAX},
      {"cvt.f64.f32 %e1, 0f3FC00000;\nmov.b64 %d10, %e1;", 0x3ff8000000000000, 0x3ff8000000000000},
      {"fma.rn.f64 %e1, 0d3FF8000000000000, 0d4000000000000000, 0d3FF0000000000000;\n"
       "mov.b64 %d10, %e1;",
       0x4010000000000000, 0x4010000000000000},
      {"setp.ltu.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r10, 1, 0, %p1;" OUT32, 1, 1},
      {"setp.ne.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r10, 1, 0, %p1;" OUT32, 0, 0},
      {"setp.nan.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r10, 1, 0, %p1;" OUT32, 1, 1},
      {"setp.num.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r10, 1, 0, %p1;" OUT32, 0, 0},
      {"testp.subnormal.f32 %p1, 0f00000001;\nselp.u32 %r10, 1, 0, %p1;" OUT32, 1, 1},
  };
  TRY("", cases);
}

#define H16 "cvt.u32.u16 %r10, %h10;\n" OUT32
static void halves(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"cvt.rn.f16.f32 %h10, 0f3F801000;\n" H16, 0x3c00, 0x3c00}, // a tie, to even
      {"cvt.rn.f16.f32 %h10, 0f3F801001;\n" H16, 0x3c01, 0x3c01},
      {"cvt.rn.f16.f32 %h10, 0f3F803000;\n" H16, 0x3c02, 0x3c02},
      {"cvt.rz.f16.f32 %h10, 0f3F803FFF;\n" H16, 0x3c01, 0x3c01},
      {"cvt.rn.f16.f32 %h10, 0f477FF000;\n" H16, 0x7c00, 0x7c00},
      {"cvt.rn.f16.f32 %h10, 0f33000001;\n" H16, 0x0001, 0x0001}, // denormals
      {"cvt.rn.f16.f32 %h10, 0f33000000;\n" H16, 0x0000, 0x0000},
      {"cvt.rn.f16.f32 %h10, 0f387FE000;\n" H16, 0x0400, 0x0400},
      {"cvt.rn.f16.f32 %h10, 0fFFC00000;\n" H16, 0x7fff, 0x7fff},
      {"cvt.rn.bf16.f32 %h10, 0f3F808000;\n" H16, 0x3f80, 0x3f80},
      {"cvt.rn.bf16.f32 %h10, 0f3F818000;\n" H16, 0x3f82, 0x3f82},
      {"mov.b16 %h1, 0x03ff;\ncvt.f32.f16 %f1, %h1;\nmov.b32 %r10, %f1;\n" OUT32, 0x387fc000,
       0x387fc000},
      {"mov.b16 %h1, 0x3f81;\ncvt.f32.bf16 %f1, %h1;\nmov.b32 %r10, %f1;\n" OUT32, 0x3f810000,
       0x3f810000},
      {"cvt.rn.f16x2.f32 %r10, 0f3F800000, 0f40000000;\n" OUT32, 0x3c004000, 0x3c004000},
      {"cvt.rn.bf16x2.f32 %r10, 0f3F800000, 0f40000000;\n" OUT32, 0x3f804000, 0x3f804000},
      {"cvt.rn.relu.bf16x2.f32 %r10, 0fBF800000, 0f40000000;\n" OUT32, 0x4000, 0x4000},
      {"mov.b16 %h1, 0x3c00;\nmov.b16 %h2, 0x1000;\nadd.rn.f16 %h10, %h1, %h2;\n" H16, 0x3c00,
       0x3c00},
      // 1.001 * 1.001 - 1.002, whose product does not fit a half.
      {"mov.b16 %h1, 0x3c01;\nmov.b16 %h2, 0xbc02;\nfma.rn.f16 %h10, %h1, %h1, %h2;\n" H16, 0x0010,
       0x0010},
      {"mul.rn.f16x2 %r10, 0x40003c00, 0x40004400;\n" OUT32, 0x44004400, 0x44004400},
      {"fma.rn.bf16x2 %r10, 0x40003f80, 0x40003f80, 0x3f803f80;\n" OUT32, 0x40a04000, 0x40a04000},
      {"max.f16x2 %r10, 0x3c00c000, 0xbc007e00;\n" OUT32, 0x3c00c000, 0x3c00c000},
  };
  TRY("", cases);
}

static void memory(void **state) {
  (void)state;
#define DEPOT ".local .align 8 .b8 depot[32];\n.reg .b64 sp, spl;\nmov.u64 spl, depot;\n"
  static const case_t cases[] = {
      {"ld.global.nc.L1::no_allocate.v2.u32 {%r9, %r10}, [%d0+8];\n" OUT32, 0x1010101, 0x1010101},
      {"ld.global.s8 %r10, [%d0];\n" OUT32, 1, 1},
      {"ld.u16 %h1, [%d0];\ncvt.u64.u16 %d10, %h1;", 0x101, 0x101},
      {"mov.u64 %d9, t;\nld.const.s16 %h1, [%d9+2];\ncvt.s64.s16 %d10, %h1;", (uint64_t)-2,
       (uint64_t)-2},
      {"ld.global.u64 %d10, [g+8];", 0x400, 0x400},
      {"ld.global.f32 %f1, [pi];\nmov.b32 %r10, %f1;\n" OUT32, 0x40490fdb, 0x40490fdb},
      {DEPOT "cvta.local.u64 sp, spl;\ncvt.u64.u32 %d9, %r1;\nst.u64 [sp+8], %d9;\n"
             "ld.local.u64 %d10, [spl+8];",
       0, 31},
      {"mov.u32 %r9, sm;\nmad.lo.u32 %r9, %r1, 8, %r9;\nst.shared.v2.u32 [%r9], {%r1, %r0};\n"
       "cvt.u64.u32 %d9, %r9;\ncvta.shared.u64 %d9, %d9;\nld.u64 %d10, [%d9];",
       0x700000000, 0x70000001f},
      {"atom.shared.exch.b32 %r9, [sm+4], 0;\nbar.sync 0;\natom.shared.add.u32 %r9, [sm+4], 2;\n"
       "bar.sync 0;\nld.shared.u32 %r10, [sm+4];\n" OUT32,
       64, 64},
      {"atom.global.max.u32 %r9, [%d0], 0x2000000;\nbar.sync 0;\nld.global.u32 %r10, "
       "[%d0];\n" OUT32,
       0x2000000, 0x2000000},
      {"atom.shared.exch.b32 %r9, [sm], 0;\nbar.sync 0;\nred.shared.add.f32 [sm], 0f3F000000;\n"
       "bar.sync 0;\nld.shared.u32 %r10, [sm];\n" OUT32,
       0x41800000, 0x41800000},
      {"setp.eq.u32 %p1, %r1, 31;\n@%p1 atom.global.cas.b32 %r9, [%d0+64], 0x01010101, 9;\n"
       "bar.sync 0;\nld.global.u32 %r10, [%d0+64];\n" OUT32,
       9, 9},
      {"mov.u32 %r9, sm;\nmad.lo.u32 %r9, %r1, 16, %r9;\nmul.wide.u32 %d9, %r1, 16;\n"
       "add.s64 %d9, %d9, %d0;\nmov.u32 %r8, 4;\n"
       "cp.async.cg.shared.global [%r9], [%d9], 16, %r8;\ncp.async.commit_group;\n"
       "cp.async.wait_group 0;\nld.shared.u64 %d10, [%r9];",
       0x1010101, 0x1010101},
      // Not yet waited for, the place holds what it did.
      {"mov.u32 %r9, sm;\nmad.lo.u32 %r9, %r1, 4, %r9;\nst.shared.u32 [%r9], %r1;\n"
       "cp.async.ca.shared.global [%r9], [%d0], 4;\nld.shared.u32 %r10, [%r9];\n" OUT32,
       0, 31},
      {"mov.u32 %r9, sm;\nmad.lo.u32 %r9, %r1, 4, %r9;\nst.shared.u32 [%r9], %r1;\n"
       "cp.async.ca.shared.global [%r9], [%d0], 4;\ncp.async.commit_group;\n"
       "cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r10, [%r9];\n" OUT32,
       0x1010101, 0x1010101},
  };
  TRY(".const .align 2 .b16 t[3] = {1, -2, 3};\n.global .align 8 .b8 g[16] = {1, 2, 3, 4, 0, 0, 0, "
      "0, 0, 4};\n.global .f32 pi = 0f40490FDB;\n.shared .align 16 .b8 sm[1024];",
      cases);
}

static void warps(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"shfl.sync.bfly.b32 %r10, %r1, 5, 31, -1;\n" OUT32, 5, 26},
      {"shfl.sync.down.b32 %r10|%p1, %r1, 4, 31, -1;\n@!%p1 mov.u32 %r10, 99;\n" OUT32, 4, 99},
      {"shfl.sync.up.b32 %r10|%p1, %r1, 4, 0, -1;\n@!%p1 mov.u32 %r10, 99;\n" OUT32, 99, 27},
      {"shfl.sync.idx.b32 %r10, %r1, 3, 0x181f, -1;\n" OUT32, 3, 27}, // segments of eight
      {"setp.gt.u32 %p1, %r1, 3;\nvote.sync.ballot.b32 %r10, %p1, -1;\n" OUT32, 0xfffffff0,
       0xfffffff0},
      {"setp.gt.u32 %p1, %r1, 3;\nvote.sync.all.pred %p2, !%p1, -1;\nselp.u32 %r10, 1, 0, "
       "%p2;\n" OUT32,
       0, 0},
      {"redux.sync.add.s32 %r10, %r1, -1;\n" OUT32, 496, 496},
      {"sub.s32 %r9, %r1, 5;\nredux.sync.min.s32 %r10, %r9, -1;\n" OUT32, 0xfffffffb, 0xfffffffb},
      {"shr.u32 %r9, %r1, 4;\nmatch.any.sync.b32 %r10, %r9, -1;\n" OUT32, 0xffff, 0xffff0000},
      {"elect.sync %r9|%p1, -1;\nselp.u32 %r10, 1, 0, %p1;\n" OUT32, 1, 0},
      {"setp.lt.u32 %p1, %r1, 8;\n@%p1 bra L;\nactivemask.b32 %r10;\nbra M;\nL:\nactivemask.b32 "
       "%r10;\nM:\n" OUT32,
       0xff, 0xffffff00},
      // Lanes that spin at a lower position than those they wait for.
      {"atom.shared.exch.b32 %r9, [sm], 0;\nbar.sync 0;\nsetp.gt.u32 %p1, %r1, 15;\n@%p1 bra M;\n"
       "L:\nld.volatile.shared.u32 %r10, [sm];\nsetp.eq.u32 %p2, %r10, 0;\n@%p2 bra L;\nbra E;\n"
       "M:\natom.shared.exch.b32 %r9, [sm], 5;\nmov.u32 %r10, 6;\nE:\n" OUT32,
       5, 6},
      // Loops of different lengths come together again.
      {"mov.u32 %r10, 0;\nL:\nadd.u32 %r10, %r10, 2;\nsetp.le.u32 %p1, %r10, %r1;\n@%p1 bra L;\n"
       "shfl.sync.bfly.b32 %r10, %r10, 31, 31, -1;\n" OUT32,
       32, 2},
      {"setp.gt.u32 %p1, %r1, 3;\nbar.red.popc.u32 %r10, 0, %p1;\n" OUT32, 28, 28},
      {"setp.gt.u32 %p1, %r1, 3;\nbarrier.cta.red.or.pred %p2, 0, %p1;\nselp.u32 %r10, 1, 0, "
       "%p2;\n" OUT32,
       1, 1},
      {"and.b32 %r9, %r1, 3;\nmin.u32 %r9, %r9, 2;\nT: .branchtargets A, B, C;\nbrx.idx %r9, T;\n"
       "A: mov.u32 %r10, 10;\nbra E;\nB: mov.u32 %r10, 20;\nbra E;\nC: mov.u32 %r10, "
       "30;\nE:\n" OUT32,
       10, 30},
  };
  TRY(".shared .b32 sm;", cases);
}

// Calls in divergent code: lanes come back together before they meet. The callee stands behind the
// caller in the text, and calls another.
static void calls(void **state) {
  (void)state;
  static const char functions[] =
      ".func (.param .b32 r) twice(.param .b32 x);\n"
      ".func (.reg .b32 r) plus(.reg .b32 x, .reg .b32 y) { add.u32 r, x, y; ret; }\n"
      ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 a, b;\n.reg .pred p;\n"
      "ld.param.b32 a, [x];\nsetp.gt.u32 p, a, 20;\n@p bra L;\ncall (b), plus, (a, a);\n"
      "st.param.b32 [r], b;\nret;\nL:\nst.param.b32 [r], 1000;\nret;\n}\n"
      ".func many(.param .align 8 .b8 v[16], .param .b64 to)\n{\n.reg .b32 a<4>;\n.reg .b64 d;\n"
      "ld.param.v4.b32 {a0, a1, a2, a3}, [v];\nld.param.b64 d, [to];\nadd.u32 a0, a0, a3;\n"
      "st.u32 [d], a0;\nret;\n}\n";
  static const case_t cases[] = {
      {"mov.u32 %r10, 5;\nsetp.lt.u32 %p1, %r1, 4;\n@!%p1 bra M;\n"
       "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\ncall.uni (b), twice, (a);\n"
       "ld.param.b32 %r10, [b];\n}\nM:\nshfl.sync.bfly.b32 %r10, %r10, 30, 31, -1;\n" OUT32,
       5, 2},
      {"{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), twice, (a);\n"
       "ld.param.b32 %r10, [b];\n}\n" OUT32,
       0, 1000},
      {"{\n.param .align 8 .b8 a[16];\n.param .b64 b;\nst.param.v4.b32 [a], {%r1, 0, 0, %r0};\n"
       "mul.wide.u32 %d5, %r1, 4;\nadd.s64 %d5, %d5, %d2;\nst.param.b64 [b], %d5;\n"
       "call.uni many, (a, b);\n}\nld.global.u32 %r10, [%d5];\n" OUT32,
       7, 38},
      {"setp.lt.u32 %p1, %r1, 9;\nmov.u32 %r10, 0;\n@%p1 call (%r10), plus, (%r1, 3);\n" OUT32, 3,
       0},
  };
  TRY(functions, cases);
}

// ---- Matrices -----------------------------------------------------------------------------------

// One product of 16 x 16 and 16 x 8 halves, each read by ldmatrix, against the sums themselves.
static void matrix_products(void **state) {
  (void)state;
  dt_cu_function_t f =
      load_body(".shared .align 16 .b8 a[512];\n.shared .align 16 .b8 b[256];",
                "mul.wide.u32 %d3, %r1, 16;\nadd.s64 %d4, %d0, %d3;\nmov.u32 %r2, a;\n"
                "mad.lo.u32 %r2, %r1, 16, %r2;\ncp.async.cg.shared.global [%r2], [%d4], 16;\n"
                "setp.lt.u32 %p1, %r1, 16;\nadd.s64 %d4, %d1, %d3;\nmov.u32 %r3, b;\n"
                "mad.lo.u32 %r3, %r1, 16, %r3;\n@%p1 cp.async.cg.shared.global [%r3], [%d4], 16;\n"
                "cp.async.commit_group;\ncp.async.wait_all;\nbar.sync 0;\n"
                "and.b32 %r4, %r1, 15;\nshr.u32 %r5, %r1, 4;\nshl.b32 %r4, %r4, 5;\n"
                "mad.lo.u32 %r4, %r5, 16, %r4;\nmov.u32 %r2, a;\nadd.u32 %r2, %r2, %r4;\n"
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];\n"
                "and.b32 %r4, %r1, 15;\nmov.u32 %r3, b;\nmad.lo.u32 %r3, %r4, 16, %r3;\n"
                "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r3];\n"
                "mov.f32 %f0, 0f3F800000;\n"
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, "
                "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f0, %f0, %f0};\n"
                "shr.u32 %r4, %r1, 2;\nand.b32 %r5, %r1, 3;\nshl.b32 %r4, %r4, 5;\n"
                "mad.lo.u32 %r4, %r5, 8, %r4;\ncvt.u64.u32 %d3, %r4;\nadd.s64 %d4, %d2, %d3;\n"
                "st.global.v2.f32 [%d4], {%f4, %f5};\nst.global.v2.f32 [%d4+256], {%f6, %f7};");
  uint16_t a[16][16], b[16][8];
  float out[16][8];
  // Halves of small integers: 0x6400 + n is 1024 + n.
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t c = 0; c < 16; c++)
      a[r][c] = (uint16_t)(0x6400 + r * 16 + c);
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t c = 0; c < 8; c++)
      b[r][c] = (uint16_t)((r + c) % 3 ? 0x3c00 : 0xc000); // 1 and -2
  dt_cu_ptr_t da = allocate(sizeof(a)), db = allocate(sizeof(b)), to = allocate(sizeof(out));
  OK(cuda->copy_to_device(da, a, sizeof(a), NULL));
  OK(cuda->copy_to_device(db, b, sizeof(b), NULL));
  launch(f, (launch_t){0}, da, db, to, 0);
  OK(cuda->copy_to_host(out, to, sizeof(out), NULL));
  finish();
  expect_none();
  for (uint32_t r = 0; r < 16; r++) {
    for (uint32_t c = 0; c < 8; c++) {
      double sum = 1;
      for (uint32_t k = 0; k < 16; k++)
        sum += (1024.0 + r * 16 + k) * ((k + c) % 3 ? 1.0 : -2.0);
      if (fabs(sum - (double)out[r][c]) > 0)
        fail_msg("(%u, %u): %g; expected %g", r, c, (double)out[r][c], sum);
    }
  }
}

// ---- Modules ------------------------------------------------------------------------------------

static void what_is_not_known_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *error;
  } cases[] = {
      {".visible .entry k() { frobnicate.b32 %r1; ret; }",
       "line 4: \"frobnicate\" is not simulated"},
      {".visible .entry k() { .reg .b32 a; add.wild.s32 a, a, a; ret; }", "\".wild\""},
      {".visible .entry k() { .reg .b32 a;\nadd.s32 a, b, a; ret; }", "line 5: no register \"b\""},
      {".visible .entry k() { bra nowhere; }", "no label \"nowhere\""},
      {".visible .entry k() { .reg .b32 a; add.s32 a, a; ret; }", "2 operands"},
      {".func f(); .visible .entry k() { call f; ret; }", "\"f\" is called, and not defined"},
      {".func f() { call f; ret; }", "recursion"},
      {".visible .entry k() { .reg .b32 a; ld.param.b32 a, [x]; }", "no register \"x\""},
      {".visible .entry k() { wgmma.mma_async.sp.sync.aligned; }", "wgmma in a form that is not"},
      {".visible .entry k() { tcgen05.fence; }", "\"tcgen05\" is not simulated"},
      {".visible .entry k() {", "the text ends inside a function"},
      {".visible .entry k() { .shared .b8 x[49153]; ret; }", "49153 bytes of shared memory"},
      {".maybe 3", "a directive that is not known"},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    char text[512], log[256] = "";
    (void)snprintf(text, sizeof(text), PTX_HEADER "%s\n", cases[k].text);
    int options[] = {DT_CU_JIT_ERROR_LOG, DT_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    dt_cu_link_t link = NULL;
    OK(cuda->link_create(2, options, values, &link));
    assert_int_equal(
        cuda->link_add(link, DT_CU_JIT_PTX, text, strlen(text) + 1, "x", 0, NULL, NULL),
        DT_CU_INVALID_PTX);
    if (!strstr(fake_ptx_error(), cases[k].error) || !strstr(log, cases[k].error))
      fail_msg("error \"%s\", log \"%s\"; expected \"%s\"", fake_ptx_error(), log, cases[k].error);
    OK(cuda->link_destroy(link));
    dt_cu_module_t module = NULL;
    assert_int_equal(cuda->module_load(&module, text), DT_CU_INVALID_PTX);
  }
}

static void attributes_tell_what_a_function_uses(void **state) {
  (void)state;
  dt_cu_function_t f =
      load_text(PTX_HEADER ".shared .align 8 .b8 common[24];\n.shared .align 8 .b8 unused[100];\n"
                           ".visible .entry big() { .shared .b8 x[3]; .shared .align 8 .b8 y[8];\n"
                           ".local .b8 depot[48]; .reg .b32 r; ld.shared.b32 r, [common]; ret; }\n"
                           ".visible .entry small() { .shared .b32 x; ret; }\n",
                "big");
  int value = 0;
  OK(cuda->function_attribute(&value, DT_CU_FUNC_SHARED_BYTES, f));
  assert_int_equal(value, 24 + 8 + 8);
  OK(cuda->function_attribute(&value, DT_CU_FUNC_LOCAL_BYTES, f));
  assert_int_equal(value, 48);
  OK(cuda->function_attribute(&value, DT_CU_FUNC_REGISTERS, f));
  assert_true(value > 0 && value <= 255);
}

// Parameters of all sizes, each at its own pointer.
static void parameters_come_one_by_one(void **state) {
  (void)state;
  dt_cu_function_t f = load_text(
      PTX_HEADER ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 1 to, "
                 ".param .align 16 .b8 c[20], .param .f32 d)\n{\n.reg .b32 r<6>;\n.reg .b64 p;\n"
                 "ld.param.u8 r0, [a];\nld.param.u64 p, [to];\nld.param.u32 r1, [c+16];\n"
                 "ld.param.b32 r2, [d];\nst.global.v4.u32 [p], {r0, r1, r2, r2};\nret;\n}\n",
      "k");
  dt_cu_ptr_t to = allocate(16);
  uint8_t a = 200;
  uint32_t c[5] = {1, 2, 3, 4, 5}, out[4];
  float d = 1;
  void *params[] = {&a, &to, c, &d};
  OK(launch_params(f, (launch_t){.block = 1}, params));
  OK(cuda->copy_to_host(out, to, 16, NULL));
  finish();
  expect_none();
  assert_int_equal(out[0], 200);
  assert_int_equal(out[1], 5);
  assert_int_equal(out[2], 0x3f800000);
}

RUN_WITH_LIBRARY(ON_DEVICE(integers), ON_DEVICE(floats), ON_DEVICE(halves), ON_DEVICE(memory),
                 ON_DEVICE(warps), ON_DEVICE(calls), ON_DEVICE(matrix_products),
                 ON_DEVICE(what_is_not_known_is_refused),
                 ON_DEVICE(attributes_tell_what_a_function_uses),
                 ON_DEVICE(parameters_come_one_by_one))
