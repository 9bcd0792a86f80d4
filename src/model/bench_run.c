/* SPDX-License-Identifier: MIT */
/*
 * seqmix-run MODEL --bench: how long the same prompt takes at several prefill widths, each to the completion of the last
 * state update, and how long decoding takes row by row; rows/s, ms, the weights read a second, and that as a share of what
 * this machine reads when it does nothing else, measured in the same run with as many threads.
 */
#define _POSIX_C_SOURCE 200809L

#include <threads.h>
#include <time.h>

#include "commands.h"

#define READ_BYTES  (UINT64_C(192) << 20) /* beyond any cache */
#define MAX_THREADS 64

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- what the memory gives ---- */

typedef struct reader_part {
    const uint64_t *from;
    size_t n;
    uint64_t sum;
} reader_part;

/* Eight streams, a line of each in turn: one alone, or several at the same place of their pages, leave a third of the memory's
 * speed unused (docs/BENCH.md, linear). */
static int read_part(void *user)
{
    enum { STREAMS = 8, LINE = 8, AHEAD = 8 * LINE, APART = 9 * LINE };
    reader_part *part = user;
    const size_t pitch = part->n / STREAMS / LINE * LINE;
    uint64_t sum = 0;
    for (size_t i = 0; i + APART < pitch; i += LINE)
        for (size_t k = 0; k < STREAMS; k++) {
            const uint64_t *line = part->from + k * (pitch - LINE) + i;
            __builtin_prefetch(line + AHEAD);
            for (size_t w = 0; w < LINE; w++)
                sum += line[w];
        }
    part->sum = sum;
    return 0;
}

/* Bytes a second, the best of some passes; 0 without memory for it. */
static double read_speed(int64_t workers)
{
    size_t n = READ_BYTES / sizeof(uint64_t);
    int64_t parts = workers < MAX_THREADS ? workers : MAX_THREADS;
    uint64_t *block = malloc(READ_BYTES);
    double best = 0.0;
    if (block == NULL) return 0.0;
    for (size_t i = 0; i < n; i++)
        block[i] = i;
    for (int pass = 0; pass < 5; pass++) {
        reader_part part[MAX_THREADS] = {{0}};
        thrd_t threads[MAX_THREADS];
        int64_t started = 0;
        double start = now_ms();
        for (int64_t i = 0; i < parts; i++) {
            size_t from = n / (size_t)parts * (size_t)i;
            part[i] = (reader_part){.from = block + from, .n = n / (size_t)parts};
            if (i + 1 < parts && thrd_create(&threads[started], read_part, &part[i]) == thrd_success)
                started++;
            else
                (void)read_part(&part[i]);
        }
        for (int64_t i = 0; i < started; i++)
            (void)thrd_join(threads[i], NULL);
        double ms = now_ms() - start;
        block[pass] = part[0].sum; /* so that nothing is left out */
        if (ms > 0.0 && (double)READ_BYTES / ms > best) best = (double)READ_BYTES / ms;
    }
    free(block);
    return best * 1e3;
}

/* ---- what a pass reads ---- */

static size_t tensor_bytes(const seqmix_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return t->rank > 0 ? seqmix_dtype_bytes(t->dtype, n) : 0;
}

/* Weights as they are stored, without the table of an untied embedding; of one row, only the experts that it chooses. */
static double bytes_of_pass(const seqmix_model *m, int64_t rows)
{
    double bytes = (double)(m->weight_bytes + m->parameter_bytes);
    if (!m->config.tied) bytes -= (double)tensor_bytes(&m->embedding);
    for (int64_t i = 0; i < m->n_blocks; i++) {
        const seqmix_moe_block *l = &m->blocks[i].u.moe;
        if (m->blocks[i].kind != SEQMIX_KIND_MOE || rows * m->config.moe.per_token >= m->config.moe.experts) continue;
        double experts = (double)(tensor_bytes(&l->gate) + tensor_bytes(&l->up) + tensor_bytes(&l->down));
        bytes -= experts * (1.0 - (double)(rows * m->config.moe.per_token) / (double)m->config.moe.experts);
    }
    return bytes;
}

/* ---- the tables ---- */

typedef struct bench {
    const seqmix_options *o;
    seqmix_model *model;
    seqmix_ctx *ctx;
    double peak; /* bytes a second */
    int32_t *tokens;
    int64_t rows; /* of the prompt */
    cJSON *tree;
    seqmix_why why;
} bench;

