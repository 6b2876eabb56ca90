// SPDX-License-Identifier: MIT
#include "lib/sched/guard_count.hpp"

#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/sched/runtime_hold.hpp>

#include <stdexcept>

namespace weft::detail {

void guard_count::tell() noexcept {
    const std::lock_guard held(mutex_);
    if (told_ != nullptr) {
        reconsider(*told_);
    }
}

runtime_hold::runtime_hold(runtime_core& held) noexcept : count_(held.shared_guards) {
    count_->add();
}

runtime_hold::runtime_hold(const runtime_hold& other) noexcept : count_(other.count_) {
    if (count_ != nullptr) {
        count_->add();
    }
}

runtime_hold::~runtime_hold() {
    if (count_ != nullptr) {
        count_->remove();
    }
}

runtime_hold hold_this_runtime() {
    worker* here = current_worker();
    if (here == nullptr) {
        throw std::logic_error(
            "weft: a runtime::guard was made on a thread that is no worker; make it in a task and "
            "move it to the thread, or name the runtime");
    }
    return runtime_hold(here->runtime());
}

}  // namespace weft::detail
