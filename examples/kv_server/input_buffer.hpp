// SPDX-License-Identifier: MIT
#pragma once

#include "memory_budget.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace kv {

/// The bytes of one connection that have arrived and were not understood yet, in one piece.
///
///   [ free again | data: arrived, not consumed | room: for what arrives next ]
///
/// Consuming moves nothing, so views into consumed bytes stay valid; only make_room() moves data.
/// Memory grows with what has really arrived, by doubling, and never because a client has announced
/// something. A connection that waits for its next request holds `smallest` bytes.
class input_buffer {
public:
    static constexpr std::size_t smallest = 1024;
    static constexpr std::size_t kept = std::size_t{16} << 10;

    /// Memory is taken from `budget`, which must outlive the buffer.
    explicit input_buffer(memory_budget& budget) noexcept : budget_(budget) {}
    input_buffer(const input_buffer&) = delete;
    input_buffer& operator=(const input_buffer&) = delete;
    ~input_buffer() { budget_.give_back(capacity_); }

    std::span<char> data() noexcept { return {memory_.get() + begin_, end_ - begin_}; }
    void consume(std::size_t bytes) noexcept { begin_ += bytes; }

    /// Sees to it that there is room. All views into the buffer become invalid. `least_size` is how
    /// much data there will be at least before the buffer can be emptied. Returns false, and has
    /// changed nothing, if the budget or the system does not allow the memory.
    bool make_room(std::size_t least_size);

    /// Where the next bytes are to be written; not empty after make_room().
    std::span<char> room() noexcept { return {memory_.get() + end_, capacity_ - end_}; }

    /// Tells that `bytes` were written at the beginning of room().
    void commit(std::size_t bytes) noexcept { end_ += bytes; }

private:
    bool reallocate(std::size_t capacity);

    memory_budget& budget_;
    std::unique_ptr<char[]> memory_;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace kv
