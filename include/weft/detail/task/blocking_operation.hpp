// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/blocking/blocking_job.hpp>
#include <weft/detail/blocking/stop_order.hpp>
#include <weft/detail/sched/runtime_hold.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/task.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

namespace weft::detail {

/// The wait for a call that a machine of the blocking pool makes. The call and what it works on lie
/// in the awaiting frame, which lives until the call has returned.
class blocking_operation : public operation, public blocking_job {
public:
    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;
    void run() noexcept final;
    void refuse(int error) noexcept final;

protected:
    explicit blocking_operation(bool waits = true) noexcept
        : operation(false, wait_reason::blocking), blocking_job(job_kind::awaited), waits_(waits) {}
    blocking_operation(const blocking_operation&) = default;
    ~blocking_operation() = default;

    /// On the machine: makes the call and keeps what comes of it.
    virtual void invoke() noexcept = 0;
    /// By which the call is told that its scope is stopped; null if it does not listen.
    virtual std::shared_ptr<stop_order> stop() const noexcept = 0;

    /// Throws if the call was refused.
    void throw_if_refused() const;

private:
    void finish() noexcept;

    const bool waits_;  ///< For a machine, while all are busy.
    int refusal_ = 0;
};

/// The value that a call has returned, until it is taken.
template <class T>
class call_result {
public:
    template <class Call>
    void keep(Call&& call) {
        value_.emplace(std::forward<Call>(call)());
    }
    T take() { return *std::move(value_); }

private:
    std::optional<T> value_;
};

template <class T>
class call_result<T&> {
public:
    template <class Call>
    void keep(Call&& call) {
        value_ = std::addressof(std::forward<Call>(call)());
    }
    T& take() { return *value_; }

private:
    T* value_ = nullptr;
};

template <>
class call_result<void> {
public:
    template <class Call>
    void keep(Call&& call) {
        std::forward<Call>(call)();
    }
    void take() {}
};

/// Does the function take a stop token before its arguments?
template <class Function, class... Arguments>
inline constexpr bool takes_stop_token =
    std::is_invocable_v<Function, std::stop_token, Arguments...>;

template <class Function, class... Arguments>
concept blocking_function =
    std::invocable<Function, Arguments...> || takes_stop_token<Function, Arguments...>;

/// The stop of a call that takes a token; others pay nothing for it.
class call_stop {
public:
    std::stop_token token() const noexcept { return order_->source.get_token(); }
    std::shared_ptr<stop_order> order() const noexcept { return order_; }

private:
    std::shared_ptr<stop_order> order_ = std::make_shared<stop_order>();
};
class no_call_stop {
public:
    std::shared_ptr<stop_order> order() const noexcept { return {}; }
};

template <class Function, class... Arguments>
struct blocking_call_type {
    using type = std::invoke_result_t<Function, Arguments...>;
};
template <class Function, class... Arguments>
    requires takes_stop_token<Function, Arguments...>
struct blocking_call_type<Function, Arguments...> {
    using type = std::invoke_result_t<Function, std::stop_token, Arguments...>;
};
template <class Function, class... Arguments>
using blocking_value = typename blocking_call_type<Function, Arguments...>::type;

/// The call would only make the frame of a coroutine, which nobody runs.
template <class Value>
constexpr void check_makes_no_task() noexcept {
    static_assert(!is_task<std::remove_cvref_t<Value>>,
                  "weft: the function that is given to blocking() makes a task, which nothing "
                  "would run; await the task itself, or give a function that is no coroutine");
}

template <class Function, class... Arguments>
class [[nodiscard]] blocking_awaiter final : public awaiter<blocking_operation> {
    static constexpr bool with_token = takes_stop_token<Function, Arguments...>;
    using value = blocking_value<Function, Arguments...>;

public:
    template <class F, class... A>
    explicit blocking_awaiter(bool waits, F&& function, A&&... arguments)
        : awaiter<blocking_operation>(waits),
          function_(std::forward<F>(function)), arguments_(std::forward<A>(arguments)...) {}
    blocking_awaiter(blocking_awaiter&& other) = default;
    ~blocking_awaiter() = default;

    value await_resume() {
        throw_unless_completed();
        throw_if_refused();
        if (failure_ != nullptr) { std::rethrow_exception(std::move(failure_)); }
        return result_.take();
    }

private:
    void invoke() noexcept override {
        try {
            result_.keep([this]() -> value {
                return std::apply(
                    [this](Arguments&... arguments) -> value {
                        if constexpr (with_token) {
                            return std::invoke(std::move(function_), stop_.token(),
                                               std::move(arguments)...);
                        } else {
                            return std::invoke(std::move(function_), std::move(arguments)...);
                        }
                    },
                    arguments_);
            });
        } catch (...) { failure_ = std::current_exception(); }
    }
    std::shared_ptr<stop_order> stop() const noexcept override { return stop_.order(); }

    Function function_;
    std::tuple<Arguments...> arguments_;
    [[no_unique_address]] std::conditional_t<with_token, call_stop, no_call_stop> stop_;
    call_result<value> result_;
    std::exception_ptr failure_;
};

/// A call that nobody waits for, with all that it works on; it destroys itself.
class detached_call : public blocking_job {
public:
    virtual ~detached_call() = default;
    void run() noexcept final;
    void refuse(int error) noexcept final;

    /// The call may wake tasks until it has returned.
    void hold(runtime_hold held) noexcept { hold_ = std::move(held); }
    /// The task that has made it, for a report.
    void made_by(std::uint64_t task_id, std::source_location spawn_site) noexcept {
        task_id_ = task_id;
        spawn_site_ = spawn_site;
    }

protected:
    detached_call() noexcept : blocking_job(job_kind::detached) {}

    virtual void invoke() = 0;

private:
    runtime_hold hold_;
    std::uint64_t task_id_ = 0;
    std::source_location spawn_site_;
};

template <class Function, class... Arguments>
class detached_call_of final : public detached_call {
public:
    template <class F, class... A>
    explicit detached_call_of(F&& function, A&&... arguments)
        : function_(std::forward<F>(function)), arguments_(std::forward<A>(arguments)...) {}

private:
    void invoke() override {
        std::apply(
            [this](Arguments&... arguments) {
                static_cast<void>(std::invoke(std::move(function_), std::move(arguments)...));
            },
            arguments_);
    }

    Function function_;
    std::tuple<Arguments...> arguments_;
};

/// Hands the call to the pool of the calling worker's runtime. Throws std::logic_error elsewhere.
void submit_detached(std::unique_ptr<detached_call> call);

}  // namespace weft::detail
