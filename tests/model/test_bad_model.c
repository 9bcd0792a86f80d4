/* SPDX-License-Identifier: MIT */
/* Bad input, the files around the weights: config, tensors that do not fit it, tokenizer (see test_bad_weights.c). */
#include "config.h"
#include "support.h"
#include "tokenizer.h"

/* ---- config: one key of a good config replaced ---- */

static const struct {
    const char *key, *value, *wanted; /* value NULL: without the key */
} configs[] = {
    {"model_type", "\"mamba\"", NULL},
    {"model_type", NULL, "model_type is missing"},
    {"model_type", "\"llama\"", "model_type 'llama' is not supported"},
    {"model_type", "7", "model_type is missing"},
    {"vocab_size", NULL, "vocab_size is missing"},
    {"vocab_size", "0", "vocab_size=0 is not a whole number in [1, 16777216]"},
    {"vocab_size", "-5", "vocab_size=-5 is not a whole number"},
    {"vocab_size", "1e30", "is not a whole number in [1, 16777216]"},
    {"vocab_size", "1.5", "vocab_size=1.5 is not a whole number"},
    {"vocab_size", "\"48\"", "vocab_size is not a number"},
    {"vocab_size", "null", "vocab_size is missing"},
    {"hidden_size", NULL, "hidden_size is missing"},
    {"hidden_size", "16777217", "hidden_size=16777217 is not a whole number"},
    {"num_hidden_layers", NULL, "num_hidden_layers is missing"},
    {"num_hidden_layers", "5000", "num_hidden_layers=5000 is not a whole number in [1, 4096]"},
    {"state_size", NULL, "state_size is missing"},
    {"state_size", "257", "state_size=257 is not a whole number in [1, 256]"},
    {"conv_kernel", NULL, "conv_kernel is missing"},
    {"conv_kernel", "17", "conv_kernel=17 is not a whole number in [1, 16]"},
    {"expand", "0", "expand is not a number"},
    {"expand", "\"2\"", "expand is not a number"},
    {"expand", "1e9", "expand is not a number"},
    {"intermediate_size", "0", "intermediate_size=0 is not a whole number"},
    {"intermediate_size", "32", NULL},
    {"time_step_rank", "\"auto\"", NULL},
    {"time_step_rank", NULL, NULL},
    {"time_step_rank", "\"some\"", "time_step_rank is neither \"auto\" nor a whole number"},
    {"time_step_rank", "0", "time_step_rank is neither \"auto\" nor a whole number"},
    {"layer_norm_epsilon", NULL, "layer_norm_epsilon is missing"},
    {"layer_norm_epsilon", "0", "layer_norm_epsilon is not a number in"},
    {"layer_norm_epsilon", "-1e-5", "layer_norm_epsilon is not a number in"},
    {"layer_norm_epsilon", "\"1e-5\"", "layer_norm_epsilon is not a number in"},
    {"use_bias", "1", "use_bias is neither true nor false"},
    {"use_conv_bias", "\"true\"", "use_conv_bias is neither true nor false"},
    {"tie_word_embeddings", "0", "tie_word_embeddings is neither true nor false"},
    {"hidden_act", "\"gelu\"", "hidden_act 'gelu' is not supported"},
    {"hidden_act", "3", "hidden_act '?' is not supported"},
    {"eos_token_id", "[0,47]", NULL},
    {"eos_token_id", "null", NULL},
    {"eos_token_id", "48", "eos_token_id is not in [0, vocab_size=48)"},
    {"eos_token_id", "[0,\"x\"]", "eos_token_id is not in [0, vocab_size=48)"},
    {"eos_token_id", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "eos_token_id lists more than 16 tokens"},
};

static const char *const good_config[][2] = {
    {"model_type", "\"mamba\""},
    {"vocab_size", "48"},
    {"hidden_size", "16"},
    {"num_hidden_layers", "2"},
    {"state_size", "4"},
    {"conv_kernel", "4"},
    {"expand", "2"},
    {"time_step_rank", "1"},
    {"layer_norm_epsilon", "1e-5"},
};

START_TEST(config_keys)
{
    char text[1024] = "{", why[256] = "", what[256];
    size_t at = 1;
    const char *comma = "";
    for (int i = 0; i < COUNT(good_config); i++) {
        if (strcmp(good_config[i][0], configs[_i].key) == 0) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%s\":%s", comma, good_config[i][0], good_config[i][1]);
        comma = ",";
    }
    if (configs[_i].value != NULL)
        at += (size_t)snprintf(text + at, sizeof text - at, ",\"%s\":%s", configs[_i].key, configs[_i].value);
    (void)snprintf(text + at, sizeof text - at, "}");
    (void)snprintf(what, sizeof what, "%s: %s", configs[_i].key,
                   configs[_i].value != NULL ? configs[_i].value : "left out");
    seqmix_config config;
    judge(seqmix_config_parse(text, strlen(text), "config.json", &config, (seqmix_why){why, sizeof why}), why,
          configs[_i].wanted, what);
}
END_TEST

