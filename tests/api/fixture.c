/* SPDX-License-Identifier: MIT */
/* Builds, bends and runs the legal calls of fixture.h. */
#include "fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const struct op ops[N_OPS] = {
    {"short_conv_rows", SEQMIX_OP_SHORT_CONV_ROWS, CONV, false},
    {"short_conv_step", SEQMIX_OP_SHORT_CONV_STEP, CONV, true},
    {"selective_scan_rows", SEQMIX_OP_SELECTIVE_SCAN_ROWS, SCAN, false},
    {"selective_scan_step", SEQMIX_OP_SELECTIVE_SCAN_STEP, SCAN, true},
    {"ssd_chunk_forward", SEQMIX_OP_SSD_CHUNK_FORWARD, SSD, false},
    {"ssd_step", SEQMIX_OP_SSD_STEP, SSD, true},
    {"deltanet_chunk_forward", SEQMIX_OP_DELTANET_CHUNK_FORWARD, DELTANET, false},
    {"deltanet_step", SEQMIX_OP_DELTANET_STEP, DELTANET, true},
    {"unit_lower_inverse", SEQMIX_OP_UNIT_LOWER_INVERSE, INVERSE, false},
    {"gated_rms_norm_rows", SEQMIX_OP_GATED_RMS_NORM_ROWS, NORM, false},
    {"linear", SEQMIX_OP_LINEAR, LINEAR, false},
    {"embed_rows", SEQMIX_OP_EMBED_ROWS, EMBED, false},
};

// clang-format off
#define AT(type, field) #field, offsetof(seqmix_##type##_args, field)
const struct field fields[N_FAMILIES][MAX_FIELDS + 1] = {
    [CONV] = {
        {AT(conv, x), F_X | F_ROWS, "RD"},
        {AT(conv, weight), F_X_OR_F32, "DK"},
        {AT(conv, bias), F_X_OR_F32 | F_OPTIONAL, "D"},
        {AT(conv, state), F_X_OR_F32 | F_OPTIONAL | F_WRITTEN, "SDk"},
        {AT(conv, y), F_X | F_ROWS | F_WRITTEN, "RD"},
        {NULL, 0, 0, NULL}},
    [SCAN] = {
        {AT(scan, x), F_X | F_ROWS, "RD"},
        {AT(scan, dt), F_X_OR_F32 | F_ROWS, "RD"},
        {AT(scan, A), F_F32, "DN"},
        {AT(scan, B), F_X | F_ROWS, "RGN"},
        {AT(scan, C), F_X | F_ROWS, "RGN"},
        {AT(scan, skip), F_X_OR_F32 | F_OPTIONAL, "D"},
        {AT(scan, dt_bias), F_X_OR_F32 | F_OPTIONAL, "D"},
        {AT(scan, z), F_X | F_ROWS | F_OPTIONAL, "RD"},
        {AT(scan, state), F_OPTIONAL | F_WRITTEN, "SDN"},
        {AT(scan, y), F_X | F_ROWS | F_WRITTEN, "RD"},
        {NULL, 0, 0, NULL}},
    [SSD] = {
        {AT(ssd, x), F_X | F_ROWS, "RHP"},
        {AT(ssd, dt), F_X_OR_F32, "RH"},
        {AT(ssd, A), F_F32, "H"},
        {AT(ssd, B), F_X | F_ROWS, "RGN"},
        {AT(ssd, C), F_X | F_ROWS, "RGN"},
        {AT(ssd, skip), F_X_OR_F32 | F_OPTIONAL, "HP"},
        {AT(ssd, dt_bias), F_X_OR_F32 | F_OPTIONAL, "H"},
        {AT(ssd, z), F_X | F_ROWS | F_OPTIONAL, "RHP"},
        {AT(ssd, state), F_OPTIONAL | F_WRITTEN, "SHPN"},
        {AT(ssd, y), F_X | F_ROWS | F_WRITTEN, "RHP"},
        {NULL, 0, 0, NULL}},
    [DELTANET] = {
        {AT(deltanet, q), F_X | F_ROWS, "Rkd"},
        {AT(deltanet, k), F_X | F_ROWS, "Rkd"},
        {AT(deltanet, v), F_X | F_ROWS, "Rhe"},
        {AT(deltanet, gate), F_X_OR_F32 | F_ROWS, "Rhd"},
        {AT(deltanet, beta), F_X_OR_F32, "Rh"},
        {AT(deltanet, A), F_F32, "h"},
        {AT(deltanet, dt_bias), F_X_OR_F32 | F_OPTIONAL, "hd"},
        {AT(deltanet, state), F_OPTIONAL | F_WRITTEN, "Shde"},
        {AT(deltanet, o), F_X | F_ROWS | F_WRITTEN, "Rhe"},
        {NULL, 0, 0, NULL}},
    [INVERSE] = {
        {AT(inverse, a), F_X, "Bnn"},
        {AT(inverse, inv), F_X | F_WRITTEN, "Bnn"},
        {NULL, 0, 0, NULL}},
    [NORM] = {
        {AT(norm, x), F_X | F_ROWS, "RD"},
        {AT(norm, z), F_X | F_ROWS | F_OPTIONAL, "RD"},
        {AT(norm, weight), F_X_OR_F32 | F_OPTIONAL, "D"},
        {AT(norm, y), F_X | F_ROWS | F_WRITTEN, "RD"},
        {NULL, 0, 0, NULL}},
    [LINEAR] = {
        {AT(linear, x), F_X | F_ROWS, "RI"},
        {AT(linear, weight), F_ROWS, "OI"},
        {AT(linear, bias), F_X_OR_F32 | F_OPTIONAL, "O"},
        {AT(linear, residual), F_X_OR_F32 | F_ROWS | F_OPTIONAL, "RO"},
        {AT(linear, y), F_X_OR_F32 | F_ROWS | F_WRITTEN, "RO"},
        {NULL, 0, 0, NULL}},
    [EMBED] = {
        {AT(embed, table), F_ROWS, "VD"},
        {AT(embed, y), F_ROWS | F_WRITTEN, "RD"},
        {NULL, 0, 0, NULL}},
};
// clang-format on

static int64_t axis_size(char axis)
{
    switch (axis) {
    case 'R':
        return 6;
    case 'S':
        return 4;
    case 'D':
        return 8;
    case 'K':
        return 4; /* conv width, and K-1 */
    case 'k':
        return 3;
    case 'N':
        return 3;
    case 'G':
        return 2;
    case 'H':
        return 4;
    case 'P':
        return 3;
    case 'd':
        return 3; /* DK */
    case 'e':
        return 5; /* DV */
    case 'h':
        return 4; /* HV */
    case 'B':
        return 2;
    case 'n':
        return 3;
    case 'I':
        return 5;
    case 'O':
        return 7;
    case 'V':
        return 9;
    default:
        abort();
    }
}

const struct field *call_fields(const struct call *call)
{
    return fields[call->op->family];
}

seqmix_tensor *call_tensor(struct call *call, const struct field *field)
{
    return (seqmix_tensor *)(void *)((char *)&call->args + field->offset);
}

seqmix_tensor *call_named(struct call *call, const char *name)
{
    for (const struct field *f = call_fields(call); f->name != NULL; f++)
        if (strcmp(f->name, name) == 0) return call_tensor(call, f);
    return NULL;
}

void make_dense(seqmix_tensor *tensor)
{
    int64_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        tensor->stride[axis] = stride;
        if (axis > 0) stride *= tensor->shape[axis];
    }
}

void call_resize(struct call *call, char axis, int64_t size)
{
    for (const struct field *f = call_fields(call); f->name != NULL; f++) {
        seqmix_tensor *t = call_tensor(call, f);
        for (int i = 0; i < t->rank; i++)
            if (f->axes[i] == axis) t->shape[i] = size;
        make_dense(t);
    }
}

