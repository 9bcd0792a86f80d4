/* SPDX-License-Identifier: MIT */
/*
 * What this machine can do, measured in the same process as the ops: f32 multiply-adds, memory rates at three footprints,
 * exponentials. Every rate is the best of several short windows, summed over the workers, each on its own buffers.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"
#include "peaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 256, EXP_FLOATS = 2048, BLOCK_FLOATS = 128 };

double seqmix_bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const struct seqmix_peaks *seqmix_peaks_best(void)
{
#ifdef SEQMIX_PEAKS_X86
    if (__builtin_cpu_supports("avx512f")) return &seqmix_peaks__avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &seqmix_peaks__avx2;
#endif
    return &seqmix_peaks__baseline;
}

/* One worker's part of a measurement: `step` does some work and returns how much. */
struct probe {
    const struct seqmix_peaks *peaks;
    double (*step)(struct probe *probe);
    float *x, *y;
    int64_t n; /* floats in x, and in y */
    double seconds, rate;
    float sink[4];
};

static double step_fma(struct probe *p)
{
    return p->peaks->fma(20000, p->sink);
}

static double step_exp_poly(struct probe *p)
{
    p->peaks->exp(p->y, p->x, p->n);
    return (double)p->n;
}

static double step_exp_libm(struct probe *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->y[i] = expf(p->x[i]);
    return (double)p->n;
}

static double step_memcpy(struct probe *p)
{
    memcpy(p->y, p->x, (size_t)p->n * sizeof(float));
    return 2.0 * (double)p->n * sizeof(float);
}

static double step_copy(struct probe *p)
{
    p->peaks->copy(p->y, p->x, p->n);
    return 2.0 * (double)p->n * sizeof(float);
}

/* x and y are one buffer of 2n floats; a factor of -1 neither decays nor grows. */
static double step_update(struct probe *p)
{
    p->peaks->update(p->x, -1.0f, 2 * p->n);
    return 4.0 * (double)p->n * sizeof(float);
}

static double step_read(struct probe *p)
{
    p->sink[3] = p->peaks->read(p->x, 2 * p->n);
    return 2.0 * (double)p->n * sizeof(float);
}

static int run_probe(void *arg)
{
    struct probe *p = arg;
    (void)p->step(p);
    double work = 0, start = seqmix_bench_seconds(), now = start;
    do {
        work += p->step(p);
        now = seqmix_bench_seconds();
    } while (now - start < p->seconds);
    p->rate = work / (now - start);
    return 0;
}

/* The best summed rate of `windows` windows over `workers` threads. */
static double best_rate(struct probe *probes, int workers, double (*step)(struct probe *), double seconds, int windows)
{
    double best = 0;
    for (int w = 0; w < windows; w++) {
        thrd_t threads[MAX_WORKERS];
        int started = 0;
        for (int i = 0; i < workers; i++) {
            probes[i].step = step;
            probes[i].seconds = seconds;
            probes[i].rate = 0;
        }
        while (started < workers - 1 && thrd_create(&threads[started], run_probe, &probes[started + 1]) == thrd_success)
            started++;
        run_probe(&probes[0]);
        double sum = probes[0].rate;
        for (int i = 0; i < started; i++) {
            thrd_join(threads[i], NULL);
            sum += probes[i + 1].rate;
        }
        if (sum > best) best = sum;
    }
    return best;
}

/* Linux' own figure; glibc's sysconf guesses the last level wrong in some virtual machines. `index` is sysfs' number. */
static double cache_bytes(int index, int name, double fallback)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *file = fopen(path, "r");
    double kib = 0;
    if (file != NULL) {
        if (fscanf(file, "%lfK", &kib) != 1) kib = 0;
        fclose(file);
    }
    const long bytes = sysconf(name);
    return kib > 0 ? 1024 * kib : bytes > 0 ? (double)bytes : fallback;
}

