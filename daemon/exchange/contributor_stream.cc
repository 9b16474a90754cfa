#include "daemon/exchange/contributor_stream.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"

namespace atolld {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);

// The most of the network's memory that a stream's results take at once: with a hundred streams
// this is below what a transport may hold. Larger results are copied as they come.
constexpr size_t kMostPartsBytes = size_t{4} << 20;

// A process that is restarted listens again well within this time; one that still refuses has gone.
// With a short failure_timeout a quarter of it is used, so that the shard moves long before silence
// would be noticed.
constexpr absl::Duration kRestartTime = absl::Milliseconds(500);

// A handshake over a long line takes four round trips, and a busy machine takes its time.
constexpr absl::Duration kLeastDialPatience = absl::Seconds(1);

// Returns true for a status that the reducer would give again.
bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}

}  // namespace

ContributorStream::ContributorStream(Env env, const ExchangeSettings& settings, uint64_t number,
                                     std::string reducer, Lane lane, Owner& owner, Sink& sink)
    : env_(env),
      settings_(settings),
      form_{settings.upper_codec, settings.upper_zstd},
      number_(number),
      reducer_(std::move(reducer)),
      lane_(lane),
      owner_(owner),
      sink_(sink),
      window_(settings.send_floor),
      meter_(settings.traffic),
      last_good_(env.executor.Now()),
      backoff_(kFirstBackoff) {
  Tick();
}

ContributorStream::~ContributorStream() {
  if (call_ != nullptr) meter_.Update(*call_, env_.executor.Now());
}

void ContributorStream::Assign(const std::string& address, std::vector<Chunk> chunks) {
  // A new call is needed, because its Open names the results that are here. The other end believes
  // that a passed-over result was received.
  if (address != address_ || passed_over_) Drop();
  if (address != address_) refused_since_ = absl::InfiniteFuture();
  refusal_told_ = false;  // a refusal under the previous plan no longer counts
  address_ = address;
  chunks_ = std::move(chunks);
  if (address_.empty()) {
    return Unreachable(absl::FailedPreconditionError("the plan gives no address for it"));
  }
  if (call_ == nullptr) {
    if (Needed() && !redialling_) Dial();
    return;
  }
  PlanSends();
  Pump();
  if (held_.has_value()) {
    const absl::Time since = held_since_;
    auto [result, payload] = *std::exchange(held_, std::nullopt);
    OnResult(std::move(result), std::move(payload));
    if (held_.has_value()) held_since_ = since;
  }
}

bool ContributorStream::Sent(const Chunk& chunk) const {
  const auto sent = sent_.find(chunk.chunk);
  return sent != sent_.end() && sent->second.attempt == chunk.attempt &&
         sent->second.sends == chunk.sends;
}

void ContributorStream::Offer(uint32_t chunk) {
  if (call_ == nullptr) return;  // the next call begins with all chunks that are ready
  const auto place = std::lower_bound(
      chunks_.begin(), chunks_.end(), chunk,
      [](const Chunk& assigned, uint32_t wanted) { return assigned.chunk < wanted; });
  if (place == chunks_.end() || place->chunk != chunk || Sent(*place)) return;
  const auto later =
      std::upper_bound(todo_.begin(), todo_.end(), chunk,
                       [](uint32_t wanted, const Chunk& other) { return wanted < other.chunk; });
  todo_.insert(later, *place);
  Pump();
}

void ContributorStream::OnMean(uint32_t chunk) { window_.OnMean(chunk, env_.executor.Now()); }

double ContributorStream::SentShare() const {
  return 1 - static_cast<double>(todo_.size()) / static_cast<double>(std::max<size_t>(1, sends_));
}

double ContributorStream::Reach() const {
  const bool sends = call_ != nullptr && (!todo_.empty() || window_.in_flight_bytes() > 0);
  if (!sends || Stalls()) return StreamPace::kFree;
  return SentShare() + window_.FreeChunks() / static_cast<double>(chunks_.size());
}

bool ContributorStream::Needed() const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [this](const Chunk& c) { return !owner_.HasResult(c.chunk); });
}

