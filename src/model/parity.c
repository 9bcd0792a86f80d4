/* SPDX-License-Identifier: MIT */
/*
 * seqmix-run parity DIR: every checkpoint below DIR with expectations beside it (expected.json in a model's directory,
 * NAME.expected.json beside NAME.gguf, each with its expected_logits.safetensors) is run and compared: the first prompt's
 * logits, prefilled and then row by row, relative to their scale; and every prompt's greedy tokens.
 */
#define _XOPEN_SOURCE 700

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

#include "commands.h"
#include "file.h"
#include "sample.h"

#define LOGIT_BOUND 2e-4 /* f32 arithmetic against transformers' */
#define MAX_CASES   256
#define MAX_IDS     4096

typedef struct parity_case {
    char model[1024];  /* directory or file */
    char prefix[1024]; /* of the expectations */
} parity_case;

typedef struct outcome {
    const char *family, *format;
    char types[128];
    double error; /* of the scale */
    int64_t tokens, equal;
    double margin; /* of the two logits where a token differed first; 0: none did */
} outcome;

typedef struct list {
    parity_case *cases;
    int32_t n;
} list;

/* ---- what there is ---- */

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), k = strlen(tail);
    return n >= k && strcmp(text + n - k, tail) == 0;
}

static void add_case(list *l, const char *dir, const char *name)
{
    static const char tail[] = "expected.json";
    if (l->n == MAX_CASES) return;
    parity_case *c = &l->cases[l->n];
    int keep = (int)(strlen(name) - strlen(tail));
    int a = snprintf(c->prefix, sizeof c->prefix, "%s/%.*s", dir, keep, name);
    int b = keep == 0 ? snprintf(c->model, sizeof c->model, "%s", dir)
                      : snprintf(c->model, sizeof c->model, "%s/%.*sgguf", dir, keep, name);
    if (a > 0 && b > 0 && (size_t)a < sizeof c->prefix && (size_t)b < sizeof c->model) l->n++;
}

static void collect(list *l, const char *dir, int depth)
{
    DIR *open = opendir(dir);
    for (struct dirent *entry = open != NULL ? readdir(open) : NULL; entry != NULL; entry = readdir(open)) {
        char path[1024];
        struct stat about;
        int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof path || stat(path, &about) != 0) continue;
        if (S_ISDIR(about.st_mode) && depth > 0)
            collect(l, path, depth - 1);
        else if (S_ISREG(about.st_mode) && ends_with(entry->d_name, "expected.json"))
            add_case(l, dir, entry->d_name);
    }
    if (open != NULL) (void)closedir(open);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const parity_case *)a)->model, ((const parity_case *)b)->model);
}

/* ---- one of them ---- */

typedef struct run {
    seqmix_model *model;
    seqmix_ctx *ctx;
    seqmix_session *session;
    cJSON *expected;
    seqmix_safetensors logits;
    bool has_logits;
    int32_t tokens[MAX_IDS];
    int64_t n_prompt, n_tokens; /* of the first prompt: its tokens, then its greedy ones */
    int64_t next, row;          /* which expected row comes next; rows seen */
    double worst, scale;
    seqmix_why why;
} run;

static int64_t read_ids(const cJSON *object, const char *key, int32_t *ids, int64_t room)
{
    int64_t n = 0, id;
    const cJSON *ids_node = cJSON_GetObjectItem(object, key);
    for (const cJSON *node = ids_node != NULL ? ids_node->child : NULL; node != NULL && n < room; node = node->next) {
        if (!seqmix_json_whole(node, 0, INT32_MAX, &id)) return -1;
        ids[n++] = (int32_t)id;
    }
    return n;
}

static bool open_expectations(run *r, const parity_case *c)
{
    char path[1100];
    seqmix_file file;
    (void)snprintf(path, sizeof path, "%sexpected.json", c->prefix);
    if (!seqmix_file_map(path, &file, r->why)) return false;
    r->expected = seqmix_json_parse(file.bytes, file.size, r->why);
    seqmix_file_unmap(&file);
    const cJSON *prompts = r->expected != NULL ? cJSON_GetObjectItem(r->expected, "prompts") : NULL;
    if (prompts == NULL || prompts->child == NULL) return seqmix_fail(r->why, "%s: no prompts", path);
    (void)snprintf(path, sizeof path, "%sexpected_logits.safetensors", c->prefix);
    r->has_logits = seqmix_st_open(path, &r->logits, r->why);
    return r->has_logits;
}

