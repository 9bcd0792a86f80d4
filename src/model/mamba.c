/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 (arXiv:2312.00752). Per layer, on R rows of width D, with DI inner channels, N states, rank RK:
 *   n = rms_norm(h);  [x | z] = W_in n (+ bias);  x = silu(conv(x))
 *   [dt | B | C] = W_x x;  dt = W_dt dt;  y = scan(x, softplus(dt + b_dt), A, B, C) + skip x, times silu(z)
 *   h = h + W_out y (+ bias)
 * Activations are f32, the residual h too, whatever residual_in_fp32 says. x, z, dt, B and C are used as column slices where
 * the products left them. One row goes through the step ops, more through the sequence ops; both on the same state.
 */
#include "model.h"

typedef struct mamba_layer {
    seqmix_tensor norm, in_proj, in_bias, conv, conv_bias, x_proj, dt_proj, dt_bias, A, skip, out_proj, out_bias;
} mamba_layer;

static const char *const embedding_names[] = {"embeddings.weight", "embedding.weight", NULL};

/* ---- weights ---- */

static bool matrix(seqmix_model *m, const char *name, int64_t layer, int64_t rows, int64_t columns, seqmix_tensor *out,
                   seqmix_why why)
{
    seqmix_weight_key key = {name, layer, 2, {rows, columns}};
    return seqmix_weights_view(&m->weights, &key, out, why);
}

static bool vector(seqmix_model *m, seqmix_arena *arena, const char *name, int64_t layer, int64_t n, seqmix_tensor *out,
                   seqmix_why why)
{
    seqmix_weight_key key = {name, layer, 1, {n}};
    return seqmix_weights_f32(&m->weights, &key, SEQMIX_WIDEN_PLAIN, arena, out, why);
}

static bool bind_layer(seqmix_model *m, seqmix_arena *arena, int64_t i, mamba_layer *l, seqmix_why why)
{
    const seqmix_config *c = &m->config;
    int64_t D = c->hidden, DI = c->mamba.inner, N = c->mamba.state, RK = c->mamba.dt_rank;
    *l = (mamba_layer){0};
    seqmix_weight_key conv = {"mixer.conv1d.weight", i, 2, {DI, c->mamba.conv}}, A = {"mixer.A_log", i, 2, {DI, N}};
    return vector(m, arena, "norm.weight", i, D, &l->norm, why) &&
           matrix(m, "mixer.in_proj.weight", i, 2 * DI, D, &l->in_proj, why) &&
           (!c->mamba.bias || vector(m, arena, "mixer.in_proj.bias", i, 2 * DI, &l->in_bias, why)) &&
           seqmix_weights_f32(&m->weights, &conv, SEQMIX_WIDEN_PLAIN, arena, &l->conv, why) &&
           (!c->mamba.conv_bias || vector(m, arena, "mixer.conv1d.bias", i, DI, &l->conv_bias, why)) &&
           matrix(m, "mixer.x_proj.weight", i, RK + 2 * N, DI, &l->x_proj, why) &&
           matrix(m, "mixer.dt_proj.weight", i, DI, RK, &l->dt_proj, why) &&
           vector(m, arena, "mixer.dt_proj.bias", i, DI, &l->dt_bias, why) &&
           seqmix_weights_f32(&m->weights, &A, SEQMIX_WIDEN_NEG_EXP, arena, &l->A, why) &&
           vector(m, arena, "mixer.D", i, DI, &l->skip, why) &&
           matrix(m, "mixer.out_proj.weight", i, D, DI, &l->out_proj, why) &&
           (!c->mamba.bias || vector(m, arena, "mixer.out_proj.bias", i, D, &l->out_bias, why));
}

static bool bind(seqmix_model *m, seqmix_arena *arena, seqmix_why why)
{
    const seqmix_config *c = &m->config;
    if (m->layers == NULL) m->layers = calloc((size_t)c->layers, sizeof(mamba_layer));
    if (m->layers == NULL) return seqmix_fail(why, "no memory for %lld layers", (long long)c->layers);
    seqmix_weight_key plural = {embedding_names[0], -1, 2, {c->vocab, c->hidden}};
    const char *embedding = embedding_names[seqmix_weights_has(&m->weights, &plural) ? 0 : 1];
    if (!matrix(m, embedding, -1, c->vocab, c->hidden, &m->embedding, why)) return false;
    m->head = m->embedding;
    if (!c->tied && !matrix(m, "lm_head.weight", -1, c->vocab, c->hidden, &m->head, why)) return false;
    for (int64_t i = 0; i < c->layers; i++)
        if (!bind_layer(m, arena, i, (mamba_layer *)m->layers + i, why)) return false;
    return vector(m, arena, "norm_f.weight", -1, c->hidden, &m->final_norm, why);
}

