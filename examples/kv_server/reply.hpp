// SPDX-License-Identifier: MIT
#pragma once

#include "store.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// The replies of one connection that were not sent yet, in the encoding of RESP2.
///
/// Small replies are written one after the other into one text. A long bulk is not copied: it is
/// remembered as a view (and, for a value of the store, a reference that keeps it alive), and the
/// pieces are put together when they are sent.
class reply {
public:
    /// A bulk of at least this many bytes is referred to instead of copied.
    static constexpr std::size_t long_bulk = std::size_t{16} << 10;

    /// "+OK". `text` holds no line end.
    void status(std::string_view text);

    /// "-ERR ...": `message` begins with the code. It may quote what a client sent, so line ends in
    /// it are shown as spaces.
    void error(std::string_view message);

    void integer(std::int64_t number);
    void null();

    /// An argument of the request that is being answered, or a constant. If it is long it must stay
    /// where it is until the replies are sent.
    void bulk(std::string_view bytes);

    /// A value of the store, which must not be an empty pointer.
    void bulk(const value& bytes);

    /// The head of an array; `count` elements are to follow.
    void array(std::size_t count);

    /// Bytes that are to be sent.
    std::size_t size() const noexcept { return text_.size() + long_size_; }
    bool empty() const noexcept { return text_.empty(); }

    /// Whether text() is all that is to be sent, as nearly always.
    bool is_one_piece() const noexcept { return attachments_.empty(); }
    std::string_view text() const noexcept { return text_; }

    /// Appends the pieces, in the order in which they are to be sent, to `pieces`. They are valid
    /// until something is added or cleared.
    void gather(std::vector<std::string_view>& pieces) const;

    /// Forgets everything; what an unusually large batch of replies took is given back.
    void clear();

private:
    struct attachment {
        std::size_t position;  ///< in the text, where the bytes belong
        std::string_view bytes;
        value owner;
    };

    void number_line(char type, std::int64_t number);
    void append_bulk(std::string_view bytes, const value* owner);

    std::string text_;
    std::vector<attachment> attachments_;
    std::size_t long_size_ = 0;
};

}  // namespace kv
