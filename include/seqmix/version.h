/* SPDX-License-Identifier: MIT */
/* The one source of both versions: the product's and the ABI's. The build parses this file. */
#ifndef SEQMIX_VERSION_H
#define SEQMIX_VERSION_H

#define SEQMIX_VERSION_MAJOR 0
#define SEQMIX_VERSION_MINOR 1
#define SEQMIX_VERSION_PATCH 0

/* soname: libseqmix.so.<SEQMIX_ABI_MAJOR>. Minor grows with every appended slot or field. */
#define SEQMIX_ABI_MAJOR 0
#define SEQMIX_ABI_MINOR 1

#define SEQMIX_ABI_VERSION ((uint32_t)SEQMIX_ABI_MAJOR << 16 | (uint32_t)SEQMIX_ABI_MINOR)

#endif
