// SPDX-License-Identifier: MIT
#pragma once

#include "commands.hpp"
#include "information.hpp"
#include "input_buffer.hpp"
#include "reply.hpp"
#include "resp_parser.hpp"
#include "store.hpp"

#include <cstddef>
#include <span>

namespace kv {

/// One client's conversation without its socket: bytes go in, replies come out. Whoever owns the
/// socket repeats
///
///     read into room(); received(n); do execute(now), send replies() while requests_remain();
///
/// and ends the connection when closing() is true and all replies are sent. Both buffers are
/// bounded: as long as replies are not sent nothing is executed, and as long as nothing is executed
/// nothing is read, so a client that does not read its replies is not read from.
class session {
public:
    /// Replies of at least so many bytes are sent before the next request is executed, and so many
    /// requests are executed at most before the task gives others a turn.
    static constexpr std::size_t reply_limit = std::size_t{64} << 10;
    static constexpr std::size_t batch_limit = 1024;

    session(store& data, server_information& server, const parser_limits& limits)
        : data_(data), server_(server), input_(server.input_memory), parser_(limits) {}

    /// Where the next bytes are to be read to. Empty if the server has no memory for them: then an
    /// error is among the replies and the connection is closing. Views into replies become invalid,
    /// so all of them must have been sent.
    std::span<char> room();

    /// Tells that `bytes` were read to the beginning of room().
    void received(std::size_t bytes);

    /// Executes what has arrived whole, in order, until nothing is left or a limit is reached.
    void execute(time_point now);

    bool requests_remain() const noexcept { return requests_remain_; }
    bool closing() const noexcept { return closing_; }

    /// To be sent, then cleared.
    reply& replies() noexcept { return replies_; }

private:
    void execute_request(time_point now);

    store& data_;
    server_information& server_;
    input_buffer input_;
    resp_parser parser_;
    reply replies_;
    bool requests_remain_ = false;
    bool closing_ = false;
};

}  // namespace kv
