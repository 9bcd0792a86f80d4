/* SPDX-License-Identifier: MIT */
/* Reports of a run (see report.h). */
#include "report.h"

#include "options.h"

static double per_second(seqmix_phase phase)
{
    return phase.ms > 0.0 ? (double)phase.rows * 1000.0 / phase.ms : 0.0;
}

const char *seqmix_report_level(const seqmix_session *session, int32_t backend)
{
    int32_t n, highest = 0;
    const seqmix_called *called = seqmix_session_called(session, &n);
    for (int32_t i = 0; i < n; i++)
        if (called[i].level > highest) highest = called[i].level;
    return seqmix_level_name(backend, highest);
}

/* Of the first block's largest matrices: what most of the file is in. */
static const char *weights_dtype(const seqmix_model *model)
{
    const char *name = seqmix_gguf_type_name(seqmix_gguf_dtype_type(model->head.dtype));
    return name != NULL ? name : "?";
}

void seqmix_report_model(const char *dir, const seqmix_model *model, FILE *to)
{
    const seqmix_config *c = &model->config;
    (void)fprintf(
        to, "%s: %s, %lld layers, width %lld, vocabulary %lld, %.2f M parameters, %.1f MiB %s in %lld file%s\n", dir,
        c->family_name, (long long)c->layers, (long long)c->hidden, (long long)c->vocab, (double)model->elements / 1e6,
        (double)model->weight_bytes / 1048576.0, weights_dtype(model), (long long)seqmix_weights_files(&model->weights),
        seqmix_weights_files(&model->weights) == 1 ? "" : "s");
}

void seqmix_report_session(const seqmix_session *session, FILE *to)
{
    const seqmix_memory *m = seqmix_session_memory(session);
    (void)fprintf(to, "memory: weights %.2f MiB mapped, parameters %.2f, state %.2f, cache %.2f, buffers %.2f\n",
                  (double)m->weights / 1048576.0, (double)m->parameters / 1048576.0, (double)m->state / 1048576.0,
                  (double)m->cache / 1048576.0, (double)m->buffers / 1048576.0);
    int32_t n;
    const seqmix_called *called = seqmix_session_called(session, &n);
    for (int32_t i = 0; i < n; i++)
        (void)fprintf(to, "kernel: %-20s %s\n", called[i].name, called[i].kernel);
}

void seqmix_report_phases(const seqmix_run *run, FILE *to)
{
    (void)fprintf(to, "prefill %6lld rows %10.1f ms %10.1f rows/s  (%lld rows a step)\n", (long long)run->prefill.rows,
                  run->prefill.ms, per_second(run->prefill), (long long)run->prefill_rows);
    (void)fprintf(to, "decode  %6lld rows %10.1f ms %10.1f rows/s\n", (long long)run->decode.rows, run->decode.ms,
                  per_second(run->decode));
}

static void add_number(cJSON *to, const char *key, double value)
{
    (void)cJSON_AddNumberToObject(to, key, value);
}

static void add_ids(cJSON *to, const char *key, const seqmix_ids *ids)
{
    cJSON *list = cJSON_AddArrayToObject(to, key);
    for (size_t i = 0; list != NULL && i < ids->n; i++)
        (void)cJSON_AddItemToArray(list, cJSON_CreateNumber((double)ids->data[i]));
}

static cJSON *add_phase(cJSON *to, const char *key, seqmix_phase phase)
{
    cJSON *o = cJSON_AddObjectToObject(to, key);
    add_number(o, "rows", (double)phase.rows);
    add_number(o, "ms", phase.ms);
    add_number(o, "rows_per_s", per_second(phase));
    return o;
}

static void add_model(cJSON *to, const seqmix_run *run)
{
    const seqmix_config *c = &run->model->config;
    const seqmix_memory *m = seqmix_session_memory(run->session);
    cJSON *o = cJSON_AddObjectToObject(to, "model");
    (void)cJSON_AddStringToObject(o, "path", run->model_dir);
    (void)cJSON_AddStringToObject(o, "family", c->family_name);
    add_number(o, "layers", (double)c->layers);
    add_number(o, "hidden", (double)c->hidden);
    add_number(o, "vocab", (double)c->vocab);
    seqmix_config_describe(c, o);
    (void)cJSON_AddStringToObject(o, "dtype", weights_dtype(run->model));
    add_number(o, "parameters", (double)run->model->elements);
    add_number(o, "files", (double)seqmix_weights_files(&run->model->weights));
    cJSON *bytes = cJSON_AddObjectToObject(o, "bytes");
    add_number(bytes, "weights", (double)m->weights);
    add_number(bytes, "parameters", (double)m->parameters);
    add_number(bytes, "state", (double)m->state);
    add_number(bytes, "cache", (double)m->cache);
    add_number(bytes, "buffers", (double)m->buffers);
}

