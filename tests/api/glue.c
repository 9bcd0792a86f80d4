/* SPDX-License-Identifier: MIT */
/*
 * The ops that join the mixers into a model (rope_rows, attention_rows, moe_route, act_rows, moe_experts, argmax): every rule
 * of theirs broken once, with its sentence, and nothing written; what the header allows, accepted. Fields in a loop, the rest
 * as a table of deformations of one small legal call.
 */
#define SEQMIX_EXPERIMENTAL
#include <seqmix/seqmix.h>

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum op { ROPE, ATTENTION, ROUTE, ACT, MOE, ARGMAX, N_OPS };
enum { ARENA = 1 << 14, OPTIONAL = 1, FREE_LAST = 2, ANY_DTYPE = 4 };

static const char *const names[N_OPS] = {"rope_rows", "attention_rows", "moe_route",
                                         "act_rows",  "moe_experts",    "argmax"};

struct field {
    const char *name;
    size_t offset;
    unsigned traits;
    int rank;
    int64_t shape[4];
};

// clang-format off
#define AT(family, field) #field, offsetof(seqmix_##family##_args, field)
static const struct field fields[N_OPS][8] = {
    [ROPE] = {{AT(rope, x), 0, 3, {6, 2, 8}}, {AT(rope, y), 0, 3, {6, 2, 8}}},
    [ATTENTION] = {{AT(attention, q), 0, 3, {6, 4, 8}}, {AT(attention, k), 0, 3, {6, 2, 8}}, {AT(attention, v), 0, 3, {6, 2, 8}},
                   {AT(attention, gate), OPTIONAL, 3, {6, 4, 8}}, {AT(attention, k_pages), ANY_DTYPE, 4, {5, 3, 2, 8}},
                   {AT(attention, v_pages), ANY_DTYPE, 4, {5, 3, 2, 8}}, {AT(attention, y), 0, 3, {6, 4, 8}}},
    [ROUTE] = {{AT(route, logits), 0, 2, {6, 8}}, {AT(route, bias), OPTIONAL | FREE_LAST, 1, {8}},
               {AT(route, ids), 0, 2, {6, 3}}, {AT(route, weights), 0, 2, {6, 3}}},
    [ACT] = {{AT(act, a), 0, 2, {6, 8}}, {AT(act, b), 0, 2, {6, 8}}, {AT(act, y), 0, 2, {6, 8}}},
    [MOE] = {{AT(moe, x), 0, 2, {6, 8}}, {AT(moe, ids), 0, 2, {6, 3}}, {AT(moe, weights), 0, 2, {6, 3}},
             {AT(moe, gate), ANY_DTYPE, 3, {8, 5, 8}}, {AT(moe, up), ANY_DTYPE, 3, {8, 5, 8}}, {AT(moe, down), ANY_DTYPE, 3, {8, 7, 5}},
             {AT(moe, y), 0, 2, {6, 7}}},
    [ARGMAX] = {{AT(argmax, x), 0, 2, {6, 8}}, {AT(argmax, index), FREE_LAST, 1, {6}}},
};
// clang-format on

union args {
    seqmix_rope_args rope;
    seqmix_attention_args attention;
    seqmix_route_args route;
    seqmix_act_args act;
    seqmix_moe_args moe;
    seqmix_argmax_args argmax;
};

static struct call {
    enum op op;
    union args args;
    seqmix_batch batch;
    int32_t row_begin[3], start[2], pages[4], positions[6];
    _Alignas(64) unsigned char arena[ARENA];
} call;
static seqmix_ctx *ctx;

static void setup(void)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    ck_assert_int_eq(seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, NULL, 0), SEQMIX_OK);
}

static void teardown(void)
{
    seqmix_ctx_destroy(ctx);
}

static seqmix_tensor *tensor(const struct field *f)
{
    return (seqmix_tensor *)(void *)((char *)&call.args + f->offset);
}

