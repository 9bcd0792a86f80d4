/* SPDX-License-Identifier: MIT */
/*
 * From a directory in the Hugging Face layout to GGUF: every tiny checkpoint stays the model it was, and is told as
 * tests/golden/gguf_twin.py (that is, llama.cpp's converter) tells it; what GGUF cannot say is refused; threads change no byte.
 */
#include <math.h>

#include "export.h"
#include "quantize.h"
#include "support.h"

/*
 * What a conversion to F32 changes, to F16 and to Q8_0: of the logits, relative to their largest; each bound is twice what was
 * measured, or more. 0: not a bit; where value heads change places, a sum does, too. -1: no bound, a router's choice may tip.
 */
static const struct {
    const char *dir;
    double f32, f16, q8_0;
} models[] = {
    {"mamba-tiny", 0, 1e-3, 3e-2},
    {"mamba-tiny-f16", 0, 0, 3e-2},
    {"mamba-tiny-bf16", 0, 1e-6, 3e-2},
    {"nemotron-tiny", 0, 1e-6, 4e-2},
    {"qwen35-tiny", 1e-5, 1e-5, 7e-2},
    {"models/mamba2", 0, 3e-3, 8e-2},
    {"models/mamba2-groups", 0, 0, 8e-2},
    {"models/mamba2-original", 0, 0, 8e-2},
    {"models/nemotron-h", 0, 3e-3, 8e-2},
    {"models/nemotron-h-f16", 0, 0, 8e-2},
    {"models/nemotron-h-latent", 0, 1e-6, -1},
    {"models/nemotron-h-moe", 0, 1e-6, -1},
    {"models/qwen3-next", 0, 0, -1},
    {"models/qwen35", 1e-5, 6e-2, 2e-1},
    {"models/qwen35-moe", 1e-5, 1e-5, -1},
    {"models/qwen35-tied", 1e-5, 1e-5, 8e-2},
};

static bool convert(const char *type, const char *in, const char *dir, const char *out, int64_t workers,
                    seqmix_quantized *done, char why[512])
{
    char from[1024], to[1024];
    (void)snprintf(from, sizeof from, "%s", in);
    (void)snprintf(to, sizeof to, "%s", in_dir(dir, out));
    why[0] = '\0';
    return seqmix_quantize_file(type, from, to, workers, done, (seqmix_why){why, 512});
}

static void must_convert(const char *type, const char *in, const char *dir, const char *out, int64_t workers)
{
    char why[512];
    seqmix_quantized done;
    ck_assert_msg(convert(type, in, dir, out, workers, &done, why), "%s to %s: %s", in, type, why);
}

static void same_bytes(const char *dir, const char *a, const char *b)
{
    seqmix_bytes x = read_file(in_dir(dir, a)), y = read_file(in_dir(dir, b));
    ck_assert_msg(x.n == y.n && memcmp(x.data, y.data, x.n) == 0, "%s and %s differ", a, b);
    free(x.data);
    free(y.data);
}

/* ---- the same model ---- */

enum { PROMPT = 21, STEPS = 4 };

/* Logits of the last row of a prompt and of some single rows behind it. */
static float *run(opened *o)
{
    char why[512] = "";
    const int64_t vocab = o->model->config.vocab;
    float *out = malloc((size_t)(vocab * (STEPS + 1)) * sizeof *out);
    int32_t tokens[PROMPT + STEPS];
    ck_assert_ptr_nonnull(out);
    for (int64_t i = 0; i < PROMPT + STEPS; i++)
        tokens[i] = (int32_t)((i * 37 + 11) % vocab);
    for (int64_t i = 0; i <= STEPS; i++) {
        const int64_t from = i == 0 ? 0 : PROMPT + i - 1, n = i == 0 ? PROMPT : 1;
        ck_assert_msg(seqmix_session_eval(o->session, tokens + from, n, NULL, (seqmix_why){why, sizeof why}), "%s",
                      why);
        memcpy(out + i * vocab, seqmix_session_logits(o->session), (size_t)vocab * sizeof *out);
    }
    return out;
}

static double difference(const float *a, const float *b, int64_t n)
{
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        scale = fmax(scale, fabs((double)a[i]));
    }
    return worst / scale;
}

