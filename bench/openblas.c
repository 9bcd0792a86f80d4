/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS beside our own products. It is loaded at run time, so that the bench neither needs it nor changes what the
 * library links. It picks its kernels by CPU model, and an old one picks a fallback on a new CPU: ten times slower, silently.
 * Its thread count is never changed; if OPENBLAS_NUM_THREADS is not set, it is set to --workers before the library loads.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, MOST_SAMPLES = 200, FEW_SAMPLES = 3 };

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
typedef char *(*text_fn)(void);
typedef int (*int_fn)(void);

void seqmix_bench_openblas_prepare(int workers)
{
    char text[16];
    snprintf(text, sizeof text, "%d", workers);
    setenv("OPENBLAS_NUM_THREADS", text, 0);
}

/* Core types without AVX2. */
static int is_fallback(const char *core)
{
    static const char *const old[] = {
        "Katmai",     "Coppermine",  "Northwood",   "Prescott", "Banias",  "Atom",      "Core2",        "Penryn",
        "Dunnington", "Nehalem",     "Sandybridge", "Athlon",   "Opteron", "Barcelona", "Opteron_SSE3", "Bulldozer",
        "Piledriver", "Steamroller", "Bobcat",      "Nano",     "Generic", "generic",   "Unknown"};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        if (strcmp(core, old[i]) == 0) return 1;
    return 0;
}

static int cpu_has_avx2(void)
{
#ifdef SEQMIX_PEAKS_X86
    return __builtin_cpu_supports("avx2");
#else
    return 0;
#endif
}

/* POSIX lets a data pointer carry a function's address; ISO C has no cast for it, hence the copy. */
static int symbol(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static int open_openblas(struct seqmix_bench_openblas *blas, sgemm_fn *sgemm)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && handle == NULL; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || !symbol(handle, "cblas_sgemm", sgemm)) {
        snprintf(blas->note, sizeof blas->note, "not installed (%s)", handle == NULL ? names[0] : "no cblas_sgemm");
        return -1;
    }
    text_fn core, config;
    int_fn threads;
    blas->present = 1;
    if (symbol(handle, "openblas_get_corename", &core)) snprintf(blas->core, sizeof blas->core, "%s", core());
    if (symbol(handle, "openblas_get_config", &config)) snprintf(blas->config, sizeof blas->config, "%s", config());
    if (symbol(handle, "openblas_get_num_threads", &threads)) blas->threads = threads();
    blas->fallback = is_fallback(blas->core) && cpu_has_avx2();
    if (blas->fallback)
        snprintf(blas->note, sizeof blas->note,
                 "OpenBLAS took its '%s' kernels on a CPU with AVX2: they are a fallback, many times slower. "
                 "Try OPENBLAS_CORETYPE=Haswell (or SkylakeX with AVX-512) in the environment.",
                 blas->core);
    return 0;
}

/* y[R,O] = x[R,I] * w[O,I]^T, over `copies` weights in turn. */
static void time_sgemm(sgemm_fn sgemm, const struct seqmix_bench_result *ours, double budget,
                       struct seqmix_bench_blas_row *row)
{
    static double samples[MOST_SAMPLES];
    const int R = (int)ours->entry.rows, I = (int)ours->entry.linear->I, O = (int)ours->entry.linear->O;
    const size_t weight = (size_t)I * (size_t)O;
    float *w = malloc(weight * (size_t)ours->copies * sizeof(float));
    float *x = malloc((size_t)R * (size_t)I * sizeof(float)), *y = malloc((size_t)R * (size_t)O * sizeof(float));
    row->median = -1;
    if (w != NULL && x != NULL && y != NULL) {
        uint64_t seed = 7;
        for (size_t i = 0; i < weight * (size_t)ours->copies; i++)
            w[i] = (float)(seqmix_bench_random(&seed) >> 40) * 0x1p-24f - 0.5f;
        for (size_t i = 0; i < (size_t)R * (size_t)I; i++)
            x[i] = (float)(seqmix_bench_random(&seed) >> 40) * 0x1p-24f - 0.5f;
        int n = -1; /* the first is a warm-up */
        double spent = 0;
        for (int copy = 0; n < MOST_SAMPLES && (n < FEW_SAMPLES || spent < budget);
             n++, copy = (copy + 1) % ours->copies) {
            const double start = seqmix_bench_seconds();
            sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, R, O, I, 1.0f, x, I, w + weight * (size_t)copy, I, 0.0f, y, O);
            const double seconds = seqmix_bench_seconds() - start;
            if (n >= 0) samples[n] = seconds;
            if (n >= 0) spent += seconds;
        }
        row->median = seqmix_bench_quantile(samples, n, 0.5);
        row->spread = (seqmix_bench_quantile(samples, n, 0.9) - seqmix_bench_quantile(samples, n, 0.1)) / row->median;
    }
    free(w);
    free(x);
    free(y);
}

void seqmix_bench_openblas_measure(struct seqmix_bench_openblas *blas, const struct seqmix_bench_result *results, int n,
                                   const struct seqmix_bench_options *o)
{
    sgemm_fn sgemm = NULL;
    memset(blas, 0, sizeof *blas);
    if (open_openblas(blas, &sgemm) != 0) return;
    for (int i = 0; i < n && blas->n < SEQMIX_BENCH_BLAS_ROWS; i++) {
        const struct seqmix_bench_result *r = &results[i];
        if (r->entry.linear == NULL || r->entry.dtype != SEQMIX_F32 || r->samples == 0) continue;
        struct seqmix_bench_blas_row *row = &blas->rows[blas->n++];
        row->ours = r;
        time_sgemm(sgemm, r, o->budget, row);
    }
}
