/* SPDX-License-Identifier: MIT */
/*
 * deltanet_conv_step and ssd_conv_step on the emulated device: whatever a rung makes of the two calls, the bits of outputs and
 * states are those of the convolution's step and then the mixer's. conv_step prints what it compared.
 */
#define SEQMIX_EXPERIMENTAL
#include <seqmix/seqmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQS = 3, SLOTS = 5 };

/* Sizes: K or G groups, V or H heads, their dimensions; rows of each sequence. */
struct sizes {
    int64_t groups, heads, inner, outer, width;
    int32_t rows[SEQS];
};

static seqmix_ctx *ctx;
static uint32_t seed = 1;

static float number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.0f - 1;
}

static void need(seqmix_status status)
{
    if (status == SEQMIX_OK) return;
    fprintf(stderr, "conv_step: %s\n", seqmix_last_error(ctx));
    exit(2);
}

static seqmix_tensor dense(seqmix_dtype dtype, int32_t rank, const int64_t *shape)
{
    seqmix_tensor t = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int32_t axis = rank - 1; axis >= 0; axis--) {
        t.shape[axis] = shape[axis];
        t.stride[axis] = stride;
        stride *= shape[axis];
    }
    return t;
}

static int64_t count(const seqmix_tensor *t)
{
    return t->shape[0] * t->stride[0];
}

static size_t bytes(const seqmix_tensor *t)
{
    return (size_t)count(t) * (t->dtype == SEQMIX_F32 ? 4 : 2);
}

