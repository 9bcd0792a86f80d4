/* SPDX-License-Identifier: MIT */
/*
 * Configs: whatever a config.json or the metadata of a GGUF file say, the numbers that come out are in their ranges, heads
 * divide, and every layer has a kind.
 */
#include "config_gguf.h"
#include "fuzz.h"

static void check_common(const seqmix_config *c)
{
    seqmix_must(c->family >= SEQMIX_FAMILY_MAMBA && c->family <= SEQMIX_FAMILY_QWEN3_5 && c->family_name != NULL);
    seqmix_must(c->vocab >= 1 && c->vocab <= SEQMIX_MAX_SIZE + 65536 && c->hidden >= 1);
    seqmix_must(c->hidden <= SEQMIX_MAX_SIZE && c->layers >= 1 && c->layers <= SEQMIX_MAX_LAYERS);
    seqmix_must(c->eps > 0.0F && c->eps <= 1.0F && c->n_stop >= 0 && c->n_stop <= SEQMIX_MAX_STOP);
    for (int32_t i = 0; i < c->n_stop; i++)
        seqmix_must(c->stop[i] >= 0 && c->stop[i] < c->vocab);
    for (int64_t i = 0; i < c->layers; i++) {
        seqmix_must(c->mixer[i] > SEQMIX_KIND_NONE && c->mixer[i] < SEQMIX_N_KINDS);
        seqmix_must(c->ffn[i] == SEQMIX_KIND_NONE || c->ffn[i] == SEQMIX_KIND_MLP || c->ffn[i] == SEQMIX_KIND_MOE);
    }
}

static bool within(int64_t value, int64_t high)
{
    return value >= 1 && value <= high;
}

static void check_kinds(const seqmix_config *c)
{
    if (seqmix_config_has(c, SEQMIX_KIND_SCAN))
        seqmix_must(within(c->mamba.inner, SEQMIX_MAX_SIZE) && within(c->mamba.dt_rank, SEQMIX_MAX_SIZE) &&
                    within(c->mamba.state, 256) && within(c->mamba.conv, 16));
    if (seqmix_config_has(c, SEQMIX_KIND_SSD))
        seqmix_must(within(c->ssd.heads, SEQMIX_MAX_SIZE) && within(c->ssd.head_dim, 256) &&
                    within(c->ssd.state, 256) && within(c->ssd.conv, 16) && c->ssd.heads % c->ssd.groups == 0);
    if (seqmix_config_has(c, SEQMIX_KIND_DELTA))
        seqmix_must(within(c->delta.key_heads, 65536) && within(c->delta.key_dim, 256) &&
                    within(c->delta.value_dim, 256) && within(c->delta.conv, 16) &&
                    c->delta.value_heads % c->delta.key_heads == 0);
    if (seqmix_config_has(c, SEQMIX_KIND_ATTENTION))
        seqmix_must(within(c->attention.head_dim, 256) && within(c->attention.heads, 65536) &&
                    c->attention.heads % c->attention.kv_heads == 0 && c->attention.rope_dims % 2 == 0 &&
                    c->attention.rope_dims >= 0 && c->attention.rope_dims <= c->attention.head_dim);
    if (seqmix_config_has(c, SEQMIX_KIND_MLP)) seqmix_must(within(c->mlp.width, SEQMIX_MAX_SIZE));
    if (seqmix_config_has(c, SEQMIX_KIND_MOE))
        seqmix_must(within(c->moe.experts, 1024) && within(c->moe.per_token, c->moe.experts) &&
                    within(c->moe.width, SEQMIX_MAX_SIZE) && c->moe.experts % c->moe.groups == 0);
}

static void check(bool ok, const seqmix_config *c, const char *why)
{
    seqmix_must(ok || why[0] != '\0');
    if (!ok) return;
    check_common(c);
    check_kinds(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[256] = "";
    static seqmix_config c;
    seqmix_gguf gguf;
    if (size < 4 || memcmp(data, "GGUF", 4) != 0) {
        bool ok = seqmix_config_parse(data, size, "fuzz", &c, (seqmix_why){why, sizeof why});
        check(ok, &c, why);
        return 0;
    }
    /* The reader wants its bytes aligned. */
    void *copy = aligned_alloc(64, (size + 63) / 64 * 64);
    seqmix_must(copy != NULL);
    memcpy(copy, data, size);
    if (seqmix_gguf_parse(copy, size, "fuzz", &gguf, (seqmix_why){NULL, 0})) {
        bool ok = seqmix_config_gguf(&gguf, "fuzz", &c, (seqmix_why){why, sizeof why});
        check(ok, &c, why);
        seqmix_gguf_close(&gguf);
    }
    free(copy);
    return 0;
}
