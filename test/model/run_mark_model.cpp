// SPDX-License-Identifier: MIT

// Model of what the watchdog sees of a worker: the mark is of one run or none, and the control
// block that it names is not given back while it is read.

#include <weft/detail/sched/join_word.hpp>
#include <weft/detail/sched/run_mark.hpp>

#include "explorer.hpp"

#include <cstdint>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

/// A control block. Its life is changed by who gives it back, its facts by the next spawn.
struct block {
    weft::detail::join_word<layer, int> join;
    layer::atomic<std::uint32_t> life{1};
    layer::var<int> name{1};
};

struct sight {
    std::uint64_t count = 0;
    block* branch = nullptr;
    std::uint32_t life = 0;
    int site = 0;
};

struct fixture {
    weft::detail::run_mark<layer, block, int> mark;
    weft::detail::examination<layer, block> examined;
    block blocks[2];

    bool has_ended(const block& asked, std::uint32_t life) const {
        return asked.join.finished() || asked.life.load(order::acquire) != life;
    }

    /// As the watchdog's report: nothing of another life is read, and nothing that is being
    /// written. True: there was a name.
    bool examine() {
        const auto seen = mark.look<sight>();
        if (seen.branch == nullptr) { return false; }
        block& of = *seen.branch;
        return examined.examine(
            of, [&] { return has_ended(of, seen.life); },
            [&] {
                model::check(of.name == static_cast<int>(seen.life), "the name of another life");
            });
    }

    /// The end of a task and the use of its block for the next one.
    void end(block& ended) { ended.join.finish(); }
    void give_back(block& ended) {
        examined.await_reader(ended);
        ended.name = 0;
        ended.life.store(ended.life.load(order::relaxed) + 1, order::relaxed);
    }
    void spawn_in(block& used) {
        used.name = static_cast<int>(used.life.load(order::relaxed));
        used.join.reset();
    }
    void run(block& task, int site) { mark.begin(&task, task.life.load(order::relaxed), site); }
};

// All that is seen is of one run: life and site say which block it was.
void one_run_or_none() {
    fixture all;
    all.blocks[1].life.store(2, order::relaxed);
    model::run_threads(
        model::named_thread{"worker",
                            [&] {
                                for (const int which : {0, 1, 0}) {
                                    all.run(all.blocks[which], which);
                                    all.mark.end();
                                }
                            }},
        model::named_thread{"watchdog", [&] {
                                const auto seen = all.mark.look<sight>();
                                if (seen.branch == nullptr) { return; }
                                const int which = static_cast<int>(seen.branch - all.blocks);
                                model::check(seen.site == which, "the site of another run");
                                model::check(seen.life == 1U + static_cast<unsigned>(which),
                                             "the life of another run");
                            }});
}

// Two looks that agree saw one run: nothing else ran in between.
void the_same_run() {
    fixture all;
    layer::atomic<int> ran{0};
    model::run_threads(
        model::named_thread{"worker",
                            [&] {
                                for (int i = 1; i <= 3; ++i) {
                                    all.run(all.blocks[0], 0);
                                    ran.store(i, order::seq_cst);
                                    all.mark.end();
                                }
                            }},
        model::named_thread{"watchdog", [&] {
                                const auto before = all.mark.look<sight>();
                                const int from = ran.load(order::seq_cst);
                                const auto after = all.mark.look<sight>();
                                if (before.branch == nullptr || before.count != after.count) {
                                    return;
                                }
                                model::check(from <= static_cast<int>(before.count),
                                             "another run was taken for the same");
                            }});
}

// A detached task ends after what it has left behind, and has its name until then.
void the_task_leaves_something_behind() {
    fixture all;
    layer::atomic<bool> destroys{false};
    layer::atomic<bool> destroyed{false};
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               all.run(all.blocks[0], 0);
                                               // Detached while it began to end.
                                               all.end(all.blocks[0]);
                                               all.blocks[0].join.reset();
                                               destroys.store(true, order::seq_cst);
                                               destroyed.store(true, order::seq_cst);
                                               all.end(all.blocks[0]);
                                               all.give_back(all.blocks[0]);
                                               all.mark.end();
                                           }},
                       model::named_thread{"watchdog", [&] {
                                               const bool before = destroys.load(order::seq_cst);
                                               const bool named = all.examine();
                                               const bool over = destroyed.load(order::seq_cst);
                                               model::check(named || !before || over,
                                                            "no name while it is kept");
                                           }});
}

// The task ends on the worker that runs it.
void the_task_ends() {
    fixture all;
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               all.run(all.blocks[0], 0);
                                               all.mark.end();
                                               all.end(all.blocks[0]);
                                               all.give_back(all.blocks[0]);
                                           }},
                       model::named_thread{"watchdog", [&] { all.examine(); }});
}

// The worker still names the task when another one has ended it, given its block back and used it
// again.
void the_task_ends_elsewhere() {
    fixture all;
    layer::atomic<bool> published{false};
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               all.run(all.blocks[0], 0);
                                               published.store(true, order::release);
                                               all.mark.end();
                                           }},
                       model::named_thread{"other worker",
                                           [&] {
                                               while (!published.load(order::acquire)) {
                                                   layer::pause();
                                               }
                                               all.end(all.blocks[0]);
                                               all.give_back(all.blocks[0]);
                                               all.spawn_in(all.blocks[0]);
                                           }},
                       model::named_thread{"watchdog", [&] { all.examine(); }});
}

// One thread ends the task and another one, which was told so, gives the block back.
void the_joiner_gives_back() {
    fixture all;
    layer::atomic<bool> told{false};
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               all.run(all.blocks[0], 0);
                                               all.mark.end();
                                               all.end(all.blocks[0]);
                                               told.store(true, order::release);
                                           }},
                       model::named_thread{"joiner",
                                           [&] {
                                               while (!told.load(order::acquire)) {
                                                   layer::pause();
                                               }
                                               all.give_back(all.blocks[0]);
                                           }},
                       model::named_thread{"watchdog", [&] {
                                               all.examine();
                                               all.examine();
                                           }});
}

const model::scenario scenarios[] = {
    {"one run or none", one_run_or_none},
    {"the same run", the_same_run},
    {"the task leaves something behind", the_task_leaves_something_behind},
    {"the task ends", the_task_ends},
    {"the task ends elsewhere", the_task_ends_elsewhere},
    {"the joiner gives back", the_joiner_gives_back},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "run_mark", scenarios);
}
