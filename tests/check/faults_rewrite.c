/* SPDX-License-Identifier: MIT */
/* Faults that need a kernel of their own. Each covers the options its hostile cases use and leaves the rest to rung 0. */
#include <math.h>

#include "cpu.h"
#include "faults.h"

void check_as_call(const char *op, const void *args, struct call *call)
{
    *call = (struct call){.op = check_find_op(op)};
    memcpy(&call->args, args, call->op->args_size);
    call->x = SEQMIX_F32;
    if (call->op->family->batch_offset == 0) return;
    const seqmix_batch *batch;
    memcpy(&batch, (const char *)args + call->op->family->batch_offset, sizeof batch);
    call->batch = *batch;
    call->given = GIVE_BATCH;
    const size_t n = (size_t)batch->n_seqs * sizeof(int32_t), c = (size_t)batch->n_checkpoints * sizeof(int32_t);
    if (batch->row_begin != NULL) call->given |= GIVE_ROW_BEGIN;
    if (batch->row_begin != NULL) memcpy(call->row_begin, batch->row_begin, n + sizeof(int32_t));
    if (batch->read_slot != NULL) call->given |= GIVE_READ;
    if (batch->read_slot != NULL) memcpy(call->read, batch->read_slot, n);
    if (batch->write_slot != NULL) call->given |= GIVE_WRITE;
    if (batch->write_slot != NULL) memcpy(call->write, batch->write_slot, n);
    if (c > 0) memcpy(call->ckpt_seq, batch->ckpt_seq, c);
    if (c > 0) memcpy(call->ckpt_row, batch->ckpt_row, c);
    if (c > 0) memcpy(call->ckpt_slot, batch->ckpt_slot, c);
    check_rebind(call);
}

seqmix_status check_run_ref(struct seqmix_context *ctx, struct call *call, void *workspace)
{
    check_rebind(call);
    return call->op->table_run(&seqmix_kernels__ref, ctx, &call->args, workspace);
}

/* ---------------------------------------------------------------- delta rule */

struct delta_twist {
    bool late_decay; /* S <- exp(g)*(S + k u), u from the undecayed S */
    bool grow;       /* a positive log gate or an alpha above 1 is believed */
};

static double at2(const seqmix_tensor *t, int64_t i, int64_t j)
{
    return check_get(t, i * t->stride[0] + j * t->stride[1]);
}

