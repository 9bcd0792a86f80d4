/* SPDX-License-Identifier: MIT */
/* Generators of the experimental linear (R rows, I inputs, O outputs) and embed_rows (V table rows, D channels). Weights and
 * tables are of every dtype, block-quantised ones made of random bytes under finite scales. */
#include "harness.h"

static const struct field linear_fields[] = {
    {"x", offsetof(seqmix_linear_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"weight", offsetof(seqmix_linear_args, weight), ROLE_IN, 0, 1},
    {"bias", offsetof(seqmix_linear_args, bias), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"residual", offsetof(seqmix_linear_args, residual), ROLE_IN, FIELD_ROWS, 1},
    {"y", offsetof(seqmix_linear_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use linear_classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 80, 400}, FORM_ROWS},     {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 8, 32}, FORM_ROWS},       {CLASS_OPTIONAL, BOUND_ORDINARY, {4, 4, 4}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},     {CLASS_PARAMS, BOUND_ORDINARY, {11, 44, 44}, FORM_ROWS},
    {CLASS_COMPANY, BOUND_ORDINARY, {4, 33, 66}, FORM_ROWS},    {CLASS_WORKERS, BOUND_ORDINARY, {2, 11, 44}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {2, 8, 40}, FORM_ROWS},    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},     {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS}, {CLASS_LONG, BOUND_ORDINARY, {1, 2, 4}, FORM_ROWS},
};

static const seqmix_dtype weights[] = {SEQMIX_F32,  SEQMIX_BF16, SEQMIX_F16,  SEQMIX_Q8_0, SEQMIX_Q4_0,  SEQMIX_Q5_0,
                                       SEQMIX_Q5_1, SEQMIX_Q4_K, SEQMIX_Q5_K, SEQMIX_Q6_K, SEQMIX_IQ4_NL};
enum { N_WEIGHTS = sizeof weights / sizeof weights[0], N_PLAIN = 3 };

/* Every dtype in turn where the variants count them, else plain ones half the time. */
static seqmix_dtype draw_weight(struct draw *draw)
{
    if (draw->name == CLASS_PARAMS || draw->name == CLASS_COMPANY || draw->name == CLASS_WORKERS)
        return weights[draw->variant % N_WEIGHTS];
    return weights[check_below(&draw->rng, check_chance(&draw->rng, 0.5) ? N_PLAIN : N_WEIGHTS)];
}

/* A length of rows that a dtype allows, around the edges of its groups. */
static int64_t draw_width(struct draw *draw, seqmix_dtype dtype, bool big)
{
    struct rng *rng = &draw->rng;
    const int64_t block = seqmix_dtype_block(dtype);
    if (block == 1)
        return big ? CHECK_PICK(rng, 768, 1134, 2048) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 151);
    if (block == SEQMIX_MAX_BLOCK) return block * (big ? CHECK_PICK(rng, 3, 5, 8) : CHECK_PICK(rng, 1, 2, 3));
    return block * (big ? CHECK_PICK(rng, 24, 35, 64) : CHECK_PICK(rng, 1, 2, 3, 4, 5, 7, 8, 9));
}

/* Where a block has its f16 scales, -1 for none. */
static void find_scales(seqmix_dtype dtype, int64_t at[2])
{
    at[0] = dtype == SEQMIX_Q6_K ? 208 : 0;
    at[1] = dtype == SEQMIX_Q5_1 || dtype == SEQMIX_Q4_K || dtype == SEQMIX_Q5_K ? 2 : -1;
}

/* Random bytes under scales that bring the values near `deviation`; plain dtypes as ever. */
static void fill_weight(struct call *call, struct draw *draw, const char *name, double deviation)
{
    const seqmix_tensor *t = check_named(call, name);
    const int64_t block = seqmix_dtype_block(t->dtype), size = (int64_t)seqmix_dtype_size(t->dtype);
    int64_t at[2];
    if (block == 1) {
        check_fill_gauss(call, draw, name, 0, deviation);
        return;
    }
    const double largest = t->dtype == SEQMIX_Q8_0 || t->dtype == SEQMIX_IQ4_NL ? 127
                           : t->dtype == SEQMIX_Q6_K                            ? 127 * 32
                           : t->dtype == SEQMIX_Q4_K || t->dtype == SEQMIX_Q5_K ? 63 * 16
                                                                                : 16;
    find_scales(t->dtype, at);
    for (int64_t row = 0; row < t->shape[0]; row++)
        for (int64_t i = 0; i < t->shape[1] / block; i++) {
            unsigned char *bytes =
                (unsigned char *)t->data + seqmix_dtype_bytes(t->dtype, row * t->stride[0]) + i * size;
            for (int64_t b = 0; b < size; b++)
                bytes[b] = (unsigned char)check_bits(&draw->rng);
            for (int k = 0; k < 2 && at[k] >= 0; k++) {
                const double scale = deviation * check_gauss(&draw->rng) * 2 / largest * (k == 0 ? 1 : 0.5);
                const uint16_t half = seqmix_f32_to_f16((float)scale);
                memcpy(bytes + at[k], &half, sizeof half);
            }
        }
}

