/* SPDX-License-Identifier: MIT */
/*
 * seqmix-bench --model CARD: a lower bound of what each kernel takes on a GPU that nobody has at hand, from counts of what it
 * does and the rates of the card. A model, never a measurement. Counts come from the emulator (tests/emu), so this part of the
 * bench lies in a program of its own, seqmix-bench-emulated, which seqmix-bench starts.
 */
#ifndef SEQMIX_BENCH_MODEL_H
#define SEQMIX_BENCH_MODEL_H

#include "bench.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cards (model_card.c) ---- */

struct seqmix_model_card {
    char name[32];
    double capability; /* 90 */
    double sms, clock; /* clock: Hz */
    double copy, l2;   /* bytes/s: of memory, read plus written; between L2 and the SMs */
    double tensor;     /* flop/s of mma.sync in bf16; in tf32 half of it */
    double tensor_peak, fp32;
    double mufu;                             /* special functions a clock and SM */
    double warps, registers, shared, blocks; /* what an SM has */
};

/* `name`: a file's path, or the name of one in the cards' folder. 0, or -1 with the sentence in `why`. */
int seqmix_model_card_load(const char *name, struct seqmix_model_card *card, char *why, size_t why_len);

/* ---- counts (tests/emu/model_counts.cpp) ---- */

/* Of one launch, scaled up to all its blocks. */
struct seqmix_model_launch {
    char kernel[128];
    double blocks, blocks_run;
    int threads, registers; /* registers: 0 = not known */
    double shared;          /* bytes, static and dynamic */
    double fetched, stored, between;
    double sectors, ideal_sectors, wavefronts, ideal_wavefronts;
    double shuffles, barriers, mma_16, mma_8, exps, roots, fmas;
};

enum { SEQMIX_MODEL_LAUNCHES = 32 };

/* Sets the emulator up: it counts, and runs a sample of each launch's blocks. */
void seqmix_model_begin(const struct seqmix_model_card *card);
/* What was launched since the last call: how many, of which at most `n` are stored. */
int seqmix_model_take(struct seqmix_model_launch *launches, int n);

/* ---- the model (model.c) ---- */

enum {
    SEQMIX_MODEL_DRAM,
    SEQMIX_MODEL_L2,
    SEQMIX_MODEL_MMA,
    SEQMIX_MODEL_EXP,
    SEQMIX_MODEL_LSU,
    SEQMIX_MODEL_FMA,
    SEQMIX_MODEL_PARTS
};

struct seqmix_model_times {
    double part[SEQMIX_MODEL_PARTS]; /* seconds that each resource is busy */
    double bound;                    /* the greatest */
    int by;
    double warps; /* that an SM holds; 0 = not known */
    double tail;  /* work of the busiest SM over the mean */
};

struct seqmix_model_line {
    struct seqmix_bench_entry entry;
    int fast; /* SEQMIX_CTX_FAST */
    char dims[SEQMIX_BENCH_DIMS], kernel[64];
    int n_launches;
    struct seqmix_model_launch launches[SEQMIX_MODEL_LAUNCHES];
    struct seqmix_model_times times[SEQMIX_MODEL_LAUNCHES];
    double bound; /* seconds: the sum over launches */
    int by;       /* what bounds the longest launch */
    double floor; /* seconds: what the op must take on this card, however it is computed */
    int floor_by;
    double bytes, floor_bytes; /* moved, and the least */
    double asked;              /* seconds, a target; 0 = none */
    char skipped[200];
};

extern const char *const seqmix_model_parts[SEQMIX_MODEL_PARTS];

/* All of --model. The exit status. */
int seqmix_bench_model(const struct seqmix_bench_options *o, char **argv);

/* ---- output (model_report.c) ---- */

void seqmix_model_print_header(FILE *out, const struct seqmix_model_card *card, int launches);
void seqmix_model_print_line(FILE *out, const struct seqmix_model_line *line, int launches);
void seqmix_model_write_json(FILE *out, const struct seqmix_model_card *card, const struct seqmix_model_line *lines,
                             int n);

#ifdef __cplusplus
}
#endif

#endif
