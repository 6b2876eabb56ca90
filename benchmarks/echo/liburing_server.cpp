// SPDX-License-Identifier: MIT
//
// The echo server that an expert writes by hand over liburing: one thread, one ring, one
// multishot receive for each connection, which takes its buffers from a ring of buffers that the
// kernel shares. An answer goes out of the buffer that the request came in.
//
// The fastest of the ways to do it was kept. CPU time for each echo as a multiple of what the
// epoll server takes in the same run; Linux 6.18, two cores of an EPYC, a busy machine, median of
// three rounds of 20 to 30 slices:
//
//                                                         1     32    256 connections
//     multishot poll, then recv and send               0.99   1.00   1.00
//     one-shot recv by the ring, send directly         1.02   0.98   1.04
//     multishot recv, send directly                    0.99   0.97   0.95 to 0.99
//     multishot recv, send by the ring                 1.02   0.97   0.85 to 0.93
//     multishot recv, send by the ring unless at       0.99   0.96   0.85 to 0.92
//       most four connections are ready (this file)
//
// Without effect beyond the noise: registered descriptors, other sizes of the ring of buffers.
#include "support.hpp"

#include <liburing.h>

#include <cstddef>
#include <vector>

namespace {

/// Up to so many connections ready in one turn are answered directly: the latency of a turn is
/// then worth more than the system calls that a batch saves.
constexpr unsigned few = 4;

/// When so many bytes wait for a peer that does not read its answers, nothing more is received
/// from it until they are sent.
constexpr std::size_t pending_limit = 1 << 16;

/// Buffers that the kernel fills for receives, named by their index.
class buffer_ring {
public:
    static constexpr unsigned count = 1024;
    static constexpr unsigned size = 2048;
    static constexpr int group = 0;

    explicit buffer_ring(io_uring& ring) {
        constexpr std::size_t page = 4096;
        const std::size_t ring_size = count * sizeof(io_uring_buf);
        ring_ = static_cast<io_uring_buf_ring*>(std::aligned_alloc(page, ring_size));
        memory_ = static_cast<char*>(std::aligned_alloc(page, std::size_t{count} * size));
        if (ring_ == nullptr || memory_ == nullptr) echo::die("aligned_alloc");
        io_uring_buf_reg registration{};
        registration.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
        registration.ring_entries = count;
        registration.bgid = group;
        if (const int result = io_uring_register_buf_ring(&ring, &registration, 0); result != 0) {
            errno = -result;
            echo::die("io_uring_register_buf_ring (needs Linux 5.19)");
        }
        io_uring_buf_ring_init(ring_);
        for (unsigned i = 0; i < count; ++i) give_back(static_cast<unsigned short>(i));
    }

    char* at(unsigned short index) const { return memory_ + std::size_t{index} * size; }

    void give_back(unsigned short index) {
        io_uring_buf_ring_add(ring_, at(index), size, index, io_uring_buf_ring_mask(count), 0);
        io_uring_buf_ring_advance(ring_, 1);
    }

private:
    io_uring_buf_ring* ring_;
    char* memory_;
};

/// At most one send is under way for a connection, so that its bytes keep their order. While one
/// is, what arrives is kept in `pending` and sent by the next. The connection is freed when
/// neither a receive nor a send is under way.
struct connection {
    int fd = -1;
    bool receiving = false;
    bool sending = false;
    bool ended = false;   // Nothing more comes.
    bool broken = false;  // A send failed: nothing is sent any more.
    bool paused = false;  // Too much is pending: the receive is being cancelled, or has been.
    const char* send_from = nullptr;
    unsigned send_size = 0;
    int send_buffer = -1;         // The buffer that send_from lies in, -1 if in in_flight.
    std::vector<char> in_flight;  // What the send under way takes its bytes from.
    std::vector<char> pending;    // What comes after it.
};

// The lowest bit of the user data tells a send from a receive. Without a connection, zero is the
// accept, and the bit alone a cancel, whose result tells nothing.
constexpr std::uint64_t send_bit = 1;

class server {
public:
    explicit server(int listener) : listener_(listener), ring_(make_ring()), buffers_(ring_) {
        accept();
    }

    [[noreturn]] void run() {
        for (;;) {
            const int result = io_uring_submit_and_wait(&ring_, 1);
            // A signal, or a completion queue that must be emptied first: go on and empty it.
            if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) {
                errno = -result;
                echo::die("io_uring_submit_and_wait");
            }
            turn();
        }
    }

private:
    static io_uring make_ring() {
        io_uring ring;
        io_uring_params parameters{};
        parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                           IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                           IORING_SETUP_CQSIZE;
        parameters.cq_entries = 4096;
        if (const int result = io_uring_queue_init_params(512, &ring, &parameters); result != 0) {
            errno = -result;
            echo::die("io_uring_queue_init_params (needs Linux 6.1 and permission)");
        }
        io_uring_register_ring_fd(&ring);  // Saves some work in each call; not having it is fine.
        return ring;
    }

    io_uring_sqe* next_entry() {
        for (;;) {
            if (io_uring_sqe* entry = io_uring_get_sqe(&ring_)) return entry;
            if (const int result = io_uring_submit(&ring_); result < 0 && result != -EINTR) {
                errno = -result;
                echo::die("io_uring_submit");
            }
        }
    }

    void accept() {
        io_uring_sqe* entry = next_entry();
        io_uring_prep_multishot_accept(entry, listener_, nullptr, nullptr, SOCK_CLOEXEC);
        io_uring_sqe_set_data64(entry, 0);
    }