void ContributorStream::Dial() {
  redialling_ = false;
  if (!Needed() || address_.empty()) return;
  sent_.clear();
  leaves_sent_ = false;
  window_.Restart();
  held_.reset();
  verifying_ = 0;
  connected_ = false;
  const uint64_t number = ++calls_;
  meter_.Restart(env_.executor.Now());
  dialled_at_ = env_.executor.Now();
  call_ = env_.transport.Dial(address_, kExchangeMethod, absl::InfiniteDuration());
  // A dropped call may still run callbacks that were posted before. The number identifies them.
  Call::Events events;
  const size_t held = (kChunksAhead + 1) * form_.MaxWireBytes(settings_.grid.chunk_elements());
  events.takes_parts = held <= kMostPartsBytes;
  events.on_frame = guard_.Wrap([this, number](Frame frame) {
    if (number != calls_ || call_ == nullptr) return;
    connected_ = true;
    OnFrame(std::move(frame));
  });
  events.on_writable = guard_.Wrap([this, number] {
    if (number != calls_) return;
    connected_ = true;
    Pump();
  });
  events.on_closed = guard_.Wrap([this, number](absl::Status status) {
    if (number == calls_ && call_ != nullptr) OnClosed(std::move(status));
  });
  call_->Start(std::move(events));
  v1::ToReducer open;
  *open.mutable_open() = owner_.MakeOpen();
  open.mutable_open()->set_lane(lane_.number);
  open.mutable_open()->set_lanes(lane_.count);
  call_->Write(Pack(open));
  PlanSends();
  Pump();
  call_->Read();
}

void ContributorStream::RedialLater() {
  if (redialling_ || !Needed()) return;
  redialling_ = true;
  env_.executor.RunAfter(backoff_, guard_.Wrap([this] {
    if (call_ == nullptr) Dial();
  }));
  backoff_ = std::min(backoff_ * 2, kLastBackoff);
}

// Returns true if the chunk need not be sent any more, because its mean has arrived. (With the
// planted bug, means of an older attempt count as well. The chunk must then still be sent, or the
// new reducer would just wait for it and the bug could do no worse.)
bool ContributorStream::Settled(const Chunk& chunk) const {
  return owner_.HasResult(chunk.chunk) && !Planted(PlantedBug::kAttemptNotChecked);
}

void ContributorStream::PlanSends() {
  todo_.clear();
  std::set<uint32_t> awaited;
  for (const Chunk& chunk : chunks_) {
    if (Sent(chunk) && !owner_.HasResult(chunk.chunk)) awaited.insert(chunk.chunk);
  }
  for (const auto& [chunk, sent] : sent_) {
    if (awaited.count(chunk) == 0) window_.Forget(chunk);
  }
  sends_ = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.sends == Sends::kNothing) continue;
    ++sends_;
    if (Sent(chunk) || Settled(chunk)) continue;
    if (chunk.sends == Sends::kPartialMean && !owner_.PrepareContribution(chunk)) continue;
    todo_.push_back(chunk);
  }
}

void ContributorStream::SendLeaves() {
  leaves_sent_ = true;
  for (v1::ContributionLeaves& page : LeavesInPages(owner_.Leaves())) {
    v1::ToReducer message;
    *message.mutable_leaves() = std::move(page);
    call_->Write(Pack(message));
  }
}

void ContributorStream::Pump() {
  if (call_ == nullptr) return;
  while (!todo_.empty() && call_->unsent_bytes() < kMaxUnsentBytes) {
    const Chunk next = todo_.front();
    if (Settled(next)) {
      todo_.pop_front();
      continue;
    }
    for (size_t i = 1; i < std::min(todo_.size(), kChunksAhead); ++i) {
      owner_.PrepareContribution(todo_[i]);
    }
    if (!window_.Allows(next.chunk)) break;
    if (!owner_.MayGo(*this, SentShare())) {
      PumpLater();
      break;
    }
    if (!owner_.PrepareContribution(next)) break;
    todo_.pop_front();
    if (next.sends == Sends::kOwnChunk && !leaves_sent_) SendLeaves();
    sent_.insert_or_assign(next.chunk, next);
    Frame frame = owner_.TakeContributionFrame(next);
    window_.OnSent(next.chunk, frame.payload.size(), env_.executor.Now());
    call_->Write(std::move(frame));
  }
  meter_.Update(*call_, env_.executor.Now());
  owner_.OnReach(*this);
}

