// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/select_part.hpp>
#include <weft/detail/sync/select_stop.hpp>

#include <stop_token>
#include <utility>

namespace weft {

namespace detail {

/// See on_stop().
struct stop_case {
    std::stop_token token;
};

template <>
class select_part<stop_case> final : public happening_part<select_stop> {
public:
    explicit select_part(const stop_case& from) noexcept : happening_part(from.token) {}
};

}  // namespace detail

/// A case of a select (select.hpp) that is made when a stop is requested of a std::stop_token; at
/// once if it was requested before. It gives nothing. A token without a stop state never makes it.
///
///     auto made = co_await weft::select(jobs.recv(), weft::on_stop(closing));
///     if (made.index() == 1) co_return;  // no more jobs, and nothing was taken
///
/// That is a stop which the task has agreed to look at. The stop of the task itself
/// (join_handle::request_stop(), or the end of its scope) makes no case: it ends the select with
/// operation_canceled, as it ends every other await.
///
/// Any thread may request the stop. It resumes on the worker that did, and otherwise on whichever
/// is free. A task that waits for a token does not count as asleep for good (deadlock.hpp), since
/// it is not known who may request the stop.
inline detail::stop_case on_stop(std::stop_token token) noexcept {
    return {std::move(token)};
}

}  // namespace weft
