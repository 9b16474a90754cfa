// flooder: an admitted peer that floods its coordinator, for flood_benchmark.py.
//
//   flooder --address HOST:PORT --folder IDENTITY --id ID --heartbeats N --enrolments N --seconds S
//
// Holds a Session in its own name and sends N heartbeats per second on it, and asks for N new
// certificates per second, with as many open calls as the coordinator allows. Prints one JSON
// object: what it wanted to send, what the coordinator accepted, and how it was answered.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "atoll/v1/membership.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/grpc_transport.h"

namespace atolld {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(10);
constexpr size_t kMostUnsent = size_t{1} << 20;
constexpr size_t kMostOpen = 2000;

struct Options {
  std::string address, folder, id;
  double heartbeats = 10000, enrolments = 1000, seconds = 10;
};

class Flooder {
 public:
  Flooder(PosixExecutor& executor, GrpcTransport& transport, Options options, std::string request)
      : executor_(executor),
        transport_(transport),
        options_(std::move(options)),
        request_(std::move(request)) {}

  void Start() {
    session_ = transport_.Dial(options_.address, "/atolld.v1.Membership/Session",
                               absl::InfiniteDuration());
    session_->Start({[this](const Frame&) { session_->Read(); }, nullptr,
                     [this](const absl::Status& status) { session_end_ = status.ToString(); }});
    session_->Read();
    v1::PeerMessage message;
    message.mutable_hello()->set_peer(options_.id);
    message.mutable_hello()->set_numerics(1);
    session_->Write(Pack(message));
    began_ = executor_.Now();
    Beat();
  }

  void Print() const {
    std::cout << "{\"heartbeats_wanted\": " << static_cast<uint64_t>(wanted_heartbeats_)
              << ", \"heartbeats_sent\": " << sent_
              << ", \"heartbeats_unsent_bytes\": " << session_->unsent_bytes()
              << ", \"session\": \"" << session_end_
              << "\", \"enrolments_wanted\": " << static_cast<uint64_t>(wanted_enrolments_)
              << ", \"enrolments_asked\": " << asked_ << ", \"answers\": {"
              << absl::StrJoin(answers_, ", ",
                               [](std::string* out, const auto& one) {
                                 absl::StrAppend(out, "\"", one.first, "\": ", one.second);
                               })
              << "}}" << std::endl;
  }

 private:
  void Beat() {
    const double seconds = absl::ToDoubleSeconds(executor_.Now() - began_);
    if (seconds >= options_.seconds) return executor_.Stop();
    wanted_heartbeats_ = seconds * options_.heartbeats;
    wanted_enrolments_ = seconds * options_.enrolments;
    v1::PeerMessage message;
    message.mutable_heartbeat()->mutable_progress()->set_step(1);
    while (static_cast<double>(sent_) < wanted_heartbeats_ && session_end_.empty() &&
           session_->unsent_bytes() < kMostUnsent) {
      session_->Write(Pack(message));
      ++sent_;
    }
    while (static_cast<double>(asked_) < wanted_enrolments_ && calls_.size() < kMostOpen) Ask();
    executor_.RunAfter(kBeat, [this] { Beat(); });
  }

  void Ask() {
    const uint64_t number = ++asked_;
    Call& call = *(calls_[number] = transport_.Dial(options_.address, "/atolld.v1.Membership/Renew",
                                                    absl::Seconds(10)));
    call.Start({nullptr, nullptr, [this, number](const absl::Status& status) {
                  ++answers_[absl::StatusCodeToString(status.code())];
                  executor_.Post([this, number] { calls_.erase(number); });
                }});
    v1::EnrolRequest request;
    request.set_signing_request(request_);
    call.Write(Pack(request));
    call.Finish(absl::OkStatus());
    call.Read();
  }

  PosixExecutor& executor_;
  GrpcTransport& transport_;
  const Options options_;
  const std::string request_;
  std::unique_ptr<Call> session_;
  std::string session_end_;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  std::map<std::string, uint64_t> answers_;
  absl::Time began_;
  double wanted_heartbeats_ = 0, wanted_enrolments_ = 0;
  uint64_t sent_ = 0, asked_ = 0;
};

absl::Status Run(const Options& options) {
  PosixFiles files;
  PosixExecutor executor(PosixExecutor::Options{1, 0});
  Credentials credentials;
  RETURN_IF_ERROR(
      LoadCredentials(files, options.folder, executor.WallTime(), &credentials).status());
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(credentials.key));
  ASSIGN_OR_RETURN(const std::string request, key.SigningRequest());
  GrpcTransport::Options network;
  network.tls = MakeTlsCredentials(options.folder);
  GrpcTransport transport(executor, network);
  {
    Flooder flooder(executor, transport, options, request);
    flooder.Start();
    executor.Run();
    flooder.Print();
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{"An admitted peer that floods its coordinator."};
  Options options;
  app.add_option("--address", options.address)->required();
  app.add_option("--folder", options.folder)->required();
  app.add_option("--id", options.id)->required();
  app.add_option("--heartbeats", options.heartbeats, "a second");
  app.add_option("--enrolments", options.enrolments, "a second");
  app.add_option("--seconds", options.seconds);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }
