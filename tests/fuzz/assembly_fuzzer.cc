// Sends chunks of several contributors as frames of the wire, honest ones and others, in any order:
// what a reducer accepts is averaged once, and means that are packed together are unpacked
// unchanged.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atoll/v1/exchange.pb.h"
#include "compression/base/bitmap.h"
#include "daemon/env/network.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/outcome.h"
#include "daemon/exchange/reducer.h"
#include "google/protobuf/stubs/logging.h"
#include "membership/history/mean_records.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

constexpr char kSelf[] = "a";  // reduces every shard, and contributes
constexpr uint32_t kRevision = 2;
constexpr uint32_t kAttempt = 2;

std::string Bits(size_t bits, std::initializer_list<uint32_t> set) {
  std::string bitmap(BitmapBytes(bits), '\0');
  for (const uint32_t bit : set) SetBit(&bitmap, bit);
  return bitmap;
}

// Draws a plan of one to five contributors and up to three shards; if there are enough, "b" relays
// for itself and "c".
v1::Plan DrawPlan(FuzzInput* input, const ChunkGrid& grid) {
  v1::Plan plan;
  plan.set_version(7);
  plan.set_epoch(1);
  plan.set_revision(kRevision);
  plan.set_parameters(grid.elements());
  const size_t contributors = 1 + input->Byte() % 5;
  for (size_t i = 0; i < contributors; ++i) {
    v1::PlanMember* const member = plan.add_contributors();
    member->set_peer(std::string(1, static_cast<char>('a' + i)));
    member->set_address("host:1");
    member->set_weight_bits(i % 2 == 0 ? 0x3f800000 : 0x40490fdb);
  }
  const bool relays = contributors >= 3 && input->Byte() % 2 == 1;
  for (uint32_t first = 0; first < grid.chunks();) {
    v1::Shard* const shard = plan.add_shards();
    const uint32_t left = grid.chunks() - first;
    shard->set_first_chunk(first);
    shard->set_chunks(plan.shards_size() == 3 ? left : 1 + input->Below(left));
    shard->set_reducer(kSelf);
    shard->set_attempt(kAttempt);
    if (relays) {
      v1::Relay* const relay = shard->add_relays();
      relay->set_peer("b");
      relay->set_members(Bits(contributors, {1, 2}));
    }
    first += shard->chunks();
  }
  return plan;
}

class Assembly {
 public:
  Assembly(const ChunkForm& form, const ChunkForm& means, const ChunkGrid& grid,
           const v1::Plan& plan)
      : form_(form),
        means_(means),
        grid_(grid),
        plan_(ExchangePlan::Make(plan, grid).value()),
        reducer_(kSelf) {
    for (const ExchangePlan::Contributor& contributor : plan_.contributors()) {
      weights_.push_back(contributor.weight);
      terms_.weights.push_back(contributor.weight);
      terms_.scales.push_back(contributor.scale);
    }
    std::vector<uint32_t> dropped;
    table_.Adopt(plan_, &dropped);
    std::set<uint32_t> ask_again;
    std::vector<Reducer::Work> ready;
    reducer_.Update(plan_, &ready, &ask_again);
    Do(std::move(ready));
  }

  // A frame as the wire brings it, from a stream of `sender`, cut where the input says.
  void Receive(uint32_t sender, const Frame& frame, FuzzInput* input) {
    const std::string head = FrameHead(frame);
    const SharedBytes message_bytes(head);
    const SharedBytes payload = frame.payload.Joined();
    const size_t cut = std::min<size_t>(input->Byte(), head.size());
    const size_t payload_cut = std::min<size_t>(input->Byte(), payload.size());
    ByteParts wire(message_bytes.Part(0, cut));
    wire.Append(message_bytes.Part(cut, head.size() - cut));
    wire.Append(payload.Part(0, payload_cut));
    wire.Append(payload.Part(payload_cut, payload.size() - payload_cut));
    const absl::StatusOr<Frame> parsed = ParseFrame(wire);
    if (!parsed.ok()) return;
    v1::ToReducer message;
    if (!Unpack(*parsed, &message).ok()) return;
    Take(sender, message.chunk(), parsed->payload.Joined());
  }

