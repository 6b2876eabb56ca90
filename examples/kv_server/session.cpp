// SPDX-License-Identifier: MIT
#include "session.hpp"

#include <atomic>

namespace kv {

std::span<char> session::room() {
    if (input_.make_room(parser_.least_size())) return input_.room();
    replies_.error("ERR the server has no memory left for the requests of its clients");
    closing_ = true;
    return {};
}

void session::received(std::size_t bytes) {
    input_.commit(bytes);
    requests_remain_ = true;
}

void session::execute(time_point now) {
    std::size_t executed = 0;
    while (requests_remain_ && executed < batch_limit && replies_.size() < reply_limit) {
        switch (parser_.parse(input_.data())) {
        case parse_status::incomplete: requests_remain_ = false; break;
        case parse_status::malformed:
            replies_.error("ERR " + parser_.error());
            server_.counters.protocol_errors.fetch_add(1, std::memory_order_relaxed);
            requests_remain_ = false;
            closing_ = true;
            break;
        case parse_status::complete:
            execute_request(now);
            ++executed;
            break;
        }
    }
    server_.counters.commands_processed.fetch_add(executed, std::memory_order_relaxed);
}

void session::execute_request(time_point now) {
    const argument_list request = parser_.arguments();
    if (!request.empty()) {
        command_context context{.data = data_, .server = server_, .now = now, .out = replies_};
        kv::execute(request, context);
        closing_ = context.close;
    }
    input_.consume(parser_.consumed());
    // What a client sends after QUIT is not executed.
    if (closing_) requests_remain_ = false;
}

}  // namespace kv
