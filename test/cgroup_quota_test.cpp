// SPDX-License-Identifier: MIT
#include "lib/base/cgroup_quota.hpp"

#include "support/catch.hpp"
#include "support/laid_out_files.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

using weft::detail::cgroup_processors;
using weft::detail::cgroup_reader;

namespace {

/// A machine that consists of files: /proc/self/cgroup, /proc/self/mountinfo, /sys/fs/cgroup.
class machine {
public:
    /// Lines of /proc/self/cgroup.
    machine& own(std::string_view lines) {
        files_.write("proc/self/cgroup", lines);
        return *this;
    }
    /// Lines of /proc/self/mountinfo, among others that have nothing to do with groups.
    machine& mounts(std::string_view lines) {
        const std::string before =
            "21 28 0:19 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
            "22 28 0:20 / /proc rw,nosuid shared:13 - proc proc rw\n";
        files_.write("proc/self/mountinfo", before + std::string(lines) +
                                                "90 28 8:1 / / rw - ext4 /dev/sda1 rw\n");
        return *this;
    }
    machine& group_file(std::string_view path, std::string_view content) {
        files_.write("groups/" + std::string(path), content);
        return *this;
    }
    machine& v1_quota(const std::string& group, std::string_view quota, std::string_view period) {
        group_file(group + "/cpu.cfs_quota_us", std::string(quota) + "\n");
        return group_file(group + "/cpu.cfs_period_us", std::string(period) + "\n");
    }
    machine& v2_quota(const std::string& group, std::string_view limit) {
        return group_file(group + "/cpu.max", std::string(limit) + "\n");
    }

    weft::detail::cgroup_roots roots() const {
        return {files_.path("proc"), files_.path("groups")};
    }
    std::optional<std::uint32_t> processors() const { return cgroup_processors(roots()); }
    std::string path(std::string_view below) const { return files_.path(below); }

private:
    weft::test::laid_out_files files_;
};

constexpr const char* v2_mount =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* v1_mounts =
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n";
constexpr const char* v1_own =
    "5:memory:/other\n4:cpuset:/\n3:cpu,cpuacct:/a/b\n1:name=systemd:/x\n";

/// What one cpu.max of a v2 machine allows.
std::optional<std::uint32_t> v2_processors(std::string_view limit) {
    machine made;
    return made.own("0::/job\n").mounts(v2_mount).v2_quota("job", limit).processors();
}

std::optional<std::uint32_t> v1_processors(std::string_view quota, std::string_view period) {
    machine made;
    return made.own(v1_own)
        .mounts(v1_mounts)
        .v1_quota("cpu,cpuacct/a/b", quota, period)
        .processors();
}

}  // namespace

TEST_CASE("cgroup v2: a quota is rounded up to processors", "[cgroup]") {
    CHECK(v2_processors("max 100000") == std::nullopt);
    CHECK(v2_processors("1000 100000") == 1U);
    CHECK(v2_processors("100000 100000") == 1U);
    CHECK(v2_processors("100001 100000") == 2U);
    CHECK(v2_processors("150000 100000") == 2U);
    CHECK(v2_processors("200000 100000") == 2U);
    CHECK(v2_processors("400000 50000") == 8U);
}

TEST_CASE("cgroup v1: a quota is rounded up to processors", "[cgroup]") {
    CHECK(v1_processors("-1", "100000") == std::nullopt);
    CHECK(v1_processors("1000", "100000") == 1U);
    CHECK(v1_processors("100000", "100000") == 1U);
    CHECK(v1_processors("100001", "100000") == 2U);
    CHECK(v1_processors("250000", "100000") == 3U);
}

TEST_CASE("cgroup: the smallest quota from the own group to the root counts", "[cgroup]") {
    machine v2;
    v2.own("0::/a/b/c\n").mounts(v2_mount);
    v2.v2_quota("a/b/c", "400000 100000").v2_quota("a/b", "max 100000");
    CHECK(v2.processors() == 4U);
    v2.v2_quota("a", "300000 100000");
    CHECK(v2.processors() == 3U);
    v2.v2_quota("a/b", "200000 100000");
    CHECK(v2.processors() == 2U);
    v2.v2_quota("a/b/c", "max 100000");
    CHECK(v2.processors() == 2U);
    v2.v2_quota("a/sibling", "100000 100000").v2_quota("a/b/c/child", "100000 100000");
    CHECK(v2.processors() == 2U);

    machine v1;
    v1.own(v1_own).mounts(v1_mounts);
    v1.v1_quota("cpu,cpuacct/a/b", "-1", "100000").v1_quota("cpu,cpuacct/a", "300000", "100000");
    CHECK(v1.processors() == 3U);
    v1.v1_quota("cpu,cpuacct", "100000", "50000");
    CHECK(v1.processors() == 2U);
}

