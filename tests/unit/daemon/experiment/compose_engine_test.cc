#include "daemon/experiment/compose_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr char kBothDown[] =
    "atoll-0a-01-a-seed-1-peer-10 Exited (137) 2 minutes ago\n"
    "atoll-0a-01-a-seed-1-peer-2 Exited (1) 4 seconds ago\n";

TEST(ComposePeersTest, KnowsWhoIsDownForGood) {
  // Broken: a run would be ended whose peers are being started again, or be waited for for ever.
  const struct {
    const char* listing;
    bool all_ended, all_failed;
  } cases[] = {
      {kBothDown, true, true},
      {"p-peer-1 Exited (0) 4 seconds ago\np-peer-2 Exited (1) 4 seconds ago\n", true, false},
      {"p-peer-1 Up 4 seconds (healthy)\np-peer-2 Exited (1) 4 seconds ago\n", false, false},
      {"p-peer-1 Restarting (1) 4 seconds ago\np-peer-2 Exited (1) 1 second ago\n", false, false},
      {"p-peer-1 Up 3 minutes (Paused)\n", false, false},
      {"p-peer-1 Created\n", false, false},
      {"p-peer-1 Dead\n", true, true},
      // No word of Docker's that is known, and a complaint in the place of a list.
      {"p-peer-1 Exited\n", false, false},
      {"Cannot connect to the daemon\n", false, false},
  };
  for (const auto& one : cases) {
    const std::vector<PeerContainer> peers = ParsePeerList(one.listing);
    EXPECT_EQ(AllEnded(peers), one.all_ended) << one.listing;
    EXPECT_EQ(AllFailed(peers), one.all_failed) << one.listing;
  }
  // Broken: a project that is not listed would count as one whose peers are down.
  EXPECT_FALSE(AllEnded(ParsePeerList("")));
  EXPECT_FALSE(AllEnded(ParsePeerList("\n \n")));
}

TEST(ComposePeersTest, NamesEachPeerWithItsLastLine) {
  // Broken: nobody would learn why the peers have left, or read another peer's reason.
  const TemporaryDirectory folder;
  const std::string log = folder.File("containers.txt");
  std::ofstream(log) << "coordinator-1  | peer-2 enrolled\n"
                        "peer-2        | first\n"
                        "peer-2        | no data is left | for peer-2\n"
                        "peer-2        | \n"
                        "peer-1        | nobody's\n"
                        "a line without a name\n";
  const std::vector<PeerContainer> peers = ParsePeerList(kBothDown);
  const std::vector<std::string> lines = LastLinesOfPeers(log, peers);
  EXPECT_THAT(lines, ElementsAre("no data is left | for peer-2", ""));
  EXPECT_EQ(DescribeEndedPeers(peers, lines),
            "no peer runs any more: peer-2 exited with 1: no data is left | for peer-2; peer-10 "
            "exited with 137");
  EXPECT_EQ(DescribeEndedPeers(peers, LastLinesOfPeers(folder.File("none"), peers)),
            "no peer runs any more: peer-2 exited with 1; peer-10 exited with 137");
}

TEST(ComposePeersTest, ReadsWhatTheOlderProgramWrites) {
  // Broken: with docker-compose 1.29 every reason would be missing.
  const TemporaryDirectory folder;
  const std::string log = folder.File("containers.txt");
  std::ofstream(log) << "peer_1         | one\npeer_11        | eleven\n";
  const std::vector<PeerContainer> peers = ParsePeerList(
      "atoll-0a-01-a-seed-1_peer_11 Exited (1) now\natoll-0a-01-a-seed-1_peer_1 Dead\n");
  EXPECT_EQ(DescribeEndedPeers(peers, LastLinesOfPeers(log, peers)),
            "no peer runs any more: peer-1 is dead: one; peer-11 exited with 1: eleven");
}

TEST(ComposePeersTest, ALineOfAnotherMachineStaysOneLine) {
  // Broken: what a container prints would command a terminal, or fill the table of runs.
  const TemporaryDirectory folder;
  const std::string log = folder.File("containers.txt");
  std::ofstream(log) << "p-peer-1 | \x1b[2J" << std::string(5000, 'x') << "\n";
  const std::vector<std::string> lines =
      LastLinesOfPeers(log, ParsePeerList("p-peer-1 Exited (1) now\n"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find('\x1b'), std::string::npos);
  EXPECT_LT(lines[0].size(), 400u);
}

TEST(ComposePeersTest, AsksForThePeersOfOneProject) {
  // Broken: another run's peers would end this one, or its coordinator keep it.
  const std::vector<std::string> command = ListPeersCommand("atoll-0a-01-a-seed-1");
  EXPECT_THAT(command, Contains("-a"));
  EXPECT_THAT(command, Contains("label=com.docker.compose.project=atoll-0a-01-a-seed-1"));
  EXPECT_THAT(command, Contains("label=com.docker.compose.service=peer"));
}

}  // namespace
}  // namespace atolld
