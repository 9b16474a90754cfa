// session_load: runs the given number of peers on one coordinator, for session_load_benchmark.py.
//
//   session_load --address HOST:PORT --dir COORDINATOR_DIR --peers N --rounds N --folder FOLDER
//
// Every peer has an identity of its own, signed by the authority in the coordinator's folder, a
// connection of its own with mutual TLS, and a Session on it over the production transport. It
// sends everything that a real peer sends to the coordinator: Hello, what its worker loaded,
// heartbeats, signed updates, votes, what it has committed. It trains nothing and holds no tensor:
// updates and means are digests on which all agree. The first peers listen, so that others could
// dial them; all others only dial out. No worker is ready before all have joined.
//
// Prints one JSON object per line: one when all have joined, and one for each round.
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "atoll/v1/membership.pb.h"
#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/grpc_transport.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"
#include "membership/history/signing_key.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

namespace tls = grpc::experimental;

struct Options {
  std::string address, dir, folder;
  int peers = 100, rounds = 3, dialable = 16, regions = 8, at_once = 64;
  uint64_t parameters = 1000000;
  double train_seconds = 3, failure_timeout = 10, seconds = 600;
};

// As MakeTlsCredentials, but from memory: MakeTlsCredentials has a thread for each folder.
TlsCredentials TlsOf(const Credentials& own) {
  const auto provider = std::make_shared<tls::StaticDataCertificateProvider>(
      own.authority, std::vector<tls::IdentityKeyCertPair>{{own.key, own.certificate}});
  tls::TlsChannelCredentialsOptions dialling;
  dialling.set_certificate_provider(provider);
  dialling.watch_root_certs();
  dialling.watch_identity_key_cert_pairs();
  dialling.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  TlsCredentials made;
  made.channel = tls::TlsCredentials(dialling);
  made.refused = std::make_shared<RefusedKeys>();
  return made;
}

std::string StateDigest(uint64_t version) {
  return ToBytes(DigestBuilder("state").U64(version).Finish());
}

// What all peers share: all get the same messages, so each is parsed once, and all give the same
// answers, so each is packed once.
class Common {
 public:
  Common(PosixExecutor& executor, const Options& options) : options_(options), executor_(executor) {
    v1::PeerMessage message;
    v1::WorkerReady& worker = *message.mutable_worker_ready();
    v1::Tensor* const tensor = worker.mutable_manifest()->add_tensors();
    tensor->set_name("w");
    tensor->add_shape(options.parameters);
    worker.mutable_manifest()->set_elements(options.parameters);
    worker.set_data_digest(std::string(kDigestBytes, 'd'));
    manifest_ = worker.manifest();
    worker_ready_ = PackShared(message);
    message.mutable_heartbeat()->mutable_progress()->set_phase("training");
    heartbeat_ = PackShared(message);
  }

  // Stays as it is until another frame is parsed.
  const v1::CoordinatorMessage& Parse(const Frame& frame) {
    const absl::string_view bytes = frame.bytes();
    ++frames_;
    if (bytes == parsed_bytes_) return parsed_;
    parsed_bytes_ = std::string(bytes);
    CHECK_OK(Unpack(frame, &parsed_));
    return parsed_;
  }

  void NoteGenesis(const v1::Genesis& genesis) {
    if (!header_digest_.empty()) return;
    header_digest_ = ToBytes(GenesisDigest(genesis));
    MakeSynced();
  }
  void NoteHeader(const v1::EntryHeader& header) {
    if (header.version() <= version_) return;
    version_ = header.version();
    header_digest_ = ToBytes(HeaderDigest(header));
    MakeSynced();
  }
  const Frame& VoteFor(const v1::Plan& plan) {
    if (vote_version_ == plan.version() && vote_revision_ == plan.revision()) return vote_;
    vote_version_ = plan.version();
    vote_revision_ = plan.revision();
    v1::PeerMessage message;
    v1::Vote& vote = *message.mutable_vote();
    vote.set_version(plan.version());
    vote.set_epoch(plan.epoch());
    vote.set_revision(plan.revision());
    vote.set_payload_digest(
        ToBytes(DigestBuilder("payload").U64(plan.version()).U64(plan.revision()).Finish()));
    vote.set_state_digest(StateDigest(plan.version() - 1));
    const size_t contributors =
        IsBrief(plan) ? plan.contributor_count() : static_cast<size_t>(plan.contributors_size());
    std::string all(BitmapBytes(contributors), '\0');
    for (size_t i = 0; i < contributors; ++i) SetBit(&all, i);
    MeanRecordsBuilder builder;
    for (const v1::Shard& shard : plan.shards()) {
      builder.BeginShard(shard.first_chunk(), shard.reducer());
      builder.Add(all, {}, shard.chunks());
    }
    *vote.mutable_records() = builder.Take();
    vote_ = PackShared(message);
    return vote_;
  }

