// SPDX-License-Identifier: MIT
#pragma once

#include "budget_allocator.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

namespace kv {

/// Where an argument lies in its request: positions instead of pointers, since the buffer may move
/// while a request arrives. 32 bits, because this is what a client's many empty arguments cost the
/// server: 8 bytes for each, against the 6 that the client has to send.
struct slice {
    std::uint32_t offset;
    std::uint32_t length;
};

/// The arguments of a request while it arrives. They count like the bytes that they lie in.
using slice_list = std::vector<slice, budget_allocator<slice>>;

/// The arguments of one request as views into the buffer that it lies in; the first is the name of
/// the command. Valid as long as the buffer stays and the parser has not begun the next request.
class argument_list {
public:
    argument_list(const char* request, std::span<const slice> slices)
        : request_(request), slices_(slices) {}

    std::size_t size() const noexcept { return slices_.size(); }
    bool empty() const noexcept { return slices_.empty(); }

    std::string_view operator[](std::size_t index) const {
        return {request_ + slices_[index].offset, slices_[index].length};
    }

    /// The same without the first `count` arguments; there must be that many.
    argument_list without_first(std::size_t count) const {
        return {request_, slices_.subspan(count)};
    }

    class iterator {
    public:
        using value_type = std::string_view;
        using difference_type = std::ptrdiff_t;

        iterator() = default;
        iterator(const char* request, const slice* at) : request_(request), at_(at) {}
        std::string_view operator*() const { return {request_ + at_->offset, at_->length}; }
        iterator& operator++() {
            ++at_;
            return *this;
        }
        iterator operator++(int) {
            const iterator before = *this;
            ++at_;
            return before;
        }
        bool operator==(const iterator& other) const { return at_ == other.at_; }

    private:
        const char* request_ = nullptr;
        const slice* at_ = nullptr;
    };

    iterator begin() const { return {request_, slices_.data()}; }
    iterator end() const { return {request_, slices_.data() + slices_.size()}; }

private:
    const char* request_;
    std::span<const slice> slices_;
};

static_assert(std::forward_iterator<argument_list::iterator>);

}  // namespace kv
