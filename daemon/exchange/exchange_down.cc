// Exchange::State towards those that dial it: what it averages for them as reducer or relay, and
// the means that it gives out.
#include <algorithm>
#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/exchange/exchange_state.h"
#include "membership/history/bitmap.h"

namespace atolld {
namespace {

// Streams of peers that the plan does not name: stragglers that only receive.
constexpr size_t kMaxGuests = 64;

bool IsPeerId(absl::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

void Exchange::State::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call,
                             absl::Time opened) {
  absl::Status refusal;
  if (!started || failed) {
    refusal = absl::FailedPreconditionError("this exchange has failed");
  } else if (!IsPeerId(open.contributor()) || open.contributor() == settings.self) {
    refusal = absl::InvalidArgumentError("its contributor's name is not that of another peer");
  } else {
    refusal = CheckHolding(&open);
  }
  const Lane lane = {open.lane(), std::max(1u, open.lanes())};
  if (refusal.ok() && !lane.Valid()) {
    refusal = absl::InvalidArgumentError(absl::StrCat("lane ", lane.number, " of ", lane.count,
                                                      ": at most ", Lane::kMost, ", from 0"));
  }
  const StreamKey key = {open.contributor(), lane};
  const size_t most = plan.contributors().size() + plan.servers().size() + kMaxGuests;
  if (refusal.ok() && down.count(key) == 0 && down.size() >= Lane::kMost * most) {
    refusal = absl::ResourceExhaustedError("too many streams");
  }
  if (!refusal.ok()) return refusals.Refuse(std::move(call), refusal);
  if (settings.arrivals != nullptr) settings.arrivals->NoteOpen(open.contributor(), opened);
  // A second stream of a peer takes the place of the first: it has redialled before the break was
  // seen here.
  std::unique_ptr<ReducerStream>& stream = down[key];
  stream = std::make_unique<ReducerStream>(env, settings, open.contributor(), lane, std::move(call),
                                           *this);
  MarkWhatIsThere(open, stream.get());
  OfferAll(stream.get());
}

// FAILED_PRECONDITION if this peer is to hold a shard and lacks a mean of it that the other lacks
// too; without an Open: that anybody may lack.
absl::Status Exchange::State::CheckHolding(const v1::ExchangeOpen* open) const {
  const bool told =
      open != nullptr && open->received_attempts_size() == static_cast<int>(plan.shards().size());
  for (size_t i = 0; i < plan.shards().size(); ++i) {
    const ExchangePlan::Shard& shard = plan.shards()[i];
    if (shard.holder != settings.self) continue;
    const bool same = told && open->received_attempts(static_cast<int>(i)) == shard.attempt;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (table.Has(c) || (same && BitAt(open->received(), c))) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("chunk ", c, " of shard ", i, " is not here, though this peer holds it"));
    }
  }
  return absl::OkStatus();
}

// The streams that are open begin anew, so that each says what it lacks and is refused or served.
void Exchange::State::ReportLackAsHolder() {
  const absl::Status lack = CheckHolding(nullptr);
  if (lack.ok()) return;
  for (const auto& [key, stream] : down) {
    stream->Close(absl::UnavailableError("a new plan: say again what is there"));
  }
  OnUnreachable(settings.self, lack);
}

void Exchange::State::MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const {
  if (open.received_attempts_size() != static_cast<int>(plan.shards().size())) return;
  for (size_t i = 0; i < plan.shards().size(); ++i) {
    const ExchangePlan::Shard& shard = plan.shards()[i];
    if (shard.attempt != open.received_attempts(static_cast<int>(i))) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (BitAt(open.received(), c)) stream->MarkHeld(c, shard.attempt);
    }
  }
}

void Exchange::State::OfferAll(ReducerStream* stream) const {
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (plan.SourceOf(shard, stream->contributor()) != settings.self) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (table.Has(c)) stream->Offer(c, shard.attempt);
    }
  }
}

ReducerStream::Owner::Delivery Exchange::State::PrepareResult(const ReducerStream& stream,
                                                              uint32_t chunk, uint32_t attempt) {
  const bool wanted = table.at(chunk).attempt == attempt &&
                      plan.SourceOf(plan.ShardOf(chunk), stream.contributor()) == settings.self;
  if (!wanted) return Delivery::kUnwanted;
  if (!settings.upper_zstd || !result_wire[chunk].empty()) return Delivery::kReady;
  CompressResult(chunk);
  return Delivery::kLater;
}