TEST_CASE("cgroup: other controllers of v1 are nobody's quota", "[cgroup]") {
    machine made;
    made.own(v1_own).mounts(v1_mounts);
    made.v1_quota("cpuset", "100000", "100000").v1_quota("memory/other", "100000", "100000");
    CHECK(made.processors() == std::nullopt);
    // The name of a controller is all of a word.
    made.own("3:cpuacct:/a/b\n");
    made.v1_quota("cpu,cpuacct/a/b", "100000", "100000");
    CHECK(made.processors() == std::nullopt);
    made.own("3:cpuacct,cpu:/a/b\n");
    CHECK(made.processors() == 1U);
}

TEST_CASE("cgroup mixed: the controller counts where it is", "[cgroup]") {
    const std::string mounts =
        std::string(v1_mounts) +
        "35 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    machine in_v1;
    in_v1.own(std::string(v1_own) + "0::/unit\n").mounts(mounts);
    in_v1.group_file("unified/unit/cgroup.procs", "");
    in_v1.v1_quota("cpu,cpuacct/a/b", "250000", "100000");
    CHECK(in_v1.processors() == 3U);
    // A controller may be moved to v2 while others stay in v1.
    machine in_v2;
    in_v2.own("4:cpuset:/\n0::/unit\n").mounts(mounts);
    in_v2.v2_quota("unified/unit", "150000 100000");
    CHECK(in_v2.processors() == 2U);
}

