/* SPDX-License-Identifier: MIT */
/*
 * Bad input for the families beyond Mamba-1: one key of a good checkpoint's config replaced, or one value in the metadata of a
 * good GGUF file, which then no longer agrees with itself or with the tensors beside it. Each ends in a sentence that names
 * the thing; nothing large is allocated.
 */
#include "config.h"
#include "support.h"

static const struct {
    const char *model, *key, *value, *wanted; /* value NULL: without the key; wanted NULL: still good */
} configs[] = {
    {"mamba2", "num_heads", "7", "num_heads*head_dim=112 is not hidden_size*expand=128"},
    {"mamba2", "num_heads", "1e18", "num_heads=1e+18 is not a whole number in [1, 65536]"},
    {"mamba2", "head_dim", "257", "head_dim=257 is not a whole number in [1, 256]"},
    {"mamba2", "n_groups", "3", "the groups=3 does not divide the heads=8"},
    {"mamba2", "n_groups", "2", "in_proj.weight' has shape [296, 64], wanted [328, 64]"},
    {"mamba2", "state_size", NULL, "state_size is missing"},
    {"mamba2", "conv_kernel", "3", "conv1d.weight' has shape [160, 1, 4], wanted [160, 3]"},
    {"mamba2", "num_hidden_layers", "4", "'backbone.layers.3.norm.weight' is missing"},
    {"mamba2", "use_bias", "true", "in_proj.bias' is missing, wanted with shape [296]"},
    {"mamba2", "time_step_limit", "[0.5,0.1]", "time_step_limit has an upper bound of 0.1 below its lower one of 0.5"},
    {"mamba2", "time_step_limit", "[0.5]", "time_step_limit is not a pair"},
    {"mamba2", "time_step_limit", "[\"a\",1]", "time_step_limit is not a pair"},
    {"mamba2", "time_step_limit", "[0.0,{\"__float__\":\"Infinity\"}]", NULL},
    {"mamba2", "time_step_limit", "[0.0,1e31]", NULL},
    {"mamba2", "tie_word_embeddings", "false", "'lm_head.weight' is missing"},
    {"nemotron-h", "hybrid_override_pattern", "\"M-M*-\"",
     "hybrid_override_pattern has 5 layers, num_hidden_layers is 6"},
    {"nemotron-h", "hybrid_override_pattern", "\"M-M*-x\"", "has 'x' at 5, not one of M, -, *, E"},
    {"nemotron-h", "hybrid_override_pattern", "\"\"", "hybrid_override_pattern is empty"},
    {"nemotron-h", "hybrid_override_pattern", "7", "hybrid_override_pattern is not a text"},
    {"nemotron-h", "hybrid_override_pattern", NULL, "hybrid_override_pattern is missing"},
    {"nemotron-h", "hybrid_override_pattern", "\"*-M*-*\"", "mixer.q_proj.weight' is missing"},
    {"nemotron-h", "hybrid_override_pattern", "\"MEM*-*\"", "n_routed_experts is missing"},
    {"nemotron-h", "layers_block_type", "[\"mamba\",\"mlp\",\"mamba\",\"attention\",\"mlp\",\"attention\"]", NULL},
    {"nemotron-h", "layers_block_type", "[\"mamba\",\"conv\"]", "layers_block_type[1] 'conv' is no kind of layer"},
    {"nemotron-h", "num_key_value_heads", "3", "the heads of keys=3 does not divide the heads of queries=4"},
    {"nemotron-h", "head_dim", "512", "head_dim=512 is not a whole number in [1, 256]"},
    {"nemotron-h", "mlp_hidden_act", "\"gelu\"", "mlp_hidden_act 'gelu' is not supported (only relu2)"},
    {"nemotron-h", "intermediate_size", "97", "up_proj.weight' has shape [96, 64], wanted [97, 64]"},
    {"nemotron-h", "layer_norm_epsilon", "2", "layer_norm_epsilon is not a number in"},
    {"nemotron-h-moe", "num_experts_per_tok", "9", "9 of 8 experts"},
    {"nemotron-h-moe", "n_routed_experts", "9", "gate.weight' has shape [8, 64], wanted [9, 64]"},
    {"nemotron-h-moe", "n_routed_experts", "100000", "n_routed_experts=100000 is not a whole number in [1, 1024]"},
    {"nemotron-h-moe", "n_group", "3", "the groups of experts=3 does not divide the experts=8"},
    {"nemotron-h-moe", "topk_group", "2", "2 of 1 groups a token"},
    {"nemotron-h-moe", "moe_latent_size", "16", "experts.0.up_proj.weight' has shape [32, 64], wanted [32, 16]"},
    {"qwen35", "linear_num_value_heads", "3", "the key heads=2 does not divide the value heads=3"},
    {"qwen35", "linear_key_head_dim", "0", "linear_key_head_dim=0 is not a whole number in [1, 256]"},
    {"qwen35", "layer_types", "[\"linear_attention\",\"sliding\"]", "layer_types[1] 'sliding' is no kind of layer"},
    {"qwen35", "layer_types", "[\"full_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\"]",
     "self_attn.q_proj.weight' is missing"},
    {"qwen35", "layer_types", "[]", "layer_types is empty"},
    {"qwen35", "num_hidden_layers", "5", "layer_types has 4 layers, num_hidden_layers is 5"},
    {"qwen35", "rope_parameters", "{\"rope_type\":\"yarn\"}", "rope_type 'yarn' is not supported"},
    {"qwen35", "rope_parameters", "3", "rope_parameters is not an object"},
    {"qwen35", "rope_parameters", "{\"partial_rotary_factor\":2}", "partial_rotary_factor is not a number in [0, 1]"},
    {"qwen35", "hidden_act", "\"gelu\"", "hidden_act 'gelu' is not supported"},
    {"qwen35", "vocab_size", "321", "embed_tokens.weight' has shape [320, 64], wanted [321, 64]"},
    {"qwen35-moe", "text_config", "{}", "vocab_size is missing"},
    {"qwen3-next", "mlp_only_layers", "[4]", "mlp_only_layers names a layer outside [0, 4)"},
    {"qwen3-next", "decoder_sparse_step", "0", "decoder_sparse_step=0 is not a whole number"},
    {"qwen3-next", "mlp_only_layers", "[1]", "layers.1.mlp.gate_proj.weight' is missing"},
};

