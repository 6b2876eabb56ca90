// SPDX-License-Identifier: MIT
#pragma once

#include "argument_list.hpp"
#include "memory_budget.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kv {

/// What a client may ask a server to hold, in bytes unless said otherwise. Each limit is checked
/// when a number is announced or a line grows, before anybody takes memory for it.
struct parser_limits {
    std::size_t line = std::size_t{64} << 10;     ///< an inline request, or the line of a length
    std::size_t bulk = std::size_t{16} << 20;     ///< one argument
    std::size_t elements = std::size_t{1} << 20;  ///< arguments of one request, a count
    std::size_t request = std::size_t{64} << 20;  ///< one request, below 4 GiB
};

enum class parse_status {
    complete,    ///< arguments() and consumed() describe one request
    incomplete,  ///< more bytes are needed
    malformed,   ///< error() says why; nothing that follows can be understood
};

/// Finds requests in the bytes of one connection: RESP2 arrays of bulk strings, and inline requests
/// (any line that does not begin with '*').
///
/// It copies no argument and owns no bytes: the arguments are views into the caller's buffer. It
/// remembers how far it has come, so a request that arrives in n pieces costs O(bytes + n); where
/// the pieces are cut never changes the result. A request may have no arguments ("*0", an empty
/// line): that is complete, and to be ignored.
///
/// The one deviation from Redis: what follows a bulk must be CR LF, and a length line must end
/// with CR LF. Redis skips two bytes there whatever they are, and goes on out of step.
class resp_parser {
public:
    /// The memory for the list of arguments is taken from `budget`, if there is one, which must
    /// outlive the parser.
    explicit resp_parser(parser_limits limits = {}, memory_budget* budget = nullptr)
        : limits_(limits), slices_(budget_allocator<slice>(budget)) {}

    /// Goes on with the current request, or begins the next one if the last call returned complete.
    ///
    /// `buffer` begins with the first byte of the request and holds all bytes of it that have
    /// arrived so far; more may follow. Between two calls it may have moved, but the bytes seen
    /// earlier must be unchanged. It is written to only where an inline request has quotes. After
    /// malformed every further call returns malformed. Throws std::bad_alloc where the system or
    /// the budget has no memory for the list of arguments; the parser is then of no more use.
    parse_status parse(std::span<char> buffer);

    /// The arguments of a complete request: views into the buffer of that call, valid as long as
    /// that buffer stays where it is and until the next call.
    argument_list arguments() const noexcept { return {request_, slices_}; }

    /// The size of a complete request; the next one begins that many bytes later.
    std::size_t consumed() const noexcept { return position_; }

    /// Of an incomplete request: the size that it has at least, as far as it has announced one.
    std::size_t least_size() const noexcept;

    /// What is wrong with a malformed request, in the words of Redis: "Protocol error: ...".
    const std::string& error() const noexcept { return error_; }

private:
    enum class state { start, inline_line, element_count, bulk_length, bulk, complete, malformed };

    void restart();
    state read_first_byte(std::span<char> buffer);
    state read_inline_line(std::span<char> buffer);
    state read_element_count(std::span<char> buffer);
    state read_bulk_length(std::span<char> buffer);
    state read_bulk(std::span<char> buffer);

    enum class line_status { found, missing, too_long };
    line_status find_line(std::span<char> buffer, std::string_view& line);
    state fail(std::string_view what);

    parser_limits limits_;
    state state_ = state::start;
    std::size_t position_ = 0;  ///< where the part of the request begins that is not understood yet
    std::size_t scanned_ = 0;   ///< up to here no line end was found; at least position_
    std::size_t remaining_ = 0;  ///< elements that are still to come
    std::size_t bulk_size_ = 0;  ///< of the bulk at position_
    slice_list slices_;
    const char* request_ = nullptr;  ///< the buffer of the last call
    std::string error_;
};

}  // namespace kv
