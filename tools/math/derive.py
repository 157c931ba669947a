#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the polynomials of backend_llvm/emit/math_coef.c and prints that file.

Each row names a function of one variable, an interval, a degree, an error weight and a float type.
The polynomial is the weighted minimax fit on a dense Chebyshev grid (Lawson's reweighting), its
coefficients rounded one by one to the type, lowest first, the others being refitted after each.
Needs mpmath. Usage: derive.py > math_coef.c, then clang-format; the fitted error of each row goes to stderr.
"""
import struct
import sys
from mpmath import mp, mpf

mp.prec = 240


def round_f32(v):
    return mpf(struct.unpack("f", struct.pack("f", float(v)))[0])


def round_f64(v):
    return mpf(float(v))


def solve_minimax(cols, target, weight, points):
    """c for which max |sum c_k cols[k] - target| * weight on the grid is (nearly) least."""
    n = len(cols)
    share = [mpf(1)] * points
    best = None
    for _ in range(10):
        scale = [share[p] * weight[p] ** 2 for p in range(points)]
        scaled = [[c[p] * scale[p] for p in range(points)] for c in cols]
        a = mp.matrix(n, n)
        b = mp.matrix(n, 1)
        for i in range(n):
            for j in range(i, n):
                a[i, j] = a[j, i] = mp.fdot(scaled[i], cols[j])
            b[i] = mp.fdot(scaled[i], target)
        sol = mp.lu_solve(a, b)
        c = [sol[k] for k in range(n)]
        err = [abs(sum(c[k] * cols[k][p] for k in range(n)) - target[p]) * weight[p]
               for p in range(points)]
        worst = max(err)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst == 0:
            break
        share = [s * (e + worst / 1000) for s, e in zip(share, err)]
        total = sum(share)
        share = [s * points / total for s in share]
    return best


def fit(fn, weight, lo, hi, degree, rnd):
    points = 8 * (degree + 2)
    mid, half = (mpf(lo) + hi) / 2, (mpf(hi) - lo) / 2
    xs = [mid - half * mp.cos(mp.pi * (i + mpf(1) / 2) / points) for i in range(points)]
    target = [fn(x) for x in xs]
    ws = [weight(x) for x in xs]
    powers = [[x ** k for x in xs] for k in range(degree + 1)]
    fixed = []
    for k in range(degree + 1):
        c, _ = solve_minimax(powers[k:], target, ws, points)
        r = rnd(c[0])
        fixed.append(r)
        target = [t - r * p for t, p in zip(target, powers[k])]
    error = max(abs(t) * w for t, w in zip(target, ws))
    return fixed, error


def series(f, n):
    """f with its removable singularity at 0 avoided by evaluating slightly off it."""
    return lambda x: f(x if abs(x) > mpf(2) ** -40 else mpf(2) ** -40)


HALF_LN2 = mp.log(2) / 2 * mpf("1.0001")
QUARTER_PI = mp.pi / 4 * mpf("1.0001")
THIRD = mpf(1) / 3 * mpf("1.0001")

exp_tail = series(lambda r: (mp.expm1(r) - r) / r ** 2, 0)
exp_weight = lambda r: abs(r) + mpf(2) ** -20
log_tail = series(lambda f: (mp.log1p(f) - f) / f ** 2, 0)
log_weight = lambda f: abs(f) + mpf(2) ** -20
log2_quot = series(lambda f: mp.log1p(f) / f / mp.log(2), 0)


def atanh_tail(z):
    s = mp.sqrt(max(z, mpf(2) ** -60))
    return (2 * mp.atanh(s) - 2 * s) / s ** 3


# atanh(s) / s past its first two terms, for pow.
def pow_tail(z):
    z = max(z, mpf(2) ** -20)
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z ** 2


def sin_tail(z):
    r = mp.sqrt(max(z, mpf(2) ** -60))
    return (mp.sin(r) - r) / r ** 3


def cos_tail(z):
    z = max(z, mpf(2) ** -40)
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2


def tanh_tail(z):
    r = mp.sqrt(max(z, mpf(2) ** -60))
    return (mp.tanh(r) - r) / r ** 3


def atan_tail(z):
    r = mp.sqrt(max(z, mpf(2) ** -60))
    return (mp.atan(r) - r) / r ** 3


def asin_tail(z):
    r = mp.sqrt(max(z, mpf(2) ** -60))
    return (mp.asin(r) - r) / r ** 3


# erfc(x)^(1/4) of w = x - 2.4375, 0.97 <= x <= 3.94; the weight is the absolute error of its 4th power.
ERFC_MID = mpf("2.4375")


def erfc_root(w):
    return mp.erfc(ERFC_MID + w) ** mpf("0.25")


def erf_small(z):
    r = mp.sqrt(max(z, mpf(2) ** -60))
    return mp.erf(r) / r - 1


# log2 of the standard normal distribution's lower tail. The weight wants an absolute error of the tail
# itself, and 2^9 times as much of its size where it is small.
def ndtr(a):
    return mp.erfc(a / mp.sqrt(2)) / 2


def ndtr_log2(a):
    return mp.log(ndtr(a), 2)


# erfc(x) exp(x^2) over q = (x - 2.5) / (x + 2.5) on 0.95 <= x <= 6.
def erfcx_q(q):
    x = mpf("2.5") * (1 + q) / (1 - q)
    return mp.erfc(x) * mp.exp(x * x)


one = lambda x: mpf(1)
ROWS = [
    # name, type, function, weight, lo, hi, degree
    ("exp_f32", 32, exp_tail, exp_weight, -HALF_LN2, HALF_LN2, 4),
    ("exp_f64", 64, exp_tail, exp_weight, -HALF_LN2, HALF_LN2, 10),
    ("log_f32", 32, log_tail, log_weight, -THIRD, THIRD, 8),
    ("log2_f32", 32, log2_quot, lambda f: 1 / log2_quot(f), -THIRD, THIRD, 9),
    ("atanh_f64", 64, atanh_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.0401"), 7),
    ("pow_f64", 64, pow_tail, lambda z: z ** 2 + mpf(2) ** -30, 0, mpf("0.0401"), 8),
    ("sin_f32", 32, sin_tail, lambda z: z + mpf(2) ** -30, 0, QUARTER_PI ** 2, 2),
    ("sin_f64", 64, sin_tail, lambda z: z + mpf(2) ** -30, 0, QUARTER_PI ** 2, 5),
    ("cos_f32", 32, cos_tail, lambda z: z ** 2 + mpf(2) ** -30, 0, QUARTER_PI ** 2, 2),
    ("cos_f64", 64, cos_tail, lambda z: z ** 2 + mpf(2) ** -30, 0, QUARTER_PI ** 2, 5),
    ("tanh_f32", 32, tanh_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.5625") ** 2, 4),
    ("tanh_f64", 64, tanh_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.5625") ** 2, 11),
    ("atan_f32", 32, atan_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.1717"), 4),
    ("atan_f64", 64, atan_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.1717"), 10),
    ("asin_f32", 32, asin_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.25"), 5),
    ("asin_f64", 64, asin_tail, lambda z: z + mpf(2) ** -30, 0, mpf("0.25"), 12),
    ("erf_small_f32", 32, erf_small, one, 0, mpf("1.0"), 6),
    ("erfc_root_f32", 32, erfc_root, lambda w: 4 * erfc_root(w) ** 3, mpf("0.97") - ERFC_MID,
     mpf("3.94") - ERFC_MID, 9),
    ("erf_small_f64", 64, erf_small, one, 0, mpf("1.0"), 12),
    ("ndtr_f32", 32, ndtr_log2, lambda a: mp.log(2) * (ndtr(a) + mpf(2) ** -9), 0, mpf("5.7"), 8),
    ("erfcx_f64", 64, erfcx_q, one, mpf("-0.4493"), mpf("0.4118"), 18),
]


def pi_windows(first, step, count, parts):
    """Rows {2^-s, c_1 ..} with sum c_i = (2^s 2/pi) mod 4, for s = first, first + step, ..."""
    with mp.workprec(1400):
        for k in range(count):
            s = first + step * k
            rest = mp.fmod(mp.ldexp(2 / mp.pi, s), 4)
            row = [mpf(2) ** -s]
            for bits in parts:
                c = mpf(float(rest)) if bits is None else mp.floor(rest * 2 ** bits) / 2 ** bits
                row.append(c)
                rest -= c
            yield row


PI_TABLES = [
    # name, windows, columns: the parts of float's rows have 29 bits, so that products are exact
    ("pi_narrow", pi_windows(25, 30, 3, [27, 56, None]), 4),
    ("pi_wide", pi_windows(-4, 39, 26, [None] * 4), 5),
]


def main():
    print("""// SPDX-License-Identifier: Apache-2.0
// Coefficients of the elementary functions, lowest degree first. Generated by tools/math/derive.py,
// which says what each polynomial approximates and with which weight; do not edit by hand.
#include "backend_llvm/emit/math_coef.h"
""")
    for name, bits, fn, weight, lo, hi, degree in ROWS:
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        coef, error = fit(fn, weight, lo, hi, degree, round_f32 if bits == 32 else round_f64)
        print("%-14s degree %2d error 2^%.1f" % (name, degree, mp.log(error, 2)), file=sys.stderr)
        print("const double dt__math_%s[%d] = {" % (name, degree + 1))
        for c in coef:
            print("    %s," % float(c).hex())
        print("};\n")
    if len(sys.argv) > 1:
        return
    for name, rows, columns in PI_TABLES:
        rows = list(rows)
        print("const double dt__math_%s[%d][%d] = {" % (name, len(rows), columns))
        for row in rows:
            print("    {%s}," % ",\n     ".join(float(v).hex() for v in row))
        print("};\n")


if __name__ == "__main__":
    main()
