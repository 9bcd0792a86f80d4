/* SPDX-License-Identifier: MIT */
/*
 * safetensors files and shard indexes. The first byte chooses: 'i' the rest is an index, 'r' the rest is a raw file, else
 * the rest is a header, to which the length and so many bytes of data (the first byte's value) are added.
 */
#include <string.h>

#include "fuzz.h"
#include "safetensors.h"

/* What the header file promises of an opened file. */
static void check_tensors(const seqmix_safetensors *st, const unsigned char *file, size_t size)
{
    for (int64_t i = 0; i < st->n_tensors; i++) {
        const seqmix_st_tensor *t = &st->tensors[i];
        size_t element = seqmix_st_dtype_size(t->dtype), count = 1;
        seqmix_must(element > 0 && t->rank >= 0 && t->rank <= SEQMIX_ST_MAX_RANK);
        for (int32_t k = 0; k < t->rank; k++)
            count *= (size_t)t->shape[k];
        seqmix_must(count * element == t->bytes && (uintptr_t)t->data % element == 0);
        const unsigned char *data = t->data;
        seqmix_must(data >= file + 8 && data <= file + size && t->bytes <= (size_t)(file + size - data));
        seqmix_must(seqmix_st_find(st, t->name) == t);
        seqmix_must(i == 0 || strcmp(st->tensors[i - 1].name, t->name) < 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[128] = "";
    seqmix_why to = {why, sizeof why};
    if (size == 0) return 0;
    uint8_t kind = *data++;
    size--;
    if (kind == 'i') {
        cJSON *map;
        bool ok = seqmix_st_index_parse(data, size, "fuzz", &map, to);
        seqmix_must(ok ? map != NULL : why[0] != '\0');
        cJSON_Delete(map);
        return 0;
    }
    size_t header = kind == 'r' ? 0 : 8, zeros = kind == 'r' ? 0 : kind;
    size_t total = header + size + zeros;
    /* Aligned as a mapped file is, and of exactly its size for the sanitizer (malloc aligns to 16). */
    unsigned char *file = malloc(total > 0 ? total : 1);
    seqmix_must(file != NULL);
    memset(file, 0, total);
    for (size_t i = 0; i < header; i++)
        file[i] = (unsigned char)((uint64_t)size >> (8 * i));
    if (size > 0) memcpy(file + header, data, size);
    seqmix_safetensors st;
    if (seqmix_st_parse(file, total, "fuzz", &st, to))
        check_tensors(&st, file, total);
    else
        seqmix_must(why[0] != '\0' && st.tensors == NULL);
    seqmix_st_close(&st);
    free(file);
    return 0;
}
