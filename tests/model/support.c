/* SPDX-License-Identifier: MIT */
/* Shared parts of the model tests (see support.h). */
#define _XOPEN_SOURCE 700

#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample.h"

#define N_PATHS 4
#define N_DIRS  64

static char paths[N_PATHS][1024];
static int next_path;
static char dirs[N_DIRS][64];
static int n_dirs;

const char *in_dir(const char *dir, const char *name)
{
    char *path = paths[next_path];
    next_path = (next_path + 1) % N_PATHS;
    int n = snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    ck_assert(n > 0 && n < (int)sizeof paths[0]);
    return path;
}

const char *golden(const char *name)
{
    return in_dir(SEQMIX_GOLDEN_DIR, name);
}

static pid_t owner;

static void remove_dirs(void)
{
    if (getpid() != owner) return;
    for (int i = 0; i < n_dirs; i++) {
        DIR *dir = opendir(dirs[i]);
        for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir))
            if (entry->d_name[0] != '.') (void)remove(in_dir(dirs[i], entry->d_name));
        if (dir != NULL) (void)closedir(dir);
        (void)rmdir(dirs[i]);
    }
}

const char *temporary_dir(void)
{
    if (owner != getpid()) {
        owner = getpid();
        n_dirs = 0;
        (void)atexit(remove_dirs);
    }
    ck_assert_int_lt(n_dirs, N_DIRS);
    char *dir = dirs[n_dirs];
    (void)snprintf(dir, sizeof dirs[0], "/tmp/seqmix-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    n_dirs++;
    return dir;
}

void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(in_dir(dir, name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert(n == 0 || fwrite(bytes, 1, n, file) == n);
    ck_assert_int_eq(fclose(file), 0);
}

void write_text(const char *dir, const char *name, const char *text)
{
    write_file(dir, name, text, strlen(text));
}

seqmix_bytes read_file(const char *path)
{
    seqmix_bytes out = {0};
    char chunk[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
        ck_assert(seqmix_bytes_add(&out, chunk, n));
    ck_assert_int_eq(fclose(file), 0);
    return out;
}

void copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    seqmix_bytes bytes = read_file(in_dir(from_dir, name));
    write_file(to_dir, name, bytes.data, bytes.n);
    free(bytes.data);
}

/* ---- safetensors ---- */

void st_add(st_builder *b, const char *name, const char *dtype, int32_t rank, const int64_t *shape, const void *data,
            size_t bytes)
{
    char text[512], sizes[128] = "";
    size_t at = 0;
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(sizes + at, sizeof sizes - at, i > 0 ? ",%lld" : "%lld", (long long)shape[i]);
    int n = snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                     b->n++ > 0 ? "," : "{", name, dtype, sizes, b->data.n, b->data.n + bytes);
    ck_assert(seqmix_bytes_add(&b->header, text, (size_t)n) && seqmix_bytes_add(&b->data, data, bytes));
}

static seqmix_bytes assemble(const seqmix_bytes *header, const void *data, size_t n)
{
    seqmix_bytes out = {0};
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    ck_assert(seqmix_bytes_add(&out, length, 8) && seqmix_bytes_add(&out, header->data, header->n) &&
              seqmix_bytes_add(&out, data, n));
    return out;
}

seqmix_bytes st_finish(st_builder *b)
{
    ck_assert(seqmix_bytes_add(&b->header, b->n > 0 ? "}" : "{}", b->n > 0 ? 1 : 2));
    while (b->header.n % 8 != 0)
        ck_assert(seqmix_bytes_add(&b->header, " ", 1));
    seqmix_bytes out = assemble(&b->header, b->data.data, b->data.n);
    free(b->header.data);
    free(b->data.data);
    *b = (st_builder){0};
    return out;
}

seqmix_bytes st_raw(const char *header, size_t n)
{
    seqmix_bytes text = {0};
    ck_assert(seqmix_bytes_add(&text, header, strlen(header)));
    void *zeros = calloc(n + 1, 1);
    ck_assert_ptr_nonnull(zeros);
    seqmix_bytes out = assemble(&text, zeros, n);
    free(zeros);
    free(text.data);
    return out;
}

/* ---- a tiny Mamba ---- */

const tiny tiny_default = {.vocab = 48,
                           .hidden = 16,
                           .layers = 2,
                           .state = 4,
                           .conv = 4,
                           .dt_rank = 2,
                           .conv_bias = true,
                           .tied = true,
                           .dtype = "F32"};

static uint64_t seed;

static float random_value(float low, float high)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (high - low) * (float)(seed >> 40) * 0x1p-24F;
}