static bool is_index(const struct field *f)
{
    return strcmp(f->name, "ids") == 0 || strcmp(f->name, "index") == 0;
}

/* The op's legal call: two sequences of 2 and 4 rows at positions 1 and 0, three of eight experts a row. */
static void fresh(enum op op)
{
    static const size_t sizes[N_OPS] = {sizeof(seqmix_rope_args),  sizeof(seqmix_attention_args),
                                        sizeof(seqmix_route_args), sizeof(seqmix_act_args),
                                        sizeof(seqmix_moe_args),   sizeof(seqmix_argmax_args)};
    size_t used = 64;
    memset(&call, 0, sizeof call);
    memset(call.arena, 0xa5, ARENA);
    call.op = op;
    call.args.rope.struct_size = (uint32_t)sizes[op];
    for (const struct field *f = fields[op]; f->name != NULL; f++) {
        seqmix_tensor *t = tensor(f);
        int64_t count = 1;
        *t =
            (seqmix_tensor){.data = call.arena + used, .dtype = is_index(f) ? SEQMIX_I32 : SEQMIX_F32, .rank = f->rank};
        for (int axis = f->rank - 1; axis >= 0; axis--) {
            t->shape[axis] = f->shape[axis];
            t->stride[axis] = count;
            count *= f->shape[axis];
        }
        for (int64_t i = 0; i < count; i++) {
            if (is_index(f))
                ((int32_t *)t->data)[i] = (int32_t)(i * 3 % 8);
            else
                ((float *)t->data)[i] = (float)(i * 37 % 64 - 32) / 64;
        }
        used += ((size_t)count * 4 + 127) / 64 * 64;
    }
    ck_assert_uint_le(used, ARENA);
    call.row_begin[1] = 2, call.row_begin[2] = 6;
    call.start[0] = 1;
    call.pages[0] = 4, call.pages[1] = 9, call.pages[2] = 0, call.pages[3] = 2; /* page 9 is not reached */
    call.batch = (seqmix_batch){.struct_size = sizeof call.batch, .n_seqs = 2, .row_begin = call.row_begin};
    if (op == ROPE) call.args.rope.theta = 1e4f, call.args.rope.positions = call.positions;
    if (op == ROUTE) call.args.route.kind = SEQMIX_ROUTE_SIGMOID;
    if (op != ATTENTION) return;
    call.args.attention.max_pages = 2;
    call.args.attention.page_table = call.pages;
    call.args.attention.start = call.start;
    call.args.attention.batch = &call.batch;
}

/* Query (workspace NULL and bytes given) or call. */
static seqmix_status run(size_t *bytes, void *workspace, size_t size)
{
    switch (call.op) {
#define CASE(OP, name, family)                                                                                         \
    case OP:                                                                                                           \
        return bytes != NULL ? seqmix_##name##_workspace(ctx, &call.args.family, bytes)                                \
                             : seqmix_##name(ctx, &call.args.family, workspace, size);
        CASE(ROPE, rope_rows, rope)
        CASE(ATTENTION, attention_rows, attention)
        CASE(ROUTE, moe_route, route)
        CASE(ACT, act_rows, act)
        CASE(MOE, moe_experts, moe)
        CASE(ARGMAX, argmax, argmax)
    default:
        abort();
    }
}

static void accept(void)
{
    size_t bytes = 0;
    ck_assert_msg(run(&bytes, NULL, 0) == SEQMIX_OK, "%s", seqmix_last_error(ctx));
    void *workspace =
        aligned_alloc(SEQMIX_WORKSPACE_ALIGN, (bytes / SEQMIX_WORKSPACE_ALIGN + 1) * SEQMIX_WORKSPACE_ALIGN);
    ck_assert_msg(run(NULL, workspace, bytes) == SEQMIX_OK, "%s", seqmix_last_error(ctx));
    free(workspace);
}

