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
/// and ends the connection when closing() is true and all replies are sent. As long as replies are
/// not sent nothing is executed, and as long as nothing is executed nothing is read, so a client
/// that does not read its replies is not read from.
///
/// Both buffers are bounded. What arrives is bounded by the limits of the parser, and all of it,
/// with the list of arguments, is taken from the budget that the clients share. Replies take less
/// than `reply_limit` and one reply more, which is less than 256 KiB but for a value or an argument
/// that it refers to.
class session {
public:
    /// Replies of at least so many bytes are sent before the next request is executed, and after so
    /// many words of requests, their arguments and names, the task gives others a turn. A request
    /// that is no longer than `most_words` is executed in one turn.
    static constexpr std::size_t reply_limit = std::size_t{64} << 10;
    static constexpr std::size_t batch_limit = 2048;

    session(store& data, server_information& server, const parser_limits& limits)
        : data_(data),
          server_(server),
          input_(server.input_memory),
          parser_(limits, &server.input_memory) {}

    /// Where the next bytes are to be read to. Empty if the server has no memory for them: then an
    /// error is among the replies and the connection is closing. Views into replies become invalid,
    /// so all of them must have been sent.
    std::span<char> room();

    /// Tells that `bytes` were read to the beginning of room().
    void received(std::size_t bytes);

    /// Executes what has arrived whole, in order, until nothing is left or a limit is reached; a
    /// request over more keys than that is executed in part, and goes on with the next call.
    void execute(time_point now);

    bool requests_remain() const noexcept { return requests_remain_; }
    bool closing() const noexcept { return closing_; }

    /// To be sent, then cleared.
    reply& replies() noexcept { return replies_; }

private:
    parse_status parse();
    bool execute_request(time_point now, std::size_t& words_left);
    void close_without_memory();

    store& data_;
    server_information& server_;
    input_buffer input_;
    resp_parser parser_;
    reply replies_;
    command_progress progress_;  ///< of the request that the parser has found
    bool requests_remain_ = false;
    bool closing_ = false;
};

}  // namespace kv