static uint16_t to_half(float value, bool bf16)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bf16) return (uint16_t)(bits >> 16);
    int32_t exponent = (int32_t)(bits >> 23 & 0xFF) - 112;
    if (exponent <= 0) return (uint16_t)(bits >> 16 & 0x8000u);
    return (uint16_t)((bits >> 16 & 0x8000u) | (uint32_t)exponent << 10 | (bits >> 13 & 0x3FFu));
}

typedef struct writer {
    const tiny *t;
    st_builder builder;
} writer;

static bool is(const char *wanted, const char *name)
{
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static void add_random(writer *w, const char *dtype, const char *name, int32_t rank, const int64_t *shape, float low,
                       float high)
{
    int64_t sizes[3], n = 1;
    if (is(w->t->skip, name)) return;
    for (int32_t i = 0; i < rank; i++) {
        sizes[i] = shape[i] + (i == 0 && is(w->t->reshape, name) ? 1 : 0);
        n *= sizes[i];
    }
    bool f32 = strcmp(dtype, "F32") == 0;
    float *wide = malloc((size_t)n * sizeof *wide);
    uint16_t *half = malloc((size_t)n * sizeof *half);
    ck_assert(wide != NULL && half != NULL);
    for (int64_t i = 0; i < n; i++) {
        wide[i] = i == 0 && is(w->t->poison, name) ? (float)NAN : random_value(low, high);
        half[i] = to_half(wide[i], strcmp(dtype, "BF16") == 0);
    }
    st_add(&w->builder, name, is(w->t->retype, name) ? "I32" : dtype, rank, sizes, f32 ? (void *)wide : (void *)half,
           (size_t)n * (f32 ? sizeof *wide : sizeof *half));
    free(wide);
    free(half);
}

static void add_layer(writer *w, int64_t layer)
{
    const tiny *t = w->t;
    int64_t D = t->hidden, DI = 2 * D, N = t->state;
    const struct {
        const char *name;
        bool matrix;
        int32_t rank;
        int64_t shape[3];
        float low, high;
    } parts[] = {{"norm.weight", false, 1, {D}, 0.5F, 1.5F},
                 {"mixer.in_proj.weight", true, 2, {2 * DI, D}, -0.5F, 0.5F},
                 {"mixer.in_proj.bias", false, 1, {2 * DI}, -0.2F, 0.2F},
                 {"mixer.conv1d.weight", true, 3, {DI, 1, t->conv}, -0.5F, 0.5F},
                 {"mixer.conv1d.bias", false, 1, {DI}, -0.2F, 0.2F},
                 {"mixer.x_proj.weight", true, 2, {t->dt_rank + 2 * N, DI}, -0.3F, 0.3F},
                 {"mixer.dt_proj.weight", true, 2, {DI, t->dt_rank}, -0.5F, 0.5F},
                 {"mixer.dt_proj.bias", false, 1, {DI}, -4.0F, -1.0F},
                 {"mixer.A_log", false, 2, {DI, N}, 0.0F, 2.0F},
                 {"mixer.D", false, 1, {DI}, -1.0F, 1.0F},
                 {"mixer.out_proj.weight", true, 2, {D, DI}, -0.3F, 0.3F},
                 {"mixer.out_proj.bias", false, 1, {D}, -0.2F, 0.2F}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "backbone.layers.%lld.%s", (long long)layer, parts[i].name);
        bool conv_bias = strcmp(parts[i].name, "mixer.conv1d.bias") == 0;
        bool proj_bias = strstr(parts[i].name, "_proj.bias") != NULL && strstr(parts[i].name, "dt_proj") == NULL;
        if ((conv_bias && !t->conv_bias) || (proj_bias && !t->bias)) continue;
        add_random(w, parts[i].matrix ? t->dtype : "F32", name, parts[i].rank, parts[i].shape, parts[i].low,
                   parts[i].high);
    }
}