  // What the reducer has of its own.
  void Own(uint32_t chunk, const SharedBytes& encoded) {
    std::vector<Reducer::Work> ready;
    reducer_.Add({chunk, kAttempt, kRevision},
                 Piece{0, Bits(weights_.size(), {0}), false, encoded, false}, &ready);
    Do(std::move(ready));
  }

  const ExchangePlan& plan() const { return plan_; }

  void CheckWhole() {
    if (!table_.whole()) return;
    const ExchangeOutcome outcome = Assemble(plan_, table_.means());
    Require(outcome.payload_digest == TreeDigest(outcome.payload.span()), "the payload's digest");
    const auto chunks = SplitPayload(grid_, *means_.codec, outcome.payload);
    Require(chunks.ok(), "what was put together comes apart");
    for (uint32_t c = 0; c < plan_.chunks(); ++c) {
      Require((*chunks)[c].str() == table_.at(c).encoded.str(), "the chunks are as they were");
      CheckRecord(outcome, c);
    }
  }

 private:
  void Take(uint32_t sender, const v1::ContributionChunk& chunk, const SharedBytes& payload) {
    if (reducer_.refused(sender) || chunk.chunk() >= plan_.chunks()) return;
    const bool partial = !chunk.contributors().empty();
    const ChunkForm& form = partial ? means_ : form_;
    if (payload.size() > form.MaxWireBytes(grid_.Elements(chunk.chunk()))) return;
    if (partial && !ValidBitmap(chunk.contributors(), weights_.size())) return;
    std::vector<Reducer::Work> ready;
    reducer_.Add({chunk.chunk(), chunk.attempt(), chunk.revision()},
                 Piece{sender, partial ? chunk.contributors() : Bits(weights_.size(), {sender}),
                       partial, payload, true},
                 &ready);
    Do(std::move(ready));
  }

  void Do(std::vector<Reducer::Work> ready) {
    for (const Reducer::Work& work : ready) {
      Require(given_out_.insert(work.chunk).second, "a chunk is averaged once");
      std::string seen(BitmapBytes(weights_.size()), '\0');
      for (const Piece& piece : work.pieces) {
        Require(!Overlap(piece.contributors, seen), "nobody counts twice");
        UniteBits(piece.contributors, &seen);
      }
      const uint32_t elements = grid_.Elements(work.chunk);
      Reduced reduced;
      const absl::Status status =
          Reduce(form_, means_, {plan_.version(), work.chunk, work.partial, {}}, elements, terms_,
                 work.pieces, std::nullopt, &reduced);
      std::vector<Reducer::Work> more;
      for (const auto& [sender, why] : reduced.refused) reducer_.Refuse(sender, &more);
      if (status.ok()) Store(work, reduced, elements);
      Do(std::move(more));
    }
  }

  void Store(const Reducer::Work& work, const Reduced& reduced, uint32_t elements) {
    const auto received = means_.Measured(reduced.wire, elements, std::nullopt);
    Require(received.ok() && received->encoded.str() == reduced.encoded.str(),
            "a mean is received as it was sent");
    std::vector<float> values(elements);
    Require(means_.codec->Decode(received->encoded.span(), absl::MakeSpan(values)).ok(),
            "it is decoded");
    for (const float value : values) Require(std::isfinite(value), "a mean is finite");
    Require(ValidParts(reduced.partials, reduced.contributors, weights_.size()),
            "its partial means fit");
    table_.Store(work.chunk, {work.attempt, reduced.encoded, reduced.contributors, reduced.partials,
                              reduced.squared_norm});
    reducer_.Close(work.chunk);
  }

  void CheckRecord(const ExchangeOutcome& outcome, uint32_t chunk) const {
    const std::string& contributors = SetOfChunk(outcome.records, chunk).contributors();
    Require(contributors == table_.at(chunk).contributors, "the record names who is in a mean");
  }

  const ChunkForm form_;   // of contributions
  const ChunkForm means_;  // of partial and whole ones
  const ChunkGrid grid_;
  const ExchangePlan plan_;
  std::vector<float> weights_;
  MeanTerms terms_;
  Reducer reducer_;
  MeanTable table_;
  std::set<uint32_t> given_out_;
};