static void refuse(bool query, seqmix_status expected, const char *text)
{
    static unsigned char before[ARENA];
    static _Alignas(SEQMIX_WORKSPACE_ALIGN) unsigned char workspace[1 << 20];
    size_t bytes = 0;
    memcpy(before, call.arena, ARENA);
    if (query)
        ck_assert_msg(run(&bytes, NULL, 0) == expected, "%s, %s: the query said \"%s\"", names[call.op], text,
                      seqmix_last_error(ctx));
    const seqmix_status status = run(NULL, workspace, sizeof workspace);
    const char *message = seqmix_last_error(ctx);
    ck_assert_msg(status == expected && strstr(message, text) != NULL && strstr(message, names[call.op]) == message,
                  "%s, \"%s\": %d, \"%s\"", names[call.op], text, (int)status, message);
    ck_assert_msg(memcmp(before, call.arena, ARENA) == 0, "%s, %s: a refused call wrote", names[call.op], text);
}

static const char *text(const struct field *f, const char *rest)
{
    static char buffer[96];
    memset(buffer, 0, sizeof buffer);
    strncat(buffer, f->name, 20);
    strncat(buffer, rest, 60);
    return buffer;
}

/* Presence, rank, dtype, shape, strides, data of every field. */
START_TEST(every_field)
{
    for (const struct field *f = fields[_i]; f->name != NULL; f++) {
        const int last = f->rank - 1;
        fresh((enum op)_i);
        tensor(f)->rank = 0;
        if ((f->traits & OPTIONAL) != 0)
            accept();
        else
            refuse(true, SEQMIX_ERR_INVALID_ARG, text(f, " is missing (its rank is 0)"));
        fresh((enum op)_i);
        tensor(f)->rank = f->rank - 1 > 0 ? f->rank - 1 : 5;
        refuse(true, SEQMIX_ERR_SHAPE, text(f, ".rank="));
        fresh((enum op)_i);
        tensor(f)->dtype = is_index(f) ? SEQMIX_F32 : SEQMIX_I32;
        refuse(true, SEQMIX_ERR_DTYPE, text(f, ".dtype="));
        if (!is_index(f) && (f->traits & ANY_DTYPE) == 0 && f != fields[_i]) {
            const bool wide = _i == MOE && strcmp(f->name, "y") == 0;
            fresh((enum op)_i);
            tensor(f)->dtype = SEQMIX_BF16;
            refuse(true, SEQMIX_ERR_DTYPE, text(f, wide ? ".dtype=bf16, must be f32 or x.dtype=f32" : ".dtype=bf16"));
        }
        fresh((enum op)_i);
        tensor(f)->shape[0] = -1;
        refuse(true, SEQMIX_ERR_SHAPE, text(f, ".shape[0]=-1 is negative"));
        fresh((enum op)_i);
        tensor(f)->stride[0] = -1;
        refuse(true, SEQMIX_ERR_STRIDE, text(f, ".stride[0]=-1 is negative"));
        if ((f->traits & FREE_LAST) == 0) {
            fresh((enum op)_i);
            tensor(f)->stride[last] = 2;
            refuse(true, SEQMIX_ERR_STRIDE, ", must be 1");
        }
        fresh((enum op)_i);
        tensor(f)->data = NULL;
        refuse(false, SEQMIX_ERR_INVALID_ARG, text(f, ".data is NULL"));
        fresh((enum op)_i);
        tensor(f)->data = (char *)tensor(f)->data + 1;
        refuse(false, SEQMIX_ERR_INVALID_ARG, text(f, ".data is not aligned"));
    }
}
END_TEST

/* ---------------------------------------------------------------- rules of single ops */

/* One number of the args, or of an array of the call, set to one value. */
struct rule {
    enum op op;
    void *at;
    double value;
    int kind; /* 0: int32, 1: float, 2: int64, 3: a pointer to be NULL */
    bool query;
    seqmix_status status;
    const char *text;
};

