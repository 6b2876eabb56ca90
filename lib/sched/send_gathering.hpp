// SPDX-License-Identifier: MIT
//
// When a worker gathers what its tasks send, instead of making a system call for each.
//
// What it is for. A send on a socket takes the kernel some thousand instructions, whose cache lines
// the next task displaces; and a call that does nothing costs a thirtieth of an echo. A worker
// whose tasks answer one after the other therefore leaves their sends to its ring, as entries, and
// hands all of them over with the system call that it makes in any case to see what is ready: 7 to
// 15 % of the CPU time of an echo. The task that sends is suspended until its entry has completed,
// which it does in that very call, since it asks the kernel not to wait (ring_poller.hpp).
//
// States, and who leaves them how. All of it belongs to the worker.
//
//     state      leaves by
//     closed     admits(), where `least_ready` others are ready and nobody is idle: begin() -> open
//     open       due() in the loop of the worker, or any other reason to poll: end() -> closed
//     paused     closed, but the next sends make their own calls; by their number -> closed
//
// How long a send may be delayed. What stands between a send and its system call is what the worker
// does until it polls:
//   * It polls when `longest` branches have run since the first send was gathered, when nothing is
//     ready, before the next branch when a processor is idle (which could run what waits here), and
//     when it is asked to by its attention word.
//   * A branch may run for long. When one was running while the kernel's tick moved (1 to 4 ms, 10
//     where it ticks at 100 Hz), the worker polls before the next branch.
//   * A branch that does not come back at all is the watchdog's case. After 10 ms it sends the
//     rescue signal, whose handler hands over what is in the ring, gathered sends included, and
//     then takes the branches whose sends have completed to the global queue. Where that signal is
//     not to be had nothing is gathered (ring_poller.cpp).
// So a send waits for less than a tick and the branch that runs then, and that for 10 ms at most,
// or as long as the watchdog takes to be scheduled. Tasks that take long to answer would pay that
// for nothing, as the saving is small beside what they do. So a gathering that has lasted for more
// than `slow` is followed by a pause, twice as long each time. As long as all are slow, one send in
// hundred is gathered.
//
// Rejected: to gather only among the branches of one batch of completions, which are not told from
// others once they are queued. To gather receives as well: they gained nothing, since they are made
// one after the other already (worker_thread::repeat_operations). To read the clock before each
// branch: a hundredth of an echo, for a bound that matters only where the next branch is slow.
#pragma once

#include <weft/detail/base/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

class send_gathering {
public:
    static constexpr std::uint32_t longest = 32;      ///< Branches.
    static constexpr std::size_t least_ready = 4;     ///< Branches; fewer are not worth it.
    static constexpr monotonic_time slow = 200'000;   ///< See the head of this file.
    static constexpr std::uint32_t first_pause = 32;  ///< Sends.
    static constexpr std::uint32_t longest_pause = 4096;

    bool open() const noexcept { return open_; }

    /// A branch is about to send while so many others are ready here: may its send be gathered?
    bool admits(std::size_t ready) noexcept {
        if (open_) return true;
        if (ready < least_ready) return false;
        if (left_of_pause_ == 0) return true;
        --left_of_pause_;
        return false;
    }

    /// The first send was gathered, in this turn of the worker, at this tick and this time.
    void begin(std::uint32_t turn, monotonic_time tick, monotonic_time now) noexcept {
        open_ = true;
        turn_ = turn;
        tick_ = tick;
        began_ = now;
    }

    /// While it is open, before a branch runs: is it time to poll?
    bool due(std::uint32_t turn, monotonic_time tick) const noexcept {
        return turn - turn_ >= longest || tick != tick_;
    }

    /// While it is open: the worker polls.
    void end(monotonic_time now) noexcept {
        open_ = false;
        if (now - began_ < slow) {
            pause_ = first_pause;
            return;
        }
        left_of_pause_ = pause_;
        pause_ = std::min(2 * pause_, longest_pause);
    }

private:
    bool open_ = false;
    std::uint32_t turn_ = 0;
    std::uint32_t pause_ = first_pause;
    std::uint32_t left_of_pause_ = 0;
    monotonic_time tick_ = 0;
    monotonic_time began_ = 0;
};

}  // namespace weft::detail
