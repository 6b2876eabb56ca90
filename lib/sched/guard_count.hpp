// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/sched/all_asleep.hpp>

#include <mutex>

namespace weft::detail {

class runtime_core;

/// The guards of a runtime (all_asleep.hpp); shared with them, since they may outlive it.
class guard_count {
public:
    explicit guard_count(runtime_core& told) noexcept : told_(&told) {}

    void add() noexcept { word_.add(); }
    void remove() noexcept {
        if (word_.remove()) {
            tell();
        }
    }
    bool any() const noexcept { return word_.any(); }

    /// The runtime ends. It is not touched any more when this returns.
    void detach() noexcept {
        const std::lock_guard held(mutex_);
        told_ = nullptr;
    }

private:
    void tell() noexcept;

    guard_word<layer> word_;
    std::mutex mutex_;
    runtime_core* told_;
};

}  // namespace weft::detail
