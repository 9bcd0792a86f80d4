/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan over the few rows of a step, bound by reading and writing the state once: the N states of a channel
 * are on the lanes, fastest where they are contiguous in an f32 pool: then they go from slot to slot without a stop. Task: a
 * block of channels, of one group, of one sequence.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

enum { CHANNELS = TUNE_SCAN_CHANNELS, ROWS = SEQMIX_STEP_ROWS, STATES = 256 };

struct step {
    const seqmix_scan_args *args;
    int64_t group_channels, group_blocks; /* channels of a group, and its blocks */
};

/* The rows of a block of channels. */
struct block {
    int64_t first, n; /* channels */
    int rows;
    float slope[ROWS][CHANNELS], dx[ROWS][CHANNELS], y[ROWS][CHANNELS]; /* d*log2(e), d*x */
    float B[ROWS][STATES], C[ROWS][STATES];
    float part[ROWS][V_LANES][V_LANES]; /* what is left to be summed of the channels at hand */
};

/* Step sizes and inputs of row r for so many vectors from channel c of the block on. */
static inline __attribute__((always_inline)) void load_lanes(const seqmix_scan_args *a, struct block *b, int64_t t,
                                                             int r, int64_t c, const float *bias, int vectors)
{
    vf delta[V_TOGETHER];
    for (int v = 0; v < vectors; v++) {
        const int64_t at = c + v * V_LANES;
        delta[v] =
            v_add(row_lanes(&a->dt, t * a->dt.stride[0] + b->first + at, lanes_left(b->n, at)), v_load(bias + at));
    }
    if (a->dt_softplus) v_softplus_each(delta, vectors);
    for (int v = 0; v < vectors; v++) {
        const int64_t at = c + v * V_LANES, x = t * a->x.stride[0] + b->first + at;
        v_store(b->slope[r] + at, v_mul(delta[v], v_set1(V_LOG2E)));
        v_store(b->dx[r] + at, v_mul(delta[v], row_lanes(&a->x, x, lanes_left(b->n, at))));
    }
}

static void load_rows(const seqmix_scan_args *a, const struct seqmix_seq *seq, int64_t group, struct block *b)
{
    const int64_t states = a->A.shape[1];
    float bias[CHANNELS] = {0};
    vector_load(&a->dt_bias, b->first * a->dt_bias.stride[0], a->dt_bias.stride[0], b->n, 0, bias);
    b->rows = (int)(seq->end - seq->begin);
    for (int r = 0; r < b->rows; r++) {
        const int64_t t = seq->begin + r;
        row_load(&a->B, t * a->B.stride[0] + group * a->B.stride[1], states, b->B[r]);
        row_load(&a->C, t * a->C.stride[0] + group * a->C.stride[1], states, b->C[r]);
        int64_t c = 0;
        for (; c + V_TOGETHER * V_LANES <= b->n; c += V_TOGETHER * V_LANES)
            load_lanes(a, b, t, r, c, bias, V_TOGETHER);
        for (; c < b->n; c += V_LANES)
            load_lanes(a, b, t, r, c, bias, 1);
    }
}

/* So many vectors of a channel's states from `from` to `to`; returns y + C.next. */
static inline __attribute__((always_inline)) vf step_lanes(vf slope, vf dx, const float *rate, const float *B,
                                                           const float *C, const float *from, float *to, vf y, int n)
{
    vf A[V_TOGETHER], next[V_TOGETHER];
    for (int i = 0; i < n; i++)
        A[i] = v_load(rate + i * V_LANES);
    v_exp2_product_neg_each(slope, A, next, n);
    for (int i = 0; i < n; i++) {
        next[i] = v_fma(next[i], v_load(from + i * V_LANES), v_mul(dx, v_load(B + i * V_LANES)));
        v_store(to + i * V_LANES, next[i]);
        y = v_fma(v_load(C + i * V_LANES), next[i], y);
    }
    return y;
}

