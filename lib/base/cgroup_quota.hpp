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
// Whoever asks again and again keeps a reader: mountinfo may be megabytes long, and the kernel
// makes it anew for each that reads it. So the reader keeps where the quotas are, and reads only
// those and the own group until the mounts have changed: the kernel tells by poll() on an open
// mountinfo. (A plain file in its place, as tests have it, shows that by its size or its time.) A
// process that goes to another namespace of mounts while it runs goes on as if it had not.
//
// What is missing, unreadable or makes no sense is no limit: a wrong guess there costs speed, while
// an error would keep the program from starting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace weft::detail {

/// Where the reader looks.
struct cgroup_roots {
    std::string process = "/proc";
    /// What stands for /sys/fs/cgroup in the mount points that mountinfo names.
    std::string groups = "/sys/fs/cgroup";
};

enum class cgroup_version : std::uint8_t { v1, v2 };

/// Reads the quotas, as often as one likes. Used by one thread at a time.
class cgroup_reader {
public:
    explicit cgroup_reader(cgroup_roots roots) : roots_(std::move(roots)) {}
    cgroup_reader(const cgroup_reader&) = delete;
    cgroup_reader& operator=(const cgroup_reader&) = delete;
    ~cgroup_reader();

    /// How many processors the quotas of all groups above this process allow at once, rounded up:
    /// one or more, and two or more where the quota is greater than one. Empty: no limit. The first
    /// call and those after changes read all, the others only the quotas and the own group. Keeps a
    /// file open from then on. While files cannot be opened for want of descriptors or memory, the
    /// answer stays what it was. Throws std::bad_alloc.
    std::optional<std::uint32_t> processors();

private:
    /// A group that limits this process: its directory.
    struct limiting_group {
        cgroup_version version;
        std::string directory;
    };

    std::optional<std::uint32_t> read();
    bool mounts_have_changed() noexcept;
    void watch_mounts() noexcept;
    std::vector<limiting_group> find_groups(const std::string& own,
                                            const std::string& mounts) const;

    const cgroup_roots roots_;
    int mounts_ = -1;          ///< An open mountinfo; none while it cannot be watched.
    struct ::stat seen_ = {};  ///< Of that, when it was read.
    bool known_ = false;       ///< The rest is what mountinfo says.
    std::string own_;          ///< The content of the file that names the own groups.
    std::vector<limiting_group> groups_;
    std::optional<std::uint32_t> last_;
};

/// For one look.
inline std::optional<std::uint32_t> cgroup_processors(const cgroup_roots& roots) {
    return cgroup_reader(roots).processors();
}

}  // namespace weft::detail
