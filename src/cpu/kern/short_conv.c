/* SPDX-License-Identifier: MIT */
/*
 * Causal short convolution (equation: seqmix.h). Task: a block of channels of one sequence. Channels are on the lanes; a few
 * rows at a time are read in place, under the K-1 rows before them, which are kept as f32: so y may be x. Rows of y leave one
 * after the other from a buffer, large outputs past the caches: lines of several rows in turn would meet in one cache set.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "stream.h"
#include "tune.h"

enum { ROWS = V_TOGETHER, WIDTH = 16, LINE = 16, ROOM = TUNE_CONV_ROOM };

struct conv {
    const seqmix_conv_args *args;
    int64_t channels, blocks; /* of a task; per sequence */
    bool stream;
};

struct block {
    int64_t first, n; /* channels */
    int64_t stride;   /* of the rows below; not a power of two, so that they do not meet in the caches */
    int past;         /* K-1 */
    float *weight;    /* [K][stride] */
    float *rows;      /* [K-1][stride]: the past, oldest first */
    float *bias;      /* [stride] */
    float *out;       /* [ROWS][stride] */
};

/* `columns` elements of the channels, [n][columns], turned around into rows of the block; zeros up to whole vectors. */
static void load_columns(const seqmix_tensor *t, int64_t offset, const int64_t *stride, int columns,
                         const struct block *b, float *rows)
{
    for (int j = 0; j < columns; j++, rows += b->stride) {
        const int64_t from = offset + j * stride[1];
        if (t->dtype == SEQMIX_F32)
            for (int64_t c = 0; c < b->n; c++)
                rows[c] = ((const float *)t->data)[from + c * stride[0]];
        else
            for (int64_t c = 0; c < b->n; c++)
                rows[c] = seqmix_load_f32(t, from + c * stride[0]);
        for (int64_t c = b->n; c % V_LANES != 0; c++)
            rows[c] = 0;
    }
}

static void load_past(const seqmix_conv_args *a, int64_t slot, const struct block *b)
{
    const seqmix_tensor *pool = &a->state;
    if (slot >= 0)
        load_columns(pool, slot * pool->stride[0] + b->first * pool->stride[1], pool->stride + 1, b->past, b, b->rows);
    else
        memset(b->rows, 0, (size_t)(b->past * b->stride) * sizeof *b->rows);
}

static void store_past(const seqmix_conv_args *a, int64_t slot, const struct block *b)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t offset = slot * pool->stride[0] + b->first * pool->stride[1];
    if (slot < 0) return;
    for (int64_t c = 0; c < b->n; c++)
        for (int j = 0; j < b->past; j++)
            seqmix_store_f32(pool, offset + c * pool->stride[1] + j * pool->stride[2], b->rows[j * b->stride + c]);
}

/* Rows [t, t+n_rows) of the V_LANES channels from channel c of the block on; their last rows become the past. `plain`: all
 * lanes, of f32. */
static inline __attribute__((always_inline)) void conv_lanes(const seqmix_conv_args *a, const struct block *b,
                                                             int64_t c, int64_t t, int n_rows, int width, bool plain,
                                                             bool silu)
{
    const int lanes = lanes_left(b->n, c);
    const int64_t channel = b->first + c;
    vf x[WIDTH - 1 + ROWS], y[ROWS];
    for (int j = 0; j < width - 1; j++)
        x[j] = v_load(b->rows + j * b->stride + c);
    for (int i = 0; i < n_rows; i++) {
        const int64_t at = (t + i) * a->x.stride[0] + channel;
        x[width - 1 + i] = plain ? v_load((const float *)a->x.data + at) : row_lanes(&a->x, at, lanes);
    }
    for (int j = 0; j < width - 1; j++)
        v_store(b->rows + j * b->stride + c, x[n_rows + j]);
    for (int i = 0; i < n_rows; i++)
        y[i] = v_load(b->bias + c);
    for (int j = 0; j < width; j++)
        for (int i = 0; i < n_rows; i++)
            y[i] = v_fma(v_load(b->weight + j * b->stride + c), x[i + j], y[i]);
    if (silu) v_silu_each(y, n_rows);
    for (int i = 0; i < n_rows; i++)
        v_store(b->out + i * b->stride + c, y[i]);
}

