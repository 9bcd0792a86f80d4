/* SPDX-License-Identifier: MIT */
/* Generators of the experimental linear (R rows, I inputs, O outputs) and embed_rows (V table rows, D channels). */
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
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},     {CLASS_PARAMS, BOUND_ORDINARY, {4, 12, 12}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {2, 8, 40}, FORM_ROWS},    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},     {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
};

static void build_linear(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    const seqmix_dtype x = call->x;
    const bool big = draw->name == CLASS_SIZES, narrow = check_chance(rng, 0.5);
    const seqmix_dtype weight =
        draw->name == CLASS_PARAMS ? (seqmix_dtype)(1 + draw->variant / 4) : (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3);
    const seqmix_dtype y = draw->name == CLASS_PARAMS ? check_param_dtype(draw, 1, x) : narrow ? x : SEQMIX_F32;
    const int64_t R = draw->rows, I = big ? CHECK_PICK(rng, 768, 1134, 2048)
                                          : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 151);
    int64_t O = big ? CHECK_PICK(rng, 80, 129) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 65);
    if (R * O < 48 && R > 0) O += 48 / R;
    CHECK_DECLARE(call, "x", x, R, I);
    CHECK_DECLARE(call, "weight", weight, O, I);
    if (!check_absent(draw, 0)) CHECK_DECLARE(call, "bias", check_param_dtype(draw, 0, x), O);
    const bool residual = draw->name == CLASS_OPTIONAL ? draw->pool : !check_absent(draw, 1);
    if (residual || draw->name == CLASS_IN_PLACE) CHECK_DECLARE(call, "residual", y, R, O);
    CHECK_DECLARE(call, "y", y, R, O);
    if (draw->name == CLASS_IN_PLACE) call->alias[4] = 3;
    check_place(call, draw);

    check_fill_gauss(call, draw, "x", 0, 1);
    check_fill_gauss(call, draw, "weight", 0, 0.3);
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
    {CLASS_LAYOUT, BOUND_ORDINARY, {4, 32, 32}, FORM_ROWS},  {CLASS_PARAMS, BOUND_ORDINARY, {3, 12, 12}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},      {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_OVERFLOW, BOUND_ORDINARY, {1, 4, 12}, FORM_ROWS},
};

static void build_embed(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_embed_args *args = &call->args.embed_rows;
    const int64_t R = draw->rows < CHECK_MAX_INTS ? draw->rows : CHECK_MAX_INTS - 1;
    const int64_t V = CHECK_PICK(rng, 1, 2, 17, 129), D = CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 151);
    const seqmix_dtype y = (seqmix_dtype)(1 + (draw->name == CLASS_PARAMS ? draw->variant % 3 : check_below(rng, 3)));
    args->n_tokens = (int32_t)R;
    for (int64_t i = 0; i < R; i++)
        call->ints[i] = (int32_t)check_below(rng, V);
    CHECK_DECLARE(call, "table", call->x, V, D);
    CHECK_DECLARE(call, "y", y, R, D);
    check_place(call, draw);
    check_fill_gauss(call, draw, "table", 0, 1);
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
