/* SPDX-License-Identifier: MIT */
/*
 * Elementary functions on lanes; their largest error over all floats, against double, is tested by tests/vec:
 *   v_exp                1.1 ulp    the whole range, subnormal results included
 *   v_exp_neg            1.0 ulp    for decays, x <= 0: 0 below -87.3, NaN stays
 *   v_exp2_product       1.1 ulp    2^(a*b) for -126 <= a*b <= 127; v_exp2_product_neg 1 above 0, 0 below -126; NaN stays
 *   v_softplus           2.0 ulp    log(1 + exp(x))
 *   v_sigmoid, v_silu    2.2, 2.7 ulp
 */
#ifndef SEQMIX_CPU_VEC_VEC_MATH_H
#define SEQMIX_CPU_VEC_VEC_MATH_H

#include "vec.h"

#define V_LOG2E    0x1.715476p0f
#define V_LN2_HIGH 0x1.62ep-1f /* 12 bits: n*V_LN2_HIGH is exact, in eighths too */
#define V_LN2_LOW  0x1.0bfbe8p-15f
#define V_MAGIC    0x1.8p23f /* x + V_MAGIC has the nearest integer of x in its low bits */
#define V_MAGIC_8  0x1.8p20f /* ... the nearest eighth */

enum { V_TOGETHER = 4 }; /* vectors of a function that takes several at once */

/* exp(r) - 1 for |r| <= ln(2)/2. */
static inline vf v_exp_less_one(vf r)
{
    vf p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    return v_fma(v_mul(r, r), p, r);
}

static inline vf v_exp_reduced(vf r)
{
    return v_add(v_exp_less_one(r), v_set1(1));
}

/* x = n*ln(2) + r; returns r, and n + V_MAGIC in *t. */
static inline vf v_exp_reduce(vf x, vf *t)
{
    *t = v_fma(x, v_set1(V_LOG2E), v_set1(V_MAGIC));
    const vf n = v_sub(*t, v_set1(V_MAGIC));
    return v_fnma(n, v_set1(V_LN2_LOW), v_fnma(n, v_set1(V_LN2_HIGH), x));
}

static inline vf v_exp(vf x)
{
    vf t, first, second;
    x = v_min(v_set1(89.0f), v_max(v_set1(-104.5f), x)); /* a NaN comes through */
    const vf r = v_exp_reduce(x, &t);
    v_pow2_halves(t, &first, &second);
    return v_mul(v_mul(v_exp_reduced(r), first), second);
}

/* power[i] <- 2^(a*b[i]) for n <= V_TOGETHER vectors, power[i] being V_MAGIC_8 plus the nearest eighth of a*b[i]. */
static inline __attribute__((always_inline)) void v_exp2_from(vf a, const vf *b, vf *power, int n)
{
    vf f[V_TOGETHER], p[V_TOGETHER];
    for (int i = 0; i < n; i++)
        f[i] = v_fma(a, b[i], v_sub(v_set1(V_MAGIC_8), power[i]));
    for (int i = 0; i < n; i++)
        power[i] = v_pow2_eighths(power[i]);
    for (int i = 0; i < n; i++)
        p[i] = v_fma(v_set1(9.6163600e-3f), f[i], v_set1(5.5508020e-2f));
    for (int i = 0; i < n; i++)
        p[i] = v_fma(p[i], f[i], v_set1(2.4022651e-1f));
    for (int i = 0; i < n; i++)
        p[i] = v_fma(p[i], f[i], v_set1(6.9314718e-1f));
    for (int i = 0; i < n; i++)
        p[i] = v_mul(p[i], f[i]);
    for (int i = 0; i < n; i++)
        power[i] = v_fma(power[i], p[i], power[i]);
}

