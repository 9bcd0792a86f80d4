/* SPDX-License-Identifier: MIT */
/* Named tensors of a checkpoint (see weights.h). */
#include "weights.h"

#include <math.h>

_Static_assert((int)SEQMIX_ST_F32 == (int)SEQMIX_F32 && (int)SEQMIX_ST_BF16 == (int)SEQMIX_BF16 &&
                   (int)SEQMIX_ST_F16 == (int)SEQMIX_F16,
               "dtypes of files are numbered as those of tensors");

#define NAME_SIZE 160

static const char *const prefixes[] = {"backbone.", "model.", "model.backbone.", ""};

bool seqmix_weights_open(const char *dir, const char *const *names, seqmix_weights *w, seqmix_why why)
{
    char name[NAME_SIZE];
    *w = (seqmix_weights){0};
    if (!seqmix_st_open_model(dir, &w->st, why)) return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        for (const char *const *embedding = names; *embedding != NULL; embedding++) {
            (void)snprintf(name, sizeof name, "%s%s", prefixes[i], *embedding);
            if (seqmix_st_find(&w->st, name) == NULL) continue;
            (void)snprintf(w->prefix, sizeof w->prefix, "%s", prefixes[i]);
            return true;
        }
    }
    seqmix_weights_close(w);
    return seqmix_fail(why, "tensor 'backbone.%s' is missing, under any known prefix", names[0]);
}

void seqmix_weights_close(seqmix_weights *w)
{
    seqmix_st_close(&w->st);
}

/* The head has no prefix. */
static void full_name(const seqmix_weights *w, const seqmix_weight_key *key, char out[NAME_SIZE])
{
    const char *prefix = strncmp(key->name, "lm_head.", 8) == 0 ? "" : w->prefix;
    if (key->layer < 0)
        (void)snprintf(out, NAME_SIZE, "%s%s", prefix, key->name);
    else
        (void)snprintf(out, NAME_SIZE, "%slayers.%lld.%s", prefix, (long long)key->layer, key->name);
}

static void print_shape(const int64_t *shape, int32_t rank, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int32_t i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, i > 0 ? ", %lld" : "%lld", (long long)shape[i]);
    if (n < size) (void)snprintf(out + n, size - n, "]");
}

/* Equal but for axes of length 1, as in a depthwise convolution's [D, 1, K]. */
static bool same_shape(const seqmix_st_tensor *t, const seqmix_weight_key *key)
{
    int32_t at = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        while (at < key->rank && key->shape[at] == 1 && t->shape[i] != 1)
            at++;
        if (at < key->rank && t->shape[i] == key->shape[at])
            at++;
        else if (t->shape[i] != 1)
            return false;
    }
    while (at < key->rank && key->shape[at] == 1)
        at++;
    return at == key->rank;
}

bool seqmix_weights_has(const seqmix_weights *w, const seqmix_weight_key *key)
{
    char name[NAME_SIZE];
    full_name(w, key, name);
    return seqmix_st_find(&w->st, name) != NULL;
}

bool seqmix_weights_view(const seqmix_weights *w, const seqmix_weight_key *key, seqmix_tensor *out, seqmix_why why)
{
    char name[NAME_SIZE], wanted[96], found[256];
    full_name(w, key, name);
    print_shape(key->shape, key->rank, wanted, sizeof wanted);
    const seqmix_st_tensor *t = seqmix_st_find(&w->st, name);
    if (t == NULL) return seqmix_fail(why, "tensor '%s' is missing, wanted with shape %s", name, wanted);
    if (!same_shape(t, key)) {
        print_shape(t->shape, t->rank, found, sizeof found);
        return seqmix_fail(why, "tensor '%s' has shape %s, wanted %s", name, found, wanted);
    }
    if (t->dtype != SEQMIX_ST_F32 && t->dtype != SEQMIX_ST_BF16 && t->dtype != SEQMIX_ST_F16)
        return seqmix_fail(why, "tensor '%s' has dtype %s, wanted F32, BF16 or F16", name,
                           seqmix_st_dtype_name(t->dtype));
    /* Tensors of the header are never written when they are inputs. */
    *out = (seqmix_tensor){.data = (void *)(uintptr_t)t->data, .dtype = t->dtype, .rank = key->rank};
    for (int32_t i = key->rank - 1; i >= 0; i--) {
        out->shape[i] = key->shape[i];
        out->stride[i] = i + 1 < key->rank ? out->stride[i + 1] * out->shape[i + 1] : 1;
    }
    return true;
}

static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 0x1F) return bits_to_float(sign | 0x7F800000u | mantissa << 13);
    if (exponent > 0) return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float small = (float)mantissa * 5.9604644775390625e-8F; /* 2^-24 */
    return sign != 0 ? -small : small;
}

static float element(const seqmix_tensor *t, int64_t i)
{
    if (t->dtype == SEQMIX_F32) return ((const float *)t->data)[i];
    uint16_t half = ((const uint16_t *)t->data)[i];
    return t->dtype == SEQMIX_BF16 ? bits_to_float((uint32_t)half << 16) : half_to_float(half);
}

bool seqmix_weights_f32(const seqmix_weights *w, const seqmix_weight_key *key, seqmix_widen how, seqmix_arena *arena,
                        seqmix_tensor *out, seqmix_why why)
{
    seqmix_tensor stored;
    if (!seqmix_weights_view(w, key, &stored, why)) return false;
    int64_t n = 1;
    for (int32_t i = 0; i < key->rank; i++)
        n *= key->shape[i];
    float *wide = seqmix_arena_take(arena, (size_t)n * sizeof *wide);
    for (int64_t i = 0; wide != NULL && i < n; i++) {
        float value = element(&stored, i);
        wide[i] = how == SEQMIX_WIDEN_NEG_EXP ? -expf(value) : value;
    }
    *out = stored;
    out->data = wide;
    out->dtype = SEQMIX_F32;
    return true;
}

size_t seqmix_weights_bytes(const seqmix_weights *w)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < w->st.n_tensors; i++)
        bytes += w->st.tensors[i].bytes;
    return bytes;
}

int64_t seqmix_weights_count(const seqmix_weights *w)
{
    int64_t count = 0;
    for (int64_t i = 0; i < w->st.n_tensors; i++)
        count += (int64_t)(w->st.tensors[i].bytes / seqmix_st_dtype_size(w->st.tensors[i].dtype));
    return count;
}
