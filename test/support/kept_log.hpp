// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

/// What a runtime says, for tests that count it: all lines but the one by which it falls back to
/// epoll. Any thread.
class kept_log {
public:
    /// For runtime_options::log.
    std::function<void(std::string_view)> sink() {
        return [this](std::string_view line) {
            if (line.find("using epoll") != std::string_view::npos) return;
            const std::lock_guard held(mutex_);
            lines_.emplace_back(line);
        };
    }

    std::vector<std::string> lines() {
        const std::lock_guard held(mutex_);
        return lines_;
    }
    std::size_t size() {
        const std::lock_guard held(mutex_);
        return lines_.size();
    }
    std::string text() {
        std::string all;
        for (const auto& each : lines()) all += each + "\n";
        return all;
    }
    /// How many lines contain that part.
    std::size_t count(const std::string& part) {
        std::size_t found = 0;
        for (const auto& each : lines()) found += each.find(part) != std::string::npos ? 1 : 0;
        return found;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

}  // namespace weft::test
