/* SPDX-License-Identifier: MIT */
/* Tensors of a made-up dump, and the file they become. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "safetensors.h"
#include "safetensors_write.h"
#include "test_validate.h"

static uint64_t random_state;
static bool rounds;

void sample_seed(uint64_t seed)
{
    random_state = seed;
}

double sample_uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double gauss(void)
{
    return sqrt(-2 * log(sample_uniform())) * cos(6.283185307179586 * sample_uniform());
}

void *sample_tensor(struct sample *s, const char *name, int32_t dtype, const char *shape)
{
    struct sample_tensor *t = &s->tensor[s->n++];
    *t = (struct sample_tensor){.dtype = dtype, .count = 1};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    for (const char *at = shape; *at != '\0';) {
        char *end = NULL;
        t->count *= t->shape[t->rank++] = strtol(at, &end, 10);
        at = *end == ' ' ? end + 1 : end;
    }
    t->data = calloc((size_t)t->count + 1, 4);
    return t->data;
}

float *sample_add(struct sample *s, const char *name, double mean, double deviation, const char *shape)
{
    float *data = sample_tensor(s, name, SEQMIX_ST_F32, shape);
    for (int64_t i = 0; i < s->tensor[s->n - 1].count; i++)
        data[i] = (float)(mean + deviation * gauss());
    for (int64_t i = 0; i < s->tensor[s->n - 1].count && rounds; i++)
        data[i] = seqmix_bf16_to_f32(seqmix_f32_to_bf16(data[i]));
    return data;
}

void sample_round(bool to_bf16)
{
    rounds = to_bf16;
}

struct sample_tensor *sample_find(struct sample *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->tensor[i].name, name) == 0) return &s->tensor[i];
    return NULL;
}

const float *sample_values(struct sample *s, const char *name)
{
    const struct sample_tensor *t = sample_find(s, name);
    return t != NULL ? t->data : NULL;
}

void sample_string(struct sample *s, const char *key, const char *value)
{
    (void)snprintf(s->string[s->n_strings][0], sizeof s->string[0][0], "%s", key);
    (void)snprintf(s->string[s->n_strings++][1], sizeof s->string[0][0], "%s", value);
}

void sample_number(struct sample *s, const char *key, double value)
{
    char buffer[48];
    (void)snprintf(buffer, sizeof buffer, "%.9g", value);
    sample_string(s, key, buffer);
}

void sample_free(struct sample *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->tensor[i].data);
    s->n = s->n_strings = 0;
}

/* What a value becomes in a narrower dtype, so that an engine's inputs are what the file says. */
static bool is_narrow(const struct sample_tensor *t)
{
    static const char *const wide[] = {"A", "gate", "dt", "beta", "dt_bias", "state"};
    for (int i = 0; i < 6; i++)
        if (strcmp(t->name, wide[i]) == 0) return false;
    return t->dtype == SEQMIX_ST_F32;
}

bool sample_write(const struct sample *s, const char *path, int32_t dtype)
{
    struct seqmix_st_out out[SAMPLE_TENSORS];
    const char *strings[2 * SAMPLE_STRINGS + 1] = {NULL};
    void *owned[SAMPLE_TENSORS] = {NULL};
    for (int i = 0; i < s->n; i++) {
        const struct sample_tensor *t = &s->tensor[i];
        out[i] = (struct seqmix_st_out){t->name, t->dtype, t->rank, {0}, t->data};
        memcpy(out[i].shape, t->shape, sizeof t->shape);
        if (!is_narrow(t) || dtype == SEQMIX_ST_F32) continue;
        owned[i] = malloc((size_t)t->count * 8 + 1);
        for (int64_t j = 0; j < t->count; j++) {
            const float x = ((const float *)t->data)[j];
            if (dtype == SEQMIX_ST_F64) ((double *)owned[i])[j] = (double)x;
            if (dtype == SEQMIX_ST_BF16) ((uint16_t *)owned[i])[j] = seqmix_f32_to_bf16(x);
            if (dtype == SEQMIX_ST_F16) ((uint16_t *)owned[i])[j] = seqmix_f32_to_f16(x);
        }
        out[i].dtype = dtype;
        out[i].data = owned[i];
    }
    for (int i = 0; i < s->n_strings; i++) {
        strings[2 * i] = s->string[i][0];
        strings[2 * i + 1] = s->string[i][1];
    }
    const bool ok = seqmix_st_write(path, out, s->n, strings);
    for (int i = 0; i < s->n; i++)
        free(owned[i]);
    return ok;
}

int sample_trait(const char *traits, const char *key, int otherwise)
{
    const size_t length = strlen(key);
    for (const char *at = traits; at != NULL && *at != '\0'; at = strchr(at, ' ') != NULL ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, key, length) == 0 && at[length] == '=') return atoi(at + length + 1);
    return otherwise;
}

const char *sample_shape(const char *format, int a, int b, int c)
{
    static char buffer[32][64];
    static int at;
    at = (at + 1) % 32;
    (void)snprintf(buffer[at], sizeof buffer[0], format, a, b, c);
    return buffer[at];
}
