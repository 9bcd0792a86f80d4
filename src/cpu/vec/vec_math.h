/* SPDX-License-Identifier: MIT */
/*
 * Elementary functions on lanes; their largest error over all floats, against double, is tested by tests/vec:
 *   v_exp                1.1 ulp    the whole range, subnormal results included
 *   v_exp_neg            1.1 ulp    for decays, x <= 0: 0 below -87.3, NaN stays
 *   v_softplus           1.2 ulp    log(1 + exp(x)), x itself above 20
 *   v_sigmoid, v_silu    3, 4 ulp
 */
#ifndef SEQMIX_CPU_VEC_VEC_MATH_H
#define SEQMIX_CPU_VEC_VEC_MATH_H

#include "vec.h"

#define V_LOG2E    0x1.715476p0f
#define V_LN2_HIGH 0x1.62e400p-1f /* 13 low bits 0: n*V_LN2_HIGH is exact */
#define V_LN2_LOW  0x1.7f7d1cp-20f
#define V_MAGIC    0x1.8p23f /* x + V_MAGIC has the nearest integer of x in its low bits */

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

static inline vf v_exp_neg(vf x)
{
    vf t;
    const vf smallest = v_set1(-87.3f);
    const vf r = v_exp_reduce(v_max(smallest, x), &t);
    return v_select(v_less(x, smallest), v_zero(), v_mul(v_exp_reduced(r), v_pow2(t)));
}

/* log(1+u+low) for 0 <= u <= 1 and low within its rounding, as high + *rest. */
static inline vf v_log1p_unit(vf u, vf low, vf *rest)
{
    const vf one = v_set1(1), y = v_add(u, one);
    const vf lost = v_div(v_add(v_sub(u, v_sub(y, one)), low), y); /* what 1+u rounds away, relative */
    const vmask small = v_less(y, v_set1(1.41421356f));
    const vf f = v_sub(v_mul(y, v_select(small, one, v_set1(0.5f))), one), k = v_select(small, v_zero(), one);
    const vf z = v_mul(f, f);
    vf p = v_set1(7.0376836292e-2f);
    p = v_fma(p, f, v_set1(-1.1514610310e-1f));
    p = v_fma(p, f, v_set1(1.1676998740e-1f));
    p = v_fma(p, f, v_set1(-1.2420140846e-1f));
    p = v_fma(p, f, v_set1(1.4249322787e-1f));
    p = v_fma(p, f, v_set1(-1.6668057665e-1f));
    p = v_fma(p, f, v_set1(2.0000714765e-1f));
    p = v_fma(p, f, v_set1(-2.4999993993e-1f));
    p = v_fma(p, f, v_set1(3.3333331174e-1f));
    vf tail = v_mul(v_mul(p, f), z);
    tail = v_fma(k, v_set1(-2.12194440e-4f), tail);
    tail = v_fma(z, v_set1(-0.5f), tail);
    const vf whole = v_mul(k, v_set1(0.693359375f)), high = v_add(whole, f); /* |whole| >= |f| or whole is 0 */
    *rest = v_add(v_add(tail, lost), v_sub(f, v_sub(high, whole)));
    return high;
}

/* exp(-|x|) as high + *low: what rounding 1 + q leaves behind would be half of softplus' error. */
static inline vf v_exp_pair(vf x, vf *low)
{
    vf t;
    const vf one = v_set1(1), smallest = v_set1(-87.3f);
    const vf r = v_exp_reduce(v_max(smallest, x), &t), scale = v_pow2(t);
    const vf q = v_exp_less_one(r), high = v_add(one, q);
    const vmask none = v_less(x, smallest);
    *low = v_select(none, v_zero(), v_mul(v_sub(q, v_sub(high, one)), scale));
    return v_select(none, v_zero(), v_mul(high, scale));
}

/* max(x, 0) + log1p(exp(-|x|)), both sums carried in two parts so that one rounding remains. */
static inline vf v_softplus(vf x)
{
    vf low, rest;
    const vf top = v_max(v_zero(), x);
    const vf u = v_exp_pair(v_sub(v_zero(), v_abs(x)), &low), log = v_log1p_unit(u, low, &rest);
    const vf sum = v_add(top, log), part = v_sub(sum, top);
    const vf lost = v_add(v_sub(top, v_sub(sum, part)), v_sub(log, part));
    return v_select(v_less(v_set1(20), x), x, v_add(sum, v_add(lost, rest)));
}

static inline vf v_sigmoid(vf x)
{
    const vf one = v_set1(1), e = v_exp(v_sub(v_zero(), v_abs(x)));
    const vf r = v_div(one, v_add(one, e));
    return v_select(v_less(x, v_zero()), v_mul(e, r), r);
}

static inline vf v_silu(vf x)
{
    return v_mul(x, v_sigmoid(x));
}

#endif