/* 2^(a*b) for -126 <= a*b <= 127 by eighths and a short polynomial; NaN stays. For sums of many decays: eleven operations. */
static inline __attribute__((always_inline)) void v_exp2_product_each(vf a, const vf *b, vf *power, int n)
{
    for (int i = 0; i < n; i++)
        power[i] = v_fma(a, b[i], v_set1(V_MAGIC_8));
    v_exp2_from(a, b, power, n);
}

static inline vf v_exp2_product(vf a, vf b)
{
    vf power;
    v_exp2_product_each(a, &b, &power, 1);
    return power;
}

/* The same with 1 above a*b = 0, and 0 where the nearest eighth is below -126. */
static inline __attribute__((always_inline)) void v_exp2_product_neg_each(vf a, const vf *b, vf *power, int n)
{
    const vf lowest = v_set1(V_MAGIC_8 - 126);
    vf t[V_TOGETHER];
    for (int i = 0; i < n; i++) {
        t[i] = v_fma(a, b[i], v_set1(V_MAGIC_8));
        power[i] = v_min(v_set1(V_MAGIC_8), v_max(lowest, t[i]));
    }
    v_exp2_from(a, b, power, n);
    for (int i = 0; i < n; i++)
        power[i] = v_select(v_less(t[i], lowest), v_zero(), v_min(v_set1(1), power[i]));
}

static inline vf v_exp2_product_neg(vf a, vf b)
{
    vf power;
    v_exp2_product_neg_each(a, &b, &power, 1);
    return power;
}

/* x <- exp(x) for x <= 0 and n <= V_TOGETHER vectors: 0 below -87.3, NaN stays. */
static inline __attribute__((always_inline)) void v_exp_neg_each(vf *x, int n)
{
    const vf smallest = v_set1(-87.3f);
    vf t[V_TOGETHER], r[V_TOGETHER], p[V_TOGETHER];
    for (int i = 0; i < n; i++) {
        r[i] = v_max(smallest, x[i]);
        t[i] = v_fma(r[i], v_set1(V_LOG2E), v_set1(V_MAGIC_8));
    }
    for (int i = 0; i < n; i++) {
        const vf whole = v_sub(t[i], v_set1(V_MAGIC_8));
        r[i] = v_fnma(whole, v_set1(V_LN2_LOW), v_fnma(whole, v_set1(V_LN2_HIGH), r[i]));
    }
    for (int i = 0; i < n; i++)
        t[i] = v_pow2_eighths(t[i]);
    for (int i = 0; i < n; i++)
        p[i] = v_fma(v_fma(v_set1(4.1660430e-2f), r[i], v_set1(1.6668026e-1f)), r[i], v_set1(0.5f));
    for (int i = 0; i < n; i++)
        p[i] = v_fma(v_mul(r[i], r[i]), p[i], r[i]);
    for (int i = 0; i < n; i++)
        x[i] = v_select(v_less(x[i], smallest), v_zero(), v_fma(t[i], p[i], t[i]));
}

static inline vf v_exp_neg(vf x)
{
    v_exp_neg_each(&x, 1);
    return x;
}

/* u <- log(1+u) for 0 <= u <= 1, as 2*atanh(s), s = u/(2+u): no 1+u that would round u away. What the sum and the quotient
 * round away is put back: 1/(2+u) is (1-s)/2. */
static inline __attribute__((always_inline)) void v_log1p_unit_each(vf *u, int n)
{
    const vf two = v_set1(2), half = v_set1(0.5f);
    vf s[V_TOGETHER], low[V_TOGETHER], p[V_TOGETHER];
    for (int i = 0; i < n; i++)
        s[i] = v_div(u[i], v_add(u[i], two));
    for (int i = 0; i < n; i++) {
        const vf d = v_add(u[i], two), left = v_fnma(s[i], v_sub(u[i], v_sub(d, two)), v_fnma(s[i], d, u[i]));
        low[i] = v_mul(left, v_fnma(s[i], half, half));
    }
    for (int i = 0; i < n; i++) {
        const vf z = v_mul(s[i], s[i]);
        p[i] = v_fma(v_set1(2.8011989e-1f), z, v_set1(2.8001805e-1f));
        p[i] = v_fma(p[i], z, v_set1(4.0021527e-1f));
        p[i] = v_mul(v_fma(p[i], z, v_set1(6.6666416e-1f)), v_mul(s[i], z));
    }
    for (int i = 0; i < n; i++)
        u[i] = v_add(v_add(s[i], s[i]), v_add(p[i], v_add(low[i], low[i])));
}

