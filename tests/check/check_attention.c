/* SPDX-License-Identifier: MIT */
/*
 * Generator of the experimental attention_rows: R rows, HQ query and HKV key heads of D channels. call.ints holds the start of
 * every sequence, then its page table; pages are dealt out at random, first pages that are only read sometimes shared.
 */
#include <math.h>

#include "harness.h"

static const struct field fields[] = {
    {"q", offsetof(seqmix_attention_args, q), ROLE_IN, FIELD_ROWS, 1},
    {"k", offsetof(seqmix_attention_args, k), ROLE_IN, FIELD_ROWS, 1},
    {"v", offsetof(seqmix_attention_args, v), ROLE_IN, FIELD_ROWS, 1},
    {"gate", offsetof(seqmix_attention_args, gate), ROLE_IN, FIELD_ROWS, 1},
    {"k_pages", offsetof(seqmix_attention_args, k_pages), ROLE_OUT, FIELD_EXACT | FIELD_KEPT, 1},
    {"v_pages", offsetof(seqmix_attention_args, v_pages), ROLE_OUT, FIELD_EXACT | FIELD_KEPT, 1},
    {"y", offsetof(seqmix_attention_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 80, 400}, FORM_ROWS}, {CLASS_ROWS, BOUND_ORDINARY, {4, 30, 90}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 8, 24}, FORM_ROWS},   {CLASS_OPTIONAL, BOUND_ORDINARY, {2, 4, 4}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS}, {CLASS_POOL, BOUND_ORDINARY, {4, 18, 18}, FORM_ROWS},
    {CLASS_BATCH, BOUND_ORDINARY, {9, 45, 90}, FORM_ROWS},  {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS}, {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
    {CLASS_EXTREME, BOUND_HARD, {2, 12, 40}, FORM_ROWS},    {CLASS_LONG, BOUND_ORDINARY, {1, 3, 12}, FORM_ROWS},
};

/* Positions and pages, once the sequences are known. */
static void settle(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_attention_args *args = &call->args.attention_rows;
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    const int64_t farthest = draw->name == CLASS_LONG ? 4000 : CHECK_PICK(rng, 1, 60, 200);
    int64_t page_rows = CHECK_PICK(rng, 1, 2, 5, 16, 17, 48, 64), longest = 1, pages = 0;
    int32_t *start = call->ints, *table = call->ints + n;
    for (int i = 0; i < n; i++) {
        start[i] = (int32_t)check_below(rng, farthest);
        if (draw->name == CLASS_LONG) start[i] += 2000;
        const int64_t end = start[i] + spans[i].end - spans[i].begin;
        longest = end > longest ? end : longest;
    }
    while (n * (1 + (longest + page_rows - 1) / page_rows) > CHECK_MAX_INTS - n)
        page_rows *= 2;
    args->max_pages = (int32_t)((longest + page_rows - 1) / page_rows + check_below(rng, 2));
    for (int i = 0; i < n; i++) {
        const int64_t end = start[i] + spans[i].end - spans[i].begin;
        int32_t *own = table + (int64_t)i * args->max_pages;
        for (int64_t p = 0; p < args->max_pages; p++)
            own[p] = p * page_rows < end ? (int32_t)pages++ : -1; /* beyond, nothing is looked at */
        if (start[i] >= page_rows && start[0] >= page_rows && check_chance(rng, 0.3)) own[0] = table[0];
    }
    const int64_t step = pages % 7 == 0 ? 1 : 7; /* prime to `pages`: another order */
    for (int64_t i = 0; i < (int64_t)n * args->max_pages; i++)
        if (table[i] >= 0) table[i] = (int32_t)((table[i] * step + 3) % pages);
    seqmix_tensor *const pools[2] = {&args->k_pages, &args->v_pages};
    const int64_t n_pages = pages + 1 + check_below(rng, 3);
    for (int i = 0; i < 2; i++) {
        pools[i]->shape[0] = n_pages;
        pools[i]->shape[1] = page_rows;
    }
}

static void rebind(struct call *call)
{
    struct span spans[CHECK_MAX_SEQS];
    call->args.attention_rows.start = call->ints;
    call->args.attention_rows.page_table = call->ints + check_spans(call, spans);
}

/* The view's one sequence starts where its rows lie in the whole's. */
static void cut(const struct call *whole, int64_t begin, int64_t end, struct call *view)
{
    struct span spans[CHECK_MAX_SEQS];
    const int64_t max_pages = whole->args.attention_rows.max_pages;
    const int n = check_spans(whole, spans);
    int at = 0;
    while (at < n - 1 && !(spans[at].begin <= begin && end <= spans[at].end && (begin < end || begin == spans[at].end)))
        at++;
    view->ints[0] = whole->ints[at] + (int32_t)(begin - spans[at].begin);
    for (int64_t p = 0; p < max_pages; p++)
        view->ints[1 + p] = whole->ints[n + at * max_pages + p];
}

static const struct paging paging = {settle, cut, rebind};

static void build(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_attention_args *args = &call->args.attention_rows;
    const bool big = draw->name == CLASS_SIZES, pool = draw->name == CLASS_POOL;
    if (draw->name == CLASS_LONG) draw->rows = 1 + check_below(rng, 4);
    if (draw->rows > 300) draw->rows = 300;
    const int64_t R = draw->rows, HKV = CHECK_PICK(rng, 1, 2, 3), group = CHECK_PICK(rng, 1, 2, 3, 4, 5, 6, 8);
    const int64_t D = big ? CHECK_PICK(rng, 80, 128, 256) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 32, 65);
    const seqmix_dtype cache = pool ? draw->pool_dtype : (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3);
    const seqmix_dtype values = check_chance(rng, 0.7) ? cache : (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3);
    args->scale = check_chance(rng, 0.5) ? 0 : 0.3f;
    args->max_pages = 1;
    CHECK_DECLARE(call, "q", call->x, R, HKV * group, D);
    CHECK_DECLARE(call, "k", call->x, R, HKV, D);
    CHECK_DECLARE(call, "v", call->x, R, HKV, D);
    if (!check_absent(draw, 0)) CHECK_DECLARE(call, "gate", call->x, R, HKV * group, D);
    CHECK_DECLARE(call, "k_pages", cache, 1, 1, HKV, D);
    CHECK_DECLARE(call, "v_pages", values, 1, 1, HKV, D);
    CHECK_DECLARE(call, "y", call->x, R, HKV * group, D);
    check_place(call, draw);
    const bool sharp = draw->name == CLASS_EXTREME && draw->variant % 2 == 0;
    check_fill_gauss(call, draw, "q", 0, sharp ? 20 : 1);
    check_fill_gauss(call, draw, "k", 0, 1);
    check_fill_gauss(call, draw, "v", 0, 1);
    check_fill_gauss(call, draw, "gate", 0, 1);
    check_fill_gauss(call, draw, "k_pages", 0, 1);
    check_fill_gauss(call, draw, "v_pages", 0, 1);
    if (draw->name == CLASS_EXTREME && !sharp) check_fill_extreme(call, draw, "gate");
}

const struct family check_attention = {
    .name = "attention",
    .batch_offset = offsetof(seqmix_attention_args, batch),
    .paging = &paging,
    .value = "v",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