// A holder's way: whoever averaged or relayed a chunk has its form of the wire already.
void Exchange::State::CompressResult(uint32_t chunk) {
  if (!compressing_results.insert(chunk).second) return;
  auto wire = std::make_shared<SharedBytes>();
  env.executor.Offload([wire, form = mean_form, encoded = table.at(chunk).encoded,
                        chunk] { *wire = form.ToWire(encoded); },
                       guard.Wrap([this, wire, chunk, attempt = table.at(chunk).attempt] {
                         compressing_results.erase(chunk);
                         if (table.at(chunk).attempt == attempt) result_wire[chunk] = *wire;
                         for (const auto& [key, stream] : down) stream->Pump();
                       }));
}

Frame Exchange::State::ResultFrame(uint32_t chunk) const {
  const ChunkMean& mean = table.at(chunk);
  v1::FromReducer message;
  v1::ResultChunk* const head = message.mutable_chunk();
  head->set_attempt(mean.attempt);
  head->set_chunk(chunk);
  head->set_contributors(mean.contributors);
  for (const std::string& partial : mean.partials) head->add_partials(partial);
  head->set_revision(plan.revision());
  return Pack(message, settings.upper_zstd ? result_wire[chunk] : mean.encoded);
}

void Exchange::State::OnGone(ReducerStream* stream) {
  const auto found = down.find({stream->contributor(), stream->lane()});
  if (found != down.end() && found->second.get() == stream) down.erase(found);
}

void Exchange::State::FeedOwnChunks(std::vector<Reducer::Work>* ready) {
  if (!Contributes()) return;
  const uint32_t self = *plan.IndexOf(settings.self);
  const std::string own = SingleBit(plan.contributors().size(), self);
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (plan.CollectorOf(shard, self) != settings.self) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      reducer.Add({c, shard.attempt, plan.revision()},
                  Piece{self, own, false, contribution->chunks[c], false}, ready);
    }
  }
}

absl::Status Exchange::State::OnLeaves(const ReducerStream& stream, std::string told) {
  const std::optional<uint32_t> sender = plan.IndexOf(stream.contributor());
  if (!sender.has_value()) {
    return absl::InvalidArgumentError("leaves of a peer that is no contributor");
  }
  if (reducer.refused(*sender) || leaves.count(*sender) != 0) return absl::OkStatus();
  const std::string& root = plan.contributors()[*sender].root;
  if (root.empty()) return absl::OkStatus();
  if (ToBytes(ContributionRoot(told)) != root) {
    const absl::Status status =
        absl::InvalidArgumentError("its leaves are not those of the root that it has signed");
    Refuse(*sender, 0, status);
    return status;
  }
  if (SquaredNormOf(told) != plan.contributors()[*sender].squared_norm) {
    const absl::Status status =
        absl::InvalidArgumentError("it told another length of its update than its leaves say");
    Refuse(*sender, 0, status);
    return status;
  }
  leaves[*sender] = std::move(told);
  return absl::OkStatus();
}

absl::StatusOr<ReducerStream::Owner::Fate> Exchange::State::OnContribution(
    const ReducerStream& stream, const v1::ContributionChunk& chunk, const SharedBytes& payload) {
  using Fate = ReducerStream::Owner::Fate;
  using Verdict = Reducer::Verdict;
  const std::optional<uint32_t> sender = plan.IndexOf(stream.contributor());
  if (!sender.has_value()) {
    return absl::InvalidArgumentError("a chunk from a peer that is no contributor");
  }
  if (reducer.refused(*sender)) return Fate::kNext;
  const std::string which =
      absl::StrCat("chunk ", chunk.chunk(), " under attempt ", chunk.attempt());
  const auto bad = [&](absl::string_view what) -> absl::Status {
    const absl::Status status = absl::InvalidArgumentError(absl::StrCat(which, ": ", what));
    Refuse(*sender, chunk.chunk(), status);
    return status;
  };
  if (chunk.chunk() >= plan.chunks()) return bad("it lies outside the grid");
  const uint32_t elements = settings.grid.Elements(chunk.chunk());
  const bool partial = !chunk.contributors().empty();
  const ChunkForm& sent_as = partial ? mean_form : form;
  if (payload.empty() || payload.size() > sent_as.MaxWireBytes(elements)) {
    return bad(absl::StrCat("it has ", payload.size(), " bytes"));
  }
  const size_t contributors = plan.contributors().size();
  if (partial && !ValidBitmap(chunk.contributors(), contributors)) {
    return bad("its contributors are not those of the plan");
  }
  Piece piece{*sender, partial ? chunk.contributors() : SingleBit(contributors, *sender), partial,
              payload, true};
  if (!partial && !plan.contributors()[*sender].root.empty()) {
    const auto told = leaves.find(*sender);
    if (told == leaves.end()) return bad("its leaves have not come before it");
    const Leaf leaf = LeafOf(told->second, chunk.chunk());
    piece.digest = leaf.digest;
    piece.squared_norm = leaf.norms.squared_norm;
  }
  std::vector<Reducer::Work> ready;
  const Verdict verdict =
      reducer.Add({chunk.chunk(), chunk.attempt(), chunk.revision()}, std::move(piece), &ready);
  if (settings.arrivals != nullptr && verdict == Verdict::kTaken && !partial) {
    settings.arrivals->NotePiece(stream.contributor(), chunk.chunk(), env.executor.Now(),
                                 !ready.empty());
  }
  StartWork(std::move(ready));
  if (verdict == Verdict::kForeign) return bad("by the plan it goes to another peer");
  if (verdict == Verdict::kOverlapping) {
    env.log.Warning(absl::StrCat("round ", plan.version(), ": ", which, " from ",
                                 stream.contributor(),
                                 ": it would count a contributor twice and is not taken"));
  }
  return verdict == Verdict::kEarly ? Fate::kEarly : Fate::kNext;
}

