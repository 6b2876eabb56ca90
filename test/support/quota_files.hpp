// SPDX-License-Identifier: MIT
#pragma once

#include "lib/base/cgroup_quota.hpp"
#include "support/laid_out_files.hpp"

namespace weft::test {

/// A machine whose quota a test can change: files like those of a control group of version 2.
class quota_files {
public:
    quota_files() {
        files_.write("proc/self/cgroup", "0::/\n");
        files_.write("proc/self/mountinfo",
                     "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    }

    /// What cpu.max holds: "QUOTA PERIOD\n", or "max PERIOD\n".
    void quota(const char* limit) const { files_.write("groups/cpu.max", limit); }

    detail::cgroup_roots roots() const { return {files_.path("proc"), files_.path("groups")}; }

private:
    laid_out_files files_;
};

}  // namespace weft::test