/* A dense f32 tensor in the arena, 64 bytes away from its neighbours, filled with numbers around 0 (A: negative). */
static void place(struct call *call, const struct field *field)
{
    seqmix_tensor *t = call_tensor(call, field);
    int64_t count = 1;
    t->dtype = SEQMIX_F32;
    t->rank = (int32_t)strlen(field->axes);
    for (int i = 0; i < t->rank; i++) {
        t->shape[i] = axis_size(call->op->family == DELTANET && field->axes[i] == 'k' ? 'G' : field->axes[i]);
        count *= t->shape[i];
    }
    make_dense(t);
    float *data = (float *)(void *)(call->arena + call->used);
    t->data = data;
    const size_t room =
        (size_t)count * sizeof(float) * (strcmp(field->name, "state") == 0 ? 2 : 1); /* for more slots */
    call->used += (room + 127) / 64 * 64;
    if (call->used > ARENA) abort(); /* no assertion: libcheck's take a lock, which a fork elsewhere would leave held */
    if ((field->traits & F_WRITTEN) != 0 && strcmp(field->name, "state") != 0) return; /* stays poisoned */
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)((i * 37 + (int64_t)(field->offset % 101)) % 64 - 32) / 64.0f;
        if (strcmp(field->name, "A") == 0) data[i] = data[i] / 2.0f - 0.3f;
    }
}

static void set_options(struct call *call)
{
    switch (call->op->family) {
    case SCAN:
        call->args.scan.dt_softplus = 1;
        break;
    case SSD:
        call->args.ssd.dt_softplus = 1;
        call->args.ssd.dt_min = 0.001f;
        call->args.ssd.dt_max = 10.0f;
        break;
    case DELTANET:
        call->args.deltanet.gate_kind = SEQMIX_GATE_SOFTPLUS;
        call->args.deltanet.beta_kind = SEQMIX_BETA_SIGMOID;
        call->args.deltanet.qk_l2norm = 1;
        call->args.deltanet.eps = 1e-6f;
        break;
    case NORM:
        call->args.norm.group = 4;
        call->args.norm.eps = 1e-5f;
        break;
    case EMBED:
        call->args.embed.tokens = call->tokens;
        call->args.embed.n_tokens = 6;
        break;
    default:
        break;
    }
}

void call_init(struct call *call, const struct op *op)
{
    static const size_t sizes[N_FAMILIES] = {
        sizeof(seqmix_conv_args),    sizeof(seqmix_scan_args), sizeof(seqmix_ssd_args),    sizeof(seqmix_deltanet_args),
        sizeof(seqmix_inverse_args), sizeof(seqmix_norm_args), sizeof(seqmix_linear_args), sizeof(seqmix_embed_args)};
    static const int32_t tokens[6] = {0, 8, 3, 3, 1, 7};
    memset(call, 0, sizeof *call);
    memset(call->arena, 0xa5, sizeof call->arena);
    call->op = op;
    call->used = 64;
    call->args.struct_size = (uint32_t)sizes[op->family];
    memcpy(call->tokens, tokens, sizeof tokens);
    for (const struct field *f = call_fields(call); f->name != NULL; f++)
        place(call, f);
    set_options(call);

    call->row_begin[1] = 2, call->row_begin[2] = 6;
    call->read_slot[0] = 0, call->read_slot[1] = 1;
    call->write_slot[0] = 2, call->write_slot[1] = -1;
    call->ckpt_seq[0] = 1, call->ckpt_row[0] = 2, call->ckpt_slot[0] = 3;
    call->batch = (seqmix_batch){sizeof(seqmix_batch),
                                 2,
                                 4,
                                 1,
                                 call->row_begin,
                                 call->read_slot,
                                 call->write_slot,
                                 call->ckpt_seq,
                                 call->ckpt_row,
                                 call->ckpt_slot};
    switch (op->family) {
    case CONV:
        call->args.conv.batch = &call->batch;
        break;
    case SCAN:
        call->args.scan.batch = &call->batch;
        break;
    case SSD:
        call->args.ssd.batch = &call->batch;
        break;
    case DELTANET:
        call->args.deltanet.batch = &call->batch;
        break;
    default:
        break;
    }
}

#define EACH_OP(DO)                                                                                                    \
    DO(SHORT_CONV_ROWS, short_conv_rows, conv)                                                                         \
    DO(SHORT_CONV_STEP, short_conv_step, conv)                                                                         \
    DO(SELECTIVE_SCAN_ROWS, selective_scan_rows, scan)                                                                 \
    DO(SELECTIVE_SCAN_STEP, selective_scan_step, scan)                                                                 \
    DO(SSD_CHUNK_FORWARD, ssd_chunk_forward, ssd)                                                                      \
    DO(SSD_STEP, ssd_step, ssd)                                                                                        \
    DO(DELTANET_CHUNK_FORWARD, deltanet_chunk_forward, deltanet)                                                       \
    DO(DELTANET_STEP, deltanet_step, deltanet)                                                                         \
    DO(UNIT_LOWER_INVERSE, unit_lower_inverse, inverse)                                                                \
    DO(GATED_RMS_NORM_ROWS, gated_rms_norm_rows, norm)                                                                 \
    DO(LINEAR, linear, linear)                                                                                         \
    DO(EMBED_ROWS, embed_rows, embed)

