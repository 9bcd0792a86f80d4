/* SPDX-License-Identifier: MIT */
/*
 * Mixture of experts (equations: seqmix.h). The rows of an expert are gathered and go through its matrices together; the
 * products are the linear slot's of the rung in use, so that every weight type and product form of linear serves experts too.
 * A row's sum takes its experts in ascending order. Tasks, beside linear's: one row of an expert.
 */
#include "ctx.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "workspace.h"

struct moe {
    struct seqmix_context *ctx;
    const seqmix_moe_args *args;
    int64_t n;           /* rows of the expert at hand */
    const int32_t *pick; /* its places in [R,K], ascending */
    int64_t *begin;      /* [E+1] where each expert's places lie in `picks` */
    int32_t *picks;      /* [R*K] */
    char *x;             /* [R][D], as in args->x */
    float *gate, *up;    /* [R][F] */
    float *out, *sum;    /* [R][O] */
    void *linear;
};

static seqmix_tensor matrix_of(void *data, seqmix_dtype dtype, int64_t rows, int64_t columns)
{
    return (seqmix_tensor){.data = data, .dtype = dtype, .rank = 2, .shape = {rows, columns}, .stride = {columns, 1}};
}

static seqmix_linear_args product(const seqmix_moe_args *a, const seqmix_tensor *x, seqmix_tensor weight, float *y)
{
    return (seqmix_linear_args){.struct_size = sizeof(seqmix_linear_args),
                                .invariant = a->invariant,
                                .x = *x,
                                .weight = weight,
                                .y = matrix_of(y, SEQMIX_F32, x->shape[0], weight.shape[0])};
}

/* What any rung would want for that product: which one takes it may change with the number of rows. */
static size_t product_bytes(const struct seqmix_context *ctx, const seqmix_linear_args *args)
{
    size_t most = 0;
    for (const struct seqmix_kernels *rung = ctx->rung; rung != NULL; rung = rung->lower) {
        struct seqmix_plan plan = {NULL, 0, 0};
        if (rung->linear_plan(ctx, args, &plan) == SEQMIX_OK && plan.workspace > most) most = plan.workspace;
    }
    return most;
}

static seqmix_status run_product(const struct moe *moe, const seqmix_linear_args *args)
{
    for (const struct seqmix_kernels *rung = moe->ctx->rung; rung != NULL; rung = rung->lower) {
        struct seqmix_plan plan = {NULL, 0, 0};
        const seqmix_status status = rung->linear_plan(moe->ctx, args, &plan);
        if (status == SEQMIX_OK) return rung->linear(moe->ctx, args, moe->linear);
        if (status != SEQMIX_ERR_UNSUPPORTED) return status;
    }
    return SEQMIX_ERR_INTERNAL;
}

static void layout(const struct seqmix_context *ctx, const seqmix_moe_args *a, struct moe *moe,
                   struct seqmix_cursor *cursor)
{
    const int64_t rows = a->x.shape[0], inputs = a->x.shape[1], inner = a->up.shape[1], outputs = a->down.shape[1];
    const int64_t experts = a->up.shape[0];
    moe->args = a;
    moe->begin = seqmix_take(cursor, (size_t)(experts + 1) * sizeof *moe->begin);
    moe->picks = seqmix_take(cursor, (size_t)(rows * a->ids.shape[1]) * sizeof *moe->picks);
    moe->x = seqmix_take(cursor, (size_t)(rows * inputs) * seqmix_dtype_size(a->x.dtype));
    moe->gate = seqmix_present(&a->gate) ? seqmix_take(cursor, (size_t)(rows * inner) * sizeof(float)) : NULL;
    moe->up = seqmix_take(cursor, (size_t)(rows * inner) * sizeof(float));
    moe->out = seqmix_take(cursor, (size_t)(rows * outputs) * sizeof(float));
    moe->sum = seqmix_take(cursor, (size_t)(rows * outputs) * sizeof(float));

    const seqmix_tensor x = matrix_of(NULL, a->x.dtype, rows, inputs);
    const seqmix_tensor h = matrix_of(NULL, SEQMIX_F32, rows, inner);
    const seqmix_tensor *first[2] = {&a->up, &a->gate};
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (i < 2 && !seqmix_present(first[i])) continue;
        const seqmix_linear_args args =
            i < 2 ? product(a, &x, seqmix_matrix(first[i], 0), NULL) : product(a, &h, seqmix_matrix(&a->down, 0), NULL);
        const size_t needed = product_bytes(ctx, &args);
        if (needed > bytes) bytes = needed;
    }
    moe->linear = bytes > 0 ? seqmix_take(cursor, bytes) : NULL;
}

/* Sorts the places of [R,K] by expert. */
static void sort_places(struct moe *moe)
{
    const seqmix_tensor *ids = &moe->args->ids;
    const int64_t experts = moe->args->up.shape[0], rows = ids->shape[0], top_k = ids->shape[1];
    int64_t *begin = moe->begin;
    memset(begin, 0, (size_t)(experts + 1) * sizeof *begin);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < top_k; k++)
            begin[((const int32_t *)ids->data)[r * ids->stride[0] + k] + 1]++;
    for (int64_t e = 0; e < experts; e++)
        begin[e + 1] += begin[e];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < top_k; k++)
            moe->picks[begin[((const int32_t *)ids->data)[r * ids->stride[0] + k]]++] = (int32_t)(r * top_k + k);
    for (int64_t e = experts; e > 0; e--) /* each was moved to its end, the next one's beginning */
        begin[e] = begin[e - 1];
    begin[0] = 0;
}

