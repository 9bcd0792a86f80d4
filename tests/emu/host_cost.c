/* SPDX-License-Identifier: MIT */
/*
 * What a call costs the host, with all its checks: every op of a CUDA context at model sizes while the emulator forgets its
 * launches (EMU_LAUNCH=drop), the least of many measurements. host_cost [MICROSECONDS] fails when a call takes longer.
 * Kernels' attributes are for the context's creation: no call sets one, and each that was set is needed by some form of a kernel.
 */
#define _POSIX_C_SOURCE 200809L
#define SEQMIX_EXPERIMENTAL
#include <inttypes.h>
#include <seqmix/seqmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MEASUREMENTS = 60, CALLS = 50, SEQS = 64, ROWS = 8192 };

uint64_t emu_attributes_set(void), emu_large_kernels(void); /* emu.h, which is C++ */

static seqmix_ctx *ctx;
static double limit = 5, slowest;
static int n_over;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* An address of its own; nobody looks there. */
static void *somewhere(void)
{
    static uintptr_t next = (uintptr_t)1 << 44;
    next += (uintptr_t)1 << 36;
    return (void *)next;
}

static seqmix_tensor tensor(seqmix_dtype dtype, int32_t rank, const int64_t *shape)
{
    seqmix_tensor t = {.data = somewhere(), .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int32_t axis = rank - 1; axis >= 0; axis--) {
        t.shape[axis] = shape[axis];
        t.stride[axis] = stride;
        stride *= shape[axis];
    }
    return t;
}
#define T(dtype, ...)                                                                                                  \
    tensor((dtype), (int32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#define X(...)   T(SEQMIX_BF16, __VA_ARGS__)
#define F32(...) T(SEQMIX_F32, __VA_ARGS__)

/* A batch of SEQS sequences of one row, or one long one; every sequence has its slots. */
static seqmix_batch batch_of(int64_t rows)
{
    seqmix_batch b = {.struct_size = sizeof b, .n_seqs = rows == ROWS ? 1 : SEQS, .max_rows = rows == ROWS ? ROWS : 1};
    b.row_begin = somewhere();
    b.read_slot = somewhere();
    b.write_slot = somewhere();
    return b;
}

static void told(const char *op, int64_t rows, double best)
{
    printf("%-24s %5" PRId64 " rows %8.2f us%s\n", op, rows, best, best > limit ? "  TOO SLOW" : "");
    n_over += best > limit;
    slowest = best > slowest ? best : slowest;
}

/* Evaluates `call`, a status, again and again. */
#define MEASURE(name, rows, call)                                                                                      \
    do {                                                                                                               \
        double best = 1e9;                                                                                             \
        for (int m = 0; m < MEASUREMENTS; m++) {                                                                       \
            const double start = now_us();                                                                             \
            for (int i = 0; i < CALLS; i++)                                                                            \
                if ((call) != SEQMIX_OK) {                                                                             \
                    fprintf(stderr, "host_cost: %s: %s\n", name, seqmix_last_error(ctx));                              \
                    exit(2);                                                                                           \
                }                                                                                                      \
            const double us = (now_us() - start) / CALLS;                                                              \
            best = us < best ? us : best;                                                                              \
        }                                                                                                              \
        told(name, rows, best);                                                                                        \
    } while (0)
#define OP(op, rows, args)                                                                                             \
    do {                                                                                                               \
        size_t bytes = 0;                                                                                              \
        void *workspace = somewhere();                                                                                 \
        if (seqmix_##op##_workspace(ctx, (args), &bytes) != SEQMIX_OK) exit(2);                                        \
        MEASURE(#op, rows, seqmix_##op(ctx, (args), bytes > 0 ? workspace : NULL, bytes));                             \
    } while (0)

static void mixers(int64_t R, bool step)
{
    enum { C = 8192, HK = 16, HV = 32, D = 128, H = 64, P = 64, G = 8, N = 128 };
    const seqmix_batch batch = batch_of(R);
    const seqmix_conv_args conv = {.struct_size = sizeof conv,
                                   .activation = SEQMIX_ACT_SILU,
                                   .batch = &batch,
                                   .x = X(R, C),
                                   .weight = X(C, 4),
                                   .state = F32(SEQS, C, 3),
                                   .y = X(R, C)};
    const seqmix_scan_args scan = {.struct_size = sizeof scan,
                                   .dt_softplus = 1,
                                   .batch = &batch,
                                   .x = X(R, C),
                                   .dt = X(R, C),
                                   .A = F32(C, 16),
                                   .B = X(R, 1, 16),
                                   .C = X(R, 1, 16),
                                   .skip = F32(C),
                                   .dt_bias = F32(C),
                                   .z = X(R, C),
                                   .state = F32(SEQS, C, 16),
                                   .y = X(R, C)};
    const seqmix_ssd_args ssd = {.struct_size = sizeof ssd,
                                 .dt_softplus = 1,
                                 .batch = &batch,
                                 .x = X(R, H, P),
                                 .dt = X(R, H),
                                 .A = F32(H),
                                 .B = X(R, G, N),
                                 .C = X(R, G, N),
                                 .skip = F32(H),
                                 .dt_bias = F32(H),
                                 .state = F32(SEQS, H, P, N),
                                 .y = X(R, H, P)};
    const seqmix_deltanet_args delta = {.struct_size = sizeof delta,
                                        .gate_kind = SEQMIX_GATE_SOFTPLUS,
                                        .beta_kind = SEQMIX_BETA_SIGMOID,
                                        .qk_l2norm = 1,
                                        .eps = 1e-6F,
                                        .batch = &batch,
                                        .q = X(R, HK, D),
                                        .k = X(R, HK, D),
                                        .v = X(R, HV, D),
                                        .gate = X(R, HV),
                                        .beta = X(R, HV),
                                        .A = F32(HV),
                                        .dt_bias = F32(HV),
                                        .state = F32(SEQS, HV, D, D),
                                        .o = X(R, HV, D)};
    if (!step) {
        OP(short_conv_rows, R, &conv);
        OP(selective_scan_rows, R, &scan);
        OP(ssd_chunk_forward, R, &ssd);
        OP(deltanet_chunk_forward, R, &delta);
        return;
    }
    OP(short_conv_step, R, &conv);
    OP(selective_scan_step, R, &scan);
    OP(ssd_step, R, &ssd);
    OP(deltanet_step, R, &delta);
    MEASURE("ssd_conv_step", R, seqmix_ssd_conv_step(ctx, &conv, &ssd));
    MEASURE("deltanet_conv_step", R, seqmix_deltanet_conv_step(ctx, &conv, &delta));
}

static void experts(int64_t R)
{
    enum { E = 128, K = 8, I = 2048, F = 768 };
    const seqmix_route_args route = {.struct_size = sizeof route,
                                     .renormalise = 1,
                                     .logits = F32(R, E),
                                     .ids = T(SEQMIX_I32, R, K),
                                     .weights = F32(R, K)};
    const seqmix_moe_args moe = {.struct_size = sizeof moe,
                                 .x = X(R, I),
                                 .ids = T(SEQMIX_I32, R, K),
                                 .weights = F32(R, K),
                                 .gate = X(E, F, I),
                                 .up = X(E, F, I),
                                 .down = X(E, I, F),
                                 .y = X(R, I)};
    OP(moe_route, R, &route);
    OP(moe_experts, R, &moe);
}

static void rows_ops(int64_t R)
{
    enum { D = 2048, V = 151936, HQ = 16, HKV = 2, HD = 256, PAGES = 4096, PAGE_ROWS = 64 };
    const seqmix_batch batch = batch_of(R);
    const seqmix_norm_args norm = {
        .struct_size = sizeof norm, .eps = 1e-6F, .x = X(R, D), .z = X(R, D), .weight = F32(D), .y = X(R, D)};
    const seqmix_linear_args linear = {
        .struct_size = sizeof linear, .x = X(R, D), .weight = X(D, D), .residual = X(R, D), .y = X(R, D)};
    const seqmix_embed_args embed = {
        .struct_size = sizeof embed, .n_tokens = (int32_t)R, .tokens = somewhere(), .table = X(V, D), .y = X(R, D)};
    const seqmix_rope_args rope = {.struct_size = sizeof rope,
                                   .theta = 1e7F,
                                   .n_dims = 64,
                                   .positions = somewhere(),
                                   .x = X(R, HQ, HD),
                                   .y = X(R, HQ, HD)};
    const seqmix_attention_args attention = {.struct_size = sizeof attention,
                                             .max_pages = 128,
                                             .batch = &batch,
                                             .page_table = somewhere(),
                                             .start = somewhere(),
                                             .q = X(R, HQ, HD),
                                             .k = X(R, HKV, HD),
                                             .v = X(R, HKV, HD),
                                             .gate = X(R, HQ, HD),
                                             .k_pages = X(PAGES, PAGE_ROWS, HKV, HD),
                                             .v_pages = X(PAGES, PAGE_ROWS, HKV, HD),
                                             .y = X(R, HQ, HD)};
    const seqmix_act_args act = {.struct_size = sizeof act, .a = X(R, D), .b = X(R, D), .y = X(R, D)};
    const seqmix_argmax_args argmax = {.struct_size = sizeof argmax, .x = X(R, V), .index = T(SEQMIX_I32, R)};
    OP(gated_rms_norm_rows, R, &norm);
    OP(linear, R, &linear);
    OP(embed_rows, R, &embed);
    OP(rope_rows, R, &rope);
    OP(attention_rows, R, &attention);
    OP(act_rows, R, &act);
    OP(argmax, R, &argmax);
    experts(R);
}

/* Not timed: a call that must be taken, with the workspace it asks for. */
#define TAKEN(op, args)                                                                                                \
    do {                                                                                                               \
        size_t bytes = 0;                                                                                              \
        if (seqmix_##op##_workspace(ctx, (args), &bytes) != SEQMIX_OK ||                                               \
            seqmix_##op(ctx, (args), bytes > 0 ? somewhere() : NULL, bytes) != SEQMIX_OK) {                            \
            fprintf(stderr, "host_cost: %s: %s\n", #op, seqmix_last_error(ctx));                                       \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void delta_forms(seqmix_dtype x, int64_t heads, bool channels)
{
    enum { D = 128 };
    const seqmix_batch batch = batch_of(ROWS);
    const seqmix_deltanet_args delta = {.struct_size = sizeof delta,
                                        .gate_kind = SEQMIX_GATE_LOG,
                                        .beta_kind = SEQMIX_BETA_SIGMOID,
                                        .batch = &batch,
                                        .q = T(x, ROWS, heads, D),
                                        .k = T(x, ROWS, heads, D),
                                        .v = T(x, ROWS, heads, D),
                                        .gate = channels ? F32(ROWS, heads, D) : F32(ROWS, heads),
                                        .beta = F32(ROWS, heads),
                                        .state = F32(SEQS, heads, D, D),
                                        .o = T(x, ROWS, heads, D)};
    TAKEN(deltanet_chunk_forward, &delta);
}

static void ssd_forms(seqmix_dtype x, int64_t N, int64_t P)
{
    const seqmix_batch batch = batch_of(ROWS);
    const seqmix_ssd_args ssd = {.struct_size = sizeof ssd,
                                 .batch = &batch,
                                 .x = T(x, ROWS, 8, P),
                                 .dt = T(x, ROWS, 8),
                                 .A = F32(8),
                                 .B = T(x, ROWS, 1, N),
                                 .C = T(x, ROWS, 1, N),
                                 .state = F32(SEQS, 8, P, N),
                                 .y = T(x, ROWS, 8, P)};
    TAKEN(ssd_chunk_forward, &ssd);
}

static void other_forms(seqmix_dtype x, seqmix_dtype weight)
{
    enum { D = 512, N = 64 };
    const seqmix_batch batch = batch_of(ROWS);
    const seqmix_scan_args scan = {.struct_size = sizeof scan,
                                   .batch = &batch,
                                   .x = T(x, ROWS, D),
                                   .dt = T(x, ROWS, D),
                                   .A = F32(D, N),
                                   .B = T(x, ROWS, 1, N),
                                   .C = T(x, ROWS, 1, N),
                                   .state = F32(SEQS, D, N),
                                   .y = T(x, ROWS, D)};
    const seqmix_linear_args linear = {
        .struct_size = sizeof linear, .x = T(x, ROWS, D), .weight = T(weight, D, D), .y = T(x, ROWS, D)};
    const seqmix_inverse_args inverse = {
        .struct_size = sizeof inverse, .a = T(x, 16, 128, 128), .inv = T(x, 16, 128, 128)};
    TAKEN(selective_scan_rows, &scan);
    TAKEN(linear, &linear);
    TAKEN(unit_lower_inverse, &inverse);
}

/* Every form of the kernels with large blocks; the context is SEQMIX_CTX_FAST. */
static void large_forms(void)
{
    static const seqmix_dtype types[] = {SEQMIX_BF16, SEQMIX_F16, SEQMIX_F32};
    static const int64_t heads[] = {8, 32, 48, 66, 100, 132, 200, 512}, states[] = {64, 128, 256},
                         values[] = {16, 32, 64, 80};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++)
            delta_forms(types[i], heads[k], false);
        delta_forms(types[i], 4, true);
        delta_forms(types[i], 64, true);
        for (int k = 0; k < 12; k++)
            ssd_forms(types[i], states[k / 4], values[k % 4]);
        other_forms(types[i], types[i]);
        other_forms(types[i], SEQMIX_Q8_0);
    }
}

int main(int argc, char **argv)
{
    const seqmix_ctx_desc desc = {
        .struct_size = sizeof desc, .backend = SEQMIX_BACKEND_CUDA, .device = -1, .flags = SEQMIX_CTX_FAST};
    const seqmix_inverse_args inverse = {
        .struct_size = sizeof inverse, .a = F32(1024, 64, 64), .inv = F32(1024, 64, 64)};
    char why[256];
    if (argc > 1) limit = strtod(argv[1], NULL);
    if (setenv("EMU_LAUNCH", "drop", 1) != 0) return 2;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why) != SEQMIX_OK) {
        fprintf(stderr, "host_cost: %s\n", why);
        return 2;
    }
    const uint64_t attributes_set = emu_attributes_set();
    mixers(ROWS, false);
    mixers(SEQS, false);
    mixers(SEQS, true);
    OP(unit_lower_inverse, 1024 * 64, &inverse);
    rows_ops(ROWS);
    rows_ops(SEQS);
    large_forms();
    const uint64_t in_calls = emu_attributes_set() - attributes_set;
    seqmix_ctx_destroy(ctx);
    printf("the slowest call takes %.2f us, the limit is %.2f us\n", slowest, limit);
    printf("attributes set: %" PRIu64 " for the context, %" PRIu64 " by calls; %" PRIu64 " kernels had large blocks\n",
           attributes_set, in_calls, emu_large_kernels());
    return n_over > 0 || in_calls > 0 || attributes_set != emu_large_kernels();
}
