/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD (arXiv:2405.21060): d = clamp(softplus(dt + dt_bias)); per head
 *   S <- exp(d*A)*S + d * x (outer) B;   y = S*C + skip*x, then *silu(z)
 * S is [P, N]; head h uses group h/(H/G). Task: one head of one sequence. Up to 16 rows are prepared at a time and 16 of the P
 * state rows carried through them, so that a step needs no memory; longer calls carry the state in the workspace.
 */
#include "ssd_row.h"

struct ssd {
    const seqmix_ssd_args *args;
    real *carry; /* [worker][lane block][N][REF_LANES], for sequences of more than REF_ROWS rows */
    int64_t carry_size;
};

/* A few rows of one head, ready for the recurrence. */
struct ssd_rows {
    int32_t n;
    real delta[REF_ROWS], decay[REF_ROWS];
    real B[REF_ROWS][REF_MAX_DIM], C[REF_ROWS][REF_MAX_DIM];
};

static void prepare_rows(const seqmix_ssd_args *a, int64_t begin, int32_t n_rows, int64_t h, struct ssd_rows *rows)
{
    const int64_t states = a->B.shape[2], group = h / (a->x.shape[1] / a->B.shape[1]);
    const real rate = ref_get(&a->A, h * a->A.stride[0]);
    rows->n = n_rows;
    for (int32_t r = 0; r < n_rows; r++) {
        const int64_t t = begin + r;
        rows->delta[r] = ref_step_size(a, t, h);
        rows->decay[r] = ref_decay(rows->delta[r] * rate);
        for (int64_t n = 0; n < states; n++) {
            rows->B[r][n] = ref_get(&a->B, t * a->B.stride[0] + group * a->B.stride[1] + n);
            rows->C[r][n] = ref_get(&a->C, t * a->C.stride[0] + group * a->C.stride[1] + n);
        }
    }
}

/* The recurrence over prepared rows, starting at row `begin`, on the lanes of one block. */
static void run_block(const seqmix_ssd_args *a, const struct seqmix_seq *seq, int64_t begin,
                      const struct ssd_rows *rows, const struct ref_block *block, int32_t checkpoint, real *s)
{
    for (int32_t r = 0; r < rows->n; r++) {
        const int64_t t = begin + r;
        real x[REF_LANES] = {0}, dx[REF_LANES], y[REF_LANES] = {0};
        for (int32_t l = 0; l < block->n_lanes; l++)
            x[l] = ref_get(&a->x, t * a->x.stride[0] + block->head * a->x.stride[1] + block->first_lane + l);
        for (int l = 0; l < REF_LANES; l++)
            dx[l] = rows->delta[r] * x[l];
        for (int64_t n = 0; n < block->n_inner; n++)
            for (int l = 0; l < REF_LANES; l++) {
                s[n * REF_LANES + l] = rows->decay[r] * s[n * REF_LANES + l] + dx[l] * rows->B[r][n];
                y[l] += s[n * REF_LANES + l] * rows->C[r][n];
            }
        for (int32_t l = 0; l < block->n_lanes; l++)
            ref_ssd_finish(a, t, block->head, block->first_lane + l, x[l], y[l]);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + 1 - seq->begin; checkpoint++)
            REF(store_block)(block, a->batch->ckpt_slot[checkpoint], s);
    }
}

static void ssd_task(void *arg, int64_t task, int32_t worker)
{
    const struct ssd *ssd = arg;
    const seqmix_ssd_args *a = ssd->args;
    const int64_t heads = a->x.shape[1], dim = a->x.shape[2], states = a->B.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / heads));
    struct ssd_rows rows;
    real local[REF_MAX_DIM * REF_LANES];
    int32_t checkpoint = seq.ckpt_begin;

    for (int64_t begin = seq.begin; begin < seq.end; begin += rows.n) {
        const bool first = begin == seq.begin, last = seq.end - begin <= REF_ROWS;
        prepare_rows(a, begin, last ? (int32_t)(seq.end - begin) : REF_ROWS, h, &rows);
        for (int64_t lane = 0; lane < dim; lane += REF_LANES) {
            const int32_t n_lanes = (int32_t)(dim - lane < REF_LANES ? dim - lane : REF_LANES);
            const struct ref_block block = {&a->state, h, 3, 2, states, lane, n_lanes};
            real *s = first && last ? local : ssd->carry + worker * ssd->carry_size + lane * states;
            if (first) REF(load_block)(&block, seq.read_slot, s);
            run_block(a, &seq, begin, &rows, &block, checkpoint, s);
            if (last) REF(store_block)(&block, seq.write_slot, s);
        }
        while (checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + rows.n - seq.begin)
            checkpoint++;
    }
    if (seq.begin == seq.end && h == 0) REF(move_slot)(&a->state, seq.read_slot, seq.write_slot);
}

/* Elements of one worker's carried state. */
static int64_t carry_size(const seqmix_ssd_args *a)
{
    return (a->x.shape[2] + REF_LANES - 1) / REF_LANES * REF_LANES * a->B.shape[2];
}

static real *layout(const struct seqmix_context *ctx, const seqmix_ssd_args *a, struct seqmix_cursor *cursor)
{
    if (a->batch->max_rows <= REF_ROWS) return NULL;
    return seqmix_take(cursor, (size_t)ctx->n_workers * (size_t)carry_size(a) * sizeof(real));
}

seqmix_status REF(ssd_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                          struct seqmix_plan *plan)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(ctx, args, &cursor);
    return ref_plan(plan, REF_RUNG "/ssd", cursor.used);
}

seqmix_status REF(ssd_step_plan)(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                 struct seqmix_plan *plan)
{
    return REF(ssd_chunk_forward_plan)(ctx, args, plan);
}

seqmix_status REF(ssd_chunk_forward)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct seqmix_cursor cursor = {workspace, 0};
    struct ssd ssd = {args, layout(ctx, args, &cursor), carry_size(args)};
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->x.shape[1], ssd_task, &ssd);
}

seqmix_status REF(ssd_step)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    return REF(ssd_chunk_forward)(ctx, args, workspace);
}
