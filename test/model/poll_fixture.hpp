// SPDX-License-Identifier: MIT
#pragma once

// What the models of the netpoller have in common: a kernel with one file and its polls, rings
// whose owners reap, and an operation that reads. The words and the order of the steps are those of
// weft; the kernel, the system calls and the threads are stand-ins.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/netpoll/descriptor_word.hpp>
#include <weft/detail/netpoll/poll_record.hpp>
#include <weft/detail/netpoll/poll_side.hpp>

#include "explorer.hpp"

#include <array>
#include <cerrno>
#include <cstdint>

namespace weft::model {

using layer = model_layer;
using order = std::memory_order;

/// A branch: type-stable, and runnable by whichever worker takes it.
struct waiter {
    weft::detail::operation_word<layer> word;
    layer::atomic<unsigned> runnable{0};
    layer::var<waiter*> next{nullptr};  ///< In a list of those that were handed to others.
};

inline void complete(waiter* taken) {
    if (taken == nullptr || !taken->word.complete()) return;
    check(taken->runnable.exchange(1, order::release) == 0, "a branch is readied twice");
}

struct record : weft::detail::basic_poll_record<layer> {
    /// Stands for the links in the list of its ring: touched on arming, and before it ends.
    layer::var<bool> listed{false};
    /// In the inbox of its ring.
    layer::var<bool> requested{false};
};

template <std::uint8_t MissesBeforeMove>
using side_of = weft::detail::poll_side<layer, waiter, record, MissesBeforeMove>;

/// Where nobody counts what holds the descriptor.
struct no_references {
    void add() const {}
    void drop() const {}
};

/// After EAGAIN, on the worker of that number.
template <class Side, class References = no_references>
weft::detail::wait_decision wait_at(Side& reads, waiter& branch, unsigned here,
                                    References references = {}) {
    return reads.wait(&branch, static_cast<std::uint16_t>(here), references,
                      [](std::uint16_t) { return false; });
}

/// The file in the kernel: how much can be read, and what it knows of the two polls of a direction.
/// One word, changed with relaxed operations: a system call sees the newest state, and orders
/// nothing for the threads of the program.
class kernel_file {
public:
    /// Completions may overflow, which ends multishot polls.
    bool overflows = true;

    /// read(2): true, or EAGAIN.
    bool read() {
        bool got = false;
        change([&](std::uint64_t value) {
            got = (value & data_mask) != 0;
            return got ? value - 1 : value;
        });
        return got;
    }

    enum class drained : std::uint8_t { data, end, nothing };
    /// read(2) of a stream of bytes, with a buffer that is larger than what is there: all of it.
    drained drain() {
        drained got = drained::nothing;
        change([&](std::uint64_t value) {
            got = (value & data_mask) != 0 ? drained::data
                  : (value & end_bit) != 0 ? drained::end
                                           : drained::nothing;
            return value & ~data_mask;
        });
        return got;
    }

    /// poll(2).
    bool readable() {
        bool is = false;
        change([&](std::uint64_t value) {
            is = (value & (data_mask | end_bit)) != 0;
            return value;
        });
        return is;
    }

    /// The peer writes.
    void write() {
        change([&](std::uint64_t value) {
            value += 1;
            for (unsigned poll = 0; poll < 2; ++poll) value = fire(value, poll);
            return value;
        });
    }

    /// The peer writes no more.
    void finish() {
        change([&](std::uint64_t value) {
            value |= end_bit;
            for (unsigned poll = 0; poll < 2; ++poll) value = fire(value, poll);
            return value;
        });
    }

    /// A ring submits a poll.
    void submit(unsigned poll, unsigned ring, bool multishot, std::uint32_t sequence) {
        sequences_[poll] = sequence;
        change([&](std::uint64_t value) {
            check(flags(value, poll) == 0, "a record is armed while its poll is in the kernel");
            std::uint64_t state = armed;
            if (multishot) state |= multi;
            if (ring != 0) state |= ring_one;
            value = set(value, poll, state);
            return (value & (data_mask | end_bit)) != 0 ? fire(value, poll) : value;
        });
    }

    /// A ring cancels a poll by its id: does nothing where it has ended.
    void cancel(unsigned poll, std::uint32_t sequence) {
        change([&](std::uint64_t value) {
            const std::uint64_t now = flags(value, poll);
            if ((now & armed) == 0 || sequences_[poll] != sequence) return value;
            return set(value, poll, (now & ~armed) | final | cancelled);
        });
    }

    /// Is there a completion for the ring?
    bool pending(unsigned ring) const { return pending(ring, 0) || pending(ring, 1); }
    bool pending(unsigned ring, unsigned poll) const {
        const std::uint64_t now = flags(word_.peek(), poll);
        return (now & (event | final)) != 0 && ((now & ring_one) != 0) == (ring != 0);
    }

    /// The owner of the ring takes a completion of a poll that has one.
    weft::detail::poll_completion reap(unsigned poll) {
        weft::detail::poll_completion taken{.sequence = sequences_[poll]};
        change([&](std::uint64_t value) {
            const std::uint64_t now = flags(value, poll);
            // A multishot poll that was cancelled reports an event that came before first.
            const bool ends =
                (now & final) != 0 && ((now & (event | cancelled)) != (event | cancelled));
            taken.more = !ends;
            taken.result = (now & event) != 0 ? 1 : -ECANCELED;
            taken.hung_up = taken.result > 0 && (value & end_bit) != 0;
            return set(value, poll, ends ? 0 : now & ~event);
        });
        return taken;
    }

    bool idle() const { return flags(word_.peek(), 0) == 0 && flags(word_.peek(), 1) == 0; }

private:
    static constexpr std::uint64_t data_mask = 0xff;
    static constexpr std::uint64_t end_bit = std::uint64_t{1} << 24;
    enum : std::uint64_t {
        armed = 1,
        multi = 2,
        event = 4,
        final = 8,
        cancelled = 16,
        ring_one = 32
    };

    static std::uint64_t flags(std::uint64_t value, unsigned poll) {
        return (value >> (8 + 8 * poll)) & 0xff;
    }
    static std::uint64_t set(std::uint64_t value, unsigned poll, std::uint64_t to) {
        const unsigned shift = 8 + 8 * poll;
        return (value & ~(std::uint64_t{0xff} << shift)) | (to << shift);
    }
    std::uint64_t fire(std::uint64_t value, unsigned poll) const {
        const std::uint64_t now = flags(value, poll);
        if ((now & armed) == 0) return value;
        // A multishot poll goes on, or ends because completions have overflown.
        const bool goes_on = (now & multi) != 0 && (!overflows || choose(2) == 0);
        return set(value, poll, goes_on ? now | event : (now & ~armed) | event | final);
    }

    template <class Change>
    void change(Change&& next) {
        std::uint64_t value = word_.peek();
        while (!word_.compare_exchange_strong(value, next(value), order::relaxed, order::relaxed)) {
        }
    }

    layer::atomic<std::uint64_t> word_{0};
    std::array<std::uint32_t, 2> sequences_{};
};

}  // namespace weft::model