static struct rule rule_of(int i)
{
    union args *a = &call.args;
    const seqmix_status invalid = SEQMIX_ERR_INVALID_ARG;
    const struct rule rules[] = {
        {ROPE, &a->rope.pairing, 2, 0, true, invalid, "pairing=2 is not in 0..1"},
        {ROPE, &a->rope.n_dims, 10, 0, true, invalid, "n_dims=10 (0 = D), must be even and at most D=8"},
        {ROPE, &a->rope.n_dims, 3, 0, true, invalid, "n_dims=3 (0 = D)"},
        {ROPE, &a->rope.n_dims, -2, 0, true, invalid, "n_dims=-2 (0 = D)"},
        {ROPE, &a->rope.theta, 0, 1, true, invalid, "theta=0, must be above 0"},
        {ROPE, &a->rope.theta, (double)NAN, 1, true, invalid, "theta=nan, must be above 0"},
        {ROPE, &a->rope.freq_scale, -1, 1, true, invalid, "freq_scale=-1, must be 0 or more"},
        {ROPE, &a->rope.zero0, 1, 0, true, invalid, "zero0=1, must be 0"},
        {ROPE, &call.positions[4], -7, 0, false, invalid, "positions[4]=-7 is negative"},
        {ROPE, &a->rope.positions, 0, 3, false, invalid, "positions is NULL, R=6"},
        {ROPE, &a->rope.y.shape[1], 3, 2, true, SEQMIX_ERR_SHAPE, "y.shape[1]=3 differs from H=2"},
        {ATTENTION, &a->attention.max_pages, 0, 0, true, invalid, "max_pages=0, must be 1 or more"},
        {ATTENTION, &a->attention.scale, -1, 1, true, invalid, "scale=-1, must be 0 or more"},
        {ATTENTION, &a->attention.zero0, 5, 0, true, invalid, "zero0=5, must be 0"},
        {ATTENTION, &a->attention.page_table, 0, 3, false, invalid, "page_table is NULL"},
        {ATTENTION, &a->attention.start, 0, 3, false, invalid, "start is NULL"},
        {ATTENTION, &call.start[1], -1, 0, false, invalid, "start[1]=-1 is negative"},
        {ATTENTION, &call.start[1], 3, 0, false, invalid,
         "start[1]=3 and 4 rows exceed the 6 positions of max_pages=2"},
        {ATTENTION, &call.pages[3], 5, 0, false, invalid, "page_table[1][1]=5 is not in [0, 5)"},
        {ATTENTION, &call.pages[0], -1, 0, false, invalid, "page_table[0][0]=-1 is not in [0, 5)"},
        {ATTENTION, &call.batch.n_checkpoints, 1, 0, true, invalid, "n_checkpoints=1, but there is no state pool"},
        {ATTENTION, &call.row_begin[1], 7, 0, false, invalid, "row_begin[1]=7 exceeds R=6"},
        {ATTENTION, &a->attention.v_pages.shape[0], 4, 2, true, SEQMIX_ERR_SHAPE,
         "v_pages.shape[0]=4 differs from n_pages=5"},
        {ROUTE, &a->route.kind, 2, 0, true, invalid, "kind=2 is not in 0..1"},
        {ROUTE, &a->route.kind, SEQMIX_ROUTE_SOFTMAX, 0, true, invalid, "bias is given, kind=0 does not use it"},
        {ROUTE, &a->route.renormalise, 2, 0, true, invalid, "renormalise=2 is not in 0..1"},
        {ROUTE, &a->route.scale, (double)INFINITY, 1, true, invalid, "scale=inf, must be 0 or more"},
        {ROUTE, &a->route.n_group, 3, 0, true, invalid, "n_group=3 does not divide E=8"},
        {ROUTE, &a->route.topk_group, 2, 0, true, invalid, "topk_group=2 is not in 1..1"},
        {ROUTE, &a->route.n_group, 8, 0, true, SEQMIX_OK, ""},
        {ACT, &a->act.kind, 4, 0, true, invalid, "kind=4 is not in 0..3"},
        {ACT, &a->act.kind, SEQMIX_ACT_ROWS_RELU2, 0, true, invalid, "b is given, kind=1 does not use it"},
        {ACT, &a->act.b.rank, 0, 0, true, invalid, "b is missing (its rank is 0), kind=0 needs it"},
        {ACT, &a->act.a.shape[1], 2, 2, true, SEQMIX_ERR_SHAPE, "a.shape[1]=2 is not D=8 or 1"},
        {ACT, &a->act.a.shape[1], 1, 2, true, SEQMIX_OK, ""},
        {MOE, &a->moe.activation, 3, 0, true, invalid, "activation=3 is not in 0..2"},
        {MOE, &a->moe.activation, SEQMIX_ACT_ROWS_SILU, 0, true, invalid,
         "gate is given, activation=2 does not use it"},
        {MOE, &a->moe.accumulate, -1, 0, true, invalid, "accumulate=-1 is not in 0..1"},
        {MOE, &a->moe.invariant, 2, 0, true, invalid, "invariant=2 is not in 0..1"},
        {MOE, (int32_t *)a->moe.ids.data + 4, 8, 0, false, invalid, "ids[1][1]=8 is not in [0, 8)"},
        {MOE, (int32_t *)a->moe.ids.data + 4, -1, 0, false, invalid, "ids[1][1]=-1 is not in [0, 8)"},
        {MOE, (int32_t *)a->moe.ids.data + 4, 1, 0, false, invalid, "ids[1] holds 1 twice, at 0 and 1"},
        {MOE, &a->moe.down.shape[2], 4, 2, true, SEQMIX_ERR_SHAPE, "down.shape[2]=4 differs from F=5"},
        {ARGMAX, &a->argmax.zero0, 1, 0, true, invalid, "zero0=1, must be 0"},
        {ARGMAX, &a->argmax.index.shape[0], 5, 2, true, SEQMIX_ERR_SHAPE, "index.shape[0]=5 differs from R=6"},
    };
    const int n = (int)(sizeof rules / sizeof rules[0]);
    return i < n ? rules[i] : (struct rule){.op = N_OPS};
}

