// SPDX-License-Identifier: MIT
//
// How much processor time the control groups of this process allow.
//
// A group has a quota: so many microseconds of processor time in each period. A group can use no
// more than each of its ancestors may, so the smallest quota from the own group to the root counts.
// Linux has two interfaces, and may mount both (mixed, "hybrid"):
//
//     v2   one hierarchy; cpu.max holds "QUOTA PERIOD", QUOTA may be "max"
//     v1   a hierarchy for each set of controllers; the one with `cpu` (often mounted together with
//          `cpuacct`) has cpu.cfs_quota_us, where -1 is no limit, and cpu.cfs_period_us
//
// The controller is in one of the two; the other one has no such files, so both are read and the
// smaller quota counts.
//
// Where the files are. /proc/self/cgroup tells the own group in each hierarchy, and
// /proc/self/mountinfo where the hierarchy, or a part of it, is mounted. Both name groups relative
// to the cgroup namespace of this process: "/" is its root, "/.." the group above. A mount shows
// the group in its root field and what is below. So the own group lies below a mount point by what
// is left of its name when the mount's root is taken off at the front:
//
//     group /a/b, mount root /       mount point + /a/b, /a and /
//     group /a/b, mount root /a/b    mount point: a container without a namespace of its own
//     group /, mount root /          mount point: a container that has one
//     group /, mount root /..        mount point, which is an ancestor; the names of the groups
//                                    between the two cannot be known from inside
//     group /a, mount root /b        says nothing about this process
//
// What is missing, unreadable or makes no sense is no limit: a wrong guess there costs speed, while
// an error would keep the program from starting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::detail {

/// Where the reader looks.
struct cgroup_roots {
    std::string process = "/proc";
    /// What stands for /sys/fs/cgroup in the mount points that mountinfo names.
    std::string groups = "/sys/fs/cgroup";
};

/// How many processors the quotas of all groups above this process allow at once, rounded up: one
/// or more, and two or more where the quota is greater than one. Empty: no limit.
std::optional<std::uint32_t> cgroup_processors(const cgroup_roots& roots);

}  // namespace weft::detail
