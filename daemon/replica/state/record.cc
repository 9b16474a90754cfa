#include "daemon/replica/state/record.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'A', 'T', 'R', '1'};
constexpr size_t kHeadBytes = 16;
constexpr size_t kLengthCheckBytes = 8;
constexpr size_t kBodyCheckBytes = 16;
constexpr uint64_t kSectorBytes = 512;  // the least that a disk writes whole

bool AllZero(absl::Span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// Returns true if a sector of the file between `begin` and `end` is all zeros, which is space that
// was allocated to the file and never written.
absl::StatusOr<bool> HasUnwrittenSector(const ReadableFile& file, uint64_t begin, uint64_t end) {
  std::vector<uint8_t> sector(kSectorBytes);
  while (begin < end) {
    const uint64_t next = std::min(end, (begin / kSectorBytes + 1) * kSectorBytes);
    const absl::Span<uint8_t> part = absl::MakeSpan(sector).subspan(0, next - begin);
    RETURN_IF_ERROR(file.ReadAt(begin, part));
    // A few zeros at a sector's edge may be data; a checksum's width of them is not.
    if (part.size() >= kBodyCheckBytes && AllZero(part)) return true;
    begin = next;
  }
  return false;
}

// Returns `why` if the bytes were written and have changed since, or a torn record if they were
// never written.
absl::StatusOr<Record> TornOrCorrupt(const ReadableFile& file, uint64_t begin, uint64_t end,
                                     absl::string_view why) {
  ASSIGN_OR_RETURN(const bool unwritten, HasUnwrittenSector(file, begin, end));
  if (!unwritten) return absl::DataLossError(absl::StrCat("offset ", begin, ": ", why));
  Record record;
  record.torn = true;
  record.end = begin;
  return record;
}

}  // namespace

std::string EncodeRecord(absl::string_view body) {
  CHECK(body.size() <= kMaxRecordBytes);
  std::array<uint8_t, kHeadBytes> head;
  std::copy(kMagic.begin(), kMagic.end(), head.begin());
  for (size_t i = 0; i < 4; ++i) head[4 + i] = static_cast<uint8_t>(body.size() >> (8 * i));
  const Digest length_check = Sha256(absl::MakeConstSpan(head).subspan(0, 8));
  std::copy_n(length_check.begin(), kLengthCheckBytes, head.begin() + 8);
  const Digest body_check = Sha256(BytesOf(body));
  return absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(head.data()), head.size()), body,
      absl::string_view(reinterpret_cast<const char*>(body_check.data()), kBodyCheckBytes));
}

absl::StatusOr<Record> ReadRecord(const ReadableFile& file, uint64_t offset) {
  CHECK(offset < file.size());
  Record torn;
  torn.torn = true;
  torn.end = offset;
  const uint64_t left = file.size() - offset;
  if (left < kHeadBytes) return torn;
  std::array<uint8_t, kHeadBytes> head;
  RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(head)));
  const Digest length_check = Sha256(absl::MakeConstSpan(head).subspan(0, 8));
  uint64_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= static_cast<uint64_t>(head[4 + i]) << (8 * i);
  if (!std::equal(kMagic.begin(), kMagic.end(), head.begin()) || length > kMaxRecordBytes ||
      !std::equal(head.begin() + 8, head.end(), length_check.begin())) {
    const uint64_t look = std::min(file.size(), offset + kHeadBytes + kSectorBytes);
    return TornOrCorrupt(file, offset, look, "the record's head is corrupt");
  }
  if (left < kHeadBytes + length + kBodyCheckBytes) return torn;
  Record record;
  record.end = offset + kHeadBytes + length + kBodyCheckBytes;
  std::string bytes(length + kBodyCheckBytes, '\0');
  RETURN_IF_ERROR(file.ReadAt(
      offset + kHeadBytes, absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size())));
  const Digest body_check = Sha256(BytesOf(bytes).subspan(0, length));
  if (std::memcmp(bytes.data() + length, body_check.data(), kBodyCheckBytes) != 0) {
    return TornOrCorrupt(file, offset, record.end, "the record's checksum differs");
  }
  bytes.resize(length);
  record.body = std::move(bytes);
  return record;
}

absl::Status WriteMessageFile(Files& files, const std::string& path,
                              const google::protobuf::MessageLite& message) {
  const std::string record = EncodeRecord(message.SerializeAsString());
  return WriteFileDurably(files, path, BytesOf(record));
}

absl::Status ReadMessageFile(Files& files, const std::string& path,
                             google::protobuf::MessageLite* message) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  if (file->size() == 0) return absl::DataLossError(absl::StrCat(path, ": the file is empty"));
  absl::StatusOr<Record> record = ReadRecord(*file, 0);
  if (!record.ok()) return Annotate(record.status(), path);
  if (record->torn || record->end != file->size()) {
    return absl::DataLossError(absl::StrCat(path, ": the file is not one whole record"));
  }
  if (!message->ParseFromString(record->body)) {
    return absl::DataLossError(absl::StrCat(path, ": offset ", kHeadBytes, ": no such message"));
  }
  return absl::OkStatus();
}

}  // namespace atolld
