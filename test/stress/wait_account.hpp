// SPDX-License-Identifier: MIT
#pragma once

#include <weft/result.hpp>

#include <atomic>
#include <cstdint>
#include <system_error>

namespace weft::test {

/// How the waits of a storm have ended.
struct wait_account {
    std::atomic<std::uint64_t> done{0};     ///< What was waited for has come.
    std::atomic<std::uint64_t> late{0};     ///< A deadline came first.
    std::atomic<std::uint64_t> stopped{0};  ///< A stop came first.
    std::atomic<std::uint64_t> wrong{0};    ///< Whatever must not happen.

    std::uint64_t ended() const { return done + late + stopped; }

    /// Counts one by its error; none: it is done.
    void note(const std::error_code& error) {
        if (!error) {
            ++done;
        } else if (error == std::errc::timed_out) {
            ++late;
        } else if (error == std::errc::operation_canceled) {
            ++stopped;
        } else {
            ++wrong;
        }
    }

    /// Counts one. True: it is done.
    template <class Value>
    bool note(const result<Value>& waited) {
        note(waited ? std::error_code() : waited.error());
        return waited.has_value();
    }
};

}  // namespace weft::test
