// SPDX-License-Identifier: MIT
//
// TCP. What holds for every operation here that is awaited:
//
//   * It is tried at once and suspends only if it would block. It resumes on the worker that
//     learned that the socket is ready. After many operations in a row that did not block, the task
//     goes behind the others of its worker, so an endless supply of data starves nobody. A write of
//     16 KiB or less on a busy worker may be made together with those of other tasks, which run
//     first then: at most 32 of them, and 10 ms where one of them does not come back. A read after
//     one that got less than it asked for may wait at once, since the socket is empty then. Where
//     it is not, because the read before stopped at an urgent byte, that is found out some
//     milliseconds later, or when the task that keeps the worker ends.
//   * Buffers belong to the caller and must stay as they are until the operation has ended. The
//     kernel never keeps them: when a cancelled operation has thrown, they are free.
//   * Errors are thrown as std::system_error with the errno of the system call in
//     std::system_category. Operations that move a whole buffer throw weft::io_error, which is one
//     too and tells how much had been moved.
//   * When the task's scope is stopped, the operation throws std::errc::operation_canceled, or
//     std::errc::timed_out if it was a deadline. Nothing is lost by that: what had arrived is read
//     by the next operation. Data that was moved before the stop is returned, not thrown away.
//   * When another task closes or destroys the object, it throws weft::errc::closed. An operation
//     that has begun does not use the object any more.
//   * In the child of a fork that a runtime was alive in, an object of the parent only gives its
//     copy of the file descriptor back when it goes; the connection stays the parent's. To wait for
//     it ends the process with a message.
//   * One task may read while another one writes. Several tasks may do the same at a time; they get
//     their turn in the order in which they came, each for its whole operation. Up to eight million
//     of them wait for it; one more fails with std::errc::device_or_resource_busy.
//
// No signal is ever raised (SIGPIPE): writing to a connection that the peer has closed fails with
// std::errc::broken_pipe or connection_reset.
#pragma once

#include <weft/detail/net/connection_operations.hpp>
#include <weft/detail/net/descriptor_handle.hpp>
#include <weft/detail/net/readiness.hpp>
#include <weft/detail/net/stream_operations.hpp>
#include <weft/net/address.hpp>
#include <weft/net/buffer.hpp>
#include <weft/net/tcp_options.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

namespace weft::net {

class tcp_stream;

/// What `co_await tcp_stream::connect(...)` and `co_await listener.accept()` wait on.
class [[nodiscard]] connect_awaiter final : public detail::awaiter<detail::connect_operation> {
public:
    using awaiter::awaiter;
    tcp_stream await_resume();
};
class [[nodiscard]] accept_awaiter final : public detail::awaiter<detail::accept_operation> {
public:
    using awaiter::awaiter;
    tcp_stream await_resume();
};
/// What `co_await object.close()` and `co_await object.release()` wait on.
class [[nodiscard]] close_awaiter final : public detail::awaiter<detail::close_operation> {
public:
    using awaiter::awaiter;
    void await_resume();
};
class [[nodiscard]] release_awaiter final : public detail::awaiter<detail::close_operation> {
public:
    using awaiter::awaiter;
    int await_resume();
};

/// A connection. Move-only. Its destructor closes it without waiting for the end of that.
class tcp_stream {
public:
    /// Not connected: every operation throws weft::errc::closed.
    tcp_stream() noexcept = default;

    /// Connects to an endpoint: gives the stream, or throws what the system says, for example
    /// connection_refused or network_unreachable. A system that gets no answer gives up after about
    /// two minutes; with_timeout ends it earlier. When it is stopped, the attempt is given up.
    static connect_awaiter connect(const endpoint& to, const connect_options& options = {}) {
        return {to, options};
    }

    /// Takes over a connected stream socket, which is made non-blocking and closed with the stream.
    /// It is never shut down, since others may share the connection; so while a task waits for it
    /// the peer may see the end a moment later. Throws std::system_error (not_a_socket for a pipe
    /// or a file, wrong_protocol_type for a datagram socket, invalid_argument for one that listens,
    /// or that has a time for SO_LINGER, by which a close would stop its thread), and then the
    /// caller still owns it, as it was.
    static tcp_stream adopt(int fd);

    /// Reads what there is, at most the size of the buffer, and at least one byte. Gives the count;
    /// 0 means the end of the stream (or an empty buffer, for which nothing is done).
    detail::read_awaiter read_some(mutable_buffer buffer) {
        return {handle_.name(), buffer, detail::transfer_extent::some};
    }
    /// The same into several buffers, one after the other. The span of buffers belongs to the
    /// caller as the buffers do.
    detail::vector_read_awaiter read_some(std::span<const mutable_buffer> buffers) {
        return {handle_.name(), buffers, detail::transfer_extent::some};
    }
    /// Reads until the buffer is full. Throws io_error: weft::errc::unexpected_eof if the stream
    /// ends before; transferred() bytes at the front of the buffer are valid then. Gives the count.
    detail::read_awaiter read_exact(mutable_buffer buffer) {
        return {handle_.name(), buffer, detail::transfer_extent::all};
    }
    detail::vector_read_awaiter read_exact(std::span<const mutable_buffer> buffers) {
        return {handle_.name(), buffers, detail::transfer_extent::all};
    }