static void add_row(bench *b, const char *table, int64_t width, int64_t rows, double ms, double bytes)
{
    double per_second = (double)rows * 1e3 / ms, speed = bytes / ms * 1e3;
    double share = b->peak > 0.0 ? 100.0 * speed / b->peak : 0.0;
    if (!b->o->json) {
        (void)printf("%-8s %6lld rows a step %8lld rows %10.1f ms %10.1f rows/s %9.3f ms/row %7.2f GB/s %5.1f %%\n",
                     table, (long long)width, (long long)rows, ms, per_second, ms / (double)rows, speed / 1e9, share);
        (void)fflush(stdout);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(o, "rows_a_step", (double)width);
    (void)cJSON_AddNumberToObject(o, "rows", (double)rows);
    (void)cJSON_AddNumberToObject(o, "ms", ms);
    (void)cJSON_AddNumberToObject(o, "rows_per_s", per_second);
    (void)cJSON_AddNumberToObject(o, "weights_gb_per_s", speed / 1e9);
    (void)cJSON_AddNumberToObject(o, "percent_of_read_peak", share);
    (void)cJSON_AddItemToArray(cJSON_GetObjectItem(b->tree, table), o);
}

static seqmix_session *open_session(const bench *b, int64_t width)
{
    seqmix_session_desc desc = {.model = b->model,
                                .ctx = b->ctx,
                                .on_device = seqmix_is_device(b->o),
                                .prefill_rows = width,
                                .context = b->rows + b->o->n + 1,
                                .invariant = b->o->invariant};
    return seqmix_session_create(&desc, b->why);
}

/* The second of two runs counts: the first brings the pages in. */
static bool time_prefill(bench *b, int64_t width)
{
    seqmix_session *s = open_session(b, width);
    bool ok = s != NULL;
    double ms = 0.0;
    for (int run = 0; ok && run < 2; run++) {
        double start = now_ms();
        ok = seqmix_session_reset(s, b->why) && seqmix_session_eval(s, b->tokens, b->rows, NULL, b->why);
        ms = now_ms() - start;
    }
    seqmix_session_free(s);
    if (!ok) return false;
    int64_t passes = (b->rows + width - 1) / width;
    add_row(b, "prefill", width, b->rows, ms, (double)passes * bytes_of_pass(b->model, width));
    return true;
}

static bool time_decode(bench *b)
{
    int64_t n = b->o->n > 0 ? b->o->n : 1, width = b->rows < 128 ? b->rows : 128;
    seqmix_session *s = open_session(b, width);
    bool ok = s != NULL && seqmix_session_eval(s, b->tokens, b->rows, NULL, b->why);
    double start = now_ms();
    for (int64_t i = 0; ok && i < n; i++)
        ok = seqmix_session_eval(s, &b->tokens[i % b->rows], 1, NULL, b->why);
    double ms = now_ms() - start;
    seqmix_session_free(s);
    if (ok) add_row(b, "decode", 1, n, ms, (double)n * bytes_of_pass(b->model, 1));
    return ok;
}

static bool set_up(bench *b)
{
    b->model = seqmix_model_open(b->o->model_dir, b->why);
    if (b->model == NULL || !seqmix_open_context(b->o, &b->ctx, b->why)) return false;
    b->rows = b->o->bench_rows;
    b->tokens = malloc((size_t)b->rows * sizeof *b->tokens);
    b->tree = cJSON_CreateObject();
    if (b->tokens == NULL || b->tree == NULL) return seqmix_fail(b->why, "no memory");
    for (int64_t i = 0; i < b->rows; i++)
        b->tokens[i] = (int32_t)((i * 7919 + 13) % b->model->config.vocab);
    b->peak = read_speed(b->o->workers);
    (void)cJSON_AddStringToObject(b->tree, "family", b->model->config.family_name);
    (void)cJSON_AddNumberToObject(b->tree, "weight_bytes", (double)b->model->weight_bytes);
    (void)cJSON_AddNumberToObject(b->tree, "workers", (double)b->o->workers);
    (void)cJSON_AddNumberToObject(b->tree, "read_peak_gb_per_s", b->peak / 1e9);
    (void)cJSON_AddArrayToObject(b->tree, "prefill");
    (void)cJSON_AddArrayToObject(b->tree, "decode");
    if (!b->o->json)
        (void)printf("%s, %.1f MiB of weights, %lld workers; this machine reads %.2f GB/s\n",
                     b->model->config.family_name, (double)b->model->weight_bytes / 1048576.0, (long long)b->o->workers,
                     b->peak / 1e9);
    return true;
}

int seqmix_command_bench(const seqmix_options *o, seqmix_why why)
{
    static const int64_t widths[] = {16, 64, 128, 256, 512};
    bench b = {.o = o, .why = why};
    bool ok = set_up(&b);
    for (size_t i = 0; ok && i < sizeof widths / sizeof widths[0]; i++)
        ok = (i > 0 && widths[i - 1] >= b.rows) || time_prefill(&b, widths[i]);
    ok = ok && time_decode(&b);
    char *text = ok && o->json ? cJSON_Print(b.tree) : NULL;
    if (text != NULL) (void)printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(b.tree);
    free(b.tokens);
    seqmix_model_close(b.model);
    seqmix_ctx_destroy(b.ctx);
    return ok ? 0 : SEQMIX_EXIT_FAILED;
}