/* ---- state: per slot, all layers' convolution windows [DI, K-1], then all scan states [DI, N], f32 ---- */

static size_t state_bytes(const seqmix_config *c)
{
    size_t per_layer = (size_t)c->mamba.inner * (size_t)(c->mamba.conv - 1 + c->mamba.state) * sizeof(float);
    return per_layer * (size_t)c->layers;
}

/* A window of no rows (K = 1) is no state. */
static seqmix_tensor state_view(const seqmix_pass *p, int64_t offset, int64_t channels, int64_t n)
{
    if (n == 0) return (seqmix_tensor){0};
    return (seqmix_tensor){.data = p->state != NULL ? (float *)(void *)p->state + offset : NULL,
                           .dtype = SEQMIX_F32,
                           .rank = 3,
                           .shape = {2, channels, n},
                           .stride = {(int64_t)(p->state_bytes / sizeof(float)), n, 1}};
}

/* ---- forward ---- */

typedef struct activations {
    float *h, *n, *xz, *x, *dbc, *dt, *y;
} activations;

static float *take(seqmix_arena *arena, int64_t rows, int64_t width)
{
    return seqmix_arena_take(arena, (size_t)rows * (size_t)width * sizeof(float));
}

static seqmix_status norm(seqmix_pass *p, const seqmix_config *c, seqmix_tensor x, seqmix_tensor weight,
                          seqmix_tensor y)
{
    seqmix_norm_args args = {.struct_size = sizeof args, .eps = c->eps, .x = x, .weight = weight, .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_GATED_RMS_NORM_ROWS, &args);
}

static seqmix_status linear(seqmix_pass *p, seqmix_tensor x, seqmix_tensor weight, seqmix_tensor bias,
                            seqmix_tensor residual, seqmix_tensor y)
{
    seqmix_linear_args args = {
        .struct_size = sizeof args, .x = x, .weight = weight, .bias = bias, .residual = residual, .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_LINEAR, &args);
}

static seqmix_status conv(seqmix_pass *p, const seqmix_config *c, const mamba_layer *l, int64_t layer,
                          const seqmix_batch *batch, const activations *a)
{
    int64_t DI = c->mamba.inner, window = c->mamba.conv - 1;
    seqmix_conv_args args = {.struct_size = sizeof args,
                             .activation = SEQMIX_ACT_SILU,
                             .batch = batch,
                             .x = seqmix_view2(a->xz, p->rows, 2 * DI, 0, DI),
                             .weight = l->conv,
                             .bias = l->conv_bias,
                             .state = state_view(p, layer * DI * window, DI, window),
                             .y = seqmix_view2(a->x, p->rows, DI, 0, DI)};
    return seqmix_call(p->caller, p->rows == 1 ? SEQMIX_OP_SHORT_CONV_STEP : SEQMIX_OP_SHORT_CONV_ROWS, &args);
}

static seqmix_status scan(seqmix_pass *p, const seqmix_config *c, const mamba_layer *l, int64_t layer,
                          const seqmix_batch *batch, const activations *a)
{
    int64_t DI = c->mamba.inner, N = c->mamba.state, RK = c->mamba.dt_rank, width = RK + 2 * N;
    int64_t windows = c->layers * DI * (c->mamba.conv - 1);
    seqmix_scan_args args = {.struct_size = sizeof args,
                             .dt_softplus = 1,
                             .batch = batch,
                             .x = seqmix_view2(a->x, p->rows, DI, 0, DI),
                             .dt = seqmix_view2(a->dt, p->rows, DI, 0, DI),
                             .A = l->A,
                             .B = seqmix_view3(a->dbc, p->rows, width, RK, 1, N),
                             .C = seqmix_view3(a->dbc, p->rows, width, RK + N, 1, N),
                             .skip = l->skip,
                             .dt_bias = l->dt_bias,
                             .z = seqmix_view2(a->xz, p->rows, 2 * DI, DI, DI),
                             .state = state_view(p, windows + layer * DI * N, DI, N),
                             .y = seqmix_view2(a->y, p->rows, DI, 0, DI)};
    return seqmix_call(p->caller, p->rows == 1 ? SEQMIX_OP_SELECTIVE_SCAN_STEP : SEQMIX_OP_SELECTIVE_SCAN_ROWS, &args);
}

