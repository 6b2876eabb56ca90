// SPDX-License-Identifier: MIT
#pragma once

#include <weft/channel.hpp>
#include <weft/detail/sync/select_part.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/sleep.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace weft {

/// The case of a select that is made if none of the others can be made at once.
struct otherwise_case {};
inline constexpr otherwise_case otherwise;

namespace detail {

template <class Value>
class select_part<receive_awaiter<Value>> {
public:
    using value_type = std::optional<Value>;

    explicit select_part(const receive_awaiter<Value>& from) noexcept : on_(&from.target()) {}
    select_part(const select_part& other) noexcept : on_(other.on_) {}

    selected_case begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept {
        node_.begin_as_case(&value_, waiter, of, index);
        return {&on_->core, &node_, index, false};
    }
    void make(const selected& decided) noexcept { on_->get(decided.received, value_); }
    value_type take() { return std::move(value_); }

private:
    channel<Value>* on_;
    channel_waiter node_;
    std::optional<Value> value_;
};

template <class Value>
class select_part<send_awaiter<Value>> {
public:
    using value_type = std::monostate;

    explicit select_part(const send_awaiter<Value>& from) noexcept
        : on_(&from.target()), value_(&from.value()) {}
    select_part(const select_part& other) noexcept : on_(other.on_), value_(other.value_) {}

    selected_case begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept {
        node_.begin_as_case(value_, waiter, of, index);
        return {&on_->core, &node_, index, true};
    }
    void make(const selected& decided) noexcept {
        node_.closed = decided.sent.step == send_step::closed;
        on_->put(decided.sent, *value_);
    }
    value_type take() {
        if (node_.closed) [[unlikely]] { throw_closed(); }
        return {};
    }

private:
    channel<Value>* on_;
    Value* value_;
    channel_waiter node_;
};

template <>
class select_part<sleep_awaiter> final : public happening_part<select_timer> {
public:
    explicit select_part(const sleep_awaiter& from) noexcept : happening_part(from.until()) {}
};

template <>
class select_part<otherwise_case> {
public:
    using value_type = std::monostate;

    explicit select_part(otherwise_case) noexcept {}
    selected_case begin(select_word<layer>&, std::uint32_t index, branch&) noexcept {
        return {.index = index};
    }
    void make(const selected&) noexcept {}
    value_type take() { return {}; }
};

/// What select() accepts.
template <class Case>
concept selectable = requires { typename select_part<std::remove_cvref_t<Case>>::value_type; };

template <class... Cases>
class select_of : public select_operation {
    static constexpr std::uint32_t count = sizeof...(Cases);
    static constexpr std::size_t otherwise_count = (std::same_as<Cases, otherwise_case> + ...);
    static constexpr bool has_happenings =
        (requires(select_part<Cases>& part) { part.as_happening(); } || ...);
    static constexpr bool has_sides = (requires { select_part<Cases>::has_side; } || ...);
    static_assert(otherwise_count <= 1, "weft: a select has one `otherwise` at most");

public:
    using value_type = std::variant<typename select_part<Cases>::value_type...>;

    explicit select_of(const Cases&... cases) noexcept
        : select_operation(has_sides), parts_(select_part<Cases>(cases)...) {}
    select_of(const select_of& other) noexcept
        : select_operation(other), parts_(other.parts_) {}

protected:
    // Awaiting frames are destroyed while they wait at the end of a runtime.
    ~select_of() { leave(); }

    /// The value of the case that was made.
    value_type take() { return take(chosen(), std::index_sequence_for<Cases...>()); }

private:
    template <std::size_t... Index>
    value_type take(std::uint32_t made, std::index_sequence<Index...>) {
        std::optional<value_type> taken;
        const auto take_one = [&]<std::size_t Which>() {
            taken.emplace(std::in_place_index<Which>, std::get<Which>(parts_).take());
        };
        ((made == Index ? take_one.template operator()<Index>() : void()), ...);
        return *std::move(taken);
    }