static void gather_task(void *arg, int64_t i, int32_t worker)
{
    const struct moe *moe = arg;
    const seqmix_tensor *x = &moe->args->x;
    const size_t size = seqmix_dtype_size(x->dtype), bytes = (size_t)x->shape[1] * size;
    const int64_t row = moe->pick[i] / moe->args->ids.shape[1];
    (void)worker;
    if (bytes > 0)
        memcpy(moe->x + (size_t)i * bytes, (const char *)x->data + (size_t)(row * x->stride[0]) * size, bytes);
}

/* sum[row] += weight * out; the rows of an expert differ. */
static void scatter_task(void *arg, int64_t i, int32_t worker)
{
    const struct moe *moe = arg;
    const seqmix_tensor *weights = &moe->args->weights;
    const int64_t outputs = moe->args->down.shape[1], top_k = moe->args->ids.shape[1];
    const int64_t row = moe->pick[i] / top_k, k = moe->pick[i] % top_k;
    const vf weight = v_set1(((const float *)weights->data)[row * weights->stride[0] + k]);
    (void)worker;
    for (int64_t o = 0; o < outputs; o += V_LANES) {
        const int n = lanes_left(outputs, o);
        float *sum = moe->sum + row * outputs + o;
        v_store_n(sum, v_fma(weight, v_load_n(moe->out + i * outputs + o, n), v_load_n(sum, n)), n);
    }
}

static seqmix_status run_expert(struct moe *moe, int64_t expert)
{
    const seqmix_moe_args *a = moe->args;
    const int64_t inner = a->up.shape[1];
    const bool gated = seqmix_present(&a->gate);
    const seqmix_tensor x = matrix_of(moe->x, a->x.dtype, moe->n, a->x.shape[1]);
    const seqmix_tensor up = matrix_of(moe->up, SEQMIX_F32, moe->n, inner);
    const seqmix_tensor gate = matrix_of(moe->gate, SEQMIX_F32, moe->n, inner);
    seqmix_act_args act = {.struct_size = sizeof act, .kind = a->activation, .a = gated ? gate : up, .y = up};
    if (gated) act.b = up;

    seqmix_status status = seqmix_parallel_for(moe->ctx, moe->n, gather_task, moe);
    const seqmix_linear_args through_up = product(a, &x, seqmix_matrix(&a->up, expert), moe->up);
    if (status == SEQMIX_OK) status = run_product(moe, &through_up);
    if (status == SEQMIX_OK && gated) {
        const seqmix_linear_args through_gate = product(a, &x, seqmix_matrix(&a->gate, expert), moe->gate);
        status = run_product(moe, &through_gate);
    }
    if (status == SEQMIX_OK) status = KERN(act_rows)(moe->ctx, &act, NULL);
    const seqmix_linear_args through_down = product(a, &up, seqmix_matrix(&a->down, expert), moe->out);
    if (status == SEQMIX_OK) status = run_product(moe, &through_down);
    if (status != SEQMIX_OK) return status;
    return seqmix_parallel_for(moe->ctx, moe->n, scatter_task, moe);
}

seqmix_status KERN(moe_experts_plan)(const struct seqmix_context *ctx, const seqmix_moe_args *args,
                                     struct seqmix_plan *plan)
{
    struct moe moe;
    struct seqmix_cursor cursor = {NULL, 0};
    layout(ctx, args, &moe, &cursor);
    plan->kernel = KERN_NAME("moe_experts");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(moe_experts)(struct seqmix_context *ctx, const seqmix_moe_args *args, void *workspace)
{
    struct moe moe = {.ctx = ctx};
    struct seqmix_cursor cursor = {workspace, 0};
    const int64_t rows = args->x.shape[0], outputs = args->y.shape[1], experts = args->up.shape[0];
    layout(ctx, args, &moe, &cursor);
    sort_places(&moe);
    if (args->accumulate == 0) memset(moe.sum, 0, (size_t)(rows * outputs) * sizeof(float));
    for (int64_t r = 0; args->accumulate != 0 && r < rows; r++)
        row_load(&args->y, r * args->y.stride[0], outputs, moe.sum + r * outputs);
    for (int64_t e = 0; e < experts; e++) {
        moe.pick = moe.picks + moe.begin[e];
        moe.n = moe.begin[e + 1] - moe.begin[e];
        const seqmix_status status = moe.n > 0 ? run_expert(&moe, e) : SEQMIX_OK;
        if (status != SEQMIX_OK) return status;
    }
    for (int64_t r = 0; r < rows; r++)
        row_store(&args->y, r * args->y.stride[0], outputs, moe.sum + r * outputs);
    return SEQMIX_OK;
}
