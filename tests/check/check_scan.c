/* SPDX-License-Identifier: MIT */
/* Generator of selective_scan_rows and selective_scan_step. R rows, D channels, N state, G groups. */
#include "harness.h"

static const struct field fields[] = {
    {"x", offsetof(seqmix_scan_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"dt", offsetof(seqmix_scan_args, dt), ROLE_IN, FIELD_ROWS, 1},
    {"A", offsetof(seqmix_scan_args, A), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"B", offsetof(seqmix_scan_args, B), ROLE_IN, FIELD_ROWS, 1},
    {"C", offsetof(seqmix_scan_args, C), ROLE_IN, FIELD_ROWS | FIELD_BROADCAST, 1},
    {"skip", offsetof(seqmix_scan_args, skip), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"dt_bias", offsetof(seqmix_scan_args, dt_bias), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"z", offsetof(seqmix_scan_args, z), ROLE_IN, FIELD_ROWS, 1},
    {"state", offsetof(seqmix_scan_args, state), ROLE_POOL, FIELD_ANY_ORDER, 1},
    {"y", offsetof(seqmix_scan_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {6, 60, 400}, FORM_BOTH},
    {CLASS_ROWS, BOUND_ORDINARY, {6, 40, 131}, FORM_BOTH},
    {CLASS_SIZES, BOUND_ORDINARY, {1, 3, 12}, FORM_BOTH},
    {CLASS_OPTIONAL, BOUND_ORDINARY, {6, 16, 16}, FORM_BOTH},
    {CLASS_KINDS, BOUND_ORDINARY, {2, 6, 6}, FORM_BOTH},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_BOTH},
    {CLASS_PARAMS, BOUND_ORDINARY, {3, 8, 8}, FORM_BOTH},
    {CLASS_POOL, BOUND_ORDINARY, {3, 6, 12}, FORM_BOTH},
    {CLASS_BATCH, BOUND_ORDINARY, {9, 40, 180}, FORM_BOTH},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_BOTH},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_BOTH},
    {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_BOTH},
    {CLASS_EXTREME, BOUND_ORDINARY, {2, 6, 24}, FORM_BOTH},
    {CLASS_CLAMP, BOUND_ORDINARY, {2, 6, 24}, FORM_BOTH},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {4, 18, 90}, FORM_BOTH},
    {CLASS_OVERFLOW, BOUND_ORDINARY, {1, 4, 12}, FORM_BOTH},
    {CLASS_NO_DECAY, BOUND_ORDINARY, {1, 3, 6}, FORM_BOTH},
    {CLASS_HUGE_DECAY, BOUND_HARD, {2, 6, 12}, FORM_BOTH},
    {CLASS_HARD_ROW, BOUND_HARD, {8, 48, 256}, FORM_ROWS},
    {CLASS_LONG, BOUND_HARD, {1, 1, 3}, FORM_ROWS},
};

static void fill_decay(struct call *call, struct draw *draw)
{
    static const double hard[4] = {100, 2661, 1e6, 1e9};
    seqmix_scan_args *args = &call->args.selective_scan_rows;
    switch (draw->name) {
    case CLASS_EXTREME:
        check_fill_extreme(call, draw, draw->variant % 2 == 0 ? "dt" : "z");
        break;
    case CLASS_NO_DECAY:
        check_fill(call, "A", 0);
        break;
    case CLASS_HUGE_DECAY:
        check_fill_uniform(call, draw, "A", -1e7, -1e4);
        break;
    case CLASS_CLAMP:
        check_fill_uniform(call, draw, draw->variant % 2 == 0 ? "A" : "dt", -1, 0.6);
        break;
    case CLASS_LONG:
        check_fill_uniform(call, draw, "dt", 1e-4, 3e-4);
        check_fill_uniform(call, draw, "A", -1.5, -0.5);
        break;
    case CLASS_HARD_ROW: {
        const int64_t row = draw->variant / 4;
        const double delta = hard[draw->variant % 4] / 1000;
        check_fill_gauss(call, draw, "x", 0, 100);
        check_fill_uniform(call, draw, "A", -1500, -1000);
        check_fill_uniform(call, draw, "dt", 1e-5, 1e-3);
        check_set_row(call, "dt", row, delta);
        check_scale_row(call, "x", row, 5e-4 / delta);
        args->dt_softplus = 0;
        break;
    }
    default:
        break;
    }
}

static void build(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_scan_args *args = &call->args.selective_scan_rows;
    const seqmix_dtype x = call->x;
    int64_t rest = draw->variant;
    const bool big = draw->name == CLASS_SIZES, raw = draw->name == CLASS_LONG || draw->name == CLASS_HARD_ROW;
    const int64_t R = draw->name == CLASS_LONG ? 10000 : draw->name == CLASS_HARD_ROW ? 80 : draw->rows;
    int64_t D = big ? CHECK_PICK(rng, 256, 384) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 32, 63, 64, 65);
    if (R * D < 48 && R > 0) D += 48 / R;
    if (raw) D = 6;
    args->dt_softplus = raw ? 0 : (int32_t)check_digit(draw, &rest, 2);
    const int64_t groups = check_digit(draw, &rest, 3);
    const int64_t G = groups == 0 || D % 2 != 0 ? 1 : groups == 1 ? 2 : D;
    const int64_t N = raw ? 8 : big ? 16 : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17);
    if (draw->name == CLASS_CLAMP && draw->variant % 2 != 0) args->dt_softplus = 0;
    if (raw) draw->absent |= 6u;

    CHECK_DECLARE(call, "x", x, R, D);
    CHECK_DECLARE(call, "dt", raw ? SEQMIX_F32 : check_param_dtype(draw, 0, x), R, D);
    CHECK_DECLARE(call, "A", SEQMIX_F32, D, N);
    CHECK_DECLARE(call, "B", x, R, G, N);
    CHECK_DECLARE(call, "C", x, R, G, N);
    if (!check_absent(draw, 0)) CHECK_DECLARE(call, "skip", check_param_dtype(draw, 1, x), D);
    if (!check_absent(draw, 1)) CHECK_DECLARE(call, "dt_bias", check_param_dtype(draw, 2, x), D);
    if (!check_absent(draw, 2) || draw->name == CLASS_EXTREME) CHECK_DECLARE(call, "z", x, R, D);
    if (draw->pool) CHECK_DECLARE(call, "state", draw->pool_dtype, 0, D, N);
    CHECK_DECLARE(call, "y", x, R, D);
    check_place(call, draw);

    check_fill_gauss(call, draw, "x", 0, 1);
    if (args->dt_softplus != 0)
        check_fill_gauss(call, draw, "dt", -1, 1);
    else
        check_fill_uniform(call, draw, "dt", 0.05, 0.5);
    check_fill_uniform(call, draw, "dt_bias", 0, 0.3);
    check_fill_uniform(call, draw, "A", -4, -0.2);
    const double few = R * G < CHECK_FEW ? 1 : 0; /* a lone C.B must not vanish by chance */
    check_fill_gauss(call, draw, "B", few, 1);
    check_fill_gauss(call, draw, "C", few, 1);
    check_fill_gauss(call, draw, "skip", 0, 1);
    check_fill_gauss(call, draw, "z", 0, 1);
    check_fill_pool(call, draw, 1);
    fill_decay(call, draw);
}

const struct family check_scan = {
    .name = "scan",
    .batch_offset = offsetof(seqmix_scan_args, batch),
    .value = "x",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