static double at3(const seqmix_tensor *t, int64_t i, int64_t j, int64_t k)
{
    return check_get(t, i * t->stride[0] + j * t->stride[1] + k * t->stride[2]);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double beta_of(const seqmix_deltanet_args *a, int64_t t, int64_t h)
{
    const double beta = at2(&a->beta, t, h);
    return a->beta_kind == SEQMIX_BETA_VALUE ? beta : a->beta_kind * logistic(beta);
}

/* What head `key` of row t of q or k is multiplied by. */
static double norm_of(const seqmix_deltanet_args *a, const seqmix_tensor *rows, int64_t t, int64_t key)
{
    double sum = (double)a->eps;
    for (int64_t d = 0; d < rows->shape[2]; d++)
        sum += at3(rows, t, key, d) * at3(rows, t, key, d);
    return a->qk_l2norm != 0 ? 1 / sqrt(sum) : 1;
}

static double decay_of(const seqmix_deltanet_args *a, const struct delta_twist *twist, int64_t t, int64_t h, int64_t d)
{
    if (a->gate_kind == SEQMIX_GATE_NONE) return 1;
    const double gate = a->gate.rank == 3 ? at3(&a->gate, t, h, d) : at2(&a->gate, t, h);
    const double decay = a->gate_kind == SEQMIX_GATE_ALPHA ? gate : exp(gate);
    if (decay < 0) return 0;
    return decay > 1 && !twist->grow ? 1 : decay;
}

/* One row of one head; s is [DK][DV]. */
static void delta_row(const seqmix_deltanet_args *a, const struct delta_twist *twist, int64_t t, int64_t h, double *s)
{
    const int64_t DK = a->k.shape[2], DV = a->v.shape[2], HK = a->k.shape[1];
    const int64_t key = a->head_map == SEQMIX_HEADS_TILED ? h % HK : h / (a->v.shape[1] / HK);
    const double norm_k = norm_of(a, &a->k, t, key), norm_q = norm_of(a, &a->q, t, key), beta = beta_of(a, t, h);
    const double scale = norm_q * (a->scale > 0 ? (double)a->scale : 1 / sqrt((double)DK));
    for (int64_t e = 0; e < DV; e++) {
        double seen = 0, o = 0;
        for (int64_t d = 0; d < DK; d++) {
            if (!twist->late_decay) s[d * DV + e] *= decay_of(a, twist, t, h, d);
            seen += s[d * DV + e] * norm_k * at3(&a->k, t, key, d);
        }
        const double u = beta * (at3(&a->v, t, h, e) - seen);
        for (int64_t d = 0; d < DK; d++) {
            s[d * DV + e] += norm_k * at3(&a->k, t, key, d) * u;
            if (twist->late_decay) s[d * DV + e] *= decay_of(a, twist, t, h, d);
            o += s[d * DV + e] * at3(&a->q, t, key, d);
        }
        check_put(&a->o, t * a->o.stride[0] + h * a->o.stride[1] + e, scale * o);
    }
}

enum { STATE_SIZE = 256 * 256 };

static void move_state(const seqmix_tensor *pool, int32_t slot, int64_t head, double *s, bool store)
{
    int64_t index[4] = {slot, head, 0, 0}, at = 0;
    if (slot < 0 && !store) memset(s, 0, STATE_SIZE * sizeof *s);
    if (slot < 0) return;
    do {
        const int64_t offset = check_offset(pool, index);
        if (store)
            check_put(pool, offset, s[at++]);
        else
            s[at++] = check_get(pool, offset);
    } while (check_next(pool, index, 2, 4));
}

static seqmix_status twisted_delta(struct seqmix_context *ctx, const seqmix_deltanet_args *a, void *workspace,
                                   const struct delta_twist *twist)
{
    static double s[STATE_SIZE];
    struct span spans[CHECK_MAX_SEQS];
    struct call call;
    check_as_call("deltanet_chunk_forward", a, &call);
    const bool covered = a->gate_kind <= SEQMIX_GATE_ALPHA && call.batch.n_checkpoints == 0;
    if (!covered) return seqmix_kernels__ref.deltanet_chunk_forward(ctx, a, workspace);
    const int n = check_spans(&call, spans);
    for (int i = 0; i < n; i++)
        for (int64_t h = 0; h < a->v.shape[1]; h++) {
            move_state(&a->state, spans[i].read, h, s, false);
            for (int64_t t = spans[i].begin; t < spans[i].end; t++)
                delta_row(a, twist, t, h, s);
            move_state(&a->state, spans[i].write, h, s, true);
        }
    return SEQMIX_OK;
}

seqmix_status check_delta_late_decay(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    const struct delta_twist twist = {.late_decay = true};
    return twisted_delta(ctx, args, workspace, &twist);
}

seqmix_status check_delta_growing(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    const struct delta_twist twist = {.grow = true};
    return twisted_delta(ctx, args, workspace, &twist);
}

/* ---------------------------------------------------------------- SSD */

enum { CHUNK = 64 };

/* exp(to - from) of two plain f32 sums; as a product of two exponentials it overflows. */
static double decay_between(float from, float to, bool product)
{
    return product ? (double)(expf(to) * expf(-from)) : exp((double)(to - from));
}

/* A chunk of one head, exact but for the decays. */
static void ssd_chunk(const seqmix_ssd_args *a, bool product, int64_t begin, int64_t rows, int64_t h, double *s)
{
    const int64_t P = a->x.shape[2], N = a->B.shape[2], g = h / (a->x.shape[1] / a->B.shape[1]);
    float gamma[CHUNK], sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        const float step = (float)(at2(&a->dt, begin + i, h) * check_get(&a->A, h * a->A.stride[0]));
        gamma[i] = sum += step < 0 ? step : 0;
    }
    for (int64_t p = 0; p < P; p++) {
        for (int64_t i = 0; i < rows; i++) {
            double y = 0;
            for (int64_t n = 0; n < N; n++) {
                double state = exp((double)gamma[i]) * s[p * N + n];
                for (int64_t j = 0; j <= i; j++)
                    state += decay_between(gamma[j], gamma[i], product) * at2(&a->dt, begin + j, h) *
                             at3(&a->B, begin + j, g, n) * at3(&a->x, begin + j, h, p);
                y += at3(&a->C, begin + i, g, n) * state;
            }
            if (a->skip.rank > 0)
                y += at3(&a->x, begin + i, h, p) *
                     check_get(&a->skip, h * a->skip.stride[0] + (a->skip.rank == 2 ? p * a->skip.stride[1] : 0));
            check_put(&a->y, (begin + i) * a->y.stride[0] + h * a->y.stride[1] + p, y);
        }
        for (int64_t n = 0; n < N; n++) {
            double state = exp((double)gamma[rows - 1]) * s[p * N + n];
            for (int64_t j = 0; j < rows; j++)
                state += decay_between(gamma[j], gamma[rows - 1], product) * at2(&a->dt, begin + j, h) *
                         at3(&a->B, begin + j, g, n) * at3(&a->x, begin + j, h, p);
            s[p * N + n] = state;
        }
    }
}

