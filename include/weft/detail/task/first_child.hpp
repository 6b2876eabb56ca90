// SPDX-License-Identifier: MIT
//
// Which of several children came first: to fail (when_all), to end in any way (when_any), or to
// give a value (race).
//
//     first    meaning                        changed by
//     null     nobody has come first yet      decide(): the first one for which the rule holds
//     child    that one came first            nobody
//
// A child that has ended decides before it leaves its scope. In the last two cases whoever comes
// first then stops that scope, which was opened for the children, and which is there since this
// child is in it. So one stop comes from inside at most, and none where nobody came first. A child
// that the stop has kept from starting has not come first by when_any's rule; by that of when_all
// it has failed.
//
// All changes are in the order of the modifications of one word. What the children did reaches the
// parent through the join, after which it reads who was first, and the children not at all; hence
// relaxed.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Which child is the first one, and what that means to the others.
enum class first_rule : std::uint8_t {
    failure,  ///< The first one that fails; the others go on.
    end,      ///< The first one that ends; the others are stopped.
    value,    ///< The first one that gives a value; the others are stopped.
};

/// Child has gave_value() and never_started().
template <class Layer, class Child>
class first_child {
public:
    explicit first_child(first_rule rule) noexcept : rule_(rule) {}

    /// A child that has ended, and is in its scope. True: the caller stops that.
    [[nodiscard]] bool decide(Child& ended) noexcept {
        if (!counts(ended)) { return false; }
        Child* nobody = nullptr;
        if (!first_.compare_exchange_strong(nobody, &ended, std::memory_order_relaxed,
                                            std::memory_order_relaxed)) {
            return false;
        }
        return rule_ != first_rule::failure;
    }

    /// The parent, when all have ended; null: nobody came first.
    Child* get() const noexcept { return first_.load(std::memory_order_relaxed); }

private:
    bool counts(const Child& ended) const noexcept {
        if (rule_ == first_rule::end) { return !ended.never_started(); }
        return ended.gave_value() == (rule_ == first_rule::value);
    }

    typename Layer::template atomic<Child*> first_{nullptr};
    const first_rule rule_;
};

}  // namespace weft::detail
