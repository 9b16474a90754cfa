#include "worker/training/state_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

// The file: this header, then the buffers one after the other, all little-endian as the machines
// that we run on.
struct Header {
  char magic[8];
  char run_id[72];  // zero-padded; a run id has at most 64 characters
  uint64_t steps;
  uint64_t buffers;
  uint64_t elements;
};
constexpr char kMagic[8] = {'A', 'T', 'O', 'L', 'L', 'O', 'P', '1'};

Header MakeHeader(const std::string& run_id, const InnerOptimizer::State& state) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::memcpy(header.run_id, run_id.data(), std::min(run_id.size(), sizeof(header.run_id) - 1));
  header.steps = *state.steps;
  header.buffers = state.buffers.size();
  header.elements = state.buffers.empty() ? 0 : state.buffers[0].size();
  return header;
}

}  // namespace

absl::Status SaveState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state) {
  const Header header = MakeHeader(run_id, state);
  std::vector<absl::Span<const uint8_t>> parts = {AsBytes(absl::MakeConstSpan(&header, 1))};
  for (const absl::Span<float> buffer : state.buffers) {
    parts.push_back(AsBytes(absl::Span<const float>(buffer)));
  }
  return Annotate(WriteFileDurably(path, parts), "optimiser's state");
}

absl::Status LoadState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  Header found;
  if (bytes.size() < sizeof(found)) return absl::DataLossError(absl::StrCat(path, " is cut short"));
  std::memcpy(&found, bytes.data(), sizeof(found));
  Header wanted = MakeHeader(run_id, state);
  wanted.steps = found.steps;
  if (std::memcmp(&found, &wanted, sizeof(found)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of another run or model"));
  }
  const size_t size = wanted.elements * sizeof(float);
  if (bytes.size() != sizeof(found) + wanted.buffers * size) {
    return absl::DataLossError(absl::StrCat(path, " is cut short"));
  }
  std::vector<float> values(wanted.buffers * wanted.elements);
  std::memcpy(values.data(), bytes.data() + sizeof(found), bytes.size() - sizeof(found));
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    return absl::DataLossError(absl::StrCat(path, " holds values that are not finite"));
  }
  auto from = values.begin();
  for (const absl::Span<float> buffer : state.buffers) {
    std::copy(from, from + static_cast<std::ptrdiff_t>(buffer.size()), buffer.begin());
    from += static_cast<std::ptrdiff_t>(buffer.size());
  }
  *state.steps = found.steps;
  return absl::OkStatus();
}

}  // namespace atolld
