#include "daemon/exchange/outcome.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "membership/history/digest.h"
#include "membership/history/mean_records.h"

namespace atolld {
void MeanTable::Adopt(const ExchangePlan& plan, std::vector<uint32_t>* dropped) {
  plan_ = plan;
  means_.resize(plan.chunks());
  in_payload_.resize(plan.chunks(), false);
  missing_of_.assign(plan.shards().size(), 0);
  missing_ = 0;
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    const uint32_t attempt = plan.ShardOf(c).attempt;
    if (Has(c) && means_[c].attempt != attempt) {
      // A contribution has the same bytes under every attempt, but means of different attempts must
      // not be mixed.
      if (Planted(PlantedBug::kAttemptNotChecked)) {
        means_[c].attempt = attempt;
        continue;
      }
      Drop(c);
      dropped->push_back(c);
    }
    if (Has(c)) continue;
    ++missing_;
    ++missing_of_[plan.ShardIndexOf(c)];
  }
}

void MeanTable::Drop(uint32_t chunk) {
  if (!in_payload_[chunk]) held_bytes_ -= means_[chunk].encoded.size();
  means_[chunk] = ChunkMean();
  in_payload_[chunk] = false;
  ++changes_;
}

void MeanTable::Store(uint32_t chunk, ChunkMean mean) {
  CHECK(!Has(chunk) && mean.attempt == plan_.ShardOf(chunk).attempt);
  means_[chunk] = std::move(mean);
  held_bytes_ += means_[chunk].encoded.size();
  ++changes_;
  --missing_;
  const uint32_t shard = plan_.ShardIndexOf(chunk);
  if (--missing_of_[shard] == 0) became_whole_.insert(shard);
}

std::vector<MeanTable::ShardAttempt> MeanTable::TakeWholeShards() {
  std::vector<ShardAttempt> whole;
  for (const uint32_t shard : std::exchange(became_whole_, {})) {
    if (missing_of_[shard] == 0) whole.emplace_back(shard, plan_.shards()[shard].attempt);
  }
  return whole;
}

void MeanTable::LeanOn(const SharedBytes& payload) {
  size_t total = 0;
  for (const ChunkMean& mean : means_) total += mean.encoded.size();
  // The chunks' bytes are at the payload's end, in grid order without gaps.
  size_t offset = payload.size() - total;
  for (uint32_t c = 0; c < means_.size(); ++c) {
    const size_t bytes = means_[c].encoded.size();
    means_[c].encoded = payload.Part(offset, bytes);
    in_payload_[c] = true;
    offset += bytes;
  }
  held_bytes_ = 0;
}

v1::MeanRecords Records(const ExchangePlan& plan, const std::vector<ChunkMean>& means) {
  MeanRecordsBuilder builder;
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    builder.BeginShard(shard.first_chunk, shard.reducer);
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      builder.Add(means[c].contributors, means[c].partials);
    }
  }
  return builder.Take();
}

ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means) {
  ExchangeOutcome outcome;
  outcome.revision = plan.revision();
  outcome.records = Records(plan, means);
  std::vector<SharedBytes> chunks;
  chunks.reserve(means.size());
  for (const ChunkMean& mean : means) chunks.push_back(mean.encoded);
  outcome.payload = JoinPayload(chunks);
  outcome.payload_digest = TreeDigest(outcome.payload.span());
  return outcome;
}

double SquaredMean(const std::vector<ChunkMean>& means) {
  double sum = 0;
  for (const ChunkMean& mean : means) sum = sum + mean.squared_norm;
  return sum;
}

// The progress of the build.
struct PayloadBuild::Work {
  Work(const ChunkGrid& grid, const Codec& codec);

  uint64_t Offset(uint32_t chunk) const { return table_bytes + chunk * chunk_bytes; }
  uint64_t Bytes(uint32_t chunk) const { return std::min(chunk_bytes, size - Offset(chunk)); }
  void Cover(uint64_t begin, uint64_t end);
  std::vector<uint64_t> TakeWhole();
  absl::Span<const uint8_t> Block(uint64_t block) {
    return bytes.span().subspan(block * kBlockBytes, kBlockBytes);
  }