    /// Writes what the system takes, at least one byte. Gives the count. That the peer has got it
    /// is not said.
    detail::write_awaiter write_some(const_buffer buffer) {
        return {handle_.name(), buffer, detail::transfer_extent::some};
    }
    detail::vector_write_awaiter write_some(std::span<const const_buffer> buffers) {
        return {handle_.name(), buffers, detail::transfer_extent::some};
    }
    /// Writes everything. Throws io_error; the first transferred() bytes were handed to the system.
    /// Gives the count.
    detail::write_awaiter write_all(const_buffer buffer) {
        return {handle_.name(), buffer, detail::transfer_extent::all};
    }
    detail::vector_write_awaiter write_all(std::span<const const_buffer> buffers) {
        return {handle_.name(), buffers, detail::transfer_extent::all};
    }

    /// `co_await readable()` waits until read_some() would not block: something has arrived, or the
    /// stream has ended or failed. It takes nothing. Throws weft::errc::closed.
    ///
    /// It is a case of a select (weft/select.hpp) as well, and then made also if the stream is
    /// closed, or if the system refuses to watch it (no memory). It gives nothing; the read that
    /// follows tells what there is, and does not wait unless another task reads, what had arrived
    /// is taken back (a reset, for one), or that was the reason.
    detail::readiness_awaiter readable() { return {handle_.name(), detail::direction::read}; }
    /// The same for write_some().
    detail::readiness_awaiter writable() { return {handle_.name(), detail::direction::write}; }

    /// Ends the outgoing direction: the peer reads what was written and then the end. Does not
    /// wait. Reading goes on.
    void shutdown_write();

    /// Closes the connection: tasks that wait for it get weft::errc::closed, and the await ends
    /// when the file descriptor is free again. It is begun also in a stopped scope; then the await
    /// may throw without waiting. Closing what is closed does nothing.
    close_awaiter close() { return {handle_.name(), detail::close_operation::purpose::close}; }
    /// Gives the file descriptor, which is non-blocking, to the caller; the stream is closed then,
    /// the connection is not. If the await is stopped before, the stream stays as it is; if it is
    /// stopped while it waits for the kernel, the connection is closed. Throws weft::errc::closed.
    release_awaiter release() {
        return {handle_.name(), detail::close_operation::purpose::give_back};
    }
    bool is_open() const noexcept { return handle_.is_open(); }

    endpoint local_endpoint() const;
    endpoint remote_endpoint() const;

    // Options as in tcp_options.hpp. They throw std::system_error.

    void set_nodelay(bool on);
    bool nodelay() const;
    /// Without options: peers are not checked.
    void set_keep_alive(const std::optional<keep_alive_options>& options);
    std::optional<keep_alive_options> keep_alive() const;
    void set_receive_buffer_size(int bytes);
    int receive_buffer_size() const;
    void set_send_buffer_size(int bytes);
    int send_buffer_size() const;
    /// With a duration of 0 a close drops what was not sent and resets the connection; a longer one
    /// makes the close block its thread and is refused with std::errc::invalid_argument. Without a
    /// duration the system goes on sending after a close, as it does by default.
    void set_linger(std::optional<std::chrono::seconds> duration);

private:
    friend class accept_awaiter;
    friend class connect_awaiter;
    explicit tcp_stream(detail::descriptor_handle&& handle) noexcept : handle_(std::move(handle)) {}

    detail::descriptor_handle handle_;
};

/// A socket that connections come in on. Move-only. Its destructor closes it without waiting.
class tcp_listener {
public:
    /// Not listening: every operation throws weft::errc::closed.
    tcp_listener() noexcept = default;

    /// Binds to an endpoint and listens; does not suspend. Port 0 lets the system choose, see
    /// local_endpoint(). Throws std::system_error; what() has the endpoint.
    static tcp_listener bind(const endpoint& local, const listen_options& options = {});

    /// Takes over a listening stream socket, as tcp_stream::adopt does.
    static tcp_listener adopt(int fd);

    /// Waits for a connection. One that has failed before it could be taken is skipped. When this
    /// process or the system has no descriptors or no memory left, it throws too_many_files_open,
    /// too_many_files_open_in_system, no_buffer_space or not_enough_memory; the connection stays in
    /// the queue, so wait a little (sleep_for) before you accept again.
    accept_awaiter accept() { return accept_awaiter(handle_.name()); }

    /// As tcp_stream::readable: waits until accept() would not, also as a case of a select.
    detail::readiness_awaiter readable() { return {handle_.name(), detail::direction::read}; }

    /// As tcp_stream::close.
    close_awaiter close() { return {handle_.name(), detail::close_operation::purpose::close}; }
    release_awaiter release() {
        return {handle_.name(), detail::close_operation::purpose::give_back};
    }
    bool is_open() const noexcept { return handle_.is_open(); }

    endpoint local_endpoint() const;

private:
    explicit tcp_listener(detail::descriptor_handle&& handle) noexcept
        : handle_(std::move(handle)) {}

    detail::descriptor_handle handle_;
};

inline tcp_stream connect_awaiter::await_resume() {
    return tcp_stream(finish_connect());
}
inline tcp_stream accept_awaiter::await_resume() {
    return tcp_stream(finish_accept());
}

}  // namespace weft::net