static seqmix_status twisted_ssd(struct seqmix_context *ctx, const seqmix_ssd_args *a, void *workspace, bool product)
{
    static double s[STATE_SIZE];
    struct span spans[CHECK_MAX_SEQS];
    struct call call;
    check_as_call("ssd_chunk_forward", a, &call);
    const bool covered = a->dt_softplus == 0 && a->dt_min == 0 && a->dt_max == 0 && !seqmix_present(&a->dt_bias) &&
                         !seqmix_present(&a->z) && call.batch.n_checkpoints == 0 && a->x.shape[2] * a->B.shape[2] <= 64;
    if (!covered) return seqmix_kernels__ref.ssd_chunk_forward(ctx, a, workspace);
    const int n = check_spans(&call, spans);
    for (int i = 0; i < n; i++)
        for (int64_t h = 0; h < a->x.shape[1]; h++) {
            move_state(&a->state, spans[i].read, h, s, false);
            for (int64_t t = spans[i].begin; t < spans[i].end; t += CHUNK)
                ssd_chunk(a, product, t, spans[i].end - t < CHUNK ? spans[i].end - t : CHUNK, h, s);
            move_state(&a->state, spans[i].write, h, s, true);
        }
    return SEQMIX_OK;
}

seqmix_status check_ssd_plain_sums(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    return twisted_ssd(ctx, args, workspace, false);
}

seqmix_status check_ssd_product(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    return twisted_ssd(ctx, args, workspace, true);
}

/* Index `i` of an axis, as an axis of size 1. */
static void take(seqmix_tensor *t, int axis, int64_t i)
{
    if (t->rank <= axis) return;
    t->data = (char *)t->data + i * t->stride[axis] * (int64_t)seqmix_dtype_size(t->dtype);
    t->shape[axis] = 1;
}

seqmix_status check_ssd_wrong_groups(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    const int64_t H = args->x.shape[1], G = args->B.shape[1];
    seqmix_status status = SEQMIX_OK;
    for (int64_t h = 0; h < H && status == SEQMIX_OK; h++) {
        seqmix_ssd_args one = *args;
        take(&one.x, 1, h);
        take(&one.dt, 1, h);
        take(&one.A, 0, h);
        take(&one.B, 1, h % G);
        take(&one.C, 1, h % G);
        take(&one.skip, 0, h);
        take(&one.dt_bias, 0, h);
        take(&one.z, 1, h);
        take(&one.state, 1, h);
        take(&one.y, 1, h);
        status = seqmix_kernels__ref.ssd_chunk_forward(ctx, &one, workspace);
    }
    return status;
}

/* ---------------------------------------------------------------- scan */

seqmix_status check_scan_naive_softplus(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    const int64_t R = args->dt.shape[0], D = args->dt.shape[1];
    seqmix_scan_args plain = *args;
    if (args->dt_softplus == 0) return seqmix_kernels__ref.selective_scan_rows(ctx, args, workspace);
    float *dt = check_alloc((size_t)(R * D) * sizeof *dt);
    for (int64_t t = 0; t < R; t++)
        for (int64_t d = 0; d < D; d++) {
            const double bias =
                seqmix_present(&args->dt_bias) ? check_get(&args->dt_bias, d * args->dt_bias.stride[0]) : 0;
            dt[t * D + d] = logf(1 + expf((float)(at2(&args->dt, t, d) + bias)));
        }
    plain.dt_softplus = 0;
    plain.dt_bias.rank = 0;
    plain.dt.data = dt;
    plain.dt.dtype = SEQMIX_F32;
    plain.dt.stride[0] = D;
    plain.dt.stride[1] = 1;
    const seqmix_status status = seqmix_kernels__ref.selective_scan_rows(ctx, &plain, workspace);
    check_free(dt);
    return status;
}