    void receive(connection& peer) {
        io_uring_sqe* entry = next_entry();
        io_uring_prep_recv_multishot(entry, peer.fd, nullptr, 0, 0);
        entry->flags |= IOSQE_BUFFER_SELECT;
        entry->buf_group = buffer_ring::group;
        io_uring_sqe_set_data(entry, &peer);
        peer.receiving = true;
    }

    void send_by_ring(connection& peer) {
        io_uring_sqe* entry = next_entry();
        io_uring_prep_send(entry, peer.fd, peer.send_from, peer.send_size, MSG_NOSIGNAL);
        io_uring_sqe_set_data64(entry, reinterpret_cast<std::uintptr_t>(&peer) | send_bit);
        peer.sending = true;
    }

    /// Ends a receive. It completes with ECANCELED, or with what ended it before.
    void pause(connection& peer) {
        io_uring_sqe* entry = next_entry();
        io_uring_prep_cancel64(entry, reinterpret_cast<std::uintptr_t>(&peer), 0);
        io_uring_sqe_set_data64(entry, send_bit);
        peer.paused = true;
    }

    /// Handles all completions that are there.
    void turn() {
        const bool directly = io_uring_cq_ready(&ring_) <= few;
        unsigned head = 0;
        unsigned count = 0;
        io_uring_cqe* completion = nullptr;
        io_uring_for_each_cqe(&ring_, head, completion) {
            ++count;
            const std::uint64_t data = completion->user_data;
            auto* peer = reinterpret_cast<connection*>(data & ~send_bit);
            if (data == 0)
                accepted(completion->res, completion->flags);
            else if (peer == nullptr)
                continue;
            else if (data & send_bit)
                sent(*peer, completion->res);
            else
                received(*peer, completion->res, completion->flags, directly);
        }
        io_uring_cq_advance(&ring_, count);
        // Their receives ended for want of a buffer; by now others gave theirs back.
        for (connection* peer : starved_) receive(*peer);
        starved_.clear();
    }

    void accepted(int result, unsigned flags) {
        if (!(flags & IORING_CQE_F_MORE)) accept();
        if (result >= 0) {
            echo::set_nodelay(result);
            auto* peer = new connection;
            peer->fd = result;
            receive(*peer);
            return;
        }
        if (result == -ECONNABORTED || result == -EPROTO || result == -EPERM) return;
        errno = -result;  // EMFILE and the like: fewer connections would be another case.
        echo::die("accept");
    }

    void received(connection& peer, int result, unsigned flags, bool directly) {
        if (result == -ENOBUFS) {
            starved_.push_back(&peer);  // Still counts as receiving: it is armed again.
            return;
        }
        if (!(flags & IORING_CQE_F_MORE)) peer.receiving = false;
        if (result > 0) {
            const auto buffer = static_cast<unsigned short>(flags >> IORING_CQE_BUFFER_SHIFT);
            answer(peer, buffer, static_cast<unsigned>(result), directly);
        } else if (result != -ECANCELED) {
            peer.ended = true;  // The end of the stream, or an error, which ends no other one.
        }
        go_on(peer);
    }

    void answer(connection& peer, unsigned short buffer, unsigned size, bool directly) {
        const char* data = buffers_.at(buffer);
        if (peer.sending || peer.broken) {
            if (!peer.broken) peer.pending.insert(peer.pending.end(), data, data + size);
            buffers_.give_back(buffer);
            if (peer.pending.size() > pending_limit && !peer.paused) pause(peer);
            return;
        }
        if (directly) {
            const ssize_t count = send(peer.fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (count == static_cast<ssize_t>(size)) {
                buffers_.give_back(buffer);
                return;
            }
            // Full or interrupted: the ring sends the rest when there is room. An error shows
            // again there.
            if (count > 0) {
                data += count;
                size -= static_cast<unsigned>(count);
            }
        }
        peer.send_from = data;
        peer.send_size = size;
        peer.send_buffer = buffer;
        send_by_ring(peer);
    }

    void sent(connection& peer, int result) {
        peer.sending = false;
        if (result < 0 && result != -EINTR) fail(peer);
        if (result > 0) {
            peer.send_from += result;
            peer.send_size -= static_cast<unsigned>(result);
        }
        if (peer.send_size > 0 && !peer.broken) return send_by_ring(peer);
        if (peer.send_buffer >= 0)
            buffers_.give_back(static_cast<unsigned short>(peer.send_buffer));
        peer.send_buffer = -1;
        if (!peer.pending.empty() && !peer.broken) {
            peer.in_flight.swap(peer.pending);
            peer.pending.clear();
            peer.send_from = peer.in_flight.data();
            peer.send_size = static_cast<unsigned>(peer.in_flight.size());
            return send_by_ring(peer);
        }
        go_on(peer);
    }

    /// Gives the connection up. The shutdown ends its receive, whose completion frees it.
    void fail(connection& peer) {
        peer.broken = true;
        peer.pending.clear();
        shutdown(peer.fd, SHUT_RDWR);
    }

    /// What comes next where a receive or a send has ended: one more receive, or the end.
    void go_on(connection& peer) {
        if (peer.receiving || (peer.paused && peer.sending)) return;
        if (!peer.ended && !peer.broken) {
            peer.paused = false;
            receive(peer);
        } else if (!peer.sending) {
            close(peer.fd);
            delete &peer;
        }
    }

    int listener_;
    io_uring ring_;
    buffer_ring buffers_;
    std::vector<connection*> starved_;
};

}  // namespace

int main(int argc, char** argv) {
    const int listener = echo::listen_and_announce(
        static_cast<std::uint16_t>(echo::number_option(argc, argv, "--port", 0)));
    static server server(listener);
    server.run();
}
