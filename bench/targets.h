/* SPDX-License-Identifier: MIT */
/*
 * The targets suite: one line per goal of the library's CPU work, each a figure with a unit beside what was asked. A line that
 * this machine cannot measure (no such instructions) says so and is neither met nor missed.
 */
#ifndef SEQMIX_BENCH_TARGETS_H
#define SEQMIX_BENCH_TARGETS_H

#include "bench.h"
#include "race.h"

enum { SEQMIX_TARGET_NOTE = 400, SEQMIX_TARGET_SHAPE = 136 };

struct seqmix_target {
    const char *name, *unit;
    double target, stretch; /* 0 = none */
    int at_most;            /* the value must not exceed the target; else it must reach it */
    int measured;
    double value;
    char rung[24], kernel[64], baseline[80], shape[SEQMIX_TARGET_SHAPE], note[SEQMIX_TARGET_NOTE];
};

struct seqmix_suite {
    const struct seqmix_bench_options *o;
    struct seqmix_burst fma, fma_avx2, copy; /* fma: the widest this CPU has */
    const char *isa;
    int has_avx512, has_amx;
    double dram_bytes; /* what is sure to come from DRAM */
    int n_refused;
};

/* A line: what is measured (targets.c), of which entry, in which context. */
struct seqmix_target_line {
    const char *name, *unit;
    double target, stretch;
    int at_most;
    int n; /* this line and the ones below that are measured with it; those have n = 0 */
    void (*measure)(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t);
    const char *op;
    const struct seqmix_shape *shape;
    int64_t rows;
    int32_t dtype, level; /* cap of the context; 0 = none */
};

/* target_lines.c; at most 64. */
extern const struct seqmix_target_line seqmix_target_lines[];
extern const int seqmix_n_target_lines;

/* Adds a sentence to a line's note. */
void seqmix_target_note(struct seqmix_target *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A verified, filled case of a line's entry in a context of its own. 0, or -1 with the reason in the note. */
struct seqmix_target_case {
    seqmix_ctx *ctx;
    struct seqmix_bench_case c;
    struct seqmix_bench_result result;
    int at; /* the next copy */
};
int seqmix_target_open(struct seqmix_suite *suite, const struct seqmix_target_line *line, int workers, int decode,
                       double cycle_bytes, struct seqmix_target_case *out, struct seqmix_target *t);
void seqmix_target_close(struct seqmix_target_case *c);
int seqmix_target_run(void *user); /* a racer's run: the case's next copy */

/* The same work as ragged sequences, through other slots, with checkpoints, from packed rows (variants.c): four lines. */
void seqmix_measure_variants(struct seqmix_suite *suite, const struct seqmix_target_line *line,
                             struct seqmix_target *t);

int seqmix_bench_targets(const struct seqmix_bench_options *o); /* the exit status */
int seqmix_targets_write_json(FILE *out, const struct seqmix_target *targets, int n);

#endif
