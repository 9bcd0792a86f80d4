/* SPDX-License-Identifier: MIT */
/*
 * Causal short convolution (equation: seqmix.h). Task: a block of channels of one sequence. Rows go through a buffer of f32
 * that starts with the K-1 rows before them, from the state or the rows just done; channels are on the lanes.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

enum { CHANNELS = TUNE_CONV_CHANNELS, ROWS = TUNE_CONV_ROWS, WIDTH = 16 };

struct conv {
    const seqmix_conv_args *args;
    int64_t blocks; /* channel blocks per sequence */
};

struct block {
    int64_t first, n; /* channels */
    int past;         /* K-1 */
    float weight[WIDTH][CHANNELS], bias[CHANNELS];
    float rows[WIDTH - 1 + ROWS][CHANNELS]; /* the past, then the rows */
};

static void load_parameters(const seqmix_conv_args *a, struct block *b)
{
    for (int j = 0; j <= b->past; j++)
        for (int64_t c = 0; c < b->n; c++)
            b->weight[j][c] =
                seqmix_load_f32(&a->weight, (b->first + c) * a->weight.stride[0] + j * a->weight.stride[1]);
    vector_load(&a->bias, b->first * a->bias.stride[0], a->bias.stride[0], b->n, 0, b->bias);
}

static void load_past(const seqmix_conv_args *a, int64_t slot, struct block *b)
{
    for (int j = 0; j < b->past; j++)
        for (int64_t c = 0; c < b->n; c++)
            b->rows[j][c] =
                slot < 0 ? 0
                         : seqmix_load_f32(&a->state, slot * a->state.stride[0] + (b->first + c) * a->state.stride[1] +
                                                          j * a->state.stride[2]);
}

/* Stores the K-1 rows of the buffer from row `from` on. */
static void store_past(const seqmix_conv_args *a, int64_t slot, const struct block *b, int64_t from)
{
    if (slot < 0) return;
    for (int64_t c = 0; c < b->n; c++)
        for (int j = 0; j < b->past; j++)
            seqmix_store_f32(&a->state,
                             slot * a->state.stride[0] + (b->first + c) * a->state.stride[1] + j * a->state.stride[2],
                             b->rows[from + j][c]);
}

static inline __attribute__((always_inline)) void conv_row(const seqmix_conv_args *a, const struct block *b, int width,
                                                           bool silu, int64_t row, int64_t out)
{
    for (int64_t c = 0; c < b->n; c += V_LANES) {
        vf sum = v_load(b->bias + c);
        for (int j = 0; j < width; j++)
            sum = v_fma(v_load(b->weight[j] + c), v_load(b->rows[row + j] + c), sum);
        row_put_lanes(&a->y, out + c, silu ? v_silu(sum) : sum, lanes_left(b->n, c));
    }
}

static void conv_task(void *arg, int64_t task, int32_t worker)
{
    const struct conv *conv = arg;
    const seqmix_conv_args *a = conv->args;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / conv->blocks));
    const bool silu = a->activation == SEQMIX_ACT_SILU;
    struct block b;
    int32_t checkpoint = seq.ckpt_begin;
    (void)worker;
    b.first = task % conv->blocks * CHANNELS;
    b.n = a->x.shape[1] - b.first < CHANNELS ? a->x.shape[1] - b.first : CHANNELS;
    b.past = (int)a->weight.shape[1] - 1;
    load_parameters(a, &b);
    load_past(a, seq.read_slot, &b);

    for (int64_t begin = seq.begin; begin < seq.end; begin += ROWS) {
        const int64_t n_rows = seq.end - begin < ROWS ? seq.end - begin : ROWS;
        for (int64_t i = 0; i < n_rows; i++) {
            if (begin + i + ROWS < seq.end) {
                row_prefetch(&a->x, (begin + i + ROWS) * a->x.stride[0] + b.first, b.n);
                row_prefetch(&a->y, (begin + i + ROWS) * a->y.stride[0] + b.first, b.n);
            }
            row_load(&a->x, (begin + i) * a->x.stride[0] + b.first, b.n, b.rows[b.past + i]);
        }
        for (int64_t i = 0; i < n_rows; i++) {
            const int64_t out = (begin + i) * a->y.stride[0] + b.first;
            if (b.past == 3 && silu)
                conv_row(a, &b, 4, true, i, out);
            else
                conv_row(a, &b, b.past + 1, silu, i, out);
        }
        for (; checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - seq.begin; checkpoint++)
            store_past(a, a->batch->ckpt_slot[checkpoint], &b, a->batch->ckpt_row[checkpoint] - (begin - seq.begin));
        memmove(b.rows[0], b.rows[n_rows], (size_t)b.past * sizeof b.rows[0]);
    }
    store_past(a, seq.write_slot, &b, 0);
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
    struct conv conv = {args, (args->x.shape[1] + CHANNELS - 1) / CHANNELS};
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * conv.blocks, conv_task, &conv);
}

seqmix_status KERN(short_conv_step)(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    return KERN(short_conv_rows)(ctx, args, workspace);
}
