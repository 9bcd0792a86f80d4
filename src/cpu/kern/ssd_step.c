/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over the few rows of a step, bound by reading and writing the state once. The N states of a state row are
 * on the lanes, fastest where they are contiguous in an f32 pool: then they go from slot to slot without a stop. Task: one
 * head of one sequence.
 */
#include "isa.h"
#include "parallel.h"
#include "ssd_row.h"
#include "tune.h"

enum { ROWS = SEQMIX_STEP_ROWS };

/* The rows of one head of one sequence. */
struct rows {
    int n;
    float delta[ROWS], decay[ROWS];
    float B[ROWS][SSD_DIM], C[ROWS][SSD_DIM];
    float x[ROWS][SSD_DIM], y[ROWS][SSD_DIM];
};

static void load_rows(const seqmix_ssd_args *a, const struct seqmix_seq *seq, int64_t h, struct rows *rows)
{
    const int64_t states = a->B.shape[2], group = h / (a->x.shape[1] / a->B.shape[1]);
    rows->n = (int)(seq->end - seq->begin);
    for (int r = 0; r < rows->n; r++) {
        const int64_t t = seq->begin + r;
        rows->delta[r] = ssd_step_size(a, t, h, &rows->decay[r]);
        row_load(&a->B, t * a->B.stride[0] + group * a->B.stride[1], states, rows->B[r]);
        row_load(&a->C, t * a->C.stride[0] + group * a->C.stride[1], states, rows->C[r]);
        row_load(&a->x, t * a->x.stride[0] + h * a->x.stride[1], a->x.shape[2], rows->x[r]);
    }
}

/* V_LANES states of one row of the state: the next ones, and what they add to y. */
static inline vf step_lanes(vf decay, vf dx, const float *B, const float *C, const float *from, float *to, vf y)
{
    const vf next = v_fma(dx, v_load(B), v_mul(decay, v_load(from)));
    v_store(to, next);
    return v_fma(v_load(C), next, y);
}

/* Row r over one row of the state, read at `from` and written at `to`. Two sums, since one would wait for itself. */
static void step_row(struct rows *rows, int r, int64_t p, int64_t states, const float *from, float *to)
{
    const vf decay = v_set1(rows->decay[r]), dx = v_set1(rows->delta[r] * rows->x[r][p]);
    const float *B = rows->B[r], *C = rows->C[r];
    vf y[2] = {v_zero(), v_zero()};
    int64_t n = 0;
    for (; n + 2 * V_LANES <= states; n += 2 * V_LANES) {
        y[0] = step_lanes(decay, dx, B + n, C + n, from + n, to + n, y[0]);
        y[1] = step_lanes(decay, dx, B + n + V_LANES, C + n + V_LANES, from + n + V_LANES, to + n + V_LANES, y[1]);
    }
    for (int i = 0; n < states; n += V_LANES, i++) {
        const int lanes = lanes_left(states, n);
        const vf next = v_fma(dx, v_load_n(B + n, lanes), v_mul(decay, v_load_n(from + n, lanes)));
        v_store_n(to + n, next, lanes);
        y[i] = v_fma(v_load_n(C + n, lanes), next, y[i]);
    }
    rows->y[r][p] = v_sum(v_add(y[0], y[1]));
}

static void store_state(const seqmix_ssd_args *a, int64_t slot, int64_t h, int64_t p, const float *s)
{
    const seqmix_tensor *pool = &a->state;
    if (slot >= 0)
        vector_store(pool, slot * pool->stride[0] + h * pool->stride[1] + p * pool->stride[2], pool->stride[3],
                     a->B.shape[2], s);
}

/* Whether the states of a row of the state can be worked on where they lie; there may be none. */
static bool works_in_place(const seqmix_tensor *pool, const struct seqmix_seq *seq)
{
    return pool->data != NULL && pool->dtype == SEQMIX_F32 && pool->stride[3] == 1 && seq->end > seq->begin &&
           seq->read_slot >= 0 && seq->write_slot >= 0;
}

/* All rows of the call over row p of the state. */
static void step_state_row(const seqmix_ssd_args *a, const struct seqmix_seq *seq, int64_t h, int64_t p, bool in_place,
                           struct rows *rows)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t states = a->B.shape[2], at = h * pool->stride[1] + p * pool->stride[2];
    const int64_t read = seq->read_slot * pool->stride[0] + at, write = seq->write_slot * pool->stride[0] + at;
    float staged[SSD_DIM];
    const float *from = in_place ? (const float *)pool->data + read : staged;
    float *to = in_place ? (float *)pool->data + write : staged;
    int32_t checkpoint = seq->ckpt_begin;
    if (in_place)
        row_prefetch(pool, read + TUNE_STEP_AHEAD * pool->stride[2], states);
    else if (seq->read_slot >= 0)
        vector_load(pool, read, pool->stride[3], states, 0, staged);
    else
        memset(staged, 0, sizeof staged);
    for (int r = 0; r < rows->n; r++, from = to) {
        step_row(rows, r, p, states, from, to);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
            store_state(a, a->batch->ckpt_slot[checkpoint], h, p, to);
    }
    if (!in_place) store_state(a, seq->write_slot, h, p, to);
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const seqmix_ssd_args *a = arg;
    const int64_t heads = a->x.shape[1], dim = a->x.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / heads));
    const bool in_place = works_in_place(&a->state, &seq);
    struct rows rows;
    (void)worker;
    load_rows(a, &seq, h, &rows);
    for (int64_t p = 0; p < dim; p++)
        step_state_row(a, &seq, h, p, in_place, &rows);
    for (int r = 0; r < rows.n; r++)
        for (int64_t p = 0; p < dim; p += V_LANES) {
            const int n = lanes_left(dim, p);
            ssd_finish(a, seq.begin + r, h, p, v_load_n(rows.x[r] + p, n), v_load_n(rows.y[r] + p, n), n);
        }
}

seqmix_status KERN(ssd_step_plan)(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                  struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("ssd_step");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(ssd_step)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    seqmix_ssd_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->x.shape[1], step_task, &copy);
}