    template <std::size_t... Index>
    void begin_each(branch& waiter, std::index_sequence<Index...>) noexcept {
        ((cases_[Index] = std::get<Index>(parts_).begin(
              word(), static_cast<std::uint32_t>(Index), waiter)),
         ...);
        if constexpr (has_happenings) {
            const auto happening_of = [](auto& part) -> select_happening* {
                if constexpr (requires { part.as_happening(); }) return part.as_happening();
                return nullptr;
            };
            ((happenings_[Index] = happening_of(std::get<Index>(parts_))), ...);
        }
    }

    static constexpr std::uint32_t place_of_otherwise() noexcept {
        constexpr bool is[] = {std::same_as<Cases, otherwise_case>...};
        for (std::uint32_t i = 0; i < count; ++i) {
            if (is[i]) return i;
        }
        return no_case;
    }

    parts begin_cases(branch& waiter) noexcept final {
        begin_each(waiter, std::index_sequence_for<Cases...>());
        parts begun{cases_, order_, has_happenings ? happenings_ : nullptr, count,
                    place_of_otherwise()};
        if constexpr (has_sides) begun.sides = &sides_;
        return begun;
    }

    template <std::size_t... Index>
    void make_one(const selected& decided, std::index_sequence<Index...>) noexcept {
        ((decided.chosen == Index ? std::get<Index>(parts_).make(decided) : void()), ...);
    }
    void make(const selected& decided) noexcept final {
        make_one(decided, std::index_sequence_for<Cases...>());
    }

    struct no_sides {};
    [[no_unique_address]] std::conditional_t<has_sides, select_side_count, no_sides> sides_;
    std::tuple<select_part<Cases>...> parts_;
    selected_case cases_[count];
    channel_core<layer, channel_waiter>* order_[count];
    select_happening* happenings_[has_happenings ? count : 1];
};

template <class... Cases>
class [[nodiscard]] select_awaiter final : public awaiter<select_of<Cases...>> {
public:
    using awaiter<select_of<Cases...>>::awaiter;
    select_awaiter(const select_awaiter&) = default;
    ~select_awaiter() { this->leave_for_good(); }
    typename select_of<Cases...>::value_type await_resume() {
        this->leave();
        this->throw_unless_completed();
        return this->take();
    }
};

}  // namespace detail

/// Waits for the first of several things, and does that one only (Go's select):
///
///     auto made = co_await weft::select(jobs.recv(), results.send(std::move(result)),
///                                       weft::sleep_for(1s));
///     switch (made.index()) {
///         case 0: use(std::get<0>(made)); break;  // a std::optional of what jobs holds
///         case 1: break;                          // the result was sent
///         case 2: break;                          // nothing happened for a second
///     }
///
/// A case is recv() or send() of a channel or of an end of one, sleep_for(), sleep_until(), the end
/// of a task (on_end.hpp), a stop token (on_stop.hpp), readable() or writable() of a socket
/// (net/tcp.hpp), or `weft::otherwise`. The result is a std::variant with an alternative for each
/// case, in order: what the case gives, and std::monostate where that is nothing. With `otherwise`
/// the select does not wait: that case is made if no other can be.
///
/// If several cases can be made, each of them is as likely as the others. Exactly one is made, and
/// the others have done nothing when it returns: they stand in no line, no value was received for
/// them, and what they would have sent is still with its owner. A send moves its value, which has
/// to live until then, only when it is the case that is made.
///
/// A channel that is closed can be received from at once, with an empty optional. Where a send
/// finds its channel closed, the select throws errc::closed. It throws operation_canceled (or
/// timed_out) when the scope is stopped, and std::bad_alloc if there is no memory for a timer: no
/// case is made then. It resumes on the worker of whoever served it. It takes no memory but for
/// timers. One that waits for sockets may be kept, once it has been served, until a worker has
/// taken back those of its waits that have just been woken up.
///
/// Source: selectgo of Go's select.go.
template <detail::selectable... Cases>
    requires(sizeof...(Cases) > 0)
detail::select_awaiter<std::remove_cvref_t<Cases>...> select(const Cases&... cases) noexcept {
    return detail::select_awaiter<std::remove_cvref_t<Cases>...>(cases...);
}

}  // namespace weft
