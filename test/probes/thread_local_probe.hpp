// SPDX-License-Identifier: MIT
#pragma once

namespace weft::probe {

/// Stands for a worker.
struct mark {
    int number;
};

/// The mark of this thread, as weft declares its current worker: constant-initialised, so that no
/// wrapper function runs, and in the static block of thread-locals, so that its address is one
/// addition to the thread pointer.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local mark* inline_mark;

/// The same through a function that is not inlined. Defined in another file.
mark* mark_of_this_thread() noexcept;

}  // namespace weft::probe
