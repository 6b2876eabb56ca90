// SPDX-License-Identifier: MIT
//
// Which backend a runtime gets. io_uring is refused in many places (containers, hardened kernels,
// small limits of locked memory), so every failure of every start-up step leads to epoll, for the
// whole runtime, and is told with one line. Nothing is mixed, and nothing changes later.
#include <weft/detail/netpoll/netpoller.hpp>

#include "lib/netpoll/epoll_poller.hpp"
#include "lib/netpoll/rescue_signal.hpp"
#include "lib/netpoll/ring_poller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include <sys/resource.h>
#include <time.h>

namespace weft::detail {

namespace {

class ring_netpoller final : public netpoller {
public:
    /// Makes the rings; on a failure the object is of no use.
    start_result set_up(unsigned workers);
    bool rescues() const noexcept { return handler_.installed(); }

    std::string_view name() const noexcept override { return "io_uring"; }
    poller& worker_poller(unsigned index) noexcept override { return *pollers_[index]; }
    start_result add_poller(unsigned entries, short_memory when_short) override {
        long patience_left = when_short == short_memory::wait ? patience : 0;
        const unsigned fewest = when_short == short_memory::fail ? entries : io_ring::smallest;
        return add_ring(entries, fewest, patience_left,
                        static_cast<unsigned>(pollers_.size()) + 1);
    }
    void remove_last_poller() noexcept override { pollers_.pop_back(); }
    bool needs_watcher() const noexcept override { return false; }

private:
    /// Rings that were just closed, by an earlier runtime, are uncharged a little later. So long,
    /// in milliseconds, all of the start waits for that.
    static constexpr long patience = 100;

    start_result add_ring(unsigned& entries, unsigned fewest, long& patience_left, unsigned rings);

    rescue_handler handler_;  // Longer than the rings that it enters.
    std::vector<std::unique_ptr<ring_poller>> pollers_;
};

class epoll_netpoller final : public netpoller {
public:
    explicit epoll_netpoller(unsigned workers) {
        if (const start_result result = set_.set_up(); result.error != 0) {
            throw std::system_error(result.error, std::system_category(),
                                    fmt::format("weft cannot use epoll: {}", result.step));
        }
        for (unsigned i = 0; i < workers; ++i) {
            add_poller(0, short_memory::fail);
        }
    }

    std::string_view name() const noexcept override { return "epoll"; }
    poller& worker_poller(unsigned index) noexcept override { return *pollers_[index]; }
    start_result add_poller(unsigned, short_memory) final {
        pollers_.push_back(std::make_unique<epoll_poller>(set_));
        return {};
    }
    void remove_last_poller() noexcept override { pollers_.pop_back(); }
    bool needs_watcher() const noexcept override { return set_.seats.nobody_sits(); }
    bool anything_unnoticed() const noexcept override {
        return set_.seats.nobody_sits() && set_.used() && set_.has_events();
    }

private:
    epoll_set set_;
    std::vector<std::unique_ptr<epoll_poller>> pollers_;
};

/// The kernel charges a ring against RLIMIT_MEMLOCK of the user: about 37 KiB for 256 entries (8
/// MiB hold 227 rings of them). Could all of them fit if nothing else was charged?
bool could_fit(unsigned rings, unsigned entries) noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
    constexpr std::uint64_t bytes_per_entry = 144;
    return rings * std::uint64_t{entries} * bytes_per_entry <= limit.rlim_cur;
}

void sleep_milliseconds(long milliseconds) noexcept {
    timespec left{.tv_sec = 0, .tv_nsec = milliseconds * 1'000'000};
    while (::nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

start_result ring_netpoller::set_up(unsigned workers) {
    unsigned entries = io_ring::largest;
    long patience_left = patience;
    while (pollers_.size() < workers) {
        const start_result result = add_ring(entries, io_ring::smallest, patience_left, workers);
        if (result.error != 0) return result;
    }
    return {};
}

/// Makes one of so many rings. Lowers the number of entries, down to the fewest, where memory stays
/// short.
start_result ring_netpoller::add_ring(unsigned& entries, unsigned fewest, long& patience_left,
                                      unsigned rings) {
    auto made = std::make_unique<ring_poller>();
    for (;;) {
        start_result result = made->set_up(entries);
        for (long step = 1;
             result.error == ENOMEM && patience_left > 0 && could_fit(rings, entries); step *= 2) {
            const long pause = std::min(step, patience_left);
            sleep_milliseconds(pause);
            patience_left -= pause;
            result = made->set_up(entries);
        }
        if (result.error == ENOMEM && entries > fewest) {
            entries /= 2;
            continue;
        }
        if (result.error != 0) return result;
        if (rescues()) made->allow_rescue();
        pollers_.push_back(std::move(made));
        return {};
    }
}

}  // namespace

std::unique_ptr<netpoller> make_netpoller(backend_choice choice, unsigned workers,
                                          const std::function<void(std::string_view)>& log) {
    if (choice == backend_choice::epoll) return std::make_unique<epoll_netpoller>(workers);
    start_result failure;
    {
        auto rings = std::make_unique<ring_netpoller>();
        failure = rings->set_up(workers);
        if (failure.error == 0) {
            if (!rings->rescues() && log) {
                log("weft: the program handles SIGURG itself, so a task that keeps its worker also "
                    "keeps the sockets that wait there; leave SIGURG to weft, or let no task run "
                    "for long");
            }
            return rings;
        }
    }
    if (choice == backend_choice::io_uring) {
        throw std::system_error(
            failure.error, std::system_category(),
            fmt::format("weft: io_uring cannot start ({}), and it was asked for", failure.step));
    }
    if (log) {
        log(fmt::format("weft: io_uring cannot start ({}: {}); using epoll", failure.step,
                        std::system_category().message(failure.error)));
    }
    return std::make_unique<epoll_netpoller>(workers);
}

}  // namespace weft::detail
