// SPDX-License-Identifier: MIT
//
// Ends things that end each other, such as frames that hold frames, without recursion beyond a
// bound.
//
// Whoever is asked to end one while `deepest` of them end inside each other on this thread keeps it
// instead. The outermost call, which has the stack to itself again, ends what was kept, one after
// the other. So everything has ended when that call returns.
#pragma once

namespace weft::detail {

/// One for each thread, as a constant-initialised thread-local. `Item` is pointer-like.
template <class Item>
class bounded_nesting {
public:
    /// `end_now(item)` ends one, in which this may be called again. `set_next(item, next)` and
    /// `next(item)` are for the link in those that are kept.
    template <class EndNow, class SetNext, class Next>
    void end(Item ended, EndNow&& end_now, SetNext&& set_next, Next&& next) noexcept {
        constexpr int deepest = 64;
        if (depth_ == deepest) {
            set_next(ended, kept_);
            kept_ = ended;
            return;
        }
        ++depth_;
        end_now(ended);
        while (depth_ == 1 && kept_ != nullptr) {
            const Item first = kept_;
            kept_ = next(first);
            end_now(first);
        }
        --depth_;
    }

private:
    int depth_ = 0;
    Item kept_{};
};

}  // namespace weft::detail
