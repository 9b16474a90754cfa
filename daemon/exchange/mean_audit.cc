#include "daemon/exchange/mean_audit.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/exchange/stream_flow.h"
#include "membership/trust/audit.h"

namespace atolld {
namespace {

constexpr size_t kMostAnswers = 8;
// An auditor makes one call after the other, but its previous call may not have ended here yet.
constexpr int kMostQuestionsOfOne = 2;
// The most chunks in a request, so that it fits in a message for any size of the grid.
constexpr size_t kMostChunksAsked = 65536;

// A call that has no request, or does not read its answer, is ended after this time.
constexpr absl::Duration kLongestAnswer = absl::Minutes(2);

// Returns nullptr if the server gave none.
const std::vector<Piece>* PiecesOf(const Auditor::Inputs& inputs, const std::string& server) {
  const auto found = inputs.find(server);
  const bool given = found != inputs.end() && found->second.whole && found->second.error.empty();
  return given ? &found->second.pieces : nullptr;
}

// Checks that the piece is its contributor's signed chunk.
absl::Status CheckPiece(const Auditor::Basis& basis, const Piece& piece, uint32_t elements) {
  ASSIGN_OR_RETURN(const SharedBytes encoded, basis.updates.FromWire(piece.bytes, elements));
  if (piece.digest.has_value() && Sha256(encoded.span()) == *piece.digest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the input of ",
                                                 basis.plan.contributors()[piece.sender].peer,
                                                 " is not the one that it has signed"));
}

// Returns the partial mean that the relay must have made of its members' signed chunks.
absl::StatusOr<Piece> Recomputed(const Auditor::Basis& basis, const Auditor::Inputs& inputs,
                                 uint32_t chunk, uint32_t elements, const Piece& partial) {
  const std::string& relay = basis.plan.contributors()[partial.sender].peer;
  const std::vector<Piece>* const members = PiecesOf(inputs, relay);
  if (members == nullptr) {
    return absl::UnavailableError(absl::StrCat("relay ", relay, " gives no inputs"));
  }
  std::string covered(partial.contributors.size(), '\0');
  for (const Piece& member : *members) {
    if (member.partial) return absl::InvalidArgumentError("a relay's input is a partial mean");
    RETURN_IF_ERROR(CheckPiece(basis, member, elements));
    UniteBits(member.contributors, &covered);
  }
  if (covered != partial.contributors) {
    return absl::InvalidArgumentError(
        absl::StrCat("the inputs of relay ", relay, " are of other contributors"));
  }
  Reduced reduced;
  RETURN_IF_ERROR(basis.reduce(chunk, true, *members, std::nullopt, &reduced));
  return Piece{partial.sender, partial.contributors, true, reduced.encoded, false};
}

// Returns the digest that the mean of this chunk should have, or an error if that cannot be
// determined.
absl::StatusOr<Digest> Recompute(const Auditor::Basis& basis, const Auditor::Inputs& inputs,
                                 uint32_t chunk, uint32_t elements, const ChunkMean& mean) {
  const std::string& reducer = basis.plan.ShardOf(chunk).reducer;
  const std::vector<Piece>* const server = PiecesOf(inputs, reducer);
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("reducer ", reducer, " gives no inputs"));
  }
  std::vector<Piece> pieces;
  std::string covered(BitmapBytes(basis.plan.contributors().size()), '\0');
  std::vector<std::string> partials;
  for (const Piece& given : *server) {
    if (Overlap(given.contributors, covered)) {
      return absl::InvalidArgumentError("its inputs count a contributor twice");
    }
    UniteBits(given.contributors, &covered);
    if (given.partial) {
      ASSIGN_OR_RETURN(Piece made, Recomputed(basis, inputs, chunk, elements, given));
      pieces.push_back(std::move(made));
      partials.push_back(given.contributors);
    } else {
      RETURN_IF_ERROR(CheckPiece(basis, given, elements));
      pieces.push_back(given);
    }
  }
  if (covered != mean.contributors || partials != mean.partials) {
    return absl::InvalidArgumentError("its inputs are not of those whose mean was voted for");
  }
  Reduced reduced;
  RETURN_IF_ERROR(basis.reduce(chunk, false, pieces, std::nullopt, &reduced));
  if (!reduced.refused.empty()) return reduced.refused.front().second;
  return Sha256(reduced.encoded.span());
}

}  // namespace

