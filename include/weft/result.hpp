// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <system_error>
#include <type_traits>
#include <utility>
#include <version>

#include <tl/expected.hpp>

#if defined(__cpp_lib_expected) && __cpp_lib_expected >= 202202L
#include <expected>
#endif

namespace weft {

/// A value, or the error that kept it from being made: what as_result and the functions named try_
/// give instead of throwing.
///
/// It is tl::expected with every language version. An alias that became std::expected under C++23
/// would give two parts of a program, compiled with different options, different ideas of the same
/// function, and the linker would not notice. Where a program wants std::expected, to_std converts.
template <class T>
using result = tl::expected<T, std::error_code>;

/// An error as the right-hand side of a result: `return weft::failure(errc::closed);`.
inline tl::unexpected<std::error_code> failure(std::error_code code) noexcept {
    return tl::unexpected<std::error_code>(code);
}

#if defined(__cpp_lib_expected) && __cpp_lib_expected >= 202202L

/// The same value or error as a std::expected. A value is moved out of an argument that is an
/// rvalue and copied from one that is not.
template <class T>
std::expected<T, std::error_code> to_std(result<T> from) {
    if (!from.has_value()) {
        return std::unexpected<std::error_code>(from.error());
    }
    if constexpr (std::is_void_v<T>) {
        return {};
    } else {
        return std::expected<T, std::error_code>(std::in_place, *std::move(from));
    }
}

#endif

}  // namespace weft
