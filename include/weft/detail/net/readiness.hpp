// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/netpoll/io_operation.hpp>
#include <weft/detail/sync/select_part.hpp>
#include <weft/detail/task/awaiter.hpp>

namespace weft::detail {

/// The wait until an operation on a descriptor would not block. It asks the kernel with poll(2), so
/// that nothing is taken, and has the turn of its direction only while it waits.
class readiness_operation : public io_operation {
public:
    /// Also for a select, which makes it one of its cases instead of awaiting it.
    descriptor_name asked() const noexcept { return used(); }
    direction which() const noexcept { return asks_; }

protected:
    readiness_operation(descriptor_name on, direction which) noexcept
        : io_operation(on, which), asks_(which) {}
    readiness_operation(const readiness_operation&) = default;
    ~readiness_operation() = default;

private:
    attempt_outcome attempt(int fd) noexcept final;

    direction asks_;
};

class [[nodiscard]] readiness_awaiter final : public awaiter<readiness_operation> {
public:
    readiness_awaiter(descriptor_name on, direction which) noexcept : awaiter(on, which) {}
    void await_resume();
};

class select_readiness;

/// The wait of a case, on a branch of its own: see select_sides.hpp.
class readiness_side final : public readiness_operation {
public:
    readiness_side(descriptor_name on, direction which, select_readiness& of) noexcept
        : readiness_operation(on, which), of_(&of) {}
    readiness_side(const readiness_side&) = delete;
    readiness_side& operator=(const readiness_side&) = delete;
    /// At the end of a runtime a frame is destroyed where it waits.
    ~readiness_side() { unlink_if_parked(); }

    /// On the worker that runs the side. False in any case: there is nothing to resume.
    bool start(branch& side) noexcept final;
    /// The select: for the first time.
    void start_first(branch& side) noexcept {
        begin(side);
        start(side);
    }
    /// The select, when it has withdrawn the side: gives back the turn.
    void end() noexcept { static_cast<void>(finish()); }

private:
    select_readiness* of_;
};

/// A case that waits for the readiness of a descriptor.
class select_readiness final : public select_happening {
public:
    select_readiness(descriptor_name on, direction which) noexcept : waits_(on, which, *this) {}
    /// Only of one that has not begun, as of all awaitables.
    select_readiness(const select_readiness& other) noexcept
        : select_happening(other), waits_(other.waits_.asked(), other.waits_.which(), *this) {}

    bool look(select_clock& clock) noexcept final;
    void count_in(select_side_count& sides) noexcept final { sides_ = &sides; }
    void arm(worker& here) noexcept final;
    bool withdraw() noexcept final;
    /// At the end of a runtime: the side goes with this object.
    void leave() noexcept final {}

private:
    friend readiness_side;
    void ended() noexcept;

    branch side_;
    select_side_count* sides_ = nullptr;
    bool started_ = false;
    readiness_side waits_;  // After the branch that it waits on.
};

template <>
class select_part<readiness_awaiter> final : public happening_part<select_readiness> {
public:
    static constexpr bool has_side = true;

    explicit select_part(const readiness_awaiter& from) noexcept
        : happening_part(from.asked(), from.which()) {}
};

}  // namespace weft::detail
