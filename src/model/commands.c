/* SPDX-License-Identifier: MIT */
/* seqmix-run info, and what commands share (see commands.h). */
#include "commands.h"

bool seqmix_open_context(const seqmix_options *o, seqmix_ctx **ctx, seqmix_why why)
{
    seqmix_ctx_desc desc = {.struct_size = sizeof desc,
                            .backend = o->backend,
                            .device = o->backend == SEQMIX_BACKEND_CPU ? 0 : -1,
                            .level_cap = o->level_cap,
                            .n_workers = (int32_t)o->workers};
    return seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, ctx, why.text, why.size) == SEQMIX_OK;
}

/* ---- info ---- */

typedef struct type_sum {
    const char *type;
    int64_t tensors;
    size_t bytes;
} type_sum;

#define MAX_TYPES 32

static int32_t sum_types(const seqmix_weights *w, type_sum sums[MAX_TYPES])
{
    const char *name, *type;
    size_t bytes;
    int32_t n = 0;
    for (int64_t i = 0; seqmix_weights_each(w, i, &name, &type, &bytes); i++) {
        int32_t k = 0;
        while (k < n && strcmp(sums[k].type, type != NULL ? type : "?") != 0)
            k++;
        if (k == MAX_TYPES) continue;
        if (k == n) sums[n++] = (type_sum){.type = type != NULL ? type : "?"};
        sums[k].tensors++;
        sums[k].bytes += bytes;
    }
    return n;
}

static void info_json(const seqmix_model *model, const seqmix_session *session, const char *refused, cJSON *o)
{
    type_sum sums[MAX_TYPES];
    int32_t n = sum_types(&model->weights, sums), n_called;
    const seqmix_config *c = &model->config;
    (void)cJSON_AddStringToObject(o, "family", c->family_name);
    (void)cJSON_AddStringToObject(o, "format", model->weights.is_gguf ? "gguf" : "safetensors");
    (void)cJSON_AddNumberToObject(o, "layers", (double)c->layers);
    (void)cJSON_AddNumberToObject(o, "hidden", (double)c->hidden);
    (void)cJSON_AddNumberToObject(o, "vocab", (double)c->vocab);
    (void)cJSON_AddNumberToObject(o, "parameters", (double)model->elements);
    (void)cJSON_AddNumberToObject(o, "context", (double)c->context);
    seqmix_config_describe(c, o);
    cJSON *types = cJSON_AddObjectToObject(o, "types");
    for (int32_t i = 0; i < n; i++) {
        cJSON *t = cJSON_AddObjectToObject(types, sums[i].type);
        (void)cJSON_AddNumberToObject(t, "tensors", (double)sums[i].tensors);
        (void)cJSON_AddNumberToObject(t, "bytes", (double)sums[i].bytes);
    }
    cJSON *bytes = cJSON_AddObjectToObject(o, "bytes");
    (void)cJSON_AddNumberToObject(bytes, "weights", (double)model->weight_bytes);
    (void)cJSON_AddNumberToObject(bytes, "parameters", (double)model->parameter_bytes);
    (void)cJSON_AddNumberToObject(bytes, "state_of_a_sequence", (double)(2 * model->state_bytes));
    (void)cJSON_AddNumberToObject(bytes, "cache_of_1024_rows",
                                  (double)((size_t)(seqmix_cache_floats(c, 1024) * model->n_caches) * sizeof(float)));
    if (refused != NULL) (void)cJSON_AddStringToObject(o, "refused", refused);
    if (session == NULL) return;
    const seqmix_memory *m = seqmix_session_memory(session);
    (void)cJSON_AddNumberToObject(bytes, "cache", (double)m->cache);
    (void)cJSON_AddNumberToObject(bytes, "buffers", (double)m->buffers);
    (void)cJSON_AddNumberToObject(bytes, "run", (double)seqmix_memory_total(m));
    const seqmix_called *called = seqmix_session_called(session, &n_called);
    cJSON *kernels = cJSON_AddObjectToObject(o, "kernels");
    for (int32_t i = 0; i < n_called; i++)
        (void)cJSON_AddStringToObject(kernels, called[i].name, called[i].kernel);
}

/* "key: value" lines, nested ones indented. */
static void print_tree(const cJSON *node, int depth)
{
    for (; node != NULL; node = node->next) {
        (void)printf("%*s%-*s ", 2 * depth, "", 28 - 2 * depth, node->string != NULL ? node->string : "-");
        if (cJSON_IsString(node))
            (void)printf("%s\n", node->valuestring);
        else if (cJSON_IsNumber(node))
            (void)printf("%.15g\n", node->valuedouble);
        else
            (void)printf("\n");
        if (node->child != NULL) print_tree(node->child, depth + 1);
    }
}

int seqmix_command_info(const seqmix_options *o, seqmix_why why)
{
    char refused[512] = "";
    seqmix_ctx *ctx = NULL;
    seqmix_session *session = NULL;
    seqmix_model *model = seqmix_model_open(o->model_dir, why);
    bool ok = model != NULL && seqmix_open_context(o, &ctx, why);
    seqmix_session_desc desc = {.model = model,
                                .ctx = ctx,
                                .on_device = seqmix_is_device(o),
                                .prefill_rows = o->prefill_rows,
                                .context = o->context};
    /* One that is refused has its reason told with the rest. */
    if (ok) session = seqmix_session_create(&desc, (seqmix_why){refused, sizeof refused});
    cJSON *tree = ok ? cJSON_CreateObject() : NULL;
    if (ok && tree == NULL) ok = seqmix_fail(why, "no memory");
    if (ok) info_json(model, session, session == NULL ? refused : NULL, tree);
    if (ok && !o->json) print_tree(tree->child, 0);
    char *text = ok && o->json ? cJSON_Print(tree) : NULL;
    if (text != NULL) (void)printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(tree);
    seqmix_session_free(session);
    seqmix_model_close(model);
    seqmix_ctx_destroy(ctx);
    return ok ? 0 : SEQMIX_EXIT_FAILED;
}