  const uint64_t table_bytes;
  const uint64_t chunk_bytes;  // the bytes of each chunk except the last
  FreshBytes bytes;
  const uint64_t size;
  std::vector<bool> claimed;  // by chunk
  uint64_t chunks_missing;
  std::vector<uint64_t> missing;  // by block: the bytes that are missing
  std::vector<uint64_t> whole;    // the blocks that are complete and must be hashed
  std::vector<Digest> leaves;     // by block
};

PayloadBuild::Work::Work(const ChunkGrid& grid, const Codec& codec)
    : table_bytes(PayloadTableBytes(grid)),
      chunk_bytes(codec.MaxEncodedBytes(grid.chunk_elements())),
      bytes(MaxPayloadBytes(grid, codec)),
      size(bytes.span().size()),
      claimed(grid.chunks()),
      chunks_missing(grid.chunks()),
      missing((size + kBlockBytes - 1) / kBlockBytes, kBlockBytes),
      leaves(missing.size()) {
  missing.back() = size - (missing.size() - 1) * kBlockBytes;
  std::vector<size_t> lengths(grid.chunks(), chunk_bytes);
  lengths.back() = size - Offset(grid.chunks() - 1);
  WritePayloadTable(lengths, bytes.span());
  Cover(0, table_bytes);
}

void PayloadBuild::Work::Cover(uint64_t begin, uint64_t end) {
  while (begin < end) {
    const uint64_t block = begin / kBlockBytes;
    const uint64_t part = std::min(end, (block + 1) * kBlockBytes) - begin;
    missing[block] -= part;
    if (missing[block] == 0) whole.push_back(block);
    begin += part;
  }
}

// Hashing two blocks takes hardly longer than hashing one: while more blocks are expected, an odd
// block waits for the next one.
std::vector<uint64_t> PayloadBuild::Work::TakeWhole() {
  if (chunks_missing == 0 || whole.size() % 2 == 0) return std::exchange(whole, {});
  const uint64_t odd = whole.back();
  whole.pop_back();
  return std::exchange(whole, {odd});
}

PayloadBuild::PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec)
    : executor_(executor),
      grid_(grid),
      codec_(codec),
      given_up_(grid.chunks() == 0 || !codec.has_fixed_rate()) {}

PayloadBuild::~PayloadBuild() = default;

std::optional<FreshBytes> PayloadBuild::Claim(uint32_t chunk) {
  if (given_up_) return std::nullopt;
  if (work_ == nullptr) work_ = std::make_unique<Work>(grid_, codec_);
  if (work_->claimed[chunk]) {
    GiveUp();
    return std::nullopt;
  }
  work_->claimed[chunk] = true;
  return work_->bytes.Part(work_->Offset(chunk), work_->Bytes(chunk));
}

void PayloadBuild::Take(uint32_t chunk, const SharedBytes& encoded) {
  if (given_up_) return;
  const bool in_place = work_ != nullptr && encoded.size() == work_->Bytes(chunk) &&
                        encoded.data() == work_->bytes.span().data() + work_->Offset(chunk);
  if (!in_place) return GiveUp();
  --work_->chunks_missing;
  work_->Cover(work_->Offset(chunk), work_->Offset(chunk) + encoded.size());
  Advance();
}

void PayloadBuild::GiveUp() {
  given_up_ = true;
  work_ = nullptr;
  if (done_) executor_.Post(guard_.Wrap([this] { Advance(); }));
}

