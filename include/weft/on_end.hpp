// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/select_end.hpp>
#include <weft/detail/sync/select_part.hpp>
#include <weft/spawn.hpp>

namespace weft {

namespace detail {

/// See on_end().
struct end_case {
    task_control* joined;
};

template <>
class select_part<end_case> final : public happening_part<select_end> {
public:
    explicit select_part(const end_case& from) noexcept : happening_part(from.joined) {}
};

}  // namespace detail

/// A case of a select (select.hpp) that is made when a task has ended, with a result or with an
/// exception; at once if it has ended already. It gives nothing, and the handle keeps the task:
/// awaiting it then gives the result, or throws the exception, without waiting.
///
///     auto made = co_await weft::select(weft::on_end(search), orders.recv());
///     if (made.index() == 0) use(co_await search);
///
/// The handle must stay until the select has returned, and nobody awaits it meanwhile; both are
/// checked, and end the process with a message. If the select makes another case, or is stopped,
/// the task runs on. It resumes on the worker on which the task ended. Throws std::logic_error for
/// an empty handle.
template <class T>
detail::end_case on_end(const join_handle<T>& of) {
    return {of.awaited_control()};
}
/// The handle would be gone before the select begins.
template <class T>
detail::end_case on_end(const join_handle<T>&& of) = delete;

}  // namespace weft
