// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/branch.hpp>
#include <weft/detail/netpoll/home_word.hpp>
#include <weft/detail/netpoll/poll_record.hpp>
#include <weft/detail/netpoll/stranded_mark.hpp>

#include <cstdint>

namespace weft::detail {

/// Why a poll has lost its place.
enum class cancel_reason : std::uint8_t {
    moved,    ///< Another one of its direction is armed elsewhere.
    closing,  ///< Its descriptor is being closed.
    failed,   ///< It could not be armed.
};

/// What a home word names: a ring, or an epoll set. The index is unique in the process, since a
/// descriptor may be used in more than one runtime.
class poll_home {
public:
    poll_home(const poll_home&) = delete;
    poll_home& operator=(const poll_home&) = delete;

    /// Any thread that has made the poll lose its place in the home word: asks the home that the
    /// word named to cancel it.
    ///
    /// The home cannot be destroyed beside this: it waits until every poll is released, for which
    /// this request has to be taken first, and then until no visitor is left.
    /// True: the poll has ended already, and nothing holds the file for it.
    static bool request_cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                               branch_list& readied) noexcept;

    std::uint16_t home_index() const noexcept { return index_; }

    /// Any thread: is the owner of that home kept by a task? Also for a home that does not exist
    /// any more.
    static const stranded_mark<layer>& mark_of(std::uint16_t home) noexcept;

    /// The lock of the table that the indices name; held over a fork.
    static void lock_table() noexcept;
    static void unlock_table() noexcept;

protected:
    /// Throws std::system_error when the process has too many homes.
    poll_home();
    ~poll_home();

    stranded_mark<layer>& mark() noexcept;

    virtual bool cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                        branch_list& readied) noexcept = 0;

    /// Before the destruction, when all polls are released: waits for requests that have been made
    /// but whose maker has not returned yet, a few instructions.
    void await_visitors() const noexcept;

private:
    layer::atomic<std::uint32_t> visitors_{0};
    std::uint16_t index_;
};

}  // namespace weft::detail