static bool open_run(run *r, const seqmix_options *o, const parity_case *c)
{
    if (!open_expectations(r, c)) return false;
    r->model = seqmix_model_open(c->model, r->why);
    if (r->model == NULL || !seqmix_open_context(o, &r->ctx, r->why)) return false;
    seqmix_session_desc desc = {.model = r->model,
                                .ctx = r->ctx,
                                .on_device = seqmix_is_device(o),
                                .prefill_rows = o->prefill_rows,
                                .context = MAX_IDS,
                                .invariant = o->invariant,
                                .all_logits = true};
    r->session = seqmix_session_create(&desc, r->why);
    return r->session != NULL;
}

static void close_run(run *r)
{
    seqmix_session_free(r->session);
    seqmix_model_close(r->model);
    seqmix_ctx_destroy(r->ctx);
    cJSON_Delete(r->expected);
    if (r->has_logits) seqmix_st_close(&r->logits);
}

static void compare_rows(void *user, const float *got, int64_t rows, int64_t vocab)
{
    run *r = user;
    const seqmix_st_tensor *wanted = seqmix_st_find(&r->logits, "logits");
    const seqmix_st_tensor *positions = seqmix_st_find(&r->logits, "positions");
    for (; r->next < positions->shape[0]; r->next++) {
        int64_t at = ((const int32_t *)positions->data)[r->next] - r->row;
        if (at >= rows) break;
        for (int64_t v = 0; v < vocab && at >= 0; v++) {
            double want = (double)((const float *)wanted->data)[r->next * vocab + v];
            double difference = fabs((double)got[at * vocab + v] - want);
            r->worst = difference > r->worst ? difference : r->worst;
        }
    }
    r->row += rows;
}

static bool compare_logits(run *r)
{
    const seqmix_st_tensor *wanted = seqmix_st_find(&r->logits, "logits");
    const seqmix_st_tensor *positions = seqmix_st_find(&r->logits, "positions");
    int64_t vocab = r->model->config.vocab;
    const cJSON *prompt = cJSON_GetObjectItem(r->expected, "prompts")->child;
    int64_t n = read_ids(prompt, "tokens", r->tokens, MAX_IDS);
    int64_t more = n > 0 ? read_ids(prompt, "greedy", r->tokens + n, MAX_IDS - n) : -1;
    if (wanted == NULL || positions == NULL || wanted->dtype != SEQMIX_ST_F32 || positions->dtype != SEQMIX_ST_I32 ||
        wanted->rank != 2 || positions->rank != 1 || wanted->shape[0] != positions->shape[0] ||
        wanted->shape[1] != vocab || n < 1 || more < 1)
        return seqmix_fail(r->why, "the expectations are not those of this model");
    for (int64_t i = 0; i < wanted->shape[0] * vocab; i++)
        r->scale = fmax(r->scale, fabs((double)((const float *)wanted->data)[i]));
    seqmix_watch watch = {.user = r, .sink = compare_rows};
    bool ok = seqmix_session_eval(r->session, r->tokens, n, &watch, r->why);
    for (int64_t i = n; ok && i < n + more && r->next < positions->shape[0]; i++)
        ok = seqmix_session_eval(r->session, r->tokens + i, 1, &watch, r->why);
    return ok;
}

/* Greedy tokens of one prompt; at the first that differs the two logits' distance, then on with what was expected. */
static bool compare_tokens(run *r, const cJSON *prompt, outcome *out)
{
    int32_t greedy[MAX_IDS];
    int64_t n = read_ids(prompt, "tokens", r->tokens, MAX_IDS), more = read_ids(prompt, "greedy", greedy, MAX_IDS);
    if (n < 1 || more < 1 || n + more > MAX_IDS) return seqmix_fail(r->why, "the expectations are no lists of tokens");
    bool ok = seqmix_session_reset(r->session, r->why) && seqmix_session_eval(r->session, r->tokens, n, NULL, r->why);
    for (int64_t i = 0; ok && i < more; i++) {
        const float *logits = seqmix_session_logits(r->session);
        int32_t token = seqmix_greedy_token(logits, r->model->config.vocab);
        if (greedy[i] >= r->model->config.vocab) return seqmix_fail(r->why, "token %d is none", greedy[i]);
        out->tokens++;
        out->equal += token == greedy[i];
        if (token != greedy[i]) {
            double margin = (double)logits[token] - (double)logits[greedy[i]];
            out->margin = margin > out->margin ? margin : out->margin;
        }
        if (i + 1 < more) ok = seqmix_session_eval(r->session, &greedy[i], 1, NULL, r->why);
    }
    return ok;
}

/* Whether a word is in "a+b+c". */
static bool listed(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word))
        if ((at == words || at[-1] == '+') && (at[n] == '+' || at[n] == '\0')) return true;
    return false;
}

