// SPDX-License-Identifier: MIT
#include "inline_request.hpp"

#include <string_view>

namespace kv {

namespace {

bool is_space(char byte) {
    return std::string_view(" \t\n\v\f\r").find(byte) != std::string_view::npos;
}

/// The value of a hexadecimal digit, or -1.
int hexadecimal_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

char escaped_byte(char letter) {
    switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return letter;
    }
}

/// Reads one line from left to right and writes the bytes of the arguments back into it. A quote
/// or an escape consumes more bytes than it yields, hence `write_` never passes `read_`.
class splitter {
public:
    explicit splitter(std::span<char> line) : line_(line) {}

    bool skip_space() {
        while (read_ < line_.size() && is_space(line_[read_])) ++read_;
        return read_ < line_.size();
    }

    /// Reads one argument, which begins at the current byte. False if quotes are unbalanced.
    bool read_argument(slice& argument) {
        write_ = read_;
        argument.offset = static_cast<std::uint32_t>(read_);
        while (read_ < line_.size() && !is_space(line_[read_])) {
            const char byte = line_[read_++];
            if (byte == '"' || byte == '\'') {
                if (!(byte == '"' ? read_double_quoted() : read_single_quoted())) return false;
                // Redis asks for white space after a closing quote, so the argument ends here.
                if (read_ < line_.size() && !is_space(line_[read_])) return false;
                break;
            }
            put(byte);
        }
        argument.length = static_cast<std::uint32_t>(write_) - argument.offset;
        return true;
    }

private:
    void put(char byte) { line_[write_++] = byte; }

    bool read_double_quoted() {
        while (read_ < line_.size()) {
            const char byte = line_[read_++];
            if (byte == '"') return true;
            if (byte == '\\' && read_ < line_.size()) {
                read_escape();
            } else {
                put(byte);
            }
        }
        return false;
    }

    /// Reads what follows a backslash; at least one byte does.
    void read_escape() {
        if (line_[read_] == 'x' && line_.size() - read_ >= 3) {
            const int high = hexadecimal_value(line_[read_ + 1]);
            const int low = hexadecimal_value(line_[read_ + 2]);
            if (high >= 0 && low >= 0) {
                put(static_cast<char>(high * 16 + low));
                read_ += 3;
                return;
            }
        }
        put(escaped_byte(line_[read_++]));
    }

    bool read_single_quoted() {
        while (read_ < line_.size()) {
            char byte = line_[read_++];
            if (byte == '\'') return true;
            if (byte == '\\' && read_ < line_.size() && line_[read_] == '\'') byte = line_[read_++];
            put(byte);
        }
        return false;
    }

    std::span<char> line_;
    std::size_t read_ = 0;
    std::size_t write_ = 0;
};

}  // namespace

bool split_inline_request(std::span<char> line, slice_list& arguments) {
    splitter rest(line);
    while (rest.skip_space()) {
        slice argument{};
        if (!rest.read_argument(argument)) return false;
        arguments.push_back(argument);
    }
    return true;
}

}  // namespace kv
