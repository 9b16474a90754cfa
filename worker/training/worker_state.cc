#include "worker/training/worker_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kRunIdBytes = 72;  // zero-padded; a run id has at most 64 characters
constexpr size_t kMostParts = 8;
constexpr mode_t kMode = 0644;

// A file starts with its kind and owner, followed by the header of its kind and the parts.
struct PartyHead {
  char magic[kMagicBytes];
  char run_id[kRunIdBytes];
};
struct PartyHeader {
  uint64_t steps;
  uint64_t position;
  uint64_t pending;
  uint64_t version;
  uint64_t whole;
  uint64_t elements[kMostParts];
};
constexpr char kMagic[kMagicBytes + 1] = "ATOLLPA2";

// The same with PartyParts::began behind the header: their number, and then the values. Only if not
// all of them are 0.
constexpr char kBeganMagic[kMagicBytes + 1] = "ATOLLPA3";
constexpr uint64_t kMostTensors = uint64_t{1}
                                  << 24;  // so that a broken file asks for little memory

// The header that earlier releases wrote: for a party, or for the optimiser's state alone.
struct FormerHeader {
  uint64_t steps;
  uint64_t position;
  uint64_t pending;
  uint64_t elements[kMostParts];
};
constexpr char kFormerMagic[kMagicBytes + 1] = "ATOLLPA1";
struct OptimizerHeader {
  uint64_t steps;
  uint64_t buffers;
  uint64_t elements;
};
constexpr char kOptimizerMagic[kMagicBytes + 1] = "ATOLLOP1";
constexpr size_t kBeforeMoments = 3;  // parts of a party that an optimiser's file has none of

PartyHead MakeHead(const std::string& run_id, const char* magic = kMagic) {
  PartyHead head = {};
  std::memcpy(head.magic, magic, kMagicBytes);
  std::memcpy(head.run_id, run_id.data(), std::min(run_id.size(), kRunIdBytes - 1));
  return head;
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

absl::Status WriteAll(int file, const std::string& path,
                      absl::Span<const absl::Span<const uint8_t>> pieces) {
  for (const absl::Span<const uint8_t> piece : pieces) {
    for (size_t done = 0; done < piece.size();) {
      const ssize_t wrote = ::write(file, piece.data() + done, piece.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return FailedCall("write", path);
      done += static_cast<size_t>(wrote);
    }
  }
  return absl::OkStatus();
}

// Writes another file in the same folder and renames it over `path`. Without `synced` it is not
// synced, which would cost more than a small party's round.
absl::Status Replace(const std::string& path, const SaveTerms& terms,
                     absl::Span<const absl::Span<const uint8_t>> pieces) {
  const std::string made = path + ".new";
  const int file = ::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file < 0) return FailedCall("open", made);
  absl::Status status = WriteAll(file, made, pieces);
  if (status.ok() && terms.synced && ::fsync(file) != 0) status = FailedCall("fsync", made);
  ::close(file);
  if (status.ok() && terms.keeps_former &&
      std::rename(path.c_str(), FormerPath(path).c_str()) != 0 && errno != ENOENT) {
    status = FailedCall("rename", path);
  }
  if (status.ok() && std::rename(made.c_str(), path.c_str()) != 0) {
    status = FailedCall("rename", made);
  }
  if (!status.ok()) {
    ::unlink(made.c_str());
    return status;
  }
  return terms.synced ? SyncFolder(std::filesystem::path(path).parent_path().string())
                      : absl::OkStatus();
}

// Reads the header of any kind of file, and what follows it.
absl::Status ReadHeader(int file, const std::string& path, absl::string_view magic,
                        PartyHeader* header, std::vector<uint64_t>* began) {
  *header = {};
  began->clear();
  if (magic == kMagic) return ReadExactly(file, path, absl::MakeSpan(header, 1));
  if (magic == kBeganMagic) {
    RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(header, 1)));
    uint64_t tensors = 0;
    RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(&tensors, 1)));
    if (tensors > kMostTensors) return OfAnother(path);
    began->resize(tensors);
    return ReadExactly(file, path, absl::MakeSpan(*began));
  }
  header->whole = 1;
  if (magic == kFormerMagic) {
    FormerHeader former = {};
    RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(&former, 1)));
    header->steps = former.steps;
    header->position = former.position;
    header->pending = former.pending;
    std::copy(former.elements, former.elements + kMostParts, header->elements);
    return absl::OkStatus();
  }
  if (magic != kOptimizerMagic) return OfAnother(path);
  OptimizerHeader optimizer = {};
  RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(&optimizer, 1)));
  if (optimizer.buffers > kMostParts - kBeforeMoments) return OfAnother(path);
  header->steps = optimizer.steps;
  std::fill_n(header->elements + kBeforeMoments, optimizer.buffers, optimizer.elements);
  return absl::OkStatus();
}

