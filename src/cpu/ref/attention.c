/* SPDX-License-Identifier: MIT */
/*
 * Causal attention over a paged cache: the rows' k and v are stored, then y = softmax(scale * q.K) V over positions 0..p, the
 * softmax in two passes, the greatest score first. Tasks: a row to store; a query head of a sequence. Sums are taken in
 * pieces of PIECE keys, so that long ones lose little.
 */
#include "ref.h"

enum { PIECE = 64 };

struct query {
    const seqmix_attention_args *args;
    const int32_t *pages; /* of the sequence */
    int64_t key_head;
    real q[REF_MAX_DIM], sum[REF_MAX_DIM], piece[REF_MAX_DIM];
};

/* Element 0 of position j's row in a pool. */
static int64_t cached(const seqmix_tensor *pool, const int32_t *pages, int64_t j, int64_t head)
{
    return pages[j / pool->shape[1]] * pool->stride[0] + j % pool->shape[1] * pool->stride[1] + head * pool->stride[2];
}

static real score(const struct query *query, int64_t j, real scale)
{
    const seqmix_tensor *k = &query->args->k_pages;
    const int64_t at = cached(k, query->pages, j, query->key_head), channels = k->shape[3];
    real key[REF_MAX_DIM];
    for (int64_t d = 0; d < channels; d++)
        key[d] = ref_get(k, at + d);
    return scale * ref_dot(query->q, key, channels);
}

/* The row at position p with its query in place; leaves sum = V weighted, returns the weights' sum. */
static real attend(struct query *query, int64_t p, real scale)
{
    const seqmix_tensor *v = &query->args->v_pages;
    const int64_t channels = v->shape[3];
    real top = score(query, 0, scale), total = 0;
    for (int64_t j = 1; j <= p; j++) {
        const real s = score(query, j, scale);
        top = s > top ? s : top;
    }
    memset(query->sum, 0, sizeof query->sum);
    for (int64_t first = 0; first <= p; first += PIECE) {
        real weights = 0;
        memset(query->piece, 0, sizeof query->piece);
        for (int64_t j = first; j <= p && j < first + PIECE; j++) {
            const real w = ref_exp(score(query, j, scale) - top);
            const int64_t at = cached(v, query->pages, j, query->key_head);
            weights += w;
            for (int64_t d = 0; d < channels; d++)
                query->piece[d] += w * ref_get(v, at + d);
        }
        total += weights;
        for (int64_t d = 0; d < channels; d++)
            query->sum[d] += query->piece[d];
    }
    return total;
}

static void attention_task(void *arg, int64_t task, int32_t worker)
{
    static const seqmix_tensor no_pool = {0};
    const seqmix_attention_args *a = arg;
    const int64_t heads = a->q.shape[1], channels = a->q.shape[2], s = task / heads, h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->q.shape[0], &no_pool, (int32_t)s);
    const real scale = a->scale != 0 ? (real)a->scale : 1 / REF_MATH(sqrt)((real)channels);
    struct query query = {
        .args = a, .pages = a->page_table + s * a->max_pages, .key_head = h / (heads / a->k.shape[1])};
    (void)worker;
    for (int64_t r = seq.begin; r < seq.end; r++) {
        const int64_t q = r * a->q.stride[0] + h * a->q.stride[1], y = r * a->y.stride[0] + h * a->y.stride[1];
        const int64_t gate = r * a->gate.stride[0] + h * a->gate.stride[1];
        for (int64_t d = 0; d < channels; d++)
            query.q[d] = ref_get(&a->q, q + d);
        const real total = attend(&query, a->start[s] + r - seq.begin, scale);
        for (int64_t d = 0; d < channels; d++) {
            const real open = seqmix_present(&a->gate) ? ref_sigmoid(ref_get(&a->gate, gate + d)) : 1;
            ref_put(&a->y, y + d, query.sum[d] / total * open);
        }
    }
}

static void store_row(const seqmix_attention_args *a, const seqmix_tensor *rows, const seqmix_tensor *pool, int64_t r,
                      int64_t s, int64_t p)
{
    const int32_t *pages = a->page_table + s * a->max_pages;
    for (int64_t h = 0; h < rows->shape[1]; h++)
        for (int64_t d = 0; d < rows->shape[2]; d++)
            ref_put(pool, cached(pool, pages, p, h) + d, ref_get(rows, r * rows->stride[0] + h * rows->stride[1] + d));
}

static void store_task(void *arg, int64_t s, int32_t worker)
{
    static const seqmix_tensor no_pool = {0};
    const seqmix_attention_args *a = arg;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->q.shape[0], &no_pool, (int32_t)s);
    (void)worker;
    for (int64_t r = seq.begin; r < seq.end; r++) {
        store_row(a, &a->k, &a->k_pages, r, s, a->start[s] + r - seq.begin);
        store_row(a, &a->v, &a->v_pages, r, s, a->start[s] + r - seq.begin);
    }
}

seqmix_status REF(attention_rows_plan)(const struct seqmix_context *ctx, const seqmix_attention_args *args,
                                       struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/attention", 0);
}

seqmix_status REF(attention_rows)(struct seqmix_context *ctx, const seqmix_attention_args *args, void *workspace)
{
    seqmix_attention_args copy = *args;
    (void)workspace;
    const seqmix_status status = seqmix_parallel_for(ctx, args->batch->n_seqs, store_task, &copy);
    if (status != SEQMIX_OK) return status;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->q.shape[1], attention_task, &copy);
}