/* All that a run looks at, but for the order of value heads. */
static void same_config(const seqmix_config *a, const seqmix_config *told, const char *what)
{
    seqmix_config copy = *told, *b = &copy;
    b->delta.tiled = a->delta.tiled;
    cJSON *x = cJSON_CreateObject(), *y = cJSON_CreateObject();
    seqmix_config_describe(a, x);
    seqmix_config_describe(b, y);
    char *p = cJSON_PrintUnformatted(x), *q = cJSON_PrintUnformatted(y);
    ck_assert_msg(strcmp(p, q) == 0, "%s: %s became %s", what, p, q);
    ck_assert(a->vocab == b->vocab && a->hidden == b->hidden && a->layers == b->layers && a->tied == b->tied);
    ck_assert(memcmp(&a->eps, &b->eps, sizeof a->eps) == 0 && strcmp(a->family_name, b->family_name) == 0);
    ck_assert(memcmp(a->mixer, b->mixer, sizeof a->mixer) == 0 && memcmp(a->ffn, b->ffn, sizeof a->ffn) == 0);
    ck_assert(a->n_stop == b->n_stop && memcmp(a->stop, b->stop, sizeof a->stop) == 0 && a->bos == b->bos);
    cJSON_free(p);
    cJSON_free(q);
    cJSON_Delete(x);
    cJSON_Delete(y);
}

static double compare(const char *source, const char *file)
{
    char from[1024], to[1024];
    (void)snprintf(from, sizeof from, "%s", source);
    (void)snprintf(to, sizeof to, "%s", file);
    opened a = open_model(from, 8, 1), b = open_model(to, 8, 1);
    same_config(&a.model->config, &b.model->config, source);
    float *x = run(&a), *y = run(&b);
    const double worst = difference(x, y, a.model->config.vocab * (STEPS + 1));
    free(x);
    free(y);
    close_model(&a);
    close_model(&b);
    return worst;
}

START_TEST(same_model)
{
    const char *dir = temporary_dir(), *source = models[_i].dir;
    const struct {
        const char *type;
        double bound;
    } types[] = {{"F32", models[_i].f32}, {"F16", models[_i].f16}, {"Q8_0", models[_i].q8_0}};
    for (int k = 0; k < COUNT(types); k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s.gguf", types[k].type);
        must_convert(types[k].type, golden(source), dir, name, 1);
        const double worst = compare(golden(source), in_dir(dir, name));
        (void)printf("%s as %s: %.2e\n", source, types[k].type, worst);
        ck_assert_msg(types[k].bound < 0 || worst <= types[k].bound,
                      "%s as %s: logits differ by %.3g of their scale, bound %.3g", source, types[k].type, worst,
                      types[k].bound);
    }
    /* By way of F32, which is exact, no byte is another. */
    must_convert("Q8_0", in_dir(dir, "F32.gguf"), dir, "again.gguf", 1);
    same_bytes(dir, "Q8_0.gguf", "again.gguf");
}
END_TEST

/* ---- as llama.cpp's converter does it ---- */

static const struct {
    const char *twin, *dir, *type;
    bool types; /* the twin's types are those of --quantize */
} twins[] = {
    {"mamba2-f32", "models/mamba2", "F32", true},
    {"mamba2-groups-q8_0", "models/mamba2-groups", "Q8_0", true},
    {"nemotron-h-q8_0", "models/nemotron-h", "Q8_0", true},
    {"nemotron-h-latent-q8_0", "models/nemotron-h-latent", "Q8_0", true},
    {"nemotron-h-moe-mix", "models/nemotron-h-moe", "Q8_0", false},
    {"nemotron-tiny-q8_0", "nemotron-tiny", "Q8_0", true},
    {"qwen3-next-q8_0", "models/qwen3-next", "Q8_0", true},
    {"qwen35-f16", "models/qwen35", "F16", true},
    {"qwen35-moe-q8_0", "models/qwen35-moe", "Q8_0", true},
    {"qwen35-tied-mix", "models/qwen35-tied", "F16", false},
    {"qwen35-tiny-q4_k", "qwen35-tiny", "Q4_K", false},
    {"mamba-tiny-q4_k", "mamba-tiny", "Q4_K", false},
};