void KeptInputs::Keep(uint32_t chunk, uint32_t attempt, std::vector<Piece> pieces) {
  Drop(chunk);
  for (const Piece& piece : pieces) bytes_ += piece.bytes.size();
  entries_[chunk] = {attempt, std::move(pieces)};
}

const std::vector<Piece>* KeptInputs::Of(uint32_t chunk, uint32_t attempt) const {
  const auto found = entries_.find(chunk);
  return found == entries_.end() || found->second.attempt != attempt ? nullptr
                                                                     : &found->second.pieces;
}

void KeptInputs::Drop(uint32_t chunk) {
  const auto found = entries_.find(chunk);
  if (found == entries_.end()) return;
  for (const Piece& piece : found->second.pieces) bytes_ -= piece.bytes.size();
  entries_.erase(found);
}

absl::StatusOr<std::vector<Frame>> KeptInputs::Answer(const v1::InputsRequest& request,
                                                      const ExchangePlan& plan,
                                                      const ChunkForm& updates,
                                                      ProofOf proof_of) const {
  std::vector<Frame> frames;
  uint64_t from = 0;
  for (const uint32_t chunk : request.chunks()) {
    if (chunk < from || chunk >= plan.chunks()) {
      return absl::InvalidArgumentError("chunks that are not ascending, or not of the grid");
    }
    from = uint64_t{chunk} + 1;
    if (Of(chunk, plan.ShardOf(chunk).attempt) == nullptr) {
      return absl::NotFoundError(absl::StrCat("no inputs of chunk ", chunk, " are kept here"));
    }
    Append(chunk, plan, updates, proof_of, &frames);
  }
  return frames;
}

void KeptInputs::Append(uint32_t chunk, const ExchangePlan& plan, const ChunkForm& updates,
                        ProofOf proof_of, std::vector<Frame>* frames) const {
  for (const Piece& piece : *Of(chunk, plan.ShardOf(chunk).attempt)) {
    v1::InputsPart part;
    part.set_chunk(chunk);
    part.set_contributor(plan.contributors()[piece.sender].peer);
    if (piece.partial) {
      part.set_members(piece.contributors);
    } else if (const Proof proof = proof_of(piece.sender); proof.pages != nullptr) {
      part.set_leaves(std::string(PageOf(proof.leaves, chunk)));
      part.set_path(proof.pages->Path(chunk / kLeavesAPage));
    }
    frames->push_back(Pack(part, piece.on_wire ? piece.bytes : updates.ToWire(piece.bytes)));
  }
}

InputsServer::InputsServer(Executor& executor, Source source)
    : executor_(executor), source_(std::move(source)), refusals_(executor) {}

InputsServer::~InputsServer() = default;

void InputsServer::Accept(std::unique_ptr<Call> call) {
  if (answers_.size() >= kMostAnswers || AskedBy(call->identity()) >= kMostQuestionsOfOne) {
    return refusals_.Refuse(std::move(call), absl::ResourceExhaustedError("too many at once"));
  }
  const uint64_t number = ++accepted_;
  StartedCall& taken =
      *(answers_[number].call = std::make_unique<StartedCall>(executor_, std::move(call)));
  Call::Events events;
  events.on_frame = guard_.Wrap([this, number](const Frame& frame) { OnRequest(number, frame); });
  events.on_writable = guard_.Wrap([this, number] { Pump(number); });
  // The call is destroyed later, because it must not be destroyed inside its own callback.
  events.on_closed = guard_.Wrap([this, number](const absl::Status&) {
    executor_.Post(guard_.Wrap([this, number] { answers_.erase(number); }));
  });
  taken.Start(std::move(events));
  taken.Read();
  executor_.RunAfter(kLongestAnswer, guard_.Wrap([this, number] { answers_.erase(number); }));
}

int InputsServer::AskedBy(const std::optional<Identity>& caller) const {
  int calls = 0;
  for (const auto& [number, answer] : answers_) {
    const std::optional<Identity> other = answer.call->identity();
    calls += caller && other && other->id == caller->id ? 1 : 0;
  }
  return calls;
}