TEST_CASE("cgroup container: the mount shows a part of the hierarchy", "[cgroup]") {
    const std::string own = "0::/system.slice/docker-1.scope/init\n";
    machine without_namespace;
    without_namespace.own(own).mounts(
        "30 23 0:26 /system.slice/docker-1.scope /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    without_namespace.v2_quota(".", "300000 100000").v2_quota("init", "max 100000");
    // The same names elsewhere in what is mounted are other groups.
    without_namespace.v2_quota("system.slice/docker-1.scope/init", "100000 100000");
    CHECK(without_namespace.processors() == 3U);

    machine with_namespace;
    with_namespace.own("0::/\n").mounts(v2_mount).v2_quota(".", "200000 100000");
    CHECK(with_namespace.processors() == 2U);

    machine v1;
    v1.own("3:cpu,cpuacct:/docker/1\n")
        .mounts(
            "32 31 0:29 /docker/1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n")
        .v1_quota("cpu,cpuacct", "50000", "100000");
    CHECK(v1.processors() == 1U);
}

TEST_CASE("cgroup namespace: a mount from outside and a process from outside", "[cgroup]") {
    // Mounted before the namespace was made: its root is an ancestor, two levels up.
    machine above;
    above.own("0::/\n")
        .mounts("30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .v2_quota(".", "300000 100000");
    CHECK(above.processors() == 3U);
    // The process is in a sibling of the namespace's root, whose parent is mounted.
    machine sibling;
    sibling.own("0::/../other\n")
        .mounts("30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .v2_quota("other", "200000 100000")
        .v2_quota("own", "100000 100000");
    CHECK(sibling.processors() == 2U);
    // The process has left what is mounted: its quota says nothing about it.
    machine outside;
    outside.own("0::/../other\n").mounts(v2_mount).v2_quota(".", "100000 100000");
    CHECK(outside.processors() == std::nullopt);
    machine beside;
    beside.own("0::/ab\n")
        .mounts("30 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .v2_quota(".", "100000 100000");
    CHECK(beside.processors() == std::nullopt);
}

TEST_CASE("cgroup mountinfo: escapes, optional fields and several mounts", "[cgroup]") {
    machine escaped;
    escaped.own("0::/my job/a:b/c\\d\n")
        .mounts("30 23 0:26 /my\\040job /sys/fs/cgroup/the\\040tree rw - cgroup2 cgroup2 rw\n")
        .v2_quota("the tree/a:b/c\\d", "200000 100000");
    CHECK(escaped.processors() == 2U);

    machine tags;
    tags.own("0::/\n")
        .mounts(
            "30 23 0:26 / /sys/fs/cgroup rw shared:4 master:2 propagate_from:1 - cgroup2 none rw\n")
        .v2_quota(".", "200000 100000");
    CHECK(tags.processors() == 2U);

    // A part is mounted somewhere else as well; the other mount sees more of the hierarchy.
    machine twice;
    twice.own("0::/a/b\n")
        .mounts(std::string("29 23 0:26 /a/b /elsewhere rw - cgroup2 cgroup2 rw\n") + v2_mount)
        .v2_quota("a", "200000 100000")
        .v2_quota("a/b", "max 100000");
    CHECK(twice.processors() == 2U);

    // Not below /sys/fs/cgroup: where the mount point says.
    machine other_place;
    other_place.v2_quota("a", "200000 100000");
    other_place.own("0::/a\n").mounts("30 23 0:26 / " + other_place.path("groups") +
                                      " rw - cgroup2 cgroup2 rw\n");
    CHECK(other_place.processors() == 2U);
}

TEST_CASE("cgroup: what is missing or makes no sense is no limit", "[cgroup]") {
    CHECK(machine().processors() == std::nullopt);
    CHECK(machine().own("0::/\n").processors() == std::nullopt);
    CHECK(machine().mounts(v2_mount).processors() == std::nullopt);
    CHECK(machine().own("0::/gone\n").mounts(v2_mount).processors() == std::nullopt);
    for (const char* limit :
         {"", "max", "100000", "0 100000", "100000 0", "-1 100000", "100000 -1", "1e5 100000",
          "100000  100000", "100000 100000 7", "99999999999999999999 100000", "+100000 100000"}) {
        INFO("cpu.max is \"" << limit << '"');
        CHECK(v2_processors(limit) == std::nullopt);
    }
    CHECK(v2_processors("18446744073709551615 1") == UINT32_MAX);
    CHECK(v2_processors("1 18446744073709551615") == 1U);
    for (const char* quota : {"", "0", "-2", "x", "99999999999999999999"}) {
        INFO("cpu.cfs_quota_us is \"" << quota << '"');
        CHECK(v1_processors(quota, "100000") == std::nullopt);
    }
    for (const char* period : {"", "0", "-1", "x"}) {
        INFO("cpu.cfs_period_us is \"" << period << '"');
        CHECK(v1_processors("100000", period) == std::nullopt);
    }
    for (const char* lines :
         {"\n\n", ":::", "0:", "0::", "0::relative\n", "no colons\n", "0::/\0x"}) {
        INFO("/proc/self/cgroup is \"" << lines << '"');
        CHECK(
            machine().own(lines).mounts("1\n- \n1 2 3 / / -\n/ / / / / - cgroup2\n").processors() ==
            std::nullopt);
    }
}

TEST_CASE("cgroup: a file that cannot be read is no limit, one above it still counts", "[cgroup]") {
    machine made;
    made.own("0::/a/b\n").mounts(v2_mount).v2_quota("a", "200000 100000");
    made.group_file("a/b/cpu.max/is", "a directory");
    CHECK(made.processors() == 2U);
    // The group has been removed since.
    made.own("0::/a/b (deleted)\n");
    CHECK(made.processors() == 2U);
    made.own("0::/a/b/gone\n");
    CHECK(made.processors() == 2U);
}

TEST_CASE("cgroup: a reader that is kept follows quotas, the own group and the mounts",
          "[cgroup]") {
    machine made;
    cgroup_reader reader(made.roots());
    CHECK(reader.processors() == std::nullopt);
    made.own("0::/a\n").mounts(v2_mount).v2_quota("a", "300000 100000");
    CHECK(reader.processors() == 3U);
    made.v2_quota("a", "200000 100000");
    CHECK(reader.processors() == 2U);
    made.own("0::/b\n").v2_quota("b", "500000 100000");
    CHECK(reader.processors() == 5U);
    made.v1_quota("cpu,cpuacct", "100000", "100000");
    made.own("0::/b\n2:cpu,cpuacct:/\n").mounts(std::string(v2_mount) + v1_mounts);
    CHECK(reader.processors() == 1U);
    made.mounts(v2_mount);
    CHECK(reader.processors() == 5U);
    made.mounts("");
    CHECK(reader.processors() == std::nullopt);
}

// Another content, of which neither the size nor the time of the file tells, is not found until one
// of them does.
TEST_CASE("cgroup: a reader that is kept reads the mounts only when they have changed",
          "[cgroup]") {
    machine made;
    made.own("0::/\n").mounts(v2_mount).v2_quota(".", "300000 100000");
    made.v2_quota("part", "700000 100000");
    cgroup_reader reader(made.roots());
    CHECK(reader.processors() == 3U);
    const std::filesystem::path file = made.path("proc/self/mountinfo");
    const auto time = std::filesystem::last_write_time(file);
    std::string moved = v2_mount;
    moved.replace(moved.find("/sys/fs/cgroup rw,nosuid,nodev"), 30,
                  "/sys/fs/cgroup/part rw,nosuid ");
    REQUIRE(moved.size() == std::string_view(v2_mount).size());
    made.mounts(moved);
    std::filesystem::last_write_time(file, time);
    CHECK(reader.processors() == 3U);
    made.v2_quota(".", "400000 100000");
    CHECK(reader.processors() == 4U);
    std::filesystem::last_write_time(file, time + std::chrono::seconds(1));
    CHECK(reader.processors() == 7U);
}
