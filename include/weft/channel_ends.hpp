// SPDX-License-Identifier: MIT
#pragma once

#include <weft/channel.hpp>
#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/sync/end_counts.hpp>

#include <cstddef>
#include <utility>

namespace weft {

namespace detail {

/// A channel that belongs to its ends.
template <class Value>
struct ended_channel {
    using side = end_counts<layer>::side;

    explicit ended_channel(std::size_t capacity) : between(capacity) {}

    // The last of its side. What was sent and will never be received goes at once: it may hold the
    // end of another channel, whose other side waits to learn of that.
    void drop(side of) noexcept {
        if (!counts.drop(of)) return;
        between.close();
        while (of == side::receiving && between.try_recv()) {}
        if (counts.leave()) delete this;
    }

    channel<Value> between;
    end_counts<layer> counts;
};

/// What both kinds of ends have in common: a share of a channel, on one side of it.
template <class Value, end_counts<layer>::side Side>
class channel_end {
public:
    channel_end() noexcept = default;
    channel_end(const channel_end& other) noexcept : of_(other.of_) {
        if (of_ != nullptr) of_->counts.add(Side);
    }
    channel_end(channel_end&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    channel_end& operator=(channel_end other) noexcept {
        std::swap(of_, other.of_);
        return *this;
    }
    ~channel_end() { reset(); }

    /// Is it the end of a channel?
    explicit operator bool() const noexcept { return of_ != nullptr; }

    /// Gives the end up, as its destructor does.
    void reset() noexcept {
        if (auto* const dropped = std::exchange(of_, nullptr)) dropped->drop(Side);
    }

    /// As channel::close: for all ends of both sides.
    bool close() const noexcept { return whole().close(); }
    bool closed() const noexcept { return whole().closed(); }
    std::size_t capacity() const noexcept { return whole().capacity(); }
    std::size_t size() const noexcept { return whole().size(); }

    /// Are these ends of one channel?
    friend bool operator==(const channel_end& one, const channel_end& other) noexcept {
        return one.of_ == other.of_;
    }

protected:
    explicit channel_end(ended_channel<Value>* of) noexcept : of_(of) {}

    channel<Value>& whole() const noexcept {
        if (of_ == nullptr) [[unlikely]] {
            fatal(
                "an end of a channel was used that is empty: it was moved from or reset, or "
                "make_channel has not given it");
        }
        return of_->between;
    }

private:
    ended_channel<Value>* of_ = nullptr;
};

}  // namespace detail

template <class Value>
struct channel_ends;

/// An end of a channel that sends to it: see make_channel().
template <class Value>
class sender : public detail::channel_end<Value, detail::end_counts<detail::layer>::sending> {
public:
    /// Empty.
    sender() noexcept = default;

    /// As channel::send. This end, or a copy of it, must stay until the send has ended.
    [[nodiscard]] detail::send_awaiter<Value> send(Value&& value) const noexcept {
        return this->whole().send(std::move(value));
    }
    /// As channel::try_send; any thread.
    result<void> try_send(Value&& value) const noexcept {
        return this->whole().try_send(std::move(value));
    }

private:
    friend channel_ends<Value>;
    using detail::channel_end<Value, detail::end_counts<detail::layer>::sending>::channel_end;
};

/// An end of a channel that receives from it: see make_channel().
template <class Value>
class receiver : public detail::channel_end<Value, detail::end_counts<detail::layer>::receiving> {
public:
    /// Empty.
    receiver() noexcept = default;

    /// As channel::recv. This end, or a copy of it, must stay until the receive has ended.
    [[nodiscard]] detail::receive_awaiter<Value> recv() const noexcept {
        return this->whole().recv();
    }
    /// As channel::try_recv; any thread.
    result<Value> try_recv() const noexcept { return this->whole().try_recv(); }

private:
    friend channel_ends<Value>;
    using detail::channel_end<Value, detail::end_counts<detail::layer>::receiving>::channel_end;
};

/// What make_channel() gives: the first end of each side.
template <class Value>
struct channel_ends {
    weft::sender<Value> sender;
    weft::receiver<Value> receiver;

    /// See make_channel().
    static channel_ends make(std::size_t capacity) {
        auto* const made = new detail::ended_channel<Value>(capacity);
        return {weft::sender<Value>(made), weft::receiver<Value>(made)};
    }
};

/// Makes a channel that lives as long as one of its ends does, and that is closed when all ends of
/// one side have gone:
///
///     auto [sender, receiver] = weft::make_channel<job>(16);
///     auto worker = weft::co_spawn(work, std::move(receiver));
///     for (job& each : jobs) co_await sender.send(std::move(each));
///     sender.reset();  // no more: recv() of the worker gives nothing after the last job
///
/// Ends are copied where several tasks send, or receive. When the last sender has gone, what has
/// been sent is received, and then receivers get an empty optional. When the last receiver has
/// gone, senders get errc::closed, those who wait at once, and keep their value; values that were
/// sent and that nobody has received are destroyed, on the thread that dropped that receiver.
///
/// A task that has ended may keep its parameters until it is joined, and an end among them with it:
/// where others wait for that end to go, reset() it, or move it into a variable of the body.
///
/// The operations are those of channel, and cases of a select as well. Copying and dropping an end
/// never waits, and any thread may do it; a thread outside that holds one holds a runtime::guard
/// too, if tasks wait for it. As for std::shared_ptr, one end is not to be changed by one thread
/// while another one uses it. To use an empty end ends the process with a message.
///
/// Throws std::bad_alloc. Source: channels of Rust's standard library and of Tokio (mpsc).
template <class Value>
channel_ends<Value> make_channel(std::size_t capacity = 0) {
    return channel_ends<Value>::make(capacity);
}

}  // namespace weft
