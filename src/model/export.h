/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint in the Hugging Face layout as the draft of a GGUF file, as llama.cpp's converter names and orders things: what
 * binds the tensors (bind.c) says their names, and the rules in export.c what differs besides. What GGUF has no place for is
 * refused.
 */
#ifndef SEQMIX_MODEL_EXPORT_H
#define SEQMIX_MODEL_EXPORT_H

#include "draft.h"
#include "model.h"

/* Tensors and values of an opened model of safetensors in `dir`, whose memory the draft goes on using. `note` gets a remark
 * where the file's tokenizer is not just that of the directory. */
bool seqmix_export(seqmix_model *model, const char *dir, seqmix_draft *draft, seqmix_why note, seqmix_why why);
/* Whether a written file is read back as a model. */
bool seqmix_export_check(const char *path, seqmix_why why);

/* Parts of it: the config's values; the tokenizer's, of DIR/tokenizer.json. */
bool seqmix_export_config(const seqmix_config *config, seqmix_draft *draft, seqmix_why why);
bool seqmix_export_tokenizer(const char *dir, const seqmix_config *config, seqmix_draft *draft, seqmix_why note,
                             seqmix_why why);
/* The latter of a file in memory. */
bool seqmix_export_tokenizer_json(const void *bytes, size_t size, const seqmix_config *config, seqmix_draft *draft,
                                  seqmix_why note, seqmix_why why);

#endif
