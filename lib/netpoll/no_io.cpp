// SPDX-License-Identifier: MIT
//
// The netpoller of a runtime that does no I/O: every worker sleeps on its futex.
#include <weft/detail/netpoll/netpoller.hpp>

#include <vector>

namespace weft::detail {

namespace {

class no_io_poller final : public poller {
public:
    start_result enable_on_this_thread() noexcept override { return {}; }
    void shut_down() noexcept override {}
    void poll(branch_list&) noexcept override {}
    void wait(monotonic_time, branch_list&) noexcept override {}
    void wake() noexcept override {}
    bool must_wait_here(bool) const noexcept override { return false; }
    bool has_work() const noexcept override { return false; }
    bool has_unsubmitted() const noexcept override { return false; }
};

class no_io final : public netpoller {
public:
    explicit no_io(unsigned workers) : pollers_(workers) {}
    std::string_view name() const noexcept override { return "none"; }
    poller& worker_poller(unsigned index) noexcept override { return pollers_[index]; }
    bool needs_watcher() const noexcept override { return false; }

private:
    std::vector<no_io_poller> pollers_;
};

}  // namespace

std::unique_ptr<netpoller> make_netpoller(backend_choice, unsigned workers,
                                          const std::function<void(std::string_view)>&) {
    return std::make_unique<no_io>(workers);
}

}  // namespace weft::detail