START_TEST(single_rules)
{
    for (int i = 0;; i++) {
        struct rule rule = rule_of(i);
        if (rule.op == N_OPS) break;
        fresh(rule.op);
        rule = rule_of(i); /* its address, now that the call is laid out */
        if (rule.kind == 0) *(int32_t *)rule.at = (int32_t)rule.value;
        if (rule.kind == 1) *(float *)rule.at = (float)rule.value;
        if (rule.kind == 2) *(int64_t *)rule.at = (int64_t)rule.value;
        if (rule.kind == 3) memset(rule.at, 0, sizeof(void *));
        if (rule.status == SEQMIX_OK)
            accept();
        else
            refuse(rule.query, rule.status, rule.text);
    }
}
END_TEST

static void too_large(enum op op, const char *axis_text)
{
    refuse(true, SEQMIX_ERR_UNSUPPORTED, axis_text);
    ck_assert_int_eq(call.op, op);
}

START_TEST(limits)
{
    fresh(ROPE);
    call.args.rope.x.shape[2] = call.args.rope.y.shape[2] = 258;
    too_large(ROPE, "D=258 exceeds the limit 256");
    fresh(ATTENTION);
    seqmix_tensor *t = &call.args.attention.q;
    for (int i = 0; i < 7; i++) /* q, k, v, gate, k_pages, v_pages, y */
        t[i].shape[t[i].rank - 1] = 257;
    too_large(ATTENTION, "D=257 exceeds the limit 256");
    fresh(ATTENTION);
    call.args.attention.k.shape[1] = call.args.attention.v.shape[1] = 3;
    call.args.attention.k_pages.shape[2] = call.args.attention.v_pages.shape[2] = 3;
    refuse(true, SEQMIX_ERR_SHAPE, "k.shape[1]=3 does not divide HQ=4");
    fresh(ROUTE);
    call.args.route.logits.shape[1] = call.args.route.bias.shape[0] = 1025;
    too_large(ROUTE, "E=1025 exceeds the limit 1024");
    fresh(ROUTE);
    call.args.route.n_group = 4;
    call.args.route.topk_group = 1;
    refuse(true, SEQMIX_ERR_INVALID_ARG, "ids.shape[1]=3 exceeds the 2 experts that may be chosen");
    fresh(ARGMAX);
    call.args.argmax.x.shape[1] = (int64_t)INT32_MAX + 1;
    too_large(ARGMAX, "V=2147483648 exceeds the limit 2147483647");
}
END_TEST

