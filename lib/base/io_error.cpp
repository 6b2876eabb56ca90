// SPDX-License-Identifier: MIT
#include <weft/io_error.hpp>

#include <string>

namespace weft {

namespace {

std::string describe(std::string_view operation, std::size_t transferred) {
    std::string text(operation);
    text += " failed after ";
    text += std::to_string(transferred);
    text += transferred == 1 ? " byte" : " bytes";
    return text;
}

}  // namespace

io_error::io_error(std::error_code code, std::size_t transferred, std::string_view operation)
    : std::system_error(code, describe(operation, transferred)), transferred_(transferred) {}

// Out of line, so that the type's virtual table lies in the library alone and an io_error thrown
// in one shared object is caught in another.
io_error::~io_error() = default;

}  // namespace weft
