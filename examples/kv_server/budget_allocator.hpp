// SPDX-License-Identifier: MIT
#pragma once

#include "memory_budget.hpp"

#include <cstddef>
#include <memory>
#include <new>

namespace kv {

/// An allocator for containers of a connection: it takes from the budget what it allocates, and
/// throws std::bad_alloc where the budget does not allow it. Without a budget nothing is counted.
template <class T>
class budget_allocator {
public:
    using value_type = T;

    /// The budget must outlive the container.
    explicit budget_allocator(memory_budget* budget = nullptr) noexcept : budget_(budget) {}
    template <class Other>
    budget_allocator(const budget_allocator<Other>& other) noexcept : budget_(other.budget()) {}

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        if (budget_ != nullptr && !budget_->try_take(bytes)) throw std::bad_alloc();
        try {
            return std::allocator<T>().allocate(count);
        } catch (...) {
            if (budget_ != nullptr) budget_->give_back(bytes);
            throw;
        }
    }

    void deallocate(T* memory, std::size_t count) noexcept {
        std::allocator<T>().deallocate(memory, count);
        if (budget_ != nullptr) budget_->give_back(count * sizeof(T));
    }

    memory_budget* budget() const noexcept { return budget_; }
    bool operator==(const budget_allocator&) const = default;

private:
    memory_budget* budget_;
};

}  // namespace kv
