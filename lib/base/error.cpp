// SPDX-License-Identifier: MIT
#include <weft/error.hpp>

#include <string>

namespace weft {

namespace {

class category final : public std::error_category {
public:
    const char* name() const noexcept override { return "weft"; }

    std::string message(int value) const override {
        switch (static_cast<errc>(value)) {
            case errc::unexpected_eof:
                return "the stream ended before all the bytes asked for had come; the peer closed "
                       "early or sent less than was expected: use read_some where the length is "
                       "not known";
            case errc::stopped:
                return "the runtime is ending and starts nothing new; return from the task, and "
                       "start work before the main task returns";
            case errc::closed:
                return "the object was closed on this side; end the tasks that use it before "
                       "closing it, or treat this error as their end";
        }
        return "unknown error of weft; the number does not come from weft::errc";
    }

    std::error_condition default_error_condition(int value) const noexcept override {
        switch (static_cast<errc>(value)) {
            case errc::unexpected_eof:
                break;
            case errc::stopped:
                return std::errc::operation_canceled;
            case errc::closed:
                return std::errc::bad_file_descriptor;
        }
        return {value, *this};
    }
};

// Made at compile time and never destroyed (a union does not destroy its member), so it can be used
// from the first static constructor that runs to the last static destructor.
union immortal_category {
    constexpr immortal_category() noexcept : value() {}
    ~immortal_category() {}

    category value;
};

constinit const immortal_category the_category;

}  // namespace

const std::error_category& weft_category() noexcept {
    return the_category.value;
}

}  // namespace weft
