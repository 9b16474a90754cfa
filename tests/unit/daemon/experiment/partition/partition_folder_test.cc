// Would break: parties get other bytes than the data has, a killed run leaves half a partition, or
// somebody's folder is overwritten.
#include "daemon/experiment/partition/partition_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/env/posix_files.h"
#include "daemon/experiment/partition/npy_file.h"
#include "daemon/experiment/partition/partition_picture.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PartitionFolderTest : public ::testing::Test {
 protected:
  PartitionFolderTest() {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += std::string(1, "abcd"[i % 4]) + absl::StrCat(" line ", i, "\n");
    Write("data.txt", text);
    settings_.path = directory_.File("data.txt");
    settings_.label = "first_letter";
    settings_.scheme = "pathological";
    settings_.parties = 6;
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name), std::ios::binary) << text;
  }
  std::string Bytes(const std::string& name) const {
    std::ifstream in(directory_.File(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  absl::StatusOr<PartitionReport> Make() {
    return WritePartition(files_, settings_, directory_.File("out"));
  }

  PosixFiles files_;
  TemporaryDirectory directory_;
  PartitionSettings settings_;
};

TEST_F(PartitionFolderTest, FilesHoldTheDataEachLineOnce) {
  // Broken: a line is lost, doubled or changed on its way to a party.
  const absl::StatusOr<PartitionReport> made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->found);
  std::vector<std::string> lines;
  const auto add = [&](const std::string& file) {
    for (const absl::string_view line : absl::StrSplit(Bytes(file), '\n', absl::SkipEmpty())) {
      lines.emplace_back(line);
    }
  };
  for (int i = 1; i <= 6; ++i) add(absl::StrCat("out/party-000", i, ".txt"));
  add("out/validation.txt");
  std::sort(lines.begin(), lines.end());
  std::vector<std::string> all = absl::StrSplit(Bytes("data.txt"), '\n', absl::SkipEmpty());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(lines, all);

  const nlohmann::json json = nlohmann::json::parse(Bytes("out/partition.json"));
  EXPECT_EQ(json["scheme"], "pathological");
  EXPECT_EQ(json["parties"].size(), 6u);
  EXPECT_EQ(json["validation"]["samples"], 20);
  EXPECT_EQ(json["parties"][0]["labels"].size(), 2u);
  EXPECT_EQ(json["parties"][0]["digest"], made->parties[0].digest);
}

TEST_F(PartitionFolderTest, AgainItIsFoundAndOtherwiseReplaced) {
  // Broken: an experiment that goes on makes its partition anew, or trains on an older one.
  ASSERT_TRUE(Make().ok());
  const auto written = std::filesystem::last_write_time(directory_.File("out/party-0001.txt"));
  EXPECT_TRUE(Make()->found);
  EXPECT_EQ(std::filesystem::last_write_time(directory_.File("out/party-0001.txt")), written);
  std::filesystem::resize_file(directory_.File("out/party-0002.txt"), 3);
  EXPECT_FALSE(Make()->found) << "a file that a crash cut";
  EXPECT_GT(Bytes("out/party-0002.txt").size(), 3u);
  settings_.parties = 3;
  EXPECT_FALSE(Make()->found);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("out/party-0004.txt")));
  Write("data.txt", Bytes("data.txt") + "e another line\n");
  EXPECT_FALSE(Make()->found) << "the data has changed";
}

TEST_F(PartitionFolderTest, WhatAKilledRunLeftIsNoPartition) {
  // Broken: SIGKILL in the midst leaves a folder that looks whole, or one that stops the next try.
  std::filesystem::create_directories(directory_.File("out.unfinished"));
  Write("out.unfinished/party-0001.txt", "half");
  ASSERT_TRUE(Make().ok());
  EXPECT_FALSE(std::filesystem::exists(directory_.File("out.unfinished")));
}

TEST_F(PartitionFolderTest, SomebodysFolderStays) {
  // Broken: `--out ~` removes what lies there.
  std::filesystem::create_directories(directory_.File("out"));
  Write("out/letter.txt", "dear");
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("holds no partition"));
  std::filesystem::remove(directory_.File("out/letter.txt"));
  ASSERT_TRUE(Make().ok()) << "an empty folder is taken";
  Write("out/letter.txt", "dear");
  settings_.seed = 9;
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("holds 'letter.txt' beside"));
  EXPECT_EQ(Bytes("out/letter.txt"), "dear");
  settings_.path = directory_.path();
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("lies in the data itself"));
}

TEST_F(PartitionFolderTest, ArraysComeBackAsArrays) {
  // Broken: a party's rows and labels no longer belong together.
  std::filesystem::create_directories(directory_.File("set"));
  std::string features, labels;
  for (uint8_t i = 0; i < 40; ++i) {
    features += std::string(2, static_cast<char>(i));
    labels += std::string(1, static_cast<char>(i % 4));
  }
  Write("set/features.npy", NpyHeaderText("|u1", {40, 2}) + features);
  Write("set/labels.npy", NpyHeaderText("|u1", {40}) + labels);
  settings_ = PartitionSettings();
  settings_.path = directory_.File("set");
  settings_.scheme = "shards";
  settings_.parties = 4;
  settings_.validation = 0;
  const absl::StatusOr<PartitionReport> made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->parties[0].files,
              ElementsAre("party-0001/features.npy", "party-0001/labels.npy"));
  const std::string rows = Bytes("out/party-0001/features.npy");
  const std::string numbers = Bytes("out/party-0001/labels.npy");
  const absl::StatusOr<NpyHeader> row = ReadNpyHeader(rows);
  const absl::StatusOr<NpyHeader> number = ReadNpyHeader(numbers);
  ASSERT_TRUE(row.ok() && number.ok());
  EXPECT_EQ(row->rows(), 10u);
  for (uint64_t i = 0; i < row->rows(); ++i) {
    EXPECT_EQ(rows[row->data_at + 2 * i] % 4, numbers[number->data_at + i]);
  }
}

TEST_F(PartitionFolderTest, PicturesShowFewAndMany) {
  // Broken: the picture is no SVG of its own, takes a label for markup, or hides parties.
  settings_.label_pattern = "";
  absl::StatusOr<PartitionReport> shown = ShowPartition(files_, settings_);
  ASSERT_TRUE(shown.ok()) << shown.status();
  shown->labels[0] = "<script>";
  const std::string bars = PartitionSvg(*shown);
  EXPECT_THAT(bars, HasSubstr("<svg xmlns"));
  EXPECT_THAT(bars, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(bars, HasSubstr("party-0006, "));
  EXPECT_THAT(bars, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(bars, Not(HasSubstr("<script>")));
  settings_.scheme = "iid";
  settings_.parties = 100;
  shown = ShowPartition(files_, settings_);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_THAT(PartitionSvg(*shown), HasSubstr("the smallest on the left"));
}

TEST_F(PartitionFolderTest, NamesSortByNumber) {
  // Broken: a peer that hosts parties 2 to 10 takes 1, 10, 100 ... of 10,000.
  EXPECT_EQ(PartyName(7, 8), "party-0007");
  EXPECT_EQ(PartyName(7, 10000), "party-00007");
}

}  // namespace
}  // namespace atolld
