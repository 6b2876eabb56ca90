// SPDX-License-Identifier: MIT
#include "lib/netpoll/poll_home.hpp"

#include "lib/netpoll/fork_locks.hpp"

#include <weft/detail/base/assert.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <system_error>

#include <sched.h>

namespace weft::detail {

namespace {

/// As many as a home word can name.
constexpr std::size_t home_count = 65536;

/// Zero-initialised, so that the pages of unused entries are never touched.
constinit std::array<layer::atomic<poll_home*>, home_count> homes{};
/// Apart from the homes, since who asks does not keep a home from being destroyed.
constinit std::array<stranded_mark<layer>, home_count> marks{};
constinit std::mutex homes_lock;
constinit std::size_t next_index = 0;

/// Takes turns, so that an index is not used again at once.
std::uint16_t add_home(poll_home* added) {
    hold_locks_over_forks();
    const std::lock_guard guard(homes_lock);
    for (std::size_t tried = 0; tried < home_count; ++tried) {
        const std::size_t index = next_index++ % home_count;
        if (homes[index].load(std::memory_order_relaxed) == nullptr) {
            // Release pairs with the acquire in request_cancel(). The home word that names the
            // index is written later, by the owner.
            homes[index].store(added, std::memory_order_release);
            return static_cast<std::uint16_t>(index);
        }
    }
    throw std::system_error(EMFILE, std::system_category(),
                            "this process has 65536 rings or epoll sets of weft already");
}

}  // namespace

poll_home::poll_home() : index_(add_home(this)) {}

poll_home::~poll_home() {
    const std::lock_guard guard(homes_lock);
    marks[index_].back();
    homes[index_].store(nullptr, std::memory_order_relaxed);
}

[[gnu::hot]]
const stranded_mark<layer>& poll_home::mark_of(std::uint16_t home) noexcept {
    return marks[home];
}
[[gnu::hot]]
stranded_mark<layer>& poll_home::mark() noexcept {
    return marks[index_];
}

void poll_home::lock_table() noexcept {
    homes_lock.lock();
}
void poll_home::unlock_table() noexcept {
    homes_lock.unlock();
}

bool poll_home::request_cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                               branch_list& readied) noexcept {
    poll_home* const home = homes[poll.home].load(std::memory_order_acquire);
    WEFT_ASSERT(home != nullptr);
    // Relaxed: the request that follows publishes it, and the home looks at the count only after it
    // has taken the request.
    home->visitors_.fetch_add(1, std::memory_order_relaxed);
    const bool ended = home->cancel(poll, record, why, readied);
    // Release pairs with await_visitors(): we do not touch the home any more.
    [[maybe_unused]] const std::uint32_t visitors =
        home->visitors_.fetch_sub(1, std::memory_order_release);
    WEFT_ASSERT(visitors != 0);
    return ended;
}

void poll_home::await_visitors() const noexcept {
    while (visitors_.load(std::memory_order_acquire) != 0) ::sched_yield();
}

}  // namespace weft::detail
