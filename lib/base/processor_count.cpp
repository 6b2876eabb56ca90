// SPDX-License-Identifier: MIT
#include "lib/base/processor_count.hpp"

#include "lib/base/affinity.hpp"
#include "lib/base/environment.hpp"

#include <algorithm>
#include <thread>

namespace weft::detail {

std::uint32_t processors_of_machine(const cgroup_roots& roots) {
    cgroup_reader quotas(roots);
    return processors_of_machine(quotas);
}

std::uint32_t processors_of_machine(cgroup_reader& quotas) {
    std::uint32_t count = affinity_mask::of_this_thread().count();
    if (count == 0) {
        count = std::max(1U, std::thread::hardware_concurrency());
    }
    if (const auto quota = quotas.processors()) {
        count = std::min(count, *quota);
    }
    return std::min(count, std::uint32_t{largest_processor_count});
}

std::optional<std::uint32_t> processor_count_watch::look(monotonic_time now) {
    if (!active() || now < next_look_) {
        return std::nullopt;
    }
    next_look_ = after_period(now);
    const std::uint32_t found = processors_of_machine(quotas_);
    if (found == last_) {
        return std::nullopt;
    }
    last_ = found;
    return found;
}

}  // namespace weft::detail