static void same_tensor(const seqmix_gguf_tensor *t, const seqmix_gguf_tensor *w, bool types)
{
    ck_assert_msg(t != NULL, "'%s' is missing", w->name);
    ck_assert_msg(t->rank == w->rank && memcmp(t->shape, w->shape, sizeof t->shape) == 0, "'%s' has another shape",
                  w->name);
    if (!types && w->dtype != SEQMIX_F32) return;
    ck_assert_msg(t->type == w->type, "'%s' is %s, not %s", w->name, seqmix_gguf_type_name(t->type),
                  seqmix_gguf_type_name(w->type));
    if (w->dtype == SEQMIX_F16)
        ck_assert_msg(memcmp(t->data, w->data, w->bytes) == 0, "'%s' has other numbers", w->name);
    for (size_t i = 0; i < w->bytes / 4 && w->dtype == SEQMIX_F32; i++) {
        const double x = (double)((const float *)t->data)[i], y = (double)((const float *)w->data)[i];
        ck_assert_msg(fabs(x - y) <= 2e-7 * fabs(y), "'%s'[%zu] is %.9g, not %.9g", w->name, i, x, y);
    }
}

/* What may be otherwise: how far a model may go where its config does not say it; the name of a pattern that has several;
 * heads of Mamba-2, where llama.cpp looks for them; the width of an MLP that no layer has; the type of a mix. */
static bool may_differ(const seqmix_gguf_value *v, bool types)
{
    static const char *const keys[] = {"tokenizer.ggml.pre", "mamba2.attention.head_count",
                                       "qwen3next.feed_forward_length"};
    for (int i = 0; i < COUNT(keys); i++)
        if (strcmp(v->key, keys[i]) == 0) return true;
    if (strstr(v->key, ".context_length") != NULL) return seqmix_gguf_int_at(v, 0) == 1048576;
    return !types && strcmp(v->key, "general.file_type") == 0;
}

START_TEST(like_the_twin)
{
    const char *dir = temporary_dir();
    char why[512] = "", twin[128];
    seqmix_gguf ours, theirs;
    (void)snprintf(twin, sizeof twin, "models/gguf/%s.gguf", twins[_i].twin);
    must_convert(twins[_i].type, golden(twins[_i].dir), dir, "a.gguf", 1);
    ck_assert_msg(seqmix_gguf_open(in_dir(dir, "a.gguf"), &ours, (seqmix_why){why, sizeof why}), "%s", why);
    ck_assert_msg(seqmix_gguf_open(golden(twin), &theirs, (seqmix_why){why, sizeof why}), "%s", why);
    ck_assert_int_eq(ours.n_tensors, theirs.n_tensors);
    for (int64_t i = 0; i < theirs.n_tensors; i++)
        same_tensor(seqmix_gguf_find(&ours, theirs.tensors[i].name), &theirs.tensors[i], twins[_i].types);
    for (int64_t i = 0; i < theirs.n_values; i++) {
        const seqmix_gguf_value *w = &theirs.values[i], *v = seqmix_gguf_value_of(&ours, w->key);
        ck_assert_msg(v != NULL && v->type == w->type && v->element == w->element, "'%s' is missing or of another type",
                      w->key);
        ck_assert_msg(may_differ(v, twins[_i].types) ||
                          (v->n == w->n && v->bytes == w->bytes && memcmp(v->data, w->data, w->bytes) == 0),
                      "'%s' has another value", w->key);
    }
    seqmix_gguf_close(&ours);
    seqmix_gguf_close(&theirs);
}
END_TEST

/* ---- threads ---- */

START_TEST(workers)
{
    static const char *const sources[] = {"mamba-tiny", "models/qwen35-moe", "models/qwen3-next",
                                          "models/nemotron-h-moe"};
    const char *dir = temporary_dir();
    must_convert("Q4_K", golden(sources[_i]), dir, "1.gguf", 1);
    must_convert("Q4_K", golden(sources[_i]), dir, "2.gguf", 2);
    must_convert("Q4_K", golden(sources[_i]), dir, "7.gguf", 7);
    same_bytes(dir, "1.gguf", "2.gguf");
    same_bytes(dir, "1.gguf", "7.gguf");
    must_convert("F32", golden(sources[_i]), dir, "f32.gguf", 2);
    must_convert("Q4_K", in_dir(dir, "f32.gguf"), dir, "from.gguf", 3);
    same_bytes(dir, "1.gguf", "from.gguf");
}
END_TEST