/* What may coincide, and what may not. */
START_TEST(aliases)
{
    fresh(ROPE);
    call.args.rope.y = call.args.rope.x;
    accept();
    fresh(ROPE);
    call.args.rope.y.data = (float *)call.args.rope.x.data + 1;
    refuse(false, SEQMIX_ERR_ALIAS, "y overlaps x without being exactly it");
    fresh(ACT);
    call.args.act.y = call.args.act.b;
    accept();
    fresh(ATTENTION);
    call.args.attention.v_pages.data = call.args.attention.k_pages.data;
    refuse(false, SEQMIX_ERR_ALIAS, "k_pages overlaps v_pages");
    fresh(ATTENTION);
    call.args.attention.y = call.args.attention.q;
    refuse(false, SEQMIX_ERR_ALIAS, "y overlaps q");
    fresh(MOE);
    call.args.moe.y.data = call.args.moe.x.data;
    refuse(false, SEQMIX_ERR_ALIAS, "y overlaps x");
    fresh(ROUTE);
    call.args.route.weights.data = call.args.route.ids.data;
    refuse(false, SEQMIX_ERR_ALIAS, "ids overlaps weights");
}
END_TEST

START_TEST(small_workspace)
{
    size_t bytes = 0;
    fresh((enum op)_i);
    accept();
    ck_assert_int_eq(run(&bytes, NULL, 0), SEQMIX_OK);
    if (bytes > 0) ck_assert_int_eq(run(NULL, call.arena, bytes - 1), SEQMIX_ERR_WORKSPACE);
}
END_TEST

/* ---------------------------------------------------------------- conv_step: the bits of the two calls */

enum { ROWS = 3, HEADS = 2, DIM = 4, STATE = 4, WIDTH = 3 * HEADS * DIM };

struct layer {
    float x[ROWS * WIDTH], y[ROWS * WIDTH], weight[WIDTH * 4], past[ROWS * WIDTH * 3], scalars[ROWS * HEADS],
        rate[HEADS], state[ROWS * HEADS * DIM * STATE], out[ROWS * HEADS * DIM];
};

static seqmix_tensor heads_of(float *data, int64_t at)
{
    return (seqmix_tensor){data + at * HEADS * DIM, SEQMIX_F32, 3, {ROWS, HEADS, DIM}, {WIDTH, DIM, 1}};
}

