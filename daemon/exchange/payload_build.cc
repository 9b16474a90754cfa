#include "daemon/exchange/payload_build.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/exchange/assemble.h"
#include "daemon/exchange/contribution.h"
#include "daemon/replica/digest.h"
#include "daemon/status_macros.h"

namespace atolld {

// What the jobs work on, one after another.
struct PayloadBuild::Work {
  Work(const ChunkGrid& grid_in, const Codec& codec_in);

  uint64_t Offset(uint32_t chunk) const { return table_bytes + chunk * chunk_bytes; }
  void Take(const std::vector<Mean>& means);
  void Cover(uint64_t begin, uint64_t end, std::vector<uint64_t>* whole);
  void Hash(const std::vector<uint64_t>& blocks);

  const ChunkGrid grid;
  const Codec& codec;
  const uint64_t table_bytes;
  const uint64_t chunk_bytes;  // of each but the last
  FreshBytes bytes;
  const uint64_t size;
  std::vector<uint64_t> missing;                // bytes, by block
  std::vector<Digest> leaves;                   // by block
  std::vector<absl::StatusOr<double>> squares;  // by chunk
};

PayloadBuild::Work::Work(const ChunkGrid& grid_in, const Codec& codec_in)
    : grid(grid_in),
      codec(codec_in),
      table_bytes(PayloadTableBytes(grid)),
      chunk_bytes(codec.MaxEncodedBytes(grid.chunk_elements())),
      bytes(MaxPayloadBytes(grid, codec)),
      size(bytes.span().size()),
      missing((size + kBlockBytes - 1) / kBlockBytes, kBlockBytes),
      leaves(missing.size()),
      squares(grid.chunks()) {
  missing.back() = size - (missing.size() - 1) * kBlockBytes;
  std::vector<size_t> lengths(grid.chunks(), chunk_bytes);
  lengths.back() = size - Offset(grid.chunks() - 1);
  WritePayloadTable(lengths, bytes.span());
  std::vector<uint64_t> whole;
  Cover(0, table_bytes, &whole);
  Hash(whole);
}

void PayloadBuild::Work::Take(const std::vector<Mean>& means) {
  const std::unique_ptr<float[]> values(new float[grid.chunk_elements()]);
  std::vector<uint64_t> whole;
  for (const Mean& mean : means) {
    const absl::Span<uint8_t> place = bytes.span().subspan(Offset(mean.chunk), mean.encoded.size());
    std::memcpy(place.data(), mean.encoded.data(), place.size());
    squares[mean.chunk] =
        MeasureChunk(codec, place, absl::MakeSpan(values.get(), grid.Elements(mean.chunk)));
    Cover(Offset(mean.chunk), Offset(mean.chunk) + place.size(), &whole);
  }
  Hash(whole);
}

void PayloadBuild::Work::Cover(uint64_t begin, uint64_t end, std::vector<uint64_t>* whole) {
  while (begin < end) {
    const uint64_t block = begin / kBlockBytes;
    const uint64_t part = std::min(end, (block + 1) * kBlockBytes) - begin;
    missing[block] -= part;
    if (missing[block] == 0) whole->push_back(block);
    begin += part;
  }
}

void PayloadBuild::Work::Hash(const std::vector<uint64_t>& blocks) {
  std::vector<absl::Span<const uint8_t>> pieces;
  for (const uint64_t block : blocks) {
    pieces.push_back(bytes.span().subspan(block * kBlockBytes, kBlockBytes));
  }
  const std::vector<Digest> digests = Sha256Each(pieces);
  for (size_t i = 0; i < blocks.size(); ++i) leaves[blocks[i]] = digests[i];
}

PayloadBuild::PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec)
    : executor_(executor), grid_(grid), codec_(codec), given_up_(grid.chunks() == 0) {}

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
    executor_.Offload(
        [work, grid = grid_, &codec = codec_, means = std::exchange(placed_, {})]() mutable {
          if (*work == nullptr) *work = std::make_shared<Work>(grid, codec);
          (*work)->Take(means);
          means.clear();  // not on the loop: the last of their holders may be here
        },
        guard_.Wrap([this, work] {
          working_ = false;
          if (!given_up_) work_ = *work;
          Advance();
        }));
    return;
  }
  if (!done_) return;
  ExchangeOutcome outcome;
  if (!given_up_) {
    outcome.payload = std::move(work_->bytes).Share(work_->size);
    outcome.payload_digest = TreeRoot(work_->size, work_->leaves);
    outcome.squared_mean = SumOfSquares(work_->squares);
  }
  std::exchange(done_, nullptr)(std::move(outcome));
}

void PayloadBuild::Finish(std::function<void(ExchangeOutcome)> done) {
  CHECK(!given_up_);
  done_ = std::move(done);
  executor_.Post(guard_.Wrap([this] { Advance(); }));
}

}  // namespace atolld