SharedBytes Encoded(const Codec& codec, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
  const auto used = codec.Encode(values, absl::MakeSpan(bytes));
  Require(used.ok(), "finite values are encoded");
  bytes.resize(*used);
  return SharedBytes(std::move(bytes));
}

// Returns what a contributor that follows the plan sends for a chunk; nothing for a member of a
// relay.
bool Honest(const ExchangePlan& plan, const ChunkForm& form, const ChunkForm& means,
            uint32_t sender, uint32_t chunk, const std::vector<float>& values, Frame* frame) {
  const ExchangePlan::Shard& shard = plan.ShardOf(chunk);
  if (plan.TargetOf(shard, sender) != kSelf) return false;
  v1::ToReducer message;
  message.mutable_chunk()->set_attempt(kAttempt);
  message.mutable_chunk()->set_chunk(chunk);
  message.mutable_chunk()->set_revision(kRevision);
  const ExchangePlan::Relay* const relay = plan.RelayOf(shard, sender);
  if (relay != nullptr) message.mutable_chunk()->set_contributors(relay->members);
  const ChunkForm& sent_as = relay != nullptr ? means : form;
  *frame = Pack(message, sent_as.ToWire(Encoded(*sent_as.codec, values)));
  return true;
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  google::protobuf::SetLogHandler(nullptr);  // what cannot be parsed is what this is about
  FuzzInput input(data, size);
  const std::vector<std::string> names = CodecNames();
  const uint8_t kind = input.Byte();
  const ChunkForm form{*FindCodec(names[kind / 2 % names.size()]), kind % 2 == 1};
  const ChunkGrid grid(1 + input.Below(600), 64 + input.Below(200));
  // Of the same codec, where little is drawn.
  const ChunkForm means{*FindCodec(names[(kind / 2 + kind / 14) % names.size()]), kind % 2 == 1};
  Assembly assembly(form, means, grid, DrawPlan(&input, grid));
  const auto contributors = static_cast<uint32_t>(assembly.plan().contributors().size());
  while (!input.empty()) {
    const uint32_t sender = contributors == 1 ? 0 : 1 + input.Below(contributors - 1);
    const uint32_t chunk = input.Below(grid.chunks() + 1);
    const uint8_t how = input.Byte();
    if (sender == 0) break;
    Frame frame;
    if (how % 4 == 0 && chunk < grid.chunks()) {  // one that is damaged on its way
      const std::vector<float> values = input.Values(grid.Elements(chunk));
      if (!Honest(assembly.plan(), form, means, sender, chunk, values, &frame)) continue;
      const SharedBytes honest = frame.payload.Joined();
      std::vector<uint8_t> payload(honest.span().begin(), honest.span().end());
      input.Damage(&payload);
      frame.payload = SharedBytes(std::move(payload));
    } else if (how % 4 == 1) {  // whatever it likes to send
      const absl::Span<const uint8_t> message = input.Take(input.Byte() % 32);
      frame.message.assign(message.begin(), message.end());
      const absl::Span<const uint8_t> payload = input.Take(input.Byte());
      frame.payload = SharedBytes(std::vector<uint8_t>(payload.begin(), payload.end()));
    } else {  // well formed, of any key and any set
      v1::ToReducer message;
      message.mutable_chunk()->set_attempt(kAttempt - 1 + how / 4 % 3);
      message.mutable_chunk()->set_chunk(chunk);
      message.mutable_chunk()->set_revision(kRevision - 1 + how / 16 % 3);
      const absl::Span<const uint8_t> set = input.Take(how / 64);
      message.mutable_chunk()->set_contributors(std::string(set.begin(), set.end()));
      const size_t elements = grid.Elements(chunk % grid.chunks());
      frame = Pack(message, form.ToWire(Encoded(*form.codec, input.Values(elements))));
    }
    assembly.Receive(sender, frame, &input);
  }
  // Then all that the plan asks for, so that every chunk comes to its end.
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const std::vector<float> values(grid.Elements(c), 0.5f);
    for (uint32_t sender = 1; sender < contributors; ++sender) {
      Frame frame;
      if (!Honest(assembly.plan(), form, means, sender, c, values, &frame)) continue;
      assembly.Receive(sender, frame, &input);
    }
    assembly.Own(c, Encoded(*form.codec, values));
  }
  assembly.CheckWhole();
  return 0;
}
