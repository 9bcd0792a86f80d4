/* SPDX-License-Identifier: MIT */
/* Opening a model: its blocks bound to the checkpoint's tensors (see model.h). */
#include "model.h"

#include "config_gguf.h"

/* How a family's safetensors name things; GGUF has one way for all. */
typedef struct family {
    seqmix_family_id id;
    const char *norm, *ffn_norm, *final_norm;
    seqmix_widen norm_widen;
    const char *module[SEQMIX_N_KINDS];
} family;

#define MIXER "mixer"
static const family families[] = {
    {SEQMIX_FAMILY_MAMBA, "norm.weight", NULL, "norm_f.weight", SEQMIX_WIDEN_PLAIN, {[SEQMIX_KIND_SCAN] = MIXER}},
    {SEQMIX_FAMILY_MAMBA2, "norm.weight", NULL, "norm_f.weight", SEQMIX_WIDEN_PLAIN, {[SEQMIX_KIND_SSD] = MIXER}},
    {SEQMIX_FAMILY_NEMOTRON_H,
     "norm.weight",
     NULL,
     "norm_f.weight",
     SEQMIX_WIDEN_PLAIN,
     {[SEQMIX_KIND_SSD] = MIXER,
      [SEQMIX_KIND_ATTENTION] = MIXER,
      [SEQMIX_KIND_MLP] = MIXER,
      [SEQMIX_KIND_MOE] = MIXER}},
    {SEQMIX_FAMILY_QWEN3_5,
     "input_layernorm.weight",
     "post_attention_layernorm.weight",
     "norm.weight",
     SEQMIX_WIDEN_PLUS_ONE,
     {[SEQMIX_KIND_DELTA] = "linear_attn",
      [SEQMIX_KIND_ATTENTION] = "self_attn",
      [SEQMIX_KIND_MLP] = "mlp",
      [SEQMIX_KIND_MOE] = "mlp"}},
};

static const family *family_of(seqmix_family_id id)
{
    const family *f = families;
    while (f->id != id)
        f++;
    return f;
}

int64_t seqmix_window_floats(const seqmix_config *c, seqmix_kind kind)
{
    switch (kind) {
    case SEQMIX_KIND_SCAN:
        return c->mamba.inner * (c->mamba.conv - 1);
    case SEQMIX_KIND_SSD:
        return (c->ssd.heads * c->ssd.head_dim + 2 * c->ssd.groups * c->ssd.state) * (c->ssd.conv - 1);
    case SEQMIX_KIND_DELTA:
        return (2 * c->delta.key_heads * c->delta.key_dim + c->delta.value_heads * c->delta.value_dim) *
               (c->delta.conv - 1);
    default:
        return 0;
    }
}

int64_t seqmix_state_floats(const seqmix_config *c, seqmix_kind kind)
{
    switch (kind) {
    case SEQMIX_KIND_SCAN:
        return c->mamba.inner * c->mamba.state;
    case SEQMIX_KIND_SSD:
        return c->ssd.heads * c->ssd.head_dim * c->ssd.state;
    case SEQMIX_KIND_DELTA:
        return c->delta.value_heads * c->delta.key_dim * c->delta.value_dim;
    default:
        return 0;
    }
}

static void bind_block(seqmix_binder *b, const seqmix_config *c, seqmix_block *block)
{
    switch (block->kind) {
    case SEQMIX_KIND_SCAN:
        seqmix_bind_scan(b, c, &block->u.scan);
        break;
    case SEQMIX_KIND_SSD:
        seqmix_bind_ssd(b, c, &block->u.ssd);
        break;
    case SEQMIX_KIND_DELTA:
        seqmix_bind_delta(b, c, &block->u.delta);
        break;
    case SEQMIX_KIND_ATTENTION:
        seqmix_bind_attention(b, c, &block->u.attention);
        break;
    case SEQMIX_KIND_MLP:
        seqmix_bind_mlp(b, c, &block->u.mlp);
        break;
    default:
        seqmix_bind_moe(b, c, &block->u.moe);
        break;
    }
}

static void bind_model(seqmix_model *m, seqmix_binder *b)
{
    const seqmix_config *c = &m->config;
    const family *f = family_of(c->family);
    b->layer = -1;
    b->module = "";
    m->embedding = seqmix_bind_matrix(b, m->weights.embedding, "token_embd.weight", c->vocab, c->hidden);
    m->head = c->tied ? m->embedding : seqmix_bind_matrix(b, "lm_head.weight", "output.weight", c->vocab, c->hidden);
    for (int64_t i = 0; !b->failed && i < m->n_blocks; i++) {
        seqmix_block *block = &m->blocks[i];
        bool second = i > 0 && m->blocks[i - 1].layer == block->layer;
        b->layer = block->layer;
        b->module = "";
        block->norm =
            seqmix_bind_vector(b, second ? f->ffn_norm : f->norm,
                               second ? "post_attention_norm.weight" : "attn_norm.weight", c->hidden, f->norm_widen);
        b->module = f->module[block->kind];
        bind_block(b, c, block);
    }
    b->layer = -1;
    b->module = "";
    m->final_norm = seqmix_bind_vector(b, f->final_norm, "output_norm.weight", c->hidden, f->norm_widen);
}

