// SPDX-License-Identifier: MIT
//
// One echoed connection of a server that is told of readiness. The epoll server and the liburing
// server differ only in who tells them that a socket is ready; what they do then is this.
#pragma once

#include "support.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace echo {

/// Whether the connection goes on after a turn of `connection::serve`.
enum class verdict { go_on, finished };

/// States: `pending_` is empty (the usual one: what was read has been sent) or holds bytes that
/// the send buffer had no room for. While it holds some nothing is read, so that a peer that
/// never reads cannot make the server grow.
class connection {
public:
    explicit connection(int fd) : fd_(fd) {}
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() { close(fd_); }

    int fd() const { return fd_; }

    /// Call it when an edge of readiness was reported. It moves what can be moved. `ended` says
    /// that the report named a hang-up or an error: then it reads to the end of the stream,
    /// otherwise it trusts a short read to have emptied the socket, which saves the call that
    /// would answer EAGAIN. Bytes that arrive after the read bring an edge of their own.
    verdict serve(bool ended) {
        // The bytes are gone from the buffer when the call returns, hence one serves all.
        static std::array<std::byte, 16384> buffer;
        for (;;) {
            if (!pending_.empty() && !flush()) return verdict::finished;
            if (!pending_.empty()) return verdict::go_on;
            const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
            if (count > 0) {
                const auto size = static_cast<std::size_t>(count);
                if (!send_or_keep(buffer.data(), size)) return verdict::finished;
                if (size < buffer.size() && !ended && pending_.empty()) return verdict::go_on;
                continue;
            }
            if (count == 0) return verdict::finished;
            switch (errno) {
            case EAGAIN:  // Empty: the next edge comes with the next byte.
                return verdict::go_on;
            case EINTR:  // A signal came before any byte was moved.
                continue;
            case ECONNRESET:  // The peer was killed or gave up.
            case ETIMEDOUT:   // The peer's host is gone.
            default:          // Whatever else it is, it ends this connection and no other.
                return verdict::finished;
            }
        }
    }

private:
    /// Sends, and keeps what the socket does not take. False: the connection is dead.
    bool send_or_keep(const std::byte* data, std::size_t size) {
        const ssize_t count = send_some(data, size);
        if (count < 0) return false;
        pending_.insert(pending_.end(), data + count, data + size);
        return true;
    }

    /// Sends what is pending as far as the socket takes it. False: the connection is dead.
    bool flush() {
        const ssize_t count = send_some(pending_.data(), pending_.size());
        if (count < 0) return false;
        pending_.erase(pending_.begin(), pending_.begin() + count);
        return true;
    }

    /// Bytes that the socket took, down to none; -1 where the connection is dead.
    ssize_t send_some(const std::byte* data, std::size_t size) {
        for (;;) {
            const ssize_t count = send(fd_, data, size, MSG_NOSIGNAL);
            if (count >= 0) return count;
            switch (errno) {
            case EAGAIN:  // The send buffer is full; an edge tells when there is room.
                return 0;
            case EINTR: continue;
            case EPIPE:  // The peer reads no more.
            case ECONNRESET:
            case ETIMEDOUT:
            default: return -1;
            }
        }
    }

    int fd_;
    std::vector<std::byte> pending_;
};

}  // namespace echo
