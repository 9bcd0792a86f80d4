/* SPDX-License-Identifier: MIT */
/* A config as JSON, for reports: the sizes of the kinds of layers that it has. */
#include "config.h"

static void add(cJSON *to, const char *key, double value)
{
    (void)cJSON_AddNumberToObject(to, key, value);
}

static void describe_mixers(const seqmix_config *c, cJSON *into)
{
    if (seqmix_config_has(c, SEQMIX_KIND_SCAN)) {
        add(into, "inner", (double)c->mamba.inner);
        add(into, "state", (double)c->mamba.state);
        add(into, "conv", (double)c->mamba.conv);
        add(into, "dt_rank", (double)c->mamba.dt_rank);
    }
    if (seqmix_config_has(c, SEQMIX_KIND_SSD)) {
        cJSON *o = cJSON_AddObjectToObject(into, "ssd");
        add(o, "heads", (double)c->ssd.heads);
        add(o, "head_dim", (double)c->ssd.head_dim);
        add(o, "groups", (double)c->ssd.groups);
        add(o, "state", (double)c->ssd.state);
        add(o, "conv", (double)c->ssd.conv);
    }
    if (seqmix_config_has(c, SEQMIX_KIND_DELTA)) {
        cJSON *o = cJSON_AddObjectToObject(into, "delta");
        add(o, "key_heads", (double)c->delta.key_heads);
        add(o, "value_heads", (double)c->delta.value_heads);
        add(o, "key_dim", (double)c->delta.key_dim);
        add(o, "value_dim", (double)c->delta.value_dim);
        add(o, "conv", (double)c->delta.conv);
        (void)cJSON_AddStringToObject(o, "heads", c->delta.tiled ? "tiled" : "grouped");
    }
}

void seqmix_config_describe(const seqmix_config *c, cJSON *into)
{
    cJSON *kinds = cJSON_AddObjectToObject(into, "kinds");
    for (int k = SEQMIX_KIND_NONE + 1; k < SEQMIX_N_KINDS; k++) {
        int64_t n = 0;
        for (int64_t i = 0; i < c->layers; i++)
            n += (c->mixer[i] == k) + (c->ffn[i] == k);
        if (n > 0) add(kinds, seqmix_kind_names[k], (double)n);
    }
    describe_mixers(c, into);
    if (seqmix_config_has(c, SEQMIX_KIND_ATTENTION)) {
        cJSON *o = cJSON_AddObjectToObject(into, "attention");
        add(o, "heads", (double)c->attention.heads);
        add(o, "kv_heads", (double)c->attention.kv_heads);
        add(o, "head_dim", (double)c->attention.head_dim);
        add(o, "rope_dims", (double)c->attention.rope_dims);
    }
    if (seqmix_config_has(c, SEQMIX_KIND_MLP)) add(into, "mlp_width", (double)c->mlp.width);
    if (seqmix_config_has(c, SEQMIX_KIND_MOE)) {
        cJSON *o = cJSON_AddObjectToObject(into, "moe");
        add(o, "experts", (double)c->moe.experts);
        add(o, "per_token", (double)c->moe.per_token);
        add(o, "width", (double)c->moe.width);
        add(o, "shared_width", (double)c->moe.shared_width);
        add(o, "latent", (double)c->moe.latent);
    }
}