// Pumps this stream later; means on the other streams also pump it, unless they stall.
void ContributorStream::PumpLater() {
  if (std::exchange(pumping_later_, true)) return;
  env_.executor.RunAfter(SendWindow::kLeastPatience, guard_.Wrap([this] {
    pumping_later_ = false;
    Pump();
  }));
}

void ContributorStream::OnFrame(Frame frame) {
  meter_.Update(*call_, env_.executor.Now());
  CountArrival(settings_.traffic, FrameBytes(frame));
  NoteArrival(settings_.arrivals, reducer_, frame, env_.executor.Now());
  v1::FromReducer message;
  const absl::Status status = Unpack(frame, &message);
  if (!status.ok() || !message.has_chunk()) {
    Drop();
    Unreachable(absl::InvalidArgumentError("its frame is not a result"));
    return RedialLater();
  }
  OnResult(std::move(*message.mutable_chunk()), std::move(frame.payload));
}

void ContributorStream::OnResult(v1::ResultChunk result, ByteParts payload) {
  absl::Status bad;
  switch (owner_.Judge(reducer_, result)) {
    case Owner::Fate::kUnwanted:
      return Next();
    case Owner::Fate::kPassedOver:
      passed_over_ = true;
      return Next();
    case Owner::Fate::kEarly:
      held_.emplace(std::move(result), payload.Copy());
      held_since_ = env_.executor.Now();
      return;
    case Owner::Fate::kBad:
      bad = absl::InvalidArgumentError(absl::StrCat("its result for chunk ", result.chunk(),
                                                    " under attempt ", result.attempt(),
                                                    " is not one of the plan's"));
      break;
    case Owner::Fate::kWanted:
      if (payload.size() <= form_.MaxWireBytes(settings_.grid.Elements(result.chunk()))) {
        return Verify(std::move(result), std::move(payload));
      }
      bad = absl::InvalidArgumentError(
          absl::StrCat("its result for chunk ", result.chunk(), " has ", payload.size(), " bytes"));
  }
  Drop();
  Unreachable(std::move(bad));
  RedialLater();
}

// Lets the pool verify a few results at the same time, while the next one arrives.
void ContributorStream::Verify(v1::ResultChunk result, ByteParts payload) {
  const uint32_t elements = settings_.grid.Elements(result.chunk());
  auto mean = std::make_shared<absl::StatusOr<MeasuredChunk>>();
  env_.executor.Offload(
      [mean, form = form_, elements, payload, place = owner_.ClaimPlace(result.chunk())] {
        *mean = form.Measured(payload, elements, place);
      },
      // Only a relay needs the wire form of the result, because it passes compressed results on.
      guard_.Wrap([this, mean, number = calls_, result, wire = form_.zstd ? payload : ByteParts()] {
        if (number == calls_ && call_ != nullptr) OnVerified(result, *mean, wire);
      }));
  if (++verifying_ < kChunksAhead) Next();
}

void ContributorStream::OnVerified(const v1::ResultChunk& result,
                                   const absl::StatusOr<MeasuredChunk>& mean,
                                   const ByteParts& wire) {
  if (!mean.ok()) {
    Drop();
    Unreachable(Annotate(mean.status(), absl::StrCat("its result for chunk ", result.chunk())));
    return RedialLater();
  }
  last_good_ = env_.executor.Now();
  backoff_ = kFirstBackoff;
  refused_before_ = false;
  const bool reading_waited = verifying_-- == kChunksAhead;
  // The plan may have changed while the pool verified the result.
  const Owner::Fate fate = owner_.Judge(reducer_, result);
  if (fate == Owner::Fate::kPassedOver) passed_over_ = true;
  if (fate == Owner::Fate::kWanted) sink_.OnResult(result, *mean, wire);
  if (reading_waited) Next();
}

void ContributorStream::Next() {
  if (call_ != nullptr) call_->Read();
}

