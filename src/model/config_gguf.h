/* SPDX-License-Identifier: MIT */
/* The config of a GGUF file, from its metadata and from which tensors it holds; where both say something, they must agree. */
#ifndef SEQMIX_MODEL_CONFIG_GGUF_H
#define SEQMIX_MODEL_CONFIG_GGUF_H

#include "config.h"
#include "gguf.h"

bool seqmix_config_gguf(const seqmix_gguf *gguf, const char *label, seqmix_config *config, seqmix_why why);
/* The name that such a file has for the models of a config. */
const char *seqmix_config_gguf_arch(const seqmix_config *config);

#endif
