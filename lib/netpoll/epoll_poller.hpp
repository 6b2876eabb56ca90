// SPDX-License-Identifier: MIT
//
// The netpoller on epoll: one set for the whole runtime.
//
// A descriptor is registered once for both directions, edge-triggered, when an operation waits for
// it for the first time. An event notifies the wait words of the directions that it is about, on
// whatever worker took it; the rules of wait_word.hpp need nothing more. The home words name the
// set itself, so nothing ever moves, and a poll ends when its descriptor is closed or the set goes
// away. Since nobody owns the set, a closer ends it on his own thread, from the swap in the home
// word on, which may be before the operation that arms it has called epoll_ctl. So the poll has its
// reference before that swap, and the operation has one of its own: the number of the file stays
// taken until both are given back.
//
// Who waits. Busy workers look without waiting; of the parked ones at most two wait in the set
// (watch_seats.hpp), whoever is the sentinel. The doorbell is level-triggered and read only by
// workers that wait, so a busy worker cannot take a ring of the bell away from the one that it is
// meant for; one that waits and has read the bell for the other one rings it again (bell_word.hpp).
#pragma once

#include "lib/netpoll/poll_home.hpp"

#include <weft/detail/base/layer.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/netpoll/bell_word.hpp>
#include <weft/detail/netpoll/netpoller.hpp>
#include <weft/detail/netpoll/watch_seats.hpp>

#include <cstdint>
#include <memory>
#include <vector>

struct epoll_event;

namespace weft::detail {

/// The set, shared by all workers.
class epoll_set final : public poll_home {
public:
    epoll_set() = default;
    ~epoll_set();

    start_result set_up() noexcept;

    /// 0 or an errno. The caller holds a reference of the descriptor.
    int add(poll_record& record) noexcept;
    /// Has anything ever been registered?
    bool used() const noexcept { return used_.load(std::memory_order_relaxed); }

    /// Takes events and notifies; `deadline` 0 does not wait. True: the bell was among them.
    bool take_events(monotonic_time deadline, branch_list& readied) noexcept;

    /// Would take_events() find any? The bell may be one of them.
    bool has_events() const noexcept;

    void ring_doorbell() noexcept;
    void silence_doorbell() noexcept;

    watch_seats<layer> seats;

    /// A waiter that has read the bell and taken note of it: rings it again if somebody else still
    /// expects it.
    void pass_doorbell_on() noexcept;

    /// One more poller, also while others wait here; and one less.
    void add_poller(bell_word<layer>& word);
    void remove_poller(bell_word<layer>& word) noexcept;

private:
    bool cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                branch_list& readied) noexcept override;
    int wait_for_events(epoll_event* events, int capacity, monotonic_time deadline) noexcept;
    void end_all_polls() noexcept;

    int fd_ = -1;
    int doorbell_ = -1;
    spin_lock<layer> words_lock_;  ///< Of what follows; taken after each ring of the bell.
    std::vector<bell_word<layer>*> words_;
    layer::atomic<bool> used_{false};
    layer::atomic<bool> has_pwait2_{true};
    layer::atomic<std::uint32_t> unreleased_{0};
};

class epoll_poller final : public poller {
public:
    explicit epoll_poller(epoll_set& set) : set_(set) {
        home_ = set.home_index();
        set.add_poller(word_);
    }
    ~epoll_poller() override { set_.remove_poller(word_); }

    start_result enable_on_this_thread() noexcept override { return {}; }
    void shut_down() noexcept override {}
    void poll(branch_list& readied, poll_extent extent) noexcept override;
    void wait(monotonic_time deadline, branch_list& readied) noexcept override;
    void wake() noexcept override;
    bool begin_sleep() noexcept override;
    void end_sleep() noexcept override;
    bool has_work() const noexcept override { return set_.used(); }
    bool has_unsubmitted() const noexcept override { return false; }
    int arm(poll_record& record) noexcept override { return set_.add(record); }

private:
    epoll_set& set_;
    bell_word<layer> word_;
    bool seated_ = false;
};

}  // namespace weft::detail
