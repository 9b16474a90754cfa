#include "worker/training/worker_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

// The optimiser's file: this header, then the buffers one after the other.
struct OptimizerHeader {
  char magic[8];
  char run_id[72];  // zero-padded; a run id has at most 64 characters
  uint64_t steps;
  uint64_t buffers;
  uint64_t elements;
};
constexpr char kOptimizerMagic[8] = {'A', 'T', 'O', 'L', 'L', 'O', 'P', '1'};

OptimizerHeader MakeOptimizerHeader(const std::string& run_id, const InnerOptimizer::State& state) {
  OptimizerHeader header = {};
  std::memcpy(header.magic, kOptimizerMagic, sizeof(kOptimizerMagic));
  std::memcpy(header.run_id, run_id.data(), std::min(run_id.size(), sizeof(header.run_id) - 1));
  header.steps = *state.steps;
  header.buffers = state.buffers.size();
  header.elements = state.buffers.empty() ? 0 : state.buffers[0].size();
  return header;
}

// A party's file: this header, the sizes of its parts, then these.
constexpr size_t kMostParts = 8;
struct PartyHeader {
  char magic[8];
  char run_id[72];
  uint64_t steps;
  uint64_t position;
  uint64_t pending;
  uint64_t elements[kMostParts];
};
constexpr char kPartyMagic[8] = {'A', 'T', 'O', 'L', 'L', 'P', 'A', '1'};
constexpr mode_t kMode = 0644;

PartyHeader MakePartyHeader(const std::string& run_id, const PartyParts& parts) {
  PartyHeader header = {};
  std::memcpy(header.magic, kPartyMagic, sizeof(kPartyMagic));
  std::memcpy(header.run_id, run_id.data(), std::min(run_id.size(), sizeof(header.run_id) - 1));
  header.steps = *parts.steps;
  header.position = *parts.position;
  header.pending = *parts.pending;
  for (size_t i = 0; i < parts.values.size(); ++i) header.elements[i] = parts.values[i].size();
  return header;
}

bool AllFinite(absl::Span<const float> values) {
  // Infinities and NaNs are what x - x is not 0 for; a sum of it keeps the loop a vector's.
  float sum = 0;
  for (const float value : values) sum += value - value;
  return sum == 0;
}

absl::Status FailedCall(absl::string_view call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " ", path));
}

absl::Status OfAnother(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(path, " is of another run or model"));
}

absl::Status CutShort(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, " is cut short"));
}

// Another file of the same folder, renamed over `path`: no sync, which would cost more than a small
// party's round.
absl::Status Replace(const std::string& path, absl::Span<const absl::Span<const uint8_t>> parts) {
  const std::string made = path + ".new";
  const int file = ::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file < 0) return FailedCall("open", made);
  for (const absl::Span<const uint8_t> part : parts) {
    for (size_t done = 0; done < part.size();) {
      const ssize_t wrote = ::write(file, part.data() + done, part.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        const absl::Status status = FailedCall("write", made);
        ::close(file);
        ::unlink(made.c_str());
        return status;
      }
      done += static_cast<size_t>(wrote);
    }
  }
  ::close(file);
  if (std::rename(made.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = FailedCall("rename", made);
  ::unlink(made.c_str());
  return status;
}

// Opens the file, and reads and checks all of its header but the sizes.
absl::StatusOr<int> OpenParty(const std::string& path, const std::string& run_id,
                              PartyHeader* header) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FailedCall("open", path);
  const PartyHeader wanted =
      MakePartyHeader(run_id, {&header->steps, &header->position, &header->pending, {}});
  absl::Status status = ReadExactly(file, path, absl::MakeSpan(header, 1));
  if (status.ok() && (std::memcmp(header->magic, wanted.magic, sizeof(wanted.magic)) != 0 ||
                      std::memcmp(header->run_id, wanted.run_id, sizeof(wanted.run_id)) != 0)) {
    status = OfAnother(path);
  }
  struct stat info = {};
  if (status.ok() && ::fstat(file, &info) != 0) status = FailedCall("fstat", path);
  uint64_t size = sizeof(PartyHeader);
  for (const uint64_t elements : header->elements) size += elements * sizeof(float);
  if (status.ok() && static_cast<uint64_t>(info.st_size) != size) status = CutShort(path);
  if (status.ok()) return file;
  ::close(file);
  return status;
}

}  // namespace

absl::Status SaveState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state) {
  const OptimizerHeader header = MakeOptimizerHeader(run_id, state);
  std::vector<absl::Span<const uint8_t>> parts = {AsBytes(absl::MakeConstSpan(&header, 1))};
  for (const absl::Span<float> buffer : state.buffers) {
    parts.push_back(AsBytes(absl::Span<const float>(buffer)));
  }
  return Annotate(WriteFileDurably(path, parts), "optimiser's state");
}

absl::Status LoadState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  OptimizerHeader found;
  if (bytes.size() < sizeof(found)) return CutShort(path);
  std::memcpy(&found, bytes.data(), sizeof(found));
  OptimizerHeader wanted = MakeOptimizerHeader(run_id, state);
  wanted.steps = found.steps;
  if (std::memcmp(&found, &wanted, sizeof(found)) != 0) return OfAnother(path);
  const size_t size = wanted.elements * sizeof(float);
  if (bytes.size() != sizeof(found) + wanted.buffers * size) return CutShort(path);
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

absl::Status SaveParty(const std::string& path, const std::string& run_id, const PartyParts& parts,
                       Durability durability) {
  const PartyHeader header = MakePartyHeader(run_id, parts);
  std::vector<absl::Span<const uint8_t>> pieces = {AsBytes(absl::MakeConstSpan(&header, 1))};
  for (const absl::Span<float> values : parts.values) {
    pieces.push_back(AsBytes(absl::Span<const float>(values)));
  }
  return Annotate(
      durability == Durability::kSynced ? WriteFileDurably(path, pieces) : Replace(path, pieces),
      "a party's state");
}

absl::Status LoadParty(const std::string& path, const std::string& run_id,
                       const PartyParts& parts) {
  PartyHeader found = {};
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found));
  const auto close = absl::MakeCleanup([file] { ::close(file); });
  const PartyHeader wanted = MakePartyHeader(run_id, parts);
  if (std::memcmp(found.elements, wanted.elements, sizeof(wanted.elements)) != 0) {
    return OfAnother(path);
  }
  for (const absl::Span<float> values : parts.values) {
    RETURN_IF_ERROR(ReadExactly(file, path, values));
    if (AllFinite(values)) continue;
    return absl::DataLossError(absl::StrCat(path, " holds values that are not finite"));
  }
  *parts.steps = found.steps;
  *parts.position = found.position;
  *parts.pending = found.pending;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadPersonalTensors(const std::string& path,
                                                       const std::string& run_id,
                                                       uint64_t elements) {
  PartyHeader found = {};
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found));
  const auto close = absl::MakeCleanup([file] { ::close(file); });
  if (found.elements[0] != elements) return OfAnother(path);
  std::vector<float> values(elements);
  RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(values)));
  return values;
}

std::string PartyPath(absl::string_view state_path, uint32_t party) {
  return absl::StrCat(state_path, ".party-", party);
}

}  // namespace atolld