/* Types of the matrices, each once, in the order they are met. */
static void list_types(const seqmix_weights *w, char *out, size_t size)
{
    const char *name, *type;
    size_t bytes, at = 0;
    out[0] = '\0';
    for (int64_t i = 0; seqmix_weights_each(w, i, &name, &type, &bytes); i++) {
        if (type == NULL || strstr(name, "norm") != NULL || listed(out, type)) continue;
        if (at + strlen(type) + 2 > size) return;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? "+" : "", type);
    }
}

static bool run_case(const seqmix_options *o, const parity_case *c, outcome *out, seqmix_why why)
{
    run *r = calloc(1, sizeof *r);
    if (r == NULL) return seqmix_fail(why, "no memory");
    r->why = why;
    bool ok = open_run(r, o, c) && compare_logits(r);
    const cJSON *prompt = ok ? cJSON_GetObjectItem(r->expected, "prompts")->child : NULL;
    for (; ok && prompt != NULL; prompt = prompt->next)
        ok = compare_tokens(r, prompt, out);
    if (ok) {
        out->family = r->model->config.family_name;
        out->format = r->model->weights.is_gguf ? "gguf" : "safetensors";
        list_types(&r->model->weights, out->types, sizeof out->types);
        out->error = r->worst / r->scale;
        out->margin /= r->scale;
    }
    close_run(r);
    free(r);
    return ok;
}

/* ---- the table ---- */

static bool passed(const outcome *out)
{
    return out->error <= LOGIT_BOUND && out->margin <= LOGIT_BOUND;
}

static void print_json(const parity_case *c, const outcome *out, const char *why, cJSON *into)
{
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "model", c->model);
    if (why != NULL) {
        (void)cJSON_AddStringToObject(o, "error", why);
    } else {
        (void)cJSON_AddStringToObject(o, "family", out->family);
        (void)cJSON_AddStringToObject(o, "format", out->format);
        (void)cJSON_AddStringToObject(o, "types", out->types);
        (void)cJSON_AddNumberToObject(o, "max_logit_error", out->error);
        (void)cJSON_AddNumberToObject(o, "bound", LOGIT_BOUND);
        (void)cJSON_AddNumberToObject(o, "tokens", (double)out->tokens);
        (void)cJSON_AddNumberToObject(o, "tokens_equal", (double)out->equal);
        (void)cJSON_AddNumberToObject(o, "margin_where_different", out->margin);
    }
    (void)cJSON_AddBoolToObject(o, "ok", why == NULL && passed(out));
    (void)cJSON_AddItemToArray(into, o);
}

static void print_line(const char *root, const parity_case *c, const outcome *out, const char *why)
{
    const char *name = c->model + (strncmp(c->model, root, strlen(root)) == 0 ? strlen(root) : 0);
    while (*name == '/')
        name++;
    if (why != NULL)
        (void)printf("%-34s FAILED: %s\n", name, why);
    else
        (void)printf("%-34s %-12s %-12s %-24s %.2e of %.0e  %4lld/%lld tokens%s\n", name, out->family, out->format,
                     out->types, out->error, LOGIT_BOUND, (long long)out->equal, (long long)out->tokens,
                     passed(out) ? "" : "  FAILED");
    (void)fflush(stdout);
}

int seqmix_command_parity(const seqmix_options *o, seqmix_why why)
{
    list l = {calloc(MAX_CASES, sizeof *l.cases), 0};
    cJSON *all = cJSON_CreateArray();
    bool ok = l.cases != NULL && all != NULL;
    if (ok) collect(&l, o->model_dir, 3);
    if (ok && l.n == 0) ok = seqmix_fail(why, "%s: no expected.json below it", o->model_dir);
    if (l.n > 0) qsort(l.cases, (size_t)l.n, sizeof *l.cases, by_name);
    int32_t failed = 0;
    for (int32_t i = 0; ok && i < l.n; i++) {
        char reason[512] = "";
        outcome out = {0};
        bool ran = run_case(o, &l.cases[i], &out, (seqmix_why){reason, sizeof reason});
        failed += !ran || !passed(&out);
        if (o->json)
            print_json(&l.cases[i], &out, ran ? NULL : reason, all);
        else
            print_line(o->model_dir, &l.cases[i], &out, ran ? NULL : reason);
    }
    char *text = o->json && ok ? cJSON_Print(all) : NULL;
    if (text != NULL) (void)printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(all);
    free(l.cases);
    if (ok && failed > 0) (void)seqmix_fail(why, "%d of %d checkpoints do not agree", failed, l.n);
    return ok && failed == 0 ? 0 : SEQMIX_EXIT_FAILED;
}
