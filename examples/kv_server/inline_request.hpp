// SPDX-License-Identifier: MIT
#pragma once

#include "argument_list.hpp"

#include <span>

namespace kv {

/// Splits an inline request, a line as a human types it into telnet, into arguments.
///
/// `line` is the line without its line end. Arguments are separated by white space. Inside double
/// quotes \n, \r, \t, \b, \a and \xHH stand for one byte, and a backslash makes any other byte
/// literal; inside single quotes only \' does. A closing quote ends the argument: white space or
/// the end of the line must follow. Where quotes or escapes make an argument shorter than its text,
/// it is moved together in place, so `line` is written to and nothing is copied elsewhere.
///
/// Appends the arguments, with offsets from the first byte of `line`, to `arguments`. Returns false
/// if quotes are unbalanced; `arguments` and `line` then hold nothing of use, and neither do they
/// after std::bad_alloc.
bool split_inline_request(std::span<char> line, slice_list& arguments);

}  // namespace kv
