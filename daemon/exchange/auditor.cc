#include "daemon/exchange/auditor.h"

#include <utility>

#include "daemon/exchange/inputs.h"
#include "daemon/exchange/stream_meter.h"
#include "daemon/status_macros.h"
#include "membership/bitmap.h"
#include "membership/planted_bug.h"

namespace atolld {
namespace {

using Inputs = std::map<std::string, std::map<uint32_t, std::vector<Piece>>>;

std::string OneBit(size_t bits, uint32_t bit) {
  std::string bitmap(BitmapBytes(bits), '\0');
  SetBit(&bitmap, bit);
  return bitmap;
}

// Each is its contributor's signed chunk.
absl::Status CheckPiece(const Auditor::Basis& basis, const Piece& piece, uint32_t elements) {
  ASSIGN_OR_RETURN(const SharedBytes encoded, basis.updates.FromWire(piece.bytes, elements));
  if (piece.digest.has_value() && Sha256(encoded.span()) == *piece.digest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the input of ",
                                                 basis.plan.contributors()[piece.sender].peer,
                                                 " is not the one that it has signed"));
}

// As the relay must have made it: of its members' signed chunks.
absl::StatusOr<Piece> Recomputed(const Auditor::Basis& basis, const Inputs& inputs, uint32_t chunk,
                                 uint32_t elements, const Piece& partial) {
  const std::string& relay = basis.plan.contributors()[partial.sender].peer;
  const auto server = inputs.find(relay);
  if (server == inputs.end() || server->second.count(chunk) == 0) {
    return absl::UnavailableError(absl::StrCat("relay ", relay, " gives no inputs"));
  }
  const std::vector<Piece>& members = server->second.at(chunk);
  std::string covered(partial.contributors.size(), '\0');
  for (const Piece& member : members) {
    if (member.partial) return absl::InvalidArgumentError("a relay's input is a partial mean");
    RETURN_IF_ERROR(CheckPiece(basis, member, elements));
    UniteBits(member.contributors, &covered);
  }
  if (covered != partial.contributors) {
    return absl::InvalidArgumentError(
        absl::StrCat("the inputs of relay ", relay, " are of other contributors"));
  }
  Reduced reduced;
  RETURN_IF_ERROR(basis.reduce(chunk, true, members, &reduced));
  return Piece{partial.sender, partial.contributors, true, reduced.encoded, false};
}

// What the mean of this chunk should be. An error: it cannot be said.
absl::StatusOr<Digest> Recompute(const Auditor::Basis& basis, const Inputs& inputs, uint32_t chunk,
                                 uint32_t elements, const ChunkMean& mean) {
  const std::string& reducer = basis.plan.ShardOf(chunk).reducer;
  const auto server = inputs.find(reducer);
  if (server == inputs.end() || server->second.count(chunk) == 0) {
    return absl::UnavailableError(absl::StrCat("reducer ", reducer, " gives no inputs"));
  }
  std::vector<Piece> pieces;
  std::string covered(BitmapBytes(basis.plan.contributors().size()), '\0');
  std::vector<std::string> partials;
  for (const Piece& given : server->second.at(chunk)) {
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
  RETURN_IF_ERROR(basis.reduce(chunk, false, pieces, &reduced));
  if (!reduced.refused.empty()) return reduced.refused.front().second;
  return Sha256(reduced.encoded.span());
}

}  // namespace

Auditor::Auditor(Env env, const ExchangeSettings& settings, Basis basis, v1::Audit order,
                 std::map<uint32_t, ChunkMean> means, std::function<void(v1::AuditReport)> done)
    : env_(env),
      settings_(settings),
      basis_(std::make_shared<const Basis>(std::move(basis))),
      order_(std::move(order)),
      means_(std::make_shared<const std::map<uint32_t, ChunkMean>>(std::move(means))),
      done_(std::move(done)) {
  std::map<std::string, std::vector<uint32_t>> servers;
  for (const auto& [chunk, mean] : *means_) {
    servers[basis_->plan.ShardOf(chunk).reducer].push_back(chunk);
  }
  for (const auto& [server, chunks] : servers) Ask(server, chunks);
  env_.executor.RunAfter(absl::Milliseconds(static_cast<int64_t>(order_.deadline_milliseconds())),
                         guard_.Wrap([this] {
                           fetches_.clear();
                           Judge();
                         }));
  if (fetches_.empty()) env_.executor.Post(guard_.Wrap([this] { Judge(); }));
}

Auditor::~Auditor() = default;

// One call a server: whoever gives inputs takes few calls of one caller.
void Auditor::Ask(const std::string& server, const std::vector<uint32_t>& chunks) {
  for (const uint32_t chunk : chunks) asked_.insert({server, chunk});
  for (const auto& [other, asking] : fetches_) {
    if (asking.server == server) return queued_[server].insert(chunks.begin(), chunks.end());
  }
  const uint64_t number = ++fetches_begun_;
  Fetch& fetch = fetches_[number];
  fetch.server = server;
  fetch.chunks = chunks;
  v1::InputsRequest request;
  request.set_run_id(settings_.run_id);
  request.set_version(order_.version());
  request.set_epoch(order_.epoch());
  for (const uint32_t chunk : chunks) request.add_chunks(chunk);
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
  const absl::Status taken = Take(found->second, frame);
  if (!taken.ok()) return OnClosed(number, taken);
  found->second.call->Read();
}

absl::Status Auditor::TakeLeaves(uint32_t contributor, const std::string& leaves) {
  const std::string& root = basis_->plan.contributors()[contributor].root;
  if (leaves.empty() || leaves_.count(contributor) > 0) return absl::OkStatus();
  if (leaves.size() != settings_.grid.chunks() * kLeafBytes ||
      ToBytes(ContributionRoot(leaves)) != root) {
    return absl::InvalidArgumentError(absl::StrCat("its leaves of ",
                                                   basis_->plan.contributors()[contributor].peer,
                                                   " are not those of the signed root"));
  }
  leaves_[contributor] = leaves;
  return absl::OkStatus();
}

absl::Status Auditor::Take(const Fetch& fetch, const Frame& frame) {
  v1::InputsPart part;
  RETURN_IF_ERROR(Unpack(frame, &part));
  const std::optional<uint32_t> sender = basis_->plan.IndexOf(part.contributor());
  if (asked_.count({fetch.server, part.chunk()}) == 0 || !sender.has_value()) {
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
  std::vector<Piece>& pieces = given_[fetch.server][part.chunk()].pieces;
  if (pieces.size() >= contributors) return absl::InvalidArgumentError("too many inputs");
  RETURN_IF_ERROR(TakeLeaves(*sender, part.leaves()));
  Piece piece{*sender, partial ? part.members() : OneBit(contributors, *sender), partial,
              frame.payload, true};
  const auto leaves = leaves_.find(*sender);
  if (!partial && leaves != leaves_.end()) {
    piece.digest = LeafOf(leaves->second, part.chunk()).digest;
  }
  pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

void Auditor::OnClosed(uint64_t number, const absl::Status& why) {
  auto node = fetches_.extract(number);
  if (node.empty()) return;
  Fetch& fetch = node.mapped();
  for (const uint32_t chunk : fetch.chunks) {
    if (!why.ok()) given_[fetch.server][chunk].error = std::string(why.message());
  }
  if (why.ok()) AskRelays(fetch);
  const auto queued = queued_.extract(fetch.server);
  if (!queued.empty()) {
    Ask(fetch.server, {queued.mapped().begin(), queued.mapped().end()});
  }
  DestroyLater(env_.executor, std::move(fetch.call));
  if (fetches_.empty()) Judge();
}

// Whose partial means are among what a reducer gave.
void Auditor::AskRelays(const Fetch& fetch) {
  std::map<std::string, std::vector<uint32_t>> relays;
  for (const uint32_t chunk : fetch.chunks) {
    for (const Piece& piece : given_[fetch.server][chunk].pieces) {
      const std::string& relay = basis_->plan.contributors()[piece.sender].peer;
      if (!piece.partial || asked_.count({relay, chunk}) > 0) continue;
      relays[relay].push_back(chunk);
    }
  }
  for (const auto& [relay, chunks] : relays) Ask(relay, chunks);
}

void Auditor::Judge() {
  if (std::exchange(judging_, true)) return;
  report_.set_version(order_.version());
  report_.set_epoch(order_.epoch());
  report_.set_revision(order_.revision());
  auto inputs = std::make_shared<Inputs>();
  std::map<std::string, std::map<uint32_t, std::string>> errors;
  for (auto& [server, chunks] : given_) {
    for (auto& [chunk, given] : chunks) {
      if (given.error.empty()) {
        (*inputs)[server][chunk] = std::move(given.pieces);
      } else {
        errors[server][chunk] = given.error;
      }
    }
  }
  auto report = std::make_shared<v1::AuditReport>(report_);
  env_.executor.Offload(
      [report, inputs, errors, basis = basis_, means = means_, order = order_,
       grid = settings_.grid] {
        for (const uint32_t chunk : order.chunks()) {
          v1::ChunkVerdict* verdict = report->add_verdicts();
          verdict->set_chunk(chunk);
          const auto mean = means->find(chunk);
          absl::StatusOr<Digest> computed = absl::NotFoundError("its mean is not here");
          if (mean != means->end()) {
            computed = Recompute(*basis, *inputs, chunk, grid.Elements(chunk), mean->second);
          }
          if (!computed.ok()) {
            verdict->set_outcome("unknown");
            verdict->set_reason(std::string(computed.status().message()));
            for (const auto& [server, chunks] : errors) {
              const auto why = chunks.find(chunk);
              if (why == chunks.end()) continue;
              verdict->set_reason(absl::StrCat(verdict->reason(), "; ", server, ": ", why->second));
            }
            continue;
          }
          const Digest found = Sha256(mean->second.encoded.span());
          const bool right = found == *computed || Planted(PlantedBug::kAuditorsTooKind);
          verdict->set_outcome(right ? "right" : "wrong");
          if (right) continue;
          verdict->set_computed_digest(ToBytes(*computed));
          verdict->set_found_digest(ToBytes(found));
          verdict->set_reason("another mean follows from the signed inputs");
        }
      },
      guard_.Wrap([this, report] {
        report_ = *report;
        Tell();
      }));
}

void Auditor::Tell() {
  if (std::exchange(told_, true)) return;
  const auto done = done_;  // it may destroy this
  done(report_);
}

}  // namespace atolld
