/* SPDX-License-Identifier: MIT */
/*
 * A shared machine is disturbed most of the time: neighbours on the same cores, other clocks from one second to the next. So
 * what is compared runs in turn, sample by sample, and every sample lies between two bursts of work whose best rate is known.
 */
#define _POSIX_C_SOURCE 200809L

#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
    MOST_SAMPLES = 400,
    FEW_SAMPLES = 5,
    ENOUGH_QUIET = 3,
    MOST_CALLS = 100000,
    BLOCK_FLOATS = 1 << 20,
    EXPS = 1024
};

static const double BURST_SECONDS = 100e-6, SAMPLE_SECONDS = 500e-6, QUIET_CORE = 0.98;
/* Of the best burst: the clock holds within a few per cent when undisturbed, shared memory does not. */
static const double QUIET_FMA = 0.96, QUIET_EXPS = 0.92, QUIET_COPY = 0.90;

struct rates {
    double own, exps; /* of the burst's own kind; a copy has no exps */
};

struct sample {
    double seconds;      /* of a call */
    struct rates around; /* the slower of the two bursts' */
    double core;         /* processor time over time */
};

static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double exps_rate(struct seqmix_burst *b)
{
    static _Alignas(64) float from[EXPS], to[EXPS];
    if (from[0] == 0)
        for (int i = 0; i < EXPS; i++)
            from[i] = (float)(i + 1) * (1.0f / EXPS);
    const double start = seqmix_bench_seconds();
    for (int64_t r = 0; r < b->exp_rounds; r++)
        b->peaks->exp(to, from, EXPS);
    return (double)b->exp_rounds * EXPS / (seqmix_bench_seconds() - start);
}

/* One burst. */
static struct rates burst_rates(struct seqmix_burst *b)
{
    static float sink[4] = {0.999f, 0.001f};
    struct rates rates = {0, 0};
    double work;
    const double start = seqmix_bench_seconds();
    if (b->from == NULL) {
        work = b->peaks->fma(b->rounds, sink);
    } else {
        b->peaks->stream(b->to + b->at, b->from + b->at, BLOCK_FLOATS);
        work = 2.0 * BLOCK_FLOATS * sizeof(float);
        b->at = b->at + 2 * BLOCK_FLOATS <= b->n ? b->at + BLOCK_FLOATS : 0;
    }
    rates.own = work / (seqmix_bench_seconds() - start);
    if (b->from == NULL) rates.exps = exps_rate(b);
    if (rates.own > b->best) b->best = rates.own;
    if (rates.exps > b->best_exps) b->best_exps = rates.exps;
    return rates;
}

static void warm_burst(struct seqmix_burst *b)
{
    const double start = seqmix_bench_seconds();
    while (seqmix_bench_seconds() - start < 500 * BURST_SECONDS)
        (void)burst_rates(b);
}

void seqmix_burst_fma(struct seqmix_burst *b, const struct seqmix_peaks *peaks)
{
    *b = (struct seqmix_burst){.peaks = peaks, .rounds = 1024, .exp_rounds = 16};
    for (double seconds = 0; seconds < 2 * BURST_SECONDS; b->rounds *= 2, b->exp_rounds *= 2) {
        const double start = seqmix_bench_seconds();
        (void)burst_rates(b);
        seconds = seqmix_bench_seconds() - start;
    }
    warm_burst(b);
}

int seqmix_burst_copy(struct seqmix_burst *b, const struct seqmix_peaks *peaks, size_t bytes)
{
    *b = (struct seqmix_burst){.peaks = peaks, .n = (int64_t)(bytes / sizeof(float) / BLOCK_FLOATS + 1) * BLOCK_FLOATS};
    b->from = aligned_alloc(64, (size_t)b->n * sizeof(float));
    b->to = aligned_alloc(64, (size_t)b->n * sizeof(float));
    if (b->from == NULL || b->to == NULL) {
        seqmix_burst_close(b);
        return -1;
    }
    for (int64_t i = 0; i < b->n; i++) {
        b->from[i] = (float)(i & 1023);
        b->to[i] = 0;
    }
    warm_burst(b);
    return 0;
}

