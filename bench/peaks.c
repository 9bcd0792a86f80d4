/* SPDX-License-Identifier: MIT */
/*
 * Peak loops on the compiler's vector types, built once per instruction set with SEQMIX_PEAKS_NAME, SEQMIX_PEAKS_BYTES and, on
 * x86, the streaming store's name as SEQMIX_PEAKS_STREAM (bench/CMakeLists.txt). The only file of the project built with
 * -ffp-contract=fast: here a*b+c must become the machine's fused multiply-add where it has one, since that is the peak that
 * kernels writing fmaf can reach.
 */
#include "peaks.h"

enum { LANES = SEQMIX_PEAKS_BYTES / 4, CHAINS = 12, UNROLL = 8 };

typedef float vec __attribute__((vector_size(SEQMIX_PEAKS_BYTES)));
typedef uint32_t ivec __attribute__((vector_size(SEQMIX_PEAKS_BYTES)));

/* Twelve chains cover the latency of two units; more would not leave the registers of the narrow sets. They start apart, so
   they are not one chain, and converge to b/(1-a), so nothing overflows or turns denormal. */
static double peak_fma(int64_t rounds, float *sink)
{
    const vec zero = {0}, a = zero + sink[0], b = zero + sink[1];
    vec c[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        c[i] = a + (float)i;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            c[i] = c[i] * a + b;
    vec sum = zero;
    for (int i = 0; i < CHAINS; i++)
        sum += c[i];
    sink[2] = sum[0];
    return (double)rounds * CHAINS * LANES * 2.0;
}

/* exp on (-87, 87): 2^n * p(r), n = round(x/ln2), Taylor of degree 6 on |r| <= ln2/2: about 2e-7. Enough for a rate. */
static void peak_exp(float *y, const float *x, int64_t n)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, whose bits are the low ones of the sum */
    const vec *from = (const vec *)(const void *)x;
    vec *to = (vec *)(void *)y;
    for (int64_t i = 0; i < n / LANES; i++) {
        const vec t = from[i] * 0x1.715476p0f + magic;
        const vec k = t - magic;
        const vec r = (from[i] - k * 0x1.62e400p-1f) - k * 0x1.7f7d1cp-20f;
        vec p = r * (1.0f / 720) + 1.0f / 120;
        p = p * r + 1.0f / 24;
        p = p * r + 1.0f / 6;
        p = p * r + 0.5f;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
        to[i] = (vec)((ivec)p + ((ivec)t << 23));
    }
}

static void peak_copy(float *y, const float *x, int64_t n)
{
    const vec *from = (const vec *)(const void *)x;
    vec *to = (vec *)(void *)y;
    for (int64_t i = 0; i < n / LANES; i += UNROLL)
        for (int j = 0; j < UNROLL; j++)
            to[i + j] = from[i + j];
}

/* The copy that moves the fewest bytes: a plain store first reads the line it writes. */
static void peak_stream(float *y, const float *x, int64_t n)
{
#ifdef SEQMIX_PEAKS_STREAM
    const vec *from = (const vec *)(const void *)x;
    vec *to = (vec *)(void *)y;
    for (int64_t i = 0; i < n / LANES; i += UNROLL)
        for (int j = 0; j < UNROLL; j++)
            __asm__ volatile(SEQMIX_PEAKS_STREAM " %1, %0" : "=m"(to[i + j]) : "x"(from[i + j]));
    __asm__ volatile("sfence" ::: "memory");
#else
    peak_copy(y, x, n);
#endif
}

static void peak_update(float *x, float factor, int64_t n)
{
    vec *at = (vec *)(void *)x;
    for (int64_t i = 0; i < n / LANES; i += UNROLL)
        for (int j = 0; j < UNROLL; j++)
            at[i + j] = at[i + j] * factor;
}

static float peak_read(const float *x, int64_t n)
{
    const vec *from = (const vec *)(const void *)x;
    const vec zero = {0};
    vec sum[UNROLL];
    for (int j = 0; j < UNROLL; j++)
        sum[j] = zero;
    for (int64_t i = 0; i < n / LANES; i += UNROLL)
        for (int j = 0; j < UNROLL; j++)
            sum[j] += from[i + j];
    vec all = zero;
    for (int j = 0; j < UNROLL; j++)
        all += sum[j];
    return all[0];
}

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

const struct seqmix_peaks JOIN(seqmix_peaks__, SEQMIX_PEAKS_NAME) = {
    .isa = TEXT(SEQMIX_PEAKS_NAME),
    .fma = peak_fma,
    .exp = peak_exp,
    .copy = peak_copy,
    .stream = peak_stream,
    .update = peak_update,
    .read = peak_read,
};