static seqmix_status forward_layer(seqmix_pass *p, const seqmix_config *c, const mamba_layer *l, int64_t layer,
                                   const seqmix_batch *batch, const activations *a)
{
    int64_t R = p->rows, D = c->hidden, DI = c->mamba.inner, RK = c->mamba.dt_rank, width = RK + 2 * c->mamba.state;
    const seqmix_tensor none = {0};
    seqmix_tensor h = seqmix_view2(a->h, R, D, 0, D), n = seqmix_view2(a->n, R, D, 0, D);
    seqmix_tensor x = seqmix_view2(a->x, R, DI, 0, DI), y = seqmix_view2(a->y, R, DI, 0, DI);
    seqmix_status s = norm(p, c, h, l->norm, n);
    if (s == SEQMIX_OK) s = linear(p, n, l->in_proj, l->in_bias, none, seqmix_view2(a->xz, R, 2 * DI, 0, 2 * DI));
    if (s == SEQMIX_OK) s = conv(p, c, l, layer, batch, a);
    if (s == SEQMIX_OK) s = linear(p, x, l->x_proj, none, none, seqmix_view2(a->dbc, R, width, 0, width));
    if (s == SEQMIX_OK)
        s = linear(p, seqmix_view2(a->dbc, R, width, 0, RK), l->dt_proj, none, none, seqmix_view2(a->dt, R, DI, 0, DI));
    if (s == SEQMIX_OK) s = scan(p, c, l, layer, batch, a);
    if (s == SEQMIX_OK) s = linear(p, y, l->out_proj, l->out_bias, h, h);
    return s;
}

static seqmix_status forward(const seqmix_model *m, seqmix_pass *p)
{
    const seqmix_config *c = &m->config;
    int64_t R = p->rows, D = c->hidden, DI = c->mamba.inner, needed = R - p->logits_from;
    activations a = {0};
    a.h = take(&p->buffers, R, D);
    a.n = take(&p->buffers, R, D);
    a.xz = take(&p->buffers, R, 2 * DI);
    a.x = take(&p->buffers, R, DI);
    a.dbc = take(&p->buffers, R, c->mamba.dt_rank + 2 * c->mamba.state);
    a.dt = take(&p->buffers, R, DI);
    a.y = take(&p->buffers, R, DI);

    seqmix_embed_args embed = {.struct_size = sizeof embed,
                               .n_tokens = (int32_t)R,
                               .tokens = p->tokens,
                               .table = m->embedding,
                               .y = seqmix_view2(a.h, R, D, 0, D)};
    seqmix_batch batch = {
        .struct_size = sizeof batch, .n_seqs = 1, .read_slot = &p->read_slot, .write_slot = &p->write_slot};
    seqmix_status s = seqmix_call(p->caller, SEQMIX_OP_EMBED_ROWS, &embed);
    for (int64_t i = 0; s == SEQMIX_OK && i < c->layers; i++)
        s = forward_layer(p, c, (const mamba_layer *)m->layers + i, i, &batch, &a);
    if (s != SEQMIX_OK || needed == 0) return s;

    const seqmix_tensor none = {0};
    float *last = a.h != NULL ? a.h + p->logits_from * D : NULL;
    seqmix_tensor normed = seqmix_view2(a.n, needed, D, 0, D);
    s = norm(p, c, seqmix_view2(last, needed, D, 0, D), m->final_norm, normed);
    if (s == SEQMIX_OK)
        s = linear(p, normed, m->head, none, none, seqmix_view2(p->logits, needed, c->vocab, 0, c->vocab));
    return s;
}

static void describe(const seqmix_config *c, cJSON *into)
{
    (void)cJSON_AddNumberToObject(into, "inner", (double)c->mamba.inner);
    (void)cJSON_AddNumberToObject(into, "state", (double)c->mamba.state);
    (void)cJSON_AddNumberToObject(into, "conv", (double)c->mamba.conv);
    (void)cJSON_AddNumberToObject(into, "dt_rank", (double)c->mamba.dt_rank);
}

const seqmix_family seqmix_family_mamba = {SEQMIX_FAMILY_MAMBA, embedding_names, bind, state_bytes, forward, describe};