void write_tiny(const char *dir, const tiny *t)
{
    writer w = {.t = t};
    seed = 7;
    int64_t table[2] = {t->vocab, t->hidden}, width[1] = {t->hidden};
    for (int64_t i = 0; i < t->layers; i++)
        add_layer(&w, i);
    add_random(&w, "F32", "backbone.norm_f.weight", 1, width, 0.5F, 1.5F);
    add_random(&w, t->dtype, t->original_names ? "backbone.embedding.weight" : "backbone.embeddings.weight", 2, table,
               -1.0F, 1.0F);
    if (!t->tied) add_random(&w, t->dtype, "lm_head.weight", 2, table, -1.0F, 1.0F);
    seqmix_bytes file = st_finish(&w.builder);
    write_file(dir, "model.safetensors", file.data, file.n);
    free(file.data);
    char config[640];
    if (t->original_names)
        (void)snprintf(
            config, sizeof config,
            "{\"d_model\":%lld,\"n_layer\":%lld,\"vocab_size\":%lld,\"rms_norm\":true,\"pad_vocab_size_multiple\":8,"
            "\"ssm_cfg\":{\"d_state\":%lld,\"d_conv\":%lld,\"dt_rank\":%lld}}",
            (long long)t->hidden, (long long)t->layers, (long long)(t->vocab - 3), (long long)t->state,
            (long long)t->conv, (long long)t->dt_rank);
    else
        (void)snprintf(config, sizeof config,
                       "{\"model_type\":\"mamba\",\"vocab_size\":%lld,\"hidden_size\":%lld,\"num_hidden_layers\":%lld,"
                       "\"state_size\":%lld,\"conv_kernel\":%lld,\"expand\":2,\"time_step_rank\":%lld,"
                       "\"layer_norm_epsilon\":1e-5,\"use_bias\":%s,\"use_conv_bias\":%s,\"tie_word_embeddings\":%s,"
                       "\"hidden_act\":\"silu\",\"eos_token_id\":0}",
                       (long long)t->vocab, (long long)t->hidden, (long long)t->layers, (long long)t->state,
                       (long long)t->conv, (long long)t->dt_rank, t->bias ? "true" : "false",
                       t->conv_bias ? "true" : "false", t->tied ? "true" : "false");
    write_text(dir, "config.json", config);
}

/* ---- running ---- */

static opened open_with(const char *dir, int64_t prefill_rows, int32_t workers, bool all_logits)
{
    char why[512] = "";
    opened o = {0};
    o.model = seqmix_model_open(dir, (seqmix_why){why, sizeof why});
    ck_assert_msg(o.model != NULL, "%s: %s", dir, why);
    seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = workers};
    seqmix_status status = seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &o.ctx, why, sizeof why);
    ck_assert_msg(status == SEQMIX_OK, "%s", why);
    seqmix_session_desc session = {
        .model = o.model, .ctx = o.ctx, .prefill_rows = prefill_rows, .all_logits = all_logits};
    o.session = seqmix_session_create(&session, (seqmix_why){why, sizeof why});
    ck_assert_msg(o.session != NULL, "%s: %s", dir, why);
    return o;
}

opened open_model(const char *dir, int64_t prefill_rows, int32_t workers)
{
    return open_with(dir, prefill_rows, workers, false);
}

opened open_model_all_logits(const char *dir, int64_t prefill_rows)
{
    return open_with(dir, prefill_rows, 1, true);
}

void close_model(opened *o)
{
    seqmix_session_free(o->session);
    seqmix_ctx_destroy(o->ctx);
    seqmix_model_close(o->model);
    *o = (opened){0};
}

void greedy(seqmix_session *s, int64_t vocab, const int32_t *prompt, int64_t n_prompt, int32_t *out, int64_t n)
{
    char why[512] = "";
    ck_assert_msg(seqmix_session_eval(s, prompt, n_prompt, NULL, (seqmix_why){why, sizeof why}), "%s", why);
    for (int64_t i = 0; i < n; i++) {
        out[i] = seqmix_greedy_token(seqmix_session_logits(s), vocab);
        ck_assert_msg(seqmix_session_eval(s, &out[i], 1, NULL, (seqmix_why){why, sizeof why}), "%s", why);
    }
}

void judge(bool ok, const char *why, const char *wanted, const char *what)
{
    if (wanted == NULL)
        ck_assert_msg(ok, "refused: %s\n  %s", why, what);
    else
        ck_assert_msg(!ok && strstr(why, wanted) != NULL, "wanted '%s', got '%s'\n  %s", wanted, ok ? "success" : why,
                      what);
}

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