void InputsServer::OnRequest(uint64_t number, const Frame& frame) {
  const auto found = answers_.find(number);
  if (found == answers_.end() || std::exchange(found->second.asked, true)) return;
  v1::InputsRequest request;
  const absl::Status read = Unpack(frame, &request);
  absl::StatusOr<std::vector<Frame>> frames =
      read.ok() ? source_(request) : absl::StatusOr<std::vector<Frame>>(read);
  if (!frames.ok()) return found->second.call->Finish(frames.status());
  found->second.frames = *std::move(frames);
  Pump(number);
}

void InputsServer::Pump(uint64_t number) {
  const auto found = answers_.find(number);
  if (found == answers_.end()) return;
  Answer& answer = found->second;
  if (!answer.asked || answer.next > answer.frames.size()) return;
  while (answer.next < answer.frames.size() && answer.call->unsent_bytes() < kMaxUnsentBytes) {
    answer.call->Write(std::move(answer.frames[answer.next++]));
  }
  if (answer.next < answer.frames.size()) return;
  ++answer.next;
  answer.call->Finish(absl::OkStatus());
}

Auditor::Auditor(Env env, const ExchangeSettings& settings, Basis basis,
                 std::function<void(v1::AuditReport)> tell)
    : env_(env),
      settings_(settings),
      basis_(std::make_shared<const Basis>(std::move(basis))),
      tell_(std::move(tell)) {}

Auditor::~Auditor() = default;

void Auditor::Take(const v1::Audit& order, std::map<uint32_t, ChunkMean> means) {
  std::map<std::string, std::set<uint32_t>> servers;
  std::vector<v1::ChunkVerdict> known;
  for (const uint32_t chunk : order.chunks()) {
    const auto [found, fresh] = questions_.try_emplace(chunk);
    Question& question = found->second;
    if (question.verdict) known.push_back(*question.verdict);
    const auto mean = means.find(chunk);
    if (!fresh || mean == means.end()) continue;
    question.mean = std::move(mean->second);
    servers[basis_->plan.ShardOf(chunk).reducer].insert(chunk);
  }
  for (const auto& [server, chunks] : servers) Ask(server, chunks);
  const std::vector<uint32_t> chunks(order.chunks().begin(), order.chunks().end());
  env_.executor.RunAfter(absl::Milliseconds(static_cast<int64_t>(order.deadline_milliseconds())),
                         guard_.Wrap([this, chunks] { OnDeadline(chunks); }));
  // This is posted, because the caller does not expect verdicts inside this call.
  env_.executor.Post(guard_.Wrap([this, known] {
    if (!known.empty()) Tell(known);
    JudgeWhatIsWhole();
  }));
}

// Makes one call at a time to each server, since a server accepts few calls of one caller.
void Auditor::Ask(const std::string& server, const std::set<uint32_t>& chunks) {
  for (const uint32_t chunk : chunks) questions_[chunk].inputs[server];
  queued_[server].insert(chunks.begin(), chunks.end());
  const bool busy = std::any_of(fetches_.begin(), fetches_.end(),
                                [&](const auto& fetch) { return fetch.second.server == server; });
  if (!busy) AskNext(server);
}

// Asks this server for the chunks that wait for it, as many as a request may hold.
void Auditor::AskNext(const std::string& server) {
  const auto queued = queued_.find(server);
  if (queued == queued_.end()) return;
  std::set<uint32_t>& waiting = queued->second;
  const auto end = waiting.size() > kMostChunksAsked
                       ? std::next(waiting.begin(), std::ptrdiff_t{kMostChunksAsked})
                       : waiting.end();
  std::vector<uint32_t> chunks(waiting.begin(), end);
  waiting.erase(waiting.begin(), end);
  if (waiting.empty()) queued_.erase(queued);
  Dial(server, std::move(chunks));
}