START_TEST(config_texts)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", "config.json: empty JSON text"},
        {"{", "config.json: not valid JSON"},
        {"[]", "config.json: not a JSON object"},
        {"null", "config.json: not a JSON object"},
        {"{\"d_model\":16,\"n_layer\":2,\"vocab_size\":48}", NULL},
        {"{\"d_model\":16,\"n_layer\":2}", "vocab_size is missing"},
        {"{\"d_model\":16,\"n_layer\":2,\"vocab_size\":48,\"rms_norm\":false}", "rms_norm=false is not supported"},
        {"{\"d_model\":16,\"n_layer\":2,\"vocab_size\":48,\"ssm_cfg\":{\"layer\":\"Mamba2\"}}",
         "headdim=64 does not divide the inner size 32"},
        {"{\"d_model\":32,\"n_layer\":2,\"vocab_size\":48,\"ssm_cfg\":{\"layer\":\"Mamba2\"}}", NULL},
        {"{\"d_model\":16,\"n_layer\":2,\"vocab_size\":48,\"ssm_cfg\":{\"layer\":\"Mamba3\"}}",
         "ssm_cfg.layer 'Mamba3'"},
        {"{\"d_model\":16,\"n_layer\":2,\"vocab_size\":48,\"ssm_cfg\":{\"d_state\":0}}", "d_state=0 is not"}};
    for (int i = 0; i < COUNT(cases); i++) {
        char why[256] = "";
        seqmix_config config;
        judge(seqmix_config_parse(cases[i].text, strlen(cases[i].text), "config.json", &config,
                                  (seqmix_why){why, sizeof why}),
              why, cases[i].wanted, cases[i].text);
    }
}
END_TEST

/* ---- tensors of a model ---- */

static const struct {
    tiny t;
    const char *wanted;
} tensors[] = {
#define TINY                                                                                                           \
    .vocab = 48, .hidden = 16, .layers = 2, .state = 4, .conv = 4, .dt_rank = 2, .conv_bias = true, .dtype = "F32"
    {{TINY, .tied = true}, NULL},
    {{TINY, .tied = true, .skip = "backbone.embeddings.weight"}, "the embedding ('backbone.embeddings.weight', "},
    {{TINY, .tied = true, .skip = "backbone.norm_f.weight"},
     "'backbone.norm_f.weight' is missing, wanted with shape [16]"},
    {{TINY, .tied = true, .skip = "backbone.layers.1.mixer.A_log"},
     "'backbone.layers.1.mixer.A_log' is missing, wanted with shape [32, 4]"},
    {{TINY, .tied = true, .skip = "backbone.layers.0.mixer.conv1d.bias"}, "conv1d.bias' is missing"},
    {{TINY, .tied = false, .skip = "lm_head.weight"}, "'lm_head.weight' is missing, wanted with shape [48, 16]"},
    {{TINY, .tied = true, .reshape = "backbone.layers.1.mixer.in_proj.weight"},
     "in_proj.weight' has shape [65, 16], wanted [64, 16]"},
    {{TINY, .tied = true, .reshape = "backbone.layers.1.mixer.conv1d.weight"},
     "conv1d.weight' has shape [33, 1, 4], wanted [32, 4]"},
    {{TINY, .tied = true, .reshape = "backbone.layers.0.mixer.D"}, "mixer.D' has shape [33], wanted [32]"},
    {{TINY, .tied = true, .reshape = "backbone.embeddings.weight"},
     "embeddings.weight' has shape [49, 16], wanted [48, 16]"},
    {{TINY, .tied = true, .retype = "backbone.layers.0.mixer.x_proj.weight"},
     "x_proj.weight' has dtype I32, wanted F32, BF16 or F16"},
    {{TINY, .tied = true, .retype = "backbone.layers.0.norm.weight"},
     "norm.weight' has dtype I32, wanted F32, BF16 or F16"},
};

START_TEST(model_tensors)
{
    char why[512] = "";
    const char *dir = temporary_dir();
    write_tiny(dir, &tensors[_i].t);
    seqmix_model *model = seqmix_model_open(dir, (seqmix_why){why, sizeof why});
    judge(model != NULL, why, tensors[_i].wanted, "");
    seqmix_model_close(model);
}
END_TEST

