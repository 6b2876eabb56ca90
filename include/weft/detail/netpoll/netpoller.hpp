// SPDX-License-Identifier: MIT
//
// The interface between the scheduler and the netpoller. Two backends stand behind it: a ring for
// each worker (io_uring), and one epoll set that all workers share, where io_uring is refused.
//
// What the scheduler does, in this order:
//   1. make_netpoller() on the thread that starts the runtime. Everything that may fail without a
//      thread of its own has been tried then.
//   2. Each worker calls enable_on_this_thread(), before any task runs, and reports the result; the
//      starting thread waits for all of them. If one failed, it makes the epoll netpoller in the
//      place of the first one, and the workers enable that; it cannot fail in this way.
//   3. has_work(), poll(), begin_sleep(), wait(), end_sleep(), wake() as they say.
//   4. At the end, when every frame has been destroyed, each worker calls shut_down() on its own
//      thread. Then the netpoller is destroyed, on any thread.
// While tasks run, one thread at a time may make pollers for more workers: add_poller(); each new
// worker enables its own on its thread. A worker without a processor (retirement.hpp) calls
// begin_retiring(), then wait() as long as anything is in_flight(), and end_retiring() when it has
// a processor again.
// A thread that never got as far as enabling its poller, or that cannot be asked to shut it down,
// leaves nothing behind that 4 does not free; it only takes the kernel a little longer.
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/branch/branch.hpp>
#include <weft/detail/netpoll/direction.hpp>
#include <weft/detail/netpoll/handed_list.hpp>
#include <weft/detail/netpoll/poll_record.hpp>
#include <weft/detail/netpoll/poll_side.hpp>
#include <weft/detail/netpoll/unverified_waits.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <sys/types.h>

namespace weft::detail {

class io_operation;

/// One direction of a descriptor.
using descriptor_side = poll_side<layer, branch, poll_record>;

/// How a step of the start-up ended.
struct start_result {
    int error = 0;          ///< An errno, or 0.
    const char* step = "";  ///< The step that failed, as the log line names it.
};

/// How much a worker takes of what is ready.
enum class poll_extent : std::uint8_t {
    few,   ///< What one system call gives: nobody but the worker has time for it, so what else is
           ///< ready can wait in the kernel, where it takes no space in the caches.
    many,  ///< A whole slice: others have time for some of it.
};

/// The part of the netpoller that belongs to one worker.
class poller {
public:
    virtual ~poller() = default;

    /// Owner, once, on the thread that will use it, before any task runs: io_uring enables the ring
    /// and makes one no-op round trip. The runtime waits for all workers; if one of them fails, it
    /// makes the other backend for all of them and calls this again there.
    virtual start_result enable_on_this_thread() noexcept = 0;

    /// Owner, where the start is given up after enable_on_this_thread(), on whichever thread
    /// failed: takes back what was registered for this thread. The poller is not used any more.
    virtual void disable_on_this_thread() noexcept {}

    /// Owner, when the runtime ends and every frame is destroyed: cancels what is in flight and
    /// reaps until nothing is, for at most a second. Readies nothing of this runtime.
    virtual void shut_down() noexcept = 0;

    /// Owner: submits what is prepared and reaps what is ready, without waiting, at most a bounded
    /// slice, or a small part of it. Branches to be readied are appended to `readied` in the order
    /// of their completions; the caller readies them after this call.
    virtual void poll(branch_list& readied, poll_extent extent) noexcept = 0;

    /// Owner: as poll(), but waits until something completes, wake() is called, or the deadline
    /// passes. May return early without a reason.
    virtual void wait(monotonic_time deadline, branch_list& readied) noexcept = 0;

    /// Any thread: makes the current or the next wait() return.
    virtual void wake() noexcept = 0;

    /// Owner, parked and about to sleep: must it do so in wait(), or may it sleep on a futex?
    /// io_uring: while anything is in flight in its ring. epoll: if a seat is free in front of the
    /// set (watch_seats.hpp), also while no descriptor is registered, since one may be at any time.
    virtual bool begin_sleep() noexcept = 0;
    /// Owner, after each begin_sleep(), when it sleeps no more.
    virtual void end_sleep() noexcept = 0;

    /// Owner, whose worker gives its processor up; nothing is unverified. io_uring: from now on
    /// each turn sees to it that all polls of this ring are cancelled; the branches that wait for
    /// them are readied by their final completions. epoll: nothing is tied to a worker.
    virtual void begin_retiring(branch_list&) noexcept {}
    /// Owner: its worker has a processor again. What was cancelled stays so.
    virtual void end_retiring() noexcept {}
    /// Owner: are polls in flight that only this worker can complete?
    virtual bool in_flight() const noexcept { return false; }

    /// Owner, cheap (loads only): would poll() find something to do? io_uring: the flags of the
    /// ring (TASKRUN, CQ_OVERFLOW), its queue, prepared entries, or requests of other threads.
    /// epoll: true as soon as a descriptor is registered.
    virtual bool has_work() const noexcept = 0;

    /// Any thread, cheap: is something here that only the owner can take, as far as others can see?
    /// epoll: never, since each worker takes what there is.
    virtual bool wants_owner() const noexcept { return false; }

