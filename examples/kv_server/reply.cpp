// SPDX-License-Identifier: MIT
#include "reply.hpp"

#include <array>
#include <charconv>

namespace kv {

namespace {

constexpr std::string_view line_end = "\r\n";

/// A connection that waits keeps no more than this for its next replies.
constexpr std::size_t kept_text = std::size_t{16} << 10;

}  // namespace

void reply::status(std::string_view text) {
    text_ += '+';
    text_ += text;
    text_ += line_end;
}

void reply::error(std::string_view message) {
    text_ += '-';
    for (const char byte : message) text_ += byte == '\r' || byte == '\n' ? ' ' : byte;
    text_ += line_end;
}

void reply::integer(std::int64_t number) {
    number_line(':', number);
}

void reply::null() {
    text_ += "$-1\r\n";
}

void reply::bulk(std::string_view bytes) {
    append_bulk(bytes, nullptr);
}

void reply::bulk(const value& bytes) {
    append_bulk(*bytes, &bytes);
}

void reply::array(std::size_t count) {
    number_line('*', static_cast<std::int64_t>(count));
}

void reply::gather(std::vector<std::string_view>& pieces) const {
    const std::string_view text = text_;
    std::size_t begin = 0;
    for (const attachment& part : attachments_) {
        pieces.push_back(text.substr(begin, part.position - begin));
        pieces.push_back(part.bytes);
        begin = part.position;
    }
    if (begin < text.size()) pieces.push_back(text.substr(begin));
}

void reply::clear() {
    if (text_.capacity() > kept_text) text_ = std::string();
    text_.clear();
    attachments_.clear();
    long_size_ = 0;
}

void reply::number_line(char type, std::int64_t number) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text_ += type;
    text_.append(digits.data(), end);
    text_ += line_end;
}

void reply::append_bulk(std::string_view bytes, const value* owner) {
    number_line('$', static_cast<std::int64_t>(bytes.size()));
    if (bytes.size() < long_bulk) {
        text_ += bytes;
    } else {
        attachments_.push_back({text_.size(), bytes, owner == nullptr ? value() : *owner});
        long_size_ += bytes.size();
    }
    text_ += line_end;
}

}  // namespace kv