START_TEST(shards)
{
    const char *dir = temporary_dir();
    must_convert("Q8_0", golden("mamba-tiny-f16"), dir, "one.gguf", 1);
    must_convert("Q8_0", SEQMIX_SHARDS_DIR, dir, "shards.gguf", 2);
    same_bytes(dir, "one.gguf", "shards.gguf");
}
END_TEST

/* ---- other configs, and refusals ---- */

/* A copy of a golden model with some keys of its config set, as JSON. */
static const char *edited(const char *source, const char *const (*edits)[2], int n)
{
    char why[128] = "", from[1024];
    const char *dir = temporary_dir();
    (void)snprintf(from, sizeof from, "%s", golden(source));
    copy_file(from, dir, "model.safetensors");
    copy_file(from, dir, "tokenizer.json");
    seqmix_bytes raw = read_file(in_dir(from, "config.json"));
    for (size_t i = 0; i + 8 <= raw.n; i++) /* which is no JSON */
        if (memcmp(raw.data + i, "Infinity", 8) == 0) memcpy(raw.data + i, "1e999   ", 8);
    cJSON *config = cJSON_ParseWithLength((const char *)raw.data, raw.n);
    ck_assert_msg(config != NULL, "%s", from);
    for (int i = 0; i < n; i++) {
        cJSON *value = seqmix_json_parse(edits[i][1], strlen(edits[i][1]), (seqmix_why){why, sizeof why});
        ck_assert_msg(value != NULL, "%s", why);
        cJSON_DeleteItemFromObjectCaseSensitive(config, edits[i][0]);
        (void)cJSON_AddItemToObject(config, edits[i][0], value);
    }
    char *printed = cJSON_Print(config);
    write_text(dir, "config.json", printed);
    cJSON_free(printed);
    cJSON_Delete(config);
    free(raw.data);
    return dir;
}

/* Layers that no interval tells, weights that are not renormalised, groups of experts, several tokens that end a text. */
START_TEST(other_configs)
{
    static const char *const delta_only[][2] = {
        {"layer_types", "[\"linear_attention\",\"linear_attention\",\"linear_attention\"]"},
        {"num_hidden_layers", "3"},
        {"eos_token_id", "[7,3,5]"}};
    static const char *const raw_weights[][2] = {{"norm_topk_prob", "false"}};
    static const char *const groups[][2] = {{"n_group", "4"},
                                            {"topk_group", "2"},
                                            {"routed_scaling_factor", "1.25"},
                                            {"time_step_limit", "[0, \"Infinity\"]"}};
    static const struct {
        const char *source;
        const char *const (*edits)[2];
        int n;
        double bound;
    } cases[] = {{"models/qwen35", delta_only, 3, 1e-5},
                 {"models/qwen3-next", raw_weights, 1, 1e-5},
                 {"models/nemotron-h-moe", groups, 4, 1e-5}};
    for (int i = 0; i < COUNT(cases); i++) {
        char dir[256];
        (void)snprintf(dir, sizeof dir, "%s", edited(cases[i].source, cases[i].edits, cases[i].n));
        must_convert("F32", dir, dir, "a.gguf", 1);
        const double worst = compare(dir, in_dir(dir, "a.gguf"));
        ck_assert_msg(worst <= cases[i].bound, "%s: logits differ by %.3g", cases[i].source, worst);
    }
}
END_TEST

/* Every n-th layer with full attention is told as n; what is not so regular, layer by layer. */
START_TEST(kinds_of_layers)
{
    static const struct {
        const char *kinds; /* D: delta, F: full attention */
        int64_t interval;
        bool listed;
    } cases[] = {{"DDDFDDDF", 4, false}, {"DFDFD", 2, false}, {"FDDFD", 1, true}, {"DDDDD", 0, true}, {"FF", 1, false}};
    for (int i = 0; i < COUNT(cases); i++) {
        char why[256] = "";
        const seqmix_why to = {why, sizeof why};
        seqmix_config c;
        seqmix_draft d = {.alignment = 32};
        seqmix_bytes head;
        seqmix_gguf g;
        int64_t interval = 0;
        ck_assert(seqmix_config_open(golden("models/qwen35"), &c, to));
        c.layers = (int64_t)strlen(cases[i].kinds);
        for (int64_t k = 0; k < c.layers; k++)
            c.mixer[k] = cases[i].kinds[k] == 'D' ? SEQMIX_KIND_DELTA : SEQMIX_KIND_ATTENTION;
        ck_assert_msg(seqmix_export_config(&c, &d, to) && seqmix_draft_head(&d, &head) &&
                          seqmix_gguf_parse(head.data, head.n, "head", &g, to),
                      "%s", why);
        (void)seqmix_gguf_int(&g, "qwen35.full_attention_interval", 1, 99, &interval, to);
        const seqmix_gguf_value *list = seqmix_gguf_value_of(&g, "qwen35.attention.recurrent_layers");
        ck_assert_msg(interval == cases[i].interval && (list != NULL) == cases[i].listed, "%s", cases[i].kinds);
        for (int64_t k = 0; k < c.layers && list != NULL; k++)
            ck_assert((seqmix_gguf_int_at(list, (uint64_t)k) != 0) == (cases[i].kinds[k] == 'D'));
        seqmix_gguf_close(&g);
        seqmix_draft_free(&d);
        free(head.data);
    }
}
END_TEST