seqmix_status call_size(seqmix_ctx *ctx, struct call *call, size_t *bytes)
{
    switch (call->op->id) {
#define SIZE(ID, name, family)                                                                                         \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name##_workspace(ctx, &call->args.family, bytes);
        EACH_OP(SIZE)
    default:
        abort();
    }
}

seqmix_status call_op(seqmix_ctx *ctx, struct call *call, void *workspace, size_t bytes)
{
    switch (call->op->id) {
#define CALL(ID, name, family)                                                                                         \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name(ctx, &call->args.family, workspace, bytes);
        EACH_OP(CALL)
    default:
        abort();
    }
}

seqmix_ctx *make_context(const seqmix_ctx_desc *desc)
{
    const seqmix_ctx_desc plain = {.struct_size = sizeof plain};
    seqmix_ctx *ctx;
    char why[256];
    const seqmix_status status =
        seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), desc != NULL ? desc : &plain, &ctx, why, sizeof why);
    ck_assert_msg(status == SEQMIX_OK, "seqmix_ctx_create: %d, %s", (int)status, why);
    ck_assert_ptr_nonnull(ctx);
    return ctx;
}

seqmix_status call_run(seqmix_ctx *ctx, struct call *call)
{
    size_t bytes = 0;
    seqmix_status status = call_size(ctx, call, &bytes);
    if (status != SEQMIX_OK) return status;
    void *workspace = bytes > 0 ? aligned_alloc(SEQMIX_WORKSPACE_ALIGN, (bytes + 255) / 256 * 256) : NULL;
    status = call_op(ctx, call, workspace, bytes);
    free(workspace);
    return status;
}

static void expect_message(seqmix_ctx *ctx, const struct call *call, const char *text)
{
    const char *message = seqmix_last_error(ctx);
    const size_t prefix = strlen(call->op->name);
    ck_assert_msg(strncmp(message, call->op->name, prefix) == 0 && strncmp(message + prefix, ": ", 2) == 0,
                  "\"%s\" does not begin with \"%s: \"", message, call->op->name);
    const bool whole = text[0] == ':'; /* ": ..." is the whole sentence, anything else a part of it */
    ck_assert_msg(whole ? strcmp(message + prefix, text) == 0 : strstr(message, text) != NULL,
                  "\"%s\" does not say \"%s\"", message, text);
    ck_assert_msg(strlen(message) < 255, "\"%s\" was cut", message);
}

void expect_refusal(seqmix_ctx *ctx, struct call *call, bool query, seqmix_status expected, const char *text)
{
    static struct call probe;
    static unsigned char before[ARENA];
    static _Alignas(SEQMIX_WORKSPACE_ALIGN) unsigned char workspace[1 << 16];
    size_t bytes = 12345;
    memcpy(before, call->arena, ARENA);
    if (query) {
        const seqmix_status status = call_size(ctx, call, &bytes);
        ck_assert_msg(status == expected, "%s (%s): the query gave %d, not %d: %s", call->op->name, text, (int)status,
                      (int)expected, seqmix_last_error(ctx));
        ck_assert_uint_eq(bytes, 12345);
        expect_message(ctx, call, text);
    }
    const seqmix_status status = call_op(ctx, call, workspace, sizeof workspace);
    ck_assert_msg(status == expected, "%s (%s): the call gave %d, not %d: %s", call->op->name, text, (int)status,
                  (int)expected, seqmix_last_error(ctx));
    expect_message(ctx, call, text);
    ck_assert_msg(memcmp(before, call->arena, ARENA) == 0, "%s (%s): a refused call wrote", call->op->name, text);

    call_init(&probe, call->op);
    expect_success(ctx, &probe);
}

void expect_success(seqmix_ctx *ctx, struct call *call)
{
    const seqmix_status status = call_run(ctx, call);
    ck_assert_msg(status == SEQMIX_OK, "%s: %d, %s", call->op->name, (int)status, seqmix_last_error(ctx));
}
