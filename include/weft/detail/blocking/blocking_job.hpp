// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/blocking/job_board.hpp>

#include <cstdint>

namespace weft::detail {

/// Who waits for a job of the blocking pool.
enum class job_kind : std::uint8_t {
    awaited,   ///< A branch: the job lies in its frame, and the runtime does not end before it.
    detached,  ///< Nobody: the job owns all it touches, and may outlive its runtime.
};

/// A call that may block its thread. Exactly one of run() and refuse() is called, once, unless the
/// job was withdrawn; the job may be gone when it returns.
class blocking_job : public job_link<layer, blocking_job> {
public:
    explicit blocking_job(job_kind kind) noexcept : kind_(kind) {}

    /// On a machine: does the call and tells whoever waits.
    virtual void run() noexcept = 0;

    /// It will not run: no thread can be made (EAGAIN), or the runtime ends (ECANCELED).
    virtual void refuse(int error) noexcept = 0;

    job_kind kind() const noexcept { return kind_; }

protected:
    /// Only of a job that was not placed.
    blocking_job(const blocking_job&) = default;
    blocking_job& operator=(const blocking_job&) = delete;
    ~blocking_job() = default;

private:
    job_kind kind_;
};

}  // namespace weft::detail
