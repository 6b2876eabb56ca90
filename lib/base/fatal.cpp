// SPDX-License-Identifier: MIT
#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace weft::detail {

namespace {

/// A line that is put together without allocation, since it may be about a lack of memory, and
/// written with one call, so that lines of several threads do not mix. What does not fit is cut.
class line {
public:
    void append(std::string_view text) noexcept {
        const std::size_t space = text_.size() - 1 - size_;
        const std::size_t count = std::min(space, text.size());
        std::memcpy(text_.data() + size_, text.data(), count);
        size_ += count;
    }

    void append(unsigned number) noexcept {
        std::array<char, 16> digits;
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
        append(std::string_view(digits.data(), end));
    }

    void write() noexcept {
        text_[size_++] = '\n';
        // The process ends here; there is nobody left to whom a failed write could be told.
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
    }

private:
    std::array<char, 2048> text_;
    std::size_t size_ = 0;
};

}  // namespace

void fatal(std::string_view message) noexcept {
    line text;
    text.append("weft: fatal: ");
    text.append(message);
    text.write();
    std::abort();
}

void assertion_failed(const char* condition, std::source_location where) noexcept {
    line text;
    text.append("weft: assertion failed: ");
    text.append(condition);
    text.append(" in ");
    text.append(where.function_name());
    text.append(" at ");
    text.append(where.file_name());
    text.append(":");
    text.append(static_cast<unsigned>(where.line()));
    text.append("; this is a fault in weft or memory was overwritten: please report it");
    text.write();
    std::abort();
}

}  // namespace weft::detail
