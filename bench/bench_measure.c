/* SPDX-License-Identifier: MIT */
/*
 * One entry: estimate from a call of a few rows, verify on at most 64, then time. Prefill runs on the same buffers every time, as
 * warm as their size lets them be; decode walks over as many states (or weights) as it takes to come from DRAM each time.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <string.h>
#include <unistd.h>

enum { PROBE_ROWS = 4, VERIFY_ROWS = 64, MOST_SAMPLES = 1000, MOST_CALLS = 1000, FEW_SAMPLES = 3 };

static const double SAMPLE_SECONDS = 50e-6; /* shorter calls are timed several at once */

/* Which kernel would answer an entry, and of which rung; a query needs no data. NULL when none does. */
static const char *kernel_of(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, int32_t *level)
{
    struct seqmix_bench_plan plan = {.n_fields = 0};
    const char *kernel = NULL;
    entry->op->plan(entry, &plan);
    for (int i = 0; i < plan.n_fields; i++)
        memcpy((char *)&plan.args + plan.fields[i].offset, &plan.fields[i].view, sizeof plan.fields[i].view);
    if (seqmix_op_query(ctx, entry->op->id, &plan.args, SEQMIX_QUERY_KERNEL, &kernel) != SEQMIX_OK) return NULL;
    if (seqmix_op_query(ctx, entry->op->id, &plan.args, SEQMIX_QUERY_LEVEL, level) != SEQMIX_OK) return NULL;
    return kernel;
}

/* `calls` calls from copy `*at` on; seconds a call, or -1. */
static double sample(struct seqmix_bench_case *c, int calls, int *at)
{
    double ms = 0;
    if (seqmix_elapsed(c->ctx, &ms) != SEQMIX_OK) return -1;
    for (int i = 0; i < calls; i++) {
        if (seqmix_bench_case_run(c, *at) != SEQMIX_OK) return -1;
        *at = *at + 1 < c->n_copies ? *at + 1 : 0;
    }
    if (seqmix_sync(c->ctx) != SEQMIX_OK || seqmix_elapsed(c->ctx, &ms) != SEQMIX_OK) return -1;
    return 1e-3 * ms / calls;
}

/* Whether one more copy of everything fits: half of the machine's memory is ours. */
static int fits_memory(double bytes)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages <= 0 || page <= 0 || bytes < 0.5 * (double)pages * (double)page;
}

int seqmix_bench_open(struct seqmix_bench_case *c, seqmix_ctx *ctx, const struct seqmix_bench_entry *entry,
                      size_t cycle_bytes, struct seqmix_bench_result *result)
{
    struct seqmix_bench_plan plan = {.n_fields = 0};
    entry->op->plan(entry, &plan);
    const double bytes = seqmix_bench_case_bytes(&plan) + (double)cycle_bytes;
    if (!fits_memory(bytes)) {
        snprintf(result->skipped, sizeof result->skipped, "needs %.1f GB, more than half of this machine's memory",
                 1e-9 * bytes);
        return -1;
    }
    if (seqmix_bench_case_open(c, ctx, entry, cycle_bytes, result->skipped, sizeof result->skipped) == 0) return 0;
    seqmix_bench_case_close(c);
    return -1;
}

/* A call with fewer rows than the entry has: verified, or only timed. The seconds it takes, or -1. */
static double try_rows(seqmix_ctx *ctx, int64_t rows, int verify, int fault, struct seqmix_bench_result *result)
{
    struct seqmix_bench_entry entry = result->entry;
    struct seqmix_bench_case c;
    entry.rows = rows;
    entry.seqs = 1;
    if (seqmix_bench_open(&c, ctx, &entry, 0, result) != 0) return -1;
    double seconds = -1;
    int at = 0;
    if (!verify || seqmix_bench_verify(&c, fault, &result->verdict)) {
        seconds = sample(&c, 1, &at);
        if (seconds < 0) snprintf(result->skipped, sizeof result->skipped, "%s", seqmix_last_error(ctx));
    }
    seqmix_bench_case_close(&c);
    return seconds;
}

static void count_work(const struct seqmix_bench_entry *entry, struct seqmix_bench_result *result)
{
    struct seqmix_bench_plan plan = {.n_fields = 0};
    entry->op->plan(entry, &plan);
    memcpy(result->dims, plan.dims, sizeof result->dims);
    result->flops = plan.flops;
    result->exps = plan.exps;
    for (int i = 0; i < plan.n_fields; i++) {
        const struct seqmix_bench_field *f = &plan.fields[i];
        const double bytes = (double)seqmix_bench_count(&f->view) * (double)seqmix_bench_dtype_size(f->view.dtype);
        if (f->role != SEQMIX_BENCH_OUT) result->read_bytes += bytes * f->touched;
        if (f->role == SEQMIX_BENCH_OUT || f->role == SEQMIX_BENCH_STATE) result->write_bytes += bytes;
    }
}

static double greatest(double a, double b)
{
    return a > b ? a : b;
}

