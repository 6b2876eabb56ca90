// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/select_operation.hpp>

#include <cstdint>
#include <variant>

namespace weft::detail {

/// How a select makes one of its cases; specialised for each type that can be a case. It has
/// value_type, what the case gives, and
///
///     select_part(const Case& from)         copied until the select begins
///     begin(word, index, waiter)            the select begins: what the case is to it
///     as_happening()                        for a case that stands in no line
///     make(decided)                         the case was decided on: moves its value
///     take()                                the value; throws what the case throws
template <class Case>
class select_part;

/// A case that stands in no line, and gives nothing.
template <class Happening>
class happening_part {
public:
    using value_type = std::monostate;

    selected_case begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept {
        happening_.begin(of, index, waiter);
        return {.index = index};
    }
    select_happening* as_happening() noexcept { return &happening_; }
    void make(const selected&) noexcept {}
    value_type take() { return {}; }

protected:
    template <class... Arguments>
    explicit happening_part(const Arguments&... arguments) noexcept : happening_(arguments...) {}
    happening_part(const happening_part&) = default;
    ~happening_part() = default;

private:
    Happening happening_;
};

}  // namespace weft::detail