void Auditor::Dial(const std::string& server, std::vector<uint32_t> chunks) {
  v1::InputsRequest request;
  request.set_run_id(settings_.run_id);
  request.set_version(basis_->plan.version());
  request.set_epoch(basis_->plan.epoch());
  for (const uint32_t chunk : chunks) request.add_chunks(chunk);
  const uint64_t number = ++fetches_begun_;
  Fetch& fetch = fetches_[number];
  fetch.server = server;
  fetch.chunks = std::move(chunks);
  fetch.call =
      env_.transport.Dial(basis_->plan.AddressOf(server), kInputsMethod, absl::InfiniteDuration());
  Call::Events events;
  events.on_frame = guard_.Wrap([this, number](Frame frame) { OnPart(number, std::move(frame)); });
  events.on_closed =
      guard_.Wrap([this, number](const absl::Status& why) { OnClosed(number, why); });
  Call& call = *fetch.call;
  call.Start(std::move(events));
  call.Write(Pack(request));
  call.Read();
}

void Auditor::OnPart(uint64_t number, Frame frame) {
  const auto found = fetches_.find(number);
  if (found == fetches_.end()) return;
  const absl::Status taken = TakePart(found->second, frame);
  if (!taken.ok()) return OnClosed(number, taken);
  found->second.call->Read();
}

// Checks each contributor once, which takes some 100 microseconds.
absl::Status Auditor::CheckSigned(uint32_t contributor) {
  if (signed_.count(contributor) > 0) return absl::OkStatus();
  RETURN_IF_ERROR(basis_->plan.CheckProof(settings_.run_id, contributor));
  signed_.insert(contributor);
  return absl::OkStatus();
}