/* A NUL, which a model may produce, would end a C string early; it becomes U+FFFD. */
static void add_text(cJSON *to, const seqmix_answer *answer, bool has_text)
{
    seqmix_bytes copy = {0};
    bool ok = has_text;
    for (size_t i = 0; ok && i + 1 < answer->text.n; i++) {
        bool nul = answer->text.data[i] == 0;
        ok = seqmix_bytes_add(&copy, nul ? (const void *)"\xEF\xBF\xBD" : &answer->text.data[i], nul ? 3 : 1);
    }
    ok = ok && seqmix_bytes_add(&copy, "", 1);
    if (ok)
        (void)cJSON_AddStringToObject(to, "text", (const char *)copy.data);
    else
        (void)cJSON_AddNullToObject(to, "text");
    free(copy.data);
}

static void add_answer(cJSON *to, const seqmix_answer *answer, bool has_text)
{
    add_ids(to, "prompt_tokens", answer->prompt);
    add_ids(to, "tokens", &answer->generated);
    add_text(to, answer, has_text);
    (void)cJSON_AddStringToObject(to, "finish", answer->finish != NULL ? answer->finish : "?");
}

static void add_answers(cJSON *to, const seqmix_run *run)
{
    if (!run->batch) {
        add_answer(to, run->answers, run->has_text);
        return;
    }
    cJSON *list = cJSON_AddArrayToObject(to, "answers");
    for (int32_t i = 0; list != NULL && i < run->n_answers; i++) {
        cJSON *one = cJSON_CreateObject();
        add_answer(one, &run->answers[i], run->has_text);
        (void)cJSON_AddItemToArray(list, one);
    }
}

static void add_profile(cJSON *to, const seqmix_run *run)
{
    int32_t n;
    const seqmix_called *called = seqmix_session_called(run->session, &n);
    cJSON *ops = cJSON_AddObjectToObject(to, "profile_ops"), *kinds = cJSON_AddObjectToObject(to, "profile_kinds");
    for (int32_t i = 0; i < n; i++)
        if (run->profile->op_calls[i] > 0) add_number(ops, called[i].name, run->profile->op_ms[i]);
    for (int k = 0; k < SEQMIX_N_KINDS; k++)
        if (run->profile->kind_ms[k] > 0.0)
            add_number(kinds, k == SEQMIX_KIND_NONE ? "embedding and head" : seqmix_kind_names[k],
                       run->profile->kind_ms[k]);
}

void seqmix_report_profile(const seqmix_run *run, FILE *to)
{
    int32_t n;
    const seqmix_called *called = seqmix_session_called(run->session, &n);
    const seqmix_profile *p = run->profile;
    double all = 0.0;
    for (int32_t i = 0; i < n; i++)
        all += p->op_ms[i];
    for (int32_t i = 0; i < n; i++)
        if (p->op_calls[i] > 0)
            (void)fprintf(to, "op   %-24s %8lld calls %10.2f ms %5.1f %%\n", called[i].name, (long long)p->op_calls[i],
                          p->op_ms[i], 100.0 * p->op_ms[i] / all);
    for (int k = 0; k < SEQMIX_N_KINDS; k++)
        if (p->kind_ms[k] > 0.0)
            (void)fprintf(to, "kind %-24s                %10.2f ms %5.1f %%\n",
                          k == SEQMIX_KIND_NONE ? "embedding and head" : seqmix_kind_names[k], p->kind_ms[k],
                          100.0 * p->kind_ms[k] / all);
}

bool seqmix_report_json(const seqmix_run *run, FILE *to)
{
    cJSON *o = cJSON_CreateObject();
    if (o == NULL) return false;
    add_answers(o, run);
    add_number(add_phase(o, "prefill", run->prefill), "prefill_rows", (double)run->prefill_rows);
    (void)add_phase(o, "decode", run->decode);
    add_number(o, "workers", (double)run->workers);
    (void)cJSON_AddStringToObject(o, "level", seqmix_report_level(run->session, run->backend));
    cJSON *kernels = cJSON_AddObjectToObject(o, "kernels");
    int32_t n;
    const seqmix_called *called = seqmix_session_called(run->session, &n);
    for (int32_t i = 0; i < n; i++)
        (void)cJSON_AddStringToObject(kernels, called[i].name, called[i].kernel);
    if (run->profile != NULL) add_profile(o, run);
    add_model(o, run);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    bool ok = text != NULL && fprintf(to, "%s\n", text) > 0;
    cJSON_free(text);
    return ok;
}
