#include "daemon/exchange/reducer_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "membership/planning/arrival_log.h"

namespace atolld {
namespace {

// Streams of peers that the plan does not name: stragglers that only receive.
constexpr size_t kMaxGuests = 64;

}  // namespace

ReducerStream::ReducerStream(Env env, const ExchangeSettings& settings, std::string contributor,
                             Lane lane, std::unique_ptr<Call> call, Owner& owner, Sink& sink)
    : env_(env),
      settings_(settings),
      contributor_(std::move(contributor)),
      lane_(lane),
      owner_(owner),
      sink_(sink),
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
  CountArrival(settings_.traffic, FrameBytes(frame));
  NoteArrival(settings_.arrivals, contributor_, frame, env_.executor.Now());
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
  if (leaves_.size() == all) return JudgeLeaves();
  call_->Read();
}

void ReducerStream::JudgeLeaves() {
  const absl::StatusOr<Sink::Fate> fate = sink_.OnLeaves(*this, leaves_);
  if (!fate.ok()) return Close(fate.status());
  if (closed_) return;
  leaves_early_ = *fate == Sink::Fate::kEarly;
  if (leaves_early_) {
    held_since_ = env_.executor.Now();
    return;
  }
  leaves_.clear();
  call_->Read();
}

void ReducerStream::Judge(const v1::ContributionChunk& chunk, const SharedBytes& payload) {
  const absl::StatusOr<Sink::Fate> fate = sink_.OnContribution(*this, chunk, payload);
  if (!fate.ok()) return Close(fate.status());
  if (closed_) return;
  if (*fate == Sink::Fate::kNext) return call_->Read();
  held_.emplace(chunk, payload);
  held_since_ = env_.executor.Now();
}

void ReducerStream::Resume() {
  if (closed_) return;
  const absl::Time since = held_since_;
  if (leaves_early_) {
    JudgeLeaves();
    if (leaves_early_) held_since_ = since;
    return;
  }
  if (!held_.has_value()) return;
  const auto [chunk, payload] = *std::exchange(held_, std::nullopt);
  Judge(chunk, payload);
  if (held_.has_value()) held_since_ = since;
}

void ReducerStream::Close(absl::Status status) {
  if (closed_) return;
  closed_ = true;
  held_.reset();
  leaves_early_ = false;
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
  // If no byte waits, the stream has nothing to send, so it has not stalled.
  const bool waits = call_->unsent_bytes() > 0;
  if (waits && now - meter_.moved() >= settings_.failure_timeout) {
    env_.log.Warning(absl::StrCat("stream of ", contributor_, " has not moved for ",
                                  absl::FormatDuration(settings_.failure_timeout)));
    return Gone();
  }
  if (!waits) meter_.Touch(now);
  const bool early = held_.has_value() || leaves_early_;
  if (early && now - held_since_ >= settings_.failure_timeout) {
    Close(absl::FailedPreconditionError("the plan that the chunk belongs to has not arrived here"));
  }
  env_.executor.RunAfter(settings_.failure_timeout / 8, guard_.Wrap([this] { Tick(); }));
}

ReducerStreams::ReducerStreams(Env env, const ExchangeSettings& settings, const ChunkForm& form,
                               const ExchangePlan& plan, const OutcomeBuild& outcome,
                               ReducerStream::Sink& sink)
    : env_(env),
      settings_(settings),
      form_(form),
      plan_(plan),
      outcome_(outcome),
      sink_(sink),
      wire_(settings.grid.chunks()),
      refusals_(env.executor) {}

absl::Status ReducerStreams::WhyRefused(const v1::ExchangeOpen& open, const Lane& lane) const {
  if (!IsValidId(open.contributor()) || open.contributor() == settings_.self) {
    return absl::InvalidArgumentError("its contributor's name is not that of another peer");
  }
  RETURN_IF_ERROR(CheckHolding(&open));
  if (!lane.Valid()) {
    return absl::InvalidArgumentError(absl::StrCat("lane ", lane.number, " of ", lane.count,
                                                   ": at most ", Lane::kMost, ", from 0"));
  }
  const size_t most = plan_.contributors().size() + plan_.servers().size() + kMaxGuests;
  if (streams_.count({open.contributor(), lane}) == 0 && streams_.size() >= Lane::kMost * most) {
    return absl::ResourceExhaustedError("too many streams");
  }
  return absl::OkStatus();
}

void ReducerStreams::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call,
                            absl::Time opened) {
  const Lane lane = {open.lane(), std::max(1u, open.lanes())};
  const absl::Status refusal = WhyRefused(open, lane);
  if (!refusal.ok()) return Refuse(std::move(call), refusal);
  v1::ToReducer first;
  *first.mutable_open() = open;
  CountArrival(settings_.traffic, first.ByteSizeLong());
  if (settings_.arrivals != nullptr) settings_.arrivals->NoteOpen(open.contributor(), opened);
  // A second stream of a peer replaces the first: the peer has dialled again before this end
  // noticed the break.
  std::unique_ptr<ReducerStream>& stream = streams_[{open.contributor(), lane}];
  stream = std::make_unique<ReducerStream>(env_, settings_, open.contributor(), lane,
                                           std::move(call), *this, sink_);
  MarkWhatIsThere(open, stream.get());
  OfferAll(stream.get());
}

void ReducerStreams::Refuse(std::unique_ptr<Call> call, const absl::Status& why) {
  refusals_.Refuse(std::move(call), why);
}

void ReducerStreams::DropMeans(const std::vector<uint32_t>& chunks) {
  for (const uint32_t chunk : chunks) wire_[chunk] = SharedBytes();
}

