// SPDX-License-Identifier: MIT
#include "input_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace kv {

bool input_buffer::make_room(std::size_t least_size) {
    const std::size_t size = end_ - begin_;
    if (size == 0 && capacity_ > kept) return reallocate(smallest);
    // A read that filled the buffer to its end has probably left bytes in the socket. What is
    // left of an announced request is worth room at once as far as it costs nothing to speak of.
    const bool was_filled = end_ == capacity_;
    const std::size_t wanted = std::min(std::max(least_size, was_filled ? 2 * capacity_ : 0), kept);
    if (size < capacity_ && capacity_ >= wanted) {
        // Move the data only when it stands in the way, so that it is not moved for each read.
        if (begin_ != 0 && (size == 0 || was_filled)) {
            std::memmove(memory_.get(), memory_.get() + begin_, size);
            begin_ = 0;
            end_ = size;
        }
        return true;
    }
    return reallocate(std::max({wanted, smallest, size == capacity_ ? 2 * capacity_ : 0}));
}

bool input_buffer::reallocate(std::size_t capacity) {
    if (!budget_.try_take(capacity)) return false;
    std::unique_ptr<char[]> memory(new (std::nothrow) char[capacity]);
    if (memory == nullptr) {
        budget_.give_back(capacity);
        return false;
    }
    const std::span<char> old = data();
    std::ranges::copy(old, memory.get());
    end_ = old.size();
    begin_ = 0;
    memory_ = std::move(memory);
    budget_.give_back(std::exchange(capacity_, capacity));
    return true;
}

}  // namespace kv
