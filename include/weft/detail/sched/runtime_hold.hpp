// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

namespace weft::detail {

class guard_count;
class runtime_core;

/// What runtime::guard is made of: as long as one exists, its runtime does not report that all
/// tasks are asleep. It may outlive the runtime.
class runtime_hold {
public:
    runtime_hold() noexcept = default;
    explicit runtime_hold(runtime_core& held) noexcept;
    runtime_hold(const runtime_hold& other) noexcept;
    runtime_hold(runtime_hold&& other) noexcept = default;
    runtime_hold& operator=(runtime_hold other) noexcept {
        count_.swap(other.count_);
        return *this;
    }
    ~runtime_hold();

private:
    std::shared_ptr<guard_count> count_;
};

/// Of the runtime whose task calls. Throws std::logic_error elsewhere.
runtime_hold hold_this_runtime();

}  // namespace weft::detail