std::vector<uint32_t> ReducerStreams::ServedShards() const {
  std::vector<uint32_t> served;
  for (uint32_t s = 0; s < plan_.shards().size(); ++s) {
    const ExchangePlan::Shard& shard = plan_.shards()[s];
    const bool serves =
        shard.holder.empty()
            ? shard.reducer == settings_.self || plan_.RelayNamed(shard, settings_.self) != nullptr
            : shard.holder == settings_.self;
    if (serves) served.push_back(s);
  }
  return served;
}

void ReducerStreams::Resume() {
  served_ = ServedShards();
  for (const auto& [key, stream] : streams_) {
    stream->Resume();
    OfferAll(stream.get());
  }
}

absl::Status ReducerStreams::CheckHolding() {
  const absl::Status lack = CheckHolding(nullptr);
  if (lack.ok()) return lack;
  for (const auto& [key, stream] : streams_) {
    stream->Close(absl::UnavailableError("a new plan: say again what is there"));
  }
  return lack;
}

void ReducerStreams::Offer(uint32_t chunk, uint32_t attempt) {
  const ExchangePlan::Shard& shard = plan_.ShardOf(chunk);
  for (const auto& [key, stream] : streams_) {
    if (plan_.SourceOf(shard, key.first) == settings_.self) stream->Offer(chunk, attempt);
  }
}

void ReducerStreams::CloseOf(const std::string& contributor, const absl::Status& why) {
  auto it = streams_.lower_bound({contributor, Lane{0, 0}});
  for (; it != streams_.end() && it->first.first == contributor; ++it) it->second->Close(why);
}

uint64_t ReducerStreams::held_bytes() const {
  uint64_t bytes = 0;
  for (const SharedBytes& wire : wire_) bytes += wire.size();
  return bytes;
}

// Fails with FAILED_PRECONDITION if this peer must hold a shard but lacks a mean of it. With an
// Open, only means that the other peer lacks as well count.
absl::Status ReducerStreams::CheckHolding(const v1::ExchangeOpen* open) const {
  const bool told =
      open != nullptr && open->received_attempts_size() == static_cast<int>(plan_.shards().size());
  for (const uint32_t i : served_) {
    const ExchangePlan::Shard& shard = plan_.shards()[i];
    if (shard.holder != settings_.self) continue;
    const bool same = told && open->received_attempts(static_cast<int>(i)) == shard.attempt;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (outcome_.Has(c) || (same && BitAt(open->received(), c))) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("chunk ", c, " of shard ", i, " is not here, though this peer holds it"));
    }
  }
  return absl::OkStatus();
}

void ReducerStreams::MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const {
  if (open.received_attempts_size() != static_cast<int>(plan_.shards().size())) return;
  if (CountBits(open.received()) == 0) return;
  for (size_t i = 0; i < plan_.shards().size(); ++i) {
    const ExchangePlan::Shard& shard = plan_.shards()[i];
    if (shard.attempt != open.received_attempts(static_cast<int>(i))) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (BitAt(open.received(), c)) stream->MarkHeld(c, shard.attempt);
    }
  }
}

void ReducerStreams::OfferAll(ReducerStream* stream) const {
  for (const uint32_t s : served_) {
    const ExchangePlan::Shard& shard = plan_.shards()[s];
    if (plan_.SourceOf(shard, stream->contributor()) != settings_.self) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (outcome_.Has(c)) stream->Offer(c, shard.attempt);
    }
  }
}

ReducerStream::Owner::Delivery ReducerStreams::PrepareResult(const ReducerStream& stream,
                                                             uint32_t chunk, uint32_t attempt) {
  const bool wanted = outcome_.at(chunk).attempt == attempt &&
                      plan_.SourceOf(plan_.ShardOf(chunk), stream.contributor()) == settings_.self;
  if (!wanted) return Delivery::kUnwanted;
  if (!settings_.upper_zstd || !wire_[chunk].empty()) return Delivery::kReady;
  Compress(chunk);
  return Delivery::kLater;
}

// Makes the wire form of a mean. Only a holder needs it: a peer that averaged or relayed a chunk
// already has that form.
void ReducerStreams::Compress(uint32_t chunk) {
  if (!compressing_.insert(chunk).second) return;
  auto wire = std::make_shared<SharedBytes>();
  env_.executor.Offload([wire, form = form_, encoded = outcome_.at(chunk).encoded,
                         chunk] { *wire = form.ToWire(encoded); },
                        guard_.Wrap([this, wire, chunk, attempt = outcome_.at(chunk).attempt] {
                          compressing_.erase(chunk);
                          if (outcome_.at(chunk).attempt == attempt) wire_[chunk] = *wire;
                          for (const auto& [key, stream] : streams_) stream->Pump();
                        }));
}

Frame ReducerStreams::ResultFrame(uint32_t chunk) const {
  const ChunkMean& mean = outcome_.at(chunk);
  v1::FromReducer message;
  v1::ResultChunk* const head = message.mutable_chunk();
  head->set_attempt(mean.attempt);
  head->set_chunk(chunk);
  head->set_contributors(mean.contributors);
  for (const std::string& partial : mean.partials) head->add_partials(partial);
  head->set_revision(plan_.revision());
  return Pack(message, settings_.upper_zstd ? wire_[chunk] : mean.encoded);
}

void ReducerStreams::OnGone(ReducerStream* stream) {
  const auto found = streams_.find({stream->contributor(), stream->lane()});
  if (found != streams_.end() && found->second.get() == stream) streams_.erase(found);
}

}  // namespace atolld
