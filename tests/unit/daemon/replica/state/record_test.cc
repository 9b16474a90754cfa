#include "daemon/replica/state/record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compression/base/bytes.h"
#include "compression/base/check.h"
#include "daemon/replica/state/layout.h"
#include "membership/history/digest.h"
#include "tests/sim/sim_disk.h"

namespace atolld {
namespace {

absl::StatusOr<Record> ReadFrom(const std::string& bytes, uint64_t offset) {
  SimDisk disk;
  SimFiles files(disk);
  CHECK_OK(WriteFileDurably(
      files, "/f",
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())));
  const auto file = files.OpenToRead("/f");
  CHECK_OK(file.status());
  return ReadRecord(**file, offset);
}

const std::string& Body() {
  static const auto& body = *new std::string("a header of some length, " + std::string(700, 'h'));
  return body;
}

TEST(Record, ComesBackAsItWasWritten) {
  // Broken: no file of a replica could be read.
  const std::string two = EncodeRecord("") + EncodeRecord(Body());
  const auto first = ReadFrom(two, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->body, "");
  const auto second = ReadFrom(two, first->end);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->body, Body());
  EXPECT_EQ(second->end, two.size());
}

TEST(Record, IsTornAtEveryPrefix) {
  // Broken: a crash in the middle of a write would leave a log that cannot be opened.
  const std::string whole = EncodeRecord(Body());
  for (size_t size = 1; size < whole.size(); ++size) {
    const auto record = ReadFrom(whole.substr(0, size), 0);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->torn) << size;
  }
}

TEST(Record, IsTornWhereTheDiskGaveSpaceAndWasNotWritten) {
  // Broken: as above, on file systems that grow a file before its bytes are there.
  const std::string before = EncodeRecord("the one before");
  const std::string whole = before + EncodeRecord(Body());
  for (size_t written = before.size(); written <= 512; written += 16) {
    std::string bytes = whole.substr(0, written);
    bytes.resize(whole.size(), '\0');
    const auto record = ReadFrom(bytes, before.size());
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->torn) << written;
  }
}

TEST(Record, IsDataLossWhenAnyByteIsAnother) {
  // Broken: a changed byte would pass for a torn tail, and an entry that was announced would be cut
  // off.
  const std::string whole = EncodeRecord(Body());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_TRUE(absl::IsDataLoss(ReadFrom(bad, 0).status())) << at;
    }
  }
}

TEST(Record, IsDataLossWhenItClaimsMoreThanARecordHolds) {
  // Broken: a head that no writer makes would pass for a torn tail, and all after it be cut off.
  for (const uint32_t claimed : {static_cast<uint32_t>(kMaxRecordBytes + 1), 0xffffffffu}) {
    std::string bytes = EncodeRecord(Body());
    for (int i = 0; i < 4; ++i) bytes[4 + i] = static_cast<char>(claimed >> (8 * i));
    const Digest check = Sha256(BytesOf(bytes).subspan(0, 8));
    std::copy_n(check.begin(), 8, bytes.begin() + 8);
    EXPECT_TRUE(absl::IsDataLoss(ReadFrom(bytes, 0).status())) << claimed;
  }
}

}  // namespace
}  // namespace atolld