  // When the last update of a version was offered, and the first plan came to the last peer.
  void NoteReady() { last_ready_ = executor_.Now(); }
  void NotePlan(const v1::Plan& plan) {
    if (plan.revision() == 1) last_plan_ = executor_.Now();
    ++plans_;
  }
  // One more of the peers holds the newest version; true: all that are there do now.
  bool NoteCommitted() { return ++committed_ + static_cast<int>(broken_) == options_.peers; }
  void PrintRound() {
    uint64_t told = 0;
    for (const auto& [kind, bytes] : told_) told += bytes;
    const double peers = options_.peers;
    const absl::Time now = executor_.Now();
    std::cout << absl::StrFormat(
        "{\"round\": %d, \"round_seconds\": %.3f, \"plan_seconds\": %.3f, \"plans\": %d, "
        "\"told_bytes_a_peer\": %.0f, \"told\": {%s}, \"frames\": %d, \"broken\": %d}\n",
        version_, absl::ToDoubleSeconds(now - round_began_),
        absl::ToDoubleSeconds(last_plan_ - last_ready_), plans_, static_cast<double>(told) / peers,
        absl::StrJoin(told_, ", ",
                      [peers](std::string* out, const auto& one) {
                        absl::StrAppendFormat(out, "\"%s\": %.0f", one.first,
                                              static_cast<double>(one.second) / peers);
                      }),
        frames_, broken_);
    std::cout.flush();
    BeginRound();
  }
  void BeginRound() {
    round_began_ = executor_.Now();
    told_.clear();
    plans_ = committed_ = 0;
    frames_ = 0;
  }
  void NoteTold(const v1::CoordinatorMessage& message, size_t bytes) {
    const auto* const field = v1::CoordinatorMessage::descriptor()->FindFieldByNumber(
        static_cast<int>(message.message_case()));
    told_[field == nullptr ? "none" : field->name()] += bytes;
  }
  void NoteBroken(const std::string& peer, const absl::Status& status) {
    if (broken_++ < 5) std::cerr << peer << ": " << status << "\n";
  }

  const Options& options() const { return options_; }
  const v1::Manifest& manifest() const { return manifest_; }
  const Frame& worker_ready() const { return worker_ready_; }
  const Frame& heartbeat() const { return heartbeat_; }
  const Frame& synced() const { return synced_; }
  const Frame& state_report() const { return state_report_; }
  uint64_t version() const { return version_; }
  bool has_genesis() const { return !header_digest_.empty(); }
  uint64_t broken() const { return broken_; }

 private:
  void MakeSynced() {
    v1::PeerMessage message;
    message.mutable_synced()->set_version(version_);
    message.mutable_synced()->set_header_digest(header_digest_);
    if (version_ > 0) message.mutable_synced()->mutable_offer()->set_oldest_entry(1);
    synced_ = PackShared(message);
    message.mutable_state_report()->set_version(version_);
    message.mutable_state_report()->set_state_digest(StateDigest(version_));
    state_report_ = PackShared(message);
  }

  const Options options_;
  PosixExecutor& executor_;
  v1::Manifest manifest_;
  Frame worker_ready_, heartbeat_, synced_, state_report_, vote_;
  uint64_t vote_version_ = 0, version_ = 0;
  uint32_t vote_revision_ = 0;
  std::string header_digest_, parsed_bytes_;
  v1::CoordinatorMessage parsed_;
  std::map<std::string, uint64_t> told_;  // bytes, by what it was
  absl::Time round_began_, last_ready_, last_plan_;
  uint64_t plans_ = 0, frames_ = 0, broken_ = 0;
  int committed_ = 0;
};

class LoadPeer {
 public:
  LoadPeer(PosixExecutor& executor, Common& common, int number, TlsCredentials own, SigningKey key)
      : executor_(executor),
        common_(common),
        number_(number),
        id_(IdOf(number)),
        key_(std::move(key)),
        transport_(executor, NetworkOf(common.options(), std::move(own))) {}

  static std::string IdOf(int number) { return absl::StrFormat("load-%05d", number); }

