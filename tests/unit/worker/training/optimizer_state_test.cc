#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/training/worker_state.h"

namespace atolld {
namespace {

struct Buffers {
  uint64_t steps = 0, position = 0, pending = 0;
  std::vector<float> personal = std::vector<float>(7);
  std::vector<float> first = std::vector<float>(100), second = std::vector<float>(100);
  PartyParts parts() {
    return {&steps,
            &position,
            &pending,
            {absl::MakeSpan(personal), {}, {}, absl::MakeSpan(first), absl::MakeSpan(second)},
            {}};
  }
};

Buffers Warm() {
  Buffers buffers;
  buffers.steps = 77;
  buffers.position = 5;
  buffers.pending = 1;
  buffers.personal[6] = 0.5f;
  buffers.first[3] = 1.5f;
  buffers.second[99] = 2.5f;
  return buffers;
}

absl::Status Save(const std::string& path, Buffers buffers, const PartyMark& mark,
                  bool keeps_former = false) {
  return SaveParty(path, "run-1", buffers.parts(), mark, SaveTerms{false, keeps_former});
}

// Broken: a worker that was started again would begin with cold moments, or not know of which
// training they are.
TEST(StateFileTest, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  Buffers warm = Warm(), cold;
  ASSERT_TRUE(Save(path, warm, PartyMark{9, false}).ok());
  const absl::StatusOr<PartyMark> mark = LoadParty(path, "run-1", cold.parts());
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_EQ(mark->version, 9u);
  EXPECT_FALSE(mark->whole);
  EXPECT_EQ(cold.steps, 77u);
  EXPECT_EQ(cold.position, 5u);
  EXPECT_EQ(cold.pending, 1u);
  EXPECT_EQ(cold.personal, warm.personal);
  EXPECT_EQ(cold.first, warm.first);
  EXPECT_EQ(cold.second, warm.second);
  EXPECT_TRUE(SyncParty(path).ok());
}

// Broken: a training that has to be done again would begin behind itself.
TEST(StateFileTest, TheOneBeforeStaysBesideIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  ASSERT_TRUE(Save(path, Warm(), PartyMark{1}, true).ok());
  EXPECT_FALSE(ReadMark(FormerPath(path), "run-1").ok());
  ASSERT_TRUE(Save(path, Warm(), PartyMark{2}, true).ok());
  ASSERT_TRUE(Save(path, Warm(), PartyMark{3}, false).ok());
  EXPECT_EQ(ReadMark(path, "run-1")->version, 3u);
  EXPECT_EQ(ReadMark(FormerPath(path), "run-1")->version, 1u);
}

// Broken: moments of another run or model, or half a file, would be trained on.
TEST(StateFileTest, AnotherFileIsNotUsed) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  Buffers cold;
  const auto refusal = [&](const std::string& run, PartyParts parts) {
    return LoadParty(path, run, parts).status();
  };
  EXPECT_TRUE(absl::IsNotFound(refusal("run-1", cold.parts())));
  ASSERT_TRUE(Save(path, Warm(), PartyMark{1}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("run-2", cold.parts())));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadMark(path, "run-2").status()));
  Buffers longer;
  longer.first.resize(101);
  longer.second.resize(101);
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("run-1", longer.parts())));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(absl::IsDataLoss(refusal("run-1", cold.parts())));
  EXPECT_TRUE(absl::IsDataLoss(ReadMark(path, "run-1").status()));
  std::filesystem::resize_file(path, 10);
  EXPECT_TRUE(absl::IsDataLoss(refusal("run-1", cold.parts())));
  EXPECT_EQ(cold.steps, 0u);
  EXPECT_EQ(cold.first, Buffers().first);
  std::ofstream(path) << "ATOLLXX9" << std::string(1000, '\0');
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("", cold.parts())));
}

// Broken: after a restart the moments of one tensor would be used for another, or tensors that had
// begun anew would be taken for old ones.
TEST(StateFileTest, SaysWhichTensorsItHasMomentsOf) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  Buffers warm = Warm(), cold;
  const auto save = [&](std::vector<uint64_t> began) {
    PartyParts parts = warm.parts();
    parts.began = absl::MakeSpan(began);
    return SaveParty(path, "run-1", parts, PartyMark{9}, SaveTerms{});
  };
  const auto load = [&](std::vector<uint64_t>* began) {
    PartyParts parts = cold.parts();
    parts.began = absl::MakeSpan(*began);
    return LoadParty(path, "run-1", parts).status();
  };
  const std::vector<uint64_t> written = {0, InnerOptimizer::kFrozen, 40};
  ASSERT_TRUE(save(written).ok());
  EXPECT_EQ(*ReadBegan(path, "run-1"), written);
  EXPECT_EQ(ReadMark(path, "run-1")->version, 9u);
  EXPECT_EQ(ReadPersonalTensors(path, "run-1", 7)->back(), 0.5f);
  std::vector<uint64_t> same = {0, InnerOptimizer::kFrozen, 0};
  ASSERT_TRUE(load(&same).ok());
  EXPECT_EQ(same, written);
  EXPECT_EQ(cold.second, warm.second);
  for (std::vector<uint64_t> other : {std::vector<uint64_t>{0, 0, 0},
                                      {0, 0, InnerOptimizer::kFrozen},
                                      {0, InnerOptimizer::kFrozen},
                                      {}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(load(&other))) << other.size();
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(absl::IsDataLoss(ReadBegan(path, "run-1").status()));

  // Where all have been trained all the time, the file is as without this.
  ASSERT_TRUE(save({0, 0, 0}).ok());
  const auto size = std::filesystem::file_size(path);
  EXPECT_TRUE(ReadBegan(path, "run-1")->empty());
  std::vector<uint64_t> all = {5, 6, 7};
  ASSERT_TRUE(load(&all).ok());
  EXPECT_EQ(all, std::vector<uint64_t>(3));
  ASSERT_TRUE(Save(path, warm, PartyMark{9}).ok());
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

std::string U64s(const std::vector<uint64_t>& values) {
  std::string bytes(values.size() * 8, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Broken: whoever upgrades a machine would lose the moments, or a party its place in its data.
TEST(StateFileTest, WhatEarlierReleasesWroteIsTaken) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  const std::string run = "run-1" + std::string(67, '\0');
  Buffers warm = Warm();
  const std::string moments = Floats(warm.first) + Floats(warm.second);
  std::ofstream(path) << "ATOLLPA1" << run << U64s({77, 5, 1, 7, 0, 0, 100, 100, 0, 0, 0})
                      << Floats(warm.personal) << moments;
  Buffers party;
  absl::StatusOr<PartyMark> mark = LoadParty(path, "run-1", party.parts());
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_EQ(mark->version, 0u);
  EXPECT_EQ(party.position, 5u);
  EXPECT_EQ(party.personal, warm.personal);
  EXPECT_EQ(party.second, warm.second);
  std::ofstream(path) << "ATOLLOP1" << run << U64s({77, 2, 100}) << moments;
  Buffers alone;
  alone.personal.clear();
  mark = LoadParty(path, "run-1", alone.parts());
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_EQ(mark->version, 0u);
  EXPECT_EQ(alone.steps, 77u);
  EXPECT_EQ(alone.first, warm.first);
  EXPECT_EQ(alone.second, warm.second);
}

}  // namespace
}  // namespace atolld
