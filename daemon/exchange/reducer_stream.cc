#include "daemon/exchange/reducer_stream.h"

#include <algorithm>
#include <utility>

#include "compression/base/status_macros.h"

namespace atolld {

ReducerStream::ReducerStream(Env env, const ExchangeSettings& settings, std::string contributor,
                             Lane lane, std::unique_ptr<Call> call, Owner& owner)
    : env_(env),
      settings_(settings),
      contributor_(std::move(contributor)),
      lane_(lane),
      owner_(owner),
      call_(std::move(call)),
      meter_(settings.traffic) {
  meter_.Restart(env_.executor.Now());
  Call::Events events;
  events.on_frame = guard_.Wrap([this](Frame frame) { OnFrame(std::move(frame)); });
  events.on_writable = guard_.Wrap([this] { Pump(); });
  events.on_closed = guard_.Wrap([this](absl::Status) {
    closed_ = true;
    Gone();
  });
  call_->Start(std::move(events));
  call_->Read();
  Tick();
}

ReducerStream::~ReducerStream() { meter_.Update(*call_, env_.executor.Now()); }

void ReducerStream::Offer(uint32_t chunk, uint32_t attempt) {
  if (closed_ || !lane_.Carries(chunk)) return;
  uint32_t& there = there_[chunk];
  if (there == attempt) return;
  there = attempt;
  todo_.emplace_back(chunk, attempt);
  Pump();
}

void ReducerStream::Pump() {
  using Delivery = Owner::Delivery;
  while (!closed_ && !todo_.empty() && call_->unsent_bytes() < kMaxUnsentBytes) {
    for (size_t i = 1; i < std::min(todo_.size(), kChunksAhead); ++i) {
      owner_.PrepareResult(*this, todo_[i].first, todo_[i].second);
    }
    const auto [chunk, attempt] = todo_.front();
    const Delivery delivery = owner_.PrepareResult(*this, chunk, attempt);
    if (delivery == Delivery::kLater) break;
    todo_.pop_front();
    if (delivery == Delivery::kReady) {
      call_->Write(owner_.ResultFrame(chunk));
    } else if (there_[chunk] == attempt) {
      there_.erase(chunk);  // it may be wanted again under a later plan
    }
  }
  meter_.Update(*call_, env_.executor.Now());
}

void ReducerStream::OnFrame(Frame frame) {
  if (closed_) return;
  NoteArrival(settings_, contributor_, frame, env_.executor.Now());
  v1::ToReducer message;
  const absl::Status status = Unpack(frame, &message);
  if (status.ok() && message.has_leaves()) return OnLeaves(message.leaves());
  if (!status.ok() || !message.has_chunk()) {
    return Close(absl::InvalidArgumentError("a frame that is not a contribution"));
  }
  if (settings_.arrivals != nullptr && message.chunk().contributors().empty()) {
    settings_.arrivals->NoteUpdate(frame.message.size() + frame.payload.size());
  }
  Judge(message.chunk(), frame.payload.Joined());
}

void ReducerStream::OnLeaves(const v1::ContributionLeaves& part) {
  const size_t all = settings_.grid.chunks() * kLeafBytes;
  if (part.leaves().empty() || part.leaves().size() > all - leaves_.size()) {
    return Close(absl::InvalidArgumentError("more leaves than there are chunks, or none"));
  }
  leaves_ += part.leaves();
  if (leaves_.size() == all) {
    const absl::Status status = owner_.OnLeaves(*this, std::exchange(leaves_, std::string()));
    if (!status.ok()) return Close(status);
  }
  if (!closed_) call_->Read();
}

void ReducerStream::Judge(const v1::ContributionChunk& chunk, const SharedBytes& payload) {
  const absl::StatusOr<Owner::Fate> fate = owner_.OnContribution(*this, chunk, payload);
  if (!fate.ok()) return Close(fate.status());
  if (closed_) return;
  if (*fate == Owner::Fate::kNext) return call_->Read();
  held_.emplace(chunk, payload);
  held_since_ = env_.executor.Now();
}

void ReducerStream::Resume() {
  if (!held_.has_value() || closed_) return;
  const absl::Time since = held_since_;
  const auto [chunk, payload] = *std::exchange(held_, std::nullopt);
  Judge(chunk, payload);
  if (held_.has_value()) held_since_ = since;
}

void ReducerStream::Close(absl::Status status) {
  if (closed_) return;
  closed_ = true;
  held_.reset();
  todo_.clear();
  call_->Finish(std::move(status));
}

void ReducerStream::Gone() {
  if (gone_) return;
  gone_ = true;
  closed_ = true;
  env_.executor.Post(guard_.Wrap([this] { owner_.OnGone(this); }));
}

void ReducerStream::Tick() {
  const absl::Time now = env_.executor.Now();
  meter_.Update(*call_, now);
  // Before its first byte a stream has nothing to send, so it has not stood still either.
  const bool waits = call_->unsent_bytes() > 0;
  if (waits && now - meter_.moved() >= settings_.failure_timeout) {
    env_.log.Warning(absl::StrCat("stream of ", contributor_, " has not moved for ",
                                  absl::FormatDuration(settings_.failure_timeout)));
    return Gone();
  }
  if (!waits) meter_.Touch(now);
  if (held_.has_value() && now - held_since_ >= settings_.failure_timeout) {
    Close(absl::FailedPreconditionError("the plan that the chunk belongs to has not arrived here"));
  }
  env_.executor.RunAfter(settings_.failure_timeout / 8, guard_.Wrap([this] { Tick(); }));
}

}  // namespace atolld
