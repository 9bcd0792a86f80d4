/* SPDX-License-Identifier: MIT */
/* The counts that `seqmix-bench --model` asks for: the emulator's, and the registers of the checked-in budget. */
#include <algorithm>
#include <cstdio>
#include <map>

#include "../../bench/model.h"
#include "counters.h"
#include "emu.h"

namespace
{

/* Kernels of different files may have one name: then the most registers. */
std::map<std::string, int> registers;

void read_budget(const char *path, const char *arch)
{
    char line[512], of[16], name[256];
    int threads, used;
    FILE *file = fopen(path, "r");
    while (file != nullptr && fgets(line, sizeof line, file) != nullptr) {
        if (sscanf(line, "%15s %d %d %*d %*d %*d %255s", of, &threads, &used, name) != 4 || strcmp(of, arch) != 0)
            continue;
        const char *colon = strchr(name, ':');
        if (colon != nullptr) registers[colon + 1] = std::max(registers[colon + 1], used);
    }
    if (file != nullptr) fclose(file);
}

} /* namespace */

void seqmix_model_begin(const struct seqmix_model_card *card)
{
    emu::configure();
    emu::config.check = false;
    emu::config.count = true;
    emu::config.sample = 16;
    emu::config.processors = (int)card->sms;
    read_budget(EMU_BUDGET, card->capability < 90 ? "sm_80" : "sm_90");
}

int seqmix_model_take(struct seqmix_model_launch *launches, int n)
{
    const std::vector<emu::LaunchCounts> taken = emu::take_counts();
    for (size_t i = 0; i < taken.size() && (int)i < n; i++) {
        const emu::LaunchCounts &from = taken[i];
        const emu::Counts &c = from.counts;
        seqmix_model_launch &l = launches[i];
        l = {};
        snprintf(l.kernel, sizeof l.kernel, "%s", emu::kernel_name(from.kernel).c_str());
        const auto used = registers.find(emu::kernel_name(from.kernel));
        l.registers = used != registers.end() ? used->second : 0;
        l.blocks = (double)from.blocks;
        l.blocks_run = (double)from.blocks_run;
        l.threads = from.threads;
        l.shared = (double)(from.static_shared + from.dynamic_shared);
        l.fetched = (double)c.fetched;
        l.stored = (double)c.stored;
        l.between = (double)c.between;
        l.sectors = (double)c.sectors;
        l.ideal_sectors = (double)c.ideal_sectors;
        l.wavefronts = (double)c.wavefronts;
        l.ideal_wavefronts = (double)c.ideal_wavefronts;
        l.shuffles = (double)c.shuffles;
        l.barriers = (double)c.barriers;
        l.mma_16 = (double)c.mma_16;
        l.mma_8 = (double)c.mma_8;
        l.exps = (double)c.exps;
        l.roots = (double)c.roots;
        l.fmas = (double)c.fmas;
    }
    return (int)taken.size();
}
