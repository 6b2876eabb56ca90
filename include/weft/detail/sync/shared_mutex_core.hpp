// SPDX-License-Identifier: MIT
//
// What a shared mutex decides: who has it, and who waits (Go's sync.RWMutex; Tokio's RwLock).
//
// Either one holds it for itself (a writer), or any number share it (readers). Everybody else
// stands in one line, writers and readers as they came, and an internal lock guards all of it:
//
//     lock, shared      nobody in line, and no writer: a reader more. Otherwise line up
//     lock              nobody holds it (then nobody stands in line): the writer. Otherwise line up
//     unlock            a holder less; then serve the line
//     withdraw          leave the line, then serve it: readers may have stood behind a writer that
//                       does not want the mutex any more
//     serve the line    while the first one in line can hold it beside those who do, it does: a
//                       writer alone, or all readers up to the next writer
//
// Why nobody starves. Whoever comes while somebody waits lines up behind, so a waiting writer keeps
// new readers out, and is served after those who read now; and a stream of writers does not keep a
// reader out that stands before them. Who is served holds the mutex from then on, before its task
// runs, so nobody is faster.
//
// Why nobody is forgotten. The invariant under the lock: the first one in line cannot hold the
// mutex beside its holders. Lining up keeps it, since whoever could hold it does not line up, and
// whoever stands behind somebody is not first. The two steps after which it may not hold, one
// holder less and another one first, serve the line until it does.
//
// Rejected: one word of counts for the case that nobody waits, as a mutex has. A reader's guard is
// listed with the mutex (shared_mark.hpp), under a lock, and two of them would not pay for a word.
// And readers are worth a shared mutex only where sections are long, or suspend.
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstdint>
#include <mutex>

namespace weft::detail {

enum class lock_kind : std::uint8_t { exclusive, shared };

/// Waiter is derived from wait_links<Layer, Waiter> and has `kind`.
template <class Layer, class Waiter>
class shared_mutex_core {
public:
    bool try_lock(lock_kind kind) noexcept {
        const std::lock_guard held(lock_);
        return take(kind);
    }

    /// True: locked. False: it stands in line, and whoever serves it has locked for it.
    bool lock_or_line_up(Waiter& self) noexcept {
        const std::lock_guard held(lock_);
        if (take(self.kind)) return true;
        list_.push_back(self);
        return false;
    }

    struct unlocked {
        bool was_locked = true;    ///< In this way.
        Waiter* served = nullptr;  ///< They hold it, linked through `next`: the caller's.
    };

    unlocked unlock(lock_kind kind) noexcept {
        const std::lock_guard held(lock_);
        if (kind == lock_kind::exclusive) {
            if (!written_) return {.was_locked = false};
            written_ = false;
        } else {
            if (readers_ == 0) return {.was_locked = false};
            readers_ = readers_ - 1;
        }
        return {.served = serve()};
    }

    /// A canceller. False: it was served, and whoever did that completes it.
    bool withdraw(Waiter& waiting, Waiter*& served) noexcept {
        const std::lock_guard held(lock_);
        if (!list_.remove(waiting)) return false;
        served = serve();
        return true;
    }

    /// The mutex is destroyed: all who wait, marked.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        list_.orphan_all();
        return list_.take_all();
    }

    /// Others may change it at any time.
    bool is_locked(lock_kind kind) const noexcept {
        const std::lock_guard held(lock_);
        return kind == lock_kind::exclusive ? written_ : readers_ != 0;
    }

private:
    // Under the lock.

    bool fits(lock_kind kind) const noexcept {
        return !written_ && (kind == lock_kind::shared || readers_ == 0);
    }
    void add(lock_kind kind) noexcept {
        if (kind == lock_kind::exclusive) {
            written_ = true;
        } else {
            readers_ = readers_ + 1;
        }
    }
    bool take(lock_kind kind) noexcept {
        if (!list_.empty() || !fits(kind)) return false;
        add(kind);
        return true;
    }
    Waiter* serve() noexcept {
        wait_list<Layer, Waiter> served;
        while (!list_.empty() && fits(list_.front()->kind)) {
            Waiter* const first = list_.pop_front();
            add(first->kind);
            served.push_back(*first);
        }
        return served.take_all();
    }

    template <class T>
    using var = typename Layer::template var<T>;

    mutable spin_lock<Layer> lock_;
    var<bool> written_{false};
    var<std::uint32_t> readers_{0};
    wait_list<Layer, Waiter> list_;
};

}  // namespace weft::detail