/* Memory of the device with numbers in it; bf16 by cutting f32. */
static seqmix_tensor fresh(seqmix_dtype dtype, int32_t rank, const int64_t *shape)
{
    seqmix_tensor t = dense(dtype, rank, shape);
    unsigned char *host = malloc(bytes(&t));
    for (int64_t i = 0; host != NULL && i < count(&t); i++) {
        const float value = number();
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint16_t half = (uint16_t)(bits >> 16);
        if (dtype == SEQMIX_F32)
            memcpy(host + 4 * i, &value, sizeof value);
        else
            memcpy(host + 2 * i, &half, sizeof half);
    }
    need(seqmix_mem_alloc(ctx, bytes(&t), &t.data));
    need(seqmix_mem_copy(ctx, t.data, host, bytes(&t)));
    free(host);
    return t;
}
#define FRESH(dtype, ...)                                                                                              \
    fresh((dtype), (int32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

/* [R, heads, dim] in columns of the convolution's rows. */
static seqmix_tensor columns(const seqmix_tensor *y, int64_t from, int64_t heads, int64_t dim)
{
    seqmix_tensor t = {.data = (char *)y->data + from * (y->dtype == SEQMIX_F32 ? 4 : 2),
                       .dtype = y->dtype,
                       .rank = 3,
                       .shape = {y->shape[0], heads, dim},
                       .stride = {y->stride[0], dim, 1}};
    return t;
}

static const int32_t *on_device(const int32_t *values, size_t n)
{
    void *at;
    need(seqmix_mem_alloc(ctx, n * sizeof *values, &at));
    need(seqmix_mem_copy(ctx, at, values, n * sizeof *values));
    return at;
}

/* The tensors that are written, before and after the calls one by one. */
struct outcome {
    const seqmix_tensor *written[4];
    void *start[4], *end[4];
};

static void snapshot(const seqmix_tensor *const *written, void **to)
{
    for (int i = 0; i < 4; i++) {
        to[i] = malloc(bytes(written[i]));
        need(seqmix_mem_copy(ctx, to[i], written[i]->data, bytes(written[i])));
    }
}

/* Which tensor differs now: 1 the convolution's y, 2 its state, 3 the mixer's, 4 its output; 0: none. */
static int differing(struct outcome *o)
{
    void *now[4];
    int first = 0;
    snapshot(o->written, now);
    for (int i = 3; i >= 0; i--) {
        if (memcmp(now[i], o->end[i], bytes(o->written[i])) != 0) first = i + 1;
        free(now[i]), free(o->start[i]), free(o->end[i]);
    }
    return first;
}

static void restart(const struct outcome *o)
{
    for (int i = 0; i < 4; i++)
        need(seqmix_mem_copy(ctx, o->written[i]->data, o->start[i], bytes(o->written[i])));
}

static seqmix_batch batch_of(const struct sizes *s, int64_t *rows)
{
    static const int32_t read[SEQS] = {2, -1, 4}, write[SEQS] = {0, 3, 4};
    int32_t begin[SEQS + 1] = {0};
    seqmix_batch b = {.struct_size = sizeof b, .n_seqs = SEQS};
    for (int i = 0; i < SEQS; i++) {
        begin[i + 1] = begin[i] + s->rows[i];
        if (s->rows[i] > b.max_rows) b.max_rows = s->rows[i];
    }
    *rows = begin[SEQS];
    b.row_begin = on_device(begin, SEQS + 1);
    b.read_slot = on_device(read, SEQS);
    b.write_slot = on_device(write, SEQS);
    return b;
}

static seqmix_conv_args conv_of(const seqmix_batch *batch, seqmix_dtype x, int64_t rows, int64_t channels,
                                int64_t width)
{
    const seqmix_conv_args conv = {.struct_size = sizeof conv,
                                   .activation = SEQMIX_ACT_SILU,
                                   .batch = batch,
                                   .x = FRESH(x, rows, channels),
                                   .weight = FRESH(x, channels, width),
                                   .bias = FRESH(SEQMIX_F32, channels),
                                   .state = FRESH(SEQMIX_F32, SLOTS, channels, width - 1),
                                   .y = FRESH(x, rows, channels)};
    return conv;
}

static int deltanet(const struct sizes *s, seqmix_dtype x)
{
    int64_t R;
    const seqmix_batch batch = batch_of(s, &R);
    const int64_t keys = s->groups * s->inner, values = s->heads * s->outer;
    const seqmix_conv_args conv = conv_of(&batch, x, R, 2 * keys + values, s->width);
    const seqmix_deltanet_args args = {.struct_size = sizeof args,
                                       .gate_kind = SEQMIX_GATE_SOFTPLUS,
                                       .beta_kind = SEQMIX_BETA_SIGMOID,
                                       .qk_l2norm = 1,
                                       .eps = 1e-6F,
                                       .batch = &batch,
                                       .q = columns(&conv.y, 0, s->groups, s->inner),
                                       .k = columns(&conv.y, keys, s->groups, s->inner),
                                       .v = columns(&conv.y, 2 * keys, s->heads, s->outer),
                                       .gate = FRESH(x, R, s->heads),
                                       .beta = FRESH(x, R, s->heads),
                                       .A = FRESH(SEQMIX_F32, s->heads),
                                       .dt_bias = FRESH(SEQMIX_F32, s->heads),
                                       .state = FRESH(SEQMIX_F32, SLOTS, s->heads, s->inner, s->outer),
                                       .o = FRESH(x, R, s->heads, s->outer)};
    struct outcome o = {.written = {&conv.y, &conv.state, &args.state, &args.o}};
    snapshot(o.written, o.start);
    need(seqmix_short_conv_step(ctx, &conv, NULL, 0));
    need(seqmix_deltanet_step(ctx, &args, NULL, 0));
    snapshot(o.written, o.end);
    restart(&o);
    need(seqmix_deltanet_conv_step(ctx, &conv, &args));
    return differing(&o);
}

static int ssd(const struct sizes *s, seqmix_dtype x)
{
    int64_t R;
    const seqmix_batch batch = batch_of(s, &R);
    const int64_t values = s->heads * s->outer, states = s->groups * s->inner;
    const seqmix_conv_args conv = conv_of(&batch, x, R, values + 2 * states, s->width);
    const seqmix_ssd_args args = {.struct_size = sizeof args,
                                  .dt_softplus = 1,
                                  .batch = &batch,
                                  .x = columns(&conv.y, 0, s->heads, s->outer),
                                  .dt = FRESH(x, R, s->heads),
                                  .A = FRESH(SEQMIX_F32, s->heads),
                                  .B = columns(&conv.y, values, s->groups, s->inner),
                                  .C = columns(&conv.y, values + states, s->groups, s->inner),
                                  .skip = FRESH(SEQMIX_F32, s->heads),
                                  .dt_bias = FRESH(SEQMIX_F32, s->heads),
                                  .state = FRESH(SEQMIX_F32, SLOTS, s->heads, s->outer, s->inner),
                                  .y = FRESH(x, R, s->heads, s->outer)};
    struct outcome o = {.written = {&conv.y, &conv.state, &args.state, &args.y}};
    snapshot(o.written, o.start);
    need(seqmix_short_conv_step(ctx, &conv, NULL, 0));
    need(seqmix_ssd_step(ctx, &args, NULL, 0));
    snapshot(o.written, o.end);
    restart(&o);
    need(seqmix_ssd_conv_step(ctx, &conv, &args));
    return differing(&o);
}

int main(void)
{
    static const struct sizes all[] = {{2, 4, 128, 128, 4, {1, 1, 1}}, {1, 3, 64, 80, 4, {1, 1, 1}},
                                       {2, 2, 16, 24, 3, {1, 0, 1}},   {1, 2, 128, 64, 4, {5, 1, 16}},
                                       {1, 1, 7, 5, 2, {2, 3, 1}},     {1, 2, 16, 24, 1, {1, 2, 0}},
                                       {1, 2, 16, 24, 7, {1, 2, 0}}}; /* more taps than one launch takes: two */
    static const int32_t levels[] = {SEQMIX_LEVEL_CUDA_SIMPLE, SEQMIX_LEVEL_BEST};
    int compared = 0, differ = 0;
    for (int l = 0; l < 2; l++) {
        const seqmix_ctx_desc desc = {
            .struct_size = sizeof desc, .backend = SEQMIX_BACKEND_CUDA, .device = -1, .level_cap = levels[l]};
        char why[256];
        if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why) != SEQMIX_OK) return 2;
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            for (int kind = 0; kind < 4; kind++) {
                const seqmix_dtype x = kind % 2 == 0 ? SEQMIX_BF16 : SEQMIX_F32;
                const int at = kind < 2 ? deltanet(&all[i], x) : ssd(&all[i], x);
                if (at != 0)
                    printf("%s of sizes %zu in %s at level %d: tensor %d differs\n", kind < 2 ? "deltanet" : "ssd", i,
                           kind % 2 == 0 ? "bf16" : "f32", (int)levels[l], at);
                compared++;
                differ += at != 0;
            }
        seqmix_ctx_destroy(ctx);
    }
    printf("%d compared, %d differ\n", compared, differ);
    return differ > 0;
}
