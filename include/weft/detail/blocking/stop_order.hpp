// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>

namespace weft::detail {

/// The stop of one call that listens to a token, and the wish for it. Callbacks on the token are
/// the user's code, so only the messenger of the pool requests the stop
/// (lib/blocking/stop_messenger.hpp); it shares the order with the frame of the call, which may be
/// gone by then.
struct stop_order {
    std::stop_source source;
    /// Set by a canceller, at most once, before it posts the order.
    std::atomic<bool> wanted{false};

    // Of the messenger, while the order is posted.
    std::shared_ptr<stop_order> self;
    stop_order* next = nullptr;
};

}  // namespace weft::detail
