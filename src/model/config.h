/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint says about itself, as numbers that were checked: config.json and generation_config.json of the Hugging
 * Face layout (config_mamba.c, config_hybrid.c), or the metadata of a GGUF file (config_gguf.c). Which part of the struct
 * counts follows from the kinds of the layers.
 */
#ifndef SEQMIX_MODEL_CONFIG_H
#define SEQMIX_MODEL_CONFIG_H

#include "json.h"

typedef enum seqmix_family_id {
    SEQMIX_FAMILY_MAMBA = 1,
    SEQMIX_FAMILY_MAMBA2,
    SEQMIX_FAMILY_NEMOTRON_H,
    SEQMIX_FAMILY_QWEN3_5 /* and Qwen3-Next */
} seqmix_family_id;

/* What a layer does to the residual. */
typedef enum seqmix_kind {
    SEQMIX_KIND_NONE,
    SEQMIX_KIND_SCAN, /* Mamba-1 */
    SEQMIX_KIND_SSD,  /* Mamba-2 */
    SEQMIX_KIND_DELTA,
    SEQMIX_KIND_ATTENTION,
    SEQMIX_KIND_MLP,
    SEQMIX_KIND_MOE,
    SEQMIX_N_KINDS
} seqmix_kind;

extern const char *const seqmix_kind_names[SEQMIX_N_KINDS];

#define SEQMIX_MAX_STOP   16
#define SEQMIX_MAX_LAYERS 4096
#define SEQMIX_MAX_SIZE   (INT64_C(1) << 24) /* of any one dimension: keeps every product of two far from overflow */

typedef struct seqmix_config {
    seqmix_family_id family;
    const char *family_name;
    int64_t vocab, hidden, layers; /* vocab counts padded rows of the embedding, too */
    int64_t context;               /* rows it was made for; 0 = not said */
    float eps;
    bool tied;            /* the head is the embedding */
    bool original_layout; /* state-spaces' own config.json, before transformers had the model */
    int32_t n_stop;
    int32_t stop[SEQMIX_MAX_STOP];    /* tokens that end a text */
    int32_t bos;                      /* and the one that begins it; -1: not said */
    uint8_t mixer[SEQMIX_MAX_LAYERS]; /* seqmix_kind of a layer */
    uint8_t ffn[SEQMIX_MAX_LAYERS];   /* and of what follows it in the same layer: NONE, MLP or MOE */
    struct {
        int64_t inner, state, conv, dt_rank;
        bool bias, conv_bias, residual_f32;
    } mamba;
    struct {
        int64_t heads, head_dim, groups, state, conv;
        float dt_min, dt_max; /* 0 = no bound */
        bool bias, conv_bias, norm_before_gate;
    } ssd;
    struct {
        int64_t key_heads, value_heads, key_dim, value_dim, conv;
        bool tiled; /* value head h belongs to key head h % key_heads, else h / (value_heads / key_heads) */
        bool fused; /* q, k, v, z in one matrix, interleaved by key head; beta and alpha in another */
    } delta;
    struct {
        int64_t heads, kv_heads, head_dim, rope_dims; /* rope_dims 0 = no positions */
        int64_t rope_sections[4]; /* pairs turned by each coordinate of a position; one and the same for text */
        float rope_base;
        bool gated, qk_norm, bias;
    } attention;
    struct {
        int64_t width;
        bool gated, bias; /* gated: silu(gate) * up; else relu(up)^2 */
    } mlp;
    struct {
        int64_t experts, per_token, width, shared_width, latent; /* shared_width, latent 0 = none */
        int64_t groups, top_groups;
        float scale;
        bool gated, sigmoid, renormalise, shared_router;
    } moe;
} seqmix_config;

/* From bytes; `label` begins the messages. */
bool seqmix_config_parse(const void *bytes, size_t size, const char *label, seqmix_config *config, seqmix_why why);
/* DIR/config.json; the stop tokens of DIR/generation_config.json, if that exists and names some, replace the config's. */
bool seqmix_config_open(const char *dir, seqmix_config *config, seqmix_why why);
/* What holds for every format: heads divide, experts suffice, kinds are there. */
bool seqmix_config_check(const seqmix_config *config, const char *label, seqmix_why why);
/* Sizes by kind of layer, into a JSON object. */
void seqmix_config_describe(const seqmix_config *config, cJSON *into);
bool seqmix_config_has(const seqmix_config *config, seqmix_kind kind);

#endif
