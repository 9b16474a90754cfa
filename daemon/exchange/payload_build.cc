#include "daemon/exchange/payload_build.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/replica/digest.h"
#include "daemon/status_macros.h"

namespace atolld {

// What the jobs work on, one after another.
struct PayloadBuild::Work {
  Work(const ChunkGrid& grid, const Codec& codec);

  uint64_t Offset(uint32_t chunk) const { return table_bytes + chunk * chunk_bytes; }
  void Take(const std::vector<Mean>& means);
  void Cover(uint64_t begin, uint64_t end);
  void HashWhole();

  const uint64_t table_bytes;
  const uint64_t chunk_bytes;  // of each but the last
  FreshBytes bytes;
  const uint64_t size;
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
      chunks_missing(grid.chunks()),
      missing((size + kBlockBytes - 1) / kBlockBytes, kBlockBytes),
      leaves(missing.size()) {
  missing.back() = size - (missing.size() - 1) * kBlockBytes;
  std::vector<size_t> lengths(grid.chunks(), chunk_bytes);
  lengths.back() = size - Offset(grid.chunks() - 1);
  WritePayloadTable(lengths, bytes.span());
  Cover(0, table_bytes);
}

void PayloadBuild::Work::Take(const std::vector<Mean>& means) {
  for (const Mean& mean : means) {
    const absl::Span<uint8_t> place = bytes.span().subspan(Offset(mean.chunk), mean.encoded.size());
    std::memcpy(place.data(), mean.encoded.data(), place.size());
    Cover(Offset(mean.chunk), Offset(mean.chunk) + place.size());
  }
  chunks_missing -= means.size();
  HashWhole();
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
void PayloadBuild::Work::HashWhole() {
  const size_t count = chunks_missing > 0 ? whole.size() / 2 * 2 : whole.size();
  std::vector<absl::Span<const uint8_t>> pieces;
  for (size_t i = 0; i < count; ++i) {
    pieces.push_back(bytes.span().subspan(whole[i] * kBlockBytes, kBlockBytes));
  }
  const std::vector<Digest> digests = Sha256Each(pieces);
  for (size_t i = 0; i < count; ++i) leaves[whole[i]] = digests[i];
  whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count));
}

PayloadBuild::PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec,
                           OnPlaced on_placed)
    : executor_(executor),
      grid_(grid),
      codec_(codec),
      on_placed_(std::move(on_placed)),
      given_up_(grid.chunks() == 0) {}

PayloadBuild::~PayloadBuild() = default;

void PayloadBuild::Place(uint32_t chunk, const SharedBytes& encoded) {
  if (given_up_) return;
  if (encoded.size() != codec_.MaxEncodedBytes(grid_.Elements(chunk))) return GiveUp();
  placed_.push_back({chunk, encoded});
  Advance();
}

void PayloadBuild::GiveUp() {
  given_up_ = true;
  placed_.clear();
  work_ = nullptr;
  if (done_) executor_.Post(guard_.Wrap([this] { Advance(); }));
}

// One job at a time: what comes meanwhile is taken up, and hashed side by side, by the next.
void PayloadBuild::Advance() {
  if (working_) return;
  if (!placed_.empty()) {
    working_ = true;
    auto work = std::make_shared<std::shared_ptr<Work>>(work_);
    auto means = std::make_shared<std::vector<Mean>>(std::exchange(placed_, {}));
    executor_.Offload(
        [work, grid = grid_, &codec = codec_, means] {
          if (*work == nullptr) *work = std::make_shared<Work>(grid, codec);
          (*work)->Take(*means);
        },
        guard_.Wrap([this, work, means] {
          working_ = false;
          if (!given_up_) {
            work_ = *work;
            for (const Mean& mean : *means) {
              on_placed_(mean.chunk,
                         work_->bytes.Part(work_->Offset(mean.chunk), mean.encoded.size()));
            }
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
