// SPDX-License-Identifier: MIT
#include "support/watchdog.hpp"

#include "support/scale.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace weft::test {

watchdog::watchdog(std::chrono::seconds limit, std::function<std::string()> describe)
    : limit_(limit * (sanitized ? 4 : 1)),
      describe_(std::move(describe)),
      thread_([this] { watch(); }) {}

watchdog::~watchdog() {
    {
        const std::lock_guard held(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void watchdog::watch() {
    std::uint64_t seen = count_.load(std::memory_order_relaxed);
    auto waited = std::chrono::nanoseconds::zero();
    int patience = 10;
    std::unique_lock held(mutex_);
    while (!changed_.wait_for(held, limit_, [this] { return ended_; })) {
        const std::uint64_t now = count_.load(std::memory_order_relaxed);
        const auto waited_before = std::exchange(waited, waited_for_cpu());
        const bool starved = waited - waited_before > limit_ / 2;
        if (now == seen && !(starved && --patience > 0)) {
            std::fprintf(stderr, "no progress for %lld s after %llu steps\n%s\n",
                         static_cast<long long>(limit_.count()),
                         static_cast<unsigned long long>(now), describe_().c_str());
            std::abort();
        }
        if (now != seen) patience = 10;
        seen = now;
    }
}

std::string describe(const runtime_statistics& statistics) {
    std::string text = "spawned " + std::to_string(statistics.tasks_spawned()) + ", alive " +
                       std::to_string(statistics.tasks_alive()) + ", netpoller " +
                       statistics.netpoller;
    for (std::size_t i = 0; i < statistics.processors.size(); ++i) {
        const processor_statistics& p = statistics.processors[i];
        text += "\nP" + std::to_string(i);
        const std::pair<const char*, std::uint64_t> counters[] = {
            {"run", p.tasks_run},       {"spawned", p.spawned}, {"ended", p.ended},
            {"steals", p.steals},       {"parks", p.parks},     {"wakes", p.wakes},
            {"overflows", p.overflows}, {"timers", p.timers},   {"overruns", p.overruns},
        };
        for (const auto& [name, value] : counters) {
            text += std::string(" ") + name + " " + std::to_string(value);
        }
    }
    return text;
}

std::chrono::nanoseconds waited_for_cpu() {
    std::int64_t sum = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(each.path() / "schedstat");
        std::int64_t ran = 0;
        std::int64_t waited = 0;
        if (file >> ran >> waited) sum += waited;
    }
    return std::chrono::nanoseconds(sum);
}

}  // namespace weft::test