  // `joined` once it is welcome.
  void Dial(Task joined) {
    joined_ = std::move(joined);
    const Options& options = common_.options();
    if (number_ < options.dialable) {
      auto listening = transport_.Listen("127.0.0.1:0", [](const std::string&, auto call) {
        call->Start({});
        call->Finish(absl::UnimplementedError("it holds nothing"));
      });
      CHECK_OK(listening.status());
      listener_ = *std::move(listening);
    }
    call_ =
        transport_.Dial(options.address, "/atolld.v1.Membership/Session", absl::InfiniteDuration());
    call_->Start({[this](const Frame& frame) {
                    OnFrame(frame);
                    call_->Read();
                  },
                  nullptr,
                  [this](const absl::Status& status) {
                    common_.NoteBroken(id_, status);
                    open_ = false;
                    if (joined_) std::exchange(joined_, nullptr)();
                  }});
    call_->Read();
    v1::PeerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_peer(id_);
    if (listener_ != nullptr) hello.set_address(listener_->address());
    hello.set_numerics(1);
    hello.set_pid(static_cast<uint32_t>(number_) + 1);
    hello.set_region(absl::StrCat("region-", number_ % options.regions));
    hello.set_signing_key(key_.public_key());
    hello.set_instance(executor_.Random());
    call_->Write(Pack(message));
  }

  void SayWorkerReady() { Say(common_.worker_ready()); }

 private:
  static GrpcTransport::Options NetworkOf(const Options& options, TlsCredentials own) {
    GrpcTransport::Options network;
    network.failure_timeout = absl::Seconds(options.failure_timeout);
    network.tls = std::move(own);
    return network;
  }

  void Say(const Frame& frame) {
    if (open_) call_->Write(frame);
  }

  void Beat() {
    if (!open_) return;
    Say(common_.heartbeat());
    executor_.RunAfter(absl::Seconds(common_.options().failure_timeout) / 4, [this] { Beat(); });
  }

  void OnFrame(const Frame& frame) {
    const v1::CoordinatorMessage& message = common_.Parse(frame);
    common_.NoteTold(message, frame.bytes().size());
    switch (message.message_case()) {
      case v1::CoordinatorMessage::kWelcome:
        return OnWelcome(message.welcome());
      case v1::CoordinatorMessage::kMakeInitialState:
        return MakeInitialState();
      case v1::CoordinatorMessage::kTrain:
        return OnTrain(message.train());
      case v1::CoordinatorMessage::kPlan:
        common_.NotePlan(message.plan());
        return Say(common_.VoteFor(message.plan()));
      case v1::CoordinatorMessage::kCommit: {
        common_.NoteHeader(message.commit().header());
        const bool all = common_.NoteCommitted();
        Say(common_.synced());
        Say(common_.state_report());
        if (!all) return;
        common_.PrintRound();
        if (common_.version() >= static_cast<uint64_t>(common_.options().rounds)) executor_.Stop();
        return;
      }
      default:
        return;
    }
  }

  void OnWelcome(const v1::Welcome& welcome) {
    epoch_ = welcome.epoch();
    spec_ = welcome.spec();
    if (welcome.has_genesis()) {
      common_.NoteGenesis(welcome.genesis());
      Say(common_.synced());
    }
    if (!joined_) return;
    Beat();
    std::exchange(joined_, nullptr)();
  }

  void MakeInitialState() {
    v1::PeerMessage message;
    v1::Genesis& genesis = *message.mutable_initial_state()->mutable_genesis();
    *genesis.mutable_spec() = spec_;
    genesis.mutable_spec()->mutable_data()->set_digest(std::string(kDigestBytes, 'd'));
    *genesis.mutable_manifest() = common_.manifest();
    genesis.set_state_digest(StateDigest(0));
    Say(Pack(message));
  }

  // Peers are not equally fast.
  void OnTrain(const v1::Train& train) {
    const double share = 0.5 + static_cast<double>(executor_.Random() % 1000) / 1000;
    executor_.RunAfter(absl::Seconds(common_.options().train_seconds * share),
                       [this, train] { SayReady(train); });
  }

  void SayReady(const v1::Train& train) {
    v1::PeerMessage message;
    v1::Ready& ready = *message.mutable_ready();
    ready.set_version(train.version());
    ready.set_base_version(train.version() - 1);
    ready.set_epoch(epoch_);
    ready.set_steps(train.steps());
    ready.set_tokens(1000);
    ready.set_loss(2);
    ready.set_train_seconds(common_.options().train_seconds);
    ready.set_train_number(train.number());
    ready.set_contribution_root(ToBytes(DigestBuilder("root").Bytes(id_).Finish()));
    ready.set_state_digest(StateDigest(train.version() - 1));
    *ready.mutable_samples() = train.samples();
    SignContribution(key_, spec_.run_id(), id_, &ready);
    Say(Pack(message));
    common_.NoteReady();
  }

