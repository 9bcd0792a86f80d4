/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule over the few rows of a step, bound by reading and writing the state once. Values are on the lanes; a tile
 * of columns goes through all rows before it is stored. S is read once a row for both products, since
 *   u = b*(v - S^T(c.k)),   o = scale*(S^T(c.q) + (q.k)*u),   S <- c.S + k u^T
 * Task: one value head of one sequence. Pools with keys contiguous ([V,K] storage) are turned around tile by tile.
 */
#include "deltanet_row.h"
#include "isa.h"
#include "parallel.h"
#include "state_tile.h"

enum { VECTORS = 4, TILE = VECTORS * V_LANES, ROWS = SEQMIX_STEP_ROWS };

/* The rows of one head of one sequence. */
struct rows {
    int n;
    float beta[ROWS], q_k[ROWS];
    float decay[ROWS][DELTA_DIM], k[ROWS][DELTA_DIM];
    float read_k[ROWS][DELTA_DIM], read_q[ROWS][DELTA_DIM]; /* c.k, c.q */
};

static void load_rows(const seqmix_deltanet_args *a, const struct seqmix_seq *seq, int64_t h, struct rows *rows)
{
    const int64_t dim = a->k.shape[2], key_head = delta_key_head(a, h);
    float q[DELTA_DIM];
    rows->n = (int)(seq->end - seq->begin);
    for (int r = 0; r < rows->n; r++) {
        const int64_t t = seq->begin + r;
        delta_key(a, &a->q, t, key_head, q);
        delta_key(a, &a->k, t, key_head, rows->k[r]);
        delta_decays(a, t, h, rows->decay[r]);
        rows->beta[r] = delta_beta(a, t, h);
        rows->q_k[r] = row_dot(q, rows->k[r], dim);
        for (int64_t d = 0; d < dim; d++) {
            rows->read_k[r][d] = rows->decay[r][d] * rows->k[r][d];
            rows->read_q[r][d] = rows->decay[r][d] * q[d];
        }
    }
}

static void store_columns(const seqmix_deltanet_args *a, int64_t slot, int64_t h, int64_t column, int64_t n,
                          const float *s)
{
    const seqmix_tensor *pool = &a->state;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + h * pool->stride[1] + column * pool->stride[3], pool->stride[2],
               pool->stride[3], a->k.shape[2], n, TILE, s);
}

/* One row over a tile of columns: reads, u and o, update. */
static void step_row(const seqmix_deltanet_args *a, int64_t t, int64_t h, int64_t column, int64_t n,
                     const struct rows *rows, int r, float *s)
{
    const int64_t dim = a->k.shape[2], v_row = t * a->v.stride[0] + h * a->v.stride[1] + column;
    const int64_t o_row = t * a->o.stride[0] + h * a->o.stride[1] + column;
    const float *k = rows->k[r], *decay = rows->decay[r], *read_k = rows->read_k[r], *read_q = rows->read_q[r];
    const vf scale = v_set1(delta_scale(a)), beta = v_set1(rows->beta[r]), q_k = v_set1(rows->q_k[r]);
    vf seen[VECTORS], asked[VECTORS], u[VECTORS];
    for (int i = 0; i < VECTORS; i++)
        seen[i] = asked[i] = v_zero();
    for (int64_t d = 0; d < dim; d++) {
        const vf ck = v_set1(read_k[d]), cq = v_set1(read_q[d]);
        for (int i = 0; i < VECTORS; i++) {
            const vf row = v_load(s + d * TILE + i * V_LANES);
            seen[i] = v_fma(ck, row, seen[i]);
            asked[i] = v_fma(cq, row, asked[i]);
        }
    }
    for (int i = 0; i < VECTORS; i++) {
        const int lanes = i * V_LANES < n ? lanes_left(n, i * V_LANES) : 0;
        u[i] = v_zero();
        if (lanes == 0) continue;
        u[i] = v_mul(beta, v_sub(row_lanes(&a->v, v_row + i * V_LANES, lanes), seen[i]));
        row_put_lanes(&a->o, o_row + i * V_LANES, v_mul(scale, v_fma(q_k, u[i], asked[i])), lanes);
    }
    for (int64_t d = 0; d < dim; d++) {
        const vf c = v_set1(decay[d]), key = v_set1(k[d]);
        for (int i = 0; i < VECTORS; i++) {
            float *row = s + d * TILE + i * V_LANES;
            v_store(row, v_fma(key, u[i], v_mul(c, v_load(row))));
        }
    }
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const seqmix_deltanet_args *a = arg;
    const seqmix_tensor *pool = &a->state;
    const int64_t heads = a->v.shape[1], dim = a->k.shape[2], columns = a->v.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->v.shape[0], pool, (int32_t)(task / heads));
    struct rows rows;
    float s[DELTA_DIM * TILE];
    (void)worker;
    load_rows(a, &seq, h, &rows);
    for (int64_t column = 0; column < columns; column += TILE) {
        const int64_t n = columns - column < TILE ? columns - column : TILE;
        int32_t checkpoint = seq.ckpt_begin;
        if (seq.read_slot < 0)
            memset(s, 0, (size_t)(dim * TILE) * sizeof *s);
        else
            tile_load(pool, seq.read_slot * pool->stride[0] + h * pool->stride[1] + column * pool->stride[3],
                      pool->stride[2], pool->stride[3], dim, n, TILE, s);
        for (int r = 0; r < rows.n; r++) {
            step_row(a, seq.begin + r, h, column, n, &rows, r, s);
            for (; checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
                store_columns(a, a->batch->ckpt_slot[checkpoint], h, column, n, s);
        }
        store_columns(a, seq.write_slot, h, column, n, s);
    }
}

seqmix_status KERN(deltanet_step_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                       struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("deltanet_step");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(deltanet_step)(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->v.shape[1], step_task, &copy);
}