/* Row r of channel c of the block, its states read at `from` and written at `to`; leaves y as a vector to be summed. */
static inline __attribute__((always_inline)) void step_row(struct block *b, int r, int64_t c, int64_t states,
                                                           const float *rate, const float *from, float *to)
{
    const vf slope = v_set1(b->slope[r][c]), dx = v_set1(b->dx[r][c]);
    const float *B = b->B[r], *C = b->C[r];
    vf y = v_zero();
    int64_t s = 0;
    for (; s + 2 * V_LANES <= states; s += 2 * V_LANES)
        y = step_lanes(slope, dx, rate + s, B + s, C + s, from + s, to + s, y, 2);
    for (; s + V_LANES <= states; s += V_LANES)
        y = step_lanes(slope, dx, rate + s, B + s, C + s, from + s, to + s, y, 1);
    if (s < states) {
        const int n = (int)(states - s);
        const vf decay = v_exp2_product_neg(slope, v_load_n(rate + s, n));
        const vf next = v_fma(decay, v_load_n(from + s, n), v_mul(dx, v_load_n(B + s, n)));
        v_store_n(to + s, next, n);
        y = v_fma(v_load_n(C + s, n), next, y);
    }
    v_store(b->part[r][c % V_LANES], y);
}

/* Whether channel c is the last of its V_LANES. */
static bool ends_lanes(const struct block *b, int64_t c)
{
    return c % V_LANES == V_LANES - 1 || c == b->n - 1;
}

/* y of row r for those up to and including c. */
static void sum_parts(struct block *b, int r, int64_t c)
{
    float lanes[V_LANES * V_LANES];
    vf sum[V_LANES];
    v_transpose(b->part[r][0], V_LANES, lanes, V_LANES);
    for (int i = 0; i < V_LANES; i++)
        sum[i] = v_load(lanes + i * V_LANES);
    for (int half = V_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sum[i] = v_add(sum[i], sum[i + half]);
    v_store(b->y[r] + c / V_LANES * V_LANES, sum[0]);
}

static void finish_row(const seqmix_scan_args *a, const struct block *b, int64_t t, int r)
{
    float skip[CHANNELS] = {0};
    vector_load(&a->skip, b->first * a->skip.stride[0], a->skip.stride[0], b->n, 0, skip);
    for (int64_t c = 0; c < b->n; c += V_LANES) {
        const int n = lanes_left(b->n, c);
        const int64_t channel = b->first + c;
        vf y = v_load_n(b->y[r] + c, n);
        if (seqmix_present(&a->skip)) y = v_fma(v_load(skip + c), row_lanes(&a->x, t * a->x.stride[0] + channel, n), y);
        if (seqmix_present(&a->z)) y = v_mul(y, v_silu(row_lanes(&a->z, t * a->z.stride[0] + channel, n)));
        row_put_lanes(&a->y, t * a->y.stride[0] + channel, y, n);
    }
}

static void store_state(const seqmix_scan_args *a, int64_t slot, int64_t channel, const float *h)
{
    const seqmix_tensor *pool = &a->state;
    if (slot >= 0)
        vector_store(pool, slot * pool->stride[0] + channel * pool->stride[1], pool->stride[2], a->A.shape[1], h);
}

/* Whether the states of a channel can be worked on where they lie; there may be none. */
static bool works_in_place(const seqmix_tensor *pool, const struct seqmix_seq *seq)
{
    return pool->data != NULL && pool->dtype == SEQMIX_F32 && pool->stride[2] == 1 && seq->end > seq->begin &&
           seq->read_slot >= 0 && seq->write_slot >= 0;
}

/* All rows of the call over channel c of the block. */
static void step_channel(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b, int64_t c,
                         bool in_place)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t states = a->A.shape[1], channel = b->first + c, at = channel * pool->stride[1];
    const int64_t read = seq->read_slot * pool->stride[0] + at, write = seq->write_slot * pool->stride[0] + at;
    float staged[STATES], staged_rate[STATES];
    const float *rate = staged_rate, *from = in_place ? (const float *)pool->data + read : staged;
    float *to = in_place ? (float *)pool->data + write : staged;
    int32_t checkpoint = seq->ckpt_begin;
    if (a->A.stride[1] == 1)
        rate = row_f32(&a->A, channel * a->A.stride[0], states, staged_rate);
    else
        vector_load(&a->A, channel * a->A.stride[0], a->A.stride[1], states, 0, staged_rate);
    if (!in_place && seq->read_slot >= 0)
        vector_load(pool, read, pool->stride[2], states, 0, staged);
    else if (!in_place)
        memset(staged, 0, sizeof staged);
    for (int r = 0; r < b->rows; r++, from = to) {
        if (states == TUNE_SCAN_UNROLLED)
            step_row(b, r, c, TUNE_SCAN_UNROLLED, rate, from, to);
        else
            step_row(b, r, c, states, rate, from, to);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
            store_state(a, a->batch->ckpt_slot[checkpoint], channel, to);
    }
    if (!in_place) store_state(a, seq->write_slot, channel, to);
}

