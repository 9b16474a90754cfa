// Would break: a name that has an address which a firewall drops, or which accepts connections and
// answers nothing, keeps a machine from a coordinator that its other address leads to.
#include "daemon/transport/address_book.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/sockets.h"
#include "gmock/gmock.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Longer than any of these tests would take where something waits for a silent address.
constexpr absl::Duration kAmple = absl::Seconds(20);

// An address at which nobody answers a connection, refusals included, as behind a firewall that
// drops: a listener whose queue is full, so that the kernel drops what comes.
class SilentAddress {
 public:
  explicit SilentAddress(const std::string& host) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    EXPECT_EQ(1, inet_pton(AF_INET, host.c_str(), &at.sin_addr));
    listener_ = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t length = sizeof at;
    EXPECT_EQ(0, bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), length));
    EXPECT_EQ(0, listen(listener_.get(), 0));
    EXPECT_EQ(0, getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &length));
    port_ = ntohs(at.sin_port);
    address_ = absl::StrCat(host, ":", port_);
    // One fits; the next ones are dropped.
    for (int i = 0; i < 4; ++i) {
      waiting_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)!connect(waiting_.back().get(), reinterpret_cast<const sockaddr*>(&at), length);
    }
  }

  int port() const { return port_; }
  const std::string& address() const { return address_; }

 private:
  Socket listener_;
  std::vector<Socket> waiting_;
  int port_ = 0;
  std::string address_;
};

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

TEST(ConnectToFirst, ASilentAddressHoldsUpNoOther) {
  const SilentAddress silent("127.0.0.2");
  const auto listeners = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  const std::string good = absl::StrCat("127.0.0.1:", listeners->port);
  const absl::Time begun = absl::Now();
  const auto made = ConnectToFirst({silent.address(), good}, begun + kAmple);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(good, made->address);
  EXPECT_LT(absl::Now() - begun, kAmple / 4);
  // It is given its head start where it comes first, and costs nothing where it does not.
  EXPECT_EQ(good, ConnectToFirst({good, silent.address()}, absl::Now() + kAmple)->address);
}

TEST(ConnectToFirst, OneThatRefusesMakesWayAtOnce) {
  const auto listeners = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(listeners.ok());
  std::string closed;
  {
    const auto gone = ListenTcp("127.0.0.2:0");
    ASSERT_TRUE(gone.ok());
    closed = absl::StrCat("127.0.0.2:", gone->port);
  }
  const std::string good = absl::StrCat("127.0.0.1:", listeners->port);
  EXPECT_EQ(good, ConnectToFirst({closed, good}, absl::Now() + kAmple)->address);
  // What refuses says more than what is silent.
  const SilentAddress silent("127.0.0.3");
  EXPECT_THAT(
      TextOf(ConnectToFirst({closed, silent.address()}, absl::Now() + absl::Seconds(1)).status()),
      StartsWith("connection refused"));
  EXPECT_THAT(
      TextOf(ConnectToFirst({silent.address()}, absl::Now() + absl::Milliseconds(300)).status()),
      StartsWith("timed out: no answer in 300ms"));
}

TEST(FindAddresses, GivesNumbersAndTakesWhatWasPasted) {
  const absl::Time end = absl::Now() + kAmple;
  EXPECT_THAT(*FindAddresses("127.0.0.1:70", end), ElementsAre("127.0.0.1:70"));
  EXPECT_THAT(*FindAddresses("[::1]:70", end), ElementsAre("[::1]:70"));
  EXPECT_THAT(*FindAddresses("\xc2\xa0"
                             "127.0.0.1:70\xe2\x80\x8b",
                             end),
              ElementsAre("127.0.0.1:70"));
  EXPECT_THAT(*FindAddresses("localhost:70", end), ::testing::Contains("127.0.0.1:70"));
  EXPECT_TRUE(absl::IsInvalidArgument(FindAddresses("nowhere", end).status()));
  EXPECT_TRUE(absl::IsNotFound(FindAddresses("no-such-name.invalid:70", end).status()));
}

// A verb's time limit covers the addresses together, and a handshake that gets no answer.
TEST(ConnectChannel, SaysThatAHandshakeStalls) {
  const auto mute = ListenTcp("127.0.0.1:0");  // its queue takes connections; nobody answers
  ASSERT_TRUE(mute.ok());
  const absl::Time begun = absl::Now();
  const auto channel =
      ConnectChannel(absl::StrCat("127.0.0.1:", mute->port), Role::kCoordinator, nullptr,
                     ClientArguments(absl::Seconds(1)), begun + absl::Milliseconds(500));
  EXPECT_THAT(TextOf(channel.status()), StartsWith("handshake stalled: connected"));
  EXPECT_LT(absl::Now() - begun, kAmple / 4);
}

absl::StatusOr<std::string> Found(AddressBook& book, const std::string& address) {
  std::promise<absl::StatusOr<std::string>> found;
  book.Find(address,
            [&](absl::StatusOr<std::string> numbers) { found.set_value(std::move(numbers)); });
  return found.get_future().get();
}

TEST(AddressBook, WaitsForNothingButNames) {
  const auto book = std::make_shared<AddressBook>(kAmple);
  for (const std::string address : {"127.0.0.1:70", "[::1]:70", "unix:/run/a.sock"}) {
    bool at_once = false;
    book->Find(address, [&](const absl::StatusOr<std::string>& numbers) {
      at_once = true;
      EXPECT_EQ(address, *numbers);
    });
    EXPECT_TRUE(at_once) << address;
  }
  EXPECT_THAT(TextOf(Found(*book, "no-such-name.invalid:70").status()),
              StartsWith("name not found: "));
  book->Close();
  EXPECT_TRUE(absl::IsUnavailable(Found(*book, "localhost:70").status()));
}

// "localhost" has one address here or two; whichever is blamed is left out while there is another.
TEST(AddressBook, WhatIsBlamedComesLast) {
  const auto listeners = ListenTcp("localhost:0");
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  const std::string name = absl::StrCat("localhost:", listeners->port);
  const auto all = FindAddresses(name, absl::Now() + kAmple);
  ASSERT_TRUE(all.ok());
  const auto book = std::make_shared<AddressBook>(kAmple);
  const std::string first = *Found(*book, name);
  book->Blame(name, first);
  const std::string second = *Found(*book, name);
  EXPECT_EQ(all->size() == 1, first == second);
  // Where all are blamed, they are all as good again.
  book->Blame(name, second);
  EXPECT_TRUE(Found(*book, name).ok());
}

}  // namespace
}  // namespace atolld
