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
/// It is made before the runtime whose tasks use the store and destroyed after it: the end of the
/// main task does not end the others, and each that sets an expiry comes here.
class expirer {
public:
    /// Becomes the listener of `data`, which must outlive it. From then on expiries may be set only
    /// inside tasks of one runtime.
    explicit expirer(store& data);
    expirer(const expirer&) = delete;
    expirer& operator=(const expirer&) = delete;
    ~expirer();

    /// Ends the tasks that sleep and returns when they have ended; one that is removing keys goes
    /// on until no more are due. Keys that are set then expire only when they are asked for. To be
    /// awaited by a task of the runtime, before its main task ends.
    weft::task<> stop();

private:
    struct alarm;
    enum class sweep_progress { done, more_is_due, no_memory };

    void arm(std::size_t shard, time_point deadline);
    bool disarm(std::size_t shard, time_point deadline);
    weft::task<> sweep_at(std::size_t shard, time_point deadline);
    sweep_progress sweep(std::size_t shard) noexcept;

    store& data_;
    std::unique_ptr<alarm[]> alarms_;
};

}  // namespace kv