absl::Status Auditor::TakePart(const Fetch& fetch, const Frame& frame) {
  v1::InputsPart part;
  RETURN_IF_ERROR(Unpack(frame, &part));
  const std::optional<uint32_t> sender = basis_->plan.IndexOf(part.contributor());
  const bool asked = std::binary_search(fetch.chunks.begin(), fetch.chunks.end(), part.chunk());
  if (!asked || !sender.has_value() || !basis_->plan.Brings(*sender, part.chunk())) {
    return absl::InvalidArgumentError("an input that was not asked for");
  }
  const size_t contributors = basis_->plan.contributors().size();
  const bool partial = !part.members().empty();
  if (partial && !ValidBitmap(part.members(), contributors)) {
    return absl::InvalidArgumentError("the members of a partial mean are not those of the plan");
  }
  const ChunkForm& form = partial ? basis_->means : basis_->updates;
  if (frame.payload.size() > form.MaxWireBytes(settings_.grid.Elements(part.chunk()))) {
    return absl::InvalidArgumentError("an input is longer than any can be");
  }
  std::optional<Digest> digest;
  if (!partial && !part.leaves().empty()) {
    const absl::StatusOr<Leaf> leaf =
        ProvenLeaf(basis_->plan.contributors()[*sender].root, settings_.grid.chunks(), part.chunk(),
                   part.leaves(), part.path());
    if (!leaf.ok()) return Annotate(leaf.status(), part.contributor());
    RETURN_IF_ERROR(CheckSigned(*sender));
    digest = leaf->digest;
  }
  Given& given = questions_.at(part.chunk()).inputs.at(fetch.server);
  if (given.whole) return absl::OkStatus();  // the chunk was judged without this answer
  if (given.pieces.size() >= contributors) return absl::InvalidArgumentError("too many inputs");
  Piece piece{*sender, partial ? part.members() : SingleBit(contributors, *sender),
              partial, frame.payload.Joined(),
              true,    digest};
  given.pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

void Auditor::OnClosed(uint64_t number, const absl::Status& why) {
  const auto found = fetches_.find(number);
  if (found == fetches_.end()) return;
  const Fetch& fetch = found->second;
  for (const uint32_t chunk : fetch.chunks) {
    Given& given = questions_.at(chunk).inputs.at(fetch.server);
    if (std::exchange(given.whole, true) || why.ok()) continue;
    given.error = std::string(why.message());
  }
  if (why.ok()) AskRelays(fetch);
  EndFetch(found);
  JudgeWhatIsWhole();
}

// Asks the relays that have partial means among the pieces of a reducer.
void Auditor::AskRelays(const Fetch& fetch) {
  std::map<std::string, std::set<uint32_t>> relays;
  for (const uint32_t chunk : fetch.chunks) {
    const Question& question = questions_.at(chunk);
    if (question.judging) continue;
    for (const Piece& piece : question.inputs.at(fetch.server).pieces) {
      const std::string& relay = basis_->plan.contributors()[piece.sender].peer;
      if (!piece.partial || question.inputs.count(relay) > 0) continue;
      relays[relay].insert(chunk);
    }
  }
  for (const auto& [relay, chunks] : relays) Ask(relay, chunks);
}

// Ends a fetch, and begins the next one from its server.
void Auditor::EndFetch(std::map<uint64_t, Fetch>::iterator fetch) {
  const std::string server = fetch->second.server;
  DestroyLater(env_.executor, std::move(fetch->second.call));
  fetches_.erase(fetch);
  AskNext(server);
}

void Auditor::OnDeadline(const std::vector<uint32_t>& chunks) {
  for (const uint32_t chunk : chunks) {
    for (auto& [server, given] : questions_.at(chunk).inputs) {
      if (!std::exchange(given.whole, true)) given.error = "it has not answered in time";
    }
  }
  std::vector<uint64_t> over;
  for (const auto& [number, fetch] : fetches_) {
    const bool wanted =
        std::any_of(fetch.chunks.begin(), fetch.chunks.end(), [&, &at = fetch](uint32_t chunk) {
          return !questions_.at(chunk).inputs.at(at.server).whole;
        });
    if (!wanted) over.push_back(number);
  }
  for (const uint64_t number : over) EndFetch(fetches_.find(number));
  JudgeWhatIsWhole();
}

v1::ChunkVerdict Auditor::Judge(const Basis& basis, uint32_t chunk, uint32_t elements,
                                const Question& question) {
  v1::ChunkVerdict verdict;
  verdict.set_chunk(chunk);
  absl::StatusOr<Digest> computed = absl::NotFoundError("its mean is not here");
  if (question.mean) {
    computed = Recompute(basis, question.inputs, chunk, elements, *question.mean);
  }
  if (!computed.ok()) {
    verdict.set_outcome("unknown");
    verdict.set_reason(std::string(computed.status().message()));
    for (const auto& [server, given] : question.inputs) {
      if (given.error.empty()) continue;
      verdict.set_reason(absl::StrCat(verdict.reason(), "; ", server, ": ", given.error));
    }
    return verdict;
  }
  const Digest found = Sha256(question.mean->encoded.span());
  const bool right = found == *computed || Planted(PlantedBug::kAuditorsTooKind);
  verdict.set_outcome(right ? "right" : "wrong");
  if (right) return verdict;
  verdict.set_computed_digest(ToBytes(*computed));
  verdict.set_found_digest(ToBytes(found));
  verdict.set_reason("another mean follows from the signed inputs");
  return verdict;
}

void Auditor::JudgeWhatIsWhole() {
  auto batch = std::make_shared<Questions>();
  for (auto& [chunk, question] : questions_) {
    const bool whole = std::all_of(question.inputs.begin(), question.inputs.end(),
                                   [](const auto& given) { return given.second.whole; });
    if (!whole || std::exchange(question.judging, true)) continue;
    Question& judged = (*batch)[chunk];
    judged.mean = std::move(question.mean);
    judged.inputs = question.inputs;
    for (auto& [server, given] : question.inputs) given.pieces.clear();
  }
  if (batch->empty()) return;
  auto verdicts = std::make_shared<std::vector<v1::ChunkVerdict>>();
  env_.executor.Offload(
      [batch, verdicts, basis = basis_, grid = settings_.grid] {
        for (const auto& [chunk, question] : *batch) {
          const uint32_t elements = question.mean ? grid.Elements(chunk) : 0;
          verdicts->push_back(Judge(*basis, chunk, elements, question));
        }
      },
      guard_.Wrap([this, verdicts] {
        for (const v1::ChunkVerdict& verdict : *verdicts) {
          questions_.at(verdict.chunk()).verdict = verdict;
        }
        Tell(*verdicts);
      }));
}

void Auditor::Tell(const std::vector<v1::ChunkVerdict>& verdicts) {
  v1::AuditReport report;
  report.set_version(basis_->plan.version());
  report.set_epoch(basis_->plan.epoch());
  report.set_revision(basis_->plan.revision());
  for (const v1::ChunkVerdict& verdict : verdicts) *report.add_verdicts() = verdict;
  const auto tell = tell_;  // a copy, because the call may destroy this object
  for (v1::AuditReport& page : InPages(report)) tell(std::move(page));
}

}  // namespace atolld