void ContributorStream::OnClosed(absl::Status status) {
  Drop();
  // The first INVALID_ARGUMENT is about one of this peer's chunks; the reducer still gives this
  // peer its results. A second one is final.
  const bool refused = IsRefusal(status) || (absl::IsInvalidArgument(status) && refused_before_);
  if (absl::IsInvalidArgument(status)) {
    refused_before_ = true;
    env_.log.Error(absl::StrCat("reducer ", reducer_,
                                " refuses this peer's contribution: ", status.message()));
  }
  if (absl::IsUnavailable(status) && !connected_) {
    NoteRefusedDial(status);
  } else {
    refused_since_ = absl::InfiniteFuture();
  }
  if (refused && Needed()) Unreachable(std::move(status));
  RedialLater();
}

void ContributorStream::NoteRefusedDial(const absl::Status& status) {
  const absl::Time now = env_.executor.Now();
  refused_since_ = std::min(refused_since_, now);
  const absl::Duration refused_for = now - refused_since_;
  if (refusal_told_ || !Needed() ||
      refused_for < std::min(kRestartTime, settings_.failure_timeout / 4)) {
    return;
  }
  refusal_told_ = true;
  Unreachable(Annotate(
      status, absl::StrCat("it could not be dialled for ", absl::FormatDuration(refused_for))));
}

// Notices a dial without an answer, because a firewall that drops packets sends no refusal. This
// happens long before the silence of a stream would count, so that the shard moves while the
// exchange still has time.
void ContributorStream::NoteSilentDial() {
  const absl::Duration silent_for = env_.executor.Now() - dialled_at_;
  if (call_ == nullptr || connected_ || refusal_told_ || !Needed()) return;
  if (silent_for < std::max(settings_.failure_timeout / 4, kLeastDialPatience)) return;
  refusal_told_ = true;
  Unreachable(absl::UnavailableError(
      absl::StrCat("its address does not answer for ",
                   absl::FormatDuration(absl::Trunc(silent_for, absl::Milliseconds(10))))));
}

void ContributorStream::Drop() {
  if (call_ == nullptr) return;
  meter_.Update(*call_, env_.executor.Now());
  DestroyLater(env_.executor, std::move(call_));
  call_ = nullptr;
  todo_.clear();
  held_.reset();
  passed_over_ = false;
  owner_.OnReach(*this);
}

void ContributorStream::Unreachable(absl::Status why) {
  last_good_ = env_.executor.Now();
  sink_.OnUnreachable(reducer_, std::move(why));
}

void ContributorStream::Tick() {
  const absl::Time now = env_.executor.Now();
  if (call_ != nullptr) {
    meter_.Update(*call_, now);
    last_good_ = std::max(last_good_, meter_.moved());
  }
  if (!Needed()) last_good_ = now;
  NoteSilentDial();
  if (held_.has_value()) {
    last_good_ = now;
    if (now - held_since_ >= settings_.failure_timeout) {
      Drop();
      Unreachable(absl::FailedPreconditionError("the plan of its result has not arrived here"));
      RedialLater();
    }
  }
  if (now - last_good_ >= settings_.failure_timeout) {
    Drop();
    Unreachable(absl::UnavailableError(
        absl::StrCat("no progress for ", absl::FormatDuration(settings_.failure_timeout))));
    RedialLater();
  }
  env_.executor.RunAfter(settings_.failure_timeout / 8, guard_.Wrap([this] { Tick(); }));
}

ContributorStreams::ContributorStreams(Env env, const ExchangeSettings& settings,
                                       const ChunkForm& form,
                                       std::shared_ptr<const Contribution> contribution,
                                       const ExchangePlan& plan, OutcomeBuild& outcome,
                                       ContributorStream::Sink& sink)
    : env_(env),
      settings_(settings),
      form_(form),
      contribution_(std::move(contribution)),
      plan_(plan),
      outcome_(outcome),
      sink_(sink),
      own_wire_(settings.grid.chunks()) {}

bool ContributorStreams::contributes() const {
  return contribution_ != nullptr && plan_.IndexOf(settings_.self).has_value();
}

void ContributorStreams::DropStale(const ExchangePlan& next) {
  for (auto it = partials_.begin(); it != partials_.end();) {
    const ExchangePlan::Shard& shard = next.ShardOf(it->first);
    const bool stands =
        it->second.attempt == shard.attempt && next.RelayNamed(shard, settings_.self) != nullptr;
    it = stands ? std::next(it) : partials_.erase(it);
  }
}

