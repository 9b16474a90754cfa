// Real sockets of the loopback: what a proxy does to them is all that it is for.
#include "daemon/bench/churn_cluster.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr int kPatience = 10000;  // milliseconds, for what must come
constexpr int kSilence = 200;     // for what must not: a proxy that forwards takes microseconds

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

class TcpProbe {
 public:
  explicit TcpProbe(int fd = socket(AF_INET, SOCK_STREAM, 0)) : fd_(fd) {}
  ~TcpProbe() { Close(); }
  TcpProbe(const TcpProbe&) = delete;
  TcpProbe& operator=(const TcpProbe&) = delete;

  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int port() const {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }
  bool Connect(int to) {
    const sockaddr_in address = Loopback(to);
    return connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool Readable(int milliseconds) const {
    pollfd polled{fd_, POLLIN, 0};
    return poll(&polled, 1, milliseconds) == 1;
  }
  void Send(const std::string& text) const {
    ASSERT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Exactly so many bytes; fewer if the stream ends or goes silent.
  std::string Receive(size_t bytes) const {
    std::string text;
    while (text.size() < bytes && Readable(kPatience)) {
      char buffer[65536];
      const ssize_t got = recv(fd_, buffer, std::min(sizeof buffer, bytes - text.size()), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  int fd_;
};

class ProxyTest : public ::testing::Test {
 protected:
  ProxyTest() {
    const sockaddr_in any = Loopback(0);
    bind(server_.fd(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    listen(server_.fd(), 8);
    proxy_ = *Proxy::Open(server_.port(), [this](int source_port, int proxy_port) {
      origin_port_ = proxy_port;
      return "port-" + std::to_string(source_port);
    });
  }

  int Accept() { return server_.Readable(kPatience) ? accept(server_.fd(), nullptr, nullptr) : -1; }

  TcpProbe server_;
  int origin_port_ = 0;
  std::unique_ptr<Proxy> proxy_;
};

// Broken: daemons behind a proxy could not speak, or would lose or reorder bytes.
TEST_F(ProxyTest, ForwardsBothWaysAndToTheEnd) {
  TcpProbe client;
  ASSERT_TRUE(client.Connect(proxy_->port()));
  const TcpProbe accepted(Accept());
  client.Send("up");
  EXPECT_EQ(accepted.Receive(2), "up");
  accepted.Send("down");
  EXPECT_EQ(client.Receive(4), "down");

  std::string large;  // more than all buffers on the way
  for (int i = 0; large.size() < (size_t{8} << 20); ++i) large += std::to_string(i);
  std::thread sender([&] { client.Send(large); });
  EXPECT_EQ(accepted.Receive(large.size()), large);
  sender.join();

  shutdown(client.fd(), SHUT_WR);
  char byte;
  ASSERT_TRUE(accepted.Readable(kPatience));
  EXPECT_EQ(recv(accepted.fd(), &byte, 1, 0), 0) << "the end of one direction";
  accepted.Send("still");
  EXPECT_EQ(client.Receive(5), "still") << "the other goes on";
}

// Broken: a black hole would refuse or reset, which is noticed at once, or lose what it held.
TEST_F(ProxyTest, AHeldLinkIsSilentAndLosesNothing) {
  TcpProbe client;
  ASSERT_TRUE(client.Connect(proxy_->port()));
  const TcpProbe accepted(Accept());
  client.Send("a");
  ASSERT_EQ(accepted.Receive(1), "a");
  proxy_->Hold();
  EXPECT_TRUE(proxy_->holding());
  client.Send("b");
  accepted.Send("c");
  TcpProbe late;
  ASSERT_TRUE(late.Connect(proxy_->port())) << "the system takes the connection";
  EXPECT_FALSE(accepted.Readable(kSilence));
  EXPECT_FALSE(client.Readable(0));
  EXPECT_FALSE(server_.Readable(0)) << "nobody behind it has heard of the late one";
  proxy_->Resume();
  EXPECT_FALSE(proxy_->holding());
  EXPECT_EQ(accepted.Receive(1), "b");
  EXPECT_EQ(client.Receive(1), "c");
  const TcpProbe accepted_late(Accept());
  late.Send("d");
  EXPECT_EQ(accepted_late.Receive(1), "d");
}

// Broken: cutting one peer off would cut off those that dial the same address too.
TEST_F(ProxyTest, HoldsTheConnectionsOfOneAlone) {
  TcpProbe one, other;
  ASSERT_TRUE(one.Connect(proxy_->port()));
  const TcpProbe accepted_one(Accept());
  ASSERT_TRUE(other.Connect(proxy_->port()));
  const TcpProbe accepted_other(Accept());
  proxy_->HoldFrom("port-" + std::to_string(one.port()));
  EXPECT_EQ(origin_port_, proxy_->port());
  one.Send("a");
  other.Send("b");
  EXPECT_EQ(accepted_other.Receive(1), "b");
  EXPECT_FALSE(accepted_one.Readable(kSilence));
  proxy_->Resume();
  EXPECT_EQ(accepted_one.Receive(1), "a");
}

// Broken: a dead daemon behind a proxy would look alive, and its death be noticed late.
TEST_F(ProxyTest, APortThatRefusesIsRefusedHereToo) {
  TcpProbe open;
  ASSERT_TRUE(open.Connect(proxy_->port()));
  TcpProbe accepted(Accept());
  server_.Close();
  TcpProbe client;
  ASSERT_TRUE(client.Connect(proxy_->port()));  // the proxy's own port takes it, and then
  char byte;
  ASSERT_TRUE(client.Readable(kPatience));
  EXPECT_EQ(recv(client.fd(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  // And a process that is killed ends the connections that it had.
  accepted.Close();
  ASSERT_TRUE(open.Readable(kPatience));
  EXPECT_EQ(recv(open.fd(), &byte, 1, 0), 0);
}

// Broken: nobody could say whose connection a proxy has before it, and a peer that is cut off would
// go on speaking to others.
TEST_F(ProxyTest, ConnectionsAreTracedToTheirProcess) {
  TcpProbe client;
  ASSERT_TRUE(client.Connect(proxy_->port()));
  EXPECT_EQ(OwnerOfConnection({1, getpid()}, client.port(), proxy_->port()), getpid());
  EXPECT_EQ(OwnerOfConnection({1}, client.port(), proxy_->port()), 0);
  EXPECT_EQ(OwnerOfConnection({getpid()}, proxy_->port(), proxy_->port()), 0);
}

// Broken: a frozen or ended process would count as running, or its memory be another's.
TEST(ProcessStat, TellsStateParentAndMemory) {
  const std::optional<ProcessStat> self = StatOf(getpid());
  ASSERT_TRUE(self.has_value());
  EXPECT_TRUE(self->running());
  EXPECT_EQ(self->parent, getppid());
  EXPECT_GT(ResidentBytes(getpid()), uint64_t{1} << 20);
  const std::vector<pid_t> siblings = ChildrenOf(getppid());
  EXPECT_NE(std::find(siblings.begin(), siblings.end(), getpid()), siblings.end());
  EXPECT_FALSE(StatOf(0).has_value());
  EXPECT_EQ(ResidentBytes(0), 0u);
}

}  // namespace
}  // namespace atolld
