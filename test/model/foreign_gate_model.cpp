// SPDX-License-Identifier: MIT

// Model of the gate of a runtime: threads from outside touch its tasks while it ends.

#include <weft/detail/sched/foreign_gate.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;

namespace {

struct runtime {
    weft::detail::basic_foreign_gate<layer> gate;
    model::lifetime tasks;
    // Written while the gate is open, and read by who is refused.
    layer::var<int> why{0};

    auto visitor(const char* name, int visits) {
        return model::named_thread{name, [this, visits] {
                                       for (int i = 0; i < visits; ++i) {
                                           if (!gate.enter()) {
                                               model::check(why == 7, "refused without a reason");
                                               return;
                                           }
                                           tasks.touch("tasks");
                                           gate.leave();
                                       }
                                   }};
    }
    auto end() {
        return model::named_thread{"end", [this] {
                                       why = 7;
                                       gate.close();
                                       tasks.destroy("tasks");
                                   }};
    }
};

void one_visitor() {
    runtime all;
    model::run_threads(all.visitor("visitor", 2), all.end());
    model::check(!all.gate.enter(), "the gate opens again");
}

void two_visitors() {
    runtime all;
    model::run_threads(all.visitor("visitor", 2), all.visitor("other visitor", 1), all.end());
    model::check(!all.gate.enter(), "the gate opens again");
}

const model::scenario scenarios[] = {
    {"one visitor", one_visitor},
    {"two visitors", two_visitors},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "foreign_gate", scenarios);
}
