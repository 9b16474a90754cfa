#include "daemon/publication/site_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/publication/file_hash.h"
#include "daemon/publication/run_story.h"
#include "daemon/publication/site_writer.h"
#include "daemon/replica/state/layout.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kVersions = 4;

class SiteCheckTest : public ::testing::Test {
 protected:
  SiteCheckTest() {
    run_.elements = 300;
    run_.history_key = TestKey('h');
    replica_ = *CreateReplica(files_, replica_dir_, run_);
    run_.CommitTo(*replica_, kVersions);
    order_.replica = replica_dir_;
    order_.out = site_dir_;
    order_.name = "Books";
  }

  void Seal() { ASSERT_TRUE(replica_->WriteSeal(SealOf(*replica_, run_.history_key)).ok()); }

  SiteIndex Publish() {
    const absl::StatusOr<SiteIndex> index = WriteSite(files_, order_, nullptr);
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? *index : SiteIndex{};
  }

  absl::StatusOr<CheckedSite> Check(const CheckOrder& order = {}) {
    const std::unique_ptr<Site> site = OpenFolderSite(files_, site_dir_);
    return CheckSite(files_, *site, order);
  }

  void ExpectFault(const std::string& file, const std::string& more = "") {
    const absl::Status status = Check().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << file << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(At(file)), HasSubstr(more)));
  }

  void Rewrite(const std::string& file, const std::string& text) {
    std::ofstream(At(file), std::ios::binary) << text;
  }
  void Flip(const std::string& file, uint64_t at) {
    std::string bytes = FileBytes(files_, At(file));
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ (1 << (at % 8)));
    Rewrite(file, bytes);
  }
  std::string At(const std::string& file) const { return site_dir_ + "/" + file; }

  const TemporaryDirectory top_;
  const std::string replica_dir_ = top_.File("r");
  const std::string site_dir_ = top_.File("site");
  PosixFiles files_;
  TestRun run_;
  OwnedReplica replica_;
  PublishOrder order_;
};

TEST_F(SiteCheckTest, DerivesEveryStateOfASealedRun) {
  // Broken: what was published would not be what was trained.
  Seal();
  const SiteIndex index = Publish();
  EXPECT_TRUE(index.sealed);
  const absl::StatusOr<CheckedSite> checked = Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->states, kVersions + 1);
  EXPECT_EQ(checked->all_states, kVersions + 1);
  EXPECT_EQ(checked->headers, kVersions);
  EXPECT_EQ(checked->payloads, kVersions);
  EXPECT_EQ(checked->files, index.files.size());
  EXPECT_EQ(checked->state_digest, replica_->StateDigest());
  EXPECT_FALSE(checked->last_unsaid);
}

TEST_F(SiteCheckTest, TellsThatNobodyHasSignedTheLastStateYet) {
  // Broken: a state that only the publisher vouches for would count as the run's.
  Publish();
  const absl::StatusOr<CheckedSite> checked = Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_TRUE(checked->last_unsaid);
  EXPECT_EQ(checked->states, kVersions);
  EXPECT_EQ(checked->last, kVersions - 1);
}

TEST_F(SiteCheckTest, ChecksTheVersionsThatAreAskedFor) {
  // Broken: a reader of one round would have to replay them all, or would be told of others.
  Seal();
  Publish();
  CheckOrder order;
  order.from = 2;
  order.to = 3;
  const absl::StatusOr<CheckedSite> checked = Check(order);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->first, 2u);
  EXPECT_EQ(checked->last, 3u);
  EXPECT_EQ(checked->payloads, 3u);
  order.to = 9;
  EXPECT_TRUE(absl::IsNotFound(Check(order).status()));
}

