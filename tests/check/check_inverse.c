/* SPDX-License-Identifier: MIT */
/* Generator of unit_lower_inverse: matrices [batch..., n, n]. Axis 0 is treated as rows: one matrix (or stack) each. */
#include <math.h>

#include "harness.h"

static const struct field fields[] = {
    {"a", offsetof(seqmix_inverse_args, a), ROLE_IN, FIELD_ROWS | FIELD_PARAM, 1},
    {"inv", offsetof(seqmix_inverse_args, inv), ROLE_OUT, FIELD_ROWS | FIELD_PARAM, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 60, 200}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 19, 19}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {4, 32, 32}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {3, 12, 40}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},
    {CLASS_DENORMAL, BOUND_ORDINARY, {1, 4, 8}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {3, 12, 40}, FORM_ROWS},
    {CLASS_PARALLEL, BOUND_HARD, {3, 16, 40}, FORM_ROWS},
    {CLASS_PARALLEL2, BOUND_HARD2, {3, 16, 40}, FORM_ROWS},
    {CLASS_RESIDUAL, BOUND_ORDINARY, {4, 20, 100}, FORM_ROWS},
};

/* beta * k_i.k_j of nearly parallel unit keys. */
static double key_product(struct draw *draw, double beta)
{
    static const double noise[4] = {0, 1e-3, 1e-2, 0.1};
    return beta * (1 - noise[draw->variant % 4] * check_uniform(&draw->rng));
}

static void build(struct call *call, struct draw *draw)
{
    static const int64_t sizes[19] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 151};
    struct rng *rng = &draw->rng;
    const bool parallel = draw->name == CLASS_PARALLEL || draw->name == CLASS_PARALLEL2,
               pair = draw->name >= CLASS_FIRST_PROPERTY;
    const int64_t n = draw->name == CLASS_SIZES ? sizes[draw->variant] : parallel ? 64 : sizes[check_below(rng, 15)];
    const int64_t outer = 1 + check_below(rng, 4), stack = 1 + check_below(rng, 3);
    const int64_t matrices = n < 8 ? outer + 48 / (n * n) : outer;
    const int64_t shape[6] = {matrices, stack, 1, n, n, 0};
    switch (pair || draw->name == CLASS_NEIGHBOURS ? 1 + check_below(rng, 3) : n < 8 ? 1 : check_below(rng, 4)) {
    case 0:
        CHECK_DECLARE(call, "a", call->x, n, n);
        break;
    case 1:
        CHECK_DECLARE(call, "a", call->x, matrices, n, n);
        break;
    case 2:
        CHECK_DECLARE(call, "a", call->x, matrices, stack, n, n);
        break;
    default:
        check_declare(call, "a", call->x, 5, shape);
        break;
    }
    seqmix_tensor *a = check_named(call, "a");
    check_declare(call, "inv", call->x, a->rank, a->shape);
    if (draw->name == CLASS_IN_PLACE) call->alias[1] = 0;
    check_place(call, draw);

    int64_t index[SEQMIX_MAX_RANK] = {0};
    const int row = a->rank - 2, column = a->rank - 1;
    do {
        double value = check_gauss(rng) * 0.7 / sqrt((double)n);
        if (draw->name == CLASS_PARALLEL) value = key_product(draw, 1);
        if (draw->name == CLASS_PARALLEL2) value = key_product(draw, draw->variant / 4 % 2 == 0 ? 2 : 1.5);
        check_put(a, check_offset(a, index), index[column] < index[row] ? value : (double)NAN);
    } while (check_next(a, index, 0, a->rank));
}

const struct family check_inverse = {
    .name = "inverse",
    .value = "a",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