START_TEST(generation_config)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {{"{\"eos_token_id\":[1,2]}", NULL},
                 {"{}", NULL},
                 {"{\"eos_token_id\":48}", "generation_config.json: eos_token_id is not in"},
                 {"{\"eos_token_id\":", "generation_config.json: not valid JSON"}};
    for (int i = 0; i < COUNT(cases); i++) {
        char why[512] = "";
        const char *dir = temporary_dir();
        write_tiny(dir, &tiny_default);
        write_text(dir, "generation_config.json", cases[i].text);
        seqmix_config config;
        bool ok = seqmix_config_open(dir, &config, (seqmix_why){why, sizeof why});
        judge(ok, why, cases[i].wanted, cases[i].text);
        ck_assert(!ok || (config.n_stop == (i == 0 ? 2 : 1) && config.stop[0] == (i == 0 ? 1 : 0)));
    }
}
END_TEST

/* ---- tokenizers: parts of a good file replaced ---- */

#define BYTES "{\"type\":\"ByteLevel\"}"

static const struct {
    const char *model, *added, *pre, *rest, *wanted;
} tokenizers[] = {
#define MODEL(vocab, merges) "{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define GOOD                 MODEL("\"a\":0,\"b\":1,\"ab\":2", "\"a b\"")
    {GOOD, "[]", BYTES, "", NULL},
    {GOOD, "null", BYTES, ",\"decoder\":" BYTES, NULL},
    {"null", "[]", BYTES, "", "model is missing"},
    {"[]", "[]", BYTES, "", "model is missing"},
    {"{\"type\":\"Unigram\",\"vocab\":[]}", "[]", BYTES, "", "model.type 'Unigram' is not supported"},
    {"{\"merges\":[]}", "[]", BYTES, "", "model.vocab is not an object with tokens"},
    {MODEL("", ""), "[]", BYTES, "", "model.vocab is not an object with tokens"},
    {"{\"vocab\":{\"a\":0}}", "[]", BYTES, "", "model.merges is not an array"},
    {MODEL("\"a\":-1", ""), "[]", BYTES, "", "the id of token 'a' is not a whole number in [0, 16777215]"},
    {MODEL("\"a\":16777216", ""), "[]", BYTES, "", "the id of token 'a' is not a whole number"},
    {MODEL("\"a\":0.5", ""), "[]", BYTES, "", "the id of token 'a' is not a whole number"},
    {MODEL("\"a\":\"0\"", ""), "[]", BYTES, "", "the id of token 'a' is not a whole number"},
    {MODEL("\"a\":0,\"b\":0", ""), "[]", BYTES, "", "tokens 'a' and 'b' both have id 0"},
    {MODEL("\"a\":0,\"a\":1", ""), "[]", BYTES, "", "token 'a' occurs twice"},
    {MODEL("\"a\":0,\"ab\":1", "\"a b\""), "[]", BYTES, "",
     "merge 0 ('a' with 'b'): the right half is not in the vocabulary"},
    {MODEL("\"b\":0,\"ab\":1", "\"a b\""), "[]", BYTES, "", "the left half is not in the vocabulary"},
    {MODEL("\"a\":0,\"b\":1", "\"a b\""), "[]", BYTES, "", "the whole is not in the vocabulary"},
    {MODEL("\"a\":0", "\"a\""), "[]", BYTES, "", "merge 0 is neither"},
    {MODEL("\"a\":0", "\"a a a\""), "[]", BYTES, "", "merge 0 is neither"},
    {MODEL("\"a\":0", "[\"a\"]"), "[]", BYTES, "", "merge 0 is neither"},
    {MODEL("\"a\":0", "[\"a\",\"a\",\"a\"]"), "[]", BYTES, "", "merge 0 is neither"},
    {MODEL("\"a\":0", "7"), "[]", BYTES, "", "merge 0 is neither"},
    {MODEL("\"a\":0", "\" \""), "[]", BYTES, "", "the left half is not in the vocabulary"},
    {"{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}", "[]", BYTES, "", "model.dropout is not supported"},
    {"{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}", "[]", BYTES, "",
     "model.end_of_word_suffix is not supported"},
    {GOOD, "7", BYTES, "", "added_tokens is not an array"},
    {GOOD, "[{\"id\":5}]", BYTES, "", "an added token lacks its content"},
    {GOOD, "[{\"content\":\"x\"}]", BYTES, "", "an added token lacks its content, or an id"},
    {GOOD, "[{\"content\":\"x\",\"id\":1e12}]", BYTES, "", "an added token lacks its content, or an id"},
    {GOOD, "[7]", BYTES, "", "an added token lacks its content"},
    {GOOD, "[{\"content\":\"x\",\"id\":1}]", BYTES, "", "added token 'x' has id 1, which is that of 'b'"},
    {GOOD, "[{\"content\":\"\xFF\",\"id\":9}]", BYTES, "", "added token 9 is not UTF-8"},
    {GOOD, "[]", "null", "", "pre_tokenizer '' is not supported"},
    {GOOD, "[]", "{\"type\":\"Metaspace\"}", "", "pre_tokenizer 'Metaspace' is not supported"},
    {GOOD, "[]", "{\"type\":\"Sequence\",\"pretokenizers\":[]}", "", "pre_tokenizer has no ByteLevel"},
    {GOOD, "[]", "{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," BYTES "]}", "", "'ByteLevel' after ByteLevel"},
    {GOOD, "[]", "{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}", "",
     "pattern is neither a Regex nor a String"},
    {GOOD, "[]", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}", "",
     "behavior 'Odd' is not known"},
    {GOOD, "[]", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}", "",
     "pattern '(a' at byte 2"},
    {GOOD, "[]", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&[b]]\"},\"behavior\":\"Isolated\"}", "",
     "set intersection"},
    {GOOD, "[]", BYTES, ",\"normalizer\":{\"type\":\"Lowercase\"}", "normalizer 'Lowercase' is not supported"},
    {GOOD, "[]", BYTES, ",\"decoder\":{\"type\":\"WordPiece\"}", "decoder 'WordPiece' is not supported"},
    {GOOD, "[]", BYTES, ",\"post_processor\":{\"type\":\"BertProcessing\"}",
     "post_processor 'BertProcessing' is not supported"},
    {GOOD, "[]", BYTES, ",\"post_processor\":{\"type\":\"TemplateProcessing\"}", "single is not an array"},
    {GOOD, "[]", BYTES, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}",
     "does not hold the text exactly once"},
    {GOOD, "[]", BYTES,
     ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"z\"}}]}",
     "token 'z' has no ids"},
    {GOOD, "[]", BYTES,
     ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"z\"}}],\"special_"
     "tokens\":{\"z\":{\"ids\":[3]}}}",
     "an id of 'z' is no token"},
    {GOOD, "[{\"content\":\"x\",\"id\":9}]", BYTES,
     ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"z\"}}],\"special_"
     "tokens\":{\"z\":"
     "{\"ids\":[5]}}}",
     "an id of 'z' is no token"},
};