/* x <- max(x, 0) + log1p(exp(-|x|)) for n <= V_TOGETHER vectors; above 17 the second term rounds away. */
static inline __attribute__((always_inline)) void v_softplus_each(vf *x, int n)
{
    vf u[V_TOGETHER];
    for (int i = 0; i < n; i++)
        u[i] = v_sub(v_zero(), v_abs(x[i]));
    v_exp_neg_each(u, n);
    v_log1p_unit_each(u, n);
    for (int i = 0; i < n; i++)
        x[i] = v_add(v_max(v_zero(), x[i]), u[i]);
}

static inline vf v_softplus(vf x)
{
    v_softplus_each(&x, 1);
    return x;
}

/*
 * 1 + exp(-x), finite: exp(88) at most; for n vectors at once, step by step. One after the other, their long chains would fill
 * the processor's window with operations that wait.
 */
static inline __attribute__((always_inline)) void v_one_plus_exp_minus(const vf *x, vf *sum, int n)
{
    vf t[V_TOGETHER], r[V_TOGETHER], p[V_TOGETHER];
    for (int i = 0; i < n; i++)
        r[i] = v_min(v_set1(87.3f), v_max(v_set1(-88), x[i])); /* a NaN comes through */
    for (int i = 0; i < n; i++)
        t[i] = v_fnma(r[i], v_set1(V_LOG2E), v_set1(V_MAGIC_8));
    for (int i = 0; i < n; i++)
        r[i] = v_fma(v_sub(t[i], v_set1(V_MAGIC_8)), v_set1(V_LN2_HIGH), r[i]);
    for (int i = 0; i < n; i++)
        r[i] = v_fma(v_sub(t[i], v_set1(V_MAGIC_8)), v_set1(V_LN2_LOW), r[i]);
    for (int i = 0; i < n; i++)
        t[i] = v_pow2_eighths(t[i]);
    for (int i = 0; i < n; i++)
        p[i] = v_fma(v_set1(4.1660430e-2f), r[i], v_set1(-1.6668026e-1f));
    for (int i = 0; i < n; i++)
        p[i] = v_fma(p[i], r[i], v_set1(0.5f));
    for (int i = 0; i < n; i++)
        p[i] = v_fnma(v_mul(r[i], r[i]), p[i], r[i]);
    for (int i = 0; i < n; i++)
        sum[i] = v_add(v_set1(1), v_fnma(t[i], p[i], t[i]));
}

/* x <- sigmoid(x), and x <- x * sigmoid(x), for n <= V_TOGETHER vectors. */
static inline __attribute__((always_inline)) void v_sigmoid_each(vf *x, int n)
{
    vf sum[V_TOGETHER];
    v_one_plus_exp_minus(x, sum, n);
    for (int i = 0; i < n; i++)
        x[i] = v_div(v_set1(1), sum[i]);
}

static inline __attribute__((always_inline)) void v_silu_each(vf *x, int n)
{
    vf sigmoid[V_TOGETHER];
    for (int i = 0; i < n; i++)
        sigmoid[i] = x[i];
    v_sigmoid_each(sigmoid, n);
    for (int i = 0; i < n; i++)
        x[i] = v_mul(x[i], sigmoid[i]);
}

static inline vf v_sigmoid(vf x)
{
    v_sigmoid_each(&x, 1);
    return x;
}

static inline vf v_silu(vf x)
{
    v_silu_each(&x, 1);
    return x;
}

#endif