// Returns the chunks by dialled peer. A shard's chunks are listed for its target if they are sent
// there, and for its source if their means come from there.
std::map<ContributorStreams::StreamKey, std::vector<ContributorStream::Chunk>>
ContributorStreams::Assignments() const {
  using Sends = ContributorStream::Sends;
  std::map<StreamKey, std::vector<ContributorStream::Chunk>> assigned;
  const uint32_t self = contributes() ? *plan_.IndexOf(settings_.self) : 0;
  for (const ExchangePlan::Shard& shard : plan_.shards()) {
    const auto add = [&](absl::string_view peer, Sends sends) {
      for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
        const Lane lane = {c % settings_.lanes, settings_.lanes};
        const bool brings = sends != Sends::kOwnChunk || plan_.Brings(self, c);
        assigned[{std::string(peer), lane}].push_back(
            {c, shard.attempt, brings ? sends : Sends::kNothing});
      }
    };
    if (shard.chunks == 0) continue;
    const absl::string_view source = plan_.SourceOf(shard, settings_.self);
    absl::string_view target;
    Sends sends = Sends::kNothing;
    if (contributes()) {
      target = plan_.TargetOf(shard, self);
      const bool relays = plan_.RelayNamed(shard, settings_.self) != nullptr;
      sends = relays ? Sends::kPartialMean : Sends::kOwnChunk;
    }
    // Target and source differ if this peer is a reducer in a relay's group, or if it has nothing
    // to send.
    if (!target.empty()) add(target, sends);
    if (!source.empty() && source != target) add(source, Sends::kNothing);
  }
  return assigned;
}

void ContributorStreams::Assign() {
  std::map<StreamKey, std::vector<ContributorStream::Chunk>> assigned = Assignments();
  pumping_ = true;  // no stream may send by the previous plan
  carriers_.assign(plan_.chunks(), {});
  for (auto it = streams_.begin(); it != streams_.end();) {
    if (assigned.count(it->first) != 0) {
      ++it;
      continue;
    }
    pace_.Forget(it->second->number());
    by_number_.erase(it->second->number());
    it = streams_.erase(it);
  }
  for (auto& [key, chunks] : assigned) {
    const auto& [peer, lane] = key;
    std::unique_ptr<ContributorStream>& stream = streams_[key];
    if (stream == nullptr) {
      const uint64_t number = ++made_;
      stream =
          std::make_unique<ContributorStream>(env_, settings_, number, peer, lane, *this, sink_);
      by_number_[number] = stream.get();
    }
    for (const ContributorStream::Chunk& chunk : chunks) {
      carriers_[chunk.chunk].push_back(stream.get());
    }
    stream->Assign(plan_.AddressOf(peer), std::move(chunks));
  }
  pumping_ = false;
  PumpFree();
}

void ContributorStreams::SendPartial(uint32_t chunk, uint32_t attempt, SharedBytes wire,
                                     std::string contributors) {
  partials_[chunk] = {attempt, std::move(wire), std::move(contributors)};
  const Lane lane = {chunk % settings_.lanes, settings_.lanes};
  const auto stream = streams_.find({plan_.ShardOf(chunk).reducer, lane});
  if (stream != streams_.end()) stream->second->Offer(chunk);
}

void ContributorStreams::OnMean(uint32_t chunk) {
  own_wire_[chunk] = SharedBytes();
  partials_.erase(chunk);
  for (ContributorStream* const stream : carriers_[chunk]) stream->OnMean(chunk);
  PumpCarriers(chunk);
}

void ContributorStreams::PumpCarriers(uint32_t chunk) {
  for (ContributorStream* const stream : carriers_[chunk]) stream->Pump();
}

uint64_t ContributorStreams::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [chunk, partial] : partials_) bytes += partial.wire.size();
  for (const SharedBytes& wire : own_wire_) bytes += wire.size();
  return bytes;
}

