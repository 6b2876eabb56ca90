// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/operation.hpp>
#include <weft/detail/netpoll/io_operation.hpp>

#include <cstdint>
#include <system_error>
#include <utility>

namespace weft::detail {

/// Closes a descriptor and waits until that is done: no poll, no system call and no waiter is left,
/// and the number of the file is free or given back. A close is begun in any case, also in a
/// stopped scope; only the wait can be cancelled. If the wait for a descriptor that is to be given
/// back is cancelled, it is closed.
class close_operation : public operation {
public:
    enum class purpose : std::uint8_t {
        close,     ///< close(2) at the end.
        give_back  ///< The descriptor goes to the caller, who owns it again.
    };

    close_operation(descriptor_name closing, purpose why) noexcept
        : operation(false, wait_reason::io_close), closing_(closing), why_(why) {}

    bool start(branch& waiter) noexcept override;
    bool unlink() noexcept override;

protected:
    /// Only of an operation that has not started.
    close_operation(const close_operation&) = default;
    /// Closes what was given back and not taken: the await was stopped just then, or the runtime
    /// has ended and destroys the frame.
    ~close_operation();

    /// Is the descriptor closed, or given back? Not yet where the wait was cancelled.
    bool ended() const noexcept;
    /// Once: what was given back, or -1: the life had ended before, or somebody else closes it.
    int take_fd() noexcept { return std::exchange(fd_, -1); }

private:
    friend class poll_descriptor;

    descriptor_name closing_;
    close_operation* next_ = nullptr;  ///< Among the waiters; guarded by the descriptor's lock.
    purpose why_;
    bool linked_ = false;  ///< As next_.
    int fd_ = -1;
};

}  // namespace weft::detail