  PosixExecutor& executor_;
  Common& common_;
  const int number_;
  const std::string id_;
  const SigningKey key_;
  GrpcTransport transport_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Call> call_;
  Task joined_;
  v1::RunSpec spec_;
  uint64_t epoch_ = 0;
  bool open_ = true;
};

class Load {
 public:
  Load(PosixExecutor& executor, const Options& options, Authority& authority)
      : executor_(executor), authority_(authority), common_(executor, options) {}

  absl::Status Prepare() {
    PosixFiles files;
    const Options& options = common_.options();
    for (int i = 0; i < options.peers; ++i) {
      const std::string id = LoadPeer::IdOf(i);
      ASSIGN_OR_RETURN(const Credentials own,
                       MakeCredentials(authority_, Role::kPeer, id, executor_.WallTime()));
      TlsCredentials tls_of;
      if (i < options.dialable) {
        const std::string folder = absl::StrCat(options.folder, "/", id);
        RETURN_IF_ERROR(SaveCredentials(files, folder, own));
        tls_of = MakeTlsCredentials(folder);
      } else {
        tls_of = TlsOf(own);
      }
      ASSIGN_OR_RETURN(SigningKey key, SigningKey::Generate());
      peers_.push_back(
          std::make_unique<LoadPeer>(executor_, common_, i, std::move(tls_of), std::move(key)));
    }
    return absl::OkStatus();
  }

  void Start() {
    began_ = executor_.Now();
    for (int i = 0; i < common_.options().at_once; ++i) DialNext();
  }

  bool finished() const {
    return common_.version() >= static_cast<uint64_t>(common_.options().rounds);
  }

 private:
  void DialNext() {
    if (dialled_ == peers_.size()) return;
    peers_[dialled_++]->Dial([this] {
      ++joined_;
      DialNext();
      if (joined_ == peers_.size()) OnAllJoined();
    });
  }

  void OnAllJoined() {
    std::cout << absl::StrFormat("{\"joined\": %d, \"join_seconds\": %.3f, \"broken\": %d}\n",
                                 joined_, absl::ToDoubleSeconds(executor_.Now() - began_),
                                 common_.broken());
    std::cout.flush();
    common_.BeginRound();
    for (const auto& peer : peers_) peer->SayWorkerReady();
  }

  PosixExecutor& executor_;
  Authority& authority_;
  Common common_;
  std::vector<std::unique_ptr<LoadPeer>> peers_;
  size_t dialled_ = 0, joined_ = 0;
  absl::Time began_;
};

absl::Status Run(const Options& options) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  PosixFiles files;
  PosixExecutor executor(PosixExecutor::Options{1, 0});
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   Authority::Open(files, absl::StrCat(options.dir, "/", kAuthorityFolder), "",
                                   executor.WallTime(), [&executor] { return executor.Random(); }));
  // Where the process ends its peers end: thousands of Sessions are not closed one after another.
  auto& load = *new Load(executor, options, *authority);
  RETURN_IF_ERROR(load.Prepare());
  executor.Post([&load] { load.Start(); });
  executor.RunUntil([&load] { return load.finished(); }, absl::Seconds(options.seconds));
  std::_Exit(load.finished() ? 0 : 1);
}

int Main(int argc, char** argv) {
  CLI::App app{"As many peers as asked on one coordinator."};
  Options options;
  app.add_option("--address", options.address)->required();
  app.add_option("--dir", options.dir, "the coordinator's")->required();
  app.add_option("--folder", options.folder, "for what the peers keep")->required();
  app.add_option("--peers", options.peers);
  app.add_option("--rounds", options.rounds);
  app.add_option("--dialable", options.dialable, "of them, how many listen");
  app.add_option("--regions", options.regions);
  app.add_option("--at-once", options.at_once, "so many join at a time");
  app.add_option("--parameters", options.parameters);
  app.add_option("--train-seconds", options.train_seconds, "from half of it to half as much again");
  app.add_option("--failure-timeout", options.failure_timeout,
                 "as the coordinator's config has it");
  app.add_option("--seconds", options.seconds, "the longest that it lasts");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }
