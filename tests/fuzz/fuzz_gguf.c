/* SPDX-License-Identifier: MIT */
/* GGUF files as they are: what is opened must keep the promises of gguf.h, what is refused must say why. */
#include <string.h>

#include "fuzz.h"
#include "gguf.h"

static void check_tensors(const seqmix_gguf *g, const unsigned char *file, size_t size)
{
    for (int64_t i = 0; i < g->n_tensors; i++) {
        const seqmix_gguf_tensor *t = &g->tensors[i];
        const unsigned char *data = t->data;
        int64_t block = 0, count = 1;
        size_t bytes = 0;
        seqmix_must(seqmix_gguf_type_block(t->type, &block, &bytes) && t->rank >= 1 && t->rank <= SEQMIX_GGUF_MAX_RANK);
        for (int32_t k = 0; k < t->rank; k++)
            count *= t->shape[k];
        seqmix_must(t->shape[t->rank - 1] % block == 0 && (size_t)(count / block) * bytes == t->bytes);
        seqmix_must(data >= file + 24 && data <= file + size && t->bytes <= (size_t)(file + size - data));
        seqmix_must((uintptr_t)data % 8 == 0 && seqmix_gguf_find(g, t->name) == t);
        seqmix_must(i == 0 || strcmp(g->tensors[i - 1].name, t->name) < 0);
    }
}

/* Every element of every value, through every getter. */
static void read_values(const seqmix_gguf *g, const unsigned char *file, size_t size, seqmix_why to)
{
    double sum = 0;
    for (int64_t i = 0; i < g->n_values; i++) {
        const seqmix_gguf_value *v = &g->values[i], *array;
        seqmix_gguf_text text;
        int64_t whole;
        bool flag;
        size_t at = 0;
        seqmix_must(seqmix_gguf_value_of(g, v->key) == v && v->data >= file && v->data <= file + size);
        seqmix_must(v->bytes <= (size_t)(file + size - v->data));
        (void)seqmix_gguf_int(g, v->key, -5, 5, &whole, to);
        (void)seqmix_gguf_number(g, v->key, &sum, to);
        (void)seqmix_gguf_bool(g, v->key, &flag, to);
        (void)seqmix_gguf_ints(g, v->key, 1, -5, 5, &whole, to);
        (void)seqmix_gguf_bools(g, v->key, 1, &flag, to);
        (void)seqmix_gguf_string(g, v->key, &text, to);
        if (seqmix_gguf_array(g, v->key, SEQMIX_GGUF_F32, &array, to))
            for (uint64_t k = 0; k < array->n; k++)
                sum += seqmix_gguf_number_at(array, k);
        uint64_t n = 0;
        if (v->element == SEQMIX_GGUF_STRING) {
            for (; seqmix_gguf_next_string(v, &at, &text); n++)
                for (size_t k = 0; k < text.n; k++)
                    sum += text.bytes[k];
            seqmix_must(n == v->n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[128] = "";
    const seqmix_why to = {why, sizeof why};
    seqmix_gguf g;
    /* Aligned as a mapped file is, and of exactly its size for the sanitizer (malloc aligns to 16). */
    unsigned char *file = malloc(size > 0 ? size : 1);
    seqmix_must(file != NULL);
    if (size > 0) memcpy(file, data, size);
    if (seqmix_gguf_parse(file, size, "fuzz", &g, to)) {
        check_tensors(&g, file, size);
        read_values(&g, file, size, to);
    } else {
        seqmix_must(why[0] != '\0' && g.tensors == NULL);
    }
    seqmix_gguf_close(&g);
    free(file);
    return 0;
}
