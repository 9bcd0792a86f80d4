/* SPDX-License-Identifier: MIT */
/* Reports of a run (see report.h). */
#include "report.h"

static double per_second(seqmix_phase phase)
{
    return phase.ms > 0.0 ? (double)phase.rows * 1000.0 / phase.ms : 0.0;
}

const char *seqmix_report_level(const seqmix_session *session)
{
    int32_t n, highest = 0;
    const seqmix_called *called = seqmix_session_called(session, &n);
    for (int32_t i = 0; i < n; i++)
        if (called[i].level > highest) highest = called[i].level;
    switch (highest) {
    case SEQMIX_LEVEL_CPU_REF:
        return "ref";
    case SEQMIX_LEVEL_CPU_GENERIC:
        return "generic";
    case SEQMIX_LEVEL_CPU_AVX2:
        return "avx2";
    case SEQMIX_LEVEL_CPU_AVX512:
        return "avx512";
    case SEQMIX_LEVEL_CPU_AMX:
        return "amx";
    default:
        return "?";
    }
}

static const char *weights_dtype(const seqmix_model *model)
{
    return seqmix_st_dtype_name(model->embedding.dtype);
}

void seqmix_report_model(const char *dir, const seqmix_model *model, FILE *to)
{
    const seqmix_config *c = &model->config;
    (void)fprintf(
        to, "%s: %s, %lld layers, width %lld, vocabulary %lld, %.2f M parameters, %.1f MiB %s in %lld file%s\n", dir,
        c->family_name, (long long)c->layers, (long long)c->hidden, (long long)c->vocab,
        (double)seqmix_weights_count(&model->weights) / 1e6, (double)seqmix_weights_bytes(&model->weights) / 1048576.0,
        weights_dtype(model), (long long)model->weights.st.n_parts, model->weights.st.n_parts == 1 ? "" : "s");
}

void seqmix_report_session(const seqmix_session *session, FILE *to)
{
    const seqmix_memory *m = seqmix_session_memory(session);
    (void)fprintf(to, "memory: weights %.2f MiB mapped, parameters %.2f, state %.2f, buffers %.2f\n",
                  (double)m->weights / 1048576.0, (double)m->parameters / 1048576.0, (double)m->state / 1048576.0,
                  (double)m->buffers / 1048576.0);
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
    run->model->family->describe(c, o);
    (void)cJSON_AddStringToObject(o, "dtype", weights_dtype(run->model));
    add_number(o, "parameters", (double)seqmix_weights_count(&run->model->weights));
    add_number(o, "files", (double)run->model->weights.st.n_parts);
    cJSON *bytes = cJSON_AddObjectToObject(o, "bytes");
    add_number(bytes, "weights", (double)m->weights);
    add_number(bytes, "parameters", (double)m->parameters);
    add_number(bytes, "state", (double)m->state);
    add_number(bytes, "buffers", (double)m->buffers);
}

/* A NUL, which a model may produce, would end a C string early; it becomes U+FFFD. */
static void add_text(cJSON *to, const seqmix_run *run)
{
    seqmix_bytes copy = {0};
    bool ok = run->has_text;
    for (size_t i = 0; ok && i + 1 < run->text->n; i++) {
        bool nul = run->text->data[i] == 0;
        ok = seqmix_bytes_add(&copy, nul ? (const void *)"\xEF\xBF\xBD" : &run->text->data[i], nul ? 3 : 1);
    }
    ok = ok && seqmix_bytes_add(&copy, "", 1);
    if (ok)
        (void)cJSON_AddStringToObject(to, "text", (const char *)copy.data);
    else
        (void)cJSON_AddNullToObject(to, "text");
    free(copy.data);
}

bool seqmix_report_json(const seqmix_run *run, FILE *to)
{
    cJSON *o = cJSON_CreateObject();
    if (o == NULL) return false;
    add_ids(o, "prompt_tokens", run->prompt);
    add_ids(o, "tokens", run->generated);
    add_text(o, run);
    (void)cJSON_AddStringToObject(o, "finish", run->finish);
    add_number(add_phase(o, "prefill", run->prefill), "prefill_rows", (double)run->prefill_rows);
    (void)add_phase(o, "decode", run->decode);
    add_number(o, "workers", (double)run->workers);
    (void)cJSON_AddStringToObject(o, "level", seqmix_report_level(run->session));
    cJSON *kernels = cJSON_AddObjectToObject(o, "kernels");
    int32_t n;
    const seqmix_called *called = seqmix_session_called(run->session, &n);
    for (int32_t i = 0; i < n; i++)
        (void)cJSON_AddStringToObject(kernels, called[i].name, called[i].kernel);
    add_model(o, run);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    bool ok = text != NULL && fprintf(to, "%s\n", text) > 0;
    cJSON_free(text);
    return ok;
}
