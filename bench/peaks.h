/* SPDX-License-Identifier: MIT */
/* The inner loops that find what a core can do: peaks.c, built once per instruction set. */
#ifndef SEQMIX_BENCH_PEAKS_H
#define SEQMIX_BENCH_PEAKS_H

#include <stdint.h>

struct seqmix_peaks {
    const char *isa;
    /* `rounds` rounds of independent multiply-adds in registers; returns the flops done. */
    double (*fma)(int64_t rounds, float *sink);
    void (*exp)(float *y, const float *x, int64_t n);    /* n: a multiple of 128 */
    void (*copy)(float *y, const float *x, int64_t n);   /* the same; buffers aligned to 64 bytes */
    void (*stream)(float *y, const float *x, int64_t n); /* a copy whose stores bypass the caches */
    void (*update)(float *x, float factor, int64_t n);   /* x = factor*x */
    float (*read)(const float *x, int64_t n);            /* a sum */
};

/* The best of those built that this CPU runs. */
const struct seqmix_peaks *seqmix_peaks_best(void);

extern const struct seqmix_peaks seqmix_peaks__baseline;
#ifdef SEQMIX_PEAKS_X86
extern const struct seqmix_peaks seqmix_peaks__avx2;
extern const struct seqmix_peaks seqmix_peaks__avx512;
#endif

#endif