static const char *golden_model(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "models/%s", name);
    return golden(path);
}

START_TEST(config_keys)
{
    char why[512] = "", dir[512];
    (void)snprintf(dir, sizeof dir, "%s", golden_model(configs[_i].model));
    const char *other = temporary_dir();
    seqmix_bytes raw = read_file(in_dir(dir, "config.json"));
    /* Infinity is no JSON; a number beyond all means the same. */
    ck_assert(seqmix_bytes_add(&raw, "", 1));
    for (char *at = strstr((char *)raw.data, "Infinity"); at != NULL; at = strstr(at, "Infinity"))
        memcpy(at, "1e31    ", 8);
    cJSON *tree = cJSON_Parse((const char *)raw.data);
    ck_assert_ptr_nonnull(tree);
    cJSON_DeleteItemFromObject(tree, configs[_i].key);
    if (configs[_i].value != NULL) {
        cJSON *value = cJSON_Parse(configs[_i].value);
        ck_assert_ptr_nonnull(value);
        (void)cJSON_AddItemToObject(tree, configs[_i].key, value);
    }
    char *text = cJSON_Print(tree);
    write_text(other, "config.json", text);
    copy_file(dir, other, "model.safetensors");
    seqmix_model *model = seqmix_model_open(other, (seqmix_why){why, sizeof why});
    judge(model != NULL, why, configs[_i].wanted, configs[_i].key);
    seqmix_model_close(model);
    cJSON_free(text);
    cJSON_Delete(tree);
    free(raw.data);
}
END_TEST

/* ---- GGUF: a number behind a key, or a part of a text, replaced in place ---- */

