/* SPDX-License-Identifier: MIT */
/* Opening a model directory (see model.h). */
#include "model.h"

static const seqmix_family *const families[] = {&seqmix_family_mamba};

static const seqmix_family *family_of(seqmix_family_id id)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (families[i]->id == id) return families[i];
    return NULL;
}

seqmix_model *seqmix_model_open(const char *dir, seqmix_why why)
{
    seqmix_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        (void)seqmix_fail(why, "%s: no memory", dir);
        return NULL;
    }
    seqmix_arena counting = {NULL, 0};
    bool ok = seqmix_config_open(dir, &model->config, why);
    if (ok) model->family = family_of(model->config.family);
    if (ok && model->family == NULL) ok = seqmix_fail(why, "%s: no code for this family", dir);
    if (!ok || !seqmix_weights_open(dir, model->family->embedding_names, &model->weights, why) ||
        !model->family->bind(model, &counting, why)) {
        seqmix_model_close(model);
        return NULL;
    }
    model->parameter_bytes = counting.used;
    return model;
}

bool seqmix_model_prepare(seqmix_model *model, seqmix_why why)
{
    if (model->parameters != NULL) return true;
    size_t bytes = model->parameter_bytes > 0 ? model->parameter_bytes : SEQMIX_ARENA_ALIGN;
    char *memory = aligned_alloc(SEQMIX_ARENA_ALIGN, bytes);
    if (memory == NULL) return seqmix_fail(why, "no memory for %zu bytes of parameters", bytes);
    seqmix_arena arena = {memory, 0};
    if (!model->family->bind(model, &arena, why)) {
        free(memory);
        return false;
    }
    model->parameters = memory;
    return true;
}

void seqmix_model_close(seqmix_model *model)
{
    if (model == NULL) return;
    seqmix_weights_close(&model->weights);
    free(model->layers);
    free(model->parameters);
    free(model);
}