TEST_F(SiteCheckTest, NamesTheEntryAndTheFileOfEachChangedByte) {
  // Broken: somebody could change a published run and not be found out, or nobody could say where.
  Seal();
  const SiteIndex index = Publish();
  for (const SiteFile& file : index.files) {
    const uint64_t step = std::max<uint64_t>(1, file.bytes / 31);
    for (uint64_t at = 0; at < file.bytes; at += step) {
      Flip(file.name, at);
      const bool entries = file.name == kSiteHeaders || file.name == kSitePayloads;
      ExpectFault(file.name, entries ? "entry " : "");
      Flip(file.name, at);
    }
  }
  ASSERT_TRUE(Check().ok());
}

TEST_F(SiteCheckTest, NamesTheEntryWhosePayloadHasChanged) {
  // Broken: as above, for the number of the entry.
  Seal();
  Publish();
  const std::string table = FileBytes(files_, At(kSitePayloadOffsets));
  const uint64_t bytes = FileBytes(files_, At(kSitePayloads)).size();
  const std::vector<uint64_t> offsets = *DecodeOffsets(table, kVersions, bytes);
  for (uint64_t version = 1; version <= kVersions; ++version) {
    const uint64_t last = offsets[version] - 1;
    Flip(kSitePayloads, last);
    ExpectFault("payloads", absl::StrCat("entry ", version, ": "));
    Flip(kSitePayloads, last);
  }
}

TEST_F(SiteCheckTest, FindsFilesThatAreShortOrLong) {
  // Broken: a site that ends early would pass for a whole one.
  Seal();
  const SiteIndex index = Publish();
  for (const SiteFile& file : index.files) {
    const std::string bytes = FileBytes(files_, At(file.name));
    Rewrite(file.name, bytes.substr(0, bytes.size() - 1));
    ExpectFault(file.name, "bytes, run.json says");
    Rewrite(file.name, bytes + "x");
    ExpectFault(file.name, "bytes, run.json says");
    Rewrite(file.name, bytes);
  }
  for (const SiteFile& file : index.files) {
    const std::string bytes = FileBytes(files_, At(file.name));
    ASSERT_TRUE(files_.Remove(At(file.name)).ok());
    ExpectFault(file.name, "run.json names it, and it is missing");
    Rewrite(file.name, bytes);
  }
  ASSERT_TRUE(files_.Remove(At(kSiteIndex)).ok());
  EXPECT_TRUE(absl::IsNotFound(Check().status()));
}

TEST_F(SiteCheckTest, FindsAStoryAndAPageThatLie) {
  // Broken: a page could credit somebody who gave nothing, and would be verified.
  Seal();
  const SiteIndex index = Publish();
  const std::string story = FileBytes(files_, At(kSiteStory));
  const std::string page = FileBytes(files_, At(kSitePage));
  const auto tell = [&](const std::string& new_story, const std::string& new_page) {
    Rewrite(kSiteStory, new_story);
    Rewrite(kSitePage, new_page);
    SiteIndex changed = index;
    for (SiteFile& file : changed.files) {
      if (file.name != kSiteStory && file.name != kSitePage) continue;
      const std::string bytes = FileBytes(files_, At(file.name));
      FileHash hash;
      hash.Add(BytesOf(bytes));
      file.bytes = bytes.size();
      file.sha256 = hash.Finish();
    }
    Rewrite(kSiteIndex, SiteIndexJson(changed).dump());
  };
  nlohmann::ordered_json lie = nlohmann::ordered_json::parse(story);
  lie["peers"][0]["peer"] = "Mallory";
  tell(lie.dump(), PageOf(lie.dump()));
  ExpectFault(kSiteStory, "\"peers\"");
  lie.erase("peers");
  tell(lie.dump(), PageOf(lie.dump()));
  ExpectFault(kSiteStory, "\"peers\"");
  for (const std::string& deep : {std::string(600000, '['), std::string("7"), std::string("[")}) {
    tell(deep, page);
    ExpectFault(kSiteStory);
  }
  // A loss is the coordinator's word, and a key of a later release is passed over.
  nlohmann::ordered_json more = nlohmann::ordered_json::parse(story);
  more["losses"] = {{{"version", 1}, {"train", 0.5}}};
  more["later"] = 1;
  tell(more.dump(), PageOf(more.dump()));
  EXPECT_TRUE(Check().ok()) << Check().status();
  tell(story, page + "<p>Mallory</p>");
  ExpectFault(kSitePage, "it is not the page");
  CheckOrder order;
  order.software = "atoll 999";  // whose page is another one
  const absl::StatusOr<CheckedSite> checked = Check(order);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_FALSE(checked->page_compared);
}

