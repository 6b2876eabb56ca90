// SPDX-License-Identifier: MIT

// Model of the ends of a channel: they are copied and dropped by several threads. Each side goes
// once, when nobody has an end of it any more, and the channel is destroyed once, by somebody who
// sees all that others have done with it.

#include <weft/detail/sync/end_counts.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using counts = weft::detail::end_counts<layer>;

namespace {

struct world {
    counts of;
    // Written by each thread before it drops its end.
    layer::var<int> used[3];
    layer::var<bool> closed[2];
    int gone[2] = {};
    int destroyed = 0;

    void drop(counts::side side) {
        if (!of.drop(side)) return;
        ++gone[side];
        closed[side] = true;
        for (int each = 0; side == counts::sending && each < senders; ++each) {
            model::check(used[each] == 5, "what another end did is not visible");
        }
        if (!of.leave()) return;
        ++destroyed;
        model::check(closed[0] && closed[1], "destroyed before a side has gone");
        for (auto& each : used) model::check(each == 5, "destroyed while it is used");
    }
    void use_and_drop(int which, counts::side side) {
        used[which] = 5;
        drop(side);
    }
    void check_end() const {
        model::check(gone[0] == 1 && gone[1] == 1, "a side has not gone once");
        model::check(destroyed == 1, "not destroyed once");
    }

    int senders = 1;
};

void drop_both_sides() {
    world all;
    all.used[1] = 5;
    model::run_threads(
        model::named_thread{"sender", [&] { all.use_and_drop(0, counts::sending); }},
        model::named_thread{"receiver", [&] { all.use_and_drop(2, counts::receiving); }});
    all.check_end();
}

void two_senders() {
    world all;
    all.senders = 2;
    all.of.add(counts::sending);
    model::run_threads(
        model::named_thread{"sender 1", [&] { all.use_and_drop(0, counts::sending); }},
        model::named_thread{"sender 2", [&] { all.use_and_drop(1, counts::sending); }},
        model::named_thread{"receiver", [&] { all.use_and_drop(2, counts::receiving); }});
    all.check_end();
}

// One copies its end and drops both while another one drops its own.
void copy_against_drop() {
    world all;
    all.senders = 2;
    all.of.add(counts::sending);
    model::run_threads(
        model::named_thread{"sender 1",
                            [&] {
                                all.of.add(counts::sending);
                                all.drop(counts::sending);
                                all.use_and_drop(0, counts::sending);
                            }},
        model::named_thread{"sender 2", [&] { all.use_and_drop(1, counts::sending); }});
    model::check(all.gone[counts::sending] == 1, "the side of the senders has not gone once");
    model::check(all.destroyed == 0, "destroyed while somebody receives");
    all.use_and_drop(2, counts::receiving);
    all.check_end();
}

const model::scenario scenarios[] = {
    {"drop both sides", drop_both_sides},
    {"two senders and a receiver", two_senders},
    {"copy against drop", copy_against_drop},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "end_counts", scenarios);
}
