/* SPDX-License-Identifier: MIT */
/*
 * What the files of seqmix-bench share. An entry is one line of a table: op, shape, rows, dtype. A case is an entry with its
 * buffers. A result is what was measured. The bench stands on the public header alone.
 */
#ifndef SEQMIX_BENCH_BENCH_H
#define SEQMIX_BENCH_BENCH_H

#define SEQMIX_EXPERIMENTAL
#include <seqmix/seqmix.h>
#include <stdio.h>

#include "shapes.h"

/* ---- entries ---- */

struct seqmix_bench_case;
struct seqmix_bench_op;

struct seqmix_bench_entry {
    const struct seqmix_bench_op *op;
    const struct seqmix_shape *shape;
    const struct seqmix_shape_linear *linear; /* the projection, for `linear` only */
    int64_t rows;                             /* prefill: of all sequences. decode: sequences of one row each */
    int64_t seqs;                             /* prefill: of equal length; 0 = 1 */
    int32_t dtype;
    int decode;
};

/* ---- ops (bench_ops.c) ---- */

enum { SEQMIX_BENCH_FIELDS = 12, SEQMIX_BENCH_DIMS = 48 };

enum seqmix_bench_role { SEQMIX_BENCH_PARAM, SEQMIX_BENCH_ROWS, SEQMIX_BENCH_STATE, SEQMIX_BENCH_OUT };

/* How a tensor is filled; a and b below are the kind's parameters. */
enum seqmix_bench_fill {
    SEQMIX_BENCH_NORMAL,  /* mean a, standard deviation b */
    SEQMIX_BENCH_UNIFORM, /* [a, b) */
    SEQMIX_BENCH_LOG_DT,  /* inverse softplus of a step log-uniform in [a, b): what models keep as dt_bias */
    SEQMIX_BENCH_POISON   /* NaN: outputs, before they are verified */
};

struct seqmix_bench_field {
    const char *name;
    size_t offset; /* of the seqmix_tensor in the args struct */
    enum seqmix_bench_role role;
    enum seqmix_bench_fill fill;
    double a, b;
    double touched; /* the part of its elements that the op must read */
    int cycled;     /* decode: one copy per call, so that it comes from DRAM */
    seqmix_tensor view;
};

union seqmix_bench_args {
    uint32_t struct_size;
    seqmix_conv_args conv;
    seqmix_scan_args scan;
    seqmix_ssd_args ssd;
    seqmix_deltanet_args deltanet;
    seqmix_inverse_args inverse;
    seqmix_norm_args norm;
    seqmix_linear_args linear;
};

/* What an entry is made of: filled by its op. */
struct seqmix_bench_plan {
    char dims[SEQMIX_BENCH_DIMS]; /* "16/32x128" */
    union seqmix_bench_args args; /* scalars; tensors are set per copy */
    int n_fields;
    struct seqmix_bench_field fields[SEQMIX_BENCH_FIELDS];
    double flops, exps; /* see the head of bench_ops.c */
};

struct seqmix_bench_op {
    const char *name;
    int32_t id;
    int prefill, decode; /* the tables it belongs to */
    int (*has)(const struct seqmix_shape *shape);
    void (*plan)(const struct seqmix_bench_entry *entry, struct seqmix_bench_plan *plan);
    seqmix_status (*workspace)(seqmix_ctx *ctx, const union seqmix_bench_args *args, size_t *bytes);
    seqmix_status (*run)(seqmix_ctx *ctx, const union seqmix_bench_args *args, void *workspace, size_t bytes);
    /* The recurrence in double: reads and replaces the values of states, fills those of outputs. */
    void (*oracle)(const struct seqmix_bench_case *c, double *const *values);
};

extern const struct seqmix_bench_op seqmix_bench_ops[];
extern const int seqmix_bench_n_ops;

/* ---- cases (bench_case.c) ---- */