double seqmix_bench_llc_bytes(void)
{
    return cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, 32 << 20);
}

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static int init_probes(struct probe *probes, int workers)
{
    const struct seqmix_peaks *peaks = seqmix_peaks_best();
    for (int i = 0; i < workers; i++)
        probes[i] = (struct probe){.peaks = peaks, .sink = {0.999f, 0.001f}};
    return workers;
}

/* One buffer a worker, x its first half and y its second. 0 when memory is short. */
static int take_buffers(struct probe *probes, int workers, double bytes)
{
    const int64_t half = (int64_t)(bytes / (2 * sizeof(float) * BLOCK_FLOATS)) * BLOCK_FLOATS;
    for (int i = 0; i < workers; i++) {
        probes[i].x = aligned_alloc(64, 2 * (size_t)half * sizeof(float));
        if (probes[i].x == NULL) return 0;
        probes[i].y = probes[i].x + half;
        probes[i].n = half;
        uint64_t seed = 1 + (uint64_t)i;
        for (int64_t k = 0; k < 2 * half; k++)
            probes[i].x[k] = -20.0f * (float)(seqmix_bench_random(&seed) >> 40) * 0x1p-24f;
    }
    return 1;
}

static void drop_buffers(struct probe *probes, int workers)
{
    for (int i = 0; i < workers; i++) {
        free(probes[i].x);
        probes[i].x = NULL;
    }
}

static void measure_memory(struct seqmix_bench_memory *m, struct probe *probes, int workers, double seconds,
                           int windows)
{
    if (take_buffers(probes, workers, m->footprint)) {
        m->memcpy_rate = best_rate(probes, workers, step_memcpy, seconds, windows);
        m->copy = best_rate(probes, workers, step_copy, seconds, windows);
        m->update = best_rate(probes, workers, step_update, seconds, windows);
        m->read = best_rate(probes, workers, step_read, seconds, windows);
    }
    drop_buffers(probes, workers);
}

void seqmix_bench_roofline_measure(struct seqmix_bench_roofline *r, int workers, int quick)
{
    static struct probe probes[MAX_WORKERS];
    if (workers > MAX_WORKERS) workers = MAX_WORKERS;
    const double seconds = quick ? 0.03 : 0.1;
    const int windows = quick ? 3 : 5;
    memset(r, 0, sizeof *r);
    r->workers = init_probes(probes, workers);
    r->isa = probes[0].peaks->isa;
    r->l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, 1 << 20);
    r->llc_bytes = seqmix_bench_llc_bytes();
    r->fma_one = best_rate(probes, 1, step_fma, seconds, windows);
    r->fma = workers == 1 ? r->fma_one : best_rate(probes, workers, step_fma, seconds, windows);
    if (take_buffers(probes, workers, 2.0 * EXP_FLOATS * sizeof(float))) {
        r->expf_libm = best_rate(probes, workers, step_exp_libm, seconds, windows);
        r->exp_poly = best_rate(probes, workers, step_exp_poly, seconds, windows);
    }
    drop_buffers(probes, workers);
    /* Half of L2; a part of the shared cache that leaves room for neighbours; well beyond it, as far as memory allows. */
    r->memory[SEQMIX_BENCH_L2].footprint = r->l2_bytes / 2;
    r->memory[SEQMIX_BENCH_LLC].footprint = clamp(r->llc_bytes / (4 * workers), 2 * r->l2_bytes, 16 << 20);
    r->memory[SEQMIX_BENCH_DRAM].footprint = clamp(4 * r->llc_bytes, 64 << 20, 512 << 20) / workers;
    for (int i = 0; i < SEQMIX_BENCH_MEMORIES; i++)
        measure_memory(&r->memory[i], probes, workers, seconds, windows);
}

void seqmix_bench_roofline_again(struct seqmix_bench_roofline *r)
{
    static struct probe probes[MAX_WORKERS];
    const int workers = init_probes(probes, r->workers);
    r->fma_after = best_rate(probes, workers, step_fma, 0.03, 3);
}

const char *seqmix_bench_memory_name(int memory)
{
    static const char *const names[SEQMIX_BENCH_MEMORIES] = {"l2", "llc", "dram"};
    return names[memory];
}