static const struct {
    const char *file, *key;
    uint32_t value;
    const char *text; /* not NULL: in place of `key`, of its length */
    const char *wanted;
} metadata[] = {
    {"qwen35-f16", "qwen35.block_count", 5, NULL, "blk.4.ssm_conv1d.weight' is missing"},
    {"qwen35-f16", "qwen35.block_count", 4000000000U, NULL, "qwen35.block_count"},
    {"qwen35-f16", "qwen35.embedding_length", 0, NULL, "qwen35.embedding_length"},
    {"qwen35-f16", "qwen35.embedding_length", 65, NULL, "has shape [320, 64], wanted [320, 65]"},
    {"qwen35-f16", "qwen35.ssm.time_step_rank", 3, NULL, "an inner size of 64 does not make 3 heads"},
    {"qwen35-f16", "qwen35.ssm.group_count", 3, NULL, "the key heads=3 does not divide the value heads=4"},
    {"qwen35-f16", "qwen35.ssm.state_size", 257, NULL, "qwen35.ssm.state_size"},
    {"qwen35-f16", "qwen35.full_attention_interval", 3, NULL,
     "kind attention, but 'blk.2.attn_output.weight' is missing"},
    {"qwen35-f16", "qwen35.feed_forward_length", 95, NULL, "ffn_gate.weight' has shape [96, 64], wanted [95, 64]"},
    {"qwen35-f16", "qwen35.attention.key_length", 300, NULL, "qwen35.attention.key_length"},
    {"qwen35-f16", "qwen35.attention.value_length", 16, NULL, "keys of 32 and values of 16 channels"},
    {"qwen35-f16", "qwen35.rope.dimension_count", 7, NULL, "7 rotary of 32 dimensions a head"},
    {"qwen35-f16", "qwen35.ssm.conv_kernel", 0, "qwen35.ssm.conv_kernxx", "qwen35.ssm.conv_kernel"},
    {"qwen35-f16", "blk.1.attn_norm.weight", 0, "blk.1.attn_norm.weighx", "'blk.1.attn_norm.weight' is missing"},
    {"nemotron-h-q8_0", "nemotron_h.ssm.group_count", 3, NULL, "the groups=3 does not divide the heads=4"},
    {"nemotron-h-moe-mix", "nemotron_h_moe.expert_used_count", 9, NULL, "9 of 8 experts"},
    {"nemotron-h-moe-mix", "nemotron_h_moe.expert_feed_forward_length", 31, NULL,
     "ffn_up_exps.weight' has shape [8, 32, 64], wanted [8, 31, 64]"},
};

START_TEST(gguf_metadata)
{
    char why[512] = "", name[128];
    (void)snprintf(name, sizeof name, "models/gguf/%s.gguf", metadata[_i].file);
    seqmix_bytes raw = read_file(golden(name));
    const char *key = metadata[_i].key;
    size_t n = strlen(key), at = 0;
    while (at + n + 8 < raw.n && memcmp(raw.data + at, key, n) != 0)
        at++;
    ck_assert_msg(at + n + 8 < raw.n, "%s has no %s", metadata[_i].file, key);
    if (metadata[_i].text != NULL)
        memcpy(raw.data + at, metadata[_i].text, n);
    else
        memcpy(raw.data + at + n + 4, &metadata[_i].value, 4);
    const char *dir = temporary_dir();
    write_file(dir, "bad.gguf", raw.data, raw.n);
    seqmix_model *model = seqmix_model_open(in_dir(dir, "bad.gguf"), (seqmix_why){why, sizeof why});
    judge(model != NULL, why, metadata[_i].wanted, key);
    seqmix_model_close(model);
    free(raw.data);
}
END_TEST

/* Every prefix of a file ends in a sentence, too. */
START_TEST(gguf_cut_short)
{
    char why[512];
    seqmix_bytes raw = read_file(golden("models/gguf/qwen35-f16.gguf"));
    const char *dir = temporary_dir();
    for (size_t n = 0; n < raw.n; n = n < 4096 ? n + 61 : n * 2) {
        why[0] = '\0';
        write_file(dir, "cut.gguf", raw.data, n);
        seqmix_model *model = seqmix_model_open(in_dir(dir, "cut.gguf"), (seqmix_why){why, sizeof why});
        ck_assert_msg(model == NULL && why[0] != '\0', "%zu bytes", n);
    }
    free(raw.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad families");
    TCase *cases = tcase_create("bad families");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, config_keys, 0, COUNT(configs));
    tcase_add_loop_test(cases, gguf_metadata, 0, COUNT(metadata));
    tcase_add_test(cases, gguf_cut_short);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