void Exchange::State::StartWork(std::vector<Reducer::Work> ready) {
  if (ready.empty()) return;
  if (plan.from_centre() && settings.rule.has_value() && settings.centre == nullptr) {
    return Fail(absl::FailedPreconditionError("the mean of the entry before is not here"));
  }
  const ChunkReduction reduce = Reduction();
  struct Job {
    Reducer::Work work;
    std::optional<FreshBytes> place;
    absl::Status status;
    Reduced reduced;
  };
  for (Reducer::Work& work : ready) {
    auto job = std::make_shared<Job>();
    job->work = std::move(work);
    if (!job->work.partial) job->place = build.Claim(job->work.chunk);
    env.executor.Offload(
        [job, reduce, keeps = keeps_inputs] {
          job->status = reduce(job->work.chunk, job->work.partial, job->work.pieces,
                               std::exchange(job->place, std::nullopt), &job->reduced);
          if (!keeps) job->work.pieces.clear();
        },
        guard.Wrap([this, job] { OnReduced(job->work, job->status, std::move(job->reduced)); }));
  }
}

void Exchange::State::OnReduced(const Reducer::Work& work, const absl::Status& status,
                                Reduced reduced) {
  ++averaged;
  for (const auto& [contributor, why] : reduced.refused) {
    Refuse(contributor, work.chunk, Annotate(why, absl::StrCat("chunk ", work.chunk)));
  }
  // A relay may have the result already: the reducer did not wait for its partial mean.
  if (!reducer.Current(work) || table.Has(work.chunk)) return;
  if (!status.ok()) return Fail(Annotate(status, absl::StrCat("chunk ", work.chunk)));
  KeepInputs(work, reduced);
  if (work.partial) return KeepPartial(work, std::move(reduced));
  if (settings.upper_zstd) result_wire[work.chunk] = std::move(reduced.wire);
  ChunkMean mean;
  mean.attempt = work.attempt;
  mean.encoded = std::move(reduced.encoded);
  mean.squared_norm = reduced.squared_norm;
  mean.contributors = std::move(reduced.contributors);
  mean.partials = std::move(reduced.partials);
  Store(work.chunk, std::move(mean));
}

void Exchange::State::KeepPartial(const Reducer::Work& work, Reduced reduced) {
  partials[work.chunk] = {work.attempt, std::move(reduced.wire), std::move(reduced.contributors)};
  const Lane lane = {work.chunk % settings.lanes, settings.lanes};
  const auto stream = up.find({plan.ShardOf(work.chunk).reducer, lane});
  if (stream != up.end()) stream->second->Offer(work.chunk);
}

void Exchange::State::Refuse(uint32_t contributor, uint32_t chunk, const absl::Status& why) {
  if (reducer.refused(contributor)) return;
  const std::string& peer = plan.contributors()[contributor].peer;
  env.log.Warning(absl::StrCat("round ", plan.version(), ": contribution of ", peer,
                               " refused: ", why.message()));
  v1::UpdateRefused refused;
  refused.set_version(plan.version());
  refused.set_epoch(plan.epoch());
  refused.set_revision(plan.revision());
  refused.set_contributor(peer);
  refused.set_chunk(chunk);
  refused.set_reason(std::string(why.message()));
  env.executor.Post(guard.Wrap([tell = events.on_refused, refused] {
    if (tell) tell(refused);
  }));
  std::vector<Reducer::Work> ready;
  reducer.Refuse(contributor, &ready);
  CloseStreamsOf(peer, absl::InvalidArgumentError(why.message()));
  StartWork(std::move(ready));
}

void Exchange::State::CloseStreamsOf(const std::string& contributor, const absl::Status& why) {
  for (const auto& [key, stream] : down) {
    if (key.first == contributor) stream->Close(why);
  }
}

}  // namespace atolld
