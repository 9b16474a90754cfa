// Would break: a joiner without the run's tokenizer or program could not train, or would train with
// what a liar gave it; or a donor would tell strangers the paths of its machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/run_file_copy.h"
#include "membership/history/run_files.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FileFetchTest : public TransferTest {
 protected:
  FileFetchTest() {
    for (size_t i = 0; i < 2 * kBlockBytes + 12345; ++i) {
      content_ += static_cast<char>(i * 2654435761u >> 13);
    }
    v1::RunFile listed;
    listed.set_role(kTokenizerRole);
    listed.set_name("tokenizer.json");
    listed.set_bytes(content_.size());
    listed.set_digest(ToBytes(TreeDigest(BytesOf(content_))));
    run_.files = {listed};
  }

  void AddHolder(const std::string& name, Tamper tamper = nullptr) {
    AddDonor(name, 1, {100, 1}, std::move(tamper));
    Files& files = world_.process(name).env().files;
    CHECK_OK(files.MakeDirectories("/r/files/tokenizer"));
    CHECK_OK(WriteFileDurably(files, "/r/files/tokenizer/tokenizer.json", BytesOf(content_)));
  }

  absl::Status Fetch(const std::vector<std::string>& names) {
    std::optional<absl::Status> result;
    FileFetch fetch(joiner(), Source(names), "/j", 0,
                    [&](const absl::Status& status) { result = status; });
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  std::string Fetched() {
    return ReadFile(joiner().files, RunFilePath("/j", run_.files[0]), kLargestRunFile).value_or("");
  }

  std::string content_;
};

TEST_F(FileFetchTest, ItIsPutTogetherFromBlocks) {
  AddHolder("a");
  AddHolder("b");
  ASSERT_TRUE(Fetch({"a", "b"}).ok());
  EXPECT_EQ(content_, Fetched());
  EXPECT_TRUE(CheckCopy(joiner().files, RunFilePath("/j", run_.files[0]), run_.files[0]).ok());
}

TEST_F(FileFetchTest, ALiarsBlockIsNotKept) {
  int frames = 0;
  AddHolder("liar", [&](Frame frame) {
    if (++frames != 2) return frame;
    std::string bytes(frame.payload.Joined().str());
    bytes[1000] = static_cast<char>(bytes[1000] ^ 4);
    frame.payload = SharedBytes(bytes);
    return frame;
  });
  const absl::Status alone = Fetch({"liar"});
  EXPECT_TRUE(absl::IsUnavailable(alone)) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("has another digest"));
  EXPECT_EQ("", Fetched());
  frames = 0;
  AddHolder("good");
  ASSERT_TRUE(Fetch({"liar", "good"}).ok());
  EXPECT_EQ(content_, Fetched());
}

TEST_F(FileFetchTest, LeavesThatAreNotOfTheListedFileAreNotBelieved) {
  AddHolder("liar", [&](Frame frame) {
    v1::SnapshotBlock block;
    CHECK_OK(Unpack(frame, &block));
    if (block.has_file_info()) (*block.mutable_file_info()->mutable_leaves(1))[3] ^= 1;
    return Pack(block, frame.payload);
  });
  EXPECT_THAT(std::string(Fetch({"liar"}).message()), HasSubstr("leaves are not those"));
}

TEST_F(FileFetchTest, WhoLacksItIsLeftForWhoHasIt) {
  AddDonor("empty", 1);
  AddHolder("changed");
  Files& files = world_.process("changed").env().files;
  CHECK_OK(WriteFileDurably(files, "/r/files/tokenizer/tokenizer.json", BytesOf("another")));
  const absl::Status none = Fetch({"empty"});
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_TRUE(absl::IsUnavailable(Fetch({"changed"})));
  AddHolder("good");
  ASSERT_TRUE(Fetch({"empty", "changed", "good"}).ok());
  EXPECT_EQ(content_, Fetched());
}

// What the other machine's folders are called is nobody's business.
TEST_F(FileFetchTest, ARefusalNamesNoPathOfTheDonor) {
  AddDonor("empty", 1);
  AddHolder("changed");
  Files& files = world_.process("changed").env().files;
  CHECK_OK(WriteFileDurably(files, "/r/files/tokenizer/tokenizer.json", BytesOf("another")));
  OwnedReplica replica = JoinerReplica();
  run_.CommitTo(*replica, 1);
  for (const std::string& told :
       {std::string(Fetch({"empty"}).message()), std::string(Fetch({"changed"}).message()),
        std::string(FetchSnapshot({"empty"}, {77}).message()),
        std::string(FetchEntries(*replica, 2, {"empty"}).message())}) {
    EXPECT_THAT(told, Not(HasSubstr("/r/"))) << told;
  }
  EXPECT_THAT(std::string(FetchEntries(*replica, 2, {"empty"}).message()),
              HasSubstr("entry 2 is not here"));
  // Its own log has it all.
  EXPECT_GT(world_.LogCount("donor: file 1 of the run: /r/files/tokenizer/tokenizer.json"), 0u);
}

}  // namespace
}  // namespace atolld
