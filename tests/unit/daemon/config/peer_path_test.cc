#include "daemon/config/peer_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class PeerPathTest : public ::testing::Test {
 protected:
  PeerPathTest()
      : root_((std::filesystem::temp_directory_path() / absl::StrCat("atoll-peer-path-", getpid()))
                  .string()) {
    std::filesystem::create_directories(root_);
    std::ofstream(root_ + "/plain-1.txt") << "x";
    std::ofstream(root_ + "/party-0001.txt") << "x";
    std::ofstream(root_ + "/party-0012.txt") << "x";
  }
  ~PeerPathTest() override { std::filesystem::remove_all(root_); }

  const std::string root_;
};

TEST_F(PeerPathTest, TheNumberHasAsManyZerosAsTheFile) {
  // Broken: a peer would train on another party's data, or on none.
  EXPECT_EQ(PathOfPeer(root_ + "/plain-{peer}.txt", 1), root_ + "/plain-1.txt");
  EXPECT_EQ(PathOfPeer(root_ + "/party-{peer}.txt", 1), root_ + "/party-0001.txt");
  EXPECT_EQ(PathOfPeer(root_ + "/party-{peer}.txt", 12), root_ + "/party-0012.txt");
  EXPECT_EQ(PathOfPeer(root_ + "/party-{peer}.txt", 3), root_ + "/party-3.txt");
  EXPECT_EQ(PathOfPeer("/all.txt", 3), "/all.txt");
}

TEST_F(PeerPathTest, WhatIsMissingIsSaidBeforehand) {
  // Broken: a run would begin without the data of one of its peers.
  DataConfig data;
  data.path = "party-{peer}.txt";
  EXPECT_THAT(std::string(CheckPeerPaths(data, 1, root_).message()),
              HasSubstr("set [data] private = true"));
  data.is_private = true;
  EXPECT_TRUE(CheckPeerPaths(data, 1, root_).ok());
  EXPECT_THAT(std::string(CheckPeerPaths(data, 2, root_).message()),
              HasSubstr("party-2.txt', of peer 2, does not exist"));
}

}  // namespace
}  // namespace atolld
