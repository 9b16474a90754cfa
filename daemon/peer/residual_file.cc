#include "daemon/peer/residual_file.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/digest.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

constexpr char kMagic[] = "atoll.residual.1";

std::string Little(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

uint64_t FromLittle(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

std::string Prefix(const v1::Genesis& genesis) {
  return absl::StrCat(kMagic, ToBytes(GenesisDigest(genesis)));
}

absl::Status WriteTo(WritableFile& file, const std::string& head, absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(file.Append(BytesOf(head)));
  for (size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
    RETURN_IF_ERROR(file.Append(bytes.subspan(offset, kBlockBytes)));
  }
  return file.Sync();
}

// NOT_FOUND if a header in (version, committed] includes the peer, or is not here to be asked.
absl::Status CheckNotIncluded(Files& files, const std::string& dir, uint64_t version,
                              uint64_t committed, const std::string& peer) {
  if (version > committed) return absl::NotFoundError("its version was never committed here");
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, version + 1));
  for (uint64_t later = version + 1; later <= committed; ++later) {
    ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(later));
    for (const v1::Contributor& contributor : header.contributors()) {
      if (contributor.peer() != peer) continue;
      return absl::NotFoundError(absl::StrCat("it is of version ", version, ", entry ", later,
                                              " has included this peer since"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ResidualPath(const std::string& dir) { return absl::StrCat(dir, "/residual"); }

absl::Status SaveResidual(Files& files, const std::string& dir, const v1::Genesis& genesis,
                          uint64_t version, absl::Span<const float> values) {
  const absl::Span<const uint8_t> bytes = BytesOf(values);
  const std::string head = EncodeRecord(absl::StrCat(
      Prefix(genesis), Little(version), Little(values.size()), ToBytes(TreeDigest(bytes))));
  const std::string temporary = absl::StrCat(ResidualPath(dir), ".tmp");
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(temporary));
    RETURN_IF_ERROR(WriteTo(*file, head, bytes));
  }
  RETURN_IF_ERROR(files.Rename(temporary, ResidualPath(dir)));
  return files.SyncDirectory(dir);
}

absl::StatusOr<std::vector<float>> LoadResidual(Files& files, const std::string& dir,
                                                const v1::Genesis& genesis, uint64_t committed,
                                                const std::string& peer) {
  const std::string path = ResidualPath(dir);
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  const absl::Status broken = absl::DataLossError(absl::StrCat(path, ": it is broken"));
  if (file->size() == 0) return broken;
  ASSIGN_OR_RETURN(const Record record, ReadRecord(*file, 0));
  const std::string prefix = Prefix(genesis);
  if (record.torn || record.body.size() != prefix.size() + 8 + 8 + 32) return broken;
  if (record.body.substr(0, prefix.size()) != prefix) {
    return absl::NotFoundError(absl::StrCat(path, ": it is of another run"));
  }
  const absl::string_view rest = absl::string_view(record.body).substr(prefix.size());
  const uint64_t elements = FromLittle(rest.substr(8));
  if (elements != genesis.manifest().elements() ||
      file->size() != record.end + elements * sizeof(float)) {
    return broken;
  }
  RETURN_IF_ERROR(Annotate(CheckNotIncluded(files, dir, FromLittle(rest), committed, peer), path));
  std::vector<float> values(elements);
  RETURN_IF_ERROR(file->ReadAt(record.end, BytesOf(absl::MakeSpan(values))));
  if (ToBytes(TreeDigest(BytesOf(absl::MakeConstSpan(values)))) != rest.substr(16)) return broken;
  return values;
}

}  // namespace atolld
