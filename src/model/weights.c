/* SPDX-License-Identifier: MIT */
/* Opening a checkpoint's tensors (see weights.h; bind.c looks them up). */
#include "weights.h"

static const char *const prefixes[] = {
    "backbone.", "model.", "model.language_model.", "language_model.model.", "language_model.", "model.backbone.", ""};
static const char *const embeddings[] = {"embeddings.weight", "embedding.weight", "embed_tokens.weight"};

static bool find_prefix(seqmix_weights *w, seqmix_why why)
{
    char name[96];
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        for (size_t k = 0; k < sizeof embeddings / sizeof embeddings[0]; k++) {
            (void)snprintf(name, sizeof name, "%s%s", prefixes[i], embeddings[k]);
            if (seqmix_st_find(&w->st, name) == NULL) continue;
            (void)snprintf(w->prefix, sizeof w->prefix, "%s", prefixes[i]);
            w->embedding = embeddings[k];
            return true;
        }
    }
    return seqmix_fail(why,
                       "the embedding ('backbone.embeddings.weight', 'model.embed_tokens.weight', ...) is missing");
}

bool seqmix_weights_open(const char *path, seqmix_weights *w, seqmix_why why)
{
    size_t n = strlen(path);
    *w = (seqmix_weights){0};
    w->is_gguf = n > 5 && strcmp(path + n - 5, ".gguf") == 0;
    if (w->is_gguf) return seqmix_gguf_open(path, &w->gguf, why);
    if (!seqmix_st_open_model(path, &w->st, why)) return false;
    if (find_prefix(w, why)) return true;
    seqmix_weights_close(w);
    return false;
}

void seqmix_weights_close(seqmix_weights *w)
{
    if (w->is_gguf)
        seqmix_gguf_close(&w->gguf);
    else
        seqmix_st_close(&w->st);
    *w = (seqmix_weights){0};
}

int64_t seqmix_weights_files(const seqmix_weights *w)
{
    return w->is_gguf ? 1 : w->st.n_parts;
}

bool seqmix_weights_each(const seqmix_weights *w, int64_t i, const char **name, const char **type, size_t *bytes)
{
    if (i >= (w->is_gguf ? w->gguf.n_tensors : w->st.n_tensors)) return false;
    *name = w->is_gguf ? w->gguf.tensors[i].name : w->st.tensors[i].name;
    *type = w->is_gguf ? seqmix_gguf_type_name(w->gguf.tensors[i].type) : seqmix_st_dtype_name(w->st.tensors[i].dtype);
    *bytes = w->is_gguf ? w->gguf.tensors[i].bytes : w->st.tensors[i].bytes;
    return true;
}
