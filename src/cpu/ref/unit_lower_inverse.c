/* SPDX-License-Identifier: MIT */
/*
 * inv = (I + L)^-1, L the strict lower part of a, by rows: X_i = e_i - sum_{k<i} L_ik X_k. Task: one matrix of the batch. The
 * rows are kept in the workspace, since a and inv may be one tensor and 16-bit storage must not round what is read again.
 */
#include "ref.h"

struct inverse {
    const seqmix_inverse_args *args;
    real *rows; /* [worker][n][n] */
};

/* Element offset of matrix `index` of the batch. */
static int64_t matrix_offset(const seqmix_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int axis = t->rank - 3; axis >= 0; axis--) {
        offset += index % t->shape[axis] * t->stride[axis];
        index /= t->shape[axis];
    }
    return offset;
}

static void inverse_task(void *arg, int64_t task, int32_t worker)
{
    const struct inverse *inverse = arg;
    const seqmix_tensor *a = &inverse->args->a, *inv = &inverse->args->inv;
    const int64_t n = a->shape[a->rank - 1], a_base = matrix_offset(a, task), inv_base = matrix_offset(inv, task);
    const int64_t a_row = a->stride[a->rank - 2], a_column = a->stride[a->rank - 1];
    const int64_t inv_row = inv->stride[inv->rank - 2], inv_column = inv->stride[inv->rank - 1];
    real *rows = inverse->rows + worker * n * n;
    for (int64_t i = 0; i < n; i++) {
        real *row = rows + i * n;
        for (int64_t j = 0; j < n; j++)
            row[j] = j == i ? 1 : 0;
        for (int64_t k = 0; k < i; k++) {
            const real factor = ref_get(a, a_base + i * a_row + k * a_column);
            for (int64_t j = 0; j <= k; j++)
                row[j] -= factor * rows[k * n + j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            ref_put(inv, inv_base + i * inv_row + j * inv_column, rows[i * n + j]);
}

static int64_t batch_size(const seqmix_tensor *a)
{
    int64_t count = 1;
    for (int axis = 0; axis < a->rank - 2; axis++)
        count *= a->shape[axis];
    return count;
}

static real *layout(const struct seqmix_context *ctx, const seqmix_inverse_args *args, struct seqmix_cursor *cursor)
{
    const size_t n = (size_t)args->a.shape[args->a.rank - 1];
    return seqmix_take(cursor, (size_t)ctx->n_workers * n * n * sizeof(real));
}

seqmix_status REF(unit_lower_inverse_plan)(const struct seqmix_context *ctx, const seqmix_inverse_args *args,
                                           struct seqmix_plan *plan)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(ctx, args, &cursor);
    return ref_plan(plan, REF_RUNG "/unit_lower_inverse", cursor.used);
}

seqmix_status REF(unit_lower_inverse)(struct seqmix_context *ctx, const seqmix_inverse_args *args, void *workspace)
{
    struct seqmix_cursor cursor = {workspace, 0};
    struct inverse inverse = {args, layout(ctx, args, &cursor)};
    return seqmix_parallel_for(ctx, batch_size(&args->a), inverse_task, &inverse);
}
