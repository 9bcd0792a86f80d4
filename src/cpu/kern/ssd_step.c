/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over the few rows of a step, bound by reading and writing the state once. The N states of a state row are
 * on the lanes, fastest where they are contiguous in the pool. Task: one head of one sequence.
 */
#include "isa.h"
#include "parallel.h"
#include "ssd_row.h"

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

static void store_state(const seqmix_ssd_args *a, int64_t slot, int64_t h, int64_t p, const float *s)
{
    if (slot < 0) return;
    vector_store(&a->state, slot * a->state.stride[0] + h * a->state.stride[1] + p * a->state.stride[2],
                 a->state.stride[3], a->B.shape[2], s);
}

/* All rows of one state row p. */
static void step_state_row(const seqmix_ssd_args *a, const struct seqmix_seq *seq, int64_t h, int64_t p,
                           struct rows *rows)
{
    const int64_t states = a->B.shape[2];
    const int64_t offset = seq->read_slot * a->state.stride[0] + h * a->state.stride[1] + p * a->state.stride[2];
    float s[SSD_DIM] = {0};
    int32_t checkpoint = seq->ckpt_begin;
    if (seq->read_slot >= 0) vector_load(&a->state, offset, a->state.stride[3], states, 0, s);
    for (int r = 0; r < rows->n; r++) {
        const vf decay = v_set1(rows->decay[r]), dx = v_set1(rows->delta[r] * rows->x[r][p]);
        vf y = v_zero();
        for (int64_t n = 0; n < states; n += V_LANES) {
            const int lanes = lanes_left(states, n);
            const vf next = v_fma(dx, v_load_n(rows->B[r] + n, lanes), v_mul(decay, v_load(s + n)));
            v_store(s + n, next);
            y = v_fma(v_load_n(rows->C[r] + n, lanes), next, y);
        }
        rows->y[r][p] = v_sum(y);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
            store_state(a, a->batch->ckpt_slot[checkpoint], h, p, s);
    }
    store_state(a, seq->write_slot, h, p, s);
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const seqmix_ssd_args *a = arg;
    const int64_t heads = a->x.shape[1], dim = a->x.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / heads));
    struct rows rows;
    (void)worker;
    load_rows(a, &seq, h, &rows);
    for (int64_t p = 0; p < dim; p++)
        step_state_row(a, &seq, h, p, &rows);
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
