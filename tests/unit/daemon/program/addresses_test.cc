// Would break: a run hands out an address that leads every machine back to itself, or `atoll local`
// passes over where its config says that others find it.
#include "daemon/program/addresses.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/transport/sockets.h"
#include "gmock/gmock.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config CoordinatorConfig(const std::string& address, const std::string& listen = "") {
  Config config;
  config.coordinator.address = address;
  config.coordinator.listen = listen;
  return config;
}

TEST(AddressWarnings, NameWhatIsHandedOutAndLeadsNowhere) {
  EXPECT_THAT(AddressWarnings(Config(), ConfigUse::kAny), IsEmpty());
  EXPECT_THAT(AddressWarnings(CoordinatorConfig("192.0.2.1:7070", "0.0.0.0:7070"), ConfigUse::kAny),
              IsEmpty());
  // It listens to all, and tokens lead each machine to itself.
  EXPECT_THAT(
      AddressWarnings(CoordinatorConfig("127.0.0.1:7070", "0.0.0.0:7070"), ConfigUse::kCoordinator),
      ElementsAre(AllOf(HasSubstr("[coordinator] address '127.0.0.1:7070' can be dialled from this "
                                  "machine alone"),
                        HasSubstr("set it to a HOST:PORT that other machines reach"))));
  Config beside = CoordinatorConfig("192.0.2.1:7070");
  beside.coordinator.aggregator_address = "127.0.0.1:7071";
  EXPECT_THAT(AddressWarnings(beside, ConfigUse::kCoordinator),
              ElementsAre(HasSubstr("[coordinator] aggregator_address '127.0.0.1:7071'")));
  EXPECT_THAT(AddressWarnings(beside, ConfigUse::kPeer), IsEmpty()) << "not the peer's to set";
}

TEST(LocalAddresses, WithoutAWordTheRunIsThisMachinesAlone) {
  Config config;
  ASSERT_TRUE(TakeLocalAddresses({"", 7171}, &config).ok());
  EXPECT_FALSE(NamesCoordinator(config));
}

TEST(LocalAddresses, AnOptionOrTheConfigSaysWhereTheCoordinatorIs) {
  const struct {
    const char* address;
    const char* listen;
    LocalAddressOptions options;
    const char* wanted_address;
    const char* wanted_listen;
  } cases[] = {
      {"127.0.0.1:7070", "", {"192.0.2.1:80", 0}, "192.0.2.1:80", ""},
      {"127.0.0.1:7070", "192.0.2.1:80", {"", 0}, "192.0.2.1:80", ""},
      {"127.0.0.1:7070", "192.0.2.1:80", {"192.0.2.2:90", 0}, "192.0.2.2:90", ""},
      {"192.0.2.1:80", "", {"", 0}, "192.0.2.1:80", ""},
      {"192.0.2.1:80", "", {"", 90}, "192.0.2.1:90", ""},
      {"192.0.2.1:80", "0.0.0.0:81", {"", 0}, "192.0.2.1:80", "0.0.0.0:81"},
      {"192.0.2.1:80", "", {"0.0.0.0:81", 0}, "192.0.2.1:80", "0.0.0.0:81"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(absl::StrCat(one.address, " ", one.listen, " ", one.options.listen));
    Config config = CoordinatorConfig(one.address, one.listen);
    const absl::Status taken = TakeLocalAddresses(one.options, &config);
    ASSERT_TRUE(taken.ok()) << taken;
    EXPECT_TRUE(NamesCoordinator(config));
    EXPECT_EQ(one.wanted_address, config.coordinator.address);
    EXPECT_EQ(one.wanted_listen, config.coordinator.listen);
  }
}

TEST(LocalAddresses, AWildcardAloneIsRefusedWithWhatToGive) {
  Config config;
  const absl::Status option = TakeLocalAddresses({"0.0.0.0:7070", 0}, &config);
  EXPECT_TRUE(absl::IsInvalidArgument(option));
  EXPECT_THAT(std::string(option.message()),
              AllOf(HasSubstr("--listen '0.0.0.0:7070' says where the coordinator listens, and not "
                              "where others dial it: give --listen "),
                    HasSubstr(":7070, or set [coordinator] address in the config")));
  for (const std::string& host : OwnHosts()) {
    EXPECT_THAT(std::string(option.message()), HasSubstr(host + ":7070"));
  }
  Config listens = CoordinatorConfig(Config().coordinator.address, "[::]:7070");
  EXPECT_THAT(std::string(TakeLocalAddresses({}, &listens).message()),
              HasSubstr("[coordinator] listen '[::]:7070'"));
  for (const char* wrong : {"here", "here:", "here:0", "here:x"}) {
    Config any;
    EXPECT_THAT(std::string(TakeLocalAddresses({wrong, 0}, &any).message()),
                HasSubstr("give HOST:PORT"));
  }
}

TEST(LocalAddresses, PeersListenWhereTheCoordinatorDoes) {
  // Another machine's address: the coordinator listens on all, and its peers cannot be dialled.
  const int port = ListenTcp("127.0.0.1:0")->port;
  Config away = CoordinatorConfig("192.0.2.77:7070", absl::StrCat("127.0.0.1:", port));
  ASSERT_TRUE(OpenLocalAddresses(&away).ok());
  EXPECT_EQ(kDialsOutOnly, away.peer.advertise);
  Config named = away;
  named.peer.advertise = "192.0.2.77:7100";
  ASSERT_TRUE(OpenLocalAddresses(&named).ok());
  EXPECT_EQ("192.0.2.77:7100", named.peer.advertise);
  for (const std::string& host : OwnHosts()) {
    Config own = CoordinatorConfig(absl::StrCat(host, ":", port));
    ASSERT_TRUE(OpenLocalAddresses(&own).ok());
    EXPECT_EQ(host + ":0", own.peer.listen);
    EXPECT_EQ("", own.peer.advertise);
  }
  Config nowhere = CoordinatorConfig("192.0.2.77:7070");
  const absl::Status refused = OpenLocalAddresses(&nowhere);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("[coordinator] listen"), HasSubstr("192.0.2.77:7070"),
                    HasSubstr("not an address of this machine")));
}

TEST(LocalAddresses, EachPeerHasItsOwnPort) {
  Config::Peer run;
  run.listen = "0.0.0.0:7100";
  run.advertise = "192.0.2.1:7200";
  EXPECT_EQ("0.0.0.0:7102", LocalPeerAddresses(run, 3).listen);
  EXPECT_EQ("192.0.2.1:7202", LocalPeerAddresses(run, 3).advertise);
  run.listen = "192.0.2.1:0";
  run.advertise = kDialsOutOnly;
  EXPECT_EQ("192.0.2.1:0", LocalPeerAddresses(run, 3).listen);
  EXPECT_EQ(kDialsOutOnly, LocalPeerAddresses(run, 3).advertise);
}

TEST(LocalAddresses, ThisMachineDialsWhatIsListenedOn) {
  EXPECT_EQ("192.0.2.1:1", DialledHere(CoordinatorConfig("192.0.2.1:1").coordinator));
  EXPECT_EQ("127.0.0.1:2", DialledHere(CoordinatorConfig("192.0.2.1:1", "0.0.0.0:2").coordinator));
  EXPECT_EQ("10.0.0.1:2", DialledHere(CoordinatorConfig("192.0.2.1:1", "10.0.0.1:2").coordinator));
}

}  // namespace
}  // namespace atolld
