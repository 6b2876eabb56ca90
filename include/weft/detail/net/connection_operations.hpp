// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/net/descriptor_handle.hpp>
#include <weft/detail/netpoll/close_operation.hpp>
#include <weft/detail/netpoll/io_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/net/tcp_options.hpp>

#include <cstdint>

namespace weft::detail {

/// Takes one connection from a listening socket.
class accept_operation : public io_operation {
public:
    explicit accept_operation(descriptor_name on) noexcept : io_operation(on, direction::read) {}

protected:
    accept_operation(const accept_operation& other) noexcept : io_operation(other) {}
    ~accept_operation() = default;

    /// For await_resume(): throws, or gives the connection.
    descriptor_handle finish_accept();

private:
    attempt_outcome attempt(int fd) noexcept final;

    descriptor_handle accepted_;
    unsigned failures_ = 0;
};

/// Makes a socket and connects it.
class connect_operation : public io_operation {
public:
    connect_operation(const net::endpoint& to, const net::connect_options& options) noexcept
        : io_operation(direction::write), to_(to), options_(options) {}

    bool start(branch& waiter) noexcept final;

protected:
    connect_operation(const connect_operation& other) noexcept
        : io_operation(other), to_(other.to_), options_(other.options_) {}
    ~connect_operation() = default;

    /// For await_resume(): throws, or gives the connection.
    descriptor_handle finish_connect();

private:
    attempt_outcome attempt(int fd) noexcept final;
    attempt_outcome look(int fd) noexcept;
    attempt_outcome connected(int fd) noexcept;
    bool make_socket() noexcept;

    net::endpoint to_;
    net::connect_options options_;
    descriptor_handle socket_;
    bool called_ = false;  ///< connect(2) was called.
};

}  // namespace weft::detail