struct seqmix_bench_case {
    struct seqmix_bench_entry entry;
    struct seqmix_bench_plan plan;
    seqmix_ctx *ctx;
    int n_copies;                  /* of what is cycled */
    union seqmix_bench_args *args; /* [n_copies] */
    void *memory[SEQMIX_BENCH_FIELDS];
    seqmix_batch batch; /* where entry.seqs > 1; its bounds lie in `bounds` */
    void *bounds;
    void *workspace;
    size_t workspace_bytes;
};

size_t seqmix_bench_dtype_size(int32_t dtype);
const char *seqmix_bench_dtype_name(int32_t dtype);
double seqmix_bench_load(const void *data, int32_t dtype, int64_t i);
int64_t seqmix_bench_count(const seqmix_tensor *t);
double seqmix_bench_case_bytes(const struct seqmix_bench_plan *plan); /* of one copy of everything */

/* Allocates and fills; `cycle_bytes` > 0 asks for as many copies of the cycled fields as reach that size. 0 or -1. */
int seqmix_bench_case_open(struct seqmix_bench_case *c, seqmix_ctx *ctx, const struct seqmix_bench_entry *entry,
                           size_t cycle_bytes, char *why, size_t why_len);
void seqmix_bench_case_close(struct seqmix_bench_case *c);
seqmix_status seqmix_bench_case_run(struct seqmix_bench_case *c, int copy);

/* ---- verification (verify.c) ---- */

struct seqmix_bench_verdict {
    int passed;
    double error, bound; /* of the worst tensor, relative RMS */
    char text[200];      /* why it was refused */
};

/* Runs the case once and compares it with the recurrence in double. `fault`: perturb the result first. */
int seqmix_bench_verify(struct seqmix_bench_case *c, int fault, struct seqmix_bench_verdict *verdict);

