// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/branch/scope.hpp>

namespace weft::detail {

/// A cancel scope of the running branch, from construction to destruction. It lies in the frame of
/// the coroutine that opens it. Who may stop it has finished when it is closed.
class cancel_scope {
public:
    explicit cancel_scope(scope_kind kind = scope_kind::open);
    ~cancel_scope();
    cancel_scope(const cancel_scope&) = delete;
    cancel_scope& operator=(const cancel_scope&) = delete;

    branch& opener() const noexcept { return running_; }
    scope& inside() noexcept { return scope_; }

    /// Stops what is inside. Any thread that keeps the scope open.
    void stop() noexcept;

private:
    branch& running_;
    nested_scope scope_;
};

}  // namespace weft::detail
