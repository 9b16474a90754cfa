#include "daemon/exchange/payload_build.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "compression/base/check.h"
#include "membership/history/digest.h"

namespace atolld {

// How far it has come.
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
  const uint64_t chunk_bytes;  // of each but the last
  FreshBytes bytes;
  const uint64_t size;
  std::vector<bool> claimed;  // by chunk
  uint64_t chunks_missing;
  std::vector<uint64_t> missing;  // bytes, by block
  std::vector<uint64_t> whole;    // blocks that nothing is missing of, to be hashed
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

// Two take hardly longer than one: as long as more is to come, the odd one waits for it.
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

// One job at a time: blocks that become whole meanwhile are hashed side by side by the next.
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

}  // namespace atolld