TEST_F(SiteCheckTest, JudgesThePlanThatIsWritten) {
  // Broken: what a running peer commits after the publisher was asked would be published unasked.
  EXPECT_EQ(PlanSite(files_, order_)->version, kVersions);
  run_.CommitTo(*replica_, kVersions + 1);
  uint64_t asked = 0;
  order_.allow = [&asked](const SitePlan& plan) {
    asked = plan.version;
    return absl::FailedPreconditionError("no");
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteSite(files_, order_, nullptr).status()));
  EXPECT_EQ(asked, kVersions + 1);
  EXPECT_EQ(*files_.List(top_.path()), std::vector<std::string>{"r"});
}

TEST_F(SiteCheckTest, RefusesANameAtTheStart) {
  // Broken: a whole site would be written that nobody can verify.
  for (const std::string& name : {std::string(1100, 'x'), std::string("\xff")}) {
    order_.name = name;
    EXPECT_TRUE(absl::IsInvalidArgument(WriteSite(files_, order_, nullptr).status()));
  }
  EXPECT_EQ(*files_.List(top_.path()), std::vector<std::string>{"r"});
}

TEST_F(SiteCheckTest, TheGenesisNamesTheFirstState) {
  // Broken: the state of a run without rounds would count as nobody's, or as anybody's.
  const std::string dir = top_.File("young");
  const OwnedReplica young = *CreateReplica(files_, dir, run_);
  order_.replica = dir;
  Publish();
  const absl::StatusOr<CheckedSite> checked = Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->states, 1u);
  EXPECT_EQ(ToBytes(*checked->state_digest), checked->genesis.state_digest());
  EXPECT_FALSE(checked->last_unsaid);
}

TEST_F(SiteCheckTest, FindsAnIndexThatLies) {
  // Broken: run.json could make a reader fetch without end, or vouch for other bytes.
  Seal();
  const SiteIndex index = Publish();
  const auto lie = [&](const std::string& file, uint64_t bytes, const std::string& why) {
    SiteIndex changed = index;
    for (SiteFile& one : changed.files) {
      if (one.name == file) one.bytes = bytes;
    }
    Rewrite(kSiteIndex, SiteIndexJson(changed).dump());
    const absl::Status status = Check().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  lie(kSiteHeaders, uint64_t{1} << 40, "headers.index");
  lie(kSiteState, uint64_t{1} << 40, "are possible");
  lie(kSitePage, uint64_t{1} << 40, "are possible");
  lie(kSitePayloads, uint64_t{1} << 40, "payloads.index");
  SiteIndex changed = index;
  changed.history_key = std::string(32, 'x');
  Rewrite(kSiteIndex, SiteIndexJson(changed).dump());
  ExpectFault("genesis", "history key");
  changed = index;
  changed.version = kVersions + 1;
  Rewrite(kSiteIndex, SiteIndexJson(changed).dump());
  EXPECT_FALSE(Check().ok());
}

TEST_F(SiteCheckTest, FindsAHistoryThatAnotherKeyHasSigned) {
  // Broken: whoever has the files could write another history for the run.
  Seal();
  Publish();
  CheckOrder order;
  order.history_key = TestKey('o').public_key();
  EXPECT_TRUE(absl::IsPermissionDenied(Check(order).status()));
  order.history_key = run_.history_key->public_key();
  EXPECT_TRUE(Check(order).ok());
}

TEST_F(SiteCheckTest, ChecksTheHistoryAloneWithoutParameters) {
  // Broken: a run whose parameters stay secret could not show its history.
  Seal();
  order_.parameters = false;
  const SiteIndex index = Publish();
  EXPECT_EQ(index.Find(kSiteState), nullptr);
  EXPECT_EQ(index.Find(kSitePayloads), nullptr);
  const absl::StatusOr<CheckedSite> checked = Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->headers, kVersions);
  EXPECT_EQ(checked->states, 0u);
  CheckOrder order;
  order.to = 2;
  EXPECT_TRUE(absl::IsNotFound(Check(order).status()));
}

