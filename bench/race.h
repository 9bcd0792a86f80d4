/* SPDX-License-Identifier: MIT */
/* Timings that can be compared: several pieces of work in turn, each between two bursts of known work. */
#ifndef SEQMIX_BENCH_RACE_H
#define SEQMIX_BENCH_RACE_H

#include <stddef.h>
#include <stdint.h>

#include "peaks.h"

/* A tenth of a millisecond of multiply-adds in registers and another of exps, or a copy of a few MiB that lie in DRAM. The exps
 * are there because a busy sibling thread takes a third of their rate, and of a kernel's, but nothing of the multiply-adds'. */
struct seqmix_burst {
    const struct seqmix_peaks *peaks;
    float *from, *to; /* copy: two buffers of n floats; NULL: multiply-adds */
    int64_t n, at;
    int64_t rounds, exp_rounds;
    double best, best_exps; /* flop/s, or bytes/s read and written; exps/s: the best burst so far */
};

/* Finds the length of a burst and its first best rate. */
void seqmix_burst_fma(struct seqmix_burst *burst, const struct seqmix_peaks *peaks);
/* The same with buffers of `bytes` each. 0, or -1 when memory is short. */
int seqmix_burst_copy(struct seqmix_burst *burst, const struct seqmix_peaks *peaks, size_t bytes);
void seqmix_burst_close(struct seqmix_burst *burst);

enum { SEQMIX_RACERS = 6 };

struct seqmix_racer {
    int (*run)(void *user); /* one call; 0 on success */
    void *user;
    int calls;              /* of a sample: found by the race */
    int n, n_quiet;         /* samples */
    double fastest, median; /* seconds a call; the median is that of the quiet samples, 0 with fewer than three */
    double seconds;         /* the one to use: the same kind for all racers of a race */
};

/* Times the racers in turn for about `budget` seconds each, after a first call that does not count. A sample is quiet when the
 * bursts before and after it reached 96 % of the best (exps 92 %, copies 90 %), and when the process had a core for 98 % of it. `fastest`: use the
 * fastest samples in any case. 0, or -1 when a call failed. */
int seqmix_race(struct seqmix_racer *racers, int n, struct seqmix_burst *burst, double budget, int fastest);

/* "median of 12 quiet samples of 14", or "fastest of 14 samples, 2 quiet". */
void seqmix_race_words(const struct seqmix_racer *racer, char *text, size_t n);

#endif