/* Rows [t, t+n_rows) of the block, n_rows <= ROWS; asks for as many after them. */
static void conv_rows(const seqmix_conv_args *a, const struct seqmix_seq *seq, const struct block *b, int64_t t,
                      int n_rows, bool stream)
{
    const bool silu = a->activation == SEQMIX_ACT_SILU;
    const bool usual = n_rows == ROWS && b->past == TUNE_CONV_WIDTH - 1 && a->x.dtype == SEQMIX_F32;
    for (int64_t c = 0; c < b->n; c += V_LANES) {
        if (c % LINE == 0)
            for (int64_t next = t + ROWS; next < seq->end && next < t + 2 * ROWS; next++)
                row_prefetch(&a->x, next * a->x.stride[0] + b->first + c, 1);
        if (usual && b->n - c >= V_LANES && silu)
            conv_lanes(a, b, c, t, ROWS, TUNE_CONV_WIDTH, true, true);
        else
            conv_lanes(a, b, c, t, n_rows, b->past + 1, false, silu);
    }
    for (int i = 0; i < n_rows; i++)
        if (stream)
            row_stream(&a->y, (t + i) * a->y.stride[0] + b->first, b->n, b->out + i * b->stride);
        else
            row_store(&a->y, (t + i) * a->y.stride[0] + b->first, b->n, b->out + i * b->stride);
}

static void conv_task(void *arg, int64_t task, int32_t worker)
{
    const struct conv *conv = arg;
    const seqmix_conv_args *a = conv->args;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / conv->blocks));
    const int64_t first = task % conv->blocks * conv->channels, left = a->x.shape[1] - first;
    float room[ROOM];
    struct block b = {.first = first, .past = (int)a->weight.shape[1] - 1};
    int32_t checkpoint = seq.ckpt_begin;
    (void)worker;
    b.n = left < conv->channels ? left : conv->channels;
    b.stride = conv->channels + LINE;
    b.weight = room;
    b.rows = b.weight + (b.past + 1) * b.stride;
    b.bias = b.rows + b.past * b.stride;
    b.out = b.bias + b.stride;
    load_columns(&a->weight, first * a->weight.stride[0], a->weight.stride, b.past + 1, &b, b.weight);
    memset(b.bias, 0, (size_t)b.stride * sizeof *b.bias);
    vector_load(&a->bias, first * a->bias.stride[0], a->bias.stride[0], b.n, 0, b.bias);
    load_past(a, seq.read_slot, &b);

    for (int64_t t = seq.begin; t < seq.end;) {
        int64_t end = t + ROWS < seq.end ? t + ROWS : seq.end; /* a checkpoint ends a run of rows */
        if (checkpoint < seq.ckpt_end && seq.begin + a->batch->ckpt_row[checkpoint] < end)
            end = seq.begin + a->batch->ckpt_row[checkpoint];
        conv_rows(a, &seq, &b, t, (int)(end - t), conv->stream);
        for (t = end; checkpoint < seq.ckpt_end && seq.begin + a->batch->ckpt_row[checkpoint] == t; checkpoint++)
            store_past(a, a->batch->ckpt_slot[checkpoint], &b);
    }
    store_past(a, seq.write_slot, &b);
    if (conv->stream) v_stream_end();
}

seqmix_status KERN(short_conv_rows_plan)(const struct seqmix_context *ctx, const seqmix_conv_args *args,
                                         struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("short_conv");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(short_conv_step_plan)(const struct seqmix_context *ctx, const seqmix_conv_args *args,
                                         struct seqmix_plan *plan)
{
    return KERN(short_conv_rows_plan)(ctx, args, plan);
}

seqmix_status KERN(short_conv_rows)(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    const int64_t channels = args->x.shape[1], fit = ROOM / (2 * args->weight.shape[1] + ROWS) / LINE * LINE - LINE;
    struct conv conv = {.args = args, .stream = streams(&args->y, &args->x)};
    (void)workspace;
    conv.channels = fit < TUNE_CONV_CHANNELS ? fit : TUNE_CONV_CHANNELS;
    conv.blocks = (channels + conv.channels - 1) / conv.channels;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * conv.blocks, conv_task, &conv);
}

seqmix_status KERN(short_conv_step)(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    return KERN(short_conv_rows)(ctx, args, workspace);
}