static void refused(const char *type, const char *in, const char *dir, const char *out, const char *wanted)
{
    char why[512], partial[64];
    seqmix_quantized done;
    const bool ok = convert(type, in, dir, out, 2, &done, why);
    judge(ok, why, wanted, wanted);
    (void)snprintf(partial, sizeof partial, "%s.partial", out);
    FILE *left = fopen(in_dir(dir, partial), "rb"), *made = fopen(in_dir(dir, out), "rb");
    ck_assert_msg(left == NULL && made == NULL, "a file is left behind: %s", wanted);
}

START_TEST(refusals)
{
    static const char *const family[][2] = {{"model_type", "\"gpt2\""}};
    static const char *const limits[][2] = {{"time_step_limit", "[0.01, 0.1]"}};
    static const char *const gate[][2] = {
        {"ssm_cfg", "{\"layer\":\"Mamba2\",\"d_state\":16,\"headdim\":16,\"ngroups\":1,\"norm_before_gate\":true}"}};
    const char *dir = temporary_dir();
    refused("Q8_0", "/nonexistent", dir, "a.gguf", "/nonexistent/config.json: No such file");
    refused("Q8_0", edited("models/qwen35", family, 1), dir, "a.gguf", "model_type 'gpt2' is not supported");
    refused("Q8_0", edited("models/mamba2", limits, 1), dir, "a.gguf", "no place for bounds of the time step");
    refused("Q8_0", edited("models/mamba2-original", gate, 1), dir, "a.gguf", "no place for a norm before the gate");
    refused("Q8_0", golden("models/mamba2"), dir, "none/a.gguf", "none/a.gguf.partial: No such file");
    refused("Q9_0", golden("models/mamba2"), dir, "a.gguf", "'Q9_0' is none of F32, F16, BF16");
    tiny t = tiny_default;
    t.skip = "backbone.layers.1.mixer.x_proj.weight";
    const char *broken = temporary_dir();
    write_tiny(broken, &t);
    refused("F32", broken, dir, "a.gguf", "tensor 'backbone.layers.1.mixer.x_proj.weight' is missing");
    t.skip = NULL;
    t.poison = "backbone.layers.0.mixer.out_proj.weight";
    write_tiny(broken, &t);
    refused("F32", broken, dir, "a.gguf", "'blk.0.ssm_out.weight' holds a value that is not finite");
}
END_TEST

/* An earlier file stays when a later conversion to its name fails. */
START_TEST(earlier_file)
{
    char why[512];
    seqmix_quantized done;
    const char *dir = temporary_dir(), *broken = temporary_dir();
    tiny t = tiny_default;
    t.poison = "backbone.norm_f.weight";
    write_tiny(broken, &t);
    must_convert("F32", golden("models/mamba2"), dir, "a.gguf", 1);
    must_convert("F32", golden("models/mamba2"), dir, "b.gguf", 1);
    ck_assert(!convert("F32", broken, dir, "a.gguf", 1, &done, why));
    same_bytes(dir, "a.gguf", "b.gguf");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export");
    TCase *cases = tcase_create("export");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, same_model, 0, COUNT(models));
    tcase_add_loop_test(cases, like_the_twin, 0, COUNT(twins));
    tcase_add_loop_test(cases, workers, 0, 4);
    tcase_add_test(cases, shards);
    tcase_add_test(cases, other_configs);
    tcase_add_test(cases, kinds_of_layers);
    tcase_add_test(cases, refusals);
    tcase_add_test(cases, earlier_file);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