/* The run of blocks, and where each has its state. */
static bool lay_out(seqmix_model *m, seqmix_why why)
{
    const seqmix_config *c = &m->config;
    int64_t at = 0;
    m->blocks = calloc(2 * (size_t)c->layers, sizeof *m->blocks);
    if (m->blocks == NULL) return seqmix_fail(why, "no memory for %lld layers", (long long)c->layers);
    for (int64_t i = 0; i < 2 * c->layers; i++) {
        seqmix_kind kind = i % 2 == 0 ? c->mixer[i / 2] : c->ffn[i / 2];
        if (kind == SEQMIX_KIND_NONE) continue;
        seqmix_block *block = &m->blocks[m->n_blocks++];
        block->kind = kind;
        block->layer = i / 2;
        block->window_at = at;
        block->state_at = at + seqmix_window_floats(c, kind);
        at = block->state_at + seqmix_state_floats(c, kind);
        if (kind == SEQMIX_KIND_ATTENTION) block->cache = m->n_caches++;
    }
    m->state_bytes = (size_t)at * sizeof(float);
    return true;
}

static bool open_parts(seqmix_model *m, const char *path, seqmix_why why)
{
    size_t n = strlen(path);
    bool is_gguf = n > 5 && strcmp(path + n - 5, ".gguf") == 0;
    if (!is_gguf && !seqmix_config_open(path, &m->config, why)) return false;
    if (!seqmix_weights_open(path, &m->weights, why)) return false;
    return !is_gguf || seqmix_config_gguf(&m->weights.gguf, path, &m->config, why);
}

seqmix_model *seqmix_model_open(const char *path, seqmix_why why)
{
    seqmix_model *m = calloc(1, sizeof *m);
    if (m == NULL) {
        (void)seqmix_fail(why, "%s: no memory", path);
        return NULL;
    }
    seqmix_arena counting = {NULL, 0, 0}, on_device = {NULL, 0, 0};
    seqmix_binder b = {.weights = &m->weights, .arena = &counting, .on_device = &on_device, .why = why};
    bool ok = open_parts(m, path, why) && lay_out(m, why);
    if (ok) bind_model(m, &b);
    if (!ok || b.failed) {
        seqmix_model_close(m);
        return NULL;
    }
    m->weight_bytes = b.bytes;
    m->elements = b.elements;
    m->parameter_bytes = counting.used;
    m->device_bytes = on_device.used;
    return m;
}

bool seqmix_model_each_tensor(seqmix_model *m, bool (*tell)(void *listener, const seqmix_bound *t, seqmix_why why),
                              void *listener, seqmix_why why)
{
    seqmix_arena counting = {NULL, 0, 0};
    seqmix_binder b = {.weights = &m->weights, .arena = &counting, .tell = tell, .listener = listener, .why = why};
    bind_model(m, &b);
    return !b.failed;
}

/* Parameters laid out in host memory by `b`, whose arena is given. */
static bool fill(seqmix_model *m, seqmix_binder *b, char **memory, seqmix_why why)
{
    size_t bytes = m->parameter_bytes > 0 ? m->parameter_bytes : SEQMIX_ARENA_ALIGN;
    *memory = aligned_alloc(SEQMIX_ARENA_ALIGN, bytes);
    if (*memory == NULL) return seqmix_fail(why, "no memory for %zu bytes of parameters", bytes);
    b->arena->base = *memory;
    bind_model(m, b);
    return !b->failed;
}

/* Through host memory, which is given back. */
static bool fill_device(seqmix_model *m, seqmix_binder *b, seqmix_ctx *device, seqmix_why why)
{
    const seqmix_ctx_desc host = {.struct_size = sizeof host};
    seqmix_arena on_device = {NULL, 0, 0};
    char *memory = NULL;
    void *base = NULL;
    if (seqmix_mem_alloc(device, m->device_bytes, &base) != SEQMIX_OK)
        return seqmix_fail(why, "no memory for %zu bytes of weights: %s", m->device_bytes, seqmix_last_error(device));
    m->device = device;
    m->on_device = on_device.base = base;
    b->on_device = &on_device;
    b->device = device;
    bool ok = seqmix_ctx_create(device->api, &host, &b->ctx, why.text, why.size) == SEQMIX_OK;
    ok = ok && fill(m, b, &memory, why);
    seqmix_ctx_destroy(b->ctx);
    free(memory);
    return ok;
}

static void free_on_device(seqmix_model *m)
{
    if (m->device != NULL) seqmix_mem_free(m->device, m->on_device);
    m->device = NULL;
    m->on_device = NULL;
}

bool seqmix_model_prepare(seqmix_model *m, seqmix_ctx *ctx, bool device, seqmix_why why)
{
    if (m->parameters != NULL || m->device != NULL) return true;
    seqmix_arena arena = {NULL, 0, 0};
    seqmix_binder b = {.weights = &m->weights, .arena = &arena, .ctx = ctx, .why = why};
    if (device ? fill_device(m, &b, ctx, why) : fill(m, &b, &m->parameters, why)) return true;
    free(m->parameters);
    m->parameters = NULL;
    free_on_device(m);
    return false;
}

void seqmix_model_close(seqmix_model *m)
{
    if (m == NULL) return;
    seqmix_weights_close(&m->weights);
    free(m->blocks);
    free(m->parameters);
    free_on_device(m);
    free(m);
}