void seqmix_bench_oracle_conv(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_scan(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_ssd(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_deltanet(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_inverse(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_norm(const struct seqmix_bench_case *c, double *const *values);
void seqmix_bench_oracle_linear(const struct seqmix_bench_case *c, double *const *values);

/* ---- the machine (roofline.c) ---- */

enum { SEQMIX_BENCH_L2, SEQMIX_BENCH_LLC, SEQMIX_BENCH_DRAM, SEQMIX_BENCH_MEMORIES };

/* Bytes per second, read plus written. */
struct seqmix_bench_memory {
    double footprint;                       /* bytes per worker it was measured with */
    double memcpy_rate, copy, update, read; /* libc, a vector loop, x = a*x in place, a sum */
};

struct seqmix_bench_roofline {
    const char *isa; /* of the peak kernels */
    int workers;
    double l2_bytes, llc_bytes; /* per core, and whole */
    double fma, fma_one;        /* flop/s, f32: all workers, one */
    double fma_after;           /* all workers, measured again after the last entry; 0 = not */
    double expf_libm, exp_poly; /* 1/s, all workers */
    struct seqmix_bench_memory memory[SEQMIX_BENCH_MEMORIES];
};

double seqmix_bench_seconds(void);
double seqmix_bench_llc_bytes(void);
void seqmix_bench_roofline_measure(struct seqmix_bench_roofline *r, int workers, int quick);
void seqmix_bench_roofline_again(struct seqmix_bench_roofline *r);
const char *seqmix_bench_memory_name(int memory);

/* ---- results ---- */

struct seqmix_bench_result {
    struct seqmix_bench_entry entry;
    char dims[SEQMIX_BENCH_DIMS];
    char kernel[64];
    int32_t level;
    int copies, samples, calls;   /* calls: per sample */
    double median, min, p10, p90; /* seconds a call */
    double flops, exps, read_bytes, write_bytes;
    const char *bound; /* "fma", "exp", "l2", "llc", "dram" */
    double bound_seconds;
    struct seqmix_bench_verdict verdict;
    char skipped[200]; /* why it was not timed; empty if it was */
};

struct seqmix_bench_options {
    const char *op, *shape, *shapes_dir, *plot;
    const char *suite; /* "targets", or NULL: the tables of the ops */
    const char *model; /* a card: model.h */
    const char *json;  /* NULL: stdout, if json_wanted */
    int32_t levels[8]; /* level caps, each a context of its own */
    int n_levels, every_level;
    int32_t dtypes[3];
    int n_dtypes;
    int64_t prefill[16], decode[16];
    int n_prefill, n_decode;
    int workers, reps, quick, roofline_only, list, json_wanted, plant_fault, repeats, launches;
    double budget, limit; /* seconds a line: of samples, and at most for one call (by estimate) */
    double total;         /* seconds after which the remaining lines are left out; 0 = never */
};

/* Parses the command line. 0, 1 to leave with success (help was printed), -1 with a message on stderr. */
int seqmix_bench_parse(int argc, char **argv, struct seqmix_bench_options *o);

/* Sizes, work and kernel of an entry. 0, or -1 with the reason in `skipped`. */
int seqmix_bench_describe(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, struct seqmix_bench_result *result);

/* Estimates and verifies an entry. 1 when it may be timed; else `skipped` or the verdict says why not. */
int seqmix_bench_examine(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, const struct seqmix_bench_options *o,
                         struct seqmix_bench_result *result);

/* seqmix_bench_case_open where the memory suffices. 0, or -1 with the reason in `skipped`. */
int seqmix_bench_open(struct seqmix_bench_case *c, seqmix_ctx *ctx, const struct seqmix_bench_entry *entry,
                      size_t cycle_bytes, struct seqmix_bench_result *result);

/* Verifies and times an entry. `r` gives the bounds. 0 when `only_level` is not 0 and another rung answers. */
int seqmix_bench_measure(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, int32_t only_level,
                         const struct seqmix_bench_options *o, const struct seqmix_bench_roofline *r,
                         struct seqmix_bench_result *result);

/* ---- OpenBLAS beside our own products (openblas.c) ---- */

enum { SEQMIX_BENCH_BLAS_ROWS = 64 };

struct seqmix_bench_openblas {
    int present, threads, fallback;
    char core[32], config[160], note[240];
    int n;
    struct seqmix_bench_blas_row {
        const struct seqmix_bench_result *ours;
        double median, spread; /* seconds; (p90-p10)/median */
    } rows[SEQMIX_BENCH_BLAS_ROWS];
};

void seqmix_bench_openblas_prepare(int workers);
void seqmix_bench_openblas_measure(struct seqmix_bench_openblas *blas, const struct seqmix_bench_result *results, int n,
                                   const struct seqmix_bench_options *o);

/* ---- lists (bench.c) ---- */

int seqmix_bench_in_quick(const char *op, const char *shape);
int seqmix_bench_same_work(const struct seqmix_bench_entry *a, const struct seqmix_bench_entry *b);

/* ---- statistics (bench_case.c) ---- */

double seqmix_bench_quantile(double *values, int n, double q); /* sorts */
uint64_t seqmix_bench_random(uint64_t *state);

/* ---- output ---- */

void seqmix_bench_print_machine(FILE *out, const struct seqmix_bench_roofline *r);
void seqmix_bench_print_header(FILE *out, int decode);
void seqmix_bench_print_result(FILE *out, const struct seqmix_bench_result *result);
void seqmix_bench_print_openblas(FILE *out, const struct seqmix_bench_openblas *blas);
int seqmix_bench_write_json(FILE *out, const struct seqmix_bench_roofline *r, const struct seqmix_bench_openblas *blas,
                            const struct seqmix_bench_result *results, int n);
void seqmix_bench_put_string(FILE *out, const char *key, const char *text); /* "key": "text" */
void seqmix_bench_put_number(FILE *out, const char *key, double value);     /* "key": value, null when not finite */
int seqmix_bench_write_plot(FILE *out, const struct seqmix_bench_roofline *r, const struct seqmix_bench_result *results,
                            int n);

#endif
