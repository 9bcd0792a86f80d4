/* SPDX-License-Identifier: MIT */
/* config.json: whatever it says, the numbers that come out are in their ranges. */
#include "config.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[256] = "";
    seqmix_config c;
    if (!seqmix_config_parse(data, size, "fuzz", &c, (seqmix_why){why, sizeof why})) {
        seqmix_must(why[0] != '\0');
        return 0;
    }
    const int64_t large = INT64_C(1) << 24;
    seqmix_must(c.family == SEQMIX_FAMILY_MAMBA && c.family_name != NULL);
    seqmix_must(c.vocab >= 1 && c.vocab <= large + 65536 && c.hidden >= 1 && c.hidden <= large);
    seqmix_must(c.layers >= 1 && c.layers <= 4096 && c.eps > 0.0F && c.eps <= 1.0F);
    seqmix_must(c.mamba.inner >= 1 && c.mamba.inner <= large && c.mamba.dt_rank >= 1 && c.mamba.dt_rank <= large);
    seqmix_must(c.mamba.state >= 1 && c.mamba.state <= 256 && c.mamba.conv >= 1 && c.mamba.conv <= 16);
    seqmix_must(c.n_stop >= 0 && c.n_stop <= SEQMIX_MAX_STOP);
    for (int32_t i = 0; i < c.n_stop; i++)
        seqmix_must(c.stop[i] >= 0 && c.stop[i] < c.vocab);
    return 0;
}