START_TEST(tokenizer_files)
{
    char text[2048], why[512] = "";
    (void)snprintf(text, sizeof text, "{\"model\":%s,\"added_tokens\":%s,\"pre_tokenizer\":%s%s}", tokenizers[_i].model,
                   tokenizers[_i].added, tokenizers[_i].pre, tokenizers[_i].rest);
    seqmix_tokenizer *t = seqmix_tokenizer_parse(text, strlen(text), "tokenizer.json", (seqmix_why){why, sizeof why});
    judge(t != NULL, why, tokenizers[_i].wanted, text);
    ck_assert(t != NULL || strncmp(why, "tokenizer.json: ", 16) == 0);
    seqmix_tokenizer_free(t);
}
END_TEST

/* Backtracking without end is cut off with a message. */
START_TEST(tokenizer_backtracking)
{
    char why[512] = "", text[64];
    const char *json =
        "{\"model\":" GOOD ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"(a|aa)+[bc]\"},\"behavior\":\"Isolated\"}," BYTES "]}}";
    seqmix_tokenizer *t = seqmix_tokenizer_parse(json, strlen(json), "t", (seqmix_why){why, sizeof why});
    ck_assert_msg(t != NULL, "%s", why);
    seqmix_ids ids = {0};
    memset(text, 'a', sizeof text);
    bool ok = seqmix_tokenizer_encode(t, text, sizeof text, false, &ids, (seqmix_why){why, sizeof why});
    judge(ok, why, "pre_tokenizer: match limit exceeded", "");
    free(ids.data);
    seqmix_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad model");
    TCase *cases = tcase_create("bad model");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, config_keys, 0, COUNT(configs));
    tcase_add_test(cases, config_texts);
    tcase_add_loop_test(cases, model_tensors, 0, COUNT(tensors));
    tcase_add_test(cases, generation_config);
    tcase_add_loop_test(cases, tokenizer_files, 0, COUNT(tokenizers));
    tcase_add_test(cases, tokenizer_backtracking);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