static void build_linear(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    const seqmix_dtype x = call->x, weight = draw_weight(draw);
    const bool big = draw->name == CLASS_SIZES, narrow = check_chance(rng, 0.5), tall = draw->name == CLASS_LONG;
    const seqmix_dtype y = draw->name == CLASS_PARAMS ? check_param_dtype(draw, 1, x) : narrow ? x : SEQMIX_F32;
    const int64_t R = tall ? 1030 : draw->rows;
    int64_t I = draw_width(draw, weight, big);
    int64_t O = big ? CHECK_PICK(rng, 80, 129) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 65);
    if (tall) { /* rows and outputs beyond a task's, the first ones so large that they go past the caches */
        O = draw->variant % 2 == 0 ? 1032 : 136;
        if (I > 150) I = seqmix_dtype_block(weight) < 150 ? 128 : seqmix_dtype_block(weight);
    }
    if (R * O < 48 && R > 0) O += 48 / R;
    const int32_t invariant = (int32_t)check_below(rng, 2);
    const bool promised =
        draw->name < CLASS_FIRST_PROPERTY || R <= 16; /* that rows are independent, not being invariant */
    call->args.linear.invariant = tall ? draw->variant % 2 : promised ? invariant : 1;
    CHECK_DECLARE(call, "x", x, R, I);
    CHECK_DECLARE(call, "weight", weight, O, I);
    if (!check_absent(draw, 0)) CHECK_DECLARE(call, "bias", check_param_dtype(draw, 0, x), O);
    const bool residual = draw->name == CLASS_OPTIONAL ? draw->pool : !check_absent(draw, 1);
    if (residual || draw->name == CLASS_IN_PLACE) CHECK_DECLARE(call, "residual", y, R, O);
    CHECK_DECLARE(call, "y", y, R, O);
    if (draw->name == CLASS_IN_PLACE) call->alias[4] = 3;
    check_place(call, draw);

    check_fill_gauss(call, draw, "x", 0, 1);
    fill_weight(call, draw, "weight", 0.3);
    check_fill_gauss(call, draw, "bias", 0, 1);
    check_fill_gauss(call, draw, "residual", 0, 1);
}

const struct family check_linear = {
    .name = "linear",
    .value = "x",
    .fields = linear_fields,
    .n_fields = sizeof linear_fields / sizeof linear_fields[0],
    .classes = linear_classes,
    .n_classes = sizeof linear_classes / sizeof linear_classes[0],
    .build = build_linear,
};

static const struct field embed_fields[] = {
    {"table", offsetof(seqmix_embed_args, table), ROLE_IN, 0, 1},
    {"y", offsetof(seqmix_embed_args, y), ROLE_OUT, FIELD_ROWS | FIELD_EXACT, 1},
};

static const struct class_use embed_classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {6, 40, 200}, FORM_ROWS},  {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {4, 32, 32}, FORM_ROWS},  {CLASS_PARAMS, BOUND_ORDINARY, {11, 33, 33}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},      {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_OVERFLOW, BOUND_ORDINARY, {1, 4, 12}, FORM_ROWS},
};

static void build_embed(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_embed_args *args = &call->args.embed_rows;
    const int64_t R = draw->rows < CHECK_MAX_INTS ? draw->rows : CHECK_MAX_INTS - 1;
    const seqmix_dtype table = draw->name == CLASS_PARAMS ? draw_weight(draw) : call->x;
    const int64_t V = CHECK_PICK(rng, 1, 2, 17, 129), D = draw_width(draw, table, false);
    const seqmix_dtype y = (seqmix_dtype)(1 + (draw->name == CLASS_PARAMS ? draw->variant % 3 : check_below(rng, 3)));
    args->n_tokens = (int32_t)R;
    for (int64_t i = 0; i < R; i++)
        call->ints[i] = (int32_t)check_below(rng, V);
    CHECK_DECLARE(call, "table", table, V, D);
    CHECK_DECLARE(call, "y", y, R, D);
    check_place(call, draw);
    fill_weight(call, draw, "table", 1);
}

const struct family check_embed = {
    .name = "embed",
    .ints_offset = offsetof(seqmix_embed_args, tokens),
    .rows_offset = offsetof(seqmix_embed_args, n_tokens),
    .value = "table",
    .fields = embed_fields,
    .n_fields = sizeof embed_fields / sizeof embed_fields[0],
    .classes = embed_classes,
    .n_classes = sizeof embed_classes / sizeof embed_classes[0],
    .build = build_embed,
};
