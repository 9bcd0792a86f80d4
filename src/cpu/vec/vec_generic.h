/* SPDX-License-Identifier: MIT */
/* Any machine: 4 lanes in the compiler's own vectors, no fused multiply-add. */
#ifndef SEQMIX_CPU_VEC_VEC_GENERIC_H
#define SEQMIX_CPU_VEC_VEC_GENERIC_H

#include <stdint.h>
#include <string.h>

#include "dtype.h"
#include "vec_eighths.h"

enum { V_LANES = 4 };

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vmask __attribute__((vector_size(16)));

/* Brings a cache line nearer, for reading or writing; any address is fine. The asm keeps gcc from taking a function that only
 * prefetches for one without effect and dropping its calls. */
static inline void v_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
    __asm__ volatile("" : : "r"(p));
}

static inline vf v_set1(float x)
{
    return (vf){x, x, x, x};
}

static inline vf v_zero(void)
{
    return v_set1(0);
}

static inline vf v_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}

static inline void v_store(float *p, vf a)
{
    memcpy(p, &a, sizeof a);
}

static inline vf v_load_n(const float *p, int n)
{
    vf a = v_zero();
    memcpy(&a, p, (size_t)n * sizeof *p);
    return a;
}

static inline void v_store_n(float *p, vf a, int n)
{
    memcpy(p, &a, (size_t)n * sizeof *p);
}

/* See vec_avx2.h; here it is a plain store. */
static inline void v_stream(float *p, vf a)
{
    v_store(p, a);
}

static inline void v_stream_end(void) {}

static inline vf v_add(vf a, vf b)
{
    return a + b;
}

static inline vf v_sub(vf a, vf b)
{
    return a - b;
}

static inline vf v_mul(vf a, vf b)
{
    return a * b;
}

static inline vf v_div(vf a, vf b)
{
    return a / b;
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

static inline vf v_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}

static inline vmask v_less(vf a, vf b)
{
    return a < b;
}

/* The first n lanes, 0 <= n; more than V_LANES are all. */
static inline vmask v_mask_first(int64_t n)
{
    const vmask lane = {0, 1, 2, 3};
    const int32_t bound = n < V_LANES ? (int32_t)n : V_LANES;
    return lane < (vmask){bound, bound, bound, bound};
}

static inline vf v_select(vmask mask, vf a, vf b)
{
    return (vf)((mask & (vmask)a) | (~mask & (vmask)b));
}

static inline vf v_min(vf a, vf b)
{
    return v_select(v_less(a, b), a, b);
}

static inline vf v_max(vf a, vf b)
{
    return v_select(v_less(b, a), a, b);
}

static inline vf v_abs(vf a)
{
    return (vf)((vmask)a & 0x7fffffff);
}

static inline float v_sum(vf a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* See vec_avx2.h. */
static inline void v_pow2_halves(vf t, vf *first, vf *second)
{
    const vmask integer = (vmask)t - 0x4b400000, half = integer >> 1;
    *first = (vf)((half + 127) << 23);
    *second = (vf)((integer - half + 127) << 23);
}

static inline vf v_pow2(vf t)
{
    return (vf)(((vmask)t - (0x4b400000 - 127)) << 23);
}

static inline vf v_pow2_eighths(vf t)
{
    const vmask eighths = (vmask)t, place = eighths & 7;
    const vmask power = {v_eighths[place[0]], v_eighths[place[1]], v_eighths[place[2]], v_eighths[place[3]]};
    return (vf)(power + (eighths << 20));
}

/* out[l*width + i] = in[i*stride + l] for a square of V_LANES. */
static inline void v_transpose(const float *in, int64_t stride, float *out, int64_t width)
{
    for (int i = 0; i < V_LANES; i++)
        for (int l = 0; l < V_LANES; l++)
            out[l * width + i] = in[i * stride + l];
}

static inline vf v_load_bf16(const uint16_t *p)
{
    return (vf){seqmix_bf16_to_f32(p[0]), seqmix_bf16_to_f32(p[1]), seqmix_bf16_to_f32(p[2]), seqmix_bf16_to_f32(p[3])};
}

static inline vf v_load_f16(const uint16_t *p)
{
    return (vf){seqmix_f16_to_f32(p[0]), seqmix_f16_to_f32(p[1]), seqmix_f16_to_f32(p[2]), seqmix_f16_to_f32(p[3])};
}

static inline void v_store_bf16(uint16_t *p, vf a)
{
    for (int i = 0; i < V_LANES; i++)
        p[i] = seqmix_f32_to_bf16(a[i]);
}

static inline void v_store_f16(uint16_t *p, vf a)
{
    for (int i = 0; i < V_LANES; i++)
        p[i] = seqmix_f32_to_f16(a[i]);
}

#include "vec_half_tails.h"

#endif
