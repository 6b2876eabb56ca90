// SPDX-License-Identifier: MIT
#pragma once

#include "support.hpp"

#include <dirent.h>
#include <sys/types.h>

#include <ctime>
#include <fstream>
#include <memory>
#include <string>

namespace echo {

/// The time of a clock in nanoseconds.
inline std::uint64_t read_clock(clockid_t clock) {
    timespec now{};
    if (clock_gettime(clock, &now) != 0) die("clock_gettime (has the server ended?)");
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(now.tv_nsec);
}

/// Another process as the kernel accounts for it.
class observed_process {
public:
    explicit observed_process(pid_t pid) : pid_(pid) {
        if (const int error = clock_getcpuclockid(pid_, &clock_); error != 0) {
            errno = error;
            die("clock_getcpuclockid");
        }
    }

    /// CPU time of all its threads, living and ended, in nanoseconds. The kernel counts it exactly,
    /// unlike the ticks of /proc/PID/stat.
    std::uint64_t cpu_time() const { return read_clock(clock_); }

    /// How often its living threads gave up the processor to wait. A costly read.
    std::uint64_t waits() const {
        const std::string root = "/proc/" + std::to_string(pid_) + "/task";
        const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(root.c_str()), closedir);
        if (!tasks) die("opendir of the server's threads");
        std::uint64_t sum = 0;
        while (const dirent* entry = readdir(tasks.get())) {
            if (entry->d_name[0] == '.') continue;
            sum += waits_of_thread(root + "/" + entry->d_name + "/status");
        }
        return sum;
    }

private:
    static std::uint64_t waits_of_thread(const std::string& path) {
        constexpr std::string_view key = "voluntary_ctxt_switches:";
        std::ifstream status(path);
        for (std::string line; std::getline(status, line);)
            if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
        return 0;  // The thread ended in between.
    }

    pid_t pid_;
    clockid_t clock_{};
};

}  // namespace echo
