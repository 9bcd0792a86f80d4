/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule (arXiv:2412.06464), per value head, S is [DK, DV]:
 *   S <- exp(g)*S (per channel of DK for KDA);  u = beta*(v - S^T k);  S <- S + k (outer) u;  o = scale * S^T q
 * Task: one value head of one sequence. Up to 16 rows are prepared at a time and 16 of the DV columns carried through them, so
 * that a step needs no memory; longer calls carry the state in the workspace.
 */
#include "deltanet_gate.h"

struct delta {
    const seqmix_deltanet_args *args;
    real *carry; /* [worker][lane block][DK][REF_LANES], for sequences of more than REF_ROWS rows */
    int64_t carry_size;
};

/* A few rows of one head, ready for the recurrence. */
struct delta_rows {
    int32_t n;
    real beta[REF_ROWS];
    real q[REF_ROWS][REF_MAX_DIM], k[REF_ROWS][REF_MAX_DIM], decay[REF_ROWS][REF_MAX_DIM];
};

static void prepare_rows(const seqmix_deltanet_args *a, int64_t begin, int32_t n_rows, int64_t h,
                         struct delta_rows *rows)
{
    const int64_t dim = a->k.shape[2], key_head = ref_key_head(a, h);
    const bool per_channel = a->gate.rank == 3;
    rows->n = n_rows;
    for (int32_t r = 0; r < n_rows; r++) {
        const int64_t t = begin + r;
        rows->beta[r] = ref_beta(a, t, h);
        ref_load_key(a, &a->q, t, key_head, rows->q[r]);
        ref_load_key(a, &a->k, t, key_head, rows->k[r]);
        for (int64_t d = 0; d < dim; d++)
            rows->decay[r][d] = d == 0 || per_channel ? ref_gate_decay(a, t, h, d) : rows->decay[r][0];
    }
}

/* One row of the recurrence on the lanes of one block; v in, S^T q out. */
static void delta_row(const struct delta_rows *rows, int32_t r, int64_t dim, const real *v, real *s, real *o)
{
    const real *q = rows->q[r], *k = rows->k[r], *decay = rows->decay[r];
    real seen[REF_LANES] = {0}, u[REF_LANES];
    for (int64_t d = 0; d < dim; d++)
        for (int l = 0; l < REF_LANES; l++) {
            s[d * REF_LANES + l] *= decay[d];
            seen[l] += s[d * REF_LANES + l] * k[d];
        }
    for (int l = 0; l < REF_LANES; l++) {
        u[l] = rows->beta[r] * (v[l] - seen[l]);
        o[l] = 0;
    }
    for (int64_t d = 0; d < dim; d++)
        for (int l = 0; l < REF_LANES; l++) {
            s[d * REF_LANES + l] += k[d] * u[l];
            o[l] += s[d * REF_LANES + l] * q[d];
        }
}

/* The recurrence over prepared rows, starting at row `begin`, on the lanes of one block. */
static void run_block(const seqmix_deltanet_args *a, const struct seqmix_seq *seq, int64_t begin,
                      const struct delta_rows *rows, const struct ref_block *block, int32_t checkpoint, real *s)
{
    const real scale = ref_scale(a);
    for (int32_t r = 0; r < rows->n; r++) {
        const int64_t t = begin + r;
        real v[REF_LANES] = {0}, o[REF_LANES];
        for (int32_t l = 0; l < block->n_lanes; l++)
            v[l] = ref_get(&a->v, t * a->v.stride[0] + block->head * a->v.stride[1] + block->first_lane + l);
        delta_row(rows, r, block->n_inner, v, s, o);
        for (int32_t l = 0; l < block->n_lanes; l++)
            ref_put(&a->o, t * a->o.stride[0] + block->head * a->o.stride[1] + block->first_lane + l, scale * o[l]);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + 1 - seq->begin; checkpoint++)
            REF(store_block)(block, a->batch->ckpt_slot[checkpoint], s);
    }
}

static void delta_task(void *arg, int64_t task, int32_t worker)
{
    const struct delta *delta = arg;
    const seqmix_deltanet_args *a = delta->args;
    const int64_t heads = a->v.shape[1], key_dim = a->k.shape[2], value_dim = a->v.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->v.shape[0], &a->state, (int32_t)(task / heads));
    struct delta_rows rows;
    real local[REF_MAX_DIM * REF_LANES];
    int32_t checkpoint = seq.ckpt_begin;

    for (int64_t begin = seq.begin; begin < seq.end; begin += rows.n) {
        const bool first = begin == seq.begin, last = seq.end - begin <= REF_ROWS;
        prepare_rows(a, begin, last ? (int32_t)(seq.end - begin) : REF_ROWS, h, &rows);
        for (int64_t lane = 0; lane < value_dim; lane += REF_LANES) {
            const int32_t n_lanes = (int32_t)(value_dim - lane < REF_LANES ? value_dim - lane : REF_LANES);
            const struct ref_block block = {&a->state, h, 2, 3, key_dim, lane, n_lanes};
            real *s = first && last ? local : delta->carry + worker * delta->carry_size + lane * key_dim;
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
static int64_t carry_size(const seqmix_deltanet_args *a)
{
    return (a->v.shape[2] + REF_LANES - 1) / REF_LANES * REF_LANES * a->k.shape[2];
}

static real *layout(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, struct seqmix_cursor *cursor)
{
    if (a->batch->max_rows <= REF_ROWS) return NULL;
    return seqmix_take(cursor, (size_t)ctx->n_workers * (size_t)carry_size(a) * sizeof(real));
}

seqmix_status REF(deltanet_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                               struct seqmix_plan *plan)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(ctx, args, &cursor);
    return ref_plan(plan, REF_RUNG "/deltanet", cursor.used);
}

seqmix_status REF(deltanet_step_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                      struct seqmix_plan *plan)
{
    return REF(deltanet_chunk_forward_plan)(ctx, args, plan);
}

seqmix_status REF(deltanet_chunk_forward)(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    struct seqmix_cursor cursor = {workspace, 0};
    struct delta delta = {args, layout(ctx, args, &cursor), carry_size(args)};
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->v.shape[1], delta_task, &delta);
}

seqmix_status REF(deltanet_step)(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    return REF(deltanet_chunk_forward)(ctx, args, workspace);
}
