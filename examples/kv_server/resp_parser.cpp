// SPDX-License-Identifier: MIT

// A request is read in steps, one for each state. A step either understands the next part of the
// request and returns the state after it, or returns the state it was in: then bytes are missing,
// and it will be repeated. A repeated step costs no more than the bytes that are new, because
// `scanned_` remembers how far a line end was looked for and `bulk_size_` how long a bulk is.
//
//   start -> inline_line -> complete
//   start -> element_count -> bulk_length -> bulk -> bulk_length -> ... -> complete
//   any   -> malformed

#include "resp_parser.hpp"

#include "inline_request.hpp"
#include "integer.hpp"

#include <algorithm>
#include <cstring>

namespace kv {

namespace {

/// A list that a large request has made longer than this is given back after it.
constexpr std::size_t kept_elements = 1024;

constexpr std::size_t line_end_size = 2;

}  // namespace

parse_status resp_parser::parse(std::span<char> buffer) {
    if (state_ == state::complete) restart();
    request_ = buffer.data();
    for (;;) {
        const state before = state_;
        switch (state_) {
        case state::start: state_ = read_first_byte(buffer); break;
        case state::inline_line: state_ = read_inline_line(buffer); break;
        case state::element_count: state_ = read_element_count(buffer); break;
        case state::bulk_length: state_ = read_bulk_length(buffer); break;
        case state::bulk: state_ = read_bulk(buffer); break;
        case state::complete: return parse_status::complete;
        case state::malformed: return parse_status::malformed;
        }
        if (state_ == before) return parse_status::incomplete;
    }
}

std::size_t resp_parser::least_size() const noexcept {
    if (state_ == state::bulk) return position_ + bulk_size_ + line_end_size;
    return std::max(position_, scanned_) + 1;
}

void resp_parser::restart() {
    state_ = state::start;
    position_ = 0;
    scanned_ = 0;
    slices_.clear();
    if (slices_.capacity() > kept_elements) slices_.shrink_to_fit();
}

resp_parser::state resp_parser::read_first_byte(std::span<char> buffer) {
    if (buffer.empty()) return state::start;
    return buffer.front() == '*' ? state::element_count : state::inline_line;
}

resp_parser::state resp_parser::read_inline_line(std::span<char> buffer) {
    std::string_view line;
    switch (find_line(buffer, line)) {
    case line_status::missing: return state::inline_line;
    case line_status::too_long: return fail("too big inline request");
    case line_status::found: break;
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!split_inline_request(buffer.first(line.size()), slices_)) {
        return fail("unbalanced quotes in request");
    }
    return state::complete;
}

resp_parser::state resp_parser::read_element_count(std::span<char> buffer) {
    std::string_view line;
    switch (find_line(buffer, line)) {
    case line_status::missing: return state::element_count;
    case line_status::too_long: return fail("too big mbulk count string");
    case line_status::found: break;
    }
    if (!line.ends_with('\r')) return fail("invalid multibulk length");
    const auto count = parse_integer(line.substr(1, line.size() - 2));
    if (!count || *count > static_cast<std::int64_t>(limits_.elements)) {
        return fail("invalid multibulk length");
    }
    if (*count <= 0) return state::complete;
    // The count reserves nothing: the lists grow with the elements that really arrive.
    remaining_ = static_cast<std::size_t>(*count);
    return state::bulk_length;
}

resp_parser::state resp_parser::read_bulk_length(std::span<char> buffer) {
    if (position_ == buffer.size()) return state::bulk_length;
    if (const char first = buffer[position_]; first != '$') {
        // The error is one line, so a line end is shown as a space.
        const char shown = first == '\r' || first == '\n' ? ' ' : first;
        return fail("expected '$', got '" + std::string(1, shown) + "'");
    }
    std::string_view line;
    switch (find_line(buffer, line)) {
    case line_status::missing: return state::bulk_length;
    case line_status::too_long: return fail("too big bulk count string");
    case line_status::found: break;
    }
    if (!line.ends_with('\r')) return fail("invalid bulk length");
    const auto length = parse_integer(line.substr(1, line.size() - 2));
    if (!length || *length < 0 || *length > static_cast<std::int64_t>(limits_.bulk)) {
        return fail("invalid bulk length");
    }
    bulk_size_ = static_cast<std::size_t>(*length);
    if (position_ + bulk_size_ + line_end_size > limits_.request) {
        return fail("request is larger than the query buffer limit");
    }
    return state::bulk;
}

resp_parser::state resp_parser::read_bulk(std::span<char> buffer) {
    if (buffer.size() - position_ < bulk_size_ + line_end_size) return state::bulk;
    const std::size_t end = position_ + bulk_size_;
    if (buffer[end] != '\r' || buffer[end + 1] != '\n') return fail("invalid bulk length");
    slices_.push_back(
        {static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(bulk_size_)});
    position_ = end + line_end_size;
    scanned_ = position_;
    return --remaining_ == 0 ? state::complete : state::bulk_length;
}

/// Looks for a line feed. If it is there, `line` is the text before it, and position_ is set behind
/// it. A line may have limits_.line bytes, with its line end.
resp_parser::line_status resp_parser::find_line(std::span<char> buffer, std::string_view& line) {
    const std::size_t end = std::min(buffer.size(), position_ + limits_.line);
    const void* const found = std::memchr(buffer.data() + scanned_, '\n', end - scanned_);
    if (found == nullptr) {
        scanned_ = end;
        return end - position_ == limits_.line ? line_status::too_long : line_status::missing;
    }
    const auto feed = static_cast<std::size_t>(static_cast<const char*>(found) - buffer.data());
    line = std::string_view(buffer.data() + position_, feed - position_);
    position_ = feed + 1;
    scanned_ = position_;
    return line_status::found;
}

resp_parser::state resp_parser::fail(std::string_view what) {
    error_ = "Protocol error: ";
    error_ += what;
    return state::malformed;
}

}  // namespace kv