/* The largest of the times that arithmetic, exponentials and bytes need by themselves on this machine. */
static void find_bound(const struct seqmix_bench_roofline *r, struct seqmix_bench_result *result)
{
    const double bytes = result->read_bytes + result->write_bytes;
    int where = SEQMIX_BENCH_DRAM;
    if (result->copies == 1 && bytes < r->llc_bytes / 2) where = SEQMIX_BENCH_LLC;
    if (result->copies == 1 && bytes < 0.75 * r->l2_bytes * r->workers) where = SEQMIX_BENCH_L2;
    const struct seqmix_bench_memory *m = &r->memory[where];
    double rate = greatest(greatest(m->memcpy_rate, m->copy), m->update);
    if (result->write_bytes < 0.1 * bytes) rate = greatest(rate, m->read);
    const double times[3] = {result->flops / r->fma, result->exps / greatest(r->exp_poly, r->expf_libm), bytes / rate};
    const char *const names[3] = {"fma", "exp", seqmix_bench_memory_name(where)};
    for (int i = 0; i < 3; i++)
        if (times[i] > result->bound_seconds) {
            result->bound_seconds = times[i];
            result->bound = names[i];
        }
}

static void time_case(struct seqmix_bench_case *c, const struct seqmix_bench_options *o,
                      struct seqmix_bench_result *result)
{
    static double samples[MOST_SAMPLES];
    int at = 0, n = 0;
    const double first = sample(c, 1, &at);
    result->calls = first > 0 && first < SAMPLE_SECONDS ? (int)(SAMPLE_SECONDS / first) + 1 : 1;
    if (result->calls > MOST_CALLS) result->calls = MOST_CALLS;
    const int few = first > o->budget ? 1 : FEW_SAMPLES;
    double spent = 0;
    while (n < MOST_SAMPLES && (o->reps > 0 ? n < o->reps : n < few || spent < o->budget)) {
        const double seconds = sample(c, result->calls, &at);
        if (seconds < 0) {
            snprintf(result->skipped, sizeof result->skipped, "%s", seqmix_last_error(c->ctx));
            return;
        }
        samples[n++] = seconds;
        spent += seconds * result->calls;
    }
    result->samples = n;
    result->median = seqmix_bench_quantile(samples, n, 0.5);
    result->min = samples[0];
    result->p10 = seqmix_bench_quantile(samples, n, 0.1);
    result->p90 = seqmix_bench_quantile(samples, n, 0.9);
}

/* On at most 64 rows; on all of them when another kernel answers those. */
static int64_t rows_to_verify(seqmix_ctx *ctx, const struct seqmix_bench_result *result)
{
    struct seqmix_bench_entry few = result->entry;
    int32_t level = 0;
    if (few.rows <= VERIFY_ROWS) return few.rows;
    few.rows = VERIFY_ROWS;
    const char *kernel = kernel_of(ctx, &few, &level);
    return kernel != NULL && strcmp(kernel, result->kernel) == 0 ? few.rows : result->entry.rows;
}

int seqmix_bench_describe(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, struct seqmix_bench_result *result)
{
    memset(result, 0, sizeof *result);
    result->entry = *entry;
    count_work(entry, result);
    const char *kernel = kernel_of(ctx, entry, &result->level);
    snprintf(result->kernel, sizeof result->kernel, "%s", kernel != NULL ? kernel : "none");
    if (kernel == NULL) {
        snprintf(result->skipped, sizeof result->skipped, "%s", seqmix_last_error(ctx));
        return -1;
    }
    return 0;
}

int seqmix_bench_examine(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, const struct seqmix_bench_options *o,
                         struct seqmix_bench_result *result)
{
    if (seqmix_bench_describe(ctx, entry, result) != 0) return 0;
    const int64_t few = entry->rows < PROBE_ROWS ? entry->rows : PROBE_ROWS;
    const double probe = try_rows(ctx, few, 0, 0, result);
    if (probe < 0) return 0;
    const double estimate = probe * (double)entry->rows / (double)few;
    if (estimate > o->limit) {
        snprintf(result->skipped, sizeof result->skipped, "a call would take about %.1f s (--limit is %.1f s)",
                 estimate, o->limit);
        return 0;
    }
    return try_rows(ctx, rows_to_verify(ctx, result), 1, o->plant_fault, result) >= 0;
}

int seqmix_bench_measure(seqmix_ctx *ctx, const struct seqmix_bench_entry *entry, int32_t only_level,
                         const struct seqmix_bench_options *o, const struct seqmix_bench_roofline *r,
                         struct seqmix_bench_result *result)
{
    int32_t level = 0;
    if (only_level != 0 && kernel_of(ctx, entry, &level) != NULL && level != only_level) return 0;
    if (!seqmix_bench_examine(ctx, entry, o, result)) return 1;
    const size_t cycle_bytes = entry->decode ? (size_t)(r->memory[SEQMIX_BENCH_DRAM].footprint * r->workers) : 0;
    struct seqmix_bench_case c;
    if (seqmix_bench_open(&c, ctx, entry, cycle_bytes, result) != 0) return 1;
    result->copies = c.n_copies;
    time_case(&c, o, result);
    find_bound(r, result);
    seqmix_bench_case_close(&c);
    return 1;
}
