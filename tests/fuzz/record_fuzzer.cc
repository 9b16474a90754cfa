// Reads any bytes as records of the replica's files, and a damaged log of real records: what is
// read was written, or is reported as torn or corrupt.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/replica/state/record.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

class BytesFile final : public ReadableFile {
 public:
  explicit BytesFile(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return absl::OutOfRangeError("past the end");
    }
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }

 private:
  const std::vector<uint8_t> bytes_;
};

// Reads every readable record, one after another, as a log does.
std::vector<std::string> ReadAll(const ReadableFile& file) {
  std::vector<std::string> bodies;
  for (uint64_t offset = 0; offset < file.size();) {
    const absl::StatusOr<Record> record = ReadRecord(file, offset);
    if (!record.ok()) {
      Require(absl::IsDataLoss(record.status()), "what cannot be read is DATA_LOSS");
      break;
    }
    if (record->torn) break;
    Require(record->end == offset + record->body.size() + kRecordOverhead, "a record has its size");
    offset = record->end;
    bodies.push_back(record->body);
  }
  return bodies;
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  FuzzInput input(data, size);
  const absl::Span<const uint8_t> any(data, size);
  ReadAll(BytesFile({any.begin(), any.end()}));

  std::set<std::string> written;
  std::string log;
  for (uint32_t i = 1 + input.Byte() % 4; i > 0; --i) {
    const absl::Span<const uint8_t> body = input.Take(input.Below(1200));
    written.emplace(body.begin(), body.end());
    log += EncodeRecord(absl::string_view(reinterpret_cast<const char*>(body.data()), body.size()));
  }
  std::vector<uint8_t> damaged(log.begin(), log.end());
  input.Damage(&damaged);
  for (const std::string& body : ReadAll(BytesFile(std::move(damaged)))) {
    Require(written.count(body) == 1, "nothing is read that was not written");
  }
  return 0;
}