void seqmix_burst_close(struct seqmix_burst *b)
{
    free(b->from);
    free(b->to);
    b->from = b->to = NULL;
}

static int run_calls(struct seqmix_racer *r, int calls)
{
    for (int i = 0; i < calls; i++)
        if (r->run(r->user) != 0) return -1;
    return 0;
}

/* How many calls make a sample long enough for the clock. */
static int warm_up(struct seqmix_racer *r)
{
    r->calls = 1;
    if (run_calls(r, 1) != 0) return -1;
    for (;;) {
        const double start = seqmix_bench_seconds();
        if (run_calls(r, r->calls) != 0) return -1;
        const double seconds = seqmix_bench_seconds() - start;
        if (seconds >= SAMPLE_SECONDS || r->calls >= MOST_CALLS) return 0;
        const double more = seconds > 0 ? 1.2 * SAMPLE_SECONDS / seconds : 16;
        r->calls = more < 16 ? (int)(r->calls * more) + 1 : 16 * r->calls;
    }
}

static int take_sample(struct seqmix_racer *r, struct sample *s)
{
    const double core = process_seconds(), start = seqmix_bench_seconds();
    if (run_calls(r, r->calls) != 0) return -1;
    const double seconds = seqmix_bench_seconds() - start;
    s->core = (process_seconds() - core) / seconds;
    s->seconds = seconds / r->calls;
    return 0;
}

static void judge(struct seqmix_racer *r, const struct sample *samples, const struct seqmix_burst *burst)
{
    static double quiet[MOST_SAMPLES];
    const double enough = burst->best * (burst->from == NULL ? QUIET_FMA : QUIET_COPY);
    r->n_quiet = 0;
    r->fastest = samples[0].seconds;
    for (int i = 0; i < r->n; i++) {
        if (samples[i].seconds < r->fastest) r->fastest = samples[i].seconds;
        if (samples[i].around.own >= enough && samples[i].around.exps >= QUIET_EXPS * burst->best_exps &&
            samples[i].core >= QUIET_CORE)
            quiet[r->n_quiet++] = samples[i].seconds;
    }
    r->median = r->n_quiet >= ENOUGH_QUIET ? seqmix_bench_quantile(quiet, r->n_quiet, 0.5) : 0;
}

int seqmix_race(struct seqmix_racer *racers, int n, struct seqmix_burst *burst, double budget, int fastest)
{
    static struct sample samples[SEQMIX_RACERS][MOST_SAMPLES];
    for (int i = 0; i < n; i++)
        if (warm_up(&racers[i]) != 0) return -1;
    const double start = seqmix_bench_seconds();
    struct rates before = burst_rates(burst);
    int rounds = 0;
    while (rounds < MOST_SAMPLES && (rounds < FEW_SAMPLES || seqmix_bench_seconds() - start < budget * n)) {
        for (int i = 0; i < n; i++) {
            struct sample *s = &samples[i][rounds];
            if (take_sample(&racers[i], s) != 0) return -1;
            const struct rates after = burst_rates(burst);
            s->around.own = before.own < after.own ? before.own : after.own;
            s->around.exps = before.exps < after.exps ? before.exps : after.exps;
            before = after;
        }
        rounds++;
        if (seqmix_bench_seconds() - start > 4 * budget * n) break; /* few and long ones */
    }
    int use_median = !fastest;
    for (int i = 0; i < n; i++) {
        racers[i].n = rounds;
        judge(&racers[i], samples[i], burst);
        use_median = use_median && racers[i].median > 0;
    }
    for (int i = 0; i < n; i++) {
        racers[i].seconds = use_median ? racers[i].median : racers[i].fastest;
        if (!use_median) racers[i].median = 0;
    }
    return 0;
}

void seqmix_race_words(const struct seqmix_racer *r, char *text, size_t n)
{
    if (r->median > 0)
        snprintf(text, n, "median of %d quiet samples of %d", r->n_quiet, r->n);
    else
        snprintf(text, n, "fastest of %d samples, %d quiet", r->n, r->n_quiet);
}
