#include "tests/unit/daemon/etcd/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "compression/base/check.h"
#include "daemon/env/child_process.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

// One that the system chose and that is free again.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  CHECK(socket >= 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  socklen_t size = sizeof(address);
  CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

std::string Loopback(int port) { return absl::StrCat("127.0.0.1:", port); }

}  // namespace

std::string EtcdProcess::Program() {
  std::vector<std::string> places;
  if (const char* named = std::getenv("ATOLL_ETCD")) places.emplace_back(named);
  places.emplace_back(ATOLL_SOURCE_DIR "/build/etcd/etcd");
  if (const char* path = std::getenv("PATH")) {
    for (const auto folder : absl::StrSplit(path, ':')) {
      places.push_back(absl::StrCat(folder, "/etcd"));
    }
  }
  for (const std::string& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  return "";
}

EtcdProcess::EtcdProcess() : endpoint_(Loopback(FreePort())) {
  const std::string client = "http://" + endpoint_;
  const std::string peer = "http://" + Loopback(FreePort());
  // Elections are short, so that a lease may be as short as a second.
  ChildProcess::Options options;
  options.arguments = {Program(),
                       "--name=a",
                       "--data-dir=" + directory_.File("data"),
                       "--listen-client-urls=" + client,
                       "--advertise-client-urls=" + client,
                       "--listen-peer-urls=" + peer,
                       "--initial-advertise-peer-urls=" + peer,
                       "--initial-cluster=a=" + peer,
                       "--heartbeat-interval=20",
                       "--election-timeout=200",
                       "--unsafe-no-fsync"};
  const Descriptor log(open(directory_.File("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  options.descriptors = {{log.get(), 1}, {log.get(), 2}};
  pid_ = ChildProcess::Start(options).value();
  EtcdClient client_of_it(access());
  etcdserverpb::RangeRequest request;
  request.set_key("x");
  const auto answer = client_of_it.Range(request, absl::Seconds(30));
  CHECK(answer.ok());
}

EtcdProcess::~EtcdProcess() {
  kill(pid_, SIGKILL);
  ChildProcess::Await(pid_);
}

EtcdAccess EtcdProcess::access() const {
  return EtcdAccess{MakeGrpcEtcd(), {endpoint_}, "", "", ""};
}

std::string DeadEndpoint() { return Loopback(FreePort()); }

}  // namespace atolld
