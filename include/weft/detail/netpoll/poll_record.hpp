// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/netpoll/direction.hpp>

#include <cstdint>

namespace weft::detail {

/// Names a record: slot * 4 + direction * 2 + record, plus one, so that 0 names none. A slot has at
/// most 26 bits, so this has 29.
using record_ref = std::uint32_t;
inline constexpr record_ref no_record = 0;
inline constexpr unsigned slot_bits = 26;

/// One poll of a descriptor, from its arming to its release: there are two for each direction, so
/// that a poll can move to another ring while the old one is still being cancelled.
///
/// Who touches it: whoever arms it, on the thread that owns the ring; from then on that thread,
/// until the poll is released. The one exception is `next_request`, the link in the inbox of the
/// ring: it belongs to whoever asks for the cancellation, once, until the owner has taken it.
template <class Layer>
struct basic_poll_record {
    template <class T>
    using var = typename Layer::template var<T>;

    record_ref self = no_record;     ///< Fixed with the slot.
    var<std::uint32_t> sequence{0};  ///< Of the poll that it was armed for.
    var<record_ref> next_request{no_record};
    record_ref next = no_record;  ///< In the list of polls of its ring.
    record_ref previous = no_record;
    var<bool> multishot{false};
    /// The ring has handed it over, and has not taken its final completion.
    bool in_kernel = false;
    /// It was no longer the current poll of its direction when it ended.
    var<bool> given_up{false};
    /// The final completion came before the request to cancel it.
    var<bool> ended{false};
    /// The request to cancel it came before its final completion.
    var<bool> cancel_taken{false};
    /// Events in a row that no operation waited for.
    var<std::uint8_t> unused_events{0};

    direction which() const noexcept {
        return ((self - 1) & 2) == 0 ? direction::read : direction::write;
    }
    std::uint32_t slot() const noexcept { return (self - 1) >> 2; }
};

class poll_record : public basic_poll_record<layer> {};

}  // namespace weft::detail
