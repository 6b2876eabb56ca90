// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace weft::test {

/// Sets (or, given null, removes) an environment variable until the end of its life. Only while no
/// other thread reads the environment.
class environment_variable {
public:
    environment_variable(const char* name, const char* value) : name_(name) {
        if (const char* found = std::getenv(name)) before_ = found;
        set(value);
    }
    ~environment_variable() { set(before_ ? before_->c_str() : nullptr); }
    environment_variable(const environment_variable&) = delete;
    environment_variable& operator=(const environment_variable&) = delete;

private:
    void set(const char* value) {
        if (value != nullptr) {
            ::setenv(name_, value, 1);
        } else {
            ::unsetenv(name_);
        }
    }

    const char* name_;
    std::optional<std::string> before_;
};

}  // namespace weft::test