v1::ExchangeOpen ContributorStreams::MakeOpen() {
  v1::ExchangeOpen open;
  open.set_run_id(settings_.run_id);
  open.set_version(plan_.version());
  open.set_epoch(plan_.epoch());
  open.set_contributor(settings_.self);
  std::string received(BitmapBytes(plan_.chunks()), '\0');
  for (uint32_t c = 0; c < plan_.chunks(); ++c) {
    if (HasResult(c)) SetBit(&received, c);
  }
  open.set_received(std::move(received));
  for (const ExchangePlan::Shard& shard : plan_.shards()) {
    open.add_received_attempts(shard.attempt);
  }
  return open;
}

// Every line carries chunks and means of all shards. A shard that runs ahead takes the line from
// the others, and is then finished while they still need as much time. Streams to relays carry
// several shards one after the other, and partial means, so their shares cannot be compared.
bool ContributorStreams::MayGo(const ContributorStream& stream, double share) {
  if (plan_.has_relays()) return true;
  return pace_.MayGo(stream.number(), share, [this](uint64_t other) { return Stalls(other); });
}

void ContributorStreams::OnReach(const ContributorStream& stream) {
  pace_.SetReach(stream.number(), plan_.has_relays() ? StreamPace::kFree : stream.Reach());
  PumpFree();
}

// Pumps all streams that are free. Each stream reports its new reach after it has sent, so one loop
// is enough even if streams free each other.
void ContributorStreams::PumpFree() {
  if (std::exchange(pumping_, true)) return;
  const auto stalls = [this](uint64_t other) { return Stalls(other); };
  while (const std::optional<uint64_t> free = pace_.TakeFree(stalls)) by_number_.at(*free)->Pump();
  pumping_ = false;
}

bool ContributorStreams::PrepareContribution(const ContributorStream::Chunk& chunk) {
  if (chunk.sends == ContributorStream::Sends::kPartialMean) {
    return partials_.count(chunk.chunk) != 0;
  }
  if (!settings_.zstd || !own_wire_[chunk.chunk].empty()) return true;
  CompressOwnChunk(chunk.chunk);
  return false;
}

void ContributorStreams::CompressOwnChunk(uint32_t chunk) {
  if (!compressing_.insert(chunk).second) return;
  auto wire = std::make_shared<SharedBytes>();
  env_.executor.Offload([wire, form = form_, contribution = contribution_,
                         chunk] { *wire = form.ToWire(contribution->chunks[chunk]); },
                        guard_.Wrap([this, wire, chunk] {
                          compressing_.erase(chunk);
                          if (!HasResult(chunk)) own_wire_[chunk] = *wire;
                          PumpCarriers(chunk);
                        }));
}

Frame ContributorStreams::TakeContributionFrame(const ContributorStream::Chunk& chunk) {
  v1::ToReducer message;
  v1::ContributionChunk* const head = message.mutable_chunk();
  head->set_attempt(chunk.attempt);
  head->set_chunk(chunk.chunk);
  head->set_revision(plan_.revision());
  if (chunk.sends == ContributorStream::Sends::kPartialMean) {
    const Partial& partial = partials_.at(chunk.chunk);
    head->set_contributors(partial.contributors);
    return Pack(message, partial.wire);
  }
  if (!settings_.zstd) return Pack(message, contribution_->chunks[chunk.chunk]);
  return Pack(message, std::exchange(own_wire_[chunk.chunk], SharedBytes()));
}

ContributorStream::Owner::Fate ContributorStreams::Judge(const std::string& from,
                                                         const v1::ResultChunk& result) const {
  if (result.chunk() >= plan_.chunks()) return Fate::kBad;
  const ExchangePlan::Shard& shard = plan_.ShardOf(result.chunk());
  if (result.attempt() > shard.attempt) return Fate::kEarly;
  if (result.attempt() < shard.attempt) return Fate::kUnwanted;
  if (plan_.SourceOf(shard, settings_.self) != from) {
    if (result.revision() > plan_.revision()) return Fate::kEarly;
    return result.revision() == plan_.revision() ? Fate::kBad : Fate::kPassedOver;
  }
  if (HasResult(result.chunk())) return Fate::kUnwanted;
  const size_t contributors = plan_.contributors().size();
  const bool sane = plan_.MayBeMeanOf(result.contributors(), result.chunk()) &&
                    ValidParts(result.partials(), result.contributors(), contributors);
  return sane ? Fate::kWanted : Fate::kBad;
}

}  // namespace atolld