TEST_F(SiteCheckTest, BeginsFromTheOldestSnapshotThatIsLeft) {
  // Broken: a run whose first snapshots are gone could not be published.
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, replica_dir_, {2, 1}, kVersions).ok());
  Seal();
  const SitePlan plan = *PlanSite(files_, order_);
  ASSERT_GT(plan.base, 0u);
  const SiteIndex index = Publish();
  EXPECT_EQ(index.state_version, plan.base);
  const absl::StatusOr<CheckedSite> checked = Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->first, plan.base);
  EXPECT_EQ(checked->states, kVersions + 1 - plan.base);
  EXPECT_EQ(checked->headers, kVersions);
}

TEST_F(SiteCheckTest, OverwritesNothingAndLeavesNothingBehind) {
  // Broken: a mistyped folder would lose what it held, or half a site would look like a whole one.
  ASSERT_TRUE(files_.MakeDirectories(site_dir_).ok());
  ASSERT_TRUE(WriteFileDurably(files_, At("mine"), BytesOf("mine")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(WriteSite(files_, order_, nullptr).status()));
  EXPECT_EQ(FileBytes(files_, At("mine")), "mine");
  ASSERT_TRUE(files_.Remove(At("mine")).ok());
  const std::string beside = site_dir_ + ".partial";
  ASSERT_TRUE(files_.MakeDirectories(beside).ok());
  ASSERT_TRUE(WriteFileDurably(files_, beside + "/mine", BytesOf("mine")).ok());
  Publish();
  EXPECT_TRUE(Check().ok());
  order_.out = top_.File("other");
  ASSERT_TRUE(files_.Remove(PayloadPath(replica_dir_, 3)).ok());
  const absl::Status status = WriteSite(files_, order_, nullptr).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("entry 3: "));
  EXPECT_THAT(*files_.List(top_.path()), UnorderedElementsAre("r", "site", "site.partial"));
  EXPECT_EQ(FileBytes(files_, beside + "/mine"), "mine");
}

// A site on a server, which this machine has no path to.
class FarSite final : public Site {
 public:
  FarSite(Files& files, const std::string& folder, bool gives_parts)
      : folder_(OpenFolderSite(files, folder)), gives_parts_(gives_parts) {}
  std::string Place(const std::string& file) const override { return "http://far/" + file; }
  std::optional<std::string> PathOf(const std::string&) const override { return std::nullopt; }
  absl::Status Read(const std::string& file, const Part& part, const Take& take) override {
    ++reads_;
    if (part.count < part.whole && !gives_parts_) return absl::UnimplementedError("whole files");
    return folder_->Read(file, part, take);
  }
  absl::StatusOr<std::string> ReadShort(const std::string& file, uint64_t limit) override {
    return folder_->ReadShort(file, limit);
  }
  int reads() const { return reads_; }

 private:
  const std::unique_ptr<Site> folder_;
  const bool gives_parts_;
  int reads_ = 0;
};

TEST_F(SiteCheckTest, FetchesPartsOrWholeFilesFromAServer) {
  // Broken: a site could be checked only where it was written, or only on some servers.
  Seal();
  Publish();
  for (const bool gives_parts : {true, false}) {
    const TemporaryDirectory scratch;
    FarSite site(files_, site_dir_, gives_parts);
    CheckOrder order;
    order.scratch = scratch.path();
    const absl::StatusOr<CheckedSite> checked = CheckSite(files_, site, order);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->states, kVersions + 1);
    EXPECT_GT(site.reads(), 0);
  }
}

}  // namespace
}  // namespace atolld
