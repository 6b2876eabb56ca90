// SPDX-License-Identifier: MIT
#include "session.hpp"

#include <atomic>
#include <new>

namespace kv {

std::span<char> session::room() {
    if (input_.make_room(parser_.least_size())) return input_.room();
    close_without_memory();
    return {};
}

void session::received(std::size_t bytes) {
    input_.commit(bytes);
    requests_remain_ = true;
}

void session::execute(time_point now) {
    std::size_t executed = 0;
    std::size_t words_left = batch_limit;
    while (requests_remain_ && words_left != 0 && replies_.size() < reply_limit) {
        switch (parse()) {
        case parse_status::incomplete: requests_remain_ = false; break;
        case parse_status::malformed:
            replies_.error("ERR " + parser_.error());
            server_.counters.protocol_errors.fetch_add(1, std::memory_order_relaxed);
            requests_remain_ = false;
            closing_ = true;
            break;
        case parse_status::complete: executed += execute_request(now, words_left) ? 1 : 0; break;
        }
    }
    server_.counters.commands_processed.fetch_add(executed, std::memory_order_relaxed);
}

/// Finds the next request, unless one is executed in part.
parse_status session::parse() {
    if (progress_.unfinished) return parse_status::complete;
    try {
        return parser_.parse(input_.data());
    } catch (const std::bad_alloc&) {
        close_without_memory();
        return parse_status::incomplete;
    }
}

/// Tells whether the request is executed to its end.
bool session::execute_request(time_point now, std::size_t& words_left) {
    --words_left;
    const argument_list request = parser_.arguments();
    if (!request.empty()) {
        progress_.unfinished = false;
        command_context context{.data = data_,
                                .server = server_,
                                .now = now,
                                .out = replies_,
                                .words_left = words_left,
                                .progress = progress_};
        kv::execute(request, context);
        if (progress_.unfinished) return false;
        closing_ = context.close;
    }
    progress_ = {};
    input_.consume(parser_.consumed());
    // What a client sends after QUIT is not executed.
    if (closing_) requests_remain_ = false;
    return true;
}

void session::close_without_memory() {
    replies_.error("ERR the server has no memory left for the requests of its clients");
    closing_ = true;
}

}  // namespace kv
