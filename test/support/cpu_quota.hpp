// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace weft::test {

/// A control group with a quota of its own, of the kernel's version 1, below the group of this
/// process; removed with the object. Only root can make one, and only where that version has the
/// cpu controller.
class cpu_quota {
public:
    explicit cpu_quota(const std::string& name) : path_(own_group() / name) {
        if (path_.is_relative()) return;
        std::error_code refused;
        std::filesystem::create_directory(path_, refused);
        made_ = std::filesystem::exists(path_ / "cpu.cfs_quota_us", refused);
    }
    ~cpu_quota() {
        // A process that has just ended may still be counted for a moment.
        for (int tries = 0; made_ && ::rmdir(path_.c_str()) != 0 && tries < 1000; ++tries) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    cpu_quota(const cpu_quota&) = delete;
    cpu_quota& operator=(const cpu_quota&) = delete;

    bool works() const { return made_ && set(-1, 100'000); }

    /// So many microseconds of processor time in each period; -1: no limit.
    bool set(long quota, long period) const {
        return write("cpu.cfs_period_us", period) && write("cpu.cfs_quota_us", quota);
    }

    /// The calling process, with one thread, moves into the group.
    bool enter() const { return write("cgroup.procs", static_cast<long>(::getpid())); }

private:
    static std::filesystem::path own_group() {
        const std::filesystem::path mount = "/sys/fs/cgroup/cpu";
        std::ifstream groups("/proc/self/cgroup");
        for (std::string line; std::getline(groups, line);) {
            const std::size_t controllers = line.find(':') + 1;
            const std::size_t path = line.find(':', controllers) + 1;
            const std::string list = "," + line.substr(controllers, path - controllers - 1) + ",";
            if (list.find(",cpu,") != std::string::npos) return mount / line.substr(path + 1);
        }
        return {};
    }

    bool write(const char* file, long value) const {
        std::ofstream stream(path_ / file);
        stream << value << std::flush;
        return stream.good();
    }

    std::filesystem::path path_;
    bool made_ = false;
};

}  // namespace weft::test
