/* SPDX-License-Identifier: MIT */
/*
 * A case: the tensors of an entry, filled with random data, and one args struct per copy of what is cycled. Memory is asked
 * from the context, so that a context of a device gets device memory; data is made on the host and copied there.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COPIES = 4096, PATTERN = 1 << 18 };

uint64_t seqmix_bench_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double seqmix_bench_quantile(double *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof values[0], compare_doubles);
    const double at = q * (n - 1);
    const int i = (int)at;
    return i + 1 < n ? values[i] + (at - i) * (values[i + 1] - values[i]) : values[i];
}

/* ---- elements ---- */

size_t seqmix_bench_dtype_size(int32_t dtype)
{
    return dtype == SEQMIX_F32 ? 4 : 2;
}

const char *seqmix_bench_dtype_name(int32_t dtype)
{
    return dtype == SEQMIX_F32 ? "f32" : dtype == SEQMIX_BF16 ? "bf16" : "f16";
}

int64_t seqmix_bench_count(const seqmix_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

static double load_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const double mantissa = h & 1023, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25));
}

double seqmix_bench_load(const void *data, int32_t dtype, int64_t i)
{
    if (dtype == SEQMIX_F32) return (double)((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    if (dtype == SEQMIX_F16) return load_f16(h);
    const uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Towards zero: it makes inputs, so nothing depends on the rounding. Magnitudes are those of an f16. */
static void store(void *data, int32_t dtype, int64_t i, float value)
{
    if (dtype == SEQMIX_F32) {
        ((float *)data)[i] = value;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == SEQMIX_BF16) {
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        return;
    }
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t h = magnitude < 0x38800000u ? 0 : (magnitude - 0x38000000u) >> 13;
    if (magnitude > 0x7f800000u) h = 0x7e00u;
    ((uint16_t *)data)[i] = (uint16_t)(sign | h);
}

static float draw(const struct seqmix_bench_field *f, uint64_t *seed)
{
    const uint64_t r = seqmix_bench_random(seed);
    const double u = (double)(r >> 11) * 0x1p-53;
    switch (f->fill) {
    case SEQMIX_BENCH_UNIFORM:
        return (float)(f->a + (f->b - f->a) * u);
    case SEQMIX_BENCH_LOG_DT:
        return (float)log(expm1(f->a * pow(f->b / f->a, u)));
    case SEQMIX_BENCH_POISON:
        return NAN;
    default:
        break;
    }
    /* four uniform parts of one draw: a sum of standard deviation 1/sqrt(3), bounded, close enough to a bell */
    const double sum =
        (double)(r & 0xffff) + (double)(r >> 16 & 0xffff) + (double)(r >> 32 & 0xffff) + (double)(r >> 48);
    return (float)(f->a + f->b * (sum * 0x1p-16 - 2.0) * sqrt(3.0));
}

/* Large tensors repeat a random pattern of 2^18 elements; its length shares no factor with their rows. */
static void fill_host(const struct seqmix_bench_field *f, void *host, int64_t n, uint64_t seed)
{
    const int64_t pattern = n < PATTERN ? n : PATTERN - 1;
    const size_t size = seqmix_bench_dtype_size(f->view.dtype);
    for (int64_t i = 0; i < pattern; i++)
        store(host, f->view.dtype, i, draw(f, &seed));
    for (int64_t done = pattern; done < n; done += pattern)
        memcpy((char *)host + (size_t)done * size, host, (size_t)(n - done < pattern ? n - done : pattern) * size);
}

/* ---- buffers ---- */

static size_t field_bytes(const struct seqmix_bench_field *f)
{
    const size_t bytes = (size_t)seqmix_bench_count(&f->view) * seqmix_bench_dtype_size(f->view.dtype);
    return (bytes + 63) / 64 * 64;
}

double seqmix_bench_case_bytes(const struct seqmix_bench_plan *plan)
{
    double bytes = 0;
    for (int i = 0; i < plan->n_fields; i++)
        bytes += (double)seqmix_bench_count(&plan->fields[i].view) *
                 (double)seqmix_bench_dtype_size(plan->fields[i].view.dtype);
    return bytes;
}

static int copies_for(const struct seqmix_bench_plan *plan, size_t cycle_bytes)
{
    size_t one = 0;
    for (int i = 0; i < plan->n_fields; i++)
        if (plan->fields[i].cycled) one += field_bytes(&plan->fields[i]);
    if (one == 0 || cycle_bytes == 0) return 1;
    const size_t n = (cycle_bytes + one - 1) / one;
    return n < 2 ? 2 : n > MOST_COPIES ? MOST_COPIES : (int)n;
}

static int open_field(struct seqmix_bench_case *c, int index, char *why, size_t why_len)
{
    const struct seqmix_bench_field *f = &c->plan.fields[index];
    const int copies = f->cycled ? c->n_copies : 1;
    const size_t bytes = field_bytes(f);
    void *host = calloc(1, bytes);
    if (host == NULL || seqmix_mem_alloc(c->ctx, bytes * (size_t)copies, &c->memory[index]) != SEQMIX_OK) {
        free(host);
        snprintf(why, why_len, "%s: no memory for %zu bytes of %s", c->entry.op->name, bytes * (size_t)copies, f->name);
        return -1;
    }
    fill_host(f, host, seqmix_bench_count(&f->view), (uint64_t)index + 1);
    int failed = 0;
    for (int k = 0; k < copies && !failed; k++) {
        char *at = (char *)c->memory[index] + bytes * (size_t)k;
        failed = seqmix_mem_copy(c->ctx, at, host, bytes) != SEQMIX_OK;
        for (int j = f->cycled ? k : 0; j < (f->cycled ? k + 1 : c->n_copies); j++) {
            seqmix_tensor t = f->view;
            t.data = at;
            memcpy((char *)&c->args[j] + f->offset, &t, sizeof t);
        }
    }
    free(host);
    if (failed) snprintf(why, why_len, "%s: %s", c->entry.op->name, seqmix_last_error(c->ctx));
    return failed ? -1 : 0;
}

/* Several sequences of one length; the bounds lie where the tensors do. */
static int open_batch(struct seqmix_bench_case *c)
{
    const int64_t n = c->entry.seqs;
    const size_t bytes = (size_t)(n + 1) * sizeof(int32_t);
    int32_t *host = malloc(bytes);
    if (host == NULL) return -1;
    for (int64_t i = 0; i <= n; i++)
        host[i] = (int32_t)(i * c->entry.rows / n);
    c->batch = (seqmix_batch){.struct_size = sizeof c->batch, .n_seqs = (int32_t)n};
    c->batch.max_rows = (int32_t)((c->entry.rows + n - 1) / n);
    const int failed = seqmix_mem_alloc(c->ctx, bytes, &c->bounds) != SEQMIX_OK ||
                       seqmix_mem_copy(c->ctx, c->bounds, host, bytes) != SEQMIX_OK;
    free(host);
    c->batch.row_begin = c->bounds;
    for (int i = 0; i < c->n_copies && !failed; i++) {
        union seqmix_bench_args *args = &c->args[i];
        const seqmix_batch **batch = c->entry.op->id == SEQMIX_OP_DELTANET_CHUNK_FORWARD ? &args->deltanet.batch
                                     : c->entry.op->id == SEQMIX_OP_SSD_CHUNK_FORWARD    ? &args->ssd.batch
                                     : c->entry.op->id == SEQMIX_OP_SELECTIVE_SCAN_ROWS  ? &args->scan.batch
                                                                                         : &args->conv.batch;
        *batch = &c->batch;
    }
    return failed ? -1 : 0;
}

int seqmix_bench_case_open(struct seqmix_bench_case *c, seqmix_ctx *ctx, const struct seqmix_bench_entry *entry,
                           size_t cycle_bytes, char *why, size_t why_len)
{
    memset(c, 0, sizeof *c);
    c->entry = *entry;
    c->ctx = ctx;
    entry->op->plan(entry, &c->plan);
    c->n_copies = copies_for(&c->plan, cycle_bytes);
    c->args = malloc((size_t)c->n_copies * sizeof c->args[0]);
    if (c->args == NULL) {
        snprintf(why, why_len, "%s: no memory", entry->op->name);
        return -1;
    }
    for (int i = 0; i < c->n_copies; i++)
        c->args[i] = c->plan.args;
    for (int i = 0; i < c->plan.n_fields; i++)
        if (open_field(c, i, why, why_len) != 0) return -1;
    if (entry->seqs > 1 && !entry->decode && open_batch(c) != 0) {
        snprintf(why, why_len, "%s: no memory for the bounds of %d sequences", entry->op->name, (int)entry->seqs);
        return -1;
    }
    if (entry->op->workspace(ctx, &c->args[0], &c->workspace_bytes) != SEQMIX_OK) {
        snprintf(why, why_len, "%s", seqmix_last_error(ctx));
        return -1;
    }
    if (c->workspace_bytes > 0 && seqmix_mem_alloc(ctx, c->workspace_bytes, &c->workspace) != SEQMIX_OK) {
        snprintf(why, why_len, "%s: no memory for %zu bytes of workspace", entry->op->name, c->workspace_bytes);
        return -1;
    }
    return 0;
}

void seqmix_bench_case_close(struct seqmix_bench_case *c)
{
    for (int i = 0; i < c->plan.n_fields; i++)
        seqmix_mem_free(c->ctx, c->memory[i]);
    seqmix_mem_free(c->ctx, c->bounds);
    seqmix_mem_free(c->ctx, c->workspace);
    free(c->args);
}

seqmix_status seqmix_bench_case_run(struct seqmix_bench_case *c, int copy)
{
    return c->entry.op->run(c->ctx, &c->args[copy], c->workspace, c->workspace_bytes);
}
