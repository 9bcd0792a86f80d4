/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule in chunks of C rows, plain f32 (arXiv:2406.06484, 2412.06464). g = inclusive sum of the log gates inside the
 * chunk (per channel of DK for KDA), G = exp(g):
 *   (I + A)*U = beta*(V - (K.G)*S0),  A_ij = beta_i * sum_d k_id*k_jd*exp(g_id-g_jd), j < i;  solved row by row
 *   O = scale*((Q.G)*S0 + tril(sum_d q_id*k_jd*exp(g_id-g_jd))*U);   S_C = exp(g_C)*S0 + (K.exp(g_C-g))^T*U
 * Task: one value head of one sequence. U's rows don't depend on later rows, so a checkpoint has the bits of a call ending there.
 */
#include "chunk_plain.h"
#include "deltanet_gate.h"

/* One worker's buffers: a chunk of one head. W is DK for a gate per channel, else 1. */
struct chunk {
    float *state, *aside; /* [DK][DV] */
    float *q, *k;         /* [C][DK] */
    float *u;             /* [C][DV] */
    float *beta, *o;      /* [C], [DV] */
    struct log_sum *gate; /* [C][W] */
    int64_t key_dim, value_dim, gate_dim;
};

struct delta {
    const seqmix_deltanet_args *args;
    char *workspace;
    size_t worker_size; /* bytes of it that belong to one worker */
    int64_t rows;       /* C */
};

static int64_t chunk_rows(const seqmix_deltanet_args *a)
{
    return a->chunk > 0 ? a->chunk : PLAIN_CHUNK;
}

static struct chunk layout(const seqmix_deltanet_args *a, struct seqmix_cursor *cursor)
{
    struct chunk chunk;
    chunk.key_dim = a->k.shape[2];
    chunk.value_dim = a->v.shape[2];
    chunk.gate_dim = a->gate.rank == 3 ? chunk.key_dim : 1;
    const size_t rows = (size_t)chunk_rows(a), keys = (size_t)chunk.key_dim, values = (size_t)chunk.value_dim;
    chunk.state = seqmix_take(cursor, keys * values * sizeof(float));
    chunk.aside = seqmix_take(cursor, keys * values * sizeof(float));
    chunk.q = seqmix_take(cursor, rows * keys * sizeof(float));
    chunk.k = seqmix_take(cursor, rows * keys * sizeof(float));
    chunk.u = seqmix_take(cursor, rows * values * sizeof(float));
    chunk.beta = seqmix_take(cursor, rows * sizeof(float));
    chunk.o = seqmix_take(cursor, values * sizeof(float));
    chunk.gate = seqmix_take(cursor, rows * (size_t)chunk.gate_dim * sizeof(struct log_sum));
    return chunk;
}

static float log_gate(const seqmix_deltanet_args *a, int64_t t, int64_t h, int64_t d)
{
    switch (a->gate_kind) {
    case SEQMIX_GATE_NONE:
        return 0;
    case SEQMIX_GATE_ALPHA:
        return logf(ref_alpha(a, t, h, d));
    default:
        return ref_log_gate(a, t, h, d);
    }
}

static void load_rows(const seqmix_deltanet_args *a, int64_t begin, int64_t n_rows, int64_t h,
                      const struct chunk *chunk)
{
    const struct log_sum zero = {0, 0};
    const int64_t key_head = ref_key_head(a, h);
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t t = begin + i;
        ref_load_key(a, &a->q, t, key_head, chunk->q + i * chunk->key_dim);
        ref_load_key(a, &a->k, t, key_head, chunk->k + i * chunk->key_dim);
        chunk->beta[i] = ref_beta(a, t, h);
        for (int64_t d = 0; d < chunk->gate_dim; d++) {
            const struct log_sum before = i > 0 ? chunk->gate[(i - 1) * chunk->gate_dim + d] : zero;
            chunk->gate[i * chunk->gate_dim + d] = add_log_decay(before, clean_log_decay(log_gate(a, t, h, d)));
        }
    }
}

/* sum_d x_d * k_jd * exp(g_id - g_jd). */
static float decayed_dot(const struct chunk *chunk, const float *x, int64_t i, int64_t j)
{
    const float *k = chunk->k + j * chunk->key_dim;
    const struct log_sum *to = chunk->gate + i * chunk->gate_dim, *from = chunk->gate + j * chunk->gate_dim;
    if (chunk->gate_dim == 1) return ref_dot(x, k, chunk->key_dim) * decay_between(*from, *to);
    float decayed[REF_MAX_DIM];
    for (int64_t d = 0; d < chunk->key_dim; d++)
        decayed[d] = k[d] * decay_between(from[d], to[d]);
    return ref_dot(x, decayed, chunk->key_dim);
}

