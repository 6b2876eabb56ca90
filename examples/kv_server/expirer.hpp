// SPDX-License-Identifier: MIT
#pragma once

#include "store.hpp"

#include <cstddef>
#include <memory>

#include <weft/task.hpp>

namespace kv {

/// The time as the store wants it.
time_point current_time() noexcept;

/// Removes keys whose time has come although nobody asks for them: one task for each shard that has
/// such keys sleeps until the first of them expires, removes what has expired, in batches between
/// which other tasks run, and sleeps again. A shard without such keys has no task.
///
/// Its functions are called inside tasks of one runtime.
class expirer {
public:
    /// Becomes the listener of `data`, which must outlive it and be used inside tasks only.
    explicit expirer(store& data);
    expirer(const expirer&) = delete;
    expirer& operator=(const expirer&) = delete;
    ~expirer();

    /// Ends all tasks and returns when they have ended; keys then expire only when they are asked
    /// for. To be awaited before the runtime or this object ends.
    weft::task<> stop();

private:
    struct alarm;

    void arm(std::size_t shard, time_point deadline);
    bool disarm(std::size_t shard, time_point deadline);
    weft::task<> sweep_at(std::size_t shard, time_point deadline);

    store& data_;
    std::unique_ptr<alarm[]> alarms_;
};

}  // namespace kv