static void make_layer(struct layer *layer, seqmix_conv_args *conv, seqmix_deltanet_args *delta, seqmix_ssd_args *ssd)
{
    float *all = (float *)(void *)layer;
    for (size_t i = 0; i < sizeof *layer / sizeof *all; i++)
        all[i] = (float)(i * 37 % 64) / 64 - 0.5f;
    layer->rate[0] = layer->rate[1] = -0.5f;
    const seqmix_tensor scalars = {layer->scalars, SEQMIX_F32, 2, {ROWS, HEADS}, {HEADS, 1}};
    const seqmix_tensor state = {
        layer->state, SEQMIX_F32, 4, {ROWS, HEADS, DIM, STATE}, {HEADS * DIM * STATE, DIM * STATE, STATE, 1}};
    const seqmix_tensor out = {layer->out, SEQMIX_F32, 3, {ROWS, HEADS, DIM}, {HEADS * DIM, DIM, 1}};
    *conv = (seqmix_conv_args){.struct_size = sizeof *conv,
                               .activation = SEQMIX_ACT_SILU,
                               .x = {layer->x, SEQMIX_F32, 2, {ROWS, WIDTH}, {WIDTH, 1}},
                               .weight = {layer->weight, SEQMIX_F32, 2, {WIDTH, 4}, {4, 1}},
                               .state = {layer->past, SEQMIX_F32, 3, {ROWS, WIDTH, 3}, {WIDTH * 3, 3, 1}},
                               .y = {layer->y, SEQMIX_F32, 2, {ROWS, WIDTH}, {WIDTH, 1}}};
    *delta = (seqmix_deltanet_args){.struct_size = sizeof *delta,
                                    .gate_kind = SEQMIX_GATE_NONE,
                                    .beta = scalars,
                                    .q = heads_of(layer->y, 0),
                                    .k = heads_of(layer->y, 1),
                                    .v = heads_of(layer->y, 2),
                                    .state = state,
                                    .o = out};
    *ssd = (seqmix_ssd_args){.struct_size = sizeof *ssd,
                             .dt_softplus = 1,
                             .x = heads_of(layer->y, 0),
                             .dt = scalars,
                             .A = {layer->rate, SEQMIX_F32, 1, {HEADS}, {1}},
                             .B = heads_of(layer->y, 1),
                             .C = heads_of(layer->y, 2),
                             .state = state,
                             .y = out};
}

START_TEST(conv_steps)
{
    static struct layer together, apart, untouched;
    seqmix_conv_args conv;
    seqmix_deltanet_args delta;
    seqmix_ssd_args ssd;
    make_layer(&apart, &conv, &delta, &ssd);
    ck_assert_int_eq(seqmix_short_conv_step(ctx, &conv, NULL, 0), SEQMIX_OK);
    ck_assert_int_eq(_i == 0 ? seqmix_deltanet_step(ctx, &delta, NULL, 0) : seqmix_ssd_step(ctx, &ssd, NULL, 0),
                     SEQMIX_OK);
    make_layer(&together, &conv, &delta, &ssd);
    ck_assert_int_eq(_i == 0 ? seqmix_deltanet_conv_step(ctx, &conv, &delta) : seqmix_ssd_conv_step(ctx, &conv, &ssd),
                     SEQMIX_OK);
    ck_assert_msg(memcmp(&together, &apart, sizeof apart) == 0, "one call and the two calls differ in their bits");

    /* the mixer's half is wrong: the convolution has not run either */
    make_layer(&together, &conv, &delta, &ssd);
    memcpy(&untouched, &together, sizeof together);
    delta.zero0 = ssd.zero0 = 1;
    ck_assert_int_eq(_i == 0 ? seqmix_deltanet_conv_step(ctx, &conv, &delta) : seqmix_ssd_conv_step(ctx, &conv, &ssd),
                     SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(seqmix_last_error(ctx),
                     _i == 0 ? "deltanet_step: zero0=1, must be 0" : "ssd_step: zero0=1, must be 0");
    ck_assert_int_eq(memcmp(&together, &untouched, sizeof together), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("glue");
    TCase *tcase = tcase_create("ops of the model driver");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_field, 0, N_OPS);
    tcase_add_test(tcase, single_rules);
    tcase_add_test(tcase, limits);
    tcase_add_test(tcase, aliases);
    tcase_add_loop_test(tcase, small_workspace, 0, N_OPS);
    tcase_add_loop_test(tcase, conv_steps, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