// Runs one job at a time. Blocks that become complete meanwhile are hashed together by the next
// job.
void PayloadBuild::Advance() {
  if (hashing_) return;
  std::vector<uint64_t> blocks;
  if (!given_up_) blocks = work_->TakeWhole();
  if (!blocks.empty()) {
    hashing_ = true;
    std::vector<absl::Span<const uint8_t>> pieces;
    for (const uint64_t block : blocks) pieces.push_back(work_->Block(block));
    auto digests = std::make_shared<std::vector<Digest>>();
    executor_.Offload([digests, pieces, memory = work_->bytes] { *digests = Sha256Each(pieces); },
                      guard_.Wrap([this, digests, blocks] {
                        hashing_ = false;
                        for (size_t i = 0; i < blocks.size() && !given_up_; ++i) {
                          work_->leaves[blocks[i]] = (*digests)[i];
                        }
                        Advance();
                      }));
    return;
  }
  if (!done_) return;
  ExchangeOutcome outcome;
  if (!given_up_) {
    outcome.payload = std::move(work_->bytes).Share(work_->size);
    outcome.payload_digest = TreeRoot(work_->size, work_->leaves);
  }
  std::exchange(done_, nullptr)(std::move(outcome));
}

void PayloadBuild::Finish(std::function<void(ExchangeOutcome)> done) {
  CHECK(!given_up_);
  done_ = std::move(done);
  executor_.Post(guard_.Wrap([this] { Advance(); }));
}

OutcomeBuild::OutcomeBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec,
                           Events events)
    : executor_(executor), events_(std::move(events)), payload_(executor, grid, codec) {}

std::vector<uint32_t> OutcomeBuild::Adopt(const ExchangePlan& plan) {
  std::vector<uint32_t> dropped;
  table_.Adopt(plan, &dropped);
  if (!dropped.empty()) payload_.GiveUp();
  return dropped;
}

void OutcomeBuild::Store(uint32_t chunk, ChunkMean mean) {
  payload_.Take(chunk, mean.encoded);
  table_.Store(chunk, std::move(mean));
}

void OutcomeBuild::TellNews() {
  TellShardsHeld();
  CompleteIfAllHere();
}

void OutcomeBuild::Stop() { stopped_ = true; }

void OutcomeBuild::TellShardsHeld() {
  if (!table_.news() || telling_held_) return;
  telling_held_ = true;
  executor_.Post(guard_.Wrap([this] {
    telling_held_ = false;
    std::vector<MeanTable::ShardAttempt> shards = table_.TakeWholeShards();
    const auto tell = events_.on_shards_held;  // a copy, because the call may destroy this object
    if (tell && !stopped_ && !shards.empty()) tell(std::move(shards));
  }));
}

void OutcomeBuild::CompleteIfAllHere() {
  const uint32_t revision = table_.plan().revision();
  if (!table_.whole() || stopped_ || assembling_ || told_revision_ == revision) return;
  if (outcome_.has_value() && outcome_changes_ == table_.changes()) return TellOutcome();
  assembling_ = true;
  if (!payload_.given_up()) {
    return payload_.Finish([this, changes = table_.changes()](ExchangeOutcome made) {
      assembling_ = false;
      OnAssembled(changes, std::move(made));
    });
  }
  auto made = std::make_shared<ExchangeOutcome>();
  executor_.Offload(
      [made, plan = table_.plan(), means = table_.means()]() mutable {
        *made = Assemble(plan, means);
        means.clear();
      },
      guard_.Wrap([this, made, changes = table_.changes()] {
        assembling_ = false;
        OnAssembled(changes, std::move(*made));
      }));
}

void OutcomeBuild::TellOutcome() {
  told_revision_ = table_.plan().revision();
  executor_.Post(guard_.Wrap([this, revision = told_revision_] {
    if (stopped_ || revision != table_.plan().revision()) return;
    ExchangeOutcome told = *outcome_;
    told.revision = revision;
    told.records = Records(table_.plan(), table_.means());  // an empty shard may have got another
                                                            // reducer
    const auto tell = events_.on_complete;                  // a copy, because the call may destroy
                                                            // this object
    if (tell) tell(std::move(told));
  }));
}

void OutcomeBuild::OnAssembled(uint64_t changes, ExchangeOutcome made) {
  // An empty payload means that the build has ended meanwhile.
  if (changes == table_.changes() && !made.payload.empty()) {
    outcome_ = std::move(made);
    outcome_->squared_mean = SquaredMean(table_.means());
    outcome_changes_ = changes;
    table_.LeanOn(outcome_->payload);
  }
  CompleteIfAllHere();
}

}  // namespace atolld
