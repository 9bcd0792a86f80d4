/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD in chunks of Q rows, plain f32 (arXiv:2405.21060, section 6). g = inclusive sum of d*A inside the chunk:
 *   Y_i = exp(g_i)*(S0*C_i) + sum_{j<=i} (C_i.B_j)*exp(g_i-g_j)*d_j*x_j;   S_Q = exp(g_Q)*S0 + sum_j exp(g_Q-g_j)*d_j * x_j B_j
 * Task: one head of one sequence.
 */
#include "chunk_plain.h"
#include "ssd_row.h"

/* One worker's buffers: a chunk of one head. */
struct chunk {
    float *state, *aside; /* [P][N] */
    float *x, *B, *C;     /* [Q][P], [Q][N], [Q][N] */
    float *delta, *y;     /* [Q], [P] */
    struct log_sum *gate; /* [Q] */
};

struct ssd {
    const seqmix_ssd_args *args;
    char *workspace;
    size_t worker_size; /* bytes of it that belong to one worker */
    int64_t rows;       /* Q */
};

static int64_t chunk_rows(const seqmix_ssd_args *a)
{
    return a->chunk > 0 ? a->chunk : PLAIN_CHUNK;
}

static struct chunk layout(const seqmix_ssd_args *a, struct seqmix_cursor *cursor)
{
    const size_t rows = (size_t)chunk_rows(a), dim = (size_t)a->x.shape[2], states = (size_t)a->B.shape[2];
    struct chunk chunk;
    chunk.state = seqmix_take(cursor, dim * states * sizeof(float));
    chunk.aside = seqmix_take(cursor, dim * states * sizeof(float));
    chunk.x = seqmix_take(cursor, rows * dim * sizeof(float));
    chunk.B = seqmix_take(cursor, rows * states * sizeof(float));
    chunk.C = seqmix_take(cursor, rows * states * sizeof(float));
    chunk.delta = seqmix_take(cursor, rows * sizeof(float));
    chunk.y = seqmix_take(cursor, dim * sizeof(float));
    chunk.gate = seqmix_take(cursor, rows * sizeof(struct log_sum));
    return chunk;
}

static void load_rows(const seqmix_ssd_args *a, int64_t begin, int64_t n_rows, int64_t h, const struct chunk *chunk)
{
    const int64_t dim = a->x.shape[2], states = a->B.shape[2], group = h / (a->x.shape[1] / a->B.shape[1]);
    const float rate = seqmix_load_f32(&a->A, h * a->A.stride[0]);
    struct log_sum sum = {0, 0};
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t t = begin + i;
        for (int64_t p = 0; p < dim; p++)
            chunk->x[i * dim + p] = seqmix_load_f32(&a->x, t * a->x.stride[0] + h * a->x.stride[1] + p);
        for (int64_t n = 0; n < states; n++) {
            chunk->B[i * states + n] = seqmix_load_f32(&a->B, t * a->B.stride[0] + group * a->B.stride[1] + n);
            chunk->C[i * states + n] = seqmix_load_f32(&a->C, t * a->C.stride[0] + group * a->C.stride[1] + n);
        }
        chunk->delta[i] = ref_step_size(a, t, h);
        sum = add_log_decay(sum, clean_log_decay(chunk->delta[i] * rate));
        chunk->gate[i] = sum;
    }
}

static void output_row(const seqmix_ssd_args *a, int64_t begin, int64_t i, int64_t h, const struct chunk *chunk)
{
    const int64_t dim = a->x.shape[2], states = a->B.shape[2];
    const float *row = chunk->C + i * states, since_start = decay_since_start(chunk->gate[i]);
    for (int64_t p = 0; p < dim; p++)
        chunk->y[p] = since_start * ref_dot(row, chunk->state + p * states, states);
    for (int64_t j = 0; j <= i; j++) {
        const float score = ref_dot(row, chunk->B + j * states, states) *
                            decay_between(chunk->gate[j], chunk->gate[i]) * chunk->delta[j];
        for (int64_t p = 0; p < dim; p++)
            chunk->y[p] += score * chunk->x[j * dim + p];
    }
    for (int64_t p = 0; p < dim; p++)
        ref_ssd_finish(a, begin + i, h, p, chunk->x[i * dim + p], chunk->y[p]);
}

/* The state after the first n rows of the chunk, in `out` (may be the chunk's own state). */
static void state_after(const seqmix_ssd_args *a, int64_t n, const struct chunk *chunk, float *out)
{
    const int64_t dim = a->x.shape[2], states = a->B.shape[2];
    const struct log_sum end = chunk->gate[n - 1];
    const float since_start = decay_since_start(end);
    for (int64_t e = 0; e < dim * states; e++)
        out[e] = since_start * chunk->state[e];
    for (int64_t j = 0; j < n; j++) {
        const float factor = chunk->delta[j] * decay_between(chunk->gate[j], end);
        for (int64_t p = 0; p < dim; p++)
            for (int64_t s = 0; s < states; s++)
                out[p * states + s] += chunk->x[j * dim + p] * (factor * chunk->B[j * states + s]);
    }
}

static void ssd_task(void *arg, int64_t task, int32_t worker)
{
    const struct ssd *ssd = arg;
    const seqmix_ssd_args *a = ssd->args;
    const int64_t heads = a->x.shape[1], count = a->x.shape[2] * a->B.shape[2], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / heads));
    struct seqmix_cursor cursor = {ssd->workspace + (size_t)worker * ssd->worker_size, 0};
    const struct chunk chunk = layout(a, &cursor);
    int32_t checkpoint = seq.ckpt_begin;

    seqmix_plain_load_state(&a->state, seq.read_slot, h, count, chunk.state);
    for (int64_t begin = seq.begin; begin < seq.end; begin += ssd->rows) {
        const int64_t n_rows = seq.end - begin < ssd->rows ? seq.end - begin : ssd->rows;
        load_rows(a, begin, n_rows, h, &chunk);
        for (int64_t i = 0; i < n_rows; i++)
            output_row(a, begin, i, h, &chunk);
        for (; checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - seq.begin;
             checkpoint++) {
            state_after(a, a->batch->ckpt_row[checkpoint] - (begin - seq.begin), &chunk, chunk.aside);
            seqmix_plain_store_state(&a->state, a->batch->ckpt_slot[checkpoint], h, chunk.aside);
        }
        state_after(a, n_rows, &chunk, chunk.state);
    }
    seqmix_plain_store_state(&a->state, seq.write_slot, h, chunk.state);
}

static size_t worker_size(const seqmix_ssd_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, &cursor);
    return cursor.used;
}

seqmix_status seqmix_ssd_chunk_plain_plan(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                          struct seqmix_plan *plan)
{
    plan->kernel = "chunk-plain/ssd";
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = chunk_rows(args);
    return SEQMIX_OK;
}

seqmix_status seqmix_ssd_chunk_plain(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct ssd ssd = {args, workspace, worker_size(args), chunk_rows(args)};
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->x.shape[1], ssd_task, &ssd);
}