    /// Any thread, one at a time, while the owner's thread runs a task that keeps it: what that
    /// task stands in the way of is seen to by others from now on, until the owner is back. Makes
    /// the owner take a turn, which takes a moment; false if that cannot be done. Then
    /// take_for_owner() wakes those for whom it found something, and ends what has been closed;
    /// what is not there yet, the next call finds. The owner calls it as well, when it leaves its
    /// loop.
    virtual bool interrupt_owner(::pid_t) noexcept { return false; }
    virtual void take_for_owner(branch_list&) noexcept {}

    /// Owner: keeps its signal handler from the poller; see handed_list.hpp.
    arming_guard<layer> arming;

    /// Owner, cheap: are entries prepared that the kernel has not seen?
    virtual bool has_unsubmitted() const noexcept = 0;

    /// Owner, for an operation that got EAGAIN and has made this poller the home of the poll: arms
    /// it. Returns 0 or an errno; io_uring never fails here.
    virtual int arm(poll_record& record) noexcept = 0;

    /// Owner: takes over one send of an operation that has the turn, on the file `fd`, without
    /// waiting for room. The next poll() or wait() makes the call, and appends the branch to those
    /// that have to be readied; take_for_owner() does so as well. publish_gathered() follows.
    /// False: the operation makes it itself, always so with epoll.
    virtual bool gather_send(io_operation&, int /*fd*/, const void* /*data*/,
                             std::size_t /*size*/) noexcept {
        return false;
    }
    /// Owner, as the last act of whoever has had a send taken over, after which it touches neither
    /// the operation nor its branch: the branch is suspended. `arming` is held until then.
    virtual void publish_gathered() noexcept {}
    /// Owner: have sends been taken over that have not ended?
    virtual bool has_gathered() const noexcept { return false; }
    /// Any thread, while the owner's thread runs a task that keeps it: makes it hand over what is
    /// prepared, gathered sends above all, if that can be done.
    virtual void hand_over_for_owner(::pid_t) noexcept {}

    /// Owner: the waits of this worker for which the kernel is still to be asked.
    unverified_waits<layer, descriptor_side, 512> unverified;

    /// Owner: asks for all of them, or for the old ones, and appends the branches that have to try
    /// again. The scheduler calls it when the watchdog says so (unverified_waits.hpp).
    void verify_waits(bool all, branch_list& readied) noexcept;

    /// The index under which home words name this poller (home_word.hpp). All workers of an epoll
    /// netpoller have the same.
    std::uint16_t home() const noexcept { return home_; }

protected:
    std::uint16_t home_ = 0;
};

/// Owner, on its thread: while this lives, its signal handler leaves the poller alone.
class while_arming {
public:
    explicit while_arming(poller& io) noexcept : io_(io) { io_.arming.begin(); }
    ~while_arming() { io_.arming.end(); }
    while_arming(const while_arming&) = delete;
    while_arming& operator=(const while_arming&) = delete;

private:
    poller& io_;
};

/// What happens where the kernel has no memory for a ring: those that were just closed are
/// uncharged a little later.
enum class short_memory : unsigned char {
    wait,   ///< It is tried again for up to 100 ms, in which the thread sleeps; then as `fewer`.
    fewer,  ///< At once with fewer entries, for threads that must not sleep.
    fail,   ///< An error at once, for those of them that try again later.
};

/// The netpoller of one runtime.
class netpoller {
public:
    virtual ~netpoller() = default;

    virtual std::string_view name() const noexcept = 0;  ///< "io_uring" or "epoll"
    virtual poller& worker_poller(unsigned index) noexcept = 0;

    /// One thread at a time, also while workers run: makes a poller, not yet enabled, for the
    /// worker whose index is the number of those that there are. io_uring: with so many entries, or
    /// fewer where memory is short and `when_short` allows that. Throws std::bad_alloc, or
    /// std::system_error as poll_home does; has changed nothing then, nor where it returns an
    /// error.
    virtual start_result add_poller(unsigned entries, short_memory when_short) = 0;
    /// The same thread: takes the last one back. It was not enabled, or its thread has ended.
    virtual void remove_last_poller() noexcept = 0;

    /// Any worker about to run a branch, after its end_sleep(): does nobody wait for what may
    /// happen to descriptors that belong to no worker? epoll: nobody sits in front of the set.
    /// io_uring: never, since each ring has its owner.
    virtual bool needs_watcher() const noexcept = 0;

    /// Any thread: has anything happened to descriptors that belong to no worker, and nobody has
    /// taken notice? A hint. epoll: a system call. io_uring: never.
    virtual bool anything_unnoticed() const noexcept { return false; }
};

enum class backend_choice : unsigned char { automatic, io_uring, epoll };

/// Makes the backend: `choice` automatic tries io_uring for all workers and falls back to epoll for
/// the whole runtime with one line to `log` that names the errno and the step. A forced io_uring
/// throws std::system_error with that errno and a text that names the step. The environment
/// (WEFT_NETPOLL) is read by the caller.
std::unique_ptr<netpoller> make_netpoller(backend_choice choice, unsigned workers,
                                          const std::function<void(std::string_view)>& log);

}  // namespace weft::detail