static void step_any(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b)
{
    const bool in_place = works_in_place(&a->state, seq);
    for (int64_t c = 0; c < b->n; c++) {
        step_channel(a, seq, b, c, in_place);
        for (int r = 0; r < b->rows && ends_lanes(b, c); r++)
            sum_parts(b, r, c);
    }
}

static bool is_usual(const seqmix_scan_args *a, const struct seqmix_seq *seq)
{
    return seq->end == seq->begin + 1 && seq->ckpt_begin == seq->ckpt_end && works_in_place(&a->state, seq) &&
           a->A.dtype == SEQMIX_F32 && a->A.stride[1] == 1 && a->A.shape[1] == TUNE_SCAN_UNROLLED;
}

/* One row without checkpoints, over states that lie as they do in every published Mamba-1: the same, without a question. */
static void step_usual(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b)
{
    const seqmix_tensor *pool = &a->state;
    const float *rate = (const float *)a->A.data + b->first * a->A.stride[0];
    const float *from = (const float *)pool->data + seq->read_slot * pool->stride[0] + b->first * pool->stride[1];
    float *to = (float *)pool->data + seq->write_slot * pool->stride[0] + b->first * pool->stride[1];
    for (int64_t c = 0; c < b->n; c++) {
        step_row(b, 0, c, TUNE_SCAN_UNROLLED, rate, from, to);
        if (ends_lanes(b, c)) sum_parts(b, 0, c);
        rate += a->A.stride[0];
        from += pool->stride[1];
        to += pool->stride[1];
    }
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const struct step *step = arg;
    const seqmix_scan_args *a = step->args;
    const int64_t blocks = step->group_blocks * a->B.shape[1], block_index = task % blocks;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / blocks));
    const int64_t group = block_index / step->group_blocks, in_group = block_index % step->group_blocks * CHANNELS;
    const int64_t left = step->group_channels - in_group;
    struct block b;
    (void)worker;
    b.first = group * step->group_channels + in_group;
    b.n = left < CHANNELS ? left : CHANNELS;
    memset(b.part, 0, sizeof b.part); /* a channel's place past the last one is summed too */
    load_rows(a, &seq, group, &b);
    if (is_usual(a, &seq))
        step_usual(a, &seq, &b);
    else
        step_any(a, &seq, &b);
    for (int r = 0; r < b.rows; r++)
        finish_row(a, &b, seq.begin + r, r);
}

seqmix_status KERN(selective_scan_step_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                             struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("selective_scan_step");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(selective_scan_step)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct step step = {.args = args};
    (void)workspace;
    if (args->x.shape[1] == 0) return SEQMIX_OK;
    step.group_channels = args->x.shape[1] / args->B.shape[1];
    step.group_blocks = (step.group_channels + CHANNELS - 1) / CHANNELS;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * step.group_blocks * args->B.shape[1], step_task, &step);
}