/* out[dv] = sum_d x_d * exp(g_id) * S0[d][dv]. */
static void read_state(const struct chunk *chunk, const float *x, int64_t i, float *out)
{
    const struct log_sum *gate = chunk->gate + i * chunk->gate_dim;
    memset(out, 0, (size_t)chunk->value_dim * sizeof *out);
    for (int64_t d = 0; d < chunk->key_dim; d++) {
        const float factor = x[d] * decay_since_start(gate[d % chunk->gate_dim]);
        for (int64_t v = 0; v < chunk->value_dim; v++)
            out[v] += factor * chunk->state[d * chunk->value_dim + v];
    }
}

/* Row i of U by forward substitution, then row i of the output. */
static void solve_row(const seqmix_deltanet_args *a, int64_t begin, int64_t i, int64_t h, const struct chunk *chunk)
{
    const int64_t t = begin + i, values = chunk->value_dim;
    const float *k = chunk->k + i * chunk->key_dim, *q = chunk->q + i * chunk->key_dim, scale = ref_scale(a);
    float *u = chunk->u + i * values;
    read_state(chunk, k, i, u);
    for (int64_t v = 0; v < values; v++)
        u[v] = chunk->beta[i] * (seqmix_load_f32(&a->v, t * a->v.stride[0] + h * a->v.stride[1] + v) - u[v]);
    for (int64_t j = 0; j < i; j++) {
        const float factor = chunk->beta[i] * decayed_dot(chunk, k, i, j);
        for (int64_t v = 0; v < values; v++)
            u[v] -= factor * chunk->u[j * values + v];
    }
    read_state(chunk, q, i, chunk->o);
    for (int64_t j = 0; j <= i; j++) {
        const float factor = decayed_dot(chunk, q, i, j);
        for (int64_t v = 0; v < values; v++)
            chunk->o[v] += factor * chunk->u[j * values + v];
    }
    for (int64_t v = 0; v < values; v++)
        seqmix_store_f32(&a->o, t * a->o.stride[0] + h * a->o.stride[1] + v, scale * chunk->o[v]);
}

/* The state after the first n rows of the chunk, in `out` (may be the chunk's own state). */
static void state_after(const struct chunk *chunk, int64_t n, float *out)
{
    const struct log_sum *end = chunk->gate + (n - 1) * chunk->gate_dim;
    for (int64_t d = 0; d < chunk->key_dim; d++) {
        const int64_t g = d % chunk->gate_dim;
        float *row = out + d * chunk->value_dim;
        for (int64_t v = 0; v < chunk->value_dim; v++)
            row[v] = decay_since_start(end[g]) * chunk->state[d * chunk->value_dim + v];
        for (int64_t j = 0; j < n; j++) {
            const float factor =
                chunk->k[j * chunk->key_dim + d] * decay_between(chunk->gate[j * chunk->gate_dim + g], end[g]);
            for (int64_t v = 0; v < chunk->value_dim; v++)
                row[v] += factor * chunk->u[j * chunk->value_dim + v];
        }
    }
}

static void delta_task(void *arg, int64_t task, int32_t worker)
{
    const struct delta *delta = arg;
    const seqmix_deltanet_args *a = delta->args;
    const int64_t heads = a->v.shape[1], h = task % heads, count = a->k.shape[2] * a->v.shape[2];
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->v.shape[0], &a->state, (int32_t)(task / heads));
    struct seqmix_cursor cursor = {delta->workspace + (size_t)worker * delta->worker_size, 0};
    const struct chunk chunk = layout(a, &cursor);
    int32_t checkpoint = seq.ckpt_begin;

    seqmix_plain_load_state(&a->state, seq.read_slot, h, count, chunk.state);
    for (int64_t begin = seq.begin; begin < seq.end; begin += delta->rows) {
        const int64_t n_rows = seq.end - begin < delta->rows ? seq.end - begin : delta->rows;
        load_rows(a, begin, n_rows, h, &chunk);
        for (int64_t i = 0; i < n_rows; i++)
            solve_row(a, begin, i, h, &chunk);
        for (; checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - seq.begin;
             checkpoint++) {
            state_after(&chunk, a->batch->ckpt_row[checkpoint] - (begin - seq.begin), chunk.aside);
            seqmix_plain_store_state(&a->state, a->batch->ckpt_slot[checkpoint], h, chunk.aside);
        }
        state_after(&chunk, n_rows, chunk.state);
    }
    seqmix_plain_store_state(&a->state, seq.write_slot, h, chunk.state);
}

static size_t worker_size(const seqmix_deltanet_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, &cursor);
    return cursor.used;
}

seqmix_status seqmix_deltanet_chunk_plain_plan(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                               struct seqmix_plan *plan)
{
    plan->kernel = "chunk-plain/deltanet";
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = chunk_rows(args);
    return SEQMIX_OK;
}

seqmix_status seqmix_deltanet_chunk_plain(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    struct delta delta = {args, workspace, worker_size(args), chunk_rows(args)};
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->v.shape[1], delta_task, &delta);
}
