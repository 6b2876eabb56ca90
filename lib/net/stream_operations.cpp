// SPDX-License-Identifier: MIT
#include "lib/netpoll/poll_descriptor.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/net/stream_operations.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/uio.h>

namespace weft::detail {

void throw_system_error(std::error_code error, const char* what) {
    throw std::system_error(error, what);
}

void throw_io_error(std::error_code error, std::size_t transferred, const char* what) {
    throw io_error(error, transferred, what);
}

io_operation::attempt_outcome transfer_operation::judge(std::ptrdiff_t result,
                                                        std::size_t wanted) noexcept {
    if (result > 0) {
        transferred_ += static_cast<std::size_t>(result);
        const bool all = static_cast<std::size_t>(result) == wanted;
        return all || extent_ == transfer_extent::some ? attempt_outcome::done
                                                       : attempt_outcome::again;
    }
    if (result == 0) {
        // The end of the stream: only a read gets here, since something was asked for.
        if (extent_ == transfer_extent::all) fail(errc::unexpected_eof);
        return attempt_outcome::done;
    }
    switch (errno) {
    case EINTR: return attempt_outcome::again;  // A signal came before anything was moved.
    case EAGAIN: return attempt_outcome::would_block;
    default: break;
    }
    // Everything else ends the operation and means what it says: ECONNRESET, EPIPE, ETIMEDOUT,
    // ENOTCONN, EBADF (somebody closed the number behind our back), ENOMEM.
    fail_with_errno(errno);
    return attempt_outcome::done;
}

bool transfer_operation::start_empty(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) return true;  // Stopped; the outcome says so.
    if (!finish_inline(waiter, *this)) return false;
    const auto [descriptor, generation] = used();
    if (descriptor == nullptr || !descriptor->is_open(generation)) fail(errc::closed);
    return true;
}

template <direction Which>
io_operation::attempt_outcome buffer_operation<Which>::attempt(int fd) noexcept {
    const std::span<byte> left = buffer_.subspan(transferred_);
    const std::size_t size = std::min(left.size(), largest_transfer);
    std::ptrdiff_t result = 0;
    if constexpr (Which == direction::read) {
        // The kernel is far from copying yet, and a buffer that was not used for a while is in no
        // cache: its first line may come meanwhile.
        __builtin_prefetch(left.data(), 1);
        result = sys().recv(fd, left.data(), size, MSG_DONTWAIT);
        if (result > 0 && static_cast<std::size_t>(result) < size) short_read();
    } else {
        if (size <= largest_gathered && gather_send(fd, left.data(), size)) {
            return attempt_outcome::gathered;
        }
        result = sys().send(fd, left.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return judge(result, left.size());
}

template <direction Which>
io_operation::attempt_outcome buffer_operation<Which>::ended(int result) noexcept {
    if (result < 0) errno = -result;
    return judge(result < 0 ? -1 : result, buffer_.size() - transferred_);
}

template <direction Which>
io_operation::attempt_outcome vector_operation<Which>::attempt(int fd) noexcept {
    std::array<iovec, largest_vector> vector;
    std::size_t count = 0;
    std::size_t size = 0;
    std::size_t offset = offset_;
    for (const std::span<byte> each : buffers_) {
        if (count == vector.size() || size == largest_transfer) break;
        const std::span<byte> left = each.subspan(std::exchange(offset, 0));
        if (left.empty()) continue;
        const std::size_t taken = std::min(left.size(), largest_transfer - size);
        // The kernel's type has no const; sendmsg only reads.
        vector[count++] = {const_cast<std::byte*>(left.data()), taken};
        size += taken;
    }
    msghdr message{};
    message.msg_iov = vector.data();
    message.msg_iovlen = count;
    std::ptrdiff_t result = 0;
    if constexpr (Which == direction::read) {
        result = sys().recvmsg(fd, &message, MSG_DONTWAIT);
        if (result > 0 && static_cast<std::size_t>(result) < size) short_read();
    } else {
        result = sys().sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    const std::size_t wanted = size_ - transferred_;
    if (result > 0) skip(static_cast<std::size_t>(result));
    return judge(result, wanted);
}

template <direction Which>
void vector_operation<Which>::skip(std::size_t moved) noexcept {
    while (!buffers_.empty() && offset_ + moved >= buffers_.front().size()) {
        moved -= buffers_.front().size() - offset_;
        offset_ = 0;
        buffers_ = buffers_.subspan(1);
    }
    WEFT_ASSERT(!buffers_.empty() || moved == 0);
    offset_ += moved;
}

template class buffer_operation<direction::read>;
template class buffer_operation<direction::write>;
template class vector_operation<direction::read>;
template class vector_operation<direction::write>;

}  // namespace weft::detail
