/* SPDX-License-Identifier: MIT */
/*
 * The rules that belong to single ops: options, relations between sizes, limits, gate kinds, workspace, NULL arguments. The
 * rules of every field are provoked by fields.c, those of aliasing by alias.c, those of batches by batch.c.
 */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct call call;
static seqmix_ctx *ctx;

static void setup(void)
{
    ctx = make_context(NULL);
}

static void teardown(void)
{
    seqmix_ctx_destroy(ctx);
}

/* One option set to one value. */
struct option {
    enum family family;
    size_t offset;
    bool is_float;
    int32_t integer;
    float number;
    const char *text;
};

#define INT(FAMILY, family, field, value, text)                                                                        \
    {                                                                                                                  \
        FAMILY, offsetof(seqmix_##family##_args, field), false, value, 0, text                                         \
    }
#define NUM(FAMILY, family, field, value, text)                                                                        \
    {                                                                                                                  \
        FAMILY, offsetof(seqmix_##family##_args, field), true, 0, value, text                                          \
    }

// clang-format off
static const struct option options[] = {
    INT(CONV, conv, activation, 2, "activation=2 is not in 0..1"),
    INT(CONV, conv, activation, -1, "activation=-1 is not in 0..1"),
    INT(SCAN, scan, dt_softplus, 2, "dt_softplus=2 is not in 0..1"),
    INT(SCAN, scan, dt_softplus, -1, "dt_softplus=-1 is not in 0..1"),
    INT(SSD, ssd, dt_softplus, 2, "dt_softplus=2 is not in 0..1"),
    INT(SSD, ssd, chunk, 8, "chunk=8 is none of 0, 16, 32, 64, 128, 256"),
    INT(SSD, ssd, chunk, 48, "chunk=48 is none of"),
    INT(SSD, ssd, chunk, 512, "chunk=512 is none of"),
    INT(SSD, ssd, chunk, -16, "chunk=-16 is none of"),
    INT(SSD, ssd, zero0, 1, "zero0=1, must be 0"),
    NUM(SSD, ssd, dt_min, -0.5f, "dt_min=-0.5, must be 0 or more"),
    NUM(SSD, ssd, dt_min, NAN, "dt_min=nan, must be 0 or more"),
    NUM(SSD, ssd, dt_min, INFINITY, "dt_min=inf, must be 0 or more, and finite"),
    NUM(SSD, ssd, dt_max, -0.5f, "dt_max=-0.5, must be 0 or more"),
    NUM(SSD, ssd, dt_max, NAN, "dt_max=nan, must be 0 or more"),
    NUM(SSD, ssd, dt_min, 20.0f, "dt_min=20 exceeds dt_max=10"),
    INT(DELTANET, deltanet, gate_kind, 5, "gate_kind=5 is not in 0..4"),
    INT(DELTANET, deltanet, gate_kind, -1, "gate_kind=-1 is not in 0..4"),
    INT(DELTANET, deltanet, beta_kind, 3, "beta_kind=3 is not in 0..2"),
    INT(DELTANET, deltanet, beta_kind, -1, "beta_kind=-1 is not in 0..2"),
    INT(DELTANET, deltanet, qk_l2norm, 2, "qk_l2norm=2 is not in 0..1"),
    INT(DELTANET, deltanet, head_map, 2, "head_map=2 is not in 0..1"),
    INT(DELTANET, deltanet, head_map, -1, "head_map=-1 is not in 0..1"),
    INT(DELTANET, deltanet, chunk, 100, "chunk=100 is none of"),
    INT(DELTANET, deltanet, zero0, -1, "zero0=-1, must be 0"),
    NUM(DELTANET, deltanet, eps, 0.0f, "eps=0, must be above 0"),
    NUM(DELTANET, deltanet, eps, -1e-6f, "eps=-1e-06, must be above 0"),
    NUM(DELTANET, deltanet, eps, NAN, "eps=nan, must be above 0"),
    NUM(DELTANET, deltanet, eps, INFINITY, "eps=inf, must be above 0 and finite"),
    NUM(DELTANET, deltanet, scale, -1.0f, "scale=-1, must be 0 or more"),
    NUM(DELTANET, deltanet, scale, NAN, "scale=nan, must be 0 or more"),
    NUM(DELTANET, deltanet, scale, INFINITY, "scale=inf, must be 0 or more, and finite"),
    INT(DELTANET, deltanet, gate_kind, SEQMIX_GATE_BOUNDED_SIGMOID, "gate_lower_bound=0, must be below 0"),
    INT(DELTANET, deltanet, gate_kind, SEQMIX_GATE_NONE, "gate is given, gate_kind=0 does not use it"),
    INT(DELTANET, deltanet, gate_kind, SEQMIX_GATE_LOG, "A is given, gate_kind=1 does not use it"),
    INT(DELTANET, deltanet, gate_kind, SEQMIX_GATE_ALPHA, "A is given, gate_kind=2 does not use it"),
    INT(INVERSE, inverse, zero0, 7, "zero0=7, must be 0"),
    INT(NORM, norm, group, -4, "group=-4 is negative"),
    INT(NORM, norm, group, 3, "group=3 does not divide D=8"),
    INT(NORM, norm, group, 16, "group=16 does not divide D=8"),
    INT(NORM, norm, norm_before_gate, 2, "norm_before_gate=2 is not in 0..1"),
    INT(NORM, norm, gate_act, 2, "gate_act=2 is not in 0..1"),
    INT(NORM, norm, weight_plus_one, -1, "weight_plus_one=-1 is not in 0..1"),
    NUM(NORM, norm, eps, 0.0f, "eps=0, must be above 0"),
    NUM(NORM, norm, eps, -1.0f, "eps=-1, must be above 0"),
    NUM(NORM, norm, eps, NAN, "eps=nan, must be above 0"),
    NUM(NORM, norm, eps, INFINITY, "eps=inf, must be above 0 and finite"),
    INT(LINEAR, linear, invariant, 2, "invariant=2 is not in 0..1"),
    INT(EMBED, embed, n_tokens, -1, "n_tokens=-1 is negative"),
};
// clang-format on

START_TEST(option)
{
    const struct option *o = &options[_i];
    for (int i = 0; i < N_OPS; i++) {
        if (ops[i].family != o->family) continue;
        call_init(&call, &ops[i]);
        char *at = (char *)&call.args + o->offset;
        if (o->is_float)
            memcpy(at, &o->number, sizeof o->number);
        else
            memcpy(at, &o->integer, sizeof o->integer);
        expect_refusal(ctx, &call, true, SEQMIX_ERR_INVALID_ARG, o->text);
    }
}
END_TEST

/* One deformation of a legal call. */
struct rule {
    void (*bend)(struct call *c);
    enum family family;
    bool query; /* the query sees it too */
    seqmix_status status;
    const char *text;
};

static void groups_do_not_divide(struct call *c)
{
    call_resize(c, 'G', 3);
}

static void no_groups(struct call *c)
{
    call_resize(c, 'G', 0);
}

static void state_too_large(struct call *c)
{
    call_resize(c, 'N', 257);
}

static void head_too_large(struct call *c)
{
    call_resize(c, 'P', 257);
}

static void conv_too_wide(struct call *c)
{
    call_resize(c, 'K', 17);
    call_resize(c, 'k', 16);
}

static void conv_without_width(struct call *c)
{
    call_resize(c, 'K', 0);
    call_resize(c, 'k', 0);
}

static void heads_do_not_divide(struct call *c)
{
    call_resize(c, 'k', 3);
}

static void no_key_heads(struct call *c)
{
    call_resize(c, 'k', 0);
}

static void key_too_large(struct call *c)
{
    call_resize(c, 'd', 257);
}

static void key_empty(struct call *c)
{
    call_resize(c, 'd', 0);
}

static void value_too_large(struct call *c)
{
    call_resize(c, 'e', 257);
}

static void bound_positive(struct call *c)
{
    c->args.deltanet.gate_kind = SEQMIX_GATE_BOUNDED_SIGMOID;
    c->args.deltanet.gate_lower_bound = 1;
}

static void bound_nan(struct call *c)
{
    c->args.deltanet.gate_kind = SEQMIX_GATE_BOUNDED_SIGMOID;
    c->args.deltanet.gate_lower_bound = NAN;
}

static void bound_infinite(struct call *c)
{
    c->args.deltanet.gate_kind = SEQMIX_GATE_BOUNDED_SIGMOID;
    c->args.deltanet.gate_lower_bound = -INFINITY;
}

static void bounded_without_rate(struct call *c)
{
    bound_positive(c);
    c->args.deltanet.gate_lower_bound = -5;
    c->args.deltanet.A.rank = 0;
}

static void softplus_without_rate(struct call *c)
{
    c->args.deltanet.A.rank = 0;
}

static void make_ready_gate(struct call *c, int32_t kind)
{
    c->args.deltanet.gate_kind = kind;
    c->args.deltanet.A.rank = c->args.deltanet.dt_bias.rank = 0;
}

static void log_without_gate(struct call *c)
{
    make_ready_gate(c, SEQMIX_GATE_LOG);
    c->args.deltanet.gate.rank = 0;
}

static void alpha_with_bias(struct call *c)
{
    const int32_t rank = c->args.deltanet.dt_bias.rank;
    make_ready_gate(c, SEQMIX_GATE_ALPHA);
    c->args.deltanet.dt_bias.rank = rank;
}

static void make_16_bit(struct call *c)
{
    for (const struct field *f = call_fields(c); f->name != NULL; f++)
        if ((f->traits & F_X) != 0) call_tensor(c, f)->dtype = SEQMIX_BF16;
    c->args.deltanet.gate.dtype = SEQMIX_BF16;
}

static void log_gate_16_bit(struct call *c)
{
    make_ready_gate(c, SEQMIX_GATE_LOG);
    make_16_bit(c);
}

static void alpha_16_bit(struct call *c)
{
    make_ready_gate(c, SEQMIX_GATE_ALPHA);
    make_16_bit(c);
}

static void bias_per_channel_of_scalar_gate(struct call *c)
{
    c->args.deltanet.gate.rank = 2;
    make_dense(&c->args.deltanet.gate);
}

static void matrix_not_square(struct call *c)
{
    c->args.inverse.a.shape[2] = c->args.inverse.inv.shape[2] = 2;
}

static void matrix_empty(struct call *c)
{
    call_resize(c, 'n', 0);
}

static void inverse_rank(struct call *c)
{
    c->args.inverse.a.rank = 2;
}

static void weight_size(struct call *c)
{
    c->args.norm.weight.shape[0] = 2;
}

static void weight_of_a_group_without_groups(struct call *c)
{
    c->args.norm.group = 0;
    c->args.norm.weight.shape[0] = 4;
}

static void residual_dtype(struct call *c)
{
    c->args.linear.x.dtype = c->args.linear.y.dtype = SEQMIX_F16;
}

static void tokens_missing(struct call *c)
{
    c->args.embed.tokens = NULL;
}

static void token_negative(struct call *c)
{
    c->tokens[4] = -1;
}

static void token_too_large(struct call *c)
{
    c->tokens[5] = 9;
}

static void too_many_tokens(struct call *c)
{
    c->args.embed.n_tokens = 7;
}

static void too_many_rows(struct call *c)
{
    call_resize(c, 'R', (int64_t)INT32_MAX + 1);
}

// clang-format off
static const struct rule rules[] = {
    {groups_do_not_divide, SCAN, true, SEQMIX_ERR_SHAPE, "B.shape[1]=3 does not divide D=8"},
    {groups_do_not_divide, SSD, true, SEQMIX_ERR_SHAPE, "B.shape[1]=3 does not divide H=4"},
    {no_groups, SCAN, true, SEQMIX_ERR_SHAPE, "B.shape[1]=0 does not divide D=8"},
    {no_groups, SSD, true, SEQMIX_ERR_SHAPE, "B.shape[1]=0 does not divide H=4"},
    {state_too_large, SCAN, true, SEQMIX_ERR_UNSUPPORTED, "N=257 exceeds the limit 256"},
    {state_too_large, SSD, true, SEQMIX_ERR_UNSUPPORTED, "N=257 exceeds the limit 256"},
    {head_too_large, SSD, true, SEQMIX_ERR_UNSUPPORTED, "P=257 exceeds the limit 256"},
    {conv_too_wide, CONV, true, SEQMIX_ERR_UNSUPPORTED, "K=17 exceeds the limit 16"},
    {conv_without_width, CONV, true, SEQMIX_ERR_SHAPE, "weight.shape[1]=0, K must be 1 to 16"},
    {heads_do_not_divide, DELTANET, true, SEQMIX_ERR_SHAPE, "k.shape[1]=3 does not divide HV=4"},
    {no_key_heads, DELTANET, true, SEQMIX_ERR_SHAPE, "k.shape[1]=0 does not divide HV=4"},
    {key_too_large, DELTANET, true, SEQMIX_ERR_UNSUPPORTED, "DK=257 exceeds the limit 256"},
    {key_empty, DELTANET, true, SEQMIX_ERR_SHAPE, "k.shape[2]=0, DK must be 1 to 256"},
    {value_too_large, DELTANET, true, SEQMIX_ERR_UNSUPPORTED, "DV=257 exceeds the limit 256"},
    {bound_positive, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "gate_lower_bound=1, must be below 0"},
    {bound_nan, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "gate_lower_bound=nan, must be below 0"},
    {bound_infinite, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "gate_lower_bound=-inf, must be below 0 and finite"},
    {bounded_without_rate, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "A is missing (its rank is 0), gate_kind=4 needs it"},
    {softplus_without_rate, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "A is missing (its rank is 0), gate_kind=3 needs it"},
    {log_without_gate, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "gate is missing (its rank is 0), gate_kind=1 needs it"},
    {alpha_with_bias, DELTANET, true, SEQMIX_ERR_INVALID_ARG, "dt_bias is given, gate_kind=2 does not use it"},
    {log_gate_16_bit, DELTANET, true, SEQMIX_ERR_DTYPE, "gate.dtype=bf16, must be f32"},
    {alpha_16_bit, DELTANET, true, SEQMIX_ERR_DTYPE, "gate.dtype=bf16, must be f32"},
    {bias_per_channel_of_scalar_gate, DELTANET, true, SEQMIX_ERR_SHAPE, "dt_bias.rank=2, must be 1 with gate.rank=2"},
    {matrix_not_square, INVERSE, true, SEQMIX_ERR_SHAPE, "a.shape[2]=2 differs from a.shape[1]=3"},
    {matrix_empty, INVERSE, true, SEQMIX_ERR_SHAPE, "a.shape[2]=0, n must be 1 or more"},
    {inverse_rank, INVERSE, true, SEQMIX_ERR_SHAPE, "inv.rank=3, must be 2"},
    {weight_size, NORM, true, SEQMIX_ERR_SHAPE, "weight.shape[0]=2 is neither D=8 nor the group size 4"},
    {weight_of_a_group_without_groups, NORM, true, SEQMIX_ERR_SHAPE, "weight.shape[0]=4 is neither D=8 nor the group size 8"},
    {residual_dtype, LINEAR, true, SEQMIX_ERR_DTYPE, "residual.dtype=f32 differs from y.dtype=f16"},
    {tokens_missing, EMBED, false, SEQMIX_ERR_INVALID_ARG, "tokens is NULL, n_tokens=6"},
    {token_negative, EMBED, false, SEQMIX_ERR_INVALID_ARG, "tokens[4]=-1 is not in [0, 9)"},
    {token_too_large, EMBED, false, SEQMIX_ERR_INVALID_ARG, "tokens[5]=9 is not in [0, 9)"},
    {too_many_tokens, EMBED, true, SEQMIX_ERR_SHAPE, "y.shape[0]=6 differs from n_tokens=7"},
    {too_many_rows, CONV, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
    {too_many_rows, SCAN, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
    {too_many_rows, SSD, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
    {too_many_rows, DELTANET, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
    {too_many_rows, NORM, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
    {too_many_rows, LINEAR, true, SEQMIX_ERR_UNSUPPORTED, "R=2147483648 exceeds the limit 2147483647"},
};
// clang-format on

START_TEST(rule)
{
    for (int i = 0; i < N_OPS; i++) {
        if (ops[i].family != rules[_i].family) continue;
        call_init(&call, &ops[i]);
        rules[_i].bend(&call);
        expect_refusal(ctx, &call, rules[_i].query, rules[_i].status, rules[_i].text);
    }
}
END_TEST

/* A workspace one byte short, none, or misaligned. Larger than asked is fine. */
START_TEST(workspace)
{
    static _Alignas(SEQMIX_WORKSPACE_ALIGN) unsigned char memory[(1 << 20) + SEQMIX_WORKSPACE_ALIGN];
    static unsigned char before[ARENA];
    size_t bytes;
    call_init(&call, &ops[_i]);
    ck_assert_int_eq(call_size(ctx, &call, &bytes), SEQMIX_OK);
    ck_assert_uint_lt(bytes, sizeof memory - SEQMIX_WORKSPACE_ALIGN);
    if (ops[_i].step) ck_assert_uint_eq(bytes, 0);
    if (bytes > 0) {
        memcpy(before, call.arena, ARENA);
        ck_assert_int_eq(call_op(ctx, &call, memory, bytes - 1), SEQMIX_ERR_WORKSPACE);
        ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "workspace_bytes="));
        ck_assert_int_eq(call_op(ctx, &call, memory, 0), SEQMIX_ERR_WORKSPACE);
        ck_assert_int_eq(call_op(ctx, &call, NULL, bytes), SEQMIX_ERR_WORKSPACE);
        for (size_t off = 1; off < SEQMIX_WORKSPACE_ALIGN; off *= 2) {
            ck_assert_int_eq(call_op(ctx, &call, memory + off, bytes), SEQMIX_ERR_WORKSPACE);
            ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "not aligned to 256"));
        }
        ck_assert_mem_eq(before, call.arena, ARENA);
    } else {
        ck_assert_int_eq(call_op(ctx, &call, NULL, 0), SEQMIX_OK);
        call_init(&call, &ops[_i]);
    }
    ck_assert_int_eq(call_op(ctx, &call, memory, bytes), SEQMIX_OK);
    memcpy(before, call.arena, ARENA);
    call_init(&call, &ops[_i]);
    memset(memory, 0xff, sizeof memory);
    ck_assert_int_eq(call_op(ctx, &call, memory, sizeof memory), SEQMIX_OK);
    ck_assert_mem_eq(before, call.arena, ARENA);
}
END_TEST

/* NULL where an argument must be. */
START_TEST(null_arguments)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    int64_t value;
    call_init(&call, &ops[_i]);
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, NULL, SEQMIX_QUERY_GRAIN, &value), SEQMIX_ERR_INVALID_ARG);
    ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "args is NULL"));
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, &call.args, SEQMIX_QUERY_GRAIN, NULL), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, &call.args, 99, &value), SEQMIX_ERR_UNSUPPORTED);
    ck_assert_int_eq(seqmix_op_query(ctx, 0, &call.args, SEQMIX_QUERY_GRAIN, &value), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(api->op_query(NULL, ops[_i].id, &call.args, SEQMIX_QUERY_GRAIN, &value), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(call_size(ctx, &call, NULL), SEQMIX_ERR_INVALID_ARG);
    expect_success(ctx, &call);
}
END_TEST

START_TEST(null_args_and_context)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    size_t bytes;
    ck_assert_int_eq(seqmix_ssd_step(ctx, NULL, NULL, 0), SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(seqmix_last_error(ctx), "ssd_step: args is NULL");
    ck_assert_int_eq(seqmix_gated_rms_norm_rows_workspace(ctx, NULL, &bytes), SEQMIX_ERR_INVALID_ARG);
    call_init(&call, &ops[0]);
    ck_assert_int_eq(api->short_conv_rows(NULL, &call.args.conv, NULL, 0), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(api->short_conv_rows_workspace(NULL, &call.args.conv, &bytes), SEQMIX_ERR_INVALID_ARG);
    seqmix_ctx_destroy(NULL);
}
END_TEST

START_TEST(status_names)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    static const struct {
        seqmix_status status;
        const char *name;
    } names[] = {{SEQMIX_OK, "SEQMIX_OK"},
                 {SEQMIX_ERR_INVALID_ARG, "SEQMIX_ERR_INVALID_ARG"},
                 {SEQMIX_ERR_SHAPE, "SEQMIX_ERR_SHAPE"},
                 {SEQMIX_ERR_STRIDE, "SEQMIX_ERR_STRIDE"},
                 {SEQMIX_ERR_DTYPE, "SEQMIX_ERR_DTYPE"},
                 {SEQMIX_ERR_ALIAS, "SEQMIX_ERR_ALIAS"},
                 {SEQMIX_ERR_STRUCT_TOO_NEW, "SEQMIX_ERR_STRUCT_TOO_NEW"},
                 {SEQMIX_ERR_UNSUPPORTED, "SEQMIX_ERR_UNSUPPORTED"},
                 {SEQMIX_ERR_UNAVAILABLE, "SEQMIX_ERR_UNAVAILABLE"},
                 {SEQMIX_ERR_OUT_OF_MEMORY, "SEQMIX_ERR_OUT_OF_MEMORY"},
                 {SEQMIX_ERR_WORKSPACE, "SEQMIX_ERR_WORKSPACE"},
                 {SEQMIX_ERR_BACKEND, "SEQMIX_ERR_BACKEND"},
                 {SEQMIX_ERR_INTERNAL, "SEQMIX_ERR_INTERNAL"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_str_eq(seqmix_status_name(api, names[i].status), names[i].name);
    ck_assert_ptr_nonnull(seqmix_status_name(api, -7));
    ck_assert_ptr_nonnull(seqmix_status_name(api, INT32_MAX));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors");
    TCase *tcase = tcase_create("rules of single ops");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, option, 0, (int)(sizeof options / sizeof options[0]));
    tcase_add_loop_test(tcase, rule, 0, (int)(sizeof rules / sizeof rules[0]));
    tcase_add_loop_test(tcase, workspace, 0, N_OPS);
    tcase_add_loop_test(tcase, null_arguments, 0, N_OPS);
    tcase_add_test(tcase, null_args_and_context);
    tcase_add_test(tcase, status_names);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
