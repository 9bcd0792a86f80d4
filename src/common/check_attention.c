/* SPDX-License-Identifier: MIT */
/* Rules of attention_rows (experimental). R rows, HQ query and HKV key heads of D channels, a cache in pages. */
#include <float.h>

#include "check_internal.h"

static seqmix_status check_options(struct seqmix_context *ctx, const seqmix_attention_args *args)
{
    if (args->max_pages < 1)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "max_pages=%" PRId32 ", must be 1 or more", args->max_pages);
    if (!(args->scale >= 0 && args->scale <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "scale=%g, must be 0 or more, and finite", (double)args->scale);
    return seqmix_check_zero(ctx, "zero0", args->zero0);
}

/* Where one sequence's rows lie, and the pages it reads. */
static seqmix_status check_sequence(struct seqmix_context *ctx, const seqmix_attention_args *args, int32_t s,
                                    int64_t rows)
{
    const int64_t n_pages = args->k_pages.shape[0], page_rows = args->k_pages.shape[1];
    const int64_t start = args->start[s], end = start + rows, capacity = args->max_pages * page_rows;
    if (start < 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "start[%" PRId32 "]=%" PRId64 " is negative", s, start);
    if (end > capacity)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                           "start[%" PRId32 "]=%" PRId64 " and %" PRId64 " rows exceed the %" PRId64
                           " positions of max_pages=%" PRId32,
                           s, start, rows, capacity, args->max_pages);
    if (rows == 0) return SEQMIX_OK;
    const int32_t *pages = args->page_table + (int64_t)s * args->max_pages;
    for (int64_t i = 0; i * page_rows < end; i++)
        if (pages[i] < 0 || pages[i] >= n_pages)
            return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                               "page_table[%" PRId32 "][%" PRId64 "]=%" PRId32 " is not in [0, %" PRId64 ")", s, i,
                               pages[i], n_pages);
    return SEQMIX_OK;
}

/* Contents that only a host context can look at. */
static seqmix_status check_pages(struct seqmix_context *ctx, const seqmix_attention_args *args, int64_t rows)
{
    static const seqmix_tensor no_pool = {0};
    if (args->page_table == NULL) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "page_table is NULL");
    if (args->start == NULL) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "start is NULL");
    SEQMIX_TRY(seqmix_check_ints(ctx, "page_table", args->page_table));
    SEQMIX_TRY(seqmix_check_ints(ctx, "start", args->start));
    if (ctx->backend != SEQMIX_BACKEND_CPU) return SEQMIX_OK;
    for (int32_t s = 0; s < args->batch->n_seqs; s++) {
        const struct seqmix_seq seq = seqmix_batch_seq(args->batch, rows, &no_pool, s);
        SEQMIX_TRY(check_sequence(ctx, args, s, seq.end - seq.begin));
    }
    return SEQMIX_OK;
}

seqmix_status seqmix_check_attention(struct seqmix_context *ctx, const seqmix_attention_args *args, unsigned how)
{
    enum { R, HQ, HKV, D, PAGES, PAGE_ROWS, N_DIMS };
    const unsigned rows = SEQMIX_ROWS, written = SEQMIX_ROWS | SEQMIX_WRITTEN;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"HQ", 0, false},      {"HKV", 0, false},
                                      {"D", 0, false}, {"n_pages", 0, false}, {"page_rows", 0, false}};
    const struct seqmix_field fields[] = {
        {"q", &args->q, rows, SEQMIX_IS_X, 3, 3, {R, HQ, D}, 0},
        {"k", &args->k, rows, SEQMIX_IS_X, 3, 3, {R, HKV, D}, 0},
        {"v", &args->v, rows, SEQMIX_IS_X, 3, 3, {R, HKV, D}, 0},
        {"gate", &args->gate, rows | SEQMIX_OPTIONAL, SEQMIX_IS_X, 3, 3, {R, HQ, D}, 0},
        {"k_pages", &args->k_pages, written, SEQMIX_IS_ANY, 4, 4, {PAGES, PAGE_ROWS, HKV, D}, 0},
        {"v_pages", &args->v_pages, written, SEQMIX_IS_ANY, 4, 4, {PAGES, PAGE_ROWS, HKV, D}, 0},
        {"y", &args->y, written, SEQMIX_IS_X, 3, 3, {R, HQ, D}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_options(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_divides(ctx, "k", 1, dims[HKV].size, &dims[HQ]));
    if (dims[D].size == 0) return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "q.shape[2]=0, D must be 1 to 256");
    if (dims[PAGE_ROWS].size == 0)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "k_pages.shape[1]=0, a page has 1 row or more");
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[PAGE_ROWS], INT32_MAX));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[D], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    SEQMIX_TRY(seqmix_check_batch(ctx, args->batch, dims[R].size, -1, how));
    return (how & SEQMIX_CHECK_QUERY) != 0 ? SEQMIX_OK : check_pages(ctx, args, dims[R].size);
}