// Opens the file, and reads and checks its head and header, except for the sizes that are wanted.
absl::StatusOr<int> OpenParty(const std::string& path, const std::string& run_id,
                              PartyHeader* header, std::vector<uint64_t>* began) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FailedCall("open", path);
  PartyHead head = {};
  absl::Status status = ReadExactly(file, path, absl::MakeSpan(&head, 1));
  if (status.ok() && std::memcmp(head.run_id, MakeHead(run_id).run_id, sizeof(head.run_id)) != 0) {
    status = OfAnother(path);
  }
  if (status.ok()) {
    status = ReadHeader(file, path, absl::string_view(head.magic, kMagicBytes), header, began);
  }
  struct stat info = {};
  if (status.ok() && ::fstat(file, &info) != 0) status = FailedCall("fstat", path);
  if (status.ok()) {
    auto size = static_cast<uint64_t>(::lseek(file, 0, SEEK_CUR));
    for (const uint64_t elements : header->elements) size += elements * sizeof(float);
    if (static_cast<uint64_t>(info.st_size) != size) status = CutShort(path);
  }
  if (status.ok()) return file;
  ::close(file);
  return status;
}

}  // namespace

absl::Status SaveParty(const std::string& path, const std::string& run_id, const PartyParts& parts,
                       const PartyMark& mark, const SaveTerms& terms) {
  const bool says_began = std::any_of(parts.began.begin(), parts.began.end(),
                                      [](uint64_t began) { return began != 0; });
  const PartyHead head = MakeHead(run_id, says_began ? kBeganMagic : kMagic);
  const uint64_t tensors = parts.began.size();
  PartyHeader header = {*parts.steps, *parts.position, *parts.pending,
                        mark.version, mark.whole,      {}};
  std::vector<absl::Span<const uint8_t>> pieces = {AsBytes(absl::MakeConstSpan(&head, 1)),
                                                   AsBytes(absl::MakeConstSpan(&header, 1))};
  if (says_began) {
    pieces.push_back(AsBytes(absl::MakeConstSpan(&tensors, 1)));
    pieces.push_back(AsBytes(absl::Span<const uint64_t>(parts.began)));
  }
  for (size_t i = 0; i < parts.values.size(); ++i) {
    header.elements[i] = parts.values[i].size();
    pieces.push_back(AsBytes(absl::Span<const float>(parts.values[i])));
  }
  return Annotate(Replace(path, terms, pieces), "the worker's state");
}

absl::Status SyncParty(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FailedCall("open", path);
  const absl::Status synced = ::fsync(file) == 0 ? absl::OkStatus() : FailedCall("fsync", path);
  ::close(file);
  RETURN_IF_ERROR(synced);
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

absl::StatusOr<PartyMark> LoadParty(const std::string& path, const std::string& run_id,
                                    const PartyParts& parts) {
  PartyHeader found = {};
  std::vector<uint64_t> began;
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found, &began));
  const auto close = absl::MakeCleanup([file] { ::close(file); });
  if (began.empty()) began.resize(parts.began.size());
  if (!std::equal(began.begin(), began.end(), parts.began.begin(), parts.began.end(),
                  [](uint64_t a, uint64_t b) {
                    return (a == InnerOptimizer::kFrozen) == (b == InnerOptimizer::kFrozen);
                  })) {
    return OfAnother(path);
  }
  uint64_t wanted[kMostParts] = {};
  for (size_t i = 0; i < parts.values.size(); ++i) wanted[i] = parts.values[i].size();
  if (std::memcmp(found.elements, wanted, sizeof(wanted)) != 0) return OfAnother(path);
  for (const absl::Span<float> values : parts.values) {
    RETURN_IF_ERROR(ReadExactly(file, path, values));
    if (AllFinite(values)) continue;
    return absl::DataLossError(absl::StrCat(path, " holds values that are not finite"));
  }
  *parts.steps = found.steps;
  *parts.position = found.position;
  *parts.pending = found.pending;
  std::copy(began.begin(), began.end(), parts.began.begin());
  return PartyMark{found.version, found.whole != 0};
}

absl::StatusOr<PartyMark> ReadMark(const std::string& path, const std::string& run_id) {
  PartyHeader found = {};
  std::vector<uint64_t> began;
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found, &began));
  ::close(file);
  return PartyMark{found.version, found.whole != 0};
}

absl::StatusOr<std::vector<uint64_t>> ReadBegan(const std::string& path,
                                                const std::string& run_id) {
  PartyHeader found = {};
  std::vector<uint64_t> began;
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found, &began));
  ::close(file);
  return began;
}

absl::StatusOr<std::vector<float>> ReadPersonalTensors(const std::string& path,
                                                       const std::string& run_id,
                                                       uint64_t elements) {
  PartyHeader found = {};
  std::vector<uint64_t> began;
  ASSIGN_OR_RETURN(const int file, OpenParty(path, run_id, &found, &began));
  const auto close = absl::MakeCleanup([file] { ::close(file); });
  if (found.elements[0] != elements) return OfAnother(path);
  std::vector<float> values(elements);
  RETURN_IF_ERROR(ReadExactly(file, path, absl::MakeSpan(values)));
  return values;
}

std::string PartyPath(absl::string_view state_path, uint32_t party) {
  return absl::StrCat(state_path, ".party-", party);
}

std::string FormerPath(absl::string_view path) { return absl::StrCat(path, ".former"); }

}  // namespace atolld
