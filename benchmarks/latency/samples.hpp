// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace latency {

using clock = std::chrono::steady_clock;

/// The latencies of one case, all of them kept: there are at most some thousands.
class samples {
public:
    void add(clock::duration latency) {
        values_.push_back(std::chrono::duration<double, std::micro>(latency).count());
    }
    std::size_t count() const { return values_.size(); }

    /// One line of JSON with the quantiles, which sorts the values.
    void print(const char* runtime) {
        std::sort(values_.begin(), values_.end());
        std::printf("{\"runtime\": \"%s\", \"samples\": %zu, \"p50_us\": %.3f, \"p90_us\": %.3f, "
                    "\"p99_us\": %.3f, \"p999_us\": %.3f, \"max_us\": %.3f}\n",
                    runtime, values_.size(), quantile(0.5), quantile(0.9), quantile(0.99),
                    quantile(0.999), quantile(1));
    }

private:
    double quantile(double fraction) const {
        if (values_.empty()) return 0;
        const auto last = values_.size() - 1;
        return values_[static_cast<std::size_t>(fraction * static_cast<double>(last) + 0.5)];
    }

    std::vector<double> values_;
};

}  // namespace latency
